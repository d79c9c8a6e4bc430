"""How often 90 % intervals hold the truth, on crowds of the model: entries, distances and ratios of distances.

Within a run intervals go wrong together, so that a share is a mean over runs, with the standard error of that mean.
`main` takes the number of runs and the names of settings, to run some of it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np

from crowdmetric.design import matched_from_generator
from crowdmetric.estimators import MatchedMetric, PopulationMetric
from crowdmetric.estimators.base import CrowdMetric
from crowdmetric.intervals import distance_ratios, distances, entries
from crowdmetric.simulate import answer, sample_metric, simulate_crowd

LEVEL = 0.9
PAIRS = 200
Fitted = tuple[CrowdMetric, np.ndarray]


def population(
    d: int, n: int | None, r: int | None, users: int, comparisons: int, **options: str
) -> Callable[[int], Fitted]:
    """Return a function of a seed that simulates and fits."""

    def fit(seed: int) -> Fitted:
        crowd = simulate_crowd(d, n, r, users, comparisons, seed=seed)
        model = PopulationMetric(crowd.items, starts=1, **options)  # type: ignore[arg-type]
        return model.fit(crowd.pairs, crowd.y, users=crowd.users), crowd.metric

    return fit


def matched(d: int, people: int) -> Callable[[int], Fitted]:
    """Return a function of a seed that asks matched questions and fits."""

    def fit(seed: int) -> Fitted:
        rng = np.random.default_rng(seed)
        ask = matched_from_generator(d, people, seed=seed)
        M, u = sample_metric(d, rng), rng.standard_normal((people, d)) / np.sqrt(d)
        y = answer(ask.items, ask.pairs, u[ask.person], M, seed=seed)
        return MatchedMetric(ask.items).fit(ask.pairs, y, users=ask.person), M

    return fit


SETTINGS: dict[str, Callable[[int], Fitted]] = {
    "lines d=10, 80 × (80, 8)": population(10, 80, 1, 80, 8),
    "lines d=10, 80 × (40, 4)": population(10, 80, 1, 40, 4),
    "general d=5, 5,000 × 2": population(5, None, None, 5_000, 2),
    "general d=5, 5,000 × 2, free": population(5, None, None, 5_000, 2, covariance="free"),
    "general d=5, 1,000 × 8": population(5, None, None, 1_000, 8),
    "general d=10, 20,000 × 2": population(10, None, None, 20_000, 2),
    "matched d=5, 5,000 × 2": matched(5, 5_000),
}


def shares(model: CrowdMetric, truth: np.ndarray, seed: int) -> tuple[float, float, float]:
    """Return the share of intervals that hold the truth: for entries, distances and ratios, between random items."""
    d = len(truth)
    x = np.random.default_rng(seed).standard_normal((2, PAIRS, 2, d))
    delta = x[:, :, 0] - x[:, :, 1]
    far = np.sqrt(np.einsum("spi,ij,spj->sp", delta, truth, delta))
    held = entries(model, LEVEL).contains(truth)[np.triu_indices(d)]
    return (
        float(held.mean()),
        float(distances(model, x[0], LEVEL).contains(far[0]).mean()),
        float(distance_ratios(model, x[0], x[1], LEVEL).contains(far[0] / far[1]).mean()),
    )


def measure(name: str, runs: int, first: int = 1000) -> None:
    """Print one line of the table."""
    clock = process_time()
    table = np.array([shares(*SETTINGS[name](seed), seed) for seed in range(first, first + runs)])
    mean, error = table.mean(axis=0), table.std(axis=0, ddof=1) / np.sqrt(runs)
    cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
    print(
        f"  {name:<32}" + "   ".join(cells) + f"   {(process_time() - clock) / runs:5.1f} s of a core a run", flush=True
    )


def main(runs: int = 32, names: list[str] | None = None) -> None:
    print(f"share of {LEVEL:.0%} intervals that hold the truth, {runs} runs: entries, distances, ratios of distances")
    for name in names or SETTINGS:
        measure(name, runs)
