"""The population likelihood of a low-rank metric, by value and gradient alone, for large d and very many people.

With ``M = LLᵀ`` (L (d, k)) everything happens in k dimensions: items enter through ``Y = XL`` and ``Xμ``, and a person
through the rows of both that they compared. People's ``v`` has the covariance ``LCLᵀ``: ``C = 4s²K`` with ``K = LᵀL``
for isotropic ideal points, any positive semi-definite C (k, k) for free ones. Items may have utilities b of their own.
For one person with ``z_i = Lᵀδ_i`` and ``w_i = Lᵀs_i``::

    a_i = z_iᵀw_i + ⟨δ_i, μ⟩ − (b_left − b_right)        S = Z C Zᵀ   (m × m)

and, from the slope and bend of their integral (`integrals`),

    ∂ℓ/∂z_i = slope_i w_i + 2 (bend Z C)_i      ∂ℓ/∂w_i = slope_i z_i      ∂ℓ/∂C = Zᵀ bend Z

which are added up item by item, so that the pass ends with one product with X: ``∂ℓ/∂L = Xᵀ Ȳ + 2 L K̄``, where
`pull_back` computes K̄ from ∂ℓ/∂C. The sum for ``Xμ`` is minus the gradient in b. Nothing of size (answers, d) is made.
Arrays may be NumPy's or those of any library of the array API standard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.sparse import csc_array

from crowdmetric.losses import Loss
from crowdmetric.symmetric import as_like, as_numpy
from crowdmetric.users.integrals import Integral, fused_kernels, products_by_person
from crowdmetric.users.integration import integrate_people

__all__ = [
    "EqualQuestions",
    "FreePeople",
    "IsotropicPeople",
    "LowRank",
    "PeopleLaw",
    "add_rows",
    "covariance_matrix",
    "information_of_items",
    "moment_matrix",
    "pull_of_people",
    "scores_of_people",
    "value_and_gradient",
]

Array = Any

# Number of items in one product, so that no copy of all items is made.
ITEMS_AT_ONCE = 1 << 16


class PeopleLaw(Protocol):
    """How the ideal points of people are spread, in the coordinates of L; every array may have leading axes."""

    def flat(self) -> NDArray[np.float64]:
        """Return the parameters as one vector."""
        ...

    def moved(self, flat: NDArray[np.float64]) -> PeopleLaw:
        """Return the same with other parameters."""
        ...

    def covariance(self, K: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return C (k, k), given ``K = LᵀL``."""
        ...

    def pull_back(self, K: NDArray[np.float64], C_bar: Array) -> tuple[Array, Array]:
        """Return derivatives in K (…, k, k) and in the parameters (…, q) from those in C (…, k, k)."""
        ...


@dataclass(frozen=True)
class IsotropicPeople:
    """Ideal points N(u₀, s²I): ``C = 4s²K``."""

    log_spread: float

    def flat(self) -> NDArray[np.float64]:
        return np.array([self.log_spread])

    def moved(self, flat: NDArray[np.float64]) -> IsotropicPeople:
        return IsotropicPeople(float(flat[0]))

    def covariance(self, K: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self._scale * K)

    def pull_back(self, K: NDArray[np.float64], C_bar: Array) -> tuple[Array, Array]:
        xp = array_namespace(C_bar)
        K_bar = self._scale * C_bar
        return K_bar, 2.0 * xp.sum(K_bar * as_like(K, C_bar), axis=(-2, -1))[..., None]

    @property
    def _scale(self) -> float:
        return 4.0 * float(np.exp(2.0 * self.log_spread))


@dataclass(frozen=True)
class FreePeople:
    """Ideal points of any covariance in the span of L: ``C = RRᵀ`` with R (k, k) lower triangular."""

    root: NDArray[np.float64]

    @staticmethod
    def of(covariance: NDArray[np.float64]) -> FreePeople:
        """Return people of covariance C plus a small multiple of the identity, as C may be singular."""
        k = len(covariance)
        return FreePeople(np.linalg.cholesky(covariance + 1e-6 * np.trace(covariance) / k * np.eye(k)))

    def flat(self) -> NDArray[np.float64]:
        return self.root[np.tril_indices(len(self.root))]

    def moved(self, flat: NDArray[np.float64]) -> FreePeople:
        root = np.zeros_like(self.root)
        root[np.tril_indices(len(root))] = flat
        return FreePeople(root)

    def covariance(self, K: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.root @ self.root.T)

    def pull_back(self, K: NDArray[np.float64], C_bar: Array) -> tuple[Array, Array]:
        xp = array_namespace(C_bar)
        rows, columns = np.tril_indices(len(self.root))
        return xp.zeros_like(C_bar), 2.0 * (C_bar @ as_like(self.root, C_bar))[..., rows, columns]


