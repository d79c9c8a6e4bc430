"""Draws of metrics by Hamiltonian Monte Carlo: gradients, known densities, and sizes that are not biased."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from crowdmetric import SimilarityMetric
from crowdmetric.intervals import distances
from crowdmetric.similarity.cone_step import ConeStep
from crowdmetric.similarity.likelihood import AnswerModel
from crowdmetric.similarity.metric_draws import ExpandedJudgements, JudgementLikelihood, draw_judged
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.pair_choices import questions_of
from crowdmetric.similarity.structures import Full
from crowdmetric.simulate_judgements import simulate_judgements
from crowdmetric.solvers.hamiltonian import draw_along
from crowdmetric.solvers.shape_draws import GaussianLikelihood, ShapedDensity, SizedLikelihood, draw_shaped
from crowdmetric.symmetric import degrees_of_freedom, svec


def judged(d: int) -> tuple[JudgementLikelihood, np.ndarray]:
    study = simulate_judgements(20, d, 400, kind="odd_one_out", seed=d)
    objective = SimilarityObjective(study.items, questions_of([study.judgements]), AnswerModel(), Full(d))
    return JudgementLikelihood(objective), svec(study.metric)


def likelihoods(d: int) -> list[tuple[SizedLikelihood, np.ndarray]]:
    """Return every likelihood of size and shape, and a metric near its optimum."""
    rng = np.random.default_rng(d)
    p = degrees_of_freedom(d)
    A, G = rng.standard_normal((d, d)), rng.standard_normal((p, p))
    exact, m = judged(d)
    density, start = ShapedDensity.near(exact, m)
    expanded = ExpandedJudgements.around(exact, float(start[0]), density.space.shapes(start[None, 1:])[0])
    return [(GaussianLikelihood(svec(A @ A.T), G @ G.T), svec(A @ A.T)), (exact, m), (expanded, m)]


@pytest.mark.parametrize("d", [1, 2, 4])
def test_gradients_are_those_of_finite_differences(d: int) -> None:
    rng = np.random.default_rng(0)
    for likelihood, m in likelihoods(d):
        density, x = ShapedDensity.near(likelihood, m)
        x = x + 0.02 * rng.standard_normal(x.size)
        way, h = rng.standard_normal(x.size), 1e-6
        above, below = density((x + h * way)[None])[0], density((x - h * way)[None])[0]
        np.testing.assert_allclose((above - below) / (2.0 * h), density(x[None])[1] @ way, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("d", [2, 4])
def test_the_expansion_is_exact_in_the_size_and_to_first_order_in_the_shape(d: int) -> None:
    exact, m = judged(d)
    density, start = ShapedDensity.near(exact, m)
    shape = density.space.shapes(start[None, 1:])[0]
    expanded = ExpandedJudgements.around(exact, float(start[0]), shape)
    sizes = np.linspace(expanded.sizes[1], expanded.sizes[-2], 6)
    same = np.tile(shape, (6, 1))
    for ours, theirs in zip(expanded(sizes, same), exact(sizes, same), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.02 * np.abs(theirs).max())
    assert expanded(np.array([expanded.sizes[-1] + 0.1]), same[:1])[0] == -np.inf


def test_the_mode_has_no_slope_but_along_the_length_of_the_factor() -> None:
    for likelihood, m in likelihoods(4):
        density, start = ShapedDensity.near(likelihood, m)
        mode = density.mode(start)
        slope = density(mode[None])[1][0]
        slope[1:] -= mode[1:] * (slope[1:] @ mode[1:]) / (mode[1:] @ mode[1:])
        assert slope @ np.linalg.solve(density.curvature(mode), slope) < 1.0
        assert density(mode[None])[0] >= density(density._typical(start)[None])[0]


def test_draws_from_a_gaussian_have_its_law_whatever_the_guess() -> None:
    rng = np.random.default_rng(0)
    n = 30
    G = rng.standard_normal((n, 2 * n))
    covariance, mean = G @ G.T / n, rng.standard_normal(n)
    precision = np.linalg.inv(covariance)

    def density(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pull = (mean - x) @ precision
        return -0.5 * np.einsum("cn,cn->c", pull, mean - x), pull

    for guess in (covariance, 0.1 * covariance, 10.0 * covariance):
        draws = draw_along(density, mean, guess, 1000)
        assert draws.shape == (1000, n)
        white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
        p_values = [kstest(row, "norm").pvalue for row in white]
        assert min(p_values) > 1e-4 / n
        assert abs(np.mean(white**2) - 1.0) < 0.05
    wrong = 400.0 * covariance  # the guess is 20 times too wide
    assert draw_along(density, mean, wrong, 10, least_step=0.1).shape == (0, n)
    assert draw_along(density, mean, wrong, 10).shape == (10, n)


def test_intervals_are_not_biased_where_parameters_are_many_and_answers_sharp() -> None:
    """With a likelihood taken as Gaussian in M, hardly half of these intervals held the true distances."""
    inside = []
    for seed in range(4):
        study = simulate_judgements(60, 10, 3_000, seed=seed)
        model = SimilarityMetric(study.items, structure="full").fit(study.judgements)
        pairs = np.random.default_rng(seed).integers(0, 60, (100, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        step = study.items[pairs[:, 0]] - study.items[pairs[:, 1]]
        truth = np.sqrt(np.einsum("pd,de,pe->p", step, study.metric, step))
        inside.append(distances(model, pairs).contains(truth).mean())
    assert np.mean(inside) > 0.75


@pytest.mark.parametrize(("copies", "answers", "beta"), [(3, 3_000, 1.0), (0, 600, 4.0)])
def test_draws_from_the_expansion_have_the_law_of_draws_from_the_likelihood(
    copies: int, answers: int, beta: float
) -> None:
    """Features that are all but copies leave most of the trace unseen; sharp answers put the mode far from the mean."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6)) / np.sqrt(6.0)
    X[:, :copies] = X[:, 3 : 3 + copies] + 0.03 * X[:, :copies]
    study = simulate_judgements(X, None, answers, metric=np.eye(6), beta=beta, seed=0)
    objective = SimilarityObjective(X, questions_of([study.judgements]), AnswerModel(), Full(6))
    estimate = svec(study.metric)
    found = draw_judged(objective, estimate).draws
    density, start = ShapedDensity.near(JudgementLikelihood(objective), estimate)
    theirs = draw_shaped(density, density.mode(start), seed=1)
    seen = X[rng.integers(0, 60, (40, 2))]
    delta = (seen[:, 0] - seen[:, 1]) / np.linalg.norm(seen[:, 0] - seen[:, 1] + 1e-12, axis=1)[:, None]
    forms = np.vstack([svec(delta[:, :, None] * delta[:, None, :]), svec(np.eye(6))])
    ours, exact = np.log(found @ forms.T + 1e-12), np.log(theirs @ forms.T + 1e-12)
    deviation = exact.std(axis=0)
    assert np.abs((ours.mean(axis=0) - exact.mean(axis=0)) / deviation).max() < 0.5
    assert 0.8 < np.median(ours.std(axis=0) / deviation) < 1.25


def test_a_step_in_the_cone_is_found_also_beside_a_very_strong_ridge() -> None:
    structure = Full(6)
    on_diagonal = svec(np.eye(6)) > 0.0
    H = np.diag(np.where(on_diagonal, 1.0, 1e6))
    pulled = np.where(on_diagonal, np.linspace(-3.0, 3.0, on_diagonal.size), 0.0)
    x = ConeStep(structure, np.eye(6)).solve(np.zeros(on_diagonal.size), -pulled, H, 1e-6)
    np.testing.assert_allclose(x, np.maximum(pulled, 0.0), atol=1e-4)
