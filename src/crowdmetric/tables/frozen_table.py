"""What tables of answers have in common: they are frozen, equal by content, and can be written, pickled and cut."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.tables.columns import Column, Columns
from crowdmetric.tables.files import to_arrow, to_pandas, to_polars, write_columns

__all__ = ["FrozenTable", "spread"]


class FrozenTable(ABC):
    """A frozen dataclass that knows its number of rows and its `columns`."""

    # Fields that do not matter when tables are compared.
    aside: ClassVar[tuple[str, ...]] = ("dropped", "ids_are")

    from_table: ClassVar[Callable[..., Any]]
    item_ids: Column
    dropped: dict[str, int]

    @abstractmethod
    def columns(self) -> Columns:
        """Return the columns by name, ``(T,)`` each."""

    @classmethod
    def read(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """Return the answers in a CSV or Parquet file; `options` are those of `from_table`."""
        table: Self = cls.from_table(path, **options)
        return table

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def n_items(self) -> int:
        """How many items there are, named in answers or not."""
        return len(self.item_ids)

    def __eq__(self, other: object) -> bool:
        """Compare answers and ids; what was dropped on the way and where ids come from does not matter."""
        if type(other) is not type(self):
            return NotImplemented
        names = [f.name for f in fields(self) if f.name not in self.aside]  # type: ignore[arg-type]
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]  # equal by content, like a dictionary

    def _freeze(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep arrays, read-only, and a copy of what was dropped."""
        for name, array in arrays.items():
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "dropped", dict(self.dropped))

    def _lines(self, title: str, lines: Mapping[str, str]) -> str:
        """Return a summary: a title, lines, and what was dropped."""
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items())
        dropped = f"{sum(self.dropped.values()):,}" + (f" ({reasons})" if reasons else "")
        return "\n".join([title, *(f"  {name:<20}{text}" for name, text in {**lines, "dropped": dropped}.items())])

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


def spread(counts: Column) -> str:
    """Return the smallest, the median and the largest count."""
    if not counts.size:
        return "nobody"
    return f"min {counts.min():,}, median {np.median(counts):,g}, max {counts.max():,}"
