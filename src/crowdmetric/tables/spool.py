"""Coded answers grouped by person, on disk: written once, read a chunk of whole people at a time.

A fit passes over its answers dozens of times. So they are checked and coded once, into a file of plain records that
any pass reads back at the speed of the disk, and a chunk of which is found by its offset::

    answers.bin     person (within its chunk), left, right, response, weight: 28 bytes per answer
    people.bin      the id of every person, in order

Answers that come sorted by person are written straight through. Others are first split by ranges of people (quantiles
of a sample), and each part, which fits in memory, is then sorted: two passes over the disk in bounded memory, however
many answers there are. Polars' streaming sort keeps all rows in memory (measured, version 2.1: 0.4 GB for 5 million
rows, 0.9 GB for 20 million), and grouping needs less than a database. So Arrow reads, and this module groups.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError

__all__ = ["Spool", "SpoolChunk", "Survey", "write_spool"]

Array = NDArray[Any]

RECORD = np.dtype(
    [("person", np.int32), ("left", np.int32), ("right", np.int32), ("response", np.float64), ("weight", np.float64)]
)
# Number of answers per chunk, rounded up to whole people.
CHUNK_ROWS = 1 << 14
# Maximum bytes of a part while it is sorted: the records, their order, and the sorted records.
PART_BYTES = 1 << 26
MOST_PARTS = 500  # files open at once
# Folders are called by this and the number of the process that they belong to.
PREFIX = "crowdmetric-spool-"
# Number of ids sampled from each batch, to find ranges with equally many answers.
SAMPLE = 64


@dataclass(frozen=True)
class Survey:
    """The result of one pass over the column of people.

    Attributes
    ----------
    rows
        How many rows there are.
    is_sorted
        Whether no person comes before an earlier row's.
    id_type
        Of the ids: int64, or bytes (UTF-8) as long as the longest.
    sample
        Some of the ids, sorted.
    """

    rows: int
    is_sorted: bool
    id_type: np.dtype[Any]
    sample: Array

    @staticmethod
    def of(batches: Iterable[Array]) -> Survey:
        """Return the survey of ids that arrive in batches, int64 or UTF-8 bytes."""
        rows, is_sorted, last = 0, True, None
        samples, kinds, width = [], set(), 1
        for ids in batches:
            if not ids.size:
                continue
            rows += ids.size
            kinds.add(ids.dtype.kind)
            if len(kinds) > 1:
                raise DataError(
                    "people are named by whole numbers in some rows and by text in others; convert the column to one"
                )
            width = max(width, ids.dtype.itemsize)
            is_sorted = is_sorted and bool(np.all(ids[1:] >= ids[:-1])) and (last is None or ids[0] >= last)
            last = ids[-1]
            samples.append(ids[:: max(1, ids.size // SAMPLE)])
        id_type = np.dtype(f"S{width}") if kinds == {"S"} else np.dtype(np.int64)
        sample = np.sort(np.concatenate(samples)) if samples else np.empty(0, id_type)
        return Survey(rows, is_sorted, id_type, sample)

    @property
    def bytes_needed(self) -> int:
        """Disk that grouping takes: the answers, and once more with ids if they have to be split."""
        once = self.rows * RECORD.itemsize + self.rows * self.id_type.itemsize
        return once if self.is_sorted else 2 * once


@dataclass(frozen=True)
class SpoolChunk:
    """A chunk of whole people: where its records are, and how many people come before them."""

    folder: str
    first_row: int
    rows: int
    first_person: int
    people: int
    id_type: str

    def load(self) -> Array:
        """Return the records (`RECORD`), sorted by person."""
        return _read(Path(self.folder) / "answers.bin", RECORD, self.first_row, self.rows)

    def ids(self) -> Array:
        """Return who the people are, int64 or str."""
        ids = _read(Path(self.folder) / "people.bin", np.dtype(self.id_type), self.first_person, self.people)
        return np.char.decode(ids, "utf-8") if ids.dtype.kind == "S" else ids


def _read(path: Path, kind: np.dtype[Any], first: int, count: int) -> Array:
    try:
        values = np.fromfile(path, kind, count, offset=first * kind.itemsize)
    except OSError as error:
        raise DataError(f"the grouped answers in {path.parent} are gone ({error.strerror}); scan again") from error
    if values.size != count:
        raise DataError(f"the grouped answers in {path.parent} are damaged; scan again")
    return values


class Spool:
    """Grouped answers in a folder that lives as long as this object.

    Attributes
    ----------
    chunks
        In the order of people, who are sorted by id.
    n_rows, n_people
        How many answers and people there are.
    """

    def __init__(self, folder: tempfile.TemporaryDirectory[str], chunks: tuple[SpoolChunk, ...]) -> None:
        self._folder = folder  # removed with this object, or at the end of the process
        self.chunks = chunks
        self.n_rows = sum(chunk.rows for chunk in chunks)
        self.n_people = sum(chunk.people for chunk in chunks)

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


def write_spool(
    batches: Iterable[tuple[Array, Array]], survey: Survey, scratch: str | os.PathLike[str] | None
) -> Spool:
    """Group answers by person on disk.

    Parameters
    ----------
    batches
        Ids of people (T,) and records (T,) without `person`.
    survey
        The survey of the same ids, perhaps with some that were dropped later.
    scratch
        An existing folder with room for the work; None: the one for temporary files.
    """
    place = Path(tempfile.gettempdir() if scratch is None else scratch)
    _check_room(place, survey.bytes_needed)
    _remove_stale(place)
    folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", dir=place)
    try:
        with _explained(place):
            ordered = batches if survey.is_sorted else _parted(batches, survey, Path(folder.name))
            with _Cutter(Path(folder.name), survey.id_type) as cutter:
                for ids, records in ordered:
                    cutter.add(ids, records)
            return Spool(folder, tuple(cutter.chunks))
    except BaseException:  # also Ctrl-C: nothing half-written stays behind
        folder.cleanup()
        raise


def _remove_stale(place: Path) -> None:
    """Remove folders that killed processes left behind: ours, named after a process that no longer exists."""
    for folder in place.glob(f"{PREFIX}*-*"):
        process = folder.name.removeprefix(PREFIX).partition("-")[0]
        try:
            is_ours = folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.getuid()
        except (OSError, AttributeError):  # already removed, or a system without users
            continue
        if is_ours and process.isdigit() and not _is_alive(int(process)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's process, or not a process number
        return True
    return True


def _check_room(place: Path, needed: int) -> None:
    if not place.is_dir():
        raise DataError(f"there is no folder {place} to group answers in; create it, or name another as scratch=")
    free = shutil.disk_usage(place).free
    if needed > free:
        raise DataError(
            f"grouping these answers by person takes {needed / 1e9:.2g} GB of disk, but {place} has {free / 1e9:.2g} "
            "GB free; make room, or name a folder on another disk as scratch="
        )


@contextmanager
def _explained(place: Path) -> Iterator[None]:
    """Turn a full disk into a message."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DataError(
            f"the disk of {place} is full, and nothing was kept; make room, or name a folder on another disk as "
            "scratch="
        ) from error


