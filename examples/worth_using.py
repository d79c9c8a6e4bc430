"""
Is the metric worth using?
==========================

It is if it predicts what people say better than models that need no metric.
:func:`~crowdmetric.evaluate.evaluate` hides answers, people and items in turn and compares. This crowd is simulated and
has ideal points, so that a metric should win; for real people see :doc:`/explanation/real-data`.
"""

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
# The same as a picture. Zero would be perfect foresight, the dotted line a coin.

found.plot()
