"""Levenberg-damped scoring: minimize a smooth function whose curvature is known from scores.

At θ the caller gives value f, gradient g and a positive semi-definite curvature H (outer products of scores, plus
whatever else is convex). A step solves ``(H + κ diag(H)) step = −g``; the damping κ falls when the quadratic model
predicted the decrease well, and grows when it did not (Marquardt; Nielsen's update); H itself is scaled by the ratio of
true to estimated curvature in earlier steps. The iteration stops when a full step would lower f by less than the
tolerance, or when no damping lowers it any more.

Outer products of scores differ from the true curvature by noise that does not vanish at the optimum, so the last
digits come slowly. With `secants`, what the last steps saw of the gradient corrects H along them (BFGS, begun anew from
each H, with Powell's damping). If many θ stand for the same point, as with factors of a metric, steps also move along
directions that change nothing, and secants would be misleading. Then the caller also gives f in coordinates without
that freedom (`Underlying`), and secants are taken there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from crowdmetric.errors import DataError

__all__ = ["NEAR", "Quadratic", "ScoringResult", "ScoringState", "Underlying", "minimize_by_scoring"]

Array = NDArray[Any]

# Relative accuracy of values that are sums over many people.
ROUNDING = 1e-9
# Damping: directions without curvature, of which a factored metric has many, must not become long steps.
LEAST_DAMPING = 1e-4
# Smallest ratio of true to estimated curvature that is assumed. Outer products of scores overstate the curvature while
# the model is still far from the answers.
LEAST_TRUST = 0.25
# A step that gains more nats than this counts as far from the optimum, where curvature changes between steps. With 50,
# fits take up to a third fewer passes, but some then end a few hundredths of a nat short of the optimum.
NEAR = 2.0


@dataclass(frozen=True)
class Underlying:
    """The same function in coordinates x (k,) of which no two stand for the same point.

    Attributes
    ----------
    point, gradient, curvature
        x, the gradient (k,) and a positive semi-definite curvature (k, k) in x.
    pull
        From a curvature in x to the one (n, n) in θ.
    """

    point: Array
    gradient: Array
    curvature: Array
    pull: Callable[[Array], Array]


@dataclass(frozen=True)
class Quadratic:
    """A function at a point: value, gradient (n,), positive semi-definite curvature (n, n).

    `underlying` is the same in other coordinates; None: θ has no freedom that would hinder secants.
    """

    value: float
    gradient: Array
    curvature: Array
    underlying: Underlying | None = None

    def secant(self, step: Array, after: Quadratic) -> list[Array]:
        """Return the step to another point, and the change of the gradient, in underlying coordinates if any."""
        if self.underlying is None or after.underlying is None:
            return [step, after.gradient - self.gradient]
        here, there = self.underlying, after.underlying
        return [there.point - here.point, there.gradient - here.gradient]

    def believed(self, trust: float, secants: Array) -> Array:
        """Return the curvature (n, n) by its share `trust`, corrected by secants (k, 2, ·)."""
        if self.underlying is None or not len(secants):
            return _corrected(trust * self.curvature, secants)
        return self.underlying.pull(_corrected(trust * self.underlying.curvature, secants))


@dataclass(frozen=True)
class ScoringState:
    """All that an iteration knows, so it can be resumed as if it had not been interrupted.

    Attributes
    ----------
    point
        θ.
    damping, growth, trust
        κ, by how much it grows if the next step fails, and how much of the curvature is believed.
    iteration
        Steps tried so far.
    secants
        The last steps that were accepted and the changes of the gradient along them, (k, 2, n), in the coordinates
        that secants are taken in.
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
        Whether the predicted decrease fell below the tolerance.
    decrease
        The last predicted decrease.
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


def minimize_by_scoring(
    function: Callable[[Array], Quadratic],
    start: Array | ScoringState,
    *,
    tolerance: float,
    first_tolerance: float | None = None,
    max_iterations: int = 200,
    secants: int = 0,
    near: float = NEAR,
    shorten: Callable[[Array, Array], float] | None = None,
    after_step: Callable[[ScoringState, float], None] | None = None,
) -> ScoringResult:
    """Minimize `function` from `start` until a step would gain less than `tolerance`.

    For the first step, `first_tolerance` takes the place of `tolerance`, if it is given. `secants` is how many of the
    last steps correct the curvature, of those that gained less than `near`. `shorten(point, step)` returns the share of
    a step that may be taken at once; `after_step` is called after every step that is accepted: the state after it, from
    which the iteration can be resumed, and the value.
    """
    state = start if isinstance(start, ScoringState) else ScoringState(start)
    point, damping, growth, trust = state.point, state.damping, state.growth, state.trust
    at = function(point)
    width = point.size if at.underlying is None else at.underlying.point.size
    seen = state.secants if state.secants is not None else np.empty((0, 2, width))
    if not np.isfinite(at.value):
        raise DataError("the likelihood has no finite value at the start; check the items for extreme values")
    # an iteration that is resumed has made its first step already
    enough = tolerance if first_tolerance is None or state.iteration else first_tolerance
    decrease = np.inf
    for iteration in range(state.iteration + 1, max_iterations + 1):
        believed = at.believed(trust, seen)
        step = _damped_step(at.gradient, believed, damping, at.curvature)
        foretold = decrease = _foretold(at, believed, step)
        if foretold < max(enough, ROUNDING * abs(at.value)) and damping <= 1.0:
            return ScoringResult(point, at, True, max(foretold, 0.0), iteration - 1, state)
        if shorten is not None:
            step = shorten(point, step) * step
            foretold = _foretold(at, believed, step)
        trial = function(point + step)
        gain = (at.value - trial.value) / foretold if foretold > 0 and np.isfinite(trial.value) else -1.0
        if gain > 1e-4:
            if secants and foretold < near:
                seen = np.concatenate([seen, [at.secant(step, trial)]])[-secants:]
            point, at, enough = point + step, trial, tolerance
            # a Newton step gains 2 − (true / estimated curvature), and scores overestimate it far from the optimum
            trust = float(np.clip(trust * np.clip(2.0 - gain, 0.5, 2.0), LEAST_TRUST, 1.0))
            damping, growth = max(damping * max(1.0 / 5.0, 1.0 - (2.0 * gain - 1.0) ** 3), LEAST_DAMPING), 2.0
            state = ScoringState(point, damping, growth, trust, iteration, seen if secants else None)
            if after_step is not None:
                after_step(state, at.value)
        else:
            damping, growth, trust = damping * growth, growth * 2.0, min(2.0 * trust, 1.0)
            if damping > 1e12:  # no step lowers the value: only rounding is left
                return ScoringResult(point, at, foretold < 1e3 * tolerance, max(foretold, 0.0), iteration, state)
    return ScoringResult(point, at, False, float(decrease), max_iterations, state)


def _foretold(at: Quadratic, believed: Array, step: Array) -> float:
    """Return the decrease of the value that is predicted for a step, by the trusted curvature."""
    return -float(at.gradient @ step) - 0.5 * float(step @ believed @ step)


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
