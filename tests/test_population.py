"""People as one population: layout, scores, charts, scoring, and what the estimator promises."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from crowdmetric.errors import ConvergenceWarning, DataError, NotIdentifiedWarning
from crowdmetric.estimators import PopulationMetric
from crowdmetric.fits.doubts import has_no_metric
from crowdmetric.fits.units import Units
from crowdmetric.inputs import read_asked
from crowdmetric.losses import Logistic, Loss, Probit
from crowdmetric.persist import load_model, save_model
from crowdmetric.simulate import answer, sample_metric, simulate_crowd
from crowdmetric.solvers.law_fit import (
    fit_law,
    fit_with_evidence,
    observed_information,
    remembering,
    with_ridges,
)
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.solvers.priors import Ridges, penalty, shape_penalty
from crowdmetric.solvers.scoring import Quadratic, minimize_by_scoring
from crowdmetric.symmetric import degrees_of_freedom, relative_error, shape_error, smat, svec
from crowdmetric.users.blocks import SPARE, Answers, arrange
from crowdmetric.users.expected import Information, expected_information
from crowdmetric.users.integrals import kernels
from crowdmetric.users.people import places_of, posteriors
from crowdmetric.users.population_sums import STRUCTURES, Law, PopulationBlock, Sums, blocks_of, integrate, sums_of

each_structure = pytest.mark.parametrize("structure", STRUCTURES)
LOSSES: dict[str, Loss] = {"logistic": Logistic(1.2), "probit": Probit(0.7)}
each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def laid_out(deltas: list[np.ndarray], weights: list[np.ndarray] | None = None, seed: int = 0) -> list[PopulationBlock]:
    """Return blocks of people with these δ's (m, d) each, around random middles."""
    rng = np.random.default_rng(seed)
    people = range(len(deltas))
    middles = [rng.standard_normal(delta.shape) for delta in deltas]
    items = np.concatenate([np.stack([c + 0.5 * e, c - 0.5 * e], axis=1) for c, e in zip(middles, deltas, strict=True)])
    person = np.repeat(people, [len(delta) for delta in deltas])
    T = person.size
    answers = Answers(
        items.reshape(-1, items.shape[-1]), np.arange(2 * T).reshape(-1, 2), rng.choice([-1.0, 1.0], T),
        np.ones(T) if weights is None else np.concatenate(weights), person, np.zeros(len(deltas), dtype=np.intp), 1,
    )  # fmt: skip
    return blocks_of(arrange(answers))


def answers_of(items: np.ndarray, pairs: np.ndarray, y: np.ndarray, users: np.ndarray) -> Answers:
    everybody = np.zeros(users.max() + 1, dtype=np.intp)
    return Answers(items, pairs, y.astype(float), np.ones(y.size), users, everybody, 1)


def random_people(d: int, answers: list[int], seed: int = 0) -> list[PopulationBlock]:
    rng = np.random.default_rng(seed)
    weights = [rng.choice([0.5, 1.0, 2.0], m) for m in answers]
    return laid_out([rng.standard_normal((m, d)) for m in answers], weights, seed)


