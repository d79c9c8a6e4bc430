"""Where a population fit begins, and the best of where its starts end.

The first start is where the nearest simpler model ends: a multiple of the identity for a metric, and a metric for any
symmetric matrix. Under the same ridges a fit that begins there can only be better. If the simpler model has no metric,
the fit begins at an ordinary one instead: a metric of zero has no shape, so rounding would decide where the fit goes.
The evidence may ask for stronger ridges, and a fit that is then worse than the simpler model is repeated under the
ridges of that one. Sometimes the likelihood has more than one maximum. So there are other starts, drawn at random, with
a metric and a covariance of people as large as those of the first end. If all end equally high, there is probably only
one maximum. An end that is different and almost as high is another explanation of the answers, and is kept as such.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from crowdmetric.fits.doubts import has_no_metric
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.solvers.law_fit import (
    MOST_PAID,
    ROUGH,
    SHAPE_RIDGE,
    PopulationFit,
    first_ridges,
    fit_with_evidence,
    with_ridges,
)
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.solvers.priors import Ridges, penalty
from crowdmetric.solvers.scoring import ScoringState
from crowdmetric.symmetric import project_psd
from crowdmetric.users.population_sums import Law

__all__ = ["PLAUSIBLE", "BestOfStarts", "Start", "a_start", "best_of_starts", "evidence_fit", "finished", "start_from"]

Array = NDArray[Any]

# Share by which a warm start is moved toward the identity.
LIFT = 0.05
# Tolerance, in nats, to which a later start is fitted before it is compared with the others.
AGREEMENT_KNOWN = 0.005
# Steps there that gain up to this many nats tell how the likelihood bends (`crowdmetric.solvers.scoring`): a few
# hundredths of a nat matter less than a third of the passes.
NEAR_ROUGHLY = 50.0
# Because of its ridges, a model may end this many nats below a model that is nested in it. Two ridges may cost more:
# the one on the size, with which the evidence removes a metric that the answers do not support, and the one on item
# effects, because a better metric needs smaller effects.
HELD_BACK = 0.1
# An end at most this many nats below the best one explains the answers about as well. It is another explanation if it
# is at least APART nats away from the best one by the information there; otherwise it is the same maximum.
PLAUSIBLE, APART = 3.0, 1.0
# Number of draws around another explanation, for intervals.
AROUND = 40


def a_start(chart: Parametrization) -> Array:
    """Return θ for items of size one: twice the identity, and people as far out as items."""
    d = chart.d
    metric, spread = 2.0 * np.eye(d), 1.0 / np.sqrt(d)
    covariance = 4.0 * spread**2 * metric @ metric
    return chart.theta(metric, np.zeros(d), covariance if chart.free else np.array([np.log(spread)]))


def _random_start(problem: PopulationProblem, chart: Parametrization, end: PopulationFit, rng: Generator) -> Array:
    """Return θ with a metric and people drawn at random, as large as those of another start's end.

    From a start that is much smaller, fits go to the same end as the first one, also if there are others.
    """
    law = problem.structure.law(end.natural, chart.d)
    ordinary = problem.structure.law(chart.natural(a_start(chart)), chart.d)
    metric = _random_like(ordinary.metric if has_no_metric(end) else law.metric, rng)
    if chart.free:
        return chart.theta(metric, np.zeros(chart.d), _random_like(law.covariance, rng))
    log_spread = float(end.natural[end.layout.spread][0]) + 0.25 * rng.standard_normal()
    return chart.theta(metric, np.zeros(chart.d), np.array([log_spread]))


def _random_like(A: Array, rng: Generator) -> Array:
    """Return a random positive semi-definite matrix with the trace of A (d, d)."""
    G = rng.standard_normal(A.shape)
    return float(np.trace(A)) * (G @ G.T) / float(np.sum(G * G))


def start_from(chart: Parametrization, law: Law, log_spread: float) -> Array:
    """Return θ where another fit ended: its law, and log s if the chart is of isotropic people."""
    metric, covariance = _lifted(law.metric), _lifted(law.covariance)
    return chart.theta(metric, law.mean, covariance if chart.free else np.array([log_spread]), law.effects)


def _start_at(problem: PopulationProblem, chart: Parametrization, nested: PopulationFit) -> Array:
    """Return θ where the fit of a nested model ended."""
    law = problem.structure.law(nested.natural, chart.d)
    return start_from(chart, law, float(nested.natural[nested.layout.spread][0]))


def _lifted(A: Array) -> Array:
    """Return A (d, d) moved toward the identity: where A is zero the gradient is zero, so it would stay zero."""
    return (1.0 - LIFT) * A + LIFT * np.trace(A) / len(A) * np.eye(len(A))


@dataclass(frozen=True)
class BestOfStarts:
    """Where the starts of a fit ended.

    Attributes
    ----------
    fit
        The best end.
    values : (n,)
        The penalized log-likelihoods at which all starts ended.
    others : (k, 1 + AROUND, 1 + q)
        Ends that explain the answers about as well, each followed by draws around it from a Gaussian posterior: by how
        many nats the end is worse, and natural parameters. With many people, on some of whom starts are compared, there
        are none.
    """

    fit: PopulationFit
    values: Array
    others: Array


def best_of_starts(
    problem: PopulationProblem,
    chart: Parametrization,
    previous: Array | None,
    *,
    starts: int,
    ridge: str | float | None,
    random_state: int,
    begin: Start | None = None,
    **stopping: Any,
) -> BestOfStarts:
    """Fit from every start, all under the ridges of the first, and return the best end.

    With many people the starts are compared, and the ridges are found, on some of them; the fit to all then begins
    where those ended. A warm start, `previous`, is the only one. `begin`, where a similar fit ended, is the first of
    several; the second is then where the nested model ends, because that may lead elsewhere. If there is another
    explanation, the fit starts as without `begin`: which one is found must not depend on earlier fits.
    """
    problem = problem.along(chart)
    saved, some = problem.checkpoint, problem.thinned()
    state = None if saved is None else saved.state("starts")
    if saved is None or state is None:
        ends = _ends(some, chart, previous, begin, starts, ridge, random_state, stopping)
        others = _other_explanations(ends if some is problem else [], random_state)
        if begin is not None and others.size:
            ends = _ends(some, chart, previous, None, starts, ridge, random_state, stopping)
            others = _other_explanations(ends, random_state)
        values, best = np.array([end.objective for end in ends]), _best(ends)
        state, ridges = best.result.state, best.ridges
        if saved is not None:
            saved.save("starts", state, values=values, others=others, **ridges.strengths)
        if some is problem:
            return BestOfStarts(best, values, others)
    else:
        values, others = saved.value("values"), saved.value("others")
        strengths: dict[str, Any] = {name: float(saved.value(name)) for name in Ridges().strengths}
        ridges = Ridges(**strengths)
    start = state if some is problem else state.point
    end = problem.fit("fit", chart, start, ridges=ridges, **stopping)
    return BestOfStarts(finished(problem, chart, end, **stopping), values, others)


def _best(ends: list[PopulationFit]) -> PopulationFit:
    return max(ends, key=lambda end: end.objective)


def _other_explanations(ends: list[PopulationFit], random_state: int) -> Array:
    """Return the ends (k, 1 + AROUND, 1 + q) that are almost as high as the best one and elsewhere, no two alike."""
    if not ends:
        return np.empty((0, 1 + AROUND, 1))
    best, rng = _best(ends), np.random.default_rng(random_state)
    information = with_ridges(best.information, best)
    found: list[PopulationFit] = [best]
    for end in sorted(ends, key=lambda end: -end.objective):
        moves = [end.natural - other.natural for other in found]
        apart = min(0.5 * float(move @ information @ move) for move in moves)
        if best.objective - end.objective < PLAUSIBLE and apart > APART:
            found.append(end)
    out = np.empty((len(found) - 1, 1 + AROUND, 1 + best.natural.size))
    for rows, end in zip(out, found[1:], strict=True):
        rows[:, 0] = best.objective - end.objective
        rows[0, 1:] = end.natural
        covariance = project_psd(np.linalg.pinv(with_ridges(end.information, end), hermitian=True))
        rows[1:, 1:] = rng.multivariate_normal(end.natural, covariance, AROUND, method="eigh", check_valid="ignore")
    return out


@dataclass(frozen=True)
class Start:
    """Where a fit to similar answers or of a simpler model ended: its law, in the items' own units, and its ridges."""

    law: Law
    ridges: Ridges


