"""k-subspaces with a likelihood: flats through a cloud of points, who lies on which, and how many are worth having.

Every item is drawn from one of n flats of dimension r, or from a background that fills the space (outliers)::

    flat k        x ~ N(o_k, B_k diag(ℓ_k) B_kᵀ + σ² B⊥B⊥ᵀ)   with weight π_k; σ² is shared; o_k = 0 unless affine
    background    x ~ N(o, C)                                 with weight π_0; o, C of all items

Items are assigned to the most likely of them and the flats fitted again, until nothing changes (classification EM:
Lloyd's algorithm with subspaces in place of centers). The criterion of a fit is its BIC, with the assignment as part
of the data (the integrated classification likelihood)::

    −2 Σ_i log(π_{c(i)} p(x_i | c(i)))  +  log N · n (dr − r(r − 1)/2 + 1 [+ d if affine])

It is comparable across numbers of flats *and* across ranks: a rank too low pays for what is left over in σ², a
rank too high for volume that no item fills, a flat too many for its parameters and its weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from sklearn.utils.extmath import randomized_svd

__all__ = ["Flats", "assign_flats", "background_density", "criterion", "fit_flats", "merge_flats", "refine_flats"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Smallest σ² as a share of the mean square of the items: exact data have no noise, and no finite likelihood.
LEAST_NOISE = 1e-12
# A flat needs more items than directions, or it fits anything.
SPARE_ITEMS = 2
# Alternation ends when less than this share of the items change their flat.
STANDSTILL = 1e-4
# Number of rows scored at once: (rows, n·r) products stay in cache-sized pieces.
BLOCK = 8_192
# Above this size the leading singular vectors are found by random projection with power iterations.
FULL_SVD = 128


@dataclass(frozen=True)
class Flats:
    """A mixture of n flats of dimension r in R^d.

    Attributes
    ----------
    bases, offsets, variances
        (n, d, r) orthonormal, (n, d), (n, r) variances along the basis vectors.
    weights
        (n,) shares of the items.
    noise
        σ², variance in each direction across a flat.
    stray_weight
        π_0, the share of the background.
    """

    bases: Array
    offsets: Array
    variances: Array
    weights: Array
    noise: float
    stray_weight: float

    @property
    def rank(self) -> int:
        """r, the dimension of the flats."""
        return int(self.bases.shape[2])

    def __len__(self) -> int:
        return int(self.bases.shape[0])


def background_density(X: Array, *, affine: bool) -> Array:
    """Return log N(x; o, C) (N,) under the Gaussian of all items, without d/2 · log 2π, which flats leave out too.

    A thousandth of the mean variance is added to every direction: a background that is flat itself would hide flats.
    """
    centered = X - X.mean(axis=0) if affine else X
    C = centered.T @ centered / len(X)
    C[np.diag_indices_from(C)] += 1e-3 * np.trace(C) / len(C)
    triangle = np.linalg.cholesky(C)
    white = solve_triangular(triangle, centered.T, lower=True, check_finite=False)
    return -0.5 * np.einsum("ij,ij->j", white, white) - float(np.sum(np.log(np.diag(triangle))))


def fit_flats(X: Array, labels: Indices, rank: int, *, affine: bool) -> Flats:
    """Return the flats of the labels 0 … n−1 (−1: background); labels with too few items are left out.

    The noise is what is left over, over the directions it had: ``σ² = Σ residual² / ((N − n r)(d − r))``.
    """
    d = X.shape[1]
    groups = [np.flatnonzero(labels == k) for k in range(labels.max(initial=-1) + 1)]
    groups = [rows for rows in groups if rows.size >= rank + SPARE_ITEMS]
    n = len(groups)
    bases, offsets, variances = np.empty((n, d, rank)), np.zeros((n, d)), np.empty((n, rank))
    left_over = 0.0
    for k, rows in enumerate(groups):
        x = X[rows]
        if affine:
            offsets[k] = x.mean(axis=0)
            x = x - offsets[k]
        values, bases[k] = _leading(x, rank)
        variances[k] = values**2 / rows.size
        left_over += max(float(np.einsum("ij,ij->", x, x)) - float(np.sum(values**2)), 0.0)
    inside = sum(rows.size for rows in groups)
    floor = LEAST_NOISE * float(np.mean(np.einsum("ij,ij->i", X, X)))
    spare = max(inside - n * rank, 1) * max(d - rank, 1)
    noise = max(left_over / spare, floor) if d > rank else floor
    shares = np.array([rows.size for rows in groups]) / len(X)
    # weight of one item for the background, so an outlier can be found even if there was none before
    strays = max(1.0 - inside / len(X), 1.0 / len(X))
    return Flats(bases, offsets, np.maximum(variances, noise), shares, noise, strays)


def _leading(x: Array, rank: int) -> tuple[Array, Array]:
    """Return the leading singular values (r,) and right singular vectors (d, r) of x."""
    if min(x.shape) <= FULL_SVD:
        tall = x.shape[0] > x.shape[1]
        _, values, rows = np.linalg.svd(np.linalg.qr(x)[1] if tall else x, full_matrices=False)
    else:
        _, values, rows = randomized_svd(x, rank, n_iter=4, random_state=0)
    return values[:rank], rows[:rank].T


def assign_flats(X: Array, flats: Flats, stray: Array | None) -> tuple[Indices, Array]:
    """Return the likeliest flat (N,) of each item, −1 for the background, and ``log(π p(x))`` (N,) of it.

    With z = Bᵀ(x − o) and ρ² = ‖x − o‖² − ‖z‖², a flat's log density is
    ``−½ (Σ z²/ℓ + Σ log ℓ + ρ²/σ² + (d − r) log σ²)``. `stray` (N,) is the background's; None: nobody is an outlier.
    """
    n, d, r = flats.bases.shape
    labels, best = np.empty(len(X), dtype=np.intp), np.empty(len(X))
    stacked = np.moveaxis(flats.bases, 0, 1).reshape(d, n * r)
    shift = np.einsum("kd,kdr->kr", flats.offsets, flats.bases)
    constant = np.log(flats.weights) - 0.5 * (np.log(flats.variances).sum(axis=1) + (d - r) * np.log(flats.noise))
    squared_offsets = np.einsum("kd,kd->k", flats.offsets, flats.offsets)
    for start in range(0, len(X), BLOCK):
        x = X[start : start + BLOCK]
        z2 = ((x @ stacked).reshape(len(x), n, r) - shift) ** 2
        length = np.einsum("ij,ij->i", x, x)[:, None] - 2.0 * x @ flats.offsets.T + squared_offsets
        across = np.maximum(length - z2.sum(axis=2), 0.0)
        score = constant - 0.5 * (np.einsum("ikr,kr->ik", z2, 1.0 / flats.variances) + across / flats.noise)
        code = np.argmax(score, axis=1)
        value = score[np.arange(len(x)), code]
        if stray is not None:
            outside = np.log(flats.stray_weight) + stray[start : start + BLOCK]
            code, value = np.where(outside > value, -1, code), np.maximum(outside, value)
        labels[start : start + BLOCK], best[start : start + BLOCK] = code, value
    return labels, best


def criterion(best: Array, flats: Flats, affine: bool) -> float:
    """Return the BIC of an assignment from its log densities (N,): smaller is better."""
    return float(-2.0 * best.sum() + len(flats) * parameters_of(flats, affine) * np.log(best.size))


def parameters_of(flats: Flats, affine: bool) -> int:
    """Return what one flat costs: r orthonormal vectors, each with its variance, a weight, and an offset if affine.

    The vectors count, not their span alone (r(d − r) numbers): that is the count under which noise is not taken for one
    more direction where r is about d/2.
    """
    _, d, r = flats.bases.shape
    return d * r - r * (r - 1) // 2 + 1 + (d if affine else 0)


def refine_flats(
    X: Array, labels: Indices, rank: int, *, affine: bool, stray: Array | None, steps: int = 50
) -> tuple[Flats, Indices, Array]:
    """Return flats, labels and log densities after alternating between fitting and assigning until neither moves."""
    flats = fit_flats(X, labels, rank, affine=affine)
    nowhere = np.full(len(X), -1, dtype=np.intp), np.full(len(X), -np.inf)
    for _ in range(steps):
        new, _ = assign_flats(X, flats, stray) if len(flats) else nowhere
        moved = float(np.mean(new != labels))
        labels = new
        flats = fit_flats(X, labels, rank, affine=affine)
        if moved < STANDSTILL or len(flats) == 0:
            break
    return flats, *(assign_flats(X, flats, stray) if len(flats) else nowhere)


def merge_flats(flats: Flats, n_items: int, *, affine: bool, least: int = 1, forced: bool = False) -> Indices:
    """Return the new number (n,) of each flat after joining those that one flat serves as well.

    Joining a and b changes the BIC by what the joint flat leaves over in units of σ², by its volume, minus one flat's
    parameters. The joint scatter is taken from the leading parts of both (2r + 1 directions), so it costs the same
    whatever d is. The best pair goes first, as long as one lowers the BIC and more than `least` flats remain;
    `forced` joins the least harmful pairs too, until `least` remain.
    """
    n, d, r = flats.bases.shape
    saved = np.log(n_items) * parameters_of(flats, affine)
    count = flats.weights * n_items
    center = flats.offsets.copy()
    volume = np.log(flats.variances).sum(axis=1)
    # rows whose scatter is that of the flat's items inside it, count · B diag(ℓ) Bᵀ
    parts = np.swapaxes(flats.bases, 1, 2) * np.sqrt(flats.variances * count[:, None])[:, :, None]
    group = np.arange(n)

    def join(a: int, others: Indices) -> tuple[Array, Array, Array, Array]:
        """Return the change of the BIC, and parts, center and volume, of a joined with each of the others."""
        both = count[a] + count[others]
        gap = (center[a] - center[others]) * np.sqrt(count[a] * count[others] / both)[:, None]
        first = np.broadcast_to(parts[a], (others.size, r, d))
        rows = np.concatenate([first, parts[others], gap[:, None]], axis=1)
        values, vectors = np.linalg.eigh(rows @ np.swapaxes(rows, 1, 2))
        values, vectors = np.maximum(values[:, ::-1], 0.0), vectors[:, :, ::-1]
        spread = np.log(np.maximum(values[:, :r] / both[:, None], flats.noise)).sum(axis=1)
        left_over = values[:, r:].sum(axis=1) / flats.noise
        filled = both * spread - count[a] * volume[a] - count[others] * volume[others]
        mixing = both * np.log(both) - count[a] * np.log(count[a]) - count[others] * np.log(count[others])
        middle = (count[a] * center[a] + count[others, None] * center[others]) / both[:, None]
        return left_over + filled - 2.0 * mixing - saved, np.swapaxes(vectors[:, :, :r], 1, 2) @ rows, middle, spread

    change = np.full((n, n), np.inf)
    for a in range(n - 1):
        change[a, a + 1 :] = join(a, np.arange(a + 1, n))[0]
    for _ in range(n - least):
        a, b = (int(i) for i in np.unravel_index(np.argmin(change), change.shape))
        if change[a, b] == np.inf or (change[a, b] >= 0 and not forced):
            break
        _, joint, middle, spread = join(a, np.array([b]))
        parts[a], center[a], volume[a] = joint[0], middle[0], spread[0]
        count[a] += count[b]
        group[group == b] = a
        change[b, :] = change[:, b] = np.inf
        others = np.setdiff1d(np.unique(group), [a])
        change[np.minimum(a, others), np.maximum(a, others)] = join(a, others)[0]
    return np.unique(group, return_inverse=True)[1]
