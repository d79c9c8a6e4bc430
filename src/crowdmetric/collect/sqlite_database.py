"""A store in one SQLite file.

Write-ahead log and ``synchronous = FULL``: what was committed survives the end of the process and of the power. One
process at a time serves a store. It holds a lock on a second, empty database beside it, which the system releases when
the process ends, for any reason.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crowdmetric.collect.database import Busy, StoreError
from crowdmetric.collect.schema import TABLES_OF_PEOPLE, migrate, needs_migration
from crowdmetric.errors import DataError

__all__ = ["SqliteDatabase", "copies_of", "erase_from_copies", "open_sqlite", "read_sqlite", "serving"]

# Milliseconds that readers wait for a writer. The server's own writer does not wait but retries.
PATIENCE_MS = 5_000


def sentence(error: sqlite3.DatabaseError, path: Path) -> StoreError:
    """Return what SQLite complains about as a sentence."""
    text = str(error)
    if not isinstance(error, sqlite3.OperationalError):
        return StoreError(f"{path} cannot be used ({text}); restore a copy of it")
    if "locked" in text or "busy" in text:
        return Busy(f"another process holds {path}; close it, and answers go on being saved")
    if "full" in text:
        return StoreError(f"the disk of {path} is full; free some space, and answers will be saved again")
    return StoreError(f"{path} cannot be written ({text}); check the disk and its permissions")


@contextmanager
def as_store_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into a StoreError with a sentence."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise sentence(error, path) from error


class SqliteDatabase:
    """One connection to a file; see `database.Database`."""

    serial = "INTEGER PRIMARY KEY"
    quick = True

    def __init__(self, path: Path, *, read_only: bool = False, patience_ms: int = PATIENCE_MS) -> None:
        self.path = path
        address = f"{path.resolve().as_uri()}?mode={'ro' if read_only else 'rwc'}"
        with as_store_errors(path):
            # Transactions are explicit. Commits run on their own thread, never at the same time as a statement.
            self.connection = sqlite3.connect(
                address, uri=True, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            self.connection.execute(f"PRAGMA busy_timeout = {patience_ms}")
            if not read_only:
                self.connection.execute("PRAGMA journal_mode = WAL")
                self.connection.execute("PRAGMA synchronous = FULL")
                self.connection.execute("PRAGMA secure_delete = ON")  # what is erased is overwritten
                self.connection.execute("PRAGMA foreign_keys = ON")
            self.connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()

    # Several of these run for every answer, and a context manager would cost as much as a statement.

    def run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self.connection.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise sentence(error, self.path) from error

    def change(self, sql: str, *values: Any) -> int:
        try:
            return self.connection.execute(sql, values).rowcount
        except sqlite3.DatabaseError as error:
            raise sentence(error, self.path) from error

    def has_table(self, name: str) -> bool:
        return bool(self.run("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name))

    def begin(self) -> None:
        self.run("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.run("COMMIT")

    def rollback(self) -> None:
        if self.connection.in_transaction:
            self.run("ROLLBACK")

    def lock_places(self) -> None:
        """Do nothing: ``BEGIN IMMEDIATE`` has locked everything."""

    def close(self) -> None:
        self.connection.close()


def open_sqlite(path: Path, *, patience_ms: int = PATIENCE_MS) -> SqliteDatabase:
    """Return a store to write to, made or migrated; before a migration a copy is put beside it."""
    db = SqliteDatabase(path)
    try:
        if needs_migration(db):
            _copy(db, path)
        migrate(db)
        db.run(f"PRAGMA busy_timeout = {patience_ms}")
    except BaseException:
        db.close()
        raise
    return db


def read_sqlite(path: Path) -> SqliteDatabase:
    """Return a store that is only read, beside the process that serves it."""
    if not path.is_file():
        raise DataError(f"there is no store {path} yet; start the study with crowdmetric collect {path.parent}")
    return SqliteDatabase(path, read_only=True)


def copies_of(path: Path) -> list[Path]:
    """Return the copies of a store that migrations left beside it."""
    return sorted(path.parent.glob(f"{path.stem}.before-*{path.suffix}"))


def _copy(db: SqliteDatabase, path: Path) -> None:
    """Copy a store by SQLite's own means, which sees what is still in the log."""
    place = path.with_name(f"{path.stem}.before-{time.strftime('%Y%m%d-%H%M%S')}{path.suffix}")
    with as_store_errors(place):
        target = sqlite3.connect(place)
        try:
            db.connection.backup(target)
        finally:
            target.close()


def erase_from_copies(path: Path, person: str) -> None:
    """Remove a person from every copy, of any version."""
    for place in copies_of(path):
        with as_store_errors(place):
            connection = sqlite3.connect(place)
            try:
                connection.execute("PRAGMA secure_delete = ON")
                for table in TABLES_OF_PEOPLE:
                    column = "id" if table == "person" else "person"
                    connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (person,))
                connection.commit()
            finally:
                connection.close()


@contextmanager
def serving(folder: Path) -> Iterator[None]:
    """Hold the right to serve a folder for as long as the body runs; a DataError if another process has it."""
    connection = sqlite3.connect(folder / "serving.lock", isolation_level=None, timeout=0.2)
    try:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise DataError(
                f"another process is serving {folder}; stop it first, or use PostgreSQL for several processes"
            ) from error
        yield
    finally:
        connection.close()
