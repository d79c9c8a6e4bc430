"""Columns of answers -> coded rows, and a count of the rows that could not be used.

An answer is written in one of four ways::

    response                 −1 left preferred, +1 right preferred; or a real ψ ("unquantized")
    choice                   'left', 'right', 'tie', 0 (left) or 1 (right); or A, B; or 1, 2; or the item chosen
    probability              of preferring left, in [0, 1]
    winner, loser            instead of left, right

A tie is half an answer either way: two rows of half the weight, with responses −1 and +1. A probability p is
two rows as well, with the shares p and 1 − p of the weight; a row of no share is left out.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError, DroppedRowsWarning, option
from crowdmetric.tables.codings import EXPECTED, ChoiceSurvey, tokens
from crowdmetric.tables.columns import Column, Columns, as_ids, listed, plain, unique_ids

__all__ = [
    "PEOPLE",
    "CodedAnswers",
    "OnBad",
    "Sieve",
    "canonical_columns",
    "check_distinct",
    "code_answers",
    "code_known",
    "codes_of",
    "distinct",
    "find_column",
    "found_items",
    "numbers_of",
    "present_ids",
    "read_choice",
    "read_probability",
    "read_response",
    "read_weight",
    "relevant_columns",
    "rename_columns",
    "sift_answers",
    "survey_choices",
]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
OnBad = Literal["drop", "raise"]

# Other names of a column, used if its own name is absent.
PEOPLE = ("user", "user_id", "person", "person_id", "participant", "subject", "rater", "annotator", "worker")
ALIASES = {"user": PEOPLE[1:], "left": ("left_id", "item_a"), "right": ("right_id", "item_b")}
ANSWERS = ("response", "choice", "probability")
MOST_UNNAMED_ITEMS = 10_000_000  # a larger integer is more likely an id than the row number of an item


class CodedAnswers(NamedTuple):
    """Usable rows: people and items by number, a response and a weight each (T,); see `Comparisons`."""

    user: Ints
    left: Ints
    right: Ints
    response: Floats
    weight: Floats
    user_ids: Column
    item_ids: Column
    dropped: dict[str, int]


# ---------------------------------------------------------------------------------- which column is which


def canonical_columns(columns: Columns, names: Mapping[str, str]) -> Columns:
    """Return the columns that matter, under the names `code_answers` knows.

    Parameters
    ----------
    columns : dict of (T,) arrays
    names : mapping
        The names asked for ``user``, ``left`` and ``right``; aliases stand in where a default is absent.
    """
    check_distinct(names)
    chosen = {name: columns[name] for name in (*ANSWERS, "weight") if name in columns}
    places = {name: find_column(columns, name, asked) for name, asked in names.items()}
    if "winner" in columns or "loser" in columns:
        _check_winners(columns, [places["left"], places["right"], *(n for n in ANSWERS if n in columns)])
        places |= {"left": "winner", "right": "loser"}
        chosen["response"] = np.full(len(columns["winner"]), -1.0)
    missing = [name for name, found in places.items() if found is None]
    if missing:
        flags = ",".join(f"{name}=NAME" for name in missing)
        tried = " (nor under another usual name)" if any(names[name] == name for name in missing) else ""
        raise DataError(
            f"the table has no column {listed([names[name] for name in missing])}{tried}, but "
            f"{listed(columns)}; rename {'the column' if len(missing) == 1 else 'the columns'} or pass "
            f"{option(', '.join(f'{name}=…' for name in missing), f'--columns {flags}')}"
        )
    for name, found in places.items():
        chosen[name] = columns[str(found)]
    return chosen


def check_distinct(names: Mapping[str, str]) -> None:
    """Refuse names of columns, by what they are for, of which two are the same column."""
    for name, called in names.items():
        twin = next((other for other in names if other != name and names[other] == called), None)
        if twin is not None:
            raise DataError(
                f"{name} and {twin} are both the column {called!r}, but each needs a column of its own; correct "
                f"{option('the names', '--columns')}"
            )


def rename_columns(columns: Columns, names: Mapping[str, str] | None) -> Columns:
    """Return the columns with those of `names` under the names that this library knows: ``{"user": "participant"}``."""
    renamed = dict(columns)
    check_distinct(names or {})
    for name, asked in (names or {}).items():
        if asked not in columns:
            raise DataError(f"the table has no column {asked!r} for {name}, but {listed(columns)}; correct the name")
        renamed.pop(asked, None)
    return renamed | {name: columns[asked] for name, asked in (names or {}).items()}


def relevant_columns(columns: Collection[str], names: Mapping[str, str]) -> list[str]:
    """Return those of a table's columns that `canonical_columns` looks at."""
    aliases = [alias for several in ALIASES.values() for alias in several]
    wanted = {*names.values(), *aliases, *ANSWERS, "weight", "winner", "loser"}
    return [name for name in columns if name in wanted]


