"""The prior of a metric of low rank.

With ``M = LLᵀ + γI`` and items of covariance Γ (d, d), the negative log prior is ::

    ½ shape ‖L‖²                                                   the ridge on the shape
    + ½ items ‖b‖²                                                 the ridge on items' own utilities
    + ½ (β / 10)² (4 tr(MΓMΓ) + 2 μᵀΓμ + 2 tr(LCLᵀΓ))              the limit of noise
    + ½ (log s − log s₀)²                                          the law on the spread

Under the first, entries of L have the prior N(0, 1/shape). Its strength comes from the evidence, and so does the number
of columns (`crowdmetric.fits.low_rank_posterior`): then M is a sum of that many equally strong random directions, and
of the same in all directions, γ ≥ 0.

The limit of noise is that of a fit by scoring: mean squares of the contributions of metric, mean and people's
differences to ψ for a typical pair of items. Without it, noise-free answers would make them grow without limit. With
one answer per person, metric and people's differences can grow together with hardly any change of the likelihood.

For isotropic people s is the spread of their ideal points; for free ones s² is ``⟨C, K⟩ / 4⟨K, K⟩``, K = LᵀL. Under the
last term, people are spread about as far as the items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.solvers.priors import NOISE_FREE
from crowdmetric.users.first_order import IsotropicPeople, LowRank

__all__ = ["SPREAD_LAW", "LowRankPrior"]

Array = NDArray[Any]

# Standard deviation of log s around its start.
SPREAD_LAW = 1.0


@dataclass(frozen=True)
class LowRankPrior:
    """The prior: Γ of the items, log s₀, β, and the strengths of the two ridges; zero: none."""

    items_covariance: Array
    log_spread: float
    beta: float = 1.0
    shape: float = 0.0
    items: float = 0.0

    def __call__(self, at: LowRank) -> tuple[float, Array]:
        """Return the negative log prior and its gradient in `LowRank.flat`."""
        L, K, C, rest = at.factor, at.gram, at.covariance, at.rest or 0.0
        GL, mean_bar = self.items_covariance @ L, self.items_covariance @ at.mean
        B, square = L.T @ GL, float(np.sum(self.items_covariance**2))
        unit = (self.beta / NOISE_FREE) ** 2
        metric = float(np.sum(B * B) + 2.0 * rest * np.sum(GL * GL)) + rest**2 * square
        value = unit * (2.0 * metric + float(at.mean @ mean_bar + np.sum(C * B)))
        value += 0.5 * self.items * float(at.effects @ at.effects) + 0.5 * self.shape * float(np.trace(K))
        K_bar, C_bar, people_bar = 0.5 * self.shape * np.eye(len(K)), unit * B, np.zeros(at.people.flat().size)
        if isinstance(at.people, IsotropicPeople):
            away = (at.people.log_spread - self.log_spread) / SPREAD_LAW
            people_bar[0] = away / SPREAD_LAW
        else:
            log_spread, about_K, about_C = spread_of(K, C)
            away = (log_spread - self.log_spread) / SPREAD_LAW
            K_bar, C_bar = K_bar + away / SPREAD_LAW * about_K, C_bar + away / SPREAD_LAW * about_C
        value += 0.5 * away**2
        more_bar, rest_bar, more_people = at.people.pull_back(K, rest, C_bar, np.zeros(()))
        B_bar = unit * (4.0 * B + C)
        factor_bar = 2.0 * (L @ (K_bar + more_bar) + GL @ B_bar + 4.0 * unit * rest * self.items_covariance @ GL)
        about_rest = float(rest_bar) + 4.0 * unit * (float(np.sum(GL * GL)) + rest * square)
        gradient = [factor_bar.ravel(), 2.0 * unit * mean_bar, people_bar + more_people]
        return value, np.concatenate([*gradient, [] if at.rest is None else [about_rest], self.items * at.effects])

    @property
    def of_mean(self) -> Array:
        """The curvature (d, d) in the mean, from the limit of noise."""
        return np.asarray(2.0 * (self.beta / NOISE_FREE) ** 2 * self.items_covariance)

    def precision(self, at: LowRank) -> Array:
        """Return the curvature (n,) in `LowRank.flat` of the ridges and of the law on isotropic people."""
        law = SPREAD_LAW**-2 if isinstance(at.people, IsotropicPeople) else 0.0
        sizes = (at.factor.size, at.mean.size, at.people.flat().size, at.rest is not None, at.effects.size)
        return np.repeat([self.shape, 0.0, law, 0.0, self.items], sizes)


def spread_of(K: Array, C: Array) -> tuple[float, Array, Array]:
    """Return ``log s = ½ log(⟨C, K⟩ / 4⟨K, K⟩)`` and its derivatives in K and in C."""
    both, own = float(np.sum(C * K)), float(np.sum(K * K))
    return 0.5 * float(np.log(both / (4.0 * own))), 0.5 * C / both - K / own, 0.5 * K / both
