"""How sure a metric is: draws from its posterior, intervals made of them, verdicts in words, bad input."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp, wishart
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from crowdmetric.design import matched_from_generator
from crowdmetric.draw_intervals import parts_from
from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import CrowdmetricWarning, DataError, NotIdentifiedWarning
from crowdmetric.estimators import IdealPointMetric, MatchedMetric, PopulationMetric
from crowdmetric.fits.crowd import crowd_in_memory
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.fits.size_posterior import posterior_of
from crowdmetric.fits.starts import evidence_fit
from crowdmetric.inputs import read_rows
from crowdmetric.intervals import closer, distance_ratios, distances, entries, intervals_from
from crowdmetric.losses import Logistic
from crowdmetric.persist import load_model, save_model
from crowdmetric.simulate import answer, sample_metric, simulate_crowd
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.solvers.priors import Ridges, penalty
from crowdmetric.solvers.shape_draws import draw_around
from crowdmetric.symmetric import smat, svec
from crowdmetric.users.population_sums import STRUCTURES

D = 3
CROWD = simulate_crowd(D, None, None, users=1500, comparisons=2, seed=0)


def population() -> PopulationMetric:
    return PopulationMetric(CROWD.items, starts=1).fit(CROWD.pairs, CROWD.y, users=CROWD.users)


def matched_crowd() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return pairs, answers, people and items."""
    rng = np.random.default_rng(0)
    ask = matched_from_generator(D, 3000, seed=0)
    u = rng.standard_normal((3000, D)) / np.sqrt(D)
    y = answer(ask.items, ask.pairs, u[ask.person], sample_metric(D, rng), seed=0)
    return ask.pairs, y, ask.person, ask.items


def matched() -> MatchedMetric:
    pairs, y, person, items = matched_crowd()
    return MatchedMetric(items).fit(pairs, y, users=person)


MODELS = {"population": population, "matched": matched}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param]()


def given(metric: np.ndarray, draws: np.ndarray, items: Any = None) -> MatchedMetric:
    """Return a model that knows what it is told."""
    model = MatchedMetric(items)
    model.metric_, model.metric_draws_, model.n_features_in_ = metric, svec(draws), len(metric)
    return model


# ------------------------------------------------------------------------------------------------------------- draws


def shapes_of_the_prior(d: int, count: int) -> np.ndarray:
    """Return Wishart matrices of d, 2d, 4d, … squares, each a tenth as frequent as those before, of trace d."""
    frequent = 10.0 ** -np.arange(6)
    counts = np.round(count * frequent / frequent.sum()).astype(int)
    W = [wishart(d * 2**k, np.eye(d)).rvs(n, random_state=k).reshape(n, d, d) for k, n in enumerate(counts) if n]
    shapes = np.concatenate(W)
    return d * shapes / np.trace(shapes, axis1=1, axis2=2)[:, None, None]


@pytest.mark.parametrize("d", [2, 5])
def test_without_answers_shapes_are_those_of_wishart_matrices(d: int) -> None:
    """Draws under no likelihood at all, against the prior's own definition."""
    p = d * (d + 1) // 2
    theirs = np.linalg.eigvalsh(shapes_of_the_prior(d, 20_000))
    M = smat(draw_around(np.zeros(p), np.zeros((p, p)), svec(np.eye(d))))
    ours = np.linalg.eigvalsh(M) / np.trace(M, axis1=1, axis2=2)[:, None] * d
    for i in range(d):
        assert ks_2samp(ours[:, i], theirs[:, i]).pvalue > 1e-3
    if d == 5:  # of Wishart matrices of d squares, one in a hundred is as round as that
        assert np.mean(ours[:, 0] > 0.2) == pytest.approx(np.mean(theirs[:, 0] > 0.2), abs=0.03)


def test_draws_have_the_moments_of_the_posterior() -> None:
    """Two features: the same posterior by weighting a fine grid of draws from the prior."""
    center, precision = svec(np.array([[1.5, 0.9], [0.9, 0.3]])), np.diag([20.0, 30.0, 15.0])
    m = svec(np.array([[1.4, 0.55], [0.55, 0.25]]))
    ours = draw_around(center, precision, m)
    assert np.all(np.linalg.eigvalsh(smat(ours))[:, 0] > -1e-12)
    rng = np.random.default_rng(1)
    shape = shapes_of_the_prior(2, 400_000)
    prior = svec(shape) * np.exp(rng.uniform(-1.5, 1.5, size=(len(shape), 1)))
    away = prior - center
    weight = np.exp(-0.5 * np.einsum("np,pq,nq->n", away, precision, away))
    weight /= weight.sum()
    assert 1.0 / np.sum(weight**2) > 2000  # the yardstick itself is good enough
    mean = weight @ prior
    covariance = (prior - mean).T @ ((prior - mean) * weight[:, None])
    error = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(ours.mean(axis=0), mean, atol=0.12 * error.max())
    np.testing.assert_allclose(ours.std(axis=0), error, rtol=0.12)


