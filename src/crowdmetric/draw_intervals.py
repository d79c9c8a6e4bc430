"""Estimates and intervals of anything that was computed for every draw from a posterior: one rule for all of them.

The estimate is the median of the draws, and the interval leaves out as many draws below as above. So an estimate lies
inside its interval, whatever the draws are, and the square or the logarithm of a number has the square or the logarithm
of its estimate. The number that belongs to the fitted metric, which is the most probable one, may be another: where
numbers cannot be negative, or where few answers leave much open, most draws lie on one side of it.

Draws of a metric may have small negative eigenvalues, as its posterior is expanded. Squared distances cannot: what is
reported is at least zero (`least_square`).

Parts of a whole (`parts_from`), such as shares, should also add up. Medians do so only roughly. What they lack is given
to each part in proportion to how far it may move within its interval.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.errors import DataError

__all__ = ["Intervals", "intervals_from", "least_square", "parts_from"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Intervals:
    """Estimates with intervals.

    Attributes
    ----------
    estimate, low, high : arrays of one shape
        The median of the draws, and the ends of the interval.
    standard_error : array
        Standard deviation over the draws.
    level : float
        The share of draws inside; over many crowds, about the share of intervals that hold the truth.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.intervals import intervals_from
    >>> found = intervals_from(np.arange(101.0)[:, None])
    >>> found.contains([10.0]).tolist()
    [True]
    """

    estimate: Array
    standard_error: Array
    low: Array
    high: Array
    level: float

    def contains(self, truth: ArrayLike) -> NDArray[np.bool_]:
        """Return which intervals hold some values."""
        value = np.asarray(truth)
        return (self.low <= value) & (value <= self.high)

    def summary(self, most: int = 10) -> str:
        """Return the first few in words, one per line."""
        rows = zip(self.estimate.ravel(), self.low.ravel(), self.high.ravel(), strict=True)
        lines = [f"{e:.4g}  ({low:.4g} to {high:.4g})" for e, low, high in list(rows)[:most]]
        more = [f"… and {self.estimate.size - most} more"] if self.estimate.size > most else []
        return "\n".join([f"estimate ({self.level:.0%} interval)", *lines, *more])


def intervals_from(draws: ArrayLike, level: float = 0.9, least: ArrayLike = -np.inf) -> Intervals:
    """Return the medians of draws (n, …) and intervals (…) that hold a share `level` of them, all at least `least`.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.intervals import intervals_from
    >>> found = intervals_from(np.arange(101.0)[:, None])
    >>> found.estimate.tolist(), found.low.round(6).tolist(), found.high.round(6).tolist()
    ([50.0], [5.0], [95.0])
    """
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise DataError(f"level={level!r} is not between 0 and 1; 0.9 gives 90 % intervals")
    drawn, tail = np.asarray(draws, dtype=np.float64), 0.5 * (1.0 - float(level))
    low, middle, high = np.maximum(np.quantile(drawn, [tail, 0.5, 1.0 - tail], axis=0), least)
    return Intervals(middle, drawn.std(axis=0, ddof=1), low, high, float(level))


def least_square(metric: Array) -> float:
    """Return what no squared distance is below: 0 under a metric (d, d), −∞ under any other symmetric matrix."""
    values = np.linalg.eigvalsh(metric)
    return 0.0 if values[0] >= -1e-9 * abs(values[-1]) else -np.inf


def parts_from(draws: ArrayLike, level: float = 0.9, least: float = 0.0) -> Intervals:
    """Return `intervals_from` for parts (n, k) that add up to the same whole W in every draw, and so do the estimates.

    With medians m and the interval from l to h, the estimates are::

        m + (h − m) (W − Σ m) / Σ (h − m)      if Σ m < W, else likewise with l
    """
    drawn = np.asarray(draws, dtype=np.float64)
    found = intervals_from(drawn, level, least)
    lack = float(drawn.sum(axis=1).mean() - found.estimate.sum())
    room = (found.high if lack > 0 else found.low) - found.estimate
    share = min(lack / room.sum(), 1.0) if room.any() else 0.0
    return replace(found, estimate=found.estimate + share * room)
