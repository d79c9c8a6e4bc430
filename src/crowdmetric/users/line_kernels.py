"""Compiled integrals along a line, for logistic answers: all answers of a person, or one answer in company of others.

Along an equally spaced line ``exp(−β y ψ)`` is a geometric sequence, and everything else is sums and products over
nodes, several of which a processor takes at once. The formulas are explained in `integrals` and `propagation`.
"""

from __future__ import annotations

from math import erfc, exp, log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.special import zeta

from crowdmetric.users.compiled import compiled, compiled_sums

__all__ = [
    "LANES",
    "LARGEST_EXPONENT",
    "REACH",
    "geometric",
    "grid_for",
    "is_far",
    "is_wide",
    "logistic_along_line",
    "logistic_on_line",
    "tilted",
    "wide_tilted",
]

Array = NDArray[Any]

# As in `integrals`.
REACH = 6.0
# exp(LARGEST_EXPONENT) can be squared without overflow.
LARGEST_EXPONENT = 300.0
# Number of terms of the geometric sequence computed independently (SIMD lanes); numbers of nodes are multiples of it.
LANES = 8
# As in `propagation`.
FAR, WIDE, UNLIKELY = 1.5, 8.0, 0.3
DEPTH, PEAK_HALVINGS = 28.0, 60
PEAK_FINENESS, FEWEST_PEAK_NODES, MOST_PEAK_NODES = 0.7, 40, 1280
# As in `placed`.
LINE_DEPTH, LINE_HALVINGS, END, CROWDED_REACH, CROWDED_STEP, LIGHTEST = 22.0, 100, 2.0, 3.0, 0.04, 0.1
# An answer whose other outcome has a log probability below −CERTAIN counts as certain.
CERTAIN = 40.0
# The search for the peak of a density stops within this many nats of it.
NEAR_PEAK = 0.1
NOISE_REACH, NOISE_STEP, STRETCH = 32.0, 0.5, 0.25
# Below TAIL, Φ is computed from its continued fraction; LEVELS of it are exact to rounding.
TAIL, LEVELS = -6.0, 40
ROOT_HALF, ROOT_TWO_PI_INVERSE, HALF_LOG_TWO_PI = sqrt(0.5), 1.0 / sqrt(2.0 * pi), 0.5 * log(2.0 * pi)
# On grids of at least LONG nodes, nodes with less than NEGLIGIBLE of the largest weight are skipped. On shorter grids
# finding them costs more than it saves.
LONG, NEGLIGIBLE = 96, 1e-13


def _noise_rule(n: int) -> tuple[Array, Array]:
    """Return n nodes and masses of Gauss's rule for the logistic density ``σ(x)σ(−x)``.

    Its monic orthogonal polynomials have ``p_{k+1} = x p_k − k⁴π²/(4k² − 1) p_{k−1}``.
    """
    k = np.arange(1.0, n)
    nodes, vectors = eigh_tridiagonal(np.zeros(n), k * k * pi / np.sqrt(4.0 * k * k - 1.0))
    return nodes, vectors[0] ** 2


NODES, MASSES = _noise_rule(16)


def _noise_moments(n: int) -> Array:
    """Return the first n even moments of the logistic density over the factorials of their orders.

    ``2 (1 − 2^(1−2j)) ζ(2j)``, and one for j = 0: the coefficients of ``πt / sin πt``.
    """
    orders = 2.0 * np.arange(1, n)
    return np.append(1.0, 2.0 * (1.0 - 2.0 ** (1.0 - orders)) * zeta(orders))


# For a cavity at least VERY_WIDE times wider than the noise, and an answer at most its SHARE-th part away from the
# middle, this many moments of the noise are exact to rounding.
VERY_WIDE, SHARE = 25.0, 8.0
MOMENTS = _noise_moments(9)


