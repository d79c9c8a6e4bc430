"""What one answer adds to the barrier problem: a smooth loss as it is, the hinge through a slack of its own.

Both classes hold the answers of one block in per-answer arrays (P, m). With weights c,

- `SmoothTerms` adds ``c ℓ(ψ, y)``;
- `SlackTerms` writes the hinge as ``min ξ  s.t.  ξ ≥ 0, t = ξ + yψ − 1 ≥ 0`` and adds ``c ξ − μ log ξ − μ log t``.
  Its multipliers are a (of t) and b = c − a (of ξ); eliminating dξ, da and db from the linearized
  ``a t = μ, b ξ = μ`` leaves an effective slope and curvature in ψ, as if the hinge were smooth.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdmetric.losses import Hinge, Loss
from crowdmetric.users.ball import to_zero

__all__ = ["SlackTerms", "SmoothTerms", "Terms", "terms_for"]

Array = NDArray[Any]


class Terms(Protocol):
    """Answers of one block as the barrier solver sees them; arrays are (P, m), mu is (P, 1)."""

    def linearize(self, psi: Array, mu: Array) -> tuple[Array, Array, Array]:
        """Return merit, effective slope and curvature at ψ."""

    def minorant(self, psi: Array) -> tuple[Array, Array]:
        """Return (loss − tangent at ψ, slope of the tangent), a tangent being below ``c ℓ`` everywhere."""

    def direction(self, dpsi: Array) -> Array:
        """Set the step that belongs to dψ and return the directional derivative of the merit."""

    def longest(self) -> tuple[Array, Array]:
        """Return the longest primal and dual steps, (P,) each, that keep this block strictly inside."""

    def merit(self, psi: Array, alpha: Array) -> Array:
        """Return the merit after a step of length alpha (P, 1) that ends at ψ."""

    def advance(self, alpha: Array, alpha_dual: Array) -> None:
        """Take the step."""


class SmoothTerms:
    """Answers under a twice differentiable loss: the only state is the slope of the last linearization."""

    def __init__(self, loss: Loss, response: Array, weight: Array) -> None:
        self.loss, self.response, self.weight = loss, response, weight

    def linearize(self, psi: Array, mu: Array) -> tuple[Array, Array, Array]:
        value, slope, curvature = self.loss.value_slope_curvature(psi, self.response)
        self.slope = self.weight * slope
        return self.weight * value, self.slope, self.weight * curvature

    def minorant(self, psi: Array) -> tuple[Array, Array]:
        return np.zeros_like(psi), self.slope

    def direction(self, dpsi: Array) -> Array:
        return self.slope * dpsi

    def longest(self) -> tuple[Array, Array]:
        unlimited = np.full(self.response.shape[0], np.inf)
        return unlimited, unlimited

    def merit(self, psi: Array, alpha: Array) -> Array:
        return self.weight * self.loss.value(psi, self.response)

    def advance(self, alpha: Array, alpha_dual: Array) -> None:
        pass


class SlackTerms:
    """Answers under the hinge loss, each with its slack ξ and multiplier a."""

    def __init__(self, response: Array, weight: Array) -> None:
        # Padding has response 0: it becomes a constant row of weight 1, which changes nothing and which the mask
        # excludes from every sum.
        self.response = response
        self.filled = weight > 0
        self.c = np.where(self.filled, weight, 1.0)
        self.started = False

    def _center(self, z: Array, mu: Array) -> tuple[Array, Array]:
        """Return (ξ, t) on the central path: t > 0 solves ``c t² + (c q − 2μ) t − μ q = 0``, q = 1 − z, ξ = t + q."""
        c, q = self.c, 1.0 - z
        B = c * q - 2.0 * mu
        root = np.sqrt(4.0 * mu * mu + (c * q) ** 2)
        # of two equal formulas for the root, the one that avoids cancellation
        t = np.where(B > 0, 2.0 * mu * q / np.where(B > 0, B + root, 1.0), (root - B) / (2.0 * c))
        return t + q, t

    def linearize(self, psi: Array, mu: Array) -> tuple[Array, Array, Array]:
        if not self.started:
            self.started = True
            self.xi, self.t = self._center(self.response * psi, mu)
            self.a = mu / self.t
        # t is stored, not recomputed from ψ: if it is tiny, rounding in ξ + yψ − 1 could change its sign
        c, a, xi, t = self.c, self.a, self.xi, self.t
        self.mu = mu
        k_t, k_xi = a / t, (c - a) / xi
        total = k_t + k_xi
        slope = -mu / t + k_t * (mu / t + mu / xi - c) / total
        curvature = k_t * k_xi / total
        merit = c * xi - mu * (np.log(xi) + np.log(t))
        self.k_t, self.k_xi = k_t, k_xi
        return merit * self.filled, self.response * slope, curvature * self.filled

    def minorant(self, psi: Array) -> tuple[Array, Array]:
        margin = 1.0 - self.response * psi  # c max(0, margin) ≥ a margin for every a in [0, c]
        excess = self.c * np.maximum(margin, 0.0) - self.a * margin
        return excess * self.filled, -self.response * self.a

    def direction(self, dpsi: Array) -> Array:
        c, a, xi, t, mu = self.c, self.a, self.xi, self.t, self.mu
        dz = self.response * dpsi
        self.dxi = (mu / t + mu / xi - c - self.k_t * dz) / (self.k_t + self.k_xi)
        self.dt = self.dxi + dz
        self.da = mu / t - a - self.k_t * self.dt
        return (c * self.dxi - mu * (self.dxi / xi + self.dt / t)) * self.filled

    def longest(self) -> tuple[Array, Array]:
        primal = np.minimum(to_zero(self.xi, self.dxi), to_zero(self.t, self.dt))
        dual = np.minimum(to_zero(self.a, self.da), to_zero(self.c - self.a, -self.da))
        return primal.min(axis=1), dual.min(axis=1)

    def merit(self, psi: Array, alpha: Array) -> Array:
        xi, t = self.xi + alpha * self.dxi, self.t + alpha * self.dt
        return (self.c * xi - self.mu * (np.log(xi) + np.log(t))) * self.filled

    def advance(self, alpha: Array, alpha_dual: Array) -> None:
        self.xi = self.xi + alpha * self.dxi
        self.t = self.t + alpha * self.dt
        self.a = self.a + alpha_dual * self.da


def terms_for(loss: Loss, response: Array, weight: Array) -> Terms:
    """Return the terms of a block's answers under `loss`."""
    if isinstance(loss, Hinge):
        return SlackTerms(response, weight)
    return SmoothTerms(loss, response, weight)
