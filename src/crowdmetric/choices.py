"""Who chose what from which set: one validated, frozen table of choices, rankings, best and worst."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.checks import as_array, one_of
from crowdmetric.errors import DataError
from crowdmetric.tables import (
    IDS_ARE,
    Column,
    Columns,
    Firsts,
    FrozenTable,
    IdsAre,
    Items,
    OnBad,
    code_choices,
    firsts_of,
    known_items,
    name_choices,
    number_alternatives,
    ranges,
    read_columns,
    spread,
    unique_ids,
)

__all__ = ["Choices"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# How a summary calls the answers of a column.
KINDS = {"chosen": "the first", "rank": "a ranking", "worst": "the worst"}


@dataclass(frozen=True, eq=False, repr=False)
class Choices(FrozenTable):
    """Choices among several, rankings, best and worst of a crowd, one row per question. Arrays are read-only.

    Build one with `from_arrays`, `from_table` or `read`, which explain what they cannot use.

    Attributes
    ----------
    user : (Q,) int64
        Who was asked, a row number of ``user_ids``.
    offsets : (Q + 1,) int64
        Question q showed ``item[offsets[q]:offsets[q + 1]]``, two alternatives or more.
    item : (R,) int64
        What was shown, row numbers of the items and of ``item_ids``; −1 is "none of them".
    place : (R,) int64
        What was said of it: 1 came first, 2 second, …; −1 came last; 0 neither.
    weight : (Q,) float64
        How much a question counts, positive and finite.
    user_ids : (K,) int64 or str
    item_ids : (N,) int64 or str
    ids_are : {'given', 'found', 'rows'}
        Where ``item_ids`` come from, as in `Comparisons`.
    dropped : dict
        How many questions of the source were left out, by reason.
    items : Items or None
        The alternatives with their features, where those were read from the same table.

    Examples
    --------
    >>> from crowdmetric import Choices
    >>> choices = Choices.from_arrays(["ann", "ann", "bob"], [[0, 1, 2], [0, 3], [1, 2, 3]], [2, 0, 1])
    >>> len(choices), choices.place.tolist()
    (3, [0, 0, 1, 1, 0, 1, 0, 0])
    """

    user: Ints
    offsets: Ints
    item: Ints
    place: Ints
    weight: Floats
    user_ids: Column
    item_ids: Column
    dropped: dict[str, int] = field(default_factory=dict)
    ids_are: IdsAre = "given"
    items: Items | None = None

    aside = ("dropped", "ids_are", "items")

    def __post_init__(self) -> None:
        one_of(self.ids_are, "ids_are", IDS_ARE)
        arrays: dict[str, NDArray[Any]] = {
            name: np.array(getattr(self, name), dtype=np.int64) for name in ("user", "offsets", "item", "place")
        }
        arrays["weight"] = np.array(self.weight, dtype=np.float64)
        arrays |= {name: unique_ids(getattr(self, name), name) for name in ("user_ids", "item_ids")}
        _check_coding(arrays)
        self._freeze(arrays)

    # ------------------------------------------------------------------------------------------ making

    @classmethod
    def from_arrays(
        cls,
        users: Any,
        shown: Any,
        chosen: Any = None,
        *,
        best: Any = None,
        worst: Any = None,
        ranking: Any = None,
        weight: Any = None,
        items: Any = None,
        n_items: int | None = None,
        item_ids: Any = None,
        user_ids: Any = None,
        none: str | int | None = "none",
        on_bad: OnBad = "drop",
    ) -> Choices:
        """Return the choices held in arrays.

        Parameters
        ----------
        users : (Q,) int or str
        shown : (Q, n) array or Q lists of int or str
            The alternatives of each question.
        chosen : (Q,) array
            The one chosen; or `best`, `worst` or both; or `ranking`, Q lists with the best first, which may be the top
            of what was shown.
        weight : (Q,) array, optional
            1 by default.
        items, n_items, item_ids : optional, at most one
            What `shown` may name, as in `Comparisons.from_arrays`.
        user_ids : (K,) int or str, optional
            Everybody, in the order wanted.
        none : str, int or None
            What "none of them" is called in `shown`. If only answers name it, it was an alternative of every question.
        on_bad : {'drop', 'raise'}
            What to do with questions that cannot be used: leave them out with one `DroppedRowsWarning` that counts
            them by reason, or raise the same sentence as a `DataError`. Rows are counted from 0.
        """
        given = {"user": users, "shown": _lists(shown, "shown"), "chosen": chosen, "best": best, "worst": worst}
        given |= {"ranking": None if ranking is None else _lists(ranking, "ranking"), "weight": weight}
        columns = read_columns({name: values for name, values in given.items() if values is not None})
        known = known_items(items, n_items, item_ids)
        return cls(*code_choices(columns, known.ids, user_ids, none, on_bad), known.are)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        names: Mapping[str, str] | None = None,
        items: Any = None,
        n_items: int | None = None,
        item_ids: Any = None,
        user_ids: Any = None,
        none: str | int | None = "none",
        categorical: Any = None,
        on_bad: OnBad = "drop",
    ) -> Choices:
        """Return the choices held in a table, with one row per alternative or one row per question.

        Parameters
        ----------
        table : path, data frame or mapping
            CSV or Parquet; pandas, Polars or Arrow; or names and arrays. The columns are listed in
            `crowdmetric.tables.choice_columns`; others are ignored.
        names : mapping, optional
            What columns are called in this table, such as ``{"user": "respondent", "chosen": "bought"}``.
        items
            As in `from_arrays`. Where features belong to the alternative in that question, as a price does that
            varies: `table` itself, or the names of its columns that are features. The distinct rows of features are
            then the items, numbered, and `Choices.items` has them.
        categorical : collection of str or 'all', optional
            As in `crowdmetric.tables.read_items`, for features that are in the table itself; may name ``item``.
        n_items, item_ids, user_ids, none, on_bad
            As in `from_arrays`.
        """
        columns = name_choices(read_columns(table), names)
        paths = isinstance(items, str | os.PathLike) and isinstance(table, str | os.PathLike)
        itself = items is table or (paths and os.fspath(items) == os.fspath(table))
        if not itself and not _are_names(items):
            if categorical is not None:
                raise DataError("categorical= is for features in the table itself; give items=table, or leave it out")
            known = known_items(items, n_items, item_ids)
            return cls(*code_choices(columns, known.ids, user_ids, none, on_bad), known.are)
        if n_items is not None or item_ids is not None:
            raise DataError("items are read from the table itself; leave n_items and item_ids out")
        features = None if itself else items
        found, columns = number_alternatives(columns, features, none, categorical)
        return cls(*code_choices(columns, found.ids, user_ids, -1, on_bad), "given", found)

    def take(self, questions: Any) -> Choices:
        """Return the questions of a mask ``(Q,)`` or of numbers; people and items keep their numbers."""
        index = np.arange(len(self))[self._index(questions)]
        size = self.sizes[index]
        rows = ranges(self.offsets[index], size)
        return Choices(
            self.user[index], np.r_[0, np.cumsum(size)], self.item[rows], self.place[rows], self.weight[index],
            self.user_ids, self.item_ids, ids_are=self.ids_are, items=self.items,
        )  # fmt: skip

    def used_items(self) -> NDArray[np.bool_]:
        """Return which items (N,) are shown."""
        used = np.zeros(self.n_items, dtype=np.bool_)
        used[self.item[self.item >= 0]] = True
        return used

    def renumbered(self, place: Ints, item_ids: Column) -> Choices:
        """Return the same answers about items with these ids, given the place (N,) of each of today's among them."""
        item = np.where(self.item < 0, -1, place[self.item])
        return replace(self, item=item, item_ids=item_ids, ids_are="given", items=None)

    # ------------------------------------------------------------------------------------------ asking

    @property
    def sizes(self) -> Ints:
        """How many alternatives each question (Q,) showed, "none of them" included."""
        return np.diff(self.offsets)

    @property
    def question(self) -> Ints:
        """The question (R,) of each alternative."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def n_users(self) -> int:
        """How many people there are, with answers or without."""
        return len(self.user_ids)

    @property
    def has_none(self) -> bool:
        """Whether any question could be answered by "none of them"."""
        return bool(np.any(self.item < 0))

    def firsts(self) -> Firsts:
        """Return the stages "first of the set that is left" of which all answers consist."""
        return firsts_of(self.user, self.offsets, self.item, self.place, self.weight)

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        return f"<Choices: {len(self)} questions, {self.n_users} people, {self.n_items} items>"

    def summary(self) -> str:
        """Return a few lines about the table: size, sets, answers, questions per person, items shown, drops."""
        none = self.place[self.item < 0]
        lines = {
            "asked per person": spread(np.bincount(self.user, minlength=self.n_users)),
            "alternatives": spread(self.sizes),
            "answers": ", ".join(KINDS[name] for name in self.columns() if name in KINDS),
            "none of them": f"{np.sum(none == 1):,} of {len(none):,} questions" if len(none) else "not offered",
            "items shown": f"{self.used_items().sum():,} of {self.n_items:,}",
        }
        title = f"{len(self):,} questions to {self.n_users:,} people about {self.n_items:,} items"
        return self._lines(title, lines)

    # ----------------------------------------------------------------------------------------- writing

    def columns(self) -> Columns:
        """Return one row per alternative: user, question, item (by their original ids), the answer and weight.

        The answer is ``chosen``, or ``rank`` where people ranked, and ``worst`` where they named one. "None of them" is
        the item 'none'. `from_table` reads them back; with ``item_ids=`` and ``user_ids=`` also what has no row.
        """
        question, rank = self.question, np.where(self.place > 0, self.place, np.nan)
        item = self.item_ids[self.item]
        if self.has_none:
            item = item.astype(str).astype(object)
            item[self.item < 0] = "none"
        ranked, worst = bool(np.any(self.place > 1)), bool(np.any(self.place < 0))
        answer: Columns = {"rank": rank} if ranked else {"chosen": (self.place == 1).astype(np.int64)}
        answer |= {"worst": (self.place < 0).astype(np.int64)} if worst else {}
        return (
            {"user": self.user_ids[self.user[question]], "question": question, "item": item}
            | answer
            | {"weight": self.weight[question]}
        )


def _lists(values: Any, name: str) -> Any:
    """Return alternatives (Q, n), or Q lists of them, as a list of lists."""
    if hasattr(values, "__array__") and (array := as_array(values, name)).dtype.kind != "O":
        if array.ndim != 2:
            raise DataError(f"{name} has shape {array.shape}; (Q, n) was expected, one row per question, or Q lists")
        return array.tolist()
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise DataError(f"{name} is of type {type(values).__name__}; give a (Q, n) array or a list of Q lists")
    wrong = next((row for row, cell in enumerate(values) if not isinstance(cell, list | tuple | np.ndarray)), None)
    if wrong is not None:
        raise DataError(f"{name} has {values[wrong]!r} in row {wrong}; a list of alternatives was expected")
    return values


def _are_names(items: Any) -> bool:
    """Return whether `items` are names of columns and not a catalog."""
    return isinstance(items, list | tuple) and bool(items) and all(isinstance(name, str) for name in items)


def _check_coding(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Check the constructor's arguments: lengths, codes in range, places that follow each other, positive weights."""
    user, offsets, item, place = (arrays[name] for name in ("user", "offsets", "item", "place"))
    n, rows, hint = len(user), len(item), "; build choices with from_arrays or from_table"
    if any(array.ndim != 1 for array in arrays.values()):
        raise DataError(f"user, offsets, item, place and weight must have one dimension each{hint}")
    if len(offsets) != n + 1 or arrays["weight"].shape != (n,) or place.shape != (rows,):
        lengths = ", ".join(f"{name} {len(arrays[name])}" for name in ("user", "offsets", "weight", "item", "place"))
        raise DataError(f"(Q,), (Q + 1,), (Q,), (R,) and (R,) were expected, but the lengths are {lengths}{hint}")
    size = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != rows or np.any(size < 2):
        raise DataError(f"offsets must rise from 0 to {rows} by two alternatives or more per question{hint}")
    for name, least, limit in (("user", 0, len(arrays["user_ids"])), ("item", -1, len(arrays["item_ids"]))):
        if np.any((arrays[name] < least) | (arrays[name] >= limit)):
            ends = f"{arrays[name].min()} to {arrays[name].max()}"
            raise DataError(f"{name} goes from {ends}, but must be in {least}…{limit - 1}{hint}")
    question = np.repeat(np.arange(n), size)
    named, asked = place[place != 0], question[place != 0]
    code = asked * (size.max(initial=0) + 2) + named + 1
    most = np.zeros(n, dtype=np.int64)
    np.maximum.at(most, question, place)
    follow = np.bincount(question[place > 0], minlength=n) == most
    if np.any(place < -1) or len(np.unique(code)) < len(code) or not follow.all() or len(np.unique(asked)) < n:
        raise DataError(f"places must be 1, 2, … and −1, each once per question, and 0 for the rest{hint}")
    if not np.all(np.isfinite(arrays["weight"]) & (arrays["weight"] > 0)):
        raise DataError("weights must be finite and positive; from_arrays drops other questions")
