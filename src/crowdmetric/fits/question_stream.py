"""Everybody's questions, some people at a time, for a fit by gradients: from memory, from a scan, or from a device.

A pass goes over everybody's questions once. Nothing of size (answers, d) is made, so a fit to a scan needs memory for
the items and for one chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdmetric.engines.contract import DeviceEngine
from crowdmetric.fits.crowd import ChunkCache
from crowdmetric.fits.memory import MemoryPlan
from crowdmetric.fits.units import Units, items_on_device
from crowdmetric.inputs import Rows, answers_in_chunk
from crowdmetric.symmetric import as_numpy
from crowdmetric.tables import ComparisonScan, SpoolChunk
from crowdmetric.users.blocks import Answers, padded_rows
from crowdmetric.users.first_order import EqualQuestions

__all__ = [
    "NUMBERS",
    "InPieces",
    "MovedQuestions",
    "QuestionStream",
    "asked_in_memory",
    "asked_on_disk",
    "low_rank_plan",
]

Array = Any
Result = TypeVar("Result")

# Answers per chunk without an engine, and temporary numbers per answer: ten at each of about fifty nodes.
CHUNK, NUMBERS = 1 << 16, 500
# Bytes per stored answer: two rows, response and weight. While a chunk is laid out there are three copies.
ANSWER_BYTES, LAYOUT_COPIES = 32, 3
# Memory: copies of the items while their units are computed, and of their rows in k dimensions during a pass.
ITEM_COPIES, ROW_COPIES = 4, 4
# Memory: vectors of parameters that L-BFGS keeps, and matrices (d, d) before and after it.
STEPS_KEPT, SQUARES = 50, 10
# If this many pieces of a chunk still do not fit in memory, the chunk is not the cause.
MOST_PIECES = 1 << 12


@dataclass(frozen=True)
class QuestionStream:
    """Everybody's questions, some people at a time.

    Attributes
    ----------
    items : (N, d)
        In the units `units`; a NumPy array, or an array on the device.
    questions
        Iterated over once per pass; a list if they are in memory.
    people
        The row numbers in `users` of the people of each of `questions`; None for a scan, where no places are kept.
    users, n_users, weight
        Who they are (empty for a scan), how many, and the weight of all answers.
    """

    items: Array
    units: Units
    questions: Iterable[EqualQuestions]
    people: list[Array] | None
    users: NDArray[Any]
    n_users: int
    weight: float

    def some(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the pairs of items (n, 2) and weights (n,) of the first questions, or of all: those of a chunk."""
        first = next(iter(self.questions)).each(as_numpy)
        asked = first.weight > 0
        pairs = np.column_stack([first.left[asked], first.right[asked]]).astype(np.intp)
        return pairs, first.weight[asked].astype(np.float64)


@dataclass(frozen=True)
class StreamedQuestions:
    """The questions of a scan, read from disk at every pass, except for the chunks in the cache."""

    scan: ComparisonScan
    at_once: int
    cache: ChunkCache

    def __iter__(self) -> Iterator[EqualQuestions]:
        for number, chunk in enumerate(self.scan.chunks):
            yield from self.cache.get_or_make(number, partial(self._make, chunk), _bytes_of_answers)

    def _make(self, chunk: SpoolChunk) -> list[EqualQuestions]:
        no_items = np.empty((0, 0))  # questions contain row numbers of items only
        return [questions for _, questions in _questions(answers_in_chunk(chunk, no_items), self.at_once)]


def _bytes_of_answers(made: list[EqualQuestions]) -> int:
    return sum(ANSWER_BYTES * questions.left.size for questions in made)


@dataclass(frozen=True)
class MovedQuestions:
    """Questions that are converted to arrays of another library at every pass."""

    questions: Iterable[EqualQuestions]
    put: Callable[[Array], Any]

    def __iter__(self) -> Iterator[EqualQuestions]:
        return (questions.each(self.put) for questions in self.questions)


@dataclass
class InPieces:
    """Questions whose chunks are cut into pieces that fit the device: one at first, twice as many at each overflow."""

    questions: Iterable[EqualQuestions]
    engine: DeviceEngine | None
    pieces: int = 1

    def __iter__(self) -> Iterator[EqualQuestions]:
        for some in self.questions:
            people = some.left.shape[0]
            size = -(-people // self.pieces)
            for begin in range(0, people, size):
                yield some[begin : begin + size]

    def sum(self, total: Callable[[], Result]) -> Result:
        """Return a sum over these questions; where memory runs out, it is computed again in smaller pieces."""
        while self.engine is not None and self.pieces <= MOST_PIECES:
            try:
                return total()
            except self.engine.out_of_memory:
                self.pieces *= 2
        return total()


def asked_in_memory(rows: Rows, engine: DeviceEngine | None = None) -> QuestionStream:
    """Return the questions of validated rows."""
    units = Units.of(rows.items, rows.pairs)
    parts = list(_questions(rows.jointly(), _at_once(engine)))
    people, questions = [chosen for chosen, _ in parts], [some for _, some in parts]
    weight = float(rows.weight.sum())
    return QuestionStream(units.inside(rows.items), units, questions, people, rows.users, rows.users.size, weight)


def asked_on_disk(
    scan: ComparisonScan, items: NDArray[Any], cache: ChunkCache, engine: DeviceEngine | None = None
) -> QuestionStream:
    """Return the questions of a scan about validated items (N, d)."""
    placed = None if engine is None else items_on_device(items, engine.asarray(scan.used), engine)
    if placed is None:
        own = Units.of(items, np.flatnonzero(scan.used))
        placed = own.inside(items), own
    inside, units = placed
    nobody = np.empty(0, dtype=np.int64)
    questions = StreamedQuestions(scan, _at_once(engine), cache)
    return QuestionStream(inside, units, questions, None, nobody, scan.n_users, scan.total_weight)


def _questions(answers: Answers, at_once: int) -> Iterator[tuple[Array, EqualQuestions]]:
    """Yield people's row numbers and their questions, about `at_once` answers at a time."""
    answers = answers.merged()
    for chosen, rows in padded_rows(answers, at_once):
        weight = np.where(rows >= 0, answers.weight[rows], 0.0)
        response = np.where(weight > 0, answers.response[rows], 1.0)
        pairs = answers.pairs[rows]
        yield chosen, EqualQuestions(pairs[:, :, 0], pairs[:, :, 1], response, weight)


def _at_once(engine: DeviceEngine | None) -> int:
    return CHUNK if engine is None else engine.answers_at_once(NUMBERS)


def low_rank_plan(scan: ComparisonScan, n_items: int, d: int, rank: int, limit: int) -> MemoryPlan:
    """Return how much memory a fit by gradients to a scan takes on this machine, before it starts."""
    chunk_rows = max((chunk.rows for chunk in scan.chunks), default=0)
    work = 8 * n_items * (ITEM_COPIES * d + ROW_COPIES * rank) + 8 * STEPS_KEPT * d * (rank + 1)
    work += 8 * SQUARES * d * d + chunk_rows * LAYOUT_COPIES * ANSWER_BYTES + 8 * NUMBERS * min(chunk_rows, CHUNK)
    return MemoryPlan.of_work(scan.n_users, len(scan), work, limit, "fit", keep=len(scan) * ANSWER_BYTES)
