"""Subspace clusters: whether subspaces can teach the whole metric."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.bounded.subspace_map import DENSE_UNKNOWNS, Matrices, SubspaceMap
from crowdmetric.checks import whole_number
from crowdmetric.errors import DataError, NotIdentifiedError
from crowdmetric.inputs import check_items
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.theory.arguments import check_labels, distance
from crowdmetric.theory.pair_rows import singular_values
from crowdmetric.theory.spanning import quadratically_spans
from crowdmetric.users.projected import RANK_TOLERANCE

__all__ = ["is_subspace_clusterable", "least_number_of_subspaces", "smallest_singular_value", "spans_symmetric"]

Array = NDArray[np.float64]

# An item further than this share of its length from a subspace is not in it.
INSIDE = 1e-8


def is_subspace_clusterable(items: ArrayLike, bases: Matrices, labels: ArrayLike | None = None) -> bool:
    """Return whether items on subspaces determine the metric of the whole space (`def:subspace-clusterable`).

    Items are subspace-clusterable over V_λ if (1) the items in each V_λ quadratically span it, so its metric can
    be learned, and (2) ``{xxᵀ : x ∈ V_λ}`` spans Sym(R^d), so these metrics determine M
    (`prop:reconstruction-equiv`).

    Parameters
    ----------
    items
        (N, d) vectors.
    bases
        (n, d, r) orthonormal bases, or a list of (d, r_λ).
    labels
        (N,) number of each item's subspace, −1 for none; None takes all items that lie in V_λ.

    Examples
    --------
    >>> from crowdmetric.simulate import simulate_crowd
    >>> from crowdmetric.theory import is_subspace_clusterable
    >>> crowd = simulate_crowd(3, 8, 1, users=4, comparisons=3, seed=0)
    >>> is_subspace_clusterable(crowd.items, crowd.bases, crowd.labels)
    True
    """
    X, Bs = check_items(items), [np.asarray(B, dtype=float) for B in bases]
    spanning = spans_symmetric(Bs)
    if X.shape[1] != Bs[0].shape[0]:
        raise DataError(
            f"items have {X.shape[1]} features, but bases are of R^{Bs[0].shape[0]}; give both in one space"
        )
    if labels is None:
        members = [distance(X, B) <= INSIDE * np.linalg.norm(X, axis=1) for B in Bs]
    else:
        numbers = check_labels(labels, X.shape[0], len(Bs))
        members = [numbers == i for i in range(len(Bs))]
    rich = [bool(np.any(i)) and quadratically_spans(X[i], B) for i, B in zip(members, Bs, strict=True)]
    return spanning and all(rich)


def spans_symmetric(bases: Matrices) -> bool:
    """Return whether ``{xxᵀ : x ∈ V_λ}`` spans Sym(R^d): subspace metrics determine M (`prop:reconstruction-equiv`).

    This holds if and only if ``Π: A ↦ (B_λᵀ A B_λ)_λ`` is injective, so rank Π = d(d+1)/2 is checked. The cost is as in
    `smallest_singular_value`.

    Parameters
    ----------
    bases
        (n, d, r) orthonormal bases, or a list of (d, r_λ).

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.simulate import sample_subspaces
    >>> from crowdmetric.theory import spans_symmetric
    >>> lines = sample_subspaces(6, 3, 1, np.random.default_rng(0))
    >>> spans_symmetric(lines), spans_symmetric(lines[:5])
    (True, False)
    """
    values = _map_values(SubspaceMap(bases))
    return bool(values[-1] > RANK_TOLERANCE * values[0])


def smallest_singular_value(bases: Matrices) -> float:
    """Return ``σ_min(Π) = min ‖(B_λᵀ A B_λ)_λ‖ / ‖A‖_F`` over symmetric A: how well spread subspaces are.

    It divides the error bound of `thm:recovery_guarantee`; zero if the subspaces do not determine the metric. Computed
    exactly, by reducing Π to a triangle (p, p), p = d(d+1)/2, and its singular values: under a second for d = 30,
    a few for d = 60, and 8p² bytes of memory (3 GiB at d = 200).

    Parameters
    ----------
    bases
        (n, d, r) orthonormal bases, or a list of (d, r_λ).

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.simulate import sample_subspaces
    >>> from crowdmetric.theory import smallest_singular_value
    >>> smallest_singular_value(sample_subspaces(20, 3, 1, np.random.default_rng(0))) > 0
    True
    """
    values = _map_values(SubspaceMap(bases))
    return float(values[-1]) if values[-1] > RANK_TOLERANCE * values[0] else 0.0


def least_number_of_subspaces(d: int, ranks: int | Sequence[int], *, exact: bool = True) -> int:
    """Return how many subspaces are needed to determine a metric on R^d (`rmk:min_subspaces`).

    A subspace of dimension r shows r(r+1)/2 degrees of freedom of M, so ``Σ r_λ(r_λ+1)/2 ≥ d(d+1)/2`` is necessary
    (for lines: d(d+1)/2 of them). It is not sufficient: subspaces that meet see the same thing twice. Three planes of
    R³ are needed where counting says two; four subspaces of dimension 4 in R⁷ where counting says three. The rank of Π
    is largest for subspaces in general position, so the exact number is the first n for which n random subspaces
    determine M; that is tried, from the counting bound upwards.

    Parameters
    ----------
    d
        Dimension of the items.
    ranks
        One dimension for all subspaces, or those of the available subspaces; the largest are used first.
    exact
        False returns the counting bound, which is all that is offered for d > 62 unless all are lines.

    Raises
    ------
    NotIdentifiedError
        If all the subspaces at hand together are not enough.

    Examples
    --------
    >>> from crowdmetric.theory import least_number_of_subspaces
    >>> least_number_of_subspaces(3, 1), least_number_of_subspaces(3, 2)
    (6, 3)
    """
    p = degrees_of_freedom(whole_number(d, "d"))
    sizes = [ranks] * p if isinstance(ranks, int | np.integer) else sorted(ranks, reverse=True)
    for r in sizes:
        if not 1 <= r <= d:
            raise DataError(f"ranks holds {r}, but a subspace of R^{d} has a dimension from 1 to {d}; correct it")
    seen = np.cumsum([degrees_of_freedom(r) for r in sizes])
    n = int(np.searchsorted(seen, p)) + 1
    if exact and sizes and 1 < sizes[0] < d:
        if p > DENSE_UNKNOWNS:
            raise DataError(
                f"d={d} has {p} degrees of freedom, more than the {DENSE_UNKNOWNS} for which the exact number is "
                "computed; ask for the counting bound with exact=False"
            )
        while n <= len(sizes) and not _random_subspaces_span(d, sizes[:n]):
            n += 1
    if n > len(sizes):
        raise NotIdentifiedError(
            f"{len(sizes)} subspaces of the given ranks cannot determine the {p} degrees of freedom of a metric on "
            f"R^{d}; add subspaces or raise their dimensions"
        )
    return n


def _random_subspaces_span(d: int, ranks: Sequence[int]) -> bool:
    rng = np.random.default_rng(0)  # any draw attains the generic rank with probability one
    return spans_symmetric([np.linalg.qr(rng.standard_normal((d, r)))[0] for r in ranks])


def _map_values(operator: SubspaceMap) -> Array:
    return singular_values((rows for _, rows in operator.blocks()), operator.shape[1])
