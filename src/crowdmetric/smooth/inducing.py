"""Many items: people share the crowd's utilities through some of the items, the inducing ones.

With I the m inducing items, the crowd's utilities of all items are those of the inducing ones, carried over, and a
remainder::

    h = C_NI C_II⁻¹ h_I + rest        cov h = Q + R        Q = C_NI C_II⁻¹ C_IN = Y Yᵀ

People share Q exactly, while everybody has a remainder of their own, with the covariance R on the items that they were
shown. What one person's answers say of that person is therefore exact, and so is everything where all items are
inducing ones; only that the remainder of an item is the same for all people is not known. *What is not shared*,

    Σ often · diag R / Σ often · diag C                     often (N,): how many people were shown an item

is between 0 and 1, and 0 is exact. Inducing items are those that make it small, one after the other (a Cholesky
factorization with pivots, at the scales where the prior is highest): items that many people were shown, spread out.

With ``T = C_NI C_II⁻¹``, G_k the gradient in a person's covariance and Γ that in Q (`shared.CrowdSlope`)::

    dℓ = Σ ⟨G_k, dK + dC⟩ + ⟨F, dQ⟩         F = Γ − Σ G_k          ⟨F, dQ⟩ = 2 ⟨F T, dC_NI⟩ − ⟨Tᵀ F T, dC_II⟩
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from crowdmetric.smooth.covariances import Covariances, Grams
from crowdmetric.smooth.joint_propagation import Propagation
from crowdmetric.smooth.parameter_information import of_crowd, of_everybody
from crowdmetric.smooth.people_blocks import DistinctAnswers, PeopleBlock
from crowdmetric.smooth.shared import CrowdSlope, Shared, total

__all__ = ["InducedCovariances", "InducedGrams", "Own", "choose_inducing", "shown_to"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Added to the diagonal of C_II, as a share of its mean: equal items have equal utilities.
JITTER = 1e-9


@dataclass(frozen=True)
class InducedCovariances(Covariances):
    """The two covariances where people share the crowd's through some items.

    Attributes
    ----------
    inducing : (m,)
        Numbers of these items.
    """

    inducing: Indices

    def at(self, theta: Array, Z: Array) -> InducedGrams:  # type: ignore[override]
        """Return both covariances of items Z (N, d)."""
        return InducedGrams(self, theta, Z)


class InducedGrams:
    """Both covariances at one θ, and the way back, as `covariances.Grams`.

    Attributes
    ----------
    person : Own
        K + R.
    crowd : Shared
        Q.
    """

    def __init__(self, family: InducedCovariances, theta: Array, Z: Array) -> None:
        self._family, self._theta, self._Z = family, theta, Z
        chosen = Z[family.inducing]
        self._among = Grams(family, theta, chosen, chosen, np.eye(len(chosen)))
        C = self._among.crowd
        self._factor = np.linalg.cholesky(C + JITTER * float(np.mean(np.diag(C))) * np.eye(len(C)))
        same = np.zeros((len(Z), len(chosen)))
        same[family.inducing, np.arange(len(chosen))] = 1.0
        self._across = Grams(family, theta, Z, chosen, same)
        self.crowd = Shared(self._root(self._across.crowd))
        self.person = Own(family, theta, Z, self.crowd)

    def _root(self, across: Array) -> Array:
        return np.asarray(solve_triangular(self._factor, across.T, lower=True).T)

    def root_of(self, others: Array) -> Array:
        """Return the rows (n, m) of Y of other items (n, d)."""
        chosen = self._Z[self._family.inducing]
        across = Grams(self._family, self._theta, others, chosen, np.zeros((len(others), len(chosen))))
        return self._root(across.crowd)

    def not_shared(self, often: Array) -> float:
        """Return the share of the crowd's variance that people do not share, items counted as `often` (N,)."""
        return float(often @ self.person.rest) / float(often @ self.person.variances)

    @cached_property
    def _carried(self) -> Array:
        """T (N, m)."""
        return np.asarray(solve_triangular(self._factor, self.crowd.root.T, lower=True, trans="T").T)

    def gradient(self, person: list[tuple[PeopleBlock, Array]], crowd: CrowdSlope) -> Array:
        """Return the gradient in θ, from those in everybody's covariance (P, n, n) and in Q."""
        T, nothing = self._carried, 0.0
        found = sum(self.person.grams(block).gradient(part, part) for block, part in person)
        own = total(self.crowd, [block for block, _ in person], [part for _, part in person])
        FT = crowd @ T - own @ T
        found = found + self._across.gradient(nothing * FT, 2.0 * FT)
        among = T.T @ FT
        return np.asarray(found + self._among.gradient(nothing * among, -among))

    def information(self, known: Propagation) -> Array:
        """Return the information (p, p) about θ, as `Grams.information`, that of C by the inducing items."""
        T, W, V = self._carried, known.precision, known.covariance
        told = W @ T
        person = of_everybody(known, self.person.grams)
        Q = T.T @ (told - W @ (V @ told))
        return person + of_crowd(self._among, Q, self._family.spread, person)


