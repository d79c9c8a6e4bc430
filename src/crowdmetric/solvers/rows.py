"""Linear maps that are applied, never stored: what the regressions of stage 2 work on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["DENSE_UNKNOWNS", "DenseRows", "Rows", "gram"]

Array = NDArray[np.float64]

# Up to this many unknowns (d = 62) a p × p matrix is formed and factorised, which takes a second or two.
DENSE_UNKNOWNS = 2000


class Rows(Protocol):
    """A linear map R^p → R^n that is never stored whole; rows are multiplied by √m."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        ...

    def forward(self, a: Array) -> Array:
        """Return ``X @ a  (n,)``."""
        ...

    def adjoint(self, u: Array) -> Array:
        """Return ``X.T @ u  (p,)``."""
        ...

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield ``(s, X[s])``, a moderate number of dense rows at a time, all rows once."""
        ...


@dataclass(frozen=True)
class DenseRows:
    """Rows that are a matrix ``X (n, p)`` already."""

    X: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        n, p = self.X.shape
        return n, p

    def forward(self, a: Array) -> Array:
        """Return ``X @ a``."""
        return self.X @ a

    def adjoint(self, u: Array) -> Array:
        """Return ``X.T @ u``."""
        return self.X.T @ u

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield all rows at once."""
        yield slice(0, self.X.shape[0]), self.X


def gram(rows: Rows, weights: Array | None = None) -> Array:
    """Return ``X.T @ diag(weights) @ X  (p, p)``, accumulated block by block."""
    total: Array | None = None
    for part, X in rows.blocks():
        scaled = X if weights is None else X * np.sqrt(weights[part])[:, None]
        product = scaled.T @ scaled  # one array on both sides: BLAS computes half of it
        total = product if total is None else np.add(total, product, out=total)
    return np.zeros((rows.shape[1],) * 2) if total is None else total
