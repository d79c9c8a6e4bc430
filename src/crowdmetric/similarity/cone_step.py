"""A Newton step that stays in a cone: minimize a quadratic over positive semi-definite metrics.

::

    min  gᵀ(x − θ) + ½ (x − θ)ᵀ H (x − θ)      over x in the cone

by the alternating direction method of multipliers. Its metric is ``ρ R`` with R the shape that the curvature would
have for Gaussian items of the same covariance (`Structure.scaling`), so few iterations are needed however the
features are correlated. The multiplier and the balance ρ are kept between steps: the next Newton
step starts where this one ended.
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
# Iterations between checks of the residuals, iterations between changes of ρ, and the ratio of the residuals above
# which ρ is doubled or halved.
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
        self.root = (vectors * np.sqrt(values)) @ vectors.T
        self.inverse = (vectors / np.sqrt(values)) @ vectors.T
        self.R = self.structure.scaling((vectors * values) @ vectors.T)

    def solve(self, theta: Array, g: Array, H: Array, accuracy: float = 1e-8) -> Array:
        """Return the minimizer x in the cone, up to residuals of `accuracy` relative to ``‖Hθ − g‖``."""
        free = theta - cho_solve(cho_factor(_regular(H)), g)
        if not np.any(self.structure.negative(free)):
            self.multiplier = np.zeros_like(theta)
            return free
        b = H @ theta - g
        rho = self.balance * float(np.trace(H) / max(np.trace(self.R), 1e-300))
        factor = cho_factor(_regular(H + rho * self.R), check_finite=False)
        z = self._project(theta)
        y = np.zeros_like(theta) if self.multiplier is None else self.multiplier / rho
        size = max(float(np.linalg.norm(b)), 1e-300)
        for iteration in range(1, MAX_ITERATIONS + 1):
            x = cho_solve(factor, b + rho * (self.R @ (z - y)), check_finite=False)
            ahead = RELAXED * x + (1.0 - RELAXED) * z
            before, z = z, self._project(ahead + y)
            y = y + ahead - z
            if iteration % EVERY:
                continue
            primal = rho * float(np.linalg.norm(self.R @ (x - z))) / size
            dual = rho * float(np.linalg.norm(self.R @ (z - before))) / size
            if max(primal, dual) < accuracy:
                break
            if iteration % REBALANCED == 0 and max(primal, dual) > IMBALANCE * min(primal, dual):
                change = 2.0 if primal > dual else 0.5
                rho, y, self.balance = rho * change, y / change, self.balance * change
                factor = cho_factor(_regular(H + rho * self.R), check_finite=False)
        self.multiplier = rho * y
        return z

    def _project(self, theta: Array) -> Array:
        return self.structure.project(theta, self.root, self.inverse)


def _regular(H: Array) -> Array:
    """Return H with a trace of the identity, so rounding does not make it indefinite."""
    return H + 1e-13 * np.trace(H) / len(H) * np.eye(len(H))
