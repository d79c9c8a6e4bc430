"""The model that `crowdmetric fit` saves, judged from outside: hidden answers, through `fit` and `predict`.

``python -m benchmarks saved`` simulates crowds of four kinds. ``python -m benchmarks.saved FOLDER …`` takes folders
with items and comparisons (`crowdmetric.datasets.load_tidy`). Of every person 20 answers are known. Each row says how
far the saved model is behind the best of all models on the same hidden answers, a choice with hindsight.
"""

from __future__ import annotations

import contextlib
import csv
import io
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from crowdmetric.cli import main as crowdmetric
from crowdmetric.comparisons import Comparisons
from crowdmetric.datasets import load_tidy
from crowdmetric.evaluate.models import FOR_FEW_ITEMS, choose_models
from crowdmetric.evaluate.scores import measures
from crowdmetric.evaluate.splits import SPLITS, SplitPlan, split
from crowdmetric.persist import load_model
from crowdmetric.users.item_effects import MOST_ITEMS

Array = NDArray[Any]

KNOWN = 20
MODELS = (
    "bradley-terry", "linear", "linear-items", "quadratic", "identity", "population", "population-free",
    "population-items-isotropic", "population-items", "smooth",
)  # fmt: skip


def _smooth(X: Array, weights: Array, people: int, rng: np.random.Generator) -> Array:
    q = np.sum(weights * (X[:, None] - X[None]) ** 2, axis=2)
    return (np.linalg.cholesky(np.exp(-0.5 * q) + 1e-8 * np.eye(len(X))) @ rng.standard_normal((len(X), people))).T


def simulated(kind: str, seed: int = 0) -> tuple[Array, Comparisons]:
    """Return items and answers: smooth tastes, rankings, linear tastes for a few items, or ideal points."""
    rng = np.random.default_rng(seed)
    if kind == "bent":
        X, people, each = rng.standard_normal((37, 3)), 48, 60
        utility = 1.5 * _smooth(X, np.array([0.5, 1.5, 1.5]), people, rng) + 0.4 * rng.standard_normal((people, 37))
    elif kind == "linear":
        X, people, each = rng.standard_normal((60, 4)), 150, 40
        utility = rng.standard_normal((people, 4)) @ np.diag([1.5, 1.0, 0.5, 0.2]) @ X.T + X @ [1.0, -0.5, 0.0, 0.3]
    elif kind == "few items":
        X, people, each = rng.integers(0, 2, (10, 4)).astype(float), 60, 38
        utility = rng.standard_normal((people, 4)) @ np.diag([3.0, 2.0, 1.5, 1.0]) @ (X - X.mean(axis=0)).T
    else:
        X, people, each = rng.standard_normal((60, 3)), 150, 40
        gap = X[None] - 0.8 * rng.standard_normal((people, 1, 3))
        utility = -np.einsum("knd,d,knd->kn", gap, np.array([1.2, 0.5, 0.1]), gap)
    users, left = np.repeat(np.arange(people), each), rng.integers(0, len(X), people * each)
    pairs = np.column_stack([left, (left + rng.integers(1, len(X), left.size)) % len(X)])
    right = expit(utility[users, pairs[:, 1]] - utility[users, pairs[:, 0]])
    return X, Comparisons.from_arrays(users, pairs, np.where(rng.random(left.size) < right, 1, -1), n_items=len(X))


def _write(path: Path, head: list[str], rows: list[list[Any]]) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return str(path)


def _answers(table: Comparisons, path: Path) -> str:
    columns = zip(table.user, table.left, table.right, table.response, strict=True)
    return _write(path, ["user", "left", "right", "choice"], [[f"p{u}", a, b, int(y > 0)] for u, a, b, y in columns])


def saved_model(X: Array, train: Comparisons, test: Comparisons) -> tuple[dict[str, float], str, float]:
    """Return measures of the saved model on hidden answers, what it is, and CPU seconds of the fit."""
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stderr(io.StringIO()):
        folder = Path(place)
        head = ["item_id", *(f"f{j}" for j in range(X.shape[1]))]
        items = _write(folder / "items.csv", head, [[n, *x] for n, x in enumerate(X.tolist())])
        clock = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            known = _answers(train, folder / "known.csv")
            crowdmetric(["fit", items, known, "--standardize", "--out", str(folder / "model")])
            took = time.process_time() - clock
            asked = _answers(test, folder / "asked.csv")
            crowdmetric(["predict", str(folder / "model"), asked, "--out", str(folder / "predicted.csv")])
        with (folder / "predicted.csv").open() as file:
            right = 1.0 - np.array([float(row["probability_left"]) for row in csv.DictReader(file)])
        told = load_model(folder / "model").description
        kind = told["estimator"].removesuffix("Metric")
        if kind == "Population":
            kind += f" {told['parameters']['constraint']}"
        return measures(right, test.response, test.weight), kind, took


def judge(name: str, X: Array, answers: Comparisons) -> None:
    """Print a row per split."""
    Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    names = [model for model in MODELS if len(X) <= MOST_ITEMS or model not in (*FOR_FEW_ITEMS, "smooth")]
    for kind in SPLITS:
        parts = split(answers, kind, SplitPlan(train_answers=KNOWN), seed=7)
        train, test, known = (answers.take(rows) for rows in (parts.train, parts.test, parts.known))
        got, what, took = saved_model(X, train, test)
        others = {
            model.name: measures(model.fit(Z, train).probability(test, known), test.response, test.weight)
            for model in choose_models(names)
        }
        best = max(others, key=lambda model: others[model]["log_likelihood"])
        behind = others[best]["log_likelihood"] - got["log_likelihood"]
        accuracy = max(other["accuracy"] for other in others.values())
        print(
            f"{name:<16}{kind:<8}{100 * got['accuracy']:8.1f}{-got['log_likelihood']:8.4f}"
            f"{got['calibration_slope']:8.2f}{behind:8.4f}{100 * (accuracy - got['accuracy']):8.2f}{took:8.1f}  "
            f"{what} (best: {best})",
            flush=True,
        )


def main(folders: list[str] | None = None) -> None:
    """Print what is saved for simulated crowds, or for folders of real ones."""
    warnings.simplefilter("ignore")
    print(
        f"{'crowd':<16}{'split':<8}{'right %':>7}{'loss':>8}{'slope':>7}{'behind':>9}{'points':>8}{'CPU s':>8}  saved"
    )
    for folder in folders or []:
        data = load_tidy(folder)
        judge(data.name, data.items.features, data.comparisons)
    for kind in () if folders else ("bent", "linear", "few items", "ideal points"):
        judge(kind, *simulated(kind))


if __name__ == "__main__":
    main(sys.argv[1:])
