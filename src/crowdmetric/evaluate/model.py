"""What an evaluated model is: something that learns from answers and predicts others."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from crowdmetric.comparisons import Comparisons

__all__ = ["Fitted", "Model"]

Array = NDArray[np.float64]


@runtime_checkable
class Fitted(Protocol):
    """A model that has learned.

    It may have an attribute `end`: where its fit ended, small enough to be sent to another process. Then a fit of the
    same model to other answers, or of a model that contains it (`Model.simpler`), is given that end as `begin`.
    """

    def probability(self, questions: Comparisons, known: Comparisons) -> NDArray[Any]:
        """Return Pr[right preferred] (T,) of questions, whose answers must not be looked at.

        `known` holds the answers by which people may be placed: those learned from and, of new people, the few that
        were given. People are numbered alike in both, and somebody without a known answer is anybody of the population.
        """
        ...


@runtime_checkable
class Model(Protocol):
    """A way of learning, small enough to be sent to another process.

    Attributes
    ----------
    name : str
        How the table calls it.
    """

    @property
    def name(self) -> str: ...

    def fit(self, items: Array, train: Comparisons) -> Fitted:
        """Learn from answers about items (N, d); with `begin` as a third argument, from where a similar fit ended."""
        ...
