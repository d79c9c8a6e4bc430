"""Progress on a terminal, nothing in a pipe. The only module that imports rich, which is optional."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TextIO

__all__ = ["show_progress"]

Say = Callable[[str], None]


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
        Standard error by default; nothing is written unless it is a terminal.
    """
    stream = sys.stderr if stream is None else stream
    if quiet or not stream.isatty():
        yield _silent
        return
    console = _rich_console(stream)
    if console is None:
        yield from _plainly(title, stream)
        return
    with console.status(title) as status:
        yield lambda text: status.update(f"{title}: {text}")


def _silent(text: str) -> None:
    """Say nothing."""


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
