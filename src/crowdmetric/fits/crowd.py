"""The people of a population fit: in memory, or in a scan's chunks on disk.

A *chunk* returns its people as blocks. A pass over people is a sum over chunks. Each chunk is loaded, laid out, summed
and released, so only one chunk per thread is in memory. Because a fit makes dozens of passes, chunks from disk are
cached up to a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdmetric.fits.item_span import ItemSpan
from crowdmetric.fits.units import Units
from crowdmetric.inputs import Rows, answers_in_chunk
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.tables import ComparisonScan, SpoolChunk, is_drawn
from crowdmetric.users.blocks import SPARE, Answers, arrange
from crowdmetric.users.population_sums import LARGEST_GRID, Law, PopulationBlock, blocks_of

__all__ = [
    "BLOCK_SIZE",
    "Chunk",
    "ChunkCache",
    "ChunkInMemory",
    "Crowd",
    "Sample",
    "crowd_in_memory",
    "crowd_on_disk",
    "sample_of",
]

Array = NDArray[Any]
Made = TypeVar("Made")

# Numbers in the (people, answers, p) temporary of a block: large enough for threads, small enough for a cache.
BLOCK_SIZE = 1 << 18
# With the ninety people that BLOCK_SIZE alone would give a block of 76 features, a pass takes 2.7 times as long.
FEWEST_PEOPLE = 256


class Chunk(Protocol):
    """Some people, in memory, on disk or on a device."""

    def blocks(self) -> Sequence[PopulationBlock]:
        """Return the people; always the same, in the same order."""
        ...

    def on(self, put: Callable[[Array], Any]) -> Chunk:
        """Return the people with arrays of another library, as `put` makes them."""
        ...


@dataclass(frozen=True)
class ChunkInMemory:
    """People in memory."""

    people: Sequence[PopulationBlock]

    def blocks(self) -> Sequence[PopulationBlock]:
        return self.people

    def on(self, put: Callable[[Array], Any]) -> Chunk:
        return ChunkInMemory([block.on(put) for block in self.people])


@dataclass(frozen=True)
class ChunkOnDevice:
    """People who are moved to arrays of another library at every pass."""

    chunk: Chunk
    put: Callable[[Array], Any]

    def blocks(self) -> Sequence[PopulationBlock]:
        return [block.on(self.put) for block in self.chunk.blocks()]

    def on(self, put: Callable[[Array], Any]) -> Chunk:
        return ChunkOnDevice(self.chunk, put)


@dataclass
class ChunkCache:
    """A cache of laid-out chunks, of at most `limit` bytes."""

    limit: int
    made: dict[int, Any] = field(default_factory=dict)
    size: int = 0
    _lock: Any = field(default_factory=Lock)

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkCache, (0,)  # the limit is for this process only

    def get_or_make(self, number: int, make: Callable[[], Made], bytes_of: Callable[[Made], int]) -> Made:
        """Return the cached value of a chunk, or make it, and cache it if there is room."""
        if number in self.made:
            kept: Made = self.made[number]
            return kept
        made = make()
        size = bytes_of(made)
        with self._lock:
            if self.size + size <= self.limit and number not in self.made:
                self.made[number] = made
                self.size += size
        return made


@dataclass(frozen=True)
class ChunkOnDisk:
    """A chunk of a scan; `items` are in the units of the fit."""

    number: int
    chunk: SpoolChunk
    items: Array
    cache: ChunkCache

    def blocks(self) -> Sequence[PopulationBlock]:
        return self.cache.get_or_make(self.number, self._make, lambda blocks: sum(map(bytes_of, blocks)))

    def _make(self) -> list[PopulationBlock]:
        answers = answers_in_chunk(self.chunk, self.items).merged()
        first = self.chunk.first_person
        return [replace(b, person=b.person + first) for b in blocks_of(arrange(answers, block_size=BLOCK_SIZE))]

    def on(self, put: Callable[[Array], Any]) -> Chunk:
        return ChunkOnDevice(self, put)


def bytes_of(block: PopulationBlock) -> int:
    """Return the memory that a block takes; arrays that repeat one value count it once."""
    arrays = block.arrays.values()
    return sum(a.nbytes if all(a.strides) else a.nbytes // max(a.shape[0], 1) for a in arrays)


@dataclass(frozen=True)
class Crowd:
    """Everybody whose answers are fitted.

    Attributes
    ----------
    chunks, units, span
        Their answers, the units of the items, and the dimensions in which items differ.
    n_users, users
        How many people there are, with informative answers or without; who they are, None for a scan.
    weight
        Of all answers.
    """

    chunks: Sequence[Chunk]
    units: Units
    span: ItemSpan
    n_users: int
    users: NDArray[Any] | None
    weight: float

    @property
    def d(self) -> int:
        """In how many dimensions items differ: the dimension of the fit."""
        return self.span.d

    def answers(self, rows: Rows) -> Answers:
        """Return answers about the same items in the coordinates of the fit."""
        return replace(rows.jointly(), items=self.span.inside(self.units.inside(rows.items)))

    def law_inside(self, law: Law) -> Law:
        """Return a law for all features, in the items' own units, in the coordinates of the fit."""
        return self.span.law_inside(self.units.law_inside(law))

    def law_outside(self, law: Law, *, free: bool) -> Law:
        """Return a law of the fit for all features, in the items' own units."""
        return self.units.law_outside(self.span.law_outside(law, free=free))


