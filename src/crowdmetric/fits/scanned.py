"""The answers of a scan's people, one chunk at a time, in the form that solvers take."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.tables import SpoolChunk
from crowdmetric.users.blocks import Answers

__all__ = ["answers_of"]


def answers_of(chunk: SpoolChunk, items: NDArray[Any], drawn: NDArray[np.bool_] | None = None) -> Answers:
    """Return the answers of a chunk's people, or of those who were drawn, numbered within it."""
    rows = chunk.load()
    if drawn is not None:
        rows = rows[drawn[rows["person"]]]
    return Answers(
        items=items,
        pairs=np.column_stack([rows["left"], rows["right"]]).astype(np.intp),
        response=rows["response"].copy(),
        weight=rows["weight"].copy(),
        person=rows["person"].astype(np.intp),
        problem=np.zeros(chunk.people, dtype=np.intp),
        n_problems=1,
    )
