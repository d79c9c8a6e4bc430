"""From one small metric per subspace to one metric of the whole space (the second stage of Algorithms 1 and 2).

Inside the span of an orthonormal basis B_λ (d, r_λ) people see ``B_λᵀ M B_λ``. Given estimates Q̂_λ, find A::

    Π(A) = (B_λᵀ A B_λ)_λ ≈ (Q̂_λ)_λ          Π: Sym(R^d) → ⊕ Sym(R^r_λ),   Π*(R) = Σ_λ B_λ R_λ B_λᵀ

by least squares (``"ols"``), by least squares that trusts each entry as much as its data deserve
(``"weighted"``), or by Huber regression (``"huber"``), and project the answer on the positive semi-definite
cone. Matrices travel as svec vectors, in which Π and Π* are transposes of each other; p = d(d+1)/2 unknowns.

Up to `DENSE_UNKNOWNS` unknowns (d = 62) the p × p matrix ΠᵀΠ is formed and factorized; beyond, least squares take only
products with Π and Π* (LSMR), and Huber regression is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpocon, dpotrf
from scipy.sparse.linalg import LinearOperator, lsmr

from crowdmetric.bounded.huber import solve_huber, solve_huber_stack
from crowdmetric.bounded.subspace_map import (
    DENSE_UNKNOWNS,
    DenseRows,
    LinearMap,
    Matrices,
    SubspaceMap,
    WeightedMap,
    gram,
)
from crowdmetric.errors import ConvergenceWarning, DataError, NotIdentifiedWarning
from crowdmetric.solvers.solution import Solution
from crowdmetric.symmetric import degrees_of_freedom, project_psd, smat

__all__ = ["METHODS", "Stitched", "as_operator", "check_huber", "stitch", "stitch_details", "stitch_prefixes"]

Array = NDArray[np.float64]

METHODS = ("huber", "ols", "weighted")

# Eigenvalues of XᵀX below this share of the largest (a millionth, for X itself) count as zero.
RANK_TOLERANCE = 1e-12
# Reciprocal condition number of XᵀX above which Cholesky with two refinements is accurate.
WELL_CONDITIONED = 1e-10
# Where LSMR ends: at digits that no measured metric has, or after this many steps.
LSMR_TOLERANCE = 1e-9
LSMR_STEPS = 2000
# A direction counts as unidentified if X maps it to less than this share of the image of a random one.
UNSEEN = 1e-4


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
        ``B_λᵀ A B_λ − Q̂_λ`` of the unprojected answer, one (r_λ, r_λ) per subspace.
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

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.stitch import stitch_details
    >>> found = stitch_details(np.eye(2)[None], np.eye(2)[None], method='ols')
    >>> bool(np.allclose(found.metric, np.eye(2)))
    True
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
    >>> from crowdmetric.stitch import stitch
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
        True to form p × p matrices, False to use products only (least squares); by default decided by p.
    max_iterations
        Of the iterative methods (LSMR, Huber); each has its default.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.stitch import stitch_details
    >>> bases = np.array([[[1.0], [0.0]], [[0.0], [1.0]], [[2**-0.5], [2**-0.5]]])  # three lines in the plane
    >>> found = stitch_details(bases, np.array([[[2.0]], [[1.0]], [[1.5]]]), method='ols')
    >>> bool(np.allclose(found.metric, [[2.0, 0.0], [0.0, 1.0]]))
    True
    """
    return _stitch(bases, metrics, method, information, psd=psd, dense=dense, max_iterations=max_iterations)


