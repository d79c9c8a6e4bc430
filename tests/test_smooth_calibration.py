"""Sharpness of tastes: slopes from hidden answers, and that they leave a model alone that is right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from crowdmetric import Comparisons, TasteMetric
from crowdmetric.evaluate.taste_model import SMOOTHNESS, TOLERANCE, TasteModel
from crowdmetric.losses import Logistic
from crowdmetric.smooth import calibration
from crowdmetric.smooth.calibration import KINDS, PARTS, _of_questions, find_sharpness, probability_of, sharpness_of
from crowdmetric.smooth.covariances import Covariances
from crowdmetric.smooth.evidence import fit_evidence
from crowdmetric.smooth.people_blocks import arrange, merged
from crowdmetric.users.integrals import mean_probability

RNG = np.random.default_rng(3)
ITEMS = RNG.standard_normal((20, 2))


def crowd(people: int, each: int, *, transitive: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return users, pairs and answers of smooth tastes: with logistic noise, or ratings without ties and noise."""
    rng = np.random.default_rng(seed)
    q = np.sum((ITEMS[:, None] - ITEMS[None]) ** 2, axis=2)
    root = np.linalg.cholesky(np.exp(-0.5 * q) + 1e-9 * np.eye(len(ITEMS)))
    utility = 2.0 * (root @ rng.standard_normal((len(ITEMS), people))).T + root @ rng.standard_normal(len(ITEMS))
    users, left = np.repeat(np.arange(people), each), rng.integers(0, len(ITEMS), people * each)
    pairs = np.column_stack([left, (left + rng.integers(1, len(ITEMS), left.size)) % len(ITEMS)])
    if transitive:
        rating = np.round(utility + 0.8 * rng.standard_normal(utility.shape))
        gap = rating[users, pairs[:, 1]] - rating[users, pairs[:, 0]]
        clear = gap != 0
        return users[clear], pairs[clear], np.sign(gap[clear])
    gap = utility[users, pairs[:, 1]] - utility[users, pairs[:, 0]]
    return users, pairs, np.where(rng.random(gap.size) < expit(gap), 1.0, -1.0)


@pytest.mark.parametrize("slope", [0.5, 1.0, 2.0])
def test_a_slope_is_found(slope: float) -> None:
    rng = np.random.default_rng(0)
    z = 1.5 * rng.standard_normal(20_000)
    right = rng.random(z.size) < expit(slope * z)
    log_odds, person = np.where(right, z, -z), np.arange(z.size) % 500
    found = sharpness_of(log_odds, np.ones(z.size), [[person]])
    assert abs(np.log(found / slope)) < 0.08


def test_without_answers_or_information_nothing_is_sharpened() -> None:
    nobody = np.empty(0, dtype=np.intp)
    assert sharpness_of(np.empty(0), np.empty(0), [[nobody]]) == 1.0
    assert sharpness_of(np.zeros(5), np.ones(5), [[np.arange(5)]]) == 1.0


def test_one_item_counts_once_however_many_answers_there_are() -> None:
    rng = np.random.default_rng(1)
    z, person, item = np.abs(rng.standard_normal(4000)), np.arange(4000) % 400, np.arange(4000) % 3
    z[item == 0] *= -1.0  # one item of three is wrong throughout
    by_person = sharpness_of(z, np.ones(4000), [[person]])
    by_item = sharpness_of(z, np.ones(4000), [[person], [item]])
    assert abs(np.log(by_item)) < abs(np.log(by_person))


def test_probabilities_are_averaged_and_then_sharpened() -> None:
    mean, variance = np.array([-1.0, 0.0, 2.0]), np.array([0.5, 3.0, 4.0])
    plain = mean_probability(mean, variance, Logistic())
    np.testing.assert_allclose(probability_of(mean, variance), plain, rtol=1e-10)
    np.testing.assert_allclose(logit(probability_of(mean, variance, 1.7)), 1.7 * logit(plain), atol=1e-9)


def test_a_model_that_is_right_is_left_alone_and_one_that_is_too_careful_is_not() -> None:
    found = {}
    for transitive in (False, True):
        users, pairs, y = crowd(150, 20, transitive=transitive)
        answers = merged(users, pairs, y, np.ones(len(y)))
        Z = (ITEMS - ITEMS.mean(axis=0)) / ITEMS.std(axis=0)
        fit = fit_evidence(Covariances.of("isotropic", 2, "matern52"), Z, arrange(answers, len(Z)))
        found[transitive] = find_sharpness(fit)
    assert found[False].shape == (len(KINDS),)
    np.testing.assert_allclose(np.log(found[False]), 0.0, atol=0.2)
    assert found[True][0] > 1.15


