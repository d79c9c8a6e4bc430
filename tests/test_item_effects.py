"""Utilities of items beside their features: scores, evidence, predictions, and what becomes of a metric."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdmetric import Comparisons, PopulationMetric
from crowdmetric.errors import DataError
from crowdmetric.evaluate import MODELS, evaluate
from crowdmetric.evaluate.models import choose_models
from crowdmetric.fits.uncertainty import inverse_information
from crowdmetric.locate import locate
from crowdmetric.losses import Logistic
from crowdmetric.persist import load_model, save_model
from crowdmetric.solvers.law_fit import fit_with_evidence, with_ridges
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.symmetric import degrees_of_freedom, relative_error, svec
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.integrals import mean_probability
from crowdmetric.users.item_effects import WithItemEffects
from crowdmetric.users.population_sums import STRUCTURES, PopulationBlock, Sums, blocks_of, integrate, sums_of

each_structure = pytest.mark.parametrize("structure", STRUCTURES)
QUICK: dict[str, Any] = {"uncertainty": False, "starts": 1, "jobs": 1}


def some_blocks(n_items: int, answers: list[int], seed: int = 0) -> tuple[np.ndarray, Answers, list[PopulationBlock]]:
    """Return items (N, 2), answers of people who gave so many, and their blocks; some weigh nothing."""
    rng = np.random.default_rng(seed)
    items, person = rng.standard_normal((n_items, 2)), np.repeat(np.arange(len(answers)), answers)
    T = person.size
    left = rng.integers(n_items, size=T)
    pairs = np.column_stack([left, (left + rng.integers(1, n_items, size=T)) % n_items]).astype(np.intp)
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], T)
    weight[np.unique(person, return_index=True)[1]] = 1.0  # everybody says something
    table = Answers(items, pairs, rng.choice([-1.0, 1.0], T), weight, person, np.zeros(len(answers), dtype=np.intp), 1)
    return items, table, blocks_of(arrange(table), pairs)


def a_natural(structure: str, n_items: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    G, F = rng.standard_normal((2, 2, 2))
    spread = [-0.3] if structure == "isotropic" else svec(F @ F.T + 0.1 * np.eye(2))
    return np.concatenate([svec(G @ G.T), rng.standard_normal(2), spread, rng.standard_normal(n_items)])


def popular_crowd(
    K: int, m: int, *, spread: float, n_items: int = 12, seed: int = 0
) -> tuple[np.ndarray, Comparisons, np.ndarray]:
    """Return items (N, 3), answers and utilities: people have linear utilities, items are liked for other reasons."""
    rng = np.random.default_rng(seed)
    items, b = rng.standard_normal((n_items, 3)), spread * rng.standard_normal(n_items)
    left = rng.integers(n_items, size=K * m)
    pairs = np.column_stack([left, (left + rng.integers(1, n_items, size=K * m)) % n_items])
    users, v = np.repeat(np.arange(K), m), np.array([1.0, -0.5, 0.5]) + 0.7 * rng.standard_normal((K, 3))
    psi = np.einsum("td,td->t", items[pairs[:, 0]] - items[pairs[:, 1]], v[users]) - (b[pairs[:, 0]] - b[pairs[:, 1]])
    y = np.where(rng.random(psi.size) < 1.0 / (1.0 + np.exp(-psi)), 1, -1)
    return items, Comparisons.from_arrays(users, pairs, y, n_items=n_items), b


def metric_crowd(K: int, m: int, *, n_items: int, seed: int = 0) -> tuple[np.ndarray, Comparisons, np.ndarray]:
    """Return items (N, 2), answers and the metric of people with ideal points."""
    rng = np.random.default_rng(seed)
    items, ideals, metric = (
        rng.standard_normal((n_items, 2)),
        rng.standard_normal((K, 2)),
        np.array([[1.5, 0.5], [0.5, 1]]),
    )
    left, users = rng.integers(n_items, size=K * m), np.repeat(np.arange(K), m)
    pairs = np.column_stack([left, (left + rng.integers(1, n_items, size=K * m)) % n_items])
    away = items[pairs] - ideals[users][:, None]
    squares = np.einsum("tsd,de,tse->ts", away, metric, away)
    y = np.where(rng.random(K * m) < 1.0 / (1.0 + np.exp(squares[:, 1] - squares[:, 0])), 1, -1)
    return items, Comparisons.from_arrays(users, pairs, y, n_items=n_items), metric


POPULAR = popular_crowd(400, 8, spread=1.0)


# ---------------------------------------------------------------------------------------------- likelihood


@each_structure
def test_scores_are_the_slopes_of_the_likelihood(structure: str) -> None:
    _, _, blocks = some_blocks(5, [1, 2, 2, 3, 9, 9])  # nine answers are padded to ten
    family, natural = WithItemEffects(STRUCTURES[structure], 5), a_natural(structure, 5)

    def total(at: np.ndarray) -> Sums:
        return reduce(add, [sums_of(block, family, at, Logistic(1.3)) for block in blocks])

    numeric = [(total(natural + h).value - total(natural - h).value) / 2e-5 for h in 1e-5 * np.eye(natural.size)]
    sums = total(natural)
    np.testing.assert_allclose(sums.score, numeric, rtol=2e-5, atol=2e-5)
    assert sums.information is not None
    assert sums.information.shape == (natural.size,) * 2
    assert sums.score[-5:].sum() == pytest.approx(0.0, abs=1e-12)  # only differences of utilities matter


@each_structure
def test_without_effects_it_is_the_model_without_them(structure: str) -> None:
    _, table, blocks = some_blocks(6, [1, 2, 3, 4])
    natural = a_natural(structure, 6)
    natural[-6:] = 0.0
    for block, plain in zip(blocks, blocks_of(arrange(table)), strict=True):
        assert plain.shown.shape[1] == 0
        ours = sums_of(block, WithItemEffects(STRUCTURES[structure], 6), natural, Logistic())
        other = sums_of(plain, STRUCTURES[structure], natural[:-6], Logistic())
        assert ours.value == other.value
        np.testing.assert_array_equal(ours.score[:-6], other.score)


def test_one_answer_has_the_probability_of_its_utilities() -> None:
    items, table, _ = some_blocks(5, [1] * 8)
    natural = a_natural("free", 5)
    law, b = WithItemEffects(STRUCTURES["free"], 5).law(natural, 2), natural[-5:]
    for block in blocks_of(arrange(table), table.pairs):
        values = integrate(block, law, Logistic()).value
        for k, value in zip(block.person, values, strict=True):
            x, other = items[table.pairs[k]]
            psi = (x - other) @ (law.metric @ (x + other) + law.mean) - (b[table.pairs[k, 0]] - b[table.pairs[k, 1]])
            right = mean_probability(
                np.array([psi]), np.array([(x - other) @ law.covariance @ (x - other)]), Logistic()
            )
            expected = np.log(right[0] if table.response[k] > 0 else 1.0 - right[0])
            assert value == pytest.approx(table.weight[k] * expected, abs=1e-5)


@pytest.mark.parametrize(
    "chart",
    [
        Parametrization(3, "psd", False, 4),
        Parametrization(3, "psd", True, 4, rank=2),
        Parametrization(3, "symmetric", True, 4),
    ],
)
def test_charts_pass_utilities_through(chart: Parametrization) -> None:
    rng = np.random.default_rng(0)
    n = degrees_of_freedom(3) + 3 + (degrees_of_freedom(3) if chart.free else 1) + 4
    A, c = rng.standard_normal((n, n)), rng.standard_normal(n)
    H = A @ A.T
    theta = chart.theta(np.diag([1.0, 2.0, 3.0]), np.ones(3), np.eye(3) if chart.free else np.zeros(1), np.arange(4.0))
    np.testing.assert_array_equal(chart.natural(theta)[-4:], np.arange(4.0))

    def f(at: np.ndarray) -> float:
        x = chart.natural(at)
        return float(0.5 * x @ H @ x + c @ x)

    pulled = chart.pull_back(theta, f(theta), H @ chart.natural(theta) + c, H)
    numeric = [(f(theta + h) - f(theta - h)) / 2e-5 for h in 1e-5 * np.eye(theta.size)]
    np.testing.assert_allclose(pulled.gradient, numeric, rtol=1e-6, atol=1e-5)
    np.testing.assert_array_equal(pulled.curvature[-4:, -4:], H[-4:, -4:])


def test_the_ridge_is_the_one_of_the_evidence() -> None:
    items, table, _ = POPULAR
    rows = Answers(
        items, table.pairs.astype(np.intp), table.response, table.weight, table.user.astype(np.intp),
        np.zeros(400, dtype=np.intp), 1,
    )  # fmt: skip
    blocks, family, chart = (
        blocks_of(arrange(rows), rows.pairs),
        WithItemEffects(STRUCTURES["free"], 12),
        Parametrization(3, "psd", True, 12),
    )

    def total(natural: np.ndarray, *, information: bool = True) -> Sums:
        job = [sums_of(block, family, natural, Logistic(), information=information, largest_grid=1) for block in blocks]
        return reduce(add, job)

    fit = fit_with_evidence(total, chart, chart.theta(np.eye(3), np.zeros(3), np.eye(3)), tolerance=1e-5)
    b = fit.natural[-12:]
    # EM's fixed point: the mean square of utilities, known and unknown, is their variance
    variance = np.diag(np.linalg.inv(with_ridges(fit.information, fit)))[-12:]
    assert 1.0 / fit.ridges.items == pytest.approx(float(np.mean(b**2 + variance)), rel=0.15)
    np.testing.assert_allclose(total(fit.natural).score[-12:], fit.ridges.items * b, atol=0.3)


# ----------------------------------------------------------------------------------------------- estimator


def test_popularity_is_not_put_into_the_metric() -> None:
    sizes: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(5):
        items, table, _ = popular_crowd(300, 6, spread=1.0, n_items=16, seed=seed)
        for effects, several in sizes.items():
            found = MODELS["population-items" if effects else "population-free"].fit(items, table)
            several.append(float(np.linalg.norm(found.estimator.metric_)))
    assert np.mean(sizes[True]) < 0.5 * np.mean(sizes[False])
    assert np.sum(np.array(sizes[True]) < 0.01) >= 2  # nothing at all is left of it


def test_what_features_do_not_say_is_found() -> None:
    items, table, b = popular_crowd(300, 6, spread=1.0, n_items=16)
    options: dict[str, Any] = {"covariance": "free", **QUICK}
    model = PopulationMetric(items, item_effects=True, **options).fit(table)
    without = PopulationMetric(items, **options).fit(table)
    assert not hasattr(without, "item_effects_")
    assert 0.6 < model.item_effect_spread_ < 1.6
    # features may take their part of popularity
    features = np.column_stack([np.ones(16), items])
    left, found = (u - features @ np.linalg.lstsq(features, u, rcond=None)[0] for u in (b, model.item_effects_))
    assert np.corrcoef(left, found)[0, 1] > 0.9
    assert model.score(table) > without.score(table)


def test_new_items_are_predicted_no_worse_than_by_linear_utilities() -> None:
    gains: dict[str, list[float]] = {"population-items": [], "population-free": []}
    for seed in range(3):
        items, table, _ = popular_crowd(300, 6, spread=1.0, n_items=24, seed=seed)  # few hidden items tell little
        found = evaluate(items, table, ["linear", *gains], splits=["items"], repeats=2, jobs=1, seed=seed)
        for name, several in gains.items():
            several.append(100 * found.difference("items", name, "linear", "accuracy").mean)
    assert np.mean(gains["population-items"]) > -0.5
    assert np.mean(gains["population-items"]) > np.mean(gains["population-free"])


@each_structure
def test_a_crowd_that_features_explain_keeps_its_metric(structure: str) -> None:
    items, table, metric = metric_crowd(800, 3, n_items=40)
    models = [
        PopulationMetric(items, covariance=structure, item_effects=effects, **QUICK).fit(table)
        for effects in (False, True)
    ]
    assert models[1].item_effect_spread_ < 0.25
    assert relative_error(models[1].metric_, models[0].metric_) < 0.1
    assert relative_error(models[1].metric_, metric) < 0.4


def test_what_is_known_of_items_enters_predictions_by_their_rows() -> None:
    items, table, _ = POPULAR
    more = np.vstack([items, [[0.3, 0.1, -0.2]]])
    asked = Comparisons.from_arrays(table.user, table.pairs, table.response, n_items=13)
    model = PopulationMetric(more, item_effects=True, **QUICK).fit(asked)
    b = model.item_effects_
    assert b[12] == 0.0  # nobody has answered about it
    pairs, users = table.pairs[:50], table.user[:50]
    as_new = model.decision_function(more[pairs], users)
    np.testing.assert_allclose(model.decision_function(pairs, users), as_new - (b[pairs[:, 0]] - b[pairs[:, 1]]))
    right = model.predict_proba(pairs, users)[:, 1]
    np.testing.assert_array_equal(right > 0.5, model.predict(pairs, users) > 0)
    y = table.response[:50]
    assert model.score(pairs, y, users=users) == np.mean(model.predict(pairs, users) == y)


def test_people_are_located_and_items_ranked_with_it() -> None:
    items, table, _ = POPULAR
    model = PopulationMetric(items, item_effects=True, **QUICK).fit(table)
    again = locate(model, table)
    np.testing.assert_allclose(again.pseudo_ideal_points, model.pseudo_ideal_points_, atol=1e-8)
    ours = again.probability(table.pairs[:9])[table.user[:9], np.arange(9)]
    np.testing.assert_allclose(ours, model.predict_proba(table.pairs[:9], table.user[:9])[:, 0], atol=1e-8)
    ranks = again.rank_items()
    pairs = np.column_stack([ranks[:, 0], ranks[:, -1]])
    assert np.all(model.decision_function(pairs, model.users_) < 0)
    assert not np.array_equal(ranks, again.rank_items(items))  # as vectors they are new


def test_it_is_saved_with_the_model(tmp_path: Path) -> None:
    items, table, _ = POPULAR
    model = PopulationMetric(items, item_effects=True, **QUICK).fit(table)
    save_model(tmp_path / "model", model)
    again = load_model(tmp_path / "model").estimator()
    np.testing.assert_array_equal(again.item_effects_, model.item_effects_)
    assert again.item_effect_spread_ == model.item_effect_spread_
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))


def test_standard_errors_a_checkpoint_and_a_warm_start_go_with_it(tmp_path: Path) -> None:
    items, table, _ = metric_crowd(200, 4, n_items=12)
    whole = PopulationMetric(items, item_effects=True, jobs=1).fit(table)
    assert np.all(np.isfinite(whole.standard_errors_))
    saved = PopulationMetric(items, item_effects=True, jobs=1, checkpoint=tmp_path / "state.npz").fit(table)
    taken_up = PopulationMetric(items, item_effects=True, jobs=1, checkpoint=tmp_path / "state.npz").fit(table)
    for other in (saved, taken_up):
        np.testing.assert_array_equal(other.item_effects_, whole.item_effects_)
    with pytest.raises(DataError, match="belongs to a fit"):
        PopulationMetric(items, checkpoint=tmp_path / "state.npz").fit(table)
    warm = PopulationMetric(items, item_effects=True, warm_start=True, **QUICK).fit(table)
    first = warm.item_effects_
    np.testing.assert_allclose(warm.fit(table).item_effects_, first, atol=0.05)
    assert not hasattr(warm.set_params(item_effects=False).fit(table), "item_effects_")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another word": ({"item_effects": "some"}, "item_effects='some' is neither True nor False"),
    "a ridge of one's own": ({"ridge": 1.0}, "ridge=1.0 rules out"),
    "no ridge": ({"ridge": None}, "ridge=None rules out"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_does_not_go_with(name: str) -> None:
    options, message = REFUSED[name]
    items, table, _ = POPULAR
    with pytest.raises(DataError, match=message):
        PopulationMetric(items, **{"item_effects": True, **options}).fit(table)


def test_items_must_be_known_by_rows_and_few_where_scoring_alone_is_possible() -> None:
    items, table, _ = POPULAR
    with pytest.raises(DataError, match="give pairs as rows"):
        PopulationMetric(items, item_effects=True).fit(items[table.pairs], table.response, users=table.user)
    assert not PopulationMetric(item_effects=True).by_gradients_alone(3, 2994)  # and 6 parameters of a metric
    assert PopulationMetric(item_effects=True).by_gradients_alone(3, 2995)
    assert not PopulationMetric().by_gradients_alone(3, 2995)
    for n_items, few in ((2994, True), (2995, False)):
        names = [model.name for model in choose_models(None, None, n_items, 3)]
        assert {"population-items", "mixed"} <= set(names)
        assert ("linear-items" in names) == few


def test_negative_information_is_none() -> None:
    """On carrots the symmetric fit beside utilities of the items runs away, to where likelihoods curve upwards."""
    information = np.array([[-4e9, 1e4, 0.0], [1e4, 2.0, 0.1], [0.0, 0.1, 3.0]])
    inverse = inverse_information(information)
    assert np.all(np.isfinite(inverse))
    np.testing.assert_allclose(inverse, inverse.T, rtol=1e-6)
    assert inverse[0, 0] * 4e9 > 1e9
    proper = information[1:, 1:]
    np.testing.assert_allclose(inverse_information(proper), np.linalg.inv(proper))
