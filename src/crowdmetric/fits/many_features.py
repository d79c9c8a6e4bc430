"""The population fit by gradients alone, for items of many features or in single precision: ``M = LLᵀ + γI``.

How many columns L has, and the strength of their ridge, maximize the evidence (`crowdmetric.fits.low_rank_posterior`).
"""

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
from crowdmetric.fits.low_rank_posterior import LowRankPosterior, observed_evidence, posterior_of, work_of_information
from crowdmetric.fits.memory import read_memory
from crowdmetric.fits.problem import MOST_COVARIANCES
from crowdmetric.fits.question_stream import InPieces, MovedQuestions, QuestionStream
from crowdmetric.fits.units import Units
from crowdmetric.losses import Loss
from crowdmetric.solvers.law_fit import ITEM_RIDGE
from crowdmetric.solvers.low_rank_prior import LowRankPrior
from crowdmetric.solvers.low_rank_ridges import effective_items, fit_with_item_ridge
from crowdmetric.solvers.quasi_newton import Counted, LowRankResult, best_size, fit_low_rank, start_of
from crowdmetric.symmetric import as_numpy, svec
from crowdmetric.users.first_order import (
    EqualQuestions,
    FreePeople,
    IsotropicPeople,
    LowRank,
    covariance_matrix,
    gradient_in_metric,
    information_of_items,
    moment_matrix,
    people_given_answers,
    pull_of_people,
    value_and_gradient,
)
from crowdmetric.users.population_sums import Law

__all__ = [
    "DEFAULT_RANK",
    "LARGEST_SCORING",
    "LARGE_POINTS",
    "MOST_FEATURES",
    "USUAL_GRADIENTS",
    "LowRankFit",
    "announce_points",
    "coordinates_of_people",
    "expected_seconds",
    "fit_low_rank_law",
    "places_of_people",
    "too_much_work",
]

Array = NDArray[Any]

# With more features than the former, a rank that is found makes the metric and its size more accurate than a fit by
# scoring (`python -m benchmarks.middle`). With more parameters of a metric than the latter, outer products of scores
# cost more than they save.
MOST_FEATURES, LARGEST_SCORING = 20, 3_000
# Rank of a metric, if there are more people than those on whom a rank is found.
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
# Ranks and ridges are found on at most so many people.
PEOPLE_FOR_EVIDENCE = 20_000
# Relative decrease of the mean loss at which the fits that choose a rank stop. The first rank that is tried, the ratio
# of the next, how often a ridge is found for one, and the change of its logarithm that counts as settled.
ROUGH, FIRST_RANK, STEP, REFITS, SETTLED = 1e-6, 4, 1.25, 4, 0.1
# Maximum number of multiplications for the information, without and with a GPU: about twenty seconds; and for each rank
# that is tried.
MOST_WORK, MOST_WORK_ON_DEVICE, MOST_WORK_FOR_A_RANK = 4e11, 2e14, 5e10


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
    posterior
        How sure the fit is; None if that takes too much work (`too_much_work`).
    """

    law: Law
    units: Units
    result: LowRankResult
    items_known: Array
    posterior: LowRankPosterior | None

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
    def traces_outside(self) -> Array:
        """Draws of the trace of the metric, in the items' own units; S has none."""
        assert self.posterior is not None
        d = len(self.result.at.factor)
        traces = np.sum(self.posterior.factors**2, axis=(1, 2)) + d * self.posterior.rests
        return np.asarray(traces / self.units.size**2)

    def laws_outside(self) -> Array:
        """Return draws of the law in the items' own units (n, 2p + d + N): svec M, μ, svec Σ and b."""
        assert self.posterior is not None
        rows = []
        for at, metric in self.posterior.laws():
            covariance = at.factor @ at.covariance @ at.factor.T
            if isinstance(at.people, IsotropicPeople):
                covariance = 4.0 * float(np.exp(2.0 * at.people.log_spread)) * metric @ metric
            law = self.units.law_outside(Law(metric, at.mean, covariance))
            rows.append(np.concatenate([svec(law.metric), law.mean, svec(law.covariance), at.effects]))
        return np.array(rows)

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
    rank: int | None,
    loss: Loss,
    *,
    engine: DeviceEngine | None = None,
    ridge: str | float | None = None,
    free: bool = False,
    item_effects: bool = False,
    max_iterations: int = 300,
    after_step: Callable[[int, float], None] | None = None,
) -> LowRankFit:
    """Fit ``M = LLᵀ + γI``; with NumPy if there is no engine.

    Isotropic people and items without utilities of their own are fitted first. A free covariance and item effects then
    begin where that fit ended, so their likelihood is never lower.

    Parameters
    ----------
    rank
        The number of columns of L, with γ = 0; None: found by the evidence, with γ.
    ridge
        On L: a number, 'evidence', or none.
    free
        Whether people have any covariance in the span of L.
    item_effects
        Whether items have utilities of their own, under a ridge by the evidence.
    """
    tolerance = DOUBLE_TOLERANCE if engine is None or engine.is_double else SINGLE_TOLERANCE
    options: dict[str, Any] = {"tolerance": tolerance, "max_iterations": max_iterations, "after_step": after_step}
    put = np.asarray if engine is None else engine.asarray
    items, chunks = put(asked.items), InPieces(_on(asked.questions, engine), engine)
    function, d = _likelihood(items, chunks, loss), items.shape[1]
    share, some = _sample(asked, put)
    by_evidence = ridge == "evidence"
    if rank is None and by_evidence and share == 1.0:
        here = [questions.each(_on_host) for questions in some]
        fit = _rank_by_evidence(as_numpy(asked.items), here, loss)
        fit = fit_low_rank(function, fit.at, fit.prior, **options)
    else:
        start, prior = _start(items, chunks, function, rank or min(d, DEFAULT_RANK), loss, 0.0)
        shape = start.factor.size / float(np.sum(start.factor**2)) if by_evidence else float(ridge or 0.0)
        if rank is None and by_evidence and d > DEFAULT_RANK:
            start = replace(start, rest=float(np.sum(start.factor**2)) / (4.0 * d))
        fit = fit_low_rank(function, start, replace(prior, shape=shape), **options)

    def known(at: LowRank) -> Array:
        return chunks.sum(lambda: information_of_items(items, chunks, at, loss))

    def posterior_at(fit: LowRankResult) -> LowRankPosterior | None:
        if too_much_work(asked, d, fit.at.flat().size, engine):
            return None
        return posterior_of(items, some, fit, loss, share)

    if item_effects:
        at, prior = replace(fit.at, effects=np.zeros(items.shape[0])), replace(fit.prior, items=ITEM_RIDGE)
        fit = fit_with_item_ridge(function, fit_low_rank(function, at, prior, **options), known, **options)
    posterior = posterior_at(fit)
    for _ in range(REFITS):
        if posterior is None or not by_evidence:
            break
        wanted = posterior.wanted_shape
        if abs(np.log(wanted / fit.prior.shape)) < SETTLED:
            break
        fit = fit_low_rank(function, fit.at, replace(fit.prior, shape=wanted), **options)
        posterior = posterior_at(fit)
    if free:
        at = replace(fit.at, people=FreePeople.of(fit.at.covariance))
        fit = fit_low_rank(function, at, fit.prior, **options)
        if item_effects:
            fit = fit_with_item_ridge(function, fit, known, **options)
        posterior = posterior_at(fit)
    if posterior is not None:
        fit = replace(fit, at=posterior.mean())
    known_items = known(fit.at) if item_effects else np.empty(0)
    return LowRankFit(_law_of(fit.at), asked.units, fit, known_items, posterior)


