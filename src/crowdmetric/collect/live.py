"""The hook for a design that learns while asking.

``hook = "module:function"`` in ``[design]`` names a function of (features (N, d), ids, questions per person) that
returns an object with two methods::

    ask(person)            -> pairs of item ids for this person
    tell(person, answers)  -> None; answers are (left, right, choice) of somebody who finished

At a restart everybody who finished is told again, so the object need not keep anything itself. Both methods run on a
thread of their own, one call at a time.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Protocol

from crowdmetric.collect.items import StudyItems
from crowdmetric.errors import DataError

__all__ = ["LiveDesign", "LiveQuestions", "load_hook"]

Pair = tuple[str, str]


class LiveDesign(Protocol):
    """What a hook makes."""

    def ask(self, person: str) -> Sequence[Pair]:
        """Return pairs of item ids for this person."""

    def tell(self, person: str, answers: Sequence[tuple[str, str, str]]) -> None:
        """Learn from the answers (left, right, choice) of somebody who finished."""


def load_hook(name: str, folder: Path, items: StudyItems, questions: int) -> LiveDesign:
    """Return the object that the function ``module:function`` makes; modules in the study's folder are found too."""
    module, colon, function = name.partition(":")
    sys.path.insert(0, str(folder))
    try:
        make = getattr(import_module(module), function) if colon else None
    except (ImportError, AttributeError) as error:
        raise DataError(f"hook in [design] is {name!r}, which cannot be imported ({error}); correct it") from error
    finally:
        sys.path.remove(str(folder))
    if make is None:
        raise DataError(f"hook in [design] is {name!r}, but 'module:function' was expected")
    made: LiveDesign = make(items.scaled, items.ids, questions)
    return made


class LiveQuestions:
    """A live design behind a thread, its questions checked."""

    def __init__(self, hook: LiveDesign, ids: Sequence[str]) -> None:
        self.hook, self.known = hook, set(ids)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="live")

    async def ask(self, person: str) -> tuple[Pair, ...]:
        """Return this person's questions; a DataError if the hook asks about what is not there."""
        pairs = await asyncio.get_running_loop().run_in_executor(self._thread, self.hook.ask, person)
        checked = tuple((str(a), str(b)) for a, b in pairs)
        wrong = [pair for pair in checked if pair[0] == pair[1] or not self.known.issuperset(pair)]
        if wrong:
            raise DataError(
                f"the live design asks about {wrong[0]}, but two different items of the table were expected"
            )
        return checked

    async def tell(self, person: str, answers: Sequence[tuple[str, str, str]]) -> None:
        """Pass on somebody's answers."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self.hook.tell, person, answers)
