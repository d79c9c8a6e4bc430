"""The dimensions in which items differ: a population is fitted in those, and the prior determines the others.

Items that were compared may span fewer dimensions than they have features: there may be more features than items, or
features that are constant, duplicates or sums of others. Answers are functions of x − x' and x + x', which for centered
items lie in the span of the items. With an orthonormal basis Q (d, r) of the span, r features ``Qᵀx`` are fitted. The
result is extended to all d features by what is most likely under the prior (`crowdmetric.solvers.priors`)::

    M = Q M_r Qᵀ + c (I − QQᵀ)      c = tr M_r / r
    μ = Q μ_r                        Σ = Q Σ_r Qᵀ + σ² (I − QQᵀ)

with σ² = tr Σ_r / r for free people, and 4s²c² for isotropic ones, so Σ = 4s²M² holds in d dimensions as well. The
answers have the same likelihood under both. ``M/c − I`` has the same length, so the penalty is the same, too.

Draws of M are extended by draws from the prior of `crowdmetric.solvers.posterior`. There ``M = (c/d) W`` with W a
Wishart matrix of d squares; given W_r, the other parts are (Bartlett) ::

    W_rn = R Zᵀ,   W_nn = ZZᵀ + V      R Rᵀ = W_r,  Z (n, r) of independent N(0, 1),  V a Wishart matrix of n squares

with n = d − r. Entries of M outside the span then vary by 2c²/d in the units of svec, which is also the variance that
a symmetric fit is given there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from crowdmetric.symmetric import degrees_of_freedom, orthonormal_basis, restrict, smat, svec
from crowdmetric.users.population_sums import Law

__all__ = ["ItemSpan"]

Array = NDArray[Any]

# Directions in which items differ by less than this share of their largest difference count as rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class ItemSpan:
    """An orthonormal basis Q (d, r) of the span of centered items; the identity where they span all d dimensions."""

    basis: Array

    @staticmethod
    def of(items: Array) -> ItemSpan:
        """Return the span of centered items (N, d) that were compared."""
        d = items.shape[1]
        basis = orthonormal_basis(items, tolerance=ROUNDING)
        # equal items have no span; the fit reports that
        return ItemSpan(basis if 0 < basis.shape[1] < d else np.eye(d))

    @staticmethod
    def whole(d: int) -> ItemSpan:
        """Return all d dimensions."""
        return ItemSpan(np.eye(d))

    @property
    def features(self) -> int:
        """The number d of features that items have."""
        return int(self.basis.shape[0])

    @property
    def d(self) -> int:
        """The number r of dimensions in which they differ."""
        return int(self.basis.shape[1])

    @property
    def is_whole(self) -> bool:
        """Whether items differ in as many dimensions as they have features."""
        return self.d == self.features

    @property
    def _rest(self) -> Array:
        """``I − QQᵀ`` (d, d)."""
        return np.asarray(np.eye(self.features) - self.basis @ self.basis.T)

    def inside(self, items: Array) -> Array:
        """Return items (N, d) in coordinates of the span, (N, r)."""
        return items if self.is_whole else items @ self.basis

    def law_inside(self, law: Law) -> Law:
        """Return a law of d features in coordinates of the span."""
        if self.is_whole:
            return law
        metric, covariance = (restrict(A, self.basis) for A in (law.metric, law.covariance))
        return Law(metric, law.mean @ self.basis, covariance, law.effects)

    def law_outside(self, law: Law, *, free: bool) -> Law:
        """Return a law of the span's coordinates for all d features; `free` or isotropic people."""
        if self.is_whole:
            return law
        spread = self.spread_outside(law, free=free)
        covariance = self.covariances_outside(law.covariance, np.array(spread))
        return Law(self.matrix_outside(law.metric), law.mean @ self.basis.T, covariance, law.effects)

    def covariances_outside(self, covariance: Array, spread: Array) -> Array:
        """Return ``Q Σ Qᵀ + σ² (I − QQᵀ)`` (…, d, d) of covariances (…, r, r), for variances σ² (…)."""
        if self.is_whole:
            return covariance
        return np.asarray(self.basis @ covariance @ self.basis.T + spread[..., None, None] * self._rest)

    def spread_outside(self, law: Law, *, free: bool) -> float:
        """Return the variance of people's v in every direction outside the span, for a law of its coordinates."""
        if free:
            return float(np.trace(law.covariance)) / self.d
        # 4s² c² with Σ = 4s²M²
        square = float(np.sum(law.metric**2))
        mean = float(np.trace(law.metric)) / self.d
        return float(np.trace(law.covariance)) * (mean**2 / square if square > 0 else 1.0 / self.d)

    def points_outside(self, points: Array) -> Array:
        """Return people's v (K, r) for all d features, (K, d): the mean of the law outside the span."""
        return points if self.is_whole else points @ self.basis.T

    def spreads_outside(self, spreads: Array, law: Law, *, free: bool) -> Array:
        """Return covariances of people's v (K, r, r) for all d features: those of the law outside the span."""
        if self.is_whole:
            return spreads
        return self.basis @ spreads @ self.basis.T + self.spread_outside(law, free=free) * self._rest

    def draws_outside(self, draws: Array, *, psd: bool, seed: int = 0) -> Array:
        """Return svec M (n, p) of draws svec M_r, extended by the prior: by metrics, or by any symmetric matrices."""
        if self.is_whole:
            return draws
        continued = self._metrics if psd else self._matrices
        return continued(smat(draws), np.random.default_rng(seed))

    def matrix_outside(self, M: Array) -> Array:
        """Return ``Q M Qᵀ + c (I − QQᵀ)`` (…, d, d) of matrices (…, r, r)."""
        if self.is_whole:
            return M
        c = np.trace(M, axis1=-2, axis2=-1)[..., None, None] / self.d
        return np.asarray(self.basis @ M @ self.basis.T + c * self._rest)

    def _metrics(self, M: Array, rng: np.random.Generator) -> Array:
        """Return svec (n, p) of draws (n, r, r), extended by draws from the prior."""
        count, d, others = len(M), self.features, self.features - self.d
        Q = np.linalg.svd(self.basis, full_matrices=True)[0][:, self.d :]  # of the rest, (d, others)
        c = np.trace(M, axis1=1, axis2=2)[:, None, None] / self.d
        values, vectors = np.linalg.eigh(M * (d / np.where(c > 0, c, 1.0)))
        R = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        Z, G = rng.standard_normal((count, others, self.d)), rng.standard_normal((count, others, others))
        # the factor (R; Z), and G next to it: a sum of d squares
        factor = self.basis @ R + Q @ Z
        W = factor @ factor.transpose(0, 2, 1) + (Q @ G) @ (Q @ G).transpose(0, 2, 1)
        # draws need not be metrics themselves
        W -= self.basis @ (R @ R.transpose(0, 2, 1)) @ self.basis.T
        return svec(c / d * W + self.basis @ M @ self.basis.T)

    def _matrices(self, M: Array, rng: np.random.Generator) -> Array:
        """Return svec (n, p) of draws (n, r, r), extended by Gaussian matrices."""
        c = np.trace(M, axis1=1, axis2=2)[:, None] / self.d
        noise = rng.standard_normal((len(M), degrees_of_freedom(self.features)))
        return svec(self.matrix_outside(M)) + np.sqrt(2.0 / self.features) * c * (noise @ self._unseen())

    def covariance_outside(self, S: Array, C: Array) -> Array:
        """Return the covariance (p, p) of svec of the extended symmetric fit S (r, r), from that of svec S."""
        if self.is_whole:
            return C
        c = float(np.trace(S)) / self.d
        K = svec(self.matrix_outside(smat(np.eye(len(C))))).T  # linear in svec S
        return np.asarray(K @ C @ K.T + 2.0 * c**2 / self.features * self._unseen())

    def offsets_outside(self, C: Array, metric: Array) -> Array:
        """Return the covariance of (svec M, μ, b) for all d features, from that in the span, where M is (r, r).

        Entries of M outside the span vary as in the prior.
        """
        if self.is_whole:
            return C
        inner = degrees_of_freedom(self.d)
        K = svec(self.matrix_outside(smat(np.eye(inner)))).T
        out = block_diag(K, self.basis, np.eye(len(C) - inner - self.d))
        found = np.asarray(out @ C @ out.T)
        p = len(K)
        found[:p, :p] += 2.0 * (float(np.trace(metric)) / self.d) ** 2 / self.features * self._unseen()
        return found

    def _unseen(self) -> Array:
        """Return the projector (p, p) on svec of symmetric matrices that vanish on the span."""
        inside = svec(self.basis @ smat(np.eye(degrees_of_freedom(self.d))) @ self.basis.T)
        return np.asarray(np.eye(inside.shape[1]) - inside.T @ inside)
