"""Numbers of people and items that do not depend on the order of any table, on names, or on which side was left.

Answers are often hidden at random, or only some of the people are looked at. If that were drawn by row number, the
same answers in another order would give another result. So everything that is drawn is drawn in the order of these
numbers, which come from the answers themselves: people are known by what they answered about which items, and items by
their features or, where these are the same or unknown, by who answered what about them. All sums are of integers, so
that their order does not matter::

    answer = h(Σ_j h(item_j + tag_j))
    person = h(person + Σ w answer)
    item_j = h(item_j + Σ w h(answer + h(item_j + tag_j) + person))                           `ROUNDS` times

``tag_j`` is what was said about item j: for a pair, the answer seen from its side. People or items that remain equal
can be exchanged without changing anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Canonical", "canonical_of_choices", "canonical_of_items", "canonical_of_pairs"]

Indices = NDArray[np.intp]
Keys = NDArray[np.uint64]

# Rounds in which people and items tell each other apart.
ROUNDS = 3
# A weight counts in steps of this, so that sums of weights are sums of integers.
WEIGHT_UNIT = 2.0**-20
# Constants of splitmix64 (Steele, Lea & Flood 2014), whose last step mixes the bits of a number.
STEP = np.uint64(0x9E3779B97F4A7C15)
FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


@dataclass(frozen=True)
class Canonical:
    """Numbers from 0 of people (K,) and of items (N,), by content; those of equals follow each other."""

    people: Indices
    items: Indices

    def sorted_items(self, some: Indices) -> Indices:
        """Return some of the items, in the order of these numbers."""
        return np.asarray(some[np.argsort(self.items[some])])

    def sorted_people(self, some: Indices) -> Indices:
        """Return some of the people, in the order of these numbers."""
        return np.asarray(some[np.argsort(self.people[some])])


def canonical_of_pairs(
    person: Any, pairs: Any, response: Any, weight: Any, n_people: int, n_items: int, items: Any = None
) -> Canonical:
    """Return the numbers, from answers about pairs.

    Parameters
    ----------
    person, pairs, response, weight
        (T,), (T, 2), (T,), (T,).
    n_people, n_items
        K and N; people without answers and items that nobody compared have numbers, too.
    items
        Features (N, d), of which only the order of values matters; None: items are known by the answers alone.
    """
    said = np.asarray(response, dtype=np.float64)
    tags = np.column_stack([_bits(said), _bits(-said)])
    return _numbers([(person, np.asarray(pairs), tags, weight)], n_people, n_items, items)


def canonical_of_choices(
    blocks: Sequence[tuple[Any, Any, Any]], n_people: int, n_items: int, items: Any = None
) -> Canonical:
    """Return the numbers, from `blocks` of answers: person (T,), items that were shown (T, k), what was said (T, k).

    What was said of an item is a number, such as how often the option with it was chosen.
    """
    told = [(person, np.asarray(shown), _bits(said), np.ones(len(said))) for person, shown, said in blocks]
    return _numbers(told, n_people, n_items, items)


def canonical_of_items(items: Any) -> Indices:
    """Return numbers (N,) of items that come from their features (N, d) alone."""
    return _rank(_keys_of(items)[0])


def _numbers(blocks: Sequence[tuple[Any, Any, Keys, Any]], n_people: int, n_items: int, items: Any) -> Canonical:
    """Return the numbers, from blocks of person (T,), items (T, k), tags (T, k) and weight (T,)."""
    of_items, are_known = np.ones(n_items, dtype=np.uint64), False
    if items is not None:  # features of items that nobody compared do not matter
        there = np.unique(np.concatenate([shown.ravel() for _, shown, _, _ in blocks]))
        of_items[there], are_known = _keys_of(np.asarray(items)[there])
    of_people = np.zeros(n_people, dtype=np.uint64)
    for _ in range(ROUNDS):
        answers = [_answers(of_items, shown, tags) for _, shown, tags, _ in blocks]
        for (person, _, _, weight), (_, answer) in zip(blocks, answers, strict=True):
            np.add.at(of_people, person, _often(weight) * answer)
        of_people = _mixed(of_people)
        if are_known:
            break
        for (person, shown, _, weight), (sides, answer) in zip(blocks, answers, strict=True):
            told, often = answer + of_people[person], _often(weight)
            for column, side in zip(shown.T, sides, strict=True):
                np.add.at(of_items, column, often * _mixed(told + side))
        of_items = _mixed(of_items)
    return Canonical(_rank(of_people), _rank(of_items))


def _answers(of_items: Keys, shown: Any, tags: Keys) -> tuple[list[Keys], Keys]:
    """Return the keys (T,) of every side of the answers, and of the answers."""
    sides = [_mixed(of_items[column] + tag) for column, tag in zip(shown.T, tags.T, strict=True)]
    return sides, _mixed(np.sum(sides, axis=0, dtype=np.uint64))


def _often(weight: Any) -> Keys:
    return np.maximum(np.rint(np.asarray(weight, dtype=np.float64) / WEIGHT_UNIT), 1.0).astype(np.uint64)


def _bits(numbers: Any) -> Keys:
    return _mixed((np.asarray(numbers, dtype=np.float64) + 0.0).view(np.uint64))  # + 0.0: no −0.0


def _keys_of(items: Any) -> tuple[Keys, bool]:
    """Return a key (N,) of every item, and whether all differ.

    Keys come from the ranks of features, as many of them as it takes to tell the items apart.
    """
    keys = np.zeros(len(items), dtype=np.uint64)
    alike = np.arange(len(items))
    for column in np.asarray(items).T:
        rank = np.unique(column[alike], return_inverse=True)[1].reshape(-1)
        keys[alike] = _mixed(keys[alike] + rank.astype(np.uint64))
        _, place, count = np.unique(keys, return_inverse=True, return_counts=True)
        alike = np.flatnonzero(count[place.reshape(-1)] > 1)
        if not alike.size:
            break
    return keys, not alike.size


def _mixed(keys: Keys) -> Keys:
    z = keys + STEP
    z = (z ^ (z >> SHIFTS[0])) * FACTORS[0]
    z = (z ^ (z >> SHIFTS[1])) * FACTORS[1]
    return np.asarray(z ^ (z >> SHIFTS[2]))


def _rank(keys: Keys) -> Indices:
    rank = np.empty(keys.size, dtype=np.intp)
    rank[np.argsort(keys, kind="stable")] = np.arange(keys.size)
    return rank
