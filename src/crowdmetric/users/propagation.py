"""Expectation propagation: a person integrated out in as many dimensions as their questions span.

Every answer's likelihood is replaced by a Gaussian factor in its own ψ_i, so that the person becomes Gaussian::

    t ~ N(0, I),  ψ = a + H t,  H = E C,  C Cᵀ = S
    f(y_i ψ_i)^ω_i  ≈  exp(ν_i ψ_i − ½ τ_i ψ_i²)
    V = (I + Hᵀ diag(τ) H)⁻¹,   t̂ = V Hᵀ(ν − τ a)

and τ, ν are chosen so that, answer by answer, the exact answer in the company of everybody else's factor (the
*cavity*) leaves ψ_i with the same mean and variance. Logistic and probit answers are log-concave, so τ ≥ 0 and
sweeps over the answers converge in a few rounds. The cavity's one-dimensional integrals are done by the
trapezoidal rule.

At the fixed point the derivatives of the approximate log-likelihood are explicit, as if τ and ν were constants::

    ∂ℓ/∂a = b = ν − τ ψ̂        ∂ℓ/∂S = ½ Eᵀ(b bᵀ − R)E,   R = diag(τ) − diag(τ) H V Hᵀ diag(τ)

Unlike a Laplace approximation this stays accurate when people answer little: what is approximated is only that
ψ_i is Gaussian given everybody else's answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from crowdmetric.losses import Logistic, Loss
from crowdmetric.symmetric import as_array
from crowdmetric.users.integrals import REACH, SIZES, Grid, Integral, grid_of, kernels, lines, loadings_of, pieces

__all__ = ["by_propagation", "propagate"]

Array = Any
# Lines, each with the people who are integrated along it.
Sharing = list[tuple[Grid, Array]]

# Looser than `integrals.FINENESS`: about 1e-6 in the value of a cavity's integral and 3e-5 in its second derivative.
FEWEST_NODES, CAVITY_FINENESS = 32, 1.2
# Beyond the lines of `integrals`, for answers that are all but noiseless.
CAVITY_SIZES = SIZES[1] + (2048, 4096, 8192, 16384)
# Lines are centred elsewhere than at a cavity's mean where its mode with the answer is so many standard deviations
# off; the mode is found by so many halvings.
FAR, HALVINGS = 1.5, 30
ROUNDS = 60
# Sweeps after which people's covariances are found anew, so that rounding does not add up.
FRESH = 8
TOLERANCE = 1e-11  # on the change of an answer's mean, in units of its spread


def by_propagation(a: Array, E: Array, S: Array, y: Array, weight: Array, loss: Loss) -> Integral:
    """Integrate by expectation propagation; arguments as for `crowdmetric.users.integrals.on_grid`.

    Compiled where arrays are NumPy's and answers logistic.
    """
    H = loadings_of(E, S)
    if isinstance(a, np.ndarray) and isinstance(loss, Logistic):
        arguments = (a, np.ascontiguousarray(E), H, y, weight, loss.beta, _level(H, loss), np.array(CAVITY_SIZES))
        return Integral(*kernels("propagation").logistic_by_propagation(*arguments, lines()[1], TOLERANCE, ROUNDS))
    return propagate(a, E, H, y, weight, loss)


def _level(H: Array, loss: Loss) -> Array:
    """Return the place (P, m) in `CAVITY_SIZES` of the line that is fine enough for each answer's cavity.

    A cavity is never wider than the law itself, √(H_iᵀH_i): a line that is fine enough for that serves in every sweep,
    and the same in every array library.
    """
    xp = array_namespace(H)
    steepness = getattr(loss, "beta", 1.0) * xp.sqrt(xp.sum(H * H, axis=2))
    needed = xp.clip(2.0 * REACH / CAVITY_FINENESS * steepness + 1.0, float(FEWEST_NODES), None)
    return xp.searchsorted(as_array(np.array(CAVITY_SIZES[:-1], dtype=np.float64), H), needed)


def propagate(a: Array, E: Array, H: Array, y: Array, weight: Array, loss: Loss) -> Integral:
    """Sweep over the answers of all people at once, until the slowest person has settled.

    Answer after answer, each in the company of the others as they are by then: a sweep leaves a thirtieth of the
    error, where one of all answers at once would leave an eighth.
    """
    xp = array_namespace(a)
    tolerance = max(TOLERANCE, 4.0 * float(xp.finfo(a.dtype).eps))  # what single precision can reach
    lines_of = [_sharing(level) for level in xp.matrix_transpose(_level(H, loss))]
    precision, shift, before = xp.zeros_like(a), xp.zeros_like(a), xp.ones_like(a[:, 0])
    for turn in range(ROUNDS):
        if turn % FRESH == 0:
            V, pull = _covariance(a, H, precision, shift)
        largest = xp.zeros_like(before)
        for i, sharing in enumerate(lines_of):
            along = H[:, i, :]
            reach = xp.sum(V * along[:, None, :], axis=2)
            centre = a[:, i] + xp.sum(reach * pull, axis=1)
            spread = xp.clip(xp.sum(reach * along, axis=1), 0.0, None)
            cavity_mean, cavity_variance = _cavity(centre, spread, precision[:, i], shift[:, i])
            _, slope, bend = _tilted(cavity_mean, cavity_variance, y[:, i], weight[:, i], loss, sharing)
            # slope and bend are d/dm and d²/dm² of the log of the answer's mean likelihood, −bend > 0 by log-concavity
            strength = xp.clip(-bend, 0.0, None)
            stronger = strength / xp.clip(1.0 - strength * cavity_variance, 1e-12, None)
            further = slope + stronger * (cavity_mean + cavity_variance * slope) - shift[:, i]
            stronger = stronger - precision[:, i]
            largest = xp.maximum(largest, xp.abs(further - centre * stronger) * xp.sqrt(spread))
            precision[:, i] += stronger
            shift[:, i] += further
            # the person with the new factor, by Sherman and Morrison
            shrink = stronger / (1.0 + stronger * spread)
            V = V - shrink[:, None, None] * reach[:, :, None] * reach[:, None, :]
            pull = pull + along * (further - stronger * a[:, i])[:, None]
        # what is left to come, sweeps shrinking at this rate
        if bool(xp.all((largest < tolerance) | (largest * largest < tolerance * (before - largest)))):
            break
        before = largest
    return _collect(a, E, H, precision, shift, y, weight, loss, lines_of)


def _sharing(level: Array) -> Sharing:
    """Return which people are integrated along which line, by the places (P,) of their lines in `CAVITY_SIZES`."""
    xp = array_namespace(level)
    grids = {int(step): grid_of(1, CAVITY_SIZES[int(step)]) for step in xp.unique_values(level)}
    return [
        (grid, chosen)
        for step, grid in grids.items()
        for chosen in pieces(xp.nonzero(level == step)[0], grid, level.shape[0])
    ]


def _covariance(a: Array, H: Array, precision: Array, shift: Array) -> tuple[Array, Array]:
    """Return ``V = (I + Hᵀ diag(τ) H)⁻¹`` (P, q, q) and ``pull = Hᵀ(ν − τ a)`` (P, q)."""
    xp = array_namespace(a)
    identity = xp.eye(H.shape[-1], dtype=a.dtype, device=a.device)
    V = xp.linalg.inv(identity + xp.matrix_transpose(H) @ (precision[:, :, None] * H))
    return V, xp.sum(H * (shift - precision * a)[:, :, None], axis=1)


def _cavity(mean: Array, variance: Array, precision: Array, shift: Array) -> tuple[Array, Array]:
    """Return mean and variance of ψ under the others' factors alone."""
    # a variance that rounding made negative would poison the sweep
    keep = array_namespace(mean).clip(1.0 - precision * variance, 1e-12, None)
    return (mean - variance * shift) / keep, variance / keep


