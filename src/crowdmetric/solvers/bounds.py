"""The set a metric may live in: positive semi-definite and of bounded size.

A bound keeps a = svec(A) inside by a barrier of its own, with the methods of `users.ball.Balls`: it linearizes, fixes
a step and advances; STATE names what a step changes. Beyond those it has a ``curvature() (n, p, p)`` for the Newton
system, the ``size(a) (n,)`` that its radius bounds, and for the duality gap its support function
``lowest(G) = min ⟨G, A⟩ over A ⪰ 0, ‖A‖ ≤ ζ  (n,)``. Arrays carry a leading axis over problems. Solvers that
use gradients alone ask for the same minimum as `support` and for the projection on the set, `nearest`, of one problem.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.symmetric import dimension, project_psd, smat, svec
from crowdmetric.users.ball import Balls, dot, to_zero

__all__ = ["BOUNDS", "FrobeniusBound", "NoBound", "NuclearBound", "get_bound"]

Array = NDArray[Any]


class FrobeniusBound(Balls):
    """``‖A‖_F ≤ ζ``: svec(A) in a ball."""

    @staticmethod
    def size(a: Array) -> Array:
        return np.linalg.norm(a, axis=-1)

    def curvature(self) -> Array:
        outer = self.v1[:, :, None] * self.v1[:, None, :]
        return self.kappa[:, None, None] * (np.eye(self.x.shape[1]) + 2.0 * outer)

    def lowest(self, G: Array) -> Array:
        return self.support(G, self.radius)

    @staticmethod
    def support(G: Array, radius: Array | float) -> Any:
        """Return ``−ζ ‖(−G)₊‖_F``: the best A points along the positive part of −G."""
        values = G if G.shape[-1] == 1 else np.linalg.eigvalsh(smat(G))
        return -radius * np.linalg.norm(np.minimum(values, 0.0), axis=-1)

    @staticmethod
    def nearest(a: Array, radius: float) -> Array:
        """Return the projection of one a: on the cone, and from there straight to the ball around its tip."""
        inside = svec(project_psd(smat(a)))
        return inside * min(1.0, radius / max(float(np.linalg.norm(inside)), 1e-300))


class NuclearBound:
    """``‖A‖_* = tr A ≤ ζ`` (A ⪰ 0), which favors metrics of low rank: one linear inequality with multiplier z."""

    STATE = ("x", "slack", "z")

    def __init__(self, x: Array, radius: Array, mu: Array) -> None:
        self.x, self.radius = x, radius
        self.trace = svec(np.eye(dimension(x.shape[1])))
        self.slack = radius - self.size(x)
        self.z = mu / self.slack

    @staticmethod
    def size(a: Array) -> Array:
        return a @ svec(np.eye(dimension(a.shape[-1])))

    def linearize(self, mu: Array) -> None:
        self.mu = mu
        self.gradient = (mu / self.slack)[:, None] * self.trace

    def curvature(self) -> Array:
        return (self.z / self.slack)[:, None, None] * np.outer(self.trace, self.trace)

    def merit(self, x: Array | None = None) -> Array:
        slack = self.slack if x is None else self.radius - self.size(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(slack > 0, -self.mu * np.log(slack), np.inf)

    def direction(self, dx: Array) -> tuple[Array, Array, Array]:
        self.dx, self.outward = dx, dx @ self.trace
        self.dz = self.mu / self.slack - self.z + (self.z / self.slack) * self.outward
        return dot(self.gradient, dx), to_zero(self.slack, -self.outward), to_zero(self.z, self.dz)

    def advance(self, alpha: Array, alpha_dual: Array) -> None:
        self.x = self.x + alpha[:, None] * self.dx
        self.slack = self.radius - self.size(self.x)
        self.z = self.z + alpha_dual * self.dz

    def lowest(self, G: Array) -> Array:
        return np.asarray(self.support(G, self.radius))

    @staticmethod
    def support(G: Array, radius: Array | float) -> Any:
        """Return ``ζ min(0, λ_min(G))``: the best A is rank one, on the lowest eigenvector."""
        return radius * np.minimum(np.linalg.eigvalsh(smat(G))[..., 0], 0.0)

    @staticmethod
    def nearest(a: Array, radius: float) -> Array:
        """Return the projection of one a: its eigenvalues lowered by what brings their positive parts to ζ."""
        values, vectors = np.linalg.eigh(smat(a))
        if np.sum(np.maximum(values, 0.0)) > radius:
            falling = values[::-1]
            excess = (np.cumsum(falling) - radius) / np.arange(1, falling.size + 1)
            values = values - excess[np.flatnonzero(falling > excess)[-1]]
        return svec((vectors * np.maximum(values, 0.0)) @ vectors.T)


class NoBound:
    """Any size: the cone alone."""

    STATE = ("x",)

    def __init__(self, x: Array, radius: Array, mu: Array) -> None:
        self.x, self.radius = x, radius

    @staticmethod
    def size(a: Array) -> Array:
        return np.zeros(a.shape[:-1])

    def linearize(self, mu: Array) -> None:
        self.gradient = np.zeros_like(self.x)

    def curvature(self) -> Array:
        return np.zeros((*self.x.shape, self.x.shape[1]))

    def merit(self, x: Array | None = None) -> Array:
        return np.zeros(self.x.shape[0])

    def direction(self, dx: Array) -> tuple[Array, Array, Array]:
        self.dx, free = dx, np.full(self.x.shape[0], np.inf)
        return np.zeros(self.x.shape[0]), free, free

    def advance(self, alpha: Array, alpha_dual: Array) -> None:
        self.x = self.x + alpha[:, None] * self.dx

    def lowest(self, G: Array) -> Array:
        """Return 0 if G ⪰ 0, else −∞."""
        return np.where(np.linalg.eigvalsh(smat(G))[..., 0] >= 0.0, 0.0, -np.inf)


BOUNDS: dict[str, type[FrobeniusBound] | type[NuclearBound]] = {
    "frobenius": FrobeniusBound,
    "nuclear": NuclearBound,
}


def get_bound(norm: str) -> type[FrobeniusBound] | type[NuclearBound]:
    """Return the class of the bound called `norm`."""
    if norm not in BOUNDS:
        raise DataError(f"norm={norm!r} is not known; choose one of {', '.join(map(repr, BOUNDS))}")
    return BOUNDS[norm]
