"""Draw the pictures of docs/can-i-learn.md: ``python docs/pictures/can_i_learn.py [folder]``.

The third is measured: every point is the rank that `diagnose` finds on a simulated crowd.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from crowdmetric.identifiability import diagnose
from crowdmetric.plots import new_figure, save_figure
from crowdmetric.simulate import simulate_crowd

# Okabe and Ito's colors, which color-blind readers can tell apart.
BLUE, ORANGE, GREEN, PURPLE, GRAY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#666666"
METRIC = np.array([[0.55, 0.45], [0.45, 1.6]])
ANGLES = (20.0, 75.0, 140.0)


def ellipse(M: np.ndarray) -> np.ndarray:
    """Return points (2, n) at distance one from the origin."""
    t = np.linspace(0.0, 2.0 * np.pi, 400)
    values, vectors = np.linalg.eigh(M)
    return vectors @ (np.array([np.cos(t), np.sin(t)]) / np.sqrt(values)[:, None])


def metrics_that_agree(directions: np.ndarray) -> list[np.ndarray]:
    """Return two other metrics that measure the same lengths along one or two directions (k, 2) as METRIC."""
    if len(directions) == 1:  # any metric of the right size
        x = directions[0]
        return [other * (x @ METRIC @ x) / (x @ other @ x) for other in (np.eye(2), np.diag([1.6, 0.4]))]
    unseen = np.linalg.svd(np.array([[x * x, 2.0 * x * y, y * y] for x, y in directions]))[2][-1]
    shift = np.array([[unseen[0], unseen[1]], [unseen[1], unseen[2]]])
    return [METRIC + t * np.sign(unseen[1]) * shift for t in (-0.2, -0.6)]


def draw_slices() -> Any:
    """One line shows one length of the ellipse; three lines in a plane leave one ellipse."""
    figure = new_figure(9.0, 2.8)
    radians = np.radians(ANGLES)
    directions = np.column_stack([np.cos(radians), np.sin(radians)])
    titles = ("items on one line", "on two lines", "on three lines")
    for k, (ax, title) in enumerate(zip(figure.subplots(1, 3), titles, strict=True), start=1):
        for M in metrics_that_agree(directions[:k]) if k < 3 else []:
            ax.plot(*ellipse(M), color=GRAY, linewidth=1.2, linestyle="--")
        ax.plot(*ellipse(METRIC), color=BLUE, linewidth=2.4)
        for x in directions[:k]:
            ax.plot(*np.outer(x, [-2.6, 2.6]), color=ORANGE, linewidth=1.2, zorder=1)
            end = x / np.sqrt(x @ METRIC @ x)
            ax.plot(*np.outer(end, [-1.0, 1.0]), "o", color=ORANGE, markersize=7)
        ax.set_title(title, fontsize=11)
        ax.set(xlim=(-2.1, 2.1), ylim=(-1.7, 1.7), xticks=[], yticks=[], aspect="equal")
    return figure


def draw_parallelogram() -> Any:
    """Two questions with the same difference: what is unknown of the person is the same in both."""
    figure = new_figure(6.6, 3.6)
    ax = figure.subplots()
    delta = np.array([1.6, 0.5])
    for middle, color, name in (((-1.0, -0.9), BLUE, "first question"), ((0.5, 0.9), ORANGE, "second question")):
        left, right = np.array(middle) - delta / 2, np.array(middle) + delta / 2
        ax.annotate("", right, left, arrowprops={"arrowstyle": "<->", "color": color, "linewidth": 2.2})
        ax.plot(*np.column_stack([left, right]), "o", color=color, markersize=9)
        ax.plot(*middle, "o", color="white", markeredgecolor=color, markersize=7)
        ax.text(right[0] + 0.12, right[1], name, color=color, va="center", fontsize=11)
    corners = [np.array((-1.0, -0.9)), np.array((0.5, 0.9))]
    for sign in (-0.5, 0.5):
        ax.plot(*np.column_stack([c + sign * delta for c in corners]), color=GRAY, linestyle=":", linewidth=1.2)
    ax.annotate("", corners[1], corners[0], arrowprops={"arrowstyle": "->", "color": GREEN, "linewidth": 2.2})
    where = {"fontsize": 11, "ha": "left", "va": "center"}
    ax.text(0.6, 0.0, "how the two questions differ", color=GREEN, **where)
    ax.plot(0.6, -1.35, marker="*", color=PURPLE, markersize=16)
    ax.text(
        0.85, -1.35, "the person's ideal: unknown, and\nits part in both answers is the same", color=PURPLE, **where
    )
    ax.set(xlim=(-2.1, 3.6), ylim=(-1.75, 1.5), xticks=[], yticks=[], aspect="equal")
    return figure


def revealed(d: int, subspaces: int | None, rank: int | None, users: int, answers: int) -> Any:
    """Return the diagnosis of a simulated crowd."""
    crowd = simulate_crowd(d, subspaces, rank, users, answers, seed=0)
    return diagnose(crowd.items, crowd.pairs, crowd.users)


def draw_ranks(d: int = 6) -> Any:
    """Degrees of freedom revealed, measured, against the number of subspaces and against answers per person."""
    figure = new_figure(9.6, 4.0)
    left, right = figure.subplots(1, 2, sharey=True)
    p = d * (d + 1) // 2
    for r, color, mark in ((1, BLUE, "o"), (2, ORANGE, "s"), (3, GREEN, "^")):
        numbers = np.arange(1, 25)
        ranks = [revealed(d, int(n), r, r * (r + 1) // 2, r + 1).rank for n in numbers]
        kind = {1: "lines, 2 answers per person", 2: "planes, 3 answers", 3: "3 dimensions, 4 answers"}[r]
        left.plot(numbers, ranks, color=color, marker=mark, markersize=4, label=kind)
    left.set(xlabel="number of subspaces", ylabel="degrees of freedom revealed")
    left.set_title("items in subspaces", fontsize=11)
    numbers = np.arange(1, 13)
    for users, color, mark in ((1, BLUE, "o"), (4, ORANGE, "s"), (100, GREEN, "^")):
        ranks = [revealed(d, None, None, users, int(m)).rank for m in numbers]
        right.plot(numbers, ranks, color=color, marker=mark, markersize=4,
                   label="1 person" if users == 1 else f"{users} people")  # fmt: skip
    ranks = [revealed(d, None, None, 100, int(m)).population_rank for m in numbers]
    right.plot(numbers, ranks, color=PURPLE, marker="D", markersize=4, linestyle="--", label="100 of one population")
    right.axvline(d, color=GRAY, linewidth=1.0, linestyle=":")
    right.text(d - 0.15, 3.0, f"as many answers as\ndimensions ({d})", color=GRAY, ha="right", va="center", fontsize=9)
    right.set(xlabel="answers per person", xticks=numbers)
    right.set_title("items in general position", fontsize=11)
    for ax in (left, right):
        ax.axhline(p, color=GRAY, linewidth=1.0)
        ax.set_ylim(-0.8, p + 2.0)
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    left.text(24, p + 0.3, f"all {p} of a metric in {d} dimensions", color=GRAY, ha="right", va="bottom", fontsize=9)
    left.legend(frameon=False, fontsize=9, loc="lower right")
    right.legend(
        frameon=True, framealpha=1.0, edgecolor="white", fontsize=9, loc="upper left", bbox_to_anchor=(0.0, 0.9)
    )
    return figure


def main() -> None:
    """Write the pictures beside this file, or in the folder that is given."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, draw in (("slices", draw_slices), ("parallelogram", draw_parallelogram), ("ranks", draw_ranks)):
        print(save_figure(draw(), folder / f"{name}.png"))


if __name__ == "__main__":
    main()
