"""Units of the items: centered, with root mean square length one.

If items are shifted or scaled, the model stays the same and only its parameters change. Starts and tolerances of the
solvers are made for items of size one. With ``x = c + a x̃``::

    M = M̃ / a²      μ = μ̃ / a − 2 M c      Σ = Σ̃ / a²      v = ṽ / a − 2 M c
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from crowdmetric.checks import is_accurate
from crowdmetric.engines.contract import DeviceEngine
from crowdmetric.symmetric import smat
from crowdmetric.users.layout import Layout
from crowdmetric.users.population_sums import Law

__all__ = ["Units", "items_on_device"]

Array = NDArray[Any]

# Number of items copied at once while their units are computed, here and on a device.
AT_ONCE, AT_ONCE_ON_DEVICE = 1 << 14, 1 << 18


@dataclass(frozen=True)
class Units:
    """The center c (d,) and the size a of some items."""

    center: Array
    size: float

    @staticmethod
    def of(items: Array, pairs: NDArray[np.intp]) -> Units:
        """Return the units of the items that were compared."""
        used = np.zeros(items.shape[0], dtype=np.bool_)
        used[pairs] = True
        rows = np.flatnonzero(used)
        parts = [rows[begin : begin + AT_ONCE] for begin in range(0, rows.size, AT_ONCE)]
        center = np.sum([items[part].sum(axis=0) for part in parts], axis=0) / rows.size
        square = sum(float(np.sum((items[part] - center) ** 2)) for part in parts) / rows.size
        return Units(center, float(np.sqrt(square)) if square > 0 else 1.0)

    def inside(self, items: Array) -> Array:
        """Return items in these units."""
        return (items - self.center) / self.size

    def law_outside(self, law: Law) -> Law:
        """Return the law in the items' own units."""
        metric = law.metric / self.size**2
        mean = law.mean / self.size - 2.0 * metric @ self.center
        return Law(metric, mean, law.covariance / self.size**2, law.effects)

    def points_outside(self, points: Array, metric: Array) -> Array:
        """Return people's v (K, d) in the items' own units, given the metric in those units."""
        return points / self.size - 2.0 * self.center @ metric

    def law_inside(self, law: Law) -> Law:
        """Return a law of the items' own units in these."""
        mean = (law.mean + 2.0 * law.metric @ self.center) * self.size
        return Law(law.metric * self.size**2, mean, law.covariance * self.size**2, law.effects)

    def offsets_outside(self, covariance: Array) -> Array:
        """Return the covariance (n, n) of (svec M, μ, b) in the items' own units from that in these."""
        at = Layout(self.center.size, free=False)
        out = np.eye(covariance.shape[0])
        out[at.metric, at.metric] /= self.size**2
        out[at.mean, at.metric] = -2.0 * (smat(np.eye(at.p)) @ self.center).T / self.size**2
        out[at.mean, at.mean] /= self.size
        return np.asarray(out @ covariance @ out.T)


def items_on_device(items: Any, used: Any, engine: DeviceEngine) -> tuple[Any, Units] | None:
    """Return items (N, d) in units of those that are used, and these units; None if they are not all finite.

    Items are moved once. Sums, and differences from a first guess of the center, are computed in float64. Only numbers
    of the size of the items' spread are rounded to the engine's precision, even if items lie far from zero.
    """
    xp = array_namespace(used)
    N, d = items.shape
    guess = xp.mean(engine.asarray(items[:AT_ONCE_ON_DEVICE], double=True), axis=0)
    inside = xp.empty((N, d), dtype=engine.dtype, device=used.device)
    first, second = xp.zeros_like(guess), xp.zeros_like(guess)
    largest = 0.0
    for begin in range(0, N, AT_ONCE_ON_DEVICE):
        part = slice(begin, begin + AT_ONCE_ON_DEVICE)
        rows = engine.asarray(items[part], double=True)
        largest = float(np.maximum(largest, float(xp.max(xp.abs(rows)))))  # NaN if any value is
        if not is_accurate(largest):
            return None
        rows -= guess
        inside[part] = rows  # in the engine's precision
        rows = xp.where(used[part][:, None], rows, xp.zeros_like(rows))
        first += xp.sum(rows, axis=0)
        second += xp.sum(rows * rows, axis=0)
    count = float(xp.sum(used))
    center = first / count
    square = float(xp.sum(second / count - center * center))
    size = float(np.sqrt(square)) if square > 0 else 1.0
    inside -= xp.astype(center, inside.dtype)
    inside /= size
    return inside, Units(np.asarray((guess + center).cpu(), dtype=np.float64), size)
