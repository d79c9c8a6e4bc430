"""The kinds of questions that a live design asks, and the source that keeps each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.bounded.discover import discover_subspaces
from crowdmetric.bounded.given import Subspaces, given_subspaces
from crowdmetric.design.parallelograms import find_parallelograms
from crowdmetric.design.question_sources import Catalogue, ParallelCatalogue, SubspaceCatalogue
from crowdmetric.errors import DataError, NotIdentifiedError
from crowdmetric.tables import Column

__all__ = ["KINDS", "found_subspaces", "source_of"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

KINDS = ("optimal", "within", "matched")
# Number of differences of items among which parallel ones are looked for, and of parallelograms that are kept.
DIFFERENCES, PARALLELOGRAMS = 300_000, 20_000


def source_of(
    kind: str, items: Array, ids: Column, answers: int, subspaces: Any, rank: int | None, tolerance: float, seed: int
) -> tuple[Catalogue, Indices | None, int | None]:
    """Return where questions come from, and with 'within' the label of each item's subspace and their dimension.

    The dimension is None where subspaces differ in it.
    """
    if (kind == "within") != (subspaces is not None):
        raise DataError("subspaces= (labels, bases or 'discover') and kind='within' go together; give both or neither")
    if kind == "matched":
        return _parallel(items, ids, answers, tolerance, seed), None, None
    if kind == "optimal":
        return Catalogue(items, ids), None, None
    found = found_subspaces(items, subspaces, rank, answers, seed)
    same = set(found.ranks.tolist())
    return SubspaceCatalogue(items, ids, found.labels), found.labels, same.pop() if len(same) == 1 else None


def found_subspaces(items: Array, subspaces: Any, rank: int | None, answers: int, seed: int) -> Subspaces:
    """Return the subspaces that were given or asked for; a DataError if there are too few answers for them."""
    if isinstance(subspaces, str) and subspaces == "discover":
        found = discover_subspaces(items, rank=rank, repeats=0, random_state=seed).as_subspaces()
    else:
        found = given_subspaces(items, subspaces, rank)
    largest = int(found.ranks.max())
    if answers <= largest:
        raise DataError(
            f"answers={answers} within subspaces of dimension {largest} tell nothing of the metric: a person's place "
            f"uses up {largest} of them; ask at least {largest + 1}"
        )
    return found


def _parallel(items: Array, ids: Column, answers: int, tolerance: float, seed: int) -> ParallelCatalogue:
    if answers % 2:
        raise DataError(f"answers={answers} is odd, but parallel questions come in pairs; give an even number")
    found = find_parallelograms(items, tolerance=tolerance, differences=DIFFERENCES, seed=seed)
    if not len(found.corners):
        raise NotIdentifiedError(
            f"no parallelogram within tolerance={tolerance:g} was found among {len(items)} items; the closest differ "
            f"by {found.closest:.2g} of their length. Raise tolerance"
        )
    kept = np.random.default_rng([seed, 6]).permutation(len(found.corners))[:PARALLELOGRAMS]
    return ParallelCatalogue(items, ids, found.corners[kept])
