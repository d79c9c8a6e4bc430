"""People under a known metric: each person is a small convex problem.

For each person ``min Σ c ℓ(⟨Δ, M⟩ + ⟨δ, w⟩, y)  s.t. ‖w‖ ≤ ζ_v``, by the same interior-point step as
`barrier.py` with the metric held fixed; each person has their own barrier parameter, step and certificate. A
component of w outside the span of the person's δ's changes no answer and only uses up the ball, so the work is
done inside that span. For items on a line it is one number in any d, and needs no interior point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.bounded.barrier import INITIAL_LEVEL, lower_level
from crowdmetric.bounded.elimination import BoundedBlock
from crowdmetric.losses import Hinge, Logistic, Loss
from crowdmetric.users.blocks import Block, People, bilinear

__all__ = ["LOOSEST_ON_LINES", "Placement", "Span", "place_people", "spans_of"]

Array = NDArray[Any]

# Newton's last digits cost almost nothing. They matter if answers are not very informative: a point whose loss is
# within a thousandth of the best may be far from the optimum.
LOOSEST_ON_LINES = 1e-7


@dataclass(frozen=True)
class Placement:
    """Where people are under known metrics.

    Attributes
    ----------
    pseudo_ideal_points
        (K, r); zero for people without answers.
    objective, gap
        Mean loss over all answers, and the certified bound on its distance to the optimum.
    converged
        Whether everybody's own gap is below the tolerance.
    iterations, seconds
        What it took.
    """

    pseudo_ideal_points: Array
    objective: float
    gap: float
    converged: bool
    iterations: int
    seconds: float


@dataclass(frozen=True)
class Span:
    """The people of a block in coordinates of the span of their own δ's."""

    inside: Block
    axes: Array  # (P, q, r), orthonormal rows


def place_people(
    people: People,
    loss: Loss,
    metrics: Array,
    ideal_radius: Array,
    *,
    only: NDArray[np.bool_] | None = None,
    spans: Sequence[Span] | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 200,
) -> Placement:
    """Place everybody under the metrics (n, r, r) of their problems, within ideal_radius (n,).

    With `only` (n,), the people of the other problems stay at zero, as if they had not answered. To place the same
    people many times, pass ``spans = spans_of(people)``.
    """
    clock = perf_counter()
    points = np.zeros((people.n_people, people.rank))
    loss_sum = gap_sum = weight = 0.0
    iterations, converged = 0, True
    for block, span in zip(people, map(_span, people) if spans is None else spans, strict=True):
        offset, inside, weights = bilinear(block.delta, metrics[block.problem], block.total), span.inside, block.weight
        if only is not None:
            weights = np.where(only[block.problem][:, None], block.weight, 0.0)
            inside = replace(inside, weight=weights)
        radius = ideal_radius[block.problem]
        w, gap, steps = _place_block(inside, offset, loss, radius, tolerance, max_iterations)
        points[block.person] = np.einsum("pq,pqr->pr", w, span.axes)
        psi = offset + np.einsum("pmq,pq->pm", inside.delta, w)
        loss_sum += float(np.sum(weights * loss.value(psi, block.response)))
        gap_sum += float(np.sum(gap))
        weight += float(weights.sum())
        iterations = max(iterations, steps)
        converged &= bool(np.all(gap <= tolerance * _weight_of_people(inside)))
    weight = max(weight, np.finfo(float).tiny)
    return Placement(points, loss_sum / weight, gap_sum / weight, converged, iterations, perf_counter() - clock)


def spans_of(people: People) -> list[Span]:
    """Return the span of everybody's δ's, block by block."""
    return [_span(block) for block in people]


def _span(block: Block) -> Span:
    if block.delta.shape[2] == 1:
        return Span(block, np.ones((block.person.size, 1, 1)))
    U, values, axes = np.linalg.svd(block.delta, full_matrices=False)
    q = max(1, int(np.sum(values > 1e-10 * values[:, :1], axis=1).max()))
    # directions that a person's answers do not reach are exact zeros
    spanned = np.where(values > 1e-10 * values[:, :1], values, 0.0)
    coordinates = U[:, :, :q] * spanned[:, None, :q]
    return Span(replace(block, delta=coordinates, total=coordinates), axes[:, :q])


def _place_block(
    block: Block, offset: Array, loss: Loss, radius: Array, tolerance: float, max_iterations: int
) -> tuple[Array, Array, int]:
    """Return the block's people at their optimum (P, q), their gaps (P,) and the number of iterations."""
    if block.delta.shape[2] == 1 and isinstance(loss, Logistic | Hinge):
        return _place_on_lines(block, offset, loss, radius, tolerance, max_iterations)
    answers = (block.weight > 0).sum(axis=1)
    weight = _weight_of_people(block)
    degree = 1.0 + (0.0 if loss.is_smooth else 2.0 * answers)
    mu = INITIAL_LEVEL * weight / degree
    state = BoundedBlock(block, loss, radius, mu, offset=offset)
    active = answers > 0
    gap, w = np.where(active, np.inf, 0.0), np.zeros_like(state.w)
    iteration = 0
    for iteration in range(1, max_iterations + 1):  # noqa: B007 - the count is reported
        merit, now = state.linearize(None, mu)
        now = np.maximum(now, 0.0)
        better = active & (now < gap)  # the point returned is the one that its gap belongs to
        gap, w[better] = np.where(better, now, gap), state.w[better]
        active &= now > tolerance * weight
        if not np.any(active):
            break
        slope, longest = state.direction(None)
        alpha = _search(state, merit, longest * slope, np.where(active, longest, 0.0))
        state.advance(alpha)
        level = mu * degree / weight
        ready = active & (alpha > 0.5) & (now / weight < 2.0 * level)
        mu = np.where(ready, mu * lower_level(level, tolerance) / level, mu)
    return w, gap, iteration


def _place_on_lines(
    block: Block, offset: Array, loss: Logistic | Hinge, radius: Array, tolerance: float, max_iterations: int
) -> tuple[Array, Array, int]:
    """Return the same for people who are one number each, by Newton's method, or from kink to kink for the hinge."""
    # imported late, because Numba takes a second to load
    kernels = import_module("crowdmetric.bounded.placing_kernels")
    delta = np.ascontiguousarray(block.delta[:, :, 0])
    if isinstance(loss, Hinge):
        x, gap = kernels.hinge_on_a_line(offset, delta, block.response, block.weight, radius)
        return x[:, None], gap, 1
    x, everybody = np.zeros(radius.size), np.arange(radius.size)
    gap, *_, steps = kernels.logistic_on_a_line(
        everybody, offset, delta, delta, block.response, block.weight, loss.beta, radius, x,
        min(tolerance, LOOSEST_ON_LINES), max_iterations,
    )  # fmt: skip
    return x[:, None], gap, steps


def _weight_of_people(block: Block) -> Array:
    """Return the total weight of each person's answers, 1 where there are none."""
    weight = block.weight.sum(axis=1)
    return np.where(weight > 0, weight, 1.0)


def _search(state: BoundedBlock, merit: Array, promise: Array, alpha: Array) -> Array:
    """Halve each person's step until their merit falls by 1e−4 of the promise."""
    noise = 1e-12 * (1.0 + np.abs(merit))
    short = alpha > 0
    for _ in range(30):
        short &= ~(state.merit(alpha) <= merit + 1e-4 * alpha * promise + noise)
        if not np.any(short):
            break
        alpha = np.where(short, 0.5 * alpha, alpha)
    return alpha
