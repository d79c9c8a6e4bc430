"""A compiled twin of `bounded.BoundedBlock` for small ranks, under the logistic and the hinge loss.

Inside a subspace of rank one to three a person's Newton system is a handful of numbers, and NumPy spends its
time on temporaries. `CompiledBlock` does the same arithmetic person by person in a few sweeps, several times
faster. The formulas are those of `bounded.py`, `ball.py` and `answer_terms.py`, where they are explained;
`tests/test_barrier.py` checks that both agree at every step.

Two things save time beyond that. Sweeps visit only the people in `focus`, and what the accepted trial of a line
search has computed (exponentials, logarithms) is kept for the linearization at the point it leads to.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.losses import Logistic, Loss
from crowdmetric.users.blocks import Block
from crowdmetric.users.bounded import SHARE, BarrierSums, own_axes, turned, turned_back
from crowdmetric.users.compiled import compiled

__all__ = ["CompiledBlock"]

Array = NDArray[Any]

# A product is turned into its logarithm long before it could overflow or underflow: factors are up to 2 (logistic),
# and beyond 1e±100 (a product of two slacks) they would not be numbers that a fit can go on with.
LONGEST_RUN, SHORTEST_RUN = 1e200, 1e-200


class CompiledBlock:
    """The people of one block; same interface as `bounded.BoundedBlock`."""

    def __init__(
        self,
        block: Block,
        loss: Loss,
        radius: Array,
        mu: Array,
        w: Array | None = None,
        *,
        offset: Array | None = None,
    ) -> None:
        P, m, r = block.delta.shape
        self.block, self.radius, self.offset = block, radius, offset
        self.own, self.turn = own_axes(block.delta) if offset is None else (block.delta, None)
        # The length of a tuple is known to the compiler, which then unrolls every loop over the rank.
        self.axes = tuple(range(r))
        self.smooth = loss.is_smooth
        self.beta = loss.beta if isinstance(loss, Logistic) else 1.0
        self.w = np.zeros((P, r)) if w is None else turned(w, self.turn).copy()
        self.z = _central(self.w, radius, mu)
        rows = (P, m) if not self.smooth else (0, 0)
        self.xi, self.t, self.a, self.dxi, self.dt, self.da = (np.zeros(rows) for _ in range(6))
        self.a[:] = -1.0  # not started: the first linearization puts the slacks on the central path
        self.at, self.g, self.h, self.along = (np.zeros((P, m)) for _ in range(4))
        self.who = np.arange(P)
        # of the last trial: e^−|margin|, merit = linear − μ logs, and the step it was tried at
        self.e = np.zeros((P, m) if self.smooth else (0, 0))
        self.linear, self.logs, self.tried = np.zeros(P), np.zeros(P), np.full(P, np.nan)
        self.known = np.zeros(P, dtype=np.bool_)  # whether that trial is the current point
        self.tangent = self.g if self.smooth else np.zeros((P, m))  # a smooth loss has one slope
        self.scaling = np.empty((P, r + 3))  # κ, det s, v₀, v₁
        self.inverse, self.rhs = np.empty((P, r, r)), np.empty((P, r))
        self.dw, self.dz = np.empty((P, r)), np.empty((P, r + 1))
        self.longest, self.longest_dual = np.empty(P), np.empty(P)

    @property
    def points(self) -> Array:
        """The pseudo-ideal points, (P, r)."""
        return turned_back(self.w, self.turn)

    def focus(self, people: Array) -> None:
        """Visit only these people (a mask) from now on; of the others nothing is computed, and zeros are returned."""
        self.who = np.flatnonzero(people)

    def psi(self, A: Array | None = None) -> Array:
        """Return ψ (P, m) under the metrics A (n, r, r), or under the known one."""
        out = np.zeros_like(self.at)
        self._write_psi(A, out)
        return out

    def _write_psi(self, A: Array | None, out: Array) -> None:
        b, offset = self.block, self._offset(A)
        _psi(self.axes, self.who, b.delta, b.total, self.own, self._or_zeros(A), b.problem, offset, self.w, out)

    def _or_zeros(self, A: Array | None) -> Array:
        """Return A, or zeros in its place."""
        r = self.w.shape[1]
        return np.zeros((int(self.block.problem[-1]) + 1, r, r)) if A is None else A

    def _offset(self, A: Array | None) -> Array:
        """Return ``⟨Δ, M⟩`` of the known metric, or nothing where A is given."""
        return np.zeros((0, 0)) if A is not None or self.offset is None else self.offset

    def linearize(self, A: Array | None, mu: Array) -> tuple[Array, Array]:
        """Return merit and gap (P,); see `bounded.BoundedBlock.linearize`.

        After `advance`, A must be the metrics that this step has led to.
        """
        b = self.block
        self.mu = mu
        self._write_psi(A, self.at)
        return _linearize(
            self.axes, self.who, self.own, b.response, b.weight, self.at, self.w, self.radius, self.z, mu, self.smooth,
            self.beta, self.xi, self.t, self.a, self.g, self.h, self.tangent, self.scaling, self.inverse, self.rhs,
            self.e, self.linear, self.logs, self.known,
        )  # fmt: skip

    def eliminate(self, sums: BarrierSums) -> None:
        """Add Schur complements to `sums`."""
        b = self.block
        _eliminate(
            self.axes, self.who, b.delta, b.total, self.own, self.g, self.h, self.tangent, self.inverse, self.rhs,
            b.problem, sums.schur, sums.gradient, sums.reduced,
        )  # fmt: skip

    def direction(self, dA: Array | None) -> tuple[Array, Array]:
        """Return slope and longest step (P,)."""
        b, dA = self.block, self._or_zeros(dA)
        slope = _direction(
            self.axes, self.who, b.delta, b.total, self.own, b.response, b.weight, b.problem, dA, self.w, self.radius,
            self.z, self.mu, self.smooth, self.xi, self.t, self.a, self.g, self.h, self.scaling,
            self.inverse, self.rhs, self.along, self.dw, self.dz, self.dxi, self.dt, self.da, self.longest,
            self.longest_dual,
        )  # fmt: skip
        return slope, self.longest

    def merit(self, alpha: Array, among: Array | None = None) -> Array:
        """Return the merit (P,) after a step alpha (P,) of the metric, of everybody in focus or `among` them."""
        b = self.block
        who = self.who if among is None else self.who[among[self.who]]
        return _merit(
            self.axes, who, self.own, b.response, b.weight, self.at, self.along, self.w, self.dw, self.radius,
            self.scaling, self.mu, self.smooth, self.beta, self.xi, self.t, self.dxi, self.dt, self.longest, alpha,
            self.e, self.linear, self.logs, self.tried,
        )  # fmt: skip

    def advance(self, alpha: Array) -> None:
        """Take the step."""
        _advance(
            self.axes, self.who, self.w, self.dw, self.z, self.dz, self.radius, self.scaling, self.mu, self.smooth,
            self.xi, self.dxi, self.t, self.dt, self.a, self.da, self.longest, self.longest_dual, alpha,
            self.tried, self.known,
        )  # fmt: skip


def _central(w: Array, radius: Array, mu: Array) -> Array:
    """Return multipliers (P, r + 1) on the central path."""
    size = np.linalg.norm(w, axis=1)
    scale = mu / ((radius - size) * (radius + size))
    return np.column_stack([scale * radius, -scale[:, None] * w])


@compiled
def _determinant(axes: Any, s0: Any, s1: Any) -> Any:
    size = 0.0
    for a in range(len(axes)):
        size += s1[a] * s1[a]
    size = sqrt(size)
    return (s0 - size) * (s0 + size)


@compiled
def _psi(
    axes: Any, who: Any, delta: Any, total: Any, own: Any, A: Any, problem: Any, offset: Any, w: Any, out: Any
) -> None:
    m, r = delta.shape[1], len(axes)
    metric_is_known = offset.shape[0] > 0
    for k in who:
        Q = A[problem[k]]
        for i in range(m):
            value = offset[k, i] if metric_is_known else 0.0
            for a in range(r):
                inner = 0.0
                if not metric_is_known:
                    for b in range(r):
                        inner += Q[a, b] * total[k, i, b]
                value += delta[k, i, a] * inner + own[k, i, a] * w[k, a]
            out[k, i] = value


@compiled
def _invert(axes: Any, H: Any) -> None:
    """Invert a symmetric positive definite matrix in place by Gauss–Jordan sweeps."""
    r = len(axes)
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


@compiled
def _center(c: Any, z: Any, mu: Any) -> Any:
    """Return ξ and t of one hinge answer on the central path (`terms.SlackTerms`)."""
    q = 1.0 - z
    B = c * q - 2.0 * mu
    root = sqrt(4.0 * mu * mu + (c * q) ** 2)
    t = 2.0 * mu * q / (B + root) if B > 0 else (root - B) / (2.0 * c)
    return t + q, t


@compiled
def _logistic(c: Any, y: Any, psi: Any, beta: Any, e: Any) -> Any:
    """Return a person's ``Σ c log(1 + e^−margin)`` for e = e^−|margin|; a run of equal weights takes one logarithm."""
    value, run, run_weight = 0.0, 1.0, 0.0
    for i in range(c.shape[0]):
        weight = c[i]
        if weight <= 0.0:
            continue
        if weight != run_weight or run > LONGEST_RUN:
            value += run_weight * log(run)
            run, run_weight = 1.0, weight
        run *= 1.0 + e[i]
        value += weight * max(-beta * y[i] * psi[i], 0.0)
    return value + run_weight * log(run)


