"""From questions to the verdict: dense while Sym(R^d) is small, by products alone where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.errors import DataError
from crowdmetric.identifiability import implicit
from crowdmetric.identifiability.assignment import check_assignment
from crowdmetric.identifiability.catalogue import ceiling, two_valued
from crowdmetric.identifiability.diagnosis import Diagnosis
from crowdmetric.identifiability.examples import name_directions, unknown_distances
from crowdmetric.identifiability.people import Tally
from crowdmetric.identifiability.questions import Questions, read_questions
from crowdmetric.identifiability.rows import read_rows
from crowdmetric.identifiability.spectrum import Spectrum, common_spectrum, decompose, negligible_of, sum_up
from crowdmetric.symmetric import degrees_of_freedom

__all__ = ["diagnose"]

# S is decomposed whole; at this size (d = 200) it fills 3.2 GB. Beyond, it is known by its products.
LARGEST = 20_100


def diagnose(
    items: ArrayLike | None,
    pairs: Any,
    users: Any = None,
    *,
    features: Sequence[str] | None = None,
    item_ids: Sequence[Any] | NDArray[Any] | None = None,
) -> Diagnosis:
    """Say what answers to these questions can teach, before anybody is asked or anything is fitted.

    Parameters
    ----------
    items
        (N, d); None if pairs are vectors.
    pairs
        (T, 2) row numbers, (T, 2, d) vectors, or Comparisons.
    users
        (T,) who answers; None: one person.
    features, item_ids
        Names of the d features and of the N items, for the words.

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
    _check_names(features, questions.d, "features")
    _check_names(item_ids, len(questions.items), "item_ids")
    tally, own, common = _spectra(questions)
    best = ceiling(questions)
    unknown, examples = unknown_distances(questions, own)
    counts = np.bincount(questions.person)
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
        people=len(counts),
        silent=sum(tally.silent.values()),
        silent_reasons=tally.silent,
        answers=len(questions.pairs),
        most_answers=int(counts.max()),
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


def _spectra(questions: Questions) -> tuple[Tally, Spectrum, Spectrum]:
    """Return what a pass counted, and the spectra of S and P."""
    p = degrees_of_freedom(questions.d)
    if p <= LARGEST:
        sums = sum_up(questions)
        own = decompose(sums.S, negligible_of(sums.tally), questions.unit)
        # P ⪰ S: what arbitrary people reveal, one population does
        common = own if own.rank == p else common_spectrum(sums.common, questions.unit)
        return sums.tally, own, common
    tally = Tally()
    rows, everybody = read_rows(questions, tally)
    own = implicit.nothing(questions.unit) if rows is None else implicit.explore(rows, questions.unit)
    if own.low == p:
        return tally, own, own
    common = implicit.explore(everybody, questions.unit)
    low = max(common.low, own.low)
    return tally, own, replace(common, low=low, high=max(low, common.high), rank=max(common.rank, own.rank))


def _check_names(names: Sequence[Any] | NDArray[Any] | None, count: int, what: str) -> None:
    if names is not None and len(names) != count:
        raise DataError(f"{what} has {len(names)} names, but there are {count}; give one each or leave it out")
