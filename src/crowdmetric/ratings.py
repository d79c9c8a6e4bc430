"""Who rated what how: one validated, frozen table of ratings on an ordered scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.checks import one_of, shown, whole_number
from crowdmetric.errors import DataError
from crowdmetric.tables import (
    IDS_ARE,
    Column,
    Columns,
    FrozenTable,
    IdsAre,
    OnBad,
    Steps,
    known_items,
    named_once,
    read_columns,
    rename_columns,
    spread,
    unique_ids,
)
from crowdmetric.tables.answers import (
    Sieve,
    code_known,
    codes_of,
    distinct,
    found_items,
    numbers_of,
    present_ids,
    read_weight,
)
from crowdmetric.tables.columns import as_column, listed

__all__ = ["Ratings"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# More different ratings than this are positions of a slider, and no steps between which people were asked to choose.
MOST_STEPS = 25


@dataclass(frozen=True, eq=False, repr=False)
class Ratings(FrozenTable):
    """Ratings of a crowd on one ordered scale, one row per rating. Arrays are read-only.

    Build one with `from_arrays`, `from_table` or `read`, which explain what they cannot use.

    Attributes
    ----------
    user, item : (T,) int64
        Who rated what, row numbers of ``user_ids`` and of ``item_ids``.
    step : (T,) int64
        The rating, a row number of `scale`: 0 is the lowest.
    weight : (T,) float64
        How much a rating counts, positive and finite.
    scale : (n,) float64 or str
        The steps, from the lowest to the highest; where ratings were cut into steps, the lowest rating of each.
    user_ids : (K,) int64 or str
    item_ids : (N,) int64 or str
    ids_are : {'given', 'found', 'rows'}
        Where ``item_ids`` come from, as in `Comparisons`.
    dropped : dict
        How many rows of the source were left out, by reason.

    Examples
    --------
    >>> from crowdmetric import Ratings
    >>> ratings = Ratings.from_arrays(["ann", "ann", "bob"], ["tea", "cola", "tea"], [5, 1, 3])
    >>> ratings.step.tolist(), ratings.scale.tolist()
    ([2, 0, 1], [1.0, 3.0, 5.0])
    """

    user: Ints
    item: Ints
    step: Ints
    weight: Floats
    scale: Column
    user_ids: Column
    item_ids: Column
    dropped: dict[str, int] = field(default_factory=dict)
    ids_are: IdsAre = "given"

    def __post_init__(self) -> None:
        one_of(self.ids_are, "ids_are", IDS_ARE)
        arrays: dict[str, NDArray[Any]] = {
            name: np.array(getattr(self, name), dtype=np.int64) for name in ("user", "item", "step")
        }
        arrays |= {"weight": np.array(self.weight, dtype=np.float64), "scale": np.array(_scale_of(self.scale))}
        arrays |= {name: unique_ids(getattr(self, name), name) for name in ("user_ids", "item_ids")}
        _check_coding(arrays)
        self._freeze(arrays)

    # ------------------------------------------------------------------------------------------ making

    @classmethod
    def from_arrays(cls, users: Any, rated: Any, rating: Any, *, weight: Any = None, **options: Any) -> Ratings:
        """Return the ratings held in arrays.

        Parameters
        ----------
        users, rated : (T,) int or str
            Who rated which item.
        rating : (T,) float or str
        weight : (T,) array, optional
            1 by default.
        **options
            As in `from_table`.
        """
        given = {"user": users, "item": rated, "rating": rating, "weight": weight}
        return cls.from_table({name: values for name, values in given.items() if values is not None}, **options)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        names: Mapping[str, str] | None = None,
        scale: Any = None,
        n_steps: int | None = None,
        items: Any = None,
        n_items: int | None = None,
        item_ids: Any = None,
        user_ids: Any = None,
        on_bad: OnBad = "drop",
    ) -> Ratings:
        """Return the ratings held in a table with the columns ``user``, ``item`` and ``rating``.

        Parameters
        ----------
        table : path, data frame or mapping
            CSV or Parquet; pandas, Polars or Arrow; or names and arrays. ``weight`` may be there too; other columns are
            ignored.
        names : mapping, optional
            What columns are called in this table, such as ``{"rating": "stars"}``.
        scale : sequence, optional
            All ratings that could be given, from the lowest to the highest: ``range(1, 11)``, or words. By default the
            numbers that occur, in order: higher is better.
        n_steps : int, optional
            Cut ratings, such as the positions of a slider, into this many steps of about as many ratings each; equal
            ratings stay together.
        items, n_items, item_ids, user_ids, on_bad
            As in `Comparisons.from_arrays`.
        """
        one_of(on_bad, "on_bad", ("drop", "raise"))
        if scale is not None and n_steps is not None:
            raise DataError("scale and n_steps both say what the steps are; give one of them")
        columns = named_once(rename_columns(read_columns(table), names), ("user", "item"))
        missing = [name for name in ("user", "item", "rating") if name not in columns]
        if missing:
            raise DataError(
                f"the table has no column {listed(missing)}, but {listed(columns)}; rename it or pass names="
            )
        known = known_items(items, n_items, item_ids)
        sieve = Sieve(len(columns["user"]), what="ratings")
        user, item = (present_ids(columns[name], name, sieve) for name in ("user", "item"))
        weight = read_weight(columns.get("weight"), sieve)
        steps, step = _read_steps(columns["rating"], scale, n_steps, sieve)
        people = None if user_ids is None else unique_ids(user_ids, "user_ids")
        user = user if people is None else code_known(user, people, "user", sieve)
        catalog = found_items([item], sieve) if known.ids is None else known.ids
        item = code_known(item, catalog, "item", sieve)
        sieve.report(on_bad, stacklevel=3)
        if people is None:
            people = distinct(user[sieve.keep])
            user = codes_of(user, people)
        keep = sieve.keep
        kept: dict[str, Any] = {
            "user": user[keep],
            "item": item[keep],
            "step": step[keep],
            "weight": weight[keep],
            "scale": steps,
        }
        return cls(**kept, user_ids=people, item_ids=catalog, dropped=dict(sieve.dropped), ids_are=known.are)

    def take(self, rows: Any) -> Ratings:
        """Return the rows of a mask ``(T,)`` or of row numbers; people, items and steps keep their numbers."""
        index = self._index(rows)
        kept = {name: getattr(self, name)[index] for name in ("user", "item", "step", "weight")}
        return replace(self, **kept, dropped={})

    def used_items(self) -> NDArray[np.bool_]:
        """Return which items (N,) are rated."""
        return np.bincount(self.item, minlength=self.n_items) > 0

    def renumbered(self, place: Ints, item_ids: Column) -> Ratings:
        """Return the same answers about items with these ids, given the place (N,) of each of today's among them."""
        return replace(self, item=place[self.item], item_ids=item_ids, ids_are="given")

    # ------------------------------------------------------------------------------------------ asking

    @property
    def n_users(self) -> int:
        """How many people there are, with ratings or without."""
        return len(self.user_ids)

    @property
    def n_steps(self) -> int:
        """How many steps the scale has."""
        return len(self.scale)

    def steps(self) -> Steps:
        """Return the ratings as the likelihood takes them."""
        return Steps(self.user, self.item, self.step, self.weight, self.n_steps)

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        return f"<Ratings: {len(self)} rows, {self.n_users} people, {self.n_items} items, {self.n_steps} steps>"

    def summary(self) -> str:
        """Return a few lines about the table: size, ratings per person, the scale and its use, items rated, drops."""
        lines = {
            "ratings per person": spread(np.bincount(self.user, minlength=self.n_users)),
            "scale": f"{self.n_steps} steps, {self.scale[0]} to {self.scale[-1]}",
            "ratings per step": ", ".join(f"{n:,}" for n in np.bincount(self.step, minlength=self.n_steps)),
            "items rated": f"{self.used_items().sum():,} of {self.n_items:,}",
            "rated again": f"{len(self) - len(np.unique(self.user * self.n_items + self.item)):,}",
        }
        return self._lines(f"{len(self):,} ratings by {self.n_users:,} people of {self.n_items:,} items", lines)

    def columns(self) -> Columns:
        """Return user, item (by their original ids), rating and weight, ``(T,)`` each.

        `from_table` reads them back; with ``scale=``, ``item_ids=`` and ``user_ids=`` also what has no row.
        """
        user, item, rating = self.user_ids[self.user], self.item_ids[self.item], self.scale[self.step]
        return {"user": user, "item": item, "rating": rating, "weight": self.weight.copy()}


