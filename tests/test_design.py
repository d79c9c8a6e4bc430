"""Designs: promises against what is then measured, search against all quadruples, tables that can be handed out."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.special import expit

from crowdmetric.design import Questionnaire, matched_from_catalogue, matched_from_generator
from crowdmetric.design.information import MatchedCandidates, apportion, optimal_weights, reached
from crowdmetric.design.parallelograms import find_parallelograms
from crowdmetric.errors import DataError, NotIdentifiedError
from crowdmetric.estimators import MatchedMetric
from crowdmetric.simulate import answer, sample_metric
from crowdmetric.symmetric import relative_error, svec
from crowdmetric.tables import read_columns, read_items


def measured(ask: Questionnaire, metric: np.ndarray, ideal_points: np.ndarray, runs: int, **options) -> float:
    """Return the root mean square relative error of MatchedMetric over fresh crowds."""
    errors = []
    for seed in range(runs):
        people = ideal_points[np.random.default_rng(seed).integers(len(ideal_points), size=ask.n_people)]
        y = answer(ask.items, ask.pairs, people[ask.person], metric, seed=100 + seed)
        model = MatchedMetric(ask.items, constraint="symmetric", **options).fit(ask.pairs, y, users=ask.person)
        errors.append(relative_error(model.metric_, metric))
    return float(np.sqrt(np.mean(np.square(errors))))


@pytest.mark.parametrize(("d", "people", "questions"), [(4, 4000, 2), (4, 2000, 4), (6, 6000, 2)])
def test_promise_is_kept_on_exact_parallelograms(d: int, people: int, questions: int) -> None:
    M = sample_metric(d, np.random.default_rng(d))
    crowd = np.random.default_rng(1).standard_normal((5000, d)) / np.sqrt(d)
    ask = matched_from_generator(d, people, questions=questions, metric=M, doubt=0.1, ideal_points=crowd)
    assert ask.expected_bias < 1e-10
    assert measured(ask, M, crowd, runs=25) == pytest.approx(ask.expected_error, rel=0.2)


def test_promise_without_a_guess_is_kept_on_average() -> None:
    ask = matched_from_generator(5, 6000)
    crowd = np.random.default_rng(1).standard_normal((5000, 5)) / np.sqrt(5)
    errors = []
    for seed in range(12):
        W = np.random.default_rng(seed).standard_normal((5, 6))
        errors.append(measured(ask, 5 / np.sqrt(11) * W @ W.T / 6, crowd, runs=1))
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(ask.expected_error, rel=0.3)


def test_promise_is_kept_on_a_catalogue_bias_included() -> None:
    rng = np.random.default_rng(0)
    items, M = rng.standard_normal((3000, 3)), np.diag([1.5, 1.0, 0.5])
    ask = matched_from_catalogue(items, 8000, tolerance=0.25, metric=M, doubt=0.1, differences=100_000)
    crowd = rng.standard_normal((5000, 3))
    assert ask.expected_bias > 0
    assert measured(ask, M, crowd, runs=10, tolerance=0.26) == pytest.approx(ask.expected_error, rel=0.25)


def test_a_guess_helps_and_a_wrong_one_does_not_ruin() -> None:
    M = sample_metric(5, np.random.default_rng(3))
    crowd = np.random.default_rng(1).standard_normal((5000, 5)) / np.sqrt(5)
    guessed, blind = (
        measured(matched_from_generator(5, 4000, metric=guess, ideal_points=crowd), M, crowd, runs=3)
        for guess in (M, None)
    )
    assert guessed < blind < 0.5


# ----------------------------------------------------------------------------------------------- information


def test_information_and_score_are_expectations() -> None:
    rng = np.random.default_rng(0)
    M, beta, center, people = sample_metric(3, rng), 0.8, rng.standard_normal(3), rng.standard_normal((40, 3))
    quads = rng.standard_normal((5, 2, 2, 3))  # not parallel at all: the formulas must hold anyway
    known = MatchedCandidates(quads, beta, center)
    plus, minus, eta = known.chances(M, people)
    for c, (first, second) in enumerate(quads):
        chances = np.zeros(2)
        for u in people:
            p1, p2 = (expit(beta * ((x - u) @ M @ (x - u) - (x_ - u) @ M @ (x_ - u))) for x, x_ in (first, second))
            chances += np.array([p1 * (1 - p2), p2 * (1 - p1)]) / len(people)
        np.testing.assert_allclose([plus[c], minus[c]], chances)
        x, x_, z, z_ = (point - center for point in (*first, *second))
        D = np.outer(x, x) - np.outer(x_, x_) - np.outer(z, z) + np.outer(z_, z_)
        np.testing.assert_allclose(known.D[c], beta * svec(D), atol=1e-12)
        assert eta[c] == pytest.approx(beta * np.sum(D * M))
    one = known.robust_rows(M[None], people)
    expected = np.sqrt((plus + minus) * expit(eta) * expit(-eta))[:, None] * known.D
    np.testing.assert_allclose(one, expected)


def test_optimal_weights_satisfy_the_equivalence_theorem() -> None:
    rows = np.random.default_rng(0).standard_normal((60, 4)) * np.array([1.0, 1.0, 0.3, 2.0])
    w = optimal_weights(rows, iterations=5000)
    assert w.sum() == pytest.approx(1.0)
    inverse = np.linalg.inv((rows * w[:, None]).T @ rows)
    # A-optimality: ‖I⁻¹x‖² ≤ tr I⁻¹ for every candidate, up to where iteration was stopped
    assert np.max(np.sum((rows @ inverse) ** 2, axis=1)) <= 1.25 * np.trace(inverse)
    assert np.trace(inverse) < 0.8 * np.trace(np.linalg.inv(rows.T @ rows / 60))
    assert reached(rows) == 4
    assert reached(rows[:2]) == 2


def test_apportion() -> None:
    np.testing.assert_array_equal(apportion(np.array([0.5, 0.3, 0.2]), 10), [5, 3, 2])
    counts = apportion(np.random.default_rng(0).random(17), 101)
    assert counts.sum() == 101


# ---------------------------------------------------------------------------------------------------- search


def test_search_finds_most_parallelograms() -> None:
    items = np.random.default_rng(0).standard_normal((16, 2))
    found = find_parallelograms(items, tolerance=0.1)
    truth = set()
    for i, j, k, l in permutations(range(16), 4):  # noqa: E741 - corners
        a, b = items[i] - items[j], items[k] - items[l]
        if np.linalg.norm(a - b) <= 0.05 * (np.linalg.norm(a) + np.linalg.norm(b)):
            truth.add(frozenset({(i, j), (k, l)}))
    ours = {frozenset(map(tuple, quad)) for quad in found.corners.tolist()}
    both_ways = {frozenset({(j, i), (l, k)}) for quad in ours for (i, j), (k, l) in [tuple(quad)]}  # noqa: E741
    four_corners = {quad for quad in ours | both_ways if len({c for pair in quad for c in pair}) == 4}
    assert four_corners <= truth
    assert len(four_corners) > 0.8 * len(truth) > 10
    assert np.all(found.mismatch <= 0.1)


def test_search_among_grid_points_is_exact_and_many_items_are_no_trouble() -> None:
    grid = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1).reshape(-1, 3)
    found = find_parallelograms(grid, tolerance=1e-6, differences=5000)
    assert found.closest == 0
    assert len(found.mismatch) > 1000
    delta = grid[found.corners[:, :, 0]] - grid[found.corners[:, :, 1]]
    np.testing.assert_array_equal(delta[:, 0], delta[:, 1])


def test_a_catalogue_without_parallelograms_says_so() -> None:
    items = np.random.default_rng(0).standard_normal((50, 20))
    with pytest.raises(
        NotIdentifiedError, match=r"no parallelogram within tolerance=0.05 .* make items for the purpose"
    ):
        matched_from_catalogue(items, 1000, tolerance=0.05)


# ---------------------------------------------------------------------------------------------------- tables


def test_the_table_can_be_handed_out(tmp_path) -> None:
    ask = matched_from_generator(3, 200, questions=4, seed=5)
    assert len(ask) == 800
    assert ask.n_people == 200
    np.testing.assert_array_equal(ask.person, np.repeat(np.arange(200), 4))
    np.testing.assert_array_equal(np.unique(ask.pairs), np.arange(len(ask.items)))
    sides = np.mean(ask.items[ask.left, 0] > ask.items[ask.right, 0])
    assert 0.4 < sides < 0.6
    ask.write(tmp_path / "questions.csv")
    ask.write_items(tmp_path / "items.csv")
    table = read_columns(tmp_path / "questions.csv")
    assert list(table) == ["person", "question", "left", "right"]
    np.testing.assert_array_equal(table["left"], ask.left)
    np.testing.assert_allclose(read_items(tmp_path / "items.csv").features, ask.items)
    again = matched_from_generator(3, 200, questions=4, seed=5)
    np.testing.assert_array_equal(again.pairs, ask.pairs)
    assert "800 questions to 200 people" in ask.summary()
    assert "Expected relative error" in ask.summary()


def test_a_catalogue_keeps_its_names() -> None:
    items = np.random.default_rng(0).standard_normal((400, 2))
    names = np.array([f"item {i}" for i in range(400)])
    ask = matched_from_catalogue(items, 500, item_ids=names)
    np.testing.assert_array_equal(ask.columns()["left"], names[ask.left])
    assert ask.items is not None
    assert not ask.new_items
    assert "max_mismatch=0.2" in ask.advice
    assert "of 400 items" in ask.summary()


def test_reach_is_kept() -> None:
    ask = matched_from_generator(3, 2000, reach=0.7, ideal_points=np.zeros((10, 3)))
    assert np.linalg.norm(ask.items, axis=1).max() <= 0.7 + 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"questions": 3}, "odd"),
        ({"people": 0}, "people=0"),
        ({"metric": -np.eye(3)}, "eigenvalue"),
        ({"beta": 0.0}, "beta=0.0"),
        ({"doubt": -1.0}, "doubt=-1.0"),
        ({"reach": -1.0}, "reach=-1.0"),
        ({"ideal_points": np.zeros((4, 2))}, "2 features"),
        ({"people": 4}, "ask more people"),
    ],
)
def test_bad_options_get_a_sentence(options, message: str) -> None:
    with pytest.raises((DataError, NotIdentifiedError), match=message):
        matched_from_generator(**({"dimension": 3, "people": 100} | options))