def _tilted(
    mean: Array, variance: Array, y: Array, weight: Array, loss: Loss, sharing: Sharing
) -> tuple[Array, Array, Array]:
    """Return ``log E[f^ω]`` under N(mean, variance) and its first two derivatives in the mean, (P,) each."""
    xp = array_namespace(mean)
    log_mean, first, second = xp.empty_like(mean), xp.empty_like(mean), xp.empty_like(mean)
    spread = xp.sqrt(variance)
    centre = _centre(mean, spread, y, weight, loss)
    for grid, chosen in sharing:
        line, log_weights = as_array(grid.line, mean), as_array(grid.log_weights, mean)
        omega, c = weight[chosen][:, None], centre[chosen][:, None]
        psi = mean[chosen][:, None] + spread[chosen][:, None] * (c + line)
        value, slope, curvature = loss.value_slope_curvature(psi, y[chosen][:, None])
        log_joint = log_weights - c * (line + 0.5 * c) - omega * value
        highest = xp.max(log_joint, axis=1, keepdims=True)
        joint = xp.exp(log_joint - highest)
        total = xp.sum(joint, axis=1, keepdims=True)
        share = joint / total
        h = -omega * slope
        pull = xp.sum(share * h, axis=1)
        log_mean[chosen], first[chosen] = (highest + xp.log(total))[:, 0], pull
        second[chosen] = xp.sum(share * (h * h - omega * curvature), axis=1) - pull * pull
    return log_mean, first, second


