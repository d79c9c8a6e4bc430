"""Checks of what the conditions and bounds are given."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.bounded.subspace_map import SubspaceMap
from crowdmetric.errors import DataError
from crowdmetric.inputs import check_items

__all__ = ["check_labels", "check_pairs", "coordinates", "distance", "probability"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# An item further than this share of its length from a subspace is not in it.
INSIDE = 1e-8


def coordinates(items: ArrayLike, basis: ArrayLike | None) -> Array:
    """Return items in the coordinates of the subspace that contains them, (N, r)."""
    X = check_items(items)
    if basis is None:
        return X
    B = np.asarray(basis, dtype=np.float64)
    SubspaceMap([B])  # refuses what is not an orthonormal basis
    if B.shape[0] != X.shape[1]:
        raise DataError(
            f"basis has shape {B.shape}, but items have {X.shape[1]} features; give a ({X.shape[1]}, r) basis"
        )
    away = distance(X, B)
    worst = int(np.argmax(away - INSIDE * np.linalg.norm(X, axis=1)))
    if away[worst] > INSIDE * np.linalg.norm(X[worst]):
        raise DataError(
            f"item {worst} is {away[worst]:.3g} away from the subspace, but all items must lie in it; "
            "leave it out, or project items with items @ B @ B.T"
        )
    return X @ B


def distance(X: Array, B: Array) -> Array:
    """Return the distance of rows of X from span(B), (N,)."""
    distance: Array = np.linalg.norm(X - (X @ B) @ B.T, axis=1)
    return distance


def check_labels(labels: ArrayLike, N: int, n: int) -> Indices:
    """Return labels 0…n−1 of N items."""
    numbers = np.asarray(labels)
    if numbers.shape != (N,) or numbers.dtype.kind not in "iu":
        raise DataError(
            f"labels has shape {numbers.shape} and type {numbers.dtype}, expected {N} whole numbers; "
            "give each item the number of its subspace, or −1"
        )
    if numbers.min() < -1 or numbers.max() >= n:
        bad = numbers[(numbers < -1) | (numbers >= n)][0]
        raise DataError(f"labels names subspace {bad}, but there are {n} bases; use 0…{n - 1}, or −1 for none")
    return numbers.astype(np.intp)


def check_pairs(pairs: ArrayLike, N: int) -> Indices:
    """Return pairs (..., 2) of row numbers below N."""
    chosen = np.asarray(pairs)
    if chosen.ndim < 2 or chosen.shape[-1] != 2 or chosen.dtype.kind not in "iu":
        raise DataError(
            f"pairs has shape {chosen.shape} and type {chosen.dtype}, expected whole numbers (…, m, 2); "
            "give the row numbers of left and right items"
        )
    if chosen.size and (chosen.min() < 0 or chosen.max() >= N):
        bad = chosen[(chosen < 0) | (chosen >= N)][0]
        raise DataError(f"pairs names item {bad}, but there are {N} items, 0…{N - 1}; drop that pair")
    return chosen.astype(np.intp)


def probability(p: float) -> float:
    """Return a probability above 0."""
    if not 0 < p <= 1:
        raise DataError(f"p={p!r}, expected a probability above 0 and at most 1; give 0.05 for 95 % confidence")
    return float(p)
