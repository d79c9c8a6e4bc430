"""What the crowd cares about: the metric's eigenvectors in the names of features, and how sure they are.

Features are always measured in their spreads over the items, D, so the units of a table do not matter here. Let
DMD = Σ λ_i w_i w_iᵀ, and let M' be any metric, such as a draw from the posterior (`crowdmetric.solvers.posterior`)::

    strength of w_i under M'     w_iᵀDM'Dw_i over the mean of all i: 1 if all directions count alike
    share of w_i under M'        w_iᵀDM'Dw_i · w_iᵀCw_i over the sum of all i, C the covariance of the items over D
    angle of M' from w_i         between w_i and the i-th eigenvector of DM'D
    weight of feature j          M'_jj · Var(x_j) over the sum of all j: the features as they came, not as preprocessed

With draws, each number is the median over them and its interval holds 90 % of them (`crowdmetric.draw_intervals`);
without, it is that of M itself. The metric's scale, known less surely than its shape, drops out of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdmetric.draw_intervals import Intervals, least_square, parts_from
from crowdmetric.importance import feature_weights, raw_features
from crowdmetric.persist import SavedModel
from crowdmetric.preprocess import spreads_of
from crowdmetric.symmetric import smat

__all__ = ["Directions", "angles_from", "find_directions", "numbers_of", "symmetric_fit"]

Array = NDArray[np.float64]
Number = TypeVar("Number")

LEVEL = 0.90
# Share of the numbers of M outside their intervals from which the reader is told that M and its draws disagree.
OFTEN_OUTSIDE = 0.25


@dataclass(frozen=True)
class Directions:
    """Eigenvectors of the metric, the most important first.

    Intervals are None if the estimator has no uncertainty.

    Attributes
    ----------
    vectors : (d, d)
        w_i in its columns.
    strengths, shares : (d,)
        Strength and share of each direction.
    weights : (features,)
        Weight of each feature.
    strength_intervals, share_intervals, weight_intervals : Intervals or None
        Intervals of the three above.
    angles : (d,) or None
        90 % of the draws have their i-th eigenvector within this many degrees of w_i.
    units : (d,)
        The diagonal of D.
    loadings : (d, features)
        How much each feature, as it came, moves an item along w_i when it changes by its spread.
    plane : (n, 2, 2) or None
        What the draws are in the plane of w_1 and w_2, over the mean strength.
    assumed : {'', 'diagonal', 'isotropic'}
        The structure that all draws have: what follows from it is assumed, and was not measured.
    fitted : tuple of arrays
        Strengths, shares and weights of M itself where those above are medians of draws.
    """

    vectors: Array
    strengths: Array
    shares: Array
    weights: Array
    strength_intervals: Intervals | None
    share_intervals: Intervals | None
    weight_intervals: Intervals | None
    angles: Array | None
    units: Array
    loadings: Array
    plane: Array | None
    assumed: str = ""
    fitted: tuple[Array, ...] = ()

    @property
    def disagree(self) -> bool:
        """Whether a quarter or more of the numbers of M itself are not inside their intervals."""
        sure = (self.strength_intervals, self.share_intervals, self.weight_intervals)
        outside = [~one.contains(value) for one, value in zip(sure, self.fitted, strict=False) if one is not None]
        return bool(outside) and float(np.mean(np.concatenate(outside))) >= OFTEN_OUTSIDE


def symmetric_fit(model: SavedModel) -> tuple[Array, Array] | None:
    """Return S and the covariance of svec S if the estimator has them for every direction."""
    S, C = model.fitted.get("symmetric_metric_"), model.fitted.get("symmetric_covariance_")
    if S is None or C is None or not np.all(np.isfinite(C)):
        return None
    return S, C


def find_directions(model: SavedModel, items: Array) -> Directions:
    """Return the directions of a model of these `items` (N, d), as the fit saw them."""
    units = spreads_of(items)
    vectors = np.linalg.eigh(model.metric * units[:, None] * units)[1][:, ::-1]
    found = model.fitted.get("metric_draws_")
    if found is None:
        here = {name: of(model.metric[None])[0] for name, of in numbers_of(model, items, vectors).items()}
        loadings = _loadings(model, vectors / units[:, None], items)
        return Directions(vectors, *_in_order(here), None, None, None, None, units, loadings, None)
    draws = smat(np.asarray(found, dtype=np.float64))
    # the strongest first, also where that is not the order of M
    least = least_square(model.metric)
    strength = parts_from(numbers_of(model, items, vectors)["strengths"](draws), LEVEL, least).estimate
    vectors = vectors[:, np.argsort(-strength, kind="stable")]
    numbers = numbers_of(model, items, vectors)
    sure = {name: parts_from(of(draws), LEVEL, least) for name, of in numbers.items()}
    fitted = tuple(of(model.metric[None])[0] for of in numbers.values())
    angles = np.quantile(angles_from(vectors, draws, units), LEVEL, axis=0)
    plane = _plane(draws, units[:, None] * vectors)
    assumed = _structure(draws, numbers["strengths"](draws))
    here = {name: one.estimate for name, one in sure.items()}
    loadings = _loadings(model, vectors / units[:, None], items)
    return Directions(
        vectors, *_in_order(here), *_in_order(sure), angles, units, loadings, plane, assumed, fitted
    )  # fmt: skip


def numbers_of(model: SavedModel, items: Array, vectors: Array) -> dict[str, Callable[[Array], Array]]:
    """Return the functions of metrics (n, d, d) that the report's tables show.

    Strengths and shares of the directions `vectors` (d, d), each (n, d), and weights of features (n, features).
    """
    units = spreads_of(items)
    W = units[:, None] * vectors  # D w_i
    C = np.cov(items / units, rowvar=False).reshape(vectors.shape)
    spread = np.einsum("di,de,ei->i", vectors, C, vectors)
    raw, raw_spread = raw_features(model, items)

    def strengths(M: Array) -> Array:
        along = np.einsum("di,nde,ei->ni", W, M, W, optimize=True)
        return _over(along, along.mean(axis=1))

    def shares(M: Array) -> Array:
        parts = np.einsum("di,nde,ei->ni", W, M, W, optimize=True) * spread
        return _over(parts, parts.sum(axis=1))

    def weights(M: Array) -> Array:
        return feature_weights(M, raw, raw_spread)

    return {"strengths": strengths, "shares": shares, "weights": weights}


def angles_from(vectors: Array, metrics: Array, units: Array) -> Array:
    """Return the angles (n, d), in degrees, between `vectors` and the eigenvectors of DMD, by falling eigenvalue."""
    other = np.linalg.eigh(metrics * units[:, None] * units)[1][:, :, ::-1]
    cosine = np.abs(np.einsum("di,ndi->ni", vectors, other))
    return np.asarray(np.degrees(np.arccos(np.minimum(cosine, 1.0))))


def _structure(draws: Array, strengths: Array) -> str:
    """Return the structure that metrics (n, d, d) with these strengths (n, d) have in common, if any."""
    if draws.shape[1] == 1:
        return ""
    if np.ptp(strengths, axis=0).max() < 1e-9:
        return "isotropic"
    off_diagonal = draws * (1.0 - np.eye(draws.shape[1]))
    return "" if np.any(off_diagonal) else "diagonal"


def _in_order(numbers: dict[str, Number]) -> tuple[Number, Number, Number]:
    return numbers["strengths"], numbers["shares"], numbers["weights"]


def _plane(draws: Array, W: Array) -> Array | None:
    """Return the draws in the plane of the two leading directions, (n, 2, 2), over their mean strength."""
    if len(W) < 2:
        return None
    block = np.einsum("di,nde,ej->nij", W[:, :2], draws, W[:, :2], optimize=True)
    return np.asarray(block / np.einsum("di,nde,ei->n", W, draws, W, optimize=True)[:, None, None] * len(W))


def _over(parts: Array, size: Array) -> Array:
    """Return parts (n, k) over sizes (n,), zero if there is no size."""
    positive = size > 0
    return np.where(positive[:, None], parts / np.where(positive, size, 1.0)[:, None], 0.0)


def _loadings(model: SavedModel, vectors: Array, items: Array) -> Array:
    """Return (d, features): coordinates w_iᵀz = w_iᵀT(x − μ) by x_j, times the spread of x_j, of unit norm."""
    T, spread = raw_features(model, items)
    raw = vectors.T @ T * spread
    size = np.linalg.norm(raw, axis=1, keepdims=True)
    return raw / np.where(size > 0, size, 1.0)
