"""People integrated out: the likelihood of a person's answers under a Gaussian law of pseudo-ideal points.

A person answers m questions. Only ``w = B v`` matters of their v ~ N(μ, Σ), the part in the span of their δ's
(``δ_i = Bᵀe_i``, B (q, d) and e_i the rows of E (m, q)). With ``a_i = ⟨Δ_i, M⟩ + ⟨δ_i, μ⟩`` and ``S = B Σ Bᵀ``::

    value   ℓ = log ∫ Π_i f(y_i (a_i + e_iᵀw))^ω_i  N(w; 0, S) dw
    slope   ∂ℓ/∂a_i = E[h_i]                                    h_i = d/da_i of ω_i log f
    bend    ∂ℓ/∂S   = ½ E[u uᵀ + Eᵀ diag(h') E],  u = Eᵀh       (half the second derivative, for a Gaussian law)

where E is the mean over the person given their answers. Learning needs only these three, and so does locating a person
(`posterior_of`). The integral is computed in one of two ways:

`on_grid`
    The trapezoidal rule on an equally spaced grid of prior quantiles, for q ≤ 3. For analytic integrands that
    decay at both ends its error falls exponentially with the spacing.
`crowdmetric.users.propagation.propagated`
    Expectation propagation, for any q.

Arrays may be NumPy's or any other library's of the array API standard.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.special import entr

from crowdmetric.losses import Logistic, Loss
from crowdmetric.symmetric import as_like

__all__ = [
    "Grid",
    "Integral",
    "evaluate_nodes",
    "fused_kernels",
    "grid_of",
    "information_of_answer",
    "is_identity",
    "kernels",
    "lengths_of_lines",
    "lines",
    "loadings_of",
    "mean_probability",
    "on_grid",
    "pieces",
    "posterior_of",
    "products_by_person",
    "root_of",
]

Array = Any

# Grids reach this many standard deviations of the law; the mass beyond is 2e-9.
REACH = 6.0
# A logistic answer of spread c has its poles π/c off the axis, so a spacing h errs by about exp(−2π²/(hc)), times
# how much less likely than chance the person's answers are: with h = 0.9/c, 3e-10 times that; with 1.1/c, 2e-8.
FINENESS = {1: 0.9, 2: 1.1, 3: 1.1}
# Nodes per axis, by dimension: the smallest number that resolves a person's spread of ψ. The largest resolve spreads of
# 77, 29 and 6, where answers have almost no noise and other approximations are worse than the grid.
SIZES = {
    1: (24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024),
    2: (21, 41, 81, 161, 321),
    3: (17, 33, 65),
}
# Nodes of a typical grid; (people, nodes) arrays with fewer numbers than this are not split.
USUAL_NODES, FEWEST_NUMBERS = 64, 1 << 22
# Maximum number of nodes of the grid for the mean of a probability.
MOST_NODES = 20_001
# Every grid size costs an array library about fifty calls. In single precision, where results need not match the
# compiled loops, fewer sizes are used.
FEW_SIZES = {1: (48, 128, 384, 1024), 2: SIZES[2], 3: SIZES[3]}


@dataclass(frozen=True)
class Integral:
    """The log-likelihood of each person and its first derivatives.

    Attributes
    ----------
    value : (P,)
    slope : (P, m)
        With respect to the offsets a.
    bend : (P, q, q)
        With respect to the covariance S.
    precision : (P, m)
        The precision τ ≥ 0 with which every answer measures its own ψ, zero for padding: the precision of its Gaussian
        factor where people are propagated, the posterior mean of ``−ω_i d² log f / dψ²`` on grids and for sampled
        points. What the answers tell about ψ is then ``R = diag(τ) − diag(τ) E Cov(w | y) Eᵀ diag(τ)``. For answers of
        several rows, (P, m, size): the posterior mean, in blocks of a matrix.
    """

    value: Array
    slope: Array
    bend: Array
    precision: Array


@dataclass(frozen=True)
class Grid:
    """An equally spaced grid in standard normal coordinates.

    Attributes
    ----------
    line : (n,)
        The coordinates along one axis.
    places : (Q, q)
        Each node's place on every axis.
    log_weights : (Q,)
        Logarithms of the nodes' weights, which sum to one.
    """

    line: NDArray[np.float64]
    places: NDArray[np.int64]
    log_weights: NDArray[np.float64]

    @property
    def nodes(self) -> NDArray[np.float64]:
        """The (Q, q) coordinates of the nodes."""
        return self.line[self.places]


@lru_cache
def grid_of(q: int, nodes: int) -> Grid:
    """Return the trapezoidal grid of q dimensions; corners that weigh less than the reach of an axis are left out."""
    line = np.linspace(-REACH, REACH, nodes)
    places = np.stack(np.meshgrid(*[np.arange(line.size)] * q, indexing="ij"), axis=-1).reshape(-1, q)
    square = np.sum(line[places] ** 2, axis=1)
    inside = square <= REACH**2 * (1.0 + 1e-12)
    places, log_weights = places[inside], -0.5 * square[inside]
    log_weights -= np.log(np.sum(np.exp(log_weights)))
    for shared in (line, places, log_weights):
        shared.setflags(write=False)
    return Grid(line, places, log_weights)


def root_of(S: Array) -> Array:
    """Return lower triangular C (P, q, q) with ``C Cᵀ = S``, also where S is singular.

    A pivot below rounding, a lost direction, gives a column of zeros; `numpy.linalg.cholesky` would refuse.
    """
    xp = array_namespace(S)
    q = S.shape[-1]
    if q == 1:
        return xp.sqrt(xp.clip(S, 0.0, None))
    if isinstance(S, np.ndarray) and S.dtype == np.float64:
        whole = np.empty(S.shape)
        kernels("population").roots(S, whole)
        return whole
    C = xp.zeros_like(S)
    for j in range(q):
        column = S[:, j:, j] - xp.sum(C[:, j:, :j] * C[:, j : j + 1, :j], axis=-1)
        pivot = column[:, 0]
        floor = 1e-14 * xp.abs(S[:, j, j]) + 1e-300
        safe = xp.where(pivot > floor, pivot, xp.ones_like(pivot))
        C[:, j:, j] = column * xp.where(pivot > floor, 1.0 / xp.sqrt(safe), xp.zeros_like(pivot))[:, None]
    return C


def loadings_of(E: Array, S: Array) -> Array:
    """Return ``E C`` (P, m, q): how each answer's ψ moves with the person's standard normal coordinates."""
    return products_by_person(E, root_of(S))


def products_by_person(X: Array, Y: Array) -> Array:
    """Return ``X Y`` person by person, (P, i, k) × (P, k, j), with single numbers multiplied as whole arrays."""
    if X.shape[-1] == 1:
        return X * Y
    if X.shape[-2] == 1 and Y.shape[-1] == 1:
        xp = array_namespace(X)
        return xp.sum(X * xp.matrix_transpose(Y), axis=-1, keepdims=True)
    return X @ Y


def is_identity(E: Array) -> bool:
    """Return whether everybody shares the identity, which is then one matrix in an array library's memory."""
    if isinstance(E, np.ndarray) or E.shape[1] != E.shape[2] or E.stride()[0] != 0:
        return False
    xp = array_namespace(E)
    return bool(xp.all(E[0] == xp.eye(E.shape[1], device=E.device)))


