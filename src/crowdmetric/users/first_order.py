"""The population likelihood of a low-rank metric, by value and gradient alone, for large d and very many people.

With ``M = LLᵀ + γI`` (L (d, k), γ ≥ 0 the *rest*) everything but the rest happens in k dimensions: items enter through
``Y = XL``, ``Xμ`` and their squares ``‖x‖²``, and a person through the rows that they compared. People's ``v`` has the
covariance ``LCLᵀ + ωI``: ``C = 4s²(K + 2γI)`` with ``K = LᵀL`` and ``ω = 4s²γ²`` for isotropic ideal points; any
positive semi-definite C (k, k) and ω = 0 for free ones. Items may have utilities b of their own. For one person with
``z_i = Lᵀδ_i``, ``w_i = Lᵀs_i`` and ``G_ij = δ_iᵀδ_j``::

    a_i = z_iᵀw_i + γ(‖x_i‖² − ‖x'_i‖²) + ⟨δ_i, μ⟩ − (b_left − b_right)        S = Z C Zᵀ + ω G   (m × m)

and, from the slope and bend of their integral (`integrals`),

    ∂ℓ/∂z_i = slope_i w_i + 2 (bend Z C)_i      ∂ℓ/∂w_i = slope_i z_i      ∂ℓ/∂C = Zᵀ bend Z      ∂ℓ/∂ω = ⟨bend, G⟩

which are added up item by item, so that the pass ends with one product with X: ``∂ℓ/∂L = Xᵀ Ȳ + 2 L K̄``, where
`pull_back` computes K̄ from ∂ℓ/∂C. The sum for ``Xμ`` is minus the gradient in b. Without a rest, nothing of size
(answers, d) is made. Arrays may be NumPy's or those of any library of the array API standard.
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
    "Roots",
    "add_rows",
    "covariance_matrix",
    "gradient_in_metric",
    "information_of_items",
    "moment_matrix",
    "people_given_answers",
    "pull_of_people",
    "roots_of_information",
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

    def covariance(self, K: NDArray[np.float64], rest: float) -> tuple[NDArray[np.float64], float]:
        """Return C (k, k) and ω, given ``K = LᵀL`` and γ."""
        ...

    def pull_back(
        self, K: NDArray[np.float64], rest: float, C_bar: Array, rest_bar: Array
    ) -> tuple[Array, Array, Array]:
        """Return derivatives in K (…, k, k), γ (…) and the parameters (…, q) from those in C (…, k, k) and ω (…)."""
        ...


@dataclass(frozen=True)
class IsotropicPeople:
    """Ideal points N(u₀, s²I): ``C = 4s²K``."""

    log_spread: float

    def flat(self) -> NDArray[np.float64]:
        return np.array([self.log_spread])

    def moved(self, flat: NDArray[np.float64]) -> IsotropicPeople:
        return IsotropicPeople(float(flat[0]))

    def covariance(self, K: NDArray[np.float64], rest: float) -> tuple[NDArray[np.float64], float]:
        return self._scale * (K + 2.0 * rest * np.eye(len(K))), self._scale * rest**2

    def pull_back(
        self, K: NDArray[np.float64], rest: float, C_bar: Array, rest_bar: Array
    ) -> tuple[Array, Array, Array]:
        xp = array_namespace(C_bar)
        C, omega = self.covariance(K, rest)
        diagonal = xp.sum(xp.linalg.diagonal(C_bar), axis=-1)
        about_rest = 2.0 * self._scale * (diagonal + rest * rest_bar)
        about_spread = 2.0 * (xp.sum(C_bar * as_like(C, C_bar), axis=(-2, -1)) + omega * rest_bar)
        return self._scale * C_bar, about_rest, about_spread[..., None]

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

    def covariance(self, K: NDArray[np.float64], rest: float) -> tuple[NDArray[np.float64], float]:
        return np.asarray(self.root @ self.root.T), 0.0

    def pull_back(
        self, K: NDArray[np.float64], rest: float, C_bar: Array, rest_bar: Array
    ) -> tuple[Array, Array, Array]:
        xp = array_namespace(C_bar)
        rows, columns = np.tril_indices(len(self.root))
        about_people = 2.0 * (C_bar @ as_like(self.root, C_bar))[..., rows, columns]
        return xp.zeros_like(C_bar), xp.zeros_like(rest_bar), about_people


def _no_effects() -> NDArray[np.float64]:
    return np.empty(0)


@dataclass(frozen=True)
class LowRank:
    """A metric ``LLᵀ + γI`` with L (d, k), the mean μ (d,) of v, the spread of people, and items' utilities b (N,).

    `rest` is γ; None: the metric has rank k, and γ is no parameter.
    """

    factor: NDArray[np.float64]
    mean: NDArray[np.float64]
    people: PeopleLaw
    effects: NDArray[np.float64] = field(default_factory=_no_effects)
    rest: float | None = None

    def flat(self) -> NDArray[np.float64]:
        """Return everything as one vector: L row by row, μ, people, γ if it is a parameter, b."""
        rest = [] if self.rest is None else [self.rest]
        return np.concatenate([self.factor.ravel(), self.mean, self.people.flat(), rest, self.effects])

    def moved(self, flat: NDArray[np.float64]) -> LowRank:
        """Return the same model with other parameters, the inverse of `flat`."""
        d, k = self.factor.shape
        ends = np.cumsum([d * k, d, self.people.flat().size, self.rest is not None])
        factor, mean, people, rest, effects = np.split(flat, ends)
        return LowRank(
            factor.reshape(d, k), mean, self.people.moved(people), effects, float(rest[0]) if rest.size else None
        )

    @property
    def gram(self) -> NDArray[np.float64]:
        """``K = LᵀL`` (k, k)."""
        return np.asarray(self.factor.T @ self.factor)

    @property
    def covariance(self) -> NDArray[np.float64]:
        """C (k, k): people's v has the covariance ``LCLᵀ + ωI``."""
        return self.people.covariance(self.gram, self.rest or 0.0)[0]

    @property
    def rest_variance(self) -> float:
        """The variance ω of people's v in all directions."""
        return self.people.covariance(self.gram, self.rest or 0.0)[1]


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
    variance_bar = 0.0
    for chunk in chunks:
        left, right = chunk.left, chunk.right
        Z, W, ZC, integral = _integrate(items, chunk, seen, loss)
        value += float(xp.sum(integral.value, dtype=xp.float64))
        slope, bend = integral.slope[:, :, None], integral.bend
        C_bar += as_numpy(xp.matrix_transpose(_flat(Z)) @ _flat(products_by_person(bend, Z)))
        if seen.variance:
            variance_bar += float(xp.sum(bend * _products(items, chunk), dtype=xp.float64))
        Z_bar, W_bar = slope * W + 2.0 * products_by_person(bend, ZC), slope * Z
        Y_bar = add_rows(add_rows(Y_bar, left, Z_bar + W_bar), right, W_bar - Z_bar)
        offset_bar = add_rows(add_rows(offset_bar, left, integral.slope), right, -integral.slope)
    K_bar, rest_bar, people_bar = at.people.pull_back(K, at.rest or 0.0, C_bar, np.asarray(variance_bar))
    factor_bar = as_numpy(items.T @ Y_bar) + 2.0 * at.factor @ K_bar
    effects_bar = -as_numpy(offset_bar) if at.effects.size else at.effects
    about_rest = [] if at.rest is None else [float(rest_bar) + float(as_numpy(xp.sum(seen.squares * offset_bar)))]
    gradient = [factor_bar.ravel(), as_numpy(items.T @ offset_bar), people_bar, about_rest, effects_bar]
    return value, np.concatenate(gradient)


