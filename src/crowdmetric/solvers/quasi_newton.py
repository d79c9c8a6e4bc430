"""Quasi-Newton for a low-rank metric: when d is in the hundreds, a gradient is all that can be afforded.

The metric starts from the leading directions of what answers say to first order (`users.first_order.moment_matrix`),
with its size and the spread of people found by a search over a few values; L-BFGS does the rest. A weak law on the
spread (its logarithm within about one of its start) keeps metric and spread from growing together, along which one
answer per person says very little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from crowdmetric.users.first_order import LowRank

__all__ = ["LowRankResult", "fit_low_rank", "start_of"]

Array = NDArray[Any]
Function = Callable[[LowRank], tuple[float, Array]]

# Standard deviation of log s around its start.
SPREAD_LAW = 1.0


@dataclass(frozen=True)
class LowRankResult:
    """Where L-BFGS ended: parameters, log-likelihood (without the law on the spread), convergence, passes made."""

    at: LowRank
    value: float
    converged: bool
    passes: int


def start_of(moment: Array, covariance: Array, rank: int) -> Array:
    """Return L (d, rank) of size one whose square is the leading positive part of ``C⁻¹ G C⁻¹``.

    Answers +1 prefer the right item, so G, a sum of ``y (xxᵀ − x'x'ᵀ)``, grows with M.
    """
    d = moment.shape[0]
    inverse = np.linalg.pinv(covariance + 1e-6 * np.trace(covariance) / d * np.eye(d), hermitian=True)
    values, vectors = np.linalg.eigh(inverse @ (0.5 * (moment + moment.T)) @ inverse)
    values, vectors = np.maximum(values[::-1][:rank], 0.0), vectors[:, ::-1][:, :rank]
    if values[0] <= 0.0:  # nothing to go by
        return vectors / np.sqrt(rank)
    # directions that noise made negative start small but not at zero, where the gradient of LLᵀ vanishes
    L = vectors * np.sqrt(np.maximum(values, 1e-3 * values[0]))
    return L / np.linalg.norm(L)


def fit_low_rank(
    function: Function,
    L: Array,
    mean: Array,
    log_spread: float,
    *,
    sizes: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0),
    tolerance: float = 1e-7,
    max_iterations: int = 300,
    after_step: Callable[[int, float], None] | None = None,
) -> LowRankResult:
    """Maximize the likelihood from a direction L (d, k) of size one.

    Parameters
    ----------
    sizes
        Norms of L to choose the start among.
    tolerance
        Relative decrease of the mean loss at which to stop.
    after_step
        Called after every step with the number of passes so far and the maximized value, which includes the prior
        on the spread.
    """
    passes, d = 0, mean.size

    def cost(flat: Array) -> tuple[float, Array]:
        nonlocal passes
        passes += 1
        at = LowRank.of(flat, d)
        value, gradient = function(at)
        away = (at.log_spread - log_spread) / SPREAD_LAW
        gradient = -gradient
        gradient[-1] += away / SPREAD_LAW
        # unit: the value at the start, so tolerances are relative to a number of order one
        return (0.5 * away**2 - value) / scale, gradient / scale

    scale = 1.0
    starts = [LowRank(size * L, mean, log_spread).flat() for size in sizes]
    costs = [cost(start)[0] for start in starts]
    best = starts[int(np.argmin(costs))]
    scale = max(abs(min(costs)), 1.0)

    def callback(intermediate_result: Any) -> None:  # the name makes SciPy pass the result and not the point
        if after_step is not None:
            after_step(passes, float(-intermediate_result.fun * scale))

    result = minimize(
        cost, best, jac=True, method="L-BFGS-B", callback=callback,
        options={"maxiter": max_iterations, "maxcor": 20, "ftol": tolerance, "gtol": 1e-9},
    )  # fmt: skip
    at = LowRank.of(result.x, d)
    away = (at.log_spread - log_spread) / SPREAD_LAW
    return LowRankResult(at, float(0.5 * away**2 - result.fun * scale), bool(result.success), passes)
