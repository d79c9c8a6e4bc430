"""
Can I learn without assuming anything about people?
===================================================

Ask each person two questions whose items differ *in the same way*. Where the two answers differ, the person's own
preference cancels, and :class:`~crowdmetric.MatchedMetric` learns the metric whoever they are. The people here form
three clusters, which no model of one population has in mind. They are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np

from crowdmetric import MatchedMetric
from crowdmetric.design import matched_from_generator
from crowdmetric.simulate import answer, sample_metric
from crowdmetric.symmetric import relative_error

people = 8_000
ask = matched_from_generator(dimension=3, people=people, seed=0)
print(ask.summary())

# %%
# One such pair of questions: two parallel arrows.

first = ask.items[ask.pairs[ask.person == 0]]  # (questions, left and right, features)
figure, axes = plt.subplots(figsize=(4.8, 3.6), layout="constrained")
for number, (left, right) in enumerate(first[:, :, :2], start=1):
    axes.annotate("", xy=right, xytext=left, arrowprops={"arrowstyle": "<->", "color": "#0072B2", "lw": 2})
    axes.annotate(f"question {number}", (left + right) / 2, xytext=(6, 6), textcoords="offset points")
axes.set(xlabel="feature 1", ylabel="feature 2")
low, high = first[:, :, :2].min(axis=(0, 1)), first[:, :, :2].max(axis=(0, 1))
room = 0.25 * (high - low).max()
axes.set(xlim=(low[0] - room, high[0] + room), ylim=(low[1] - room, high[1] + room))

# %%
# Simulated people answer; the metric is found, with standard errors.

rng = np.random.default_rng(1)
truth = sample_metric(3, rng)
centers = rng.normal(size=(3, 3))
ideal = centers[rng.integers(3, size=people)] + 0.2 * rng.normal(size=(people, 3))
y = answer(ask.items, ask.pairs, ideal[ask.person], truth, seed=2)
model = MatchedMetric(ask.items).fit(ask.pairs, y, users=ask.person)
error = relative_error(model.metric_, truth)
print(f"promised an error of {ask.expected_error:.2f}, got {error:.2f}")
print("off by, in standard errors:")
print(np.round((model.metric_ - truth) / model.standard_errors_, 1))
