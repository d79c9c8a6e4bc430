"""Validates what `fit` and `predict` are given: pairs of row numbers, of ids or of vectors, or a table of answers.

A table is Comparisons, a scan, or a data frame with the columns that `Comparisons.from_table` knows. Whatever it is,
its items are matched to those of the estimator here, by id where both have ids (`crowdmetric.tables.matching`); behind
this module there are only row numbers.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.checks import (
    as_array,
    check_size,
    instance_of,
    numeric_array,
    positive_number,
    seed_number,
    whole_number,
)
from crowdmetric.choices import Choices
from crowdmetric.comparisons import Comparisons, made_of_column
from crowdmetric.errors import DataError
from crowdmetric.losses import Loss
from crowdmetric.ratings import Ratings
from crowdmetric.tables import (
    ASKED,
    PEOPLE,
    Column,
    Columns,
    ComparisonScan,
    Items,
    SpoolChunk,
    as_ids,
    canonical_columns,
    check_same_items,
    check_same_order,
    feature_columns,
    features_of,
    ids_of,
    is_data_frame,
    matched,
    read_columns,
    refuse_judgements,
    rows_of_ids,
)
from crowdmetric.users.blocks import Answers
from crowdmetric.users.sets import rows_of_sets

__all__ = [
    "CONSTRAINTS",
    "AskedRows",
    "Rows",
    "answers_about",
    "answers_in_chunk",
    "check_items",
    "check_options",
    "check_scan",
    "check_scan_alone",
    "is_by_row",
    "items_differ",
    "names_of_features",
    "origin_of",
    "people_of",
    "read_asked",
    "read_pairs",
    "read_rows",
    "read_sets",
    "refuse_choices",
    "refuse_none",
    "sets_in",
    "signs_of",
    "some_questions",
    "user_ids",
    "weights_of",
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
# Columns that hold answers.
ANSWERS = ("response", "choice", "probability")
# More answers than one person plausibly gives: if nobody is named, `users` was probably forgotten.
MOST_OF_ONE = 500


# How binary answers may be written, left first.
SIGNS = np.array([-1, 1])
CODES, FLAGS, WORDS = np.array([0, 1]), np.array([False, True]), np.array(["left", "right"])


@dataclass(frozen=True)
class AskedRows:
    """Validated questions.

    Attributes
    ----------
    items
        (N, d).
    pairs
        (T, 2) rows of items.
    people
        (T,) who is asked; None: nobody in particular.
    by_row
        Whether items were named, by row or by id, and not given as vectors.
    """

    items: Array
    pairs: Indices
    people: NDArray[Any] | None
    by_row: bool


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
    by_row
        Whether items were named, by row or by id, and not given as vectors.
    labels
        (2,) how answers were written: −1 and +1, 0 and 1, False and True, or 'left' and 'right'.
    offsets
        (Q + 1,) where answers about sets begin among the rows (`crowdmetric.users.sets`); None: every row is an answer.
    """

    items: Array
    pairs: Indices
    response: Array
    weight: Array
    person: Indices
    users: NDArray[Any]
    by_row: bool = True
    labels: NDArray[Any] = field(default_factory=lambda: SIGNS)
    offsets: Indices | None = None

    @property
    def answer_weight(self) -> Array:
        """The weight of each answer."""
        return self.weight if self.offsets is None else self.weight[self.offsets[:-1]]

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
            offsets=self.offsets,
        )


