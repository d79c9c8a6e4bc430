"""Compiled integrals along a line, for logistic answers: all answers of a person, or one answer in company of others.

Along an equally spaced line ``exp(−β y ψ)`` is a geometric sequence, and everything else is sums and products over
nodes, several of which a processor takes at once. The formulas are explained in `integrals` and `propagation`.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.users.compiled import compiled, compiled_sums

__all__ = ["LARGEST_EXPONENT", "REACH", "logistic_on_line", "tilted"]

Array = NDArray[Any]

# As in `integrals`.
REACH = 6.0
# exp of this is far from overflow even after a product with as much again.
LARGEST_EXPONENT = 300.0
# Terms of a geometric sequence that do not wait for one another; numbers of nodes are multiples of it.
LANES = 8
# As in `propagation`.
FAR, HALVINGS = 1.5, 30
# Of a line with so many nodes those are left out that weigh less than this beside the heaviest; on shorter ones
# finding them costs more than it saves.
LONG, NEGLIGIBLE = 96, 1e-13


@compiled_sums
def _geometric(out: Array, n: int, first: float, ratio: float) -> None:
    """Write the first n terms of a geometric sequence."""
    out[0] = first
    for k in range(1, LANES):
        out[k] = out[k - 1] * ratio
    leap = ratio * ratio
    leap *= leap
    leap *= leap
    for k in range(LANES, n):
        out[k] = out[k - LANES] * leap


@compiled
def _within_reach(offset: Array, along: Array, weight: Array) -> bool:
    """Return whether all answers count once or not at all, and no product of all 1 + exp(−β y ψ) overflows."""
    height = 0.0
    for i in range(offset.size):
        if weight[i] != 0.0:
            height += max(offset[i] + abs(along[i]) * REACH, 0.0) + 0.7
            if weight[i] != 1.0 or abs(offset[i]) + abs(along[i]) * REACH >= LARGEST_EXPONENT:
                return False
    return height < 2.0 * LARGEST_EXPONENT


@compiled_sums
def _stretch(offset: Array, along: Array, weight: Array, prior: Array, n: int, coarse: Array) -> tuple[int, int]:
    """Return from where to where nodes matter: a person's density has one peak, so every eighth node shows."""
    count, step = n // LANES, 2.0 * REACH / (n - 1)
    for k in range(count):
        coarse[k] = 1.0
    for i in range(offset.size):
        if weight[i] != 0.0:
            term, ratio = exp(offset[i] + along[i] * REACH), exp(-along[i] * step * LANES)
            for k in range(count):
                coarse[k] *= 1.0 + term
                term *= ratio
    highest = 0.0
    for k in range(count):
        coarse[k] = prior[k * LANES] / coarse[k]
        highest = max(highest, coarse[k])
    first, last = 0, count - 1
    while coarse[first] < NEGLIGIBLE * highest:
        first += 1
    while coarse[last] < NEGLIGIBLE * highest:
        last -= 1
    return max(first - 1, 0) * LANES, min(last + 1, count) * LANES


@compiled_sums
def logistic_on_line(
    a: Array, E: Array, H: Array, y: Array, weight: Array, beta: float, level: Array, sizes: Array, weights: Array
) -> tuple[Array, Array, Array, Array]:
    """Return value (P,), slope (P, m), bend (P, 1, 1) and precision (P, m).

    Each person has ``sizes[level]`` nodes, with these weights.
    """
    P, m = a.shape
    most = weights.shape[1]
    value, slope, bend, precision = np.empty(P), np.zeros((P, m)), np.zeros((P, 1, 1)), np.zeros((P, m))
    against = np.empty((m, most))  # exp(−β y ψ), then the probability of the other answer
    product, beside, joint, u = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    offset, along = np.empty(m), np.empty(m)
    for p in range(P):
        size, prior = sizes[level[p]], weights[level[p]]
        step = 2.0 * REACH / (size - 1)
        for i in range(m):
            offset[i], along[i] = -beta * y[p, i] * a[p, i], beta * y[p, i] * H[p, i, 0]
        begin, end = 0, size
        if size >= LONG and _within_reach(offset, along, weight[p]):
            begin, end = _stretch(offset, along, weight[p], prior, size, product)
        n, left, prior = end - begin, begin * step - REACH, prior[begin:end]
        product[:n] = 1.0
        beside[:n] = 0.0
        largest, plain = 0.0, True  # a bound on the logarithm of the product; whether it holds everything
        for i in range(m):
            r = against[i]
            if weight[p, i] == 0.0:
                continue
            height = max(offset[i] + abs(along[i]) * REACH, 0.0) + 0.7
            if abs(offset[i]) + abs(along[i]) * REACH < LARGEST_EXPONENT:
                _geometric(r, n, exp(offset[i] - along[i] * left), exp(-along[i] * step))
            else:
                for k in range(n):
                    z = offset[i] - along[i] * (left + k * step)
                    excess = max(z - LARGEST_EXPONENT, 0.0)  # log(1 + eᶻ) is z there
                    r[k] = exp(z - excess)
                    beside[k] -= weight[p, i] * excess
                height, plain = min(height, LARGEST_EXPONENT + 0.7), False
            if weight[p, i] == 1.0:
                if largest + height >= 2.0 * LARGEST_EXPONENT:
                    for k in range(n):
                        beside[k] -= log(product[k])
                        product[k] = 1.0
                    largest, plain = 0.0, False
                largest += height
                for k in range(n):
                    both = 1.0 + r[k]
                    product[k] *= both
                    r[k] /= both
            else:
                plain = False
                for k in range(n):
                    beside[k] -= weight[p, i] * log(1.0 + r[k])
                    r[k] /= 1.0 + r[k]
        highest, total = 0.0, 0.0
        if not plain:
            highest = -np.inf
            for k in range(n):
                beside[k] += log(prior[k]) - log(product[k])
                highest = max(highest, beside[k])
            for k in range(n):
                joint[k] = exp(beside[k] - highest)
        else:
            for k in range(n):
                joint[k] = prior[k] / product[k]
        for k in range(n):
            total += joint[k]
        value[p] = highest + log(total)
        u[:n] = 0.0
        curvature = 0.0
        for i in range(m):
            if weight[p, i] == 0.0:
                continue
            r = against[i]
            pull = beta * y[p, i] * weight[p, i] * E[p, i, 0]
            first, second = 0.0, 0.0
            for k in range(n):
                share = joint[k] * r[k]
                first += share
                second += share * r[k]
                u[k] += pull * r[k]
            slope[p, i] = beta * y[p, i] * weight[p, i] * first / total
            precision[p, i] = beta * beta * weight[p, i] * (first - second) / total
            curvature += E[p, i, 0] * E[p, i, 0] * precision[p, i]
        square = 0.0
        for k in range(n):
            square += joint[k] * u[k] * u[k]
        bend[p, 0, 0] = 0.5 * (square / total - curvature)
    return value, slope, bend, precision


