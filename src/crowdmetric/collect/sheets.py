"""The steps of one person through a study, with the sides that they see.

A *place* is what a design asks of one person. A *sheet* is a place made ready: sides drawn at random, some questions
asked again with their sides swapped, checks mixed in, pages before and after. It is made once, kept with the person,
and never changes: people who come back find the same question with the same sides.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern

__all__ = ["QUESTIONS", "Place", "Step", "make_steps", "minutes_of", "read_steps", "repeats_of", "write_steps"]

Pair = tuple[str, str]

# Pages that ask which of two items; the others are screening, instructions and survey.
QUESTIONS = ("practice", "question")
# Fewest other questions between a question and its repeat, where there are enough.
GAP = 3
# Assumed seconds that a person spends on a question and on any other page.
PER_QUESTION, PER_PAGE = 4.0, 20.0


@dataclass(frozen=True)
class Place:
    """What a design asks of one person: pairs of item ids. `purpose` is design or evaluation."""

    purpose: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One page.

    Attributes
    ----------
    page : str
        screening, instructions, practice, question or survey.
    left, right : str
        What is shown on which side, for practice and question.
    purpose : str
        practice, design, evaluation, repeat or check.
    repeat_of : int or None
        The position of the same question with its sides swapped.
    expect : str
        The right answer of a check.
    number, total : int
        Which of how many pages of its kind it is; `read_steps` counts them.
    """

    page: str
    left: str = ""
    right: str = ""
    purpose: str = ""
    repeat_of: int | None = None
    expect: str = ""
    number: int = field(default=0, compare=False)
    total: int = field(default=0, compare=False)

    @property
    def asks(self) -> bool:
        """Whether this is a question about two items."""
        return self.page in QUESTIONS


def make_steps(
    place: Place,
    rng: random.Random,
    *,
    repeats: float = 0.0,
    practice: Sequence[Pair] = (),
    checks: Sequence[tuple[str, str, str]] = (),
    screening: bool = False,
    instructions: bool = False,
    survey: bool = False,
) -> list[Step]:
    """Return the steps of one person.

    Parameters
    ----------
    place : Place
    rng : random.Random
        Draws the sides, the questions that are repeated, and the positions of checks.
    repeats : float
        Share of the questions that are asked a second time, in addition to the others and in the second half.
    practice : sequence of pairs
    checks : sequence of (left, right, expect)
    screening, instructions, survey : bool
        Whether there are such pages.
    """
    steps = [Step("screening")] if screening else []
    steps += [Step("instructions")] if instructions else []
    steps += [Step("practice", *_sides(pair, rng), "practice") for pair in practice]
    first = len(steps)
    questions = [Step("question", *_sides(pair, rng), place.purpose) for pair in place.pairs]
    # Entries are (number, step, number of the question it repeats). Positions are known once all entries are in order.
    line: list[tuple[int, Step, int | None]] = [(i, step, None) for i, step in enumerate(questions)]
    count = repeats_of(len(questions), repeats)
    early = max(count, len(questions) - GAP)  # the last ones cannot be repeated with others in between
    for original in sorted(rng.sample(range(early), count)):
        step = questions[original]
        again = Step("question", step.right, step.left, "repeat")
        least = next(k for k, entry in enumerate(line) if entry[0] == original) + 1 + GAP
        line.insert(rng.randint(min(max(least, len(questions) // 2), len(line)), len(line)), (-1, again, original))
    for left, right, expect in checks:
        other = {"left": "right", "right": "left"}[expect]
        flipped = rng.random() < 0.5
        sides = (right, left, "check", None, other) if flipped else (left, right, "check", None, expect)
        step = Step("question", *sides)
        line.insert(rng.randint(0, len(line)), (-1, step, None))
    where = {entry[0]: first + k for k, entry in enumerate(line) if entry[0] >= 0}
    for _, step, again_of in line:
        repeated = None if again_of is None else where[again_of]
        steps.append(Step(step.page, step.left, step.right, step.purpose, repeated, step.expect))
    return steps + ([Step("survey")] if survey else [])


def repeats_of(questions: int, share: float) -> int:
    """Return how many of the questions are asked again: ``round(share × questions)``."""
    return min(round(share * questions), questions)


def minutes_of(questions: int, pages: int) -> float:
    """Return how long a person takes, at 4 s per question and 20 s per other page."""
    return (questions * PER_QUESTION + pages * PER_PAGE) / 60


def _sides(pair: Pair, rng: random.Random) -> Pair:
    """Return a pair with its sides drawn at random."""
    return pair if rng.random() < 0.5 else (pair[1], pair[0])


def write_steps(steps: Sequence[Step]) -> str:
    """Return steps as one line of JSON."""
    rows = [[s.page, s.left, s.right, s.purpose, s.repeat_of, s.expect] for s in steps]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=4096)  # a sheet never changes, and is looked at with every answer
def read_steps(text: str) -> tuple[Step, ...]:
    """Return the steps that `write_steps` wrote, each with its number among those of its kind."""
    rows = json.loads(text)
    total, seen = Counter(row[0] for row in rows), Counter[str]()
    steps = []
    for page, left, right, purpose, repeat_of, expect in rows:
        seen[page] += 1
        # the same few words and items come again in every sheet that is kept in memory
        asked = (intern(page), intern(left), intern(right), intern(purpose))
        steps.append(Step(*asked, repeat_of, expect, seen[page], total[page]))
    return tuple(steps)
