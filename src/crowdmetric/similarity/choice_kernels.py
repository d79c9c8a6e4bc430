"""The compiled loop over many choices among pairs; `likelihood` explains the formulas."""

from __future__ import annotations

from math import log
from typing import Any

from numpy.typing import NDArray

from crowdmetric.users.compiled import compiled

__all__ = ["add_shares"]

Array = NDArray[Any]


@compiled
def add_shares(columns: tuple[Array, ...], answers: Array, weight: Array, shares: Array) -> float:
    """Return ``Σ_t n_t log s_t`` and add ``n_t / s_t`` to `shares` (P,) at the pairs of question t.

    `s_t` is the sum of the weights ``exp(u)`` (P,) of the pairs to choose from, whose numbers are in k columns (T,).
    The number of columns is known when this is compiled, so the loops over them are unrolled.
    """
    value = 0.0
    for t in range(answers.size):
        total = 0.0
        for j in range(len(columns)):
            total += weight[columns[j][t]]
        value += answers[t] * log(total)
        share = answers[t] / total
        for j in range(len(columns)):
            shares[columns[j][t]] += share
    return value
