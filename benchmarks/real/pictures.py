"""One picture of the study: what every model gains over linear utilities, one panel per task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.real.page import error_of
from benchmarks.real.tasks import MODELS, REFERENCE, TASKS, Row
from crowdmetric.plots import FAINT, LEARNED, PLAIN, new_figure, save_figure

__all__ = ["draw"]

# The tasks shown, of those that differ.
SHOWN = ("warm, few", "warm, many", "cold", "new people")

# Gains below this are written, not drawn.
WORST = -6.0

# Colors and markers of the models, which then differ by shape too.
SERIES = (FAINT, PLAIN, "#2a9d6f", LEARNED, "#8a63c9", "#b8446a", "#a58a12")
MARKERS = "sv^oDXP"


def draw(rows: Sequence[Row], path: Path) -> Path:
    """Draw the gains in accuracy with two standard errors to either side, and save them."""
    here = {(row["task"], row["set"], row["model"]): row for row in rows}
    tasks = [task for task in SHOWN if task in TASKS and any(key[0] == task for key in here)]
    sets = list(dict.fromkeys(row["set"] for row in rows))
    models = [model for model in MODELS if model != REFERENCE and any(key[2] == model for key in here)]
    figure = new_figure(3.0 * len(tasks) + 1.2, 1.6 + 0.75 * len(sets))
    gains, errors = np.full((2, len(tasks), len(sets), len(models)), np.nan)
    for (task, name, model), row in here.items():
        if task in tasks and model in models:
            place = tasks.index(task), sets.index(name), models.index(model)
            gains[place], errors[place] = float(row["gain"]), error_of(row)
    _draw_gains(figure, gains, errors, tasks, sets, models, f"points of accuracy beyond {REFERENCE}")
    return save_figure(figure, path)


def _draw_gains(
    figure: Any,
    gains: ArrayLike,
    errors: ArrayLike,
    tasks: Sequence[str],
    sets: Sequence[str],
    models: Sequence[str],
    label: str,
) -> None:
    """Draw one panel per task: for every set, one dot per model at its gain, with two errors to either side.

    Gains below `WORST` are written at the edge, so they do not squeeze the others.

    Parameters
    ----------
    figure : matplotlib Figure
    gains, errors : (tasks, sets, models) arrays
    tasks, sets, models : sequences of str
    label : str
        Label of the axis of gains.
    """
    gain, error = np.asarray(gains, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    panels = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    place = np.arange(len(sets))[::-1]
    shift = np.linspace(0.32, -0.32, len(models))
    for column, (axes, task) in enumerate(zip(panels, tasks, strict=True)):
        axes.axvline(0.0, color="#999999", linewidth=0.8, linestyle=":")
        for j, model in enumerate(models):
            color, value = SERIES[j % len(SERIES)], gain[column, :, j]
            shown = ~(value < WORST)  # a gain that was not computed (NaN) stays in, and nothing is drawn for it
            axes.errorbar(
                value[shown], (place + shift[j])[shown], xerr=2.0 * error[column, shown, j], capsize=2, markersize=4,
                fmt=MARKERS[j % len(MARKERS)], color=color, elinewidth=1, label=model,
            )  # fmt: skip
            for x, y in zip(value[~shown], (place + shift[j])[~shown], strict=True):
                axes.text(WORST, y, f"◂ {x:.1f}".replace("-", "−"), color=color, fontsize=8, va="center")
        for line in place[1:] + 0.5:
            axes.axhline(line, color="#dddddd", linewidth=0.6)
        axes.set_xlim(left=WORST - 0.5)
        axes.set_yticks(place, labels=sets)
        axes.set_title(task, fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(f"{label} (bars: two standard errors)", fontsize=9, color="#666666")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(models), frameon=False)
