"""Smooth tastes: time as people grow, the metric found in simulated crowds, and real people.

``python -m benchmarks smooth`` needs no data, and ``python -m benchmarks.smooth growth`` is one part of it, as are
``coverage``, ``ideal-points``, ``calibration``, ``kernels`` and ``features``. ``python -m benchmarks.smooth FOLDER …``
takes folders with items and comparisons (`crowdmetric.datasets.load_tidy`) and compares structures of the metric inside
the kernel on hidden answers, beside `OwnWins`, which knows no features and nobody else; ``kernels FOLDER …`` compares
predictions that are averaged over kernels with those of the best kernel there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import sqrtm
from scipy.special import expit

from crowdmetric.comparisons import Comparisons
from crowdmetric.datasets import load_tidy
from crowdmetric.estimators.population import PopulationMetric
from crowdmetric.estimators.smooth import TasteMetric
from crowdmetric.evaluate import evaluate
from crowdmetric.evaluate.scores import measures
from crowdmetric.evaluate.taste_model import TasteModel
from crowdmetric.intervals import entries
from crowdmetric.smooth import calibration as sharpness
from crowdmetric.smooth.covariances import SCALES, Covariances
from crowdmetric.smooth.kernel import SHAPES
from crowdmetric.smooth.kernel_metrics import STRUCTURES
from crowdmetric.symmetric import shape_error

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
    return _asked(X, utility, each, rng)


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


def simulate_law(family: Covariances, theta: Array, people: int, each: int, n_items: int, seed: int) -> Crowd:
    """Draw a crowd of the model's own kind: items standardized, the crowd's and everybody's utilities by these laws."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_items, len(family.metric(theta))))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    grams = family.at(theta, X)
    person, crowd = (np.linalg.cholesky(S + 1e-9 * np.trace(S) * np.eye(n_items)) for S in (grams.person, grams.crowd))
    utility = (person @ rng.standard_normal((n_items, people))).T + crowd @ rng.standard_normal(n_items)
    return _asked(X, utility, each, rng)


def _asked(X: Array, utility: Array, each: int, rng: np.random.Generator) -> Crowd:
    """Ask people with these utilities (K, N) about random pairs."""
    people, n_items = utility.shape
    users, left = np.repeat(np.arange(people), each), rng.integers(0, n_items, people * each)
    pairs = np.column_stack([left, (left + rng.integers(1, n_items, left.size)) % n_items])
    right = expit(utility[users, pairs[:, 1]] - utility[users, pairs[:, 0]])
    return Crowd(X, pairs, np.where(rng.random(left.size) < right, 1, -1), users)


def coverage(crowds: int = 80, people: int = 150, each: int = 20, n_items: int = 20, first: int = 1000) -> None:
    """Print how often 90 % intervals hold the two weights of a metric in crowds of the model's own kind.

    Weights and size of the metric are drawn from their prior, and the shape of the kernel from all shapes; the other
    scales stay where their prior is highest, but for utilities of size 2. Intervals are those of
    `crowdmetric.intervals`, and by standard errors: symmetric, and of logarithms.
    """
    held = []
    for seed in range(first, first + crowds):
        family = Covariances.of("diagonal", 2, list(SHAPES)[seed % len(SHAPES)])
        theta = family.start.copy()
        theta[0] = np.log(2.0)
        theta[len(SCALES) :] += (family.spread * np.random.default_rng([seed, 1]).standard_normal(theta.size))[-3:]
        crowd, truth = simulate_law(family, theta, people, each, n_items, seed), np.diag(family.metric(theta))
        model = TasteMetric(crowd.items, structure="diagonal").fit(crowd.pairs, crowd.y, users=crowd.users)
        found, error, drawn = np.diag(model.metric_), np.diag(model.standard_errors_), entries(model)
        held.append(
            [
                (np.diag(drawn.low) <= truth) & (truth <= np.diag(drawn.high)),
                np.abs(np.log(found / truth)) < 1.645 * error / found,
                np.abs(found - truth) < 1.645 * error,
            ]
        )
    shares = np.mean(held, axis=(0, 2))
    print(
        f"90 % intervals of weights in {crowds} crowds of {people} people × {each} answers hold: intervals "
        f"{shares[0]:.3f}, logarithms {shares[1]:.3f}, symmetric {shares[2]:.3f}"
    )


