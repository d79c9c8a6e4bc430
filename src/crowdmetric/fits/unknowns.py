"""What a prediction does not know, besides where the person stands: the law itself, new items, and personal tastes.

For a question about items x and x' (δ = x − x', s = x + x') and a person with pseudo-ideal point v, ::

    ψ = ⟨sym(δ sᵀ), M⟩ + ⟨δ, v⟩ − (b − b') − (e − e')

Given the person's answers and the law, v is nearly Gaussian (`crowdmetric.users.people`). Three more things are
unknown, and each adds to the variance of ψ:

the law
    (M, μ, b) were estimated. With C the inverse of their information, ridges included, ψ has the additional variance
    ``zᵀCz``, where z is the derivative of ψ by (svec M, μ, b). A person's own answers correct part of that error, which
    is ignored here: C is small if there are many people, as is usual.
an item that nobody has answered about
    Its utility b beyond the features has variance ω².
what a person thinks of an item that this person has not compared
    No real person's taste is a function of a few features: person k likes item i better than the model predicts, by
    some e_ki. Most of that looks like noise of the answers, and the law, which learned from them, already counts on it.
    But in many answers about the same items, v absorbs some of it, and is therefore too sure about *other* items. So
    predictions have an additional variance τ² for each item that is new to a person. τ² is found by hiding items
    (`personal_variance`): it is what predictions lack, not the variance of e_ki. With a standard deviation of e_ki of
    0.8 it is usually zero, and rightly: predictions about hidden items are then as sure as they should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from crowdmetric.canonical import Canonical, canonical_of_pairs
from crowdmetric.losses import Loss
from crowdmetric.solvers.law_fit import PopulationFit
from crowdmetric.symmetric import degrees_of_freedom, outer_difference
from crowdmetric.users.blocks import SPARE, Answers, arrange
from crowdmetric.users.integrals import mean_probability
from crowdmetric.users.item_effects import variance_of_differences
from crowdmetric.users.people import posteriors
from crowdmetric.users.population_sums import Law, blocks_of
from crowdmetric.users.propagation import ROUGHLY

__all__ = [
    "MOST_PARAMETERS",
    "MOST_PEOPLE",
    "NOTHING_UNKNOWN",
    "SeenItems",
    "Unknowns",
    "mean_square",
    "moments_of",
    "personal_variance",
    "thinned",
    "unknowns_of",
]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Maximum number of parameters of a law whose covariance is kept.
MOST_PARAMETERS = 1500
# Maximum size of a temporary with one row per question, in numbers.
CHUNK = 1 << 21
# Number of parts in which items are hidden in turn; maximum number of people and answers used for that.
PARTS, MOST_PEOPLE, MOST_ANSWERS = 5, 1000, 20_000
# Maximum size of people's covariances held at once, in numbers.
MOST_NUMBERS = 4_000_000
# Range of log τ² that is searched, relative to the mean square of ψ; τ² is set to zero if it is below that range or
# gains fewer nats than this. Relative, because answers without noise make everything large.
LIMITS, LEAST_GAIN = (-8.0, 3.0), 2.0
# After so many parts or hidden items, with more hidden answers than this, no others are looked at: τ² is one number.
FEWEST_PARTS, ENOUGH_ITEMS, ENOUGH_HIDDEN = 3, 100, 3000


@dataclass(frozen=True)
class Unknowns:
    """What is unknown about ψ, besides the person.

    Attributes
    ----------
    covariance
        C (n, n) of (svec M, μ, b), n = p + d + N, with b only if items have effects; None: not computed.
    new_item
        ω², zero if items have no effects.
    personal
        τ².
    items
        Variances (N,) of b, if their covariances are not known.
    """

    covariance: Array | None
    new_item: float = 0.0
    personal: float = 0.0
    items: Array | None = None

    def variance(self, left: Array, right: Array, pairs: Indices | None) -> Array:
        """Return the variance of ψ (T,) from the law and the items, for items (T, d); `pairs` None: new items."""
        d = left.shape[1]
        own = degrees_of_freedom(d) + d
        C = self.covariance
        if C is None:
            if self.items is not None and pairs is not None:
                return np.asarray(self.items[pairs].sum(axis=1))
            return np.full(len(left), 2.0 * self.new_item)
        effects = pairs is not None and C.shape[0] > own
        out = np.empty(len(left))
        step = max(1, CHUNK // own)
        for begin in range(0, len(left), step):
            some = slice(begin, begin + step)
            delta = left[some] - right[some]
            z = np.concatenate([outer_difference(delta, left[some] + right[some]), delta], axis=1)
            out[some] = np.einsum("tn,tn->t", z @ C[:own, :own], z)
            if effects:
                assert pairs is not None
                across = C[:own, own:].T
                out[some] += 2.0 * np.einsum("tn,tn->t", z, across[pairs[some, 1]] - across[pairs[some, 0]])
        out += variance_of_differences(C[own:, own:], pairs) if effects else 2.0 * self.new_item  # type: ignore[arg-type]
        return np.maximum(out, 0.0)


# For laws that are known.
NOTHING_UNKNOWN = Unknowns(None)


def unknowns_of(fit: PopulationFit) -> Unknowns:
    """Return what a fit does not know about its law and its items, in the units of the fit."""
    at = fit.layout
    new_item = 1.0 / fit.ridges.items if at.n_items else 0.0
    offsets = np.r_[at.metric, at.mean, at.items]
    if offsets.size > MOST_PARAMETERS:
        return Unknowns(None, new_item)
    return Unknowns(fit.covariance[np.ix_(offsets, offsets)], new_item)


@dataclass(frozen=True)
class SeenItems:
    """Which items each person has compared: `rows` (R, 2) of a person's and an item's number, without repeats."""

    rows: NDArray[np.int64]

    @staticmethod
    def of(person: NDArray[Any], pairs: NDArray[Any]) -> SeenItems:
        """Return what people have compared in answers by `person` (T,) about `pairs` (T, 2)."""
        width = int(pairs.max(initial=0)) + 1
        codes = np.unique(person.astype(np.int64)[:, None] * width + pairs)
        return SeenItems(np.column_stack([codes // width, codes % width]))

    def new_items(self, person: NDArray[Any], pairs: NDArray[Any] | None) -> NDArray[np.int64]:
        """Return how many of two items (T,) are new to a person who has answered; `pairs` None: both are."""
        if pairs is None:
            return 2 * np.isin(person, self.rows[:, 0]).astype(np.int64)
        return np.sum(self.are_new(person, pairs), axis=1)

    def are_new(self, person: NDArray[Any], items: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of these items (T, n) are new to a person who has answered."""
        answered = np.isin(person, self.rows[:, 0])
        width = 1 + max(int(items.max(initial=0)), int(self.rows[:, 1].max(initial=0)))
        seen = self.rows[:, 0] * width + self.rows[:, 1]
        codes = person.astype(np.int64)[:, None] * width + items
        return answered[:, None] & ~np.isin(codes, seen)


