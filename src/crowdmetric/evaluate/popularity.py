"""Item popularity (Bradley–Terry): everybody agrees, and features do not matter.

``Pr[right preferred] = σ(θ_right − θ_left)`` with ``θ ~ N(0, 1/λ)``, λ by cross-validation blocked by person. An item
that was never seen is as popular as the average one.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from crowdmetric.comparisons import Comparisons

__all__ = ["BradleyTerry", "Popularity"]

Array = NDArray[Any]

PRECISIONS = np.logspace(2.0, -3.0, 11)  # from all alike to every item on its own
FOLDS = 5


@dataclass(frozen=True)
class Popularity:
    """Strengths (N,) of all items, and the precision of their prior."""

    strength: Array
    precision: float

    def probability(self, questions: Comparisons, known: Comparisons) -> Array:
        """Return Pr[right preferred] (T,)."""
        return expit(self.strength[questions.right] - self.strength[questions.left])


@dataclass(frozen=True)
class BradleyTerry:
    """Learn how popular items are.

    Attributes
    ----------
    precision
        λ; None: by cross-validation.
    """

    name: str = "bradley-terry"
    precision: float | None = None

    def fit(self, items: Array, train: Comparisons) -> Popularity:
        """Learn the strengths; `items` says only how many there are."""
        X, signs = _design(train)
        precision = self.precision
        if precision is None:
            precision = _best_precision(X, signs, train)
        return Popularity(_strengths(X, signs, train.weight, precision), precision)


def _design(train: Comparisons) -> tuple[csr_array, Array]:
    """Return rows of +1 and −1 (T, N) and answers, turned round so that both signs occur.

    Turning a pair round with its answer changes nothing; scikit-learn wants to see two classes.
    """
    T = len(train)
    signs = np.where(np.arange(T) % 2 == 0, 1.0, -1.0)
    turn = signs * train.response
    rows = np.repeat(np.arange(T), 2)
    values = np.column_stack([turn, -turn]).ravel()
    columns = np.column_stack([train.right, train.left]).ravel()
    return csr_array((values, (rows, columns)), shape=(T, train.n_items)), signs


def _strengths(X: csr_array, signs: Array, weight: Array, precision: float) -> Array:
    if np.unique(signs).size < 2:  # a single answer
        return np.zeros(X.shape[1])
    regression = import_module("sklearn.linear_model").LogisticRegression(
        C=1.0 / precision, fit_intercept=False, tol=1e-8, max_iter=1000
    )
    strength: Array = regression.fit(X, signs, sample_weight=weight).coef_[0]
    return strength


def _best_precision(X: csr_array, signs: Array, train: Comparisons) -> float:
    """Return the precision under which the answers of people left out are most likely."""
    people = np.unique(train.user)
    folds = min(FOLDS, people.size)
    if folds < 2:
        return 1.0
    fold = np.random.default_rng(0).permutation(people.size)[np.searchsorted(people, train.user)] % folds
    value = np.zeros(PRECISIONS.size)
    for number in range(folds):
        inside, outside = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        for place, precision in enumerate(PRECISIONS):
            strength = _strengths(X[inside], signs[inside], train.weight[inside], float(precision))
            margin = signs[outside] * (X[outside] @ strength)
            value[place] -= np.sum(train.weight[outside] * np.logaddexp(0.0, -margin))
    return float(PRECISIONS[int(np.argmax(value))])
