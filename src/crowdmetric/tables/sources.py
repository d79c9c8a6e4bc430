"""Tables too large for memory, read a batch of rows at a time: Parquet and CSV files, and Arrow datasets."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from crowdmetric.errors import DataError
from crowdmetric.tables.columns import Columns
from crowdmetric.tables.files import named_columns, parquet_file
from crowdmetric.tables.stored import existing_file, stored
from crowdmetric.tables.text import csv_columns, csv_pieces, text_format

__all__ = ["CsvSource", "DatasetSource", "ParquetSource", "RowSource", "matching_files"]

# Rows read at a time: a few megabytes of columns.
BATCH_ROWS = 1 << 16


class RowSource(Protocol):
    """Rows in an order that does not change, a batch at a time."""

    def names(self) -> list[str]:
        """Return the names of the columns."""
        ...

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[str, Columns]]:
        """Yield where rows come from, and some of their columns."""
        ...


def matching_files(pattern: str | os.PathLike[str], suffixes: Sequence[str]) -> tuple[Path, ...]:
    """Return the files, sorted by name, that a path, a folder or a pattern such as ``answers/*.parquet`` means."""
    path = Path(pattern)
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.name.lower().endswith(tuple(suffixes)))
    else:
        found = [path] if path.exists() else sorted(map(Path, glob.glob(str(pattern), recursive=True)))
    if not found:
        raise DataError(f"no file matches {pattern}; check the name and the folder ({', '.join(suffixes)} are read)")
    return tuple(map(existing_file, found))


@dataclass(frozen=True)
class ParquetSource:
    """Parquet files of the same columns."""

    paths: tuple[Path, ...]

    def names(self) -> list[str]:
        with parquet_file(stored(self.paths[0])) as file:
            return list(file.schema_arrow.names)

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[str, Columns]]:
        for path in self.paths:
            with parquet_file(stored(path)) as file:
                _check_columns(file.schema_arrow.names, columns, path, self.paths[0])
                for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns)):
                    yield str(path), _from_arrow(batch, str(path))


@dataclass(frozen=True)
class CsvSource:
    """CSV files of the same columns."""

    paths: tuple[Path, ...]

    def names(self) -> list[str]:
        return next(csv_pieces(stored(self.paths[0]), 1))[0]

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[str, Columns]]:
        for path in self.paths:
            file = stored(path)
            comma = text_format(file).decimal_comma
            for header, rows in csv_pieces(file, BATCH_ROWS):
                _check_columns(header, columns, path, self.paths[0])
                places = [header.index(name) for name in columns]
                cells = [[row[place] for place in places] for row in rows]
                yield str(path), named_columns(csv_columns(columns, cells, decimal_comma=comma), str(path))


@dataclass(frozen=True)
class DatasetSource:
    """A ``pyarrow.dataset.Dataset``, or an object with its ``schema`` and ``to_batches``."""

    dataset: Any

    def names(self) -> list[str]:
        return list(self.dataset.schema.names)

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[str, Columns]]:
        for batch in self.dataset.to_batches(columns=list(columns), batch_size=BATCH_ROWS):
            yield "the dataset", _from_arrow(batch, "the dataset")


def _from_arrow(batch: Any, origin: str) -> Columns:
    return named_columns(list(zip(batch.schema.names, batch.columns, strict=True)), origin)


def _check_columns(names: Sequence[str], wanted: Sequence[str], path: Path, first: Path) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise DataError(f"{path} has no column {missing[0]!r}, which {first} has; scan files of the same columns")
