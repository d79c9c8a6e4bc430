"""How sure a population fit is of its metric: draws from its posterior, and a fit over all symmetric matrices.

The draws come from the posterior of the metric (`crowdmetric.solvers.posterior`), and intervals from the draws
(`crowdmetric.intervals`). The symmetric fit is for tests of whether there is a metric (`report.warnings`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.engines.local import LocalEngine
from crowdmetric.fits.exact_draws import draws_of_law, is_size_known, is_worth_exact_draws
from crowdmetric.fits.item_span import ItemSpan
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.solvers.law_fit import NO_METRIC, PopulationFit, observed_information, with_ridges
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.solvers.posterior import Expansion, SizeAndShape, draw_metrics, number_of_draws
from crowdmetric.solvers.priors import penalty
from crowdmetric.symmetric import degrees_of_freedom, smat, svec

__all__ = ["Uncertainty", "inverse_information", "posterior_draws", "uncertainty_of"]

Array = NDArray[Any]

# Maximum number of answers times parameters for second differences of the likelihood; beyond, they take too long.
MOST_DIFFERENCES = 150_000
# Information below which a parameter other than M counts as unknown, and the largest move of one at once: this much, or
# this share of it.
LEAST_INFORMATION, MOST_MOVED, MOST_SHARE = 0.01, 1.0, 0.1
# If the other parameters move further than this and gain more nats than this, the likelihood is expanded again; maximum
# number of expansions.
FAR, WORTH_MOVING, MOST_MOVES = 0.3, 0.1, 3
# Number of times the likelihood of few people is expanded again at the mean of the draws, and the number of answers per
# parameter from which that is not needed: a likelihood of many answers is quadratic as far as the posterior reaches.
REFINED, ENOUGH_ANSWERS = 1, 100
# With fewer answers per parameter the likelihood is far from quadratic: draws are from the likelihood itself, unless
# the log of the size has a larger standard deviation than this.
TOO_FEW_ANSWERS, LOOSE_SIZE = 10, 0.5


@dataclass(frozen=True)
class Uncertainty:
    """The uncertainty of a metric.

    Attributes
    ----------
    draws : (n, p)
        svec of metrics drawn from the posterior.
    symmetric, symmetric_covariance : (d, d), (p, p)
        The fit S over all symmetric matrices, and the covariance of svec S.
    symmetric_value
        The log-likelihood of S; NaN if the symmetric fit needed a ridge.
    """

    draws: Array
    symmetric: Array
    symmetric_covariance: Array
    symmetric_value: float

    def outside(self, span: ItemSpan, *, psd: bool) -> Uncertainty:
        """Return the same for all features of items that differ in fewer dimensions, extended by the prior."""
        return Uncertainty(
            span.draws_outside(self.draws, psd=psd),
            span.matrix_outside(self.symmetric),
            span.covariance_outside(self.symmetric, self.symmetric_covariance),
            self.symmetric_value,
        )

    @property
    def covariance(self) -> Array:
        """Covariance of the draws, (p, p)."""
        p = self.draws.shape[1]
        return np.cov(self.draws.T).reshape(p, p)

    @property
    def standard_errors(self) -> Array:
        """Standard deviations of the entries of M over the draws, (d, d)."""
        return smat(self.draws.std(axis=0, ddof=1))

    @property
    def scale_error(self) -> float:
        """The standard error of the logarithm of the scale tr M / d; infinite if that may be negative.

        Half the width of the middle 68 % of the draws: a long tail of small scales does not count twice.
        """
        d = self.symmetric.shape[0]
        scales = self.draws @ svec(np.eye(d)) / d
        if not np.all(scales > 0):
            return float("inf")
        return 0.5 * float(np.ptp(np.quantile(np.log(scales), [0.16, 0.84])))


def uncertainty_of(
    problem: PopulationProblem, fit: PopulationFit, size: float, *, free: bool, psd: bool, **stopping: Any
) -> Uncertainty:
    """Return how sure a fit is of its metric, for items that were made `size` times smaller (`Units`).

    Without the constraint (`psd`) the posterior is the Gaussian law of the symmetric fit.
    """
    symmetric, covariance, value = _symmetric_fit(problem, fit, free=free, **stopping)
    if psd:
        draws = posterior_draws(problem, fit, free=free)
        if not free and _is_too_rough(problem, fit) and is_size_known(draws, LOOSE_SIZE):
            draws = draws_of_law(problem.roughly(), fit, draws)
    else:
        rng, center = np.random.default_rng(0), fit.natural[fit.layout.metric]
        draws = rng.multivariate_normal(center, covariance, size=number_of_draws(problem.d), method="eigh")
    return Uncertainty(draws / size**2, smat(symmetric) / size**2, covariance / size**4, value)


def posterior_draws(problem: PopulationProblem, fit: PopulationFit, *, free: bool) -> Array:
    """Return svec (n, p) of metrics drawn from the posterior of a fit, in the units of the problem."""
    likelihood = PopulationLikelihood(problem, fit, free=free)
    few_answers = problem.weight * problem.step < ENOUGH_ANSWERS * fit.natural.size
    refine = REFINED if problem.has_few_people and few_answers else 0
    return draw_metrics(likelihood, fit.natural[fit.layout.metric], likelihood.begin(), refine=refine)


def _is_too_rough(problem: PopulationProblem, fit: PopulationFit) -> bool:
    """Return whether an expansion leaves out too much, and draws from the likelihood itself take seconds."""
    few_answers = problem.weight * problem.step < TOO_FEW_ANSWERS * fit.natural.size
    plain = isinstance(problem.engine, LocalEngine) and not problem.n_items
    return few_answers and plain and is_worth_exact_draws(problem)


def _is_worth_differences(problem: PopulationProblem, fit: PopulationFit) -> bool:
    """Return whether second differences, which take two passes per parameter, are worth their time.

    With few people, outer products of scores are too noisy. The expected information is a Gaussian approximation
    (`crowdmetric.users.expected`): it is accurate if people answer a lot, and then differences take long.
    """
    return problem.has_few_people and problem.weight * fit.natural.size <= MOST_DIFFERENCES


def _sharpening(problem: PopulationProblem, fit: PopulationFit) -> Array:
    """Return C (n, n) with ``CᵀIC`` the observed information at the fit, where I is the information from a pass.

    It is computed once and also corrects the information at other sizes of the metric. If differences are not worth
    their time, it is the identity.
    """
    if not _is_worth_differences(problem, fit):
        return np.eye(fit.natural.size)
    prior = with_ridges(np.zeros_like(fit.information), fit)
    observed = _positive_part(observed_information(problem.total, fit.natural, fit.score))
    roots = [np.linalg.cholesky(X + prior + LEAST_INFORMATION * np.eye(len(X))) for X in (observed, fit.information)]
    return np.asarray(np.linalg.solve(roots[1].T, roots[0].T))


def _symmetric_fit(
    problem: PopulationProblem, fit: PopulationFit, *, free: bool, **stopping: Any
) -> tuple[Array, Array, float]:
    """Return svec S (p,) of the fit over all symmetric matrices, its covariance (p, p) and its log-likelihood.

    Where the answers leave it undetermined, the ridges of the fit are kept.
    """
    d, at = problem.d, fit.layout.metric
    law = problem.structure.law(fit.natural, d)
    chart = Parametrization(d, "symmetric", free, problem.n_items)
    # a crowd that prefers distant items has no metric to start from, and an isotropic fit cannot cross zero
    metric = law.metric if np.trace(law.metric) > NO_METRIC * d else -0.5 * np.eye(d)
    spread = law.covariance if free else fit.natural[fit.layout.spread]
    start = chart.theta(metric, law.mean, spread, law.effects)
    ridges = replace(fit.ridges, shape=0.0, size=0.0)  # item effects keep theirs: alone, they could explain anything
    unbound = problem.roughly().fit("symmetric", chart, start, ridges=ridges, **stopping)
    value = unbound.value
    if not unbound.result.converged:
        value = float("nan")
        unbound = problem.roughly().fit("symmetric with ridge", chart, start, ridges=fit.ridges, **stopping)
    information = unbound.information
    if _is_worth_differences(problem, fit):
        information = observed_information(problem.total, unbound.natural, unbound.score)
    return unbound.natural[at], inverse_information(with_ridges(information, unbound))[at, at], value


class PopulationLikelihood:
    """The log-likelihood of a size and a shape of the metric, with people's law and item effects integrated out.

    Isotropic people have one spread s for all sizes c. Their mean μ has Jeffreys' prior, √det I_μ, where I_μ is the
    information about μ given everything else, so that the integral over μ favors no size. Priors that are flat in μ, or
    in the mean ideal point −½M⁻¹μ, differ from it by up to a factor cᵈ. With few answers for many features they would
    move the size up or down by more than its standard error. Free people have Jeffreys' prior of μ and Σ together, for
    the same reason. Under it the metric may be zero: there all sizes c, not their logarithms, are equally likely.
    """

    def __init__(self, problem: PopulationProblem, fit: PopulationFit, *, free: bool) -> None:
        self.problem, self.fit, self.free = problem.roughly(), fit, free
        self.space = SizeAndShape(problem.d)
        self.sharpened = _sharpening(problem, fit)
        # free people by a factor of their covariance, which is often singular: steps must not leave the cone
        self.chart = Parametrization(problem.d, "symmetric", free, problem.n_items) if free else None

    def __call__(self, t: float, T: Array, rest: Array) -> Expansion:
        """Return the expansion at t and T; `rest` are the parameters after M (`begin`)."""
        at, is_far = self._expanded(t, T, rest)
        for _ in range(MOST_MOVES):
            if not is_far:
                break
            at, is_far = self._expanded(t, T, at.rest)
        return at

    def begin(self) -> Array:
        """Return the fitted parameters other than M: natural ones, but a factor of the covariance of free people."""
        natural = self.fit.natural
        if self.chart is not None:
            law = self.problem.structure.law(natural, self.problem.d)
            natural = self.chart.theta(law.metric, law.mean, law.covariance, law.effects)
        return natural[degrees_of_freedom(self.problem.d) :].copy()

    def _expanded(self, t: float, T: Array, rest: Array) -> tuple[Expansion, bool]:
        """Return the expansion, and whether the other parameters are far from their optimum."""
        p = degrees_of_freedom(self.problem.d)
        c, basis = float(np.exp(t)), self.space.basis
        shape = self.space.identity + basis @ T
        theta = np.concatenate([c * shape, rest])
        natural = theta if self.chart is None else self.chart.natural(theta)
        sums = self.problem.total(natural)
        assert sums.information is not None
        information = self.sharpened.T @ sums.information @ self.sharpened
        # the shape has a prior of its own (`crowdmetric.solvers.posterior`)
        prior = penalty(natural, self.fit.layout, replace(self.fit.ridges, shape=0.0), self.fit.beta)
        value, slope = sums.value - prior.value, sums.score - prior.gradient
        curved = known = information + prior.curvature
        if self.chart is not None:
            pulled = self.chart.pull_back(theta, -value, -slope, curved)
            slope, curved = -pulled.gradient, pulled.curvature
        # columns: t, T, everything else
        J = np.eye(theta.size)
        J[:p, 0], J[:p, 1:p] = c * shape, c * basis
        g, H = J.T @ slope, J.T @ curved @ J
        n = slice(p, None)
        values, vectors = np.linalg.eigh(H[n, n])
        values = np.maximum(values, LEAST_INFORMATION)
        inverse = (vectors / values) @ vectors.T
        step = inverse @ g[n]
        layout = self.fit.layout
        flat = slice(layout.mean.start, layout.spread.stop) if self.free else layout.mean
        volume = 0.5 * (_log_determinant(known[flat, flat]) - _log_determinant(known[n, n]))
        gain = 0.5 * float(g[n] @ step)
        # far from its optimum an expansion predicts a larger gain than there is
        value += min(gain, 0.5 * rest.size) + volume + (t if self.free else 0.0)
        inner = H[:p, :p] - H[:p, n] @ inverse @ H[n, :p]
        curvature = _positive_part(inner[1:, 1:])
        precision = inner[0, 0] - inner[0, 1:] @ np.linalg.solve(curvature + np.eye(p - 1), inner[1:, 0])
        length = float(np.max(np.abs(step) / np.maximum(MOST_SHARE * np.abs(rest), 1.0)))
        gradient = g[1:p] - H[1:p, n] @ step
        moved = rest + step * min(1.0, MOST_MOVED / max(length, 1e-300))
        return Expansion(t, value, gradient, curvature, moved, float(precision)), length > FAR and gain > WORTH_MOVING


def _log_determinant(information: Array) -> float:
    """Return log det of an information (n, n)."""
    return float(np.sum(np.log(np.maximum(np.linalg.eigvalsh(information), LEAST_INFORMATION))))


def _positive_part(H: Array) -> Array:
    """Return H without its negative eigenvalues, which differences produce far from an optimum."""
    values, vectors = np.linalg.eigh(H)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def inverse_information(information: Array) -> Array:
    """Return the inverse; directions without information get a practically infinite variance.

    Negative information, which differences produce if a symmetric fit diverges, counts as zero.
    """
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(information)), 1e-100))
    values, vectors = np.linalg.eigh(information * scale[:, None] * scale)
    values = np.maximum(values, max(1e-12 * values[-1], 1e-300))
    return (vectors / values) @ vectors.T * scale[:, None] * scale
