"""
How do I make a vector index return what people find similar?
=============================================================

Reduce the items, learn a metric, and export one matrix: after it, plain Euclidean neighbors are the crowd's
neighbors. The items are handwritten digits, whose 64 pixels stand for an embedding. The crowd is simulated: it cares
about the second direction only half as much, and about the sixth not at all.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from crowdmetric import IdealPointMetric
from crowdmetric.export import linear_head
from crowdmetric.preprocess import ItemMap
from crowdmetric.simulate import answer

images = load_digits().images / 16.0
items = images.reshape(len(images), 64)
reduce = ItemMap(components=6)
reduced = reduce.fit_transform(items)
print(f"items: {reduce.summary()}")

truth = np.diag([1.0, 0.25, 1.0, 1.0, 1.0, 0.0])
rng = np.random.default_rng(0)
pairs = rng.integers(0, len(items), size=(6_000, 2))
users = np.arange(6_000) // 20
ideal = reduced[rng.integers(0, len(items), size=300)]
y = answer(reduced, pairs, ideal[users], truth, seed=1)

model = IdealPointMetric(reduced, metric_bound=3.0, ideal_bound=6.0, tol=1e-5).fit(pairs, y, users=users)
head = linear_head(model, reduce)  # pixels in, coordinates out
vectors = head(items)  # float32, ready for FAISS, hnswlib or a column of pgvector

# %%
# How many of the ten nearest by the crowd's own metric are found?


def neighbors(coordinates):
    """Return the ten nearest items of each."""
    return NearestNeighbors(n_neighbors=11).fit(coordinates).kneighbors(coordinates, return_distance=False)[:, 1:]


wanted = neighbors(reduced @ np.sqrt(truth))
shared = {
    name: float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(wanted, neighbors(space), strict=True)]))
    for name, space in {"learned": vectors, "plain": reduced}.items()
}
print(f"learned index {shared['learned']:.0%}, plain distance {shared['plain']:.0%}")

# %%
# One digit and its neighbors: by plain distance, and by the learned one.

rows = {"plain": neighbors(reduced)[17], "learned": neighbors(vectors)[17]}
figure, axes = plt.subplots(2, 7, figsize=(7, 2.4), layout="constrained")
for row, (name, found) in zip(axes, rows.items(), strict=True):
    for picture, item in zip(row, [17, *found[:6]], strict=True):
        picture.imshow(images[item], cmap="gray_r")
        picture.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
    row[0].spines[:].set_color("#0072B2")