def evidence_fit(
    problem: PopulationProblem, chart: Parametrization, start: Start | None = None, **stopping: Any
) -> PopulationFit:
    """Return the fit from one start, with ridges from the evidence: never below the model that is nested in it.

    From a `start`, whose law is in the units of the problem, the nested model is not fitted.
    """
    if start is None:
        return _ends(problem, chart, None, None, 1, "evidence", 0, stopping)[0]
    square = float(np.sum(start.law.metric**2))
    spread = 0.25 * float(np.trace(start.law.covariance)) / square if square > 0 else 1.0  # Σ = 4s²M²
    theta = start_from(chart, start.law, 0.5 * float(np.log(max(spread, 1e-12))))
    first = start.ridges.completed(first_ridges(chart))
    end = _by_evidence(problem, chart, theta, "begin ", stopping, first)
    return finished(problem, chart, _with_metric_or_linear(problem, chart, end, stopping), **stopping)


def _by_evidence(
    problem: PopulationProblem,
    chart: Parametrization,
    start: Array,
    stage: str,
    stopping: dict[str, Any],
    first: Ridges | None = None,
) -> PopulationFit:
    """Return the fit from θ with ridges from the evidence; stages in a checkpoint begin with the name `stage`."""

    def resume_stage(name: str, start: Array) -> tuple[Array | ScoringState, dict[str, Any]]:
        return problem.resume_stage(stage + name, start)

    return fit_with_evidence(
        problem.total, chart, start, smooth=problem.smooth_total, first=first, resume_stage=resume_stage,
        beta=problem.beta, **stopping,
    )  # fmt: skip


