"""The low-rank population fit on its way from answers to a law: for items of many features, or a GPU.

A pass goes through everybody's questions once, some people at a time: those in memory, or those of a scan's chunks as
they are read. Nothing of size (answers, d) is made, so a scan needs room for the items and for one chunk.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike, NDArray

from crowdmetric.engines.contract import DeviceEngine
from crowdmetric.errors import CrowdmetricWarning, DataError
from crowdmetric.fits.crowd import ChunkCache
from crowdmetric.fits.memory import MemoryPlan, read_memory
from crowdmetric.fits.on_device import items_on_device
from crowdmetric.fits.question_stream import QuestionStream
from crowdmetric.fits.scanned import answers_of
from crowdmetric.fits.units import Units
from crowdmetric.inputs import Rows, check_scan
from crowdmetric.losses import Loss
from crowdmetric.solvers.law_fit import ITEM_RIDGE
from crowdmetric.solvers.low_rank_prior import LowRankPrior
from crowdmetric.solvers.low_rank_ridges import fit_with_item_ridge, items_determined, raise_ridge
from crowdmetric.solvers.quasi_newton import Counted, LowRankResult, best_size, fit_low_rank, start_of
from crowdmetric.tables import ComparisonScan, SpoolChunk
from crowdmetric.users.blocks import Answers, padded_rows
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
    "NUMBERS",
    "LowRankFit",
    "QuestionStream",
    "announce_points",
    "asked_in_memory",
    "asked_on_disk",
    "axes_of_people",
    "expected_seconds",
    "fit_low_rank_law",
    "low_rank_plan",
    "places_of",
]

Array = NDArray[Any]
Result = TypeVar("Result")

# Maximum number of parameters of a metric for fits by scoring: beyond, outer products of scores cost more than they
# save.
LARGEST_SCORING = 3_000
# The value of `ridge` that finds one by hiding people.
BY_HIDDEN_PEOPLE = "hidden-people"
# Default rank of a metric that is too large for scoring.
DEFAULT_RANK = 32
# Answers per chunk without an engine, and temporary numbers per answer: ten at each of about fifty nodes.
CHUNK, NUMBERS = 1 << 16, 500
# Bytes per stored answer: two rows, response and weight. While a chunk is laid out there are three copies.
ANSWER_BYTES, LAYOUT_COPIES = 32, 3
# Memory: copies of the items while their units are computed, and of their rows in k dimensions during a pass.
ITEM_COPIES, ROW_COPIES = 4, 4
# Warn if everybody's points take more bytes than this.
LARGE_POINTS = 1 << 30
# Number of people on whom the time of a pass is measured first.
SAMPLE = 2_000
# If this many pieces of a chunk still do not fit in memory, the chunk is not the cause.
MOST_PIECES = 1 << 12
# One person in so many is hidden to choose a ridge, if that leaves at least so many hidden; and answers per parameter
# of L from which on no ridge is looked for.
HIDDEN_SHARE, LEAST_HIDDEN, ENOUGH_ANSWERS = 5, 10, 500
# Relative decrease of the mean loss at which the fits that choose a ridge stop, and the weakest ridge that is tried.
ROUGH, WEAKEST = 1e-5, 0.125
# Vectors of parameters that L-BFGS keeps, and matrices (d, d) before and after it.
STEPS_KEPT, SQUARES = 50, 10


@dataclass(frozen=True)
class Scanned:
    """The questions of a scan, read from disk whenever they are gone through; as much as `kept` allows stays."""

    scan: ComparisonScan
    at_once: int
    kept: ChunkCache

    def __iter__(self) -> Iterator[EqualQuestions]:
        for number, chunk in enumerate(self.scan.chunks):
            yield from self.kept.get_or_make(number, partial(self._make, chunk), _bytes_of_answers)

    def _make(self, chunk: SpoolChunk) -> list[EqualQuestions]:
        nothing = np.empty((0, 0))  # questions name items by their rows alone
        return [questions for _, questions in _questions(answers_of(chunk, nothing), self.at_once)]


def _bytes_of_answers(made: list[EqualQuestions]) -> int:
    return sum(ANSWER_BYTES * questions.left.size for questions in made)


@dataclass(frozen=True)
class Moved:
    """Questions as arrays of another library, moved whenever they are gone through."""

    questions: Iterable[EqualQuestions]
    put: Callable[[Array], Any]

    def __iter__(self) -> Iterator[EqualQuestions]:
        return (EqualQuestions(*map(self.put, _arrays(q))) for q in self.questions)


def _questions(answers: Answers, at_once: int) -> Iterator[tuple[Array, EqualQuestions]]:
    """Yield people and what they answered, so many answers at a time."""
    answers = answers.merged()
    for chosen, rows in padded_rows(answers, at_once):
        weight = np.where(rows >= 0, answers.weight[rows], 0.0)
        response = np.where(weight > 0, answers.response[rows], 1.0)
        pairs = answers.pairs[rows]
        yield chosen, EqualQuestions(pairs[:, :, 0], pairs[:, :, 1], response, weight)


def _at_once(engine: DeviceEngine | None) -> int:
    return CHUNK if engine is None else engine.answers_at_once(NUMBERS)


def asked_in_memory(rows: Rows, engine: DeviceEngine | None = None) -> QuestionStream:
    """Return the questions of validated rows."""
    units = Units.of(rows.items, rows.pairs)
    people, questions = [], []
    for chosen, some in _questions(rows.jointly(), _at_once(engine)):
        people.append(chosen)
        questions.append(some)
    weight = float(rows.weight.sum())
    return QuestionStream(units.inside(rows.items), units, questions, people, rows.users, rows.users.size, weight)


def asked_on_disk(
    scan: ComparisonScan, items: ArrayLike | None, loss: Loss, kept: ChunkCache, engine: DeviceEngine | None = None
) -> QuestionStream:
    """Return the questions of a scan, of which at most `kept` stays in memory."""
    catalogue = check_scan(scan, items, loss)
    placed = None if engine is None else items_on_device(catalogue, engine.asarray(scan.used), engine)
    if placed is None:
        units = Units.of(catalogue, np.flatnonzero(scan.used))
        inside = units.inside(catalogue)
    else:
        inside, units = placed
    nobody = np.empty(0, dtype=np.int64)
    questions = Scanned(scan, _at_once(engine), kept)
    return QuestionStream(inside, units, questions, None, nobody, scan.n_users, scan.total_weight)


def low_rank_plan(scan: ComparisonScan, n_items: int, d: int, rank: int, limit: int) -> MemoryPlan:
    """Return how much memory a fit to a scan takes on the processor, before it starts."""
    chunk_rows = max((chunk.rows for chunk in scan.chunks), default=0)
    work = 8 * n_items * (ITEM_COPIES * d + ROW_COPIES * rank) + 8 * STEPS_KEPT * d * (rank + 1)
    work += 8 * SQUARES * d * d + chunk_rows * LAYOUT_COPIES * ANSWER_BYTES + 8 * NUMBERS * min(chunk_rows, CHUNK)
    return MemoryPlan.of_work(scan.n_users, len(scan), work, limit, "fit", keep=len(scan) * ANSWER_BYTES)


@dataclass(frozen=True)
class LowRankFit:
    """What was found.

    Attributes
    ----------
    law
        Of people, in the units of the items.
    result
        Where the fit ended.
    items_known : (N,)
        What answers tell of items' utilities, in units of 1/ψ²; empty where items have none.
    """

    law: Law
    result: LowRankResult
    items_known: Array

    @property
    def items_determined(self) -> float:
        """How many of the items' utilities the answers determine."""
        return items_determined(self.items_known, self.result)


