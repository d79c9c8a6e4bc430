"""Cost and memory of one subspace (r = 2, m = 4) as people grow from a thousand to a million.

Each size runs in a process of its own, so its peak memory is its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from time import perf_counter

import numpy as np

SIZES = (1_000, 10_000, 100_000, 1_000_000)


def measure(users: int) -> dict[str, float]:
    """Fit once; return seconds, iterations, and memory beyond the libraries as a multiple of the input arrays."""
    from crowdmetric import IdealPointMetric  # noqa: PLC0415 - the process that measures loads it, not the parent
    from crowdmetric.simulate import simulate_crowd  # noqa: PLC0415

    small = simulate_crowd(2, None, None, 50, 4, seed=1)
    IdealPointMetric(small.items, metric_bound=2.0, ideal_bound=4.0).fit(small.pairs, small.y, users=small.users)
    baseline = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    items, pairs, y, owner, metric = light_crowd(users)
    size = items.nbytes + pairs.nbytes + y.nbytes + owner.nbytes
    model = IdealPointMetric(items, metric_bound=float(np.linalg.norm(metric)), ideal_bound=6.0)
    clock = perf_counter()
    model.fit(pairs, y, users=owner)
    seconds = perf_counter() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - baseline
    error = float(np.linalg.norm(model.metric_ - metric) / np.linalg.norm(metric))
    return {
        "users": users, "seconds": seconds, "iterations": model.solution_.iterations, "gap": model.solution_.gap,
        "input_mb": size / 2**20, "memory": peak / size, "error": error,
    }  # fmt: skip


def light_crowd(users: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Make the paper's data in R² in pieces, so making it needs less memory than fitting it."""
    from crowdmetric.simulate import simulate_crowd  # noqa: PLC0415

    pieces = [simulate_crowd(2, None, None, min(10_000, users), 4, seed=seed, metric=np.array([[1.6, 0.5], [0.5, 0.9]]))
              for seed in range(max(1, users // 10_000))]  # fmt: skip
    items = np.concatenate([p.items for p in pieces])
    offset, count = pieces[0].items.shape[0], pieces[0].ideal_points.shape[0]
    pairs = np.concatenate([p.pairs + i * offset for i, p in enumerate(pieces)])
    owner = np.concatenate([p.users + i * count for i, p in enumerate(pieces)])
    return items, pairs, np.concatenate([p.y for p in pieces]), owner, pieces[0].metric


def main() -> None:
    results = []
    for users in SIZES:
        code = f"import json; from benchmarks.people import measure; print(json.dumps(measure({users})))"
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        results.append(json.loads(done.stdout))
        line = (
            "{users:>9,} people: {seconds:8.2f} s, {iterations} iterations, gap {gap:.0e}, relative error {error:.3f}"
        )
        if results[-1]["input_mb"] > 100:  # below that, compiling took more memory than fitting
            line += ", peak memory {memory:.1f} × the {input_mb:.0f} MB of input"
        print(line.format(**results[-1]), flush=True)
    slope = np.polyfit(np.log([r["users"] for r in results]), np.log([r["seconds"] for r in results]), 1)[0]
    print(f"log-log slope of time against people: {slope:.2f}")
