"""Logistic regression over symmetric or positive semi-definite matrices, with a certified gap.

::

    min   f(a) + ½τ‖a‖²        f(a) = Σ c log(1 + exp(−m)),  m linear in a = svec(A);   A symmetric, or A ⪰ 0

Symmetric: Newton's method. If its answer is positive semi-definite it is the answer to both problems; otherwise a
primal–dual interior point in the cone (`cone.py`), from there.

**Certificate.** f is convex, so its tangent at a is below it. With G the gradient of f, minimizing tangent plus ridge
over all symmetric (or all positive semi-definite) matrices has a closed form, and

    gap = ‖G + τA‖² / 2τ                        symmetric
    gap = ⟨G, A⟩ + ½τ‖A‖² + ‖(−G)₊‖² / 2τ       positive semi-definite

bounds the distance to the optimum. τ is at least the share FLOOR of the largest curvature. So directions that no answer
depends on are zero, as in the solution of least norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from crowdmetric.solvers.cone import MetricCone, NoBound
from crowdmetric.symmetric import degrees_of_freedom, smat, svec

__all__ = ["LogisticResult", "LogisticSum", "solve_logistic"]

Array = NDArray[np.float64]

# Smallest ridge, as a share of the largest curvature at zero.
FLOOR = 1e-9
# If an eigenvalue of the curvature at zero is below this share of the largest, no answer depends on its direction.
UNSEEN = 1e-8
# If the curvature falls to this share of its value at zero, every answer that depends on the direction is certain.
CERTAIN = 1e-6


class LogisticSum(Protocol):
    """A sum of logistic losses of linear functions of svec(A)."""

    @property
    def dimension(self) -> int:
        """Size of A."""
        ...

    @property
    def total_weight(self) -> float:
        """Σ c."""
        ...

    def value(self, a: Array) -> float:
        """Return f."""
        ...

    def gradient(self, a: Array) -> Array:
        """Return ∇f (p,)."""
        ...

    def hessian(self, a: Array) -> Array:
        """Return ∇²f (p, p)."""
        ...


@dataclass(frozen=True)
class LogisticResult:
    """The optimum and what is known about it.

    Attributes
    ----------
    metric, symmetric
        (d, d) the answer, and the answer without the cone; the same where the cone is not active.
    objective, gap
        Mean loss (with the ridge) at `metric`, and the certified bound on its distance to the optimum.
    information
        (p, p) ``∇²f`` at `symmetric`.
    ridge
        τ.
    unseen
        (k, p) directions that no answer depends on.
    certain
        (k, p) directions along which `metric` diverges: every answer that depends on them is predicted with certainty,
        so without a ridge there is no optimum.
    symmetric_exists
        Whether `symmetric` does not diverge.
    converged, iterations, seconds
        Whether gap ≤ tolerance; the number of iterations and the time.
    """

    metric: Array
    symmetric: Array
    objective: float
    gap: float
    information: Array
    ridge: float
    unseen: Array
    certain: Array
    symmetric_exists: bool
    converged: bool
    iterations: int
    seconds: float


def solve_logistic(
    objective: LogisticSum, *, psd: bool, ridge: float = 0.0, tolerance: float = 1e-8, max_iterations: int = 200
) -> LogisticResult:
    """Minimize to a certified gap of `tolerance` in mean loss.

    Parameters
    ----------
    objective
        f.
    psd
        Whether A must be positive semi-definite.
    ridge
        τ, for a sum (not a mean) of losses: equals a Gaussian prior of variance 1/τ on each entry.
    """
    clock = perf_counter()
    flat = objective.hessian(np.zeros(degrees_of_freedom(objective.dimension)))
    values, vectors = np.linalg.eigh(flat)
    tau = max(ridge, FLOOR * values[-1])
    problem = _Problem(objective, tau, tolerance * objective.total_weight)
    free = _newton(problem, max_iterations)
    seen = values > UNSEEN * values[-1]
    scaled = vectors[:, seen] / np.sqrt(values[seen])
    information = objective.hessian(free.a)
    free_certain = _certain(scaled, information)
    best, certain, iterations = free, free_certain, free.iterations
    if psd and np.linalg.eigvalsh(smat(free.a))[0] < 0.0:
        best = _interior(problem, None if len(free_certain) else free.a, max_iterations)
        certain = _certain(scaled, objective.hessian(best.a))
        iterations += best.iterations
    return LogisticResult(
        metric=smat(best.a),
        symmetric=smat(free.a),
        objective=problem.value(best.a) / objective.total_weight,
        gap=best.gap / objective.total_weight,
        information=information,
        ridge=tau,
        unseen=vectors[:, ~seen].T,
        certain=certain,
        symmetric_exists=not len(free_certain),
        converged=best.gap <= problem.tolerance,
        iterations=iterations,
        seconds=perf_counter() - clock,
    )


@dataclass(frozen=True)
class _Problem:
    """f with its ridge; tolerance is of the sum."""

    f: LogisticSum
    tau: float
    tolerance: float

    def value(self, a: Array) -> float:
        return self.f.value(a) + 0.5 * self.tau * float(a @ a)

    def system(self, a: Array) -> Array:
        H = self.f.hessian(a)
        H[np.diag_indices_from(H)] += self.tau
        return H


@dataclass(frozen=True)
class _Point:
    a: Array
    gap: float
    iterations: int


def _newton(problem: _Problem, max_iterations: int) -> _Point:
    """Return the optimum over symmetric matrices."""
    a = np.zeros(degrees_of_freedom(problem.f.dimension))
    value, best = problem.value(a), _Point(a, np.inf, 0)
    for iteration in range(1, max_iterations + 1):
        slope = problem.f.gradient(a) + problem.tau * a
        gap = float(slope @ slope) / (2.0 * problem.tau)
        if gap < best.gap:
            best = _Point(a, gap, iteration)
        if gap <= problem.tolerance:
            break
        step = -cho_solve(cho_factor(problem.system(a)), slope)
        promise = float(slope @ step)
        alpha, noise = 1.0, 1e-13 * abs(value)
        while (new := problem.value(a + alpha * step)) > value + 1e-4 * alpha * promise + noise and alpha > 1e-6:
            alpha *= 0.5
        if alpha <= 1e-6:
            break  # rounding prevents further progress
        a, value = a + alpha * step, new
    return _Point(best.a, best.gap, iteration)


def _interior(problem: _Problem, start: Array | None, max_iterations: int) -> _Point:
    """Return the optimum over positive semi-definite matrices.

    μ is divided by five after every long step, until its part of the gap, μd, is a tenth of the tolerance.
    """
    d = problem.f.dimension
    lowest = 0.1 * problem.tolerance / d
    mu = np.array([max(1e-3 * problem.f.total_weight / d, lowest)])
    cone = MetricCone(_inside_cone(start, d)[None], NoBound, np.array([np.inf]), mu)
    best = _Point(svec(cone.A[0]), np.inf, 0)
    for iteration in range(1, max_iterations + 1):
        a = svec(cone.A[0])
        gradient = problem.f.gradient(a)
        gap = _cone_gap(gradient, a, problem.tau)
        if gap < best.gap:
            best = _Point(a, gap, iteration)
        if gap <= problem.tolerance:
            break
        cone.linearize(mu)
        slope = gradient + problem.tau * a
        cone.solve(problem.system(a)[None], -slope[None])
        barrier_slope, primal, dual = cone.direction()
        promise = float(slope @ cone.da[0] + barrier_slope[0])
        merit = problem.value(a) + float(cone.merit()[0])
        alpha, noise = primal.copy(), 1e-13 * abs(merit)
        for _ in range(30):
            new = problem.value(a + alpha[0] * cone.da[0]) + float(cone.merit(alpha)[0])
            if new <= merit + 1e-4 * alpha[0] * promise + noise:
                break
            alpha *= 0.5
        cone.advance(alpha, dual)
        if alpha[0] > 0.5:
            mu = np.maximum(0.2 * mu, lowest)
    return _Point(best.a, best.gap, iteration)


def _inside_cone(start: Array | None, d: int) -> Array:
    """Return a positive definite matrix near the start: its positive part, mixed with the identity."""
    if start is None:
        return np.eye(d)
    values, vectors = np.linalg.eigh(smat(start))
    values = np.maximum(values, 0.05 * max(float(np.abs(values).max()), 1e-12))
    inside: Array = (vectors * values) @ vectors.T
    return inside


def _cone_gap(gradient: Array, a: Array, tau: float) -> float:
    """Return ``⟨G, A⟩ + ½τ‖A‖² + ‖(−G)₊‖²/2τ``."""
    negative = np.minimum(np.linalg.eigvalsh(smat(gradient)), 0.0)
    return float(gradient @ a + 0.5 * tau * (a @ a) + (negative @ negative) / (2.0 * tau))


def _certain(scaled: Array, information: Array) -> Array:
    """Return the directions (k, p) whose curvature has nearly vanished; `scaled` (p, q) has unit curvature at zero."""
    values, vectors = np.linalg.eigh(scaled.T @ information @ scaled)
    directions = (scaled @ vectors[:, values < CERTAIN]).T
    unit: Array = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return unit
