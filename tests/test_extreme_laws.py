"""Integrals over people under extreme laws: never a likelihood above one, never far from slow independent integrals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from crowdmetric.losses import Logistic, Loss, Probit
from crowdmetric.users.adaptive_quadrature import along_line, around_modes, line_of
from crowdmetric.users.integrals import Integral, kernels, lines, loadings_of
from crowdmetric.users.integration import Way, integrate_people, is_possible
from crowdmetric.users.propagation import CAVITY_SIZES, _tilted, propagate, propagated

Array = NDArray[np.float64]
People = tuple[Array, Array, Array, Array, Array]
LOSSES: dict[str, Loss] = {"logistic": Logistic(1.3), "probit": Probit(0.8)}
KINDS = ("random", "unanimous", "contradictory", "repeated")
VARIANCES = (1e-12, 1.0, 1e4, 1e8, 1e12)


def people(kind: str, variance: float, offset: float, m: int, q: int, weights: tuple[float, ...], seed: int) -> People:
    """Return a, E, S, y, weight of three people."""
    rng, P = np.random.default_rng(seed), 3
    E, a = rng.standard_normal((P, m, q)), offset * rng.standard_normal((P, m))
    y = rng.choice([-1.0, 1.0], (P, m))
    if kind in ("contradictory", "repeated"):  # a few questions again and again
        few = np.arange(m) % q
        E, a = E[:, few], a[:, few]
        y = y[:, few] if kind == "repeated" else y
    if kind == "unanimous":
        y[:] = 1.0
    G = rng.standard_normal((P, q, q))
    S = variance * (G @ G.transpose(0, 2, 1) / q + 0.1 * np.eye(q))
    weight = rng.choice(weights, (P, m))
    return a, E, S, np.where(weight > 0, y, 1.0), weight


def cases() -> Iterator[tuple[str, float, float, int, int, tuple[float, ...]]]:
    """Yield kinds of people: everything crossed where answers are few, some of it where they are many."""
    every = (0.0, 0.5, 1.0, 2.0, 1000.0)
    for kind, variance, offset in product(KINDS, VARIANCES, (0.0, 1.0, 1e3, 1e6)):
        for m, q in ((1, 1), (5, 1), (3, 2), (8, 3), (12, 6)):
            yield kind, variance, offset, m, q, every
    for kind, variance in product(KINDS, VARIANCES):
        yield kind, variance, 1.0, 200, 3, (1.0,)
        yield kind, variance, 0.0, 2000, 2, (1.0,)
        yield kind, variance, 1.0, 2000, 1, (1.0,)


# ------------------------------------------------------------------------------------------------ invariants


def test_no_likelihood_exceeds_one_under_any_law() -> None:
    for seed, case in enumerate(cases()):
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            ours, _ = integrate_people(*people(*case, seed), Logistic(1.0), largest_grid=1)
        assert np.all(is_possible(ours)), case
        assert np.all(ours.value <= 0.0), case
        np.testing.assert_array_equal(ours.bend, ours.bend.transpose(0, 2, 1), err_msg=str(case))


@pytest.mark.parametrize("name", LOSSES)
def test_nor_in_numpy_or_on_grids(name: str) -> None:
    for seed, (kind, variance) in enumerate(product(KINDS, VARIANCES)):
        for m, q in ((5, 1), (3, 2)):
            for grid in (1, 2):
                some = people(kind, variance, 1.0, m, q, (0.0, 0.5, 1.0, 2.0), seed)
                ours, _ = integrate_people(*some, LOSSES[name], grid)
                assert np.all(is_possible(ours) & (ours.value <= 0.0)), (kind, variance, m, q, grid)


@pytest.mark.parametrize("spread", [1.0, 30.0, 1e3])
def test_propagation_seldom_needs_help(spread: float) -> None:
    """Crowds that follow the model, however far apart people are: nobody is integrated in another way."""
    rng = np.random.default_rng(0)
    P, m, d = 300, 6, 4
    E, a = rng.standard_normal((P, m, d)), spread * rng.standard_normal((P, m))
    psi = a + spread * np.einsum("pmd,pd->pm", E, rng.standard_normal((P, d)))
    y = np.sign(psi + rng.logistic(size=psi.shape))
    S = np.broadcast_to(spread**2 * np.eye(d), (P, d, d)).copy()
    _, ways = integrate_people(a, E, S, y, np.ones((P, m)), Logistic(1.0))
    assert np.all(ways == Way.USUAL)


def test_who_has_not_settled_is_integrated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    some = people("random", 4.0, 1.0, 6, 3, (1.0,), 1)
    plain, ways = integrate_people(*some, Logistic(1.0), 1)
    assert np.all(ways == Way.USUAL)
    monkeypatch.setattr("crowdmetric.users.propagation.ROUNDS", 1)
    assert not np.any(propagated(*some, Logistic(1.0))[1])
    damped, ways = integrate_people(*some, Logistic(1.0), 1)
    assert np.all(ways == Way.DAMPED)
    np.testing.assert_allclose(damped.value, plain.value, atol=1e-9)
    np.testing.assert_allclose(damped.slope, plain.slope, atol=1e-6)
    monkeypatch.setattr("crowdmetric.users.propagation.DAMPED_ROUNDS", 1)
    placed, ways = integrate_people(*some, Logistic(1.0), 1)
    assert np.all(ways == Way.PLACED)
    np.testing.assert_allclose(placed.value, plain.value, atol=0.02)
    np.testing.assert_allclose(placed.slope, plain.slope, atol=0.02)


def test_an_impossible_integral_is_noticed() -> None:
    ours, _ = integrate_people(*people("random", 1.0, 1.0, 4, 2, (1.0,), 0), Logistic(1.0), 1)
    for field, wrong in (("value", 1e-3), ("value", np.nan), ("slope", np.inf), ("bend", np.nan), ("precision", -1.0)):
        spoiled = {name: getattr(ours, name).copy() for name in ("value", "slope", "bend", "precision")}
        spoiled[field][0] = wrong
        np.testing.assert_array_equal(is_possible(Integral(**spoiled)), [False, True, True])


# ------------------------------------------------------------------------------------------------ exactness


def exact_on_line(a: Array, h: Array, y: Array, weight: Array) -> float:
    """Return the log-likelihood of logistic answers along a line, by SciPy's adaptive rule around the peak."""

    def log_joint(t: Array) -> Array:
        z = y * (a + np.multiply.outer(t, h))
        return -0.5 * np.square(t) - np.logaddexp(0.0, -z) @ weight

    low, high = -1e4, 1e4
    for _ in range(80):  # the peak, by thirds
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if log_joint(left) < log_joint(right) else (low, right)
    peak = 0.5 * (low + high)
    highest = log_joint(peak)
    turns = -a / h - peak  # where answers turn: there the density may fall within a width of the noise
    near = np.concatenate([turns + s * width / np.abs(h) for s in (-1, 1) for width in (0.0, 3.0, 10.0, 50.0)])
    knots = np.unique(np.clip([*np.linspace(-9.0, 9.0, 41), *near, *np.geomspace(1e-9, 1.0, 19)], -9.0, 9.0))
    whole = sum(
        quad(lambda t: float(np.exp(log_joint(peak + t) - highest)), *piece, epsabs=1e-16, epsrel=1e-10, limit=200)[0]
        for piece in pairwise(knots)
    )
    return float(highest + np.log(whole) - 0.5 * np.log(2.0 * np.pi))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variance", VARIANCES)
