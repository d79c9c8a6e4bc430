"""What a column can be, and columns of ids.

Whatever the source, a column arrives as one of

====================  ====================================================================================
int64                 whole numbers, none missing
float64               numbers; a missing one is NaN (whole numbers with a gap too)
object of str         text; a missing or empty cell is None
bool, other dtypes    as they came: who needs such a column says whether it can be used
====================  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError

__all__ = ["Column", "Columns", "as_column", "as_ids", "listed", "objects", "plain", "typed", "unique_ids"]

Column = NDArray[Any]
Columns = dict[str, Column]

EXACT_IN_FLOAT64 = 2**53  # larger whole numbers would change when a missing value makes their column float64


def objects(values: Iterable[Any]) -> Column:
    """Return any values as an object array ``(T,)``."""
    return np.fromiter(values, dtype=object)


def as_column(values: Any, name: str) -> Column:
    """Return `values` as one of the column kinds that this module's docstring lists."""
    if isinstance(values, Iterable) and not hasattr(values, "__array__") and not isinstance(values, str):
        values = objects(values)  # NumPy itself would turn the list [1, "a"] into two strings
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DataError(
            f"column {name!r} has {int(np.sum(np.ma.getmaskarray(values)))} masked values; fill them in or drop "
            "those rows"
        )
    array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"column {name!r} has shape {array.shape}; one value per row was expected")
    if array.dtype.kind in "UT":
        array = array.astype(object)
    if array.dtype.kind == "O":
        return typed(array)
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        return array
    return array.astype({"i": np.int64, "u": np.int64, "f": np.float64}.get(array.dtype.kind, array.dtype))


def typed(cells: Column) -> Column:
    """Return an object column with the dtype its values share, or with None if a value is missing."""
    kinds: set[type] = set(map(type, cells))
    if kinds == {str}:
        missing = np.asarray(cells == "", dtype=bool)
    else:
        missing = np.fromiter(map(_is_missing, cells), bool, len(cells))
        kinds = set(map(type, cells[~missing]))
    with_none = cells.copy()
    with_none[missing] = None
    if kinds and kinds <= {bool, np.bool_}:
        return with_none if missing.any() else cells.astype(bool)
    if not all(issubclass(kind, Real) and not issubclass(kind, bool) for kind in kinds):
        return with_none
    if not all(issubclass(kind, Integral) for kind in kinds):
        return with_none.astype(np.float64)
    return _whole_numbers(with_none, missing)


def _whole_numbers(cells: Column, missing: NDArray[np.bool_]) -> Column:
    """Return int64, or float64 with NaN for None; where either would change a number, `cells` themselves."""
    try:
        whole = np.where(missing, 0, cells).astype(np.int64)
    except OverflowError:
        return cells
    if not missing.any():
        return whole
    return cells if np.any(np.abs(whole) > EXACT_IN_FLOAT64) else cells.astype(np.float64)


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str):
        return not cell
    if isinstance(cell, float):
        return isnan(cell)
    return cell is None or type(cell).__name__ in {"NAType", "NaTType"}  # pandas' own, without importing it


def as_ids(column: Any, name: str) -> tuple[Column, NDArray[np.bool_]]:
    """Return ids as int64 or object-of-str ``(T,)``, and the mask ``(T,)`` of the missing ones.

    What stands at a missing place (0 or None) has no meaning.
    """
    column = as_column(column, name)
    if column.dtype.kind == "i":
        return column, np.zeros(len(column), dtype=bool)
    missing = np.fromiter(map(_is_missing, column.tolist()), bool, len(column))
    usable = _is_whole if column.dtype.kind == "f" else _is_text
    wrong = [value for value in column[~missing].tolist() if not usable(value)]
    if column.dtype.kind == "f" and not wrong and np.any(np.abs(column[~missing]) > EXACT_IN_FLOAT64):
        wrong = [float(np.abs(column[~missing]).max())]
    if wrong:
        raise DataError(
            f"{name} must be all whole numbers or all text, but holds {wrong[0]!r} of type "
            f"{type(wrong[0]).__name__}; convert the column to one of the two"
        )
    return (np.where(missing, 0, column).astype(np.int64) if column.dtype.kind == "f" else column), missing


def _is_whole(value: float) -> bool:
    return value.is_integer()


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def unique_ids(values: Any, name: str, remedy: str = "keep one row of each") -> Column:
    """Return ids as int64 or str ``(N,)``, checked to be complete and distinct."""
    ids, missing = as_ids(values, name)
    if missing.any():
        raise DataError(f"{name} has {missing.sum()} missing values, first in row {np.argmax(missing)}; fill them in")
    ids = ids.astype(str) if ids.dtype.kind == "O" else ids
    distinct, counts = np.unique(ids, return_counts=True)
    if len(distinct) < len(ids):
        example = plain(distinct[np.argmax(counts > 1)])
        raise DataError(
            f"{name} must differ from each other, but {np.sum(counts > 1)} of them are repeated, such as "
            f"{example!r}; {remedy}"
        )
    return ids


def plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value that people recognize in a message."""
    return value.item() if isinstance(value, np.generic) else value


def listed(names: Iterable[str], most: int = 12) -> str:
    """Return names for a message, quoted, the first `most` of them."""
    names = list(names)
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