def a_natural(structure: str, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    G, F = rng.standard_normal((2, d, d))
    spread = [-0.3] if structure == "isotropic" else svec(F @ F.T / d + 0.1 * np.eye(d))
    return np.concatenate([svec(0.5 * G @ G.T / d), 0.5 * rng.standard_normal(d), spread])


# ------------------------------------------------------------------------------------------------- the layout

X, Y, Z = np.eye(3)
# δ's, weights, the dimension they span
SPANS: dict[str, tuple[list[np.ndarray], list[float], int]] = {
    "independent": ([X, Y], [1, 1], 2),
    "parallel": ([X, -2.0 * X, 0.5 * X], [1, 1, 1], 1),
    "more than the space": ([X, Y, Z, X + Y, Z - X], [1, 1, 1, 1, 1], 3),
    "no weight": ([X, Y, Z], [1, 0, 0.5], 2),
    "an equal pair of items": ([X, 0.0 * X, Y], [1, 1, 1], 2),
    "all but parallel": ([X, X + 1e-5 * Y], [1, 1], 2),
    "parallel but for rounding": ([X, X + 1e-12 * Y], [1, 1], 1),
    "small": ([1e-8 * X, 1e-8 * Y], [1, 1], 2),
}


@pytest.mark.parametrize("name", SPANS)
def test_the_span_of_questions(name: str) -> None:
    rows, weight, q = SPANS[name]
    (block,) = laid_out([np.array(rows)], [np.array(weight, dtype=float)])
    assert block.span.shape == (1, q, 3)
    delta = (block.loadings @ block.span)[0]
    expected = np.zeros((len(rows), 3))
    expected[np.array(weight) > 0] = np.array(rows)[np.array(weight) > 0]
    np.testing.assert_allclose(delta[: len(rows)], expected, atol=1e-11 * max(np.abs(expected).max(), 1e-5))
    np.testing.assert_array_equal(block.response[0, : len(rows)][np.array(weight) == 0], 1.0)


def test_people_are_grouped_by_what_they_span_and_none_is_lost() -> None:
    rng = np.random.default_rng(0)
    line = rng.standard_normal(4)
    deltas = [rng.standard_normal((m, 4)) for m in (1, 2, 2, 3, 9)] + [np.outer([1.0, 2.0], line), np.zeros((2, 4))]
    blocks = laid_out(deltas)
    spans = {int(k): block.span.shape[1] for block in blocks for k in block.person}
    assert spans == {0: 1, 1: 2, 2: 2, 3: 3, 4: 4, 5: 1}  # whoever was asked about equal items only says nothing


def test_the_span_does_not_change_the_likelihood() -> None:
    """Nine answers on a plane of R⁴ are integrated over the plane, and by expectation propagation over all of R⁴."""
    rng = np.random.default_rng(0)
    deltas = [rng.standard_normal((9, 2)) @ rng.standard_normal((2, 4)) for _ in range(3)]
    (block,) = laid_out(deltas)
    assert block.span.shape[1] == 2
    law = STRUCTURES["isotropic"].law(a_natural("isotropic", 4), 4)
    whole = replace(block, span=np.broadcast_to(np.eye(4), (3, 4, 4)), loadings=block.loadings @ block.span)
    np.testing.assert_allclose(
        integrate(whole, law, Logistic()).value, integrate(block, law, Logistic()).value, atol=0.02
    )


# -------------------------------------------------------------------------------------------------- the scores


@each_structure
@each_loss
@pytest.mark.parametrize("largest_grid", [1, 3])
def test_scores_by_finite_differences(structure: str, loss: Loss, largest_grid: int) -> None:
    """Of the total log-likelihood, with weights, padding and people of one to nine answers in three dimensions."""
    d, family = 3, STRUCTURES[structure]
    # nine answers leave a person narrower than a grid of three dimensions is fine
    blocks = random_people(d, [1, 1, 2, 3, 9] if largest_grid == 1 else [1, 1, 2, 2], seed=1)
    at = a_natural(structure, d)

    def value(natural: np.ndarray) -> float:
        return sum_of(blocks, structure, natural, loss, largest_grid=largest_grid).value

    sums = sum_of(blocks, structure, at, loss, largest_grid=largest_grid)
    assert sums.score.size == family.layout(d).size == at.size
    numeric = np.array([(value(at + h) - value(at - h)) / 2e-4 for h in 1e-4 * np.eye(at.size)])
    np.testing.assert_allclose(sums.score, numeric, atol=5e-5 * np.abs(numeric).max())


def sum_of(blocks: list[PopulationBlock], structure: str, natural: np.ndarray, loss: Loss, **options: Any) -> Sums:
    total = sums_of(blocks[0], STRUCTURES[structure], natural, loss, **options)
    for block in blocks[1:]:
        total = total + sums_of(block, STRUCTURES[structure], natural, loss, **options)
    return total


@each_structure
def test_information_is_the_sum_of_squared_scores(structure: str) -> None:
    blocks, at, loss = random_people(2, [1, 2, 4], seed=2), a_natural(structure, 2), Logistic()
    family = STRUCTURES[structure]
    rows = []
    for block in blocks:
        law = family.law(at, 2)
        rows.extend(family.scores(block, integrate(block, law, loss), law, at))
    total = sum_of(blocks, structure, at, loss)
    np.testing.assert_allclose(total.information, np.array(rows).T @ rows, atol=1e-12)
    np.testing.assert_allclose(total.score, np.sum(rows, axis=0), atol=1e-12)
    assert sum_of(blocks, structure, at, loss, information=False).information is None


def test_outer_sums_are_the_upper_triangle_of_symmetric_products() -> None:
    X, Y = np.random.default_rng(0).standard_normal((2, 4, 3, 5))
    out = np.empty((4, 17))
    kernels("population").outer_sums(X, Y, out, 2)
    product = X.transpose(0, 2, 1) @ Y
    np.testing.assert_allclose(out[:, 2:], svec(0.5 * (product + product.transpose(0, 2, 1))), atol=1e-13)


@each_structure
def test_observed_information_by_second_differences(structure: str) -> None:
    blocks, at, loss, h = random_people(2, [1, 2, 2, 4], seed=3), a_natural(structure, 2), Logistic(), 1e-3

    def total(natural: np.ndarray, *, information: bool = True) -> Sums:
        return sum_of(blocks, structure, natural, loss, information=information)

    ours = observed_information(total, at)
    n = at.size
    steps = h * np.eye(n)
    for j, k in [(0, 0), (0, 2), (1, n - 1), (n - 1, n - 1)]:
        corners = [s * t * total(at + s * steps[j] + t * steps[k]).value for s in (1, -1) for t in (1, -1)]
        assert ours[j, k] == pytest.approx(-sum(corners) / (4 * h * h), abs=2e-4 * np.abs(ours).max())


# ---------------------------------------------------------------------------------------------------- people


@each_loss
def test_posteriors_against_brute_force(loss: Loss) -> None:
    """Mean and covariance of v on a fine grid of R², for one to four answers per person and for somebody without."""
    blocks = laid_out([np.random.default_rng(k).standard_normal((m, 2)) for k, m in enumerate((1, 2, 4))], seed=4)
    law = Law(np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([0.2, -0.4]), np.array([[1.0, 0.2], [0.2, 0.6]]))
    mean, covariance = posteriors(blocks, law, loss, 4)
    line = np.linspace(-8.0, 8.0, 321)
    v = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    away = v - law.mean
    prior = -0.5 * np.einsum("ni,ij,nj->n", away, np.linalg.inv(law.covariance), away)
    for block in blocks:
        delta = block.loadings @ block.span
        own = np.einsum("pmd,pmd->pm", delta @ law.metric, block.total)
        [(person, alone, none)] = places_of(block, law, loss, covariances=False).parts
        np.testing.assert_allclose(alone, mean[person], atol=1e-12)
        assert none is None
        for p, k in enumerate(block.person):
            psi = own[p] + v @ delta[p].T
            log_joint = prior - loss.value(psi, block.response[p]) @ block.weight[p]
            share = np.exp(log_joint - log_joint.max())
            share /= share.sum()
            expected = share @ v
            tolerance = 1e-5 if block.span.shape[1] == 1 else 0.01  # a grid; expectation propagation
            np.testing.assert_allclose(mean[k], expected, atol=tolerance)
            square = (v * share[:, None]).T @ v
            np.testing.assert_allclose(covariance[k], square - np.outer(expected, expected), atol=tolerance)
    np.testing.assert_array_equal(mean[3], law.mean)
    np.testing.assert_array_equal(covariance[3], law.covariance)


# --------------------------------------------------------------------------------------------- charts, scoring

CHARTS = {
    "psd": Parametrization(3, "psd", False), "rank 2": Parametrization(3, "psd", False, rank=2),
    "symmetric": Parametrization(3, "symmetric", False),
    "identity": Parametrization(3, "identity", False), "free, no metric": Parametrization(3, "none", True),
    "free": Parametrization(3, "psd", True), "free, symmetric": Parametrization(3, "symmetric", True),
    "free, identity": Parametrization(3, "identity", True),
}  # fmt: skip
each_chart = pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)


@each_chart
def test_charts_pull_gradients_back(chart: Parametrization) -> None:
    rng = np.random.default_rng(0)
    natural_size = degrees_of_freedom(3) + 3 + (degrees_of_freedom(3) if chart.free else 1)
    A, b = rng.standard_normal((natural_size, natural_size)), rng.standard_normal(natural_size)
    H = A @ A.T

    def f(theta: np.ndarray) -> tuple[float, np.ndarray]:
        x = chart.natural(theta)
        return float(0.5 * x @ H @ x + b @ x), H @ x + b

    size = chart.theta(np.eye(3), np.zeros(3), np.eye(3) if chart.free else np.zeros(1)).size
    theta = 0.7 * rng.standard_normal(size)
    value, gradient = f(theta)
    pulled = chart.pull_back(theta, value, gradient, H)
    numeric = [(f(theta + h)[0] - f(theta - h)[0]) / 2e-5 for h in 1e-5 * np.eye(size)]
    np.testing.assert_allclose(pulled.gradient, numeric, rtol=1e-6, atol=1e-6)
    assert np.linalg.eigvalsh(pulled.curvature)[0] > -1e-9 * np.linalg.norm(pulled.curvature)


@each_chart
def test_a_chart_reaches_metrics_and_nothing_else(chart: Parametrization) -> None:
    rng = np.random.default_rng(1)
    G, F = rng.standard_normal((2, 3, 3))
    metric = G @ G.T
    if chart.rank == 2:
        metric = G[:, :2] @ G[:, :2].T
    if chart.kind in ("none", "identity"):
        metric = (1.7 if chart.kind == "identity" else 0.0) * np.eye(3)
    spread = F @ F.T if chart.free else np.array([0.3])
    natural = chart.natural(chart.theta(metric, np.arange(3.0), spread))
    np.testing.assert_allclose(smat(natural[:6]), metric, atol=1e-12)
    np.testing.assert_allclose(natural[6:9], np.arange(3.0))
    np.testing.assert_allclose(natural[9:], svec(spread) if chart.free else spread, atol=1e-12)
    if chart.kind == "psd":
        anywhere = chart.natural(rng.standard_normal(chart.theta(metric, np.zeros(3), spread).size))
        values = np.linalg.eigvalsh(smat(anywhere[:6]))
        assert values[0] > -1e-12
        assert np.sum(values > 1e-9) == chart.columns


