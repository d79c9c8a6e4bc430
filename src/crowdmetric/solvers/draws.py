"""Draws from a density over vectors that is close to a Gaussian but cut off, skewed, or both.

Elliptical slice sampling (Murray, Adams and MacKay), many chains at once. With a *reference* N(m, R), a chain at x
draws ``z ~ N(0, R)`` and moves along the ellipse ::

    x(φ) = m + (x − m) cos φ + z sin φ

to a φ that is uniform on the slice ``log density(x(φ)) − log N(x(φ); m, R) ≥ level``: a bracket of angles shrinks
towards φ = 0 until a point in it qualifies. Nothing has to be tuned, and a density may be −∞ somewhere.
The closer the reference is to the density, the longer the moves; so the chains' own mean and covariance become the
reference after each of a few rounds of warming up, whose draws are thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

__all__ = ["LogDensity", "draw_from", "positive_definite"]

Array = NDArray[Any]
LogDensity = Callable[[Array], Array]

# Chains, rounds of warming up, steps in each, and steps between draws that are kept.
CHAINS, ROUNDS, STEPS, THIN = 50, 4, 20, 8
# With more parameters the chains are too few to estimate a covariance from; only its mean is adapted.
MOST_ADAPTED = 300
# After so many failures a bracket has shrunk to where the chain stands.
MOST_SHRINKS = 60


def positive_definite(A: Array) -> tuple[NDArray[np.bool_], Array]:
    """Return which of the matrices A (C, d, d) are positive definite, and the log determinants of those (C,).

    Elimination without pivoting, all matrices at once: a matrix is positive definite where all pivots are positive.
    """
    rest, inside, log_det = A.copy(), np.ones(len(A), dtype=np.bool_), np.zeros(len(A))
    for j in range(A.shape[1]):
        pivot = rest[:, j, j].copy()
        inside &= pivot > 0
        pivot[~inside] = 1.0
        log_det += np.log(pivot)
        below = rest[:, j + 1 :, j]
        rest[:, j + 1 :, j + 1 :] -= (below / pivot[:, None])[:, :, None] * below[:, None, :]
        rest[~inside] = 0.0  # decided: nothing may overflow
    return inside, log_det


@dataclass(frozen=True)
class _Reference:
    """N(mean, RRᵀ) with R lower triangular."""

    mean: Array
    root: Array

    @staticmethod
    def of(mean: Array, covariance: Array) -> _Reference:
        lift = 1e-9 * np.trace(covariance) / len(mean) + 1e-300
        return _Reference(mean, cholesky(covariance + lift * np.eye(len(mean)), lower=True))

    def log_density(self, x: Array) -> Array:
        """Return the log density at x (C, n), up to a constant."""
        white = solve_triangular(self.root, (x - self.mean).T, lower=True)
        return np.asarray(-0.5 * np.sum(white * white, axis=0))


def draw_from(log_density: LogDensity, start: Array, covariance: Array, count: int, seed: int = 0) -> Array:
    """Return at least `count` draws (≥ count, n), nearly independent, the same for the same seed.

    Parameters
    ----------
    log_density
        Of points (C, n), up to a constant; −∞ (or NaN) where there is no density.
    start : (n,)
        A point of positive density, where all chains begin.
    covariance : (n, n)
        A guess of the density's.
    """
    rng = np.random.default_rng(seed)
    reference = _Reference.of(start, covariance)
    x = np.tile(start, (CHAINS, 1))
    for _ in range(ROUNDS):
        kept = []
        for step in range(STEPS):
            x = _step(log_density, reference, x, rng)
            if step >= STEPS // 2:
                kept.append(x)
        seen = np.concatenate(kept)
        spread = np.cov(seen.T).reshape(len(start), len(start)) if len(start) <= MOST_ADAPTED else covariance
        reference = _Reference.of(seen.mean(axis=0), spread)
    draws = []
    for _ in range(-(-count // CHAINS)):
        for _ in range(THIN):
            x = _step(log_density, reference, x, rng)
        draws.append(x)
    return np.concatenate(draws)


def _step(log_density: LogDensity, reference: _Reference, x: Array, rng: np.random.Generator) -> Array:
    """Return every chain's next point (C, n)."""
    chains, n = x.shape

    def beyond(points: Array) -> Array:
        value = log_density(points)
        return np.where(np.isnan(value), -np.inf, value) - reference.log_density(points)

    across, along = x - reference.mean, rng.standard_normal((chains, n)) @ reference.root.T
    level = beyond(x) + np.log(rng.random(chains))
    angle: Array = np.asarray(rng.random(chains)) * 2.0 * np.pi
    low, high = angle - 2.0 * np.pi, angle.copy()
    new, moving = x.copy(), np.arange(chains)
    for _ in range(MOST_SHRINKS):
        a = angle[moving, None]
        trial = reference.mean + across[moving] * np.cos(a) + along[moving] * np.sin(a)
        good = beyond(trial) > level[moving]
        new[moving[good]] = trial[good]
        moving = moving[~good]
        if not moving.size:
            break
        back = angle[moving] < 0
        low[moving[back]], high[moving[~back]] = angle[moving[back]], angle[moving[~back]]
        angle[moving] = low[moving] + rng.random(moving.size) * (high[moving] - low[moving])
    return new
