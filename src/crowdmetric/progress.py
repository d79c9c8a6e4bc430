"""Progress on a terminal, a line every half minute in a pipe. The only module that imports rich, which is optional."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Event, Thread
from time import monotonic
from typing import Any, TextIO

__all__ = ["in_words", "mention", "show_progress"]

Say = Callable[[str], None]

# Seconds between two lines in a pipe.
PAUSE = 30.0
# The progress displays that are active now, the newest first.
_shown_now: list[Say] = []


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
    with _shown(title, quiet, sys.stderr if stream is None else stream) as say:
        _shown_now.append(say)
        try:
            yield say
        finally:
            _shown_now.remove(say)


def mention(text: str) -> None:
    """Add what is being done to the progress that is shown now, if any is."""
    if _shown_now:
        _shown_now[-1](text)


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
