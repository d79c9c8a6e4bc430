"""Who rated what how: one validated, frozen table of ratings on an ordered scale."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.checks import one_of, whole_number
from crowdmetric.errors import DataError
from crowdmetric.tables import (
    IDS_ARE,
    CodedRatings,
    Column,
    Columns,
    FrozenTable,
    IdsAre,
    OnBad,
    Steps,
    code_ratings,
    known_items,
    name_ratings,
    read_columns,
    unique_ids,
)

__all__ = ["Ratings"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Ratings(FrozenTable):
    """Ratings of a crowd on one ordered scale, one row per rating. Arrays are read-only.

    Build one with `from_arrays`, `from_table` or `read`, which explain what they cannot use.

    Attributes
    ----------
    user, item : (T,) int64
        Who rated what, row numbers of `user_ids` and of `item_ids`.
    step : (T,) int64
        The rating, a row number of `scale`: 0 is the lowest.
    weight : (T,) float64
        How much a rating counts, positive and finite.
    scale : (n,) float64 or str
        The steps, from the lowest to the highest; where ratings were cut into steps, the lowest rating of each.
    user_ids, item_ids, ids_are
        As in `Comparisons`.
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
        arrays |= {"weight": np.array(self.weight, dtype=np.float64), "scale": np.array(self.scale)}
        arrays |= {name: unique_ids(getattr(self, name), name) for name in ("user_ids", "item_ids")}
        _check_coding(arrays)
        for name, array in arrays.items():
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "dropped", dict(self.dropped))

    # ------------------------------------------------------------------------------------------ making

    @classmethod
    def from_arrays(cls, users: Any, items_rated: Any, rating: Any, *, weight: Any = None, **options: Any) -> Ratings:
        """Return the ratings held in arrays (T,); `options` are those of `from_table`.

        Parameters
        ----------
        users, items_rated : (T,) int or str
        rating : (T,) float or str
        weight : (T,) array, optional
            1 by default.
        **options
            As in `from_table`, but for `names`.
        """
        given = {"user": users, "item": items_rated, "rating": rating, "weight": weight}
        return cls.from_table({name: values for name, values in given.items() if values is not None}, **options)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        names: Mapping[str, str] | None = None,
        scale: Sequence[Any] | None = None,
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
        if n_steps is not None:
            whole_number(n_steps, "n_steps", 2)
        columns = name_ratings(read_columns(table), names)
        known = known_items(items, n_items, item_ids)
        coded: CodedRatings = code_ratings(columns, known.ids, user_ids, scale, n_steps, on_bad)
        return cls(*coded, known.are)

    @classmethod
    def read(cls, path: str | os.PathLike[str], **options: Any) -> Ratings:
        """Return the ratings in a CSV or Parquet file; `options` are those of `from_table`."""
        return cls.from_table(path, **options)

    def take(self, rows: Any) -> Ratings:
        """Return the rows of a mask ``(T,)`` or of row numbers; people, items and steps keep their numbers."""
        index = self._index(rows)
        kept = (getattr(self, name)[index] for name in ("user", "item", "step", "weight"))
        return Ratings(*kept, self.scale, self.user_ids, self.item_ids, ids_are=self.ids_are)

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
    def n_items(self) -> int:
        """How many items there are, rated or not."""
        return len(self.item_ids)

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

    def __eq__(self, other: object) -> bool:
        """Compare rows, scale and ids; what was dropped on the way and where ids come from does not matter."""
        if not isinstance(other, Ratings):
            return NotImplemented
        names = ("user", "item", "step", "weight", "scale", "user_ids", "item_ids")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]  # equal by content, like a dictionary

    def summary(self) -> str:
        """Return a few lines about the table: size, ratings per person, the scale and its use, items rated, drops."""
        rated, used = (np.bincount(self.user, minlength=self.n_users), np.bincount(self.step, minlength=self.n_steps))
        each = f"min {rated.min():,}, median {np.median(rated):,g}, max {rated.max():,}" if rated.size else "nobody"
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items())
        again = len(self) - len(np.unique(self.user * self.n_items + self.item))
        lines = {
            "ratings per person": each,
            "scale": f"{self.n_steps} steps, {self.scale[0]} to {self.scale[-1]}",
            "ratings per step": ", ".join(f"{count:,}" for count in used),
            "items rated": f"{self.used_items().sum():,} of {self.n_items:,}",
            "rated again": f"{again:,}",
            "dropped": f"{sum(self.dropped.values()):,}" + (f" ({dropped})" if dropped else ""),
        }
        title = f"{len(self):,} ratings by {self.n_users:,} people of {self.n_items:,} items"
        return "\n".join([title, *(f"  {name:<20}{text}" for name, text in lines.items())])

    # ----------------------------------------------------------------------------------------- writing

    def columns(self) -> Columns:
        """Return user, item (by their original ids), rating and weight, ``(T,)`` each.

        `from_table` reads them back; with ``scale=``, ``item_ids=`` and ``user_ids=`` also what has no row.
        """
        return {
            "user": self.user_ids[self.user],
            "item": self.item_ids[self.item],
            "rating": self.scale[self.step],
            "weight": self.weight.copy(),
        }


def _check_coding(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Check the constructor's arguments: equal lengths, codes in range, positive weights, a scale of distinct steps."""
    shapes = {name: arrays[name].shape for name in ("user", "item", "step", "weight")}
    if len(set(shapes.values())) > 1 or arrays["user"].ndim != 1:
        raise DataError(f"user, item, step and weight must have the same shape (T,), but they have {shapes}")
    for name, ids in (("user", "user_ids"), ("item", "item_ids"), ("step", "scale")):
        if np.any((arrays[name] < 0) | (arrays[name] >= len(arrays[ids]))):
            raise DataError(
                f"{name} goes from {arrays[name].min()} to {arrays[name].max()}, but must be in "
                f"0…{len(arrays[ids]) - 1}; build ratings with from_arrays or from_table"
            )
    if not np.all(np.isfinite(arrays["weight"]) & (arrays["weight"] > 0)):
        raise DataError("weights must be finite and positive; from_arrays drops other rows")
    scale = arrays["scale"]
    if scale.ndim != 1 or len(scale) < 2 or len(np.unique(scale)) < len(scale):
        raise DataError(f"a scale has two steps or more, all different, but scale is {scale.tolist()!r}")
