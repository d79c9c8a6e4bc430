"""
From "which is more like this?" to a distance
=============================================

You have items with features, and people who say which of two items is more like a third. You want a distance that
agrees with them. This lesson goes the whole way with sixty colors: judgements, fit, doubt, evaluation, use.

**What is real here and what is not.** The colors are real, as far as a screen shows them. The people are simulated:
they look at the hue more than at the lightness. Only that way can we compare what is learned with what is true.
"""

# %%
# 1. Items
# --------
#
# Sixty colors, each with three features: red against green, yellow against blue, and lightness.

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(4)
rgb = rng.uniform(0.05, 0.95, size=(60, 3))
opponent = np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0], [0.6, 0.6, 0.6]])  # rows: red–green, yellow–blue, lightness
colors = (rgb - 0.5) @ opponent.T
features = ["red–green", "yellow–blue", "lightness"]

# %%
# 2. Ask
# ------
#
# Forty people answer fifty questions each: "which of these two is more like this one?" Such a
# judgement says more than a preference, because nobody's ideal has to be guessed. Your own judgements come from a
# file, ``Judgements.read("judgements.csv", items="items.csv")``; :doc:`/how-to/similarity` has the columns.
# **The estimator sees nothing of the metric in this cell.**

from crowdmetric.simulate_judgements import simulate_judgements

truth = np.array([[4.0, 0.8, 0.0], [0.8, 2.5, 0.0], [0.0, 0.0, 0.6]])
study = simulate_judgements(colors, None, 2_000, kind="triplet", metric=truth, people=40, beta=2.0, seed=1)
judgements = study.judgements
print(judgements.summary())

# %%
# 3. Learn
# --------
#
# How much freedom the metric gets is decided by items left out: a multiple of the identity, one weight per feature,
# or a full matrix.

from crowdmetric import SimilarityMetric
from crowdmetric.symmetric import shape_error

model = SimilarityMetric(colors).fit(judgements)
print("\n".join(model.candidates_))
print(f"chosen: {model.structure_}")
print(
    f"error up to scale: {shape_error(model.metric_, truth):.2f}, of plain distance {shape_error(np.eye(3), truth):.2f}"
)

# %%
# 4. Doubt
# --------
#
# What does the crowd look at, and how sure is that?

from crowdmetric.intervals import entries

found = entries(model)
for row, name in enumerate(features):
    print(f"{name}: {found.estimate[row, row]:.1f} ({found.low[row, row]:.1f} to {found.high[row, row]:.1f})")

# %%
# 5. Evaluate
# -----------
#
# Judgements about colors that the model has not seen, predicted by plain distance and by the learned one. People
# contradict themselves, so no model can be right all the time.

from crowdmetric.evaluate import evaluate_similarity

print(evaluate_similarity(colors, judgements, ["euclid", "chosen"], splits=["items"], folds=3).summary())

# %%
# 6. Use it
# ---------
#
# A fitted model is a transformer: after it, Euclidean distance is the crowd's distance. Each row below is a color and
# the six nearest to it, by plain distance and by the learned one.

from sklearn.neighbors import NearestNeighbors


def nearest(coordinates, item):
    """Return an item and the six nearest to it."""
    return NearestNeighbors(n_neighbors=7).fit(coordinates).kneighbors(coordinates[[item]])[1][0]


shown = [3, 11, 25, 40]
figure, axes = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained")
for picture, (title, space) in zip(axes, {"plain": colors, "learned": model.transform(colors)}.items(), strict=True):
    picture.imshow([rgb[nearest(space, item)] for item in shown])
    picture.axvline(0.5, color="white", linewidth=4)
    picture.set(title=title, xticks=[], yticks=[])

# %%
# The learned neighbors agree in hue and differ in lightness, as these people would have it.
#
# Where to go from here
# ---------------------
#
# - :ref:`sphx_glr_gallery_similarity_head.py` does the same for an embedding, and exports a linear layer.
# - :ref:`sphx_glr_gallery_one_metric.py` asks whether people choose by the metric they compare by.
# - ``crowdmetric fit items.csv judgements.csv --out model`` does it from a shell and leaves a report.
