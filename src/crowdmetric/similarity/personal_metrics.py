"""People who differ: everybody's own metric, shrunk to the crowd's.

Person k has parameters ``θ_k = θ + e_k`` in the same cone, and ``e_k ~ N(0, Σ_r Q_r / λ_r)``: the projectors Q_r are
the size of the metric and what the ridges of its structure look at (diagonal, off-diagonal). Everybody's θ_k is the
posterior mode. With H_k the curvature of person k's answers, g_k their gradient and ``Λ = Σ_r λ_r Q_r``, the answers
about e_k are about Gaussian, so the crowd's θ and the strengths follow as in `newton`::

    W_k = Λ (H_k + Λ)⁻¹ H_k        (A + Σ_k W_k) θ = Σ_k Λ (H_k + Λ)⁻¹ (H_k θ_k − g_k)        A: the crowd's ridges
    γ_r = Σ_k rank Q_r − λ_r tr((H_k + Λ)⁻¹ Q_r)        λ_r ← γ_r / Σ_k ‖Q_r e_k‖²

How much people differ is one number, the root of ``E‖e_k‖² / ‖θ‖²``. Its interval comes from the profile of the
marginal likelihood when all of e_k is made s times as large, and s = 0 is "one metric is enough".
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

__all__ = ["OwnMetrics", "fit_people"]

Array = NDArray[np.float64]

ROUNDS, SETTLED = 15, 0.05
# The first guess of the strengths, in units of 1 / (mean eigenvalue)², and what counts as no difference at all.
FIRST_GUESS, MOST_STRENGTH = 4.0, 1e6
# Expected decrease, in nats, at which a person's fit stops.
TOLERANCE = 1e-2
# Values of s at which the marginal likelihood is computed, besides 0.
FACTORS = np.geomspace(0.02, 5.0, 400)
# Half of the 0.9 quantile of χ² with one degree of freedom: how far a profile log-likelihood may fall inside a 90 %
# interval.
DROP = 1.3528


@dataclass(frozen=True)
class OwnMetrics:
    """Everybody's own metric.

    Attributes
    ----------
    theta
        (n,) the crowd's.
    own
        (K, n) everybody's; the crowd's where somebody has no answers.
    strengths
        λ_r: of the size, and of each ridge of the structure.
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
    strengths: tuple[float, ...]
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
    groups = _groups(objective)
    ridge = _ridge(objective, pooled)
    scale = float(np.trace(objective.structure.metric(pooled.theta))) / objective.items.shape[1]
    strengths = [FIRST_GUESS / scale**2] * len(groups)
    answered = [questions.of_person(k) for k in range(n_people)]
    there = [k for k in range(n_people) if answered[k].asked]
    theta, own = pooled.theta, {k: pooled.theta for k in there}
    people: list[_Person] = []
    done, rounds = False, 0
    while not done and rounds < ROUNDS:
        rounds += 1
        Lambda = _weighted(strengths, groups)
        people = []
        for k in there:
            own[k], person = _fit_person(objective.about(answered[k]), theta, own[k], Lambda, None)
            people.append(person)
        theta = _crowd(people, Lambda, ridge, theta, step)
        wanted = _wanted(people, [own[k] - theta for k in there], strengths, groups, MOST_STRENGTH / scale**2)
        done = all(abs(np.log(new / old)) < SETTLED for new, old in zip(wanted, strengths, strict=True))
        strengths = wanted
    spread, interval, gain = _spread(people, theta, strengths, groups)
    # the strengths come from Gaussian people; only the metrics that are kept must be positive semi-definite
    Lambda = _weighted(strengths, groups)
    for k in there:
        own[k] = _fit_person(objective.about(answered[k]), theta, theta, Lambda, step)[0]
    everybody = np.stack([own.get(k, theta) for k in range(n_people)])
    information = ridge + sum(_weight(person, _weighted(strengths, groups)) for person in people)
    return OwnMetrics(theta, everybody, tuple(strengths), information, spread, interval, gain, done, rounds)


def _groups(objective: SimilarityObjective) -> list[Array]:
    """Return the projectors Q_r: the size of a metric, then what each ridge looks at."""
    unit = objective.structure.theta(np.eye(objective.items.shape[1]))
    unit = unit / np.linalg.norm(unit)
    return [np.outer(unit, unit), *objective.structure.ridges]


def _weighted(strengths: list[float], groups: list[Array]) -> Array:
    total: Array = np.sum([strength * Q for strength, Q in zip(strengths, groups, strict=True)], axis=0)
    return total


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


def _wanted(
    people: list[_Person], deviations: list[Array], strengths: list[float], groups: list[Array], most: float
) -> list[float]:
    """Return the strengths that the evidence asks for."""
    Lambda = _weighted(strengths, groups)
    inverses = [np.linalg.inv(person.H + Lambda) for person in people]
    wanted = []
    for strength, Q in zip(strengths, groups, strict=True):
        determined = sum(float(np.trace(Q)) - strength * float(np.sum(inverse * Q)) for inverse in inverses)
        size = sum(float(e @ Q @ e) for e in deviations)
        wanted.append(float(np.clip(determined / max(size, 1e-300), 1e-12 * most, most)))
    return wanted


def _spread(
    people: list[_Person], theta: Array, strengths: list[float], groups: list[Array]
) -> tuple[float, tuple[float, float], float]:
    """Return how much people differ, its interval, and the gain over one metric for all."""
    variance = sum(float(np.trace(Q)) / strength for strength, Q in zip(strengths, groups, strict=True))
    unit = float(np.sqrt(variance) / max(np.linalg.norm(theta), 1e-300))
    Lambda = _weighted(strengths, groups)
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
    middle = 0.0 if best < 0 else float(FACTORS[best])
    return middle * unit, (low * unit, high * unit), gain
