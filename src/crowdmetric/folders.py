"""A file or a folder, whole or not at all: it is built beside its place and moved there.

The one place where files are written. The temporary name is random and opened exclusively, so nobody can plant a
link under it; the contents reach the disk before the name does, so a machine that goes down leaves the old file or
the new one; and whatever goes wrong, Ctrl-C included, removes what was begun.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from time import sleep
from typing import Any, BinaryIO

import numpy as np

from crowdmetric.errors import DataError, ModelFileError, printable

__all__ = ["check_not_input", "check_target", "for_json", "new_file", "new_folder", "write_file"]

Place = str | os.PathLike[str]

# How often moving a folder is retried because another process was quicker, and how many seconds that process gets to
# finish.
ATTEMPTS, PATIENCE = 20, 0.05
# What a system says if another process has put a folder where one should go.
OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST)


@contextmanager
def new_file(path: Place) -> Iterator[BinaryIO]:
    """Yield a file open for writing bytes, which becomes `path` on success and vanishes otherwise.

    A device or a pipe (``/dev/stdout``) cannot be replaced, and is written to as it is.
    """
    place = Path(path)
    if not place.absolute().parent.is_dir():
        raise DataError(f"there is no folder {place.parent} to write {place.name} in; create it first")
    if place.is_dir():
        raise DataError(f"{place} is a folder, but a file should be written there; choose another name")
    with _explained(place):
        if place.exists() and not place.is_file():
            with place.open("wb") as file:
                yield file
            return
        with _temporary(place) as file:
            yield file


def for_json(value: Any) -> Any:
    """Return nested values for JSON: NumPy scalars as Python's, tuples as lists, NaN and infinity as None."""
    if isinstance(value, Mapping):
        return {str(key): for_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [for_json(entry) for entry in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not isfinite(value) else value


def write_file(path: Place, content: str | bytes) -> None:
    """Write a whole file, text as UTF-8."""
    with new_file(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def _temporary(place: Path) -> Iterator[BinaryIO]:
    temporary = place.with_name(f".{place.name[:80]}.{secrets.token_hex(8)}.tmp")
    # "x": created here, with the usual permissions, and never through a link that someone else put there
    file = temporary.open("xb")
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _explained(place: Path) -> Iterator[None]:
    """Turn a full, read-only or forbidden disk into a message that says what became of the file."""
    try:
        yield
    except BrokenPipeError:  # the reader of a pipe went away, which is not a disk problem
        raise
    except OSError as error:
        raise DataError(_trouble(place, error)) from error


def _trouble(place: Path, error: OSError) -> str:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    kept = "what was there before is unchanged" if place.exists() else "nothing was left behind"
    remedy = "make room" if full else "choose another place"
    return f"{printable(place)} cannot be written ({error.strerror or error}); {kept}: {remedy}"


def check_not_input(out: Place | None, *inputs: Place | None) -> None:
    """Raise DataError if `out` is one of the files that are read; better before the work than after."""
    if out is None or not Path(out).exists():
        return
    for given in inputs:
        if given is not None and Path(given).exists() and os.path.samefile(out, given):
            raise DataError(f"{out} is read by this command, so it is not overwritten; write to another file")


def check_target(folder: Place, overwrite: bool, is_ours: Callable[[Path], bool]) -> None:
    """Raise ModelFileError if `folder` may not be made or replaced; better before the work than after."""
    folder = Path(folder)
    if not folder.absolute().parent.is_dir():
        raise ModelFileError(f"there is no folder {folder.parent} to write {folder.name} in; create it first")
    try:
        mode = folder.stat().st_mode  # one look: another process may be replacing it
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        raise ModelFileError(f"{folder} is a file, but a folder should be written there; choose another name")
    if folder.resolve() == Path.cwd():
        raise ModelFileError(
            f"{folder} is the folder that you are in, which cannot be replaced; name a new folder inside it"
        )
    if _is_free(folder):
        return
    if not _is_ours_now(folder, is_ours):
        raise ModelFileError(f"{folder} holds other files, which crowdmetric does not replace; choose another name")
    if not overwrite:
        raise ModelFileError(f"{folder} exists; replace it with overwrite=True (--overwrite), or choose another name")


def _is_free(folder: Path) -> bool:
    try:
        return not any(folder.iterdir())
    except FileNotFoundError:  # another process is replacing it
        return True


def _is_ours_now(folder: Path, is_ours: Callable[[Path], bool]) -> bool:
    """Return whether a folder may be replaced; one that another process is just replacing is looked at again."""
    for _ in range(3):
        with suppress(FileNotFoundError):
            if is_ours(folder):
                return True
        sleep(PATIENCE)
    return not folder.exists()


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
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.mkdir()
        yield temporary
        _move(temporary, place)
    except OSError as error:
        raise ModelFileError(_trouble(place, error)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _move(new: Path, place: Path) -> None:
    """Move a folder to its place; an older one steps aside first, and comes back if that fails.

    Where several processes write to one place, each of them replaces whatever it finds, and the last one stays.
    """
    for attempt in range(ATTEMPTS):
        old = place.with_name(f"{new.name}.old")
        try:
            _step_aside(place, old)
            os.replace(new, place)
            return
        except OSError as error:
            if attempt + 1 == ATTEMPTS or error.errno not in OCCUPIED:
                raise
        finally:
            _come_back(old, place)


def _come_back(old: Path, place: Path) -> None:
    """Put back what stepped aside if its place is empty, and remove it if another process has filled the place."""
    if old.exists() and not place.exists():
        try:
            os.replace(old, place)
        except OSError as error:
            if error.errno not in OCCUPIED:
                raise
    shutil.rmtree(old, ignore_errors=True)


def _step_aside(place: Path, old: Path) -> None:
    with suppress(FileNotFoundError):  # there was none, or another process has just moved it
        os.replace(place, old)
