"""Quadratic spanning: whether items can teach a subspace metric."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.theory.arguments import coordinates
from crowdmetric.theory.pair_rows import design_rows, singular_values, whitened
from crowdmetric.users.projected import RANK_TOLERANCE

__all__ = ["quadratic_span_rank", "quadratically_spans", "span_rank"]

Array = NDArray[np.float64]


def quadratic_span_rank(items: ArrayLike, basis: ArrayLike | None = None) -> int:
    """Return the dimension of the span of ``{Δ ⊕ δ}`` over all pairs of items, at most ``r(r+1)/2 + r``.

    It is the rank of the N − 1 pairs with one fixed item, because ``Δ ⊕ δ`` of (x, x') is that of (x, x₀) less that of
    (x', x₀). It does not change under ``x ↦ T(x − c)`` with T invertible, so items are centered and whitened first;
    neither their scale nor their origin matters.

    Parameters
    ----------
    items
        (N, d) vectors.
    basis
        (d, r) orthonormal basis of a subspace V that contains them; None for all of R^d.

    Returns
    -------
    int
        What one person, asked everything, can reveal: this less the dimension of ``span{δ}`` degrees of freedom of M.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.theory import quadratic_span_rank
    >>> quadratic_span_rank(np.random.default_rng(0).normal(size=(12, 2)))
    5
    """
    return span_rank(coordinates(items, basis))


def quadratically_spans(items: ArrayLike, basis: ArrayLike | None = None) -> bool:
    """Say whether items are rich enough to reveal the metric on their space V (`def:quadratic-span`).

    Items quadratically span V (dimension r) if ``{Δ ⊕ δ}`` spans ``Sym(V) ⊕ V``, of dimension r(r+1)/2 + r. Then
    m = r + 1 answers of each of K = r(r+1)/2 people can identify the metric on V (`prop:quadsufficiency`, see
    `constructive_design`); otherwise no number of answers can (`prop:quadnecessary`). It takes r(r+1)/2 + r + 1 items
    that lie on no common quadric.

    Parameters
    ----------
    items, basis
        As in `quadratic_span_rank`.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.theory import quadratically_spans
    >>> items = np.random.default_rng(0).normal(size=(12, 2))
    >>> quadratically_spans(items), quadratically_spans(items[:3])
    (True, False)
    """
    x = coordinates(items, basis)
    return span_rank(x) == degrees_of_freedom(x.shape[1]) + x.shape[1]


def span_rank(x: Array) -> int:
    """Return the rank of ``{Δ ⊕ δ}`` over all pairs of the rows of x, which need no checking."""
    z = whitened(x)
    if z.shape[1] == 0:
        return 0
    star = np.column_stack([np.arange(1, len(z)), np.zeros(len(z) - 1, dtype=np.intp)])
    values = singular_values(design_rows(z, star), degrees_of_freedom(z.shape[1]) + z.shape[1])
    return int(np.sum(values > RANK_TOLERANCE * values[0]))
