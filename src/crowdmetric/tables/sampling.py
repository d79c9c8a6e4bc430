"""A random sample of people, by a hash of their numbers: always the same people."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["is_drawn"]

# Knuth's multiplicative hash: people are sampled by their number, but not periodically.
GOLDEN = np.uint64(2654435761)


def is_drawn(person: NDArray[Any], step: int) -> NDArray[np.bool_]:
    """Return which of these people, by number, are among one in `step` of all."""
    drawn: NDArray[np.bool_] = (person.astype(np.uint64) * GOLDEN) % np.uint64(1 << 32) < np.uint64((1 << 32) // step)
    return drawn