@dataclass(frozen=True)
class Moments:
    """Mean and variance of ψ (T,) without personal tastes, and how many of the two items are new to the person."""

    mean: Array
    variance: Array
    new_items: NDArray[np.int64]

    def probability(self, personal: float, loss: Loss) -> Array:
        """Return Pr[right preferred] (T,), τ² being `personal`."""
        return np.asarray(mean_probability(self.mean, self.variance + personal * self.new_items, loss))


def moments_of(
    items: Array,
    pairs: Indices,
    person: Indices,
    known: Answers,
    law: Law,
    loss: Loss,
    unknowns: Unknowns,
    largest_grid: int = 1,
) -> Moments:
    """Return mean and variance of ψ for questions to people, given some of their answers: roughly, for averages.

    Parameters
    ----------
    items : (N, d)
    pairs, person : (T, 2), (T,)
        The questions, and the number of the person who is asked each.
    known
        Answers of these people, by the same numbers; people without answers follow the law.
    law, loss, unknowns, largest_grid
        The law in the units of the items; how people are integrated out.
    """
    left, right = items[pairs[:, 0]], items[pairs[:, 1]]
    delta = left - right
    mean = np.einsum("td,td->t", delta @ law.metric, left + right)
    if law.effects is not None:
        mean -= law.effects[pairs[:, 0]] - law.effects[pairs[:, 1]]
    variance = unknowns.variance(left, right, pairs)
    for people, rows in _some_people(person, items.shape[1]):
        points, spreads = _placed(known, people, law, loss, largest_grid)
        place = np.searchsorted(people, person[rows])
        mean[rows] += np.einsum("td,td->t", delta[rows], points[place])
        own = np.einsum("td,tde,te->t", delta[rows], spreads[place], delta[rows])
        variance[rows] += np.maximum(own, 0.0)
    new = SeenItems.of(known.person, known.pairs).new_items(person, pairs)
    return Moments(mean, variance, new)


