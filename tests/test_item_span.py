"""Items that differ in fewer dimensions than they have features are fitted there, and the prior speaks for the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdmetric import Comparisons, PopulationMetric
from crowdmetric.evaluate import MODELS
from crowdmetric.fits.item_span import ItemSpan
from crowdmetric.simulate import simulate_crowd
from crowdmetric.solvers.priors import shape_penalty
from crowdmetric.symmetric import degrees_of_freedom, smat, svec
from crowdmetric.users.population_sums import Law

LAWS: dict[str, dict[str, Any]] = {
    "ridges from the evidence": {},
    "isotropic": {"ridge": 1.0},
    "free": {"covariance": "free", "ridge": 1.0},
    "item effects": {"item_effects": True},
    "symmetric": {"constraint": "symmetric", "ridge": 1.0},
}
each_law = pytest.mark.parametrize("options", LAWS.values(), ids=LAWS)


def turned(d: int, r: int, seed: int = 0) -> np.ndarray:
    """Return an orthonormal basis (d, r) of some dimensions."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, r)))[0]


def crowd_of(
    r: int, *, people: int = 60, answers: int = 5, items: int = 25, seed: int = 0
) -> tuple[np.ndarray, Comparisons]:
    """Return items (N, r) and answers."""
    crowd = simulate_crowd(r, None, None, users=people, comparisons=answers, seed=seed)
    X = crowd.items[:items]
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(items, 2, replace=False) for _ in range(people * answers)])
    users = np.repeat(np.arange(people), answers)
    near, far = (
        np.einsum("ti,ij,tj->t", z, crowd.metric, z)
        for z in (X[pairs[:, k]] - crowd.ideal_points[users] for k in (0, 1))
    )
    y = np.where(rng.random(users.size) < 1 / (1 + np.exp(far - near)), 1, -1)
    return X, Comparisons.from_arrays(users, pairs, y, n_items=items)


def fitted(X: np.ndarray, answers: Comparisons, **options: Any) -> PopulationMetric:
    return PopulationMetric(X, jobs=1, **options).fit(answers)


