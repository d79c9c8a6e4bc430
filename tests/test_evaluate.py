"""Evaluation: splits that leak nothing, scores and baselines against others', verdicts where the truth is known."""

from __future__ import annotations

import json
import warnings
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from crowdmetric import Comparisons, IdealPointMetric, PopulationMetric
from crowdmetric.cli import main
from crowdmetric.errors import CrowdmetricWarning, DataError
from crowdmetric.evaluate import (
    SPLITS,
    BradleyTerry,
    EstimatorModel,
    Evaluation,
    PooledQuadratic,
    Result,
    SplitPlan,
    evaluate,
    run,
    split,
)
from crowdmetric.evaluate.models import (
    BASELINES,
    DEFAULT,
    LEARNED,
    MODELS,
    POPULATIONS,
    WITHOUT_DISTANCE,
    WITHOUT_METRIC,
    choose_models,
)
from crowdmetric.evaluate.scores import clustered, measures
from crowdmetric.evaluate.splits import TITLES, possible_splits, questions_of
from crowdmetric.evaluate.verdict import (
    ACCURACY_MARGIN,
    HALF,
    MARGIN,
    SAVED,
    Compared,
    Difference,
    best_model,
    findings,
    has_no_ideal_points,
    is_only_popularity,
    outcome_of,
    worth_of,
    worth_of_metric,
)
from crowdmetric.persist import save_model
from crowdmetric.report.warnings import LEAKED, warnings_of
from crowdmetric.symmetric import svec
from crowdmetric.tables import write_columns


def crowd_of(metric, *, people=200, answers=12, n_items=40, seed=0, popularity=0.0, spread=1.0):
    """Return items and the answers of people with v ~ N(0, 4 spread² M²) on a catalogue, popularity added on top."""
    rng = np.random.default_rng(seed)
    M = np.asarray(metric, dtype=float)
    d = len(M)
    items = rng.standard_normal((n_items, d))
    bonus = popularity * rng.standard_normal(n_items)
    v = -2.0 * spread * rng.standard_normal((people, d)) @ M
    users = np.repeat(np.arange(people), answers)
    pairs = np.array([rng.choice(n_items, 2, replace=False) for _ in users])
    left, right = items[pairs[:, 0]], items[pairs[:, 1]]
    psi = np.einsum("td,td->t", left - right, (left + right) @ M + v[users]) + bonus[pairs[:, 1]] - bonus[pairs[:, 0]]
    y = np.where(rng.random(len(psi)) < expit(psi), 1.0, -1.0)
    return items, Comparisons.from_arrays(users, pairs, y, n_items=n_items)


# Radii given: choosing them is tested elsewhere, and takes most of the time.
IDEAL = EstimatorModel("ideal-point", IdealPointMetric, {"metric_bound": 3.0, "ideal_bound": 6.0})


# ------------------------------------------------------------------------------------------------- splits


@st.composite
def tables(draw) -> Comparisons:
    n_items, n_users = draw(st.integers(4, 8)), draw(st.integers(3, 6))
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, n_users - 1),
                st.permutations(range(n_items)).map(lambda order: order[:2]),
                st.sampled_from([-1.0, 1.0]),
            ),
            min_size=20,
            max_size=60,
        )
    )
    users, pairs, answers = zip(*rows, strict=True)
    return Comparisons.from_arrays(list(users), np.array(pairs), list(answers), n_items=n_items)


@settings(max_examples=60)
@given(
    table=tables(),
    most=st.sampled_from([None, 1, 3]),
    known=st.integers(0, 2),
    both=st.booleans(),
    seed=st.integers(0, 9),
)
@pytest.mark.parametrize("kind", SPLITS)
def test_a_split_leaks_nothing(kind, table, most, known, both, seed) -> None:
    try:
        parts = split(table, kind, SplitPlan(train_answers=most, given=known, both_new=both), seed=seed)
    except DataError as error:
        sentence = str(error)
        if "leaves nothing" in sentence or "needs at least" in sentence:
            return
        raise
    question, _ = questions_of(table)
    train, beside, test = (set(question[rows].tolist()) for rows in (parts.train, parts.given, parts.test))
    assert not train & test
    assert not beside & test
    assert not train & beside
    keys = [(u, *sorted((a, b))) for u, a, b in zip(table.user, table.left, table.right, strict=True)]
    assert not {keys[r] for r in parts.known} & {keys[r] for r in parts.test}
    if most is not None:
        asked = {keys[r] for r in parts.train}
        assert max(np.bincount([u for u, _, _ in asked])) <= most
    if kind == "people":
        new = set(table.user[parts.test].tolist()) | set(table.user[parts.given].tolist())
        assert not new & set(table.user[parts.train].tolist())
        assert all(len({keys[r] for r in parts.given if keys[r][0] == u}) <= known for u in new)
    else:
        assert parts.given.size == 0
    if kind == "items":
        seen = set(table.pairs[parts.train].ravel().tolist())
        fresh = [sum(int(i) not in seen for i in pair) for pair in table.pairs[parts.test]]
        assert min(fresh) >= (2 if both else 1)


@pytest.mark.parametrize("kind", SPLITS)
def test_the_same_seed_hides_the_same_and_another_hides_other_answers(kind) -> None:
    _, table = crowd_of(np.eye(2), people=20)
    first, again, other = (split(table, kind, SplitPlan(), repeat=r, seed=3) for r in (0, 0, 1))
    assert np.array_equal(first.test, again.test)
    assert not np.array_equal(first.test, other.test)


def test_a_share_of_everybodys_questions_is_hidden() -> None:
    _, table = crowd_of(np.eye(2), people=400, answers=3)
    parts = split(table, "pairs", SplitPlan(hidden_pairs=0.25))
    assert parts.test.size / len(table) == pytest.approx(0.25, abs=0.02)
    assert np.unique(table.user[parts.train]).size == 400


