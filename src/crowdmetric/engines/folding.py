"""The order in which sums are added, the same for every engine, so all engines round in the same way.

Jobs are added in bundles of neighbors, and then the bundles. How many jobs make a bundle depends on how many there
are and on nothing else; a remote engine sends back one sum per bundle instead of one per job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import reduce
from itertools import islice
from operator import add
from typing import Any, Self, TypeVar

from crowdmetric.errors import DataError

__all__ = ["FieldSums", "bundles", "fold", "sum_of_bundle"]

Job = TypeVar("Job")
Result = TypeVar("Result")

# Maximum number of bundles: enough for as many workers to share, few enough that each is worth a message.
MOST_BUNDLES = 64


class FieldSums:
    """A dataclass of sums: two are added field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))  # type: ignore[arg-type]


def _size(jobs: int) -> int:
    if not jobs:
        raise DataError("there is nothing to sum over; at least one chunk of people is needed")
    return -(-jobs // MOST_BUNDLES)


def bundles(jobs: Sequence[Job]) -> list[list[Job]]:
    """Return the jobs in bundles of neighbors."""
    size = _size(len(jobs))
    return [list(jobs[begin : begin + size]) for begin in range(0, len(jobs), size)]


def fold(results: Iterable[Result], jobs: int) -> Result:
    """Return the sum of the results of this many jobs, bundle by bundle."""
    size, rest = _size(jobs), iter(results)
    return reduce(add, (reduce(add, islice(rest, size)) for _ in range(0, jobs, size)))


def sum_of_bundle(function: Callable[[Any], Any], bundle: Sequence[Any]) -> Any:
    """Return the sum over one bundle."""
    return reduce(add, map(function, bundle))
