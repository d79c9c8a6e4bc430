"""The table that a fit ends with: one row per feature, with intervals, as statistics packages print it.

If a model has people, a row says how a feature moves choices (`crowdmetric.importance`)::

    share, 90 %          part of what moves choices, and its interval
    differ               how much of the share arises because people differ
    less → more          two values of the feature that are compared
    of 100, 90 %         how many of 100 people choose the item with more of it over the same item with less
    log-odds, 90 %       the same as log-odds

A feature with log-odds of zero may still be important: if people differ, half of them may want more and half less.

If a model has no people, as with similarity judgements, a row is the weight of a feature in the learned distance. For
smooth tastes (`crowdmetric.tastes`) a row has the shares of what the crowd likes and of how people differ.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from crowdmetric.draw_intervals import least_square, parts_from
from crowdmetric.errors import DataError, printable
from crowdmetric.importance import (
    FeatureImportance,
    LearnedModel,
    as_percent,
    check_saved,
    feature_importance,
    feature_weights,
    leader_of,
    of_100,
    raw_features,
)
from crowdmetric.symmetric import smat

__all__ = ["Coefficients", "coefficients_of"]

Array = NDArray[np.float64]

LEVEL = 0.90
# Rows that are printed; further features are only counted.
SHOWN, WIDEST_NAME, WIDTH = 12, 20, 100
# Weights that differ by a smaller share of the largest are alike.
ALIKE = 0.01
CONTRAST = (
    "of 100: so many of 100 people choose an item with the second value of the feature (more) over the same item with "
    "the first (less), as the model predicts on average over people and items; log-odds: the same as log-odds."
)
WEIGHT = "weight: part of the learned squared distance if items differ by one standard deviation in each feature."


@dataclass(frozen=True)
class Coefficients:
    """What was learned about each feature, the most important first.

    Attributes
    ----------
    names : tuple of str
    columns : dict of (f,) arrays
        By their names in JSON.
    headline, explained : str
        What matters most; what the columns are.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.coefficients import Coefficients
    >>> weights = {"weight": np.array([0.7, 0.3])}
    >>> table = Coefficients(("sweet", "hard"), weights, "Sweet counts most.", "weight: share.")
    >>> print(table.summary())
    Sweet counts most.
      feature  weight
      sweet      70 %
      hard       30 %
      weight: share.
    """

    names: tuple[str, ...]
    columns: Mapping[str, Array]
    headline: str
    explained: str

    def summary(self) -> str:
        """Return the headline, the table and what its columns are."""
        shown = min(len(self.names), SHOWN)
        table = [["feature", *map(_shortened, self.names[:shown])], *self.printed(shown)]
        widths = [max(map(len, cells)) for cells in table]
        first, *others = widths
        lines = [
            f"  {row[0]:<{first}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], others, strict=True))
            for row in zip(*table, strict=True)
        ]
        more = [f"  … and {len(self.names) - shown} more"] if shown < len(self.names) else []
        explained = textwrap.wrap(self.explained, WIDTH, initial_indent="  ", subsequent_indent="  ")
        return "\n".join([*textwrap.wrap(self.headline, WIDTH), *lines, *more, *explained])

    def printed(self, shown: int = SHOWN) -> list[list[str]]:
        """Return the columns as texts, the head first, of the first features."""
        table = []
        for head, names, form in PRINTED:
            if all(name in self.columns for name in names):
                rows = zip(*(self.columns[name][:shown].tolist() for name in names), strict=True)
                table.append([head, *(form(*row) for row in rows)])
        return table

    def to_list(self) -> list[dict[str, Any]]:
        """Return one dictionary per feature, ready for JSON; None where nothing is known."""
        known = {
            name: [value if np.isfinite(value) else None for value in column.tolist()]
            for name, column in self.columns.items()
        }
        return [
            {"feature": feature} | {name: column[row] for name, column in known.items()}
            for row, feature in enumerate(self.names)
        ]


def coefficients_of(model: LearnedModel) -> Coefficients:
    """Return what a model says about each feature.

    Parameters
    ----------
    model : a fitted model with its items

    Examples
    --------
    >>> import tempfile
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.coefficients import coefficients_of
    >>> from crowdmetric.persist import save_model
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=300, comparisons=3, seed=0)
    >>> fitted = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> table = coefficients_of(save_model(tempfile.mkdtemp(), fitted))
    >>> sorted(table.names)
    ['f0', 'f1']
    """
    try:
        return _of_choices(feature_importance(model))
    except DataError:  # nothing is known about people
        return _of_distance(model)


def _of_choices(found: FeatureImportance) -> Coefficients:
    columns = {"share": found.shares}
    if found.has_intervals:
        columns |= {"share_low": found.low, "share_high": found.high}
    differ = bool(np.isfinite(found.own).all())
    columns |= {"differ": found.own} if differ else {}
    columns |= {"less": found.less, "more": found.more, "chosen": found.chosen}
    columns["log_odds"] = found.log_odds
    if found.has_intervals:
        low, high = found.chosen_low, found.chosen_high
        columns |= {"chosen_low": low, "chosen_high": high, "log_odds_low": logit(low), "log_odds_high": logit(high)}
    left_out = (
        f" Left out, as all items asked about are alike in them: {', '.join(map(printable, found.left_out[:SHOWN]))}."
        if found.left_out
        else ""
    )
    sure = "; 90 %: intervals" if found.has_intervals else ""
    order = found.order
    return Coefficients(
        tuple(found.names[j] for j in order),
        {name: column[order] for name, column in columns.items()},
        found.sentence(),
        f"share: part of what moves choices{'; differ: what of it is there because people differ' if differ else ''}. "
        f"{CONTRAST[:-1]}{sure}.{left_out}",
    )


def _of_distance(model: LearnedModel) -> Coefficients:
    check_saved(model)
    items = model.items
    if items is None:
        raise DataError("the model was fitted to vectors and has no items; a table of features needs items=…")
    raw, spread = raw_features(model, items)
    weights, drawn = feature_weights(model.metric[None], raw, spread)[0], None
    draws, ends = model.fitted.get("metric_draws_"), {}
    if draws is not None and len(draws) > 1:
        drawn = feature_weights(smat(np.asarray(draws, dtype=np.float64)), raw, spread)
        sure = parts_from(drawn, LEVEL, least_square(model.metric))
        weights, ends = sure.estimate, {"low": sure.low, "high": sure.high}
    order = np.argsort(-weights, kind="stable")
    order = order[spread[order] > 0] if spread.any() else order
    first = order[0]
    chance = 1.0 if drawn is None else float(np.mean(np.argmax(drawn, axis=1) == first))
    leader = leader_of(model.feature_names[first], float(weights[first]), chance)
    headline = f"What counts most in the learned distance is {leader}."
    if len(order) > 1 and np.ptp(weights[order]) < ALIKE * weights[first]:
        headline = "All features count alike in the learned distance."
    return Coefficients(
        tuple(model.feature_names[j] for j in order),
        {name: column[order] for name, column in ({"weight": weights} | ends).items()},
        headline,
        WEIGHT if drawn is None else f"{WEIGHT} 90 %: its interval.",
    )


def _shortened(name: str) -> str:
    name = printable(name)
    return name if len(name) <= WIDEST_NAME else f"{name[: WIDEST_NAME - 1]}…"


def _percents(low: float, high: float) -> str:
    return f"{as_percent(low).removesuffix(' %')}–{as_percent(high)}"


def _values(less: float, more: float) -> str:
    return f"{less:.3g} → {more:.3g}".replace("-", "−")


def _signed(value: float) -> str:
    return f"{value:+z.2f}".replace("-", "−")


def _between(form: Callable[[float], str]) -> Callable[[float, float], str]:
    return lambda low, high: f"{form(low)} to {form(high)}"


# What is printed of the columns that a table has: the head, the columns in a cell, and its text.
PRINTED: tuple[tuple[str, tuple[str, ...], Callable[..., str]], ...] = (
    ("share", ("share",), as_percent),
    ("90 %", ("share_low", "share_high"), _percents),
    ("differ", ("differ",), as_percent),
    ("less → more", ("less", "more"), _values),
    ("of 100", ("chosen",), of_100),
    ("90 %", ("chosen_low", "chosen_high"), _between(of_100)),
    ("log-odds", ("log_odds",), _signed),
    ("90 %", ("log_odds_low", "log_odds_high"), _between(_signed)),
    ("crowd", ("crowd",), as_percent),
    ("people", ("people",), as_percent),
    ("weight", ("weight",), as_percent),
    ("90 %", ("low", "high"), _percents),
)
