"""Checks of what users give, in one place: whole numbers, positive numbers, names, arrays; each with its message."""

from __future__ import annotations

from collections.abc import Collection
from math import log10
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError

__all__ = [
    "SMALLEST",
    "as_array",
    "check_metric",
    "check_size",
    "function_or_none",
    "instance_of",
    "is_accurate",
    "numeric_array",
    "one_of",
    "positive_number",
    "real_number",
    "seed_number",
    "share_of_one",
    "shown",
    "true_or_false",
    "whole_number",
]

Kind = TypeVar("Kind")

# Outside this range, squares and products overflow or underflow in double precision, and results would be wrong without
# notice.
SMALLEST, LARGEST = 1e-60, 1e60
# NumPy counts in 64 bits; no memory holds more people, answers or items than the second number.
LARGEST_WHOLE, MOST_COUNTED = 2**63 - 1, 10**9
# Values are shown in messages up to this many characters.
LONGEST_SHOWN = 80


def whole_number(value: Any, name: str, least: int = 1, most: int = MOST_COUNTED) -> int:
    """Return a whole number from `least` to `most`, Python's or NumPy's; True, 1.0 and '1' are refused."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise DataError(f"{name}={shown(value)} is not a whole number of at least {least}")
    if int(value) > most:
        raise DataError(f"{name}={shown(value)} is more than {most:,}, the largest that can be meant; lower it")
    return int(value)


def seed_number(value: Any, name: str) -> int:
    """Return the seed of a random generator."""
    return whole_number(value, name, 0, LARGEST_WHOLE)


def positive_number(value: Any, name: str) -> float:
    """Return a positive number, Python's or NumPy's, of a size that gives accurate results."""
    number = real_number(value)
    if not 0.0 < number < np.inf:
        raise DataError(f"{name}={shown(value)} is not a positive finite number")
    if not SMALLEST <= number <= LARGEST:
        raise DataError(
            f"{name}={shown(value)} is not between {SMALLEST:g} and {LARGEST:g}, the range of accurate results; rescale"
        )
    return number


def share_of_one(value: Any, name: str) -> float:
    """Return a share from 0 to 1 as a float."""
    number = real_number(value)
    if not 0.0 <= number <= 1.0:
        raise DataError(f"{name}={shown(value)}, but a share from 0 to 1 was expected")
    return number


def real_number(value: Any) -> float:
    """Return a number, Python's or NumPy's, as a float: NaN for anything else, infinity where it is too large."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return np.nan
    number: Any = value
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def shown(value: Any) -> str:
    """Return a value for a message: the beginning of a long one; of an integer too long to read, how long it is."""
    if isinstance(value, Integral) and not isinstance(value, bool) and abs(int(value)) > LARGEST_WHOLE:
        return f"an integer of {int(log10(abs(int(value)))) + 1} digits"
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def one_of(value: Any, name: str, known: Collection[str]) -> str:
    """Return one of the known names; an array or a list is refused."""
    if not isinstance(value, str) or value not in known:
        raise DataError(f"{name}={shown(value)} is not known; choose one of {', '.join(map(repr, known))}")
    return value


def true_or_false(value: Any, name: str) -> bool:
    """Return True or False, Python's or NumPy's; text and numbers are refused."""
    if not isinstance(value, bool | np.bool_):
        raise DataError(f"{name}={shown(value)} is neither True nor False; give one of them")
    return bool(value)


def instance_of(value: Any, name: str, kind: type[Kind], how: str) -> Kind:
    """Return an object of a class of ours; `how` says how to get one."""
    if not isinstance(value, kind):
        raise DataError(f"{name} is of type {type(value).__name__}, but {kind.__name__} was expected; {how}")
    return value


def function_or_none(value: Any, name: str, of: str) -> Any:
    """Return a function that the caller gave, of what `of` says, or None."""
    if value is not None and not callable(value):
        raise DataError(f"{name}={shown(value)} is not a function of {of}; give one, such as print, or leave it out")
    return value


def check_metric(metric: Any, d: int, name: str) -> NDArray[np.float64]:
    """Return a given M as a float array if it is (d, d), finite, symmetric and positive semi-definite."""
    try:
        M = np.array(numeric_array(metric, name), dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{name} cannot be read as numbers ({error}); give a ({d}, {d}) array") from None
    if M.shape != (d, d):
        raise DataError(f"{name} has shape {M.shape}, but items have {d} features; it must be ({d}, {d})")
    if not np.all(np.isfinite(M)):
        raise DataError(f"{name} has entries that are not finite; give a real symmetric matrix")
    check_size(M, name)
    size = float(np.linalg.norm(M))
    if np.linalg.norm(M - M.T) > 1e-8 * size:
        raise DataError(f"{name} is not symmetric, but a metric is; give (M + M.T) / 2")
    M = 0.5 * (M + M.T)
    lowest = float(np.linalg.eigvalsh(M)[0])
    if lowest < -1e-8 * size:
        raise DataError(
            f"{name} has the eigenvalue {lowest:.3g}, but none may be negative; "
            "project it with crowdmetric.symmetric.project_psd"
        )
    return M


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Return an array-like as an array of real numbers, text or objects.

    Rows of different lengths, complex numbers, dates, bytes and masked values are refused: NumPy would make them into
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
    if array.dtype.kind in "cmMVS" or (array.dtype.kind == "O" and any(isinstance(v, bytes) for v in array.flat)):
        raise DataError(f"{name} has dtype {array.dtype}; real numbers were expected")
    return array


def numeric_array(values: Any, name: str) -> NDArray[Any]:
    """Return `as_array`, without text, which NumPy would read as numbers where it looks like some."""
    array = as_array(values, name)
    if array.dtype.kind == "U" or (array.dtype.kind == "O" and any(isinstance(cell, str) for cell in array.flat)):
        raise DataError(f"{name} cannot be read as numbers, because it holds text; give a numeric array")
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
