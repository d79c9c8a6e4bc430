"""How sure a population fit is of its metric: a second fit, over all symmetric matrices, and its information.

Neither the boundary of the cone nor shrinkage then bends intervals (`crowdmetric.intervals` builds them).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.estimators.population_problem import PopulationProblem
from crowdmetric.solvers.charts import Chart
from crowdmetric.solvers.population import NO_METRIC, PopulationFit, observed_information, with_ridges
from crowdmetric.symmetric import degrees_of_freedom, smat, svec

__all__ = ["Uncertainty", "inverse_information", "uncertainty_of"]

Array = NDArray[Any]

# With fewer people than this a parameter, outer products of scores are too noisy an information.
PEOPLE_A_PARAMETER = 20


@dataclass(frozen=True)
class Uncertainty:
    """The symmetric fit S (d, d) and the covariance (p, p) of svec S."""

    symmetric: Array
    covariance: Array

    @property
    def standard_errors(self) -> Array:
        """Of the entries of S, (d, d)."""
        return smat(np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    @property
    def scale_error(self) -> float:
        """The standard error of the scale tr S / d."""
        d = self.symmetric.shape[0]
        trace = svec(np.eye(d)) / d
        return max(float(trace @ self.covariance @ trace), 0.0) ** 0.5


def uncertainty_of(
    problem: PopulationProblem, fit: PopulationFit, size: float, *, free: bool, **stopping: Any
) -> Uncertainty:
    """Return how sure a fit is of its metric, for items that were made `size` times smaller (`Units`).

    Where the answers leave the symmetric fit undetermined, the ridges of the fit are kept.
    """
    d, p = problem.d, degrees_of_freedom(problem.d)
    law = problem.structure.law(fit.natural, d)
    chart = Chart(d, "symmetric", free, problem.n_items)
    # a crowd that prefers what is far has no metric to start from, and an isotropic fit cannot cross zero
    metric = law.metric if np.trace(law.metric) > NO_METRIC * d else -0.5 * np.eye(d)
    spread = law.covariance if free else fit.natural[fit.layout.spread]
    start = chart.theta(metric, law.mean, spread, law.effects)
    ridges = replace(fit.ridges, shape=0.0, size=0.0)  # without theirs, items alone would explain everything
    unbound = problem.fit("symmetric", chart, start, ridges=ridges, **stopping)
    if not unbound.result.converged:
        unbound = problem.fit("symmetric with ridge", chart, start, ridges=fit.ridges, **stopping)
    information = unbound.information
    if problem.n_people < PEOPLE_A_PARAMETER * information.shape[0]:
        information = observed_information(problem.total, unbound.natural)
    covariance = inverse_information(with_ridges(information, unbound))[:p, :p]
    return Uncertainty(smat(unbound.natural[:p]) / size**2, covariance / size**4)


def inverse_information(information: Array) -> Array:
    """Return the inverse, with directions of no information given an infinite variance in effect.

    Negative information, which differences find where a symmetric fit has run away, is none.
    """
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(information)), 1e-300))
    values, vectors = np.linalg.eigh(information * scale[:, None] * scale)
    values = np.maximum(values, max(1e-12 * values[-1], 1e-300))
    return (vectors / values) @ vectors.T * scale[:, None] * scale
