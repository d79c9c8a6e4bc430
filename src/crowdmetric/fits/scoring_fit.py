"""A population fit by scoring: from a crowd to the law of people, in the items' own units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.fits.correction import Integrated, corrected
from crowdmetric.fits.crowd import BLOCK_SIZE, Crowd
from crowdmetric.fits.hidden_items import personal_variance_of
from crowdmetric.fits.memory import MemoryPlan, bytes_to_lay_out
from crowdmetric.fits.problem import PEOPLE_FOR_STARTS, PopulationProblem
from crowdmetric.fits.starts import Start, best_of_starts
from crowdmetric.fits.uncertainty import Uncertainty, uncertainty_of
from crowdmetric.fits.unknowns import mean_square, unknowns_of
from crowdmetric.inputs import Rows
from crowdmetric.solvers.law_fit import PopulationFit
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.symmetric import invertible, project_psd, smat, svec
from crowdmetric.tables import ComparisonScan
from crowdmetric.users.layout import Layout
from crowdmetric.users.population_sums import Law

__all__ = ["ScoringFit", "fit_by_scoring", "scoring_plan"]

Array = NDArray[Any]

# Memory: arrays as large as BLOCK_SIZE that a block's sums hold at once, and matrices as large as the curvature that a
# step holds at once.
BLOCK_ARRAYS, STEP_MATRICES = 6, 8


@dataclass(frozen=True)
class ScoringFit:
    """A fit by scoring, and what follows from it.

    Attributes
    ----------
    crowd
        The people, and the units and the span of their items.
    integrated
        The fit, the problem that it solves, and how people were integrated out.
    starts : (n,)
        Penalized log-likelihoods at which the starts ended.
    others : (k, 1 + AROUND, 1 + q)
        Other explanations (`crowdmetric.fits.starts.BestOfStarts`).
    """

    crowd: Crowd
    integrated: Integrated
    starts: Array
    others: Array

    @property
    def problem(self) -> PopulationProblem:
        """The sums over people that were maximized."""
        return self.integrated.problem

    @property
    def fit(self) -> PopulationFit:
        """Where the optimization ended, in the coordinates of the fit."""
        return self.integrated.fit

    @cached_property
    def law(self) -> Law:
        """The law of people in the coordinates of the fit."""
        return self.problem.structure.law(self.fit.natural, self.problem.d)

    @cached_property
    def law_outside(self) -> Law:
        """The law of people for all features, in the items' own units."""
        return self.crowd.law_outside(self.law, free=self.fit.layout.free)

    @property
    def alternatives(self) -> Array:
        """Other explanations (k, r, q): nats behind, svec M, μ, svec Σ and item effects, in the items' own units."""
        k, r, q = self.others.shape
        if not k:
            return np.empty((0, r, 1))
        natural, m = self.others.reshape(k * r, q)[:, 1:].copy(), self.fit.layout.metric
        if self.fit.chart.kind == "psd":
            natural[:, m] = svec(project_psd(smat(natural[:, m])))
        return np.concatenate([self.others[:, :, :1], self.laws_outside(natural).reshape(k, r, -1)], axis=2)

    def laws_outside(self, natural: Array) -> Array:
        """Return svec M, μ, svec Σ and item effects of natural parameters (n, ·), in the items' own units."""
        span, units, at, psd = self.crowd.span, self.crowd.units, self.fit.layout, self.fit.chart.kind == "psd"
        law_of = self.problem.structure.law
        laws = [law_of(row, self.problem.d) for row in natural]
        metric = smat(span.draws_outside(natural[:, at.metric], psd=psd)) / units.size**2
        mean = span.points_outside(natural[:, at.mean]) / units.size - 2.0 * metric @ units.center
        spread = np.array([span.spread_outside(law, free=at.free) for law in laws])
        covariance = project_psd(np.stack([law.covariance for law in laws]))
        covariance = span.covariances_outside(covariance, spread) / units.size**2
        return np.column_stack([svec(metric), mean, svec(covariance), natural[:, at.own :]])

    @property
    def spread(self) -> float | None:
        """The spread s of isotropic people, in the items' own units; None if people have a free covariance."""
        layout = self.fit.layout
        return None if layout.free else self.crowd.units.size * float(np.exp(self.fit.natural[layout.spread][0]))

    @property
    def answers(self) -> float:
        """The weight of all answers, similarity judgements included."""
        beside = self.problem.beside
        return self.crowd.weight + (0.0 if beside is None else beside.n_answers)

    def new_items(self, rows: Rows) -> tuple[float, float]:
        """Return τ, what predictions lack about items new to a person, and the root mean square of ψ.

        From the answers of all or of some people. τ is zero for answers about sets, of which no items are hidden.
        """
        answers = self.crowd.answers(rows)
        law = self.problem.structure.law(self.fit.natural, self.problem.d)
        if answers.offsets is not None:
            return 0.0, mean_square(answers, law) ** 0.5
        return personal_variance_of(self.problem, self.fit, answers) ** 0.5, mean_square(answers, law) ** 0.5

    def offset_covariance(self) -> Array | None:
        """Return the covariance of (svec M, μ, b) in the items' own units; None if there are too many of them."""
        inside = unknowns_of(self.fit).covariance
        if inside is None:
            return None
        return self.crowd.units.offsets_outside(self.crowd.span.offsets_outside(inside, self.law.metric))

    def uncertainty(self, *, psd: bool, **stopping: Any) -> Uncertainty:
        """Return how sure the fit is of its law, in its own units."""
        found = self.integrated
        return uncertainty_of(found.problem, found.fit, found.alone, free=found.fit.layout.free, psd=psd, **stopping)

    def people(self) -> tuple[Array, Array | None]:
        """Return everybody's v (K, d), in the items' own units, and their covariances (K, d, d) if memory allows.

        For a scan both are empty, because the people may be too many to keep.
        """
        crowd, span, units = self.crowd, self.crowd.span, self.crowd.units
        if crowd.users is None:
            return np.empty((0, span.features)), None
        # people who differ in every direction: importance._people_covariance needs the part that is next to nothing
        law = replace(self.law, covariance=invertible(self.law.covariance))
        points, spreads = self.problem.people(law, crowd.n_users)
        if spreads is not None:
            spreads = span.spreads_outside(spreads, self.law, free=self.fit.layout.free) / units.size**2
        return units.points_outside(span.points_outside(points), self.law_outside.metric), spreads


