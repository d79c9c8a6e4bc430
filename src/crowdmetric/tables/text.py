"""Text tables as people have them: their encoding, their separator, their cells; CSV, TSV and JSON lines.

The encoding is given by a byte-order mark, else it is UTF-8, else (with a warning) Western European. The separator is
the comma, semicolon, tab or bar that splits the first two lines alike. Where it is the semicolon, 1,5 is a number: that
is how spreadsheets write it in countries with a decimal comma.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from crowdmetric.errors import DataError, TableWarning
from crowdmetric.tables.columns import Column, objects, typed
from crowdmetric.tables.stored import Stored

__all__ = ["TextFormat", "csv_columns", "csv_pieces", "explained", "read_json_lines", "text_format", "typed_cells"]

INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,99})")  # 007 is a code, not the number 7: it stays text
NUMBER = re.compile(
    r"[+-]?(?:(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE
)
DECIMAL_COMMA = re.compile(r"[+-]?(?:0|[1-9][0-9]*),[0-9]+(?:e[+-]?[0-9]+)?", re.IGNORECASE)
SEPARATORS = (",", ";", "\t", "|")
# UTF-32's mark begins with UTF-16's, so it is looked for first.
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
BLOCK = 1 << 20
# Bytes that never occur in text: a file with one of them is not a text table.
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
# Number of bytes from which encoding and separator are found.
SAMPLE = 1 << 16


@dataclass(frozen=True)
class TextFormat:
    """How a text table is written: its encoding and its separator."""

    encoding: str
    separator: str

    @property
    def decimal_comma(self) -> bool:
        """Whether 1,5 may be a number."""
        return self.separator == ";"


def text_format(source: Stored) -> TextFormat:
    """Return how a table is written, and warn where its encoding had to be guessed (once per file)."""
    if source.path is None:
        return _text_format(source, 0, 0)
    status = source.path.stat()
    return _text_format(source, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _text_format(source: Stored, size: int, changed: int) -> TextFormat:
    with explained(source):
        encoding = _encoding(source)
        with io.TextIOWrapper(source.open(), encoding=encoding, newline="") as file:
            sample = file.read(SAMPLE)
    return TextFormat(encoding, _separator(sample, source.suffix))


def _encoding(source: Stored) -> str:
    with source.open() as file:
        start = file.read(256)
        for mark, name in MARKS:
            if start.startswith(mark):
                return name
        if start.count(0) > len(start) // 3:  # UTF-16 without a mark: every other byte of Western text is 0
            return "utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"
        file.seek(0)
        return _eight_bits(source, file)


def _eight_bits(source: Stored, file: Any) -> str:
    """Return UTF-8 where all bytes are, else what Western European programs write."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    wrong, windows = None, False
    while block := file.read(BLOCK):
        found = CONTROL.search(block)
        if found:
            raise DataError(
                f"{source} is not text (it has the byte 0x{block[found.start()]:02x}); export it as CSV, or correct "
                "its suffix"
            )
        if wrong is None:
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                wrong = error.object[error.start]
        # Latin-1 has only control characters there, Windows curly quotes and the like
        windows = windows or (wrong is not None and re.search(rb"[\x80-\x9f]", block) is not None)
    if wrong is None:
        return "utf-8"
    name = "cp1252" if windows else "latin-1"
    warnings.warn(
        f"{source} is not UTF-8 text (byte 0x{wrong:02x}) and is read as Western European ({name}); save it as UTF-8 "
        "if names look wrong",
        TableWarning,
        stacklevel=2,
    )
    return name


def _separator(sample: str, suffix: str) -> str:
    """Return what separates cells: what splits the header most, if it splits the next line alike."""
    lines = [line for line in sample.splitlines()[:50] if line.strip()]
    preferred = sorted(SEPARATORS, key=lambda mark: mark != ("\t" if ".tsv" in suffix else ","))
    if not lines:
        return preferred[0]
    cells = {mark: len(_split(lines[0], mark)) for mark in preferred}
    by_count = sorted(preferred, key=lambda mark: -cells[mark])  # stable: the preferred separator wins among equals
    for mark in by_count:
        if cells[mark] > 1 and (len(lines) == 1 or len(_split(lines[1], mark)) == cells[mark]):
            return mark
    return by_count[0]


def _split(line: str, mark: str) -> list[str]:
    return next(csv.reader([line], delimiter=mark), [])


