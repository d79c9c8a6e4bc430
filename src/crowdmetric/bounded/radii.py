"""Radii without an oracle: ζ_M and ζ_v chosen from the answers by cross-validation blocked by person.

People are split into folds. For each candidate pair of radii the metric is learned from the other folds; each
person held out is then placed under that metric from some of their answers and judged on the rest, so what is
scored is the prediction of people the metric has never seen. The candidates are not a grid: a search walks
downhill along one radius after the other, in factors of 4 and then of 2, and starts every interior point at the
solution of the last one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.bounded.barrier import BarrierResult
from crowdmetric.bounded.line_subspaces import solve_bounded
from crowdmetric.bounded.placing import place_people, spans_of
from crowdmetric.canonical import canonical_of_pairs
from crowdmetric.errors import DataError
from crowdmetric.losses import Loss
from crowdmetric.users.blocks import Answers, arrange, bilinear, join, sum_over_problems

__all__ = ["Radii", "choose_radii", "choose_radii_of_many"]

Array = NDArray[Any]
Indices = NDArray[np.intp]
Point = tuple[int, int]

# Radii are compared by held-out loss to a few digits: a more accurate solution would not change the choice.
SEARCH_TOLERANCE = 1e-3
# A smaller gain in mean held-out loss counts as noise. A bound that is not active does not change the fit at all.
WORTH_A_MOVE = 1e-4
# Maximum number of parts that a held-out person's answers are split into.
PARTS = 3
# Candidates stay within these powers of two of the natural unit.
LOWEST, HIGHEST = -4, 10
# Where the search starts: ψ of order four from the metric, of order one from the person.
START = (2, 0)


@dataclass(frozen=True)
class Radii:
    """What was chosen and what it was chosen from.

    Attributes
    ----------
    metric, ideal
        ζ_M and ζ_v, shared by all problems.
    tried
        Rows (ζ_M, ζ_v, mean held-out loss), in the order tried.
    at_limit
        Whether the search ended at the edge of its range, as it does when answers do not determine a radius.
    """

    metric: float
    ideal: float
    tried: tuple[tuple[float, float, float], ...]
    at_limit: bool


def choose_radii(
    answers: Sequence[Answers],
    blocks: Sequence[Indices],
    loss: Loss,
    *,
    norm: str = "frobenius",
    metrics: Sequence[Array] | None = None,
    metric_radius: Array | float | None = None,
    ideal_radius: Array | float | None = None,
    folds: int = 3,
    seed: int = 0,
    max_people: int = 500,
) -> Radii:
    """Choose one ζ_M and one ζ_v for all problems of a crowd, or one of the two where the other is given.

    Parameters
    ----------
    answers
        One entry per rank of subspace (a list of one for a joint fit).
    blocks
        For each entry, (K,) the real person behind each of its people: somebody who answers in several
        subspaces is held out of all of them at once.
    loss, norm
        As in `solve_bounded`.
    metrics
        Known metrics, one (n, r, r) per entry: only ζ_v is chosen.
    metric_radius, ideal_radius
        A radius that is not to be chosen.
    folds
        Number of folds of people.
    seed
        Which people and problems go where.
    max_people
        Two numbers do not need a million people: beyond this some of the problems are used, whole, and of a
        single large problem some of the people.
    """
    plan = _plan(answers, blocks, metrics, folds, max_people, seed)
    fixed = {
        axis: float(np.median(radius))  # radii that differ by subspace are judged by a typical one
        for axis, radius in ((0, metric_radius), (1, ideal_radius))
        if radius is not None
    }
    return _search_together([replace(plan, fixed=fixed)], loss, norm)[0]


def choose_radii_of_many(
    crowds: Sequence[Answers],
    loss: Loss,
    *,
    norm: str = "frobenius",
    folds: int = 3,
    seed: int = 0,
    max_people: int = 500,
) -> list[Radii]:
    """Choose the radii of many crowds at once, each as `choose_radii` would, in one sweep per candidate.

    Everybody is taken to answer inside one problem only.
    """
    plans = [_plan([answers], [np.arange(answers.problem.size)], None, folds, max_people, seed) for answers in crowds]
    return _search_together(plans, loss, norm)


@dataclass(frozen=True)
class _Entry:
    """The answers of one rank of subspace, copied for every fold and every part of a held-out person's answers.

    ``teaching`` has a problem for each fold; ``held`` judges in the problem of the person's own fold, and ``judged``
    marks the rows that are not used to place them.
    """

    teaching: Answers
    held: Answers
    judged: NDArray[np.bool_]
    metrics: Array | None


@dataclass(frozen=True)
class _Plan:
    """A crowd ready to be tried: its entries, and the natural units of its radii."""

    entries: list[_Entry]
    units: tuple[float, float]
    fixed: dict[int, float] = field(default_factory=dict)

    def radii(self, point: Point) -> tuple[float, float]:
        """Return (ζ_M, ζ_v) at a point of the search."""
        metric, ideal = (self.fixed.get(axis, self.units[axis] * 2.0 ** point[axis]) for axis in (0, 1))
        return metric, ideal

    @property
    def free(self) -> tuple[int, ...]:
        """The axes to search, ζ_v first: it matters more."""
        known = self.entries[0].metrics is not None
        return tuple(axis for axis in (1, 0) if axis not in self.fixed and not (axis == 0 and known))


def _plan(
    answers: Sequence[Answers],
    blocks: Sequence[Indices],
    metrics: Sequence[Array] | None,
    folds: int,
    max_people: int,
    seed: int,
) -> _Plan:
    rng = np.random.default_rng(seed)
    sampled = [_sample(a, max_people // len(answers), rng) for a in answers]
    real = [block[kept] for block, (_, kept, _) in zip(blocks, sampled, strict=True)]
    people = np.unique(np.concatenate(real))
    if people.size < 2:
        raise DataError(
            "radii cannot be chosen by cross-validation from one person; give metric_bound= and ideal_bound="
        )
    folds = min(folds, people.size)
    first = np.full(people.size, np.iinfo(np.int64).max)
    total = sum(part.problem.size for part, _, _ in sampled)
    for i, ((part, _, _), who) in enumerate(zip(sampled, real, strict=True)):
        np.minimum.at(first, np.searchsorted(people, who), i * total + _by_content(part))
    fold_of = np.empty(people.size, dtype=np.intp)
    fold_of[np.argsort(first)[rng.permutation(people.size)]] = np.arange(people.size) % folds
    entries = [
        _copied(part, fold_of[np.searchsorted(people, who)], folds, None if metrics is None else metrics[i][problems])
        for i, ((part, _, problems), who) in enumerate(zip(sampled, real, strict=True))
    ]
    return _Plan(entries, _units([part for part, _, _ in sampled]))


def _copied(answers: Answers, fold_of: Indices, folds: int, metrics: Array | None) -> _Entry:
    n, K = answers.n_problems, answers.problem.size
    own = fold_of[answers.person]
    part = _question_in_person(answers) % PARTS
    parts = int(part.max()) + 1
    everything = np.arange(answers.person.size)
    teaching = _copies(
        answers,
        [(np.flatnonzero(own != fold), fold * K) for fold in range(folds)],  # all folds but their own
        np.concatenate([answers.problem + fold * n for fold in range(folds)]),
        n * folds,
    )
    held = _copies(
        answers,
        [(everything, j * K) for j in range(parts)],
        np.tile(answers.problem + fold_of * n, parts),
        n * folds,
    )
    judged = np.tile(part, parts) == np.repeat(np.arange(parts), everything.size)
    return _Entry(teaching, held, judged, None if metrics is None else np.tile(metrics, (folds, 1, 1)))


def _search_together(plans: Sequence[_Plan], loss: Loss, norm: str) -> list[Radii]:
    """Run every crowd's search side by side: a round of candidates, one per crowd, costs one fit."""
    trials = [_Trial(entries, loss, norm) for entries in zip(*(plan.entries for plan in plans), strict=True)]
    searches = [_pattern_search(START, plan.free) for plan in plans]
    points = [next(search) for search in searches]
    found: dict[int, tuple[Point, dict[Point, float]]] = {}
    while len(found) < len(plans):
        radii = np.array([plan.radii(point) for plan, point in zip(plans, points, strict=True)])
        searching = np.array([i not in found for i in range(len(plans))])
        totals = np.sum([trial.score(radii[:, 0], radii[:, 1], searching) for trial in trials], axis=0)
        for i, (search, total, weight) in enumerate(zip(searches, *totals, strict=True)):
            if i not in found:
                try:
                    points[i] = search.send(float(total / weight))
                except StopIteration as finished:
                    found[i] = finished.value
    return [_radii(plan, *found[i]) for i, plan in enumerate(plans)]


