"""The Huber solver against certified answers, other solvers and its own certificate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor

from crowdmetric.bounded.huber import HuberResult, solve_huber, solve_huber_stack
from crowdmetric.bounded.subspace_map import DenseRows, gram
from crowdmetric.symmetric import smat

GOLDEN = Path(__file__).parents[2] / "shared" / "golden"
CASES = [1, 2, 3, 4, 5, 6]


def load(case: int):
    path = GOLDEN / f"stage2_{case:02}.npz"
    if not path.exists():
        pytest.skip(f"no {path.name} beside the project")
    return np.load(path)


def every_entry(bases: np.ndarray) -> np.ndarray:
    """All r² rows of every subspace, in svec coordinates, written apart from the library."""
    d = bases.shape[1]
    i, j = np.triu_indices(d)
    outer = np.einsum("nia,njb->nabij", bases, bases)
    outer = 0.5 * (outer + np.swapaxes(outer, -1, -2))
    scale = np.where(i == j, 1.0, np.sqrt(2.0))
    return (outer[..., i, j] * scale).reshape(-1, i.size)


def objective(X, q, a, sigma, *, epsilon=1.35, alpha=1e-4, m=1.0) -> float:
    """The formula of the objective at a given scale."""
    z = np.abs(X @ a - q) / sigma
    h = np.where(z < epsilon, z * z, 2.0 * epsilon * z - epsilon**2)
    return float(np.sum(m * (sigma + h * sigma)) + alpha * a @ a)


def problem(n: int, p: int, seed: int, df: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X @ rng.standard_normal(p) + rng.standard_t(df, n)


def solve(X, q, m=None, **options) -> HuberResult:
    """Solve with rows and targets as a person would write them; the solver wants them times √m."""
    root = np.ones(len(q)) if m is None else np.sqrt(m)
    return solve_huber(DenseRows(X * root[:, None]), q * root, m, **options)


@pytest.mark.parametrize("case", CASES)
def test_golden(case: int) -> None:
    g = load(case)
    X, q = every_entry(g["bases"]), g["Q_hat"].reshape(-1)
    result = solve(X, q)
    exact = float(g["huber_exact_objective"])
    assert result.converged
    assert result.objective <= exact * (1.0 + 1e-9)
    # the bound may not exceed what another solver has reached
    assert result.objective - result.gap <= exact * (1.0 + 1e-12)
    error = np.linalg.norm(smat(result.coefficients) - g["huber_exact"]) / np.linalg.norm(g["huber_exact"])
    assert error < 1e-6
    assert result.sigma == pytest.approx(float(g["huber_exact_sigma"]), rel=1e-4, abs=1e-9)


@pytest.mark.filterwarnings("ignore:lbfgs failed")  # where it stops short is the point
@pytest.mark.parametrize(("n", "p", "df"), [(60, 5, 1.5), (60, 5, 30.0), (80, 55, 2.0), (200, 20, 1.0), (30, 40, 2.0)])
def test_never_above_scikit_learn(n: int, p: int, df: float) -> None:
    X, q = problem(n, p, seed=n + p, df=df)
    theirs = HuberRegressor(fit_intercept=False, max_iter=100).fit(X, q)
    ours = solve(X, q)
    reached = objective(X, q, theirs.coef_, theirs.scale_)
    assert ours.converged
    assert ours.objective <= reached * (1.0 + 1e-10)
    if ours.sigma > 1e-3:
        np.testing.assert_allclose(ours.coefficients, theirs.coef_, atol=1e-3)
        assert ours.objective == pytest.approx(objective(X, q, ours.coefficients, ours.sigma), rel=1e-9)


def test_no_scale_is_better_than_the_one_returned() -> None:
    X, q = problem(100, 8, seed=1)
    result = solve(X, q)
    for factor in (0.5, 0.99, 1.01, 2.0):
        assert objective(X, q, result.coefficients, factor * result.sigma) > result.objective


@pytest.mark.parametrize("epsilon", [1.05, 1.35, 2.0])
def test_the_gradient_vanishes(epsilon: float) -> None:
    X, q = problem(100, 8, seed=2)
    result = solve(X, q, epsilon=epsilon, alpha=0.1, tolerance=1e-13)
    assert result.sigma > 0.0
    z = np.clip((X @ result.coefficients - q) / result.sigma, -epsilon, epsilon)
    np.testing.assert_allclose(2.0 * X.T @ z + 0.2 * result.coefficients, 0.0, atol=1e-4)


@pytest.mark.parametrize(("p", "exact"), [(25, 24), (12, 32)])
def test_a_collapsed_scale_is_least_absolute_deviations(p: int, exact: int) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    X, q = problem(40, p, seed=3)
    a_true = np.random.default_rng(9).standard_normal(p)
    q[:exact] = X[:exact] @ a_true
    a = cvxpy.Variable(p)
    lad = cvxpy.Problem(cvxpy.Minimize(2.7 * cvxpy.norm1(X @ a - q) + 1e-4 * cvxpy.sum_squares(a)))
    lad.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    result = solve(X, q)
    assert result.sigma == 0.0
    assert "collapsed" in result.status
    assert result.objective == pytest.approx(lad.value, rel=1e-8)
    np.testing.assert_allclose(result.coefficients, a.value, atol=1e-5)


def test_multiplicity_is_repetition() -> None:
    X, q = problem(50, 6, seed=4)
    m = np.random.default_rng(4).integers(1, 4, 50)
    once, often = solve(X, q, m.astype(float)), solve(np.repeat(X, m, axis=0), np.repeat(q, m))
    assert once.objective == pytest.approx(often.objective, rel=1e-9)
    np.testing.assert_allclose(once.coefficients, often.coefficients, atol=1e-5)
    assert once.objective == pytest.approx(objective(X, q, once.coefficients, once.sigma, m=m), rel=1e-9)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_the_targets_does_not_matter(unit: float) -> None:
    X, q = problem(50, 6, seed=5)
    one, other = solve(X, q), solve(X, unit * q, alpha=1e-4 / unit)
    np.testing.assert_allclose(other.coefficients / unit, one.coefficients, rtol=1e-5)
    assert other.sigma / unit == pytest.approx(one.sigma, rel=1e-5)


@pytest.mark.parametrize("seed", range(30))
def test_hard_problems_are_certified(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(1, 90)), int(rng.integers(1, 50))
    X = rng.standard_normal((n, p))
    if seed % 3 == 0:
        X[n // 2 :] = X[: n - n // 2]  # repeated rows: rank-deficient
    q = X @ rng.standard_normal(p) + (seed % 4) * rng.standard_cauchy(n)  # every fourth is exact
    result = solve(X, q)
    assert result.converged, result.status
    assert result.gap >= 0.0


def test_no_signal_at_all() -> None:
    X, _ = problem(10, 3, seed=6)
    result = solve(X, np.zeros(10))
    assert result.converged
    assert result.objective == result.sigma == 0.0
    np.testing.assert_array_equal(result.coefficients, 0.0)


def test_stopping_short_is_said() -> None:
    X, q = problem(150, 30, seed=7)
    result = solve(X, q, max_iterations=2, tolerance=1e-12)
    assert not result.converged
    assert result.iterations == 2
    assert "stopped after 2 iterations" in result.status
    assert np.isfinite(result.objective)
    assert result.objective - result.gap <= solve(X, q).objective


@pytest.mark.parametrize(("n", "p"), [(30, 6), (12, 12), (8, 20)])
def test_a_stack_is_its_problems_one_by_one(n: int, p: int) -> None:
    """Easy, exact and empty problems end at different iterations and must not disturb each other."""
    X, q = (np.stack(part) for part in zip(*(problem(n, p, seed) for seed in range(5)), strict=True))
    q[1] = X[1] @ np.ones(p)  # fitted exactly: the scale collapses
    q[2] = 0.0
    m = np.where(np.arange(n) % 3 == 0, 2.0, 1.0)
    root = np.sqrt(m)
    for k, result in enumerate(solve_huber_stack(DenseRows(X * root[:, None]), q * root, m)):
        alone = solve(X[k], q[k], m)
        assert result.converged
        np.testing.assert_allclose(result.coefficients, alone.coefficients, atol=1e-9)
        np.testing.assert_allclose(result.objective, alone.objective, rtol=1e-9, atol=1e-12)
        assert result.iterations == alone.iterations


def test_gram_of_blocks_is_gram_of_the_matrix() -> None:
    X, w = problem(20, 5, seed=8)

    class InBlocks(DenseRows):
        def blocks(self):
            for start in range(0, 20, 6):
                part = slice(start, min(start + 6, 20))
                yield part, self.X[part]

    np.testing.assert_allclose(gram(InBlocks(X), w**2), X.T @ (w[:, None] ** 2 * X), atol=1e-12)
    np.testing.assert_allclose(gram(InBlocks(X)), X.T @ X, atol=1e-12)