def test_each_kind_is_found_by_itself_and_large_crowds_are_left_some_people(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for seed in range(4):
        users, pairs, y = crowd(150, 15, transitive=True, seed=seed)
        blocks = arrange(merged(users, pairs, y, np.ones(len(y))), len(ITEMS))
        fit = fit_evidence(Covariances.of("isotropic", 2, "matern52"), ITEMS, blocks, tolerance=1.0)
        everybody = find_sharpness(fit)
        np.testing.assert_array_equal(find_sharpness(fit, ("items",)), everybody[KINDS.index("items")])
        with monkeypatch.context() as patch:
            patch.setattr(calibration, "WORK_OF_A_PART", 4e5)
            found.append([find_sharpness(fit, ("answers",))[0], everybody[0]])
        assert found[-1][0] != found[-1][1]
    some, everybody = np.mean(found, axis=0)  # every third person of so few is a noisy sample
    np.testing.assert_allclose(some, everybody, rtol=0.1)


def test_scales_do_not_know_the_answers_that_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales that have seen few answers make them look more predictable than they are."""
    slopes = []
    for seed in range(3):
        users, pairs, y = crowd(30, 12, transitive=False, seed=seed)
        fit = fit_evidence(
            Covariances.of("diagonal", 2, "matern52"), ITEMS, arrange(merged(users, pairs, y, np.ones(len(y))), 20)
        )
        follow = find_sharpness(fit, ("answers",))[0]
        with monkeypatch.context() as patch:
            patch.setattr(calibration, "MOST_STEPS", 0)
            slopes.append([follow, find_sharpness(fit, ("answers",))[0]])
    follow, stay = np.mean(slopes, axis=0)
    assert follow < stay - 0.02


def test_trial_fits_find_the_sharpness_that_their_questions_need() -> None:
    users, pairs, y = crowd(60, 15, transitive=True)
    table = Comparisons.from_arrays(users, pairs, y, n_items=len(ITEMS))
    found = TasteModel(structure="isotropic").fit(ITEMS, table)
    assert np.all(np.isnan(found.estimator.sharpness_))
    right = found.probability(table, table)
    whole = TasteMetric(ITEMS, structure="isotropic", shape=SMOOTHNESS, tol=TOLERANCE, uncertainty=False).fit(table)
    np.testing.assert_allclose(right, whole.predict_proba(table)[:, 1], atol=1e-9)
    assert np.isnan(found.estimator.sharpness_).tolist() == [False, True, True]


def test_both_answers_to_a_question_are_hidden_together() -> None:
    pairs = np.array([[0, 1], [1, 0], [2, 3], [4, 5], [5, 6], [7, 8]])
    answers = merged(np.zeros(6, dtype=int), pairs, np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), np.ones(6))
    blocks = arrange(answers, 9)
    for seed in range(20):
        (part,) = _of_questions(blocks, np.random.default_rng(seed))
        assert part[0, 0, 0] == part[0, 0, 1]
        assert set(part.ravel()) <= set(range(PARTS["answers"]))


def test_sharpened_predictions_of_ratings_are_calibrated() -> None:
    users, pairs, y = crowd(150, 40, transitive=True)
    known = RNG.random(len(y)) < 0.6
    model = TasteMetric(ITEMS, structure="isotropic", uncertainty=False).fit(pairs[known], y[known], users=users[known])
    right = model.predict_proba(pairs[~known], users=users[~known])[:, 1]
    log_odds = np.where(y[~known] > 0, 1.0, -1.0) * logit(right)
    slope = sharpness_of(log_odds, np.ones(log_odds.size), [[users[~known]]])
    model.sharpness_ = np.ones(3)
    plain = model.predict_proba(pairs[~known], users=users[~known])[:, 1]
    before = sharpness_of(np.where(y[~known] > 0, 1.0, -1.0) * logit(plain), np.ones(right.size), [[users[~known]]])
    assert abs(np.log(slope)) < abs(np.log(before))
    assert 0.8 < slope < 1.25
