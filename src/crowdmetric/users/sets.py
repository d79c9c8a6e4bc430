"""People integrated out who chose the first of several: an answer is a set of rows with one factor.

Whoever takes item c first of a set answers about its gaps to all others at once. With a row i for each other item,
``ψ_i = a_i + e_iᵀw`` as for a comparison of c with that item, and y the same in all rows of an answer (−1 where the
first item is the best, +1 where it is the worst)::

    z_i = −β y ψ_i        f = 1 / (1 + Σ_i exp(z_i))        p_i = f exp(z_i), the probability of the other item
    ∂ log f / ∂ψ_i = β y p_i                                −∂² log f / ∂ψ_i ∂ψ_j = β² (p_i [i = j] − p_i p_j)

With one row this is an answer "left or right" under `crowdmetric.losses.Logistic`, for which
`crowdmetric.users.integrals` has faster ways. Rows are laid out answer by answer, `size` rows each; an answer about
fewer items has rows of weight zero, which are no part of its set.

The integrals are sums over nodes: of a grid in few dimensions, or placed by each person's mode. Beyond few dimensions
`crowdmetric.users.set_propagation` is fast.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from crowdmetric.users.integrals import REACH, SIZES, Integral, grid_of, loadings_of

__all__ = [
    "first_of_set",
    "least_of_sets",
    "mean_curvature",
    "own_precision",
    "rows_of_sets",
    "sets_and_shares",
    "sets_around",
    "sets_around_modes",
    "sets_at_nodes",
    "sets_on_grid",
    "steepest_of_sets",
]

Array = NDArray[Any]
Indices = NDArray[Any]

# Numbers in an array of all rows at all nodes, at most (but at least one person's).
MOST_NUMBERS = 1 << 22
# Spacing of a grid in widths of the noise. As for single rows its error falls as exp(−2π²/spacing), but an answer about
# a set may be much less likely than one about two items, by which the error grows.
SPACING = 0.8
# Nodes per axis around a person's mode; beyond three dimensions, Sobol's points. They reach this much further than the
# normal approximation there.
MODE_NODES, POINTS, WIDER = {1: 401, 2: 81, 3: 33}, 1 << 13, 2.0
# Newton's steps toward a mode, and halvings of a step.
NEWTON_STEPS, HALVINGS = 100, 40


def rows_of_sets(offsets: Indices, item: Indices, first: Indices, sign: Indices) -> tuple[Indices, Array, Indices]:
    """Return answers about sets as rows: the first item beside each other one.

    Parameters
    ----------
    offsets : (Q + 1,)
        Set q is ``item[offsets[q]:offsets[q + 1]]``.
    item : (R,)
    first, sign : (Q,)
        The position of the first item within its set; −1 if that is the worst, not the best.

    Returns
    -------
    (R − Q, 2), (R − Q,), (Q + 1,) arrays
        The two items of each row, its response, and where each answer's rows begin.
    """
    Q = len(first)
    chosen = offsets[:-1] + first
    other = np.ones(len(item), dtype=np.bool_)
    other[chosen] = False
    owner = np.repeat(np.arange(Q), np.diff(offsets))[other]
    pairs = np.column_stack([item[chosen][owner], item[other]])
    return pairs, -sign[owner].astype(np.float64), offsets - np.arange(Q + 1)


def first_of_set(psi: Array, y: Array, there: Array, beta: float) -> tuple[Array, Array]:
    """Return ``−log f`` (P, A, n) and the probabilities p (P, A, size, n) of the others.

    Parameters
    ----------
    psi : (P, A, size, n)
    y, there : (P, A, size)
        Answers, and which rows are part of their sets.
    beta
        Sharpness of the answers.
    """
    z = np.where(there[..., None], (-beta * y)[..., None] * psi, -np.inf)
    top = np.maximum(np.max(z, axis=2), 0.0)
    p = np.exp(z - top[:, :, None])
    total = np.exp(-top) + np.sum(p, axis=2)
    return top + np.log(total), p / total[:, :, None]


def sets_at_nodes(
    a: Array, E: Array, H: Array, y: Array, weight: Array, size: int, beta: float, t: Array, log_weight: Array
) -> Integral:
    """Return the integrals of `sets_and_shares`."""
    return sets_and_shares(a, E, H, y, weight, size, beta, t, log_weight)[0]


def sets_and_shares(
    a: Array, E: Array, H: Array, y: Array, weight: Array, size: int, beta: float, t: Array, log_weight: Array
) -> tuple[Integral, Array]:
    """Return the integrals as sums over nodes t (n, q) that people share, and the posterior (P, n) of the nodes.

    `log_weight` (n,) holds the logarithms of the nodes' weights, with the density of the law.
    """
    P, m, _ = H.shape
    answers = (P, m // size, size)
    psi = a[:, :, None] + H @ np.swapaxes(t, -1, -2)
    there, omega = (weight > 0).reshape(answers), weight.reshape(answers).max(axis=2)
    cost, p = first_of_set(psi.reshape(*answers, -1), y.reshape(answers), there, beta)
    log_joint = log_weight - np.einsum("pa,pan->pn", omega, cost)
    highest = log_joint.max(axis=1, keepdims=True)
    share = np.exp(log_joint - highest)
    total = share.sum(axis=1, keepdims=True)
    share /= total
    scale = beta * y * np.repeat(omega, size, axis=1)
    h = scale[:, :, None] * p.reshape(P, m, -1)
    precision = mean_curvature(p, share, omega, y.reshape(answers), beta)
    pulled = np.swapaxes(E, 1, 2) @ h
    bend = (pulled * share[:, None, :]) @ np.swapaxes(pulled, 1, 2) - _inner(E, precision)
    integral = Integral(
        value=(highest + np.log(total))[:, 0],
        slope=np.einsum("pmn,pn->pm", h, share),
        bend=0.5 * bend,
        precision=precision.reshape(P, m, size),
    )
    return integral, share


def _by_parts(bend: Array, E: Array, H: Array, beta: float, t: Array, share: Array) -> Array:
    """Return a person's bend (q, q), more accurately where the law is wide: integrated by parts there.

    With ``H = E C`` it is ``½ C⁻ᵀ (E[t tᵀ] − I) C⁻¹``, which needs no node within the width of the noise. In directions
    in which the law spreads ψ by less than that, C may have no inverse, and the bend is what nodes say.
    """
    U, sizes, V = np.linalg.svd(np.linalg.lstsq(E, H, rcond=None)[0])
    wide = beta * sizes * np.max(np.abs(E @ U), axis=0) > 1.0
    back = np.where(wide, 1.0 / np.where(wide, sizes, 1.0), 0.0)
    moment = V @ ((t * share[:, None]).T @ t - np.eye(len(sizes))) @ V.T
    both = np.where(np.outer(wide, wide), 0.5 * back[:, None] * moment * back, U.T @ bend @ U)
    return np.asarray(U @ both @ U.T)


def sets_on_grid(a: Array, E: Array, S: Array, y: Array, weight: Array, size: int, beta: float) -> Integral:
    """Return the integrals on grids that are fine enough for each person, in up to three dimensions."""
    q = S.shape[1]
    H = loadings_of(E, S)
    needed = 2.0 * REACH / SPACING * beta * steepest_of_sets(H, weight, size) + 1.0
    level = np.searchsorted(np.array(SIZES[q][:-1], dtype=np.float64), needed)
    places, parts = [], []
    for step in np.unique(level):
        grid, chosen = grid_of(q, SIZES[q][int(step)]), np.flatnonzero(level == step)
        at_once = max(1, MOST_NUMBERS // (grid.log_weights.size * a.shape[1]))
        for begin in range(0, chosen.size, at_once):
            some = chosen[begin : begin + at_once]
            own = (a[some], E[some], H[some], y[some], weight[some])
            parts.append(sets_at_nodes(*own, size, beta, grid.nodes, grid.log_weights))
            places.append(some)
    return _in_order(np.concatenate(places), parts)


def _in_order(places: Array, parts: list[Integral]) -> Integral:
    """Return the integrals of people, some at each place, in the order of people."""
    back = np.argsort(places)
    return Integral(*(np.concatenate([vars(part)[name] for part in parts])[back] for name in vars(parts[0])))


def steepest_of_sets(H: Array, weight: Array, size: int) -> Array:
    """Return the largest spread (P,) of a gap between two items of one set, whose poles limit a grid's spacing."""
    P, m, q = H.shape
    rows = np.where((weight > 0)[:, :, None], H, 0.0).reshape(P, m // size, size, q)
    rows = np.concatenate([np.zeros((P, m // size, 1, q)), rows], axis=2)  # the first item itself
    squares = np.sum(rows * rows, axis=3)
    apart = squares[..., :, None] + squares[..., None, :] - 2.0 * rows @ np.swapaxes(rows, 2, 3)
    return np.asarray(np.sqrt(np.maximum(apart, 0.0).max(axis=(1, 2, 3))))


def least_of_sets(a: Array, E: Array, S: Array, y: Array, weight: Array, size: int, beta: float) -> Array:
    """Return a lower bound (P,) of each log-likelihood, by Jensen's inequality.

    ``log E[Π f^ω] ≥ −Σ ω E[log(1 + Σ_i exp(z_i))] ≥ −Σ ω log(1 + Σ_i exp(E[z_i] + ½ Var[z_i]))``
    """
    answers = (len(a), a.shape[1] // size, size)
    variance = beta**2 * np.maximum(np.einsum("pmq,pqr,pmr->pm", E, S, E), 0.0)
    psi = a - y * 0.5 * variance / beta
    there = (weight > 0).reshape(answers)
    cost, _ = first_of_set(psi.reshape(*answers, 1), y.reshape(answers), there, beta)
    return np.asarray(-np.sum(weight.reshape(answers).max(axis=2) * cost[:, :, 0], axis=1))


def sets_around_modes(a: Array, E: Array, H: Array, y: Array, weight: Array, size: int, beta: float) -> Integral:
    """Integrate with nodes around each person's mode: a grid, or Sobol's sequence beyond three dimensions."""
    modes, roots = _modes(a, H, y, weight, size, beta)
    q = H.shape[2]
    if q in MODE_NODES:
        grid = grid_of(q, MODE_NODES[q])
        z, log_mass = grid.nodes, grid.log_weights
    else:
        u = qmc.Sobol(q, seed=0).random(POINTS)
        z, log_mass = ndtri(np.clip(u, 1e-12, 1.0 - 1e-12)), np.full(POINTS, -np.log(POINTS))
    return sets_around(a, E, H, y, weight, size, beta, modes, WIDER * roots, z, log_mass)


def sets_around(
    a: Array, E: Array, H: Array, y: Array, weight: Array, size: int, beta: float,
    center: Array, root: Array, z: Array, log_mass: Array,
) -> Integral:  # fmt: skip
    """Integrate with standard normal nodes z (n, q) and their masses moved to each person's ``center + root z``."""
    parts = []
    for k in range(len(a)):
        t = center[k] + z @ root[k].T
        volume = np.linalg.slogdet(root[k])[1]
        log_weight = log_mass + 0.5 * np.sum(z * z, axis=1) - 0.5 * np.sum(t * t, axis=1) + volume
        one = slice(k, k + 1)
        own = (a[one], E[one], H[one], y[one], weight[one])
        found, share = sets_and_shares(*own, size, beta, t, log_weight)
        parts.append(replace(found, bend=_by_parts(found.bend[0], E[k], H[k], beta, t, share[0])[None]))
    return _in_order(np.arange(len(a)), parts)


def _modes(a: Array, H: Array, y: Array, weight: Array, size: int, beta: float) -> tuple[Array, Array]:
    """Return everybody's mode of t (P, q), and a root (P, q, q) of the covariance there, by Newton's method."""
    P, m, q = H.shape
    answers = (P, m // size, size)
    there, omega = (weight > 0).reshape(answers), weight.reshape(answers).max(axis=2)

    def at(t: Array) -> tuple[Array, Array, Array]:
        psi = (a + np.einsum("pmq,pq->pm", H, t)).reshape(*answers, 1)
        cost, p = first_of_set(psi, y.reshape(answers), there, beta)
        h = beta * y * (omega[:, :, None] * p[..., 0]).reshape(P, m)
        K = mean_curvature(p, np.ones((P, 1)), omega, y.reshape(answers), beta)
        value = 0.5 * np.sum(t * t, axis=1) + np.sum(omega * cost[:, :, 0], axis=1)
        return value, t - np.einsum("pmq,pm->pq", H, h), np.eye(q) + _inner(H, K)

    t = np.zeros((P, q))
    value, gradient, hessian = at(t)
    for _ in range(NEWTON_STEPS):
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        gain = np.sum(gradient * step, axis=1)
        length = np.where(gain > 1e-16 * (1.0 + np.abs(value)), 1.0, 0.0)
        if not length.any():
            break
        for _ in range(HALVINGS):
            new = at(t - length[:, None] * step)
            short = new[0] > value - 1e-4 * length * gain
            if not np.any(short & (length > 0)):
                break
            length = np.where(short, 0.5 * length, length)
        t, (value, gradient, hessian) = t - length[:, None] * step, new
    inverse = np.linalg.inv(hessian)
    return t, np.linalg.cholesky(0.5 * (inverse + np.swapaxes(inverse, 1, 2)))


def mean_curvature(p: Array, share: Array, omega: Array, y: Array, beta: float) -> Array:
    """Return the mean of ``−ω ∂² log f`` over nodes, (P, A, size, size)."""
    shared = p * share[:, None, None, :]
    K = -(shared @ np.swapaxes(p, 2, 3))
    index = np.arange(p.shape[2])
    K[:, :, index, index] += shared.sum(axis=3)
    return np.asarray(beta**2 * omega[:, :, None, None] * y[..., None] * y[:, :, None, :] * K)


def own_precision(precision: Array) -> Array:
    """Return the diagonal (P, m) of the blocks (P, m, size) of a precision."""
    index = np.arange(precision.shape[1]) % precision.shape[2]
    return np.asarray(precision[:, np.arange(precision.shape[1]), index])


def _inner(E: Array, T: Array) -> Array:
    """Return ``Eᵀ T E`` (P, q, q) for the blocks T (P, A, size, size) of a matrix."""
    P, m, q = E.shape
    own = E.reshape(P, T.shape[1], T.shape[2], q)
    return np.asarray(np.swapaxes(E, 1, 2) @ (T @ own).reshape(P, m, q))