def regression(seed: int = 0) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], Quadratic]]:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((300, 4)) * [1.0, 5.0, 0.2, 1.0]
    y = np.where(rng.random(300) < 1.0 / (1.0 + np.exp(-A @ [1.0, -0.3, 2.0, 0.0])), 1.0, -1.0)

    def function(theta: np.ndarray) -> Quadratic:
        value, slope, _ = Logistic().value_slope_curvature(A @ theta, y)
        scores = A * slope[:, None]
        return Quadratic(
            float(value.sum() + 0.5 * theta @ theta), scores.sum(axis=0) + theta, scores.T @ scores + np.eye(4)
        )

    return A, y, function


def test_scoring_reaches_the_optimum_of_a_logistic_regression() -> None:
    A, y, function = regression()
    steps: list[float] = []
    result = minimize_by_scoring(
        function, np.zeros(4), tolerance=1e-10, after_step=lambda _, value: steps.append(value)
    )
    reference = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(A, y)
    assert result.converged
    np.testing.assert_allclose(result.point, reference.coef_[0], atol=1e-4)
    assert steps == sorted(steps, reverse=True)
    assert result.iterations < 30


def test_steps_that_were_taken_correct_a_wrong_curvature() -> None:
    """A curvature that is off by factors of up to nine: the same optimum in fewer evaluations, resumed or not."""
    _, _, function = regression()
    twist = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    wrong = twist @ np.diag([0.3, 1.0, 2.0, 3.0]) @ twist.T
    seen: list[Any] = []

    def noisy(theta: np.ndarray) -> Quadratic:
        at = function(theta)
        root = np.linalg.cholesky(at.curvature)
        return Quadratic(at.value, at.gradient, root @ wrong @ root.T)

    plain, corrected = (
        minimize_by_scoring(noisy, np.zeros(4), tolerance=1e-10, secants=k, after_step=lambda s, _: seen.append(s))
        for k in (0, 4)
    )
    exact = minimize_by_scoring(function, np.zeros(4), tolerance=1e-12)
    np.testing.assert_allclose(corrected.point, exact.point, atol=1e-4)
    assert corrected.iterations < 0.7 * plain.iterations
    resumed = minimize_by_scoring(noisy, seen[-3], tolerance=1e-10, secants=4)
    np.testing.assert_array_equal(resumed.point, corrected.point)


def test_sums_are_not_asked_for_twice_at_one_point() -> None:
    asked: list[bool] = []

    def total(natural: np.ndarray, *, information: bool = True) -> Sums:
        asked.append(information)
        return Sums(float(natural.sum()), natural, np.eye(2) if information else None)

    remembered = remembering(total)
    for natural, information in ((0, False), (0, False), (0, True), (0, True), (0, False), (1, True), (0, True)):
        sums = remembered(np.full(2, float(natural)), information=information)
        assert sums.value == 2.0 * natural
        assert sums.information is not None or not information
    assert asked == [False, True, True, True]


def test_scoring_says_when_it_has_not_arrived() -> None:
    _, _, function = regression()
    result = minimize_by_scoring(function, 50.0 * np.ones(4), tolerance=1e-10, max_iterations=2)
    assert not result.converged
    assert result.decrease > 1e-10
    assert result.at.value == function(result.point).value


def test_a_step_that_must_be_shortened_is_no_sign_of_convergence() -> None:
    """One coordinate asks for very long steps. The others are far from their optimum, whatever a step may be."""

    def function(x: np.ndarray) -> Quadratic:
        slope = 1e-6 / (1.0 + x[0] ** 2)  # falls without end, by hardly anything
        return Quadratic(
            0.5 * float(x[1] - 3.0) ** 2 - 1e-6 * float(np.arctan(x[0])),
            np.array([-slope, x[1] - 3.0]),
            np.diag([1e-3 * slope**2, 1.0]),
        )

    shorten = lambda _, step: min(1.0, 1.0 / max(float(np.abs(step[0])), 1e-300))  # noqa: E731
    result = minimize_by_scoring(function, np.zeros(2), tolerance=1e-3, shorten=shorten, max_iterations=50)
    assert result.point[1] < 2.0
    assert not result.converged
    assert result.decrease > 0.1


def test_scoring_refuses_to_begin_where_there_is_no_value() -> None:
    with pytest.raises(DataError, match="no finite value at the start"):
        minimize_by_scoring(lambda theta: Quadratic(np.inf, 0 * theta, np.eye(2)), np.zeros(2), tolerance=1e-6)


def test_scoring_steps_over_places_without_a_value() -> None:
    """A logarithm whose first full step would leave its domain."""

    def function(x: np.ndarray) -> Quadratic:
        if x[0] <= 0:
            return Quadratic(np.inf, np.zeros(1), np.eye(1))
        return Quadratic(float(x[0] - np.log(x[0])), 1.0 - 1.0 / x, np.full((1, 1), 1e-3))

    result = minimize_by_scoring(function, np.array([0.1]), tolerance=1e-12, max_iterations=500)
    assert result.point[0] == pytest.approx(1.0, abs=1e-3)


def test_the_ridge_spares_multiples_of_the_identity_and_the_scale() -> None:
    rng = np.random.default_rng(0)
    G = rng.standard_normal((4, 4))
    m = svec(G @ G.T)
    found = shape_penalty(m, 3.0)
    value = found.value
    shape = G @ G.T / (np.trace(G @ G.T) / 4)
    assert value == pytest.approx(1.5 * np.sum((shape - np.eye(4)) ** 2))
    assert shape_penalty(7.0 * m, 3.0).value == pytest.approx(value)
    assert shape_penalty(svec(2.0 * np.eye(4)), 3.0).value == pytest.approx(0.0, abs=1e-20)
    steps = 1e-6 * np.eye(m.size)
    numeric = [(shape_penalty(m + h, 3.0).value - shape_penalty(m - h, 3.0).value) / 2e-6 for h in steps]
    np.testing.assert_allclose(found.gradient, numeric, atol=1e-7)
    assert np.linalg.eigvalsh(found.curvature)[0] > -1e-12
    nothing = shape_penalty(m, 0.0)
    assert nothing.value == 0.0
    assert not nothing.gradient.any()
    assert not nothing.curvature.any()


@each_structure
@pytest.mark.parametrize("n_items", [0, 4])
def test_the_prior_by_finite_differences(structure: str, n_items: int) -> None:
    layout = replace(STRUCTURES[structure].layout(3), n_items=n_items)
    at = np.concatenate([a_natural(structure, 3), np.arange(n_items) - 1.0])
    ridges = Ridges(shape=2.0, size=0.7, people=1.5, items=3.0)

    def value(natural: np.ndarray) -> float:
        return penalty(natural, layout, ridges, 1.7).value

    found = penalty(at, layout, ridges, 1.7)
    numeric = [(value(at + h) - value(at - h)) / 2e-6 for h in 1e-6 * np.eye(at.size)]
    np.testing.assert_allclose(found.gradient, numeric, rtol=1e-5, atol=1e-6)
    assert np.linalg.eigvalsh(found.curvature)[0] > -1e-10
    assert penalty(at, layout, Ridges(), 1.0).value < 0.2  # the limit of noise is weak where answers are noisy