def test_what_cannot_be_split_is_said() -> None:
    table = Comparisons.from_arrays([0, 0, 0], [[0, 1], [1, 0], [0, 1]], [1, -1, 1], n_items=2)
    for kind, word in (("pairs", "leaves nothing to predict"), ("people", "two people"), ("items", "three items")):
        with pytest.raises(DataError, match=word):
            split(table, kind, SplitPlan(train_answers=1))
    with pytest.raises(DataError, match="unknown"):
        split(table, "rows", SplitPlan())
    for wrong in ({"train_answers": 0}, {"given": -1}, {"hidden_items": 1.0}):
        with pytest.raises(DataError, match=next(iter(wrong))):
            SplitPlan(**wrong)


# ------------------------------------------------------------------------------------------------- scores


def test_scores_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    right = rng.uniform(0.02, 0.98, 500)
    y = np.where(rng.random(500) < right**1.3, 1.0, -1.0)
    weight = rng.uniform(0.1, 2.0, 500)
    found = measures(right, y, weight)
    assert found["log_likelihood"] == pytest.approx(-log_loss(y, right, sample_weight=weight), rel=1e-12)
    assert found["brier"] == pytest.approx(brier_score_loss(y, right, sample_weight=weight, pos_label=1), rel=1e-12)
    assert found["accuracy"] == pytest.approx(accuracy_score(y, np.where(right > 0.5, 1, -1), sample_weight=weight))
    z = np.log(right / (1 - right))
    slope = (
        LogisticRegression(C=1e10, fit_intercept=False, tol=1e-10).fit(z[:, None], y, sample_weight=weight).coef_[0, 0]
    )
    assert found["calibration_slope"] == pytest.approx(slope, rel=1e-4)


def test_calibration_error_by_hand() -> None:
    # two bins: 0.7 confident and right half the time, 0.9 confident and always right
    right, y = np.array([0.7, 0.7, 0.9, 0.1]), np.array([1.0, -1.0, 1.0, -1.0])
    assert measures(right, y, np.ones(4))["calibration_error"] == pytest.approx(0.5 * 0.2 + 0.5 * 0.1)


def test_turning_pairs_round_changes_no_score() -> None:
    rng = np.random.default_rng(1)
    right, y, weight = rng.random(100), rng.choice([-1.0, 1.0], 100), rng.random(100)
    turn = rng.random(100) < 0.5
    turned = measures(np.where(turn, 1 - right, right), np.where(turn, -y, y), weight)
    assert turned == pytest.approx(measures(right, y, weight))


def test_scores_survive_certainty_and_coin_flips() -> None:
    certain = measures(np.array([0.0, 1.0]), np.array([1.0, 1.0]), np.ones(2))
    assert np.isfinite(list(certain.values())).all()
    assert measures(np.full(4, 0.5), np.array([1.0, 1, 1, -1]), np.ones(4))["accuracy"] == 0.5


def test_clustered_errors_are_those_of_independent_means_and_grow_with_repetition() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal(50)
    mean, error = clustered(x, np.ones(50))
    assert (mean, error) == pytest.approx((x.mean(), x.std(ddof=1) / np.sqrt(50)))
    assert clustered(4 * x, np.full(50, 4.0)) == pytest.approx((mean, error))  # saying it four times adds nothing


def test_clustered_errors_cover() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(400):
        size = rng.integers(1, 20, 80)
        own = rng.standard_normal(80)
        total = np.array([n * u + rng.standard_normal(n).sum() for n, u in zip(size, own, strict=True)])
        mean, error = clustered(total, size.astype(float))
        inside += abs(mean) < 1.96 * error
    assert 0.91 < inside / 400 < 0.98


# ---------------------------------------------------------------------------------------------- baselines


def test_bradley_terry_is_the_penalized_optimum() -> None:
    _, table = crowd_of(np.diag([0.5, 0.5]), people=30, n_items=8, popularity=1.0)
    found = BradleyTerry(precision=0.7).fit(np.zeros((8, 1)), table)

    def objective(theta):
        margin = table.response * (theta[table.right] - theta[table.left])
        return np.sum(table.weight * np.logaddexp(0, -margin)) + 0.35 * theta @ theta

    best = minimize(objective, np.zeros(8), tol=1e-12).x
    assert found.strength == pytest.approx(best, abs=1e-4)


def test_bradley_terry_finds_popularity_and_knows_nothing_of_new_items() -> None:
    items, table = crowd_of(np.zeros((2, 2)), people=200, n_items=20, popularity=1.0)
    table = table.take(~np.isin(table.pairs, [3]).any(axis=1))
    found = BradleyTerry().fit(items, table)
    assert found.strength[3] == 0.0
    assert 0.1 < found.precision < 10.0  # the truth is 1
    noise = Comparisons.from_arrays(
        table.user, table.pairs, np.random.default_rng(0).choice([-1, 1], len(table)), n_items=20
    )
    assert BradleyTerry().fit(items, noise).precision > 10.0


def test_where_there_is_nothing_to_learn_everything_is_a_coin_flip() -> None:
    items, table = crowd_of(np.eye(2), people=60, answers=4, n_items=30)
    noise = Comparisons.from_arrays(
        table.user, table.pairs, np.random.default_rng(1).choice([-1, 1], len(table)), n_items=30
    )
    for model in (BradleyTerry(), PooledQuadratic()):
        found = model.fit(items, noise)
        assert np.isinf(found.precision)
        np.testing.assert_array_equal(found.probability(noise, noise), 0.5)


def test_the_quadratic_is_the_penalized_optimum() -> None:
    items, table = crowd_of(np.diag([0.5, -0.3]), people=40, n_items=9, spread=0.3)
    items = items * [1.0, 50.0] + [0.0, 7.0]
    found = PooledQuadratic(precision=2.0).fit(items, table)
    Z = (items - items.mean(axis=0)) / items.std(axis=0)
    features = np.concatenate([svec(Z[:, :, None] * Z[:, None, :]), Z], axis=1)
    rows = features[table.right] - features[table.left]

    def objective(w):
        return np.sum(table.weight * np.logaddexp(0, -table.response * (rows @ w))) + w @ w

    best = minimize(objective, np.zeros(rows.shape[1]), tol=1e-12).x
    assert found.strength == pytest.approx(features @ best, abs=1e-4)


