"""Low-rank metrics by gradients alone: the likelihood, its gradient, the start, and the fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crowdmetric import PopulationMetric
from crowdmetric.errors import DataError
from crowdmetric.losses import Logistic, Probit
from crowdmetric.solvers.low_rank_prior import LowRankPrior
from crowdmetric.solvers.quasi_newton import Counted, best_size, fit_low_rank, start_of
from crowdmetric.symmetric import shape_error, svec
from crowdmetric.users.blocks import Answers, arrange, padded_rows
from crowdmetric.users.first_order import (
    EqualQuestions,
    FreePeople,
    IsotropicPeople,
    LowRank,
    information_of_items,
    moment_matrix,
    roots_of_information,
    value_and_gradient,
)
from crowdmetric.users.population_sums import STRUCTURES, blocks_of, sums_of


def crowd(m: int, people: int = 200, d: int = 6, seed: int = 0) -> tuple[np.ndarray, EqualQuestions]:
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((300, d)) / np.sqrt(d)
    left = rng.integers(0, 300, (people, m))
    right = (left + rng.integers(1, 300, (people, m))) % 300
    y = rng.choice([-1.0, 1.0], (people, m))
    return items, EqualQuestions(left, right, y, np.ones((people, m)))


def somewhere(
    d: int = 6, k: int = 3, seed: int = 1, *, free: bool = False, n_items: int = 0, rest: float | None = None
) -> LowRank:
    rng = np.random.default_rng(seed)
    L, mean = 0.7 * rng.standard_normal((d, k)), 0.3 * rng.standard_normal(d)
    people = FreePeople.of(np.cov(rng.standard_normal((k, 3 * k)))) if free else IsotropicPeople(-0.8)
    return LowRank(L, mean, people, 0.5 * rng.standard_normal(n_items), rest)


# Turns of the first column of a factor into another one.
TURNS = [(j, np.eye(3)[0], np.eye(3)[j]) for j in (1, 2)]
# Isotropic people, free ones, and either with utilities of the items, or with a rest.
each_model = pytest.mark.parametrize(
    "at",
    [
        somewhere(), somewhere(free=True), somewhere(n_items=300), somewhere(free=True, n_items=300),
        somewhere(rest=0.3), somewhere(free=True, n_items=300, rest=0.3),
    ],
    ids=["isotropic", "free", "isotropic, items", "free, items", "isotropic, rest", "free, items, rest"],
)  # fmt: skip


@each_model
@pytest.mark.parametrize("loss", [Logistic(), Logistic(2.0), Probit()])
@pytest.mark.parametrize("m", [1, 2, 4])
def test_the_gradient_is_that_of_the_value(m: int, loss: Logistic | Probit, at: LowRank) -> None:
    items, questions = crowd(m, people=40)
    _, gradient = value_and_gradient(items, [questions], at, loss)
    size = float(np.linalg.norm(gradient))
    rng = np.random.default_rng(2)
    for _ in range(3):
        direction = rng.standard_normal(gradient.size)
        step = 1e-5 * direction
        up, down = (
            value_and_gradient(items, [questions], at.moved(at.flat() + sign * step), loss)[0] for sign in (1, -1)
        )
        assert (up - down) / 2e-5 == pytest.approx(gradient @ direction, abs=1e-4 * size)


@pytest.mark.parametrize("structure", ["isotropic", "free"])
@pytest.mark.parametrize("m", [1, 3])
def test_it_is_the_likelihood_of_the_scoring_fit(m: int, structure: str) -> None:
    items, questions = crowd(m)
    at = somewhere(free=structure == "free")
    value, _ = value_and_gradient(items, [questions], at, Logistic())
    P = questions.left.shape[0]
    answers = Answers(
        items=items,
        pairs=np.stack([questions.left.ravel(), questions.right.ravel()], axis=1),
        response=questions.response.ravel(),
        weight=np.ones(P * m),
        person=np.repeat(np.arange(P), m),
        problem=np.zeros(P, dtype=np.intp),
        n_problems=1,
    )
    spread = svec(at.factor @ at.covariance @ at.factor.T) if structure == "free" else at.people.flat()
    natural = np.concatenate([svec(at.factor @ at.factor.T), at.mean, spread])
    blocks = blocks_of(arrange(answers))
    other = sum(sums_of(b, STRUCTURES[structure], natural, Logistic(), largest_grid=1).value for b in blocks)
    assert value == pytest.approx(other, abs=1e-7 * P)


def test_information_does_not_see_turns_of_the_factor() -> None:
    items, questions = crowd(2, people=30)
    at = somewhere()
    roots = roots_of_information(items, questions, at, Logistic())
    turned = np.stack([np.outer(at.factor[:, j], e) - np.outer(at.factor[:, 0], f) for j, e, f in TURNS])
    turned = turned.reshape(len(TURNS), -1).T
    for part in (roots.offsets, roots.spreads):
        np.testing.assert_allclose(part[:, : at.factor.size] @ turned, 0.0, atol=1e-9)
        assert np.abs(part[:, : at.factor.size]).max() > 0.01


def test_chunks_add_up() -> None:
    items, questions = crowd(2)
    parts = [
        EqualQuestions(*(getattr(questions, name)[chosen] for name in ("left", "right", "response", "weight")))
        for chosen in (slice(0, 50), slice(50, None))
    ]
    whole, in_parts = (value_and_gradient(items, chunks, somewhere(), Logistic()) for chunks in ([questions], parts))
    assert whole[0] == pytest.approx(in_parts[0])
    np.testing.assert_allclose(whole[1], in_parts[1], rtol=1e-10, atol=1e-10)


def test_padding_changes_nothing() -> None:
    items, questions = crowd(2)
    longer = EqualQuestions(
        *(np.concatenate([getattr(questions, n), getattr(questions, n)[:, :1]], axis=1) for n in ("left", "right")),
        np.concatenate([questions.response, np.ones((200, 1))], axis=1),
        np.concatenate([questions.weight, np.zeros((200, 1))], axis=1),
    )
    first, second = (value_and_gradient(items, [q], somewhere(), Logistic()) for q in (questions, longer))
    assert first[0] == pytest.approx(second[0], abs=1e-6)
    np.testing.assert_allclose(first[1], second[1], atol=1e-5)


def test_the_moment_matrix_is_the_sum_of_signed_outer_differences() -> None:
    items, questions = crowd(2)
    x, x_ = items[questions.left.ravel()], items[questions.right.ravel()]
    signed = questions.response.ravel()[:, None]
    np.testing.assert_allclose(moment_matrix(items, [questions]), (signed * x).T @ x - (signed * x_).T @ x_, atol=1e-10)


def test_a_start_from_nothing_is_still_a_start() -> None:
    L = start_of(-np.eye(4), np.eye(4), 2)
    assert np.linalg.norm(L) == pytest.approx(1.0)


def test_the_value_of_a_fit_is_its_likelihood() -> None:
    """Without the weak law on the spread, which only keeps it from running away."""
    items, questions = crowd(3)

    def function(at: LowRank) -> tuple[float, np.ndarray]:
        return value_and_gradient(items, [questions], at, Logistic())

    start = LowRank(np.eye(6)[:, :2] / np.sqrt(2.0), np.zeros(6), IsotropicPeople(1.0))
    counted = Counted(function)
    result = fit_low_rank(counted, best_size(counted, start), LowRankPrior(np.cov(items.T), 1.0))
    assert abs(result.at.people.flat()[0] - 1.0) > 0.2  # the law costs something here
    assert result.value == pytest.approx(function(result.at)[0], abs=1e-9)
    assert result.passes == counted.passes


@each_model
def test_the_gradient_of_the_prior_is_that_of_its_value(at: LowRank) -> None:
    rng = np.random.default_rng(4)
    prior = LowRankPrior(np.cov(rng.standard_normal((6, 30))), -0.5, 2.0, shape=3.0, items=1.7)
    flat, gradient = at.flat(), prior(at)[1]
    for _ in range(5):
        direction = rng.standard_normal(flat.size)
        up, down = (prior(at.moved(flat + sign * 1e-6 * direction))[0] for sign in (1, -1))
        assert (up - down) / 2e-6 == pytest.approx(gradient @ direction, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("free", [False, True])
def test_the_ridge_on_the_shape_is_the_trace_of_the_metric(free: bool) -> None:
    at = somewhere(free=free)
    with_ridge, without = (LowRankPrior(np.diag(np.arange(1.0, 7.0)), -0.5, 1.0, shape) for shape in (5.0, 0.0))
    ridge = with_ridge(at)[0] - without(at)[0]
    assert ridge == pytest.approx(2.5 * np.trace(at.factor @ at.factor.T))


def test_the_law_on_the_spread_is_the_same_for_people_who_are_free_and_isotropic() -> None:
    at = somewhere()
    prior = LowRankPrior(np.eye(6) / 6.0, -0.2)
    same = replace(at, people=FreePeople(np.linalg.cholesky(at.covariance)))
    assert prior(same)[0] == pytest.approx(prior(at)[0], rel=1e-12)


@pytest.mark.parametrize(("m", "close"), [(1, 1e-4), (3, 1e-2)])  # propagation is not exact in second derivatives
def test_the_information_about_items_is_the_curvature_in_their_utilities(m: int, close: float) -> None:
    items, questions = crowd(m, people=300)
    at = somewhere(free=True, n_items=300)
    known = information_of_items(items, [questions], at, Logistic())
    for i in np.argsort(known)[[-1, -20, 50]]:
        gradients = []
        for sign in (1, -1):
            effects = at.effects.copy()
            effects[i] += sign * 1e-4
            gradient = value_and_gradient(items, [questions], replace(at, effects=effects), Logistic())[1]
            gradients.append(gradient[i - 300])
        assert (gradients[1] - gradients[0]) / 2e-4 == pytest.approx(known[i], rel=close)


def test_rows_are_laid_out_once_each() -> None:
    rng = np.random.default_rng(0)
    person = rng.integers(0, 40, 200)
    answers = Answers(np.zeros((2, 1)), np.zeros((200, 2), dtype=np.intp), np.ones(200), np.ones(200), person,
                      np.zeros(40, dtype=np.intp), 1)  # fmt: skip
    seen = []
    for people, rows in padded_rows(answers, 16):
        for k, own in zip(people, rows, strict=True):
            there = own[own >= 0]
            assert np.all(person[there] == k)
            seen.extend(there)
    assert sorted(seen) == list(range(200))


def low_rank_crowd(d: int = 90, k: int = 3, people: int = 12_000) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(3)
    items = rng.standard_normal((2000, d)) / np.sqrt(d) + 1.0
    L = rng.standard_normal((d, k))
    M = L @ L.T
    M *= d / np.linalg.norm(M)
    ideal = rng.standard_normal((people, d)) / np.sqrt(d) + 1.0
    pairs = rng.integers(0, 2000, (people, 2))
    x, x_ = items[pairs[:, 0]], items[pairs[:, 1]]
    psi = np.sum((x - x_) * ((x + x_ - 2.0 * ideal) @ M), axis=1)
    return items, pairs, np.where(rng.random(people) < 1.0 / (1.0 + np.exp(-psi)), 1, -1), M


def test_many_features_are_fitted_by_gradients() -> None:
    items, pairs, y, M = low_rank_crowd()
    model = PopulationMetric(items, rank=3).fit(pairs, y, users=np.arange(y.size))
    assert model.solution_.converged
    assert np.linalg.matrix_rank(model.metric_, tol=1e-8 * np.linalg.norm(model.metric_)) == 3
    nothing = shape_error(np.eye(90), M)
    assert shape_error(model.metric_, M) < 0.5 < nothing
    assert model.pseudo_ideal_points_.shape == (y.size, 90)
    assert np.all(np.isfinite(model.predict_proba(pairs[:50])))


def test_what_gradients_cannot_do_is_said() -> None:
    items, pairs, y, _ = low_rank_crowd(people=50)
    with pytest.raises(DataError, match="constraint='symmetric' needs outer products of scores"):
        PopulationMetric(items, constraint="symmetric").fit(pairs, y, users=np.arange(y.size))
    with pytest.raises(DataError, match="integration='grid' is for fits by scoring, which 90 features or float32 rule"):
        PopulationMetric(items, integration="grid").fit(pairs, y, users=np.arange(y.size))
    with pytest.raises(DataError, match="item_effects needs to know which items are the same"):
        PopulationMetric(items, item_effects=True).fit(items[pairs], y, users=np.arange(y.size))


@each_model
def test_flat_and_back(at: LowRank) -> None:
    again = at.moved(at.flat())
    np.testing.assert_array_equal(again.flat(), at.flat())
    np.testing.assert_array_equal(again.factor, at.factor)
    np.testing.assert_array_equal(again.effects, at.effects)
    np.testing.assert_allclose(again.covariance, at.covariance)
