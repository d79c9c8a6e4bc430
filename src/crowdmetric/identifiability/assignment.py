"""Were people asked about what they like? A check of the population assumption.

The population likelihood assumes that a person's ideal point is independent of the questions they get. Without knowing
anybody's ideal point, one can check whether questions depend on *who is asked* at all. For a person's questions write

    c = a_k + e        c: a feature of a midpoint (or the size of a difference), a_k: the person's share, e: chance

with intraclass correlation ρ = Var a / (Var a + Var e). An ideal point belongs to the person, so every ideal point has

    corr(c, u)² ≤ ρ

and ρ = 0 means that the assumption is safe. ρ is estimated by one-way analysis of variance. A permutation test assigns
the same questions to the same people at random, many times, and compares the largest between-person share over all
features with its distribution under chance. It needs no normality and accounts for the number of features. Two
questions of a person that share an item are similar for any person, so only questions without a common item are used.

Limits: with one answer per person there is no variation within people. ρ > 0 may be harmless, for example if a person
gets a subspace by chance. The test is exact if questions are exchangeable. If people's questions differ in spread (one
subspace each) but not in location, it rejects somewhat too often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from crowdmetric.identifiability.examples import percent
from crowdmetric.identifiability.questions import Questions, QuestionSource

__all__ = ["Assignment", "Dependence", "check_assignment", "disjoint_questions"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# A correlation of questions with ideal points is called safe up to here; 0.6 is known to harm.
SAFE = 0.25
DEALS = 199
SIGNIFICANT = 0.05
NEGLIGIBLE = 0.01  # ρ: a correlation of 0.1 with people at most
# Maximum size of one permutation; more people than that are sampled.
CELLS = 200_000
FEWEST_PEOPLE = 5
FEWEST_ANSWERS = 2_000  # of the sample, for any number of features


@dataclass(frozen=True)
class Dependence:
    """How much a property of questions depends on who is asked.

    Attributes
    ----------
    correlation
        The largest intraclass correlation ρ over the features, at least 0.
    feature
        Where it is.
    p_value
        Of the largest between-person share, corrected for the number of features and for the two properties tested.
    noticeable
        The smallest ρ that the test would have detected.
    """

    correlation: float
    feature: int
    p_value: float
    noticeable: float

    @property
    def found(self) -> bool:
        """Whether it is significant and large enough to matter."""
        return self.p_value <= SIGNIFICANT and self.correlation > NEGLIGIBLE

    @property
    def bound(self) -> float:
        """No property of people, their ideal points included, correlates more with the questions than this."""
        return sqrt(max(self.correlation, self.noticeable))


@dataclass(frozen=True)
class Assignment:
    """Whether questions depend on who is asked.

    Attributes
    ----------
    people, questions
        How many could be used: people with two questions or more that share no item.
    midpoints, differences
        Where between the items the question lies, and how much the items differ. None if it cannot be checked.
    """

    people: int
    questions: int
    midpoints: Dependence | None
    differences: Dependence | None

    @property
    def testable(self) -> bool:
        """Whether there were enough people with two questions."""
        return self.midpoints is not None

    @property
    def suspicious(self) -> bool:
        """Whether the questions depend on who is asked."""
        return any(found is not None and found.found for found in (self.midpoints, self.differences))

    def sentence(self, name: Callable[[int], str]) -> str:
        """Return whether questions look chosen for the people who were asked; `name` gives the name of a feature."""
        if self.midpoints is None:
            return (
                "Whether people were asked about what they like cannot be checked here, which needs at least five "
                "people with two questions that share no item. They were not if questions were assigned at random."
            )
        if not self.suspicious:
            bound = self.midpoints.bound
            seen = f"as much within people as between them ({self.people:,} people, {self.questions:,} questions)"
            if bound > SAFE:
                return (
                    f"There is no sign that people were asked about what they like: questions differ {seen}. But these "
                    f"are few, and a correlation of up to {bound:.2f} with what people like could go unnoticed."
                )
            return (
                f"To assume that people were not asked about what they like looks safe: questions differ {seen}, so "
                f"the correlation of where a question lies with what people like is below {bound:.2f}."
            )
        both = (("where questions lie", self.midpoints), ("how far apart their items are", self.differences))
        noticed = [(what, part) for what, part in both if part is not None and part.found]
        parts = [
            f"{percent(part.correlation)} of the variation in {what} is between people (in {name(part.feature)}; "
            f"p = {part.p_value:.2g})"
            for what, part in noticed
        ]
        return (
            f"Take care: questions depend on who was asked. {' and '.join(parts)}. This is harmless if chance decided "
            "who got which questions (one subspace per person, for example), and misleading if people were shown what "
            f"they like: the correlation with it can be up to {max(part.bound for _, part in noticed):.2f}."
        )


def check_assignment(asked: QuestionSource, seed: int = 0) -> Assignment:
    """Test whether the questions depend on who is asked."""
    rng = np.random.default_rng(seed)
    questions = asked.some(_enough(asked.d))
    rows = disjoint_questions(questions, _some_people(questions, rng), rng)
    person = questions.person[rows]
    starts = np.flatnonzero(np.diff(person, prepend=-1))
    counts = np.diff(starts, append=len(person))
    if len(starts) < FEWEST_PEOPLE:
        return Assignment(len(starts), len(rows), None, None)
    left, right = questions.items[questions.pairs[rows, 0]], questions.items[questions.pairs[rows, 1]]
    return Assignment(
        people=len(starts),
        questions=len(rows),
        midpoints=_dependence(0.5 * (left + right), starts, counts, rng),
        differences=_dependence(np.abs(left - right), starts, counts, rng),
    )


def _enough(d: int) -> int:
    """Return how many answers are looked at where there are more."""
    return max(CELLS // d, FEWEST_ANSWERS)


def _some_people(questions: Questions, rng: Generator) -> Indices:
    """Return the rows of people with two answers or more, in a random order; of some of them if there are very many."""
    counts = np.bincount(questions.person)
    able = np.flatnonzero(counts >= 2)
    rng.shuffle(able)
    kept = able[: max(FEWEST_PEOPLE, int(np.searchsorted(np.cumsum(counts[able]), _enough(questions.d))))]
    chosen = np.zeros(len(counts), dtype=bool)
    chosen[kept] = True
    return rng.permutation(np.flatnonzero(chosen[questions.person]))


def disjoint_questions(questions: Questions, rows: Indices, rng: Generator) -> Indices:
    """Return rows, sorted by person, of questions that share no item within a person, two or more per person.

    In every round the questions that come first for both their items (among the person's, in random order) are
    kept, and those that share an item with them are dropped: a random maximal matching.
    """
    N = len(questions.items)
    left, right = questions.pairs[rows, 0], questions.pairs[rows, 1]
    base = questions.person[rows] * N
    ends = np.concatenate([base + left, base + right])
    names, ends = np.unique(ends, return_inverse=True)
    a, b = ends[: len(rows)], ends[len(rows) :]
    free, kept, alive = np.ones(len(names), dtype=bool), [], np.flatnonzero(left != right)
    while alive.size:
        first = np.full(len(names), len(rows))
        np.minimum.at(first, a[alive], alive)
        np.minimum.at(first, b[alive], alive)
        new = alive[(first[a[alive]] == alive) & (first[b[alive]] == alive)]
        kept.append(new)
        free[a[new]] = free[b[new]] = False
        alive = alive[free[a[alive]] & free[b[alive]]]
    found = rows[np.concatenate(kept)] if kept else rows[:0]
    enough = np.bincount(questions.person[found], minlength=1) >= 2
    found = found[enough[questions.person[found]]]
    return found[np.argsort(questions.person[found], kind="stable")]


def _dependence(values: Array, starts: Indices, counts: Indices, rng: Generator) -> Dependence | None:
    """Return the largest intraclass correlation of the columns of values (n, d), people contiguous, and its p-value."""
    n, K = len(values), len(starts)
    centered = values - values.mean(axis=0)
    size = np.sum(centered**2, axis=0)
    varied = np.flatnonzero(size > 1e-20 * np.sum(values**2, axis=0))
    if n == K or not varied.size:
        return None
    standard = centered[:, varied] / np.sqrt(size[varied])
    weight = 1.0 / counts[:, None]

    def between(order: Indices | slice) -> Array:
        """Return the share of the variation that lies between people, per column."""
        return np.sum(weight * np.add.reduceat(standard[order], starts, axis=0) ** 2, axis=0)

    seen = between(slice(None))
    chance = np.array([between(rng.permutation(n)).max() for _ in range(DEALS)])
    worst = int(np.argmax(seen))
    p_value = 2.0 * (1 + np.sum(chance >= seen[worst])) / (DEALS + 1)
    typical = (n - np.sum(counts**2) / n) / (K - 1)

    def correlation(share: float) -> float:
        mean_between, mean_within = share / (K - 1), (1.0 - share) / (n - K)
        return float(np.clip((mean_between - mean_within) / (mean_between + (typical - 1) * mean_within), 0.0, 1.0))

    limit = np.quantile(chance, 1.0 - SIGNIFICANT / 2.0, method="higher")
    return Dependence(
        correlation=correlation(float(seen[worst])),
        feature=int(varied[worst]),
        p_value=min(1.0, float(p_value)),
        noticeable=correlation(float(limit)),
    )
