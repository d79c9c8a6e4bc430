"""Coordinates of a population model in which a metric is one by construction.

Scores are written in natural parameters (`crowdmetric.users.population`): svec M, the mean μ, and what describes the
spread of people. A *chart* parametrises them by θ and pulls gradients and information back. With ``M = LLᵀ``,
L (d, k)::

    dM = dL Lᵀ + L dLᵀ,      gradient 2 G L,      curvature Jᵀ I J + 2 G₊ ⊗ 1

where G = ∂f/∂M and I the information in svec M. The second term is the bending of the chart itself: at a metric that
has lost a direction G is not zero but positive semi-definite there, and without its part G₊ a step would not know how
hard the boundary pushes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.solvers.scoring import Quadratic
from crowdmetric.symmetric import degrees_of_freedom, factor_jacobian, project_psd, smat, svec

__all__ = ["Chart"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Chart:
    """θ = (L or svec M, μ, log s or F with Σ = FFᵀ, the items' own utilities b).

    Attributes
    ----------
    d : int
    rank : int or None
        Columns of L; None: M is any symmetric matrix, for intervals and for the check whether people have ideal points.
    free : bool
        Whether the covariance is free (F, d × d) or isotropic (log s).
    n_items : int
        How many items have a utility of their own; θ and natural parameters have the same.
    """

    d: int
    rank: int | None
    free: bool
    n_items: int = 0

    def _parts(self, theta: Array) -> tuple[Array, Array, Array]:
        size = degrees_of_freedom(self.d) if self.rank is None else self.d * self.rank
        return theta[:size], theta[size : size + self.d], theta[size + self.d : theta.size - self.n_items]

    def natural(self, theta: Array) -> Array:
        """Return the natural parameters at θ."""
        metric, mean, spread = self._parts(theta)
        if self.rank is not None:
            L = metric.reshape(self.d, self.rank)
            metric = svec(L @ L.T)
        if self.free:
            F = spread.reshape(self.d, self.d)
            spread = svec(F @ F.T)
        return np.concatenate([metric, mean, spread, theta[theta.size - self.n_items :]])

    def theta(self, metric: Array, mean: Array, spread: Array, effects: Array | None = None) -> Array:
        """Return θ from M (d, d), μ, log s or Σ (d, d), and b (by default zero)."""
        first = svec(metric) if self.rank is None else _factor(metric, self.rank).ravel()
        last = _factor(spread, self.d).ravel() if self.free else np.atleast_1d(spread)
        return np.concatenate([first, mean, last, np.zeros(self.n_items) if effects is None else effects])

    def shorten(self, theta: Array, step: Array) -> float:
        """Return the share of a step that neither more than doubles the metric's size nor its people's spread.

        Far from the optimum the likelihood is flat where both grow together, and a bold step does not come back.
        """
        metric, _, spread = self._parts(theta)
        dmetric, _, dspread = self._parts(step)
        grown = float(np.linalg.norm(dmetric)) / max(float(np.linalg.norm(metric)), 1e-300)
        if self.free:
            grown = max(grown, float(np.linalg.norm(dspread)) / max(float(np.linalg.norm(spread)), 1e-300))
        else:
            grown = max(grown, float(np.abs(dspread[0])))
        return min(1.0, 1.0 / max(grown, 1e-300))

    def pull_back(self, theta: Array, value: float, gradient: Array, information: Array) -> Quadratic:
        """Return f, its gradient and its curvature in θ from those in natural parameters."""
        d, p = self.d, degrees_of_freedom(self.d)
        metric, _, spread = self._parts(theta)
        J = np.zeros((gradient.size, theta.size))
        bend = np.zeros((theta.size, theta.size))
        n = metric.size
        if self.rank is None:
            J[:p, :n] = np.eye(p)
        else:
            J[:p, :n] = factor_jacobian(metric.reshape(d, self.rank))
            bend[:n, :n] = 2.0 * np.kron(project_psd(smat(gradient[:p])), np.eye(self.rank))
        J[p : p + d, n : n + d] = np.eye(d)
        of, at = slice(p + d, gradient.size - self.n_items), slice(n + d, theta.size - self.n_items)
        if self.free:
            J[of, at] = factor_jacobian(spread.reshape(d, d))
            bend[at, at] = 2.0 * np.kron(project_psd(smat(gradient[of])), np.eye(d))
        else:
            J[of, at] = 1.0
        J[of.stop :, at.stop :] = np.eye(self.n_items)
        return Quadratic(value, J.T @ gradient, J.T @ information @ J + bend)


def _factor(A: Array, rank: int) -> Array:
    """Return L (d, rank) with ``LLᵀ`` nearest to A."""
    values, vectors = np.linalg.eigh(A)
    return vectors[:, ::-1][:, :rank] * np.sqrt(np.maximum(values[::-1][:rank], 0.0))