def test_one_feature_against_the_posterior_on_a_grid() -> None:
    """Size, mean and spread of people, everything integrated out by brute force under the prior of the docs."""
    crowd, loss = simulate_crowd(1, None, None, users=40, comparisons=4, seed=2), Logistic()
    rows = read_rows(crowd.pairs, crowd.y, crowd.users, None, crowd.items, loss)
    problem = PopulationProblem.of(crowd_in_memory(rows), STRUCTURES["isotropic"], loss, LocalEngine(1))
    fit = evidence_fit(problem, Parametrization(1, "psd", False), None, tolerance=1e-6, max_iterations=200)
    ours = np.log(posterior_of(problem, fit).draws(20_000)[:, 0])

    t = np.linspace(-2.5, 2.5, 26) + np.log(fit.natural[0])
    mean, spread = np.linspace(-2.5, 2.5, 13) + fit.natural[1], np.linspace(-2.5, 2.0, 13)
    grid = np.stack(np.meshgrid(t, mean, spread, indexing="ij"), axis=-1)
    log_density = np.empty(grid.shape[:-1])
    for place in np.ndindex(log_density.shape):
        natural = np.append(np.exp(grid[place][0]), grid[place][1:])
        sums, prior = problem.total(natural), penalty(natural, fit.layout, Ridges(), 1.0)
        jeffreys = 0.5 * np.log((sums.information + prior.curvature)[1, 1])
        log_density[place] = sums.value - prior.value + jeffreys
    weight = np.exp(log_density - log_density.max()).sum(axis=(1, 2))
    weight /= weight.sum()
    assert max(weight[0], weight[-1]) < 1e-3  # the grid is wide enough
    exact = weight @ t
    error = np.sqrt(weight @ (t - exact) ** 2)
    assert ours.mean() == pytest.approx(exact, abs=0.12 * error)
    assert ours.std() == pytest.approx(error, rel=0.12)


def test_the_size_is_as_unsure_under_a_singular_covariance_of_free_people() -> None:
    """Steps that left the cone of covariances once made the size seem to be known to 0.005 of its logarithm."""
    crowd = simulate_crowd(5, None, None, 1_000, 8, seed=20009)
    model = PopulationMetric(crowd.items, covariance="free", starts=1).fit(crowd.pairs, crowd.y, users=crowd.users)
    assert np.linalg.eigvalsh(model.pseudo_ideal_covariance_)[0] < 1e-3 * np.trace(model.pseudo_ideal_covariance_)
    sizes = np.log(np.trace(smat(model.metric_draws_), axis1=1, axis2=2))
    assert 0.03 < sizes.std() < 0.06


def test_draws_are_the_same_every_time(model: Any) -> None:
    assert model.metric_draws_.shape == (1000, 6)
    again = clone(model)
    crowd = (CROWD.pairs, CROWD.y, CROWD.users) if isinstance(model, PopulationMetric) else matched_crowd()
    again.fit(crowd[0], crowd[1], users=crowd[2])
    np.testing.assert_array_equal(again.metric_draws_, model.metric_draws_)
    np.testing.assert_allclose(np.diag(model.metric_covariance_) ** 0.5, svec(model.standard_errors_), rtol=1e-6)


def test_draws_are_saved_with_the_model(model: Any, tmp_path: Path) -> None:
    save_model(tmp_path / "m", model)
    loaded = load_model(tmp_path / "m").estimator()
    np.testing.assert_array_equal(loaded.metric_draws_, model.metric_draws_)
    ours, theirs = (distances(which, PAIRS) for which in (model, loaded))
    np.testing.assert_array_equal(ours.low, theirs.low)


# --------------------------------------------------------------------------------------------------------- intervals


def test_estimates_are_medians_and_intervals_hold_their_share() -> None:
    rng = np.random.default_rng(0)
    draws = np.exp(rng.standard_normal((1000, 5)))
    sure = intervals_from(draws, 0.9)
    np.testing.assert_allclose(np.mean(sure.contains(draws), axis=0), 0.9, atol=0.003)
    np.testing.assert_allclose(sure.estimate, np.median(draws, axis=0))
    np.testing.assert_allclose(intervals_from(np.log(draws), 0.9).high, np.log(sure.high), atol=0.01)
    wide = intervals_from(draws, 0.99)
    assert np.all((wide.low < sure.low) & (sure.high < wide.high))