def _no_effects() -> NDArray[np.float64]:
    return np.empty(0)


@dataclass(frozen=True)
class LowRank:
    """A metric ``LLᵀ`` with L (d, k), the mean μ (d,) of v, the spread of people, and items' own utilities b (N,)."""

    factor: NDArray[np.float64]
    mean: NDArray[np.float64]
    people: PeopleLaw
    effects: NDArray[np.float64] = field(default_factory=_no_effects)

    def flat(self) -> NDArray[np.float64]:
        """Return everything as one vector: L row by row, μ, people, b."""
        return np.concatenate([self.factor.ravel(), self.mean, self.people.flat(), self.effects])

    def moved(self, flat: NDArray[np.float64]) -> LowRank:
        """Return the same model with other parameters, the inverse of `flat`."""
        d, k = self.factor.shape
        ends = np.cumsum([d * k, d, self.people.flat().size])
        factor, mean, people, effects = np.split(flat, ends)
        return LowRank(factor.reshape(d, k), mean, self.people.moved(people), effects)

    @property
    def gram(self) -> NDArray[np.float64]:
        """``K = LᵀL`` (k, k)."""
        return np.asarray(self.factor.T @ self.factor)

    @property
    def covariance(self) -> NDArray[np.float64]:
        """C (k, k): people's v has the covariance ``LCLᵀ``."""
        return self.people.covariance(self.gram)


@dataclass(frozen=True)
class EqualQuestions:
    """People with m answers each: rows of the compared items, answers and weights, all (P, m)."""

    left: Array
    right: Array
    response: Array
    weight: Array

    def each(self, function: Callable[[Array], Array]) -> EqualQuestions:
        """Return the questions with a function applied to each of the four arrays."""
        return EqualQuestions(function(self.left), function(self.right), function(self.response), function(self.weight))

    def __getitem__(self, people: Any) -> EqualQuestions:
        """Return the questions of some of the people."""
        return self.each(lambda array: array[people])


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
    seen, K = _Seen.of(items, at), at.gram
    Y_bar, offset_bar, C_bar, value = xp.zeros_like(seen.Y), xp.zeros_like(seen.offset), np.zeros(K.shape), 0.0
    for chunk in chunks:
        left, right = chunk.left, chunk.right
        Z, W, ZC, integral = _integrate(chunk, seen, loss)
        value += float(xp.sum(integral.value, dtype=xp.float64))
        slope, bend = integral.slope[:, :, None], integral.bend
        C_bar += as_numpy(xp.matrix_transpose(_flat(Z)) @ _flat(products_by_person(bend, Z)))
        Z_bar, W_bar = slope * W + 2.0 * products_by_person(bend, ZC), slope * Z
        Y_bar = add_rows(add_rows(Y_bar, left, Z_bar + W_bar), right, W_bar - Z_bar)
        offset_bar = add_rows(add_rows(offset_bar, left, integral.slope), right, -integral.slope)
    K_bar, people_bar = at.people.pull_back(K, C_bar)
    factor_bar = as_numpy(items.T @ Y_bar) + 2.0 * at.factor @ K_bar
    effects_bar = -as_numpy(offset_bar) if at.effects.size else at.effects
    return value, np.concatenate([factor_bar.ravel(), as_numpy(items.T @ offset_bar), people_bar, effects_bar])


@dataclass(frozen=True)
class _Seen:
    """The items as they enter the likelihood, ``Y = XL`` (N, k) and ``Xμ − b`` (N,), and C (k, k), on the device."""

    Y: Array
    offset: Array
    C: Array

    @staticmethod
    def of(items: Array, at: LowRank) -> _Seen:
        offset = items @ as_like(at.mean, items)
        if at.effects.size:
            offset = offset - as_like(at.effects, items)
        return _Seen(items @ as_like(at.factor, items), offset, as_like(at.covariance, items))


def _integrate(chunk: EqualQuestions, seen: _Seen, loss: Loss) -> tuple[Array, Array, Array, Integral]:
    """Return Z, W, ZC (P, m, k) and the integrals of a chunk's people."""
    Y, offset = seen.Y, seen.offset
    xp = array_namespace(Y)
    left, right = Y[chunk.left], Y[chunk.right]
    Z, W = left - right, left + right
    ZC = xp.reshape(_flat(Z) @ seen.C, Z.shape)
    a = xp.sum(Z * W, axis=2) + offset[chunk.left] - offset[chunk.right]
    S = products_by_person(ZC, xp.matrix_transpose(Z))
    E = xp.broadcast_to(as_like(np.eye(S.shape[1]), Y), S.shape)
    return Z, W, ZC, integrate_people(a, E, S, chunk.response, chunk.weight, loss, 1)[0]


