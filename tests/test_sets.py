"""Answers about several items, integrated over a person: exact likelihoods, and every way to compute them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdmetric.losses import Logistic
from crowdmetric.symmetric import smat, svec
from crowdmetric.tables import firsts_of
from crowdmetric.users.adaptive_quadrature import by_sampling
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.expected import expected_information
from crowdmetric.users.integrals import Integral, loadings_of, on_grid
from crowdmetric.users.integration import integrate_people
from crowdmetric.users.population_sums import STRUCTURES, PopulationBlock, Sums, blocks_of, integrate, sums_of
from crowdmetric.users.set_kernels import moments_of_set
from crowdmetric.users.set_propagation import nodes_of, propagate_sets
from crowdmetric.users.sets import first_of_set, rows_of_sets, sets_around_modes, sets_at_nodes, sets_on_grid

FORMS = Path(__file__).parent.parent.parent / "shared" / "golden" / "forms.json"
IN_ROWS = ("choice", "ranking", "best_worst")


def places_of(answer: dict[str, Any]) -> list[int]:
    """Return the places of the items that were shown, as `firsts_of` takes them."""
    if answer["form"] == "choice":
        first, worst = [answer["chosen"]], None
    elif answer["form"] == "ranking":
        first, worst = answer["order"], None
    else:
        first, worst = [answer["best"]], answer["worst"]
    return [first.index(i) + 1 if i in first else -1 if i == worst else 0 for i in answer["shown"]]


def answers_of(case: dict[str, Any]) -> Answers:
    """Return the answers of a golden case."""
    asked = [(person, answer) for person, answers in enumerate(case["people"]) for answer in answers]
    shown = [answer["shown"] for _, answer in asked]
    firsts = firsts_of(
        np.array([person for person, _ in asked]),
        np.cumsum([0, *map(len, shown)]),
        np.concatenate(shown),
        np.concatenate([places_of(answer) for _, answer in asked]),
        np.ones(len(asked)),
    )
    return crowd_of(np.array(case["items"]), firsts, len(case["people"]))


def crowd_of(items: np.ndarray, firsts: Any, people: int) -> Answers:
    pairs, response, offsets = rows_of_sets(firsts.offsets, firsts.item, firsts.first, firsts.sign)
    sizes, nobody = np.diff(offsets), np.zeros(people, dtype=np.intp)
    weight, person = np.repeat(firsts.weight, sizes), np.repeat(firsts.person, sizes)
    return Answers(items, pairs, response, weight, person, nobody, 1, offsets)


def natural_of(case: dict[str, Any]) -> np.ndarray:
    M = np.array(case["metric"])
    return np.concatenate([svec(M), -2.0 * M @ case["ideal_mean"], [np.log(case["ideal_spread"])]])


def golden_cases() -> list[Any]:
    if not FORMS.exists():
        return [pytest.param({}, marks=pytest.mark.skip(reason=f"{FORMS} is not there"))]
    cases = json.loads(FORMS.read_text())
    return [pytest.param(case, id=case["name"]) for case in cases if case["people"][0][0]["form"] in IN_ROWS]


each_case = pytest.mark.parametrize("case", golden_cases())


def sums(case: dict[str, Any], largest_grid: int, natural: np.ndarray | None = None) -> Sums:
    natural = natural_of(case) if natural is None else natural
    blocks = blocks_of(arrange(answers_of(case)))
    parts = [sums_of(b, STRUCTURES["isotropic"], natural, Logistic(), largest_grid=largest_grid) for b in blocks]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def gradients(case: dict[str, Any], score: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return derivatives by M, u₀ and s from those by svec M, μ and log s, with μ = −2Mu₀."""
    M, mean = np.array(case["metric"]), np.array(case["ideal_mean"])
    p, d = len(score) - len(mean) - 1, len(mean)
    of_mean = score[p : p + d]
    outer = np.outer(of_mean, mean)
    return smat(score[:p]) - (outer + outer.T), -2.0 * M @ of_mean, score[-1] / case["ideal_spread"]