@dataclass(frozen=True)
class _Seen:
    """The items as they enter the likelihood, on the device.

    ``Y = XL`` (N, k), ``Xμ + γ‖x‖² − b`` and ``‖x‖²`` (N,), and C (k, k); ω is a number.
    """

    Y: Array
    offset: Array
    squares: Array
    C: Array
    variance: float

    @staticmethod
    def of(items: Array, at: LowRank) -> _Seen:
        xp = array_namespace(items)
        offset = items @ as_like(at.mean, items)
        squares = xp.zeros_like(offset) if at.rest is None else xp.sum(items * items, axis=1)
        if at.rest is not None:
            offset = offset + at.rest * squares
        if at.effects.size:
            offset = offset - as_like(at.effects, items)
        C = as_like(at.covariance, items)
        return _Seen(items @ as_like(at.factor, items), offset, squares, C, at.rest_variance)


def _products(items: Array, chunk: EqualQuestions) -> Array:
    """Return ``G_ij = δ_iᵀδ_j`` (P, m, m)."""
    xp = array_namespace(items)
    delta = items[chunk.left] - items[chunk.right]
    return products_by_person(delta, xp.matrix_transpose(delta))


def _integrate(items: Array, chunk: EqualQuestions, seen: _Seen, loss: Loss) -> tuple[Array, Array, Array, Integral]:
    """Return Z, W, ZC (P, m, k) and the integrals of a chunk's people."""
    Y, offset = seen.Y, seen.offset
    xp = array_namespace(Y)
    left, right = Y[chunk.left], Y[chunk.right]
    Z, W = left - right, left + right
    ZC = xp.reshape(_flat(Z) @ seen.C, Z.shape)
    a = xp.sum(Z * W, axis=2) + offset[chunk.left] - offset[chunk.right]
    S = products_by_person(ZC, xp.matrix_transpose(Z))
    if seen.variance:
        S = S + seen.variance * _products(items, chunk)
    E = xp.broadcast_to(as_like(np.eye(S.shape[1]), Y), S.shape)
    return Z, W, ZC, integrate_people(a, E, S, chunk.response, chunk.weight, loss, 1)[0]


