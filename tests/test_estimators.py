"""The public classes: scikit-learn's and metric-learn's conventions, predictions by brute force, options, bad input."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.special import expit, ndtr
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from crowdmetric.base import CrowdMetric
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import ConvergenceWarning, DataError, DroppedRowsWarning, NotIdentifiedError
from crowdmetric.estimators import IdealPointMetric, MatchedMetric, PopulationMetric, StitchedMetric, TasteMetric
from crowdmetric.losses import LOSSES, Logistic, get_loss
from crowdmetric.simulate import SimulatedCrowd, simulate_crowd

CROWD = simulate_crowd(3, 6, 2, users=5, comparisons=6, seed=0)
BOUNDS = {"metric_bound": 3.0, "ideal_bound": 4.0}

MODELS: dict[str, Callable[..., CrowdMetric]] = {
    "joint": lambda crowd=CROWD, **options: IdealPointMetric(crowd.items, **(BOUNDS | options)),
    "stitched": lambda crowd=CROWD, **options: StitchedMetric(
        crowd.items, **(BOUNDS | {"subspaces": crowd.labels} | options)
    ),
}
each_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
each_loss = pytest.mark.parametrize("loss", LOSSES)


def answers(loss: str, crowd: SimulatedCrowd = CROWD) -> np.ndarray:
    return crowd.y if get_loss(loss).needs_binary else crowd.psi


def fitted(make: Callable[..., CrowdMetric], crowd: SimulatedCrowd = CROWD, **options: Any) -> CrowdMetric:
    return make(crowd, **options).fit(crowd.pairs, answers(options.get("loss", "logistic"), crowd), users=crowd.users)


# ------------------------------------------------------------------------------------------- scikit-learn

TABLE = "fits a table of features, one row a sample; a sample here is a pair of items"
WORDING = "fits a table of features and wants scikit-learn's words for what is wrong with it"
LABELS = "fits a table of features with labels of its own; answers are −1 and +1"

EXPECTED_FAILURES = {
    TABLE: """
        dict_unchanged dont_overwrite_parameters dtype_object estimators_dtypes estimators_fit_returns_self
        estimators_overwrite_params estimators_pickle f_contiguous_array_estimator fit2d_predict1d
        fit_check_is_fitted fit_idempotent fit_score_takes_y methods_sample_order_invariance
        methods_subset_invariance n_features_in n_features_in_after_fitting non_transformer_estimators_n_iter
        pipeline_consistency positive_only_tag_during_fit readonly_memmap_input regressor_data_not_an_array
        regressors_int regressors_no_decision_function regressors_train sample_weight_equivalence_on_dense_data
        sample_weights_list sample_weights_not_an_array sample_weights_not_overwritten
        sample_weights_pandas_series sample_weights_shape supervised_y_2d transformer_data_not_an_array
        transformer_general transformer_n_iter transformer_preserve_dtypes
    """,
    WORDING: """
        all_zero_sample_weights_error complex_data estimator_sparse_array estimator_sparse_matrix
        estimator_sparse_tag estimators_empty_data_messages estimators_nan_inf fit2d_1feature fit2d_1sample
        requires_y_none sample_weight_equivalence_on_sparse_data
    """,
    LABELS: """
        classifier_data_not_an_array classifier_not_supporting_multiclass classifiers_classes
        classifiers_one_label classifiers_one_label_sample_weights classifiers_regression_target
        classifiers_train decision_proba_consistency
    """,
}


def expected_failures(estimator: CrowdMetric) -> dict[str, str]:
    return {f"check_{name}": reason for reason, names in EXPECTED_FAILURES.items() for name in names.split()}


@parametrize_with_checks(
    [
        IdealPointMetric(),
        StitchedMetric(),
        IdealPointMetric(loss="squared"),
        PopulationMetric(),
        MatchedMetric(),
        TasteMetric(),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_conventions(estimator, check) -> None:
    check(estimator)


@each_model
def test_clone_shares_the_items(make) -> None:
    model = fitted(make)
    twin = clone(model)
    assert twin.items is model.items
    assert not hasattr(twin, "metric_")
    assert twin.get_params().keys() == model.get_params().keys()
    for name, value in model.get_params().items():
        np.testing.assert_array_equal(twin.get_params()[name], value)


@each_model
def test_clone_keeps_routing_and_output(make) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = make().set_fit_request(users=True).set_output(transform="pandas")
        twin = clone(model)
        assert twin.get_metadata_routing().fit.requests["users"] is True
        twin.fit(CROWD.pairs, CROWD.y, users=CROWD.users)
        assert list(twin.transform(CROWD.items).columns) == list(twin.get_feature_names_out())


@each_model
def test_parameters_round_trip(make) -> None:
    model = make()
    assert model.set_params(beta=2.0, tol=1e-4) is model
    assert (model.get_params()["beta"], model.get_params()["tol"]) == (2.0, 1e-4)
    assert model.get_params()["items"] is CROWD.items
    with pytest.raises(ValueError, match="Invalid parameter 'zeta'"):
        model.set_params(zeta=1.0)


@each_model
@each_loss
def test_pickle(make, loss: str) -> None:
    model = fitted(make, loss=loss)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.metric_, model.metric_)
    np.testing.assert_array_equal(
        again.predict(CROWD.pairs, users=CROWD.users), model.predict(CROWD.pairs, users=CROWD.users)
    )


SPLITTERS = {"of rows": KFold(3, shuffle=True, random_state=0), "of people": GroupKFold(3)}


@each_model
@pytest.mark.parametrize("cv", SPLITTERS.values(), ids=SPLITTERS)
def test_cross_validate_routes_people(make, cv) -> None:
    groups = {"groups": CROWD.users} if isinstance(cv, GroupKFold) else {}
    with sklearn.config_context(enable_metadata_routing=True):
        model = make().set_fit_request(users=True).set_score_request(users=True)
        scores = cross_validate(
            model, CROWD.pairs, CROWD.y, cv=cv, params={"users": CROWD.users} | groups, error_score="raise"
        )
    by_hand = []
    for train, test in cv.split(CROWD.pairs, CROWD.y, **groups):
        model = make().fit(CROWD.pairs[train], CROWD.y[train], users=CROWD.users[train])
        by_hand.append(np.mean(model.predict(CROWD.pairs[test], users=CROWD.users[test]) == CROWD.y[test]))
    np.testing.assert_allclose(scores["test_score"], by_hand)


@each_model
def test_grid_search(make) -> None:
    grid = {"metric_bound": [0.01, 3.0]}
    with sklearn.config_context(enable_metadata_routing=True):
        model = make().set_fit_request(users=True).set_score_request(users=True)
        search = GridSearchCV(model, grid, cv=KFold(3, shuffle=True, random_state=0), error_score="raise")
        search.fit(CROWD.pairs, CROWD.y, users=CROWD.users)
    assert search.best_params_ == {"metric_bound": 3.0}
    assert search.best_estimator_.items is CROWD.items
    np.testing.assert_array_equal(search.best_estimator_.users_, np.unique(CROWD.users))


def test_nested_search_routes_people_twice() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = MODELS["joint"]().set_fit_request(users=True).set_score_request(users=True)
        search = GridSearchCV(model, {"metric_bound": [0.5, 3.0]}, cv=2, error_score="raise")
        scores = cross_validate(search, CROWD.pairs, CROWD.y, cv=2, params={"users": CROWD.users}, error_score="raise")
    assert np.all(scores["test_score"] > 0.4)


@each_model
def test_pandas_output(make) -> None:
    pytest.importorskip("pandas")
    model = fitted(make)
    plain = model.transform(CROWD.items)
    frame = model.set_output(transform="pandas").transform(CROWD.items)
    name = type(model).__name__.lower()
    assert list(frame.columns) == [f"{name}{i}" for i in range(3)]
    np.testing.assert_array_equal(frame.to_numpy(), plain)


@each_model
def test_neighbors_in_a_pipeline(make) -> None:
    model = fitted(make)
    kind = (CROWD.items[:, 0] > 0).astype(int)
    pipeline = make_pipeline(FrozenEstimator(model), KNeighborsClassifier(3)).fit(CROWD.items, kind)
    brute = KNeighborsClassifier(3, metric=model.get_metric(), algorithm="brute").fit(CROWD.items, kind)
    new = np.random.default_rng(0).standard_normal((40, 3))
    np.testing.assert_array_equal(pipeline.predict(new), brute.predict(new))


def test_fit_transform_does_not_take_row_numbers_for_features() -> None:
    """Two features and two items per pair: (T, 2) row numbers would pass for items."""
    crowd = simulate_crowd(2, None, None, users=5, comparisons=6, seed=0)
    model = MODELS["joint"](crowd)
    try:
        coordinates = model.fit_transform(crowd.pairs, crowd.y, users=crowd.users)
    except (AttributeError, DataError):
        return
    np.testing.assert_allclose(coordinates, model.transform(crowd.items))


# -------------------------------------------------------------------------------------------- the metric


@each_model
@each_loss
def test_every_view_of_the_metric_is_the_same(make, loss: str) -> None:
    model = fitted(make, loss=loss)
    M, L = model.metric_, model.components_
    assert np.linalg.eigvalsh(M)[0] >= -1e-14 * np.linalg.norm(M)
    np.testing.assert_allclose(L.T @ L, M, atol=1e-12)
    copy = model.get_mahalanobis_matrix()
    np.testing.assert_array_equal(copy, M)
    copy[:] = 0.0
    assert np.any(model.metric_ != 0.0)

    pairs = CROWD.pairs[:20]
    step = CROWD.items[pairs[:, 0]] - CROWD.items[pairs[:, 1]]
    squared = np.einsum("ti,ij,tj->t", step, M, step)
    np.testing.assert_allclose(model.pair_distance(pairs) ** 2, squared, atol=1e-12)
    np.testing.assert_allclose(model.pair_distance(CROWD.items[pairs]) ** 2, squared, atol=1e-12)
    np.testing.assert_array_equal(model.pair_score(pairs), -model.pair_distance(pairs))
    Z = model.transform(CROWD.items)
    np.testing.assert_allclose(np.sum((Z[pairs[:, 0]] - Z[pairs[:, 1]]) ** 2, axis=1), squared, atol=1e-12)
    distance = model.get_metric()
    x, x_ = CROWD.items[pairs[0]]
    assert distance(x, x_) ** 2 == pytest.approx(squared[0])
    assert distance(x, x_, squared=True) == pytest.approx(squared[0])


@each_model
def test_noise_in_unquantized_answers_does_not_spoil_the_metric(make) -> None:
    """Least squares alone would return a matrix with a negative eigenvalue here, which is no metric."""
    rng = np.random.default_rng(0)
    crowd = simulate_crowd(3, 6, 2, users=10, comparisons=6, seed=0, metric=np.diag([3.0, 1.0, 0.0]))
    model = make(crowd, loss="squared", metric_bound=None, ideal_bound=None)
    model.fit(crowd.pairs, crowd.psi + 3.0 * rng.standard_normal(crowd.psi.size), users=crowd.users)
    assert np.linalg.eigvalsh(model.metric_)[0] >= -1e-14
    np.testing.assert_allclose(model.components_.T @ model.components_, model.metric_, atol=1e-12)
    assert model.objective_ > 0.01


@each_model
def test_objective_is_the_mean_loss(make) -> None:
    """Stage 1 of a stitched fit has its own metrics; with one subspace that is everything, both are the same."""
    crowd = simulate_crowd(2, 1, 2, users=6, comparisons=6, seed=0)
    for loss in LOSSES:
        model = fitted(make, crowd, loss=loss)
        psi = model.decision_function(crowd.pairs, users=crowd.users)
        mean = np.mean(get_loss(loss).value(psi, answers(loss, crowd)))
        assert model.objective_ == pytest.approx(mean, abs=2e-6)  # people are placed again, to 1e-6
        assert 0.0 <= model.solution_.gap <= 1e-8
        assert model.solution_.converged
        assert "Solved" in model.solution_.summary()


# -------------------------------------------------------------------------------------------- the people


@each_model
@each_loss
def test_decision_function_by_brute_force(make, loss: str) -> None:
    model = fitted(make, loss=loss)
    psi = model.decision_function(CROWD.pairs, users=CROWD.users)
    for t in range(0, len(psi), 7):
        x, x_ = CROWD.items[CROWD.pairs[t]]
        v = model.pseudo_ideal_points_[list(model.users_).index(CROWD.users[t])]
        expected = x @ model.metric_ @ x - x_ @ model.metric_ @ x_ + (x - x_) @ v
        assert psi[t] == pytest.approx(expected, abs=1e-12)
    predicted = model.predict(CROWD.pairs, users=CROWD.users)
    if not get_loss(loss).needs_binary:
        np.testing.assert_array_equal(predicted, psi)
        assert not hasattr(model, "classes_")
        return
    np.testing.assert_array_equal(predicted, np.where(psi > 0, 1, -1))
    np.testing.assert_array_equal(model.classes_, [-1, 1])


def test_ideal_points_are_where_people_stand() -> None:
    crowd = simulate_crowd(2, None, None, users=3, comparisons=12, seed=0)
    model = fitted(MODELS["joint"], crowd, loss="squared", metric_bound=None, ideal_bound=None)
    np.testing.assert_allclose(model.ideal_points_, crowd.ideal_points, atol=1e-9)
    np.testing.assert_allclose(model.pseudo_ideal_points_, -2.0 * crowd.ideal_points @ crowd.metric, atol=1e-9)


LINKS = {"logistic": expit, "probit": ndtr}


@each_model
@pytest.mark.parametrize("beta", [1.0, 2.5])
@each_loss
def test_probability_is_the_link(make, loss: str, beta: float) -> None:
    if loss not in LINKS:
        model = fitted(make, loss=loss)
        with pytest.raises(DataError, match=f"the {loss} loss is not a likelihood.*choose loss='logistic'"):
            model.predict_proba(CROWD.pairs, users=CROWD.users)
        return
    model = fitted(make, loss=loss, beta=beta)
    right = LINKS[loss](beta * model.decision_function(CROWD.pairs, users=CROWD.users))
    expected = np.column_stack([1.0 - right, right])
    np.testing.assert_allclose(model.predict_proba(CROWD.pairs, users=CROWD.users), expected, atol=1e-15)


@each_model
def test_strangers_are_the_average_person(make) -> None:
    model = fitted(make)
    mean = model.pseudo_ideal_points_.mean(axis=0)
    x, x_ = CROWD.items[CROWD.pairs[:, 0]], CROWD.items[CROWD.pairs[:, 1]]
    expected = np.einsum("ti,ti->t", x - x_, (x + x_) @ model.metric_ + mean)
    strangers = np.full(len(x), 10_000)
    np.testing.assert_allclose(model.decision_function(CROWD.pairs), expected, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(CROWD.pairs, users=strangers), expected, atol=1e-12)
    mixed = np.where(np.arange(len(x)) % 2, strangers, CROWD.users)
    known = model.decision_function(CROWD.pairs, users=CROWD.users)
    halves = np.where(np.arange(len(x)) % 2, expected, known)
    np.testing.assert_allclose(model.decision_function(CROWD.pairs, users=mixed), halves, atol=1e-12)


@each_model
@each_loss
@pytest.mark.parametrize("asked", ["known", "nobody", "strangers"])
def test_score_is_the_score_of_predict(make, loss: str, asked: str) -> None:
    users = {"known": CROWD.users, "nobody": None, "strangers": CROWD.users + 10_000}[asked]
    model, y = fitted(make, loss=loss), answers(loss)
    weight = np.random.default_rng(0).uniform(0.1, 1.0, len(y))
    measure = accuracy_score if get_loss(loss).needs_binary else r2_score
    predicted = model.predict(CROWD.pairs, users=users)
    assert model.score(CROWD.pairs, y, users=users) == pytest.approx(measure(y, predicted))
    weighted = model.score(CROWD.pairs, y, users=users, sample_weight=weight)
    assert weighted == pytest.approx(measure(y, predicted, sample_weight=weight))


# ---------------------------------------------------------------------------------- ways to say the same


def as_vectors(model: CrowdMetric) -> CrowdMetric:
    return model.fit(CROWD.items[CROWD.pairs], CROWD.y, users=CROWD.users)


def as_comparisons(model: CrowdMetric) -> CrowdMetric:
    return model.fit(Comparisons.from_arrays(CROWD.users, CROWD.pairs, CROWD.y, n_items=len(CROWD.items)))


def as_lists(model: CrowdMetric) -> CrowdMetric:
    return model.fit(CROWD.pairs.tolist(), CROWD.y.tolist(), users=CROWD.users.tolist())


def as_frames(model: CrowdMetric) -> CrowdMetric:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(CROWD.pairs, columns=["left", "right"])
    return model.fit(frame, pandas.Series(CROWD.y), users=pandas.Series(CROWD.users))


def with_names(model: CrowdMetric) -> CrowdMetric:
    return model.fit(CROWD.pairs, CROWD.y, users=np.array([f"person {u:03}" for u in CROWD.users]))


@each_model
@pytest.mark.parametrize("say", [as_vectors, as_comparisons, as_lists, as_frames, with_names])
def test_the_same_said_differently(make, say) -> None:
    # vectors have no labels, and bases need none
    options = {"subspaces": CROWD.bases, "stitch": "ols"} if make is MODELS["stitched"] else {}
    model, other = fitted(make, **options), say(make(**options))
    np.testing.assert_allclose(other.metric_, model.metric_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(other.pseudo_ideal_points_, model.pseudo_ideal_points_, rtol=0, atol=1e-12)
    if say is as_comparisons:
        table = Comparisons.from_arrays(CROWD.users, CROWD.pairs, CROWD.y, n_items=len(CROWD.items))
        expected = model.decision_function(CROWD.pairs, users=CROWD.users)
        np.testing.assert_allclose(other.decision_function(table), expected, atol=1e-10)
        assert other.score(table) == model.score(CROWD.pairs, CROWD.y, users=CROWD.users)


def test_vectors_need_no_items() -> None:
    vectors = CROWD.items[CROWD.pairs]
    model = IdealPointMetric(**BOUNDS).fit(vectors, CROWD.y, users=CROWD.users)
    np.testing.assert_allclose(model.metric_, fitted(MODELS["joint"]).metric_, rtol=0, atol=1e-12)
    assert model.predict(vectors, users=CROWD.users).shape == CROWD.y.shape
    with pytest.raises(DataError, match=r"items is missing; give the \(N, d\) item vectors"):
        model.predict(CROWD.pairs, users=CROWD.users)


@each_model
def test_a_weight_of_two_is_a_row_said_twice(make) -> None:
    weight = np.ones(len(CROWD.y))
    weight[::3] = 2.0
    rows = np.repeat(np.arange(len(CROWD.y)), weight.astype(int))
    model = make().fit(CROWD.pairs, CROWD.y, users=CROWD.users, sample_weight=weight)
    other = make().fit(CROWD.pairs[rows], CROWD.y[rows], users=CROWD.users[rows])
    np.testing.assert_allclose(model.metric_, other.metric_, rtol=0, atol=1e-5)
    assert model.objective_ == pytest.approx(other.objective_, abs=1e-8)
    assert np.abs(model.metric_ - fitted(make).metric_).max() > 1e-2


@each_model
def test_nobody_named_is_one_person(make) -> None:
    model = make().fit(CROWD.pairs, CROWD.y)
    assert model.users_.size == 1
    assert model.pseudo_ideal_points_.shape == (1, 3)


# ------------------------------------------------------------------------------------------------ options

SHARED_OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # parameter: (before, after)
    "items": ({}, {"items": CROWD.items + 1e-3 * np.sin(np.arange(CROWD.items.size)).reshape(CROWD.items.shape)}),
    "loss": ({}, {"loss": "hinge"}),
    "beta": ({}, {"beta": 2.0}),
    "metric_bound": ({}, {"metric_bound": 0.5}),
    "ideal_bound": ({}, {"ideal_bound": 0.5}),
    "tol": ({}, {"tol": 1e-2}),
    "max_iter": ({}, {"max_iter": 3}),
    "cv": ({"metric_bound": None}, {"metric_bound": None, "cv": 5}),
    "random_state": ({"metric_bound": None}, {"metric_bound": None, "random_state": 1}),
}
OPTIONS = {
    "joint": SHARED_OPTIONS | {"norm": ({}, {"norm": "nuclear"}), "fixed_metric": ({}, {"fixed_metric": np.eye(3)})},
    "stitched": SHARED_OPTIONS
    | {
        "subspaces": ({}, {"subspaces": np.where(CROWD.labels == 5, 4, CROWD.labels), "rank": 2}),
        "rank": ({}, {"rank": 1}),
        "stitch": ({}, {"stitch": "ols"}),
        "n_subspaces": ({}, {"n_subspaces": 6}),
        "affine": ({}, {"affine": True}),
    },
}


@pytest.mark.parametrize(("name", "option"), [(name, option) for name in OPTIONS for option in OPTIONS[name]])
@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
def test_every_option_changes_something(name: str, option: str) -> None:
    before, after = (fingerprint(name, options) for options in OPTIONS[name][option])
    assert before != after


def fingerprint(name: str, options: dict[str, Any]) -> list[Any]:
    """What a fit leaves behind, or the sentence it ends with."""
    model = MODELS[name]().set_params(**options)
    try:
        model.fit(CROWD.pairs, CROWD.y, users=CROWD.users)
    except DataError as error:
        return [str(error)]
    tried = [] if model.radii_ is None else [row[2] for row in model.radii_.tried]
    return [*model.metric_.round(6).ravel(), *model.pseudo_ideal_points_.round(6).ravel(), *tried]


# What a fit to a scan may take and whom it tells (tests/test_scan.py); a fit in memory has no use for them.
ONLY_FOR_SCANS = {"memory", "progress", "engine"}


@pytest.mark.parametrize("name", MODELS)
def test_no_option_is_left_out_of_the_list(name: str) -> None:
    assert set(OPTIONS[name]) == set(MODELS[name]().get_params()) - ONLY_FOR_SCANS


@each_model
def test_a_loss_object_is_its_name(make) -> None:
    by_name, by_object = fitted(make, beta=2.0), make(loss=Logistic(beta=2.0))
    by_object.fit(CROWD.pairs, CROWD.y, users=CROWD.users)
    np.testing.assert_array_equal(by_object.metric_, by_name.metric_)


@each_loss
def test_fixed_metric_only_places_people(loss: str) -> None:
    free = fitted(MODELS["joint"], loss=loss, tol=1e-7)
    fixed = fitted(MODELS["joint"], loss=loss, fixed_metric=free.metric_, metric_bound=None, tol=1e-7)
    np.testing.assert_array_equal(fixed.metric_, free.metric_)
    assert fixed.objective_ == pytest.approx(free.objective_, abs=2e-7)
    assert np.isnan(fixed.metric_bound_)
    elsewhere = fitted(MODELS["joint"], loss=loss, fixed_metric=np.eye(3), metric_bound=None)
    np.testing.assert_array_equal(elsewhere.metric_, np.eye(3))
    assert elsewhere.objective_ > free.objective_ + 1e-3


def rank_two() -> SimulatedCrowd:
    return simulate_crowd(4, None, None, users=60, comparisons=10, seed=1, metric=np.diag([2.0, 1.0, 0.0, 0.0]))


def test_the_nuclear_norm_finds_a_metric_of_low_rank() -> None:
    crowd = rank_two()
    sizes = {"frobenius": np.sqrt(5.0), "nuclear": 3.0}  # of the truth
    models = {norm: fitted(MODELS["joint"], crowd, norm=norm, metric_bound=sizes[norm]) for norm in sizes}
    values = {norm: np.linalg.eigvalsh(model.metric_) for norm, model in models.items()}
    assert np.linalg.norm(values["frobenius"]) <= sizes["frobenius"] * (1 + 1e-14)
    assert values["nuclear"].sum() <= sizes["nuclear"] * (1 + 1e-14)
    assert all(model.solution_.converged for model in models.values())
    # about the same fit from two directions instead of three
    assert models["nuclear"].objective_ == pytest.approx(models["frobenius"].objective_, abs=5e-3)
    assert np.sum(values["nuclear"] > 1e-4) == 2
    assert np.sum(values["frobenius"] > 1e-4) > 2


def test_ideal_points_stay_finite_where_the_metric_is_flat() -> None:
    """In a direction that costs nothing an ideal point is anywhere; the one of least norm is meant."""
    model = fitted(MODELS["joint"], rank_two(), norm="nuclear", metric_bound=3.0)
    assert np.linalg.norm(model.ideal_points_, axis=1).max() < 100.0


@each_model
@each_loss
def test_bounds_are_chosen_from_the_data_unless_given(make, loss: str) -> None:
    chosen = {"metric_bound": None, "ideal_bound": None}
    if loss == "squared":  # exact, without bounds
        model = fitted(make, loss=loss, **chosen)
        assert model.radii_ is None
        assert np.all(np.isnan(model.metric_bound_))
        return
    model = fitted(make, loss=loss, **chosen)
    assert np.all(model.metric_bound_ == model.radii_.metric)
    assert np.all(model.ideal_bound_ == model.radii_.ideal)
    half = fitted(make, loss=loss, metric_bound=0.7, ideal_bound=None)
    assert np.all(half.metric_bound_ == 0.7)
    assert np.all(half.ideal_bound_ == half.radii_.ideal)
    assert fitted(make, loss=loss).radii_ is None


@each_model
def test_short_of_the_tolerance_it_says_so(make) -> None:
    with pytest.warns(ConvergenceWarning, match=r"certified gap.*raise max_iter, or tol"):
        model = fitted(make, max_iter=3)
    assert not model.solution_.converged
    assert model.solution_.gap > 1e-8
    assert "raise max_iter" in model.solution_.summary()


# --------------------------------------------------------------------------------------------- bad input


def changed(**replacements: Any) -> dict[str, Any]:
    """Arguments of `fit`, some of them wrong."""
    return {"pairs": CROWD.pairs, "y": CROWD.y, "users": CROWD.users} | replacements


def with_entry(array: np.ndarray, value: float) -> np.ndarray:
    out = np.array(array, dtype=float)
    out[(3,) + (1,) * (out.ndim - 1)] = value
    return out


T = len(CROWD.y)
# name: (options, arguments of fit, value · expectation · remedy)
BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no items": ({"items": None}, changed(), r"items is missing; give the \(N, d\) item vectors"),
    "flat items": ({"items": CROWD.items[:, 0]}, changed(), r"items has shape \(360,\), expected \(N, d\)"),
    "text items": ({"items": [["a", "b"]]}, changed(), r"items cannot be read as numbers, because it holds text"),
    "NaN items": (
        {"items": with_entry(CROWD.items, np.nan)},
        changed(),
        r"1 items have features that are NaN or infinite, first items\[3, 1\] = nan; fill or drop",
    ),
    "three columns": ({}, changed(pairs=np.zeros((T, 3), dtype=int)), r"pairs has shape \(180, 3\), expected \(T, 2\)"),
    "nothing": ({}, changed(pairs=np.zeros((0, 2), dtype=int)), r"pairs is empty; at least one comparison is needed"),
    "fractional rows": ({}, changed(pairs=CROWD.pairs + 0.5), r"dtype float64, expected row numbers.*item_ids"),
    "unknown item": (
        {},
        changed(pairs=with_entry(CROWD.pairs, 812).astype(int)),
        r"1 comparisons name item 812, but there are 360 items \(0…359\); drop them with Comparisons",
    ),
    "negative item": ({}, changed(pairs=with_entry(CROWD.pairs, -1).astype(int)), r"name item -1, but there are 360"),
    "another space": (
        {},
        changed(pairs=np.ones((T, 2, 5))),
        r"pairs hold vectors of 5 features, but items have 3; use one space",
    ),
    "equal items": (
        {},
        changed(pairs=np.zeros((T, 2), dtype=int)),
        r"every comparison is between equal items, which says nothing; check how pairs",
    ),
    "no y": ({}, changed(y=None), r"y is missing; give the answers, −1 where the left item"),
    "short y": ({}, changed(y=CROWD.y[:-1]), r"y has shape \(179,\), but there are 180 comparisons; give one value"),
    "y of 0": ({}, changed(y=with_entry(CROWD.y, 0)), r"y holds -1 and 0 and 1, where 0 may mean left or a tie"),
    "y of 2": ({}, changed(y=with_entry(CROWD.y, 2)), r"y holds 2, but loss='logistic' needs −1.*use loss='squared'"),
    "NaN y": ({}, changed(y=with_entry(CROWD.y, np.nan)), r"y holds NaN or infinite values; drop those"),
    "text y": ({}, changed(y=["up"] * T), r"y holds 'up', but an answer is 'left' or 'right'.*use Comparisons"),
    "short users": (
        {},
        changed(users=CROWD.users[1:]),
        r"users has shape \(179,\), but there are 180.*one person each",
    ),
    "NaN users": (
        {},
        changed(users=with_entry(CROWD.users, np.nan)),
        r"users names nobody in 1 comparisons, first in row 3; drop those comparisons or",
    ),
    "negative weight": ({}, changed(sample_weight=-np.ones(T)), r"sample_weight must not be negative"),
    "no weight": ({}, changed(sample_weight=np.zeros(T)), r"some of it must be positive"),
    "unknown loss": ({"loss": "exp"}, changed(), r"loss is 'exp', but it must be one of 'logistic', 'probit'"),
    "beta of 0": ({"beta": 0.0}, changed(), r"beta is 0.0, but it must be a positive finite number; for answers"),
    "useless beta": ({"loss": "hinge", "beta": 2.0}, changed(), r"beta is 2.0, but the hinge loss has no.*leave beta"),
    "negative bound": ({"metric_bound": -1.0}, changed(), r"metric_bound=-1.0 is not a positive finite number"),
    "endless bound": ({"ideal_bound": np.inf}, changed(), r"ideal_bound=inf is not a positive finite number"),
    "text bound": ({"ideal_bound": "big"}, changed(), r"ideal_bound='big' is not a positive finite number"),
    "one person": (
        {"metric_bound": None},
        changed(users=None),
        r"from one person; give metric_bound= and ideal_bound=",
    ),
    "one fold": ({"metric_bound": None, "cv": 1}, changed(), r"cv.*1.*at least 2"),
    "tolerance of 0": ({"tol": 0.0}, changed(), r"tol=0.0 is not a positive finite number"),
    "no iterations": ({"max_iter": 0}, changed(), r"max_iter.*0"),
}
BAD_JOINT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "unknown norm": ({"norm": "spectral"}, changed(), r"norm='spectral' is not known; choose one of 'frobenius', 'nuc"),
    "small metric": (
        {"fixed_metric": np.eye(2)},
        changed(),
        r"fixed_metric has shape \(2, 2\), but items have 3 features; it must be \(3, 3\)",
    ),
    "lopsided metric": ({"fixed_metric": np.triu(np.ones((3, 3)))}, changed(), r"fixed_metric is not symmetric.*give"),
    "indefinite metric": (
        {"fixed_metric": np.diag([1.0, 1.0, -1.0])},
        changed(),
        r"fixed_metric has the eigenvalue -1, but none may be negative; project it with crowdmetric.*project_psd",
    ),
}
BAD_STITCHED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no subspaces": ({"subspaces": None}, changed(), r"subspaces=None does not say where.*or use IdealPointMetric"),
    "too few labels": (
        {"subspaces": CROWD.labels[:-1]},
        changed(),
        r"subspaces has shape \(359,\), but there are 360 items; give one label per item",
    ),
    "half labels": (
        {"subspaces": CROWD.labels + 0.5},
        changed(),
        r"subspaces holds NaN or fractional.*integer or text labels",
    ),
    "nowhere": (
        {"subspaces": np.full(360, -1)},
        changed(),
        r"no item has a subspace label; give a label other than −1",
    ),
    "tall bases": (
        {"subspaces": np.ones((2, 5, 1))},
        changed(),
        r"a basis has shape \(5, 1\), but items have 3 features",
    ),
    "too high a rank": ({"rank": 3}, changed(), r"subspace 0: a subspace of dimension 3 was asked.*span only 2.*lower"),
    "contradiction": (
        {"subspaces": CROWD.bases, "rank": 1},
        changed(),
        r"rank=1 contradicts bases of dimension \[2\]; leave rank=None",
    ),
    "n_subspaces": ({"n_subspaces": 6}, changed(), r"n_subspaces=6 has no effect with subspaces given.*leave it out"),
    "unknown stitch": (
        {"stitch": "glue"},
        changed(),
        r"stitch='glue' is not known; choose one of 'huber', 'ols', 'wei",
    ),
    "bounds": (
        {"metric_bound": [1.0, 2.0]},
        changed(),
        r"metric_bound has shape \(2,\), but there are 6 subspaces; give one number, or one per subspace",
    ),
    "across only": (
        {},
        changed(pairs=CROWD.pairs[:, [0, 0]] * 0 + [0, 359]),
        r"none of the 180 comparisons is between two items of one subspace.*use IdealPointMetric",
    ),
}
EVERY_BAD = [("joint", n) for n in BAD | BAD_JOINT] + [("stitched", n) for n in BAD | BAD_STITCHED]


@pytest.mark.parametrize(("kind", "name"), EVERY_BAD)
def test_bad_input_gets_a_sentence(kind: str, name: str) -> None:
    options, arguments, sentence = (BAD | (BAD_JOINT if kind == "joint" else BAD_STITCHED))[name]
    model = MODELS[kind]().set_params(**options)
    with pytest.raises(DataError, match=sentence):
        model.fit(**arguments)


@each_model
def test_what_cannot_be_learned_is_refused(make) -> None:
    """As many answers per person as dimensions, on generic items: nothing is learned of M (thm:negative-result)."""
    crowd = simulate_crowd(3, None, None, users=40, comparisons=3, seed=0)
    crowd_in_planes = simulate_crowd(3, 6, 2, users=40, comparisons=2, seed=0)
    crowd = crowd if make is MODELS["joint"] else crowd_in_planes
    model = make(crowd, loss="squared", metric_bound=None, ideal_bound=None)
    with pytest.raises(NotIdentifiedError, match=r"identify 0 of the \d degrees.*not identified: M\[.*Ask each person"):
        model.fit(crowd.pairs, crowd.psi, users=crowd.users)


def test_comparisons_say_it_all() -> None:
    table = Comparisons.from_arrays(CROWD.users, CROWD.pairs, CROWD.y, n_items=len(CROWD.items))
    model = fitted(MODELS["joint"])
    with pytest.raises(DataError, match="Comparisons carry their answers, people and weights; leave y"):
        model.fit(table, CROWD.y)
    with pytest.raises(DataError, match="Comparisons carry their people; leave users out"):
        model.predict(table, users=CROWD.users)
    fewer = Comparisons.from_arrays([0, 1], [[0, 1], [1, 0]], [1, -1], n_items=2)
    with pytest.raises(DataError, match="about 2 items, but items has 360 rows; read both from the same catalog"):
        model.fit(fewer)


@each_model
def test_bad_questions(make) -> None:
    model = fitted(make)
    with pytest.raises(DataError, match=r"users has shape \(3,\), but there are 180 comparisons; give one person"):
        model.predict(CROWD.pairs, users=[0, 1, 2])
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features"):
        model.transform(CROWD.items[:, :2])
    with pytest.raises(DataError, match="name item 999, but there are 360 items"):
        model.pair_distance([[0, 999]])


def test_items_outside_the_subspaces_are_counted() -> None:
    labels = np.where(CROWD.labels == 5, -1, CROWD.labels)
    with pytest.warns(DroppedRowsWarning, match="^30 of 180 comparisons"):
        model = fitted(MODELS["stitched"], subspaces=labels)
    assert model.n_across_ == 30
    assert len(model.bases_) == 5


def test_names_of_features_are_kept() -> None:
    frame = pd.DataFrame(CROWD.items, columns=[f"feature {j}" for j in range(CROWD.items.shape[1])])
    named = IdealPointMetric(frame, metric_bound=5.0, ideal_bound=3.0).fit(CROWD.pairs, CROWD.y, CROWD.users)
    plain = IdealPointMetric(CROWD.items, metric_bound=5.0, ideal_bound=3.0).fit(CROWD.pairs, CROWD.y, CROWD.users)
    assert list(named.feature_names_in_) == list(frame.columns)
    assert not hasattr(plain, "feature_names_in_")
    assert len(named.get_feature_names_out()) == frame.shape[1]
    assert list(named.labeled_metric().columns) == list(named.labeled_metric().index) == list(frame.columns)
    assert list(plain.labeled_metric().columns)[:2] == ["f0", "f1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(named.transform(frame), plain.transform(CROWD.items))
        np.testing.assert_array_equal(named.pair_distance(CROWD.pairs), plain.pair_distance(CROWD.pairs))


def test_forgotten_users_are_said_at_once() -> None:
    pairs, y = np.tile(CROWD.pairs, (50, 1)), np.tile(CROWD.y, 50)
    with pytest.raises(DataError, match=r"users is missing, so all .* answers would be one person's"):
        PopulationMetric(CROWD.items).fit(pairs, y)
