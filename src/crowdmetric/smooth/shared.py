"""What people share of the crowd's utilities: any covariance (N, N) of few items, one of low rank of many.

A covariance of low rank is ``Q = Y Yᵀ`` with Y (N, m). With W = Σ W_k (N, N), sparse where items are many, and
``S = I + Yᵀ W Y = L Lᵀ`` (m, m)::

    (Q⁻¹ + W)⁻¹ = Y S⁻¹ Yᵀ, again of low rank, with Y L⁻ᵀ        log det(I + Q W) = log det S

The work is N m² and what people told times m, instead of N³.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve, solve_triangular
from scipy.sparse import csr_array

from crowdmetric.smooth.people_blocks import PeopleBlock

__all__ = ["CrowdSlope", "Parts", "Shared", "given", "slopes", "total"]

Array = NDArray[Any]
Indices = NDArray[np.intp]


class Parts(Protocol):
    """A covariance (N, N) of which only parts are ever made."""

    def of(self, block: PeopleBlock) -> Array:
        """Return everybody's part (P, n, n), zero at items that stand for none."""
        ...

    def between(self, rows: Indices, columns: Indices) -> Array:
        """Return parts (T, a, b) by numbers of items (T, a) and (T, b); zero at the number N."""
        ...


@dataclass(frozen=True)
class Shared:
    """The covariance Y Yᵀ.

    Attributes
    ----------
    root : (N, m)
        Y.
    """

    root: Array

    def of(self, block: PeopleBlock) -> Array:
        """Return everybody's part (P, n, n)."""
        return self.between(block.items, block.items)

    def between(self, rows: Indices, columns: Indices) -> Array:
        """Return parts (T, a, b)."""
        padded = np.pad(self.root, ((0, 1), (0, 0)))
        return np.asarray(padded[rows] @ padded[columns].transpose(0, 2, 1))

    def __matmul__(self, other: Array) -> Array:
        return np.asarray(self.root @ (self.root.T @ other))


@dataclass(frozen=True)
class CrowdSlope:
    """The gradient ``½ (β βᵀ − W + W V W)`` (N, N) as a map of vectors."""

    beta: Array
    W: csr_array
    V: Shared

    def __matmul__(self, other: Array) -> Array:
        told = self.W @ other
        return np.asarray(0.5 * (np.outer(self.beta, self.beta @ other) - told + self.W @ (self.V @ told)))


def total(C: Array | Shared, blocks: Sequence[PeopleBlock], parts: Sequence[Array]) -> Any:
    """Return the sum (N, N) of everybody's symmetric matrices (P, n, n): an array, or sparse beside a low rank."""
    if isinstance(C, Shared):
        return sum((block.put_sparse(part) for block, part in zip(blocks, parts, strict=True)), start=_nothing(C))
    found = np.zeros_like(C)
    for block, part in zip(blocks, parts, strict=True):
        found += block.put(part)
    return 0.5 * (found + found.T)


def _nothing(C: Shared) -> csr_array:
    return csr_array((len(C.root), len(C.root)))


def given(C: Array | Shared, W: Any) -> tuple[Any, float]:
    """Return ``(C⁻¹ + W)⁻¹``, of the same kind as C, and log det(I + C W)."""
    if isinstance(C, Shared):
        Y = C.root
        if not Y.shape[1]:  # SciPy 1.13 refuses systems without unknowns
            return C, 0.0
        L = np.linalg.cholesky(np.eye(Y.shape[1]) + Y.T @ (W @ Y))
        return Shared(solve_triangular(L, Y.T, lower=True).T), 2.0 * float(np.sum(np.log(np.diag(L))))
    factors, pivots = lu_factor(np.eye(len(C)) + C @ W, overwrite_a=True, check_finite=False)
    V = lu_solve((factors, pivots), C, check_finite=False)
    return 0.5 * (V + V.T), float(np.sum(np.log(np.abs(np.diag(factors)))))


def slopes(
    C: Array | Shared, blocks: Sequence[PeopleBlock], parts: Sequence[Array], beta: Array, W: Any, V: Any
) -> tuple[Any, Any]:
    """Return the gradients in K and C, from those in everybody's K (P, n, n), β, W and V.

    Arrays (N, N), or beside a low rank everybody's own and a `CrowdSlope`.
    """
    if isinstance(C, Shared):
        return list(zip(blocks, parts, strict=True)), CrowdSlope(beta, W, V)
    in_crowd = np.outer(beta, beta) - W + W @ V @ W
    return total(C, blocks, parts), 0.25 * (in_crowd + in_crowd.T)