@each_law
@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
def test_features_that_say_nothing_change_nothing(options: dict[str, Any]) -> None:
    X, answers = crowd_of(2)
    Q, shift = turned(5, 2), np.arange(5.0)
    small, large = fitted(X, answers, **options), fitted(X @ Q.T + shift, answers, **options)
    # the same likelihood, the same metric on the span, the same number of parameters determined
    assert large.log_likelihood_ == pytest.approx(small.log_likelihood_, abs=1e-3)
    assert large.determined_ == pytest.approx(small.determined_, abs=1e-2)
    np.testing.assert_allclose(Q.T @ large.metric_ @ Q, small.metric_, rtol=0.02, atol=1e-3)
    np.testing.assert_allclose(
        Q.T @ large.pseudo_ideal_covariance_ @ Q, small.pseudo_ideal_covariance_, rtol=0.03, atol=1e-3
    )
    # and the prior outside it: a multiple of the identity of the same mean eigenvalue
    rest = np.linalg.svd(Q)[0][:, 2:]
    np.testing.assert_allclose(rest.T @ large.metric_ @ rest, large.scale_ * np.eye(3), atol=1e-9 * abs(large.scale_))
    np.testing.assert_allclose(rest.T @ large.metric_ @ Q, 0.0, atol=1e-9)
    assert "differ in 2 of 5 dimensions" in large.solution_.status
    assert "dimensions only" not in small.solution_.status
    # predictions are the same
    pairs = answers.pairs[:40]
    for who in (None, answers.user[:40]):
        np.testing.assert_allclose(large.predict_proba(pairs, who), small.predict_proba(pairs, who), atol=5e-3)


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
def test_isotropic_people_are_isotropic_in_all_features() -> None:
    X, answers = crowd_of(2)
    model = fitted(X @ turned(4, 2).T, answers, uncertainty=False)
    square = float(model.ideal_covariance_[0, 0])
    np.testing.assert_allclose(
        model.pseudo_ideal_covariance_, 4 * square * model.metric_ @ model.metric_, rtol=1e-8, atol=1e-9
    )


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
def test_what_is_evaluated_is_what_is_saved() -> None:
    X, answers = crowd_of(2)
    wide = X @ turned(4, 2).T
    saved, judged = fitted(wide, answers, uncertainty=False, starts=1), MODELS["population"].fit(wide, answers)
    # evaluated fits stop at 1e-6 nats per answer, before the last digits
    np.testing.assert_allclose(judged.estimator.metric_, saved.metric_, rtol=0.01, atol=2e-3)
    np.testing.assert_allclose(
        judged.probability(answers, answers), saved.predict_proba(answers.pairs, answers.user)[:, 1], atol=2e-3
    )


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
def test_a_rank_that_was_asked_for_is_kept() -> None:
    X, answers = crowd_of(2)
    model = fitted(X @ turned(4, 2).T, answers, rank=1, uncertainty=False, starts=1)
    assert np.linalg.matrix_rank(model.metric_, tol=1e-9 * np.linalg.norm(model.metric_)) == 1


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
def test_a_fit_goes_on_from_another_one() -> None:
    X, answers = crowd_of(2)
    model = PopulationMetric(X @ turned(4, 2).T, jobs=1, uncertainty=False, starts=1, warm_start=True).fit(answers)
    before = model.metric_.copy()
    np.testing.assert_allclose(model.fit(answers).metric_, before, rtol=0.05, atol=0.01)


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
def test_a_scan_is_reduced_as_well(tmp_path: Path) -> None:
    X, answers = crowd_of(2)
    wide = X @ turned(4, 2).T
    answers.write(tmp_path / "answers.parquet")
    scan = Comparisons.scan_parquet(tmp_path / "answers.parquet", n_items=len(X))
    on_disk = PopulationMetric(wide, jobs=1, uncertainty=False).fit(scan)
    np.testing.assert_allclose(on_disk.metric_, fitted(wide, answers, uncertainty=False).metric_, rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
def test_draws_and_errors_are_of_all_features() -> None:
    X, answers = crowd_of(2)
    Q = turned(4, 2)
    small, large = fitted(X, answers), fitted(X @ Q.T, answers)
    draws = smat(large.metric_draws_)
    # the same posterior on the span, drawn in other coordinates
    seen, expected = np.einsum("di,nde,ej->nij", Q, draws, Q), smat(small.metric_draws_)
    for level in (0.1, 0.5, 0.9):
        away = np.quantile(seen, level, axis=0) - np.quantile(expected, level, axis=0)
        assert np.all(np.abs(away) < 0.25 * expected.std(axis=0))
    # estimates are inside their own intervals, in directions that nothing is known of, too
    rest = np.linalg.svd(Q)[0][:, 2:]
    along = np.einsum("di,nde,ei->ni", rest, draws, rest)
    low, high = np.quantile(along, [0.05, 0.95], axis=0)
    assert np.all(low < large.scale_)
    assert np.all(large.scale_ < high)
    assert large.standard_errors_.shape == (4, 4)
    assert np.all(large.standard_errors_ > 0)
    assert large.scale_error_ == pytest.approx(small.scale_error_, rel=0.2)
    assert np.linalg.eigvalsh(large.symmetric_covariance_).min() > 0


# ------------------------------------------------------------------------------------------------------- the span


def test_the_span_ignores_rounding_and_keeps_small_features() -> None:
    X = np.random.default_rng(0).standard_normal((20, 4))
    X[:, 1] = X[:, 0] + 1e-14 * X[:, 1]
    X[:, 3] *= 1e-6
    assert ItemSpan.of(X - X.mean(axis=0)).d == 3
    assert ItemSpan.of(X[:, 2:] - X[:, 2:].mean(axis=0)).is_whole
    assert ItemSpan.of(np.zeros((3, 2))).is_whole  # nothing to compare: the fit says so


@pytest.mark.parametrize("free", [False, True])
def test_laws_round_trip_and_the_ridge_is_the_same(free: bool) -> None:
    rng, span = np.random.default_rng(1), ItemSpan(turned(5, 3))
    G, F = rng.standard_normal((2, 3, 3))
    M = G @ G.T
    law = Law(M, rng.standard_normal(3), F @ F.T if free else 1.7 * M @ M)
    outside = span.law_outside(law, free=free)
    again = span.law_inside(outside)
    for name in ("metric", "mean", "covariance"):
        np.testing.assert_allclose(getattr(again, name), getattr(law, name), atol=1e-12)
    small, large = (shape_penalty(svec(A), 2.0).value for A in (M, outside.metric))
    assert large == pytest.approx(small)
    if not free:
        np.testing.assert_allclose(outside.covariance, 1.7 * outside.metric @ outside.metric, atol=1e-10)
    items = rng.standard_normal((10, 3))
    wide = items @ span.basis.T
    for one, other in ((law, items), (outside, wide)):
        values = np.einsum("ni,ij,nj->n", other, one.metric, other) + other @ one.mean
        spread = np.einsum("ni,ij,nj->n", other, one.covariance, other)
        if other is items:
            expected = values, spread
    np.testing.assert_allclose(values, expected[0], atol=1e-10)
    np.testing.assert_allclose(spread, expected[1], atol=1e-10)


def test_draws_from_the_prior_stay_draws_from_the_prior() -> None:
    rng, span, n = np.random.default_rng(2), ItemSpan(np.eye(4)[:, :2]), 40_000
    # the part of a Wishart matrix of d squares that the span sees, at a fixed size
    G = rng.standard_normal((n, 2, 4))
    M = G @ G.transpose(0, 2, 1)
    M *= 2.0 / np.trace(M, axis1=1, axis2=2)[:, None, None]
    for psd in (True, False):
        draws = smat(span.draws_outside(svec(M), psd=psd))
        np.testing.assert_allclose(draws[:, :2, :2], M, atol=1e-10)
        np.testing.assert_allclose(draws.mean(axis=0), np.eye(4), atol=0.02)
        outside = draws[:, [2, 3, 2, 0, 1], [2, 3, 3, 2, 3]]
        np.testing.assert_allclose(outside.var(axis=0), [0.5, 0.5, 0.25, 0.25, 0.25], rtol=0.05)


def test_the_covariance_of_a_symmetric_fit_is_that_of_draws() -> None:
    rng, span = np.random.default_rng(3), ItemSpan(turned(4, 2))
    S, F = np.array([[2.0, 0.3], [0.3, 1.0]]), 0.05 * rng.standard_normal((3, 3))
    draws = rng.multivariate_normal(svec(S), F @ F.T, size=100_000)
    found = span.covariance_outside(S, F @ F.T)
    assert found.shape == (degrees_of_freedom(4),) * 2
    np.testing.assert_allclose(np.cov(span.draws_outside(draws, psd=False).T), found, atol=0.03)
