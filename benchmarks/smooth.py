"""Smooth tastes: time as people grow, the metric found in simulated crowds, and real people.

``python -m benchmarks smooth`` needs no data. ``python -m benchmarks.smooth FOLDER …`` takes folders with items and
comparisons (`crowdmetric.datasets.load_tidy`) and compares structures of the metric inside the kernel on hidden
answers, beside `OwnWins`, which knows no features and nobody else.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from crowdmetric.comparisons import Comparisons
from crowdmetric.datasets import load_tidy
from crowdmetric.estimators.smooth import TasteMetric
from crowdmetric.evaluate import evaluate
from crowdmetric.evaluate.taste_model import TasteModel
from crowdmetric.smooth.kernel import matern52
from crowdmetric.smooth.kernel_metrics import STRUCTURES

Array = NDArray[Any]

# How fast the nine features of simulated items stop to matter.
WEIGHTS = np.geomspace(0.6, 0.02, 9)


@dataclass(frozen=True)
class Crowd:
    """Items, questions and answers of people whose tastes are Gaussian with the metric diag(weights)."""

    items: Array
    pairs: Array
    y: Array
    users: Array


def simulate(people: int, each: int, n_items: int, weights: Array, seed: int) -> Crowd:
    """Draw people with squared exponential tastes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_items, weights.size))
    q = np.sum(weights * (X[:, None] - X[None]) ** 2, axis=2)
    root = np.linalg.cholesky(np.exp(-0.5 * q) + 1e-9 * np.eye(n_items))
    utility = 2.0 * (root @ rng.standard_normal((n_items, people))).T + root @ rng.standard_normal(n_items)
    users, left = np.repeat(np.arange(people), each), rng.integers(0, n_items, people * each)
    pairs = np.column_stack([left, (left + rng.integers(1, n_items, left.size)) % n_items])
    right = expit(utility[users, pairs[:, 1]] - utility[users, pairs[:, 0]])
    return Crowd(X, pairs, np.where(rng.random(left.size) < right, 1, -1), users)


def shape_error(metric: Array, weights: Array) -> float:
    """Return the relative error of a metric after the best rescaling."""
    truth = np.diag(weights)
    scale = float(np.sum(metric * truth) / np.sum(metric * metric))
    return float(np.linalg.norm(scale * metric - truth) / np.linalg.norm(truth))


@dataclass(frozen=True)
class OwnWins:
    """Somebody's own wins less losses of both items: what transitivity alone gives."""

    name: str = "own-wins"

    def fit(self, items: Array, train: Comparisons) -> OwnWins:
        """Learn nothing."""
        return self

    def probability(self, questions: Comparisons, known: Comparisons) -> Array:
        """Return 0.8 for the item that the person has preferred more often, net."""
        net = np.zeros((known.n_users, known.n_items))
        step = np.sign(known.response) * known.weight
        np.add.at(net, (known.user, known.right), step)
        np.add.at(net, (known.user, known.left), -step)
        return 0.5 + 0.3 * np.sign(net[questions.user, questions.right] - net[questions.user, questions.left])


def coverage(crowds: int = 60) -> None:
    """Print how often 90 % intervals hold the two weights of a metric: symmetric ones, and those of their logarithms.

    150 people × 20 answers about 20 items; Matérn tastes with a linear part, and item effects.
    """
    truth = np.array([0.8, 0.2])
    plain, logarithmic = [], []
    for seed in range(crowds):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((20, 2))
        q = np.sum(truth * (X[:, None] - X[None]) ** 2, axis=2)
        root = np.linalg.cholesky(matern52(q)[0] + 1e-9 * np.eye(20))
        utility = 2.0 * (root @ rng.standard_normal((20, 150))).T + 0.7 * rng.standard_normal((150, 2)) @ X.T
        utility += root @ rng.standard_normal(20) + 0.3 * rng.standard_normal(20)
        users, left = np.repeat(np.arange(150), 20), rng.integers(0, 20, 3000)
        pairs = np.column_stack([left, (left + rng.integers(1, 20, 3000)) % 20])
        right = expit(utility[users, pairs[:, 1]] - utility[users, pairs[:, 0]])
        y = np.where(rng.random(3000) < right, 1, -1)
        model = TasteMetric(X, structure="diagonal").fit(pairs, y, users=users)
        found, error = np.diag(model.metric_), np.diag(model.standard_errors_)
        plain.append(np.abs(found - truth) < 1.645 * error)
        logarithmic.append(np.abs(np.log(found / truth)) < 1.645 * error / found)
    print(f"90 % intervals of {truth}: hold {np.mean(plain, axis=0)}, of logarithms {np.mean(logarithmic, axis=0)}")


def real(folder: str) -> None:
    """Print structures and `OwnWins` on hidden answers, 20 known per person, hidden items two at a time."""
    data = load_tidy(folder)
    models: list[Any] = [TasteModel(name, name) for name in STRUCTURES]
    models += [TasteModel("auto"), OwnWins()]
    found = evaluate(data.items.features, data.comparisons, models, train_answers=20, both_new=True)
    print(f"\n{data.name}\n{found.summary()}", flush=True)


def main() -> None:
    """Print seconds and errors for 300 people × 40 answers about 50 items of 9 features, and for fewer and more."""
    small = simulate(20, 10, 12, WEIGHTS[:3], 0)
    TasteMetric(small.items).fit(small.pairs, small.y, users=small.users)  # compiles
    print(f"{'people':>8}{'CPU s':>8}{'per person, ms':>16}{'structure':>12}{'shape error':>13}")
    for people in (75, 150, 300, 600, 1200):
        crowd = simulate(people, 40, 50, WEIGHTS, 1)
        clock = time.process_time()
        model = TasteMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
        took = time.process_time() - clock
        error = shape_error(model.metric_, WEIGHTS)
        print(f"{people:8d}{took:8.2f}{1000 * took / people:16.1f}{model.structure_:>12}{error:13.3f}", flush=True)
    coverage()


if __name__ == "__main__":
    for place in sys.argv[1:]:
        real(place)
    if not sys.argv[1:]:
        main()
