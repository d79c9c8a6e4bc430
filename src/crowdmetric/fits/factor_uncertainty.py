"""How sure a metric of low rank is: draws of its factor, from the scores of some of the people.

The information about L (d, k), the mean, people's spread and items' utilities (n parameters, dk + d + 1 at the least)
is estimated by outer products of the scores of a sample of N people out of K, ``G = K/N Σ s sᵀ``, plus the curvature
of the prior. M does not change if L is rotated, ``L → LQ``, together with people's covariance. Draws therefore have a
large precision along LΩ, Ω skew, which selects one of all equivalent L. Otherwise a draw is ``L + ΔL`` with ΔL from
N(0, G⁻¹). The inverse of a sum of N outer products is larger than that of its expectation by N/(N − n − 1) (exactly for
Gaussian scores). Draws are corrected for that factor; parameters that a ridge determines do not count in n.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from crowdmetric.engines.contract import DeviceEngine
from crowdmetric.fits.question_stream import QuestionStream
from crowdmetric.losses import Loss
from crowdmetric.solvers.low_rank_prior import LowRankPrior
from crowdmetric.symmetric import as_like, as_numpy, degrees_of_freedom
from crowdmetric.users.first_order import EqualQuestions, LowRank, scores_of_people

__all__ = ["factor_draws", "factor_errors", "why_no_errors"]

Array = NDArray[Any]

# Number of people in the sample per parameter: minimum and maximum.
FEWEST, MOST = 3, 10
# Maximum number of multiplications for the outer products without and with a GPU: about ten seconds.
MOST_WORK, MOST_WORK_ON_DEVICE = 4e11, 2e14
# Number of draws of the factor, and the precision of rotations of the factor relative to the most precise other
# direction.
DRAWS, STIFF = 400, 1e3
# Size of the scores computed at once, in numbers.
AT_ONCE = 1 << 26


def why_no_errors(
    people: int, d: int, rank: int, engine: DeviceEngine | None, *, free: bool = False, n_effects: int = 0
) -> str:
    """Return why a fit will have no standard errors; an empty text if it will have them."""
    n = d * rank + d + (degrees_of_freedom(rank) if free else 1) + n_effects
    if people < FEWEST * n:
        return (
            f"standard errors of a metric of rank {rank} in {d} features ({n:,} parameters) need at least "
            f"{FEWEST * n:,} people, and there are {people:,}; lower rank, or reduce the items (crowdmetric.preprocess)"
        )
    work = float(min(people, MOST * n)) * n * n
    if work > (MOST_WORK if engine is None else MOST_WORK_ON_DEVICE):
        remedies = ["use a GPU (engine='torch')"] if engine is None and work <= MOST_WORK_ON_DEVICE else []
        remedies += ["leave out item_effects"] if n_effects > n - n_effects else []
        remedies += ["lower rank", "or reduce the items (crowdmetric.preprocess)"]
        return (
            f"standard errors of a metric of rank {rank} in {d} features ({n:,} parameters) would take {work:.0e} "
            f"multiplications; {', '.join(remedies)}"
        )
    return ""


def factor_draws(
    asked: QuestionStream, at: LowRank, prior: LowRankPrior, loss: Loss, engine: DeviceEngine | None, seed: int = 0
) -> Array:
    """Return draws (DRAWS, d, k) of L, in the units of the fit that ended at `at` under `prior`."""
    put = np.asarray if engine is None else engine.asarray
    items: Any = put(asked.items)
    d, k = at.factor.shape
    n = at.flat().size
    xp = array_namespace(items)
    step = max(1, asked.n_users // (MOST * n))
    G = xp.zeros((n, n), dtype=xp.float64, device=items.device)
    counted = 0
    for some in _every(asked, step, max(1, AT_ONCE // n)):
        scores = scores_of_people(items, some.each(put), at, loss)
        G += xp.astype(scores.T @ scores, xp.float64)
        counted += scores.shape[0]
    G *= asked.n_users / counted
    held = prior.precision(at)
    diagonal = xp.arange(n, device=items.device)
    G[diagonal, diagonal] += xp.asarray(held, device=items.device)
    turns = np.zeros((n, k * (k - 1) // 2))
    turns[: d * k] = np.linalg.qr(_turns(at.factor))[0]
    stiff = STIFF * float(xp.max(xp.linalg.diagonal(G)))
    turned = xp.astype(as_like(turns, items), xp.float64)
    G += stiff * (turned @ turned.T)
    noise = xp.asarray(np.random.default_rng(seed).standard_normal((n, DRAWS)), dtype=xp.float64, device=items.device)
    # with G = RRᵀ, R⁻ᵀ z has the covariance G⁻¹
    moved = as_numpy(xp.linalg.solve(xp.matrix_transpose(xp.linalg.cholesky(G)), noise))
    determined = n - float(held @ np.mean(moved**2, axis=1))  # how many of the n parameters the answers determine
    shrink = np.sqrt(max(counted - determined - 1.0, 1.0) / counted)
    return np.asarray(at.factor + shrink * moved[: d * k].T.reshape(-1, d, k))


def factor_errors(factor: Array, draws: Array) -> Array:
    """Return standard errors (d, d) of the entries of ``M = LLᵀ``, to first order in the draws (n, d, k) of L."""
    square = np.zeros((len(factor), len(factor)))
    for draw in draws:
        change = factor @ (draw - factor).T
        square += (change + change.T) ** 2
    return np.sqrt(square / len(draws))


def _every(asked: QuestionStream, step: int, at_once: int) -> Iterator[EqualQuestions]:
    """Yield every `step`-th person's questions, at most `at_once` people at a time."""
    for questions in asked.questions:
        some = questions[::step]
        for begin in range(0, some.left.shape[0], at_once):
            yield some[begin : begin + at_once]


def _turns(factor: Array) -> Array:
    """Return the directions LΩ (dk, k(k−1)/2) in which rotations move L."""
    d, k = factor.shape
    rows, columns = np.triu_indices(k, 1)
    out = np.zeros((rows.size, d, k))
    every = np.arange(rows.size)
    out[every, :, rows], out[every, :, columns] = factor.T[columns], -factor.T[rows]
    return out.reshape(rows.size, d * k).T
