"""The search for scales among some of the people, warm starts, and what tastes look like."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from scipy.special import expit

from crowdmetric import Comparisons, TasteMetric
from crowdmetric.evaluate.taste_model import TasteModel
from crowdmetric.intervals import entries
from crowdmetric.locate import LocatedTastes, locate
from crowdmetric.smooth import kernel_search
from crowdmetric.smooth.covariances import Covariances
from crowdmetric.smooth.evidence import fit_evidence, go_on
from crowdmetric.smooth.people_blocks import arrange, merged, some_people

RNG = np.random.default_rng(5)
ITEMS = RNG.standard_normal((18, 2)) * np.array([2.0, 0.5]) + 3.0
PEOPLE, EACH = 120, 14


def _crowd() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return users, pairs and answers: everybody wants more of the second feature, people differ along the first."""
    Z = (ITEMS - ITEMS.mean(axis=0)) / ITEMS.std(axis=0)
    taste = 2.0 * np.sin(1.5 * Z[:, 0] + RNG.uniform(0.0, 6.3, (PEOPLE, 1))) + 1.5 * Z[:, 1]
    users, left = np.repeat(np.arange(PEOPLE), EACH), RNG.integers(0, len(ITEMS), PEOPLE * EACH)
    pairs = np.column_stack([left, (left + RNG.integers(1, len(ITEMS), left.size)) % len(ITEMS)])
    gap = taste[users, pairs[:, 1]] - taste[users, pairs[:, 0]]
    return users, pairs, np.where(RNG.random(gap.size) < expit(gap), 1.0, -1.0)


USERS, PAIRS, Y = _crowd()
ANSWERS = merged(USERS, PAIRS, Y, np.ones(len(Y)))
Z = (ITEMS - ITEMS.mean(axis=0)) / ITEMS.std(axis=0)


@pytest.fixture(scope="module")
def model() -> TasteMetric:
    return TasteMetric(ITEMS, structure="diagonal", shape="matern52").fit(PAIRS, Y, users=USERS)


def test_some_people_do_not_depend_on_names_or_order() -> None:
    work = 30 * 12.0**3
    some = some_people(ANSWERS, work)
    assert 30 <= some.size < PEOPLE
    names = RNG.permutation(PEOPLE)
    order = RNG.permutation(len(Y))
    renamed = merged(names[USERS][order], PAIRS[order], Y[order], np.ones(len(Y)))
    assert set(some_people(renamed, work)) == set(names[some])
    np.testing.assert_array_equal(some_people(ANSWERS, 1e12), np.arange(PEOPLE))


def test_going_on_from_some_people_ends_where_everybody_does() -> None:
    family, everybody = Covariances.of("diagonal", 2, "matern52"), arrange(ANSWERS, len(Z))
    some = some_people(ANSWERS, 30 * 12.0**3)
    few = fit_evidence(family, Z, arrange(ANSWERS.of(some), len(Z)), tolerance=0.2)
    whole = fit_evidence(family, Z, everybody, tolerance=0.01)
    further = go_on(few, Z, everybody, PEOPLE / some.size, tolerance=0.01, max_steps=60)
    assert abs((further.log_likelihood + further.log_prior) - (whole.log_likelihood + whole.log_prior)) < 0.3


def test_a_crowd_searched_in_parts_has_the_same_metric(model: TasteMetric, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_search, "SEARCH_WORK", 6e3)
    parts = TasteMetric(ITEMS, structure="diagonal", shape="matern52").fit(PAIRS, Y, users=USERS)
    assert parts.log_likelihood_ == pytest.approx(model.log_likelihood_, abs=1.0)
    np.testing.assert_allclose(
        parts.predict_proba(PAIRS, users=USERS), model.predict_proba(PAIRS, users=USERS), atol=0.03
    )


def test_a_warm_start_goes_on_with_the_structure_it_has() -> None:
    first = TasteMetric(ITEMS, warm_start=True, uncertainty=False).fit(PAIRS, Y, users=USERS)
    again = copy(first).fit(PAIRS, Y, users=USERS)
    assert again.structure_ == first.structure_
    assert again.solution_.iterations <= first.solution_.iterations
    assert again.log_likelihood_ == pytest.approx(first.log_likelihood_, abs=0.5)
    assert not hasattr(again, "standard_errors_")
    other = TasteMetric(np.hstack([ITEMS, ITEMS[:, :1] ** 2]), structure="diagonal", warm_start=True)
    vars(other).update({k: v for k, v in vars(first).items() if k.startswith(("theta", "_inverse", "kernels_"))})
    with pytest.raises(Exception, match="warm_start has"):
        other.fit(PAIRS, Y, users=USERS)


