"""
Which of my features matter?
============================

The diagonal of a learned metric says how much a step along each feature counts, and the draws from its posterior say
how sure that is. The train journeys and the travelers here are simulated: price and time matter, changes a little,
and the color of the train not at all.
"""

import matplotlib.pyplot as plt
import numpy as np

from crowdmetric import PopulationMetric
from crowdmetric.intervals import entries
from crowdmetric.simulate import answer

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
found = entries(model)  # 90 % intervals for every entry of the metric

# %%
# A feature matters if its interval lies clear of zero.

order = np.argsort(np.diag(model.metric_))
estimate, low, high = (np.diag(values)[order] for values in (found.estimate, found.low, found.high))
figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
place = np.arange(5)
axes.hlines(place, low, high, color="#0072B2", linewidth=5, alpha=0.35, label="90 % interval")
axes.plot(estimate, place, "o", color="#0072B2", label="learned")
axes.plot(np.diag(truth)[order], place, "x", color="black", label="true")
axes.set_yticks(place, [names[i] for i in order])
axes.set(xlabel="how much it counts", xlim=(-0.05, None))
axes.legend(frameon=False, loc="lower right")

# %%
# Off the diagonal stand features that count together. Price and time do. Of the ten pairs, one or two others may
# stand clear of zero by chance, since a 90 % interval misses one time in ten: read how large they are.

for i, j in zip(*np.triu_indices(5, 1), strict=True):
    if found.low[i, j] > 0 or found.high[i, j] < 0:
        print(f"{names[i]} and {names[j]}: {found.low[i, j]:.2f} to {found.high[i, j]:.2f}")
