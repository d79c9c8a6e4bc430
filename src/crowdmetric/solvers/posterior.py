"""The size and the shape of a metric, and a prior of the shape for answers that are drawn from by trajectories.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, multigammaln, softmax

from crowdmetric.symmetric import degrees_of_freedom, factor_jacobian, svec

__all__ = ["FARTHEST", "SizeAndShape", "number_of_draws"]

Array = NDArray[Any]

# Number of draws if the metric has few features. There are fewer where each costs more.
MOST_DRAWS, LEAST_DRAWS, ENTRIES = 1000, 200, 60_000
# Standard deviation of a weak prior of the log of the size around the estimate.
FARTHEST = 4.0
# Pivots of a shape (of trace d) below this count as zero.
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


def number_of_draws(d: int) -> int:
    """Return how many draws are made for d features."""
    return int(np.clip(ENTRIES // degrees_of_freedom(d), LEAST_DRAWS, MOST_DRAWS))