def _read_steps(column: Column, scale: Any, n_steps: int | None, sieve: Sieve) -> tuple[Column, Ints]:
    """Return the steps of the scale, and the step of each row."""
    steps = None if scale is None else _scale_of(scale)
    if steps is not None and steps.dtype.kind == "U":
        rating = present_ids(column, "rating", sieve)
    else:
        words = "ratings are numbers; for words give all of them, from the lowest on: scale=[…]"
        rating = numbers_of(column, "rating", words)
        sieve.reject(~np.isfinite(rating), "missing or infinite rating", rating)
    if steps is not None:
        step = codes_of(rating, steps)
        expected = f"a rating is one of {listed(steps.astype(str).tolist())}"
        sieve.reject(step < 0, "rating that is not on the scale", rating, expected)
        return steps, step
    steps, count = np.unique(rating[sieve.keep], return_counts=True)
    if n_steps is not None and len(steps) > whole_number(n_steps, "n_steps", 2):
        ends = np.cumsum(count)[
            :-1
        ]  # a step may end after each of these numbers of ratings: cut nearest to equal shares
        wanted = count.sum() * np.arange(1, n_steps) / n_steps
        cuts = np.unique(np.abs(ends - wanted[:, None]).argmin(axis=1))
        steps = steps[np.r_[0, cuts + 1]]
    elif len(steps) > MOST_STEPS:
        raise DataError(
            f"there are {len(steps):,} different ratings from {steps[0]:g} to {steps[-1]:g}, too many for the steps of "
            "a scale; cut them with n_steps=5, say"
        )
    if len(steps) == 1:
        raise DataError(f"every rating is {steps[0]:g}, which says nothing; ratings that differ are needed")
    return steps, np.searchsorted(steps, rating, side="right") - 1