def test_lines_are_exact_at_every_spread(kind: str, variance: float) -> None:
    for m, offset in ((1, 0.0), (4, 1.0), (4, 0.7 * np.sqrt(variance))):
        a, E, S, y, weight = people(kind, variance, offset, m, 1, (0.5, 1.0, 2.0), m)
        ours, _ = integrate_people(a, E, S, y, weight, Logistic(1.0))
        H = loadings_of(E, S)
        for k in range(3):
            exact = exact_on_line(a[k], H[k, :, 0], y[k], weight[k])
            assert ours.value[k] == pytest.approx(exact, abs=1e-5, rel=1e-6), (m, offset, k)


def exact_in_plane(a: Array, H: Array, y: Array, weight: Array) -> float:
    """Return the log-likelihood in two dimensions: lines within a line, each around its own peak.

    What is left after an integral over one coordinate of a log-concave density is log-concave in the other.
    """

    def inner(t: Array) -> Array:
        n, m = t.size, a.size
        h = np.broadcast_to(H[:, 1:], (n, m, 1)).copy()
        both = along_line(a + np.outer(t, H[:, 0]), np.ones((n, m, 1)), h, np.tile(y, (n, 1)), np.tile(weight, (n, 1)),
                          Logistic(1.0))  # fmt: skip
        return both.value - 0.5 * t * t - 0.5 * np.log(2.0 * np.pi)

    low, high = -9.0, 9.0
    for _ in range(25):
        line = np.linspace(low, high, 21)
        best = line[np.argmax(inner(line))]
        low, high = best - (high - low) / 10, best + (high - low) / 10
    peak = 0.5 * (low + high)
    reach = np.geomspace(1e-8, 9.0, 400)
    ends = []
    for sign in (-1.0, 1.0):
        deep = np.flatnonzero(inner(peak + sign * reach) < inner(np.array([peak])) - 26.0)
        ends.append(sign * (reach[deep[0]] if deep.size else 9.0))
    u = np.arange(-18.0, 18.0, 0.05)
    along = 1.0 / (1.0 + np.exp(-u))
    step = np.log((ends[1] - ends[0]) * 0.05 * along * (1.0 - along))
    return float(logsumexp(inner(peak + ends[0] + (ends[1] - ends[0]) * along) + step))


