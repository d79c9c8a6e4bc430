"""Answers of one person go together: how much less they tell of the crowd than as many answers of different people.

With H the curvature of the answers, A = H + ridges, g_k the gradient of the answers of person k (less their share of
the sum of all) and ``B = K/(K − 1) Σ_k g_k g_kᵀ``, the estimate has about the covariance A⁻¹BA⁻¹ over people who might
have been asked (the sandwich), where independent answers have A⁻¹HA⁻¹. The mean ratio of variances, ::

    clustering = max(1, tr(A⁻¹ B) / tr(A⁻¹ H))

is how many times too much the likelihood counts: an answer counts ``1/clustering`` in draws and covariances. With few
people the sandwich itself is known poorly, so one number is taken from it and not a matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crowdmetric.similarity.newton import SimilarityFit, posterior_covariance
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.pair_choices import PairChoices

__all__ = ["clustering_of"]

Array = NDArray[np.float64]


def clustering_of(objective: SimilarityObjective, fit: SimilarityFit, questions: PairChoices, n_people: int) -> float:
    """Return how many answers of the same people count as one; `questions` are by person, about the same pairs."""
    if n_people < 2:
        return 1.0
    g = objective.about(questions).slopes_of_people(fit.theta, n_people)
    answers = np.zeros(n_people)
    for asked in questions.asked:
        answers += np.bincount(asked.person, asked.counts.sum(axis=1), n_people)
    g = g - np.outer(answers / answers.sum(), g.sum(axis=0))
    covariance = posterior_covariance(objective, fit)
    known = float(np.sum(covariance * fit.curvature))
    spread = n_people / (n_people - 1.0) * float(np.sum((g @ covariance) * g))
    return max(1.0, spread / known) if known > 0.0 else 1.0
