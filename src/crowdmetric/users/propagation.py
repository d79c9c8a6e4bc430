"""Expectation propagation: a person integrated out in as many dimensions as their questions span.

Every answer's likelihood is replaced by a Gaussian factor in its own ψ_i, so the person becomes Gaussian::

    t ~ N(0, I),  ψ = a + H t,  H = E C,  C Cᵀ = S
    f(y_i ψ_i)^ω_i  ≈  exp(ν_i ψ_i − ½ τ_i ψ_i²)
    V = (I + Hᵀ diag(τ) H)⁻¹,   t̂ = V Hᵀ(ν − τ a)

τ_i and ν_i are chosen so that ψ_i has the same mean and variance if the Gaussian factor of answer i is replaced by the
exact one; the other factors together are the *cavity*. Logistic and probit answers are log-concave, so τ ≥ 0, and a few
sweeps over the answers converge. The cavity's one-dimensional integrals are computed by the trapezoidal rule.

At the fixed point the derivatives of the approximate log-likelihood are explicit, as if τ and ν were constants::

    ∂ℓ/∂a = b = ν − τ ψ̂        ∂ℓ/∂S = ½ Eᵀ(b bᵀ − R)E,   R = diag(τ) − diag(τ) H V Hᵀ diag(τ)

Unlike a Laplace approximation, this stays accurate if people answer little: the only approximation is that ψ_i is
Gaussian given the person's other answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from math import pi
from types import ModuleType
from typing import Any

import numpy as np
import scipy.special
from array_api_compat import array_namespace

from crowdmetric.losses import Logistic, Loss
from crowdmetric.symmetric import as_like
from crowdmetric.users.integrals import (
    REACH,
    SIZES,
    Grid,
    Integral,
    fused_kernels,
    grid_of,
    is_identity,
    kernels,
    lines,
    loadings_of,
    pieces,
)

__all__ = ["propagate", "propagated"]

Array = Any
# Each grid with the people who are integrated on it; None for people who are integrated over the noise instead.
Sharing = list[tuple[Grid | None, Array]]

# Coarser than `integrals.FINENESS`: errors of about 1e-6 in a cavity's integral and 3e-5 in its second derivative.
FEWEST_NODES, CAVITY_FINENESS = 32, 1.2
# Longer grids are not used: where the law is more than 25 times wider than the noise, integrating over the noise takes
# fewer nodes.
CAVITY_SIZES = tuple(size for size in SIZES[1] if size <= 256)
# Other answers make cavities narrower than the law, often several times. Compiled sweeps choose a grid for each cavity,
# whose nodes are at most OWN_FINENESS widths of the noise apart; results change by about 1e-9.
OWN_FINENESS = 0.6
# A grid is centered on the mode of cavity and answer if that is more than FAR standard deviations from the cavity's.
FAR = 1.5
# People are integrated over the noise if the cavity is at least WIDE times wider than the noise, and if the cavity's
# log density falls, per unit of noise, at most UNLIKELY times as fast as the tail of the noise.
WIDE, UNLIKELY = 8.0, 0.3
# Otherwise a grid covers the peak of cavity times answer, out to where the density has fallen by DEPTH nats. Bisection
# finds the peak in PEAK_HALVINGS and each edge in EDGE_HALVINGS steps.
DEPTH, PEAK_HALVINGS, EDGE_HALVINGS = 34.0, 60, 30
MOST_PEAK_NODES = 1280
# Reach and step of the integral over the noise, in widths of the noise, and the compression of its left tail.
NOISE_REACH, NOISE_STEP, STRETCH = 32.0, 0.5, 0.25
ROUNDS = 60
# People who do not converge are propagated again with half steps, and more of them.
DAMPED, DAMPED_ROUNDS = 0.5, 400
# Rounding errors add up in updated covariances: they are recomputed every FRESH sweeps, and when one factor has changed
# a variance by a factor of LOSS. A factor leaves at least SMALLEST_SHARE of a cavity's variance.
FRESH, LOSS, SMALLEST_SHARE = 8, 1e4, 1e-13
# Largest change of an answer's mean, in units of its spread, at convergence; and what is accepted after the last sweep.
# Derivatives are then off by about as much, and values, which are stationary in the factors, by its square. ROUGHLY is
# enough for steps that are far from the end of a fit, or that need not be taken to it, and saves every third sweep.
TOLERANCE, ROUGHLY, NEARLY_SETTLED = 1e-9, 3e-6, 1e-5
# A sweep leaves about a thirtieth of the error. Changes that shrink faster say little about what is still to come (the
# first sweep changes factors by their size, not by an error), so nobody is trusted to settle faster than this.
USUAL_FALL = 30.0


def propagated(
    a: Array,
    E: Array,
    S: Array,
    y: Array,
    weight: Array,
    loss: Loss,
    *,
    damped: bool = False,
    tolerance: float = TOLERANCE,
) -> tuple[Integral, Array]:
    """Integrate by expectation propagation; also return whether each person's sweeps have settled (P,).

    Arguments are those of `crowdmetric.users.integrals.on_grid`. Damped sweeps are slower, and settle where others go
    round in circles. Compiled where arrays are NumPy's and answers logistic.
    """
    how = (DAMPED, DAMPED_ROUNDS) if damped else (1.0, ROUNDS)
    fused = fused_kernels(a) if isinstance(loss, Logistic) else None
    if fused is not None and a.shape[1] <= fused.LARGEST:
        return _fused(a, E, S, y, weight, loss, how, tolerance, fused)
    H = loadings_of(E, S)
    if not (isinstance(a, np.ndarray) and isinstance(loss, Logistic)):
        return propagate(a, E, H, y, weight, loss, *how, tolerance)
    sizes = np.array([*CAVITY_SIZES, 0])
    weights = lines()[1][: len(CAVITY_SIZES), : CAVITY_SIZES[-1]]
    arguments = (a, np.ascontiguousarray(E), H, y, weight, loss.beta, _level(H, loss), sizes, weights, OWN_FINENESS)
    *parts, settled = kernels("propagation").logistic_by_propagation(*arguments, how[0], tolerance, how[1])
    return Integral(*parts), settled


def _fused(
    a: Array,
    E: Array,
    S: Array,
    y: Array,
    weight: Array,
    loss: Loss,
    how: tuple[float, int],
    tolerance: float,
    fused: ModuleType,
) -> tuple[Integral, Array]:
    """Return `propagated` by one kernel of a GPU; laws too wide for its lines are left to `propagate`."""
    xp = array_namespace(a)
    same = is_identity(E)
    C = S if same else E @ S @ xp.matrix_transpose(E)
    level = _level_of(xp.linalg.diagonal(C), loss)
    line = xp.astype(xp.clip(level, None, len(CAVITY_SIZES) - 1), xp.int32)
    sizes = xp.asarray(np.array(CAVITY_SIZES, dtype=np.int32), device=a.device)
    priors = as_like(lines()[1][: len(CAVITY_SIZES), : CAVITY_SIZES[-1]], a)
    damping, rounds = how
    value, slope, precision, R, settled = fused.propagated(
        a, C, y, weight, line, sizes, priors, loss.beta, damping, _reachable(tolerance, a), rounds
    )
    pulled = slope if same else xp.sum(E * slope[:, :, None], axis=1)
    inner = R if same else xp.matrix_transpose(E) @ R @ E
    integral = Integral(value, slope, 0.5 * (pulled[:, :, None] * pulled[:, None, :] - inner), precision)
    wide = xp.any(level == len(CAVITY_SIZES), axis=1)
    if bool(xp.any(wide)):
        some = xp.nonzero(wide)[0]
        H = loadings_of(E[some], S[some])
        exact, settled[some] = propagate(a[some], E[some], H, y[some], weight[some], loss, *how, tolerance)
        for field in fields(Integral):
            getattr(integral, field.name)[some] = getattr(exact, field.name)
    return integral, settled


def _reachable(tolerance: float, a: Array) -> float:
    """Return the tolerance, or what single precision can reach."""
    return max(tolerance, 4.0 * float(array_namespace(a).finfo(a.dtype).eps))


def _level(H: Array, loss: Loss) -> Array:
    """Return the place (P, m) in `CAVITY_SIZES` of the line that is fine enough for each answer's cavity.

    A cavity is never wider than the law itself, √(H_iᵀH_i): a line that is fine enough for that serves in every sweep,
    and the same in every array library. One more than there are lines stands for an integral over the noise.
    """
    return _level_of(array_namespace(H).sum(H * H, axis=2), loss)


def _level_of(variance: Array, loss: Loss) -> Array:
    """Return `_level` for these variances (P, m) of ψ under the law."""
    xp = array_namespace(variance)
    steepness = loss.beta * xp.sqrt(variance)
    needed = xp.clip(2.0 * REACH / CAVITY_FINENESS * steepness + 1.0, float(FEWEST_NODES), None)
    return xp.searchsorted(as_like(np.array(CAVITY_SIZES, dtype=np.float64), variance), needed)


def propagate(
    a: Array,
    E: Array,
    H: Array,
    y: Array,
    weight: Array,
    loss: Loss,
    damping: float = 1.0,
    rounds: int = ROUNDS,
    tolerance: float = TOLERANCE,
) -> tuple[Integral, Array]:
    """Sweep over the answers of all people at once, until the slowest person has settled.

    Answers are updated one after the other, each with the current factors of the others. Such a sweep leaves a
    thirtieth of the error; an update of all answers at once would leave an eighth. A factor is kept as its precision
    τ_i and its slope b_i at some ψ_i (`anchor`): νs and their products with offsets would be differences of large
    numbers.
    """
    xp, tolerance = array_namespace(a), _reachable(tolerance, a)
    lines_of = [_sharing(level) for level in xp.matrix_transpose(_level(H, loss))]
    precision, pull, anchor = xp.zeros_like(a), xp.zeros_like(a), a + 0.0
    center, before = xp.zeros_like(H[:, 0, :]), xp.full_like(a[:, 0], float("inf"))
    settled, far, lost = before < 0.0, xp.zeros_like(a, dtype=xp.bool), False
    for turn in range(rounds):
        if turn % FRESH == 0 or lost:
            V = _covariance(H, precision)
            center = _centered(a, H, precision, pull, anchor, V, center)
        largest, lost = xp.zeros_like(before), False
        for i, sharing in enumerate(lines_of):
            along = H[:, i, :]
            reach = xp.sum(V * along[:, None, :], axis=2)
            psi = a[:, i] + xp.sum(along * center, axis=1)
            spread = xp.clip(xp.sum(reach * along, axis=1), 0.0, None)
            b = pull[:, i] - precision[:, i] * (psi - anchor[:, i])
            cavity = spread / xp.clip(1.0 - precision[:, i] * spread, SMALLEST_SHARE, None)
            own = (psi - cavity * b, cavity, y[:, i], weight[:, i], loss)
            # an answer stays far once it was: switching between grids would change results by more than the tolerance
            far[:, i] = far[:, i] | _is_far(*own)
            _, slope, bend = _tilted(*own, sharing, far[:, i])
            # slope and bend are d/dm and d²/dm² of the log of the answer's mean likelihood, −bend > 0 by log-concavity
            strength = xp.clip(-bend, 0.0, None)
            new = strength / xp.clip(1.0 - strength * cavity, SMALLEST_SHARE, None)
            stronger = damping * (new - precision[:, i])
            further = damping * (slope - b) * (1.0 + new * cavity)
            largest = xp.maximum(largest, xp.abs(further) * xp.sqrt(spread))
            # the person with the new factor, by Sherman and Morrison
            growth = 1.0 + stronger * spread
            lost = lost or bool(xp.any((growth > LOSS) | (growth < 1.0 / LOSS)))
            precision[:, i] += stronger
            step = further / growth
            anchor[:, i] = psi + spread * step
            pull[:, i] = b + further - precision[:, i] * spread * step
            V = V - (stronger / growth)[:, None, None] * reach[:, :, None] * reach[:, None, :]
            center = center + reach * step[:, None]
        # the changes still to come, if sweeps go on shrinking at this rate
        earlier = xp.minimum(before, USUAL_FALL * largest)
        settled = (largest < tolerance) | (largest * largest < tolerance * (earlier - largest))
        before = largest
        if bool(xp.all(settled)):
            break
    integral = _collect(a, E, H, (precision, pull, anchor, center), y, weight, loss, lines_of, far)
    return integral, settled | (before < NEARLY_SETTLED)


def _sharing(level: Array) -> Sharing:
    """Return which people are integrated along which line, by the places (P,) of their lines in `CAVITY_SIZES`."""
    xp = array_namespace(level)
    shared: Sharing = []
    for step in map(int, xp.unique_values(level)):
        chosen = xp.nonzero(level == step)[0]
        wide = step == len(CAVITY_SIZES)
        grid = grid_of(1, MOST_PEAK_NODES if wide else CAVITY_SIZES[step])
        shared += [(None if wide else grid, part) for part in pieces(chosen, grid, level.shape[0])]
    return shared


def _covariance(H: Array, precision: Array) -> Array:
    """Return ``V = (I + Hᵀ diag(τ) H)⁻¹`` (P, q, q)."""
    xp = array_namespace(H)
    identity = xp.eye(H.shape[-1], dtype=H.dtype, device=H.device)
    return xp.linalg.inv(identity + xp.matrix_transpose(H) @ (precision[:, :, None] * H))


def _centered(a: Array, H: Array, precision: Array, pull: Array, anchor: Array, V: Array, center: Array) -> Array:
    """Return people's means t̂ (P, q), where ``t̂ = Hᵀb``: one step of a linear system from where they are."""
    xp = array_namespace(a)
    psi = a + xp.sum(H * center[:, None, :], axis=2)
    b = pull - precision * (psi - anchor)
    rest = xp.sum(H * b[:, :, None], axis=1) - center
    return center + xp.sum(V * rest[:, None, :], axis=2)


