"""Items in general position, about which m ≤ d answers per person reveal nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.checks import whole_number
from crowdmetric.inputs import check_items

__all__ = ["GenericRelations", "has_generic_pairwise_relations", "is_in_general_linear_position"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Edges = tuple[tuple[int, int], ...]
Graph = tuple[Sequence[int], Sequence[int]]  # one end of every edge, and the other

# Up to this many graphs all are checked, which takes a second; beyond, a random sample is.
EXACT_GRAPHS = 200_000

# Unit differences count as dependent if the smallest singular value of their matrix is below this. Random items come
# this close to dependence with a probability of about d × 10⁻¹¹ per graph; coordinates are rounded to 10⁻¹⁶ of their
# size.
DEPENDENT = 1e-11

# Numbers in one temporary array.
CHUNK = 1 << 20


@dataclass(frozen=True)
class GenericRelations:
    """Whether items are in general position, and how sure that is.

    Attributes
    ----------
    condition
        What was asked: "generic pairwise relations" or "general linear position".
    holds
        The verdict.
    exact
        Whether the verdict is certain (up to rounding): all graphs were checked, or a counterexample was found.
    checked
        How many graphs were checked.
    counterexample
        A smallest dependent set of differences, as pairs of item numbers; None if none was found.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.theory import has_generic_pairwise_relations
    >>> bool(has_generic_pairwise_relations(np.random.default_rng(0).normal(size=(5, 3))).holds)
    True
    """

    condition: str
    holds: bool
    exact: bool
    checked: int
    counterexample: Edges | None

    @property
    def confidence(self) -> str:
        """How sure the verdict is, in words."""
        if self.counterexample is not None:
            return "certain: the counterexample proves it"
        if self.exact:
            return f"certain: all cases ({self.checked:,}) were looked at"
        share = 1.0 - 0.05 ** (1.0 / self.checked)
        return (
            f"not certain: none of {self.checked:,} graphs drawn at random is dependent, so with 95 % confidence fewer "
            f"than {share:.2g} of such draws are; rare exceptions may have been missed"
        )

    def summary(self) -> str:
        """Return the verdict, its certainty and the counterexample in plain words."""
        verdict = "have" if self.holds else "do not have"
        if self.condition == "general linear position":
            verdict = "are in" if self.holds else "are not in"
        lines = [f"The items {verdict} {self.condition}{'' if self.exact else ', as far as seen'}.", self.confidence]
        if self.counterexample is not None:
            edges = ", ".join(f"x[{i}] − x[{j}]" for i, j in self.counterexample)
            lines.append(f"linearly dependent: {edges}")
        return "\n".join(lines)


def has_generic_pairwise_relations(items: ArrayLike, *, trials: int = 1000, seed: int = 0) -> GenericRelations:
    """Say whether any d lines through pairs of items are independent (`def:pairwise-generic`).

    Items have *generic pairwise relations* if for every acyclic graph on them with at most d edges the differences
    ``{x − x' : (x, x') an edge}`` are linearly independent. Almost all finite sets have (`prop:generic-as`); a
    parallelogram has not (`example:not-generic-pairwise`). If items have, then m ≤ d answers per person reveal
    nothing about the metric, for any number of people (`thm:negative-result`).

    Every acyclic graph with at most d edges is part of one with ``k = min(d, N − 1)`` edges, and the span of its
    differences depends only on which items it connects. So one forest is looked at for each partition of the N items
    into N − k groups: the Stirling number S(N, N − k) of them. Up to 200,000 (N = 36 for d = 2, 16 for d = 3, 11 for
    d = 5, any N ≤ d + 1) all are looked at. Beyond, equal items are searched for, then `trials` forests are drawn, each
    by adding uniformly random edges that close no cycle.

    Parameters
    ----------
    items
        (N, d) vectors.
    trials
        How many graphs are drawn if there are too many to check them all.
    seed
        Random seed.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.theory import has_generic_pairwise_relations
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # a parallelogram is not generic
    >>> bool(has_generic_pairwise_relations(square).holds)
    False
    """
    X = check_items(items)
    N, k = X.shape[0], min(X.shape[1], X.shape[0] - 1)
    few = _partitions(N, k) <= EXACT_GRAPHS
    rng = np.random.default_rng(seed)
    drawn = (_random_forest(N, k, rng) for _ in range(whole_number(trials, "trials")))
    return _position("generic pairwise relations", X, _forests(N, k) if few else drawn, few)


def is_in_general_linear_position(items: ArrayLike, *, trials: int = 1000, seed: int = 0) -> GenericRelations:
    """Say whether no d + 1 items lie in a hyperplane (`def:general-linear-position`).

    Items are in *general linear position* if for every star graph with at most d edges the differences along its edges
    are linearly independent: any ``k + 1 = min(d + 1, N)`` items are affinely independent. Generic pairwise relations
    imply it; the converse fails (`example:not-generic-pairwise`). All C(N, k + 1) sets of items are looked at if they
    are at most 200,000; otherwise equal items are searched for, and `trials` sets are drawn uniformly.

    Parameters
    ----------
    items, trials, seed
        As in `has_generic_pairwise_relations`.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.theory import is_in_general_linear_position
    >>> bool(is_in_general_linear_position(np.random.default_rng(0).normal(size=(6, 3))).holds)
    True
    """
    X = check_items(items)
    N, k = X.shape[0], min(X.shape[1], X.shape[0] - 1)
    few = comb(N, k + 1) <= EXACT_GRAPHS
    rng = np.random.default_rng(seed)
    drawn = (rng.choice(N, k + 1, replace=False).tolist() for _ in range(whole_number(trials, "trials")))
    chosen = combinations(range(N), k + 1) if few else drawn
    return _position("general linear position", X, ((c[1:], c[:1] * k) for c in chosen), few)


def _position(condition: str, X: Array, graphs: Iterable[Graph], every: bool) -> GenericRelations:
    """Check graphs until one is dependent."""
    found = None if every else _equal_items(X)
    graphs, checked = iter(graphs), 0
    size = max(1, CHUNK // X.shape[1] ** 2)
    while found is None and (some := list(islice(graphs, size))):
        edges = np.swapaxes(np.array(some, dtype=np.intp), 1, 2)  # (B, k, 2)
        bad = np.flatnonzero(_dependent(X, edges)) if edges.shape[1] else np.empty(0, dtype=np.intp)
        checked += len(some)
        if bad.size:
            found = _shrunk(X, edges[bad[0]])
    return GenericRelations(condition, found is None, every or found is not None, checked, found)


def _dependent(X: Array, edges: Indices) -> NDArray[np.bool_]:
    """Say of every graph in edges (B, k, 2) whether its differences are linearly dependent, (B,)."""
    rows = X[edges[..., 0]] - X[edges[..., 1]]
    lengths = np.linalg.norm(rows, axis=2, keepdims=True)
    rows = rows / np.where(lengths > 0, lengths, 1.0)
    # With unit rows |det| ≤ √e σ_min, so a determinant that is not small settles the matter cheaply.
    square = rows.shape[1] == rows.shape[2]
    open_ = np.abs(np.linalg.det(rows)) <= 2.0 * DEPENDENT if square else np.ones(len(rows), dtype=bool)
    open_[open_] = np.linalg.svd(rows[open_], compute_uv=False)[:, -1] <= DEPENDENT
    return open_


def _shrunk(X: Array, edges: Indices) -> Edges:
    """Return a smallest dependent part of dependent edges (k, 2): without any one of them it is independent."""
    kept = edges
    for edge in edges:
        rest = kept[np.any(kept != edge, axis=1)]
        if len(rest) and _dependent(X, rest[None])[0]:
            kept = rest
    return tuple((int(min(e)), int(max(e))) for e in kept)


def _equal_items(X: Array) -> Edges | None:
    """Return the first two equal items found, which no general position allows."""
    order = np.lexsort(X.T)
    same = np.flatnonzero(np.all(X[order[1:]] == X[order[:-1]], axis=1))
    if not same.size:
        return None
    pair = sorted(order[same[0] : same[0] + 2].tolist())
    return ((pair[0], pair[1]),)


def _partitions(N: int, k: int) -> int:
    """Return the number of partitions of N items into N − k groups, or EXACT_GRAPHS + 1 if there are more than that.

    S(n, n − j) = S(n − 1, n − 1 − j) + (n − j) S(n − 1, n − j), a table of j = 0…k for growing n.
    """
    most = EXACT_GRAPHS + 1
    if comb(N, k + 1) >= most:  # partitions with a single group of more than one item
        return most
    count = [1] + [0] * k
    for n in range(1, N + 1):
        count = [1] + [min(most, count[j] + (n - j) * count[j - 1]) if j < n else 0 for j in range(1, k + 1)]
    return count[k]


def _forests(N: int, k: int) -> Iterator[Graph]:
    """Yield one forest of k edges for each partition into N − k groups: items are tied to the first of their group."""
    for children in combinations(range(1, N), k):
        first = sorted(set(range(N)) - set(children))
        for parents in product(*([j for j in first if j < i] for i in children)):
            yield children, parents


def _random_forest(N: int, k: int, rng: np.random.Generator) -> Graph:
    """Return k random edges, each uniform among all until it closes no cycle."""
    parent: dict[int, int] = {}

    def root(i: int) -> int:
        while i in parent:
            i = parent[i]
        return i

    left: list[int] = []
    right: list[int] = []
    while len(left) < k:
        for i, j in rng.integers(N, size=(k, 2)).tolist():
            a, b = root(i), root(j)
            if a != b and len(left) < k:
                parent[a] = b
                left.append(i)
                right.append(j)
    return left, right
