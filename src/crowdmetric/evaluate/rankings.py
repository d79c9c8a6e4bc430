"""Whether answers look as if they were cut from rankings or ratings: then nobody's answers contradict each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.comparisons import Comparisons

__all__ = ["comparisons_look_ranked", "free_of_cycles"]

Array = NDArray[Any]

# With at least this many closed triples and no cycle among them, answers were cut from rankings.
CLOSED_TRIPLES = 50
# Maximum number of groups of answers that are looked at.
MOST_GROUPS = 2_000


def free_of_cycles(group: Array, preferred: Array, other: Array) -> bool:
    """Return whether preferences (T,) within each group are free of cycles, as those cut from a ranking are.

    Of three options compared two by two, random answers make a cycle once in four times.
    """
    order = np.argsort(group, kind="stable")
    edges = np.flatnonzero(np.diff(group[order])) + 1
    groups = [rows for rows in np.split(order, edges) if len(rows) >= 3]
    closed = cycles = 0.0
    for rows in groups[:MOST_GROUPS]:
        options, place = np.unique(np.stack([preferred[rows], other[rows]]), return_inverse=True)
        winner, loser = place.reshape(2, -1)
        A = np.zeros((len(options), len(options)))
        A[winner, loser] = 1.0
        E = np.maximum(A, A.T)
        closed += np.trace(E @ E @ E) / 6.0
        cycles += np.trace(A @ A @ A) / 3.0
        if cycles:
            return False
    return closed >= CLOSED_TRIPLES


def comparisons_look_ranked(comparisons: Comparisons) -> bool:
    """Return whether nobody's answers contradict each other, as if the pairs were made from ratings or rankings."""
    if not comparisons.is_binary:
        return False
    right = comparisons.response > 0
    preferred = np.where(right, comparisons.right, comparisons.left)
    return free_of_cycles(comparisons.user, preferred, np.where(right, comparisons.left, comparisons.right))
