"""
How do I align an embedding with "which is the odd one out?"
============================================================

64 numbers per item stand for the embedding of a network. They vary in ten directions, of which people look at three.
Odd-one-out answers find them, and a linear layer keeps them. Items and judgements are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np

from crowdmetric import SimilarityMetric
from crowdmetric.evaluate import evaluate_similarity
from crowdmetric.export import linear_head
from crowdmetric.preprocess import ItemMap
from crowdmetric.simulate_judgements import simulate_judgements

rng = np.random.default_rng(0)
meaning = rng.normal(size=(120, 10))
embeddings = meaning @ np.linalg.qr(rng.normal(size=(64, 10))).Q.T + 0.02 * rng.normal(size=(120, 64))

reduce = ItemMap(components=0.9)
items = reduce.fit_transform(embeddings)
print(f"embeddings: {reduce.summary()}")
care = np.diag([0.5, 0.5, 0.5] + [0.005] * 7)
judgements = simulate_judgements(meaning, None, 6_000, kind="odd_one_out", metric=care, beta=1.0).judgements
print(judgements.summary())

# %%
# Is it better than the embedding as it comes, on items that nobody has judged?

found = evaluate_similarity(items, judgements, ["euclid", "chosen"], splits=["items"], folds=3)
accuracy = {name: found.result("items", name).accuracy for name in ("euclid", "chosen")}
print(found.summary())

# %%
# The linear layer: 64 numbers in, 3 out.

model = SimilarityMetric(items).fit(judgements)
head = linear_head(model, reduce, rank=3)
print(f"the head maps {head.weight.shape[1]} numbers to {head.weight.shape[0]}")

strengths = np.linalg.eigvalsh(model.metric_)[::-1]
figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
axes.bar(np.arange(1, len(strengths) + 1), strengths, color="#0072B2")
axes.set(xlabel="direction", ylabel="how much it counts", title="people look at three directions")
