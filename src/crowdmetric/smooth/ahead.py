"""How long a fit of tastes will take yet, said while it goes on.

Nearly all of the time goes into evaluations of the evidence, each of which takes as long as the last one about as many
people. The steps of a fit are known beforehand, and how many evaluations such a step usually takes.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from crowdmetric.progress import foretell, in_words

__all__ = ["AGAIN", "ANEW", "HIDDEN", "Ahead"]

# Usual numbers of evaluations: of a fit, of one that goes on from another, and of one whose answers are partly hidden.
ANEW, AGAIN, HIDDEN = 25, 12, 4


class Ahead:
    """What is left of a fit.

    Parameters
    ----------
    say : function of a sentence, optional
        None: nothing is said.
    """

    def __init__(self, say: Callable[[str], None] | None) -> None:
        self._say = say
        self._what, self._later, self._now, self._one, self._done = "", 0.0, 0.0, 1.0, 0.0
        self._clock = perf_counter()

    def expect(self, evaluations: float, work: float = 1.0) -> None:
        """Add a step that will be made: its usual number of evaluations, and the work of each."""
        self._later += evaluations * work

    def begin(self, what: str, evaluations: float, work: float = 1.0) -> None:
        """Begin a step that was to be expected."""
        self._what, self._now, self._one = what, evaluations * work, work
        self._later = max(self._later - self._now, 0.0)

    def evaluated(self) -> None:
        """Count an evaluation, and say how long the rest will take at this speed."""
        self._done += self._one
        self._now = max(self._now - self._one, self._one)
        if self._say is not None:
            seconds = (perf_counter() - self._clock) * (self._now + self._later) / self._done
            foretell(seconds)
            self._say(f"{self._what}, about {in_words(seconds)} left")
