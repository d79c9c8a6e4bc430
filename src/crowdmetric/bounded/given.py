"""What a set of subspaces is, subspaces given by the user, and which comparisons stay inside one of them.

Given as labels, one per item: the basis is the best rank-r fit to the items of a label, as in Experiment 3. Or as
bases: items go to the nearest. Linear subspaces through the origin, as in the paper, unless they are said to be affine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.checks import as_array
from crowdmetric.errors import DataError
from crowdmetric.symmetric import orthonormal_basis

__all__ = ["Subspaces", "assign_pairs", "given_subspaces", "residuals_of"]

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


def given_subspaces(
    items: Array, subspaces: ArrayLike | Sequence[ArrayLike], rank: int | None, *, affine: bool = False
) -> Subspaces:
    """Return the subspaces that `subspaces` names: labels (N,), or bases (n, d, r) or [(d, r), …].

    Parameters
    ----------
    items
        (N, d).
    subspaces
        One label per item (−1 or None: nowhere), or the bases themselves.
    rank
        Dimension of every subspace when labels are given; None finds it from the items of each label, which is
        right only if they lie in their subspace exactly.
    affine
        Subspaces need not pass through the origin: each is taken around the mean of its items. Labels only.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.subspaces import given_subspaces
    >>> items = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    >>> found = given_subspaces(items, [0, 0, 1, 1], rank=1)
    >>> len(found.bases)
    2
    """
    bases = _as_bases(subspaces, items.shape[1])
    if bases is not None:
        if affine:
            raise DataError("affine=True needs labels, because bases do not say where their subspaces lie; give labels")
        if rank is not None and any(B.shape[1] != rank for B in bases):
            raise DataError(
                f"rank={rank} contradicts bases of dimension {sorted({B.shape[1] for B in bases})}; leave rank=None"
            )
        return _nearest(items, bases)
    return _from_labels(items, as_array(subspaces, "subspaces"), rank, affine)


def _as_bases(subspaces: Any, d: int) -> tuple[Array, ...] | None:
    """Return orthonormal bases if that is what was given, None if it was labels."""
    first = subspaces[0] if isinstance(subspaces, list | tuple) and len(subspaces) else subspaces
    if np.ndim(first) < 2:
        return None
    bases = []
    for given in subspaces:
        B = np.asarray(given, dtype=np.float64)
        if B.ndim != 2 or B.shape[0] != d or not 1 <= B.shape[1] <= d or not np.all(np.isfinite(B)):
            raise DataError(
                f"a basis has shape {B.shape}, but items have {d} features; give finite (d, r) matrices with 1 ≤ r ≤ d"
            )
        off = np.abs(B.T @ B - np.eye(B.shape[1])).max()
        if off > 1e-8:
            # any basis names the subspace; the library works in an orthonormal one
            B = orthonormal_basis(B.T, rank=B.shape[1])
        bases.append(B)
    return tuple(bases)


def _from_labels(items: Array, labels: NDArray[Any], rank: int | None, affine: bool) -> Subspaces:
    if labels.shape != (items.shape[0],):
        raise DataError(
            f"subspaces has shape {labels.shape}, but there are {items.shape[0]} items; give one label per item "
            "(where pairs are vectors, give the subspaces as bases), or (d, r) bases"
        )
    if labels.dtype.kind == "f" and not np.all(labels == np.round(labels)):
        raise DataError(
            "subspaces holds NaN or fractional numbers; give integer or text labels, −1 for items in no subspace"
        )
    if labels.dtype.kind == "O" and not all(isinstance(label, str | int | None) for label in labels.tolist()):
        raise DataError("subspaces holds labels that are neither whole numbers nor text; give one of the two")
    known = _is_known(labels)
    if not np.any(known):
        raise DataError("no item has a subspace label; give a label other than −1 or None to some of them")
    names, inverse = np.unique(
        labels[known].astype(labels.dtype if labels.dtype != object else str), return_inverse=True
    )
    codes = np.full(items.shape[0], -1, dtype=np.intp)
    codes[known] = inverse
    bases: list[Array] = []
    offsets = np.zeros((len(names), items.shape[1]))
    for code, (name, rows) in enumerate(zip(names.tolist(), rows_by_code(codes, len(names)), strict=True)):
        members = items[rows]
        if affine:
            offsets[code] = members.mean(axis=0)
        try:
            bases.append(orthonormal_basis(members - offsets[code], rank))
        except DataError as error:
            raise DataError(f"subspace {name!r}: {error}") from None
        if bases[-1].shape[1] == 0:
            raise DataError(
                f"subspace {name!r} holds only {'equal' if affine else 'zero'} vectors; give it another label or −1"
            )
        if rank is None and len(names) > 1 and bases[-1].shape[1] == items.shape[1]:
            raise DataError(
                f"the items of subspace {name!r} span all {items.shape[1]} dimensions, so they lie in no subspace; "
                "give rank= to project them on one"
            )
    residuals = residuals_of(items, bases, offsets, codes)
    return Subspaces(tuple(bases), codes, tuple(names.tolist()), residuals, offsets)


def _is_known(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels (N,) name a subspace; −1, None and an empty text name none."""
    if labels.dtype.kind in "iuf":
        return np.asarray(labels != -1)
    return np.array([label not in (None, -1, "-1", "") for label in labels.tolist()])


def _nearest(items: Array, bases: tuple[Array, ...]) -> Subspaces:
    best = np.full(items.shape[0], -np.inf)
    codes = np.zeros(items.shape[0], dtype=np.intp)
    for code, B in enumerate(bases):
        inside = np.linalg.norm(items @ B, axis=1)
        better = inside > best
        codes[better], best[better] = code, inside[better]
    offsets = np.zeros((len(bases), items.shape[1]))
    return Subspaces(bases, codes, tuple(range(len(bases))), residuals_of(items, bases, offsets, codes), offsets)


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
