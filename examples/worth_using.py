"""
Is the metric worth using?
==========================

It is if it predicts what people say better than models that need no metric. :func:`~crowdmetric.evaluate.evaluate`
hides answers, people and items in turn and compares. This crowd is simulated and has ideal points, so a metric
should win; for real people see :doc:`/explanation/real-data`.
"""

import matplotlib.pyplot as plt
import numpy as np

from crowdmetric import Comparisons
from crowdmetric.evaluate import evaluate
from crowdmetric.simulate import answer

rng = np.random.default_rng(0)
items = rng.normal(size=(40, 3))
truth = np.diag([1.5, 0.5, 0.05])
person = np.repeat(np.arange(300), 10)
left = rng.integers(40, size=len(person))
pairs = np.column_stack([left, (left + rng.integers(1, 40, size=len(person))) % 40])
ideal = 0.8 * rng.normal(size=(300, 3))
y = answer(items, pairs, ideal[person], truth, seed=1)

found = evaluate(
    items,
    Comparisons.from_arrays(person, pairs, y),
    ["bradley-terry", "linear", "identity", "population"],
    repeats=2,
    jobs=1,
)
print(found.summary())

# %%
# What is gained over a coin, in nats per hidden answer, for each of the three questions.

splits = {"pairs": "new questions", "people": "new people", "items": "new items"}
models = ["bradley-terry", "linear", "identity", "population"]
figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for number, model in enumerate(models):
    gains = [np.log(2) + found.mean(split, model) for split in splits]
    axes.bar(np.arange(3) + 0.2 * number - 0.3, gains, width=0.2, label=model)
axes.set_xticks(np.arange(3), splits.values())
axes.set(ylabel="nats better than a coin")
axes.legend(frameon=False)
