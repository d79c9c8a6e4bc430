"""Everything that happens to a store, as functions of one database inside one transaction.

Each can be repeated: a second request for the same place returns the same place, and a second answer to the same
question changes nothing. So a browser that got no confirmation simply asks again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from crowdmetric.collect.database import Database
from crowdmetric.collect.schema import TABLES_OF_PEOPLE
from crowdmetric.collect.sheets import Place, Step, read_steps, write_steps

__all__ = [
    "Arrival",
    "Given",
    "Person",
    "add_design",
    "answer",
    "erase",
    "fill_in",
    "find_person",
    "get_meta",
    "look_up",
    "newest_design",
    "people_named",
    "pick_place",
    "record_view",
    "set_meta",
    "show",
    "start",
    "step_on",
    "visit",
]

STARTED, FINISHED, SCREENED, FAILED = "started", "finished", "screened", "failed"
# What the whole study is.
OPEN, PAUSED, CLOSED = "open", "paused", "closed"


@dataclass(frozen=True)
class Arrival:
    """Who comes: the panel that sent them, and what it calls them; None for somebody without a name."""

    panel: str
    panel_id: str | None = None
    panel_study: str | None = None
    panel_session: str | None = None


@dataclass(frozen=True)
class Person:
    """Where somebody is: `position` counts the steps they have done."""

    id: str
    status: str
    position: int
    steps: tuple[Step, ...]
    panel_id: str | None
    started: float

    @property
    def step(self) -> Step | None:
        """What they see now; None once they are through or out."""
        return self.steps[self.position] if self.status == STARTED and self.position < len(self.steps) else None

    @property
    def page(self) -> str:
        """The page of that step; how they ended once they are through or out."""
        return self.status if self.step is None else self.step.page


@dataclass(frozen=True)
class Given:
    """An answer to one question."""

    choice: str
    response_ms: int | None
    at: float


# ------------------------------------------------------------------------------------------------------- the study


def get_meta(db: Database, key: str, default: str = "") -> str:
    """Return what is kept under a key."""
    rows = db.run("SELECT value FROM meta WHERE key = ?", key)
    return str(rows[0][0]) if rows else default


def set_meta(db: Database, key: str, value: str) -> None:
    """Keep a value under a key."""
    db.run(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, value
    )


def newest_design(db: Database) -> tuple[int, dict[str, Any]] | None:
    """Return the version of the design in use, and what is known of it; None before the first."""
    rows = db.run("SELECT version, details FROM design ORDER BY version DESC LIMIT 1")
    return (int(rows[0][0]), json.loads(rows[0][1])) if rows else None


def add_design(db: Database, details: dict[str, Any], places: Sequence[Place], at: float) -> int:
    """Keep a design and its places, and return its version. Nothing happens if it is the newest one already."""
    db.lock_places()
    newest = newest_design(db)
    if newest is not None and newest[1]["fingerprint"] == details["fingerprint"]:
        return newest[0]
    version = 1 if newest is None else newest[0] + 1
    db.run("INSERT INTO design (version, made, details) VALUES (?, ?, ?)", version, at, json.dumps(details))
    for number, place in enumerate(places):
        db.run(
            "INSERT INTO place (version, place, purpose, questions) VALUES (?, ?, ?, ?)",
            version, number, place.purpose, json.dumps(place.pairs),
        )  # fmt: skip
    return version


# ---------------------------------------------------------------------------------------------------------- people


def pick_place(db: Database, version: int, alive_since: float) -> tuple[int, Place] | None:
    """Return the place with the fewest people who finished or are still at it; None if there are no places.

    Somebody who was not seen since `alive_since` has given their place back.
    """
    rows = db.run(
        "SELECT place.place, place.purpose, place.questions FROM place LEFT JOIN"
        " (SELECT place AS taken, COUNT(*) AS people FROM person WHERE version = ?"
        "  AND (status = 'finished' OR (status = 'started' AND seen > ?)) GROUP BY place) AS used"
        " ON used.taken = place.place WHERE place.version = ? ORDER BY COALESCE(people, 0), place.place LIMIT 1",
        version, alive_since, version,
    )  # fmt: skip
    if not rows:
        return None
    pairs = tuple((str(a), str(b)) for a, b in json.loads(rows[0][2]))
    return int(rows[0][0]), Place(rows[0][1], pairs)


def find_person(db: Database, arrival: Arrival) -> Person | None:
    """Return who a panel means, if they have been here."""
    if arrival.panel_id is None:
        return None
    rows = db.run("SELECT id FROM person WHERE panel = ? AND panel_id = ?", arrival.panel, arrival.panel_id)
    return show(db, rows[0][0]) if rows else None


def start(
    db: Database,
    arrival: Arrival,
    new_id: str,
    make_steps: Callable[[Place], Sequence[Step]],
    *,
    version: int,
    most: int,
    alive_since: float,
    at: float,
    agent: str | None = None,
) -> Person | None:
    """Return somebody with a place: the same as before if their panel sent them before; None if the study is full."""
    db.lock_places()
    known = find_person(db, arrival)
    if known is not None:
        return known
    if int(db.run("SELECT COUNT(*) FROM person WHERE status = 'finished'")[0][0]) >= most:
        return None
    picked = pick_place(db, version, alive_since)
    number, place = picked if picked is not None else (-1, Place("design", ()))
    steps = tuple(make_steps(place))
    db.run(
        "INSERT INTO person (id, panel, panel_id, panel_study, panel_session, version, place, purpose, status,"
        " position, steps, sheet, started, seen, agent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'started', 0, ?, ?, ?, ?, ?)",
        new_id, arrival.panel, arrival.panel_id, arrival.panel_study, arrival.panel_session, version, number,
        place.purpose, len(steps), write_steps(steps), at, at, agent,
    )  # fmt: skip
    return Person(new_id, STARTED, 0, steps, arrival.panel_id, at)


def look_up(db: Database, person: str) -> tuple[str, Person | None]:
    """Return the state of the study and where somebody is, by one statement; None if there is no such person."""
    rows = db.run(
        "SELECT status, position, sheet, panel_id, started, (SELECT value FROM meta WHERE key = 'state')"
        " FROM person WHERE id = ?",
        person,
    )
    if not rows:
        return get_meta(db, "state", OPEN), None
    status, position, sheet, panel_id, started, state = rows[0]
    return state or OPEN, Person(person, status, int(position), read_steps(sheet), panel_id, started)


def show(db: Database, person: str) -> Person | None:
    """Return where somebody is; None if there is no such person."""
    return look_up(db, person)[1]


def record_view(db: Database, person: str | None, page: str, at: float, position: int | None = None) -> None:
    """Keep that a page was shown; to somebody without a name before they have agreed."""
    db.run("INSERT INTO view (person, position, page, at) VALUES (?, ?, ?, ?)", person, position, page, at)


def visit(db: Database, person: str, page: str, at: float, position: int) -> None:
    """Keep that somebody was shown a page. The clock of a question starts when it is first shown."""
    record_view(db, person, page, at, position)
    db.run("UPDATE person SET seen = ?, shown = COALESCE(shown, ?) WHERE id = ?", at, at, person)


def step_on(
    db: Database, person: str, position: int, at: float, *, status: str = STARTED, shown: float | None = None
) -> bool:
    """Take somebody from one step to the next, once: False if they were not at `position` any more.

    `shown` is the moment at which the next page is shown; None if it is not shown yet.
    """
    finished = None if status == STARTED else at
    moved = db.change(
        "UPDATE person SET position = position + 1, seen = ?, shown = ?, status = ?, finished = ?"
        " WHERE id = ? AND position = ? AND status = 'started'",
        at, shown, status, finished, person, position,
    )  # fmt: skip
    return moved == 1


def answer(
    db: Database,
    person: str,
    position: int,
    step: Step,
    given: Given,
    *,
    status: str = STARTED,
    shown: float | None = None,
) -> bool:
    """Keep an answer, once, and take the person to the next step: False if that question has its answer."""
    kept = db.change(
        "INSERT INTO answer (person, position, left_item, right_item, choice, purpose, repeat_of, response_ms, shown,"
        " answered, version, place) SELECT id, position, ?, ?, ?, ?, ?, ?, shown, ?, version, place FROM person"
        " WHERE id = ? AND position = ? AND status = 'started' ON CONFLICT DO NOTHING",
        step.left, step.right, given.choice, step.purpose, step.repeat_of, given.response_ms, given.at, person,
        position,
    )  # fmt: skip
    return kept == 1 and step_on(db, person, position, given.at, status=status, shown=shown)


def fill_in(
    db: Database,
    person: str,
    position: int,
    values: dict[str, str],
    at: float,
    *,
    status: str = STARTED,
    shown: float | None = None,
) -> bool:
    """Keep the fields of a form, once, and take the person to the next step."""
    if not step_on(db, person, position, at, status=status, shown=shown):
        return False
    for name, value in values.items():
        db.run("INSERT INTO field (person, name, value) VALUES (?, ?, ?)", person, name, value)
    return True


def people_named(db: Database, name: str) -> list[str]:
    """Return the people that an id, ours or a panel's, means."""
    return [row[0] for row in db.run("SELECT id FROM person WHERE id = ? OR panel_id = ?", name, name)]


def erase(db: Database, person: str) -> int:
    """Remove one person everywhere, and return how many rows that were."""
    gone = 0
    for table in TABLES_OF_PEOPLE:
        gone += db.change(f"DELETE FROM {table} WHERE {'id' if table == 'person' else 'person'} = ?", person)
    return gone