def test_parts_of_a_whole_add_up_within_their_intervals() -> None:
    rng = np.random.default_rng(0)
    skewed = rng.gamma(0.3, size=(1000, 8)) * 2.0 ** np.arange(8)
    two_laws = np.where(rng.random((1000, 1)) < 0.6, [0.9, 0.08, 0.02], [0.01, 0.09, 0.9])
    for draws in (skewed, two_laws + 0.001 * rng.random((1000, 3)), np.ones((10, 4)), np.zeros((10, 2))):
        whole = draws.sum(axis=1, keepdims=True)
        parts = draws / np.where(whole > 0, whole, 1.0)
        sure = parts_from(parts, 0.9)
        assert sure.estimate.sum() == pytest.approx(parts[0].sum())
        assert np.all(sure.contains(sure.estimate))


def test_the_estimate_is_in_every_interval_of_small_problems() -> None:
    """Whatever a fit says is in its own intervals: 45 posteriors of random estimates, and 5 fits to few people."""
    rng = np.random.default_rng(0)
    models: list[Any] = []
    for number in range(45):
        d = 1 + number % 3
        L = rng.standard_normal((d, int(rng.integers(1, d + 1))))
        G = rng.standard_normal((d * (d + 1) // 2,) * 2)
        center, precision = svec(L @ L.T) + rng.standard_normal(len(G)), G @ G.T * 10.0 ** rng.uniform(-2, 2)
        models.append(given(L @ L.T, smat(draw_around(center, precision, svec(L @ L.T))), rng.standard_normal((9, d))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)
        for seed in range(5):
            crowd = simulate_crowd(1 + seed % 3, None, None, users=25, comparisons=3, seed=seed)
            models.append(PopulationMetric(crowd.items, starts=1).fit(crowd.pairs, crowd.y, users=crowd.users))
    every = np.array([(i, j) for i in range(9) for j in range(i)])
    for model in models:
        for sure in (entries(model), distances(model, every), distance_ratios(model, every, every[:1])):
            assert np.all(sure.contains(sure.estimate)[np.isfinite(sure.estimate)])
        assert np.all(distances(model, every).low >= 0)
        assert np.all(np.diag(entries(model).low) >= 0)


PAIRS = np.array([[0, 1], [4, 5], [8, 9], [6, 6]])


def test_entries_and_distances_are_those_of_the_draws(model: Any) -> None:
    ours = entries(model)
    np.testing.assert_allclose(ours.estimate, np.median(smat(model.metric_draws_), axis=0))
    np.testing.assert_allclose(ours.standard_error, model.standard_errors_, rtol=1e-6)
    delta = model.items[PAIRS[:3, 0]] - model.items[PAIRS[:3, 1]]
    squared = distances(model, PAIRS[:3], squared=True)
    drawn = np.einsum("ti,nij,tj->nt", delta, smat(model.metric_draws_), delta)
    np.testing.assert_allclose(squared.estimate, np.median(drawn, axis=0))
    np.testing.assert_allclose(squared.standard_error, drawn.std(axis=0, ddof=1))
    inside = (squared.low < drawn * (1.0 + 1e-12)) & (drawn * (1.0 - 1e-12) < squared.high)  # draws may be equal
    np.testing.assert_allclose(inside.mean(axis=0), 0.9, atol=0.003)
    plain = distances(model, model.items[PAIRS[:3]])
    np.testing.assert_allclose(plain.estimate**2, squared.estimate, rtol=0.01)
    np.testing.assert_allclose(plain.high**2, squared.high, rtol=0.01)


def test_an_item_is_no_distance_from_itself(model: Any) -> None:
    for squared in (False, True):
        itself = distances(model, PAIRS[3:], squared=squared)
        assert (itself.estimate[0], itself.low[0], itself.high[0]) == (0.0, 0.0, 0.0)


def test_ratios_do_not_know_the_scale(model: Any) -> None:
    ours = distance_ratios(model, PAIRS[:2], PAIRS[1:3])
    delta = model.items[PAIRS[:3, 0]] - model.items[PAIRS[:3, 1]]
    far = np.sqrt(np.einsum("ti,nij,tj->nt", delta, smat(model.metric_draws_), delta))
    np.testing.assert_allclose(ours.estimate, np.median(far[:, :2] / far[:, 1:], axis=0))
    # every draw of a size of its own
    sizes = np.exp(np.random.default_rng(0).standard_normal((len(model.metric_draws_), 1, 1)))
    other = given(2.0 * model.metric_, sizes * smat(model.metric_draws_), model.items)
    scaled = distance_ratios(other, PAIRS[:2], PAIRS[1:3])
    np.testing.assert_allclose([scaled.low, scaled.high], [ours.low, ours.high])
    same = distance_ratios(model, PAIRS[:2], PAIRS[:2])
    np.testing.assert_allclose([same.low, same.high], 1.0)
    assert distance_ratios(model, PAIRS[:2], PAIRS[1:2]).estimate[1] == pytest.approx(1.0)


def test_a_ratio_to_no_distance_is_not_known(model: Any) -> None:
    odd = distance_ratios(model, PAIRS[:1], PAIRS[3:])
    assert np.isnan(odd.estimate[0])
    assert (odd.low[0], odd.high[0]) == (0.0, np.inf)


def test_closer_is_a_difference_of_squared_distances(model: Any) -> None:
    ours = closer(model, 0, 1, 2)
    assert ours.low <= ours.difference <= ours.high
    back = closer(model, 0, 2, 1)
    assert back.difference == pytest.approx(-ours.difference)
    assert back.probability == pytest.approx(1.0 - ours.probability)
    x, drawn = model.items, smat(model.metric_draws_)
    to_b, to_c = (np.einsum("i,nij,j->n", x[0] - x[k], drawn, x[0] - x[k]) for k in (1, 2))
    assert ours.difference == pytest.approx(np.median(to_c - to_b))
    assert ours.probability == pytest.approx(np.mean(to_b < to_c))
    assert closer(model, x[0], x[1], x[2]).probability == pytest.approx(ours.probability)


def test_verdicts_are_sentences(model: Any) -> None:
    x = model.items
    assert closer(model, x[0], x[0], x[0] + 1.0).summary() == "a is closer to b than to c (probability above 0.99)."
    assert "a is closer to c than to b" in closer(model, x[0], x[0] + 1.0, x[0]).summary()
    mirrored = closer(model, x[0], x[0] + 1.0, x[0] - 1.0)
    assert (mirrored.difference, mirrored.probability) == (0.0, 0.5)
    assert "do not say whether a is closer to b or to c" in mirrored.summary()
    assert "%" in entries(model).summary()
    assert "more" in entries(model).summary(most=2)


def test_what_no_answer_reaches_is_as_wide_as_the_prior() -> None:
    """Matched questions along one feature only say nothing about the other."""
    rng, people, M = np.random.default_rng(0), 1500, np.diag([1.0, 0.5])
    items = np.zeros((4 * people, 2))
    items[0::4, 0], items[1::4, 0] = 1.0, 0.0
    items[2::4, 0], items[3::4, 0] = 2.0, 1.0
    pairs = np.arange(4 * people).reshape(-1, 2)
    users = np.repeat(np.arange(people), 2)
    y = answer(items, pairs, rng.standard_normal((people, 2))[users], M, seed=0)
    with pytest.warns(NotIdentifiedWarning):
        model = MatchedMetric(items).fit(pairs, y, users=users)
    sure = entries(model)
    assert sure.contains(M).all()
    assert sure.high[0, 0] - sure.low[0, 0] < 0.3
    assert sure.high[1, 1] - sure.low[1, 1] > 0.8
    assert np.isinf(model.standard_errors_[1, 1])


def test_bad_input_gets_a_sentence(model: Any) -> None:
    for level in (0, 1, 90, "0.9", True):
        with pytest.raises(DataError, match=r"level=.* is not between 0 and 1; 0.9 gives 90 % intervals"):
            entries(model, level=level)
    with pytest.raises(DataError, match="there are 3 pairs but 2 others; give as many, or one"):
        distance_ratios(model, PAIRS[:3], PAIRS[:2])
    with pytest.raises(DataError, match="name item 999999"):
        distances(model, [[0, 999_999]])
    with pytest.raises(DataError, match="use one space"):
        distances(model, np.zeros((1, 2, 5)))
    with pytest.raises(NotFittedError):
        entries(PopulationMetric(CROWD.items))
    other = IdealPointMetric(CROWD.items, fixed_metric=np.eye(D))
    other.metric_ = np.eye(D)
    with pytest.raises(DataError, match="IdealPointMetric gives no standard errors of the metric; fit a Population"):
        entries(other)
    unsure = PopulationMetric(CROWD.items, starts=1, uncertainty=False).fit(CROWD.pairs, CROWD.y, users=CROWD.users)
    with pytest.raises(DataError, match="PopulationMetric gives no standard errors of the metric; fit it with uncer"):
        entries(unsure)
