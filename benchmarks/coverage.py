"""How often 90 % intervals hold the truth, on crowds of the model: the numbers of the report's own tables.

Strengths, shares, angles and weights are read from `find_directions`, which the report shows; entries, distances and
ratios from `crowdmetric.intervals`. Beside the share of intervals that hold the truth stands the share of estimates
outside their own interval, which must be 0. Within a run intervals go wrong together, so a share is a mean over
runs, with the standard error of that mean. ``python -m benchmarks.coverage --runs 40 'd=3, 100 × 5'`` runs some.

What moves choices has its own table, over crowds with steady tastes and normal or yes/no items: shares of features
and contrasts between values (`crowdmetric.importance`), beside what the true law gives for the same questions. The
last columns are the root mean square error of log-odds in standard errors, by the width of intervals, and how many of
the contrasts that are known to be above or below zero have the wrong sign. ``--what-moves-choices`` prints it alone.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
from scipy.special import logit

from crowdmetric.base import CrowdMetric
from crowdmetric.comparisons import Comparisons
from crowdmetric.design import matched_from_generator
from crowdmetric.errors import CrowdmetricWarning
from crowdmetric.estimators import MatchedMetric, PopulationMetric
from crowdmetric.importance import find_importance
from crowdmetric.intervals import Intervals, distance_ratios, distances, entries
from crowdmetric.persist import save_model
from crowdmetric.report.directions import angles_from, find_directions, numbers_of
from crowdmetric.simulate import answer, sample_metric, simulate_crowd
from crowdmetric.summary import InMemory

LEVEL = 0.9
PAIRS = 200
KINDS = ("strengths", "angles", "shares", "weights", "entries", "distances", "ratios")
Fitted = tuple[CrowdMetric, np.ndarray]


def population(
    d: int, n: int | None, r: int | None, users: int, comparisons: int, stretch: float = 1.0,
    crowd_of: dict[str, Any] | None = None, **options: str,
) -> Callable[[int], Fitted]:  # fmt: skip
    """Return a function of a seed that simulates and fits.

    The first feature is multiplied by `stretch`; `crowd_of` is told to `simulate_crowd`.
    """

    def fit(seed: int) -> Fitted:
        crowd = simulate_crowd(d, n, r, users, comparisons, seed=seed, **(crowd_of or {}))
        units = np.ones(d)
        units[0] = stretch
        model = PopulationMetric(crowd.items * units, starts=1, **options)  # type: ignore[arg-type]
        return model.fit(crowd.pairs, crowd.y, users=crowd.users), crowd.metric / units / units[:, None]

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


DIAGONAL = np.diag([4.0, 2.0, 1.0, 0.5, 0.25, 0.1])
SIZES = ((100, 5), (300, 6), (4_000, 2))
SETTINGS: dict[str, Callable[[int], Fitted]] = {
    **{f"d={d}, {users:,} × {m}": population(d, None, None, users, m) for d in (3, 6, 10) for users, m in SIZES},
    **{f"d=6, {users:,} × {m}, a feature × 3": population(6, None, None, users, m, 3.0) for users, m in SIZES},
    "d=3, 100 × 5, a feature × 3": population(3, None, None, 100, 5, 3.0),
    # truths that are not drawn from the law that intervals believe in
    "d=6, 100 × 5, a round metric": population(6, None, None, 100, 5, crowd_of={"metric": 1.5 * np.eye(6)}),
    "d=6, 100 × 5, a diagonal metric": population(6, None, None, 100, 5, crowd_of={"metric": DIAGONAL}),
    "d=6, 100 × 5, clusters of people": population(6, None, None, 100, 5, crowd_of={"people": "clusters"}),
    "d=5, 1,000 × 8, free covariance": population(5, None, None, 1_000, 8, covariance="free"),
    # crowds so large that the errors of propagation add up, with and without the correction
    **{
        f"d={d}, {users:,} × 4{', free covariance' if free else ''}{'' if corrects else ', not corrected'}": population(
            d,
            None,
            None,
            users,
            4,
            covariance="free" if free else "isotropic",
            integration="auto" if corrects else "propagation",
        )
        for d, users, free in ((3, 40_000, False), (3, 20_000, True), (6, 10_000, False))
        for corrects in (False, True)
    },
    "d=10, 80 lines, 80 × 8": population(10, 80, 1, 80, 8),
    "d=5, matched 5,000 × 2": matched(5, 5_000),
}


def held(model: CrowdMetric, truth: np.ndarray, seed: int) -> tuple[list[float], float]:
    """Return the share of intervals of each kind that hold the truth, and of all estimates outside their own."""
    items = np.asarray(model.items)
    with TemporaryDirectory() as folder:
        saved = save_model(Path(folder) / "model", model)
    found = find_directions(saved, items)
    true = {name: of(truth[None])[0] for name, of in numbers_of(saved, items, found.vectors).items()}
    kinds = [found.strength_intervals, found.share_intervals, found.weight_intervals, entries(model, LEVEL)]
    # pairs of different items
    rng, N = np.random.default_rng(seed), len(items)
    left = rng.integers(N, size=(2, PAIRS))
    x = items[np.stack([left, (left + rng.integers(1, N, size=(2, PAIRS))) % N], axis=2)]
    delta = x[:, :, 0] - x[:, :, 1]
    far = np.sqrt(np.einsum("spi,ij,spj->sp", delta, truth, delta))
    kinds += [distances(model, x[0], LEVEL), distance_ratios(model, x[0], x[1], LEVEL)]
    values = [true["strengths"], true["shares"], true["weights"], truth, far[0], far[0] / far[1]]
    shares, outside = [], []
    for sure, value in zip(kinds, values, strict=True):
        assert isinstance(sure, Intervals)
        inside, own = sure.contains(value), ~sure.contains(sure.estimate)
        if value.ndim == 2:
            inside, own = (a[np.triu_indices(len(truth))] for a in (inside, own))
        shares.append(float(inside.mean()))
        outside.append(own)
    assert found.angles is not None
    shares.insert(1, float(np.mean(angles_from(found.vectors, truth[None], found.units)[0] <= found.angles)))
    return shares, float(np.concatenate(outside).mean())


def measure(name: str, runs: int, first: int) -> None:
    """Print one line of the table."""
    clock = process_time()
    table, outside = [], []
    for seed in range(first, first + runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdmetricWarning)
            model, truth = SETTINGS[name](seed)
        shares, own = held(model, truth, seed)
        table.append(shares)
        outside.append(own)
    mean, error = np.mean(table, axis=0), np.std(table, axis=0, ddof=1) / np.sqrt(runs)
    cells = [f"{m:.2f} ± {e:.2f}" for m, e in zip(mean, error, strict=True)]
    seconds = (process_time() - clock) / runs
    print(f"| {name} | {runs} | {' | '.join(cells)} | {np.mean(outside):.2%} | {seconds:.1f} s |", flush=True)


def crowd_with_tastes(
    d: int, yes_no: bool, free: bool, seed: int, people: int = 500, answers: int = 6
) -> tuple[np.ndarray, Comparisons, dict[str, np.ndarray]]:
    """Return items, answers, and the law that they were drawn from."""
    rng = np.random.default_rng(seed)
    N = 150
    items = (rng.random((N, d)) < rng.uniform(0.1, 0.5, d)).astype(float) if yes_no else rng.standard_normal((N, d))
    size = float(np.sqrt(np.mean(np.var(items, axis=0))))
    A = rng.standard_normal((d, d)) / np.sqrt(d)
    M = 1.5 * (A @ A.T + 0.1 * np.eye(d)) / size**2
    B = rng.standard_normal((d, d)) / np.sqrt(d)
    S = (0.5 * size) ** 2 * (B @ B.T + 0.2 * np.eye(d) if free else np.eye(d))
    center = items.mean(axis=0) + 0.5 * size * rng.standard_normal(d)
    u = rng.multivariate_normal(center, S, size=people)
    users = np.repeat(np.arange(people), answers)
    left = rng.integers(N, size=users.size)
    pairs = np.column_stack([left, (left + rng.integers(1, N, size=users.size)) % N])
    y = answer(items, pairs, u[users], M, seed=seed + 1)
    law = {"metric_": M, "pseudo_ideal_mean_": -2.0 * M @ center, "pseudo_ideal_covariance_": 4.0 * M @ S @ M}
    return items, Comparisons.from_arrays(users, pairs, y, n_items=N), law


def measure_importance(d: int, yes_no: bool, free: bool, runs: int, first: int) -> None:
    """Print one line of the table on what moves choices."""
    clock = process_time()
    table, pulls, wrong, known = [], [], 0, 0
    for seed in range(first, first + runs):
        items, answers, law = crowd_with_tastes(d, yes_no, free, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdmetricWarning)
            model = PopulationMetric(items, starts=1, covariance="free" if free else "isotropic").fit(answers)
        learned = InMemory.of(model)
        found = find_importance(learned)
        fitted = {name: value for name, value in learned.fitted.items() if name != "law_draws_"}
        true = find_importance(replace(learned, fitted=fitted | law, metric=law["metric_"]))
        held = [(found.low <= true.shares) & (true.shares <= found.high)]
        held += [(found.chosen_low <= true.chosen) & (true.chosen <= found.chosen_high)]
        table.append([float(np.mean(inside)) for inside in held])
        half = 0.5 * (logit(found.chosen_high) - logit(found.chosen_low)) / 1.645
        pulls.append(np.mean(((found.log_odds - true.log_odds) / half) ** 2))
        clear = (found.chosen_low > 0.5) | (found.chosen_high < 0.5)
        known += int(clear.sum())
        wrong += int(np.sum(clear & (np.sign(found.log_odds) != np.sign(true.log_odds))))
    mean, error = np.mean(table, axis=0), np.std(table, axis=0, ddof=1) / np.sqrt(runs)
    cells = [f"{m:.2f} ± {e:.2f}" for m, e in zip(mean, error, strict=True)]
    name = f"d={d}, {'yes/no' if yes_no else 'normal'} items, {'free' if free else 'isotropic'} people"
    seconds = (process_time() - clock) / runs
    pull = float(np.sqrt(np.mean(pulls)))
    print(f"| {name} | {runs} | {' | '.join(cells)} | {pull:.2f} | {wrong} of {known} | {seconds:.1f} s |", flush=True)


def print_importance(runs: int, first: int) -> None:
    """Print the table on what moves choices."""
    print("| 500 people × 6 answers | runs | shares | contrasts | pull | wrong sign | CPU per run |")
    print("|---" * 7 + "|")
    for free in (False, True):
        for yes_no in (False, True):
            for d in (3, 4, 6):
                measure_importance(d, yes_no, free, runs, first)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--first", type=int, default=7000, help="seed of the first run")
    parser.add_argument("settings", nargs="*", metavar="setting", help=f"some of: {'; '.join(SETTINGS)}")
    parser.add_argument("--what-moves-choices", action="store_true", help="only the table on what moves choices")
    options = parser.parse_args(arguments or [])
    if options.what_moves_choices:
        print_importance(options.runs, options.first)
        return
    print(f"share of {LEVEL:.0%} intervals that hold the truth, and of estimates outside their own")
    print(f"| crowd | runs | {' | '.join(KINDS)} | outside | CPU per run |")
    print("|---" * (len(KINDS) + 4) + "|")
    for name in options.settings or SETTINGS:
        measure(name, options.runs, options.first)
    if not options.settings:
        print_importance(options.runs, options.first)


if __name__ == "__main__":
    main(sys.argv[1:])
