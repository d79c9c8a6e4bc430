"""From one small metric a subspace to one metric of the whole space (the second stage of Algorithms 1 and 2).

Inside the span of an orthonormal basis B_λ (d, r_λ) people see ``B_λᵀ M B_λ``. Given estimates Q̂_λ, find A::

    Π(A) = (B_λᵀ A B_λ)_λ ≈ (Q̂_λ)_λ          Π: Sym(R^d) → ⊕ Sym(R^r_λ),   Π*(R) = Σ_λ B_λ R_λ B_λᵀ

by least squares (``"ols"``), by least squares that trusts each entry as much as its data deserve
(``"weighted"``), or by Huber regression (``"huber"``), and project the answer on the positive semi-definite
cone. Matrices travel as svec vectors, in which Π and Π* are transposes of each other; p = d(d+1)/2 unknowns.

Up to `DENSE_UNKNOWNS` unknowns the p × p matrix ΠᵀΠ is formed; beyond, only products with Π and Π* are taken.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpocon, dpotrf
from scipy.sparse.linalg import LinearOperator, lsmr

from crowdmetric.errors import ConvergenceWarning, DataError, NotIdentifiedWarning
from crowdmetric.solvers.huber import Rows, gram, solve_huber
from crowdmetric.solvers.solution import Solution
from crowdmetric.symmetric import degrees_of_freedom, outer_difference, project_psd, smat, svec

__all__ = ["METHODS", "Stitched", "SubspaceMap", "stitch", "stitch_details"]

Array = NDArray[np.float64]
Matrices = Array | Sequence[Array]

METHODS = ("huber", "ols", "weighted")

# d = 54; a symmetric eigenproblem of this size takes about a second.
DENSE_UNKNOWNS = 1500
# Numbers in one block of dense rows, and in one temporary of a product (32 MiB). Smaller pieces are no faster
# and make BLAS threads wait for each other more often.
BLOCK_ENTRIES = 2**22
CHUNK_ENTRIES = 2**22

ORTHONORMAL = 1e-6
SYMMETRIC = 1e-8
# Eigenvalues of ΠᵀΠ below this share of the largest (a millionth, for Π itself) count as zero.
RANK_TOLERANCE = 1e-12
# Reciprocal condition number of ΠᵀΠ above which Cholesky and two refinements are as good as anything.
WELL_CONDITIONED = 1e-10
LSMR_TOLERANCE = 1e-9
LSMR_STEPS = 2000


@dataclass(frozen=True)
class Stitched:
    """A stitched metric and what stands behind it.

    Attributes
    ----------
    metric
        (d, d), positive semi-definite if that was asked for.
    unprojected
        (d, d), the regression's answer before the projection.
    residuals
        ``B_λᵀ A B_λ − Q̂_λ`` of the unprojected answer, one (r_λ, r_λ) a subspace.
    unknowns, identified
        p, and how many of these degrees of freedom the subspaces determine.
    rank_is_exact
        Whether `identified` was computed, or only bounded or estimated as there were too many unknowns.
    unidentified
        (k, d, d) orthonormal symmetric matrices along which the answer rests on convention (least norm): all
        ``unknowns − identified`` of them if the rank is exact, otherwise one sample where one was found.
    sigma
        The scale of the Huber loss; None for other methods.
    solution
        Objective as a mean over the entries of all Q̂_λ, iterations, time and a status sentence.
    """

    metric: Array
    unprojected: Array
    residuals: list[Array]
    unknowns: int
    identified: int
    rank_is_exact: bool
    unidentified: Array
    sigma: float | None
    solution: Solution

    def summary(self) -> str:
        """Return what was determined and how the regression ended, in two or three sentences."""
        about = "" if self.rank_is_exact else "about "
        return (
            f"The subspaces determine {about}{self.identified} of {self.unknowns} degrees of freedom. "
            f"{self.solution.summary()}"
        )


def stitch(
    bases: Matrices,
    metrics: Matrices,
    method: str = "huber",
    *,
    information: Matrices | None = None,
    psd: bool = True,
) -> Array:
    """Return the metric (d, d) that agrees best with the metrics seen inside subspaces.

    Parameters
    ----------
    bases
        (n, d, r) orthonormal bases B_λ, or a list of (d, r_λ).
    metrics
        (n, r, r) symmetric Q̂_λ, or a list of (r_λ, r_λ).
    method
        ``"huber"`` (scikit-learn's objective with its defaults, solved exactly), ``"ols"`` or ``"weighted"``.
    information
        (n, p_r, p_r), or a list: how well the data determine svec(Q̂_λ), for ``"weighted"``. A subspace with
        zero information is left out.
    psd
        Whether to project on the positive semi-definite cone.

    Warns
    -----
    NotIdentifiedWarning
        Where the subspaces do not determine every entry; the answer of least norm is returned.
    ConvergenceWarning
        Where a large problem was stopped short of its tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> M = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> bases = [np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]]), np.array([[0.6], [0.8]])]
    >>> stitch(bases, [B.T @ M @ B for B in bases], method="ols").round(6)
    array([[2., 1.],
           [1., 3.]])
    """
    return _stitch(bases, metrics, method, information, psd=psd).metric


def stitch_details(
    bases: Matrices,
    metrics: Matrices,
    method: str = "huber",
    *,
    information: Matrices | None = None,
    psd: bool = True,
    dense: bool | None = None,
    max_iterations: int | None = None,
) -> Stitched:
    """Do what `stitch` does and return all that is known about the answer.

    Parameters beyond those of `stitch`:

    dense
        True to form p × p matrices, False to use products only; by default decided by p.
    max_iterations
        Of the iterative methods (LSMR, Huber); each has its default.
    """
    return _stitch(bases, metrics, method, information, psd=psd, dense=dense, max_iterations=max_iterations)


def _stitch(
    bases: Matrices,
    metrics: Matrices,
    method: str,
    information: Matrices | None,
    *,
    psd: bool,
    dense: bool | None = None,
    max_iterations: int | None = None,
) -> Stitched:
    """Stitch; its warnings point at the caller of the public function that called it."""
    clock = perf_counter()
    _check_method(method, information)
    subspaces = SubspaceMap(bases)
    target = subspaces.pack(metrics)
    if method == "huber":
        fit = _huber(subspaces, target, dense, max_iterations)
    elif information is None:
        fit = _least_squares(subspaces, target, dense, max_iterations)
    else:
        weighted = _WeightedMap(subspaces, information)
        fit = _least_squares(weighted, weighted.weigh(target), dense, max_iterations)
    if fit.identified < subspaces.shape[1]:
        warnings.warn(_not_identified(fit), NotIdentifiedWarning, stacklevel=3)
    if not fit.converged:
        warnings.warn(fit.status, ConvergenceWarning, stacklevel=3)
    A = smat(fit.a)
    return Stitched(
        metric=project_psd(A) if psd else A,
        unprojected=A,
        residuals=subspaces.unpack(subspaces.forward(fit.a) - target),
        unknowns=subspaces.shape[1],
        identified=fit.identified,
        rank_is_exact=fit.rank_is_exact,
        unidentified=smat(fit.null_space),
        sigma=fit.sigma,
        solution=Solution(
            status=fit.status,
            converged=fit.converged,
            objective=fit.objective / subspaces.entries,
            gap=fit.gap / subspaces.entries,
            iterations=fit.iterations,
            seconds=perf_counter() - clock,
        ),
    )


def _check_method(method: str, information: Matrices | None) -> None:
    """Refuse an unknown method, and information that is missing or would be ignored."""
    if method not in METHODS:
        raise DataError(f"method is {method!r}, which is none of {', '.join(map(repr, METHODS))}")
    if method == "weighted" and information is None:
        raise DataError(
            "method='weighted' needs information, one (p_r, p_r) matrix a subspace; give it or use method='ols'"
        )
    if method != "weighted" and information is not None:
        raise DataError(f"method={method!r} makes no use of information; leave it out or use method='weighted'")


# ----------------------------------------------------------------------------------------------------
# The operator
# ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Group:
    """The subspaces of one rank: their numbers, transposed bases, and where they are in the image."""

    index: NDArray[np.intp]  # (k,)
    bases: Array  # (k, r, d), one basis vector a row
    start: int

    @property
    def rank(self) -> int:
        return int(self.bases.shape[1])

    @property
    def width(self) -> int:
        """Entries of the vector a subspace has, p_r."""
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
            for some, part in group.chunks(group.rank * self.d, CHUNK_ENTRIES):
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
            for some, part in group.chunks(group.rank * self.d, CHUNK_ENTRIES):
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

    def linear_operator(self) -> LinearOperator:
        """Return Π as a SciPy operator."""
        return _as_operator(self)

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
        """Return the symmetric roots of information matrices, one (k, p_r, p_r) a group."""
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


class _WeightedMap:
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


def _as_operator(rows: Rows) -> LinearOperator:
    return LinearOperator(rows.shape, matvec=rows.forward, rmatvec=rows.adjoint, dtype=float)


# ----------------------------------------------------------------------------------------------------
# Checks
# ----------------------------------------------------------------------------------------------------


def _check_bases(bases: Matrices) -> None:
    """Refuse what is not one (d, r) matrix a subspace with a common d and r ≤ d."""
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
        raise DataError(f"there are {n} bases but {len(given)} {what}; give one a subspace")


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
                f"{what} {i} has shape {member.shape}, but its subspace of rank {group.rank} asks for {(size, size)}"
            )
    stacked = np.asarray(members, dtype=float)
    _check_finite(what, stacked, group)
    turned = stacked.transpose(0, 2, 1)
    error = np.abs(stacked - turned).max(axis=(1, 2)) - SYMMETRIC * np.abs(stacked).max(axis=(1, 2))
    if np.any(error > 0.0):
        raise DataError(f"{what} {group.index[int(np.argmax(error))]} is not symmetric; give (Q + Q.T) / 2 if meant so")
    return 0.5 * (stacked + turned)


def _metrics_of(group: _Group, metrics: Matrices) -> Array:
    return _gather("metric", metrics, group, group.rank)


def _roots_of(group: _Group, information: Matrices) -> Array:
    """Return ``I^½  (k, p_r, p_r)`` by eigenvalues, so that singular information is as good as any."""
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


# ----------------------------------------------------------------------------------------------------
# The regressions
# ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fit:
    """A regression's answer in svec coordinates."""

    a: Array
    objective: float  # sum over entries
    identified: int
    null_space: Array  # (k, p)
    rank_is_exact: bool
    status: str
    converged: bool = True
    gap: float = np.nan
    iterations: int = 1
    sigma: float | None = None