@each_structure
def test_the_expected_information_is_close_to_outer_products_of_many_people(structure: str) -> None:
    """Whose answers follow the law: there outer products are right but for their noise."""
    d, K, m = 2, 4000, 3
    at, rng, family = a_natural(structure, d), np.random.default_rng(3), STRUCTURES[structure]
    law = family.law(at, d)
    items, pairs = rng.standard_normal((60, d)), rng.integers(60, size=(K * m, 2))
    users = np.repeat(np.arange(K), m)
    v = rng.multivariate_normal(law.mean, law.covariance, size=K)
    delta, total = items[pairs[:, 0]] - items[pairs[:, 1]], items[pairs[:, 0]] + items[pairs[:, 1]]
    psi = np.einsum("td,td->t", delta, total @ law.metric + v[users])
    y = np.where(rng.random(K * m) < 1.0 / (1.0 + np.exp(-psi)), 1.0, -1.0)
    blocks = blocks_of(arrange(answers_of(items, pairs, y, users)))
    outer = sum_of(blocks, structure, at, Logistic(), largest_grid=1).information
    sums = sum_of(blocks, structure, at, Logistic(), expected=expected_information, largest_grid=1)
    expected = sums.information.total(family.spread_jacobian(at, d), svec(law.covariance))
    assert np.linalg.eigvalsh(expected)[0] > 0
    root = np.linalg.inv(np.linalg.cholesky(expected))
    ratios = np.linalg.eigvalsh(root @ outer @ root.T)  # 1 where both say the same of a direction
    # three yes-or-no answers are far from a Gaussian, and yet no direction is off by more than a factor of three
    assert ratios[0] > 1.0 / 3.0
    assert ratios[-1] < 3.0
    assert np.median(ratios) == pytest.approx(1.0, abs=0.1)


@each_structure
def test_information_about_some_directions_is_that_about_all_restricted_to_them(structure: str) -> None:
    d, rng = 3, np.random.default_rng(8)
    items, users = rng.standard_normal((15, d)), np.repeat(np.arange(12), 5)
    left = rng.integers(15, size=users.size)
    pairs = np.column_stack([left, (left + rng.integers(1, 15, size=users.size)) % 15])
    blocks = blocks_of(arrange(answers_of(items, pairs, rng.choice([-1.0, 1.0], users.size), users)), pairs)
    at = a_natural(structure, d)
    for kind, n in (("none", 0), ("identity", 1)):
        free = kind == "none" or structure == "free"
        directions = Parametrization(d, kind, free).metric_directions()
        assert directions.shape == (6, n)
        some = partial(expected_information, directions=directions)
        found, whole = (
            sum_of(blocks, structure, at, Logistic(), expected=expected, largest_grid=1).information.offsets
            for expected in (some, expected_information)
        )
        W = np.eye(at.size)
        W[:6, :6] = directions @ directions.T
        np.testing.assert_allclose(found, W @ whole @ W, atol=1e-10 * np.abs(whole).max())


@each_structure
def test_people_of_several_ranks_in_one_block_say_the_same(structure: str) -> None:
    """Rows of zeros in their span change neither likelihood nor score nor information."""
    d, rng = 4, np.random.default_rng(5)
    items, users = rng.standard_normal((20, d)), np.repeat(np.arange(40), 1 + np.arange(40) % 5)
    left = rng.integers(20, size=users.size)
    pairs = np.column_stack([left, (left + rng.integers(1, 20, size=users.size)) % 20])
    people = arrange(answers_of(items, pairs, rng.choice([-1.0, 1.0], users.size), users), spare=SPARE)
    apart, joined = blocks_of(people), blocks_of(people, join_above=1)
    assert [block.span.shape[1] for block in joined] == [1, 4]
    assert len(apart) == 4
    at = a_natural(structure, d)
    found = [
        sum_of(blocks, structure, at, Logistic(), expected=expected_information, largest_grid=1)
        for blocks in (apart, joined)
    ]
    assert found[1].value == pytest.approx(found[0].value, rel=1e-9)
    np.testing.assert_allclose(found[1].score, found[0].score, atol=1e-8)
    family = STRUCTURES[structure]
    both = [sums.information.total(family.spread_jacobian(at, d), svec(family.law(at, d).covariance)) for sums in found]
    np.testing.assert_allclose(both[1], both[0], atol=1e-8)


def test_information_about_the_size_and_the_shape_of_people_has_a_share_each() -> None:
    """Answers all but free of noise say all of a shape and little of a size."""
    rng = np.random.default_rng(4)
    G, x, offsets = rng.standard_normal((8, 3, 3)), rng.standard_normal(6), np.eye(6)
    entries = (G @ G.transpose(0, 2, 1))[:, *np.triu_indices(3)]
    found = Information(offsets, entries.T @ entries, np.array([0.1, 8.1]), np.array([1.0, 11.0]))
    spreads = found.about_spreads()
    np.testing.assert_allclose(
        float(x @ spreads @ x), 0.5 * sum(np.sum((g @ g.T @ smat(x)).T * (g @ g.T @ smat(x))) for g in G)
    )
    along = spreads @ x
    total = found.total(np.eye(6), x) - offsets
    assert float(x @ total @ x) == pytest.approx(0.1 * float(x @ along))  # 0.1 of 1
    other = rng.standard_normal(6)
    other -= float(other @ along) / float(x @ along) * x  # without anything of the size
    np.testing.assert_allclose(total @ other, 0.8 * spreads @ other, atol=1e-12)  # 8 of 10
    assert np.linalg.eigvalsh(total)[0] > 0
    np.testing.assert_allclose((found + found).total(np.eye(6), x), 2.0 * found.total(np.eye(6), x))


def test_the_bending_of_isotropic_people_is_a_curvature() -> None:
    """Of Σ = 4s²M², which grows with the square of an entry of M that answers do not feel otherwise."""
    rng, d = np.random.default_rng(5), 3
    family, at = STRUCTURES["isotropic"], a_natural("isotropic", d)
    F = rng.standard_normal((d, d))
    G = -F @ F.T  # ∂ℓ/∂Σ of people who would rather be closer together

    def loss(natural: np.ndarray) -> float:
        return -float(np.sum(G * family.law(natural, d).covariance))

    found = family.bending(at, G)
    assert np.linalg.eigvalsh(found)[0] > -1e-9
    # second differences along A = 2sM, in which Σ = A² is quadratic: at a fixed s
    for step in 1e-3 * np.eye(at.size)[: degrees_of_freedom(d)]:
        second = loss(at + step) + loss(at - step) - 2.0 * loss(at)
        assert second == pytest.approx(float(step @ found @ step), rel=1e-4)
    assert np.all(STRUCTURES["free"].bending(a_natural("free", d), G) == 0.0)