def _tilted(
    mean: Array, variance: Array, y: Array, weight: Array, loss: Loss, sharing: Sharing, far: Array
) -> tuple[Array, Array, Array]:
    """Return ``log E[f^ω]`` under N(mean, variance) and its first two derivatives in the mean, (P,) each."""
    xp = array_namespace(mean)
    parts = xp.empty_like(mean), xp.empty_like(mean), xp.empty_like(mean)
    spread = xp.sqrt(variance)
    for grid, chosen in sharing:
        own = (mean[chosen], spread[chosen], y[chosen], weight[chosen])
        found = _over_noise(*own, loss) if grid is None else _on_line(*own, loss, grid)
        if grid is None:
            beta, (m, s, sign, omega) = loss.beta, own
            least = -UNLIKELY * xp.clip(omega, None, 1.0) * (beta * s) ** 2
            peaked = (beta * s < WIDE) | (beta * sign * m < least)
        else:
            peaked = far[chosen]
        if bool(xp.any(peaked)):
            some = xp.nonzero(peaked)[0]
            m, s, sign, omega = (x[some] for x in own)
            for part, better in zip(found, _over_peak(m, s, sign, omega, loss), strict=True):
                part[some] = better
        for part, new in zip(parts, found, strict=True):
            part[chosen] = new
    return parts