def _scale_of(scale: Any) -> Column:
    """Return the steps of a scale: rising numbers, or words in the order given."""
    if isinstance(scale, str) or not isinstance(scale, Iterable):
        raise DataError(f"scale={shown(scale)} is no list of ratings; give all of them, from the lowest to the highest")
    steps = as_column(list(scale), "scale")
    if steps.dtype.kind == "O":
        return unique_ids(steps, "scale", "name every rating once")
    rising = steps.dtype.kind in "if" and bool(np.all(np.diff(steps) > 0)) and bool(np.all(np.isfinite(steps)))
    if len(steps) < 2 or not rising:
        raise DataError(f"scale={shown(steps.tolist())}, but two ratings or more were expected, rising from the lowest")
    return steps.astype(np.float64)


def _check_coding(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Check the constructor's arguments: equal lengths, codes in range, positive weights."""
    shapes = {name: arrays[name].shape for name in ("user", "item", "step", "weight")}
    if len(set(shapes.values())) > 1 or arrays["user"].ndim != 1:
        raise DataError(f"user, item, step and weight must have the same shape (T,), but they have {shapes}")
    for name, ids in (("user", "user_ids"), ("item", "item_ids"), ("step", "scale")):
        values, limit = arrays[name], len(arrays[ids])
        if np.any((values < 0) | (values >= limit)):
            raise DataError(
                f"{name} goes from {values.min()} to {values.max()}, but must be in 0…{limit - 1}; build ratings with "
                "from_arrays or from_table, which look ids up"
            )
    if not np.all(np.isfinite(arrays["weight"]) & (arrays["weight"] > 0)):
        raise DataError("weights must be finite and positive; from_arrays drops other rows")
