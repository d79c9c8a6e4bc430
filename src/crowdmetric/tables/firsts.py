"""Answers about several items, as the likelihood takes them: "first of this set", with a sign; and steps of a scale.

A choice, a ranking, the best and the worst are all made of one primitive, and become it when they are read:

====================  ========================================================================================
choice of one         it is the first of the set
ranking               the first of the set, then the first of the set that is left, and so on
top of a ranking      the same, for as many stages as there are places
worst                 the first of the set that is left with sign −1: utilities count with the opposite sign
====================  ========================================================================================

The probability of one of them, given utilities η_j, is ``exp(sign · η_first) / Σ_{j in set} exp(sign · η_j)``. A set of
one says nothing and is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Firsts", "Steps", "firsts_of", "ranges"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Firsts:
    """Q times "first of this set"; sets lie one after another in `item`.

    Attributes
    ----------
    person : (Q,) int64
    offsets : (Q + 1,) int64
        Set q is ``item[offsets[q]:offsets[q + 1]]``, of two alternatives or more.
    item : (R,) int64
        Row numbers of items, −1 for "none of them".
    first : (Q,) int64
        The position, within its set, of the alternative that came first.
    sign : (Q,) int64
        +1, or −1 where it came last ("worst").
    weight : (Q,) float64
    question : (Q,) int64
        The question as it was asked: a ranking has several stages, best and worst two. Rises.
    """

    person: Ints
    offsets: Ints
    item: Ints
    first: Ints
    sign: Ints
    weight: Floats
    question: Ints

    def __len__(self) -> int:
        return len(self.person)


@dataclass(frozen=True, eq=False)
class Steps:
    """T ratings, each a step of one ordered scale.

    Attributes
    ----------
    person : (T,) int64
    item : (T,) int64
        Row numbers of items.
    step : (T,) int64
        From 0, the lowest, to ``n_steps − 1``.
    weight : (T,) float64
    n_steps : int
    """

    person: Ints
    item: Ints
    step: Ints
    weight: Floats
    n_steps: int

    def __len__(self) -> int:
        return len(self.person)


def firsts_of(person: Ints, offsets: Ints, item: Ints, place: Ints, weight: Floats) -> Firsts:
    """Return the stages of questions, in the order of the questions.

    Parameters
    ----------
    person, weight : (Q,) arrays
    offsets : (Q + 1,) int64
    item : (R,) int64
    place : (R,) int64
        1 for the first, 2 for the second, …; −1 for the last; 0 for alternatives about which nothing more was said.
    """
    question = np.repeat(np.arange(len(person)), np.diff(offsets))
    left = np.arange(len(item))  # rows still in the set of a question that has a place for this stage
    found: list[tuple[Ints, Ints, int]] = []  # rows of the sets, rows of the firsts, sign
    stage = 1
    while left.size:
        has = np.zeros(len(person), dtype=np.bool_)
        has[question[left[place[left] == stage]]] = True
        inside = left[has[question[left]]]
        found.append((inside, inside[place[inside] == stage], 1))
        left = inside[place[inside] != stage]
        stage += 1
    rest = np.flatnonzero(place <= 0)
    has = np.zeros(len(person), dtype=np.bool_)
    has[question[place == -1]] = True
    inside = rest[has[question[rest]]]
    found.append((inside, inside[place[inside] == -1], -1))

    sizes = [np.bincount(question[rows], minlength=len(person))[question[first]] for rows, first, _ in found]
    size, first = np.concatenate(sizes), np.concatenate([first for _, first, _ in found])
    rows, sign = (
        np.concatenate([rows for rows, _, _ in found]),
        np.repeat([s for _, _, s in found], list(map(len, sizes))),
    )
    begin = np.cumsum(size) - size
    order = np.argsort(question[first], kind="stable")
    order = order[size[order] > 1]
    where = ranges(begin[order], size[order])
    starts = np.r_[0, np.cumsum(size[order])]
    at = np.flatnonzero(rows[where] == np.repeat(first[order], size[order])) - starts[:-1]
    asked = question[first[order]]
    return Firsts(person[asked], starts, item[rows[where]], at, sign[order], weight[asked], asked)


def ranges(begin: Ints, size: Ints) -> Ints:
    """Return the numbers ``begin[i], …, begin[i] + size[i] − 1`` of every i, one after another."""
    ends = np.cumsum(size)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(begin - ends + size, size)
