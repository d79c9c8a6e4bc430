"""Draw the picture of docs/population.md: ``python -m docs.pictures.population [folder]``, from the project's root.

Every point is measured, by the benchmark of that name.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from benchmarks.population import decay

from crowdmetric.plots import new_figure, save_figure

BLUE, GRAY = "#0072B2", "#666666"


def draw(folder: Path) -> Path:
    """Draw the error against the number of people, beside the Cramér–Rao bound and a slope of one half."""
    people, error, doubt, bound = np.array(decay()).T
    picture = new_figure(5.6, 4.0)
    ax = picture.subplots()
    ax.plot(people, bound, color=GRAY, linestyle="--", linewidth=1.6, label="Cramér–Rao bound")
    ax.errorbar(people, error, 2.0 * doubt, color=BLUE, marker="o", capsize=3, label="PopulationMetric, ± 2 s.e.")
    ax.plot(people, error[2] * np.sqrt(people[2] / people), color=GRAY, linestyle=":", label="1/√people")
    ax.set(xscale="log", yscale="log", xlabel="people, two answers each", ylabel="relative error of the metric (d = 5)")
    ax.grid(alpha=0.25, which="both")
    ax.legend(fontsize=9)
    return save_figure(picture, folder / "decay.png")


if __name__ == "__main__":
    print(draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent))
