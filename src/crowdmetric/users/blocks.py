"""People in blocks of equal shape: the layout every elimination works on.

An answer enters every formula through ``δ = x − x'`` and ``s = x + x'`` alone, because
``ψ = ⟨Δ, A⟩ + ⟨δ, w⟩ = δᵀ(A s + w)``. People are sorted by problem (a subspace, say) and laid out in blocks
``(P, m, r)`` of people with about the same number of answers; shorter ones are padded with rows of weight zero.
A block is small enough to stay in cache, so a pass over a million people never holds a temporary larger
than one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from crowdmetric.symmetric import as_like, degrees_of_freedom

__all__ = [
    "SPARE",
    "Answers",
    "Block",
    "People",
    "arrange",
    "bilinear",
    "contract",
    "join",
    "padded_rows",
    "rows_by_length",
    "set_rows",
    "small_products",
    "sum_over_problems",
]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Odd 64-bit constants with as many one bits as zero bits, for hashing.
HASH = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0xFF51AFD7ED558CCD))
# Rows of padding that cost about as much as another block in a pass over a population.
SPARE = 400
# Numbers a block may hold in one (P, m, p) temporary: half a megabyte, which stays in a core's own cache.
BLOCK_SIZE = 1 << 16


@dataclass(frozen=True)
class Answers:
    """Answers in the coordinates of their problem, before they are laid out.

    Attributes
    ----------
    items
        (N, r) coordinates.
    pairs
        (T, 2) rows of the compared items, left and right.
    response, weight
        (T,) each.
    person
        (T,) who answered, 0…K−1; people without answers may be missing.
    problem
        (K,) problem of each person.
    n_problems
        How many problems there are.
    offsets
        (Q + 1,) where answers about sets begin among the rows, and the end (`crowdmetric.users.sets`): row by row, the
        first item of the set and another one, with response −1 if the first is the best and +1 if it is the worst.
        None: every row is an answer.
    """

    items: Array
    pairs: Indices
    response: Array
    weight: Array
    person: Indices
    problem: Indices
    n_problems: int
    offsets: Indices | None = None

    def take(self, rows: NDArray[np.bool_] | Indices) -> Answers:
        """Return the answers of some rows, people and problems numbered as before."""
        return replace(
            self,
            pairs=self.pairs[rows],
            response=self.response[rows],
            weight=self.weight[rows],
            person=self.person[rows],
        )

    def merged(self) -> Answers:
        """Return the answers with repeats of one person merged into one answer, their weights added.

        A pair in the opposite order with the opposite answer is the same answer; answers of weight zero are left out.
        Likelihoods do not change, but approximate integrals over people do: expectation propagation gives every answer
        a factor, and one for f² is more accurate than two for f. So a row of weight two equals the row twice, however
        people are integrated out. Answers about sets stay as they are.
        """
        if self.offsets is not None or self.has_no_repeats():
            return self
        left, right = self.pairs.min(axis=1), self.pairs.max(axis=1)
        response = np.where(self.pairs[:, 0] > left, -self.response, self.response)
        order = np.lexsort((response, right, left, self.person))
        order = order[self.weight[order] > 0]
        keys = (self.person, left, right, response)
        new = np.ones(order.size, dtype=np.bool_)
        new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
        starts = np.flatnonzero(new)
        if starts.size == self.weight.size:
            return self
        rows = order[starts]  # the first of equals, since the sort is stable
        weight = np.add.reduceat(self.weight[order], starts) if starts.size else np.empty(0)
        table_order = np.argsort(rows)
        return replace(self.take(rows[table_order]), weight=weight[table_order])

    def has_no_repeats(self) -> bool:
        """Return whether all answers have a weight and nobody has compared the same items twice.

        Compares hashes of person and items, so False may be wrong.
        """
        if not np.all(self.weight > 0):
            return False
        if np.bincount(self.person).max(initial=0) <= 1:
            return True
        # a pair the other way round has the same sum and product, up to overflow, which is harmless in a hash
        with np.errstate(over="ignore"):
            left, right = (self.pairs[:, side].astype(np.uint64) + np.uint64(1) for side in (0, 1))
            code = (left + right) * HASH[0] ^ (left * right) * HASH[1]
            code = (code ^ (code >> np.uint64(29))) * HASH[2] + self.person.astype(np.uint64) * HASH[0]
        code.sort()
        return not np.any(code[1:] == code[:-1])


def join(several: Sequence[Answers]) -> Answers:
    """Return several sets of answers as one, people and problems numbered one set after the other."""
    if len(several) == 1:
        return several[0]

    def shifted(arrays: list[Indices], sizes: list[int]) -> Indices:
        offsets = np.concatenate([[0], np.cumsum(sizes[:-1])]).astype(np.intp)
        return np.concatenate([a + o for a, o in zip(arrays, offsets, strict=True)])

    return Answers(
        items=np.concatenate([a.items for a in several]),
        pairs=shifted([a.pairs for a in several], [a.items.shape[0] for a in several]),
        response=np.concatenate([a.response for a in several]),
        weight=np.concatenate([a.weight for a in several]),
        person=shifted([a.person for a in several], [a.problem.size for a in several]),
        problem=shifted([a.problem for a in several], [a.n_problems for a in several]),
        n_problems=sum(a.n_problems for a in several),
    )


# --8<-- [start:block]
@dataclass(frozen=True)
class Block:
    """Some people of equal (padded) number of answers.

    Attributes
    ----------
    delta, total
        ``x − x'`` and ``x + x'``, (P, m, r).
    response, weight
        (P, m); both zero on padding and where an answer has no weight.
    person
        (P,) number of each person in `People`.
    problem
        (P,) number of each person's problem, in increasing order.
    starts, problems
        the people of ``problems[j]`` are ``starts[j]`` up to the next start.
    rows
        (P, m) row of each answer in the caller's table; −1 on padding.
    size
        How many rows each answer has; those of a smaller set are filled up with padding.
    """

    delta: Array
    total: Array
    response: Array
    weight: Array
    person: Indices
    problem: Indices
    starts: Indices
    problems: Indices
    rows: Indices
    size: int = 1


# --8<-- [end:block]


@dataclass(frozen=True)
class People:
    """All people of one or more problems of one rank."""

    blocks: tuple[Block, ...]
    n_people: int
    n_problems: int
    rank: int

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def reweighted(self, weight: Array) -> People:
        """Return the same layout with other weights, (T,) by row of the caller's table."""
        blocks = []
        for b in self.blocks:
            new = np.where(b.rows >= 0, weight[b.rows], 0.0)
            blocks.append(replace(b, weight=new, response=np.where(new > 0, b.response, 0.0)))
        return replace(self, blocks=tuple(blocks))


