"""The paper's panels, and what a user without an oracle gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crowdmetric.engines.local import LocalEngine
from crowdmetric.experiments.cells import Figure, least_subspaces
from crowdmetric.experiments.learners import LEARNERS, Row
from crowdmetric.experiments.result_tables import rows_of_figure
from crowdmetric.plots import new_figure, save_figure

__all__ = ["draw_figure", "draw_figures"]

# Okabe and Ito's colors, which color-blind readers can tell apart, then two grays.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#777777")
MARKERS = "osD^vPX*"
# Errors beyond this are given as text: drawn, they would flatten everything else.
TALLEST = 1.6
LEARNER_TITLES = {
    "oracle": "oracle radii (as published)",
    "honest": "honest radii (from the answers)",
    "population": "population (no radii, no subspaces needed)",
}


def _measure(figure: Figure, learner: str) -> str:
    """Return the error that is drawn. A likelihood finds βM, so its size is that of M for a crowd of β = 1 alone."""
    return "shape_error" if learner == "population" and figure.beta != 1.0 else "relative_error"


def draw_figures(figures: Sequence[Figure], summary: Sequence[Row], out: Path, *, jobs: int | None = None) -> None:
    """Draw every figure, side by side in as many processes as `jobs` says (None: one per core)."""
    todo = [(figure, rows_of_figure(figure, summary), out) for figure in figures]
    for _ in LocalEngine(jobs).map(_draw, todo):
        pass


def _draw(job: tuple[Figure, list[Row], Path]) -> None:
    draw_figure(*job)


def draw_figure(figure: Figure, summary: Sequence[Row], out: Path, *, method: str = "huber") -> list[Path]:
    """Draw one panel per learner side by side and write it as PNG and SVG; return what was written."""
    rows = [row for row in rows_of_figure(figure, summary) if row["stitch"] in (method, "")]
    learners = [name for name in LEARNERS if any(row["learner"] == name for row in rows)]
    picture = new_figure(4.6 * len(learners), 4.0)
    axes = picture.subplots(1, len(learners), squeeze=False, sharey=True)[0]
    draw = {1: _lines, 2: _heat, 3: _lines}[figure.experiment]
    highest = max(row[f"{_measure(figure, row['learner'])}_mean"] for row in rows)
    for ax, learner in zip(axes, learners, strict=True):
        measure = _measure(figure, learner)
        shown = [row for row in rows if row["learner"] == learner]
        draw(picture, ax, figure, shown, measure)
        title = LEARNER_TITLES.get(learner, learner)
        ax.set_title(
            title if measure == "relative_error" else f"{learner}: error of shape, as it finds βM", fontsize=10
        )
        if figure.experiment != 2:
            ax.set_ylim(0.0, min(max(1.2, 1.05 * highest), TALLEST))
            own = max(row[f"{measure}_mean"] for row in shown)
            if own > TALLEST:
                ax.set_xlabel(f"{ax.get_xlabel()}   (up to {own:.1f} beyond the frame)")
    picture.suptitle(figure.title, fontsize=11)
    return [save_figure(picture, out / f"{figure.name}{suffix}") for suffix in (".png", ".svg")]


def _lines(picture: Any, ax: Any, figure: Figure, rows: list[Row], measure: str) -> None:
    """Draw error against people (one curve per number of answers) or against σ (one curve per number of people)."""
    x, curve, label = ("K", "m", "m") if figure.experiment == 1 else ("sigma", "K", "K")
    for i, value in enumerate(sorted({row[curve] for row in rows})):
        points = sorted((row for row in rows if row[curve] == value), key=lambda row: row[x])
        at = np.array([row[x] for row in points])
        mean = np.array([row[f"{measure}_mean"] for row in points])
        spread = np.array([row[f"{measure}_sd"] for row in points])
        ax.plot(at, mean, color=COLORS[i], marker=MARKERS[i], markersize=4, linewidth=1.4, label=f"{label} = {value}")
        ax.fill_between(at, np.maximum(mean - spread, 0.0), mean + spread, color=COLORS[i], alpha=0.15, linewidth=0)
    nothing = float(np.mean([row["identity_error_mean"] for row in rows]))
    ax.axhline(nothing, color="#444444", linestyle=":", linewidth=1.2, label="best multiple of I")
    people, noise = "people per subspace, K", "distance of items from their subspace, σ"
    ax.set(xlabel=people if figure.experiment == 1 else noise, ylabel="relative error")
    ax.label_outer()
    ax.grid(alpha=0.25)
    ax.legend(fontsize=8, framealpha=0.9)


def _heat(picture: Any, ax: Any, figure: Figure, rows: list[Row], measure: str) -> None:
    """Draw error over (number of subspaces, dimension), with the least number that can identify a metric."""
    counts, dimensions = sorted({row["n"] for row in rows}), sorted({row["d"] for row in rows})
    error = np.full((len(dimensions), len(counts)), np.nan)
    for row in rows:
        error[dimensions.index(row["d"]), counts.index(row["n"])] = row[f"{measure}_mean"]
    mesh = ax.pcolormesh(counts, dimensions, error, shading="nearest", cmap="viridis", vmin=0.0, vmax=1.0)
    needed = np.array([least_subspaces(d, figure.rank) for d in dimensions])
    ax.plot(needed, dimensions, color="#D55E00", linestyle=":", linewidth=2.2, label="fewest that can identify M")
    ax.set(xlabel="number of subspaces, n", ylabel="dimension, d", xlim=(min(counts), max(counts)), yticks=dimensions)
    ax.label_outer()
    ax.legend(fontsize=8, loc="upper left")
    if ax.get_subplotspec().is_last_col():
        picture.colorbar(mesh, ax=ax, label="relative error", extend="max")
