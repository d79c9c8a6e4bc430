"""Integrating people out: error beside the Cramér–Rao bound, its fall with people, and time against people.

``python -m benchmarks population`` prints means over fresh crowds. The Cramér–Rao figure is
``√tr(I⁻¹) / ‖M‖`` for the metric's block of the inverse information at the truth, with the outer products of people's
scores standing in for their expectation. Other packages on the same likelihood: ``python -m benchmarks packages``.
"""

from __future__ import annotations

import warnings
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from crowdmetric import PopulationMetric
from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import CrowdmetricWarning
from crowdmetric.losses import Logistic
from crowdmetric.simulate import SimulatedCrowd, simulate_crowd
from crowdmetric.symmetric import degrees_of_freedom, relative_error, shape_error, svec
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.population_sums import STRUCTURES, blocks_of, sums_of

RUNS = 8
# Of the errors at given sizes: with eight, (40, 4) on lines came out at 0.406 ± 0.014, with 32 at 0.383 ± 0.009.
ERROR_RUNS = 16
# name: (arguments of simulate_crowd, what was asked for)
CASES: dict[str, tuple[dict[str, Any], float]] = {
    "lines, K=10, m=2": ({"subspaces": 80, "rank": 1, "users": 10, "comparisons": 2}, 0.70),
    "lines, K=40, m=4": ({"subspaces": 80, "rank": 1, "users": 40, "comparisons": 4}, 0.40),
    "lines, K=80, m=8": ({"subspaces": 80, "rank": 1, "users": 80, "comparisons": 8}, 0.21),
    "planes, K=80, m=10": ({"subspaces": 40, "rank": 2, "users": 80, "comparisons": 10}, 0.135),
    "general, 50,000 × 1": ({"subspaces": None, "rank": None, "users": 50_000, "comparisons": 1}, 0.11),
    "general, 20,000 × 2": ({"subspaces": None, "rank": None, "users": 20_000, "comparisons": 2}, 0.09),
    "clusters d=5, 50,000 × 1": (
        {"dimension": 5, "subspaces": None, "rank": None, "users": 50_000, "comparisons": 1, "people": "clusters"},
        0.12,
    ),
}


def _fit(crowd: SimulatedCrowd, **options: Any) -> PopulationMetric:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)
        return PopulationMetric(crowd.items, **options).fit(crowd.pairs, crowd.y, users=crowd.users)


def _cramer_rao(crowd: SimulatedCrowd) -> float:
    d = crowd.metric.shape[0]
    answers = Answers(
        crowd.items, crowd.pairs, crowd.y.astype(float), np.ones(crowd.y.size), crowd.users,
        np.zeros(len(crowd.ideal_points), dtype=np.intp), 1,
    )  # fmt: skip
    natural = np.concatenate([svec(crowd.metric), np.zeros(d), [-0.5 * np.log(d)]])
    job = partial(sums_of, structure=STRUCTURES["isotropic"], natural=natural, loss=Logistic(), largest_grid=1)
    information = LocalEngine().sum(job, blocks_of(arrange(answers))).information
    assert information is not None
    p = degrees_of_freedom(d)
    return float(np.sqrt(np.trace(np.linalg.inv(information)[:p, :p])) / np.linalg.norm(crowd.metric))


def errors() -> None:
    print(f"{'':28}{'error':>7} ± sd   {'shape':>6}  {'asked':>6}  {'bound':>6}   s a fit")
    for name, (settings, asked) in CASES.items():
        free = "people" in settings
        rows = []
        for run in range(ERROR_RUNS):
            crowd = simulate_crowd(**({"dimension": 10} | settings), seed=70_000 + run)
            clock = perf_counter()
            model = _fit(crowd, covariance="free" if free else "isotropic", uncertainty=False)
            seconds = perf_counter() - clock
            bound = np.nan if free else _cramer_rao(crowd)
            rows.append(
                (relative_error(model.metric_, crowd.metric), shape_error(model.metric_, crowd.metric), bound, seconds)
            )
        mean, sd = np.mean(rows, axis=0), np.std(rows, axis=0)
        print(
            f"{name:28}{mean[0]:7.3f} ± {sd[0]:.3f} {mean[1]:6.3f}  {asked:6.3f}  {mean[2]:6.3f}   {mean[3]:.2f}",
            flush=True,
        )


def many_answers() -> None:
    """Compare expectation propagation with each answer as a person of its own, at d = 16 with 2,000 people × 20."""
    rows = []
    for run in range(4):
        crowd = simulate_crowd(16, None, None, 2_000, 20, seed=90_000 + run)
        together = _fit(crowd, starts=1, uncertainty=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdmetricWarning)
            apart = PopulationMetric(crowd.items, starts=1, uncertainty=False)
            apart.fit(crowd.pairs, crowd.y, users=np.arange(crowd.y.size))
        rows.append(
            [f(m.metric_, crowd.metric) for f in (relative_error, shape_error) for m in (together, apart)]
            + [together.approximation_error_]
        )
    mean = np.mean(rows, axis=0)
    print(
        f"\nd = 16, 2,000 × 20: error {mean[0]:.3f} by propagation (which moves entries by up to {mean[4]:.2f} "
        f"standard errors), {mean[1]:.3f} with each answer apart: {mean[1] / mean[0]:.1f}×; "
        f"shapes {mean[2]:.3f} and {mean[3]:.3f}"
    )


def decay() -> list[tuple[int, float, float, float]]:
    """Return people, mean error, its standard error and the mean bound, over two decades of people."""
    print(f"\nerror against people, d = 5, two answers each, {RUNS} runs (and the bound)")
    found = []
    for people in (1_000, 3_162, 10_000, 31_623, 100_000):
        rows = []
        for run in range(RUNS):
            crowd = simulate_crowd(5, None, None, people, 2, seed=80_000 + run)
            model = _fit(crowd, uncertainty=False, starts=1)
            rows.append((relative_error(model.metric_, crowd.metric), _cramer_rao(crowd)))
        (error, bound), doubt = np.mean(rows, axis=0), float(np.std([row[0] for row in rows], ddof=1) / RUNS**0.5)
        found.append((people, float(error), doubt, float(bound)))
        print(
            f"{people:9,}  {error:.4f} ± {doubt:.4f}  ({bound:.4f})   error × √people {error * people**0.5:.2f}",
            flush=True,
        )
    return found


def scaling() -> None:
    print("\ntime against people, d = 10, one answer each")
    for people in (50_000, 200_000, 1_000_000):
        crowd = simulate_crowd(10, None, None, people, 1, seed=1)
        clock = perf_counter()
        model = _fit(crowd)
        print(
            f"{people:9,}  {perf_counter() - clock:6.1f} s  error {relative_error(model.metric_, crowd.metric):.3f}",
            flush=True,
        )


def main() -> None:
    errors()
    many_answers()
    decay()
    scaling()
