"""Who was asked what, in the coordinates the verdict is computed in.

Moving all items by one vector, or scaling a feature, changes no rank: a translation adds to every Δ a part that is
linear in its δ, which people absorb, and a scaling is a change of basis of Sym(R^d). So items are centred, which
keeps rounding small where they lie far from the origin, and features are brought to one scale where their spreads
differ so much that the rank would drown in rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.estimators.inputs import check_items, read_pairs
from crowdmetric.tables import ComparisonScan, is_drawn
from crowdmetric.users.blocks import Answers, Block, People, arrange

__all__ = ["Asked", "Questions", "ScannedQuestions", "read_questions"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Spreads of features that differ by this factor enter the eigenvalues of S as its fourth power.
UNEVEN = 100.0


class Asked(Protocol):
    """Who was asked what, wherever that is kept."""

    @property
    def items(self) -> Array: ...

    @property
    def unit(self) -> Array: ...

    @property
    def d(self) -> int: ...

    @property
    def used(self) -> Indices: ...

    @property
    def n_people(self) -> int: ...

    @property
    def n_answers(self) -> int: ...

    @property
    def most_answers(self) -> int: ...

    def people(self, width: int | None = None) -> Iterable[Block]:
        """Return the people in blocks; `width` as in `arrange`."""
        ...

    def some(self, answers: int) -> Questions:
        """Return questions in memory: all, or those of people with two or more, about so many of their answers."""
        ...

    def everything(self) -> Questions:
        """Return all questions in memory."""
        ...


@dataclass(frozen=True)
class Questions:
    """Comparisons without their answers.

    Attributes
    ----------
    items
        (N, d) centred, and divided by `unit`.
    unit
        (d,) ones, or the features' spreads where those differ a hundredfold.
    pairs
        (T, 2) rows of `items`.
    person
        (T,) who was asked, 0 … K − 1, nobody missing.
    """

    items: Array
    unit: Array
    pairs: Indices
    person: Indices

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

    @property
    def n_answers(self) -> int:
        """How many questions were asked, whoever was."""
        return len(self.pairs)

    @property
    def most_answers(self) -> int:
        """How many the busiest person was asked."""
        return int(np.bincount(self.person).max())

    def people(self, width: int | None = None) -> People:
        """Return the people in blocks; `width` as in `arrange`."""
        T = len(self.pairs)
        nobody = np.zeros(self.n_people, dtype=np.intp)
        return arrange(Answers(self.items, self.pairs, np.zeros(T), np.ones(T), self.person, nobody, 1), width)

    def some(self, answers: int) -> Questions:
        return self

    def everything(self) -> Questions:
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
        """How many questions were asked, whoever was."""
        return len(self.scan)

    @property
    def most_answers(self) -> int:
        """How many the busiest person was asked."""
        return self._counted[0]

    @cached_property
    def _counted(self) -> tuple[int, int]:
        """Answers of the busiest person, and of all who have two or more."""
        most, able = 0, 0
        for chunk in self.scan.chunks:
            counts = np.bincount(chunk.load()["person"])
            most, able = max(most, int(counts.max())), able + int(counts[counts >= 2].sum())
        return most, able

    def people(self, width: int | None = None) -> Iterator[Block]:
        """Yield the people in blocks, a chunk of the scan at a time."""
        for chunk in self.scan.chunks:
            rows = chunk.load()
            pairs = np.column_stack([rows["left"], rows["right"]]).astype(np.intp)
            yield from Questions(self.items, self.unit, pairs, rows["person"].astype(np.intp)).people(width)

    def some(self, answers: int) -> Questions:
        """Return all questions, or those of some of the people who have two or more, drawn by a hash of their number.

        Four times as many answers as asked for, where there are, so that chance may choose among them.
        """
        step = max(1, self._counted[1] // (4 * answers))
        pairs, person = [], []
        for chunk in self.scan.chunks:
            rows = chunk.load()
            keep = np.ones(rows.size, dtype=bool)
            if step > 1:
                able = np.bincount(rows["person"], minlength=chunk.people) >= 2
                drawn = able & is_drawn(chunk.first_person + np.arange(chunk.people), step)
                keep = drawn[rows["person"]]
            pairs.append(np.column_stack([rows["left"], rows["right"]]).astype(np.intp)[keep])
            person.append(chunk.first_person + rows["person"][keep].astype(np.intp))
        return Questions(self.items, self.unit, np.concatenate(pairs), np.concatenate(person))

    def everything(self) -> Questions:
        everything = Comparisons.from_scan(self.scan)
        return Questions(self.items, self.unit, everything.pairs, everything.user.astype(np.intp))


def read_questions(items: ArrayLike | None, pairs: Any, users: Any) -> Questions | ScannedQuestions:
    """Return validated questions from what `diagnose` was given; a scan stays on disk."""
    numbers: Any
    if isinstance(pairs, Comparisons | ComparisonScan):
        if users is not None:
            raise DataError("Comparisons carry their people; leave users out")
        catalogue = check_items(items)
        if pairs.n_items != len(catalogue):
            raise DataError(
                f"the comparisons are about {pairs.n_items} items, but items has {len(catalogue)} rows; "
                "read both from the same catalogue"
            )
        if len(pairs) == 0:
            raise DataError("the comparisons are empty; at least one is needed")
        if isinstance(pairs, ComparisonScan):
            return ScannedQuestions(*_scaled(catalogue), pairs)
        numbers, named = pairs.pairs, np.asarray(pairs.user)
    else:
        catalogue, numbers = read_pairs(pairs, items)
        named = np.zeros(len(numbers), dtype=int) if users is None else np.asarray(users)
        if named.shape != (len(numbers),):
            raise DataError(
                f"users has shape {named.shape}, but there are {len(numbers)} comparisons; give one person each"
            )
    person = np.unique(named, return_inverse=True)[1].astype(np.intp)
    return Questions(*_scaled(catalogue), numbers, person)


def _scaled(catalogue: Array) -> tuple[Array, Array]:
    """Return the items centred and divided by their units, and the units (d,)."""
    spread = np.std(catalogue, axis=0)
    seen = spread > 0
    uneven = np.any(seen) and spread[seen].max() > UNEVEN * spread[seen].min()
    unit = np.where(seen, spread, 1.0) if uneven else np.ones(catalogue.shape[1])
    return (catalogue - catalogue.mean(axis=0)) / unit, unit
