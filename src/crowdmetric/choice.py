"""Which estimator, and how free: decisions that `crowdmetric fit` makes for its user, each with its reason in words.

Nothing here is hidden: a choice is a value and the clause that follows "because", and every rule is stated.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import CrowdmetricWarning
from crowdmetric.estimators import PopulationMetric
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.users.matched import find_sets

__all__ = ["Choice", "choose_covariance", "matched_share"]

Array = NDArray[np.float64]

# Coordinates of people's places (people × features) wanted for each parameter that a free covariance has more.
COORDINATES_A_PARAMETER = 20
# Items for each parameter of a metric and a mean, below which a free covariance is taken with a word of caution.
ITEMS_IF_FREE = 5
# People on whom the two are compared at most.
MOST_PEOPLE = 20_000


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why: a clause that reads well after "because"."""

    value: str
    reason: str


def choose_covariance(items: ArrayLike, comparisons: Comparisons, parameters: Mapping[str, Any]) -> Choice:
    """Return whether people's ideal points scatter alike in all directions ('isotropic') or as they please ('free').

    A free covariance has q = d(d+1)/2 − 1 more parameters. It is considered where K people have 20 coordinates (Kd of
    them) for each of those, and taken where the Bayesian information criterion prefers it:
    ``2(ℓ_free − ℓ_isotropic) > q log K``, both fitted from one start to at most 20,000 people.

    Parameters
    ----------
    items : (N, d) array
    comparisons : Comparisons
    parameters : mapping
        Further parameters of `PopulationMetric`, without ``covariance``.
    """
    X = np.asarray(items, dtype=np.float64)
    extra = degrees_of_freedom(X.shape[1]) - 1
    if extra == 0:
        return Choice("isotropic", "items have one feature, and every covariance is isotropic there")
    people, wanted = np.unique(comparisons.user).size, -(-COORDINATES_A_PARAMETER * extra // X.shape[1])
    if people < wanted:
        reason = f"{people:,} people are too few for the {extra:,} more parameters of a free one, {wanted:,} are wanted"
        return Choice("isotropic", reason)
    some = _some_people(comparisons)
    # one way of integrating for both, lest the difference be one of methods
    trial = {"integration": "propagation", **parameters, "starts": 1, "uncertainty": False}
    if trial["integration"] == "auto":
        trial["integration"] = "propagation"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)  # the fit that is kept says what there is to say
        value = {
            kind: PopulationMetric(X, covariance=kind, **trial).fit(some).log_likelihood_
            for kind in ("isotropic", "free")
        }
    gain, price = value["free"] - value["isotropic"], 0.5 * extra * log(np.unique(some.user).size)
    figures = f"{gain:.1f} nats of log-likelihood for {extra:,} more parameters, which BIC prices at {price:.1f}"
    if gain > price:
        return Choice("free", f"a free covariance gains {figures}{_few_items(X, some, ITEMS_IF_FREE)}")
    return Choice("isotropic", f"a free covariance gains only {figures}{_few_items(X, some, 1)}")


def _few_items(items: Array, comparisons: Comparisons, least: int) -> str:
    """Return a clause of caution where fewer than `least` items a parameter were shown.

    A metric shows in how well each item is liked by all, xᵀMx: as many numbers as there are items, for d(d+1)/2 + d
    parameters of metric and mean, however many people answer. Under a free covariance it shows in nothing else.
    """
    d = items.shape[1]
    shown, parameters = np.unique(comparisons.pairs).size, degrees_of_freedom(d) + d
    if shown >= least * parameters:
        return ""
    return (
        f"; but {shown:,} items are few for the {parameters:,} parameters of a metric and a mean, and what is learnt "
        "from them may not carry over to new items: use fewer features for those"
    )


def _some_people(comparisons: Comparisons) -> Comparisons:
    """Return the answers of every so manieth person, of all where they are few."""
    step = -(-comparisons.n_users // MOST_PEOPLE)
    if step == 1:
        return comparisons
    return comparisons.take(np.flatnonzero(comparisons.user % step == 0))


def matched_share(items: ArrayLike, comparisons: Comparisons) -> float:
    """Return the share of people who were asked two parallel questions, from which `MatchedMetric` could learn."""
    X = np.asarray(items, dtype=np.float64)
    sets = find_sets(X, comparisons.pairs, comparisons.user, tolerance=1e-5, largest=2)
    return np.unique(sets.person).size / max(np.unique(comparisons.user).size, 1)
