"""Compiled twins of the hot loops of `integrals` and `population`, for logistic answers.

NumPy spends a pass over people on temporaries of one number a node and answer. The same sums person by person, with
``exp`` of a node's coordinates taken from small tables, are several times faster; `tests/test_population.py`
checks that both agree. The formulas are explained where the NumPy code is.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.users.compiled import compiled

__all__ = ["logistic_by_propagation", "logistic_on_grid", "logistic_tilted", "outer_sums"]

Array = NDArray[Any]

# exp of this is far from overflow even after a product with as much again.
LARGEST_EXPONENT = 300.0
# The one-dimensional integrals of expectation propagation: looser than `integrals.FINENESS`, about
# 1e-6 in the value and 3e-5 in its second derivative.
REACH, CAVITY_NODES, CAVITY_FINENESS = 6.0, 31, 1.2


@compiled
def logistic_on_grid(
    a: Array, E: Array, H: Array, y: Array, weight: Array, beta: float, line: Array, places: Array, log_weights: Array
) -> tuple[Array, Array, Array]:
    """Return value (P,), slope (P, m) and bend (P, q, q); node n has the coordinates ``line[places[n]]``."""
    P, m = a.shape
    q, Q, n = E.shape[2], places.shape[0], line.size
    value, slope, bend = np.empty(P), np.zeros((P, m)), np.zeros((P, q, q))
    table, r = np.empty((q, n)), np.empty((m, Q))
    joint, product, u = np.empty(Q), np.empty(Q), np.empty((q, Q))
    reach, step, weights = line[n - 1], line[1] - line[0], np.exp(log_weights)
    for p in range(P):
        joint[:] = log_weights
        product[:] = 1.0
        largest, plain = 0.0, True  # a bound on the logarithm of the product; whether it holds everything
        for i in range(m):
            if weight[p, i] == 0.0:
                r[i] = 0.0
                continue
            sharpness = beta * y[p, i]
            bound = abs(sharpness * a[p, i])
            for k in range(q):
                bound += abs(sharpness * H[p, i, k]) * reach
            if bound < LARGEST_EXPONENT:
                first = exp(-sharpness * a[p, i])
                for k in range(q):
                    table[k, 0] = exp(sharpness * H[p, i, k] * reach)
                    ratio = exp(-sharpness * H[p, i, k] * step)
                    for j in range(1, n):
                        table[k, j] = ratio * table[k, j - 1]
                if q == 1:
                    for node in range(Q):
                        r[i, node] = first * table[0, node]
                else:
                    for node in range(Q):
                        e = first
                        for k in range(q):
                            e *= table[k, places[node, k]]
                        r[i, node] = e
            else:
                for node in range(Q):
                    z = a[p, i]
                    for k in range(q):
                        z += H[p, i, k] * line[places[node, k]]
                    excess = max(-sharpness * z - LARGEST_EXPONENT, 0.0)  # log(1 + eᶻ) is z there
                    r[i, node] = exp(-sharpness * z - excess)
                    joint[node] -= weight[p, i] * excess
                bound = LARGEST_EXPONENT
            if weight[p, i] == 1.0:
                if largest + bound + 0.7 > LARGEST_EXPONENT:
                    for node in range(Q):
                        joint[node] -= log(product[node])
                        product[node] = 1.0
                    largest, plain = 0.0, False
                largest += bound + 0.7
                for node in range(Q):
                    product[node] *= 1.0 + r[i, node]
            else:
                plain = False
                for node in range(Q):
                    joint[node] -= weight[p, i] * log(1.0 + r[i, node])
            for node in range(Q):
                r[i, node] = r[i, node] / (1.0 + r[i, node])
        highest, total = 0.0, 0.0
        if plain:
            for node in range(Q):
                joint[node] = weights[node] / product[node]
                total += joint[node]
        else:
            highest = -np.inf
            for node in range(Q):
                joint[node] -= log(product[node])
                highest = max(highest, joint[node])
            for node in range(Q):
                joint[node] = exp(joint[node] - highest)
                total += joint[node]
        value[p] = highest + log(total)
        u[:] = 0.0
        for i in range(m):
            scale = beta * y[p, i] * weight[p, i]
            first, second = 0.0, 0.0
            for node in range(Q):
                first += joint[node] * r[i, node]
                second += joint[node] * r[i, node] * (1.0 - r[i, node])
            slope[p, i] = scale * first / total
            curvature = beta * beta * weight[p, i] * second / total
            for j in range(q):
                for k in range(q):
                    bend[p, j, k] -= 0.5 * E[p, i, j] * E[p, i, k] * curvature
                for node in range(Q):
                    u[j, node] += E[p, i, j] * scale * r[i, node]
        for j in range(q):
            for k in range(j + 1):
                cross = 0.0
                for node in range(Q):
                    cross += joint[node] * u[j, node] * u[k, node]
                bend[p, j, k] += 0.5 * cross / total
                if j != k:
                    bend[p, k, j] += 0.5 * cross / total
    return value, slope, bend


@compiled
def _moments(value: float, s1: float, s2: float, sharpness: float, omega: float) -> tuple[float, float, float]:
    """Return the value with its derivatives, from the means of σ(−sharpness·ψ) and of its square."""
    first = sharpness * omega * s1
    return value, first, sharpness * sharpness * (omega * (omega + 1.0) * s2 - omega * s1) - first * first


@compiled
def _far_tilted(mean: float, spread: float, sharpness: float, omega: float, n: int) -> tuple[float, float, float]:
    """Return `_tilted` where exponentials would overflow, relative to the largest node."""
    step = 2.0 * REACH / (n - 1)
    highest, mass, total, s1, s2 = -np.inf, 0.0, 0.0, 0.0, 0.0
    for k in range(n):
        t = k * step - REACH
        z = sharpness * (mean + spread * t)
        highest = max(highest, -0.5 * t * t - omega * (max(-z, 0.0) + log(1.0 + exp(-abs(z)))))
    for k in range(n):
        t = k * step - REACH
        z = sharpness * (mean + spread * t)
        small = exp(-abs(z))
        r = (1.0 if z < 0.0 else small) / (1.0 + small)
        share = exp(-0.5 * t * t - omega * (max(-z, 0.0) + log(1.0 + small)) - highest)
        mass += exp(-0.5 * t * t)
        total += share
        s1 += share * r
        s2 += share * r * r
    return _moments(highest + log(total / mass), s1 / total, s2 / total, sharpness, omega)


@compiled
def _tilted(mean: float, variance: float, sharpness: float, omega: float) -> tuple[float, float, float]:
    """Return ``log E[σ(sharpness·ψ)^ω]`` under N(mean, variance) and its first two derivatives in the mean."""
    spread = sqrt(variance)
    n = max(CAVITY_NODES, int(2.0 * REACH * abs(sharpness) * spread / CAVITY_FINENESS) | 1)
    step = 2.0 * REACH / (n - 1)
    exponent = -sharpness * (mean - spread * REACH)
    grow = exp(-sharpness * spread * step)
    if max(omega, 1.0) * (abs(exponent) + 2.0 * abs(sharpness) * spread * REACH) > 2.0 * LARGEST_EXPONENT:
        return _far_tilted(mean, spread, sharpness, omega, n)
    e = exp(exponent)
    mass, total, s1, s2 = 0.0, 0.0, 0.0, 0.0
    # the weights exp(−t²/2) by two recursions: a product of steps that shrink by exp(−h²) each
    weight, factor, shrink = exp(-0.5 * REACH * REACH), exp(REACH * step - 0.5 * step * step), exp(-step * step)
    for _ in range(n):
        probability = 1.0 / (1.0 + e)
        r = e * probability
        share = weight * (probability if omega == 1.0 else exp(-omega * log(1.0 + e)))
        mass += weight
        total += share
        s1 += share * r
        s2 += share * r * r
        e *= grow
        weight *= factor
        factor *= shrink
    return _moments(log(total / mass), s1 / total, s2 / total, sharpness, omega)


@compiled
def logistic_tilted(mean: Array, variance: Array, y: Array, weight: Array, beta: float) -> tuple[Array, Array, Array]:
    """Return `_tilted` of every answer, (P, m) each."""
    P, m = mean.shape
    value, first, second = np.zeros((P, m)), np.zeros((P, m)), np.zeros((P, m))
    for p in range(P):
        for i in range(m):
            if weight[p, i] > 0.0:
                value[p, i], first[p, i], second[p, i] = _tilted(
                    mean[p, i], variance[p, i], beta * y[p, i], weight[p, i]
                )
    return value, first, second


@compiled
def _gaussian(
    a: Array, H: Array, precision: Array, shift: Array, root: Array, half: Array, mean: Array, variance: Array
) -> float:
    """Write mean and variance (m,) of a person's ψ under Gaussian factors; return ``½ log det V + ½ pullᵀ V pull``.

    `root` becomes the Cholesky factor of ``I + Hᵀ diag(τ) H`` and ``half[i]`` (m + 1, q) its inverse times H_i; the
    last row is that of the pull.
    """
    m, q = H.shape
    for j in range(q):
        for k in range(j + 1):
            total = 1.0 if j == k else 0.0
            for i in range(m):
                total += precision[i] * H[i, j] * H[i, k]
            for l in range(k):  # noqa: E741
                total -= root[j, l] * root[k, l]
            root[j, k] = sqrt(total) if j == k else total / root[k, k]
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
def logistic_by_propagation(
    a: Array, E: Array, H: Array, y: Array, weight: Array, beta: float, tolerance: float, rounds: int
) -> tuple[Array, Array, Array]:
    """Return value (P,), slope (P, m) and bend (P, q, q) by expectation propagation, each person until they settle."""
    P, m, q = H.shape
    value, slope, bend = np.zeros(P), np.zeros((P, m)), np.zeros((P, q, q))
    precision, shift, mean, variance = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    root, half = np.zeros((q, q)), np.empty((m + 1, q))
    scaled, inner = np.empty((m, q)), np.empty((q, q))
    for p in range(P):
        precision[:] = 0.0
        shift[:] = 0.0
        for turn in range(rounds):
            _gaussian(a[p], H[p], precision, shift, root, half, mean, variance)
            largest = 0.0
            damping = 1.0 if turn < 10 else 0.5
            for i in range(m):
                if weight[p, i] == 0.0 or variance[i] <= 0.0:
                    continue
                keep = max(1.0 - precision[i] * variance[i], 1e-12)
                cavity_variance, cavity_mean = variance[i] / keep, (mean[i] - variance[i] * shift[i]) / keep
                _, first, second = _tilted(cavity_mean, cavity_variance, beta * y[p, i], weight[p, i])
                strength = max(-second, 0.0)
                new_precision = strength / max(1.0 - strength * cavity_variance, 1e-12)
                new_shift = first + new_precision * (cavity_mean + cavity_variance * first)
                change = (new_shift - shift[i]) - mean[i] * (new_precision - precision[i])
                largest = max(largest, abs(change) * sqrt(variance[i]))
                precision[i] += damping * (new_precision - precision[i])
                shift[i] += damping * (new_shift - shift[i])
            if largest < tolerance:
                break
        total = _gaussian(a[p], H[p], precision, shift, root, half, mean, variance)
        for i in range(m):
            b = shift[i] - precision[i] * mean[i]
            if weight[p, i] > 0.0 and variance[i] <= 0.0:  # ψ is known: no integral is needed
                value_i, b, second = _tilted(a[p, i], 0.0, beta * y[p, i], weight[p, i])
                total += value_i
                precision[i] = max(-second, 0.0)
            elif weight[p, i] > 0.0:
                keep = max(1.0 - precision[i] * variance[i], 1e-12)
                cavity_variance, cavity_mean = variance[i] / keep, (mean[i] - variance[i] * shift[i]) / keep
                exact, _, _ = _tilted(cavity_mean, cavity_variance, beta * y[p, i], weight[p, i])
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
            pulled = 0.0
            for i in range(m):
                pulled += E[p, i, j] * slope[p, i]
            scaled[0, j] = pulled
        for j in range(q):
            for k in range(j + 1):
                total = scaled[0, j] * scaled[0, k]
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
    return value, slope, bend


@compiled
def outer_sums(X: Array, Y: Array, out: Array) -> None:
    """Write ``Σ_j svec(sym(X_j Y_jᵀ))`` into out (P, p)."""
    P, q, d = X.shape
    half_root = sqrt(0.5)
    for p in range(P):
        place = 0
        for i in range(d):
            total = 0.0
            for j in range(q):
                total += X[p, j, i] * Y[p, j, i]
            out[p, place] = total
            place += 1
            for k in range(i + 1, d):
                total = 0.0
                for j in range(q):
                    total += X[p, j, i] * Y[p, j, k] + X[p, j, k] * Y[p, j, i]
                out[p, place] = half_root * total
                place += 1
