"""What a similarity fit accepts, turned into Judgements once: tables, row numbers, or vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.checks import as_array
from crowdmetric.errors import DataError
from crowdmetric.inputs import check_items, signs_of
from crowdmetric.judgements import Judgements, canonical_of_judgements
from crowdmetric.losses import Logistic
from crowdmetric.tables import (
    Column,
    check_same_order,
    has_answers,
    ids_of,
    is_data_frame,
    judgement_kind,
    matched,
    name_judgements,
    read_columns,
    rows_of_ids,
)

__all__ = ["read_judgements"]

Array = NDArray[np.float64]

# Whole numbers up to this one are exact as floats.
LARGEST_ROW = 2**53
MAKERS: dict[int, Callable[..., Judgements]] = {3: Judgements.from_triplets, 4: Judgements.from_quadruplets}


def read_judgements(
    judgements: Any, y: Any, users: Any, items: ArrayLike | None, *, merge: bool
) -> tuple[Array, tuple[Judgements, ...]]:
    """Return items (N, d) and the judgements about them.

    Parameters
    ----------
    judgements : data frame, Judgements, a sequence of them, (T, 3) or (T, 4) rows or ids of items, or their vectors
        Arrays: anchor, closer, farther; or the closer pair, then the other one.
    y : (T,) array or None
        With arrays: −1 where the first option is closer (as without y), +1 where the second is.
    users : (T,) array or None
        With arrays: who answered.
    items : (N, d) array or None
        None: `judgements` hold vectors.
    merge : bool
        Whether rows may be put in another order and added up, and items renumbered by content, so that nothing that is
        drawn depends on the order of a table (`crowdmetric.canonical`).
    """
    if is_data_frame(judgements):
        catalog = check_items(items)
        table = _of_frame(judgements, y, users, ids_of(items), len(catalog), merge=merge)
        return _by_content(catalog, (table,)) if merge else (catalog, (table,))
    given = _tables(judgements)
    if given is not None:
        if y is not None or users is not None:
            raise DataError("Judgements carry their answers and people; leave y and users out")
        catalog, ids = check_items(items), ids_of(items)
        check_same_order(given, ids)
        tables = tuple(matched(table, ids, len(catalog)) for table in given)
        return _by_content(catalog, tuple(table.merged() for table in tables)) if merge else (catalog, tables)
    array = as_array(judgements, "judgements")
    if array.ndim not in (2, 3) or array.shape[1] not in MAKERS:
        raise DataError(
            f"judgements have shape {array.shape}; expected Judgements, (T, 3) rows (anchor, closer, farther), (T, 4) "
            "rows (closer pair, other pair), or the vectors themselves, (T, 3, d) or (T, 4, d)"
        )
    if array.ndim == 3:
        catalog, rows = _distinct_vectors(array, items)
    elif array.dtype.kind == "U" or (array.dtype.kind == "O" and all(isinstance(v, str) for v in array.flat)):
        catalog, rows = check_items(items), rows_of_ids(array, ids_of(items), "the judgements")
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
    d = None if items is None else check_items(items).shape[1]
    if d is not None and vectors.shape[1] != d:
        raise DataError(f"judgements hold vectors of {vectors.shape[1]} features, but items have {d}; use one space")
    distinct, rows = np.unique(vectors, axis=0, return_inverse=True)
    return distinct, rows.reshape(array.shape[:2]).astype(np.int64)


def _row_numbers(array: NDArray[Any]) -> NDArray[np.int64]:
    real = array.dtype.kind == "f"
    whole = array.dtype.kind in "iu" or (real and np.all(np.isfinite(array)) and np.all(np.mod(array, 1) == 0))
    if not whole:
        raise DataError(
            f"judgements have dtype {array.dtype}, expected row numbers into items; look names up with "
            "Judgements.from_triplets(..., item_ids=...)"
        )
    if real and np.any(np.abs(array) > LARGEST_ROW):
        raise DataError(f"judgements name item {np.abs(array).max():g}, which is no row number; give rows of items")
    return array.astype(np.int64)


def _choice(y: Any, T: int) -> NDArray[np.int64] | None:
    """Return 0 (left) or 1 (right) from answers in any of the ways that `signs_of` reads."""
    if y is None:
        return None
    response, _ = signs_of(y, T, Logistic())
    if not np.all(np.abs(response) == 1):
        raise DataError(f"y must be −1 (first closer) or +1 (second closer) for each of the {T} judgements")
    return (response > 0).astype(np.int64)


def _of_frame(frame: Any, y: Any, users: Any, ids: Column | None, n_items: int, *, merge: bool) -> Judgements:
    """Return the judgements of a data frame; without `merge` row by row, with or without answers."""
    columns = name_judgements(read_columns(frame))
    T = len(next(iter(columns.values())))
    for name, given, what in (("person", users, "users"), ("response", y, "y")):
        if given is not None and (name in columns if name == "person" else has_answers(columns)):
            raise DataError(f"the table says the same as {what}, which was given too; leave one of them out")
    if users is not None:
        columns["person"] = users
    if y is not None:
        columns["response"] = signs_of(y, T, Logistic())[0]
    elif not merge and not has_answers(columns):  # questions: which alternative is counted does not matter
        one = np.ones(T)
        asked = judgement_kind(columns) == "odd_one_out"
        columns |= dict.fromkeys(("n_a", "n_b", "n_c"), one) if asked else {"probability": 0.5 * one}
    known: dict[str, Any] = {"n_items": n_items} if ids is None else {"item_ids": ids}
    table = Judgements.from_table(columns, merge=merge, on_bad="drop" if merge else "raise", **known)
    if not merge and len(table) != T:
        raise DataError(
            f"{T - len(table)} of {T} rows are check questions, in which two items are the same; predict the others"
        )
    return table
