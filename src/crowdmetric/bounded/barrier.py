"""Primal–dual interior point for bounded people (Algorithm 5), many problems at once, with a certified gap.

For every problem (a subspace, or all of R^d)::

    min   Σ c ℓ(⟨Δ, A⟩ + ⟨δ, w_k⟩, y)    s.t.  A ⪰ 0,  ‖A‖ ≤ ζ_M,  ‖w_k‖ ≤ ζ_v

**Step.** People are eliminated block by block (`elimination.py`), the metric's step follows from a p × p system
(`solvers/cone.py`), and people's steps from that. The right side is the negative gradient of the barrier function φ_μ
and the matrix is positive definite, so every step descends on φ_μ, which a backtracking line search enforces.

**Certificate.** The tangent of the loss at the current point is a lower bound everywhere (convexity), and its
minimum over the feasible set is closed form. So at any iterate, with G and g_k the tangent's gradients,

    gap = Σ (loss − tangent) + ⟨G, A⟩ − min_A ⟨G, A⟩ + Σ_k (⟨g_k, w_k⟩ + ζ_v ‖g_k‖)

bounds the distance to the optimum, independently of the iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.bounded.elimination import BarrierSums, BoundedBlock
from crowdmetric.losses import Loss
from crowdmetric.solvers.cone import BOUNDS, MetricCone
from crowdmetric.symmetric import project_psd, svec
from crowdmetric.users.blocks import People, bilinear, sum_over_problems

__all__ = ["INITIAL_LEVEL", "BarrierResult", "lower_level", "solve_barrier", "total_loss", "totals_of"]

Array = NDArray[Any]

# Give up on a problem after this many iterations without a better certificate.
PATIENCE = 40
# Gap (in mean loss) that the first μ corresponds to: about that of the starting point.
INITIAL_LEVEL = 1.0
# The same for a start near the solution of a similar problem.
WARM_LEVEL = 0.05
# After this many consecutive steps of less than this share, a point is too close to the boundary for its μ. Then μ is
# raised to match the best gap, at most by this factor: steps are long again nearer to the central path.
SHORT_STEPS, SHORT, RAISED = 4, 0.2, 10.0
# Share to which μ is lowered: at first, near the end, and near the end once a point was too close to the boundary.
MOST_SHARE, LEAST_SHARE, CAREFUL = 0.2, 0.03, 0.2


@dataclass(frozen=True)
class BarrierResult:
    """Solutions of n problems of one rank.

    Attributes
    ----------
    metrics
        (n, r, r), positive semi-definite and inside the bound.
    pseudo_ideal_points
        (K, r), inside the ball; zero for people without answers.
    objective, gap
        (n,) mean loss and certified bound on its distance to the optimum.
    information
        (n, p, p) curvature of each problem's total loss in svec(A) with people eliminated (the Schur complement).
    converged
        (n,) whether gap ≤ tolerance.
    iterations, seconds
        Of all problems together.
    """

    metrics: Array
    pseudo_ideal_points: Array
    objective: Array
    gap: Array
    information: Array
    converged: NDArray[np.bool_]
    iterations: int
    seconds: float


# --8<-- [start:loop]
def solve_barrier(
    people: People,
    loss: Loss,
    metric_radius: Array,
    ideal_radius: Array,
    *,
    norm: str = "frobenius",
    start: BarrierResult | None = None,
    only: NDArray[np.bool_] | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 200,
) -> BarrierResult:
    """Solve every problem of `people` to a certified gap of `tolerance` in mean loss.

    Parameters
    ----------
    people
        Answers laid out by `users.blocks.arrange`.
    loss
        logistic, probit, squared or hinge.
    metric_radius, ideal_radius
        (n,) ζ_M and ζ_v of each problem.
    norm
        The norm that ζ_M bounds, ``"frobenius"`` or ``"nuclear"``.
    start
        The solution of a nearby problem with the same people, to begin at.
    only
        (n,) which problems to solve, by default all; the others are returned with an infinite gap.
    """
    clock = perf_counter()
    state = _State(people, loss, metric_radius, ideal_radius, norm, tolerance, start, only)
    iteration = 0
    for iteration in range(1, max_iterations + 1):  # noqa: B007 - the count is reported
        state.linearize()
        if not np.any(state.still_active()):
            break
        state.step()
    return state.result(iteration, perf_counter() - clock)


# --8<-- [end:loop]


class _State:
    """The state of the iteration; arrays have a leading axis over problems."""

    def __init__(
        self,
        people: People,
        loss: Loss,
        metric_radius: Array,
        ideal_radius: Array,
        norm: str,
        tolerance: float,
        start: BarrierResult | None,
        only: NDArray[np.bool_] | None,
    ) -> None:
        n, r = people.n_problems, people.rank
        self.people, self.loss, self.tolerance = people, loss, tolerance
        weight, persons, rows, length = totals_of(people)
        self.active = weight > 0
        self.weight = np.where(self.active, weight, 1.0)
        self.degree = persons + (0.0 if loss.is_smooth else 2.0 * rows) + r + 1.0
        self.mu = (INITIAL_LEVEL if start is None else WARM_LEVEL) * self.weight / self.degree
        bound = BOUNDS[norm]
        if start is None:
            # where ψ is of order one, well inside the bound
            size = np.minimum(0.3 * metric_radius / bound.size(svec(np.eye(r))), 1.0 / length)
            A = size[:, None, None] * np.eye(r)
        else:
            A = _inside(start.metrics, metric_radius / bound.size(svec(start.metrics)))
        self.A = A
        self.blocks = []
        for b in people:
            radius = ideal_radius[b.problem]
            w = None if start is None else _shrunk(start.pseudo_ideal_points[b.person], radius)
            self.blocks.append(BoundedBlock(b, loss, radius, self.mu[b.problem], w))
        self.gap = np.where(self.active, np.inf, 0.0)
        if only is not None:
            self.active = self.active & only
        # the cone holds only problems that are not finished
        self.alive = alive = np.flatnonzero(self.active)
        self.cone = MetricCone(A[alive], bound, metric_radius[alive], self.mu[alive])
        # the best certified point so far, which is returned in any case
        self.best_gap = self.gap.copy()
        self.best_metrics = A.copy()
        self.best_points = np.zeros((people.n_people, r))
        self.information = BarrierSums.zeros(n, r).schur
        self.idle = np.zeros(n, dtype=int)
        self.short = np.zeros(n, dtype=int)
        self.least = np.full(n, LEAST_SHARE)

    def working(self) -> list[BoundedBlock]:
        """Return the blocks with a problem that is not finished."""
        return [block for block in self.blocks if np.any(self.active[block.block.problems])]

    def linearize(self) -> None:
        """Sum over people: merit, certificate and eliminated Newton system at the current point."""
        self.sums = sums = BarrierSums.zeros(self.people.n_problems, self.people.rank)
        self.merit, gap = np.zeros((2, self.people.n_problems))
        for block in self.working():
            merit, person_gap = block.linearize(self.A, self.mu[block.block.problem])
            block.eliminate(sums)
            sum_over_problems(block.block, merit, self.merit)
            sum_over_problems(block.block, person_gap, gap)
        self.cone.linearize(self.mu[self.alive])
        self.merit[self.alive] += self.cone.merit()
        gap[self.alive] += self.cone.gap(sums.gradient[self.alive])
        self.gap = np.where(self.active, np.maximum(gap / self.weight, 0.0), self.gap)
        self._keep_best()

    def _keep_best(self) -> None:
        better = self.active & (self.gap < self.best_gap)
        self.idle = np.where(better, 0, self.idle + 1)
        self.best_gap[better] = self.gap[better]
        self.best_metrics[better] = self.A[better]
        self.information[better] = self.sums.schur[better]
        for block in self.working():
            chosen = better[block.block.problem]
            self.best_points[block.block.person[chosen]] = block.points[chosen]

    def still_active(self) -> NDArray[np.bool_]:
        """Retire the problems that are solved, or that rounding keeps from improving, and return the others."""
        finished = self.active & ~((self.gap > self.tolerance) & (self.idle < PATIENCE))
        if np.any(finished):
            self.active = self.active & ~finished
            self.cone.keep(self.active[self.alive])
            self.alive = np.flatnonzero(self.active)
        return self.active

    def step(self) -> None:
        """Take one Newton step in every problem that is not finished, and lower μ where it went well."""
        alive = self.alive
        dA, (slope, longest) = np.zeros_like(self.A), np.zeros((2, self.active.size))
        dA[alive] = self.cone.solve(self.sums.schur[alive], self.sums.reduced[alive])
        slope[alive], longest[alive], longest_dual = self.cone.direction()
        common = longest.copy()  # the largest step that everybody can take; it is guaranteed to descend
        for block in self.working():
            person_slope, person_longest = block.direction(dA)
            problems, starts = block.block.problems, block.block.starts
            sum_over_problems(block.block, person_slope, slope)
            common[problems] = np.minimum(common[problems], np.minimum.reduceat(person_longest, starts))
        # slacks of the hinge must move with the metric; smooth losses allow any move
        longest = longest if self.loss.is_smooth else common
        alpha = self._search(longest, common * slope)
        for block in self.working():
            block.advance(alpha[block.block.problem])
        self.cone.advance(alpha[alive], longest_dual)
        self.A[alive] = self.cone.A
        self._lower_mu(alpha)

    def _lower_mu(self, alpha: Array) -> None:
        """Lower μ after a long step from a point near the central path; raise it after several short steps.

        On the path the certified gap is at most ``level = μ · degree / weight``.
        """
        level = self.mu * self.degree / self.weight
        ready = self.active & (alpha > 0.5) & (self.gap < 2.0 * level)
        self.mu = np.where(ready, self.mu * lower_level(level, self.tolerance, self.least) / level, self.mu)
        if not self.loss.is_smooth:  # steps are short because all slacks move together, which is temporary
            return
        self.short = np.where(alpha < SHORT, self.short + 1, 0)
        stuck = self.active & (self.short >= SHORT_STEPS)
        raised = np.clip(self.best_gap / level, 1.0, RAISED)
        self.mu, self.short = np.where(stuck, raised * self.mu, self.mu), np.where(stuck, 0, self.short)
        self.least = np.where(stuck, CAREFUL, self.least)

    def _search(self, alpha: Array, promise: Array) -> Array:
        """Halve each problem's step until its merit falls by 1e−4 of what the common step predicts."""
        noise = 1e-12 * (1.0 + np.abs(self.merit))  # differences of sums below this are rounding
        pending = self.active.copy()
        for _ in range(30):
            merit = np.zeros(alpha.size)
            merit[self.alive] = self.cone.merit(alpha[self.alive])
            for block in self.working():
                if np.any(pending[block.block.problems]):
                    sum_over_problems(block.block, block.merit(alpha[block.block.problem]), merit)
            pending &= ~(merit <= self.merit + 1e-4 * alpha * promise + noise)
            if not np.any(pending):
                break
            alpha = np.where(pending, 0.5 * alpha, alpha)
        return alpha

    def result(self, iterations: int, seconds: float) -> BarrierResult:
        """Return the best points, with the loss itself (without barrier) as the objective."""
        objective = total_loss(self.people, self.loss, self.best_metrics, self.best_points)
        return BarrierResult(
            metrics=self.best_metrics,
            pseudo_ideal_points=self.best_points,
            objective=objective / self.weight,
            gap=self.best_gap,
            information=project_psd(self.information),
            converged=self.best_gap <= self.tolerance,
            iterations=iterations,
            seconds=seconds,
        )


