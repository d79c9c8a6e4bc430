"""
How do I use a learned metric in a scikit-learn pipeline?
=========================================================

A fitted model is a transformer: after it, Euclidean distance is the learned one. The 178 wines are scikit-learn's:
three principal directions of what was measured, and beside them two numbers that nobody tastes (made up: say, how the
bottle looks). The crowd is simulated. People taste the three directions, overlook the bottle, and are only asked
which of two wines they prefer.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from crowdmetric import PopulationMetric
from crowdmetric.preprocess import ItemMap
from crowdmetric.simulate import answer

measured, grower = load_wine(return_X_y=True)
rng = np.random.default_rng(0)
tasted = ItemMap(standardize=True, components=3, whiten=True).fit_transform(measured)
wines = np.hstack([tasted, 3.0 * rng.normal(size=(len(tasted), 2))])

truth = np.diag([0.8, 0.8, 0.8, 0.003, 0.003])
people = np.repeat(np.arange(1_000), 2)
left = rng.integers(len(wines), size=len(people))
pairs = np.column_stack([left, (left + rng.integers(1, len(wines), size=len(people))) % len(wines)])
favorite = wines[rng.integers(len(wines), size=1_000)]
y = answer(wines, pairs, favorite[people], truth, seed=1)
model = PopulationMetric(wines).fit(pairs, y, users=people)

# %%
# Who grew a wine? Ask its three nearest neighbors, or look for three clusters.

found = {}
for name, steps in {"plain": [], "learned": [FrozenEstimator(model)]}.items():
    nearest = make_pipeline(*steps, KNeighborsClassifier(n_neighbors=3))
    clusters = make_pipeline(*steps, KMeans(3, n_init=10, random_state=0))
    found[name] = float(cross_val_score(nearest, wines, grower, cv=5).mean())
    found[f"{name} clusters"] = float(adjusted_rand_score(grower, clusters.fit_predict(wines)))
    print(
        f"{name} distance: {found[name]:.0%} of the growers by the three nearest wines; "
        f"three clusters agree with the growers to {found[f'{name} clusters']:.2f} (adjusted Rand)"
    )

# %%
# The wines as plain distance sees them, and as the crowd does: the first two principal directions of each.

figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
for picture, (title, points) in zip(axes, {"plain": wines, "learned": model.transform(wines)}.items(), strict=True):
    shown = ItemMap(components=2).fit_transform(points)
    picture.scatter(*shown.T, c=grower, cmap="viridis", s=14)
    picture.set(title=title, xticks=[], yticks=[], aspect="equal")
