"""The population fit by gradients alone, of a low-rank metric: for items of many features, or in single precision."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from crowdmetric.engines.contract import DeviceEngine
from crowdmetric.errors import CrowdmetricWarning, DataError
from crowdmetric.fits.memory import read_memory
from crowdmetric.fits.question_stream import InPieces, MovedQuestions, QuestionStream
from crowdmetric.fits.units import Units
from crowdmetric.losses import Loss
from crowdmetric.solvers.law_fit import ITEM_RIDGE
from crowdmetric.solvers.low_rank_prior import LowRankPrior
from crowdmetric.solvers.low_rank_ridges import effective_items, fit_with_item_ridge, raise_ridge
from crowdmetric.solvers.quasi_newton import Counted, LowRankResult, best_size, fit_low_rank, start_of
from crowdmetric.users.first_order import (
    EqualQuestions,
    FreePeople,
    IsotropicPeople,
    LowRank,
    covariance_matrix,
    information_of_items,
    moment_matrix,
    pull_of_people,
    value_and_gradient,
)
from crowdmetric.users.population_sums import Law

__all__ = [
    "BY_HIDDEN_PEOPLE",
    "DEFAULT_RANK",
    "LARGEST_SCORING",
    "USUAL_GRADIENTS",
    "LowRankFit",
    "announce_points",
    "coordinates_of_people",
    "expected_seconds",
    "fit_low_rank_law",
]

Array = NDArray[Any]

# Maximum number of parameters of a metric for fits by scoring. Beyond it, outer products of scores cost more than they
# save.
LARGEST_SCORING = 3_000
# The value of `ridge` that finds one by hiding people.
BY_HIDDEN_PEOPLE = "hidden-people"
# Default rank of a metric that is too large for scoring.
DEFAULT_RANK = 32
# Typical number of passes over all people, from which the expected time is computed.
USUAL_GRADIENTS = 60
# Relative decrease of the loss at which fits stop, in single and double precision. Below the former, single precision
# only sees rounding.
SINGLE_TOLERANCE, DOUBLE_TOLERANCE = 1e-6, 1e-8
# Warn if everybody's points take more bytes than this.
LARGE_POINTS = 1 << 30
# Number of people on whom the time of a pass is measured first.
SAMPLE = 2_000
# One person in HIDDEN_SHARE is hidden to choose a ridge, if that hides at least LEAST_HIDDEN people. With more than
# ENOUGH_ANSWERS answers per entry of L no ridge is searched for.
HIDDEN_SHARE, LEAST_HIDDEN, ENOUGH_ANSWERS = 5, 10, 500
# Relative decrease of the mean loss at which the fits that choose a ridge stop, and the weakest ridge that is tried.
ROUGH, WEAKEST = 1e-5, 0.125


@dataclass(frozen=True)
class LowRankFit:
    """The law of people and where the fit ended, in the units of the fit.

    Attributes
    ----------
    law, units
        Of people; the units of the items in the fit.
    result
        Where the fit ended.
    items_known : (N,)
        The information about items' utilities, in units of 1/ψ²; empty if items have none.
    """

    law: Law
    units: Units
    result: LowRankResult
    items_known: Array

    @property
    def law_outside(self) -> Law:
        """The law in the items' own units."""
        return self.units.law_outside(self.law)

    @property
    def spread(self) -> float | None:
        """The spread s of isotropic people, in the items' own units; None if people have a free covariance."""
        people = self.result.at.people
        return float(np.exp(people.log_spread)) * self.units.size if isinstance(people, IsotropicPeople) else None

    @property
    def axes_of_people(self) -> Array:
        """``C Lᵀ`` (k, d) in the items' own units: v − μ is `coordinates_of_people` times this."""
        return np.asarray(self.result.at.covariance @ self.result.at.factor.T) / self.units.size

    @property
    def items_determined(self) -> float:
        """How many of the items' utilities the answers determine."""
        return effective_items(self.items_known, self.result)

    @property
    def item_variances(self) -> Array:
        """Posterior variances (N,) of the items' utilities."""
        return 1.0 / (self.items_known + self.result.prior.items)


