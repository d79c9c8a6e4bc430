"""People as one population: log-likelihood, scores and information, summed over people.

Everybody's pseudo-ideal point is drawn from N(μ, Σ) and integrated out (`integrals`). A person's log-likelihood is then
a function of M, μ and Σ through ``a_i = ⟨Δ_i, M⟩ + ⟨δ_i, μ⟩`` and ``S = B Σ Bᵀ``. With the slope and bend of the
integral and ``λ = Eᵀ slope``, ``T_j = Σ_i slope_i E_ij s_i`` (s = x + x'), a person's scores are ::

    ∂ℓ/∂M = Σ_j sym(B_j T_jᵀ)      ∂ℓ/∂μ = Σ_j λ_j B_j      ∂ℓ/∂Σ = Bᵀ bend B

A *structure* says which laws of people are considered, by *natural* parameters in which scores are written:

===========  ============================================  ===============================
structure    natural parameters                            law
===========  ============================================  ===============================
isotropic    svec M, μ, log s                              u ~ N(u₀, s²I):  Σ = 4s²M²
free         svec M, μ, svec Σ                             u ~ N(u₀, Σ_u):  Σ = 4MΣ_uM
===========  ============================================  ===============================

with ``μ = −2Mu₀`` free in both, so offsets are linear in what is learned. Both may have item effects (`item_effects`):
utilities b_i of the items beyond their features, with ``a = … − (b_left − b_right)``.

Blocks may hold NumPy's arrays or another library's; parameters, laws and sums are always NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from crowdmetric.losses import Loss
from crowdmetric.symmetric import (
    as_like,
    as_numpy,
    degrees_of_freedom,
    outer_difference,
    project_psd,
    smat,
    svec,
    symmetric_kronecker,
)
from crowdmetric.users.adaptive_quadrature import by_sampling
from crowdmetric.users.blocks import SPARE, Block
from crowdmetric.users.integrals import Integral, kernels, loadings_of, products_by_person
from crowdmetric.users.integration import LARGEST_GRID, integrate_people
from crowdmetric.users.layout import Layout
from crowdmetric.users.propagation import TOLERANCE

__all__ = [
    "LARGEST_GRID",
    "STRUCTURES",
    "Correction",
    "Law",
    "PopulationBlock",
    "Structure",
    "Sums",
    "blocks_of",
    "exact_change",
    "integrate",
    "integrate_slowly",
    "pull_of",
    "sums_of",
]

Array = NDArray[Any]

# A direction of a person's δ's that is this much shorter than their longest is rounding, not a direction.
RANK_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Law:
    """A metric and a population: M (d, d), μ (d,) and Σ (d, d); what everybody adds to the items' utilities, (N,)."""

    metric: Array
    mean: Array
    covariance: Array
    effects: Array | None = None

    def like(self, array: Any) -> Law:
        """Return the law in arrays of the library of another."""
        metric, mean, covariance = (as_like(part, array) for part in (self.metric, self.mean, self.covariance))
        return Law(metric, mean, covariance, self.effects)