def _radii(plan: _Plan, best: Point, tried: dict[Point, float]) -> Radii:
    return Radii(
        *plan.radii(best),
        tried=tuple((*plan.radii(point), value) for point, value in tried.items()),
        at_limit=any(x in (LOWEST, HIGHEST) for x in best),
    )


def _sample(answers: Answers, max_people: int, rng: np.random.Generator) -> tuple[Answers, Indices, Indices]:
    """Return whole problems at random until there are enough people, and of a single larger problem some of the people.

    People and problems are numbered anew; the second and third results are their old numbers.
    """
    people = np.unique(answers.person)
    if people.size > max_people:
        number = _by_content(answers)
        people = people[np.argsort(number[people])]
        size = np.bincount(answers.problem[people], minlength=answers.n_problems)
        _, place = np.unique(answers.problem[people], return_index=True)  # where a problem's first person stands
        order = rng.permutation(answers.problem[people][np.sort(place)])
        enough = int(np.searchsorted(np.cumsum(size[order]), max_people)) + 1
        people = people[np.isin(answers.problem[people], order[:enough])]
        if enough == 1 or people.size > 2 * max_people:  # a large problem among them
            people = rng.permutation(people)[:max_people]
        people = np.sort(people)
        answers = answers.take(np.isin(answers.person, people))
    problems, problem = np.unique(answers.problem[people], return_inverse=True)
    person = np.searchsorted(people, answers.person)
    return replace(answers, person=person, problem=problem, n_problems=problems.size), people, problems