def test_the_quadratic_knows_new_items_by_their_features_and_no_units() -> None:
    items, table = crowd_of(np.diag([1.0, -0.6]), people=300, n_items=40, spread=0.0)
    known = table.take(~np.isin(table.pairs, [3, 4, 5]).any(axis=1))
    found = PooledQuadratic().fit(items, known)
    liked = -np.einsum("nd,d,nd->n", items, [1.0, -0.6], items)
    assert np.corrcoef(found.strength, liked)[0, 1] > 0.98
    other = PooledQuadratic().fit(items * [1e3, 1e-3] + [5.0, -2.0], known)
    np.testing.assert_allclose(other.strength - other.strength[0], found.strength - found.strength[0], atol=1e-5)


@pytest.mark.parametrize("model", [BradleyTerry(), PooledQuadratic(), BradleyTerry(precision=0.5)])
def test_a_weight_of_two_is_an_answer_twice(model) -> None:
    items, table = crowd_of(np.diag([0.8, 0.4]), people=50, n_items=12)
    weight = np.where(np.arange(len(table)) % 3 == 0, 2.0, 1.0)
    rows = np.repeat(np.arange(len(table)), weight.astype(int))
    twice = Comparisons.from_arrays(table.user[rows], table.pairs[rows], table.response[rows], n_items=12)
    weighted = Comparisons.from_arrays(table.user, table.pairs, table.response, n_items=12, weight=weight)
    first, second = (model.fit(items, answers) for answers in (weighted, twice))
    assert first.precision == second.precision
    np.testing.assert_allclose(first.strength, second.strength, atol=1e-6)


def test_the_linear_model_is_the_mixed_logit_optimum() -> None:
    """One feature, so the likelihood is a one-dimensional integral that anybody can do."""
    rng = np.random.default_rng(5)
    users = np.repeat(np.arange(150), 4)
    items = rng.standard_normal((30, 1))
    pairs = np.array([rng.choice(30, 2, replace=False) for _ in users])
    delta = (items[pairs[:, 0]] - items[pairs[:, 1]])[:, 0]
    v = 0.7 + 1.5 * rng.standard_normal(150)
    y = np.where(rng.random(600) < expit(delta * v[users]), 1.0, -1.0)
    table = Comparisons.from_arrays(users, pairs, y, n_items=30)
    nodes = np.linspace(-8.0, 8.0, 801)
    weights = np.exp(-0.5 * nodes**2)

    def objective(theta):
        psi = delta[:, None] * (theta[0] + np.exp(theta[1]) * nodes)
        each = -np.logaddexp(0, -y[:, None] * psi).reshape(150, 4, -1).sum(axis=1)
        return -np.sum(np.log(np.exp(each) @ (weights / weights.sum())))

    best = minimize(objective, np.zeros(2), tol=1e-10).x
    crowd = MODELS["linear"].fit(items, table)
    model = crowd.estimator
    mean, spread = model.pseudo_ideal_mean_[0], model.pseudo_ideal_covariance_[0, 0] ** 0.5
    assert not model.metric_.any()
    assert mean == pytest.approx(best[0], rel=0.01)
    assert spread**2 == pytest.approx(np.exp(2 * best[1]), rel=0.02)
    # and somebody's probability is the average over where they may stand
    known = table.take(np.flatnonzero(users == 0))
    psi = delta[:4, None] * (mean + spread * nodes)
    posterior = weights * np.exp(-np.logaddexp(0, -y[:4, None] * psi).sum(axis=0))
    asked = expit(delta[9] * (mean + spread * nodes))
    exact = np.sum(posterior * asked) / np.sum(posterior)
    as_first = Comparisons.from_arrays([0], pairs[9:10], [1.0], n_items=30, user_ids=np.arange(150))
    assert crowd.probability(as_first, known)[0] == pytest.approx(exact, abs=0.01)
    # somebody of whom nothing is known is drawn from the law, whose mean is not known exactly either
    doubt = model.offset_covariance_[1, 1] / spread**2
    asked = expit(delta[9] * (mean + np.sqrt(1.0 + doubt) * spread * nodes))
    prior = np.sum(weights * asked) / np.sum(weights)
    assert model.predict_proba(pairs[9:10])[0, 1] == pytest.approx(prior, abs=1e-4)


def test_the_population_model_is_population_metric() -> None:
    items, table = crowd_of([[1.0, 0.4], [0.4, 0.6]], people=1500, answers=1)
    model = PopulationMetric(items, starts=1).fit(table)
    assert MODELS["population"].fit(items, table).estimator.metric_ == pytest.approx(model.metric_, rel=0.01, abs=0.01)


def test_new_people_are_placed_by_what_is_given() -> None:
    items, table = crowd_of(1.5 * np.eye(2), people=150, answers=20)
    models = ["linear", "population", IDEAL]
    none, some = (evaluate(items, table, models, splits=["people"], repeats=1, given=g) for g in (0, 8))
    for model in none.models:
        assert some.mean("people", model) > none.mean("people", model) + 0.03, model


# ----------------------------------------------------------------------------------------------- verdicts


@pytest.fixture(scope="module")
def ideal():
    """A crowd with ideal points under a stretched metric."""
    items, table = crowd_of(np.diag([1.6, 0.1]), people=400, answers=16)
    models = [IDEAL if name == "ideal-point" else name for name in DEFAULT]
    return evaluate(items, table, models, repeats=1)


@pytest.fixture(scope="module")
def saddle():
    """A crowd that wants extremes of one feature and a middle of the other."""
    items, table = crowd_of(np.diag([1.2, -1.2]), people=250, answers=16)
    return evaluate(items, table, ["linear", "population-free", "symmetric"], repeats=1)


