"""Planning similarity judgements: which questions to ask, and the error of the metric to expect.

With a guess of the metric the expected information of planned questions is known, ``A = Σ_q n_q A_q`` with
``A_q = F_qᵀ Lap F_q`` for one answer to question q, and so is the error: ``E‖M̂ − M‖² ≈ tr A⁻¹``, relative to ``‖M‖``.

The questions that tell most are chosen from random ones. Their shares w minimize ``tr A(w)⁻¹`` (A-optimal); with the
sensitivities ``a_q = tr(A⁻¹ A_q A⁻¹)`` the multiplicative algorithm ``w_q ← w_q √a_q / Σ w √a`` lowers it in every
round. With only a vague guess, A_q is averaged over metrics that are as likely as each other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.checks import check_metric, instance_of, one_of, positive_number, whole_number
from crowdmetric.design.questionnaire import names_of
from crowdmetric.errors import DataError
from crowdmetric.inputs import check_items
from crowdmetric.judgements import KINDS, Judgements
from crowdmetric.similarity.likelihood import LINKS, AnswerModel
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.pair_choices import questions_of
from crowdmetric.similarity.structures import Full
from crowdmetric.simulate import sample_metric
from crowdmetric.simulate_judgements import random_questions
from crowdmetric.symmetric import degrees_of_freedom, svec
from crowdmetric.tables import Column, Columns, ids_of, matched, write_columns
from crowdmetric.tables.judgement_columns import ALTERNATIVES

__all__ = [
    "WAYS",
    "JudgementPlan",
    "JudgementQuestionnaire",
    "answers_needed",
    "design_judgements",
    "plan_judgements",
    "usual_metric",
]

Array = NDArray[np.float64]

# Random questions from which the information of one answer is found.
SAMPLE = 20_000
# Random questions among which the best are looked for, per parameter of the metric and at most; rounds of the search.
POOL, MOST_POOL, ROUNDS = 40, 20_000, 60
# Metrics over which information is averaged where there is no guess, and the mean difference of squared distances that
# answers are then expected to be about: people are right about three times in four.
VAGUE, USUAL_CONTRAST = 8, 1.5
WAYS = ("optimal", "random")


@dataclass(frozen=True)
class JudgementPlan:
    """What some questions would teach.

    Attributes
    ----------
    answers : float
        How many.
    error : float
        Expected relative error ‖M̂ − M‖ / ‖M‖ of the metric.
    """

    answers: float
    error: float

    def summary(self) -> str:
        """Return it in one sentence."""
        return f"{self.answers:,.0f} answers give the metric with an expected relative error of {self.error:.3g}."


@dataclass(frozen=True)
class JudgementQuestionnaire:
    """Questions about similarity, who is to answer them, and the error to expect.

    Attributes
    ----------
    kind, way : str
        'triplet', 'odd_one_out' or 'quadruplet'; 'optimal' or 'random'.
    item_ids : (N,)
        What items are called.
    questions : (Q, 3) or (Q, 4) int64
        Rows of items, in the order of `crowdmetric.judgements.KINDS`.
    person : (Q,) int64
        Who is asked, 0 … K − 1.
    expected : JudgementPlan
    guessed : bool
        Whether a metric was given; otherwise the error is that for a metric with all features alike.
    """

    kind: str
    way: str
    item_ids: Column
    questions: NDArray[np.int64]
    person: NDArray[np.int64]
    expected: JudgementPlan
    guessed: bool

    def __len__(self) -> int:
        return len(self.questions)

    def summary(self) -> str:
        """Return the design and its promise in a few sentences."""
        people, used = len(np.unique(self.person)), len(np.unique(self.questions))
        given = "if the guess is right" if self.guessed else "for a metric with all features alike"
        return "\n".join(
            [
                f"{self.way}: {len(self):,} questions ({self.kind}) to {people:,} people about {used:,} of "
                f"{len(self.item_ids):,} items.",
                f"Expected relative error of the metric: {self.expected.error:.3g}, {given}.",
                "Fit the answers with SimilarityMetric, or crowdmetric fit.",
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the design and its promise as plain values, without the questions."""
        return {
            "design": self.way,
            "kind": self.kind,
            "people": len(np.unique(self.person)),
            "questions": len(self),
            "items": len(np.unique(self.questions)),
            "expected_error": self.expected.error,
            "guessed": self.guessed,
        }

    def columns(self) -> Columns:
        """Return person, question and the items, one row per question."""
        first = np.r_[True, self.person[1:] != self.person[:-1]]
        started = np.maximum.accumulate(np.where(first, np.arange(len(self)), 0))
        asked = {name: self.item_ids[self.questions[:, place]] for place, name in enumerate(KINDS[self.kind])}
        return {"person": self.person, "question": np.arange(len(self)) - started, **asked}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write `columns` to a CSV or Parquet file."""
        write_columns(self.columns(), path)


def plan_judgements(
    items: ArrayLike, judgements: Judgements, metric: ArrayLike, *, beta: float = 1.0, link: str = "squared"
) -> JudgementPlan:
    """Return the error to expect from planned questions, whose counts say how often each is to be answered.

    Parameters
    ----------
    items : (N, d) array
    judgements : Judgements
        The questions; which alternative is counted does not matter.
    metric : (d, d) array
        A guess of M, such as that of an earlier study.
    beta, link
        As in `crowdmetric.SimilarityMetric`.
    """
    X = check_items(items)
    planned = instance_of(judgements, "judgements", Judgements, "make one with Judgements.from_table or .read")
    planned = matched(planned, ids_of(items), len(X))
    theta = svec(check_metric(metric, X.shape[1], "metric"))
    likelihood = AnswerModel(positive_number(beta, "beta"), one_of(link, "link", LINKS))
    objective = SimilarityObjective(X, questions_of([planned]), likelihood, Full(X.shape[1]))
    error = float(np.sqrt(_trace_of_inverse(objective.curvature(theta))) / np.linalg.norm(theta))
    return JudgementPlan(judgements.n_answers, error)


def _trace_of_inverse(A: Array) -> float:
    values = np.linalg.eigvalsh(A)
    if values[0] <= 1e-12 * values[-1]:
        raise DataError(
            "the planned questions do not reveal the whole metric, so its error is not bounded; ask more "
            "questions or about more items (diagnose_judgements says what is missing)"
        )
    return float(np.sum(1.0 / values))


def answers_needed(
    items: ArrayLike, error: float, metric: ArrayLike | None = None, *, kind: str = "triplet", way: str = "random",
    seed: int = 0, beta: float = 1.0, link: str = "squared",
) -> JudgementPlan:  # fmt: skip
    """Return how many answers to random or optimal questions give an expected relative error.

    The error falls with the root of their number. Without a `metric`, one with all features alike is taken.
    """
    if not error > 0.0:
        raise DataError(f"error={error!r} is not positive; give a relative error such as 0.1")
    X = check_items(items)
    asked = design_judgements(
        X, SAMPLE, metric=metric, kind=kind, way=way, seed=seed, beta=beta, link=link
    ).expected  # fmt: skip
    return JudgementPlan(asked.answers * (asked.error / error) ** 2, error)


def usual_metric(items: ArrayLike, *, beta: float = 1.0) -> Array:
    """Return the multiple of the identity under which answers to random triplets are about as noisy as usual."""
    X = check_items(items)
    rng = np.random.default_rng(0)
    a, b, c = X[random_questions(len(X), 3, SAMPLE, rng)].transpose(1, 0, 2)
    contrast = float(np.mean(np.abs(np.sum((a - b) ** 2, axis=1) - np.sum((a - c) ** 2, axis=1))))
    if contrast == 0.0:
        raise DataError("all items are the same, so there is nothing to compare; use other items")
    return USUAL_CONTRAST / (beta * contrast) * np.eye(X.shape[1])


def design_judgements(
    items: ArrayLike,
    answers: int,
    *,
    people: int = 1,
    metric: ArrayLike | None = None,
    kind: str = "triplet",
    way: str = "optimal",
    item_ids: Any = None,
    beta: float = 1.0,
    link: str = "squared",
    seed: int = 0,
) -> JudgementQuestionnaire:
    """Return questions about similarity, the ones that tell most or random ones, and the error to expect.

    Parameters
    ----------
    items : (N, d) array
    answers : int
        How many questions are answered in all; everybody answers about ``answers / people``.
    people : int, default 1
    metric : (d, d) array, optional
        A guess of M, such as that of an earlier study. None: all features alike, and questions that tell most about a
        metric of any shape.
    kind : {'triplet', 'odd_one_out', 'quadruplet'}
    way : {'optimal', 'random'}
    item_ids : (N,) array, optional
    beta, link
        As in `crowdmetric.SimilarityMetric`.
    seed : int, default 0

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.design.judgement_plan import design_judgements
    >>> items = np.random.default_rng(0).standard_normal((40, 3))
    >>> best, random = (design_judgements(items, 500, way=way) for way in ("optimal", "random"))
    >>> best.expected.error < random.expected.error
    True
    """
    X = check_items(items)
    for name, value, least in (("answers", answers, 1), ("people", people, 1), ("seed", seed, 0)):
        whole_number(value, name, least)
    positive_number(beta, "beta")
    for name, given, known in (("kind", kind, tuple(KINDS)), ("way", way, WAYS), ("link", link, LINKS)):
        one_of(given, name, known)
    if people > answers:
        raise DataError(f"{people} people cannot share {answers} answers; ask for at least one answer per person")
    guess = usual_metric(X, beta=beta) if metric is None else check_metric(metric, X.shape[1], "metric")
    rng, width = np.random.default_rng(seed), len(KINDS[kind])
    likelihood = AnswerModel(beta, link)
    if way == "random":
        asked = random_questions(len(X), width, answers, rng)
    else:
        pool = random_questions(len(X), width, min(MOST_POOL, POOL * degrees_of_freedom(X.shape[1])), rng)
        guesses = [guess] if metric is not None or link != "squared" else _vague(guess, rng)
        asked = pool[rng.permutation(_whole_numbers(_best_shares(X, kind, pool, guesses, likelihood), answers, rng))]
    expected = plan_judgements(X, _asked_once(kind, asked, len(X)), guess, beta=beta, link=link)
    person = np.sort(np.arange(answers) % people)
    return JudgementQuestionnaire(
        kind, way, names_of(item_ids, items, len(X)), asked, person, expected, metric is not None
    )


def _vague(guess: Array, rng: np.random.Generator) -> list[Array]:
    """Return metrics of any shape, as large as a guess."""
    drawn = [sample_metric(len(guess), rng) for _ in range(VAGUE)]
    return [M * float(np.trace(guess) / np.trace(M)) for M in drawn]


def _best_shares(
    X: Array, kind: str, pool: NDArray[np.int64], guesses: Sequence[Array], likelihood: AnswerModel
) -> Array:
    """Return the shares (Q,) of questions that minimize ``tr A⁻¹``."""
    R = _information_roots(X, kind, pool, guesses, likelihood)
    Q, k, p = R.shape
    w = np.full(Q, 1.0 / Q)
    flat = R.reshape(Q * k, p)
    for _ in range(ROUNDS):
        A = flat.T @ (np.repeat(w, k)[:, None] * flat)
        A[np.diag_indices(p)] += 1e-9 * np.trace(A) / p
        worth = np.einsum("qkp,qkp->q", *(2 * [(flat @ np.linalg.inv(A)).reshape(Q, k, p)]))
        w = w * np.sqrt(worth)
        w /= w.sum()
    return w


def _information_roots(
    X: Array, kind: str, pool: NDArray[np.int64], guesses: Sequence[Array], likelihood: AnswerModel
) -> Array:
    """Return R (Q, k, p) with ``A_q = Σ_k R_qk R_qkᵀ``: one row per edge of a question, weights averaged over guesses.

    Under the squared link only the weights depend on the guess; otherwise slopes of the link are those of the first.
    """
    objective = SimilarityObjective(X, questions_of([_asked_once(kind, pool, len(X))]), likelihood, Full(X.shape[1]))
    edges = [list(likelihood.edges(objective.questions, objective.distances(svec(guess)))) for guess in guesses]
    slope = likelihood.beta * likelihood.link_slope(objective.distances(svec(guesses[0])))
    roots = []
    for place, (i, j, _) in enumerate(edges[0]):
        weight = np.sqrt(np.maximum(np.mean([of_guess[place][2] for of_guess in edges], axis=0), 0.0))
        contrast = objective.rows_of(i) * slope[i, None] - objective.rows_of(j) * slope[j, None]
        roots.append(weight[:, None] * contrast)
    return np.stack(roots, axis=1)


def _asked_once(kind: str, questions: NDArray[np.int64], n_items: int) -> Judgements:
    """Return questions with one answer each; which one it is does not matter."""
    counts = np.zeros((len(questions), len(ALTERNATIVES[kind])))
    counts[:, 0] = 1.0
    nobody = np.zeros(len(questions), dtype=np.int64)
    return Judgements(kind, questions, counts, nobody, np.zeros(1, dtype=np.int64), np.arange(n_items), ids_are="rows")


def _whole_numbers(shares: Array, answers: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return which question each answer is to: as many as its share says, up to one (systematic sampling)."""
    places = (np.arange(answers) + rng.random()) / answers
    return np.minimum(np.searchsorted(np.cumsum(shares), places), len(shares) - 1)