def fit_low_rank_law(
    asked: QuestionStream,
    rank: int,
    loss: Loss,
    *,
    engine: DeviceEngine | None = None,
    ridge: str | float | None = None,
    free: bool = False,
    item_effects: bool = False,
    max_iterations: int = 300,
    after_step: Callable[[int, float], None] | None = None,
) -> LowRankFit:
    """Fit ``M = LLᵀ`` with L (d, rank); with NumPy if there is no engine.

    Isotropic people and items without utilities of their own are fitted first. A free covariance and item effects then
    begin where that fit ended, so their likelihood is never lower.

    Parameters
    ----------
    ridge
        On the shape (`crowdmetric.solvers.low_rank_prior`): a number, 'hidden-people' to find one by hidden people
        (`crowdmetric.solvers.low_rank_ridges`), or none.
    free
        Whether people have any covariance in the span of L.
    item_effects
        Whether items have utilities of their own, under a ridge by the evidence.
    """
    tolerance = DOUBLE_TOLERANCE if engine is None or engine.is_double else SINGLE_TOLERANCE
    options: dict[str, Any] = {"tolerance": tolerance, "max_iterations": max_iterations, "after_step": after_step}
    put = np.asarray if engine is None else engine.asarray
    items, chunks = put(asked.items), InPieces(_on(asked.questions, engine), engine)
    searched = ridge == BY_HIDDEN_PEOPLE and is_ridge_searched(asked, rank)
    shape = 0.0 if ridge is None or isinstance(ridge, str) else float(ridge)
    function = _likelihood(items, chunks, loss)
    if searched:
        fit = _with_ridge_by_hidden_people(items, chunks, rank, loss, **options)
        function.passes = fit.passes
        fit = fit_low_rank(function, fit.at, fit.prior, **options)
    else:
        fit = fit_low_rank(function, *_start(items, chunks, function, rank, loss, shape), **options)
    if free or item_effects:
        at, prior = fit.at, fit.prior
        if free:
            at = replace(at, people=FreePeople.of(at.covariance))
        if item_effects:
            at, prior = replace(at, effects=np.zeros(items.shape[0])), replace(prior, items=ITEM_RIDGE)
        fit = fit_low_rank(function, at, prior, **options)

    def known(at: LowRank) -> Array:
        return chunks.sum(lambda: information_of_items(items, chunks, at, loss))

    if item_effects:
        fit = fit_with_item_ridge(function, fit, known, **options)
    return LowRankFit(_law_of(fit.at), asked.units, fit, known(fit.at) if item_effects else np.empty(0))


def is_ridge_searched(asked: QuestionStream, rank: int) -> bool:
    """Return whether ``ridge='hidden-people'`` searches for a ridge: if answers are few, and people not too few."""
    few = asked.weight < ENOUGH_ANSWERS * asked.items.shape[1] * rank
    return few and asked.n_users >= HIDDEN_SHARE * LEAST_HIDDEN


def _likelihood(items: Any, chunks: InPieces, loss: Loss) -> Counted:
    return Counted(lambda at: chunks.sum(lambda: value_and_gradient(items, chunks, at, loss)))


def _start(
    items: Any, chunks: InPieces, function: Counted, rank: int, loss: Loss, shape: float
) -> tuple[LowRank, LowRankPrior]:
    """Return where to begin, and the prior with a ridge on the shape."""
    d, covariance = items.shape[1], covariance_matrix(items)
    log_spread = -0.5 * float(np.log(d))
    factor = start_of(moment_matrix(items, chunks), covariance, rank)
    start = best_size(function, LowRank(factor, np.zeros(d), IsotropicPeople(log_spread)))
    return start, LowRankPrior(covariance, log_spread, loss.beta, shape)