def _parted(batches: Iterable[tuple[Array, Array]], survey: Survey, folder: Path) -> Iterator[tuple[Array, Array]]:
    """Yield ids and records, sorted by person, after a pass through files of ranges of people."""
    kind = np.dtype([("user", survey.id_type), *RECORD.descr])
    n_parts = min(MOST_PARTS, 1 + 3 * survey.rows * kind.itemsize // PART_BYTES)
    bounds = survey.sample[np.linspace(0, survey.sample.size, n_parts + 1)[1:-1].astype(np.intp)]
    paths = [folder / f"part-{number}.bin" for number in range(n_parts)]
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for ids, records in batches:
            part = np.searchsorted(bounds, ids, side="right")
            order = np.argsort(part, kind="stable")
            rows = np.empty(ids.size, kind)
            rows["user"] = ids[order]
            for name in RECORD.names or ():
                rows[name] = records[name][order]
            ends = np.searchsorted(part[order], np.arange(n_parts), side="right")
            for file, begin, end in zip(files, [0, *ends[:-1]], ends, strict=True):
                _write(file, rows[begin:end])
    for path in paths:
        rows = np.fromfile(path, kind)
        path.unlink()
        rows = rows[np.argsort(rows["user"], kind="stable")]  # a person's answers stay in the order of the file
        yield rows["user"], rows


def _write(file: BinaryIO, values: Array) -> None:
    """Write an array; unlike `ndarray.tofile` this keeps the number of the error when the disk is full."""
    if values.size:
        file.write(np.ascontiguousarray(values).data)


class _Cutter:
    """Write answers that come sorted by person, and cut them into chunks of whole people."""

    def __init__(self, folder: Path, id_type: np.dtype[Any]) -> None:
        self._folder, self._id_type = folder, id_type
        self._ids: list[Array] = []
        self._records: list[Array] = []
        self._waiting = self._rows = self._people = 0
        self.chunks: list[SpoolChunk] = []

    def __enter__(self) -> _Cutter:
        self._answers = (self._folder / "answers.bin").open("wb")
        self._names = (self._folder / "people.bin").open("wb")
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        try:
            if kind is None:
                self._cut(last=True)
        finally:
            self._answers.close()
            self._names.close()

    def add(self, ids: Array, records: Array) -> None:
        if not ids.size:
            return
        self._ids.append(ids.astype(self._id_type, copy=False))
        kept = np.empty(ids.size, RECORD)
        for name in RECORD.names or ():
            kept[name] = records[name]
        self._records.append(kept)
        self._waiting += ids.size
        if self._waiting > CHUNK_ROWS:
            self._cut(last=False)

    def _cut(self, last: bool) -> None:
        """Write all chunks whose last person is known to be complete."""
        if not self._ids:
            return
        ids, records = np.concatenate(self._ids), np.concatenate(self._records)
        starts = np.append(np.flatnonzero(ids[1:] != ids[:-1]) + 1, [ids.size] if last else [])
        begin = 0
        while starts.size:
            here = min(int(np.searchsorted(starts, begin + CHUNK_ROWS)), starts.size - 1)
            end = int(starts[here])
            if end <= begin or (not last and end < begin + CHUNK_ROWS):
                break
            self._write(ids[begin:end], records[begin:end])
            begin = end
        self._ids, self._records, self._waiting = [ids[begin:]], [records[begin:]], ids.size - begin

    def _write(self, ids: Array, records: Array) -> None:
        new = np.append(True, ids[1:] != ids[:-1])
        records["person"] = np.cumsum(new) - 1
        people = int(new.sum())
        _write(self._answers, records)
        _write(self._names, ids[new])
        self.chunks.append(SpoolChunk(str(self._folder), self._rows, ids.size, self._people, people, self._id_type.str))
        self._rows += ids.size
        self._people += people
