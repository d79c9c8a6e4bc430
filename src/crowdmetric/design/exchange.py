"""The best use of people: how many are asked which bundle of questions.

Bundle i has information ``I_i = Σ_k x_k x_kᵀ`` under each of B metrics that are thought possible. Shares w of people
give ``I_b(w) = Σ_i w_i I_bi`` and the metric's covariance ``C_b = [I_b⁻¹]_MM``. The criterion to minimize is Kiefer's

    Φ = mean_b log (tr C_b^κ / p)^(1/κ)     κ = 1: A, mean variance;  κ → 0: D, log det C / p;  κ → ∞: E, the largest

The mean over metrics is *outside* the logarithm, so a single metric under which everything is easy, or hopeless, does
not decide. The sensitivity of Φ to bundle i,

    d_i = mean_b tr(I_bi K_b C_b^(κ−1) K_bᵀ) / tr C_b^κ,       K = I⁻¹[:, M]

averages to one over the people asked, and no design is better than w by more than max_i d_i allows: at the optimum no
bundle has d_i > 1 (the equivalence theorem). So d says how shares must move, which new bundles are worth trying, and
when to stop. If there are answers already, their information is added to I_b(w), and d averages to less than one: the
rest is what these answers contribute.

Other algorithms that were tried for shares (d = 10, 1,500 bundles, eight metrics, on one core): the multiplicative
algorithm with its proven step takes 3.2 s; with longer steps on the bundles that are left 0.5 s, to a Φ that is lower;
Frank–Wolfe with pairwise steps has a third of the way to go after 1.1 s, as it moves one bundle at a time and a good
design has hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CRITERIA",
    "Sensitivity",
    "best_shares",
    "criterion",
    "exchange_people",
    "sensitivity",
    "times",
    "weighted_information",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# κ of each criterion. E has a kink wherever eigenvalues meet; κ = 8 rounds it off.
CRITERIA = {"A": 1.0, "D": 0.0, "E": 8.0}
# A small prior information on every parameter: without it, the information of few bundles cannot be inverted.
KNOWN = 1e-9
NEXT_TO_NOTHING = 1e-15
# Smallest gain for which a swap is made, and a step of shares.
LEAST_GAIN, LEAST_STEP = 1e-6, 1e-5
# How much longer than the proven step the first steps of shares are.
LONGER = 3.0
# Bundles are dropped below this part of the largest share, unless their share grows: new ones begin with little. Arrays
# are copied when less than `SHRUNK` of them is left.
DROPPED, SHRUNK = 0.02, 0.8


@dataclass(frozen=True)
class Sensitivity:
    """Φ and what it would gain by each bundle, d (C,)."""

    value: float
    bundles: Array


def sensitivity(
    rows: Array, weights: Array, p: int, kappa: float, others: Array | None = None, known: Array | None = None
) -> Sensitivity:
    """Return Φ at some weights (C,) of rows (B, C, k, n), and d of each bundle.

    Parameters
    ----------
    others
        (B, C', k, n) bundles whose d is wanted instead.
    known
        (B, n, n) information from answers that are already there, per person yet to be asked.
    """
    asked = rows if others is None else others
    value, d = 0.0, np.zeros(asked.shape[1])
    for b, information in enumerate(weighted_information(rows, weights, known)):
        one, F = criterion(information, p, kappa)
        value += one
        seen = times(asked[b], F)
        d += np.einsum("ckp,ckp->c", seen, seen)
    return Sensitivity(value / len(rows), d / len(rows))


def best_shares(
    rows: Array,
    p: int,
    kappa: float,
    start: Array | None = None,
    iterations: int = 200,
    known: Array | None = None,
    enough: float = 1.01,
) -> Array:
    """Return shares (C,) of people that make Φ small.

    The multiplicative algorithm, ``w_i ← w_i d_i^λ / Σ``: no step leaves the simplex. With ``λ = 1/(1 + κ)`` every step
    lowers Φ; steps `LONGER` times as long nearly always do and need a third of the iterations, so they are tried
    first. Bundles whose share vanishes are dropped, and later steps do not look at them. It stops when no bundle
    could gain a hundredth (d ≤ `enough`) or a step gains nothing.
    """
    shares = np.full(rows.shape[1], 1.0 / rows.shape[1]) if start is None else start / start.sum()
    kept = np.flatnonzero(shares)
    w, among = shares[kept], rows[:, kept]
    step, last, before = LONGER / (1.0 + kappa), np.inf, w
    for _ in range(iterations):
        found = sensitivity(among, w, p, kappa, known=known)
        if found.value > last - LEAST_STEP:
            w = before
            if step <= 1.0 / (1.0 + kappa):
                break
            step, found = 1.0 / (1.0 + kappa), sensitivity(among, w, p, kappa, known=known)
        usual = float(w @ found.bundles)
        if found.bundles.max() <= enough * usual:
            break
        last, before = found.value, w
        w = w * (found.bundles / usual) ** step
        w[(w < DROPPED * w.max()) & (found.bundles < usual)] = 0.0
        w /= w.sum()
        lasting = np.flatnonzero(w)
        if lasting.size < SHRUNK * w.size:
            kept, w, among, before = (
                kept[lasting],
                w[lasting],
                among[:, lasting],
                before[lasting] / before[lasting].sum(),
            )
    shares = np.zeros_like(shares)
    shares[kept] = w
    return shares


def exchange_people(
    rows: Array, counts: Indices, p: int, kappa: float, most: int = 200, known: Array | None = None
) -> Indices:
    """Return whole numbers of people (C,), moved one by one to where they help more (Fedorov's exchange).

    Each move takes somebody from the bundle of smallest d among those asked, to that of the largest; the moves that
    come next in line are tried where the first does not help, and it ends when none does. `known` as in `sensitivity`,
    but of everybody.
    """
    counts = counts.copy()
    information = weighted_information(rows, counts.astype(float), known)
    now = sensitivity(rows, counts.astype(float), p, kappa, known=known)
    for _ in range(most):
        asked = np.flatnonzero(counts)
        worst = asked[np.argsort(now.bundles[asked], kind="stable")[:3]]
        best = np.argsort(-now.bundles, kind="stable")[:3]
        for source, target in ((s, t) for t in best for s in worst if s != t):
            moved = information + _square(rows[:, target]) - _square(rows[:, source])
            if np.mean([criterion(one, p, kappa)[0] for one in moved]) < now.value - LEAST_GAIN:
                counts[source] -= 1
                counts[target] += 1
                information = moved
                now = sensitivity(rows, counts.astype(float), p, kappa, known=known)
                break
        else:
            break
    return counts


def criterion(information: Array, p: int, kappa: float) -> tuple[float, Array]:
    """Return ``log (tr C^κ / p)^(1/κ)`` of one information (n, n), and F (n, ·) with ``d = Σ_k ‖Fᵀ x_k‖²``."""
    K = _inverse(information)[:, :p]
    if kappa == 1.0:
        trace = max(float(np.trace(K[:p])), np.finfo(float).tiny)
        return float(np.log(trace / p)), K / np.sqrt(trace)
    values, vectors = np.linalg.eigh(K[:p])
    values = np.maximum(values, np.finfo(float).tiny)
    relative = values / values[-1]
    power = float(np.mean(relative**kappa))
    value = np.log(values[-1]) + np.log(power) / kappa if kappa > 0 else np.mean(np.log(values))
    return float(value), K @ (vectors * np.sqrt(relative ** (kappa - 1.0) / (values[-1] * p * power)))


def weighted_information(rows: Array, weights: Array, known: Array | None = None) -> Array:
    """Return ``Σ_i w_i I_i`` (B, n, n) of rows (B, C, k, n), added to what is known."""
    used = np.flatnonzero(weights)
    root = np.sqrt(weights[used])[:, None, None]
    # one metric at a time: its rows fit in a cache
    total = np.stack([_square((root * own[used])[None])[0] for own in rows])
    return total if known is None else total + known


def times(rows: Array, matrix: Array) -> Array:
    """Return rows (…, n) times a matrix (n, q), as one product; ``@`` would take many small ones, which is slow."""
    return np.asarray((rows.reshape(-1, rows.shape[-1]) @ matrix).reshape(*rows.shape[:-1], matrix.shape[1]))


def _square(rows: Array) -> Array:
    """Return ``Σ x xᵀ`` (B, n, n) of rows (B, …, n)."""
    x = rows.reshape(len(rows), -1, rows.shape[-1])
    squares: Array = np.swapaxes(x, 1, 2) @ x
    return squares


def _inverse(information: Array) -> Array:
    """Return the inverse of an information (n, n), computed with every parameter in its own unit."""
    diagonal = np.diag(information)
    # a parameter that no bundle measures is almost unknown, but its variance must stay finite
    unit = np.sqrt(np.maximum(diagonal, NEXT_TO_NOTHING * max(float(diagonal.max()), 1.0)))
    scaled = information / np.outer(unit, unit)
    scaled.flat[:: len(unit) + 1] += KNOWN
    inverse: Array = np.linalg.inv(scaled) / np.outer(unit, unit)
    return inverse