@dataclass(frozen=True)
class _Normal:
    """The matrix ``G = XᵀX``, factorised: its rank, its null space and its (pseudo-)inverse."""

    rank: int
    null_space: Array  # (p − rank, p)
    solve: Callable[[Array], Array]


def _least_squares(rows: Rows, target: Array, dense: bool | None, max_iterations: int | None) -> _Fit:
    """Return the a of least norm among those that minimise ``‖X a − target‖²``."""
    if dense is None:
        dense = rows.shape[1] <= DENSE_UNKNOWNS
    return _by_factorisation(rows, target) if dense else _by_lsmr(rows, target, max_iterations or LSMR_STEPS)


def _by_factorisation(rows: Rows, target: Array) -> _Fit:
    normal = _factorise(rows)
    a = normal.solve(rows.adjoint(target))
    for _ in range(2):  # forming XᵀX squares the condition number; refinement wins the digits back
        a = a + normal.solve(rows.adjoint(target - rows.forward(a)))
    return _Fit(
        a=a,
        objective=float(np.sum((rows.forward(a) - target) ** 2)),
        identified=normal.rank,
        null_space=normal.null_space,
        rank_is_exact=True,
        status="Least squares was solved by factorisation.",
    )


def _factorise(rows: Rows) -> _Normal:
    """Factorise XᵀX by Cholesky if it is well conditioned, otherwise by eigenvalues."""
    p, G = rows.shape[1], gram(rows)
    if rows.shape[0] >= p:
        factor, info = dpotrf(G, lower=1)
        if info == 0 and dpocon(factor, np.abs(G).sum(axis=0).max(), uplo="L")[0] > WELL_CONDITIONED:
            return _Normal(p, np.empty((0, p)), lambda right: cho_solve((factor, True), right))
    values, vectors = np.linalg.eigh(G)
    keep = values > RANK_TOLERANCE * values[-1]
    V, inverse = vectors[:, keep], 1.0 / values[keep]
    return _Normal(int(keep.sum()), vectors[:, ~keep].T, lambda right: V @ (inverse * (V.T @ right)))


