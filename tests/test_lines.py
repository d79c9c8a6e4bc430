"""People and metrics on lines: against the interior point, and their own certificate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crowdmetric.bounded.barrier import solve_barrier
from crowdmetric.bounded.line_subspaces import solve_bounded, solve_lines
from crowdmetric.losses import Logistic
from crowdmetric.simulate import responses
from crowdmetric.users.blocks import Answers, arrange

PROBLEMS = 12


def crowd(seed: int, *, size: float = 1.0, honest: bool = True) -> Answers:
    """Ragged, weighted people on twelve lines; one of the lines has none, and some people say nothing."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 7, 90)
    T = int(counts.sum())
    items = size * rng.standard_normal((2 * T, 1))
    x, x_ = items[::2, 0], items[1::2, 0]
    u = rng.standard_normal(90)[np.repeat(np.arange(90), counts)]
    psi = 1.5 * ((x - u) ** 2 - (x_ - u) ** 2) if honest else rng.standard_normal(T)
    return Answers(
        items=items,
        pairs=np.arange(2 * T).reshape(T, 2),
        response=responses(psi, 1.0, rng).astype(float),
        weight=rng.uniform(0.0, 2.0, T) * (rng.random(T) < 0.9),
        person=np.repeat(np.arange(90), counts),
        problem=np.arange(90) % (PROBLEMS - 1),
        n_problems=PROBLEMS,
    )


CASES = {
    "ordinary": ({}, 2.0, 1.5),
    "bounds that bind": ({}, 0.3, 0.2),
    "bounds that never do": ({}, 100.0, 200.0),
    "answers against any metric": ({"honest": False}, 5.0, 3.0),
    "items near each other": ({"size": 0.01}, 2.0, 1.5),
    "items far apart": ({"size": 40.0}, 2.0, 1.5),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("beta", [0.2, 1.0, 6.0])
def test_optimum_is_that_of_the_interior_point(case: str, beta: float) -> None:
    options, metric_radius, ideal_radius = CASES[case]
    for seed in range(3):
        people, loss = arrange(crowd(seed, **options)), Logistic(beta)
        radii = np.full(PROBLEMS, metric_radius), np.full(PROBLEMS, ideal_radius)
        ours = solve_lines(people, loss, *radii, tolerance=1e-9)
        theirs = solve_barrier(people, loss, *radii, tolerance=1e-9)
        assert np.all(ours.converged)
        np.testing.assert_allclose(ours.objective, theirs.objective, atol=2e-9)
        assert np.all(ours.metrics >= 0.0)
        assert np.all(ours.metrics <= metric_radius)
        assert np.all(np.abs(ours.pseudo_ideal_points) <= ideal_radius)


def test_metric_and_information_are_those_of_the_interior_point_where_one_metric_is_best() -> None:
    people, loss, radii = arrange(crowd(0)), Logistic(1.0), (np.full(PROBLEMS, 9.0), np.full(PROBLEMS, 3.0))
    ours = solve_lines(people, loss, *radii, tolerance=1e-11)
    theirs = solve_barrier(people, loss, *radii, tolerance=1e-11)
    inside = (ours.metrics[:-1, 0, 0] > 0.05) & (ours.metrics[:-1, 0, 0] < 8.9)
    assert inside.sum() >= 4
    np.testing.assert_allclose(ours.metrics[:-1][inside], theirs.metrics[:-1][inside], rtol=1e-4)
    np.testing.assert_allclose(ours.information[:-1][inside], theirs.information[:-1][inside], rtol=1e-3)


def test_certificate_holds_wherever_it_stops() -> None:
    loss, radii = Logistic(1.0), (np.full(PROBLEMS, 5.0), np.full(PROBLEMS, 2.0))
    for seed in range(5):
        people = arrange(crowd(seed))
        best = solve_lines(people, loss, *radii, tolerance=1e-12).objective
        for iterations in (1, 2, 3):
            early = solve_lines(people, loss, *radii, tolerance=1e-12, max_iterations=iterations)
            assert not np.all(early.converged)
            assert np.all(early.objective - early.gap <= best + 1e-12)


def test_only_some_problems_leaves_the_others_alone() -> None:
    answers, loss, radii = crowd(3), Logistic(1.0), (np.full(PROBLEMS, 5.0), np.full(PROBLEMS, 2.0))
    every = solve_lines(arrange(answers), loss, *radii)
    chosen = np.arange(PROBLEMS) % 3 == 0
    some = solve_lines(arrange(answers), loss, *radii, only=chosen)
    np.testing.assert_array_equal(some.metrics[chosen], every.metrics[chosen])
    assert np.all(np.isinf(some.gap[~chosen][:-1]))
    assert np.all(some.pseudo_ideal_points[~chosen[answers.problem]] == 0.0)


def test_heavier_answers_are_more_answers() -> None:
    answers, loss, radii = crowd(4), Logistic(1.0), (np.full(PROBLEMS, 5.0), np.full(PROBLEMS, 2.0))
    twice = replace(answers, weight=2.0 * answers.weight)
    one, two = (solve_lines(arrange(a), loss, *radii, tolerance=1e-11) for a in (answers, twice))
    np.testing.assert_allclose(one.metrics, two.metrics, rtol=1e-6)


def test_lines_are_solved_as_lines() -> None:
    people, radii = arrange(crowd(5)), (np.full(PROBLEMS, 5.0), np.full(PROBLEMS, 2.0))
    ours, theirs = (f(people, Logistic(1.0), *radii) for f in (solve_bounded, solve_lines))
    np.testing.assert_array_equal(ours.metrics, theirs.metrics)
