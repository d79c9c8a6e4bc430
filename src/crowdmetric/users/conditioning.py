"""Matched people: ideal points conditioned away, nothing assumed of anybody (logistic answers only).

Under the logistic link a person's answers have ``Pr[y] ∝ exp(½β Σ_i y_i ψ_i)``, ``ψ_i = ⟨Δ_i, M⟩ + ⟨δ_i, v⟩``. A
*conditioning set* is a few answers of one person with signs s_i such that ``Σ s_i δ_i = 0``. The two outcomes y = s and
y = −s have the same statistic ``Σ y_i δ_i``, the only way in which v enters, so given that one of the two happened

    Pr[y = s | y = s or y = −s] = σ(β ⟨D, M⟩)         D = Σ_i s_i Δ_i

for every v: a logistic regression on M alone. For two parallel questions (δ, midpoints a and a', s = (+1, −1)) this
is ``Pr[y₁ = +1, y₂ = −1 | y₁ ≠ y₂] = σ(2β(a − a')ᵀMδ)``.

A cycle of questions (a or b? b or c? c or a?) is a conditioning set with D = 0, which is not informative.

If ``ε = Σ s_i δ_i`` is only nearly zero, the log-odds are ``β(⟨D, M⟩ + ⟨ε, v⟩)``, and the second term is ignored. If D
is computed with c as the origin of the items, that term is ``−2εᵀM(u − c)``. It averages out if people scatter around
c.

Sets of one person may share answers. All of them are used: with q parallel questions there are q(q − 1)/2 pairs, but
only q/2 disjoint ones, for q − 1 degrees of freedom. Each term is an exact conditional probability, so their weighted
sum still has its optimum at the truth; standard errors add up each person's terms before squaring (`squared_scores`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from crowdmetric.symmetric import outer_difference, smat, svec

__all__ = ["ConditionalLikelihood", "Sets", "find_sets"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

# Numbers in one temporary.
CHUNK = 1 << 20
# Signed combinations tried for one person; beyond, only smaller sets are looked for.
MOST_COMBINATIONS = 4096
# ‖D‖ below this share of the sum of its ‖Δ‖'s is a rounding error.
CANCELS = 1e-9


@dataclass(frozen=True)
class Sets:
    """Conditioning sets, sorted by person.

    Attributes
    ----------
    rows
        (n, k) rows of the answers; padded with 0 where `signs` is 0.
    signs
        (n, k) s_i ∈ {−1, 0, +1}.
    person
        (n,) whose answers they are.
    mismatch
        (n,) ``‖Σ s_i δ_i‖`` over the mean ‖δ_i‖.
    cycles
        How many further sets have D = 0, and are not informative.
    unsearched
        How many people have too many answers to search for sets of three or four.
    """

    rows: Indices
    signs: NDArray[np.int8]
    person: Indices
    mismatch: Array
    cycles: int = 0
    unsearched: int = 0

    def __len__(self) -> int:
        return len(self.person)

    def overlap(self) -> Array:
        """Return (n,) the mean number of sets that the answers of each set belong to."""
        inside = self.signs != 0
        taking_part = np.bincount(self.rows[inside], minlength=1)
        return np.sum(taking_part[self.rows] * inside, axis=1) / np.maximum(inside.sum(axis=1), 1)


def find_sets(
    items: Array, pairs: Indices, person: Indices, *, tolerance: float, largest: int = 4, usable: Mask | None = None
) -> Sets:
    """Return every minimal conditioning set: signs with ``‖Σ s_i δ_i‖ ≤ tolerance · mean ‖δ_i‖``.

    Minimal means that no two answers of the set cancel by themselves. There is no loop over people. Pairs are found by
    sorting all answers: δ_i ≈ ±δ_j implies ``|⟨δ_i, g⟩| ≈ |⟨δ_j, g⟩|`` for any g, so partners are close in the order of
    that number. Larger sets are enumerated for all people with equally many answers together, by one matrix product
    with the table of all sign patterns, if there are at most MOST_COMBINATIONS.

    Parameters
    ----------
    items
        (N, d).
    pairs, person
        (T, 2) rows of items, and (T,) who answered.
    tolerance
        Relative; 0.1 accepts parallelograms whose sides differ by a tenth.
    largest
        Answers in a set at most: 2, 3 or 4.
    usable
        (T,) which answers may be used.
    """
    answers = _Answers(items, pairs, person, tolerance, usable)
    found = [answers.parallel_pairs()]
    unsearched = 0
    for size in range(3, largest + 1):
        more, skipped = answers.larger(size)
        found.append(more)
        unsearched = max(unsearched, skipped)
    return _informative(_stacked(found), items, pairs, person, unsearched)


class _Answers:
    """The usable answers, sorted by person, seen along two random directions."""

    def __init__(self, items: Array, pairs: Indices, person: Indices, tolerance: float, usable: Mask | None) -> None:
        self.items, self.pairs, self.tolerance = items, pairs, tolerance
        T, d = pairs.shape[0], items.shape[1]
        directions = np.random.default_rng(0).standard_normal((d, 2))
        directions /= np.linalg.norm(directions, axis=0)
        length, seen = np.empty(T), np.empty((T, 2))
        for part in _parts(T, d):
            delta = self.delta(np.arange(part.start, part.stop))
            length[part], seen[part] = np.linalg.norm(delta, axis=1), delta @ directions
        keep = length > 0 if usable is None else (length > 0) & usable
        rows = np.flatnonzero(keep)
        self.rows = rows[np.argsort(person[rows], kind="stable")]
        self.person, self.length, self.seen = person[self.rows], length[self.rows], seen[self.rows]
        self.starts = np.flatnonzero(np.diff(self.person, prepend=-1))
        self.counts = np.diff(np.append(self.starts, self.rows.size))

    def delta(self, rows: Indices) -> Array:
        """Return ``δ = x − x'`` of some answers."""
        return self.items[self.pairs[rows, 0]] - self.items[self.pairs[rows, 1]]

    def parallel_pairs(self) -> tuple[Indices, NDArray[np.int8], Array]:
        """Return rows, signs and mismatches of all pairs with δ_i = ±δ_j."""
        if not self.rows.size:
            return _nothing(2)
        key = np.abs(self.seen[:, 0])
        order = np.lexsort((key, self.person))
        key, person = key[order], self.person[order]
        longest = np.repeat(np.maximum.reduceat(self.length, self.starts), self.counts)
        reach = self.tolerance * longest + 1e-12 * longest  # the slack is for rounding
        first, step, found = np.arange(order.size), 0, []
        while first.size:
            step += 1
            first = first[first + step < order.size]
            second = first + step
            # keys grow with the step, so a person who is out of reach now stays out of reach
            first = first[(person[first] == person[second]) & (key[second] - key[first] <= reach[first])]
            found.append(np.column_stack([order[first], order[first + step]]))
        return self._vanishing(np.concatenate(found), np.array([[1, -1], [1, 1]], dtype=np.int8))

    def larger(self, size: int) -> tuple[tuple[Indices, NDArray[np.int8], Array], int]:
        """Return all sets of `size` answers, and how many people have too many answers to search."""
        patterns = np.array([(1, *rest) for rest in product((1, -1), repeat=size - 1)], dtype=np.int8)
        found, skipped = [_nothing(size)], 0
        for m in np.unique(self.counts[self.counts >= size]):
            mine = self.starts[self.counts == m]
            if comb(int(m), size) * len(patterns) > MOST_COMBINATIONS:
                skipped += mine.size
                continue
            chosen = np.array(list(combinations(range(int(m)), size)))
            spread = np.zeros((len(chosen), len(patterns), int(m)))  # (combinations, patterns, m): the signs
            spread[np.arange(len(chosen))[:, None, None], np.arange(len(patterns))[:, None], chosen[:, None]] = patterns
            table = spread.reshape(-1, int(m))
            for part in _parts(mine.size, len(table)):
                found.append(self._enumerated(mine[part, None] + np.arange(m), table, size))
        return _joined(found), skipped

    def _enumerated(self, places: Indices, table: Array, size: int) -> tuple[Indices, NDArray[np.int8], Array]:
        """Return the sets among the people at `places` (P, m) and the sign patterns `table` (c, m)."""
        reach = (self.tolerance + 1e-12) * (self.length[places] @ np.abs(table).T) / size
        near = np.abs(self.seen[places, 0] @ table.T) <= reach
        near &= np.abs(self.seen[places, 1] @ table.T) <= reach
        who, which = np.nonzero(near)
        member = np.argsort(table[which] == 0, axis=1, kind="stable")[:, :size]
        signs = np.take_along_axis(table[which], member, axis=1).astype(np.int8)
        return self._vanishing(np.take_along_axis(places[who], member, axis=1), signs[:, None])

    def _vanishing(self, places: Indices, signs: NDArray[np.int8]) -> tuple[Indices, NDArray[np.int8], Array]:
        """Return the candidates whose sums vanish; signs are (patterns, k) for all, or (n, 1, k) for each."""
        found = [_nothing(places.shape[1])]
        for part in _parts(places.shape[0], places.shape[1] * self.items.shape[1]):
            place = places[part]
            rows, length = self.rows[place], self.length[place]
            delta = self.delta(rows.ravel()).reshape(*rows.shape, -1)
            options = signs[part] if signs.ndim == 3 else np.broadcast_to(signs, (len(place), *signs.shape))
            for option in np.swapaxes(options, 0, 1):
                signed = option[:, :, None] * delta
                mismatch = np.linalg.norm(signed.sum(axis=1), axis=1) / length.mean(axis=1)
                kept = mismatch <= self.tolerance
                if place.shape[1] > 2:
                    for i, j in combinations(range(place.shape[1]), 2):
                        both = np.linalg.norm(signed[:, i] + signed[:, j], axis=1)
                        kept &= both > 0.5 * self.tolerance * (length[:, i] + length[:, j])
                found.append((rows[kept], option[kept], mismatch[kept]))
        return _joined(found)