@pytest.mark.parametrize("variance", [1.0, 1e4, 1e12])
def test_propagation_in_the_plane_is_near_the_truth_at_every_spread(variance: float) -> None:
    """What it promises: 0.02 nats per person at usual spreads, a quarter of a nat where answers have no noise."""
    rng = np.random.default_rng(3)
    for m in (2, 6):
        E, spread = rng.standard_normal((3, m, 2)), np.sqrt(variance)
        a, S = 0.5 * spread * rng.standard_normal((3, m)), np.broadcast_to(variance * np.eye(2), (3, 2, 2)).copy()
        psi = a + spread * np.einsum("pmd,pd->pm", E, rng.standard_normal((3, 2)))
        y, weight = np.sign(psi + rng.logistic(size=psi.shape)), np.ones((3, m))
        y[2, -1] *= -1.0
        ours, _ = integrate_people(a, E, S, y, weight, Logistic(1.0), 1)
        H = loadings_of(E, S)
        exact = [exact_in_plane(*each) for each in zip(a, H, y, weight, strict=True)]
        np.testing.assert_allclose(ours.value, exact, atol=0.02 if variance <= 1.0 else 0.25)


@pytest.mark.parametrize("q", [4, 6])
@pytest.mark.parametrize("variance", [1e-4, 1.0, 25.0])
def test_propagation_in_more_dimensions_against_importance_sampling(q: int, variance: float) -> None:
    """Within four standard errors of the sampled likelihood, and what propagation promises."""
    a, E, S, y, weight = people("random", variance, 1.0, q + 2, q, (0.5, 1.0, 2.0), q)
    ours, H = integrate_people(a, E, S, y, weight, Logistic(1.0))[0], loadings_of(E, S)
    for k in range(3):
        covariance = np.linalg.inv(np.eye(q) + H[k].T @ (ours.precision[k][:, None] * H[k]))
        law = multivariate_t(H[k].T @ ours.slope[k], 1.5 * covariance, df=6, seed=k)
        t = law.rvs(60_000)
        log_ratio = -0.5 * np.sum(t * t, axis=1) - 0.5 * q * np.log(2.0 * np.pi) - law.logpdf(t)
        log_ratio -= np.logaddexp(0.0, -y[k] * (a[k] + t @ H[k].T)) @ weight[k]
        ratio = np.exp(log_ratio - log_ratio.max())
        error = ratio.std() / np.sqrt(ratio.size) / ratio.mean()
        exact = log_ratio.max() + np.log(ratio.mean())
        assert error < 0.02
        assert abs(ours.value[k] - exact) < 4.0 * error + 0.06


# ------------------------------------------------------------------------------------------------ derivatives


@pytest.mark.parametrize("variance", [1e-6, 1.0, 1e3, 1e6, 1e10])
@pytest.mark.parametrize(("m", "q"), [(4, 1), (3, 2), (6, 4)])
def test_derivatives_by_finite_differences_at_every_spread(variance: float, m: int, q: int) -> None:
    """In units of the spread of ψ and of S, in which everything is of order one."""
    a, E, S, y, weight = people("random", variance, np.sqrt(variance), m, q, (0.5, 1.0, 2.0), 7)
    loss, unit = Logistic(1.0), max(np.sqrt(variance), 1e-3)
    at, _ = integrate_people(a, E, S, y, weight, loss, 1)
    tolerance = {"rtol": 2e-3, "atol": 2e-4}
    for i in range(m):
        step = np.zeros(m)
        step[i] = 1e-3 * unit
        up, down = (integrate_people(a + s * step, E, S, y, weight, loss, 1)[0].value for s in (1, -1))
        np.testing.assert_allclose(unit * at.slope[:, i], (up - down) / 2e-3, **tolerance)
    for j in range(q):
        step = np.zeros((q, q))
        step[j, j] = 1e-3 * S[:, j, j].min()
        up, down = (integrate_people(a, E, S + s * step, y, weight, loss, 1)[0].value for s in (1, -1))
        size = S[:, j, j].min()
        np.testing.assert_allclose(size * at.bend[:, j, j], (up - down) / 2e-3, **tolerance)


