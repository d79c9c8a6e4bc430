"""Draws from the posterior of a full metric, given judgements.

Where answers are few or sharp, the likelihood is far from Gaussian in M: the larger a metric is, the fewer questions
are close enough to tell its entries apart. So it is expanded around a center a₀ = svec M₀ in what remains of a = svec M
when the size is taken out, exactly in the size along the center's own shape::

    r = cᵀa       c = H a₀ / (a₀ᵀ H a₀)       b = a / r
    ℓ(a) = v(log r) + g(log r)ᵀ(b − a₀) − ½ r^κ (b − a₀)ᵀ H (b − a₀)

v and g are splines through values and gradients at several sizes, H is the curvature at the center, and κ is the rate
at which curvature grows with the size: 2 would be a Gaussian in M, and sharp answers have about 1. r is the size that
the answers determine. The trace would be the wrong size: entries on which no answer depends may be most of it.

The first center is the mode. Draws lie around it at a distance, and where answers are few their mean is far from it. So
a few are drawn first; the second center is their mean, H the mean of the curvature over some of them, and v and g are
tilted so that the mean slope of the expansion over them is that of the likelihood itself. Means of draws from this
expansion are then within about a tenth of a standard deviation of those of draws from the likelihood itself. The latter
take ten times as long, and are made where the two log-likelihoods differ over the draws: where parameters are many for
the answers, draws from the expansion are far too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from crowdmetric.similarity.newton import SimilarityFit, posterior_covariance
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.size import SizePrior
from crowdmetric.solvers.posterior import FARTHEST, number_of_draws
from crowdmetric.solvers.shape_draws import ShapedDensity, draw_shaped
from crowdmetric.symmetric import dimension, svec

__all__ = ["ExpandedJudgements", "JudgedDraws", "JudgementLikelihood", "draw_judged", "draw_structured"]

Array = NDArray[np.float64]

# Number of sizes at which the likelihood is computed, how far they reach, in standard deviations, and at least, in log.
SIZES, REACH, LEAST_REACH = 9, 6.0, 0.3
# Below this mean eigenvalue (items have size one) a metric may be too small for any answer to notice.
FAINT = 0.05
# If an expansion differs from the likelihood by more than this over its own draws, in nats (standard deviation), draws
# are from the likelihood itself, unless that has more numbers (distinct pairs × parameters) than this.
OFF, MOST_EXACT = 2.0, 2_000_000
# Draws from an expansion that need smaller steps than this are not made.
LEAST_STEP = 0.03
# Number of draws from the first expansion, which the second is matched to, and of those whose curvature is averaged.
FEW, AVERAGED = 60, 6
# Limits of the rate κ.
LEAST_RATE, MOST_RATE = 0.0, 2.0


@dataclass(frozen=True)
class JudgementLikelihood:
    """The likelihood of judgements itself, of metrics ``eᵗ smat(s)``, with the limit of noise on their size.

    An answer counts `weight` (`crowdmetric.similarity.clustering`).
    """

    objective: SimilarityObjective
    weight: float = 1.0

    @cached_property
    def _size(self) -> SizePrior:
        return SizePrior.of(self.objective)

    def __call__(self, t: Array, shapes: Array) -> tuple[Array, Array, Array]:
        """Return values (C,) and derivatives by size (C,) and shape (C, p), one point after the other."""
        metrics = np.exp(t)[:, None] * shapes
        values, slopes = self.objective.slopes(metrics)
        limits = [self._size(metric) for metric in metrics]
        values = self.weight * values + [value for value, *_ in limits]
        slopes = self.weight * slopes + [slope for _, slope, _ in limits]
        return -values, -np.einsum("cp,cp->c", slopes, metrics), -np.exp(t)[:, None] * slopes

    def information(self, t: float, shape: Array) -> Array:
        """Return the Fisher information (1 + p, 1 + p) in (t, s)."""
        J = np.column_stack([shape, np.eye(shape.size)]) * np.exp(t)
        metric = np.exp(t) * shape
        information: Array = J.T @ (self.weight * self.objective.curvature(metric) + self._size(metric)[2]) @ J
        return information


@dataclass(frozen=True)
class ExpandedJudgements:
    """The expansion of the likelihood around a size and a shape, for metrics ``eᵗ smat(s)``.

    Attributes
    ----------
    size, shape
        log r = t₀ at the center, and its shape s₀ (p,): a₀ of the formula, divided by its size.
    sizes, values, slopes
        (K,) where v (K,) and g (K, p) were computed.
    curvature, rate
        H (p, p) and κ.
    gauge
        c (p,), for shapes instead of metrics: cᵀs₀ = 1.
    """

    size: float
    shape: Array
    sizes: Array
    values: Array
    slopes: Array
    curvature: Array
    rate: float
    gauge: Array

    @classmethod
    def around(cls, likelihood: JudgementLikelihood, size: float, shape: Array) -> ExpandedJudgements:
        """Return the expansion at a size and a shape."""
        H = likelihood.information(size, shape)[1:, 1:]
        along = max(float(shape @ H @ shape), 1e-300)
        gauge = H @ shape / along
        reach = float(np.clip(REACH / np.sqrt(along), LEAST_REACH, FARTHEST))
        sizes = size + np.linspace(-reach, reach, SIZES)
        values, _, slopes = likelihood(sizes, np.tile(shape, (SIZES, 1)))
        # about the prior's precision, without which what no answer tells would have no error
        covariance = np.linalg.inv(H + 0.5 * (dimension(shape.size) + 1) * np.eye(shape.size))
        apart = reach / REACH
        across = np.eye(shape.size) - np.outer(shape, gauge)
        nearby = [across.T @ likelihood.information(t, shape)[1:, 1:] @ across for t in (size - apart, size + apart)]
        lower, upper = (max(float(np.sum(covariance * near)), 1e-300) for near in nearby)
        rate = float(np.clip(np.log(upper / lower) / (2.0 * apart), LEAST_RATE, MOST_RATE))
        return cls(size, shape, sizes, values, slopes, H, rate, gauge)

    def matched(self, likelihood: JudgementLikelihood, t: Array, shapes: Array) -> ExpandedJudgements:
        """Return it with the mean curvature over some draws (n,), (n, p), and the likelihood's mean slope over all."""
        r = shapes @ self.gauge
        tau, b = t + np.log(r), shapes / r[:, None]
        H = np.mean(
            [
                likelihood.information(tau[i], b[i])[1:, 1:] * np.exp(self.rate * (self.size - tau[i]))
                for i in range(min(AVERAGED, len(t)))
            ],
            axis=0,
        )
        other = replace(self, curvature=H)
        (_, by_size, by_shape), (_, our_size, our_shape) = likelihood(t, shapes), other(t, shapes)
        along = by_size - our_size
        across = (by_shape - our_shape) * r[:, None] - along[:, None] * self.gauge
        values = self.values + along.mean() * (self.sizes - self.size)
        return replace(other, values=values, slopes=self.slopes + across.mean(axis=0))

    @cached_property
    def _weights(self) -> CubicSpline:
        return CubicSpline(self.sizes, np.eye(len(self.sizes)))

    def __call__(self, t: Array, shapes: Array) -> tuple[Array, Array, Array]:
        """Return values (C,), −∞ at sizes that were not looked at, and derivatives by size (C,) and shape (C, p)."""
        r = shapes @ self.gauge
        seen = r > 0.0
        r = np.where(seen, r, 1.0)
        tau, b = t + np.log(r), shapes / r[:, None]
        at, rising = self._weights(tau), self._weights(tau, 1)
        away, grown = b - self.shape, np.exp(self.rate * (tau - self.size))
        pull = away @ self.curvature
        bend = 0.5 * grown * np.einsum("cp,cp->c", away, pull)
        slopes = at @ self.slopes
        value = at @ self.values + np.einsum("cp,cp->c", slopes, away) - bend
        by_size = rising @ self.values + np.einsum("cp,cp->c", rising @ self.slopes, away) - self.rate * bend
        by_b = slopes - grown[:, None] * pull
        by_shape = (by_b + (by_size - np.einsum("cp,cp->c", by_b, b))[:, None] * self.gauge) / r[:, None]
        inside = seen & (tau >= self.sizes[0]) & (tau <= self.sizes[-1])
        return np.where(inside, value, -np.inf), by_size, by_shape

    def information(self, t: float, shape: Array) -> Array:
        """Return about minus the second derivative (1 + p, 1 + p) in (t, s)."""
        r = float(shape @ self.gauge)
        tau = t + np.log(r)
        b_by_shape = (np.eye(shape.size) - np.outer(shape, self.gauge) / r) / r
        tau_by = np.append(1.0, self.gauge / r)
        information = max(0.0, -float(self._weights(tau, 2) @ self.values)) * np.outer(tau_by, tau_by)
        information[1:, 1:] += np.exp(self.rate * (tau - self.size)) * (b_by_shape.T @ self.curvature @ b_by_shape)
        return np.asarray(information)


