"""What a loader returns: items, answers, and how the answers were made."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from crowdmetric.comparisons import Comparisons
from crowdmetric.folders import check_target, new_folder, write_file
from crowdmetric.tables import Column, Items, write_columns

__all__ = ["FORMATS", "Dataset", "check_folder"]

Place = str | os.PathLike[str]

FORMATS = ("csv", "parquet")
# Records where a folder came from. Its presence means that the folder may be replaced.
ORIGIN = "origin.json"


@dataclass(frozen=True, eq=False)
class Dataset:
    r"""Items and what people said about them.

    Attributes
    ----------
    name : str
    items : Items
        ids (N,), features (N, d) and feature_names.
    item_names : (N,) str
        What people call the items.
    comparisons : Comparisons
        Its item_ids are those of `items`; what was left out is counted in `dropped`.
    rule : str
        How comparisons were made of what people said, in a sentence.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crowdmetric.datasets import load_tidy
    >>> place = Path(tempfile.mkdtemp())
    >>> _ = (place / 'items.csv').write_text('item_id,sweet\ntea,0\ncola,4\n')
    >>> _ = (place / 'comparisons.csv').write_text('user,left,right,choice\nann,tea,cola,left\n')
    >>> len(load_tidy(place).comparisons)
    1
    """

    name: str
    items: Items
    item_names: Column
    comparisons: Comparisons
    rule: str

    def summary(self) -> str:
        """Return what is there, in a few lines."""
        features = self.items.feature_names
        shown = ", ".join(features[:8]) + (f" and {len(features) - 8} more" if len(features) > 8 else "")
        return (
            f"{self.name}: {len(self.items.ids):,} items with {len(features):,} features ({shown})\n"
            f"{self.comparisons.summary()}\n{self.rule}"
        )

    def named(self) -> Dataset:
        """Return the same with names as ids; a name that several items share gets its id behind it."""
        counts = Counter(self.item_names.tolist())
        pairs = zip(self.item_names.tolist(), self.items.ids.tolist(), strict=True)
        ids = np.array([name if counts[name] == 1 else f"{name} [{number}]" for name, number in pairs])
        return replace(self, items=self.items._replace(ids=ids), comparisons=replace(self.comparisons, item_ids=ids))

    def write(self, folder: Place, *, format: str = "csv", overwrite: bool = False) -> None:
        """Write the tables items, item_names and comparisons into a folder, whole or not at all.

        Parameters
        ----------
        folder : path
            To be made; ``crowdmetric fit`` and `load_tidy` read what is in it.
        format : {'csv', 'parquet'}
        overwrite : bool
            Whether a folder that was written so before may be replaced.
        """
        answers = self.comparisons
        tables = {
            "items": {
                "item_id": self.items.ids,
                **dict(zip(self.items.feature_names, self.items.features.T, strict=True)),
            },
            "item_names": {"item_id": self.items.ids, "name": self.item_names},
            "comparisons": answers.columns(),
        }
        if answers.is_binary:
            tables["comparisons"]["choice"] = np.where(answers.response < 0, "left", "right")
            del tables["comparisons"]["response"]
        if np.all(answers.weight == 1):
            del tables["comparisons"]["weight"]
        with new_folder(folder, overwrite, _is_ours) as place:
            for name, columns in tables.items():
                write_columns(columns, place / f"{name}.{format}")
            origin = {"name": self.name, "rule": self.rule, "dropped": answers.dropped}
            write_file(place / ORIGIN, json.dumps(origin, ensure_ascii=False, indent=1) + "\n")


def check_folder(folder: Place, overwrite: bool) -> None:
    """Raise ModelFileError if `Dataset.write` would refuse the folder; better before the work than after."""
    check_target(folder, overwrite, _is_ours)


def _is_ours(folder: Path) -> bool:
    names = {path.name for path in folder.iterdir()}
    tables = {f"{name}.{kind}" for name in ("items", "item_names", "comparisons") for kind in FORMATS}
    return ORIGIN in names and names <= tables | {ORIGIN}