@compiled_sums
def geometric(out: Array, n: int, first: float, ratio: float) -> None:
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
        largest, plain = 0.0, True  # a bound on the logarithm of the product; whether the product alone is enough
        for i in range(m):
            r = against[i]
            if weight[p, i] == 0.0:
                continue
            height = max(offset[i] + abs(along[i]) * REACH, 0.0) + 0.7
            if abs(offset[i]) + abs(along[i]) * REACH < LARGEST_EXPONENT:
                geometric(r, n, exp(offset[i] - along[i] * left), exp(-along[i] * step))
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
def _height(a: Array, h: Array, y: Array, weight: Array, beta: float, t: float) -> tuple[float, float]:
    """Return ``L(t) = −½t² + Σ_i ω_i log σ(β y_i (a_i + h_i t))`` and its derivative."""
    value, rise = -0.5 * t * t, -t
    for i in range(a.size):
        if weight[i] != 0.0:
            z = beta * y[i] * (a[i] + h[i] * t)
            if z > CERTAIN:
                continue
            small = exp(-abs(z))
            value -= weight[i] * (max(-z, 0.0) + log(1.0 + small))
            rise += weight[i] * beta * y[i] * h[i] * (1.0 if z < 0.0 else small) / (1.0 + small)
    return value, rise


@compiled
def _peak_and_ends(
    a: Array, h: Array, y: Array, weight: Array, beta: float, sharpest: float
) -> tuple[float, float, float]:
    """Return the peak of L, up to a few hundredths of a nat, and the distances at which it has lost `LINE_DEPTH`."""
    _, rise = _height(a, h, y, weight, beta, 0.0)
    low, high, peak = min(rise, 0.0), max(rise, 0.0), 0.0
    for _ in range(LINE_HALVINGS):
        if rise > 0.0:
            low = peak
        else:
            high = peak
        if abs(rise) * (high - low) < NEAR_PEAK:
            break
        peak = 0.5 * (low + high)
        _, rise = _height(a, h, y, weight, beta, peak)
    floor = _height(a, h, y, weight, beta, peak)[0] - LINE_DEPTH
    ends = np.empty(2)
    for side in range(2):
        sign = 2.0 * side - 1.0
        low, high = 0.0, sqrt(2.0 * LINE_DEPTH)
        while high - low > min(0.02 * high, END / sharpest):
            middle = 0.5 * (low + high)
            if _height(a, h, y, weight, beta, peak + sign * middle)[0] > floor:
                low = middle
            else:
                high = middle
        ends[side] = sign * high
    return peak, ends[0], ends[1]


