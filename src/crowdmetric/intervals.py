"""How sure we are: intervals for a metric, for distances, for ratios of distances, and for who is closer.

A fitted `PopulationMetric` or `MatchedMetric` has draws from the posterior of its metric (``metric_draws_``, see
`crowdmetric.fits.size_posterior`). Everything here is computed for each draw, and an interval contains 90 % of the
results. So ratios of distances do not depend on the scale of the metric. A squared distance that is negative under a
draw counts as zero.

The estimate is the median over the draws (`crowdmetric.draw_intervals`), so it always lies inside its interval. It is
near the number that ``metric_`` gives, which predictions use, but not equal to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from crowdmetric.base import CrowdMetric
from crowdmetric.draw_intervals import Intervals, intervals_from, least_square
from crowdmetric.errors import DataError
from crowdmetric.estimators.population import PopulationMetric
from crowdmetric.inputs import read_pairs
from crowdmetric.symmetric import outer_difference, smat

__all__ = ["Closer", "Intervals", "closer", "distance_ratios", "distances", "entries", "intervals_from"]

Array = NDArray[Any]

# A difference of linear forms this small relative to them counts as zero.
ROUNDING = 1e-12
# What draws in which items are no distance apart are divided by; larger ratios than this have no upper end.
NO_SQUARE, UNBOUNDED = 1e-300, 1e100


@dataclass(frozen=True)
class Closer:
    """Whether item a is closer to b than to c.

    Attributes
    ----------
    difference, standard_error : float
        ``‖a − c‖² − ‖a − b‖²``: positive where a is closer to b; median and standard deviation over the draws.
    probability : float
        The share of draws in which a is closer to b; draws in which both are equally close count half.
    level, low, high : float
        Interval for the difference.

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=400, comparisons=3, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> from crowdmetric.intervals import closer
    >>> verdict = closer(model, 0, 1, 2)
    >>> verdict.summary().endswith('.')
    True
    """

    difference: float
    standard_error: float
    probability: float
    level: float
    low: float
    high: float

    def summary(self) -> str:
        """Return the verdict in one sentence."""
        near, far = ("b", "c") if self.probability >= 0.5 else ("c", "b")
        sure = max(self.probability, 1.0 - self.probability)
        words = f"probability {'above 0.99' if sure > 0.99 else f'{sure:.2f}'}"
        if sure < 0.5 * (1.0 + self.level):
            return f"The answers do not say whether a is closer to b or to c; {near} is the better guess ({words})."
        return f"a is closer to {near} than to {far} ({words})."


def entries(model: CrowdMetric, level: float = 0.9) -> Intervals:
    """Return intervals for the entries of M, (d, d).

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.intervals import distance_ratios, entries
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=2000, comparisons=2, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> entries(model, level=0.99).contains(crowd.metric).all()
    np.True_
    >>> distance_ratios(model, [[0, 1]], [[0, 2]]).estimate.shape
    (1,)
    """
    draws = smat(_draws_of(model))
    on_diagonal = np.eye(draws.shape[1]) > 0
    return intervals_from(draws, level, np.where(on_diagonal, least_square(model.metric_), -np.inf))


def distances(model: CrowdMetric, pairs: Any, level: float = 0.9, *, squared: bool = False) -> Intervals:
    """Return intervals for the distances ``‖x − x'‖_M`` between the items of each pair, (T,).

    Parameters
    ----------
    model : PopulationMetric or MatchedMetric
    pairs : (T, 2) int array or (T, 2, d) array
        Rows of the model's items, or the vectors themselves.
    level : float
    squared : bool
        For squared distances.

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=400, comparisons=3, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> from crowdmetric.intervals import distances
    >>> found = distances(model, [[0, 1], [2, 3]])
    >>> bool((found.low <= found.estimate).all())
    True
    """
    drawn = _squares(model, pairs)
    return intervals_from(drawn if squared else _root(drawn), level, least_square(model.metric_))


def distance_ratios(model: CrowdMetric, pairs: Any, others: Any, level: float = 0.9) -> Intervals:
    """Return intervals for ``‖x − x'‖ / ‖z − z'‖``, pair by pair, (T,); the scale of the metric cancels.

    If z and z' are equal, or have a learned distance of zero, the ratio is unknown: NaN, with an interval from zero to
    infinity.

    Parameters
    ----------
    model : PopulationMetric or MatchedMetric
    pairs, others : (T, 2) int arrays or (T, 2, d) arrays
        `others` may be one pair, with which all are compared.
    level : float

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=400, comparisons=3, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> from crowdmetric.intervals import distance_ratios
    >>> ratio = distance_ratios(model, [[0, 1]], [[2, 3]])  # how many times as far apart are 0 and 1 as 2 and 3?
    >>> bool(ratio.low[0] < ratio.estimate[0] < ratio.high[0])
    True
    """
    top, bottom = _squares(model, pairs), _squares(model, others)
    if bottom.shape[1] not in (1, top.shape[1]):
        raise DataError(f"there are {top.shape[1]} pairs but {bottom.shape[1]} others; give as many, or one")
    known = np.broadcast_to(np.median(bottom, axis=0) > 0, top.shape[1])
    found = intervals_from(_root(np.maximum(top, 0.0) / np.maximum(bottom, NO_SQUARE)), level)
    high, error = (np.where(known & (ends < UNBOUNDED), ends, np.inf) for ends in (found.high, found.standard_error))
    low = np.where(known, found.low, 0.0)
    return Intervals(np.where(known, found.estimate, np.nan), error, low, high, found.level)


def closer(model: CrowdMetric, a: Any, b: Any, c: Any, level: float = 0.9) -> Closer:
    """Return whether item a is closer to b than to c, and how sure that is.

    Parameters
    ----------
    model : PopulationMetric or MatchedMetric
    a, b, c : int or (d,) array
        Rows of the model's items, or vectors.
    level : float
        Of the interval. The verdict is open if neither side has a probability of ``(1 + level) / 2`` or more.

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=400, comparisons=3, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> from crowdmetric.intervals import closer
    >>> 0.0 <= closer(model, 0, 1, 2).probability <= 1.0
    True
    """
    to_b, to_c = (_forms(model, np.stack([np.asarray(a), np.asarray(other)])[None]) for other in (b, c))
    form = to_c - to_b
    if np.abs(form).max() <= ROUNDING * max(np.abs(to_b).max(), np.abs(to_c).max()):
        form = np.zeros_like(form)  # b and c mirror each other in a: equally close under any metric
    drawn = (_draws_of(model) @ form.T)[:, 0]
    found = intervals_from(drawn, level)
    probability = float(np.mean(drawn > 0) + 0.5 * np.mean(drawn == 0))
    return Closer(
        float(found.estimate),
        float(found.standard_error),
        probability,
        found.level,
        float(found.low),
        float(found.high),
    )


def _root(x: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(x, 0.0)))


def _draws_of(model: CrowdMetric) -> Array:
    """Return svec of draws from the posterior of the metric, (n, p)."""
    check_is_fitted(model)
    if not hasattr(model, "metric_draws_"):
        remedy = "fit a PopulationMetric or MatchedMetric"
        if isinstance(model, PopulationMetric):
            remedy = "fit it with uncertainty=True"
            if hasattr(model, "factor_draws_"):
                raise DataError(
                    "a metric of low rank has intervals of distances and of their ratios only; for others reduce the "
                    "items to 76 features (crowdmetric.preprocess)"
                )
        raise DataError(f"{type(model).__name__} gives no standard errors of the metric; {remedy}")
    return np.asarray(model.metric_draws_, dtype=np.float64)


def _squares(model: CrowdMetric, pairs: Any) -> Array:
    """Return the squared distances of pairs under every draw, (n, T)."""
    if hasattr(model, "factor_draws_"):
        return _squares_of_factor(model, pairs)
    return np.asarray(_draws_of(model) @ _forms(model, pairs).T)


def _squares_of_factor(model: CrowdMetric, pairs: Any) -> Array:
    """Return `_squares` from draws of a factor and of what is the same in all directions, ``M = LLᵀ + γI``."""
    check_is_fitted(model)
    delta = _differences(model, pairs)
    rest = np.sum(delta * delta, axis=1) * np.asarray(model.rest_draws_)[:, None]
    return rest + np.stack([np.sum((delta @ draw) ** 2, axis=1) for draw in model.factor_draws_])


def _forms(model: CrowdMetric, pairs: Any) -> Array:
    """Return ``svec δδᵀ`` (T, p): the linear form that squares each pair's distance."""
    delta = _differences(model, pairs)
    return outer_difference(delta, delta)


def _differences(model: CrowdMetric, pairs: Any) -> Array:
    """Return ``x − x'`` (T, d) of the items of each pair."""
    items, numbers = read_pairs(pairs, model.items)
    if items.shape[1] != model.n_features_in_:
        raise DataError(
            f"pairs hold {items.shape[1]} features, but the metric has {model.n_features_in_}; use one space"
        )
    return items[numbers[:, 0]] - items[numbers[:, 1]]
