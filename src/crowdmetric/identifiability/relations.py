"""Features that follow from others, by name: "total is price + size: drop one".

Features are taken one by one. One that is a combination of those before it, up to rounding, is *exactly* related to
them; the combination is the only one, as those before it are independent. One that three others or fewer explain but
for one percent of its variance is *nearly* related: what moves choices can then hardly be told apart (its standard
error is ten times as large as without them, the usual bound for a variance inflation factor)::

    1 − R² = (1 − ‖fit‖² / ‖x_j − mean‖²) (N − 1) / (N − 1 − k) ≤ 0.01          k features explain x_j over N items
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["MOST_RELATED", "Relation", "linear_relations"]

Array = NDArray[np.float64]

# A feature is exactly a combination of others if this share of its spread is left, for rounding.
ROUNDING = 1e-6
# Share of a feature's variance that others may leave open where it nearly follows from them.
NEARLY = 0.01
# A feature is constant if it varies by less than this share of its size.
CONSTANT = 1e-9
# A weight below this, in units of spreads, is rounding.
UNUSED = 1e-6
# Maximum number of features that are looked at: more are embeddings, of which no coordinate means anything by itself.
MOST_RELATED = 100
# Maximum number of features in a relation that is nearly true, and that are named.
MOST_TERMS, MOST_NAMED = 3, 6
MORE_ITEMS = "compare more items, or keep fewer features or directions (--pca)"


@dataclass(frozen=True)
class Relation:
    """One feature that follows from others.

    Attributes
    ----------
    is_exact : bool
        Up to rounding; otherwise but for one percent of the feature's variance.
    clause : str
        Such as 'total is price + size'.
    advice : str
        Such as 'drop one'.
    is_category : bool
        Whether the features are the values of one category, 0 or 1, of which every item has one.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.identifiability.relations import linear_relations
    >>> price, size = np.random.default_rng(0).normal(size=(2, 30))
    >>> items = np.column_stack([price, size, price + size])
    >>> print(linear_relations(items, ["price", "size", "total"])[0].sentence)
    total is price + size: drop one
    """

    is_exact: bool
    clause: str
    advice: str = "drop one"
    is_category: bool = False

    @property
    def leaves_open(self) -> bool:
        """Whether no answers say which of the features matters; values of a category are read against each other."""
        return self.says_what_is_open and not self.is_category

    @property
    def says_what_is_open(self) -> bool:
        """Whether it names the features behind what no answers can say, so that nothing is left to be said of that."""
        return self.is_exact and self.advice != MORE_ITEMS

    @property
    def sentence(self) -> str:
        """What is related, and what to do, without a capital letter and a period."""
        return f"{self.clause}: {self.advice}"


def linear_relations(items: ArrayLike, names: Sequence[str]) -> list[Relation]:
    """Return which of the features (N, f) of items follow from others, exactly or nearly.

    Constant features follow from nothing, and are left out. If there are hardly more items than features, any feature
    follows from the others, which is said once.
    """
    X = np.unique(np.asarray(items, dtype=np.float64), axis=0)
    size = np.max(np.abs(X), axis=0, initial=0.0)
    size[size == 0.0] = 1.0
    scaled = X / size  # squares of what is huge would overflow
    used = np.flatnonzero(scaled.std(axis=0) > CONSTANT)
    Z = scaled[:, used] - scaled[:, used].mean(axis=0)
    Z /= Z.std(axis=0)
    center, spread = size * scaled.mean(axis=0), size * scaled.std(axis=0)
    if used.size >= len(X) >= 2:
        return [
            Relation(
                True,
                f"{len(X):,} different items were compared, which cannot tell {used.size:,} features apart",
                MORE_ITEMS,
            )
        ]
    found: list[Relation] = []
    free: list[int] = []
    basis = np.zeros((len(X), 0))
    for column in range(used.size):
        x = Z[:, column]
        left = x - basis @ (basis.T @ x)
        left -= basis @ (basis.T @ left)
        if np.linalg.norm(left) <= ROUNDING * np.linalg.norm(x):
            weights = np.linalg.lstsq(Z[:, free], x, rcond=None)[0]
            relation = _relation(used, column, free, weights, spread, center, names, is_exact=True)
            related = used[[column, *np.array(free)[np.abs(weights) > UNUSED]]]
            parts = X[:, related]
            if np.all((parts == 0) | (parts == 1)) and np.all(parts.sum(axis=1) == 1):
                relation = replace(
                    relation, advice="values of one category; read them against each other", is_category=True
                )
            found.append(relation)
            continue
        chosen = _explained(Z, x, free)
        if chosen:
            weights = np.linalg.lstsq(Z[:, chosen], x, rcond=None)[0]
            found.append(_relation(used, column, chosen, weights, spread, center, names, is_exact=False))
        free.append(column)
        basis = np.column_stack([basis, left / np.linalg.norm(left)])
    return found


def _explained(Z: Array, x: Array, free: list[int]) -> list[int]:
    """Return a few of the columns `free` that nearly explain x, the best first; empty if there are none."""
    chosen: list[int] = []
    left, n = x, len(x)
    for k in range(1, min(MOST_TERMS, len(free), n - 2) + 1):
        others = [j for j in free if j not in chosen]
        chosen.append(others[int(np.argmax(np.abs(left @ Z[:, others])))])
        left = x - Z[:, chosen] @ np.linalg.lstsq(Z[:, chosen], x, rcond=None)[0]
        if (left @ left) / (x @ x) * (n - 1) / (n - 1 - k) <= NEARLY:
            return chosen
    return []


def _relation(
    used: NDArray[np.intp], column: int, others: list[int], weights: Array, spread: Array, center: Array,
    names: Sequence[str], *, is_exact: bool,
) -> Relation:  # fmt: skip
    """Return a relation in the units that features came in: what is explained is the one of another sign than all."""
    kept = np.abs(weights) > UNUSED
    rows = used[[column, *np.array(others)[kept]]]
    # Σ part_i x_i = 0 up to a constant
    part = np.r_[-1.0, weights[kept]] / spread[rows]
    alone = [place for place in range(len(part)) if np.all(part[place] * np.delete(part, place) < 0)]
    first = alone[0] if alone else 0
    factors = np.delete(-part / part[first], first)
    explained, terms = rows[first], np.delete(rows, first)
    constant = float(center[explained] - factors @ center[terms])
    verb = "is" if is_exact else "is nearly"
    if len(terms) > MOST_NAMED:
        shown = ", ".join(names[int(j)] for j in terms[:MOST_NAMED])
        return Relation(is_exact, f"{names[int(explained)]} follows from {len(terms)} other features ({shown}, …)")
    text = _sum(factors, [names[int(j)] for j in terms], constant, float(spread[explained]))
    return Relation(is_exact, f"{names[int(explained)]} {verb} {text}")


def _sum(factors: Array, names: Sequence[str], constant: float, unit: float) -> str:
    """Return '1 − a + 2.5 × b'."""
    parts = [(factor, name if abs(abs(factor) - 1) < 0.005 else f"{abs(factor):.3g} × {name}") for factor, name in
             zip(factors, names, strict=True)]  # fmt: skip
    parts.sort(key=lambda part: part[0] < 0)
    if abs(constant) > 1e-3 * unit:
        place = 0 if parts[0][0] < 0 and constant > 0 else len(parts)
        parts.insert(place, (constant, f"{abs(constant):.3g}"))
    first, *others = parts
    start = f"−{first[1]}" if first[0] < 0 else first[1]
    return start + "".join(f" {'−' if factor < 0 else '+'} {text}" for factor, text in others)
