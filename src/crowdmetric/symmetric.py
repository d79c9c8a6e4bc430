"""Symmetric matrices as vectors, and the few linear-algebra maps the model is made of.

Symmetric d×d matrices travel as *svec* vectors: the upper triangle row by row, off-diagonal entries
times √2, so ``⟨A, B⟩ = svec(A) @ svec(B)``; ``p = d(d+1)/2``. Every function takes leading batch axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isqrt
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from crowdmetric.errors import DataError

__all__ = [
    "as_like",
    "as_numpy",
    "components_of",
    "degrees_of_freedom",
    "describe_direction",
    "dimension",
    "entry_name",
    "factor_jacobian",
    "invertible",
    "orthonormal_basis",
    "outer_difference",
    "project_psd",
    "project_to_trace",
    "relative_error",
    "restrict",
    "shape_error",
    "smat",
    "svec",
    "svec_indices",
    "symmetric_kronecker",
]

Array = NDArray[Any]

ROOT2 = np.sqrt(2.0)


def as_like(array: NDArray[Any], like: Any) -> Any:
    """Return a NumPy array as one of the library and device of another; numbers, not row numbers, in its precision."""
    if isinstance(like, np.ndarray):
        return array
    dtype = like.dtype if array.dtype.kind == "f" else None
    return array_namespace(like).asarray(np.array(array), dtype=dtype, device=like.device)


def as_numpy(X: Any) -> NDArray[np.float64]:
    """Return an array of any library as NumPy's, in float64."""
    return np.asarray(X.cpu() if hasattr(X, "cpu") else X, dtype=np.float64)


def degrees_of_freedom(d: int) -> int:
    """Return ``p = d(d+1)/2``, the dimension of Sym(R^d).

    Examples
    --------
    >>> from crowdmetric.symmetric import degrees_of_freedom
    >>> degrees_of_freedom(10)
    55
    """
    return d * (d + 1) // 2


def dimension(p: int) -> int:
    """Return d with ``d(d+1)/2 == p``."""
    d = (isqrt(8 * p + 1) - 1) // 2
    if degrees_of_freedom(d) != p:
        raise DataError(f"{p} is not d(d+1)/2 for any d, so it cannot be the length of an svec vector")
    return d


