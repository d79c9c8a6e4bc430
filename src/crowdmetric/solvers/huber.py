"""Huber regression with its scale, to a certified optimum, also where the scale collapses.

The objective is scikit-learn's ``HuberRegressor`` without intercept, with row i counted m_i times::

    min over a, σ ≥ 0   Σ_i m_i [σ + σ H((x_iᵀa − q_i) / σ)] + α‖a‖²

    H(z) = z² where |z| < ε, else 2ε|z| − ε²

**One fact carries the module.** As ``σ + σH(r/σ) = max over |u| ≤ ε of σ(1 − u²) + 2ur``, with N = Σ m_i,

    min over σ ≥ 0 of the loss = max over u ∈ C of 2 Σ m_i u_i r_i       C = {|u_i| ≤ ε,  Σ m_i u_i² ≤ N}

C is a box cut by a ball, and the scale σ is the multiplier of the ball. It is zero, and the loss that of
least absolute deviations, when the ball does not bind; for that a share ``1 − 1/ε²`` of the residuals (45 %
at ε = 1.35) must vanish, as happens when p is of the order of n. Nothing is singular there, while methods
that divide by σ stop short. And

    D(u) = −2 Σ m_i u_i q_i − ‖Σ m_i u_i x_i‖² / α ≤ the optimum         for every u ∈ C

so every answer comes with a bound on its distance to the optimum.

**Two methods.** Up to `DENSE_UNKNOWNS` unknowns, a primal–dual interior point method (Mehrotra's; about a
dozen Cholesky factorisations of a p × p matrix, ten digits). Beyond, operator splitting, which needs only
products with the rows and their transpose (two digits, as `SPLITTING_TOLERANCE` says).

**Coordinates.** Rows, targets and u are multiplied by √m_i, as svec does by itself: an off-diagonal entry
counts twice and carries √2. With them C is ``|u| ≤ b = ε√m, ‖u‖² ≤ N`` and no other formula mentions m.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from crowdmetric.errors import DataError

__all__ = ["DenseRows", "HuberResult", "Rows", "gram", "solve_huber"]

Array = NDArray[np.float64]

# scikit-learn's defaults, which are the paper's.
EPSILON = 1.35
ALPHA = 1e-4

# Above this many unknowns a p × p factorisation costs more than the digits it buys.
DENSE_UNKNOWNS = 2000
# Rows are kept as one matrix up to this many numbers (128 MiB), and made anew when needed beyond it.
KEPT_ENTRIES = 2**24

# Certified gap, relative to the objective.
INTERIOR_TOLERANCE = 1e-10
SPLITTING_TOLERANCE = 1e-2
# Gap that rounding alone can cause, relative to the objective at a = 0.
ROUNDING = 1e-12
# σ below this share of the mean |q| is a zero that was not reached exactly.
COLLAPSED = 1e-9


class Rows(Protocol):
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
    """Rows that are a matrix ``X (n, p)`` already."""

    X: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        n, p = self.X.shape
        return n, p

    def forward(self, a: Array) -> Array:
        """Return ``X @ a``."""
        return self.X @ a

    def adjoint(self, u: Array) -> Array:
        """Return ``X.T @ u``."""
        return self.X.T @ u

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield all rows at once."""
        yield slice(0, self.X.shape[0]), self.X


@dataclass(frozen=True)
class HuberResult:
    """Where a Huber regression ended.

    Attributes
    ----------
    coefficients
        (p,) the minimiser a.
    sigma
        The scale σ; exactly 0 where it collapsed and the answer is that of least absolute deviations.
    objective
        The objective at `coefficients`, the ridge included, minimised over σ.
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


def gram(rows: Rows, weights: Array | None = None) -> Array:
    """Return ``X.T @ diag(weights) @ X  (p, p)``, accumulated block by block."""
    total: Array | None = None
    for part, X in rows.blocks():
        scaled = X if weights is None else X * np.sqrt(weights[part])[:, None]
        product = scaled.T @ scaled  # one array on both sides: BLAS computes half of it
        total = product if total is None else np.add(total, product, out=total)
    return np.zeros((rows.shape[1],) * 2) if total is None else total


def solve_huber(
    rows: Rows,
    target: Array,
    multiplicity: Array | None = None,
    *,
    epsilon: float = EPSILON,
    alpha: float = ALPHA,
    dense: bool | None = None,
    tolerance: float | None = None,
    max_iterations: int = 100,
) -> HuberResult:
    """Minimise the Huber objective of the module's docstring over a and σ.

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
    if tolerance is None:
        tolerance = INTERIOR_TOLERANCE if dense else SPLITTING_TOLERANCE
    if dense and rows.shape[0] * rows.shape[1] <= KEPT_ENTRIES:
        rows = DenseRows(np.vstack([X for _, X in rows.blocks()]))
    rows, frame = _in_row_space(rows) if dense else (rows, None)
    # With q in units of its mean size every threshold has a meaning; the ridge is multiplied by that unit.
    unit = float(np.mean(np.abs(target))) or 1.0
    problem = _Problem(rows, target / unit, epsilon * np.sqrt(m), float(m.sum()), alpha * unit)
    search = _interior if dense else _splitting
    best = search(problem, tolerance, max_iterations)
    if frame is not None:
        best = replace(best, a=frame @ best.a)
    return _result(problem, best, unit, tolerance, perf_counter() - clock)


