"""Pictures. The only module that knows matplotlib, which is imported when a picture is asked for.

Colors are safe for color-blind readers: matplotlib's PuOr where sign matters, viridis where it does not.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.errors import missing_extra
from crowdmetric.folders import new_file

__all__ = [
    "draw_ellipses",
    "draw_evaluation",
    "draw_strengths",
    "draw_taste_map",
    "draw_tastes",
    "figure_svg",
    "new_figure",
    "save_figure",
]

# Readable on white and on black.
LEARNED, PLAIN, FAINT = "#d9730d", "#3b82c4", "#8a8a8a"
DOTS = (LEARNED, "#8a63c9")


def new_figure(width: float, height: float) -> Any:
    """Return an empty ``matplotlib.figure.Figure`` of `width` × `height` inches, without a window."""
    try:
        module = import_module("matplotlib.figure")
    except ImportError as error:
        raise missing_extra("matplotlib", "plots", "a picture") from error
    return module.Figure(figsize=(width, height), dpi=150, layout="constrained")


def save_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write the figure, whole or not at all; the suffix says in which format."""
    path = Path(path)
    with new_file(path) as file:
        figure.savefig(file, format=path.suffix.removeprefix(".") or "png")
    return path


def draw_evaluation(
    figure: Any,
    values: Mapping[str, NDArray[Any]],
    errors: Mapping[str, NDArray[Any]],
    splits: Sequence[str],
    models: Sequence[str],
) -> None:
    """Draw one row of panels per measure, one column per split: every model's value as a dot, better to the right.

    Parameters
    ----------
    figure : matplotlib Figure
    values, errors : mappings of (splits, models) arrays
        By measure; an error is that of the difference to the best model, drawn as two of them to either side.
    splits, models : sequences of str
    """
    panels = figure.subplots(len(values), len(splits), sharey=True, squeeze=False)
    place = np.arange(len(models))[::-1]
    for row, (measure, color) in enumerate(zip(values, DOTS, strict=False)):
        for column, name in enumerate(splits):
            axes, value = panels[row, column], values[measure][column]
            axes.axvline(value.max(), color="#999999", linewidth=0.8, linestyle=":")
            axes.errorbar(value, place, xerr=2.0 * errors[measure][column], fmt="o", color=color, capsize=3)
            axes.set_yticks(place, labels=models)
            axes.set_xlabel(f"{measure.replace('_', '-')} per answer" if measure != "accuracy" else "accuracy")
            axes.locator_params(axis="x", nbins=4)
            axes.margins(y=0.08)
            axes.spines[["top", "right"]].set_visible(False)
            if row == 0 and len(splits) > 1:  # a picture of one split is titled by its page
                axes.set_title(name, fontsize=11)
    figure.supxlabel("bars: two standard errors of the difference to the best", fontsize=9)


# ------------------------------------------------------------------------------------------ pages


def figure_svg(figure: Any, name: str) -> str:
    """Return the figure as an SVG element for a page that is light or dark: black becomes the text's color.

    Parameters
    ----------
    figure : matplotlib Figure
    name : str
        Other than those of the other figures on the page, whose marks would get the same identifiers.
    """
    with import_module("matplotlib").rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        file = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :].replace("#000000", "currentColor")
    text = re.sub(r'<g id="[^"]*">', "<g>", text)  # figure_1, axes_1, … would repeat from picture to picture
    return text.strip()


def draw_strengths(axes: Any, strengths: ArrayLike, intervals: tuple[ArrayLike, ArrayLike] | None) -> None:
    """Draw eigenvalues over their mean as dots, the largest first, with the ends of intervals where there are some."""
    value = np.asarray(strengths, dtype=np.float64)
    place = np.arange(1, len(value) + 1)
    if intervals is not None:
        axes.vlines(place, *intervals, color=LEARNED, linewidth=2.2, alpha=0.55, label="90 % interval")
    axes.plot(place, value, "o", color=LEARNED, markersize=5, label="learned")
    axes.axhline(1.0, color=PLAIN, linestyle="--", linewidth=1.2, label="all directions alike")
    axes.axhline(0.0, color=FAINT, linewidth=0.8)
    axes.set_xticks(place[:: max(1, len(place) // 12)])
    axes.set(xlabel="direction", ylabel="strength")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)


def draw_ellipses(
    axes: Any, points: NDArray[Any], circle: NDArray[Any], ellipse: NDArray[Any] | None, others: Sequence[NDArray[Any]]
) -> None:
    """Draw points (n, 2), and closed curves (m, 2) of what is equally far: before, after, and what else is possible."""
    axes.plot(*points.T, ".", color=FAINT, markersize=3, alpha=0.6, label="items")
    for curve in others:
        axes.plot(*curve.T, color=LEARNED, linewidth=0.6, alpha=0.3)
    axes.plot(*circle.T, color=PLAIN, linestyle="--", linewidth=1.4, label="Euclidean")
    if ellipse is not None:
        axes.plot(*ellipse.T, color=LEARNED, linewidth=2.2, label="learned")
    # the frame fits the curves and most of the items; stray draws do not change it
    reach = max(np.abs(circle).max(), 0.0 if ellipse is None else np.abs(ellipse).max())
    reach = max(1.15 * reach, float(np.quantile(np.abs(points), 0.98)))
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axes.set(xlabel="along direction 1", ylabel="along direction 2")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, columnspacing=1.0)


def draw_tastes(figure: Any, lines: Sequence[Sequence[NDArray[Any]]]) -> None:
    """Draw one panel per feature, numbered: the crowd's utility with its 90 % band, and how people scatter.

    Each line is four arrays (g,): values, mean, half the width of the band, and half that of the range in which 90 % of
    the people are.
    """
    columns = min(len(lines), 2)
    panels = figure.subplots(-(-len(lines) // columns), columns, sharey=True, squeeze=False).ravel()
    for number, (axes, (values, mean, band, people)) in enumerate(zip(panels, lines, strict=False), start=1):
        axes.fill_between(values, mean - people, mean + people, color=FAINT, alpha=0.18, linewidth=0, label="people")
        axes.fill_between(values, mean - band, mean + band, color=LEARNED, alpha=0.35, linewidth=0, label="90 % band")
        axes.plot(values, mean, color=LEARNED, linewidth=2.0, label="the crowd")
        axes.axhline(0.0, color=FAINT, linewidth=0.8)
        axes.set_title(f"feature {number}", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.locator_params(axis="x", nbins=4)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(lines) :]:
        axes.set_visible(False)
    panels[0].set_ylabel("utility", fontsize=9)
    panels[0].legend(fontsize=7, frameon=False)


def draw_taste_map(
    axes: Any, x: NDArray[Any], y: NDArray[Any], utility: NDArray[Any], points: NDArray[Any], sure: NDArray[Any]
) -> Any:
    """Draw utilities (n, n) over a plane as colors, items as dots, and dots where nothing is `sure`; return the image.

    The image is for a color bar.
    """
    limit = max(float(np.abs(utility).max()), 1e-12)
    levels = np.linspace(-limit, limit, 15)
    image = axes.contourf(x, y, utility, levels=levels, cmap="PuOr_r")
    if not np.all(sure):
        across, up = np.meshgrid(x, y)
        axes.plot(across[~sure], up[~sure], ".", color=FAINT, markersize=1.5)
    axes.plot(*points.T, "o", color="#222222", markersize=3, markeredgecolor="#ffffff", markeredgewidth=0.5)
    axes.set(xlabel="feature 1", ylabel="feature 2")
    return image
