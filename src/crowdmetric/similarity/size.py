"""The size of a metric is a strength like the ridges': the evidence chooses it, with the shape integrated out.

A ridge ``½ λ ‖P θ‖²`` on the shape of a metric costs less the smaller the metric is, so a joint optimum of size and
shape is too small (and with the ridge ``½ τ ‖P θ‖²/c²``, c = tr M / d, too large). What decides is how likely the
answers are under all shapes of one size. With the shape at its optimum θ̂ for a size c, by Laplace's method, ::

    log E(c) = ℓ(θ̂) − limit(c) − ½ Σ_r λ_r ‖P_r θ̂‖² + ½ Σ_r rank P_r log λ_r − ½ log det (H + Σ_r λ_r P_r)

the determinant over the directions that keep the size, H the curvature of −ℓ at θ̂, ``λ_r = τ_r/c²``. All orders of
magnitude of c are equally likely before the answers, up to the limit below. Its width is the error of the size.

The strengths τ_r are MacKay's for that size: ``τ_r ← γ_r c² / ‖P_r θ̂‖²``, with ``γ_r = rank P_r − λ_r tr(S P_r)`` and S
the covariance of the shape at that size. A fit at one size is a fit with a steep penalty on it (`SizePrior`).

**The limit of noise.** If some metric explains all answers, a larger one explains them better. As for preferences
(`crowdmetric.solvers.priors`), ψ, the difference of two options in units of the noise of an answer, has a prior of
standard deviation 10: ``limit(c) = ½ mean ψ² / 10²`` for the multiple of the identity of that size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.solvers.priors import NOISE_FREE

__all__ = ["STEEP", "KnownSize", "NoiseLimit", "SizePrior", "best_size"]

Array = NDArray[np.float64]

# How many times as steep as the likelihood the penalty on the size is that holds it.
STEEP = 100.0
# Sizes are this many standard errors of the size apart where the evidence is looked at, within limits, in log.
APART, LEAST_APART, MOST_APART = 1.0, 0.02, 0.35
# Sizes count for the standard error if log E is within this many nats of the best.
LIKELY = 6.0
# A 90 % interval reaches this many standard errors.
INSIDE = 1.645
# Sizes are looked at up to this far from the first, in log, and until a better one would be this many errors away.
FARTHEST, CLOSE_ENOUGH, MOST_SIZES = 6.0, 0.2, 40


@dataclass(frozen=True)
class NoiseLimit:
    """``limit(c) = ½ strength c^power``, c the mean eigenvalue of a metric."""

    strength: float
    power: int

    @classmethod
    def of(cls, objective: SimilarityObjective) -> NoiseLimit:
        """Return the limit for the questions that were asked."""
        likelihood = objective.likelihood
        f = likelihood.linked(objective.distances(objective.structure.theta(np.eye(objective.items.shape[1]))))
        squares = weights = 0.0
        for asked in objective.questions.asked:
            n, u = asked.counts.sum(axis=1), f[asked.index]
            for j, l in combinations(range(u.shape[1]), 2):  # noqa: E741 - the letters of `likelihood`
                squares, weights = squares + float(n @ (u[:, j] - u[:, l]) ** 2), weights + float(n.sum())
        mean = likelihood.beta**2 * squares / weights
        return cls(mean / NOISE_FREE**2, 2 if likelihood.link == "squared" else 1)

    def __call__(self, c: float) -> tuple[float, float, float]:
        """Return the limit, its slope and its curvature in c."""
        if self.power == 2:
            return 0.5 * self.strength * c * c, self.strength * c, self.strength
        return 0.5 * self.strength * c, 0.5 * self.strength, 0.0


@dataclass(frozen=True)
class SizePrior:
    """``limit(c) + ½ steepness (c/held − 1)²`` as a function of θ; held at no size if `steepness` is zero.

    `mean` (n,) takes a metric's parameters to its mean eigenvalue, ``c = meanᵀθ``.
    """

    mean: Array
    limit: NoiseLimit
    held: float = 1.0
    steepness: float = 0.0

    @classmethod
    def of(cls, objective: SimilarityObjective) -> SizePrior:
        """Return the limit alone."""
        identity = objective.structure.theta(np.eye(objective.items.shape[1]))
        return cls(identity / float(identity @ identity), NoiseLimit.of(objective))

    def size_of(self, theta: Array) -> float:
        """Return c."""
        return float(self.mean @ theta)

    def holding(self, c: float, information: float) -> SizePrior:
        """Return a penalty that holds the size c, given the information about log c; none for a size of 0."""
        if not c > 0.0:
            return self
        return replace(self, held=c, steepness=STEEP * max(information, 1.0))

    def __call__(self, theta: Array) -> tuple[float, Array, Array]:
        """Return the value, the gradient (n,) and the curvature (n, n)."""
        c = self.size_of(theta)
        value, slope, bend = self.limit(max(c, 0.0))
        away = c / self.held - 1.0
        value += 0.5 * self.steepness * away * away
        slope += self.steepness * away / self.held
        bend += self.steepness / self.held**2
        return value, slope * self.mean, bend * np.outer(self.mean, self.mean)


@dataclass(frozen=True)
class KnownSize:
    """What the evidence says of log c: log E at the sizes (K,) that were looked at, the best of them, and its error.

    Attributes
    ----------
    sizes, log_evidence
        log c in increasing order, and log E there.
    best, error
        Where log E is largest, and the standard error of log c; infinite if log E has no maximum there.
    """

    sizes: Array
    log_evidence: Array
    best: float
    error: float

    def checked(self, log_evidence: Callable[[float], tuple[float, float]]) -> KnownSize:
        """Return it with the evidence at half and at twice the size, which a 90 % interval must agree with.

        If the interval leaves out a size that is about as likely as the best, the error is made so large that it does
        not; infinite if that size is even more likely.
        """
        error, sizes, values = self.error, self.sizes, self.log_evidence
        top = float(values.max())
        for way in (-1.0, 1.0):
            at, value = log_evidence(self.best + way * np.log(2.0))
            sizes, values = np.append(sizes, at), np.append(values, value)
            away, lower = abs(at - self.best), top - value
            if away > INSIDE * error and lower < 0.5 * INSIDE**2:
                error = away / np.sqrt(2.0 * lower) if lower > 0.0 else float("inf")
        order = np.argsort(sizes)
        return KnownSize(sizes[order], values[order], self.best, float(error))


def best_size(log_evidence: Callable[[float], tuple[float, float]], start: float, error: float) -> KnownSize:
    """Return where log E has its first maximum uphill from a start; `error` is a guess of the standard error of log c.

    `log_evidence` takes a log size, and returns one close to it and log E there. Beyond the first maximum Laplace's
    method may rise again, where a metric is so large that no answer is in doubt.
    """
    seen: dict[float, float] = {}

    def look(t: float) -> float:
        at, value = log_evidence(t)
        seen[at] = value
        return at

    apart = float(np.clip(APART * error, LEAST_APART, MOST_APART))
    first = look(start)
    look(first + apart)
    while len(seen) < MOST_SIZES:
        sizes = np.array(sorted(seen))
        values = np.array([seen[t] for t in sizes])
        top = int(np.argmax(values))
        if abs(sizes[top] - start) > FARTHEST:
            return KnownSize(sizes, values, float(sizes[top]), float("inf"))
        if top == 0:
            look(float(sizes[0]) - apart)
            apart = min(2.0 * apart, MOST_APART)
        elif top == len(sizes) - 1:
            look(float(sizes[-1]) + apart)
            apart = min(2.0 * apart, MOST_APART)
        else:
            vertex, bend = _parabola(sizes[top - 1 : top + 2], values[top - 1 : top + 2])
            width = 1.0 / np.sqrt(max(bend, 1e-300))
            if np.min(np.abs(sizes - vertex)) < CLOSE_ENOUGH * min(width, 1.0):
                return KnownSize(sizes, values, vertex, _width(sizes, values, width))
            look(vertex)
    return KnownSize(sizes, values, float(sizes[top]), float("inf"))


def _width(sizes: Array, values: Array, width: float) -> float:
    """Return the standard error from all sizes that are about as likely as the best: three of them may be too close."""
    near = values > values.max() - LIKELY
    if near.sum() < 4:
        return width
    bend = -2.0 * float(np.polyfit(sizes[near], values[near], 2)[0])
    return float(1.0 / np.sqrt(bend)) if bend > 0.0 else width


def _parabola(t: Array, values: Array) -> tuple[float, float]:
    """Return where the parabola through three points is largest, and minus its second derivative."""
    left, right = np.diff(values) / np.diff(t)
    bend = (left - right) / (0.5 * (t[2] - t[0]))
    middle = 0.5 * (t[0] + t[1])
    vertex = middle + left / max(bend, 1e-300)
    return float(np.clip(vertex, t[0], t[2])), float(bend)