def _check(rows: Rows, target: Array, m: Array, epsilon: float, alpha: float) -> None:
    """Refuse what has no minimiser or does not fit together."""
    n = rows.shape[0]
    if target.shape != (n,) or m.shape != (n,):
        raise DataError(
            f"there are {n} rows, but targets of shape {target.shape} and multiplicities of shape {m.shape}; "
            "give one of each a row"
        )
    if n == 0:
        raise DataError("there are no rows to fit; give at least one")
    if not epsilon > 1.0:
        raise DataError(f"epsilon is {epsilon}, but at or below 1 the scale is always zero; give a number above 1")
    if not alpha > 0.0:
        raise DataError(f"alpha is {alpha}, but the certificate needs a ridge; give a small positive number")
    if not np.all(m > 0.0):
        raise DataError(f"the smallest multiplicity is {m.min()}, but a row counts a positive number of times")


def _in_row_space(rows: Rows) -> tuple[Rows, Array | None]:
    """Return rows with at most n unknowns, and the frame (p, n) that leads back from them.

    The ridge puts the minimiser into the span of the rows. With fewer rows than unknowns only the ridge would
    keep the Newton matrix from being singular, by less than rounding takes away near the end.
    """
    n, p = rows.shape
    if n >= p:
        return rows, None
    X = np.vstack([block for _, block in rows.blocks()])
    frame, triangle = np.linalg.qr(X.T)
    return DenseRows(np.ascontiguousarray(triangle.T)), frame


# ----------------------------------------------------------------------------------------------------
# The problem and its dual
# ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Problem:
    """The data, in the √m coordinates, and the two values that enclose the optimum."""

    rows: Rows
    q: Array
    bound: Array  # b = ε√m
    total: float  # N
    alpha: float

    def primal(self, a: Array) -> tuple[float, float]:
        """Return the objective at `a`, minimised over the scale, and that scale."""
        r = self.rows.forward(a) - self.q
        sigma = _scale(r, self.bound, self.total)
        size = np.abs(r)
        linear = self.bound * (2.0 * size - self.bound * sigma)
        if sigma == 0.0:
            loss = float(linear.sum())
        else:
            loss = float(np.where(size < self.bound * sigma, r * r / sigma, linear).sum()) + self.total * sigma
        return loss + self.alpha * float(a @ a), sigma

    def dual(self, u: Array) -> float:
        """Return the lower bound D(u); u must lie in C."""
        g = self.rows.adjoint(u)
        return -2.0 * float(u @ self.q) - float(g @ g) / self.alpha

    def project(self, v: Array) -> Array:
        """Return the nearest point of C: ``clip(v / s, ±b)`` with the smallest s ≥ 1 that enters the ball."""
        shrink = max(1.0, _scale(v, self.bound, self.total))
        return np.clip(v / shrink, -self.bound, self.bound)

    def shrink_into(self, u: Array) -> Array:
        """Return the longest multiple ``t u, t ≤ 1``, that lies in C."""
        reach = max(1.0, float(np.max(np.abs(u) / self.bound)), float(np.linalg.norm(u)) / np.sqrt(self.total))
        return u / reach


