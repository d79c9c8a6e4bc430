"""A population fit from Parquet under a memory limit: 1 and 2 million people with one answer each, d = 10.

Files are written in shuffled order, so that grouping by person is part of the work. Every size runs in a process of
its own, whose peak memory is what the operating system counted. Seconds are those of the processor.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

D, N_ITEMS, PIECE = 10, 1_000, 250_000
SIZES = (1_000_000, 2_000_000)
LIMITS = ("2GB", "0.6GB")


def truth() -> tuple[np.ndarray, np.ndarray]:
    """Return items (N, d) and a metric (d, d)."""
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((D, D))
    return rng.standard_normal((N_ITEMS, D)) / np.sqrt(D), 4.0 * factor @ factor.T / D


def write(people: int, folder: str) -> None:
    """Write the answers of people 0…K−1, in shuffled order, to several files."""
    from crowdmetric.comparisons import Comparisons  # noqa: PLC0415 - loaded by the process that needs it
    from crowdmetric.simulate import answer  # noqa: PLC0415

    items, metric = truth()
    order = np.random.default_rng(1).permutation(people)
    for number, begin in enumerate(range(0, people, PIECE)):
        rng = np.random.default_rng([2, number])
        users = order[begin : begin + PIECE]
        left = rng.integers(0, N_ITEMS, users.size)
        right = (left + rng.integers(1, N_ITEMS, users.size)) % N_ITEMS
        ideal = 0.5 * rng.standard_normal((users.size, D)) / np.sqrt(D)
        pairs = np.column_stack([left, right])
        response = answer(items, pairs, ideal, metric, seed=number)
        answers = Comparisons.from_arrays(users, pairs, response, n_items=N_ITEMS)
        answers.write(Path(folder) / f"answers-{number:03d}.parquet")


def measure(folder: str, memory: str) -> dict[str, float]:
    """Fit once; return seconds, peak memory and the error of the metric's shape."""
    from crowdmetric import PopulationMetric  # noqa: PLC0415
    from crowdmetric.comparisons import Comparisons  # noqa: PLC0415
    from crowdmetric.symmetric import shape_error  # noqa: PLC0415

    items, metric = truth()
    wall, clock = perf_counter(), process_time()
    scan = Comparisons.scan_parquet(f"{folder}/*.parquet", n_items=N_ITEMS)
    people = scan.n_users
    grouping = process_time() - clock
    model = PopulationMetric(items, memory=memory)
    predicted = model.memory_plan(scan)
    model.fit(scan)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "people": people, "seconds": process_time() - clock, "wall": perf_counter() - wall, "grouping": grouping,
        "peak_gb": peak / 1e9, "predicted_gb": (predicted.needed + predicted.room) / 1e9,
        "error": shape_error(model.metric_, metric), "iterations": model.solution_.iterations,
    }  # fmt: skip


def _call(expression: str) -> str:
    code = f"import json; from benchmarks.streaming import measure, write; print(json.dumps({expression}))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def main() -> None:
    seconds: dict[str, list[float]] = {memory: [] for memory in LIMITS}
    for people in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            _call(f"write({people}, {folder!r})")
            for memory in LIMITS:
                found = json.loads(_call(f"measure({folder!r}, {memory!r})"))
                seconds[memory].append(found["seconds"])
                line = (
                    "{people:,} people, limit "
                    + memory
                    + ": {seconds:.0f} s ({grouping:.0f} s of them grouping), peak "
                    "memory {peak_gb:.2f} GB (predicted {predicted_gb:.2f}), shape error {error:.3f}, "
                    "{iterations} iterations"
                )
                print(line.format(**found), flush=True)
    for memory, (once, twice) in seconds.items():
        print(f"limit {memory}: twice the people cost {twice / once:.2f} × the time")
