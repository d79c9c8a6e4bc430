"""CSV and Parquet files, pandas, Polars and Arrow tables <-> columns.

The only module that knows pyarrow, Polars or pandas; each is imported when it is asked for.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import secrets
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import chain, islice
from math import isnan
from pathlib import Path
from typing import Any, TextIO, TypeVar

import numpy as np

from crowdmetric.errors import DataError, missing_extra
from crowdmetric.tables.columns import Column, Columns, as_column, objects, typed

__all__ = ["read_columns", "to_arrow", "to_pandas", "to_polars", "write_batches", "write_columns", "write_csv"]

Handler = TypeVar("Handler")

INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,99})")  # 007 is a code, not the number 7: it stays text
NUMBER = re.compile(
    r"[+-]?(?:(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE
)


def read_columns(source: Any) -> Columns:
    """Return the columns of `source`, all of one length.

    Parameters
    ----------
    source : path, data frame or mapping
        A ``.csv``, ``.csv.gz``, ``.parquet`` or ``.pq`` file; a pandas, Polars or Arrow table; or a mapping
        of names to one-dimensional array-likes. In CSV (UTF-8, comma separated, with a header) a column is
        whole numbers, else numbers, else text; only Parquet can hold text that looks like numbers.
    """
    if isinstance(source, str | os.PathLike):
        path = existing_file(source)
        return named_columns(format_of(path, READERS)(path), str(path))
    names = _frame_names(source)
    return named_columns([(name, source[name]) for name in names], "the table")


def is_frame(source: Any) -> bool:
    """Return whether `source` has named columns."""
    # Asking a lazy frame for its columns would compute them; it is known by .collect() instead.
    return isinstance(source, Mapping) or any(map(partial(hasattr, source), ("collect", "column_names", "columns")))


def _frame_names(frame: Any) -> list[Any]:
    if not is_frame(frame):
        raise DataError(
            f"a table cannot be read from {type(frame).__name__}; give a path, a pandas, Polars or Arrow "
            "table, or a mapping of column names to arrays"
        )
    if hasattr(frame, "collect"):
        raise DataError(f"a {type(frame).__name__} holds no rows yet; call .collect() on it first")
    if isinstance(frame, Mapping):
        return list(frame)
    # An Arrow table keeps its names in column_names: its .columns are the data.
    names = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
    _reject_repeated(names, "the table")  # before asking for a column by an ambiguous name
    return names


def named_columns(pairs: Sequence[tuple[Any, Any]], origin: str) -> Columns:
    """Return normalised columns, checked to have distinct names, one dimension and one length."""
    _reject_repeated([name for name, _ in pairs], origin)
    columns = {str(name): as_column(values, str(name)) for name, values in pairs}
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name!r} {len(column)}" for name, column in columns.items())
        raise DataError(f"the columns of a table must be equally long, but their lengths are {lengths}")
    return columns


def _reject_repeated(names: Iterable[Any], origin: str) -> None:
    repeated = [name for name, count in Counter(map(str, names)).items() if count > 1]
    if repeated:
        raise DataError(f"{origin} has more than one column {repeated[0]!r}; rename or remove the others")


def existing_file(source: str | os.PathLike[str]) -> Path:
    """Return the path of a file that is there and not empty."""
    path = Path(source)
    if path.is_dir():
        raise DataError(f"{path} is a folder; name one file in it")
    if not path.exists():
        raise DataError(f"there is no file {path}; check the name and the folder")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; a table with a header was expected")
    return path


def format_of(path: Path, known: Mapping[str, Handler]) -> Handler:
    """Return the entry of `known` whose suffix `path` ends with."""
    for suffix, handler in known.items():
        if path.name.lower().endswith(suffix):
            return handler
    raise DataError(
        f"{path} has suffix {path.suffix or '(none)'!r}, which is not one of {', '.join(known)}; "
        "convert the file or correct its name"
    )


def _read_csv(path: Path) -> list[tuple[str, Column]]:
    pieces = list(csv_pieces(path))
    return csv_columns(pieces[0][0], [row for _, rows in pieces for row in rows])


def csv_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[tuple[str, Column]]:
    """Return the typed columns of some rows of cells."""
    cells: Iterable[Sequence[str]] = zip(*rows, strict=True) if rows else [()] * len(header)
    return [(name, _csv_column(column)) for name, column in zip(header, cells, strict=True)]


def csv_pieces(path: Path, size: int = 1 << 16) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield the header and, in pieces of at most `size`, the rows of a CSV file; at least one piece."""
    try:
        with _open_csv(path, "rt") as file:
            reader = csv.reader(file, strict=True)
            header = _csv_header(reader, path)
            rows = _csv_rows(reader, header, path)
            piece = list(islice(rows, size))
            yield header, piece
            while len(piece) == size:
                piece = list(islice(rows, size))
                yield header, piece
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text (byte 0x{error.object[error.start]:02x}); save it as UTF-8"
        ) from error
    except (csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} cannot be read as CSV ({error}); write or download it again") from error


