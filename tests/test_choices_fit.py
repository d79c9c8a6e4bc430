"""`PopulationMetric` learns from choices among several, rankings, best and worst, alone and beside comparisons."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from crowdmetric import Choices, Comparisons, PopulationMetric
from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import DataError
from crowdmetric.fits.set_probabilities import mean_shares
from crowdmetric.symmetric import smat

ITEMS = np.random.default_rng(0).standard_normal((40, 2))
METRIC = np.array([[1.2, 0.4], [0.4, 0.6]])
FORMS = ("choices", "rankings", "best and worst")


def answers(form: str, people: int = 200, sets: int = 2, n: int = 4, seed: int = 1) -> Choices:
    """Return simulated answers of people around (0.3, 0), by utilities with Gumbel noise."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(people), sets)
    u = np.array([0.3, 0.0]) + 0.7 * rng.standard_normal((people, 2))
    shown = np.stack([rng.choice(len(ITEMS), n, replace=False) for _ in users])
    away = ITEMS[shown] - u[users][:, None]
    eta = -np.einsum("qnd,de,qne->qn", away, METRIC, away)
    noisy = eta + rng.gumbel(size=eta.shape)
    if form == "rankings":
        ranking = np.take_along_axis(shown, np.argsort(-noisy, axis=1), axis=1)
        return Choices.from_arrays(users, shown, ranking=ranking, n_items=len(ITEMS))
    best = np.argmax(noisy, axis=1)
    row = np.arange(len(users))
    if form == "choices":
        return Choices.from_arrays(users, shown, shown[row, best], n_items=len(ITEMS))
    worse = -eta + rng.gumbel(size=eta.shape)
    worse[row, best] = -np.inf
    return Choices.from_arrays(
        users, shown, best=shown[row, best], worst=shown[row, np.argmax(worse, axis=1)], n_items=len(ITEMS)
    )


def fitted(table: Any, **options: Any) -> PopulationMetric:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PopulationMetric(ITEMS, **({"uncertainty": False, "starts": 1} | options)).fit(table)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_finds_the_metric_and_its_size(form: str) -> None:
    model = fitted(answers(form))
    assert model.solution_.converged
    assert np.linalg.norm(model.metric_ - METRIC) < 0.25 * np.linalg.norm(METRIC)
    assert abs(np.trace(model.metric_) / np.trace(METRIC) - 1.0) < 0.25
    assert abs(model.ideal_mean_[0] - 0.3) < 0.2


def test_propagation_and_grids_find_the_same_metric() -> None:
    table = answers("choices", people=60, sets=3, n=3)
    fast, exact = fitted(table, integration="propagation"), fitted(table, integration="grid")
    assert "grid" in exact.integration_
    assert np.linalg.norm(fast.metric_ - exact.metric_) < 0.05 * np.linalg.norm(exact.metric_)


def test_intervals_of_the_size() -> None:
    model = fitted(answers("choices", people=150, sets=2), uncertainty=True)
    size = np.trace(smat(model.metric_draws_), axis1=1, axis2=2)
    low, high = np.quantile(size, [0.02, 0.98])
    assert low < np.trace(METRIC) < high
    assert 0.0 < model.scale_error_ < 0.5
    assert np.isnan(model.question_bias_)


def test_people_may_differ_more_in_one_direction() -> None:
    model = fitted(answers("choices", people=150), covariance="free")
    assert np.linalg.norm(model.metric_ - METRIC) < 0.35 * np.linalg.norm(METRIC)
    assert np.all(np.linalg.eigvalsh(model.ideal_covariance_) > 0.0)


def pairs_of(seed: int = 3) -> tuple[Comparisons, Choices]:
    """Return the same answers as comparisons and as choices between two."""
    table = answers("choices", people=80, sets=5, n=2, seed=seed)
    shown = table.item.reshape(-1, 2)
    y = np.where(table.place.reshape(-1, 2)[:, 0] == 1, -1, 1)
    return Comparisons.from_arrays(table.user, shown, y, n_items=len(ITEMS)), table


