"""Least squares of least norm, and its null space: by factorization, or by LSMR from products alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpocon, dpotrf
from scipy.sparse.linalg import LinearOperator, lsmr

from crowdmetric.solvers.linear_maps import DENSE_UNKNOWNS, LinearMap, gram

__all__ = ["LSMR_STEPS", "Normal", "RegressionFit", "as_operator", "factorize", "least_squares", "probe"]

Array = NDArray[np.float64]

# Eigenvalues of XᵀX below this share of the largest (a millionth, for X itself) count as zero.
RANK_TOLERANCE = 1e-12
# Reciprocal condition number of XᵀX above which Cholesky with two refinements is accurate.
WELL_CONDITIONED = 1e-10
LSMR_TOLERANCE = 1e-9
LSMR_STEPS = 2000


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


# A direction counts as unidentified if X maps it to less than this share of the image of a random one.
UNSEEN = 1e-4
PROBE_TOLERANCE = 1e-7


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
    a, *_ = lsmr(
        as_operator(rows),
        seen,
        atol=PROBE_TOLERANCE,
        btol=PROBE_TOLERANCE,
        conlim=0.0,
        maxiter=max_iterations,
    )
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