def test_a_fit_of_the_law_is_where_the_score_vanishes() -> None:
    crowd = simulate_crowd(2, None, None, users=200, comparisons=2, seed=5)
    blocks = blocks_of(arrange(answers_of(crowd.items, crowd.pairs, crowd.y, crowd.users)))

    def total(natural: np.ndarray, *, information: bool = True) -> Sums:
        return sum_of(blocks, "isotropic", natural, Logistic(), information=information)

    chart = Parametrization(2, "symmetric", False)
    start = chart.theta(np.eye(2), np.zeros(2), np.array([0.0]))
    fit = fit_law(total, chart, start, tolerance=1e-9)
    assert fit.result.converged
    sums = total(fit.natural)
    assert sums.information is not None
    score = sums.score - penalty(fit.natural, fit.layout, Ridges(), 1.0).gradient
    # in units of what is left to know: a Newton step would gain next to nothing
    assert score @ np.linalg.solve(sums.information, score) < 1e-6
    pulled = fit_law(total, chart, start, ridges=Ridges(shape=1e6), tolerance=1e-9)
    assert np.ptp(np.linalg.eigvalsh(smat(pulled.natural[:3]))) < 1e-3
    assert pulled.determined < 0.1 < fit.determined == 2.0


def linear_crowd(K: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return items, pairs, answers and people of a crowd with linear utilities: nobody has an ideal point."""
    rng = np.random.default_rng(seed)
    items, pairs = rng.standard_normal((40, 2)), rng.integers(40, size=(K * m, 2))
    users = np.repeat(np.arange(K), m)
    v = np.array([1.0, -0.5]) + rng.standard_normal((K, 2))
    psi = np.einsum("td,td->t", items[pairs[:, 0]] - items[pairs[:, 1]], v[users])
    return items, pairs, np.where(rng.random(psi.size) < 1.0 / (1.0 + np.exp(-psi)), 1, -1), users


@pytest.mark.parametrize("K", [60, 250])
def test_the_ridge_on_the_size_is_the_one_of_the_largest_evidence(K: int) -> None:
    crowd = simulate_crowd(2, None, None, users=K, comparisons=3, seed=9)
    blocks = blocks_of(arrange(answers_of(crowd.items, crowd.pairs, crowd.y, crowd.users)))

    def total(natural: np.ndarray, *, information: bool = True) -> Sums:
        return sum_of(blocks, "free", natural, Logistic(), information=information)

    chart = Parametrization(2, "psd", True)
    fit = fit_with_evidence(total, chart, chart.theta(np.eye(2), np.zeros(2), np.eye(2)), tolerance=1e-6)
    assert fit.ridges.size > 0
    e = np.zeros(fit.natural.size)
    e[:3] = svec(np.eye(2)) / np.sqrt(2)
    t = float(e @ fit.natural)
    # MacKay's fixed point, κ = γ / t² with γ = 1 − κ eᵀA⁻¹e: another way to write what the solver finds in closed form
    left = 1.0 - fit.ridges.size * float(e @ np.linalg.inv(with_ridges(fit.information, fit)) @ e)
    assert fit.ridges.size == pytest.approx(left / t**2, rel=0.2)
    # where it ends, the pull of the answers on the size balances the ridge's: along M → (1 + ε)M nothing else changes
    along = np.concatenate([fit.natural[:3], np.zeros(5)])
    sums = total(fit.natural)
    others = replace(fit.ridges, shape=0.0, size=0.0, people=0.0)
    rest = penalty(fit.natural, fit.layout, others, 1.0).gradient
    assert float((sums.score - rest) @ along) == pytest.approx(fit.ridges.size * t**2, abs=0.02)


def test_a_crowd_without_ideal_points_gets_no_metric() -> None:
    items, pairs, y, users = linear_crowd(300, 6, seed=1)  # answers that by chance look a little like a metric
    options: dict[str, Any] = {"covariance": "free", "uncertainty": False, "starts": 1}
    model = PopulationMetric(items, **options).fit(pairs, y, users=users)
    without = PopulationMetric(items, ridge=None, **options).fit(pairs, y, users=users)
    assert model.scale_ < 0.2 * without.scale_
    assert "The answers do not support a metric" in model.solution_.status
    assert model.size_ridge_ > 0 == without.size_ridge_
    # and its people are those of the crowd
    np.testing.assert_allclose(model.pseudo_ideal_mean_, [1.0, -0.5], atol=0.3)


@pytest.mark.parametrize(
    ("kind", "free", "metric", "expected"),
    [
        ("psd", True, np.diag([1e-9, 0.0]), True),  # whatever ridge it ended under
        ("psd", True, np.diag([1.0, 0.0]), False),
        ("symmetric", True, np.diag([1.0, -1.0]), False),  # its trace is zero, but it is not
        ("symmetric", True, np.diag([1e-9, -1e-9]), True),
        ("none", True, np.zeros((2, 2)), False),  # it could not have had one
        ("psd", False, np.diag([1e-9, 0.0]), False),  # isotropic people keep the shape of a metric of any size
    ],
)
def test_a_fit_without_a_metric_is_recognized_by_its_metric(
    kind: str, free: bool, metric: np.ndarray, expected: bool
) -> None:
    chart = Parametrization(2, kind, free)
    natural = np.zeros(8)
    natural[chart.layout.metric] = svec(metric)
    fit: Any = SimpleNamespace(chart=chart, layout=chart.layout, natural=natural)
    assert has_no_metric(fit) is expected


# ----------------------------------------------------------------------------------------------------- units


def test_units_round_trip_and_leave_psi_alone() -> None:
    rng = np.random.default_rng(0)
    items, pairs = 3.0 + 5.0 * rng.standard_normal((20, 3)), rng.integers(20, size=(40, 2))
    units = Units.of(items, pairs)
    inside = units.inside(items)
    used = np.unique(pairs)
    np.testing.assert_allclose(inside[used].mean(axis=0), 0.0, atol=1e-14)
    assert np.mean(np.sum(inside[used] ** 2, axis=1)) == pytest.approx(1.0)
    G, F = rng.standard_normal((2, 3, 3))
    law = Law(G @ G.T, rng.standard_normal(3), F @ F.T)
    outside = units.law_outside(law)
    again = units.law_inside(outside)
    for name in ("metric", "mean", "covariance"):
        np.testing.assert_allclose(getattr(again, name), getattr(law, name), atol=1e-10)
    for x, place in ((inside, law), (items, outside)):
        delta, total = x[pairs[:, 0]] - x[pairs[:, 1]], x[pairs[:, 0]] + x[pairs[:, 1]]
        psi = np.einsum("ti,ti->t", delta, total @ place.metric + place.mean)
        spread = np.einsum("ti,ij,tj->t", delta, place.covariance, delta)
        if x is inside:
            expected = psi, spread
    np.testing.assert_allclose(psi, expected[0], atol=1e-10)
    np.testing.assert_allclose(spread, expected[1], atol=1e-10)
    assert Units.of(np.ones((3, 2)), np.array([[0, 1]])).size == 1.0


# ------------------------------------------------------------------------------------------------- the estimator


@dataclass(frozen=True)
class Study:
    items: np.ndarray
    pairs: np.ndarray
    y: np.ndarray
    users: np.ndarray
    weight: np.ndarray | None = None

    def fit(self, **options: Any) -> PopulationMetric:
        model = PopulationMetric(self.items, **({"starts": 1, "tol": 1e-5, "jobs": 1} | options))
        return model.fit(self.pairs, self.y, users=self.users, sample_weight=self.weight)


CROWD = simulate_crowd(3, None, None, users=500, comparisons=2, seed=0)
# everything exact, so what must not matter does not, to many digits
EXACTLY: dict[str, Any] = {"integration": "grid", "ridge": None, "tol": 1e-8}
BASE = Study(CROWD.items, CROWD.pairs, CROWD.y, CROWD.users)
TURN = ortho_group.rvs(3, random_state=1)
ORDER = np.random.default_rng(2).permutation(CROWD.y.size)

TRANSFORMATIONS: dict[str, tuple[Callable[[Study], Study], Callable[[np.ndarray], np.ndarray]]] = {
    "move the origin": (lambda s: replace(s, items=s.items + np.array([10.0, -5.0, 3.0])), lambda M: M),
    "scale the items": (lambda s: replace(s, items=10.0 * s.items), lambda M: M / 100.0),
    "turn the items": (lambda s: replace(s, items=s.items @ TURN.T), lambda M: TURN @ M @ TURN.T),
    "swap left and right": (lambda s: replace(s, pairs=s.pairs[:, ::-1], y=-s.y), lambda M: M),
    "reorder rows": (
        lambda s: replace(s, pairs=s.pairs[ORDER], y=s.y[ORDER], users=s.users[ORDER]),
        lambda M: M,
    ),
    "rename people": (lambda s: replace(s, users=np.array([f"p{9999 - u}" for u in s.users])), lambda M: M),
    "halves of answers": (
        lambda s: Study(
            s.items, np.concatenate([s.pairs] * 2), np.concatenate([s.y] * 2), np.concatenate([s.users] * 2),
            np.full(2 * s.y.size, 0.5),
        ),
        lambda M: M,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def base() -> PopulationMetric:
    return BASE.fit()


@pytest.fixture(scope="module")
def exact() -> PopulationMetric:
    return BASE.fit(**EXACTLY)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_invariant(name: str, exact: PopulationMetric) -> None:
    transform, moved = TRANSFORMATIONS[name]
    other = transform(BASE).fit(**EXACTLY)
    expected = moved(exact.metric_)
    assert other.log_likelihood_ == pytest.approx(exact.log_likelihood_, abs=1e-5)
    np.testing.assert_allclose(other.metric_, expected, atol=2e-3 * np.linalg.norm(expected))
    expected = moved(exact.symmetric_metric_)
    np.testing.assert_allclose(other.symmetric_metric_, expected, atol=2e-3 * np.linalg.norm(expected))
    if name != "turn the items":
        np.testing.assert_allclose(other.standard_errors_, moved(exact.standard_errors_), rtol=0.01)
    if name == "move the origin":
        ours = exact.predict_proba(BASE.pairs[:20], users=BASE.users[:20])
        np.testing.assert_allclose(other.predict_proba(BASE.pairs[:20], users=BASE.users[:20]), ours, atol=1e-3)
        np.testing.assert_allclose(other.ideal_points_ - [10.0, -5.0, 3.0], exact.ideal_points_, atol=0.02)
        np.testing.assert_allclose(other.ideal_mean_ - [10.0, -5.0, 3.0], exact.ideal_mean_, atol=0.02)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_all_but_invariant_with_everything_automatic(name: str, base: PopulationMetric) -> None:
    """The ridge is settled to a tenth, and propagation sees halves of answers a little differently."""
    transform, moved = TRANSFORMATIONS[name]
    other = transform(BASE).fit()
    assert relative_error(other.metric_, moved(base.metric_)) < 0.02


def test_only_the_product_of_beta_and_metric_is_known(exact: PopulationMetric, base: PopulationMetric) -> None:
    sharp = BASE.fit(beta=2.0, **EXACTLY)
    np.testing.assert_allclose(sharp.metric_, 0.5 * exact.metric_, atol=1e-3 * np.linalg.norm(exact.metric_))
    assert sharp.log_likelihood_ == pytest.approx(exact.log_likelihood_, abs=1e-5)
    np.testing.assert_allclose(sharp.symmetric_covariance_, 0.25 * exact.symmetric_covariance_, rtol=1e-3, atol=1e-6)
    # a thousand draws that depend on each other know a standard deviation to a few percent
    np.testing.assert_allclose(sharp.standard_errors_, 0.5 * exact.standard_errors_, rtol=0.1)
    assert relative_error(BASE.fit(beta=2.0).metric_, 0.5 * base.metric_) < 0.02


def test_threads_do_not_change_the_result() -> None:
    crowd = simulate_crowd(3, None, None, users=2000, comparisons=2, seed=1)
    one, two = (
        PopulationMetric(crowd.items, starts=1, jobs=jobs).fit(crowd.pairs, crowd.y, users=crowd.users)
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.metric_, two.metric_)
    np.testing.assert_array_equal(one.standard_errors_, two.standard_errors_)


def test_a_weight_of_two_is_an_answer_said_twice(exact: PopulationMetric) -> None:
    weight = np.where(np.arange(BASE.y.size) % 50 == 0, 2.0, 1.0)  # few: who repeats themselves looks free of noise
    rows = np.repeat(np.arange(BASE.y.size), weight.astype(int))
    heavy = replace(BASE, weight=weight).fit(**EXACTLY)
    twice = Study(BASE.items, BASE.pairs[rows], BASE.y[rows], BASE.users[rows]).fit(**EXACTLY)
    assert heavy.log_likelihood_ == pytest.approx(twice.log_likelihood_, abs=1e-5)
    np.testing.assert_allclose(heavy.metric_, twice.metric_, atol=2e-3 * np.linalg.norm(twice.metric_))
    assert relative_error(heavy.metric_, exact.metric_) > 0.005


def test_answers_without_weight_are_not_there() -> None:
    weight = np.where(np.arange(BASE.y.size) % 4 == 0, 0.0, 1.0)
    kept = weight > 0
    silent = replace(BASE, weight=weight).fit(**EXACTLY)
    fewer = Study(BASE.items, BASE.pairs[kept], BASE.y[kept], BASE.users[kept]).fit(**EXACTLY)
    assert silent.log_likelihood_ == pytest.approx(fewer.log_likelihood_, abs=1e-5)
    np.testing.assert_allclose(silent.metric_, fewer.metric_, atol=2e-3 * np.linalg.norm(fewer.metric_))


def test_log_likelihood_is_that_of_the_law() -> None:
    """Recomputed in the items' own units from the public attributes alone."""
    model = BASE.fit(constraint="symmetric", **EXACTLY)  # whose scale is not corrected
    law = Law(model.metric_, model.pseudo_ideal_mean_, model.pseudo_ideal_covariance_)
    blocks = blocks_of(arrange(answers_of(BASE.items, BASE.pairs, BASE.y, BASE.users)))
    total = sum(float(integrate(block, law, Logistic()).value.sum()) for block in blocks)
    assert total == pytest.approx(model.log_likelihood_, abs=1e-5)
    assert model.objective_ == pytest.approx(-total / BASE.y.size)
    mean, covariance = posteriors(blocks, law, Logistic(), 500, largest_grid=3)
    np.testing.assert_allclose(model.pseudo_ideal_points_, mean, atol=1e-6)
    np.testing.assert_allclose(model.pseudo_ideal_covariances_, covariance, atol=1e-6)
    assert np.linalg.eigvalsh(covariance).min() > 0


def test_attributes_agree_with_each_other(base: PopulationMetric) -> None:
    np.testing.assert_allclose(base.metric_, base.scale_ * base.shape_)
    assert np.trace(base.shape_) == pytest.approx(3.0)
    np.testing.assert_allclose(
        base.ideal_mean_, -0.5 * np.linalg.solve(base.metric_, base.pseudo_ideal_mean_), atol=1e-9
    )
    spread = 4.0 * base.metric_ @ base.ideal_covariance_ @ base.metric_
    np.testing.assert_allclose(base.pseudo_ideal_covariance_, spread, atol=1e-9)
    variances = np.diag(base.metric_covariance_)
    np.testing.assert_allclose(svec(base.standard_errors_), np.sqrt(variances))
    assert np.linalg.eigvalsh(base.metric_covariance_)[0] > 0
    assert abs(base.question_bias_) < 4
    assert 0 < base.determined_ <= 5


def test_recovers_the_metric() -> None:
    crowd = simulate_crowd(3, None, None, users=6000, comparisons=2, seed=3)
    model = PopulationMetric(crowd.items, starts=1).fit(crowd.pairs, crowd.y, users=crowd.users)
    assert relative_error(model.metric_, crowd.metric) < 0.12
    away = np.abs(model.symmetric_metric_ - crowd.metric) / model.standard_errors_
    assert away.max() < 4
    assert model.solution_.converged
    spread = np.trace(model.ideal_covariance_) / 3
    assert spread == pytest.approx(1 / 3, rel=0.3)


def test_free_covariance_sees_that_people_stretch() -> None:
    rng = np.random.default_rng(0)
    K, M = 6000, sample_metric(2, rng)
    u = rng.standard_normal((K, 2)) * [1.5, 0.1]
    items, users = rng.standard_normal((4 * K, 2)), np.repeat(np.arange(K), 2)
    pairs = np.arange(4 * K).reshape(-1, 2)
    y = answer(items, pairs, u[users], M, seed=1)
    free, isotropic = (
        PopulationMetric(items, starts=1, covariance=kind).fit(pairs, y, users=users) for kind in ("free", "isotropic")
    )
    assert free.log_likelihood_ > isotropic.log_likelihood_ + 10
    assert relative_error(free.metric_, M) < 0.15
    truth = M @ np.diag([2.25, 0.01]) @ M
    assert relative_error(0.25 * free.pseudo_ideal_covariance_, truth) < 0.3


def test_rank() -> None:
    low = BASE.fit(rank=1)
    assert np.sum(np.linalg.eigvalsh(low.metric_) > 1e-9) == 1
    assert low.components_.shape == (3, 3)


def test_without_the_constraint_a_matrix_need_not_be_a_metric() -> None:
    """People who are drawn to a point in two features and driven from it in the third."""
    rng = np.random.default_rng(0)
    K, M = 3000, np.diag([2.0, 1.0, -1.0])
    x, u = rng.standard_normal((K, 2, 2, 3)), rng.standard_normal((K, 3)) / np.sqrt(3)
    away = x - u[:, None, None]
    square = np.einsum("kpsi,ij,kpsj->kps", away, M, away)
    psi = (square[..., 0] - square[..., 1]).ravel()
    y = np.where(rng.random(psi.size) < 1.0 / (1.0 + np.exp(-psi)), 1, -1)
    study = Study(x.reshape(-1, 3), np.arange(4 * K).reshape(-1, 2), y, np.repeat(np.arange(K), 2))
    model = study.fit(constraint="symmetric")
    assert relative_error(model.metric_, M) < 0.15
    metric = study.fit(starts=1)
    assert np.linalg.eigvalsh(metric.metric_)[0] > -1e-12
    assert relative_error(metric.symmetric_metric_, M) < 0.15
    assert model.log_likelihood_ > metric.log_likelihood_ + 10


def test_probit(base: PopulationMetric) -> None:
    probit = BASE.fit(loss="probit", beta=0.6)
    assert shape_error(probit.metric_, base.metric_) < 0.1
    assert probit.log_likelihood_ == pytest.approx(base.log_likelihood_, abs=3.0)


def test_every_start_is_tried() -> None:
    model = BASE.fit(starts=3, tol=1e-5)
    assert model.starts_.shape == (3,)
    assert "3 starts agree" in model.solution_.status


def test_strangers_are_the_population(base: PopulationMetric) -> None:
    known = base.predict_proba(BASE.pairs[:9], users=BASE.users[:9])
    strangers = base.predict_proba(BASE.pairs[:9], users=BASE.users[:9] + 10_000)
    np.testing.assert_array_equal(base.predict_proba(BASE.pairs[:9]), strangers)
    np.testing.assert_allclose(known.sum(axis=1), 1.0)
    assert np.abs(known - strangers).max() > 0.02
    # averaged over the population and over what is not known of its law, by sampling both
    rng = np.random.default_rng(0)
    v = rng.multivariate_normal(np.zeros(3), base.pseudo_ideal_covariance_, 100_000)
    known = np.append(svec(base.metric_), base.pseudo_ideal_mean_)
    laws = rng.multivariate_normal(known, base.offset_covariance_, 100_000)
    x, x_ = CROWD.items[BASE.pairs[0]]
    psi = smat(laws[:, :6]) @ (x + x_) @ (x - x_) + (v + laws[:, 6:]) @ (x - x_)
    assert strangers[0, 1] == pytest.approx(np.mean(1.0 / (1.0 + np.exp(-psi))), abs=0.005)


def test_clone_pickle_and_folder(base: PopulationMetric, tmp_path) -> None:
    twin = clone(base)
    assert twin.items is base.items
    assert twin.get_params() == base.get_params()
    again = pickle.loads(pickle.dumps(base))
    save_model(tmp_path / "model", base)
    loaded = load_model(tmp_path / "model").estimator()
    for other in (again, loaded):
        for name in ("metric_", "metric_covariance_", "symmetric_metric_", "pseudo_ideal_covariances_"):
            np.testing.assert_array_equal(getattr(other, name), getattr(base, name))
        ours = base.predict_proba(BASE.pairs[:5], users=BASE.users[:5])
        np.testing.assert_array_equal(other.predict_proba(BASE.pairs[:5], users=BASE.users[:5]), ours)
        assert other.solution_.status == base.solution_.status


def test_a_second_fit_keeps_nothing_of_the_first() -> None:
    """Standard errors of other answers would be taken for those of these by everything that asks for them."""
    model = PopulationMetric(BASE.items, starts=1)
    model.fit(BASE.pairs, BASE.y, users=BASE.users)
    assert hasattr(model, "standard_errors_")
    half = slice(BASE.y.size // 2)
    model.set_params(uncertainty=False).fit(BASE.pairs[half], BASE.y[half], users=BASE.users[half])
    fresh = clone(model).fit(BASE.pairs[half], BASE.y[half], users=BASE.users[half])
    assert vars(model).keys() == vars(fresh).keys()
    assert not hasattr(model, "metric_covariance_")
    np.testing.assert_array_equal(model.metric_, fresh.metric_)


# ------------------------------------------------------------------------------------------ what cannot be known


def test_the_spread_is_that_of_all_answers() -> None:
    """Of people with few answers and with many, whose questions differ, in blocks that are padded."""
    rng = np.random.default_rng(0)
    answers = rng.integers(1, 40, 200)
    users = np.repeat(np.arange(200), answers)
    items = rng.standard_normal((2 * users.size, 2))
    pairs = np.arange(2 * users.size).reshape(-1, 2)
    items[pairs[:, 1]] *= np.where(answers > 20, 3.0, 0.3)[users][:, None]
    weight = rng.choice([0.0, 1.0, 2.0], users.size)
    y = answer(items, pairs, rng.standard_normal((200, 2))[users], np.eye(2), seed=1)
    model = PopulationMetric(items, beta=1.5, uncertainty=False, starts=1)
    model.fit(pairs, y, users=users, sample_weight=weight)
    delta = items[pairs[:, 0]] - items[pairs[:, 1]]
    variance = np.einsum("td,de,te->t", delta, model.pseudo_ideal_covariance_, delta)
    assert model.spread_ == pytest.approx(1.5 * np.sqrt(np.average(variance, weights=weight)), rel=1e-10)


def test_a_shape_that_is_not_known_is_not_recommended() -> None:
    rng = np.random.default_rng(0)
    items, users = rng.standard_normal((12, 3)), np.repeat(np.arange(30), 4)
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in users])
    with pytest.warns(NotIdentifiedWarning, match="nor do they determine most of its shape"):
        model = PopulationMetric(items, starts=1).fit(pairs, rng.choice([-1, 1], users.size), users=users)
    assert model.determined_ < 2.0
    assert "rely on shape_" not in model.solution_.status


