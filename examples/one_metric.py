"""
Do people who compare and people who choose use one metric?
===========================================================

"Which is more like this?" and "which do you prefer?" are two questions. That one metric answers both is an assumption,
and it can be tested. :func:`~crowdmetric.agreement.one_metric` fits each kind of answer, and one metric to both. Two
worlds are simulated: in one the assumption holds, in the other people who choose care about another feature.
"""

import matplotlib.pyplot as plt
import numpy as np

from crowdmetric import Comparisons
from crowdmetric.agreement import one_metric
from crowdmetric.simulate import answer
from crowdmetric.simulate_judgements import simulate_judgements

rng = np.random.default_rng(0)
items = rng.normal(size=(60, 2))
looks = np.array([[1.0, 0.3], [0.3, 0.4]])  # what people see
worlds = {"one metric": looks, "two metrics": np.array([[0.4, -0.2], [-0.2, 1.0]])}

judgements = simulate_judgements(items, None, 3_000, kind="triplet", metric=looks, seed=1).judgements

# %%
# Preferences of 1,000 people in each world, and the verdict.

person = np.repeat(np.arange(1_000), 3)
left = rng.integers(60, size=len(person))
pairs = np.column_stack([left, (left + rng.integers(1, 60, size=len(person))) % 60])
ideal = 0.7 * rng.normal(size=(1_000, 2))
found = {}
for world, metric in worlds.items():
    y = answer(items, pairs, ideal[person], metric, seed=2)
    found[world] = one_metric(items, Comparisons.from_arrays(person, pairs, y, n_items=60), judgements)
    print(f"{world}: {found[world].summary()}")

# %%
# Curves of equal distance: what people compare by, and what they choose by.


def ellipse(metric):
    """Return the curve of distance one, for a metric scaled to trace two."""
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    return circle @ np.linalg.inv(np.linalg.cholesky(2 * metric / np.trace(metric)))


figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained", sharex=True, sharey=True)
for picture, (world, fits) in zip(axes, found.items(), strict=True):
    picture.plot(*ellipse(fits.judgements.metric_).T, color="#0072B2", label="compare")
    picture.plot(*ellipse(fits.preferences.metric_).T, color="#E69F00", label="choose")
    picture.plot(*ellipse(fits.joint.metric_).T, color="gray", linestyle="--", label="both at once")
    picture.set(title=f"{world}: p = {fits.test.p_value:.2g}", xlabel="feature 1", aspect="equal")
axes[0].set(ylabel="feature 2")
axes[0].legend(frameon=False)
