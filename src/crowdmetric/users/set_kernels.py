"""Compiled sums over nodes for `set_propagation`: the moments of one answer about a set, person by person."""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.users.compiled import compiled_sums

__all__ = ["moments_of_set"]

Array = NDArray[Any]


@compiled_sums
def moments_of_set(
    psi: Array, D: Array, middle: Array, L: Array, y: Array, there: Array, omega: Array, beta: float,
    nodes: Array, weights: Array,
) -> tuple[Array, Array, Array, Array, Array]:  # fmt: skip
    """Return the moments of nodes x under ``weights · exp(½x² − ½z²) f^ω``, with ``z = middle + L x``.

    Parameters
    ----------
    psi, D : (P, size), (P, size, r)
        ``ψ + D x`` are an answer's gaps at a node.
    middle, L : (P, r), (P, r, r)
    y, there, omega, beta
        As for `crowdmetric.users.sets.first_of_set`, of one answer: (P, size), (P, size), (P,).
    nodes, weights : (n, r), (n,)

    Returns
    -------
    (P,), (P, r), (P, r, r), (P, size), (P, size, size) arrays
        The logarithm of the sum; means of x and of x xᵀ; means of p and of p pᵀ.
    """
    P, size, r = D.shape
    n = nodes.shape[0]
    value, first, second = np.empty(P), np.zeros((P, r)), np.zeros((P, r, r))
    other, both = np.zeros((P, size)), np.zeros((P, size, size))
    log_joint, shares = np.empty(n), np.empty((n, size))
    for k in range(P):
        highest = -np.inf
        for q in range(n):
            square = 0.0
            for i in range(r):
                z = middle[k, i]
                for j in range(i + 1):
                    z += L[k, i, j] * nodes[q, j]
                square += nodes[q, i] * nodes[q, i] - z * z
            top = 0.0
            for i in range(size):
                z = -np.inf
                if there[k, i]:
                    z = psi[k, i]
                    for j in range(r):
                        z += D[k, i, j] * nodes[q, j]
                    z *= -beta * y[k, i]
                    top = max(top, z)
                shares[q, i] = z
            total = exp(-top)
            for i in range(size):
                shares[q, i] = exp(shares[q, i] - top) if there[k, i] else 0.0
                total += shares[q, i]
            for i in range(size):
                shares[q, i] /= total
            log_joint[q] = 0.5 * square - omega[k] * (top + log(total))
            highest = max(highest, log_joint[q])
        total = 0.0
        for q in range(n):
            share = weights[q] * exp(log_joint[q] - highest)
            total += share
            for i in range(r):
                first[k, i] += share * nodes[q, i]
                for j in range(i + 1):
                    second[k, i, j] += share * nodes[q, i] * nodes[q, j]
            for i in range(size):
                other[k, i] += share * shares[q, i]
                for j in range(i + 1):
                    both[k, i, j] += share * shares[q, i] * shares[q, j]
        value[k] = highest + log(total)
        for i in range(r):
            first[k, i] /= total
            for j in range(i + 1):
                second[k, i, j] /= total
                second[k, j, i] = second[k, i, j]
        for i in range(size):
            other[k, i] /= total
            for j in range(i + 1):
                both[k, i, j] /= total
                both[k, j, i] = both[k, i, j]
    return value, first, second, other, both