def _by_content(answers: Answers) -> Indices:
    """Return a number (K,) of every person that does not depend on names or on the order of a table."""
    told = answers.person, answers.pairs, answers.response, answers.weight
    return canonical_of_pairs(*told, answers.problem.size, len(answers.items), answers.items).people


def _pattern_search(start: Point, axes: tuple[int, ...]) -> Generator[Point, float, tuple[Point, dict[Point, float]]]:
    """Yield points to be scored and return the best with all scores.

    Walks downhill along one axis after the other, in steps of 2 and then 1 (powers of two).
    """
    best = start
    tried = {start: (yield start)}
    for step in (2, 1):
        for axis in axes:
            for sign in (-1, 1):
                while True:
                    candidate = _moved(best, axis, sign * step)
                    if not all(LOWEST <= x <= HIGHEST for x in candidate):
                        break
                    if candidate not in tried:
                        tried[candidate] = yield candidate
                    if tried[candidate] > tried[best] - WORTH_A_MOVE:
                        break
                    best = candidate
    return best, tried


def _moved(point: Point, axis: int, step: int) -> Point:
    return (point[0] + step, point[1]) if axis == 0 else (point[0], point[1] + step)


def _units(answers: Sequence[Answers]) -> tuple[float, float]:
    """Return the sizes of A and w at which a typical ψ is one: 1 over the typical ``‖δ‖‖s‖`` and ``‖δ‖``."""
    delta = np.concatenate([np.linalg.norm(a.items[a.pairs[:, 0]] - a.items[a.pairs[:, 1]], axis=1) for a in answers])
    total = np.concatenate([np.linalg.norm(a.items[a.pairs[:, 0]] + a.items[a.pairs[:, 1]], axis=1) for a in answers])
    weight = np.concatenate([a.weight for a in answers])
    # where most pairs have equal features, the other pairs determine the size
    sizes = (_median(x[x > 0], weight[x > 0]) if np.any(x > 0) else 1.0 for x in (delta * total, delta))
    of_metric, of_people = (1.0 / size for size in sizes)
    return of_metric, of_people


