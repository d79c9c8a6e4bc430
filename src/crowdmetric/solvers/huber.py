"""Huber regression with its scale, to a certified optimum, also where the scale collapses.

The objective is scikit-learn's ``HuberRegressor`` without intercept, with row i counted m_i times::

    min over a, σ ≥ 0   Σ_i m_i [σ + σ H((x_iᵀa − q_i) / σ)] + α‖a‖²

    H(z) = z² where |z| < ε, else 2ε|z| − ε²

**The dual problem.** As ``σ + σH(r/σ) = max over |u| ≤ ε of σ(1 − u²) + 2ur``, with N = Σ m_i,

    min over σ ≥ 0 of the loss = max over u ∈ C of 2 Σ m_i u_i r_i       C = {|u_i| ≤ ε,  Σ m_i u_i² ≤ N}

C is a box cut by a ball, and the scale σ is the multiplier of the ball. If the ball does not bind, σ is zero and the
loss is that of least absolute deviations. This takes a share ``1 − 1/ε²`` of vanishing residuals (45 % at ε = 1.35),
which happens if p is of the order of n. Nothing is singular there, whereas methods that divide by σ stop early. And

    D(u) = −2 Σ m_i u_i q_i − ‖Σ m_i u_i x_i‖² / α ≤ the optimum         for every u ∈ C

so every answer comes with a bound on its distance to the optimum.

**Two methods.** Up to `DENSE_UNKNOWNS` unknowns, a primal–dual interior point method (Mehrotra's; about a
dozen Cholesky factorizations of a p × p matrix, eight to ten digits). Beyond, operator splitting, which needs only
products with the rows and their transpose (two digits, as `SPLITTING_TOLERANCE` says).

**Coordinates.** Rows, targets and u are multiplied by √m_i, as in svec: an off-diagonal entry counts twice and is
multiplied by √2. Then C is ``|u| ≤ b = ε√m, ‖u‖² ≤ N``, and m occurs in no other formula.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.solvers.huber_interior import interior_point
from crowdmetric.solvers.huber_problem import Best, Problem
from crowdmetric.solvers.huber_splitting import splitting
from crowdmetric.solvers.linear_maps import DENSE_UNKNOWNS, DenseRows, LinearMap, OneProblem

__all__ = ["HuberResult", "solve_huber", "solve_huber_stack"]

Array = NDArray[np.float64]

# scikit-learn's defaults, which are the paper's.
EPSILON = 1.35
ALPHA = 1e-4

# Rows are kept as one matrix up to this many numbers (128 MiB), and recomputed when needed beyond it.
KEPT_ENTRIES = 2**24

# A certified gap below this, relative to the objective, counts as solved.
INTERIOR_TOLERANCE = 1e-8
SPLITTING_TOLERANCE = 1e-2
# The interior point continues to this share of it: the last digits cost one step, if rounding allows them at all.
BEYOND = 1e-2
# Gap that rounding alone can cause, relative to the objective at a = 0.
ROUNDING = 1e-12
# σ below this share of the mean |q| counts as a zero that was not reached exactly.
COLLAPSED = 1e-9


@dataclass(frozen=True)
class HuberResult:
    """Where a Huber regression ended.

    Attributes
    ----------
    coefficients
        (p,) the minimizer a.
    sigma
        The scale σ; exactly 0 where it collapsed and the answer is that of least absolute deviations.
    objective
        The objective at `coefficients`, the ridge included, minimized over σ.
    gap
        Certified: the optimum is not below ``objective − gap``.
    iterations, seconds
        What it took.
    converged
        Whether `gap` met the tolerance.
    status
        One sentence.
    """

    coefficients: Array
    sigma: float
    objective: float
    gap: float
    iterations: int
    seconds: float
    converged: bool
    status: str


def solve_huber(
    rows: LinearMap,
    target: Array,
    multiplicity: Array | None = None,
    *,
    epsilon: float = EPSILON,
    alpha: float = ALPHA,
    dense: bool | None = None,
    tolerance: float | None = None,
    max_iterations: int = 100,
) -> HuberResult:
    """Minimize the Huber objective of the module's docstring over a and σ.

    Parameters
    ----------
    rows
        X (n, p), each row multiplied by √m_i.
    target
        q (n,), each entry multiplied by √m_i.
    multiplicity
        m (n,), how often each row counts; once when not given.
    epsilon, alpha
        Where the loss turns from quadratic to linear (in units of σ, above 1) and the ridge (above 0).
    dense
        True for the interior point method, False for splitting; by default decided by p.
    tolerance
        Certified gap relative to the objective; `INTERIOR_TOLERANCE` or `SPLITTING_TOLERANCE` by default.
    max_iterations
        Newton steps, or rounds of splitting (each a dozen products with the rows and their transpose).
    """
    clock = perf_counter()
    m = np.ones(target.size) if multiplicity is None else multiplicity
    _check(rows, target, m, epsilon, alpha)
    if dense is None:
        dense = rows.shape[1] <= DENSE_UNKNOWNS
    if not dense:
        tolerance = SPLITTING_TOLERANCE if tolerance is None else tolerance
        problem, unit = _problem(rows, target, m, epsilon, alpha)
        best = splitting(problem, tolerance, max_iterations)
        return _result(problem, best, float(unit), tolerance, perf_counter() - clock)
    small = rows.shape[0] * rows.shape[1] <= KEPT_ENTRIES
    stack = DenseRows(np.vstack([X for _, X in rows.blocks()])[None]) if small else OneProblem(rows)
    return _interior(stack, target[None], m, epsilon, alpha, tolerance, max_iterations)[0]


def solve_huber_stack(
    X: Array,
    target: Array,
    multiplicity: Array | None = None,
    *,
    epsilon: float = EPSILON,
    alpha: float = ALPHA,
    tolerance: float | None = None,
    max_iterations: int = 100,
) -> list[HuberResult]:
    """Minimize the Huber objectives of B problems of one shape side by side, each as `solve_huber` would.

    Small problems spend their time in function calls, so ten problems together take little longer than one.

    Parameters
    ----------
    X, target
        (B, n, p) and (B, n), each row and entry multiplied by √m_i.
    multiplicity
        m (n,), shared by all problems; once when not given.
    """
    m = np.ones(target.shape[-1]) if multiplicity is None else multiplicity
    for q in target:
        _check(DenseRows(X[0]), q, m, epsilon, alpha)
    return _interior(DenseRows(X), target, m, epsilon, alpha, tolerance, max_iterations)


def _interior(
    rows: LinearMap, target: Array, m: Array, epsilon: float, alpha: float, tolerance: float | None, max_iterations: int
) -> list[HuberResult]:
    """Solve a stack of problems by the interior point; the time is divided equally among them."""
    clock = perf_counter()
    tolerance = INTERIOR_TOLERANCE if tolerance is None else tolerance
    rows, frame = _in_row_space(rows)
    problem, unit = _problem(rows, target, m, epsilon, alpha)
    best = interior_point(problem, BEYOND * tolerance, max_iterations)
    if frame is not None:
        best = replace(best, a=(frame @ best.a[:, :, None])[:, :, 0])
    seconds = (perf_counter() - clock) / len(target)
    return [
        _result(replace(problem, q=problem.q[i]), best.take(i), float(unit[i]), tolerance, seconds)
        for i in range(len(target))
    ]


def _problem(rows: LinearMap, target: Array, m: Array, epsilon: float, alpha: float) -> tuple[Problem, Array]:
    """Return the problem with q in units of its mean size, and that unit.

    Thresholds are relative to that size; the ridge is multiplied by the unit.
    """
    unit = np.mean(np.abs(target), axis=-1)
    unit = np.where(unit > 0.0, unit, 1.0)
    return Problem(rows, target / unit[..., None], epsilon * np.sqrt(m), float(m.sum()), alpha * unit), unit


def _check(rows: LinearMap, target: Array, m: Array, epsilon: float, alpha: float) -> None:
    """Refuse problems without a minimizer, and arrays of different lengths."""
    n = rows.shape[0]
    if target.shape != (n,) or m.shape != (n,):
        raise DataError(
            f"there are {n} rows, but targets of shape {target.shape} and multiplicities of shape {m.shape}; "
            "give one of each per row"
        )
    if n == 0:
        raise DataError("there are no rows to fit; give at least one")
    if not epsilon > 1.0:
        raise DataError(f"epsilon is {epsilon}, but at or below 1 the scale is always zero; give a number above 1")
    if not alpha > 0.0:
        raise DataError(f"alpha is {alpha}, but the certificate needs a ridge; give a small positive number")
    if not np.all(m > 0.0):
        raise DataError(f"the smallest multiplicity is {m.min()}, but multiplicities must be positive")


def _in_row_space(rows: LinearMap) -> tuple[LinearMap, Array | None]:
    """Return a stack of rows with at most n unknowns, and the frames (B, p, n) that lead back from them.

    Because of the ridge, the minimizer is in the span of the rows. With fewer rows than unknowns, only the ridge keeps
    the Newton matrix from being singular, and near the end that is less than rounding errors.
    """
    n, p = rows.shape
    if n >= p:
        return rows, None
    X = np.concatenate([block for _, block in rows.blocks()], axis=1)
    frame, triangle = np.linalg.qr(np.swapaxes(X, 1, 2))
    return DenseRows(np.ascontiguousarray(np.swapaxes(triangle, 1, 2))), frame


def _result(problem: Problem, best: Best, unit: float, tolerance: float, seconds: float) -> HuberResult:
    """Return the result in the units of the caller, with its status."""
    rounding = ROUNDING * 2.0 * float(problem.bound @ np.abs(problem.q))
    objective, distance = float(best.objective), float(best.gap)
    sigma = float(best.sigma) * unit if best.sigma > COLLAPSED else 0.0
    gap = distance / objective if objective > 0.0 else 0.0
    converged = distance <= tolerance * objective + rounding
    scale = (
        f"with scale {sigma:.3g}"
        if sigma > 0.0
        else "with a scale that collapsed to zero, as least absolute deviations"
    )
    status = (
        f"Huber regression was solved {scale}, certified within {gap:.1e} of the optimum."
        if converged
        else (
            f"Huber regression stopped after {best.iterations} iterations {scale}, certified within "
            f"{gap:.1e} of the optimum instead of the {tolerance:.1e} asked for; raise max_iterations."
        )
    )
    return HuberResult(
        coefficients=best.a * unit,
        sigma=sigma,
        objective=objective * unit,
        gap=distance * unit,
        iterations=int(best.iterations),
        seconds=seconds,
        converged=bool(converged),
        status=status,
    )