def check_items(items: ArrayLike | None) -> Array:
    """Return the features of items as a finite (N, d) float64 array, without a copy if it is one."""
    if items is None:
        raise DataError("items is missing; give the (N, d) item vectors as items=, or pairs as (T, 2, d) vectors")
    try:
        array = np.asarray(numeric_array(features_of(items), "items"), dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
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
    """Return the names of the features of a data frame or an `Items` table if all are text; None for anything else."""
    names = feature_columns(items) or []
    if isinstance(items, Items) and names == [f"f{j}" for j in range(len(names))]:
        return None  # of an array
    return names if names and all(isinstance(name, str) for name in names) else None


def check_scan(scan: ComparisonScan, items: ArrayLike | None, loss: Loss) -> Array:
    """Return items as `check_items` does, if a scan is about them and its answers are of the loss's kind."""
    catalogue = check_items(items)
    check_same_items(scan, ids_of(items), len(catalogue))
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
    for name, value, least in (("max_iter", max_iter, 1), ("cv", cv, 2)):
        whole_number(value, name, least)
    seed_number(random_state, "random_state")


def is_by_row(pairs: Any) -> bool:
    """Return whether pairs name items, by row or by id, and are not their vectors."""
    if isinstance(pairs, Comparisons | ComparisonScan) or is_data_frame(pairs):
        return True
    return as_array(pairs, "pairs").ndim == 2


def answers_about(answers: Any, items: Any, n_items: int) -> Comparisons:
    """Return Comparisons, or a data frame of answers, with items numbered as the rows of `items`."""
    if is_data_frame(answers):
        return _read_frame(read_columns(answers), items, n_items)
    how = "make one with Comparisons.from_arrays or .read"
    return matched(instance_of(answers, "the answers", Comparisons, how), ids_of(items), n_items)


def _read_frame(columns: Columns, items: Any, n_items: int) -> Comparisons:
    ids = ids_of(items)
    known: dict[str, Any] = {"n_items": n_items} if ids is None else {"item_ids": ids}
    return Comparisons.from_table(columns, **known)


def _frame_with(pairs: Any, y: Any, users: Any, sample_weight: Any, loss: Loss) -> tuple[Columns, NDArray[Any]]:
    """Return the columns of a data frame of pairs, with what was given beside it, and the labels of the answers."""
    columns, labels = read_columns(pairs), SIGNS
    T = len(next(iter(columns.values()), ()))
    beside: Columns = {}
    if y is not None:
        beside["response"], labels = signs_of(y, T, loss)
    if users is not None:
        beside["user"] = user_ids(users, T)
    if sample_weight is not None:
        beside["weight"] = weights_of(sample_weight, T)
    for name, given in (("response", "y"), ("user", "users"), ("weight", "sample_weight")):
        twice = {"response": (*ANSWERS, "winner", "loser"), "user": PEOPLE}.get(name, (name,))
        there = [column for column in twice if column in columns]
        if name in beside and there:
            raise DataError(f"the table has a column {there[0]!r}, and {given} was given too; leave one of them out")
    return columns | beside, labels


def read_asked(pairs: Any, users: Any, items: ArrayLike | None) -> AskedRows:
    """Return validated questions from row numbers or ids (T, 2), vectors (T, 2, d), Comparisons or a data frame."""
    refuse_choices(pairs)
    if isinstance(pairs, Comparisons):
        if users is not None:
            raise DataError("Comparisons carry their people; leave users out")
        users = pairs.user_ids[pairs.user]
    elif is_data_frame(pairs):
        columns = read_columns(pairs)
        column = next((name for name in PEOPLE if name in columns), None)
        if column is not None and users is not None:
            raise DataError(f"the table has a column {column!r}, and users was given too; leave one of them out")
        users = users if column is None else columns[column]
    catalog, numbers = read_pairs(pairs, items)
    return AskedRows(catalog, numbers, None if users is None else user_ids(users, len(numbers)), is_by_row(pairs))


def read_pairs(pairs: Any, items: ArrayLike | None) -> tuple[Array, Indices]:
    """Return (items (N, d), pairs (T, 2)) from row numbers or ids in `items`, from vectors (T, 2, d) or a table."""
    if isinstance(pairs, Comparisons):
        catalog = check_items(items)
        return catalog, matched(pairs, ids_of(items), len(catalog)).pairs
    if is_data_frame(pairs):
        return _pairs_of_frame(pairs, items)
    array = as_array(pairs, "pairs")
    if array.ndim == 3 and array.shape[1] == 2:
        vectors = check_items(array.reshape(-1, array.shape[2]))
        d = None if items is None else check_items(items).shape[1]
        if d is not None and vectors.shape[1] != d:
            raise DataError(f"pairs hold vectors of {vectors.shape[1]} features, but items have {d}; use one space")
        return vectors, np.arange(vectors.shape[0]).reshape(-1, 2)
    if array.ndim != 2 or array.shape[1] != 2:
        raise DataError(
            f"pairs has shape {array.shape}, expected (T, 2) row numbers into items or (T, 2, d) item vectors"
        )
    if array.shape[0] == 0:
        raise DataError("pairs is empty; at least one comparison is needed")
    catalogue = check_items(items)
    if _is_text(array):
        return catalogue, rows_of_ids(array, ids_of(items), "pairs").astype(np.intp)
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


def _is_text(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "U" or (array.dtype.kind == "O" and all(isinstance(v, str) for v in array.flat))


def _pairs_of_frame(frame: Any, items: ArrayLike | None) -> tuple[Array, Indices]:
    """Return items and the rows (T, 2) of those that a data frame names, which may have no answers and no people."""
    columns = {name: column for name, column in read_columns(frame).items() if name not in (*ANSWERS, "weight")}
    refuse_judgements(columns)
    columns["user"] = np.zeros(len(next(iter(columns.values()), ())), dtype=np.int64)
    table = canonical_columns(columns, {name: name for name in ("user", "left", "right")})
    sides = [_complete_ids(table[name], name) for name in ("left", "right")]
    if sides[0].dtype.kind != sides[1].dtype.kind:
        raise DataError("left and right name items in two ways; use integers on both sides, or text on both")
    names, ids = np.column_stack(sides), ids_of(items)
    if ids is None and names.dtype.kind == "i":
        return read_pairs(names, items)
    return check_items(items), rows_of_ids(names, ids, "the table").astype(np.intp)


def _complete_ids(column: Column, name: str) -> Column:
    ids, missing = as_ids(column, name)
    if np.any(missing):
        raise DataError(f"{name} is empty in row {int(np.argmax(missing))}; fill it in, or drop the row")
    return ids


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
    labels, is_table = SIGNS, True
    refuse_choices(pairs)
    if isinstance(pairs, ComparisonScan):
        pairs = Comparisons.from_scan(pairs)
    if isinstance(pairs, Comparisons):
        if y is not None or users is not None or sample_weight is not None:
            raise DataError("Comparisons carry their answers, people and weights; leave y, users and sample_weight out")
        catalogue = check_items(items)
        table = matched(pairs, ids_of(items), len(catalogue))
    elif is_data_frame(pairs):
        catalogue = check_items(items)
        columns, labels = _frame_with(pairs, y, users, sample_weight, loss)
        table = _read_frame(columns, items, len(catalogue))
    else:
        is_table = False
    if is_table:
        rows = Rows(catalogue, table.pairs, table.response, table.weight, table.user, table.user_ids, labels=labels)
    else:
        catalogue, numbers = read_pairs(pairs, items)
        if y is None:
            raise DataError(
                "y is missing; give the answers, −1 where the left item was preferred and +1 where the right was"
            )
        T = numbers.shape[0]
        response, labels = signs_of(y, T, loss)
        weight = np.ones(T) if sample_weight is None else weights_of(sample_weight, T)
        if users is None and T > MOST_OF_ONE and not unnamed:
            raise DataError(
                f"users is missing, so all {T:,} answers would be one person's; say who gave each as users=, (T,) "
                "ids, or give users=np.zeros(T, dtype=int) if it was one person"
            )
        names, person = people_of(users, T)
        rows = Rows(catalogue, numbers, response, weight, person, names, is_by_row(pairs), labels)
    _check_answers(rows, loss)
    return _weighed(rows, everybody=everybody or is_table)


def sets_in(answers: Any) -> list[Comparisons | Choices] | None:
    """Return the tables of answers that have Choices among them, or are several; None for one table of comparisons."""
    if isinstance(answers, Choices):
        return [answers]
    several = isinstance(answers, list | tuple) and any(isinstance(table, Choices | Comparisons) for table in answers)
    if not several:
        return None
    for table in answers:
        if not isinstance(table, Choices | Comparisons):
            raise DataError(
                f"a list of answers holds a {type(table).__name__}; give Choices and Comparisons (in memory) together"
            )
    return list(answers)


def refuse_choices(answers: Any) -> None:
    """Refuse answers of other forms where comparisons are expected."""
    if isinstance(answers, Ratings):
        raise DataError(
            "Ratings were given, from which no model learns yet; give Comparisons, or Choices to PopulationMetric"
        )
    if sets_in(answers) is not None:
        raise DataError(
            "answers about several items were given where comparisons were expected; fit Choices with "
            "PopulationMetric(items).fit(choices), and predict them with its choice_probabilities(choices)"
        )


def refuse_none(tables: Sequence[Any]) -> None:
    """Refuse questions that could be answered by "none of them"."""
    for table in tables:
        if isinstance(table, Choices) and table.has_none:
            count = len(np.unique(table.question[table.item < 0]))
            raise DataError(
                f"{count} questions offer 'none of them', for which no model has a utility yet; leave them out with "
                "choices.take(…), or leave that alternative out where nobody chose it"
            )


def read_sets(tables: Sequence[Comparisons | Choices], items: ArrayLike | None) -> Rows:
    """Return the answers of several tables as validated rows: the first item of each set beside each other one."""
    catalogue, ids = check_items(items), ids_of(items)
    check_same_order(tables, ids)
    found = [matched(table, ids, len(catalogue)) for table in tables]
    refuse_none(found)
    users = _all_users([table.user_ids for table in found])
    parts = [_rows_of_table(table) for table in found]
    pairs, response, weight = (np.concatenate([part[i] for part in parts]) for i in range(3))
    person = np.concatenate(
        [np.searchsorted(users, table.user_ids)[part[3]] for table, part in zip(found, parts, strict=True)]
    )
    sizes = np.concatenate([part[4] for part in parts])
    if not items_differ(catalogue, pairs):
        raise DataError("every answer is about equal items, which says nothing; check how sets were made")
    # answers about two items each are comparisons, and are fitted as such
    offsets = None if np.all(sizes == 1) else np.r_[0, np.cumsum(sizes)].astype(np.intp)
    return Rows(catalogue, pairs.astype(np.intp), response, weight, person.astype(np.intp), users, offsets=offsets)


def _all_users(ids: Sequence[Column]) -> Column:
    """Return everybody who is in any of these lists of people, sorted."""
    if len({column.dtype.kind for column in ids}) > 1:
        raise DataError("the tables of answers name people in two ways; use whole numbers in all of them, or text")
    return np.unique(np.concatenate(ids))


def _rows_of_table(table: Comparisons | Choices) -> tuple[Indices, Array, Array, Indices, Indices]:
    """Return pairs, responses, weights and people of the rows of a table, and how many rows each answer has."""
    if isinstance(table, Comparisons):
        if not np.all(np.abs(table.response) == 1):
            raise DataError("answers beside choices must be left or right; leave real-valued comparisons out")
        return table.pairs, table.response, table.weight, table.user, np.ones(len(table), dtype=np.intp)
    firsts = table.firsts()
    pairs, response, offsets = rows_of_sets(firsts.offsets, firsts.item, firsts.first, firsts.sign)
    sizes = np.diff(offsets)
    return pairs, response, np.repeat(firsts.weight, sizes), np.repeat(firsts.person, sizes), sizes


def signs_of(y: Any, T: int, loss: Loss, name: str = "y") -> tuple[Array, NDArray[Any]]:
    """Return the answers (T,), −1 left and +1 right (any number under a loss of real answers), and how y wrote them.

    Binary answers are −1 and +1, 0 and 1, False and True, or 'left' and 'right'; in each the first is left.
    """
    array = as_array(y, name)
    if array.dtype.kind == "O" and array.size and all(isinstance(cell, bool) for cell in array.flat):
        array = array.astype(np.bool_)
    if not loss.needs_binary or array.shape != (T,):
        return _column(array, T, name), SIGNS
    if _is_text(array):
        cells, known = np.char.lower(np.char.strip(array.astype(str))), WORDS
    elif array.dtype.kind in "biuf":
        cells, known = array, FLAGS if array.dtype.kind == "b" else SIGNS
    else:
        return _column(array, T, name), SIGNS
    found = set(np.unique(cells).tolist())
    if found <= set(known.tolist()) or found == set(CODES.tolist()):  # 0 alone may as well be a tie
        labels = known if found <= set(known.tolist()) else CODES
        return np.where(cells == labels[1], 1.0, -1.0), labels
    if known is WORDS:
        raise DataError(
            f"{name} holds {sorted(found - set(WORDS.tolist()))[0]!r}, but an answer is 'left' or 'right' (or −1 and "
            "+1, or 0 and 1); for ties and other ways of writing answers use Comparisons.from_arrays(..., choice=...)"
        )
    for others, doubt in (({-1, 0, 1}, "0 may mean left or a tie"), ({1, 2}, "1 may mean left or right")):
        if found <= others:
            raise DataError(
                f"{name} holds {' and '.join(f'{cell:g}' for cell in sorted(found))}, where {doubt}; write −1 for left "
                "and +1 for right, and leave ties to Comparisons.from_arrays(..., choice=...)"
            )
    return _column(array, T, name), SIGNS


def origin_of(pairs: Any, rows: Rows) -> str:
    """Return whether answers were asked one by one or cut from choices, rankings or ratings (`Comparisons.origin`).

    `pairs` is what `fit` was given, and `rows` what was read of it.
    """
    sets = sets_in(pairs)
    if sets is not None:
        cut = [table.origin for table in sets if isinstance(table, Comparisons)]
        return next((origin for origin in cut if origin != ASKED), ASKED)
    if isinstance(pairs, Comparisons):
        return pairs.origin
    if not np.all(np.abs(rows.response) == 1):
        return ASKED
    numbers, made_of = rows.pairs, made_of_column(read_columns(pairs).get("made_of")) if is_data_frame(pairs) else ""
    if not rows.by_row:  # vectors, of which equal ones are one item
        numbers = np.unique(rows.items, axis=0, return_inverse=True)[1].reshape(-1)[numbers]
    left, right = numbers.T
    users, items = np.arange(len(rows.users)), np.arange(len(rows.items))
    return Comparisons(rows.person, left, right, rows.response, rows.weight, users, items, made_of=made_of).origin


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
    return replace(
        rows, pairs=rows.pairs[keep], response=rows.response[keep], weight=rows.weight[keep],
        person=person.astype(np.intp), users=users,
    )  # fmt: skip


def weights_of(sample_weight: Any, T: int) -> Array:
    """Return the weights (T,) of answers, none negative and some positive."""
    weight = _column(sample_weight, T, "sample_weight")
    if np.any(weight < 0) or not np.any(weight > 0):
        raise DataError("sample_weight must not be negative, and some of it must be positive")
    return weight


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
    check_size(rows.response, "the answers")
    check_size(rows.weight, "the weights")
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


def answers_in_chunk(chunk: SpoolChunk, items: Array, drawn: NDArray[np.bool_] | None = None) -> Answers:
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