def test_choices_between_two_are_comparisons() -> None:
    comparisons, choices = pairs_of()
    one, other = fitted(comparisons), fitted(choices)
    np.testing.assert_allclose(one.metric_, other.metric_, rtol=1e-5)
    assert one.log_likelihood_ == pytest.approx(other.log_likelihood_, rel=1e-9)
    np.testing.assert_allclose(one.pseudo_ideal_points_, other.pseudo_ideal_points_, atol=1e-4)
    probabilities = other.choice_probabilities(choices).reshape(-1, 2)
    shown = choices.item.reshape(-1, 2)
    expected = other.predict_proba(shown, users=choices.user)
    np.testing.assert_allclose(probabilities, expected, atol=2e-3)


def test_tables_of_several_forms_by_the_same_people() -> None:
    (comparisons, pairs), choices = pairs_of(), answers("choices", people=80, sets=1)
    both = fitted([comparisons, choices])
    assert both.users_.tolist() == list(range(80))
    np.testing.assert_allclose(both.metric_, fitted([pairs, choices]).metric_, rtol=1e-5)
    assert both.log_likelihood_ < fitted(choices).log_likelihood_


def test_probabilities_are_those_of_people_and_calibrated() -> None:
    table = answers("choices", people=300, sets=4)
    learn = np.arange(len(table)) % 4 < 2
    model = fitted(table.take(learn))
    hidden = table.take(~learn)
    p = model.choice_probabilities(hidden)
    np.testing.assert_allclose(np.add.reduceat(p, hidden.offsets[:-1]), 1.0)
    chosen = p[hidden.place == 1]
    # the log-loss is what the probabilities themselves expect of it
    entropy = -np.add.reduceat(p * np.log(p), hidden.offsets[:-1])
    assert abs(-np.log(chosen).mean() - entropy.mean()) < 3.0 * np.log(chosen).std() / len(chosen) ** 0.5
    assert -np.log(chosen).mean() < 0.85 * np.log(4.0)
    stranger = Choices.from_arrays(["x"], [hidden.item[:4]], [hidden.item[0]], n_items=len(ITEMS))
    anybody = model.choice_probabilities(stranger)
    assert anybody.sum() == pytest.approx(1.0)


def test_mean_shares_of_two_are_logistic_means() -> None:
    shares = mean_shares(np.array([[0.5]]), np.array([[[1e-12]]]), 1.3)
    assert shares[0, 1] == pytest.approx(expit(0.65))
    wide = mean_shares(np.zeros((1, 3)), np.eye(3)[None] + 1.0, 2.0)
    np.testing.assert_allclose(wide, 0.25, atol=0.01)


TABLE = answers("choices", people=10, sets=1)
NONE = Choices.from_arrays([0, 0, 1], [[0, 1, "none"], [2, 3, "none"], [3, 4, "none"]], [0, "none", 3], items=ITEMS)


@pytest.mark.parametrize(
    ("options", "fit", "sentence"),
    [
        ({"loss": "probit"}, {}, "need loss='logistic'"),
        ({"item_effects": True}, {}, "item_effects is for comparisons"),
        ({"engine": LocalEngine(1)}, {}, "engine is for comparisons"),
        ({"covariance": "none", "constraint": "symmetric"}, {}, "baselines without a metric"),
        ({"constraint": "zero"}, {}, "baselines without a metric"),
        ({}, {"y": [1]}, "leave y, users and sample_weight out"),
    ],
)
def test_what_choices_cannot_have_is_said(options: dict[str, Any], fit: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        PopulationMetric(ITEMS, **options).fit(TABLE, **fit)


def test_other_answers_are_refused() -> None:
    model = PopulationMetric(ITEMS)
    with pytest.raises(DataError, match="3 questions offer 'none of them'"):
        model.fit(NONE)
    with pytest.raises(DataError, match="a list of answers holds a str"):
        model.fit([TABLE, "answers.csv"])
    many = np.random.default_rng(0).standard_normal((40, 90))
    with pytest.raises(DataError, match="90 features need a fit by gradients"):
        PopulationMetric(many).fit(TABLE)
    names = Choices.from_arrays(["a"], [[0, 1, 2]], [0], n_items=40)
    with pytest.raises(DataError, match="name people in two ways"):
        model.fit([TABLE, names])


def test_predictions_about_pairs_refuse_choices() -> None:
    model = fitted(TABLE)
    with pytest.raises(DataError, match="choice_probabilities"):
        model.predict_proba(TABLE)
    with pytest.raises(DataError, match="give Choices"):
        model.choice_probabilities([[0, 1]])
