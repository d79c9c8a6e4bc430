"""Covariances between items: of what one person likes beside the crowd, and of what the crowd likes.

With items Z (N, d) in standardized features, q the squared distances ``(z − z')ᵀM(z − z')`` and
``G = Z M Zᵀ / tr M`` the inner products::

    K = s² [ κ(q)  + t² G + e² I ]                          a person: smooth, linear, and for each item by itself
    C = s² [ a² κ(ρq) + c² G + b² G∘G + ω² I ]              the crowd: smooth, linear, quadratic, and item effects

Parameters are θ = log (s, t, e, ω, a, c, b, ρ), followed by those of the metric (`structures`). All scales but s are
relative to s, so sharper answers change one parameter alone. Each has a Gaussian prior in θ, wide enough that
the answers decide wherever they say anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.smooth.kernel import SHAPES
from crowdmetric.smooth.kernel_metrics import STRUCTURES, KernelStructure, log_prior

__all__ = ["SCALES", "Covariances", "Grams"]

Array = NDArray[Any]

# Name, center and standard deviation (of the logarithm) of the prior of every scale.
SCALES = (
    ("size", 1.0, 1.5),
    ("person_linear", 0.5, 1.5),
    ("person_items", 0.3, 1.5),
    ("items", 0.3, 1.5),
    ("crowd_smooth", 0.5, 1.5),
    ("crowd_linear", 0.5, 1.5),
    ("crowd_quadratic", 0.2, 1.5),
    ("crowd_sharpness", 1.0, 0.7),
)


@dataclass(frozen=True)
class Covariances:
    """The two covariances as functions of θ.

    Attributes
    ----------
    structure : KernelStructure
    shape : str
        A key of `kernel.SHAPES`.
    """

    structure: KernelStructure
    shape: str

    @staticmethod
    def of(structure: str, d: int, shape: str) -> Covariances:
        """Return the family for items of d features."""
        return Covariances(STRUCTURES[structure](d), shape)

    @property
    def start(self) -> Array:
        """The θ where the prior is highest."""
        return np.concatenate([np.log([center for _, center, _ in SCALES]), self.structure.start])

    @property
    def spread(self) -> Array:
        """Standard deviations of the prior."""
        return np.concatenate([[spread for _, _, spread in SCALES], self.structure.spread])

    def log_prior(self, theta: Array) -> tuple[float, Array]:
        """Return the log density of the prior and its gradient."""
        return log_prior(theta, self.start, self.spread)

    def metric(self, theta: Array) -> Array:
        """Return M (d, d), for standardized features."""
        return self.structure.metric(theta[len(SCALES) :])

    def item_variances(self, theta: Array) -> tuple[float, float]:
        """Return the variances of the effects of single items: of a person, s²e², and of the crowd, s²ω²."""
        person, crowd = np.exp(2.0 * (theta[0] + theta[2:4]))
        return float(person), float(crowd)

    def like(self, other: Covariances, theta: Array) -> Array:
        """Return the θ of this family that is most like one of another: the same scales, and its metric."""
        return np.concatenate([theta[: len(SCALES)], self.structure.like(other.metric(theta))])

    def at(self, theta: Array, Z: Array) -> Grams:
        """Return both covariances of items Z (N, d)."""
        M = self.metric(theta)
        inner = Z @ M @ Z.T
        square = np.diag(inner)
        q = np.maximum(square[:, None] + square[None, :] - 2.0 * inner, 0.0)
        np.fill_diagonal(q, 0.0)
        return Grams(self, theta, Z, M, inner / max(float(np.trace(M)), 1e-300), q)


class Grams:
    """Both covariances at one θ, and the way back.

    Attributes
    ----------
    person, crowd : (N, N)
        K and C.
    """

    def __init__(self, family: Covariances, theta: Array, Z: Array, M: Array, G: Array, q: Array) -> None:
        kappa: Callable[[Array], tuple[Array, Array]] = SHAPES[family.shape]
        self._family, self._theta, self._Z, self._M, self._G, self._q = family, theta, Z, M, G, q
        relative = np.concatenate([[0.0], theta[1:7]])
        self._variances = np.exp(2.0 * (theta[0] + relative))  # of s, t, e, ω, a, c, b
        self._rho = float(np.exp(theta[7]))
        self._near, self._near_slope = kappa(q)
        self._wide, self._wide_slope = kappa(self._rho * q)
        s, t, e, omega, a, c, b = self._variances
        own = np.eye(len(Z))
        self.person: Array = s * self._near + t * G + e * own
        self.crowd: Array = a * self._wide + c * G + b * G * G + omega * own

    def gradient(self, person: Array, crowd: Array) -> Array:
        """Return the gradient in θ of a function whose gradients in K and C are these (N, N), symmetric."""
        s, t, e, omega, a, c, b = self._variances
        G, q, rho, Z, M = self._G, self._q, self._rho, self._Z, self._M
        scales = 2.0 * np.array(
            [
                s * np.sum(person * self._near),
                t * np.sum(person * G),
                e * np.trace(person),
                omega * np.trace(crowd),
                a * np.sum(crowd * self._wide),
                c * np.sum(crowd * G),
                b * np.sum(crowd * G * G),
            ]
        )
        scales[0] = scales.sum()  # everything is in units of s
        sharpness = a * rho * float(np.sum(crowd * self._wide_slope * q))
        in_q = s * person * self._near_slope + a * rho * crowd * self._wide_slope
        in_G = t * person + c * crowd + 2.0 * b * crowd * G
        # Σ in_q (z − z')(z − z')ᵀ is a Laplacian; G is divided by tr M
        in_M = 2.0 * (Z.T * in_q.sum(axis=0)) @ Z - 2.0 * Z.T @ in_q @ Z
        trace = max(float(np.trace(M)), 1e-300)
        in_M += (Z.T @ in_G @ Z - np.sum(in_G * G) * np.eye(len(M))) / trace
        tangents = self._family.structure.tangents(self._theta[len(SCALES) :])
        return np.concatenate([scales, [sharpness], np.einsum("pij,ij->p", tangents, in_M)])

    def derivatives(self) -> Iterator[tuple[Array | None, Array | None]]:
        """Yield the derivatives (N, N) of K and of C in every parameter of θ; None if there is none."""
        s, t, e, omega, a, c, b = 2.0 * self._variances
        G, q, rho, Z = self._G, self._q, self._rho, self._Z
        own = np.eye(len(Z))
        yield 2.0 * self.person, 2.0 * self.crowd
        yield t * G, None
        yield e * own, None
        yield None, omega * own
        yield None, a * self._wide
        yield None, c * G
        yield None, b * G * G
        yield None, 0.5 * a * rho * self._wide_slope * q
        trace = max(float(np.trace(self._M)), 1e-300)
        for tangent in self._family.structure.tangents(self._theta[len(SCALES) :]):
            inner = Z @ tangent @ Z.T
            square = np.diag(inner)
            in_q = square[:, None] + square[None, :] - 2.0 * inner
            in_G = (inner - float(np.trace(tangent)) * G) / trace
            yield (
                0.5 * (s * self._near_slope * in_q + t * in_G),
                0.5 * (a * rho * self._wide_slope * in_q + c * in_G + 2.0 * b * G * in_G),
            )
