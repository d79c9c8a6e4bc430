"""A file or a folder, whole or not at all: it is built beside its place and moved there.

The one place where files are written. The temporary name is random and opened exclusively, so nobody can plant a
link under it; the contents reach the disk before the name does, so a machine that goes down leaves the old file or
the new one; and whatever goes wrong, Ctrl-C included, removes what was begun. A process that is killed cannot: what it
leaves is not locked any more, and the next write to the same folder removes it.
"""

from __future__ import annotations

import errno
import os
import re
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

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["check_not_input", "check_target", "for_json", "new_file", "new_folder", "remove_leftovers", "write_file"]

Place = str | os.PathLike[str]

# How often moving a folder is retried because another process was quicker, and how many seconds that process gets to
# finish.
ATTEMPTS, PATIENCE = 20, 0.05
# What a system says if another process has put a folder where one should go.
OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST)
# The names of what is being written, and of older folders that have stepped aside for a moment.
LEFTOVER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp(?P<old>\.old)?")


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
    remove_leftovers(place.absolute().parent)
    while True:
        temporary = place.with_name(f".{place.name[:80]}.{secrets.token_hex(8)}.tmp")
        # "x": created here, with the usual permissions, and never through a link that someone else put there
        file = temporary.open("xb")
        if _is_mine(file.fileno(), temporary):
            break
        file.close()
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

    What a process that was killed has left beside it is removed first (`remove_leftovers`).

    Parameters
    ----------
    folder : path
    overwrite : bool
        Whether an older folder may be replaced. If not, and another process has made the folder in the meantime, that
        one stays, and this is an error: moving a folder to a name that is taken fails as a whole.
    is_ours : function of a Path
        Whether a folder that is not empty is one that may be replaced at all.
    """
    check_target(folder, overwrite, is_ours)
    place = Path(folder).resolve()
    temporary, held = None, None
    try:
        remove_leftovers(place.parent)
        temporary, held = _new_temporary(place)
        yield temporary
        if overwrite:
            _replace(temporary, place, is_ours)
        else:
            _take(temporary, place)
    except OSError as error:
        raise ModelFileError(_trouble(place, error)) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        _let_go(held)


def _new_temporary(place: Path) -> tuple[Path, int | None]:
    """Return a new hidden folder beside a place, and what keeps it locked; None on systems without such locks."""
    while True:
        temporary = place.with_name(f".{place.name}.{secrets.token_hex(8)}.tmp")
        temporary.mkdir()
        if fcntl is None:
            return temporary, None
        held = os.open(temporary, os.O_RDONLY)
        if _is_mine(held, temporary):
            return temporary, held
        os.close(held)


def _take(new: Path, place: Path) -> None:
    """Move a folder to a place where there is none, or an empty one."""
    try:
        if os.name == "nt" and place.is_dir():  # elsewhere an empty folder is replaced
            place.rmdir()
        os.rename(new, place)
    except OSError as error:
        if error.errno not in OCCUPIED and not (os.name == "nt" and place.exists()):
            raise
        raise ModelFileError(
            f"{place} was made by another process in the meantime; choose another name, or replace it with "
            "overwrite=True (--overwrite)"
        ) from error


def _replace(new: Path, place: Path, is_ours: Callable[[Path], bool]) -> None:
    """Move a folder to its place; an older one steps aside first, and comes back if that fails.

    Where several processes replace one place, each of them replaces whatever it finds, and the last one stays.
    """
    for attempt in range(ATTEMPTS):
        old, held = place.with_name(f"{new.name}.old"), _hold(place)
        try:
            _step_aside(place, old)
            if old.exists() and not _is_free(old) and not is_ours(old):  # it was not when this began
                raise ModelFileError(f"{place} holds other files by now, which stay; choose another name")
            os.replace(new, place)
            return
        except OSError as error:
            if attempt + 1 == ATTEMPTS or error.errno not in OCCUPIED:
                raise
        finally:
            _come_back(old, place)
            _let_go(held)


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


# ---------------------------------------------------------------------------------------------- leftovers


def _is_mine(opened: int, path: Path) -> bool:
    """Lock what was just made, and return whether it is still there: another process may take it for a leftover."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, where nobody removes anything
        return True
    return path.exists()


def _hold(path: Path) -> int | None:
    """Lock a file or a folder for as long as this process lives, or until `_let_go`; None if that is not possible.

    The lock belongs to what is there and not to its name, so it survives moves. A system ends the lock of a process
    that is killed, and no clock or process number is needed to tell what is in use from what was left behind.
    """
    if fcntl is None:
        return None
    try:
        held = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _let_go(held: int | None) -> None:
    if held is not None:
        os.close(held)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files and folders that processes which were killed have left in a folder.

    An older folder that had stepped aside comes back if its place is empty. What another process is writing is locked,
    and stays; so does everything on a system without such locks.
    """
    try:
        left = [path for path in folder.iterdir() if LEFTOVER.fullmatch(path.name)]
    except OSError:  # a folder that may be written to and not read
        return
    for path in left:
        _remove_leftover(path)


def _remove_leftover(path: Path) -> None:
    found, held = LEFTOVER.fullmatch(path.name), _hold(path)
    if found is None or held is None:
        return
    place = path.with_name(found["name"])
    with suppress(OSError):  # it is somebody else's, or gone
        if found["old"] and not place.exists():
            os.replace(path, place)
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    _let_go(held)
