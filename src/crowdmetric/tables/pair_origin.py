"""How the pairs of a table were made: asked one by one, or cut from choices, or from rankings or ratings.

Who chooses one of four says three things at once, and the pairs that are cut from it share the winner. All pairs of a
ranking follow from one order. A model of independent answers is wrong for both: it takes the answers for surer than
they are. What shows is structure, not agreement. Put the items that one person compared into groups that comparisons
connect. With two comparisons or more in a group, it can have been cut

from choices
    if every winner in it beat two others or more, although some loser lost only once. Turning all answers round turns
    this into its mirror image. So where questions were asked whatever the answers, a group shows it at most as often as
    the mirror image: in every second group at most. Here nearly all must show it, and `UNLIKELY` is the probability
    under chance: one half for every group, but for no more groups than there are different winners, as one item that
    everybody prefers may have been asked about again and again. Where different people chose differently from the
    same items, that is counted instead: if everybody was asked to compare one item, drawn for them, with all others,
    it would not always be their best (the entropy of the winners).
from rankings or ratings
    if all pairs were compared, but for those in classes (ties), and higher classes won throughout. Nobody may
    contradict themselves, and chance must be unlikely: careful people, who answer all pairs one by one, contradict
    themselves in `CONTRADICTED_CLOSED` of all triples; and of all ways to order n items ``r! Π c!`` of n! put the
    better of those that were compared into r classes of sizes c.

Of pairs *drawn* from rankings or ratings nothing shows but that nobody contradicts themselves; people who answer a few
questions that were chosen for them may well do as little of that (`CONTRADICTED`), so it takes thousands of triples to
tell. Whoever makes such pairs should say so: ``Comparisons(..., made_of="ratings")``, or a column ``made_of``.
"""

from __future__ import annotations

from math import lgamma, log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

__all__ = ["ASKED", "DECLARED", "cut_sentence", "origin_of_pairs"]

Array = NDArray[Any]

# Pairs that were asked one by one, and everything else that a table may say its pairs are made of.
ASKED = "pairs"
DECLARED = (ASKED, "choices", "rankings", "ratings")
# What pairs are, and how they are recognized where nobody says so.
CUT = {
    "choices": "pairs cut from choices of one among several, which share the winner",
    "rankings": "pairs cut from rankings, which follow from each other",
    "ratings": "pairs cut from ratings, which follow from each other",
    "orders": "pairs cut from rankings or ratings, which follow from each other",
}
# Evidence, in nats, from which chance is ruled out: a probability of one in a thousand million.
UNLIKELY = 9.0 * log(10.0)
# Share of the groups that must have the structure: a few rows may be lost on the way.
NEARLY_ALL = 0.95
# Share of closed triples (a, b, c) that careful people contradict: where all pairs of some items are asked, and where
# only some are. 235 travelers by train contradicted none of 979 of the second kind.
CONTRADICTED_CLOSED, CONTRADICTED = 0.02, 0.002


def cut_sentence(origin: str, *, declared: bool = False, clause: bool = False) -> str:
    """Return what answers are that were not asked one by one, and what follows, in one sentence; empty if they were.

    `declared` says that a table says so, and that it was not recognized; `clause` asks for no capital and no period.

    Examples
    --------
    >>> cut_sentence("pairs")
    ''
    """
    if origin == ASKED:
        return ""
    start, end = ("these", "") if clause else ("These", ".")
    return (
        f"{start} answers {'are' if declared else 'look like'} {CUT[origin]}: taken as answers of their own they seem "
        "surer than they are, so the size of the metric means little, there are no intervals, and how much people "
        f"differ is not said{end}"
    )


def origin_of_pairs(group: Array, winner: Array, loser: Array) -> str:
    """Return what pairs look cut from: 'choices', 'orders' (rankings or ratings), or 'pairs' where nothing shows.

    Parameters
    ----------
    group : (T,) int
        Who answered.
    winner, loser : (T,) int
        Of each answer. What a person answered both ways counts as a tie.

    Examples
    --------
    >>> import numpy as np
    >>> who = np.repeat(np.arange(100), 3)
    >>> items = 4 * who
    >>> origin_of_pairs(who, items, items + np.tile([1, 2, 3], 100))  # each chose one of four
    'choices'
    """
    graph = _Comparisons.of(group, winner, loser)
    if not graph.is_large.any():
        return "pairs"
    if graph.looks_chosen():
        return "choices"
    return "orders" if graph.looks_ordered() else "pairs"


