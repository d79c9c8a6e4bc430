"""The posterior of a population fit: its sizes by their evidence, and a Gaussian law of everything else at each size.

Let ``M = c (I + T)`` with ``c = tr M / d`` and T without trace, n = everything but M, and ρ the ridge on the shape that
c asks for. The fit is repeated at several fixed sizes, and each has the evidence (Laplace's method)::

    log E(c) = ℓ − prior − ½ ρ‖T̂‖² + ½ (p − 1) log ρ − ½ log det P + ½ log det P_μμ        (+ log c for free people)

P is the precision of T and n: the information about them, c² B'AB for T, with the prior. The columns of B are the
traceless directions in which the metric can move. So shape and n are integrated out, people's mean μ (with their
covariance, if it is free) under Jeffreys' prior, which favors no size: priors that are flat in μ, or in the mean ideal
point −½M⁻¹μ, would differ from it by up to a factor cᵈ. All orders of magnitude of c are equally likely; where people's
covariance is free, the metric may be zero, and there all sizes are. Between the sizes, log E is interpolated.

A draw takes a size by its evidence, and then (T, n) from the Gaussian law around the fit at the nearest size, moved
along to the size that was drawn. This is a nested Laplace approximation (Rue, Martino, and Chopin): the size, in which
the posterior is skewed, is integrated numerically. The law of T is Gaussian over all traceless matrices. So in
directions about which the answers say little a draw may have small negative eigenvalues: projected on metrics, draws
would be too large along noise, and cover a metric of low rank less often.

The sizes go so far that the evidence has fallen by `NEGLIGIBLE` nats, and at least to half and to twice the fitted one:
an interval that the likelihood contradicts there cannot come out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import Akima1DInterpolator
from scipy.linalg import solve_triangular

from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.solvers.law_fit import NO_METRIC, PopulationFit, observed_information, wanted_shape
from crowdmetric.solvers.posterior import SizeAndShape
from crowdmetric.solvers.priors import penalty, shape_penalty
from crowdmetric.symmetric import degrees_of_freedom, project_to_trace, smat, svec

__all__ = ["AtSize", "Posterior", "answers_know_size", "nearest_metrics", "posterior_of"]

Array = NDArray[Any]

# Distance of sizes in standard errors at fixed shape, and limits of that distance in log. It is doubled where the
# evidence changes by less than this, in nats: a size at a fixed shape is known better than at the best shape for it.
APART, LEAST_APART, MOST_APART, HARDLY_LOWER = 1.6, 0.02, 0.4, 0.5
# Sizes end where the evidence has fallen by this many nats, or this far from the fitted one, in log, or at so many.
NEGLIGIBLE, FARTHEST, MOST_SIZES = 5.0, 4.0, 17
# Sizes are excluded where the evidence is this many nats lower: outside an interval of 95 %.
EXCLUDED = 2.0
# Strength with which a size is held, relative to the information about it: three standard errors away, the answers move
# it by a tenth of one. Much stronger, the valley would be too steep and narrow for steps along it.
HELD = 30.0
# Tolerance of fits at fixed sizes, in nats, and most steps.
TOLERANCE, STEPS = 0.05, 100
# With at least so many people per parameter, outer products of their scores are the information. With fewer, second
# differences of the likelihood are, if answers times parameters are at most so many; beyond, the expected information.
PEOPLE_PER_PARAMETER, MOST_DIFFERENCES = 5, 50_000
# Least information about a parameter other than the shape, for which the prior alone need not be proper.
LEAST_INFORMATION = 0.01
# Points between the first and the last size at which evidence is interpolated.
POINTS = 2001


@dataclass(frozen=True)
class AtSize:
    """A fit at a fixed size.

    Attributes
    ----------
    t, evidence
        log c and log E(c).
    fit
        Where it ended.
    center : (p + n,)
        svec(I + T̂) and n̂.
    directions : (p, q)
        B.
    root : (q + n, q + n)
        The lower Cholesky factor of the precision of T, in coordinates of B, and n.
    """

    t: float
    evidence: float
    fit: PopulationFit
    center: Array
    directions: Array
    root: Array

    @property
    def is_usable(self) -> bool:
        """Whether the fit converged, so that its evidence can be believed."""
        return self.fit.result.converged and bool(np.isfinite(self.evidence))


@dataclass(frozen=True)
class Posterior:
    """Fits at several sizes, in increasing order."""

    sizes: list[AtSize]

    @property
    def excludes_sizes(self) -> bool:
        """Whether evidence excludes smaller and larger sizes than those that were fitted, which no draw has."""
        ends = max(self.sizes[0].evidence, self.sizes[-1].evidence)
        return ends < max(at.evidence for at in self.sizes) - EXCLUDED

    @cached_property
    def log_sizes(self) -> tuple[Array, Array]:
        """Values of log c, and the cumulative probability there."""
        t, evidence = (np.array([getattr(at, name) for at in self.sizes]) for name in ("t", "evidence"))
        if t.size == 1:
            return np.repeat(t, 2), np.array([0.0, 1.0])
        grid = np.linspace(t[0], t[-1], POINTS)
        weight = np.exp(Akima1DInterpolator(t, evidence, method="makima")(grid) - evidence.max())
        below = np.concatenate([[0.0], np.cumsum(0.5 * (weight[1:] + weight[:-1]))])
        return grid, below / below[-1]

    def draws(self, count: int, seed: int = 0) -> Array:
        """Return natural parameters (count, ·) drawn from the posterior."""
        rng = np.random.default_rng(seed)
        grid, below = self.log_sizes
        t = np.interp(rng.random(count), below, grid)
        ts, centers = np.array([at.t for at in self.sizes]), np.stack([at.center for at in self.sizes])
        nearest = np.argmin(np.abs(ts[:, None] - t), axis=0)
        noise = rng.standard_normal((len(self.sizes[0].root), count))
        out = np.stack([np.interp(t, ts, column) for column in centers.T], axis=1)
        p = self.sizes[0].fit.layout.p
        for number, at in enumerate(self.sizes):
            rows, q = np.flatnonzero(nearest == number), at.directions.shape[1]
            moves = solve_triangular(at.root, noise[:, rows], lower=True, trans="T").T
            out[rows, :p] += moves[:, :q] @ at.directions.T
            out[rows, p:] += moves[:, q:]
        out[:, :p] *= np.exp(t)[:, None]
        return out


def posterior_of(problem: PopulationProblem, fit: PopulationFit) -> Posterior:
    """Return the posterior around a fit with a metric."""
    many = problem.n_people >= PEOPLE_PER_PARAMETER * fit.natural.size
    problem = replace(problem.roughly(), by_outer_products=True if many else None)
    t = max(_log_size(fit), float(np.log(NO_METRIC)))
    known = max(_precision_of_size(fit), 1.0)
    apart = float(np.clip(APART * known**-0.5, LEAST_APART, MOST_APART))
    hold = HELD * known
    middle = _fit_at(problem, fit, t, hold)
    found, best = [middle], middle.evidence
    for way in (1.0, -1.0):
        at, step, before = middle, apart, middle.evidence
        while len(found) < MOST_SIZES and abs(at.t - t) < FARTHEST:
            trial = _fit_at(problem, at.fit, at.t + way * step, hold)
            if not trial.is_usable:
                break
            at = trial
            found.append(at)
            best = max(best, at.evidence)
            if at.evidence < best - NEGLIGIBLE:
                break
            if abs(at.evidence - before) < HARDLY_LOWER:
                step = min(2.0 * step, MOST_APART)
            before = at.evidence
        if way * (at.t - t) < np.log(2.0):
            trial = _fit_at(problem, at.fit, t + way * float(np.log(2.0)), hold)
            found += [trial] if trial.is_usable else []
    return Posterior(sorted(found, key=lambda at: at.t))


def answers_know_size(fit: PopulationFit) -> bool:
    """Return whether the answers say anything about the size, with the shape and the law of people free to move along.

    They do not where people's covariance is free and features are yes or no: ``x² = x``, so the diagonal of M cannot be
    told from the mean of people, and the size that comes out is the one at which noise still leaves M a metric. Effects
    of items are told from distances by their law alone, so that is taken as known.
    """
    at, A = fit.layout, fit.information.copy()
    A[at.items, at.items] += fit.ridges.items * np.eye(at.n_items)
    along = np.zeros(len(A))
    along[at.metric] = fit.natural[at.metric]
    J = np.zeros((len(A), len(A) - 1))
    J[at.metric, : at.p - 1], J[at.p :, at.p - 1 :] = SizeAndShape(at.d).basis, np.eye(len(A) - at.p)
    across, others = J.T @ A @ along, J.T @ A @ J
    return float(along @ A @ along - across @ np.linalg.pinv(others, hermitian=True) @ across) > LEAST_INFORMATION


def nearest_metrics(draws: Array) -> Array:
    """Return svec of the positive semi-definite matrices of the same trace that are nearest to draws svec M (n, p)."""
    return svec(project_to_trace(smat(draws)))


def _fit_at(problem: PopulationProblem, near: PopulationFit, t: float, hold: float) -> AtSize:
    """Return the fit at about log c = t, held with a strength, from one at another size."""
    chart, layout, p = near.chart, near.layout, near.layout.p
    ridges = replace(near.ridges, volume=0.0, held=(t, hold))
    start = chart.resized(near.theta, t - _log_size(near))
    fit = problem.fit(f"size {t:.6f}", chart, start, ridges=ridges, tolerance=TOLERANCE, max_iterations=STEPS)
    if ridges.shape > 0.0:  # evidence is stationary in the ridge: the next fit may have the one that this asks for
        fit = replace(fit, ridges=replace(fit.ridges, shape=wanted_shape(fit, layout.metric, ridges.shape)))
    t = _log_size(fit)
    shape, c = fit.natural[:p] / np.exp(t), float(np.exp(t))
    B = _directions(fit)
    q, n = B.shape[1], fit.natural.size - p
    rest = penalty(fit.natural, layout, replace(ridges, shape=0.0, held=None), fit.beta)
    A = _information(problem, fit) + rest.curvature
    J = np.zeros((p + n, q + n))
    J[:p, :q], J[p:, q:] = c * B, np.eye(n)
    precision = J.T @ A @ J
    precision[:q, :q] += ridges.shape * np.eye(q)
    precision[q:, q:] = _at_least(precision[q:, q:], LEAST_INFORMATION)
    root = _cholesky(precision)
    flat = slice(q, q + (layout.spread.stop if layout.free else layout.mean.stop) - p)
    volume = 2.0 * float(np.sum(np.log(np.diag(root)))) - float(np.linalg.slogdet(precision[flat, flat])[1])
    evidence = fit.value - rest.value - shape_penalty(fit.natural[:p], ridges.shape).value - 0.5 * volume
    if ridges.shape > 0.0:
        evidence += 0.5 * q * float(np.log(ridges.shape))
    if layout.free:
        evidence += t
    return AtSize(t, evidence, fit, np.concatenate([shape, fit.natural[p:]]), B, root)


def _log_size(fit: PopulationFit) -> float:
    d = fit.layout.d
    return float(np.log(max(float(fit.natural[fit.layout.metric] @ svec(np.eye(d))) / d, 1e-300)))


def _precision_of_size(fit: PopulationFit) -> float:
    """Return the information about log c alone."""
    m = fit.layout.metric
    return float(fit.natural[m] @ fit.information[m, m] @ fit.natural[m])


def _information(problem: PopulationProblem, fit: PopulationFit) -> Array:
    """Return the information (n, n) about natural parameters at a fit, without negative eigenvalues."""
    if not problem.has_few_people or problem.weight * fit.natural.size > MOST_DIFFERENCES:
        return fit.information
    return _at_least(observed_information(problem.total, fit.natural, fit.score), 0.0)


def _directions(fit: PopulationFit) -> Array:
    """Return an orthonormal basis (p, q) of the traceless directions in which a metric can move.

    One of rank k can move along ``dL Lᵀ + L dLᵀ``: not along matrices ``N S Nᵀ``, N its null space.
    """
    d, k = fit.layout.d, fit.chart.columns
    basis = SizeAndShape(d).basis
    if k >= d:
        return basis
    null = np.linalg.eigh(smat(fit.natural[fit.layout.metric]))[1][:, : d - k]
    excluded = basis.T @ svec(null @ smat(np.eye(degrees_of_freedom(d - k))) @ null.T).T
    left, sizes, _ = np.linalg.svd(excluded, full_matrices=True)
    return np.asarray(basis @ left[:, np.count_nonzero(sizes > 1e-9) :])


def _at_least(A: Array, least: float) -> Array:
    """Return a symmetric matrix with its eigenvalues at or above `least`, in the units of its diagonal."""
    values, vectors = np.linalg.eigh(A)
    return A if values[0] >= least else (vectors * np.maximum(values, least)) @ vectors.T


def _cholesky(A: Array) -> Array:
    try:
        return np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return np.linalg.cholesky(_at_least(A, LEAST_INFORMATION))
