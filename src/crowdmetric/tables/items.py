"""The items of a catalogue: their ids, features and names."""

from __future__ import annotations

import os
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdmetric.checks import as_array, whole_number
from crowdmetric.errors import DataError, TableWarning, option
from crowdmetric.tables.answers import codes_of
from crowdmetric.tables.columns import Column, Columns, as_column, listed, plain, unique_ids
from crowdmetric.tables.files import (
    READERS,
    format_of,
    frame_names,
    is_data_frame,
    is_frame,
    named_columns,
    read_columns,
)
from crowdmetric.tables.matching import IdsAre
from crowdmetric.tables.stored import Stored, check_zip, stored
from crowdmetric.tables.text import NUMBER

__all__ = [
    "Items",
    "KnownItems",
    "feature_columns",
    "features_of",
    "ids_of",
    "in_order_of",
    "known_items",
    "read_items",
]

ID_COLUMNS = ("item_id", "item", "id")
# Columns that hold the names of items, if they are text.
NAME_COLUMNS = ("name", "title")
# The column that holds files with pictures of items, as in a study of `crowdmetric collect`.
IMAGE_COLUMN = "image"
# More items than this are not meant: ids or counts of something else were given as their number.
MOST_ITEMS = 10_000_000
# A column with more categories than this is taken for names: each would become a feature.
MOST_CATEGORIES = 50


class Items(NamedTuple):
    """Items and their features.

    Attributes
    ----------
    ids : (N,) int64 or str
    features : (N, d) float64
        All finite.
    feature_names : list of d str
    names : (N,) object of str, or None
        What people call the items, None for one without a name; None altogether if the table has no names.
    images : (N,) object of str, or None
        Files with pictures of the items, relative to the table, None for an item without one.

    Examples
    --------
    >>> from crowdmetric.tables import read_items
    >>> read_items({'item_id': ['tea', 'cola'], 'sweet': [0.0, 4.0]})
    <Items: 2 items, 1 features ('sweet')>
    """

    ids: Column
    features: NDArray[np.float64]
    feature_names: list[str]
    names: Column | None = None
    images: Column | None = None

    def __repr__(self) -> str:
        n, d = self.features.shape
        return f"<Items: {n} items, {d} features ({listed(self.feature_names, most=6)})>"


def read_items(source: Any, id_column: str | None = None, *, categorical: Collection[str] | str | None = None) -> Items:
    """Return the items of a catalogue with their ids and features.

    Parameters
    ----------
    source : path, data frame, mapping or (N, d) array
        Anything `read_columns` takes, or a ``.npy`` file with an (N, d) array, or a ``.npz`` file with one
        such array and, if items have ids, a one-dimensional array named like an id column.
    id_column : str, optional
        The column of ids. By default ``item_id``, ``item`` or ``id``, in any case, where there is one; else the
        index of a pandas data frame that has one of its own; otherwise ids are the row numbers 0…N−1. Every other
        column of numbers is a feature. A column of text called ``name`` or ``title`` says what items are called, and
        where there are no ids, those are the ids. A column of text called ``image`` names files with pictures, for
        the report. Other columns of text and dates are left out, with a warning.
    categorical : collection of str or 'all', optional
        Columns that hold categories (text, or numbers that are codes), or all columns of text. Each becomes features
        of 0 and 1, one per category but the first: the metric then knows any distance between categories.

    Examples
    --------
    >>> from crowdmetric.tables import read_items
    >>> items = read_items({'item_id': ['tea', 'cola'], 'sweet': [0.0, 4.0], 'fizzy': [0.0, 4.0]})
    >>> items.feature_names, items.features.tolist()
    (['sweet', 'fizzy'], [[0.0, 0.0], [4.0, 4.0]])
    """
    if isinstance(source, Items):
        return source
    columns = _columns_of_items(source)
    id_column = _id_column(list(columns), id_column)
    ids = columns.pop(id_column) if id_column is not None else index_of(source)
    names = _pop_text(columns, NAME_COLUMNS, "the names")
    images = _pop_text(columns, (IMAGE_COLUMN,), "the pictures")
    indexed = ids is not None and id_column is None
    if ids is None and names is not None:
        ids, names = names, None
    columns = _features_of(columns, categorical)
    if not columns:
        raise DataError("the items have no features: columns of numbers were expected besides the ids")
    features = np.column_stack([_numbers(column, name) for name, column in columns.items()])
    if not len(features):
        raise DataError("the table of items has no rows; at least one item was expected")
    if ids is None:
        ids = np.arange(len(features))
    elif id_column is not None or indexed:
        ids = unique_ids(ids, "item ids" if not indexed else "item ids of the index")
    else:
        ids = unique_ids(ids, "names that stand in for ids of the items", "add a column item_id")
    _reject_gaps(ids, features, list(columns))
    return Items(ids, features, list(columns), names, images)


