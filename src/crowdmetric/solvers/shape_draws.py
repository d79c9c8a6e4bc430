"""Draws of metrics under a likelihood of size and shape whose gradient is known, by Hamiltonian Monte Carlo.

The coordinates and the prior are those of `crowdmetric.solvers.posterior`: ``M = eᵗ (I + T)``, and a lower triangular L
with ``S = I + T = d LLᵀ/‖L‖²``. With the likelihood's derivatives by t and by s = svec S, ::

    log q = log likelihood(t, s) + log prior(L) − ½ (t − t₀)²/F²
    d/dt  = by_size − (t − t₀)/F²
    d/dL  = (2d/‖L‖²) smat(by_shape) L − 2 (by_shapeᵀs/‖L‖²) L − L + diag((d − i)/L_ii)
            + 2r′ (diag(1/L_ii) − d L/‖L‖²)

r′ is the derivative of r there. t₀ is the log size of the estimate, and F (`FARTHEST`) the standard deviation of a weak
prior around it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdmetric.solvers.hamiltonian import draw_along
from crowdmetric.solvers.posterior import FARTHEST, SizeAndShape, number_of_draws
from crowdmetric.symmetric import dimension, project_psd, smat, svec

__all__ = ["GaussianLikelihood", "ShapedDensity", "SizedLikelihood", "draw_around", "draw_shaped"]

Array = NDArray[Any]

# The estimate is moved toward the identity by this share, to be positive definite.
LIFT = 0.02
# A Newton step changes the log of the size by at most this.
LONGEST_STEP = 1.0
# Newton steps to the mode, how often a step is halved, and the gain of a step, in nats, at which they end.
MODE_STEPS, MODE_HALVINGS, AT_MODE = 30, 10, 0.5


class SizedLikelihood(Protocol):
    """A log-likelihood of metrics ``eᵗ smat(s)``."""

    def __call__(self, t: Array, shapes: Array) -> tuple[Array, Array, Array]:
        """Return values (C,) and derivatives by_size (C,) and by_shape (C, p), for sizes (C,) and shapes s (C, p)."""
        ...

    def information(self, t: float, shape: Array) -> Array:
        """Return approximately minus the second derivative (1 + p, 1 + p) in (t, s), positive semi-definite."""
        ...


@dataclass(frozen=True)
class GaussianLikelihood:
    """``−½ (a − center)ᵀ precision (a − center)`` in a = svec M; precision (p, p) may be singular."""

    center: Array
    precision: Array

    def __call__(self, t: Array, shapes: Array) -> tuple[Array, Array, Array]:
        """Return values and derivatives."""
        a = np.exp(t)[:, None] * shapes
        pull = (self.center - a) @ self.precision
        value = -0.5 * np.einsum("cp,cp->c", pull, self.center - a)
        return value, np.einsum("cp,cp->c", pull, a), np.exp(t)[:, None] * pull

    def information(self, t: float, shape: Array) -> Array:
        """Return the precision in (t, s)."""
        J = np.column_stack([shape, np.eye(shape.size)]) * np.exp(t)
        return np.asarray(J.T @ self.precision @ J)


@dataclass(frozen=True)
class ShapedDensity:
    """The log density of points (t, L), in rows (C, 1 + p), with its gradient."""

    space: SizeAndShape
    likelihood: SizedLikelihood
    size: float

    @classmethod
    def near(cls, likelihood: SizedLikelihood, m: Array) -> tuple[ShapedDensity, Array]:
        """Return the density for an estimate svec M = m, and a point near the estimate."""
        space = SizeAndShape(dimension(m.size))
        t, T = space.coordinates(m)
        L = np.linalg.cholesky(smat(space.identity + (1.0 - LIFT) * (space.basis @ T)))
        return cls(space, likelihood, t), np.append(t, L[space.lower])

    def metrics(self, x: Array) -> Array:
        """Return svec M (C, p)."""
        return np.asarray(np.exp(x[:, :1]) * self.space.shapes(x[:, 1:]))

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return log densities (C,) and gradients (C, 1 + p)."""
        d, (rows, columns) = self.space.d, self.space.lower
        t, entries = x[:, 0], x[:, 1:]
        L = np.zeros((len(x), d, d))
        L[:, rows, columns] = entries
        squares = np.sum(entries**2, axis=1)
        shapes = svec(L @ L.transpose(0, 2, 1)) * (d / squares)[:, None]
        value, by_size, by_shape = self.likelihood(t, shapes)
        away = (t - self.size) / FARTHEST**2
        value = value + self.space.log_prior(entries) - 0.5 * away * (t - self.size)
        slope = np.empty_like(x)
        slope[:, 0] = by_size - away
        rounder = self.space.roundness(self.space.volume(entries))[1]
        radial = 2.0 * (np.einsum("cp,cp->c", by_shape, shapes) + self.space.d * rounder) / squares + 1.0
        slope[:, 1:] = (smat(by_shape) @ L)[:, rows, columns] * (2.0 * d / squares)[:, None] - radial[:, None] * entries
        slope[:, 1 + self._pivots] += self._pull(entries[:, self._pivots], rounder)
        return value, slope

    @property
    def _pivots(self) -> NDArray[np.intp]:
        rows, columns = self.space.lower
        return np.flatnonzero(rows == columns)

    def _pull(self, pivots: Array, rounder: Array) -> Array:
        """Return ``(d − i + 2r′)/L_ii`` (C, d) for pivots (C, d) and r′ (C,), zero where there is no pull."""
        pull = np.arange(self.space.d - 1.0, -1.0, -1.0) + 2.0 * rounder[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(pull > 0.0, pull / pivots, 0.0)

    def curvature(self, x: Array) -> Array:
        """Return about minus the second derivative at one point, positive definite.

        S is quadratic in L: where the answers push S against the edge of the cone, with a slope G there, most of the
        curvature in L is that of S, ``−(2d/‖L‖²) ⟨G, dL dLᵀ⟩``. Directions in which it is negative are left out.
        """
        entries, pivots = x[1:], self._pivots
        d, (rows, columns) = self.space.d, self.space.lower
        shape = self.space.shapes(entries[None])
        J = np.zeros((entries.size + 1, entries.size + 1))
        J[0, 0] = 1.0
        J[1:, 1:] = self.space.basis @ self.space.slope(entries)
        H = J.T @ self.likelihood.information(float(x[0]), shape[0]) @ J
        by_shape = self.likelihood(x[:1], shape)[2][0]
        against = project_psd(float(by_shape @ shape[0]) / d * np.eye(d) - smat(by_shape))
        same_column = columns[:, None] == columns
        H[1:, 1:] += np.where(same_column, against[np.ix_(rows, rows)], 0.0) * (2.0 * d / float(entries @ entries))
        rounder = self.space.roundness(self.space.volume(entries[None]))[1]
        bend = np.full(x.size, 1.0 + 2.0 * d * rounder[0] / float(entries @ entries))
        bend[0] = FARTHEST**-2
        diagonal = np.where(entries[pivots] == 0.0, 1.0, entries[pivots])
        bend[1 + pivots] += self._pull(diagonal[None], rounder)[0] / diagonal
        H[np.diag_indices_from(H)] += bend
        return np.asarray(H)

    def mode(self, x: Array) -> Array:
        """Return approximately the most likely size and shape, by Newton's method from a start.

        M does not depend on ‖L‖, which is set to its root mean square d; its most likely value is far smaller.
        """
        x = self._typical(x)
        (value,), (slope,) = self(x[None])
        for _ in range(MODE_STEPS):
            slope[1:] -= x[1:] * (slope[1:] @ x[1:]) / (x[1:] @ x[1:])
            step = np.linalg.solve(self.curvature(x), slope)
            step /= max(1.0, abs(step[0]) / LONGEST_STEP)
            gain = float(slope @ step)
            if gain < AT_MODE:
                break
            for halvings in range(MODE_HALVINGS):
                trial = self._typical(x + 0.5**halvings * step)
                (new,), (new_slope,) = self(trial[None])
                if new > value + 1e-4 * gain * 0.5**halvings:
                    break
            else:
                break  # rounding prevents further progress
            x, value, slope = trial, new, new_slope
        return x

    def at(self, t: float, shape: Array) -> Array:
        """Return the point of a size and a positive definite shape s (p,)."""
        return self._typical(np.append(t, np.linalg.cholesky(smat(shape))[self.space.lower]))

    def _typical(self, x: Array) -> Array:
        return np.append(x[0], x[1:] * (self.space.d / np.linalg.norm(x[1:])))


def draw_shaped(
    density: ShapedDensity, start: Array, count: int | None = None, seed: int = 0, *, least_step: float = 0.0
) -> Array:
    """Return draws svec M (n, p) from a density near a start; n is `count`, or as many as usual.

    None are drawn (0, p) if that would need steps smaller than `least_step`.
    """
    covariance = np.linalg.inv(density.curvature(start))
    count = number_of_draws(density.space.d) if count is None else count
    return density.metrics(draw_along(density, start, covariance, count, seed, least_step=least_step))


def draw_around(center: Array, precision: Array, m: Array, seed: int = 0) -> Array:
    """Return draws svec M (n, p) under a `GaussianLikelihood`; m is the estimate, which is positive semi-definite.

    If the estimate is smaller than the standard error of its size, the prior is centered at that standard error.
    """
    density, start = ShapedDensity.near(GaussianLikelihood(center, precision), m)
    known_size = float(density.space.identity @ precision @ density.space.identity)
    if known_size > 0.0:
        start[0] = max(start[0], -0.5 * np.log(known_size))
    density = replace(density, size=float(start[0]))
    return draw_shaped(density, density.mode(start), seed=seed)
