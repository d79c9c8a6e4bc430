"""The prior of a metric of low rank.

With ``M = LLᵀ``, items of covariance Γ (d, d) and ``B = LᵀΓL`` (k, k), the negative log prior is ::

    ½ shape ‖L‖²                                       the ridge on the shape
    + ½ items ‖b‖²                                     the ridge on items' own utilities
    + ½ (β / 10)² (4 ‖B‖² + 2 μᵀΓμ + 2⟨C, B⟩)          the limit of noise
    + ½ (log s − log s₀)²                              the law on the spread, s² = ⟨C, K⟩ / 4⟨K, K⟩

Under the first, entries of L have the prior N(0, 1/shape), so that M is a multiple of the identity on average, as under
the ridge of a fit by scoring (`crowdmetric.solvers.priors`). As ``‖L‖² = tr M``, it removes noise from weak directions:
those along which items hardly differ, and those that a too high rank adds. It also shrinks the scale of M, which
overfitting makes too large. (A ridge on ``L/√c``, c the size of M, does not change the scale; its fits to few answers
diverged along the scale.)

The limit of noise is that of a fit by scoring: mean squares of the contributions of metric, mean and people's
differences to ψ for a typical pair of items. Without it, noise-free answers would make them grow without limit. With
one answer per person, metric and people's differences can grow together with hardly any change of the likelihood.

For isotropic people s is the spread of their ideal points; for free ones it is the same number for their total
variance. Under the last term, people are spread about as far as the items.
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
        L, K, C = at.factor, at.gram, at.covariance
        GL, mean_bar = self.items_covariance @ L, self.items_covariance @ at.mean
        B = L.T @ GL
        away, K_bar, C_bar = spread_of(K, C)
        away = (away - self.log_spread) / SPREAD_LAW
        unit = (self.beta / NOISE_FREE) ** 2
        value = 0.5 * away**2 + unit * float(2.0 * np.sum(B * B) + at.mean @ mean_bar + np.sum(C * B))
        value += 0.5 * self.items * float(at.effects @ at.effects)
        K_bar, B_bar = away / SPREAD_LAW * K_bar, unit * (4.0 * B + C)
        if self.shape:
            value += 0.5 * self.shape * float(np.trace(K))
            K_bar = K_bar + 0.5 * self.shape * np.eye(len(K))
        more_bar, people_bar = at.people.pull_back(K, away / SPREAD_LAW * C_bar + unit * B)
        factor_bar = 2.0 * (L @ (K_bar + more_bar) + GL @ B_bar)
        return value, np.concatenate(
            [factor_bar.ravel(), 2.0 * unit * mean_bar, people_bar, self.items * at.effects]
        )  # fmt: skip

    def precision(self, at: LowRank) -> Array:
        """Return the curvature (n,) in `LowRank.flat` of the ridges and of the law on isotropic people."""
        law = SPREAD_LAW**-2 if isinstance(at.people, IsotropicPeople) else 0.0
        sizes = (at.factor.size, at.mean.size, at.people.flat().size, at.effects.size)
        return np.repeat([self.shape, 0.0, law, self.items], sizes)


def spread_of(K: Array, C: Array) -> tuple[float, Array, Array]:
    """Return ``log s = ½ log(⟨C, K⟩ / 4⟨K, K⟩)`` and its derivatives in K and in C."""
    both, own = float(np.sum(C * K)), float(np.sum(K * K))
    return 0.5 * float(np.log(both / (4.0 * own))), 0.5 * C / both - K / own, 0.5 * K / both
