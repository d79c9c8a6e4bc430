"""Radii chosen from the data: repeatable, blocked by person, better than others, and nothing leaks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from crowdmetric.bounded import radii
from crowdmetric.bounded.radii import PARTS, choose_radii
from crowdmetric.errors import DataError
from crowdmetric.estimators import IdealPointMetric
from crowdmetric.losses import LOSSES, Loss, get_loss
from crowdmetric.simulate import SimulatedCrowd, simulate_crowd
from crowdmetric.users.blocks import Answers, People

FOLDS = 3


def answers_of(crowd: SimulatedCrowd, loss: Loss) -> Answers:
    K = int(crowd.users.max()) + 1
    y = crowd.y.astype(float) if loss.needs_binary else crowd.psi
    zeros = np.zeros(K, dtype=np.intp)
    return Answers(crowd.items, crowd.pairs, y, np.ones(y.size), crowd.users, zeros, 1)


def small(loss: str = "logistic", seed: int = 0) -> tuple[Answers, Loss]:
    found = get_loss(loss)
    return answers_of(simulate_crowd(2, None, None, users=12, comparisons=6, seed=seed), found), found


def choose(answers: Answers, loss: Loss, **options: Any) -> radii.Radii:
    return choose_radii([answers], [np.arange(answers.problem.size)], loss, folds=FOLDS, **options)


@dataclass(frozen=True)
class Group:
    """One person in one problem of one call, told by their questions, however the library numbers them."""

    rows: frozenset[int]  # all that they were asked, as rows of the caller's answers
    used: frozenset[int]  # what counts
    metric: bytes | None  # under which they were placed
    w: np.ndarray


class Spy:
    """Stands in for both solvers of `radii`: does what they do and keeps who taught, and who was placed how."""

    def __init__(self, patch: pytest.MonkeyPatch, *entries: Answers) -> None:
        self.row_of = {
            tuple((a.items[left] - a.items[right]).round(12)): row
            for a in entries
            for row, (left, right) in enumerate(a.pairs)
        }
        self.taught: list[list[Group]] = []  # an entry for every problem of every call
        self.placed: list[list[Group]] = []
        solve, place = radii.solve_bounded, radii.place_people

        def teaching(people: People, *arguments: Any, **options: Any) -> Any:
            result = solve(people, *arguments, **options)
            self._keep(self.taught, people, result.pseudo_ideal_points, None)
            return result

        def placing(people: People, loss: Loss, metrics: np.ndarray, *arguments: Any, **options: Any) -> Any:
            result = place(people, loss, metrics, *arguments, **options)
            self._keep(self.placed, people, result.pseudo_ideal_points, metrics)
            return result

        patch.setattr(radii, "solve_bounded", teaching)
        patch.setattr(radii, "place_people", placing)

    def _keep(self, kept: list, people: People, points: np.ndarray, metrics: np.ndarray | None) -> None:
        problems: dict[int, list[Group]] = {}
        for block in people:
            for i, k in enumerate(block.person):
                rows = [self.row_of[tuple(d.round(12))] for d in block.delta[i]]
                used = [row for row, weight in zip(rows, block.weight[i], strict=True) if weight > 0]
                asked = [row for row, place in zip(rows, block.rows[i], strict=True) if place >= 0]
                metric = None if metrics is None else metrics[block.problem[i]].tobytes()
                group = Group(frozenset(asked), frozenset(used), metric, points[k])
                problems.setdefault(int(block.problem[i]), []).append(group)
        kept.extend(problems[problem] for problem in sorted(problems))


def people_in(groups: list[Group], answers: Answers) -> set[int]:
    """Who is meant, in the caller's numbers."""
    return {int(answers.person[row]) for group in groups for row in group.rows}


# ------------------------------------------------------------------------------------------------- choice