def find_column(columns: Collection[str], name: str, asked: str) -> str | None:
    """Return the column of `name`, under the name `asked` or an alias; None if there is none."""
    if asked in columns:
        return asked
    found = [alias for alias in ALIASES[name] if asked == name and alias in columns]
    if len(found) > 1:
        raise DataError(
            f"columns {listed(found)} could all be {name}; choose with "
            f"{option(f'{name}={found[0]!r}', f'--columns {name}={found[0]}')}"
        )
    return found[0] if found else None


def _check_winners(columns: Columns, others: list[str | None]) -> None:
    present = [name for name in ("winner", "loser") if name in columns]
    both = present + [name for name in others if name is not None]
    if both != ["winner", "loser"]:
        raise DataError(
            f"the table has the columns {listed(both)}; give winner and loser alone, or left "
            "and right with one of response, choice and probability"
        )


# -------------------------------------------------------------------------------------- which rows are usable


class Sieve:
    """Which of T rows are kept; a row that is not counts once, under the first reason found.

    `first` is the number of the first row in the whole table, where it is read in pieces; `what` is what a row is
    called in messages. Where several rows are one question, `group` (T,) numbers the questions, which are then what is
    counted and left out as a whole, and `place` (T,) says where each row stands in the table.
    """

    def __init__(
        self,
        n: int,
        first: int = 0,
        what: str = "comparisons",
        group: Ints | None = None,
        place: Ints | None = None,
    ) -> None:
        self.keep = np.ones(n, dtype=bool)
        self.what = what
        self.group, self.place = group, place
        self.first, self.n, self.earlier = first, n if group is None else int(group.max(initial=-1)) + 1, 0
        self.dropped: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def reject(self, bad: Bools, reason: str, values: Column | None = None, expected: str = "") -> None:
        """Leave out the `bad` rows; the first one's value is quoted, with what was expected instead."""
        bad = bad & self.keep
        if not bad.any():
            return
        row = int(np.argmax(bad))
        value = "" if values is None else f"{plain(values[row])!r} "
        number = self.first + row if self.place is None else int(self.place[row])
        self._examples.setdefault(reason, f"{value}in row {number}" + (f"; {expected}" if expected else ""))
        if self.group is not None:
            whole = np.bincount(self.group[bad], minlength=self.n) > 0
            bad = whole[self.group]
        self.dropped[reason] += int(bad.sum() if self.group is None else whole.sum())
        self.keep &= ~bad

    def after(self, earlier: Sieve) -> None:
        """Count what an earlier piece of the same table had left out, too."""
        self.dropped = earlier.dropped + self.dropped
        self._examples = self._examples | earlier._examples
        self.n, self.earlier = self.n + earlier.n, earlier.kept

    @property
    def kept(self) -> int:
        """How many rows are kept, earlier pieces included."""
        return self.earlier + int(self.keep.sum())

    def report(self, on_bad: OnBad, stacklevel: int = 4) -> None:
        """Warn or raise about what was left out; raise when nothing remains."""
        counts = ", ".join(f"{n} × {reason} (first {self._examples[reason]})" for reason, n in self.dropped.items())
        total, n = self.dropped.total(), self.n
        if not self.kept:
            raise DataError(
                f"none of the {n} {self.what} can be used: {counts}; correct the table"
                if n
                else f"the table of {self.what} has no rows; at least one was expected"
            )
        if total and on_bad == "raise":
            raise DataError(
                f"{total} of {n} {self.what} cannot be used: {counts}; correct them, or leave them out with "
                "on_bad='drop'"
            )
        if total:
            message = f"{total} of {n} {self.what} cannot be used and are dropped: {counts}"
            # By default, points at the caller of Comparisons.from_arrays or from_table.
            warnings.warn(message, DroppedRowsWarning, stacklevel=stacklevel)


