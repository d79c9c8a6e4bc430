"""Linear maps that are applied and not stored: above all ``Π: A ↦ (B_λᵀ A B_λ)_λ``, what subspaces see of a metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.symmetric import degrees_of_freedom, outer_difference, smat, svec

__all__ = ["DENSE_UNKNOWNS", "DenseRows", "LinearMap", "Matrices", "OneProblem", "SubspaceMap", "WeightedMap", "gram"]

Array = NDArray[np.float64]
Matrices = Array | Sequence[Array]

# Numbers in one block of dense rows, and in one temporary of a product (32 MiB). Smaller pieces are no faster
# and make BLAS threads wait for each other more often.
BLOCK_ENTRIES = 2**22

# How far a basis may be from orthonormal, and a matrix from symmetric, by rounding of what was written to a file.
ORTHONORMAL = 1e-6
SYMMETRIC = 1e-8
# Up to this many unknowns (d = 62) a p × p matrix is formed and factorized, which takes a second or two.
DENSE_UNKNOWNS = 2000


@dataclass(frozen=True)
class _Group:
    """The subspaces of one rank: their numbers, transposed bases, and where they are in the image."""

    index: NDArray[np.intp]  # (k,)
    bases: Array  # (k, r, d), one basis vector per row
    start: int

    @property
    def rank(self) -> int:
        return int(self.bases.shape[1])

    @property
    def width(self) -> int:
        """Number of svec entries of one subspace, p_r."""
        return degrees_of_freedom(self.rank)

    @property
    def part(self) -> slice:
        return slice(self.start, self.start + self.index.size * self.width)

    def chunks(self, entries_each: int, limit: int) -> Iterator[tuple[slice, slice]]:
        """Yield (subspaces of the group, entries of the image); a chunk has at most about `limit` numbers."""
        size = max(1, limit // entries_each)
        for first in range(0, self.index.size, size):
            last = min(first + size, self.index.size)
            yield slice(first, last), slice(self.start + first * self.width, self.start + last * self.width)


class SubspaceMap:
    """The operator ``Π: A ↦ (B_λᵀ A B_λ)_λ`` on svec vectors, never stored.

    The image is one vector: the svec entries of every subspace, subspaces of equal rank together (in order,
    lowest rank first). `pack` and `unpack` translate between it and matrices in the caller's order.

    Parameters
    ----------
    bases
        (n, d, r) orthonormal bases, or a list of (d, r_λ).
    """

    def __init__(self, bases: Matrices) -> None:
        arrays = [np.asarray(B, dtype=float) for B in bases] if not isinstance(bases, np.ndarray) else bases
        _check_bases(arrays)
        self.d = int(arrays[0].shape[0])
        self.ranks = np.array([B.shape[1] for B in arrays])
        self._groups: list[_Group] = []
        start = 0
        for rank in np.unique(self.ranks):
            index = np.flatnonzero(self.ranks == rank)
            stacked = np.stack([arrays[i] for i in index]) if isinstance(arrays, list) else arrays
            rows = np.ascontiguousarray(stacked.transpose(0, 2, 1), dtype=float)
            group = _Group(index, rows, start)
            _check_orthonormal(group)
            self._groups.append(group)
            start = group.part.stop
        self.shape = (start, degrees_of_freedom(self.d))

    @property
    def entries(self) -> int:
        """Σ r_λ², the number of entries of all Q̂_λ."""
        return int(np.sum(self.ranks**2))

    @property
    def multiplicity(self) -> Array:
        """How many entries of Q̂_λ each entry of the image stands for: 1 on the diagonal, 2 off it."""
        return np.concatenate([np.tile(svec(np.ones((g.rank, g.rank))) ** 2, g.index.size) for g in self._groups])

    def forward(self, a: Array) -> Array:
        """Return Π(A) (n_entries,) of ``a = svec(A)  (p,)``."""
        A, image = smat(np.asarray(a, dtype=float).reshape(-1)), np.empty(self.shape[0])
        for group in self._groups:
            for some, part in group.chunks(group.rank * self.d, BLOCK_ENTRIES):
                B = group.bases[some]
                BA = (B.reshape(-1, self.d) @ A).reshape(B.shape)  # one product for all bases of the chunk
                # on lines a batched product would be one tiny BLAS call each
                seen = np.einsum("nrd,nrd->n", BA, B) if group.rank == 1 else svec(BA @ B.transpose(0, 2, 1))
                image[part] = seen.reshape(-1)
        return image

    def adjoint(self, u: Array) -> Array:
        """Return svec of ``Π*(R) = Σ_λ B_λ R_λ B_λᵀ  (p,)`` where u holds the svec entries of the R_λ."""
        u, total = np.asarray(u, dtype=float).reshape(-1), np.zeros((self.d, self.d))
        for group in self._groups:
            for some, part in group.chunks(group.rank * self.d, BLOCK_ENTRIES):
                B = group.bases[some]
                R = u[part].reshape(-1, group.width)
                RB = R[:, :, None] * B if group.rank == 1 else smat(R) @ B
                total += B.reshape(-1, self.d).T @ RB.reshape(-1, self.d)
        return svec(total)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield dense rows of Π, whole subspaces at a time: ``(s, Π[s])``."""
        for _, _, part, rows in self.subspace_blocks():
            yield part, rows.reshape(-1, self.shape[1])

    def subspace_blocks(self) -> Iterator[tuple[int, slice, slice, Array]]:
        """Yield (group number, subspaces in it, entries of the image, rows (k, p_r, p))."""
        for number, group in enumerate(self._groups):
            i, j = np.triu_indices(group.rank)
            scale = svec(np.ones((group.rank, group.rank)))[:, None]
            for some, part in group.chunks(group.width * self.shape[1], BLOCK_ENTRIES):
                B = group.bases[some]
                # ⟨½(b_i b_jᵀ + b_j b_iᵀ), A⟩ = b_iᵀ A b_j
                yield number, some, part, scale * outer_difference(B[:, i], B[:, j])

    def matrix(self) -> Array:
        """Return Π as one dense matrix (n_entries, p); for small problems."""
        return np.vstack([rows for _, rows in self.blocks()])

    def pack(self, metrics: Matrices) -> Array:
        """Return the vector of symmetric matrices given in the order of the bases."""
        _check_count("metrics", metrics, self.ranks.size)
        return np.concatenate([svec(_metrics_of(group, metrics)).reshape(-1) for group in self._groups])

    def unpack(self, image: Array) -> list[Array]:
        """Return the matrices (r_λ, r_λ) of a vector, in the order of the bases."""
        found: list[Array] = [np.empty(0)] * self.ranks.size
        for group in self._groups:
            for i, R in zip(group.index, smat(image[group.part].reshape(-1, group.width)), strict=True):
                found[i] = R
        return found

    def factors(self, information: Matrices) -> list[Array]:
        """Return the symmetric roots of information matrices, one (k, p_r, p_r) per group."""
        _check_count("information matrices", information, self.ranks.size)
        return [_roots_of(group, information) for group in self._groups]

    def apply(self, factors: list[Array], image: Array) -> Array:
        """Multiply every subspace's entries by its factor."""
        return np.concatenate(
            [
                (F @ image[group.part].reshape(-1, group.width, 1)).reshape(-1)
                for group, F in zip(self._groups, factors, strict=True)
            ]
        )


