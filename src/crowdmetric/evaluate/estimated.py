"""The library's estimators as evaluated models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.base import CrowdMetric
from crowdmetric.comparisons import Comparisons
from crowdmetric.estimators import IdealPointMetric

__all__ = ["EstimatorModel", "FittedEstimator"]

Array = NDArray[Any]


@dataclass(frozen=True)
class EstimatorModel:
    """An estimator class and its options, all but the items.

    Attributes
    ----------
    name : str
    kind : class
        A `CrowdMetric` that gives probabilities.
    options : dict
    """

    name: str
    kind: type[CrowdMetric]
    options: dict[str, Any] = field(default_factory=dict)

    def fit(self, items: Array, train: Comparisons) -> FittedEstimator:
        """Learn from answers about items (N, d)."""
        estimator: Any = self.kind(items, **self.options)
        return FittedEstimator(estimator.fit(train), frozenset(np.unique(train.user).tolist()))


@dataclass(frozen=True)
class FittedEstimator:
    """A fitted estimator and the numbers of the people it has met."""

    estimator: Any
    met: frozenset[int]

    def probability(self, questions: Comparisons, known: Comparisons) -> Array:
        """Return Pr[right preferred] (T,).

        New people of whom something is known are placed under the learned metric, within the learned radius; the others
        are the average person.
        """
        new = ~np.isin(known.user, list(self.met))
        right: Array = self.estimator.predict_proba(questions)[:, 1].copy()
        if new.any():
            rows = np.isin(questions.user, np.unique(known.user[new]))
            if rows.any():
                right[rows] = self._placed(known.take(new)).predict_proba(questions.take(rows))[:, 1]
        return right

    def _placed(self, known: Comparisons) -> IdealPointMetric:
        estimator = self.estimator
        return IdealPointMetric(
            estimator.items,
            loss=estimator.loss,
            beta=estimator.beta,
            fixed_metric=estimator.metric_,
            ideal_bound=float(np.nanmax(np.atleast_1d(estimator.ideal_bound_))),
        ).fit(known)
