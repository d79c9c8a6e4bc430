"""Questions to people of one population: random ones, or the most informative ones.

The search starts from random bundles of m pairs, finds the best shares of people among them (`exchange`), varies the
bundles that are left, keeps variations that would help (sensitivity above one) and begins again. Most variations help
nobody, and one metric is enough to see that: many are screened under one metric, another one in each round, and the
best of them are judged under all. It ends with whole numbers of people, moved one by one to where they help more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.design.bundles import DRAWS, MOST_ANSWERS, Population, bundle_rows, expected_errors, population_of
from crowdmetric.design.exchange import CRITERIA, best_shares, exchange_people, sensitivity
from crowdmetric.design.guess import Guess
from crowdmetric.design.information import apportion, lasting
from crowdmetric.design.question_sources import ItemSource
from crowdmetric.design.questionnaire import Questionnaire, hand_out
from crowdmetric.errors import DataError
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.users.population_sums import STRUCTURES

__all__ = [
    "FoundBundles",
    "ask_population",
    "number_of_metrics",
    "optimal_questions",
    "random_questions",
    "search_bundles",
    "size_of_search",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Number of metrics for which questions are chosen: enough that no single one decides, few enough to be quick. With many
# degrees of freedom there are fewer, MOST_CHOSEN divided by their number.
CHOOSERS, FEWEST_CHOOSERS, MOST_CHOSEN = 8, 2, 600
# Total number of sets of answers for the first bundles and for the variations screened in one round. Their number of
# bundles is this divided by the number of sets of answers per bundle, but at least FEWEST.
POOL, VARIATIONS = 6000, 16_000
FEWEST = 200
# Number of variations in each round that are judged under all metrics.
JUDGED = 125
ALL = slice(None)
# Smallest sensitivity of variations that are kept.
PROMISING = 1.02
# While bundles still change, shares need not be better than this (the largest sensitivity).
ROUGHLY = 1.05
# The search ends when so many rounds gained less than this each (in log mean variance: half of it in log error).
PATIENCE, WORTH_A_ROUND = 4, 0.003
# Number of bundles that represent the questions of many people when the error of random questions is predicted.
STANDING = 2000
# Below this many people per parameter, first-order errors are known to be optimistic.
PEOPLE_A_PARAMETER = 10


def random_questions(
    source: ItemSource, people: int, answers: int, guess: Guess, *, covariance: str = "isotropic", seed: int = 0
) -> Questionnaire:
    """Return random pairs, different ones for everybody, and the error that PopulationMetric will have.

    Parameters
    ----------
    source
        Where items come from.
    people, answers
        Number of people, and of answers per person.
    guess
        The prior guess of the metric and of people.
    covariance
        'isotropic' or 'free', the ``covariance`` of the PopulationMetric that will be fitted.
    seed
        Random seed.
    """
    rng = np.random.default_rng(seed)
    bundles = source.draw(people, answers, rng)
    return ask_population(
        f"Random questions {source.name}", source, bundles, np.ones(people, dtype=np.intp), guess, covariance, rng, ()
    )


def optimal_questions(
    source: ItemSource,
    people: int,
    answers: int,
    guess: Guess,
    *,
    covariance: str = "isotropic",
    criterion: str = "A",
    rounds: int = 20,
    seed: int = 0,
) -> Questionnaire:
    """Return the questions that tell most about the metric to PopulationMetric, and the error it will have.

    Parameters
    ----------
    source, people, answers, guess, covariance, seed
        As in `random_questions`.
    criterion
        What is minimized: 'A' the mean variance of the metric, which is the error; 'D' the volume of its confidence
        region; 'E' the variance of its least certain direction.
    rounds
        How often bundles are varied at most.
    """
    if criterion not in CRITERIA:
        raise DataError(f"criterion={criterion!r} is unknown; use {', '.join(map(repr, CRITERIA))}")
    rng = np.random.default_rng(seed)
    kappa, crowd, d = CRITERIA[criterion], _population(guess, covariance), guess.crowd.shape[1]
    p = degrees_of_freedom(d)
    pool, variations = size_of_search(answers, p)

    metrics = guess.to_choose[: number_of_metrics(p)]

    def rows_of(bundles: NDArray[Any], among: Indices | slice = ALL) -> Array:
        vectors = source.vectors(bundles)
        return np.stack([bundle_rows(vectors, M, crowd, guess.beta, rng) for M in metrics[among]])

    found = search_bundles(
        source, rows_of, source.try_out(pool, answers, rng), p, kappa, rng, variations=variations, rounds=rounds
    )
    bundles, rows, shares = found.bundles, found.rows, found.shares
    counts = apportion(lasting(shares, people), people)
    counts = exchange_people(rows, counts, p, kappa)
    used = np.flatnonzero(counts)
    remark = f"{used.size:,} different sets of {answers} questions, each for {people / used.size:.3g} people on average"
    return ask_population(
        f"{criterion}-optimal questions {source.name}", source, bundles[used], counts[used], guess, covariance, rng,
        (remark + ".",),
    )  # fmt: skip


@dataclass(frozen=True)
class FoundBundles:
    """Bundles that are worth asking: themselves, their rows (B, C, k, n), and the shares of people (C,) they get."""

    bundles: NDArray[Any]
    rows: Array
    shares: Array


def search_bundles(
    source: ItemSource,
    rows_of: Callable[..., Array],
    first: NDArray[Any],
    p: int,
    kappa: float,
    rng: np.random.Generator,
    *,
    variations: int,
    rounds: int,
    known: Array | None = None,
) -> FoundBundles:
    """Return the best shares of people among bundles and their variations.

    Parameters
    ----------
    rows_of
        Makes rows (B, C, k, n) of bundles; as a second argument it takes the numbers of some of the B metrics.
    first
        Bundles with which the search begins.
    variations, rounds
        How many variations are screened in each round, and the number of rounds.
    known
        (B, n, n) information that is already there, per person to be asked.
    """
    bundles, rows = first, rows_of(first)
    shares = best_shares(rows, p, kappa, known=known, enough=ROUGHLY)
    values: list[float] = []
    for _ in range(rounds):
        kept = np.flatnonzero(shares > 1e-5)
        bundles, rows, shares = bundles[kept], rows[:, kept], shares[kept]
        now = sensitivity(rows, shares, p, kappa, known=known)
        values.append(now.value)
        if len(values) > PATIENCE and values[-1 - PATIENCE] - values[-1] < PATIENCE * WORTH_A_ROUND:
            break
        varied = source.vary(bundles[rng.choice(len(kept), size=variations, p=shares / shares.sum())], rng)
        judge = rng.integers(len(rows), size=1)
        prior = None if known is None else known[judge]
        screened = sensitivity(rows[judge], shares, p, kappa, rows_of(varied, judge), prior).bundles
        varied = varied[np.argsort(-screened, kind="stable")[:JUDGED]]
        theirs = rows_of(varied)
        usual = float(shares @ now.bundles)
        worth = sensitivity(rows, shares, p, kappa, theirs, known=known).bundles
        better = np.flatnonzero(worth > PROMISING * usual)
        if better.size:
            bundles, rows = np.concatenate([bundles, varied[better]]), np.concatenate([rows, theirs[:, better]], axis=1)
            # new bundles get a fifth of the people; the next shares decide which stay
            shares = np.concatenate([0.8 * shares, np.full(better.size, 0.2 / better.size)])
            shares = best_shares(rows, p, kappa, start=shares, known=known, enough=ROUGHLY)
    shares = best_shares(rows, p, kappa, start=shares, known=known)
    kept = np.flatnonzero(shares)
    return FoundBundles(bundles[kept], rows[:, kept], shares[kept])


def number_of_metrics(p: int) -> int:
    """Return by how many metrics of p degrees of freedom questions are chosen."""
    return min(CHOOSERS, max(FEWEST_CHOOSERS, MOST_CHOSEN // p))


def size_of_search(answers: int, p: int) -> tuple[int, int]:
    """Return the number of bundles to begin with and of variations in each round, for m answers per person."""
    each = 2**answers if answers <= MOST_ANSWERS else DRAWS
    return max(FEWEST, POOL // each, 4 * p), max(FEWEST, VARIATIONS // each)


def ask_population(
    design: str,
    source: ItemSource,
    bundles: NDArray[Any],
    counts: Indices,
    guess: Guess,
    covariance: str,
    rng: np.random.Generator,
    remarks: tuple[str, ...],
) -> Questionnaire:
    """Return a questionnaire that asks bundles `counts` (C,) times, with the error that PopulationMetric will have."""
    crowd = _population(guess, covariance)
    error, shape = _promise(source.vectors(bundles), counts, guess, crowd, rng)
    people, n = int(counts.sum()), STRUCTURES[covariance].layout(guess.crowd.shape[1]).size
    if people < PEOPLE_A_PARAMETER * n:
        remarks += (
            f"That is for many people: with fewer than {PEOPLE_A_PARAMETER * n:,}, ten for each of {n} parameters, the "
            "error can be larger, or the ridge of PopulationMetric make it smaller.",
        )
    rows, items, ids = source.table(bundles)
    option = "" if covariance == "isotropic" else f", covariance={covariance!r}"
    option += "" if guess.beta == 1 else f", beta={guess.beta:g}"
    return hand_out(
        rows[rng.permutation(np.repeat(np.arange(len(counts)), counts))], items, ids, rng, design=design,
        expected_error=error, expected_shape_error=shape, expected_bias=0.0, assumptions=guess.said,
        advice=f"Learn from the answers with PopulationMetric(items{option}); chance must decide who gets which "
        "questions.",
        remarks=remarks,
    )  # fmt: skip


def _population(guess: Guess, covariance: str) -> Population:
    if covariance not in STRUCTURES:
        raise DataError(f"covariance={covariance!r} is unknown; use {' or '.join(map(repr, STRUCTURES))}")
    return population_of(guess, covariance)


def _promise(
    vectors: Array, counts: Indices, guess: Guess, crowd: Population, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the errors to expect; if there are very many bundles, some stand for all."""
    if len(counts) <= STANDING:
        return expected_errors(vectors, counts.astype(float), guess, crowd, rng)
    some = rng.choice(len(counts), STANDING, replace=False)
    return expected_errors(vectors[some], counts[some] * (counts.sum() / counts[some].sum()), guess, crowd, rng)
