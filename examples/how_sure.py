"""
How sure is it?
===============

A metric from 200 people and one from 3,000 look alike. What sets them apart is what can be said with confidence. The
crowd is simulated, so intervals can be compared with the truth.
"""

import matplotlib.pyplot as plt
import numpy as np

from crowdmetric import PopulationMetric
from crowdmetric.intervals import closer, distances
from crowdmetric.simulate import simulate_crowd

crowd = simulate_crowd(3, None, None, users=3_000, comparisons=3, seed=3)
models = {}
for people in (200, 3_000):
    asked = crowd.users < people
    models[people] = PopulationMetric(crowd.items).fit(crowd.pairs[asked], crowd.y[asked], users=crowd.users[asked])

# %%
# Six distances, with 90 % intervals.

pairs = np.arange(12).reshape(6, 2)
apart = crowd.items[pairs[:, 0]] - crowd.items[pairs[:, 1]]
true = np.sqrt(np.sum((apart @ crowd.metric) * apart, axis=1))

figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for shift, (people, model), color in zip((-0.12, 0.12), models.items(), ("#E69F00", "#0072B2"), strict=True):
    found = distances(model, pairs)
    axes.vlines(np.arange(6) + shift, found.low, found.high, color=color, linewidth=5, label=f"{people:,} people")
axes.plot(np.arange(6), true, "x", color="black", label="true")
axes.set_xticks(np.arange(6), [f"items {a} and {b}" for a, b in pairs], rotation=20, ha="right")
axes.set(ylabel="distance", ylim=(0, None))
axes.legend(frameon=False)

# %%
# Questions about which of two items is closer are often answered with more confidence than distances themselves,
# because the scale of the metric, its least certain part, cancels.

for a, b, c in ((0, 1, 2), (21, 22, 23)):
    for people, model in models.items():
        print(f"{people:,} people, a = {a}, b = {b}, c = {c}: {closer(model, a, b, c).summary()}")
