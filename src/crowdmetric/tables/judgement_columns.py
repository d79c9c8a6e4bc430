"""Columns of similarity judgements -> coded rows, and a count of the rows that could not be used.

A judgement chooses one of k pairs of items as the closest. There are three kinds::

    kind           columns                  alternatives (pairs)              answer
    triplet        anchor, left, right      (anchor, left), (anchor, right)   the closer of the two
    odd_one_out    a, b, c                  (b, c), (a, c), (a, b)            odd: the item left out of the closest pair
    quadruplet     a, b, c, d               (a, b), (c, d)                    the closer pair

An answer between two pairs is written in one of these ways::

    choice                          'left' (the first pair), 'right', 'tie', 0 (left) or 1 (right)
    response                        −1 left is closer, +1 right is closer
    probability                     that left is closer, in [0, 1]
    chose_left                      1 left is closer, 0 right is closer
    n_left and n, or n_right        how often each was called closer; also n_left_closer, n_right_closer
    closer, farther                 instead of left, right (triplets); also positive, negative

and an odd one out as ``odd`` (the item, or the name of its column) or as ``n_a, n_b, n_c``. A tie is half an answer
either way. A *check question* has an obvious answer because two of its items are one and the same: it is set aside
and counted, since it tells how often people answer without looking.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.tables.answers import (
    PEOPLE,
    OnBad,
    Sieve,
    check_distinct,
    code_known,
    codes_of,
    distinct,
    found_items,
    numbers_of,
    present_ids,
    read_choice,
    read_probability,
    read_response,
    read_weight,
)
from crowdmetric.tables.codings import ChoiceSurvey
from crowdmetric.tables.columns import Column, Columns, listed, unique_ids

__all__ = [
    "KINDS",
    "CodedJudgements",
    "code_judgements",
    "has_answers",
    "judgement_kind",
    "name_judgements",
    "refuse_judgements",
]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# The columns that name the items of a question, by kind.
KINDS: dict[str, tuple[str, ...]] = {
    "triplet": ("anchor", "left", "right"),
    "odd_one_out": ("a", "b", "c"),
    "quadruplet": ("a", "b", "c", "d"),
}
# Positions of the items in each alternative's pair, by kind.
ALTERNATIVES: dict[str, tuple[tuple[int, int], ...]] = {
    "triplet": ((0, 1), (0, 2)),
    "odd_one_out": ((1, 2), (0, 2), (0, 1)),
    "quadruplet": ((0, 1), (2, 3)),
}
# Other names of a column, used if its own name is absent.
ALIASES = {
    "person": tuple(name for name in PEOPLE if name != "person"),
    "anchor": ("reference", "target", "head", "probe"),
    "left": ("closer", "positive"),
    "right": ("farther", "negative"),
    "n_left": ("n_left_closer",),
    "n_right": ("n_right_closer",),
    "response_time": ("rt", "rt_ms"),
}
# Ways to answer between two pairs, and the columns of each.
TWO_WAY = ("choice", "response", "probability", "chose_left", "n_left")
COUNTS_OF_THREE = ("n_a", "n_b", "n_c")


class CodedJudgements(NamedTuple):
    """Usable rows, and what was set aside; see `crowdmetric.judgements.Judgements`.

    `checks` is (2, K): how many check questions everybody answered, and how many of them wrongly.
    """

    kind: str
    items: Ints
    counts: Floats
    person: Ints
    response_time: Floats | None
    person_ids: Column
    item_ids: Column
    checks: Floats
    dropped: dict[str, int]


# ---------------------------------------------------------------------------------- which column is which


def judgement_kind(columns: Collection[str]) -> str | None:
    """Return which kind of judgements a table with these columns holds; None if it holds none."""
    if any(name in columns for name in ("anchor", *ALIASES["anchor"])):
        return "triplet"
    if all(name in columns for name in ("a", "b", "c", "d")):
        return "quadruplet"
    return "odd_one_out" if all(name in columns for name in ("a", "b", "c")) else None


def refuse_judgements(columns: Collection[str], named: Collection[str] = ()) -> None:
    """Refuse a table of triplets where comparisons are read, which would lose the anchor; `named` were asked for."""
    anchors = [name for name in ("anchor", *ALIASES["anchor"]) if name in columns and name not in named]
    if anchors:
        raise DataError(
            f"the table has a column {anchors[0]!r}, as judgements of similarity have; read it with "
            "Judgements.from_table and fit a SimilarityMetric, or leave that column out if people said what they prefer"
        )


def name_judgements(columns: Columns, names: Mapping[str, str] | None = None) -> Columns:
    """Return the columns under the names that `code_judgements` knows; `names` maps those to other names."""
    chosen, renamed = dict(columns), dict(names or {})
    check_distinct(renamed)
    for name, asked in renamed.items():
        if asked not in columns:
            raise DataError(f"the table has no column {asked!r} for {name}, but {listed(columns)}; correct the name")
        chosen[name] = columns[asked]
    kind = judgement_kind(chosen)
    if kind is None:
        raise DataError(
            f"the table has the columns {listed(columns)}, which are no similarity judgements; expected anchor, left, "
            "right (triplets), a, b, c (odd one out) or a, b, c, d (quadruplets)"
        )
    for name, aliases in ALIASES.items():
        found = [alias for alias in aliases if name not in chosen and alias in columns]
        if len(found) > 1:
            raise DataError(f"columns {listed(found)} could all be {name}; rename all but one")
        if found:
            chosen[name] = columns[found[0]]
    if kind == "triplet" and not has_answers(chosen) and _names_the_closer(columns):
        chosen["chose_left"] = np.ones(len(chosen["left"]), dtype=np.int64)
    return chosen


def _names_the_closer(columns: Collection[str]) -> bool:
    """Return whether the columns of the options say themselves which one was called closer."""
    return any({near, far} <= set(columns) for near, far in zip(ALIASES["left"], ALIASES["right"], strict=True))


def has_answers(columns: Collection[str]) -> bool:
    """Return whether a table of judgements holds answers and not only questions."""
    return any(name in columns for name in (*TWO_WAY, *ALIASES["n_left"], "odd", *COUNTS_OF_THREE))


# -------------------------------------------------------------------------------------- which rows are usable


def code_judgements(columns: Columns, item_ids: Column | None, person_ids: Any, on_bad: OnBad) -> CodedJudgements:
    """Return the usable rows in numbers, as they stand; see the docstring of this module for the columns.

    Parameters
    ----------
    columns : dict of (T,) arrays
        As `name_judgements` returns them. Without ``person`` everything was said by one person, 0.
    item_ids : (N,) array or None
        What items may be called; None: integers are row numbers, text is taken as found, sorted.
    person_ids : (K,) array-like or None
        Who may answer; None: everybody who occurs, sorted.
    on_bad : {'drop', 'raise'}
    """
    if on_bad not in ("drop", "raise"):
        raise DataError(f"on_bad is {on_bad!r}, but must be 'drop' or 'raise'")
    kind = judgement_kind(columns)
    if kind is None:
        raise DataError(f"columns {listed(columns)} hold no similarity judgements")
    _require(columns, KINDS[kind])
    sieve = Sieve(len(columns[KINDS[kind][0]]), what="judgements")
    given = [present_ids(columns[name], name, sieve) for name in KINDS[kind]]
    counts, weight = _read_counts(kind, columns, given, sieve), read_weight(columns.get("weight"), sieve)
    counts = counts * np.where(sieve.keep, weight, 0.0)[:, None]
    known = found_items(given, sieve) if item_ids is None else item_ids
    items = np.column_stack([code_known(column, known, "item", sieve) for column in given])
    person, people = _people(columns, person_ids, sieve)
    time = _read_time(columns.get("response_time"))
    check = _reject_useless(kind, items, sieve)
    sieve.report(on_bad, stacklevel=5)
    checks = _checks(kind, items, counts, person, check & sieve.keep, len(people))
    keep = sieve.keep & ~check  # a check question is not a bad row, and is not counted among those dropped
    if not keep.any():
        raise DataError("every usable judgement is a check question, whose answer is obvious; nothing is left to learn")
    return CodedJudgements(
        kind, items[keep], counts[keep], person[keep], None if time is None else time[keep],
        people, known, checks, dict(sieve.dropped),
    )  # fmt: skip


def _require(columns: Columns, names: Collection[str]) -> None:
    missing = [name for name in names if name not in columns]
    if missing:
        raise DataError(f"the table has no column {listed(missing)}, but {listed(columns)}; rename or add it")


def _people(columns: Columns, person_ids: Any, sieve: Sieve) -> tuple[Ints, Column]:
    """Return the number of each row's person, and who they are; one person, 0, where nobody is named."""
    if "person" not in columns:
        if person_ids is not None:
            raise DataError("person_ids are given, but no column says who answered; add the column person")
        return np.zeros(len(sieve.keep), dtype=np.int64), np.zeros(1, dtype=np.int64)
    person = present_ids(columns["person"], "person", sieve)
    if person_ids is not None:
        people = unique_ids(person_ids, "person_ids")
        return code_known(person, people, "person", sieve), people
    people = distinct(person[sieve.keep])
    return codes_of(person, people), people


