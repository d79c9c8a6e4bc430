"""One thread of BLAS and OpenMP per job: jobs are the parallelism, and no last bit depends on how many there are."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread_each", "threads_for"]

# Below this many rows of a matrix, threads of BLAS spend more time waiting for each other than they save.
MOST_ROWS_ALONE = 800


@cache
def _libraries() -> ThreadpoolController:
    """Return what can be limited; finding out takes as long as a pass over people, so it is done once per process."""
    return ThreadpoolController()


def one_thread_each() -> AbstractContextManager[Any]:
    """Limit libraries of this process to one thread."""
    return _libraries().limit(limits=1)


def threads_for(rows: int) -> AbstractContextManager[Any]:
    """Limit libraries to one thread for work on matrices of so many rows, if they are few."""
    return one_thread_each() if rows < MOST_ROWS_ALONE else nullcontext()
