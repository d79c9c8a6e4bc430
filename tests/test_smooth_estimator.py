"""TasteMetric: what it accepts, what it leaves behind, what must not change it."""

from __future__ import annotations

import pickle
from copy import copy
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from crowdmetric import Comparisons, TasteMetric
from crowdmetric.errors import ConvergenceWarning, DataError
from crowdmetric.evaluate import evaluate
from crowdmetric.evaluate.taste_model import TasteModel
from crowdmetric.persist import load_model, save_model


def bent_crowd(people: int = 60, each: int = 14, n_items: int = 12, seed: int = 0) -> tuple:
    """Return people who like a wave along feature 0, each at a phase of their own; feature 1 does not matter."""
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((n_items, 2)) * np.array([1.0, 10.0]) + np.array([0.0, 100.0])
    users = np.repeat(np.arange(people), each)
    left = rng.integers(0, n_items, users.size)
    pairs = np.column_stack([left, (left + rng.integers(1, n_items, users.size)) % n_items])
    taste = 3.0 * np.sin(2.0 * items[:, 0] + rng.uniform(0.0, 2.0 * np.pi, (people, 1)))
    gap = taste[users, pairs[:, 1]] - taste[users, pairs[:, 0]]
    return items, pairs, np.where(rng.random(users.size) < 1.0 / (1.0 + np.exp(-gap)), 1, -1), users


ITEMS, PAIRS, Y, USERS = bent_crowd()


@pytest.fixture(scope="module")
def model() -> TasteMetric:
    return TasteMetric(ITEMS, structure="diagonal").fit(PAIRS, Y, users=USERS)


def test_a_fit_leaves_what_others_leave(model: TasteMetric) -> None:
    assert model.metric_.shape == model.standard_errors_.shape == (2, 2)
    np.testing.assert_allclose(model.components_.T @ model.components_, model.metric_, atol=1e-12)
    assert model.users_.tolist() == list(range(60))
    assert model.log_likelihood_ < 0.0
    assert model.objective_ == pytest.approx(-model.log_likelihood_ / len(Y))
    assert model.solution_.converged
    assert model.transform(ITEMS).shape == (12, 2)
    assert model.utilities_.shape == model.utility_errors_.shape == (12,)
    assert np.all(model.utility_errors_ > 0.0)
    assert set(model.evidence_) == {"diagonal"}
    assert np.all(np.diag(model.standard_errors_) > 0.0)
    assert model.standard_errors_[0, 1] == 0.0


def test_what_matters_is_found_in_the_units_of_the_items(model: TasteMetric) -> None:
    in_spreads = model.metric_ * np.outer(ITEMS.std(axis=0), ITEMS.std(axis=0))
    assert in_spreads[0, 0] > 4.0 * in_spreads[1, 1]


def test_known_people_are_predicted_better_than_unknown_ones(model: TasteMetric) -> None:
    known = model.predict_proba(PAIRS, USERS)
    assert known.shape == (len(Y), 2)
    np.testing.assert_allclose(known.sum(axis=1), 1.0)
    unknown = model.predict_proba(PAIRS, np.full(len(Y), 999))
    np.testing.assert_allclose(unknown, model.predict_proba(PAIRS))
    score = [np.mean(np.log(np.where(Y > 0, p[:, 1], p[:, 0]))) for p in (known, unknown)]
    assert score[0] > score[1]
    assert model.score(PAIRS, Y, users=USERS) > 0.75
    agree = np.sign(model.decision_function(PAIRS, USERS)) == np.sign(known[:, 1] - 0.5)
    assert np.all(agree)


def test_swapped_sides_are_the_same_question(model: TasteMetric) -> None:
    swapped = TasteMetric(ITEMS, structure="diagonal").fit(PAIRS[:, ::-1], -Y, users=USERS)
    np.testing.assert_allclose(swapped.metric_, model.metric_, rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(PAIRS[:, ::-1], USERS)[:, ::-1], model.predict_proba(PAIRS, USERS))


def test_units_of_features_do_not_matter(model: TasteMetric) -> None:
    scale = np.array([3.0, 0.01])
    other = TasteMetric(ITEMS * scale - 5.0, structure="diagonal").fit(PAIRS, Y, users=USERS)
    np.testing.assert_allclose(other.metric_ * np.outer(scale, scale), model.metric_, rtol=1e-5)
    np.testing.assert_allclose(other.predict_proba(PAIRS, USERS), model.predict_proba(PAIRS, USERS), atol=1e-6)


