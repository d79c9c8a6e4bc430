"""Slow integrals over people whose nodes are placed around each person's own posterior, wherever that is.

For the few whom the fast ones fail, and to judge the fast ones (`sampling`). NumPy's arrays, one person at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri
from scipy.stats import qmc

from crowdmetric.losses import Logistic, Loss
from crowdmetric.users.integrals import Grid, Integral, kernels

__all__ = ["along_line", "around_modes", "at_nodes", "line_of"]

Array = NDArray[np.float64]
# One person's value, slope, bend and precision.
One = tuple[float, Array, Array, Array]

# A line ends where its density has lost so many nats, found by so many halvings; nodes crowd towards both ends, the
# only places where a log-concave density can be sharp beside its width.
DEPTH, HALVINGS, CROWDED_REACH, CROWDED_STEP = 26.0, 100, 3.0, 0.03
# Placing laws are this much wider than the normal law at the mode, which may be narrower than the posterior.
WIDER = 2.0
# Points of quasi-Monte Carlo.
POINTS = 1 << 13
NEWTON_STEPS = 200


def at_nodes(a: Array, E: Array, H: Array, y: Array, weight: Array, loss: Loss, t: Array, log_weight: Array) -> One:
    """Return value, slope (m,), bend (q, q) and precision (m,) of one person, as sums over nodes t (n, q).

    `log_weight` (n,) holds the logarithms of the nodes' volumes, over the normalization (2π)^½q of the law.
    """
    cost, s, c = loss.value_slope_curvature(a + t @ H.T, y)
    log_joint = log_weight - 0.5 * np.sum(t * t, axis=1) - cost @ weight
    highest = log_joint.max()
    share = np.exp(log_joint - highest)
    value = float(highest + np.log(share.sum()))
    share /= share.sum()
    h = -weight * s
    pulled = h @ E
    precision = weight * (share @ c)
    bend = 0.5 * ((pulled * share[:, None]).T @ pulled - E.T @ (precision[:, None] * E))
    return value, share @ h, 0.5 * (bend + bend.T), precision


def along_line(a: Array, E: Array, H: Array, y: Array, weight: Array, loss: Loss) -> Integral:
    """Integrate people whose answers span a line, with nodes between the two ends of their posterior.

    The logarithm of the density of t, ``L(t) = −½t² − Σ_i ω_i ℓ(a_i + H_i t)``, is concave with ``L'' ≤ −1``. Its peak
    is hence within |L'(0)| of zero, and it loses `DEPTH` nats within √(2 DEPTH) of the peak.
    """
    if isinstance(loss, Logistic):
        contiguous = map(np.ascontiguousarray, (a, E, H, y, weight))
        return Integral(*kernels("line").logistic_along_line(*contiguous, loss.beta))
    return _everybody(line_of(*each, loss) for each in zip(a, E, H, y, weight, strict=True))


def line_of(a: Array, E: Array, H: Array, y: Array, weight: Array, loss: Loss) -> One:
    """Return what `at_nodes` does for one person, along ``t = left + (right − left) σ(u)`` with u equally spaced."""
    h = H[:, 0]

    def rise(t: float) -> float:
        return float(-t - h @ (weight * loss.value_slope_curvature(a + h * t, y)[1]))

    def height(t: float) -> float:
        return float(-0.5 * t * t - weight @ loss.value_slope_curvature(a + h * t, y)[0])

    first = rise(0.0)
    low, high = min(first, 0.0), max(first, 0.0)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rise(middle) > 0.0 else (low, middle)
    peak = 0.5 * (low + high)
    floor = height(peak) - DEPTH
    ends = []
    for sign in (-1.0, 1.0):
        low, high = 0.0, float(np.sqrt(2.0 * DEPTH))
        while high - low > 0.01 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if height(peak + sign * middle) > floor else (low, middle)
        ends.append(sign * high)
    width = ends[1] - ends[0]
    sharpest = getattr(loss, "beta", 1.0) * float(np.max(np.abs(h) * np.maximum(weight, 1.0) * (weight > 0.0)))
    reach = np.log(max(sharpest, 1.0) * width) + CROWDED_REACH
    u = np.arange(-reach, reach, CROWDED_STEP)
    along = expit(u)
    t = peak + ends[0] + width * along
    step = np.log(width * CROWDED_STEP) + np.log(along) + np.log(expit(-u))
    return at_nodes(a, E, H, y, weight, loss, t[:, None], step - 0.5 * np.log(2.0 * np.pi))


def around_modes(
    a: Array, E: Array, H: Array, y: Array, weight: Array, loss: Loss, grid: Grid | None = None
) -> Integral:
    """Integrate with nodes around each person's mode: those of a grid, or of a scrambled Sobol sequence.

    Nodes z of a standard normal law become ``t = mode + WIDER root z``, ``root rootᵀ = (I + Hᵀ diag(ω ℓ'') H)⁻¹``, and
    are weighted by the exact integrand over the placing density.
    """
    q = H.shape[2]
    if grid is not None:
        z, log_mass = grid.nodes, grid.log_weights
    else:
        u = qmc.Sobol(q, seed=0).random(POINTS)
        z, log_mass = ndtri(np.clip(u, 1e-12, 1.0 - 1e-12)), np.full(POINTS, -np.log(POINTS))
    return _everybody(_around(*each, loss, z, log_mass) for each in zip(a, E, H, y, weight, strict=True))


def _around(a: Array, E: Array, H: Array, y: Array, weight: Array, loss: Loss, z: Array, log_mass: Array) -> One:
    """Return what `at_nodes` does for one person, with nodes z and their masses moved to the person's mode."""
    mode, root = _mode(a, H, y, weight, loss)
    volume = mode.size * np.log(WIDER) + np.sum(np.log(np.diag(root)))
    log_weight = log_mass + 0.5 * np.sum(z * z, axis=1) + volume
    return at_nodes(a, E, H, y, weight, loss, mode + WIDER * z @ root.T, log_weight)


def _mode(a: Array, H: Array, y: Array, weight: Array, loss: Loss) -> tuple[Array, Array]:
    """Return the mode (q,) of t and a triangular root (q, q) of the covariance there, by Newton's method."""
    t, identity = np.zeros(H.shape[1]), np.eye(H.shape[1])

    def all_of(t: Array) -> tuple[float, Array, Array]:
        cost, slope, curvature = loss.value_slope_curvature(a + H @ t, y)
        hessian = identity + H.T @ ((weight * curvature)[:, None] * H)
        return float(weight @ cost + 0.5 * t @ t), t + H.T @ (weight * slope), hessian

    value, gradient, hessian = all_of(t)
    for _ in range(NEWTON_STEPS):
        step = np.linalg.solve(hessian, gradient)
        if gradient @ step < 1e-16 * (1.0 + abs(value)):
            break
        size = 1.0
        while size > 1e-12:
            new = all_of(t - size * step)
            if new[0] <= value - 1e-4 * size * (gradient @ step):
                break
            size *= 0.5
        t, (value, gradient, hessian) = t - size * step, new
    inverse = np.linalg.inv(hessian)
    return t, np.asarray(np.linalg.cholesky(0.5 * (inverse + inverse.T)), dtype=np.float64)


def _everybody(parts: Iterable[One]) -> Integral:
    """Return the integrals of some people as one."""
    value, slope, bend, precision = (np.stack(part) for part in zip(*parts, strict=True))
    return Integral(value, slope, bend, precision)