@contextmanager
def explained(source: Stored) -> Iterator[None]:
    """Turn any error of a damaged text table into a message."""
    try:
        yield
    except UnicodeError as error:
        raise DataError(f"{source} starts as text but does not go on as such ({error}); save it as UTF-8") from error
    except (csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{source} cannot be read as CSV ({error}); write or download it again") from error


# ------------------------------------------------------------------------------------------------------- CSV


def csv_pieces(source: Stored, size: int = 1 << 16) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield the header and, in pieces of at most `size`, the rows of a text table; at least one piece."""
    how = text_format(source)
    with explained(source), io.TextIOWrapper(source.open(), encoding=how.encoding, newline="") as file:
        reader = csv.reader(file, strict=True, delimiter=how.separator)
        header = _csv_header(reader, source)
        rows = _csv_rows(reader, header, source)
        piece = list(islice(rows, size))
        yield header, piece
        while len(piece) == size:
            piece = list(islice(rows, size))
            yield header, piece


def _csv_header(reader: Any, source: Stored) -> list[str]:
    header = [name.strip() for name in next(reader, [])]
    if not header:
        raise DataError(f"{source} has no header in its first line; column names were expected there")
    if "" in header:
        raise DataError(
            f"column {header.index('') + 1} of {source} has no name; name it or remove it "
            "(from pandas: to_csv(..., index=False))"
        )
    return header


def _csv_rows(reader: Any, header: Sequence[str], source: Stored) -> Iterator[list[str]]:
    """Yield the rows, blank lines skipped, every row as long as the header."""
    for row in reader:
        if len(row) == len(header):
            yield row
        elif row:
            raise DataError(
                f"line {reader.line_num} of {source} has {len(row)} cells, but the header has {len(header)}; "
                "correct that line"
            )


def csv_columns(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, decimal_comma: bool = False
) -> list[tuple[str, Column]]:
    """Return the typed columns of some rows of cells."""
    cells: Iterable[Sequence[str]] = zip(*rows, strict=True) if rows else [()] * len(header)
    return [(name, _csv_column(column, decimal_comma)) for name, column in zip(header, cells, strict=True)]


def _csv_column(cells: Sequence[str], decimal_comma: bool) -> Column:
    """Return typed values; each distinct cell is parsed once, since ids and answers repeat."""
    place = {cell: number for number, cell in enumerate(dict.fromkeys(cells))}
    kept = typed_cells(list(place), decimal_comma=decimal_comma)
    return kept[np.fromiter(map(place.__getitem__, cells), np.intp, len(cells))]


def typed_cells(cells: Sequence[str], *, decimal_comma: bool = False) -> Column:
    """Return distinct cells as whole numbers, else as numbers, else as the text they are; None or NaN for an empty one.

    One cell that is no number makes the whole column text.
    """
    values = [_csv_value(cell) for cell in cells]
    if decimal_comma and any(isinstance(value, str) for value in values):
        values = _with_decimal_commas(values)
    if any(isinstance(value, str) for value in values):
        values = [None if value is None else cell for cell, value in zip(cells, values, strict=True)]
    return typed(objects(values))


def _csv_value(cell: str) -> int | float | str | None:
    number = cell.strip()
    if not number:
        return None
    if INTEGER.fullmatch(number):
        return int(number)
    return float(number) if NUMBER.fullmatch(number) else cell


def _with_decimal_commas(values: list[Any]) -> list[Any]:
    """Return 1,5 as 1.5 if that makes all values numbers, none of which was written with a point."""
    if any(isinstance(value, float) for value in values):
        return values
    text = [value for value in values if isinstance(value, str)]
    if not all(DECIMAL_COMMA.fullmatch(value.strip()) for value in text):
        return values
    return [float(value.strip().replace(",", ".")) if isinstance(value, str) else value for value in values]


# ------------------------------------------------------------------------------------------------ JSON lines


def read_json_lines(source: Stored) -> list[tuple[str, Column]]:
    """Return the columns of a file with one JSON object per line; a key that a line lacks is missing there."""
    how = TextFormat(_encoding(source), ",")
    rows: list[dict[str, Any]] = []
    with explained(source), io.TextIOWrapper(source.open(), encoding=how.encoding) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                rows.append(_json_row(line, number, source))
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        raise DataError(f"{source} has no rows; one JSON object per line was expected")
    return [(name, typed(objects(row.get(name) for row in rows))) for name in names]


def _json_row(line: str, number: int, source: Stored) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or any(isinstance(value, dict | list) for value in row.values()):
        raise DataError(
            f'line {number} of {source} is not one JSON object of plain values, such as {{"user": 7, "left": 1, '
            '"right": 2, "choice": "left"}; correct that line'
        )
    return row