def _by_lsmr(rows: Rows, target: Array, max_iterations: int) -> _Fit:
    """Solve by LSMR, which started at zero stays in the row space and so ends at the answer of least norm."""
    tolerance = LSMR_TOLERANCE
    a, stop, iterations, *_ = lsmr(
        _as_operator(rows), target, atol=tolerance, btol=tolerance, conlim=0.0, maxiter=max_iterations
    )
    converged = stop != 7
    identified, sample = _probe(rows, max_iterations)
    return _Fit(
        a=a,
        objective=float(np.sum((rows.forward(a) - target) ** 2)),
        identified=identified,
        null_space=sample,
        rank_is_exact=False,
        status=(
            f"Least squares was solved by LSMR to a relative {tolerance:.0e}."
            if converged
            else f"LSMR stopped after {iterations} iterations, short of a relative {tolerance:.0e}; "
            "raise max_iterations in stitch_details."
        ),
        converged=converged,
        iterations=iterations,
    )


# A direction counts as unseen when X shrinks it to this share of what it makes of a random one.
UNSEEN = 1e-4
PROBE_TOLERANCE = 1e-7


def _probe(rows: Rows, max_iterations: int) -> tuple[int, Array]:
    """Return how many degrees of freedom are identified, and an unidentified direction (1, p) or none (0, p).

    Too few equations settle it. Otherwise fit ``X a = X g`` for a random g: the answer of least norm is the
    part of g in the row space, so ``g − a`` is in the null space, whose dimension is about ``‖g − a‖²``.
    """
    n, p = rows.shape
    if n < p:
        return n, np.empty((0, p))
    g = np.random.default_rng(0).standard_normal(p)
    seen = rows.forward(g)
    a, *_ = lsmr(
        _as_operator(rows),
        seen,
        atol=PROBE_TOLERANCE,
        btol=PROBE_TOLERANCE,
        conlim=0.0,
        maxiter=max_iterations,
    )
    rest = g - a
    size = float(np.linalg.norm(rest))
    left = float(np.linalg.norm(rows.forward(rest)))
    # in a well-determined problem what is left of g is the solver's tolerance, in every direction alike
    if size < 1e-2 or left * np.sqrt(p) > UNSEEN * float(np.linalg.norm(seen)) * size:
        return p, np.empty((0, p))
    return p - max(1, round(size**2)), rest[None] / size


