"""Everybody's questions, as a fit by gradients goes through them, wherever they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from crowdmetric.fits.units import Units
from crowdmetric.users.first_order import EqualQuestions

__all__ = ["QuestionStream"]

Array = Any


@dataclass(frozen=True)
class QuestionStream:
    """Everybody's questions, some people at a time.

    Attributes
    ----------
    items : (N, d)
        In units of their own, and those units; NumPy's array, or where the work is done.
    questions
        Gone through once a pass; a list where they are in memory.
    people
        The numbers of the people of each of `questions`; None for a scan, where nobody's place is kept.
    users, weight
        Who they are, and the weight of all answers.
    """

    items: Array
    units: Units
    questions: Iterable[EqualQuestions]
    people: list[Array] | None
    users: NDArray[Any]
    n_users: int
    weight: float
