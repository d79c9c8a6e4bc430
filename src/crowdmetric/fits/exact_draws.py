"""Draws of a metric from the likelihood of isotropic people itself, for live studies.

`crowdmetric.fits.size_posterior` takes the law of the shape as Gaussian at every size, with people's law integrated out
by Laplace's method under Jeffreys' prior of their mean. Where a metric is nearly singular that leaves out much: along a
direction that hardly counts, people's center u₀ may be anywhere, and Jeffreys' prior, which is larger where u₀ is
better known, all but excludes such metrics. Questions that are chosen for what is not known yet make such directions
count: with them, draws of an expansion were an eighth too near to each other (d = 5, 300 people).

Here M, u₀ and the spread s are drawn together, by Hamiltonian Monte Carlo in ``(t, L, u₀, log s)``, t and L as in
`crowdmetric.solvers.shape_draws`. The likelihood's score in M at a given u₀, as μ = −2Mu₀, is ::

    ∂/∂M = ∂ℓ/∂M − (u₀gᵀ + gu₀ᵀ)        ∂/∂u₀ = −2Mg        g = ∂ℓ/∂μ

Items have size one and their center at the origin; people's center has the prior u₀ ~ N(0, I/d): about as far out as
items. The priors of the shape, of the spread, and the limit of noise stay. All sizes being equally likely, this
posterior needs answers that determine the size; with fewer it can be drawn to a metric of zero (`is_size_known`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.solvers.hamiltonian import draw_along
from crowdmetric.solvers.law_fit import PopulationFit
from crowdmetric.solvers.posterior import FARTHEST, SizeAndShape
from crowdmetric.solvers.priors import Ridges, penalty
from crowdmetric.solvers.shape_draws import LIFT, ShapedDensity
from crowdmetric.symmetric import smat, svec

__all__ = ["draws_of_law", "is_size_known", "is_worth_exact_draws"]

Array = NDArray[Any]

# Chains, each from a draw of the expansion, warm-up rounds, and trajectories per draw that is kept: the chains begin in
# the right place, so few are enough.
CHAINS, ROUNDS, THIN, DRAWS = 30, 2, 1, 300
# Steps are 0.3 to 0.4 as a rule. Where they would have to be smaller than this, the expansion says so little about the
# likelihood that draws would take up to a minute.
LEAST_STEP = 0.1
# With more parameters of the metric, or more people, this would take minutes.
MOST_PARAMETERS, MOST_PEOPLE = 80, 3_000
# The size is known from this standard error of its logarithm on.
SIZE_KNOWN = 0.25


def is_worth_exact_draws(problem: PopulationProblem) -> bool:
    """Return whether draws from the likelihood itself take seconds: few people and few features."""
    p = problem.d * (problem.d + 1) // 2
    return problem.d > 1 and p <= MOST_PARAMETERS and problem.n_people <= MOST_PEOPLE


def is_size_known(draws: Array, error: float = SIZE_KNOWN) -> bool:
    """Return whether draws svec M (n, p) agree about the size of the metric, up to an error of its logarithm."""
    size = np.linalg.norm(draws, axis=1)
    return bool(np.all(size > 0.0) and np.std(np.log(size)) <= error)


@dataclass(frozen=True)
class LawDensity:
    """The log density of points (t, L, u₀, log s), in rows (C, 1 + p + d + 1), with its gradient."""

    problem: PopulationProblem
    size: float

    @property
    def space(self) -> SizeAndShape:
        """The coordinates of metrics."""
        return SizeAndShape(self.problem.d)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return log densities (C,) and gradients, one point after the other."""
        d = self.problem.d
        metric, rest = x[:, : -d - 1], x[:, -d - 1 :]
        near = (np.abs(x[:, 0] - self.size) < FARTHEST) & (np.abs(x[:, -1]) < FARTHEST)
        usable = near & np.all(np.isfinite(x), axis=1)  # a trajectory that runs away is rejected
        shapes = self.space.shapes(np.where(usable[:, None], metric[:, 1:], 1.0))
        values, by_metric, slopes = np.full(len(x), -np.inf), np.zeros_like(shapes), np.zeros_like(x)
        for k in np.flatnonzero(usable):
            values[k], by_metric[k], slopes[k, -d - 1 :] = self._at(np.exp(x[k, 0]) * shapes[k], rest[k])
        scale = np.exp(np.where(usable, x[:, 0], 0.0))[:, None]

        def of_metrics(t: Array, shapes: Array) -> tuple[Array, Array, Array]:
            return values, np.sum(by_metric * scale * shapes, axis=1), scale * by_metric

        prior = ShapedDensity(self.space, of_metrics, self.size)  # type: ignore[arg-type]
        values, slopes[:, : -d - 1] = prior(metric)
        return values, slopes

    def _at(self, m: Array, rest: Array) -> tuple[float, Array, Array]:
        """Return the log density at svec M = m, u₀ and log s, its slope in svec M (p,), and that in the rest."""
        d, center, M = self.problem.d, rest[:-1], smat(m)
        natural = np.concatenate([m, -2.0 * M @ center, rest[-1:]])
        layout = self.problem.structure.layout(d)
        sums = self.problem.total(natural, information=False)
        noise = penalty(natural, layout, Ridges(), self.problem.beta)
        slope = sums.score - noise.gradient
        g = slope[layout.mean]
        by_metric = slope[layout.metric] - svec(np.outer(center, g) + np.outer(g, center))
        value = sums.value - noise.value - 0.5 * d * float(center @ center)
        return value, by_metric, np.append(-2.0 * M @ g - d * center, slope[layout.spread])

    def points(self, draws: Array, rest: Array) -> Array:
        """Return points (n, ·) of draws svec M (n, p), moved a little toward the identity, with the same rest."""
        space = self.space
        c = draws @ space.identity / space.d
        shapes = (1.0 - LIFT) * draws / c[:, None] + LIFT * space.identity
        L = np.linalg.cholesky(space.d * smat(shapes))[:, *space.lower]
        return np.column_stack([np.log(c), L, np.tile(rest, (len(draws), 1))])


def draws_of_law(problem: PopulationProblem, fit: PopulationFit, draws: Array, seed: int = 0) -> Array:
    """Return svec M (DRAWS, p) from the posterior, in the units of the problem, given draws of its expansion.

    Those are returned instead where the likelihood is too far from its expansion to be drawn from in seconds.
    """
    d, mean, spread = problem.d, fit.layout.mean, fit.layout.spread
    M = smat(draws.mean(axis=0))
    center = np.linalg.solve(M, -0.5 * fit.natural[mean])
    density = LawDensity(problem, float(np.mean(np.log(draws @ svec(np.eye(d)) / d))))
    points = density.points(draws, np.append(center, fit.natural[spread]))
    guess = np.cov(points.T)
    guess[-d - 1 : -1, -d - 1 : -1] = np.linalg.inv(4.0 * M @ fit.information[mean, mean] @ M + d * np.eye(d))
    guess[-1, -1] = fit.covariance[spread, spread].item()
    some = points[np.linspace(0, len(points) - 1, CHAINS).astype(np.intp)]
    x = draw_along(density, some, guess, DRAWS, seed, rounds=ROUNDS, thin=THIN, least_step=LEAST_STEP)
    if not len(x):
        return draws
    return np.asarray(np.exp(x[:, :1]) * density.space.shapes(x[:, 1 : -d - 1]))
