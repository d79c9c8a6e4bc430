"""Where items come from: a catalogue, or wherever they can be made.

A source draws bundles of m pairs at random and varies given ones a little, which is all that the search for better
questions needs. Bundles of a catalogue are rows of items (C, m, 2), those of new items are vectors (C, m, 2, d).

Two sources keep what estimators that assume nothing of people need: all that one person is asked lies in one subspace
(`SubspaceCatalogue`, for StitchedMetric), or comes in parallel pairs (`ParallelCatalogue`, for MatchedMetric).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdmetric.design.guess import Guess
from crowdmetric.errors import DataError
from crowdmetric.tables import Column

__all__ = ["Catalogue", "ItemSource", "NewItems", "ParallelCatalogue", "SubspaceCatalogue"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Bundles = NDArray[Any]

# Numbers of random items of which the nearest one replaces an item: from any item to a close neighbor.
NEIGHBORS = (1, 8, 64, 256)
# The same for parallelograms.
PARALLELS = 64
# Sizes of new pairs and shifts of their midpoints to try, relative to the spread of people.
SIZES = 2.0 ** np.arange(-2.0, 2.5, 0.5)


class ItemSource(Protocol):
    """Where items come from."""

    name: str

    def draw(self, count: int, m: int, rng: np.random.Generator) -> Bundles:
        """Return bundles of pairs as chance has them."""

    def try_out(self, count: int, m: int, rng: np.random.Generator) -> Bundles:
        """Return bundles to start a search from."""

    def vary(self, bundles: Bundles, rng: np.random.Generator) -> Bundles:
        """Return bundles that differ from those given in one item or one pair."""

    def vectors(self, bundles: Bundles) -> Array:
        """Return bundles as vectors (C, m, 2, d)."""

    def table(self, bundles: Bundles) -> tuple[Indices, Array, Column | None]:
        """Return bundles as rows (C, m, 2) of items (N, d), the items, and what they are called (None: new)."""


class Catalogue:
    """Items that exist."""

    name = "on a catalogue"

    def __init__(self, items: Array, ids: Column) -> None:
        if len(items) < 2:
            raise DataError("there is only one item, but a question needs two; give more items")
        self.items, self.ids = items, ids

    def draw(self, count: int, m: int, rng: np.random.Generator) -> Bundles:
        """Return pairs of different items, uniformly."""
        left = rng.integers(len(self.items), size=(count, m))
        return np.stack([left, self._other(left, rng)], axis=2)

    def try_out(self, count: int, m: int, rng: np.random.Generator) -> Bundles:
        """Return random pairs: what is good is found among them."""
        return self.draw(count, m, rng)

    def vary(self, bundles: Bundles, rng: np.random.Generator) -> Bundles:
        """Return bundles in which one item is another: near it, or any, or the one that completes a parallelogram."""
        new = bundles.copy()
        C, m, _ = bundles.shape
        row, pair, side = np.arange(C), rng.integers(m, size=C), rng.integers(2, size=C)
        old, opposite = new[row, pair, side], new[row, pair, 1 - side]
        target = self.items[old]
        if m > 1:  # parallel to another pair of the same person, so the person's position cancels
            guide = (pair + rng.integers(1, m, size=C)) % m
            guided = self.items[opposite] + self.items[new[row, guide, side]] - self.items[new[row, guide, 1 - side]]
            target = np.where(rng.random((C, 1)) < 0.25, guided, target)
        chosen = np.empty_like(old)
        for k, count in enumerate(NEIGHBORS):
            part = slice(k, None, len(NEIGHBORS))
            tried = self._replacements(old[part], count, rng)
            apart = np.sum((self.items[tried] - target[part, None]) ** 2, axis=2)
            apart[tried == old[part, None]] = np.inf
            chosen[part] = np.take_along_axis(tried, np.argmin(apart, axis=1)[:, None], axis=1)[:, 0]
        new[row, pair, side] = np.where(chosen == opposite, self._other(opposite, rng), chosen)
        return new

    def vectors(self, bundles: Bundles) -> Array:
        """Return the items of bundles."""
        return self.items[bundles]

    def table(self, bundles: Bundles) -> tuple[Indices, Array, Column | None]:
        """Return bundles as they are."""
        return bundles.astype(np.intp), self.items, self.ids

    def _replacements(self, item: Indices, count: int, rng: np.random.Generator) -> Indices:
        """Return random items (C, count) that may stand in for those given (C,)."""
        return rng.integers(len(self.items), size=(len(item), count))

    def _other(self, item: Indices, rng: np.random.Generator) -> Indices:
        """Return an item that is not the one given."""
        other: Indices = (item + rng.integers(1, len(self.items), size=item.shape)) % len(self.items)
        return other


class SubspaceCatalogue(Catalogue):
    """Items that exist; everything that one person is asked about lies in one subspace.

    `labels` (N,) are the numbers of the items' subspaces, −1 for none; subspaces of one item are left out.
    """

    name = "within subspaces"

    def __init__(self, items: Array, ids: Column, labels: Indices) -> None:
        super().__init__(items, ids)
        self.labels = labels
        self._size = np.bincount(labels[labels >= 0])
        order = np.argsort(labels, kind="stable")
        self._members = order[int(np.sum(labels < 0)) :]  # subspace by subspace
        self._begin = np.cumsum(self._size) - self._size
        self._place = np.zeros(len(labels), dtype=np.intp)  # of each item within its subspace
        self._place[self._members] = np.arange(len(self._members)) - self._begin[labels[self._members]]
        self._askable = self._members[self._size[labels[self._members]] > 1]
        if not len(self._askable):
            raise DataError("no subspace holds two items, but a question compares two; give more items or other labels")

    def draw(self, count: int, m: int, rng: np.random.Generator) -> Bundles:
        """Return pairs of different items of one subspace, which is that of a random item."""
        left = self._replacements(self._askable[rng.integers(len(self._askable), size=count)], m, rng)
        return np.stack([left, self._other(left, rng)], axis=2)

    def _replacements(self, item: Indices, count: int, rng: np.random.Generator) -> Indices:
        """Return random items (C, count) of the same subspaces."""
        home = self.labels[item][:, None]
        return self._members[self._begin[home] + rng.integers(self._size[home], size=(len(item), count))]

    def _other(self, item: Indices, rng: np.random.Generator) -> Indices:
        """Return another item of the same subspace."""
        home = self.labels[item]
        place = (self._place[item] + rng.integers(1, self._size[home])) % self._size[home]
        return self._members[self._begin[home] + place]


class ParallelCatalogue(Catalogue):
    """Items that exist, in questions that come in parallel pairs: `corners` (P, 2, 2) of (near-)parallelograms."""

    name = "in parallel pairs"

    def __init__(self, items: Array, ids: Column, corners: Indices) -> None:
        super().__init__(items, ids)
        self.corners = corners

    def draw(self, count: int, m: int, rng: np.random.Generator) -> Bundles:
        """Return m/2 random parallelograms for each bundle."""
        return self.corners[rng.integers(len(self.corners), size=(count, m // 2))].reshape(count, m, 2)

    def vary(self, bundles: Bundles, rng: np.random.Generator) -> Bundles:
        """Return bundles in which one parallelogram is another: one near it, or any."""
        C, m, _ = bundles.shape
        new = bundles.reshape(C, m // 2, 2, 2).copy()
        row, which = np.arange(C), rng.integers(m // 2, size=C)
        tried = self.corners[rng.integers(len(self.corners), size=(C, PARALLELS))]  # (C, PARALLELS, 2, 2)
        old = new[row, which][:, None]
        apart = np.sum((self.items[tried] - self.items[old]) ** 2, axis=(2, 3, 4))
        apart[np.all(tried == old, axis=(2, 3))] = np.inf
        new[row, which] = tried[row, np.where(rng.random(C) < 0.3, 0, np.argmin(apart, axis=1))]
        return new.reshape(C, m, 2)


class NewItems:
    """Items yet to be made, anywhere, or within some distance of where people are."""

    name = "on new items"

    def __init__(self, guess: Guess, reach: float | None) -> None:
        self.center, self.reach = guess.center, reach
        d = self.center.size
        values, vectors = np.linalg.eigh(np.cov(guess.crowd, rowvar=False).reshape(d, d))
        floor = 1e-6 * max(float(values[-1]), guess.spread**2 / d)
        self.root = vectors * np.sqrt(np.maximum(values, floor))

    def draw(self, count: int, m: int, rng: np.random.Generator) -> Bundles:
        """Return items scattered like people."""
        return self._within(self._scatter((count, m, 2), rng))

    def try_out(self, count: int, m: int, rng: np.random.Generator) -> Bundles:
        """Return pairs of many sizes at many distances; in half of the bundles they are parallel."""
        middle = rng.choice(SIZES, size=(count, m, 1)) * self._scatter((count, m), rng)
        delta = rng.choice(SIZES, size=(count, m, 1)) * self._scatter((count, m), rng)
        delta[::2] = delta[::2, :1]
        return self._within(np.stack([middle + 0.5 * delta, middle - 0.5 * delta], axis=2))

    def vary(self, bundles: Bundles, rng: np.random.Generator) -> Bundles:
        """Return bundles in which a pair was moved, stretched or exchanged."""
        C, m = bundles.shape[:2]
        row, pair = np.arange(C), rng.integers(m, size=C)
        x = bundles[row, pair] - self.center
        kind = rng.integers(4, size=(C, 1, 1))
        step = rng.choice([0.05, 0.2, 0.6], size=(C, 1, 1))
        moved = x + step * self._scatter((C, 2), rng)
        shifted = x + step * self._scatter((C, 1), rng)
        stretched = x * np.exp(step * rng.standard_normal((C, 1, 1)))
        new = np.where(kind == 0, moved, np.where(kind == 1, shifted, np.where(kind == 2, stretched, x)))
        fresh = self.try_out(C, 1, rng)[:, 0] - self.center
        new = np.where(kind == 3, fresh, new)
        varied = bundles.copy()
        varied[row, pair] = self.center + new
        return self._within(varied - self.center)

    def vectors(self, bundles: Bundles) -> Array:
        """Return bundles as they are."""
        return bundles

    def table(self, bundles: Bundles) -> tuple[Indices, Array, Column | None]:
        """Return every corner of every bundle as an item of its own."""
        C, m, _, d = bundles.shape
        return np.arange(C * m * 2).reshape(C, m, 2), bundles.reshape(-1, d), None

    def _scatter(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Return vectors that scatter around 0 as people do around their center."""
        scattered: Array = rng.standard_normal((*shape, self.center.size)) @ self.root.T
        return scattered

    def _within(self, x: Array) -> Array:
        """Return items (…, d), given from the center, drawn in to where they can be made."""
        if self.reach is None:
            return self.center + x
        length = np.linalg.norm(x, axis=-1, keepdims=True)
        return self.center + x * np.minimum(1.0, self.reach / np.maximum(length, np.finfo(float).tiny))
