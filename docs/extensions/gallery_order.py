"""How the gallery looks: the order in which a user comes to the questions, and one style for all pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

ORDER = (
    "can_answers_teach",
    "plan_study",
    "parallel_questions",
    "clicks_to_metric",
    "features_that_matter",
    "how_sure",
    "worth_using",
    "ideal_points_or_tastes",
    "discover_subspaces",
    "similarity_head",
    "embedding_aligned",
    "one_metric",
    "new_person",
    "neighbors_by_metric",
    "knn_pipeline",
    "embedding_head",
)


class InOrderOfUse:
    """Sort key of sphinx-gallery: examples in the order above, then all others by name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, file: str) -> tuple[int, str]:
        """Return the place of one example."""
        name = Path(file).stem
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)

    def __repr__(self) -> str:
        """Sphinx compares settings by their repr to know what to build again."""
        return "InOrderOfUse"


def draw_plainly(conf: dict[str, Any], file: str) -> None:
    """Set the style of pictures before each example: no frame, white paper, fine enough for a phone."""
    plt.rcParams.update(
        {"axes.spines.top": False, "axes.spines.right": False, "savefig.dpi": 130, "figure.facecolor": "white"}
    )
