"""The items of a catalogue: their ids, features and names."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.tables.columns import Column, Columns, listed, plain, unique_ids
from crowdmetric.tables.files import READERS, existing_file, format_of, is_frame, named_columns, read_columns

__all__ = ["Items", "known_items", "read_items"]

ID_COLUMNS = ("item_id", "item", "id")
# Columns that say what items are called, where they hold text.
NAME_COLUMNS = ("name", "title")


class Items(NamedTuple):
    """Items and their features.

    Attributes
    ----------
    ids : (N,) int64 or str
    features : (N, d) float64
        All finite.
    feature_names : list of d str
    names : (N,) object of str, or None
        What people call the items, None for one without a name; None altogether where nothing says.
    """

    ids: Column
    features: NDArray[np.float64]
    feature_names: list[str]
    names: Column | None = None


def read_items(source: Any, id_column: str | None = None) -> Items:
    """Return the items of a catalogue with their ids and features.

    Parameters
    ----------
    source : path, data frame, mapping or (N, d) array
        Anything `read_columns` takes, or a ``.npy`` file with an (N, d) array, or a ``.npz`` file with one
        such array and, if items have ids, a one-dimensional array named like an id column.
    id_column : str, optional
        The column of ids. By default ``item_id``, ``item`` or ``id``, in any case, where there is one;
        otherwise ids are the row numbers 0…N−1. Every other column is a feature, but for a column of text called
        ``name`` or ``title``: that says what items are called, and where there are no ids, those are the ids.
    """
    if isinstance(source, Items):
        return source
    columns = _columns_of_items(source)
    id_column = _id_column(list(columns), id_column)
    ids = columns.pop(id_column) if id_column is not None else None
    names = _pop_names(columns)
    if ids is None and names is not None:
        ids, names = names, None
    if not columns:
        raise DataError("the items have no features: columns of numbers were expected beside the ids")
    features = np.column_stack([_numbers(column, name) for name, column in columns.items()])
    if not len(features):
        raise DataError("the table of items has no rows; at least one item was expected")
    if ids is None:
        ids = np.arange(len(features))
    elif id_column is not None:
        ids = unique_ids(ids, "item ids")
    else:
        ids = unique_ids(ids, "names that stand in for ids of the items", "add a column item_id")
    _reject_gaps(ids, features, list(columns))
    return Items(ids, features, list(columns), names)


def known_items(items: Any, n_items: int | None, item_ids: Any) -> Column | None:
    """Return the ids ``(N,)`` that answers may name, or None if they were not given."""
    options = {"items": items, "n_items": n_items, "item_ids": item_ids}
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise DataError(f"{' and '.join(given)} both say which items there are; give one of them")
    if items is not None:
        return read_items(items).ids
    if item_ids is not None:
        return unique_ids(item_ids, "item_ids")
    if n_items is not None and n_items < 1:
        raise DataError(f"n_items is {n_items}, but at least one item is needed")
    return None if n_items is None else np.arange(n_items, dtype=np.int64)


def _pop_names(columns: Columns) -> Column | None:
    """Return the column that names the items, and take it out; None where there is none."""
    found = [name for name, column in columns.items() if name.lower() in NAME_COLUMNS and column.dtype.kind == "O"]
    if len(found) > 1:
        raise DataError(f"columns {listed(found)} could all be the names of the items; leave all but one out")
    return columns.pop(found[0]) if found else None


def _columns_of_items(source: Any) -> Columns:
    if isinstance(source, str | os.PathLike):
        path = existing_file(source)
        return named_columns(format_of(path, _ITEM_READERS)(path), str(path))
    if is_frame(source):
        return read_columns(source)
    return dict(_array_columns(source, "the array of items"))


def _array_columns(values: Any, origin: str) -> list[tuple[str, Column]]:
    """Return the columns f0…f(d−1) of an (N, d) array."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise DataError(f"{origin} must have shape (N, d): {error}") from error
    if array.ndim != 2:
        raise DataError(f"{origin} has shape {array.shape}; (N, d) was expected, a row an item")
    return [(f"f{j}", column) for j, column in enumerate(array.T)]


def _read_npy(path: Path) -> list[tuple[str, Column]]:
    with _numpy_file(path):
        array = np.load(path, allow_pickle=False)
    return _array_columns(array, str(path))


def _read_npz(path: Path) -> list[tuple[str, Column]]:
    with _numpy_file(path), np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    ids = [(name, array) for name, array in arrays.items() if name.lower() in ID_COLUMNS]
    others = [name for name in arrays if name.lower() not in ID_COLUMNS]
    if len(others) != 1:
        raise DataError(
            f"{path} holds the arrays {listed(arrays) or '(none)'}; one (N, d) array of features was "
            f"expected, and at most one of ids, named {listed(ID_COLUMNS)}"
        )
    return ids + _array_columns(arrays[others[0]], f"{others[0]!r} in {path}")


@contextmanager
def _numpy_file(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged or not an array of numbers saved by NumPy; save it again") from error


_ITEM_READERS = READERS | {".npy": _read_npy, ".npz": _read_npz}


def _id_column(names: Sequence[str], asked: str | None) -> str | None:
    if asked is not None and asked not in names:
        raise DataError(f"the items have no column {asked!r} to take ids from; they have {listed(names)}")
    if asked is not None:
        return asked
    found = [name for name in names if name.lower() in ID_COLUMNS]
    if len(found) > 1:
        raise DataError(f"columns {listed(found)} could all be ids; choose with id_column={found[0]!r}")
    return found[0] if found else None


def _numbers(column: Column, name: str) -> NDArray[np.float64]:
    if column.dtype.kind not in "bif":
        example = next((value for value in column if value is not None), None)
        raise DataError(
            f"feature {name!r} holds {plain(example)!r}, but features must be numbers; encode that column, "
            "leave it out, or name it in id_column if it holds the ids"
        )
    return column.astype(np.float64)


def _reject_gaps(ids: Column, features: NDArray[np.float64], names: Sequence[str]) -> None:
    gaps = ~np.isfinite(features)
    if gaps.any():
        row, column = np.argwhere(gaps)[0]
        raise DataError(
            f"{gaps.any(axis=1).sum()} items have missing or infinite features, first item "
            f"{plain(ids[row])!r} in column {names[column]!r}; fill them in or leave those items out"
        )
