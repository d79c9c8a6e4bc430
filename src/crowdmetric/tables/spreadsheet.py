"""Excel files -> rows of cells, or columns; the one place for xlrd (.xls) and openpyxl (.xlsx)."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from crowdmetric.errors import DataError, missing_extra
from crowdmetric.tables.columns import Column, objects, typed
from crowdmetric.tables.stored import Stored, check_zip

__all__ = ["read_sheet", "sheet_rows"]

NEW = b"PK\x03\x04"  # first bytes of the newer format; the file's name does not matter


def read_sheet(source: Stored) -> list[tuple[str, Column]]:
    """Return the columns of the first sheet; its first row names them, and empty rows are left out."""
    with source.open() as file:
        content = file.read()
    rows = [row for _, row in sheet_rows(content, source.name) if any(cell not in (None, "") for cell in row)]
    if not rows:
        raise DataError(f"the first sheet of {source} is empty; a row of column names was expected there")
    header = _header(rows[0], source)
    width = len(header)
    for number, row in enumerate(rows[1:], start=2):
        if any(cell not in (None, "") for cell in row[width:]):
            raise DataError(f"row {number} of {source} has more cells than the header; name every column")
    cells = [[*row[:width], *[None] * (width - len(row))] for row in rows[1:]]
    return [(name, typed(objects(row[place] for row in cells))) for place, name in enumerate(header)]


def _header(row: list[Any], source: Stored) -> list[str]:
    names = ["" if cell is None else str(cell).strip() for cell in row]
    while names and not names[-1]:
        names.pop()
    if "" in names:
        raise DataError(f"column {names.index('') + 1} of {source} has no name; name it or remove it")
    return names


def sheet_rows(content: bytes, name: str) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows of the first sheet and their numbers, from 1; an empty cell is '' or None."""
    read = _new_rows if content.startswith(NEW) else _old_rows
    try:
        yield from enumerate(read(content, name), start=1)
    except (MemoryError, ImportError, DataError):
        raise
    except Exception as error:  # both libraries raise many kinds of exceptions
        raise DataError(f"{name} cannot be read as an Excel file ({error}); save or download it again") from error


def _old_rows(content: bytes, name: str) -> Iterator[list[Any]]:
    try:
        import xlrd  # noqa: PLC0415 - optional
    except ImportError:
        raise missing_extra("xlrd", "datasets", "reading an .xls file") from None
    sheet = xlrd.open_workbook(file_contents=content, logfile=io.StringIO()).sheet_by_index(0)
    yield from (sheet.row_values(row) for row in range(sheet.nrows))


def _new_rows(content: bytes, name: str) -> Iterator[list[Any]]:
    try:
        import openpyxl  # noqa: PLC0415 - optional
    except ImportError:
        raise missing_extra("openpyxl", "tables", "reading an .xlsx file") from None
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        check_zip(archive, name)
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    if not book.worksheets:
        raise DataError(f"{name} has no sheet of cells; save the table in one")
    yield from (list(row) for row in book.worksheets[0].iter_rows(values_only=True))
