"""
Can my answers teach a metric at all?
=====================================

Before anything is fitted, :func:`~crowdmetric.identifiability.diagnose` says how much of a metric a set of questions
can reveal. It needs to know who compared what, not what they answered, so a questionnaire can be judged before
anybody is asked. The items here are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np

from crowdmetric.identifiability import diagnose

rng = np.random.default_rng(0)
items = rng.normal(size=(60, 4))  # four features: a metric has ten numbers to learn


def questions(people, answers):
    """Return random pairs of items, and who compares them."""
    person = np.repeat(np.arange(people), answers)
    left = rng.integers(60, size=len(person))
    return np.column_stack([left, (left + rng.integers(1, 60, size=len(person))) % 60]), person


pairs, person = questions(people=50, answers=3)
print(diagnose(items, pairs, person).summary())

# %%
# Three answers are fewer than four features. Whoever wants to assume nothing about people learns nothing from them,
# and more people do not help. Each answer beyond the fourth adds something.

answers = np.arange(1, 11)
revealed = {people: [diagnose(items, *questions(people, count)).rank for count in answers] for people in (2, 5, 20)}

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for people, ranks in revealed.items():
    axes.plot(answers, ranks, marker="o", label=f"{people} people")
axes.axhline(10, color="gray", linestyle=":")
axes.axvline(4.5, color="gray", linewidth=0.8)
axes.annotate("as many answers\nas features", (4.4, 6), ha="right", color="gray")
axes.set(xlabel="answers per person", ylabel="numbers of the metric revealed (of 10)", xticks=answers)
axes.legend(frameon=False, loc="lower right")

# %%
# Two ways out when people answer less: assume that they are one population
# (:class:`~crowdmetric.PopulationMetric`), or ask parallel questions (:ref:`sphx_glr_gallery_parallel_questions.py`).
# :doc:`/explanation/can-i-learn` explains why.
