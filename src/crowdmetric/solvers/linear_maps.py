"""Linear maps that are applied and not stored, for the regressions of stage 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["DENSE_UNKNOWNS", "DenseRows", "LinearMap", "OneProblem", "gram"]

Array = NDArray[np.float64]

# Up to this many unknowns (d = 62) a p × p matrix is formed and factorized, which takes a second or two.
DENSE_UNKNOWNS = 2000
# Up to this many unknowns, copying half of a symmetric product costs more than computing it.
SMALL = 100


class LinearMap(Protocol):
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
    """Rows that are a matrix ``X (n, p)`` already, or the matrices ``X (B, n, p)`` of B problems of one shape.

    With B problems vectors have the leading axis too.
    """

    X: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        n, p = self.X.shape[-2:]
        return n, p

    def forward(self, a: Array) -> Array:
        """Return ``X @ a``."""
        return self.X @ a if a.ndim == 1 else (self.X @ a[..., None])[..., 0]

    def adjoint(self, u: Array) -> Array:
        """Return ``X.T @ u``."""
        return u @ self.X if u.ndim == 1 else (u[..., None, :] @ self.X)[..., 0, :]

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield all rows at once."""
        yield slice(0, self.X.shape[-2]), self.X


@dataclass(frozen=True)
class OneProblem:
    """Any rows as a stack of one problem: a leading axis of length 1."""

    rows: LinearMap

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        return self.rows.shape

    def forward(self, a: Array) -> Array:
        """Return ``X @ a  (1, n)``."""
        return self.rows.forward(a[0])[None]

    def adjoint(self, u: Array) -> Array:
        """Return ``X.T @ u  (1, p)``."""
        return self.rows.adjoint(u[0])[None]

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield ``(s, X[s])`` with the leading axis."""
        for part, X in self.rows.blocks():
            yield part, X[None]


def gram(rows: LinearMap, weights: Array | None = None) -> Array:
    """Return ``X.T @ diag(weights) @ X  (p, p)``, accumulated block by block; for a stack (B, p, p)."""
    total: Array | None = None
    for part, X in rows.blocks():
        if weights is not None and X.shape[-1] <= SMALL:
            product = np.swapaxes(X * weights[..., part, None], -1, -2) @ X
        else:
            scaled = X if weights is None else X * np.sqrt(weights[..., part, None])
            product = np.swapaxes(scaled, -1, -2) @ scaled  # one array on both sides: BLAS computes half of it
        total = product if total is None else np.add(total, product, out=total)
    return np.zeros((rows.shape[1],) * 2) if total is None else total