def pull_of_people(items: Array, chunk: EqualQuestions, at: LowRank, loss: Loss) -> Array:
    """Return ``Σ_i slope_i Lᵀδ_i`` (P, k): how answers move people away from the mean, in L's coordinates."""
    xp = array_namespace(items)
    Z, _, _, integral = _integrate(chunk, _Seen.of(items, at), loss)
    return xp.sum(integral.slope[:, :, None] * Z, axis=1)


def scores_of_people(items: Array, chunk: EqualQuestions, at: LowRank, loss: Loss) -> Array:
    """Return each person's gradient (P, n) in `LowRank.flat`: summed over people, that of `value_and_gradient`.

    With ``z̄, w̄`` as in this module's docstring and ``x, x'`` the compared items::

        ∂ℓ/∂L = Σ_i [x_i (z̄_i + w̄_i)ᵀ + x'_i (w̄_i − z̄_i)ᵀ] + 2 L K̄      ∂ℓ/∂μ = Σ_i slope_i δ_i

    Unlike a pass, this makes arrays of size (answers, d) and, if items have effects, (people, N): for some people only.
    """
    xp = array_namespace(items)
    P = chunk.left.shape[0]
    Z, W, ZC, integral = _integrate(chunk, _Seen.of(items, at), loss)
    slope, bend = integral.slope[:, :, None], integral.bend
    Z_bar, W_bar = slope * W + 2.0 * products_by_person(bend, ZC), slope * Z
    left, right = items[chunk.left], items[chunk.right]
    factor_bar = xp.matrix_transpose(left) @ (Z_bar + W_bar) + xp.matrix_transpose(right) @ (W_bar - Z_bar)
    K_bar, people_bar = at.people.pull_back(at.gram, xp.matrix_transpose(Z) @ products_by_person(bend, Z))
    factor_bar = factor_bar + 2.0 * as_like(at.factor, items) @ K_bar
    mean_bar = xp.sum(slope * (left - right), axis=1)
    scores = [xp.reshape(factor_bar, (P, -1)), mean_bar, people_bar]
    if at.effects.size:
        scores.append(_effect_scores(chunk, integral.slope, at.effects.size))
    return xp.concat(scores, axis=1)


def _effect_scores(chunk: EqualQuestions, slope: Array, n_items: int) -> Array:
    """Return each person's gradient (P, N) in the items' utilities: slopes of right items minus those of left ones."""
    xp = array_namespace(slope)
    P = slope.shape[0]
    own = n_items * xp.arange(P, device=slope.device)[:, None]
    cells = xp.zeros(P * n_items, dtype=slope.dtype, device=slope.device)
    cells = add_rows(add_rows(cells, own + chunk.left, -slope), own + chunk.right, slope)
    return xp.reshape(cells, (P, n_items))


def information_of_items(
    items: Array, chunks: Iterable[EqualQuestions], at: LowRank, loss: Loss
) -> NDArray[np.float64]:
    """Return the diagonal (N,) of the information about the items' utilities b, given everything else.

    It is ``−∂²ℓ/∂a_i² = slope_i² − 2 bend_ii``, summed over the answers about an item.
    """
    xp = array_namespace(items)
    seen = _Seen.of(items, at)
    total = xp.zeros_like(seen.offset)
    for chunk in chunks:
        integral = _integrate(chunk, seen, loss)[-1]
        known = integral.slope**2 - 2.0 * xp.linalg.diagonal(integral.bend)
        total = add_rows(add_rows(total, chunk.left, known), chunk.right, known)
    return np.maximum(as_numpy(total), 0.0)


def moment_matrix(items: Array, chunks: Iterable[EqualQuestions]) -> NDArray[np.float64]:
    """Return ``Σ y sym(δ sᵀ)`` (d, d): a first-order estimate of the metric from answers.

    For a small metric ``E[y | x, x'] ≈ ½β ψ``. So for Gaussian items of covariance C the expectation is proportional to
    ``C M C``, plus a term from the mean of people. Its leading directions are the start of L.
    """
    xp = array_namespace(items)
    weight = xp.zeros_like(items[:, 0])
    for chunk in chunks:  # Σ y (x xᵀ − x'x'ᵀ) is a weighted sum over items
        signed = chunk.response * chunk.weight
        weight = add_rows(add_rows(weight, chunk.left, signed), chunk.right, -signed)
    return _weighted_square(items, weight)


def covariance_matrix(items: Array) -> NDArray[np.float64]:
    """Return the covariance (d, d) of all items, including those that nobody has compared."""
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