@pytest.mark.parametrize("loss", LOSSES)
def test_the_same_seed_chooses_the_same(loss: str) -> None:
    answers, found = small(loss)
    first, again, other = (choose(answers, found, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert [row[2] for row in first.tried] != [row[2] for row in other.tried]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_choice_is_the_best_of_what_was_tried(loss: str) -> None:
    answers, found = small(loss)
    chosen = choose(answers, found)
    losses = {row[:2]: row[2] for row in chosen.tried}
    assert all(np.isfinite(value) for value in losses.values())
    assert len(losses) >= 5  # the start and its neighbors, at least
    assert losses[chosen.metric, chosen.ideal] <= min(losses.values()) + radii.WORTH_A_MOVE


def loss_of_newcomers(crowd: SimulatedCrowd, new: SimulatedCrowd, metric_bound: float, ideal_bound: float) -> float:
    """Mean loss on the second half of new people's answers, placed by the first half under the learned metric."""
    bounds = {"metric_bound": metric_bound, "ideal_bound": ideal_bound, "tol": 1e-5}
    M = IdealPointMetric(crowd.items, **bounds).fit(crowd.pairs, crowd.y, users=crowd.users).metric_
    first = np.arange(len(new.y)) % 2 == 0
    placed = IdealPointMetric(new.items, fixed_metric=M, ideal_bound=ideal_bound, tol=1e-5)
    placed.fit(new.pairs[first], new.y[first], users=new.users[first])
    psi = placed.decision_function(new.pairs[~first], users=new.users[~first])
    return float(np.mean(get_loss("logistic").value(psi, new.y[~first])))


def test_chosen_radii_predict_newcomers_better_than_others() -> None:
    crowd = simulate_crowd(2, None, None, users=40, comparisons=8, seed=0)
    new = simulate_crowd(2, None, None, users=200, comparisons=16, seed=1, metric=crowd.metric)
    found = get_loss("logistic")
    chosen = choose(answers_of(crowd, found), found)
    assert not chosen.at_limit
    ours, larger, smaller = (
        loss_of_newcomers(crowd, new, c * chosen.metric, c * chosen.ideal) for c in (1.0, 16.0, 1 / 16)
    )
    assert ours < larger
    assert ours < smaller


def test_a_known_metric_leaves_one_radius_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, found = small()
    spy = Spy(monkeypatch, answers)
    chosen = choose(answers, found, metrics=[np.eye(2)[None]])
    assert spy.taught == []
    assert {group.metric for groups in spy.placed for group in groups} == {np.eye(2).tobytes()}
    assert {row[0] for row in chosen.tried} == {chosen.metric}
    assert len({row[1] for row in chosen.tried}) == len(chosen.tried) >= 3


def test_one_person_cannot_be_held_out_of_themselves() -> None:
    found = get_loss("logistic")
    answers = answers_of(simulate_crowd(2, None, None, users=1, comparisons=9, seed=0), found)
    with pytest.raises(DataError, match="from one person; give metric_bound= and ideal_bound="):
        choose(answers, found)


def test_two_people_are_two_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = get_loss("logistic")
    answers = answers_of(simulate_crowd(2, None, None, users=2, comparisons=9, seed=0), found)
    spy = Spy(monkeypatch, answers)
    choose(answers, found)
    assert [people_in(groups, answers) for groups in spy.taught[:2]] in ([{0}, {1}], [{1}, {0}])


def test_a_part_of_a_large_crowd_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, found = small()
    spy = Spy(monkeypatch, answers)
    choose(answers, found, max_people=6)
    for kept in (spy.taught, spy.placed):
        assert len(set.union(*(people_in(groups, answers) for groups in kept))) == 6


# ------------------------------------------------------------------------------------------------ no leak


def folds_seen(taught_by: list[list[Group]], placed: list[list[Group]], answers: Answers) -> set[frozenset[int]]:
    """Who was held out together; nobody among them taught the metric they were placed under."""
    folds = set()
    for teachers, others in zip(taught_by, placed, strict=True):
        taught, held = people_in(teachers, answers), people_in(others, answers)
        assert taught.isdisjoint(held)
        assert taught | held == set(range(answers.problem.size))
        folds.add(frozenset(held))
    assert len(folds) == FOLDS
    assert sum(len(fold) for fold in folds) == answers.problem.size
    return folds


def test_people_are_held_out_of_every_subspace_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine people answer on a line and in a plane, under other numbers; two more only in the plane."""
    found = get_loss("logistic")
    line = answers_of(simulate_crowd(1, None, None, users=9, comparisons=4, seed=0), found)
    plane = answers_of(simulate_crowd(2, None, None, users=11, comparisons=5, seed=1), found)
    real = {1: 10 * np.arange(9)[::-1], 2: np.append(10 * np.random.default_rng(0).permutation(9), [7, 8])}
    spy = Spy(monkeypatch, line, plane)
    choose_radii([line, plane], [real[1], real[2]], found, folds=FOLDS)
    folds = {}
    for rank, answers in ((1, line), (2, plane)):
        mine = [[groups for groups in kept if groups[0].w.size == rank] for kept in (spy.taught, spy.placed)]
        folds[rank] = {frozenset(real[rank][list(fold)].tolist()) for fold in folds_seen(*mine, answers)}
    assert folds[1] == {fold - {7, 8} for fold in folds[2]}


@pytest.mark.parametrize("loss", LOSSES)
def test_answers_that_are_judged_do_not_place_anybody(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    """Change one answer: its person moves, except where that answer is the one to be predicted."""
    answers, found = small(loss)
    person, row = 4, 4 * 6 + 2
    changed = answers.response.copy()
    changed[row] = -changed[row] if found.needs_binary else changed[row] + 5.0
    seen: list[dict[frozenset[int], Group]] = []
    for response in (answers.response, changed):
        with monkeypatch.context() as patch:
            # folds are drawn by content, so that another answer would move people between them
            patch.setattr(radii, "_by_content", lambda answers: np.arange(answers.problem.size))
            spy = Spy(patch, answers)
            choose(replace(answers, response=response), found)
        placements: dict[frozenset[int], Group] = {}
        for groups in spy.placed:
            for group in groups:
                if people_in([group], answers) == {person}:
                    placements.setdefault(group.used, group)  # under the first radii that were tried
        seen.append(placements)
    before, after = seen
    assert before.keys() == after.keys()
    assert len(before) == PARTS
    assert sum(row not in used for used in before) == 1
    for used in before:
        assert before[used].metric == after[used].metric  # nor did it teach the metric they are judged by
        moved = np.linalg.norm(before[used].w - after[used].w) > 1e-6
        assert moved == (row in used)


@pytest.mark.parametrize("loss", LOSSES)
def test_held_out_loss_by_hand(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    """Each answer is predicted once, from the others of its person and the metric of the other people."""
    answers, found = small(loss)
    spy = Spy(monkeypatch, answers)
    chosen = choose(answers, found)
    first: dict[frozenset[int], Group] = {}
    for groups in spy.placed:
        for group in groups:
            first.setdefault(group.rows - group.used, group)
    judged = sorted(row for rows in first for row in rows)
    assert judged == list(range(answers.response.size))
    total = 0.0
    for rows, group in first.items():
        M = np.frombuffer(group.metric).reshape(2, 2)
        for row in rows:
            x, x_ = answers.items[answers.pairs[row]]
            psi = x @ M @ x - x_ @ M @ x_ + (x - x_) @ group.w
            total += float(found.value(psi, answers.response[row]))
    assert chosen.tried[0][2] == pytest.approx(total / answers.response.size)


# ------------------------------------------------------------------------------------------- what must not matter


def test_halves_of_a_question_stay_together() -> None:
    """Splitting every row into two half-weights, or asking a question both ways round, changes nothing."""
    answers, found = small()
    whole = choose(answers, found)
    twice = np.repeat(np.arange(answers.response.size), 2)
    halves = answers.take(twice)
    pairs = halves.pairs.copy()
    pairs[1::2] = pairs[1::2, ::-1]  # the second half the other way round
    response = halves.response * np.where(np.arange(twice.size) % 2, -1.0, 1.0)
    split = choose(replace(halves, pairs=pairs, response=response, weight=0.5 * halves.weight), found)
    assert (split.metric, split.ideal) == (whole.metric, whole.ideal)
    np.testing.assert_allclose([row[2] for row in split.tried], [row[2] for row in whole.tried], rtol=5e-3)


@pytest.mark.parametrize("given", ["metric_radius", "ideal_radius"])
def test_a_given_radius_is_not_searched(given: str) -> None:
    answers, found = small()
    chosen = choose(answers, found, **{given: 0.37})
    column = ["metric_radius", "ideal_radius"].index(given)
    assert {row[column] for row in chosen.tried} == {0.37}
    assert len({row[1 - column] for row in chosen.tried}) >= 3


def test_a_large_problem_among_small_ones_is_cut_down() -> None:
    rng = np.random.default_rng(0)
    K = np.array([30, 3000])
    problem = np.repeat([0, 1], K)
    T = problem.size
    answers = Answers(
        rng.standard_normal((2 * T, 1)),
        np.arange(2 * T).reshape(-1, 2),
        np.ones(T),
        np.ones(T),
        np.arange(T),
        problem,
        2,
    )
    for seed in range(4):
        part, people, _ = radii._sample(answers, 50, np.random.default_rng(seed))
        assert people.size <= 100
        assert part.person.max() < people.size
