"""Run cells in processes and keep what is finished, so an interrupted reproduction goes on where it stopped.

Finished jobs are appended to ``runs.jsonl``, one line each, by this process alone. A line that was cut off is done
again. Results do not depend on the number of processes or on the order in which jobs end: every run has its own seed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import DataError
from crowdmetric.experiments.cells import Cell
from crowdmetric.experiments.learners import MOST_COUNTS, Job, Row, learners_of, run_cell
from crowdmetric.folders import write_file

__all__ = ["Progress", "jobs_for", "run_cells"]

# Maximum number of answers in the runs of one job: several small problems together cost little more than one. Memory:
# 0.6 GB per process.
ANSWERS_A_JOB = 800_000
FILE = "runs.jsonl"
SORT = ("experiment", "rank", "beta", "loss", "learner", "stitch", "d", "n", "K", "m", "sigma", "run")


@dataclass(frozen=True)
class Progress:
    """How far a reproduction is, in runs of cells and learners."""

    done: int
    total: int
    kept: int
    seconds: float

    def __str__(self) -> str:
        """Return ``120 of 300 runs, about 4 min left``."""
        new = self.done - self.kept
        if new == 0:
            return f"{self.done} of {self.total} runs"
        left = self.seconds / new * (self.total - self.done)
        time = f"{left:.0f} s" if left < 90 else f"{left / 60:.0f} min"
        return f"{self.done} of {self.total} runs, about {time} left"


Finished = dict[tuple[str, str, int], list[Row]]  # by cell, learner and run


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
        Number of processes; None: one per core.
    report
        Called after every finished job.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / FILE
    finished = _read(path) if path.exists() else {}
    missing = jobs_for(cells, runs, finished)
    total = sum(len(learners_of(cell, run, runs)) for cell in cells for run in range(runs))
    kept = done = total - sum(len(learners) * len(numbers) for _, learners, numbers in missing)
    clock = perf_counter()
    with path.open("a", encoding="utf-8") as file:
        for (cell, learners, numbers), rows in LocalEngine(jobs).map(run_cell, missing):
            _file(finished, cell.key(), rows)
            file.write(json.dumps({"cell": cell.key(), "rows": rows}) + "\n")
            file.flush()
            done += len(learners) * len(numbers)
            if report is not None:
                report(Progress(done, total, kept, perf_counter() - clock))
        os.fsync(file.fileno())
    wanted = [(cell.key(), name, run) for cell in cells for run in range(runs) for name in learners_of(cell, run, runs)]
    rows = [row for key in wanted for row in finished[key]]
    return sorted(rows, key=lambda row: tuple(row[name] for name in SORT))


def jobs_for(cells: Sequence[Cell], runs: int, finished: Finished | None = None) -> list[Job]:
    """Return the jobs that are not finished, the longest first."""
    return sorted(_missing(cells, runs, finished or {}), key=_cost, reverse=True)


def _missing(cells: Sequence[Cell], runs: int, finished: Finished) -> Iterator[Job]:
    """Yield what is not there yet: batches of runs of one cell, for all the learners that lack just these."""
    for cell in cells:
        lacking: dict[str, list[int]] = {}
        for run in range(runs):
            for name in learners_of(cell, run, runs):
                if (cell.key(), name, run) not in finished:
                    lacking.setdefault(name, []).append(run)
        together: dict[tuple[int, ...], list[str]] = {}
        for name, of_name in lacking.items():
            together.setdefault(tuple(of_name), []).append(name)
        batch = max(1, ANSWERS_A_JOB // (cell.n * cell.K * cell.m))
        for numbers, names in together.items():
            for start in range(0, len(numbers), batch):
                yield cell, tuple(names), numbers[start : start + batch]


def _file(finished: Finished, cell: str, rows: list[Row]) -> None:
    """File rows; of something filed twice the later counts."""
    groups: Finished = {}
    for row in rows:
        groups.setdefault((cell, row["learner"], row["run"]), []).append(row)
    finished.update(groups)


def _cost(job: Job) -> float:
    """Return a rough cost: the longest jobs start first, so no process idles at the end."""
    cell, learners, runs = job
    answers, counts = cell.n * cell.K * cell.m, len(cell.counts)
    stitched = answers + 100.0 * counts * cell.d**2
    fitted = 10.0 * answers * min(counts, MOST_COUNTS)  # one fit for every number of subspaces costs ten times as much
    return len(runs) * sum(fitted if name == "population" else stitched for name in learners)


def _read(path: Path) -> Finished:
    """Return what is finished; a cut-off last line is dropped from the file, any other damage is an error."""
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        write_file(path, whole)
    finished: Finished = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            record: dict[str, Any] = json.loads(line)
            _file(finished, record["cell"], record["rows"])
        except (ValueError, KeyError, TypeError):
            raise DataError(
                f"line {number} of {path} cannot be read; delete the file to start again, "
                "or the line to do its runs again"
            ) from None
    return finished