def pull_of_people(items: Array, chunk: EqualQuestions, at: LowRank, loss: Loss) -> Array:
    """Return ``Σ_i slope_i Lᵀδ_i`` (P, k): how answers move people away from the mean, in L's coordinates."""
    xp = array_namespace(items)
    Z, _, _, integral = _integrate(items, chunk, _Seen.of(items, at), loss)
    return xp.sum(integral.slope[:, :, None] * Z, axis=1)


def people_given_answers(
    items: Array, chunk: EqualQuestions, at: LowRank, loss: Loss, *, whole: bool
) -> tuple[Array, Array | None]:
    """Return people's v given their answers: means ``μ + ΣDᵀ slope`` (P, d), covariances ``Σ − ΣDᵀRDΣ`` if `whole`.

    D are the rows δ_i, and ``R = −∂²ℓ/∂a∂aᵀ``. Makes arrays of size (answers, d).
    """
    xp = array_namespace(items)
    integral = _integrate(items, chunk, _Seen.of(items, at), loss)[-1]
    slope = integral.slope
    prior = at.factor @ at.covariance @ at.factor.T + at.rest_variance * np.eye(len(at.factor))
    spread = as_like(prior, items)
    moved = (items[chunk.left] - items[chunk.right]) @ spread
    means = as_like(at.mean, items) + xp.sum(slope[..., None] * moved, axis=1)
    if not whole:
        return means, None
    R = slope[:, :, None] * slope[:, None, :] - 2.0 * integral.bend
    return means, spread - xp.matrix_transpose(moved) @ (R @ moved)


@dataclass(frozen=True)
class Roots:
    """What a chunk's answers tell, as square roots: information about `LowRank.flat` is the sum of ``rᵀr`` over rows r.

    With ``R = slope slopeᵀ − 2 bend = −∂²ℓ/∂a∂aᵀ`` (m, m), positive semi-definite as the loss is log-concave, the
    information through the offsets a is ``Σ JᵀRJ`` with ``J = ∂a/∂flat``: exactly the observed one at fixed J. That
    through S is estimated by outer products of people's scores: there is little of it, and it is hard to compute.

    Attributes
    ----------
    offsets
        ``√R J`` (P m, n).
    spreads
        Each person's score through S, (P, n).
    known
        The diagonal of R (P, m).
    """

    offsets: Array
    spreads: Array
    known: Array