def _nothing(size: int) -> tuple[Indices, NDArray[np.int8], Array]:
    return np.zeros((0, size), dtype=np.intp), np.zeros((0, size), dtype=np.int8), np.zeros(0)


def _joined(
    found: list[tuple[Indices, NDArray[np.int8], Array]],
) -> tuple[Indices, NDArray[np.int8], Array]:
    rows, signs, mismatch = zip(*found, strict=True)
    return np.concatenate(rows), np.concatenate(signs), np.concatenate(mismatch)


def _stacked(
    found: list[tuple[Indices, NDArray[np.int8], Array]],
) -> tuple[Indices, NDArray[np.int8], Array]:
    """Return sets of several sizes as one table, padded to the largest size that occurs."""
    width = max((rows.shape[1] for rows, _, _ in found if rows.size), default=2)
    padded = [
        (
            np.pad(rows, ((0, 0), (0, width - rows.shape[1]))),
            np.pad(signs, ((0, 0), (0, width - rows.shape[1]))),
            mismatch,
        )
        for rows, signs, mismatch in found
        if rows.shape[1] <= width
    ]
    return _joined(padded)


def _informative(
    found: tuple[Indices, NDArray[np.int8], Array], items: Array, pairs: Indices, person: Indices, unsearched: int
) -> Sets:
    """Return the sets sorted by person, without those whose D is zero."""
    rows, signs, mismatch = found
    kept = np.zeros(len(rows), dtype=bool)
    for part in _parts(len(rows), rows.shape[1] * items.shape[1] ** 2):
        delta, total = _sides(items, pairs, rows[part], signs[part], 0.0)
        D = outer_difference(delta, total)  # (c, k, p)
        kept[part] = np.linalg.norm(D.sum(axis=1), axis=1) > CANCELS * np.linalg.norm(D, axis=2).sum(axis=1)
    chosen = np.flatnonzero(kept)
    chosen = chosen[np.argsort(person[rows[chosen, 0]], kind="stable")]
    owner = person[rows[chosen, 0]]
    return Sets(rows[chosen], signs[chosen], owner, mismatch[chosen], int(np.sum(~kept)), unsearched)


