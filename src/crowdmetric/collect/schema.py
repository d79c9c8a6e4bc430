"""The tables of a store, and how an older store becomes a newer one.

::

    meta      key, value                    the study's state, the version of these tables
    design    version, made, details        every design that people were asked by, with what it promised
    place     version, place, purpose, …    what one person is asked; balanced by people who finish
    person    id, place, position, status   who is where; `sheet` holds their steps with the sides that they see
    answer    person, position, choice, …   one row per answer, never changed; (person, position) is unique
    field     person, name, value           screening and survey
    view      person, position, page, at    every page that was shown

The SQL is the part that SQLite and PostgreSQL share; ``{serial}`` is the one difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdmetric.errors import DataError

if TYPE_CHECKING:
    from crowdmetric.collect.database import Database

__all__ = ["MIGRATIONS", "TABLES_OF_PEOPLE", "migrate", "needs_migration", "version_of"]

FIRST = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE design (version BIGINT PRIMARY KEY, made DOUBLE PRECISION NOT NULL, details TEXT NOT NULL)",
    "CREATE TABLE place (version BIGINT NOT NULL, place BIGINT NOT NULL, purpose TEXT NOT NULL,"
    " questions TEXT NOT NULL, PRIMARY KEY (version, place))",
    "CREATE TABLE person (id TEXT PRIMARY KEY, panel TEXT NOT NULL, panel_id TEXT, panel_study TEXT,"
    " panel_session TEXT, version BIGINT NOT NULL, place BIGINT NOT NULL, purpose TEXT NOT NULL,"
    " status TEXT NOT NULL, position BIGINT NOT NULL, steps BIGINT NOT NULL, sheet TEXT NOT NULL,"
    " started DOUBLE PRECISION NOT NULL, seen DOUBLE PRECISION NOT NULL, shown DOUBLE PRECISION,"
    " finished DOUBLE PRECISION, agent TEXT, UNIQUE (panel, panel_id))",
    "CREATE INDEX person_place ON person (version, place, status, seen)",
    "CREATE INDEX person_status ON person (status, seen)",
    "CREATE TABLE answer (id {serial}, person TEXT NOT NULL, position BIGINT NOT NULL, left_item TEXT NOT NULL,"
    " right_item TEXT NOT NULL, choice TEXT NOT NULL, purpose TEXT NOT NULL, repeat_of BIGINT, response_ms BIGINT,"
    " shown DOUBLE PRECISION, answered DOUBLE PRECISION NOT NULL, version BIGINT NOT NULL, place BIGINT NOT NULL,"
    " UNIQUE (person, position))",
    "CREATE TABLE field (person TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (person, name))",
    "CREATE TABLE view (id {serial}, person TEXT, position BIGINT, page TEXT NOT NULL, at DOUBLE PRECISION NOT NULL)",
    "CREATE INDEX view_person ON view (person)",
)
# `seen` changes with every answer. An index that holds it has to be written with every answer too.
SECOND = (
    "DROP INDEX person_place",
    "DROP INDEX person_status",
    "CREATE INDEX person_place ON person (version, place, status)",
    "CREATE INDEX person_status ON person (status)",
)
# Statements that lead from each version to the next; a new version is a new entry at the end.
MIGRATIONS: tuple[tuple[str, ...], ...] = (FIRST, SECOND)

TABLES_OF_PEOPLE = ("answer", "field", "view", "person")


def version_of(db: Database) -> int:
    """Return the version of a store's tables; 0 if there are none yet."""
    if not db.has_table("meta"):
        return 0
    rows = db.run("SELECT value FROM meta WHERE key = ?", "schema")
    return int(rows[0][0]) if rows else 0


def needs_migration(db: Database) -> bool:
    """Return whether a store has tables of an older version; a DataError if they are of a newer one."""
    version = version_of(db)
    if version > len(MIGRATIONS):
        raise DataError(
            f"the store is of version {version}, but this crowdmetric knows versions up to {len(MIGRATIONS)}; "
            "install a newer crowdmetric"
        )
    return 0 < version < len(MIGRATIONS)


def migrate(db: Database) -> None:
    """Bring a store to the newest version, in one transaction."""
    db.begin()
    try:
        for number, statements in list(enumerate(MIGRATIONS, 1))[version_of(db) :]:
            for statement in statements:
                db.run(statement.replace("{serial}", db.serial))
            db.run("DELETE FROM meta WHERE key = ?", "schema")
            db.run("INSERT INTO meta (key, value) VALUES (?, ?)", "schema", str(number))
        db.commit()
    except BaseException:
        db.rollback()
        raise
