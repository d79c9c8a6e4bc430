"""Judgements as choices among pairs: the one layout that every kind of judgement shares.

A question offers k pairs of items, and the chosen one is the closest. Distances are needed of *distinct pairs* only,
so that a pass over T answers to questions about P pairs costs ``O(T + P)`` besides the distances themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.judgements import Judgements

__all__ = ["Alternatives", "PairChoices", "questions_of"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Up to this many items, distinct pairs are found in a table of all pairs instead of by sorting.
TABLED_ITEMS = 5_000
# Items are dealt into this many groups to order questions: two pairs of groups then fit in 16 bits, which are sorted
# fastest, and the distances among three groups of a thousand items or two fit in a core's cache.
GROUPS = 15
# Squared lengths that differ by less than this share of the largest one count as equal.
SAME_LENGTH = 1e-12


@dataclass(frozen=True)
class Alternatives:
    """Questions with the same number of alternatives.

    Attributes
    ----------
    index
        (T, k) rows of `PairChoices.pairs`: the pairs to choose from.
    counts
        (T, k) how often each was chosen as the closest.
    person
        (T,) who answered.
    """

    index: Indices
    counts: Array
    person: Indices

    @cached_property
    def columns(self) -> tuple[NDArray[np.uint32], ...]:
        """`index`, column by column (T,), in the narrowest form."""
        return tuple(self.index.T.astype(np.uint32, order="C"))

    @cached_property
    def answers(self) -> Array:
        """(T,) how many answers there are to each question."""
        return np.asarray(self.counts.sum(axis=1))

    @cached_property
    def chosen(self) -> Array:
        """How often each pair was chosen, up to the last pair that is asked about."""
        return np.bincount(self.index.ravel(), self.counts.ravel()).astype(np.float64, copy=False)

    def take(self, rows: Any) -> Alternatives:
        """Return some of the rows."""
        return Alternatives(self.index[rows], self.counts[rows], self.person[rows])


@dataclass(frozen=True)
class PairChoices:
    """Distinct pairs of items, and the questions that choose among them.

    Attributes
    ----------
    pairs
        (P, 2) row numbers of items, the smaller first.
    asked
        One `Alternatives` per number of alternatives.
    """

    pairs: Indices
    asked: tuple[Alternatives, ...]

    @property
    def n_answers(self) -> float:
        """How many answers there are."""
        return float(sum(block.counts.sum() for block in self.asked))

    @property
    def n_questions(self) -> int:
        """How many different questions there are."""
        return sum(len(block.index) for block in self.asked)

    def items_of(self, block: Alternatives) -> Indices:
        """Return the items (T, 2k) that each question of a block is about."""
        return self.pairs[block.index].reshape(len(block.index), -1)

    def tell_distances_apart(self, items: Array) -> bool:
        """Return whether some question has options that are not equally far apart under every metric.

        Two differences of items (N, d) have the same length under every metric if they are equal or opposite; if they
        are not, their lengths differ under nearly every metric, so that one drawn at random shows it.
        """
        d = items.shape[1]
        z = items @ np.random.default_rng(0).standard_normal((d, min(d, 2)))
        far = np.sum((z[self.pairs[:, 0]] - z[self.pairs[:, 1]]) ** 2, axis=1)
        same = SAME_LENGTH * float(far.max(initial=0.0))
        return any(bool(np.any(np.ptp(far[block.index], axis=1) > same)) for block in self.asked)

    def are_explained_by(self, D: Array) -> bool:
        """Return whether every answer is the closest pair, under squared distances (P,)."""
        for block in self.asked:
            far = D[block.index]
            if np.any((block.counts > 0.0) & (far > far.min(axis=1, keepdims=True))):
                return False
        return True

    def grouped(self) -> PairChoices:
        """Return the questions in an order in which those about the same groups of items follow each other.

        A loop over answers then finds the distances it needs in the cache.
        """
        group = self.pairs * GROUPS // (int(self.pairs.max(initial=0)) + 1)
        tile = (group[:, 0] * GROUPS + group[:, 1]).astype(np.uint16)
        keys = [tile[block.index[:, 0]] * np.uint16(GROUPS**2) + tile[block.index[:, 1]] for block in self.asked]
        blocks = zip(self.asked, keys, strict=True)
        return replace(self, asked=tuple(block.take(np.argsort(key, kind="stable")) for block, key in blocks))

    def split_by_items(self, group: NDArray[np.bool_]) -> tuple[PairChoices, PairChoices]:
        """Return the questions about none of a group (N,) of items, and those about at least one."""
        touches: list[NDArray[np.bool_]] = [np.asarray(group[self.items_of(block)].any(axis=1)) for block in self.asked]
        return self._where([~t for t in touches]), self._where(touches)

    def deal(self, folds: int, rng: np.random.Generator) -> list[tuple[PairChoices, PairChoices]]:
        """Return the questions without a random group of them, and those of the group, for each of several groups."""
        groups = [rng.permutation(len(block.index)) % folds for block in self.asked]
        masks = [[group == fold for group in groups] for fold in range(folds)]
        return [(self._where([~mask for mask in fold]), self._where(fold)) for fold in masks]

    def split_by_chance(self, share: float, rng: np.random.Generator) -> tuple[PairChoices, PairChoices]:
        """Return most questions, and about a share of them, drawn at random."""
        drawn = [rng.random(len(block.index)) < share for block in self.asked]
        return self._where([~mask for mask in drawn]), self._where(drawn)

    def of_person(self, person: int) -> PairChoices:
        """Return the questions that one person answered."""
        return self._where([block.person == person for block in self.asked])

    def _where(self, masks: Sequence[NDArray[np.bool_]]) -> PairChoices:
        kept = tuple(block.take(mask) for block, mask in zip(self.asked, masks, strict=True) if mask.any())
        return replace(self, asked=kept)


def questions_of(judgements: Sequence[Judgements], *, by_person: bool = False) -> PairChoices:
    """Return the questions of some judgements about the same items.

    Where it does not matter who answered, the answers of different people to one question are added up.
    """
    n_items = judgements[0].n_items
    for table in judgements[1:]:
        if table.n_items != n_items:
            raise DataError(
                f"the judgements are about {n_items} and {table.n_items} items; read all from the same catalog"
            )
    tables = [table if by_person else _pooled(table) for table in judgements]
    codes = [_codes(table.pairs, n_items) for table in tables]
    distinct, places = _distinct(codes, n_items)
    blocks: dict[int, list[Alternatives]] = {}
    for table, index in zip(tables, places, strict=True):
        block = Alternatives(index, table.counts, table.person.astype(np.intp))
        blocks.setdefault(table.n_alternatives, []).append(block)
    pairs = np.column_stack([distinct // n_items, distinct % n_items]).astype(np.intp)
    return PairChoices(pairs, tuple(_joined(blocks[k]) for k in sorted(blocks)))


def _pooled(table: Judgements) -> Judgements:
    if table.n_people == 1:
        return table
    nobody = np.zeros(len(table), dtype=np.int64)
    return Judgements(
        table.kind, table.items, table.counts, nobody, np.zeros(1, dtype=np.int64), table.item_ids
    ).merged()


def _codes(pairs: NDArray[np.int64], n_items: int) -> NDArray[np.int64]:
    """Return one number (T, k) per pair, whichever item comes first."""
    low, high = np.minimum(pairs[..., 0], pairs[..., 1]), np.maximum(pairs[..., 0], pairs[..., 1])
    return low * n_items + high


def _distinct(codes: Sequence[NDArray[np.int64]], n_items: int) -> tuple[NDArray[np.int64], list[Indices]]:
    """Return the distinct codes (P,), sorted, and the place of every code among them."""
    if n_items > TABLED_ITEMS:
        distinct, places = np.unique(np.concatenate([c.ravel() for c in codes]), return_inverse=True)
        ends = np.cumsum([c.size for c in codes])[:-1]
        parts = np.split(places.ravel(), ends)
        return distinct, [part.reshape(c.shape).astype(np.intp) for part, c in zip(parts, codes, strict=True)]
    seen = np.zeros(n_items * n_items, dtype=bool)
    for each in codes:
        seen[each.ravel()] = True
    distinct = np.flatnonzero(seen)
    place = np.cumsum(seen, dtype=np.int64) - 1
    return distinct, [place[c].astype(np.intp) for c in codes]


def _joined(blocks: Sequence[Alternatives]) -> Alternatives:
    if len(blocks) == 1:
        return blocks[0]
    return Alternatives(*(np.concatenate([getattr(b, name) for b in blocks]) for name in ("index", "counts", "person")))
