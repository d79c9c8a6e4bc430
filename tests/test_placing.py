"""People under known metrics: against other solvers, against the joint solution, and their own certificate."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize

from crowdmetric.bounded.barrier import solve_barrier
from crowdmetric.bounded.placing import place_people, spans_of
from crowdmetric.losses import LOSSES, Loss, get_loss
from crowdmetric.users.blocks import Answers, arrange

each_loss = pytest.mark.parametrize("loss", LOSSES)
each_rank = pytest.mark.parametrize("r", [1, 2, 3])

COUNTS = [1, 2, 3, 4, 5, 6, 0]  # answers of each person; the last says nothing
RADIUS = 1.5


def crowd(r: int, loss: Loss, seed: int = 0) -> tuple[Answers, np.ndarray]:
    """Ragged, weighted people in two problems, and a metric for each."""
    rng = np.random.default_rng(seed)
    T, K = sum(COUNTS), len(COUNTS)
    answers = Answers(
        items=rng.standard_normal((2 * T, r)),
        pairs=np.arange(2 * T).reshape(T, 2),
        response=rng.choice([-1.0, 1.0], T) if loss.needs_binary else 2.0 * rng.standard_normal(T),
        weight=rng.uniform(0.2, 2.0, T),
        person=np.repeat(np.arange(K), COUNTS),
        problem=np.arange(K) % 2,
        n_problems=2,
    )
    G = rng.standard_normal((2, r, r))
    return answers, G @ np.swapaxes(G, 1, 2)


def of_person(answers: Answers, metrics: np.ndarray, k: int):
    """Return ``⟨Δ, M⟩``, δ, y and weights of one person, written apart from the library."""
    rows = answers.person == k
    x, x_ = (answers.items[answers.pairs[rows, side]] for side in (0, 1))
    M = metrics[answers.problem[k]]
    offset = np.einsum("ti,ij,tj->t", x, M, x) - np.einsum("ti,ij,tj->t", x_, M, x_)
    return offset, x - x_, answers.response[rows], answers.weight[rows]


def total_loss(loss: Loss, person, w: np.ndarray) -> float:
    offset, delta, y, weight = person
    return float(weight @ loss.value(offset + delta @ w, y))


def least_loss(loss: Loss, person, radius: float) -> float:
    """One person's optimum by another solver: Clarabel, or SLSQP for the probit, which CVXPY only approximates."""
    offset, delta, y, weight = person
    if loss.name == "probit":
        ball = {"type": "ineq", "fun": lambda w: radius**2 - w @ w, "jac": lambda w: -2.0 * w}
        slope = lambda w: delta.T @ (weight * loss.slope(offset + delta @ w, y))  # noqa: E731
        options = {"ftol": 1e-14, "maxiter": 500}
        found = minimize(
            lambda w: total_loss(loss, person, w), np.zeros(delta.shape[1]),
            jac=slope, constraints=[ball], method="SLSQP", options=options,
        )  # fmt: skip
        return float(found.fun)
    w = cp.Variable(delta.shape[1])
    psi = offset + delta @ w
    value = {
        "logistic": cp.logistic(-cp.multiply(y, psi)),
        "hinge": cp.pos(1 - cp.multiply(y, psi)),
        "squared": 0.5 * cp.square(psi - y),
    }[loss.name]
    program = cp.Problem(cp.Minimize(weight @ value), [cp.norm(w) <= radius])
    return program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)


@each_loss
@each_rank
def test_everybody_is_placed_at_their_own_optimum(loss: str, r: int) -> None:
    found = get_loss(loss)
    answers, metrics = crowd(r, found)
    radii = np.array([RADIUS, 0.5 * RADIUS])
    placed = place_people(arrange(answers), found, metrics, radii)
    assert placed.converged
    total = 0.0
    for k, count in enumerate(COUNTS):
        w, radius = placed.pseudo_ideal_points[k], radii[answers.problem[k]]
        assert np.linalg.norm(w) <= radius * (1 + 1e-14)
        if count == 0:
            assert np.all(w == 0.0)
            continue
        person = of_person(answers, metrics, k)
        ours = total_loss(found, person, w)
        assert ours == pytest.approx(least_loss(found, person, radius), abs=1e-6)
        total += ours
    assert placed.objective == pytest.approx(total / answers.weight.sum(), rel=1e-12)


@each_loss
@each_rank
def test_under_the_joint_optimum_people_stay_where_they_were(loss: str, r: int) -> None:
    found = get_loss(loss)
    answers, _ = crowd(r, found, seed=1)
    people, radii = arrange(answers), np.full(2, RADIUS)
    joint = solve_barrier(people, found, np.full(2, 2.0), radii, tolerance=1e-9)
    placed = place_people(people, found, joint.metrics, radii, tolerance=1e-9)
    assert np.all(joint.converged)
    for k in range(len(COUNTS) - 1):
        person = of_person(answers, joint.metrics, k)
        there, here = (total_loss(found, person, result.pseudo_ideal_points[k]) for result in (joint, placed))
        # the joint certificate is of a problem's mean, a person's of their own total
        assert here == pytest.approx(there, abs=1e-9 * answers.weight.sum())
        # Strictly convex in w: the optimum is one point, found to about the root of the tolerance.
        if loss != "hinge" and COUNTS[k] > r:
            np.testing.assert_allclose(placed.pseudo_ideal_points[k], joint.pseudo_ideal_points[k], atol=2e-4)


