"""One thread of BLAS and OpenMP per job: jobs run in parallel, and results do not depend on the number of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

__all__ = ["one_thread_each", "shared_product", "threads_beside", "threads_for"]

# Below this many rows of a matrix, threads of BLAS spend more time waiting for each other than they save.
MOST_ROWS_ALONE = 800
# Rows of a large product are shared among this many threads, and a product is large from this many multiplications on.
PARTS, LARGE = 4, 20_000_000


@cache
def _libraries() -> ThreadpoolController:
    """Return the libraries that can be limited; the search takes as long as a pass over people, so it is cached."""
    return ThreadpoolController()


def one_thread_each() -> AbstractContextManager[Any]:
    """Limit libraries of this process to one thread."""
    return _libraries().limit(limits=1)


def threads_beside(device: object | None) -> AbstractContextManager[Any]:
    """Limit NumPy's BLAS to one thread if large products are made on a device: what is left for NumPy is small.

    PyTorch's own threads, those of OpenMP, go on.
    """
    return nullcontext() if device is None else _libraries().limit(limits=1, user_api="blas")


def threads_for(rows: int) -> AbstractContextManager[Any]:
    """Limit libraries to one thread for work on matrices with few rows."""
    return one_thread_each() if rows < MOST_ROWS_ALONE else nullcontext()


def shared_product(A: NDArray[Any], B: NDArray[Any]) -> NDArray[Any]:
    """Return ``A @ B``; under `one_thread_each`, the rows of a large product are shared among threads.

    The threads of NumPy's and of SciPy's BLAS keep processors busy while they wait for the other library. These do not.
    """
    n, m = len(A), B.shape[1]
    if n * m * len(B) < LARGE:
        found: NDArray[Any] = A @ B
        return found
    out = np.empty((n, m), dtype=np.result_type(A, B))
    edges = np.linspace(0, n, PARTS + 1).astype(int)
    parts = [slice(start, end) for start, end in pairwise(edges)]
    with ThreadPoolExecutor(PARTS) as pool:
        list(pool.map(lambda rows: np.matmul(A[rows], B, out=out[rows]), parts))
    return out