@compiled
def _slack(c: Any, xi: Any, t: Any, dxi: Any, dt: Any, step: Any) -> Any:
    """Return a person's ``Σ c ξ`` and ``Σ log(ξ t)`` after a step; the second is not a number outside the barrier."""
    linear, logs, run = 0.0, 0.0, 1.0
    for i in range(c.shape[0]):
        if c[i] <= 0.0:
            continue
        slack, away = xi[i] + step * dxi[i], t[i] + step * dt[i]
        if not (slack > 0.0 and away > 0.0):
            return linear, np.nan
        linear += c[i] * slack
        run *= slack * away
        if not SHORTEST_RUN < run < LONGEST_RUN:
            logs += log(run)
            run = 1.0
    return linear, logs + log(run)


@compiled
def _linearize(
    axes: Any, who: Any, own: Any, y: Any, c: Any, at: Any, w: Any, radius: Any, z: Any, mu: Any, smooth: Any,
    beta: Any, xi: Any, t: Any, a: Any, g: Any, h: Any, tangent: Any, scaling: Any, inverse: Any, rhs: Any,
    kept: Any, linear: Any, logs: Any, known: Any,
) -> Any:  # fmt: skip
    P, m, r = own.shape[0], own.shape[1], len(axes)
    merit, gap, pull = np.zeros(P), np.zeros(P), np.empty(r)
    for k in who:
        # Nesterov–Todd scaling of the ball
        det = _determinant(axes, radius[k], w[k])
        root_s, root_z = sqrt(det), sqrt(_determinant(axes, z[k, 0], z[k, 1:]))
        product = radius[k] * z[k, 0]
        for i in range(r):
            product += w[k, i] * z[k, i + 1]
        gamma = sqrt(0.5 * (1.0 + product / (root_s * root_z)))
        kappa = root_z / root_s
        scaling[k, 0], scaling[k, 1] = kappa, det
        scaling[k, 2] = (radius[k] / root_s + z[k, 0] / root_z) / (2.0 * gamma)
        H = inverse[k]
        for i in range(r):
            scaling[k, i + 3] = (w[k, i] / root_s - z[k, i + 1] / root_z) / (2.0 * gamma)
            rhs[k, i] = -mu[k] / det * w[k, i]
            pull[i] = 0.0
        for i in range(r):
            for j in range(r):
                H[i, j] = 2.0 * kappa * scaling[k, i + 3] * scaling[k, j + 3]
            H[i, i] += kappa
        is_new, total_gap = not known[k], 0.0
        for i in range(m):
            weight, answer = c[k, i], y[k, i]
            if weight <= 0.0:
                g[k, i] = h[k, i] = tangent[k, i] = 0.0
                continue
            if smooth:
                margin = beta * answer * at[k, i]
                if is_new:
                    kept[k, i] = exp(-abs(margin))
                e = kept[k, i]
                share = 1.0 / (1.0 + e)
                slope = -weight * beta * answer * (e * share if margin >= 0 else share)
                curvature = weight * beta * beta * e * share * share
                tilt = slope
            else:
                margin = answer * at[k, i]
                if a[k, i] < 0.0:
                    xi[k, i], t[k, i] = _center(weight, margin, mu[k])
                    a[k, i] = mu[k] / t[k, i]
                # divisions are the most expensive operation here: each reciprocal is computed once
                by_t, by_xi = 1.0 / t[k, i], 1.0 / xi[k, i]
                k_t, k_xi = a[k, i] * by_t, (weight - a[k, i]) * by_xi
                share = k_t / (k_t + k_xi)
                slope = answer * (-mu[k] * by_t + share * (mu[k] * (by_t + by_xi) - weight))
                curvature = share * k_xi
                tilt = -answer * a[k, i]
                total_gap += weight * max(1.0 - margin, 0.0) - a[k, i] * (1.0 - margin)
            g[k, i], h[k, i], tangent[k, i] = slope, curvature, tilt
            for p in range(r):
                d = own[k, i, p]
                rhs[k, p] -= slope * d
                pull[p] += tilt * d
                for q in range(r):
                    H[p, q] += curvature * d * own[k, i, q]
        if is_new:
            if smooth:
                linear[k] = _logistic(c[k], y[k], at[k], beta, kept[k])
                logs[k] = 0.5 * log(det)
            else:
                linear[k], logs[k] = _slack(c[k], xi[k], t[k], xi[k], t[k], 0.0)
                logs[k] += 0.5 * log(det)
        _invert(axes, H)
        length = 0.0
        for i in range(r):
            total_gap += pull[i] * w[k, i]
            length += pull[i] * pull[i]
        merit[k], gap[k] = linear[k] - mu[k] * logs[k], total_gap + radius[k] * sqrt(length)
    return merit, gap