@pytest.mark.parametrize("kind", SPLITS)
@pytest.mark.parametrize("other", ["bradley-terry", "linear", "quadratic", "identity", "ideal-point"])
def test_the_true_model_wins(ideal, kind, other) -> None:
    assert ideal.difference(kind, "population", other).mean > 0
    if other != "ideal-point":
        assert ideal.difference(kind, "population", other).is_clear


def test_a_crowd_with_ideal_points_is_not_flagged(ideal) -> None:
    assert not has_no_ideal_points(ideal)
    assert not is_only_popularity(ideal)
    text = ideal.summary()
    assert text.startswith("In short: a learned metric is worth using for ")
    assert "Warning" not in text


def test_a_crowd_without_ideal_points_is_flagged(saddle) -> None:
    assert has_no_ideal_points(saddle)
    text = saddle.findings()
    assert "does not seem to have ideal points" in " ".join(text)
    if any(worth_of(saddle, kind).outcome == "better" for kind in saddle.splits):
        assert "not as a distance" in text[0]


def test_popularity_alone_is_not_believed_of_new_items() -> None:
    """Popularity that features say nothing about, on few items of many features: a metric learns it by heart."""
    items, table = crowd_of(np.zeros((4, 4)), people=200, answers=16, n_items=10, popularity=1.5)
    found = evaluate(items, table, ["bradley-terry", "linear", "population-free"], splits=["pairs"], repeats=1)
    assert found.mean("pairs", "population-free") > found.mean("pairs", "linear") + 0.1
    assert found.best("pairs") == "bradley-terry"
    # the model counts on how little it knows of new items, and is nearly as careful as a coin
    careful, sure = [], []
    for seed in range(4):
        parts = split(table, "items", SplitPlan(), seed=seed)
        train, test = table.take(parts.train), table.take(parts.test)
        crowd = MODELS["population-free"].fit(items, train)
        surer = copy(crowd.estimator)
        surer.new_item_spread_ = 0.0
        del surer.offset_covariance_
        for model, scores in ((crowd, careful), (replace(crowd, estimator=surer), sure)):
            right = model.probability(test, train)
            scores.append(measures(right, test.response, test.weight)["log_likelihood"])
    assert np.mean(careful) > -1.1
    assert np.mean(careful) > np.mean(sure) + 1.0


def test_rounding_does_not_decide_whether_there_is_a_metric() -> None:
    """A metric that answers support by hundreds of nats stays, however the search for ridges goes about it."""
    items, table = crowd_of(np.zeros((4, 4)), people=200, answers=16, n_items=10, popularity=1.5)
    found = [
        evaluate(items * (1.0 + tiny), table, ["population-free"], splits=["pairs"], repeats=1).mean(
            "pairs", "population-free"
        )
        for tiny in (0.0, 1e-12, -1e-11)
    ]
    assert np.ptp(found) < 1e-6
    assert min(found) > -0.6


class Made:
    """Stands in for an evaluation: log-likelihoods by model, one per split, and one standard error for all."""

    def __init__(self, values, *, splits=("pairs",), error=0.1, saved=None) -> None:
        self.values, self.splits, self.models = values, splits, tuple(values)
        self.spread, self.saved = error, saved

    def has(self, split, model):
        return split in self.splits and model in self.models

    def mean(self, split, model, measure="log_likelihood"):
        return self.values[model][self.splits.index(split)] * (0.0 if measure == "accuracy" else 1.0)

    def difference(self, split, model, other, measure="log_likelihood"):
        return Difference(self.mean(split, model, measure) - self.mean(split, other, measure), self.spread)


def test_popularity_that_items_have_to_themselves_is_no_disguise() -> None:
    """The warning is about metrics alone; where effects of the items help with new ones, they are the remedy."""
    values = {"linear": (0.0, 0.0), "population-free": (0.3, -0.3), "population-items": (0.4, 0.1)}
    splits = ("pairs", "items")
    found = Made(values, splits=splits)
    assert is_only_popularity(found)
    assert findings(found)[-1].endswith("A model with per-item effects (population-items) predicts new items better.")
    assert findings(Made({**values, "population-items": (0.4, -0.2)}, splits=splits))[-1].endswith("not for new items.")
    assert not is_only_popularity(Made({**values, "population-free": (0.0, 0.0)}, splits=splits))
    # the saved model is the one that is judged
    assert not is_only_popularity(Made(values, splits=splits, saved="population-items"))
    assert is_only_popularity(Made(values, splits=splits, saved="population-free"))


@pytest.mark.parametrize(
    ("gain", "error", "accuracy", "outcome"),
    [
        (0.21, 0.1, 0.0, "better"),
        (-0.21, 0.1, 0.0, "worse"),
        (0.19, 0.1, 0.0, "unclear"),
        (-0.0395, 0.0213, -0.0903, "unclear"),
        (0.001, 0.002, 0.0, "equal"),
        (-0.004, 0.0005, 0.0, "equal"),
        (-0.001, 0.001, -0.03, "unclear"),
        (0.001, 0.003, 0.0, "unclear"),
        (0.0, float("nan"), 0.0, "unclear"),
    ],
)
def test_equal_means_within_the_margin_and_otherwise_nobody_can_tell(gain, error, accuracy, outcome) -> None:
    assert outcome_of(Difference(gain, error), Difference(accuracy, 0.01)) == outcome


def test_figures_have_no_error_that_is_not_known_and_no_minus_zero() -> None:
    known = Compared("pairs", "a", "b", Difference(-0.00001, 0.002), Difference(-0.00001, 0.01))
    assert known.figures == "(+0.0000 ± 0.0020 nats per answer, +0.00 points of accuracy)"
    alone = Compared("pairs", "a", "b", Difference(0.01, float("nan")), Difference(0.02, float("nan")))
    assert alone.figures == "(+0.0100 nats per answer, +2.00 points of accuracy)"


