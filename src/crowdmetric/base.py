"""What every fitted metric can do: distances, coordinates, predictions. Subclasses fill in `fit`.

The vocabulary is scikit-learn's (`fit`, `predict`, `score`, `transform`) and metric-learn's (`components_`,
`get_mahalanobis_matrix`, `pair_distance`, `pair_score`, `get_metric`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from crowdmetric.checks import as_array, numeric_array
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError, NotIdentifiedWarning
from crowdmetric.inputs import (
    SIGNS,
    AskedRows,
    check_items,
    is_by_row,
    names_of_features,
    read_asked,
    read_pairs,
    read_rows,
)
from crowdmetric.losses import Loss, get_loss
from crowdmetric.preprocess import varying_features
from crowdmetric.solvers.solution import Solution
from crowdmetric.summary import InMemory, fitted_attributes, summary_of
from crowdmetric.symmetric import components_of
from crowdmetric.tables import Column, Items, features_of, ids_of, is_data_frame, labeled_matrix
from crowdmetric.tables.columns import listed

__all__ = ["CrowdMetric"]

Array = NDArray[Any]


class CrowdMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the estimators: everything that follows from a metric and people's pseudo-ideal points.

    Attributes
    ----------
    metric_
        (d, d) positive semi-definite (unless an estimator drops that constraint).
    components_
        (d, d) L with ``metric_ = L.T @ L``.
    users_
        (K,) people, in the order of the next two.
    pseudo_ideal_points_, ideal_points_
        (K, d) ``v = −2 M u`` and ``u``, the latter of least norm where M is singular; absent where an estimator
        locates nobody.
    objective_, solution_
        Mean loss at the optimum; how the fit ended.
    questions_
        (n, 2) rows of the items that were compared, at most 10,000 of all questions, as often as they were asked, for
        `crowdmetric.importance`; absent where items were given as vectors, or where an estimator learns nothing about
        people.
    """

    items: ArrayLike | None
    loss: str | Loss
    beta: float

    metric_: Array
    components_: Array
    users_: NDArray[Any]
    pseudo_ideal_points_: Array
    ideal_points_: Array
    objective_: float
    solution_: Solution

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that shares `items`, of which there may be millions."""
        parameters = self.get_params(deep=False)
        items = parameters.pop("items")
        twin = type(self)(items, **{name: clone(value, safe=False) for name, value in parameters.items()})
        for setting in ("_metadata_request", "_sklearn_output_config"):  # what set_fit_request and set_output keep
            if hasattr(self, setting):
                setattr(twin, setting, deepcopy(getattr(self, setting)))
        return twin

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        answers_are_real = self.loss == "squared" or getattr(self.loss, "name", None) == "squared"
        if answers_are_real:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        else:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_class=False)
        tags.target_tags.required = True
        tags.input_tags.three_d_array = True
        return tags

    def _forget(self) -> None:
        """Remove what an earlier fit found: the next one may find less."""
        for name in fitted_attributes(self):
            delattr(self, name)

    def _finish(
        self, metric: Array, users: NDArray[Any], points: Array | None, solution: Solution,
        labels: NDArray[Any] = SIGNS,
    ) -> None:  # fmt: skip
        """Set what every fit leaves behind; `points` is None if nobody was located, `labels` are what y held."""
        self.metric_ = metric
        self.components_ = components_of(metric)
        self.users_ = users
        if points is not None:
            self.pseudo_ideal_points_ = points
            self.ideal_points_ = self._ideal(points)
        self.solution_ = solution
        self.objective_ = solution.objective
        self.n_features_in_ = metric.shape[0]
        names = names_of_features(self.items)
        if names is not None and len(names) == metric.shape[0]:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if self._loss().needs_binary:
            self.classes_ = labels.copy()
        self._name_constants()

    def _name_constants(self) -> None:
        """Warn of features in which no two items differ: no answer says anything about them."""
        if self.items is None or getattr(self, "engine", None) is not None:  # items may be on a device
            return
        names = getattr(self, "feature_names_in_", [f"f{j}" for j in range(len(self.metric_))])
        constant = [names[j] for j in np.flatnonzero(~varying_features(check_items(self.items)))]
        if constant:
            warnings.warn(
                f"all items are alike in {listed(constant, most=6)}, which answers can say nothing about; leave "
                f"{'it' if len(constant) == 1 else 'them'} out",
                NotIdentifiedWarning,
                stacklevel=4,
            )

    def _ideal(self, points: Array) -> Array:
        """Return the ideal points (K, d) of pseudo-ideal ones.

        Where the metric is zero, up to the solver's accuracy, there is no ideal point; the one of least norm is
        returned.
        """
        return np.asarray(-0.5 * points @ np.linalg.pinv(self.metric_, rcond=1e-6, hermitian=True))

    def _loss(self) -> Loss:
        return get_loss(self.loss, self.beta)

    @property
    def item_ids(self) -> Column | None:
        """The ids (N,) of `items`: the index or the column ``item_id`` of a data frame; None for an array."""
        return ids_of(self.items)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def summary(self) -> str:
        """Return what was learned and how the fit ended, and a table with a row per feature.

        Examples
        --------
        >>> from crowdmetric import PopulationMetric
        >>> from crowdmetric.simulate import simulate_crowd
        >>> crowd = simulate_crowd(2, None, None, users=300, comparisons=3, seed=0)
        >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
        >>> print(model.summary().splitlines()[0])
        PopulationMetric: a metric in 2 dimensions
        """
        check_is_fitted(self)
        return summary_of(InMemory.of(self))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the class and the parameters that are not the default; arrays and tables by their shape."""
        shapes = {name: _Shape.of(value) for name, value in self.get_params(deep=False).items()}
        arrays = {name: shape for name, shape in shapes.items() if shape is not None}
        if not arrays:
            return str(super().__repr__(N_CHAR_MAX))
        twin = copy(self)
        for name, shape in arrays.items():
            setattr(twin, name, shape)
        return str(super(CrowdMetric, twin).__repr__(N_CHAR_MAX))

    # ------------------------------------------------------------------------------------- the metric

    def get_mahalanobis_matrix(self) -> Array:
        """Return a copy of the (d, d) metric M."""
        check_is_fitted(self)
        return self.metric_.copy()

    def labeled_metric(self) -> Any:
        """Return the metric as a ``pandas.DataFrame`` with the names of the features on both sides.

        They are those of the data frame that was given as `items`, else f0, f1, ….
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", [f"f{j}" for j in range(len(self.metric_))])
        return labeled_matrix(self.metric_, names)

    def transform(self, X: ArrayLike) -> Array:
        """Return ``X @ components_.T``: Euclidean distance there is the learned distance here."""
        check_is_fitted(self)
        if isinstance(X, Items):
            return self._of_items(X)
        X = features_of(X)
        numeric_array(X, "X")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return X @ self.components_.T

    def _of_items(self, X: Items) -> Array:
        """Return the new coordinates of an `Items` table, whose names scikit-learn cannot see."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None and list(names) != X.feature_names:
            raise DataError(
                f"the items have the features {X.feature_names}, but the fit had {list(names)}; give the same, in order"
            )
        if X.features.shape[1] != self.n_features_in_:
            raise DataError(
                f"the items have {X.features.shape[1]} features, but the metric has {self.n_features_in_}"
                "; use one space"
            )
        return check_items(X.features) @ self.components_.T

    def fit_transform(self, pairs: Any, y: Any = None, **fit_params: Any) -> Array:
        """Learn from the pairs and return the items in the new coordinates, (N, d)."""
        self.fit(pairs, y, **fit_params)
        given: Any = self.items  # with the names it came with: scikit-learn warns where they are missing
        return self.transform(given if is_by_row(pairs) else read_pairs(pairs, given)[0])

    def pair_distance(self, pairs: ArrayLike) -> Array:
        """Return the learned distance ``‖x − x'‖_M`` (T,) of each pair."""
        check_is_fitted(self)
        items, numbers = read_pairs(pairs, self.items)
        coordinates = items @ self.components_.T
        return np.linalg.norm(coordinates[numbers[:, 0]] - coordinates[numbers[:, 1]], axis=1)

    def pair_score(self, pairs: ArrayLike) -> Array:
        """Return minus the distance: larger is more similar."""
        return -self.pair_distance(pairs)

    def get_metric(self) -> Callable[..., float]:
        """Return a function of two vectors that gives their learned distance (or its square)."""
        check_is_fitted(self)
        components = self.components_.copy()

        def metric(u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
            step = components @ (np.asarray(u, dtype=np.float64) - np.asarray(v, dtype=np.float64))
            square = float(step @ step)
            return square if squared else float(np.sqrt(square))

        return metric

    # ------------------------------------------------------------------------------------- the people

    def decision_function(self, pairs: Any, users: Any = None) -> Array:
        """Return ``ψ = ‖x − u‖²_M − ‖x' − u‖²_M`` (T,): negative where the left item is preferred.

        People who were not in the data are given the mean pseudo-ideal point of those who were.
        """
        check_is_fitted(self)
        return self._gaps(read_asked(pairs, users, self.items))

    def _gaps(self, asked: AskedRows) -> Array:
        """Return ψ (T,) of validated questions."""
        left, right = asked.items[asked.pairs[:, 0]], asked.items[asked.pairs[:, 1]]
        # ψ = ⟨δ, M s + v⟩
        pull = (left + right) @ self.metric_ + self._points_of(asked.people)
        return np.einsum("td,td->t", left - right, pull)

    def _find(self, people: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Return whether each of these people (T,) was in the data, and their rows in `users_`."""
        if not self.users_.size:  # no positions of people were kept
            return np.zeros(people.size, dtype=bool), np.zeros(people.size, dtype=np.intp)
        order = np.argsort(self.users_, kind="stable")
        place = np.minimum(np.searchsorted(self.users_, people, sorter=order), self.users_.size - 1)
        found = order[place]
        return self.users_[found] == people, found

    def _unknown_point(self) -> Array:
        """Return the v (d,) assumed for an unknown person."""
        return self.pseudo_ideal_points_.mean(axis=0)

    def _points_of(self, people: NDArray[Any] | None) -> Array:
        """Return the pseudo-ideal point of each comparison's person, (T, d) or (1, d)."""
        if people is None:
            return self._unknown_point()[None]
        known, found = self._find(people)
        if not known.any():
            return self._unknown_point()[None]
        return np.where(known[:, None], self._points_at(found), self._unknown_point())

    def _points_at(self, rows: Any) -> Array:
        """Return the pseudo-ideal points of these rows of `users_`."""
        return self.pseudo_ideal_points_[rows]

    def predict(self, pairs: Any, users: Any = None) -> NDArray[Any]:
        """Return the expected answer of each comparison (ψ itself under the squared loss).

        −1 for left and +1 for right, or as the fit was given them (`classes_`): 0 and 1, booleans, 'left' and 'right'.
        """
        psi = self.decision_function(pairs, users)
        return np.where(psi > 0, self.classes_[1], self.classes_[0]) if self._loss().needs_binary else psi

    def predict_proba(self, pairs: Any, users: Any = None) -> Array:
        """Return ``Pr[left], Pr[right]`` (T, 2); logistic and probit losses only."""
        right = self._loss().probability(self.decision_function(pairs, users))
        return np.column_stack([1.0 - right, right])

    def score(self, pairs: Any, y: Any = None, users: Any = None, sample_weight: Any = None) -> float:
        """Return the share of answers predicted correctly (R² under the squared loss)."""
        from sklearn.metrics import accuracy_score, r2_score  # noqa: PLC0415 - takes a while to load

        check_is_fitted(self)
        if y is not None and self._loss().needs_binary:
            given = as_array(y, "y")  # written as the fit was given them, even if all are alike
            y = np.where(given == self.classes_[1], 1, -1) if np.all(np.isin(given, self.classes_)) else y
        rows = read_rows(pairs, y, users, sample_weight, self.items, self._loss(), unnamed=True)
        # answers without users are those of the average person, even if somebody is called 0
        unnamed = users is None and not (isinstance(pairs, Comparisons) or is_data_frame(pairs))
        # items that are given by row number keep these numbers
        asked = rows.pairs if rows.by_row else rows.items[rows.pairs]
        psi = self.decision_function(asked, None if unnamed else rows.users[rows.person])
        if self._loss().needs_binary:
            return float(accuracy_score(rows.response, np.where(psi > 0, 1, -1), sample_weight=rows.weight))
        return float(r2_score(rows.response, psi, sample_weight=rows.weight))


@dataclass(frozen=True)
class _Shape:
    """Stands for an array or a table in a repr."""

    shape: tuple[int, ...]

    @staticmethod
    def of(value: Any) -> _Shape | None:
        """Return the shape of an array, a data frame or a list of lists; None for anything else."""
        if isinstance(value, str | bytes | int | float | bool | None) or callable(value):
            return None
        if isinstance(value, Items):
            return _Shape(value.features.shape)
        shape = getattr(value, "shape", None)
        if shape is None and isinstance(value, list | tuple):
            shape = (len(value), *(np.shape(value[0]) if value else ()))
        return _Shape(tuple(shape)) if isinstance(shape, tuple) and shape else None

    def __repr__(self) -> str:
        return f"<{' × '.join(map(str, self.shape))}>"
