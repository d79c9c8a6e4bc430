"""Matched questions: conditional probabilities by brute force, sets by enumeration, optima against CVXPY, coverage."""

from __future__ import annotations

import warnings
from itertools import combinations, product

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import expit

from crowdmetric.cli import main
from crowdmetric.comparisons import Comparisons
from crowdmetric.design import matched_from_generator
from crowdmetric.errors import DataError, NotIdentifiedError, NotIdentifiedWarning
from crowdmetric.estimators import IdealPointMetric, MatchedMetric
from crowdmetric.persist import load_model, save_model
from crowdmetric.simulate import PEOPLE, answer, sample_metric
from crowdmetric.solvers.logistic import solve_logistic
from crowdmetric.symmetric import degrees_of_freedom, outer_difference, relative_error, svec
from crowdmetric.tables import write_columns
from crowdmetric.users.conditioning import ConditionalLikelihood, Sets, find_sets


def parallel_crowd(d, people, *, answers=2, law="gaussian", seed=0, mismatch=0.0, beta=1.0):
    """People with `answers` questions of (nearly) one δ each, sides of the screen at random."""
    rng = np.random.default_rng(seed)
    M, u = sample_metric(d, rng), PEOPLE[law](people, d, rng)
    a = rng.standard_normal((people, answers, d)) / np.sqrt(d)
    delta = np.repeat(rng.standard_normal((people, 1, d)), answers, axis=1) / np.sqrt(d)
    stray = rng.standard_normal(delta.shape)
    scale = mismatch * np.linalg.norm(delta, axis=2, keepdims=True) / np.linalg.norm(stray, axis=2, keepdims=True)
    delta = (delta + scale * stray) * rng.choice([-1.0, 1.0], size=(people, answers, 1))
    items = np.stack([a + 0.5 * delta, a - 0.5 * delta], axis=2).reshape(-1, d)
    pairs = np.arange(len(items)).reshape(-1, 2)
    users = np.repeat(np.arange(people), answers)
    y = answer(items, pairs, u[users], M, beta=beta, seed=seed + 1)
    return items, pairs, users, y, M


def likelihood_of(d=3, people=60, answers=3, seed=0, weight=None):
    items, pairs, users, y, _ = parallel_crowd(d, people, answers=answers, seed=seed)
    sets = find_sets(items, pairs, users, tolerance=1e-6)
    weight = np.ones(len(y)) if weight is None else weight
    return ConditionalLikelihood(items, pairs, sets, y.astype(float), weight, 1.3, np.zeros(d))


# --------------------------------------------------------------------------------------------- probabilities


