"""The posterior of a metric ``M = LLᵀ + γI + NSNᵀ``, and the evidence for its rank and for the strength of its ridge.

Entries of L (d, k) have the prior N(0, 1/ρ), and γ ≥ 0 any value. Of the rest γI, what differs by direction is S,
symmetric and without trace, in the directions N (d, d − k) that L leaves out: N(0, v) in each entry of its svec, with
any v up to γ². The fit (`crowdmetric.fits.many_features`) has S = 0. L, the mean and the spread of people have a
Gaussian law around the fit, whose precision is the information of the answers (`users.first_order.Roots`), the
curvature of LLᵀ, and the prior; γ has the same law cut off at zero. Laplace's method gives the evidence for k and ρ::

    log E = ℓ − prior + ½ dk log(ρ/2π) + ½ (n − r) log 2π − ½ log det A + log O + log Pr[γ ≥ 0]

LQ is as good as L for any rotation Q. So A is the precision across the r = k(k − 1)/2 directions LΩ, Ω skew, and O is
the volume of all LQ: that of the orthogonal group (unit length: one radian of one plane) times
``Π_{i<j} √(σ_i² + σ_j²)`` with the singular values σ of L. In ρ the evidence is stationary at
``ρ = (dk − ρ tr A⁻¹_LL) / ‖L‖²``.

S is hardly known, entry by entry. With the gradient g (`users.first_order.gradient_in_metric`) and the information h of
each entry, it has the law ``N(g/(h + 1/v), 1/(h + 1/v))`` given v, and v has the weight
``Π (1 + hv)^{-1/2} exp(½ g²/(h + 1/v))``. It does not count in the evidence: where L has too few columns, one step from
S = 0 promises far more than there is. The information h of an entry is taken as proportional to the product of the
items' variances in its two directions, so nothing larger than a matrix (d, d) is made.

A lacks how S bends with L. That hardly changes draws, but evidence is a sum over hundreds of directions. So ranks are
compared with the observed precision H in place of A (`observed_evidence`): ``log det H − log det A = tr log W`` with
``W = R⁻¹HR⁻ᵀ`` and ``A = RRᵀ``, estimated by Lanczos steps from random signs; products with H are differences of
gradients. W is nearly the identity, so few steps and few signs are enough. Where it is far from that along some
direction, the fit is hardly a maximum: it has columns about which the answers say nothing, and no evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import gammaln, logsumexp
from scipy.stats import norm, truncnorm

from crowdmetric.losses import Loss
from crowdmetric.solvers.law_fit import LIMITS
from crowdmetric.solvers.quasi_newton import LowRankResult
from crowdmetric.symmetric import as_like, as_numpy
from crowdmetric.users.first_order import (
    EqualQuestions,
    FreePeople,
    IsotropicPeople,
    LowRank,
    gradient_in_metric,
    roots_of_information,
)

__all__ = ["DRAWS", "LowRankPosterior", "observed_evidence", "posterior_of", "work_of_information"]

Array = NDArray[Any]

# Number of draws, and the precision of rotations of L relative to the most precise other direction.
DRAWS, STIFF = 400, 1e3
# Lanczos steps and random signs for a trace, the length of differences per parameter, and the least eigenvalue of W at
# a maximum.
STEPS, SIGNS, NEAR, LEAST = 5, 8, 1e-4, 1e-2
# Share of the largest precision that is added to all: where answers say nothing, rounding must not make it negative.
ROUNDING = 1e-10
# Numbers in the square roots of information that are computed at once.
AT_ONCE = 1 << 24
# The variances of the entries of S that are averaged over, relative to γ².
VARIANCES = np.geomspace(1e-4, 1.0, 17)


@dataclass(frozen=True)
class Remainder:
    """The law of S: its axes N (d, q), and variances v with their weights; mean and variance (q, q) given each v."""

    axes: Array
    gradient: Array
    information: Array
    variances: Array
    log_weights: Array

    @staticmethod
    def of(gradient: Array, factor: Array, items_covariance: Array, known: float, rest: float) -> Remainder:
        """Return the law, given ∂ℓ/∂M and the sum of the information about all entries of M outside the span of L."""
        axes = np.linalg.svd(factor, full_matrices=True)[0][:, factor.shape[1] :]
        lengths, turn = np.linalg.eigh(axes.T @ items_covariance @ axes)
        axes, lengths = axes @ turn, np.maximum(lengths, 1e-12)
        h = np.outer(lengths, lengths)
        h *= known / max(float(np.sum(np.triu(h))), 1e-300)
        g = axes.T @ gradient @ axes * np.where(np.eye(len(h)), 1.0, np.sqrt(2.0))
        g[np.diag_indices(len(g))] -= np.trace(g) * np.diag(h) / max(float(np.trace(h)), 1e-300)  # that about γ
        upper = np.triu_indices(len(g))
        variances = max(rest, 1e-12) ** 2 * VARIANCES
        v = variances[:, None]
        gain = -0.5 * np.log1p(h[upper] * v) + 0.5 * g[upper] ** 2 / (h[upper] + 1.0 / v)
        return Remainder(axes, g, h, variances, gain.sum(axis=1))

    def draws(self, count: int, rng: np.random.Generator) -> Iterator[Array]:
        """Yield ``NSNᵀ`` (d, d)."""
        weights = np.exp(self.log_weights - logsumexp(self.log_weights))
        off = np.where(np.eye(len(self.gradient)), 1.0, np.sqrt(0.5))
        for v in rng.choice(self.variances, size=count, p=weights):
            precision = self.information + 1.0 / v
            S = np.triu(self.gradient / precision + rng.standard_normal(precision.shape) / np.sqrt(precision)) * off
            yield self.axes @ (S + np.triu(S, 1).T) @ self.axes.T


@dataclass(frozen=True)
class LowRankPosterior:
    """Draws of everything but S around a fit, the law of S, and the evidence.

    Attributes
    ----------
    fit
        Where the fit ended.
    root, turns
        R (n, n), the lower Cholesky factor of A, and rotations of L in it (n, r), orthonormal times their precision's
        root.
    drawn
        Draws of `LowRank.flat` (DRAWS, n).
    remainder
        The law of S; None for a metric of rank k.
    log_evidence
        log E; only differences mean anything.
    determined
        How many of the dk entries of L the answers determine, rotations included.
    """

    fit: LowRankResult
    root: Array
    turns: Array
    drawn: Array
    remainder: Remainder | None
    log_evidence: float
    determined: float

    @property
    def wanted_shape(self) -> float:
        """The ridge ρ on L that the evidence asks for."""
        wanted = self.determined / max(float(np.sum(self.fit.at.factor**2)), 1e-12)
        return float(np.clip(wanted, *LIMITS["shape"]))

    @property
    def factors(self) -> Array:
        """Draws (DRAWS, d, k) of L."""
        d, k = self.fit.at.factor.shape
        return self.drawn[:, : d * k].reshape(-1, d, k)

    @property
    def rests(self) -> Array:
        """Draws (DRAWS,) of γ; zero for a metric of rank k."""
        return np.array([self.fit.at.moved(flat).rest or 0.0 for flat in self.drawn])

    def mean(self) -> LowRank:
        """Return the law of people with the mean of the metric: its k leading directions, and as much in all others.

        The mean of ``LLᵀ`` is larger than ``LLᵀ`` at the fit by the covariance of L. A metric of a given rank has its
        leading directions and its trace.
        """
        at = self.fit.at
        d, k = at.factor.shape
        values, vectors = np.linalg.eigh(np.einsum("ndk,nek->de", self.factors, self.factors) / len(self.drawn))
        others = float(values[: d - k].mean()) if k < d and at.rest is not None else 0.0
        factor = vectors[:, d - k :] * np.sqrt(np.maximum(values[d - k :] - others, 0.0))
        if at.rest is None:
            factor *= np.sqrt(max(float(values.sum() / values[d - k :].sum()), 1.0))
        people = at.people
        if not isinstance(people, IsotropicPeople):  # their covariance is in the coordinates of L
            turn = np.linalg.pinv(factor) @ at.factor
            people = FreePeople.of(turn @ at.covariance @ turn.T)
        rest = None if at.rest is None else others + float(np.mean(self.rests))
        return replace(at, factor=factor, people=people, rest=rest)

    def entry_errors(self) -> Array:
        """Return the standard deviations (d, d) of the entries of ``LLᵀ + γI`` over the draws."""
        total = square = np.zeros((len(self.fit.at.factor),) * 2)
        for factor, rest in zip(self.factors, self.rests, strict=True):
            metric = factor @ factor.T + rest * np.eye(len(factor))
            total, square = total + metric, square + metric**2
        mean = total / len(self.drawn)
        return np.asarray(np.sqrt(np.maximum(square / len(self.drawn) - mean**2, 0.0)))

    def laws(self, seed: int = 0) -> Iterator[tuple[LowRank, Array]]:
        """Yield draws of a law of people and of its metric, S included; matrices (d, d) are made one at a time."""
        rng = np.random.default_rng(seed)
        several = None if self.remainder is None else self.remainder.draws(len(self.drawn), rng)
        for flat in self.drawn:
            at = self.fit.at.moved(flat)
            metric = at.factor @ at.factor.T
            if several is not None and at.rest is not None:
                metric += at.rest * np.eye(len(metric)) + next(several)
            yield at, metric


def work_of_information(answers: float, n: int) -> float:
    """Return how many multiplications the information about n parameters takes."""
    return answers * float(n) ** 2


def posterior_of(
    items: Any, questions: Iterable[EqualQuestions], fit: LowRankResult, loss: Loss, share: float = 1.0, seed: int = 0
) -> LowRankPosterior:
    """Return the posterior around a fit, from the questions of a share of its people."""
    fit = replace(fit, at=_along_axes(fit.at))
    at, prior = fit.at, fit.prior
    d, k = at.factor.shape
    n, xp = at.flat().size, array_namespace(items)
    A, known = _information(items, questions, at, loss)
    A, known = A / share, known / share
    gradient = gradient_in_metric(items, questions, at, loss) / share
    held = prior.precision(at)
    diagonal = xp.arange(n, device=items.device)
    A[diagonal, diagonal] += xp.asarray(held + ROUNDING * float(xp.max(xp.linalg.diagonal(A))), device=items.device)
    mean = slice(d * k, d * k + d)
    A[mean, mean] += xp.asarray(prior.of_mean, dtype=xp.float64, device=items.device)
    turns = np.zeros((n, k * (k - 1) // 2))
    turns[: d * k] = np.linalg.qr(_turns(at.factor))[0]
    stiff = STIFF * float(xp.max(xp.linalg.diagonal(A)))
    turned = xp.astype(as_like(turns, items), xp.float64)
    root = _root(A + stiff * (turned @ turned.T), gradient, k)
    log_det = 2.0 * float(xp.sum(xp.log(xp.linalg.diagonal(root)))) - turns.shape[1] * float(np.log(stiff))
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((n, DRAWS // 2))
    noise = xp.asarray(np.concatenate([half, -half], axis=1), dtype=xp.float64, device=items.device)
    upper = xp.matrix_transpose(root)
    moved = as_numpy(xp.linalg.solve(upper, noise)).T  # with A = RRᵀ, R⁻ᵀz has the covariance A⁻¹
    entries = np.sum(moved[:, : d * k] ** 2, axis=1)
    evidence = fit.value - prior(at)[0] + 0.5 * (n - turns.shape[1]) * np.log(2.0 * np.pi) - 0.5 * log_det
    evidence += _log_volume(at.factor)
    if prior.shape:
        evidence += 0.5 * d * k * np.log(prior.shape / (2.0 * np.pi))
    remainder = None
    if at.rest is not None:
        place = n - at.effects.size - 1
        unit = xp.asarray(np.eye(n)[:, place], dtype=xp.float64, device=items.device)
        column = as_numpy(xp.linalg.solve(upper, xp.linalg.solve(root, unit[:, None])))[:, 0]
        slope = min(float(np.trace(gradient)) - fit.prior(at)[1][place], 0.0) if at.rest == 0.0 else 0.0
        middle, spread = at.rest + slope * column[place], float(np.sqrt(column[place]))
        evidence += 0.5 * slope**2 * column[place] + norm.logcdf(middle / spread)
        cut = truncnorm.rvs(-middle / spread, np.inf, middle, spread, size=DRAWS, random_state=rng)
        moved += np.outer(cut - at.rest - moved[:, place], column / column[place])
        covariance = prior.items_covariance
        if k < d:
            remainder = Remainder.of(gradient, at.factor, covariance, _outside(known, items, at, covariance), at.rest)
    determined = d * k - prior.shape * float(np.mean(entries))
    turns *= np.sqrt(stiff)
    return LowRankPosterior(fit, as_numpy(root), turns, at.flat() + moved, remainder, float(evidence), determined)


def observed_evidence(posterior: LowRankPosterior, function: Callable[[LowRank], tuple[float, Array]]) -> float:
    """Return log E with the observed precision; `function` is the log-likelihood with its gradient."""
    fit, root, turns = posterior.fit, posterior.root, posterior.turns
    n, rng, flat = len(root), np.random.default_rng(0), fit.at.flat()

    def gradient(at: LowRank) -> Array:
        return np.asarray(fit.prior(at)[1] - function(at)[1])

    here = gradient(fit.at)

    def product(u: Array) -> Array:
        v = solve_triangular(root, u, lower=True, trans="T")
        length = NEAR * np.sqrt(n) / np.linalg.norm(v)
        bent = (gradient(fit.at.moved(flat + length * v)) - here) / length
        return np.asarray(solve_triangular(root, bent + turns @ (turns.T @ v), lower=True))

    logs = []
    for _ in range(SIGNS):
        basis, T = [rng.choice([-1.0, 1.0], n) / np.sqrt(n)], np.zeros((STEPS + 1, STEPS + 1))
        for step in range(STEPS):
            w = product(basis[-1])
            T[step, step] = w @ basis[-1]
            for _again in range(2):
                w = w - sum((q @ w) * q for q in basis)
            T[step, step + 1] = T[step + 1, step] = np.linalg.norm(w)
            basis.append(w / max(T[step, step + 1], 1e-300))
        values, vectors = np.linalg.eigh(T[:STEPS, :STEPS])
        if values[0] < LEAST:
            return -np.inf
        logs.append(n * float(np.sum(vectors[0] ** 2 * np.log(values))))
    return posterior.log_evidence - 0.5 * float(np.mean(logs))


def _root(A: Any, gradient: Array, k: int) -> Any:
    """Return the lower Cholesky factor of a precision with the curvature of ``LLᵀ``, ``−2 ∂ℓ/∂M`` for each column of L.

    Along columns that are nearly zero, it is all the answers say. Where it makes the precision indefinite, because
    some of the information is an estimate, it is left out.
    """
    xp, d = array_namespace(A), len(gradient)
    bent = xp.asarray(A, copy=True)
    bend = xp.asarray(2.0 * gradient, dtype=xp.float64, device=A.device)
    for column in range(k):
        bent[column : d * k : k, column : d * k : k] -= bend
    for precision in (bent, A):
        try:
            return xp.linalg.cholesky(precision)
        except (RuntimeError, np.linalg.LinAlgError):
            continue
    # without information along some directions, and much along others, rounding may leave A indefinite
    unit = xp.sqrt(xp.linalg.diagonal(A))
    values, vectors = xp.linalg.eigh(A / unit[:, None] / unit)
    values = xp.maximum(values, ROUNDING * values[-1:])
    return unit[:, None] * xp.linalg.cholesky((vectors * values) @ xp.matrix_transpose(vectors))


def _along_axes(at: LowRank) -> LowRank:
    """Return the same law of isotropic people with L along its axes, so that draws do not depend on how L is turned."""
    if not isinstance(at.people, IsotropicPeople):
        return at
    left, sizes, _ = np.linalg.svd(at.factor, full_matrices=False)
    largest = np.take_along_axis(left, np.argmax(np.abs(left), axis=0)[None], axis=0)
    return replace(at, factor=left * sizes * np.sign(largest))


def _information(items: Any, questions: Iterable[EqualQuestions], at: LowRank, loss: Loss) -> tuple[Any, float]:
    """Return the information (n, n), and ``Σ R_ii ‖xxᵀ − x'x'ᵀ‖²``: that about all entries of a metric together."""
    xp, n = array_namespace(items), at.flat().size
    A = xp.zeros((n, n), dtype=xp.float64, device=items.device)
    known = 0.0
    for some in _pieces(questions, n):
        roots = roots_of_information(items, some, at, loss)
        for part in (roots.offsets, roots.spreads):
            A += xp.astype(part.T @ part, xp.float64)
        left, right = items[some.left], items[some.right]
        one, other, both = (xp.sum(a * b, axis=2) for a, b in ((left, left), (right, right), (left, right)))
        known += float(xp.sum(roots.known * (one**2 + other**2 - 2.0 * both**2), dtype=xp.float64))
    return A, known


def _outside(known: float, items: Any, at: LowRank, covariance: Array) -> float:
    """Return the part of the information about entries of a metric that is about those outside the span of L.

    That about an entry is in proportion to the items' variances in its two directions.
    """
    axes = np.linalg.svd(at.factor, full_matrices=True)[0][:, at.factor.shape[1] :]
    outside, whole = axes.T @ covariance @ axes, covariance
    return known * _pairs(outside) / max(_pairs(whole), 1e-300)


def _pairs(covariance: Array) -> float:
    """Return the sum of products of two variances along the axes, over all pairs of axes and each with itself."""
    values = np.linalg.eigvalsh(covariance)
    return 0.5 * float(values.sum() ** 2 + np.sum(values**2))


def _pieces(questions: Iterable[EqualQuestions], n: int) -> Iterator[EqualQuestions]:
    """Yield people whose answers' derivatives in n parameters are not too many numbers."""
    for some in questions:
        people, m = some.left.shape
        size = max(1, AT_ONCE // (n * m))
        for begin in range(0, people, size):
            yield some[begin : begin + size]


def _log_volume(factor: Array) -> float:
    """Return log O, the volume of all LQ; 0 for one column, where O is two points and their factor does not matter."""
    k = factor.shape[1]
    sizes = np.maximum(np.linalg.svd(factor, compute_uv=False), 1e-12)
    rows, columns = np.triu_indices(k, 1)
    half = 0.5 * np.arange(2, k + 1)
    group = np.log(2.0) + float(np.sum(np.log(2.0) + half * np.log(np.pi) - gammaln(half)))
    return group + 0.5 * float(np.sum(np.log(sizes[rows] ** 2 + sizes[columns] ** 2)))


def _turns(factor: Array) -> Array:
    """Return the directions LΩ (dk, k(k−1)/2) in which rotations move L."""
    d, k = factor.shape
    rows, columns = np.triu_indices(k, 1)
    out = np.zeros((rows.size, d, k))
    every = np.arange(rows.size)
    out[every, :, rows], out[every, :, columns] = factor.T[columns], -factor.T[rows]
    return out.reshape(rows.size, d * k).T
