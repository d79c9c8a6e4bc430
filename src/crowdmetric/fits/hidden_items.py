"""What predictions lack about items new to a person, by hiding items in turn (`crowdmetric.fits.unknowns`)."""

from __future__ import annotations

import numpy as np

from crowdmetric.engines.local import LocalEngine
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.fits.unknowns import Unknowns, personal_variance, thinned, unknowns_of
from crowdmetric.solvers.law_fit import PopulationFit, fit_law
from crowdmetric.users.blocks import SPARE, Answers, arrange
from crowdmetric.users.population_sums import Law, blocks_of

__all__ = ["personal_variance_of"]

# Number of steps of a fit without the hidden items, starting where the fit with them ended. More steps change little if
# there are many items. If there are few, hiding a fifth of them matters more than one new item would.
STEPS = 1


def personal_variance_of(problem: PopulationProblem, fit: PopulationFit, answers: Answers) -> float:
    """Return τ² of a fit, from answers in its units (`crowdmetric.fits.unknowns`).

    If there are many people, a sample of them is used. If the sample is everybody, the law is refitted by one step
    without each part of the items, under the same prior, because a law that has seen an item is too sure of it.
    """
    answers = thinned(answers)
    everybody = int(np.unique(answers.person).size) >= problem.n_people

    def learn(known: Answers) -> tuple[Law, Unknowns]:
        again = fit
        if everybody:
            total = _only(problem, known).total
            again = fit_law(total, fit.chart, fit.theta, ridges=fit.ridges, beta=fit.beta, max_iterations=STEPS)
        return problem.structure.law(again.natural, problem.d), unknowns_of(again)

    return personal_variance(answers, learn, problem.loss, problem.largest_grid)


def _only(problem: PopulationProblem, answers: Answers) -> PopulationProblem:
    """Return the same problem with these answers alone."""
    answers = answers.merged()
    pairs = answers.pairs if problem.n_items else None
    return problem.of_people(blocks_of(arrange(answers, spare=SPARE), pairs, problem.largest_grid), LocalEngine(1))
