"""Columns of categories: recognized, and turned into features of 0 and 1."""

from __future__ import annotations

from math import isnan

import numpy as np

from crowdmetric.errors import DataError
from crowdmetric.tables.columns import Column, Columns, plain
from crowdmetric.tables.text import NUMBER

__all__ = ["is_categorical", "is_mostly_numbers", "is_number", "one_hot"]

# A column with more categories than this is taken for names: each would become a feature.
MOST_CATEGORIES = 50


def is_categorical(column: Column) -> bool:
    """Return whether a column holds text of few kinds."""
    return column.dtype.kind in "OU" and len(set(column.tolist())) <= min(MOST_CATEGORIES, max(2, len(column) // 2))


def is_number(cell: object) -> bool:
    """Return whether a cell is a number, or text that reads as one."""
    return isinstance(cell, int | float) or (isinstance(cell, str) and NUMBER.fullmatch(cell.strip()) is not None)


def is_mostly_numbers(column: Column) -> bool:
    """Return whether more than half of the cells of a column of text are numbers: a mistake is among them, or two."""
    cells = [cell for cell in column.tolist() if cell is not None]
    return 2 * sum(map(is_number, cells)) > len(cells)


def one_hot(column: Column, name: str) -> Columns:
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