def _is_far(mean: Array, variance: Array, y: Array, weight: Array, loss: Loss) -> Array:
    """Return whether an answer moves people further than `FAR` standard deviations (P,), out of a line's reach."""
    spread = array_namespace(mean).sqrt(variance)
    moved = -y * spread * weight * loss.value_slope_curvature(mean + y * spread * FAR, y)[1]
    return moved > FAR


def _moments(log_joint: Array, psi: Array, y: Array, omega: Array, loss: Loss) -> tuple[Array, Array, Array]:
    """Return the logarithm (P,) of the sum over nodes of exp(log_joint), and its derivatives as means over nodes."""
    xp = array_namespace(psi)
    highest = xp.max(log_joint, axis=1, keepdims=True)
    joint = xp.exp(log_joint - highest)
    total = xp.sum(joint, axis=1, keepdims=True)
    share = joint / total
    _, slope, curvature = loss.value_slope_curvature(psi, y)
    h = -omega * slope
    first = xp.sum(share * h, axis=1)
    second = xp.sum(share * (h * h - omega * curvature), axis=1) - first * first
    return (highest + xp.log(total))[:, 0], first, second


def _on_line(mean: Array, spread: Array, y: Array, weight: Array, loss: Loss, grid: Grid) -> tuple[Array, Array, Array]:
    """Return `_tilted` along a line that is laid over the cavity."""
    line, log_weights = as_like(grid.line, mean), as_like(grid.log_weights, mean)
    y, omega = y[:, None], weight[:, None]
    psi = mean[:, None] + spread[:, None] * line
    return _moments(log_weights - omega * loss.value_slope_curvature(psi, y)[0], psi, y, omega, loss)


