"""Whether the metric by which people compare is the metric by which they choose.

That people judge similarity and form preferences by one metric is an assumption. With a fit of each kind it can be
tested. Let ``m_1, m_2`` be svec of two symmetric fits with covariances ``C_1, C_2``. Each kind of answer has a noise of
its own, so metrics can agree only up to a scale s > 0, and ::

    W = min_s (m_2 − s m_1)ᵀ (C_2 + s² C_1)⁻¹ (m_2 − s m_1)

is χ² with p − 1 degrees of freedom if ``M_2 = s M_1`` (Wald; the two kinds of answers being independent).

`one_metric` asks the same of the likelihood: with ℓ_1 and ℓ_2 of two separate fits over all symmetric matrices and ℓ of
one fit to both kinds (`crowdmetric.similarity.judgement_term`), ``W = 2 (ℓ_1 + ℓ_2 − ℓ)`` has the same law.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize_scalar
from scipy.stats import chi2
from sklearn.utils.validation import check_is_fitted

from crowdmetric.base import CrowdMetric
from crowdmetric.checks import instance_of
from crowdmetric.errors import DataError
from crowdmetric.estimators.population import PopulationMetric
from crowdmetric.estimators.similarity import SimilarityMetric
from crowdmetric.symmetric import svec

__all__ = ["Agreement", "OneMetric", "agreement", "likelihood_ratio", "one_metric"]

Array = NDArray[np.float64]

# Range in which the best scale is searched, relative to the ratio of the two sizes.
WIDEST = 50.0


@dataclass(frozen=True)
class Agreement:
    """Whether two metrics are one, up to a scale.

    Attributes
    ----------
    statistic, degrees_of_freedom, p_value
        W, and how likely a larger one is if the metrics agree.
    scale : float
        s: the second metric is about s times the first.
    similarity : float
        Cosine of the angle between the two metrics as vectors; 1: the same shape.

    Examples
    --------
    >>> from crowdmetric.agreement import Agreement
    >>> Agreement(statistic=1.3, degrees_of_freedom=2, p_value=0.52, scale=1.1, similarity=0.99).summary()
    'The answers do not show that the two metrics differ (χ² = 1.3 with 2 degrees of freedom, p = 0.52; cosine 0.99).'
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float
    scale: float
    similarity: float

    def summary(self, level: float = 0.05) -> str:
        """Return the verdict in one sentence."""
        sure = f"χ² = {self.statistic:.1f} with {self.degrees_of_freedom} degrees of freedom, p = {self.p_value:.2g}"
        if self.p_value < level:
            return f"The two metrics differ in shape ({sure}; cosine {self.similarity:.2f})."
        return f"The answers do not show that the two metrics differ ({sure}; cosine {self.similarity:.2f})."


def agreement(first: CrowdMetric, second: CrowdMetric) -> Agreement:
    """Test whether two fitted models have one metric up to a scale.

    Parameters
    ----------
    first, second : SimilarityMetric, PopulationMetric or MatchedMetric
        Fitted with standard errors to the same features, on different answers.

    Examples
    --------
    >>> from crowdmetric import SimilarityMetric
    >>> from crowdmetric.agreement import agreement
    >>> from crowdmetric.simulate_judgements import simulate_judgements
    >>> one = simulate_judgements(30, 2, 2000, seed=0)
    >>> two = simulate_judgements(one.items, None, 2000, metric=one.metric / 4.0, seed=1)
    >>> fits = [SimilarityMetric(one.items, structure='full').fit(study.judgements) for study in (one, two)]
    >>> agreement(*fits).p_value > 0.01
    True
    """
    (one, C1), (two, C2) = _fit_of(first), _fit_of(second)
    names = [getattr(model, "feature_names_in_", None) for model in (first, second)]
    if names[0] is not None and names[1] is not None and list(names[0]) != list(names[1]):
        raise DataError(
            f"the metrics are of the features {list(names[0])} and {list(names[1])}; fit both to the same features, in "
            "one order"
        )
    if one.size != two.size:
        raise DataError(f"the metrics have {one.size} and {two.size} parameters; fit both to the same features")
    known = np.isfinite(np.diag(C1)) & np.isfinite(np.diag(C2))
    if known.sum() < 2:
        raise DataError("the two fits have fewer than two entries in common that both know; ask more questions")
    one, two, C1, C2 = one[known], two[known], C1[np.ix_(known, known)], C2[np.ix_(known, known)]

    def distance(log_scale: float) -> float:
        s = float(np.exp(log_scale))
        apart, covariance = two - s * one, C2 + s * s * C1
        return float(apart @ cho_solve(cho_factor(covariance), apart))

    middle = float(np.log(np.linalg.norm(two) / max(float(np.linalg.norm(one)), 1e-300)))
    reach = float(np.log(WIDEST))
    best: Any = minimize_scalar(distance, bounds=(middle - reach, middle + reach), method="bounded")
    freedom = int(known.sum()) - 1
    cosine = float(one @ two / max(float(np.linalg.norm(one) * np.linalg.norm(two)), 1e-300))
    return Agreement(float(best.fun), freedom, float(chi2.sf(best.fun, freedom)), float(np.exp(best.x)), cosine)