def _with_ridge_by_hidden_people(items: Any, chunks: InPieces, rank: int, loss: Loss, **options: Any) -> LowRankResult:
    """Return a fit to four people out of five, under the ridge that suits the fifth.

    The weakest that is tried is an eighth of ``dk / ‖L‖²``, the one that suits entries as large as those of the start.
    """
    shown, hidden = (InPieces(Strided(chunks, places), chunks.engine) for places in (range(1, HIDDEN_SHARE), range(1)))
    function, theirs = _likelihood(items, shown, loss), _likelihood(items, hidden, loss)
    start, prior = _start(items, shown, function, rank, loss, 0.0)
    prior = replace(prior, shape=WEAKEST * start.factor.size / float(np.sum(start.factor**2)))
    loosely = options | {"tolerance": ROUGH}
    fit = fit_low_rank(function, start, prior, **loosely)
    return raise_ridge(function, fit, lambda at: theirs(at)[0], **loosely)


@dataclass(frozen=True)
class Strided:
    """The people at some places among every `HIDDEN_SHARE`, as views of the arrays."""

    questions: Iterable[EqualQuestions]
    places: range

    def __iter__(self) -> Iterator[EqualQuestions]:
        for some in self.questions:
            for place in self.places:
                if place < some.left.shape[0]:
                    yield some[place::HIDDEN_SHARE]


def _law_of(at: LowRank) -> Law:
    """Return the law in d dimensions."""
    L = at.factor
    return Law(L @ L.T, at.mean, L @ at.covariance @ L.T, at.effects if at.effects.size else None)


def expected_seconds(asked: QuestionStream, rank: int, loss: Loss) -> float:
    """Return about how long a fit will take on this machine, from a pass over some of the people."""
    d = asked.items.shape[1]
    at = LowRank(np.eye(d, rank) / np.sqrt(rank), np.zeros(d), IsotropicPeople(-0.5 * float(np.log(d))))
    some = next(iter(asked.questions))
    few, many = some[:8], some[:SAMPLE]
    value_and_gradient(asked.items, [few], at, loss)  # loads the compiled loops
    clock = perf_counter()
    value_and_gradient(asked.items, [few], at, loss)
    alone = perf_counter() - clock  # products with items, mostly
    value_and_gradient(asked.items, [many], at, loss)
    more = max(perf_counter() - clock - 2.0 * alone, 0.0)
    return USUAL_GRADIENTS * (alone + more * asked.n_users / min(SAMPLE, some.left.shape[0]))


def _on(questions: Iterable[EqualQuestions], engine: DeviceEngine | None) -> Iterable[EqualQuestions]:
    """Return questions as the engine's arrays: moved once if they are in memory, else at every pass."""
    if engine is None:
        return questions
    moved = MovedQuestions(questions, engine.asarray)
    return list(moved) if isinstance(questions, list) else moved


def coordinates_of_people(
    asked: QuestionStream, fit: LowRankFit, loss: Loss, engine: DeviceEngine | None = None
) -> Array:
    """Return where answers pull everybody from the mean of all, (K, k) in L's coordinates (`pull_of_people`).

    The posterior mean of a person's v is ``μ + L C pull``, with LCLᵀ the covariance of v. For a scan the result is
    empty, because the people may be too many to keep.
    """
    at = fit.result.at
    if asked.people is None:
        return np.empty((0, at.factor.shape[1]))
    items = asked.items if engine is None else engine.asarray(asked.items)
    questions = asked.questions if engine is None else MovedQuestions(asked.questions, engine.asarray)
    xp = array_namespace(items)
    pulls = xp.zeros((asked.n_users, at.factor.shape[1]), dtype=items.dtype, device=items.device)
    for chosen, some in zip(asked.people, questions, strict=True):
        pulls[chosen] = pull_of_people(items, some, at, loss)
    return np.asarray(pulls.cpu() if hasattr(pulls, "cpu") else pulls)


def announce_points(people: int, d: int, name: str) -> None:
    """Warn if everybody's points take much memory, and refuse if they take more than is free."""
    size = 8 * people * d
    if size < LARGE_POINTS:
        return
    cost = f"{name} of {people:,} people in {d} dimensions takes {size / 1e9:.1f} GB"
    instead = "people_coordinates_ has the same in fewer dimensions, and predictions need neither"
    if size > read_memory(None):
        raise DataError(f"{cost}, more than is free; {instead}")
    warnings.warn(f"{cost}, and is made anew whenever it is read; {instead}", CrowdmetricWarning, stacklevel=3)
