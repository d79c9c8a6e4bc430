"""The sums over people that a population fit asks for, wherever the people are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.engines.local import LocalEngine
from crowdmetric.losses import Loss
from crowdmetric.users.people import bias_sums, posterior_means, posteriors
from crowdmetric.users.population import LARGEST_GRID, Law, PopulationBlock, Structure, Sums, sums_of

__all__ = ["PopulationProblem"]

Array = NDArray[Any]

# People's covariances are kept where they fit in this many numbers.
MOST_COVARIANCES = 20_000_000


class PopulationProblem:
    """Blocks of people, a structure, a loss and an engine."""

    def __init__(
        self, blocks: Sequence[PopulationBlock], structure: Structure, loss: Loss, engine: LocalEngine
    ) -> None:
        self.blocks, self.structure, self.loss, self.engine = blocks, structure, loss, engine
        self.d = blocks[0].span.shape[2]
        self.n_people = sum(block.person.size for block in blocks)
        self.spans = {block.span.shape[1] for block in blocks}

    def fast(self, natural: Array, *, information: bool = True) -> Sums:
        """Return the sums with expectation propagation for everybody whose answers span more than a line.

        A tenth of the cost of a grid in the plane, and so close that its optimum is a step from the exact one.
        """
        return self._sum(natural, information, 1)

    def exact(self, natural: Array, *, information: bool = True) -> Sums:
        """Return the sums with grids up to three dimensions."""
        return self._sum(natural, information, LARGEST_GRID)

    @property
    def needs_polish(self) -> bool:
        """Whether the two differ: somebody's answers span a plane or a space."""
        return any(1 < q <= LARGEST_GRID for q in self.spans)

    def _sum(self, natural: Array, information: bool, largest_grid: int) -> Sums:
        job = partial(
            sums_of, structure=self.structure, natural=natural, loss=self.loss,
            information=information, largest_grid=largest_grid,
        )  # fmt: skip
        return self.engine.sum(job, self.blocks)

    def question_bias(self, natural: Array) -> float:
        """Return the z-score of the test in `bias_sums`; NaN where nobody's answers can tell."""
        job = partial(bias_sums, structure=self.structure, natural=natural, loss=self.loss)
        sums = self.engine.sum(job, self.blocks)
        explained = np.linalg.lstsq(sums.information, sums.cross, rcond=1e-10)[0]
        left = sums.square - float(sums.cross @ explained)
        # what the other parameters explain of κ but for rounding is not evidence
        return sums.score / np.sqrt(left) if left > 1e-6 * sums.square > 0 else float("nan")

    def people(self, law: Law, n_people: int) -> tuple[Array, Array | None]:
        """Return means (K, d) and, where they fit, covariances (K, d, d) of everybody's v."""
        if n_people * self.d**2 <= MOST_COVARIANCES:
            return posteriors(self.blocks, law, self.loss, n_people)
        mean = np.tile(law.mean, (n_people, 1))
        for block in self.blocks:
            mean[block.person] = posterior_means(block, law, self.loss)
        return mean, None