@compiled
def _eliminate(
    axes: Any, who: Any, delta: Any, total: Any, own: Any, g: Any, h: Any, tangent: Any, inverse: Any, rhs: Any,
    problem: Any, schur: Any, gradient: Any, reduced: Any,
) -> None:  # fmt: skip
    m, r = delta.shape[1], len(axes)
    p = r * (r + 1) // 2
    half_root2 = 0.5 * sqrt(2.0)
    Delta, C, X = np.empty(p), np.empty((r, p)), np.empty((r, p))
    S, G, R = np.zeros((p, p)), np.zeros(p), np.zeros(p)
    for number, k in enumerate(who):
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
            for c in range(p):
                G[c] += tangent[k, i] * Delta[c]
                R[c] -= g[k, i] * Delta[c]
                scaled = curvature * Delta[c]
                for a in range(r):
                    C[a, c] += scaled * own[k, i, a]
                for e in range(c + 1):
                    S[c, e] += scaled * Delta[e]
        for a in range(r):
            for c in range(p):
                X[a, c] = 0.0
                for b in range(r):
                    X[a, c] += inverse[k, a, b] * C[b, c]
        for a in range(r):
            for c in range(p):
                R[c] -= rhs[k, a] * X[a, c]
                for e in range(c + 1):
                    S[c, e] -= C[a, c] * X[a, e]
        if number + 1 == who.size or problem[who[number + 1]] != problem[k]:  # the last person of a problem
            j = problem[k]
            for c in range(p):
                gradient[j, c] += G[c]
                reduced[j, c] += R[c]
                for e in range(c + 1):
                    schur[j, c, e] += S[c, e]
                    if e != c:
                        schur[j, e, c] += S[c, e]
            S[:], G[:], R[:] = 0.0, 0.0, 0.0


