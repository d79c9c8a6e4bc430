"""The same operators where Sym(R^d) is too large for a p × p matrix: known by their products only.

S = AᵀA and P = AᵀA, with rows ``⟨Δ, X⟩ = δᵀXs`` from which people (each their own v, or one v common to all) are
removed. A product with A or Aᵀ is one pass over the answers and holds d × d numbers. Three things are asked of it:

*Few answers* (n): ``AAᵀ`` (n, n) has the eigenvalues of AᵀA, and its entries need no Δ, only inner products of δ's and
s's: ``⟨Δ_i, Δ_j⟩ = ½[(δ_i·δ_j)(s_i·s_j) + (δ_i·s_j)(s_i·δ_j)]``. That is exact.

*A sketch* ``ΩᵀAᵀAΩ`` (ℓ, ℓ) with ℓ random ``ω = svec ½(ghᵀ + hgᵀ)``, for which an answer costs O(d) and no ω is ever
written out. The ω's span Sym(R^d), so any ℓ ≤ rank A random ones give independent columns Aω with probability one:
the sketch has rank min(ℓ, rank A). Less than ℓ is therefore *the* rank; ℓ is a lower bound. If the answers of some
people already have that rank, they span what all do, and the null space is theirs.

*Random directions* x ~ N(0, I_p), each split by LSMR into what the answers reveal and the rest n, with
‖n‖²/‖x‖² ~ Beta(ν/2, (p − ν)/2) for a null space of dimension ν. A rest that is not zero is an unidentified direction;
its size estimates ν. If no rest is left, the null space is empty: with ν ≥ 1 the chance that a random direction shows
a rest below τ‖x‖ is at most τ √(2p/π).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import pi, sqrt
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh, lsmr

from crowdmetric.identifiability.people import Tally, people_with_answers_to_spare, products
from crowdmetric.identifiability.questions import Questions
from crowdmetric.identifiability.spectrum import Spectrum, in_given_units
from crowdmetric.symmetric import degrees_of_freedom, outer_difference, smat, svec
from crowdmetric.users.projected import without

__all__ = ["Rows", "explore", "nothing", "read_rows"]

Array = NDArray[Any]

DIRECT = 2500  # answers at most whose AAᵀ is decomposed: 50 MB
SKETCH = 2048  # test matrices at most: the sketch is 34 MB
DIRECTIONS = 3
INVERSE_STEPS = 3
EFFORT = 4e12  # floating-point operations of all LSMR solves together: some minutes of one core
MOST_ITERATIONS = 1000
# Singular values below this share of the largest count as zero, as in the decomposition of the whole.
RESOLUTION = 1e-6


@dataclass(frozen=True)
class Rows:
    """The linear map A of some answers, X ↦ ⟨Δ, X⟩ with people removed.

    Attributes
    ----------
    delta, total
        Lists of (P, m, d) arrays, one a block; δ is zero on padding.
    span
        Orthonormal bases (P, m, ·) of what each person's own v can explain; None: one v is common to all.
    most
        The rank is at most this.
    """

    delta: list[Array]
    total: list[Array]
    span: list[Array] | None
    most: int

    @property
    def d(self) -> int:
        """How many features an item has."""
        return int(self.delta[0].shape[2])

    @property
    def n_rows(self) -> int:
        """How many answers there are, padding counted."""
        return sum(b.shape[0] * b.shape[1] for b in self.delta)

    @cached_property
    def _inverse(self) -> Array:
        """(δᵀδ)⁺ of all answers."""
        return np.linalg.pinv(sum(_gram(b, b) for b in self.delta), hermitian=True, rcond=1e-12)

    def _split(self, values: Array) -> list[Array]:
        """Return values (n, j) of all answers as a list of (P, m, j), one a block."""
        ends = np.cumsum([b.shape[0] * b.shape[1] for b in self.delta])[:-1]
        return [v.reshape(*b.shape[:2], -1) for v, b in zip(np.split(values, ends), self.delta, strict=True)]

    def remove_people(self, values: Array) -> Array:
        """Take people out of values (n, j) of the answers."""
        split = self._split(values)
        if self.span is not None:
            split = [without(U, v) for U, v in zip(self.span, split, strict=True)]
        else:
            common = self._inverse @ sum(_gram(b, v) for b, v in zip(self.delta, split, strict=True))
            split = [v - b @ common for b, v in zip(self.delta, split, strict=True)]
        return np.concatenate([v.reshape(-1, values.shape[1]) for v in split])

    def apply(self, X: Array) -> Array:
        """Return ``A svec(X)``."""
        values = [np.einsum("pmi,pmi->pm", b @ X, s).ravel() for b, s in zip(self.delta, self.total, strict=True)]
        return self.remove_people(np.concatenate(values)[:, None])[:, 0]

    def adjoint(self, w: Array) -> Array:
        """Return ``smat(Aᵀw)``: Σ w ½(δsᵀ + sδᵀ) after people are taken out of w."""
        X = np.zeros((self.d, self.d))
        for v, b, s in zip(self._split(self.remove_people(w[:, None])), self.delta, self.total, strict=True):
            X += _gram(v * b, s)
        return 0.5 * (X + X.T)

    def operator(self) -> LinearOperator:
        """Return A on svec vectors."""
        return LinearOperator(
            (self.n_rows, degrees_of_freedom(self.d)),
            matvec=lambda a: self.apply(smat(np.asarray(a).ravel())),
            rmatvec=lambda w: svec(self.adjoint(np.asarray(w).ravel())),
            dtype=np.float64,
        )

    def gram(self, evaluate: Callable[[Array, Array], Array], size: int) -> Array:
        """Return ``BᵀAᵀAB`` (size, size), block by block, from ``evaluate(δ, s) = ⟨Δ, B⟩``, (P, m, size)."""
        gram, cross = np.zeros((size, size)), np.zeros((self.d, size))
        for i, (b, s) in enumerate(zip(self.delta, self.total, strict=True)):
            values = evaluate(b, s)
            if self.span is None:
                cross += _gram(b, values)
            else:
                values = without(self.span[i], values)
            gram += _gram(values, values)
        return gram - cross.T @ self._inverse @ cross if self.span is None else gram

    def some(self, answers: int, rng: Generator) -> Rows:
        """Return the rows of some people, chosen at random, with about so many answers."""
        share = min(1.0, answers / self.n_rows)
        kept = [rng.random(len(b)) < share for b in self.delta]
        kept[0][0] = True  # somebody
        span = None if self.span is None else _picked(self.span, kept)
        return Rows(_picked(self.delta, kept), _picked(self.total, kept), span, self.most)


@dataclass(frozen=True)
class Basis:
    """Orthonormal symmetric matrices ``B_j = Σ_i weight_ij Δ_i`` that span what some answers reveal, never written out.

    Attributes
    ----------
    delta, total
        (n, d) of those answers.
    weight
        (n, r).
    values
        (r,) eigenvalues of their AᵀA, rising.
    """

    delta: Array
    total: Array
    weight: Array
    values: Array

    def evaluate(self, delta: Array, total: Array) -> Array:
        """Return ``⟨Δ, B_j⟩``, (…, r)."""
        return inner_products(delta, total, self.delta, self.total) @ self.weight

    def rest_of(self, X: Array) -> Array:
        """Return X (d, d) without its part in the span of the B_j."""
        inside = self.weight @ (self.weight.T @ np.einsum("ni,ni->n", self.delta @ X, self.total))
        Y = (inside[:, None] * self.delta).T @ self.total
        return X - 0.5 * (Y + Y.T)


def inner_products(delta: Array, total: Array, delta_: Array, total_: Array) -> Array:
    """Return ``⟨Δ_i, Δ_j⟩ = ½[(δ_i·δ_j)(s_i·s_j) + (δ_i·s_j)(s_i·δ_j)]``, (…, n)."""
    straight = (delta @ delta_.T) * (total @ total_.T)
    return 0.5 * (straight + (delta @ total_.T) * (total @ delta_.T))


def span_of(rows: Rows) -> Basis:
    """Return a basis of what the answers reveal, from the eigenvectors of AAᵀ (n, n)."""
    delta = np.concatenate([b.reshape(-1, rows.d) for b in rows.delta])
    total = np.concatenate([s.reshape(-1, rows.d) for s in rows.total])
    K = inner_products(delta, total, delta, total)
    blurred = 10.0 * len(K) * np.finfo(float).eps * float(np.max(np.diagonal(K), initial=0.0))
    for _ in range(2):  # from the left, and by symmetry from the right
        K = rows.remove_people(K).T
    values, vectors = np.linalg.eigh(0.5 * (K + K.T))
    kept = values > blurred
    return Basis(delta, total, vectors[:, kept] / np.sqrt(values[kept]), values[kept])


def _picked(blocks: list[Array], kept: list[NDArray[np.bool_]]) -> list[Array]:
    return [b[k] for b, k in zip(blocks, kept, strict=True) if np.any(k)]


def _gram(X: Array, Y: Array) -> Array:
    """Return ``XᵀY`` summed over people and answers: (P, m, i), (P, m, j) → (i, j)."""
    return X.reshape(-1, X.shape[2]).T @ Y.reshape(-1, Y.shape[2])


def read_rows(questions: Questions, tally: Tally) -> tuple[Rows | None, Rows]:
    """Return the rows of S, of people with answers to spare (None if there are none), and those of P, of everybody."""
    blocks = list(people_with_answers_to_spare(questions.people(width=questions.d), tally))
    p = degrees_of_freedom(questions.d)
    everybody = Rows([b.delta for b in blocks], [b.block.total for b in blocks], None, min(p, len(questions.pairs)))
    loud = [b for b in blocks if b.loud.size]
    if not loud:
        return None, everybody
    own = Rows(
        delta=[b.delta[b.loud] for b in loud],
        total=[b.block.total[b.loud] for b in loud],
        span=[b.span for b in loud],
        most=min(p, tally.spare),
    )
    return own, everybody


def nothing(unit: Array) -> Spectrum:
    """Return the spectrum of the zero operator, with its first few directions."""
    d = len(unit)
    directions = np.zeros((DIRECTIONS, degrees_of_freedom(d)))
    directions[np.arange(DIRECTIONS), np.arange(DIRECTIONS)] = 1.0
    nan = float("nan")
    return Spectrum(0, 0, 0, nan, nan, smat(directions), None, lambda delta: np.ones(len(delta)))


def explore(rows: Rows, unit: Array, seed: int = 0) -> Spectrum:
    """Return what passes over the answers tell of the spectrum of AᵀA, and how sure that is."""
    rng = np.random.default_rng(seed)
    if rows.n_rows <= DIRECT:
        basis = span_of(rows)
        return _from_basis(basis, basis.values, unit, rng, "")
    rank, exact = _sketched_rank(rows, rng)
    if rank == 0:
        return nothing(unit)
    if exact:
        basis = span_of(rows.some(DIRECT, rng))
        if basis.values.size == rank:  # some people reveal what all do
            values = np.linalg.eigvalsh(rows.gram(basis.evaluate, rank))
            return _from_basis(basis, values, unit, rng, "exact with probability one")
    return _by_solving(rows, rank, exact, unit, rng)


def _from_basis(basis: Basis, values: Array, unit: Array, rng: Generator, confidence: str) -> Spectrum:
    """Return the spectrum from a basis of the range and the eigenvalues there."""
    d, rank = len(unit), len(values)
    p = degrees_of_freedom(d)
    if rank == 0:
        return nothing(unit)
    rests = [svec(basis.rest_of(smat(rng.standard_normal(p)))) for _ in range(min(DIRECTIONS, p - rank))]

    def share(delta: Array) -> Array:
        inside = np.sum(basis.evaluate(delta, delta) ** 2, axis=1) / np.sum(delta**2, axis=1) ** 2
        return np.clip(1.0 - inside, 0.0, 1.0)

    return Spectrum(
        rank=rank,
        low=rank,
        high=rank,
        smallest=float(values[0]),
        largest=float(values[-1]),
        directions=in_given_units(_orthonormal(np.reshape(rests, (-1, p))), unit),
        open_share=None,
        share=share,
        confidence=confidence,
    )


def _by_solving(rows: Rows, rank: int, exact: bool, unit: Array, rng: Generator) -> Spectrum:
    """Return the spectrum from solves with A: random directions for its null space, inverse iteration for its end."""
    p = degrees_of_freedom(rows.d)
    A = rows.operator()
    solves = 2 * DIRECTIONS + 2 * INVERSE_STEPS
    iterations = int(np.clip(EFFORT / (solves * 4.0 * rows.n_rows * rows.d**2), 20, MOST_ITERATIONS))
    square = LinearOperator((p, p), matvec=lambda a: A.rmatvec(A.matvec(a)), dtype=np.float64)
    largest = float(eigsh(square, k=1, v0=rng.standard_normal(p), tol=1e-3, return_eigenvectors=False)[0])

    def solve(map_: LinearOperator, right: Array) -> Array:
        return np.asarray(lsmr(map_, right, atol=1e-14, btol=1e-14, conlim=1e12, maxiter=iterations)[0])

    x = rng.standard_normal((DIRECTIONS, p))
    rests = np.array([each - solve(A, A.matvec(each)) for each in x])
    shares = np.sum(rests**2, axis=1) / np.sum(x**2, axis=1)
    gone = shares <= RESOLUTION**2
    seen = np.array([np.linalg.norm(A.matvec(rest)) for rest in rests]) / np.linalg.norm(rests, axis=1)
    unseen = ~gone & (seen <= RESOLUTION * sqrt(largest))  # a proof: no answer depends on these
    if exact:
        low, high, told = rank, rank, "exact with probability one"
    elif np.all(unseen | gone):
        low, high, told = _rank_from_shares(shares, rank, rows.most, p)
    else:
        low, high = rank, rows.most
        told = f"{rank:,} are certain; {iterations} passes over the answers did not settle how many more"
    hardest = x[0] - rests[0]
    for _ in range(INVERSE_STEPS):  # inverse iteration within the range of AᵀA
        hardest = solve(A, solve(A.T, hardest / np.linalg.norm(hardest)))

    def share(delta: Array) -> Array:
        a = outer_difference(delta, delta)
        return np.array([np.sum((each - solve(A, A.matvec(each))) ** 2) / np.sum(each**2) for each in a])

    return Spectrum(
        rank=p if low == p else rank,
        low=low,
        high=high,
        smallest=float(np.sum(A.matvec(hardest) ** 2) / np.sum(hardest**2)),
        largest=largest,
        directions=in_given_units(_orthonormal(rests[unseen]), unit),
        open_share=None,
        share=share,
        confidence=told,
    )


def _orthonormal(directions: Array) -> Array:
    """Return orthonormal rows (k, p) with the same span."""
    return np.linalg.qr(directions.T)[0].T


def _sketched_rank(rows: Rows, rng: Generator) -> tuple[int, bool]:
    """Return the rank of ever larger sketches, and whether it is that of A."""
    enough = rows.most + rows.most // 4 + 16  # more columns than rank: their smallest eigenvalue stays clear of zero
    size = min(256, enough, SKETCH)
    while True:
        g, h = rng.standard_normal((2, rows.d, size))
        values = np.linalg.eigvalsh(rows.gram(partial(products, g=g, h=h), size))
        rank = int(np.sum(values > 10.0 * size * np.finfo(float).eps * values[-1]))
        if rank < 0.9 * size or size == enough:
            return rank, True
        if size == SKETCH:
            return rank, False
        size = min(2 * size, enough, SKETCH)


def _rank_from_shares(shares: Array, rank: int, most: int, p: int) -> tuple[int, int, str]:
    """Return an interval of the rank from the shares of random directions that are not seen, and the sentence."""
    if np.all(shares <= RESOLUTION**2):
        chance = (RESOLUTION * sqrt(2.0 * p / pi)) ** len(shares)
        return p, p, f"wrong with probability at most {chance:.0e}"
    share = float(np.mean(shares))
    blur = 2.0 * p * sqrt(2.0 * share * (1.0 - share) / ((p + 2.0) * len(shares)))
    low = max(rank, int(np.floor(p * (1.0 - share) - blur)))
    high = min(most, int(np.ceil(p * (1.0 - share) + blur)), p - 1)
    return low, max(low, high), f"95 % sure, from {len(shares)} random directions; {rank:,} are certain"