@compiled
def logistic_along_line(
    a: Array, E: Array, H: Array, y: Array, weight: Array, beta: float
) -> tuple[Array, Array, Array, Array]:
    """Return value (P,), slope (P, m), bend (P, 1, 1), precision (P, m); nodes lie around the posterior."""
    P, m = a.shape
    value, slope, bend, precision = np.empty(P), np.zeros((P, m)), np.zeros((P, 1, 1)), np.zeros((P, m))
    r, first, second = np.empty(m), np.empty(m), np.empty(m)
    for p in range(P):
        h, sharpest, lightest = H[p, :, 0], 1.0, 1.0
        for i in range(m):
            if weight[p, i] != 0.0:
                sharpest = max(sharpest, beta * abs(h[i]) * max(weight[p, i], 1.0))
                lightest = min(lightest, weight[p, i])
        gap = CROWDED_STEP * max(lightest, LIGHTEST)
        peak, left, right = _peak_and_ends(a[p], h, y[p], weight[p], beta, sharpest)
        highest, _ = _height(a[p], h, y[p], weight[p], beta, peak)
        reach = log(sharpest * (right - left)) + CROWDED_REACH
        n = int(2.0 * reach / gap) + 1
        total, square, moved = 0.0, 0.0, 0.0
        first[:] = 0.0
        second[:] = 0.0
        for k in range(n):
            u = -reach + k * gap
            small = exp(-abs(u))
            along = (small if u < 0.0 else 1.0) / (1.0 + small)
            t = peak + left + (right - left) * along
            log_joint, pull = -0.5 * t * t - highest, 0.0
            for i in range(m):
                if weight[p, i] != 0.0:
                    z = beta * y[p, i] * (a[p, i] + h[i] * t)
                    r[i] = 0.0
                    if z > CERTAIN:
                        continue
                    e = exp(-abs(z)) if z > -CERTAIN else 0.0
                    log_joint -= weight[p, i] * (max(-z, 0.0) + (log(1.0 + e) if e > 0.0 else 0.0))
                    r[i] = (1.0 if z < 0.0 else e) / (1.0 + e)
                    pull += beta * y[p, i] * weight[p, i] * E[p, i, 0] * r[i]
            share = exp(log_joint) * small / ((1.0 + small) * (1.0 + small))
            total += share
            square += share * pull * pull
            moved += share * (t * t - 1.0)
            for i in range(m):
                if weight[p, i] != 0.0 and r[i] != 0.0:
                    first[i] += share * r[i]
                    second[i] += share * r[i] * (1.0 - r[i])
        value[p] = highest + log(total * gap * (right - left)) - HALF_LOG_TWO_PI
        curvature = 0.0
        for i in range(m):
            if weight[p, i] != 0.0:
                slope[p, i] = beta * y[p, i] * weight[p, i] * first[i] / total
                precision[p, i] = beta * beta * weight[p, i] * second[i] / total
                curvature += E[p, i, 0] * E[p, i, 0] * precision[p, i]
        bend[p, 0, 0] = 0.5 * (square / total - curvature)
        if sharpest > 1.0:  # integrated by parts, which avoids a difference of two large numbers
            scale, length = 0.0, 0.0
            for i in range(m):
                scale += H[p, i, 0] * E[p, i, 0]
                length += E[p, i, 0] * E[p, i, 0]
            bend[p, 0, 0] = 0.5 * moved / total * (length / scale) ** 2
    return value, slope, bend, precision


@compiled
def _moments(value: float, s1: float, s2: float, sharpness: float, omega: float) -> tuple[float, float, float]:
    """Return the value with its derivatives, from the means of σ(−sharpness·ψ) and of its square."""
    first = sharpness * omega * s1
    return value, first, sharpness * sharpness * (omega * (omega + 1.0) * s2 - omega * s1) - first * first


@compiled
def _log_joint(M: float, K: float, omega: float, t: float) -> float:
    """Return ``−½t² + ω log σ(M + Kt)``: a standard normal t beside an answer, on the logarithmic scale."""
    z = M + K * t
    return -0.5 * t * t - omega * (max(-z, 0.0) + log(1.0 + exp(-abs(z))))


@compiled
def _moved(M: float, K: float, omega: float, t: float) -> float:
    """Return by how many standard deviations of the cavity an answer would move somebody who is t from its mean."""
    z = M + K * t
    small = exp(-abs(z))
    return omega * K * (1.0 if z < 0.0 else small) / (1.0 + small)


@compiled
def is_far(mean: float, variance: float, sharpness: float, omega: float) -> bool:
    """Return whether an answer moves ψ by more than `FAR` standard deviations, out of reach of a line."""
    K = abs(sharpness) * sqrt(variance)
    return omega * K > FAR and _moved(sharpness * mean, K, omega, FAR) > FAR


@compiled
def grid_for(steepness: float, fineness: float, sizes: Array, most: int) -> int:
    """Return the number of the shortest grid that is fine enough for a cavity of this steepness, at most `most`."""
    needed, number = 2.0 * REACH / fineness * steepness + 1.0, 0
    while number < most and sizes[number] < needed:
        number += 1
    return number


@compiled
def is_wide(M: float, K: float, omega: float) -> bool:
    """Return whether `wide_tilted` is exact: a cavity is wide, and falls no faster than the tail of the noise."""
    return K >= WIDE and UNLIKELY * min(omega, 1.0) * K * K >= -M