def _over_noise(mean: Array, spread: Array, y: Array, weight: Array, loss: Loss) -> tuple[Array, Array, Array]:
    """Return `_tilted` by an integral over the noise, for cavities that are much wider than that.

    f(x)^ω is the distribution function of a noise with density ``g = −ω f^ω ℓ'``; hence, with z = (±mean − x)/spread::

        E[f^ω] = ∫ Φ(z) g(x) dx        d/dm = ± ∫ φ(z) g(x) dx / spread       d²/dm² = −∫ z φ(z) g(x) dx / spread²

    whose integrands are the smoother the wider the cavity is. By the trapezoidal rule in u, with
    ``βx = u − exp(−STRETCH u)``, because g falls only exponentially on the left, at the rate ωβ.
    """
    xp = array_namespace(mean)
    beta = loss.beta
    positive = weight[weight > 0.0]
    if positive.shape[0] == 0:
        return xp.zeros_like(mean), xp.zeros_like(mean), xp.zeros_like(mean)
    lightest, heaviest = float(xp.min(positive)), float(xp.max(positive))
    first = np.log(min(lightest, 1.0) / NOISE_REACH) / STRETCH
    u = np.arange(first, NOISE_REACH + max(np.log(heaviest), 0.0), NOISE_STEP)
    bent = np.exp(-STRETCH * u)
    x, log_step = as_like((u - bent)[None, :] / beta, mean), as_like(np.log1p(STRETCH * bent)[None, :], mean)
    omega = xp.where(weight > 0.0, weight, xp.ones_like(weight))[:, None]
    value, slope, _ = loss.value_slope_curvature(x, xp.ones_like(x))
    log_density = log_step + xp.log(-slope) - omega * value
    log_density = log_density - _log_sum(log_density)[:, None]
    safe = xp.where(spread > 0.0, spread, xp.ones_like(spread))[:, None]
    z = ((y * mean)[:, None] - x) / safe
    special = scipy.special if isinstance(z, np.ndarray) else xp.special
    hazard = float(np.sqrt(2.0 / pi)) / special.erfcx(-z * float(np.sqrt(0.5)))  # φ/Φ
    # log Φ(z) + ½z₀², z₀ = (±mean)/spread, without the difference of large numbers where both are far below zero
    z0 = xp.clip((y * mean)[:, None] / safe, None, 0.0)
    low = z < -1.0
    tail = -0.5 * (z - z0) * (z + z0) - xp.log(xp.where(low, hazard, xp.ones_like(z))) - 0.5 * float(np.log(2.0 * pi))
    log_joint = log_density + xp.where(low, tail, special.log_ndtr(z) + 0.5 * z0 * z0)
    log_mean = _log_sum(log_joint)
    share = xp.exp(log_joint - log_mean[:, None]) * hazard / safe
    pull = xp.sum(share, axis=1)
    bend = -xp.sum(share * z / safe, axis=1) - pull * pull
    present = xp.where(weight > 0.0, xp.ones_like(weight), xp.zeros_like(weight))
    return present * xp.clip(log_mean - 0.5 * z0[:, 0] ** 2, None, 0.0), present * y * pull, present * bend


