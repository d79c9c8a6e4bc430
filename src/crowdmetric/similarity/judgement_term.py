"""Judgements in a fit to preferences: their log-likelihood as a function of a metric's shape.

People who judge similarity and people who choose may share one metric, but each kind of answer has a noise of its own:
judgements see ``s M`` with a scale s > 0 that is fitted to every M, ::

    ℓ(M) = max_s ℓ_J(s M)      dℓ/dm = s F'g(sM)      −d²ℓ/dm² = s² (A − A m mᵀ A / mᵀ A m),   A = Fᵀ Lap F at s M

with m = svec M. ℓ does not depend on the size of M: ``mᵀ dℓ/dm = 0``. Added to the sums over people, it makes the joint
likelihood of both kinds. Under the squared link −ℓ_J is convex in s, so Newton's method finds the best scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdmetric.similarity.objective import SimilarityObjective

__all__ = ["JudgementTerm", "JudgementsBeside"]

Array = NDArray[np.float64]

MAX_STEPS = 60
# The scale is found when a Newton step would gain less than this, in nats.
ENOUGH = 1e-10


@dataclass(frozen=True)
class JudgementTerm:
    """Log-likelihood at the best scale, its gradient (p,) and information (p, p) in svec M, and the scale."""

    value: float
    score: Array
    information: Array
    scale: float


@dataclass(frozen=True)
class JudgementsBeside:
    """Judgements about items in the units of a fit; the structure is full, the link squared."""

    objective: SimilarityObjective

    @property
    def n_answers(self) -> float:
        """How many judgements there are."""
        return self.objective.questions.n_answers

    def scale_for(self, m: Array) -> float:
        """Return the s ≥ 0 that maximizes ``ℓ_J(s M)``."""
        objective = self.objective
        D = objective.distances(m)
        likelihood, questions = objective.likelihood, objective.questions
        size = float(np.abs(D).mean())
        if size == 0.0:
            return 0.0
        s = 1.0 / (likelihood.beta * size)
        value, g = likelihood.slope(questions, s * D)
        for _ in range(MAX_STEPS):
            slope = float(g @ D)
            edges = likelihood.edges(questions, s * D)
            bend = likelihood.beta**2 * sum(float(w @ (D[i] - D[j]) ** 2) for i, j, w in edges)
            if bend <= 0.0:
                break
            step = max(-slope / bend, -s)
            if abs(0.5 * slope * step) < ENOUGH:
                break
            while step != 0.0:
                new, g_new = likelihood.slope(questions, (s + step) * D)
                if new <= value + 1e-4 * slope * step:
                    s, value, g = s + step, new, g_new
                    break
                step = 0.5 * step if abs(step) > 1e-12 * s else 0.0
            if step == 0.0:
                break
        return s

    def __call__(self, m: Array, *, information: bool = True) -> JudgementTerm:
        """Return the term at svec M (p,); without `information` that is zero."""
        s = self.scale_for(m)
        value, g = self.objective.slope(s * m)
        bend = np.zeros((m.size, m.size))
        if information and s > 0.0:
            A = self.objective.curvature(s * m)
            along = A @ m
            known = float(m @ along)
            bend = s * s * (A - np.outer(along, along) / known) if known > 0.0 else bend
        return JudgementTerm(-value, -s * g, bend, s)
