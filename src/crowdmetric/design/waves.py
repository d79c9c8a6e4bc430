"""A wave: the questions for the next people, from the answers of those who came before.

Metrics are drawn from the posterior (before any answer: from the prior guess), and for each of them the answers that
are there have an information I₀. The next n people get the bundles that make ``Φ(I₀ + n Σ_i w_i I_i)`` small
(`exchange`), so they are asked about what is not known yet. n is the number of people who have answered: a wave
plans for a study that doubles.

Where the metric is wanted up to scale, Φ is the mean variance in units in which an error of its size counts
`SIZE_COUNTS` as much as one of its shape. Size and shape need different questions: a design that makes the raw error
small spends most of its people on the size.

`next_wave` is a function of its arguments alone, so a re-design can run in another thread or process.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.design.bundles import Population, bundle_rows, metric_covariance, population_of
from crowdmetric.design.exchange import CRITERIA, best_shares, sensitivity, times, weighted_information
from crowdmetric.design.guess import Guess, guess_about_items
from crowdmetric.design.information import apportion, errors_of
from crowdmetric.design.learning import AnswerTable, Learned, learn
from crowdmetric.design.optimal import (
    ALL,
    ROUGHLY,
    FoundBundles,
    number_of_metrics,
    search_bundles,
    size_of_search,
)
from crowdmetric.design.question_sources import Catalogue
from crowdmetric.design.stopping import errors_ahead
from crowdmetric.design.surprise import why_doubted
from crowdmetric.errors import NotIdentifiedError
from crowdmetric.symmetric import degrees_of_freedom, svec

__all__ = [
    "QUEUE",
    "SIZE_COUNTS",
    "Wave",
    "WaveOrder",
    "information_of",
    "next_wave",
    "number_of_draws",
    "size_in_units",
    "thought_possible",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Questions are searched for again when there are so many times more people; before that, they are only fitted again.
SEARCH_AGAIN = 1.25
# Number of places in the queue of a wave.
QUEUE = 1000
# How often bundles are varied: in the first wave, and in later ones, which begin with the bundles of the last.
FIRST_ROUNDS, ROUNDS = 10, 10
# People per parameter with whom what they said counts as much as the guess.
CREDIBLE = 2.0
# At least this many people are planned for.
FEWEST_AHEAD = 100
# Largest number of different sets of questions whose information is computed; beyond it, some of them stand for all.
STANDING = 2000
# How much an error of the metric's size counts, if it is wanted up to scale. With the true metric known, 0.2 takes 0.43
# to 0.87 times the people that 1 takes for the same error of the shape (d = 3 to 10). 0 takes little fewer (0.36 to
# 0.86), but then the size is known up to five times worse (`benchmarks.live_plans`).
SIZE_COUNTS = 0.2
# Random bundles from which the information of random questions is computed.
RANDOM = 300
# By how much errors are larger under draws from the likelihood itself than under its expansion: 0.158 over 0.144 in 20
# studies at d = 5. Forecasts add Fisher information to what is known and allow for as much: at the end of three studies
# at d = 10 errors were 1.04 to 1.14 times what it says.
EXACT_WIDER = 1.1


@dataclass(frozen=True)
class WaveOrder:
    """All that a wave depends on.

    Attributes
    ----------
    number
        0 for the first wave.
    source
        Where questions come from, with the items.
    answers, covariance, beta, random_share
        As in `LiveDesign`.
    told
        Everybody's answers so far; empty before the first.
    new
        Which of them (T,) came after the last wave was made: on these its law is tested.
    before
        The last wave; None: there was none.
    guess
        metric, doubt and ideal_points as `crowdmetric.design.design` takes them.
    seed
        Random seed.
    shape
        Whether the metric is wanted up to scale.
    """

    number: int
    source: Catalogue
    answers: int
    covariance: str
    beta: float
    random_share: float
    told: AnswerTable
    new: NDArray[np.bool_]
    before: Wave | None
    guess: dict[str, Any]
    seed: int
    shape: bool = True

    @property
    def items(self) -> Array:
        """The catalogue (N, d)."""
        return self.source.items


@dataclass(frozen=True)
class Wave:
    """Questions for the next people.

    Attributes
    ----------
    number, people, searched
        Its number, how many people had answered when it was made, and when its questions were searched for.
    bundles, counts, scores
        (C, m, 2) rows of items, how many places (C,) of the queue each has, and the sensitivity (C,) of each.
    learned
        What is known from the answers; None before the first.
    metrics
        (B, d, d) metrics that are thought possible.
    known, gained
        (B, n, n) information of the answers so far, and of one more person, random shares included.
    later
        (b, n, n) information of one person in later waves, under each of the b metrics that were drawn from the
        posterior (the first ones): if it is the true one, questions will be chosen for it.
    doubt
        Why the law is not trusted, so everybody is asked at random; empty if it is.
    seconds
        CPU seconds that it took to fit and to design.
    """

    number: int
    people: int
    searched: int
    bundles: Indices
    counts: Indices
    scores: Array
    learned: Learned | None
    metrics: Array
    known: Array
    gained: Array
    later: Array
    doubt: str
    seconds: float

    def expected_error(self, more: float, *, shape: bool = True) -> float:
        """Return the root mean square error to expect after `more` people, by Fisher information; ∞ if undetermined."""
        return float(np.sqrt(np.mean(self._expected_errors(more, self.gained, shape) ** 2)))

    def radii_ahead(self, more: Array, *, shape: bool = True) -> Array:
        """Return errors (3, k) that are not exceeded with 90 % probability after `more` (k,) people, from 0 on.

        The middle row is the forecast, the others are the ends of a 90 % interval around it (`errors_ahead`).

        Only metrics drawn from the posterior count. Those of the guess keep questions safe, but say nothing about what
        is known. Under each metric, later people are asked what is best for it, as later waves will know it better:
        with the questions of this wave, forecasts early in a study were a fifth too large. Intervals will be widened
        less by then: with the widening of now, forecasts from the first people were a fourth too large (d = 5).
        """
        assert self.learned is not None
        widening = self.learned.widening(more=more)
        error = self.learned.radius(shape=shape) / float(self.learned.widening())
        tail = error / float(np.sqrt(np.mean(self.learned.errors(shape=shape) ** 2)))
        if self.learned.will_be_exact:
            tail *= EXACT_WIDER
        expected = np.stack([self._expected_errors(n, self.later, shape) for n in more], axis=1)
        return widening * errors_ahead(error, tail, expected)

    def _expected_errors(self, more: float, gained: Array, shape: bool) -> Array:
        """Return the error to expect under the first metrics (b,), with information `gained` (b, n, n) per person."""
        errors = np.full(len(gained), np.inf)
        for b, each in enumerate(gained):
            with suppress(NotIdentifiedError):
                covariance = metric_covariance(self.known[b] + more * each, degrees_of_freedom(len(self.metrics[b])))
                errors[b] = errors_of(covariance, self.metrics[b])[1 if shape else 0]
        return errors


def next_wave(order: WaveOrder) -> Wave:
    """Return the questions for the next people."""
    clock = process_time()
    rng = np.random.default_rng([order.seed, 1, order.number])
    source = order.source
    p = degrees_of_freedom(order.items.shape[1])
    guess, learned, doubt = _first_guess(order, rng), None, ""
    if len(order.told):
        earlier = order.before.learned if order.before is not None else None
        learned = learn(order.items, order.told, order.covariance, order.beta)
        # early laws may be too sure of themselves; if the new answers have put that right, nothing is to be doubted
        if earlier is not None and why_doubted(order.items, order.told, order.new, earlier, order.beta):
            doubt = why_doubted(order.items, order.told, order.new, learned, order.beta)
    metrics, people = thought_possible(guess, order.covariance, learned, number_of_metrics(p))
    counts = SIZE_COUNTS if order.shape else 1.0
    known = information_of(order, metrics, people, rng)
    units = size_in_units(metrics, 1.0 / counts, known.shape[1])
    plain = size_in_units(metrics, counts, known.shape[1])

    def rows_of(bundles: NDArray[Any], among: Indices | slice = ALL) -> Array:
        asked = source.vectors(bundles)
        each = zip(metrics[among], units[among], strict=True)
        return np.stack([times(bundle_rows(asked, M, people, order.beta, rng), T) for M, T in each])

    per_person = units @ known @ units / max(order.told.people, FEWEST_AHEAD)
    found, searched = _questions(order, rows_of, per_person, rng)
    at_random = rows_of(source.draw(RANDOM, order.answers, rng))
    share = 1.0 if doubt else order.random_share
    by_chance = share * weighted_information(at_random, np.full(RANDOM, 1.0 / RANDOM))
    gained = (1.0 - share) * weighted_information(found.rows, found.shares) + by_chance
    later = gained[: 0 if learned is None else number_of_draws(learned, len(metrics))].copy()
    for b in range(len(later)):
        rows = found.rows[b : b + 1]
        shares = best_shares(rows, p, CRITERIA["A"], start=found.shares, known=per_person[b : b + 1], enough=ROUGHLY)
        later[b] = (1.0 - share) * weighted_information(rows, shares)[0] + by_chance[b]
    return Wave(
        number=order.number, people=order.told.people, searched=searched, bundles=found.bundles,
        counts=apportion(found.shares, QUEUE), learned=learned, metrics=metrics, known=known,
        gained=plain @ gained @ plain, later=plain[: len(later)] @ later @ plain[: len(later)],
        scores=sensitivity(found.rows, found.shares, p, CRITERIA["A"], known=per_person).bundles, doubt=doubt,
        seconds=process_time() - clock,
    )  # fmt: skip


def size_in_units(metrics: Array, factor: float, n: int) -> Array:
    """Return T (B, n, n) of metrics (B, d, d): rows x of information become ``x T`` if size is measured in a new unit.

    ``T = I + (factor − 1) m mᵀ`` with m = svec(M) / ‖M‖ the direction in which a metric changes its size only. With
    the factor 1/c, ``tr C`` counts the size by c: it is ``tr C − (1 − c²) mᵀCm`` of the covariance C in the old units.
    """
    T = np.tile(np.eye(n), (len(metrics), 1, 1))
    for one, M in zip(T, metrics, strict=True):
        m = svec(M) / max(float(np.linalg.norm(M)), np.finfo(float).tiny)
        one[: m.size, : m.size] += (factor - 1.0) * np.outer(m, m)
    return T


def _questions(
    order: WaveOrder,
    rows_of: Callable[..., Array],
    known: Array,
    rng: np.random.Generator,
) -> tuple[FoundBundles, int]:
    """Return the bundles to ask, and how many people had answered when they were searched for."""
    before, people, source = order.before, order.told.people, order.source
    if before is not None and before.learned is not None and people < SEARCH_AGAIN * before.searched:
        # so few new answers hardly change the best questions
        shares = before.counts / before.counts.sum()
        return FoundBundles(before.bundles, rows_of(before.bundles), shares), before.searched
    p = degrees_of_freedom(order.items.shape[1])
    pool, variations = size_of_search(order.answers, p)
    first, rounds = source.try_out(pool, order.answers, rng), FIRST_ROUNDS
    if before is not None:
        first, rounds = np.concatenate([before.bundles[before.counts > 0], first[: pool // 3]]), ROUNDS
    found = search_bundles(
        source, rows_of, first, p, CRITERIA["A"], rng, variations=variations, rounds=rounds, known=known
    )
    return found, people


def _first_guess(order: WaveOrder, rng: np.random.Generator) -> Guess:
    told = {"metric": None, "doubt": None, "ideal_points": None} | order.guess
    return guess_about_items(order.items, told["metric"], told["doubt"], order.beta, told["ideal_points"], rng)


def thought_possible(guess: Guess, structure: str, learned: Learned | None, count: int) -> tuple[Array, Population]:
    """Return metrics (count, d, d) and people to design for: those of the guess, and later those learned.

    With n people and P parameters of the law, what was learned has the credibility ``w = n / (n + CREDIBLE P)``. That
    share of the metrics are draws from the posterior. Their sizes are drawn to those of the guess, in log, and the law
    of people to its people, by the rest: with few answers for each parameter a posterior is far too sure of a size that
    is several times too large or too small, and pairs chosen for it are too short or too long.
    """
    before, prior = guess.to_choose[:count], population_of(guess, structure)
    if learned is None:
        return before, prior
    w = _credibility(learned)
    drawn = learned.some_draws(number_of_draws(learned, count))
    sizes = np.maximum(np.trace(drawn, axis1=1, axis2=2), np.finfo(float).tiny)
    usual = float(np.mean(np.trace(before, axis1=1, axis2=2)))
    drawn = drawn * ((usual / sizes) ** (1.0 - w))[:, None, None]
    mean, covariance = (w * x + (1.0 - w) * y for x, y in zip(*map(_moments, (learned.population, prior)), strict=True))
    return np.concatenate([drawn, before[len(drawn) :]]), Population(mean, covariance, structure)


def number_of_draws(learned: Learned, count: int) -> int:
    """Return how many of the metrics to design for are draws from the posterior."""
    return max(1, round(_credibility(learned) * count))


def _credibility(learned: Learned) -> float:
    return learned.people / (learned.people + CREDIBLE * learned.parameters)


def _moments(people: Population) -> tuple[Array, Array]:
    return people.mean, people.covariance


def information_of(order: WaveOrder, metrics: Array, people: Population, rng: np.random.Generator) -> Array:
    """Return the expected information (B, n, n) of the questions that were answered, under each metric."""
    n = people.natural(metrics[0]).size
    total = np.zeros((len(metrics), n, n))
    _, m = np.unique(order.told.person, return_counts=True)
    begins = np.concatenate([[0], np.cumsum(m)])[:-1]
    by_person = order.told.pairs[np.argsort(order.told.person, kind="stable")]
    for answers in np.unique(m):
        chosen = begins[m == answers]
        asked = _sorted(by_person[chosen[:, None] + np.arange(answers)])  # (P, answers, 2)
        different, counts = np.unique(asked.reshape(len(asked), -1), axis=0, return_counts=True)
        if len(different) > STANDING:
            some = rng.choice(len(different), STANDING, replace=False)
            different, counts = different[some], counts[some] * (len(asked) / counts[some].sum())
        vectors = order.items[different.reshape(-1, int(answers), 2)]
        for b, M in enumerate(metrics):
            rows = bundle_rows(vectors, M, people, order.beta, rng)
            x = (np.sqrt(counts)[:, None, None] * rows).reshape(-1, n)
            total[b] += x.T @ x
    return total


def _sorted(bundles: Indices) -> Indices:
    """Return bundles (C, m, 2) without the order of sides and questions, which does not change what they tell."""
    sides = np.sort(bundles, axis=2)
    order = np.lexsort((sides[:, :, 1], sides[:, :, 0]), axis=1)
    return np.take_along_axis(sides, order[:, :, None], axis=1)