def kernels(name: str) -> ModuleType:
    """Return some compiled loops; Numba takes a second to load, so it is loaded here."""
    return import_module(f"crowdmetric.users.{name}_kernels")


def fused_kernels(array: Array) -> ModuleType | None:
    """Return the kernels for people on a GPU (`users.fused_kernels`); None for other arrays, or without Triton."""
    device = getattr(array, "device", None)
    on_gpu = getattr(device, "type", None) == "cuda"
    # Triton's interpreter runs the same kernels on any processor, slowly, for tests
    interpreted = getattr(device, "type", None) == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    return _fused_kernels() if on_gpu or interpreted else None


@lru_cache
def _fused_kernels() -> ModuleType | None:
    try:
        return kernels("fused")
    except ImportError:
        return None


def lengths_of_lines(level: Array, sizes: Sequence[int], like: Array) -> tuple[Array, Array]:
    """Return how many nodes the lines at these places among `sizes` have, and log Σ exp(−½x²) over each one's nodes."""
    xp = array_namespace(like)
    nodes = xp.asarray(np.array(sizes, dtype=np.int32), device=like.device)
    sums = np.array([-grid_of(1, size).log_weights.max() for size in sizes])
    # the highest weight is that of the node nearest to zero
    nearest = np.array([np.abs(grid_of(1, size).line).min() for size in sizes])
    return nodes[level], as_like(sums - 0.5 * nearest**2, like)[level]


