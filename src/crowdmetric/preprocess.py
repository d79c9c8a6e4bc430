"""Items before they are learned from: scaled, reduced, whitened, and the way back.

Every step is linear, so all of them together are one matrix and one shift, z = T(x − μ)  (k, d), and whatever is
learned about z is a statement about x::

    ‖z − z'‖²_M = ‖x − x'‖²_{TᵀMT}              the metric in the space the items came from, exactly
    ⟨zzᵀ − z'z'ᵀ, M⟩ + ⟨z − z', v⟩  =  ⟨xxᵀ − x'x'ᵀ, TᵀMT⟩ + ⟨x − x', Tᵀ(v − 2MTμ)⟩      and so are the answers

Nothing is lost by it, also where T throws directions away: TᵀMT is then singular, and says so. The shift μ changes
no distance; subspaces through the origin become affine ones (``StitchedMetric(affine=True)``).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from crowdmetric.checks import numeric_array
from crowdmetric.errors import DataError

__all__ = [
    "DIFFERENT_UNITS",
    "WORTH_A_WORD",
    "ItemMap",
    "scale_ratio",
    "spreads_of",
    "values_to_compare",
    "varying_features",
]

Array = NDArray[np.float64]

# Features whose standard deviations differ by more than this factor are taken to be in different units. In seven real
# tables with all features on one scale the factor was between 1 and 9. In four tables with different units it was 8,
# 12, 12 and 57, so three of them are recognized. Above the second factor a note is printed.
DIFFERENT_UNITS, WORTH_A_WORD = 10, 3


def varying_features(items: ArrayLike) -> NDArray[np.bool_]:
    """Return which features of items (N, d) vary by more than rounding.

    A range counts as rounding if it is at most N ε times the largest value of the feature, as of a sum of N numbers, or
    ε times the median range of all features, as of a dead coordinate of an embedding; ε is that of double precision.
    """
    X = np.asarray(items, dtype=np.float64)
    epsilon = np.finfo(np.float64).eps
    size = np.abs(X).max(axis=0)
    reach = X.max(axis=0) / 2.0 - X.min(axis=0) / 2.0  # half the range: the whole may be too large for a number
    varies = reach > len(X) * epsilon * size
    if varies.any():
        varies &= reach > epsilon * np.quantile(reach[varies], 0.5, method="higher")
    return np.asarray(varies)


def spreads_of(items: ArrayLike) -> Array:
    """Return the standard deviation (d,) of every feature over items (N, d); 1 for one that does not vary."""
    X = np.asarray(items, dtype=np.float64)
    return np.where(varying_features(X), X.std(axis=0), 1.0)


def values_to_compare(items: ArrayLike) -> Array:
    """Return two values (2, d) of every feature of items (N, d) that exist: its 10th and 90th percentile.

    The least and the largest value where these are equal, so 0 and 1 for any feature of 0 and 1.
    """
    X = np.asarray(items, dtype=np.float64)
    low, high = np.quantile(X, [0.1, 0.9], axis=0, method="inverted_cdf")
    return np.where(low == high, [X.min(axis=0), X.max(axis=0)], [low, high])


def scale_ratio(items: ArrayLike) -> tuple[float, int, int]:
    """Return how many times the widest feature of items (N, d) varies as much as the narrowest, and which they are.

    A feature of two values, 0 and 1 say, counts as if both were equally common, and a constant one not at all.
    """
    X = np.asarray(items, dtype=np.float64)
    size = np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)  # squares of 1e200 would overflow
    Z = X / size
    low, high = Z.min(axis=0), Z.max(axis=0)
    two_values = np.all((low == Z) | (high == Z), axis=0)
    spread = np.where(two_values, (high - low) / 2.0, Z.std(axis=0)) * size
    varies = np.flatnonzero(varying_features(X))
    if varies.size < 2:
        return 1.0, 0, 0
    largest, smallest = varies[np.argmax(spread[varies])], varies[np.argmin(spread[varies])]
    with np.errstate(over="ignore", divide="ignore"):
        return float(spread[largest] / spread[smallest]), int(largest), int(smallest)


class ItemMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Scale and reduce items, and map a metric of the result back to the items.

    Features that are the same for all items, up to rounding, are left out first: they say nothing, and in units of
    their spread rounding would be as large as any other feature.

    Parameters
    ----------
    standardize : bool
        Divide every feature by its standard deviation: for features in different units, not for embeddings.
    components : int, float or None
        Number of principal directions to keep, or the share (between 0 and 1) of the variance that they explain.
        None: all features, as they are.
    whiten : bool
        Give the kept directions variance 1. A metric can undo it, so it changes what a fit starts from and
        shrinks toward, never what it can express.
    center : bool
        Subtract the mean, as principal directions need; False leaves subspaces through the origin where they are.
    random_state : int
        Random seed of the randomized PCA that scikit-learn uses for large tables.

    Attributes
    ----------
    matrix_, mean_ : (k, d), (d,)
        T, with zeros for features that were left out, and μ.
    values_ : (2, d)
        The two values of every feature that `crowdmetric.importance` compares.
    explained_variance_ratio_ : float
        Share of the variance (after standardizing) that is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.preprocess import ItemMap
    >>> embeddings = np.random.default_rng(0).normal(size=(100, 3)) @ np.random.default_rng(1).normal(size=(3, 20))
    >>> reduce = ItemMap(components=0.99)
    >>> items = reduce.fit_transform(embeddings)
    >>> items.shape
    (100, 3)
    >>> reduce.metric_to_original(np.eye(3)).shape
    (20, 20)
    """

    matrix_: Array
    mean_: Array
    values_: Array
    explained_variance_ratio_: float

    def __init__(
        self,
        *,
        standardize: bool = False,
        components: int | float | None = None,
        whiten: bool = False,
        center: bool = True,
        random_state: int = 0,
    ) -> None:
        self.standardize = standardize
        self.components = components
        self.whiten = whiten
        self.center = center
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Find T and μ from items (N, d)."""
        from sklearn.decomposition import PCA  # noqa: PLC0415 - takes a while to load
        from sklearn.preprocessing import StandardScaler  # noqa: PLC0415 - takes a while to load

        numeric_array(X, "X")
        items: Array = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        self.values_ = values_to_compare(items)
        varies = np.flatnonzero(varying_features(items))
        if not varies.size:
            raise DataError("no feature differs between items, up to rounding; give features in which items differ")
        kept = items[:, varies]
        components = _check_components(self.components, kept.shape)
        scaler = StandardScaler(with_std=self.standardize).fit(kept)
        scale = scaler.scale_ if self.standardize else np.ones(varies.size)
        if not self.center and (components is not None or self.whiten):
            raise DataError("center=False has no principal directions; leave it out, or components and whiten")
        self.mean_ = items.mean(axis=0) * self.center
        self.mean_[varies] = scaler.mean_ * self.center
        self.explained_variance_ratio_ = 1.0
        T = np.diag(1.0 / scale)
        if components is not None or self.whiten:
            pca = PCA(components, random_state=self.random_state).fit(scaler.transform(kept))
            # directions without variance cannot be whitened, and say nothing
            seen = pca.explained_variance_ > 1e-12 * pca.explained_variance_[0]
            stretch = 1.0 / np.sqrt(pca.explained_variance_[seen]) if self.whiten else np.ones(seen.sum())
            T = stretch[:, None] * pca.components_[seen] / scale
            self.explained_variance_ratio_ = float(np.sum(pca.explained_variance_ratio_))
        self.matrix_ = np.zeros((len(T), items.shape[1]))
        self.matrix_[:, varies] = T
        return self

    @property
    def _n_features_out(self) -> int:
        return int(self.matrix_.shape[0])

    def transform(self, X: ArrayLike) -> Array:
        """Return ``z = T(x − μ)`` (N, k) of items (N, d), the ones it was fitted to or new ones."""
        check_is_fitted(self)
        numeric_array(X, "X")
        items: Array = validate_data(self, X, reset=False, dtype=np.float64)
        return (items - self.mean_) @ self.matrix_.T

    def metric_to_original(self, metric: ArrayLike) -> Array:
        """Return ``TᵀMT`` (d, d), the metric of x that M (k, k) is of z: distances agree."""
        check_is_fitted(self)
        return self.matrix_.T @ self._of_result(metric, "metric", 2) @ self.matrix_

    def points_to_original(self, metric: ArrayLike, points: ArrayLike) -> Array:
        """Return the pseudo-ideal points ``Tᵀ(v − 2MTμ)`` (K, d) that go with it: answers agree."""
        M = self._of_result(metric, "metric", 2)
        v = self._of_result(points, "points", 1)
        return (v - 2.0 * (self.matrix_ @ self.mean_) @ M) @ self.matrix_

    def _of_result(self, array: ArrayLike, name: str, axes: int) -> Array:
        given = np.asarray(numeric_array(array, name), dtype=np.float64)
        k = self._n_features_out
        if given.ndim != 2 or given.shape[-axes:] != (k,) * axes:
            wanted = f"({k}, {k})" if axes == 2 else f"(K, {k})"
            raise DataError(
                f"{name} has shape {given.shape}, but items have {k} features after preprocessing; give {wanted}"
            )
        return given

    def units(self) -> tuple[NDArray[np.intp], Array] | None:
        """Return which features the coordinates of z are (k,), and their units; None for principal directions."""
        check_is_fitted(self)
        if self.components is not None or self.whiten:
            return None
        kept = np.flatnonzero(np.any(self.matrix_, axis=0))
        return kept, 1.0 / np.diagonal(self.matrix_[:, kept])

    def summary(self) -> str:
        """Return what is done to items, in one line."""
        check_is_fitted(self)
        k, d = self.matrix_.shape
        constant = d - int(np.count_nonzero(np.any(self.matrix_, axis=0)))
        d -= constant
        steps = [] if not constant else [f"without {constant} constant feature{'s' if constant > 1 else ''}"]
        steps += ["standardized"] if self.standardize else []
        if self.components is not None or self.whiten:
            steps.append(f"{k} of {d} principal directions ({self.explained_variance_ratio_:.1%} of the variance)")
        steps += ["whitened"] if self.whiten else []
        return ", ".join(steps) if steps else "centered" if self.center else "as they are"


def _check_components(components: Any, shape: tuple[int, ...]) -> int | float | None:
    if components is None:
        return None
    most = min(shape)
    whole = isinstance(components, int | np.integer) and not isinstance(components, bool)
    share = isinstance(components, float | np.floating) and 0 < components < 1
    if not share and not (whole and 1 <= components <= most):
        raise DataError(
            f"components={components!r} is neither a whole number from 1 to {most} (the smaller of items and "
            "features) nor a share of the variance between 0 and 1"
        )
    return components
