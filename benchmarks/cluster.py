"""A population fit on a Dask cluster of one and of two workers, beside one thread of this machine.

Workers are processes of this machine with one thread each. The fit is timed from the first chunk that travels to the
last standard error, on a cluster that has compiled its loops and whose scheduler is otherwise idle; its work on one
worker should take a minute or more. What counts are seconds of the clock on an idle machine, so the load before is
printed. On a busy one the seconds of the processors say what the clock would at best: those of this process, which
works while the workers wait, and those of the busiest worker.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np

D, N_ITEMS, PEOPLE, ANSWERS = 10, 1_000, 500_000, 4


def crowd(people: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return items, pairs, answers and people."""
    from benchmarks.streaming import truth  # noqa: PLC0415
    from crowdmetric.simulate import answer  # noqa: PLC0415

    items, metric = truth()
    rng = np.random.default_rng(3)
    users = np.repeat(np.arange(people), ANSWERS)
    left = rng.integers(0, N_ITEMS, users.size)
    pairs = np.column_stack([left, (left + rng.integers(1, N_ITEMS, users.size)) % N_ITEMS])
    ideal = (0.5 * rng.standard_normal((people, D)) / np.sqrt(D))[users]
    return items, pairs, answer(items, pairs, ideal, metric, seed=4), users


def fit(engine: Any, data: tuple[np.ndarray, ...]) -> tuple[Any, float]:
    """Return a fitted model and the seconds it took."""
    from crowdmetric import PopulationMetric  # noqa: PLC0415

    items, pairs, y, users = data
    clock = perf_counter()
    model = PopulationMetric(items, engine=engine).fit(pairs, y, users=users)
    return model, perf_counter() - clock


def _processor_seconds() -> float:
    """Return what this process has taken so far."""
    return process_time()


@dataclass(frozen=True)
class Run:
    """A fit on a cluster: the model, and seconds of the clock, of this process and of its workers' processors."""

    model: Any
    clock: float
    here: float
    workers: list[float]

    @property
    def path(self) -> float:
        """Seconds that the clock could not fall below on an idle machine: this process, then the busiest worker."""
        return self.here + max(self.workers)


def on_cluster(workers: int, data: tuple[np.ndarray, ...], small: tuple[np.ndarray, ...]) -> Run:
    """Fit on a cluster of processes of this machine."""
    from crowdmetric.engines.dask_engine import DaskEngine  # noqa: PLC0415

    with DaskEngine.here(workers) as engine:
        for _ in range(2):  # every worker compiles its loops
            fit(engine, small)
        before, begin = engine.client.run(_processor_seconds), process_time()
        model, seconds = fit(engine, data)
        here, after = process_time() - begin, engine.client.run(_processor_seconds)
        return Run(model, seconds, here, [after[name] - before[name] for name in before])


def main() -> None:
    from crowdmetric.engines.local import LocalEngine  # noqa: PLC0415

    print(f"load of the machine before: {os.getloadavg()[0]:.2f}")
    data, small = crowd(PEOPLE), crowd(20_000)
    fit(LocalEngine(1), small)
    begin = process_time()
    here, alone = fit(LocalEngine(1), data)
    print(
        f"{PEOPLE:,} people, {ANSWERS} answers each, d = {D}; this process, one thread: {alone:.1f} s, processor "
        f"{process_time() - begin:.1f} s",
        flush=True,
    )
    runs = {}
    for workers in (1, 2):
        run = runs[workers] = on_cluster(workers, data, small)
        apart = np.max(np.abs(run.model.metric_ - here.metric_)) / np.max(np.abs(here.metric_))
        print(
            f"Dask, {workers} worker{'s' if workers > 1 else ''}: {run.clock:.1f} s; processor: this process "
            f"{run.here:.1f} s, workers {', '.join(f'{s:.1f}' for s in run.workers)} s; the metric differs by "
            f"{apart:.1e}",
            flush=True,
        )
    print(
        f"two workers are {runs[1].clock / runs[2].clock:.2f} × as fast as one by the clock, and "
        f"{runs[1].path / runs[2].path:.2f} × by processors (this process, then the busiest worker)"
    )