def _median(x: Array, weight: Array) -> float:
    """Return the median of values (n,) with weights (n,): that of the values repeated, if weights are whole numbers."""
    order = np.argsort(x, kind="stable")
    reached = np.cumsum(weight[order]) / np.sum(weight)
    middle = np.searchsorted(reached, [0.5 - 1e-12, 0.5 + 1e-12])
    return float(np.mean(x[order][np.minimum(middle, x.size - 1)]))


class _Trial:
    """One entry of every crowd, laid out together, and where the last fit ended."""

    def __init__(self, entries: Sequence[_Entry], loss: Loss, norm: str) -> None:
        self.loss, self.norm = loss, norm
        self.teaching = arrange(join([entry.teaching for entry in entries]))
        held = join([entry.held for entry in entries])
        self.judged = np.concatenate([entry.judged for entry in entries])
        self.held = arrange(held)
        self.known = self.held.reweighted(np.where(self.judged, 0.0, held.weight))
        self.spans = spans_of(self.known)
        self.owner = np.repeat(np.arange(len(entries)), [entry.held.n_problems for entry in entries])
        known = [entry.metrics for entry in entries if entry.metrics is not None]
        self.metrics = np.concatenate(known) if known else None
        self.last: BarrierResult | None = None

    def score(self, metric_radius: Array, ideal_radius: Array, searching: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return every crowd's total held-out loss and the total weight it is over, for radii (crowds,).

        Crowds that are no longer `searching` (crowds,) are left alone, and what is returned for them means nothing.
        """
        ideal, metrics, only = ideal_radius[self.owner], self.metrics, searching[self.owner]
        if metrics is None:
            self.last = solve_bounded(
                self.teaching, self.loss, metric_radius[self.owner], ideal,
                norm=self.norm, start=self.last, only=only, tolerance=SEARCH_TOLERANCE,
            )  # fmt: skip
            metrics = self.last.metrics
        placed = place_people(
            self.known, self.loss, metrics, ideal, only=only, spans=self.spans, tolerance=SEARCH_TOLERANCE
        )
        loss, weight = np.zeros((2, self.owner.size))
        for b in self.held:
            counted = np.where((b.rows >= 0) & self.judged[b.rows], b.weight, 0.0)
            w = placed.pseudo_ideal_points[b.person]
            psi = bilinear(b.delta, metrics[b.problem], b.total) + np.einsum("pmi,pi->pm", b.delta, w)
            sum_over_problems(b, np.sum(counted * self.loss.value(psi, b.response), axis=1), loss)
            sum_over_problems(b, counted.sum(axis=1), weight)
        crowds = metric_radius.size
        return np.bincount(self.owner, loss, crowds), np.bincount(self.owner, weight, crowds)


def _copies(answers: Answers, copies: list[tuple[Indices, int]], problem: Indices, n_problems: int) -> Answers:
    """Return several copies (rows, offset of person numbers) of the answers, side by side."""
    rows = np.concatenate([rows for rows, _ in copies])
    person = np.concatenate([answers.person[rows] + offset for rows, offset in copies])
    return replace(answers.take(rows), person=person, problem=problem, n_problems=n_problems)


def _question_in_person(answers: Answers) -> Indices:
    """Return 0, 1, 2, … for the questions of each person, in their order.

    Rows about the same two items are one question, however often it was asked or however it was split into weights:
    one half must not help to predict the other.
    """
    left, right = answers.items[answers.pairs[:, 0]], answers.items[answers.pairs[:, 1]]
    pair = np.column_stack([left + right, np.abs(left - right)])  # the same for (x, x') and (x', x)
    pair = np.round(pair / (np.abs(pair).max() or 1.0), 10)
    _, first, same = np.unique(np.column_stack([answers.person, pair]), axis=0, return_index=True, return_inverse=True)
    leaders = np.sort(first)
    number = np.empty(answers.person.size, dtype=np.intp)
    number[leaders] = _position_in_person(answers.person[leaders])
    return number[first[same.ravel()]]


def _position_in_person(person: Indices) -> Indices:
    """Return 0, 1, 2, … for the first, second, third … row of each person."""
    order = np.argsort(person, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(person))])
    position = np.empty(person.size, dtype=np.intp)
    position[order] = np.arange(person.size) - starts[person[order]]
    return position
