"""TasteMetric: what it accepts, what it leaves behind, what must not change it."""

from __future__ import annotations

import pickle
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import crowdmetric.estimators.smooth as smooth_estimator
from crowdmetric import Comparisons, TasteMetric
from crowdmetric.errors import ConvergenceWarning, DataError
from crowdmetric.evaluate import evaluate
from crowdmetric.evaluate.taste_model import TasteModel
from crowdmetric.locate import locate
from crowdmetric.persist import load_model, save_model
from crowdmetric.smooth.covariances import SCALES
from crowdmetric.smooth.kernel import SHAPES
from crowdmetric.symmetric import smat


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


def test_a_low_rank_is_asked_for_by_name(tmp_path: Path) -> None:
    line = TasteMetric(ITEMS, structure="rank-1").fit(PAIRS, Y, users=USERS)
    assert np.linalg.matrix_rank(line.metric_) == 1
    in_spreads = line.metric_ * np.outer(ITEMS.std(axis=0), ITEMS.std(axis=0))
    assert in_spreads[0, 0] > 4.0 * in_spreads[1, 1]
    assert line.structure_ == "rank-1"
    assert set(line.evidence_) == {"rank-1"}
    # draws are of the same rank and about as far as standard errors say, although turning the factor changes nothing
    drawn = smat(line.metric_draws_)
    assert np.linalg.matrix_rank(drawn[0], tol=1e-9) == 1
    assert np.std(drawn[:, 0, 0]) < 3.0 * line.standard_errors_[0, 0]
    save_model(tmp_path / "model", line)
    again = load_model(tmp_path / "model").estimator()
    np.testing.assert_allclose(again.predict_proba(PAIRS, USERS), line.predict_proba(PAIRS, USERS), atol=1e-12)


