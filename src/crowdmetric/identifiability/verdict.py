"""From questions to the verdict: dense while Sym(R^d) is small, by products alone where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike, NDArray

from crowdmetric.errors import DataError
from crowdmetric.estimators.inputs import check_items
from crowdmetric.estimators.memory import MemoryPlan, bytes_to_lay_out, read_memory
from crowdmetric.identifiability import implicit
from crowdmetric.identifiability.assignment import check_assignment
from crowdmetric.identifiability.catalogue import ceiling, two_valued
from crowdmetric.identifiability.diagnosis import Diagnosis
from crowdmetric.identifiability.examples import name_directions, unknown_distances
from crowdmetric.identifiability.people import Tally
from crowdmetric.identifiability.questions import Asked, ScannedQuestions, read_questions
from crowdmetric.identifiability.rows import read_rows
from crowdmetric.identifiability.spectrum import Spectrum, common_spectrum, decompose, negligible_of, sum_up
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.tables import ComparisonScan

__all__ = ["diagnose", "plan_diagnosis"]

# S is decomposed whole; at this size (d = 200) it fills 3.2 GB. Beyond, it is known by its products.
LARGEST = 20_100
# Matrices as large as [Δ, δ]ᵀ[Δ, δ] that are held at once: the two sums, one operator, and its decomposition.
MATRICES = 6
# Answers at most among which people are drawn to see whether questions depend on them.
SAMPLED = 1_000_000


def diagnose(
    items: ArrayLike | None,
    pairs: Any,
    users: Any = None,
    *,
    features: Sequence[str] | None = None,
    item_ids: Sequence[Any] | NDArray[Any] | None = None,
    memory: int | str | None = None,
) -> Diagnosis:
    """Say what answers to these questions can teach, before anybody is asked or anything is fitted.

    Parameters
    ----------
    items
        (N, d); None if pairs are vectors.
    pairs
        (T, 2) row numbers, (T, 2, d) vectors, Comparisons, or a scan (`Comparisons.scan_parquet`), which is read a
        chunk at a time: all but the check of who was asked what, for which some people are drawn, is a sum over people.
    users
        (T,) who answers; None: one person.
    features, item_ids
        Names of the d features and of the N items, for the words.
    memory
        Limit for a scan, in bytes or such as '2GB'; None: half of what is free. See `plan_diagnosis`.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(4, None, None, users=100, comparisons=4, seed=0)
    >>> found = diagnose(crowd.items, crowd.pairs, crowd.users)
    >>> found.rank, found.population_rank, found.dimensions
    (0, 10, 10)
    """
    questions = read_questions(items, pairs, users)
    if isinstance(questions, ScannedQuestions):
        plan_diagnosis(items, questions.scan, memory)
    elif memory is not None:
        raise DataError(
            f"memory={memory!r} is a limit for scanned comparisons (Comparisons.scan_parquet); leave it out"
        )
    _check_names(features, questions.d, "features")
    _check_names(item_ids, len(questions.items), "item_ids")
    tally, own, common = _spectra(questions)
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
        population_rank=common.rank,
        population_bounds=(common.low, common.high),
        population_confidence=common.confidence,
        population_out_of_reach=name_directions(common, features),
        assignment=check_assignment(questions),
        ceiling=None if best is None else best.rank,
        ceiling_out_of_reach="" if best is None else name_directions(best, features),
        two_valued=tuple(two_valued(questions)),
        features=features,
        item_ids=item_ids,
    )


def _spectra(questions: Asked) -> tuple[Tally, Spectrum, Spectrum]:
    """Return what a pass counted, and the spectra of S and P."""
    p = degrees_of_freedom(questions.d)
    if p <= LARGEST:
        sums = sum_up(questions)
        own = decompose(sums.S, negligible_of(sums.tally), questions.unit)
        # P ⪰ S: what arbitrary people reveal, one population does
        common = own if own.rank == p else common_spectrum(sums.common, questions.unit)
        return sums.tally, own, common
    tally = Tally()
    rows, everybody = read_rows(questions.everything(), tally)
    own = implicit.nothing(questions.unit) if rows is None else implicit.explore(rows, questions.unit)
    if own.low == p:
        return tally, own, own
    common = implicit.explore(everybody, questions.unit)
    low = max(common.low, own.low)
    return tally, own, replace(common, low=low, high=max(low, common.high), rank=max(common.rank, own.rank))


def plan_diagnosis(items: ArrayLike | None, scan: ComparisonScan, memory: int | str | None = None) -> MemoryPlan:
    """Return how much memory the diagnosis of a scan will take; a limit that is too low is an error.

    Up to 200 features that is the matrices of the two operators and a chunk of answers; beyond, all answers are read,
    for products with them.
    """
    N, d = check_items(items).shape
    chunk_rows = max((chunk.rows for chunk in scan.chunks), default=0)
    p = degrees_of_freedom(d)
    if p > LARGEST:
        work = len(scan) * 8 * (6 * d + 40)
    else:
        work = MATRICES * 8 * (p + d) ** 2 + chunk_rows * bytes_to_lay_out(d) + SAMPLED * 8 * (d + 10)
    return MemoryPlan.of_work(scan.n_users, len(scan), 4 * 8 * N * d + work, read_memory(memory), "diagnosis")


def _check_names(names: Sequence[Any] | NDArray[Any] | None, count: int, what: str) -> None:
    if names is not None and len(names) != count:
        raise DataError(f"{what} has {len(names)} names, but there are {count}; give one each or leave it out")
