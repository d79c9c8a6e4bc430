"""Engines by name: what `engine=` may be."""

from __future__ import annotations

from typing import Any

from crowdmetric.engines.contract import MEMBERS, Engine
from crowdmetric.engines.local import LocalEngine
from crowdmetric.engines.torch_engine import TorchEngine
from crowdmetric.errors import DataError

__all__ = ["engine_of", "summing_engine"]


def engine_of(engine: Any) -> Engine | None:
    """Return an engine as it is, or the one named: 'local', 'torch' or 'torch:DEVICE'; None stays None.

    A cluster has no name: a `DaskEngine` is given its client. If 'torch' finds no GPU, the result is a `LocalEngine`,
    because compiled loops are many times faster than PyTorch on a CPU.
    """
    if engine is None or isinstance(engine, Engine):
        return engine
    if hasattr(engine, "sum"):
        missing = ", ".join(member for member in MEMBERS if not hasattr(engine, member))
        raise DataError(
            f"engine={engine!r} does not say what it can do: it has no {missing} (see docs/how-to/add-an-engine.md)"
        )
    if engine == "local":
        return LocalEngine()
    if isinstance(engine, str) and engine.partition(":")[0] == "torch":
        named = TorchEngine(engine.partition(":")[2] or None)
        return LocalEngine() if named.fallback else named
    raise DataError(
        f"engine={engine!r} is unknown; use 'local', 'torch', 'torch:DEVICE', a LocalEngine, TorchEngine or DaskEngine "
        "of crowdmetric.engines"
    )


def summing_engine(engine: Any, who: str) -> Engine:
    """Return the engine for sums of NumPy arrays, by default this machine; `who` is named in the error message."""
    found = engine_of(engine)
    if found is not None and found.has_own_arrays:
        raise DataError(
            f"engine={engine!r} keeps people in arrays of its own, and {who} sums over NumPy arrays; leave engine out, "
            "or use 'local' or a DaskEngine"
        )
    return found or LocalEngine()