def fit_low_rank_law(
    asked: QuestionStream,
    rank: int,
    loss: Loss,
    *,
    engine: DeviceEngine | None = None,
    ridge: str | float | None = None,
    free: bool = False,
    item_effects: bool = False,
    tolerance: float = 1e-8,
    max_iterations: int = 300,
    after_step: Callable[[int, float], None] | None = None,
) -> LowRankFit:
    """Fit ``M = LLᵀ`` with L (d, rank); NumPy without an engine.

    Isotropic people and items without utilities of their own come first, then everything else that is asked for begins
    where that ended: it is likelier than what came first.

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
    return LowRankFit(_law_of(fit.at), fit, known(fit.at) if item_effects else np.empty(0))


def is_ridge_searched(asked: QuestionStream, rank: int) -> bool:
    """Return whether ``ridge='hidden-people'`` looks for a ridge: not where answers are so many that none is needed.

    Nor where hardly anybody could be hidden.
    """
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
    """Of every so many people those at some places, without copying what they answered."""

    questions: Iterable[EqualQuestions]
    places: range

    def __iter__(self) -> Iterator[EqualQuestions]:
        for some in self.questions:
            for place in self.places:
                if place < some.left.shape[0]:
                    yield EqualQuestions(*(x[place::HIDDEN_SHARE] for x in _arrays(some)))


def _law_of(at: LowRank) -> Law:
    """Return the law in d dimensions."""
    L = at.factor
    return Law(L @ L.T, at.mean, L @ at.covariance @ L.T, at.effects if at.effects.size else None)


def expected_seconds(asked: QuestionStream, rank: int, loss: Loss, passes: int) -> float:
    """Return about how long so many passes will take on this machine, from one over some of the people."""
    d = asked.items.shape[1]
    at = LowRank(np.eye(d, rank) / np.sqrt(rank), np.zeros(d), IsotropicPeople(-0.5 * float(np.log(d))))
    some = next(iter(asked.questions))
    few, many = (InPieces([EqualQuestions(*(x[:n] for x in _arrays(some)))], None) for n in (8, SAMPLE))
    value_and_gradient(asked.items, few, at, loss)  # loads the compiled loops
    clock = perf_counter()
    value_and_gradient(asked.items, few, at, loss)
    alone = perf_counter() - clock  # products with items, mostly
    value_and_gradient(asked.items, many, at, loss)
    more = max(perf_counter() - clock - 2.0 * alone, 0.0)
    return passes * (alone + more * asked.n_users / min(SAMPLE, some.left.shape[0]))


def _arrays(questions: EqualQuestions) -> tuple[Any, ...]:
    return questions.left, questions.right, questions.response, questions.weight


def _on(questions: Iterable[EqualQuestions], engine: DeviceEngine | None) -> Iterable[EqualQuestions]:
    """Return questions where they are worked on: once and for all if they are in memory, else at every pass."""
    if engine is None:
        return questions
    moved = Moved(questions, engine.asarray)
    return list(moved) if isinstance(questions, list) else moved


@dataclass
class InPieces:
    """Questions in as many pieces as the device's memory asks for: one each, and twice as many when it runs out."""

    questions: Iterable[EqualQuestions]
    engine: DeviceEngine | None
    pieces: int = 1

    def __iter__(self) -> Iterator[EqualQuestions]:
        for some in self.questions:
            people = some.left.shape[0]
            size = -(-people // self.pieces)
            for begin in range(0, people, size):
                yield EqualQuestions(*(x[begin : begin + size] for x in _arrays(some)))

    def sum(self, total: Callable[[], Result]) -> Result:
        """Return a sum over these questions, begun again in smaller pieces whenever memory runs out."""
        while self.engine is not None and self.pieces <= MOST_PIECES:
            try:
                return total()
            except self.engine.out_of_memory:
                self.pieces *= 2
        return total()


def places_of(asked: QuestionStream, fit: LowRankFit, loss: Loss, engine: DeviceEngine | None = None) -> Array:
    """Return where answers pull everybody from the mean of all, (K, k) in L's coordinates (`pull_of_people`).

    A person's v at its posterior mean is ``μ + L C pull``, LCLᵀ being the covariance of v. Of a scan nobody's is
    returned: they may be too many to keep.
    """
    at = fit.result.at
    if asked.people is None:
        return np.empty((0, at.factor.shape[1]))
    items = asked.items if engine is None else engine.asarray(asked.items)
    questions = asked.questions if engine is None else Moved(asked.questions, engine.asarray)
    xp = array_namespace(items)
    pulls = xp.zeros((asked.n_users, at.factor.shape[1]), dtype=items.dtype, device=items.device)
    for chosen, some in zip(asked.people, questions, strict=True):
        pulls[chosen] = pull_of_people(items, some, at, loss)
    return np.asarray(pulls.cpu() if hasattr(pulls, "cpu") else pulls)


def axes_of_people(fit: LowRankFit) -> Array:
    """Return ``C Lᵀ`` (k, d), by which what `places_of` returns is to be multiplied."""
    return np.asarray(fit.result.at.covariance @ fit.result.at.factor.T)


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