@lru_cache
def lines() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the numbers of nodes of all lines, and the nodes' weights, a line a row, filled up with zeros."""
    sizes = np.array(SIZES[1])
    weights = np.zeros((sizes.size, sizes[-1]))
    for row, size in zip(weights, SIZES[1], strict=True):
        row[:size] = np.exp(grid_of(1, size).log_weights)
    for shared in (sizes, weights):
        shared.setflags(write=False)
    return sizes, weights


def on_grid(a: Array, E: Array, S: Array, y: Array, weight: Array, loss: Loss, *, refine: int = 1) -> Integral:
    """Integrate by the trapezoidal rule, on as fine a grid as each person's spread of ψ asks for.

    Compiled where arrays are NumPy's and answers logistic.

    Parameters
    ----------
    a, y, weight
        Offsets, answers and weights (P, m); padding has weight zero and y = 1.
    E, S
        (P, m, q) and (P, q, q).
    refine
        How many times finer than needed: the difference between 1 and 2 is an estimate of the error.
    """
    xp = array_namespace(a)
    q = E.shape[2]
    H = loadings_of(E, S)
    lengths = xp.abs(H[:, :, 0]) if q == 1 else xp.sqrt(xp.sum(H * H, axis=2))
    steepness = loss.beta * xp.max(lengths, axis=1)
    if isinstance(a, np.ndarray) and isinstance(loss, Logistic) and q == 1 and refine == 1:
        level = _level(steepness, SIZES[q], q)
        return Integral(*kernels("line").logistic_on_line(a, E, H, y, weight, loss.beta, level, *lines()))
    fused = fused_kernels(a) if a.shape[1] == q == 1 and refine == 1 and isinstance(loss, Logistic) else None
    if fused is not None:
        return _fused_line(a, E, H, y, weight, loss, _level(steepness, SIZES[1], 1), fused)
    sizes = (SIZES if a.dtype == xp.float64 else FEW_SIZES)[q]
    level = _level(steepness, sizes, q)
    value, slope, bend, precision = xp.empty_like(a[:, 0]), xp.empty_like(a), xp.empty_like(S), xp.empty_like(a)
    for step in xp.unique_values(level):
        grid = grid_of(q, (sizes[int(step)] - 1) * refine + 1)
        for chosen in pieces(xp.nonzero(level == step)[0], grid, a.shape[0]):
            a_, E_, H_, y_, weight_ = (x[chosen] for x in (a, E, H, y, weight))
            part = _integrate(a_, E_, H_, y_, weight_, loss, grid)
            value[chosen], slope[chosen], bend[chosen] = part.value, part.slope, part.bend
            precision[chosen] = part.precision
    return Integral(value, slope, bend, precision)


def _fused_line(
    a: Array, E: Array, H: Array, y: Array, weight: Array, loss: Loss, level: Array, fused: ModuleType
) -> Integral:
    """Return the integrals of people with one answer, by a kernel of a GPU."""
    nodes, log_total = lengths_of_lines(level, SIZES[1], a)
    value, slope, bend, precision = fused.on_line(
        a[:, 0], H[:, 0, 0], y[:, 0], weight[:, 0], nodes, log_total, loss.beta
    )
    return Integral(value, slope[:, None], bend[:, None, None] * E * E, precision[:, None])


