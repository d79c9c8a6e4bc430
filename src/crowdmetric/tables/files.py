"""Files of every kind, pandas, Polars and Arrow tables <-> columns.

The only module that knows pyarrow, Polars or pandas; each is imported when it is asked for.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import chain
from math import isnan
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

from crowdmetric.errors import DataError, missing_extra
from crowdmetric.folders import new_file
from crowdmetric.tables.columns import Column, Columns, as_column, objects
from crowdmetric.tables.spreadsheet import read_sheet
from crowdmetric.tables.stored import Stored, stored
from crowdmetric.tables.text import csv_columns, csv_pieces, explained, read_json_lines, text_format, typed_cells

__all__ = [
    "column_names",
    "labeled_matrix",
    "read_columns",
    "safe_cell",
    "safe_columns",
    "to_arrow",
    "to_pandas",
    "to_polars",
    "write_batches",
    "write_columns",
    "write_csv",
]

Handler = TypeVar("Handler")

# Encodings that Arrow reads as Python does.
PLAIN = ("utf-8", "utf-8-sig", "latin-1")
# Cells that are decimal fractions for every reader.
FRACTION = r"^-?[0-9]+\.[0-9]+(e[+-]?[0-9]+)?$"
# First characters of text that a spreadsheet would run as a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def read_columns(source: Any) -> Columns:
    """Return the columns of `source`, all of one length.

    Parameters
    ----------
    source : path, data frame or mapping
        A ``.csv``, ``.tsv`` or ``.txt`` file (also ``.gz``), ``.jsonl`` or ``.ndjson``, ``.xlsx`` (its first sheet),
        ``.parquet`` or ``.pq``; a pandas, Polars or Arrow table; or a mapping of names to one-dimensional array-likes.
        A text table has a header, and a comma, semicolon, tab or bar between cells (`tables.text`); a column of it is
        whole numbers, else numbers, else text. Only Parquet, JSON and Excel can hold text that looks like numbers.
    """
    if isinstance(source, str | os.PathLike | Stored):
        file = stored(source)
        return named_columns(format_of(file, READERS)(file), file.name)
    names = frame_names(source)
    return named_columns([(name, source[name]) for name in names], "the table")


def is_frame(source: Any) -> bool:
    """Return whether `source` has named columns."""
    # Asking a lazy frame for its columns would compute them.
    if isinstance(source, Mapping) or _is_lazy(source) or hasattr(source, "column_names"):
        return True
    return not callable(getattr(source, "columns", is_frame))  # a method of our own tables, not names


def _is_lazy(source: Any) -> bool:
    return hasattr(source, "collect") and hasattr(source, "lazy")


def is_data_frame(source: Any) -> bool:
    """Return whether `source` is a pandas, Polars or Arrow table."""
    return is_frame(source) and not isinstance(source, Mapping)


def frame_names(frame: Any) -> list[Any]:
    """Return the names of a table's columns, checked to differ."""
    if not is_frame(frame):
        raise DataError(
            f"a table cannot be read from {type(frame).__name__}; give a path, a pandas, Polars or Arrow "
            "table, or a mapping of column names to arrays"
        )
    if _is_lazy(frame):
        raise DataError(f"a {type(frame).__name__} holds no rows yet; call .collect() on it first")
    if isinstance(frame, Mapping):
        return list(frame)
    # An Arrow table keeps its names in column_names: its .columns are the data.
    names = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
    _reject_repeated(names, "the table")  # before asking for a column by an ambiguous name
    return names


def named_columns(pairs: Sequence[tuple[Any, Any]], origin: str) -> Columns:
    """Return normalized columns, checked to have distinct names, one dimension and one length."""
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


def format_of(file: Path | Stored, known: Mapping[str, Handler]) -> Handler:
    """Return the entry of `known` whose suffix the name of a file ends with."""
    name = (file.suffix if isinstance(file, Stored) else file.name).lower()
    for suffix, handler in known.items():
        if name.endswith(suffix):
            return handler
    raise DataError(
        f"{file} has suffix {file.suffix or '(none)'!r}, which is not one of {', '.join(known)}; "
        "convert the file or correct its name"
    )


