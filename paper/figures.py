"""Draw the figures of the paper from the tables of measured results in the documentation.

make paper

Nothing is measured here: `crowdmetric reproduce` and `python -m benchmarks real` write the tables.
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
MEASURED = HERE.parent / "docs" / "explanation"
LEARNERS = {"oracle": "published method, radii from the truth", "honest": "the same, radii from the data",
            "population": "people as one population"}  # fmt: skip
COLORS = {"oracle": "#8d99ae", "honest": "#E69F00", "population": "#0072B2"}
MODELS = {
    "identity": "plain distance",
    "population": "learned metric",
    "population-items-isotropic": "with item effects",
}


def rows(path: str) -> list[dict[str, str]]:
    """Return a table of results as one dictionary per row."""
    with open(MEASURED / path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def error_of(row: dict[str, str]) -> float:
    """Return the standard error of a gain: people as the independent units, or repeats where that is larger."""
    return max(float(row["gain_error"]), float(row["gain_sd"] or 0.0) / float(row["repeats"]) ** 0.5)


def draw_reproduction() -> None:
    """Draw Experiment 1 of the paper: error against people, with its oracle, without it, and past it."""
    table = [
        row for row in rows("reproduction/summary.csv")
        if (row["experiment"], row["rank"], row["beta"], row["loss"], row["m"]) == ("1", "1", "1", "logistic", "4")
        and row["stitch"] != "ols"
    ]  # fmt: skip
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for learner, label in LEARNERS.items():
        chosen = sorted((row for row in table if row["learner"] == learner), key=lambda row: int(row["K"]))
        people = [int(row["K"]) for row in chosen]
        mean, spread = (np.array([float(row[f"relative_error_{name}"]) for row in chosen]) for name in ("mean", "sd"))
        axes.plot(people, mean, marker="o", markersize=3, color=COLORS[learner], label=label)
        axes.fill_between(people, mean - spread, mean + spread, color=COLORS[learner], alpha=0.15, linewidth=0)
    axes.axhline(float(table[0]["identity_error_mean"]), color="black", linestyle=":", linewidth=1)
    axes.set(xlabel="people per line, four answers each", ylabel="relative error of the metric", ylim=(0, 1.5))
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "reproduction.png", dpi=200)


def draw_real_people() -> None:
    """Draw what a metric adds to linear utilities on real answers, about known and about new items."""
    table = rows("real-data/results.csv")
    tasks = {"warm, few": "known items", "cold": "new items"}
    sets = list(dict.fromkeys(row["set"] for row in table if row["set"] != "jester, 5 features"))
    figure, panels = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained", sharey=True)
    for axes, (task, title) in zip(panels, tasks.items(), strict=True):
        for number, (model, label) in enumerate(MODELS.items()):
            gains = {row["set"]: row for row in table if row["task"] == task and row["model"] == model}
            shown = [place for place, name in enumerate(sets) if name in gains]
            axes.errorbar(
                [float(gains[sets[place]]["gain"]) for place in shown],
                np.array(shown) + 0.22 * (number - 1),
                xerr=[error_of(gains[sets[place]]) for place in shown],
                fmt="o", markersize=3.5, linewidth=1, label=label,
            )  # fmt: skip
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(sets)), sets)
        axes.set(title=title, xlabel="accuracy beyond linear utilities, points")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8
    )
    figure.savefig(HERE / "real-people.png", dpi=200)


if __name__ == "__main__":
    draw_reproduction()
    draw_real_people()