def pieces(chosen: Array, grid: Grid, people: int) -> Iterator[Array]:
    """Yield some of the chosen people at a time, so the (people, nodes) of a fine grid do not fill the memory.

    They are at least as large as for everybody on a usual grid, for which the caller has made room.
    """
    size = max(USUAL_NODES * people, FEWEST_NUMBERS) // grid.log_weights.size
    for begin in range(0, chosen.shape[0], max(size, 1)):
        yield chosen[begin : begin + max(size, 1)]


def _level(steepness: Array, sizes: Sequence[int], q: int) -> Array:
    """Return the place (P,) among sizes of the first grid that is fine enough, or the last."""
    xp = array_namespace(steepness)
    places = as_like(np.array(sizes[:-1], dtype=np.float64), steepness)
    return xp.searchsorted(places, 2.0 * REACH / FINENESS[q] * steepness + 1.0)


def _integrate(a: Array, E: Array, H: Array, y: Array, weight: Array, loss: Loss, grid: Grid) -> Integral:
    """Return the integrals of people who share a grid."""
    if isinstance(a, np.ndarray) and isinstance(loss, Logistic):
        arguments = (loss.beta, grid.line, grid.places, grid.log_weights)
        return Integral(*kernels("population").logistic_on_grid(a, E, H, y, weight, *arguments))
    return evaluate_nodes(a, E, H, y, weight, loss, grid)


def evaluate_nodes(a: Array, E: Array, H: Array, y: Array, weight: Array, loss: Loss, grid: Grid) -> Integral:
    """Return the trapezoidal rule with any array library and any loss: all nodes of all people at once."""
    xp = array_namespace(a)
    nodes, log_weights = as_like(grid.nodes, a), as_like(grid.log_weights, a)
    psi = a[:, :, None] + products_by_person(H, nodes.T[None])  # (P, m, Q)
    value, slope, curvature = loss.value_slope_curvature(psi, y[:, :, None])
    cost = weight[:, :, None] * value
    log_joint = log_weights - (cost[:, 0] if cost.shape[1] == 1 else xp.sum(cost, axis=1))
    highest = xp.max(log_joint, axis=1, keepdims=True)
    joint = xp.exp(log_joint - highest)
    total = xp.sum(joint, axis=1, keepdims=True)
    share = joint / total  # the posterior of the node, (P, Q)
    h = -weight[:, :, None] * slope
    u = products_by_person(xp.matrix_transpose(E), h)  # (P, q, Q)
    mean_curvature = weight * xp.sum(share[:, None, :] * curvature, axis=2)
    bend = 0.5 * (
        products_by_person(u * share[:, None, :], xp.matrix_transpose(u))
        - products_by_person(xp.matrix_transpose(E), mean_curvature[:, :, None] * E)
    )
    return Integral(
        value=highest[:, 0] + xp.log(total[:, 0]),
        slope=xp.sum(share[:, None, :] * h, axis=2),
        bend=bend,
        precision=mean_curvature,
    )


def posterior_of(integral: Integral, B: Array, E: Array, mu: Array, Sigma: Array) -> tuple[Array, Array]:
    """Return mean (P, d) and covariance (P, d, d) of people's v given their answers.

    Integrating by parts, ``S⁻¹ E[w] = Eᵀ slope =: λ`` and ``S⁻¹ Cov(w) S⁻¹ − S⁻¹ = 2 bend − λλᵀ``, hence::

        E[v | y]   = μ + Σ Bᵀ λ
        Cov[v | y] = Σ + Σ Bᵀ (2 bend − λλᵀ) B Σ
    """
    xp = array_namespace(B)
    pull = xp.sum(E * integral.slope[:, :, None], axis=1)  # λ (P, q)
    reach = B @ Sigma  # (P, q, d)
    mean = mu + xp.sum(reach * pull[:, :, None], axis=1)
    inner = 2.0 * integral.bend - pull[:, :, None] * pull[:, None, :]
    return mean, Sigma + xp.matrix_transpose(reach) @ inner @ reach


