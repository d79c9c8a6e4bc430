"""Whether the law that chose the questions is the law of the people who answer them.

Answers that arrive after a law was fitted are predicted by it, averaged over its posterior. With P(y) the predicted
chance of a person's set of answers, ``log P(y) − E log P`` has mean zero if the law is right, so ::

    z = Σ_k (log P_k(y_k) − E_k) / √(Σ_k V_k)       E = Σ_y P(y) log P(y),   V = Σ_y P(y) log² P(y) − E²

is standard normal over many people: the answers of each are predicted before they are used. A law is doubted if z is
far below zero *and* the answers are predicted worse by an amount that matters. Both must hold before the answers are
used and after the law was fitted again with them.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from crowdmetric.design.bundles import MOST_ANSWERS, log_chances
from crowdmetric.design.learning import AnswerTable, Learned

__all__ = ["surprise", "why_doubted"]

Array = NDArray[np.float64]

# Posterior draws over which predictions are averaged.
PREDICTORS = 8
# z below which a law is doubted, and the loss in nats per person below which that does not matter.
DOUBTED, MATTERS = -4.0, 0.03
# People per parameter below which a law is not doubted: it predicts badly because little is known, not because it is
# wrong.
FEWEST_PER_PARAMETER = 5


def surprise(
    items: Array, answers: AnswerTable, new: NDArray[np.bool_], learned: Learned, beta: float
) -> tuple[float, float]:
    """Return z of the answers that are `new` (T,), and by how many nats per person they were worse than predicted.

    Only people all of whose answers are new and without ties; NaN if there are none.
    """
    found, spread, people = 0.0, 0.0, 0
    metrics = learned.some_draws(PREDICTORS)
    whole = new & (answers.weight == 1.0)
    _, place, m = np.unique(answers.person, return_inverse=True, return_counts=True)
    fresh = np.bincount(place, weights=whole) == m
    order = np.argsort(answers.person, kind="stable")
    begins = np.concatenate([[0], np.cumsum(m)])[:-1]
    for count in np.unique(m[fresh & (m <= MOST_ANSWERS)]):
        rows = order[begins[fresh & (m == count)][:, None] + np.arange(count)]  # (P, count)
        vectors = items[answers.pairs[rows]]
        logs = np.stack([log_chances(vectors, M, learned.population, beta) for M in metrics])
        chance = np.mean(np.exp(np.minimum(logs, 0.0)), axis=0)  # (P, 2^count)
        chance /= chance.sum(axis=1, keepdims=True)
        sets = np.array(list(product((-1.0, 1.0), repeat=int(count))))
        given = np.argmax(answers.y[rows] @ sets.T, axis=1)
        log_chance = np.log(np.maximum(chance, 1e-12))
        mean = np.sum(chance * log_chance, axis=1)
        found += float(np.sum(log_chance[np.arange(len(rows)), given] - mean))
        spread += float(np.sum(chance * log_chance**2) - np.sum(mean**2))
        people += len(rows)
    if people == 0:
        return float("nan"), float("nan")
    return found / max(spread, 1e-12) ** 0.5, -found / people


def why_doubted(items: Array, answers: AnswerTable, new: NDArray[np.bool_], learned: Learned, beta: float) -> str:
    """Return why the law is not trusted, empty if it is."""
    if learned.people < FEWEST_PER_PARAMETER * learned.parameters:
        return ""
    z, loss = surprise(items, answers, new, learned, beta)
    if not (z < DOUBTED and loss > MATTERS):
        return ""
    return (
        f"the newest answers are worse predicted than one population of Gaussian people allows (z = {z:.1f}, "
        f"{loss:.2g} nats per person), so questions are random until they are"
    )