def _log_sum(x: Array) -> Array:
    """Return ``log Σ_k exp(x_k)`` over the last axis."""
    xp = array_namespace(x)
    highest = xp.max(x, axis=1, keepdims=True)
    return (highest + xp.log(xp.sum(xp.exp(x - highest), axis=1, keepdims=True)))[:, 0]


def _over_peak(mean: Array, spread: Array, y: Array, weight: Array, loss: Loss) -> tuple[Array, Array, Array]:
    """Return `_tilted` along a line around the peak of cavity and answer together.

    In ``t = y(ψ − mean)/spread``. The peak, where t is as far as the answer pulls, and the two places around it where
    `DEPTH` nats are lost are found by halving; the latter are within √(2 DEPTH), since the density is log-concave.
    """
    xp = array_namespace(mean)

    def log_joint(t: Array) -> Array:
        return -0.5 * t * t - weight * loss.value_slope_curvature(mean + y * spread * t, y)[0]

    def short(t: Array) -> Array:
        return -y * spread * weight * loss.value_slope_curvature(mean + y * spread * t, y)[1] > t

    zero = xp.zeros_like(mean)
    low, high = zero, -y * spread * weight * loss.value_slope_curvature(mean, y)[1]
    peak = _halved(short, low, high, PEAK_HALVINGS)
    highest = log_joint(peak)
    reach = xp.full_like(mean, float(np.sqrt(2.0 * DEPTH)))
    right = _halved(lambda t: log_joint(peak + t) > highest - DEPTH, zero, reach, EDGE_HALVINGS)
    left = _halved(lambda t: log_joint(peak - t) > highest - DEPTH, zero, reach, EDGE_HALVINGS)
    along = as_like(np.linspace(0.0, 1.0, MOST_PEAK_NODES), mean)
    t = peak[:, None] - left[:, None] + (left + right)[:, None] * along
    psi = mean[:, None] + (y * spread)[:, None] * t
    omega = weight[:, None]
    joint = -0.5 * t * t - omega * loss.value_slope_curvature(psi, y[:, None])[0]
    value, first, second = _moments(joint, psi, y[:, None], omega, loss)
    value = value + xp.log((left + right) / (MOST_PEAK_NODES - 1.0)) - 0.5 * float(np.log(2.0 * pi))
    share = xp.exp(joint - xp.max(joint, axis=1, keepdims=True))
    share = share / xp.sum(share, axis=1, keepdims=True)
    middle = xp.sum(share * (t - peak[:, None]), axis=1)
    left_over = xp.sum(share * (t - peak[:, None] - middle[:, None]) ** 2, axis=1)
    safe = xp.where(spread > 0.0, spread, xp.ones_like(spread))
    steep = loss.beta * spread > 1.0  # there the variance itself has no difference of large numbers
    return xp.clip(value, None, 0.0), first, xp.where(steep, (left_over - 1.0) / safe**2, second)


