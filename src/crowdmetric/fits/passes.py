"""How a fit that passes over people again and again is coming along."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

__all__ = ["Passes", "after_steps", "duration"]


class Passes:
    """Counts passes over people, and says how fast they are.

    Parameters
    ----------
    say : function of a sentence
    people : int
        How many people a pass goes over.
    expected : int
        Passes that such a fit usually takes.
    """

    def __init__(self, say: Callable[[str], None], people: int, expected: int) -> None:
        self._say, self._people, self._expected = say, people, expected
        self._passes, self._seconds = 0, 0.0

    def __call__(self, seconds: float, passes: int = 1) -> None:
        """Count a pass, or some, that took so long."""
        self._passes += passes
        self._seconds += seconds
        seconds = self._seconds / self._passes
        left = max(self._expected - self._passes, 1) * seconds
        speed = self._people / max(seconds, 1e-9)
        self._say(f"pass {self._passes}, {speed:,.0f} people per second, about {duration(left)} left")


def after_steps(passes: Passes) -> Callable[[int, float], None]:
    """Return what counts for a fit that tells, after each of its steps, how many passes it made so far, and the value.

    Time is taken from this call on.
    """
    made, clock = 0, perf_counter()

    def tell(so_far: int, value: float) -> None:
        nonlocal made, clock
        now = perf_counter()
        passes(now - clock, so_far - made)
        made, clock = so_far, now

    return tell


def duration(seconds: float) -> str:
    """Return a time in words, no more exact than it is known."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
