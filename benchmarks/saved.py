"""The model that `crowdmetric fit` saves, judged from outside: hidden answers, through `fit` and `predict`.

``python -m benchmarks saved`` simulates crowds of five kinds. ``python -m benchmarks.saved FOLDER …`` takes folders
with items and comparisons (`crowdmetric.datasets.load_tidy`), of more than 500 people 300. Of every person 20 answers
are known, and two thirds of them where people gave few. Each row says how far the saved model is behind the best of
all models on the same hidden answers, a choice with hindsight, and names all that are clearly better. Errors count
people as independent. Names of splits among the folders (pairs, people, items) leave the other splits out, and numbers
are the seeds of the splits. With several, a last row per split has the means over them: the best is then the model that
is best on average, which is less a matter of chance, and errors are those of a mean over splits. With ``for`` among the
folders, `fit` is told the question of each row (``--for new-people``).
"""

from __future__ import annotations

import contextlib
import csv
import io
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit

from crowdmetric.cli import main as crowdmetric
from crowdmetric.comparisons import Comparisons
from crowdmetric.datasets import load_tidy
from crowdmetric.evaluate.models import FOR_FEW_ITEMS, choose_models
from crowdmetric.evaluate.scores import measures
from crowdmetric.evaluate.splits import SPLITS, SplitPlan, split
from crowdmetric.persist import load_model
from crowdmetric.users.item_effects import MOST_ITEMS

Array = NDArray[Any]
# The question of a split, as `fit --for` knows it.
ASKED = {"pairs": "known-items", "people": "new-people", "items": "new-items"}

KNOWN, SEED = 20, 7
# Probabilities are kept this far from certainty; a model is clearly better by this many nats and by two errors.
SURE, CLEARLY = 1e-9, 0.003
# Crowds of more people than the first number are judged by the second, drawn at random.
LARGE, DRAWN = 500, 300
MODELS = (
    "bradley-terry", "linear", "linear-items", "quadratic", "identity", "population", "population-free",
    "population-items-isotropic", "population-items", "smooth",
)  # fmt: skip


def _smooth(X: Array, weights: Array, people: int, rng: np.random.Generator) -> Array:
    q = np.sum(weights * (X[:, None] - X[None]) ** 2, axis=2)
    return (np.linalg.cholesky(np.exp(-0.5 * q) + 1e-8 * np.eye(len(X))) @ rng.standard_normal((len(X), people))).T


def simulated(kind: str, seed: int = 0) -> tuple[Array, Comparisons]:
    """Return items and answers: smooth tastes, linear tastes of three kinds, or ideal points."""
    rng = np.random.default_rng(seed)
    if kind == "bent":
        X, people, each = rng.standard_normal((37, 3)), 48, 60
        utility = 1.5 * _smooth(X, np.array([0.5, 1.5, 1.5]), people, rng) + 0.4 * rng.standard_normal((people, 37))
    elif kind == "linear":
        X, people, each = rng.standard_normal((60, 4)), 150, 40
        utility = rng.standard_normal((people, 4)) @ np.diag([1.5, 1.0, 0.5, 0.2]) @ X.T + X @ [1.0, -0.5, 0.0, 0.3]
    elif kind == "turned":  # linear tastes along no single feature, of which little is known
        X, people, each = rng.standard_normal((300, 5)), 150, 15
        turn = np.linalg.qr(rng.standard_normal((5, 5)))[0]
        mean = 0.35 * rng.standard_normal(5)
        utility = (rng.standard_normal((people, 5)) @ np.diag(np.linspace(0.75, 0.1, 5)) @ turn + mean) @ X.T
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


def saved_model(X: Array, train: Comparisons, test: Comparisons, question: str) -> tuple[Array, str, float]:
    """Return what the model saved for a question predicts of hidden answers, what it is, and CPU seconds of the fit."""
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stderr(io.StringIO()):
        folder = Path(place)
        head = ["item_id", *(f"f{j}" for j in range(X.shape[1]))]
        items = _write(folder / "items.csv", head, [[n, *x] for n, x in enumerate(X.tolist())])
        clock = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            known = _answers(train, folder / "known.csv")
            crowdmetric(["fit", items, known, "--standardize", "--for", question, "--out", str(folder / "model")])
            took = time.process_time() - clock
            asked = _answers(test, folder / "asked.csv")
            crowdmetric(["predict", str(folder / "model"), asked, "--out", str(folder / "predicted.csv")])
        with (folder / "predicted.csv").open() as file:
            right = 1.0 - np.array([float(row["probability_left"]) for row in csv.DictReader(file)])
        told = load_model(folder / "model").description
        kind = told["estimator"].removesuffix("Metric")
        if kind == "Population":
            kind += f" {told['parameters']['constraint']}"
        return right, kind, took


def slope_error(right: Array, test: Comparisons, slope: float) -> float:
    """Return the standard error of a calibration slope b, clustered by person: √(Σ_k g_k²) / H.

    g_k is the sum of a person's ``w z σ(−bz)``, H that of everybody's ``w z² σ(bz) σ(−bz)``, z the log-odds of the
    answers that came.
    """
    z = test.response * logit(np.clip(right, SURE, 1.0 - SURE))
    failed = expit(-slope * z)
    own = np.bincount(test.user, weights=test.weight * z * failed)
    return float(np.linalg.norm(own) / max(np.sum(test.weight * z * z * failed * (1.0 - failed)), 1e-300))