def _sides(
    items: Array, pairs: Indices, rows: Indices, signs: NDArray[np.int8], center: Array | float
) -> tuple[Array, Array]:
    """Return ``s_i δ_i`` and ``x_i + x'_i − 2c`` of the answers of sets, (n, k, d) each."""
    left, right = items[pairs[rows, 0]], items[pairs[rows, 1]]
    return signs[:, :, None] * (left - right), left + right - 2.0 * center


def _parts(n: int, width: int) -> Iterator[slice]:
    """Yield slices of 0…n−1 with about CHUNK numbers each, `width` per entry."""
    size = max(1, CHUNK // max(1, width))
    for start in range(0, n, size):
        yield slice(start, min(n, start + size))


# --8<-- [start:likelihood]
class ConditionalLikelihood:
    """Minus the log-likelihood of M given the statistics of all sets, as a function of a = svec(A).

    Only sets that happened (y = s or y = −s) enter, with outcome z = +1 or −1::

        value(a) = Σ_j c_j log(1 + exp(−m_j))        m_j = β z_j ⟨D_j, A⟩

    Nothing of size sets × p is stored.

    Parameters
    ----------
    items, pairs
        (N, d) and (T, 2).
    sets
        As found by `find_sets`.
    response, weight
        (T,) answers and their weights; a set weighs as much as its lightest answer.
    beta
        Sharpness of the answers.
    center
        (d,) origin of the items, where people are thought to be on average; matters only for near-parallelograms.
    """

    def __init__(
        self, items: Array, pairs: Indices, sets: Sets, response: Array, weight: Array, beta: float, center: Array
    ) -> None:
        agreement = response[sets.rows] * sets.signs
        size = np.sum(sets.signs != 0, axis=1)
        total = agreement.sum(axis=1)
        happened = (np.abs(total) == size) & (size > 0)
        # weights come from the design alone, not from what was answered, or the score would be biased
        lightest = np.min(np.where(sets.signs != 0, weight[sets.rows], np.inf), axis=1, initial=np.inf)
        self.items, self.pairs, self.beta, self.center = items, pairs, beta, center
        self.rows, self.signs, self.person = sets.rows[happened], sets.signs[happened], sets.person[happened]
        self.outcome = np.sign(total[happened])
        self.weight = lightest[happened] / sets.overlap()[happened]
        self.mismatch = sets.mismatch[happened]

    @property
    def dimension(self) -> int:
        """Features of the items."""
        return int(self.items.shape[1])

    @property
    def total_weight(self) -> float:
        """What the sum is divided by to make a mean."""
        return float(self.weight.sum())

    def _chunks(self, width: int) -> Iterator[tuple[slice, Array, Array]]:
        """Yield ``(s, βz s_i δ_i, x_i + x'_i − 2c)``, a moderate number of sets at a time."""
        for part in _parts(len(self.outcome), max(1, self.rows.shape[1]) * width):
            delta, total = _sides(self.items, self.pairs, self.rows[part], self.signs[part], self.center)
            yield part, self.beta * self.outcome[part, None, None] * delta, total

    def margins(self, a: Array) -> Array:
        """Return ``m_j = β z_j ⟨D_j, A⟩`` (n,)."""
        A, m = smat(a), np.empty(len(self.outcome))
        for part, delta, total in self._chunks(self.dimension):
            m[part] = np.sum((delta @ A) * total, axis=(1, 2))
        return m

    def value(self, a: Array) -> float:
        """Return ``Σ c log(1 + exp(−m))``."""
        return float(self.weight @ np.logaddexp(0.0, -self.margins(a)))

    def gradient(self, a: Array) -> Array:
        """Return ``−Σ c σ(−m) βz D`` (p,)."""
        A, G = smat(a), np.zeros((self.dimension, self.dimension))
        for part, delta, total in self._chunks(self.dimension):
            m = np.sum((delta @ A) * total, axis=(1, 2))
            slope = -self.weight[part] * expit(-m)
            G += (slope[:, None, None] * delta).reshape(-1, self.dimension).T @ total.reshape(-1, self.dimension)
        return svec(0.5 * (G + G.T))

    def hessian(self, a: Array) -> Array:
        """Return ``Σ c σ(m)σ(−m) β² D Dᵀ`` (p, p)."""
        H = np.zeros((a.size, a.size))
        for part, delta, total in self._chunks(a.size):
            X = outer_difference(delta, total).sum(axis=1)
            m = X @ a
            X *= np.sqrt(self.weight[part] * expit(m) * expit(-m))[:, None]
            H += X.T @ X
        return H

    def squared_scores(self, a: Array) -> Array:
        """Return ``Σ_k g_k g_kᵀ`` (p, p), g_k the gradient of all of person k's terms together."""
        B, open_person, open_score = np.zeros((a.size, a.size)), -1, np.zeros(a.size)
        for part, delta, total in self._chunks(a.size):
            X = outer_difference(delta, total).sum(axis=1)
            X *= (-self.weight[part] * expit(-(X @ a)))[:, None]
            starts = np.flatnonzero(np.diff(self.person[part], prepend=-1))
            scores = np.add.reduceat(X, starts, axis=0)
            # a person's sets may lie on both sides of a boundary between chunks
            if self.person[part.start] == open_person:
                scores[0] += open_score
            else:
                B += np.outer(open_score, open_score)
            open_person, open_score = self.person[part.stop - 1], scores[-1].copy()
            B += scores[:-1].T @ scores[:-1]
        return B + np.outer(open_score, open_score)


# --8<-- [end:likelihood]
