"""
Do my people have ideal points?
===============================

Not everybody has one best item in mind. Some like the cheap and the expensive, and nothing between.
:class:`~crowdmetric.TasteMetric` lets a person's utility bend as it likes and puts the metric into how *fast* it
bends. Whether that is needed is a question to hidden answers. Both crowds here are simulated.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from crowdmetric import PopulationMetric, TasteMetric
from crowdmetric.errors import CrowdmetricWarning

rng = np.random.default_rng(0)
items = rng.uniform(-1.5, 1.5, size=(20, 2))
person = np.repeat(np.arange(60), 16)
pairs = rng.permuted(np.tile(np.arange(20), (len(person), 1)), axis=1)[:, :2]
hidden = np.arange(len(person)) % 4 == 0  # a quarter of everybody's answers

phase = rng.uniform(0, 2 * np.pi, size=(60, 1))
ideal = rng.normal(size=(60, 2))
crowds = {
    "ideal points": -np.sum([2.0, 0.2] * (items[None] - ideal[:, None]) ** 2, axis=2),
    "smooth tastes": 2.5 * np.sin(3.0 * items[None, :, 0] + phase),
}

# %%
# How often does each model predict the hidden answers, when only the first feature matters much?

right = {}
for name, utility in crowds.items():
    gap = utility[person, pairs[:, 1]] - utility[person, pairs[:, 0]]
    y = np.where(rng.random(len(person)) < 1 / (1 + np.exp(-gap)), 1, -1)
    for model in (PopulationMetric(items), TasteMetric(items)):
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always", CrowdmetricWarning)
            model.fit(pairs[~hidden], y[~hidden], users=person[~hidden])
        predicted = model.predict(pairs[hidden], users=person[hidden])
        right[name, type(model).__name__] = float(np.mean(predicted == y[hidden]))
        print(f"{name}, {type(model).__name__}: {right[name, type(model).__name__]:.0%} of the hidden answers")
        for doubt in doubts:
            print(f"  and it warns: {doubt.message}")

# %%
# Where people have ideal points the two are alike. Where tastes bend, ideal points hardly predict better than a coin.

figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for shift, model, color in ((-0.2, "PopulationMetric", "#0072B2"), (0.2, "TasteMetric", "#E69F00")):
    axes.bar(np.arange(2) + shift, [right[name, model] for name in crowds], width=0.4, color=color, label=model)
axes.axhline(0.5, color="gray", linestyle=":")
axes.set_xticks(np.arange(2), crowds)
axes.set(ylabel="hidden answers predicted", ylim=(0.4, 1))
axes.legend(frameon=False, loc="upper right")

# %%
# :doc:`/explanation/smooth` has the model, and what it found on real people.
