"""The same operators if Sym(R^d) is too large for a p × p matrix: only products with them are computed.

S and P are AᵀA, with A as in `answer_map`. Three ways lead to the rank of A, its null space and its condition:

*Few answers to spare* (q): ``AAᵀ``, compressed to (q, q), has the eigenvalues of AᵀA, and its entries need no Δ, only
inner products of δ's and s's: ``⟨Δ_i, Δ_j⟩ = ½[(δ_i·δ_j)(s_i·s_j) + (δ_i·s_j)(s_i·δ_j)]``. That is exact.

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

from functools import partial
from math import pi, sqrt
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh, lsmr

from crowdmetric.identifiability.answer_map import AnswerMap, Basis, span_of
from crowdmetric.identifiability.person_spans import products
from crowdmetric.identifiability.spectrum import Spectrum, in_given_units
from crowdmetric.symmetric import degrees_of_freedom, outer_difference, smat, svec

__all__ = ["explore", "nothing"]

Array = NDArray[Any]

DIRECT = 3000  # independent rows at most whose AAᵀ is decomposed: 72 MB
MOST_ANSWERS = 20_000  # that they may be combined from
SKETCH = 4096  # test matrices at most: the sketch is 134 MB
DIRECTIONS = 3
INVERSE_STEPS = 3
# limit on multiplications in the largest sketch and in all LSMR solves together: a minute or two of one core
EFFORT = 1e12
MOST_ITERATIONS = 1000
# Singular values below this share of the largest count as zero, as in the decomposition of the whole.
RESOLUTION = 1e-6


def nothing(unit: Array) -> Spectrum:
    """Return the spectrum of the zero operator, with its first few directions."""
    d = len(unit)
    directions = np.zeros((DIRECTIONS, degrees_of_freedom(d)))
    directions[np.arange(DIRECTIONS), np.arange(DIRECTIONS)] = 1.0
    nan = float("nan")
    return Spectrum(0, 0, 0, nan, nan, smat(directions), None, lambda delta: np.ones(len(delta)))


def explore(rows: AnswerMap, unit: Array, seed: int = 0) -> Spectrum:
    """Return what passes over the answers tell of the spectrum of AᵀA, and how sure that is."""
    rng = np.random.default_rng(seed)
    if rows.most <= DIRECT and rows.n_rows <= MOST_ANSWERS and rows.own_rank <= DIRECT:
        basis = span_of(rows)
        return _from_basis(basis, basis.values, unit, rng, "")
    rank, exact = _sketched_rank(rows, rng)
    if rank == 0:
        return nothing(unit)
    if exact:
        wanted = min(DIRECT, 3 * (rank + rows.d) // 2 + 100)  # half as many again, and what locating people takes
        basis = span_of(rows.some(wanted, rng))
        if basis.values.size == rank:  # if some people reveal everything, the others need not be used
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


def _by_solving(rows: AnswerMap, rank: int, exact: bool, unit: Array, rng: Generator) -> Spectrum:
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
        low, high, confidence = rank, rank, "exact with probability one"
    elif np.all(unseen | gone):
        low, high, confidence = _rank_from_shares(shares, rank, rows.most, p)
    else:
        low, high = rank, rows.most
        confidence = f"{rank:,} are certain; {iterations} passes over the answers did not settle how many more"
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
        confidence=confidence,
    )


def _orthonormal(directions: Array) -> Array:
    """Return orthonormal rows (k, p) with the same span."""
    return np.linalg.qr(directions.T)[0].T


def _sketched_rank(rows: AnswerMap, rng: Generator) -> tuple[int, bool]:
    """Return the rank of ever larger sketches, and whether it is that of A."""
    enough = rows.most + rows.most // 4 + 16  # more columns than rank: their smallest eigenvalue stays clear of zero
    largest = min(SKETCH, max(64, int(sqrt(EFFORT / rows.n_rows))))
    size = min(256, enough, largest)
    while True:
        g, h = rng.standard_normal((2, rows.d, size))
        values = np.linalg.eigvalsh(rows.gram(partial(products, g=g, h=h), size))
        rank = int(np.sum(values > 10.0 * size * np.finfo(float).eps * values[-1]))
        if rank < 0.9 * size or size == enough:
            return rank, True
        if size == largest:
            return rank, False
        size = min(2 * size, enough, largest)


def _rank_from_shares(shares: Array, rank: int, most: int, p: int) -> tuple[int, int, str]:
    """Return an interval of the rank from the shares of random directions that are not seen, and its description."""
    if np.all(shares <= RESOLUTION**2):
        chance = (RESOLUTION * sqrt(2.0 * p / pi)) ** len(shares)
        return p, p, f"wrong with probability at most {chance:.0e}"
    share = float(np.mean(shares))
    blur = 2.0 * p * sqrt(2.0 * share * (1.0 - share) / ((p + 2.0) * len(shares)))
    low = max(rank, int(np.floor(p * (1.0 - share) - blur)))
    high = min(most, int(np.ceil(p * (1.0 - share) + blur)), p - 1)
    return low, max(low, high), f"about 95 % sure, from {len(shares)} random directions; {rank:,} are certain"