@compiled
def _to_boundary(axes: Any, s0: Any, s1: Any, d0: Any, d1: Any) -> Any:
    """Return the smallest positive step that leaves the second-order cone (`ball._to_boundary`)."""
    det = _determinant(axes, s0, s1)
    a, b = d0 * d0, s0 * d0
    for i in range(len(axes)):
        a -= d1[i] * d1[i]
        b -= s1[i] * d1[i]
    root = sqrt(max(b * b - a * det, 0.0))
    if b < 0 and root > 0:
        return det / (root - b)
    return (b + root) / -a if a < 0 else np.inf


@compiled
def _direction(
    axes: Any, who: Any, delta: Any, total: Any, own: Any, y: Any, c: Any, problem: Any, dA: Any, w: Any, radius: Any,
    z: Any, mu: Any, smooth: Any, xi: Any, t: Any, a: Any, g: Any, h: Any, scaling: Any, inverse: Any, rhs: Any,
    along: Any, dw: Any, dz: Any, dxi: Any, dt: Any, da: Any, longest: Any, longest_dual: Any,
) -> Any:  # fmt: skip
    P, m, r = delta.shape[0], delta.shape[1], len(axes)
    slope, right = np.zeros(P), np.empty(r)
    for k in who:
        D = dA[problem[k]]
        for p in range(r):
            right[p] = rhs[k, p]
        for i in range(m):
            value = 0.0
            for p in range(r):
                inner = 0.0
                for q in range(r):
                    inner += D[p, q] * total[k, i, q]
                value += delta[k, i, p] * inner
            along[k, i] = value
            for p in range(r):
                right[p] -= h[k, i] * own[k, i, p] * value
        # the ball
        kappa, det, v0 = scaling[k, 0], scaling[k, 1], scaling[k, 2]
        projected, outward = 0.0, 0.0
        for p in range(r):
            step = 0.0
            for q in range(r):
                step += inverse[k, p, q] * right[q]
            dw[k, p] = step
            projected += 2.0 * scaling[k, p + 3] * step
            outward += w[k, p] * step
        dz[k, 0] = mu[k] * radius[k] / det - z[k, 0] + kappa * v0 * projected
        for p in range(r):
            barrier = mu[k] / det * w[k, p]
            dz[k, p + 1] = -barrier - z[k, p + 1] - kappa * (dw[k, p] + scaling[k, p + 3] * projected)
        if smooth:
            primal = det / (2.0 * outward) if outward > 0 else np.inf
        else:
            primal = _to_boundary(axes, radius[k], w[k], 0.0, dw[k])
        dual = _to_boundary(axes, z[k, 0], z[k, 1:], dz[k, 0], dz[k, 1:])
        # answers
        change, fastest, fastest_dual = mu[k] / det * outward, 0.0, 0.0
        for i in range(m):
            weight = c[k, i]
            if weight <= 0.0:
                continue
            dpsi = along[k, i]
            for p in range(r):
                dpsi += own[k, i, p] * dw[k, p]
            if smooth:
                change += g[k, i] * dpsi
                continue
            step = y[k, i] * dpsi
            multiplier = a[k, i]
            by_t, by_xi = 1.0 / t[k, i], 1.0 / xi[k, i]
            k_t, k_xi = multiplier * by_t, (weight - multiplier) * by_xi
            move = (mu[k] * (by_t + by_xi) - weight - k_t * step) / (k_t + k_xi)
            away = move + step
            turn = mu[k] * by_t - multiplier - k_t * away
            dxi[k, i], dt[k, i], da[k, i] = move, away, turn
            change += weight * move - mu[k] * (move * by_xi + away * by_t)
            fastest = max(fastest, -move * by_xi, -away * by_t)
            # a choice without a branch: half of the branches would be mispredicted
            room = multiplier if turn < 0.0 else weight - multiplier
            fastest_dual = max(fastest_dual, abs(turn) / room)
        if fastest > 0.0:
            primal = min(primal, 1.0 / fastest)
        if fastest_dual > 0.0:
            dual = min(dual, 1.0 / fastest_dual)
        slope[k] = change
        longest[k], longest_dual[k] = min(1.0, SHARE * primal), min(1.0, SHARE * dual)
    return slope


