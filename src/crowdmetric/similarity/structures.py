"""What a metric may look like: every structure is a cone of parameters θ in which squared distances are linear.

=========  =====================  ========================  ===========================  =============================
structure  θ                      squared distance          cone                         ridges shrink to zero
=========  =====================  ========================  ===========================  =============================
full       svec M, d(d+1)/2       ``⟨svec δδᵀ, θ⟩``         M positive semi-definite     what diagonal entries differ
                                                                                         by; off-diagonal entries
diagonal   the diagonal, d        ``⟨δ², θ⟩``               not negative                 what its entries differ by
identity   one number             ``‖δ‖² θ``                not negative                 nothing
=========  =====================  ========================  ===========================  =============================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crowdmetric.symmetric import degrees_of_freedom, outer_difference, smat, svec, symmetric_kronecker

__all__ = ["STRUCTURES", "Diagonal", "Full", "Identity", "MetricStructure"]

Array = NDArray[np.float64]


class MetricStructure(Protocol):
    """A cone of parameters θ in which squared distances are linear."""

    @property
    def name(self) -> str:
        """What the structure is called in options and messages."""
        ...

    @property
    def size(self) -> int:
        """How many parameters there are."""
        ...

    @property
    def ridges(self) -> tuple[Array, ...]:
        """Projectors (size, size) on what each ridge shrinks to zero; they add up to everything but the scale."""
        ...

    def rows(self, delta: Array) -> Array:
        """Return F (P, size) with squared distances ``F θ`` for differences of items (P, d)."""
        ...

    def metric(self, theta: Array) -> Array:
        """Return M (d, d)."""
        ...

    def theta(self, metric: Array) -> Array:
        """Return the parameters of the nearest metric of this structure."""
        ...

    def whitening(self, root: Array) -> Array:
        """Return S (size, size) of ``M ↦ C^½ M C^½`` on θ (about that, where it leaves the structure); root is C^½."""
        ...

    def project(self, theta: Array) -> Array:
        """Return the nearest point of the cone."""
        ...

    def negative(self, theta: Array) -> Array:
        """Return what of θ is outside the (self-dual) cone: eigenvalues or entries below zero, others zero."""
        ...

    def barrier(self, theta: Array) -> tuple[float, Array, Array] | None:
        """Return −log det of a point inside the cone, its gradient and its curvature; None for any other point."""
        ...


@dataclass(frozen=True)
class Full:
    """Any positive semi-definite metric of d features."""

    d: int
    name: str = "full"

    @property
    def size(self) -> int:
        return degrees_of_freedom(self.d)

    @cached_property
    def ridges(self) -> tuple[Array, ...]:
        trace = svec(np.eye(self.d))
        on_diagonal = np.diag(trace) - np.outer(trace, trace) / self.d
        return on_diagonal, np.diag(1.0 - trace)

    def rows(self, delta: Array) -> Array:
        return outer_difference(delta, delta)

    def metric(self, theta: Array) -> Array:
        return smat(theta)

    def theta(self, metric: Array) -> Array:
        return svec(metric)

    def whitening(self, root: Array) -> Array:
        return svec(root @ smat(np.eye(self.size)) @ root)

    def project(self, theta: Array) -> Array:
        values, vectors = np.linalg.eigh(smat(theta))
        if values[0] >= 0.0:
            return theta
        kept = values > 0.0
        return svec((vectors[:, kept] * values[kept]) @ vectors[:, kept].T)

    def negative(self, theta: Array) -> Array:
        return np.minimum(np.linalg.eigvalsh(smat(theta)), 0.0)

    def barrier(self, theta: Array) -> tuple[float, Array, Array] | None:
        values, vectors = np.linalg.eigh(smat(theta))
        if not values[0] > 0.0:
            return None
        inverse = (vectors / values) @ vectors.T
        return -float(np.sum(np.log(values))), -svec(inverse), symmetric_kronecker(inverse, inverse)


@dataclass(frozen=True)
class Diagonal:
    """One weight per feature."""

    d: int
    name: str = "diagonal"

    @property
    def size(self) -> int:
        return self.d

    @cached_property
    def ridges(self) -> tuple[Array, ...]:
        return (np.eye(self.d) - 1.0 / self.d,)

    def rows(self, delta: Array) -> Array:
        return delta * delta

    def metric(self, theta: Array) -> Array:
        return np.diag(theta)

    def theta(self, metric: Array) -> Array:
        return np.diag(metric).copy()

    def whitening(self, root: Array) -> Array:
        return np.diag(np.diag(root @ root))

    def project(self, theta: Array) -> Array:
        return np.maximum(theta, 0.0)

    def negative(self, theta: Array) -> Array:
        return np.minimum(theta, 0.0)

    def barrier(self, theta: Array) -> tuple[float, Array, Array] | None:
        return _logarithmic(theta)


@dataclass(frozen=True)
class Identity:
    """A multiple of the identity: Euclidean distance, with the scale that fits the answers best."""

    d: int
    name: str = "identity"

    @property
    def size(self) -> int:
        return 1

    @property
    def ridges(self) -> tuple[Array, ...]:
        return ()

    def rows(self, delta: Array) -> Array:
        return np.einsum("pd,pd->p", delta, delta)[:, None]

    def metric(self, theta: Array) -> Array:
        return float(theta[0]) * np.eye(self.d)

    def theta(self, metric: Array) -> Array:
        return np.array([np.trace(metric) / self.d])

    def whitening(self, root: Array) -> Array:
        return np.array([[np.linalg.norm(root @ root)]])

    def project(self, theta: Array) -> Array:
        return np.maximum(theta, 0.0)

    def negative(self, theta: Array) -> Array:
        return np.minimum(theta, 0.0)

    def barrier(self, theta: Array) -> tuple[float, Array, Array] | None:
        return _logarithmic(theta)


def _logarithmic(theta: Array) -> tuple[float, Array, Array] | None:
    """Return ``−Σ log θ`` of positive entries, its gradient and its curvature; None if one is not positive."""
    if not np.all(theta > 0.0):
        return None
    return -float(np.sum(np.log(theta))), -1.0 / theta, np.diag(1.0 / theta**2)


STRUCTURES: dict[str, type[Full] | type[Diagonal] | type[Identity]] = {
    "full": Full,
    "diagonal": Diagonal,
    "identity": Identity,
}
