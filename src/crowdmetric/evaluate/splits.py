"""Three ways to hide answers from a model: new questions, new people, new items.

A *question* is a person and two items, in either order: the same two items shown again, or the other way round, or a
tie written as two rows, are one question and stay together. Every split hides whole questions:

=========  ==============================================  =========================================================
split      hidden                                          what it asks
=========  ==============================================  =========================================================
pairs      some questions of everybody                     what else will people say whom we know, on items we know?
people     some people, all their questions                what will somebody say of whom we know little or nothing?
items      some items, every question that shows one       what will people we know say about items nobody has seen?
=========  ==============================================  =========================================================

Pairs made from ratings or rankings are transitive: within a person, a or b? follows from a or c? and c or b?. The
first split cannot undo that. The second is free of it, and so is the third where both items of a question are new;
beside one new item, a person's own ranking of the known one still helps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from crowdmetric.canonical import canonical_of_pairs
from crowdmetric.checks import whole_number
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError

__all__ = ["SPLITS", "TITLES", "Split", "SplitPlan", "all_splits", "possible_splits", "questions_of", "split"]

Rows = NDArray[np.intp]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SplitPlan:
    """How much is hidden.

    Attributes
    ----------
    train_answers
        Questions a person to learn from, at most; None: all that are not hidden.
    hidden_pairs, hidden_people, hidden_items
        Shares that the splits hide. With `train_answers`, pairs hides everything else.
    given
        Questions of a new person that are known when the others are predicted.
    both_new
        Whether hidden questions of the items split are about two unseen items (True) or at least one.

    Examples
    --------
    >>> from crowdmetric.evaluate import SplitPlan
    >>> SplitPlan(train_answers=5).hidden_items
    0.3
    """

    train_answers: int | None = None
    hidden_pairs: float = 0.25
    hidden_people: float = 0.25
    hidden_items: float = 0.3
    given: int = 0
    both_new: bool = False

    def __post_init__(self) -> None:
        for name in ("hidden_pairs", "hidden_people", "hidden_items"):
            share = getattr(self, name)
            if not isinstance(share, int | float) or not 0 < share < 1:
                raise DataError(f"{name}={share!r} is not a share between 0 and 1")
        for name, value, least in (("train_answers", self.train_answers, 1), ("given", self.given, 0)):
            if value is not None:
                whole_number(value, name, least)


@dataclass(frozen=True)
class Split:
    """Rows of the comparisons: to learn from, known beside at prediction (of new people), and to predict.

    Attributes
    ----------
    kind : str
        A key of `SPLITS`.
    repeat : int
    train, given, test
        Row numbers, ascending, without a row in common.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric import Comparisons
    >>> answers = Comparisons.from_arrays([0, 0, 1, 1], [[0, 1], [1, 2], [0, 2], [2, 1]], [-1, 1, -1, 1])
    >>> from crowdmetric.evaluate import SplitPlan, split
    >>> parts = split(answers, 'people', SplitPlan(hidden_people=0.5, given=1))
    >>> len(parts.train), len(parts.given), len(parts.test)
    (2, 1, 1)
    """

    kind: str
    repeat: int
    train: Rows
    given: Rows
    test: Rows

    @property
    def known(self) -> Rows:
        """Rows that may be used to place the people who are asked."""
        return np.concatenate([self.train, self.given])


def questions_of(comparisons: Comparisons | _ByContent) -> tuple[Rows, Ints]:
    """Return the question (T,) of every row, 0…Q−1, and the person (Q,) of every question."""
    low, high = np.minimum(comparisons.left, comparisons.right), np.maximum(comparisons.left, comparisons.right)
    table = np.column_stack([comparisons.user, low, high])
    unique, question = np.unique(table, axis=0, return_inverse=True)
    return question.reshape(-1), unique[:, 0]


def _turn_of(person: Ints, rng: Generator) -> Ints:
    """Return the place (Q,) of every question in a random order of its person's questions, 0, 1, ….

    Who gets which order depends on the generator and the person's own questions alone.
    """
    order = np.lexsort([rng.random(person.size), person])
    first = np.searchsorted(person[order], person[order], side="left")
    turn = np.empty(person.size, dtype=np.int64)
    turn[order] = np.arange(person.size) - first
    return turn


def _at_most(train: NDArray[np.bool_], person: Ints, most: int | None, rng: Generator) -> NDArray[np.bool_]:
    """Return which questions (Q,) to learn from: at most so many of every person."""
    if most is None:
        return train
    kept = np.zeros_like(train)
    chosen = np.flatnonzero(train)
    kept[chosen] = _turn_of(person[chosen], rng) < most
    return kept


def _share(size: int, share: float) -> int:
    """Return how many to hide: at least one, and never all."""
    return min(max(1, round(share * size)), size - 1)


@dataclass(frozen=True)
class _ByContent:
    """Who was asked about which items, by numbers that do not depend on names or on any order."""

    user: Ints
    left: Ints
    right: Ints
    n_users: int
    n_items: int

    @staticmethod
    def of(comparisons: Comparisons, items: Any) -> _ByContent:
        """Return some answers with people and items numbered by content; `items` (N, d) are features, or None."""
        n_users, n_items = comparisons.n_users, comparisons.n_items
        by_content = canonical_of_pairs(
            comparisons.user, comparisons.pairs, comparisons.response, comparisons.weight, n_users, n_items, items
        )
        left, right = by_content.items[comparisons.left], by_content.items[comparisons.right]
        return _ByContent(by_content.people[comparisons.user], left, right, n_users, n_items)


Masks = tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]


def _by_pairs(comparisons: _ByContent, question: Rows, person: Ints, plan: SplitPlan, rng: Generator) -> Masks:
    turn, count = _turn_of(person, rng), np.bincount(person, minlength=comparisons.n_users)[person]
    if plan.train_answers is not None:
        train = turn < plan.train_answers
    else:
        # a share of each person's answers, rounded at random: otherwise nothing would be hidden in short questionnaires
        lucky = rng.random(comparisons.n_users)[person]
        hidden = np.minimum(np.floor(plan.hidden_pairs * count + lucky), count - 1)
        train = turn >= hidden
    return train, np.zeros_like(train), ~train


def _by_people(comparisons: _ByContent, question: Rows, person: Ints, plan: SplitPlan, rng: Generator) -> Masks:
    everybody = np.unique(person)
    if everybody.size < 2:
        raise DataError("the people split needs at least two people who answered; use split 'pairs' or 'items'")
    hidden = rng.permutation(everybody)[: _share(everybody.size, plan.hidden_people)]
    new = np.isin(person, hidden)
    given = new & (_turn_of(person, rng) < plan.given)
    return _at_most(~new, person, plan.train_answers, rng), given, new & ~given


def _by_items(comparisons: _ByContent, question: Rows, person: Ints, plan: SplitPlan, rng: Generator) -> Masks:
    shown = np.unique([comparisons.left, comparisons.right])
    if shown.size < 3:
        raise DataError(f"the items split needs at least three items, but {shown.size} were compared; leave it out")
    hidden = np.zeros(comparisons.n_items, dtype=bool)
    hidden[rng.permutation(shown)[: _share(shown.size, plan.hidden_items)]] = True
    first = np.zeros(person.size, dtype=np.intp)
    first[question] = np.arange(question.size)  # any row of a question shows its two items
    unseen = hidden[comparisons.left[first]].astype(int) + hidden[comparisons.right[first]]
    train = _at_most(unseen == 0, person, plan.train_answers, rng)
    return train, np.zeros_like(train), unseen == 2 if plan.both_new else unseen > 0


# A new split is one line here; the property tests go through the list.
SPLITS: dict[str, Callable[[_ByContent, Rows, Ints, SplitPlan, Generator], Masks]] = {
    "pairs": _by_pairs,
    "people": _by_people,
    "items": _by_items,
}


TITLES = {
    "pairs": "New questions to known people",
    "people": "New people",
    "items": "New items",
}


def possible_splits(comparisons: Comparisons) -> list[str]:
    """Return the splits that leave something to learn from and something to predict, by their names.

    Raises the error of the first of them where none does.
    """
    possible, errors, asked = [], [], _ByContent.of(comparisons, None)
    for kind in SPLITS:
        try:
            _split(asked, kind, SplitPlan(), 0, 0)
        except DataError as error:
            errors.append(error)
        else:
            possible.append(kind)
    if not possible:
        raise errors[0]
    return possible


def split(
    comparisons: Comparisons, kind: str, plan: SplitPlan, *, repeat: int = 0, seed: int = 0, items: Any = None
) -> Split:
    """Return the rows to learn from and the rows to predict.

    What is hidden depends on the seed and on who answered what, not on names, on the order of rows, people or items, or
    on which item stood on the left.

    Parameters
    ----------
    comparisons : Comparisons
    kind : {'pairs', 'people', 'items'}
    plan : SplitPlan
    repeat, seed : int
        Another repeat hides other questions; the same seed hides the same ones.
    items : (N, d) array, optional
        Features, which tell items apart that were answered about in the same way.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric import Comparisons
    >>> answers = Comparisons.from_arrays([0, 0, 1, 1], [[0, 1], [1, 2], [0, 2], [2, 1]], [-1, 1, -1, 1])
    >>> from crowdmetric.evaluate import SplitPlan, split
    >>> parts = split(answers, 'people', SplitPlan(hidden_people=0.5))
    >>> len(parts.train), len(parts.test)
    (2, 2)
    """
    return _split(_ByContent.of(comparisons, items), kind, plan, repeat, seed)


def all_splits(
    comparisons: Comparisons, kinds: Sequence[str], plan: SplitPlan, repeats: int, seed: int, items: Any
) -> list[Split]:
    """Return several splits of the same answers, all repeats of a kind together."""
    asked = _ByContent.of(comparisons, items)
    return [_split(asked, kind, plan, repeat, seed) for kind in kinds for repeat in range(repeats)]


def _split(asked: _ByContent, kind: str, plan: SplitPlan, repeat: int, seed: int) -> Split:
    if kind not in SPLITS:
        raise DataError(f"split {kind!r} is unknown; use one of {', '.join(map(repr, SPLITS))}")
    question, person = questions_of(asked)
    rng = np.random.default_rng([seed, repeat, list(SPLITS).index(kind)])
    train, given, test = SPLITS[kind](asked, question, person, plan, rng)
    parts: Any = [np.flatnonzero(mask[question]) for mask in (train, given, test)]
    for name, rows in (("learn from", parts[0]), ("predict", parts[2])):
        if rows.size == 0:
            raise DataError(
                f"the {kind} split leaves nothing to {name}: {len(asked.user):,} answers by "
                f"{np.unique(person).size:,} people are too few for it; leave it out or hide another share"
            )
    return Split(kind, repeat, *parts)
