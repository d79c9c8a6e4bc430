"""People who differ: everybody's own metric, shrunk to the crowd's.

Person k has the metric ``M_k = L (I + E_k)² Lᵀ`` with the crowd's ``M = L Lᵀ`` and a random symmetric E_k whose svec is
``N(0, s²/d I)``, as in `crowdmetric.simulate_judgements`: people differ most in what counts most. To first order
``e_k = θ_k − θ ~ N(0, s² C)`` with ``C = (4/d) M ⊗ M`` on the structure's parameters. Everybody's θ_k is the posterior
mode. With H_k the curvature of person k's answers, g_k their gradient and ``Λ = C⁻¹/s²``, the answers about e_k are
about Gaussian, so the crowd's θ follows::

    W_k = Λ (H_k + Λ)⁻¹ H_k        (A + Σ_k W_k) θ = Σ_k Λ (H_k + Λ)⁻¹ (H_k θ_k − g_k)        A: the crowd's ridges

and s is where the marginal likelihood of all answers is largest. How much people differ is one number, the root of
``E‖e_k‖² / ‖θ‖²``. Its interval comes from the profile of that likelihood, and s = 0 is "one metric is enough".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from crowdmetric.similarity.cone_step import ConeStep
from crowdmetric.similarity.newton import SimilarityFit, minimize
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.pair_choices import PairChoices
from crowdmetric.symmetric import smat, symmetric_kronecker

__all__ = ["OwnMetrics", "fit_people"]

Array = NDArray[np.float64]

ROUNDS, SETTLED = 15, 0.05
# The first guess of s, and the mean eigenvalue that M gets more of in C, so that nobody is held to directions it lacks.
FIRST_GUESS, LIFT = 0.3, 0.02
# Expected decrease, in nats, at which a person's fit stops.
TOLERANCE = 1e-2
# Values of s at which the marginal likelihood is computed, besides 0.
FACTORS = np.geomspace(0.02, 5.0, 400)
# Half of the 0.9 quantile of χ² with one degree of freedom: how far a profile log-likelihood may fall inside a 90 %
# interval.
DROP = 1.3528
# Below this s people count as alike.
LEAST = 1e-3


@dataclass(frozen=True)
class OwnMetrics:
    """Everybody's own metric.

    Attributes
    ----------
    theta
        (n,) the crowd's.
    own
        (K, n) everybody's; the crowd's where somebody has no answers.
    information
        (n, n) about the crowd's θ, people's differences counted: ``A + Σ W_k``.
    spread, interval
        Root mean square of ‖e_k‖ / ‖θ‖, and its 90 % interval.
    gain
        How much the log marginal likelihood is above that of one metric for all, in nats.
    converged, rounds
        Whether the strengths settled, and after how many rounds.
    """

    theta: Array
    own: Array
    information: Array
    spread: float
    interval: tuple[float, float]
    gain: float
    converged: bool
    rounds: int

    @property
    def differ(self) -> bool:
        """Whether one metric is not enough, at the level of 5 %."""
        return self.gain > DROP

    def summary(self) -> str:
        """Return the finding in one sentence."""
        low, high = self.interval
        how_much = f"{self.spread:.0%} of the crowd's metric (90 % interval {low:.0%} to {high:.0%})"
        if self.differ:
            return f"People differ: their metrics differ from the crowd's by {how_much}."
        return f"One metric is enough: that people differ by {how_much} is not more than chance would give."


@dataclass(frozen=True)
class _Person:
    """What the answers of one person say at θ_k: curvature H_k and ``h = H_k θ_k − g_k``."""

    H: Array
    h: Array


def fit_people(
    objective: SimilarityObjective, pooled: SimilarityFit, questions: PairChoices, n_people: int
) -> OwnMetrics:
    """Return everybody's own metric, from the crowd's fit and the questions by person."""
    step = ConeStep(objective.structure, objective.covariance)
    ridge = _ridge(objective, pooled)
    answered = [questions.of_person(k) for k in range(n_people)]
    there = [k for k in range(n_people) if answered[k].asked]
    theta, own = pooled.theta, {k: pooled.theta for k in there}
    s, rounds, done = FIRST_GUESS, 0, False
    while not done and rounds < ROUNDS:
        rounds += 1
        C = _law(objective, theta)
        Lambda = _precision(C, s)
        people = []
        for k in there:
            own[k], person = _fit_person(objective.about(answered[k]), theta, own[k], Lambda, None)
            people.append(person)
        theta = _crowd(people, Lambda, ridge, theta, step)
        factor, around, gain = _spread(people, theta, Lambda)
        wanted = s * max(factor, FACTORS[0])
        done = abs(np.log(wanted / s)) < SETTLED or s < LEAST
        s = wanted
    unit = s / max(factor, FACTORS[0]) * float(np.sqrt(np.trace(C)) / max(np.linalg.norm(theta), 1e-300))
    Lambda = _precision(C, s)
    # s comes from Gaussian people; only the metrics that are kept must be positive semi-definite
    for k in there:
        own[k] = _fit_person(objective.about(answered[k]), theta, theta, Lambda, step)[0]
    everybody = np.stack([own.get(k, theta) for k in range(n_people)])
    information: Array = np.sum([ridge, *(_weight(person, Lambda) for person in people)], axis=0)
    interval = (around[0] * unit, around[1] * unit)
    return OwnMetrics(theta, everybody, information, factor * unit, interval, gain, done, rounds)


def _precision(C: Array, s: float) -> Array:
    return np.asarray(np.linalg.inv(C) / s**2, dtype=np.float64)


def _law(objective: SimilarityObjective, theta: Array) -> Array:
    """Return C (n, n)."""
    structure, d = objective.structure, objective.items.shape[1]
    M = structure.metric(theta)
    M = M + LIFT * max(float(np.trace(M)) / d, 1e-300) * np.eye(d)
    onto = np.stack([structure.theta(smat(unit)) for unit in np.eye(d * (d + 1) // 2)], axis=1)
    return np.asarray(4.0 / d * onto @ symmetric_kronecker(M, M) @ onto.T)


def _ridge(objective: SimilarityObjective, pooled: SimilarityFit) -> Array:
    n = objective.structure.size
    parts = [strength * P for strength, P in zip(pooled.strengths, objective.structure.ridges, strict=True)]
    floor = 1e-8 * float(np.max(np.diag(pooled.curvature), initial=1e-300)) * np.eye(n)
    return np.sum([floor, *parts], axis=0)


def _fit_person(
    objective: SimilarityObjective, theta: Array, start: Array, Lambda: Array, step: ConeStep | None
) -> tuple[Array, _Person]:
    """Return one person's posterior mode, in the cone if `step` is given, and what their answers say there."""

    def prior(x: Array) -> tuple[float, Array, Array]:
        pulled = Lambda @ (x - theta)
        return 0.5 * float((x - theta) @ pulled), pulled, Lambda

    none = [0.0] * len(objective.structure.ridges)
    if step is not None:
        step.multiplier = None  # it belongs to another person
    fit = minimize(
        objective, none, start, step=step, in_cone=step is not None, tolerance=TOLERANCE, max_iterations=20, prior=prior
    )
    g = objective.slope(fit.theta)[1]
    return fit.theta, _Person(fit.curvature, fit.curvature @ fit.theta - g)


