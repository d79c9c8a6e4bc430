"""Random small problems through every estimator: impossible values, unordered models, warnings and slow fits, counted.

1 to 5 features of scales 1e-3 … 1e3, some constant, yes/no, rounded or repeated; 2 to 30 items, some of them the same;
1 to 50 people, 1 to 10 answers each that follow a metric without noise, are drawn at random, or are all alike. A row
per problem that falls short, then the counts and the CPU seconds of each estimator. Deterministic: the number of a
problem is its seed. `SimilarityMetric` gets the same questions about one item each; StitchedMetric needs subspaces and
is left out.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric import (
    Comparisons,
    IdealPointMetric,
    MatchedMetric,
    PopulationMetric,
    SimilarityMetric,
    TasteMetric,
)
from crowdmetric.base import CrowdMetric
from crowdmetric.datasets import load_tidy
from crowdmetric.errors import CrowdmetricError, CrowdmetricWarning

Array = NDArray[Any]
Problem = tuple[Array, Comparisons]
Fit = Callable[[Array, Comparisons], Any]

# A nested model may be better by this many nats: the larger one is held by ridges that the smaller does not have.
# What is maximized also has the volume of shapes, for which a larger model may give up some likelihood.
NESTED = 1.0
SECONDS = 20.0


def _population(X: Array, answers: Comparisons, *, uncertainty: bool = False, **options: Any) -> PopulationMetric:
    return PopulationMetric(X, jobs=1, uncertainty=uncertainty, **options).fit(answers)


def _similarity(X: Array, answers: Comparisons) -> SimilarityMetric:
    """Return a fit to the same answers, read as "which of two items is more like a third?"."""
    anchor = answers.user % answers.n_items
    other = (anchor != answers.left) & (anchor != answers.right)
    triplets = np.column_stack([anchor, answers.left, answers.right])[other]
    return SimilarityMetric(X).fit(triplets, answers.response[other], answers.user[other])


ESTIMATORS: dict[str, Fit] = {
    "population": _population,
    "population, free": lambda X, answers: _population(X, answers, covariance="free"),
    "population, item effects": lambda X, answers: _population(X, answers, item_effects=True),
    "population, symmetric": lambda X, answers: _population(X, answers, constraint="symmetric"),
    "population, intervals": lambda X, answers: _population(X, answers, uncertainty=True),
    "ideal point": lambda X, answers: IdealPointMetric(X).fit(answers),
    "matched": lambda X, answers: MatchedMetric(X).fit(answers),
    "taste": lambda X, answers: TasteMetric(X).fit(answers),
    "similarity": _similarity,
    "identity": lambda X, answers: _population(X, answers, constraint="identity"),
    "identity, item effects": lambda X, answers: _population(X, answers, constraint="identity", item_effects=True),
    "linear": lambda X, answers: _population(X, answers, constraint="zero", covariance="free"),
}
# A model, and one that is nested in it. With item effects likelihoods need not be ordered: the evidence gives the
# effects of the smaller model more room.
NESTED_IN = (("population", "identity"), ("population, symmetric", "population"), ("population, free", "linear"))


def problem(seed: int) -> Problem | None:
    """Return items and answers, None where chance left nothing to compare."""
    rng = np.random.default_rng(seed)
    d, N, K, m = rng.integers(1, 6), rng.integers(2, 31), rng.integers(1, 51), rng.integers(1, 11)
    X = rng.standard_normal((N, d)) * 10.0 ** rng.uniform(-3, 3, size=d)
    for j in range(d):
        kind = rng.integers(6)
        if kind == 0:
            X[:, j] = X[0, j]
        elif kind == 1:
            X[:, j] = np.sign(X[:, j])
        elif kind == 2 and j:
            X[:, j] = X[:, j - 1]
        elif kind == 3:
            X[:, j] = np.round(X[:, j] / X[:, j].std(), 0)
    if rng.integers(4) == 0:
        X[N - N // 3 :] = X[: N // 3]
    pairs, users = rng.integers(N, size=(K * m, 2)), np.repeat(np.arange(K), m)
    G, spread = rng.standard_normal((d, d)), X.std(axis=0)
    U = X.mean(axis=0) + rng.standard_normal((K, d)) * spread
    near, far = (np.sum((((X[pairs[:, side]] - U[users]) / (spread + 1e-9)) @ G) ** 2, axis=1) for side in (0, 1))
    y = {0: np.where(near > far, 1, -1), 1: rng.choice([-1, 1], size=K * m), 2: np.ones(K * m, dtype=int)}
    kept = pairs[:, 0] != pairs[:, 1]
    if not kept.any():
        return None
    return X, Comparisons.from_arrays(users[kept], pairs[kept], y[int(rng.integers(3))][kept], n_items=int(N))


def faults(fit: Fit, X: Array, answers: Comparisons) -> tuple[list[str], float | None]:
    """Return what is wrong with one fit, and its log-likelihood; an error of ours, which says why, is an answer."""
    clock = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", CrowdmetricWarning)
            fitted = fit(X, answers)
    except CrowdmetricError:
        return [], None
    except Exception as error:
        return [f"{type(error).__name__}: {error}"], None
    ours = isinstance(fitted, CrowdMetric)
    M = fitted.metric_ if ours else fitted.metric
    value = getattr(fitted, "log_likelihood_" if ours else "log_likelihood", None)
    found = [] if np.all(np.isfinite(M)) else ["the metric is not finite"]
    if getattr(fitted, "constraint", "psd") == "psd" and np.linalg.eigvalsh(M)[0] < -1e-9 * np.abs(M).max():
        found.append("the metric is not positive semi-definite")
    if value is not None and not value <= 1e-9:
        found.append(f"log-likelihood {value:.3g}")
    if not getattr(getattr(fitted, "solution_", None), "converged", True):
        found.append("not converged")
    if time.process_time() - clock > SECONDS:
        found.append(f"{time.process_time() - clock:.0f} s")
    return found, value


def shortfalls(X: Array, answers: Comparisons, seconds: dict[str, list[float]]) -> list[str]:
    """Return what falls short in all fits to one problem; their CPU seconds are added to `seconds`."""
    rows, values = [], {}
    for name, fit in ESTIMATORS.items():
        clock = time.process_time()
        found, values[name] = faults(fit, X, answers)
        seconds[name].append(time.process_time() - clock)
        rows += [f"{name}: {text}" for text in found]
    for larger, smaller in NESTED_IN:
        a, b = values[larger], values[smaller]
        if a is not None and b is not None and a < b - NESTED:
            rows.append(f"{larger} is {b - a:.2f} nats below {smaller}")
    return rows


def real(folder: str) -> Problem:
    """Return the items, each feature in units of its spread, and the answers of a tidy folder."""
    data = load_tidy(folder)
    X = data.items.features
    return (X - X.mean(axis=0)) / X.std(axis=0), data.comparisons


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("folders", nargs="*", help="real answers instead, such as shared/data/carrots")
    options = parser.parse_args(arguments or [])
    drawn = {folder: real(folder) for folder in options.folders} or {
        f"problem {seed}": problem(seed) for seed in range(options.first, options.first + options.problems)
    }
    made = {name: one for name, one in drawn.items() if one is not None}
    seconds: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    short = 0
    for name, (X, answers) in made.items():
        rows = shortfalls(X, answers, seconds)
        short += bool(rows)
        for row in rows:
            print(f"{name} ({X.shape[0]} × {X.shape[1]}, {len(answers)} answers): {row}", flush=True)
    print(f"{short} of {len(made)} problems fall short; {sum(map(sum, seconds.values())):.0f} CPU seconds")
    for name, each in seconds.items():
        print(f"  {name}: {np.mean(each):.2f} s each, {max(each):.1f} s at most")


if __name__ == "__main__":
    main(sys.argv[1:])