def ideal_points(crowds: int = 10, people: int = 300, each: int = 20) -> None:
    """Print shape errors on simulated ideal points: of M, and of M², by which the same people like two items.

    With ideal points p ~ N(0, I) and utilities −‖x − p‖²_M, people differ by the linear utilities 2 xᵀM p, so that
    `TasteMetric` sees the distance of M².
    """
    errors = []
    for seed in range(crowds):
        rng = np.random.default_rng(seed)
        X, P, A = (rng.standard_normal(size) for size in ((60, 3), (people, 3), (3, 3)))
        M = A @ A.T / np.trace(A @ A.T)
        gaps = X[None] - P[:, None]
        crowd = _asked(X, -3.0 * np.einsum("kni,ij,knj->kn", gaps, M, gaps), each, rng)
        one = PopulationMetric(X).fit(crowd.pairs, crowd.y, users=crowd.users).metric_
        other = TasteMetric(X, structure="full").fit(crowd.pairs, crowd.y, users=crowd.users).metric_
        pairs = ((one, M), (other, M), (np.real(sqrtm(other)), M), (one @ one, M @ M), (other, M @ M))
        errors.append([shape_error(found, truth) for found, truth in pairs])
    names = ("M: population", "taste", "taste, root", "M²: population", "taste")
    means, spreads = np.mean(errors, axis=0), np.std(errors, axis=0) / np.sqrt(crowds)
    said = [f"{name} {mean:.3f} ± {e:.3f}" for name, mean, e in zip(names, means, spreads, strict=True)]
    print("shape errors on ideal points, " + ", ".join(said))


def calibration(first: int = 200, last: int = 233, people: int = 48, each: int = 15) -> None:
    """Print calibration slopes and log-losses in small crowds: plain, and sharpened while θ stays or makes its steps.

    Tastes are smooth with an effect of each item for each person. Known people are asked about 37 known items, and
    about 13 new ones.
    """
    found: dict[str, list[list[float]]] = {"known items": [], "new items": []}
    steps = sharpness.MOST_STEPS
    for seed in range(first, last):
        rng, n, N = np.random.default_rng(seed), 37, 50
        X, K = rng.standard_normal((N, 3)), people + 30
        q = np.sum(np.array([0.5, 1.5, 1.5]) * (X[:, None] - X[None]) ** 2, axis=2)
        root = np.linalg.cholesky(np.exp(-0.5 * q) + 1e-8 * np.eye(N))
        U = 1.5 * (root @ rng.standard_normal((N, K))).T + 0.4 * rng.standard_normal((K, N))
        asked = {"known items": _some(U[:people], 45, n, rng)}
        _some(U[people:], 45, n, rng)  # new people: nothing is common to people that could predict them
        users, pairs, y = _some(U[:people], 135, N, rng)
        new = np.any(pairs >= n, axis=1)
        asked["new items"] = (users[new], pairs[new], y[new])
        users, pairs, y = _some(U[:people], each, n, rng)
        model = TasteMetric(X, shape="matern52", uncertainty=False).fit(pairs, y, users=users)
        sharp = [np.ones(3)]
        for sharpness.MOST_STEPS in (0, steps):
            sharp.append(sharpness.find_sharpness(model._learned().best.fit))
        for name, (who, about, said) in asked.items():
            row = []
            for model.sharpness_ in sharp:
                got = measures(model.predict_proba(about, who)[:, 1], said, np.ones(said.size))
                row += [got["calibration_slope"], -got["log_likelihood"]]
            found[name].append(row)
    for name, rows in found.items():
        plain, stays, follows = np.mean(rows, axis=0).reshape(3, 2)
        print(
            f"{len(rows)} crowds of {people} people × {each} answers, {name}: slope {plain[0]:.2f}, sharpened "
            f"{stays[0]:.2f}, with steps {follows[0]:.2f}; log-loss {plain[1]:.4f}, {stays[1]:.4f}, {follows[1]:.4f}"
        )