@compiled
def _arrive(axes: Any, w: Any, dw: Any, radius: Any, det: Any, step: Any, smooth: Any, out: Any) -> None:
    """Write where a person's step leads (`ball.Balls.arrive`)."""
    r = len(axes)
    outward, size = 0.0, 0.0
    for p in range(r):
        out[p] = w[p] + step * dw[p]
        outward += w[p] * dw[p]
        size += out[p] * out[p]
    if smooth:
        keep = 0.9 * min(det - 2.0 * step * outward, radius * radius)
        if _determinant(axes, radius, out) < keep:
            factor = sqrt((radius * radius - keep) / size)
            for p in range(r):
                out[p] *= factor


@compiled
def _merit(
    axes: Any, who: Any, own: Any, y: Any, c: Any, at: Any, along: Any, w: Any, dw: Any, radius: Any, scaling: Any,
    mu: Any, smooth: Any, beta: Any, xi: Any, t: Any, dxi: Any, dt: Any, longest: Any, alpha: Any, kept: Any,
    linear: Any, logs: Any, tried: Any,
) -> Any:  # fmt: skip
    P, m, r = own.shape[0], own.shape[1], len(axes)
    out, there, psi = np.zeros(P), np.empty(r), np.empty(m)
    for k in who:
        step = min(alpha[k], longest[k])
        _arrive(axes, w[k], dw[k], radius[k], scaling[k, 1], step, smooth, there)
        det = _determinant(axes, radius[k], there)
        if not det > 0:
            out[k], tried[k] = np.inf, np.nan
            continue
        tried[k], logs[k] = alpha[k], 0.5 * log(det)
        if smooth:
            for i in range(m):
                value = at[k, i] + alpha[k] * along[k, i]
                for p in range(r):
                    value += own[k, i, p] * (there[p] - w[k, p])
                psi[i] = value
                kept[k, i] = exp(-abs(beta * y[k, i] * value))
            linear[k] = _logistic(c[k], y[k], psi, beta, kept[k])
        else:
            linear[k], product = _slack(c[k], xi[k], t[k], dxi[k], dt[k], step)
            logs[k] += product
        out[k] = linear[k] - mu[k] * logs[k]
    return out


