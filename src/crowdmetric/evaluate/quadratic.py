"""One quadratic utility for everybody: features and their products, and no people at all.

``Pr[right preferred] = σ(h(x_right) − h(x_left))`` with ``h(x) = zᵀQz + l·z``, Q any symmetric matrix, and
z = (x − mean) / spread of each feature over the items that were compared, so units of features do not matter. The
weights (svec Q, l) are shrunk alike, ``N(0, 1/λ)``, λ by cross-validation blocked by person (`common_utility`).

This is the learned metric's utility without anybody's ideal point: what a metric gains over it comes from people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.evaluate.common_utility import CommonUtility, Tally, choose_precision, fit_weights
from crowdmetric.preprocess import spreads_of
from crowdmetric.symmetric import degrees_of_freedom, smat, svec

__all__ = ["PooledQuadratic"]

Array = NDArray[Any]


@dataclass(frozen=True)
class PooledQuadratic:
    """Learn one quadratic utility of items.

    Attributes
    ----------
    precision
        λ; None: by cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric import Comparisons
    >>> answers = Comparisons.from_arrays([0, 0, 1, 1], [[0, 1], [1, 2], [0, 2], [2, 1]], [-1, 1, -1, 1])
    >>> from crowdmetric.evaluate import PooledQuadratic
    >>> items = np.array([[0.0], [1.0], [2.0]])
    >>> PooledQuadratic().fit(items, answers).probability(answers, answers).shape
    (4,)
    """

    name: str = "quadratic"
    precision: float | None = None

    def fit(self, items: Array, train: Comparisons) -> CommonUtility:
        """Learn from answers about items (N, d)."""
        X = np.asarray(items, dtype=np.float64)
        shown = np.unique(train.pairs)
        Z = (X - X[shown].mean(axis=0)) / spreads_of(X[shown])
        tally = Tally.of(train)
        # learned from the items shown alone; the others only have to be described afterwards
        rows = np.zeros(len(X), dtype=np.intp)
        rows[shown] = np.arange(shown.size)
        tally = Tally(rows[tally.low], rows[tally.high], tally.up, tally.down)
        some = _Products(Z[shown])
        precision = choose_precision(tally, some) if self.precision is None else self.precision
        up, down = tally.up.sum(axis=0), tally.down.sum(axis=0)
        weights = fit_weights(tally, up, down, some, precision, np.zeros(some.size))
        return CommonUtility(_Products(Z).utilities(weights), precision)


@dataclass(frozen=True)
class _Products:
    """Rows (svec zzᵀ, z) of Φ for items Z (N, d), never written down: (N, d(d+1)/2 + d)."""

    Z: Array

    @property
    def size(self) -> int:
        return degrees_of_freedom(self.Z.shape[1]) + self.Z.shape[1]

    def utilities(self, weights: Array) -> Array:
        p = degrees_of_freedom(self.Z.shape[1])
        return np.asarray(np.einsum("nd,nd->n", self.Z @ smat(weights[:p]), self.Z) + self.Z @ weights[p:])

    def adjoint(self, values: Array) -> Array:
        return np.concatenate([svec(self.Z.T @ (values[:, None] * self.Z)), self.Z.T @ values])

    def squares(self, values: Array) -> Array:
        # an entry of svec off the diagonal is √2 z_j z_l, and its square 2 z_j² z_l²: once the √2 is svec's own
        S = self.Z**2
        products = S.T @ (values[:, None] * S)
        twice = products * np.where(np.eye(len(products)) > 0, 1.0, np.sqrt(2.0))
        return np.concatenate([svec(twice), S.T @ values])
