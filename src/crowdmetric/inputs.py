"""Validates what `fit` and `predict` are given: pairs of row numbers, pairs of vectors, or Comparisons."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.checks import as_array, check_size, positive_number, whole_number
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.losses import Loss
from crowdmetric.tables import ComparisonScan, as_ids
from crowdmetric.users.blocks import Answers

__all__ = [
    "CONSTRAINTS",
    "Rows",
    "check_items",
    "check_options",
    "check_scan",
    "check_scan_alone",
    "is_by_row",
    "items_differ",
    "names_of_features",
    "people_of",
    "read_pairs",
    "read_rows",
    "some_questions",
    "user_ids",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# What a metric may be: positive semi-definite, or any symmetric matrix.
CONSTRAINTS = ("psd", "symmetric")
# People's numbers are counted instead of sorted if the largest is at most this many times the number of answers.
DENSE = 4
# Number of comparisons checked at once for different items.
LOOKED_AT = 4096
# Maximum number of questions that a fitted model keeps, to say what moves choices.
MOST_QUESTIONS = 10_000
# More answers than one person plausibly gives: if nobody is named, `users` was probably forgotten.
MOST_OF_ONE = 500


@dataclass(frozen=True)
class Rows:
    """Validated comparisons.

    Attributes
    ----------
    items
        (N, d).
    pairs
        (T, 2) rows of items.
    response, weight
        (T,).
    person
        (T,) row of `users`.
    users
        (K,) who answered, sorted (or as the Comparisons list them).
    """

    items: Array
    pairs: Indices
    response: Array
    weight: Array
    person: Indices
    users: NDArray[Any]

    def jointly(self) -> Answers:
        """Return the answers as one problem in all of R^d."""
        return Answers(
            items=self.items,
            pairs=self.pairs,
            response=self.response,
            weight=self.weight,
            person=self.person,
            problem=np.zeros(self.users.size, dtype=np.intp),
            n_problems=1,
        )


def check_items(items: ArrayLike | None) -> Array:
    """Return items as a finite (N, d) float64 array, without a copy if it is one."""
    if items is None:
        raise DataError("items is missing; give the (N, d) item vectors as items=, or pairs as (T, 2, d) vectors")
    try:
        array = np.asarray(as_array(items, "items"), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"items cannot be read as numbers ({error}); give an (N, d) numeric array") from None
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(f"items has shape {array.shape}, expected (N, d) with at least one item and one feature")
    # the smallest or the largest is NaN or infinite if anything is, and neither needs another array
    if not (np.isfinite(array.min()) and np.isfinite(array.max())):
        bad = ~np.isfinite(array)
        row, column = np.argwhere(bad)[0]
        raise DataError(
            f"{int(bad.any(axis=1).sum())} items have features that are NaN or infinite, first "
            f"items[{row}, {column}] = "
            f"{array[row, column]}; fill or drop them before fitting"
        )
    check_size(array, "items")
    return array


def names_of_features(items: Any) -> list[str] | None:
    """Return the names of a data frame's columns if all are text; None for anything else."""
    columns = getattr(items, "columns", None)
    names = None if columns is None else list(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def check_scan(scan: ComparisonScan, items: ArrayLike | None, loss: Loss) -> Array:
    """Return items as `check_items` does, if a scan is about them and its answers are of the loss's kind."""
    catalogue = check_items(items)
    if scan.n_items != catalogue.shape[0]:
        raise DataError(
            f"the comparisons are about {scan.n_items} items, but items has {catalogue.shape[0]} rows; "
            "read both from the same catalogue (Comparisons.scan_parquet(..., items=...))"
        )
    if loss.needs_binary and not scan.is_binary:
        raise DataError(
            f"some scanned responses are neither −1 (left preferred) nor +1 (right preferred), which "
            f"loss={loss.name!r} needs; scan binary answers"
        )
    return catalogue


def check_scan_alone(y: Any, users: Any, sample_weight: Any) -> None:
    """Check that a scan was given alone."""
    if y is not None or users is not None or sample_weight is not None:
        raise DataError("a scan carries its answers, people and weights; leave y, users and sample_weight out")


def check_options(tol: Any, max_iter: Any, cv: Any, random_state: Any) -> None:
    """Check the options of an iteration and of a cross-validation."""
    positive_number(tol, "tol")
    for name, value, least in (("max_iter", max_iter, 1), ("cv", cv, 2), ("random_state", random_state, 0)):
        whole_number(value, name, least)


def read_pairs(pairs: Any, items: ArrayLike | None) -> tuple[Array, Indices]:
    """Return (items (N, d), pairs (T, 2)) from row numbers into `items` or from (T, 2, d) vectors."""
    array = as_array(pairs, "pairs")
    if array.ndim == 3 and array.shape[1] == 2:
        vectors = check_items(array.reshape(-1, array.shape[2]))
        if items is not None and vectors.shape[1] != np.shape(items)[1]:
            raise DataError(
                f"pairs hold vectors of {vectors.shape[1]} features, but items have {np.shape(items)[1]}; use one space"
            )
        return vectors, np.arange(vectors.shape[0]).reshape(-1, 2)
    if array.ndim != 2 or array.shape[1] != 2:
        raise DataError(
            f"pairs has shape {array.shape}, expected (T, 2) row numbers into items or (T, 2, d) item vectors"
        )
    if array.shape[0] == 0:
        raise DataError("pairs is empty; at least one comparison is needed")
    catalogue = check_items(items)
    whole = array.dtype.kind == "f" and np.all(np.isfinite(array)) and np.all(np.mod(array, 1) == 0)
    if array.dtype.kind not in "iu" and not whole:
        raise DataError(
            f"pairs has dtype {array.dtype}, expected row numbers into items; "
            "look names up with Comparisons.from_arrays(..., item_ids=...)"
        )
    outside = (array < 0) | (array >= catalogue.shape[0])
    if np.any(outside):
        raise DataError(
            f"{int(outside.any(axis=1).sum())} comparisons name item {array[outside][0]}, but there "
            f"are {catalogue.shape[0]} items "
            f"(0…{catalogue.shape[0] - 1}); drop them with Comparisons.from_arrays(..., n_items={catalogue.shape[0]})"
        )
    return catalogue, array.astype(np.intp, copy=False)


def read_rows(
    pairs: Any,
    y: Any,
    users: Any,
    sample_weight: Any,
    items: ArrayLike | None,
    loss: Loss,
    *,
    everybody: bool = False,
    unnamed: bool = False,
) -> Rows:
    """Return validated rows from what `fit` was given; a scan is read into memory.

    Rows of weight zero are dropped, and so are people without other rows, unless `everybody` is set or Comparisons list
    them. With `unnamed`, any number of answers may come without `users`.
    """
    if isinstance(pairs, ComparisonScan):
        pairs = Comparisons.from_scan(pairs)
    if isinstance(pairs, Comparisons):
        if y is not None or users is not None or sample_weight is not None:
            raise DataError("Comparisons carry their answers, people and weights; leave y, users and sample_weight out")
        catalogue = check_items(items)
        if pairs.n_items != catalogue.shape[0]:
            raise DataError(
                f"the comparisons are about {pairs.n_items} items, but items has {catalogue.shape[0]} rows; "
                "read both from the same catalogue (Comparisons.read(..., items=...))"
            )
        rows = Rows(catalogue, pairs.pairs, pairs.response, pairs.weight, pairs.user, pairs.user_ids)
    else:
        catalogue, numbers = read_pairs(pairs, items)
        if y is None:
            raise DataError(
                "y is missing; give the answers, −1 where the left item was preferred and +1 where the right was"
            )
        T = numbers.shape[0]
        response = _column(y, T, "y")
        weight = np.ones(T) if sample_weight is None else _column(sample_weight, T, "sample_weight")
        if np.any(weight < 0) or not np.any(weight > 0):
            raise DataError("sample_weight must not be negative, and some of it must be positive")
        if users is None and T > MOST_OF_ONE and not unnamed:
            raise DataError(
                f"users is missing, so all {T:,} answers would be one person's; say who gave each as users=, (T,) "
                "ids, or give users=np.zeros(T, dtype=int) if it was one person"
            )
        names, person = people_of(users, T)
        rows = Rows(catalogue, numbers, response, weight, person, names)
    _check_answers(rows, loss)
    return _weighed(rows, everybody=everybody or isinstance(pairs, Comparisons))


def _weighed(rows: Rows, *, everybody: bool) -> Rows:
    """Return the rows with a positive weight, with everybody or with the people of these rows."""
    keep = rows.weight > 0
    if np.all(keep):
        return rows
    if not np.any(keep):
        raise DataError("every comparison has weight zero; there is nothing to learn from. Give some a positive weight")
    users, person = rows.users, rows.person[keep]
    if not everybody:
        named, person = np.unique(person, return_inverse=True)
        users = users[named]
    return Rows(rows.items, rows.pairs[keep], rows.response[keep], rows.weight[keep], person.astype(np.intp), users)


def _column(values: Any, T: int, name: str) -> Array:
    array = as_array(values, name)
    if array.dtype.kind not in "iuf":
        raise DataError(
            f"{name} has dtype {array.dtype}, expected numbers; turn choices into answers with "
            "Comparisons.from_arrays(..., choice=...)"
        )
    if array.shape != (T,):
        raise DataError(f"{name} has shape {array.shape}, but there are {T} comparisons; give one value each")
    if not np.all(np.isfinite(array)):
        raise DataError(f"{name} holds NaN or infinite values; drop those comparisons first")
    column = array.astype(np.float64)
    check_size(column, name)
    return column


def people_of(users: Any, T: int) -> tuple[NDArray[Any], Indices]:
    """Return sorted people and the row of each answer's person; without `users` there is one person."""
    if users is None:
        return np.zeros(1, dtype=np.int64), np.zeros(T, dtype=np.intp)
    ids = user_ids(users, T)
    if ids.dtype.kind == "i":
        return _numbered(ids)
    names, person = np.unique(ids, return_inverse=True)
    return names, person.astype(np.intp)


def user_ids(users: Any, T: int) -> NDArray[Any]:
    """Return who gave each of T answers, as numbers or text (T,); missing ids are refused."""
    if isinstance(users, np.ma.MaskedArray):
        as_array(users, "users")
    shape = np.shape(users) if hasattr(users, "shape") or not isinstance(users, Sized) else (len(users),)
    if shape != (T,) or isinstance(users, str):
        raise DataError(f"users has shape {shape}, but there are {T} comparisons; give one person each")
    ids, missing = as_ids(users, "users")
    if np.any(missing):
        raise DataError(
            f"users names nobody in {int(np.sum(missing))} comparisons, first in row {int(np.argmax(missing))}; drop "
            "those comparisons or name the person"
        )
    return ids if ids.dtype.kind == "i" else ids.astype(str)


def _numbered(ids: NDArray[Any]) -> tuple[NDArray[Any], Indices]:
    """Return the distinct ids, sorted, and the row of each answer's id; counted, not sorted, if they are dense."""
    if not ids.size:
        return ids, ids.astype(np.intp)
    first, last = int(ids.min()), int(ids.max())
    if last - first > DENSE * ids.size:
        names, person = np.unique(ids, return_inverse=True)
        return names, person.astype(np.intp)
    there = np.zeros(last - first + 1, dtype=np.bool_)
    there[ids - first] = True
    place = np.cumsum(there, dtype=np.intp) - 1
    return (np.flatnonzero(there) + first).astype(ids.dtype), place[ids - first]


def _check_answers(rows: Rows, loss: Loss) -> None:
    if loss.needs_binary:
        wrong = np.abs(rows.response) != 1.0
        if np.any(wrong):
            raise DataError(
                f"y holds {rows.response[wrong][0]:g}, but loss={loss.name!r} needs −1 (left "
                "preferred) or +1 (right preferred); "
                "use loss='squared' for real-valued answers"
            )
    if not items_differ(rows.items, rows.pairs):
        raise DataError("every comparison is between equal items, which says nothing; check how pairs were made")


def is_by_row(pairs: Any) -> bool:
    """Return whether pairs name items by their row numbers, not by their vectors."""
    return isinstance(pairs, Comparisons | ComparisonScan) or np.ndim(pairs) == 2


def some_questions(pairs: NDArray[Any], weight: Array) -> Indices:
    """Return questions (n, 2) that stand for all of them (T, 2), each as often as it was asked; all, if few."""
    if len(pairs) <= MOST_QUESTIONS and np.ptp(weight) == 0:
        return np.asarray(pairs, dtype=np.intp)
    ends, count = np.cumsum(weight), min(len(pairs), MOST_QUESTIONS)
    return np.asarray(pairs, dtype=np.intp)[np.searchsorted(ends, (np.arange(count) + 0.5) / count * ends[-1])]


def items_differ(items: Any, pairs: Any) -> bool:
    """Return whether any comparison is between different items: usually one of the first few. Arrays or tensors."""
    parts = (pairs[begin : begin + LOOKED_AT] for begin in range(0, len(pairs), LOOKED_AT))
    return any(bool((items[part[:, 0]] != items[part[:, 1]]).any()) for part in parts)