@compiled
def _moments(value: float, s1: float, s2: float, sharpness: float, omega: float) -> tuple[float, float, float]:
    """Return the value with its derivatives, from the means of σ(−sharpness·ψ) and of its square."""
    first = sharpness * omega * s1
    return value, first, sharpness * sharpness * (omega * (omega + 1.0) * s2 - omega * s1) - first * first


@compiled
def _moved(mean: float, spread: float, sharpness: float, omega: float, t: float) -> float:
    """Return how far an answer would move somebody t standard deviations from the cavity's mean, in those."""
    z = sharpness * mean + abs(sharpness) * spread * t
    small = exp(-abs(z))
    return omega * abs(sharpness) * spread * (1.0 if z < 0.0 else small) / (1.0 + small)


@compiled
def _far_tilted(mean: float, spread: float, sharpness: float, omega: float, n: int) -> tuple[float, float, float]:
    """Return `tilted` where exponentials would overflow, nodes are very many, or the answer moves ψ far.

    Relative to the largest node, and around the mode where that is `FAR` off.
    """
    step, centre = 2.0 * REACH / (n - 1), 0.0
    if _moved(mean, spread, sharpness, omega, FAR) > FAR:
        low, high = FAR, _moved(mean, spread, sharpness, omega, 0.0)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            if _moved(mean, spread, sharpness, omega, middle) > middle:
                low = middle
            else:
                high = middle
        centre = low if sharpness > 0.0 else -low
    highest, mass, total, s1, s2 = -np.inf, 0.0, 0.0, 0.0, 0.0
    for k in range(n):
        t = centre + k * step - REACH
        z = sharpness * (mean + spread * t)
        highest = max(highest, -0.5 * t * t - omega * (max(-z, 0.0) + log(1.0 + exp(-abs(z)))))
    for k in range(n):
        t = centre + k * step - REACH
        z = sharpness * (mean + spread * t)
        small = exp(-abs(z))
        r = (1.0 if z < 0.0 else small) / (1.0 + small)
        share = exp(-0.5 * t * t - omega * (max(-z, 0.0) + log(1.0 + small)) - highest)
        mass += exp(-0.5 * (t - centre) * (t - centre))
        total += share
        s1 += share * r
        s2 += share * r * r
    return _moments(highest + log(total / mass), s1 / total, s2 / total, sharpness, omega)


@compiled_sums
def tilted(
    mean: float, variance: float, sharpness: float, omega: float, n: int, prior: Array, room: Array
) -> tuple[float, float, float]:
    """Return ``log E[σ(sharpness·ψ)^ω]`` under N(mean, variance) and its first two derivatives in the mean.

    Along a line of n nodes with the weights `prior`, or with their own where there are more nodes than `room`.
    """
    spread = sqrt(variance)
    offset, along = -sharpness * mean, sharpness * spread
    if (
        n > room.size
        or max(omega, 1.0) * (abs(offset) + abs(along) * REACH) > 2.0 * LARGEST_EXPONENT
        or (omega * abs(along) > FAR and _moved(mean, spread, sharpness, omega, FAR) > FAR)
    ):
        return _far_tilted(mean, spread, sharpness, omega, n)
    _geometric(room, n, exp(offset + along * REACH), exp(-along * 2.0 * REACH / (n - 1)))
    total, s1, s2 = 0.0, 0.0, 0.0
    if omega == 1.0:
        for k in range(n):
            probability = 1.0 / (1.0 + room[k])
            r, share = room[k] * probability, prior[k] * probability
            total += share
            s1 += share * r
            s2 += share * r * r
    else:
        for k in range(n):
            r, share = room[k] / (1.0 + room[k]), prior[k] * exp(-omega * log(1.0 + room[k]))
            total += share
            s1 += share * r
            s2 += share * r * r
    return _moments(log(total), s1 / total, s2 / total, sharpness, omega)
