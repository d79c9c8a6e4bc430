"""The bounded program by gradients alone, for answers on disk: people are placed anew at every pass over them.

With everybody at their own optimum, the program depends on the metric alone,

    F(A) = Σ_k min over ‖w‖ ≤ ζ_v of Σ_i c_i ℓ(⟨Δ_i, A⟩ + ⟨δ_i, w⟩, y_i)        A ⪰ 0, ‖A‖ ≤ ζ_M

It is convex and, for a smooth loss, has the gradient ``Σ c ℓ' Δ`` (people at their optimum do not change it to first
order). This is a sum over people, and nothing about people is kept between passes.

**Steps.** From a to the projection of ``a − α g``, with Barzilai and Borwein's step length ``α = ⟨s, s⟩ / ⟨s, t⟩`` (s
the last move, t the change of the gradient), accepted unless it is worse than the worst of the last few points
(Birgin, Martínez and Raydan). Nearly always the first step is accepted, so a step takes one pass.

**Certificate.** A convex function lies above its tangents, so at any point a of the set

    f(a) − min f ≤ ⟨g, a⟩ − min_b ⟨g, b⟩ + slack

where `slack` is a bound on the error of the function itself (people are placed to a tolerance).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.bounded.barrier import solve_barrier
from crowdmetric.bounded.placing import place_people
from crowdmetric.engines.contract import Engine
from crowdmetric.engines.folding import FieldSums
from crowdmetric.inputs import answers_in_chunk
from crowdmetric.losses import Loss
from crowdmetric.solvers.cone import BOUNDS
from crowdmetric.symmetric import smat, svec
from crowdmetric.tables import ComparisonScan, SpoolChunk, is_drawn
from crowdmetric.users.blocks import Answers, arrange, bilinear

__all__ = ["SAMPLE", "EvaluatedPoint", "StreamedFit", "fit_streamed_bounded", "minimize_over_set", "some_answers"]

Array = NDArray[Any]

# Number of people from whom radii and the start are found.
SAMPLE = 5_000
# Tolerance of people's places, as a share of the tolerance of the fit.
PLACING = 0.1
# Non-monotone search: a new point may be as bad as the worst of this many before it.
MEMORY = 8
# A step must bring this share of what the slope promises (the usual value); after this many shorter ones, where only
# rounding is left, it is taken as it is.
SUFFICIENT = 1e-4
HALVINGS = 20


def some_answers(scan: ComparisonScan, items: Array) -> Answers:
    """Return the answers of about 5,000 people, drawn by a hash of their number, or of all if there are fewer.

    They get new numbers.
    """
    step = max(1, scan.n_users // SAMPLE)
    parts, people = [], 0
    for chunk in scan.chunks:
        drawn = is_drawn(chunk.first_person + np.arange(chunk.people), step)
        answers, number = answers_in_chunk(chunk, items, drawn), np.cumsum(drawn) - 1
        parts.append((answers, number[answers.person] + people))
        people += int(drawn.sum())
    columns = {
        name: np.concatenate([getattr(answers, name) for answers, _ in parts])
        for name in ("pairs", "response", "weight")
    }
    person = np.concatenate([numbers for _, numbers in parts])
    return Answers(items=items, person=person, problem=np.zeros(people, dtype=np.intp), n_problems=1, **columns)


@dataclass(frozen=True)
class PlacedSums(FieldSums):
    """Sums over people at their optimum under a metric: loss, its gradient (p,), certified gap, weight, w, people."""

    loss: float
    gradient: Array
    gap: float
    weight: float
    points: Array
    people: int


def placed_sums(chunk: SpoolChunk, items: Array, metric: Array, radius: float, loss: Loss, tol: float) -> PlacedSums:
    """Return the sums over a chunk's people."""
    people = arrange(answers_in_chunk(chunk, items))
    placed = place_people(people, loss, metric[None], np.array([radius]), tolerance=tol)
    w, total, weight = placed.pseudo_ideal_points, 0.0, 0.0
    gradient = np.zeros(metric.shape)
    for block in people:
        psi = bilinear(block.delta, metric, block.total)
        psi += np.einsum("pmd,pd->pm", block.delta, w[block.person])
        value, slope, _ = loss.value_slope_curvature(psi, block.response)
        total += float(np.sum(block.weight * value))
        weight += float(block.weight.sum())
        pulled = (block.weight * slope)[:, :, None] * block.delta
        gradient += pulled.reshape(-1, len(metric)).T @ block.total.reshape(-1, len(metric))
    gap = placed.gap * weight
    return PlacedSums(total, svec(0.5 * (gradient + gradient.T)), gap, weight, w.sum(axis=0), len(w))


@dataclass(frozen=True)
class StreamedFit:
    """The metric, the mean of people's w, and how the iteration ended (its value is the mean loss)."""

    metric: Array
    mean: Array
    result: ProjectedResult
    seconds: float


def fit_streamed_bounded(
    scan: ComparisonScan,
    items: Array,
    loss: Loss,
    metric_bound: float,
    ideal_bound: float,
    *,
    sample: Answers,
    norm: str,
    tolerance: float,
    max_passes: int,
    engine: Engine,
    after_pass: Callable[[float], None] | None = None,
) -> StreamedFit:
    """Solve the bounded program over a scan, from the solution for a sample of its people."""
    clock, bound = perf_counter(), BOUNDS[norm]
    start = solve_barrier(
        arrange(sample), loss, np.array([metric_bound]), np.array([ideal_bound]), norm=norm, tolerance=1e-4
    )
    means: dict[bytes, Array] = {}

    def function(a: Array) -> EvaluatedPoint:
        begin = perf_counter()
        job = partial(placed_sums, items=items, metric=smat(a), radius=ideal_bound, loss=loss, tol=PLACING * tolerance)
        sums = engine.sum(job, scan.chunks)
        means[a.tobytes()] = sums.points / sums.people
        if after_pass is not None:
            after_pass(perf_counter() - begin)
        return EvaluatedPoint(sums.loss / sums.weight, sums.gradient / sums.weight, sums.gap / sums.weight)

    result = minimize_over_set(
        function, svec(start.metrics[0]), partial(bound.nearest, radius=metric_bound),
        partial(bound.support, radius=metric_bound), tolerance=tolerance, max_passes=max_passes,
    )  # fmt: skip
    return StreamedFit(smat(result.point), means[result.point.tobytes()], result, perf_counter() - clock)


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
        alpha = float(move @ move) / bend if bend > 0 else 2.0 * alpha
        point, at = point + move, trial
        recent = [*recent[1 - MEMORY :], at.value]
    return ProjectedResult(best.point, best.at, best.gap, best.converged, passes)
