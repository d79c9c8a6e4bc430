"""The Huber problem and its dual: the two values that enclose the optimum (see `huber.py` for the formulas)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdmetric.solvers.rows import Rows

__all__ = ["Best", "Problem", "scale_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """The data, in the √m coordinates, and the two values that enclose the optimum."""

    rows: Rows
    q: Array
    bound: Array  # b = ε√m
    total: float  # N
    alpha: float

    def primal(self, a: Array) -> tuple[float, float]:
        """Return the objective at `a`, minimised over the scale, and that scale."""
        r = self.rows.forward(a) - self.q
        sigma = scale_of(r, self.bound, self.total)
        size = np.abs(r)
        linear = self.bound * (2.0 * size - self.bound * sigma)
        if sigma == 0.0:
            loss = float(linear.sum())
        else:
            loss = float(np.where(size < self.bound * sigma, r * r / sigma, linear).sum()) + self.total * sigma
        return loss + self.alpha * float(a @ a), sigma

    def dual(self, u: Array) -> float:
        """Return the lower bound D(u); u must lie in C."""
        g = self.rows.adjoint(u)
        return -2.0 * float(u @ self.q) - float(g @ g) / self.alpha

    def project(self, v: Array) -> Array:
        """Return the nearest point of C: ``clip(v / s, ±b)`` with the smallest s ≥ 1 that enters the ball."""
        shrink = max(1.0, scale_of(v, self.bound, self.total))
        return np.clip(v / shrink, -self.bound, self.bound)

    def shrink_into(self, u: Array) -> Array:
        """Return the longest multiple ``t u, t ≤ 1``, that lies in C."""
        reach = max(1.0, float(np.max(np.abs(u) / self.bound)), float(np.linalg.norm(u)) / np.sqrt(self.total))
        return u / reach


def scale_of(v: Array, bound: Array, total: float) -> float:
    """Return the s with ``Σ min(v²/s², b²) = N``, or 0 if the sum stays at or below N however small s is.

    The sum falls as s grows. With entries in order of ``|v|/b`` the breakpoint at which it crosses N is found
    from cumulative sums, and between two breakpoints s has closed form.
    """
    breakpoint_ = np.abs(v) / bound
    order = np.argsort(breakpoint_)
    breakpoint_, squares = breakpoint_[order], bound[order] ** 2
    quadratic = np.cumsum(v[order] ** 2)
    clipped = squares.sum() - np.cumsum(squares)
    at = np.zeros_like(quadratic)
    np.divide(quadratic, breakpoint_**2, out=at, where=breakpoint_ > 1e-150)
    k = int(np.count_nonzero(at + clipped > total))
    if k == 0:
        return 0.0
    room = total - float(clipped[k - 1])
    return float(np.sqrt(quadratic[k - 1] / room)) if room > 0.0 else 0.0


@dataclass(frozen=True)
class Best:
    """The best point and the best bound so far; they need not come from the same iteration."""

    a: Array
    objective: float = np.inf
    sigma: float = 0.0
    lower: float = -np.inf
    iterations: int = 0
    stale: int = 0  # iterations since the gap last shrank

    @property
    def gap(self) -> float:
        return max(self.objective - self.lower, 0.0)

    def update(self, problem: Problem, a: Array, u: Array) -> Best:
        """Return the better of this and the pair (a, u)."""
        objective, sigma = problem.primal(a)
        lower = max(self.lower, problem.dual(u))
        if not objective < self.objective:
            a, objective, sigma = self.a, self.objective, self.sigma
        shrank = objective < self.objective or lower > self.lower
        stale = 0 if shrank else self.stale + 1
        return Best(a, objective, sigma, lower, self.iterations + 1, stale)

    def reached(self, tolerance: float) -> bool:
        return self.gap <= tolerance * self.objective
