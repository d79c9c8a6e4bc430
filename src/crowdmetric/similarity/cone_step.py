"""A Newton step that stays in a cone: minimize a quadratic over positive semi-definite metrics.

::

    min  gᵀ(x − θ) + ½ (x − θ)ᵀ H (x − θ)      over x in the cone

by the alternating direction method of multipliers. It works in coordinates ``Sθ`` in which items of the same covariance
have none (`MetricStructure.whitening`), so that few iterations are needed however the features are correlated, and in
which the nearest point of the cone is found by one eigendecomposition. With ``A = S⁻ᵀHS⁻¹`` and ``b = S⁻ᵀ(Hθ − g)`` an
iteration is ::

    x = (A + ρI)⁻¹ (b + ρ(z − y))        z ← nearest point of the cone to x + y        y ← y + x − z

The multiplier ρy and the balance ρ are kept between steps: the next Newton step starts where this one ended.

Where answers say nothing of some directions, as of a feature that repeats another, this may take very many iterations.
Then, and in all later steps, the same point is found by a barrier (`_by_barrier`), which costs more per iteration and
does not depend on the conditioning.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from crowdmetric.similarity.structures import MetricStructure

__all__ = ["ConeStep", "regular"]

Array = NDArray[np.float64]

MAX_ITERATIONS = 1_000
# Iterations between checks of the residuals, iterations between changes of ρ, and the ratio of the residuals, each
# relative to its own variable, above which ρ is doubled or halved.
EVERY, REBALANCED, IMBALANCE = 5, 40, 4.0
# Over-relaxation, which saves about a third of the iterations.
RELAXED = 1.6
# Share of the largest variance that is added to the covariance, so items in a subspace do no harm.
LEAST_VARIANCE = 1e-3
# By the barrier: how many times smaller its weight gets at a time, and the nats that it may cost in the end; the
# maximum number of Newton steps for each weight, and the decrease, in units of the weight, at which they end.
SHARPER, WEIGHT_LEFT, CENTERING, CENTERED = 20.0, 1e-11, 50, 1e-3
SHORTEST = 1e-10


@dataclass
class ConeStep:
    """Minimizes quadratics over the cone of a structure, for items with a covariance (d, d)."""

    structure: MetricStructure
    covariance: Array
    multiplier: Array | None = field(default=None, init=False)
    balance: float = field(default=1.0, init=False)
    is_slow: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        values, vectors = np.linalg.eigh(self.covariance)
        values = np.maximum(values, LEAST_VARIANCE * values[-1])
        self.into = self.structure.whitening((vectors * np.sqrt(values)) @ vectors.T)
        self.back = np.linalg.inv(self.into)

    def solve(self, theta: Array, g: Array, H: Array, accuracy: float = 1e-8) -> Array:
        """Return the minimizer x in the cone, up to residuals of `accuracy` relative to ``‖b‖``."""
        free = theta - cho_solve(cho_factor(regular(H)), g)
        if not np.any(self.structure.negative(free)):
            self.multiplier = np.zeros_like(theta)
            return free
        A, b = self.back.T @ H @ self.back, self.back.T @ (H @ theta - g)
        if self.is_slow:
            return self.back @ self._by_barrier(A, b, self.into @ theta)
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
        else:
            self.is_slow = True
            return self.back @ self._by_barrier(A, b, z)
        self.multiplier = rho * y
        return self.back @ z

    def _by_barrier(self, A: Array, b: Array, start: Array) -> Array:
        """Return the minimizer of ``½xᵀAx − bᵀx`` in the cone: of that and a barrier whose weight w falls to nothing.

        At the minimizer for a weight w, the quadratic is within w times the number of eigenvalues of its minimum.
        """
        identity = self.structure.theta(np.eye(len(self.covariance)))
        x = self.structure.project(start)
        x = x + 0.1 * max(float(x @ identity) / float(identity @ identity), 1e-6) * identity
        weight = 1.0
        while weight > WEIGHT_LEFT:
            for _ in range(CENTERING):
                at = self.structure.barrier(x)
                assert at is not None  # steps stay inside
                value, slope, curvature = at
                g = A @ x - b + weight * slope
                step = -cho_solve(cho_factor(regular(A + weight * curvature), check_finite=False), g)
                decrease = -float(g @ step)
                if decrease < CENTERED * weight:
                    break
                x = x + self._length(A, b, x, step, weight, value, decrease) * step
            weight /= SHARPER
        return x

    def _length(self, A: Array, b: Array, x: Array, step: Array, weight: float, value: float, decrease: float) -> float:
        """Return the longest of the steps 1, ½, ¼, … that stays in the cone and lowers what is minimized."""
        along, bend = float((A @ x - b) @ step), float(step @ A @ step)
        length = 1.0
        while length > SHORTEST:
            there = self.structure.barrier(x + length * step)
            if there is not None:
                change = length * along + 0.5 * length**2 * bend + weight * (there[0] - value)
                if change <= -1e-4 * length * decrease:
                    return length
            length *= 0.5
        return 0.0


def _relative(residual: Array, variable: Array) -> float:
    return float(np.linalg.norm(residual)) / max(float(np.linalg.norm(variable)), 1e-300)


def _inverse(A: Array, rho: float) -> Array:
    """Return ``(A + ρI)⁻¹``: with many iterations, a product with it is cheaper than two triangular solves."""
    n = len(A)
    inverse: Array = cho_solve(cho_factor(regular(A + rho * np.eye(n)), check_finite=False), np.eye(n))
    return inverse


def regular(H: Array) -> Array:
    """Return H with a trace of the identity, so rounding does not make it indefinite."""
    return H + 1e-13 * np.trace(H) / len(H) * np.eye(len(H))
