"""The one place that imports Numba: how every compiled loop is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

from crowdmetric.progress import mention

__all__ = ["compiled", "compiled_sums"]

Function = TypeVar("Function", bound=Callable[..., Any])


class _CompilingOnce(event.Listener):
    """Says that loops are being compiled: that takes seconds, and only until they are on disk."""

    def on_start(self, event: Any) -> None:
        mention("compiling loops once, later runs find them on disk")

    def on_end(self, event: Any) -> None:
        """Say nothing."""


event.register("numba:compile", _CompilingOnce())  # type: ignore[no-untyped-call]


def compiled(function: Function) -> Function:
    """Return the function compiled on its first call, kept on disk, and free of the interpreter's lock."""
    return cast("Function", numba.njit(cache=True, error_model="numpy", nogil=True)(function))


def compiled_sums(function: Function) -> Function:
    """Return the same, with sums taken in whichever order fills the processor's lanes.

    Rounding apart the result is the same, and on one machine it is always the same.
    """
    orders = {"reassoc", "contract", "nsz"}
    return cast("Function", numba.njit(cache=True, error_model="numpy", nogil=True, fastmath=orders)(function))