class KnownItems(NamedTuple):
    """The ids ``(N,)`` that answers may name, None if they were not given; and what ids in the answers then are."""

    ids: Column | None
    are: IdsAre


def known_items(items: Any, n_items: int | None, item_ids: Any) -> KnownItems:
    """Return which items answers may name, from whichever of these was given."""
    options = {"items": items, "n_items": n_items, "item_ids": item_ids}
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise DataError(f"{' and '.join(given)} both say which items there are; give one of them")
    if items is not None:
        nameless = not isinstance(items, str | os.PathLike | Mapping | Stored) and ids_of(items) is None
        return KnownItems(read_items(items).ids, "rows" if nameless else "given")
    if item_ids is not None:
        return KnownItems(unique_ids(item_ids, "item_ids"), "given")
    if n_items is None:
        return KnownItems(None, "found")
    return KnownItems(np.arange(whole_number(n_items, "n_items", most=MOST_ITEMS), dtype=np.int64), "rows")


def ids_of(items: Any) -> Column | None:
    """Return the ids ``(N,)`` that items carry: those of an `Items` table, of a column of ids or of an index.

    None for arrays, and for data frames without any of these.
    """
    if isinstance(items, Items):
        return items.ids
    if not is_data_frame(items):
        return None
    columns = _columns_aside(items)
    column = _id_column(columns, None)
    ids = items[column] if column is not None else index_of(items)
    if ids is None:
        named = [name for name in columns if str(name).lower() in NAME_COLUMNS]
        ids = items[named[0]] if len(named) == 1 else None
    return None if ids is None else unique_ids(ids, "item ids")


def features_of(items: Any) -> Any:
    """Return what holds the features (N, d) of items: an array, or a data frame without its ids, names and pictures."""
    if isinstance(items, Items):
        return items.features
    columns = feature_columns(items)
    if columns is None or len(columns) == len(frame_names(items)):
        return items
    return items.select(columns) if hasattr(items, "select") else items[columns]


def feature_columns(items: Any) -> list[Any] | None:
    """Return the names of the features that items carry; None for arrays, which have none."""
    if isinstance(items, Items):
        return items.feature_names
    if not is_data_frame(items):
        return None
    aside = _columns_aside(items)
    return [name for name in frame_names(items) if name not in aside]


def _columns_aside(frame: Any) -> list[Any]:
    """Return the columns of a data frame that are no features: ids, and text with names or pictures."""
    return [
        name for name in frame_names(frame)
        if str(name).lower() in ID_COLUMNS
        or (str(name).lower() in (*NAME_COLUMNS, IMAGE_COLUMN) and as_column(frame[name], str(name)).dtype.kind == "O")
    ]  # fmt: skip


def _pop_text(columns: Columns, called: Collection[str], what: str) -> Column | None:
    """Return the column of text of one of these names, and take it out; None if there is none."""
    found = [name for name, column in columns.items() if name.lower() in called and column.dtype.kind == "O"]
    if len(found) > 1:
        raise DataError(f"columns {listed(found)} could all be {what} of the items; leave all but one out")
    return columns.pop(found[0]) if found else None


