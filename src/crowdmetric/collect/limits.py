"""How much one visitor may ask for: buckets that fill at a steady rate, in memory, bounded in number."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["Limit"]

MOST_VISITORS = 100_000


class Limit:
    """At most `burst` requests at once and `rate` per second in the long run, for each key.

    Parameters
    ----------
    rate, burst : float
    clock : function
        Seconds, for tests.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self.clock = rate, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, key: str) -> bool:
        """Return whether one more request of `key` is allowed, and count it."""
        now = self.clock()
        left, then = self._left.pop(key, (self.burst, now))
        left = min(self.burst, left + (now - then) * self.rate)
        allowed = left >= 1.0
        self._left[key] = (left - 1.0 if allowed else left, now)
        if len(self._left) > MOST_VISITORS:
            self._left.popitem(last=False)  # the one not seen for the longest time
        return allowed
