"""Where an interior point must stay: vectors in balls, and metrics in the cone and inside a bound.

**Balls.** ``‖x‖ ≤ radius`` is a second-order cone: the pair ``s = (radius, x)`` lives in ``s₀ ≥ ‖s₁‖`` with
``det s = s₀² − ‖s₁‖²``. Its multiplier ``z = (z₀, z₁)`` lives in the same cone, and on the central path
``z = μ (radius, −x) / det s``. Off the path, the Nesterov–Todd scaling of the pair gives the curvature that balances
both (Nesterov & Todd 1997)::

    κ (I + 2 v₁v₁ᵀ),   κ = √(det z / det s),   v = (s̄ + J z̄) / (2γ),   γ² = (1 + ⟨s̄, z̄⟩)/2,   J = diag(1, −1, …, −1)

with ``s̄, z̄`` scaled to unit determinant. Arrays carry a leading axis (P,) over balls: people, or problems.

**Bounds.** The size of a metric is bounded by a class with the methods of `Balls` for a = svec(A): it linearizes, fixes
a step and advances; STATE names what a step changes. Beyond those it has a ``curvature() (n, p, p)`` for the Newton
system, the ``size(a) (n,)`` that its radius bounds, and for the duality gap its support function
``lowest(G) = min ⟨G, A⟩ over A ⪰ 0, ‖A‖ ≤ ζ  (n,)``. Solvers that use gradients alone ask for the same minimum as
`support` and for the projection on the set, `nearest`, of one problem.

**The metric's step.** ``A ⪰ 0`` has the multiplier Z. With people eliminated, the step da = svec(dA) of each problem
solves::

    (S + A⁻¹ ⊗ Z + bound) da = reduced + svec(μA⁻¹) − bound gradient

where ``A⁻¹ ⊗ Z`` is the symmetric Kronecker product (the direction of Helmberg–Kojima–Monteiro).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.symmetric import dimension, project_psd, smat, svec, symmetric_kronecker

__all__ = ["BOUNDS", "SHARE", "Balls", "FrobeniusBound", "MetricCone", "NoBound", "NuclearBound", "dot", "to_zero"]

Array = NDArray[Any]

# Share of the way to the boundary that a step may go.
SHARE = 0.99


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


class MetricCone:
    """n metrics A (n, r, r) strictly inside the cone and the bound, on the central path of mu (n,)."""

    def __init__(
        self,
        A: Array,
        bound: type[FrobeniusBound] | type[NuclearBound] | type[NoBound],
        radius: Array,
        mu: Array,
    ) -> None:
        self.A = A
        self.Z = mu[:, None, None] * _inverse(A)
        self.bound: FrobeniusBound | NuclearBound | NoBound = bound(svec(A), radius, mu)

    def keep(self, problems: NDArray[np.bool_]) -> None:
        """Keep only these problems (n,)."""
        mu = self.mu[problems]
        self.A, self.Z = self.A[problems], self.Z[problems]
        for name in ("radius", *self.bound.STATE):
            setattr(self.bound, name, getattr(self.bound, name)[problems])
        self.linearize(mu)

    def linearize(self, mu: Array) -> None:
        """Prepare the barrier's part of the step at the current point."""
        self.mu = mu
        self.inverse = _inverse(self.A)
        self.bound.linearize(mu)

    def merit(self, alpha: Array | None = None) -> Array:
        """Return ``−μ log det A`` plus the bound's barrier, (n,), here or after a step alpha."""
        A = self.A if alpha is None else self.A + alpha[:, None, None] * self.dA
        return -self.mu * _log_determinant(A) + self.bound.merit(svec(A))

    def gap(self, gradient: Array) -> Array:
        """Return ``⟨G, A⟩ − min ⟨G, ·⟩`` (n,) for G = smat(gradient): the metric's part of the certificate."""
        return np.sum(gradient * svec(self.A), axis=1) - self.bound.lowest(gradient)

    def solve(self, schur: Array, reduced: Array) -> Array:
        """Compute the step dA (n, r, r) from the people's Schur complement and reduced right side."""
        matrix = schur + symmetric_kronecker(self.inverse, self.Z) + self.bound.curvature()
        barrier = self.mu[:, None] * svec(self.inverse) - self.bound.gradient
        right = reduced + barrier
        # a problem whose system is no longer finite stops; the others continue
        sound = np.all(np.isfinite(matrix), axis=(1, 2)) & np.all(np.isfinite(right), axis=1)
        matrix = np.where(sound[:, None, None], matrix, np.eye(matrix.shape[1]))
        self.da = _solve(matrix, np.where(sound[:, None], right, 0.0))
        self.dA = smat(self.da)
        return self.dA

    def direction(self) -> tuple[Array, Array, Array]:
        """Return slope of the merit, and primal and dual steps of at most 1 that stay inside, (n,) each."""
        product = self.inverse @ self.dA @ self.Z
        self.dZ = self.mu[:, None, None] * self.inverse - self.Z - 0.5 * (product + np.swapaxes(product, 1, 2))
        slope, primal, dual = self.bound.direction(self.da)
        slope = slope - self.mu * np.sum(svec(self.inverse) * self.da, axis=1)
        primal = np.minimum(primal, _to_cone(self.A, self.dA))
        dual = np.minimum(dual, _to_cone(self.Z, self.dZ))
        return slope, np.minimum(1.0, SHARE * primal), np.minimum(1.0, SHARE * dual)

    def advance(self, alpha: Array, alpha_dual: Array) -> None:
        """Take the step."""
        self.A = self.A + alpha[:, None, None] * self.dA
        self.Z = self.Z + alpha_dual[:, None, None] * self.dZ
        self.bound.advance(alpha, alpha_dual)


# Subspaces that are lines have scalar metrics, thousands of them: a factorization of each would be too slow.


def _inverse(A: Array) -> Array:
    """Return A⁻¹ (n, r, r)."""
    return 1.0 / A if A.shape[1] == 1 else np.linalg.inv(A)


def _log_determinant(A: Array) -> Array:
    """Return log |det A| (n,)."""
    determinant: Array = np.log(np.abs(A[:, 0, 0])) if A.shape[1] == 1 else np.linalg.slogdet(A)[1]
    return determinant


def _solve(A: Array, b: Array) -> Array:
    """Return A⁻¹b (n, p); the shortest solution where an A is singular, as close to the edge of the cone."""
    if A.shape[1] == 1:
        return b / A[:, 0]
    try:
        return np.linalg.solve(A, b[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        return (np.linalg.pinv(A, hermitian=True) @ b[:, :, None])[:, :, 0]


def _to_cone(A: Array, dA: Array) -> Array:
    """Return the step at which A + step·dA leaves the positive definite cone, (n,)."""
    if A.shape[1] == 1:
        return to_zero(A[:, 0, 0], dA[:, 0, 0])
    # with A = VΛVᵀ, the lowest eigenvalue of Λ^-½ Vᵀ dA V Λ^-½; a point that rounding pushed out of the cone cannot
    # move
    values, vectors = np.linalg.eigh(A)
    inside = values[:, 0] > 0
    half = vectors / np.sqrt(np.where(inside[:, None], values, 1.0))[:, None, :]
    lowest = np.linalg.eigvalsh(np.swapaxes(half, 1, 2) @ dA @ half)[:, 0]
    with np.errstate(divide="ignore"):
        step = np.where(lowest < 0, -1.0 / lowest, np.inf)
    return np.where(inside, step, 0.0)