def _huber(subspaces: SubspaceMap, target: Array, dense: bool | None, max_iterations: int | None) -> _Fit:
    options = {} if max_iterations is None else {"max_iterations": max_iterations}
    result = solve_huber(subspaces, target, subspaces.multiplicity, dense=dense, **options)
    if dense or (dense is None and subspaces.shape[1] <= DENSE_UNKNOWNS):
        normal = _factorise(subspaces)
        identified, null_space, exact = normal.rank, normal.null_space, True
    else:
        identified, null_space = _probe(subspaces, LSMR_STEPS)
        exact = False
    return _Fit(
        a=result.coefficients,
        objective=result.objective,
        identified=identified,
        null_space=null_space,
        rank_is_exact=exact,
        status=result.status,
        converged=result.converged,
        gap=result.gap,
        iterations=result.iterations,
        sigma=result.sigma,
    )


def _not_identified(fit: _Fit) -> str:
    """Return the sentence about what the subspaces leave open."""
    about = "" if fit.rank_is_exact else "about " if fit.null_space.size else "at most "
    where = f", mostly {_loosest_entries(fit.null_space)}" if fit.null_space.size else ""
    return (
        f"the subspaces determine {about}{fit.identified} of the {fit.a.size} degrees of freedom "
        f"of the metric; for the others{where}, the answer of least norm is returned; add subspaces that "
        "contain these directions, or see `unidentified` of stitch_details"
    )


def _loosest_entries(null_space: Array, count: int = 3) -> str:
    """Name the entries of M with the largest share in the null space, whatever basis that is given in."""
    share = np.sum(null_space**2, axis=0).round(9)  # so that ties are broken by order, not by rounding
    rows, columns = np.triu_indices(smat(share).shape[0])
    loosest = np.argsort(-share, kind="stable")[: min(count, null_space.shape[0])]
    return ", ".join(f"M[{rows[k]}, {columns[k]}]" for k in loosest)