def _open_csv(path: Path, mode: str, gzipped: bool | None = None) -> Any:
    gzipped = path.name.lower().endswith(".gz") if gzipped is None else gzipped
    # Spreadsheets begin UTF-8 files with a byte-order mark; utf-8-sig skips it.
    encoding = "utf-8-sig" if mode == "rt" else "utf-8"
    return (gzip.open if gzipped else open)(path, mode, encoding=encoding, newline="")


def _csv_header(reader: Any, path: Path) -> list[str]:
    header = [name.strip() for name in next(reader, [])]
    if not header:
        raise DataError(f"{path} has no header in its first line; column names were expected there")
    if "" in header:
        raise DataError(
            f"column {header.index('') + 1} of {path} has no name; name it or remove it "
            "(from pandas: to_csv(..., index=False))"
        )
    return header


def _csv_rows(reader: Any, header: Sequence[str], path: Path) -> Iterator[list[str]]:
    """Yield the rows, blank lines skipped, every row as long as the header."""
    for row in reader:
        if len(row) == len(header):
            yield row
        elif row:
            raise DataError(
                f"line {reader.line_num} of {path} has {len(row)} cells, but the header has {len(header)}; "
                "correct that line"
            )


def _csv_column(cells: Sequence[str]) -> Column:
    """Return typed values; each distinct cell is parsed once, since ids and answers repeat."""
    place = {cell: number for number, cell in enumerate(dict.fromkeys(cells))}
    values = [_csv_value(cell) for cell in place]
    if any(isinstance(value, str) for value in values):
        values = [None if value is None else cell for cell, value in zip(place, values, strict=True)]
    return typed(objects(values))[np.fromiter(map(place.__getitem__, cells), np.intp, len(cells))]


def _csv_value(cell: str) -> int | float | str | None:
    number = cell.strip()
    if not number:
        return None
    if INTEGER.fullmatch(number):
        return int(number)
    return float(number) if NUMBER.fullmatch(number) else cell


def _read_parquet(path: Path) -> list[tuple[str, Any]]:
    with parquet_file(path) as file:
        table = file.read()
    return list(zip(table.column_names, table.columns, strict=True))


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """Yield an open ``pyarrow.parquet.ParquetFile``; what goes wrong in reading it becomes a sentence."""
    arrow = _library("pyarrow", "reading Parquet")
    parquet = _library("pyarrow.parquet", "reading Parquet")
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{path} is damaged or not a Parquet file; write or download it again") from error


READERS: dict[str, Callable[[Path], list[tuple[str, Any]]]] = {
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
}


