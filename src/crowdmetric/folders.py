"""A folder, whole or not at all: it is built beside its place and moved there."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crowdmetric.errors import ModelFileError

__all__ = ["check_target", "new_folder"]

Place = str | os.PathLike[str]


def check_target(folder: Place, overwrite: bool, is_ours: Callable[[Path], bool]) -> None:
    """Raise ModelFileError if `folder` may not be made or replaced; better before the work than after."""
    folder = Path(folder)
    if not folder.absolute().parent.is_dir():
        raise ModelFileError(f"there is no folder {folder.parent} to write {folder.name} in; create it first")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ModelFileError(f"{folder} is a file, and a folder is to be written there; choose another name")
    if not any(folder.iterdir()):
        return
    if not is_ours(folder):
        raise ModelFileError(f"{folder} holds other files, which crowdmetric does not replace; choose another name")
    if not overwrite:
        raise ModelFileError(f"{folder} exists; replace it with overwrite=True (--overwrite), or choose another name")


@contextmanager
def new_folder(folder: Place, overwrite: bool, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` on success and vanishes otherwise, also on Ctrl-C.

    Parameters
    ----------
    folder : path
    overwrite : bool
        Whether an older folder may be replaced.
    is_ours : function of a Path
        Whether a folder that is not empty is one that may be replaced at all.
    """
    check_target(folder, overwrite, is_ours)
    place = Path(folder).resolve()
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir()
        yield temporary
        _move(temporary, place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _move(new: Path, place: Path) -> None:
    """Move a folder to its place; an older one steps aside first, and comes back if that fails."""
    old = place.with_name(f"{new.name}.old")
    try:
        if place.exists():
            os.replace(place, old)
        os.replace(new, place)
    except BaseException:
        if old.exists() and not place.exists():
            os.replace(old, place)
        raise
    shutil.rmtree(old, ignore_errors=True)
