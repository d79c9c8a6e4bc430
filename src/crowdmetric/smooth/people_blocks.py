"""Everybody's answers in terms of the items that they were shown.

A person who was shown n items is n utilities. People with about the same n stand in one block, padded: items by the
number N, whose rows of a covariance are zero, and answers by ones of weight zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

__all__ = ["DistinctAnswers", "PeopleBlock", "arrange", "merged", "some_people", "work_of"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Factor between the sizes n of blocks: padding costs little, and there are few blocks.
GROWTH = 1.2
# Numbers in the covariances of one block: a few of them fit into a processor's cache.
MOST_NUMBERS = 100_000
# Work of renewing the factor of an answer, in units of those of one person's matrices: the cube of the items shown.
WORK_OF_ANSWER = 200.0
# Minimum number of people in a search, and the golden ratio, whose multiples spread evenly.
FEWEST, GOLDEN = 30, 0.6180339887498949


@dataclass(frozen=True)
class DistinctAnswers:
    """Distinct answers, sorted by person.

    Attributes
    ----------
    person : (T,)
    low, high : (T,)
        The two items, low < high.
    sign : (T,)
        +1.0 where `high` was preferred, −1.0 where `low` was.
    weight : (T,)
        How often it was given.
    """

    person: Indices
    low: Indices
    high: Indices
    sign: Array
    weight: Array

    def of(self, people: Indices) -> DistinctAnswers:
        """Return the answers of these people alone."""
        rows = np.isin(self.person, people)
        return DistinctAnswers(self.person[rows], self.low[rows], self.high[rows], self.sign[rows], self.weight[rows])


def work_of(shown: Any, answers: Any) -> Any:
    """Return the work of people by the numbers of items shown to them and of their answers."""
    return np.asarray(shown, dtype=np.float64) ** 3 + WORK_OF_ANSWER * np.asarray(answers, dtype=np.float64)


def some_people(answers: DistinctAnswers, most: float) -> Indices:
    """Return people whose work (`work_of`) is about `most` in all; everybody if it is less.

    Who that is depends on their answers, not on their names or their order: those with the least fractional parts of a
    sum of golden ratios.
    """
    people, place = np.unique(answers.person, return_inverse=True)
    side = int(max(answers.high.max(initial=0), 0)) + 1
    shown = np.unique(np.concatenate([place * side + answers.low, place * side + answers.high]))
    work = work_of(np.bincount(shown // side, minlength=people.size), np.bincount(place))
    if work.sum() <= most:
        return people
    order = _by_answers(answers, place, people.size)
    enough = int(np.searchsorted(np.cumsum(work[order]), most)) + 1
    return np.sort(people[order[: max(enough, FEWEST)]])


def _by_answers(answers: DistinctAnswers, place: Indices, n_people: int) -> Indices:
    """Return the people (K,) in an order that comes from their answers; `place` (T,) is who gave each."""
    side = int(max(answers.high.max(initial=0), 0)) + 1
    code = 2 * (answers.low * side + answers.high) + (answers.sign > 0)
    key = np.bincount(place, weights=answers.weight * np.modf(code * GOLDEN)[0], minlength=n_people)
    return np.argsort(np.modf(key)[0], kind="stable")


def merged(person: Array, pairs: Array, response: Array, weight: Array) -> DistinctAnswers:
    """Return answers with those that were given several times added up, and those about one item left out."""
    left, right = pairs[:, 0], pairs[:, 1]
    low, high = np.minimum(left, right), np.maximum(left, right)
    prefers_high = (response > 0) == (right > left)
    table = np.column_stack([person, low, high, prefers_high]).astype(np.intp)
    kept = low != high
    rows, place = np.unique(table[kept], axis=0, return_inverse=True)
    total = np.bincount(place.reshape(-1), weights=weight[kept], minlength=len(rows))
    return DistinctAnswers(rows[:, 0], rows[:, 1], rows[:, 2], np.where(rows[:, 3] > 0, 1.0, -1.0), total)


@dataclass(frozen=True)
class PeopleBlock:
    """P people, each with n items and m answers, padded.

    Attributes
    ----------
    who : (P,)
        Numbers of the people.
    items : (P, n)
        Items that each was shown, ascending; N for none.
    low, high : (P, m)
        Places in a person's items.
    sign, weight : (P, m)
    answer : (P, m)
        Rows of the answers; any where the weight is zero.
    n_items : int
        N.
    """

    who: Indices
    items: Indices
    low: Indices
    high: Indices
    sign: Array
    weight: Array
    answer: Indices
    n_items: int

    def every(self, step: int) -> PeopleBlock:
        """Return a block of every step-th of these people."""
        return PeopleBlock(
            who=np.ascontiguousarray(self.who[::step]),
            items=np.ascontiguousarray(self.items[::step]),
            low=np.ascontiguousarray(self.low[::step]),
            high=np.ascontiguousarray(self.high[::step]),
            sign=np.ascontiguousarray(self.sign[::step]),
            weight=np.ascontiguousarray(self.weight[::step]),
            answer=np.ascontiguousarray(self.answer[::step]),
            n_items=self.n_items,
        )

    @property
    def rows(self) -> Indices:
        """People's numbers in this block (P, 1), to pick from (P, n) arrays with."""
        return np.arange(len(self.who), dtype=np.intp)[:, None]

    @property
    def is_one_person_with_all_items(self) -> bool:
        """Whether there is one person only, whose matrices are those of all items."""
        return self.items.shape == (1, self.n_items) and bool(self.items[0, -1] < self.n_items)

    @cached_property
    def cells(self) -> Indices:
        """Where a person's n × n matrices stand in a flat (N + 1) × (N + 1) one, (P n n,)."""
        cells = self.items[:, :, None] * (self.n_items + 1) + self.items[:, None, :]
        return cells.reshape(-1).astype(np.intp)

    def take(self, matrix: Any) -> Array:
        """Return everybody's part (P, n, n) of a matrix (N, N), an array or `shared.Parts`."""
        if not isinstance(matrix, np.ndarray):
            return np.asarray(matrix.of(self))
        P, n = self.items.shape
        if self.is_one_person_with_all_items:
            return np.ascontiguousarray(matrix)[None]
        padded = np.zeros((self.n_items + 1, self.n_items + 1))  # np.pad takes as long as everything else here
        padded[:-1, :-1] = matrix
        return padded.reshape(-1)[self.cells].reshape(P, n, n)

    def put(self, parts: Array) -> Array:
        """Return the sum (N, N) of everybody's matrices (P, n, n)."""
        if self.is_one_person_with_all_items:
            return np.asarray(parts[0])
        side = self.n_items + 1
        total = np.bincount(self.cells, weights=parts.reshape(-1), minlength=side * side).reshape(side, side)
        return np.asarray(total[:-1, :-1])

    def put_sparse(self, parts: Array) -> csr_array:
        """Return the same sum (N, N), sparse."""
        P, n = self.items.shape
        rows, columns = (
            np.broadcast_to(self.items[:, :, None], (P, n, n)),
            np.broadcast_to(self.items[:, None], (P, n, n)),
        )
        side = self.n_items + 1
        total = coo_array((parts.reshape(-1), (rows.reshape(-1), columns.reshape(-1))), shape=(side, side)).tocsr()
        return total[:-1, :-1]

    def take_vector(self, vector: Array) -> Array:
        """Return everybody's part (P, n) of a vector (N,)."""
        return np.asarray(np.append(vector, 0.0)[self.items])

    def put_vector(self, parts: Array) -> Array:
        """Return the sum (N,) of everybody's vectors (P, n)."""
        total = np.bincount(self.items.reshape(-1), weights=parts.reshape(-1), minlength=self.n_items + 1)
        return np.asarray(total[:-1])

    def pulls(self, nu: Array) -> Array:
        """Return ``Aᵀν`` (P, n), with A (m, n) the differences high − low."""
        P, n = self.items.shape
        up, down = (
            np.bincount((self.rows * n + side).reshape(-1), weights=nu.reshape(-1), minlength=P * n)
            for side in (self.high, self.low)
        )
        return np.asarray((up - down).reshape(P, n))

    def differences(self, mean: Array) -> Array:
        """Return ``A x`` (P, m) for x (P, n)."""
        return np.asarray(mean[self.rows, self.high] - mean[self.rows, self.low])

    def variances(self, covariance: Array) -> Array:
        """Return the diagonal (P, m) of ``A S Aᵀ`` for S (P, n, n), never negative."""
        rows, low, high = self.rows, self.low, self.high
        cross = covariance[rows, low, high] + covariance[rows, high, low]
        return np.maximum(covariance[rows, low, low] + covariance[rows, high, high] - cross, 0.0)


