"""Planning similarity judgements: the error of the metric to expect before anybody is asked.

With a guess of the metric the expected information of planned questions is known, ``A = Fᵀ Lap F`` for one answer
each, and so is the error: ``E‖M̂ − M‖² ≈ tr A⁻¹``, relative to ``‖M‖``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crowdmetric.errors import DataError
from crowdmetric.judgements import Judgements
from crowdmetric.similarity.likelihood import AnswerModel
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.questions import questions_of
from crowdmetric.similarity.structures import Full
from crowdmetric.simulate_judgements import simulate_judgements
from crowdmetric.symmetric import check_metric, svec

__all__ = ["JudgementPlan", "answers_needed", "plan_judgements"]

# Random questions from which the information of one answer is found.
SAMPLE = 20_000


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
    X = np.asarray(items, dtype=np.float64)
    theta = svec(check_metric(metric, X.shape[1], "metric"))
    objective = SimilarityObjective(X, questions_of([judgements]), AnswerModel(beta, link), Full(X.shape[1]))
    A = objective.curvature(theta)
    values = np.linalg.eigvalsh(A)
    if values[0] <= 1e-12 * values[-1]:
        raise DataError(
            "the planned questions do not reveal the whole metric, so that its error is not bounded; ask more "
            "questions or about more items (diagnose_judgements says what is missing)"
        )
    error = float(np.sqrt(np.sum(1.0 / values)) / np.linalg.norm(theta))
    return JudgementPlan(judgements.n_answers, error)


def answers_needed(
    items: ArrayLike, error: float, metric: ArrayLike, *, kind: str = "triplet", seed: int = 0, **options: Any
) -> JudgementPlan:
    """Return how many answers to random questions give an expected relative error; it falls with their root."""
    if not error > 0.0:
        raise DataError(f"error={error!r} is not positive; give a relative error such as 0.1")
    X = np.asarray(items, dtype=np.float64)
    sample = simulate_judgements(X, None, SAMPLE, kind=kind, metric=metric, beta=1.0, seed=seed).judgements
    found = plan_judgements(X, sample, metric, **options)
    return JudgementPlan(found.answers * (found.error / error) ** 2, error)
