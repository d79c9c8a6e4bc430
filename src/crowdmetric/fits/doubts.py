"""The status of a population fit, and its warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import ConvergenceWarning, CrowdmetricWarning, NotIdentifiedWarning
from crowdmetric.solvers.law_fit import NO_METRIC, PopulationFit
from crowdmetric.solvers.priors import NOISE_FREE
from crowdmetric.symmetric import degrees_of_freedom, smat

__all__ = [
    "AGREEMENT",
    "APPROXIMATE",
    "BIASED",
    "LOOSE_SCALE",
    "MEASURED_FEATURES",
    "NOT_CONVERGED",
    "Doubt",
    "doubts_about",
    "has_no_metric",
    "knows_shape",
    "many_features",
    "status_of",
]

Array = NDArray[Any]

# Starts agree if their log-likelihoods differ by less than this, in nats.
AGREEMENT = 0.05
# The scale counts as unknown if the standard error of its logarithm is larger than this.
LOOSE_SCALE = 0.5
# If people differ this many times more than answers scatter, the scale is held by the prior, not by the answers alone.
NOISELESS = NOISE_FREE
# Questions look chosen for people beyond this z-score.
BIASED = 4.0
# A law that exact integrals over people may move by more standard errors than this has intervals that are too narrow.
APPROXIMATE = 0.5
# If the answers determine less than this share of the shape's parameters, the status says how many.
WELL_DETERMINED = 0.95

# Up to so many features, intervals of sizes and of distances were found to hold (`benchmarks.sizes`). With thirty and a
# metric of rank five, the size came out 1.5 to 1.6 times too large with a standard error of .08.
MEASURED_FEATURES = 20

# Status of fits whose constraint leaves no metric to learn.
WITHOUT_LEARNED_METRIC = {
    "zero": "With constraint='zero' there is no metric: people have linear utilities.",
    "identity": "With constraint='identity' the metric is a multiple of the identity.",
}
PEOPLE_ALIKE = "With covariance='none' people do not differ: everybody has the same utilities."
NOT_CONVERGED = "the fit has not converged; raise max_iter"


@dataclass(frozen=True)
class Doubt:
    """A warning: a clause without a capital letter and a period."""

    kind: type[CrowdmetricWarning]
    text: str

    @property
    def sentence(self) -> str:
        """The clause as a sentence."""
        return f"{self.text[0].upper()}{self.text[1:]}."


def knows_shape(fit: PopulationFit) -> bool:
    """Return whether the answers determine at least half of the metric's shape, or it has none to determine."""
    return fit.chart.kind not in ("psd", "symmetric") or fit.determined >= 0.5 * (fit.layout.p - 1)


def has_no_metric(fit: PopulationFit) -> bool:
    """Return whether a fit that could have had a metric has ended without one: linear utilities describe people."""
    if not fit.chart.free or fit.chart.kind == "none":
        return False
    eigenvalues = np.linalg.eigvalsh(smat(fit.natural[fit.layout.metric]))
    return float(np.mean(np.abs(eigenvalues))) < NO_METRIC


def many_features(d: int) -> str:
    """Return what to know of a metric of more features than sizes were measured with."""
    return (
        f"With {d} features the size of a metric of low rank can be more than half too large, and outside its "
        f"interval: intervals were measured with up to {MEASURED_FEATURES}. Rely on shape_ and on ratios of distances."
    )


