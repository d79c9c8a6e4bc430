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

**Method.** A primal–dual interior point (Mehrotra's predictor and corrector): about a dozen Cholesky factorizations of
a p × p matrix, eight to ten digits. Problems of one shape are solved side by side, because small ones spend their time
in function calls: arrays have a leading axis over B problems, and each problem has its own step, certificate and end.

**Coordinates.** Rows, targets and u are multiplied by √m_i, as in svec: an off-diagonal entry counts twice and is
multiplied by √2. Then C is ``|u| ≤ b = ε√m, ‖u‖² ≤ N``, and m occurs in no other formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from crowdmetric.bounded.subspace_map import DenseRows, LinearMap, OneProblem, gram
from crowdmetric.solvers.cone import dot

__all__ = ["HuberResult", "solve_huber", "solve_huber_stack"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# scikit-learn's defaults, which are the paper's.
EPSILON = 1.35
ALPHA = 1e-4

# Rows are kept as one matrix up to this many numbers (128 MiB), and recomputed when needed beyond it.
KEPT_ENTRIES = 2**24
# A certified gap below this, relative to the objective, counts as solved. The interior point continues to a hundredth
# of it: the last digits cost one step, if rounding allows them at all.
TOLERANCE = 1e-8
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
    objective, gap
        The objective at `coefficients`, the ridge included, minimized over σ; the optimum is not below
        ``objective − gap``.
    iterations, converged, status
        What it took, whether `gap` met the tolerance, and one sentence.
    """

    coefficients: Array
    sigma: float
    objective: float
    gap: float
    iterations: int
    converged: bool
    status: str


def solve_huber(rows: LinearMap, target: Array, multiplicity: Array | None = None, **options: Any) -> HuberResult:
    """Minimize the Huber objective of the module's docstring over a and σ; parameters as for `solve_huber_stack`."""
    small = rows.shape[0] * rows.shape[1] <= KEPT_ENTRIES
    stack = DenseRows(np.vstack([X for _, X in rows.blocks()])[None]) if small else OneProblem(rows)
    return solve_huber_stack(stack, target[None], multiplicity, **options)[0]


def solve_huber_stack(
    rows: LinearMap,
    target: Array,
    multiplicity: Array | None = None,
    *,
    epsilon: float = EPSILON,
    alpha: float = ALPHA,
    tolerance: float = TOLERANCE,
    max_iterations: int = 100,
) -> list[HuberResult]:
    """Minimize the objectives of B problems of one shape side by side.

    Parameters
    ----------
    rows, target
        X (B, n, p) and q (B, n), each row and entry multiplied by √m_i.
    multiplicity
        m (n,), shared by all problems; once when not given.
    epsilon, alpha
        Where the loss turns from quadratic to linear (in units of σ, above 1) and the ridge (above 0).
    tolerance
        Certified gap relative to the objective.
    max_iterations
        Newton steps.
    """
    m = np.ones(target.shape[1]) if multiplicity is None else multiplicity
    # q in units of its mean size, to which thresholds are relative; the ridge is multiplied by the unit
    unit = np.mean(np.abs(target), axis=1)
    unit = np.where(unit > 0.0, unit, 1.0)
    rows, frame = _in_row_space(rows)
    problem = _HuberProblem(rows, target / unit[:, None], epsilon * np.sqrt(m), float(m.sum()), alpha * unit)
    best = _interior_point(problem, 1e-2 * tolerance, max_iterations)
    a = unit[:, None] * (best.a if frame is None else (frame @ best.a[:, :, None])[:, :, 0])
    rounding = ROUNDING * 2.0 * (np.abs(problem.q) @ problem.bound)
    converged = best.gap <= tolerance * best.objective + rounding
    sigma = np.where(best.sigma > COLLAPSED, best.sigma * unit, 0.0)
    return [
        HuberResult(
            coefficients=a[i],
            sigma=float(sigma[i]),
            objective=float(best.objective[i] * unit[i]),
            gap=float(best.gap[i] * unit[i]),
            iterations=int(best.iterations[i]),
            converged=bool(converged[i]),
            status=_status(best, i, float(sigma[i]), bool(converged[i]), tolerance),
        )
        for i in range(len(target))
    ]


def _status(best: _Best, i: int, sigma: float, converged: bool, tolerance: float) -> str:
    gap = best.gap[i] / best.objective[i] if best.objective[i] > 0.0 else 0.0
    scale = f"scale {sigma:.3g}" if sigma > 0.0 else "a scale that collapsed to zero, as least absolute deviations"
    if converged:
        return f"Huber regression was solved with {scale}, certified within {gap:.1e} of the optimum."
    return (
        f"Huber regression stopped after {best.iterations[i]} iterations with {scale}, certified within "
        f"{gap:.1e} of the optimum instead of the {tolerance:.1e} asked for; raise max_iterations."
    )


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


@dataclass(frozen=True)
class _HuberProblem:
    """The data, in the √m coordinates, and the two values that enclose the optimum."""

    rows: LinearMap
    q: Array  # (B, n)
    bound: Array  # b = ε√m (n,)
    total: float  # N
    alpha: Array  # (B,)

    def primal(self, a: Array) -> tuple[Array, Array]:
        """Return the objective at `a`, minimized over the scale, and that scale."""
        r = self.rows.forward(a) - self.q
        sigma = _scale_of(r, self.bound, self.total)
        size, s = np.abs(r), sigma[:, None]
        quadratic = np.divide(r * r, s, out=np.zeros_like(r), where=s > 0.0)
        loss = np.where(size < self.bound * s, quadratic, self.bound * (2.0 * size - self.bound * s)).sum(axis=1)
        return loss + self.total * sigma + self.alpha * dot(a, a), sigma

    def dual(self, u: Array) -> Array:
        """Return the lower bound D(u); u must lie in C."""
        g = self.rows.adjoint(u)
        return -2.0 * dot(u, self.q) - dot(g, g) / self.alpha


def _scale_of(v: Array, bound: Array, total: float) -> Array:
    """Return the s with ``Σ min(v²/s², b²) = N``, or 0 if the sum is at most N for every s > 0.

    The sum falls as s grows. With entries in order of ``|v|/b`` the breakpoint at which it crosses N is found
    from cumulative sums, and between two breakpoints s has closed form.
    """
    breakpoint_ = np.abs(v) / bound
    order = np.argsort(breakpoint_, axis=-1)
    breakpoint_, squares = np.take_along_axis(breakpoint_, order, axis=-1), bound[order] ** 2
    quadratic = np.cumsum(np.take_along_axis(v, order, axis=-1) ** 2, axis=-1)
    clipped = squares.sum(axis=-1, keepdims=True) - np.cumsum(squares, axis=-1)
    at = np.zeros_like(quadratic)
    np.divide(quadratic, breakpoint_**2, out=at, where=breakpoint_ > 1e-150)
    k = np.count_nonzero(at + clipped > total, axis=-1, keepdims=True)
    last = np.maximum(k - 1, 0)
    room = total - np.take_along_axis(clipped, last, axis=-1)
    square = np.take_along_axis(quadratic, last, axis=-1)
    inside = (k > 0) & (room > 0.0)
    return np.asarray(np.sqrt(np.where(inside, square / np.where(inside, room, 1.0), 0.0))[..., 0])


class _Best:
    """The best points and the best bounds so far; the two of a problem need not come from the same iteration."""

    def __init__(self, a: Array) -> None:
        B = len(a)
        self.a, self.sigma = a.copy(), np.zeros(B)
        self.objective, self.lower = np.full(B, np.inf), np.full(B, -np.inf)
        self.iterations = np.zeros(B, dtype=np.intp)
        self.stale = np.zeros(B, dtype=np.intp)  # iterations since the gap last shrank

    @property
    def gap(self) -> Array:
        return np.maximum(self.objective - self.lower, 0.0)

    def update(self, problem: _HuberProblem, point: _Iterate, going: Mask) -> None:
        """Keep what is better in the problems that have not ended."""
        objective, sigma = problem.primal(point.a)
        lower = problem.dual(point.u)
        better, higher = going & (objective < self.objective), going & (lower > self.lower)
        self.a[better], self.objective[better], self.sigma[better] = point.a[better], objective[better], sigma[better]
        self.lower[higher] = lower[higher]
        self.iterations += going
        self.stale = np.where(better | higher, 0, self.stale + 1)


@dataclass(frozen=True)
class _Iterate:
    """A primal–dual point of every problem, or a step between two.

    With r = Xa − q and the distances to the boundary of C, ``s⁺ = b − u, s⁻ = b + u, s = N − ‖u‖²``, the
    optimum has::

        αa + Xᵀu = 0        r = σu + w⁺ − w⁻        w⁺s⁺ = w⁻s⁻ = 0        σs = 0
    """

    a: Array  # (B, p)
    sigma: Array  # (B, 1), multiplier of the ball
    u: Array  # (B, n)
    above: Array  # w⁺ (B, n), multiplier of u ≤ b
    below: Array  # w⁻ (B, n), multiplier of −u ≤ b

    def moved(self, step: _Iterate, length: Array) -> _Iterate:
        both = zip(vars(self).values(), vars(step).values(), strict=True)
        return _Iterate(*(value + length[:, None] * change for value, change in both))


def _interior_point(problem: _HuberProblem, tolerance: float, max_iterations: int) -> _Best:
    """Follow the central paths by Mehrotra's predictor and corrector.

    A dozen steps reach the limits of rounding, where a factorization fails or numbers are no longer finite. The best
    point is kept, and the certificate says how good it is. A problem ends at this gap relative to its objective, or
    after three steps without progress.
    """
    point = _start(problem)
    best, going = _Best(point.a), np.ones(len(point.a), dtype=bool)
    with np.errstate(all="ignore"):
        for _ in range(max_iterations):
            best.update(problem, point, going)
            going &= (best.gap > tolerance * best.objective) & (best.stale < 3)
            if not np.any(going):
                break
            newton = _Newton(problem, point)
            going &= newton.factorize(going)
            # The predictor aims at the optimum itself. The length of its step determines how much centering is needed.
            plain = newton.step(0.0, 0.0, 0.0, 0.0)
            reached = _Newton(problem, point.moved(plain, newton.longest(plain))).mu
            mu = (newton.mu * (reached / newton.mu) ** 3)[:, None]
            step = newton.step(
                above=mu + plain.above * plain.u,
                below=mu - plain.below * plain.u,
                ball=mu + 2.0 * plain.sigma * _dot(point.u, plain.u) + point.sigma * _dot(plain.u, plain.u),
                bilinear=plain.sigma * plain.u,
            )
            # Close to the boundary at first, ever closer at the end, for superlinear convergence.
            length = np.minimum(1.0, np.maximum(0.95, 1.0 - newton.mu) * newton.longest(step))
            point, going = point.moved(step, length), going & np.isfinite(length) & (length > 0.0)
    return best


def _start(problem: _HuberProblem) -> _Iterate:
    """Return the ridge fit, with a scale so large that u is well inside C."""
    G = gram(problem.rows)
    diagonal = np.einsum("bii->bi", G)
    diagonal += (problem.alpha + 1e-12 * np.max(diagonal, axis=1, initial=0.0))[:, None]
    a = _solve(_factors(G, np.ones(len(G), dtype=bool)), problem.rows.adjoint(problem.q))
    r = problem.rows.forward(a) - problem.q
    widest = 2.0 * np.max(np.abs(r) / problem.bound, axis=1, keepdims=True)
    sigma = np.maximum(np.maximum(widest, 1.5 * np.sqrt(_dot(r, r) / problem.total)), 1e-3)
    w = np.repeat(0.3 * sigma, r.shape[1], axis=1)
    return _Iterate(a, sigma, r / sigma, w, w)


class _Newton:
    """The linearized optimality conditions at one point of every problem.

    Eliminating the multipliers leaves, with ``D = σ + w⁺/s⁺ + w⁻/s⁻`` and h the second condition's residual,

        du = (X da − u dσ + h) / D
        [XᵀD⁻¹X + αI      −XᵀD⁻¹u        ] [da]   [−ρ − XᵀD⁻¹h        ]         ρ = αa + Xᵀu
        [−uᵀD⁻¹X          uᵀD⁻¹u + s/(2σ)] [dσ] = [uᵀD⁻¹h + c/(2σ)    ]         c = target − σs

    so the scale is one more coefficient, with −u for its column, and the matrix is positive definite.
    """

    def __init__(self, problem: _HuberProblem, point: _Iterate) -> None:
        self.problem, self.point = problem, point
        self.upper, self.lower = problem.bound - point.u, problem.bound + point.u
        self.room = problem.total - _dot(point.u, point.u)
        products = _dot(point.above, self.upper) + _dot(point.below, self.lower)
        # The gap of a feasible point, divided among the 4n + 1 products whose sum it is.
        self.mu = ((2.0 * products + point.sigma * self.room) / (4.0 * point.u.shape[1] + 1.0))[:, 0]

    def factorize(self, going: Mask) -> Mask:
        """Factorize the systems of some problems; False if one is not positive definite to working precision."""
        problem, point, rows = self.problem, self.point, self.problem.rows
        B, p = point.a.shape
        alpha = problem.alpha[:, None]
        self.weight = 1.0 / (point.sigma + point.above / self.upper + point.below / self.lower)
        weighted = self.weight * point.u
        H = np.empty((B, p + 1, p + 1))
        H[:, :p, :p] = gram(rows, self.weight)
        np.einsum("bii->bi", H[:, :p, :p])[:] += alpha
        H[:, p, :p] = -rows.adjoint(weighted)
        H[:, p, p] = (_dot(point.u, weighted) + self.room / (2.0 * point.sigma))[:, 0]
        self.factors = _factors(H, going)
        self.dual_residual = alpha * point.a + rows.adjoint(point.u)
        self.residual = rows.forward(point.a) - problem.q - point.sigma * point.u - point.above + point.below
        return np.array([factor is not None for factor in self.factors])

    def step(
        self, above: Array | float, below: Array | float, ball: Array | float, bilinear: Array | float
    ) -> _Iterate:
        """Return the Newton step toward these complementarity products, with this second-order term of ``σu``."""
        point, rows, p = self.point, self.problem.rows, self.point.a.shape[1]
        above = above - point.above * self.upper
        below = below - point.below * self.lower
        ball = (ball - point.sigma * self.room) / (2.0 * point.sigma)
        h = self.residual - bilinear - above / self.upper + below / self.lower
        weighted = self.weight * h
        right = np.column_stack([-self.dual_residual - rows.adjoint(weighted), _dot(point.u, weighted) + ball])
        solved = _solve(self.factors, right)
        da, dsigma = solved[:, :p], solved[:, p:]
        du = self.weight * (rows.forward(da) - point.u * dsigma + h)
        return _Iterate(
            da, dsigma, du, (above + point.above * du) / self.upper, (below - point.below * du) / self.lower
        )

    def longest(self, step: _Iterate) -> Array:
        """Return the largest lengths (B,), at most 1, that keep multipliers and distances non-negative."""
        point = self.point
        rates = (
            -step.above / point.above, -step.below / point.below, step.u / self.upper, -step.u / self.lower,
            -step.sigma / point.sigma,
        )  # fmt: skip
        fastest = np.maximum(np.concatenate(rates, axis=1).max(axis=1), 1.0)
        # ‖u + t du‖² = N is a quadratic equation in t with one positive root, written without cancellation.
        square, mixed, room = dot(step.u, step.u), dot(point.u, step.u), self.room[:, 0]
        to_ball = np.where(square > 0.0, room / (mixed + np.sqrt(mixed**2 + square * room)), np.inf)
        return np.minimum(1.0 / fastest, to_ball)


def _dot(a: Array, b: Array) -> Array:
    """Return inner products (B, 1)."""
    return dot(a, b)[:, None]


def _factors(H: Array, going: Mask) -> list[Any]:
    """Return Cholesky factors of some H (B, p, p), from the lower triangles; None where there is none."""
    factors = []
    for matrix, wanted in zip(H, going, strict=True):
        sound = bool(wanted and np.isfinite(matrix[-1, -1]))
        # The transpose is in the order LAPACK wants; only the triangle that was filled is read.
        factor, info = dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1) if sound else (None, 1)
        factors.append(factor if info == 0 else None)
    return factors


def _solve(factors: list[Any], right: Array) -> Array:
    """Return the solutions (B, p); not-a-number where there is no factor."""
    out = np.full(right.shape, np.nan)
    for i, factor in enumerate(factors):
        if factor is not None:
            out[i], _ = dpotrs(factor, right[i], lower=0)
    return out
