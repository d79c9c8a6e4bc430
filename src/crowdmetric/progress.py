"""Progress on a terminal, a line every half minute in a pipe, and how long work will take.

What will take over ten seconds is said before it is waited for (`foretell`), and again if it turns out more than twice
as long. The time comes from work that was measured in the same step: passes over people, or fits that are done
(`TimeLeft`).

The only module that imports rich, which is optional.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from threading import Event, Thread
from time import monotonic, perf_counter
from typing import Any, TextIO

__all__ = ["TimeLeft", "foretell", "in_words", "mention", "show_progress"]

Say = Callable[[str], None]

# Seconds between two lines in a pipe, and those from which a step is said to take long before it is waited for.
PAUSE, LONG = 30.0, 10.0


@dataclass
class _Shown:
    """A step that is shown now."""

    title: str
    quiet: bool
    stream: TextIO
    say: Say
    foretold: float = 0.0


# The steps that are shown now, the newest last.
_shown_now: list[_Shown] = []


@contextmanager
def show_progress(title: str, *, quiet: bool = False, stream: TextIO | None = None) -> Iterator[Say]:
    """Show `title` while the body works, and yield a function that adds what it is doing.

    Parameters
    ----------
    title : str
        Such as ``Learning the metric``.
    quiet : bool
        Show nothing, even on a terminal.
    stream : text stream
        Standard error by default. If it is no terminal, it gets a line every half minute.
    """
    stream = sys.stderr if stream is None else stream
    with _shown(title, quiet, stream) as say:
        step = _Shown(title, quiet, stream, say)
        _shown_now.append(step)
        try:
            yield say
        finally:
            _shown_now.remove(step)


def mention(text: str) -> None:
    """Add what is being done to the progress that is shown now, if any is."""
    if _shown_now:
        _shown_now[-1].say(text)


def foretell(seconds: float) -> None:
    """Write a line on how long the step that is shown now still takes, if that is over ten seconds.

    A second time is written only if it is more than twice the first.
    """
    if _shown_now and seconds > max(LONG, 2.0 * _shown_now[-1].foretold):
        step = _shown_now[-1]
        step.foretold = seconds
        if not step.quiet:
            clear = "\r\x1b[K" if step.stream.isatty() else ""
            text = f"{clear}crowdmetric: {step.title} takes about {in_words(seconds)} more"
            print(text, file=step.stream, flush=True)


class TimeLeft:
    """How long a loop of jobs still takes: what is left of a kind takes as long as that kind has taken.

    Kinds that have not been seen take as long as the others on average.

    Parameters
    ----------
    kinds : iterable of str
        The kind of every job.
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        self._jobs, self._done, self._spent = Counter(kinds), Counter[str](), Counter[str]()
        self._clock = perf_counter()

    def after(self, kind: str, seconds: float) -> str:
        """Count a job, which took `seconds` of a processor; return how far the loop is, and foretell the rest."""
        self._done[kind] += 1
        self._spent[kind] += seconds  # type: ignore[assignment]
        done, spent = self._done.total(), self._spent.total()
        left = sum(
            (count - self._done[kind]) * (self._spent[kind] / self._done[kind] if self._done[kind] else spent / done)
            for kind, count in self._jobs.items()
        )
        seconds = (perf_counter() - self._clock) * left / max(spent, 1e-9)
        foretell(seconds)
        return f"{done} of {self._jobs.total()} fits done, about {in_words(seconds)} left"


@contextmanager
def _shown(title: str, quiet: bool, stream: TextIO) -> Iterator[Say]:
    """Show a title in the way that a stream allows."""
    if quiet:
        yield _silent
        return
    if not stream.isatty():
        yield from _in_a_pipe(title, stream)
        return
    console = _rich_console(stream)
    if console is None:
        yield from _plainly(title, stream)
        return
    with console.status(title) as status:
        yield lambda text: status.update(f"{title}: {text}")


def _silent(text: str) -> None:
    """Say nothing."""


def _in_a_pipe(title: str, stream: TextIO) -> Iterator[Say]:
    """Write a line every half minute, with what was said last: logs show that the work goes on."""
    said, done, clock = [""], Event(), monotonic()

    def tell() -> None:
        while not done.wait(PAUSE):
            text = f": {said[0]}" if said[0] else ""
            print(f"crowdmetric: {title}{text} ({in_words(monotonic() - clock)})", file=stream, flush=True)

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield lambda text: said.__setitem__(0, text)
    finally:
        done.set()
        thread.join()


def in_words(seconds: float) -> str:
    """Return a time in words, such as ``45 s`` or ``3 min``."""
    return f"{seconds:.0f} s" if seconds < 90.0 else f"{seconds / 60.0:.0f} min"


def _rich_console(stream: TextIO) -> Any:
    """Return a rich console on `stream`, or None where rich is not installed."""
    try:
        return import_module("rich.console").Console(file=stream)
    except ImportError:
        return None


def _plainly(title: str, stream: TextIO) -> Iterator[Say]:
    """Write a line that is overwritten by the next one and wiped at the end."""

    def say(text: str) -> None:
        print(f"\r\x1b[K{title}: {text}", end="", file=stream, flush=True)

    print(f"{title} …", end="", file=stream, flush=True)
    try:
        yield say
    finally:
        print("\r\x1b[K", end="", file=stream, flush=True)