def roots_of_information(items: Array, chunk: EqualQuestions, at: LowRank, loss: Loss) -> Roots:
    """Return the information of a chunk's people; makes arrays of size (answers, n), so for some people only."""
    xp = array_namespace(items)
    seen = _Seen.of(items, at)
    Z, _, ZC, integral = _integrate(items, chunk, seen, loss)
    slope, bend = integral.slope, integral.bend
    P, m = slope.shape
    left, right = items[chunk.left], items[chunk.right]
    both = [(left, seen.Y[chunk.left]), (right, seen.Y[chunk.right])]
    by_factor, other = (xp.reshape(2.0 * x[..., :, None] * y[..., None, :], (P, m, -1)) for x, y in both)
    none = xp.zeros((P, m, at.people.flat().size), dtype=items.dtype, device=items.device)
    jacobian = [by_factor - other, left - right, none]
    people = [xp.zeros((P, items.shape[1]), dtype=items.dtype, device=items.device)]
    about_Z = 2.0 * xp.matrix_transpose(left - right) @ products_by_person(bend, ZC)
    variance_bar = xp.sum(bend * _products(items, chunk), axis=(1, 2)) if seen.variance else xp.zeros_like(slope[:, 0])
    C_bar = xp.matrix_transpose(Z) @ products_by_person(bend, Z)
    K_bar, rest_bar, people_bar = at.people.pull_back(at.gram, at.rest or 0.0, C_bar, variance_bar)
    about_L = about_Z + 2.0 * as_like(at.factor, items) @ K_bar
    people = [xp.reshape(about_L, (P, -1)), *people, people_bar]
    if at.rest is not None:
        jacobian.append((seen.squares[chunk.left] - seen.squares[chunk.right])[..., None])
        people.append(rest_bar[:, None])
    if at.effects.size:
        numbers = xp.arange(at.effects.size, device=items.device)
        told = [xp.astype(rows[..., None] == numbers, items.dtype) for rows in (chunk.right, chunk.left)]
        jacobian.append(told[0] - told[1])
        people.append(xp.zeros((P, at.effects.size), dtype=items.dtype, device=items.device))
    R = slope[:, :, None] * slope[:, None, :] - 2.0 * bend
    values, vectors = xp.linalg.eigh(R)
    root = xp.sqrt(xp.maximum(values, xp.zeros_like(values)))[..., None] * xp.matrix_transpose(vectors)
    J = xp.concat(jacobian, axis=2)
    return Roots(xp.reshape(root @ J, (P * m, J.shape[2])), xp.concat(people, axis=1), xp.linalg.diagonal(R))


def gradient_in_metric(items: Array, chunks: Iterable[EqualQuestions], at: LowRank, loss: Loss) -> NDArray[np.float64]:
    """Return ``∂ℓ/∂M`` (d, d) at the law of `at`, for isotropic people also through ``Σ = 4s²M²``.

    With ``B = Σ δ_iᵀ bend_ij δ_j`` it is ``Σ slope_i (x xᵀ − x'x'ᵀ) + 4s² (MB + BM)``.
    """
    xp = array_namespace(items)
    seen = _Seen.of(items, at)
    told, B = xp.zeros_like(seen.offset), np.zeros((items.shape[1],) * 2)
    for chunk in chunks:
        integral = _integrate(items, chunk, seen, loss)[-1]
        told = add_rows(add_rows(told, chunk.left, integral.slope), chunk.right, -integral.slope)
        delta = items[chunk.left] - items[chunk.right]
        B += as_numpy(xp.matrix_transpose(_flat(delta)) @ _flat(products_by_person(integral.bend, delta)))
    M = at.factor @ at.factor.T + (at.rest or 0.0) * np.eye(len(B))
    scale = 4.0 * float(np.exp(2.0 * at.people.log_spread)) if isinstance(at.people, IsotropicPeople) else 0.0
    return _weighted_square(items, told) + scale * (M @ B + B @ M)


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
        integral = _integrate(items, chunk, seen, loss)[-1]
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
