"""Compiled twins of the hot loops of `integrals` and `population_sums`, for logistic answers.

NumPy spends a pass over people on temporaries with one number per node and answer. The same sums person by person, with
``exp`` of a node's coordinates taken from small tables, are several times faster; `tests/test_population.py`
checks that both agree. The formulas are explained where the NumPy code is.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.users.compiled import compiled, compiled_sums
from crowdmetric.users.line_kernels import LANES, LARGEST_EXPONENT, geometric, is_wide, wide_tilted

__all__ = [
    "add_item_terms",
    "beside",
    "feature_derivatives",
    "logistic_means",
    "logistic_on_grid",
    "offsets",
    "outer_sums",
    "roots",
]

Array = NDArray[Any]

# Nodes on either side of the middle, at least, of a grid for the mean of a probability: 1e-9 off.
FEWEST_HALF = 16


@compiled
def logistic_on_grid(
    a: Array, E: Array, H: Array, y: Array, weight: Array, beta: float, line: Array, places: Array, log_weights: Array
) -> tuple[Array, Array, Array, Array]:
    """Return value (P,), slope (P, m), bend (P, q, q) and precision (P, m); node n lies at ``line[places[n]]``."""
    P, m = a.shape
    q, Q, n = E.shape[2], places.shape[0], line.size
    value, slope, bend, precision = np.empty(P), np.zeros((P, m)), np.zeros((P, q, q)), np.zeros((P, m))
    table, r = np.empty((q, n)), np.empty((m, Q))
    joint, product, u = np.empty(Q), np.empty(Q), np.empty((q, Q))
    reach, step, weights = line[n - 1], line[1] - line[0], np.exp(log_weights)
    for p in range(P):
        joint[:] = log_weights
        product[:] = 1.0
        largest, plain = 0.0, True  # a bound on the logarithm of the product; whether the product alone is enough
        for i in range(m):
            if weight[p, i] == 0.0:
                r[i] = 0.0
                continue
            sharpness = beta * y[p, i]
            bound = abs(sharpness * a[p, i])
            for k in range(q):
                bound += abs(sharpness * H[p, i, k]) * reach
            if bound < LARGEST_EXPONENT:
                first = exp(-sharpness * a[p, i])
                for k in range(q):
                    table[k, 0] = exp(sharpness * H[p, i, k] * reach)
                    ratio = exp(-sharpness * H[p, i, k] * step)
                    for j in range(1, n):
                        table[k, j] = ratio * table[k, j - 1]
                if q == 1:
                    for node in range(Q):
                        r[i, node] = first * table[0, node]
                else:
                    for node in range(Q):
                        e = first
                        for k in range(q):
                            e *= table[k, places[node, k]]
                        r[i, node] = e
            else:
                for node in range(Q):
                    z = a[p, i]
                    for k in range(q):
                        z += H[p, i, k] * line[places[node, k]]
                    excess = max(-sharpness * z - LARGEST_EXPONENT, 0.0)  # log(1 + eᶻ) is z there
                    r[i, node] = exp(-sharpness * z - excess)
                    joint[node] -= weight[p, i] * excess
                bound = LARGEST_EXPONENT
            if weight[p, i] == 1.0:
                if largest + bound + 0.7 > LARGEST_EXPONENT:
                    for node in range(Q):
                        joint[node] -= log(product[node])
                        product[node] = 1.0
                    largest, plain = 0.0, False
                largest += bound + 0.7
                for node in range(Q):
                    product[node] *= 1.0 + r[i, node]
            else:
                plain = False
                for node in range(Q):
                    joint[node] -= weight[p, i] * log(1.0 + r[i, node])
            for node in range(Q):
                r[i, node] = r[i, node] / (1.0 + r[i, node])
        highest, total = 0.0, 0.0
        if plain:
            for node in range(Q):
                joint[node] = weights[node] / product[node]
                total += joint[node]
        else:
            highest = -np.inf
            for node in range(Q):
                joint[node] -= log(product[node])
                highest = max(highest, joint[node])
            for node in range(Q):
                joint[node] = exp(joint[node] - highest)
                total += joint[node]
        value[p] = highest + log(total)
        u[:] = 0.0
        for i in range(m):
            scale = beta * y[p, i] * weight[p, i]
            first, second = 0.0, 0.0
            for node in range(Q):
                first += joint[node] * r[i, node]
                second += joint[node] * r[i, node] * (1.0 - r[i, node])
            slope[p, i] = scale * first / total
            curvature = beta * beta * weight[p, i] * second / total
            precision[p, i] = curvature
            for j in range(q):
                for k in range(q):
                    bend[p, j, k] -= 0.5 * E[p, i, j] * E[p, i, k] * curvature
                for node in range(Q):
                    u[j, node] += E[p, i, j] * scale * r[i, node]
        for j in range(q):
            for k in range(j + 1):
                cross = 0.0
                for node in range(Q):
                    cross += joint[node] * u[j, node] * u[k, node]
                bend[p, j, k] += 0.5 * cross / total
                if j != k:
                    bend[p, k, j] += 0.5 * cross / total
    return value, slope, bend, precision


@compiled
def outer_sums(X: Array, Y: Array, out: Array, begin: int) -> None:
    """Write ``Σ_j svec(sym(X_j Y_jᵀ))`` into out (P, n) from column `begin` on."""
    P, q, d = X.shape
    half_root = sqrt(0.5)
    for p in range(P):
        out[p, begin : begin + d * (d + 1) // 2] = 0.0
        for j in range(q):
            place = begin
            for i in range(d):
                out[p, place] += X[p, j, i] * Y[p, j, i]
                x, y = half_root * X[p, j, i], half_root * Y[p, j, i]
                for k in range(1, d - i):
                    out[p, place + k] += x * Y[p, j, i + k] + y * X[p, j, i + k]
                place += d - i


@compiled
def offsets(E: Array, total: Array, tilt: Array, shift: Array, out: Array) -> None:
    """Write ``Σ_j E_ij (⟨tilt_j, s_i⟩ + shift_j)`` into out (P, m)."""
    P, m, q = E.shape
    for p in range(P):
        for i in range(m):
            value = 0.0
            for j in range(q):
                along = shift[p, j]
                for k in range(total.shape[2]):
                    along += total[p, i, k] * tilt[p, j, k]
                value += E[p, i, j] * along
            out[p, i] = value


@compiled
def beside(E: Array, slope: Array, total: Array, out: Array) -> None:
    """Write ``T_j = Σ_i slope_i E_ij s_i`` into out (P, q, d)."""
    P, m, q = E.shape
    out[:] = 0.0
    for p in range(P):
        for i in range(m):
            for j in range(q):
                pull = slope[p, i] * E[p, i, j]
                if pull != 0.0:
                    for k in range(total.shape[2]):
                        out[p, j, k] += pull * total[p, i, k]


@compiled
def roots(S: Array, C: Array) -> None:
    """Write lower triangular C with ``C Cᵀ = S`` (P, q, q); a pivot below rounding gives a column of zeros."""
    P, q, _ = S.shape
    for p in range(P):
        for j in range(q):
            pivot = S[p, j, j]
            for k in range(j):
                pivot -= C[p, j, k] * C[p, j, k]
            scale = 1.0 / sqrt(pivot) if pivot > 1e-14 * abs(S[p, j, j]) + 1e-300 else 0.0
            for i in range(j):
                C[p, i, j] = 0.0
            for i in range(j, q):
                value = S[p, i, j]
                for k in range(j):
                    value -= C[p, i, k] * C[p, j, k]
                C[p, i, j] = scale * value


@compiled
def feature_derivatives(E: Array, B: Array, total: Array, J: Array) -> None:
    """Write ``svec(½(δ sᵀ + s δᵀ)), δ`` into J (P, m, p + d), with ``δ = E B``."""
    P, m, q = E.shape
    d, root_half = B.shape[2], sqrt(0.5)
    delta = np.empty(d)
    for p in range(P):
        for i in range(m):
            delta[:] = 0.0
            for j in range(q):
                if E[p, i, j] != 0.0:
                    for k in range(d):
                        delta[k] += E[p, i, j] * B[p, j, k]
            place = 0
            for k in range(d):
                J[p, i, place] = delta[k] * total[p, i, k]
                one, other = root_half * delta[k], root_half * total[p, i, k]
                for l in range(1, d - k):  # noqa: E741
                    J[p, i, place + l] = one * total[p, i, k + l] + other * delta[k + l]
                place += d - k
            J[p, i, place:] = delta


@compiled
def add_item_terms(
    shown: Array, J: Array, precision: Array, across: Array, less: Array, own: Array, mixed: Array
) -> None:
    """Add what answers say of the utilities of their items, whose derivatives D are −1 (left) and +1 (right).

    ``own += Dᵀ R D`` (N, N) and ``mixed += Dᵀ R J`` (N, n) with ``R = diag(τ) − acrossᵀ across``; `less` (P, q, n) is
    ``across J``. Only the items that a person was shown are looked at.
    """
    P, m, n = J.shape
    q, N = across.shape[1], own.shape[0]
    of_items, theirs, met = np.zeros((N, q)), np.empty(N, dtype=np.int64), np.zeros(N, dtype=np.bool_)
    for p in range(P):
        count = 0
        for i in range(m):
            for side in range(2):
                item = shown[p, i, side]
                if not met[item]:
                    met[item] = True
                    theirs[count] = item
                    count += 1
            left, right, tau = shown[p, i, 0], shown[p, i, 1], precision[p, i]
            own[left, left] += tau
            own[right, right] += tau
            own[left, right] -= tau
            own[right, left] -= tau
            for k in range(n):
                mixed[left, k] -= tau * J[p, i, k]
                mixed[right, k] += tau * J[p, i, k]
            for j in range(q):
                of_items[left, j] -= across[p, j, i]
                of_items[right, j] += across[p, j, i]
        for one in theirs[:count]:
            for other in theirs[:count]:
                total = 0.0
                for j in range(q):
                    total += of_items[one, j] * of_items[other, j]
                own[one, other] -= total
            for j in range(q):
                for k in range(n):
                    mixed[one, k] -= of_items[one, j] * less[p, j, k]
        for one in theirs[:count]:
            met[one] = False
            of_items[one] = 0.0


@compiled_sums
def logistic_means(psi: Array, spread: Array, beta: float, reach: float, fineness: float, most: int) -> Array:
    """Return ``E[σ(βψ)]`` (T,) over Gaussian ψ: over the noise if ψ is much wider, else on an equally spaced grid.

    The grid is as fine as each spread asks for.
    """
    out = np.empty(psi.size)
    nodes = 2 * most + 1
    weights, room = np.empty(most + 1), np.empty(nodes + LANES)
    filled, weight = 0, 1.0  # the grid whose weights are stored, and their sum
    for t in range(psi.size):
        width = beta * spread[t]
        if is_wide(beta * psi[t], width, 1.0):
            out[t] = exp(wide_tilted(psi[t], spread[t], beta, 1.0)[0])
            continue
        half = max(FEWEST_HALF, min(int(reach * width / fineness), most))
        if half != filled:
            weight = 1.0
            for k in range(1, half + 1):
                weights[k] = exp(-0.5 * (k * reach / half) ** 2)
                weight += 2.0 * weights[k]
            filled, weights[0] = half, 1.0
        z0, step, total = beta * psi[t], width * reach / half, 0.0
        if abs(z0) + width * reach < LARGEST_EXPONENT:
            nodes = 2 * half + 1
            geometric(room, nodes + -nodes % LANES, exp(-z0 - width * reach), exp(step))
            for k in range(half + 1):
                total += weights[k] / (1.0 + room[half + k])
            for k in range(1, half + 1):
                total += weights[k] / (1.0 + room[half - k])
        else:
            for k in range(-half, half + 1):
                z = z0 + k * step
                small = exp(-abs(z))
                total += weights[abs(k)] * (1.0 if z >= 0.0 else small) / (1.0 + small)
        out[t] = min(total / weight, 1.0)  # rounding must not make a probability of more than one
    return out
