"""The table that a fit ends with: one row per feature, with intervals, as statistics packages print it.

If a model has people, a row says how a feature moves choices (`crowdmetric.importance`)::

    share, from, to    part of what moves choices, and its interval
    coef               log-odds in favor of an item with one standard deviation more of it, for the average person
    std err, z, P>|z|, [5 %, 95 %]    how sure that is (Wald)
    sd                 standard deviation of the coefficient between people

A feature with a coefficient of zero may still be important: if people differ (sd), half of them may want more and half
less.

If a model has no people, as with similarity judgements, a row is the weight of a feature in the learned distance. For
smooth tastes (`crowdmetric.report.tastes`) a row has the shares of what the crowd likes and of how people differ.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from crowdmetric.comparisons import Comparisons
from crowdmetric.draw_intervals import intervals_from
from crowdmetric.errors import DataError, printable
from crowdmetric.importance import (
    FeatureImportance,
    LearnedModel,
    as_percent,
    check_saved,
    feature_importance,
    feature_weights,
    is_cut,
    leader_of,
    raw_features,
)
from crowdmetric.symmetric import smat

__all__ = ["Coefficients", "coefficients_of"]

Array = NDArray[np.float64]

LEVEL = 0.90
# Rows that are printed; further features are only counted.
SHOWN, WIDEST_NAME, WIDTH = 12, 28, 100
# Weights that differ by a smaller share of the largest are alike.
ALIKE = 0.01
# What columns are called in JSON, where that is another name.
KEYS = {
    "from": "share_low", "to": "share_high", "std err": "std_err", "P>|z|": "p_value", "[5 %": "low", "95 %]": "high",
}  # fmt: skip
COEFFICIENT = (
    "coef: log-odds in favor of an item with one standard deviation more of the feature, and else like the mean item, "
    "for the average person. sd: standard deviation of coef between people."
)
WEIGHT = "weight: part of the learned squared distance if items differ by one standard deviation in each feature."


@dataclass(frozen=True)
class Coefficients:
    """What was learned about each feature, the most important first.

    Attributes
    ----------
    names : tuple of str
    columns : dict of (f,) arrays
        By their names in the table.
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
        table = [["feature", *map(_shortened, self.names[:shown])]]
        for name, column in self.columns.items():
            form = as_percent if "weight" in self.columns else FORMATS[name]
            table.append([name, *(form(float(value)) for value in column[:shown])])
        widths = [max(map(len, cells)) for cells in table]
        first, *others = widths
        lines = [
            f"  {row[0]:<{first}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], others, strict=True))
            for row in zip(*table, strict=True)
        ]
        more = [f"  … and {len(self.names) - shown} more"] if shown < len(self.names) else []
        explained = textwrap.wrap(self.explained, WIDTH, initial_indent="  ", subsequent_indent="  ")
        return "\n".join([*textwrap.wrap(self.headline, WIDTH), *lines, *more, *explained])

    def to_list(self) -> list[dict[str, Any]]:
        """Return one dictionary per feature, ready for JSON; None where nothing is known."""
        known = {
            KEYS.get(name, name): [value if np.isfinite(value) else None for value in column.tolist()]
            for name, column in self.columns.items()
        }
        return [
            {"feature": feature} | {name: column[row] for name, column in known.items()}
            for row, feature in enumerate(self.names)
        ]


def coefficients_of(model: LearnedModel, comparisons: Comparisons | None = None) -> Coefficients:
    """Return what a model says about each feature.

    Parameters
    ----------
    model : a fitted model with its items
    comparisons : Comparisons, optional
        The questions as asked; None: all pairs of items alike.

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
        return _of_choices(feature_importance(model, comparisons), people_differ=not is_cut(model))
    except DataError:  # nothing is known about people
        return _of_distance(model)


def _of_choices(found: FeatureImportance, *, people_differ: bool) -> Coefficients:
    order = found.order
    columns = {"share": found.shares}
    if found.has_intervals:
        columns |= {"from": found.low, "to": found.high}
    columns["coef"] = found.slopes
    if np.isfinite(found.slope_errors).all():
        half = float(norm.ppf(0.5 + LEVEL / 2)) * found.slope_errors
        z = found.slopes / np.where(found.slope_errors > 0, found.slope_errors, np.nan)
        columns |= {
            "std err": found.slope_errors,
            "z": z,
            "P>|z|": 2.0 * norm.sf(np.abs(z)),
            "[5 %": found.slopes - half,
            "95 %]": found.slopes + half,
        }
    if people_differ:
        columns["sd"] = found.slope_spreads
    explained = COEFFICIENT if people_differ else COEFFICIENT[: COEFFICIENT.index(" sd:")]
    return Coefficients(
        tuple(found.names[j] for j in order),
        {name: column[order] for name, column in columns.items()},
        found.sentence(),
        f"share: part of what moves choices{', with a 90 % interval' if found.has_intervals else ''}. {explained}",
    )


def _of_distance(model: LearnedModel) -> Coefficients:
    check_saved(model)
    items = model.items
    if items is None:
        raise DataError("the model was fitted to vectors and has no items; a table of features needs items=…")
    raw, spread = raw_features(model, items)
    weights = feature_weights(model.metric[None], raw, spread)[0]
    columns = {"weight": weights}
    draws = model.fitted.get("metric_draws_")
    order = np.argsort(-weights, kind="stable")
    first, chance = order[0], 1.0
    if draws is not None and len(draws) > 1:
        drawn = feature_weights(smat(np.asarray(draws, dtype=np.float64)), raw, spread)
        sure = intervals_from(drawn, weights, LEVEL)
        columns |= {"[5 %": sure.low, "95 %]": sure.high}
        chance = float(np.mean(np.argmax(drawn, axis=1) == first))
    leader = leader_of(model.feature_names[first], float(weights[first]), chance)
    headline = f"What counts most in the learned distance is {leader}."
    if len(weights) > 1 and np.ptp(weights) < ALIKE * weights[first]:
        headline = "All features count alike in the learned distance."
    return Coefficients(
        tuple(model.feature_names[j] for j in order),
        {name: column[order] for name, column in columns.items()},
        headline,
        WEIGHT,
    )


def _shortened(name: str) -> str:
    name = printable(name)
    return name if len(name) <= WIDEST_NAME else f"{name[: WIDEST_NAME - 1]}…"


def _signed(value: float) -> str:
    return "" if np.isnan(value) else f"{value:+z.3f}"


def _plain(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}"


FORMATS: dict[str, Callable[[float], str]] = {
    "share": as_percent,
    "from": as_percent,
    "to": as_percent,
    "crowd": as_percent,
    "people": as_percent,
    "coef": _signed,
    "std err": _plain,
    "z": lambda value: "" if np.isnan(value) else f"{value:.2f}",
    "P>|z|": _plain,
    "[5 %": _signed,
    "95 %]": _signed,
    "sd": _plain,
}
