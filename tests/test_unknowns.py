"""What predictions do not know beside where a person stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from crowdmetric import Comparisons, PopulationMetric
from crowdmetric.evaluate import MODELS
from crowdmetric.evaluate.scores import measures
from crowdmetric.fits.unknowns import SeenItems, Unknowns
from crowdmetric.locate import locate
from crowdmetric.persist import load_model, save_model
from crowdmetric.simulate import simulate_crowd
from crowdmetric.symmetric import degrees_of_freedom, smat

Array = NDArray[Any]


def crowd_with_tastes(tau: float, seed: int, people: int = 60, answers: int = 100, n_items: int = 24) -> Any:
    """Return items and answers of ideal points under the identity, everybody having tastes N(0, τ²) of their own."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, 3))
    u = rng.normal(size=(people, 3))
    cost = np.sum((X[None] - u[:, None]) ** 2, axis=2) - tau * rng.normal(size=(people, n_items))
    user = np.repeat(np.arange(people), answers)
    left = rng.integers(n_items, size=user.size)
    right = (left + rng.integers(1, n_items, size=user.size)) % n_items
    psi = cost[user, left] - cost[user, right]
    y = np.where(rng.random(user.size) < 1.0 / (1.0 + np.exp(-psi)), 1, -1)
    return X, np.column_stack([left, right]), y, user


def test_variance_is_that_of_the_offset() -> None:
    """zᵀCz is the variance of ψ over draws of (M, μ, b)."""
    rng = np.random.default_rng(0)
    d, N = 3, 5
    n = degrees_of_freedom(d) + d + N
    root = rng.normal(size=(n, n)) / n
    X, pairs = rng.normal(size=(N, d)), np.array([[0, 1], [3, 2], [4, 0]])
    draws = rng.normal(size=(200_000, n)) @ root.T
    M, mean, b = np.split(draws, [n - N - d, n - N], axis=1)
    left, right = X[pairs[:, 0]], X[pairs[:, 1]]
    psi = np.einsum("td,nde,te->nt", left - right, smat(M), left + right) + mean @ (left - right).T
    psi -= b[:, pairs[:, 0]] - b[:, pairs[:, 1]]
    found = Unknowns(root @ root.T, 0.5).variance(left, right, pairs)
    np.testing.assert_allclose(found, psi.var(axis=0), rtol=0.02)


def test_new_items_have_the_variance_of_two_effects() -> None:
    X = np.random.default_rng(0).normal(size=(4, 2))
    known = Unknowns(np.zeros((5 + 4, 5 + 4)), 0.3)
    np.testing.assert_allclose(known.variance(X[:2], X[2:], None), 0.6)
    np.testing.assert_allclose(known.variance(X[:2], X[2:], np.array([[0, 2], [1, 3]])), 0.0)
    np.testing.assert_allclose(Unknowns(None, 0.3).variance(X[:2], X[2:], None), 0.6)


def test_asked() -> None:
    asked = SeenItems.of(np.array([0, 2]), np.array([[0, 1], [1, 3]]))
    pairs = np.array([[0, 1], [0, 2], [5, 6], [0, 1], [3, 1]])
    np.testing.assert_array_equal(asked.new_items(np.array([0, 0, 0, 1, 2]), pairs), [0, 1, 2, 0, 0])
    np.testing.assert_array_equal(asked.new_items(np.array([0, 1]), None), [2, 0])


@pytest.mark.parametrize("seed", range(3))
def test_people_without_tastes_of_their_own_have_none(seed: int) -> None:
    """Under the model itself hiding items finds next to nothing, and predictions stay as they were."""
    X, pairs, y, users = crowd_with_tastes(0.0, seed)
    model = PopulationMetric(X, uncertainty=False).fit(pairs, y, users=users)
    assert model.new_item_doubt_ < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_doubt_is_found_where_people_are_placed_too_surely(seed: int) -> None:
    X, pairs, y, users = crowd_with_tastes(3.0, seed)
    model = PopulationMetric(X, uncertainty=False).fit(pairs, y, users=users)
    assert 0.1 < model.new_item_doubt_ < 1.0


@pytest.mark.filterwarnings("ignore:the scale of the metric is not known")
@pytest.mark.parametrize("times", [1, 2])
def test_predictions_about_new_items_are_as_sure_as_they_should_be(times: int) -> None:
    """Tastes of .8, which the law takes for noise; and every answer twice, as if there were none.

    Everything is large then. The doubt was limited in absolute terms, and ended at that limit (12) with slopes of .6.
    """
    slopes = []
    for seed in range(3):
        X, pairs, y, users = crowd_with_tastes(0.8, seed, people=400, answers=6, n_items=40)
        hidden = np.any(pairs >= 30, axis=1)
        weight = np.full(np.count_nonzero(~hidden), float(times))
        model = PopulationMetric(X, starts=1, uncertainty=False)
        model.fit(pairs[~hidden], y[~hidden], users=users[~hidden], sample_weight=weight)
        assert model.new_item_doubt_ < 1.0
        right = model.predict_proba(pairs[hidden], users[hidden])[:, 1]
        slopes.append(measures(right, y[hidden].astype(float), np.ones(right.size))["calibration_slope"])
    assert 0.85 < np.mean(slopes) < 1.15


