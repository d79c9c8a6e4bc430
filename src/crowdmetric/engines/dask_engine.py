"""A Dask cluster: the one place that imports dask.

Chunks of people are sent once, in bundles, and stay in the workers' memory. Each pass sends parameters and returns one
sum per bundle. Sums are added in the order that every engine uses (`folding`), so the result is that of a single
machine. If a worker is lost, its chunks are sent again to other workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from operator import add
from typing import Any, TypeVar

from crowdmetric.engines.folding import bundles, sum_of_bundle
from crowdmetric.engines.threads import one_thread_each
from crowdmetric.errors import DataError, SolverError, missing_extra

__all__ = ["DaskEngine"]

Job = TypeVar("Job")
Result = TypeVar("Result")

# How often chunks are sent again within one pass before giving up on the cluster.
ATTEMPTS = 5
# How long a scheduler may take to answer.
PATIENCE = "10s"


class DaskEngine:
    """Sum over chunks on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client or str
        A client, or the address of a scheduler.

    Examples
    --------
    >>> engine = DaskEngine("tcp://scheduler:8786")                                            # doctest: +SKIP
    >>> PopulationMetric(items, engine=engine).fit(comparisons)                                # doctest: +SKIP
    """

    has_own_arrays = False
    is_double = True
    is_remote = True
    blocks = 1

    def __init__(self, client: Any) -> None:
        distributed = _distributed()
        if isinstance(client, str):
            try:
                client = distributed.Client(client, timeout=PATIENCE)
            except (OSError, TimeoutError) as error:
                raise DataError(f"no Dask scheduler answers at {client!r} ({error}); check the address") from None
        if not isinstance(client, distributed.Client):
            raise DataError(f"client={client!r} is neither a distributed.Client nor the address of a scheduler")
        self.client = client
        self._jobs: Sequence[Any] = ()
        self._held: list[Any] = []

    @staticmethod
    @contextmanager
    def here(workers: int) -> Iterator[DaskEngine]:
        """Yield an engine on a cluster of processes of this machine, one thread each, which ends with the body."""
        distributed = _distributed()
        with (
            distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield DaskEngine(client)

    @property
    def n_workers(self) -> int:
        """How many workers there are now."""
        return len(self.client.scheduler_info(n_workers=-1)["workers"])

    def sum(self, function: Callable[[Job], Result], jobs: Sequence[Job]) -> Result:
        """Return the sum of the results, added in one order (`folding`)."""
        parts = bundles(jobs)
        if jobs is not self._jobs:
            self._jobs, self._held = jobs, self._send(parts)
        return reduce(add, self._results(partial(_on_worker, function), parts))

    def __deepcopy__(self, memo: Any) -> DaskEngine:
        """Return itself: estimators share their engine when they are cloned."""
        return self

    def _send(self, jobs: list[Any]) -> list[Any]:
        """Return futures of chunks that lie in workers' memory."""
        with self._explained():
            held: list[Any] = self.client.scatter(jobs, hash=False)
            return held

    def _results(self, function: Callable[[Any], Any], jobs: Sequence[Any]) -> list[Any]:
        results: dict[int, Any] = {}
        for _ in range(ATTEMPTS):
            missing = [i for i in range(len(jobs)) if i not in results]
            if not missing:
                return [results[i] for i in range(len(jobs))]
            with self._explained():
                futures = self.client.map(function, [self._held[i] for i in missing], pure=False, retries=0)
            lost = []
            for i, future in zip(missing, futures, strict=True):
                try:
                    results[i] = future.result()
                except Exception as error:  # distributed has no common base for what happens when a worker dies
                    if not _is_loss(error):
                        raise
                    lost.append(i)
            for i, again in zip(lost, self._send([jobs[i] for i in lost]) if lost else [], strict=True):
                self._held[i] = again
        raise SolverError(
            f"chunks of people were lost {ATTEMPTS} times in one pass; workers die faster than they can be replaced, "
            "most likely because memory ran out: give them more, or make chunks smaller"
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise an error if the scheduler is gone, or if it has no workers."""
        try:
            if not self.client.scheduler_info(n_workers=-1)["workers"]:
                self.client.wait_for_workers(1, timeout=30)
            yield
        # a client whose scheduler is gone has no workers to name (KeyError), or an event loop that has ended (Runtime)
        except (OSError, TimeoutError, AttributeError, KeyError, RuntimeError) as error:
            why = str(error) if isinstance(error, OSError | TimeoutError) else "the connection is lost"
            raise SolverError(
                f"the Dask scheduler cannot be reached or has no workers left ({why}); the last finished step is in "
                "the checkpoint, if one was asked for"
            ) from None


def _on_worker(function: Callable[[Any], Any], bundle: Sequence[Any]) -> Any:
    with one_thread_each():
        return sum_of_bundle(function, bundle)


def _is_loss(error: Exception) -> bool:
    """Return whether an error says that a worker, and what it held, is gone."""
    distributed = _distributed()
    kinds = (distributed.scheduler.KilledWorker, distributed.client.FutureCancelledError, OSError)
    return isinstance(error, kinds) or type(error).__name__ in {"CancelledError", "FuturesCancelledError", "FutureLost"}


def _distributed() -> Any:
    try:
        import distributed  # noqa: PLC0415 - optional, and heavy
    except ImportError:
        raise missing_extra("dask.distributed", "cluster", "DaskEngine") from None
    return distributed
