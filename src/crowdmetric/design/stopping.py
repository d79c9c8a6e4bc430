"""When a live study has learned enough, what it can then promise, and how long it will still take.

Two reasons to stop need two kinds of care, because the same answers decide when to stop and what is then said:

*The metric is known well enough* is decided by the width of intervals, not by where they are. Such intervals keep their
coverage for many people (Chow and Robbins), and for fewer they are widened by Student's quantile
(`learning.Learned.widening`).

*A comparison of two distances is settled* is decided by where its interval is: looked at often enough, an ordinary
90 % interval excludes zero sooner or later, also where the truth is zero. So it is a confidence sequence, which holds
the truth at all looks together with 90 % probability (Robbins' normal mixture). With V the inverse variance of the
estimate, α = 0.1 and any ρ > 0 that is chosen beforehand,

    |estimate − truth| ≤ √((V + ρ) log((V + ρ)/(ρ α²))) / V          for all looks, with probability 1 − α
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

__all__ = ["Forecast", "Settled", "Stop", "always_valid", "errors_ahead", "log_ratios", "people_for"]

Array = NDArray[np.float64]

# Metrics drawn from the posterior below which nothing is said of how wrong a forecast may be.
FEWEST_DRAWS = 3
# Standard deviation of the log of an error for its being a quantile of a few hundred draws, now and at the end; and for
# all that is not known but the metric, as a share of how far the log is to fall (chosen on 20 studies, d = 3 and 5).
NOISE, SLIPS = 0.06, 0.1
# Above this error a metric that was learned may be no more than noise, and nobody can say what it takes.
TOO_LITTLE = 0.5


@dataclass(frozen=True)
class Stop:
    """Whether a study is over, and why. It is true where it is over."""

    done: bool
    reason: str

    def __bool__(self) -> bool:
        return self.done


@dataclass(frozen=True)
class Forecast:
    """What is known now, and how many more people it takes.

    Attributes
    ----------
    people
        How many have answered when the forecast was made.
    error
        Relative error that the metric does not exceed with 90 % probability, now; infinite before the first fit.
    target
        The one wanted.
    more_people
        How many more it takes; None: no number would do, or none can be said yet.
    at_budget
        The error to expect when the budget is used up; None without one.
    more_people_interval, at_budget_interval
        Their 90 % intervals, None before enough metrics were drawn. An upper end of None: no number of people may do.
    """

    people: int
    error: float
    target: float
    more_people: int | None
    at_budget: float | None = None
    more_people_interval: tuple[int | None, int | None] | None = None
    at_budget_interval: tuple[float, float] | None = None

    def summary(self) -> str:
        """Return the forecast in one sentence or two."""
        if not np.isfinite(self.error):
            return "Nothing can be forecast before the first fit."
        said = (
            f"With 90 % probability the metric is within {self.error:.0%} of the estimate ({self.people:,} people, "
            f"{self.target:.0%} wanted)"
        )
        if self.more_people is None and self.error > TOO_LITTLE:
            said += "; too little is known yet to say how many more people it takes."
        elif self.more_people is None:
            said += "; at this rate that will not be reached."
        elif self.more_people == 0:
            said += "."
        else:
            said += f"; at this rate you need {self.more_people_said()}."
        if self.at_budget is not None:
            said += f" At the end of the budget it will be about {self.at_budget:.1%}"
            if self.at_budget_interval is not None:
                low, high = self.at_budget_interval
                said += f" (90 % interval: {low:.1%} to {high:.1%})"
            said += "."
        return said

    def more_people_said(self) -> str:
        """Return how many more people it takes, in words, with an interval where there is one."""
        said = f"{self.more_people:,} more people"
        if self.more_people_interval is None:
            return said
        low, high = ("any number" if end is None else f"{end:,}" for end in self.more_people_interval)
        return f"{said} (90 % interval: {low} to {high})"


@dataclass(frozen=True)
class Settled:
    """A comparison of two distances: the log of their ratio, and an interval that holds at all looks together."""

    estimate: float
    low: float
    high: float

    @property
    def is_settled(self) -> bool:
        """Whether it is known which distance is larger."""
        return self.low > 0 or self.high < 0


def always_valid(estimate: float, variance: float, rho: float, level: float = 0.90) -> Settled:
    """Return the confidence sequence of this module's docstring at one look."""
    V = 1.0 / max(variance, 1e-300)
    half = sqrt((V + rho) * log((V + rho) / (rho * (1.0 - level) ** 2))) / V
    return Settled(estimate, estimate - half, estimate + half)


def log_ratios(metrics: Array, one: Array, other: Array) -> Array:
    """Return ``log (δᵀMδ / δ'ᵀMδ')`` (n,) of metrics (n, d, d) for two differences of items."""
    first, second = (np.einsum("d,nde,e->n", x, metrics, x) for x in (one, other))
    tiny = np.finfo(float).tiny
    return np.asarray(np.log(np.maximum(first, tiny)) - np.log(np.maximum(second, tiny)))


def errors_ahead(error: float, tail: float, expected: Array) -> Array:
    """Return errors (3, k) after some more people, from `error`, the one now: 90 % interval's ends around the median.

    `expected` (B, k) are root mean square errors by Fisher information under each of B metrics, the first one now, and
    `tail` is by how much the error that is not exceeded with 90 % probability is larger than that. Precisions add up::

        1/error(n)² = 1/error² + (1/expected(n)² − 1/expected(0)²) / tail²

    With many people that is `tail` times what Fisher information says. With few the error now is smaller, as it knows
    the prior too, and may not be taken to fall by the same factor: what the prior knows it will know no better.

    The metrics are draws from the posterior, and the true one is as good as one more. So the interval is that of the
    next of B numbers, in logarithms: Student's, with standard deviation s times ``√(1 + 1/B)``, to which `NOISE` and
    `SLIPS` are added. With fewer than `FEWEST_DRAWS` metrics its ends are not a number.
    """
    to_come = (expected**-2.0 - expected[:, :1] ** -2.0) / tail**2
    logs = -0.5 * np.log(error**-2.0 + np.maximum(to_come, 0.0))
    middle, half = np.median(logs, axis=0), np.full(logs.shape[1], np.nan)
    if len(logs) >= FEWEST_DRAWS:
        quantile = t.ppf(0.95, [len(logs) - 1, np.inf])
        others = NOISE**2 + (SLIPS * (middle - np.log(error))) ** 2
        variance = np.array([(1.0 + 1.0 / len(logs)) * logs.var(axis=0, ddof=1), others])
        half = np.sqrt(quantile**2 @ variance)
    ahead = np.exp(np.stack([middle - half, middle, middle + half]))
    ahead[:, 0] = error
    return np.asarray(np.minimum.accumulate(ahead, axis=1))


def people_for(target: float, errors: Array, people: Array) -> int | None:
    """Return with how many more people an error falls to the target, None if it does not.

    `errors` (k,) fall with `people` (k,), which rise from 0, about like a power of them.
    """
    if errors[0] <= target:
        return 0
    if errors[-1] > target:
        return None
    return int(np.ceil(np.exp(np.interp(-np.log(target), -np.log(errors), np.log(np.maximum(people, 1.0))))))
