"""How sure a metric is: forms by hand, intervals by sampling, verdicts in words, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from crowdmetric.design import matched_from_generator
from crowdmetric.errors import DataError
from crowdmetric.estimators import IdealPointMetric, MatchedMetric, PopulationMetric
from crowdmetric.intervals import closer, distance_ratios, distances, entries
from crowdmetric.simulate import answer, sample_metric, simulate_crowd
from crowdmetric.symmetric import smat, svec

D = 3
CROWD = simulate_crowd(D, None, None, users=1500, comparisons=2, seed=0)


def population() -> PopulationMetric:
    return PopulationMetric(CROWD.items, starts=1).fit(CROWD.pairs, CROWD.y, users=CROWD.users)


def matched() -> MatchedMetric:
    rng = np.random.default_rng(0)
    ask = matched_from_generator(D, 3000, seed=0)
    u = rng.standard_normal((3000, D)) / np.sqrt(D)
    y = answer(ask.items, ask.pairs, u[ask.person], sample_metric(D, rng), seed=0)
    return MatchedMetric(ask.items).fit(ask.pairs, y, users=ask.person)


MODELS = {"population": population, "matched": matched}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param]()


def given(metric: np.ndarray, covariance: np.ndarray, items: Any) -> MatchedMetric:
    """Return a model that knows what it is told."""
    model = MatchedMetric(items)
    model.metric_ = model.symmetric_metric_ = metric
    model.metric_covariance_, model.n_features_in_ = covariance, len(metric)
    return model


def draws(model: Any, n: int = 200_000) -> np.ndarray:
    """Return metrics (n, d, d) from the Gaussian law that intervals are built on."""
    rng = np.random.default_rng(1)
    return smat(rng.multivariate_normal(svec(model.symmetric_metric_), model.metric_covariance_, n, method="cholesky"))


def test_entries_are_estimate_and_standard_error(model: Any) -> None:
    ours = entries(model, level=0.9)
    np.testing.assert_array_equal(ours.estimate, model.symmetric_metric_)
    np.testing.assert_allclose(ours.standard_error, model.standard_errors_)
    np.testing.assert_allclose(ours.high - ours.low, 2 * 1.6448536 * model.standard_errors_, rtol=1e-6)
    assert np.all(entries(model, level=0.99).high > ours.high)
    assert np.mean(ours.contains(draws(model)), axis=0) == pytest.approx(np.full((D, D), 0.9), abs=0.005)


PAIRS = np.array([[0, 1], [4, 5], [8, 9], [6, 6]])


def test_squared_distances_by_hand_and_by_sampling(model: Any) -> None:
    delta = model.items[PAIRS[:3, 0]] - model.items[PAIRS[:3, 1]]
    ours = distances(model, PAIRS[:3], squared=True)
    np.testing.assert_allclose(ours.estimate, np.einsum("ti,ij,tj->t", delta, model.symmetric_metric_, delta))
    sampled = np.einsum("ti,nij,tj->nt", delta, draws(model), delta)
    np.testing.assert_allclose(ours.standard_error, sampled.std(axis=0), rtol=0.02)
    plain = distances(model, model.items[PAIRS[:3]])
    np.testing.assert_allclose(plain.estimate**2, ours.estimate)
    np.testing.assert_allclose(plain.low**2, ours.low)
    np.testing.assert_allclose(plain.high**2, ours.high)
    # a positive interval is wherever zero does not cut it
    held = ours.contains(sampled).mean(axis=0)
    assert np.all(held > 0.89)


def test_an_item_is_no_distance_from_itself(model: Any) -> None:
    for squared in (False, True):
        itself = distances(model, PAIRS[3:], squared=squared)
        assert (itself.estimate[0], itself.low[0], itself.high[0]) == (0.0, 0.0, 0.0)


def test_ratios_do_not_know_the_scale(model: Any) -> None:
    ours = distance_ratios(model, PAIRS[:2], PAIRS[1:3])
    delta = model.items[PAIRS[:3, 0]] - model.items[PAIRS[:3, 1]]
    far = np.sqrt(np.einsum("ti,ij,tj->t", delta, model.symmetric_metric_, delta))
    np.testing.assert_allclose(ours.estimate, far[:2] / far[1:])
    # the derivative of the logarithm, by finite differences in every entry of M
    a = svec(model.symmetric_metric_)

    def log_ratio(x: np.ndarray) -> np.ndarray:
        square = np.einsum("ti,ij,tj->t", delta, smat(x), delta)
        return 0.5 * np.log(square[:2] / square[1:])

    g = np.array([(log_ratio(a + h) - log_ratio(a - h)) / 2e-6 for h in 1e-6 * np.eye(a.size)]).T
    variance = np.einsum("tp,pq,tq->t", g, model.metric_covariance_, g)
    np.testing.assert_allclose(ours.standard_error, np.sqrt(variance), rtol=1e-4)
    twice = given(2.0 * model.symmetric_metric_, 4.0 * model.metric_covariance_, model.items)
    scaled = distance_ratios(twice, PAIRS[:2], PAIRS[1:3])
    np.testing.assert_allclose(scaled.low, ours.low)
    same = distance_ratios(model, PAIRS[:2], PAIRS[:2])
    np.testing.assert_allclose([same.low, same.high], 1.0)
    one = distance_ratios(model, PAIRS[:2], PAIRS[1:2])
    assert one.estimate[1] == pytest.approx(1.0)


def test_a_distance_that_is_not_positive_has_no_ratio(model: Any) -> None:
    odd = distance_ratios(model, PAIRS[3:], PAIRS[:1])
    assert np.isnan(odd.estimate[0])
    assert (odd.low[0], odd.high[0]) == (0.0, np.inf)


def test_closer_is_a_difference_of_squared_distances(model: Any) -> None:
    ours = closer(model, 0, 1, 2)
    squares = distances(model, [[0, 1], [0, 2]], squared=True).estimate
    assert ours.difference == pytest.approx(squares[1] - squares[0])
    back = closer(model, 0, 2, 1)
    assert back.difference == pytest.approx(-ours.difference)
    assert back.probability == pytest.approx(1.0 - ours.probability)
    assert back.p_value == pytest.approx(ours.p_value)
    x = model.items
    sampled = draws(model)
    to_b, to_c = (np.einsum("i,nij,j->n", x[0] - x[k], sampled, x[0] - x[k]) for k in (1, 2))
    assert ours.probability == pytest.approx(np.mean(to_b < to_c), abs=0.005)
    vectors = closer(model, x[0], x[1], x[2])
    assert vectors.z == pytest.approx(ours.z)
    assert (ours.low, ours.high) == pytest.approx(
        (ours.difference - 1.6448536 * ours.standard_error, ours.difference + 1.6448536 * ours.standard_error)
    )


def test_verdicts_are_sentences(model: Any) -> None:
    x = model.items
    sure = closer(model, x[0], x[0], x[0] + 1.0)
    assert "a is closer to b than to c (z = " in sure.summary()
    assert "a is closer to c than to b" in closer(model, x[0], x[0] + 1.0, x[0]).summary()
    mirrored = closer(model, x[0], x[0] + 1.0, x[0] - 1.0)
    assert (mirrored.z, mirrored.p_value, mirrored.probability) == (0.0, 1.0, 0.5)
    assert "do not say whether a is closer to b or to c" in mirrored.summary()
    assert "%" in entries(model).summary()
    assert "more" in entries(model).summary(most=2)


def test_what_no_answer_reaches_has_no_interval() -> None:
    """Matched questions along one feature only say nothing about the others among themselves."""
    covariance = np.diag([0.01, 0.01, np.inf])
    model = given(np.eye(2), covariance, None)
    squares: Any = distances(model, [[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]], squared=True)
    assert squares.standard_error[0] == pytest.approx(0.1)
    assert squares.standard_error[1] == np.inf
    assert squares.low[1] == 0.0
    verdict = closer(model, [0.0, 0.0], [1.0, 0.0], [0.0, 1.0])
    assert (verdict.z, verdict.p_value) == (0.0, 1.0)
    assert "do not say whether" in verdict.summary()


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
    with pytest.raises(DataError, match="IdealPointMetric does not say how sure it is of the metric; fit a Population"):
        entries(other)
    unsure = PopulationMetric(CROWD.items, starts=1, uncertainty=False).fit(CROWD.pairs, CROWD.y, users=CROWD.users)
    with pytest.raises(
        DataError, match="PopulationMetric does not say how sure it is of the metric; fit it with uncer"
    ):
        entries(unsure)
