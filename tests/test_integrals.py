"""People integrated out, every way there is, against SciPy's adaptive quadrature; derivatives by finite differences."""

from __future__ import annotations

from dataclasses import fields
from itertools import product

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, ndtr
from scipy.stats import multivariate_normal, norm

from crowdmetric.losses import Logistic, Loss, Probit
from crowdmetric.users import line_kernels, propagation
from crowdmetric.users.adaptive_quadrature import by_sampling
from crowdmetric.users.integrals import (
    REACH,
    SIZES,
    Integral,
    evaluate_nodes,
    grid_of,
    information_of_answer,
    kernels,
    lines,
    loadings_of,
    mean_probability,
    on_grid,
    pieces,
    posterior_of,
    root_of,
)
from crowdmetric.users.propagation import propagate, propagated

LINKS = {"logistic": expit, "probit": ndtr}
LOSSES: dict[str, Loss] = {"logistic": Logistic(1.3), "probit": Probit(0.8)}
each_loss = pytest.mark.parametrize("name", LOSSES)
CLOSE = {"rtol": 0.02, "atol": 0.02}  # what expectation propagation promises, in nats and in derivatives of them


def people(P: int, m: int, q: int, seed: int = 0, spread: float = 1.0) -> tuple[np.ndarray, ...]:
    """Return a, E, S, y, weight: two full answers, a half and a padded one among those of each person."""
    rng = np.random.default_rng(seed)
    a, E = rng.standard_normal((P, m)), rng.standard_normal((P, m, q))
    G = rng.standard_normal((P, q, q + 1))
    S = spread**2 * G @ G.transpose(0, 2, 1) / q
    y = rng.choice([-1.0, 1.0], (P, m))
    weight = np.ones((P, m))
    if m > 2:
        weight[:, 1], weight[:, 2], y[:, 2] = 0.5, 0.0, 1.0
    return a, E, S, y, weight


def by_propagation(*arguments) -> Integral:
    return propagated(*arguments)[0]


def assert_same(one: Integral, other: Integral, **tolerance: float) -> None:
    for field in fields(Integral):
        np.testing.assert_allclose(
            getattr(one, field.name), getattr(other, field.name), **tolerance, err_msg=field.name
        )


def assert_same_likelihood(one: Integral, other: Integral, **tolerance: float) -> None:
    """Compare all but the precision, which is a Gaussian factor's where people are propagated and a mean elsewhere."""
    for name in ("value", "slope", "bend"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), **tolerance, err_msg=name)


