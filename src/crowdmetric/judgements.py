"""Which is more like this? One validated, frozen table of similarity judgements.

Every kind of judgement chooses one of k pairs of items as the closest: see `crowdmetric.tables.judgement_columns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.canonical import Canonical, canonical_of_choices
from crowdmetric.checks import as_array, check_size, one_of
from crowdmetric.errors import DataError
from crowdmetric.tables import (
    IDS_ARE,
    CodedJudgements,
    Column,
    Columns,
    FrozenTable,
    IdsAre,
    OnBad,
    code_judgements,
    known_items,
    name_judgements,
    read_columns,
    unique_ids,
)
from crowdmetric.tables.judgement_columns import ALTERNATIVES, KINDS

__all__ = ["KINDS", "CheckQuestions", "Judgements", "canonical_of_judgements"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# The columns that answers are written in, by kind.
ANSWERS = {"triplet": ("n_left", "n_right"), "odd_one_out": ("n_a", "n_b", "n_c"), "quadruplet": ("n_left", "n_right")}


@dataclass(frozen=True)
class CheckQuestions:
    """Questions with an obvious answer: two of their items are one and the same.

    Attributes
    ----------
    asked, wrong : (K,) float64
        How many answers everybody gave to them, and how many of those were wrong.
    alternatives : int
        Among how many pairs people chose.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.judgements import CheckQuestions
    >>> checks = CheckQuestions(asked=np.array([10.0]), wrong=np.array([1.0]), alternatives=2)
    >>> round(checks.lapse_rate, 3)
    0.2
    """

    asked: Floats
    wrong: Floats
    alternatives: int

    @property
    def lapse_rate(self) -> float:
        """Estimated share of answers given without looking; NaN where nothing was checked.

        Whoever guesses among k is right once in k times: ``lapse = wrong share / (1 − 1/k)``.
        """
        if not self.asked.sum():
            return float("nan")
        return min(1.0, float(self.wrong.sum() / self.asked.sum()) / (1.0 - 1.0 / self.alternatives))

    def summary(self) -> str:
        """Return what the checks say, in one sentence."""
        if not self.asked.sum():
            return "no check questions"
        return (
            f"{self.wrong.sum():,g} of {self.asked.sum():,g} check questions were answered wrongly: about "
            f"{self.lapse_rate:.1%} of all answers were given without looking"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Judgements(FrozenTable):
    """Similarity judgements of a crowd, one row per question and person. Arrays are read-only.

    Build one with `from_triplets`, `from_odd_one_out`, `from_quadruplets`, `from_table` or `read`, which explain what
    they cannot use.

    Attributes
    ----------
    kind : {'triplet', 'odd_one_out', 'quadruplet'}
    items : (T, 3) or (T, 4) int64
        Row numbers of the items: anchor, left, right; a, b, c; or a, b (first pair), c, d (second pair).
    counts : (T, k) float64
        How often each alternative was chosen: left, right; a, b, c as the odd one; first pair, second pair. A tie is
        half an answer for each; weights multiply.
    person : (T,) int64
        Who answered, a row number of `person_ids`.
    person_ids : (K,) int64 or str
    item_ids : (N,) int64 or str
    response_time : (T,) float64 or None
        Mean time of a row's answers, in the units of the source. Kept aside: nothing uses it.
    checks : CheckQuestions
        Check questions, which are not among the rows.
    dropped : dict
        How many rows of the source were left out, by reason.
    ids_are : {'given', 'found', 'rows'}
        Where `item_ids` come from, as in `Comparisons`.

    Examples
    --------
    >>> from crowdmetric import Judgements
    >>> judgements = Judgements.from_triplets([[0, 1, 2], [0, 1, 2], [0, 2, 1]])
    >>> judgements.items.tolist(), judgements.counts.tolist()
    ([[0, 1, 2]], [[2.0, 1.0]])
    """

    kind: str
    items: Ints
    counts: Floats
    person: Ints
    person_ids: Column
    item_ids: Column
    response_time: Floats | None = None
    checks: CheckQuestions | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    ids_are: IdsAre = "given"

    aside = ("dropped", "ids_are", "checks", "response_time")

    def __post_init__(self) -> None:
        one_of(self.ids_are, "ids_are", IDS_ARE)
        if self.kind not in KINDS:
            raise DataError(f"kind is {self.kind!r}, but must be one of {', '.join(map(repr, KINDS))}")
        arrays: dict[str, NDArray[Any]] = {
            "items": np.array(self.items, dtype=np.int64),
            "counts": np.array(self.counts, dtype=np.float64),
            "person": np.array(self.person, dtype=np.int64),
            "person_ids": unique_ids(self.person_ids, "person_ids"),
            "item_ids": unique_ids(self.item_ids, "item_ids"),
        }
        if self.response_time is not None:
            arrays["response_time"] = np.array(self.response_time, dtype=np.float64)
        _check_coding(self.kind, arrays)
        self._freeze(arrays)
        if self.checks is None:
            nothing = np.zeros(len(arrays["person_ids"]))
            object.__setattr__(self, "checks", CheckQuestions(nothing, nothing, self.n_alternatives))

    # ------------------------------------------------------------------------------------------ making

    @classmethod
    def from_triplets(cls, triplets: Any, choice: Any = None, **options: Any) -> Judgements:
        """Return triplets (T, 3) held in an array.

        Parameters
        ----------
        triplets : (T, 3) int or str
            Anchor, closer, farther, as in metric-learn; with `choice`, or `counts`: anchor, left, right.
        choice : (T,) array, optional
            'left', 'right', 'tie', 0 (left is closer) or 1 (right is closer).
        counts : (T, 2) array, optional
            How often left and right were called closer.
        person, weight, response_time : (T,) arrays, optional
        items, n_items, item_ids : optional, at most one
            What the table may name: a catalog for `read_items`, the number of items, or their ids.
        person_ids : (K,) int or str, optional
            Everybody, in the order wanted.
        merge : bool, default True
            Add up the answers of one person to one question, in whatever order it was asked. False: keep every row as
            it is.
        on_bad : {'drop', 'raise'}
            What to do with rows that cannot be used: leave them out with one `DroppedRowsWarning` that counts them
            by reason, or raise the same sentence as a `DataError`.
        """
        return cls._from_array("triplet", triplets, choice, **options)

    @classmethod
    def from_quadruplets(cls, quadruplets: Any, choice: Any = None, **options: Any) -> Judgements:
        """Return quadruplets (T, 4) held in an array: the closer pair, then the other, as in metric-learn.

        With `choice` or `counts`: the first pair (left) and the second (right). `options` as in `from_triplets`.
        """
        return cls._from_array("quadruplet", quadruplets, choice, **options)

    @classmethod
    def from_odd_one_out(cls, triples: Any, odd: Any = None, **options: Any) -> Judgements:
        """Return odd-one-out judgements (T, 3) held in an array.

        Parameters
        ----------
        triples : (T, 3) int or str
            Three items; without `odd` and `counts` the first is the odd one.
        odd : (T,) int, optional
            The place of the odd one in its row: 0, 1 or 2.
        counts : (T, 3) array, optional
            How often each was called odd.
        **options
            As in `from_triplets`.
        """
        return cls._from_array("odd_one_out", triples, odd, **options)

    @classmethod
    def _from_array(
        cls,
        kind: str,
        questions: Any,
        choice: Any,
        *,
        counts: Any = None,
        person: Any = None,
        weight: Any = None,
        response_time: Any = None,
        items: Any = None,
        n_items: int | None = None,
        item_ids: Any = None,
        person_ids: Any = None,
        merge: bool = True,
        on_bad: OnBad = "drop",
    ) -> Judgements:
        names = KINDS[kind]
        table = as_array(questions, f"{kind} judgements")
        if table.ndim != 2 or table.shape[1] != len(names):
            raise DataError(f"{kind} judgements have shape {table.shape}; (T, {len(names)}) was expected: {names}")
        given: dict[str, Any] = {name: table[:, place] for place, name in enumerate(names)}
        given |= _answers_of(kind, table, choice, counts)
        given |= {"person": person, "weight": weight, "response_time": response_time}
        columns = read_columns({name: values for name, values in given.items() if values is not None})
        known = known_items(items, n_items, item_ids)
        return cls._of(code_judgements(columns, known.ids, person_ids, on_bad), known.are, merge)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        names: Mapping[str, str] | None = None,
        items: Any = None,
        n_items: int | None = None,
        item_ids: Any = None,
        person_ids: Any = None,
        merge: bool = True,
        on_bad: OnBad = "drop",
    ) -> Judgements:
        """Return the judgements held in a table, whose columns say of which kind they are.

        Parameters
        ----------
        table : path, data frame or mapping
            CSV (also ``.csv.gz``) or Parquet; pandas, Polars or Arrow; or names and arrays. The columns are listed in
            `crowdmetric.tables.judgement_columns`; others are ignored.
        names : mapping, optional
            What columns are called in this table, such as ``{"anchor": "probe_image"}``.
        items, n_items, item_ids, person_ids, merge, on_bad
            As in `from_triplets`.
        """
        columns = name_judgements(read_columns(table), names)
        known = known_items(items, n_items, item_ids)
        return cls._of(code_judgements(columns, known.ids, person_ids, on_bad), known.are, merge)

    @classmethod
    def _of(cls, coded: CodedJudgements, ids_are: IdsAre, merge: bool) -> Judgements:
        checks = CheckQuestions(coded.checks[0], coded.checks[1], coded.counts.shape[1])
        found = cls(
            coded.kind, coded.items, coded.counts, coded.person, coded.person_ids, coded.item_ids,
            coded.response_time, checks, coded.dropped, ids_are,
        )  # fmt: skip
        return found.merged() if merge else found

    def merged(self) -> Judgements:
        """Return the same answers with one row per question and person, in whatever order a question was asked.

        Options, pairs and the three of an odd one out are ordered by item number.
        """
        items, counts = _in_order(self.kind, self.items, self.counts)
        code, largest = self.person, max(self.n_people, 1)
        for column in items.T:
            if largest * self.n_items >= np.iinfo(np.int64).max:  # count the codes that there are instead
                code = np.unique(code, return_inverse=True)[1]
                largest = len(code)
            code, largest = code * self.n_items + column, largest * self.n_items
        if np.all(code[1:] > code[:-1]):  # merged before
            return replace(self, items=items, counts=counts)
        _, first, group = np.unique(code, return_index=True, return_inverse=True)
        totals: Floats = np.stack([np.bincount(group, column) for column in counts.T], axis=1).astype(np.float64)
        time = None
        if self.response_time is not None:
            with np.errstate(invalid="ignore"):
                time = np.bincount(group, self.response_time) / np.bincount(group)
        return Judgements(
            self.kind, items[first], totals, self.person[first], self.person_ids, self.item_ids, time, self.checks,
            self.dropped, self.ids_are,
        )  # fmt: skip

    def take(self, rows: Any) -> Judgements:
        """Return the rows of a mask ``(T,)`` or of row numbers; people and items keep their numbers."""
        index = self._index(rows)
        time = None if self.response_time is None else self.response_time[index]
        return Judgements(
            self.kind, self.items[index], self.counts[index], self.person[index], self.person_ids, self.item_ids, time,
            ids_are=self.ids_are,
        )  # fmt: skip

    def used_items(self) -> NDArray[np.bool_]:
        """Return which items (N,) are judged."""
        used = np.zeros(self.n_items, dtype=np.bool_)
        used[self.items] = True
        return used

    def renumbered(self, place: Ints, item_ids: Column) -> Judgements:
        """Return the same answers about items with these ids, given the place (N,) of each of today's among them."""
        return replace(self, items=place[self.items], item_ids=item_ids, ids_are="given")

    # ------------------------------------------------------------------------------------------ asking

    @property
    def pairs(self) -> Ints:
        """Row numbers (T, k, 2) of the items of each alternative's pair: the chosen one is the closest."""
        return self.items[:, np.array(ALTERNATIVES[self.kind])]

    @property
    def n_alternatives(self) -> int:
        """How many pairs there are to choose from: 2, or 3 for an odd one out."""
        return len(ALTERNATIVES[self.kind])

    @property
    def n_answers(self) -> float:
        """How many answers there are, ties and weights included."""
        return float(self.counts.sum())

    @property
    def n_people(self) -> int:
        """How many people there are, with answers or without."""
        return len(self.person_ids)

    def __len__(self) -> int:
        return len(self.person)

    def __repr__(self) -> str:
        return f"<Judgements: {len(self)} rows ({self.kind}), {self.n_people} people, {self.n_items} items>"

    def summary(self) -> str:
        """Return a few lines about the table: size, people, items used, repeats, checks, drops."""
        used, rows = len(np.unique(self.items)), np.bincount(self.person, self.counts.sum(axis=1), self.n_people)
        assert self.checks is not None
        each = f"min {rows.min():,g}, median {np.median(rows):,g}, max {rows.max():,g}"
        lines = ({"answers per person": each} if self.n_people > 1 else {}) | {
            "items used": f"{used:,} of {self.n_items:,}",
            "checks": self.checks.summary(),
        }
        kind = {"triplet": "triplets", "odd_one_out": "odd-one-outs", "quadruplet": "quadruplets"}[self.kind]
        people = f" by {self.n_people:,} people" if self.n_people > 1 else ""  # one, or nobody is named
        title = f"{self.n_answers:,g} answers to {len(self):,} {kind}{people}"
        return self._lines(title, lines)

    # ----------------------------------------------------------------------------------------- writing

    def columns(self) -> Columns:
        """Return person, the items (by their original ids) and the counts, ``(T,)`` each; `from_table` reads them."""
        named = {name: self.item_ids[self.items[:, place]] for place, name in enumerate(KINDS[self.kind])}
        counts = {name: self.counts[:, place].copy() for place, name in enumerate(ANSWERS[self.kind])}
        times = {} if self.response_time is None else {"response_time": self.response_time.copy()}
        return {"person": self.person_ids[self.person], **named, **counts, **times}