@dataclass(frozen=True)
class PopulationBlock:
    """People with equally many answers (padded) that span equally many dimensions.

    Attributes
    ----------
    span, loadings
        B (P, q, d) and E (P, m, q) with ``δ = E B``; where the δ's are independent, B is δ and E the identity. Where
        people of several ranks share a block, some have rows of zeros in B.
    total, response, weight
        s (P, m, d), answers and weights (P, m); padding answers +1 with weight zero.
    person
        (P,) number of each person.
    shown
        (P, m, 2) numbers of the items, left and right; (P, 0, 2) where nobody needs them.
    size
        Rows of an answer: one, or more for the first of a set (`crowdmetric.users.sets`).
    """

    span: Array
    loadings: Array
    total: Array
    response: Array
    weight: Array
    person: NDArray[np.intp]
    shown: NDArray[np.intp]
    size: int = 1

    @property
    def arrays(self) -> dict[str, Array]:
        """All arrays, by their names."""
        return {name: value for name, value in vars(self).items() if name != "size"}

    def with_arrays(self, make: Callable[[Array], Array]) -> PopulationBlock:
        """Return the block with what `make` makes of each array."""
        made: dict[str, Any] = {name: make(array) for name, array in self.arrays.items()}
        return replace(self, **made)

    def take(self, people: Any) -> PopulationBlock:
        """Return some of the people: a slice, a mask or numbers."""
        return self.with_arrays(lambda array: array[people])

    def every(self, step: int) -> PopulationBlock:
        """Return every `step`-th person, in the order of their questions and answers, so names do not matter."""
        length = np.sum(np.abs(self.span), axis=(1, 2))
        alike = np.round(length / max(float(length.max(initial=0.0)), 1e-300), 9)  # the order of sums does not matter
        chosen = np.einsum("pm,pmq,pqd->p", self.weight * self.response, self.loadings, self.span)
        some = self.take(np.lexsort((chosen, alike))[::step])
        return some.with_arrays(np.ascontiguousarray)

    def on(self, put: Callable[[Array], Any]) -> PopulationBlock:
        """Return the people with arrays of another library; who they are and what they were shown stays here."""
        names = (name for name in self.arrays if name not in ("person", "shown", "loadings"))
        loadings = self.loadings
        if isinstance(loadings, np.ndarray) and loadings.strides[0] == 0:  # one matrix that all share
            one = put(loadings[:1])
            loadings = array_namespace(one).broadcast_to(one, loadings.shape)
        else:
            loadings = put(loadings)
        return replace(self, loadings=loadings, **{name: put(getattr(self, name)) for name in names})


def blocks_of(
    people: Iterable[Block], pairs: NDArray[np.intp] | None = None, join_above: int | None = None
) -> list[PopulationBlock]:
    """Return people grouped by the dimension that their answers span, found numerically.

    With `pairs` (T, 2), the table that their answers came from, they remember which items they were shown. With
    `join_above`, people who span different numbers of dimensions above that one share a block where few rows of padding
    make it possible: in a small crowd a pass takes as long as there are blocks. Their span is filled up with zeros.
    """
    return [part for block in people for part in _split_by_rank(block, pairs, join_above)]


def _split_by_rank(
    block: Block, pairs: NDArray[np.intp] | None, join_above: int | None = None
) -> list[PopulationBlock]:
    """Return the parts of a block by rank of its δ's (pivoted Gram–Schmidt, all people at once)."""
    delta = np.where(block.weight[:, :, None] > 0, block.delta, 0.0)
    P, m, d = delta.shape
    rest, rank = delta.copy(), np.zeros(P, dtype=np.intp)
    basis = np.zeros((P, min(m, d), d))
    longest = np.linalg.norm(delta, axis=2).max(axis=1)
    everyone = np.arange(P)
    for j in range(basis.shape[1]):
        length = np.linalg.norm(rest, axis=2)
        pivot = np.argmax(length, axis=1)
        size = length[everyone, pivot]
        found = (size > RANK_TOLERANCE * longest) & (longest > 0)
        if not found.any():
            break
        direction = rest[everyone, pivot] / np.where(found, size, 1.0)[:, None] * found[:, None]
        # once more against the directions before it, so they stay orthogonal to rounding
        direction -= np.einsum("pj,pjd->pd", np.einsum("pjd,pd->pj", basis[:, :j], direction), basis[:, :j])
        basis[:, j] = direction
        rest = rest - np.einsum("pmd,pd->pm", rest, direction)[:, :, None] * direction[:, None, :]
        rank += found
    shown = np.empty((P, 0, 2), dtype=np.intp) if pairs is None else pairs[block.rows]
    parts = []
    width = rank if join_above is None else _joined(rank, join_above)
    for q in np.unique(width):
        chosen = np.flatnonzero(width == q)
        if q == 0:
            continue  # these people only compared equal items, or their answers have no weight
        independent = bool(np.all(rank[chosen] == m))
        own = delta[chosen]
        span = own if independent else basis[chosen, :q]
        parts.append(
            PopulationBlock(
                span=span,
                loadings=np.broadcast_to(np.eye(m), (chosen.size, m, m))
                if independent
                else own @ span.transpose(0, 2, 1),
                total=block.total[chosen],
                response=np.where(block.weight[chosen] > 0, block.response[chosen], 1.0),
                weight=block.weight[chosen],
                person=block.person[chosen],
                shown=shown[chosen],
                size=block.size,
            )
        )
    return parts


