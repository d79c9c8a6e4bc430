"""Draws from the posterior of a metric, all of them metrics.

A metric is its size times its shape, ``M = c S`` with ``c = tr M / d`` and ``S = I + T``, T without trace. Before the
answers, all orders of magnitude of the size are equally likely, and the shape is that of a Wishart matrix, a sum of ν
squares in random directions::

    p(S | ν) ∝ Γ(νd/2) / (Γ_d(ν/2) d^{νd/2}) · det(S)^{(ν − d − 1)/2}          ν = d, 2d, 4d, … (`DOUBLINGS`)

With ν = d metrics that are nearly singular are nothing unusual; the larger ν, the rounder they are. ν = d is thought to
be the rule, and each further ν to be a tenth as likely as the one before (`RARER`): so few answers do not make a metric
round, but many may. The sum over ν needs no draws of ν, for it depends on S through its determinant alone. With L
lower triangular (Bartlett), i = 1 … d, and c_ν the constant above::

    log prior(L) = −½ ‖L‖² + Σ_i (d − i) log|L_ii| + r(log det S)      S = d LLᵀ / tr LLᵀ
    r(v) = log Σ_ν P(ν) c_ν / c_d exp(½ (ν − d) v)

This prior of the shape is proper, and has no strength that would have to be chosen: with a single ν = d, intervals of a
round metric would be too narrow where answers are few. Where the answers are not informative, intervals are as wide as
the prior.

All parameters other than M are integrated out by Laplace's method. The log-likelihood is expanded in T at several sizes
t_k = log c_k, and interpolated between them by cubic splines w_k(t)::

    log q(t, L) = Σ_k w_k(t) (v_k + g_kᵀ(T − T₀) − ½ (T − T₀)ᵀ H_k (T − T₀)) + log prior(L)

so the size may be skewed, and the precision of the shape may grow with the size. Draws of (t, L) come from
`crowdmetric.solvers.draws`; in these coordinates there is no boundary. If the answers determine a nearly singular
metric well, the density is far from Gaussian in L but close to it in T. So every move in (t, L) is followed by one in
(t, T), where the prior is ``r(v) − ½ v`` with ``v = log det S`` inside the cone (`_shape_moves`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.special import gammaln, multigammaln, softmax

from crowdmetric.solvers.draws import EllipseReference, Move, draw_from, slice_step
from crowdmetric.symmetric import degrees_of_freedom, dimension, factor_jacobian, smat, svec

__all__ = ["Expansion", "LikelihoodExpander", "SizeAndShape", "draw_metrics", "number_of_draws"]

Array = NDArray[Any]

# Number of draws if the metric has few features. There are fewer where each costs more.
MOST_DRAWS, LEAST_DRAWS, ENTRIES = 1000, 200, 60_000
# Maximum number of sizes at which the likelihood is expanded, their distance in standard errors, and the limits of that
# distance. It is doubled where the density changes by less than this, in nats: standard errors are too small there,
# because they take the shape as it is.
MOST_SIZES, APART, LEAST_APART, MOST_APART, HARDLY_LOWER = 15, 1.5, 0.02, 0.4, 0.5
# Sizes are left out if their density is lower by more nats than this, or if they are further than this from the
# estimate, in log.
NEGLIGIBLE, FARTHEST = 5.0, 4.0
# With more parameters of the shape than this, the curvatures at three sizes serve for all, and with many more a single
# one: products with more would take minutes.
FEW_CURVED, MOST_CURVED = 100, 300
# The start is moved toward the identity by this share, to be positive definite.
LIFT = 0.2
# Pivots of a shape (of trace d) below this count as zero.
SINGULAR = 1e-12
# How many times ν, the number of squares that a shape is a sum of, is doubled; by how much that makes it less likely;
# and the least log det S that is told from a singular shape.
DOUBLINGS, RARER, LEAST_VOLUME = 5, 10.0, -1e4


@dataclass(frozen=True)
class SizeAndShape:
    """Coordinates of metrics of d features: M = eᵗ (I + Σ_j T_j B_j), B_j orthonormal and without trace."""

    d: int

    @cached_property
    def lower(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns of the entries of a factor L, row by row."""
        return np.tril_indices(self.d)

    @cached_property
    def identity(self) -> Array:
        """Svec I, (p,)."""
        return svec(np.eye(self.d))

    @cached_property
    def basis(self) -> Array:
        """The B_j as columns (p, p − 1): a reflection that takes I to the first axis takes the other axes to them."""
        mirror = self.identity / np.sqrt(self.d)  # a new array
        mirror[0] += 1.0
        mirror /= np.linalg.norm(mirror)
        return np.asarray(np.eye(mirror.size)[:, 1:] - 2.0 * np.outer(mirror, mirror[1:]))

    def coordinates(self, m: Array) -> tuple[float, Array]:
        """Return t and T (p − 1,) of svec M; a metric of zero has the shape of the identity."""
        c = float(self.identity @ m) / self.d
        size = float(np.linalg.norm(m))
        if not c > 1e-6 * size:
            return float(np.log(max(size, 1e-6))), np.zeros(m.size - 1)
        return float(np.log(c)), self.basis.T @ m / c

    def factor(self, T: Array) -> Array:
        """Return the entries of L (p,), row by row, of a shape drawn to the identity by a share (`LIFT`)."""
        A = self.d * smat(self.identity + (1.0 - LIFT) * (self.basis @ T))
        return np.linalg.cholesky(A)[self.lower]

    def shapes(self, entries: Array) -> Array:
        """Return svec(I + T) (C, p) of the entries of factors (C, p)."""
        L = np.zeros((len(entries), self.d, self.d))
        L[:, *self.lower] = entries
        return np.asarray(svec(L @ L.transpose(0, 2, 1)) * (self.d / np.sum(entries**2, axis=1))[:, None])

    def slope(self, entries: Array) -> Array:
        """Return the (p − 1, p) derivative of T by the entries of one factor."""
        L = np.zeros((self.d, self.d))
        L[self.lower] = entries
        size = float(np.sum(entries**2)) / self.d
        lower = np.tril(np.ones((self.d, self.d), dtype=np.bool_)).ravel()
        whole = factor_jacobian(L)[:, lower] / size
        T = self.basis.T @ svec(L @ L.T) / size
        return np.asarray(self.basis.T @ whole - np.outer(T, 2.0 * entries / (self.d * size)))

    def log_prior(self, entries: Array) -> Array:
        """Return the log prior of factors (C, p)."""
        free, squares = np.arange(self.d - 1, -1, -1), np.sum(entries**2, axis=1)
        logs = self._log_pivots(entries)
        round_or_not, _ = self.roundness(self.volume(entries))
        return np.asarray(logs[:, free > 0] @ free[free > 0] - 0.5 * squares + round_or_not)

    def volume(self, entries: Array) -> Array:
        """Return log det S (C,) of the entries of factors (C, p)."""
        squares = np.sum(entries**2, axis=1)
        return np.asarray(2.0 * np.sum(self._log_pivots(entries), axis=1) + self.d * np.log(self.d / squares))

    def roundness(self, volume: Array) -> tuple[Array, Array]:
        """Return r of log det S (C,), and its derivative (C,)."""
        more, weights = self._squares
        terms = weights + np.maximum(volume, LEAST_VOLUME)[:, None] * more
        return np.asarray(np.logaddexp.reduce(terms, axis=1)), np.asarray(softmax(terms, axis=1) @ more)

    @cached_property
    def _squares(self) -> tuple[Array, Array]:
        """½ (ν − d) and log P(ν) c_ν / c_d, for every ν."""
        times = 2.0 ** np.arange(DOUBLINGS + 1)
        nu = self.d * times
        c = gammaln(nu * self.d / 2) - nu * self.d / 2 * np.log(self.d) - [multigammaln(n / 2, self.d) for n in nu]
        rare = RARER ** np.arange(DOUBLINGS + 1)
        return 0.5 * (nu - self.d), c - c[0] - np.log(rare * np.sum(1.0 / rare))

    def _log_pivots(self, entries: Array) -> Array:
        """Return log|L_ii| (C, d)."""
        rows, columns = self.lower
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.abs(entries[:, rows == columns])))


