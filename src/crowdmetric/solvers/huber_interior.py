"""Huber regression by an interior point, for matrices that can be factorised (Mehrotra's predictor and corrector)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from crowdmetric.solvers.huber_problem import Best, Problem
from crowdmetric.solvers.rows import gram

__all__ = ["interior_point"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Point:
    """A primal–dual point, or a step between two.

    With r = Xa − q and the distances to the boundary of C, ``s⁺ = b − u, s⁻ = b + u, s = N − ‖u‖²``, the
    optimum has::

        αa + Xᵀu = 0        r = σu + w⁺ − w⁻        w⁺s⁺ = w⁻s⁻ = 0        σs = 0
    """

    a: Array  # (p,)
    sigma: float  # multiplier of the ball
    u: Array  # (n,)
    above: Array  # w⁺ (n,), multiplier of u ≤ b
    below: Array  # w⁻ (n,), multiplier of −u ≤ b

    def moved(self, step: _Point, length: float) -> _Point:
        return _Point(
            self.a + length * step.a,
            self.sigma + length * step.sigma,
            self.u + length * step.u,
            self.above + length * step.above,
            self.below + length * step.below,
        )


@dataclass(frozen=True)
class _Target:
    """What a Newton step aims at: the complementarity products, and the second-order term of ``σu``."""

    above: Array | float
    below: Array | float
    ball: float
    bilinear: Array | float = 0.0


def interior_point(problem: Problem, tolerance: float, max_iterations: int) -> Best:
    """Follow the central path by Mehrotra's predictor and corrector.

    A dozen steps reach the limits of rounding, where a factorisation fails or numbers cease to be finite: the
    best point is kept, and the certificate, not the way the loop ended, says how good it is.
    """
    point = _start(problem)
    best = Best(point.a)
    with np.errstate(all="ignore"):
        while best.iterations < max_iterations:
            best = best.update(problem, point.a, point.u)
            if best.reached(tolerance) or best.stale >= 3:
                break
            following = _advance(problem, point)
            if following is None:
                break
            point = following
    return best


def _start(problem: Problem) -> _Point:
    """Return the ridge fit, with a scale so large that u is well inside C."""
    p = problem.rows.shape[1]
    G = gram(problem.rows)
    G.flat[:: p + 1] += problem.alpha + 1e-12 * np.max(np.diagonal(G), initial=0.0)
    factor, _ = dpotrf(G, lower=1)
    a, _ = dpotrs(factor, problem.rows.adjoint(problem.q), lower=1)
    r = problem.rows.forward(a) - problem.q
    sigma = max(
        2.0 * float(np.max(np.abs(r) / problem.bound)),
        1.5 * float(np.linalg.norm(r)) / np.sqrt(problem.total),
        1e-3,
    )
    w = np.full(r.size, 0.3 * sigma)
    return _Point(a, sigma, r / sigma, w, w)


def _advance(problem: Problem, point: _Point) -> _Point | None:
    """Return the next point, or None where rounding allows no further step."""
    newton = _Newton(problem, point)
    if not newton.factorise():
        return None
    # The predictor aims at the optimum itself; how far it gets tells how much centring the step needs.
    plain = newton.step(_Target(0.0, 0.0, 0.0))
    reached = _Newton(problem, point.moved(plain, newton.longest(plain))).mu
    mu = newton.mu * (reached / newton.mu) ** 3
    step = newton.step(
        _Target(
            above=mu + plain.above * plain.u,
            below=mu - plain.below * plain.u,
            ball=mu + 2.0 * plain.sigma * float(point.u @ plain.u) + point.sigma * float(plain.u @ plain.u),
            bilinear=plain.sigma * plain.u,
        )
    )
    # Close to the boundary at first, ever closer at the end, for superlinear convergence.
    length = min(1.0, max(0.95, 1.0 - newton.mu) * newton.longest(step))
    return point.moved(step, length) if np.isfinite(length) and length > 0.0 else None


class _Newton:
    """The linearised optimality conditions at one point.

    Eliminating the multipliers leaves, with ``D = σ + w⁺/s⁺ + w⁻/s⁻`` and h the second condition's residual,

        du = (X da − u dσ + h) / D
        [XᵀD⁻¹X + αI      −XᵀD⁻¹u        ] [da]   [−ρ − XᵀD⁻¹h        ]         ρ = αa + Xᵀu
        [−uᵀD⁻¹X          uᵀD⁻¹u + s/(2σ)] [dσ] = [uᵀD⁻¹h + c/(2σ)    ]         c = target − σs

    so the scale is one more coefficient, with −u for its column, and the matrix is positive definite.
    """

    def __init__(self, problem: Problem, point: _Point) -> None:
        self.problem, self.point = problem, point
        self.upper, self.lower = problem.bound - point.u, problem.bound + point.u
        self.room = problem.total - float(point.u @ point.u)
        products = float(point.above @ self.upper + point.below @ self.lower)
        # The gap of a feasible point, shared out among the 4n + 1 products it is the sum of.
        self.mu = (2.0 * products + point.sigma * self.room) / (4.0 * point.u.size + 1.0)

    def factorise(self) -> bool:
        """Factorise the system; False where it is not positive definite to working precision."""
        problem, point = self.problem, self.point
        p = point.a.size
        self.weight = 1.0 / (point.sigma + point.above / self.upper + point.below / self.lower)
        H = np.empty((p + 1, p + 1))
        H[:p, :p] = gram(problem.rows, self.weight)
        H.flat[: p * (p + 1) : p + 2] += problem.alpha
        H[p, :p] = -problem.rows.adjoint(self.weight * point.u)
        H[p, p] = point.u @ (self.weight * point.u) + self.room / (2.0 * point.sigma)
        if not np.isfinite(H[p, p]):
            return False
        # The transpose is in the order LAPACK wants; only the triangle that was filled is read.
        self.factor, info = dpotrf(H.T, lower=0, clean=0, overwrite_a=1)
        self.dual_residual = problem.alpha * point.a + problem.rows.adjoint(point.u)
        self.residual = problem.rows.forward(point.a) - problem.q - point.sigma * point.u - point.above + point.below
        return info == 0

    def step(self, target: _Target) -> _Point:
        """Return the Newton step towards `target`."""
        point, rows, p = self.point, self.problem.rows, self.point.a.size
        above = target.above - point.above * self.upper
        below = target.below - point.below * self.lower
        ball = (target.ball - point.sigma * self.room) / (2.0 * point.sigma)
        h = self.residual - target.bilinear - above / self.upper + below / self.lower
        right = np.empty(p + 1)
        right[:p] = -self.dual_residual - rows.adjoint(self.weight * h)
        right[p] = point.u @ (self.weight * h) + ball
        solved, _ = dpotrs(self.factor, right, lower=0)
        da, dsigma = solved[:p], float(solved[p])
        du = self.weight * (rows.forward(da) - point.u * dsigma + h)
        return _Point(
            da,
            dsigma,
            du,
            (above + point.above * du) / self.upper,
            (below - point.below * du) / self.lower,
        )

    def longest(self, step: _Point) -> float:
        """Return the largest length, at most 1, that keeps multipliers and distances non-negative."""
        point = self.point
        fastest = max(
            float(np.max(-step.above / point.above)),
            float(np.max(-step.below / point.below)),
            float(np.max(step.u / self.upper)),
            float(np.max(-step.u / self.lower)),
            -step.sigma / point.sigma,
            1.0,
        )
        # ‖u + t du‖² = N is a quadratic equation in t with one positive root, written without cancellation.
        square, mixed = float(step.u @ step.u), float(point.u @ step.u)
        to_ball = self.room / (mixed + np.sqrt(mixed**2 + square * self.room)) if square > 0.0 else np.inf
        return min(1.0 / fastest, to_ball)
