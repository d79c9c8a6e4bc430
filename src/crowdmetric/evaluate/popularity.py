"""Item popularity (Bradley–Terry): everybody agrees, and features do not matter.

``Pr[right preferred] = σ(θ_right − θ_left)`` with ``θ ~ N(0, 1/λ)``, λ by cross-validation blocked by person
(`crowdmetric.fits.common_utility`, Φ = I). An item that was never seen is as popular as the average one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.fits.common_utility import CommonUtility, Tally, fit_popularity

__all__ = ["BradleyTerry"]

Array = NDArray[Any]


@dataclass(frozen=True)
class BradleyTerry:
    """Learn how popular items are.

    Attributes
    ----------
    precision
        λ; None: by cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric import Comparisons
    >>> answers = Comparisons.from_arrays([0, 0, 1, 1], [[0, 1], [1, 2], [0, 2], [2, 1]], [-1, 1, -1, 1])
    >>> from crowdmetric.evaluate import BradleyTerry
    >>> fitted = BradleyTerry().fit(np.zeros((3, 1)), answers)
    >>> fitted.probability(answers, answers).shape
    (4,)
    """

    name: str = "bradley-terry"
    precision: float | None = None

    def fit(self, items: Array, train: Comparisons) -> CommonUtility:
        """Learn the strengths; `items` says only how many there are."""
        return fit_popularity(Tally.of(train), train.n_items, self.precision)
