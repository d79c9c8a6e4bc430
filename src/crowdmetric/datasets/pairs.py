"""Ratings or rankings -> comparisons, by one rule.

Two items that one person rated differently are a comparison: the one rated higher (or ranked better) was preferred.
Items rated alike say nothing and make no comparison. At most a given number of comparisons per person is kept, drawn
uniformly; which item is called left is a coin flip, so "left" means nothing.

With a person's ratings in rising order and ``below[j]`` the number of them that are lower than the j-th, comparisons
are numbered ``0 … Σ below − 1``: number t is the j-th item with the (t − Σ_{j' < j} below[j'])-th. Drawing numbers
draws comparisons, and ties are never met; somebody with 30,000 ratings costs no more than their sorting.

Such comparisons are not independent: from a > b and b > c follows a > c. Hide people, items, or whole questions (see
`crowdmetric.evaluate`), never rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from crowdmetric.errors import DataError

__all__ = ["RatedPairs", "pairs_of_ratings"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RatedPairs:
    """Comparisons made of ratings.

    Attributes
    ----------
    user, left, right : (T,) int64
    response : (T,) float64
        −1 left preferred, +1 right preferred.
    tied : int
        Number of pairs with equal ratings, which say nothing.
    spared : int
        Number of comparisons left out because the person has more than `most`.
    """

    user: Ints
    left: Ints
    right: Ints
    response: Floats
    tied: int
    spared: int


def pairs_of_ratings(
    user: Ints, item: Ints, rating: Floats, *, most: int | None, gap: float = 0.0, seed: int = 0
) -> RatedPairs:
    """Return the comparisons that ratings imply, sorted by person.

    Parameters
    ----------
    user, item : (R,) int64
        Every item at most once per person.
    rating : (R,) float64
        Higher is better.
    most : int or None
        Comparisons per person to keep; None: all.
    gap : float
        How much two ratings must differ to say something; 0: at all.
    seed : int
        Random seed of what is kept and of the sides.
    """
    if most is not None and (isinstance(most, bool) or most < 1):
        raise DataError(f"at most {most!r} comparisons per person were asked for; give at least 1, or None for all")
    if not gap >= 0:
        raise DataError(f"gap is {gap!r}, but ratings differ by at least 0")
    rng = np.random.default_rng(seed)
    order = np.lexsort((item, rating, user))  # ties in the order of items, so the order of rows does not matter
    user, item, rating = user[order], item[order], rating[order]
    starts = np.flatnonzero(np.r_[True, user[1:] != user[:-1]]) if user.size else np.empty(0, dtype=np.int64)
    ends = np.r_[starts[1:], user.size]
    better, worse, tied, spared = [], [], 0, 0
    for begin, end in zip(starts.tolist(), ends.tolist(), strict=True):
        j, i, possible = _of_one(rating[begin:end], most, gap, rng)
        better.append(begin + j)
        worse.append(begin + i)
        n = end - begin
        tied += n * (n - 1) // 2 - possible
        spared += possible - len(j)
    high, low = (np.concatenate(rows) if rows else np.empty(0, dtype=np.int64) for rows in (better, worse))
    is_left = rng.random(len(high)) < 0.5
    return RatedPairs(
        user=user[high],
        left=np.where(is_left, item[high], item[low]),
        right=np.where(is_left, item[low], item[high]),
        response=np.where(is_left, -1.0, 1.0),
        tied=tied,
        spared=spared,
    )


def _of_one(rating: Floats, most: int | None, gap: float, rng: Generator) -> tuple[Ints, Ints, int]:
    """Return the better and the worse rows of one person's comparisons, ratings rising, and how many there could be."""
    below = np.searchsorted(rating, rating - gap, side="right") if gap else np.searchsorted(rating, rating, side="left")
    ends = np.cumsum(below)
    possible = int(ends[-1])
    if most is None or possible <= most:
        number = np.arange(possible)
    else:
        number = np.sort(rng.choice(possible, size=most, replace=False))
    j = np.searchsorted(ends, number, side="right")
    return j, number - (ends - below)[j], possible
