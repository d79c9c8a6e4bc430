"""Near-parallelograms among the items of a catalogue: pairs of pairs with nearly the same difference.

Items with ``x_i − x_j ≈ x_k − x_l`` are neighbors among the differences of items. Of the N(N−1)/2 differences a random
million is taken, turned so that their first principal coordinate is positive, and hashed: on the leading principal
axes, randomly rotated and shifted, space is cut into cells a few tolerances wide, and differences that share a cell are
compared. A few rounds with new rotations find most neighbors (locality-sensitive hashing). So half a million million
quadruples are searched with memory that does not grow with their number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Parallelograms", "find_parallelograms"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Maximum number of principal axes that are hashed, and the share of the variance that is enough.
MOST_AXES = 12
ENOUGH_VARIANCE = 0.98
# Width of a cell in tolerances, rounds of hashing, and how many followers in its cell a difference is compared with.
WIDTH, ROUNDS, FOLLOWERS = 3.0, 8, 3
# Number of rows from which axes are chosen.
SAMPLE = 100_000
CHUNK = 1 << 21


@dataclass(frozen=True)
class Parallelograms:
    """Quadruples of items.

    Attributes
    ----------
    corners
        (C, 2, 2) rows of items: question, left/right; the two differences are nearly equal.
    mismatch
        (C,) ``‖δ₁ − δ₂‖`` over the mean length of the two.
    closest
        The smallest mismatch seen, also where no candidate was within the tolerance; NaN if there was none.
    """

    corners: Indices
    mismatch: Array
    closest: float


def find_parallelograms(
    items: Array, *, tolerance: float, differences: int = 1_000_000, seed: int = 0
) -> Parallelograms:
    """Return near-parallelograms with a mismatch of at most `tolerance`, each with both of its pairs of sides.

    Parameters
    ----------
    items
        (N, d).
    tolerance
        Of ``‖δ₁ − δ₂‖ / ‖δ‖``.
    differences
        How many differences are compared; all of them if there are no more.
    """
    rng = np.random.default_rng(seed)
    pairs = _some_pairs(len(items), differences, rng)
    seen = items @ _leading_axes(items, rng)
    coordinates = seen[pairs[:, 0]] - seen[pairs[:, 1]]
    turned = coordinates[:, 0] < 0
    pairs[turned], coordinates[turned] = pairs[turned, ::-1], -coordinates[turned]
    near = _neighbors(coordinates, tolerance, rng)
    corners = pairs[near]  # (C, 2, 2)
    # the sides δ and a − a' change places: the same D, other answers to expect
    corners = np.concatenate([corners, np.swapaxes(corners, 1, 2)])
    corners = corners[(corners[:, 0, 0] != corners[:, 0, 1]) & (corners[:, 1, 0] != corners[:, 1, 1])]
    mismatch = _mismatch(items, corners)
    kept = mismatch <= tolerance
    return Parallelograms(corners[kept], mismatch[kept], float(mismatch.min()) if mismatch.size else float("nan"))


def _neighbors(points: Array, tolerance: float, rng: np.random.Generator) -> Indices:
    """Return pairs of rows (C, 2) of `points` (R, q) that are within `tolerance` of their length; most, not all."""
    length = np.linalg.norm(points, axis=1)
    width = WIDTH * tolerance * max(float(np.median(length)), np.finfo(float).tiny)
    found = []
    for _ in range(ROUNDS):
        key = _cells(points, width, rng)
        order = np.argsort(key, kind="stable")
        key = key[order]
        for step in range(1, FOLLOWERS + 1):
            first = np.flatnonzero(key[step:] == key[:-step])
            i, j = order[first], order[first + step]
            close = np.linalg.norm(points[i] - points[j], axis=1) <= tolerance * np.maximum(length[i], length[j])
            low, high = np.minimum(i[close], j[close]), np.maximum(i[close], j[close])
            found.append(low * len(points) + high)
    both = np.unique(np.concatenate(found))
    return np.column_stack([both // len(points), both % len(points)]).astype(np.intp)


def _cells(points: Array, width: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a number (R,) that points of one cell share; cells are cubes, turned and shifted at random."""
    q = points.shape[1]
    rotation = np.linalg.qr(rng.standard_normal((q, q)))[0]
    cell = np.floor(points @ rotation / width + rng.random(q)).astype(np.int64)
    odd = 2 * rng.integers(0, 1 << 62, size=q) + 1
    hashed: NDArray[np.int64] = np.sum(cell * odd, axis=1)  # wraps around, as hashes do
    return hashed


def _some_pairs(N: int, most: int, rng: np.random.Generator) -> Indices:
    """Return distinct pairs of different items (R, 2), all of them if they are not too many."""
    if most >= N * (N - 1) // 2:
        return np.column_stack(np.triu_indices(N, 1)).astype(np.intp)
    first = rng.integers(N, size=most)
    second = (first + rng.integers(1, N, size=most)) % N
    chosen = np.unique(np.minimum(first, second) * N + np.maximum(first, second))
    return np.column_stack([chosen // N, chosen % N]).astype(np.intp)


def _leading_axes(items: Array, rng: np.random.Generator) -> Array:
    """Return the principal axes (d, q) that hold most of the variance."""
    sample = items if len(items) <= SAMPLE else items[rng.integers(len(items), size=SAMPLE)]
    values, vectors = np.linalg.eigh(np.cov(sample, rowvar=False).reshape(items.shape[1], -1))
    share = np.cumsum(values[::-1]) / max(float(values.sum()), np.finfo(float).tiny)
    q = min(int(np.searchsorted(share, ENOUGH_VARIANCE)) + 1, MOST_AXES, items.shape[1])
    axes: Array = vectors[:, ::-1][:, :q]
    return axes


def _mismatch(items: Array, corners: Indices) -> Array:
    """Return ``‖δ₁ − δ₂‖ / ½(‖δ₁‖ + ‖δ₂‖)``, infinite if both are zero."""
    mismatch = np.empty(len(corners))
    size = max(1, CHUNK // (4 * items.shape[1]))
    for start in range(0, len(corners), size):
        part = slice(start, start + size)
        delta = items[corners[part, :, 0]] - items[corners[part, :, 1]]
        length = np.linalg.norm(delta, axis=2).mean(axis=1)
        apart = np.linalg.norm(delta[:, 0] - delta[:, 1], axis=1)
        mismatch[part] = np.divide(apart, length, out=np.full(len(length), np.inf), where=length > 0)
    return mismatch
