"""The column ``choice``: which coding it is written in, decided once for the whole table.

===============  =====================================================================================
words            'left', 'right' or 'tie'; also L and R, 'first' and 'second', 0 (left) and 1 (right)
letters          'A' (left) and 'B' (right)
one-two          1 (left) and 2 (right)
item             the id of the item that was chosen, the row's own left or right
===============  =====================================================================================

A table is read in one coding or not at all: 1 means right in one of them and left in another, and which it is can only
be decided from all rows together.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError, TableWarning
from crowdmetric.tables.columns import Column, listed

__all__ = ["EXPECTED", "ChoiceSurvey", "tokens"]

Floats = NDArray[np.float64]

# The left item's share of an answer, by coding and by value of the cell.
CODINGS: dict[str, dict[str, float]] = {
    "words": {
        "left": 1.0,
        "right": 0.0,
        "tie": 0.5,
        "0": 1.0,
        "1": 0.0,
        "l": 1.0,
        "r": 0.0,
        "first": 1.0,
        "second": 0.0,
    },
    "letters": {"a": 1.0, "b": 0.0, "tie": 0.5},
    "one-two": {"1": 1.0, "2": 0.0, "tie": 0.5},
}
EXPECTED = "a choice is 'left', 'right', 'tie', 0 (left) or 1 (right), or else A or B, 1 or 2, or the id of the item"
WORTH_A_WORD = {
    "one-two": "choice holds 1 and 2, and is read as 1 = left, 2 = right; recode it if 1 stands for right",
}
# Maximum number of distinct cells that are kept. More of them must be ids of items, and are only counted.
MOST_KINDS = 1000
# If more unreadable choices than this share, and than this number, remain, the guessed coding is wrong.
MOST_UNREADABLE, FEW = 0.2, 10
# From this many answers on, a column that always names the same side is mentioned.
SUSPICIOUS = 30


class ChoiceSurvey:
    """What stands in a column of choices, collected over the batches of a table.

    Attributes
    ----------
    coding : str
        Which of the four the table is written in; known when `decide` was called.
    """

    def __init__(self) -> None:
        self.rows = self._of_items = 0
        self._kinds: Counter[str] = Counter()
        self.coding = "words"

    def add(self, choice: Column, left: Column | None = None, right: Column | None = None) -> None:
        """Look at some rows; without `left` and `right` (quadruplets) a choice cannot be an item."""
        odd = next((cell for cell in choice.tolist() if not isinstance(cell, str | int | float | None)), None)
        if odd is not None:
            raise DataError(f"choice holds {odd!r} of type {type(odd).__name__}; {EXPECTED}")
        if choice.dtype.kind == "b":
            raise DataError("choice holds True and False, which do not say left or right; use 0 (left) and 1 (right)")
        cells = tokens(choice)
        kinds = Counter(cells)
        kinds.pop("", None)
        self.rows += kinds.total()
        if len(self._kinds) < MOST_KINDS:
            self._kinds.update(kinds)
        # words are not ids: most tables need no row-by-row check
        if left is not None and right is not None and not kinds.keys() <= CODINGS["words"].keys():
            sides = zip(cells, tokens(left), tokens(right), strict=True)
            self._of_items += sum(cell in (one, other) for cell, one, other in sides if cell)

    def decide(self) -> ChoiceSurvey:
        """Choose the coding that reads most rows, and refuse a table that none reads well."""
        read = {name: sum(self._kinds[kind] for kind in known) for name, known in CODINGS.items()}
        read["item"] = self._of_items
        # words come first among equals, then the codings in the order of this module's docstring
        self.coding = max(read, key=lambda name: read[name])
        if self.coding == "item" and self._of_items < self.rows and read["words"]:
            self.coding = "words"  # a few rows may match the name of an item by chance
        unreadable = self.rows - read[self.coding]
        if unreadable > max(MOST_UNREADABLE * self.rows, FEW):
            raise DataError(self._refusal(unreadable, read))
        self._check_ambiguous(read)
        if self.coding in WORTH_A_WORD and self.rows:
            warnings.warn(WORTH_A_WORD[self.coding], TableWarning, stacklevel=2)
        self._warn_of_one_side()
        return self

    def _warn_of_one_side(self) -> None:
        """Say so where every answer names the same side: a column of 1s is more likely no choice at all."""
        sides = {CODINGS[self.coding].get(kind) for kind in self._kinds} if self.coding != "item" else set()
        if self.rows >= SUSPICIOUS and len(sides) == 1 and sides <= {0.0, 1.0}:
            side = "left" if sides == {1.0} else "right"
            warnings.warn(
                f"choice is {next(iter(self._kinds))!r} in all {self.rows} rows, which is read as {side}; check that "
                "it says which item was chosen, or call the columns winner and loser if the first item always won",
                TableWarning,
                stacklevel=3,
            )

    def _check_ambiguous(self, read: dict[str, int]) -> None:
        """Refuse 1 and 2 that are items as well as sides, where both read every row."""
        if self.coding == "one-two" and read["item"] == self.rows:
            raise DataError(
                "choice holds 1 and 2, which may mean left and right or the items called 1 and 2; write 'left' and "
                "'right' instead"
            )

    def _refusal(self, unreadable: int, read: dict[str, int]) -> str:
        common = [kind for kind, _ in self._kinds.most_common(6)]
        best = max(read, key=lambda name: read[name])
        holds = f"{unreadable} of {self.rows} choices cannot be read: the column holds {listed(common)}"
        if common and set(common) <= {"-1", "1", "+1"}:
            return f"{holds}. That is how a column called response is written, −1 for left and +1 for right: rename it"
        if common and set(common) <= {"true", "false", "yes", "no"}:
            return f"{holds}, which do not say left or right; write 'left' and 'right' instead"
        hint = {
            "words": "as 'left', 'right' and 'tie', or 0 and 1",
            "letters": "as A (left) and B (right)",
            "one-two": "as 1 (left) and 2 (right)",
            "item": "as the ids of the items chosen",
        }[best]
        fits = f" {self.rows - unreadable} of them fit if they are read {hint}." if unreadable < self.rows else ""
        return f"{holds}.{fits} Write all rows in one way: {EXPECTED}"

    def shares(self, choice: Column, left: Column | None = None, right: Column | None = None) -> Floats:
        """Return left's share of each row: 1, 0 or, for a tie, ½; NaN if the choice cannot be read."""
        cells = tokens(choice)
        if self.coding != "item":
            known = CODINGS[self.coding]
            meaning = {cell: known.get(cell, np.nan) for cell in set(cells)}
            return np.fromiter(map(meaning.__getitem__, cells), np.float64, len(cells))
        if left is None or right is None:
            return np.full(len(cells), np.nan)
        sides = zip(cells, tokens(left), tokens(right), strict=True)
        return np.fromiter((_share(cell, one, other) for cell, one, other in sides), np.float64, len(cells))


def tokens(column: Column) -> list[str]:
    """Return what stands in each cell as lower-case text, '' where nothing does; 1.0 is the same as 1."""
    cells = column.tolist()
    if column.dtype.kind == "f":  # NaN differs from itself, and would be a new value each time
        cells = [None if missing else cell for cell, missing in zip(cells, np.isnan(column).tolist(), strict=True)]
    meaning = {cell: _token(cell) for cell in set(cells)}
    return list(map(meaning.__getitem__, cells))


def _token(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return str(cell).strip().lower()


def _share(cell: str, left: str, right: str) -> float:
    if cell == "tie":
        return 0.5
    if not cell or left == right:
        return np.nan
    return 1.0 if cell == left else 0.0 if cell == right else np.nan
