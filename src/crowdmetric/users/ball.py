"""Vectors kept inside balls by an interior-point method: ``‖x‖ ≤ radius`` as a second-order cone.

The pair ``s = (radius, x)`` lives in the cone ``s₀ ≥ ‖s₁‖`` with ``det s = s₀² − ‖s₁‖²``; its multiplier ``z =
(z₀, z₁)`` lives in the same cone, and on the central path ``z = μ (radius, −x) / det s``. Off the path, the
Nesterov–Todd scaling of the pair gives the curvature that balances both (Nesterov & Todd 1997)::

    κ (I + 2 v₁v₁ᵀ),   κ = √(det z / det s),   v = (s̄ + J z̄) / (2γ),   γ² = (1 + ⟨s̄, z̄⟩)/2,   J = diag(1, −1, …, −1)

with ``s̄, z̄`` scaled to unit determinant. Arrays carry a leading axis (P,) over balls: people, or problems.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Balls", "dot", "to_zero"]

Array = NDArray[Any]


def dot(a: Array, b: Array) -> Array:
    """Return inner products over the last axis, (…, k), (…, k) → (…)."""
    return np.einsum("...k,...k->...", a, b)


def to_zero(x: Array, dx: Array) -> Array:
    """Return the step at which x + step·dx reaches zero; infinite if it grows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(dx < 0, -x / dx, np.inf)


class Balls:
    """P vectors x (P, k) inside balls of the given radii, with their multipliers, on the central path of mu (P,).

    With `curved`, a step follows the sphere. A straight step along a tangent leaves the ball after a length of √det,
    even if its direction is right. A step that comes too close to the sphere is moved back to a share of the slack
    that the linearized constraint predicts, ``det − 2 step ⟨x, dx⟩``.
    """

    STATE = ("x", "det", "z0", "z1")

    def __init__(self, x: Array, radius: Array, mu: Array, *, curved: bool = False) -> None:
        self.x, self.radius, self.curved = x, radius, curved
        self.det = _determinant(radius, x)
        self.z0 = mu * radius / self.det
        self.z1 = -(mu / self.det)[:, None] * x

    def linearize(self, mu: Array) -> None:
        """Compute scaling (κ, v) and barrier gradient ``(μ/det) x`` at the current point."""
        self.mu = mu
        root_s, root_z = np.sqrt(self.det), np.sqrt(_determinant(self.z0, self.z1))
        s0, s1 = self.radius / root_s, self.x / root_s[:, None]
        z0, z1 = self.z0 / root_z, self.z1 / root_z[:, None]
        gamma = np.sqrt(0.5 * (1.0 + s0 * z0 + dot(s1, z1)))
        self.kappa = root_z / root_s
        self.v0 = (s0 + z0) / (2.0 * gamma)
        self.v1 = (s1 - z1) / (2.0 * gamma)[:, None]
        self.gradient = (mu / self.det)[:, None] * self.x

    def arrive(self, alpha: Array) -> Array:
        """Return where a step alpha (P,) leads, (P, k)."""
        y = self.x + alpha[:, None] * self.dx
        if not self.curved:
            return y
        keep = 0.9 * np.minimum(self.det - 2.0 * alpha * dot(self.x, self.dx), self.radius**2)
        size = dot(y, y)
        bend = _determinant(self.radius, y) < keep
        factor = np.sqrt((self.radius**2 - keep) / np.where(bend, size, 1.0), where=bend, out=np.ones_like(size))
        return y * factor[:, None]

    def merit(self, x: Array | None = None) -> Array:
        """Return ``−½ μ log det s`` (P,) here or at x (P, k); infinite outside."""
        det = self.det if x is None else _determinant(self.radius, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(det > 0, -0.5 * self.mu * np.log(det), np.inf)

    def direction(self, dx: Array) -> tuple[Array, Array, Array]:
        """Set the step dx (P, k); return slope of the merit, longest primal and longest dual step, (P,) each."""
        self.dx = dx
        along = 2.0 * dot(self.v1, dx)
        self.dz0 = self.mu * self.radius / self.det - self.z0 + self.kappa * self.v0 * along
        self.dz1 = -self.gradient - self.z1 - self.kappa[:, None] * (dx + self.v1 * along[:, None])
        if self.curved:
            primal = to_zero(self.det, -2.0 * dot(self.x, dx))
        else:
            primal = _to_boundary(self.radius, self.x, np.zeros_like(self.radius), dx, self.det)
        dual = _to_boundary(self.z0, self.z1, self.dz0, self.dz1, _determinant(self.z0, self.z1))
        return dot(self.gradient, dx), primal, dual

    def advance(self, alpha: Array, alpha_dual: Array) -> None:
        """Take the step; a multiplier that is far from the central path (det s · det z = μ²) is reset to it."""
        self.x = self.arrive(alpha)
        self.det = _determinant(self.radius, self.x)
        z0 = self.z0 + alpha_dual * self.dz0
        z1 = self.z1 + alpha_dual[:, None] * self.dz1
        balance = self.det * _determinant(z0, z1) / self.mu**2
        strayed = (balance < 1e-8) | (balance > 1e8)
        self.z0 = np.where(strayed, self.mu * self.radius / self.det, z0)
        self.z1 = np.where(strayed[:, None], -(self.mu / self.det)[:, None] * self.x, z1)


def _determinant(s0: Array, s1: Array) -> Array:
    size = np.sqrt(dot(s1, s1))
    return (s0 - size) * (s0 + size)


def _to_boundary(s0: Array, s1: Array, d0: Array, d1: Array, det: Array) -> Array:
    """Return the smallest positive step with ``det(s + step d) = 0``: ``a step² + 2 b step + det = 0``."""
    a = d0 * d0 - dot(d1, d1)
    b = s0 * d0 - dot(s1, d1)
    root = np.sqrt(np.maximum(b * b - a * det, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        # of two equal formulas for the root, the one that avoids cancellation
        step = np.where(b < 0, det / (root - b), (b + root) / -a)
    return np.where((b < 0) & (root > 0) | (a < 0), step, np.inf)
