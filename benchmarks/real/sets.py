"""The eight sets of real answers, and what is done to their items before anybody learns from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric import Comparisons
from crowdmetric.preprocess import ItemMap
from crowdmetric.tables import read_items

__all__ = ["DATA", "SETS", "RealSet"]

Array = NDArray[np.float64]

# Beside the project, and never copied into it.
DATA = Path(__file__).parents[3] / "shared" / "data"


@dataclass(frozen=True)
class RealSet:
    """One set and how it is studied.

    Attributes
    ----------
    name
        Its folder.
    few, many
        Answers a person to learn from.
    repeats
        How often something else is hidden.
    standardise
        Features in units of their own are divided by their standard deviation; principal components are not.
    """

    name: str
    few: int = 5
    many: int = 20
    repeats: int = 8
    standardise: bool = True

    def read(self, data: Path) -> tuple[Array, Comparisons]:
        """Return items (N, d) and answers.

        N items differ in at most N − 1 directions. Where there are more features than that, items are turned to
        their principal axes and those without variance left out: nothing is lost.
        """
        items = read_items(data / self.name / "items.csv")
        answers: Any = Comparisons.read(data / self.name / "comparisons.csv", items=items)
        N, d = items.features.shape
        kept = N - 1 if d > N - 1 else None
        return ItemMap(standardise=self.standardise, components=kept).fit_transform(items.features), answers


SETS = {
    one.name: one
    for one in (
        RealSet("carrots"),
        RealSet("cocktail_compo"),
        RealSet("cocktail_senso"),
        RealSet("cream"),
        RealSet("perfume"),
        RealSet("train", many=8),
        RealSet("electricity"),
        # 199,370 answers: one repeat predicts more of them than eight of any other set
        RealSet("jester", repeats=1, standardise=False),
    )
}
