"""
Can I learn from a click log?
=============================

Every row of the log is a page that somebody saw: two products, and the one they clicked. Products, visitors and
clicks are simulated. Where pages show more than two, the clicked product against each of the others is not the same
thing: which pairs there are then depends on what people like, and :class:`~crowdmetric.PopulationMetric` warns of it.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from crowdmetric import Comparisons, PopulationMetric
from crowdmetric.simulate import answer
from crowdmetric.symmetric import shape_error
from crowdmetric.tables import read_items

# %%
# The tables that a shop has: embeddings of its products, and pages with clicks.

rng = np.random.default_rng(0)
care = np.diag([2.0, 1.0, 0.3, 0.03])  # what people look for, and what they do not
vectors = rng.normal(size=(300, 4))
ids = np.array([f"sku-{number:03d}" for number in range(300)])
visitor = np.repeat(np.arange(1_500), 2)
first = rng.integers(300, size=len(visitor))
shown = np.column_stack([first, (first + rng.integers(1, 300, size=len(visitor))) % 300])
ideal = 0.5 * rng.normal(size=(1_500, 4))
clicked = np.where(answer(vectors, shown, ideal[visitor], care, seed=0) < 0, shown[:, 0], shown[:, 1])

embeddings = pl.DataFrame({"item_id": ids} | {f"e{j}": vectors[:, j] for j in range(4)})
log = pl.DataFrame({"visitor": visitor, "first": ids[shown[:, 0]], "second": ids[shown[:, 1]], "clicked": ids[clicked]})
log.head(3)

# %%
# From the log to answers, and from answers to a metric. A pandas data frame does as well.

answers = log.with_columns(
    choice=pl.when(pl.col("clicked") == pl.col("first")).then(pl.lit("left")).otherwise(pl.lit("right"))
)
items = read_items(embeddings)
comparisons = Comparisons.from_table(answers, user="visitor", left="first", right="second", items=items)
print(comparisons.summary())
model = PopulationMetric(items.features).fit(comparisons)
errors = {"learned": shape_error(model.metric_, care), "plain": shape_error(np.eye(4), care)}
print(f"error up to scale: {errors['learned']:.2f}, of plain distance {errors['plain']:.2f}")

# %%
# How much visitors care about each number, as a share:

place = np.arange(4)
figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
axes.bar(place - 0.2, np.diag(care) / np.trace(care), width=0.4, color="#0072B2", label="true")
axes.bar(
    place + 0.2,
    np.diag(model.metric_) / np.trace(model.metric_),
    width=0.4,
    color="#E69F00",
    label="learned from clicks",
)
axes.set_xticks(place, items.feature_names)
axes.set(ylabel="share of the metric")
axes.legend(frameon=False)
