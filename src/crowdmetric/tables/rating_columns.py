"""Columns ``user, item, rating`` -> coded rows on one ordered scale, and a count of the rows that could not be used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.tables.answers import (
    OnBad,
    Sieve,
    code_known,
    codes_of,
    distinct,
    found_items,
    numbers_of,
    present_ids,
    read_weight,
    rename_columns,
)
from crowdmetric.tables.choice_columns import named_once
from crowdmetric.tables.columns import Column, Columns, as_column, listed, plain, unique_ids

__all__ = ["CodedRatings", "code_ratings", "name_ratings"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NEEDED = ("user", "item", "rating")
# More different ratings than this are positions of a slider, and no steps between which people were asked to choose.
MOST_STEPS = 25


class CodedRatings(NamedTuple):
    """Usable rows in numbers; see `crowdmetric.ratings.Ratings`."""

    user: Ints
    item: Ints
    step: Ints
    weight: Floats
    scale: Column
    user_ids: Column
    item_ids: Column
    dropped: dict[str, int]


def name_ratings(columns: Columns, names: Mapping[str, str] | None = None) -> Columns:
    """Return the columns under the names that `code_ratings` knows; `names` maps those to other names."""
    columns = named_once(rename_columns(columns, names), ("user", "item"))
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise DataError(
            f"the table has no column {listed(missing)}, but {listed(columns)}; rename it, or pass names="
            f"{{{missing[0]!r}: '…'}}"
        )
    return columns


def code_ratings(
    columns: Columns,
    item_ids: Column | None,
    user_ids: Any,
    scale: Sequence[Any] | None,
    n_steps: int | None,
    on_bad: OnBad,
) -> CodedRatings:
    """Return the usable rows in numbers; `columns` as `name_ratings` returns them, the rest as `Ratings` takes it."""
    if on_bad not in ("drop", "raise"):
        raise DataError(f"on_bad is {on_bad!r}, but must be 'drop' or 'raise'")
    if scale is not None and n_steps is not None:
        raise DataError("scale and n_steps both say what the steps are; give one of them")
    sieve = Sieve(len(columns["user"]), what="ratings")
    user, item = (present_ids(columns[name], name, sieve) for name in ("user", "item"))
    weight = read_weight(columns.get("weight"), sieve)
    steps = None if scale is None else _given_scale(scale)
    if steps is None or steps.dtype.kind == "f":
        expected = "ratings are numbers; for words give all of them, from the lowest on: scale=[…]"
        rating: Column = numbers_of(columns["rating"], "rating", expected)
        sieve.reject(~np.isfinite(rating), "missing or infinite rating", rating)
    else:
        rating = present_ids(columns["rating"], "rating", sieve)
    people = None if user_ids is None else unique_ids(user_ids, "user_ids")
    user = user if people is None else code_known(user, people, "user", sieve)
    known = found_items([item], sieve) if item_ids is None else item_ids
    item = code_known(item, known, "item", sieve)
    if steps is None:
        steps = _found_scale(rating[sieve.keep], n_steps)
        step = np.searchsorted(steps, rating, side="right") - 1
    else:
        step = codes_of(rating, steps)
        expected = f"a rating is one of {listed(steps.astype(str).tolist())}"
        sieve.reject(step < 0, "rating that is not on the scale", rating, expected)
    sieve.report(on_bad)
    keep = sieve.keep
    if people is None:
        people = distinct(user[keep])
        user = codes_of(user, people)
    return CodedRatings(user[keep], item[keep], step[keep], weight[keep], steps, people, known, dict(sieve.dropped))


def _given_scale(scale: Sequence[Any]) -> Column:
    """Return the steps of a given scale, numbers or text."""
    steps = as_column(list(scale) if isinstance(scale, Iterable) and not isinstance(scale, str) else [scale], "scale")
    if steps.dtype.kind == "O":
        steps = unique_ids(steps, "scale", "name every rating once")
    steps = steps.astype(np.float64) if steps.dtype.kind == "i" else steps
    if len(steps) < 2 or not (steps.dtype.kind == "U" or (steps.dtype.kind == "f" and np.all(np.diff(steps) > 0))):
        raise DataError(f"scale is {steps.tolist()!r}, but two ratings or more were expected, from the lowest on")
    return steps


def _found_scale(rating: Floats, n_steps: int | None) -> Floats:
    """Return the lowest rating of each step: of each that occurs, or of `n_steps` with about as many ratings each."""
    steps = np.unique(rating)
    if n_steps is not None and len(steps) > n_steps:
        steps = np.unique(np.quantile(rating, np.arange(n_steps) / n_steps, method="higher"))
    elif len(steps) > MOST_STEPS:
        raise DataError(
            f"there are {len(steps):,} different ratings from {steps[0]:g} to {steps[-1]:g}, too many for the steps of "
            "a scale; cut them with n_steps=5, say"
        )
    if len(steps) == 1:
        raise DataError(
            f"every rating is {plain(steps[0]):g}, so ratings say nothing; two different ones were expected"
        )
    return steps
