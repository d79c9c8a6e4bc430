"""How sure a population fit is: draws from its posterior, and a fit over all symmetric matrices.

The draws come from the posterior of the law (`crowdmetric.fits.size_posterior`), and intervals from the draws
(`crowdmetric.intervals`). The symmetric fit is for tests of whether there is a metric (`report.warnings`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.fits.size_posterior import answers_know_size, posterior_of
from crowdmetric.solvers.law_fit import NO_METRIC, PopulationFit, observed_information, with_ridges
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.solvers.posterior import number_of_draws
from crowdmetric.symmetric import smat, svec

__all__ = ["Uncertainty", "inverse_information", "uncertainty_of"]

Array = NDArray[Any]

# Maximum number of answers times parameters for second differences of the likelihood; beyond, they take too long.
MOST_DIFFERENCES = 150_000


@dataclass(frozen=True)
class Uncertainty:
    """The uncertainty of a fit, in its own units.

    Attributes
    ----------
    draws : (n, ·)
        Natural parameters drawn from the posterior.
    scale_error
        The standard error of log c; infinite if c may be negative, or the answers exclude no larger or no smaller c.
    symmetric, symmetric_covariance : (d, d), (p, p)
        The fit S over all symmetric matrices, and the covariance of svec S.
    symmetric_value
        The log-likelihood of S; NaN if the symmetric fit needed a ridge.
    """

    draws: Array
    scale_error: float
    symmetric: Array
    symmetric_covariance: Array
    symmetric_value: float


def uncertainty_of(
    problem: PopulationProblem, fit: PopulationFit, alone: PopulationFit, *, free: bool, psd: bool, **stopping: Any
) -> Uncertainty:
    """Return how sure a fit is of its law; `alone` is the fit without the problem's correction.

    Without the constraint (`psd`) the posterior is the Gaussian law of the symmetric fit. With it, the posterior has
    sizes far from where the correction was measured. So its draws are made without the correction, and moved as it has
    moved the fit. That it is measured on some of the people moves them at random.
    """
    symmetric, covariance, value = _symmetric_fit(problem, fit, free=free, **stopping)
    at, count, is_known = fit.layout.metric, number_of_draws(problem.d), True
    if psd:
        posterior = posterior_of(replace(problem, correction=None), alone)
        draws = posterior.draws(count) + (fit.natural - alone.natural)
        is_known = posterior.excludes_sizes and answers_know_size(fit)
    else:
        draws = np.random.default_rng(0).multivariate_normal(fit.natural, covariance, size=count, method="eigh")
    draws = draws + _noise_of_correction(problem, fit, count)
    error = _log_error(draws[:, at] @ svec(np.eye(problem.d))) if is_known else float("inf")
    return Uncertainty(draws, error, smat(symmetric[at]), covariance[at, at], value)


def _noise_of_correction(problem: PopulationProblem, fit: PopulationFit, count: int) -> Array | float:
    """Return by how much (count, n) draws move because the correction is measured on some of the people."""
    if problem.correction is None:
        return 0.0
    moves = fit.covariance @ problem.correction.covariance @ fit.covariance
    return np.random.default_rng(1).multivariate_normal(np.zeros(len(moves)), moves, size=count, method="eigh")


def _log_error(draws: Array) -> float:
    """Return the standard error of the logarithm of draws (n,) of a size; infinite if it may be negative.

    Half the width of their middle 68 %: a long tail of small sizes does not count twice.
    """
    if not np.all(draws > 0):
        return float("inf")
    return 0.5 * float(np.ptp(np.quantile(np.log(draws), [0.16, 0.84])))


def _is_worth_differences(problem: PopulationProblem, fit: PopulationFit) -> bool:
    """Return whether second differences, which take two passes per parameter, are worth their time.

    With few people, outer products of scores are too noisy. The expected information is a Gaussian approximation
    (`crowdmetric.users.expected`): it is accurate if people answer a lot, and then differences take long.
    """
    return problem.has_few_people and problem.weight * fit.natural.size <= MOST_DIFFERENCES


def _symmetric_fit(
    problem: PopulationProblem, fit: PopulationFit, *, free: bool, **stopping: Any
) -> tuple[Array, Array, float]:
    """Return natural parameters of the fit over all symmetric matrices, their covariance, and its log-likelihood.

    Where the answers leave it undetermined, the ridges of the fit are kept.
    """
    d = problem.d
    law = problem.structure.law(fit.natural, d)
    chart = Parametrization(d, "symmetric", free, problem.n_items)
    # a crowd that prefers distant items has no metric to start from, and an isotropic fit cannot cross zero
    metric = law.metric if np.trace(law.metric) > NO_METRIC * d else -0.5 * np.eye(d)
    spread = law.covariance if free else fit.natural[fit.layout.spread]
    start = chart.theta(metric, law.mean, spread, law.effects)
    ridges = replace(
        fit.ridges, shape=0.0, size=0.0, volume=0.0
    )  # item effects keep theirs: alone, they could explain anything
    unbound = problem.roughly().fit("symmetric", chart, start, ridges=ridges, **stopping)
    value = unbound.value
    if not unbound.result.converged:
        value = float("nan")
        unbound = problem.roughly().fit("symmetric with ridge", chart, start, ridges=fit.ridges, **stopping)
    information = unbound.information
    if _is_worth_differences(problem, fit):
        information = observed_information(problem.total, unbound.natural, unbound.score)
    return unbound.natural, inverse_information(with_ridges(information, unbound)), value


def inverse_information(information: Array) -> Array:
    """Return the inverse; directions without information get a practically infinite variance.

    Negative information, which differences produce if a symmetric fit diverges, counts as zero.
    """
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(information)), 1e-100))
    values, vectors = np.linalg.eigh(information * scale[:, None] * scale)
    values = np.maximum(values, max(1e-12 * values[-1], 1e-300))
    return (vectors / values) @ vectors.T * scale[:, None] * scale