def test_the_sentences_follow_their_rules() -> None:
    def said(gain, error=0.1):
        return findings(Made({"linear": (0.0,), "population": (gain,)}, error=error))[1]

    assert "predicts better than every baseline, of which linear is the best" in said(0.21)
    assert "these answers cannot tell whether" in said(0.19)
    assert "linear, the best baseline, predicts better than" in said(-0.21)
    assert "predict equally well" in said(0.001, 0.001)
    assert "The baseline linear is the same model without the metric. Best in the table: population." in said(0.21)


@pytest.mark.parametrize(
    ("gains", "sentence"),
    [
        (
            (0.3, 0.3, 0.3),
            "a learned metric is worth using for new questions to known people, new people and new items.",
        ),
        (
            (0.3, 0.0, 0.0),
            "using for new questions to known people; for new people and new items these answers cannot tell.",
        ),
        (
            (0.3, 0.3, -0.3),
            "using for new questions to known people and new people; for new items models without it predict better.",
        ),
        (
            (0.0, 0.0, -0.3),
            "do not show that a learned metric is worth using for prediction: for new items models without it predict "
            "better, for new questions to known people and new people these answers cannot tell.",
        ),
        ((0.0, 0.0, 0.0), "these answers cannot tell whether a learned metric is worth using for prediction."),
        (
            (-0.3, -0.3, -0.3),
            "a learned metric is not worth using for prediction: for new questions to known people, new people and new "
            "items models without it predict better.",
        ),
    ],
)
def test_one_plain_sentence_comes_first(gains, sentence) -> None:
    first, *others = findings(Made({"linear": (0.0, 0.0, 0.0), "population": gains}, splits=tuple(SPLITS)))
    assert first.startswith("In short: ")
    assert first.endswith(sentence)
    assert len([text for text in others if not text.startswith("Warning:")]) == 3


@pytest.mark.parametrize(
    ("gains", "sentence"),
    [
        ((0.0, 0.0, 0.0), "cannot tell whether the saved model predicts better than simpler models."),
        ((-0.3, -0.3, -0.3), "the saved model predicts no better than simpler models: for new questions to known"),
        ((-0.3, 0.0, 0.0), "do not show that the saved model predicts better than simpler models: for new questions"),
        ((0.3, -0.3, 0.3), "and new items; for new people simpler models predict better."),
    ],
)
def test_tastes_are_compared_with_simpler_models_as_a_whole(gains, sentence) -> None:
    """A model that predicts as well as linear utilities is of use; it is only no better."""
    found = Made({"linear": (0.0, 0.0, 0.0), "smooth": gains}, splits=tuple(SPLITS), saved="smooth")
    assert sentence in findings(found)[0]


def test_with_one_feature_plain_distance_is_the_learned_metric_and_no_baseline() -> None:
    assert "identity" in [model.name for model in choose_models(None, None, 20, 2)]
    assert "identity" not in [model.name for model in choose_models(None, None, 20, 1)]
    assert [model.name for model in choose_models(["identity"], None, 20, 1)] == ["identity"]  # whoever asks, gets it
    for people in (2, 3):
        assert ("ideal-point" in [model.name for model in choose_models(None, None, 20, 2, people)]) == (people > 2)


def test_a_split_that_leaves_nothing_does_not_spoil_the_others() -> None:
    """Two items are one question: people can be hidden, and neither questions nor items."""
    users, y = np.repeat(np.arange(6), 2), np.tile([1.0, -1.0], 6)
    assert possible_splits(Comparisons.from_arrays(users, np.tile([0, 1], (12, 1)), y)) == ["people"]
    with pytest.raises(DataError, match="leaves nothing to predict"):
        possible_splits(Comparisons.from_arrays([0, 0], [[0, 1], [1, 0]], [1.0, -1.0]))


def test_a_metric_is_credited_only_with_what_the_model_lacks_without_it() -> None:
    """Item effects beat every baseline but their own twin, which the model equals: the metric is worth nothing."""
    values = {"linear": (0.0,), "linear-items": (0.3,), "population-items": (0.3005,)}
    found = Made(values, error=0.001)
    assert findings(found)[0].startswith("In short: a learned metric is not worth using")
    # a twin that cannot be told apart from the model leaves the metric's worth open, whatever other baselines say
    vague = Made(values, error=0.004)
    assert "cannot tell whether a learned metric is worth using" in findings(vague)[0]
    assert [c.other for c in worth_of_metric(found)["population-items"]] == ["linear-items"]


def test_a_metric_that_helps_is_not_sold_as_a_distance_where_nobody_has_an_ideal_point() -> None:
    values = {"linear": (0.0,), "population-free": (0.5,), "symmetric": (1.0,)}
    text = findings(Made(values))
    assert "helps to predict" in text[0]
    assert "not as a distance" in text[0]
    assert text[-1].startswith("Warning: do not read the metric as a distance")
    assert "worth using" not in text[0]
    # somebody else may know it, or know better
    plain = {"linear": (0.0,), "population-free": (0.5,)}
    assert "not as a distance" in findings(Made(plain), no_distance=True)[0]
    assert "is worth using" in findings(Made(plain))[0]
    # with item effects, the like is compared with the like
    effects = {**values, "population-items": (0.9,), "symmetric-items": (0.9,), "linear-items": (0.0,)}
    assert has_no_ideal_points(Made(effects, saved="population-free"))
    assert not has_no_ideal_points(Made(effects, saved="population-items"))


def test_every_learned_model_has_a_twin_without_a_metric() -> None:
    assert set(LEARNED) <= set(WITHOUT_METRIC) <= set(MODELS)
    assert set(WITHOUT_METRIC.values()) <= set(BASELINES) <= set(MODELS)
    assert {*WITHOUT_DISTANCE, *WITHOUT_DISTANCE.values()} <= set(MODELS)
    assert not set(BASELINES) & set(LEARNED)


