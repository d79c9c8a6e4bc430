"""Huber regression by an interior point, for matrices that can be factorized (Mehrotra's predictor and corrector).

Problems of one shape are solved side by side: arrays have a leading axis over B problems, and each problem has
its own step length, certificate and end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from crowdmetric.solvers.huber_problem import Best, Problem
from crowdmetric.solvers.linear_maps import gram
from crowdmetric.users.ball import dot

__all__ = ["interior_point"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class _Iterate:
    """A primal–dual point of every problem, or a step between two.

    With r = Xa − q and the distances to the boundary of C, ``s⁺ = b − u, s⁻ = b + u, s = N − ‖u‖²``, the
    optimum has::

        αa + Xᵀu = 0        r = σu + w⁺ − w⁻        w⁺s⁺ = w⁻s⁻ = 0        σs = 0
    """

    a: Array  # (B, p)
    sigma: Array  # (B,), multiplier of the ball
    u: Array  # (B, n)
    above: Array  # w⁺ (B, n), multiplier of u ≤ b
    below: Array  # w⁻ (B, n), multiplier of −u ≤ b

    def moved(self, step: _Iterate, length: Array) -> _Iterate:
        far = length[:, None]
        return _Iterate(
            self.a + far * step.a,
            self.sigma + length * step.sigma,
            self.u + far * step.u,
            self.above + far * step.above,
            self.below + far * step.below,
        )

    def take(self, which: Mask) -> _Iterate:
        return _Iterate(*(value[which] for value in vars(self).values()))


@dataclass(frozen=True)
class _Target:
    """Target of a Newton step: the complementarity products, and the second-order term of ``σu``."""

    above: Array | float
    below: Array | float
    ball: Array | float
    bilinear: Array | float = 0.0


def interior_point(problem: Problem, tolerance: float, max_iterations: int) -> Best:
    """Follow the central paths by Mehrotra's predictor and corrector.

    A dozen steps reach the limits of rounding, where a factorization fails or numbers are no longer finite. The best
    point is kept, and the certificate says how good it is.

    Parameters
    ----------
    problem
        A stack of B problems.
    tolerance
        Gap relative to the objective at which a problem is finished.
    """
    point = _start(problem)
    ended = Best.nothing(point.a.copy())
    best, which = ended, np.arange(len(point.a))
    with np.errstate(all="ignore"):
        for _ in range(max_iterations):
            best = best.update(problem, point.a, point.u)
            ended.put(which, best)
            going = ~(best.reached(tolerance) | (best.stale >= 3))
            problem, point, best, which = _only(going, problem, point, best, which)
            if which.size == 0:
                break
            point, going = _advance(problem, point)
            problem, point, best, which = _only(going, problem, point, best, which)
    return ended


def _only(
    going: Mask, problem: Problem, point: _Iterate, best: Best, which: NDArray[np.intp]
) -> tuple[Problem, _Iterate, Best, NDArray[np.intp]]:
    """Keep only the problems that have not ended."""
    if np.all(going):
        return problem, point, best, which
    return problem.take(going), point.take(going), best.take(going), which[going]


def _start(problem: Problem) -> _Iterate:
    """Return the ridge fit, with a scale so large that u is well inside C."""
    G = gram(problem.rows)
    diagonal = np.einsum("bii->bi", G)
    diagonal += (problem.alpha + 1e-12 * np.max(diagonal, axis=1, initial=0.0))[:, None]
    factors, _ = _factors(G)
    a = _solve(factors, problem.rows.adjoint(problem.q))
    r = problem.rows.forward(a) - problem.q
    sigma = np.maximum(
        np.maximum(
            2.0 * np.max(np.abs(r) / problem.bound, axis=1),
            1.5 * np.sqrt(dot(r, r) / problem.total),
        ),
        1e-3,
    )
    w = np.repeat(0.3 * sigma[:, None], r.shape[1], axis=1)
    return _Iterate(a, sigma, r / sigma[:, None], w, w)


def _advance(problem: Problem, point: _Iterate) -> tuple[_Iterate, Mask]:
    """Return the next points, and which of them are valid: False where rounding prevents a further step."""
    newton = _Newton(problem, point)
    sound = newton.factorize()
    # The predictor aims at the optimum itself. The length of its step determines how much centering is needed.
    plain = newton.step(_Target(0.0, 0.0, 0.0))
    reached = _Newton(problem, point.moved(plain, newton.longest(plain))).mu
    mu = newton.mu * (reached / newton.mu) ** 3
    step = newton.step(
        _Target(
            above=mu[:, None] + plain.above * plain.u,
            below=mu[:, None] - plain.below * plain.u,
            ball=mu + 2.0 * plain.sigma * dot(point.u, plain.u) + point.sigma * dot(plain.u, plain.u),
            bilinear=plain.sigma[:, None] * plain.u,
        )
    )
    # Close to the boundary at first, ever closer at the end, for superlinear convergence.
    length = np.minimum(1.0, np.maximum(0.95, 1.0 - newton.mu) * newton.longest(step))
    return point.moved(step, length), sound & np.isfinite(length) & (length > 0.0)


class _Newton:
    """The linearized optimality conditions at one point of every problem.

    Eliminating the multipliers leaves, with ``D = σ + w⁺/s⁺ + w⁻/s⁻`` and h the second condition's residual,

        du = (X da − u dσ + h) / D
        [XᵀD⁻¹X + αI      −XᵀD⁻¹u        ] [da]   [−ρ − XᵀD⁻¹h        ]         ρ = αa + Xᵀu
        [−uᵀD⁻¹X          uᵀD⁻¹u + s/(2σ)] [dσ] = [uᵀD⁻¹h + c/(2σ)    ]         c = target − σs

    so the scale is one more coefficient, with −u for its column, and the matrix is positive definite.
    """

    def __init__(self, problem: Problem, point: _Iterate) -> None:
        self.problem, self.point = problem, point
        self.upper, self.lower = problem.bound - point.u, problem.bound + point.u
        self.room = problem.total - dot(point.u, point.u)
        products = dot(point.above, self.upper) + dot(point.below, self.lower)
        # The gap of a feasible point, divided among the 4n + 1 products whose sum it is.
        self.mu = (2.0 * products + point.sigma * self.room) / (4.0 * point.u.shape[1] + 1.0)

    def factorize(self) -> Mask:
        """Factorize the systems; False if one is not positive definite to working precision."""
        problem, point, rows = self.problem, self.point, self.problem.rows
        B, p = point.a.shape
        alpha, sigma = np.reshape(problem.alpha, (-1, 1)), point.sigma[:, None]
        self.weight = 1.0 / (sigma + point.above / self.upper + point.below / self.lower)
        weighted = self.weight * point.u
        H = np.empty((B, p + 1, p + 1))
        H[:, :p, :p] = gram(rows, self.weight)
        np.einsum("bii->bi", H[:, :p, :p])[:] += alpha
        H[:, p, :p] = -rows.adjoint(weighted)
        H[:, p, p] = dot(point.u, weighted) + self.room / (2.0 * point.sigma)
        self.factor, sound = _factors(H)
        self.dual_residual = alpha * point.a + rows.adjoint(point.u)
        self.residual = rows.forward(point.a) - problem.q - sigma * point.u - point.above + point.below
        return sound

    def step(self, target: _Target) -> _Iterate:
        """Return the Newton step toward `target`."""
        point, rows, p = self.point, self.problem.rows, self.point.a.shape[1]
        above = target.above - point.above * self.upper
        below = target.below - point.below * self.lower
        ball = (target.ball - point.sigma * self.room) / (2.0 * point.sigma)
        h = self.residual - target.bilinear - above / self.upper + below / self.lower
        weighted = self.weight * h
        right = np.empty((len(point.a), p + 1))
        right[:, :p] = -self.dual_residual - rows.adjoint(weighted)
        right[:, p] = dot(point.u, weighted) + ball
        solved = _solve(self.factor, right)
        da, dsigma = solved[:, :p], solved[:, p]
        du = self.weight * (rows.forward(da) - point.u * dsigma[:, None] + h)
        return _Iterate(
            da,
            dsigma,
            du,
            (above + point.above * du) / self.upper,
            (below - point.below * du) / self.lower,
        )

    def longest(self, step: _Iterate) -> Array:
        """Return the largest lengths, at most 1, that keep multipliers and distances non-negative."""
        point = self.point
        rates = np.concatenate(
            [
                -step.above / point.above,
                -step.below / point.below,
                step.u / self.upper,
                -step.u / self.lower,
                (-step.sigma / point.sigma)[:, None],
            ],
            axis=1,
        )
        fastest = np.maximum(rates.max(axis=1), 1.0)
        # ‖u + t du‖² = N is a quadratic equation in t with one positive root, written without cancellation.
        square, mixed = dot(step.u, step.u), dot(point.u, step.u)
        to_ball = np.where(square > 0.0, self.room / (mixed + np.sqrt(mixed**2 + square * self.room)), np.inf)
        return np.minimum(1.0 / fastest, to_ball)


def _factors(H: Array) -> tuple[list[Any], Mask]:
    """Return Cholesky factors of H (B, p, p), from the lower triangles, and which of them exist."""
    factors, sound = [], np.zeros(len(H), dtype=bool)
    for i, matrix in enumerate(H):
        finite = bool(np.isfinite(matrix[-1, -1]))
        # The transpose is in the order LAPACK wants; only the triangle that was filled is read.
        factor, info = dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1) if finite else (None, 1)
        sound[i] = info == 0
        factors.append(factor if info == 0 else None)
    return factors, sound


def _solve(factors: list[Any], right: Array) -> Array:
    """Return the solutions (B, p); not-a-number where there is no factor."""
    out = np.full(right.shape, np.nan)
    for i, factor in enumerate(factors):
        if factor is not None:
            out[i], _ = dpotrs(factor, right[i], lower=0)
    return out
