"""The library's estimators as evaluated models."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.base import CrowdMetric
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import NotIdentifiedWarning

__all__ = ["EstimatorModel", "FittedEstimator"]

Array = NDArray[Any]


@dataclass(frozen=True)
class EstimatorModel:
    """An estimator class and its options, all but the items: what is judged here is what is saved there.

    Attributes
    ----------
    name : str
    kind : class
        A `CrowdMetric` that gives probabilities and has a method `place`.
    options : dict
        Which model it is.
    trial : dict
        Options that leave out what predictions do not need, such as standard errors.
    simpler : str
        The name of a model that is a special case of this one. A fit begins where the fit of that one ended, and so
        ends no lower.
    """

    name: str
    kind: type[CrowdMetric]
    options: dict[str, Any] = field(default_factory=dict)
    trial: dict[str, Any] = field(default_factory=dict)
    simpler: str = ""

    def fit(self, items: Array, train: Comparisons, begin: Any = None) -> FittedEstimator:
        """Learn from answers about items (N, d), from where a similar fit ended (`FittedEstimator.end`)."""
        estimator: Any = self.kind(items, **self.options, **self.trial)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotIdentifiedWarning)  # hidden answers say what predictions are worth
            estimator.fit(train, **({} if begin is None else {"begin": begin}))
        return FittedEstimator(estimator, frozenset(np.unique(train.user).tolist()), getattr(estimator, "end", None))


@dataclass(frozen=True)
class FittedEstimator:
    """A fitted estimator, the numbers of the people it has met, and where its fit ended if another may begin there."""

    estimator: Any
    met: frozenset[int]
    end: Any = None

    def probability(self, questions: Comparisons, known: Comparisons) -> Array:
        """Return Pr[right preferred] (T,).

        New people of whom something is known are placed under the learned metric; the others are anybody.
        """
        right: Array = self.estimator.predict_proba(questions)[:, 1].copy()
        new = ~np.isin(known.user, list(self.met))
        rows = np.isin(questions.user, np.unique(known.user[new]))
        if rows.any():
            right[rows] = self.estimator.place(known.take(new)).predict_proba(questions.take(rows))[:, 1]
        return right
