"""Crowds with a law: a metric of some kind and people drawn from a Gaussian, integrated out.

All are members of one family, ``ψ = ⟨Δ, M⟩ + ⟨δ, v⟩`` with v ~ N(μ, Σ) (`crowdmetric.users.population_sums`). They
differ in what M may be and in how people spread, so the difference between two of them measures what that freedom adds:

===========  ==============  =====================================================================================
metric       M               the model
===========  ==============  =====================================================================================
none         0               linear utilities with a crowd prior (a mixed logit): people, but no ideal points; for
                             isotropic people three variances are all that is learned, whatever the number of items
identity     cI, c > 0       ideal points under the distance that the items came with
psd          ⪰ 0             ideal points under a learned distance (`PopulationMetric`)
symmetric    any             the same quadratic without the promise that anybody has an ideal point
===========  ==============  =====================================================================================

Each may have utilities of the items beside it. The fits are those of `PopulationMetric` (the same likelihood, the same
priors, one start) without its standard errors, which predictions do not need and which are most of its time: what is
judged here is what is saved there. Everybody whose answers span more than a line is integrated out by expectation
propagation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import DataError
from crowdmetric.fits.crowd import crowd_in_memory
from crowdmetric.fits.hidden_items import personal_variance_of
from crowdmetric.fits.linear_utilities import fit_linear_utilities
from crowdmetric.fits.many_features import DEFAULT_RANK, LARGEST_SCORING, fit_low_rank_law
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.fits.question_stream import QuestionStream, asked_in_memory
from crowdmetric.fits.starts import Start, evidence_fit
from crowdmetric.fits.units import Units
from crowdmetric.fits.unknowns import NOTHING_UNKNOWN, Unknowns, moments_of, unknowns_of
from crowdmetric.inputs import read_rows
from crowdmetric.losses import Logistic, Loss
from crowdmetric.solvers.parametrization import KINDS, Parametrization
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.users.blocks import Answers
from crowdmetric.users.item_effects import WithItemEffects
from crowdmetric.users.population_sums import STRUCTURES, Law

__all__ = ["METRICS", "CrowdModel", "FittedCrowd"]

Array = NDArray[Any]

METRICS = KINDS
TOLERANCE, STEPS = 1e-4, 200
# Trial fits stop when a step would gain less than this, in nats per answer and in nats in total. The log-loss of hidden
# answers is needed to 0.001 nats per answer. A fit ε nats short of its optimum is √(2ε) standard errors off it, which
# costs hidden answers about ε nats *in total*, so ε may grow with the number of answers.
TOLERANCE_PER_ANSWER, MOST_TOLERANCE = 1e-6, 0.03


@dataclass(frozen=True)
class CrowdModel:
    """Learn a metric of some kind and the law of people.

    Attributes
    ----------
    name : str
    metric : {'none', 'identity', 'psd', 'symmetric'}
    covariance : {'isotropic', 'free'}
        Of ideal points or, where M = 0 and nobody has one, of the weights of linear utilities.
    item_effects : bool
        Whether items have a utility of their own beside what features say.
    start : Start, optional
        Where the same model ended on other answers of the same people, or a simpler one on the same answers, to begin
        there.
    """

    name: str
    metric: str = "psd"
    covariance: str = "isotropic"
    item_effects: bool = False
    start: Start | None = None

    def __post_init__(self) -> None:
        if self.covariance not in STRUCTURES:
            raise DataError(f"covariance={self.covariance!r} is unknown; use {', '.join(map(repr, STRUCTURES))}")
        if not self.is_linear:
            Parametrization(1, self.metric, self.covariance == "free")  # says what is wrong with the kind of metric

    @property
    def is_linear(self) -> bool:
        """Whether people have linear utilities with three variances (`crowdmetric.fits.linear_utilities`)."""
        return self.metric == "none" and self.covariance == "isotropic"

    def fit(self, items: Array, train: Comparisons) -> FittedCrowd:
        """Learn from answers about items (N, d)."""
        loss = Logistic()
        rows = read_rows(train, None, None, None, items, loss)
        n_items = rows.items.shape[0] if self.item_effects else 0
        if self.is_linear:
            return _linear(items, asked_in_memory(rows), loss, item_effects=self.item_effects)
        if degrees_of_freedom(rows.items.shape[1]) + n_items > LARGEST_SCORING:
            return self._fit_by_gradients(items, asked_in_memory(rows), loss)
        # lines are integrated on a grid, and everybody else by propagation, whatever their answers span
        crowd, structure = crowd_in_memory(rows, shown=self.item_effects, join_above=1), STRUCTURES[self.covariance]
        if n_items:
            structure = WithItemEffects(structure, n_items)
        chart = Parametrization(crowd.d, self.metric, self.covariance == "free", n_items)
        problem = PopulationProblem.of(crowd, structure, loss, LocalEngine(1)).roughly().along(chart)
        start = self.start
        if start is not None:
            start = replace(start, law=crowd.law_inside(start.law))
        tolerance = min(max(TOLERANCE, TOLERANCE_PER_ANSWER * crowd.weight), MOST_TOLERANCE)
        fit = evidence_fit(problem, chart, start, tolerance=tolerance, max_iterations=STEPS)
        law = structure.law(fit.natural, problem.d)
        unknowns = unknowns_of(fit)
        if unknowns.covariance is not None:
            unknowns = replace(unknowns, covariance=crowd.span.offsets_outside(unknowns.covariance, law.metric))
        personal = partial(personal_variance_of, problem, fit, crowd.answers(rows))
        law = crowd.span.law_outside(law, free=self.covariance == "free")
        end = Start(crowd.units.law_outside(law), fit.ridges)
        return FittedCrowd(items, crowd.units, law, loss, unknowns, personal, fit.value, end)

    def _fit_by_gradients(self, items: Array, asked: QuestionStream, loss: Loss) -> FittedCrowd:
        """Learn about many items with effects, as `PopulationMetric` does."""
        if self.metric != "psd":
            raise DataError(
                f"a fit of {self.metric!r} needs outer products of scores, which effects of {len(asked.items):,} items "
                "rule out; evaluate fewer items, or 'mixed'"
            )
        fit = fit_low_rank_law(
            asked, min(asked.items.shape[1], DEFAULT_RANK), loss, ridge=None,
            free=self.covariance == "free", item_effects=self.item_effects, max_iterations=STEPS,
        )  # fmt: skip
        unknowns = Unknowns(None, 1.0 / fit.result.prior.items if self.item_effects else 0.0, 0.0, fit.item_variances)
        return FittedCrowd(items, asked.units, fit.law, loss, unknowns, log_likelihood=fit.result.value)


def _linear(items: Array, asked: QuestionStream, loss: Loss, *, item_effects: bool) -> FittedCrowd:
    """Learn linear utilities with three variances."""
    fit = fit_linear_utilities(asked, loss, item_effects=item_effects)
    unknowns = Unknowns(None, fit.new_item, 0.0, fit.item_variances)
    return FittedCrowd(items, asked.units, fit.law, loss, unknowns, log_likelihood=fit.value)


@dataclass(frozen=True)
class FittedCrowd:
    """A metric and a law of people, in the units of the items learned from.

    Attributes
    ----------
    items
        (N, d), in their own units.
    units, law
        Law of v for items in these units.
    loss
        How answers scatter.
    unknowns
        What predictions do not know beside where a person stands.
    find_personal
        Returns how much people differ about items new to them; that takes as long as the fit, and few ask.
    log_likelihood
        Of the answers learned from.
    end
        Where the fit ended, for the same model to begin there with other answers.
    """

    items: Array
    units: Units
    law: Law
    loss: Loss
    unknowns: Unknowns = NOTHING_UNKNOWN
    find_personal: Callable[[], float] = float
    log_likelihood: float = float("nan")
    end: Start | None = None

    @property
    def metric(self) -> Array:
        """The metric (d, d) for items in their own units."""
        return self.units.law_outside(self.law).metric

    def probability(self, questions: Comparisons, known: Comparisons) -> Array:
        """Return Pr[right preferred] (T,), averaged over where each person may stand given their known answers."""
        X = self.units.inside(np.asarray(self.items, dtype=np.float64))
        answers = Answers(
            items=X,
            pairs=known.pairs.astype(np.intp),
            response=known.response,
            weight=known.weight,
            person=known.user.astype(np.intp),
            problem=np.zeros(max(known.n_users, questions.n_users), dtype=np.intp),
            n_problems=1,
        )
        pairs, person = questions.pairs.astype(np.intp), questions.user.astype(np.intp)
        moments = moments_of(X, pairs, person, answers, self.law, self.loss, self.unknowns)
        return moments.probability(self.personal if np.any(moments.new_items) else 0.0, self.loss)

    @cached_property
    def personal(self) -> float:
        """τ², what predictions lack about items new to a person."""
        return self.find_personal()