def hidden_items(seed: int) -> tuple[Array, Any, Any]:
    """Return a crowd with tastes, and its answers without and with six of the items."""
    X, pairs, y, users = crowd_with_tastes(1.5, seed)
    table = Comparisons.from_arrays(users, pairs, y, n_items=len(X))
    hidden = np.any(pairs >= 18, axis=1)
    return X, table.take(np.flatnonzero(~hidden)), table.take(np.flatnonzero(hidden))


def test_new_items_are_predicted_as_surely_as_they_can_be() -> None:
    slopes = []
    for seed in range(4):
        X, train, test = hidden_items(seed)
        right = MODELS["population"].fit(X, train).probability(test, train)
        slopes.append(measures(right, test.response, test.weight)["calibration_slope"])
    assert 0.85 < np.mean(slopes) < 1.15


@pytest.mark.parametrize("effects", [False, True])
def test_the_evaluated_crowd_predicts_what_the_estimator_does(effects: bool) -> None:
    X, train, test = hidden_items(0)
    name = "population-items-isotropic" if effects else "population"
    judged = MODELS[name].fit(X, train).probability(test, train)
    model = PopulationMetric(X, item_effects=effects, starts=1, uncertainty=False).fit(train)
    np.testing.assert_allclose(model.predict_proba(test)[:, 1], judged, atol=2e-3)


def test_located_people_are_predicted_alike() -> None:
    X, train, test = hidden_items(1)
    model = PopulationMetric(X, item_effects=True, starts=1, uncertainty=False).fit(train)
    expected = model.predict_proba(test)[:, 0]
    found = locate(model, train).probability(test.pairs[:50])
    np.testing.assert_allclose(found[test.user[:50], np.arange(50)], expected[:50], atol=1e-6)
    again = locate(model).probability(test.pairs[:50])
    np.testing.assert_allclose(again[test.user[:50], np.arange(50)], expected[:50], atol=1e-6)


def test_a_saved_model_predicts_alike(tmp_path: Any) -> None:
    X, train, test = hidden_items(2)
    model = PopulationMetric(X, item_effects=True, starts=1, uncertainty=False).fit(train)
    save_model(tmp_path / "model", model)
    again = load_model(tmp_path / "model").estimator()
    np.testing.assert_allclose(again.predict_proba(test), model.predict_proba(test), atol=1e-12)


def test_items_in_a_list_are_known_too() -> None:
    """Items that have to be converted, such as lists and data frames, are the items that people were asked about."""
    X, pairs, y, users = crowd_with_tastes(1.5, 0, people=20, answers=30)
    one, two = (
        PopulationMetric(items, starts=1, uncertainty=False).fit(pairs, y, users=users) for items in (X, X.tolist())
    )
    one.new_item_spread_ = two.new_item_spread_ = 1.0
    np.testing.assert_array_equal(two.asked_items_, one.asked_items_)
    np.testing.assert_array_equal(two.predict_proba(pairs, users), one.predict_proba(pairs, users))


def test_vectors_are_new_items() -> None:
    """The same pair by row and as vectors: the vectors are new to everybody who has answered."""
    X, pairs, y, users = crowd_with_tastes(1.5, 0)
    model = PopulationMetric(X, uncertainty=False).fit(pairs, y, users=users)
    by_row = model.predict_proba(pairs[:20], users[:20])
    as_vectors = model.predict_proba(X[pairs[:20]], users[:20])
    assert np.all(np.abs(as_vectors - 0.5) < np.abs(by_row - 0.5) + 1e-12)


def test_shifted_and_scaled_items_change_no_prediction() -> None:
    crowd = simulate_crowd(3, None, None, users=60, comparisons=6, seed=0)
    one = PopulationMetric(crowd.items, starts=1, uncertainty=False).fit(crowd.pairs, crowd.y, users=crowd.users)
    moved = PopulationMetric(5.0 * crowd.items + 3.0, starts=1, uncertainty=False)
    moved.fit(crowd.pairs, crowd.y, users=crowd.users)
    np.testing.assert_allclose(
        moved.predict_proba(crowd.pairs, crowd.users), one.predict_proba(crowd.pairs, crowd.users), atol=1e-5
    )
    strangers = one.predict_proba(crowd.items[crowd.pairs])
    np.testing.assert_allclose(moved.predict_proba(5.0 * crowd.items[crowd.pairs] + 3.0), strangers, atol=1e-5)
