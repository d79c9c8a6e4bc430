"""A folder, or a zip file as it was downloaded: its files by name, and their lines with numbers."""

from __future__ import annotations

import fnmatch
import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TypeVar

from crowdmetric.errors import DataError
from crowdmetric.tables.stored import check_zip

__all__ = ["Archive", "Member", "parsed"]

Row = TypeVar("Row")
# Number of lines parsed at once. Only arrays are kept, not cells.
CHUNK = 1 << 16


class Archive:
    """The files of a folder or of a zip file, found by name wherever they lie in it.

    Parameters
    ----------
    path : path
    kind : str
        What is looked for, for messages: 'the Sushi data'.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        self.path, self.kind = Path(path), kind
        self._zip: zipfile.ZipFile | None = None
        if self.path.is_dir():
            files = (file for file in sorted(self.path.rglob("*")) if file.is_file())
            self._names = [file.relative_to(self.path).as_posix() for file in files]
        elif not self.path.exists():
            raise DataError(f"there is no folder or file {self.path}; name the folder that {kind} were unpacked into")
        elif zipfile.is_zipfile(self.path):
            self._zip = self._opened()
            check_zip(self._zip, str(self.path))
            self._names = sorted(name for name in self._zip.namelist() if not name.endswith("/"))
        else:
            raise DataError(f"{self.path} is neither a folder nor a zip file; name what {kind} came in")
        # macOS adds a shadow file for each file
        self._names = [name for name in self._names if not name.startswith("__MACOSX/")]

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, OSError) as error:
            raise DataError(f"{self.path} is a damaged zip file ({error}); download it again") from error

    def matching(self, pattern: str) -> list[Member]:
        """Return the files whose name (without folders, in any case) matches, such as ``jester-data-*.xls``."""
        return [Member(self, name) for name in self._names if _matches(name, pattern)]

    def find(self, pattern: str) -> Member | None:
        """Return the file of this name, the one nearest to the top; None if there is none."""
        found = sorted(self.matching(pattern), key=lambda member: member.name.count("/"))
        return found[0] if found else None

    def need(self, *patterns: str, purpose: str = "") -> Member:
        """Return the first of these files that is there; a sentence says what is there instead."""
        for pattern in patterns:
            found = self.find(pattern)
            if found is not None:
                return found
        wanted = " or ".join(patterns)
        raise DataError(
            f"{self.path} does not hold {self.kind}: {wanted} was expected{purpose}, but there is {self.contents()}; "
            "name the folder or zip file as it was distributed"
        )

    def contents(self) -> str:
        """Return the first few names, for messages."""
        if not self._names:
            return "nothing"
        more = f" and {len(self._names) - 5} more" if len(self._names) > 5 else ""
        return ", ".join(self._names[:5]) + more

    def open(self, name: str) -> IO[bytes]:
        """Return a file, open for reading bytes."""
        if self._zip is None:
            return (self.path / name).open("rb")
        return self._zip.open(name)


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name.rpartition("/")[2].lower(), pattern.lower())


class Member:
    """One file of an archive."""

    def __init__(self, archive: Archive, name: str) -> None:
        self.archive, self.name = archive, name

    def __str__(self) -> str:
        return str(self.archive.path / self.name)

    def read(self) -> bytes:
        """Return everything in it."""
        with self._explained(), self.archive.open(self.name) as file:
            return file.read()

    def text(self, encoding: str = "utf-8") -> str:
        """Return everything in it as text."""
        return "".join(f"{line}\n" for _, line in self.lines(encoding))

    def lines(self, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
        """Yield the lines and their numbers, from 1; blank ones are left out, and so is a byte-order mark."""
        encoding = "utf-8-sig" if encoding == "utf-8" else encoding
        with self._explained(), io.TextIOWrapper(self.archive.open(self.name), encoding=encoding) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            raise DataError(f"{self} is not {error.encoding} text; unpack or download it again") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise DataError(f"{self} is damaged ({error}); download it again") from error


def parsed(
    member: Member,
    parse: Callable[[str], Row],
    expected: str,
    *,
    lines: Iterable[tuple[int, str]] | None = None,
    encoding: str = "utf-8",
) -> Iterator[list[Row]]:
    """Yield what the lines of a file say, some at a time; a line that cannot be parsed becomes a sentence.

    Parameters
    ----------
    member : Member
    parse : function of a line
        Raises ValueError or IndexError where a line is not as it should be.
    expected : str
        What a line should be, for the message.
    lines : iterable, optional
        Numbered lines, where some were read before.
    encoding : str
    """
    rest = iter(member.lines(encoding) if lines is None else lines)
    while chunk := list(islice(rest, CHUNK)):
        yield [_parse(member, number, line, parse, expected) for number, line in chunk]


def _parse(member: Member, number: int, line: str, parse: Callable[[str], Row], expected: str) -> Row:
    try:
        return parse(line)
    except (ValueError, IndexError, KeyError, OverflowError):
        shown = line if len(line) <= 60 else f"{line[:57]}..."
        raise DataError(
            f"line {number} of {member} is {shown!r}; {expected} was expected; download the file again, or remove it"
        ) from None
