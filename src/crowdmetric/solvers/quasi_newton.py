"""Quasi-Newton for a low-rank metric, for hundreds of features.

The metric starts from the leading directions of a first-order estimate (`users.first_order.moment_matrix`), with the
best of a few sizes. L-BFGS then maximizes the likelihood under a weak prior (`crowdmetric.solvers.low_rank_prior`). Its
variables are ``RL`` and ``Rμ`` with ``R² = dΓ/tr Γ + ε I``, where Γ is the covariance of items, because answers are
more informative about directions along which items differ more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from crowdmetric.solvers.low_rank_prior import LowRankPrior
from crowdmetric.users.first_order import LowRank

__all__ = ["Counted", "LowRankResult", "best_size", "fit_low_rank", "start_of"]

Array = NDArray[Any]
Function = Callable[[LowRank], tuple[float, Array]]

# ε: variance along a direction, relative to the mean, below which items count as equal for the length of a step.
LEAST_VARIANCE = 1e-2
# Norms of L to choose the start among.
SIZES = (1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class LowRankResult:
    """Where L-BFGS ended: parameters, log-likelihood (without the prior), the prior, convergence, passes so far."""

    at: LowRank
    value: float
    prior: LowRankPrior
    converged: bool
    passes: int


class Counted:
    """The log-likelihood and its gradient, with a count of passes over people; the last result is cached."""

    def __init__(self, function: Function) -> None:
        self.function, self.passes = function, 0
        self._last: tuple[Array, tuple[float, Array]] | None = None

    def __call__(self, at: LowRank) -> tuple[float, Array]:
        """Return the log-likelihood and its gradient."""
        flat = at.flat()
        if self._last is None or not np.array_equal(self._last[0], flat):
            self.passes += 1
            self._last = flat, self.function(at)
        return self._last[1]


def start_of(moment: Array, covariance: Array, rank: int) -> Array:
    """Return L (d, rank) of size one whose square is the leading positive part of ``C⁻¹ G C⁻¹``.

    Answers +1 prefer the right item, so G, a sum of ``y (xxᵀ − x'x'ᵀ)``, grows with M.
    """
    d = moment.shape[0]
    inverse = np.linalg.pinv(covariance + 1e-6 * np.trace(covariance) / d * np.eye(d), hermitian=True)
    values, vectors = np.linalg.eigh(inverse @ (0.5 * (moment + moment.T)) @ inverse)
    values, vectors = np.maximum(values[::-1][:rank], 0.0), vectors[:, ::-1][:, :rank]
    if values[0] <= 0.0:  # no direction is favored
        return vectors / np.sqrt(rank)
    # directions that noise made negative start small but not at zero, where the gradient of LLᵀ vanishes
    L = vectors * np.sqrt(np.maximum(values, 1e-3 * values[0]))
    return L / np.linalg.norm(L)


def best_size(function: Function, start: LowRank, sizes: tuple[float, ...] = SIZES) -> LowRank:
    """Return the start with its L multiplied by the most likely of some sizes."""
    sized = [replace(start, factor=size * start.factor) for size in sizes]
    return max(sized, key=lambda at: function(at)[0])


class _Even:
    """Parameters about which answers are about equally informative, and the way back."""

    def __init__(self, like: LowRank, items_covariance: Array) -> None:
        d = like.mean.size
        values, vectors = np.linalg.eigh(items_covariance)
        values = np.sqrt(d * np.maximum(values, 0.0) / np.trace(items_covariance) + LEAST_VARIANCE)
        self.like, self.root, self.inverse = like, (vectors * values) @ vectors.T, (vectors / values) @ vectors.T

    def flat(self, at: LowRank) -> Array:
        return replace(at, factor=self.root @ at.factor, mean=self.root @ at.mean).flat()

    def at(self, flat: Array) -> LowRank:
        at = self.like.moved(flat)
        return replace(at, factor=self.inverse @ at.factor, mean=self.inverse @ at.mean)

    def gradient(self, gradient: Array) -> Array:
        """Return the gradient in these parameters from the one in `LowRank.flat`."""
        return self.at(gradient).flat()  # R is symmetric


def fit_low_rank(
    function: Counted,
    start: LowRank,
    prior: LowRankPrior,
    *,
    tolerance: float = 1e-7,
    max_iterations: int = 300,
    after_step: Callable[[int, float], None] | None = None,
) -> LowRankResult:
    """Maximize likelihood and prior.

    Parameters
    ----------
    tolerance
        Relative decrease of the mean loss at which to stop.
    after_step
        Called after every step with the number of passes so far and the maximized value.
    """
    even, scale = _Even(start, prior.items_covariance), 1.0

    def cost(flat: Array) -> tuple[float, Array]:
        at = even.at(flat)
        (value, gradient), (penalty, pull) = function(at), prior(at)
        # unit: the value at the start, so that tolerances are relative to a number of order one
        return (penalty - value) / scale, even.gradient(pull - gradient) / scale

    flat = even.flat(start)
    scale = max(abs(cost(flat)[0]), 1.0)

    def callback(intermediate_result: Any) -> None:  # the name makes SciPy pass the result and not the point
        if after_step is not None:
            after_step(function.passes, float(-intermediate_result.fun * scale))

    bounds = None
    if start.rest is not None:  # γ ≥ 0
        at_rest = flat.size - start.effects.size - 1
        bounds = [(0.0 if number == at_rest else None, None) for number in range(flat.size)]
    result = minimize(
        cost, flat, jac=True, method="L-BFGS-B", callback=callback, bounds=bounds,
        options={"maxiter": max_iterations, "maxcor": 20, "ftol": tolerance, "gtol": 1e-9},
    )  # fmt: skip
    at = even.at(result.x)
    value = float(prior(at)[0] - result.fun * scale)
    return LowRankResult(at, value, prior, bool(result.success), function.passes)