@cache
def svec_indices(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Return rows, columns and scale (1 on the diagonal, √2 off it) of the svec entries."""
    rows, columns = np.triu_indices(d)
    scale = np.where(rows == columns, 1.0, ROOT2)
    for shared in (rows, columns, scale):
        shared.setflags(write=False)
    return rows, columns, scale


@cache
def _smat_places(d: int) -> NDArray[np.intp]:
    """Return which svec entry every entry (d, d) of a symmetric matrix is."""
    rows, columns, _ = svec_indices(d)
    places = np.empty((d, d), dtype=np.intp)
    places[rows, columns] = places[columns, rows] = np.arange(rows.size)
    places.setflags(write=False)
    return places


def svec(A: Array) -> Array:
    """Return the svec vectors ``(..., p)`` of symmetric matrices ``A (..., d, d)`` (the upper triangle is read).

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.symmetric import svec
    >>> svec(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3).tolist()
    [1.0, 2.828, 3.0]
    """
    rows, columns, scale = svec_indices(A.shape[-1])
    return A[..., rows, columns] * scale


def smat(a: Array) -> Array:
    """Return the symmetric matrices ``(..., d, d)`` whose svec vectors are ``a (..., p)``.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.symmetric import smat, svec
    >>> M = np.array([[1.0, 2.0], [2.0, 3.0]])
    >>> smat(svec(M)).round(12).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    d = dimension(a.shape[-1])
    return np.take((a / svec_indices(d)[2]).astype(a.dtype, copy=False), _smat_places(d), axis=-1)


def outer_difference(delta: Array, total: Array) -> Array:
    """Return ``svec(xxᵀ − x'x'ᵀ)`` from ``delta = x − x'`` and ``total = x + x'``.

    ``xxᵀ − x'x'ᵀ = ½(δ sᵀ + s δᵀ)`` with ``s = x + x'``: only d numbers of each are kept, never d².
    """
    rows, columns, scale = (as_like(shared, delta) for shared in svec_indices(delta.shape[-1]))
    half = 0.5 * scale
    return half * (delta[..., rows] * total[..., columns] + delta[..., columns] * total[..., rows])


def factor_jacobian(L: Array) -> Array:
    """Return the (p, d·k) derivative of ``svec(LLᵀ)`` with respect to the entries of L (d, k), row by row."""
    d, k = L.shape
    rows, columns, scale = svec_indices(d)
    J = np.zeros((rows.size, d, k))
    each = np.arange(rows.size)
    J[each, rows] += scale[:, None] * L[columns]
    J[each, columns] += scale[:, None] * L[rows]
    return J.reshape(rows.size, d * k)


def restrict(A: Array, B: Array) -> Array:
    """Return ``Π_V(A) = Bᵀ A B``, the metric seen inside the span of ``B (..., d, r)``."""
    return np.swapaxes(B, -1, -2) @ A @ B


def symmetric_kronecker(A: Array, B: Array) -> Array:
    """Return the ``(..., p, p)`` matrix of ``X ↦ ½(A X B + B X A)`` on svec vectors, A and B symmetric.

    The (ij, kl) entry, before the svec scaling of either pair, is
    ``¼(A_ik B_jl + A_il B_jk + B_ik A_jl + B_il A_jk)`` × the product of the two scales.
    """
    rows, columns, scale = svec_indices(A.shape[-1])
    i, j = rows[:, None], columns[:, None]
    k, l = rows[None, :], columns[None, :]  # noqa: E741 - the index letters of the formula
    total = (
        A[..., i, k] * B[..., j, l]
        + A[..., i, l] * B[..., j, k]
        + B[..., i, k] * A[..., j, l]
        + B[..., i, l] * A[..., j, k]
    )
    return 0.25 * scale[:, None] * scale[None, :] * total


def project_psd(A: Array) -> Array:
    """Return the nearest positive semi-definite matrices in Frobenius norm: negative eigenvalues become zero.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.symmetric import project_psd
    >>> project_psd(np.diag([2.0, -1.0])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    values, vectors = np.linalg.eigh(0.5 * (A + np.swapaxes(A, -1, -2)))
    return (vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def project_to_trace(A: Array) -> Array:
    """Return the nearest positive semi-definite matrices of the same traces, which must be positive.

    A number is taken off all eigenvalues before negative ones become zero, such that their sum stays.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.symmetric import project_to_trace
    >>> project_to_trace(np.diag([3.0, 2.0, -1.0])).tolist()
    [[2.5, 0.0, 0.0], [0.0, 1.5, 0.0], [0.0, 0.0, 0.0]]
    """
    values, vectors = np.linalg.eigh(0.5 * (A + np.swapaxes(A, -1, -2)))
    falling = values[..., ::-1]
    # what to take off where the k largest stay
    off = (np.cumsum(falling, axis=-1) - np.sum(values, axis=-1, keepdims=True)) / np.arange(1, values.shape[-1] + 1)
    last = np.sum(falling > off, axis=-1, keepdims=True) - 1
    values = np.maximum(values - np.take_along_axis(off, last, axis=-1), 0.0)
    return (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def invertible(covariance: Array) -> Array:
    """Return a covariance (d, d) that varies in every direction: 1e-11 of its trace is added to the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.symmetric import invertible
    >>> bool(np.linalg.eigvalsh(invertible(np.diag([1.0, 0.0])))[0] > 0)
    True
    """
    return covariance + 1e-11 * np.trace(covariance) * np.eye(covariance.shape[0])


def components_of(M: Array) -> Array:
    """Return ``L (d, d)`` with ``M = LᵀL``, rows by falling eigenvalue: ``‖L(x − x')‖`` is the learned distance.

    The sign of each row makes its largest entry positive, so equal metrics have equal components.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.symmetric import components_of
    >>> L = components_of(np.diag([4.0, 1.0]))
    >>> (L.T @ L).round(12).tolist()
    [[4.0, 0.0], [0.0, 1.0]]
    """
    values, vectors = np.linalg.eigh(0.5 * (M + M.T))
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = np.argmax(np.abs(vectors), axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return (vectors * signs * np.sqrt(np.maximum(values, 0.0))).T


def orthonormal_basis(X: Array, rank: int | None = None, tolerance: float = 1e-10) -> Array:
    """Return an orthonormal basis ``(d, rank)`` of the span of the rows of ``X (N, d)``.

    With `rank` given it is the best rank-`rank` subspace in least squares (Eckart–Young), from all rows;
    otherwise the rank is the number of singular values above ``tolerance`` × the largest.
    """
    # the triangle has the same right singular vectors as X, and d rows instead of N
    tall = X.shape[0] > X.shape[1]
    _, values, directions = np.linalg.svd(np.linalg.qr(X)[1] if tall else X, full_matrices=False)
    found = int(np.sum(values > tolerance * values[0])) if values.size and values[0] > 0 else 0
    if rank is None:
        rank = found
    elif rank > directions.shape[0] or found < rank:
        raise DataError(
            f"a subspace of dimension {rank} was asked for, but {X.shape[0]} items span only {found}; "
            "lower rank or give more items"
        )
    return directions[:rank].T


def relative_error(estimate: Array, truth: Array) -> float:
    """Return ``‖M̂ − M‖_F / ‖M‖_F``.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.symmetric import relative_error
    >>> relative_error(1.5 * np.eye(3), np.eye(3))
    0.5
    """
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def shape_error(estimate: Array, truth: Array) -> float:
    """Return the relative error after the best scalar rescaling, ``min_c ‖c M̂ − M‖_F / ‖M‖_F``.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.symmetric import shape_error
    >>> round(shape_error(1.5 * np.eye(3), np.eye(3)), 12)
    0.0
    """
    size = float(np.sum(estimate * estimate))
    best = float(np.sum(estimate * truth)) / size if size > 0 else 0.0
    return relative_error(max(best, 0.0) * estimate, truth)


def describe_direction(a: Array, most: int = 3, names: Sequence[str] | None = None) -> str:
    """Return a direction of Sym(R^d), given as an svec vector, in words: its largest entries, ``M[0, 3] (0.71), …``."""
    order = np.argsort(-np.abs(a))[:most]
    kept = [i for i in order if abs(a[i]) > 0.05 * abs(a[order[0]])]
    return ", ".join(f"{entry_name(a.shape[-1], i, names)} ({a[i]:+.2f})" for i in kept)


def entry_name(p: int, i: int, names: Sequence[str] | None = None) -> str:
    """Return the name of the i-th of p svec entries: ``M[0, 3]``, or ``M[price, comfort]`` with names of features."""
    rows, columns, _ = svec_indices(dimension(p))
    row, column = int(rows[i]), int(columns[i])
    return f"M[{row}, {column}]" if names is None else f"M[{names[row]}, {names[column]}]"
