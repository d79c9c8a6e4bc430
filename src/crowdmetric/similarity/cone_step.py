"""A Newton step that stays in a cone: minimize a quadratic over positive semi-definite metrics.

::

    min  gᵀ(x − θ) + ½ (x − θ)ᵀ H (x − θ)      over x in the cone

by the alternating direction method of multipliers. It works in coordinates ``Sθ`` in which items of the same covariance
have none (`MetricStructure.whitening`), so that few iterations are needed however the features are correlated, and in
which the nearest point of the cone is found by one eigendecomposition. With ``A = S⁻ᵀHS⁻¹`` and ``b = S⁻ᵀ(Hθ − g)`` an
iteration is ::

    x = (A + ρI)⁻¹ (b + ρ(z − y))        z ← nearest point of the cone to x + y        y ← y + x − z

The multiplier ρy and the balance ρ are kept between steps: the next Newton step starts where this one ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from crowdmetric.similarity.structures import MetricStructure

__all__ = ["ConeStep"]

Array = NDArray[np.float64]

MAX_ITERATIONS = 2_000
# Iterations between checks of the residuals, iterations between changes of ρ, and the ratio of the residuals, each
# relative to its own variable, above which ρ is doubled or halved.
EVERY, REBALANCED, IMBALANCE = 5, 40, 4.0
# Over-relaxation, which saves about a third of the iterations.
RELAXED = 1.6
# Share of the largest variance that is added to the covariance, so items in a subspace do no harm.
LEAST_VARIANCE = 1e-3


@dataclass
class ConeStep:
    """Minimizes quadratics over the cone of a structure, for items with a covariance (d, d)."""

    structure: MetricStructure
    covariance: Array
    multiplier: Array | None = field(default=None, init=False)
    balance: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        values, vectors = np.linalg.eigh(self.covariance)
        values = np.maximum(values, LEAST_VARIANCE * values[-1])
        self.into = self.structure.whitening((vectors * np.sqrt(values)) @ vectors.T)
        self.back = np.linalg.inv(self.into)

    def solve(self, theta: Array, g: Array, H: Array, accuracy: float = 1e-8) -> Array:
        """Return the minimizer x in the cone, up to residuals of `accuracy` relative to ``‖b‖``."""
        free = theta - cho_solve(cho_factor(_regular(H)), g)
        if not np.any(self.structure.negative(free)):
            self.multiplier = np.zeros_like(theta)
            return free
        A, b = self.back.T @ H @ self.back, self.back.T @ (H @ theta - g)
        rho = self.balance * float(np.trace(A)) / theta.size
        inverse = _inverse(A, rho)
        z = self.structure.project(self.into @ theta)
        y = np.zeros_like(theta) if self.multiplier is None else self.multiplier / rho
        size = max(float(np.linalg.norm(b)), 1e-300)
        for iteration in range(1, MAX_ITERATIONS + 1):
            x = inverse @ (b + rho * (z - y))
            ahead = RELAXED * x + (1.0 - RELAXED) * z
            before, z = z, self.structure.project(ahead + y)
            y = y + ahead - z
            if iteration % EVERY:
                continue
            primal = rho * float(np.linalg.norm(x - z)) / size
            dual = rho * float(np.linalg.norm(z - before)) / size
            if max(primal, dual) < accuracy:
                break
            apart, moved = _relative(x - z, z), _relative(z - before, y)
            if iteration % REBALANCED == 0 and max(apart, moved) > IMBALANCE * min(apart, moved):
                change = 2.0 if apart > moved else 0.5
                rho, y, self.balance = rho * change, y / change, self.balance * change
                inverse = _inverse(A, rho)
        self.multiplier = rho * y
        return self.back @ z


def _relative(residual: Array, variable: Array) -> float:
    return float(np.linalg.norm(residual)) / max(float(np.linalg.norm(variable)), 1e-300)


def _inverse(A: Array, rho: float) -> Array:
    """Return ``(A + ρI)⁻¹``: with many iterations, a product with it is cheaper than two triangular solves."""
    n = len(A)
    inverse: Array = cho_solve(cho_factor(_regular(A + rho * np.eye(n)), check_finite=False), np.eye(n))
    return inverse


def _regular(H: Array) -> Array:
    """Return H with a trace of the identity, so rounding does not make it indefinite."""
    return H + 1e-13 * np.trace(H) / len(H) * np.eye(len(H))
