"""The Huber problem and its dual: the two values that enclose the optimum (see `huber.py` for the formulas).

Arrays are for one problem or, with a leading axis, for a stack of problems of one shape.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.solvers.linear_maps import DenseRows, LinearMap
from crowdmetric.users.ball import dot

__all__ = ["Best", "Problem", "scale_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """The data, in the √m coordinates, and the two values that enclose the optimum."""

    rows: LinearMap
    q: Array
    bound: Array  # b = ε√m, shared by a stack
    total: float  # N
    alpha: Array | float

    def primal(self, a: Array) -> tuple[Array, Array]:
        """Return the objective at `a`, minimized over the scale, and that scale."""
        r = self.rows.forward(a) - self.q
        sigma = scale_of(r, self.bound, self.total)
        size, s = np.abs(r), sigma[..., None]
        quadratic = np.divide(r * r, s, out=np.zeros_like(r), where=s > 0.0)
        loss = np.where(size < self.bound * s, quadratic, self.bound * (2.0 * size - self.bound * s)).sum(axis=-1)
        return loss + self.total * sigma + self.alpha * dot(a, a), sigma

    def dual(self, u: Array) -> Array:
        """Return the lower bound D(u); u must lie in C."""
        g = self.rows.adjoint(u)
        return -2.0 * dot(u, self.q) - dot(g, g) / self.alpha

    def project(self, v: Array) -> Array:
        """Return the nearest point of C: ``clip(v / s, ±b)`` with the smallest s ≥ 1 that enters the ball."""
        shrink = np.maximum(1.0, scale_of(v, self.bound, self.total))[..., None]
        return np.clip(v / shrink, -self.bound, self.bound)

    def shrink_into(self, u: Array) -> Array:
        """Return the longest multiple ``t u, t ≤ 1``, that lies in C."""
        reach = np.maximum(np.max(np.abs(u) / self.bound, axis=-1), np.sqrt(dot(u, u) / self.total))
        return u / np.maximum(1.0, reach)[..., None]

    def take(self, which: NDArray[Any]) -> Problem:
        """Return some problems of a stack."""
        rows = DenseRows(self.rows.X[which]) if isinstance(self.rows, DenseRows) else self.rows
        return replace(self, rows=rows, q=self.q[which], alpha=np.asarray(self.alpha)[which])


def scale_of(v: Array, bound: Array, total: float) -> Array:
    """Return the s with ``Σ min(v²/s², b²) = N``, or 0 if the sum is at most N for every s > 0.

    The sum falls as s grows. With entries in order of ``|v|/b`` the breakpoint at which it crosses N is found
    from cumulative sums, and between two breakpoints s has closed form.
    """
    breakpoint_ = np.abs(v) / bound
    order = np.argsort(breakpoint_, axis=-1)
    breakpoint_, squares = np.take_along_axis(breakpoint_, order, axis=-1), bound[order] ** 2
    quadratic = np.cumsum(np.take_along_axis(v, order, axis=-1) ** 2, axis=-1)
    clipped = squares.sum(axis=-1, keepdims=True) - np.cumsum(squares, axis=-1)
    at = np.zeros_like(quadratic)
    np.divide(quadratic, breakpoint_**2, out=at, where=breakpoint_ > 1e-150)
    k = np.count_nonzero(at + clipped > total, axis=-1, keepdims=True)
    last = np.maximum(k - 1, 0)
    room = total - np.take_along_axis(clipped, last, axis=-1)
    square = np.take_along_axis(quadratic, last, axis=-1)
    inside = (k > 0) & (room > 0.0)
    return np.asarray(np.sqrt(np.where(inside, square / np.where(inside, room, 1.0), 0.0))[..., 0])


@dataclass(frozen=True)
class Best:
    """The best point and the best bound so far; they need not come from the same iteration."""

    a: Array
    objective: Array
    sigma: Array
    lower: Array
    iterations: NDArray[np.intp]
    stale: NDArray[np.intp]  # iterations since the gap last shrank

    @classmethod
    def nothing(cls, a: Array) -> Best:
        """Return `a` with nothing known about it."""
        lead = a.shape[:-1]
        return cls(
            a,
            np.full(lead, np.inf),
            np.zeros(lead),
            np.full(lead, -np.inf),
            np.zeros(lead, dtype=np.intp),
            np.zeros(lead, dtype=np.intp),
        )

    @property
    def gap(self) -> Array:
        return np.maximum(self.objective - self.lower, 0.0)

    def update(self, problem: Problem, a: Array, u: Array) -> Best:
        """Return the better of this and the pair (a, u)."""
        objective, sigma = problem.primal(a)
        lower = np.fmax(self.lower, problem.dual(u))
        better = objective < self.objective
        shrank = better | (lower > self.lower)
        return Best(
            np.where(better[..., None], a, self.a),
            np.where(better, objective, self.objective),
            np.where(better, sigma, self.sigma),
            lower,
            self.iterations + 1,
            np.where(shrank, 0, self.stale + 1),
        )

    def reached(self, tolerance: float) -> NDArray[np.bool_]:
        return np.asarray(self.gap <= tolerance * self.objective)

    def take(self, which: Any) -> Best:
        """Return some, or one, of a stack."""
        return Best(*(value[which] for value in vars(self).values()))

    def put(self, which: NDArray[Any], some: Best) -> None:
        """Write some of a stack."""
        for name, value in vars(some).items():
            getattr(self, name)[which] = value
