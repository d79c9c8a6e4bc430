"""The population likelihood of a low-rank metric, by value and gradient alone, for large d and very many people.

With ``M = LLᵀ`` (L (d, k)) and isotropic people everything happens in k dimensions: items enter through ``Y = XL``
and ``Xμ``, and a person through the rows of both that they compared. For one person with ``z_i = Lᵀδ_i`` and
``w_i = Lᵀs_i``, ``K = LᵀL``::

    a_i = z_iᵀw_i + ⟨δ_i, μ⟩        S = 4s² Z K Zᵀ   (m × m)

and, from the slope and bend of their integral (`integrals`),

    ∂ℓ/∂z_i = slope_i w_i + 8s² (bend Z K)_i    ∂ℓ/∂w_i = slope_i z_i    ∂ℓ/∂K = 4s² Zᵀ bend Z    ∂ℓ/∂log s = 2⟨bend, S⟩

which are added up item by item, so one product with X ends the pass: ``∂ℓ/∂L = Xᵀ Ȳ + 2 L K̄``. Nothing of size
(answers, d) is ever made. Arrays may be NumPy's or any other library's of the array API standard.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.sparse import csc_array

from crowdmetric.losses import Loss
from crowdmetric.symmetric import as_array, as_numpy
from crowdmetric.users.integrals import Integral, fused_kernels, product
from crowdmetric.users.integration import integrate_people

__all__ = [
    "EqualQuestions",
    "LowRank",
    "add_rows",
    "covariance_matrix",
    "moment_matrix",
    "pull_of_people",
    "scores_of_people",
    "value_and_gradient",
]

Array = Any

# Items that enter a product together: none of their size is made.
ITEMS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class LowRank:
    """A metric ``LLᵀ`` with L (d, k), the mean μ (d,) of v, and the logarithm of the spread s of ideal points."""

    factor: NDArray[np.float64]
    mean: NDArray[np.float64]
    log_spread: float

    def flat(self) -> NDArray[np.float64]:
        """Return everything as one vector."""
        return np.concatenate([self.factor.ravel(), self.mean, [self.log_spread]])

    @staticmethod
    def of(flat: NDArray[np.float64], d: int) -> LowRank:
        """Return the inverse of `flat`."""
        k = (flat.size - d - 1) // d
        return LowRank(flat[: d * k].reshape(d, k), flat[d * k : -1], float(flat[-1]))


@dataclass(frozen=True)
class EqualQuestions:
    """People with m answers each: rows of the compared items, answers and weights, all (P, m)."""

    left: Array
    right: Array
    response: Array
    weight: Array


def value_and_gradient(
    items: Array, chunks: Iterable[EqualQuestions], at: LowRank, loss: Loss
) -> tuple[float, NDArray[np.float64]]:
    """Return the log-likelihood of all people and its gradient in `LowRank.flat`.

    Parameters
    ----------
    items
        X (N, d), on the device where the work is to be done.
    chunks
        People, some at a time: temporaries are of the size of a chunk times the nodes of a grid.
    """
    xp = array_namespace(items)
    L, mu = as_array(at.factor, items), as_array(at.mean, items)
    spread = 4.0 * float(np.exp(2.0 * at.log_spread))
    Y, offset, K = items @ L, items @ mu, L.T @ L
    Y_bar, offset_bar, K_bar = xp.zeros_like(Y), xp.zeros_like(offset), np.zeros(K.shape)
    value, spread_bar = 0.0, 0.0
    for chunk in chunks:
        left, right = chunk.left, chunk.right
        Z, W, ZK, S, integral = _integrate(chunk, Y, offset, K, spread, loss)
        value += float(xp.sum(integral.value, dtype=xp.float64))
        spread_bar += float(2.0 * xp.sum(integral.bend * S, dtype=xp.float64))
        slope, bend = integral.slope[:, :, None], integral.bend
        K_bar += spread * as_numpy(xp.matrix_transpose(_flat(Z)) @ _flat(product(bend, Z)))
        Z_bar, W_bar = slope * W + (2.0 * spread) * product(bend, ZK), slope * Z
        Y_bar = add_rows(add_rows(Y_bar, left, Z_bar + W_bar), right, W_bar - Z_bar)
        offset_bar = add_rows(add_rows(offset_bar, left, integral.slope), right, -integral.slope)
    factor_bar = as_numpy(items.T @ Y_bar) + 2.0 * at.factor @ K_bar
    return value, np.concatenate([factor_bar.ravel(), as_numpy(items.T @ offset_bar), [spread_bar]])


def _integrate(
    chunk: EqualQuestions, Y: Array, offset: Array, K: Array, spread: float, loss: Loss
) -> tuple[Array, Array, Array, Array, Integral]:
    """Return Z, W, ZK (P, m, k), S (P, m, m) and the integrals of a chunk's people."""
    xp = array_namespace(Y)
    left, right = Y[chunk.left], Y[chunk.right]
    Z, W = left - right, left + right
    ZK = xp.reshape(_flat(Z) @ K, Z.shape)
    a = xp.sum(Z * W, axis=2) + offset[chunk.left] - offset[chunk.right]
    S = spread * product(ZK, xp.matrix_transpose(Z))
    E = xp.broadcast_to(as_array(np.eye(S.shape[1]), Y), S.shape)
    return Z, W, ZK, S, integrate_people(a, E, S, chunk.response, chunk.weight, loss, 1)