@each_case
def test_grids_have_the_exact_likelihood_and_gradient(case: dict[str, Any]) -> None:
    found = sums(case, 3)
    assert abs(found.value - sum(case["log_likelihood"])) < 1e-6
    of_metric, of_mean, of_spread = gradients(case, found.score)
    np.testing.assert_allclose(of_metric, case["gradient_metric"], atol=1e-5)
    np.testing.assert_allclose(of_mean, case["gradient_ideal_mean"], atol=1e-5)
    assert abs(of_spread - case["gradient_ideal_spread"]) < 1e-5


@each_case
def test_propagation_is_within_a_hundredth_of_a_nat_per_answer(case: dict[str, Any]) -> None:
    found = sums(case, 0)
    answers = sum(map(len, case["people"]))
    assert abs(found.value - sum(case["log_likelihood"])) < 0.01 * answers
    of_metric, of_mean, of_spread = gradients(case, found.score)
    np.testing.assert_allclose(of_metric, case["gradient_metric"], atol=0.02 * answers)
    np.testing.assert_allclose(of_mean, case["gradient_ideal_mean"], atol=0.02 * answers)
    assert abs(of_spread - case["gradient_ideal_spread"]) < 0.02 * answers


def people(P: int, A: int, size: int, q: int, seed: int = 0, spread: float = 1.0) -> tuple[Any, ...]:
    """Return a, E, S, y, weight and size: one full answer, a half one, one about a smaller set, and a padded one."""
    rng = np.random.default_rng(seed)
    a, E = rng.standard_normal((P, A * size)), rng.standard_normal((P, A * size, q))
    G = rng.standard_normal((P, q, q + 1))
    S = spread**2 * G @ G.transpose(0, 2, 1) / q
    y, weight = np.repeat(rng.choice([-1.0, 1.0], (P, A)), size, axis=1), np.ones((P, A, size))
    if A > 3:
        weight[:, 1], weight[:, 2, 1:], weight[:, 3] = 0.5, 0.0, 0.0
    weight = weight.reshape(P, -1)
    return a, np.where(weight[:, :, None] > 0, E, 0.0), S, y, weight, size


def assert_same(one: Integral, other: Integral, **tolerance: float) -> None:
    for field in fields(Integral):
        np.testing.assert_allclose(
            getattr(one, field.name), getattr(other, field.name), err_msg=field.name, **tolerance
        )


def test_answers_of_one_row_are_ordinary_answers() -> None:
    a, E, S, y, weight, _ = people(4, 5, 1, 2)
    found, expected = sets_on_grid(a, E, S, y, weight, 1, 1.3), on_grid(a, E, S, y, weight, Logistic(1.3))
    np.testing.assert_allclose(found.precision[:, :, 0], expected.precision, atol=1e-4)
    np.testing.assert_allclose(found.value, expected.value, atol=1e-6)
    np.testing.assert_allclose(found.bend, expected.bend, atol=1e-4)


def test_an_answer_of_weight_two_is_the_same_answer_twice() -> None:
    a, E, S, y, _, size = people(3, 1, 3, 2)
    once = sets_on_grid(a, E, S, y, np.full(a.shape, 2.0), size, 1.2)
    twice = sets_on_grid(
        np.tile(a, (1, 2)), np.tile(E, (1, 2, 1)), S, np.tile(y, (1, 2)), np.ones((3, 2 * size)), size, 1.2
    )
    np.testing.assert_allclose(once.value, twice.value, atol=1e-10)
    np.testing.assert_allclose(once.bend, twice.bend, atol=1e-10)


