"""Integrals over people as single GPU kernels, for logistic answers: the one place that imports Triton.

`on_line` has people with one answer, `propagated` those with several. An array library would make some forty calls
for the first and thousands for the second, each of which reads and writes all people; here a person's numbers stay in
registers from beginning to end. The formulas, the nodes and the stopping rule are those of `integrals` and
`propagation`, which are the reference and take over what these kernels leave out.

Propagation works on ψ itself. With ``C = E S Eᵀ`` the covariance of a person's ψ under the law, its covariance G and
its mean ``a + φ`` given the factors (τ_i, b_i) obey ::

    G = (C⁻¹ + diag τ)⁻¹        φ = C b        R = diag τ − diag τ G diag τ

One factor changes G by ``−(Δτ/(1 + Δτ G_ii)) G_i G_iᵀ``; taken from C, one factor after the other, the same formula
finds G anew, and ``log det(I + C diag τ)`` is the sum of the ``log(1 + τ_i G_ii)`` on the way.

Everything is compiled once per precision and size, and kept on disk by Triton.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl
from array_api_compat import array_namespace

__all__ = ["LARGEST", "add_rows", "on_line", "propagated"]

Array = Any

# Maximum number of answers per person in these kernels: beyond, the matrices no longer fit in registers.
LARGEST = 16
# People per program, in one warp, for a line.
LINE_PEOPLE = 32
# For propagation, by (padded) number of answers: people per program, in one warp, and nodes worked on together;
# within a tenth of the fastest in both precisions on an H200 (`python -m benchmarks.gpu --parts tune`).
SHAPES = {2: (8, 4), 4: (8, 4), 8: (8, 4), 16: (2, 16)}
# Numbers that a program adds to rows.
ADDED = 2048
# How often the place of a peak, and of the ends around it, are halved.
PEAK_HALVINGS, EDGE_HALVINGS = 40, 7
# Halvings that find the peak of one answer on a line to a fiftieth of a standard deviation.
HALVINGS = 9


@triton.jit
def _answer(z):
    """Return σ(−z), the probability of the other answer, and −log σ(z)."""
    e = tl.exp(-tl.abs(z))
    inverse = 1.0 / (1.0 + e)
    return tl.where(z >= 0.0, e * inverse, inverse), tl.log(1.0 + e) - tl.minimum(z, 0.0)


@triton.jit
def _log_joint(M, K, omega, t):
    """Return ``−½t² + ω log σ(M + Kt)``."""
    _, cost = _answer(M + K * t)
    return -0.5 * t * t - omega * cost


@triton.jit
def _line_kernel(
    a, spread, y, weight, nodes, log_total, constants,
    value, slope, bend, precision, people,
    BLOCK: tl.constexpr, HALVINGS: tl.constexpr,
):  # fmt: skip
    """One answer per person: log-likelihood, slope, bend and precision by the trapezoidal rule."""
    who = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = who < people
    beta = tl.load(constants)
    sign = beta * tl.load(y + who, mask=real, other=1.0)
    M, K = sign * tl.load(a + who, mask=real, other=0.0), sign * tl.load(spread + who, mask=real, other=0.0)
    omega = tl.load(weight + who, mask=real, other=0.0)
    n = tl.load(nodes + who, mask=real, other=2)
    step = 12.0 / (n - 1).to(M.dtype)
    # where the answer and the law together are highest, so nothing overflows or vanishes
    low, high = tl.zeros_like(M), tl.zeros_like(M) + 6.0
    size = tl.abs(K)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        against, _ = _answer(M + size * middle)
        further = omega * size * against > middle
        low, high = tl.where(further, middle, low), tl.where(further, high, middle)
    peak = 0.5 * (low + high)
    highest = _log_joint(M, size, omega, peak)
    total, s1, s2 = tl.zeros_like(M), tl.zeros_like(M), tl.zeros_like(M)
    for k in range(0, tl.max(n)):
        x = k * step - 6.0
        r, cost = _answer(M + K * x)
        joint = tl.where(k < n, tl.exp(-0.5 * x * x - omega * cost - highest), 0.0)
        total += joint
        s1 += joint * r
        s2 += joint * r * r
    s1, s2 = s1 / total, s2 / total
    sharp = beta * beta * omega * (s1 - s2)
    tl.store(value + who, highest + tl.log(total) - tl.load(log_total + who, mask=real, other=0.0), mask=real)
    tl.store(slope + who, sign * omega * s1, mask=real)
    tl.store(precision + who, sharp, mask=real)
    tl.store(bend + who, 0.5 * (beta * beta * omega * omega * s2 - sharp), mask=real)


@triton.jit
def _on_cavity(M, K, omega, n, prior, NODES: tl.constexpr):
    """Return what the mean of σ(z)^ω is, z ~ N(M, K²), and the means of σ(−z) and its square: along n nodes.

    The first is two numbers, a logarithm and what it is to be multiplied with. `prior` points at the nodes' weights.
    """
    # answers that count once or not at all need no logarithm, unless everything would underflow
    plain = tl.min((((omega == 1.0) | (omega == 0.0)) & (M - 6.0 * K > -80.0)).to(tl.int32))
    highest = tl.where(plain > 0, 0.0, _log_joint(M, K, omega, tl.zeros_like(M)))
    step = 12.0 / (n - 1).to(M.dtype)
    total = M[:, None] * tl.zeros([1, NODES], M.dtype)
    s1, s2 = total, total
    for begin in range(0, tl.max(n), NODES):
        k = begin + tl.arange(0, NODES)[None, :]
        x = k * step[:, None] - 6.0
        z = M[:, None] + K[:, None] * x
        e = tl.exp(-tl.abs(z))
        inverse = 1.0 / (1.0 + e)
        r = tl.where(z >= 0.0, e * inverse, inverse)
        joint = tl.load(prior[:, None] + k)  # zero beyond the last node
        if plain > 0:
            joint *= tl.where(z >= 0.0, inverse, e * inverse)
        else:
            cost = tl.log(1.0 + e) - tl.minimum(z, 0.0)
            joint *= tl.exp(-omega[:, None] * cost - highest[:, None])
        total += joint
        s1 += joint * r
        s2 += joint * r * r
    mass = tl.sum(total, axis=1)
    return highest, mass, tl.sum(s1, axis=1) / mass, tl.sum(s2, axis=1) / mass


@triton.jit
def _over_peak(M, K, omega, peak_halvings, edge_halvings, NODES: tl.constexpr):
    """Return `_on_cavity` and the variance that is left of t, nodes being laid over the peak of law and answer."""
    against, _ = _answer(M)
    low, high = tl.zeros_like(M), omega * K * against
    for _ in range(peak_halvings):
        middle = 0.5 * (low + high)
        against, _ = _answer(M + K * middle)
        further = omega * K * against > middle
        low, high = tl.where(further, middle, low), tl.where(further, high, middle)
    peak = 0.5 * (low + high)
    highest = _log_joint(M, K, omega, peak)
    left_low, left = tl.zeros_like(M), tl.zeros_like(M) + 7.5  # √(2 · 28)
    right_low, right = tl.zeros_like(M), tl.zeros_like(M) + 7.5
    for _ in range(edge_halvings):
        middle = 0.5 * (left_low + left)
        inside = _log_joint(M, K, omega, peak - middle) > highest - 28.0
        left_low, left = tl.where(inside, middle, left_low), tl.where(inside, left, middle)
        middle = 0.5 * (right_low + right)
        inside = _log_joint(M, K, omega, peak + middle) > highest - 28.0
        right_low, right = tl.where(inside, middle, right_low), tl.where(inside, right, middle)
    width = left + right
    finer = tl.where(omega > 1.0, 2.0, 1.0)  # the steep side of a heavy answer is steeper
    n = tl.minimum(tl.maximum(finer * K * width * 1.5, 48.0), 1280.0).to(tl.int32)
    step = width / (n - 1).to(M.dtype)
    total = M[:, None] * tl.zeros([1, NODES], M.dtype)
    s1, s2, along, square = total, total, total, total
    for begin in range(0, tl.max(n), NODES):
        k = begin + tl.arange(0, NODES)[None, :]
        t = k * step[:, None] - left[:, None]
        x = t + peak[:, None]
        r, cost = _answer(M[:, None] + K[:, None] * x)
        joint = tl.exp(-0.5 * x * x - omega[:, None] * cost - highest[:, None])
        joint = tl.where(k < n[:, None], joint, 0.0)
        total += joint
        s1 += joint * r
        s2 += joint * r * r
        along += joint * t
        square += joint * t * t
    mass = tl.sum(total, axis=1)
    middle = tl.sum(along, axis=1) / mass
    s1_mean, s2_mean = tl.sum(s1, axis=1) / mass, tl.sum(s2, axis=1) / mass
    left_over = tl.sum(square, axis=1) / mass - middle * middle
    return highest, mass * step * 0.3989422804014327, s1_mean, s2_mean, left_over  # 1/√(2π)


@triton.jit
def _tilted(mean, variance, sign, omega, n, prior, far, peak_halvings, edge_halvings, NODES: tl.constexpr):
    """Return an answer's mean likelihood under N(mean, variance), and two derivatives of its logarithm in the mean.

    The first as for `_on_cavity`: a logarithm costs more than it is worth where only derivatives are needed.
    """
    M = sign * mean
    K = tl.abs(sign) * tl.sqrt(variance)
    highest, mass, s1, s2 = _on_cavity(M, K, omega, n, prior, NODES)
    left = tl.zeros_like(M)
    away = far > 0
    if tl.max(far) > 0:
        # people who are not far get an easy integral, so they do not lengthen the line
        highest_, mass_, s1_, s2_, left = _over_peak(
            tl.where(away, M, 0.0), tl.where(away, K, 1.0), tl.where(away, omega, 1.0),
            peak_halvings, edge_halvings, NODES,
        )  # fmt: skip
        highest, mass = tl.where(away, highest_, highest), tl.where(away, mass_, mass)
        s1, s2 = tl.where(away, s1_, s1), tl.where(away, s2_, s2)
    first = sign * omega * s1
    second = sign * sign * (omega * (omega + 1.0) * s2 - omega * s1) - first * first
    steep = away & (K > 1.0)  # there the variance that is left has no difference of large numbers
    return highest, mass, first, tl.where(steep, (left - 1.0) / tl.where(steep, variance, 1.0), second)


@triton.jit
def _afresh(C, precision, shift, pull, anchor, index, answers):
    """Return G and φ of the factors, found anew from the law's C, and ``log det(I + C diag τ)``."""
    G, log_det = C, tl.sum(shift, axis=1) * 0.0
    for i in range(answers):
        own = index[None, :] == i
        column = tl.sum(tl.where(own[:, None, :], G, 0.0), axis=2)
        tau = tl.sum(tl.where(own, precision, 0.0), axis=1)
        growth = 1.0 + tau * tl.sum(tl.where(own, column, 0.0), axis=1)
        G -= (tau / growth)[:, None, None] * column[:, :, None] * column[:, None, :]
        log_det += tl.log(growth)
    b = pull - precision * (shift - anchor)
    rest = tl.sum(C * b[:, None, :], axis=2) - shift
    shift += rest - tl.sum(G * (precision * rest)[:, None, :], axis=2)
    return G, shift, log_det