def made_up(rng) -> Evaluation:
    """Return an evaluation of random splits and models, whose numbers are of random size and noise."""
    kinds = [kind for kind in SPLITS if rng.random() < 0.8] or ["people"]
    names = [name for name in MODELS if rng.random() < 0.7] or ["linear"]
    people, size = int(rng.integers(1, 60)), 10.0 ** rng.uniform(-4, 0)
    results = []
    for kind in kinds:
        weight = rng.uniform(1.0, 9.0, people)
        base = rng.standard_normal(people)
        for name in names:
            noise = 10.0 ** rng.uniform(-4, 0) * rng.standard_normal(people)
            each = -0.6 + 0.1 * base + size * rng.standard_normal() + noise
            right = np.clip(0.7 + 0.3 * size * rng.standard_normal() + 0.1 * noise, 0.0, 1.0)
            total = {"log_likelihood": np.average(each, weights=weight), "accuracy": np.average(right, weights=weight)}
            rest = {"brier": 0.2, "calibration_error": 0.0, "calibration_slope": 1.0}
            results.append(
                Result(kind, name, 0, 10, 10, {**total, **rest}, weight * each, weight * right, weight, 0.0, ())
            )
    saved = str(rng.choice(names)) if rng.random() < 0.5 else None
    return Evaluation(tuple(results), tuple(kinds), tuple(names), None, saved=saved)


@pytest.mark.parametrize("seed", range(400))
def test_no_evaluation_contradicts_itself(seed) -> None:
    """The headline, the sentence of every split, the differences and the table say the same."""
    found = made_up(np.random.default_rng(seed))
    text = [line for line in found.findings() if not line.startswith("Warning:")]
    judged = [worth for kind in found.splits if (worth := worth_of(found, kind))]
    assert len(text) == len(judged) + bool(judged)
    table = found.summary()
    for worth, line in zip(judged, text[1:], strict=True):
        against, title = worth.against, TITLES[worth.split]
        assert line.startswith(f"{title}: ")
        # the best of the text is the best of the table, and the best baseline the best of them there
        best = found.best(worth.split)
        assert line.endswith(f"Best in the table: {best}.")
        rows = [row[2:].split() for row in found._table(worth.split).splitlines()[2:]]
        assert [row[0] for row in rows if "best" in row] == [best]
        assert against.other == best_model(found, worth.split, BASELINES)
        if found.saved in SAVED:
            assert f"the saved model ({found.saved})" in line
        # words are those of the numbers
        gain = found.difference(worth.split, against.model, against.other)
        right = found.difference(worth.split, against.model, against.other, "accuracy")
        if "predict equally well" in line:
            assert abs(gain.mean) + HALF * gain.error <= MARGIN
            assert abs(right.mean) <= ACCURACY_MARGIN
        if "predicts better than every baseline" in line:
            others = [name for name in found.models if name in BASELINES]
            assert all(found.mean(worth.split, against.model) > found.mean(worth.split, name) for name in others)
            assert gain.is_clear
        if f"{against.other}, the best baseline, predicts better than " in line:
            assert gain.mean < -2 * gain.error
        # whoever is worth using beats all baselines, and itself without its metric
        if worth.outcome == "better":
            assert against.outcome == "better"
            assert worth.alone is None or worth.alone.likelihood.is_clear
    if judged:
        head = text[0]
        assert head.startswith("In short: ")
        assert any(words in head for words in ("is worth using for new", "helps to predict")) == any(
            worth.outcome == "better" for worth in judged
        )
        denied = any(words in head for words in ("not worth using", "predicts no better than simpler models"))
        assert denied == all(worth.outcome in ("equal", "worse") for worth in judged)
        if "is worth using for new" in head:
            assert not has_no_ideal_points(found)
        if "cannot tell" in head:
            assert any(worth.outcome == "unclear" for worth in judged)
    assert all(len(line) <= 100 for line in table.splitlines())
    json.dumps(found.to_dict(), allow_nan=False)


# ------------------------------------------------------------------------------------------------- the call


