"""The machine at hand: NumPy arrays, and processes for independent jobs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from numbers import Integral
from time import sleep
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from crowdmetric.engines.folding import fold
from crowdmetric.engines.threads import one_thread_each
from crowdmetric.errors import DataError, SolverError

__all__ = ["LocalEngine"]

Job = TypeVar("Job")
Result = TypeVar("Result")

# Seconds between two checks of a process whether its parent is still alive.
PARENT_CHECK = 1.0
# More threads or processes than any machine can use.
MOST_JOBS = 10_000


class LocalEngine:
    """Run independent jobs in processes of this machine.

    Parameters
    ----------
    jobs : int or None
        Number of processes; None: one per core. With one, everything runs in this process. Results do not depend on
        it: a job carries its own seed.

    Examples
    --------
    >>> from crowdmetric.engines.local import LocalEngine
    >>> LocalEngine(jobs=1).sum(lambda job: job * job, [1.0, 2.0, 3.0])
    14.0
    """

    xp = np
    has_own_arrays = False
    is_double = True
    is_remote = False
    blocks = 1

    def __init__(self, jobs: int | None = None) -> None:
        if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, Integral) or jobs < 1):
            raise DataError(f"jobs={jobs!r} is not a number of processes; give 1 or more, or None for one per core")
        if jobs is not None and jobs > MOST_JOBS:
            raise DataError(f"jobs is more than {MOST_JOBS:,}, the most processes that are started; lower it")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.jobs = cores if jobs is None else jobs
        self._pool: ThreadPoolExecutor | None = None

    def sum(self, function: Callable[[Job], Result], jobs: Sequence[Job]) -> Result:
        """Return the sum of the results, added in one order (`folding`) for any number of threads.

        For short jobs on arrays in memory: threads share the arrays, and compiled loops and BLAS release the lock.
        """
        with one_thread_each():  # threads are the parallelism
            if self.jobs == 1 or len(jobs) == 1:
                results: Iterable[Result] = map(function, jobs)
            else:
                results = self._threads().map(function, jobs)
            return fold(results, len(jobs))

    def __deepcopy__(self, memo: Any) -> LocalEngine:
        """Return itself: estimators share their engine when they are cloned."""
        return self

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.jobs)
        return self._pool

    def map(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        """Yield (job, result) in the order in which they finish; an exception in a job is raised here."""
        todo = list(jobs)
        if self.jobs == 1 or len(todo) <= 1:
            with threadpool_limits(1):
                for job in todo:
                    yield job, function(job)
            return
        context = multiprocessing.get_context("spawn")  # forked threads of BLAS and Numba may hang
        with ProcessPoolExecutor(self.jobs, mp_context=context, initializer=_one_thread) as pool:
            yield from _completed(pool, function, todo)


def _completed(
    pool: ProcessPoolExecutor, function: Callable[[Job], Result], todo: list[Job]
) -> Iterator[tuple[Job, Result]]:
    futures: dict[Future[Result], Job] = {pool.submit(function, job): job for job in todo}
    try:
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    except (KeyboardInterrupt, GeneratorExit):
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()  # their results are no longer needed
        # the pool's own thread waits for its processes; waiting for them here as well, the two would race
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    except BrokenProcessPool:
        raise SolverError(
            "a process was killed before it finished, most likely because memory ran out; run again with fewer jobs"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


_limits: list[Any] = []


def _one_thread() -> None:
    """Limit each process to one thread of BLAS, because processes run in parallel, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    _limits.append(threadpool_limits(1))


def _end_with_parent(parent: int) -> None:
    """End this process when its parent is gone, even if the parent was killed."""
    while os.getppid() == parent:
        sleep(PARENT_CHECK)
    os._exit(1)