def some_people(answers: Comparisons) -> Comparisons:
    """Return the answers of 300 people where there are more than 500."""
    if answers.n_users <= LARGE:
        return answers
    drawn = np.random.default_rng(5).permutation(answers.n_users)[:DRAWN]
    return answers.take(np.flatnonzero(np.isin(answers.user, drawn)))


def known_answers(answers: Comparisons) -> int:
    """Return how many answers per person are known: 20, or two thirds of what people gave in the median."""
    given = np.bincount(answers.user)
    return min(KNOWN, round(2.0 * float(np.median(given[given > 0])) / 3.0))


def gap_of(better: Array, worse: Array, test: Comparisons) -> tuple[float, float]:
    """Return how many nats per answer a model gains over another, and its standard error, clustered by person."""
    gain = log_expit(test.response * logit(better)) - log_expit(test.response * logit(worse))
    mean = float(np.average(gain, weights=test.weight))
    own = np.bincount(test.user, weights=test.weight * (gain - mean))
    return mean, float(np.linalg.norm(own) / test.weight.sum())


@dataclass(frozen=True)
class Row:
    """What the saved model and the others made of one split; gaps and their errors in nats per answer."""

    accuracy: float
    loss: float
    slope: float
    slope_error: float
    gaps: dict[str, tuple[float, float]]
    accuracies: dict[str, float]
    seconds: float
    saved: str

    def line(self) -> str:
        """Return the row of the table."""
        best = max(self.gaps, key=lambda model: self.gaps[model][0])
        clearly = [model for model, (gap, error) in self.gaps.items() if gap > max(2.0 * error, CLEARLY)]
        better = f"; clearly better: {', '.join(clearly)}" if clearly else ""
        return (
            f"{100 * self.accuracy:8.1f}{self.loss:8.4f}{self.slope:8.2f} ± {self.slope_error:.2f}"
            f"{self.gaps[best][0]:9.4f} ± {self.gaps[best][1]:.4f}"
            f"{100 * (max(self.accuracies.values()) - self.accuracy):8.2f}{self.seconds:8.1f}"
            f"  {self.saved} (best: {best}{better})"
        )


def mean_of(rows: Sequence[Row]) -> Row:
    """Return the means over splits, with standard errors of these means."""

    def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
        return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))

    models = [model for model in rows[0].gaps if all(model in row.gaps for row in rows)]
    return Row(
        float(np.mean([row.accuracy for row in rows])),
        float(np.mean([row.loss for row in rows])),
        *mean_and_error([row.slope for row in rows]),
        {model: mean_and_error([row.gaps[model][0] for row in rows]) for model in models},
        {model: float(np.mean([row.accuracies[model] for row in rows])) for model in models},
        float(np.mean([row.seconds for row in rows])),
        f"mean of {len(rows)} splits",
    )


def judge_split(X: Array, answers: Comparisons, kind: str, seed: int, asked: str) -> Row:
    """Return what the model saved for the question `asked`, and all others, make of what one split hides."""
    Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    names = [model for model in MODELS if len(X) <= MOST_ITEMS or model not in (*FOR_FEW_ITEMS, "smooth")]
    parts = split(answers, kind, SplitPlan(train_answers=known_answers(answers)), seed=seed)
    train, test, known = (answers.take(rows) for rows in (parts.train, parts.test, parts.known))
    saved, what, took = saved_model(X, train, test, asked)
    right = np.clip(saved, SURE, 1.0 - SURE)
    others = {
        model.name: np.clip(model.fit(Z, train).probability(test, known), SURE, 1.0 - SURE)
        for model in choose_models(names)
    }
    got = measures(right, test.response, test.weight)
    slope = got["calibration_slope"]
    return Row(
        got["accuracy"],
        -got["log_likelihood"],
        slope,
        slope_error(right, test, slope),
        {model: gap_of(other, right, test) for model, other in others.items()},
        {model: measures(other, test.response, test.weight)["accuracy"] for model, other in others.items()},
        took,
        what,
    )


def judge(
    name: str,
    X: Array,
    answers: Comparisons,
    splits: Sequence[str] = SPLITS,
    seeds: Sequence[int] = (SEED,),
    *,
    asks: bool = False,
) -> None:
    """Print a row per split and seed, and means over seeds; `fit` is told its question if `asks`."""
    answers = some_people(answers)
    for kind in splits:
        rows = []
        for seed in seeds:
            rows.append(judge_split(X, answers, kind, seed, ASKED[kind] if asks else "all"))
            print(f"{name:<16}{kind:<8}{rows[-1].line()}", flush=True)
        if len(rows) > 1:
            print(f"{name:<16}{kind:<8}{mean_of(rows).line()}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Print what is saved for simulated crowds, or for folders of real ones."""
    warnings.simplefilter("ignore")
    given = arguments or []
    splits = [kind for kind in SPLITS if kind in given] or SPLITS
    seeds = [int(word) for word in given if word.isdecimal()] or [SEED]
    folders = [word for word in given if word not in (*SPLITS, "for") and not word.isdecimal()]
    print(
        f"{'crowd':<16}{'split':<8}{'right %':>7}{'loss':>8}{'slope':>7}{'behind':>16}{'points':>18}{'CPU s':>8}  saved"
    )
    for folder in folders:
        data = load_tidy(folder)
        judge(data.name, data.items.features, data.comparisons, splits, seeds, asks="for" in given)
    for kind in () if folders else ("bent", "linear", "turned", "few items", "ideal points"):
        judge(kind, *simulated(kind), splits, seeds, asks="for" in given)


if __name__ == "__main__":
    main(sys.argv[1:])
