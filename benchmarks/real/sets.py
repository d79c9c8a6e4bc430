"""The eight sets of real answers, and what is done to their items before anybody learns from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric import Comparisons
from crowdmetric.evaluate.models import FOR_FEW_ITEMS
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
        Of its folder; what follows a comma says what is different.
    few, many
        Answers a person to learn from.
    repeats
        How often something else is hidden.
    standardize
        Features in units of their own are divided by their standard deviation; principal components are not.
    components
        Where there are nearly as many features as items, which would leave nothing to generalize from: the share of
        the variance that is kept, in principal directions. None: the features as they are.
    left_out
        Models that are not fitted, for the time they would take, or because there are too many items for them.
    first
        How many of the features are used; None: all.
    """

    name: str
    few: int = 5
    many: int = 20
    repeats: int = 4
    standardize: bool = True
    components: float | None = None
    left_out: tuple[str, ...] = ()
    first: int | None = None

    @property
    def folder(self) -> str:
        """Where it is."""
        return self.name.split(",")[0]

    def read(self, data: Path) -> tuple[Array, Comparisons]:
        """Return items (N, d) and answers."""
        items = read_items(data / self.folder / "items.csv")
        answers: Any = Comparisons.read(data / self.folder / "comparisons.csv", items=items)
        prepared = ItemMap(standardize=self.standardize, components=self.components)
        return prepared.fit_transform(items.features[:, : self.first]), answers


SETS = {
    one.name: one
    for one in (
        RealSet("carrots"),
        RealSet("cocktail_compo", repeats=6),
        RealSet("cocktail_senso", components=0.9),
        RealSet("cream", components=0.9),
        RealSet("perfume", components=0.9),
        RealSet("train", many=8, left_out=FOR_FEW_ITEMS),
        RealSet("electricity"),
        # 199,370 answers: one repeat predicts more of them than four of any other set
        RealSet("jester", repeats=1, standardize=False, left_out=("symmetric",)),
        RealSet("jester, 5 features", repeats=1, standardize=False, left_out=("symmetric",), first=5),
    )
}
