"""Matched questions: error against people and their kind, bias against mismatch, and the search for parallelograms."""

from __future__ import annotations

from time import perf_counter, process_time

import numpy as np

from crowdmetric.design import matched_from_catalogue, matched_from_generator
from crowdmetric.estimators import MatchedMetric
from crowdmetric.simulate import PEOPLE, answer, sample_metric
from crowdmetric.symmetric import relative_error, shape_error

D = 10


def questions(people: int, mismatch: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return items and pairs of two random questions per person, whose sides differ by `mismatch` of their length."""
    middle = rng.standard_normal((people, 2, D)) / np.sqrt(D)
    delta = np.repeat(rng.standard_normal((people, 1, D)), 2, axis=1) / np.sqrt(D)
    stray = rng.standard_normal((people, D))
    delta[:, 1] += mismatch * stray * (np.linalg.norm(delta[:, 0], axis=1) / np.linalg.norm(stray, axis=1))[:, None]
    items = np.stack([middle + 0.5 * delta, middle - 0.5 * delta], axis=2).reshape(-1, D)
    return items, np.arange(len(items)).reshape(-1, 2)


def fit(people: int, law: str, seed: int, mismatch: float = 0.0, shift: float = 0.0) -> tuple[float, float, float]:
    """Return relative error, shape error and size of the metric learned, relative to the true one's."""
    rng = np.random.default_rng(seed)
    M, u = sample_metric(D, rng), PEOPLE[law](people, D, rng) + shift * rng.standard_normal(D) / np.sqrt(D)
    items, pairs = questions(people, mismatch, rng)
    users = np.repeat(np.arange(people), 2)
    y = answer(items, pairs, u[users], M, seed=seed)
    model = MatchedMetric(items, max_mismatch=max(1e-5, 1.3 * mismatch)).fit(pairs, y, users=users)
    size = float(np.sum(model.metric_ * M) / np.sum(M * M))
    return relative_error(model.metric_, M), shape_error(model.metric_, M), size


def main() -> None:
    print(f"d = {D}, beta = 1, two answers per person: relative error (median of 5 runs, 1 run with 100,000)")
    for people, runs in ((4_000, 5), (20_000, 5), (100_000, 1)):
        errors = {law: np.median([fit(people, law, seed)[0] for seed in range(runs)]) for law in PEOPLE}
        print(f"  {people:>7,} people: " + ", ".join(f"{law} {error:.3f}" for law, error in errors.items()), flush=True)
    print("100,000 people, sides that differ: relative error, shape error and size of the metric (one run)")
    for shift in (0.0, 1.0):
        for mismatch in (0.0, 0.1, 0.2, 0.4, 0.7):
            error, shape, size = fit(100_000, "gaussian", 0, mismatch, shift)
            where = "around the items" if shift == 0 else "off to one side  "
            print(f"  people {where}, mismatch {mismatch:.1f}: {error:.3f}, {shape:.3f}, {size:.3f}", flush=True)
    print("20,000 people, questions by design, metrics of the paper: promised and measured (median of 5)")
    truth = [sample_metric(D, np.random.default_rng(seed)) for seed in range(5)]
    for name, guesses in (("without a guess", [None] * 5), ("with the metric as the guess", truth)):
        promised, measured = zip(
            *(designed(M, guess, s) for s, (M, guess) in enumerate(zip(truth, guesses, strict=True))), strict=True
        )
        print(f"  {name}: {np.median(promised):.3f}, {np.median(measured):.3f}", flush=True)
    items = np.random.default_rng(0).standard_normal((100_000, 32)) / np.sqrt(np.arange(1, 33))
    clock, cpu = perf_counter(), process_time()
    ask = matched_from_catalogue(items, 100_000, tolerance=0.4)
    print(f"100,000 items in R³²: {perf_counter() - clock:.0f} s, {process_time() - cpu:.0f} s of one core")
    print(ask.summary())


def designed(metric: np.ndarray, guess: np.ndarray | None, seed: int) -> tuple[float, float]:
    """Return the error a designed questionnaire promises, and the one that is measured."""
    ask = matched_from_generator(D, 20_000, metric=guess, seed=seed)
    u = PEOPLE["gaussian"](20_000, D, np.random.default_rng(seed))
    y = answer(ask.items, ask.pairs, u[ask.person], metric, seed=seed)
    return ask.expected_error, relative_error(
        MatchedMetric(ask.items).fit(ask.pairs, y, users=ask.person).metric_, metric
    )
