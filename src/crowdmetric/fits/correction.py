"""How people are integrated out, and a fit by propagation moved to where exact integrals would have it.

Expectation propagation errs a little for every person: by one or two hundredths of the spread of people's scores. The
errors of a crowd add up like the number of people, and its scores only like the root of that, so the more people, the
more standard errors they make. With g the sum over people of what exact integrals change in their scores at the fit n₀,
the log-likelihood is corrected to first order ::

    ℓ(n) + g·(n − n₀)

and fitted again from where the fit was, under the same ridges and the same constraint: about one Newton step A⁻¹g.
Everything that follows from the likelihood, as do draws, is moved along. As g changes with n, it is measured again at
the new end, and so on, until that moves nothing any more. g is measured on a sample of people, which is as large as it
must be for the error of A⁻¹g to be small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, hypot
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.solvers.law_fit import PopulationFit
from crowdmetric.users.population_sums import LARGEST_GRID

__all__ = ["INTEGRATIONS", "Integrated", "corrected", "largest_grid"]

Array = NDArray[Any]

INTEGRATIONS = ("auto", "grid", "propagation")
# What moves no parameter by more than this many standard errors is not worth another fit, nor a larger sample.
GOOD_ENOUGH = 0.1
# Number of people of the first sample, and maximum number of corrections.
SAMPLE, ROUNDS = 200, 3


@dataclass(frozen=True)
class Integrated:
    """A fit, the problem that it solves, and how far exact integrals may still move it.

    Attributes
    ----------
    problem, fit
        With the correction, if there is one.
    alone
        The fit without the correction.
    error
        Of the worst parameter of the law, in standard errors; zero on a grid.
    """

    problem: PopulationProblem
    fit: PopulationFit
    alone: PopulationFit
    error: float

    @property
    def words(self) -> str:
        """A clause on how people were integrated out."""
        if self.problem.widest <= self.problem.largest_grid:
            return "people were integrated out on a grid"
        by_exact = "" if self.problem.correction is None else ", corrected by what exact integrals change"
        return f"people were integrated out by expectation propagation{by_exact}"


def largest_grid(integration: str) -> int:
    """Return up to how many dimensions a grid is used: one, unless asked for, as propagation is not faster there."""
    return LARGEST_GRID if integration == "grid" else 1


def corrected(problem: PopulationProblem, fit: PopulationFit, integration: str, **stopping: Any) -> Integrated:
    """Return a fit to exact integrals, from one by propagation; with 'propagation', only see how far it is from it."""
    if problem.widest <= problem.largest_grid:
        return Integrated(problem, fit, fit, 0.0)
    people = SAMPLE
    exact = problem.exact_change(fit.natural, people)
    noise = _noise(fit, exact.covariance)
    if noise > GOOD_ENOUGH:
        people = ceil(people * (noise / GOOD_ENOUGH) ** 2)
        exact = problem.exact_change(fit.natural, people)
        noise = _noise(fit, exact.covariance)
    alone, left = fit, _distance(fit, exact.score)
    for number in range(ROUNDS if integration == "auto" and fit.result.converged else 0):
        if left <= max(GOOD_ENOUGH, noise):  # a correction that is not known better than this may do harm
            break
        problem, before = replace(problem, correction=exact), exact
        fit = problem.fit(f"corrected {number}", fit.chart, fit.theta, ridges=fit.ridges, **stopping)
        exact = problem.exact_change(fit.natural, people)
        left = _distance(fit, exact.score - before.score)
    return Integrated(problem, fit, alone, hypot(left, noise))


def _distance(fit: PopulationFit, score: Array) -> float:
    """Return by how many standard errors a change of the score (n,) moves the worst parameter."""
    return _worst(np.abs(fit.covariance @ score), fit)


def _noise(fit: PopulationFit, covariance: Array) -> float:
    """Return the same for one standard error of that change, whose covariance is (n, n)."""
    C = fit.covariance
    return _worst(np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", C, covariance, C, optimize=True), 0.0)), fit)


def _worst(moves: Array, fit: PopulationFit) -> float:
    errors = np.sqrt(np.maximum(np.diag(fit.covariance), 0.0))
    free = errors > 1e-9 * np.max(errors, initial=0.0)  # a fixed parameter has no error
    return float(np.max(moves[free] / errors[free], initial=0.0))
