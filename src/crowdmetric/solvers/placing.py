"""People under a known metric: everybody is a small convex problem of their own.

For each person ``min Σ c ℓ(⟨Δ, M⟩ + ⟨δ, w⟩, y)  s.t. ‖w‖ ≤ ζ_v``, by the same interior-point step as `barrier.py` with the metric held fixed;
each person has their own barrier parameter, step and certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from crowdmetric.losses import Loss
from crowdmetric.solvers.barrier import INITIAL_LEVEL, lower_level
from crowdmetric.users.blocks import Block, People
from crowdmetric.users.bounded import BoundedBlock

__all__ = ["Placement", "place_people"]

Array = NDArray[np.float64]


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


def place_people(
    people: People,
    loss: Loss,
    metrics: Array,
    ideal_radius: Array,
    *,
    tolerance: float = 1e-8,
    max_iterations: int = 200,
) -> Placement:
    """Place everybody under the metrics (n, r, r) of their problems, within ideal_radius (n,)."""
    clock = perf_counter()
    points = np.zeros((people.n_people, people.rank))
    loss_sum = gap_sum = weight = 0.0
    iterations, converged = 0, True
    for block in people:
        state, gap, steps = _place_block(block, loss, metrics, ideal_radius[block.problem], tolerance, max_iterations)
        points[block.person] = state.w
        loss_sum += float(np.sum(block.weight * loss.value(state.psi(metrics), block.response)))
        gap_sum += float(np.sum(gap))
        weight += float(block.weight.sum())
        iterations = max(iterations, steps)
        converged &= bool(np.all(gap <= tolerance * np.maximum(block.weight.sum(axis=1), 1.0)))
    weight = max(weight, np.finfo(float).tiny)
    return Placement(points, loss_sum / weight, gap_sum / weight, converged, iterations, perf_counter() - clock)


def _place_block(
    block: Block, loss: Loss, metrics: Array, radius: Array, tolerance: float, max_iterations: int
) -> tuple[BoundedBlock, Array, int]:
    """Return the block's people at their optimum, their gaps (P,) and the number of iterations."""
    answers = (block.weight > 0).sum(axis=1)
    weight = np.maximum(block.weight.sum(axis=1), 1.0)
    degree = 1.0 + (0.0 if loss.is_smooth else 2.0 * answers)
    mu = INITIAL_LEVEL * weight / degree
    state = BoundedBlock(block, loss, radius, mu)
    active = answers > 0
    gap = np.where(active, np.inf, 0.0)
    iteration = 0
    for iteration in range(1, max_iterations + 1):  # noqa: B007 - the count is reported
        merit, now = state.linearise(metrics, mu)
        gap = np.where(active, np.maximum(now, 0.0), gap)
        active &= gap > tolerance * weight
        if not np.any(active):
            break
        slope, longest = state.direction(None)
        alpha = _search(state, merit, longest * slope, np.where(active, longest, 0.0))
        state.advance(alpha)
        level = mu * degree / weight
        ready = active & (alpha > 0.5) & (gap / weight < 2.0 * level)
        mu = np.where(ready, mu * lower_level(level, tolerance) / level, mu)
    return state, gap, iteration


def _search(state: BoundedBlock, merit: Array, promise: Array, alpha: Array) -> Array:
    """Halve each person's step until their merit falls by 1e−4 of the promise."""
    noise = 1e-12 * (1.0 + np.abs(merit))
    for _ in range(30):
        short = (alpha > 0) & ~(state.merit(alpha) <= merit + 1e-4 * alpha * promise + noise)
        if not np.any(short):
            break
        alpha = np.where(short, 0.5 * alpha, alpha)
    return alpha
