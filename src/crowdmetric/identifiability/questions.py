"""Who was asked what, in the coordinates the verdict is computed in.

Moving all items by one vector, or scaling a feature, changes no rank: a translation adds to every Δ a part that is
linear in its δ, which people absorb, and a scaling is a change of basis of Sym(R^d). So items are centered, which
keeps rounding errors small if they lie far from the origin. Features are brought to one scale if their spreads differ
so much that rounding would hide the rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.comparisons import Comparisons, times_asked
from crowdmetric.errors import DataError
from crowdmetric.inputs import check_items, people_of, read_asked
from crowdmetric.tables import ComparisonScan, check_same_items, ids_of, is_drawn
from crowdmetric.users.blocks import Answers, Block, People, arrange

__all__ = ["QuestionSource", "Questions", "ScannedQuestions", "read_questions"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Repeated answers of one person to the same question are used up to this many times: more copies reveal nothing more.
MOST_COPIES = 2
# Warn if the spreads of features differ by this factor: it enters the eigenvalues of S as its fourth power.
UNEVEN = 100.0


@dataclass(frozen=True)
class Questions:
    """Comparisons without their answers.

    Attributes
    ----------
    items
        (N, d) centered, and divided by `unit`.
    unit
        (d,) ones, or the features' spreads where those differ a hundredfold.
    pairs
        (T, 2) rows of `items`; a question that somebody answered several times is listed at most twice.
    person
        (T,) who was asked, 0 … K − 1, nobody missing.
    n_answers, most_answers
        How many answers there are, and of the busiest person; a tie is one answer (`times_asked`).
    """

    items: Array
    unit: Array
    pairs: Indices
    person: Indices
    n_answers: int
    most_answers: int

    @classmethod
    def of(cls, items: Array, unit: Array, pairs: Indices, person: Indices, weight: Array) -> Questions:
        """Return the questions behind rows (T,): the two rows of a tie are one question, a row of weight 2 is two."""
        first, count = times_asked(person, pairs[:, 0], pairs[:, 1], weight)
        rows = np.repeat(first, np.minimum(count, MOST_COPIES))
        most = int(np.bincount(person[first], count).max()) if first.size else 0
        return cls(items, unit, pairs[rows], person[rows], int(count.sum()), most)

    @property
    def d(self) -> int:
        """How many features an item has."""
        return int(self.items.shape[1])

    @property
    def used(self) -> Indices:
        """Rows of the items that were shown to somebody."""
        shown = np.zeros(len(self.items), dtype=bool)
        shown[self.pairs] = True
        return np.flatnonzero(shown)

    @property
    def n_people(self) -> int:
        """How many people were asked."""
        return int(self.person.max()) + 1

    def people(self, width: int | None = None) -> People:
        """Return the people in blocks; `width` as in `arrange`."""
        T = len(self.pairs)
        nobody = np.zeros(self.n_people, dtype=np.intp)
        return arrange(Answers(self.items, self.pairs, np.zeros(T), np.ones(T), self.person, nobody, 1), width)

    def some(self, answers: int) -> Questions:
        """Return a sample for about this many answers: here, all."""
        return self

    def parts(self) -> tuple[Questions]:
        """Return the questions in parts that fit in memory: here, one."""
        return (self,)

    def everything(self) -> Questions:
        """Return all questions in memory."""
        return self


@dataclass(frozen=True)
class ScannedQuestions:
    """Comparisons that stay on disk; the names are those of `Questions`."""

    items: Array
    unit: Array
    scan: ComparisonScan

    @property
    def d(self) -> int:
        """How many features an item has."""
        return int(self.items.shape[1])

    @property
    def used(self) -> Indices:
        """Rows of the items that were shown to somebody."""
        return np.flatnonzero(self.scan.used)

    @property
    def n_people(self) -> int:
        """How many people were asked."""
        return self.scan.n_users

    @property
    def n_answers(self) -> int:
        """How many answers there are."""
        return self._counted[0]

    @property
    def most_answers(self) -> int:
        """How many the busiest person gave."""
        return self._counted[1]

    @cached_property
    def _counted(self) -> tuple[int, int, int]:
        """Answers of everybody, of the busiest person, and of all who have two or more."""
        everybody, most, able = 0, 0, 0
        for part in self.parts():
            counts = np.bincount(part.person)
            everybody, most = everybody + part.n_answers, max(most, part.most_answers)
            able += int(counts[counts >= 2].sum())
        return everybody, most, able

    def parts(self) -> Iterator[Questions]:
        """Yield the questions of a chunk of the scan at a time, people numbered within it."""
        for chunk in self.scan.chunks:
            rows = chunk.load()
            pairs = np.column_stack([rows["left"], rows["right"]]).astype(np.intp)
            yield Questions.of(self.items, self.unit, pairs, rows["person"].astype(np.intp), rows["weight"])

    def people(self, width: int | None = None) -> Iterator[Block]:
        """Yield the people in blocks, a chunk of the scan at a time."""
        for part in self.parts():
            yield from part.people(width)

    def some(self, answers: int) -> Questions:
        """Return all questions, or those of some of the people who have two or more, drawn by a hash of their number.

        If possible, the sample has four times as many answers as asked for, because a smaller sample is drawn from it
        later.
        """
        step = max(1, self._counted[2] // (4 * answers))
        pairs, person = [], []
        for chunk, part in zip(self.scan.chunks, self.parts(), strict=True):
            keep = np.ones(len(part.pairs), dtype=bool)
            if step > 1:
                able = np.bincount(part.person, minlength=chunk.people) >= 2
                drawn = able & is_drawn(chunk.first_person + np.arange(chunk.people), step)
                keep = drawn[part.person]
            pairs.append(part.pairs[keep])
            person.append(chunk.first_person + part.person[keep])
        drawn_pairs = np.concatenate(pairs)
        return Questions.of(self.items, self.unit, drawn_pairs, np.concatenate(person), np.ones(len(drawn_pairs)))

    def everything(self) -> Questions:
        """Return all questions in memory."""
        everything = Comparisons.from_scan(self.scan)
        person = everything.user.astype(np.intp)
        return Questions.of(self.items, self.unit, everything.pairs, person, everything.weight)


QuestionSource = Questions | ScannedQuestions


def read_questions(items: ArrayLike | None, pairs: Any, users: Any) -> QuestionSource:
    """Return validated questions from what `diagnose` was given; a scan stays on disk."""
    if isinstance(pairs, Comparisons | ComparisonScan) and len(pairs) == 0:
        raise DataError("the comparisons are empty; at least one is needed")
    if isinstance(pairs, ComparisonScan):
        if users is not None:
            raise DataError("Comparisons carry their people; leave users out")
        catalog = check_items(items)
        check_same_items(pairs, ids_of(items), len(catalog))
        return ScannedQuestions(*_scaled(catalog), pairs)
    asked = read_asked(pairs, users, items)
    weight = np.asarray(pairs.weight) if isinstance(pairs, Comparisons) else np.ones(len(asked.pairs))
    person = people_of(asked.people, len(asked.pairs))[1]
    return Questions.of(*_scaled(asked.items), asked.pairs, person, weight)


def _scaled(catalogue: Array) -> tuple[Array, Array]:
    """Return the items centered and divided by their units, and the units (d,)."""
    spread = np.std(catalogue, axis=0)
    seen = spread > 0
    uneven = np.any(seen) and spread[seen].max() > UNEVEN * spread[seen].min()
    unit = np.where(seen, spread, 1.0) if uneven else np.ones(catalogue.shape[1])
    return (catalogue - catalogue.mean(axis=0)) / unit, unit
