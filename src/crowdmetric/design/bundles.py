"""Expected information of questions put to people of one population, who are integrated out.

A *bundle* is what one person is asked: m pairs. With P(y) the chance of each of the 2^m sets of answers and s(y) its
score in the natural parameters θ (svec M first, then what is not of interest: where people are and how they scatter),

    I_bundle = Σ_y P(y) s(y) s(y)ᵀ = Σ_k x_k x_kᵀ        rows  x_k = √P(y_k) s(y_k)    (2^m, n)

Beyond `MOST_ANSWERS` answers per person, sets of answers are drawn instead of listed. Information adds up over people,
and ``[I⁻¹]_MM`` (p, p) is the covariance of the metric, nuisance estimated as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from crowdmetric.design.guess import Guess
from crowdmetric.design.information import errors_of
from crowdmetric.errors import NotIdentifiedError
from crowdmetric.losses import Logistic
from crowdmetric.symmetric import svec
from crowdmetric.users.blocks import Block
from crowdmetric.users.population_sums import LARGEST_GRID, STRUCTURES, PopulationBlock, blocks_of, integrate

__all__ = [
    "Population",
    "answered_scores",
    "bundle_rows",
    "expected_errors",
    "log_chances",
    "metric_covariance",
    "population_of",
]

Array = NDArray[np.float64]

# All sets of answers are listed up to this many answers per person. Beyond, this many sets are drawn for each bundle.
MOST_ANSWERS = 5
DRAWS = 32
# For the predicted error: this many sets of answers over all bundles and metrics, and at least so many per metric and
# parameter: the inverse of an information from N drawn rows about n parameters is too large by about n / N.
PROMISE_DRAWS = 20_000
PROMISE_DRAWS_PER_PARAMETER = 100
# How far the probabilities of all answers may be from summing to one for an integral to be trusted.
SOUND = 0.02
# Number of (bundle, set of answers) pairs processed at once.
CHUNK = 1 << 17
# With each parameter in its own unit, a direction counts as not reached if its eigenvalue of the information is below
# this.
RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Population:
    """The law of ideal points that is thought possible, and what PopulationMetric will assume of it.

    Attributes
    ----------
    mean, covariance
        u₀ (d,) and Σ_u (d, d).
    structure
        'isotropic' or 'free', as PopulationMetric's ``covariance``.
    """

    mean: Array
    covariance: Array
    structure: str

    def natural(self, metric: Array) -> Array:
        """Return the natural parameters (n,) of a metric among these people."""
        mu = -2.0 * metric @ self.mean
        if self.structure == "free":
            return np.concatenate([svec(metric), mu, svec(4.0 * metric @ self.covariance @ metric)])
        return np.concatenate([svec(metric), mu, [0.5 * np.log(self.covariance[0, 0])]])


def population_of(guess: Guess, structure: str) -> Population:
    """Return the Gaussian population of the crowd that is thought possible: its moments."""
    d = guess.crowd.shape[1]
    mean, covariance = guess.crowd.mean(axis=0), np.cov(guess.crowd, rowvar=False).reshape(d, d)
    if structure == "isotropic":
        # not zero: a spread of zero has no logarithm
        covariance = max(float(np.trace(covariance)) / d, 1e-12) * np.eye(d)
    return Population(mean, covariance, structure)


def bundle_rows(
    bundles: Array,
    metric: Array,
    people: Population,
    beta: float,
    rng: np.random.Generator,
    *,
    careful: bool = False,
    largest_grid: int = 1,
    draws: int = DRAWS,
) -> Array:
    """Return rows (C, k, n) with ``I = Σ_k x_k x_kᵀ`` for bundles (C, m, 2, d): pair, left/right, features.

    People are integrated out by expectation propagation where their questions span more than a line. It fails for some
    bundles of very steep and nearly parallel questions, and one sees it: the chances of all answers do not sum to one.

    Where all sets of answers are listed, ``Σ_j s_j x_j = 0`` for the rows ``x_j = s_j · score_j``, s_j the roots of
    their chances, because an expected score is zero. A reflection that maps s to an axis makes one row vanish, so k is
    one less than the number of sets of answers: ``x_j − s_j x_k / (1 + s_k)`` for all but the last set k.

    Parameters
    ----------
    careful
        Whether those bundles are then integrated on a grid, if they span up to three dimensions. Otherwise, and beyond,
        they are taken to be worth nothing, so they are not chosen.
    largest_grid
        Dimensions up to which grids are used at once, which is exact, and slower.
    draws
        Sets of answers drawn for each bundle, where there are too many to list.
    """
    C, m, _, d = bundles.shape
    structure, natural, loss = STRUCTURES[people.structure], people.natural(metric), Logistic(beta)
    law = structure.law(natural, d)
    listed = m <= MOST_ANSWERS
    k = 2**m if listed else draws
    rows = np.zeros((C, k - 1 if listed else k, natural.size))
    for part in _parts(bundles, max(1, CHUNK // k)):
        if listed:
            y = np.broadcast_to(np.array(list(product((-1.0, 1.0), repeat=m))), (part.person.size, k, m))
        else:
            y = _drawn(bundles[part.person], metric, people, beta, k, rng)
        left = part  # the bundles that have no reliable integral yet
        again = careful and largest_grid < part.span.shape[1] <= LARGEST_GRID
        for grid in (largest_grid, LARGEST_GRID) if again else (largest_grid,):
            asked = _repeated(left, y)
            integral = integrate(asked, law, loss, grid)
            chance, sound = _chances(integral.value.reshape(-1, k), listed)
            scores = structure.scores(asked, integral, law, natural).reshape(-1, k, natural.size)[sound]
            root = np.sqrt(chance[sound])[:, :, None]
            if listed:
                # an expected score is zero in theory, and only nearly so where the integral is approximate
                scores = scores - np.sum(chance[sound, :, None] * scores, axis=1, keepdims=True)
                last = root[:, -1:] * scores[:, -1:]
                rows[left.person[sound]] = root[:, :-1] * (scores[:, :-1] - last / (1.0 + root[:, -1:]))
            else:
                rows[left.person[sound]] = root * scores
            if sound.all():
                break
            left, y = _some(left, ~sound), y[~sound]
    return rows


def answered_scores(bundles: Array, y: Array, metric: Array, people: Population, beta: float) -> tuple[Array, Array]:
    """Return the log probability (C, k) and the score (C, k, n) of the same k sets of answers (k, m) to each bundle."""
    C, _, _, d = bundles.shape
    structure, natural, loss = STRUCTURES[people.structure], people.natural(metric), Logistic(beta)
    law = structure.law(natural, d)
    logs, scores = np.zeros((C, len(y))), np.zeros((C, len(y), natural.size))
    for part in _parts(bundles, max(1, CHUNK // len(y))):
        asked = _repeated(part, np.broadcast_to(y, (part.person.size, *y.shape)))
        integral = integrate(asked, law, loss, 1)
        logs[part.person] = integral.value.reshape(-1, len(y))
        scores[part.person] = structure.scores(asked, integral, law, natural).reshape(-1, len(y), natural.size)
    return logs, scores


def log_chances(bundles: Array, metric: Array, people: Population, beta: float) -> Array:
    """Return the log probability (C, 2^m) of every set of answers to bundles (C, m, 2, d), in the order of `product`.

    For at most `MOST_ANSWERS` answers per person.
    """
    sets = np.array(list(product((-1.0, 1.0), repeat=bundles.shape[1])))
    return answered_scores(bundles, sets, metric, people, beta)[0]


def _chances(log_chance: Array, listed: bool) -> tuple[Array, NDArray[np.bool_]]:
    """Return the chance of each set of answers (P, k), and whether integrals can be trusted (P,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        if not listed:
            return np.full(log_chance.shape, 1.0 / log_chance.shape[1]), np.all(log_chance < 1e-3, axis=1)
        chance = np.exp(log_chance)
        total = chance.sum(axis=1, keepdims=True)
        return chance / total, np.abs(total[:, 0] - 1.0) <= SOUND


def metric_covariance(information: Array, p: int) -> Array:
    """Return ``[I⁻¹]_MM`` (p, p) of an information (n, n) about svec(M) and n − p parameters of no interest.

    Raises
    ------
    NotIdentifiedError
        If the information is singular.
    """
    unit = np.sqrt(np.maximum(np.diag(information), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(information / np.outer(unit, unit))
    if values[0] <= RANK_TOLERANCE * values[-1]:
        reached = int(np.sum(values > RANK_TOLERANCE * values[-1]))
        raise NotIdentifiedError(
            f"these questions determine {reached} of the {len(values)} parameters of the metric and its population; "
            "ask about more different items, or ask more people"
        )
    half = (vectors[:p] / np.sqrt(values)) / unit[:p, None]
    covariance: Array = half @ half.T
    return covariance


def expected_errors(
    bundles: Array, counts: Array, guess: Guess, people: Population, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the expected relative errors, raw and of the shape, if bundles are asked `counts` (C,) times.

    Root mean square over the metrics that are thought possible; to first order in 1/people.
    """
    p = svec(guess.metrics[0]).size
    metrics = guess.to_promise
    # enough sets of answers are drawn that the Monte Carlo error is a few percent, however few the bundles
    n = people.natural(guess.metrics[0]).size
    wanted = max(PROMISE_DRAWS_PER_PARAMETER * n, PROMISE_DRAWS // len(metrics))
    draws = max(DRAWS, -(-wanted // len(bundles)))
    errors = []
    for metric in metrics:
        rows = bundle_rows(bundles, metric, people, guess.beta, rng, careful=True, draws=draws)
        rows = (np.sqrt(counts)[:, None, None] * rows).reshape(-1, rows.shape[2])
        errors.append(errors_of(metric_covariance(rows.T @ rows, p), metric))
    error, shape = np.sqrt(np.mean(np.square(errors), axis=0)).tolist()
    return error, shape


def _parts(bundles: Array, size: int) -> Iterator[PopulationBlock]:
    """Yield bundles by the dimension that their differences span, one person each, at most `size` at a time."""
    for start in range(0, len(bundles), size):
        x = bundles[start : start + size]
        person = np.arange(start, start + len(x))
        one = np.ones(x.shape[:2])
        nobody = np.zeros(len(x), dtype=np.intp)
        block = Block(
            delta=x[:, :, 0] - x[:, :, 1], total=x[:, :, 0] + x[:, :, 1], response=one, weight=one, person=person,
            problem=nobody, starts=nobody[:1], problems=nobody[:1], rows=np.zeros(x.shape[:2], dtype=np.intp),
        )  # fmt: skip
        yield from blocks_of((block,))


def _some(part: PopulationBlock, chosen: NDArray[np.bool_]) -> PopulationBlock:
    """Return some of the people of a block."""
    return part.take(chosen)


def _repeated(part: PopulationBlock, y: Array) -> PopulationBlock:
    """Return the people of a block once for each of their sets of answers y (P, k, m)."""
    k = y.shape[1]
    return replace(
        part,
        span=np.repeat(part.span, k, axis=0),
        loadings=np.repeat(part.loadings, k, axis=0),
        total=np.repeat(part.total, k, axis=0),
        response=y.reshape(-1, y.shape[2]),
        weight=np.ones((y.shape[0] * k, y.shape[2])),
        person=np.repeat(part.person, k),
    )


def _drawn(bundles: Array, metric: Array, people: Population, beta: float, k: int, rng: np.random.Generator) -> Array:
    """Return k sets of answers (P, k, m) of people drawn from the population."""
    P, m, _, d = bundles.shape
    values, vectors = np.linalg.eigh(people.covariance)
    u = people.mean + rng.standard_normal((P, k, d)) * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    seen = (bundles[:, :, 0] - bundles[:, :, 1]) @ metric  # (P, m, d)
    fixed = np.sum(seen * (bundles[:, :, 0] + bundles[:, :, 1]), axis=2)
    psi = fixed[:, None, :] - 2.0 * u @ np.swapaxes(seen, 1, 2)
    chance = 1.0 / (1.0 + np.exp(-np.clip(beta * psi, -700.0, 700.0)))
    return np.where(rng.random((P, k, m)) < chance, 1.0, -1.0)