def _columns_of_items(source: Any) -> Columns:
    if isinstance(source, str | os.PathLike | Stored):
        file = stored(source)
        return named_columns(format_of(file, _ITEM_READERS)(file), file.name)
    if is_frame(source):
        return read_columns(source)
    return dict(_array_columns(source, "the array of items"))


def _array_columns(values: Any, origin: str) -> list[tuple[str, Column]]:
    """Return the columns f0…f(d−1) of an (N, d) array."""
    try:
        array = as_array(values, origin)
    except DataError as error:
        raise DataError(f"{origin} must have shape (N, d): {error}") from error
    if array.ndim != 2:
        raise DataError(f"{origin} has shape {array.shape}; (N, d) was expected, one row per item")
    return [(f"f{j}", column) for j, column in enumerate(array.T)]


def _read_npy(source: Stored) -> list[tuple[str, Column]]:
    with _numpy_file(source), source.open() as file:
        array = np.load(file, allow_pickle=False)
    return _array_columns(array, source.name)


def _read_npz(source: Stored) -> list[tuple[str, Column]]:
    with _numpy_file(source), source.open() as file, np.load(file, allow_pickle=False) as archive:
        check_zip(archive.zip, source.name)
        arrays = {name: archive[name] for name in archive.files}
    ids = [(name, array) for name, array in arrays.items() if name.lower() in ID_COLUMNS]
    others = [name for name in arrays if name.lower() not in ID_COLUMNS]
    if len(others) != 1:
        raise DataError(
            f"{source} holds the arrays {listed(arrays) or '(none)'}; one (N, d) array of features was "
            f"expected, and at most one of ids, named {listed(ID_COLUMNS)}"
        )
    return ids + _array_columns(arrays[others[0]], f"{others[0]!r} in {source}")


@contextmanager
def _numpy_file(source: Stored) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{source} is damaged or not an array of numbers saved by NumPy; save it again") from error


_ITEM_READERS = READERS | {".npy": _read_npy, ".npz": _read_npz}


def _id_column(names: Sequence[str], asked: str | None) -> str | None:
    if asked is not None and asked not in names:
        raise DataError(f"the items have no column {asked!r} to take ids from; they have {listed(names)}")
    if asked is not None:
        return asked
    found = [name for name in names if name.lower() in ID_COLUMNS]
    if len(found) > 1:
        raise DataError(
            f"columns {listed(found)} could all be ids; choose with "
            f"{option(f'id_column={found[0]!r}', f'--columns item_id={found[0]}')}"
        )
    return found[0] if found else None


def _features_of(columns: Columns, categorical: Collection[str] | str | None) -> Columns:
    """Return columns of numbers: categories become 0 and 1; other text and dates are dropped with a warning."""
    asked = [name for name in columns if _is_categorical(columns[name])] if categorical == "all" else categorical
    wanted = [asked] if isinstance(asked, str) else list(asked or [])
    unknown = [name for name in wanted if name not in columns]
    if unknown:
        raise DataError(f"the items have no column {unknown[0]!r} to take categories from; they have {listed(columns)}")
    features: Columns = {}
    left_out = []
    for name, column in columns.items():
        if name in wanted:
            features |= _one_hot(column, name)
        elif column.dtype.kind in "bif":
            features[name] = column
        elif column.dtype.kind == "M" or _is_left_out(column, name):
            left_out.append(name)
    if left_out and features:
        warnings.warn(
            f"columns {listed(left_out)} hold text or dates and are left out; use columns of categories with "
            f"{option(f'categorical={left_out!r}', f'--categorical {chr(44).join(left_out)}')}",
            TableWarning,
            stacklevel=3,
        )
    elif left_out:
        _numbers(columns[left_out[0]], left_out[0])
    return features


def _is_left_out(column: Column, name: str) -> bool:
    """Return whether a column may be left out: not where it looks like numbers with a mistake among them."""
    if _is_mostly_numbers(column):
        _numbers(column, name)
    return column.dtype.kind in "OUS"


