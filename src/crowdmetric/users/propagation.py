"""Expectation propagation: a person integrated out in as many dimensions as their questions span.

Every answer's likelihood is replaced by a Gaussian factor in its own ψ_i, so that the person becomes Gaussian::

    t ~ N(0, I),  ψ = a + H t,  H = E C,  C Cᵀ = S
    f(y_i ψ_i)^ω_i  ≈  exp(ν_i ψ_i − ½ τ_i ψ_i²)
    V = (I + Hᵀ diag(τ) H)⁻¹,   t̂ = V Hᵀ(ν − τ a)

and τ, ν are chosen so that, answer by answer, the exact answer in the company of everybody else's factor (the
*cavity*) leaves ψ_i with the same mean and variance. Logistic and probit answers are log-concave, so τ ≥ 0 and a
parallel sweep over all answers converges in a few rounds. The cavity's one-dimensional integrals are done by the
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
from crowdmetric.users.integrals import REACH, Integral, grid_of, kernels, lines, loadings_of

__all__ = ["by_propagation", "propagate"]

Array = Any

# As in the compiled twin: about 1e-6 in the value and 3e-5 in its second derivative.
FEWEST_NODES, CAVITY_FINENESS = 31, 1.2
ROUNDS = 60
TOLERANCE = 1e-9  # on the change of an answer's mean, in units of its spread


def by_propagation(a: Array, E: Array, S: Array, y: Array, weight: Array, loss: Loss) -> Integral:
    """Integrate by expectation propagation; arguments as for `crowdmetric.users.integrals.on_grid`.

    Compiled where arrays are NumPy's and answers logistic.
    """
    H = loadings_of(E, S)
    if isinstance(a, np.ndarray) and isinstance(loss, Logistic):
        arguments = (a, np.ascontiguousarray(E), H, y, weight, loss.beta, TOLERANCE, ROUNDS, *lines())
        return Integral(*kernels("propagation").logistic_by_propagation(*arguments))
    return propagate(a, E, H, y, weight, loss)


def propagate(a: Array, E: Array, H: Array, y: Array, weight: Array, loss: Loss) -> Integral:
    """Sweep over all answers of all people at once, until the slowest person has settled."""
    xp = array_namespace(a)
    precision, shift = xp.zeros_like(a), xp.zeros_like(a)
    for turn in range(ROUNDS):
        _, mean, variance = _gaussian(a, H, precision, shift)
        # the others' factors alone; a variance that rounding made negative would poison the sweep
        keep = xp.clip(1.0 - precision * variance, 1e-12, None)
        cavity_variance = variance / keep
        cavity_mean = (mean - variance * shift) / keep
        _, slope, bend = _tilted(cavity_mean, cavity_variance, y, weight, loss)
        # slope and bend are d/dm and d²/dm² of the log of the answer's mean likelihood, −bend > 0 by log-concavity
        strength = xp.clip(-bend, 0.0, None)
        new_precision = strength / xp.clip(1.0 - strength * cavity_variance, 1e-12, None)
        new_shift = slope + new_precision * (cavity_mean + cavity_variance * slope)
        step = 1.0 if turn < 10 else 0.5  # damping: a cycle of two sweeps ends here
        change = (new_shift - shift) - mean * (new_precision - precision)
        precision = precision + step * (new_precision - precision)
        shift = shift + step * (new_shift - shift)
        if float(xp.max(xp.abs(change) * xp.sqrt(variance))) < TOLERANCE:
            break
    return _collect(a, E, H, precision, shift, y, weight, loss)


def _gaussian(a: Array, H: Array, precision: Array, shift: Array) -> tuple[Array, Array, Array]:
    """Return V (P, q, q) and the mean and variance (P, m) of every ψ under the Gaussian factors."""
    xp = array_namespace(a)
    q = H.shape[-1]
    transposed = xp.matrix_transpose(H)
    V = xp.linalg.inv(xp.eye(q, dtype=a.dtype, device=a.device) + transposed @ (precision[:, :, None] * H))
    HV = H @ V
    pull = xp.sum(H * (shift - precision * a)[:, :, None], axis=1)  # (P, q)
    mean = a + xp.sum(HV * pull[:, None, :], axis=2)
    return V, mean, xp.sum(HV * H, axis=2)


def _tilted(mean: Array, variance: Array, y: Array, weight: Array, loss: Loss) -> tuple[Array, Array, Array]:
    """Return ``log E[f^ω]`` under N(mean, variance) and its first two derivatives in the mean, (P, m) each."""
    xp = array_namespace(mean)
    steepest = float(xp.max(variance)) ** 0.5 * getattr(loss, "beta", 1.0)
    grid = grid_of(1, max(FEWEST_NODES, int(2.0 * REACH * steepest / CAVITY_FINENESS) | 1))
    nodes, log_weights = as_array(grid.line, mean), as_array(grid.log_weights, mean)
    psi = mean[:, :, None] + xp.sqrt(variance)[:, :, None] * nodes
    value, slope, curvature = loss.value_slope_curvature(psi, y[:, :, None])
    log_joint = log_weights - weight[:, :, None] * value
    highest = xp.max(log_joint, axis=2, keepdims=True)
    joint = xp.exp(log_joint - highest)
    total = xp.sum(joint, axis=2, keepdims=True)
    share = joint / total
    h = -weight[:, :, None] * slope
    first = xp.sum(share * h, axis=2)
    second = xp.sum(share * (h * h - weight[:, :, None] * curvature), axis=2) - first * first
    return (highest + xp.log(total))[:, :, 0], first, second


def _collect(
    a: Array, E: Array, H: Array, precision: Array, shift: Array, y: Array, weight: Array, loss: Loss
) -> Integral:
    """Return value and derivatives at the fixed point.

    ``ℓ = Σ_i [log Z_i − log Z̃_i] + log ∫ Π_i exp(ν_i ψ_i − ½τ_i ψ_i²) N(t; 0, I) dt``, Z_i and Z̃_i being the
    masses of the exact and the Gaussian factor under the cavity of answer i.
    """
    xp = array_namespace(a)
    V, mean, variance = _gaussian(a, H, precision, shift)
    keep = xp.clip(1.0 - precision * variance, 1e-12, None)
    cavity_variance, cavity_mean = variance / keep, (mean - variance * shift) / keep
    log_exact, _, _ = _tilted(cavity_mean, cavity_variance, y, weight, loss)
    # ∫ exp(νψ − ½τψ²) N(ψ; c, s) dψ = (1 + τs)^−½ exp( (νc + ½ν²s − ½τc²) / (1 + τs) )
    spread = 1.0 + precision * cavity_variance
    log_factor = (
        -0.5 * xp.log(spread)
        + (shift * cavity_mean + 0.5 * shift**2 * cavity_variance - 0.5 * precision * cavity_mean**2) / spread
    )
    residual = shift - precision * a
    pull = xp.sum(H * residual[:, :, None], axis=1)
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
    )
