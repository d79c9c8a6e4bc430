"""Smooth tastes as an evaluated model (`crowdmetric.estimators.smooth`)."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.estimators.smooth import TasteMetric
from crowdmetric.evaluate.estimated import FittedEstimator

__all__ = ["SMOOTHNESS", "TasteModel"]

Array = NDArray[Any]

# Trial fits stop when a step gains less evidence than this, in nats: predictions do not change below it.
TOLERANCE = 0.3
# One shape of the kernel: on shared sets the best of them gained less than 0.001 nats per answer, for twice the time.
SMOOTHNESS = "matern52"


@dataclass(frozen=True)
class TasteModel:
    """Learn a metric inside a kernel, and smooth utilities.

    Attributes
    ----------
    name : str
    structure, shape : str
        As for `TasteMetric`.
    """

    name: str = "smooth"
    structure: str = "auto"
    shape: str = SMOOTHNESS

    def fit(self, items: Array, train: Comparisons, begin: TasteMetric | None = None) -> FittedEstimator:
        """Learn from answers about items (N, d); from where a fit to other answers of the same people ended."""
        estimator = copy(begin)
        if estimator is None:
            estimator = TasteMetric(
                items, structure=self.structure, shape=self.shape, tol=TOLERANCE, uncertainty=False, warm_start=True,
                sharpen=False,
            )  # fmt: skip
        return FittedEstimator(estimator.fit(train), frozenset(np.unique(train.user).tolist()), estimator)