def _numbers(column: Column, name: str) -> NDArray[np.float64]:
    if column.dtype.kind not in "bif":
        example = next((value for value in column.tolist() if isinstance(value, str) and not _is_number(value)), None)
        example = next((value for value in column.tolist() if value is not None), None) if example is None else example
        raise DataError(
            f"feature {name!r} holds {plain(example)!r}, but features must be numbers; encode that column "
            f"({option('categorical=', '--categorical')}), leave it out, or name it in "
            f"{option('id_column', '--columns item_id=')} if it holds the ids"
        )
    return column.astype(np.float64)


def in_order_of(values: Any, items: Any, what: str) -> Any:
    """Return values of items in the order of the items: a pandas series by its index, where the items have ids too."""
    index = getattr(values, "index", None)
    if index is None or callable(index) or hasattr(values, "columns"):
        return values
    own, ids = _ids_of_index(index), ids_of(items)
    if own is None or ids is None:
        return values
    rows = codes_of(ids, unique_ids(own, f"the index of {what}"))
    if np.any(rows < 0):
        raise DataError(f"{what} has nothing for item {plain(ids[rows < 0][0])!r}; give a value for every item")
    return np.asarray(values)[rows]


def index_of(source: Any) -> Column | None:
    """Return the index of a pandas data frame that is more than row numbers; None for anything else."""
    index = getattr(source, "index", None)
    if index is None or not hasattr(source, "columns"):
        return None
    return _ids_of_index(index)


def _ids_of_index(index: Any) -> Column | None:
    if type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1):
        return None
    if getattr(index, "nlevels", 1) != 1:
        raise DataError("the items have an index of several levels; name one column of ids, after reset_index()")
    return as_column(index, "the index of the items")


def _reject_gaps(ids: Column, features: NDArray[np.float64], names: Sequence[str]) -> None:
    gaps = ~np.isfinite(features)
    if gaps.any():
        row, column = np.argwhere(gaps)[0]
        raise DataError(
            f"{gaps.any(axis=1).sum()} items have missing or infinite features, first item "
            f"{plain(ids[row])!r} in column {names[column]!r}; fill them in or leave those items out"
        )


# ------------------------------------------------------------------------------------------ columns of categories


def _is_categorical(column: Column) -> bool:
    """Return whether a column holds text of few kinds."""
    return column.dtype.kind in "OU" and len(set(column.tolist())) <= min(MOST_CATEGORIES, max(2, len(column) // 2))


def _is_number(cell: object) -> bool:
    """Return whether a cell is a number, or text that reads as one."""
    return isinstance(cell, int | float) or (isinstance(cell, str) and NUMBER.fullmatch(cell.strip()) is not None)


def _is_mostly_numbers(column: Column) -> bool:
    """Return whether more than half of the cells of a column of text are numbers: a mistake is among them, or two."""
    cells = [cell for cell in column.tolist() if cell is not None]
    return 2 * sum(map(_is_number, cells)) > len(cells)


def _one_hot(column: Column, name: str) -> Columns:
    """Return a feature of 0 and 1 for every category but the first, sorted: ``color=red``.

    The first needs none: items of it have 0 in all others, so a metric still knows every distance.
    """
    cells = column.tolist()
    missing = sum(cell is None or (isinstance(cell, float) and isnan(cell)) for cell in cells)
    if missing:
        raise DataError(
            f"column {name!r} has {missing} items without a category; fill them in or leave those items out"
        )
    kinds = sorted(set(cells), key=lambda kind: (str(type(kind)), kind))
    if not 2 <= len(kinds) <= MOST_CATEGORIES:
        raise DataError(
            f"column {name!r} holds {len(kinds)} categories, such as {plain(kinds[0])!r}; from 2 to {MOST_CATEGORIES} "
            "can be used: merge rare ones, or leave the column out"
        )
    return {f"{name}={kind}": np.array([float(cell == kind) for cell in cells]) for kind in kinds[1:]}