def _read_time(column: Column | None) -> Floats | None:
    """Return response times, NaN if they are missing; nothing is rejected for its time."""
    return None if column is None else numbers_of(column, "response_time", "response times are numbers")


def _reject_useless(kind: str, items: Ints, sieve: Sieve) -> NDArray[np.bool_]:
    """Reject rows whose pairs are all the same or all of one item; return which rows are check questions."""
    first, second = (np.stack(side) for side in _sides(kind, items))
    one_item = first == second  # (k, T)
    if kind == "triplet":
        sieve.reject(items[:, 1] == items[:, 2], "both options are one item", expected="two options are needed")
    elif kind == "quadruplet":
        low, high = np.minimum(first, second), np.maximum(first, second)
        sieve.reject((low[0] == low[1]) & (high[0] == high[1]), "both pairs are one", expected="two pairs are needed")
    sieve.reject(one_item.all(axis=0), "every pair is of one item", expected="nothing is compared there")
    check: NDArray[np.bool_] = one_item.any(axis=0)
    return check


def _sides(kind: str, items: Ints) -> tuple[list[Ints], list[Ints]]:
    """Return the two items of each alternative's pair, k arrays (T,) each."""
    pairs = ALTERNATIVES[kind]
    return [items[:, i] for i, _ in pairs], [items[:, j] for _, j in pairs]