def _scale(v: Array, bound: Array, total: float) -> float:
    """Return the s with ``Σ min(v²/s², b²) = N``, or 0 if the sum stays at or below N however small s is.

    The sum falls as s grows. With entries in order of ``|v|/b`` the breakpoint at which it crosses N is found
    from cumulative sums, and between two breakpoints s has closed form.
    """
    breakpoint_ = np.abs(v) / bound
    order = np.argsort(breakpoint_)
    breakpoint_, squares = breakpoint_[order], bound[order] ** 2
    quadratic = np.cumsum(v[order] ** 2)
    clipped = squares.sum() - np.cumsum(squares)
    at = np.zeros_like(quadratic)
    np.divide(quadratic, breakpoint_**2, out=at, where=breakpoint_ > 1e-150)
    k = int(np.count_nonzero(at + clipped > total))
    if k == 0:
        return 0.0
    room = total - float(clipped[k - 1])
    return float(np.sqrt(quadratic[k - 1] / room)) if room > 0.0 else 0.0


@dataclass(frozen=True)
class _Best:
    """The best point and the best bound so far; they need not come from the same iteration."""

    a: Array
    objective: float = np.inf
    sigma: float = 0.0
    lower: float = -np.inf
    iterations: int = 0
    stale: int = 0  # iterations since the gap last shrank

    @property
    def gap(self) -> float:
        return max(self.objective - self.lower, 0.0)

    def update(self, problem: _Problem, a: Array, u: Array) -> _Best:
        """Return the better of this and the pair (a, u)."""
        objective, sigma = problem.primal(a)
        lower = max(self.lower, problem.dual(u))
        if not objective < self.objective:
            a, objective, sigma = self.a, self.objective, self.sigma
        shrank = objective < self.objective or lower > self.lower
        stale = 0 if shrank else self.stale + 1
        return _Best(a, objective, sigma, lower, self.iterations + 1, stale)

    def reached(self, tolerance: float) -> bool:
        return self.gap <= tolerance * self.objective


def _result(problem: _Problem, best: _Best, unit: float, tolerance: float, seconds: float) -> HuberResult:
    """Go back to the units of the caller and put the outcome into a sentence."""
    rounding = ROUNDING * 2.0 * float(problem.bound @ np.abs(problem.q))
    sigma = best.sigma * unit if best.sigma > COLLAPSED else 0.0
    gap = best.gap / best.objective if best.objective > 0.0 else 0.0
    converged = best.gap <= tolerance * best.objective + rounding
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
        objective=best.objective * unit,
        gap=best.gap * unit,
        iterations=best.iterations,
        seconds=seconds,
        converged=bool(converged),
        status=status,
    )


# ----------------------------------------------------------------------------------------------------
# Interior point, for matrices that can be factorised
# ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Point:
    """A primal–dual point, or a step between two.

    With r = Xa − q and the distances to the boundary of C, ``s⁺ = b − u, s⁻ = b + u, s = N − ‖u‖²``, the
    optimum has::

        αa + Xᵀu = 0        r = σu + w⁺ − w⁻        w⁺s⁺ = w⁻s⁻ = 0        σs = 0
    """

    a: Array  # (p,)
    sigma: float  # multiplier of the ball
    u: Array  # (n,)
    above: Array  # w⁺ (n,), multiplier of u ≤ b
    below: Array  # w⁻ (n,), multiplier of −u ≤ b

    def moved(self, step: _Point, length: float) -> _Point:
        return _Point(
            self.a + length * step.a,
            self.sigma + length * step.sigma,
            self.u + length * step.u,
            self.above + length * step.above,
            self.below + length * step.below,
        )


@dataclass(frozen=True)
class _Target:
    """What a Newton step aims at: the complementarity products, and the second-order term of ``σu``."""

    above: Array | float
    below: Array | float
    ball: float
    bilinear: Array | float = 0.0


def _interior(problem: _Problem, tolerance: float, max_iterations: int) -> _Best:
    """Follow the central path by Mehrotra's predictor and corrector.

    A dozen steps reach the limits of rounding, where a factorisation fails or numbers cease to be finite: the
    best point is kept, and the certificate, not the way the loop ended, says how good it is.
    """
    point = _start(problem)
    best = _Best(point.a)
    with np.errstate(all="ignore"):
        while best.iterations < max_iterations:
            best = best.update(problem, point.a, point.u)
            if best.reached(tolerance) or best.stale >= 3:
                break
            following = _advance(problem, point)
            if following is None:
                break
            point = following
    return best