@compiled
def _far_tilted(mean: float, spread: float, sharpness: float, omega: float) -> tuple[float, float, float]:
    """Return `tilted` along a line around the peak of cavity and answer together.

    In ``t = ±(ψ − mean)/spread``, signed so that the answer pulls upwards. The peak is found by halving, and so are
    the two places around it where `DEPTH` nats are lost: the logarithm of the density bends at least like −½t², so
    that both lie within √(2 DEPTH).
    """
    M, K = sharpness * mean, abs(sharpness) * spread
    low, high = 0.0, _moved(M, K, omega, 0.0)
    peak = 0.5 * high
    for _ in range(PEAK_HALVINGS):
        further = _moved(M, K, omega, peak) - peak
        if further > 0.0:
            low = peak
        else:
            high = peak
        if abs(further) * (high - low) < NEAR_PEAK:  # how much higher the peak can be, in nats
            break
        peak = 0.5 * (low + high)
    highest = _log_joint(M, K, omega, peak)
    ends = np.empty(2)
    for side in range(2):
        sign = 2.0 * side - 1.0
        low, high = 0.0, sqrt(2.0 * DEPTH)
        while high - low > 0.1 * high:
            middle = 0.5 * (low + high)
            if _log_joint(M, K, omega, peak + sign * middle) > highest - DEPTH:
                low = middle
            else:
                high = middle
        ends[side] = sign * high
    finer = 2.0 if omega > 1.0 else 1.0  # the steep side of a heavy answer is steeper
    n = int(min(max(finer * K * (ends[1] - ends[0]) / PEAK_FINENESS, FEWEST_PEAK_NODES), MOST_PEAK_NODES))
    step = (ends[1] - ends[0]) / (n - 1)
    total, s1, s2, along, square = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(n):
        t = ends[0] + k * step
        z = M + K * (peak + t)
        small = exp(-abs(z))
        r = (1.0 if z < 0.0 else small) / (1.0 + small)
        share = exp(-0.5 * (peak + t) * (peak + t) - omega * max(-z, 0.0) - highest)
        share *= 1.0 / (1.0 + small) if omega == 1.0 else exp(-omega * log(1.0 + small))
        total += share
        s1 += share * r
        s2 += share * r * r
        along += share * t
        square += share * t * t
    value = min(highest + log(total * step) - HALF_LOG_TWO_PI, 0.0)
    value, first, second = _moments(value, s1 / total, s2 / total, sharpness, omega)
    if K > 1.0:  # the remaining variance, without a difference of two large numbers
        along /= total
        second = (square / total - along * along - 1.0) / (spread * spread)
    return value, first, second


@compiled
def _mills(z: float) -> float:
    """Return ``Φ(z)/φ(z)`` for z below `TAIL`, by Laplace's continued fraction."""
    below = -z
    for level in range(LEVELS, 0, -1):
        below = -z + level / below
    return 1.0 / below


@compiled
def _noise_terms(z0: float, shift: float) -> tuple[float, float, float]:
    """Return Φ(z), φ(z) and zφ(z) of a node of the noise, z = z0 − shift.

    Beyond `TAIL` all relative to φ(z0), which may underflow.
    """
    z = z0 - shift
    if z0 > TAIL:
        density = exp(-0.5 * z * z) * ROOT_TWO_PI_INVERSE
        return 0.5 * erfc(-z * ROOT_HALF), density, z * density
    density = exp(shift * (z0 - 0.5 * shift))
    if z < TAIL:
        return density * _mills(z), density, z * density
    return 0.5 * erfc(-z * ROOT_HALF) * exp(0.5 * z0 * z0) / ROOT_TWO_PI_INVERSE, density, z * density


