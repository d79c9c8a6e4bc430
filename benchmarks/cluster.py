"""A population fit on a Dask cluster of one and of two workers, beside one thread of this machine.

Workers are processes of this machine with one thread each. The fit is timed from the first chunk that travels to the
last standard error, on a cluster that has compiled its loops and whose scheduler is otherwise idle; its work on one
worker should take a minute or more. Seconds are those of the clock, since what is measured is how much of it a second
worker saves: run this on an idle machine (the load before it is printed, and the seconds of the processors beside).
"""

from __future__ import annotations

import os
from time import perf_counter, process_time
from typing import Any

import numpy as np

D, N_ITEMS, PEOPLE, ANSWERS = 10, 1_000, 1_500_000, 1


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
    """Return what a worker's process has taken so far."""
    return process_time()


def on_cluster(workers: int, data: tuple[np.ndarray, ...], small: tuple[np.ndarray, ...]) -> tuple[Any, float, float]:
    """Return the model, the seconds of the clock and those of the workers' processors."""
    import distributed  # noqa: PLC0415

    from crowdmetric.engines.dask_engine import DaskEngine  # noqa: PLC0415

    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as local,
        distributed.Client(local) as client,
    ):
        for _ in range(2):  # every worker compiles its loops
            fit(DaskEngine(client), small)
        before = sum(client.run(_processor_seconds).values())
        model, seconds = fit(DaskEngine(client), data)
        return model, seconds, sum(client.run(_processor_seconds).values()) - before


def main() -> None:
    from crowdmetric.engines.local import LocalEngine  # noqa: PLC0415

    print(f"load of the machine before: {os.getloadavg()[0]:.2f}")
    data, small = crowd(PEOPLE), crowd(20_000)
    fit(LocalEngine(1), small)
    here, alone = fit(LocalEngine(1), data)
    print(f"{PEOPLE:,} people, {ANSWERS} answer each, d = {D}; this process, one thread: {alone:.1f} s", flush=True)
    seconds = {}
    for workers in (1, 2):
        model, seconds[workers], busy = on_cluster(workers, data, small)
        apart = np.max(np.abs(model.metric_ - here.metric_)) / np.max(np.abs(here.metric_))
        print(
            f"Dask, {workers} worker{'s' if workers > 1 else ''}: {seconds[workers]:.1f} s, of which processors of "
            f"workers {busy:.1f} s; the metric differs by {apart:.1e}",
            flush=True,
        )
    print(f"two workers are {seconds[1] / seconds[2]:.2f} × as fast as one")
