"""Progress of a fit that makes many passes over people."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from crowdmetric.progress import foretell

__all__ = ["Passes", "duration"]


class Passes:
    """Counts passes over people, and reports their speed and the time left.

    Parameters
    ----------
    say : function of a sentence
    people : int
        How many people there are.
    expected : int
        How many passes such a fit usually takes.
    """

    def __init__(self, say: Callable[[str], None], people: int, expected: int) -> None:
        self._say, self._people, self._expected = say, people, expected
        self._passes, self._seconds, self._clock = 0, 0.0, perf_counter()

    @staticmethod
    def of(say: Callable[[str], None] | None, people: int, expected: int) -> Passes | None:
        """Return a counter; None if there is no `say`."""
        return None if say is None else Passes(say, people, expected)

    def __call__(self, seconds: float, passes: int = 1) -> None:
        """Count passes that took `seconds` in total."""
        if self._passes:  # the first passes also load compiled loops
            foretell(max(self._expected - self._passes, 1) * seconds / max(passes, 1))
        self._passes += passes
        self._seconds += seconds
        seconds = self._seconds / self._passes
        left = max(self._expected - self._passes, 1) * seconds
        speed = self._people / max(seconds, 1e-9)
        self._say(f"pass {self._passes}, {speed:,.0f} people per second, about {duration(left)} left")

    def after_step(self, passes: int, value: float) -> None:
        """Count what was done since the last step of a fit that has made `passes` passes so far."""
        clock, self._clock = self._clock, perf_counter()
        self(self._clock - clock, passes - self._passes)


def duration(seconds: float) -> str:
    """Return a time in words, rounded to its largest unit."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