@compiled
def _noise_series(z0: float, K: float) -> tuple[float, float, float]:
    """Return the means over the noise x of Φ(z), φ(z) and zφ(z), z = z0 − x/K, by their series in 1/K².

    ``E f(z0 − x/K) = Σ_j MOMENTS_j f^(2j)(z0) / K^2j``, and the derivatives of φ are Hermite polynomials times φ.
    """
    density = exp(-0.5 * z0 * z0) * ROOT_TWO_PI_INVERSE
    odd, even = 0.0, 1.0  # He_{2j−1}, He_2j
    total, s1, s2, power = 0.0, 0.0, 0.0, 1.0
    for j in range(MOMENTS.size):
        share = MOMENTS[j] * power
        total -= share * odd
        s1 += share * even
        odd = z0 * even - 2.0 * j * odd
        s2 += share * odd
        even = z0 * odd - (2.0 * j + 1.0) * even
        power /= K * K
    return 0.5 * erfc(-z0 * ROOT_HALF) + density * total, density * s1, density * s2


@compiled
def wide_tilted(mean: float, spread: float, sharpness: float, omega: float) -> tuple[float, float, float]:
    """Return `tilted` where the cavity is much wider than the noise, by an integral over the noise.

    σ(x)^ω is the distribution function of a noise with density ``g(x) = ω σ(x)^ω σ(−x)``. With ``M = sharpness·mean``
    and ``K = |sharpness| spread``, `tilted` is hence the logarithm of ``∫ Φ((M − x)/K) g(x) dx``, whose integrand is
    the smoother the wider the cavity is. For ω = 1 by its series or by Gauss's rule, else by the trapezoidal rule
    along ``x = u − exp(−STRETCH u)``, since the density falls like exp(ωx) on the left.
    """
    K = abs(sharpness) * spread
    z0, total, s1, s2, mass = sharpness * mean / K, 0.0, 0.0, 0.0, 0.0
    if omega == 1.0 and K >= VERY_WIDE and SHARE * abs(z0) <= K and z0 > TAIL:
        total, s1, s2 = _noise_series(z0, K)
        mass = 1.0
    elif omega == 1.0:
        for k in range(NODES.size):
            below, density, slope = _noise_terms(z0, NODES[k] / K)
            total += MASSES[k] * below
            s1 += MASSES[k] * density
            s2 += MASSES[k] * slope
            mass += MASSES[k]
    else:
        u = log(min(omega, 1.0) / NOISE_REACH) / STRETCH
        last = NOISE_REACH + max(log(omega), 0.0)
        while u < last:
            bent = exp(-STRETCH * u)
            x = u - bent
            small = exp(-abs(x))
            log_probability = -(max(-x, 0.0) + log(1.0 + small))
            r = (1.0 if x < 0.0 else small) / (1.0 + small)
            g = omega * exp(omega * log_probability) * r * (1.0 + STRETCH * bent)
            below, density, slope = _noise_terms(z0, x / K)
            total += g * below
            s1 += g * density
            s2 += g * slope
            mass += g
            u += NOISE_STEP
    value = min(log(total / mass), 0.0)
    if z0 <= TAIL:
        value -= 0.5 * z0 * z0 + HALF_LOG_TWO_PI
    first = s1 / total / spread
    second = -s2 / total / (spread * spread) - first * first
    return value, first if sharpness > 0.0 else -first, second


@compiled_sums
def tilted(
    mean: float, variance: float, sharpness: float, omega: float, n: int, prior: Array, room: Array
) -> tuple[float, float, float]:
    """Return ``log E[σ(sharpness·ψ)^ω]`` under N(mean, variance) and its first two derivatives in the mean.

    Along a line of n nodes with the weights `prior`; or with n = 0, where the law is too wide for one, over the noise;
    or with n < 0, where the answer `is_far`, over the noise or along a line that is laid over the peak.
    """
    spread = sqrt(variance)
    M, K = sharpness * mean, abs(sharpness) * spread
    if n <= 0 and is_wide(M, K, omega):
        return wide_tilted(mean, spread, sharpness, omega)
    if n <= 0 or max(omega, 1.0) * (abs(M) + K * REACH + 0.7) > 2.0 * LARGEST_EXPONENT:
        return _far_tilted(mean, spread, sharpness, omega)
    offset, along = -M, sharpness * spread
    geometric(room, n, exp(offset + along * REACH), exp(-along * 2.0 * REACH / (n - 1)))
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
