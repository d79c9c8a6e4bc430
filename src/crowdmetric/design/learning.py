"""What the answers that have come in say about the metric and its people: the guess for the next questions.

A live study is fitted again and again, each time from scratch, for what a design needs and no more: the law, and
metrics drawn from its posterior. A fit that begins where the last one ended saves tenths of a second, and can stay at a
wrong optimum that few answers had led to. In a study with three features it stayed at a metric of zero from 21 to 100
people, while a fit from scratch found the metric from 42 people on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm, t

from crowdmetric.design.bundles import Population
from crowdmetric.engines.local import LocalEngine
from crowdmetric.fits.crowd import crowd_in_memory
from crowdmetric.fits.exact_draws import draws_of_law, is_size_known, is_worth_exact_draws
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.fits.size_posterior import nearest_metrics, posterior_of
from crowdmetric.fits.starts import evidence_fit
from crowdmetric.inputs import read_rows
from crowdmetric.losses import Logistic
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.solvers.posterior import number_of_draws
from crowdmetric.symmetric import degrees_of_freedom, smat, svec
from crowdmetric.users.population_sums import STRUCTURES

__all__ = ["AnswerTable", "Learned", "learn"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Tolerance of a fit, in nats: far below what changes a question.
TOLERANCE, ITERATIONS = 1e-2, 200

# In directions in which the metric's eigenvalue is below this share of their mean, the mean ideal point is moved toward
# the origin.
FLAT = 0.1


@dataclass(frozen=True)
class AnswerTable:
    """Answers as columns (T,): person 0 … K−1, pairs (T, 2) of rows of the items, y ∈ {−1, +1}, and weights."""

    person: Indices
    pairs: Indices
    y: Array
    weight: Array

    @property
    def people(self) -> int:
        """How many people have answered."""
        return int(np.unique(self.person).size)

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Learned:
    """A fitted law, and how sure it is.

    Attributes
    ----------
    metric
        M (d, d), in the items' own units.
    draws
        (n, p) svec of metrics drawn from the posterior: from the likelihood itself where answers determine the size of
        the metric, people are isotropic and neither they nor features are many, else from Gaussian laws around it.
    ideal_mean, ideal_covariance
        u₀ and Σ_u.
    people, answers
        How many it was learned from.
    parameters
        Number of parameters of the law.
    structure
        'isotropic' or 'free'.
    will_be_exact
        Whether draws come from the likelihood itself, now or once the size is known.
    """

    metric: Array
    draws: Array
    ideal_mean: Array
    ideal_covariance: Array
    people: int
    answers: int
    parameters: int
    structure: str
    will_be_exact: bool = False

    @property
    def population(self) -> Population:
        """The law of ideal points, as designs want it."""
        return Population(self.ideal_mean, self.ideal_covariance, self.structure)

    def some_draws(self, count: int) -> Array:
        """Return `count` metrics (count, d, d) from all over the draws."""
        chosen = np.linspace(0, len(self.draws) - 1, count).astype(np.intp)
        return np.stack([smat(m) for m in self.draws[chosen]])

    def errors(self, *, shape: bool = True) -> Array:
        """Return how far (n,) draws are from the estimate, relative to its size; with `shape` after rescaling."""
        m, draws = svec(self.metric), self.draws
        if shape:
            square = np.maximum(np.sum(draws * draws, axis=1), np.finfo(float).tiny)
            draws = np.maximum(draws @ m / square, 0.0)[:, None] * draws
        return np.asarray(np.linalg.norm(draws - m, axis=1) / np.linalg.norm(m))

    def widening(self, level: float = 0.90, more: ArrayLike = 0.0) -> Array:
        """Return by how much intervals are widened because their width decides when to stop, after `more` people.

        Student's quantile over the normal one, with as many degrees of freedom as there are more people than
        parameters: the correction of sequential fixed-width intervals (Stein; Chow and Robbins), whose width is found
        from the same answers as their center.
        """
        tail = 0.5 + 0.5 * level
        freedom = np.maximum(self.people + np.asarray(more) - self.parameters, 2.0)
        return np.asarray(t.ppf(tail, freedom) / norm.ppf(tail))

    def radius(self, level: float = 0.90, *, shape: bool = True) -> float:
        """Return the relative error that the metric does not exceed with probability `level`, `widening` included."""
        return float(self.widening(level)) * float(np.quantile(self.errors(shape=shape), level))

    def intervals(self, level: float = 0.90) -> tuple[Array, Array]:
        """Return the lower and upper ends (d, d) of intervals for the entries of the metric, `widening` included."""
        m, tail = svec(self.metric), 0.5 - 0.5 * level
        around = m + self.widening(level) * (self.draws - m)
        low, high = np.quantile(around, [tail, 1.0 - tail], axis=0)
        return smat(low), smat(high)


def learn(items: Array, answers: AnswerTable, structure: str, beta: float, *, draw: bool = True) -> Learned:
    """Return the law of the answers so far; `draw` False: without draws."""
    loss, free = Logistic(beta), structure == "free"
    rows = read_rows(answers.pairs, answers.y, answers.person, answers.weight, items, loss)
    crowd = crowd_in_memory(rows)
    problem = PopulationProblem.of(crowd, STRUCTURES[structure], loss, LocalEngine(1))
    chart = Parametrization(crowd.d, "psd", free, 0, None)
    fit = evidence_fit(problem, chart, tolerance=TOLERANCE, max_iterations=ITERATIONS)
    draws = np.zeros((0, degrees_of_freedom(problem.d)))
    if draw:
        draws = nearest_metrics(posterior_of(problem, fit).draws(number_of_draws(problem.d))[:, fit.layout.metric])
    will_be_exact = draw and not free and is_worth_exact_draws(problem)
    if will_be_exact and is_size_known(draws):
        draws = draws_of_law(problem, fit, draws)
    draws = crowd.span.draws_outside(draws / crowd.units.size**2, psd=True)
    law = crowd.law_outside(problem.structure.law(fit.natural, problem.d), free=free)
    inverse = _soft_inverse(law.metric)
    if free:
        scatter = 0.25 * inverse @ law.covariance @ inverse
    else:
        spread = crowd.units.size * float(np.exp(fit.natural[fit.layout.spread][0]))
        scatter = spread**2 * np.eye(law.mean.size)
    return Learned(
        metric=law.metric, draws=draws, ideal_mean=-0.5 * inverse @ law.mean, ideal_covariance=scatter,
        people=answers.people, answers=len(answers), parameters=fit.natural.size, structure=structure,
        will_be_exact=will_be_exact,
    )  # fmt: skip


def _soft_inverse(metric: Array) -> Array:
    """Return ``(M² + τ²I)⁻¹ M``: M⁻¹ where M is large, and small where M is nearly zero and u = −½M⁻¹μ undetermined."""
    values, vectors = np.linalg.eigh(metric)
    floor = max(FLAT * float(values.mean()), np.finfo(float).tiny ** 0.25)
    inverse: Array = (vectors * (values / (values**2 + floor**2))) @ vectors.T
    return inverse
