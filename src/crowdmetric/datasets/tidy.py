"""A folder with a table of items and a table of comparisons, as ``crowdmetric import`` and `Dataset.write` leave it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from crowdmetric.comparisons import Comparisons
from crowdmetric.datasets.dataset import Dataset
from crowdmetric.errors import DataError
from crowdmetric.tables import Column, Items, read_columns, read_items

__all__ = ["load_tidy"]

SUFFIXES = ("csv", "csv.gz", "parquet", "pq")


def load_tidy(folder: str | os.PathLike[str]) -> Dataset:
    r"""Return the data set in a folder.

    Parameters
    ----------
    folder : path
        With ``items`` (CSV, Parquet, .npy or .npz, as for `read_items`), ``comparisons`` (CSV or Parquet, as for
        `Comparisons.read`) and perhaps ``item_names`` (item_id, name).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crowdmetric.datasets import load_tidy
    >>> place = Path(tempfile.mkdtemp())
    >>> _ = (place / 'items.csv').write_text('item_id,sweet\ntea,0\ncola,4\n')
    >>> _ = (place / 'comparisons.csv').write_text('user,left,right,choice\nann,tea,cola,left\n')
    >>> load_tidy(place).items.features.tolist()
    [[0.0], [4.0]]
    """
    place = Path(folder)
    if not place.is_dir():
        raise DataError(f"there is no folder {place}; name one with items.csv and comparisons.csv")
    items = read_items(_file(place, "items", (*SUFFIXES, "npy", "npz")))
    answers = Comparisons.read(_file(place, "comparisons", SUFFIXES), items=items)
    return Dataset(place.resolve().name, items, _names(place, items), answers, "Answers are those of the table.")


def _file(folder: Path, name: str, suffixes: tuple[str, ...]) -> Path:
    for suffix in suffixes:
        path = folder / f"{name}.{suffix}"
        if path.exists():
            return path
    there = ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing"
    raise DataError(f"{folder} has no {name}.csv (or {', '.join(suffixes[1:])}), but {there}; name another folder")


def _names(folder: Path, items: Items) -> Column:
    ids = [str(number) for number in items.ids.tolist()]
    paths = [folder / f"item_names.{suffix}" for suffix in SUFFIXES]
    found = next((path for path in paths if path.exists()), None)
    if found is None:
        return np.array(ids)
    columns = read_columns(found)
    for name in ("item_id", "name"):
        if name not in columns:
            raise DataError(f"{found} has no column {name!r}; item_id and name were expected")
    known = dict(zip(map(str, columns["item_id"].tolist()), map(str, columns["name"].tolist()), strict=True))
    return np.array([known.get(number, number) for number in ids])
