"""The code for a block of bounded people: compiled where that is faster, NumPy otherwise."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from crowdmetric.losses import Hinge, Logistic, Loss
from crowdmetric.users.blocks import Block
from crowdmetric.users.bounded import BoundedBlock

__all__ = ["bounded_block"]

Array = NDArray[Any]

# Measured at ranks 1 to 3 only, where compiled loops make whole fits 2 to 5 times faster; larger ranks use BLAS.
LARGEST_COMPILED_RANK = 3


def bounded_block(
    block: Block,
    loss: Loss,
    radius: Array,
    mu: Array,
    w: Array | None = None,
    *,
    offset: Array | None = None,
) -> BoundedBlock:
    """Return the people of a block, compiled if that is faster; Numba takes a second to load, so it is loaded here."""
    kind = BoundedBlock
    if block.delta.shape[2] <= LARGEST_COMPILED_RANK and isinstance(loss, Logistic | Hinge):
        kind = import_module("crowdmetric.users.kernels").CompiledBlock
    return kind(block, loss, radius, mu, w, offset=offset)
