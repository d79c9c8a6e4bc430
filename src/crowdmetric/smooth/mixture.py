"""Predictions averaged over kernels: each kernel keeps its fit, and counts with its probability.

With the weights w of the kernels, and mean m and covariance S that each predicts, a probability is the mean
``Σ w p``, and utilities have::

    mean  m̄ = Σ w m          covariance  Σ w (S + (m − m̄)(m − m̄)ᵀ)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.smooth.effects import Effect, effects_along, utilities_over
from crowdmetric.smooth.evidence import SmoothFit
from crowdmetric.smooth.people_blocks import DistinctAnswers
from crowdmetric.smooth.prediction import UtilityField, field_of

__all__ = ["Mixture", "Part"]

Array = NDArray[Any]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Part:
    """A kernel: its probability, its fit, and the utilities that follow from it."""

    weight: float
    fit: SmoothFit
    field: UtilityField


@dataclass(frozen=True)
class Mixture:
    """Utilities of a catalog under several kernels.

    Attributes
    ----------
    parts : tuple of Part
        The most probable first.
    number : (N,)
        Where the items of the catalog stand in the fields, in which the items shown come first.
    """

    parts: tuple[Part, ...]
    number: Indices

    @staticmethod
    def of(fits: Sequence[SmoothFit], weights: Array, others: Array, number: Indices) -> Mixture:
        """Return the mixture about the items shown and others (n, d), standardized."""
        pairs = zip(weights.tolist(), fits, strict=True)
        return Mixture(tuple(Part(weight, fit, field_of(fit, others)) for weight, fit in pairs), number)

    @property
    def best(self) -> Part:
        """The most probable kernel."""
        return self.parts[0]

    def at(self, others: Array) -> Mixture:
        """Return the mixture about the items shown and others (n, d), instead of those of the catalog."""
        return replace(self, parts=tuple(replace(part, field=field_of(part.fit, others)) for part in self.parts))

    def after_answers(self, answers: DistinctAnswers) -> Mixture:
        """Return the mixture with new people, who gave these answers, and nobody else."""
        return replace(self, parts=tuple(replace(part, field=part.field.after_answers(answers)) for part in self.parts))

    def averaged(self, found: Callable[[Part], Array]) -> Array:
        """Return the mean of what is found under every kernel."""
        return np.asarray(sum(part.weight * found(part) for part in self.parts))

    def moments(self, low: Indices, high: Indices, who: Indices) -> list[tuple[Array, Array]]:
        """Return mean and variance (T,) of x_high − x_low under every kernel, by numbers in the fields."""
        return [part.field.moments(low, high, who) for part in self.parts]

    def merged(self, moments: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
        """Return mean and variance of what has these under the kernels."""
        weights = [part.weight for part in self.parts]
        mean = sum(w * m for w, (m, _) in zip(weights, moments, strict=True))
        return np.asarray(mean), np.asarray(
            sum(w * (v + (m - mean) ** 2) for w, (m, v) in zip(weights, moments, strict=True))
        )

    def utilities(self) -> tuple[Array, Array]:
        """Return the crowd's utilities of the catalog (N,) and their standard errors; only differences matter."""
        fields = [part.field for part in self.parts]
        # what kernels say in common of all items does not make the utilities less sure
        apart = [(f.mean - f.mean[self.number].mean(), f.error**2) for f in fields]
        level = self.averaged(lambda part: part.field.mean[self.number].mean())
        mean, variance = self.merged(apart)
        return mean[self.number] + level, np.sqrt(variance[self.number])

    def means(self, people: int) -> Array:
        """Return the expected utilities of the catalog (K, N) of everybody, by number."""
        return self.averaged(lambda part: _means(part.field, people)[:, self.number])

    def people(self) -> Iterator[tuple[Indices, Array, Array]]:
        """Yield people by number (P,), and mean (P, N) and covariance (P, N, N) of their utilities of the catalog."""
        for found in zip(*(part.field.utilities() for part in self.parts), strict=True):
            means = [m[:, self.number] for _, m, _ in found]
            covariances = [S[:, self.number[:, None], self.number] for *_, S in found]
            yield found[0][0], *self._merged(means, covariances)

    def anybody(self) -> tuple[Array, Array]:
        """Return mean (N,) and covariance (N, N) of the utilities of somebody of whom no answer is known."""
        number = self.number
        fields = [part.field for part in self.parts]
        both = [(np.asarray(f.person) + np.asarray(f.crowd))[number[:, None], number] for f in fields]
        return self._merged([f.mean[number] for f in fields], both)

    def _merged(self, means: Sequence[Array], covariances: Sequence[Array]) -> tuple[Array, Array]:
        """Return the mean (…, N) and the covariance (…, N, N) of a mixture of Gaussians."""
        weights = [part.weight for part in self.parts]
        mean = np.asarray(sum(w * m for w, m in zip(weights, means, strict=True)))
        apart = [m - mean for m in means]
        spread = [S + a[..., :, None] * a[..., None, :] for S, a in zip(covariances, apart, strict=True)]
        return mean, np.asarray(sum(w * S for w, S in zip(weights, spread, strict=True)))

    def effect(self, feature: int, values: Array) -> Effect:
        """Return the effect of a feature of the standardized items at some values (g,)."""
        effects = [effects_along(part.fit, feature, values) for part in self.parts]
        mean, variance = self.merged([(effect.mean, effect.error**2) for effect in effects])
        _, people = self.merged([(np.zeros(len(values)), effect.people**2) for effect in effects])
        return Effect(values, mean, np.sqrt(variance), np.sqrt(people))

    def utilities_of(self, points: Array) -> tuple[Array, Array]:
        """Return the crowd's utilities (n,) of standardized points (n, d), less their mean, and standard errors."""
        found = [utilities_over(part.fit, points) for part in self.parts]
        mean, variance = self.merged([(mean, error**2) for mean, error in found])
        return mean, np.sqrt(variance)


def _means(field: UtilityField, people: int) -> Array:
    """Return everybody's expected utilities of all items of a field (K, n)."""
    found = np.tile(field.mean, (people, 1))  # no answer of some people may be known
    for who, mean in field.means():
        found[who] = mean
    return found