def stitch_prefixes(bases: Array, metrics: Array, counts: Sequence[int], method: str = "huber") -> tuple[Array, Array]:
    """Stitch the first subspaces of many crowds, for several numbers of them: metrics (len(counts), B, d, d) and gaps.

    A gap (len(counts), B) is the certified distance from the optimum as a share of the objective, 0 for least squares.

    The same answers as `stitch` on ``bases[b, :count]`` and ``metrics[b, :count]`` for every b and count, by
    regressions side by side; for experiments, which stitch hundreds of thousands of times. Nothing is said about what
    too few subspaces leave open.

    Parameters
    ----------
    bases
        (B, n, d, r) orthonormal.
    metrics
        (B, n, r, r) symmetric.
    counts
        How many subspaces to take, 1 to n.
    method
        ``"huber"`` or ``"ols"``.
    """
    if method not in ("huber", "ols"):
        raise DataError(f"method is {method!r}, but crowds are stitched together by 'huber' or 'ols' only")
    n = bases.shape[1]
    if not all(1 <= count <= n for count in counts):
        raise DataError(f"counts are {tuple(counts)}, but there are {n} subspaces; give numbers from 1 to {n}")
    maps = [SubspaceMap(B) for B in bases]
    X = np.stack([subspaces.matrix() for subspaces in maps])
    q = np.stack([subspaces.pack(Q) for subspaces, Q in zip(maps, metrics, strict=True)])
    multiplicity, width = maps[0].multiplicity, X.shape[1] // n  # rows of the image per subspace
    found, gaps = [], np.zeros((len(counts), len(maps)))
    for j, count in enumerate(counts):
        k = count * width
        if method == "ols":
            found.append([least_squares(DenseRows(x[:k]), t[:k], True, None).a for x, t in zip(X, q, strict=True)])
            continue
        results = solve_huber_stack(DenseRows(X[:, :k]), q[:, :k], multiplicity[:k])
        found.append([result.coefficients for result in results])
        gaps[j] = [result.gap / result.objective if result.objective > 0.0 else 0.0 for result in results]
    return project_psd(smat(np.array(found))), gaps


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
        check_huber(subspaces.d, "method", dense)
        fit = _huber(subspaces, target, max_iterations)
    elif information is None:
        fit = least_squares(subspaces, target, dense, max_iterations)
    else:
        weighted = WeightedMap(subspaces, information)
        fit = least_squares(weighted, weighted.weigh(target), dense, max_iterations)
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
        raise DataError(f"method is {method!r}, but must be one of {', '.join(map(repr, METHODS))}")
    if method == "weighted" and information is None:
        raise DataError(
            "method='weighted' needs information, one (p_r, p_r) matrix per subspace; give it or use method='ols'"
        )
    if method != "weighted" and information is not None:
        raise DataError(f"method={method!r} makes no use of information; leave it out or use method='weighted'")


def check_huber(d: int, name: str, dense: bool | None = None) -> None:
    """Refuse Huber regression where p × p matrices are not formed."""
    if dense is False or (dense is None and degrees_of_freedom(d) > DENSE_UNKNOWNS):
        raise DataError(
            f"{name}='huber' factorizes p × p matrices, which is done up to 62 features (there are {d}), and not with "
            f"dense=False; use {name}='ols' or {name}='weighted'"
        )


def _huber(subspaces: SubspaceMap, target: Array, max_iterations: int | None) -> RegressionFit:
    options = {} if max_iterations is None else {"max_iterations": max_iterations}
    result = solve_huber(subspaces, target, subspaces.multiplicity, **options)
    normal = factorize(subspaces)
    return RegressionFit(
        a=result.coefficients,
        objective=result.objective,
        identified=normal.rank,
        null_space=normal.null_space,
        rank_is_exact=True,
        status=result.status,
        converged=result.converged,
        gap=result.gap,
        iterations=result.iterations,
        sigma=result.sigma,
    )


def _not_identified(fit: RegressionFit) -> str:
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
    share = np.sum(null_space**2, axis=0).round(9)  # break ties by order, not by rounding
    rows, columns = np.triu_indices(smat(share).shape[0])
    loosest = np.argsort(-share, kind="stable")[: min(count, null_space.shape[0])]
    return ", ".join(f"M[{rows[k]}, {columns[k]}]" for k in loosest)


