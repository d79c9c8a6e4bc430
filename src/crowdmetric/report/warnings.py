"""What a reader should be careful about, and one sentence on whether the metric is worth using.

Rules, for a population or a matched fit (S its symmetric fit, C the covariance of svec S):

no ideal points
    Let W (d, k) span the directions in which S is negative, x = svec(WᵀSW). A crowd with ideal points has x = 0 at most
    by chance: ``xᵀ Cov(x)⁻¹ x`` is compared with χ² of k(k+1)/2 + k(d − k) degrees of freedom, which also pays for
    choosing W (that many parameters has a symmetric matrix of rank k). Said below a p-value of 0.01.
another shape than the identity
    With e the part of S/c, c = tr S/d, that is no multiple of the identity: ``eᵀ Cov(e)⁻¹ e`` against χ² of p − 1
    degrees of freedom. The scale, known less surely, drops out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq
from scipy.stats import chi2

from crowdmetric.estimators.population_verdict import AGREEMENT, BIASED, LOOSE_SCALE
from crowdmetric.identifiability import Diagnosis
from crowdmetric.persist import SavedModel
from crowdmetric.report.directions import symmetric_fit
from crowdmetric.symmetric import degrees_of_freedom, svec

__all__ = ["Evaluated", "not_ideal_points", "shape_test", "warnings_of", "worth_using"]

Array = NDArray[np.float64]

UNLIKELY = 0.01
# Share of the shape's parameters that answers should determine.
DETERMINED = 0.95
# Answers for each parameter of the metric below which there are too few, whatever the estimator.
FEW_ANSWERS = 5
# Standard errors that an approximate integral may move an entry of the metric by before it is said.
NOTICEABLE = 0.5


class Evaluated(Protocol):
    """What a report asks of an evaluation (`crowdmetric.evaluate.Evaluation` has it)."""

    @property
    def splits(self) -> Sequence[str]: ...

    @property
    def models(self) -> Sequence[str]: ...

    def mean(self, split: str, model: str, measure: str = "log_likelihood") -> float:
        """Return the mean of a measure over repeats."""
        ...

    def error(self, split: str, model: str, measure: str = "log_likelihood") -> float:
        """Return its standard error."""
        ...

    def findings(self) -> list[str]:
        """Return what follows, a sentence each; those to be careful about begin with 'Warning:'."""
        ...

    def plot(self) -> Any:
        """Return a matplotlib figure."""
        ...


def not_ideal_points(S: Array, C: Array) -> float:
    """Return the p-value of the hypothesis that S differs from a metric by chance; 1 if it is one."""
    values, vectors = np.linalg.eigh(S)
    W = vectors[:, values < -1e-12 * max(abs(values[0]), abs(values[-1]), 1e-300)]
    d, k = W.shape
    if k == 0:
        return 1.0
    rows, columns = np.triu_indices(k)
    both = [np.outer(W[:, i], W[:, j]) for i, j in zip(rows, columns, strict=True)]
    a = svec(np.stack([0.5 * (A + A.T) for A in both]))
    x = a @ svec(S)
    return float(chi2.sf(_squared_length(x, a @ C @ a.T), k * (k + 1) // 2 + k * (d - k)))


def shape_test(S: Array, C: Array) -> float:
    """Return the p-value of the hypothesis that S differs from a multiple of the identity by chance.

    NaN where the scale is so uncertain (`LOOSE_SCALE`) that nothing linear can be said of S/c.
    """
    d = len(S)
    size = float(np.trace(S)) / d
    identity = svec(np.eye(d))
    if d == 1 or size <= 0 or np.sqrt(identity @ C @ identity) / d > LOOSE_SCALE * size:
        return float("nan")
    # the reflection that takes the identity to the first axis; the others are what is no multiple of it
    mirror = identity / np.sqrt(d)
    mirror[0] += 1.0
    mirror /= np.linalg.norm(mirror)
    e = _reflected(svec(S), mirror)[1:] / size
    slope = np.eye(len(identity)) - np.outer(svec(S), identity) / (d * size)
    slope = _reflected(slope, mirror)[1:] / size
    return float(chi2.sf(_squared_length(e, slope @ C @ slope.T), e.size))


def _reflected(A: Array, mirror: Array) -> Array:
    return np.asarray(A - 2.0 * np.multiply.outer(mirror, mirror @ A))


def _squared_length(x: Array, covariance: Array) -> float:
    """Return xᵀ Cov⁻¹ x."""
    return float(x @ lstsq(covariance, x, cond=1e-12, lapack_driver="gelsy")[0])


def warnings_of(model: SavedModel, diagnosis: Diagnosis | None, evaluation: Evaluated | None = None) -> list[str]:
    """Return sentences, the gravest first."""
    fitted, d = model.fitted, len(model.metric)
    p = degrees_of_freedom(d)
    texts = []
    if evaluation is not None:
        texts += [text.removeprefix("Warning: ") for text in evaluation.findings() if text.startswith("Warning: ")]
    known = symmetric_fit(model)
    if known is not None and not_ideal_points(*known) < UNLIKELY:
        texts.append(
            "This crowd does not look as if it had ideal points: without the constraint that it be a distance, the fit "
            f"has negative eigenvalues (down to {np.linalg.eigvalsh(known[0])[0]:.3g}) that chance does not explain. "
            "In those directions people prefer extremes to anything in between, and a distance describes them badly."
        )
    if abs(fitted.get("question_bias_", 0.0)) > BIASED:
        texts.append(
            f"Questions look chosen for the people who answered them (z = {fitted['question_bias_']:.1f}), which "
            "biases the metric. Ask at random, or ask parallel questions and use --estimator matched."
        )
    elif diagnosis is not None and diagnosis.assignment.suspicious and "pseudo_ideal_mean_" in fitted:  # a population
        texts.append(
            "Questions depend on who was asked. That is harmless if chance decided who got which, and misleading if "
            "people were shown what they like."
        )
    if diagnosis is not None and diagnosis.population_bounds[0] < diagnosis.dimensions:
        missing = diagnosis.dimensions - diagnosis.population_bounds[0]
        out = f", such as {diagnosis.population_out_of_reach}" if diagnosis.population_out_of_reach else ""
        texts.append(
            f"Whatever is assumed, these answers say nothing about {missing:,} of the {diagnosis.dimensions:,} degrees "
            f"of freedom of the metric{out}; what is shown there is a convention."
        )
    texts += _too_few(model, p)
    if fitted.get("scale_error_", 0.0) > LOOSE_SCALE:
        texts.append(
            "The scale of the metric is hardly known: answers look free of noise, or say too little about it. Which "
            "distance is larger can be trusted, how large it is cannot."
        )
    if fitted.get("approximation_error_", 0.0) > NOTICEABLE:
        texts.append(
            "People were integrated out approximately, and an exact integral could move an entry of the metric by "
            f"{fitted['approximation_error_']:.2g} of its standard errors."
        )
    if np.ptp(fitted.get("starts_", np.zeros(1))) > AGREEMENT:
        texts.append("The fit ended elsewhere from another start; the best end is shown. Raise --starts.")
    active = fitted.get("bound_is_active_")
    if active is not None and np.any(active):
        texts.append(
            f"In {np.sum(active)} of {np.size(active)} subspaces a bound, not the answers, decided the metric's size."
        )
    if not fitted["solution_"].converged:
        texts.append("The fit stopped before it had converged; raise --max-iter.")
    return texts


def _too_few(model: SavedModel, p: int) -> list[str]:
    determined = model.fitted.get("determined_")
    if determined is not None and determined < DETERMINED * (p - 1):
        return [
            f"Too few answers: they determine about {determined:.0f} of the {p - 1:,} parameters of the metric's "
            "shape. For the rest the fit leans towards plain Euclidean distance."
        ]
    answers = model.description["data"].get("answers")
    rank, d = model.description["parameters"].get("rank"), len(model.metric)
    if rank is not None and "pseudo_ideal_mean_" in model.fitted:  # elsewhere it is the rank of subspaces
        p = rank * d - rank * (rank - 1) // 2
    if determined is None and answers is not None and answers < FEW_ANSWERS * p:
        return [f"Too few answers: {answers:,} for a metric of {p:,} parameters."]
    return []


def worth_using(model: SavedModel, evaluation: Evaluated | None = None) -> list[str]:
    """Return what is known about whether a learnt metric is worth using here."""
    if evaluation is not None:
        found = [text for text in evaluation.findings() if not text.startswith(("Warning:", "Note:"))]
        if found:
            return found
    known = symmetric_fit(model)
    unknown = "Whether it predicts answers better than simpler models was not evaluated."
    if known is None:
        return [f"{model.description['estimator']} does not tell how sure it is of the metric. {unknown}"]
    if len(model.metric) == 1:
        return [
            f"With one feature every metric has the same shape: there is nothing to choose but its scale. {unknown}"
        ]
    chance = shape_test(*known)
    if np.isnan(chance):
        return [
            f"So little is known of the metric's scale that its shape cannot be told apart from a sphere's. {unknown}"
        ]
    if chance < UNLIKELY:
        return [
            "The answers tell the learnt metric apart from plain Euclidean distance "
            f"({'p < 0.0001' if chance < 1e-4 else f'p = {chance:.2g}'}), so there is something to use. {unknown}"
        ]
    return [
        f"The answers do not tell the learnt metric apart from plain Euclidean distance (p = {chance:.2g}): stay with "
        f"the latter until there are more. {unknown}"
    ]