@dataclass(frozen=True)
class JudgedDraws:
    """Draws from the posterior of a metric.

    Attributes
    ----------
    draws
        svec M (n, p).
    off
        Standard deviation, over the draws, of how much the log-likelihood that they are from differs from the real one,
        in nats; zero if they are from the real one.
    """

    draws: Array
    off: float

    @property
    def log_sizes(self) -> Array:
        """Log mean eigenvalues (n,)."""
        return _size_and_shape(self.draws)[0]

    @property
    def size_error(self) -> float:
        """The standard error of the log size: half the width of the middle 68 % of the draws."""
        return 0.5 * float(np.ptp(np.quantile(self.log_sizes, [0.16, 0.84])))

    def widened(self, error: float) -> Array:
        """Return draws (n, p) whose log sizes have a standard error of at least `error`, or `FARTHEST` if it is inf."""
        t = self.log_sizes
        factor = max(1.0, min(error, FARTHEST) / max(self.size_error, 1e-300))
        return np.asarray(self.draws * np.exp((factor - 1.0) * (t - np.median(t)))[:, None])

    @property
    def is_rough(self) -> bool:
        """Whether the draws may be far from the posterior."""
        return self.off > OFF


def draw_judged(objective: SimilarityObjective, estimate: Array, weight: float = 1.0) -> JudgedDraws:
    """Return draws of a metric; the objective's structure is full, and the estimate (p,) is svec of a metric.

    An answer counts `weight`.
    Draws begin at the size of the estimate: a joint mode of size and shape may be far from where the posterior is.
    """
    exact = JudgementLikelihood(objective, weight)
    density, near = ShapedDensity.near(exact, _visible(objective, estimate))
    start = density.at(float(near[0]), density.space.shapes(near[None, 1:])[0])
    drawn = _draw_expanded(density, exact, start)
    possible = objective.is_kept and objective.kept_rows.size <= MOST_EXACT
    if drawn is None or (drawn.is_rough and possible):
        return JudgedDraws(draw_shaped(density, start), 0.0)
    return drawn