def _check_coding(kind: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Check what the constructor is given: shapes, codes in range, counts that count, items that differ."""
    items, counts, person = arrays["items"], arrays["counts"], arrays["person"]
    T = len(person)
    expected = {"items": (T, len(KINDS[kind])), "counts": (T, len(ALTERNATIVES[kind])), "person": (T,)}
    if "response_time" in arrays:
        expected["response_time"] = (T,)
    wrong = [f"{name} {arrays[name].shape}" for name, shape in expected.items() if arrays[name].shape != shape]
    if wrong:
        raise DataError(f"{kind} judgements have {', '.join(wrong)}; expected {expected}")
    for name, limit in (("items", len(arrays["item_ids"])), ("person", len(arrays["person_ids"]))):
        values = arrays[name]
        if np.any((values < 0) | (values >= limit)):
            raise DataError(
                f"{name} goes from {values.min()} to {values.max()}, but must be in 0…{limit - 1}; build judgements "
                "with from_triplets, from_odd_one_out, from_quadruplets or from_table, which look ids up"
            )
    if not (np.all(np.isfinite(counts)) and np.all(counts >= 0)):
        raise DataError("counts must be finite and not negative; from_table drops other rows")
    check_size(counts, "the judgements' counts")
    pairs = items[:, np.array(ALTERNATIVES[kind])]
    if np.any(pairs[..., 0] == pairs[..., 1]):
        raise DataError("a pair holds one item twice; from_table sets such check questions aside")


def _answers_of(kind: str, table: NDArray[Any], choice: Any, counts: Any) -> dict[str, Any]:
    """Return the columns that hold the answers of an array of questions."""
    if choice is not None and counts is not None:
        raise DataError("choice and counts both give the answers; give one of them")
    if counts is not None:
        each = as_array(counts, "counts")
        if each.shape != (len(table), len(ANSWERS[kind])):
            raise DataError(f"counts has shape {each.shape}; ({len(table)}, {len(ANSWERS[kind])}) was expected")
        return {name: each[:, place] for place, name in enumerate(ANSWERS[kind])}
    if kind != "odd_one_out":
        return {"chose_left": np.ones(len(table))} if choice is None else {"choice": choice}
    places = np.zeros(len(table), dtype=np.int64) if choice is None else as_array(choice, "odd")
    if places.shape != (len(table),) or not np.all(np.isin(places, (0, 1, 2))):
        raise DataError("odd must be 0, 1 or 2 for every row: the place of the odd item; or give counts")
    return {name: (places == place).astype(np.float64) for place, name in enumerate(ANSWERS[kind])}


def _in_order(kind: str, items: Ints, counts: Floats) -> tuple[Ints, Floats]:
    """Return the same questions with options, pairs or the three items ordered by number, and the counts with them."""
    if kind == "odd_one_out":
        if np.all(items[:, 1:] >= items[:, :-1]):  # in order already: sorting millions of rows takes seconds
            return items, counts
        order = np.argsort(items, axis=1, kind="stable")
        return np.take_along_axis(items, order, axis=1), np.take_along_axis(counts, order, axis=1)
    if kind == "triplet":
        swap = items[:, 1] > items[:, 2]
        ordered = np.where(swap[:, None], items[:, [0, 2, 1]], items)
    else:
        pairs = np.sort(items.reshape(-1, 2, 2), axis=2).reshape(-1, 4)
        swap = (pairs[:, 0] > pairs[:, 2]) | ((pairs[:, 0] == pairs[:, 2]) & (pairs[:, 1] > pairs[:, 3]))
        ordered = np.where(swap[:, None], pairs[:, [2, 3, 0, 1]], pairs)
    return ordered, np.where(swap[:, None], counts[:, ::-1], counts)


def canonical_of_judgements(tables: Sequence[Judgements], items: Any = None) -> Canonical:
    """Return numbers of the people and items of some tables about the same items (`crowdmetric.canonical`)."""
    blocks = [
        (table.person, table.pairs.reshape(len(table), -1), np.repeat(table.counts, 2, axis=1)) for table in tables
    ]
    return canonical_of_choices(blocks, max(table.n_people for table in tables), tables[0].n_items, items)