def product_of_answers(name: str, psi: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    return float(np.prod(LINKS[name](LOSSES[name].beta * y * psi) ** weight))


# ---------------------------------------------------------------------------------------------- against SciPy


@each_loss
def test_a_line_is_integrated_as_scipy_does(name: str) -> None:
    a, E, S, y, weight = people(4, 3, 1, spread=1.5)
    ours = on_grid(a, E, S, y, weight, LOSSES[name])
    for k in range(4):
        s = np.sqrt(S[k, 0, 0])
        exact, _ = quad(
            lambda w, k=k, s=s: product_of_answers(name, a[k] + E[k, :, 0] * w, y[k], weight[k]) * norm.pdf(w, scale=s),
            -12 * s, 12 * s, epsabs=1e-13,
        )  # fmt: skip
        assert ours.value[k] == pytest.approx(np.log(exact), abs=1e-7)


@each_loss
def test_a_plane_is_integrated_as_scipy_does(name: str) -> None:
    a, E, S, y, weight = people(1, 3, 2, spread=1.0)
    law = multivariate_normal(cov=S[0])
    reach = 8.0 * np.sqrt(np.linalg.eigvalsh(S[0])[-1])
    exact, _ = dblquad(
        lambda v, u: product_of_answers(name, a[0] + E[0] @ [u, v], y[0], weight[0]) * law.pdf([u, v]),
        -reach, reach, -reach, reach, epsabs=1e-7,
    )  # fmt: skip
    assert on_grid(a, E, S, y, weight, LOSSES[name]).value[0] == pytest.approx(np.log(exact), abs=2e-6)


@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0])
def test_sharp_answers_get_finer_grids(spread: float) -> None:
    """A person whose ψ spreads over many widths of the noise: the grid must resolve a near step."""
    a, E, S, y, weight = people(3, 2, 1, seed=1, spread=spread)
    loss = Logistic(2.0)
    ours = on_grid(a, E, S, y, weight, loss)
    finer = on_grid(a, E, S, y, weight, loss, refine=2)
    assert_same(ours, finer, rtol=1e-6, atol=1e-6)
    for k in range(3):
        s = np.sqrt(S[k, 0, 0])
        steps = sorted(-a[k] / E[k, :, 0])  # where answers turn
        exact, _ = quad(
            lambda w, k=k, s=s: float(np.prod(expit(2.0 * y[k] * (a[k] + E[k, :, 0] * w)))) * norm.pdf(w, scale=s),
            -10 * s, 10 * s, points=steps, epsabs=1e-13, limit=400,
        )  # fmt: skip
        assert ours.value[k] == pytest.approx(np.log(exact), abs=1e-6)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_grids_hold_a_normal_law(q: int) -> None:
    grid = grid_of(q, SIZES[q][0])
    w = np.exp(grid.log_weights)
    assert w.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(w @ grid.nodes, np.zeros(q), atol=1e-14)
    np.testing.assert_allclose((grid.nodes * w[:, None]).T @ grid.nodes, np.eye(q), atol=1e-6)
    assert np.linalg.norm(grid.nodes, axis=1).max() <= REACH * (1 + 1e-12)


# ------------------------------------------------------------------------------------------------ derivatives

METHODS = {
    "grid": on_grid,
    "propagation": by_propagation,
}


@each_loss
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("m", "q"), [(1, 1), (4, 1), (2, 2), (5, 3)])
def test_slope_and_bend_by_finite_differences(name: str, method: str, m: int, q: int) -> None:
    a, E, S, y, weight = people(2, m, q, seed=2)
    integrate, loss, h = METHODS[method], LOSSES[name], 1e-4
    at = integrate(a, E, S, y, weight, loss)
    for i in range(m):
        step = np.zeros(m)
        step[i] = h
        up, down = (integrate(a + s * step, E, S, y, weight, loss).value for s in (1, -1))
        np.testing.assert_allclose(at.slope[:, i], (up - down) / (2 * h), atol=2e-5)
    for j, k in product(range(q), repeat=2):
        step = np.zeros((q, q))
        step[j, k] = step[k, j] = h
        up, down = (integrate(a, E, S + s * step, y, weight, loss).value for s in (1, -1))
        both = at.bend[:, j, k] + (at.bend[:, k, j] if j != k else 0.0)
        np.testing.assert_allclose(both, (up - down) / (2 * h), atol=2e-5)
    np.testing.assert_allclose(at.bend, at.bend.transpose(0, 2, 1), atol=1e-14)


# ------------------------------------------------------------------------------------------------ twins agree