def crowd_in_memory(
    rows: Rows, blocks: int = 1, *, shown: bool = False, reduced: bool = True, join_above: int = LARGEST_GRID
) -> Crowd:
    """Return the crowd of validated rows, in blocks `blocks` times as large as `BLOCK_SIZE`.

    The outer products of a block are added up in an (n, n) matrix for n parameters. With many features a block has at
    least `FEWEST_PEOPLE`, because otherwise the additions would cost more than the products. With `shown`, people keep
    the items that they were asked about. With `reduced`, items are in coordinates of their span. `join_above` is as in
    `crowdmetric.users.population_sums.blocks_of`.
    """
    units = Units.of(rows.items, rows.pairs)
    items, span = _in_span(units.inside(rows.items), np.unique(rows.pairs), reduced=reduced)
    answers = replace(rows.jointly(), items=items).merged()
    size = max(blocks * BLOCK_SIZE, FEWEST_PEOPLE * degrees_of_freedom(span.d))
    people = arrange(answers, block_size=size, spare=SPARE)
    parts = blocks_of(people, answers.pairs if shown else None, join_above)
    chunks = [ChunkInMemory([block]) for block in parts]
    return Crowd(chunks, units, span, rows.users.size, rows.users, float(rows.answer_weight.sum()))


def crowd_on_disk(scan: ComparisonScan, items: Array, cache: ChunkCache, *, reduced: bool = True) -> Crowd:
    """Return the crowd of a scan about validated items (N, d); chunks stay in memory as far as the cache has room."""
    used = np.flatnonzero(scan.used)
    units = Units.of(items, used)
    inside, span = _in_span(units.inside(items), used, reduced=reduced)
    chunks = [ChunkOnDisk(number, chunk, inside, cache) for number, chunk in enumerate(scan.chunks)]
    return Crowd(chunks, units, span, scan.n_users, None, scan.total_weight)


def _in_span(items: Array, used: NDArray[np.intp], *, reduced: bool) -> tuple[Array, ItemSpan]:
    """Return centered items in coordinates of the span of those that were compared, and the span."""
    span = ItemSpan.of(items[used]) if reduced else ItemSpan.whole(items.shape[1])
    return span.inside(items), span


@dataclass(frozen=True)
class Sample:
    """How many people have informative answers, by the dimension q that their answers span, and some of the people."""

    people: Counter[int]
    blocks: list[PopulationBlock]

    @staticmethod
    def of(blocks: Sequence[PopulationBlock]) -> Sample:
        """Return a sample of all people."""
        people: Counter[int] = Counter()
        for block in blocks:
            people[block.span.shape[1]] += block.person.size
        return Sample(people, list(blocks))

    def __add__(self, other: Sample) -> Sample:
        return Sample(self.people + other.people, self.blocks + other.blocks)

    def merged(self) -> Sample:
        """Return the same people in as few blocks as `BLOCK_SIZE` allows, in the order of their numbers."""
        alike: dict[tuple[int, int, int], list[PopulationBlock]] = {}
        for block in self.blocks:
            alike.setdefault((block.total.shape[1], block.span.shape[1], block.size), []).append(block)
        blocks = []
        for (m, _, _), several in sorted(alike.items()):
            arrays: dict[str, Any] = {
                name: np.concatenate([b.arrays[name] for b in several]) for name in several[0].arrays
            }
            whole = replace(several[0], **arrays)
            size = max(1, BLOCK_SIZE // (m * degrees_of_freedom(whole.span.shape[2])))
            blocks += [whole.take(slice(begin, begin + size)) for begin in range(0, whole.person.size, size)]
        return Sample(self.people, blocks)


def sample_of(chunk: Chunk, step: int) -> Sample:
    """Return one in `step` of the people of a chunk, drawn by a hash of their number, and a count of them all."""
    everybody = Sample.of(chunk.blocks())
    drawn = [block.take(is_drawn(block.person, step)) for block in everybody.blocks]
    return Sample(everybody.people, [block for block in drawn if block.person.size])