@each_loss
def test_certificate_holds_wherever_it_stops(loss: str) -> None:
    found = get_loss(loss)
    for seed in range(10):
        answers, metrics = crowd(2, found, seed)
        people, radii = arrange(answers), np.full(2, RADIUS)
        best = place_people(people, found, metrics, radii).objective
        for iterations in (1, 2, 3, 4):
            early = place_people(people, found, metrics, radii, max_iterations=iterations)
            assert not early.converged
            assert early.objective - early.gap <= best + 1e-12, f"seed {seed}, {iterations} iterations"


@each_loss
def test_weights(loss: str) -> None:
    """A row of weight zero is left out, and a row twice is a row of twice the weight."""
    found = get_loss(loss)
    answers, metrics = crowd(2, found)
    people, radii = arrange(answers), np.full(2, RADIUS)
    heavier = answers.weight.copy()
    heavier[7] *= 2.0
    heavier[9] = 0.0
    rows = np.append(np.delete(np.arange(heavier.size), 9), 7)
    ours = place_people(people.reweighted(heavier), found, metrics, radii)
    theirs = place_people(arrange(answers.take(rows)), found, metrics, radii)
    again = place_people(arrange(replace(answers, weight=heavier)), found, metrics, radii)
    assert ours.objective == pytest.approx(theirs.objective, abs=1e-7)
    assert ours.objective == pytest.approx(again.objective, abs=1e-14)
    assert ours.objective != pytest.approx(place_people(people, found, metrics, radii).objective, abs=1e-4)


@each_loss
def test_the_size_of_the_weights_does_not_matter(loss: str) -> None:
    found = get_loss(loss)
    answers, metrics = crowd(2, found)
    ours = place_people(arrange(answers), found, metrics, np.full(2, RADIUS))
    tiny = place_people(arrange(replace(answers, weight=1e-6 * answers.weight)), found, metrics, np.full(2, RADIUS))
    assert ours.converged
    assert tiny.converged
    assert tiny.gap <= 1e-8
    assert tiny.objective == pytest.approx(ours.objective, abs=2e-8)


@each_loss
@each_rank
def test_only_some_problems_are_placed(loss: str, r: int) -> None:
    found = get_loss(loss)
    answers, metrics = crowd(r, found)
    people, radius = arrange(answers), np.full(2, RADIUS)
    every = place_people(people, found, metrics, radius)
    first = place_people(people, found, metrics, radius, only=np.array([True, False]), spans=spans_of(people))
    second = place_people(people, found, metrics, radius, only=np.array([False, True]), spans=spans_of(people))
    mine = (answers.problem == 0)[:, None]
    np.testing.assert_allclose(first.pseudo_ideal_points, np.where(mine, every.pseudo_ideal_points, 0.0), atol=1e-12)
    weight = [answers.weight[answers.problem[answers.person] == k].sum() for k in (0, 1)]
    both = np.average([first.objective, second.objective], weights=weight)
    np.testing.assert_allclose(both, every.objective, rtol=1e-12)


def on_a_line(seed: int, loss: Loss, m: int = 5, size: float = 1.0) -> tuple[Answers, np.ndarray]:
    """Forty people on a line, with some answers that say nothing: no weight, or two items in one place."""
    rng = np.random.default_rng(seed)
    items = size * rng.standard_normal((2 * 40 * m, 1))
    items[1] = items[0]
    answers = Answers(
        items=items,
        pairs=np.arange(2 * 40 * m).reshape(-1, 2),
        response=rng.choice([-1.0, 1.0], 40 * m),
        weight=rng.choice([0.0, 0.5, 1.0], 40 * m),
        person=np.repeat(np.arange(40), m),
        problem=np.zeros(40, dtype=np.intp),
        n_problems=1,
    )
    return answers, np.full((1, 1, 1), rng.uniform(0.0, 2.0))


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
def test_on_a_line_nobody_could_be_better_placed(loss: str, size: float) -> None:
    found = get_loss(loss)
    for seed in range(5):
        answers, metrics = on_a_line(seed, found, size=size)
        placed = place_people(arrange(answers), found, metrics, np.array([RADIUS]))
        assert placed.converged
        line = np.linspace(-RADIUS, RADIUS, 4001)
        for k in range(40):
            person = of_person(answers, metrics, k)
            least = min(total_loss(found, person, np.array([x])) for x in line)
            ours = total_loss(found, person, placed.pseudo_ideal_points[k])
            assert ours <= least + 1e-7 * max(person[3].sum(), 1.0)


def test_on_a_line_a_certificate_holds_wherever_it_stops() -> None:
    found = get_loss("logistic")
    for seed in range(10):
        answers, metrics = on_a_line(seed, found, size=5.0)
        people, radii = arrange(answers), np.array([RADIUS])
        best = place_people(people, found, metrics, radii).objective
        for iterations in (1, 2, 3):
            early = place_people(people, found, metrics, radii, max_iterations=iterations)
            assert not early.converged
            assert early.iterations == iterations
            assert early.objective - early.gap <= best + 1e-12


def test_hinge_answers_that_leave_a_stretch_open_place_somebody_in_its_middle() -> None:
    answers = Answers(
        items=np.array([[5.0], [0.0], [1.0], [0.0]]),
        pairs=np.array([[0, 1], [2, 3]]),
        response=np.array([1.0, 1.0]),
        weight=np.ones(2),
        person=np.zeros(2, dtype=np.intp),
        problem=np.zeros(1, dtype=np.intp),
        n_problems=1,
    )
    placed = place_people(arrange(answers), get_loss("hinge"), np.zeros((1, 1, 1)), np.array([2.0]))
    # 5w ≥ 1 and w ≥ 1: nothing is lost from 1 to the end of the ball at 2
    np.testing.assert_allclose(placed.pseudo_ideal_points, [[1.5]])
    assert placed.objective == 0.0