def test_noiseless_answers_on_lines_do_not_give_the_scale() -> None:
    """On a line ψ = Q(x − x')(x + x' − 2u): without noise its sign does not depend on Q."""
    crowd = simulate_crowd(3, 15, 1, users=20, comparisons=4, beta=np.inf, seed=0)
    with pytest.warns(NotIdentifiedWarning, match="scale of the metric is not known.*rely on shape_"):
        model = PopulationMetric(crowd.items, starts=1, ridge=None).fit(crowd.pairs, crowd.y, users=crowd.users)
    assert model.spread_ > 20.0
    assert "free of noise" in model.solution_.summary()


def questions(near: float, seed: int, K: int = 1500, d: int = 3, m: int = 3) -> Study:
    """Items drawn around ``near`` × the ideal point of whoever is asked."""
    rng = np.random.default_rng(seed)
    M, u = sample_metric(d, rng), rng.standard_normal((K, d)) / np.sqrt(d)
    users = np.repeat(np.arange(K), m)
    items = (rng.standard_normal((K * m, 2, d)) / np.sqrt(d) + near * u[users][:, None]).reshape(-1, d)
    pairs = np.arange(2 * K * m).reshape(-1, 2)
    return Study(items, pairs, answer(items, pairs, u[users], M, seed=seed), users)


