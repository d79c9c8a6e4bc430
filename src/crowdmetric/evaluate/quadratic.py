"""One quadratic utility for everybody: features and their products, and no people at all.

``Pr[right preferred] = σ(h(x_right) − h(x_left))`` with ``h(x) = zᵀQz + l·z``, Q any symmetric matrix, and
z = (x − mean) / spread of each feature over the items that were compared, so units of features do not matter. The
weights (svec Q, l) are shrunk alike, ``N(0, 1/λ)``, λ by cross-validation blocked by person
(`crowdmetric.fits.common_utility`).

This is the learned metric's utility without anybody's ideal point: what a metric gains over it comes from people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.fits.common_utility import CommonUtility, Tally, fit_quadratic

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
        found = fit_quadratic(X, Tally.of(train), self.precision)
        return CommonUtility(found.utilities(X), found.precision)
