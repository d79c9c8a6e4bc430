"""People who were asked matched questions: in memory, or in a scan's chunks on disk.

A conditioning set is made of one person's answers, and nobody is in two chunks. So the likelihood, its gradient and its
curvature are sums over chunks. The sets of a chunk are searched for when it is read, and cached up to a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.engines.contract import Engine
from crowdmetric.engines.folding import FieldSums
from crowdmetric.fits.crowd import ChunkCache
from crowdmetric.inputs import Rows, answers_in_chunk
from crowdmetric.tables import ComparisonScan, SpoolChunk
from crowdmetric.users.blocks import Answers
from crowdmetric.users.conditioning import ConditionalLikelihood, Sets, find_sets

__all__ = ["Found", "MatchedCrowd", "MatchedOptions", "matched_in_memory", "matched_on_disk"]

Array = NDArray[Any]

# Answers per chunk in memory: enough to be worth a thread, few enough for every core to have some.
ANSWERS_PER_CHUNK = 50_000


@dataclass(frozen=True)
class MatchedOptions:
    """Options of the search for sets, the largest mismatch and the largest size, and β of the answers."""

    max_mismatch: float
    largest: int
    beta: float


@dataclass(frozen=True)
class Found(FieldSums):
    """Counts of the sets of some people.

    Attributes
    ----------
    sets, used_sets
        Conditioning sets, and those that are informative: the answers are one of the set's two outcomes.
    matched_people, used_people
        People with a set, and with one that was used.
    cycles, unsearched
        As in `Sets`.
    mismatch, weight
        Sums over the sets that were used.
    crowded
        How many people have more than one set that was used, or one whose weight is not one.
    """

    sets: int
    used_sets: int
    matched_people: int
    used_people: int
    cycles: int
    unsearched: int
    mismatch: float
    weight: float
    crowded: int

    @staticmethod
    def of(sets: Sets, likelihood: ConditionalLikelihood) -> Found:
        """Return what one chunk holds."""
        people, counts = np.unique(likelihood.person, return_counts=True)
        return Found(
            sets=len(sets),
            used_sets=len(likelihood.outcome),
            matched_people=int(np.unique(sets.person).size),
            used_people=int(people.size),
            cycles=sets.cycles,
            unsearched=sets.unsearched,
            mismatch=float(likelihood.mismatch.sum()),
            weight=likelihood.total_weight,
            crowded=int(np.sum(counts > 1)) + int(np.sum(likelihood.weight != 1.0)),
        )


@dataclass(frozen=True)
class SetsInMemory:
    """The conditioning sets of some people, in memory."""

    sets: Sets
    likelihood: ConditionalLikelihood

    def load(self) -> tuple[Sets, ConditionalLikelihood]:
        """Return the sets, and the likelihood of the informative ones."""
        return self.sets, self.likelihood


@dataclass(frozen=True)
class SetsOnDisk:
    """The conditioning sets of a scan's chunk."""

    number: int
    chunk: SpoolChunk
    items: Array
    center: Array
    options: MatchedOptions
    cache: ChunkCache

    def load(self) -> tuple[Sets, ConditionalLikelihood]:
        """Return the sets, and the likelihood of the informative ones."""
        return self.cache.get_or_make(self.number, self._make, lambda found: sum(map(_bytes, found)))

    def _make(self) -> tuple[Sets, ConditionalLikelihood]:
        answers = answers_in_chunk(self.chunk, self.items)
        answers = replace(answers, person=answers.person + self.chunk.first_person)
        return _sets_and_likelihood(answers, self.options, self.center)


MatchedChunk = SetsInMemory | SetsOnDisk


def _sets_and_likelihood(
    answers: Answers, options: MatchedOptions, center: Array
) -> tuple[Sets, ConditionalLikelihood]:
    """Return people's sets and their likelihood. An answer given twice counts as one of twice the weight."""
    own = answers.merged()
    sets = find_sets(
        own.items, own.pairs, own.person, tolerance=options.max_mismatch, largest=options.largest, usable=own.weight > 0
    )
    return sets, ConditionalLikelihood(own.items, own.pairs, sets, own.response, own.weight, options.beta, center)


def _bytes(part: Any) -> int:
    """Return the memory of an object's own arrays; the items are everybody's."""
    return sum(a.nbytes for name, a in vars(part).items() if isinstance(a, np.ndarray) and name != "items")


