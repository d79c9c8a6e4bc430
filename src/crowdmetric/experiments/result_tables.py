"""Tables from rows: mean and standard deviation over runs, and files in and out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.experiments.cells import Figure
from crowdmetric.experiments.learners import Row
from crowdmetric.tables import write_columns

__all__ = ["columns_of", "rows_of_figure", "summarize", "write_tables"]

CELL = ("experiment", "rank", "beta", "loss", "learner", "stitch", "d", "n", "K", "m", "sigma")
MEASURES = ("relative_error", "shape_error", "identity_error", "active_share", "metric_radius", "ideal_radius")


def columns_of(rows: Sequence[Row]) -> dict[str, NDArray[Any]]:
    """Return rows as columns."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}


def rows_of_figure(figure: Figure, rows: Sequence[Row]) -> list[Row]:
    """Return the rows (of runs or of a summary) that a figure shows."""
    return [
        row
        for row in rows
        if row["experiment"] == figure.experiment
        and row["loss"] == figure.loss
        and row["beta"] == figure.beta
        and row["rank"] == figure.rank
    ]


def summarize(rows: Sequence[Row]) -> list[Row]:
    """Return one row per cell, learner and method: means and standard deviations over runs (NaN for a single run)."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in CELL), []).append(row)
    summary = []
    for key, members in groups.items():
        line: Row = dict(zip(CELL, key, strict=True)) | {"runs": len(members)}
        for name in MEASURES:
            values = np.array([member.get(name, np.nan) for member in members])  # not every learner has radii
            line[f"{name}_mean"] = float(values.mean())
            line[f"{name}_sd"] = float(values.std(ddof=1)) if values.size > 1 else float("nan")
        summary.append(line)
    return summary


def write_tables(rows: Sequence[Row], out: Path) -> list[Path]:
    """Write ``results`` (one row per run) and ``summary`` (one per cell): CSV, and Parquet if pyarrow is there."""
    from importlib.util import find_spec  # noqa: PLC0415 - only asked here

    suffixes = [".csv", ".parquet"] if find_spec("pyarrow") else [".csv"]
    written = []
    for name, table in (("results", list(rows)), ("summary", summarize(rows))):
        for suffix in suffixes:
            path = out / f"{name}{suffix}"
            write_columns(columns_of(table), path)
            written.append(path)
    return written