def _joined(rank: NDArray[np.intp], above: int) -> NDArray[np.intp]:
    """Return how wide (P,) everybody's span is made: the next larger rank, where that takes at most `SPARE` rows."""
    width = rank.copy()
    for lower, higher in pairwise(q for q in np.unique(rank) if q > above):
        joining = width == lower
        if np.count_nonzero(joining) * (higher - lower) <= SPARE:
            width[joining] = higher
    return width


def integrate(
    block: PopulationBlock, law: Law, loss: Loss, largest_grid: int = LARGEST_GRID, tolerance: float = TOLERANCE
) -> Integral:
    """Return the integral of every person: on a grid up to `largest_grid` dimensions, by propagation beyond."""
    a, S = _offsets(block, law)
    rest = (loss, largest_grid, tolerance, block.size)
    return integrate_people(a, block.loadings, S, block.response, block.weight, *rest)[0]


def integrate_slowly(block: PopulationBlock, law: Law, loss: Loss, guess: Integral) -> Integral:
    """Return the same by a method to judge the others with: quasi-Monte Carlo, around what another has found."""
    a, S = _offsets(block, law)
    E, y, weight = block.loadings, block.response, block.weight
    return by_sampling(a, E, loadings_of(E, S), y, weight, loss, guess, size=block.size)


def _offsets(block: PopulationBlock, law: Law) -> tuple[Array, Array]:
    """Return the offsets a (P, m) and the covariances S (P, q, q)."""
    B = block.span
    xp, law = array_namespace(B), law.like(B)
    tilt, shift = _rows_times(B, law.metric), _rows_times(B, law.mean)
    # ⟨Δ_i, M⟩ = Σ_j E_ij ⟨B_j M, s_i⟩: q products with M per person, not m
    if isinstance(B, np.ndarray):
        a = np.empty(block.response.shape)
        kernels("population").offsets(block.loadings, block.total, tilt, shift, a)
    else:
        a = xp.sum(block.loadings * (block.total @ xp.matrix_transpose(tilt) + shift[:, None, :]), axis=2)
    if law.effects is not None:
        a -= law.effects[block.shown[:, :, 0]] - law.effects[block.shown[:, :, 1]]
    return a, products_by_person(_rows_times(B, law.covariance), xp.matrix_transpose(B))


def _rows_times(B: Array, X: Array) -> Array:
    """Return ``B X`` for B (P, q, d) as one product of all rows; one product per person takes several times as long."""
    return (B.reshape(-1, B.shape[2]) @ X).reshape(B.shape[:2] + X.shape[1:])


@dataclass(frozen=True)
class Correction:
    """What exact integrals over people add to the log-likelihood near a law: ``score · (natural − at)``.

    Attributes
    ----------
    at, score : (n,)
    covariance : (n, n)
        Of the score, which is measured on some of the people: the sum of squares of what each of them adds to it. It is
        a little too large, as their mean is not subtracted.
    """

    at: Array
    score: Array
    covariance: Array

    def __add__(self, other: Correction) -> Correction:
        return Correction(self.at, self.score + other.score, self.covariance + other.covariance)


def exact_change(alike: tuple[PopulationBlock, float], structure: Structure, natural: Array, loss: Loss) -> Correction:
    """Return by how much scores change if the slow method replaces propagation.

    Each person of the block stands for so many who are alike.
    """
    block, times = alike
    law = structure.law(natural, block.span.shape[2])
    fast = integrate(block, law, loss, 1)
    slow = integrate_slowly(block, law, loss, fast)
    exact, approximate = (structure.scores(block, integral, law, natural) for integral in (slow, fast))
    change = times * (exact - approximate)
    return Correction(natural, change.sum(axis=0), change.T @ change)