def vanishing_questions(size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return items, pairs and signs of `size` questions with ``Σ s δ = 0`` and no two of them parallel (size > 2)."""
    d = 3
    signs = rng.choice([-1, 1], size=size)
    signed = rng.standard_normal((size, d))
    signed[-1] = -signed[:-1].sum(axis=0)
    middle, delta = rng.standard_normal((size, d)), signs[:, None] * signed
    items = np.stack([middle + 0.5 * delta, middle - 0.5 * delta], axis=1).reshape(-1, d)
    return items, np.arange(2 * size).reshape(-1, 2), signs


@pytest.mark.parametrize("size", [2, 3, 4])
def test_conditional_probability_is_that_of_all_outcomes_whoever_answers(size: int) -> None:
    rng = np.random.default_rng(size)
    items, pairs, signs = vanishing_questions(size, rng)
    M, beta = sample_metric(3, rng), 0.7
    x, x_ = items[pairs[:, 0]], items[pairs[:, 1]]
    sets = find_sets(items, pairs, np.zeros(size, dtype=int), tolerance=1e-9)
    assert len(sets) == 1
    np.testing.assert_array_equal(np.sort(sets.rows[0]), np.arange(size))
    found = np.empty(size)
    found[sets.rows[0]] = sets.signs[0]
    assert np.array_equal(found, signs) or np.array_equal(found, -signs)
    for _ in range(3):
        u = 3.0 * rng.standard_normal(3)  # whoever
        psi = np.sum((x - u) @ M * (x - u), axis=1) - np.sum((x_ - u) @ M * (x_ - u), axis=1)
        chance = {y: np.prod(expit(beta * np.array(y) * psi)) for y in product((-1, 1), repeat=size)}
        outcome = tuple(int(s) for s in found)
        opposite = tuple(-s for s in outcome)
        expected = chance[outcome] / (chance[outcome] + chance[opposite])
        model = ConditionalLikelihood(
            items, pairs, sets, np.array(outcome, dtype=float), np.ones(size), beta, rng.standard_normal(3)
        )
        assert model.outcome[0] == 1
        assert np.exp(-model.value(svec(M))) == pytest.approx(expected, rel=1e-10)


def test_two_parallel_questions_are_the_formula_of_the_design() -> None:
    rng = np.random.default_rng(3)
    a, a_, delta = rng.standard_normal((3, 4))
    M = sample_metric(4, rng)
    items = np.stack([a + delta / 2, a - delta / 2, a_ + delta / 2, a_ - delta / 2])
    pairs = np.array([[0, 1], [2, 3]])
    sets = find_sets(items, pairs, np.zeros(2, dtype=int), tolerance=1e-9)
    model = ConditionalLikelihood(items, pairs, sets, np.array([1.0, -1.0]), np.ones(2), 2.0, np.zeros(4))
    assert np.exp(-model.value(svec(M))) == pytest.approx(expit(2 * 2.0 * (a - a_) @ M @ delta), rel=1e-12)


def test_the_center_matters_only_where_sides_do_not_match() -> None:
    items, pairs, users, y, M = parallel_crowd(3, 50, mismatch=0.1)
    for tolerance, matters in ((0.5, True), (1e-6, False)):
        if not matters:
            items, pairs, users, y, M = parallel_crowd(3, 50)
        sets = find_sets(items, pairs, users, tolerance=tolerance)
        one, other = (
            ConditionalLikelihood(items, pairs, sets, y.astype(float), np.ones(len(y)), 1.0, center).value(svec(M))
            for center in (np.zeros(3), np.ones(3))
        )
        assert (abs(one - other) > 1e-6) == matters


# ------------------------------------------------------------------------------------------------------ sets


def by_enumeration(items, pairs, person, tolerance, largest):
    """Return {(rows with signs)} of minimal sets with D ≠ 0, by loops."""
    x, x_ = items[pairs[:, 0]], items[pairs[:, 1]]
    delta, D = x - x_, outer_difference(x - x_, x + x_)
    found = set()

    def vanish(rows, signs):
        length = np.mean([np.linalg.norm(delta[i]) for i in rows])
        return np.linalg.norm(sum(s * delta[i] for i, s in zip(rows, signs, strict=True))) <= tolerance * length

    for k in np.unique(person):
        mine = [i for i in np.flatnonzero(person == k) if np.linalg.norm(delta[i]) > 0]
        for size in range(2, largest + 1):
            for rows in combinations(mine, size):
                for signs in product((1, -1), repeat=size - 1):
                    signed = list(zip(rows, (1, *signs), strict=True))
                    smaller = size > 2 and any(vanish(*zip(*two, strict=True)) for two in combinations(signed, 2))
                    total = sum(s * D[i] for i, s in signed)
                    if vanish(rows, (1, *signs)) and not smaller and np.linalg.norm(total) > 1e-6:
                        found.add(frozenset(signed))
    return found


def as_python(sets: Sets):
    result = set()
    for rows, signs in zip(sets.rows, sets.signs, strict=True):
        order = np.argsort(np.where(signs == 0, 10**9, rows))[: np.count_nonzero(signs)]
        first = signs[order[0]]
        result.add(frozenset((int(rows[i]), int(first * signs[i])) for i in order))
    return result


@pytest.mark.parametrize("largest", [2, 3, 4])
@pytest.mark.parametrize("tolerance", [1e-9, 0.3])
def test_every_set_is_found(largest: int, tolerance: float, monkeypatch) -> None:
    monkeypatch.setattr("crowdmetric.users.conditioning.MOST_COMBINATIONS", 2000)
    rng = np.random.default_rng(largest)
    items = rng.integers(0, 3, size=(40, 2)).astype(float)  # a grid: parallels, sums and cycles abound
    if tolerance > 0.1:
        items += 0.05 * rng.standard_normal(items.shape)
    pairs = rng.integers(0, 40, size=(60, 2))
    person = np.repeat(np.arange(10), [1, 2, 3, 4, 5, 6, 7, 8, 9, 15])
    order = rng.permutation(60)
    person = person[order]
    sets = find_sets(items, pairs, person, tolerance=tolerance, largest=largest)
    expected = by_enumeration(items, pairs, person, tolerance, largest)
    # fifteen answers are too many to enumerate fours
    crowded = set(np.flatnonzero(person == 9).tolist())
    if largest == 4:
        assert sets.unsearched == 1
        expected = {s for s in expected if len(s) < 4 or not {i for i, _ in s} <= crowded}
    assert as_python(sets) == expected
    assert len(sets) == len(expected) > 5
    assert np.all(np.diff(sets.person) >= 0)
    np.testing.assert_array_equal(sets.person, person[sets.rows[:, 0]])
    assert np.all(sets.mismatch <= tolerance)


def test_cycles_and_repetitions_say_nothing() -> None:
    items = np.random.default_rng(0).standard_normal((3, 4))
    pairs = np.array([[0, 1], [1, 2], [2, 0], [0, 1], [1, 0]])
    sets = find_sets(items, pairs, np.zeros(5, dtype=int), tolerance=1e-9)
    assert len(sets) == 0
    assert sets.cycles > 0
    with pytest.raises(NotIdentifiedError, match="cycles"):
        MatchedMetric(items).fit(pairs, np.array([1, 1, 1, 1, -1]))


def test_answers_that_share_sets_share_weight() -> None:
    rows = np.array([[0, 1], [0, 2], [1, 2], [3, 4]])
    sets = Sets(rows, np.tile(np.array([1, -1], dtype=np.int8), (4, 1)), np.array([0, 0, 0, 1]), np.zeros(4))
    np.testing.assert_allclose(sets.overlap(), [2, 2, 2, 1])


# ------------------------------------------------------------------------------------------------ likelihood


def test_gradient_and_curvature_are_those_of_the_value(monkeypatch) -> None:
    model = likelihood_of(weight=np.random.default_rng(0).uniform(0.5, 2.0, size=180))
    a = np.random.default_rng(1).standard_normal(6)
    assert check_grad(model.value, model.gradient, a) < 1e-4
    step = 1e-6 * np.eye(6)
    numeric = np.array([(model.gradient(a + s) - model.gradient(a - s)) / 2e-6 for s in step])
    np.testing.assert_allclose(model.hessian(a), numeric, atol=1e-4)
    whole = model.value(a), model.gradient(a), model.hessian(a), model.squared_scores(a)
    monkeypatch.setattr("crowdmetric.users.conditioning.CHUNK", 64)  # several chunks, people across their boundaries
    for one, other in zip(
        whole, (model.value(a), model.gradient(a), model.hessian(a), model.squared_scores(a)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_squared_scores_add_up_people_first() -> None:
    model = likelihood_of(people=20)
    a = np.random.default_rng(1).standard_normal(6)
    x, x_ = model.items[model.pairs[model.rows, 0]], model.items[model.pairs[model.rows, 1]]
    D = np.sum(model.signs[:, :, None] * outer_difference(x - x_, x + x_), axis=1)
    slopes = -(model.weight * model.beta * model.outcome * expit(-model.margins(a)))[:, None] * D
    expected = sum(np.outer(g, g) for g in (slopes[model.person == k].sum(axis=0) for k in np.unique(model.person)))
    np.testing.assert_allclose(model.squared_scores(a), expected)


# -------------------------------------------------------------------------------------------------- optimum


def with_cvxpy(model: ConditionalLikelihood, psd: bool) -> float:
    d = model.dimension
    rows = np.stack([model.margins(e) for e in np.eye(degrees_of_freedom(d))], axis=1)
    rows = rows @ np.diag(1 / np.where(svec(np.ones((d, d))) == 1, 1, np.sqrt(2)))  # to entries of the upper triangle
    A = cp.Variable((d, d), PSD=psd, symmetric=None if psd else True)
    i, j = np.triu_indices(d)
    entries = cp.hstack([(1 if r == c else 2) * A[r, c] for r, c in zip(i, j, strict=True)])
    problem = cp.Problem(cp.Minimize(model.weight @ cp.logistic(-rows @ entries)))
    problem.solve(solver=cp.CLARABEL)
    return problem.value / model.total_weight


@pytest.mark.parametrize("psd", [True, False])
def test_optimum_is_that_of_cvxpy_and_the_gap_holds(psd: bool) -> None:
    model = likelihood_of(seed=9)
    result = solve_logistic(model, psd=psd, tolerance=1e-9)
    best = with_cvxpy(model, psd)
    assert result.converged
    assert result.gap <= 1e-9
    assert result.objective == pytest.approx(best, abs=1e-7)
    assert np.linalg.eigvalsh(result.symmetric)[0] < 0, "the cone is not active, so nothing is tested"
    assert (np.linalg.eigvalsh(result.metric)[0] >= -1e-12) == psd
    short = solve_logistic(model, psd=psd, tolerance=1e-9, max_iterations=4)
    assert not short.converged
    assert short.objective - result.objective <= short.gap + 1e-12


def test_ridge_is_a_penalty() -> None:
    model = likelihood_of(people=80)
    result = solve_logistic(model, psd=False, ridge=5.0, tolerance=1e-12)
    a = svec(result.metric)
    np.testing.assert_allclose(model.gradient(a) + 5.0 * a, 0.0, atol=1e-4)


# ------------------------------------------------------------------------------------------------ estimator


@pytest.mark.parametrize(("law", "most"), [("gaussian", 0.14), ("clusters", 0.20), ("heavy", 0.15)])
def test_twenty_thousand_people_with_two_answers(law: str, most: float) -> None:
    items, pairs, users, y, M = parallel_crowd(10, 20_000, law=law, seed=1)
    model = MatchedMetric(items).fit(pairs, y, users=users)
    assert relative_error(model.metric_, M) <= most
    assert model.n_matched_people_ == 20_000
    assert model.n_used_people_ == np.sum(y[::2] * y[1::2] * _same_side(items, pairs) < 0)
    assert f"{model.n_used_people_:,} of 20,000 people were used" in model.solution_.status


def _same_side(items: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    delta = items[pairs[:, 0]] - items[pairs[:, 1]]
    return np.sign(np.sum(delta[::2] * delta[1::2], axis=1))


@pytest.mark.parametrize("answers", [2, 4])
def test_standard_errors_cover(answers: int) -> None:
    covered = []
    for seed in range(12):
        items, pairs, users, y, M = parallel_crowd(3, 1500, answers=answers, seed=seed)
        model = MatchedMetric(items, constraint="symmetric").fit(pairs, y, users=users)
        covered.append(
            np.abs(model.metric_ - M)[np.triu_indices(3)] < 1.645 * model.standard_errors_[np.triu_indices(3)]
        )
    assert 0.82 <= np.mean(covered) <= 0.97  # 90 %, of 72 entries


def test_more_answers_help() -> None:
    errors = []
    for answers in (2, 4):
        items, pairs, users, y, _ = parallel_crowd(3, 1000, answers=answers)
        model = MatchedMetric(items).fit(pairs, y, users=users)
        errors.append(np.linalg.norm(model.standard_errors_))
    assert errors[1] < 0.75 * errors[0]  # four parallel answers are three degrees of freedom, not one


def test_order_sides_and_origin_do_not_matter() -> None:
    items, pairs, users, y, _ = parallel_crowd(3, 400, mismatch=0.05)
    options = {"max_mismatch": 0.2, "constraint": "symmetric"}
    reference = MatchedMetric(items, **options).fit(pairs, y, users=users).metric_
    order = np.random.default_rng(0).permutation(len(y))
    swapped = np.random.default_rng(1).random(len(y)) < 0.5
    pairs_, y_ = np.where(swapped[:, None], pairs[:, ::-1], pairs)[order], np.where(swapped, -y, y)[order]
    np.testing.assert_allclose(
        MatchedMetric(items, **options).fit(pairs_, y_, users=users[order]).metric_, reference, atol=1e-6
    )
    np.testing.assert_allclose(
        MatchedMetric(items + 7.0, **options).fit(pairs, y, users=users).metric_, reference, atol=1e-5
    )
    table = Comparisons.from_arrays(users, pairs, response=y, n_items=len(items))
    np.testing.assert_allclose(MatchedMetric(items, **options).fit(table).metric_, reference, atol=1e-6)


def test_every_option_changes_something() -> None:
    items, pairs, users, y, _ = parallel_crowd(3, 400, answers=3, mismatch=0.02)
    base = {"max_mismatch": 0.1, "constraint": "symmetric"}
    reference = MatchedMetric(items, **base).fit(pairs, y, users=users).metric_
    for option in ({"beta": 2.0}, {"max_mismatch": 0.03}, {"ridge": 10.0}, {"center": np.ones(3)}):
        other = MatchedMetric(items, **(base | option)).fit(pairs, y, users=users).metric_
        assert np.linalg.norm(other - reference) > 1e-4, option
    weighted = MatchedMetric(items, **base).fit(pairs, y, users=users, sample_weight=np.linspace(0.1, 2, len(y)))
    assert np.linalg.norm(weighted.metric_ - reference) > 1e-4


def test_larger_sets_are_used() -> None:
    rng = np.random.default_rng(0)
    K, d = 1500, 2
    M, u = np.diag([2.0, 1.0]), rng.standard_normal((K, d)) / 2
    delta = rng.standard_normal((K, 3, d))
    delta[:, 2] = -delta[:, 0] - delta[:, 1]
    middle = rng.standard_normal((K, 3, d))
    items = np.stack([middle + delta / 2, middle - delta / 2], axis=2).reshape(-1, d)
    pairs, users = np.arange(6 * K).reshape(-1, 2), np.repeat(np.arange(K), 3)
    y = answer(items, pairs, u[users], M, seed=1)
    model = MatchedMetric(items).fit(pairs, y, users=users)
    assert np.all(np.abs(model.metric_ - M) < 4 * model.standard_errors_)
    with pytest.raises(NotIdentifiedError, match="nobody was asked two parallel questions"):
        MatchedMetric(items, largest_set=2).fit(pairs, y, users=users)


def test_too_few_answers_have_no_maximum_and_a_ridge_gives_one() -> None:
    items, pairs, users, y, _ = parallel_crowd(4, 15)
    with pytest.raises(NotIdentifiedError, match=r"no maximum; .* ridge=1"):
        MatchedMetric(items).fit(pairs, y, users=users)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotIdentifiedWarning)
        model = MatchedMetric(items, ridge=1.0).fit(pairs, y, users=users)
    assert model.solution_.converged
    assert model.ridge_ == 1.0


def test_directions_out_of_reach_are_named() -> None:
    items, pairs, users, y, _ = parallel_crowd(2, 600)
    flat = np.column_stack([items, np.zeros(len(items))])  # nothing is known of the third feature
    with (
        pytest.warns(NotIdentifiedWarning, match="all items are alike in 'f2'"),
        pytest.warns(NotIdentifiedWarning, match=r"3 of the 6 degrees of freedom .* M\["),
    ):
        model = MatchedMetric(flat).fit(pairs, y, users=users)
    assert np.all(np.isinf(model.standard_errors_[2]))
    assert np.all(np.isfinite(model.standard_errors_[:2, :2]))
    np.testing.assert_allclose(model.metric_[2], 0.0, atol=1e-6)


def test_nobody_is_located_until_asked() -> None:
    items, pairs, users, y, _ = parallel_crowd(2, 600)
    model = MatchedMetric(items).fit(pairs, y, users=users)
    with pytest.raises(DataError, match="place people first"):
        model.predict(pairs, users=users)
    placed = model.place(pairs, y, users, ideal_bound=4.0)
    assert isinstance(placed, IdealPointMetric)
    np.testing.assert_allclose(placed.metric_, model.metric_)
    assert placed.score(pairs, y, users=users) > 0.6


def test_saved_and_loaded(tmp_path) -> None:
    items, pairs, users, y, _ = parallel_crowd(2, 600)
    model = MatchedMetric(items).fit(pairs, y, users=users)
    save_model(tmp_path / "model", model)
    again = load_model(tmp_path / "model")
    assert "people were used" in again.summary()
    twin = again.estimator()
    np.testing.assert_array_equal(twin.standard_errors_, model.standard_errors_)
    np.testing.assert_array_equal(twin.transform(items), model.transform(items))


def test_the_old_name_of_a_mismatch_still_works_and_says_so() -> None:
    ask = matched_from_generator(2, people=200, seed=0)
    y = answer(ask.items, ask.pairs, np.zeros((len(ask.pairs), 2)), np.eye(2), seed=1)
    with pytest.warns(FutureWarning, match="write max_mismatch"):
        old = MatchedMetric(ask.items, tolerance=1e-4).fit(ask.pairs, y, users=ask.person)
    new = MatchedMetric(ask.items, max_mismatch=1e-4).fit(ask.pairs, y, users=ask.person)
    np.testing.assert_array_equal(old.metric_, new.metric_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "probit"}, "logistic answers only"),
        ({"loss": "squared"}, "logistic answers only"),
        ({"constraint": "diagonal"}, "choose one of 'psd', 'symmetric'"),
        ({"largest_set": 5}, "is not 2, 3 or 4"),
        ({"max_mismatch": -1.0}, "max_mismatch=-1.0 is not a positive"),
        ({"max_mismatch": 1.0}, "accepts any two questions"),
        ({"ridge": -1.0}, "ridge=-1.0 is not a positive"),
        ({"center": [0.0]}, r"center has shape \(1,\)"),
        ({"max_iter": 0}, "max_iter=0"),
    ],
)
def test_bad_options_get_a_sentence(options, message: str) -> None:
    items, pairs, users, y, _ = parallel_crowd(2, 50)
    with pytest.raises(DataError, match=message):
        MatchedMetric(items, **options).fit(pairs, y, users=users)


def test_nobody_differs() -> None:
    items = np.array([[0.0], [1.0], [2.0], [3.0]])
    with pytest.raises(NotIdentifiedError, match="nobody answered them differently"):
        MatchedMetric(items).fit([[0, 1], [2, 3]], [1, 1])


def test_from_a_shell(tmp_path, capsys) -> None:
    items, pairs, users, y, _ = parallel_crowd(2, 600)
    write_columns({"item_id": np.arange(len(items)), "a": items[:, 0], "b": items[:, 1]}, tmp_path / "items.csv")
    table = {"user": users, "left": pairs[:, 0], "right": pairs[:, 1], "response": y}
    write_columns(table, tmp_path / "answers.csv")
    files = [str(tmp_path / "items.csv"), str(tmp_path / "answers.csv")]
    options = ["--estimator", "matched", "--max-mismatch", "1e-4", "--constraint", "symmetric", "--ridge", "0.1"]
    assert main(["fit", *files, *options, "--out", str(tmp_path / "model")]) == 0
    assert "of 600 people were used" in capsys.readouterr().out
    assert main(["predict", str(tmp_path / "model"), files[1]]) == 1
    assert "place people first" in capsys.readouterr().err
