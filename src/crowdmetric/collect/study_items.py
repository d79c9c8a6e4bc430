"""The items as people see them: text, image, audio and video, in addition to the features."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.preprocess import spreads_of
from crowdmetric.tables import Column, Items, read_columns, read_items

__all__ = ["MEDIA", "Shown", "StudyItems", "problems_of_items"]

MEDIA = ("image", "audio", "video")
SEEN = ("text", *MEDIA)
# Files that a browser would run or render as a page are never items.
KINDS = {"image": "image/", "audio": "audio/", "video": "video/"}
MOST_NAMED = 5


@dataclass(frozen=True)
class Shown:
    """What people see of one item: its text, and numbers of its files in `StudyItems.files`."""

    text: str = ""
    image: int | None = None
    audio: int | None = None
    video: int | None = None

    @property
    def files(self) -> tuple[int, ...]:
        """The numbers of its files."""
        return tuple(n for n in (self.image, self.audio, self.video) if n is not None)


@dataclass(frozen=True, eq=False)
class StudyItems:
    """The items of a study.

    Attributes
    ----------
    items : Items
        Ids and features (N, d).
    shown : dict
        By id, as text.
    files : tuple of Path
        Every image, sound and film, inside the study's folder; pages name them by their number here.
    subspace : (N,) or None
        Labels, where the study names a column of them.
    """

    items: Items
    shown: dict[str, Shown]
    files: tuple[Path, ...]
    subspace: Column | None

    @property
    def ids(self) -> list[str]:
        """The ids as text, in the order of the table."""
        return list(self.shown)

    @property
    def scaled(self) -> NDArray[np.float64]:
        """The features in units of their spread over the items, (N, d): what a study designs for and learns from.

        They are not centered, because a subspace contains the origin.
        """
        return self.items.features / spreads_of(self.items.features)

    @property
    def whole_ids(self) -> bool:
        """Whether ids are whole numbers, which tables of answers then hold too."""
        return self.items.ids.dtype.kind in "iu"


def problems_of_items(folder: Path, table: str, subspace_column: str = "") -> tuple[StudyItems | None, list[str]]:
    """Return the items, None if they cannot be read at all, and a sentence for everything that is wrong."""
    try:
        columns = dict(read_columns(folder / table))
        seen = {name: columns.pop(name) for name in SEEN if name in columns}
        subspace = columns.pop(subspace_column, None) if subspace_column else None
        if subspace_column and subspace is None:
            raise DataError(f"{table} has no column {subspace_column!r}, which subspace_column in [items] names")
        items = read_items(columns)
    except DataError as error:
        return None, [f"{error}."]
    wrong: list[str] = []
    if len(items.ids) < 2:
        wrong.append(f"{table} has {len(items.ids)} item, but a question compares two; add more.")
    if not seen:
        seen = {"text": items.names if items.names is not None else items.ids}
    files, places = _files(folder, seen, wrong)
    rows = [_shown(seen, places, row) for row in range(len(items.ids))]
    blank = [str(i) for i, shown in zip(items.ids.tolist(), rows, strict=True) if shown == Shown()]
    if blank:
        wrong.append(f"{_some(blank)} of {table} have neither {', '.join(SEEN)}; people would see nothing.")
    shown = dict(zip(map(str, items.ids.tolist()), rows, strict=True))
    return StudyItems(items, shown, files, subspace), wrong


def _files(folder: Path, seen: dict[str, Column], wrong: list[str]) -> tuple[tuple[Path, ...], dict[str, int]]:
    """Return every file that exists inside the folder, and its number by the name in the table."""
    root = folder.resolve()
    places: dict[str, int] = {}
    files: list[Path] = []
    missing, outside, strange = [], [], []
    for kind in (kind for kind in MEDIA if kind in seen):
        for name in dict.fromkeys(cell for cell in map(_cell, seen[kind]) if cell):
            path = (root / name).resolve()
            if not path.is_relative_to(root):
                outside.append(name)
            elif not path.is_file():
                missing.append(name)
            elif not (mimetypes.guess_type(path.name)[0] or "").startswith(KINDS[kind]):
                strange.append(name)
            elif name not in places:
                places[name] = len(files)
                files.append(path)
    if missing:
        wrong.append(f"{_some(missing)} cannot be found in {folder}; put the files there or correct their names.")
    if outside:
        wrong.append(f"{_some(outside)} lie outside {folder}; copy the files into it.")
    if strange:
        wrong.append(f"{_some(strange)} do not look like the image, audio or video of their column; convert them.")
    return tuple(files), places


def _shown(seen: dict[str, Column], places: dict[str, int], row: int) -> Shown:
    media = {kind: places.get(_cell(seen[kind][row])) for kind in MEDIA if kind in seen}
    return Shown(_cell(seen["text"][row]) if "text" in seen else "", **media)


def _cell(value: Any) -> str:
    """Return a cell as text, nothing if it is empty."""
    if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
        return ""
    return str(value).strip()


def _some(names: list[str]) -> str:
    """Return the first few names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
