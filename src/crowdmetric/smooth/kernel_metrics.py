"""What the metric inside the kernel may be, as a function of a vector w of numbers without bounds.

::

    isotropic   M = e^w₀ I / d
    diagonal    M = e^w₀ diag(e^w₁, …, e^w_d) / d
    full        M = e^w₀ L Lᵀ / d,   L lower triangular, filled from w₁, …

Each has a prior that is centered on a length of about one in standardized features, and on the isotropic metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["STRUCTURES", "DiagonalKernel", "FullKernel", "IsotropicKernel", "KernelStructure"]

Array = NDArray[Any]

# Standard deviations of the prior: of log size, of the log weights of features, and of the entries of L.
LOG_SIZE, LOG_WEIGHT, ENTRY = 1.0, 1.0, 0.5


class KernelStructure(Protocol):
    """A family of metrics (d, d)."""

    @property
    def start(self) -> Array:
        """The w of the isotropic metric I / d."""
        ...

    @property
    def spread(self) -> Array:
        """Standard deviations of w in the prior, a Gaussian around `start`."""
        ...

    def metric(self, w: Array) -> Array:
        """Return M (d, d)."""
        ...

    def tangents(self, w: Array) -> Array:
        """Return the derivatives (p, d, d) of M in w."""
        ...

    def like(self, metric: Array) -> Array:
        """Return the w of a metric (d, d), or of one of this kind with the same diagonal or trace."""
        ...


@dataclass(frozen=True)
class IsotropicKernel:
    """One length for all features."""

    d: int

    @property
    def start(self) -> Array:
        """The w of I / d."""
        return np.zeros(1)

    @property
    def spread(self) -> Array:
        """Standard deviations of w in the prior."""
        return np.full(1, LOG_SIZE)

    def metric(self, w: Array) -> Array:
        """Return M (d, d)."""
        return np.asarray(np.exp(w[0]) / self.d * np.eye(self.d))

    def tangents(self, w: Array) -> Array:
        """Return the derivatives (1, d, d) of M."""
        return self.metric(w)[None]

    def like(self, metric: Array) -> Array:
        """Return the w of the same trace."""
        return np.array([log(float(np.trace(metric)))])


@dataclass(frozen=True)
class DiagonalKernel:
    """One length per feature."""

    d: int

    @property
    def start(self) -> Array:
        """The w of I / d."""
        return np.zeros(1 + self.d)

    @property
    def spread(self) -> Array:
        """Standard deviations of w in the prior."""
        return np.array([LOG_SIZE] + [LOG_WEIGHT] * self.d)

    def metric(self, w: Array) -> Array:
        """Return M (d, d)."""
        return np.asarray(np.diag(np.exp(w[0] + w[1:])) / self.d)

    def tangents(self, w: Array) -> Array:
        """Return the derivatives (1 + d, d, d) of M."""
        M = self.metric(w)
        own = np.einsum("ij,jk->ijk", np.eye(self.d), M) * np.eye(self.d)[:, :, None]
        return np.concatenate([M[None], own])

    def like(self, metric: Array) -> Array:
        """Return the w of the same diagonal."""
        trace = float(np.trace(metric))
        return np.concatenate([[log(trace)], np.log(self.d * np.diag(metric) / trace)])


@dataclass(frozen=True)
class FullKernel:
    """Any positive semi-definite matrix."""

    d: int

    @property
    def start(self) -> Array:
        """The w of I / d."""
        return np.concatenate([[0.0], np.eye(self.d)[np.tril_indices(self.d)]])

    @property
    def spread(self) -> Array:
        """Standard deviations of w in the prior."""
        return np.array([LOG_SIZE] + [ENTRY] * (self.d * (self.d + 1) // 2))

    def _factor(self, w: Array) -> Array:
        L = np.zeros((self.d, self.d))
        L[np.tril_indices(self.d)] = w[1:]
        return L

    def metric(self, w: Array) -> Array:
        """Return M (d, d)."""
        L = self._factor(w)
        return np.asarray(np.exp(w[0]) / self.d * L @ L.T)

    def tangents(self, w: Array) -> Array:
        """Return the derivatives (1 + d(d+1)/2, d, d) of M: in L_ij, ``E_ij Lᵀ + L E_ijᵀ``."""
        size, L = np.exp(w[0]) / self.d, self._factor(w)
        rows, columns = np.tril_indices(self.d)
        half = np.zeros((rows.size, self.d, self.d))
        half[np.arange(rows.size), rows, :] = size * L[:, columns].T
        return np.concatenate([self.metric(w)[None], half + half.transpose(0, 2, 1)])

    def like(self, metric: Array) -> Array:
        """Return the w of a positive definite metric."""
        trace = float(np.trace(metric))
        return np.concatenate([[log(trace)], np.linalg.cholesky(self.d * metric / trace)[np.tril_indices(self.d)]])


# A new structure is one line here; the property tests go through the list.
STRUCTURES: dict[str, type[IsotropicKernel] | type[DiagonalKernel] | type[FullKernel]] = {
    "isotropic": IsotropicKernel,
    "diagonal": DiagonalKernel,
    "full": FullKernel,
}


def log_prior(w: Array, center: Array, spread: Array) -> tuple[float, Array]:
    """Return the log density of independent Gaussians at w, and its gradient."""
    z = (w - center) / spread
    value = -0.5 * float(z @ z) - float(np.sum(np.log(spread))) - 0.5 * w.size * log(2.0 * pi)
    return value, -z / spread