class LikelihoodExpander(Protocol):
    """A log-likelihood near a size and a shape, with all parameters other than M integrated out."""

    def __call__(self, t: float, T: Array, rest: Array) -> Expansion:
        """Return the expansion in T at a size and a shape; `rest` is the start of all other parameters."""
        ...


@dataclass(frozen=True)
class Expansion:
    """``v + gᵀ(T' − T) − ½ (T' − T)ᵀ H (T' − T)`` at a size t.

    Attributes
    ----------
    t, value, gradient, curvature
        The size, v, g (p − 1,) and H (p − 1, p − 1), positive semi-definite.
    rest
        The optimum of all other parameters given t and T.
    precision
        The information about t, with all other parameters at their optimum.
    """

    t: float
    value: float
    gradient: Array
    curvature: Array
    rest: Array
    precision: float

    def evidence(self, T: Array, prior: float) -> float:
        """Return an approximate log-likelihood of the size, with T integrated out under a Gaussian N(0, 1/prior)."""
        A = self.curvature + prior * np.eye(T.size)
        g = self.gradient - prior * T
        gain = 0.5 * float(g @ np.linalg.solve(A, g)) if T.size else 0.0
        # far from its optimum an expansion predicts a larger gain than there is
        return self.value + min(gain, 0.5 * T.size) - 0.5 * float(np.linalg.slogdet(A)[1])