def doubts_about(
    *, converged: bool, starts: Array, alternatives: Array, scale_error: float, spread: float, question_bias: float,
    approximation_error: float, no_metric: bool = False, knows_shape: bool = True, cut: str = "",
) -> list[Doubt]:  # fmt: skip
    """Return a warning for each attribute of `PopulationMetric` that is too large; NaN is never too large.

    `starts` are the values at which the starts ended, `alternatives` by how many nats other explanations are worse. If
    the answers do not support a metric (`no_metric`), its scale is not doubted. The shape is only recommended instead
    if the answers determine it (`knows_shape`). `cut` says in a clause what answers are that were not asked one by one:
    what else looks wrong with them follows from that.
    """
    doubts = [Doubt(NotIdentifiedWarning, cut)] if cut else []
    if not converged:
        doubts.append(Doubt(ConvergenceWarning, NOT_CONVERGED))
    apart = float(np.ptp(starts))
    if alternatives.size:
        text = (
            "from another start the fit ended at a different law of people, which explains the answers about as well "
            f"(worse by {np.min(alternatives):.2g} nats); the best is kept, and more people would tell them apart"
        )
        doubts.append(Doubt(NotIdentifiedWarning, text))
    elif apart >= AGREEMENT:
        text = f"{starts.size} starts ended up to {apart:.2g} nats apart, and the best is kept; raise starts"
        doubts.append(Doubt(ConvergenceWarning, text))
    if cut:
        return doubts
    if not no_metric and (scale_error > LOOSE_SCALE or spread > NOISELESS):
        text = (
            "the scale of the metric is not known: the answers look free of noise, or say too little about it; "
            f"{'rely on shape_, not on metric_' if knows_shape else 'nor do they determine most of its shape'}"
        )
        doubts.append(Doubt(NotIdentifiedWarning, text))
    if approximation_error > APPROXIMATE:
        text = (
            "people were integrated out approximately, and exact integrals may move the law by "
            f"{approximation_error:.2g} standard errors; intervals are too narrow by about as much"
        )
        doubts.append(Doubt(CrowdmetricWarning, text))
    if abs(question_bias) > BIASED:
        text = (
            f"questions look chosen for the people who answered them (z = {question_bias:.1f}), which "
            "biases the metric; ask at random, or use MatchedMetric"
        )
        doubts.append(Doubt(NotIdentifiedWarning, text))
    return doubts


def status_of(
    fit: PopulationFit, d: int, doubts: list[Doubt], *, starts: Array, alternatives: Array, integration: str,
    approximation_error: float, unfinished: str, constraint: str = "psd",
) -> str:  # fmt: skip
    """Return the status of a fit: convergence, how people were integrated out, what answers determine, and all doubts.

    `d` is the number of features, `constraint` the constraint on the metric, `integration` a clause on how people were
    integrated out, and `unfinished` the clause for a fit that did not converge.
    """
    ended = "Solved" if fit.result.converged else unfinished
    agree = starts.size > 1 and not alternatives.size and float(np.ptp(starts)) < AGREEMENT
    sentences = [f"{ended}; {starts.size} starts agree." if agree else f"{ended}."]
    moves = f"; exact integrals would move no parameter by more than {approximation_error:.2g} standard errors"
    sentences.append(f"{integration.capitalize()}{moves if approximation_error > 0 else ''}.")
    most = degrees_of_freedom(d) - 1
    if constraint in WITHOUT_LEARNED_METRIC:
        sentences.append(WITHOUT_LEARNED_METRIC[constraint])
    elif has_no_metric(fit):
        sentences.append("The answers do not support a metric: it was shrunk to zero; people have linear utilities.")
    elif fit.chart.rank is None and fit.determined < WELL_DETERMINED * most and round(fit.determined) < most:
        sentences.append(
            f"The answers determine {fit.determined:.0f} of the {most} parameters of the metric's shape; "
            "the rest comes from the prior, a multiple of the identity."
        )
    if constraint not in WITHOUT_LEARNED_METRIC and fit.layout.d > MEASURED_FEATURES and not has_no_metric(fit):
        sentences.append(many_features(fit.layout.d))
    if fit.layout.d < d:
        sentences.append(
            f"The items that were compared differ in {fit.layout.d} of {d} dimensions only; in the others the "
            "metric comes from the prior, a multiple of the identity."
        )
    return " ".join([*sentences, *(doubt.sentence for doubt in doubts)])