def _some_people(person: Indices, d: int) -> Iterator[tuple[Indices, Indices]]:
    """Yield some people at a time, and the rows of their questions."""
    everybody = np.unique(person)
    order = np.argsort(person, kind="stable")
    step = max(1, MOST_NUMBERS // d**2)
    for begin in range(0, everybody.size, step):
        people = everybody[begin : begin + step]
        first, last = np.searchsorted(person[order], [people[0], people[-1] + 1])
        for rows in np.array_split(order[first:last], 1 + (last - first) // step):
            yield people, rows


def _placed(known: Answers, people: Indices, law: Law, loss: Loss, largest_grid: int) -> tuple[Array, Array]:
    """Return mean (K, d) and covariance (K, d, d) of the v of some people."""
    rows = np.isin(known.person, people)
    if not rows.any():
        return np.tile(law.mean, (people.size, 1)), np.tile(law.covariance, (people.size, 1, 1))
    theirs = known.take(rows)
    person = np.searchsorted(people, theirs.person).astype(np.intp)
    theirs = replace(theirs, person=person, problem=np.zeros(people.size, dtype=np.intp)).merged()
    blocks = blocks_of(arrange(theirs, spare=SPARE), theirs.pairs, largest_grid)
    return posteriors(blocks, law, loss, people.size, largest_grid, ROUGHLY)


def personal_variance(
    answers: Answers, learn: Callable[[Answers], tuple[Law, Unknowns]], loss: Loss, largest_grid: int = 1
) -> float:
    """Return τ², by hiding a fifth of the items at a time.

    `learn` returns the law that is learned from the other answers, and what is unknown about it. Everybody is placed by
    their answers about the other items. τ² maximizes the likelihood of the hidden answers, which have variance τ² for
    each item that is new to the person. It is zero if that gains less than two nats.
    """
    part = np.random.default_rng(0).permutation(len(answers.items))[_by_content(answers).items] % PARTS
    found: list[tuple[Moments, Answers]] = []
    units: list[float] = []

    def cost(personal: float) -> float:
        total = 0.0
        for moments, asked in found:
            right = moments.probability(personal, loss)
            total -= float(asked.weight @ np.log(np.maximum(np.where(asked.response > 0, right, 1.0 - right), 1e-300)))
        return total

    for number in range(PARTS):
        hidden = np.any(part[answers.pairs] == number, axis=1)
        known = answers.take(~hidden)
        asked = answers.take(hidden & np.isin(answers.person, known.person))
        if asked.person.size:
            law, unknowns = learn(known)
            units.append(mean_square(answers, law))
            moments = moments_of(answers.items, asked.pairs, asked.person, known, law, loss, unknowns, largest_grid)
            found.append((moments, asked))
            enough = len(found) >= FEWEST_PARTS or np.count_nonzero(part <= number) >= ENOUGH_ITEMS
            if enough and sum(a.person.size for _, a in found) > ENOUGH_HIDDEN:
                break
    unit = float(np.mean(units)) if found else 0.0
    if unit == 0.0 or cost(unit * float(np.exp(LIMITS[0]))) >= cost(0.0):  # the cost has one minimum: it lies below
        return 0.0
    best = minimize_scalar(
        lambda log: cost(unit * float(np.exp(log))), bounds=LIMITS, method="bounded", options={"xatol": 0.05}
    )
    return unit * float(np.exp(best.x)) if cost(0.0) - best.fun > LEAST_GAIN else 0.0


def mean_square(answers: Answers, law: Law) -> float:
    """Return the mean of ψ² over the questions that were asked, and over people drawn from the law."""
    left, right = answers.items[answers.pairs[:, 0]], answers.items[answers.pairs[:, 1]]
    delta = left - right
    psi = np.einsum("td,td->t", delta, (left + right) @ law.metric + law.mean)
    if law.effects is not None:
        psi -= law.effects[answers.pairs[:, 0]] - law.effects[answers.pairs[:, 1]]
    variance = np.einsum("td,td->t", delta @ law.covariance, delta)
    return float(np.average(psi**2 + variance, weights=answers.weight))


def thinned(answers: Answers) -> Answers:
    """Return the answers of one person in k: at most `MOST_PEOPLE` people and about `MOST_ANSWERS` answers."""
    answers = answers.merged()
    people = np.unique(answers.person)
    step = max(-(-people.size // MOST_PEOPLE), -(-answers.person.size // MOST_ANSWERS), 1)
    if step == 1:
        return answers
    some = _by_content(answers).sorted_people(people)[::step]
    return answers.take(np.isin(answers.person, some))


def _by_content(answers: Answers) -> Canonical:
    """Return numbers of people and items that do not depend on names or on the order of a table."""
    n_people, n_items = answers.problem.size, len(answers.items)
    told = answers.person, answers.pairs, answers.response, answers.weight
    return canonical_of_pairs(*told, n_people, n_items, answers.items)
