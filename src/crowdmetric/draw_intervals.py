"""Intervals that hold a share of draws and the estimate itself; `crowdmetric.intervals` makes them of a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.errors import DataError

__all__ = ["Intervals", "intervals_from"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Intervals:
    """Estimates with intervals.

    Attributes
    ----------
    estimate, low, high : arrays of one shape
    standard_error : array
        Standard deviation over the draws.
    level : float
        The share of draws inside; over many crowds, about the share of intervals that hold the truth.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.intervals import intervals_from
    >>> found = intervals_from(np.arange(101.0)[:, None], [50.0])
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


def intervals_from(draws: Array, estimate: ArrayLike, level: float = 0.9) -> Intervals:
    """Return intervals that hold a share `level` of the draws (n, …) and the estimate (…).

    With F the share of draws below the estimate, an interval runs from the quantile α to the quantile α + level, where
    α is ``(1 − level)/2`` moved as little as needed for ``α ≤ F ≤ α + level``.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.intervals import intervals_from
    >>> found = intervals_from(np.arange(101.0)[:, None], [50.0])
    >>> found.low.round(6).tolist(), found.high.round(6).tolist()
    ([5.0], [95.0])
    """
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise DataError(f"level={level!r} is not between 0 and 1; 0.9 gives 90 % intervals")
    center = np.asarray(estimate, dtype=np.float64)
    level, tail = float(level), 0.5 * (1.0 - float(level))
    below, above = np.mean(draws < center, axis=0), np.mean(draws > center, axis=0)
    ordered = np.sort(draws, axis=0)
    low = _quantile(ordered, np.where(below < tail, below, np.where(above < tail, 1.0 - above - level, tail)))
    high = _quantile(ordered, np.where(above < tail, 1.0 - above, np.where(below < tail, below + level, 1.0 - tail)))
    return Intervals(
        center, draws.std(axis=0, ddof=1), np.minimum(low, center), np.maximum(high, center), level
    )  # fmt: skip


def _quantile(ordered: Array, share: Array) -> Array:
    """Return the quantiles of draws (n, …), in order, at a share for each, (…), between the nearest two draws."""
    place = np.clip(share, 0.0, 1.0) * (len(ordered) - 1)
    under = np.floor(place).astype(np.intp)
    over = np.minimum(under + 1, len(ordered) - 1)
    left, right = (np.take_along_axis(ordered, at[None], axis=0)[0] for at in (under, over))
    return np.asarray(left + (place - under) * (right - left))