@pytest.mark.parametrize(("m", "q", "nodes"), [(1, 1, 49), (5, 1, 49), (4, 2, 21), (4, 3, 17)])
def test_the_compiled_grid_is_the_numpy_grid(m: int, q: int, nodes: int) -> None:
    a, E, S, y, weight = people(6, m, q, seed=3)
    H, grid, loss = loadings_of(E, S), grid_of(q, nodes), Logistic(1.3)
    arguments = (grid.line, grid.places, grid.log_weights)
    compiled = Integral(*kernels("population").logistic_on_grid(a, E, H, y, weight, loss.beta, *arguments))
    assert_same(compiled, evaluate_nodes(a, E, H, y, weight, loss, grid), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("level", [0, 3, len(SIZES[1]) - 1])
@pytest.mark.parametrize("size", [0.0, 40.0, 100.0, 200.0, 450.0, 2000.0])
def test_the_compiled_line_is_the_numpy_line(level: int, size: float) -> None:
    """Also where exponentials overflow, alone or in products of several answers, for and against."""
    a, E, S, y, weight = people(40, 6, 1, seed=4)
    a += size * np.sign(np.random.default_rng(5).standard_normal(a.shape))
    weight[20:], y[30:] = 1.0, 1.0
    H, loss = loadings_of(E, S), Logistic(1.3)
    arguments = (loss.beta, np.full(40, level), *lines())
    compiled = Integral(*kernels("line").logistic_on_line(a, E, H, y, weight, *arguments))
    plain = evaluate_nodes(a, E, H, y, weight, loss, grid_of(1, SIZES[1][level]))
    assert_same(compiled, plain, rtol=1e-10, atol=1e-12)


def test_a_line_has_as_many_nodes_as_a_person_needs() -> None:
    """People whose ψ spreads ever more, none further from a fine grid than the promise."""
    a, E, S, y, weight = people(60, 8, 1, seed=6)
    S *= np.geomspace(0.01, 200.0, 60)[:, None, None]
    weight[:] = 1.0
    one, other = (on_grid(a, E, S, y, weight, Logistic(), refine=refine) for refine in (1, 3))
    np.testing.assert_allclose(one.value, other.value, atol=1e-6)
    np.testing.assert_allclose(one.slope, other.slope, atol=1e-6)


@pytest.mark.parametrize("size", [40.0, 200.0, 450.0, 2000.0])
def test_the_compiled_grid_survives_very_unlikely_answers(size: float) -> None:
    """Offsets whose exponentials overflow, alone and in products of several answers, for and against."""
    a, E, S, _, _ = people(4, 3, 1, seed=4)
    a = size * np.array([[1, 1, 1], [-1, -1, -1], [1, -1, 1], [-1, 0.1, 0.001]]) + a
    y, weight = np.ones((4, 3)), np.ones((4, 3))
    weight[3, 1] = 0.5
    H, grid, loss = loadings_of(E, S), grid_of(1, 49), Logistic(1.0)
    arguments = (grid.line, grid.places, grid.log_weights)
    compiled = Integral(*kernels("population").logistic_on_grid(a, E, H, y, weight, 1.0, *arguments))
    assert_same(compiled, evaluate_nodes(a, E, H, y, weight, loss, grid), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("m", "q"), [(1, 1), (5, 2), (12, 6), (4, 5)])
def test_the_compiled_propagation_is_the_numpy_one(m: int, q: int, monkeypatch: pytest.MonkeyPatch) -> None:
    a, E, S, y, weight = people(6, m, q, seed=5)
    loss = Logistic(1.3)
    usual = by_propagation(a, E, S, y, weight, loss)
    until = {"tolerance": 1e-11}  # both until rounding is left: they count sweeps differently
    slow = propagate(a, E, loadings_of(E, S), y, weight, loss, **until)[0]
    fast = propagated(a, E, S, y, weight, loss, **until)[0]
    roughly = propagated(a, E, S, y, weight, loss, tolerance=propagation.ROUGHLY)[0]
    monkeypatch.setattr(propagation, "OWN_FINENESS", 1e-9)  # never a shorter line than the law asks for
    assert_same(propagated(a, E, S, y, weight, loss, **until)[0], slow, rtol=1e-9, atol=1e-9)
    assert_same(fast, slow, rtol=1e-8, atol=1e-8)
    assert_same(usual, slow, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(usual.value, fast.value, rtol=1e-12)  # values are stationary in the factors
    assert_same(roughly, fast, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(roughly.value, fast.value, rtol=1e-9)


@pytest.mark.parametrize("spread", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("m", [2, 5])
def test_nobody_is_called_settled_too_early(m: int, spread: float) -> None:
    """What is left is about the tolerance for everybody; with the first sweep's rate it was 1e-6 for some people."""
    rng = np.random.default_rng(0)
    E, S = spread / np.sqrt(m) * rng.standard_normal((4000, m, m)), np.broadcast_to(np.eye(m), (4000, m, m)).copy()
    a, y, weight = spread * rng.standard_normal((4000, m)), rng.choice([-1.0, 1.0], (4000, m)), np.ones((4000, m))
    usual = by_propagation(a, E, S, y, weight, Logistic())
    until_the_end = propagated(a, E, S, y, weight, Logistic(), tolerance=1e-15)[0]
    assert_same(usual, until_the_end, rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("spread", [0.5, 3.0, 10.0, 30.0])
def test_a_line_for_each_cavity_is_fine_enough(spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    a, E, S, y, weight = people(10, 60, 3, seed=9, spread=spread)
    shorter = by_propagation(a, E, S, y, weight, Logistic())
    monkeypatch.setattr(propagation, "OWN_FINENESS", 0.2)
    monkeypatch.setattr(propagation, "CAVITY_FINENESS", 0.3)
    finer = by_propagation(a, E, S, y, weight, Logistic())
    np.testing.assert_allclose(shorter.value, finer.value, atol=2e-6)
    np.testing.assert_allclose(shorter.slope, finer.slope, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [40.0, 200.0, 2000.0])
def test_propagation_survives_very_unlikely_answers(size: float) -> None:
    a, E, S, y, weight = people(2, 3, 2, seed=6)
    a, y, weight = a - size, np.ones_like(y), np.ones_like(weight)
    ours, exact = by_propagation(a, E, S, y, weight, Logistic(1.0)), on_grid(a, E, S, y, weight, Logistic(1.0))
    assert_same(ours, exact, rtol=1e-3, atol=1e-3)


# ------------------------------------------------------------------------------------------- methods agree


@pytest.mark.parametrize("compiled", [True, False])
def test_propagation_of_somebody_out_of_reach(compiled: bool) -> None:
    """Steep answers that are all but impossible under the law, some of which contradict the others."""
    rng = np.random.default_rng(2)
    m, C, weight = 30, 20.0 * np.eye(2), np.ones((1, 30))
    E, a = rng.standard_normal((1, m, 2)), 120.0 * rng.standard_normal((1, m))
    y = np.sign(a + E @ C @ np.array([-6.0, -6.0]))
    y[:, ::6] *= -1.0
    if compiled:
        ours = by_propagation(a, E, (C @ C.T)[None], y, weight, Logistic(1.0))
    else:
        ours = propagate(a, E, E @ C, y, weight, Logistic(1.0))[0]

    def log_joint(t: np.ndarray) -> np.ndarray:
        z = y[0] * (a[0] + t @ (E[0] @ C).T)
        return -0.5 * np.sum(t * t, axis=-1) - np.log(2.0 * np.pi) - np.sum(np.logaddexp(0.0, -z), axis=-1)

    mode = minimize(lambda t: -log_joint(t), np.zeros(2)).x
    line = np.linspace(-2.0, 2.0, 801)
    values = log_joint(mode + np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1))
    exact = logsumexp(values) + 2.0 * np.log(line[1] - line[0])
    assert np.linalg.norm(mode) > REACH
    assert exact < -100.0
    assert ours.value[0] == pytest.approx(exact, abs=0.1)


@each_loss
@pytest.mark.parametrize(("m", "q"), [(3, 1), (4, 2), (5, 3)])
def test_propagation_is_close_to_a_grid(name: str, m: int, q: int) -> None:
    arguments = (*people(20, m, q, seed=7), LOSSES[name])
    approximate, exact = by_propagation(*arguments), on_grid(*arguments)
    assert_same_likelihood(approximate, exact, **CLOSE)
    np.testing.assert_allclose(approximate.precision, exact.precision, atol=0.1)  # two meanings, one size


@each_loss
def test_one_answer_is_propagated_exactly(name: str) -> None:
    """Nothing is approximated when nobody else's factor is in the way."""
    arguments = (*people(20, 1, 1, seed=8), LOSSES[name])
    propagated, exact = by_propagation(*arguments), on_grid(*arguments)
    np.testing.assert_allclose(propagated.value, exact.value, atol=5e-6)
    assert_same_likelihood(propagated, exact, atol=1e-4)


@pytest.mark.parametrize(("m", "q"), [(4, 3), (10, 6)])
def test_sampling_agrees_with_both(m: int, q: int) -> None:
    a, E, S, y, weight = people(6, m, q, seed=9)
    loss = Logistic(1.3)
    guess = by_propagation(a, E, S, y, weight, loss)
    sampled = by_sampling(a, E, loadings_of(E, S), y, weight, loss, guess, points=1 << 13)
    assert_same_likelihood(guess, sampled, **CLOSE)
    if q <= 3:
        assert_same(on_grid(a, E, S, y, weight, loss), sampled, rtol=2e-3, atol=2e-3)


@each_loss
@pytest.mark.parametrize("method", METHODS)
def test_a_weight_of_two_is_an_answer_said_twice(name: str, method: str) -> None:
    a, E, S, y, weight = people(4, 1, 1, seed=10)
    integrate, loss = METHODS[method], LOSSES[name]
    heavy = integrate(a, E, S, y, 2.0 * weight, loss)
    twice = integrate(
        *(np.repeat(x, 2, axis=1) for x in (a, E)), S, *(np.repeat(x, 2, axis=1) for x in (y, weight)), loss
    )
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if method == "grid" else CLOSE
    np.testing.assert_allclose(heavy.value, twice.value, **tolerance)
    np.testing.assert_allclose(heavy.slope[:, 0], twice.slope.sum(axis=1), **tolerance)
    np.testing.assert_allclose(heavy.bend, twice.bend, **tolerance)


@each_loss
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("m", "q"), [(3, 1), (4, 2), (5, 3)])
def test_precisions_are_those_of_the_likelihood(name: str, method: str, m: int, q: int) -> None:
    """Never negative, none for padding; with S = 0 those of the answers themselves."""
    a, E, S, y, weight = people(20, m, q, seed=13)
    loss = LOSSES[name]
    precision = METHODS[method](a, E, S, y, weight, loss).precision
    assert np.all(precision >= 0.0)
    assert np.all(precision[:, 2] == 0.0)
    assert np.all(precision[:, :2] > 0.0)
    known = METHODS[method](a, E, 0.0 * S, y, weight, loss).precision
    np.testing.assert_allclose(known, weight * loss.curvature(a, y), atol=1e-9)


@each_loss
def test_precisions_of_factors_tell_what_answers_say(name: str) -> None:
    """``Eᵀ R E = λλᵀ − 2 bend`` with ``R = diag(τ) − diag(τ) E Cov(w | y) Eᵀ diag(τ)``."""
    a, E, S, y, weight = people(5, 6, 3, seed=14)
    ours = by_propagation(a, E, S, y, weight, LOSSES[name])
    identity = np.broadcast_to(np.eye(3), S.shape)
    covariance = np.stack([posterior_of(ours, identity, E, np.zeros(3), S[k])[1][k] for k in range(5)])
    R = ours.precision[:, :, None] * (
        np.eye(6) - E @ covariance @ E.transpose(0, 2, 1) * ours.precision[:, None, :]
    )  # fmt: skip
    pull = np.einsum("pmq,pm->pq", E, ours.slope)
    expected = pull[:, :, None] * pull[:, None, :] - 2.0 * ours.bend
    np.testing.assert_allclose(E.transpose(0, 2, 1) @ R @ E, expected, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_a_half_answer_each_way_leaves_the_mean_where_it_is(method: str) -> None:
    a, E, S = np.zeros((1, 2)), np.ones((1, 2, 1)), np.full((1, 1, 1), 2.0)
    tie = METHODS[method](a, E, S, np.array([[1.0, -1.0]]), np.full((1, 2), 0.5), Logistic(1.0))
    assert tie.slope.sum() == pytest.approx(0.0, abs=1e-9)
    assert tie.bend[0, 0, 0] < 0.0  # and says that the person is undecided


@each_loss
@pytest.mark.parametrize("method", METHODS)
def test_padding_says_nothing(name: str, method: str) -> None:
    a, E, S, y, weight = people(3, 2, 2, seed=11)
    integrate, loss = METHODS[method], LOSSES[name]
    plain = integrate(a, E, S, y, weight, loss)
    padded = integrate(
        np.pad(a, [(0, 0), (0, 2)], constant_values=3.0), np.pad(E, [(0, 0), (0, 2), (0, 0)], constant_values=0.7), S,
        np.pad(y, [(0, 0), (0, 2)], constant_values=1.0), np.pad(weight, [(0, 0), (0, 2)]), loss,
    )  # fmt: skip
    # the spread of a padded ψ may ask for a finer grid, and a sweep settles with the slowest person
    np.testing.assert_allclose(padded.value, plain.value, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(padded.slope[:, :2], plain.slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(padded.slope[:, 2:], 0.0, atol=1e-12)
    np.testing.assert_allclose(padded.bend, plain.bend, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_population_of_one_place_needs_no_integral(method: str) -> None:
    """S = 0: the likelihood is the product of the answers, and the bend is still its derivative."""
    a, E, _, y, weight = people(3, 3, 2, seed=12)
    S = np.zeros((3, 2, 2))
    loss = Logistic(1.3)
    known = METHODS[method](a, E, S, y, weight, loss)
    np.testing.assert_allclose(known.value, -np.sum(weight * loss.value(a, y), axis=1), atol=1e-9)
    np.testing.assert_allclose(known.slope, -weight * loss.slope(a, y), atol=1e-9)
    h = -weight * loss.slope(a, y)
    u = np.einsum("pmq,pm->pq", E, h)
    curvature = np.einsum("pmi,pm,pmj->pij", E, weight * loss.curvature(a, y), E)
    np.testing.assert_allclose(known.bend, 0.5 * (u[:, :, None] * u[:, None, :] - curvature), atol=1e-9)


def test_roots_of_singular_covariances() -> None:
    rng = np.random.default_rng(0)
    G = rng.standard_normal((5, 4, 2))
    S = G @ G.transpose(0, 2, 1)
    C = root_of(S)
    np.testing.assert_allclose(C @ C.transpose(0, 2, 1), S, atol=1e-6)
    assert np.all(C[:, *np.triu_indices(4, 1)] == 0.0)
    full = S + np.eye(4)
    np.testing.assert_allclose(root_of(full), np.linalg.cholesky(full), atol=1e-12)
    assert np.all(root_of(np.zeros((1, 3, 3))) == 0.0)


# ------------------------------------------------------------------------------------------ where people stand


@each_loss
def test_posterior_against_brute_force(name: str) -> None:
    """E[v | y] and Cov[v | y] on a fine grid of all of R², for one answer (a line) and for two (the plane)."""
    rng = np.random.default_rng(0)
    mu, Sigma = np.array([0.3, -0.5]), np.array([[1.5, 0.4], [0.4, 0.8]])
    line = np.linspace(-9.0, 9.0, 401)
    v = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    prior = multivariate_normal(mu, Sigma).pdf(v)
    for m in (1, 2):
        delta, c, y = rng.standard_normal((m, 2)), rng.standard_normal(m), rng.choice([-1.0, 1.0], m)
        weight = np.ones(m)
        share = prior * np.prod(LINKS[name](LOSSES[name].beta * y * (c + v @ delta.T)), axis=1)
        share /= share.sum()
        mean = share @ v
        covariance = (v * share[:, None]).T @ v - np.outer(mean, mean)
        B, E = delta[None], np.eye(m)[None]
        a, S = (c + delta @ mu)[None], B @ Sigma @ B.transpose(0, 2, 1)
        integral = on_grid(a, E, S, y[None], weight[None], LOSSES[name])
        ours = posterior_of(integral, B, E, mu, Sigma)
        np.testing.assert_allclose(ours[0][0], mean, atol=1e-5)
        np.testing.assert_allclose(ours[1][0], covariance, atol=1e-5)


@each_loss
def test_mean_probability_as_scipy_has_it(name: str) -> None:
    rng = np.random.default_rng(0)
    psi, variance = 2.0 * rng.standard_normal(7), np.array([0.0, 0.1, 1.0, 4.0, 25.0, 400.0, 4000.0])
    ours = mean_probability(psi, variance, LOSSES[name])
    assert ours[0] == pytest.approx(LOSSES[name].probability(psi[:1])[0])
    for k in range(1, 7):
        s = np.sqrt(variance[k])
        exact, _ = quad(
            lambda z, k=k, s=s: float(LINKS[name](LOSSES[name].beta * (psi[k] + s * z))) * norm.pdf(z),
            -10, 10, points=[-psi[k] / s], epsabs=1e-12, limit=200,
        )  # fmt: skip
        assert ours[k] == pytest.approx(exact, abs=2e-7)
    assert mean_probability(np.zeros(0), np.zeros(0), LOSSES[name]).shape == (0,)


@pytest.mark.parametrize("name", LOSSES)
def test_certainty_is_never_more_than_certain(name: str) -> None:
    variance = np.linspace(0.0, 400.0, 81)
    for v in variance:  # each has a grid of its own, whose weights sum to one but for rounding
        p = mean_probability(np.array([-900.0, 900.0]), np.array([v, v]), LOSSES[name])
        assert np.all((p >= 0.0) & (p <= 1.0))
        assert np.all(np.isfinite(information_of_answer(np.array([-900.0, 900.0]), np.array([v, v]), LOSSES[name])))


@pytest.mark.parametrize("name", LOSSES)
def test_people_taken_in_pieces_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fine grids of many people are split, lest they fill the memory."""
    a, E, S, y, weight = people(30, 2, 1, seed=9)
    S = S * np.geomspace(1.0, 1e4, 30)[:, None, None]
    loss = LOSSES[name]
    whole = [on_grid(a, E, S, y, weight, loss, refine=2), propagate(a, E, loadings_of(E, S), y, weight, loss)[0]]
    monkeypatch.setattr("crowdmetric.users.integrals.FEWEST_NUMBERS", 1)
    monkeypatch.setattr("crowdmetric.users.integrals.USUAL_NODES", 20)
    sizes = [chosen.size for chosen in pieces(np.arange(30), grid_of(1, 100), 30)]
    assert sizes == [6] * 5
    split = [on_grid(a, E, S, y, weight, loss, refine=2), propagate(a, E, loadings_of(E, S), y, weight, loss)[0]]
    for one, other in zip(whole, split, strict=True):
        assert_same(one, other, rtol=1e-12, atol=1e-12)


def test_the_series_of_a_wide_cavity_is_the_integral_over_the_noise() -> None:
    room, line = np.empty(8), np.ones(8)
    nodes, masses = line_kernels._noise_rule(60)
    for K in (line_kernels.VERY_WIDE, 60.0):
        for z0 in np.linspace(-K, K, 9) / line_kernels.SHARE:
            z = z0 - nodes / K
            below, density = masses @ norm.cdf(z), masses @ norm.pdf(z)
            first, second = density / below / K, -(masses @ (z * norm.pdf(z))) / below / K**2
            ours = np.array(line_kernels.tilted(z0 * K, K * K, 1.0, 1.0, 0, line, room))
            np.testing.assert_allclose(ours, [np.log(below), first, second - first**2], rtol=1e-10, atol=1e-15)