def pull_of_people(items: Array, chunk: EqualQuestions, at: LowRank, loss: Loss) -> Array:
    """Return ``Σ_i slope_i Lᵀδ_i`` (P, k): where answers pull people from the mean of all, in L's coordinates."""
    xp = array_namespace(items)
    L = as_array(at.factor, items)
    spread = 4.0 * float(np.exp(2.0 * at.log_spread))
    Z, _, _, _, integral = _integrate(chunk, items @ L, items @ as_array(at.mean, items), L.T @ L, spread, loss)
    return xp.sum(integral.slope[:, :, None] * Z, axis=1)


def scores_of_people(items: Array, chunk: EqualQuestions, at: LowRank, loss: Loss) -> Array:
    """Return each person's gradient (P, n) in `LowRank.flat`: summed over people, that of `value_and_gradient`.

    With ``z̄, w̄`` as in this module's docstring and ``x, x'`` the compared items::

        ∂ℓ/∂L = Σ_i [x_i (z̄_i + w̄_i)ᵀ + x'_i (w̄_i − z̄_i)ᵀ] + 8s² L Zᵀ bend Z      ∂ℓ/∂μ = Σ_i slope_i δ_i

    Here something of size (answers, d) is made: for some people only.
    """
    xp = array_namespace(items)
    L, P = as_array(at.factor, items), chunk.left.shape[0]
    spread = 4.0 * float(np.exp(2.0 * at.log_spread))
    Y, offset = items @ L, items @ as_array(at.mean, items)
    Z, W, ZK, S, integral = _integrate(chunk, Y, offset, L.T @ L, spread, loss)
    slope, bend_Z = integral.slope[:, :, None], product(integral.bend, Z)
    Z_bar, W_bar = slope * W + (2.0 * spread) * product(integral.bend, ZK), slope * Z
    left, right = items[chunk.left], items[chunk.right]
    factor_bar = xp.matrix_transpose(left) @ (Z_bar + W_bar) + xp.matrix_transpose(right) @ (W_bar - Z_bar)
    factor_bar = factor_bar + L @ ((2.0 * spread) * xp.matrix_transpose(Z) @ bend_Z)
    mean_bar = xp.sum(slope * (left - right), axis=1)
    spread_bar = 2.0 * xp.sum(integral.bend * S, axis=(1, 2))
    return xp.concat([xp.reshape(factor_bar, (P, -1)), mean_bar, spread_bar[:, None]], axis=1)


def moment_matrix(items: Array, chunks: Iterable[EqualQuestions]) -> NDArray[np.float64]:
    """Return ``Σ y sym(δ sᵀ)`` (d, d): what answers alone say of the metric, to first order.

    For a small metric ``E[y | x, x'] ≈ ½β ψ``, so for Gaussian items of covariance C the expectation is
    proportional to ``C M C``, plus what the mean of people adds: its leading directions are a start for L.
    """
    xp = array_namespace(items)
    weight = xp.zeros_like(items[:, 0])
    for chunk in chunks:  # Σ y (x xᵀ − x'x'ᵀ) is a weighted sum over items
        signed = chunk.response * chunk.weight
        weight = add_rows(add_rows(weight, chunk.left, signed), chunk.right, -signed)
    return _weighted_square(items, weight)


def covariance_matrix(items: Array) -> NDArray[np.float64]:
    """Return the covariance (d, d) of all items, those that nobody has compared among them."""
    xp = array_namespace(items)
    mean = as_numpy(xp.mean(items, axis=0))
    return _weighted_square(items, xp.ones_like(items[:, 0])) / items.shape[0] - np.outer(mean, mean)


def _weighted_square(items: Array, weight: Array) -> NDArray[np.float64]:
    """Return ``Xᵀ diag(w) X`` (d, d)."""
    total = np.zeros((items.shape[1], items.shape[1]))
    for begin in range(0, items.shape[0], ITEMS_AT_ONCE):
        part = items[begin : begin + ITEMS_AT_ONCE]
        total += as_numpy(part.T @ (weight[begin : begin + ITEMS_AT_ONCE, None] * part))
    return total


def _flat(X: Array) -> Array:
    """Return (P, m, k) as (P·m, k)."""
    xp = array_namespace(X)
    return xp.reshape(X, (-1, X.shape[-1]))


def add_rows(into: Array, rows: Array, values: Array) -> Array:
    """Return `into` (N, …) with values (P, m, …) added to its rows (P, m), in place."""
    xp = array_namespace(into)
    flat_rows = xp.reshape(rows, (-1,))
    flat_values = xp.reshape(values, (-1, *values.shape[2:]))
    if isinstance(into, np.ndarray):  # a product with a matrix of ones, several times as fast as np.add.at
        found, place = np.unique(flat_rows, return_inverse=True)
        ones = csc_array((np.ones(place.size), place, np.arange(place.size + 1)), shape=(found.size, place.size))
        into[found] += ones @ flat_values
        return into
    fused = fused_kernels(into) if xp.isdtype(into.dtype, "real floating") and flat_rows.shape[0] else None
    if fused is None:
        return into.index_add_(0, flat_rows, flat_values)
    fused.add_rows(into, flat_rows, flat_values)
    return into
