"""Slow integrals over people, with nodes around each person's own posterior.

Used for the few people for whom the fast methods fail, and to check the fast methods (`by_sampling`). NumPy arrays, one
person at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri
from scipy.stats import qmc

from crowdmetric.losses import Logistic, Loss
from crowdmetric.users.integrals import Grid, Integral, kernels
from crowdmetric.users.sets import sets_around

__all__ = ["along_line", "around_modes", "at_nodes", "by_sampling", "line_of"]

Array = NDArray[np.float64]
# One person's value, slope, bend and precision.
One = tuple[float, Array, Array, Array]

# A line ends where its density has fallen by DEPTH nats, to within END widths of the noise. A log-concave density can
# change quickly, compared with its width, only near its two ends. There nodes are equally spaced in the logarithm of
# the distance from the end: CROWDED_STEP apart, down to e^−CROWDED_REACH widths of the noise. Answers of weight below
# one need a step that is smaller by the same factor; LIGHTEST is the smallest factor used.
DEPTH, HALVINGS, END, CROWDED_REACH, CROWDED_STEP, LIGHTEST = 22.0, 100, 2.0, 3.0, 0.04, 0.1
# Nodes are spread this much wider than the normal approximation at the mode, which may be narrower than the posterior.
WIDER = 2.0
# The same for points around the posterior of another method, so that weights stay bounded in the tails.
SAMPLED_WIDER = 1.3
# Points of quasi-Monte Carlo.
POINTS = 1 << 13
# Maximum number of Newton steps per stage. The first stage smooths the loss until ψ spreads over at most GENTLE widths
# of the noise; each later stage is SHARPER times less smooth.
NEWTON_STEPS, GENTLE, SHARPER = 100, 10.0, 4.0


def at_nodes(a: Array, E: Array, H: Array, y: Array, weight: Array, loss: Loss, t: Array, log_weight: Array) -> One:
    """Return value, slope (m,), bend (q, q) and precision (m,) of one person, as sums over nodes t (n, q).

    `log_weight` (n,) holds the logarithms of the nodes' volumes, over the normalization (2π)^½q of the law.

    Where answers are sure, the bend is a small difference of large means, which nodes get wrong. So let ``H = E C``,
    ``C = U diag(s) Vᵀ``, ``r = Vᵀt`` and ``u = Eᵀh``. Along those directions of U in which people differ by more than
    the noise, integration by parts gives ::

        2 Uᵀ bend U = E[g gᵀ] − diag(1/s²),  g = r / s          elsewhere E[g gᵀ] + Uᵀ Eᵀ diag(h') E U,  g = Uᵀu

    and E[g gᵀ] alone between the ones and the others.
    """
    cost, slope, curvature = loss.value_slope_curvature(a + t @ H.T, y)
    log_joint = log_weight - 0.5 * np.sum(t * t, axis=1) - cost @ weight
    highest = log_joint.max()
    share = np.exp(log_joint - highest)
    value = float(highest + np.log(share.sum()))
    share /= share.sum()
    h, precision = -weight * slope, weight * (share @ curvature)
    U, s, Vt = np.linalg.svd(np.linalg.lstsq(E, H, rcond=None)[0])
    along, steep = E @ U, _sharpness(H @ Vt.T, weight, loss) > 1.0
    inverse = np.where(steep, 1.0 / np.where(steep, s, 1.0), 0.0)
    g = np.where(steep, t @ Vt.T * inverse, h @ along)
    both_flat = ~(steep[:, None] | steep)
    bend = (g * share[:, None]).T @ g - np.diag(inverse**2) - both_flat * (along.T @ (precision[:, None] * along))
    bend = 0.5 * U @ bend @ U.T
    return value, share @ h, 0.5 * (bend + bend.T), precision


def _sharpness(H: Array, weight: Array, loss: Loss) -> Array:
    """Return by how many widths of the noise ψ changes along each direction (q,), for loadings H (m, q)."""
    heavy = np.maximum(weight, 1.0) * (weight > 0.0)
    return np.asarray(loss.beta * np.max(np.abs(H) * heavy[:, None], axis=0))


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
    """Return the same as `at_nodes` for one person, along ``t = left + (right − left) σ(u)`` with u equally spaced."""
    h = H[:, 0]

    def rise(t: float) -> float:
        return float(-t - h @ (weight * loss.value_slope_curvature(a + h * t, y)[1]))

    def height(t: float) -> float:
        return float(-0.5 * t * t - weight @ loss.value_slope_curvature(a + h * t, y)[0])

    sharpest = max(float(_sharpness(H, weight, loss)[0]), 1.0)
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
        while high - low > min(0.02 * high, END / sharpest):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if height(peak + sign * middle) > floor else (low, middle)
        ends.append(sign * high)
    width = ends[1] - ends[0]
    reach = np.log(sharpest * width) + CROWDED_REACH
    gap = CROWDED_STEP * min(1.0, max(float(np.min(weight[weight > 0.0], initial=1.0)), LIGHTEST))
    u = np.arange(-reach, reach, gap)
    along = expit(u)
    t = peak + ends[0] + width * along
    step = np.log(width * gap) + np.log(along) + np.log(expit(-u))
    log_weight = step - 0.5 * np.log(2.0 * np.pi)
    return at_nodes(a, E, H, y, weight, loss, t[:, None], log_weight)


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
    """Return the same as `at_nodes` for one person, with nodes z and their masses moved to the person's mode."""
    mode, root = _mode(a, H, y, weight, loss)
    volume = mode.size * np.log(WIDER) + np.sum(np.log(np.diag(root)))
    log_weight = log_mass + 0.5 * np.sum(z * z, axis=1) + volume
    return at_nodes(a, E, H, y, weight, loss, mode + WIDER * z @ root.T, log_weight)


def _mode(a: Array, H: Array, y: Array, weight: Array, loss: Loss) -> tuple[Array, Array]:
    """Return the mode (q,) of t and a triangular root (q, q) of the covariance there.

    By Newton's method on ``½t² + Σ_i ω_i ℓ(s ψ_i)/s`` with s growing to one: where ψ spreads over many widths of the
    noise, ℓ is nearly a hinge, for which Newton's method may diverge from a distant start.
    """
    t, steepest = np.zeros(H.shape[1]), loss.beta * float(np.max(np.linalg.norm(H, axis=1)))
    stages = int(np.ceil(np.log(max(steepest / GENTLE, 1.0)) / np.log(SHARPER)))
    for stage in range(stages, -1, -1):
        t, hessian = _newton(t, a, H, y, weight, loss, SHARPER ** float(-stage))
    inverse = np.linalg.inv(hessian)
    return t, np.asarray(np.linalg.cholesky(0.5 * (inverse + inverse.T)), dtype=np.float64)


def _newton(t: Array, a: Array, H: Array, y: Array, weight: Array, loss: Loss, s: float) -> tuple[Array, Array]:
    """Return the minimizer (q,) of ``½t² + Σ_i ω_i ℓ(s ψ_i)/s`` and the second derivatives there, from t on."""
    identity = np.eye(t.size)

    def all_of(t: Array) -> tuple[float, Array, Array]:
        cost, slope, curvature = loss.value_slope_curvature(s * (a + H @ t), y)
        hessian = identity + H.T @ ((s * weight * curvature)[:, None] * H)
        return float(weight @ cost / s + 0.5 * t @ t), t + H.T @ (weight * slope), hessian

    value, gradient, hessian = all_of(t)
    for _ in range(NEWTON_STEPS):
        step = np.linalg.solve(hessian, gradient)
        gain = float(gradient @ step)
        if gain < 1e-16 * (1.0 + abs(value)):
            break
        size = 1.0
        new = all_of(t - step)
        while size > 1e-12 and not new[0] <= value - 1e-4 * size * gain:
            size *= 0.5
            new = all_of(t - size * step)
        t, (value, gradient, hessian) = t - size * step, new
    return t, hessian


def by_sampling(
    a: Array,
    E: Array,
    H: Array,
    y: Array,
    weight: Array,
    loss: Loss,
    guess: Integral,
    *,
    points: int = 2048,
    seed: int = 0,
    size: int = 1,
) -> Integral:
    """Integrate over ``ψ = a + H t``, t ~ N(0, I), by quasi-Monte Carlo: an independent check of the other methods.

    Points t (scrambled Sobol, made normal) are placed by the posterior mean and covariance of `guess`, the result of
    another method, and weighted by the exact integrand over the placing density. The points of each person are moved by
    a random shift of their own, so errors are independent from person to person and average out in sums over people.
    Answers may have several rows.
    """
    P, m, q = H.shape
    u = qmc.Sobol(q, seed=seed).random(points)
    if size > 1:
        z = ndtri(np.clip(u, 1e-12, 1.0 - 1e-12))
        places = [_posterior_root(*each) for each in zip(E, H, guess.slope, guess.bend, strict=True)]
        center, root = (np.stack(part) for part in zip(*places, strict=True))
        mass = np.full(points, -np.log(points))
        return sets_around(a, E, H, y, weight, size, loss.beta, center, SAMPLED_WIDER * root, z, mass)
    shifts = np.random.default_rng(seed).random((P, q))
    value, slope, bend, precision = np.empty(P), np.empty((P, m)), np.empty((P, q, q)), np.empty((P, m))
    for k in range(P):
        center, root = _posterior_root(E[k], H[k], guess.slope[k], guess.bend[k])
        z = ndtri(np.clip((u + shifts[k]) % 1.0, 1e-12, 1.0 - 1e-12))
        t = center + SAMPLED_WIDER * z @ root.T
        volume = q * np.log(SAMPLED_WIDER) + float(np.linalg.slogdet(root)[1]) - np.log(points)
        log_weight = 0.5 * np.sum(z * z, axis=1) + volume
        own = (a[k], E[k], H[k], y[k], weight[k])
        value[k], slope[k], bend[k], precision[k] = at_nodes(*own, loss, t, log_weight)
    return Integral(value, slope, bend, precision)


def _posterior_root(E: Array, H: Array, slope: Array, bend: Array) -> tuple[Array, Array]:
    """Return mean (q,) and a root (q, q) of the covariance of t given the answers (`integrals.posterior_of`).

    Along principal axes that point to where the mean is, so points do not depend on how answers are ordered or put.
    """
    C = np.linalg.lstsq(E, H, rcond=None)[0]  # H = E C
    pull = E.T @ slope
    covariance = np.eye(C.shape[1]) + C.T @ (2.0 * bend - np.outer(pull, pull)) @ C
    values, vectors = np.linalg.eigh(covariance)
    mean = C.T @ pull
    return mean, vectors * np.where(mean @ vectors < 0.0, -1.0, 1.0) * np.sqrt(np.maximum(values, 1e-6))


def _everybody(parts: Iterable[One]) -> Integral:
    """Return the integrals of some people as one."""
    value, slope, bend, precision = (np.stack(part) for part in zip(*parts, strict=True))
    return Integral(value, slope, bend, precision)
