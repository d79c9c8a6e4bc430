"""Checks of what users give, in one place: whole numbers, positive numbers, names, arrays; each with its message."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError

__all__ = [
    "SMALLEST",
    "as_array",
    "check_size",
    "instance_of",
    "is_accurate",
    "one_of",
    "positive_number",
    "share_of_one",
    "true_or_false",
    "whole_number",
]

Kind = TypeVar("Kind")

# Outside this range, squares and products overflow or underflow in double precision, and results would be wrong without
# notice.
SMALLEST, LARGEST = 1e-60, 1e60


def whole_number(value: Any, name: str, least: int = 1) -> int:
    """Return a whole number of at least `least`, Python's or NumPy's; True, 1.0 and '1' are refused."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise DataError(f"{name}={value!r} is not a whole number of at least {least}")
    return int(value)


def positive_number(value: Any, name: str) -> float:
    """Return a positive number, Python's or NumPy's, of a size that gives accurate results."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < np.inf:
        raise DataError(f"{name}={value!r} is not a positive finite number")
    if not SMALLEST <= float(value) <= LARGEST:
        raise DataError(
            f"{name}={value!r} is not between {SMALLEST:g} and {LARGEST:g}, the range of accurate results; rescale"
        )
    return float(value)


def share_of_one(value: Any, name: str) -> float:
    """Return a share from 0 to 1 as a float."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise DataError(f"{name}={value!r}, but a share from 0 to 1 was expected")
    return float(value)


def one_of(value: Any, name: str, known: Collection[str]) -> str:
    """Return one of the known names; an array or a list is refused."""
    if not isinstance(value, str) or value not in known:
        raise DataError(f"{name}={value!r} is not known; choose one of {', '.join(map(repr, known))}")
    return value


def true_or_false(value: Any, name: str) -> bool:
    """Return True or False, Python's or NumPy's; text and numbers are refused."""
    if not isinstance(value, bool | np.bool_):
        raise DataError(f"{name}={value!r} is neither True nor False; give one of them")
    return bool(value)


def instance_of(value: Any, name: str, kind: type[Kind], how: str) -> Kind:
    """Return an object of a class of ours; `how` says how to get one."""
    if not isinstance(value, kind):
        raise DataError(f"{name} is of type {type(value).__name__}, but {kind.__name__} was expected; {how}")
    return value


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Return an array-like as an array of real numbers, text or objects.

    Rows of different lengths, complex numbers, dates and masked values are refused: NumPy would make them into
    something else.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DataError(
            f"{name} has {int(np.sum(np.ma.getmaskarray(values)))} masked values; fill them in or drop those rows"
        )
    if hasattr(values, "detach"):  # a tensor, perhaps on a GPU
        values = values.detach().cpu()
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:  # rows of different lengths
        raise DataError(f"{name} cannot be read as an array ({error}); give rows of one length") from None
    if array.dtype.kind in "cmMV":
        raise DataError(f"{name} has dtype {array.dtype}; real numbers were expected")
    return array


def is_accurate(largest: float) -> bool:
    """Return whether numbers whose largest has this absolute value can be calculated with: not so for NaN."""
    return largest == 0.0 or SMALLEST <= largest <= LARGEST


def check_size(array: NDArray[np.float64], name: str) -> None:
    """Refuse numbers that are finite but too large, or all too small, to calculate with."""
    largest = max(float(array.max(initial=0.0)), -float(array.min(initial=0.0)))
    if not is_accurate(largest):
        raise DataError(
            f"{name} goes up to {largest:.3g}, but only sizes from {SMALLEST:g} to {LARGEST:g} are accurate; "
            "change the unit"
        )
