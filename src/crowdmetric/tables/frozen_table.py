"""What `Comparisons` and `Judgements` have in common: frozen tables that can be written, pickled and cut."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.tables.columns import Columns
from crowdmetric.tables.files import to_arrow, to_pandas, to_polars, write_columns

__all__ = ["FrozenTable"]


class FrozenTable(ABC):
    """A frozen dataclass that knows its number of rows and its `columns`."""

    @abstractmethod
    def columns(self) -> Columns:
        """Return the columns by name, ``(T,)`` each."""

    @abstractmethod
    def __len__(self) -> int: ...

    def __reduce__(self) -> tuple[Any, ...]:
        # NumPy forgets on pickling that an array is read-only; the constructor remembers.
        return type(self), tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write `columns` to a CSV or Parquet file."""
        write_columns(self.columns(), path)

    def to_pandas(self) -> Any:
        """Return `columns` as a ``pandas.DataFrame``."""
        return to_pandas(self.columns())

    def to_polars(self) -> Any:
        """Return `columns` as a ``polars.DataFrame``."""
        return to_polars(self.columns())

    def to_arrow(self) -> Any:
        """Return `columns` as a ``pyarrow.Table``."""
        return to_arrow(self.columns())

    def _index(self, rows: Any) -> NDArray[Any]:
        """Return a mask ``(T,)`` or row numbers as an array, checked."""
        n, what = len(self), type(self).__name__.lower()
        rows = np.asarray(rows)
        if rows.dtype == bool:
            if rows.shape != (n,):
                raise DataError(f"the mask has shape {rows.shape}, but there are {n} {what}")
            return rows
        rows = rows.astype(np.intp) if rows.size == 0 else rows  # NumPy makes [] a float
        wrong = rows[(rows < -n) | (rows >= n)] if rows.dtype.kind in "iu" else rows
        if wrong.size:
            raise DataError(f"rows must be a mask or row numbers below {n}, but hold {wrong.flat[0]}")
        return rows
