"""Compiled: people whose questions all lie along one line, which makes each of them one number x with |x| ≤ ζ.

Person by person ``min f(x) = Σ c ℓ(o + δx, y)``. The certificate is that of `crowdmetric.bounded.placing`: for every
slope g of the convex f at x, ``g x + ζ |g|`` bounds the distance to the optimum.
"""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.users.compiled import compiled

__all__ = ["hinge_on_a_line", "logistic_on_a_line"]

Array = NDArray[Any]

# Below this share of its terms, a sum of slopes or a margin counts as zero.
ROUNDING = 1e-12


@compiled
def logistic_on_a_line(
    who: Array, offset: Array, along: Array, delta: Array, y: Array, weight: Array, beta: float, radius: Array,
    x: Array, tolerance: float, steps: int,
) -> tuple[Array, Array, Array, Array, int]:  # fmt: skip
    """Move x (P,) of the people in `who` to their optimum, from where it is, until their gaps are `tolerance` c.

    Newton's method on the slope, which grows with x, in a bracket (`crowdmetric.bounded.line_subspaces`).

    Returns gaps (P,); the first two derivatives (P,) of everybody's least loss as offsets move by a multiple of `along`
    (P, m), and that of x (P,), zero at the boundary of the ball; and the largest number of steps.
    """
    P, m = delta.shape
    gap, pull, stiffness, sensitivity, most = np.zeros(P), np.zeros(P), np.zeros(P), np.zeros(P), 0
    for k in who:
        total = 0.0
        for i in range(m):
            total += weight[k, i]
        if total <= 0.0:
            continue
        R = radius[k]
        low, high, is_low, is_high = -R, R, False, False
        here, length, best = min(max(x[k], -R), R), np.inf, np.inf
        for step in range(1, steps + 1):
            slope, bend, cross, first, second = 0.0, 0.0, 0.0, 0.0, 0.0
            for i in range(m):
                if weight[k, i] > 0.0:
                    margin = beta * y[k, i] * (offset[k, i] + delta[k, i] * here)
                    e = exp(-abs(margin))
                    share = 1.0 / (1.0 + e)
                    g = -beta * weight[k, i] * y[k, i] * (e * share if margin >= 0.0 else share)
                    h = beta * beta * weight[k, i] * e * share * share
                    slope += g * delta[k, i]
                    first += g * along[k, i]
                    bend += h * delta[k, i] * delta[k, i]
                    cross += h * delta[k, i] * along[k, i]
                    second += h * along[k, i] * along[k, i]
            now = max(slope * here + R * abs(slope), 0.0)
            if now < best:
                best, x[k], pull[k], stiffness[k], sensitivity[k] = now, here, first, second, 0.0
                if abs(here) < R and bend > 0.0:
                    sensitivity[k] = -cross / bend
                    stiffness[k] -= cross * cross / bend
            most = max(most, step)
            if now <= tolerance * total:
                break
            if slope < 0.0:
                low, is_low = here, True
            else:
                high, is_high = here, True
            there = min(max(here - slope / bend, -R), R) if bend > 0.0 else np.nan
            if not (low <= there <= high and there != here and abs(there - here) <= 0.5 * length):
                there = 0.5 * (low + high) if is_low and is_high else (high if slope < 0.0 else low)
            here, length = there, abs(there - here)
        gap[k] = best
    return gap, pull, stiffness, sensitivity, most


@compiled
def hinge_on_a_line(offset: Array, delta: Array, y: Array, weight: Array, radius: Array) -> tuple[Array, Array]:
    """Return x (P,) and its gap (P,), which is rounding.

    The slope of f rises by c|δ| at every answer's kink, ``x = (y − o) / δ``, from minus the c|δ| of those that ask
    for larger x: it passes zero at one kink, or is zero between two; then the middle is returned.
    """
    P, m = delta.shape
    x, gap, kink = np.zeros(P), np.zeros(P), np.empty(m)
    for k in range(P):
        slope, rise, asked = 0.0, 0.0, 0
        for i in range(m):
            kink[i] = np.inf  # not a kink of this person; sorted to the end
            if weight[k, i] > 0.0 and delta[k, i] != 0.0:
                kink[i] = (y[k, i] - offset[k, i]) / delta[k, i]
                slope -= weight[k, i] * max(y[k, i] * delta[k, i], 0.0)
                rise += weight[k, i] * abs(delta[k, i])
                asked += 1
        order, R, at = np.argsort(kink), radius[k], 0
        left = -R
        while at < asked and slope < -ROUNDING * rise:
            left = kink[order[at]]
            slope += weight[k, order[at]] * abs(delta[k, order[at]])
            at += 1
        right = left
        if slope <= ROUNDING * rise:
            right = kink[order[at]] if at < asked else R
        x[k] = 0.5 * (min(max(left, -R), R) + min(max(right, -R), R))
        gap[k] = _hinge_gap(offset[k], delta[k], y[k], weight[k], R, x[k])
    return x, gap


@compiled
def _hinge_gap(offset: Array, delta: Array, y: Array, weight: Array, radius: float, x: float) -> float:
    """Return the gap at x: for all 0 ≤ a ≤ c, ``Σ a (1 − yψ)`` is a lower bound of f.

    a is 0 or c on either side of a kink; answers at their kink balance the slope of the others.
    """
    slope, gap = 0.0, 0.0
    for turn in range(2):
        for i in range(delta.size):
            if weight[i] <= 0.0:
                continue
            short = 1.0 - y[i] * (offset[i] + delta[i] * x)
            at_kink = abs(short) <= ROUNDING * (1.0 + abs(offset[i]) + abs(delta[i]) * radius)
            if at_kink != (turn == 1):
                continue
            steepness = y[i] * delta[i]
            a = weight[i] if short > 0.0 else 0.0
            if at_kink and steepness != 0.0:
                a = min(max(slope / steepness, 0.0), weight[i])
            slope -= a * steepness
            gap += weight[i] * max(short, 0.0) - a * short
    return max(gap + slope * x + radius * abs(slope), 0.0)
