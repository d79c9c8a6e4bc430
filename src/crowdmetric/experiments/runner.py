"""Run cells in processes and keep what is finished, so that an interrupted reproduction goes on where it stopped.

Finished jobs are appended to ``runs.jsonl``, one line each, by this process alone. A line that was cut off is
done again. Results do not depend on the number of processes or on the order in which jobs end: every run has
its own seed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import DataError
from crowdmetric.experiments.learners import Row, run_cell
from crowdmetric.experiments.settings import Cell

__all__ = ["Progress", "run_cells"]

# Runs that share one job: they are fitted together, which costs little more than fitting one.
BATCH = 10
FILE = "runs.jsonl"
SORT = ("experiment", "rank", "beta", "loss", "learner", "stitch", "d", "n", "K", "m", "sigma", "run")


@dataclass(frozen=True)
class Progress:
    """How far a reproduction is."""

    done: int
    total: int
    kept: int
    seconds: float

    def __str__(self) -> str:
        """Return ``12 of 30 jobs, about 4 min left``."""
        new = self.done - self.kept
        if new == 0:
            return f"{self.done} of {self.total} jobs"
        left = self.seconds / new * (self.total - self.done)
        time = f"{left:.0f} s" if left < 90 else f"{left / 60:.0f} min"
        return f"{self.done} of {self.total} jobs, about {time} left"


Job = tuple[Cell, tuple[int, ...]]


def run_cells(
    cells: Sequence[Cell],
    runs: int,
    out: Path,
    *,
    jobs: int | None = None,
    report: Callable[[Progress], None] | None = None,
) -> list[Row]:
    """Return the rows of all runs of all cells, doing only what `out` does not hold yet.

    Parameters
    ----------
    cells
        What to run.
    runs
        How many runs of each.
    out
        Folder for ``runs.jsonl``; made if absent.
    jobs
        Number of processes; None: one a core.
    report
        Called after every finished job.
    """
    out.mkdir(parents=True, exist_ok=True)
    todo: dict[str, Job] = {_key(job): job for job in _jobs(cells, runs)}
    path = out / FILE
    finished = _read(path) if path.exists() else {}
    kept = len(todo.keys() & finished.keys())
    missing = sorted((job for key, job in todo.items() if key not in finished), key=_cost, reverse=True)
    clock = perf_counter()
    engine = LocalEngine(jobs)
    with path.open("a", encoding="utf-8") as file:
        for done, (job, rows) in enumerate(engine.map(run_cell, missing), start=kept + 1):
            finished[_key(job)] = rows
            file.write(json.dumps({"job": _key(job), "rows": rows}) + "\n")
            file.flush()
            if report is not None:
                report(Progress(done, len(todo), kept, perf_counter() - clock))
        os.fsync(file.fileno())
    rows = [row for key in todo for row in finished[key] if row["run"] < runs]
    return sorted(rows, key=lambda row: tuple(row[name] for name in SORT))


def _jobs(cells: Sequence[Cell], runs: int) -> Iterator[Job]:
    for cell in cells:
        for start in range(0, runs, BATCH):
            yield cell, tuple(range(start, min(start + BATCH, runs)))


def _key(job: Job) -> str:
    cell, runs = job
    return f"{cell.key(runs[0])}..{runs[-1]}"


def _cost(job: Job) -> float:
    """Return a rough cost: the longest jobs start first, so that no process idles at the end."""
    cell, runs = job
    return len(runs) * len(cell.losses) * (cell.n * cell.K * cell.m + 100.0 * len(cell.counts) * cell.d**2)


def _read(path: Path) -> dict[str, list[Row]]:
    """Return finished jobs; a cut-off last line is dropped from the file, any other damage is an error."""
    finished: dict[str, list[Row]] = {}
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            record: dict[str, Any] = json.loads(line)
            finished[record["job"]] = record["rows"]
        except (ValueError, KeyError, TypeError):
            raise DataError(
                f"line {number} of {path} cannot be read; delete the file to start again, or the line "
                "to do its runs again"
            ) from None
    return {key: rows for key, rows in finished.items() if _is_finite(rows)}


def _is_finite(rows: list[Row]) -> bool:
    return all(math.isfinite(row["relative_error"]) for row in rows)
