"""Tables about the items, in addition to the table of items itself: their subspaces, names and pictures."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from crowdmetric.commands.command import note
from crowdmetric.errors import DataError
from crowdmetric.tables import Column, Items, read_columns, unique_ids

__all__ = ["image_files", "read_labels", "read_names"]


def read_labels(options: Namespace, items: Items) -> Column:
    """Return the subspace (N,) of every item, −1 or None if the file of --labels names none."""
    labels, rows = _column_of_items(options, options.labels, "subspace", "labels", items)
    if np.any(rows < 0):
        note(options, f"{np.sum(rows < 0)} items have no label and lie in no subspace")
    return _fill(labels, rows)


def read_names(options: Namespace, items: Items) -> Column | None:
    """Return what items are called (N,), None for one without a name: from --names, else from the table of items."""
    if options.names is None:
        return items.names
    names, rows = _column_of_items(options, options.names, "name", "names", items)
    return np.array([_name(names[row]) if row >= 0 else None for row in rows], dtype=object)


def image_files(options: Namespace, items: Items) -> list[Path | None] | None:
    """Return the file with the picture of every item, inside the folder of the table of items; None where none is."""
    if items.images is None:
        return None
    folder = Path(options.items).resolve().parent
    files = [folder / str(cell) if cell else None for cell in items.images]
    found = [
        file if file is not None and file.is_file() and file.resolve().is_relative_to(folder) else None
        for file in files
    ]
    missing = sum(file is not None for file in files) - sum(file is not None for file in found)
    if missing:
        note(
            options, f"{missing} pictures that {options.items} names are not in its folder: the report leaves them out"
        )
    return found if any(found) else None


def _name(cell: Any) -> str | None:
    """Return a cell as a name: None if it is empty, and whole numbers without a point."""
    if cell is None or (isinstance(cell, float | np.floating) and np.isnan(cell)):
        return None
    return str(int(cell)) if isinstance(cell, float | np.floating) and float(cell).is_integer() else str(cell)


def _column_of_items(options: Namespace, file: str, wanted: str, what: str, items: Items) -> tuple[Column, Column]:
    """Return a column of a file, and the row in it of every item (N,), −1 where it has none."""
    columns = read_columns(file)
    for name in ("item_id", wanted):
        if name not in columns:
            raise DataError(f"{file} has no column {name!r}; item_id and {wanted} were expected")
    ids = unique_ids(columns["item_id"], f"item_id in {file}")
    place = {item: row for row, item in enumerate(ids.tolist())}
    rows = np.array([place.get(item, -1) for item in items.ids.tolist()])
    named = int(np.sum(rows >= 0))
    if not named:
        raise DataError(
            f"{file} names none of the {len(rows)} items; use the ids of {options.items}, "
            f"such as {items.ids.tolist()[0]!r}"
        )
    if len(ids) > named:
        note(options, f"{len(ids) - named} {what} are of items that {options.items} does not have")
    return columns[wanted], rows


def _fill(labels: Column, rows: Column) -> Column:
    """Return the label of each row; empty cells and rows without one become −1 (numbers) or None (text)."""
    if labels.dtype.kind == "f" and np.all(np.isnan(labels) | (labels == np.round(labels))):
        labels = np.where(np.isnan(labels), -1, labels).astype(np.int64)
    nowhere = -1 if labels.dtype.kind in "if" else None
    chosen = labels[np.maximum(rows, 0)]
    chosen[rows < 0] = nowhere
    return chosen
