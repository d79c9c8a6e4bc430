"""What the answers show so far, counted in one pass over the people, one at a time: memory use does not grow."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from crowdmetric.collect.careless import Answered, reasons
from crowdmetric.collect.database import Database
from crowdmetric.collect.settings import Careless
from crowdmetric.collect.sheets import read_steps

__all__ = ["EDGES", "Counts", "Row", "answers_by_person"]

# Rows of the store in memory at a time.
PIECE = 5_000
MOST_NAMED = 50
# Edges of the histogram of response times, in milliseconds; the last bar holds everything above it.
EDGES = (0, 200, 400, 600, 800, 1000, 1300, 1700, 2200, 3000, 4000, 6000, 10_000)
# The median of the response times is known to this many milliseconds, and to no more than the last of them.
GRAIN, LONGEST = 10, 120_000


class Row(NamedTuple):
    """One answer, as it is read for the researcher's page."""

    person: str
    position: int
    left: str
    right: str
    choice: str
    purpose: str
    repeat_of: int | None
    response_ms: int | None
    answered: float


def answers_by_person(db: Database) -> Iterator[tuple[str, list[Row]]]:
    """Yield everybody who answered with their answers in order, read in small pieces so that writers do not wait."""
    for person, rows in groupby(_rows(db), key=lambda row: row.person):
        yield person, list(rows)


def _rows(db: Database) -> Iterator[Row]:
    sql = (
        "SELECT person, position, left_item, right_item, choice, purpose, repeat_of, response_ms, answered FROM answer"
        f" WHERE (person, position) > (?, ?) ORDER BY person, position LIMIT {PIECE}"
    )
    last: tuple[str, int] = ("", -1)
    while piece := db.run(sql, *last):
        last = piece[-1][0], int(piece[-1][1])
        db.rollback()  # PostgreSQL would otherwise keep one long transaction open
        yield from map(Row._make, piece)


@dataclass
class Counts:
    """What the researcher's page shows of people's answers; `add` one person after the other."""

    rule: Careless
    answers: int = 0
    alike: int = 0
    repeats: int = 0
    careless: int = 0
    named: list[tuple[str, list[str]]] = field(default_factory=list)
    hours: Counter[int] = field(default_factory=Counter)
    sides: Counter[str] = field(default_factory=Counter)
    times: Counter[int] = field(default_factory=Counter)
    bars: Counter[int] = field(default_factory=Counter)

    def add(self, db: Database, person: str, rows: list[Row]) -> None:
        """Count one person."""
        self.answers += len(rows)
        self.hours.update(int(row.answered // 3600) for row in rows)
        asked = [row for row in rows if row.purpose != "practice"]
        self.sides.update(row.choice for row in asked)
        times = [int(row.response_ms) for row in asked if row.response_ms is not None]
        self.bars.update(bisect_right(EDGES, ms) - 1 for ms in times)
        self.times.update(min(ms, LONGEST) // GRAIN for ms in times)
        taste = [row for row in asked if row.purpose != "check"]
        answered = Answered(
            times=times, choices={int(row.position): row.choice for row in taste},
            repeats=[(int(row.repeat_of), int(row.position)) for row in taste if row.repeat_of is not None],
            missed=_missed(db, person, [row for row in asked if row.purpose == "check"]),
        )  # fmt: skip
        alike, repeats = answered.consistent()
        self.alike, self.repeats = self.alike + alike, self.repeats + repeats
        found = reasons(answered, self.rule)
        if found:
            self.careless += 1
            self.named += [(person, found)] if len(self.named) < MOST_NAMED else []

    @property
    def median_ms(self) -> float | None:
        """The median response time, to `GRAIN`."""
        needed, seen = self.times.total() / 2, 0
        for grain in sorted(self.times):
            seen += self.times[grain]
            if seen >= needed:
                return GRAIN * (grain + 0.5)
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "answers": self.answers, "hours": self._last_hours(), "median_ms": self.median_ms,
            "times": [self.bars[k] for k in range(len(EDGES))] if self.bars else [],
            "repeats": self.repeats, "alike": self.alike,
            "left": self.sides["left"], "right": self.sides["right"], "ties": self.sides["tie"],
            "careless": self.careless, "named": self.named,
        }  # fmt: skip

    def _last_hours(self) -> list[list[int]]:
        """Return the hours since the first answer, 12 to 48 of them, each with its count."""
        if not self.hours:
            return []
        last = max(self.hours)
        first = min(max(min(self.hours), last - 47), last - 11)
        return [[3600 * hour, self.hours[hour]] for hour in range(first, last + 1)]


def _missed(db: Database, person: str, checks: list[Row]) -> int:
    """Return how many checks somebody answered wrongly."""
    if not checks:
        return 0
    steps = read_steps(db.run("SELECT sheet FROM person WHERE id = ?", person)[0][0])
    return sum(steps[int(row.position)].expect != row.choice for row in checks)
