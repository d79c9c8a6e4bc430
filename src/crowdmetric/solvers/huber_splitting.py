"""Huber regression by operator splitting, for maps that can only be applied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from crowdmetric.solvers.huber_problem import Best, Problem
from crowdmetric.solvers.linear_maps import LinearMap

__all__ = ["splitting"]

Array = NDArray[np.float64]

# Rounds between two computations of the certificate, and the maximum number of conjugate-gradient steps per round.
LOOK_EVERY = 5
INNER_STEPS = 40
OVERRELAXATION = 1.6


def splitting(problem: Problem, tolerance: float, max_iterations: int) -> Best:
    """Alternate between the coefficients and the residuals r, which become variables of their own (ADMM).

    With step τ, each round is::

        a = argmin ‖Xa − q − r + τu‖² + ατ‖a‖²       conjugate gradients, started at the last a
        v = Xa − q + τu,   u = the point of C nearest to v/τ,   r = v − τu

    The lower bound comes from ``u + (Xa − q − r)/τ``, which satisfies αa + Xᵀu = 0 up to the accuracy of the inner
    solve.
    """
    rows, q, alpha = problem.rows, problem.q, float(problem.alpha)
    a = np.zeros(rows.shape[1])
    a = _conjugate_gradients(rows, alpha, rows.adjoint(q), a, tolerance=1e-4, max_steps=10 * INNER_STEPS)
    fitted = rows.forward(a) - q
    tau = max(2.0 * float(np.linalg.norm(fitted)) / np.sqrt(problem.total), 1e-6)
    u, r = problem.project(fitted / tau), fitted
    best, change = Best.nothing(a).update(problem, a, problem.shrink_into(u)), float(np.linalg.norm(fitted))
    for iteration in range(1, max_iterations + 1):
        right = rows.adjoint(q + r - tau * u)
        accuracy = 0.1 * change / float(np.linalg.norm(right))
        a = _conjugate_gradients(rows, alpha * tau, right, a, tolerance=accuracy, max_steps=INNER_STEPS)
        fitted = rows.forward(a) - q
        if iteration % LOOK_EVERY == 0 or iteration == max_iterations:
            best = best.update(problem, a, problem.shrink_into(u + (fitted - r) / tau))
            if best.reached(tolerance):
                break
        v = OVERRELAXATION * fitted + (1.0 - OVERRELAXATION) * r + tau * u
        u = problem.project(v / tau)
        r, last = v - tau * u, r
        change = max(float(np.linalg.norm(fitted - r)), float(np.linalg.norm(r - last)))
    return replace(best, iterations=np.asarray(iteration))


def _conjugate_gradients(
    rows: LinearMap, shift: float, right: Array, a: Array, *, tolerance: float, max_steps: int
) -> Array:
    """Solve ``(XᵀX + shift I) a = right`` from `a` until the residual is `tolerance` × ``‖right‖``."""
    residual = right - rows.adjoint(rows.forward(a)) - shift * a
    direction, square = residual, float(residual @ residual)
    goal = (tolerance * float(np.linalg.norm(right))) ** 2
    for _ in range(max_steps):
        if square <= goal:
            break
        image = rows.adjoint(rows.forward(direction)) + shift * direction
        length = square / float(direction @ image)
        a = a + length * direction
        residual = residual - length * image
        square, last = float(residual @ residual), square
        direction = residual + (square / last) * direction
    return a
