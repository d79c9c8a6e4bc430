"""One picture of the study: what every model gains over linear utilities, a panel a task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.real.page import error_of
from benchmarks.real.tasks import MODELS, REFERENCE, TASKS, Row
from crowdmetric.plots import draw_gains, new_figure, save_figure

__all__ = ["draw"]

# The tasks shown, of those that differ.
SHOWN = ("warm, few", "warm, many", "cold", "new people")

# Gains below this are written, not drawn.
WORST = -6.0


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
    draw_gains(figure, gains, errors, tasks, sets, models, f"points of accuracy beyond {REFERENCE}", WORST)
    return save_figure(figure, path)
