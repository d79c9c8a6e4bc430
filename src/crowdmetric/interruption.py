"""Ctrl-C ends a command, whatever line is running.

Python turns the signal into a KeyboardInterrupt in whatever line runs. Two places lose it: an import, where libraries
turn it into an ImportError or go on half-loaded, and a destructor or a callback of compiled code, where Python prints
"Exception ignored" and goes on. So while a command's modules are imported, when there is nothing to clean up, the
process ends at once; and a KeyboardInterrupt that was lost is raised again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Interruption", "ending_at_once"]

# Seconds after which a lost interrupt is raised again: the destructor that swallowed it has finished by then.
AGAIN = 0.05


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def ending_at_once(message: str, code: int) -> Iterator[None]:
    """End the process on Ctrl-C, with one line and an exit code, while the body runs."""
    if not _on_main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # another handler is installed for Ctrl-C
        return

    def end(*_: Any) -> None:
        os.write(2, f"{message}\n".encode())
        os._exit(code)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Interruption:
    """Whether Ctrl-C was pressed while the body ran; an interrupt that was lost comes again."""

    def __init__(self) -> None:
        self.happened = False

    @contextmanager
    def watched(self) -> Iterator[Interruption]:
        """Watch for Ctrl-C while the body runs."""
        if not _on_main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield self
            return
        hook = sys.unraisablehook
        signal.signal(signal.SIGINT, self._interrupt)
        sys.unraisablehook = self._unraisable
        if hasattr(signal, "SIGALRM"):
            signal.signal(signal.SIGALRM, self._interrupt)
        try:
            yield self
        except BaseException as error:
            if self.happened:
                _let_go(error)
            raise
        finally:
            if hasattr(signal, "SIGALRM"):
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
            sys.unraisablehook = hook
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupt(self, *_: Any) -> None:
        self.happened = True
        raise KeyboardInterrupt

    def _unraisable(self, lost: Any) -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            if not self.happened:  # otherwise it is a destructor of a half-made object, whose error helps nobody
                sys.__unraisablehook__(lost)
        elif hasattr(signal, "SIGALRM"):
            signal.setitimer(signal.ITIMER_REAL, AGAIN)


def _let_go(error: BaseException | None) -> None:
    """Drop what the interrupted functions held, while complaints of destructors are still caught."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__