class Own:
    """The covariance K + R of one person's utilities beside what all people share."""

    def __init__(self, family: Covariances, theta: Array, Z: Array, shared: Shared) -> None:
        self._family, self._theta, self._shared, self._N = family, theta, shared, len(Z)
        self._padded = np.pad(Z, ((0, 1), (0, 0)))
        self._made: dict[int, tuple[PeopleBlock, Array]] = {}

    def grams(self, block: PeopleBlock) -> Grams:
        """Return both covariances of the items of everybody in a block, (P, n, n)."""
        Z = self._padded[block.items]
        return Grams(self._family, self._theta, Z, Z, np.eye(block.items.shape[1]))

    def of(self, block: PeopleBlock) -> Array:
        """Return everybody's part (P, n, n); made once, as factors are renewed many times."""
        if id(block) not in self._made:
            self._made[id(block)] = block, self.between(block.items, block.items)
        return self._made[id(block)][1]

    def between(self, rows: Indices, columns: Indices) -> Array:
        """Return parts (T, a, b) by numbers of items (T, a) and (T, b); zero at the number N."""
        same = (rows[:, :, None] == columns[:, None, :]).astype(np.float64)
        grams = Grams(self._family, self._theta, self._padded[rows], self._padded[columns], same)
        real = (rows < self._N)[:, :, None] & (columns < self._N)[:, None, :]
        return np.asarray((grams.person + grams.crowd) * real - self._shared.between(rows, columns))

    @cached_property
    def variances(self) -> Array:
        """The diagonal (N,) of C."""
        Z = self._padded[:-1, None]
        return np.asarray(Grams(self._family, self._theta, Z, Z, np.ones((1, 1))).crowd.reshape(-1))

    @cached_property
    def rest(self) -> Array:
        """The diagonal (N,) of R, never negative."""
        return np.maximum(self.variances - np.sum(self._shared.root**2, axis=1), 0.0)


def shown_to(answers: DistinctAnswers, n_items: int) -> Array:
    """Return how many people were shown each item, (N,)."""
    both = np.concatenate([answers.low, answers.high])
    shown = np.unique(np.tile(answers.person, 2) * n_items + both)
    return np.bincount(shown % n_items, minlength=n_items).astype(np.float64)


def choose_inducing(family: Covariances, Z: Array, often: Array, m: int) -> Indices:
    """Return the numbers of m items (m,), ascending, after which the least of the crowd's variance is left.

    Item after item, the one with the most variance left, times how `often` (N,) it was shown.
    """
    theta = family.start
    left = Own(family, theta, Z, Shared(np.zeros((len(Z), 0)))).variances.copy()
    root, chosen = np.zeros((len(Z), m)), np.zeros(m, dtype=np.intp)
    for j in range(m):
        pivot = chosen[j] = int(np.argmax(often * left))
        same = np.zeros((len(Z), 1))
        same[pivot] = 1.0
        column = Grams(family, theta, Z, Z[pivot : pivot + 1], same).crowd[:, 0] - root[:, :j] @ root[pivot, :j]
        root[:, j] = column / np.sqrt(column[pivot])
        left = np.maximum(left - root[:, j] ** 2, 0.0)
        left[pivot] = 0.0
    return np.sort(chosen)