def _start(problem: _Problem) -> _Point:
    """Return the ridge fit, with a scale so large that u is well inside C."""
    p = problem.rows.shape[1]
    G = gram(problem.rows)
    G.flat[:: p + 1] += problem.alpha + 1e-12 * np.max(np.diagonal(G), initial=0.0)
    factor, _ = dpotrf(G, lower=1)
    a, _ = dpotrs(factor, problem.rows.adjoint(problem.q), lower=1)
    r = problem.rows.forward(a) - problem.q
    sigma = max(
        2.0 * float(np.max(np.abs(r) / problem.bound)),
        1.5 * float(np.linalg.norm(r)) / np.sqrt(problem.total),
        1e-3,
    )
    w = np.full(r.size, 0.3 * sigma)
    return _Point(a, sigma, r / sigma, w, w)


def _advance(problem: _Problem, point: _Point) -> _Point | None:
    """Return the next point, or None where rounding allows no further step."""
    newton = _Newton(problem, point)
    if not newton.factorise():
        return None
    # The predictor aims at the optimum itself; how far it gets tells how much centring the step needs.
    plain = newton.step(_Target(0.0, 0.0, 0.0))
    reached = _Newton(problem, point.moved(plain, newton.longest(plain))).mu
    mu = newton.mu * (reached / newton.mu) ** 3
    step = newton.step(
        _Target(
            above=mu + plain.above * plain.u,
            below=mu - plain.below * plain.u,
            ball=mu + 2.0 * plain.sigma * float(point.u @ plain.u) + point.sigma * float(plain.u @ plain.u),
            bilinear=plain.sigma * plain.u,
        )
    )
    # Close to the boundary at first, ever closer at the end, for superlinear convergence.
    length = min(1.0, max(0.95, 1.0 - newton.mu) * newton.longest(step))
    return point.moved(step, length) if np.isfinite(length) and length > 0.0 else None


class _Newton:
    """The linearised optimality conditions at one point.

    Eliminating the multipliers leaves, with ``D = σ + w⁺/s⁺ + w⁻/s⁻`` and h the second condition's residual,

        du = (X da − u dσ + h) / D
        [XᵀD⁻¹X + αI      −XᵀD⁻¹u        ] [da]   [−ρ − XᵀD⁻¹h        ]         ρ = αa + Xᵀu
        [−uᵀD⁻¹X          uᵀD⁻¹u + s/(2σ)] [dσ] = [uᵀD⁻¹h + c/(2σ)    ]         c = target − σs

    so the scale is one more coefficient, with −u for its column, and the matrix is positive definite.
    """

    def __init__(self, problem: _Problem, point: _Point) -> None:
        self.problem, self.point = problem, point
        self.upper, self.lower = problem.bound - point.u, problem.bound + point.u
        self.room = problem.total - float(point.u @ point.u)
        products = float(point.above @ self.upper + point.below @ self.lower)
        # The gap of a feasible point, shared out among the 4n + 1 products it is the sum of.
        self.mu = (2.0 * products + point.sigma * self.room) / (4.0 * point.u.size + 1.0)

    def factorise(self) -> bool:
        """Factorise the system; False where it is not positive definite to working precision."""
        problem, point = self.problem, self.point
        p = point.a.size
        self.weight = 1.0 / (point.sigma + point.above / self.upper + point.below / self.lower)
        H = np.empty((p + 1, p + 1))
        H[:p, :p] = gram(problem.rows, self.weight)
        H.flat[: p * (p + 1) : p + 2] += problem.alpha
        H[p, :p] = -problem.rows.adjoint(self.weight * point.u)
        H[p, p] = point.u @ (self.weight * point.u) + self.room / (2.0 * point.sigma)
        if not np.isfinite(H[p, p]):
            return False
        # The transpose is in the order LAPACK wants; only the triangle that was filled is read.
        self.factor, info = dpotrf(H.T, lower=0, clean=0, overwrite_a=1)
        self.dual_residual = problem.alpha * point.a + problem.rows.adjoint(point.u)
        self.residual = problem.rows.forward(point.a) - problem.q - point.sigma * point.u - point.above + point.below
        return info == 0

    def step(self, target: _Target) -> _Point:
        """Return the Newton step towards `target`."""
        point, rows, p = self.point, self.problem.rows, self.point.a.size
        above = target.above - point.above * self.upper
        below = target.below - point.below * self.lower
        ball = (target.ball - point.sigma * self.room) / (2.0 * point.sigma)
        h = self.residual - target.bilinear - above / self.upper + below / self.lower
        right = np.empty(p + 1)
        right[:p] = -self.dual_residual - rows.adjoint(self.weight * h)
        right[p] = point.u @ (self.weight * h) + ball
        solved, _ = dpotrs(self.factor, right, lower=0)
        da, dsigma = solved[:p], float(solved[p])
        du = self.weight * (rows.forward(da) - point.u * dsigma + h)
        return _Point(
            da,
            dsigma,
            du,
            (above + point.above * du) / self.upper,
            (below - point.below * du) / self.lower,
        )

    def longest(self, step: _Point) -> float:
        """Return the largest length, at most 1, that keeps multipliers and distances non-negative."""
        point = self.point
        fastest = max(
            float(np.max(-step.above / point.above)),
            float(np.max(-step.below / point.below)),
            float(np.max(step.u / self.upper)),
            float(np.max(-step.u / self.lower)),
            -step.sigma / point.sigma,
            1.0,
        )
        # ‖u + t du‖² = N is a quadratic equation in t with one positive root, written without cancellation.
        square, mixed = float(step.u @ step.u), float(point.u @ step.u)
        to_ball = self.room / (mixed + np.sqrt(mixed**2 + square * self.room)) if square > 0.0 else np.inf
        return min(1.0 / fastest, to_ball)