def too_much_work(asked: QuestionStream, d: int, n: int, engine: DeviceEngine | None) -> str:
    """Return why a fit of n parameters has no posterior; an empty text if it has one."""
    answers = asked.weight * min(1.0, PEOPLE_FOR_EVIDENCE / asked.n_users)
    work = work_of_information(answers, n)
    if work <= (MOST_WORK if engine is None else MOST_WORK_ON_DEVICE):
        return ""
    remedies = ["use a GPU (engine='torch')"] if engine is None and work <= MOST_WORK_ON_DEVICE else []
    remedies += ["lower rank", "or reduce the items (crowdmetric.preprocess)"]
    return (
        f"standard errors of {n:,} parameters of a metric of {d} features would take {work:.0e} multiplications; "
        f"{', '.join(remedies)}"
    )


def _sample(asked: QuestionStream, put: Callable[[Array], Any]) -> tuple[float, list[EqualQuestions]]:
    """Return the questions of everybody, or of `PEOPLE_FOR_EVIDENCE` people, and their share."""
    step = max(1, -(-asked.n_users // PEOPLE_FOR_EVIDENCE))
    some = [questions[::step].each(put) for questions in asked.questions]
    return sum(questions.left.shape[0] for questions in some) / asked.n_users, some


def _on_host(array: Any) -> Array:
    """Return an array as one of NumPy, of the same kind of numbers."""
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)


def _likelihood(items: Any, chunks: Iterable[EqualQuestions], loss: Loss) -> Counted:
    if isinstance(chunks, InPieces):
        return Counted(lambda at: chunks.sum(lambda: value_and_gradient(items, chunks, at, loss)))
    return Counted(lambda at: value_and_gradient(items, chunks, at, loss))


def _start(
    items: Any, chunks: Iterable[EqualQuestions], function: Counted, rank: int, loss: Loss, shape: float
) -> tuple[LowRank, LowRankPrior]:
    """Return where to begin, and the prior with a ridge on the shape."""
    d, covariance = items.shape[1], covariance_matrix(items)
    log_spread = -0.5 * float(np.log(d))
    factor = start_of(moment_matrix(items, chunks), covariance, rank)
    start = best_size(function, LowRank(factor, np.zeros(d), IsotropicPeople(log_spread)))
    return start, LowRankPrior(covariance, log_spread, loss.beta, shape)


def _rank_by_evidence(items: Any, questions: list[EqualQuestions], loss: Loss) -> LowRankResult:
    """Return the fit of the rank with the highest evidence, with its ridge.

    From `FIRST_RANK` on, larger and then smaller ranks are tried until the evidence falls. Each fit begins where the
    one before ended. (Far above the right rank, where most columns are noise, Laplace's method fails, and the evidence
    may be higher again.)
    """
    d, function = items.shape[1], _likelihood(items, questions, loss)
    tried: dict[int, tuple[float, LowRankResult]] = {}
    answers = sum(float(np.sum(some.weight)) for some in questions)
    most = max(min(d, int(np.sqrt(MOST_WORK_FOR_A_RANK / answers) / d)), 1)
    first = min(most, FIRST_RANK)
    start, prior = _start(items, questions, function, first, loss, 0.0)
    start = replace(start, rest=float(np.sum(start.factor**2)) / (4.0 * d))

    def evidence(rank: int) -> float:
        if rank not in tried:
            at, ridge = start, start.factor.size / float(np.sum(start.factor**2))
            if tried:
                near = tried[min(tried, key=lambda other: abs(np.log(other / rank)))][1]
                at = _with_rank(near.at, rank, lambda: gradient_in_metric(items, questions, near.at, loss))
                ridge = near.prior.shape
            fit = LowRankResult(at, 0.0, replace(prior, shape=ridge), False, 0)
            for _ in range(REFITS):
                fit = fit_low_rank(function, fit.at, fit.prior, tolerance=ROUGH)
                posterior = posterior_of(items, questions, fit, loss)
                if abs(np.log(posterior.wanted_shape / fit.prior.shape)) < SETTLED:
                    break
                fit = replace(fit, prior=replace(fit.prior, shape=posterior.wanted_shape))
            tried[rank] = observed_evidence(posterior, function.function), posterior.fit
        return tried[rank][0]

    evidence(first)
    for ranks in (_larger(first, most), range(first - 1, 0, -1)):
        before = evidence(first)
        for rank in ranks:
            if evidence(rank) <= before:
                break
            before = evidence(rank)
    return tried[max(tried, key=evidence)][1]


def _larger(rank: int, most: int) -> Iterator[int]:
    """Yield larger ranks, each by a quarter."""
    while (rank := max(rank + 1, int(STEP * rank))) <= most:
        yield rank


def _with_rank(at: LowRank, rank: int, gradient: Callable[[], Array]) -> LowRank:
    """Return a law of another rank: of its leading directions, or also of those along which the likelihood grows most.

    What is taken away is given to the rest, and what is added is taken from it.
    """
    left, sizes, _ = np.linalg.svd(at.factor, full_matrices=True)
    d, k, rest = *at.factor.shape, at.rest or 0.0
    if rank <= k:
        more = float(np.sum(sizes[rank:] ** 2)) / max(d - rank, 1)
        return replace(at, factor=left[:, :rank] * sizes[:rank], rest=rest + more)
    outside = left[:, k:]
    _, vectors = np.linalg.eigh(outside.T @ gradient() @ outside)
    size = np.sqrt(max(rest, 0.1 * float(np.mean(sizes**2))))
    return replace(at, factor=np.hstack([left[:, :k] * sizes, size * outside @ vectors[:, ::-1][:, : rank - k]]))


def _law_of(at: LowRank) -> Law:
    """Return the law in d dimensions."""
    L, rest = at.factor, np.eye(len(at.factor))
    metric, covariance = L @ L.T + (at.rest or 0.0) * rest, L @ at.covariance @ L.T + at.rest_variance * rest
    return Law(metric, at.mean, covariance, at.effects if at.effects.size else None)


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
    return _on_host(pulls)


def places_of_people(
    asked: QuestionStream, fit: LowRankFit, loss: Loss, engine: DeviceEngine | None = None
) -> tuple[Array, Array | None]:
    """Return everybody's v (K, d) given their answers and, where they fit, its covariances (K, d, d).

    In the items' own units. For a scan both are empty, because the people may be too many to keep.
    """
    d = asked.items.shape[1]
    if asked.people is None:
        return np.empty((0, d)), None
    items = asked.items if engine is None else engine.asarray(asked.items)
    questions = asked.questions if engine is None else MovedQuestions(asked.questions, engine.asarray)
    whole = asked.n_users * d * d <= MOST_COVARIANCES
    points = np.empty((asked.n_users, d))
    covariances = np.empty((asked.n_users, d, d)) if whole else None
    for chosen, some in zip(asked.people, questions, strict=True):
        means, spreads = people_given_answers(items, some, fit.result.at, loss, whole=whole)
        points[chosen] = as_numpy(means)
        if covariances is not None:
            covariances[chosen] = as_numpy(spreads)
    outside = fit.units.points_outside(points, fit.law_outside.metric)
    return outside, None if covariances is None else covariances / fit.units.size**2


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