def mean_probability(psi: Array, variance: Array, loss: Loss) -> Array:
    """Return ``E[Pr[y = +1]]`` where ψ is Gaussian with these means and variances, of the shape of `psi`."""
    if isinstance(loss, Logistic) and isinstance(psi, np.ndarray):
        spread = np.sqrt(np.broadcast_to(variance, psi.shape)).ravel()
        means: Array = kernels("population").logistic_means(
            np.asarray(psi, dtype=np.float64).ravel(), spread, float(loss.beta), REACH, FINENESS[1], MOST_NODES // 2
        )
        return means.reshape(psi.shape)
    # the weights of a grid sum to one up to rounding, and a probability must not exceed one
    return array_namespace(psi).clip(_gaussian_means(psi, variance, loss, (lambda p: p,))[0], 0.0, 1.0)


def information_of_answer(psi: Array, variance: Array, loss: Loss) -> Array:
    """Return what an answer would tell about a ψ that is Gaussian with these means and variances, in nats.

    The mutual information of answer and ψ (and hence of the answer and whatever ψ is a part of), with the entropy
    ``h(p) = −p log p − (1 − p) log(1 − p)``::

        I = h(E[p]) − E[h(p)],      p = Pr[y = +1 | ψ]
    """
    p, noise = _gaussian_means(psi, variance, loss, (lambda p: p, _entropy))
    return np.maximum(_entropy(np.clip(p, 0.0, 1.0)) - noise, 0.0)


def rough_information_of_answer(psi: Array, variance: Array, loss: Loss) -> Array:
    """Return `information_of_answer` to 0.025 nats (0.002 for probit answers), by formulas for those.

    Answers are taken as ``p = Φ(z)``, ``z = βψ`` for probit and ``z = βψ √(π/8)`` for logistic ones, with mean m and
    variance v. Then ``E[p] = Φ(m / √(1 + v))``, and with ``h(Φ(z)) ≈ log 2 · exp(−z² / 2c²)``, ``c² = π log(2) / 2``::

        E[h(p)] ≈ log 2 · c / √(v + c²) · exp(−m² / 2(v + c²))
    """
    scale = loss.beta * (np.pi / 8.0) ** 0.5 if isinstance(loss, Logistic) else loss.beta
    square, v = (scale * psi) ** 2, scale**2 * variance
    c2 = 0.5 * np.pi * np.log(2.0)

    def mean_entropy(of_mean: Array, of_variance: Array | float) -> Array:
        return np.asarray(np.sqrt(c2 / (of_variance + c2)) * np.exp(-0.5 * of_mean / (of_variance + c2)))

    return np.asarray(np.log(2.0) * (mean_entropy(square / (1.0 + v), 0.0) - mean_entropy(square, v)))


def _entropy(p: Array) -> Array:
    """Return the entropy of an answer, in nats."""
    return entr(p) + entr(1.0 - p)


def _gaussian_means(
    psi: Array, variance: Array, loss: Loss, functions: Sequence[Callable[[Array], Array]]
) -> list[Array]:
    """Return the mean of each function of ``p = Pr[y = +1 | ψ]`` over Gaussian ψ.

    p falls from one to zero within a width of 1/β, the law within √variance: the grid resolves both.
    """
    xp = array_namespace(psi)
    steepest = loss.beta * float(xp.max(variance)) ** 0.5 if psi.size else 0.0
    grid = grid_of(1, max(49, min(2 * int(REACH * steepest / FINENESS[1]) + 1, MOST_NODES)))
    totals = [xp.zeros_like(psi) for _ in functions]
    spread = xp.sqrt(variance)
    for node, log_weight in zip(grid.line, grid.log_weights, strict=True):
        p = loss.probability(psi + float(node) * spread)
        totals = [
            total + float(np.exp(log_weight)) * function(p) for total, function in zip(totals, functions, strict=True)
        ]
    return totals