def scoring_plan(
    scan: ComparisonScan, items: int, d: int, *, free: bool, rank: int | None, jobs: int, limit: int
) -> MemoryPlan:
    """Return how much memory a fit by scoring to a scan takes, for `items` items of d features."""
    people, answers = scan.n_users, len(scan)
    chunk_rows = max((chunk.rows for chunk in scan.chunks), default=0)
    per_row = 2 * 8 * d + 48  # an answer laid out: δ, s, response, weight, person and loadings
    sample = int(min(people, PEOPLE_FOR_STARTS * 2) * answers / max(people, 1)) * per_row * 2
    # steps are taken in θ; every job adds up outer products of scores in natural parameters
    theta, natural = d * min(rank or d, d) + d + (d * d if free else 1), Layout(d, free).size
    per_job = chunk_rows * bytes_to_lay_out(d) + BLOCK_ARRAYS * 8 * BLOCK_SIZE + 2 * 8 * natural**2
    work = items * 8 * d + sample + STEP_MATRICES * 8 * theta * theta + jobs * per_job
    return MemoryPlan.of_work(people, answers, work, limit, "fit", keep=answers * per_row, remedy=", or lower jobs")


def fit_by_scoring(
    crowd: Crowd,
    problem: PopulationProblem,
    chart: Parametrization,
    earlier_end: Array | None,
    *,
    starts: int,
    ridge: str | float | None,
    random_state: int,
    integration: str,
    begin: Start | None = None,
    **stopping: Any,
) -> ScoringFit:
    """Fit from every start (or where an earlier fit ended), and correct for how people were integrated out.

    `begin` is where a fit to similar answers ended, in the items' own units.
    """
    if begin is not None:
        begin = replace(begin, law=crowd.law_inside(begin.law))
    best = best_of_starts(
        problem, chart, earlier_end, starts=starts, ridge=ridge, random_state=random_state, begin=begin, **stopping
    )
    integrated = corrected(problem, best.fit, integration, **stopping)
    return ScoringFit(crowd, integrated, best.values, best.others)