def _checks(kind: str, items: Ints, counts: Floats, person: Ints, check: NDArray[np.bool_], n_people: int) -> Floats:
    """Return how many check questions everybody answered, and how many wrongly, (2, K)."""
    first, second = _sides(kind, items[check])
    right = np.stack([i == j for i, j in zip(first, second, strict=True)], axis=1)
    answers = counts[check]
    asked, wrong = answers.sum(axis=1), np.where(right, 0.0, answers).sum(axis=1)
    return np.stack([np.bincount(person[check], each, n_people) for each in (asked, wrong)])


# ----------------------------------------------------------------------------------------- what was answered


def _read_counts(kind: str, columns: Columns, given: list[Column], sieve: Sieve) -> Floats:
    """Return how often each alternative was chosen, (T, k)."""
    counts = _read_odd(columns, given, sieve) if kind == "odd_one_out" else _read_two(columns, sieve)
    bad = np.any(~(np.isfinite(counts) & (counts >= 0)), axis=1)
    sieve.reject(bad, "negative or missing count", expected="counts are not negative")
    sieve.reject(counts.sum(axis=1) == 0, "no answer", expected="every count is zero there")
    # Rows left out may hold anything.
    return np.where(sieve.keep[:, None], counts, 0.0)


def _read_two(columns: Columns, sieve: Sieve) -> Floats:
    given = [name for name in TWO_WAY if name in columns]
    if len(given) != 1:
        raise DataError(
            f"the answers are given by {listed(given) if given else 'no column'}; exactly one of {listed(TWO_WAY)} is "
            "needed, or closer and farther"
        )
    column = columns[given[0]]
    if given == ["n_left"]:
        return _read_pair_of_counts(columns, sieve)
    if given == ["choice"]:
        survey = ChoiceSurvey()
        sides = (columns["left"], columns["right"]) if "anchor" in columns else (None, None)
        survey.add(column, *sides)
        left = read_choice(column, sieve, survey.decide(), *sides)
    elif given == ["probability"]:
        left = read_probability(column, sieve)
    elif given == ["chose_left"]:
        left = _read_flag(column, sieve)
    else:
        response = read_response(column, sieve)
        sieve.reject(np.abs(response) != 1, "unreadable response", response, "−1 (left closer) or +1 (right closer)")
        left = 0.5 - 0.5 * response
    return np.column_stack([left, 1.0 - left])