def _padded(counts: Indices) -> Indices:
    """Return the block length of each count: the next of 1…8, 10, 12, 14, 16, 20, 24, … (at most a quarter wasted)."""
    step = np.maximum(1, 1 << np.maximum(0, np.ceil(np.log2(np.maximum(counts, 1))).astype(np.intp) - 3))
    return -(-counts // step) * step


def padded_rows(answers: Answers, rows_at_once: int, spare: int = 0) -> Iterator[tuple[Indices, Indices]]:
    """Yield people (P,) with about equally many answers, and the rows (P, m) of their answers, −1 on padding.

    At most `rows_at_once` rows (but at least one person) at a time, people sorted by problem. People with fewer answers
    join those with the next number of answers if that takes at most `spare` rows of padding.
    """
    order = np.argsort(answers.person, kind="stable")
    counts = np.bincount(answers.person, minlength=answers.problem.size)
    yield from rows_by_length(order, counts, rows_at_once, answers.problem, spare)


def set_rows(answers: Answers, rows_at_once: int, spare: int = 0) -> Iterator[tuple[Indices, Indices, int]]:
    """Yield the same as `padded_rows` for answers about sets, and how many rows each answer has in its block.

    People are together whose largest sets have about as many rows.
    """
    assert answers.offsets is not None
    sizes, owner = np.diff(answers.offsets), answers.person[answers.offsets[:-1]]
    largest = np.zeros(answers.problem.size, dtype=np.intp)
    np.maximum.at(largest, owner, _padded(sizes))
    for size in map(int, np.unique(largest[largest > 0])):
        chosen = np.flatnonzero(largest[owner] == size)
        order = chosen[np.argsort(owner[chosen], kind="stable")]
        counts = np.bincount(owner[chosen], minlength=answers.problem.size)
        slot = np.arange(size)
        for people, sets in rows_by_length(order, counts, max(1, rows_at_once // size), answers.problem, spare):
            filled = slot < np.where(sets >= 0, sizes[sets], 0)[:, :, None]
            rows = np.where(filled, answers.offsets[sets][:, :, None] + slot, -1)
            yield people, rows.reshape(len(people), -1), size


def rows_by_length(
    order: Any, counts: Any, rows_at_once: int, problem: Any = None, spare: int = 0
) -> Iterator[tuple[Any, Any]]:
    """Yield the same as `padded_rows`, in arrays of any library.

    Parameters
    ----------
    order
        (T,) rows of the table, those of the first person first.
    counts
        (K,) how many of them are each person's.
    problem
        (K,) by which people with equally many answers are sorted; None: by their numbers.
    """
    xp = array_namespace(order, counts)
    if not counts.shape[0]:
        return
    padded = _padded(np.arange(int(xp.max(counts)) + 1))
    padded[0] = 0
    lengths = as_like(padded, counts)[counts]
    people = {int(m): int(xp.count_nonzero(lengths == int(m))) for m in np.unique(padded[1:])}
    sizes = [m for m, count in people.items() if count]
    for shorter, longer in pairwise(sizes):
        if people[shorter] * (longer - shorter) <= spare:
            people[longer] += people[shorter]
            lengths = xp.where(lengths == shorter, xp.full_like(lengths, longer), lengths)
            sizes = [m for m in sizes if m != shorter]
    offsets = xp.cumulative_sum(counts) - counts
    for m in sizes:
        members = xp.nonzero(lengths == m)[0]
        if problem is not None:
            members = members[xp.argsort(problem[members], stable=True)]
        size = max(1, rows_at_once // m)
        slot = xp.arange(m, dtype=counts.dtype, device=counts.device)[None, :]
        for begin in range(0, members.shape[0], size):
            chosen = members[begin : begin + size]
            filled = slot < counts[chosen][:, None]
            places = offsets[chosen][:, None] + xp.where(filled, slot, xp.zeros_like(slot))
            yield chosen, xp.where(filled, order[places], -xp.ones_like(slot))


def arrange(answers: Answers, width: int | None = None, block_size: int = BLOCK_SIZE, spare: int = 0) -> People:
    """Lay answers out in blocks of at most `block_size` numbers (but at least one person).

    `width` is the number of temporary numbers per answer, by default p = r(r+1)/2. Up to `spare` rows of padding are
    accepted to have fewer blocks.
    """
    items, pairs, problem = answers.items, answers.pairs, answers.problem
    r = items.shape[1]
    width = degrees_of_freedom(r) if width is None else width
    blocks = []
    laid_out: Iterator[tuple[Indices, Indices, int]]
    if answers.offsets is None:
        laid_out = ((people, rows, 1) for people, rows in padded_rows(answers, block_size // width, spare))
    else:
        laid_out = set_rows(answers, block_size // width, spare)
    for chosen, rows, size in laid_out:
        # Padding repeats the person's first row, so its ψ is an ordinary number; its weight is zero.
        own = np.where(rows >= 0, rows, rows[:, :1])
        weight = np.where(rows >= 0, answers.weight[own], 0.0)
        left, right = items[pairs[own, 0]], items[pairs[own, 1]]
        problems, starts = np.unique(problem[chosen], return_index=True)
        blocks.append(
            Block(
                delta=left - right,
                total=left + right,
                response=np.where(weight > 0, answers.response[own], 0.0),
                weight=weight,
                person=chosen,
                problem=problem[chosen],
                starts=starts,
                problems=problems,
                rows=rows,
                size=size,
            )
        )
    return People(tuple(blocks), problem.size, answers.n_problems, r)


def contract(X: Array, Y: Array) -> Array:
    """Return ``XᵀY`` person by person: (P, m, i), (P, m, j) → (P, i, j).

    Batched matrix products cost more in calls than in arithmetic when i and j are one or two; there a sum of
    products per entry is several times faster.
    """
    i, j = X.shape[-1], Y.shape[-1]
    if i * j > 6:
        return np.swapaxes(X, -1, -2) @ Y
    out = np.empty((X.shape[0], i, j))
    for a in range(i):
        for b in range(j):
            np.einsum("pm,pm->p", X[:, :, a], Y[:, :, b], out=out[:, a, b])
    return out


def small_products(X: Array, Y: Array) -> Array:
    """Return ``X Y`` person by person, (P, i, k) × (P, k, j) → (P, i, j).

    For vectors (j = 1) and small k, batched products cost more in calls than in arithmetic, as in `contract`.
    """
    k = X.shape[-1]
    if k > 3 or Y.shape[-1] > 1 < k:
        return X @ Y
    out = X[:, :, :1] * Y[:, :1, :]
    for c in range(1, k):
        out += X[:, :, c : c + 1] * Y[:, c : c + 1, :]
    return out


def bilinear(delta: Array, A: Array, total: Array) -> Array:
    """Return ``δᵀ A s = ⟨Δ, A⟩`` (P, m) of every answer, with a matrix A each (P, r, r) or one for all (r, r)."""
    if A.ndim == 2:
        return np.einsum("pmi,pmi->pm", (delta.reshape(-1, A.shape[0]) @ A).reshape(delta.shape), total)
    return np.einsum("pmi,pmi->pm", small_products(delta, A), total)


def sum_over_problems(block: Block, values: Array, into: Array) -> None:
    """Add ``values (P, ...)`` of a block's people to their problems' sums ``into (n, ...)``."""
    into[block.problems] += np.add.reduceat(values, block.starts, axis=0)
