"""A learned metric as a linear layer on top of a sentence embedding: write it, load it anywhere, search with it.

384 numbers an item stand for a sentence embedding. They vary in eight directions, of which people care about three;
items and crowd are simulated.

python examples/embedding_head.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import faiss
import numpy as np
from safetensors.numpy import load_file

from crowdmetric import PopulationMetric
from crowdmetric.export import linear_head, write_head
from crowdmetric.preprocess import ItemMap
from crowdmetric.simulate import answer

WIDTH, MEANINGS = 384, 8


def main() -> dict[str, float]:
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(2_000, MEANINGS))
    turn = np.linalg.qr(rng.normal(size=(WIDTH, MEANINGS))).Q
    embeddings = meaning @ turn.T + 0.02 * rng.normal(size=(2_000, WIDTH))

    reduce = ItemMap(components=0.9)
    items = reduce.fit_transform(embeddings)
    print(f"embeddings: {reduce.summary()}")
    care = np.diag([2.0, 2.0, 2.0] + [0.02] * 5)
    back = turn.T @ reduce.matrix_.T
    truth = back.T @ care @ back
    people = np.repeat(np.arange(1_200), 4)
    pairs = rng.integers(2_000, size=(len(people), 2))
    ideal = items[rng.integers(2_000, size=1_200)]
    y = answer(items, pairs, ideal[people], truth, seed=1)
    model = PopulationMetric(items).fit(pairs, y, users=people)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"  # what sentence-transformers calls the file of a Dense module
        write_head(linear_head(model, reduce, rank=3), path, "safetensors")
        layer = load_file(path)
    vectors = embeddings.astype(np.float32) @ layer["linear.weight"].T + layer["linear.bias"]
    print(f"a layer from {layer['linear.weight'].shape[1]} to {layer['linear.weight'].shape[0]} numbers")

    def ten_nearest(coordinates: np.ndarray) -> np.ndarray:
        index = faiss.IndexFlatL2(coordinates.shape[1])
        index.add(np.ascontiguousarray(coordinates, dtype=np.float32))
        return index.search(np.ascontiguousarray(coordinates[:200], dtype=np.float32), 11)[1][:, 1:]

    wanted = ten_nearest(meaning @ np.sqrt(care))
    shared = {
        name: float(np.mean([np.isin(a, b).mean() for a, b in zip(wanted, ten_nearest(space), strict=True)]))
        for name, space in {"learned": vectors, "plain": embeddings}.items()
    }
    print(
        f"of the ten nearest for the crowd, the layer finds {shared['learned']:.0%}, "
        f"the embedding {shared['plain']:.0%}"
    )
    return shared


if __name__ == "__main__":
    main()