def test_order_of_answers_and_names_of_people_do_not_matter(model: TasteMetric) -> None:
    order = np.random.default_rng(1).permutation(len(Y))
    names = np.array([f"p{u:03d}" for u in USERS])
    other = TasteMetric(ITEMS, structure="diagonal").fit(PAIRS[order], Y[order], users=names[order])
    np.testing.assert_allclose(other.metric_, model.metric_, rtol=1e-6)
    np.testing.assert_allclose(other.predict_proba(PAIRS, names), model.predict_proba(PAIRS, USERS), atol=1e-8)


def test_a_weight_of_two_is_an_answer_given_twice() -> None:
    options = {"structure": "isotropic"}
    some = slice(0, 300)
    twice = np.concatenate([PAIRS[some], PAIRS[some]]), np.tile(Y[some], 2)
    weighted = TasteMetric(ITEMS, **options).fit(PAIRS[some], Y[some], users=USERS[some], sample_weight=np.full(300, 2))
    repeated = TasteMetric(ITEMS, **options).fit(*twice, users=np.tile(USERS[some], 2))
    np.testing.assert_allclose(weighted.metric_, repeated.metric_)
    assert weighted.log_likelihood_ == pytest.approx(repeated.log_likelihood_)


def test_vectors_are_items(model: TasteMetric) -> None:
    vectors = ITEMS[PAIRS]
    np.testing.assert_allclose(model.predict_proba(vectors, USERS), model.predict_proba(PAIRS, USERS), atol=1e-9)
    # distinct vectors are sorted, so answers are renewed in another order and steps end a little elsewhere
    other = TasteMetric(structure="diagonal").fit(vectors, Y, users=USERS)
    assert np.all(np.abs(other.metric_ - model.metric_) <= 0.01 * model.standard_errors_)


def test_an_item_that_nobody_saw_is_less_sure() -> None:
    seen = np.all(PAIRS < 10, axis=1)
    model = TasteMetric(ITEMS, structure="isotropic").fit(PAIRS[seen], Y[seen], users=USERS[seen])
    assert model.utility_errors_[10:].min() > model.utility_errors_[:10].max()
    new = np.array([[0, 10], [10, 11]])
    as_vectors = model.predict_proba(ITEMS[new], [3, 3])
    np.testing.assert_allclose(model.predict_proba(new, [3, 3]), as_vectors, atol=1e-9)


def test_comparisons_and_placed_people(model: TasteMetric) -> None:
    table = Comparisons.from_arrays(USERS, PAIRS, Y, n_items=12)
    same = TasteMetric(ITEMS, structure="diagonal").fit(table)
    np.testing.assert_allclose(same.metric_, model.metric_, rtol=1e-8)
    new = bent_crowd(seed=0)[1:]
    placed = model.place(new[0][:28], new[1][:28], np.array(["ann", "bob"])[USERS[:28]])
    assert placed.users_.tolist() == ["ann", "bob"]
    assert placed.score(new[0][:28], new[1][:28], users=np.array(["ann", "bob"])[USERS[:28]]) > 0.75
    assert model.users_.size == 60


def test_auto_takes_the_structure_of_the_highest_evidence() -> None:
    found = TasteMetric(ITEMS).fit(PAIRS, Y, users=USERS)
    assert set(found.evidence_) == {"isotropic", "diagonal", "shrunk", "full"}
    assert found.evidence_[found.structure_] == max(found.evidence_.values())
    assert found.structure_ != "isotropic"
    line = TasteMetric(ITEMS[:, :1]).fit(PAIRS, Y, users=USERS)
    assert line.structure_ == "isotropic"


