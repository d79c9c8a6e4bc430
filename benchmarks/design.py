"""Designed questionnaires against random pairs at equal cost: promised and measured error, and the gain."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np

from crowdmetric.design import Questionnaire, design
from crowdmetric.estimators import MatchedMetric, PopulationMetric
from crowdmetric.simulate import answer, sample_metric, simulate_crowd
from crowdmetric.symmetric import relative_error, shape_error


def measure(ask: Questionnaire, metric: np.ndarray, runs: int) -> np.ndarray:
    """Return the squared errors (runs, 2), raw and of the shape, of fresh Gaussian crowds."""
    d = len(metric)
    errors = []
    for seed in range(runs):
        u = np.random.default_rng(seed).standard_normal((ask.n_people, d)) / np.sqrt(d)
        y = answer(ask.items, ask.pairs, u[ask.person], metric, seed=1000 + seed)
        if "Matched" in ask.advice:
            model: Any = MatchedMetric(ask.items)
        else:
            model = PopulationMetric(ask.items, starts=1)
        fitted = model.fit(ask.pairs, y, users=ask.person).metric_
        errors.append([relative_error(fitted, metric), shape_error(fitted, metric)])
    return np.square(errors)


def compare(title: str, metrics: list[np.ndarray], runs: int, kinds: dict[str, dict[str, Any]]) -> None:
    """Print promised and measured errors of some kinds, and the gain over the first of them."""
    print(title, flush=True)
    chance = None
    for name, options in kinds.items():
        promised, squares, clock = [], [], process_time()
        for seed, metric in enumerate(metrics):
            guess = {"metric": metric} if options.get("guess") else {}
            told = {key: value for key, value in options.items() if key != "guess"}
            u = np.random.default_rng(99).standard_normal((5000, len(metric))) / np.sqrt(len(metric))
            ask = design(ideal_points=u, seed=seed, **guess, **told)
            promised.append([ask.expected_error, ask.expected_shape_error])
            if seed == 0:
                spent = process_time() - clock
            squares.append(measure(ask, metric, runs))
        p, m = np.sqrt(np.mean(np.square(promised), axis=0)), np.sqrt(np.mean(np.concatenate(squares), axis=0))
        chance = m if chance is None else chance
        print(
            f"  {name:<34} promised {p[0]:.3f}, measured {m[0]:.3f}, gain {chance[0] / m[0]:.2f}; up to scale "
            f"{p[1]:.3f}, {m[1]:.3f}, gain {chance[1] / m[1]:.2f} ({spent:.0f} s of one core to design)", flush=True
        )  # fmt: skip


def main() -> None:
    """Print the table of docs/how-to/design.md."""
    for d, people, count, runs in ((3, 2000, 4, 4), (5, 4000, 4, 3), (10, 10_000, 1, 3)):
        items = np.random.default_rng(0).standard_normal((10_000, d)) / np.sqrt(d)
        metrics = [sample_metric(d, np.random.default_rng(seed)) for seed in range(count)]
        common: dict[str, Any] = {"people": people, "answers": 2}
        there = common | {"items": items}
        compare(
            f"d = {d}, {people:,} people, two answers each, 10,000 items; {count * runs} runs", metrics, runs,
            {
                "random pairs": there | {"kind": "random", "guess": True},
                "optimal, no guess": there | {"kind": "optimal"},
                "optimal, the metric as the guess": there | {"kind": "optimal", "guess": True},
                "matched, new items, no guess": common | {"kind": "matched", "dimension": d},
                "matched, new items, guess": common | {"kind": "matched", "dimension": d, "guess": True},
            },
        )  # fmt: skip
    crowd = simulate_crowd(4, 12, 2, users=20, comparisons=4, seed=0)
    told = {"items": crowd.items, "people": 2000, "answers": 3, "guess": True}
    compare(
        "items in 12 planes of R⁴, 2,000 people, three answers each; 6 runs", [crowd.metric], 6,
        {"random pairs": told | {"kind": "random"},
         "within subspaces": told | {"kind": "within", "subspaces": crowd.labels}},
    )  # fmt: skip