def _ends(
    problem: PopulationProblem,
    chart: Parametrization,
    previous: Array | None,
    begin: Start | None,
    starts: int,
    ridge: str | float | None,
    random_state: int,
    stopping: dict[str, Any],
) -> list[PopulationFit]:
    """Return where starts end: the first under ridges that are given or found, the others under the same."""
    rng = np.random.default_rng(random_state)
    if begin is not None and previous is None and ridge == "evidence":
        ends = [evidence_fit(problem, chart, begin, **stopping)]
        if starts > 1 and chart.kind == "psd":  # below a symmetric matrix there is a whole other fit
            nested = _nested_end(problem, chart, starts, ridge, random_state, stopping)
            if nested is not None and not has_no_metric(nested):
                start = _start_at(problem, chart, nested)
                ends.append(_another_end(problem, chart, start, ends, stopping))
    else:
        nested = None if previous is not None else _nested_end(problem, chart, starts, ridge, random_state, stopping)
        ends = [_first_end(problem, chart, previous, nested, ridge, stopping)]
    for _ in range(starts - len(ends) if previous is None else 0):
        ends.append(_another_end(problem, chart, _random_start(problem, chart, ends[0], rng), ends, stopping))
    return ends


def _first_end(
    problem: PopulationProblem,
    chart: Parametrization,
    previous: Array | None,
    nested: PopulationFit | None,
    ridge: str | float | None,
    stopping: dict[str, Any],
) -> PopulationFit:
    """Return where the first start ends, which is not below where the nested model does."""
    start = a_start(chart) if previous is None else previous
    at_nested = start
    if nested is not None:
        at_nested = _start_at(problem, chart, nested)
        if not has_no_metric(nested):
            start = at_nested
    if ridge == "evidence":
        first = None if nested is None else nested.ridges.completed(first_ridges(chart))
        end = _by_evidence(problem, chart, start, "", stopping, first)
        end = _with_metric_or_linear(problem, chart, end, stopping)
    else:
        end = problem.fit("start", chart, start, ridges=Ridges(shape=float(ridge or 0.0)), **stopping)
    if nested is not None and end.objective < _objective(nested, end.ridges) - stopping["tolerance"]:
        end = problem.fit("from the nested model", chart, at_nested, ridges=end.ridges, **stopping)
    if nested is not None and not chart.n_items and end.value < nested.value - HELD_BACK:
        ridges = replace(nested.ridges.completed(end.ridges), size=end.ridges.size)
        again = problem.fit("under the ridges of the nested model", chart, at_nested, ridges=ridges, **stopping)
        end = again if again.value > end.value else end
    return finished(problem, chart, end, **stopping)


def _with_metric_or_linear(
    problem: PopulationProblem, chart: Parametrization, end: PopulationFit, stopping: dict[str, Any]
) -> PopulationFit:
    """Return a fit that has a metric if the answers clearly support one, and is no worse than linear utilities."""
    if has_no_metric(end):
        end = _with_metric(problem, chart, end, stopping)
    return _linear(problem, chart, end, stopping) if has_no_metric(end) else end


