"""Tell wines apart by neighbours that a crowd finds similar: a learned metric inside a scikit-learn pipeline.

The 178 wines are scikit-learn's: three principal directions of what was measured, and beside them two numbers that
nobody tastes (made up: say, how the bottle looks). The crowd is simulated too. People taste the three directions and
overlook the bottle; they are only asked which of two wines they prefer.

python examples/knn_pipeline.py
"""

from __future__ import annotations

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

PEOPLE, QUESTIONS = 1_000, 2


def main() -> dict[str, float]:
    measured, grower = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    tasted = ItemMap(standardise=True, components=3, whiten=True).fit_transform(measured)
    wines = np.hstack([tasted, 3.0 * rng.normal(size=(len(tasted), 2))])

    truth = np.diag([0.8, 0.8, 0.8, 0.003, 0.003])
    people = np.repeat(np.arange(PEOPLE), QUESTIONS)
    left = rng.integers(len(wines), size=len(people))
    pairs = np.column_stack([left, (left + rng.integers(1, len(wines), size=len(people))) % len(wines)])
    favourite = wines[rng.integers(len(wines), size=PEOPLE)]
    y = answer(wines, pairs, favourite[people], truth, seed=1)
    model = PopulationMetric(wines).fit(pairs, y, users=people)

    found = {}
    for name, steps in {"plain": [], "learned": [FrozenEstimator(model)]}.items():
        neighbours = make_pipeline(*steps, KNeighborsClassifier(n_neighbors=3))
        clusters = make_pipeline(*steps, KMeans(3, n_init=10, random_state=0))
        found[name] = float(cross_val_score(neighbours, wines, grower, cv=5).mean())
        found[f"{name} clusters"] = float(adjusted_rand_score(grower, clusters.fit_predict(wines)))
        print(
            f"{name} distance: {found[name]:.0%} of the growers by the three nearest wines; "
            f"three clusters agree with the growers to {found[f'{name} clusters']:.2f} (adjusted Rand)"
        )
    return found


if __name__ == "__main__":
    main()
