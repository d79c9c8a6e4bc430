"""What an engine is: a place where sums over people are taken.

Code that uses an engine asks what the engine can do, not which class it is. Any object with the members of `Engine` is
an engine; see docs/how-to/add-an-engine.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

__all__ = ["MEMBERS", "DeviceEngine", "Engine", "device_of"]

Job = TypeVar("Job")
Result = TypeVar("Result")


@runtime_checkable
class Engine(Protocol):
    """A place for sums over chunks of people.

    Attributes
    ----------
    has_own_arrays : bool
        Whether people move to arrays of another library (by a chunk's ``on(put)``); then it is a `DeviceEngine`.
    is_double : bool
        Whether sums are of float64: fits by scoring, ridges and standard errors need that.
    is_remote : bool
        Whether chunks are sent to other processes, which is not worth it for passes over few people.
    blocks : int
        How many times as large blocks of people should be as on a processor.
    """

    @property
    def has_own_arrays(self) -> bool: ...

    @property
    def is_double(self) -> bool: ...

    @property
    def is_remote(self) -> bool: ...

    @property
    def blocks(self) -> int: ...

    def sum(self, function: Callable[[Job], Result], jobs: Sequence[Job]) -> Result:
        """Return the sum of the results over jobs, added in one order (`crowdmetric.engines.folding`)."""
        ...


class DeviceEngine(Engine, Protocol):
    """An engine with arrays of another library, on a GPU for example."""

    device: Any
    dtype: Any
    precision: str
    """A sentence on what the engine's precision costs, if the user did not choose it; else an empty text."""

    @property
    def out_of_memory(self) -> type[BaseException]:
        """What is raised where the device's memory is too small."""
        ...

    def asarray(self, array: Any, *, double: bool = False) -> Any:
        """Return an array on the device: numbers in the engine's precision, row numbers as they are.

        With `double`, return a copy in float64 of anything.
        """
        ...

    def answers_at_once(self, numbers: int) -> int:
        """Return how many answers to take together if each temporarily needs this many numbers."""
        ...


MEMBERS = ("has_own_arrays", "is_double", "is_remote", "blocks", "sum")


def device_of(engine: Engine | None) -> DeviceEngine | None:
    """Return the engine where it has arrays of its own."""
    return cast(DeviceEngine, engine) if engine is not None and engine.has_own_arrays else None