def _fit_of(model: CrowdMetric) -> tuple[Array, Array]:
    """Return svec of the symmetric fit (p,) and its covariance (p, p)."""
    check_is_fitted(instance_of(model, "model", CrowdMetric, "give two fitted estimators"))
    if not (hasattr(model, "symmetric_metric_") and hasattr(model, "symmetric_covariance_")):
        raise DataError(f"{type(model).__name__} gives no standard errors of the metric; fit it with uncertainty=True")
    return svec(model.symmetric_metric_), model.symmetric_covariance_


@dataclass(frozen=True)
class OneMetric:
    """One metric from preferences and judgements, a metric from each, and the test whether they are one.

    Attributes
    ----------
    joint, preferences : PopulationMetric
        Fitted to both kinds of answers, and to preferences alone.
    judgements : SimilarityMetric
        Fitted to judgements alone.
    test : Agreement
    """

    joint: PopulationMetric
    preferences: PopulationMetric
    judgements: SimilarityMetric
    test: Agreement

    def summary(self) -> str:
        """Return the verdict in one sentence."""
        return self.test.summary()


def one_metric(items: Any, comparisons: Any, judgements: Any, **options: Any) -> OneMetric:
    """Learn one metric from both kinds of answers, and test whether people compare by the metric by which they choose.

    Parameters
    ----------
    items : (N, d) array
    comparisons : Comparisons
        Who preferred what.
    judgements : Judgements or sequence of Judgements
        About the same items.
    **options
        Of `PopulationMetric`, such as ``covariance='free'``.

    Examples
    --------
    >>> from crowdmetric.agreement import one_metric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> from crowdmetric.simulate_judgements import simulate_judgements
    >>> from crowdmetric import Comparisons
    >>> crowd = simulate_crowd(2, None, None, users=300, comparisons=3, seed=0)
    >>> judged = simulate_judgements(crowd.items, None, 600, metric=crowd.metric, seed=1).judgements
    >>> chosen = Comparisons.from_arrays(crowd.users, crowd.pairs, crowd.y, n_items=len(crowd.items))
    >>> one_metric(crowd.items, chosen, judged).test.p_value > 0.001
    True
    """
    preferences = PopulationMetric(items, **options).fit(comparisons)
    judged = SimilarityMetric(items, structure="full").fit(judgements)
    joint = PopulationMetric(items, **options).fit(comparisons, judgements=judgements)
    return OneMetric(joint, preferences, judged, likelihood_ratio(preferences, judged, joint))


def likelihood_ratio(preferences: CrowdMetric, judgements: CrowdMetric, joint: CrowdMetric) -> Agreement:
    """Test whether two models have one metric up to a scale, from their likelihoods and that of a joint fit.

    Where ridges had to hold one of the fits, likelihoods cannot be compared, and `agreement` is asked instead.
    """
    found = agreement(judgements, preferences)
    values = [getattr(model, "symmetric_log_likelihood_", float("nan")) for model in (preferences, judgements, joint)]
    statistic = 2.0 * (values[0] + values[1] - values[2])
    if not np.isfinite(statistic):
        return found
    statistic = max(0.0, statistic)
    p_value = float(chi2.sf(statistic, found.degrees_of_freedom))
    return replace(found, statistic=statistic, p_value=p_value)
