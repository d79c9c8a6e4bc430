"""Levenberg-damped scoring: minimise a smooth function whose curvature is known from scores.

At θ the caller gives value f, gradient g and a positive semi-definite curvature H (outer products of scores, plus
whatever else is convex). A step solves ``(H + κ diag(H)) step = −g``; the damping κ falls when the quadratic model
foretold the decrease well, and grows when it did not (Marquardt; Nielsen's update); H itself is scaled by how much
of it earlier steps found to be true. The iteration stops when a full
step would lower f by less than the tolerance, or when no damping lowers it any more.

Outer products of scores differ from the true curvature by noise that does not vanish at the optimum, so that the last
digits come slowly. With `secants`, what the last steps saw of the gradient corrects H along them (BFGS, begun anew from
each H, with Powell's damping). Not for coordinates of which several mean the same, as factors of a metric: there
steps wander, and what they saw is not about the function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from crowdmetric.errors import DataError

__all__ = ["Quadratic", "ScoringResult", "ScoringState", "minimise_by_scoring"]

Array = NDArray[Any]

# Values that are sums over many people are known to about this share of themselves.
ROUNDING = 1e-9
# Directions without curvature, of which a factored metric has many, must not become long steps.
LEAST_DAMPING = 1e-4
# Outer products of scores overstate the curvature where the model is still far from the answers, by up to this.
LEAST_TRUST = 0.25


@dataclass(frozen=True)
class Quadratic:
    """A function at a point: value, gradient (n,), positive semi-definite curvature (n, n)."""

    value: float
    gradient: Array
    curvature: Array


@dataclass(frozen=True)
class ScoringState:
    """All that an iteration knows, so that it can be taken up again as if it had not been interrupted.

    Attributes
    ----------
    point
        θ.
    damping, growth, trust
        κ, by how much it grows if the next step fails, and how much of the curvature is believed.
    iteration
        Steps tried so far.
    secants
        The last steps that were accepted and the changes of the gradient along them, (k, 2, n).
    """

    point: Array
    damping: float = 1e-2
    growth: float = 2.0
    trust: float = 1.0
    iteration: int = 0
    secants: Array | None = None


@dataclass(frozen=True)
class ScoringResult:
    """Where the iteration ended.

    Attributes
    ----------
    point, at
        θ and the function there.
    converged
        Whether the foretold decrease fell below the tolerance.
    decrease
        The last foretold decrease.
    iterations
        Steps tried, accepted or not.
    state
        After the last step that was accepted; from there the same end is reached again.
    """

    point: Array
    at: Quadratic
    converged: bool
    decrease: float
    iterations: int
    state: ScoringState


def minimise_by_scoring(
    function: Callable[[Array], Quadratic],
    start: Array | ScoringState,
    *,
    tolerance: float,
    max_iterations: int = 200,
    secants: int = 0,
    shorten: Callable[[Array, Array], float] | None = None,
    after_step: Callable[[ScoringState, float], None] | None = None,
) -> ScoringResult:
    """Minimise `function` from `start` until a step would gain less than `tolerance`.

    `secants` is how many of the last steps correct the curvature.
    `shorten(point, step)` returns the share of a step that may be taken at once; `after_step` hears of every step that
    is accepted: the state after it, from which the iteration can be taken up again, and the value.
    """
    state = start if isinstance(start, ScoringState) else ScoringState(start)
    point, damping, growth, trust = state.point, state.damping, state.growth, state.trust
    seen = state.secants if state.secants is not None else np.empty((0, 2, point.size))
    at = function(point)
    if not np.isfinite(at.value):
        raise DataError("the likelihood has no finite value at the start; check the items for extreme values")
    decrease = np.inf
    for iteration in range(state.iteration + 1, max_iterations + 1):
        believed = _corrected(trust * at.curvature, seen)
        step = _damped_step(at.gradient, believed, damping, at.curvature)
        if shorten is not None:
            step = shorten(point, step) * step
        foretold = -float(at.gradient @ step) - 0.5 * float(step @ believed @ step)
        decrease = foretold
        if foretold < max(tolerance, ROUNDING * abs(at.value)) and damping <= 1.0:
            return ScoringResult(point, at, True, max(foretold, 0.0), iteration - 1, state)
        trial = function(point + step)
        gain = (at.value - trial.value) / foretold if foretold > 0 and np.isfinite(trial.value) else -1.0
        if gain > 1e-4:
            if secants:
                seen = np.concatenate([seen, [[step, trial.gradient - at.gradient]]])[-secants:]
            point, at = point + step, trial
            # a Newton step gains 2 − (true / believed curvature), and scores believe too much far from the optimum
            trust = float(np.clip(trust * np.clip(2.0 - gain, 0.5, 2.0), LEAST_TRUST, 1.0))
            damping, growth = max(damping * max(1.0 / 5.0, 1.0 - (2.0 * gain - 1.0) ** 3), LEAST_DAMPING), 2.0
            state = ScoringState(point, damping, growth, trust, iteration, seen if secants else None)
            if after_step is not None:
                after_step(state, at.value)
        else:
            damping, growth, trust = damping * growth, growth * 2.0, min(2.0 * trust, 1.0)
            if damping > 1e12:  # no step lowers the value: rounding is all that is left
                return ScoringResult(point, at, foretold < 1e3 * tolerance, max(foretold, 0.0), iteration, state)
    return ScoringResult(point, at, False, float(decrease), max_iterations, state)


def _corrected(B: Array, secants: Array) -> Array:
    """Return a positive definite curvature that agrees with what was seen of the gradient along some steps (BFGS)."""
    for step, change in secants:
        along = B @ step
        believed, seen = float(step @ along), float(step @ change)
        if believed <= 0.0:
            continue
        share = 1.0 if seen >= 0.2 * believed else 0.8 * believed / (believed - seen)  # Powell's damping
        change = share * change + (1.0 - share) * along  # noqa: PLW2901
        B = B + np.outer(change, change) / float(step @ change) - np.outer(along, along) / believed
    return B


def _damped_step(gradient: Array, believed: Array, damping: float, curvature: Array) -> Array:
    """Return the step; directions without any curvature (two factors of one metric) are held by the damping."""
    scale = np.diag(curvature).copy()
    scale = np.maximum(scale, 1e-10 * max(float(scale.max()), 1e-300))
    while True:
        try:
            factor = cho_factor(believed + np.diag((damping + 1e-12) * scale), check_finite=False)
        except np.linalg.LinAlgError:
            damping = max(10.0 * damping, 1e-10)
            continue
        return -cho_solve(factor, gradient, check_finite=False)