@compiled
def _advance(
    axes: Any, who: Any, w: Any, dw: Any, z: Any, dz: Any, radius: Any, scaling: Any, mu: Any, smooth: Any,
    xi: Any, dxi: Any, t: Any, dt: Any, a: Any, da: Any, longest: Any, longest_dual: Any, alpha: Any,
    tried: Any, known: Any,
) -> None:  # fmt: skip
    r = len(axes)
    there = np.empty(r)
    for k in who:
        known[k] = tried[k] == alpha[k]
        if alpha[k] <= 0.0:
            continue
        step, dual = min(alpha[k], longest[k]), longest_dual[k]
        _arrive(axes, w[k], dw[k], radius[k], scaling[k, 1], step, smooth, there)
        w[k] = there
        for p in range(r + 1):
            z[k, p] += dual * dz[k, p]
        if not smooth:
            for i in range(xi.shape[1]):
                xi[k, i] += step * dxi[k, i]
                t[k, i] += step * dt[k, i]
                a[k, i] += dual * da[k, i]
        det = _determinant(axes, radius[k], w[k])
        balance = det * _determinant(axes, z[k, 0], z[k, 1:]) / mu[k] ** 2
        if not 1e-8 <= balance <= 1e8:
            z[k, 0] = mu[k] * radius[k] / det
            for p in range(r):
                z[k, p + 1] = -mu[k] / det * w[k, p]