def test_every_option_changes_something(model: TasteMetric) -> None:
    for options in ({"structure": "isotropic"}, {"shape": "matern32"}, {"tol": 30.0}):
        other = TasteMetric(ITEMS, **({"structure": "diagonal"} | options)).fit(PAIRS, Y, users=USERS)
        assert not np.allclose(other.metric_, model.metric_, rtol=1e-4)
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        stopped = TasteMetric(ITEMS, structure="diagonal", max_iter=1).fit(PAIRS, Y, users=USERS)
    assert not stopped.solution_.converged


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure": "round"}, "structure='round' is not known"),
        ({"shape": "flat"}, "shape='flat' is not known"),
        ({"tol": -1.0}, "tol=-1.0 is not a positive"),
        ({"max_iter": 0}, "max_iter=0 is not a whole number"),
    ],
)
def test_bad_options_are_named(options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        TasteMetric(ITEMS, **options).fit(PAIRS, Y, users=USERS)


def test_too_many_items_are_refused() -> None:
    pairs = np.arange(2004).reshape(-1, 2)
    with pytest.raises(DataError, match=r"2,004 items were compared.*at most 2,000"):
        TasteMetric(np.arange(2004.0)[:, None]).fit(pairs, np.ones(1002), users=np.zeros(1002, dtype=int))


def test_people_are_placed_by_rows_only(model: TasteMetric) -> None:
    with pytest.raises(DataError, match="place needs pairs of row numbers"):
        model.place(ITEMS[PAIRS[:3]], Y[:3])


def test_clones_share_items_and_models_can_be_pickled(model: TasteMetric) -> None:
    twin = clone(model)
    assert twin.items is ITEMS
    assert twin.get_params()["structure"] == "diagonal"
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(PAIRS, USERS), model.predict_proba(PAIRS, USERS))


@pytest.mark.parametrize("by_vectors", [False, True])
def test_a_saved_model_predicts_the_same(model: TasteMetric, tmp_path: Path, by_vectors: bool) -> None:
    asked = ITEMS[PAIRS] if by_vectors else PAIRS
    before = TasteMetric(structure="full").fit(asked, Y, users=USERS) if by_vectors else model
    save_model(tmp_path / "model", before)
    after = load_model(tmp_path / "model").estimator()
    np.testing.assert_allclose(after.predict_proba(asked, USERS), before.predict_proba(asked, USERS), atol=1e-12)
    np.testing.assert_array_equal(after.metric_, before.metric_)
    new = ITEMS[PAIRS[:5]] + 0.3
    np.testing.assert_allclose(after.predict_proba(new, USERS[:5]), before.predict_proba(new, USERS[:5]), atol=1e-12)


def test_placed_people_are_not_confused_with_those_of_the_fit(model: TasteMetric, tmp_path: Path) -> None:
    placed = model.place(PAIRS[:14], Y[:14], np.full(14, 7))
    assert placed.place(PAIRS[:14], Y[:14]).users_.tolist() == [0]
    with pytest.raises(DataError, match="known by rows of items only"):
        placed.predict_proba(ITEMS[PAIRS[:14]], np.full(14, 7))
    save_model(tmp_path / "model", placed)
    after = load_model(tmp_path / "model").estimator()
    with pytest.raises(DataError, match="people who were placed are not kept"):
        after.predict_proba(PAIRS[:14], np.full(14, 7))
    assert model.answers_.shape[1] == 5


def test_it_is_a_model_of_evaluate() -> None:
    table = Comparisons.from_arrays(USERS, PAIRS, Y, n_items=12)
    found = evaluate(ITEMS, table, ["smooth", "linear"], splits=["pairs", "people"], given=6, repeats=1)
    assert found.difference("pairs", "smooth", "linear").mean > 0.02
    assert found.difference("people", "smooth", "linear").mean > 0.0


def test_answers_by_coin_teach_nothing() -> None:
    y = np.random.default_rng(5).choice([-1, 1], len(Y))
    table = Comparisons.from_arrays(USERS, PAIRS, y, n_items=12)
    found = evaluate(ITEMS, table, [TasteModel(structure="isotropic")], splits=["pairs", "items"], repeats=1)
    for split in ("pairs", "items"):
        assert found.mean(split, "smooth") == pytest.approx(np.log(0.5), abs=0.03)


def test_draws_are_there_where_scales_are_known_ever_so_differently(model: TasteMetric) -> None:
    """With many answers of few people, curvatures reach from nothing to millions."""
    fit, rng = model._learned().fit, np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((fit.theta.size, fit.theta.size)))[0]
    known = np.geomspace(1e-3, 5e9, fit.theta.size)
    found = copy(model)
    found._describe_uncertainty(fit, (turn * known) @ turn.T)
    assert np.all(np.isfinite(found.metric_draws_))
    assert np.all(np.isfinite(found.standard_errors_))