def _read_csv(source: Stored) -> list[tuple[str, Column]]:
    """Return the columns of a text table: by Arrow where it is installed and the file is plain, else by Python."""
    fast = _read_plain_csv(source)
    if fast is not None:
        return fast
    pieces = list(csv_pieces(source))
    rows = [row for _, rows in pieces for row in rows]
    return csv_columns(pieces[0][0], rows, decimal_comma=text_format(source).decimal_comma)


def _read_plain_csv(source: Stored) -> list[tuple[str, Column]] | None:
    """Return what `_read_csv` does, by Arrow; None if it is not installed or the two might differ.

    Arrow only splits lines into cells, and finds the distinct ones; what a cell means is decided in one place
    (`typed_cells`). Quotes are left to Python's reader, which is strict about them, and so are files that Arrow
    refuses: Python's reader says in which line.
    """
    try:
        arrow, reader = import_module("pyarrow"), import_module("pyarrow.csv")
    except ImportError:
        return None
    how = text_format(source)
    with explained(source), source.open() as file:
        content = file.read()
    if b'"' in content or how.encoding not in PLAIN:
        return None
    header = next(csv_pieces(source, 1))[0]
    names = [str(number) for number in range(len(header))]
    try:
        table = reader.read_csv(
            arrow.BufferReader(content),
            read_options=reader.ReadOptions(skip_rows=1, column_names=names, encoding=how.encoding, use_threads=False),
            parse_options=reader.ParseOptions(delimiter=how.separator, quote_char=False),
            convert_options=reader.ConvertOptions(
                column_types=dict.fromkeys(names, arrow.string()), strings_can_be_null=False
            ),
        )
    except arrow.ArrowException:
        return None
    columns = (_arrow_cells(table.column(name), how.decimal_comma) for name in names)
    return list(zip(header, columns, strict=True))


def _arrow_cells(cells: Any, decimal_comma: bool) -> Column:
    """Return typed values of a column of text; each distinct cell is parsed once.

    Columns of nothing but decimal fractions, as embeddings have, are parsed by Arrow: it rounds as Python does.
    """
    compute = import_module("pyarrow.compute")
    if compute.all(compute.match_substring_regex(cells, FRACTION)).as_py():
        numbers: Column = cells.cast("float64").to_numpy()
        return numbers
    coded = cells.combine_chunks().dictionary_encode()
    distinct = typed_cells(coded.dictionary.to_pylist(), decimal_comma=decimal_comma)
    column: Column = distinct[coded.indices.to_numpy()]
    return column


def column_names(source: Any) -> list[str]:
    """Return the names of a table's columns; of a text table only its first line is read."""
    if not isinstance(source, str | os.PathLike | Stored):
        return list(map(str, frame_names(source)))
    file = stored(source)
    if format_of(file, READERS) is _read_csv:
        return next(csv_pieces(file, 1))[0]
    return list(read_columns(file))


def _read_parquet(source: Stored) -> list[tuple[str, Any]]:
    with parquet_file(source) as file:
        table = file.read()
    return list(zip(table.column_names, table.columns, strict=True))


@contextmanager
def parquet_file(source: Stored) -> Iterator[Any]:
    """Yield an open ``pyarrow.parquet.ParquetFile``; what goes wrong in reading it becomes a message."""
    arrow = _library("pyarrow", "reading Parquet")
    parquet = _library("pyarrow.parquet", "reading Parquet")
    try:
        place = arrow.BufferReader(source.content) if source.path is None else source.path
        with parquet.ParquetFile(place, page_checksum_verification=True) as file:
            yield file
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{source} is damaged or not a Parquet file; write or download it again") from error


READERS: dict[str, Callable[[Stored], list[tuple[str, Any]]]] = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt"), _read_csv),
    **dict.fromkeys((".jsonl", ".jsonl.gz", ".ndjson"), read_json_lines),
    ".xlsx": read_sheet,
    **dict.fromkeys((".parquet", ".pq"), _read_parquet),
}