def write_columns(columns: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write `columns` to a ``.csv``, ``.csv.gz``, ``.parquet`` or ``.pq`` file, whole or not at all."""
    path = Path(path)
    write = format_of(path, _WRITERS)
    table = read_columns(columns)
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {path.parent} to write {path.name} in; create it first")
    with _replacing(path) as temporary:
        write(table, temporary)


def write_batches(batches: Iterable[Columns], path: str | os.PathLike[str]) -> int:
    """Write batches of the same columns to a file, of which one is in memory at a time.

    Formats as in `write_columns`; whole or not at all; at least one batch, which may be empty. Returns how many rows
    were written. Every batch must have the types of the first.
    """
    path = Path(path)
    write = format_of(path, _BATCH_WRITERS)
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {path.parent} to write {path.name} in; create it first")
    with _replacing(path) as temporary:
        return write(iter(batches), temporary)


def _write_csv_batches(batches: Iterator[Columns], path: Path, gzipped: bool = False) -> int:
    rows = 0
    with _open_csv(path, "wt", gzipped) as file:
        writer = csv.writer(file, lineterminator="\n")
        for columns in batches:
            if not rows and not file.tell():
                writer.writerow(columns)
            writer.writerows(zip(*map(_csv_cells, columns.values()), strict=True))
            rows += len(next(iter(columns.values())))
    return rows


def _write_parquet_batches(batches: Iterator[Columns], path: Path) -> int:
    parquet, arrow = _library("pyarrow.parquet", "writing Parquet"), _library("pyarrow", "writing Parquet")
    rows = 0
    first = next(batches)
    text = arrow.string()
    schema = arrow.schema(
        [
            (name, text if column.dtype.kind == "O" else arrow.from_numpy_dtype(column.dtype))
            for name, column in first.items()
        ]
    )
    with parquet.ParquetWriter(path, schema, write_page_checksum=True) as writer:
        for columns in chain([first], batches):
            cells = {name: column.tolist() if column.dtype.kind == "O" else column for name, column in columns.items()}
            writer.write_table(arrow.table(cells, schema=schema))
            rows += len(next(iter(columns.values())))
    return rows


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`, moved over it on success and removed on failure.

    The file is made by whoever writes it, and so gets the usual permissions, unlike those of `tempfile`.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_csv(columns: Columns, path: Path, gzipped: bool = False) -> None:
    with _open_csv(path, "wt", gzipped) as file:
        write_csv(columns, file)


def write_csv(columns: Columns, stream: TextIO) -> None:
    """Write columns to an open text stream."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*map(_csv_cells, columns.values()), strict=True))


def _csv_cells(column: Column) -> list[Any]:
    """Return Python values, of which `csv` writes floats in full and None as an empty cell."""
    values: list[Any] = column.tolist()
    return [None if isnan(value) else value for value in values] if column.dtype.kind == "f" else values


def _write_parquet(columns: Columns, path: Path) -> None:
    parquet = _library("pyarrow.parquet", "writing Parquet")
    # without checksums, bytes that a disk lost may read as other numbers
    parquet.write_table(to_arrow(columns), path, write_page_checksum=True)


_WRITERS: dict[str, Callable[[Columns, Path], None]] = {
    ".csv": _write_csv,
    ".csv.gz": partial(_write_csv, gzipped=True),
    ".parquet": _write_parquet,
    ".pq": _write_parquet,
}


_BATCH_WRITERS: dict[str, Callable[[Iterator[Columns], Path], int]] = {
    ".csv": _write_csv_batches,
    ".csv.gz": partial(_write_csv_batches, gzipped=True),
    ".parquet": _write_parquet_batches,
    ".pq": _write_parquet_batches,
}


def _library(name: str, purpose: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise missing_extra(name.partition(".")[0], "tables", purpose) from error


def to_pandas(columns: Mapping[str, Any]) -> Any:
    """Return `columns` as a ``pandas.DataFrame``."""
    return _library("pandas", "a pandas data frame").DataFrame(read_columns(columns))


def to_polars(columns: Mapping[str, Any]) -> Any:
    """Return `columns` as a ``polars.DataFrame``."""
    return _library("polars", "a Polars data frame").DataFrame(_lists_for_text(columns))


def to_arrow(columns: Mapping[str, Any]) -> Any:
    """Return `columns` as a ``pyarrow.Table``."""
    return _library("pyarrow", "an Arrow table").table(_lists_for_text(columns))


def _lists_for_text(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns whose text is in lists: Polars and Arrow look into those, but not into object arrays."""
    return {
        name: _text_list(column, name) if column.dtype.kind == "O" else column
        for name, column in read_columns(columns).items()
    }


def _text_list(column: Column, name: str) -> list[str | None]:
    cells: list[str | None] = column.tolist()
    for cell in cells:
        if cell is not None and not isinstance(cell, str):
            raise DataError(f"column {name!r} mixes text with values like {cell!r}; convert it to one type")
    return cells
