"""Who preferred what: one validated, frozen table of pairwise answers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.checks import as_array, one_of, whole_number
from crowdmetric.errors import DataError
from crowdmetric.tables import (
    ASKED,
    DECLARED,
    IDS_ARE,
    Column,
    Columns,
    ComparisonScan,
    CsvSource,
    DatasetSource,
    FrozenTable,
    IdsAre,
    OnBad,
    ParquetSource,
    RowSource,
    canonical_columns,
    code_answers,
    cut_sentence,
    known_items,
    matching_files,
    origin_of_pairs,
    read_columns,
    refuse_judgements,
    spread,
    unique_ids,
)

__all__ = ["Comparisons", "made_of_column", "times_asked"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ROWS = ("user", "left", "right", "response", "weight")
# Number of answers of which people are looked at to find out what pairs are made of.
MOST_LOOKED_AT = 500_000


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons(FrozenTable):
    """Pairwise answers of a crowd, one row per answer. Arrays are read-only.

    Build one with `from_arrays`, `from_table` or `read`, which explain what they cannot use.

    Attributes
    ----------
    user : (T,) int64
        Who answered, a row number of `user_ids`.
    left, right : (T,) int64
        What was compared, row numbers of the items and of `item_ids`.
    response : (T,) float64
        −1 left preferred, +1 right preferred; or a real ψ, negative where left is preferred.
    weight : (T,) float64
        How much a row counts, positive and finite.
    user_ids : (K,) int64 or str
        Sorted, so the order of rows changes nothing; or as given, and then also people without a row.
    item_ids : (N,) int64 or str
        As given; otherwise the row numbers 0…N−1, or the sorted names found.
    dropped : dict
        How many rows of the source were left out, by reason.
    ids_are : {'given', 'found', 'rows'}
        Where `item_ids` come from: a list that was given, the answers themselves, or row numbers. A fit matches answers
        to items by id wherever both have ids (`crowdmetric.tables.matching`).
    made_of : str
        What the pairs were cut from, where somebody says so: 'choices', 'rankings', 'ratings', or 'pairs' that were
        asked one by one; empty: `origin` finds out.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric import Comparisons
    >>> answers = Comparisons.from_arrays([0, 0, 1, 1], [[0, 1], [1, 2], [0, 2], [2, 1]], [-1, 1, -1, 1])
    >>> answers.user_ids.tolist(), answers.response.tolist()
    ([0, 1], [-1.0, 1.0, -1.0, 1.0])
    >>> print(answers.summary().splitlines()[0])
    4 rows by 2 people on 3 items
    """

    user: Ints
    left: Ints
    right: Ints
    response: Floats
    weight: Floats
    user_ids: Column
    item_ids: Column
    dropped: dict[str, int] = field(default_factory=dict)
    ids_are: IdsAre = "given"
    made_of: str = ""

    aside = ("dropped", "ids_are", "made_of")

    def __post_init__(self) -> None:
        one_of(self.ids_are, "ids_are", IDS_ARE)
        if self.made_of:
            one_of(self.made_of, "made_of", (*DECLARED, "orders"))
        rows = {name: np.array(getattr(self, name), dtype=np.int64) for name in ("user", "left", "right")}
        rows |= {name: np.array(getattr(self, name), dtype=np.float64) for name in ("response", "weight")}
        ids = {name: unique_ids(getattr(self, name), name) for name in ("user_ids", "item_ids")}
        _check_coding(rows, len(ids["user_ids"]), len(ids["item_ids"]))
        self._freeze(rows | ids)

    # ------------------------------------------------------------------------------------------ making

    @classmethod
    def from_arrays(
        cls,
        users: Any,
        pairs: Any = None,
        response: Any = None,
        *,
        left: Any = None,
        right: Any = None,
        choice: Any = None,
        probability: Any = None,
        weight: Any = None,
        items: Any = None,
        n_items: int | None = None,
        item_ids: Any = None,
        user_ids: Any = None,
        on_bad: OnBad = "drop",
        made_of: str = "",
    ) -> Comparisons:
        """Return the comparisons held in arrays.

        Parameters
        ----------
        users : (T,) int or str
        pairs : (T, 2) int or str
            The items compared, left and right; or give `left` and `right`, (T,) each.
        response, choice, probability : (T,) array
            The answers, in one of three ways: −1 (left preferred), +1 (right preferred) or a real ψ;
            'left', 'right', 'tie', 0 (left) or 1 (right); or the probability of preferring left. A tie
            becomes two rows of half its weight, a probability p two rows with the shares p and 1 − p.
        weight : (T,) array, optional
            1 by default. Rows of weight 0 say nothing and are dropped.
        items, n_items, item_ids : optional, at most one
            What `pairs` may name: a catalogue for `read_items`, the number of items, or their ids. Without
            any, integers are row numbers and text names the items.
        user_ids : (K,) int or str, optional
            Everybody, in the order wanted, including people without answers.
        on_bad : {'drop', 'raise'}
            What to do with rows that cannot be used: leave them out with one `DroppedRowsWarning` that counts
            them by reason, or raise the same sentence as a `DataError`. Rows are counted from 0.
        made_of : {'', 'pairs', 'choices', 'rankings', 'ratings'}
            What the pairs were cut from; 'pairs': each was asked by itself; '': it is found out (`origin`).
        """
        if pairs is not None:
            if left is not None or right is not None:
                raise DataError("pairs and left/right both name the items; give pairs, or left and right")
            left, right = _sides(pairs)
        given = {
            "user": users,
            "left": left,
            "right": right,
            "response": response,
            "choice": choice,
            "probability": probability,
            "weight": weight,
        }
        columns = read_columns({name: values for name, values in given.items() if values is not None})
        for name in ("user", "left", "right"):
            if name not in columns:
                raise DataError(f"{name} is missing; who compared which two items is needed in every row")
        known = known_items(items, n_items, item_ids)
        return cls(*code_answers(columns, known.ids, user_ids, on_bad), known.are, made_of)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        user: str = "user",
        left: str = "left",
        right: str = "right",
        items: Any = None,
        n_items: int | None = None,
        item_ids: Any = None,
        user_ids: Any = None,
        on_bad: OnBad = "drop",
        made_of: str | None = None,
    ) -> Comparisons:
        """Return the comparisons held in a table.

        Parameters
        ----------
        table : path, data frame or mapping
            CSV or Parquet; pandas, Polars or Arrow; or names and arrays. The answer is in one of the columns
            ``response``, ``choice`` and ``probability``, as in `from_arrays`; or the items are in ``winner``
            and ``loser`` instead of left and right. ``weight`` may be there too; other columns are ignored.
        user, left, right : str
            Column names. Where the default is absent, ``user_id``, ``person``, ``rater``, ``annotator``;
            ``left_id``, ``item_a``; ``right_id``, ``item_b`` are looked for.
        items, n_items, item_ids, user_ids, on_bad
            As in `from_arrays`.
        made_of : str, optional
            As in `from_arrays`; None: as a column ``made_of`` says, where there is one.
        """
        given = read_columns(table)
        refuse_judgements(given, {user, left, right})
        columns = canonical_columns(given, {"user": user, "left": left, "right": right})
        known = known_items(items, n_items, item_ids)
        made_of = made_of_column(given.get("made_of")) if made_of is None else made_of
        return cls(*code_answers(columns, known.ids, user_ids, on_bad), known.are, made_of)

    @classmethod
    def scan_parquet(cls, path: str | os.PathLike[str], **options: Any) -> ComparisonScan:
        """Return comparisons that stay in Parquet files, for fits on more answers than memory holds.

        Parameters
        ----------
        path : path
            A file, a folder of them, or a pattern such as ``answers/*.parquet``.
        user, left, right, on_bad
            As in `from_table`.
        items, n_items, item_ids
            As in `from_arrays`; one of them is needed.
        scratch : path, optional
            Where answers are grouped by person, once; by default the folder for temporary files.
        """
        return _scan(ParquetSource(matching_files(path, (".parquet", ".pq"))), **options)

    @classmethod
    def scan_csv(cls, path: str | os.PathLike[str], **options: Any) -> ComparisonScan:
        """Return comparisons that stay in CSV files; `options` are those of `scan_parquet`."""
        return _scan(CsvSource(matching_files(path, (".csv", ".csv.gz"))), **options)

    @classmethod
    def scan_arrow(cls, dataset: Any, **options: Any) -> ComparisonScan:
        """Return comparisons that stay in a ``pyarrow.dataset.Dataset``; `options` are those of `scan_parquet`."""
        if not (hasattr(dataset, "to_batches") and hasattr(dataset, "schema")):
            raise DataError(f"{type(dataset).__name__} is not an Arrow dataset; make one with pyarrow.dataset.dataset")
        return _scan(DatasetSource(dataset), **options)

    @classmethod
    def from_scan(cls, scan: ComparisonScan, people: int | None = None) -> Comparisons:
        """Return scanned comparisons in memory, sorted by person: of all people, or of about this many.

        People are drawn by a hash of their number, so the same ones are drawn every time.
        """
        if people is not None:
            whole_number(people, "people")
        return cls(*scan.collect(people), scan.ids_are)

    def take(self, rows: Any) -> Comparisons:
        """Return the rows of a mask ``(T,)`` or of row numbers; people and items keep their numbers."""
        index = self._index(rows)
        kept = {name: getattr(self, name)[index] for name in ROWS}
        ids = {"user_ids": self.user_ids, "item_ids": self.item_ids, "ids_are": self.ids_are}
        # a part of the pairs that were cut from something was cut from it too, although that shows less
        return Comparisons(**kept, **ids, made_of=self.origin)  # type: ignore[arg-type]

    def used_items(self) -> NDArray[np.bool_]:
        """Return which items (N,) are compared."""
        used = np.zeros(self.n_items, dtype=np.bool_)
        used[self.left] = used[self.right] = True
        return used

    def renumbered(self, place: Ints, item_ids: Column) -> Comparisons:
        """Return the same answers about items with these ids, given the place (N,) of each of today's among them."""
        return replace(self, left=place[self.left], right=place[self.right], item_ids=item_ids, ids_are="given")

    # ------------------------------------------------------------------------------------------ asking

    @property
    def pairs(self) -> Ints:
        """Row numbers ``(T, 2)`` of the items compared, left and right."""
        return np.column_stack([self.left, self.right])

    @property
    def n_users(self) -> int:
        """How many people there are, with answers or without."""
        return len(self.user_ids)

    @property
    def n_answers(self) -> int:
        """How many answers there are (`times_asked`): a tie counts once although it is two rows, weight 2 as two."""
        return int(times_asked(self.user, self.left, self.right, self.weight)[1].sum())

    @property
    def is_binary(self) -> bool:
        """Whether every response is −1 or +1."""
        return bool(np.all(np.abs(self.response) == 1))

    @cached_property
    def origin(self) -> str:
        """How the pairs were made: 'pairs' that were asked one by one; or cut from 'choices', 'rankings' or 'ratings'.

        As `made_of` says, else recognized by structure (`crowdmetric.tables.pair_origin`), which cannot tell rankings
        from ratings ('orders').
        """
        if self.made_of or not self.is_binary:
            return self.made_of or ASKED
        step = -(-len(self) // MOST_LOOKED_AT)
        some = slice(None) if step <= 1 else self.user % step == 0
        right = self.response[some] > 0
        winner, loser = (np.where(side, self.right[some], self.left[some]) for side in (right, ~right))
        return origin_of_pairs(self.user[some], winner, loser)

    @property
    def is_cut(self) -> bool:
        """Whether the pairs were cut from choices, rankings or ratings, so that they are no answers of their own."""
        return self.origin != ASKED

    @property
    def caution(self) -> str:
        """What the answers are, and what follows, in one sentence; empty if they were asked one by one."""
        return cut_sentence(self.origin, declared=self.made_of in DECLARED)

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        return f"<Comparisons: {len(self)} rows, {self.n_users} people, {self.n_items} items>"

    def summary(self) -> str:
        """Return a few lines about the table: size, answers per person, items used, ties, duplicates, drops.

        A tie is any two rows that differ only in the sign of a ±1 response, so somebody who answered
        the same question both ways counts too; a duplicate is a row that equals an earlier one.
        """
        used = len(np.unique(self.pairs))
        lines = {
            "answers per person": spread(np.bincount(self.user, minlength=self.n_users)),
            "items used": f"{used:,} of {self.n_items:,}",
            "responses": "−1 or +1" if self.is_binary else "real numbers",
            "ties": f"{_count_ties(self):,}",
            "duplicates": f"{_count_duplicates(self):,}",
        }
        title = f"{len(self):,} rows by {self.n_users:,} people on {self.n_items:,} items"
        lines |= {"made of": f"{self.origin}: no answers of their own"} if self.is_cut else {}
        return self._lines(title, lines)

    # ----------------------------------------------------------------------------------------- writing

    def columns(self) -> Columns:
        """Return user, left, right (by their original ids), response and weight, ``(T,)`` each.

        `from_table` reads them back; with ``item_ids=`` and ``user_ids=`` also who and what has no row. Where somebody
        said what the pairs were cut from, a column ``made_of`` says so.
        """
        return {
            "user": self.user_ids[self.user],
            "left": self.item_ids[self.left],
            "right": self.item_ids[self.right],
            "response": self.response.copy(),
            "weight": self.weight.copy(),
        } | ({"made_of": np.full(len(self), self.made_of)} if self.made_of in DECLARED[1:] else {})


def times_asked(user: Column, left: Column, right: Column, weight: Column) -> tuple[Ints, Ints]:
    """Return the first row of each question of each person, ``(Q,)`` and rising, and how often they answered it.

    Rows are not answers: a tie is two rows of half the weight, a probability two rows of weights p and 1 − p, and a
    row of weight 2 stands for the row twice. So the rows of one person about one pair of items are put together, and
    count as often as their weights add up to, rounded down, but at least once.
    """
    groups = _groups(user, left, right)
    first = np.unique(groups, return_index=True)[1]
    # three weights of one third count as one answer, despite rounding
    total = np.floor(np.bincount(groups, weight, minlength=len(first)) + 1e-9).astype(np.int64)
    order = np.argsort(first)
    return first[order].astype(np.int64), np.maximum(total, 1)[order]


def _check_coding(rows: Mapping[str, Column], n_users: int, n_items: int) -> None:
    """Check the constructor's arguments: equal lengths, codes in range, positive weights."""
    if len({array.shape for array in rows.values()}) > 1 or rows["user"].ndim != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in rows.items())
        raise DataError(f"every column must have the same shape (T,), but they are {shapes}")
    for name, limit in (("user", n_users), ("left", n_items), ("right", n_items)):
        if np.any((rows[name] < 0) | (rows[name] >= limit)):
            raise DataError(
                f"{name} goes from {rows[name].min()} to {rows[name].max()}, but must be in 0…{limit - 1}; "
                "build comparisons with from_arrays or from_table, which look ids up"
            )
    usable = np.isfinite(rows["response"]) & np.isfinite(rows["weight"]) & (rows["weight"] > 0)
    if not usable.all():
        raise DataError("responses must be finite, weights finite and positive; from_arrays drops other rows")


def _count_duplicates(table: Comparisons) -> int:
    groups = _groups(table.user, table.left, table.right, table.response, table.weight)
    return len(groups) - len(np.unique(groups))


def _count_ties(table: Comparisons) -> int:
    groups = _groups(table.user, table.left, table.right, table.weight)
    lefts, rights = (np.bincount(groups[table.response == y], minlength=len(groups)) for y in (-1, 1))
    return int(np.minimum(lefts, rights).sum())


def _groups(*columns: Column) -> Ints:
    """Return a number ``(T,)`` that two rows share exactly when all their columns are equal."""
    order = np.lexsort(columns)
    new = np.zeros(len(order), dtype=np.int64)
    for column in columns:
        new[1:] |= column[order[1:]] != column[order[:-1]]
    groups = np.empty_like(new)
    groups[order] = np.cumsum(new)
    return groups


# ------------------------------------------------------------------------------------------- arguments


def made_of_column(column: Column | None) -> str:
    """Return what a column ``made_of`` says, one word for all rows; empty without one."""
    if column is None:
        return ""
    words = sorted({str(word).strip().lower() for word in column.tolist() if word is not None and word == word})  # noqa: PLR0124 - NaN
    if len(words) != 1 or words[0] not in DECLARED:
        said = ", ".join(map(repr, words[:3])) or "nothing"
        raise DataError(
            f"the column made_of says {said}, but one of {', '.join(map(repr, DECLARED))} was expected, for all rows; "
            "correct it, leave the column out, or fit the parts of the table one by one"
        )
    return words[0]


def _sides(pairs: Any) -> tuple[Any, Any]:
    """Return left and right of ``pairs (T, 2)``; lists keep the types of their entries."""
    if hasattr(pairs, "__array__"):
        pairs = as_array(pairs, "pairs")
        if pairs.ndim == 2 and pairs.shape[1] == 2:
            return pairs[:, 0], pairs[:, 1]
        raise DataError(f"pairs has shape {pairs.shape}; (T, 2) was expected, a left and a right item per row")
    for row, pair in enumerate(pairs):
        if isinstance(pair, str) or not isinstance(pair, Sized) or len(pair) != 2:
            raise DataError(f"pairs has {pair!r} in row {row}; two items were expected, left and right")
    return [left for left, _ in pairs], [right for _, right in pairs]


def _scan(
    source: RowSource,
    *,
    user: str = "user",
    left: str = "left",
    right: str = "right",
    items: Any = None,
    n_items: int | None = None,
    item_ids: Any = None,
    on_bad: OnBad = "drop",
    scratch: str | os.PathLike[str] | None = None,
) -> ComparisonScan:
    known = known_items(items, n_items, item_ids)
    if known.ids is None:
        raise DataError("a scan must know the items before it reads the answers; pass items=, n_items= or item_ids=")
    return ComparisonScan(source, known.ids, {"user": user, "left": left, "right": right}, on_bad, scratch, known.are)