class WeightedMap:
    """``I_λ^½ Π_λ``: least squares in its image is least squares weighted by the information I_λ."""

    def __init__(self, subspaces: SubspaceMap, information: Matrices) -> None:
        self.subspaces, self.shape = subspaces, subspaces.shape
        self._factors = subspaces.factors(information)
        if not any(np.any(F) for F in self._factors):
            raise DataError(
                "every information matrix is zero, so nothing is known of any subspace; "
                "give the data's information or use method='ols'"
            )

    def weigh(self, image: Array) -> Array:
        return self.subspaces.apply(self._factors, image)

    def forward(self, a: Array) -> Array:
        return self.weigh(self.subspaces.forward(a))

    def adjoint(self, u: Array) -> Array:
        return self.subspaces.adjoint(self.weigh(np.asarray(u).reshape(-1)))  # the roots are symmetric

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        for number, some, part, rows in self.subspaces.subspace_blocks():
            yield part, (self._factors[number][some] @ rows).reshape(-1, self.shape[1])


def _check_bases(bases: Matrices) -> None:
    """Refuse anything but one (d, r) matrix per subspace with a common d and r ≤ d."""
    if len(bases) == 0:
        raise DataError("there are no subspaces to stitch; give at least one basis")
    if isinstance(bases, np.ndarray) and bases.ndim != 3:
        raise DataError(f"bases have shape {bases.shape}; expected (n, d, r), or a list of (d, r) matrices")
    for i, B in enumerate(bases):
        if B.ndim != 2 or B.shape[0] != bases[0].shape[0] or not 1 <= B.shape[1] <= B.shape[0]:
            raise DataError(
                f"basis {i} has shape {B.shape}; expected (d, r) with 1 ≤ r ≤ d and the same d for all "
                f"(basis 0 has shape {bases[0].shape})"
            )


def _check_orthonormal(group: _Group) -> None:
    """Refuse bases with NaN or whose columns are not orthonormal."""
    _check_finite("basis", group.bases, group)
    products = group.bases @ group.bases.transpose(0, 2, 1)
    error = np.abs(products - np.eye(group.rank)).max(axis=(1, 2))
    worst = int(np.argmax(error))
    if error[worst] > ORTHONORMAL:
        raise DataError(
            f"basis {group.index[worst]} is not orthonormal (BᵀB differs from the identity by "
            f"{error[worst]:.1e}, more than {ORTHONORMAL:.0e}); make it so, for example with numpy.linalg.qr"
        )


