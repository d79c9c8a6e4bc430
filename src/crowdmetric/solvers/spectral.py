"""Spectral projected gradient: minimize a convex function over a set by gradients alone, to a certified gap.

For problems that only provide sums over people: value and gradient at a point, one pass over the people each.
A step goes from a to the projection of ``a − α g`` with Barzilai and Borwein's step length ``α = ⟨s, s⟩ / ⟨s, t⟩`` (s
the last move, t the change of the gradient) and is accepted unless it is worse than the worst of the last few points
(Birgin, Martínez and Raydan). Nearly always the first step is accepted, so a step takes one pass.

**Certificate.** A convex function lies above its tangents, so at any point a of the set

    f(a) − min f ≤ ⟨g, a⟩ − min_b ⟨g, b⟩ + slack

where `slack` is a bound on the error of the function itself (people are placed to a tolerance).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["EvaluatedPoint", "ProjectedResult", "minimize_over_set"]

Array = NDArray[Any]

# Non-monotone search: a new point may be as bad as the worst of this many before it.
MEMORY = 8
SHORTEST, LONGEST = 1e-10, 1e10
SUFFICIENT = 1e-4
HALVINGS = 20


@dataclass(frozen=True)
class EvaluatedPoint:
    """A function at a point: value, gradient (n,), and how far both may be from exact, in value."""

    value: float
    gradient: Array
    slack: float = 0.0


@dataclass(frozen=True)
class ProjectedResult:
    """The point with the best certificate.

    Attributes
    ----------
    point, at
        a and the function there.
    gap
        Certified bound on the distance of the value to the optimum.
    converged
        Whether that is below the tolerance.
    passes
        Evaluations of the function.
    """

    point: Array
    at: EvaluatedPoint
    gap: float
    converged: bool
    passes: int


def minimize_over_set(
    function: Callable[[Array], EvaluatedPoint],
    start: Array,
    nearest: Callable[[Array], Array],
    lowest: Callable[[Array], float],
    *,
    tolerance: float,
    max_passes: int,
) -> ProjectedResult:
    """Minimize `function` from `start`.

    Parameters
    ----------
    nearest
        The projection on the set.
    lowest
        ``min ⟨g, b⟩`` over the set, as a function of g.
    """
    point = nearest(start)
    at, passes = function(point), 1
    best = ProjectedResult(point, at, np.inf, False, passes)
    recent = [at.value]
    alpha = 1.0 / max(float(np.linalg.norm(at.gradient)), 1e-300) * max(float(np.linalg.norm(point)), 1e-3)
    while True:
        gap = max(float(at.gradient @ point) - lowest(at.gradient) + at.slack, 0.0)
        if gap < best.gap:
            best = ProjectedResult(point, at, gap, gap <= tolerance, passes)
        if best.converged or passes >= max_passes:
            break
        direction = nearest(point - alpha * at.gradient) - point
        promise = float(at.gradient @ direction)
        share, trial = 1.0, at
        for _ in range(HALVINGS):
            trial, passes = function(point + share * direction), passes + 1
            if trial.value <= max(recent) + SUFFICIENT * share * promise + trial.slack or passes >= max_passes:
                break
            # the minimum of the parabola through the known values, within limits
            curve = 2.0 * (trial.value - at.value - share * promise)
            share = float(np.clip(-promise * share**2 / curve if curve > 0 else 0.0, 0.1 * share, 0.5 * share))
        move, change = share * direction, trial.gradient - at.gradient
        bend = float(move @ change)
        alpha = float(np.clip((move @ move) / bend, SHORTEST, LONGEST)) if bend > 0 else min(2.0 * alpha, LONGEST)
        point, at = point + move, trial
        recent = [*recent[1 - MEMORY :], at.value]
    return ProjectedResult(best.point, best.at, best.gap, best.converged, passes)
