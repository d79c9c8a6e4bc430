"""Items that lie on one flat are near each other: neighbors → a sparse graph → its leading eigenvectors → a partition.

Through the origin a flat is a bundle of lines, and nearness is |cosine|; affine flats need distance itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["neighbor_graph", "partition", "spectrum"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

BLOCK = 1_024
# Rounds and degree of the Chebyshev-filtered subspace iteration; their product is the number of products with the
# graph.
ROUNDS, DEGREE = 4, 15


def neighbor_graph(X: Array, neighbors: int, *, affine: bool) -> sparse.csr_array:
    """Return the symmetric (N, N) affinity of each item with its nearest `neighbors`.

    ``exp(−2 angle)`` of the lines through the items (thresholded subspace clustering), or, for affine flats,
    ``exp(−distance / median distance of the furthest neighbor)``. Exact, block by block, in single precision.
    """
    N = len(X)
    q = min(neighbors, N - 1)
    points = X.astype(np.float32)
    if affine:
        points -= points.mean(axis=0)
    else:
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    square = np.einsum("ij,ij->i", points, points)
    index, nearness = np.empty((N, q), dtype=np.intp), np.empty((N, q), dtype=np.float32)
    for start in range(0, N, BLOCK):
        product = points[start : start + BLOCK] @ points.T
        # nearest in distance: largest 2⟨x, y⟩ − ‖y‖²
        product = 2.0 * product - square if affine else np.abs(product, out=product)
        product[np.arange(len(product)), np.arange(start, start + len(product))] = -np.inf
        found = np.argpartition(product, N - q, axis=1)[:, N - q :]
        index[start : start + BLOCK] = found
        nearness[start : start + BLOCK] = np.take_along_axis(product, found, axis=1)
    if affine:
        distance = np.sqrt(np.maximum(square[:, None] - nearness, 0.0))
        scale = float(np.median(distance.max(axis=1)))
        weight = np.exp(-distance / (scale if scale > 0 else 1.0))
    else:
        weight = np.exp(-2.0 * np.arccos(np.minimum(nearness, 1.0)))
    rows = np.repeat(np.arange(N), q)
    W = sparse.csr_array((weight.ravel().astype(np.float64), (rows, index.ravel())), shape=(N, N))
    return sparse.csr_array(W + W.T)


def spectrum(graph: sparse.csr_array, count: int, seed: int) -> tuple[Array, Array]:
    """Return the `count` largest eigenvalues, falling, and eigenvectors (N, count) of ``S = D^−½ W D^−½``.

    Parts of the graph that hardly touch make the eigenvalue 1 many times over. ARPACK, which grows one Krylov space
    from one vector, misses copies of it (``python -m benchmarks discovery``); a block of vectors does not. Subspace
    iteration with a Chebyshev filter needs little besides products with S: each round applies the polynomial that is
    small on [−1, the smallest eigenvalue kept so far] and grows fastest above it,

        Y_{j+1} = 2 (S − c) Y_j / e − Y_{j−1},        c, e: center and half width of that interval

    LOBPCG is as reliable and slower. A partition needs few digits: single precision.
    """
    root = np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    scale = sparse.diags_array(1.0 / root)
    S = sparse.csr_array(scale @ graph @ scale).astype(np.float32)
    V = np.random.default_rng(seed).standard_normal((graph.shape[0], count), dtype=np.float32)
    V[:, 0] = root  # the eigenvector of the eigenvalue 1 that every graph has
    values, edge = np.ones(count, dtype=np.float32), 0.5
    for _ in range(ROUNDS):
        V = np.linalg.qr(_filtered(S, V, edge))[0]
        values, turn = np.linalg.eigh(V.T @ (S @ V))
        V, values = V @ turn[:, ::-1], values[::-1]
        edge = float(np.clip(values[-1], 0.0, 0.999))
    return values.astype(np.float64), V.astype(np.float64)


def _filtered(S: sparse.csr_array, V: NDArray[np.float32], edge: float) -> NDArray[np.float32]:
    """Return the Chebyshev polynomial of S that damps eigenvalues in [−1, edge], times V."""
    center, half = np.float32(0.5 * (edge - 1.0)), np.float32(0.5 * (edge + 1.0))
    before, now = V, (S @ V - center * V) / half
    for _ in range(DEGREE - 1):
        before, now = now, 2.0 * (S @ now - center * now) / half - before
    return now


def partition(vectors: Array, parts: int, seed: int) -> Indices:
    """Return labels (N,) of `parts` parts: k-means of the rows of the leading eigenvectors, scaled to length 1."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 - takes a while to load

    rows = vectors[:, :parts]
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = (rows / np.where(length > 0, length, 1.0)).astype(np.float32)
    return KMeans(parts, n_init=2, random_state=seed).fit_predict(rows).astype(np.intp)
