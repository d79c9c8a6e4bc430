"""Where people stand, given the law of people and their answers; and a test whether questions were chosen for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from crowdmetric.engines.folding import FieldSums
from crowdmetric.losses import Loss
from crowdmetric.symmetric import as_like, as_numpy
from crowdmetric.users.integrals import posterior_of
from crowdmetric.users.population_sums import Law, PopulationBlock, Structure, integrate, pull_of
from crowdmetric.users.propagation import TOLERANCE

__all__ = ["BiasSums", "Places", "bias_sums", "places_of", "posteriors"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Places(FieldSums):
    """Where people stand: their numbers (P,), the mean (P, d) of their v and its covariance (P, d, d) or None."""

    parts: list[tuple[NDArray[np.intp], Array, Array | None]]

    def everybody(self, law: Law, n_people: int) -> tuple[Array, Array | None]:
        """Return means (K, d) and covariances (K, d, d); people without answers have those of the population."""
        mean = np.tile(law.mean, (n_people, 1))
        for person, own, _ in self.parts:
            mean[person] = own
        if any(spread is None for _, _, spread in self.parts):
            return mean, None
        covariance = np.tile(law.covariance, (n_people, 1, 1))
        for person, _, spread in self.parts:
            covariance[person] = spread
        return mean, covariance


def places_of(
    block: PopulationBlock,
    law: Law,
    loss: Loss,
    *,
    covariances: bool,
    largest_grid: int = 1,
    tolerance: float = TOLERANCE,
) -> Places:
    """Return where the people of a block stand; the mean alone is ``μ + Σ Bᵀ Eᵀ slope``."""
    integral = integrate(block, law, loss, largest_grid, tolerance)
    if not covariances:
        return Places([(block.person, law.mean + pull_of(block, integral) @ law.covariance, None)])
    return Places([(block.person, *posterior_of(integral, block.span, block.loadings, law.mean, law.covariance))])


def posteriors(
    blocks: Sequence[PopulationBlock],
    law: Law,
    loss: Loss,
    n_people: int,
    largest_grid: int = 1,
    tolerance: float = TOLERANCE,
) -> tuple[Array, Array]:
    """Return mean (K, d) and covariance (K, d, d) of everybody's v; without answers, those of the population."""
    place = partial(places_of, law=law, loss=loss, covariances=True, largest_grid=largest_grid, tolerance=tolerance)
    places = map(place, blocks)
    parts = [part for some in places for part in some.parts]
    mean, covariance = Places(parts).everybody(law, n_people)
    assert covariance is not None
    return mean, covariance


@dataclass(frozen=True)
class BiasSums(FieldSums):
    """Sums over people for the test of `bias_sums`: score of κ and of the other parameters, squares and products."""

    score: float
    square: float
    others: Array
    cross: Array
    information: Array


def bias_sums(
    block: PopulationBlock, structure: Structure, natural: Array, loss: Loss, largest_grid: int = 1
) -> BiasSums:
    """Return the sums of a score test for questions that were chosen near people's ideal points.

    Under the alternative, ideal points have mean ``u₀ + κ c̄_k``, where c̄_k is the center of the items that person k was
    shown. Then μ moves by ``−2κMc̄_k``, and the score of κ at 0 is ``−2 Σ_i slope_i ⟨δ_i, M c̄_k⟩``. For people with one
    answer, κ cannot be distinguished from the scale of the metric, so only people with more answers contribute.
    """
    law = structure.law(natural, block.span.shape[2])
    integral = integrate(block, law, loss, largest_grid)
    scores = structure.scores(block, integral, law, natural)
    xp = array_namespace(block.weight)
    middle = 0.5 * xp.sum(block.weight[:, :, None] * block.total, axis=1) / xp.sum(block.weight, axis=1)[:, None]
    kappa = -2.0 * xp.sum((pull_of(block, integral) @ as_like(law.metric, middle)) * middle, axis=1)
    others, cross, information = map(as_numpy, (scores.sum(axis=0), scores.T @ kappa, scores.T @ scores))
    return BiasSums(float(kappa.sum()), float(kappa @ kappa), others, cross, information)
