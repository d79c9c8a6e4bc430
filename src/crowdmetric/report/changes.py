"""What a metric changed: who is near whom, before (Euclidean distance of the features) and after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

__all__ = ["Moves", "Neighbors", "moved_pairs", "neighbors"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Maximum number of items whose neighbors are found, and of pairs of items that are ranked.
MOST_ITEMS, MOST_PAIRS = 400, 100_000


@dataclass(frozen=True)
class Neighbors:
    """Nearest items before and after.

    Attributes
    ----------
    items : (n,)
        Rows of the items shown.
    before, after : (n, k)
        Their nearest items, nearest first.
    kept : float
        Share of the k nearest that stayed, on average over a sample of all items.
    """

    items: Indices
    before: Indices
    after: Indices
    kept: float


@dataclass(frozen=True)
class Moves:
    """Pairs of items by how their distance ranks among all pairs: 0 the closest, 1 the farthest.

    Attributes
    ----------
    closer, apart : (n, 2)
        The pairs that moved most, each way, most first.
    closer_ranks, apart_ranks : (n, 2)
        Their ranks before and after.
    agreement : float
        Spearman's correlation of distances before and after, over the pairs.
    """

    closer: Indices
    closer_ranks: Array
    apart: Indices
    apart_ranks: Array
    agreement: float


def neighbors(items: Array, components: Array, shown: Indices, k: int = 5) -> Neighbors:
    """Return the `k` nearest items of those `shown`, and how many stay over a sample.

    Parameters
    ----------
    items : (N, d)
    components : (k, d)
        L with M = LᵀL.
    shown : (n,) rows of items
    """
    k = min(k, len(items) - 1)
    sample = np.unique(np.linspace(0, len(items) - 1, min(len(items), MOST_ITEMS)).astype(np.intp))
    coordinates = items @ components.T
    found = [_nearest(X, np.concatenate([shown, sample]), k) for X in (items, coordinates)]
    before, after = (near[len(shown) :] for near in found)
    kept = np.mean([np.isin(b, a).mean() for b, a in zip(before, after, strict=True)]) if k else 1.0
    return Neighbors(shown, found[0][: len(shown)], found[1][: len(shown)], float(kept))


def _nearest(X: Array, rows: Indices, k: int) -> Indices:
    """Return the `k` nearest other rows (n, k) of each of the rows (n,)."""
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415 - takes a while to load

    near = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(X).kneighbors(X[rows], return_distance=False)
    # the item itself comes first, except in ties with equal items: move it to the end, whatever its place
    order = np.argsort(near == rows[:, None], axis=1, kind="stable")
    return np.take_along_axis(near, order, axis=1)[:, :k]


def moved_pairs(items: Array, components: Array, *, most: int = 4, seed: int = 0) -> Moves:
    """Return the pairs of items whose rank by distance changed most, over all pairs or about 100,000 of them."""
    n = len(items)
    if n * (n - 1) // 2 <= MOST_PAIRS:
        pairs = np.column_stack(np.triu_indices(n, 1))
    else:
        rng = np.random.default_rng(seed)
        first = rng.integers(n, size=MOST_PAIRS)
        pairs = np.column_stack([first, (first + rng.integers(1, n, size=MOST_PAIRS)) % n])
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    delta = items[pairs[:, 0]] - items[pairs[:, 1]]
    distances = [np.linalg.norm(delta, axis=1), np.linalg.norm(delta @ components.T, axis=1)]
    ranks = np.column_stack([(rankdata(value) - 0.5) / len(pairs) for value in distances])
    shift = ranks[:, 1] - ranks[:, 0]
    order = np.argsort(shift, kind="stable")
    closer, apart = order[:most], order[::-1][:most]
    closer, apart = closer[shift[closer] < 0], apart[shift[apart] > 0]
    varied = all(np.ptp(value) > 0 for value in distances)
    agreement = float(spearmanr(*distances).statistic) if varied else float("nan")
    return Moves(pairs[closer], ranks[closer], pairs[apart], ranks[apart], agreement)
