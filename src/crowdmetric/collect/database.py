"""What a store needs of a database: a few methods that SQLite and PostgreSQL both have."""

from __future__ import annotations

from typing import Any, Protocol

from crowdmetric.errors import CrowdmetricError

__all__ = ["Busy", "Database", "StoreError"]


class StoreError(CrowdmetricError):
    """The store cannot be written just now; the message is for the researcher."""


class Busy(StoreError):
    """Another process holds the store; it may let go soon."""


class Database(Protocol):
    """One connection. Statements use ``?`` for values, and rows are tuples."""

    serial: str
    # Whether statements take microseconds and may run on the server's own thread. Only `commit` then runs on another
    # one.
    quick: bool

    def run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""

    def change(self, sql: str, *values: Any) -> int:
        """Run a statement and return how many rows it changed."""

    def has_table(self, name: str) -> bool:
        """Return whether there is a table of this name."""

    def begin(self) -> None:
        """Start a transaction that may write; Busy if another process is writing."""

    def commit(self) -> None:
        """Make the transaction durable; a StoreError if that fails."""

    def rollback(self) -> None:
        """Forget the transaction."""

    def lock_places(self) -> None:
        """Make others who hand out places wait until this transaction ends."""

    def close(self) -> None:
        """Close the connection."""
