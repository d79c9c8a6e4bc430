"""From questions to the verdict: with dense matrices if Sym(R^d) is small enough, else by products alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike, NDArray

from crowdmetric.errors import DataError
from crowdmetric.fits.memory import MemoryPlan, bytes_to_lay_out, read_memory
from crowdmetric.identifiability import implicit
from crowdmetric.identifiability.answer_map import answer_rows
from crowdmetric.identifiability.assignment import check_assignment
from crowdmetric.identifiability.catalogue import ceiling, two_valued
from crowdmetric.identifiability.diagnosis import Diagnosis
from crowdmetric.identifiability.examples import name_directions, name_hardest, unknown_distances
from crowdmetric.identifiability.law import LARGEST as LARGEST_LAW
from crowdmetric.identifiability.law import LAWS, law_spectrum, most_revealed
from crowdmetric.identifiability.person_spans import SpanTally
from crowdmetric.identifiability.questions import QuestionSource, ScannedQuestions, read_questions
from crowdmetric.identifiability.spectrum import Spectrum, common_spectrum, decompose, negligible_of, sum_up
from crowdmetric.inputs import check_items, names_of_features
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.tables import ComparisonScan, ids_of

__all__ = ["diagnose", "plan_diagnosis"]

# Up to this size (d = 200) the full matrix S is decomposed, which takes 3.2 GB. Beyond, only products with S are used.
LARGEST = 20_100
# Number of matrices as large as [Δ, δ]ᵀ[Δ, δ] held at once: the two sums, one operator, and its decomposition.
MATRICES = 6
# Maximum number of answers sampled to see whether questions depend on who is asked.
SAMPLED = 1_000_000


def diagnose(
    items: ArrayLike | None,
    pairs: Any,
    users: Any = None,
    *,
    features: Sequence[str] | None = None,
    item_ids: Sequence[Any] | NDArray[Any] | None = None,
    covariance: str = "isotropic",
    memory: int | str | None = None,
) -> Diagnosis:
    """Say what answers to these questions can teach, before anybody is asked or anything is fitted.

    Parameters
    ----------
    items
        (N, d) array, or a data frame, which may have ids; None if pairs are vectors.
    pairs
        (T, 2) row numbers or ids, (T, 2, d) vectors, Comparisons, a data frame with the columns left and right (and
        user), or a scan (`Comparisons.scan_parquet`), which is read one chunk at a time. The check of who was
        asked what uses a sample of people.
    users
        (T,) who answers; None: one person.
    features, item_ids
        Names of the d features and of the N items, for the words; None: those that `items` has.
    covariance
        The law of people for which `population_rank` and the rest of the population's verdict hold, as in
        `PopulationMetric`: 'isotropic', the default, or 'free'. The verdict for a free law is always included.
    memory
        Limit for a scan, in bytes or as text such as '2GB'; None: half of the free memory. See `plan_diagnosis`.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> from crowdmetric.identifiability import diagnose
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(4, None, None, users=100, comparisons=4, seed=0)
    >>> found = diagnose(crowd.items, crowd.pairs, crowd.users)
    >>> found.rank, found.population_rank, found.dimensions
    (0, 10, 10)
    """
    if covariance not in LAWS:
        raise DataError(f"covariance={covariance!r} is unknown; choose {' or '.join(map(repr, LAWS))}")
    questions = read_questions(items, pairs, users)
    features = names_of_features(items) if features is None else features
    item_ids = ids_of(items) if item_ids is None else item_ids
    if isinstance(questions, ScannedQuestions):
        plan_diagnosis(items, questions.scan, memory)
    elif memory is not None:
        raise DataError(
            f"memory={memory!r} is a limit for scanned comparisons (Comparisons.scan_parquet); leave it out"
        )
    _check_names(features, questions.d, "features")
    _check_names(item_ids, len(questions.items), "item_ids")
    found = _spectra(questions, covariance)
    tally, own, common, free = found.tally, found.own, found.law, found.free
    best = ceiling(questions)
    unknown, examples = unknown_distances(questions, own)
    p = degrees_of_freedom(questions.d)
    return Diagnosis(
        identified=own.low == p,
        rank=own.rank,
        dimensions=p,
        smallest=own.smallest,
        largest=own.largest,
        unidentified_directions=own.directions,
        rank_bounds=(own.low, own.high),
        confidence=own.confidence,
        out_of_reach=name_directions(own, features),
        unknown_distance=unknown,
        examples=examples,
        people=questions.n_people,
        silent=sum(tally.silent.values()),
        silent_reasons=tally.silent,
        answers=questions.n_answers,
        most_answers=questions.most_answers,
        spare=tally.spare,
        d=questions.d,
        span=tally.span,
        items=len(questions.used),
        covariance=covariance,
        population_rank=common.rank,
        population_bounds=(common.low, common.high),
        population_confidence=common.confidence,
        population_out_of_reach=name_directions(common, features),
        population_condition=common.largest / common.smallest,
        population_hardest=name_hardest(common, features),
        free_rank=free.low,
        free_out_of_reach=name_directions(free, features),
        assignment=check_assignment(questions),
        ceiling=None if best is None else best.rank,
        ceiling_out_of_reach="" if best is None else name_directions(best, features),
        two_valued=tuple(two_valued(questions)),
        features=features,
        item_ids=item_ids,
    )


@dataclass(frozen=True)
class _Spectra:
    """Counts over all people, and what answers reveal under each assumption about people.

    Attributes
    ----------
    tally
        What was counted.
    own
        The spectrum of S: people are arbitrary.
    law, free
        People come from one population: under the law that was asked for, and under the free law.
    """

    tally: SpanTally
    own: Spectrum
    law: Spectrum
    free: Spectrum


def _spectra(questions: QuestionSource, covariance: str) -> _Spectra:
    p = degrees_of_freedom(questions.d)
    if p > LARGEST:
        return _implicit_spectra(questions, covariance)
    sums = sum_up(questions)
    own = decompose(sums.S, negligible_of(sums.tally), questions.unit)
    # P ⪰ S: answers of one population reveal at least as much as those of arbitrary people
    offsets = own if own.rank == p else common_spectrum(sums.common, questions.unit)

    def under(name: str) -> Spectrum:
        if own.rank == p:
            return own
        if p > LARGEST_LAW:
            return offsets if name == "free" else _at_least(offsets, p)
        most = most_revealed(questions, name, sums.tally.span, sums.common, offsets)
        found = law_spectrum(questions, name, most)
        return own if own.rank > found.rank else found

    free = under("free")
    return _Spectra(sums.tally, own, free if covariance == "free" else under(covariance), free)


def _implicit_spectra(questions: QuestionSource, covariance: str) -> _Spectra:
    """Return the spectra where Sym(R^d) is too large for a matrix; of a population, what offsets reveal."""
    tally, p = SpanTally(), degrees_of_freedom(questions.d)
    rows, everybody = answer_rows(questions.everything(), tally)
    own = implicit.nothing(questions.unit) if rows is None else implicit.explore(rows, questions.unit)
    if own.low == p:
        return _Spectra(tally, own, own, own)
    free = implicit.explore(everybody, questions.unit)
    low = max(free.low, own.low)
    free = replace(free, low=low, high=max(low, free.high), rank=max(free.rank, own.rank))
    return _Spectra(tally, own, free if covariance == "free" else _at_least(free, p), free)


def _at_least(offsets: Spectrum, p: int) -> Spectrum:
    """Return what offsets reveal as a lower bound; what the spread of people adds is not computed."""
    if offsets.low == p:
        return offsets
    unknown = "what the spread of people adds was not computed for this many features"
    return replace(offsets, high=p, confidence="; ".join(filter(None, [offsets.confidence, unknown])))


def plan_diagnosis(items: ArrayLike | None, scan: ComparisonScan, memory: int | str | None = None) -> MemoryPlan:
    """Return how much memory the diagnosis of a scan will take; a limit that is too low is an error.

    Up to 200 features it is the memory of the operators' matrices and of one chunk of answers. With more features all
    answers are read into memory, for products with them.
    """
    N, d = check_items(items).shape
    chunk_rows = max((chunk.rows for chunk in scan.chunks), default=0)
    p = degrees_of_freedom(d)
    if p > LARGEST:
        work = len(scan) * 8 * (6 * d + 40)
    else:
        work = MATRICES * 8 * (p + d) ** 2 + chunk_rows * bytes_to_lay_out(d) + SAMPLED * 8 * (d + 10)
        work += 3 * 8 * (2 * p + d) ** 2 if p <= LARGEST_LAW else 0  # the information under a free law
    return MemoryPlan.of_work(scan.n_users, len(scan), 4 * 8 * N * d + work, read_memory(memory), "diagnosis")


def _check_names(names: Sequence[Any] | NDArray[Any] | None, count: int, what: str) -> None:
    if names is not None and len(names) != count:
        raise DataError(f"{what} has {len(names)} names, but there are {count}; give one each or leave it out")
