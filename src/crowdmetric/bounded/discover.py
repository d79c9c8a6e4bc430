"""Find the subspaces that items lie in, how many there are, of which dimension, and who lies in none.

::

    items ── a sample of them ── neighbors by |cosine| ── sparse graph ── leading eigenvectors ── k-means: several
    partitions, some with more parts than flats ── k-subspaces ── parts joined while the BIC falls ── the best of all
    ── every item assigned and the flats refined

The criterion that compares numbers of subspaces and ranks is the BIC of `flats`; the eigengap of the graph only
proposes how many parts to start from. Stability is checked by doing all of it again on halves of the sample.

**Neighbors.** Items that lie on one flat are near each other. Through the origin a flat is a bundle of lines, and
nearness is |cosine|; affine flats need distance itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from crowdmetric.bounded.flats import (
    Flats,
    assign_flats,
    background_density,
    criterion,
    merge_flats,
    refine_flats,
)
from crowdmetric.bounded.given import Subspaces, residuals_of
from crowdmetric.canonical import canonical_of_items
from crowdmetric.checks import whole_number
from crowdmetric.errors import DataError

__all__ = ["NEIGHBORS", "Discovery", "Trial", "discover_subspaces", "neighbor_graph", "partition", "spectrum"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Neighbors of an item in the graph: a partition only starts the search, so any few will do.
NEIGHBORS = 10
# Ranks are tried from one upward until this many in a row are no better. Ranks at which most items are outliers do not
# count: below the true rank the background can explain everything better, and ranks would look alike.
PATIENCE = 2
# Subspaces of a chosen rank are rejected if they leave more than this share of their items' lengths unexplained (half
# of the square), or if they hold less than this share of the items.
MOST_LEFT_OVER, LEAST_HELD = 0.7, 0.1
# Passes over all items after the sample has settled.
LAST_STEPS = 10
# Number of items whose neighbors are sought at once.
BLOCK = 1_024
# Rounds and degree of the Chebyshev-filtered subspace iteration; their product is the number of products with the
# graph.
ROUNDS, DEGREE = 4, 15


@dataclass(frozen=True)
class Trial:
    """One rank that was tried: its best number of subspaces and the BIC reached."""

    rank: int
    n_subspaces: int
    criterion: float


@dataclass(frozen=True, eq=False)
class Discovery:
    """Subspaces found among N items in R^d.

    Attributes
    ----------
    labels
        (N,) subspace of each item, 0 … n−1; −1: in none.
    bases
        n orthonormal (d, r).
    offsets
        (n, d) a point of each subspace; zero unless affine.
    rank
        r.
    residuals
        (N,) distance from the subspace relative to the item's length, 1 where there is none.
    noise
        Root mean square distance of the items from their subspaces.
    stability
        Mean adjusted Rand index between these labels and those found from halves of the sample (1: the same
        partition, 0: chance); NaN if it was not asked for.
    trials
        The ranks that were tried.
    affine
        Whether subspaces were free to miss the origin.
    seconds
        How long it took.
    """

    labels: Indices
    bases: tuple[Array, ...]
    offsets: Array
    rank: int
    residuals: Array
    noise: float
    stability: float
    trials: tuple[Trial, ...]
    affine: bool
    seconds: float

    @property
    def n_subspaces(self) -> int:
        """How many subspaces were found."""
        return len(self.bases)

    @property
    def sizes(self) -> Indices:
        """Items in each subspace, (n,)."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.n_subspaces)

    def as_subspaces(self) -> Subspaces:
        """Return them in the form in which given subspaces travel."""
        return Subspaces(self.bases, self.labels, tuple(range(self.n_subspaces)), self.residuals, self.offsets)

    def summary(self) -> str:
        """Return what was found, how sure it is and how it was chosen, in a few lines."""
        outside = int(np.sum(self.labels < 0))
        inside = self.residuals[self.labels >= 0]
        kind = "affine subspaces" if self.affine else "subspaces"
        lines = [
            f"{self.n_subspaces} {kind} of dimension {self.rank} in {self.bases[0].shape[0]} dimensions, with "
            f"{self.sizes.min():,} to {self.sizes.max():,} of {len(self.labels):,} items each",
            f"{outside:,} items ({outside / len(self.labels):.1%}) lie in none",
            f"items are {np.median(inside):.2%} of their length away from their subspace (median)",
        ]
        if not np.isnan(self.stability):
            lines.append(
                f"agreement with what halves of the items say: {self.stability:.2f} (adjusted Rand; 1: the same)"
            )
        if len(self.trials) > 1:
            best = min(trial.criterion for trial in self.trials)
            tried = ", ".join(f"{t.rank} ({t.criterion - best:+.0f})" for t in self.trials)
            lines.append(f"rank chosen by BIC among {tried}")
        return "\n".join(lines)


