"""The vectors ``svec(Δ) ⊕ δ`` of pairs of items, and their singular values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from crowdmetric.symmetric import degrees_of_freedom, outer_difference
from crowdmetric.users.projected import RANK_TOLERANCE

__all__ = ["design_rows", "pair_rows", "singular_values", "whitened"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Numbers in one temporary array.
CHUNK = 1 << 20


def pair_rows(x: Array, pairs: Indices) -> Array:
    """Return ``svec(Δ) ⊕ δ  (..., p + r)`` of pairs (..., 2)."""
    left, right = x[pairs[..., 0]], x[pairs[..., 1]]
    return np.concatenate([outer_difference(left - right, left + right), left - right], axis=-1)


def design_rows(x: Array, pairs: Indices) -> Iterator[Array]:
    """Yield ``svec(Δ) ⊕ δ`` of pairs (n, 2), a moderate number at a time."""
    size = max(1, CHUNK // max(1, degrees_of_freedom(x.shape[1])))
    for first in range(0, len(pairs), size):
        yield pair_rows(x, pairs[first : first + size])


def singular_values(blocks: Iterable[Array], width: int) -> Array:
    """Return the singular values (width,) of stacked rows, zeros included; only a triangle is stored."""
    R: Array = np.zeros((0, width))
    for rows in blocks:
        R = np.asarray(np.linalg.qr(np.concatenate([R, rows]), mode="r"))
    values = np.linalg.svd(R, compute_uv=False)
    return np.concatenate([values, np.zeros(width - values.size)])


def whitened(x: Array) -> Array:
    """Return items (N, q) centered and in uncorrelated coordinates of unit size, constant directions dropped."""
    U, values, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    white: Array = U[:, values > RANK_TOLERANCE * np.linalg.norm(x)] * sqrt(len(x))
    return white
