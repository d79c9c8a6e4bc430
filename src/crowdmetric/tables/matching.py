r"""Where a table of answers meets the items: by id, and by row number only where one side has no ids.

What the ids of a table are (`ids_are`) decides how it may be read::

    given    a list of ids came with the answers, in the order of the items
    found    what the answers name: text, sorted; or whole numbers, which are row numbers unless items have such ids
    rows     row numbers of the items

===================  ===========================  ==============================================
answers \ items      without ids                  with ids
===================  ===========================  ==============================================
given                by position                  by id
found, text          refused: the order is lost   by id
found, numbers       row numbers                  by id if items have such ids, else row numbers
rows                 row numbers                  row numbers
===================  ===========================  ==============================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.tables.answers import codes_of
from crowdmetric.tables.columns import Column, plain

__all__ = ["IDS_ARE", "IdsAre", "check_same_items", "check_same_order", "matched", "rows_of_ids"]

IdsAre = Literal["given", "found", "rows"]
IDS_ARE = ("given", "found", "rows")
Rows = NDArray[np.int64]


class NamesItems(Protocol):
    """A table of answers about items."""

    @property
    def item_ids(self) -> Column: ...

    @property
    def ids_are(self) -> IdsAre: ...

    @property
    def n_items(self) -> int: ...


class Renumbered(NamesItems, Protocol):
    """A table whose items can be given other numbers."""

    def used_items(self) -> NDArray[np.bool_]: ...

    def renumbered(self, place: Rows, item_ids: Column) -> Self: ...


Table = TypeVar("Table", bound=Renumbered)


def matched(table: Table, ids: Column | None, n_items: int) -> Table:
    """Return a table of answers whose items are numbered as the rows of `n_items` items with these ids (None: none)."""
    if ids is None or _names_rows(table, ids):
        _check_rows(table, n_items, has_ids=ids is not None)
        if table.n_items == n_items:
            return table
        return table.renumbered(np.arange(table.n_items), np.arange(n_items))
    if table.ids_are == "given" and np.array_equal(table.item_ids, ids):
        return table
    place, used = _places(table, ids), table.used_items()
    unknown = used & (place < 0)
    if unknown.any():
        raise DataError(
            f"the {_kind(table)} name {int(unknown.sum())} items that are not among the {n_items} items, first "
            f"{plain(table.item_ids[np.argmax(unknown)])!r}; add them to the items, or read the answers with items=…, "
            "which leaves such rows out"
        )
    as_rows = table.ids_are == "found" and ids.dtype.kind == "i" and table.n_items <= n_items
    if as_rows and np.any(place[used] != np.flatnonzero(used)):
        raise DataError(
            f"the {_kind(table)} name items by whole numbers, which may be row numbers or the ids that the items have "
            f"({plain(ids[0])!r} in row 0); read the answers with items=… for ids, or n_items={n_items} for row numbers"
        )
    return table.renumbered(place, ids)


def check_same_items(scan: NamesItems, ids: Column | None, n_items: int) -> None:
    """Check that answers left on disk, which keep their numbers, number the items as their rows."""
    if scan.n_items != n_items:
        _check_rows(scan, n_items, has_ids=ids is not None)
    if ids is not None and scan.ids_are == "given" and not np.array_equal(scan.item_ids, ids):
        raise DataError(
            "the scan numbers items in another order than items has, or by other ids; scan with the same items "
            "(Comparisons.scan_parquet(..., items=...))"
        )


def check_same_order(tables: Sequence[Any], ids: Column | None) -> None:
    """Check that tables about the same items list them alike, where the items themselves have no ids."""
    given = [table.item_ids for table in tables if getattr(table, "ids_are", "") == "given"]
    if ids is None and any(not np.array_equal(given[0], other) for other in given[1:]):
        raise DataError(
            "the tables of answers list the items in different orders or by other ids, and items has no ids to match "
            "them; give items as a data frame with ids, or read all tables with the same items=…"
        )


def rows_of_ids(names: Any, ids: Column | None, what: str) -> Rows:
    """Return the row of each named item, in the shape of `names`; `ids` None: the items have none."""
    if names.size and (ids is None or (ids.dtype.kind == "i") != (names.dtype.kind == "i")):
        have = "have no ids" if ids is None else f"have ids like {plain(ids[0])!r}"
        raise DataError(
            f"{what} names items like {plain(names.flat[0])!r}, but the items {have}; use the ids of the items, which "
            "a data frame has as its index or as a column item_id, or give row numbers"
        )
    rows: Rows = codes_of(names.reshape(-1), np.arange(0) if ids is None else ids).reshape(names.shape)
    if np.any(rows < 0):
        raise DataError(
            f"{what} names {plain(names[rows < 0][0])!r}, which is not the id of an item; correct it, or add the item"
        )
    return rows


def _kind(table: NamesItems) -> str:
    return "comparisons" if type(table).__name__ == "ComparisonScan" else type(table).__name__.lower()


def _names_rows(table: NamesItems, ids: Column) -> bool:
    """Return whether numbers in a table are row numbers of items with these ids."""
    numbers = table.item_ids.dtype.kind == "i"
    return table.ids_are == "rows" or (table.ids_are == "found" and numbers and ids.dtype.kind != "i")


def _check_rows(table: NamesItems, n_items: int, *, has_ids: bool) -> None:
    """Check that row numbers in a table are those of `n_items` items."""
    what = _kind(table)
    if not has_ids and table.ids_are == "found" and table.item_ids.dtype.kind != "i":
        raise DataError(
            f"the {what} name items such as {plain(table.item_ids[0])!r}, but items has no ids, so nothing says which "
            f"row is which; read the {what} with items=… or item_ids=…, or give items as a data frame with an index or "
            "a column item_id"
        )
    if table.n_items > n_items or (table.n_items < n_items and table.ids_are != "found"):
        raise DataError(
            f"the {what} are about {table.n_items} items, but items has {n_items} rows; read both from the same "
            "catalog (read(..., items=...))"
        )


def _places(table: NamesItems, ids: Column) -> Rows:
    """Return the row (n_items,) that each of a table's ids has among `ids`, −1 where it has none."""
    if table.n_items and (table.item_ids.dtype.kind == "i") != (ids.dtype.kind == "i"):
        raise DataError(
            f"the {_kind(table)} name items like {plain(table.item_ids[0])!r}, but the ids of the items are like "
            f"{plain(ids[0])!r}; nothing is guessed: convert one of the two, so both are integers or both text"
        )
    return codes_of(table.item_ids, ids)
