"""Compiled twins of the two sweeps over people in `bounded.py`, for small ranks.

Inside a subspace of rank one to three a person's system is a handful of numbers, and NumPy spends its time on
temporaries. These loops do the same arithmetic person by person; `tests/test_bounded.py` checks that both agree. Larger ranks stay
with NumPy, whose matrix products win there. This is the one file that imports Numba.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

__all__ = ["eliminate", "psi", "reduce", "systems"]


@numba.njit(cache=True)
def psi(delta: Any, total: Any, A: Any, problem: Any, w: Any) -> Any:
    """Return ``δᵀ(A s + w)`` (P, m) with A (n, r, r) the metric of each person's problem."""
    P, m, r = delta.shape
    out = np.empty((P, m))
    for k in range(P):
        Q = A[problem[k]]
        for i in range(m):
            value = 0.0
            for a in range(r):
                inner = w[k, a]
                for b in range(r):
                    inner += Q[a, b] * total[k, i, b]
                value += delta[k, i, a] * inner
            out[k, i] = value
    return out


@numba.njit(cache=True)
def _invert(H: Any) -> None:
    """Invert a symmetric positive definite matrix in place by Gauss–Jordan sweeps."""
    r = H.shape[0]
    for k in range(r):
        pivot = 1.0 / H[k, k]
        for i in range(r):
            if i != k:
                factor = H[i, k] * pivot
                for j in range(r):
                    if j != k:
                        H[i, j] -= factor * H[k, j]
                H[i, k] = -factor
        for j in range(r):
            if j != k:
                H[k, j] *= pivot
        H[k, k] = pivot


@numba.njit(cache=True)
def systems(delta: Any, g: Any, h: Any, tangent: Any, kappa: Any, v1: Any, barrier: Any) -> Any:
    """Return ``H⁻¹`` (P, r, r), right sides and pulls (P, r); see `bounded.BoundedBlock.linearise`."""
    P, m, r = delta.shape
    inverse, rhs, pull = np.empty((P, r, r)), np.empty((P, r)), np.zeros((P, r))
    for k in range(P):
        H = inverse[k]
        for a in range(r):
            rhs[k, a] = -barrier[k, a]
            for b in range(r):
                H[a, b] = 2.0 * kappa[k] * v1[k, a] * v1[k, b]
            H[a, a] += kappa[k]
        for i in range(m):
            for a in range(r):
                d = delta[k, i, a]
                rhs[k, a] -= g[k, i] * d
                pull[k, a] += tangent[k, i] * d
                for b in range(r):
                    H[a, b] += h[k, i] * d * delta[k, i, b]
        _invert(H)
    return inverse, rhs, pull


@numba.njit(cache=True)
def eliminate(
    delta: Any, total: Any, g: Any, h: Any, tangent: Any, inverse: Any, rhs: Any, problem: Any,
    schur: Any, gradient: Any, reduced: Any,
) -> None:  # fmt: skip
    """Add every person's Schur complement to ``schur (n, p, p)``, ``gradient`` and ``reduced (n, p)``."""
    P, m, r = delta.shape
    p = r * (r + 1) // 2
    half_root2 = 0.5 * np.sqrt(2.0)
    Delta, C, X = np.empty(p), np.empty((r, p)), np.empty((r, p))
    S, G, R = np.zeros((p, p)), np.zeros(p), np.zeros(p)
    for k in range(P):
        C[:] = 0.0
        for i in range(m):
            at = 0
            for a in range(r):
                d, s = delta[k, i, a], total[k, i, a]
                Delta[at] = d * s
                at += 1
                for b in range(a + 1, r):
                    Delta[at] = half_root2 * (d * total[k, i, b] + s * delta[k, i, b])
                    at += 1
            curvature = h[k, i]
            for a in range(r):
                for c in range(p):
                    C[a, c] += curvature * delta[k, i, a] * Delta[c]
            for c in range(p):
                G[c] += tangent[k, i] * Delta[c]
                R[c] -= g[k, i] * Delta[c]
                for e in range(p):
                    S[c, e] += curvature * Delta[c] * Delta[e]
        for a in range(r):
            for c in range(p):
                X[a, c] = 0.0
                for b in range(r):
                    X[a, c] += inverse[k, a, b] * C[b, c]
        for a in range(r):
            for c in range(p):
                R[c] -= rhs[k, a] * X[a, c]
                for e in range(p):
                    S[c, e] -= C[a, c] * X[a, e]
        if k + 1 == P or problem[k + 1] != problem[k]:  # the last person of a problem
            j = problem[k]
            schur[j] += S
            gradient[j] += G
            reduced[j] += R
            S[:], G[:], R[:] = 0.0, 0.0, 0.0


@numba.njit(cache=True)
def reduce(delta: Any, total: Any, h: Any, rhs: Any, dA: Any, problem: Any) -> Any:
    """Return ``⟨Δ, dA⟩`` (P, m) and people's right sides (P, r) after the metric steps dA (n, r, r)."""
    P, m, r = delta.shape
    along, left = np.empty((P, m)), rhs.copy()
    for k in range(P):
        D = dA[problem[k]]
        for i in range(m):
            value = 0.0
            for a in range(r):
                inner = 0.0
                for b in range(r):
                    inner += D[a, b] * total[k, i, b]
                value += delta[k, i, a] * inner
            along[k, i] = value
            for a in range(r):
                left[k, a] -= h[k, i] * delta[k, i, a] * value
    return along, left