def test_questions_at_random_do_not_look_chosen() -> None:
    z = [questions(0.0, seed, K=500, m=2).fit(tol=1e-3).question_bias_ for seed in range(8)]
    assert np.abs(z).max() < 3.5
    assert 0.3 < np.std(z) < 2.0


def test_questions_near_ideal_points_are_noticed() -> None:
    with pytest.warns(NotIdentifiedWarning, match=r"questions look chosen.*ask at random, or use MatchedMetric"):
        model = questions(1.0, 0).fit(tol=1e-4)
    assert abs(model.question_bias_) > 4


def test_one_answer_each_cannot_tell_whether_questions_were_chosen() -> None:
    assert np.isnan(questions(0.0, 1, K=3000, m=1).fit(tol=1e-4).question_bias_)


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.NotIdentifiedWarning")
def test_few_people_lean_on_the_ridge_and_say_so() -> None:
    crowd = simulate_crowd(4, 20, 1, users=4, comparisons=2, seed=1)
    model = Study(crowd.items, crowd.pairs, crowd.y, crowd.users).fit()
    assert model.determined_ < 8
    assert "the rest comes from the prior, a multiple of the identity" in model.solution_.status


def test_too_few_iterations_are_admitted() -> None:
    with pytest.warns(ConvergenceWarning, match="has not converged; raise max_iter"):
        model = BASE.fit(max_iter=2, ridge=None)
    assert not model.solution_.converged


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "loss": ({"loss": "hinge"}, "loss='hinge' is not a likelihood of binary answers; use 'logistic' or 'probit'"),
    "covariance": ({"covariance": "full"}, "covariance='full' is unknown; use 'isotropic' or 'free'"),
    "constraint": ({"constraint": None}, "constraint=None is unknown; use 'psd' or 'symmetric'"),
    "integration": ({"integration": "laplace"}, "integration='laplace' is unknown; use 'auto' or 'grid' or"),
    "rank 0": ({"rank": 0}, "rank=0 is not a whole number of at least 1"),
    "rank 4": ({"rank": 4}, "rank=4 is not between 1 and the 3 features"),
    "rank True": ({"rank": True}, "rank=True is not a whole number of at least 1"),
    "rank and symmetric": ({"rank": 2, "constraint": "symmetric"}, "rank=2 has no effect with constraint='symmetric'"),
    "ridge": ({"ridge": "strong"}, "ridge='strong' is unknown; use 'evidence', a number or None"),
    "negative ridge": ({"ridge": -1.0}, "ridge=-1.0 is not a positive finite number"),
    "beta": ({"beta": 0.0}, "beta"),
    "tol": ({"tol": 0.0}, "tol=0.0 is not a positive finite number"),
    "max_iter": ({"max_iter": 0}, "max_iter=0 is not a whole number of at least 1"),
    "starts": ({"starts": 0}, "starts=0 is not a whole number of at least 1"),
    "jobs": ({"jobs": 0}, "jobs=0 is not a number of processes"),
    "random_state": ({"random_state": -1}, "random_state=-1 is not a whole number"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options_get_a_sentence(name: str) -> None:
    options, sentence = BAD[name]
    with pytest.raises(DataError, match=sentence):
        BASE.fit(**options)


def test_bad_answers_get_a_sentence() -> None:
    with pytest.raises(DataError, match="y holds 0"):
        replace(BASE, y=0 * BASE.y).fit()
    weight = np.zeros(BASE.y.size)
    weight[0] = 1.0
    same = replace(BASE, pairs=np.where(np.arange(BASE.y.size)[:, None] == 0, 0, BASE.pairs), weight=weight)
    with pytest.raises(DataError, match="no comparison of different items has a positive weight"):
        same.fit()


def test_predictions_know_what_is_unknown_of_people_whose_spreads_are_not_kept() -> None:
    crowd = simulate_crowd(3, None, None, 3_000, 4, seed=31)
    model = PopulationMetric(crowd.items, uncertainty=False).fit(crowd.pairs, crowd.y, users=crowd.users)
    elsewhere = np.roll(crowd.pairs, 4, axis=0)  # the next person's questions: one's own are known better than others
    kept = model._variance(read_asked(elsewhere, crowd.users, crowd.items))
    model.pseudo_ideal_covariances_ = None
    usual = model._variance(read_asked(elsewhere, crowd.users, crowd.items))
    # the law of total covariance holds on average over people
    assert np.mean(usual) == pytest.approx(np.mean(kept), rel=0.05)
    assert np.all(usual > 0.0)
