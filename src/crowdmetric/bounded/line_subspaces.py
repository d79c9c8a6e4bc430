"""Subspaces that are lines: the metric of each is one number, and so is everybody in it. Logistic answers.

::

    min   F(A) = Σ_k  min { Σ c ℓ(A δs + δ w_k, y) :  |w_k| ≤ ζ_v }      s.t.  0 ≤ A ≤ ζ_M

F is a convex and smooth function of one number, and so is every inner problem: this is Newton's method inside Newton's
method. Both keep a bracket. A step that leaves the bracket, or is more than half as long as the last one, goes to the
bracket's other end if that has not been evaluated yet, and to its middle otherwise. The slope of F is that of the loss
at people's optima (the envelope theorem); in its curvature people are eliminated. The derivative of people's optima by
the metric gives their start after the next step. The certificate is that of `barrier.py`. This takes about a tenth of
the interior point's time (`benchmarks stitched`), and is exact at the ends of the balls, where most of the paper's
radii bind.
"""

from __future__ import annotations

from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.bounded.barrier import BarrierResult, solve_barrier, total_loss, totals_of
from crowdmetric.bounded.placing import LOOSEST_ON_LINES
from crowdmetric.losses import Logistic, Loss
from crowdmetric.users.blocks import Block, People, sum_over_problems

__all__ = ["solve_bounded", "solve_lines"]

Array = NDArray[Any]

# The gaps of people may be at most this share of the gap of the problem.
SHARE_OF_PEOPLE = 0.03
# Maximum number of Newton steps per person; bisection alone would reach rounding in this many.
PEOPLE_STEPS = 100


def solve_bounded(
    people: People,
    loss: Loss,
    metric_radius: Array,
    ideal_radius: Array,
    *,
    norm: str = "frobenius",
    start: BarrierResult | None = None,
    **options: Any,
) -> BarrierResult:
    """Solve every problem of `people`: by `solve_lines` if possible, else by `solve_barrier`, with the same options.

    On lines all norms are equal, and no start is needed.
    """
    if people.rank == 1 and isinstance(loss, Logistic):
        return solve_lines(people, loss, metric_radius, ideal_radius, **options)
    return solve_barrier(people, loss, metric_radius, ideal_radius, norm=norm, start=start, **options)


def solve_lines(
    people: People,
    loss: Logistic,
    metric_radius: Array,
    ideal_radius: Array,
    *,
    only: NDArray[np.bool_] | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 200,
) -> BarrierResult:
    """Solve every problem of people on lines to a certified gap of `tolerance` in mean loss, or of `LOOSEST_ON_LINES`.

    Parameters as for `solve_barrier`.
    """
    clock = perf_counter()
    tolerance = min(tolerance, LOOSEST_ON_LINES)
    n = people.n_problems
    weight, _, _, length = totals_of(people)
    active = weight > 0
    weight = np.where(active, weight, 1.0)
    gap = np.where(active, np.inf, 0.0)
    if only is not None:
        active = active & only
    crowd = [_Line(block, loss, ideal_radius[block.problem], SHARE_OF_PEOPLE * tolerance) for block in people]
    low, high, step = np.zeros(n), metric_radius.astype(float), np.full(n, np.inf)
    is_low, is_high = np.zeros((2, n), dtype=bool)  # which ends of the bracket have been evaluated
    A, moved = np.minimum(0.3 * metric_radius, 1.0 / length), np.zeros(n)
    information, iteration = np.zeros(n), 0
    for iteration in range(1, max_iterations + 1):
        slope, curvature, people_gap = np.zeros((3, n))
        for line in crowd:
            line.follow(A, moved, active, slope, curvature, people_gap)
        bound = people_gap + slope * A - np.minimum(0.0, slope * metric_radius)
        gap = np.where(active, np.maximum(bound / weight, 0.0), gap)
        information = np.where(active, curvature, information)
        active = active & (gap > tolerance) & (high > low)
        if not np.any(active) or iteration == max_iterations:  # return the point to which the gap belongs
            break
        falls = slope < 0
        low, high = np.where(active & falls, A, low), np.where(active & ~falls, A, high)
        is_low, is_high = is_low | falls, is_high | ~falls
        with np.errstate(divide="ignore", invalid="ignore"):
            there = np.clip(A - slope / curvature, 0.0, metric_radius)
        good = (there >= low) & (there <= high) & (there != A) & (np.abs(there - A) <= 0.5 * step)
        instead = np.where(is_low & is_high, 0.5 * (low + high), np.where(falls, high, low))
        there = np.where(good, there, instead)
        moved = np.where(active, there - A, 0.0)
        A, step = A + moved, np.where(active, np.abs(moved), step)
    points = np.zeros((people.n_people, 1))
    for line in crowd:
        points[line.block.person, 0] = line.x
    metrics = A[:, None, None]
    return BarrierResult(
        metrics=metrics,
        pseudo_ideal_points=points,
        objective=total_loss(people, loss, metrics, points) / weight,
        gap=gap,
        information=information[:, None, None],
        converged=gap <= tolerance,
        iterations=iteration,
        seconds=perf_counter() - clock,
    )


class _Line:
    """The people of a block, and how they follow their metrics."""

    def __init__(self, block: Block, loss: Logistic, radius: Array, tolerance: float) -> None:
        self.block, self.loss, self.radius, self.tolerance = block, loss, radius, tolerance
        self.delta = np.ascontiguousarray(block.delta[:, :, 0])
        self.along = self.delta * block.total[:, :, 0]
        self.x, self.sensitivity = np.zeros(radius.size), np.zeros(radius.size)

    def follow(
        self, A: Array, moved: Array, active: NDArray[np.bool_], slope: Array, curvature: Array, gap: Array
    ) -> None:
        """Move people to their optima under the metrics A (n,), which `moved`; add to their problems' sums (n,)."""
        b, problem = self.block, self.block.problem
        who = np.flatnonzero(active[problem])
        if who.size == 0:
            return
        self.x += self.sensitivity * moved[problem]
        # imported late, because Numba takes a second to load
        kernels = import_module("crowdmetric.bounded.placing_kernels")
        own_gap, pull, stiffness, self.sensitivity, _ = kernels.logistic_on_a_line(
            who, A[problem][:, None] * self.along, self.along, self.delta, b.response, b.weight, self.loss.beta,
            self.radius, self.x, self.tolerance, PEOPLE_STEPS,
        )  # fmt: skip
        for own, into in ((pull, slope), (stiffness, curvature), (own_gap, gap)):
            sum_over_problems(b, own, into)
