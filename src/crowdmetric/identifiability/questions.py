"""Who was asked what, in the coordinates the verdict is computed in.

Moving all items by one vector, or scaling a feature, changes no rank: a translation adds to every Δ a part that is
linear in its δ, which people absorb, and a scaling is a change of basis of Sym(R^d). So items are centred, which
keeps rounding small where they lie far from the origin, and features are brought to one scale where their spreads
differ so much that the rank would drown in rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.estimators.inputs import check_items, read_pairs
from crowdmetric.tables import ComparisonScan
from crowdmetric.users.blocks import Answers, People, arrange

__all__ = ["Questions", "read_questions"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Spreads of features that differ by this factor enter the eigenvalues of S as its fourth power.
UNEVEN = 100.0


@dataclass(frozen=True)
class Questions:
    """Comparisons without their answers.

    Attributes
    ----------
    items
        (N, d) centred, and divided by `unit`.
    unit
        (d,) ones, or the features' spreads where those differ a hundredfold.
    pairs
        (T, 2) rows of `items`.
    person
        (T,) who was asked, 0 … K − 1, nobody missing.
    """

    items: Array
    unit: Array
    pairs: Indices
    person: Indices

    @property
    def d(self) -> int:
        """How many features an item has."""
        return int(self.items.shape[1])

    @property
    def used(self) -> Indices:
        """Rows of the items that were shown to somebody."""
        shown = np.zeros(len(self.items), dtype=bool)
        shown[self.pairs] = True
        return np.flatnonzero(shown)

    def people(self, width: int | None = None) -> People:
        """Return the people in blocks; `width` as in `arrange`."""
        T, K = len(self.pairs), int(self.person.max()) + 1
        nobody = np.zeros(K, dtype=np.intp)
        return arrange(Answers(self.items, self.pairs, np.zeros(T), np.ones(T), self.person, nobody, 1), width)


def read_questions(items: ArrayLike | None, pairs: Any, users: Any) -> Questions:
    """Return validated questions from what `diagnose` was given; a scan is read into memory."""
    if isinstance(pairs, ComparisonScan):
        pairs = Comparisons.from_scan(pairs)
    if isinstance(pairs, Comparisons):
        if users is not None:
            raise DataError("Comparisons carry their people; leave users out")
        catalogue, numbers, named = check_items(items), pairs.pairs, np.asarray(pairs.user)
        if pairs.n_items != len(catalogue):
            raise DataError(
                f"the comparisons are about {pairs.n_items} items, but items has {len(catalogue)} rows; "
                "read both from the same catalogue"
            )
        if len(numbers) == 0:
            raise DataError("the comparisons are empty; at least one is needed")
    else:
        catalogue, numbers = read_pairs(pairs, items)
        named = np.zeros(len(numbers), dtype=int) if users is None else np.asarray(users)
        if named.shape != (len(numbers),):
            raise DataError(
                f"users has shape {named.shape}, but there are {len(numbers)} comparisons; give one person each"
            )
    person = np.unique(named, return_inverse=True)[1].astype(np.intp)
    spread = np.std(catalogue, axis=0)
    seen = spread > 0
    uneven = np.any(seen) and spread[seen].max() > UNEVEN * spread[seen].min()
    unit = np.where(seen, spread, 1.0) if uneven else np.ones(catalogue.shape[1])
    return Questions((catalogue - catalogue.mean(axis=0)) / unit, unit, numbers, person)
