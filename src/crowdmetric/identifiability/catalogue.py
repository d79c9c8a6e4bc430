"""What no questionnaire about these items can reveal.

If all items satisfy ``xᵀAx = bᵀx + c`` then ⟨Δ, A⟩ = ⟨δ, b⟩ for every pair of them, and A cannot be distinguished from
a shift of everybody's pseudo-ideal point, for any number of people. Items with two values of a feature do (x² is
linear in x), so do items of equal length (xᵀx is constant), and so do fewer than 1 + d + d(d+1)/2 items.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.identifiability.questions import QuestionSource
from crowdmetric.identifiability.spectrum import Spectrum, common_spectrum
from crowdmetric.symmetric import degrees_of_freedom, outer_difference

__all__ = ["ceiling", "two_valued"]

Array = NDArray[Any]

CHUNK = 1 << 20
# Largest p for which the items are decomposed.
LARGEST = 2_000
MOST_ITEMS = 100_000


def ceiling(questions: QuestionSource, seed: int = 0) -> Spectrum | None:
    """Return the spectrum of all questions that could be asked about the items shown; None if that takes too long.

    It is enough to compare every item with one of them, because every other Δ and δ is a difference of theirs. With
    very many items, a sample is tried first: all items reveal at least as much.
    """
    p = degrees_of_freedom(questions.d)
    used = questions.used
    if p > LARGEST:
        return None
    rng = np.random.default_rng(seed)
    some = 4 * (p + questions.d + 1) + 1000
    if len(used) > some:
        found = _spectrum(questions, np.sort(rng.choice(used, some, replace=False)))
        if found.rank == p:
            return found
        used = used[:: -(-len(used) // MOST_ITEMS)]
    return _spectrum(questions, used)


def _spectrum(questions: QuestionSource, rows: NDArray[np.intp]) -> Spectrum:
    d = questions.d
    p = degrees_of_freedom(d)
    x = questions.items[rows]
    first, common = x[0], np.zeros((p + d, p + d))
    step = max(1, CHUNK // p)
    for begin in range(0, len(x), step):
        some = x[begin : begin + step]
        delta, total = some - first, some + first
        flat = np.concatenate([outer_difference(delta, total), delta], axis=1)
        common += flat.T @ flat
    return common_spectrum(common, questions.unit)


def two_valued(questions: QuestionSource) -> list[int]:
    """Return the features that take two values only among the items shown."""
    x = questions.items[questions.used]
    low, high = x.min(axis=0), x.max(axis=0)
    return [j for j in range(questions.d) if low[j] < high[j] and np.all((x[:, j] == low[j]) | (x[:, j] == high[j]))]
