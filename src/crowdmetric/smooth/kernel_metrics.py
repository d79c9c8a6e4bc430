"""What the metric inside the kernel may be, as a function of a vector w of numbers without bounds.

::

    isotropic   M = e^w₀ I / d
    diagonal    M = e^w₀ diag(e^w₁, …, e^w_d) / d
    shrunk      M = e^w₀ exp(S) / d,   S symmetric, svec S = w₁, …, and close to zero
    full        the same, with a wide prior
    rank-r      M = e^w₀ U Uᵀ / d,   U (d, r), filled from w₁, …

Each has a prior that is centered on a length of about one in standardized features, and on the isotropic metric.
'shrunk' and 'full' differ in the standard deviation of S alone, so that the evidence decides how far M is shrunk. The
prior of a low rank is around zero, with the isotropic metric as the mean of M: no r directions come before others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, pi
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.symmetric import degrees_of_freedom, smat, svec

__all__ = [
    "STRUCTURES",
    "DiagonalKernel",
    "FullKernel",
    "IsotropicKernel",
    "KernelStructure",
    "LowRankKernel",
    "ShrunkKernel",
    "Tangent",
    "structure_of",
]

Array = NDArray[Any]

# Standard deviations of the prior: of log size, and of the log weights of features and directions, wide and not.
LOG_SIZE, LOG_WEIGHT, SMALL_LOG_WEIGHT = 1.0, 1.0, 0.4


class Tangent(NamedTuple):
    """A derivative of M (d, d): a matrix (m, m) among some of the features (m,), and zero elsewhere."""

    features: NDArray[np.intp]
    matrix: Array

    def inner(self, matrix: Array) -> float:
        """Return the sum of products of entries with those of a matrix (d, d)."""
        return float(np.vdot(self.matrix, matrix[self.features[:, None], self.features]))


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

    def tangents(self, w: Array) -> Iterator[Tangent]:
        """Yield the derivatives of M in w, p of them."""
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

    def tangents(self, w: Array) -> Iterator[Tangent]:
        """Yield the derivative of M."""
        yield Tangent(np.arange(self.d), self.metric(w))

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

    def tangents(self, w: Array) -> Iterator[Tangent]:
        """Yield the derivatives of M in w: all of it, then entry by entry."""
        everything, lengths = np.arange(self.d), np.exp(w[0] + w[1:]) / self.d
        yield Tangent(everything, np.diag(lengths))
        for j in range(self.d):
            yield Tangent(everything[j : j + 1], lengths[j : j + 1, None])

    def like(self, metric: Array) -> Array:
        """Return the w of the same diagonal."""
        trace = float(np.trace(metric))
        return np.concatenate([[log(trace)], np.log(self.d * np.diag(metric) / trace)])


@dataclass(frozen=True)
class FullKernel:
    """Any positive definite matrix, by its logarithm."""

    d: int
    weight: ClassVar[float] = LOG_WEIGHT

    @property
    def start(self) -> Array:
        """The w of I / d."""
        return np.zeros(1 + degrees_of_freedom(self.d))

    @property
    def spread(self) -> Array:
        """Standard deviations of w in the prior, which knows no direction: svec keeps lengths."""
        return np.array([LOG_SIZE] + [self.weight] * degrees_of_freedom(self.d))

    def _spectrum(self, w: Array) -> tuple[Array, Array]:
        """Return eigenvalues (d,) and eigenvectors (d, d) of S."""
        return np.linalg.eigh(smat(w[1:]))

    def metric(self, w: Array) -> Array:
        """Return M (d, d)."""
        values, U = self._spectrum(w)
        return np.asarray((U * np.exp(w[0] + values) / self.d) @ U.T)

    def tangents(self, w: Array) -> Iterator[Tangent]:
        """Yield the 1 + d(d+1)/2 derivatives of M.

        With ``S = U diag(λ) Uᵀ``, that of exp S along E is ``U (F ∘ UᵀEU) Uᵀ``, ``F_ij = (e^λi − e^λj) / (λi − λj)``.
        """
        values, U = self._spectrum(w)
        half = 0.5 * (values[:, None] - values[None, :])
        ratio = np.sinh(half) / np.where(half == 0.0, 1.0, half)
        F = np.exp(0.5 * (values[:, None] + values[None, :])) * np.where(half == 0.0, 1.0, ratio)
        inside = U.T @ smat(np.eye(w.size - 1)) @ U
        yield Tangent(np.arange(self.d), self.metric(w))
        for matrix in np.exp(w[0]) / self.d * (U @ (F * inside) @ U.T):
            yield Tangent(np.arange(self.d), matrix)

    def like(self, metric: Array) -> Array:
        """Return the w of a positive definite metric."""
        trace = float(np.trace(metric))
        values, U = np.linalg.eigh(self.d * metric / trace)
        return np.concatenate([[log(trace)], svec((U * np.log(values)) @ U.T)])


class ShrunkKernel(FullKernel):
    """Any positive semi-definite matrix, the isotropic one by far the likeliest."""

    weight: ClassVar[float] = SMALL_LOG_WEIGHT


@dataclass(frozen=True)
class LowRankKernel:
    """A positive semi-definite matrix of rank r at most.

    Turning U changes nothing, and zero is no place to begin a search from: begin at `like` of another metric.
    """

    d: int
    r: int

    @property
    def start(self) -> Array:
        """Where the prior is highest: U = 0."""
        return np.zeros(1 + self.d * self.r)

    @property
    def spread(self) -> Array:
        """Standard deviations of w in the prior, under which the mean of UUᵀ is the identity."""
        return np.array([LOG_SIZE] + [self.r**-0.5] * (self.d * self.r))

    def metric(self, w: Array) -> Array:
        """Return M (d, d)."""
        U = w[1:].reshape(self.d, self.r)
        return np.asarray(np.exp(w[0]) / self.d * U @ U.T)

    def tangents(self, w: Array) -> Iterator[Tangent]:
        """Yield the 1 + dr derivatives of M: in U_ij, ``E_ij Uᵀ + U E_ijᵀ``."""
        size, U = np.exp(w[0]) / self.d, w[1:].reshape(self.d, self.r)
        yield Tangent(np.arange(self.d), self.metric(w))
        for i in range(self.d):
            for column in size * U.T:
                half = np.zeros((self.d, self.d))
                half[i] = column
                yield Tangent(np.arange(self.d), half + half.T)

    def like(self, metric: Array) -> Array:
        """Return the w of the r largest directions of a metric."""
        values, vectors = np.linalg.eigh(metric)
        largest = slice(-1, -self.r - 1, -1)
        size = max(float(values[largest].sum()), 1e-300)
        U = vectors[:, largest] * np.sqrt(self.d * np.maximum(values[largest], 0.0) / size)
        return np.concatenate([[log(size)], U.reshape(-1)])


# A new structure is one line here; the property tests go through the list.
STRUCTURES: dict[str, type[IsotropicKernel] | type[DiagonalKernel] | type[FullKernel]] = {
    "isotropic": IsotropicKernel,
    "diagonal": DiagonalKernel,
    "shrunk": ShrunkKernel,
    "full": FullKernel,
}


def structure_of(name: str, d: int) -> KernelStructure:
    """Return the structure for d features by its name: a key of `STRUCTURES`, or rank-r with r a number up to d."""
    if isinstance(name, str) and name in STRUCTURES:
        return STRUCTURES[name](d)
    head, _, rank = str(name).partition("-")
    if head != "rank" or not (rank.isdecimal() and 1 <= int(rank) <= d):
        known = ", ".join(map(repr, STRUCTURES))
        raise DataError(f"structure={name!r} is not known; choose one of {known}, or 'rank-r' with r from 1 to {d}")
    return LowRankKernel(d, int(rank))


def log_prior(w: Array, center: Array, spread: Array) -> tuple[float, Array]:
    """Return the log density of independent Gaussians at w, and its gradient."""
    z = (w - center) / spread
    value = -0.5 * float(z @ z) - float(np.sum(np.log(spread))) - 0.5 * w.size * log(2.0 * pi)
    return value, -z / spread
