"""The compiled loop over many choices among pairs; `likelihood` explains the formulas."""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.users.compiled import compiled

__all__ = ["add_slopes"]

Array = NDArray[Any]


@compiled
def add_slopes(index: Array, counts: Array, utilities: Array, gradient: Array) -> float:
    """Return minus the log-likelihood of choices (T, k) and add its derivative in the utilities (P,) to `gradient`."""
    T, k = index.shape
    p = np.empty(k)
    value = 0.0
    for t in range(T):
        top = utilities[index[t, 0]]
        for j in range(1, k):
            top = max(top, utilities[index[t, j]])
        total, n = 0.0, 0.0
        for j in range(k):
            p[j] = exp(utilities[index[t, j]] - top)
            total += p[j]
            n += counts[t, j]
            value -= counts[t, j] * (utilities[index[t, j]] - top)
        value += n * log(total)
        for j in range(k):
            gradient[index[t, j]] += n * p[j] / total - counts[t, j]
    return value
