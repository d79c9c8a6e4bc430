"""Baselines that are fitted, saved and loaded: linear utilities with three variances, popularity, one utility."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crowdmetric import Comparisons, PopulationMetric
from crowdmetric.choice import UNLEARNED
from crowdmetric.cli import main
from crowdmetric.errors import DataError
from crowdmetric.evaluate import MODELS, BradleyTerry, PooledQuadratic, evaluate
from crowdmetric.fits.linear_utilities import _value_and_gradient, fit_linear_utilities
from crowdmetric.fits.question_stream import asked_in_memory
from crowdmetric.inputs import read_rows
from crowdmetric.losses import Logistic
from crowdmetric.persist import load_model, save_model
from crowdmetric.tables import write_columns


def crowd(people: int, answers: int, items: int, d: int, *, popular: float, own: float, seed: int = 0):
    """Return items whose popularity features do not explain, answers about them, and the utilities (K, N)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((items, d)) / np.sqrt(d)
    utility = popular * rng.standard_normal(items) + own * rng.standard_normal((people, d)) @ X.T
    user = np.repeat(np.arange(people), answers)
    left = rng.integers(items, size=user.size)
    pairs = np.column_stack([left, (left + rng.integers(1, items, size=user.size)) % items])
    gap = utility[user, pairs[:, 1]] - utility[user, pairs[:, 0]]
    y = np.where(rng.random(user.size) < 1.0 / (1.0 + np.exp(-gap)), 1, -1)
    return X, Comparisons.from_arrays(user, pairs, y, n_items=items), utility


def test_the_gradient_is_that_of_the_value() -> None:
    X, answers, _ = crowd(12, 6, 15, 4, popular=1.0, own=1.0)
    asked = asked_in_memory(read_rows(answers, None, None, None, X, Logistic()))
    at = fit_linear_utilities(asked, Logistic(), item_effects=True)
    flat, gradient = at.flat(), _value_and_gradient(asked, at, Logistic())[1]
    direction = np.random.default_rng(1).standard_normal(flat.size)
    up, down = (_value_and_gradient(asked, at.moved(flat + h * direction), Logistic())[0] for h in (1e-5, -1e-5))
    assert gradient @ direction == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)


def test_three_variances_are_found() -> None:
    X, answers, _ = crowd(300, 20, 200, 5, popular=1.0, own=1.5)
    model = PopulationMetric(X, **UNLEARNED["mixed"]).fit(answers)
    assert model.item_effect_spread_ == pytest.approx(1.0, rel=0.25)
    spread = np.sqrt(np.diag(model.pseudo_ideal_covariance_))
    np.testing.assert_allclose(spread, 1.5, rtol=0.25)
    assert np.all(model.metric_ == 0.0)
    # what answers say about people narrows where they stand
    assert np.trace(model.pseudo_ideal_covariances_.mean(axis=0)) < 0.8 * np.trace(model.pseudo_ideal_covariance_)
    assert not (np.linalg.eigvalsh(model.pseudo_ideal_covariances_) <= 0.0).any()


def test_the_estimator_predicts_as_the_evaluated_model() -> None:
    X, answers, _ = crowd(60, 12, 30, 3, popular=1.0, own=1.5)
    fitted = MODELS["mixed"].fit(X, answers)
    model = PopulationMetric(X, **UNLEARNED["mixed"]).fit(answers)
    np.testing.assert_allclose(model.predict_proba(answers)[:, 1], fitted.probability(answers, answers), atol=2e-3)


@pytest.mark.parametrize(("name", "twin"), [("bradley-terry", BradleyTerry()), ("quadratic", PooledQuadratic())])
def test_a_utility_of_everybody_is_saved_as_it_was_evaluated(name, twin, tmp_path: Path) -> None:
    X, answers, _ = crowd(40, 10, 25, 3, popular=1.0, own=0.0)
    model = PopulationMetric(X, **UNLEARNED[name]).fit(answers)
    expected = twin.fit(X, answers).probability(answers, answers)
    np.testing.assert_allclose(model.predict_proba(answers)[:, 1], expected, atol=1e-12)
    save_model(tmp_path / "model", model, comparisons=answers)
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.estimator().predict_proba(answers), model.predict_proba(answers))
    said = again.summary()
    assert "no metric" in said
    assert "people do not differ" in said
    assert "moves choices" not in said  # nobody can say how sure that is
    nobody = np.array(["stranger"])  # answers as everybody does
    np.testing.assert_allclose(model.predict_proba([[0, 1]], nobody), model.predict_proba([[0, 1]]))
    if name == "bradley-terry":  # items that nobody has seen are as popular as the average one
        np.testing.assert_allclose(model.predict_proba(X[[[0, 1]]] + 3.0), 0.5)