def arrange(answers: DistinctAnswers, n_items: int) -> list[PeopleBlock]:
    """Return everybody who answered, in blocks, in an order that comes from their answers: names do not matter."""
    people, first, count = np.unique(answers.person, return_index=True, return_counts=True)
    place = np.searchsorted(people, answers.person)
    side = n_items + 1
    shown = np.unique(np.concatenate([place * side + answers.low, place * side + answers.high]))
    sizes = np.bincount(shown // side, minlength=people.size)
    begin = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    group = np.ceil(np.log(sizes) / np.log(GROWTH) - 1e-9).astype(np.intp)
    order = _by_answers(answers, place, people.size)
    blocks = []
    for number in np.unique(group):
        chosen = order[group[order] == number]
        at_once = max(1, MOST_NUMBERS // int(sizes[chosen].max()) ** 2)
        for part in np.array_split(chosen, -(-chosen.size // at_once)):
            blocks.append(_block(answers, people, part, first, count, shown, begin, sizes, n_items))
    return blocks


def _block(
    answers: DistinctAnswers,
    people: Indices,
    chosen: Indices,
    first: Indices,
    count: Indices,
    shown: Indices,
    begin: Indices,
    sizes: Indices,
    n_items: int,
) -> PeopleBlock:
    side = n_items + 1
    slot = np.arange(sizes[chosen].max())
    where = np.minimum(begin[chosen][:, None] + slot, shown.size - 1)
    items = np.where(slot < sizes[chosen][:, None], shown[where] % side, n_items)
    turn = np.arange(count[chosen].max())
    real = turn < count[chosen][:, None]
    row = np.minimum(first[chosen][:, None] + turn, answers.person.size - 1)

    def local(item: Indices) -> Indices:
        found = np.searchsorted(shown, chosen[:, None] * side + item[row]) - begin[chosen][:, None]
        return np.where(real, found, 0).astype(np.intp)

    return PeopleBlock(
        who=people[chosen].astype(np.intp),
        items=items.astype(np.intp),
        low=local(answers.low),
        high=local(answers.high),
        sign=np.where(real, answers.sign[row], 1.0),
        weight=np.where(real, answers.weight[row], 0.0),
        answer=row.astype(np.intp),
        n_items=n_items,
    )
