"""The compiled loop over people's answers, for logistic answers; `propagation` explains the formulas."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.users.compiled import compiled
from crowdmetric.users.line_kernels import grid_for, is_far, tilted

__all__ = ["identity_and_product", "judge_answers", "sweep_answers", "times_differences"]

Array = NDArray[Any]

# A factor leaves at least this share of a cavity's variance; below this variance a difference is known.
SMALLEST_SHARE, KNOWN = 1e-10, 1e-14
# A sweep leaves factors as they are that it would change by less than this share of the tolerance.
SETTLED_SHARE = 0.1
# As in `propagation`.
OWN_FINENESS = 0.6


@compiled
def _matched(
    psi: float,
    spread: float,
    b: float,
    tau: float,
    sign: float,
    weight: float,
    level: int,
    sizes: Array,
    lines: Array,
    room: Array,
) -> tuple[float, float, float, float, float]:
    """Return share and variance of the cavity, then log mass, slope and bend of the exact answer in it.

    On the shortest line that is fine enough for the cavity, which other answers have made narrower than the line
    number `level` allows for.
    """
    keep = max(1.0 - tau * spread, SMALLEST_SHARE)
    cavity = spread / keep
    mean = psi - cavity * b
    number = grid_for(sqrt(cavity), OWN_FINENESS, sizes, level)
    n, line = sizes[number], lines[min(number, lines.shape[0] - 1)]
    if n > 0 and is_far(mean, cavity, sign, weight):
        n = -1
    mass, slope, bend = tilted(mean, cavity, sign, weight, n, line, room)
    return keep, cavity, mass, slope, bend


@compiled
def _renewed(bend: float, cavity: float) -> float:
    """Return the τ of an answer that bends the logarithm of its mass so much."""
    strength = max(-bend, 0.0)
    return strength / max(1.0 - strength * cavity, SMALLEST_SHARE)


@compiled
def sweep_answers(
    covariance: Array,
    mean: Array,
    low: Array,
    high: Array,
    sign: Array,
    weight: Array,
    tau: Array,
    nu: Array,
    level: Array,
    sizes: Array,
    lines: Array,
    rounds: int,
    tolerance: float,
    damping: float,
) -> None:
    """Renew the factors τ, ν (P, m) of everybody's answers in place, answer after answer.

    `covariance` (P, n, n) and `mean` (P, n) are of people's utilities given all factors, and are used up. A person's
    rounds end when none of the factors changes by `tolerance`, in units of an answer's own spread.
    """
    P, m = low.shape
    n = mean.shape[1]
    room, reach = np.empty(lines.shape[1]), np.empty(n)
    for p in range(P):
        for _ in range(rounds):
            largest = 0.0
            for i in range(m):
                if weight[p, i] == 0.0:
                    continue
                low_one, high_one = low[p, i], high[p, i]
                for j in range(n):  # of a symmetric matrix, the lower half is enough
                    reach[j] = covariance[p, max(high_one, j), min(high_one, j)]
                    reach[j] -= covariance[p, max(low_one, j), min(low_one, j)]
                spread = reach[high_one] - reach[low_one]
                if spread <= KNOWN:
                    continue
                psi = mean[p, high_one] - mean[p, low_one]
                b = nu[p, i] - tau[p, i] * psi
                _, cavity, _, slope, bend = _matched(
                    psi, spread, b, tau[p, i], sign[p, i], weight[p, i], level[p, i], sizes, lines, room
                )
                new = _renewed(bend, cavity)
                stronger = damping * (new - tau[p, i])
                further = damping * (slope - b) * (1.0 + new * cavity)
                change = abs(further) * sqrt(spread)
                if change < SETTLED_SHARE * tolerance:
                    continue
                largest = max(largest, change)
                growth = 1.0 + stronger * spread
                tau[p, i] += stronger
                nu[p, i] += further + stronger * psi
                # the person with the new factor, by Sherman and Morrison
                for j in range(n):
                    along = stronger / growth * reach[j]
                    for k in range(j + 1):
                        covariance[p, j, k] -= along * reach[k]
                    mean[p, j] += reach[j] * further / growth
            if largest < tolerance:
                break


@compiled
def times_differences(X: Array, low: Array, high: Array, tau: Array) -> Array:
    """Return ``Aᵀ diag(τ) A X`` (P, n, n) for X (P, n, n), A the differences high − low, of which few are not zero."""
    P, n, _ = X.shape
    found = np.zeros((P, n, n))
    for p in range(P):
        for i in range(low.shape[1]):
            if tau[p, i] == 0.0:
                continue
            low_one, high_one = low[p, i], high[p, i]
            for j in range(n):
                step = tau[p, i] * (X[p, high_one, j] - X[p, low_one, j])
                found[p, high_one, j] += step
                found[p, low_one, j] -= step
    return found


@compiled
def identity_and_product(X: Array, low: Array, high: Array, tau: Array) -> Array:
    """Return ``I + X Aᵀ diag(τ) A`` (P, n, n)."""
    P, n, _ = X.shape
    found = np.zeros((P, n, n))
    for p in range(P):
        for j in range(n):
            found[p, j, j] = 1.0
            for i in range(low.shape[1]):
                step = tau[p, i] * (X[p, j, high[p, i]] - X[p, j, low[p, i]])
                found[p, j, high[p, i]] += step
                found[p, j, low[p, i]] -= step
    return found


@compiled
def judge_answers(
    spread: Array,
    psi: Array,
    sign: Array,
    weight: Array,
    tau: Array,
    nu: Array,
    level: Array,
    sizes: Array,
    lines: Array,
) -> tuple[float, float]:
    """Return ``Σ [log Z + ½ log(1 + τs) + ½ s b² − ½ b ψ]`` over answers, s the variance of the cavity, and a change.

    That is the largest of the changes that would renew a factor, in units of an answer's own spread.
    """
    P, m = psi.shape
    room = np.empty(lines.shape[1])
    total, largest = 0.0, 0.0
    for p in range(P):
        for i in range(m):
            if weight[p, i] == 0.0:
                continue
            b = nu[p, i] - tau[p, i] * psi[p, i]
            keep, cavity, mass, slope, bend = _matched(
                psi[p, i], spread[p, i], b, tau[p, i], sign[p, i], weight[p, i], level[p, i], sizes, lines, room
            )
            total += mass - 0.5 * log(keep) + 0.5 * cavity * b * b - 0.5 * b * psi[p, i]
            if spread[p, i] > KNOWN:
                largest = max(largest, abs(slope - b) * (1.0 + _renewed(bend, cavity) * cavity) * sqrt(spread[p, i]))
    return total, largest
