"""What a fit by gradients has beside a metric of low rank: a ridge, people of any covariance, utilities of items."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from crowdmetric import PopulationMetric
from crowdmetric.fits.low_rank_posterior import observed_evidence
from crowdmetric.fits.many_features import fit_low_rank_law
from crowdmetric.fits.question_stream import QuestionStream, asked_in_memory
from crowdmetric.inputs import read_rows
from crowdmetric.intervals import entries
from crowdmetric.losses import Logistic
from crowdmetric.persist import load_model, save_model
from crowdmetric.report.warnings import warnings_of
from crowdmetric.simulate import answer
from crowdmetric.symmetric import shape_error
from crowdmetric.users.first_order import (
    IsotropicPeople,
    LowRank,
    gradient_in_metric,
    roots_of_information,
    value_and_gradient,
)

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


def test_a_ridge_by_evidence_takes_away_what_noise_put_into_a_rank_too_high() -> None:
    crowd, metric, _ = low_rank_crowd(24, 1, 700, 3)
    without, with_ridge = (fit_low_rank_law(asked_of(crowd), 5, LOSS, ridge=ridge) for ridge in (None, "evidence"))
    assert shape_error(with_ridge.law.metric, metric) < 0.9 * shape_error(without.law.metric, metric)
    assert fit_low_rank_law(asked_of(crowd), 5, LOSS, ridge=3.0).result.prior.shape == 3.0
    found = with_ridge.posterior
    assert found is not None
    assert np.log(found.wanted_shape / with_ridge.result.prior.shape) == pytest.approx(0.0, abs=0.1)


def test_the_rank_is_found_and_the_size_with_it() -> None:
    crowd, metric, _ = low_rank_crowd(24, 2, 1500, 4)
    model = PopulationMetric(crowd["items"]).fit(crowd["pairs"], crowd["y"], users=crowd["users"])
    assert model.factor_.shape == (24, 2)
    assert model.rest_ < 0.2 * np.trace(metric) / 24
    assert "rank 2, found by its evidence" in model.solution_.status
    assert shape_error(model.metric_, metric) < 0.25
    assert abs(np.log(np.trace(model.metric_) / np.trace(metric))) < 2.5 * model.scale_error_ < 0.5
    held = entries(model).contains(metric)[np.triu_indices(24)]
    assert np.mean(held) > 0.75
    np.testing.assert_allclose(model.factor_ @ model.factor_.T + model.rest_ * np.eye(24), model.metric_, atol=1e-10)
    assert model.law_draws_.shape == (400, 2 * 300 + 24)


def test_what_few_directions_leave_out_is_the_same_in_all_others() -> None:
    rng = np.random.default_rng(5)
    items = rng.standard_normal((200, 22)) / np.sqrt(22)
    users = np.repeat(np.arange(1500), 4)
    left = rng.integers(200, size=users.size)
    pairs = np.stack([left, (left + rng.integers(1, 200, size=users.size)) % 200], axis=1)
    ideal = rng.standard_normal((1500, 22)) / np.sqrt(22)
    metric = 4.0 * np.eye(22)
    y = answer(items, pairs, ideal[users], metric, seed=0)
    model = PopulationMetric(items).fit(pairs, y, users=users)
    assert shape_error(model.metric_, metric) < 0.2
    assert np.trace(model.metric_) / 88.0 == pytest.approx(1.0, abs=0.25)


def test_information_about_the_mean_is_the_observed_one() -> None:
    """The offsets are linear in μ, and S does not depend on it: so rows of roots are the whole second derivative."""
    crowd, _, _ = low_rank_crowd(3, 2, 60, 3)
    asked, rng = asked_of(crowd), np.random.default_rng(0)
    at = LowRank(rng.standard_normal((3, 2)), 0.3 * rng.standard_normal(3), IsotropicPeople(-0.5), rest=0.2)
    mean = slice(6, 9)
    roots = [roots_of_information(asked.items, some, at, LOSS) for some in asked.questions]
    information = sum(part.offsets[:, mean].T @ part.offsets[:, mean] for part in roots)

    def slope(mean: np.ndarray) -> np.ndarray:
        return value_and_gradient(asked.items, asked.questions, replace(at, mean=mean), LOSS)[1][6:9]

    steps = 1e-5 * np.eye(3)
    second = np.array([(slope(at.mean + step) - slope(at.mean - step)) / 2e-5 for step in steps])
    np.testing.assert_allclose(information, -second, rtol=1e-3, atol=1e-3 * np.abs(second).max())
    assert all(not np.any(part.spreads[:, mean]) for part in roots)


def test_the_gradient_in_the_metric_is_that_in_the_factor_and_the_rest() -> None:
    crowd, _, _ = low_rank_crowd(4, 2, 60, 3)
    asked, rng = asked_of(crowd), np.random.default_rng(0)
    at = LowRank(rng.standard_normal((4, 2)), 0.3 * rng.standard_normal(4), IsotropicPeople(-0.5), rest=0.2)
    G = gradient_in_metric(asked.items, asked.questions, at, LOSS)
    gradient = value_and_gradient(asked.items, asked.questions, at, LOSS)[1]
    np.testing.assert_allclose(2.0 * G @ at.factor, gradient[:8].reshape(4, 2), atol=1e-9)
    assert np.trace(G) == pytest.approx(gradient[-1])


def test_the_observed_evidence_is_that_of_the_second_derivative() -> None:
    crowd, _, _ = low_rank_crowd(5, 2, 400, 4)
    found = fit_low_rank_law(asked_of(crowd), 2, LOSS, ridge="evidence")
    asked, fit = asked_of(crowd), found.posterior.fit

    def function(at: LowRank) -> tuple[float, np.ndarray]:
        return value_and_gradient(asked.items, asked.questions, at, LOSS)

    def slope(flat: np.ndarray) -> np.ndarray:
        at = fit.at.moved(flat)
        return fit.prior(at)[1] - function(at)[1]

    flat, n = fit.at.flat(), fit.at.flat().size
    H = np.array([(slope(flat + step) - slope(flat - step)) / 2e-4 for step in 1e-4 * np.eye(n)])
    turns = found.posterior.turns
    dense = np.linalg.slogdet(0.5 * (H + H.T) + turns @ turns.T)[1]
    own = 2.0 * np.sum(np.log(np.diag(found.posterior.root)))
    gained = observed_evidence(found.posterior, function) - found.posterior.log_evidence
    assert gained == pytest.approx(-0.5 * (dense - own), abs=0.3)
    assert abs(gained) > 0.01


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
    assert model.rest_draws_.shape == model.factor_draws_.shape[:1]
    assert model.pseudo_ideal_points_.shape == (900, 80)
    probability = model.predict_proba(crowd["pairs"][:30], crowd["users"][:30])
    assert np.mean(np.argmax(probability, axis=1) == (crowd["y"][:30] > 0)) > 0.5
    save_model(tmp_path / "model", model)
    again = load_model(tmp_path / "model").estimator()
    np.testing.assert_allclose(again.predict_proba(crowd["pairs"][:30], crowd["users"][:30]), probability)


def test_a_report_does_not_doubt_sizes_of_fits_that_find_a_rank(tmp_path: Any) -> None:
    crowd, _, _ = low_rank_crowd(24, 1, 900, 3)
    model = PopulationMetric(crowd["items"]).fit(crowd["pairs"], crowd["y"], users=crowd["users"])
    assert model.scale_error_ < 0.5
    save_model(tmp_path / "model", model)
    assert not any("half too large" in text for text in warnings_of(load_model(tmp_path / "model"), None))