def number_of_draws(d: int) -> int:
    """Return how many draws are made for d features."""
    return int(np.clip(ENTRIES // degrees_of_freedom(d), LEAST_DRAWS, MOST_DRAWS))


def draw_metrics(likelihood: LikelihoodExpander, m: Array, rest: Array, *, refine: int, seed: int = 0) -> Array:
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
        How many times to expand again where the draws are on average, for a likelihood that is far from quadratic.
    """
    d = dimension(m.size)
    space = SizeAndShape(d)
    t, T = space.coordinates(m)
    count, prior = number_of_draws(d), _shape_precision(d)
    for _ in range(refine):
        sizes = _expansions(likelihood, t, T, rest, prior)
        x = _draws_at(space, sizes, T, count // 4, seed)
        t, T = float(x[:, 0].mean()), space.basis.T @ space.shapes(x[:, 1:]).mean(axis=0)
        rest = min(sizes, key=lambda at: abs(at.t - t)).rest
    x = _draws_at(space, _expansions(likelihood, t, T, rest, prior), T, count, seed)
    return np.asarray(np.exp(x[:, :1]) * space.shapes(x[:, 1:]))


def _shape_precision(d: int) -> float:
    """Return about the precision that a Wishart shape has about each of its coordinates."""
    return 0.5 * (d + 1)


def _shape_moves(
    space: SizeAndShape, log_likelihood: Callable[[Array, Array], Array], mean: Array, covariance: Array
) -> Move:
    """Return moves of points (t, L) along ellipses of a Gaussian in (t, T), with a mean (p,) and a covariance (p, p).

    `log_likelihood` takes t (C,) and svec(I + T) (C, p). The length of L and the signs of its columns, on which M does
    not depend, stay: a factor that was always made positive would have another law than the one that moves of L keep.
    """
    reference, basis, lower = EllipseReference.of(mean, covariance), space.basis, space.lower

    def shapes(y: Array) -> Array:
        return np.asarray(space.identity + y[:, 1:] @ basis.T)

    def log_density(y: Array) -> Array:
        svecs = shapes(y)
        volume = _log_determinants(smat(svecs))
        inside = np.isfinite(volume)
        prior = space.roundness(volume)[0] - 0.5 * volume
        prior[inside] += log_likelihood(y[inside, 0], svecs[inside])
        return np.where(inside, prior, -np.inf)

    def move(x: Array, rng: np.random.Generator) -> Array:
        y = np.column_stack([x[:, 0], space.shapes(x[:, 1:]) @ basis])
        y = slice_step(log_density, reference, y, rng)
        L = np.linalg.cholesky(smat(shapes(y)))[:, *lower]
        size = np.linalg.norm(x[:, 1:], axis=1) / np.sqrt(space.d)
        signs = np.where(x[:, 1:][:, lower[0] == lower[1]] < 0.0, -1.0, 1.0)  # of the columns of L
        return np.column_stack([y[:, 0], L * size[:, None] * signs[:, lower[1]]])

    return move


def _log_determinants(A: Array) -> Array:
    """Return log det (C,) of matrices (C, d, d), −∞ where one is not positive definite.

    By elimination, for all matrices at once, which for many small ones is several times as fast as LAPACK for each.
    """
    A = np.ascontiguousarray(A.transpose(1, 2, 0))  # the matrices last: loops over them are long
    total = np.zeros(A.shape[2])
    for j in range(len(A)):
        pivot = A[j, j]
        positive = pivot > SINGULAR
        total = np.where(positive, total + np.log(np.maximum(pivot, SINGULAR)), -np.inf)
        below = np.where(positive, 1.0 / np.maximum(pivot, SINGULAR), 0.0) * A[j, j + 1 :]
        A[j + 1 :, j + 1 :] -= below[:, None] * A[j, None, j + 1 :]
    return total


def _draws_at(space: SizeAndShape, sizes: list[Expansion], T: Array, count: int, seed: int) -> Array:
    """Return draws (t, L) (n, 1 + p) from expansions at one shape."""
    prior = _shape_precision(space.d)
    evidence = np.array([at.evidence(T, prior) for at in sizes])
    best = sizes[int(np.argmax(evidence))]
    weight = np.exp(evidence - evidence.max())
    ts = np.array([at.t for at in sizes])
    spread = float(np.average((ts - np.average(ts, weights=weight)) ** 2, weights=weight))
    L = space.factor(T)
    J = space.slope(L)
    covariance = np.zeros((L.size + 1, L.size + 1))
    covariance[0, 0] = max(spread, LEAST_APART**2)
    covariance[1:, 1:] = np.linalg.inv(J.T @ best.curvature @ J + np.eye(L.size))
    log_likelihood = _interpolated(space, sizes, T)

    def log_density(x: Array) -> Array:
        return space.log_prior(x[:, 1:]) + log_likelihood(x[:, 0], space.shapes(x[:, 1:]))

    flat = np.zeros_like(J, shape=(L.size, L.size))
    flat[0, 0] = covariance[0, 0]
    flat[1:, 1:] = np.linalg.inv(best.curvature + prior * np.eye(T.size))
    also = _shape_moves(space, log_likelihood, np.append(best.t, T + flat[1:, 1:] @ best.gradient), flat)
    return draw_from(log_density, np.append(best.t, L), covariance, count, seed, also)


def _expansions(likelihood: LikelihoodExpander, t: float, T: Array, rest: Array, prior: float) -> list[Expansion]:
    """Return expansions at the likely sizes around t, in increasing order."""
    middle = likelihood(t, T, rest)
    error = max(middle.precision, 1e-300) ** -0.5
    apart = float(np.clip(APART * error, LEAST_APART, MOST_APART))
    found, best = [middle], middle.evidence(T, prior)
    for way in (1, -1):
        at, step, before = middle, apart, middle.evidence(T, prior)
        while len(found) < MOST_SIZES and abs(at.t - t) < FARTHEST:
            at = likelihood(at.t + way * step, T, at.rest)
            known = at.evidence(T, prior)
            if not np.isfinite(known):
                break
            found.append(at)
            best = max(best, known)
            if known < best - NEGLIGIBLE:
                break
            if abs(known - before) < HARDLY_LOWER:
                step = min(2.0 * step, MOST_APART)
            before = known
    return sorted(found, key=lambda at: at.t)


def _interpolated(space: SizeAndShape, sizes: list[Expansion], T: Array) -> Callable[[Array, Array], Array]:
    """Return the log-likelihood of t (C,) and svec(I + T) (C, p)."""
    ts = np.array([at.t for at in sizes])
    values = np.array([at.value for at in sizes])
    gradients = np.stack([at.gradient for at in sizes])
    # the curvature changes slowly with the size, and products with it take most of the time
    last = len(sizes) - 1
    curved = sorted({0, last // 2, last}) if T.size > FEW_CURVED else range(len(sizes))
    curved = [last // 2] if T.size > MOST_CURVED else list(curved)
    side_by_side = np.concatenate([sizes[k].curvature for k in curved], axis=1)  # one product serves for all
    basis, weights_at, curved_weights_at = space.basis, _spline(ts), _spline(ts[curved])

    def log_likelihood(t: Array, shapes: Array) -> Array:
        out = np.full(t.size, -np.inf)
        near = np.flatnonzero((t >= ts[0] - 1e-9) & (t <= ts[-1] + 1e-9))
        weights, away = weights_at(t[near]), shapes[near] @ basis - T
        out[near] = weights @ values + np.einsum("ck,ck->c", weights, away @ gradients.T)
        squares = np.einsum("ckp,cp->ck", (away @ side_by_side).reshape(len(away), len(curved), T.size), away)
        out[near] -= 0.5 * np.sum(curved_weights_at(t[near]) * squares, axis=1)
        return out

    return log_likelihood


def _spline(ts: Array) -> Callable[[Array], Array]:
    """Return the weights (C, K) by which a cubic spline through values at the knots `ts` interpolates at t (C,)."""
    return CubicSpline(ts, np.eye(len(ts))) if len(ts) > 1 else lambda t: np.ones((t.size, 1))
