"""A design that learns while asking: `crowdmetric.design.LiveDesign`, or an object of the user's own.

``kind = "live"`` in ``[design]`` asks as `LiveDesign` does. ``hook = "module:function"`` beside it names a function of
(features (N, d) in units of their spread, ids, questions per person) that returns an object with two methods::

    ask(person)            -> pairs of item ids for this person
    tell(person, answers)  -> None; answers are (left, right, choice) of somebody who finished

If what `ask` returns has a ``purpose`` of ``"random"``, the answers are kept for evaluation; if the object has a method
``summary()``, the researcher's page shows what it says. If it has ``wave`` and ``wait(seconds)`` as `LiveDesign` does,
the first people (with ``wait = true`` everybody new) wait until questions have been chosen. At a restart everybody who
finished is told again, so the object need not keep anything itself. All methods run on a thread of their own, one call
at a time.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from crowdmetric.collect.places import DESIGN, EVALUATION
from crowdmetric.collect.settings import Settings
from crowdmetric.collect.sheets import Place
from crowdmetric.collect.study_items import StudyItems
from crowdmetric.errors import DataError

__all__ = ["Hook", "LiveQuestions", "open_live"]

Pair = tuple[str, str]

# Longest time in seconds for which the first people wait for the first design, and anybody if the study says so.
FIRST_WAIT, LONGEST_WAIT = 20.0, 120.0


class Hook(Protocol):
    """What a live design has to offer."""

    def ask(self, person: str) -> Sequence[Pair]:
        """Return pairs of item ids for this person."""

    def tell(self, person: str, answers: Sequence[tuple[str, str, str]]) -> None:
        """Learn from the answers (left, right, choice) of somebody who finished."""


def open_live(settings: Settings, folder: Path, items: StudyItems) -> LiveQuestions:
    """Return the live design of a study."""
    name, questions = settings.design.hook, settings.study.questions
    if name:
        return LiveQuestions(load_hook(name, folder, items, questions), items.ids)
    # the fit and the choice of questions run in a separate process, so nobody waits for them
    helper = HelperProcess()
    make: Any = import_module("crowdmetric.design").LiveDesign  # takes a while to load
    design: Hook = make(
        items.scaled, answers=questions, item_ids=items.ids, random_share=settings.design.evaluation,
        within=settings.design.within, budget=settings.study.people, executor=helper, seed=settings.design.seed,
    )  # fmt: skip
    return LiveQuestions(design, items.ids, helper, patient=settings.design.wait)


def load_hook(name: str, folder: Path, items: StudyItems, questions: int) -> Hook:
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
    made: Hook = make(items.scaled, items.ids, questions)
    return made


class HelperProcess(Executor):
    """One process of low priority that can be ended in the middle of its work, so the server stops at once."""

    def __init__(self) -> None:
        self._pool = get_context("spawn").Pool(1, os.nice if os.name == "posix" else None, (15,))

    def submit(self, function: Callable[..., Any], /, *values: Any, **named: Any) -> Future[Any]:
        """Return what the function will return."""
        future: Future[Any] = Future()
        self._pool.apply_async(function, values, named, future.set_result, future.set_exception)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the process at once."""
        self._pool.terminate()
        self._pool.join()


class LiveQuestions:
    """A live design behind a thread, its questions checked.

    `helper` is the process that it computes in; if `patient`, new people wait while questions are chosen again.
    """

    def __init__(
        self, hook: Hook, ids: Sequence[str], helper: HelperProcess | None = None, *, patient: bool = False
    ) -> None:
        self.hook, self.known, self.helper, self.patient = hook, set(ids), helper, patient
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="live")
        self._begun = time.monotonic()

    async def begin(self) -> None:
        """Begin to choose the first questions, before anybody comes."""
        self._begun = time.monotonic()
        if self.helper is not None:
            await self._call(self.hook.redesign_if_due)  # type: ignore[attr-defined]  # it is a LiveDesign

    async def ask(self, person: str) -> Place:
        """Return this person's questions; a DataError if the hook asks about what is not there."""
        asked = await self._call(self._ask, person)
        pairs = tuple((str(a), str(b)) for a, b in asked)
        wrong = [pair for pair in pairs if pair[0] == pair[1] or not self.known.issuperset(pair)]
        if wrong:
            raise DataError(
                f"the live design asks about {wrong[0]}, but two different items of the table were expected"
            )
        return Place(EVALUATION if getattr(asked, "purpose", "") == "random" else DESIGN, pairs)

    def _ask(self, person: str) -> Sequence[Pair]:
        wait = getattr(self.hook, "wait", None)
        if wait is not None and self.patient:
            wait(LONGEST_WAIT)
        elif wait is not None and getattr(self.hook, "wave", None) is None:
            wait(max(self._begun + FIRST_WAIT - time.monotonic(), 0.0))
        return self.hook.ask(person)

    async def tell(self, person: str, answers: Sequence[tuple[str, str, str]]) -> None:
        """Pass on somebody's answers."""
        await self._call(self.hook.tell, person, answers)

    async def summary(self) -> str:
        """Return where the design stands, in words; nothing if it does not say."""
        say = getattr(self.hook, "summary", None)
        return "" if say is None else str(await self._call(say))

    async def _call(self, method: Any, *values: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, method, *values)

    def close(self) -> None:
        """End the thread and the process; what they compute is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self.helper is not None:
            self.helper.shutdown()