def test_evaluated_tastes_begin_where_they_ended() -> None:
    table = Comparisons.from_arrays(USERS, PAIRS, Y, n_items=len(ITEMS))
    fitted = TasteModel(structure="isotropic").fit(ITEMS, table)
    again = TasteModel(structure="isotropic").fit(ITEMS, table.take(np.arange(0, len(Y), 2)), fitted.end)
    assert again.estimator is not fitted.estimator
    assert again.estimator.log_likelihood_ > fitted.estimator.log_likelihood_  # of half the answers


def test_utility_along_a_feature(model: TasteMetric) -> None:
    more, differ = model.effect_of(1), model.effect_of(0)
    assert more.mean[-1] - more.mean[0] > 5.0 * np.hypot(more.error[0], more.error[-1])
    assert np.mean(differ.people) > np.mean(more.people)
    np.testing.assert_allclose([e.mean.sum() for e in (more, differ)], 0.0, atol=1e-9)
    assert more.values[0] == ITEMS[np.unique(PAIRS), 1].min()
    # along one feature, utilities are those of items that differ in it
    points = np.tile(ITEMS.mean(axis=0), (5, 1))
    points[:, 1] = np.linspace(ITEMS[:, 1].min(), ITEMS[:, 1].max(), 5)
    utility, error = model.utilities_of(points)
    assert utility[-1] > utility[0]
    assert np.all(error >= 0.0)


def test_people_are_utilities_whose_differences_predict(model: TasteMetric) -> None:
    pairs = np.column_stack(np.triu_indices(len(ITEMS), 1))
    mean, variance = np.empty((PEOPLE, len(pairs))), np.empty((PEOPLE, len(pairs)))
    for who, utilities, covariance in model.people():
        mean[who] = utilities[:, pairs[:, 1]] - utilities[:, pairs[:, 0]]
        own = np.diagonal(covariance, axis1=1, axis2=2)
        variance[who] = own[:, pairs[:, 0]] + own[:, pairs[:, 1]] - 2.0 * covariance[:, pairs[:, 0], pairs[:, 1]]
    asked, users = np.tile(pairs, (PEOPLE, 1)), np.repeat(np.arange(PEOPLE), len(pairs))
    expected, spread = model.moments_of(asked, users)
    np.testing.assert_allclose(mean.ravel(), expected, atol=1e-9)
    np.testing.assert_allclose(variance.ravel(), spread, atol=1e-9)


def test_people_with_tastes_are_located(model: TasteMetric) -> None:
    everybody = locate(model)
    assert isinstance(everybody, LocatedTastes)
    assert everybody.rank_items(top=3).shape == (PEOPLE, 3)
    best = everybody.rank_items()[:, [0, -1]]
    assert np.all(everybody.probability(best[:1])[0, 0] > 0.5)
    ann = locate(model, PAIRS[:EACH], Y[:EACH], users=["ann"] * EACH)
    np.testing.assert_allclose(ann.mean[0] - ann.mean[0].mean(), everybody.mean[0] - everybody.mean[0].mean(), atol=0.5)
    question = ann.next_question()
    assert question.pairs.shape == (1, 2)
    assert 0.0 < question.information[0] < np.log(2.0)
    few = ann.next_question([[0, 1], [2, 3]])
    assert few.information[0] <= question.information[0] + 1e-12
    assert "1 people" in repr(ann)


def test_items_have_coordinates_in_which_the_same_people_like_what_is_close(model: TasteMetric) -> None:
    fit = model._learned().best.fit
    own, _ = fit.family.item_variances(fit.theta)
    K = fit.family.at(fit.theta, fit.Z).person - own * np.eye(len(fit.Z))
    variance = np.diag(K)[:, None] + np.diag(K) - 2.0 * K
    Y_all = model.item_coordinates()
    np.testing.assert_allclose(np.sum((Y_all[:, None] - Y_all[None]) ** 2, axis=2), variance, atol=1e-8)
    Y_two = model.item_coordinates(ITEMS[:5], rank=2)
    assert Y_two.shape == (5, 2)


def test_draws_of_the_metric_make_intervals(model: TasteMetric) -> None:
    sure = entries(model)
    assert np.all((sure.low <= model.metric_) & (model.metric_ <= sure.high))
    diagonal = np.diag_indices(2)
    assert np.all(sure.low[diagonal] > 0.0)
    ratio = np.log(sure.high[diagonal] / sure.low[diagonal]) / (2 * 1.645)
    np.testing.assert_allclose(ratio, model.standard_errors_[diagonal] / model.metric_[diagonal], rtol=0.2)
