"""Tables that say something of every item, beside the table of items itself."""

from __future__ import annotations

from argparse import Namespace

import numpy as np

from crowdmetric.commands.base import note
from crowdmetric.errors import DataError
from crowdmetric.tables import Column, Items, read_columns, unique_ids

__all__ = ["read_labels"]


def read_labels(options: Namespace, items: Items) -> Column:
    """Return the subspace (N,) of every item, −1 or None where the file names none."""
    columns = read_columns(options.labels)
    for name in ("item_id", "subspace"):
        if name not in columns:
            raise DataError(f"{options.labels} has no column {name!r}; item_id and subspace were expected")
    ids, labels = unique_ids(columns["item_id"], f"item_id in {options.labels}"), columns["subspace"]
    place = {item: row for row, item in enumerate(ids.tolist())}
    rows = np.array([place.get(item, -1) for item in items.ids.tolist()])
    named = rows >= 0
    if not named.any():
        raise DataError(
            f"{options.labels} names none of the {len(rows)} items; use the ids of {options.items}, "
            f"such as {items.ids.tolist()[0]!r}"
        )
    if len(ids) > named.sum():
        note(options, f"{len(ids) - named.sum()} labels are of items that {options.items} does not have")
    if not named.all():
        note(options, f"{np.sum(~named)} items have no label and lie in no subspace")
    return _fill(labels, rows, named)


def _fill(labels: Column, rows: Column, named: Column) -> Column:
    """Return the label of each row; empty cells and rows without one become −1 (numbers) or None (text)."""
    if labels.dtype.kind == "f" and np.all(np.isnan(labels) | (labels == np.round(labels))):
        labels = np.where(np.isnan(labels), -1, labels).astype(np.int64)
    nowhere = -1 if labels.dtype.kind in "if" else None
    chosen = labels[np.where(named, rows, 0)]
    chosen[~named] = nowhere
    return chosen