@triton.jit
def _propagation_kernel(
    a, covariance, y, weight, level, sizes, priors, constants,
    value, slope, tau_out, R_out, settled_out,
    people, answers, rounds, peak_halvings, edge_halvings, longest,
    BLOCK: tl.constexpr, SIZE: tl.constexpr, NODES: tl.constexpr,
):  # fmt: skip
    """Sweeps over the answers of some people until all of them have settled; see `propagation.propagate`.

    The last round changes nothing: it finds the value where the sweeps have ended.
    """
    who = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    index = tl.arange(0, SIZE)
    real = who < people
    beta, damping, tolerance = tl.load(constants), tl.load(constants + 1), tl.load(constants + 2)
    rows = who[:, None] * answers + index[None, :]
    inside = real[:, None] & (index[None, :] < answers)
    square = rows[:, :, None] * answers + index[None, None, :]
    inside_square = inside[:, :, None] & (index[None, None, :] < answers)
    C = tl.load(covariance + square, mask=inside_square, other=0.0)
    G, precision = C, tl.zeros([BLOCK, SIZE], C.dtype)
    pull, anchor, shift = precision, precision, precision
    far = tl.zeros([BLOCK, SIZE], tl.int32)
    settled = tl.where(real, 0, 1)
    before = tl.full([BLOCK], float("inf"), C.dtype)
    total, log_det = tl.zeros([BLOCK], C.dtype), tl.zeros([BLOCK], C.dtype)
    turn, lost, stage = 0, 0, 0  # stage 1 is the last round
    while stage < 2:
        if (stage > 0) | (lost > 0) | ((turn > 0) & (turn % 8 == 0)):
            G, shift, log_det = _afresh(C, precision, shift, pull, anchor, index, answers)
        largest = tl.zeros([BLOCK], C.dtype)
        lost = 0
        total = -0.5 * tl.sum((pull - precision * (shift - anchor)) * shift, axis=1) - 0.5 * log_det
        for i in range(answers):
            own = index[None, :] == i
            column = tl.sum(tl.where(own[:, None, :], G, 0.0), axis=2)
            spread = tl.maximum(tl.sum(tl.where(own, column, 0.0), axis=1), 0.0)
            tau = tl.sum(tl.where(own, precision, 0.0), axis=1)
            here = tl.sum(tl.where(own, shift, 0.0), axis=1)
            b = tl.sum(tl.where(own, pull, 0.0), axis=1) - tau * (here - tl.sum(tl.where(own, anchor, 0.0), axis=1))
            place = who * answers + i
            omega = tl.load(weight + place, mask=real, other=0.0)
            sign = beta * tl.load(y + place, mask=real, other=1.0)
            keep = tl.maximum(1.0 - tau * spread, 1e-13)
            cavity = spread / keep
            mean = tl.load(a + place, mask=real, other=0.0) + here - cavity * b
            K = tl.abs(sign) * tl.sqrt(cavity)
            against, _ = _answer(sign * mean + 1.5 * K)
            moved = (omega * K * against > 1.5) & (stage == 0)
            far_here = tl.maximum(tl.sum(tl.where(own, far, 0), axis=1), moved.to(tl.int32))
            far = tl.where(own, far_here[:, None], far)
            present = omega > 0.0
            busy = (settled == 0) & present & (spread > 0.0) & (stage == 0)
            line = tl.load(level + place, mask=real, other=0)
            counts = (busy | (stage > 0)).to(tl.int32)
            highest, mass, first, second = _tilted(
                mean, cavity, sign, omega, tl.load(sizes + line), priors + line * longest,
                far_here * counts, peak_halvings, edge_halvings, NODES,
            )  # fmt: skip
            strength = tl.maximum(-second, 0.0)
            new = strength / tl.maximum(1.0 - strength * cavity, 1e-13)
            stronger = tl.where(busy, damping * (new - tau), 0.0)
            further = tl.where(busy, damping * (first - b) * (1.0 + new * cavity), 0.0)
            largest = tl.maximum(largest, tl.abs(further) * tl.sqrt(spread))
            growth = 1.0 + stronger * spread
            lost = tl.maximum(lost, tl.max(((growth > 1e4) | (growth < 1e-4)).to(tl.int32)))
            step = further / growth
            known = present & (spread <= 0.0) & (stage > 0)  # its factor was never needed
            changed = own & (busy | known)[:, None]
            precision = tl.where(changed, tl.where(known, strength, tau + stronger)[:, None], precision)
            anchor = tl.where(changed, (here + spread * step)[:, None], anchor)
            pull_here = tl.where(known, first, b + further - (tau + stronger) * spread * step)
            pull = tl.where(changed, pull_here[:, None], pull)
            G -= (stronger / growth)[:, None, None] * column[:, :, None] * column[:, None, :]
            shift += column * step[:, None]
            if stage > 0:
                exact = tl.minimum(highest + tl.log(mass), 0.0)
                total += tl.where(present, exact + 0.5 * cavity * b * b - 0.5 * tl.log(keep), 0.0)
        if stage > 0:
            stage = 2
        else:
            earlier = tl.minimum(before, 30.0 * largest)
            done = (largest < tolerance) | (largest * largest < tolerance * (earlier - largest))
            before = tl.where(settled == 0, largest, before)
            settled = tl.maximum(settled, done.to(tl.int32))
            turn += 1
            stage = tl.where((tl.min(settled) > 0) | (turn >= rounds), 1, 0)
    settled = tl.maximum(settled, (before < 1e-5).to(tl.int32))
    diagonal = index[None, :, None] == index[None, None, :]
    R = tl.where(diagonal, precision[:, :, None], 0.0) - precision[:, :, None] * G * precision[:, None, :]
    tl.store(value + who, total, mask=real)
    tl.store(slope + rows, pull - precision * (shift - anchor), mask=inside)
    tl.store(tau_out + rows, precision, mask=inside)
    tl.store(R_out + square, R, mask=inside_square)
    tl.store(settled_out + who, settled, mask=real)


