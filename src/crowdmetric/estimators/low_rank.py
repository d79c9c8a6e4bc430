"""The low-rank population fit on its way from answers to a law: for items of many features, or a graphics card."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.engines.torch_engine import TorchEngine
from crowdmetric.losses import Loss
from crowdmetric.solvers.low_rank import LowRankResult, fit_low_rank, start_of
from crowdmetric.users.blocks import Answers, padded_rows
from crowdmetric.users.first_order import Questions, moment_matrix, pull_of_people, value_and_gradient
from crowdmetric.users.population import Law

__all__ = ["DEFAULT_RANK", "LARGEST_SCORING", "NUMBERS", "LowRankFit", "fit_low_rank_law"]

Array = NDArray[Any]

# Beyond so many parameters of a metric the outer products of scores cost more than they save.
LARGEST_SCORING = 3_000
# The rank of a metric too large for scoring, if none is given.
DEFAULT_RANK = 32
# Answers a chunk without an engine, and the numbers that one needs for a while: ten at each of some fifty nodes.
CHUNK, NUMBERS = 1 << 16, 500


@dataclass(frozen=True)
class LowRankFit:
    """What was found: a law of people, their v (K, d) at its posterior mean, and how the iteration ended."""

    law: Law
    log_spread: float
    points: Array
    result: LowRankResult


def fit_low_rank_law(
    answers: Answers,
    rank: int,
    loss: Loss,
    *,
    engine: TorchEngine | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 300,
    after_step: Callable[[int, float], None] | None = None,
) -> LowRankFit:
    """Fit ``M = LLᵀ`` with L (d, rank) and isotropic people; NumPy without an engine."""
    n_people, d = answers.problem.size, answers.items.shape[1]
    put = np.asarray if engine is None else engine.asarray
    items = put(answers.items)
    people, chunks = [], []
    for chosen, rows in padded_rows(answers, CHUNK if engine is None else engine.answers_at_once(NUMBERS)):
        filled = rows >= 0
        weight = np.where(filled, answers.weight[rows], 0.0)
        response = np.where(weight > 0, answers.response[rows], 1.0)
        pairs = answers.pairs[rows]
        chunks.append(Questions(*map(put, (pairs[:, :, 0], pairs[:, :, 1], response, weight))))
        people.append(chosen)
    start = start_of(moment_matrix(items, chunks), np.cov(answers.items.T, bias=True).reshape(d, d), rank)
    result = fit_low_rank(
        lambda at: value_and_gradient(items, chunks, at, loss), start, np.zeros(d), -0.5 * np.log(d),
        tolerance=tolerance, max_iterations=max_iterations, after_step=after_step,
    )  # fmt: skip
    L, mean = result.at.factor, result.at.mean
    metric = L @ L.T
    spread = 4.0 * np.exp(2.0 * result.at.log_spread)
    law = Law(metric, mean, spread * metric @ metric)
    points = np.tile(mean, (n_people, 1))
    for chosen, chunk in zip(people, chunks, strict=True):
        # μ + Σ Dᵀ slope, Σ = 4s² L K Lᵀ
        points[chosen] += spread * (pull_of_people(items, chunk, result.at, loss) @ (L.T @ L)) @ L.T
    return LowRankFit(law, result.at.log_spread, points, result)