def _centre(mean: Array, spread: Array, y: Array, weight: Array, loss: Loss) -> Array:
    """Return where lines are centred (P,), in standard deviations of the cavity.

    At its mean; but an answer that is very unlikely there, and steep, moves ψ out of reach: then at the mode of the two
    together, the root of ``t + spread ω ℓ'(mean + spread t)``, which lies between 0 and minus the value at 0.
    """
    xp = array_namespace(mean)
    zero = xp.zeros_like(mean)

    def moved(t: Array) -> Array:
        return -spread * weight * loss.value_slope_curvature(mean + spread * t, y)[1]

    most = moved(zero)
    sign = xp.where(most > 0, xp.ones_like(most), -xp.ones_like(most))
    far = xp.nonzero(sign * moved(sign * FAR) > FAR)[0]
    if far.shape[0] == 0:
        return zero
    mean, spread, y, weight, sign = (x[far] for x in (mean, spread, y, weight, sign))
    low, high = xp.full_like(mean, FAR), xp.abs(most[far])
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        short = sign * moved(sign * middle) > middle
        low, high = xp.where(short, middle, low), xp.where(short, high, middle)
    zero[far] = sign * low
    return zero


def _collect(
    a: Array,
    E: Array,
    H: Array,
    precision: Array,
    shift: Array,
    y: Array,
    weight: Array,
    loss: Loss,
    lines_of: list[Sharing],
) -> Integral:
    """Return value and derivatives at the fixed point.

    ``ℓ = Σ_i [log Z_i − log Z̃_i] + log ∫ Π_i exp(ν_i ψ_i − ½τ_i ψ_i²) N(t; 0, I) dt``, Z_i and Z̃_i being the
    masses of the exact and the Gaussian factor under the cavity of answer i.
    """
    xp = array_namespace(a)
    V, pull = _covariance(a, H, precision, shift)
    HV = H @ V
    mean, variance = a + xp.sum(HV * pull[:, None, :], axis=2), xp.sum(HV * H, axis=2)
    cavity_mean, cavity_variance = _cavity(mean, variance, precision, shift)
    log_exact = xp.stack(
        [
            _tilted(cavity_mean[:, i], cavity_variance[:, i], y[:, i], weight[:, i], loss, sharing)[0]
            for i, sharing in enumerate(lines_of)
        ],
        axis=1,
    )
    # ∫ exp(νψ − ½τψ²) N(ψ; c, s) dψ = (1 + τs)^−½ exp( (νc + ½ν²s − ½τc²) / (1 + τs) )
    spread = 1.0 + precision * cavity_variance
    log_factor = (
        -0.5 * xp.log(spread)
        + (shift * cavity_mean + 0.5 * shift**2 * cavity_variance - 0.5 * precision * cavity_mean**2) / spread
    )
    log_all = (
        0.5 * xp.linalg.slogdet(V)[1]
        + 0.5 * xp.sum(pull * xp.sum(V * pull[:, None, :], axis=2), axis=1)
        + xp.sum(shift * a - 0.5 * precision * a**2, axis=1)
    )
    b = shift - precision * mean
    weighted = xp.matrix_transpose(E) @ (precision[:, :, None] * H)  # Eᵀ diag(τ) H
    inner = xp.matrix_transpose(E) @ (precision[:, :, None] * E) - weighted @ V @ xp.matrix_transpose(weighted)
    pulled = xp.sum(E * b[:, :, None], axis=1)
    return Integral(
        value=log_all + xp.sum(log_exact - log_factor, axis=1),
        slope=b,
        bend=0.5 * (pulled[:, :, None] * pulled[:, None, :] - inner),
        precision=precision,
    )
