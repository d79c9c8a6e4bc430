"""Tables that can be written to a file, or handed to a data frame library."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

from crowdmetric.tables.columns import Columns
from crowdmetric.tables.files import to_arrow, to_pandas, to_polars, write_columns

__all__ = ["WritableTable"]


class WritableTable(ABC):
    """A table that knows its `columns`."""

    @abstractmethod
    def columns(self) -> Columns:
        """Return the columns by name, ``(T,)`` each."""

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
