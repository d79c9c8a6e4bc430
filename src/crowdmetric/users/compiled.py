"""The one place that imports Numba: how every compiled loop is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

__all__ = ["compiled"]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Return the function compiled on its first call, kept on disk, and free of the interpreter's lock."""
    return cast("Function", numba.njit(cache=True, error_model="numpy", nogil=True)(function))
