"""
How many people do I need?
==========================

:func:`~crowdmetric.design.plan` answers before anyone is asked, and :func:`~crowdmetric.design.design` writes the
questions. Here the people are simulated, so the promise can be compared with what came out.
"""

import matplotlib.pyplot as plt
import numpy as np

from crowdmetric import PopulationMetric
from crowdmetric.design import design, plan
from crowdmetric.simulate import answer, sample_metric
from crowdmetric.symmetric import relative_error

rng = np.random.default_rng(0)
items = rng.normal(size=(40, 3)) / np.sqrt(3)
guess = np.eye(3)  # all features count alike: the best guess of somebody who knows nothing
print(plan(items, target=0.2, answers=2, kinds=("random",), metric=guess).summary())

# %%
# Write the questionnaire for 1,500 people. ``ask.write("questionnaire.csv")`` is the table that they are then asked.

people = 1_500
ask = design(items, people=people, answers=2, kind="random", metric=guess, seed=0)
print(ask.summary())

# %%
# Was the promise kept? Simulated people answer, and the metric is learned from more and more of them.

truth = sample_metric(3, rng)
ideal = rng.normal(size=(people, 3)) / np.sqrt(3)
y = answer(items, ask.pairs, ideal[ask.person], truth, seed=1)

sizes = np.array([200, 500, people])
got = []
for size in sizes:
    asked = ask.person < size
    model = PopulationMetric(items).fit(ask.pairs[asked], y[asked], users=ask.person[asked])
    got.append(relative_error(model.metric_, truth))
promised = ask.expected_error * np.sqrt(people / sizes)  # errors fall with the root of the number of people
errors = {"promised": ask.expected_error, "got": got[-1]}
print(f"promised an error of {errors['promised']:.2f} before anyone was asked, got {errors['got']:.2f}")

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axes.loglog(sizes, promised, color="gray", linestyle="--", label="promised")
axes.loglog(sizes, got, marker="o", color="#0072B2", label="measured, one crowd")
axes.set(xlabel="people, two answers each", ylabel="relative error of the metric", xticks=sizes)
axes.set_xticklabels([f"{size:,}" for size in sizes])
axes.minorticks_off()
axes.legend(frameon=False)
