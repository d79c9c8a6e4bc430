"""
Search with FAISS under the learned metric
==========================================

A learned metric is a linear layer on top of an embedding: write it, load it anywhere, search with it. 384 numbers per
item stand for a sentence embedding. They vary in eight directions, of which people care about three; items and crowd
are simulated.
"""

import tempfile
from pathlib import Path

import faiss
import matplotlib.pyplot as plt
import numpy as np
from safetensors.numpy import load_file

from crowdmetric import PopulationMetric
from crowdmetric.export import linear_head, write_head
from crowdmetric.preprocess import ItemMap
from crowdmetric.simulate import answer

rng = np.random.default_rng(0)
meaning = rng.normal(size=(2_000, 8))
turn = np.linalg.qr(rng.normal(size=(384, 8))).Q
embeddings = meaning @ turn.T + 0.02 * rng.normal(size=(2_000, 384))

reduce = ItemMap(components=0.9)
items = reduce.fit_transform(embeddings)
print(f"embeddings: {reduce.summary()}")

care = np.diag([2.0, 2.0, 2.0] + [0.02] * 5)
back = turn.T @ reduce.matrix_.T
people = np.repeat(np.arange(1_200), 4)
pairs = rng.integers(2_000, size=(len(people), 2))
ideal = items[rng.integers(2_000, size=1_200)]
y = answer(items, pairs, ideal[people], back.T @ care @ back, seed=1)
model = PopulationMetric(items).fit(pairs, y, users=people)

# %%
# Write the layer as sentence-transformers would, and read it back with nothing but NumPy.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.safetensors"  # what sentence-transformers calls the file of a Dense module
    write_head(linear_head(model, reduce, rank=3), path, "safetensors")
    layer = load_file(path)
vectors = embeddings.astype(np.float32) @ layer["linear.weight"].T + layer["linear.bias"]
print(f"a layer from {layer['linear.weight'].shape[1]} to {layer['linear.weight'].shape[0]} numbers")

# %%
# Search, and compare with what the crowd itself finds nearest.


def ten_nearest(coordinates):
    """Return the ten nearest of each of the first 200 items."""
    index = faiss.IndexFlatL2(coordinates.shape[1])
    index.add(np.ascontiguousarray(coordinates, dtype=np.float32))
    return index.search(np.ascontiguousarray(coordinates[:200], dtype=np.float32), 11)[1][:, 1:]


wanted = ten_nearest(meaning @ np.sqrt(care))
hits = {
    name: [np.isin(a, b).mean() for a, b in zip(wanted, ten_nearest(space), strict=True)]
    for name, space in {"learned": vectors, "plain": embeddings}.items()
}
shared = {name: float(np.mean(values)) for name, values in hits.items()}
print(f"of the ten nearest for the crowd, the layer finds {shared['learned']:.0%}, the embedding {shared['plain']:.0%}")

figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
axes.hist(hits.values(), bins=np.arange(-0.05, 1.1, 0.1), color=["#0072B2", "#E69F00"], label=["layer", "embedding"])
axes.set(xlabel="share of the crowd's ten nearest that is found", ylabel="queries")
axes.legend(frameon=False)
