"""The one place that imports Numba: how every compiled loop is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

__all__ = ["compiled", "compiled_sums"]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Return the function compiled on its first call, kept on disk, and free of the interpreter's lock."""
    return cast("Function", numba.njit(cache=True, error_model="numpy", nogil=True)(function))


def compiled_sums(function: Function) -> Function:
    """Return the same, with sums taken in whichever order fills the processor's lanes.

    Rounding apart the result is the same, and on one machine it is always the same.
    """
    orders = {"reassoc", "contract", "nsz"}
    return cast("Function", numba.njit(cache=True, error_model="numpy", nogil=True, fastmath=orders)(function))
