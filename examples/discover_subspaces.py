"""
Do my items fall into groups that differ in few ways?
=====================================================

Items often come in families: one car at many prices, one dish in many sizes. Each family lies in a subspace, and
there a few answers per person are enough, whoever they are. Which item belongs to which family can be discovered from
the items alone; :class:`~crowdmetric.StitchedMetric` learns a small metric in each and stitches them into one. Items
and people are simulated.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

from crowdmetric import StitchedMetric
from crowdmetric.errors import DroppedRowsWarning
from crowdmetric.simulate import simulate_crowd
from crowdmetric.symmetric import shape_error

crowd = simulate_crowd(dimension=4, subspaces=12, rank=2, users=20, comparisons=8, noise=0.02, seed=0)
errors = {}
for name, subspaces in {"labels given": crowd.labels, "discovered": "discover"}.items():
    model = StitchedMetric(crowd.items, subspaces=subspaces, rank=2, tol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedRowsWarning)  # a few items near two subspaces; counted in n_across_
        model.fit(crowd.pairs, crowd.y, users=crowd.users)
    errors[name] = shape_error(model.metric_, crowd.metric)
print(model.discovery_.summary())

# %%
# What did discovering cost?

errors["agreement"] = adjusted_rand_score(crowd.labels, model.labels_)
print(f"adjusted Rand index with the truth: {errors['agreement']:.3f}")
print(f"shape error of the metric: {errors['discovered']:.3f}, with labels given {errors['labels given']:.3f}")

few = np.isin(crowd.labels, [0, 1, 2])  # three of the twelve families, in three of the four features
figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained", subplot_kw={"projection": "3d"})
for picture, labels, title in zip(axes, (crowd.labels, model.labels_), ("true families", "discovered"), strict=True):
    picture.scatter(*crowd.items[few, :3].T, c=labels[few], cmap="tab20", s=4)
    picture.set(title=title, xticklabels=[], yticklabels=[], zticklabels=[])
