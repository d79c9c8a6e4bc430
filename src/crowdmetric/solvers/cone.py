"""The metrics' side of the interior-point step: ``A ⪰ 0`` with multiplier Z, and a bound on the size of A.

With people eliminated, the step da = svec(dA) of each problem solves::

    (S + A⁻¹ ⊗ Z + bound) da = reduced + svec(μA⁻¹) − bound gradient

where ``A⁻¹ ⊗ Z`` is the symmetric Kronecker product (the direction of Helmberg–Kojima–Monteiro). Arrays carry a
leading axis (n,) over problems.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.solvers.bounds import FrobeniusBound, NoBound, NuclearBound
from crowdmetric.symmetric import smat, svec, symmetric_kronecker
from crowdmetric.users.ball import to_zero
from crowdmetric.users.bounded import SHARE

__all__ = ["MetricCone"]

Array = NDArray[Any]


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
