"""From embeddings to an index whose neighbours are those of the crowd: PCA, fit, export, search.

python examples/neighbours_by_metric.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from crowdmetric import IdealPointMetric
from crowdmetric.export import linear_head
from crowdmetric.preprocess import ItemMap
from crowdmetric.simulate import responses


def main() -> dict[str, float]:
    items = load_digits().data / 16.0  # 1,797 pictures of 64 pixels stand for embeddings
    reduce = ItemMap(components=6)
    reduced = reduce.fit_transform(items)
    print(f"items: {reduce.summary()}")

    # a crowd that cares about the second direction only half as much, and about the sixth not at all
    truth = np.diag([1.0, 0.25, 1.0, 1.0, 1.0, 0.0])
    generator = np.random.default_rng(0)
    pairs = generator.integers(0, len(items), size=(6_000, 2))
    users = np.arange(6_000) // 20
    ideal = reduced[generator.integers(0, len(items), size=300)][users]
    left, right = reduced[pairs[:, 0]] - ideal, reduced[pairs[:, 1]] - ideal
    y = responses(np.sum((left @ truth) * left - (right @ truth) * right, axis=1), 1.0, generator)

    model = IdealPointMetric(reduced, metric_bound=3.0, ideal_bound=6.0, tol=1e-5).fit(pairs, y, users=users)
    head = linear_head(model, reduce)  # pixels in, coordinates out
    vectors = head(items)  # float32, ready for FAISS, hnswlib or a column of pgvector

    def neighbours(coordinates: np.ndarray) -> np.ndarray:
        return NearestNeighbors(n_neighbors=11).fit(coordinates).kneighbors(coordinates, return_distance=False)[:, 1:]

    wanted = neighbours(reduced @ np.sqrt(truth))
    shared = {
        name: float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(wanted, neighbours(space), strict=True)]))
        for name, space in {"learned": vectors, "plain": reduced}.items()
    }
    print(f"of the ten nearest by the crowd's metric, {shared['learned']:.0%} are nearest by the learned one")
    print(f"and {shared['plain']:.0%} by plain distance")
    return shared


if __name__ == "__main__":
    main()
