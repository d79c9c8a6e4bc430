"""The best use of people: how many are asked which bundle of questions.

Bundle i has information ``I_i = Σ_k x_k x_kᵀ`` under each of B metrics that are thought possible. Shares w of people
give ``I_b(w) = Σ_i w_i I_bi`` and the metric's covariance ``C_b = [I_b⁻¹]_MM``. What is made small is Kiefer's

    Φ = mean_b log (tr C_b^κ / p)^(1/κ)     κ = 1: A, mean variance;  κ → 0: D, log det C / p;  κ → ∞: E, the largest

the mean over metrics *outside* the logarithm, so that no single metric, under which everything is easy or hopeless,
decides. The sensitivity of Φ to bundle i,

    d_i = mean_b tr(I_bi K_b C_b^(κ−1) K_bᵀ) / tr C_b^κ,       K = I⁻¹[:, M]

averages to one over the people asked, and no design is better than w by more than max_i d_i allows: at the optimum no
bundle has d_i > 1 (the equivalence theorem). So d says how shares must move, which new bundles are worth trying, and
when to stop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["CRITERIA", "Sensitivity", "best_shares", "exchange_people", "sensitivity"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# κ of each criterion. E has a kink wherever eigenvalues meet; κ = 8 rounds it off.
CRITERIA = {"A": 1.0, "D": 0.0, "E": 8.0}
# A small prior information on every parameter: without it, the information of few bundles cannot be inverted.
KNOWN = 1e-9
# Smallest gain for which a swap is made.
LEAST_GAIN = 1e-6


@dataclass(frozen=True)
class Sensitivity:
    """Φ and what it would gain by each bundle, d (C,)."""

    value: float
    bundles: Array


def sensitivity(rows: Array, weights: Array, p: int, kappa: float, others: Array | None = None) -> Sensitivity:
    """Return Φ at some weights (C,) of rows (B, C, k, n), and d of each bundle.

    Parameters
    ----------
    others
        (B, C', k, n) bundles whose d is wanted instead.
    """
    B, C, _, n = rows.shape
    value, d = 0.0, np.zeros(C if others is None else others.shape[1])
    for b in range(B):
        used = np.flatnonzero(weights)
        x = (np.sqrt(weights[used])[:, None, None] * rows[b, used]).reshape(-1, n)
        K = _inverse(x.T @ x)[:, :p]
        values, vectors = np.linalg.eigh(K[:p])
        values = np.maximum(values, np.finfo(float).tiny)
        relative = values / values[-1]
        power = float(np.mean(relative**kappa))
        value += np.log(values[-1]) + np.log(power) / kappa if kappa > 0 else float(np.mean(np.log(values)))
        F = K @ (vectors * np.sqrt(relative ** (kappa - 1.0) / (values[-1] * p * power)))
        asked = rows[b] if others is None else others[b]
        d += np.sum((asked @ F) ** 2, axis=(1, 2))
    return Sensitivity(value / B, d / B)


def best_shares(rows: Array, p: int, kappa: float, start: Array | None = None, iterations: int = 200) -> Array:
    """Return shares (C,) of people that make Φ small.

    The multiplicative algorithm, ``w_i ← w_i d_i^λ / Σ`` with ``λ = 1/(1 + κ)``: no step leaves the simplex. It stops
    when no bundle could gain a hundredth (d ≤ 1.01) or a step gains nothing.
    """
    w = np.full(rows.shape[1], 1.0 / rows.shape[1]) if start is None else start / start.sum()
    last = np.inf
    for _ in range(iterations):
        found = sensitivity(rows, w, p, kappa)
        if found.bundles.max() <= 1.01 or found.value > last - 1e-5:
            break
        last = found.value
        w = w * found.bundles ** (1.0 / (1.0 + kappa))
        # drop bundles whose share vanishes, or they would be kept forever
        w[w < 1e-3 * w.max() / len(w) ** 0.5] = 0.0
        w /= w.sum()
    return w


def exchange_people(rows: Array, counts: Indices, p: int, kappa: float, most: int = 200) -> Indices:
    """Return whole numbers of people (C,), moved one by one to where they help more (Fedorov's exchange).

    Each move takes somebody from the bundle of smallest d among those asked, to that of the largest; the moves that
    come next in line are tried where the first does not help, and it ends when none does.
    """
    counts = counts.copy()
    now = sensitivity(rows, counts.astype(float), p, kappa)
    for _ in range(most):
        asked = np.flatnonzero(counts)
        worst = asked[np.argsort(now.bundles[asked], kind="stable")[:3]]
        best = np.argsort(-now.bundles, kind="stable")[:3]
        for source, target in ((s, t) for t in best for s in worst if s != t):
            moved = counts.copy()
            moved[source] -= 1
            moved[target] += 1
            then = sensitivity(rows, moved.astype(float), p, kappa)
            if then.value < now.value - LEAST_GAIN:
                counts, now = moved, then
                break
        else:
            break
    return counts


def _inverse(information: Array) -> Array:
    """Return the inverse of an information (n, n), parameters in units of their own."""
    unit = np.sqrt(np.maximum(np.diag(information), np.finfo(float).tiny))
    scaled = information / np.outer(unit, unit)
    scaled.flat[:: len(unit) + 1] += KNOWN
    inverse: Array = np.linalg.inv(scaled) / np.outer(unit, unit)
    return inverse
