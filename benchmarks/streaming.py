"""A population fit from Parquet under a memory limit: 1 and 2 million people with one answer each, d = 10.

Files are written in shuffled order, so grouping by person is part of the work. Every size runs in a process of
its own, whose peak memory is what the operating system counted. Seconds are those of the processor. Then what else
reads a scan, on 300,000 people with four questions each about points of a lattice (d = 6), many of them parallel.
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


def write_lattice(people: int, folder: str) -> None:
    """Write answers to questions about neighbors in {−1, 0, 1}⁶, in shuffled order, and the items."""
    from crowdmetric.comparisons import Comparisons  # noqa: PLC0415
    from crowdmetric.simulate import answer  # noqa: PLC0415

    rng = np.random.default_rng(5)
    items = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 6, indexing="ij"), axis=-1).reshape(-1, 6)
    place = 3 ** np.arange(6)[::-1]
    axis = np.repeat(rng.integers(0, 6, 2 * people), 2)  # two parallel questions, twice
    corner = rng.integers(0, 3, (4 * people, 6))
    corner[np.arange(4 * people), axis] = rng.integers(0, 2, 4 * people)
    left = corner @ place
    pairs = np.column_stack([left, left + place[axis]])
    users = np.repeat(np.arange(people), 4)
    ideal = rng.standard_normal((people, 6))[users]
    response = answer(items, pairs, ideal, np.diag([2.0, 1.5, 1.0, 0.8, 0.5, 0.3]), seed=6)
    table = Comparisons.from_arrays(users, pairs, response, n_items=len(items))
    table.take(rng.permutation(len(table))).write(Path(folder) / "answers.parquet")
    np.save(Path(folder) / "items.npy", items)


def measure_other(what: str, folder: str, memory: str) -> dict[str, float]:
    """Diagnose or fit a scan; return seconds and peak memory."""
    from crowdmetric import IdealPointMetric, MatchedMetric  # noqa: PLC0415
    from crowdmetric.comparisons import Comparisons  # noqa: PLC0415
    from crowdmetric.identifiability import diagnose, plan_diagnosis  # noqa: PLC0415

    items, clock = np.load(Path(folder) / "items.npy"), process_time()
    scan = Comparisons.scan_parquet(f"{folder}/*.parquet", n_items=len(items))
    if what == "diagnose":
        plan = plan_diagnosis(items, scan, memory)
        diagnose(items, scan, memory=memory)
    else:
        kinds = {"matched": MatchedMetric(items, memory=memory)}
        kinds["ideal"] = IdealPointMetric(items, memory=memory, metric_bound=5.0, ideal_bound=5.0, tol=1e-6)
        plan = kinds[what].memory_plan(scan)
        kinds[what].fit(scan)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    predicted = (plan.needed + plan.room) / 1e9
    return {"seconds": process_time() - clock, "peak_gb": peak / 1e9, "predicted_gb": predicted}


def _others() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _call(f"write_lattice(300_000, {folder!r})")
        for what, memory in (("diagnose", "2GB"), ("matched", "2GB"), ("matched", "0.55GB"), ("ideal", "2GB")):
            found = json.loads(_call(f"measure_other({what!r}, {folder!r}, {memory!r})"))
            line = "{seconds:.0f} s, peak memory {peak_gb:.2f} GB (predicted {predicted_gb:.2f})".format(**found)
            print(f"{what}, limit {memory}: {line}", flush=True)


def _call(expression: str) -> str:
    code = f"import json; from benchmarks.streaming import *; print(json.dumps({expression}))"
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
    _others()