def code_answers(columns: Columns, item_ids: Column | None, user_ids: Any, on_bad: OnBad) -> CodedAnswers:
    """Return the usable rows in numbers.

    Parameters
    ----------
    columns : dict of (T,) arrays
        ``user``, ``left``, ``right``; ``response``, ``choice`` or ``probability``; perhaps ``weight``.
    item_ids : (N,) array or None
        What left and right may be; None: integers are row numbers, text is taken as found, sorted.
    user_ids : (K,) array-like or None
        Who user may be; None: everybody who occurs, sorted.
    on_bad : {'drop', 'raise'}
    """
    if on_bad not in ("drop", "raise"):
        raise DataError(f"on_bad is {on_bad!r}, but must be 'drop' or 'raise'")
    sieve = Sieve(len(columns["user"]))
    coded = sift_answers(columns, item_ids, user_ids, sieve, survey_choices(columns).decide())
    sieve.report(on_bad)
    return coded


def sift_answers(
    columns: Columns, item_ids: Column | None, user_ids: Any, sieve: Sieve, survey: ChoiceSurvey
) -> CodedAnswers:
    """Return the rows that pass the sieve, in numbers; see `code_answers`."""
    user, left, right = (present_ids(columns[name], name, sieve) for name in ("user", "left", "right"))
    responses, shares = _read_answers(columns, sieve, survey)
    weight = read_weight(columns.get("weight"), sieve)
    _reject_self_comparisons(left, right, sieve)
    people = None if user_ids is None else unique_ids(user_ids, "user_ids")
    user = user if people is None else code_known(user, people, "user", sieve)
    items = found_items([left, right], sieve) if item_ids is None else item_ids
    left, right = (code_known(side, items, "item", sieve) for side in (left, right))
    if people is None:
        people = distinct(user[sieve.keep])
        user = codes_of(user, people)
    # Rows left out may hold anything, even infinities. Their weight is 0.
    weights = np.where(sieve.keep, weight, 0.0)[:, None] * np.where(sieve.keep[:, None], shares, 0.0)
    row, side = np.nonzero(weights)  # row by row, so the two halves of a tie stay together
    return CodedAnswers(
        user[row],
        left[row],
        right[row],
        responses[row, side],
        weights[row, side],
        people,
        items,
        dict(sieve.dropped),
    )


def present_ids(column: Column, name: str, sieve: Sieve) -> Column:
    """Return a column of ids, whole numbers or text; rows without one are rejected."""
    ids, missing = as_ids(column, name)
    sieve.reject(missing, "missing value", expected=f"{name} is empty there")
    return ids


def read_weight(column: Column | None, sieve: Sieve) -> Floats:
    """Return the weights, 1 where there is no column of them; rows that weigh nothing are rejected."""
    if column is None:
        return np.ones(len(sieve.keep))
    weight = numbers_of(column, "weight", "weights must be numbers")
    bad = ~(np.isfinite(weight) & (weight >= 0))
    sieve.reject(bad, "negative or non-finite weight", weight, "a weight is positive and finite")
    sieve.reject(weight == 0, "zero weight", expected="a row that counts has a positive weight")
    return weight


def numbers_of(column: Column, name: str, expected: str) -> Floats:
    """Return a column as numbers; text is an error that says what was expected."""
    if column.dtype.kind not in "if":
        example = next((value for value in column if value is not None), None)
        raise DataError(f"{name} holds {plain(example)!r}, but {expected}")
    return column.astype(np.float64)


def _reject_self_comparisons(left: Column, right: Column, sieve: Sieve) -> None:
    if _is_text(left) != _is_text(right) and sieve.keep.any():
        first = np.argmax(sieve.keep)
        raise DataError(
            f"left holds {plain(left[first])!r} and right {plain(right[first])!r}; name items on both sides "
            "by integers, or on both by text"
        )
    same = np.asarray(left == right, dtype=bool)
    sieve.reject(same, "self-comparison", left, "two different items are needed")


# ----------------------------------------------------------------------------------------- what was answered


def _read_answers(columns: Columns, sieve: Sieve, survey: ChoiceSurvey) -> tuple[Floats, Floats]:
    """Return the responses that a row stands for and the share of its weight each has, ``(T, 1 or 2)``."""
    given = [name for name in ANSWERS if name in columns]
    if len(given) != 1:
        raise DataError(
            f"the answers are given by {listed(given) if given else 'no column'}; exactly one of "
            f"{listed(ANSWERS)} is needed, or winner and loser"
        )
    column = columns[given[0]]
    if given == ["response"]:
        response = read_response(column, sieve)
        return response[:, None], np.ones((len(response), 1))
    if given == ["choice"]:
        left = read_choice(column, sieve, survey, columns["left"], columns["right"])
    else:
        left = read_probability(column, sieve)
    return np.broadcast_to([-1.0, 1.0], (len(left), 2)), np.column_stack([left, 1 - left])


