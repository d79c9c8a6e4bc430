"""Crowds with a law: a metric of some kind and people drawn from a Gaussian, integrated out.

All members of one family, ``ψ = ⟨Δ, M⟩ + ⟨δ, v⟩`` with v ~ N(μ, Σ) (`crowdmetric.users.population`), which differ in
what M may be and in how people spread, so that a difference between two of them says what that freedom is worth:

===========  ==============  =====================================================================================
metric       M               the model
===========  ==============  =====================================================================================
none         0               linear utilities with a crowd prior (a mixed logit): people, but no ideal points
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

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import DataError
from crowdmetric.estimators.inputs import read_rows
from crowdmetric.estimators.population_chunks import crowd_in_memory
from crowdmetric.estimators.population_problem import PopulationProblem
from crowdmetric.estimators.population_starts import evidence_fit
from crowdmetric.estimators.units import Units
from crowdmetric.losses import Logistic, Loss
from crowdmetric.solvers.charts import KINDS, Chart
from crowdmetric.solvers.population import items_covariance
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.integrals import mean_probability, posterior_of
from crowdmetric.users.item_effects import WithItemEffects, check_item_effects, variance_of_differences
from crowdmetric.users.population import STRUCTURES, Law, PopulationBlock, blocks_of, integrate

__all__ = ["METRICS", "Crowd", "CrowdModel"]

Array = NDArray[Any]

METRICS = KINDS
BLOCK_SIZE = 1 << 18
TOLERANCE, STEPS = 1e-4, 200
# Numbers in the covariances of people that are held at once.
MOST_NUMBERS = 4_000_000


@dataclass(frozen=True)
class CrowdModel:
    """Learn a metric of some kind and the law of people.

    Attributes
    ----------
    name : str
    metric : {'none', 'identity', 'psd', 'symmetric'}
    covariance : {'isotropic', 'free'}
        Of ideal points or, where M = 0 and nobody has one, of utilities ('free' only).
    item_effects : bool
        Whether items have a utility of their own beside what features say (at most 500 items).
    """

    name: str
    metric: str = "psd"
    covariance: str = "isotropic"
    item_effects: bool = False

    def __post_init__(self) -> None:
        if self.covariance not in STRUCTURES:
            raise DataError(f"covariance={self.covariance!r} is unknown; use {', '.join(map(repr, STRUCTURES))}")
        Chart(1, self.metric, self.covariance == "free")  # says what is wrong with the kind of metric

    def fit(self, items: Array, train: Comparisons) -> Crowd:
        """Learn from answers about items (N, d)."""
        loss = Logistic()
        rows = read_rows(train, None, None, None, items, loss)
        n_items = check_item_effects(rows.items.shape[0]) if self.item_effects else 0
        crowd, structure = crowd_in_memory(rows, shown=self.item_effects), STRUCTURES[self.covariance]
        if n_items:
            structure = WithItemEffects(structure, n_items)
        problem = PopulationProblem.of(crowd, structure, loss, LocalEngine(1))
        chart = Chart(problem.d, self.metric, self.covariance == "free", n_items)
        fit = evidence_fit(problem, chart, tolerance=TOLERANCE, max_iterations=STEPS)
        unknown = items_covariance(fit) if n_items else None
        return Crowd(items, crowd.units, structure.law(fit.natural, problem.d), loss, unknown, fit.value)


@dataclass(frozen=True)
class Crowd:
    """A metric and a law of people, in the units of the items learned from.

    Attributes
    ----------
    items
        (N, d), in their own units.
    units, law
        Law of v for items in these units.
    loss
        How answers scatter.
    unknown
        (N, N) covariance of what is not known of the items' utilities; None where they have none.
    log_likelihood
        Of the answers learned from.
    """

    items: Array
    units: Units
    law: Law
    loss: Loss
    unknown: Array | None = None
    log_likelihood: float = float("nan")

    @property
    def metric(self) -> Array:
        """The metric (d, d) for items in their own units."""
        return self.units.law_outside(self.law).metric

    def probability(self, questions: Comparisons, known: Comparisons) -> Array:
        """Return Pr[right preferred] (T,), averaged over where each person may stand given their known answers."""
        X = self.units.inside(np.asarray(self.items, dtype=np.float64))
        delta, total = X[questions.left] - X[questions.right], X[questions.left] + X[questions.right]
        offset = np.einsum("td,td->t", delta @ self.law.metric, total)
        if self.law.effects is not None:
            offset -= self.law.effects[questions.left] - self.law.effects[questions.right]
        mean, variance = np.empty(len(questions)), np.empty(len(questions))
        asked = np.unique(questions.user)
        at_once = max(1, MOST_NUMBERS // X.shape[1] ** 2)
        for first in range(0, asked.size, at_once):
            people = asked[first : first + at_once]
            points, spreads = self._place(X, known, people)
            rows = np.flatnonzero(np.isin(questions.user, people))
            for part in np.array_split(rows, 1 + rows.size // at_once):
                who = np.searchsorted(people, questions.user[part])
                mean[part] = np.einsum("td,td->t", delta[part], points[who])
                variance[part] = np.einsum("td,tde,te->t", delta[part], spreads[who], delta[part])
        if self.unknown is not None:
            variance += variance_of_differences(self.unknown, questions.pairs)
        probability: Array = mean_probability(offset + mean, np.maximum(variance, 0.0), self.loss)
        return probability

    def _place(self, X: Array, known: Comparisons, people: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return mean (K, d) and covariance (K, d, d) of the v of some people; without answers, the population's."""
        points, spreads = np.tile(self.law.mean, (people.size, 1)), np.tile(self.law.covariance, (people.size, 1, 1))
        rows = np.flatnonzero(np.isin(known.user, people))
        for block in self._blocks(X, known.take(rows), people) if rows.size else []:
            integral = integrate(block, self.law, self.loss, largest_grid=1)
            points[block.person], spreads[block.person] = posterior_of(
                integral, block.span, block.loadings, self.law.mean, self.law.covariance
            )
        return points, spreads

    def _blocks(self, X: Array, known: Comparisons, people: NDArray[np.int64]) -> list[PopulationBlock]:
        answers = Answers(
            items=X,
            pairs=known.pairs.astype(np.intp),
            response=known.response,
            weight=known.weight,
            person=np.searchsorted(people, known.user).astype(np.intp),
            problem=np.zeros(people.size, dtype=np.intp),
            n_problems=1,
        ).merged()
        return blocks_of(arrange(answers, block_size=BLOCK_SIZE), answers.pairs)