WAYS: dict[str, Callable[..., Integral]] = {
    "around modes": lambda a, E, S, *rest: sets_around_modes(a, E, loadings_of(E, S), *rest),
    "sampled": lambda a, E, S, y, weight, size, beta: by_sampling(
        a, E, loadings_of(E, S), y, weight, Logistic(beta), sets_on_grid(a, E, S, y, weight, size, beta),
        points=1 << 14, size=size,
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("q", [1, 2])
def test_slow_ways_agree_with_grids(way: str, q: int) -> None:
    arguments = people(3, 4, 3, q)
    found, expected = WAYS[way](*arguments, 1.2), sets_on_grid(*arguments, 1.2)
    assert_same(found, expected, atol=2e-3 if way == "sampled" else 1e-6)


@pytest.mark.parametrize("q", [2, 3])  # fewer dimensions than rows of an answer, and as many
def test_propagation_is_accurate(q: int) -> None:
    arguments = people(6, 4, 3, q)
    (found, settled), exact = propagate_sets(*arguments, 1.0), sets_on_grid(*arguments, 1.0)
    assert settled.all()
    assert_same(found, exact, atol=0.02)


@pytest.mark.parametrize("q", [2, 4])
def test_slopes_and_bends_are_derivatives(q: int) -> None:
    a, E, S, y, weight, size = people(2, 4, 3, q, spread=0.7)
    at = nodes_of(3)[0] if q == 3 else np.random.default_rng(1).standard_normal((50, q))
    H = loadings_of(E, S)
    mass = np.zeros(len(at))

    def value(a: np.ndarray) -> np.ndarray:
        return sets_at_nodes(a, E, H, y, weight, size, 1.1, at, mass).value

    found = sets_at_nodes(a, E, H, y, weight, size, 1.1, at, mass)
    for i in range(a.shape[1]):
        step = np.zeros(a.shape[1])
        step[i] = 1e-5
        np.testing.assert_allclose((value(a + step) - value(a - step)) / 2e-5, found.slope[:, i], atol=1e-8)


def test_bends_are_derivatives_by_the_covariance() -> None:
    a, E, S, y, weight, size = people(2, 4, 3, 2, spread=0.7)
    found = sets_on_grid(a, E, S, y, weight, size, 1.1)
    for i, j in ((0, 0), (0, 1), (1, 1)):
        step = np.zeros((2, 2))
        step[i, j] += 0.5e-4
        step[j, i] += 0.5e-4
        up, down = (sets_on_grid(a, E, S + way * step, y, weight, size, 1.1).value for way in (1, -1))
        np.testing.assert_allclose((up - down) / 2.0, np.sum(found.bend * step, axis=(1, 2)), rtol=1e-4, atol=1e-10)


def test_the_compiled_moments_are_those_of_the_formula() -> None:
    rng = np.random.default_rng(0)
    x, weights = nodes_of(2)
    psi, D = rng.standard_normal((4, 3)), rng.standard_normal((4, 3, 2))
    middle, L = rng.standard_normal((4, 2)), np.tril(rng.standard_normal((4, 2, 2)))
    y, there, omega = np.full((4, 3), -1.0), np.ones((4, 3), dtype=np.bool_), np.array([1.0, 0.5, 2.0, 0.0])
    there[1, 2] = False
    value, first, second, p, both = moments_of_set(psi, D, middle, L, y, there, omega, 1.3, x, weights)
    at = psi[:, :, None] + D @ x.T
    cost, shares = first_of_set(at[:, None], y[:, None], there[:, None], 1.3)
    z = middle[:, :, None] + L @ x.T
    share = weights * np.exp(0.5 * np.sum(x * x, axis=1) - 0.5 * np.sum(z * z, axis=1) - omega[:, None] * cost[:, 0])
    total = share.sum(axis=1)
    share = share / total[:, None]
    np.testing.assert_allclose(value, np.log(total))
    np.testing.assert_allclose(first, share @ x, atol=1e-12)
    np.testing.assert_allclose(second, np.einsum("pn,ni,nj->pij", share, x, x), atol=1e-12)
    np.testing.assert_allclose(p, np.einsum("pn,pin->pi", share, shares[:, 0]), atol=1e-12)
    np.testing.assert_allclose(both, np.einsum("pn,pin,pjn->pij", share, shares[:, 0], shares[:, 0]), atol=1e-12)


def test_rules_are_exact_for_polynomials_of_degree_five() -> None:
    for q in (1, 2, 3, 4, 9):
        z, weights = nodes_of(q)
        assert abs(weights.sum() - 1.0) < 1e-12
        np.testing.assert_allclose((z * weights[:, None]).T @ z, np.eye(q), atol=1e-12)
        np.testing.assert_allclose(weights @ z**4, 3.0, atol=1e-12)
        if q > 1:
            assert abs(weights @ (z[:, 0] ** 2 * z[:, 1] ** 2) - 1.0) < 1e-12


def test_hopeless_people_are_integrated_in_another_way() -> None:
    a, E, S, y, weight, size = people(8, 4, 5, 5, spread=30.0)
    found, ways = integrate_people(a, E, S, y, weight, Logistic(), 1, size=size)
    exact = sets_around_modes(a, E, loadings_of(E, S), y, weight, size, 1.0)
    assert ways.any()
    assert np.all(found.value <= 0.0)
    np.testing.assert_allclose(found.value[ways == 2], exact.value[ways == 2])


def test_people_with_sets_of_different_sizes_are_laid_out_apart() -> None:
    items = np.random.default_rng(0).standard_normal((9, 2))
    person = np.array([0, 0, 1, 2, 2])
    shown = [[0, 1, 2, 3], [4, 5], [6, 7], [8, 0, 1], [2, 3, 4]]
    place = np.concatenate([[1] + [0] * (len(s) - 1) for s in shown])
    firsts = firsts_of(person, np.cumsum([0, *map(len, shown)]), np.concatenate(shown), place, np.ones(5))
    blocks = blocks_of(arrange(crowd_of(items, firsts, 3)))
    assert sorted((b.size, b.person.tolist()) for b in blocks) == [(1, [1]), (2, [2]), (3, [0])]
    (first,) = [b for b in blocks if b.size == 3]
    assert np.array_equal(first.weight, [[1, 1, 1, 1, 0, 0]])
    law = STRUCTURES["isotropic"].law(np.concatenate([svec(np.eye(2)), np.zeros(2), [0.0]]), 2)
    one, all_ = integrate(first, law, Logistic(), 3), integrate(first, law, Logistic(), 0)
    assert abs(one.value[0] - all_.value[0]) < 0.01


def simulated(P: int, A: int, n: int, d: int, seed: int = 0) -> list[PopulationBlock]:
    """Return the blocks of people who each choose the first of A sets of n, by their utilities."""
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((40, d))
    shown = np.stack([rng.choice(40, n, replace=False) for _ in range(P * A)])
    u = np.repeat(0.8 * rng.standard_normal((P, d)), A, axis=0)
    utility = -np.sum((items[shown] - u[:, None]) ** 2, axis=2) + rng.gumbel(size=shown.shape)
    place = (np.argmax(utility, axis=1)[:, None] == np.arange(n)).astype(np.int64)
    firsts = firsts_of(
        np.repeat(np.arange(P), A), np.arange(P * A + 1) * n, shown.ravel(), place.ravel(), np.ones(P * A)
    )
    return blocks_of(arrange(crowd_of(items, firsts, P)))


def test_expected_information_is_about_that_of_scores() -> None:
    structure, natural = STRUCTURES["isotropic"], np.concatenate([svec(np.eye(2)), np.zeros(2), [np.log(0.8)]])
    of_scores, expected = np.zeros((6, 6)), None
    for block in simulated(1500, 4, 4, 2):
        law = structure.law(natural, 2)
        integral = integrate(block, law, Logistic(), 1)
        scores = structure.scores(block, integral, law, natural)
        of_scores += scores.T @ scores
        part = expected_information(block, structure, integral, law, natural)
        expected = part if expected is None else expected + part
    assert expected is not None
    total = expected.total(structure.spread_jacobian(natural, 2), svec(law.covariance))
    ratios = np.linalg.eigvals(np.linalg.solve(total, of_scores)).real
    assert 0.2 < ratios.min() <= ratios.max() < 3.0
