"""Real pictures, a simulated crowd, a known truth, and eight answers per person.

The items are scikit-learn's 1,797 handwritten digits. A person has in mind how they write one of the ten
digits and is asked, ten times, which of two pictures of that digit is closer to it. The crowd looks at the
top of a picture far more than at the rest, and nobody tells the estimators. Eight answers of each person
teach, two are held out. Nothing the estimators see comes from the truth: `PopulationMetric` integrates people
out, `StitchedMetric`, the paper's divide and conquer, has its bounds chosen from the answers.

    python examples/demo.py [FOLDER]        prints a summary, writes demo.png in FOLDER (demo-output)
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from crowdmetric import IdealPointMetric, PopulationMetric, StitchedMetric
from crowdmetric.plots import new_figure, save_figure
from crowdmetric.progress import show_progress
from crowdmetric.simulate import responses
from crowdmetric.symmetric import relative_error, shape_error

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

DIMENSIONS = 8  # principal components that stand for the 64 pixels
RANK = 5  # of each digit's subspace: 10 · r(r + 1)/2 = 150 equations for d(d + 1)/2 = 36 unknowns
ANSWERS, HELD_OUT = 10, 2  # per person
EVERY = 3  # pictures whose neighbors are counted: every third
SHARPNESS = 5.0  # ‖M‖: about 78 % of the answers name the closer picture


@dataclass(frozen=True)
class Digits:
    """The items: pictures (N, 8, 8), their digits (N,), features (N, d) and the components (d, 64).

    `whole` (N, d) are the same features of the pictures as they are, before classes were moved to their means: there,
    pictures of different digits can be compared.
    """

    pictures: Array
    digits: Integers
    features: Array
    whole: Array
    components: Array
    kept: float


@dataclass(frozen=True)
class Answers:
    """One row per answer: pairs (T, 2), y (T,), users (T,), and whether it is held out (T,)."""

    pairs: Integers
    y: Integers
    users: Integers
    held_out: NDArray[np.bool_]

    def part(self, held_out: bool) -> dict[str, Any]:
        """Return the arguments of `fit` or `score`."""
        rows = self.held_out == held_out
        return {"pairs": self.pairs[rows], "y": self.y[rows], "users": self.users[rows]}


def read_digits() -> Digits:
    """Return the digits, each moved to the mean of its class and seen through d principal components.

    All comparisons are within one class, and moving a class moves its people along: no answer changes.
    """
    bundle = load_digits()
    X, digits = bundle.data / 16.0, bundle.target
    moved = X - np.stack([X[digits == digit].mean(axis=0) for digit in range(10)])[digits]
    _, sizes, directions = np.linalg.svd(moved, full_matrices=False)
    components = directions[:DIMENSIONS]
    features = moved @ components.T
    unit = np.sqrt(np.mean(np.sum(features**2, axis=1)))
    kept = float(np.sum(sizes[:DIMENSIONS] ** 2) / np.sum(sizes**2))
    return Digits(bundle.images, digits, features / unit, X @ components.T / unit, components, kept)


def true_metric(components: Array) -> Array:
    """Return M (d, d): squared distance with pixels weighted by a spotlight on the top of the picture."""
    row, column = np.mgrid[:8, :8]
    weight = np.exp(-((row - 1.5) ** 2 + (column - 3.5) ** 2) / (2 * 1.2**2)).ravel()
    M = components @ (weight[:, None] * components.T)
    return SHARPNESS / np.linalg.norm(M) * M


def ask_crowd(items: Digits, metric: Array, people: int, seed: int) -> Answers:
    """Return the answers of people who each have one picture in mind and compare others of the same digit."""
    rng = np.random.default_rng(seed)
    own = rng.integers(len(items.digits), size=people)
    users = np.repeat(np.arange(people), ANSWERS)
    pairs = np.empty((len(users), 2), dtype=np.int64)
    for digit in range(10):
        rows = np.flatnonzero(items.digits[own[users]] == digit)
        members = np.flatnonzero(items.digits == digit)
        first = rng.integers(len(members), size=len(rows))
        step = rng.integers(1, len(members), size=len(rows))  # never a picture with itself
        pairs[rows] = members[np.column_stack([first, (first + step) % len(members)])]
    left, right = items.features[pairs[:, 0]], items.features[pairs[:, 1]]
    psi = np.einsum("td,td->t", (left - right) @ metric, left + right - 2 * items.features[own[users]])
    held_out = np.tile(np.arange(ANSWERS) >= ANSWERS - HELD_OUT, people)
    return Answers(pairs, responses(psi, 1.0, rng), users, held_out)


def neighbors(items: Digits, metric: Array, number: int, count: int) -> Integers:
    """Return the `count` pictures, of whatever digit, that are nearest to a picture, nearest first."""
    step = items.whole - items.whole[number]
    order = np.argsort(np.einsum("nd,nd->n", step @ metric, step), kind="stable")
    return order[order != number][:count]


def shared(items: Digits, metric: Array, truth: Array, numbers: Sequence[int], count: int) -> Array:
    """Return the share of the `count` truly nearest pictures that `metric` finds, for each of these pictures."""
    return np.array(
        [np.isin(neighbors(items, metric, i, count), neighbors(items, truth, i, count)).mean() for i in numbers]
    )


def draw(path: Path, items: Digits, truth: Array, learned: Array, plain: Array) -> None:
    """Write the picture: where the crowd looks, the metrics, and the neighbors of one digit."""
    figure = new_figure(10.5, 7.2)
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.0, 1.12])
    scaled = np.sum(learned * truth) / np.sum(learned**2) * learned
    axes = top.subplots(1, 4)
    looks = [np.einsum("dp,de,ep->p", items.components, M, items.components).reshape(8, 8) for M in (truth, scaled)]
    limit = max(look.max() for look in looks)
    for ax, look, title in zip(axes, looks, ("where the crowd looks", "where we learned it looks"), strict=False):
        image = ax.imshow(look, cmap="viridis", vmin=0.0, vmax=limit)
        ax.set_title(title, fontsize=11)
        ax.set(xticks=[], yticks=[])
    top.colorbar(image, ax=list(axes[:2]), shrink=0.6, label="weight of a pixel", location="bottom")
    limit = float(max(np.abs(truth).max(), np.abs(scaled).max()))
    for ax, M, title in zip(axes[2:], (truth, scaled), ("true metric", "learned metric, rescaled"), strict=True):
        image = ax.imshow(M, cmap="PuOr_r", vmin=-limit, vmax=limit)
        ax.set_title(title, fontsize=11)
        ax.set(xticks=range(len(M)), yticks=range(len(M)), xlabel="feature", ylabel="feature")
    top.colorbar(image, ax=list(axes[2:]), shrink=0.6, label="entry of M", location="bottom")
    draw_neighbors(bottom, items, {"the crowd": truth, "learned": learned, "Euclidean": plain})
    save_figure(figure, path)


def draw_neighbors(figure: Any, items: Digits, metrics: dict[str, Array], count: int = 8) -> None:
    """Draw the pictures nearest to one picture under each metric; those that the crowd finds too are framed.

    It is the first of those for which Euclidean distance and the crowd agree least: where it matters which one is used.
    """
    truth, *_, plain = metrics.values()
    some = range(0, len(items.digits), EVERY)
    number = some[int(np.argmin(shared(items, plain, truth, some, count)))]
    nearest_truly = neighbors(items, truth, number, count)
    axes = figure.subplots(len(metrics), count + 1)
    for row, (name, metric) in zip(axes, metrics.items(), strict=True):
        near = neighbors(items, metric, number, count)
        marks = np.r_[False, np.isin(near, nearest_truly)]
        for ax, picture, framed in zip(row, items.pictures[np.r_[number, near]], marks, strict=True):
            ax.imshow(picture, cmap="gray_r")
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set(color="#b35806" if framed else "#cccccc", linewidth=2.5 if framed else 0.8)
        row[0].set_ylabel(f"{name} ", rotation=0, ha="right", va="center")
    axes[0, 0].set_title("this picture", fontsize=9)
    figure.suptitle(
        f"The {count} pictures nearest to one of those that Euclidean distance gets most wrong (framed: among the "
        f"{count} nearest for the crowd)",
        fontsize=10,
    )


def introduce(items: Digits, people: int) -> None:
    """Print what there is to learn from."""
    print(
        f"{len(items.digits):,} handwritten digits, their 64 pixels seen through {DIMENSIONS} principal components "
        f"({items.kept:.0%} of the variance);\n"
        f"{people:,} simulated people, each with {ANSWERS - HELD_OUT} answers to learn from and {HELD_OUT} held "
        "out, all about one digit.\n"
    )


def run(people: int = 6000, seed: int = 0, folder: Path = Path("demo-output")) -> dict[str, dict[str, float]]:
    """Run the demonstration, print what happened, write the picture and return the numbers of every model."""
    clock = perf_counter()
    items = read_digits()
    truth = true_metric(items.components)
    answers = ask_crowd(items, truth, people, seed)
    introduce(items, people)
    X, plain = items.features, np.trace(truth) / DIMENSIONS * np.eye(DIMENSIONS)
    models = {
        "learned": PopulationMetric(X),
        "stitched": StitchedMetric(X, subspaces=items.digits, rank=RANK, tol=1e-6),
        "Euclidean": IdealPointMetric(X, fixed_metric=plain, tol=1e-6),
    }
    numbers = {}
    for name, model in models.items():
        with show_progress(f"{type(model).__name__} ({name})"):
            model.fit(**answers.part(held_out=False))
        numbers[name] = measure(model, items, truth, answers)
    folder.mkdir(parents=True, exist_ok=True)
    draw(folder / "demo.png", items, truth, models["learned"].metric_, plain)
    report(numbers, models["learned"])
    print(f"{perf_counter() - clock:.1f} s in all; the picture is {folder / 'demo.png'}")
    return numbers


def measure(model: Any, items: Digits, truth: Array, answers: Answers) -> dict[str, float]:
    """Return how well a model knows the metric, the answers that were held out, and the neighbors."""
    return {
        "error": relative_error(model.metric_, truth),
        "shape": shape_error(model.metric_, truth),
        "accuracy": model.score(**answers.part(held_out=True)),
        "neighbors": float(shared(items, model.metric_, truth, range(0, len(items.digits), EVERY), 10).mean()),
    }


def report(numbers: dict[str, dict[str, float]], learned: PopulationMetric) -> None:
    """Print what was learned beside the best multiple of the identity, which is to have learned nothing."""
    print(f"{'':<44}" + "".join(f"{name:>12}" for name in numbers))
    rows = {
        "error": ("relative error of the metric", ".3f"),
        "shape": ("the same after the best rescaling (shape)", ".3f"),
        "accuracy": ("held-out answers predicted", ".1%"),
        "neighbors": ("ten nearest neighbors found", ".1%"),
    }
    for key, (name, form) in rows.items():
        print(f"{name:<44}" + "".join(f"{of_model[key]:>12{form}}" for of_model in numbers.values()))
    print(
        "\nLearned: PopulationMetric, which integrates people out and is told nothing of digits. Stitched: the paper's"
        "\ndivide and conquer, a metric for each digit and then one, its bounds chosen from the answers. Euclidean:"
        "\nthe best multiple of the identity, its size taken from the truth; people placed under it."
        f"\n{learned.solution_.status}"
    )


def main(arguments: Sequence[str]) -> None:
    """Run the demonstration into the folder named, or into ``demo-output``."""
    run(folder=Path(arguments[0] if arguments else "demo-output"))


if __name__ == "__main__":
    main(sys.argv[1:])
