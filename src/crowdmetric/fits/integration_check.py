"""How people are integrated out: on a grid or by propagation, and whether propagation was accurate enough."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.fits.uncertainty import inverse_information
from crowdmetric.solvers.law_fit import PopulationFit, with_ridges
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.users.population_sums import LARGEST_GRID

__all__ = ["INTEGRATIONS", "Integrated", "check_integration", "largest_grid", "largest_grid_after"]

INTEGRATIONS = ("auto", "grid", "propagation")
# Approximate integrals are accepted if they move no entry of the metric by more than this many standard errors.
GOOD_ENOUGH = 0.1
# Maximum dimension of a grid that is chosen automatically; more are too slow.
LARGEST_GRID_UNASKED = 2


@dataclass(frozen=True)
class Integrated:
    """A fit, the problem that it solves, and how far an exact integral would move its metric.

    Attributes
    ----------
    problem, fit
        With integrals that are accurate enough, or the most accurate ones available.
    error
        Of the worst entry, in standard errors; zero on a grid.
    """

    problem: PopulationProblem
    fit: PopulationFit
    error: float

    @property
    def words(self) -> str:
        """A clause on how people were integrated out."""
        grids = self.problem.widest <= self.problem.largest_grid
        return f"people were integrated out {'on a grid' if grids else 'by expectation propagation'}"


def largest_grid(integration: str) -> int:
    """Return up to how many dimensions a grid is used at first: one, because propagation is not faster there."""
    return LARGEST_GRID if integration == "grid" else 1


def largest_grid_after(integration: str, words: str) -> int:
    """Return the same after a fit with `integration`, given the clause on what it did (`Integrated.words`)."""
    return LARGEST_GRID if integration == "grid" or words.endswith("on a grid") else 1


def check_integration(
    problem: PopulationProblem, fit: PopulationFit, chart: Parametrization, integration: str, **stopping: Any
) -> Integrated:
    """Return a fit with its approximation error; refitted on grids if the error is too large and grids are possible."""
    if problem.widest <= problem.largest_grid:
        return Integrated(problem, fit, 0.0)
    metric, information = fit.layout.metric, with_ridges(fit.information, fit)
    shift = problem.method_shift(fit.natural, information)[metric]
    errors = np.sqrt(np.maximum(np.diag(inverse_information(information))[metric], 1e-300))
    error = float(np.max(np.abs(shift) / errors))
    if integration == "auto" and error > GOOD_ENOUGH and problem.widest <= LARGEST_GRID_UNASKED:
        problem = replace(problem, largest_grid=LARGEST_GRID_UNASKED)
        return Integrated(problem, problem.fit("grid", chart, fit.theta, ridges=fit.ridges, **stopping), 0.0)
    return Integrated(problem, fit, error)
