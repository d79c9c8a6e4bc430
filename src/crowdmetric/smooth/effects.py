"""How utilities change along one feature, or over the plane of two: what a smooth taste looks like.

A feature is set to a value for each of some items, the others staying as they are, and utilities are averaged over
these items. That is a linear map A of utilities, with a row for each value. Differences to the mean over all values
count, as only differences of utilities do. With μ and V of the crowd and K of a person beside it (`prediction`)::

    mean A μ        covariance of what is known of it  A V Aᵀ        how people scatter around it  A K Aᵀ

Effects of single items, which no feature explains, are left out of both covariances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.smooth.evidence import SmoothFit
from crowdmetric.smooth.prediction import laws_at

__all__ = ["Effect", "effects_along", "utilities_over"]

Array = NDArray[Any]

# Maximum number of items over which utilities are averaged.
MOST_ITEMS = 20


@dataclass(frozen=True)
class Effect:
    """Utilities along one feature, less their mean.

    Attributes
    ----------
    values : (g,)
        Of the feature.
    mean, error : (g,)
        The crowd's utility, and its standard error.
    people : (g,)
        Standard deviation of people around the crowd.
    """

    values: Array
    mean: Array
    error: Array
    people: Array


def effects_along(fit: SmoothFit, feature: int, values: Array) -> Effect:
    """Return the effect of a feature of the standardized items at some values (g,)."""
    some = fit.Z[np.linspace(0, len(fit.Z) - 1, min(len(fit.Z), MOST_ITEMS)).astype(np.intp)]
    points = np.tile(some, (len(values), 1))
    points[:, feature] = np.repeat(values, len(some))
    A = np.kron(np.eye(len(values)) - 1.0 / len(values), np.full((1, len(some)), 1.0 / len(some)))
    return Effect(values, *_seen_through(fit, points, A))


def utilities_over(fit: SmoothFit, points: Array) -> tuple[Array, Array]:
    """Return the crowd's utilities (n,) of points (n, d), less their mean, and their standard errors."""
    n = len(points)
    mean, error, _ = _seen_through(fit, points, np.eye(n) - 1.0 / n)
    return mean, error


def _seen_through(fit: SmoothFit, points: Array, A: Array) -> tuple[Array, Array, Array]:
    """Return mean, standard error and spread of people (g,) of A times the utilities of points (n, d)."""
    mean, of_crowds, of_people = laws_at(fit, points)
    # an item of its own for each point has its own effect, which is none of the feature's
    of_person, of_crowd = fit.family.item_variances(fit.theta)
    own = A @ A.T
    crowd = A @ of_crowds @ A.T - of_crowd * own
    person = A @ of_people @ A.T - of_person * own
    error, people = (np.sqrt(np.maximum(np.diag(S), 0.0)) for S in (crowd, person))
    return A @ mean, error, people
