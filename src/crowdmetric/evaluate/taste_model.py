"""Smooth tastes as an evaluated model (`crowdmetric.estimators.smooth`)."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.estimators.smooth import TasteMetric

__all__ = ["SMOOTHNESS", "FittedTastes", "TasteModel"]

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
    start : TasteMetric, optional
        The same model, fitted to other answers of the same people, to begin where it ended.
    """

    name: str = "smooth"
    structure: str = "auto"
    shape: str = SMOOTHNESS
    start: TasteMetric | None = None

    def fit(self, items: Array, train: Comparisons) -> FittedTastes:
        """Learn from answers about items (N, d)."""
        estimator = copy(self.start)
        if estimator is None:
            estimator = TasteMetric(
                items, structure=self.structure, shape=self.shape, tol=TOLERANCE, uncertainty=False, warm_start=True,
                sharpen=False,
            )  # fmt: skip
        return FittedTastes(estimator.fit(train), frozenset(np.unique(train.user).tolist()))


@dataclass(frozen=True)
class FittedTastes:
    """A fitted estimator and the numbers of the people it has met."""

    estimator: TasteMetric
    met: frozenset[int]

    @property
    def end(self) -> TasteMetric:
        """Where the fit ended, for the same model to begin there with other answers."""
        return self.estimator

    def probability(self, questions: Comparisons, known: Comparisons) -> Array:
        """Return Pr[right preferred] (T,); new people are known by their known answers alone."""
        right: Array = self.estimator.predict_proba(questions)[:, 1].copy()
        new = ~np.isin(known.user, list(self.met))
        rows = np.isin(questions.user, np.unique(known.user[new]))
        if rows.any():
            right[rows] = self.estimator.place(known.take(new)).predict_proba(questions.take(rows))[:, 1]
        return right
