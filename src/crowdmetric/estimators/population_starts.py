"""Where a population fit begins, and the best of where its starts end.

The likelihood has more than one maximum now and then. Starts that end as far up as each other say that it has not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.estimators.population_problem import PopulationProblem
from crowdmetric.solvers.charts import Chart
from crowdmetric.solvers.population import PopulationFit, fit_with_evidence
from crowdmetric.users.population import Law

__all__ = ["BestOfStarts", "a_start", "best_of_starts", "start_from"]

Array = NDArray[Any]

# How far a warm start is drawn to the identity.
LIFT = 0.05
# How well the end of a start must be known, in nats, to say whether it agrees with the others.
AGREEMENT_KNOWN = 0.005


def a_start(chart: Chart, rng: np.random.Generator | None = None) -> Array:
    """Return θ for items of size one: twice the identity and people as far out as items; with `rng`, at random."""
    d = chart.d
    metric, spread = 2.0 * np.eye(d), 1.0 / np.sqrt(d)
    if rng is not None:
        G = rng.standard_normal((d, d))
        metric, spread = 2.0 * d * (G @ G.T) / np.sum(G * G), spread * float(np.exp(0.25 * rng.standard_normal()))
    covariance = 4.0 * spread**2 * metric @ metric
    return chart.theta(metric, np.zeros(d), covariance if chart.free else np.array([np.log(spread)]))


def start_from(chart: Chart, law: Law, spread: float) -> Array:
    """Return θ where another fit ended: its law, and s if the chart is of isotropic people."""
    # a direction that the metric has lost has no gradient, and could never be found again
    metric = (1.0 - LIFT) * law.metric + LIFT * np.trace(law.metric) / chart.d * np.eye(chart.d)
    return chart.theta(metric, law.mean, law.covariance if chart.free else np.array([np.log(spread)]), law.effects)


@dataclass(frozen=True)
class BestOfStarts:
    """The best fit, and the penalised log-likelihoods (n,) at which all starts ended."""

    fit: PopulationFit
    values: Array


def best_of_starts(
    problem: PopulationProblem,
    chart: Chart,
    previous: Array | None,
    *,
    starts: int,
    ridge: str | float | None,
    random_state: int,
    **stopping: Any,
) -> BestOfStarts:
    """Fit from every start, all under the ridge of the first, and return the best end.

    With many people the starts are compared, and the ridge is found, on some of them; the fit to all then begins
    where those ended. A warm start, `previous`, is the only one.
    """
    saved, some = problem.checkpoint, problem.thinned()
    state = None if saved is None else saved.state("starts")
    if saved is None or state is None:
        begin = [previous] if previous is not None else _starts(chart, starts, random_state)
        ends = _ends(some, chart, begin, ridge, stopping)
        values = np.array([-end.result.at.value for end in ends])
        best = ends[int(np.argmax(values))]
        state, ridges = best.result.state, best.ridges
        if saved is not None:
            saved.save("starts", state, values=values, **ridges)
        if some is problem:
            return BestOfStarts(best, values)
    else:
        values = saved.value("values")
        ridges = {name: float(saved.value(name)) for name in ("ridge", "size_ridge", "item_ridge")}
    start = state if some is problem else state.point
    return BestOfStarts(problem.fit("fit", chart, start, **ridges, **stopping), values)


def _starts(chart: Chart, starts: int, random_state: int) -> list[Array]:
    """Return the usual start, and others drawn at random."""
    rng = np.random.default_rng(random_state)
    return [a_start(chart, rng if number else None) for number in range(starts)]


def _ends(
    problem: PopulationProblem, chart: Chart, starts: list[Array], ridge: str | float | None, stopping: dict[str, Any]
) -> list[PopulationFit]:
    """Return where starts end: the first under a ridge that is given or found, the others under the same."""
    first = starts[0]
    if ridge == "evidence":
        ends = [fit_with_evidence(problem.total, chart, first, take_up=problem.take_up, **stopping)]
    else:
        ends = [problem.fit("start", chart, first, ridge=float(ridge or 0.0), **stopping)]
    for start in starts[1:]:
        ends.append(_another_end(problem, chart, start, ends, stopping))
    return ends


def _another_end(
    problem: PopulationProblem, chart: Chart, start: Array, ends: list[PopulationFit], stopping: dict[str, Any]
) -> PopulationFit:
    """Return where a later start ends: as closely as it takes to say whether it agrees, all the way if it wins."""
    loosely = stopping | {"tolerance": max(stopping["tolerance"], AGREEMENT_KNOWN)}
    stage, ridges = f"start {len(ends)}", ends[0].ridges
    end = problem.fit(stage, chart, start, **ridges, **loosely)
    if end.result.at.value < min(other.result.at.value for other in ends) - AGREEMENT_KNOWN:
        end = problem.fit(f"{stage}, closely", chart, end.theta, **ridges, **stopping)
    return end
