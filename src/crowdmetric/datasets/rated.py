"""Ratings of people, and features of the items -> a data set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.datasets.dataset import Dataset
from crowdmetric.datasets.pairs import pairs_of_ratings
from crowdmetric.errors import DataError
from crowdmetric.tables import Items, read_items

__all__ = ["RatedRows", "dataset_of", "given_items", "ratings_of_rows"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
# What pairs are made of, by what people did.
MADE_OF = {"rated": "ratings", "scored": "ratings", "ranked": "rankings"}
# Above it, whole numbers are not exact in the type in which ratings are read.
LARGEST_ID = 2**53


@dataclass(frozen=True, eq=False)
class RatedRows:
    """Ratings: ``user`` and ``item`` (R,) by the numbers of the source, ``rating`` (R,), higher is better."""

    user: Ints
    item: Ints
    rating: Floats

    def take(self, rows: NDArray[Any]) -> RatedRows:
        """Return the rows of a mask or of row numbers."""
        return RatedRows(self.user[rows], self.item[rows], self.rating[rows])


def ratings_of_rows(chunks: Iterable[Sequence[tuple[int, int, float]]]) -> RatedRows:
    """Return ratings that arrive as chunks of (user, item, rating)."""
    parts = [np.array(chunk, dtype=np.float64).reshape(-1, 3) for chunk in chunks]
    table = np.concatenate(parts) if parts else np.empty((0, 3))
    if not len(table):
        raise DataError("the file of ratings has no rows, at most a header; download it again")
    if np.any(np.abs(table[:, :2]) > LARGEST_ID):
        raise DataError(f"a person or an item has a number above {LARGEST_ID:,}, not a possible id; correct the file")
    return RatedRows(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2])


def given_items(features: Any, names: dict[int, str], kind: str) -> Items:
    """Return the items of a table that a user brings, checked to be about the items of the data set."""
    items = read_items(features)
    if items.ids.dtype.kind != "i":
        raise DataError(
            f"the features given name items by text, such as {items.ids.tolist()[0]!r}; use the numbers of {kind}"
        )
    if not set(items.ids.tolist()) & set(names):
        raise DataError(
            f"the features given are of none of the {len(names):,} items of {kind}, whose numbers are such as "
            f"{next(iter(names))}; put them into a column item_id"
        )
    return items


def dataset_of(
    name: str,
    items: Items,
    names: dict[int, str],
    ratings: RatedRows,
    *,
    what: str,
    pairs: int | None,
    people: int | None,
    gap: float,
    seed: int,
) -> Dataset:
    """Return the data set of ratings.

    Parameters
    ----------
    name : str
    items : Items
        Ids are the numbers that ratings use; what has no row here is left out and counted.
    names : dict
        What an item is called, by number.
    ratings : RatedRows
    what : str
        What people did, for the rule: 'rated' or 'ranked'.
    pairs : int or None
        Comparisons per person to keep.
    people : int or None
        Keep this many of those who have comparisons, drawn at random.
    gap : float
        How much two ratings must differ.
    seed : int
    """
    ratings, dropped = _usable(ratings, items)
    ratings = _some_people(ratings, people, seed)
    row = {number: place for place, number in enumerate(items.ids.tolist())}
    rows = np.array([row[number] for number in ratings.item.tolist()], dtype=np.int64)
    found = pairs_of_ratings(ratings.user, rows, ratings.rating, most=pairs, gap=gap, seed=seed)
    if not found.user.size:
        raise DataError(
            f"nobody in {name} has {what} one item higher than another; is the folder complete, or the gap too wide?"
        )
    user_ids, user = np.unique(found.user, return_inverse=True)
    dropped |= {"tied": found.tied, "more than the maximum per person": found.spared}
    answers = Comparisons(
        user=user,
        left=found.left,
        right=found.right,
        response=found.response,
        weight=np.ones(len(user)),
        user_ids=user_ids,
        item_ids=items.ids,
        dropped={reason: count for reason, count in dropped.items() if count},
        # one pair of each person follows from nothing else
        made_of="pairs" if pairs == 1 else MADE_OF[what],
    )
    most = "all of them" if pairs is None else f"at most {pairs} per person, drawn with seed {seed}"
    wide = f" by at least {gap:g}" if gap else ""
    rule = (
        f"An answer is a pair of items of which a person {what} one higher than the other{wide}, {most}. Such answers "
        "follow from each other: hide people, items or whole questions, not rows."
    )
    labels = np.array([names.get(number, str(number)) for number in items.ids.tolist()])
    return Dataset(name, items, labels, answers, rule)


def _usable(ratings: RatedRows, items: Items) -> tuple[RatedRows, dict[str, int]]:
    """Return the last rating of everything that has features, and a count of the others."""
    known = np.isin(ratings.item, items.ids)
    ratings = ratings.take(known)
    user, item = ratings.user, ratings.item
    order = np.lexsort((item, user))  # stable: the last of equal rows is the last in the file
    last = np.ones(len(order), dtype=bool)
    last[:-1] = (user[order][1:] != user[order][:-1]) | (item[order][1:] != item[order][:-1])
    kept = order[last]
    dropped = {
        "ratings of items without features": int(np.sum(~known)),
        "ratings that the same person gave anew": len(order) - len(kept),
    }
    return ratings.take(kept), dropped


def _some_people(ratings: RatedRows, people: int | None, seed: int) -> RatedRows:
    if people is None:
        return ratings
    if isinstance(people, bool) or people < 1:
        raise DataError(f"{people!r} people were asked for; give at least 1, or None for all")
    everybody = np.unique(ratings.user)
    if everybody.size <= people:
        return ratings
    chosen = np.random.default_rng(seed).choice(everybody, size=people, replace=False)
    return ratings.take(np.isin(ratings.user, chosen))
