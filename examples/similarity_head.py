"""From an embedding to an aligned head: "which is more like this?" answers turn an embedding into people's similarity.

64 numbers per item stand for the embedding of a network. They vary in ten directions, of which people look at three;
items and judgements are simulated.

python examples/similarity_head.py
"""

from __future__ import annotations

import numpy as np

from crowdmetric import SimilarityMetric
from crowdmetric.evaluate import evaluate_similarity
from crowdmetric.export import linear_head
from crowdmetric.preprocess import ItemMap
from crowdmetric.simulate_judgements import simulate_judgements


def main() -> dict[str, float]:
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(120, 10))
    embeddings = meaning @ np.linalg.qr(rng.normal(size=(64, 10))).Q.T + 0.02 * rng.normal(size=(120, 64))

    reduce = ItemMap(components=0.9)
    items = reduce.fit_transform(embeddings)
    print(f"embeddings: {reduce.summary()}")
    care = np.diag([0.5, 0.5, 0.5] + [0.005] * 7)
    judgements = simulate_judgements(meaning, None, 6_000, kind="odd_one_out", metric=care, beta=1.0).judgements
    print(judgements.summary())

    found = evaluate_similarity(items, judgements, ["euclid", "chosen"], splits=["items"], folds=3)
    print(found.summary())

    model = SimilarityMetric(items).fit(judgements)
    print(model.solution_.summary())
    head = linear_head(model, reduce, rank=3)  # a linear layer: 64 numbers in, 3 out
    print(f"the head maps {head.weight.shape[1]} numbers to {head.weight.shape[0]}")
    return {name: found.result("items", name).accuracy for name in ("euclid", "chosen")}


if __name__ == "__main__":
    main()