def _check_count(what: str, given: Matrices, n: int) -> None:
    if len(given) != n:
        raise DataError(f"there are {n} bases but {len(given)} {what}; give one per subspace")


def _check_finite(what: str, values: Array, group: _Group) -> None:
    bad = ~np.isfinite(values).all(axis=(1, 2))
    if np.any(bad):
        raise DataError(
            f"{what} {group.index[int(np.argmax(bad))]} has an entry that is not a finite number; "
            "leave that subspace out or repair it"
        )


def _gather(what: str, given: Matrices, group: _Group, size: int) -> Array:
    """Return the group's members of `given` as (k, size, size), finite and symmetric."""
    if isinstance(given, np.ndarray) and given.ndim == 3 and group.index.size == len(given):
        members = list(given)
    else:
        members = [np.asarray(given[i], dtype=float) for i in group.index]
    for i, member in zip(group.index, members, strict=True):
        if member.shape != (size, size):
            raise DataError(
                f"{what} {i} has shape {member.shape}, but its subspace of rank {group.rank} needs {(size, size)}"
            )
    stacked = np.asarray(members, dtype=float)
    _check_finite(what, stacked, group)
    turned = stacked.transpose(0, 2, 1)
    error = np.abs(stacked - turned).max(axis=(1, 2)) - SYMMETRIC * np.abs(stacked).max(axis=(1, 2))
    if np.any(error > 0.0):
        raise DataError(f"{what} {group.index[int(np.argmax(error))]} is not symmetric; give (Q + Q.T) / 2 instead")
    return 0.5 * (stacked + turned)


def _metrics_of(group: _Group, metrics: Matrices) -> Array:
    return _gather("metric", metrics, group, group.rank)


def _roots_of(group: _Group, information: Matrices) -> Array:
    """Return ``I^½  (k, p_r, p_r)`` by eigenvalues, so singular information is as good as any."""
    I = _gather("information", information, group, group.width)  # noqa: E741 - the letter of the formula
    values, vectors = np.linalg.eigh(I)
    bad = values[:, 0] < -SYMMETRIC * np.abs(values).max(axis=1)
    if np.any(bad):
        worst = int(np.argmax(bad))
        raise DataError(
            f"information {group.index[worst]} has the negative eigenvalue {values[worst, 0]:.3g}; "
            "it must be positive semi-definite, as a curvature of a convex loss is"
        )
    return (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ vectors.transpose(0, 2, 1)


class LinearMap(Protocol):
    """A linear map R^p → R^n that is never stored whole; rows are multiplied by √m."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        ...

    def forward(self, a: Array) -> Array:
        """Return ``X @ a  (n,)``."""
        ...

    def adjoint(self, u: Array) -> Array:
        """Return ``X.T @ u  (p,)``."""
        ...

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield ``(s, X[s])``, a moderate number of dense rows at a time, all rows once."""
        ...


@dataclass(frozen=True)
class DenseRows:
    """Rows that are a matrix ``X (n, p)`` already, or the matrices ``X (B, n, p)`` of B problems of one shape.

    With B problems vectors have the leading axis too.
    """

    X: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        n, p = self.X.shape[-2:]
        return n, p

    def forward(self, a: Array) -> Array:
        """Return ``X @ a``."""
        return self.X @ a if a.ndim == 1 else (self.X @ a[..., None])[..., 0]

    def adjoint(self, u: Array) -> Array:
        """Return ``X.T @ u``."""
        return u @ self.X if u.ndim == 1 else (u[..., None, :] @ self.X)[..., 0, :]

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield all rows at once."""
        yield slice(0, self.X.shape[-2]), self.X


@dataclass(frozen=True)
class OneProblem:
    """Any rows as a stack of one problem: a leading axis of length 1."""

    rows: LinearMap

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        return self.rows.shape

    def forward(self, a: Array) -> Array:
        """Return ``X @ a  (1, n)``."""
        return self.rows.forward(a[0])[None]

    def adjoint(self, u: Array) -> Array:
        """Return ``X.T @ u  (1, p)``."""
        return self.rows.adjoint(u[0])[None]

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield ``(s, X[s])`` with the leading axis."""
        for part, X in self.rows.blocks():
            yield part, X[None]


def gram(rows: LinearMap, weights: Array | None = None) -> Array:
    """Return ``X.T @ diag(weights) @ X  (p, p)``, accumulated block by block; for a stack (B, p, p)."""
    total: Array | None = None
    for part, X in rows.blocks():
        scaled = X if weights is None else X * np.sqrt(weights[..., part, None])
        product = np.swapaxes(scaled, -1, -2) @ scaled  # one array on both sides: BLAS computes half of it
        total = product if total is None else np.add(total, product, out=total)
    return np.zeros((rows.shape[1],) * 2) if total is None else total
