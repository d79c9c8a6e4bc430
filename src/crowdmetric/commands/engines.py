"""The engine that --engine names: where sums over people are taken."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crowdmetric.commands.command import UsageError, note
from crowdmetric.engines.dask_engine import DaskEngine
from crowdmetric.engines.local import LocalEngine
from crowdmetric.engines.torch_engine import TorchEngine

__all__ = ["ENGINES", "open_engine"]

ENGINES = ("local", "torch", "dask")


@contextmanager
def open_engine(options: Namespace) -> Iterator[Any]:
    """Yield the engine asked for, None if none was; a cluster that was started for it ends with the body.

    ``local`` is threads of this machine, ``torch`` PyTorch on the GPU if there is one, ``torch:DEVICE`` on
    that device, ``dask`` one process per job on this machine, ``dask:ADDRESS`` the cluster of a scheduler.
    """
    if options.engine is None:
        yield None
        return
    kind, _, place = options.engine.partition(":")
    if kind not in ENGINES or (kind == "local" and place):
        raise UsageError(f"--engine {options.engine} is unknown; use local, torch, torch:DEVICE, dask or dask:ADDRESS")
    if options.jobs is not None and (kind == "torch" or place):
        raise UsageError(f"--jobs has no effect with --engine {options.engine}, which has workers; leave it out")
    if kind == "local":
        yield LocalEngine(options.jobs)
    elif kind == "torch":
        engine = TorchEngine(place or None)
        if engine.fallback:
            note(options, engine.fallback)
        yield LocalEngine() if engine.fallback else engine
    elif place:
        yield DaskEngine(place)
    else:
        with DaskEngine.here(LocalEngine(options.jobs).jobs) as cluster:
            n = cluster.n_workers
            note(options, f"working in {n} process{'es' if n > 1 else ''} of this machine")
            yield cluster
