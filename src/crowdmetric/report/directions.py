"""What the crowd cares about: the metric's eigenvectors in the names of features, and how sure they are.

With D the units (ones, or the features' spreads over the items where they differ tenfold), let DMD = Σ λ_i w_i w_iᵀ.
A direction's *strength* is λ_i over the mean of all: 1 if all directions count alike. The metric's scale, known less
surely than its shape, drops out. Let C be the covariance of svec of the symmetric fit S, the centre of intervals, and

    q_ij = w_iᵀDSDw_j / c        c = tr(DSD)/d        ∂q_ij = (svec(D w_i w_jᵀ D) − q_ij svec(D²)/d) / c

so that strengths have variances ∂q_iiᵀ C ∂q_ii, and a direction's angle has, to first order, the variance
Σ_{j≠i} Var(q_ij) / (λ_i − λ_j)². A strength is that of the direction shown: that the direction itself was found from
the answers is told by its angle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from crowdmetric.estimators.population_verdict import LOOSE_SCALE
from crowdmetric.persist import SavedModel
from crowdmetric.symmetric import svec

__all__ = ["Directions", "find_directions", "symmetric_fit", "units_of"]

Array = NDArray[np.float64]

LEVEL = 0.90
# Spreads of features that differ by more are taken as units.
TENFOLD = 10.0


@dataclass(frozen=True)
class Directions:
    """Eigenvectors of the metric, the most important first.

    Attributes
    ----------
    vectors : (d, d)
        w_i in its columns.
    strengths : (d,)
        λ_i over their mean.
    shares : (d,)
        Of the mean squared learnt distance between items.
    low, high : (d,)
        Ends of a 90 % interval; NaN where the estimator tells no uncertainty, or the scale is hardly known.
    angles : (d,)
        Standard error of the direction, in degrees; NaN likewise.
    units : (d,)
        The diagonal of D.
    in_spreads : bool
        Whether that is features' spreads.
    loadings : (d, features)
        How much each feature, as it came, moves an item along w_i when it changes by its spread.
    plane : (3, 3) or None
        Covariance of (q₁₁, q₁₂, q₂₂).
    """

    vectors: Array
    strengths: Array
    shares: Array
    low: Array
    high: Array
    angles: Array
    units: Array
    in_spreads: bool
    loadings: Array
    plane: Array | None

    @property
    def has_intervals(self) -> bool:
        """Whether the estimator tells how sure it is."""
        return bool(np.isfinite(self.low).all())


def symmetric_fit(model: SavedModel) -> tuple[Array, Array] | None:
    """Return S and C where the estimator tells them, and tells of every direction."""
    S, C = model.fitted.get("symmetric_metric_"), model.fitted.get("metric_covariance_")
    if S is None or C is None or not np.all(np.isfinite(C)):
        return None
    return S, C


def units_of(items: Array) -> tuple[Array, bool]:
    """Return the units (d,) of features, and whether they are their spreads."""
    spread = items.std(axis=0)
    seen = spread[spread > 0]
    if seen.size and seen.max() > TENFOLD * seen.min():
        return np.where(spread > 0, spread, 1.0), True
    return np.ones(items.shape[1]), False


def find_directions(model: SavedModel, items: Array) -> Directions:
    """Return the directions of a model of these `items` (N, d), as the fit saw them."""
    units, in_spreads = units_of(items)
    M = model.metric * units[:, None] * units
    values, vectors = np.linalg.eigh(M)
    values, vectors = values[::-1], vectors[:, ::-1]
    spread = np.cov(items / units, rowvar=False).reshape(M.shape)
    parts = values * np.einsum("di,de,ei->i", vectors, spread, vectors)
    shares = parts / parts.sum() if parts.sum() > 0 else np.zeros(len(values))
    size = float(np.mean(values))
    values = values / size if size > 0 else values
    low, high, angles, plane = _uncertainty(model, values, vectors, units)
    loadings = _loadings(model, vectors / units[:, None] if in_spreads else vectors, items)
    return Directions(vectors, values, shares, low, high, angles, units, in_spreads, loadings, plane)


def _uncertainty(
    model: SavedModel, strengths: Array, vectors: Array, units: Array
) -> tuple[Array, Array, Array, Array | None]:
    """Return the ends of intervals (d,), angles (d,), and the covariance of the leading plane."""
    d = len(strengths)
    nothing = np.full(d, np.nan)
    known = symmetric_fit(model)
    if known is None:
        return nothing, nothing, nothing, None
    S, C = known
    W = units[:, None] * vectors  # D w_i
    size = float(np.einsum("di,de,ei->", W, S, W)) / d
    mean = svec(np.diag(units**2)) / d
    if size <= 0 or np.sqrt(mean @ C @ mean) > LOOSE_SCALE * size:  # nothing linear can be said of a ratio to it
        return nothing, nothing, nothing, None
    q = W.T @ S @ W / size
    variance, slopes = np.empty((d, d)), np.empty((min(d, 2), d, len(mean)))
    for i in range(d):
        both = 0.5 * (W[:, i, None] * W.T[:, None, :] + W.T[:, :, None] * W[None, :, i])
        slope = (svec(both) - q[i, :, None] * mean) / size
        variance[i] = np.einsum("jp,jp->j", slope @ C, slope)
        if i < 2:
            slopes[i] = slope
    variance = np.maximum(variance, 0.0)
    half = norm.ppf(0.5 + LEVEL / 2) * np.sqrt(np.diag(variance))
    gaps = (strengths[:, None] - strengths) ** 2
    np.fill_diagonal(gaps, np.inf)
    angles = np.degrees(np.sqrt(np.sum(variance / np.maximum(gaps, 1e-300), axis=1)))
    plane = None
    if d > 1:
        leading = slopes[[0, 0, 1], [0, 1, 1]]
        plane = leading @ C @ leading.T
    return np.diag(q) - half, np.diag(q) + half, np.minimum(angles, 90.0), plane


def _loadings(model: SavedModel, vectors: Array, items: Array) -> Array:
    """Return (d, features): coordinates w_iᵀz = w_iᵀT(x − μ) by x_j, times the spread of x_j, of unit norm."""
    if model.preprocessing is None:
        raw = vectors.T * items.std(axis=0)
    else:
        T = model.preprocessing.matrix_
        raw = (vectors.T @ T) * (items @ np.linalg.pinv(T).T).std(axis=0)
    size = np.linalg.norm(raw, axis=1, keepdims=True)
    return raw / np.where(size > 0, size, 1.0)