class _Comparisons:
    """What everybody compared: nodes (a person and an item), comparisons between them, and groups that they connect."""

    def __init__(self, item: Array, winner: Array, loser: Array) -> None:
        n = len(item)
        self.item, self.winner, self.loser = item, winner, loser
        links = coo_array((np.ones(len(winner), dtype=np.int8), (winner, loser)), shape=(n, n))
        self.n_groups, self.group = connected_components(links, directed=False)
        self.wins, self.losses = np.bincount(winner, minlength=n), np.bincount(loser, minlength=n)
        self.size = np.bincount(self.group[winner], minlength=self.n_groups)
        self.is_large = self.size >= 2

    @staticmethod
    def of(person: Array, winner: Array, loser: Array) -> _Comparisons:
        rows = np.unique(np.column_stack([person, winner, loser]), axis=0)
        order = np.lexsort((np.maximum(rows[:, 1], rows[:, 2]), np.minimum(rows[:, 1], rows[:, 2]), rows[:, 0]))
        rows = rows[order]
        ends = np.column_stack([rows[:, 0], np.minimum(rows[:, 1], rows[:, 2]), np.maximum(rows[:, 1], rows[:, 2])])
        again = np.all(ends[1:] == ends[:-1], axis=1)
        both_ways = np.r_[again, False] | np.r_[False, again]
        rows = rows[~both_ways]
        nodes = np.column_stack([np.r_[rows[:, 0], rows[:, 0]], np.r_[rows[:, 1], rows[:, 2]]])
        unique, place = np.unique(nodes, axis=0, return_inverse=True)
        first, second = place.reshape(2, -1)
        return _Comparisons(unique[:, 1], first, second)

    def _has(self, nodes: Array) -> Array:
        """Return which groups have one of these nodes."""
        return np.bincount(self.group[nodes], minlength=self.n_groups) > 0

    def _nearly_all(self, found: Array) -> bool:
        """Return whether nearly all large groups are among those found, and most answers in them."""
        large = self.is_large
        enough = 2 * self.size[large & found].sum() >= self.size.sum()
        return bool(enough and found[large].sum() >= NEARLY_ALL * large.sum())

    # ------------------------------------------------------------------------------------------- choices

    def looks_chosen(self) -> bool:
        """Return whether nearly every group was cut from choices."""
        chosen = self.is_large & ~self._has(self.wins == 1) & self._has(self.losses == 1)
        if not self._nearly_all(chosen):
            return False
        winners = np.unique(self.item[(self.wins > 0) & chosen[self.group]]).size
        return bool(min(int(chosen.sum()), winners) * log(2.0) >= UNLIKELY or self._entropy(chosen) >= UNLIKELY)

    def _entropy(self, chosen: Array) -> float:
        """Return Σ n H: of the groups with one winner, about the same items, how different the winners are."""
        one = chosen & (np.bincount(self.group[self.wins > 0], minlength=self.n_groups) == 1)
        times: dict[bytes, dict[int, int]] = {}
        for items, wins in self._nodes_of(one):
            order = np.argsort(items)
            times.setdefault(items[order].tobytes(), {}).setdefault(int(items[np.argmax(wins)]), 0)
            times[items[order].tobytes()][int(items[np.argmax(wins)])] += 1
        counts = [np.array(list(found.values()), dtype=np.float64) for found in times.values()]
        return float(sum(np.sum(n * np.log(n.sum() / n)) for n in counts))

    def _nodes_of(self, groups: Array) -> list[tuple[Array, Array]]:
        """Return the items and how often each won, of these groups."""
        order = np.argsort(self.group, kind="stable")
        order = order[groups[self.group[order]]]
        edges = np.flatnonzero(np.diff(self.group[order])) + 1
        return [(self.item[some], self.wins[some]) for some in np.split(order, edges)] if order.size else []

    # -------------------------------------------------------------------------------------------- orders

    def looks_ordered(self) -> bool:
        """Return whether the pairs are those of rankings or ratings: nobody contradicts themselves, and more."""
        triples = self._closed_triples()
        if triples is None:
            return False
        if CONTRADICTED * triples >= UNLIKELY:
            return True
        ordered = self._whole_orders()
        if not self._nearly_all(ordered):
            return False
        evidence, seen = CONTRADICTED_CLOSED * triples, set()
        for items, wins in self._nodes_of(ordered):
            order = np.argsort(items)
            # two people who were asked the same questions, and agree, are one piece of evidence
            classes = np.unique(wins, return_inverse=True)[1].reshape(-1)[order]
            key = items[order].tobytes() + (classes[:, None] == classes).tobytes()
            if key not in seen:
                seen.add(key)
                sizes = np.bincount(classes)
                if sizes.size == 2 and sizes.min() == 1:
                    continue  # one item and all others, which everybody may have been asked about
                evidence += lgamma(items.size + 1) - lgamma(sizes.size + 1) - sum(lgamma(c + 1) for c in sizes)
        return evidence >= UNLIKELY

    def _whole_orders(self) -> Array:
        """Return which groups are whole orders: compared were just the pairs of items with different numbers of wins.

        In an order with ties an item beats all that are in lower classes. So wins are equal within a class, and
        whoever won has more of them.
        """
        upset = np.bincount(
            self.group[self.winner[self.wins[self.winner] <= self.wins[self.loser]]], minlength=self.n_groups
        )
        items = np.bincount(self.group, minlength=self.n_groups)
        classes, sizes = np.unique(np.column_stack([self.group, self.wins]), axis=0, return_counts=True)
        tied = np.bincount(classes[:, 0], sizes * (sizes - 1) // 2, minlength=self.n_groups)
        return self.is_large & (upset == 0) & (self.size == items * (items - 1) // 2 - tied)

    def _closed_triples(self) -> int | None:
        """Return how many triples of items were compared two by two; None if the answers about one go in a circle."""
        n = len(self.item)
        A = coo_array((np.ones(len(self.winner)), (self.winner, self.loser)), shape=(n, n)).tocsr()
        if (A @ A).multiply(A.T).sum():
            return None
        E = A + A.T
        return round((E @ E).multiply(E).sum() / 6.0)
