"""
Which of my features matter?
============================

The diagonal of a learned metric says how much a step along each feature counts. Its sum is the size of the metric,
which answers show less surely than its shape, so the shares are what to look at; draws from the posterior say how sure
they are. The train journeys and the travelers here are simulated: price and time matter most, changes a little, and the
color of the train not at all.
"""

import matplotlib.pyplot as plt
import numpy as np

from crowdmetric import PopulationMetric
from crowdmetric.intervals import entries, intervals_from
from crowdmetric.simulate import answer
from crowdmetric.symmetric import smat

names = ["price", "time", "changes", "comfort", "color"]
rng = np.random.default_rng(0)
journeys = rng.normal(size=(80, 5))  # standardized: features in different units cannot be compared
truth = np.diag([1.2, 0.8, 0.3, 0.5, 0.0])
truth[0, 1] = truth[1, 0] = 0.4  # expensive and slow is worse than the sum of both

person = np.repeat(np.arange(1_200), 4)
left = rng.integers(80, size=len(person))
pairs = np.column_stack([left, (left + rng.integers(1, 80, size=len(person))) % 80])
ideal = 0.7 * rng.normal(size=(1_200, 5))
y = answer(journeys, pairs, ideal[person], truth, seed=1)

model = PopulationMetric(journeys).fit(pairs, y, users=person)


def shares(metrics):
    """Return the part of each feature in the sum of the diagonal."""
    diagonal = np.diagonal(metrics, axis1=-2, axis2=-1)
    return diagonal / diagonal.sum(axis=-1, keepdims=True)


found = intervals_from(shares(smat(model.metric_draws_)))  # medians and 90 % intervals

# %%
# A share is never below zero, so ask how far its interval reaches up: that of the color ends near zero.

order = np.argsort(found.estimate)
figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
place = np.arange(5)
axes.hlines(
    place,
    100 * found.low[order],
    100 * found.high[order],
    color="#0072B2",
    linewidth=5,
    alpha=0.35,
    label="90 % interval",
)
axes.plot(100 * found.estimate[order], place, "o", color="#0072B2", label="learned")
axes.plot(100 * shares(truth)[order], place, "x", color="black", label="true")
axes.set_yticks(place, [names[i] for i in order])
axes.set(xlabel="how much it counts, % of all", xlim=(-1, None))
axes.legend(frameon=False, loc="lower right")

# %%
# Off the diagonal stand features that count together. Price and time do. Of the ten pairs, one or two others may
# stand clear of zero by chance, since a 90 % interval misses one time in ten: read how large they are.

together = entries(model)
for i, j in zip(*np.triu_indices(5, 1), strict=True):
    if together.low[i, j] > 0 or together.high[i, j] < 0:
        print(f"{names[i]} and {names[j]}: {together.low[i, j]:.2f} to {together.high[i, j]:.2f}")
