"""Columns of choices, rankings, best and worst -> sets and places, and a count of the questions that were left out.

One row per alternative ("long")::

    user, question, item    who was asked, which of their questions this is, and one alternative of it
    chosen                  1 for the one chosen, 0 or empty for the others; also choice
    rank                    1 for the best; empty where it was not ranked
    best, worst             1 for the best and 1 for the worst; one of the two columns is enough
    best_worst              1 best, −1 worst, 0 or empty for the others

One row per question ("wide")::

    user
    a, b, c, d              the alternatives; also item_1, item_2, …; an empty cell makes the set smaller
    shown                   or all of them in one cell: tea|cola|milk
    chosen                  the one chosen, by its id, by its column (a, item_1) or by its number; also winner
    best, worst             likewise; one of the two is enough
    ranking                 b>a>c, the best first; also order. Without a, b, c or shown, the set is what is ranked

SetRows that share a rank are not ordered: they count as the rest of the set, and so does everything below them. A
question counts whole or not at all: without one of its alternatives, it would be another question.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError, TableWarning
from crowdmetric.tables.answers import (
    PEOPLE,
    OnBad,
    Sieve,
    code_known,
    codes_of,
    distinct,
    found_items,
    numbers_of,
    present_ids,
    read_weight,
    rename_columns,
)
from crowdmetric.tables.columns import Column, Columns, as_column, as_ids, listed, objects, plain, unique_ids
from crowdmetric.tables.items import Items, read_items
from crowdmetric.tables.text import INTEGER

__all__ = [
    "CodedSets",
    "choice_shape",
    "code_choices",
    "name_choices",
    "named_once",
    "number_alternatives",
    "present_under",
    "set_columns",
]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Other names of a column, used if its own name is absent.
ALIASES = {
    "user": PEOPLE[1:],
    "question": ("question_id", "task", "choice_set"),
    "item": ("item_id", "alternative"),
    "chosen": ("winner",),
    "ranking": ("order",),
}
LONG_ANSWERS = ("chosen", "rank", "best", "worst", "best_worst")
WIDE_ANSWERS = ("chosen", "best", "worst", "ranking")
KNOWN = ("user", "question", "item", "weight", *LONG_ANSWERS)
# What the columns of alternatives may be called, before a, b, c, … or 1, 2, 3, …
STEMS = ("", "item", "alternative", "alt", "option", "shown")
LABELS = ("abcdefghijklmnopqrstuvwxyz", [str(number) for number in range(1, 100)])
# What may stand between alternatives in one cell; the first that occurs in a column does.
SEPARATORS = (">", "|", ";", ",")
FLAGS = {"1": 1.0, "0": 0.0, "": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
BEST_WORST = {"1": 1.0, "0": 0.0, "": 0.0, "-1": -1.0, "best": 1.0, "worst": -1.0}
EXPECTED_COLUMNS = (
    "expected user, question, item and chosen (or rank, best, worst), one row per alternative; or user, the "
    "alternatives a, b, c, … and chosen (or ranking, best, worst), one row per question"
)


class CodedSets(NamedTuple):
    """Usable questions in numbers; see `crowdmetric.choices.Choices`."""

    user: Ints
    offsets: Ints
    item: Ints
    place: Ints
    weight: Floats
    user_ids: Column
    item_ids: Column
    dropped: dict[str, int]


class SetRows(NamedTuple):
    """One row (T,) per alternative, those of a question together, and what is said of each."""

    user: Column
    question: Ints
    item: Column
    is_none: Bools
    rank: Floats
    is_worst: Bools
    weight: Column | None
    sieve: Sieve


# ---------------------------------------------------------------------------------- which column is which


def set_columns(columns: Collection[str]) -> list[str]:
    """Return the columns that hold the alternatives of a question: a, b, …, or item_1, item_2, …; [] without any."""
    called = {name.lower(): name for name in columns}
    for stem in STEMS:
        for labels in LABELS if stem else LABELS[:1]:
            found: list[str] = []
            for label in labels:
                name = next(
                    (f"{stem}{by}{label}" for by in ("", "_", ".", " ") if f"{stem}{by}{label}" in called), None
                )
                if name is None:
                    break
                found.append(called[name])
            if len(found) > 1:
                return found
    return []


def choice_shape(columns: Collection[str]) -> str | None:
    """Return 'long' or 'wide', as a table of choices with these columns is written; None if it holds none."""
    there = {name for name in (*KNOWN, "shown", "ranking") if present_under(columns, name)}
    one_row_each = {"question", "item"} <= there and ("choice" in columns or bool(there & set(LONG_ANSWERS)))
    sets = set_columns(columns) or [name for name in ("shown",) if name in there]
    one_row_all = bool(sets and there & set(WIDE_ANSWERS)) or ("ranking" in there and "item" not in there)
    if one_row_each and one_row_all:
        raise DataError(
            f"the table has a column {listed(present_under(columns, 'item'))} as with one row per alternative, and "
            f"{listed(sets or present_under(columns, 'ranking'))} as with one row per question; leave one of them out"
        )
    return "long" if one_row_each else "wide" if one_row_all else None


def present_under(columns: Collection[str], name: str) -> list[str]:
    """Return the columns that are called so, or by another usual name where that is absent."""
    return [name] if name in columns else [alias for alias in ALIASES.get(name, ()) if alias in columns]


def named_once(columns: Columns, names: Collection[str]) -> Columns:
    """Return the columns with those of `names` that have another usual name under their own."""
    renamed = dict(columns)
    for name in names:
        found = present_under(columns, name)
        if len(found) > 1:
            raise DataError(f"columns {listed(found)} could all be {name}; rename all but one")
        if found:
            renamed[name] = renamed.pop(found[0])
    return renamed


def name_choices(columns: Columns, names: Mapping[str, str] | None = None) -> Columns:
    """Return the columns under the names that `code_choices` knows; `names` maps those to other names."""
    columns = named_once(rename_columns(columns, names), ALIASES)
    if "choice" in columns and not any(name in columns for name in (*LONG_ANSWERS, "ranking")) and "item" in columns:
        columns["chosen"] = columns.pop("choice")
    if "user" not in columns:
        raise DataError(f"the table has no column 'user', but {listed(columns)}; rename the column that says who chose")
    return columns


def number_alternatives(
    columns: Columns, features: Sequence[str] | None, none: str | int | None, categorical: Any = None
) -> tuple[Items, Columns]:
    """Return the distinct alternatives of a long table, by their features, and its columns with their numbers as items.

    Parameters
    ----------
    columns : dict of (T,) arrays
        As `name_choices` returns them. A row whose item is `none` has no features, and gets −1.
    features : list of str or None
        The columns that are features; None: all but those that `code_choices` reads and those that say the same of
        all alternatives of a question, which describe the person or the question.
    categorical : optional
        As in `crowdmetric.tables.read_items`; may name the column ``item`` too.
    """
    if "question" not in columns:
        raise DataError("the column 'question' is missing; features of alternatives are read with one row for each")
    is_none = (
        _are_none(columns["item"].tolist(), none)
        if "item" in columns
        else np.zeros(len(columns["question"]), dtype=bool)
    )
    group = _groups(columns["user"], columns["question"])
    named = ["item"] if categorical == "item" or (categorical is not None and "item" in list(categorical)) else []
    if features is None:
        others = [name for name in columns if name not in KNOWN]
        features = [name for name in others if _varies(columns[name], group, ~is_none)]
        constant = [name for name in others if name not in features]
        if constant:
            warnings.warn(
                f"columns {listed(constant)} are the same for all alternatives of every question, so they are no "
                "features of alternatives and are left out",
                TableWarning,
                stacklevel=3,
            )
    missing = [name for name in features if name not in columns]
    if missing:
        raise DataError(f"the table has no column {missing[0]!r} for a feature, but {listed(columns)}; correct items=")
    rows = np.flatnonzero(~is_none)
    table = {"row": rows} | {name: columns[name][rows] for name in dict.fromkeys((*named, *features))}
    catalog = read_items(table, "row", categorical=categorical)
    kinds, first, number = np.unique(catalog.features + 0.0, axis=0, return_index=True, return_inverse=True)
    item = np.full(len(is_none), -1)
    item[rows] = number.reshape(-1)
    names = None
    if "item" in columns and columns["item"].dtype.kind == "O":
        names = columns["item"][rows][first]
        names = names if np.array_equal(names[item[rows]], columns["item"][rows]) else None
    return Items(np.arange(len(kinds)), kinds, catalog.feature_names, names), columns | {"item": item}


def _varies(column: Column, group: Ints, among: Bools) -> bool:
    """Return whether a column ever differs between two alternatives of one question."""
    codes, group = _codes(column[among]), group[among]
    return len(np.unique(group * (codes.max(initial=0) + 1) + codes)) > len(np.unique(group))


# -------------------------------------------------------------------------------------- which rows are usable


def code_choices(
    columns: Columns, item_ids: Column | None, user_ids: Any, none: str | int | None, on_bad: OnBad
) -> CodedSets:
    """Return the usable questions in numbers.

    Parameters
    ----------
    columns : dict of (T,) arrays
        As `name_choices` returns them.
    item_ids : (N,) array or None
        What alternatives may be; None: integers are row numbers, text is taken as found, sorted.
    user_ids : (K,) array-like or None
        Who user may be; None: everybody who occurs, sorted.
    none : str, int or None
        What "none of them" is called.
    on_bad : {'drop', 'raise'}
    """
    if on_bad not in ("drop", "raise"):
        raise DataError(f"on_bad is {on_bad!r}, but must be 'drop' or 'raise'")
    shape = choice_shape(columns)
    if shape is None:
        raise DataError(f"the table has the columns {listed(columns)}, which hold no choices; {EXPECTED_COLUMNS}")
    rows = _long(columns, none, item_ids) if shape == "long" else _wide(columns, none, item_ids)
    sieve, question, is_none = rows.sieve, rows.question, rows.is_none
    user = present_ids(rows.user, "user", sieve)
    people = None if user_ids is None else unique_ids(user_ids, "user_ids")
    user = user if people is None else code_known(user, people, "user", sieve)
    item = present_ids(rows.item, "item", sieve)
    _check_none(none, is_none, item_ids)
    known = found_items([item], sieve) if item_ids is None else item_ids
    codes = np.where(is_none, -1, code_known(item, known, "item", sieve))
    size = np.bincount(question, minlength=sieve.n)
    sieve.reject(size[question] < 2, "set of one alternative", item, "a question needs two or more")
    weight = read_weight(rows.weight, sieve)
    uneven = weight != weight[(np.cumsum(size) - size)[question]]
    sieve.reject(uneven, "weights that differ within a question", weight, "give all alternatives the same weight")
    place, shortened = _places(rows)
    sieve.report(on_bad)
    dropped = dict(sieve.dropped) | _report_shortened(shortened & sieve.keep, rows, on_bad)

    kept = question[sieve.keep]
    begin = np.flatnonzero(np.r_[True, kept[1:] != kept[:-1]])
    user, weight = user[sieve.keep][begin], weight[sieve.keep][begin]
    if people is None:
        people = distinct(user)
        user = codes_of(user, people)
    offsets = np.r_[begin, len(kept)].astype(np.int64)
    return CodedSets(user, offsets, codes[sieve.keep], place[sieve.keep], weight, people, known, dropped)


def _check_none(none: str | int | None, is_none: Bools, item_ids: Column | None) -> None:
    if item_ids is not None and is_none.any() and str(none) in map(str, item_ids.tolist()):
        raise DataError(
            f"{none!r} is the id of an item and also means none of them; call one of the two otherwise and pass "
            "none='…', or none=None if nobody could choose none"
        )


def _places(rows: SetRows) -> tuple[Ints, Bools]:
    """Return the place of each alternative, and whether its question lost places to ranks that are shared.

    1, 2, … for those whose rank nobody else has, down to the first that is shared; −1 for the worst; 0 for the rest.
    """
    question, sieve, rank = rows.question, rows.sieve, np.where(np.isnan(rows.rank), np.inf, rows.rank)
    n_worst = np.bincount(question[rows.is_worst], minlength=sieve.n)
    sieve.reject(n_worst[question] > 1, "more than one worst", expected="name one, or number every asking by itself")
    sieve.reject(rows.is_worst & np.isfinite(rank), "best or ranked and the worst", expected="it is one or the other")
    silent = (np.bincount(question[np.isfinite(rank)], minlength=sieve.n) == 0) & (n_worst == 0)
    sieve.reject(
        silent[question], "nothing chosen", expected="one alternative comes first; 'none' needs a row of its own"
    )
    order = np.lexsort((rank, question))
    q, r = question[order], rank[order]
    size = np.bincount(question, minlength=sieve.n)
    position = np.arange(len(order)) - (np.cumsum(size) - size)[q]
    equal = (q[1:] == q[:-1]) & (r[1:] == r[:-1]) & np.isfinite(r[1:])
    shared = np.zeros(len(order), dtype=np.bool_)
    shared[1:] |= equal
    shared[:-1] |= equal
    begin = size.copy()  # the first place of each question that is shared
    np.minimum.at(begin, q[shared], position[shared])
    first_shared = np.full(sieve.n, np.inf)
    np.minimum.at(first_shared, q[shared], r[shared])
    place = np.zeros(len(order), dtype=np.int64)
    place[order] = np.where(np.isfinite(r) & (position < begin[q]), position + 1, 0)
    place[rows.is_worst] = -1
    sieve.reject(
        (begin == 0)[question] & np.isfinite(rank),
        "more than one in the first place",
        expected="say which one came first, or number every asking by itself; grades are read by Ratings",
    )
    lost = np.zeros(sieve.n, dtype=np.bool_)
    lost[question[(rank > first_shared[question])]] = True
    return place, lost[question]


def _report_shortened(shortened: Bools, rows: SetRows, on_bad: OnBad) -> dict[str, int]:
    """Warn or raise about rankings of which a part is not used, because alternatives share a rank."""
    n = len(np.unique(rows.question[shortened]))
    if not n:
        return {}
    assert rows.sieve.place is not None
    message = (
        f"{n} rankings give several alternatives the same rank, first in row {rows.sieve.place[np.argmax(shortened)]}; "
        "only the places above the first shared rank are used: break the ties to use all of them"
    )
    if on_bad == "raise":
        raise DataError(message)
    warnings.warn(message, TableWarning, stacklevel=4)
    return {"shared ranks, and what is below them": n}


# --------------------------------------------------------------------------------------- one row per alternative


def _long(columns: Columns, none: str | int | None, item_ids: Column | None) -> SetRows:
    group = _groups(columns["user"], columns["question"])
    order = np.argsort(group, kind="stable")
    columns = {name: columns[name][order] for name in KNOWN if name in columns}
    sieve = Sieve(len(order), what="questions", group=group[order], place=order)
    present_ids(columns["question"], "question", sieve)
    is_none = _are_none(columns["item"].tolist(), none)
    item = _ids(columns["item"].tolist(), is_none, item_ids, loose=True) if is_none.any() else columns["item"]
    rank, is_worst = _marks(columns, sieve)
    return SetRows(columns["user"], group[order], item, is_none, rank, is_worst, columns.get("weight"), sieve)


def _marks(columns: Columns, sieve: Sieve) -> tuple[Floats, Bools]:
    """Return the rank of each alternative, NaN where it has none, and which are the worst."""
    given = [name for name in LONG_ANSWERS if name in columns]
    firsts = [name for name in given if name != "worst"]
    if len(firsts) > 1 or {"best_worst", "worst"} <= set(given):
        raise DataError(f"the answers are given by {listed(given)}; give one of them, or best and worst")
    nothing = np.full(len(sieve.keep), np.nan)
    if "best_worst" in columns:
        mark = _flags(columns["best_worst"], BEST_WORST, "1 for the best, −1 for the worst, else 0", sieve)
        return np.where(mark == 1, 1.0, np.nan), mark == -1
    is_worst = np.zeros(len(nothing), dtype=np.bool_)
    if "worst" in columns:
        is_worst = _flags(columns["worst"], FLAGS, "1 for the worst and 0 for the others", sieve) == 1
    if not firsts:
        return nothing, is_worst
    column = columns[firsts[0]]
    if firsts != ["rank"]:
        return np.where(
            _flags(column, FLAGS, "1 for the first and 0 for the others", sieve) == 1, 1.0, np.nan
        ), is_worst
    rank = numbers_of(column, "rank", "ranks are numbers, 1 for the best")
    bad = np.isinf(rank) | (rank < 1)
    sieve.reject(bad, "rank below 1", rank, "1 is the best; leave the rank empty where an alternative has none")
    return rank, is_worst


def _flags(column: Column, known: Mapping[str, float], expected: str, sieve: Sieve) -> Floats:
    mark = np.array([known.get(text.lower(), np.nan) for text in _texts(column.tolist())], dtype=np.float64)
    sieve.reject(np.isnan(mark), "unreadable choice", column, expected)
    return mark


def _groups(user: Column, question: Column) -> Ints:
    """Return a number (T,) for each person's question, in the order in which they first occur."""
    people, asked = (_codes(*as_ids(column, name)) for column, name in ((user, "user"), (question, "question")))
    _, first, number = np.unique(people * (asked.max(initial=0) + 1) + asked, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return place[number.reshape(-1)]


def _codes(column: Column, missing: Bools | None = None) -> Ints:
    """Return numbers (T,) that two cells share exactly when they are equal, or both missing."""
    kinds: dict[Any, int] = {}
    cells = column.tolist() if column.dtype.kind in "if" else _texts(column.tolist())
    codes = np.fromiter((kinds.setdefault(cell, len(kinds)) for cell in cells), np.int64, len(cells))
    return codes if missing is None else np.where(missing, len(kinds), codes)


# ------------------------------------------------------------------------------------------ one row per question


class Answer(NamedTuple):
    """An alternative that somebody named: the question, what it is called, and its rank, NaN for the worst."""

    question: int
    text: str
    rank: float


def _wide(columns: Columns, none: str | int | None, item_ids: Column | None) -> SetRows:
    """Return tables with one row per question."""
    names, called = set_columns(columns), "" if none is None else str(none).strip()
    orders = _parts(columns["ranking"]) if "ranking" in columns else []
    if names:
        rows: Iterable[Sequence[Any]] = zip(*(columns[name].tolist() for name in names), strict=True)
    elif "shown" in columns:
        rows = [[cell for (cell, *_) in parts] for parts in _parts(columns["shown"], tie=None)]
    else:
        rows = [[cell for tied in parts for cell in tied] for parts in orders]
    answers = _answers(columns, orders)
    # a set that is altogether empty keeps one empty cell, which is then refused with its row
    sets = [[(j, cell, text) for j, cell in enumerate(row) if (text := _text(cell))] or [(0, None, "")] for row in rows]
    answered = called and any(answer.text == called for answer in answers)
    if answered and not any(text == called for shown in sets for *_, text in shown):
        sets = [[*shown, (len(names), called, called)] for shown in sets]  # offered in every question
    question = np.repeat(np.arange(len(sets)), list(map(len, sets)))
    column = [j for shown in sets for j, _, _ in shown]
    cells = [cell for shown in sets for _, cell, _ in shown]
    texts = [text for shown in sets for *_, text in shown]
    is_none = np.array([text == called != "" for text in texts], dtype=np.bool_)
    sieve = Sieve(len(cells), what="questions", group=question, place=question)
    found = _rows_named(answers, question, column, texts, is_none, names)
    unread = {answers[i].question: answers[i].text for i in np.flatnonzero(found < 0).tolist()}
    values = objects(unread.get(q) for q in question.tolist())
    expected = "an answer names one alternative of its question"
    sieve.reject(np.isin(question, list(unread)), "answer that is none of the alternatives", values, expected)
    given = np.array([answer.rank for answer in answers], dtype=np.float64)
    ranked, rank, is_worst = np.isfinite(given) & (found >= 0), np.full(len(cells), np.nan), np.zeros(len(cells), bool)
    rank[found[ranked]] = given[ranked]
    is_worst[found[np.isnan(given) & (found >= 0)]] = True
    twice = np.bincount(found[ranked], minlength=len(cells)) > 1
    sieve.reject(twice, "alternative ranked twice", expected="an alternative has one rank")
    item = _ids(cells, is_none, item_ids, loose=bool(is_none.any()) or not names)
    weight = columns["weight"][question] if "weight" in columns else None
    return SetRows(columns["user"][question], question, item, is_none, rank, is_worst, weight, sieve)


def _parts(column: Column, tie: str | None = "=") -> list[list[list[Any]]]:
    """Return the alternatives in each cell, a list or text such as b>a=c; those tied with each other together."""
    cells = column.tolist()
    used = (by for by in SEPARATORS if any(isinstance(cell, str) and by in cell for cell in cells))
    by = next(used, SEPARATORS[0])
    parts: list[list[list[Any]]] = []
    for cell in cells:
        if isinstance(cell, list | tuple | np.ndarray):
            parts.append([[plain(part)] for part in cell])
        else:
            tied = [part.split(tie) if tie else [part] for part in _text(cell).split(by)]
            parts.append([[name.strip() for name in names] for names in tied] if _text(cell) else [])
    return parts


def _answers(columns: Columns, orders: list[list[list[Any]]]) -> list[Answer]:
    """Return what the answers of a table with one row per question name."""
    given = [name for name in WIDE_ANSWERS if name in columns]
    if len([name for name in given if name != "worst"]) > 1:
        raise DataError(f"the answers are given by {listed(given)}; give one of them, or best and worst")
    named = [
        Answer(question, text, np.nan if name == "worst" else 1.0)
        for name in given if name != "ranking"
        for question, text in enumerate(_texts(columns[name].tolist())) if text
    ]  # fmt: skip
    ranked = ((q, rank, tied) for q, parts in enumerate(orders) for rank, tied in enumerate(parts, start=1))
    return named + [Answer(question, _text(cell), float(rank)) for question, rank, tied in ranked for cell in tied]


def _rows_named(
    answers: list[Answer], question: Ints, column: list[int], texts: list[str], is_none: Bools, names: list[str]
) -> Ints:
    """Return the row of the alternative that each answer names, −1 where it names none, or two.

    Answers name alternatives by their ids or by their columns: a, item_1, or the end of such a name, or its number.
    Which of the two is decided once for the whole table, by what reads more of it.
    """
    cut = len(names[0]) - 1 if names else 0
    labels = {label.lower(): j for j, name in enumerate(names) for label in (name, name[cut:], str(j + 1))}
    by_id: dict[tuple[int, str], int] = {}
    by_column = {}
    for row, (q, j, text) in enumerate(zip(question.tolist(), column, texts, strict=True)):
        by_id[q, text] = -1 if (q, text) in by_id else row
        by_column[q, j] = row
    ids = np.array([by_id.get((q, text), -1) for q, text, _ in answers], dtype=np.int64)
    at = [by_column.get((q, labels.get(text.lower(), -1)), -1) for q, text, _ in answers]
    columns = np.where((ids >= 0) & is_none[ids], ids, np.array(at, dtype=np.int64))
    n_ids, n_columns = int(np.sum(ids >= 0)), int(np.sum(columns >= 0))
    if names and n_ids == n_columns and np.any(ids != columns):
        raise DataError(
            f"the answers, such as {answers[int(np.argmax(ids != columns))].text!r}, can be read as items or as the "
            f"columns {listed(names)}, which says different things; call alternatives in one way, which fits only one"
        )
    return ids if n_ids >= n_columns else columns


def _text(cell: Any) -> str:
    """Return what a cell says, '' where nothing does; 1.0 is the same as 1."""
    if isinstance(cell, float):
        return "" if isnan(cell) else str(int(cell)) if cell.is_integer() else str(cell)
    return "" if cell is None else str(cell).strip()


def _texts(cells: Iterable[Any]) -> list[str]:
    return [_text(cell) for cell in cells]


def _are_none(cells: Sequence[Any], none: str | int | None) -> Bools:
    """Return which cells say "none of them"."""
    called = "" if none is None else str(none).strip()
    return np.fromiter((called != "" and _text(cell) == called for cell in cells), np.bool_, len(cells))


def _ids(cells: list[Any], is_none: Bools, known: Column | None, *, loose: bool) -> Column:
    """Return cells as ids of items, where some say "none of them" or were cut out of longer text.

    Numbers that are text only for that reason become numbers, unless items are known by text. Where a row says "none
    of them" stands any item.
    """
    named = [cell for cell, skip in zip(cells, is_none.tolist(), strict=True) if not skip and _text(cell)]
    whole = [
        (isinstance(cell, int) and not isinstance(cell, bool)) or (isinstance(cell, float) and cell.is_integer())
        for cell in named
    ]
    as_numbers = all(whole) and bool(named)
    if not as_numbers and (loose or any(whole)) and (known is None or known.dtype.kind == "i"):
        as_numbers = all(INTEGER.fullmatch(_text(cell)) for cell in named)
    same_kind = known is not None and len(known) > 0 and (known.dtype.kind == "i") == as_numbers
    any_item = plain(known[0]) if known is not None and same_kind else named[0] if named else 0
    cells = [any_item if skip else cell for cell, skip in zip(cells, is_none.tolist(), strict=True)]
    if as_numbers:
        return as_column(objects(int(_text(cell)) if _text(cell) else None for cell in cells), "item")
    return as_column(objects(_text(cell) or None for cell in cells), "item")
