"""What a set of subspaces is, and which comparisons stay inside one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Subspaces", "assign_pairs", "residuals_of", "rows_by_code"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# An item this close to a subspace, relative to its length, lies in it up to rounding.
INSIDE = 1e-8


@dataclass(frozen=True)
class Subspaces:
    """Subspaces of R^d and the items near them.

    Attributes
    ----------
    bases
        Orthonormal (d, r_λ), one per subspace.
    labels
        (N,) number of each item's subspace; −1 for none.
    names
        What the caller called the subspaces.
    residuals
        (N,) distance of each item from its subspace, relative to its length (0: inside; 1 where it has none).
    offsets
        (n, d) a point of each subspace: zero, unless the subspaces are affine. Lengths are measured from it.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.subspaces import given_subspaces
    >>> found = given_subspaces(np.eye(3), [0, 0, 1], rank=None)
    >>> [basis.shape for basis in found.bases]
    [(3, 2), (3, 1)]
    """

    bases: tuple[Array, ...]
    labels: Indices
    names: tuple[Any, ...]
    residuals: Array
    offsets: Array

    @property
    def ranks(self) -> Indices:
        """Dimension of each subspace, (n,)."""
        return np.array([B.shape[1] for B in self.bases], dtype=np.intp)


def residuals_of(items: Array, bases: Sequence[Array], offsets: Array, codes: Indices) -> Array:
    """Return the distance (N,) of each item from its subspace, relative to its length from the offset."""
    residuals = np.ones(items.shape[0])
    for code, rows in enumerate(rows_by_code(codes, len(bases))):
        residuals[rows] = _distance(items[rows] - offsets[code], bases[code])
    return residuals


def _distance(x: Array, B: Array) -> Array:
    """Return the distance of rows of x from span(B), relative to their length (0 for the zero vector)."""
    length = np.linalg.norm(x, axis=1)
    return np.linalg.norm(x - (x @ B) @ B.T, axis=1) / np.where(length > 0, length, 1.0)


def rows_by_code(codes: Indices, n: int) -> list[Indices]:
    """Return the rows of each code 0 … n − 1, in their order; codes of −1 are left out."""
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(n + 1))
    return [order[start:end] for start, end in pairwise(edges)]


def assign_pairs(items: Array, pairs: Indices, subspaces: Subspaces) -> Indices:
    """Return the subspace (T,) that both items of each pair lie in; −1 for comparisons across subspaces.

    Items with one label are inside by definition. Otherwise both may still lie in a subspace, where subspaces
    meet; that is checked up to rounding, in all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.subspaces import assign_pairs, given_subspaces
    >>> items = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    >>> assign_pairs(items, np.array([[0, 1], [2, 3]]), given_subspaces(items, [0, 0, 1, 1], rank=1)).tolist()
    [0, 1]
    """
    left, right = subspaces.labels[pairs[:, 0]], subspaces.labels[pairs[:, 1]]
    found = np.where(left == right, left, -1)
    # where subspaces meet, an item lies exactly in its own: others cannot lie in a second one
    exact = subspaces.residuals < INSIDE
    open_rows = np.flatnonzero((left != right) & exact[pairs[:, 0]] & exact[pairs[:, 1]])
    for code, (B, o) in enumerate(zip(subspaces.bases, subspaces.offsets, strict=True)):
        if open_rows.size == 0:
            break
        inside = np.all([_distance(items[pairs[open_rows, side]] - o, B) < INSIDE for side in (0, 1)], axis=0)
        found[open_rows[inside]] = code
        open_rows = open_rows[~inside]
    return found
