"""Coordinates of a population model in which a metric is of some kind by construction.

Scores are written in natural parameters (`crowdmetric.users.layout`). A *chart* parametrizes them by θ and pulls
gradients and information back. The kinds of metric are nested:

===========  ===================  ===========================================================================
kind         coordinates          M
===========  ===================  ===========================================================================
none         –                    0 (free people only): linear utilities, and nobody has an ideal point
identity     log a                a multiple of the identity
psd          L (d, k)             positive semi-definite, of rank k at most
symmetric    svec                 any symmetric matrix
===========  ===================  ===========================================================================

With ``M = LLᵀ`` ::

    dM = dL Lᵀ + L dLᵀ,      gradient 2 G L,      curvature Jᵀ I J + 2 G₊ ⊗ 1

where G = ∂f/∂M and I is the information in svec M. The second term is the curvature of the chart itself. If M is zero
in some directions, G is not zero but positive semi-definite there; without G₊ a step would ignore how strongly the
boundary pushes back. A multiple of the identity has ``log a`` instead, and the term ``a ⟨G, I⟩₊``: without it, steps
toward a metric of zero would become longer and longer.

For isotropic people the coordinates are those of ``A = 2sM``, which is the root of people's covariance Σ = A², and
``log κ`` with ``M = κA``, ``s = 1/(2κ)``. If the answers support no metric, κ goes to zero and A converges. In the
coordinates M and s, s would diverge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from crowdmetric.errors import DataError
from crowdmetric.solvers.scoring import Quadratic
from crowdmetric.symmetric import degrees_of_freedom, project_psd, smat, svec
from crowdmetric.users.layout import Layout

__all__ = ["KINDS", "Parametrization"]

Array = NDArray[Any]

KINDS = ("none", "identity", "psd", "symmetric")
# Range of κ. Beyond it, people have linear utilities, or are all in one place, as far as answers can tell.
LEAST_KAPPA, MOST_KAPPA = 1e-5, 1e5


@dataclass(frozen=True)
class Parametrization:
    """θ = (the metric's coordinates, μ, log κ or F with Σ = FFᵀ, the items' utilities b).

    Attributes
    ----------
    d : int
    kind : {'none', 'identity', 'psd', 'symmetric'}
    free : bool
        Whether the covariance is free (F, d × d) or isotropic (log κ).
    n_items : int
        How many items have a utility of their own; θ and natural parameters have the same.
    rank : int, optional
        Columns of L; None: d.
    """

    d: int
    kind: str
    free: bool
    n_items: int = 0
    rank: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(f"metric={self.kind!r} is unknown; use {', '.join(map(repr, KINDS))}")
        if self.kind == "none" and not self.free:
            raise DataError("without a metric there are no ideal points to be isotropic; use covariance='free'")

    @property
    def layout(self) -> Layout:
        """Where natural parameters stand."""
        return Layout(self.d, self.free, self.n_items)

    @property
    def columns(self) -> int:
        """How many columns L has."""
        return self.rank or self.d

    @property
    def is_one_to_one(self) -> bool:
        """Whether different θ are different populations; factors of one matrix are many."""
        return self.kind in ("identity", "symmetric") and not self.free

    def nested(self) -> Parametrization | None:
        """Return the chart of the nearest simpler kind of metric, None if there is none."""
        simpler = {"psd": "identity", "symmetric": "psd"}.get(self.kind)
        return None if simpler is None else replace(self, kind=simpler, rank=None)

    def _sizes(self) -> list[int]:
        metric = {"none": 0, "identity": 1, "psd": self.d * self.columns, "symmetric": degrees_of_freedom(self.d)}
        return [metric[self.kind], self.d, self.d**2 if self.free else 1, self.n_items]

    def _parts(self, theta: Array) -> list[Array]:
        """Return the four parts of θ."""
        return np.split(theta, np.cumsum(self._sizes())[:-1])

    def _matrix(self, coordinates: Array) -> Array:
        """Return svec of the matrix that the metric's coordinates stand for (p,)."""
        if self.kind == "none":
            return np.zeros(degrees_of_freedom(self.d))
        if self.kind == "identity":
            return float(np.exp(coordinates[0])) * svec(np.eye(self.d))
        if self.kind == "psd":
            L = coordinates.reshape(self.d, self.columns)
            return svec(L @ L.T)
        return coordinates

    def metric_directions(self) -> Array:
        """Return the directions (p, ·) in which svec M can move, orthonormal: all, the identity, or none."""
        p = degrees_of_freedom(self.d)
        if self.kind in ("none", "identity"):
            return svec(np.eye(self.d))[:, None] / np.sqrt(self.d) if self.kind == "identity" else np.zeros((p, 0))
        return np.eye(p)

    def natural(self, theta: Array) -> Array:
        """Return the natural parameters at θ."""
        coordinates, mean, spread, effects = self._parts(theta)
        matrix = self._matrix(coordinates)
        if self.free:
            F = spread.reshape(self.d, self.d)
            return np.concatenate([matrix, mean, svec(F @ F.T), effects])
        log_kappa = _within(float(spread[0]))
        return np.concatenate([np.exp(log_kappa) * matrix, mean, [-log_kappa - np.log(2.0)], effects])

    def theta(self, metric: Array, mean: Array, spread: Array, effects: Array | None = None) -> Array:
        """Return θ from M (d, d), μ, log s or Σ (d, d), and b (by default zero); M is taken as near as the kind can."""
        if self.free:
            scale, last = 1.0, _factor(spread, self.d).ravel()
        else:
            last = np.array([_within(-float(np.atleast_1d(spread)[0]) - float(np.log(2.0)))])
            scale = float(np.exp(-last[0]))
        b = np.zeros(self.n_items) if effects is None else effects
        return np.concatenate([self._coordinates(scale * metric), mean, last, b])

    def resized(self, theta: Array, change: float) -> Array:
        """Return θ with a metric ``exp(change)`` times as large; people's v vary as before."""
        coordinates, mean, spread, effects = self._parts(theta)
        if self.free:
            coordinates = coordinates * np.exp(change if self.kind == "symmetric" else 0.5 * change)
        else:
            spread = spread + change
        return np.concatenate([coordinates, mean, spread, effects])

    def _coordinates(self, A: Array) -> Array:
        if self.kind == "none":
            return np.empty(0)
        if self.kind == "identity":
            return np.log([max(float(np.trace(A)) / self.d, 1e-12)])
        return svec(A) if self.kind == "symmetric" else _factor(A, self.columns).ravel()

    def shorten(self, theta: Array, step: Array) -> float:
        """Return the largest share of a step that at most doubles the metric's size and people's spread.

        Far from the optimum the likelihood is flat where both grow together, and the fit would not return from a long
        step.
        """
        metric, _, spread, _ = self._parts(theta)
        dmetric, _, dspread, _ = self._parts(step)
        grown = [_growth(metric, dmetric) if self.kind in ("psd", "symmetric") else _largest(dmetric)]
        grown.append(_growth(spread, dspread) if self.free else _largest(dspread))
        return min(1.0, 1.0 / max(*grown, 1e-300))

    def pull_back(self, theta: Array, value: float, gradient: Array, information: Array) -> Quadratic:
        """Return f, its gradient and its curvature in θ from those in natural parameters."""
        own = self.layout.own  # effects of items are θ themselves
        own_theta = theta.size - self.n_items

        def pulled(X: Array) -> Array:
            return np.concatenate([self._transposed(theta, X[:own]), X[own:]])

        curvature = pulled(pulled(information).T)
        curvature[:own_theta, :own_theta] += self._bend(theta, gradient)
        return Quadratic(value, pulled(gradient[:, None])[:, 0], curvature)

    def _transposed(self, theta: Array, X: Array) -> Array:
        """Return JᵀX of X (own, m), J the derivative of natural parameters: 2 G L for each column svec G of M = LLᵀ."""
        at = self.layout
        coordinates, _, spread, _ = self._parts(theta)
        scale = 1.0 if self.free else float(np.exp(_within(float(spread[0]))))
        X_metric, matrix = scale * X[at.metric], self._matrix(coordinates)
        if self.kind == "psd":
            of_metric = _along_factor(X_metric, coordinates.reshape(self.d, self.columns))
        elif self.kind == "identity":
            of_metric = (matrix @ X_metric)[None]
        else:
            of_metric = X_metric[: self._sizes()[0]]
        if self.free:
            of_spread = _along_factor(X[at.spread], spread.reshape(self.d, self.d))
        elif _within(float(spread[0])) == float(spread[0]):
            of_spread = (matrix @ X_metric)[None] - X[at.spread]
        else:
            of_spread = np.zeros((1, X.shape[1]))
        return np.concatenate([of_metric, X[at.mean], of_spread])

    def _bend(self, theta: Array, gradient: Array) -> Array:
        """Return the curvature of the chart itself, without what is negative."""
        at = self.layout
        coordinates, _, spread, _ = self._parts(theta)
        scale = 1.0 if self.free else float(np.exp(_within(float(spread[0]))))
        of_metric: Array = np.zeros((self._sizes()[0],) * 2)
        of_spread: Array = np.zeros((self._sizes()[2],) * 2)
        if self.kind == "psd":
            of_metric = 2.0 * scale * np.kron(project_psd(smat(gradient[at.metric])), np.eye(self.columns))
        elif self.kind == "identity":
            of_metric[:] = max(scale * float(gradient[at.metric] @ self._matrix(coordinates)), 0.0)
        if self.free:
            of_spread = 2.0 * np.kron(project_psd(smat(gradient[at.spread])), np.eye(self.d))
        return block_diag(of_metric, np.zeros((self.d, self.d)), of_spread)


def _along_factor(X: Array, L: Array) -> Array:
    """Return the derivatives (d·k, m) by the entries of L (d, k) of functions of LLᵀ, from those by svec, X (p, m)."""
    return (2.0 * (smat(X.T) @ L)).reshape(X.shape[1], -1).T


def _within(log_kappa: float) -> float:
    return float(np.clip(log_kappa, np.log(LEAST_KAPPA), np.log(MOST_KAPPA)))


def _growth(part: Array, step: Array) -> float:
    return float(np.linalg.norm(step)) / max(float(np.linalg.norm(part)), 1e-300)


def _largest(step: Array) -> float:
    return float(np.max(np.abs(step), initial=0.0))


def _factor(A: Array, rank: int) -> Array:
    """Return L (d, rank) with ``LLᵀ`` nearest to A."""
    values, vectors = np.linalg.eigh(A)
    return vectors[:, ::-1][:, :rank] * np.sqrt(np.maximum(values[::-1][:rank], 0.0))