@dataclass(frozen=True)
class Sums:
    """Sums over people: log-likelihood, score (n,), and information (n, n) or None.

    Until everybody is counted, `information` may be any object that can be added up
    (`crowdmetric.users.expected.Information`). It comes with `spread_score`, ∂ℓ/∂Σ (d, d). From the sum of the latter
    over everybody, `Structure.bending` computes `bending` (n, n): curvature that is not information.
    """

    value: float
    score: Array
    information: Any
    spread_score: Array | None = None
    bending: Array | None = None

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.value + other.value,
            self.score + other.score,
            _both(self.information, other.information),
            _both(self.spread_score, other.spread_score),
        )


def _both(one: Any, other: Any) -> Any:
    """Return the sum, None where either is not known."""
    return None if one is None or other is None else one + other


class Structure(Protocol):
    """A family of populations, by its natural parameters."""

    def layout(self, d: int) -> Layout:
        """Return the positions of the natural parameters."""
        ...

    def law(self, natural: Array, d: int) -> Law:
        """Return the law of some natural parameters."""
        ...

    def scores(self, block: PopulationBlock, integral: Integral, law: Law, natural: Array) -> Array:
        """Return the (P, n) score of each person."""
        ...

    def spread_jacobian(self, natural: Array, d: int) -> Array:
        """Return the (p, n) derivative of svec Σ."""
        ...

    def bending(self, natural: Array, spread_score: Array) -> Array:
        """Return the (n, n) curvature of −ℓ that comes from how Σ bends, the part that is positive semi-definite."""
        ...


class Isotropic:
    """Ideal points N(u₀, s²I)."""

    def layout(self, d: int) -> Layout:
        return Layout(d, free=False)

    def law(self, natural: Array, d: int) -> Law:
        at = self.layout(d)
        M, log_s = smat(natural[at.metric]), natural[at.spread][0]
        return Law(M, natural[at.mean], 4.0 * np.exp(2.0 * log_s) * (M @ M))

    def spread_jacobian(self, natural: Array, d: int) -> Array:
        at, law = self.layout(d), self.law(natural, d)
        out = np.zeros((at.p, at.size))
        # dΣ = 4s²(dM M + M dM) + 2Σ d log s
        s_squared = np.exp(2.0 * natural[at.spread][0])
        out[:, at.metric] = 8.0 * s_squared * symmetric_kronecker(law.metric, np.eye(d))
        out[:, at.spread] = 2.0 * svec(law.covariance)[:, None]
        return out

    def bending(self, natural: Array, spread_score: Array) -> Array:
        """Return ``2 tr(G₊ dA dA)`` with ``Σ = A²``, ``A = 2sM`` and G₊ the positive part of ``G = −∂ℓ/∂Σ``.

        Information about Σ depends on first derivatives. For an entry of M between a feature that answers depend on
        and one that they do not, these are zero, and yet ``Σ = A²`` grows with the square of that entry.
        """
        d = len(spread_score)
        at = self.layout(d)
        spread = 2.0 * float(np.exp(natural[at.spread][0]))
        J = np.zeros((at.p, at.size))  # of svec A
        J[:, at.metric], J[:, at.spread] = spread * np.eye(at.p), spread * natural[at.metric][:, None]
        return 2.0 * J.T @ symmetric_kronecker(project_psd(-spread_score), np.eye(d)) @ J

    def scores(self, block: PopulationBlock, integral: Integral, law: Law, natural: Array) -> Array:
        B, bend = block.span, integral.bend
        xp, law = array_namespace(B), law.like(B)
        at = self.layout(B.shape[2])
        scores: Array = xp.empty((B.shape[0], at.size), dtype=B.dtype, device=B.device)
        # Σ = 4s²M²: dΣ = 4s²(dM M + M dM), which meets the metric's own score in the same outer product
        spread = 8.0 * float(np.exp(2.0 * natural[at.spread][0]))
        tilt = _rows_times(B, law.metric)
        beside = _beside(block, integral)
        beside += products_by_person(spread * bend, tilt)
        _outer_sums(B, beside, scores, at.metric.start)
        scores[:, at.mean] = pull_of(block, integral)
        # S = 4s² B M² Bᵀ
        scores[:, at.spread.start] = spread * xp.sum(
            bend * products_by_person(tilt, xp.matrix_transpose(tilt)), axis=(1, 2)
        )
        return scores