@pytest.mark.parametrize(
    "options",
    [
        {"constraint": "psd"},
        {"constraint": "zero"},
        {"constraint": "zero", "item_effects": True, "loss": "probit"},
        {"constraint": "symmetric", "item_effects": True},
        {"constraint": "symmetric", "ridge": 2.0},
    ],
)
def test_people_who_do_not_differ_need_a_model_without_them(options) -> None:
    X, answers, _ = crowd(10, 4, 8, 2, popular=1.0, own=0.0)
    with pytest.raises(DataError, match="covariance='none'"):
        PopulationMetric(X, covariance="none", **options).fit(answers)


def test_any_number_of_items_may_have_effects() -> None:
    """Nothing of size (items × items) is made: that would be 72 GB here."""
    rng = np.random.default_rng(0)
    N, T = 95_000, 3000
    X, user = rng.standard_normal((N, 2)), np.repeat(np.arange(300), 10)
    some = rng.choice(N, 400, replace=False)
    popular = rng.standard_normal(N)
    pairs = some[np.array([rng.choice(400, 2, replace=False) for _ in range(T)])]
    y = np.where(rng.random(T) < 1.0 / (1.0 + np.exp(2.0 * (popular[pairs[:, 0]] - popular[pairs[:, 1]]))), 1, -1)
    for options in (UNLEARNED["mixed"], {"item_effects": True, "rank": 1, "max_iter": 30, "uncertainty": False}):
        model = PopulationMetric(X, **options).fit(pairs, y, users=user)
        assert model.item_effects_.shape == (N,)
        assert np.corrcoef(model.item_effects_[some], popular[some])[0, 1] > 0.7
    with pytest.raises(DataError, match=r"effects of 95,000 items.* rule out; use covariance='isotropic'"):
        PopulationMetric(X, **UNLEARNED["linear-items"]).fit(pairs, y, users=user)


def test_popularity_of_many_items_is_not_left_to_the_metric(tmp_path: Path, capsys) -> None:
    """More items than item effects were once allowed for, liked for reasons that are no features."""
    X, answers, _ = crowd(150, 20, 600, 12, popular=2.0, own=0.3)
    found = evaluate(X, answers, ["bradley-terry", "mixed", "population"], splits=["pairs"], repeats=1)
    assert found.difference("pairs", "mixed", "population").is_clear
    assert found.mean("pairs", "mixed") > found.mean("pairs", "bradley-terry") - 0.01
    write_columns({"item_id": np.arange(600)} | {f"e{j}": x for j, x in enumerate(X.T)}, tmp_path / "items.csv")
    pairs = answers.pairs
    table = {"user": answers.user, "left": pairs[:, 0], "right": pairs[:, 1], "response": answers.response}
    write_columns(table, tmp_path / "answers.csv")
    files = [str(tmp_path / "items.csv"), str(tmp_path / "answers.csv"), "--out", str(tmp_path / "model")]
    assert (
        main(["fit", *files, "--pca", "2", "--constraint", "zero", "--covariance", "isotropic", "--item-effects"]) == 0
    )
    model = load_model(tmp_path / "model")
    assert model.description["parameters"]["constraint"] == "zero"
    for more in (["--covariance", "none", "--item-effects"], ["--constraint", "zero"]):  # also where nothing is hidden
        options = ["--pca", "2", "--constraint", "zero", "--no-evaluate", "--overwrite"]
        assert main(["fit", *files, *options, *more]) == 0
    assert main(["info", str(tmp_path / "model")]) == 0
    assert "utilities of items with 2 features, no metric" in capsys.readouterr().out
