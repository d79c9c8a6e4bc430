"""The sums over people that a population fit asks for, wherever the people are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.engines.local import LocalEngine
from crowdmetric.losses import Loss
from crowdmetric.users.people import bias_sums, posterior_means, posteriors
from crowdmetric.users.population import Law, PopulationBlock, Structure, Sums, method_shift, sums_of

__all__ = ["PopulationProblem"]

Array = NDArray[Any]

# People's covariances are kept where they fit in this many numbers.
MOST_COVARIANCES = 20_000_000
# People on whom two ways of integrating are compared.
SAMPLE = 200


@dataclass(frozen=True)
class PopulationProblem:
    """Blocks of people, a structure, a loss, an engine, and how people are integrated out.

    Attributes
    ----------
    largest_grid
        People whose answers span at most so many dimensions are integrated on a grid, others by propagation.
    """

    blocks: Sequence[PopulationBlock]
    structure: Structure
    loss: Loss
    engine: LocalEngine
    largest_grid: int = 1

    @property
    def d(self) -> int:
        """Dimension of the items."""
        return int(self.blocks[0].span.shape[2])

    @property
    def n_people(self) -> int:
        """How many people say something."""
        return sum(block.person.size for block in self.blocks)

    @property
    def widest(self) -> int:
        """The largest dimension that anybody's answers span."""
        return max(block.span.shape[1] for block in self.blocks)

    def total(self, natural: Array, *, information: bool = True) -> Sums:
        """Return the sums over all people."""
        job = partial(
            sums_of, structure=self.structure, natural=natural, loss=self.loss,
            information=information, largest_grid=self.largest_grid,
        )  # fmt: skip
        return self.engine.sum(job, self.blocks)

    def thinned(self, n_people: int) -> PopulationProblem:
        """Return the problem of every so manieth person, about `n_people` in all."""
        step = max(1, self.n_people // n_people)
        return replace(self, blocks=[block.every(step) for block in self.blocks]) if step > 1 else self

    def method_shift(self, natural: Array, information: Array) -> Array:
        """Return how far (n,) the optimum would move if people were integrated out by a slow, exact method.

        The change of the score, measured on a sample of the people whose answers span more than a line, times the
        inverse of the information: one Newton step.
        """
        shift = np.zeros(natural.size)
        beyond = [block for block in self.blocks if block.span.shape[1] > self.largest_grid]
        for q in {block.span.shape[1] for block in beyond}:
            alike = [block for block in beyond if block.span.shape[1] == q]
            people = sum(block.person.size for block in alike)
            step = max(1, people // SAMPLE)
            sample = [block.every(step) for block in alike]
            job = partial(method_shift, structure=self.structure, natural=natural, loss=self.loss)
            shift += self.engine.sum(job, sample) * people / sum(block.person.size for block in sample)
        return np.linalg.lstsq(information, shift, rcond=1e-12)[0]

    def question_bias(self, natural: Array) -> float:
        """Return the z-score of the test in `bias_sums`; NaN where nobody's answers can tell."""
        job = partial(bias_sums, structure=self.structure, natural=natural, loss=self.loss)
        sums = self.engine.sum(job, self.blocks)
        explained = np.linalg.lstsq(sums.information, sums.cross, rcond=1e-10)[0]
        left = sums.square - float(sums.cross @ explained)
        # what the other parameters explain of κ but for rounding is not evidence
        if not left > 1e-6 * sums.square > 0:
            return float("nan")
        # under a ridge or at the boundary of the cone the other scores are not zero
        return (sums.score - float(sums.others @ explained)) / float(np.sqrt(left))

    def spread(self, law: Law) -> float:
        """Return the root mean square spread of ψ over people, in units of the answers' noise."""
        variances = [
            np.einsum("pmd,de,pme->pm", delta, law.covariance, delta)
            for delta in (block.loadings @ block.span for block in self.blocks[:8])
        ]
        return float(np.sqrt(np.mean(np.concatenate([v.ravel() for v in variances])))) * getattr(self.loss, "beta", 1.0)

    def people(self, law: Law, n_people: int) -> tuple[Array, Array | None]:
        """Return means (K, d) and, where they fit, covariances (K, d, d) of everybody's v."""
        if n_people * self.d**2 <= MOST_COVARIANCES:
            return posteriors(self.blocks, law, self.loss, n_people)
        mean = np.tile(law.mean, (n_people, 1))
        for block in self.blocks:
            mean[block.person] = posterior_means(block, law, self.loss)
        return mean, None
