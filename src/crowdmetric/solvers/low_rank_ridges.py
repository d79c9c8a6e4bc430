"""The ridge on items' own utilities beside a metric of low rank (`crowdmetric.solvers.low_rank_prior`).

The ridge ρ on the utilities b of items comes from the evidence (MacKay), with the diagonal h (N,) of the information
about b: answers determine ``γ = (1 − q/N) Σ_i h_i / (h_i + ρ)`` of them, and ``ρ ← γ / ‖b‖²``. In q of the N
dimensions, those of the metric, the mean and a constant, answers cannot tell b from what features say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.solvers.law_fit import LIMITS
from crowdmetric.solvers.quasi_newton import Counted, LowRankResult, fit_low_rank
from crowdmetric.users.first_order import LowRank

__all__ = ["effective_items", "fit_with_item_ridge"]

Array = NDArray[Any]

# Maximum number of refits until the ridge on items settles, and the change of its logarithm that counts as settled.
REFITS, SETTLED = 10, 0.1


def fit_with_item_ridge(
    function: Counted, fit: LowRankResult, known: Callable[[LowRank], Array], **options: Any
) -> LowRankResult:
    """Return a fit with the ridge on items' utilities that the evidence asks for; `known` returns h (N,)."""
    for _ in range(REFITS):
        ridge = effective_items(known(fit.at), fit) / max(float(fit.at.effects @ fit.at.effects), 1e-300)
        ridge = float(np.clip(ridge, *LIMITS["items"]))
        if abs(float(np.log(ridge / fit.prior.items))) < SETTLED:
            break
        fit = fit_low_rank(function, fit.at, replace(fit.prior, items=ridge), **options)
    return fit


def effective_items(known: Array, fit: LowRankResult) -> float:
    """Return ``γ = (1 − q/N) Σ_i h_i / (h_i + ρ)``, how many utilities of N compared items the answers determine."""
    d, k = fit.at.factor.shape
    shared, N = d * k - k * (k - 1) // 2 + d + 1, np.count_nonzero(known)
    return max(1.0 - shared / max(N, 1), 0.1) * float(np.sum(known / (known + fit.prior.items)))