@dataclass(frozen=True)
class MatchedCrowd:
    """Everybody whose matched answers are fitted; the objective of `crowdmetric.solvers.logistic.solve_logistic`.

    Attributes
    ----------
    chunks
        Where the answers are.
    dimension
        Features of the items.
    found
        What all chunks hold.
    engine
        Where sums over chunks are taken.
    n_users, users
        How many people there are; who they are, nobody for a scan.
    """

    chunks: Sequence[MatchedChunk]
    dimension: int
    found: Found
    n_users: int
    users: NDArray[Any]
    engine: Engine

    @staticmethod
    def of(chunks: Sequence[MatchedChunk], d: int, n_users: int, users: NDArray[Any], engine: Engine) -> MatchedCrowd:
        """Return the crowd after one pass that counts what there is."""
        return MatchedCrowd(chunks, d, engine.sum(_found, chunks), n_users, users, engine)

    @property
    def total_weight(self) -> float:
        """What the sum is divided by to make a mean."""
        return self.found.weight

    def _sum(self, quantity: str, a: Array) -> Any:
        """Return the sum over chunks of a method of `ConditionalLikelihood`."""
        return self.engine.sum(partial(_quantity, quantity=quantity, a=a), self.chunks)

    def value(self, a: Array) -> float:
        """Return ``Σ c log(1 + exp(−m))``."""
        return float(self._sum("value", a))

    def gradient(self, a: Array) -> Array:
        """Return the gradient (p,)."""
        gradient: Array = self._sum("gradient", a)
        return gradient

    def hessian(self, a: Array) -> Array:
        """Return the second derivatives (p, p)."""
        hessian: Array = self._sum("hessian", a)
        return hessian

    def squared_scores(self, a: Array) -> Array:
        """Return ``Σ_k g_k g_kᵀ`` (p, p); nobody is in two chunks."""
        squares: Array = self._sum("squared_scores", a)
        return squares


def _found(chunk: MatchedChunk) -> Found:
    return Found.of(*chunk.load())


def _quantity(chunk: MatchedChunk, quantity: str, a: Array) -> Any:
    return getattr(chunk.load()[1], quantity)(a)


def matched_in_memory(rows: Rows, options: MatchedOptions, center: Array | None, engine: Engine) -> MatchedCrowd:
    """Return the crowd of validated rows; without a center, the mean of the items asked about is taken."""
    d = rows.items.shape[1]
    if center is None:
        weight = np.repeat(rows.weight, 2)
        center = _middle(rows.items, np.bincount(rows.pairs.ravel(), weight, minlength=rows.items.shape[0]))
    answers, parts = rows.jointly(), _whole_people(rows.person)
    chunks = [SetsInMemory(*_sets_and_likelihood(answers.take(part), options, center)) for part in parts]
    return MatchedCrowd.of(chunks, d, rows.users.size, rows.users, engine)


def _whole_people(person: Array) -> list[Array]:
    """Return row numbers in parts of about `ANSWERS_PER_CHUNK`, each person in one part, rows in their order."""
    order = np.argsort(person, kind="stable")
    firsts = np.flatnonzero(np.diff(person[order], prepend=-1))  # where somebody's rows begin
    wanted = np.arange(ANSWERS_PER_CHUNK, person.size, ANSWERS_PER_CHUNK)
    cuts = np.unique(firsts[np.minimum(np.searchsorted(firsts, wanted), firsts.size - 1)])
    return [np.sort(part) for part in np.split(order, cuts) if part.size]


def matched_on_disk(
    scan: ComparisonScan, items: Array, options: MatchedOptions, center: Array | None, cache: ChunkCache, engine: Engine
) -> MatchedCrowd:
    """Return the crowd of a scan about validated items (N, d); chunks stay in memory as far as the cache has room."""
    if center is None:
        asked = np.zeros(len(items))
        for chunk in scan.chunks:
            rows = chunk.load()
            for side in ("left", "right"):
                asked += np.bincount(rows[side], rows["weight"], minlength=len(items))
        center = _middle(items, asked)
    chunks = [SetsOnDisk(i, chunk, items, center, options, cache) for i, chunk in enumerate(scan.chunks)]
    return MatchedCrowd.of(chunks, items.shape[1], scan.n_users, np.empty(0, dtype=np.int64), engine)


def _middle(items: Array, asked: Array) -> Array:
    mean: Array = (asked @ items) / asked.sum()
    return mean
