"""Draw the picture of the front page: drinks as a machine sees them, answers, and drinks as the crowd sees them.

python docs/front/picture.py

The crowd of the first tutorial is simulated and fitted once more, so the picture shows what that lesson finds.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.manifold import MDS

HERE = Path(__file__).parent
TUTORIAL = HERE.parents[1] / "tutorials" / "preferences.py"
GROUPS = {
    "#7b4b2a": ("espresso", "black tea", "green tea"),
    "#3a86a8": ("latte", "milk", "milkshake"),
    "#c9184a": ("cola", "lemonade", "orange juice"),
    "#b8860b": ("pilsner", "pale ale", "stout"),
    "#6a4c93": ("whisky", "vodka", "negroni"),
}
SHOWN = [name for names in GROUPS.values() for name in names]
INK, FAINT = "#22223b", "#6c757d"


def draw_map(axes: plt.Axes, coordinates: np.ndarray, title: str) -> None:
    """Draw one map of the items in two dimensions, kinds of drinks in their colors."""
    places = MDS(n_components=2, n_init=4, init="random", random_state=0).fit_transform(coordinates)
    places = places / np.ptp(places, axis=0)  # both ways from 0 to 1, so room for a word is the same everywhere
    taken = [(x, y, 0.03, 0.05) for x, y in places]
    for name, (x, y) in zip(SHOWN, places, strict=True):
        color = next(color for color, names in GROUPS.items() if name in names)
        wide = 0.028 * len(name)
        around = {
            "above": (0, 0.09),
            "below": (0, -0.11),
            "right": (0.045 + wide / 2, -0.01),
            "left": (-0.045 - wide / 2, -0.01),
        }
        room = {side: (x + dx, y + dy, wide, 0.07) for side, (dx, dy) in around.items()}
        side = min(room, key=lambda side: sum(_overlap(room[side], other) for other in taken))
        taken.append(room[side])
        axes.plot(x, y, "o", color=color, markersize=8)
        axes.text(*room[side][:2], name, ha="center", va="center", color=color, fontsize=9.5, fontweight="bold")
    axes.set_title(title, fontsize=12, color=INK)
    axes.margins(0.16)
    axes.axis("off")


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the area that two boxes (center, width, height) share."""
    sides = [
        min(a + w / 2, b + v / 2) - max(a - w / 2, b - v / 2)
        for a, b, w, v in zip(one[:2], other[:2], one[2:], other[2:], strict=True)
    ]
    return max(sides[0], 0.0) * max(sides[1], 0.0)


def main() -> None:
    """Fit the crowd and write both pictures: for wide screens, and for phones."""
    found = runpy.run_path(str(TUTORIAL))
    rows = [found["number"][name] for name in SHOWN]
    plt.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "crowdmetric"})
    maps = found["items"][rows], found["model"].transform(found["items"][rows])
    draw(maps, "picture.svg", {"nrows": 1, "ncols": 3, "figsize": (11, 3.7), "width_ratios": [1, 0.62, 1]})
    draw(maps, "picture-narrow.svg", {"nrows": 3, "ncols": 1, "figsize": (4.6, 9.0), "height_ratios": [1, 0.62, 1]})


def draw(maps: tuple[np.ndarray, np.ndarray], name: str, layout: dict[str, Any]) -> None:
    """Write one picture: a map, questions and a map, beside or below each other."""
    figure, (before, middle, after) = plt.subplots(layout="constrained", **layout)
    draw_map(before, maps[0], "before: what the embedding finds similar")
    draw_map(after, maps[1], "after: what the crowd finds similar")
    middle.axis("off")
    questions = ("stout or pilsner?", "latte or cola?", "milk or whisky?", "vodka or negroni?")
    for line, question in enumerate(questions):
        middle.text(0.5, 0.9 - 0.15 * line, question, ha="center", fontsize=10.5, color=INK, style="italic")
    middle.text(0.5, 0.17, "four answers each\nfrom 1,500 people", ha="center", fontsize=9.5, color=FAINT)
    arrow = {"arrowstyle": "-|>", "color": INK, "lw": 2}
    start, end = ((0, 0.1), (1, 0.1)) if layout["nrows"] == 1 else ((0.5, 0.13), (0.5, 0.0))
    middle.annotate("", xy=end, xytext=start, xycoords="axes fraction", arrowprops=arrow, annotation_clip=False)
    figure.savefig(HERE / name, metadata={"Date": None}, facecolor="white")
    plt.close(figure)


if __name__ == "__main__":
    main()
