"""How every loop is compiled: the one place that imports Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

from crowdmetric.progress import mention

__all__ = ["compiled", "compiled_sums"]

Function = TypeVar("Function", bound=Callable[..., Any])


class _CompilingOnce(event.Listener):
    """Mentions that loops are being compiled, which takes seconds and happens once per machine."""

    def on_start(self, event: Any) -> None:
        mention("compiling loops once, later runs find them on disk")

    def on_end(self, event: Any) -> None:
        """Say nothing."""


event.register("numba:compile", _CompilingOnce())  # type: ignore[no-untyped-call]


def compiled(function: Function) -> Function:
    """Return the function compiled on its first call, kept on disk, and free of the interpreter's lock."""
    return cast("Function", numba.njit(cache=True, error_model="numpy", nogil=True)(function))


def compiled_sums(function: Function) -> Function:
    """Return the same, with sums added in the order that suits vector instructions.

    Results differ by rounding only, and do not change on one machine.
    """
    orders = {"reassoc", "contract", "nsz"}
    return cast("Function", numba.njit(cache=True, error_model="numpy", nogil=True, fastmath=orders)(function))