def _weight(person: _Person, Lambda: Array) -> Array:
    """Return ``W = Λ (H + Λ)⁻¹ H``, symmetric."""
    W = Lambda @ cho_solve(cho_factor(person.H + Lambda), person.H)
    return 0.5 * (W + W.T)


def _crowd(people: list[_Person], Lambda: Array, ridge: Array, theta: Array, step: ConeStep) -> Array:
    """Return the crowd's θ given everybody's answers, in the cone."""
    total, pull = ridge.copy(), np.zeros(theta.size)
    for person in people:
        factor = cho_factor(person.H + Lambda)
        total += Lambda @ cho_solve(factor, person.H)
        pull += Lambda @ cho_solve(factor, person.h)
    total = 0.5 * (total + total.T)
    step.multiplier = None
    return step.solve(theta, total @ theta - pull, total)


def _spread(people: list[_Person], theta: Array, Lambda: Array) -> tuple[float, tuple[float, float], float]:
    """Return the factor on s that is most likely, its interval, and the gain over one metric for all."""
    # in coordinates where Λ is the identity, so one eigendecomposition per person serves every s
    values, vectors = np.linalg.eigh(Lambda)
    half = vectors / np.sqrt(values)
    profile = np.zeros(FACTORS.size)
    for person in people:
        h, axes = np.linalg.eigh(half.T @ person.H @ half)
        h = np.maximum(h, 0.0)
        pull = axes.T @ (half.T @ (person.h - person.H @ theta))
        grown = 1.0 + np.outer(FACTORS**2, h)
        profile += 0.5 * np.sum(FACTORS[:, None] ** 2 * pull**2 / grown - np.log(grown), axis=1)
    best = int(np.argmax(profile))
    if profile[best] <= 0.0:
        best, gain, top = -1, 0.0, 0.0
    else:
        gain = top = float(profile[best])
    inside = np.flatnonzero(profile >= top - DROP)
    low = 0.0 if top - DROP <= 0.0 else float(FACTORS[inside[0]])
    high = float(FACTORS[inside[-1]]) if inside.size else float(FACTORS[0])
    return 0.0 if best < 0 else float(FACTORS[best]), (low, high), gain