def _linear(
    problem: PopulationProblem, chart: Parametrization, end: PopulationFit, stopping: dict[str, Any]
) -> PopulationFit:
    """Return the fit under the ridges of linear utilities, if those are better than a fit that has lost its metric."""
    linear = replace(chart, kind="none", rank=None)
    found = _by_evidence(problem.along(linear), linear, a_start(linear), "linear ", stopping)
    if found.value < end.value + HELD_BACK:
        return end
    law, metric = problem.structure.law(found.natural, chart.d), problem.structure.law(end.natural, chart.d).metric
    start = chart.theta(metric, law.mean, law.covariance, law.effects)
    ridges = replace(end.ridges, people=found.ridges.people, items=found.ridges.items)
    again = problem.fit("linear utilities", chart, start, ridges=ridges, **stopping)
    return again if again.value > end.value else end


def _with_metric(
    problem: PopulationProblem, chart: Parametrization, end: PopulationFit, stopping: dict[str, Any]
) -> PopulationFit:
    """Return the fit from a start with a metric, if a fit has ended without one that the answers clearly support.

    A start without a metric may stay there: the evidence then holds the size at zero, whatever other sizes would gain.
    """
    ridges = replace(end.ridges, shape=SHAPE_RIDGE if chart.d > 1 else 0.0, size=0.0)
    roughly = stopping | {"tolerance": max(stopping["tolerance"], ROUGH)}
    tried = problem.fit("with a metric", chart, a_start(chart), ridges=ridges, **roughly)
    if tried.value < end.value + MOST_PAID:
        return end
    again = _by_evidence(problem, chart, tried.theta, "with a metric, ", stopping, ridges)
    return again if again.value > end.value else end


def _nested_end(
    problem: PopulationProblem,
    chart: Parametrization,
    starts: int,
    ridge: str | float | None,
    random_state: int,
    stopping: dict[str, Any],
) -> PopulationFit | None:
    """Return where the nearest simpler model ends, a multiple of the identity roughly; None if there is none."""
    simpler = chart.nested()
    if simpler is None:
        return None
    problem = problem.along(simpler)
    if simpler.kind == "psd":  # exactly what the fit of that model by itself ends at
        ends = _ends(replace(problem, checkpoint=None), simpler, None, None, starts, ridge, random_state, stopping)
        return _best(ends)
    problem = problem.roughly()
    roughly = stopping | {"tolerance": max(stopping["tolerance"], ROUGH)}
    if ridge == "evidence":
        return _by_evidence(problem, simpler, a_start(simpler), "nested ", roughly)
    return problem.fit("nested", simpler, a_start(simpler), **roughly)


def _objective(fit: PopulationFit, ridges: Ridges) -> float:
    """Return the penalized log-likelihood of a fit under other ridges."""
    return fit.value - penalty(fit.natural, fit.layout, ridges, fit.beta).value


def finished(problem: PopulationProblem, chart: Parametrization, end: PopulationFit, **stopping: Any) -> PopulationFit:
    """Return a converged fit if possible: a fit that has not converged goes on with the other kind of information."""
    if end.result.converged:
        return end
    other = replace(problem, by_outer_products=problem.has_few_people)
    again = other.fit("by the other information", chart, end.theta, ridges=end.ridges, **stopping)
    return again if again.objective >= end.objective else end


def _another_end(
    problem: PopulationProblem,
    chart: Parametrization,
    start: Array,
    ends: list[PopulationFit],
    stopping: dict[str, Any],
) -> PopulationFit:
    """Return where a later start ends: roughly, to see whether it agrees; to the full tolerance if it is the best."""
    loosely = stopping | {"tolerance": max(stopping["tolerance"], AGREEMENT_KNOWN), "near": NEAR_ROUGHLY}
    stage, ridges = f"start {len(ends)}", ends[0].ridges
    end = problem.roughly().fit(stage, chart, start, ridges=ridges, **loosely)
    if end.objective > max(other.objective for other in ends) + AGREEMENT_KNOWN:
        end = problem.fit(f"{stage}, closely", chart, end.theta, ridges=ridges, **stopping)
        end = finished(problem, chart, end, **stopping)
    return end