# ----------------------------------------------------------------------------------------------------
# Splitting, for maps that can only be applied
# ----------------------------------------------------------------------------------------------------

# Rounds between two looks at the certificate, and conjugate-gradient steps in a round at most.
LOOK_EVERY = 5
INNER_STEPS = 40
OVERRELAXATION = 1.6


def _splitting(problem: _Problem, tolerance: float, max_iterations: int) -> _Best:
    """Alternate between the coefficients and the residuals r, which become variables of their own (ADMM).

    With step τ, each round is::

        a = argmin ‖Xa − q − r + τu‖² + ατ‖a‖²       conjugate gradients, started at the last a
        v = Xa − q + τu,   u = the point of C nearest to v/τ,   r = v − τu

    The lower bound comes from ``u + (Xa − q − r)/τ``, which satisfies αa + Xᵀu = 0 as far as the inner solve
    goes.
    """
    rows, q = problem.rows, problem.q
    a = np.zeros(rows.shape[1])
    a = _conjugate_gradients(rows, problem.alpha, rows.adjoint(q), a, tolerance=1e-4, max_steps=10 * INNER_STEPS)
    fitted = rows.forward(a) - q
    tau = max(2.0 * float(np.linalg.norm(fitted)) / np.sqrt(problem.total), 1e-6)
    u, r = problem.project(fitted / tau), fitted
    best, change = _Best(a).update(problem, a, problem.shrink_into(u)), float(np.linalg.norm(fitted))
    for iteration in range(1, max_iterations + 1):
        right = rows.adjoint(q + r - tau * u)
        accuracy = 0.1 * change / float(np.linalg.norm(right))
        a = _conjugate_gradients(rows, problem.alpha * tau, right, a, tolerance=accuracy, max_steps=INNER_STEPS)
        fitted = rows.forward(a) - q
        if iteration % LOOK_EVERY == 0 or iteration == max_iterations:
            best = best.update(problem, a, problem.shrink_into(u + (fitted - r) / tau))
            if best.reached(tolerance):
                break
        v = OVERRELAXATION * fitted + (1.0 - OVERRELAXATION) * r + tau * u
        u = problem.project(v / tau)
        r, last = v - tau * u, r
        change = max(float(np.linalg.norm(fitted - r)), float(np.linalg.norm(r - last)))
    return replace(best, iterations=iteration)


def _conjugate_gradients(
    rows: Rows, shift: float, right: Array, a: Array, *, tolerance: float, max_steps: int
) -> Array:
    """Solve ``(XᵀX + shift I) a = right`` from `a` until the residual is `tolerance` × ``‖right‖``."""
    residual = right - rows.adjoint(rows.forward(a)) - shift * a
    direction, square = residual, float(residual @ residual)
    goal = (tolerance * float(np.linalg.norm(right))) ** 2
    for _ in range(max_steps):
        if square <= goal:
            break
        image = rows.adjoint(rows.forward(direction)) + shift * direction
        length = square / float(direction @ image)
        a = a + length * direction
        residual = residual - length * image
        square, last = float(residual @ residual), square
        direction = residual + (square / last) * direction
    return a
