"""One utility for everybody: logistic regression on differences between items, shrunk as cross-validation asks.

With h = Φw the utilities (N,) of the items and Φ (N, n) whatever describes them::

    Pr[right preferred] = σ(h_right − h_left)        min over w:   Σ c log(1 + exp(−m)) + ½ λ ‖w‖²

m being the difference in favor of the item that was preferred and c the weight of the answer. `bradley-terry` has
Φ = I (`EachItem`), `quadratic` has the products of features (`Products`)::

    h(x) = zᵀQz + l·z      z = (x − center) / spread of each feature over the items that were compared

An item that was never seen is, for `bradley-terry`, as popular as the average one.

Only counts matter: how often one item of a pair was preferred to the other, so answers to the same question are
added up first. Newton's method takes its steps by conjugate gradients, which need Φ and Φᵀ as functions alone, so that
neither Φ nor a matrix (n, n) is ever made. λ is found by cross-validation blocked by person, from strong to weak, each
fit starting where the one before it ended, until two weaker ones in a row predict worse. Where no λ predicts better
than coin flips by one nat in all, there is nothing to learn: λ is infinite and all utilities are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import expit

from crowdmetric.canonical import canonical_of_pairs
from crowdmetric.comparisons import Comparisons
from crowdmetric.preprocess import spreads_of
from crowdmetric.symmetric import degrees_of_freedom, smat, svec

__all__ = [
    "CommonUtility",
    "EachItem",
    "ItemFeatures",
    "Products",
    "QuadraticUtility",
    "Tally",
    "fit_popularity",
    "fit_quadratic",
]

Array = NDArray[Any]

# Powers of ten tried for λ, the strongest first; half powers are tried around the best.
STRONGEST, WEAKEST = 4, -4
FOLDS = 5
# Newton's method stops when the expected gain is below this, in nats in total; trial fits stop earlier.
PROMISE, ROUGH_PROMISE = 1e-9, 1e-3
# Minimum gain over coin flips, in nats in total, for weights that are not zero.
LEAST_GAIN = 1.0
NEWTON_STEPS, GRADIENT_STEPS = 50, 300


class ItemFeatures(Protocol):
    """Φ (N, n) as functions."""

    @property
    def size(self) -> int:
        """The number n of weights."""
        ...

    def utilities(self, weights: Array) -> Array:
        """Return Φw (N,)."""
        ...

    def adjoint(self, values: Array) -> Array:
        """Return Φᵀg (n,)."""
        ...

    def squares(self, values: Array) -> Array:
        """Return Σ_i k_i Φ_ij² (n,)."""
        ...


@dataclass(frozen=True)
class CommonUtility:
    """Utilities (N,) of all items, and the precision λ of the prior they were learned with."""

    strength: Array
    precision: float

    def probability(self, questions: Comparisons, known: Comparisons) -> Array:
        """Return Pr[right preferred] (T,)."""
        return expit(self.strength[questions.right] - self.strength[questions.left])


@dataclass(frozen=True)
class Tally:
    """How often which item of a pair was preferred.

    Attributes
    ----------
    low, high : (E,)
        The two items of every pair that was asked about, low < high.
    up, down : (F, E)
        Weight of the answers that prefer `high`, and `low`, in each of F groups of people.
    """

    low: NDArray[np.intp]
    high: NDArray[np.intp]
    up: Array
    down: Array

    @staticmethod
    def of(answers: Comparisons) -> Tally:
        """Count answers."""
        return Tally.of_rows(answers.pairs, answers.user, answers.response, answers.weight, answers.n_items)

    @staticmethod
    def of_rows(pairs: NDArray[Any], person: NDArray[Any], response: Array, weight: Array, n_items: int) -> Tally:
        """Count the answers of five groups of people, or of each person where they are fewer."""
        low, high = pairs.min(axis=1), pairs.max(axis=1)
        keys, pair = np.unique(low.astype(np.int64) * n_items + high, return_inverse=True)
        by_content = canonical_of_pairs(person, pairs, response, weight, int(np.max(person)) + 1, n_items)
        people, place = np.unique(by_content.people[person], return_inverse=True)
        groups = max(1, min(FOLDS, people.size))
        group = np.random.default_rng(0).permutation(people.size)[place] % groups
        prefers_high = (response > 0) == (pairs[:, 1] > pairs[:, 0])
        counts = [
            np.bincount(
                group * keys.size + pair.ravel(), weights=weight * chosen, minlength=groups * keys.size
            ).reshape(groups, keys.size)
            for chosen in (prefers_high, ~prefers_high)
        ]
        first, second = np.divmod(keys, n_items)
        return Tally(first.astype(np.intp), second.astype(np.intp), *counts)

    def margin(self, utilities: Array) -> Array:
        """Return h_high − h_low (E,)."""
        difference: Array = utilities[self.high] - utilities[self.low]
        return difference

    def spread_to_items(self, values: Array, n_items: int, sign: float = -1.0) -> Array:
        """Return the sum (N,) over pairs of what each gives its high item and, times `sign`, its low one."""
        high, low = (np.bincount(side, weights=values, minlength=n_items) for side in (self.high, self.low))
        return np.asarray(high + sign * low)


def fit_weights(
    tally: Tally, up: Array, down: Array, features: ItemFeatures, precision: float, start: Array, *, rough: bool = False
) -> Array:
    """Return the w (n,) at the optimum for counts `up` and `down` (E,), from `start`.

    Newton's direction solves ``(Φᵀ Bᵀ D B Φ + λI) s = −gradient`` with B the differences of pairs and D the curvature
    of their losses; it is shortened until the objective falls. Under an infinite precision w is zero.
    """
    if np.isinf(precision):
        return np.zeros(features.size)
    weights, value = start, _objective(tally, up, down, features.utilities(start), start, precision)
    for _ in range(NEWTON_STEPS):
        utilities = features.utilities(weights)
        chance = expit(tally.margin(utilities))
        slope = down * chance - up * (1.0 - chance)
        curvature = (up + down) * chance * (1.0 - chance)
        gradient = features.adjoint(tally.spread_to_items(slope, utilities.size)) + precision * weights
        step = _newton_step(tally, curvature, features, precision, gradient, utilities.size)
        promise = -float(gradient @ step)
        if promise <= (ROUGH_PROMISE if rough else PROMISE):
            break
        length = 1.0
        while length > 1e-6:
            trial = weights + length * step
            there = _objective(tally, up, down, features.utilities(trial), trial, precision)
            if there <= value - 1e-4 * length * promise:
                break
            length *= 0.5
        else:  # rounding prevents further progress
            break
        weights, value = trial, there
    return weights


def _newton_step(
    tally: Tally, curvature: Array, features: ItemFeatures, precision: float, gradient: Array, n_items: int
) -> Array:
    def times(vector: Array) -> Array:
        change = curvature * tally.margin(features.utilities(vector))
        return features.adjoint(tally.spread_to_items(change, n_items)) + precision * vector

    scale = 1.0 / (features.squares(tally.spread_to_items(curvature, n_items, 1.0)) + precision)
    shape = (features.size, features.size)
    system = LinearOperator(shape, matvec=times, dtype=np.float64)
    guide = LinearOperator(shape, matvec=lambda vector: scale * vector, dtype=np.float64)
    step: Array = cg(system, -gradient, rtol=1e-3, maxiter=GRADIENT_STEPS, M=guide)[0]
    return step


def _objective(tally: Tally, up: Array, down: Array, utilities: Array, weights: Array, precision: float) -> float:
    return _loss(tally, up, down, utilities) + 0.5 * precision * float(weights @ weights)


def _loss(tally: Tally, up: Array, down: Array, utilities: Array) -> float:
    margin = tally.margin(utilities)
    return float(up @ np.logaddexp(0.0, -margin) + down @ np.logaddexp(0.0, margin))


def choose_precision(tally: Tally, features: ItemFeatures) -> float:
    """Return the λ under which answers of people left out are most likely; 1 where there is only one person.

    Infinity where nothing can be learned.
    """
    groups = tally.up.shape[0]
    if groups < 2:
        return 1.0
    total_up, total_down = tally.up.sum(axis=0), tally.down.sum(axis=0)
    ends: dict[float, list[Array]] = {}

    def hidden_loss(exponent: float, start: float | None) -> float:
        begin = [np.zeros(features.size)] * groups if start is None else ends[start]
        ends[exponent] = [
            fit_weights(tally, total_up - up, total_down - down, features, 10.0**exponent, begin[number], rough=True)
            for number, (up, down) in enumerate(zip(tally.up, tally.down, strict=True))
        ]
        return sum(
            _loss(tally, up, down, features.utilities(weights))
            for up, down, weights in zip(tally.up, tally.down, ends[exponent], strict=True)
        )

    losses: dict[float, float] = {}
    before: float | None = None
    for exponent in np.arange(STRONGEST, WEAKEST - 1, -1, dtype=float).tolist():
        losses[exponent] = hidden_loss(exponent, before)
        before = exponent
        if exponent < min(losses, key=lambda tried: losses[tried]) - 1.0:
            break
    best = min(losses, key=lambda tried: losses[tried])
    for exponent in (best + 0.5, best - 0.5):
        losses[exponent] = hidden_loss(exponent, best)
    best = min(losses, key=lambda tried: losses[tried])
    coin_flips = float(np.log(2.0) * (total_up.sum() + total_down.sum()))
    return float(10.0**best) if losses[best] < coin_flips - LEAST_GAIN else float("inf")


@dataclass(frozen=True)
class EachItem:
    """Φ = I: a weight of its own for every item."""

    size: int

    def utilities(self, weights: Array) -> Array:
        return weights

    def adjoint(self, values: Array) -> Array:
        return values

    def squares(self, values: Array) -> Array:
        return values


@dataclass(frozen=True)
class Products:
    """Rows (svec zzᵀ, z) of Φ for items Z (N, d), never written down: (N, d(d+1)/2 + d)."""

    Z: Array

    @property
    def size(self) -> int:
        return degrees_of_freedom(self.Z.shape[1]) + self.Z.shape[1]

    def utilities(self, weights: Array) -> Array:
        p = degrees_of_freedom(self.Z.shape[1])
        return np.asarray(np.einsum("nd,nd->n", self.Z @ smat(weights[:p]), self.Z) + self.Z @ weights[p:])

    def adjoint(self, values: Array) -> Array:
        return np.concatenate([svec(self.Z.T @ (values[:, None] * self.Z)), self.Z.T @ values])

    def squares(self, values: Array) -> Array:
        # an entry of svec off the diagonal is √2 z_j z_l, and its square 2 z_j² z_l²: once the √2 is svec's own
        S = self.Z**2
        products = S.T @ (values[:, None] * S)
        twice = products * np.where(np.eye(len(products)) > 0, 1.0, np.sqrt(2.0))
        return np.concatenate([svec(twice), S.T @ values])


@dataclass(frozen=True)
class QuadraticUtility:
    """The weights (svec Q, l) of a quadratic utility, of which z it is, and the precision λ."""

    weights: Array
    center: Array
    spread: Array
    precision: float

    def utilities(self, items: Array) -> Array:
        """Return h (N,) of items (N, d)."""
        return Products((items - self.center) / self.spread).utilities(self.weights)

    def as_law(self) -> tuple[Array, Array]:
        """Return M (d, d) and μ (d,) with ``h(x) = −(xᵀMx + ⟨μ, x⟩)`` up to a constant."""
        p = degrees_of_freedom(self.center.size)
        Q = smat(self.weights[:p]) / np.outer(self.spread, self.spread)
        return -Q, 2.0 * Q @ self.center - self.weights[p:] / self.spread


def fit_popularity(tally: Tally, n_items: int, precision: float | None = None) -> CommonUtility:
    """Return the utilities of items of which nothing else is known; λ by cross-validation if it is not given."""
    each = EachItem(n_items)
    precision = choose_precision(tally, each) if precision is None else precision
    up, down = tally.up.sum(axis=0), tally.down.sum(axis=0)
    return CommonUtility(fit_weights(tally, up, down, each, precision, np.zeros(each.size)), precision)


def fit_quadratic(items: Array, tally: Tally, precision: float | None = None) -> QuadraticUtility:
    """Return a quadratic utility of items (N, d), learned from those that were compared alone."""
    shown = np.unique([tally.low, tally.high])
    center, spread = items[shown].mean(axis=0), spreads_of(items[shown])
    some = Products((items[shown] - center) / spread)
    tally = Tally(np.searchsorted(shown, tally.low), np.searchsorted(shown, tally.high), tally.up, tally.down)
    precision = choose_precision(tally, some) if precision is None else precision
    up, down = tally.up.sum(axis=0), tally.down.sum(axis=0)
    weights = fit_weights(tally, up, down, some, precision, np.zeros(some.size))
    return QuadraticUtility(weights, center, spread, precision)
