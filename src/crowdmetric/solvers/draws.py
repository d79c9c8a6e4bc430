"""Draws from a density over vectors that is close to a Gaussian but cut off, skewed, or both.

Elliptical slice sampling (Murray, Adams and MacKay), many chains at once. With a *reference* N(m, R), a chain at x
draws ``z ~ N(0, R)`` and moves along the ellipse ::

    x(φ) = m + (x − m) cos φ + z sin φ

to a φ that is uniform on the slice ``log density(x(φ)) − log N(x(φ); m, R) ≥ level``: a bracket of angles shrinks
toward φ = 0 until a point in it qualifies. There is nothing to tune, and the log density may be −∞ somewhere.
Moves are longer if the reference is close to the density. So the mean and covariance of the chains become the reference
after each of a few warm-up rounds, whose draws are discarded. A density that is far from Gaussian in one set of
coordinates may be close to it in another, so a second kind of move in other coordinates may follow every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

__all__ = ["EllipseReference", "LogDensity", "Move", "draw_from", "slice_step"]

Array = NDArray[Any]
LogDensity = Callable[[Array], Array]
Move = Callable[[Array, np.random.Generator], Array]

# Number of chains, warm-up rounds, steps per round, and steps between draws that are kept.
CHAINS, ROUNDS, STEPS, THIN = 100, 5, 10, 5
# With more parameters than this, steps are slow and chains too few to estimate a covariance: use fewer chains and adapt
# only the mean of the reference.
MOST_ADAPTED, FEW_CHAINS = 300, 20
# After this many failures a bracket has shrunk to the current point of the chain. That many angles are tried at once:
# a call of the density costs more than the points in it.
MOST_SHRINKS, AT_ONCE = 60, 4


@dataclass(frozen=True)
class EllipseReference:
    """A Gaussian N(mean, RRᵀ), R lower triangular, along whose ellipses chains move."""

    mean: Array
    root: Array

    @staticmethod
    def of(mean: Array, covariance: Array) -> EllipseReference:
        """Return the reference of a mean (n,) and a covariance (n, n), which may be singular."""
        lift = 1e-9 * np.trace(covariance) / len(mean) + 1e-300
        return EllipseReference(mean, cholesky(covariance + lift * np.eye(len(mean)), lower=True))

    def white(self, x: Array) -> Array:
        """Return points (C, n) as those of a standard Gaussian."""
        return np.asarray(solve_triangular(self.root, (x - self.mean).T, lower=True).T)


def draw_from(
    log_density: LogDensity, start: Array, covariance: Array, count: int, seed: int = 0, also: Move | None = None
) -> Array:
    """Return at least `count` draws (≥ count, n), nearly independent, the same for the same seed.

    Parameters
    ----------
    log_density
        Of points (C, n), up to a constant; −∞ (or NaN) where there is no density.
    start : (n,)
        A point of positive density, where all chains begin.
    covariance : (n, n)
        A guess of the density's.
    also
        Another move of all chains (C, n) that leaves the density as it is, made after every step.
    """

    def moved(x: Array) -> Array:
        x = slice_step(log_density, reference, x, rng)
        return x if also is None else also(x, rng)

    rng = np.random.default_rng(seed)
    reference = EllipseReference.of(start, covariance)
    chains = CHAINS if len(start) <= MOST_ADAPTED else FEW_CHAINS
    x = np.tile(start, (chains, 1))
    for _ in range(ROUNDS):
        kept = []
        for step in range(STEPS):
            x = moved(x)
            if step >= STEPS // 2:
                kept.append(x)
        seen = np.concatenate(kept)
        # the chains count as that many independent points; the guess counts as many as there are parameters
        own, n = chains if len(start) <= MOST_ADAPTED else 0, len(start)
        spread = (own * np.cov(seen.T).reshape(n, n) + n * covariance) / (own + n) if own else covariance
        reference = EllipseReference.of(seen.mean(axis=0), spread)
    draws = []
    for _ in range(-(-count // chains)):
        for _ in range(THIN):
            x = moved(x)
        draws.append(x)
    return np.concatenate(draws)


def slice_step(log_density: LogDensity, reference: EllipseReference, x: Array, rng: np.random.Generator) -> Array:
    """Return the next point of every chain (C, n)."""
    chains, n = x.shape

    def beyond(points: Array, white: Array) -> Array:
        value = log_density(points)
        return np.where(np.isnan(value), -np.inf, value) + 0.5 * np.sum(white * white, axis=1)

    white_across, white_along = reference.white(x), rng.standard_normal((chains, n))
    across, along = x - reference.mean, white_along @ reference.root.T
    level = beyond(x, white_across) + np.log(rng.random(chains))
    angle: Array = np.asarray(rng.random(chains)) * 2.0 * np.pi
    low, high = angle - 2.0 * np.pi, angle.copy()
    new, moving = x.copy(), np.arange(chains)
    for _ in range(MOST_SHRINKS // AT_ONCE):
        angles = np.empty((AT_ONCE, moving.size))
        for row in angles:  # what would be tried one after the other if all failed
            row[:] = angle[moving]
            back = row < 0
            low[moving[back]], high[moving[~back]] = row[back], row[~back]
            angle[moving] = low[moving] + rng.random(moving.size) * (high[moving] - low[moving])
        cosine, sine = np.cos(angles)[:, :, None], np.sin(angles)[:, :, None]
        trials = reference.mean + across[moving] * cosine + along[moving] * sine
        whites = white_across[moving] * cosine + white_along[moving] * sine
        good = beyond(trials.reshape(-1, n), whites.reshape(-1, n)).reshape(angles.shape) > level[moving]
        found, first = good.any(axis=0), good.argmax(axis=0)
        new[moving[found]] = trials[first[found], np.flatnonzero(found)]
        moving = moving[~found]
        if not moving.size:
            break
    return new
