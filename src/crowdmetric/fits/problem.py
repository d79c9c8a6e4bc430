"""The sums over people of a population fit: log-likelihood, score, information, and where people stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from time import perf_counter
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdmetric.engines.contract import Engine
from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import DataError
from crowdmetric.fits.checkpoints import Checkpoint, fingerprint
from crowdmetric.fits.crowd import Chunk, ChunkInMemory, Crowd, Sample, sample_of
from crowdmetric.losses import Loss
from crowdmetric.similarity.judgement_term import JudgementsBeside
from crowdmetric.solvers.law_fit import PopulationFit, fit_law
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.solvers.scoring import ScoringState
from crowdmetric.symmetric import svec
from crowdmetric.users.expected import expected_information
from crowdmetric.users.item_effects import WithItemEffects
from crowdmetric.users.people import bias_sums, places_of
from crowdmetric.users.population_sums import Correction, Law, PopulationBlock, Structure, Sums, exact_change, sums_of
from crowdmetric.users.propagation import ROUGHLY, TOLERANCE

__all__ = ["PopulationProblem"]

Array = NDArray[Any]
Summand = TypeVar("Summand")

# People's covariances are kept if they have at most this many numbers in total.
MOST_COVARIANCES = 20_000_000
# With fewer people than this per parameter, outer products of scores are too noisy to serve as the information: for
# steps, and for ridges and volumes. The expected information takes three times as long with twenty features.
PEOPLE_PER_PARAMETER, PEOPLE_FOR_EVIDENCE = 5, 20
# Starts are compared, and ridges are found, on at most about this many people. If people answer a lot, on about this
# many answers, of at least so many people.
PEOPLE_FOR_STARTS, ANSWERS_FOR_STARTS, FEWEST_FOR_STARTS = 20_000, 15_000, 300


@dataclass(frozen=True)
class PopulationProblem:
    """Chunks of people, a structure, a loss, an engine, and how people are integrated out.

    Attributes
    ----------
    d
        Dimension of the items.
    sample
        Some of the people, in memory, and how many there are in all.
    step
        Every `step`-th person is in the sample, drawn by a hash.
    largest_grid
        People whose answers span at most this many dimensions are integrated on a grid, others by propagation.
    tolerance
        Of propagation.
    after_pass
        Called after every pass over all people with the seconds that it took.
    checkpoint
        Where the fit is saved after every step.
    by_outer_products
        Whether people's information is the outer products of their scores; None: if there are enough people.
    beside
        Similarity judgements that share the metric, up to a scale.
    directions
        Those in which the metric can move (`crowdmetric.users.expected.expected_information`); None: all.
    correction
        What exact integrals add to the log-likelihood (`crowdmetric.fits.correction`); None: nothing.
    """

    chunks: Sequence[Chunk]
    d: int
    sample: Sample
    step: int
    structure: Structure
    loss: Loss
    engine: Engine
    largest_grid: int = 1
    tolerance: float = TOLERANCE
    after_pass: Callable[[float], None] | None = None
    checkpoint: Checkpoint | None = None
    by_outer_products: bool | None = None
    beside: JudgementsBeside | None = None
    directions: Array | None = None
    correction: Correction | None = None

    @staticmethod
    def of(crowd: Crowd, structure: Structure, loss: Loss, engine: Engine, largest_grid: int = 1) -> PopulationProblem:
        """Return the problem of a crowd, after one pass that draws a sample."""
        many_answers = min(crowd.weight // ANSWERS_FOR_STARTS, crowd.n_users // FEWEST_FOR_STARTS)
        step = max(1, crowd.n_users // PEOPLE_FOR_STARTS, int(many_answers))
        sample = _near(engine).sum(partial(sample_of, step=step), crowd.chunks) if crowd.chunks else None
        if sample is None or not sample.people:
            raise DataError("no comparison of different items has a positive weight; there is nothing to learn from")
        sample = sample.merged()
        return PopulationProblem(crowd.chunks, crowd.d, sample, step, structure, loss, engine, largest_grid)

    @property
    def n_items(self) -> int:
        """How many items have a utility of their own."""
        return self.structure.n_items if isinstance(self.structure, WithItemEffects) else 0

    @property
    def weight(self) -> float:
        """The weight of the answers of the people in the sample."""
        return float(sum(np.sum(block.weight) for block in self.sample.blocks))

    @property
    def beta(self) -> float:
        """Sharpness of the answers."""
        return float(self.loss.beta)

    @property
    def n_people(self) -> int:
        """How many people have informative answers."""
        return self.sample.people.total()

    @property
    def widest(self) -> int:
        """The largest dimension that anybody's answers span."""
        return max(self.sample.people)

    def _sum(self, job: Callable[[PopulationBlock], Summand]) -> Summand:
        """Return the sum over everybody, chunk by chunk, in their order."""
        clock = perf_counter()
        total: _Part[Summand] = self.engine.sum(partial(_sum_of_chunk, job), self.chunks)
        assert total.value is not None  # somebody has informative answers
        if self.after_pass is not None:
            self.after_pass(perf_counter() - clock)
        return total.value

    def total(self, natural: Array, *, information: bool = True) -> Sums:
        """Return the sums over all people, and over similarity judgements if there are any."""
        expected = partial(expected_information, directions=self.directions) if self.has_few_people else None
        job = partial(
            sums_of, structure=self.structure, natural=natural, loss=self.loss,
            information=information, expected=expected, largest_grid=self.largest_grid, tolerance=self.tolerance,
        )  # fmt: skip
        sums = self._with_correction(self._sum(job), natural)
        if not information:
            return self._with_judgements(sums, natural)
        assert sums.spread_score is not None
        about = sums.information
        if expected is not None:
            whole = svec(self.structure.law(natural, self.d).covariance)
            about = about.total(self.structure.spread_jacobian(natural, self.d), whole)
        sums = replace(sums, information=about, bending=self.structure.bending(natural, sums.spread_score))
        return self._with_judgements(sums, natural)

    def _with_correction(self, sums: Sums, natural: Array) -> Sums:
        if self.correction is None:
            return sums
        more = self.correction
        value = sums.value + float(more.score @ (natural - more.at))
        return replace(sums, value=value, score=sums.score + more.score)

    def _with_judgements(self, sums: Sums, natural: Array) -> Sums:
        if self.beside is None:
            return sums
        m = self.structure.layout(self.d).metric
        term = self.beside(natural[m], information=sums.information is not None)
        score = sums.score.copy()
        score[m] += term.score
        about = sums.information
        if about is not None:
            about = about.copy()
            about[m, m] += term.information
        return replace(sums, value=sums.value + term.value, score=score, information=about)

    @property
    def has_few_people(self) -> bool:
        """Whether outer products of scores are too noisy, so the expected information is used instead."""
        if self.by_outer_products is not None:
            return not self.by_outer_products
        return self._has_fewer_than(PEOPLE_PER_PARAMETER)

    def _has_fewer_than(self, people_per_parameter: int) -> bool:
        return self.n_people < people_per_parameter * self.structure.layout(self.d).size

    @property
    def smooth_total(self) -> Callable[..., Sums] | None:
        """The same sums with information that is smooth enough for ridges and volumes; None: that of steps is."""
        if self.by_outer_products is None and not self.has_few_people and self._has_fewer_than(PEOPLE_FOR_EVIDENCE):
            return replace(self, by_outer_products=False).total
        return None

    def fit(self, stage: str, chart: Parametrization, start: Array | ScoringState, **options: Any) -> PopulationFit:
        """Maximize the penalized likelihood (`fit_law`), from the checkpoint's state of this stage if it has one."""
        start, more = self.resume_stage(stage, start)
        return fit_law(self.total, chart, start, beta=self.beta, **options, **more)

    def resume_stage(self, stage: str, start: Array | ScoringState) -> tuple[Array | ScoringState, dict[str, Any]]:
        """Return where a stage begins and options of `fit_law`: the checkpoint's, if there is one."""
        if self.checkpoint is None:
            return start, {}
        return self.checkpoint.state(stage) or start, {"after_step": self.checkpoint.saver(stage)}

    def digest(self) -> str:
        """Return a fingerprint of the people, by those in the sample."""
        arrays = [array for b in self.sample.blocks for name, array in b.arrays.items() if name != "loadings"]
        asked = () if self.beside is None else self.beside.objective.questions.asked
        arrays += [array for block in asked for array in (block.index, block.counts)]
        return fingerprint([self.d, self.step, sorted(self.sample.people.items()), *arrays])

    def roughly(self) -> PopulationProblem:
        """Return the same problem with sums accurate enough to come close to its solution, in less time."""
        return replace(self, tolerance=ROUGHLY)

    def along(self, chart: Parametrization) -> PopulationProblem:
        """Return the same problem with information only about what a chart can move: less work if that is little."""
        directions = chart.metric_directions()
        return replace(self, directions=None if directions.shape[0] == directions.shape[1] else directions)

    def thinned(self) -> PopulationProblem:
        """Return the problem of the people in the sample; this one if that is everybody."""
        if self.step == 1:
            return self
        return self.of_people(self.sample.blocks, _here(self.engine))

    def of_people(self, blocks: list[PopulationBlock], engine: Engine) -> PopulationProblem:
        """Return the same problem with these people only, without progress and checkpoint."""
        chunks = [ChunkInMemory([block]) for block in blocks]
        return replace(
            self, chunks=chunks, sample=Sample.of(blocks), step=1, engine=engine, after_pass=None, checkpoint=None
        )

    def exact_change(self, natural: Array, people: int) -> Correction:
        """Return what exact integrals change at a law, measured on at least so many people, or the whole sample.

        Only people whose answers span too many dimensions for a grid count.
        """
        beyond = [block for block in self.sample.blocks if block.span.shape[1] > self.largest_grid]
        step = max(1, sum(block.person.size for block in beyond) // people)
        few = [block.every(step) for block in beyond]
        asked = Counter[int]()
        for block in few:
            asked[block.span.shape[1]] += block.person.size
        alike = [(block, self.sample.people[q] / asked[q]) for block in few for q in [block.span.shape[1]]]
        job = partial(exact_change, structure=self.structure, natural=natural, loss=self.loss)
        return _near(self.engine).sum(job, alike)

    def question_bias(self, natural: Array) -> float:
        """Return the z-score of the test in `bias_sums`; NaN if nobody's answers can tell."""
        grid = self.largest_grid
        sums = self._sum(
            partial(bias_sums, structure=self.structure, natural=natural, loss=self.loss, largest_grid=grid)
        )
        explained = np.linalg.lstsq(sums.information, sums.cross, rcond=1e-10)[0]
        left = sums.square - float(sums.cross @ explained)
        # if the other parameters explain the score of κ up to rounding, there is no evidence
        if not left > 1e-6 * sums.square > 0:
            return float("nan")
        # under a ridge or at the boundary of the cone the other scores are not zero
        return (sums.score - float(sums.others @ explained)) / float(np.sqrt(left))

    def spread(self, law: Law) -> float:
        """Return the root mean square spread of ψ over people and their answers, in units of the answers' noise.

        The mean is over the answers of the people in the sample, by their weights.
        """
        square = weight = 0.0
        for block in self.sample.blocks:
            delta = block.loadings @ block.span
            variances = np.sum((delta @ law.covariance) * delta, axis=2)
            square += float(np.sum(block.weight * variances))
            weight += float(np.sum(block.weight))
        return float(np.sqrt(square / weight)) * self.beta

    def people(self, law: Law, n_people: int) -> tuple[Array, Array | None]:
        """Return means (K, d) and, where they fit, covariances (K, d, d) of everybody's v."""
        whole = n_people * self.d**2 <= MOST_COVARIANCES
        job = partial(places_of, law=law, loss=self.loss, covariances=whole, largest_grid=self.largest_grid)
        places = _near(self.engine).sum(partial(_sum_of_chunk, job), self.chunks).value
        assert places is not None  # somebody has informative answers
        return places.everybody(law, n_people)


def _here(engine: Engine) -> Engine:
    """Return the engine for passes over few people, for which a cluster is not worth it."""
    return LocalEngine() if engine.is_remote else engine


def _near(engine: Engine) -> Engine:
    """Return the engine for sums of NumPy arrays: samples of people, and slow integrals of a few people."""
    return LocalEngine() if engine.has_own_arrays else engine


@dataclass(frozen=True)
class _Part(Generic[Summand]):
    """The sum over a chunk; None if nobody in it has informative answers."""

    value: Summand | None

    def __add__(self, other: _Part[Summand]) -> _Part[Summand]:
        if self.value is None or other.value is None:
            return other if self.value is None else self
        return _Part(add(self.value, other.value))


def _sum_of_chunk(job: Callable[[PopulationBlock], Summand], chunk: Chunk) -> _Part[Summand]:
    return reduce(add, (_Part(job(block)) for block in chunk.blocks()), _Part(None))