def test_the_table_is_tidy_and_travels(ideal, tmp_path) -> None:
    columns = ideal.columns()
    assert len(columns["split"]) == len(SPLITS) * len(DEFAULT)
    ideal.to_csv(tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text(encoding="utf-8").startswith("split,model,repeat,n_train,n_test,log_lik")
    assert list(ideal.to_pandas().columns) == list(columns)
    assert json.loads(json.dumps(ideal.to_dict(), allow_nan=False))["models"] == list(ideal.models)
    assert len(ideal.plot().axes) == 2 * len(SPLITS)
    alone = ideal.of_saved("population").plot("people")
    assert len(alone.axes) == 1
    assert alone.get_figwidth() < 5  # inches: about the width of a phone
    assert "▸ population" in [label.get_text() for label in alone.axes[0].get_yticklabels()]


def test_a_tie_is_one_answer() -> None:
    items, table = crowd_of(np.eye(2), people=40)
    rows = np.repeat(np.arange(len(table)), 2)
    response = table.response[rows] * np.tile([1.0, -1.0], len(table))
    ties = Comparisons.from_arrays(
        table.user[rows], table.pairs[rows], response, n_items=40, weight=np.full(len(rows), 0.5)
    )
    result = evaluate(items, ties, ["bradley-terry"], splits=["people"], repeats=1).results[0]
    assert result.n_train + result.n_test == len(table)


def test_the_saved_model_is_marked(saddle) -> None:
    marked = saddle.of_saved("population-free")
    assert "> population-free" in marked.summary()
    assert "the saved model (population-free)" in " ".join(marked.findings())
    assert marked.to_dict()["saved"] == "population-free"
    assert "saved" not in saddle.summary()
    with pytest.raises(DataError, match="'stitched' was not evaluated"):
        saddle.of_saved("stitched")


def test_differences_are_differences_of_means(saddle) -> None:
    for measure in ("log_likelihood", "accuracy"):
        gap = saddle.difference("items", "symmetric", "linear", measure)
        assert gap.mean == pytest.approx(
            saddle.mean("items", "symmetric", measure) - saddle.mean("items", "linear", measure)
        )
    with pytest.raises(DataError, match="brier"):
        saddle.difference("items", "symmetric", "linear", "brier")
    with pytest.raises(DataError, match="'nothing' was not evaluated"):
        saddle.mean("items", "nothing")


def test_processes_change_nothing_and_seeds_do() -> None:
    items, table = crowd_of(np.eye(2), people=40)
    options = {"models": ["bradley-terry"], "splits": ["pairs", "people"], "repeats": 1}
    alone, two, other = (evaluate(items, table, **options, jobs=j, seed=s) for j, s in ((1, 0), (2, 0), (1, 1)))
    values = [run.columns()["log_likelihood"] for run in (alone, two, other)]
    assert np.array_equal(values[0], values[1])
    assert not np.array_equal(values[0], values[2])


def test_models_of_your_own_never_see_the_answers() -> None:
    class Cheat:
        name = "cheat"

        def fit(self, items, train):
            return self

        def probability(self, questions, known):
            return np.where(questions.response > 0, 0.99, 0.01)

    items, table = crowd_of(np.eye(2), people=40)
    found = evaluate(items, table, [Cheat(), IDEAL], splits=["pairs"], repeats=1)
    assert found.mean("pairs", "cheat", "accuracy") < 0.6
    assert found.mean("pairs", "ideal-point", "accuracy") > 0.6


def test_stitched_is_evaluated_where_labels_are_given() -> None:
    items, table = crowd_of(np.eye(2), people=60, n_items=10)
    options = {"splits": ["pairs"], "repeats": 1, "subspaces": np.zeros(10, dtype=int)}
    found = evaluate(items, table, ["stitched"], **options)
    assert found.mean("pairs", "stitched", "accuracy") > 0.6


WRONG = {
    "items has": {"items": np.zeros((3, 2))},
    "is one name": {"models": "linear"},
    "model 'best' is unknown": {"models": ["best"]},
    "is no model": {"models": [3]},
    "repeats 'linear'": {"models": ["linear", "linear"]},
    "models is empty": {"models": []},
    "give subspaces": {"models": ["stitched"]},
    "repeats=0": {"repeats": 0},
    "split 'rows' is unknown": {"splits": ["rows"]},
    "splits='pairs'": {"splits": "pairs"},
    "repeats a name": {"splits": ["pairs", "pairs"]},
    "given=-1": {"given": -1},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_options_get_a_sentence(message) -> None:
    items, table = crowd_of(np.eye(2), people=10)
    with pytest.raises(DataError, match=message):
        evaluate(**{"items": items, "comparisons": table} | WRONG[message])


def test_real_numbers_are_refused() -> None:
    table = Comparisons.from_arrays([0, 0], [[0, 1], [1, 2]], [0.3, -2.0], n_items=3)
    with pytest.raises(DataError, match="real numbers"):
        evaluate(np.eye(3), table)


def test_on_a_line_the_identity_is_all_there_is_to_learn() -> None:
    items, table = crowd_of([[0.8]], people=1200, answers=1)
    crowd = MODELS["identity"].fit(items, table)
    model = PopulationMetric(items, starts=1).fit(table)
    assert crowd.estimator.metric_[0, 0] == pytest.approx(model.metric_[0, 0], rel=0.01)
    items, table = crowd_of(np.diag([1.0, 0.5]), people=300, answers=2)
    metric = MODELS["identity"].fit(items, table).estimator.metric_
    np.testing.assert_allclose(metric, metric[0, 0] * np.eye(2))


# --------------------------------------------------------------------------------------------- command line


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Items and comparisons as files."""
    folder = tmp_path_factory.mktemp("tables")
    items, table = crowd_of(np.diag([1.5, 0.2]), people=60)
    write_columns({"item_id": np.arange(40), "f0": items[:, 0], "f1": items[:, 1]}, folder / "items.csv")
    table.write(folder / "comparisons.csv")
    return folder


def test_the_command_prints_a_table_and_writes_it(files, tmp_path, capsys) -> None:
    tables = [str(files / "items.csv"), str(files / "comparisons.csv")]
    options = ["--models", "bradley-terry, linear", "--repeats", "2", "--jobs", "1", "--train-answers", "4"]
    out = tmp_path / "found"
    assert main(["evaluate", *tables, *options, "--split", "pairs", "--split", "people", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("New questions to known people: ")
    assert ", mean of 2 repeats\n" in printed.out
    assert "New items" not in printed.out
    assert "wrote evaluation.csv, evaluation.json, evaluation.png" in printed.err
    assert len((out / "evaluation.csv").read_text(encoding="utf-8").splitlines()) == 1 + 2 * 2 * 2
    assert (out / "evaluation.png").read_bytes()[:4] == b"\x89PNG"
    # and again, as JSON; the folder is ours and may be replaced, but only if asked
    assert main(["evaluate", *tables, *options, "--split", "pairs", "--out", str(out), "--json"]) == 1
    assert "exists" in capsys.readouterr().err
    assert main(["evaluate", *tables, *options, "--split", "pairs", "--out", str(out), "--json", "--overwrite"]) == 0
    assert json.loads(capsys.readouterr().out)["splits"] == ["pairs"]


def test_the_command_refuses_what_it_cannot_do(files, capsys) -> None:
    tables = [str(files / "items.csv"), str(files / "comparisons.csv")]
    with pytest.raises(SystemExit) as end:
        main(["evaluate", *tables, "--models", "stitched"])
    assert end.value.code == 2
    assert main(["evaluate", *tables, "--models", "best"]) == 1
    assert "model 'best' is unknown" in capsys.readouterr().err


def test_a_consistent_difference_of_rounding_is_not_clear() -> None:
    assert not Difference(mean=1e-6, error=1e-8).is_clear
    assert not Difference(mean=0.1, error=0.06).is_clear
    assert Difference(mean=0.1, error=0.04).is_clear


def test_a_symmetric_matrix_begins_where_its_metric_ended_and_ends_as_high() -> None:
    items, table = crowd_of(np.diag([1.0, 0.5]), people=200, answers=6)
    twins = ["population-free", "symmetric"]
    both = evaluate(items, table, twins, splits=["pairs"], repeats=1)
    alone = evaluate(items, table, twins[1:], splits=["pairs"], repeats=1)
    assert both.mean("pairs", "symmetric") == pytest.approx(alone.mean("pairs", "symmetric"), abs=1e-3)


def test_sentences_are_about_the_saved_tastes() -> None:
    """Where smooth tastes were saved, they are judged, and nothing is said of a metric alone."""
    found = Made({"linear": (-0.6,), "population": (-0.55,), "smooth": (-0.3,)}, error=0.01, saved="smooth")
    sentences = findings(found)
    assert sentences[0] == "In short: the saved model is worth using for new questions to known people."
    assert "the saved model (smooth) predicts better than" in sentences[1]
    assert "The metric itself" not in sentences[1]


class Clock:
    """Seconds that pass with every look at the clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.parametrize(
    ("limit", "splits", "models", "left_out"),
    [
        (100.0, ("pairs", "people"), ("bradley-terry", "quadratic"), ""),
        (3.5, ("pairs",), ("bradley-terry", "quadratic"), "new people"),
        (1.5, ("pairs",), ("bradley-terry",), "quadratic, new people"),
    ],
)
def test_a_time_limit_leaves_out_what_it_says(limit, splits, models, left_out, monkeypatch) -> None:
    monkeypatch.setattr(run, "time", Clock())
    items, answers = crowd_of(np.eye(2), people=40)[:2]
    found = evaluate(
        items, answers, ["bradley-terry", "quadratic"], splits=["pairs", "people"], repeats=1, time_limit=limit
    )
    assert (found.splits, found.models) == (splits, models)
    assert found.unfinished == (f"The time limit of {limit:g} s left out {left_out}." if left_out else "")
    assert found.unfinished in found.summary().replace("\n  ", " ")
    assert len(found.results) == len(splits) * len(models)


def test_without_time_nothing_is_evaluated(monkeypatch) -> None:
    monkeypatch.setattr(run, "time", Clock())
    items, answers = crowd_of(np.eye(2), people=40)[:2]
    with pytest.raises(DataError, match="raise the time limit"):
        evaluate(items, answers, ["bradley-terry"], splits=["pairs"], repeats=1, time_limit=0.5)


def test_models_begin_where_simpler_ones_ended_and_end_no_lower() -> None:
    items, answers = crowd_of(np.diag([2.0, 1.0, 0.2]), people=80)[:2]
    for name, model in POPULATIONS.items():
        if not model.simpler or name.startswith("symmetric"):
            continue
        alone = model.fit(items, answers).estimator
        begun = model.fit(items, answers, MODELS[model.simpler].fit(items, answers).end).estimator
        # ridges settle to .01 nats of evidence, which moves the likelihood itself by some tenths
        assert begun.log_likelihood_ == pytest.approx(alone.log_likelihood_, abs=0.5)


def test_some_models_are_fitted_on_the_first_split_alone() -> None:
    items, answers = crowd_of(np.diag([2.0, 1.0, 0.2]), people=60)[:2]
    names = ["linear", "population-free", "symmetric"]
    found = evaluate(items, answers, names, splits=["people", "pairs"], repeats=2, on_first_split=["symmetric"])
    whole = evaluate(items, answers, names, splits=["people", "pairs"], repeats=2)
    assert found.models == ("linear", "population-free")
    assert found.has("people", "symmetric")
    assert not found.has("pairs", "symmetric")
    one, all_ = (table.difference("people", "symmetric", "population-free") for table in (found, whole))
    assert one.mean == pytest.approx(all_.mean, abs=1e-9)
    assert "symmetric" not in found.summary()


def test_models_that_show_no_gain_on_the_first_split_are_given_up() -> None:
    items, answers = crowd_of(np.diag([2.0, 1.0, 0.2]), people=60)[:2]
    names, asked = ["identity", "population", "population-free", "symmetric"], []

    def give_up(seen: Evaluation) -> set[str]:
        asked.append(seen.models)
        return {"population-free", "symmetric"} if "population-free" in seen.models else set()

    found = evaluate(items, answers, names, splits=["pairs", "people"], repeats=1, give_up=give_up)
    assert asked == [("identity",), ("identity", "population"), tuple(names[:3]), tuple(names[:3])]
    assert found.models == ("identity", "population")
    assert found.has("pairs", "population-free")
    assert not found.has("people", "population-free")
    assert not found.has("pairs", "symmetric")
    assert found.unfinished == ""
    assert set(found.ends) == {"identity", "population", "population-free"}


def test_pairs_made_from_rankings_are_recognized_and_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    items, people = rng.standard_normal((8, 2)), 20
    left, right = np.triu_indices(8, 1)
    pairs = np.tile(np.column_stack([left, right]), (people, 1))
    users = np.repeat(np.arange(people), len(left))
    utility = items @ rng.standard_normal((2, people)) + 0.5 * rng.standard_normal((8, people))
    y = np.where(utility[pairs[:, 1], users] > utility[pairs[:, 0], users], 1, -1)
    ranked = Comparisons.from_arrays(users, pairs, y, n_items=8)
    y[::9] *= -1
    noisy = Comparisons.from_arrays(users, pairs, y, n_items=8)
    assert (ranked.origin, noisy.origin) == ("orders", "pairs")
    evaluation = evaluate(items, ranked, ["linear", "population"], splits=["pairs"], repeats=1)
    for answers, found in ((ranked, "orders"), (noisy, "pairs")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdmetricWarning)
            fitted = PopulationMetric(items, uncertainty=False, max_iter=3).fit(answers)
        assert fitted.made_of_ == found
        model = save_model(tmp_path / found, fitted)
        assert (LEAKED in warnings_of(model, None, evaluation, answers)) == (found == "orders")
        assert LEAKED not in warnings_of(model, None, None, answers)