@dataclass(frozen=True)
class RegressionFit:
    """The result of a regression in svec coordinates."""

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
class Normal:
    """The matrix ``G = XᵀX``, factorized: its rank, its null space and its (pseudo-)inverse."""

    rank: int
    null_space: Array  # (p − rank, p)
    solve: Callable[[Array], Array]


def least_squares(rows: LinearMap, target: Array, dense: bool | None, max_iterations: int | None) -> RegressionFit:
    """Return the a of least norm among those that minimize ``‖X a − target‖²``."""
    if dense is None:
        dense = rows.shape[1] <= DENSE_UNKNOWNS
    return _by_factorisation(rows, target) if dense else _by_lsmr(rows, target, max_iterations or LSMR_STEPS)


def _by_factorisation(rows: LinearMap, target: Array) -> RegressionFit:
    normal = factorize(rows)
    a = normal.solve(rows.adjoint(target))
    for _ in range(2):  # forming XᵀX squares the condition number; refinement recovers the digits
        a = a + normal.solve(rows.adjoint(target - rows.forward(a)))
    return RegressionFit(
        a=a,
        objective=float(np.sum((rows.forward(a) - target) ** 2)),
        identified=normal.rank,
        null_space=normal.null_space,
        rank_is_exact=True,
        status="Least squares was solved by factorization.",
    )


def factorize(rows: LinearMap) -> Normal:
    """Factorize XᵀX by Cholesky if it is well conditioned, otherwise by eigenvalues."""
    p, G = rows.shape[1], gram(rows)
    if rows.shape[0] >= p:
        factor, info = dpotrf(G, lower=1)
        if info == 0 and dpocon(factor, np.abs(G).sum(axis=0).max(), uplo="L")[0] > WELL_CONDITIONED:
            return Normal(p, np.empty((0, p)), lambda right: cho_solve((factor, True), right))
    values, vectors = np.linalg.eigh(G)
    keep = values > RANK_TOLERANCE * values[-1]
    V, inverse = vectors[:, keep], 1.0 / values[keep]
    return Normal(int(keep.sum()), vectors[:, ~keep].T, lambda right: V @ (inverse * (V.T @ right)))


def _by_lsmr(rows: LinearMap, target: Array, max_iterations: int) -> RegressionFit:
    """Solve by LSMR, which starts at zero, stays in the row space and so ends at the solution of least norm."""
    tolerance = LSMR_TOLERANCE
    a, stop, iterations, *_ = lsmr(
        as_operator(rows), target, atol=tolerance, btol=tolerance, conlim=0.0, maxiter=max_iterations
    )
    converged = stop != 7
    identified, sample = probe(rows, max_iterations)
    return RegressionFit(
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


def probe(rows: LinearMap, max_iterations: int) -> tuple[int, Array]:
    """Return how many degrees of freedom are identified, and an unidentified direction (1, p) or none (0, p).

    With fewer equations than unknowns, the equations are counted. Otherwise fit ``X a = X g`` for a random g: the
    solution of least norm is the part of g in the row space, so ``g − a`` is in the null space, whose dimension is
    about ``‖g − a‖²``.
    """
    n, p = rows.shape
    if n < p:
        return n, np.empty((0, p))
    g = np.random.default_rng(0).standard_normal(p)
    seen = rows.forward(g)
    tolerance = LSMR_TOLERANCE
    a, *_ = lsmr(as_operator(rows), seen, atol=tolerance, btol=tolerance, conlim=0.0, maxiter=max_iterations)
    rest = g - a
    size = float(np.linalg.norm(rest))
    left = float(np.linalg.norm(rows.forward(rest)))
    # in a well-determined problem the rest of g is the solver's tolerance, equal in all directions
    if size < 1e-2 or left * np.sqrt(p) > UNSEEN * float(np.linalg.norm(seen)) * size:
        return p, np.empty((0, p))
    return p - max(1, round(size**2)), rest[None] / size


def as_operator(rows: LinearMap) -> LinearOperator:
    """Return rows as a SciPy operator."""
    return LinearOperator(rows.shape, matvec=rows.forward, rmatvec=rows.adjoint, dtype=float)
