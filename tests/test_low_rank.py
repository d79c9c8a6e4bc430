"""What a fit by gradients has beside a metric of low rank: a ridge, people of any covariance, utilities of items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdmetric import PopulationMetric
from crowdmetric.errors import CrowdmetricWarning
from crowdmetric.fits import many_features
from crowdmetric.fits.many_features import Strided, fit_low_rank_law, is_ridge_searched
from crowdmetric.fits.question_stream import QuestionStream, asked_in_memory
from crowdmetric.inputs import read_rows
from crowdmetric.losses import Logistic
from crowdmetric.persist import load_model, save_model
from crowdmetric.symmetric import shape_error
from crowdmetric.users.first_order import EqualQuestions

LOSS = Logistic()


def low_rank_crowd(
    d: int,
    k: int,
    people: int,
    m: int,
    *,
    stretch: float = 1.0,
    popularity: float = 0.0,
    n_items: int = 400,
    seed: int = 0,
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Return answers, a metric of rank k and utilities of items; people differ `stretch` times more along one axis."""
    rng = np.random.default_rng(seed)
    items, L = rng.standard_normal((n_items, d)) / np.sqrt(d), 0.8 * rng.standard_normal((d, k))
    ideal = rng.standard_normal((people, d)) / np.sqrt(d) @ L
    ideal[:, 0] *= stretch
    b = popularity * rng.standard_normal(n_items)
    left = rng.integers(n_items, size=(people, m))
    right = (left + rng.integers(1, n_items, size=(people, m))) % n_items
    away = [np.sum((items[side] @ L - ideal[:, None]) ** 2, axis=2) - b[side] for side in (left, right)]
    y = np.where(rng.random((people, m)) < 1.0 / (1.0 + np.exp(away[1] - away[0])), 1, -1)
    pairs, users = np.stack([left.ravel(), right.ravel()], axis=1), np.repeat(np.arange(people), m)
    return {"items": items, "pairs": pairs, "y": y.ravel(), "users": users}, L @ L.T, b


def asked_of(crowd: dict[str, Any]) -> QuestionStream:
    return asked_in_memory(read_rows(crowd["pairs"], crowd["y"], crowd["users"], None, crowd["items"], LOSS))


def test_a_ridge_by_hidden_people_takes_away_what_noise_put_into_a_rank_too_high() -> None:
    crowd, metric, _ = low_rank_crowd(24, 1, 700, 3)
    without, with_ridge = (fit_low_rank_law(asked_of(crowd), 5, LOSS, ridge=ridge) for ridge in (None, "hidden-people"))
    assert with_ridge.result.prior.shape > np.sqrt(5.0)
    assert shape_error(with_ridge.law.metric, metric) < 0.8 * shape_error(without.law.metric, metric)
    given = fit_low_rank_law(asked_of(crowd), 5, LOSS, ridge=with_ridge.result.prior.shape)
    assert given.result.prior.shape == with_ridge.result.prior.shape


def test_no_ridge_is_looked_for_among_very_many_answers_or_very_few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_of(low_rank_crowd(5, 1, 60, 2)[0])
    assert is_ridge_searched(asked, 1)
    assert not is_ridge_searched(asked_of(low_rank_crowd(5, 1, 49, 2)[0]), 1)
    monkeypatch.setattr(many_features, "ENOUGH_ANSWERS", 120 / 5)
    assert not is_ridge_searched(asked, 1)
    assert fit_low_rank_law(asked, 1, LOSS, ridge="hidden-people").result.prior.shape == 0.0


def test_everybody_is_either_hidden_or_not() -> None:
    chunks = [EqualQuestions(*(np.arange(people)[:, None],) * 4) for people in (3, 12)]
    shown, hidden = ([q.left[:, 0].tolist() for q in Strided(chunks, places)] for places in (range(1, 5), range(1)))
    assert hidden == [[0], [0, 5, 10]]
    assert sorted(person for some in shown + hidden for person in some) == sorted([*range(3), *range(12)])


def test_free_people_are_likelier_and_closer_to_people_who_are_stretched() -> None:
    crowd, metric, _ = low_rank_crowd(6, 2, 1200, 3, stretch=4.0)
    isotropic, free = (fit_low_rank_law(asked_of(crowd), 2, LOSS, free=free) for free in (False, True))
    assert free.result.value > isotropic.result.value + 10.0
    assert np.linalg.matrix_rank(free.law.metric + free.law.covariance, tol=1e-6) == 2  # within the span of L
    assert shape_error(free.law.metric, metric) < 0.7 * shape_error(isotropic.law.metric, metric)
    crowd, _, _ = low_rank_crowd(6, 2, 1200, 3)
    isotropic, free = (fit_low_rank_law(asked_of(crowd), 2, LOSS, free=free) for free in (False, True))
    assert 0.0 <= free.result.value - isotropic.result.value < 8.0  # three more parameters, of nothing


def test_utilities_of_items_are_those_of_the_fit_by_scoring() -> None:
    crowd, metric, b = low_rank_crowd(3, 3, 1500, 3, popularity=0.8, n_items=60)
    scoring = PopulationMetric(crowd["items"], item_effects=True, uncertainty=False, starts=1)
    scoring.fit(crowd["pairs"], crowd["y"], users=crowd["users"])
    found = fit_low_rank_law(asked_of(crowd), 3, LOSS, item_effects=True)
    assert np.corrcoef(found.result.at.effects, b)[0, 1] > 0.9
    assert np.corrcoef(found.result.at.effects, scoring.item_effects_)[0, 1] > 0.99
    assert found.result.prior.items**-0.5 == pytest.approx(scoring.item_effect_spread_, rel=0.1)
    assert found.items_determined == pytest.approx(scoring.item_effects_determined_, rel=0.15)
    plain = fit_low_rank_law(asked_of(crowd), 3, LOSS)
    assert shape_error(found.law.metric, metric) < shape_error(plain.law.metric, metric)


def test_items_that_are_liked_for_what_they_are_have_no_utilities() -> None:
    crowd, _, _ = low_rank_crowd(3, 2, 800, 2, n_items=60)
    found = fit_low_rank_law(asked_of(crowd), 2, LOSS, item_effects=True)
    assert found.result.prior.items**-0.5 < 0.2


def test_everything_through_the_public_class(tmp_path: Any) -> None:
    crowd, _, _ = low_rank_crowd(80, 1, 900, 2, popularity=0.8, n_items=100)
    model = PopulationMetric(crowd["items"], rank=1, covariance="free", item_effects=True)
    model.fit(crowd["pairs"], crowd["y"], users=crowd["users"])
    assert model.item_effects_.shape == model.item_effect_variances_.shape == (100,)
    assert 0.0 < model.item_effects_determined_ < 100.0
    assert model.factor_draws_.shape[1:] == (80, 1)
    np.testing.assert_allclose(
        model.pseudo_ideal_points_, model.pseudo_ideal_mean_ + model.people_coordinates_ @ model.people_axes_
    )
    probability = model.predict_proba(crowd["pairs"][:30], crowd["users"][:30])
    assert np.mean(np.argmax(probability, axis=1) == (crowd["y"][:30] > 0)) > 0.5
    save_model(tmp_path / "model", model)
    again = load_model(tmp_path / "model").estimator()
    np.testing.assert_allclose(again.predict_proba(crowd["pairs"][:30], crowd["users"][:30]), probability)
    with pytest.raises(CrowdmetricWarning, match=r"\(261 parameters\) need at least 783 people, and there are 700"):
        model.set_params(max_iter=5).fit(crowd["pairs"][:1400], crowd["y"][:1400], users=crowd["users"][:1400])