def write_columns(columns: Mapping[str, Any], path: str | os.PathLike[str], *, spreadsheet_safe: bool = False) -> None:
    """Write `columns` to a ``.csv``, ``.csv.gz``, ``.parquet`` or ``.pq`` file, whole or not at all.

    With `spreadsheet_safe`, text of a CSV file that a spreadsheet would run as a formula gets a quote in front.
    """
    write = format_of(Path(path), _WRITERS)
    table = read_columns(columns)
    table = safe_columns(table) if spreadsheet_safe else table
    with new_file(path) as file:
        write(table, file)


def write_batches(batches: Iterable[Columns], path: str | os.PathLike[str]) -> int:
    """Write batches of the same columns to a file, with one batch in memory at a time.

    Formats as in `write_columns`; whole or not at all; at least one batch, which may be empty. Returns how many rows
    were written. Every batch must have the types of the first.
    """
    write = format_of(Path(path), _BATCH_WRITERS)
    with new_file(path) as file:
        return write(iter(batches), file)


@contextmanager
def _text_of(file: BinaryIO, gzipped: bool) -> Iterator[TextIO]:
    """Yield a text stream into an open file, which stays open."""
    packed: Any = gzip.GzipFile(fileobj=file, mode="wb", filename="") if gzipped else file
    text = io.TextIOWrapper(packed, encoding="utf-8", newline="")
    yield text
    text.flush()
    text.detach()
    if gzipped:
        packed.close()


def _write_csv_batches(batches: Iterator[Columns], file: BinaryIO, gzipped: bool = False) -> int:
    rows = 0
    with _text_of(file, gzipped) as text:
        for number, columns in enumerate(batches):
            write_csv(columns, text, header=not number)
            rows += len(next(iter(columns.values())))
    return rows


def _write_parquet_batches(batches: Iterator[Columns], file: BinaryIO) -> int:
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
    with parquet.ParquetWriter(file, schema, write_page_checksum=True) as writer:
        for columns in chain([first], batches):
            cells = {name: column.tolist() if column.dtype.kind == "O" else column for name, column in columns.items()}
            writer.write_table(arrow.table(cells, schema=schema))
            rows += len(next(iter(columns.values())))
    return rows


def _write_csv(columns: Columns, file: BinaryIO, gzipped: bool = False) -> None:
    with _text_of(file, gzipped) as text:
        write_csv(columns, text)


def write_csv(columns: Columns, stream: TextIO, *, header: bool = True) -> None:
    """Write columns to an open text stream."""
    writer = csv.writer(stream, lineterminator="\n")
    if header:
        writer.writerow(columns)
    writer.writerows(zip(*map(_csv_cells, columns.values()), strict=True))


def safe_columns(columns: Columns) -> Columns:
    """Return columns whose text, names included, no spreadsheet runs: a quote stands in front of = + - @."""
    return {
        safe_cell(name): objects(map(safe_cell, column.tolist())) if column.dtype.kind in "OU" else column
        for name, column in columns.items()
    }


def safe_cell(cell: Any) -> Any:
    """Return a cell with a quote in front if it is text that a spreadsheet would run."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def _csv_cells(column: Column) -> list[Any]:
    """Return Python values: `csv` writes their floats in full and None as an empty cell."""
    values: list[Any] = column.tolist()
    return [None if isnan(value) else value for value in values] if column.dtype.kind == "f" else values


def _write_parquet(columns: Columns, file: BinaryIO) -> None:
    parquet = _library("pyarrow.parquet", "writing Parquet")
    # without checksums, corrupted bytes may be read as other numbers
    parquet.write_table(to_arrow(columns), file, write_page_checksum=True)


_WRITERS: dict[str, Callable[[Columns, BinaryIO], None]] = {
    ".csv": _write_csv,
    ".csv.gz": partial(_write_csv, gzipped=True),
    ".parquet": _write_parquet,
    ".pq": _write_parquet,
}


_BATCH_WRITERS: dict[str, Callable[[Iterator[Columns], BinaryIO], int]] = {
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


def labeled_matrix(matrix: Any, names: Iterable[str]) -> Any:
    """Return a square matrix as a ``pandas.DataFrame`` with the same names for its rows and columns."""
    labels = list(names)
    return _library("pandas", "a labeled matrix").DataFrame(matrix, index=labels, columns=labels)


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
