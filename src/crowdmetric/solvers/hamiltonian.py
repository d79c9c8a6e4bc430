"""Draws from a smooth density over vectors, by Hamiltonian Monte Carlo, many chains at once.

A chain at x draws a momentum ``q ~ N(0, I)`` and follows, in n leapfrog steps of size ε, the motion under the potential
``−log density`` in coordinates u with ``x = m + R u`` in which the density has about unit covariance::

    q ← q + ½ε Rᵀ∇(x)        x ← x + ε R q        q ← q + ½ε Rᵀ∇(x)          (∇ the gradient of log density)

and accepts the end with probability ``min(1, exp(−ΔE))``, where E is the sum of potential and ½‖q‖². Unlike moves in
random directions, such trajectories are long even with hundreds of correlated parameters. During warm-up, ε adapts to
the share of accepted trajectories, and the size of R to the spread of the chains; these draws are discarded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SlopedDensity", "draw_along"]

Array = NDArray[Any]
# Log density (C,) and its gradient (C, n) at points (C, n), up to a constant.
SlopedDensity = Callable[[Array], tuple[Array, Array]]

# Number of chains, warm-up rounds, trajectories per round, and trajectories between draws that are kept.
CHAINS, ROUNDS, TRAJECTORIES, THIN = 60, 4, 6, 3
# Length of a trajectory (a quarter of a period is π/2), the first step size, and its limits.
LENGTH, FIRST_STEP, LEAST_STEP, MOST_STEP = 1.6, 0.3, 1e-3, 0.4
# Share of trajectories that should be accepted, and how fast the step size follows.
ACCEPTED, FOLLOWS = 0.75, 0.5
# Limits of the change of the scale per round.
NARROWER, WIDER = 0.2, 5.0


def draw_along(
    density: SlopedDensity,
    start: Array,
    covariance: Array,
    count: int,
    seed: int = 0,
    *,
    rounds: int = ROUNDS,
    thin: int = THIN,
    least_step: float = 0.0,
) -> Array:
    """Return draws (count, n), nearly independent, the same for the same seed.

    Parameters
    ----------
    density
        Log density and gradient; where the former is not finite there is no density.
    start : (n,) or (C, n)
        A point of positive density, where all chains begin, or one for each of C chains.
    covariance : (n, n)
        A guess of the density's.
    rounds, thin
        Warm-up rounds, and trajectories per draw that is kept: fewer if the chains begin in the right place.
    least_step
        If the step size has to be smaller, nothing is drawn (0, n): the covariance was a wrong guess, and trajectories
        would take too many steps.
    """
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(covariance)
    chains = _Chains(density, np.tile(start, (CHAINS, 1)) if start.ndim == 1 else start, rng)
    step = FIRST_STEP
    for _ in range(rounds):
        seen = []
        for _ in range(TRAJECTORIES):
            accepted = chains.move(root, step)
            step = float(np.clip(step * np.exp(FOLLOWS * (accepted - ACCEPTED)), LEAST_STEP, MOST_STEP))
            if step < least_step:
                return np.empty((0, root.shape[0]))
            seen.append(chains.x)
        root = _wider(root, np.concatenate(seen[TRAJECTORIES // 2 :]))
    draws = []
    for _ in range(-(-count // len(chains.x))):
        for _ in range(thin):
            chains.move(root, step)
        draws.append(chains.x)
    return np.concatenate(draws)[:count]


class _Chains:
    """Points (C, n) of all chains, with their log densities and gradients."""

    def __init__(self, density: SlopedDensity, x: Array, rng: np.random.Generator) -> None:
        self.density, self.x, self.rng = density, x, rng
        self.value, self.slope = density(x)

    def move(self, root: Array, step: float) -> float:
        """Move every chain along a trajectory, and return the mean probability of acceptance."""
        count = len(self.x)
        momentum = self.rng.standard_normal(self.x.shape)
        before = self.value - 0.5 * np.sum(momentum**2, axis=1)
        sizes = step * self.rng.uniform(0.8, 1.2, (count, 1))  # so that no trajectory is a whole period
        steps = int(np.ceil(LENGTH / step))
        x, value, slope = self.x, self.value, self.slope
        with np.errstate(all="ignore"):  # a trajectory that leaves the density overflows, and is rejected
            momentum = momentum + 0.5 * sizes * (slope @ root)
            for number in range(steps):
                x = x + (sizes * momentum) @ root.T
                value, slope = self.density(x)
                momentum = momentum + (sizes if number < steps - 1 else 0.5 * sizes) * (slope @ root)
            change = value - 0.5 * np.sum(momentum**2, axis=1) - before
            chance = np.where(np.isfinite(change), np.exp(np.minimum(change, 0.0)), 0.0)
        moved = self.rng.random(count) < chance
        self.x = np.where(moved[:, None], x, self.x)
        self.slope = np.where(moved[:, None], slope, self.slope)
        self.value = np.where(moved, value, self.value)
        return float(chance.mean())


def _wider(root: Array, seen: Array) -> Array:
    """Return the root times the median standard deviation of points (m, n) in its coordinates.

    One number for all: so few chains would tell the scales of hundreds of parameters, or correlations, only roughly.
    """
    white = np.linalg.solve(root, (seen - seen.mean(axis=0)).T)
    return np.asarray(root * np.clip(np.median(white.std(axis=1)), NARROWER, WIDER))