def discover_subspaces(
    items: ArrayLike,
    n_subspaces: int | None = None,
    rank: int | None = None,
    *,
    affine: bool = False,
    outliers: bool = True,
    max_subspaces: int = 100,
    max_rank: int = 10,
    sample: int = 5_000,
    repeats: int = 2,
    random_state: int = 0,
) -> Discovery:
    """Return the subspaces that items lie near.

    Parameters
    ----------
    items : (N, d) array
    n_subspaces, rank : int or None
        How many, and of which dimension (the same for all); None: by BIC.
    affine : bool
        Let subspaces miss the origin: clusters around a mean far from it. A metric sees differences only, so that
        nothing is lost by centering; see `StitchedMetric`.
    outliers : bool
        Let items belong nowhere (−1), where a Gaussian that fills the space explains them better.
    max_subspaces, max_rank : int
        How far to look where `n_subspaces` or `rank` is None.
    sample : int
        Items that the graph is made of; the others are assigned to the subspaces that it finds.
    repeats : int
        Halves of the sample on which everything is done again, to report stability; 0: not at all.
    random_state : int

    Raises
    ------
    DataError
        If an option makes no sense, or there are no subspaces to be found.

    Examples
    --------
    >>> from crowdmetric.subspaces import discover_subspaces
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(6, 8, 2, users=5, comparisons=8, noise=0.02, seed=0)
    >>> found = discover_subspaces(crowd.items)
    >>> found.n_subspaces, found.rank
    (8, 2)
    """
    clock = perf_counter()
    X = _checked(items)
    _check_counts(X.shape, n_subspaces=n_subspaces, rank=rank, max_subspaces=max_subspaces, max_rank=max_rank,
                  sample=sample, repeats=repeats, random_state=random_state)  # fmt: skip
    ranks = range(1, min(max_rank, X.shape[1] - 1) + 1) if rank is None else range(rank, rank + 1)
    generator = np.random.default_rng(random_state)
    scale = float(np.sqrt(np.mean(np.einsum("ij,ij->i", X, X))))
    # an item at the origin is in every subspace through it, and has no direction
    usable = np.flatnonzero(np.einsum("ij,ij->i", X, X) > (1e-12 * scale) ** 2) if not affine else np.arange(len(X))
    usable = usable[np.argsort(canonical_of_items(X)[usable])]  # their order in the table does not matter
    chosen = generator.permutation(usable)[:sample]
    search = _Search(n_subspaces, ranks, affine, outliers, max_subspaces, random_state)
    flats, trials = search.run(X[chosen])
    labels = np.full(len(X), -1, dtype=np.intp)
    if len(flats):
        flats, labels = _everybody(X, flats, affine, outliers)
    residuals = residuals_of(X, tuple(flats.bases), flats.offsets, labels)
    _check_found(labels, residuals, flats, rank)
    again = [search.run(X[generator.permutation(chosen)[: len(chosen) // 2]])[0] for _ in range(repeats)]
    bases = tuple(flats.bases)
    inside = labels >= 0
    length = np.linalg.norm(X[inside] - flats.offsets[labels[inside]], axis=1)
    return Discovery(
        labels=labels,
        bases=bases,
        offsets=flats.offsets,
        rank=flats.rank,
        residuals=residuals,
        noise=float(np.sqrt(np.mean((residuals[inside] * length) ** 2))),
        stability=_agreement(X[chosen], labels[chosen], again, affine, outliers),
        trials=trials,
        affine=affine,
        seconds=perf_counter() - clock,
    )


@dataclass(frozen=True)
class _Search:
    """What is looked for, and how far."""

    n_subspaces: int | None
    ranks: range
    affine: bool
    outliers: bool
    max_subspaces: int
    seed: int

    def run(self, X: Array) -> tuple[Flats, tuple[Trial, ...]]:
        """Return the best flats of a sample and what was tried."""
        stray = background_density(X, affine=self.affine) if self.outliers else None
        starts = self._starts(X)
        tried: dict[int, tuple[float, Flats]] = {}

        def settle(start: Indices, rank: int) -> float:
            """Try a rank from a partition and keep the best of that rank; return the criterion reached."""
            found = self._settle(X, start, rank, stray)
            if rank not in tried or found[0] < tried[rank][0]:
                tried[rank] = found
            return found[0]

        def best_rank() -> int:
            return min(tried, key=lambda rank: tried[rank][0])

        worse = 0
        for rank in self.ranks:
            for start in starts[:2]:
                settle(start, rank)
            better = best_rank() == rank
            worse = 0 if better or tried[best_rank()][1].stray_weight > 0.5 else worse + 1
            if worse == PATIENCE:
                break
        # the first two starts chose the rank; a better start may need a different rank
        rank = best_rank()
        reached = [settle(start, rank) for start in starts[2:]]
        if reached and min(reached) <= tried[rank][0]:
            start = starts[2 + int(np.argmin(reached))]
            for step in (-1, 1):
                while best_rank() + step in self.ranks:
                    before = best_rank()
                    settle(start, before + step)
                    if best_rank() == before:
                        break
        trials = tuple(Trial(rank, len(flats), value) for rank, (value, flats) in sorted(tried.items()))
        return tried[best_rank()][1], trials

    def _starts(self, X: Array) -> list[Indices]:
        """Return partitions of the sample, the most promising first."""
        most = max(1, len(X) // 5)
        wanted = self.n_subspaces
        limit = min(self.max_subspaces if wanted is None else 2 * wanted, most)
        values, vectors = spectrum(neighbor_graph(X, NEIGHBORS, affine=self.affine), min(limit + 1, len(X)), self.seed)
        if wanted is None:
            gaps = np.argsort(-(values[:-1] - values[1:]), kind="stable") + 1
            likely = int(gaps[0])
            parts = [likely, 2 * likely, *gaps[1:3].tolist(), limit]
        else:
            parts = [wanted, 2 * wanted, (3 * wanted + 1) // 2]
        return [partition(vectors, count, self.seed) for count in dict.fromkeys(min(count, limit) for count in parts)]

    def _settle(self, X: Array, labels: Indices, rank: int, stray: Array | None) -> tuple[float, Flats]:
        """Return the criterion and the flats after refining and joining parts as long as there is something to join."""
        while True:
            flats, labels, best = refine_flats(X, labels, rank, affine=self.affine, stray=stray)
            if len(flats) == 0:
                return np.inf, flats
            joined = merge_flats(
                flats, len(X), affine=self.affine, least=self.n_subspaces or 1, forced=self.n_subspaces is not None
            )
            if joined.max() + 1 == len(flats):
                break
            labels = np.where(labels >= 0, joined[labels], -1)
        wrong = self.n_subspaces is not None and len(flats) != self.n_subspaces
        return np.inf if wrong else criterion(best, flats, self.affine), flats


def _everybody(X: Array, flats: Flats, affine: bool, outliers: bool) -> tuple[Flats, Indices]:
    """Return flats refined on all items, and everybody's label."""
    stray = background_density(X, affine=affine) if outliers else None
    labels, _ = assign_flats(X, flats, stray)
    flats, labels, _ = refine_flats(X, labels, flats.rank, affine=affine, stray=stray, steps=LAST_STEPS)
    return flats, labels


def _check_found(labels: Indices, residuals: Array, flats: Flats, rank: int | None) -> None:
    """Raise DataError if there is nothing; where the rank was chosen, also if what was found is no set of subspaces."""
    inside = labels >= 0
    left_over = float(np.median(residuals[inside])) if np.any(inside) else 1.0
    if not np.any(inside) or (rank is None and (inside.mean() < LEAST_HELD or left_over > MOST_LEFT_OVER)):
        raise DataError(
            f"no subspaces were found: the best {len(flats)} of dimension {flats.rank} hold {inside.mean():.0%} of the "
            f"{len(labels)} items and leave {left_over:.0%} of their length over; use IdealPointMetric, which needs "
            "none, give labels, or insist with rank="
        )


def _agreement(X: Array, labels: Indices, others: list[Flats], affine: bool, outliers: bool) -> float:
    from sklearn.metrics import adjusted_rand_score  # noqa: PLC0415 - takes a while to load

    if not others:
        return np.nan
    stray = background_density(X, affine=affine) if outliers else None
    found = [assign_flats(X, flats, stray)[0] if len(flats) else np.full(len(X), -1) for flats in others]
    return float(np.mean([adjusted_rand_score(labels, other) for other in found]))


def _checked(items: ArrayLike) -> Array:
    X = np.asarray(items, dtype=np.float64)
    if X.ndim != 2 or X.shape[0] < 2 or X.shape[1] < 2:
        raise DataError(
            f"items has shape {X.shape}; finding subspaces needs (N, d) with at least two items and features"
        )
    if not np.all(np.isfinite(X)):
        raise DataError("items has features that are NaN or infinite; fill or drop them first")
    if not np.any(X):
        raise DataError("every item is zero, so there is nothing to find; check how items were read")
    return X


def _check_counts(shape: tuple[int, ...], **counts: Any) -> None:
    N, d = shape
    most = {"n_subspaces": N // 2, "rank": d - 1}
    least = {"repeats": 0, "random_state": 0, "sample": 10}
    for name, value in counts.items():
        if value is None and name in most:
            continue
        low = least.get(name, 1)
        whole_number(value, name, low)
        if name in most and value > most[name]:
            raise DataError(f"{name}={value} is too many for {N} items in {d} dimensions; give at most {most[name]}")


def neighbor_graph(X: Array, neighbors: int, *, affine: bool) -> sparse.csr_array:
    """Return the symmetric (N, N) affinity of each item with its nearest `neighbors`.

    ``exp(−2 angle)`` of the lines through the items (thresholded subspace clustering), or, for affine flats,
    ``exp(−distance / median distance of the furthest neighbor)``. Exact, block by block, in single precision.
    """
    N = len(X)
    q = min(neighbors, N - 1)
    points = X.astype(np.float32)
    if affine:
        points -= points.mean(axis=0)
    else:
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    square = np.einsum("ij,ij->i", points, points)
    index, nearness = np.empty((N, q), dtype=np.intp), np.empty((N, q), dtype=np.float32)
    for start in range(0, N, BLOCK):
        product = points[start : start + BLOCK] @ points.T
        # nearest in distance: largest 2⟨x, y⟩ − ‖y‖²
        product = 2.0 * product - square if affine else np.abs(product, out=product)
        product[np.arange(len(product)), np.arange(start, start + len(product))] = -np.inf
        found = np.argpartition(product, N - q, axis=1)[:, N - q :]
        index[start : start + BLOCK] = found
        nearness[start : start + BLOCK] = np.take_along_axis(product, found, axis=1)
    if affine:
        distance = np.sqrt(np.maximum(square[:, None] - nearness, 0.0))
        scale = float(np.median(distance.max(axis=1)))
        weight = np.exp(-distance / (scale if scale > 0 else 1.0))
    else:
        weight = np.exp(-2.0 * np.arccos(np.minimum(nearness, 1.0)))
    rows = np.repeat(np.arange(N), q)
    W = sparse.csr_array((weight.ravel().astype(np.float64), (rows, index.ravel())), shape=(N, N))
    return sparse.csr_array(W + W.T)


def spectrum(graph: sparse.csr_array, count: int, seed: int) -> tuple[Array, Array]:
    """Return the `count` largest eigenvalues, falling, and eigenvectors (N, count) of ``S = D^−½ W D^−½``.

    Parts of the graph that hardly touch make the eigenvalue 1 many times over. ARPACK, which grows one Krylov space
    from one vector, misses copies of it (``python -m benchmarks discovery``); a block of vectors does not. Subspace
    iteration with a Chebyshev filter needs little besides products with S: each round applies the polynomial that is
    small on [−1, the smallest eigenvalue kept so far] and grows fastest above it,

        Y_{j+1} = 2 (S − c) Y_j / e − Y_{j−1},        c, e: center and half width of that interval

    LOBPCG is as reliable and slower. A partition needs few digits: single precision.
    """
    root = np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    scale = sparse.diags_array(1.0 / root)
    S = sparse.csr_array(scale @ graph @ scale).astype(np.float32)
    V = np.random.default_rng(seed).standard_normal((graph.shape[0], count), dtype=np.float32)
    V[:, 0] = root  # the eigenvector of the eigenvalue 1 that every graph has
    values, edge = np.ones(count, dtype=np.float32), 0.5
    for _ in range(ROUNDS):
        V = np.linalg.qr(_filtered(S, V, edge))[0]
        values, turn = np.linalg.eigh(V.T @ (S @ V))
        V, values = V @ turn[:, ::-1], values[::-1]
        edge = float(np.clip(values[-1], 0.0, 0.999))
    return values.astype(np.float64), V.astype(np.float64)


def _filtered(S: sparse.csr_array, V: NDArray[np.float32], edge: float) -> NDArray[np.float32]:
    """Return the Chebyshev polynomial of S that damps eigenvalues in [−1, edge], times V."""
    center, half = np.float32(0.5 * (edge - 1.0)), np.float32(0.5 * (edge + 1.0))
    before, now = V, (S @ V - center * V) / half
    for _ in range(DEGREE - 1):
        before, now = now, 2.0 * (S @ now - center * now) / half - before
    return now


def partition(vectors: Array, parts: int, seed: int) -> Indices:
    """Return labels (N,) of `parts` parts: k-means of the rows of the leading eigenvectors, scaled to length 1."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 - takes a while to load

    rows = vectors[:, :parts]
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = (rows / np.where(length > 0, length, 1.0)).astype(np.float32)
    return KMeans(parts, n_init=2, random_state=seed).fit_predict(rows).astype(np.intp)