def _some(U: Array, each: int, n: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return who, pairs and answers of people with utilities U (K, N) about random pairs of the first n items."""
    users = np.repeat(np.arange(len(U)), each)
    pairs = np.column_stack([rng.integers(0, n, users.size), rng.integers(0, n, users.size)])
    apart = pairs[:, 0] != pairs[:, 1]
    users, pairs = users[apart], pairs[apart]
    right = expit(U[users, pairs[:, 1]] - U[users, pairs[:, 0]])
    return users, pairs, np.where(rng.random(users.size) < right, 1, -1)


def kernels(*folders: str) -> None:
    """Print log-losses of predictions averaged over kernels, less those of the best kernel, on answers that are hidden.

    A third of the items is hidden; of the other answers, people's first 20 in a random order are known (10 where there
    are few). Means over splits or crowds with their standard errors; sharpness is that of each fit, for both.
    """
    if not folders:
        for people, each in ((40, 10), (75, 20), (150, 20)):
            crowds = [simulate(people, 3 * each, 50, WEIGHTS, seed) for seed in range(1, 7)]
            _averaged(f"simulated {people} × {each}", crowds, each)
    for folder in folders:
        data = load_tidy(folder)
        table = data.comparisons
        rows = np.flatnonzero(table.response != 0.0)
        crowd = Crowd(
            data.items.features, np.column_stack([table.left, table.right])[rows], np.sign(table.response[rows]),
            table.user[rows],
        )  # fmt: skip
        each = 20 if len(rows) >= 30 * table.n_users else 8
        _averaged(data.name, [crowd] * 4, each)


def _averaged(name: str, crowds: list[Crowd], each: int) -> None:
    """Print one line of `kernels`."""
    gains: dict[str, list[float]] = {"known items": [], "new items": []}
    loss: dict[str, list[float]] = {"known items": [], "new items": []}
    weights = []
    for seed, crowd in enumerate(crowds):
        rng = np.random.default_rng(seed)
        N = len(crowd.items)
        new = np.isin(np.arange(N), rng.choice(N, N // 3, replace=False))
        is_new = np.any(new[crowd.pairs], axis=1)
        known = np.zeros(len(crowd.y), dtype=bool)
        for person in np.unique(crowd.users):
            mine = rng.permutation(np.flatnonzero((crowd.users == person) & ~is_new))
            known[mine[: min(each, len(mine) // 2)]] = True
        model = TasteMetric(crowd.items, uncertainty=False).fit(
            crowd.pairs[known], crowd.y[known], users=crowd.users[known]
        )
        tastes, alone = model._learned(), copy(model)
        alone._tastes = replace(tastes, parts=(replace(tastes.best, weight=1.0),))
        alone.kernel_weights_ = np.ones(1)
        weights.append(model.kernel_weights_)
        code = crowd.users * N * N + np.min(crowd.pairs, axis=1) * N + np.max(crowd.pairs, axis=1)
        for kind, rows in (("known items", ~is_new & ~np.isin(code, code[known])), ("new items", is_new)):
            found = []
            for one in (model, alone):
                right = one.predict_proba(crowd.pairs[rows], crowd.users[rows])[:, 1]
                found.append(-float(np.mean(np.log(np.where(crowd.y[rows] > 0, right, 1.0 - right)))))
            loss[kind].append(found[0])
            gains[kind].append(found[0] - found[1])
    said = [
        f"{kind} {np.mean(loss[kind]):.4f} ({np.mean(gain):+.4f} ± {np.std(gain) / np.sqrt(len(gain)):.4f})"
        for kind, gain in gains.items()
    ]
    print(
        f"{name}: {np.mean([len(w) for w in weights]):.1f} kernels, of which the best has probability "
        f"{np.mean([w[0] for w in weights]):.2f}; log-loss averaged (less the best kernel's): {', '.join(said)}",
        flush=True,
    )


def features(*sizes: str) -> None:
    """Print CPU seconds for 341 people × 20 answers about items of 384 features, as embeddings have them.

    Tastes are smooth in eight directions that the features show with noise.
    """
    for n_items in map(int, sizes or ("100", "462", "1052")):
        rng, d = np.random.default_rng(0), 384
        F = rng.standard_normal((n_items, 8))
        X = F @ rng.standard_normal((8, d)) / np.sqrt(8) + rng.standard_normal((n_items, d))
        q = 0.15 * np.sum((F[:, None] - F[None]) ** 2, axis=2)
        root = np.linalg.cholesky(np.exp(-0.5 * q) + 1e-9 * np.eye(n_items))
        utility = 2.0 * (root @ rng.standard_normal((n_items, 341))).T + root @ rng.standard_normal(n_items)
        crowd = _asked(X, utility, 20, rng)
        for structure in ("auto", "diagonal"):
            clock, said = time.process_time(), list[str]()
            model = TasteMetric(X, structure=structure, progress=said.append)
            model.fit(crowd.pairs, crowd.y, users=crowd.users)
            took = time.process_time() - clock
            names = ", ".join(
                f"{a} {b} {w:.2f}" for (a, b), w in zip(model.kernels_, model.kernel_weights_, strict=True)
            )
            print(f"{n_items:6d} items, {structure}: {took:6.1f} CPU s; {names}; first said: {said[0]}", flush=True)


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
    growth()
    coverage()
    ideal_points()
    calibration()
    kernels()
    features()


def growth() -> None:
    """Print seconds and shape errors as people grow."""
    print(f"{'people':>8}{'CPU s':>8}{'per person, ms':>16}{'shape error':>13}{'× √people':>11}   means of 3 crowds")
    for people in (75, 150, 300, 600, 1200, 2400, 4800):
        took, error = [], []
        for seed in (1, 2, 3):
            crowd = simulate(people, 40, 50, WEIGHTS, seed)
            clock = time.process_time()
            model = TasteMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
            took.append(time.process_time() - clock)
            error.append(shape_error(model.metric_, np.diag(WEIGHTS)))
        row = np.mean(took), 1000 * np.mean(took) / people, np.mean(error), np.mean(error) * np.sqrt(people)
        print(f"{people:8d}{row[0]:8.2f}{row[1]:16.1f}{row[2]:13.3f}{row[3]:11.2f}", flush=True)


if __name__ == "__main__":
    parts: dict[str, Callable[[], None]] = {
        "growth": growth, "coverage": coverage, "ideal-points": ideal_points, "calibration": calibration,
    }  # fmt: skip
    with_more: dict[str, Callable[..., None]] = {"kernels": kernels, "features": features}
    if sys.argv[1:2] and sys.argv[1] in with_more:
        with_more[sys.argv[1]](*sys.argv[2:])
    else:
        for place in sys.argv[1:]:
            parts[place]() if place in parts else real(place)
        if not sys.argv[1:]:
            main()