class Free:
    """Ideal points N(u₀, Σ_u), known through ``Σ = 4MΣ_uM``."""

    def layout(self, d: int) -> Layout:
        return Layout(d, free=True)

    def law(self, natural: Array, d: int) -> Law:
        at = self.layout(d)
        return Law(smat(natural[at.metric]), natural[at.mean], smat(natural[at.spread]))

    def spread_jacobian(self, natural: Array, d: int) -> Array:
        at = self.layout(d)
        out = np.zeros((at.p, at.size))
        out[:, at.spread] = np.eye(at.p)
        return out

    def bending(self, natural: Array, spread_score: Array) -> Array:
        return np.zeros((natural.size, natural.size))  # Σ is a parameter itself

    def scores(self, block: PopulationBlock, integral: Integral, law: Law, natural: Array) -> Array:
        B = block.span
        at = self.layout(B.shape[2])
        scores: Array = array_namespace(B).empty((B.shape[0], at.size), dtype=B.dtype, device=B.device)
        _outer_sums(B, _beside(block, integral), scores, at.metric.start)
        scores[:, at.mean] = pull_of(block, integral)
        _outer_sums(B, products_by_person(integral.bend, B), scores, at.spread.start)
        return scores


STRUCTURES: dict[str, Structure] = {"isotropic": Isotropic(), "free": Free()}


def pull_of(block: PopulationBlock, integral: Integral) -> Array:
    """Return ``Bᵀλ = Σ_i slope_i δ_i`` (P, d), λ = Eᵀ slope: the direction in which answers move people."""
    xp = array_namespace(block.span)
    along = xp.sum(block.loadings * integral.slope[:, :, None], axis=1)
    pull: Array = products_by_person(along[:, None, :], block.span)[:, 0]
    return pull


def _beside(block: PopulationBlock, integral: Integral) -> Array:
    """Return T_j = Σ_i slope_i E_ij s_i, (P, q, d)."""
    if not isinstance(block.total, np.ndarray):
        weighted = block.loadings * integral.slope[:, :, None]
        return array_namespace(weighted).matrix_transpose(weighted) @ block.total
    out = np.empty(block.span.shape)
    kernels("population").beside(block.loadings, integral.slope, block.total, out)
    return out


def _outer_sums(X: Array, Y: Array, out: Array, begin: int) -> None:
    """Write ``Σ_j svec(sym(X_j Y_jᵀ))`` (P, p) for rows X_j, Y_j of (P, q, d) into out, from a column on."""
    if isinstance(X, np.ndarray):
        kernels("population").outer_sums(X, Y, out, begin)
        return
    p = degrees_of_freedom(X.shape[2])
    out[:, begin : begin + p] = sum(outer_difference(X[:, j], Y[:, j]) for j in range(X.shape[1]))


def sums_of(
    block: PopulationBlock,
    structure: Structure,
    natural: Array,
    loss: Loss,
    *,
    information: bool = True,
    expected: Callable[[PopulationBlock, Structure, Integral, Law, Array], Any] | None = None,
    largest_grid: int = LARGEST_GRID,
    tolerance: float = TOLERANCE,
) -> Sums:
    """Return the sums over the people of a block.

    Their information is the sum of outer products of their scores, or what `expected` makes of them
    (`crowdmetric.users.expected.expected_information`).
    """
    law = structure.law(natural, block.span.shape[2])
    integral = integrate(block, law, loss, largest_grid, tolerance)
    scores = structure.scores(block, integral, law, natural)
    about = of_spread = None
    if information:
        about = as_numpy(scores.T @ scores) if expected is None else expected(block, structure, integral, law, natural)
        of_spread = as_numpy(_spread_score(block, integral))
    return Sums(float(integral.value.sum()), as_numpy(scores.sum(axis=0)), about, of_spread)


def _spread_score(block: PopulationBlock, integral: Integral) -> Array:
    """Return ``∂ℓ/∂Σ = Σ_k B_kᵀ bend_k B_k`` (d, d), as one product of all rows."""
    d = block.span.shape[2]
    return block.span.reshape(-1, d).T @ products_by_person(integral.bend, block.span).reshape(-1, d)