@triton.jit
def _add_rows_kernel(into, rows, values, count, width, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Add rows of values to the rows of another matrix that are named, in any order."""
    who = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, WIDTH)[None, :]
    inside = (who < count)[:, None] & (column < width)
    row = tl.load(rows + who, mask=who < count, other=0)
    added = tl.load(values + who[:, None] * width + column, mask=inside, other=0.0)
    tl.atomic_add(into + row[:, None] * width + column, added, mask=inside, sem="relaxed")


def add_rows(into: Array, rows: Array, values: Array) -> None:
    """Add values (T,) or (T, k) to the rows (T,) of `into`, in place."""
    width = 1 if values.ndim == 1 else values.shape[1]
    padded = triton.next_power_of_2(width)
    block = max(1, ADDED // padded)
    grid = (triton.cdiv(rows.shape[0], block),)
    _add_rows_kernel[grid](into, _dense(rows), _dense(values), rows.shape[0], width, BLOCK=block, WIDTH=padded)


def on_line(
    a: Array, spread: Array, y: Array, weight: Array, nodes: Array, log_total: Array, beta: float
) -> tuple[Array, Array, Array, Array]:
    """Return value, slope, bend and precision (P,) of people with one answer each.

    Parameters
    ----------
    a, spread, y, weight : (P,)
        The answer's offset, its ψ's standard deviation under the law (of either sign), the answer and its weight.
    nodes, log_total : (P,)
        Nodes of each person's line, int32, and the logarithm of the sum of ``exp(−½x²)`` over them.
    """
    xp = array_namespace(a)
    value, slope, bend, precision = (xp.empty_like(a) for _ in range(4))
    constants = xp.asarray(np.array([beta]), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(a.shape[0], LINE_PEOPLE),)
    arrays = [_dense(x) for x in (a, spread, y, weight, nodes, log_total)]
    _line_kernel[grid](
        *arrays, constants, value, slope, bend, precision, a.shape[0],
        BLOCK=LINE_PEOPLE, HALVINGS=HALVINGS, num_warps=1,
    )  # fmt: skip
    return value, slope, bend, precision


def propagated(
    a: Array, C: Array, y: Array, weight: Array, level: Array, sizes: Array, priors: Array, beta: float,
    damping: float, tolerance: float, rounds: int,
) -> tuple[Array, Array, Array, Array, Array]:  # fmt: skip
    """Return value (P,), slope and precision (P, m), R (P, m, m) and whether each person has settled (P,).

    Parameters
    ----------
    a, y, weight : (P, m)
    C : (P, m, m)
        The covariance of each person's ψ under the law.
    level : (P, m)
        Which of the lines each answer's cavity is integrated along, int32.
    sizes, priors : (L,), (L, n)
        Nodes of each line, int32, and their weights, filled up with zeros; n is a multiple of the nodes in `SHAPES`.
    """
    xp = array_namespace(a)
    P, m = a.shape
    value, slope, precision, R = xp.empty_like(a[:, 0]), xp.empty_like(a), xp.empty_like(a), xp.empty_like(C)
    settled = xp.empty(P, dtype=xp.int32, device=a.device)
    constants = xp.asarray(np.array([beta, damping, tolerance]), dtype=a.dtype, device=a.device)
    size = max(2, 1 << (m - 1).bit_length())
    block, nodes = SHAPES[size]
    grid = (triton.cdiv(P, block),)
    arrays = [_dense(x) for x in (a, C, y, weight, level, sizes, priors)]
    _propagation_kernel[grid](
        *arrays, constants, value, slope, precision, R, settled,
        P, m, rounds, PEAK_HALVINGS, EDGE_HALVINGS, priors.shape[1],
        BLOCK=block, SIZE=size, NODES=nodes, num_warps=1,
    )  # fmt: skip
    return value, slope, precision, R, settled > 0


def _dense(x: Array) -> Array:
    return x if x.is_contiguous() else x.contiguous()
