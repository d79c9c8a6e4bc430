"""The compiled twin of `propagation`, for logistic answers.

Each person until they have settled, instead of all until the last has. `tests/test_integrals.py` checks that both end
at the same point. The formulas are explained where the NumPy code is.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.users.compiled import compiled
from crowdmetric.users.line_kernels import tilted

__all__ = ["logistic_by_propagation"]

Array = NDArray[Any]

# As in `propagation`.
FRESH = 8


@compiled
def _root(H: Array, precision: Array, root: Array) -> None:
    """Write the Cholesky factor of ``I + Hᵀ diag(τ) H``."""
    m, q = H.shape
    for j in range(q):
        for k in range(j + 1):
            total = 1.0 if j == k else 0.0
            for i in range(m):
                total += precision[i] * H[i, j] * H[i, k]
            for l in range(k):  # noqa: E741
                total -= root[j, l] * root[k, l]
            root[j, k] = sqrt(total) if j == k else total / root[k, k]


@compiled
def _gaussian(
    a: Array, H: Array, precision: Array, shift: Array, root: Array, half: Array, mean: Array, variance: Array
) -> float:
    """Write mean and variance (m,) of a person's ψ under Gaussian factors; return ``½ log det V + ½ pullᵀ V pull``.

    `root` becomes the Cholesky factor of ``I + Hᵀ diag(τ) H`` and ``half[i]`` (m + 1, q) its inverse times H_i; the
    last row is that of the pull.
    """
    m, q = H.shape
    _root(H, precision, root)
    for j in range(q):
        total = 0.0
        for i in range(m):
            total += H[i, j] * (shift[i] - precision[i] * a[i])
        half[m, j] = total
        for i in range(m):
            half[i, j] = H[i, j]
    result = 0.0
    for i in range(m + 1):
        for j in range(q):
            total = half[i, j]
            for k in range(j):
                total -= root[j, k] * half[i, k]
            half[i, j] = total / root[j, j]
    for j in range(q):
        result += 0.5 * half[m, j] * half[m, j] - log(root[j, j])
    for i in range(m):
        along, square = 0.0, 0.0
        for j in range(q):
            along += half[i, j] * half[m, j]
            square += half[i, j] * half[i, j]
        mean[i], variance[i] = a[i] + along, square
    return result


@compiled
def _covariance(a: Array, H: Array, precision: Array, shift: Array, root: Array, V: Array, pull: Array) -> None:
    """Write ``V = (I + Hᵀ diag(τ) H)⁻¹`` and ``pull = Hᵀ(ν − τ a)``; `root` is room for the Cholesky factor."""
    m, q = H.shape
    _root(H, precision, root)
    for j in range(q):
        pull[j] = 0.0
        for i in range(m):
            pull[j] += H[i, j] * (shift[i] - precision[i] * a[i])
    for c in range(q):  # column c of the inverse
        for j in range(q):
            total = 1.0 if j == c else 0.0
            for k in range(j):
                total -= root[j, k] * V[k, c]
            V[j, c] = total / root[j, j]
        for j in range(q - 1, -1, -1):
            total = V[j, c]
            for k in range(j + 1, q):
                total -= root[k, j] * V[k, c]
            V[j, c] = total / root[j, j]


@compiled
def logistic_by_propagation(
    a: Array,
    E: Array,
    H: Array,
    y: Array,
    weight: Array,
    beta: float,
    level: Array,
    sizes: Array,
    weights: Array,
    tolerance: float,
    rounds: int,
) -> tuple[Array, Array, Array, Array]:
    """Return value (P,), slope (P, m), bend (P, q, q) and precision (P, m), each person swept until they settle.

    An answer's cavity is integrated along ``sizes[level]`` nodes, with these `weights` where there are any.
    """
    P, m, q = H.shape
    value, slope, bend = np.zeros(P), np.zeros((P, m)), np.zeros((P, q, q))
    precisions, shift, mean, variance = np.zeros((P, m)), np.empty(m), np.empty(m), np.empty(m)
    root, half = np.zeros((q, q)), np.empty((m + 1, q))
    pulled, inner, room = np.empty(q), np.empty((q, q)), np.empty(weights.shape[1])
    V, pull, reach = np.empty((q, q)), np.empty(q), np.empty(q)
    kept = weights.shape[0] - 1  # the last line whose weights are there
    for p in range(P):
        precision = precisions[p]
        shift[:] = 0.0
        before = 1.0
        for turn in range(rounds):
            if turn % FRESH == 0:
                _covariance(a[p], H[p], precision, shift, root, V, pull)
            largest = 0.0
            for i in range(m):
                if weight[p, i] == 0.0:
                    continue
                centre, spread = a[p, i], 0.0
                for j in range(q):
                    reach[j] = 0.0
                    for k in range(q):
                        reach[j] += V[j, k] * H[p, i, k]
                    centre += reach[j] * pull[j]
                    spread += reach[j] * H[p, i, j]
                if spread <= 0.0:
                    continue
                # the others' factors alone; a variance that rounding made negative would poison the sweep
                keep = max(1.0 - precision[i] * spread, 1e-12)
                cavity_variance, cavity_mean = spread / keep, (centre - spread * shift[i]) / keep
                n, prior = sizes[level[p, i]], weights[min(level[p, i], kept)]
                _, first, second = tilted(cavity_mean, cavity_variance, beta * y[p, i], weight[p, i], n, prior, room)
                strength = max(-second, 0.0)
                stronger = strength / max(1.0 - strength * cavity_variance, 1e-12)
                further = first + stronger * (cavity_mean + cavity_variance * first) - shift[i]
                stronger -= precision[i]
                largest = max(largest, abs(further - centre * stronger) * sqrt(spread))
                precision[i] += stronger
                shift[i] += further
                # the person with the new factor, by Sherman and Morrison
                shrink = stronger / (1.0 + stronger * spread)
                for j in range(q):
                    for k in range(q):
                        V[j, k] -= shrink * reach[j] * reach[k]
                    pull[j] += H[p, i, j] * (further - stronger * a[p, i])
            # what is left to come, sweeps shrinking at this rate
            if largest < tolerance or largest * largest < tolerance * (before - largest):
                break
            before = largest
        total = _gaussian(a[p], H[p], precision, shift, root, half, mean, variance)
        for i in range(m):
            n, prior = sizes[level[p, i]], weights[min(level[p, i], kept)]
            b = shift[i] - precision[i] * mean[i]
            if weight[p, i] > 0.0 and variance[i] <= 0.0:  # ψ is known: no integral is needed
                value_i, b, second = tilted(a[p, i], 0.0, beta * y[p, i], weight[p, i], n, prior, room)
                total += value_i
                precision[i] = max(-second, 0.0)
            elif weight[p, i] > 0.0:
                keep = max(1.0 - precision[i] * variance[i], 1e-12)
                cavity_variance, cavity_mean = variance[i] / keep, (mean[i] - variance[i] * shift[i]) / keep
                exact, _, _ = tilted(cavity_mean, cavity_variance, beta * y[p, i], weight[p, i], n, prior, room)
                spread = 1.0 + precision[i] * cavity_variance
                total += exact + 0.5 * log(spread)
                total -= (
                    shift[i] * cavity_mean
                    + 0.5 * shift[i] * shift[i] * cavity_variance
                    - 0.5 * precision[i] * cavity_mean * cavity_mean
                ) / spread
                total += shift[i] * a[p, i] - 0.5 * precision[i] * a[p, i] * a[p, i]
            slope[p, i] = b
        value[p] = total
        # Eᵀ(b bᵀ − diag(τ) + diag(τ) H V Hᵀ diag(τ))E, the last as a square of (m, q) rows τ_i E_i and halves
        for j in range(q):
            pulled[j] = 0.0
            for i in range(m):
                pulled[j] += E[p, i, j] * slope[p, i]
        for j in range(q):
            for k in range(j + 1):
                total = pulled[j] * pulled[k]
                for i in range(m):
                    total -= precision[i] * E[p, i, j] * E[p, i, k]
                bend[p, j, k] = 0.5 * total
        for j in range(q):
            for k in range(q):
                total = 0.0
                for i in range(m):
                    total += precision[i] * E[p, i, j] * half[i, k]
                inner[j, k] = total
        for j in range(q):
            for k in range(j + 1):
                total = 0.0
                for l in range(q):  # noqa: E741
                    total += inner[j, l] * inner[k, l]
                bend[p, j, k] += 0.5 * total
                bend[p, k, j] = bend[p, j, k]
    return value, slope, bend, precisions