def _halved(beyond: Callable[[Array], Array], low: Array, high: Array, times: int) -> Array:
    """Return where a condition that holds at `low` and not at `high` ends (P,)."""
    xp = array_namespace(low)
    for _ in range(times):
        middle = 0.5 * (low + high)
        short = beyond(middle)
        low, high = xp.where(short, middle, low), xp.where(short, high, middle)
    return 0.5 * (low + high)


def _collect(
    a: Array,
    E: Array,
    H: Array,
    factors: tuple[Array, Array, Array, Array],
    y: Array,
    weight: Array,
    loss: Loss,
    lines_of: list[Sharing],
    far: Array,
) -> Integral:
    """Return value and derivatives at the fixed point.

    ``ℓ = Σ_i [log Z_i − log Z̃_i] + log ∫ Π_i f̃_i(ψ_i) N(t; 0, I) dt``, Z_i and Z̃_i being the masses of the exact and
    the Gaussian factor under the cavity of answer i. With factors ``f̃_i = exp(b_i(ψ − ψ̂_i) − ½τ_i(ψ − ψ̂_i)²)`` around
    the person's mean (the cavity of variance s_i then has the mean ψ̂_i − s_i b_i, and t̂ = Hᵀb) no offset is squared::

        ℓ = Σ_i [log Z_i + ½ log(1 + τ_i s_i) + ½ s_i b_i²] − ½ t̂ᵀt̂ + ½ log det V
    """
    xp = array_namespace(a)
    precision, pull, anchor, center = factors
    V = _covariance(H, precision)
    center = _centered(a, H, precision, pull, anchor, V, center)
    psi = a + xp.sum(H * center[:, None, :], axis=2)
    b = pull - precision * (psi - anchor)
    variance = xp.clip(xp.sum((H @ V) * H, axis=2), 0.0, None)
    keep = xp.clip(1.0 - precision * variance, SMALLEST_SHARE, None)
    cavity = variance / keep
    log_exact = xp.stack(
        [
            _tilted((psi - cavity * b)[:, i], cavity[:, i], y[:, i], weight[:, i], loss, sharing, far[:, i])[0]
            for i, sharing in enumerate(lines_of)
        ],
        axis=1,
    )
    weighted = xp.matrix_transpose(E) @ (precision[:, :, None] * H)  # Eᵀ diag(τ) H
    inner = xp.matrix_transpose(E) @ (precision[:, :, None] * E) - weighted @ V @ xp.matrix_transpose(weighted)
    pulled = xp.sum(E * b[:, :, None], axis=1)
    return Integral(
        value=xp.sum(log_exact - 0.5 * xp.log(keep) + 0.5 * cavity * b * b, axis=1)
        - 0.5 * xp.sum(center * center, axis=1)
        + 0.5 * xp.linalg.slogdet(V)[1],
        slope=b,
        bend=0.5 * (pulled[:, :, None] * pulled[:, None, :] - inner),
        precision=precision,
    )
