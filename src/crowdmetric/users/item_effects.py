"""Item effects: utilities of items beyond their features, the same for everybody.

Without them, the metric has to explain how popular items are by their features, and then predicts the popularity of
items that nobody has seen. Here item i has a utility ``b_i ~ N(0, ω²)`` beyond its features::

    a = ⟨Δ, M⟩ + ⟨δ, μ⟩ − (b_left − b_right)

so that M and μ are judged by how well they explain *items*, which are few, and not by answers alone. An item without
answers has b = 0 with variance ω², which predictions take into account. The b are additional parameters under a ridge
1/ω² from the evidence (`crowdmetric.solvers.law_fit`). A person's score in b_i is the sum of the slopes of their
answers in which i was on the right, minus those in which it was on the left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.users.integrals import Integral
from crowdmetric.users.layout import Layout
from crowdmetric.users.population_sums import Law, PopulationBlock, Structure

__all__ = ["WithItemEffects", "variance_of_differences"]

Array = NDArray[Any]


def variance_of_differences(covariance: Array, pairs: NDArray[Any]) -> Array:
    """Return ``Var[b_left − b_right]`` (T,) from the covariance (N, N) of what is not known of b."""
    left, right = pairs[:, 0], pairs[:, 1]
    own = np.diag(covariance)
    return np.maximum(own[left] + own[right] - 2.0 * covariance[left, right], 0.0)


@dataclass(frozen=True)
class WithItemEffects:
    """A structure of people with per-item effects, whose values follow its natural parameters."""

    people: Structure
    n_items: int

    def layout(self, d: int) -> Layout:
        return replace(self.people.layout(d), n_items=self.n_items)

    def law(self, natural: Array, d: int) -> Law:
        at = self.layout(d)
        return replace(self.people.law(natural[: at.own], d), effects=natural[at.items])

    def spread_jacobian(self, natural: Array, d: int) -> Array:
        at = self.layout(d)
        out = np.zeros((at.p, at.size))
        out[:, : at.own] = self.people.spread_jacobian(natural[: at.own], d)
        return out

    def bending(self, natural: Array, spread_score: Array) -> Array:
        own = natural.size - self.n_items
        out = np.zeros((natural.size, natural.size))
        out[:own, :own] = self.people.bending(natural[:own], spread_score)
        return out

    def scores(self, block: PopulationBlock, integral: Integral, law: Law, natural: Array) -> Array:
        people, own = block.person.size, natural.size - self.n_items
        scores = np.empty((people, natural.size))
        scores[:, :own] = self.people.scores(block, integral, law, natural[:own])
        cell = np.arange(people)[:, None] * self.n_items + block.shown.transpose(2, 0, 1)
        slopes = np.stack([-integral.slope, integral.slope])
        sums = np.bincount(cell.ravel(), weights=slopes.ravel(), minlength=people * self.n_items)
        scores[:, own:] = sums.reshape(people, self.n_items)
        return scores
