"""What the answers leave open about a metric: draws from its posterior, every one of them a metric.

A metric is its size times its shape, ``M = c (I + T)`` with ``c = tr M / d`` and T without trace. Before the answers,
all orders of magnitude of the size are equally likely, and the shape is that of ``LLᵀ`` for a square L of independent
Gaussian numbers (a Wishart matrix), in coordinates t = log c and T::

    log prior(t, T) = −½ log det(I + T)      where I + T is positive definite, −∞ elsewhere

This prior is proper about the shape whatever the answers are, leaves room for metrics that are all but singular, and
does not need a strength: where the answers say nothing, intervals are as wide as it is.

The log-likelihood, everything but M being fitted and integrated out by Laplace's method, is expanded in T at several
sizes t_k, and interpolated between them by cubic splines w_k(t)::

    log q(t, T) = Σ_k w_k(t) (v_k + g_kᵀ(T − T₀) − ½ (T − T₀)ᵀ H_k (T − T₀)) + log prior(t, T)

so that a skewed size, and a shape that is known the better the larger the size, come out as they are. Draws of (t, T)
come from `crowdmetric.solvers.draws`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from crowdmetric.solvers.draws import LogDensity, draw_from, positive_definite
from crowdmetric.symmetric import degrees_of_freedom, dimension, smat, svec

__all__ = ["Expansion", "Likelihood", "SizeAndShape", "draw_around", "draw_metrics", "number_of_draws"]

Array = NDArray[Any]

# Draws where the metric has few features; fewer where each costs more.
MOST_DRAWS, LEAST_DRAWS, ENTRIES = 1000, 200, 60_000
# Sizes at which the likelihood is expanded: at most so many; how far apart, in standard errors, with limits.
MOST_SIZES, APART, LEAST_APART, MOST_APART = 15, 1.5, 0.02, 0.4
# Sizes whose density is smaller by more nats than this are left out; so are those further from the estimate, in log.
NEGLIGIBLE, FARTHEST = 5.0, 4.0
# The start is drawn to the identity by this share, to be inside the cone.
LIFT = 0.3


@dataclass(frozen=True)
class SizeAndShape:
    """Coordinates (t, T) of metrics of d features: M = eᵗ (I + Σ_j T_j B_j), B_j orthonormal and without trace."""

    d: int

    @property
    def identity(self) -> Array:
        """Svec I, (p,)."""
        return svec(np.eye(self.d))

    @property
    def basis(self) -> Array:
        """The B_j as columns (p, p − 1): a reflection that takes I to the first axis takes the other axes to them."""
        mirror = self.identity / np.sqrt(self.d)
        mirror[0] += 1.0
        mirror /= np.linalg.norm(mirror)
        return np.asarray(np.eye(mirror.size)[:, 1:] - 2.0 * np.outer(mirror, mirror[1:]))

    def coordinates(self, m: Array) -> tuple[float, Array]:
        """Return t and T (p − 1,) of svec M; a metric that is nothing has a shape that is round."""
        c = float(self.identity @ m) / self.d
        size = float(np.linalg.norm(m))
        if not c > 1e-6 * size:
            return float(np.log(max(size, 1e-6))), np.zeros(m.size - 1)
        return float(np.log(c)), self.basis.T @ m / c


class Likelihood(Protocol):
    """A log-likelihood near a size and a shape, everything but M integrated out."""

    def __call__(self, t: float, T: Array, rest: Array) -> Expansion:
        """Return the expansion in T at a size and a shape, `rest` being everything else, where to begin with it."""
        ...


@dataclass(frozen=True)
class Expansion:
    """``v + gᵀ(T' − T) − ½ (T' − T)ᵀ H (T' − T)`` at a size t.

    Attributes
    ----------
    t, value, gradient, curvature
        The size, v, g (p − 1,) and H (p − 1, p − 1), positive semi-definite.
    rest
        Everything else, where it would be best given t and T.
    precision
        The information about t alone, everything else being fitted.
    """

    t: float
    value: float
    gradient: Array
    curvature: Array
    rest: Array
    precision: float

    def evidence(self, T: Array, prior: float) -> float:
        """Return about how likely the size is, T being integrated out under a Gaussian N(0, 1/prior)."""
        A = self.curvature + prior * np.eye(T.size)
        g = self.gradient - prior * T
        gain = 0.5 * float(g @ np.linalg.solve(A, g)) if T.size else 0.0
        # far from its optimum an expansion promises more than there is to gain
        return self.value + min(gain, 0.5 * T.size) - 0.5 * float(np.linalg.slogdet(A)[1])


def number_of_draws(d: int) -> int:
    """Return how many draws are made for d features."""
    return int(np.clip(ENTRIES // degrees_of_freedom(d), LEAST_DRAWS, MOST_DRAWS))


def draw_metrics(likelihood: Likelihood, m: Array, rest: Array, *, refine: bool, seed: int = 0) -> Array:
    """Return draws svec M (n, p) from the posterior of a metric that was estimated as svec M = m.

    Parameters
    ----------
    likelihood
        The log-likelihood of a size and a shape.
    m : (p,)
        The estimate.
    rest
        Everything else, as estimated.
    refine
        Whether to expand once more where the first draws are on average, for a likelihood that is far from quadratic.
    """
    d = dimension(m.size)
    space = SizeAndShape(d)
    t, T = space.coordinates(m)
    count, prior = number_of_draws(d), 0.5 * (d + 1)  # a Wishart shape has about this precision
    if refine:
        sizes = _expansions(likelihood, t, T, rest, prior)
        x = _draws_at(space, sizes, T, count // 2, seed)
        t, T = float(x[:, 0].mean()), x[:, 1:].mean(axis=0)
        rest = min(sizes, key=lambda at: abs(at.t - t)).rest
    x = _draws_at(space, _expansions(likelihood, t, T, rest, prior), T, count, seed)
    return _metrics(space, x)


def draw_around(center: Array, precision: Array, m: Array, seed: int = 0) -> Array:
    """Return draws svec M (n, p) where the log-likelihood is ``−½ (a − center)ᵀ precision (a − center)`` in a = svec M.

    `m` is the estimate, which is positive semi-definite; precision may be singular.
    """
    d = dimension(m.size)
    space = SizeAndShape(d)
    t, T = space.coordinates(m)
    inside = _prior(space, t - FARTHEST, t + FARTHEST)

    def log_density(x: Array) -> Array:
        away = _metrics(space, x) - center
        return np.asarray(inside(x) - 0.5 * np.einsum("cp,cp->c", away @ precision, away))

    start = np.concatenate([[t], (1.0 - LIFT) * T])
    c = float(np.exp(t))
    J = np.column_stack([m, c * space.basis])
    known = J.T @ precision @ J + 0.5 * (d + 1) * np.eye(m.size)
    return _metrics(space, draw_from(log_density, start, np.linalg.inv(known), number_of_draws(d), seed))


def _metrics(space: SizeAndShape, x: Array) -> Array:
    return np.asarray(np.exp(x[:, :1]) * (space.identity + x[:, 1:] @ space.basis.T))


def _prior(space: SizeAndShape, least: float, most: float) -> LogDensity:
    """Return the log prior of points (t, T), −∞ outside the cone and for sizes beyond limits."""
    identity, basis = space.identity, space.basis

    def log_prior(x: Array) -> Array:
        out = np.full(len(x), -np.inf)
        near = np.flatnonzero((x[:, 0] >= least) & (x[:, 0] <= most))
        if near.size:
            inside, log_det = positive_definite(smat(identity + x[near, 1:] @ basis.T))
            out[near[inside]] = -0.5 * log_det[inside]
        return out

    return log_prior


def _draws_at(space: SizeAndShape, sizes: list[Expansion], T: Array, count: int, seed: int) -> Array:
    """Return draws (t, T) (n, p) from expansions at one shape."""
    prior = 0.5 * (space.d + 1)
    evidence = np.array([at.evidence(T, prior) for at in sizes])
    best = sizes[int(np.argmax(evidence))]
    weight = np.exp(evidence - evidence.max())
    ts = np.array([at.t for at in sizes])
    spread = max(float(np.average((ts - np.average(ts, weights=weight)) ** 2, weights=weight)), LEAST_APART**2)
    covariance = np.zeros((T.size + 1, T.size + 1))
    covariance[0, 0], covariance[1:, 1:] = spread, np.linalg.inv(best.curvature + prior * np.eye(T.size))
    start = np.concatenate([[best.t], (1.0 - LIFT) * T])
    return draw_from(_interpolated(space, sizes, T), start, covariance, count, seed)


def _expansions(likelihood: Likelihood, t: float, T: Array, rest: Array, prior: float) -> list[Expansion]:
    """Return expansions at sizes around t, as far as they are likely, by rising size."""
    middle = likelihood(t, T, rest)
    error = max(middle.precision, 1e-300) ** -0.5
    apart = float(np.clip(APART * error, LEAST_APART, MOST_APART))
    found, best = [middle], middle.evidence(T, prior)
    for way in (1, -1):
        at = middle
        while len(found) < MOST_SIZES and abs(at.t - t) < FARTHEST:
            at = likelihood(at.t + way * apart, T, at.rest)
            known = at.evidence(T, prior)
            if not np.isfinite(known):
                break
            found.append(at)
            best = max(best, known)
            if known < best - NEGLIGIBLE:
                break
    return sorted(found, key=lambda at: at.t)


def _interpolated(space: SizeAndShape, sizes: list[Expansion], T: Array) -> LogDensity:
    """Return log q of points (t, T)."""
    ts = np.array([at.t for at in sizes])
    values = np.array([at.value for at in sizes])
    gradients = np.stack([at.gradient for at in sizes])
    log_prior = _prior(space, ts[0] - 1e-9, ts[-1] + 1e-9)
    weights_at: Callable[[Array], Array] = (
        CubicSpline(ts, np.eye(len(ts))) if len(ts) > 1 else lambda t: np.ones((t.size, 1))
    )

    def log_density(x: Array) -> Array:
        out = log_prior(x)
        near = np.flatnonzero(np.isfinite(out))
        weights, away = weights_at(x[near, 0]), x[near, 1:] - T
        out[near] += weights @ values + np.einsum("ck,ck->c", weights, away @ gradients.T)
        for k, at in enumerate(sizes):
            out[near] -= 0.5 * weights[:, k] * np.einsum("cp,cp->c", away @ at.curvature, away)
        return out

    return log_density