def total_loss(people: People, loss: Loss, metrics: Array, points: Array) -> Array:
    """Return each problem's total loss (n,) under metrics (n, r, r) with people at points (K, r)."""
    total = np.zeros(people.n_problems)
    for b in people:
        psi = bilinear(b.delta, metrics[b.problem], b.total) + np.einsum("pmi,pi->pm", b.delta, points[b.person])
        sum_over_problems(b, (b.weight * loss.value(psi, b.response)).sum(axis=1), total)
    return total


def lower_level(level: Array, tolerance: float, least: Array | float = LEAST_SHARE) -> Array:
    """Return the next gap to aim at: a fifth at first, less near the end, never below what the tolerance needs."""
    return np.minimum(level, np.maximum(level * np.clip(np.sqrt(level), least, MOST_SHARE), 0.3 * tolerance))


def _inside(A: Array, room: Array) -> Array:
    """Return metrics near A strictly inside cone and bound: shrunk into the radius and mixed with the identity."""
    trace = np.trace(A, axis1=-2, axis2=-1) / A.shape[-1]
    mixed = 0.9 * A + (0.1 * trace)[:, None, None] * np.eye(A.shape[-1])
    return np.minimum(1.0, 0.9 * room)[:, None, None] * mixed


def _shrunk(w: Array, radius: Array) -> Array:
    size = np.linalg.norm(w, axis=1)
    return w * np.minimum(1.0, 0.9 * radius / np.where(size > 0, size, 1.0))[:, None]


def totals_of(people: People) -> tuple[Array, Array, Array, Array]:
    """Return each problem's total weight, number of people, number of answers and typical ``‖δ‖‖s‖``, (n,) each."""
    weight, persons, rows, length = np.zeros((4, people.n_problems))
    for b in people:
        size = np.sqrt(np.sum(b.delta**2, axis=2) * np.sum(b.total**2, axis=2))
        sum_over_problems(b, b.weight.sum(axis=1), weight)
        sum_over_problems(b, np.ones(b.person.size), persons)
        sum_over_problems(b, (b.weight > 0).sum(axis=1).astype(float), rows)
        sum_over_problems(b, (b.weight * size).sum(axis=1), length)
    safe = np.where(weight > 0, weight, 1.0)
    return weight, persons, rows, np.where(length > 0, length / safe, 1.0)
