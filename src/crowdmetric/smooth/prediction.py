"""Probabilities of answers, everything uncertain integrated over: a person, the crowd, and items nobody has seen.

Given all answers, with W and c what a person told (`propagation`) and · for any items::

    E x· = μ· + K·ₖ (c − W μₖ)
    cov x· = K·· − K·ₖ W Kₖ·  +  (E· − K·ₖ W Eₖ) V (E· − K·ₖ W Eₖ)ᵀ

where μ and V are of the crowd's utilities, carried over to items that nobody was shown by ``C·ₛ`` (s: those shown)::

    R = ΣW (I + Cₛₛ ΣW)⁻¹      V·· = C·· − C·ₛ R Cₛ·      μ· = C·ₛ (Σc − ΣW μₛ)

A new person who has answered is x ~ N(μ, K + V) beforehand: the same formulas, with K + V for K and nothing for V.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.smooth.evidence import FINE, SmoothFit
from crowdmetric.smooth.joint_propagation import Propagation
from crowdmetric.smooth.people_blocks import DistinctAnswers, PeopleBlock, arrange

__all__ = ["UtilityField", "field_of", "kernel_coordinates"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Maximum size of people's matrices held at once, in numbers.
MOST_NUMBERS = 4_000_000
# Directions with a variance below this share of the largest get no coordinate.
UNSEEN = 1e-10


@dataclass(frozen=True)
class UtilityField:
    """Utilities of some items: a Gaussian of the crowd's, and people around it.

    Attributes
    ----------
    person : (N, N)
        K, the covariance of somebody around the crowd.
    crowd : (N, N)
        V, the covariance of the crowd's utilities given the answers.
    mean : (N,)
    blocks, W, c
        People whose answers are known, their items being numbers of these N, and what they told.
    """

    person: Array
    crowd: Array
    mean: Array
    blocks: tuple[PeopleBlock, ...]
    W: tuple[Array, ...]
    c: tuple[Array, ...]

    def moments(self, low: Indices, high: Indices, who: Indices) -> tuple[Array, Array]:
        """Return mean and variance (T,) of x_high − x_low for people by number; −1, or unknown, is anybody."""
        mean = self.mean[high] - self.mean[low]
        variance = _of_differences(self.person, low, high) + _of_differences(self.crowd, low, high)
        for block, W, c in zip(self.blocks, self.W, self.c, strict=True):
            order = np.argsort(block.who)
            place = np.minimum(np.searchsorted(block.who, who, sorter=order), len(order) - 1)
            asked = np.flatnonzero(block.who[order[place]] == who)
            at_once = max(1, MOST_NUMBERS // W.shape[1] ** 2)
            for rows in np.array_split(asked, -(-asked.size // at_once)) if asked.size else []:
                own = order[place[rows]]
                shift, change = self._given(block.items[own], W[own], c[own], low[rows], high[rows])
                mean[rows] += shift
                variance[rows] += change
        return mean, np.maximum(variance, 0.0)

    def _given(self, items: Indices, W: Array, c: Array, low: Indices, high: Indices) -> tuple[Array, Array]:
        """Return what a person's answers change about a difference's mean and variance (T,)."""
        K, V, mean = np.pad(self.person, (0, 1)), np.pad(self.crowd, (0, 1)), np.append(self.mean, 0.0)
        across = K[high[:, None], items] - K[low[:, None], items]
        crowd = V[high[:, None], items] - V[low[:, None], items]
        weights = np.einsum("ti,tij->tj", across, W)
        shift = np.einsum("ti,ti->t", across, c) - np.einsum("ti,ti->t", weights, mean[items])
        between = np.einsum("tij,tj->ti", V[items[:, :, None], items[:, None, :]], weights)
        change = np.einsum("ti,ti->t", weights, between - 2.0 * crowd - across)
        return shift, change

    def utilities(self) -> Iterator[tuple[Indices, Array, Array]]:
        """Yield numbers of people (P,), and mean (P, N) and covariance (P, N, N) of their utilities of all items."""
        V, N = self.crowd, len(self.mean)
        for block, W, c in zip(self.blocks, self.W, self.c, strict=True):
            step = max(1, MOST_NUMBERS // N**2)
            for begin in range(0, len(block.who), step):
                some = slice(begin, begin + step)
                items = block.items[some]
                across = np.pad(self.person, ((0, 0), (0, 1)))[:, items].transpose(1, 0, 2)
                weights = across @ W[some]
                own = np.append(self.mean, 0.0)[items]
                mean = self.mean + np.einsum("pij,pj->pi", across, c[some]) - np.einsum("pij,pj->pi", weights, own)
                crowd = np.pad(V, ((0, 0), (0, 1)))[:, items].transpose(1, 0, 2)
                inner = np.pad(V, (0, 1))[items[:, :, None], items[:, None, :]]
                covariance = self.person + V - across @ weights.transpose(0, 2, 1)
                shared = crowd @ weights.transpose(0, 2, 1)
                covariance = covariance - shared - shared.transpose(0, 2, 1)
                covariance += weights @ inner @ weights.transpose(0, 2, 1)
                yield block.who[some], mean, covariance

    def after_answers(self, answers: DistinctAnswers) -> UtilityField:
        """Return the same items with new people, who gave these answers and are known by nothing else."""
        K, N = self.person + self.crowd, len(self.mean)
        blocks = arrange(answers, N)
        propagation = Propagation(blocks, N, self.mean)
        nothing = np.zeros_like(K)
        propagation.converge(K, nothing, FINE)
        propagation.look(K, nothing)
        told = propagation.messages
        return UtilityField(K, nothing, self.mean, tuple(blocks), tuple(t.W for t in told), tuple(t.c for t in told))


def _of_differences(covariance: Array, low: Indices, high: Indices) -> Array:
    own = np.diag(covariance)
    return np.asarray(own[low] + own[high] - 2.0 * covariance[low, high])


def field_of(fit: SmoothFit, others: Array) -> UtilityField:
    """Return the utilities of the items shown, 0…n−1, followed by other items with these features (N − n, d)."""
    n = len(fit.Z)
    grams = fit.family.at(fit.theta, np.concatenate([fit.Z, others]))
    known, told = fit.propagation, fit.propagation.messages
    W, C = known.precision, grams.crowd
    across = C[:, :n]
    R = W @ np.linalg.inv(np.eye(n) + C[:n, :n] @ W)
    V = C - across @ R @ across.T
    blocks = tuple(_renumbered(block, len(C)) for block in known.blocks)
    mean = across @ (known.pull - W @ known.mean)
    return UtilityField(grams.person, 0.5 * (V + V.T), mean, blocks, tuple(t.W for t in told), tuple(t.c for t in told))


def _renumbered(block: PeopleBlock, n_items: int) -> PeopleBlock:
    """Return a block about more items: those that stand for none have another number."""
    return replace(block, items=np.where(block.items == block.n_items, n_items, block.items), n_items=n_items)


def kernel_coordinates(fit: SmoothFit, Z: Array, rank: int | None) -> Array:
    """Return kernel principal components (N, k) of items Z (N, d), those of the items shown being the axes.

    With K the covariance of a person's smooth and linear taste for the items shown, centered, and ``K = UΛUᵀ``, an item
    with covariances k to these stands at ``k U Λ^(−1/2)``: for items shown, Euclidean distances are those of K.
    """
    n = len(fit.Z)
    own, _ = fit.family.item_variances(fit.theta)
    K = fit.family.at(fit.theta, np.concatenate([fit.Z, Z])).person
    K = K - own * np.eye(len(K))
    across = K[n:, :n]
    center = K[:n, :n].mean(axis=0)
    across = across - across.mean(axis=1, keepdims=True) - center + center.mean()
    values, vectors = np.linalg.eigh(_centered(K[:n, :n]))
    kept = np.flatnonzero(values > UNSEEN * max(float(values[-1]), 1e-300))[::-1][:rank]
    return np.asarray(across @ vectors[:, kept] / np.sqrt(values[kept]))


def _centered(K: Array) -> Array:
    rows = K.mean(axis=0)
    return np.asarray(K - rows - rows[:, None] + rows.mean())
