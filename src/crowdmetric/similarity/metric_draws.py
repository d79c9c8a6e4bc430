"""Draws from the posterior of a full metric, given judgements.

Where answers are few or sharp, the likelihood is far from Gaussian in M: the larger a metric is, the fewer questions
are close enough to tell its entries apart. So it is expanded in the shape s = svec(I + T) around its mode s₀, exactly
in the size t along the mode's shape::

    ℓ(t, s) = v(t) + g(t)ᵀ(s − s₀) − ½ e^{κ(t − t₀)} (s − s₀)ᵀ H (s − s₀)

v and g are splines through values and gradients at several sizes, H is the curvature at the mode, and κ is the rate at
which curvature grows with the size: 2 would be a Gaussian in M, and sharp answers have about 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.solvers.posterior import FARTHEST
from crowdmetric.solvers.shape_draws import ShapedDensity, draw_shaped
from crowdmetric.symmetric import dimension, svec

__all__ = ["ExpandedJudgements", "JudgementLikelihood", "draw_judged"]

Array = NDArray[np.float64]

# Number of sizes at which the likelihood is computed, how far they reach, in standard deviations, and at least, in log.
SIZES, REACH, LEAST_REACH = 9, 6.0, 0.3
# Below this mean eigenvalue (items have size one) a metric may be too small for any answer to notice.
FAINT = 0.05
# Limits of the rate κ.
LEAST_RATE, MOST_RATE = 0.0, 2.0


@dataclass(frozen=True)
class JudgementLikelihood:
    """The likelihood of judgements itself, of metrics ``eᵗ smat(s)``."""

    objective: SimilarityObjective

    def __call__(self, t: Array, shapes: Array) -> tuple[Array, Array, Array]:
        """Return values (C,) and derivatives by size (C,) and shape (C, p), one point after the other."""
        metrics = np.exp(t)[:, None] * shapes
        found = [self.objective.slope(m) for m in metrics]
        slopes = -np.stack([slope for _, slope in found])
        value = -np.array([value for value, _ in found])
        return value, np.einsum("cp,cp->c", slopes, metrics), np.exp(t)[:, None] * slopes

    def information(self, t: float, shape: Array) -> Array:
        """Return the Fisher information (1 + p, 1 + p) in (t, s)."""
        J = np.column_stack([shape, np.eye(shape.size)]) * np.exp(t)
        information: Array = J.T @ self.objective.curvature(np.exp(t) * shape) @ J
        return information


@dataclass(frozen=True)
class ExpandedJudgements:
    """The expansion of the likelihood around a shape.

    Attributes
    ----------
    size, shape
        t₀ and s₀ (p,).
    sizes, values, slopes
        (K,) where v (K,) and g (K, p) were computed.
    curvature, rate
        H (p, p) and κ.
    """

    size: float
    shape: Array
    sizes: Array
    values: Array
    slopes: Array
    curvature: Array
    rate: float

    @classmethod
    def around(cls, likelihood: JudgementLikelihood, size: float, shape: Array) -> ExpandedJudgements:
        """Return the expansion at a size and a shape."""
        information = likelihood.information(size, shape)
        # about the prior's precision, without which what no answer tells would have no error
        prior = np.append(FARTHEST**-2, np.full(shape.size, 0.5 * (dimension(shape.size) + 1)))
        covariance = np.linalg.inv(information + np.diag(prior))
        reach = float(np.clip(REACH * np.sqrt(covariance[0, 0]), LEAST_REACH, FARTHEST))
        sizes = size + np.linspace(-reach, reach, SIZES)
        values, _, slopes = likelihood(sizes, np.tile(shape, (SIZES, 1)))
        apart = reach / REACH
        nearby = [likelihood.information(t, shape)[1:, 1:] for t in (size - apart, size + apart)]
        lower, upper = (max(float(np.sum(covariance[1:, 1:] * H)), 1e-300) for H in nearby)
        rate = float(np.clip(np.log(upper / lower) / (2.0 * apart), LEAST_RATE, MOST_RATE))
        return cls(size, shape, sizes, values, slopes, information[1:, 1:], rate)

    @cached_property
    def _weights(self) -> CubicSpline:
        return CubicSpline(self.sizes, np.eye(len(self.sizes)))

    def __call__(self, t: Array, shapes: Array) -> tuple[Array, Array, Array]:
        """Return values (C,), −∞ at sizes that were not looked at, and derivatives by size (C,) and shape (C, p)."""
        at, rising = self._weights(t), self._weights(t, 1)
        away, grown = shapes - self.shape, np.exp(self.rate * (t - self.size))
        pull = away @ self.curvature
        bend = 0.5 * grown * np.einsum("cp,cp->c", away, pull)
        slopes = at @ self.slopes
        value = at @ self.values + np.einsum("cp,cp->c", slopes, away) - bend
        by_size = rising @ self.values + np.einsum("cp,cp->c", rising @ self.slopes, away) - self.rate * bend
        inside = (t >= self.sizes[0]) & (t <= self.sizes[-1])
        return np.where(inside, value, -np.inf), by_size, slopes - grown[:, None] * pull

    def information(self, t: float, shape: Array) -> Array:
        """Return about minus the second derivative (1 + p, 1 + p) in (t, s)."""
        p = shape.size
        information = np.zeros((1 + p, 1 + p))
        information[0, 0] = max(0.0, -float(self._weights(t, 2) @ self.values))
        information[1:, 1:] = np.exp(self.rate * (t - self.size)) * self.curvature
        return information


def draw_judged(objective: SimilarityObjective, estimate: Array) -> Array:
    """Return draws svec M (n, p); the objective's structure is full, and the estimate (p,) is svec of a metric."""
    exact = JudgementLikelihood(objective)
    density, start = ShapedDensity.near(exact, _visible(objective, estimate))
    mode = density.mode(start)
    expanded = ExpandedJudgements.around(exact, float(mode[0]), density.space.shapes(mode[None, 1:])[0])
    return draw_shaped(ShapedDensity(density.space, expanded, density.size), mode)


def _visible(objective: SimilarityObjective, estimate: Array) -> Array:
    """Return the estimate; if it is all but zero, a round metric that is just large enough for answers to notice it.

    Sizes are looked for around that of the estimate: around zero there would be no other than zero.
    """
    round_metric = svec(np.eye(dimension(estimate.size)))
    if round_metric @ estimate > FAINT * (round_metric @ round_metric):
        return estimate
    nothing = objective.value(0.0 * round_metric)
    sizes = np.exp(np.arange(-(FARTHEST**2), FARTHEST, 0.5))
    noticed = (size for size in sizes if abs(objective.value(size * round_metric) - nothing) > 1.0)
    visible: Array = (
        max(next(noticed, 1.0), float(round_metric @ estimate) / (round_metric @ round_metric)) * round_metric
    )
    return visible