def read_response(column: Column, sieve: Sieve) -> Floats:
    """Return the response of each row, −1, +1 or real."""
    response = numbers_of(
        column,
        "response",
        "responses are −1 (left preferred), +1 (right preferred) or real numbers; name the column choice "
        "if it holds 'left', 'right', 'tie', 0 (left) or 1 (right)",
    )
    sieve.reject(np.isnan(response), "missing value", expected="response is empty there")
    sieve.reject(np.isinf(response), "infinite response", response, "a response is finite")
    kept = response[sieve.keep]
    if np.any(kept == 0) and np.all(np.isin(kept, (-1, 0, 1))):
        raise DataError(
            f"{np.sum(kept == 0)} responses are 0, but −1 means left preferred and +1 right preferred; for "
            "ties give choice='tie' instead, and if 0 stands for left and 1 for right, name the column choice"
        )
    return response


def read_choice(
    column: Column, sieve: Sieve, survey: ChoiceSurvey, left: Column | None = None, right: Column | None = None
) -> Floats:
    """Return left's share of each row: 1, 0 or, for a tie, ½; NaN if the choice cannot be read."""
    missing = np.fromiter((not cell for cell in tokens(column)), bool, len(column))
    share = survey.shares(column, left, right)
    sieve.reject(missing, "missing value", expected="choice is empty there")
    sieve.reject(np.isnan(share), "unreadable choice", column, EXPECTED)
    return share


def survey_choices(columns: Columns, survey: ChoiceSurvey | None = None) -> ChoiceSurvey:
    """Return what is known of the coding of choices, with these rows added."""
    survey = ChoiceSurvey() if survey is None else survey
    if "choice" in columns:
        survey.add(columns["choice"], columns.get("left"), columns.get("right"))
    return survey


def read_probability(column: Column, sieve: Sieve) -> Floats:
    """Return left's share of each row, a probability."""
    share = numbers_of(column, "probability", "the probability of preferring left must be a number in [0, 1]")
    sieve.reject(np.isnan(share), "missing value", expected="probability is empty there")
    sieve.reject((share < 0) | (share > 1), "probability outside [0, 1]", share)
    return share


# ---------------------------------------------------------------------------------------------- who and what


def _is_text(ids: Column) -> bool:
    return ids.dtype.kind in "OU"


def distinct(ids: Column) -> Column:
    """Return the distinct ids, sorted."""
    return np.array(sorted(set(ids.tolist()))) if _is_text(ids) else np.unique(ids)


def found_items(named: Sequence[Column], sieve: Sieve) -> Column:
    """Return the items that columns name, in the absence of a list: row numbers 0…N−1, or distinct text."""
    found = np.concatenate([column[sieve.keep] for column in named])
    if _is_text(found):
        return distinct(found)
    largest = int(found.max(initial=-1))
    if largest >= MOST_UNNAMED_ITEMS:
        raise DataError(
            f"{sieve.what} name item {largest}, but without a list of items integers are row numbers, and "
            f"{largest + 1} items are probably not meant; pass items= or item_ids= if they are ids, else n_items="
        )
    return np.arange(largest + 1)


def code_known(ids: Column, known: Column, what: str, sieve: Sieve) -> Ints:
    """Return the place of each id in `known`, and reject the rows whose id is not there."""
    if _is_text(ids) != _is_text(known) and sieve.keep.any():
        here, there = plain(ids[np.argmax(sieve.keep)]), plain(known[0])
        numbered = what == "item" and not _is_text(ids)
        rows = ". If these are row numbers, from 0 on, remove the column of item ids" if numbered else ""
        raise DataError(
            f"{sieve.what} name {what}s like {here!r}, but the {what} ids are like {there!r}; nothing is "
            "guessed: convert one of the two, so both are integers or both text" + rows
        )
    codes = codes_of(ids, known)
    ends = f", {plain(known[0])!r}…{plain(known[-1])!r}" if len(known) else ""
    sieve.reject(codes < 0, f"unknown {what}", ids, f"there are {len(known)} {what}s{ends}")
    return codes


def codes_of(ids: Column, known: Column) -> Ints:
    """Return ``codes (T,)`` with ``known[codes] == ids``, −1 where there is none."""
    if _is_text(ids) or _is_text(known):
        place = {name: number for number, name in enumerate(known.tolist())}
        return np.fromiter((place.get(name, -1) for name in ids.tolist()), np.int64, len(ids))
    if not len(known):
        return np.full(len(ids), -1)
    order = np.argsort(known, kind="stable")
    near = order[np.minimum(np.searchsorted(known, ids, sorter=order), len(known) - 1)]
    return np.where(known[near] == ids, near, -1)
