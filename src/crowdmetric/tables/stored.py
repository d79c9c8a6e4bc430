"""A table as bytes: a file, or what came through a pipe."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from crowdmetric.errors import DataError

__all__ = ["Stored", "check_zip", "existing_file", "stored"]

GZIPPED = b"\x1f\x8b"
# First bytes of the formats, for tables whose name does not say.
BEGINNINGS = {b"PAR1": ".parquet", b"PK\x03\x04": ".xlsx", b"\x93NUMPY": ".npy", b"{": ".jsonl"}
# A zip file that unpacks to more than this, or by more than this factor, is an attack or a mistake, not a table.
MOST_UNPACKED, MOST_SHRUNK = 16 << 30, 500


@dataclass(frozen=True)
class Stored:
    """Bytes with a name.

    Attributes
    ----------
    name : str
        What messages call it.
    suffix : str
        What tells its format, in lower case: all of ``.csv.gz``.
    path : Path or None
    content : bytes
        What it holds where there is no path.
    """

    name: str
    suffix: str
    path: Path | None = None
    content: bytes = field(default=b"", repr=False)

    @classmethod
    def of_bytes(cls, name: str, content: bytes) -> Stored:
        """Return bytes that came without a file name; how they begin tells their format, else they are CSV."""
        if not content:
            raise DataError(f"{name} is empty; a table with a header was expected")
        start = content.lstrip()[:8]
        known = (suffix for beginning, suffix in BEGINNINGS.items() if start.startswith(beginning))
        return cls(name, next(known, ".csv"), None, content)

    def open(self) -> BinaryIO:
        """Return it open for reading bytes, unpacked if it was packed by gzip."""
        file: BinaryIO = io.BytesIO(self.content) if self.path is None else self.path.open("rb")
        packed = file.read(2) == GZIPPED
        file.seek(0)
        return cast("BinaryIO", gzip.GzipFile(fileobj=file)) if packed else file

    def __str__(self) -> str:
        return self.name


def existing_file(source: str | os.PathLike[str]) -> Path:
    """Return the path of a file that is there and not empty."""
    try:
        path = Path(source)
        if path.is_dir():
            raise DataError(f"{path} is a folder; name one file in it")
        if not path.exists():
            raise DataError(f"there is no file {path}; check the name and the folder")
        if path.is_file() and path.stat().st_size == 0:
            raise DataError(f"{path} is empty; a table with a header was expected")
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{str(source)[:200]!r} cannot be a file ({error}); check the name") from None
    return path


def stored(source: str | os.PathLike[str] | Stored) -> Stored:
    """Return a file that is there and not empty, as bytes with a name."""
    if isinstance(source, Stored):
        return source
    path = existing_file(source)
    name = path.name.lower()
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = Path(name.removesuffix(".gz")).suffix + suffix
    return Stored(str(path), suffix, path)


def check_zip(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse a zip file that is encrypted, or that declares far more than it can honestly hold.

    The size declared is also the most that is read: Python's zipfile stops there.
    """
    for entry in archive.infolist():
        if entry.flag_bits & 0x1:
            raise DataError(f"{entry.filename} in {name} is encrypted; unpack it with its password first")
        shrunk = entry.file_size / max(entry.compress_size, 1)
        if entry.file_size > MOST_UNPACKED or (shrunk > MOST_SHRUNK and entry.file_size > 1 << 26):
            raise DataError(
                f"{entry.filename} in {name} would unpack to {entry.file_size / 1e9:.3g} GB, {shrunk:,.0f} times its "
                "size; such files are not read: unpack it yourself if you trust it, and name the folder"
            )
