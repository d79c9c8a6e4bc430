"""Designs that determine a subspace metric with r + 1 answers per person."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr

from crowdmetric.checks import whole_number
from crowdmetric.errors import DataError, NotIdentifiedError
from crowdmetric.inputs import check_items
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.theory.arguments import check_pairs, coordinates
from crowdmetric.theory.pair_rows import design_rows, pair_rows, singular_values, whitened
from crowdmetric.theory.spanning import span_rank
from crowdmetric.users.projected import RANK_TOLERANCE

__all__ = ["constructive_design", "design_matrix", "design_strength", "random_design"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Numbers in one temporary array.
CHUNK = 1 << 20


def design_matrix(items: ArrayLike, pairs: ArrayLike) -> Array:
    """Return the rows ``svec(Δ) ⊕ δ  (..., m, p + d)`` of pairs (..., m, 2) (`def:design`).

    ``D(A, w)_i = ⟨Δ_i, A⟩ + ⟨δ_i, w⟩``, so ``D @ concatenate([svec(M), v])`` are a person's unquantized answers.

    Parameters
    ----------
    items
        (N, d) vectors.
    pairs
        Row numbers of left and right items.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.theory import design_matrix
    >>> design_matrix(np.random.default_rng(0).normal(size=(6, 2)), [[0, 1], [2, 3]]).shape  # 3 for M, 2 for v
    (2, 5)
    """
    X = check_items(items)
    return pair_rows(X, check_pairs(pairs, X.shape[0]))


def design_strength(items: ArrayLike, pairs: ArrayLike, basis: ArrayLike | None = None) -> float:
    """Return ``σ²_min(P_m) = σ_min(E[D*D]) / m`` of designs of m pairs (`def:design`).

    The expectation is the mean over the K designs given. For draws from a law it is an estimate, low on average (the
    smallest eigenvalue is concave). For the uniform draws of `random_design` from a pool of n pairs it is exact with
    the whole pool as one design: ``σ_min(D*D) / n`` for every m (`rmk:min-singular-Pm`, which leaves out the 1/n).

    Parameters
    ----------
    items
        (N, d) vectors.
    pairs
        (K, m, 2) row numbers, one design per person; or (m, 2) for one design.
    basis
        (d, r) orthonormal basis of the subspace the items lie in; None for R^d.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.theory import design_strength
    >>> items = np.random.default_rng(0).normal(size=(30, 2))
    >>> design_strength(items, np.arange(30).reshape(15, 2)) > 0
    True
    """
    x = coordinates(items, basis)
    chosen = check_pairs(pairs, x.shape[0]).reshape(-1, 2)
    if not len(chosen):
        raise DataError("pairs is empty, but a design has at least one pair; give (K, m, 2) row numbers")
    values = singular_values(design_rows(x, chosen), degrees_of_freedom(x.shape[1]) + x.shape[1])
    return float(values[-1] ** 2) / len(chosen) if values[-1] > RANK_TOLERANCE * values[0] else 0.0


def constructive_design(items: ArrayLike, basis: ArrayLike | None = None) -> Indices:
    """Return the questions that prove `prop:quadsufficiency`: the metric on V from r + 1 answers per person.

    From pairs with ``Δ_i ⊕ δ_i`` a basis of ``Sym(V) ⊕ V`` and δ_1…δ_r a basis of V, every person is asked the
    first r and one more of the others. The combination of their answers in which the δ's cancel shows one degree
    of freedom of M, another one for each person. All pairs share one item; among those, pivoted QR takes the best
    conditioned.

    Parameters
    ----------
    items
        (N, d) vectors that quadratically span V.
    basis
        (d, r) orthonormal basis of V; None for R^d.

    Returns
    -------
    (K, m, 2) row numbers
        K = r(r+1)/2 people, m = r + 1 pairs each.

    Raises
    ------
    NotIdentifiedError
        If the items do not quadratically span V.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.theory import constructive_design
    >>> constructive_design(np.random.default_rng(0).normal(size=(20, 2))).shape
    (3, 3, 2)
    """
    x = coordinates(items, basis)
    r = x.shape[1]
    _require_span(span_rank(x), r)
    z = whitened(x)
    center = int(np.argmin(np.sum(z * z, axis=1)))
    others = np.delete(np.arange(len(z)), center)
    star = np.column_stack([others, np.full_like(others, center)])
    D = pair_rows(z, star)
    shared = _pivots(D[:, -r:], r)
    Q = np.linalg.qr(D[shared].T)[0]
    own = _pivots(D - (D @ Q) @ Q.T, degrees_of_freedom(r))
    together = np.broadcast_to(star[shared], (len(own), r, 2))
    return np.concatenate([together, star[own][:, None, :]], axis=1)


def random_design(
    items: ArrayLike,
    users: int,
    comparisons: int,
    *,
    pairs: ArrayLike | None = None,
    basis: ArrayLike | None = None,
    seed: int = 0,
) -> Indices:
    """Return m pairs for each of K people, drawn uniformly with replacement from a pool (`rmk:min-singular-Pm`).

    If the pool's ``Δ ⊕ δ`` span ``Sym(V) ⊕ V`` then ``σ²_min(P_m) = σ_min(D*D) / n > 0`` does not depend on m, as
    `prop:recovery_hat_Q` needs; ``design_strength(items, pool)`` computes it.

    Parameters
    ----------
    items
        (N, d) vectors.
    users, comparisons
        K and m.
    pairs
        (n, 2) the pool, row numbers; None is all pairs of two items.
    basis
        (d, r) orthonormal basis of the subspace V the items lie in; None for R^d.
    seed
        Random seed.

    Returns
    -------
    (K, m, 2) row numbers

    Raises
    ------
    NotIdentifiedError
        If the pool does not span.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.theory import random_design
    >>> random_design(np.random.default_rng(0).normal(size=(20, 2)), users=3, comparisons=4).shape
    (3, 4, 2)
    """
    x = coordinates(items, basis)
    N, shape = len(x), (whole_number(users, "users"), whole_number(comparisons, "comparisons"))
    rng = np.random.default_rng(seed)
    if pairs is None:
        _require_span(span_rank(x), x.shape[1])
        left, step = rng.integers(N, size=shape), rng.integers(1, N, size=shape)
        return np.stack([left, (left + step) % N], axis=-1)
    pool = check_pairs(pairs, N).reshape(-1, 2)
    z = whitened(x)
    width = degrees_of_freedom(z.shape[1]) + z.shape[1]
    values = singular_values(design_rows(z, pool), width) if width else np.zeros(1)
    _require_span(int(np.sum(values > RANK_TOLERANCE * values[0])), x.shape[1])
    return pool[rng.integers(len(pool), size=shape)]


def _require_span(rank: int, r: int) -> None:
    full = degrees_of_freedom(r) + r
    if rank < full:
        raise NotIdentifiedError(
            f"these pairs of items span {rank} of the {full} dimensions of Sym(V) ⊕ V (dim V = {r}), so the metric on "
            f"V cannot be learned from them; give at least {full + 1} items that lie on no common quadric, or the "
            "basis of a smaller subspace that holds them"
        )


def _pivots(rows: Array, k: int) -> Indices:
    """Return the numbers of k well-conditioned rows."""
    order: Indices = qr(rows.T, mode="r", pivoting=True)[1].astype(np.intp)
    return order[:k]