def _read_flag(column: Column, sieve: Sieve) -> Floats:
    """Return 1 where left was called closer, from 0, 1, True and False."""
    if column.dtype.kind == "b":
        return column.astype(np.float64)
    flag = numbers_of(column, "chose_left", "1 means that left is closer and 0 that right is")
    sieve.reject(np.isnan(flag), "missing value", expected="chose_left is empty there")
    sieve.reject(~np.isin(flag, (0, 1)), "unreadable choice", flag, "1 (left closer) or 0 (right closer)")
    return flag


def _read_pair_of_counts(columns: Columns, sieve: Sieve) -> Floats:
    left = numbers_of(columns["n_left"], "n_left", "counts are numbers")
    if ("n_right" in columns) == ("n" in columns):
        raise DataError("n_left also needs n (all answers) or n_right, and exactly one of the two")
    if "n_right" in columns:
        return np.column_stack([left, numbers_of(columns["n_right"], "n_right", "counts are numbers")])
    total = numbers_of(columns["n"], "n", "counts are numbers")
    sieve.reject(left > total, "n_left is more than n", left, "n counts all answers")
    return np.column_stack([left, total - left])


def _read_odd(columns: Columns, given: list[Column], sieve: Sieve) -> Floats:
    """Return how often each of the three items was called odd, (T, 3)."""
    counted = [name for name in COUNTS_OF_THREE if name in columns]
    if bool(counted) == ("odd" in columns):
        raise DataError("an odd one out is answered by the column odd, or by n_a, n_b and n_c; give one of the two")
    if counted:
        _require(columns, COUNTS_OF_THREE)
        return np.column_stack([numbers_of(columns[name], name, "counts are numbers") for name in COUNTS_OF_THREE])
    odd = columns["odd"]
    same: NDArray[np.bool_] = np.column_stack([np.asarray(odd == column, dtype=bool) for column in given])
    if odd.dtype.kind == "O":  # 'a', 'b' and 'c' name a column where they are not items themselves
        by_name = np.column_stack([np.asarray(odd == name, dtype=bool) for name in ("a", "b", "c")])
        same = np.where(same.any(axis=1, keepdims=True), same, by_name)
    none = np.logical_not(same.any(axis=1))
    sieve.reject(none, "odd is none of the three", odd, "odd is one of the items a, b and c")
    # in a check question the odd item may be named twice: that is half an answer for each, and wrong
    total = np.maximum(same.sum(axis=1, keepdims=True), 1)
    share: Floats = same / total
    return share