def test_how_smooth_tastes_are_is_decided_by_the_evidence(model: TasteMetric) -> None:
    assert set(model.shape_evidence_) == set(SHAPES)
    assert model.shape_evidence_[model.shape_] == max(model.shape_evidence_.values())
    asked = TasteMetric(ITEMS, structure="diagonal", shape="matern32").fit(PAIRS, Y, users=USERS)
    assert asked.shape_ == "matern32"
    assert set(asked.shape_evidence_) == {"matern32"}
    # a search that began elsewhere ends at about the same evidence
    assert asked.shape_evidence_["matern32"] == pytest.approx(model.shape_evidence_["matern32"], abs=0.3)


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
        ({"structure": "rank-3"}, "structure='rank-3' is not known.*from 1 to 2"),
        ({"shape": "flat"}, "shape='flat' is not known"),
        ({"tol": -1.0}, "tol=-1.0 is not a positive"),
        ({"max_iter": 0}, "max_iter=0 is not a whole number"),
        ({"engine": "torch"}, "engine='torch' has no effect here.*leave engine out"),
    ],
)
def test_bad_options_are_named(options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        TasteMetric(ITEMS, **options).fit(PAIRS, Y, users=USERS)


def test_people_share_many_items_through_some(
    model: TasteMetric, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(smooth_estimator, "MOST_SHOWN", 5)
    monkeypatch.setattr(smooth_estimator, "INDUCING", 11)
    many = TasteMetric(ITEMS, structure="diagonal", shape=model.shape_).fit(PAIRS, Y, users=USERS)
    assert len(many.inducing_) == 11
    assert 0.0 < many.not_shared_ < 0.05
    assert model.not_shared_ == 0.0
    assert "people share 11 of them" in many.summary()
    assert "people share" not in model.summary()
    # nearly as exact as can be, in all that a fit leaves
    assert np.all(np.abs(many.metric_ - model.metric_) <= 0.5 * model.standard_errors_)
    np.testing.assert_allclose(many.predict_proba(PAIRS, USERS), model.predict_proba(PAIRS, USERS), atol=0.05)
    np.testing.assert_allclose(many.utilities_, model.utilities_, atol=0.3)
    np.testing.assert_allclose(many.utility_errors_, model.utility_errors_, rtol=0.3)
    np.testing.assert_allclose(many.effect_of(0).mean, model.effect_of(0).mean, atol=0.3)
    np.testing.assert_allclose(many.effect_of(0).error, model.effect_of(0).error, rtol=0.3)
    np.testing.assert_allclose(many.mean_utilities(), model.mean_utilities(), atol=0.5)
    assert many.item_coordinates().shape[0] == 12
    new = ITEMS[PAIRS[:5]] + 0.3
    np.testing.assert_allclose(many.predict_proba(new, USERS[:5]), model.predict_proba(new, USERS[:5]), atol=0.05)
    # new people, saved models, and what would be too large
    asked = PAIRS[:14], Y[:14], np.full(14, 7)
    placed, exact = many.place(*asked), model.place(*asked)
    np.testing.assert_allclose(
        placed.predict_proba(PAIRS, np.full(len(Y), 7)), exact.predict_proba(PAIRS, np.full(len(Y), 7)), atol=0.05
    )
    save_model(tmp_path / "model", many)
    again = load_model(tmp_path / "model").estimator()
    np.testing.assert_allclose(again.predict_proba(PAIRS, USERS), many.predict_proba(PAIRS, USERS), atol=1e-12)
    with pytest.raises(DataError, match="covariance of one person's utilities of 12 items is too large"):
        next(many.people())
    question = locate(many).next_question([[0, 1], [2, 3]])
    np.testing.assert_allclose(
        question.information, locate(model).next_question([[0, 1], [2, 3]]).information, atol=0.05
    )


X, SOME = ITEMS, slice(0, 280)
EXTREME = {
    "a constant feature": (np.column_stack([X, np.full(12, 7.0)]), PAIRS[SOME], Y[SOME], USERS[SOME]),
    "duplicate items": (np.tile(X[:6], (2, 1)), PAIRS[SOME], Y[SOME], USERS[SOME]),
    "all items but one equal": (np.vstack([X[:1], np.tile(X[1], (11, 1))]), PAIRS[SOME], Y[SOME], USERS[SOME]),
    "one person": (X, PAIRS[:14], Y[:14], np.zeros(14, dtype=int)),
    "one answer": (X, PAIRS[:1], Y[:1], USERS[:1]),
    "one answer each": (X, PAIRS[:60], Y[:60], np.arange(60)),
    "unanimous": (X[:2], np.tile([[0, 1]], (50, 1)), np.ones(50), np.arange(50)),
    "a person who contradicts themselves": (
        X,
        np.tile([[0, 1]], (40, 1)),
        np.tile([1, -1], 20),
        np.zeros(40, dtype=int),
    ),
    "large and small units": (X * [1e6, 1e-6], PAIRS[SOME], Y[SOME], USERS[SOME]),
    "far from zero": (X + 1e9, PAIRS[SOME], Y[SOME], USERS[SOME]),
    "an outlier": (np.vstack([X[:11], [[1e8, 1e8]]]), PAIRS[SOME], Y[SOME], USERS[SOME]),
    "more features than items": (np.random.default_rng(9).standard_normal((12, 30)), PAIRS[SOME], Y[SOME], USERS[SOME]),
}


@pytest.mark.filterwarnings("ignore:all items are alike:crowdmetric.errors.NotIdentifiedWarning")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("structure", ["auto", "rank-1"])
@pytest.mark.parametrize("name", EXTREME)
def test_extreme_answers_and_items_have_finite_results(name: str, structure: str) -> None:
    items, pairs, y, users = EXTREME[name]
    found = TasteMetric(items, structure=structure).fit(pairs, y, users=users)
    assert found.log_likelihood_ <= 0.0
    assert max(found.evidence_.values()) <= 0.0
    learned = (found.metric_, found.standard_errors_, found.metric_draws_, found.utilities_, found.utility_errors_)
    shown = (found.item_coordinates(), found.effect_of(0).mean, found.effect_of(0).people, found.mean_utilities())
    for values in (*learned, *shown, found.predict_proba(pairs, users), found.predict_proba(pairs), found.sharpness_):
        assert np.all(np.isfinite(values))
    assert np.linalg.eigvalsh(found.metric_)[0] >= -1e-9 * np.trace(found.metric_)


@pytest.mark.filterwarnings("error")
def test_an_answer_repeated_too_often_is_refused() -> None:
    often = TasteMetric(ITEMS, structure="isotropic").fit(PAIRS[SOME], Y[SOME], USERS[SOME], np.full(280, 100.0))
    assert np.isfinite(often.log_likelihood_)
    with pytest.raises(DataError, match=r"cannot be integrated over.*give smaller sample_weight"):
        TasteMetric(ITEMS).fit(PAIRS[SOME], Y[SOME], USERS[SOME], np.full(280, 1e6))


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
    fit, rng = model._learned().best.fit, np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((fit.theta.size, fit.theta.size)))[0]
    known = np.geomspace(1e-3, 5e9, fit.theta.size)
    found = copy(model)
    found._describe_uncertainty([(1.0, fit, (turn * known) @ turn.T)])
    assert np.all(np.isfinite(found.metric_draws_))
    assert np.all(np.isfinite(found.standard_errors_))


def test_errors_go_over_all_shapes_that_are_possible() -> None:
    model = TasteMetric(ITEMS, structure="isotropic").fit(PAIRS, Y, users=USERS)
    evidence = model.shape_evidence_
    alone = [TasteMetric(ITEMS, structure="isotropic", shape=name).fit(PAIRS, Y, users=USERS) for name in evidence]
    odds = np.exp(np.array(list(evidence.values())) - max(evidence.values()))
    assert np.sort(odds)[-2] > 0.05  # a crowd as small as this leaves another shape possible
    squares = [one.standard_errors_[0, 0] ** 2 + (one.metric_ - model.metric_)[0, 0] ** 2 for one in alone]
    assert model.standard_errors_[0, 0] == pytest.approx(float(odds @ squares / odds.sum()) ** 0.5, rel=0.05)


def test_draws_go_over_all_shapes_that_are_possible(model: TasteMetric) -> None:
    fit, found = model._learned().best.fit, copy(model)
    step = np.zeros(fit.theta.size)
    step[len(SCALES)] = 1.0  # a metric e times as large
    known = 1e6 * np.eye(fit.theta.size)
    found._describe_uncertainty([(0.7, fit, known), (0.3, replace(fit, theta=fit.theta + step), known)])
    ratio = found.metric_draws_[:, 0] / model.metric_[0, 0]
    assert np.mean(ratio > 2.0) == pytest.approx(0.3, abs=0.06)
    np.testing.assert_allclose(np.minimum(np.abs(ratio - 1.0), np.abs(ratio - np.e)), 0.0, atol=0.05)
    expected = np.sqrt(0.3) * (np.e - 1.0) * model.metric_[0, 0]
    assert found.standard_errors_[0, 0] == pytest.approx(expected, rel=0.01)


def several(items: np.ndarray = ITEMS) -> TasteMetric:
    return TasteMetric(items, structure="isotropic", uncertainty=False).fit(PAIRS, Y, users=USERS)


def test_predictions_are_averaged_over_kernels_by_their_evidence(tmp_path: Path) -> None:
    found = several()
    assert len(found.kernels_) > 1
    evidence = np.array([found.shape_evidence_[shape] for _, shape in found.kernels_])
    np.testing.assert_allclose(found.kernel_weights_, np.exp(evidence) / np.sum(np.exp(evidence)), rtol=1e-6)
    assert np.all(np.diff(found.kernel_weights_) <= 0.0)
    assert (found.structure_, found.shape_) == tuple(found.kernels_[0])
    assert f"averaged with {len(found.kernels_) - 1} other" in found.summary()
    # each kernel alone, with the sharpness of all
    new = ITEMS[PAIRS[:9]] + 0.2
    alone = []
    for part in found._learned().parts:
        one = copy(found)
        one._tastes = replace(found._tastes, parts=(replace(part, weight=1.0),))
        one.kernel_weights_, one.sharpness_ = np.ones(1), np.ones(3)
        alone.append([one.predict_proba(PAIRS, USERS)[:, 1], one.mean_utilities(), one.moments_of(new, USERS[:9])])
    found.sharpness_ = np.ones(3)
    weights = found.kernel_weights_
    np.testing.assert_allclose(
        found.predict_proba(PAIRS, USERS)[:, 1], sum(w * a[0] for w, a in zip(weights, alone, strict=True)), atol=1e-9
    )
    np.testing.assert_allclose(
        found.mean_utilities(), sum(w * a[1] for w, a in zip(weights, alone, strict=True)), atol=1e-9
    )
    mean, variance = found.moments_of(new, USERS[:9])
    means, variances = (np.array([a[2][j] for a in alone]) for j in (0, 1))
    np.testing.assert_allclose(mean, weights @ means)
    np.testing.assert_allclose(variance, weights @ (variances + (means - mean) ** 2))
    # people's utilities, whose differences have the same moments
    who, utilities, covariance = next(found.people())
    asked = np.tile([[0, 5]], (len(who), 1))
    expected, spread = found.moments_of(asked, found.users_[who])
    np.testing.assert_allclose(utilities[:, 5] - utilities[:, 0], expected, atol=1e-9)
    own = covariance[:, 0, 0] + covariance[:, 5, 5] - 2.0 * covariance[:, 0, 5]
    np.testing.assert_allclose(own, spread, atol=1e-9)
    # saved and loaded, and with new people
    save_model(tmp_path / "model", found)
    again = load_model(tmp_path / "model").estimator()
    np.testing.assert_allclose(again.predict_proba(new, USERS[:9]), found.predict_proba(new, USERS[:9]), atol=1e-12)
    np.testing.assert_allclose(again.utilities_, found.utilities_)
    asked = PAIRS[:14], Y[:14], np.full(14, 7)
    np.testing.assert_allclose(again.place(*asked).mean_utilities(), found.place(*asked).mean_utilities(), atol=1e-9)
    np.testing.assert_allclose(again.item_coordinates(rank=2) ** 2, found.item_coordinates(rank=2) ** 2, atol=1e-9)


def test_a_fit_says_how_long_it_will_take() -> None:
    said: list[str] = []
    TasteMetric(ITEMS, structure="isotropic", shape="matern52", progress=said.append).fit(PAIRS, Y, users=USERS)
    assert said[0].startswith("kernel isotropic, matern52, about ")
    assert all(text.endswith("left") for text in said)
    assert {text.split(",")[0] for text in said} >= {"kernel isotropic", "standard errors", "sharpness of predictions"}
    with pytest.raises(DataError, match="progress"):
        TasteMetric(ITEMS, progress=3).fit(PAIRS, Y, users=USERS)
