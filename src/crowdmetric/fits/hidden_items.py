"""What a population fit leaves unknown for predictions (`crowdmetric.fits.unknowns`), items being hidden in turn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.engines.local import LocalEngine
from crowdmetric.fits.crowd import ChunkInMemory, Sample
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.fits.unknowns import Unknowns, personal_variance, thinned, unknowns_of
from crowdmetric.solvers.law_fit import PopulationFit, fit_law
from crowdmetric.users.blocks import SPARE, Answers, arrange
from crowdmetric.users.population_sums import Law, blocks_of

__all__ = ["personal_variance_of"]

Array = NDArray[Any]

# Number of steps of a fit without the hidden items, starting where the fit with them ended. More steps change little if
# there are many items. If there are few, hiding a fifth of them matters more than one new item would.
STEPS = 1


def personal_variance_of(problem: PopulationProblem, fit: PopulationFit, answers: Answers) -> float:
    """Return τ² of a fit, from answers in its units (`crowdmetric.fits.unknowns`).

    Of many people some are looked at. Where they are few enough to be everybody, the law takes a step of the fit
    without each part of the items, under the same prior: a law that has seen an item is too sure of it.
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
    blocks = blocks_of(arrange(answers, spare=SPARE), pairs, problem.largest_grid)
    people: Counter[int] = Counter()
    for block in blocks:
        people[block.span.shape[1]] += block.person.size
    return replace(
        problem, chunks=[ChunkInMemory([block]) for block in blocks], sample=Sample(people, blocks), step=1,
        engine=LocalEngine(1), after_pass=None, checkpoint=None,
    )  # fmt: skip
