"""What a pass over people costs as people, answers and features grow: the figures of docs/how-to/scaling.md.

A pass is what a fit does a few dozen times: log-likelihood, score and outer products of scores of everybody. People in
memory, one thread and two; seconds of the processor and of the clock, the least of three passes each. On a busy machine
only the first mean anything, and people per second and core follow from them.
"""

from __future__ import annotations

import os
from time import perf_counter, process_time

import numpy as np

# features, answers per person, people; what changes against the first line of its part of the table
CASES = [
    (10, 1, 25_000), (10, 1, 50_000), (10, 1, 100_000), (10, 1, 200_000),
    (10, 2, 50_000), (10, 4, 20_000), (10, 8, 10_000),
    (5, 1, 100_000), (20, 1, 30_000), (40, 1, 5_000), (76, 1, 1_000),
]  # fmt: skip


# With a GPU, as many people as keep it busy.
CASES_ON_A_CARD = [(10, 1, 1_000_000), (40, 1, 200_000), (76, 1, 50_000)]


def pass_over(d: int, answers: int, people: int, jobs: int | None) -> tuple[float, float]:
    """Return the seconds of the processor and of the clock that a pass takes; `jobs` None: on a GPU."""
    from crowdmetric.engines.local import LocalEngine  # noqa: PLC0415
    from crowdmetric.engines.torch_engine import TorchEngine  # noqa: PLC0415
    from crowdmetric.fits.crowd import crowd_in_memory  # noqa: PLC0415
    from crowdmetric.fits.problem import PopulationProblem  # noqa: PLC0415
    from crowdmetric.inputs import read_rows  # noqa: PLC0415
    from crowdmetric.losses import Logistic  # noqa: PLC0415
    from crowdmetric.solvers.parametrization import Parametrization  # noqa: PLC0415
    from crowdmetric.users.population_sums import STRUCTURES  # noqa: PLC0415

    rng = np.random.default_rng(0)
    items = rng.standard_normal((1_000, d)) / np.sqrt(d)
    users = np.repeat(np.arange(people), answers)
    left = rng.integers(0, 1_000, users.size)
    pairs = np.column_stack([left, (left + rng.integers(1, 1_000, users.size)) % 1_000])
    rows = read_rows(pairs, rng.choice([-1.0, 1.0], users.size), users, None, items, Logistic())
    card = TorchEngine("cuda") if jobs is None else None
    crowd = crowd_in_memory(rows, card.blocks if card else 1)
    problem = PopulationProblem.of(crowd, STRUCTURES["isotropic"], Logistic(), card or LocalEngine(jobs))
    chart = Parametrization(d, d, False)
    natural = chart.natural(chart.theta(2.0 * np.eye(d), np.zeros(d), np.log([1.0 / np.sqrt(d)])))
    problem.total(natural)  # compiles the loops
    seconds = []
    for _ in range(3):
        clock, wall = process_time(), perf_counter()
        problem.total(natural)
        seconds.append((process_time() - clock, perf_counter() - wall))
    return min(s for s, _ in seconds), min(w for _, w in seconds)


def main() -> None:
    print(f"load of the machine before: {os.getloadavg()[0]:.2f}")
    print("  d   answers     people   processor    people per second   answers per second  clock, 1 thread   2 threads")
    for d, answers, people in CASES:
        (busy, one), (_, two) = (pass_over(d, answers, people, jobs) for jobs in (1, 2))
        print(
            f"{d:3}{answers:10}{people:11,}{1e3 * busy:9.0f} ms{people / busy:19,.0f}{people * answers / busy:21,.0f}"
            f"{1e3 * one:16.0f} ms{1e3 * two:9.0f} ms",
            flush=True,
        )
    for d, answers, people in CASES_ON_A_CARD if _has_card() else []:
        _, clock = pass_over(d, answers, people, None)  # sums come back to the processor, so the clock waits for them
        print(f"{d:3}{answers:10}{people:11,}{people / clock:31,.0f} on the card{1e3 * clock:24.0f} ms", flush=True)


def _has_card() -> bool:
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return False
    return bool(torch.cuda.is_available())
