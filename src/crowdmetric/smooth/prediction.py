"""Probabilities of answers, everything uncertain integrated over: a person, the crowd, and items nobody has seen.

Given all answers, with W and c what a person told (`propagation`) and · for any items::

    E x· = μ· + K·ₖ (c − W μₖ)
    cov x· = K·· − K·ₖ W Kₖ·  +  (E· − K·ₖ W Eₖ) V (E· − K·ₖ W Eₖ)ᵀ

where μ and V are of the crowd's utilities, carried over to items that nobody was shown by ``C·ₛ`` (s: those shown)::

    R = ΣW (I + Cₛₛ ΣW)⁻¹      V·· = C·· − C·ₛ R Cₛ·      μ· = C·ₛ (Σc − ΣW μₛ)

A new person who has answered is x ~ N(μ, K + V) beforehand: the same formulas, with K + V for K and nothing for V.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from crowdmetric.errors import DataError
from crowdmetric.smooth.covariances import Grams
from crowdmetric.smooth.evidence import FINE, SmoothFit
from crowdmetric.smooth.inducing import InducedCovariances, Own
from crowdmetric.smooth.joint_propagation import Propagation
from crowdmetric.smooth.people_blocks import DistinctAnswers, PeopleBlock, arrange
from crowdmetric.smooth.shared import Parts, Shared

__all__ = ["UtilityField", "field_of", "kernel_coordinates", "laws_at"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Numbers in people's matrices that are held at once, and differences of many items.
MOST_NUMBERS, MOST_DIFFERENCES = 4_000_000, 10_000
# Directions with less than this share of the largest variance have no coordinate.
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
    mean, error : (N,)
        Of the crowd's utilities.
    blocks, W, c
        People whose answers are known, their items being numbers of these N, and what they told.
    """

    person: Array | Parts
    crowd: Array | Parts
    mean: Array
    error: Array
    blocks: tuple[PeopleBlock, ...]
    W: tuple[Array, ...]
    c: tuple[Array, ...]

    def moments(self, low: Indices, high: Indices, who: Indices) -> tuple[Array, Array]:
        """Return mean and variance (T,) of x_high − x_low for people by number; −1, or unknown, is anybody."""
        mean = self.mean[high] - self.mean[low]
        variance = _of_differences(self.person, low, high) + _of_differences(self.crowd, low, high)
        mine = np.column_stack([high, low])
        for block, W, c in zip(self.blocks, self.W, self.c, strict=True):
            order = np.argsort(block.who)
            place = np.minimum(np.searchsorted(block.who, who, sorter=order), len(order) - 1)
            asked = np.flatnonzero(block.who[order[place]] == who)
            at_once = max(1, MOST_NUMBERS // W.shape[1] ** 2)
            for rows in np.array_split(asked, -(-asked.size // at_once)) if asked.size else []:
                own = order[place[rows]]
                shift, change = self._given(block.items[own], W[own], c[own], mine[rows])
                mean[rows] += shift
                variance[rows] += change
        return mean, np.maximum(variance, 0.0)

    def _given(self, items: Indices, W: Array, c: Array, asked: Indices) -> tuple[Array, Array]:
        """Return what a person's answers change about a difference's mean and variance (T,), of items high and low."""
        mean = np.append(self.mean, 0.0)
        across, crowd = (-np.diff(_between(S, asked, items), axis=1)[:, 0] for S in (self.person, self.crowd))
        weights = np.einsum("ti,tij->tj", across, W)
        shift = np.einsum("ti,ti->t", across, c) - np.einsum("ti,ti->t", weights, mean[items])
        between = np.einsum("tij,tj->ti", _between(self.crowd, items, items), weights)
        change = np.einsum("ti,ti->t", weights, between - 2.0 * crowd - across)
        return shift, change

    def means(self) -> Iterator[tuple[Indices, Array]]:
        """Yield numbers of people (P,) and the mean (P, N) of their utilities of all items."""
        N = len(self.mean)
        for block, W, c in zip(self.blocks, self.W, self.c, strict=True):
            step = max(1, MOST_NUMBERS // (N * W.shape[1]))
            for begin in range(0, len(block.who), step):
                some = slice(begin, begin + step)
                items = block.items[some]
                told = c[some] - np.einsum("pij,pj->pi", W[some], np.append(self.mean, 0.0)[items])
                across = _between(self.person, np.broadcast_to(np.arange(N), (len(items), N)), items)
                yield block.who[some], self.mean + np.einsum("pij,pj->pi", across, told)

    def utilities(self) -> Iterator[tuple[Indices, Array, Array]]:
        """Yield numbers of people (P,), and mean (P, N) and covariance (P, N, N) of their utilities of all items."""
        V, N = self.crowd, len(self.mean)
        if not (isinstance(self.person, np.ndarray) and isinstance(V, np.ndarray)):
            raise DataError(
                f"the covariance of one person's utilities of {N:,} items is too large to make; ask about pairs of "
                "them: predict_proba(pairs), next_question(candidates)"
            )
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
        N = len(self.mean)
        K: Array | Parts
        nothing: Array | Shared
        if isinstance(self.person, np.ndarray) and isinstance(self.crowd, np.ndarray):
            K, nothing = self.person + self.crowd, np.zeros((N, N))
        else:
            K, nothing = _Sum(self.person, self.crowd), Shared(np.zeros((N, 0)))
        blocks = arrange(answers, N)
        propagation = Propagation(blocks, N, self.mean)
        propagation.converge(K, nothing, FINE)
        propagation.tell_apart(K, nothing)
        told = propagation.messages
        kept = tuple(blocks), tuple(t.W for t in told), tuple(t.c for t in told)
        return UtilityField(K, nothing, self.mean, self.error, *kept)


@dataclass(frozen=True)
class _Sum:
    """The sum of two covariances, in parts."""

    one: Any
    other: Any

    def of(self, block: PeopleBlock) -> Array:
        """Return everybody's part (P, n, n)."""
        return block.take(self.one) + block.take(self.other)

    def between(self, rows: Indices, columns: Indices) -> Array:
        """Return parts (T, a, b)."""
        return _between(self.one, rows, columns) + _between(self.other, rows, columns)


def _between(covariance: Array | Parts, rows: Indices, columns: Indices) -> Array:
    """Return parts (T, a, b) of a covariance (N, N) by numbers of items (T, a) and (T, b); zero at the number N."""
    if isinstance(covariance, np.ndarray):
        return np.asarray(np.pad(covariance, (0, 1))[rows[:, :, None], columns[:, None, :]])
    return covariance.between(rows, columns)


def _of_differences(covariance: Array | Parts, low: Indices, high: Indices) -> Array:
    if not isinstance(covariance, np.ndarray):
        both = np.column_stack([low, high])
        parts = np.array_split(both, max(1, len(both) // MOST_DIFFERENCES))
        S = np.concatenate([covariance.between(part, part) for part in parts])
        return np.asarray(S[:, 0, 0] + S[:, 1, 1] - S[:, 0, 1] - S[:, 1, 0])
    own = np.diag(covariance)
    return np.asarray(own[low] + own[high] - 2.0 * covariance[low, high])


def field_of(fit: SmoothFit, others: Array) -> UtilityField:
    """Return the utilities of the items shown, 0…n−1, followed by other items with these features (N − n, d)."""
    n = len(fit.Z)
    known, Z = fit.propagation, np.concatenate([fit.Z, others])
    W, rest = known.precision, known.pull - known.precision @ known.mean
    told = tuple(t.W for t in known.messages), tuple(t.c for t in known.messages)
    blocks = tuple(_renumbered(block, len(Z)) for block in known.blocks)
    if isinstance(fit.family, InducedCovariances):
        root, given, own = _induced(fit, fit.family, others)
        error = np.sqrt(np.sum(given.root**2, axis=1) + own.rest)
        return UtilityField(own, given, root @ (root[:n].T @ rest), error, blocks, *told)
    grams = fit.family.at(fit.theta, Z)
    C = grams.crowd
    across = C[:, :n]
    R = W @ np.linalg.inv(np.eye(n) + C[:n, :n] @ W)
    V = C - across @ R @ across.T
    V = 0.5 * (V + V.T)
    error = np.sqrt(np.maximum(np.diag(V), 0.0))
    return UtilityField(grams.person, V, across @ rest, error, blocks, *told)


def _induced(fit: SmoothFit, family: InducedCovariances, others: Array) -> tuple[Array, Shared, Own]:
    """Return Y (N, m) of all items, what is known of the shared utilities, and the covariance of a person beside it."""
    grams = family.at(fit.theta, fit.Z)
    root = np.concatenate([grams.crowd.root, grams.root_of(others)])
    shown = grams.crowd.root
    inner = np.eye(root.shape[1]) + shown.T @ (fit.propagation.precision @ shown)
    given = Shared(solve_triangular(np.linalg.cholesky(inner), root.T, lower=True).T)
    return root, given, Own(fit.family, fit.theta, np.concatenate([fit.Z, others]), Shared(root))


def laws_at(fit: SmoothFit, points: Array) -> tuple[Array, Array, Array]:
    """Return the mean (n,) and the covariance (n, n) of the crowd's utilities of new items (n, d), and that of people.

    The covariance of people is around the crowd.
    """
    field, new = field_of(fit, points), slice(len(fit.Z), None)
    if isinstance(field.person, np.ndarray) and isinstance(field.crowd, np.ndarray):
        return field.mean[new], field.crowd[new, new], field.person[new, new]
    # what people do not share of the crowd's utilities is the crowd's all the same
    numbers = len(fit.Z) + np.arange(len(points))[None]
    person = Grams(fit.family, fit.theta, points, points, np.eye(len(points))).person
    both = _between(field.person, numbers, numbers)[0] + _between(field.crowd, numbers, numbers)[0]
    return field.mean[new], both - person, person


def _renumbered(block: PeopleBlock, n_items: int) -> PeopleBlock:
    """Return a block about more items: those that stand for none have another number."""
    return replace(block, items=np.where(block.items == block.n_items, n_items, block.items), n_items=n_items)


def kernel_coordinates(fits: Sequence[SmoothFit], weights: Array, Z: Array, rank: int | None) -> Array:
    """Return kernel principal components (N, k) of items Z (N, d), those of the items shown being the axes.

    Of many items shown, those of the inducing ones are.

    With K the covariance of a person's smooth and linear taste for the items shown, averaged over kernels and centered,
    and ``K = UΛUᵀ``, an item with covariances k to these stands at ``k U Λ^(−1/2)``: for items shown, Euclidean
    distances are those of K.
    """
    shown, family = fits[0].Z, fits[0].family
    axes = shown[family.inducing] if isinstance(family, InducedCovariances) else shown
    n, both = len(axes), np.concatenate([axes, Z])
    none = np.zeros((len(both), n))  # effects of single items left out
    K = np.sum([w * Grams(f.family, f.theta, both, axes, none).person for w, f in zip(weights, fits, strict=True)], 0)
    across = K[n:]
    center = K[:n].mean(axis=0)
    across = across - across.mean(axis=1, keepdims=True) - center + center.mean()
    values, vectors = np.linalg.eigh(_centered(K[:n]))
    kept = np.flatnonzero(values > UNSEEN * max(float(values[-1]), 1e-300))[::-1][:rank]
    return np.asarray(across @ vectors[:, kept] / np.sqrt(values[kept]))


def _centered(K: Array) -> Array:
    rows = K.mean(axis=0)
    return np.asarray(K - rows - rows[:, None] + rows.mean())