def draw_structured(objective: SimilarityObjective, fit: SimilarityFit, weight: float, seed: int = 0) -> Array:
    """Return draws svec M (n, p) of a metric whose structure is given, by Laplace's method.

    The log size is drawn with the error that the evidence gives it, and the shape around the fit's, at that size.
    """
    structure, d = objective.structure, objective.items.shape[1]
    covariance = posterior_covariance(objective, fit, weight)
    identity = structure.theta(np.eye(d))
    along = covariance @ identity
    across = covariance - np.outer(along, along) / float(identity @ along)
    rng, count = np.random.default_rng(seed), number_of_draws(d)
    error = 0.0 if fit.size is None else min(fit.size.error / np.sqrt(weight), FARTHEST)
    shapes = structure.project(rng.multivariate_normal(fit.theta, across, size=count, method="eigh"))
    shapes *= (fit.theta @ identity / (shapes @ identity))[:, None]
    drawn = np.exp(error * rng.standard_normal(count))[:, None] * shapes
    return np.stack([svec(structure.metric(theta)) for theta in drawn])


def _draw_expanded(density: ShapedDensity, exact: JudgementLikelihood, start: Array) -> JudgedDraws | None:
    """Return draws from the second expansion; None if there are none of it, or they would need too small steps."""
    first = ExpandedJudgements.around(exact, float(start[0]), density.space.shapes(start[None, 1:])[0])
    few = draw_shaped(replace(density, likelihood=first), start, FEW, least_step=LEAST_STEP)
    if not len(few):
        return None
    t, shapes = _size_and_shape(few)
    center = density.at(float(t.mean()), shapes.mean(axis=0))
    second = ExpandedJudgements.around(exact, float(t.mean()), shapes.mean(axis=0))
    if not np.all(shapes @ second.gauge > 0.0):  # what the answers say of some draw's size has no meaning there
        return None
    second = second.matched(exact, t, shapes)
    draws = draw_shaped(replace(density, likelihood=second), center, least_step=LEAST_STEP)
    if not len(draws):
        return None
    t, shapes = _size_and_shape(draws[:FEW])
    return JudgedDraws(draws, float(np.std(exact(t, shapes)[0] - second(t, shapes)[0])))


def _size_and_shape(metrics: Array) -> tuple[Array, Array]:
    """Return log sizes (n,) and shapes (n, p) of svec M (n, p)."""
    identity = svec(np.eye(dimension(metrics.shape[1])))
    sizes = metrics @ identity / (identity @ identity)
    return np.log(sizes), metrics / sizes[:, None]


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
