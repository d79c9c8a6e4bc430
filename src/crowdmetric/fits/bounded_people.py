"""The bounded program by gradients alone: people in a scan's chunks, placed anew at every pass.

With everybody at their own optimum, the program depends on the metric alone,

    F(A) = Σ_k min over ‖w‖ ≤ ζ_v of Σ_i c_i ℓ(⟨Δ_i, A⟩ + ⟨δ_i, w⟩, y_i)        A ⪰ 0, ‖A‖ ≤ ζ_M

It is convex and, for a smooth loss, has the gradient ``Σ c ℓ' Δ`` (people at their optimum do not change it to first
order). This is a sum over people, and nothing about people is kept between passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.engines.contract import Engine
from crowdmetric.engines.folding import FieldSums
from crowdmetric.fits.crowd import answers_in_chunk
from crowdmetric.losses import Loss
from crowdmetric.solvers.barrier import solve_barrier
from crowdmetric.solvers.bounds import get_bound
from crowdmetric.solvers.placing import place_people
from crowdmetric.solvers.spectral import EvaluatedPoint, ProjectedResult, minimize_over_set
from crowdmetric.symmetric import smat, svec
from crowdmetric.tables import ComparisonScan, SpoolChunk, is_drawn
from crowdmetric.users.blocks import Answers, arrange, bilinear

__all__ = ["SAMPLE", "PlacedSums", "StreamedFit", "fit_streamed_bounded", "placed_sums", "some_answers"]

Array = NDArray[Any]

# Number of people from whom radii and the start are found.
SAMPLE = 5_000
# Tolerance of people's places, as a share of the tolerance of the fit.
PLACING = 0.1


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
    clock, bound = perf_counter(), get_bound(norm)
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
