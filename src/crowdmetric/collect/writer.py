"""One writer with group commit: many answers share one flush to disk, and are confirmed only after it.

A flush takes milliseconds and a statement takes microseconds. So operations wait in a queue; the writer takes all that
are there, runs them in one transaction, commits, and only then tells everyone. Meanwhile the next ones gather. SQLite
runs statements on the server's own thread and only the commit elsewhere: two threads that pass Python's lock back and
forth for every statement would be slower than one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any, TypeVar

from crowdmetric.collect.database import Busy, Database, StoreError

__all__ = ["Writer"]

Result = TypeVar("Result")
Operation = Callable[[Database], Any]
Waiting = tuple[str, Operation, asyncio.Future[Any]]

MOST_AT_ONCE = 256
# Maximum number of waiting operations. Beyond it the server says at once that it cannot keep up.
MOST_WAITING = 20_000
# How often, and how many seconds apart, a locked or unreachable store is retried before people are asked to try again.
TRIES, PAUSE = 12, 0.25


class Writer:
    """Runs operations in transactions, many at a time.

    Attributes
    ----------
    trouble : str
        Why the last transaction failed, for the researcher; nothing while all is well.
    commits, operations : int
        How many there were.
    """

    def __init__(self, db: Database, *, tries: int = TRIES, pause: float = PAUSE) -> None:
        self.db, self.tries, self.pause = db, tries, pause
        self.trouble = ""
        self.commits = self.operations = 0
        self._waiting: deque[Waiting] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._awake = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to write; call it inside the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """Write what is waiting, and end."""
        self._closing = True
        self._awake.set()
        if self._task is not None:
            await self._task
        self._thread.shutdown()
        self.db.close()

    async def run(self, operation: Callable[[Database], Result], key: str = "") -> Result:
        """Run an operation and return what it returns, after its commit; a StoreError if it could not be saved.

        `key` is whom the operation is about. Operations about nobody, which may lock the places, come first in a
        transaction, then the others by their key: processes that share a store then lock in one order, and none waits
        for another that waits for it.
        """
        if self._closing or len(self._waiting) >= MOST_WAITING:
            raise StoreError("the server is stopping or cannot keep up; try again in a moment")
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, operation, future))
        self._awake.set()
        return await future

    async def _work(self) -> None:
        while not (self._closing and not self._waiting):
            await self._awake.wait()
            self._awake.clear()
            while self._waiting:
                taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
                await self._save(taken if self.db.quick else sorted(taken, key=itemgetter(0)))

    async def _save(self, taken: list[Waiting]) -> None:
        """Run some operations in one transaction; if one of them fails, each in its own."""
        try:
            results = await self._transact([operation for _, operation, _ in taken])
        except Exception as error:
            if len(taken) > 1 and not isinstance(error, StoreError):
                for entry in taken:
                    await self._save([entry])
                return
            for _, _, future in taken:
                if not future.done():
                    future.set_exception(error)
            return
        self.operations += len(taken)
        for (_, _, future), result in zip(taken, results, strict=True):
            if not future.done():  # the caller may be gone
                future.set_result(result)

    async def _transact(self, operations: list[Operation]) -> list[Any]:
        """Return what operations return, after a commit; a store that is away is tried a few times."""
        for attempt in range(self.tries):
            try:
                results = await self._once(operations)
                self.trouble = ""
                self.commits += 1
                return results
            except StoreError as error:
                self.trouble = str(error)
                last = attempt + 1 == self.tries
                if last or (self.db.quick and not isinstance(error, Busy)):
                    raise
                await asyncio.sleep(self.pause)
        raise AssertionError("tries is at least 1")

    async def _once(self, operations: list[Operation]) -> list[Any]:
        loop = asyncio.get_running_loop()
        if not self.db.quick:
            return await loop.run_in_executor(self._thread, self._run, operations, True)
        results = self._run(operations, False)
        try:
            await loop.run_in_executor(self._thread, self.db.commit)
        except StoreError:
            self.db.rollback()
            raise
        return results

    def _run(self, operations: list[Operation], commit: bool) -> list[Any]:
        self.db.begin()
        try:
            results = [operation(self.db) for operation in operations]
            if commit:
                self.db.commit()
        except BaseException:
            self.db.rollback()
            raise
        return results