# ------------------------------------------------------------------------------------------------ twins agree


@pytest.mark.parametrize("variance", [1e2, 1e4, 1e7])
@pytest.mark.parametrize("kind", ["random", "contradictory"])
def test_wide_laws_are_propagated_alike_in_numpy(variance: float, kind: str) -> None:
    until = {"tolerance": 1e-11}  # both until rounding is left: they count sweeps differently
    a, E, S, y, weight = people(kind, variance, 0.3 * np.sqrt(variance), 5, 2, (0.0, 0.5, 1.0, 2.0), 11)
    loss = Logistic(1.3)
    (fast, settled), (slow, also) = (
        propagated(a, E, S, y, weight, loss, **until),
        propagate(a, E, loadings_of(E, S), y, weight, loss, **until),
    )
    both = settled & also
    assert both.sum() >= 2
    np.testing.assert_allclose(fast.value[both], slow.value[both], atol=1e-6)
    np.testing.assert_allclose(fast.slope[both], slow.slope[both], atol=1e-6)
    np.testing.assert_allclose(fast.precision[both], slow.precision[both], rtol=1e-4, atol=1e-9)


def test_an_answer_beside_a_cavity_every_way() -> None:
    """Over the noise, over the peak and along a line: the compiled function against the one for any loss."""
    rng = np.random.default_rng(4)
    prior, room = lines()[1][len(CAVITY_SIZES) - 1, : CAVITY_SIZES[-1]], np.empty(CAVITY_SIZES[-1])
    wide = [(None, np.array([0]))]
    for _ in range(300):
        K, omega, sign = 10.0 ** rng.uniform(-3, 6), rng.choice([0.5, 1.0, 2.0, 40.0]), rng.choice([-1.0, 1.0])
        mean = K * rng.standard_normal() * 10.0 ** rng.uniform(-1, 1.5)
        fast = kernels("line").tilted(mean, K * K, sign, omega, 0, prior, room)
        one = (np.array([x]) for x in (mean, K * K, sign, omega))
        slow = [float(x[0]) for x in _tilted(*one, Logistic(1.0), wide, np.array([False]))]
        assert fast[0] == pytest.approx(slow[0], rel=1e-8, abs=1e-8)
        assert fast[1] == pytest.approx(slow[1], rel=1e-5, abs=1e-9)
        assert fast[2] * K * K == pytest.approx(slow[2] * K * K, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_compiled_line_around_a_posterior_is_the_numpy_one(variance: float) -> None:
    a, E, S, y, weight = people("random", variance, 0.5 * np.sqrt(variance), 4, 1, (0.0, 0.5, 1.0, 2.0), 5)
    H, loss = loadings_of(E, S), Logistic(1.3)
    fast = along_line(a, E, H, y, weight, loss)
    for k in range(3):
        value, slope, bend, precision = line_of(a[k], E[k], H[k], y[k], weight[k], loss)
        assert fast.value[k] == pytest.approx(value, rel=1e-6, abs=1e-5)
        np.testing.assert_allclose(fast.slope[k], slope, atol=2e-5)
        np.testing.assert_allclose(fast.precision[k], precision, atol=2e-5)
        np.testing.assert_allclose(fast.bend[k], bend, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_nodes_around_modes_agree_with_propagation(name: str) -> None:
    for q in (2, 4):
        a, E, S, y, weight = people("random", 1.0, 1.0, q + 2, q, (0.5, 1.0, 2.0), 8)
        placed = around_modes(a, E, loadings_of(E, S), y, weight, LOSSES[name])
        ours, _ = integrate_people(a, E, S, y, weight, LOSSES[name], 1)
        np.testing.assert_allclose(placed.value, ours.value, atol=0.03)
        np.testing.assert_allclose(placed.slope, ours.slope, atol=0.03)
