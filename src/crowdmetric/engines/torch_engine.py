"""PyTorch arrays, on a GPU or not: the one place that imports torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from crowdmetric.engines.folding import fold
from crowdmetric.errors import DataError, missing_extra

__all__ = ["TorchEngine"]

Job = TypeVar("Job")
Result = TypeVar("Result")


class TorchEngine:
    """Arrays of PyTorch on one device; chunks are summed one after the other.

    A chunk of people moves to the device by its own method ``on(put)``, once for as long as the same chunks are
    summed over; chunks of a scan, which need not fit, move at every pass.

    Parameters
    ----------
    device : str, optional
        'cuda', 'cuda:1', 'cpu', …; None: the GPU if there is one, with a message in `fallback` if not.
    dtype : {'float64', 'float32'}
        Of items and everything computed from them; sums are kept in float64.
    """

    has_own_arrays = True
    is_remote = False

    def __init__(self, device: str | None = None, dtype: str = "float64") -> None:
        self.torch = _torch()
        if dtype not in ("float64", "float32"):
            raise DataError(f"dtype={dtype!r} is unknown; use 'float64' or 'float32'")
        self.fallback = ""
        available = self.torch.cuda.is_available()
        if device is None:
            device = "cuda" if available else "cpu"
            if not available:
                self.fallback = "no GPU was found; working on the CPU, where the local engine is faster"
        elif device.startswith("cuda") and not available:
            raise DataError(f"device={device!r} is not there: PyTorch sees no GPU; use device='cpu' or None")
        self.device, self.dtype = device, getattr(self.torch, dtype)
        self._jobs: Sequence[Any] = ()
        self._held: list[Any] = []

    @property
    def xp(self) -> ModuleType:
        """The array namespace."""
        return self.torch

    @property
    def blocks(self) -> int:
        """How many times as large blocks of people should be: a GPU is idle between small ones."""
        return 1 if self.device == "cpu" else 64

    def answers_at_once(self, numbers: int) -> int:
        """Return how many answers to take together if each temporarily needs this many numbers.

        A CPU's cache favors few. A GPU is idle between calls and favors many: as many as an eighth of
        its memory holds.
        """
        if not self.device.startswith("cuda"):
            return 1 << 16
        _, memory = self.torch.cuda.mem_get_info(self.device)
        return max(memory // (8 * numbers * self.dtype.itemsize), 1 << 16)

    @property
    def is_double(self) -> bool:
        """Whether arrays are of float64."""
        return bool(self.dtype == self.torch.float64)

    def asarray(self, array: Any) -> Any:
        """Return an array on the device: numbers in the engine's precision, row numbers as they are."""
        array = np.asarray(array)
        dtype = self.dtype if array.dtype.kind == "f" else None
        return self.torch.as_tensor(np.array(array, copy=True), dtype=dtype, device=self.device)

    def sum(self, function: Callable[[Job], Result], jobs: Sequence[Job]) -> Result:
        """Return the sum of the results, added in one order (`folding`)."""
        if jobs is not self._jobs:
            self._jobs, self._held = jobs, [job.on(self.asarray) if hasattr(job, "on") else job for job in jobs]
        return fold(map(function, self._held), len(jobs))

    def __deepcopy__(self, memo: Any) -> TorchEngine:
        """Return itself: an engine is a place, which estimators share when they are cloned."""
        return self


def _torch() -> Any:
    try:
        import torch  # noqa: PLC0415 - optional, and heavy
    except ImportError:
        raise missing_extra("PyTorch", "gpu", "engine='torch'") from None
    return torch
