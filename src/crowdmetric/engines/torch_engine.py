"""PyTorch arrays, on a GPU or not: the one place that imports torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from crowdmetric.engines.folding import fold
from crowdmetric.errors import DataError, missing_extra

__all__ = ["TorchEngine"]

# Compute capabilities of NVIDIA's data-center GPUs: P100, V100, A100, H100 and H200, B200.
FAST_IN_DOUBLE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}

Job = TypeVar("Job")
Result = TypeVar("Result")


class TorchEngine:
    """Arrays of PyTorch on one device; chunks are summed one after the other.

    A chunk of people is moved to the device by its method ``on(put)``: once, as long as the same chunks are summed.
    Chunks of a scan, which may not fit, are moved at every pass.

    Parameters
    ----------
    device : str, optional
        'cuda', 'cuda:1', 'cpu', …; None: the GPU if there is one, with a message in `fallback` if not.
    dtype : {'float64', 'float32'}, optional
        Of items and everything computed from them; sums are kept in float64. None: float64, but float32 on GPUs that
        are many times slower in float64, as those of desktops and laptops are; `precision` then says what that costs.
    """

    has_own_arrays = True
    is_remote = False

    def __init__(self, device: str | None = None, dtype: str | None = None) -> None:
        self.torch = _torch()
        if dtype not in (None, "float64", "float32"):
            raise DataError(f"dtype={dtype!r} is unknown; use 'float64' or 'float32'")
        self.fallback = ""
        available = self.torch.cuda.is_available()
        if device is None:
            device = "cuda" if available else "cpu"
            if not available:
                self.fallback = "no GPU was found; working on the CPU"
        elif device.startswith("cuda") and not available:
            raise DataError(f"device={device!r} is not there: PyTorch sees no GPU; use device='cpu' or None")
        self.precision = ""
        if dtype is None:
            dtype = "float64" if device == "cpu" or self._is_fast_in_double(device) else "float32"
            if dtype == "float32":
                self.precision = (
                    "this GPU is many times slower in float64, so float32 is used: metrics agree to about four "
                    "digits, and only gradients are used; TorchEngine(dtype='float64') has everything, slowly"
                )
        self.device, self.dtype = device, getattr(self.torch, dtype)
        self._jobs: Sequence[Any] = ()
        self._held: list[Any] = []

    def _is_fast_in_double(self, device: str) -> bool:
        """Return whether a GPU is one of those whose float64 is half as fast as float32, not a thirty-second."""
        return tuple(self.torch.cuda.get_device_capability(device)) in FAST_IN_DOUBLE

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

        On a CPU, few answers fit its cache. A GPU is idle between calls, so it takes as many as an eighth of its memory
        holds.
        """
        if not self.device.startswith("cuda"):
            return 1 << 16
        cuda = self.torch.cuda
        free, memory = cuda.mem_get_info(self.device)
        # memory that this process has reserved and does not use is free, too
        free += cuda.memory_reserved(self.device) - cuda.memory_allocated(self.device)
        return max(min(memory // 8, free // 3) // (numbers * self.dtype.itemsize), 1 << 14)

    @property
    def out_of_memory(self) -> type[BaseException]:
        """What is raised where the device's memory is too small."""
        error: type[BaseException] = self.torch.OutOfMemoryError
        return error

    @property
    def is_double(self) -> bool:
        """Whether arrays are of float64."""
        return bool(self.dtype == self.torch.float64)

    def asarray(self, array: Any, *, double: bool = False) -> Any:
        """Return an array on the device: numbers in the engine's precision, row numbers as they are.

        A tensor that is like that already is returned as it is. With `double`, return a copy in float64 of anything.
        """
        torch = self.torch
        if isinstance(array, torch.Tensor):
            dtype = torch.float64 if double else self.dtype if array.is_floating_point() else array.dtype
            return array.detach().to(self.device, dtype, copy=double)
        array = np.asarray(array)
        # PyTorch shares memory on this machine, and warns of what must not be written; a GPU has its own
        shared = self.device == "cpu" or not array.flags.writeable or any(step < 0 for step in array.strides)
        moved = torch.as_tensor(np.array(array, copy=True) if shared else array, device=self.device)
        if double:
            return moved.to(torch.float64)
        return moved.to(self.dtype) if moved.is_floating_point() else moved

    def sum(self, function: Callable[[Job], Result], jobs: Sequence[Job]) -> Result:
        """Return the sum of the results, added in one order (`folding`)."""
        if jobs is not self._jobs:
            self._jobs, self._held = jobs, [job.on(self.asarray) if hasattr(job, "on") else job for job in jobs]
        return fold(map(function, self._held), len(jobs))

    def __deepcopy__(self, memo: Any) -> TorchEngine:
        """Return itself: estimators share their engine when they are cloned."""
        return self


def _torch() -> Any:
    try:
        import torch  # noqa: PLC0415 - optional, and heavy
    except ImportError:
        raise missing_extra("PyTorch", "gpu", "engine='torch'") from None
    return torch
