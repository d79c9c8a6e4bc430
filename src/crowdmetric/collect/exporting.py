"""Answers as a table, streamed while the study is served, straight into `Comparisons.read` and `scan_parquet`.

Answers are only added, so the store is read in pieces, in the order of their numbers. Each piece is one short query
that blocks nobody, and only one piece is in memory.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from crowdmetric.collect.database import Database
from crowdmetric.tables import Column, Columns

__all__ = ["COLUMNS", "answer_batches", "csv_lines"]

PIECE = 10_000
COLUMNS = (
    "user", "left", "right", "choice", "purpose", "position", "repeat_of", "response_ms", "shown", "answered",
    "design_version", "place",
)  # fmt: skip
# Practice and checks teach nothing about taste; they are left out unless asked for.
ANSWERS, EVERYTHING = ("design", "evaluation", "repeat"), ("design", "evaluation", "repeat", "practice", "check")


def _pieces(db: Database, everything: bool) -> Iterator[list[tuple[Any, ...]]]:
    """Yield rows in the order of `COLUMNS`, then the number of the answer, a piece at a time."""
    purposes = EVERYTHING if everything else ANSWERS
    marks = ", ".join("?" * len(purposes))
    sql = (
        "SELECT person, left_item, right_item, choice, purpose, position, repeat_of, response_ms, shown, answered,"
        f" version, place, id FROM answer WHERE id > ? AND purpose IN ({marks}) ORDER BY id LIMIT {PIECE}"
    )
    last = -1
    while rows := db.run(sql, last, *purposes):
        last = int(rows[-1][-1])
        yield rows
        db.rollback()  # PostgreSQL would otherwise keep one long transaction open


def answer_batches(db: Database, whole_ids: bool, *, everything: bool = False) -> Iterator[Columns]:
    """Yield columns of answers, a batch at a time; at least one batch, which may be empty.

    ``repeat_of`` and ``response_ms`` are NaN if there is none; times are seconds since 1970. Items that are whole
    numbers in the table of items are whole numbers here.
    """
    none = True
    for rows in _pieces(db, everything):
        none = False
        yield _columns(rows, whole_ids)
    if none:
        yield _columns([], whole_ids)


def _columns(rows: list[tuple[Any, ...]], whole_ids: bool) -> Columns:
    cells = list(zip(*rows, strict=True))[:-1] if rows else [()] * len(COLUMNS)
    kinds: dict[str, Any] = dict.fromkeys(COLUMNS, object)
    kinds |= {"left": np.int64, "right": np.int64} if whole_ids else {}
    kinds |= dict.fromkeys(("position", "design_version", "place"), np.int64)
    kinds |= dict.fromkeys(("repeat_of", "response_ms", "shown", "answered"), np.float64)
    return {name: _column(values, kinds[name]) for name, values in zip(COLUMNS, cells, strict=True)}


def _column(values: tuple[Any, ...], kind: Any) -> Column:
    if kind is np.int64:
        return np.array([int(value) for value in values], dtype=np.int64)
    return np.array(values, dtype=kind)  # None becomes NaN among numbers


def csv_lines(db: Database, *, everything: bool = False) -> Iterator[str]:
    """Yield the table as pieces of a CSV file."""
    yield ",".join(COLUMNS) + "\n"
    for rows in _pieces(db, everything):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(map(_safe, row[:-1]) for row in rows)
        yield text.getvalue()


def _safe(cell: Any) -> Any:
    """Return a cell; a text that a spreadsheet would run as a formula gets a quote in front."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "@", "\t", "\r") else cell
