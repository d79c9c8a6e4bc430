"""How sure we are: confidence intervals for a metric, for distances, for ratios of distances, and for who is closer.

A fitted `PopulationMetric` or `MatchedMetric` knows the covariance C of svec of its *symmetric* fit, the one without
the constraint that eigenvalues be positive: near the edge of the cone a constrained fit is not Gaussian, the
symmetric one is. Everything here is built around it, so that an estimate may differ a little from ``metric_``.

========================  ===================================  ================================================
quantity                  as a function of M                   interval
========================  ===================================  ================================================
an entry                  linear                               ± z · standard error
squared distance          ``δᵀMδ = ⟨svec δδᵀ, svec M⟩``        ± z · standard error, cut at zero
distance                  its root                             the roots of those ends
ratio of distances        ``√(δᵀMδ / ε ᵀMε)``                  delta method on the logarithm
is a closer to b or c?    ``‖a − c‖² − ‖a − b‖²``, linear      ± z · standard error
========================  ===================================  ================================================

Ratios and comparisons do not depend on the scale of the metric, which is known only through the noise of the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted

from crowdmetric.errors import DataError
from crowdmetric.estimators.base import CrowdMetric
from crowdmetric.estimators.inputs import read_pairs
from crowdmetric.estimators.population import PopulationMetric
from crowdmetric.symmetric import outer_difference, smat, svec

__all__ = ["Closer", "Intervals", "closer", "distance_ratios", "distances", "entries"]

Array = NDArray[Any]

# Share of a linear form that may lie on entries without a finite variance before it has none either.
TOUCHES = 1e-9
# A difference of linear forms that is this small beside them is none.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Intervals:
    """Estimates with confidence intervals.

    Attributes
    ----------
    estimate, low, high : arrays of one shape
    standard_error : array
        Of the estimate; for a ratio, of its logarithm.
    level : float
        The share of intervals, over many crowds, that hold the truth.
    """

    estimate: Array
    standard_error: Array
    low: Array
    high: Array
    level: float

    def contains(self, truth: ArrayLike) -> NDArray[np.bool_]:
        """Return which intervals hold some values."""
        value = np.asarray(truth)
        return (self.low <= value) & (value <= self.high)

    def summary(self, most: int = 10) -> str:
        """Return the first few in words, one a line."""
        rows = zip(self.estimate.ravel(), self.low.ravel(), self.high.ravel(), strict=True)
        lines = [f"{e:.4g}  ({low:.4g} to {high:.4g})" for e, low, high in list(rows)[:most]]
        more = [f"… and {self.estimate.size - most} more"] if self.estimate.size > most else []
        return "\n".join([f"estimate ({self.level:.0%} interval)", *lines, *more])


@dataclass(frozen=True)
class Closer:
    """Whether item a is closer to b than to c.

    Attributes
    ----------
    difference, standard_error : float
        ``‖a − c‖² − ‖a − b‖²``: positive where a is closer to b.
    z : float
        Their ratio.
    probability : float
        Φ(z): of a being closer to b, for someone who knew nothing before.
    p_value : float
        Two-sided, of both being equally close.
    level, low, high : float
        Interval for the difference.
    """

    difference: float
    standard_error: float
    z: float
    probability: float
    p_value: float
    level: float
    low: float
    high: float

    def summary(self) -> str:
        """Return the verdict in one sentence."""
        near, far = ("b", "c") if self.difference >= 0 else ("c", "b")
        sure = f"z = {abs(self.z):.1f}, p = {self.p_value:.2g}"
        if self.p_value > 1.0 - self.level:
            return f"The answers do not say whether a is closer to b or to c; {near} is the better guess ({sure})."
        return f"a is closer to {near} than to {far} ({sure})."


def entries(model: CrowdMetric, level: float = 0.9) -> Intervals:
    """Return intervals for the entries of M, (d, d).

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.intervals import distance_ratios, entries
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=2000, comparisons=2, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> entries(model, level=0.999).contains(crowd.metric).all()
    np.True_
    >>> distance_ratios(model, [[0, 1]], [[0, 2]]).estimate.shape
    (1,)
    """
    metric, covariance = _fit_of(model)
    z = _quantile(level)
    error = smat(np.sqrt(np.maximum(np.diag(covariance), 0.0)))
    return Intervals(metric, error, metric - z * error, metric + z * error, level)


def distances(model: CrowdMetric, pairs: Any, level: float = 0.9, *, squared: bool = False) -> Intervals:
    """Return intervals for the distances ``‖x − x'‖_M`` between the items of each pair, (T,).

    Parameters
    ----------
    model : PopulationMetric or MatchedMetric
    pairs : (T, 2) int array or (T, 2, d) array
        Rows of the model's items, or the vectors themselves.
    level : float
    squared : bool
        For squared distances, which are linear in M.
    """
    metric, covariance = _fit_of(model)
    forms = _forms(model, pairs)
    z = _quantile(level)
    estimate, error = forms @ svec(metric), np.sqrt(_variances(forms, covariance))
    low, high = np.maximum(estimate - z * error, 0.0), np.maximum(estimate + z * error, 0.0)
    if squared:
        return Intervals(estimate, error, low, high, level)
    root = np.sqrt(np.maximum(estimate, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        root_error = np.where(root > 0, 0.5 * error / root, np.inf)
    return Intervals(root, root_error, np.sqrt(low), np.sqrt(high), level)


def distance_ratios(model: CrowdMetric, pairs: Any, others: Any, level: float = 0.9) -> Intervals:
    """Return intervals for ``‖x − x'‖ / ‖z − z'‖``, pair by pair, (T,); the scale of the metric cancels.

    With ``D = δᵀMδ`` and its linear form g, ``log ratio = ½(log D₁ − log D₂)`` has the derivative ``½(g₁/D₁ − g₂/D₂)``.
    Where the symmetric fit has no positive D the ratio is not known: NaN, and an interval from zero to infinity.

    Parameters
    ----------
    model : PopulationMetric or MatchedMetric
    pairs, others : (T, 2) int arrays or (T, 2, d) arrays
        `others` may be one pair, with which all are compared.
    level : float
    """
    metric, covariance = _fit_of(model)
    top, bottom = _forms(model, pairs), _forms(model, others)
    if bottom.shape[0] not in (1, top.shape[0]):
        raise DataError(f"there are {top.shape[0]} pairs but {bottom.shape[0]} others; give as many, or one")
    z = _quantile(level)
    bottom = np.broadcast_to(bottom, top.shape)
    first, second = top @ svec(metric), bottom @ svec(metric)
    known = (first > 0) & (second > 0)
    first, second = np.where(known, first, 1.0), np.where(known, second, 1.0)
    error = np.sqrt(_variances(0.5 * (top / first[:, None] - bottom / second[:, None]), covariance))
    error = np.where(known, error, np.inf)
    ratio = np.sqrt(first / second)
    low, high = ratio * np.exp(-z * error), ratio * np.exp(z * error)
    return Intervals(np.where(known, ratio, np.nan), error, low, high, level)


def closer(model: CrowdMetric, a: Any, b: Any, c: Any, level: float = 0.9) -> Closer:
    """Return whether item a is closer to b than to c, and how sure that is.

    Parameters
    ----------
    model : PopulationMetric or MatchedMetric
    a, b, c : int or (d,) array
        Rows of the model's items, or vectors.
    level : float
        Of the interval, and below which the verdict is left open.
    """
    metric, covariance = _fit_of(model)
    to_b, to_c = (_forms(model, np.stack([np.asarray(a), np.asarray(other)])[None]) for other in (b, c))
    form = to_c - to_b
    if np.abs(form).max() <= ROUNDING * max(np.abs(to_b).max(), np.abs(to_c).max()):
        form = np.zeros_like(form)  # b and c mirror each other in a: equally close under any metric
    difference = float((form @ svec(metric))[0])
    error = float(np.sqrt(_variances(form, covariance))[0])
    z = difference / error if error > 0 else float(np.copysign(np.inf, difference)) if difference else 0.0
    reach = _quantile(level) * error
    return Closer(
        difference, error, z, float(ndtr(z)), float(2.0 * ndtr(-abs(z))), level, difference - reach, difference + reach
    )


def _fit_of(model: CrowdMetric) -> tuple[Array, Array]:
    """Return the symmetric fit (d, d) and the covariance (p, p) of its svec."""
    check_is_fitted(model)
    if not (hasattr(model, "symmetric_metric_") and hasattr(model, "metric_covariance_")):
        remedy = "fit a PopulationMetric or MatchedMetric"
        if isinstance(model, PopulationMetric):
            remedy = "fit it with uncertainty=True, and by scoring: at most 76 features, in double precision"
        raise DataError(f"{type(model).__name__} does not say how sure it is of the metric; {remedy}")
    return model.symmetric_metric_, model.metric_covariance_


def _forms(model: CrowdMetric, pairs: Any) -> Array:
    """Return ``svec δδᵀ`` (T, p): the linear form that squares each pair's distance."""
    items, numbers = read_pairs(pairs, model.items)
    if items.shape[1] != model.n_features_in_:
        raise DataError(
            f"pairs hold {items.shape[1]} features, but the metric has {model.n_features_in_}; use one space"
        )
    delta = items[numbers[:, 0]] - items[numbers[:, 1]]
    return outer_difference(delta, delta)


def _variances(forms: Array, covariance: Array) -> Array:
    """Return ``gᵀCg`` (T,), infinite where a form rests on an entry of infinite variance."""
    known = np.isfinite(np.diag(covariance))
    inside = forms[:, known]
    variance = np.maximum(np.einsum("tp,tp->t", inside @ covariance[np.ix_(known, known)], inside), 0.0)
    beyond = np.abs(forms[:, ~known]).max(axis=1, initial=0.0) > TOUCHES * np.abs(forms).max(axis=1, initial=0.0)
    return np.where(beyond, np.inf, variance)


def _quantile(level: float) -> float:
    """Return z with ``Pr[|Z| ≤ z] = level``."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < float(level) < 1:
        raise DataError(f"level={level!r} is not between 0 and 1; 0.9 gives 90 % intervals")
    return float(ndtri(0.5 + 0.5 * float(level)))
