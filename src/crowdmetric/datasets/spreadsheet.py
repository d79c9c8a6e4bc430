"""Excel files -> rows of cells; the one place for xlrd (.xls) and openpyxl (.xlsx)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from crowdmetric.datasets.archive import Member
from crowdmetric.errors import DataError, missing_extra

__all__ = ["sheet_rows"]

OLD, NEW = b"\xd0\xcf\x11\xe0", b"PK\x03\x04"  # how the two formats begin, whatever the file is called


def sheet_rows(member: Member) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows of the first sheet and their numbers, from 1; an empty cell is '' or None."""
    content = member.read()
    read = _new_rows if content.startswith(NEW) else _old_rows
    try:
        yield from enumerate(read(content), start=1)
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # both libraries raise whatever they stumble over
        raise DataError(f"{member} cannot be read as an Excel file ({error}); download it again") from error


def _old_rows(content: bytes) -> Iterator[list[Any]]:
    try:
        import xlrd  # noqa: PLC0415 - optional
    except ImportError:
        raise missing_extra("xlrd", "datasets", "reading an .xls file") from None
    sheet = xlrd.open_workbook(file_contents=content, logfile=io.StringIO()).sheet_by_index(0)
    yield from (sheet.row_values(row) for row in range(sheet.nrows))


def _new_rows(content: bytes) -> Iterator[list[Any]]:
    try:
        import openpyxl  # noqa: PLC0415 - optional
    except ImportError:
        raise missing_extra("openpyxl", "datasets", "reading an .xlsx file") from None
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    yield from (list(row) for row in book.worksheets[0].iter_rows(values_only=True))
