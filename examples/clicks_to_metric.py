"""A click log and embeddings, as Polars or pandas tables -> a metric that knows what people click for.

Every row of the log is a page somebody saw: two products, and the one they clicked. Products, visitors and clicks are
simulated. Where pages show more than two, the clicked product against each of the others is not the same thing: which
pairs there are then depends on what people like, and `PopulationMetric` warns of it.

python examples/clicks_to_metric.py
"""

from __future__ import annotations

import numpy as np
import polars as pl

from crowdmetric import Comparisons, PopulationMetric
from crowdmetric.simulate import answer
from crowdmetric.symmetric import shape_error
from crowdmetric.tables import read_items

PRODUCTS, VISITORS, PAGES = 300, 1_500, 2
CARE = np.diag([2.0, 1.0, 0.3, 0.03])  # what people look for, and what they do not


def simulate(seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the tables that a shop would have: embeddings, and pages with clicks."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(PRODUCTS, 4))
    ids = np.array([f"sku-{number:03d}" for number in range(PRODUCTS)])
    visitor = np.repeat(np.arange(VISITORS), PAGES)
    first = rng.integers(PRODUCTS, size=len(visitor))
    shown = np.column_stack([first, (first + rng.integers(1, PRODUCTS, size=len(visitor))) % PRODUCTS])
    ideal = 0.5 * rng.normal(size=(VISITORS, 4))
    clicked = np.where(answer(vectors, shown, ideal[visitor], CARE, seed=seed) < 0, shown[:, 0], shown[:, 1])
    embeddings = pl.DataFrame({"item_id": ids} | {f"e{j}": vectors[:, j] for j in range(4)})
    log = {"visitor": visitor, "first": ids[shown[:, 0]], "second": ids[shown[:, 1]], "clicked": ids[clicked]}
    return embeddings, pl.DataFrame(log)


def main() -> dict[str, float]:
    embeddings, log = simulate()
    answers = log.with_columns(
        choice=pl.when(pl.col("clicked") == pl.col("first")).then(pl.lit("left")).otherwise(pl.lit("right"))
    )
    items = read_items(embeddings)  # a pandas data frame does as well
    comparisons = Comparisons.from_table(answers, user="visitor", left="first", right="second", items=items)
    print(comparisons.summary())
    model = PopulationMetric(items.features).fit(comparisons)
    print("\nhow much people care, as shares; learned and true:")
    for name, learned, true in zip(items.feature_names, np.diag(model.metric_), np.diag(CARE), strict=True):
        print(f"  {name}  {learned / np.trace(model.metric_):5.1%}  {true / np.trace(CARE):5.1%}")
    errors = {"learned": shape_error(model.metric_, CARE), "plain": shape_error(np.eye(4), CARE)}
    print(f"error up to scale: {errors['learned']:.2f}, of plain distance {errors['plain']:.2f}")
    return errors


if __name__ == "__main__":
    main()
