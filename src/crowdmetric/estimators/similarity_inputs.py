"""What a similarity fit accepts, turned into Judgements once: tables, row numbers, or vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.checks import as_array
from crowdmetric.errors import DataError
from crowdmetric.inputs import check_items
from crowdmetric.judgements import Judgements, canonical_of_judgements

__all__ = ["read_judgements"]

Array = NDArray[np.float64]

MAKERS: dict[int, Callable[..., Judgements]] = {3: Judgements.from_triplets, 4: Judgements.from_quadruplets}


def read_judgements(
    judgements: Any, y: Any, users: Any, items: ArrayLike | None, *, merge: bool
) -> tuple[Array, tuple[Judgements, ...]]:
    """Return items (N, d) and the judgements about them.

    Parameters
    ----------
    judgements : Judgements, a sequence of them, (T, 3) or (T, 4) rows of items, or (T, 3, d) or (T, 4, d) vectors
        Arrays: anchor, closer, farther; or the closer pair, then the other one.
    y : (T,) array or None
        Only with arrays: −1 where the first option is closer (as without y), +1 where the second is.
    users : (T,) array or None
        Only with arrays: who answered.
    items : (N, d) array or None
        None: `judgements` hold vectors.
    merge : bool
        Whether rows may be put in another order and added up, and items renumbered by content, so that nothing that is
        drawn depends on the order of a table (`crowdmetric.canonical`).
    """
    tables = _tables(judgements)
    if tables is not None:
        if y is not None or users is not None:
            raise DataError("Judgements carry their answers and people; leave y and users out")
        catalog = check_items(items)
        for table in tables:
            if table.n_items != len(catalog):
                raise DataError(
                    f"the judgements are about {table.n_items} items, but items has {len(catalog)} rows; read both "
                    "from the same catalog (Judgements.read(..., items=...))"
                )
        return _by_content(catalog, tuple(table.merged() for table in tables)) if merge else (catalog, tables)
    array = as_array(judgements, "judgements")
    if array.ndim not in (2, 3) or array.shape[1] not in MAKERS:
        raise DataError(
            f"judgements have shape {array.shape}; expected Judgements, (T, 3) rows (anchor, closer, farther), (T, 4) "
            "rows (closer pair, other pair), or the vectors themselves, (T, 3, d) or (T, 4, d)"
        )
    if array.ndim == 3:
        catalog, rows = _distinct_vectors(array, items)
    else:
        catalog, rows = check_items(items), _row_numbers(array)
    options: dict[str, Any] = {"n_items": len(catalog), "person": users, "merge": merge, "on_bad": "raise"}
    made = MAKERS[array.shape[1]](rows, _choice(y, len(rows)), **options)
    return _by_content(catalog, (made,)) if merge else (catalog, (made,))


def _by_content(catalog: Array, tables: tuple[Judgements, ...]) -> tuple[Array, tuple[Judgements, ...]]:
    """Return items and judgements with items, and so questions, in an order that comes from the answers."""
    number = canonical_of_judgements(tables, catalog).items
    order = np.argsort(number)
    return catalog[order], tuple(
        replace(table, items=number[table.items], item_ids=table.item_ids[order]).merged() for table in tables
    )


def _tables(judgements: Any) -> tuple[Judgements, ...] | None:
    if isinstance(judgements, Judgements):
        return (judgements,)
    if isinstance(judgements, Sequence) and judgements and all(isinstance(t, Judgements) for t in judgements):
        return tuple(judgements)
    return None


def _distinct_vectors(array: NDArray[Any], items: ArrayLike | None) -> tuple[Array, NDArray[np.int64]]:
    """Return the distinct vectors (N, d) and the row of each, so items asked about twice are known as one."""
    vectors = check_items(array.reshape(-1, array.shape[2]))
    if items is not None and vectors.shape[1] != np.shape(items)[1]:
        raise DataError(
            f"judgements hold vectors of {vectors.shape[1]} features, but items have {np.shape(items)[1]}; "
            "use one space"
        )
    distinct, rows = np.unique(vectors, axis=0, return_inverse=True)
    return distinct, rows.reshape(array.shape[:2]).astype(np.int64)


def _row_numbers(array: NDArray[Any]) -> NDArray[np.int64]:
    whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and np.all(np.mod(array, 1) == 0))
    if not whole:
        raise DataError(
            f"judgements have dtype {array.dtype}, expected row numbers into items; look names up with "
            "Judgements.from_triplets(..., item_ids=...)"
        )
    return array.astype(np.int64)


def _choice(y: Any, T: int) -> NDArray[np.int64] | None:
    """Return 0 (left) or 1 (right) from −1 and +1."""
    if y is None:
        return None
    response = np.asarray(y)
    if response.shape != (T,) or not np.all(np.isin(response, (-1, 1))):
        raise DataError(f"y must be −1 (first closer) or +1 (second closer) for each of the {T} judgements")
    return (response > 0).astype(np.int64)
