"""The compiled twin of `propagation`, for logistic answers.

Each person until they have settled, instead of all until the last has. `tests/test_integrals.py` checks that both end
at the same point. The formulas are explained where the NumPy code is.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.users.compiled import compiled
from crowdmetric.users.line_kernels import grid_for, is_far, tilted

__all__ = ["logistic_by_propagation"]

Array = NDArray[Any]

# As in `propagation`.
FRESH, LOSS, SMALLEST_SHARE, NEARLY_SETTLED = 8, 1e4, 1e-13, 1e-5
USUAL_FALL = 30.0
# In the first CHOOSING sweeps, while cavities shrink, each cavity gets a new grid. Later a grid is only replaced by a
# longer one, so sweeps can converge.
CHOOSING = 3


@compiled
def _root(H: Array, precision: Array, root: Array) -> None:
    """Write the Cholesky factor of ``I + Hᵀ diag(τ) H``."""
    m, q = H.shape
    for j in range(q):
        for k in range(j):
            root[j, k] = 0.0
        root[j, j] = 1.0
    for i in range(m):
        for j in range(q):
            known = precision[i] * H[i, j]
            for k in range(j + 1):
                root[j, k] += known * H[i, k]
    for j in range(q):
        for k in range(j + 1):
            total = root[j, k]
            for l in range(k):  # noqa: E741
                total -= root[j, l] * root[k, l]
            root[j, k] = sqrt(total) if j == k else total / root[k, k]


@compiled
def _center(
    a: Array, H: Array, precision: Array, pull: Array, anchor: Array, root: Array, center: Array, room: Array
) -> None:
    """Move a person's mean (q,) to where ``center = Hᵀb``, given `root`: one step of a linear system.

    From where it is, so rounding is relative to what is left to go, however large offsets are.
    """
    m, q = H.shape
    for j in range(q):
        room[j] = -center[j]
    for i in range(m):
        psi = a[i]
        for j in range(q):
            psi += H[i, j] * center[j]
        b = pull[i] - precision[i] * (psi - anchor[i])
        for j in range(q):
            room[j] += H[i, j] * b
    for j in range(q):
        for k in range(j):
            room[j] -= root[j, k] * room[k]
        room[j] /= root[j, j]
    for j in range(q - 1, -1, -1):
        for k in range(j + 1, q):
            room[j] -= root[k, j] * room[k]
        room[j] /= root[j, j]
        center[j] += room[j]


@compiled
def _inverse(root: Array, V: Array) -> None:
    """Write ``V = (I + Hᵀ diag(τ) H)⁻¹``, given `root`."""
    q = root.shape[0]
    for c in range(q):
        for j in range(q):
            total = 1.0 if j == c else 0.0
            for k in range(j):
                total -= root[j, k] * V[k, c]
            V[j, c] = total / root[j, j]
        for j in range(q - 1, -1, -1):
            total = V[j, c]
            for k in range(j + 1, q):
                total -= root[k, j] * V[k, c]
            V[j, c] = total / root[j, j]


@compiled
def _bend(E: Array, b: Array, precision: Array, half: Array, inner: Array, pulled: Array, bend: Array) -> None:
    """Write ``½Eᵀ(b bᵀ − diag(τ) + diag(τ) H V Hᵀ diag(τ))E``; ``half[i]`` is the inverse of the root times H_i."""
    m, q = E.shape
    pulled[:] = 0.0
    inner[:] = 0.0
    bend[:] = 0.0
    for i in range(m):
        for j in range(q):
            pulled[j] += b[i] * E[i, j]
            known = precision[i] * E[i, j]
            for k in range(q):
                inner[j, k] += known * half[i, k]
            for k in range(j + 1):
                bend[j, k] -= known * E[i, k]
    for j in range(q):
        for k in range(j + 1):
            total = bend[j, k] + pulled[j] * pulled[k]
            for l in range(q):  # noqa: E741
                total += inner[j, l] * inner[k, l]
            bend[j, k] = 0.5 * total
            bend[k, j] = bend[j, k]


@compiled
def logistic_by_propagation(
    a: Array,
    E: Array,
    H: Array,
    y: Array,
    weight: Array,
    beta: float,
    level: Array,
    sizes: Array,
    weights: Array,
    fineness: float,
    damping: float,
    tolerance: float,
    rounds: int,
) -> tuple[Array, Array, Array, Array, Array]:
    """Return value (P,), slope (P, m), bend (P, q, q), precision (P, m), and whether each person has settled (P,).

    An answer's cavity is integrated on a grid of ``sizes[number]`` nodes with these `weights`, or over the noise if
    that size is zero. `level` (P, m) is the number of the grid that is fine enough for the law. A shorter grid is used
    if it is fine enough for the cavity, which other answers have made narrower.
    """
    P, m, q = H.shape
    value, slope, bend = np.zeros(P), np.zeros((P, m)), np.zeros((P, q, q))
    precisions, settled = np.zeros((P, m)), np.zeros(P, dtype=np.bool_)
    pull, anchor = np.empty(m), np.empty(m)
    root, half, V = np.zeros((q, q)), np.empty((m, q)), np.empty((q, q))
    pulled, inner, room = np.empty(q), np.empty((q, q)), np.empty(weights.shape[1])
    center, reach, far = np.empty(q), np.empty(q), np.empty(m, dtype=np.bool_)
    grid = np.empty(m, dtype=np.int64)
    kept = weights.shape[0] - 1  # the last grid with stored weights
    for p in range(P):
        precision = precisions[p]
        for i in range(m):  # a copy of an array would compile Numba's error messages too, which takes seconds
            pull[i], anchor[i] = 0.0, a[p, i]
        center[:] = 0.0
        grid[:] = 0
        far[:] = False  # far answers stay far: switching grids would exceed the tolerance
        V[:] = 0.0
        for j in range(q):
            V[j, j] = 1.0
        before, lost = np.inf, False
        for turn in range(rounds):
            if lost or (turn > 0 and turn % FRESH == 0):
                _root(H[p], precision, root)
                _inverse(root, V)
                _center(a[p], H[p], precision, pull, anchor, root, center, reach)
            largest, lost = 0.0, False
            for i in range(m):
                if weight[p, i] == 0.0:
                    continue
                psi, spread = a[p, i], 0.0
                for j in range(q):
                    along = 0.0
                    for k in range(q):
                        along += V[j, k] * H[p, i, k]
                    reach[j] = along
                    psi += H[p, i, j] * center[j]
                    spread += along * H[p, i, j]
                if spread <= 0.0:
                    continue
                b = pull[i] - precision[i] * (psi - anchor[i])
                # the others' factors alone; a variance that rounding made negative would poison the sweep
                cavity = spread / max(1.0 - precision[i] * spread, SMALLEST_SHARE)
                own = grid_for(beta * sqrt(cavity), fineness, sizes, level[p, i])
                grid[i] = own if turn < CHOOSING else max(own, grid[i])
                n, prior = sizes[grid[i]], weights[min(grid[i], kept)]
                far[i] = far[i] or is_far(psi - cavity * b, cavity, beta * y[p, i], weight[p, i])
                if far[i] and n > 0:
                    n = -1
                _, first, second = tilted(psi - cavity * b, cavity, beta * y[p, i], weight[p, i], n, prior, room)
                strength = max(-second, 0.0)
                new = strength / max(1.0 - strength * cavity, SMALLEST_SHARE)
                stronger = damping * (new - precision[i])
                further = damping * (first - b) * (1.0 + new * cavity)
                largest = max(largest, abs(further) * sqrt(spread))
                # the person with the new factor, by Sherman and Morrison
                growth = 1.0 + stronger * spread
                lost = lost or growth > LOSS or growth < 1.0 / LOSS
                precision[i] += stronger
                step = further / growth
                anchor[i] = psi + spread * step
                pull[i] = b + further - precision[i] * spread * step
                for j in range(q):
                    shrunk = stronger / growth * reach[j]
                    for k in range(q):
                        V[j, k] -= shrunk * reach[k]
                    center[j] += reach[j] * step
            # the changes still to come, if sweeps go on shrinking at this rate
            earlier = min(before, USUAL_FALL * largest)
            if largest < tolerance or largest * largest < tolerance * (earlier - largest):
                settled[p] = True
                break
            before = largest
        settled[p] = settled[p] or before < NEARLY_SETTLED
        _root(H[p], precision, root)
        _center(a[p], H[p], precision, pull, anchor, root, center, reach)
        total = 0.0
        for j in range(q):
            total -= 0.5 * center[j] * center[j] + log(root[j, j])
        for i in range(m):
            psi, variance = a[p, i], 0.0
            for j in range(q):
                psi += H[p, i, j] * center[j]
                inside = H[p, i, j]
                for k in range(j):
                    inside -= root[j, k] * half[i, k]
                half[i, j] = inside / root[j, j]
                variance += half[i, j] * half[i, j]
            if weight[p, i] == 0.0:
                continue
            b = pull[i] - precision[i] * (psi - anchor[i])
            n, prior = sizes[grid[i]], weights[min(grid[i], kept)]
            if far[i] and n > 0:
                n = -1
            keep = max(1.0 - precision[i] * variance, SMALLEST_SHARE)
            cavity = variance / keep
            exact, first, second = tilted(psi - cavity * b, cavity, beta * y[p, i], weight[p, i], n, prior, room)
            if variance <= 0.0:  # ψ is known: its factor was never needed
                b, precision[i] = first, max(-second, 0.0)
            total += exact + 0.5 * cavity * b * b - 0.5 * log(keep)
            slope[p, i] = b
        value[p] = total
        _bend(E[p], slope[p], precision, half, inner, pulled, bend[p])
    return value, slope, bend, precisions, settled
