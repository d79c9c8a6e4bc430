"""As sure as it should be: how sharp predictions are, learned from answers that are hidden in turn.

A model of tastes may be too careful or too sure for reasons that it cannot know: pairs that were made from ratings come
without their ties, so every question has a clear answer. With p the probability of an answer given all others, the
*sharpness* b of a kind of question is the slope that makes the answers most likely, and predictions become::

    logit p  →  b logit p            b = argmax Σ ω log σ(b logit p)

There are three kinds, each with answers hidden as it will be asked:

=======  ========================================================================================
kind     hidden
=======  ========================================================================================
answers  a tenth of everybody's questions at a time
people   a fifth of the people at a time, with all their answers
items    a third of the items at a time, with every answer about one of them; three draws of thirds
=======  ========================================================================================

Hiding sets the Gaussian factors of answers to nothing and lets the others settle again. θ has seen the hidden answers,
so where answers are few it follows the others by a step; without it, slopes of small crowds came out a tenth too
large. Answers are hidden a few at a time because sharpness grows with the number of answers that are known of a
person, where these never contradict each other: with a quarter hidden it was found too small. In large crowds only
the first parts are hidden, and only among some of the people.
The slope is shrunk towards one as far as its standard error is large: ``log b · s² / (s² + v)`` with s = `SPREAD` and v
the variance of log b clustered by person or by item, whichever is larger: a dozen items are few, however many answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, logit

from crowdmetric.losses import Logistic
from crowdmetric.smooth.ahead import Ahead
from crowdmetric.smooth.evidence import SmoothFit, renewed
from crowdmetric.smooth.joint_propagation import Propagation, Sites
from crowdmetric.smooth.people_blocks import PeopleBlock, work_of
from crowdmetric.users.integrals import mean_probability

__all__ = ["KINDS", "find_sharpness", "probability_of", "sharpened", "sharpness_of"]

Array = NDArray[Any]

KINDS = ("answers", "people", "items")
# Number of parts in which answers, people and items are hidden in turn, and the work (`people_blocks.work_of`, summed
# over people and parts) after which no further part is hidden. Above the work of a part, or above this many answers,
# people are left out: a slope is one number.
PARTS, MOST_WORK, WORK_OF_A_PART, MOST_ANSWERS = {"answers": 10, "people": 5, "items": 3}, 3e7, 1e8, 20_000
# Number of times that parts are drawn: items are few, and the slope depends on which of them are hidden together.
DRAWS = {"answers": 1, "people": 1, "items": 3}
# Tolerance of the factors after answers were hidden.
SETTLED = 0.03
# With fewer answers than this per parameter, θ makes steps when answers are hidden: how many, and their tolerance in
# nats.
FEW_ANSWERS, MOST_STEPS, TOLERANCE = 100, 1, 0.3
# Prior standard deviation of log b, and the range of b.
SPREAD, LEAST, MOST = 0.5, 0.2, 5.0
# Probabilities are kept this far from certainty.
CERTAIN = 1e-12


def probability_of(mean: Array, variance: Array, sharpness: Array | float = 1.0) -> Array:
    """Return E σ(ψ) (T,) for ψ ~ N(mean, variance), sharpened."""
    return sharpened(mean_probability(mean, variance, Logistic()), sharpness)


def sharpened(p: Array, sharpness: Array | float) -> Array:
    """Return probabilities (T,) with log-odds that are multiplied."""
    return np.asarray(expit(sharpness * logit(np.clip(p, CERTAIN, 1.0 - CERTAIN))))


def find_sharpness(fit: SmoothFit, kinds: Sequence[str] = KINDS, seed: int = 0, ahead: Ahead | None = None) -> Array:
    """Return b of questions of some kinds, in their order."""
    known = fit.propagation
    answers = sum(float(block.weight.sum()) for block in known.blocks)
    step = int(np.ceil(max(_work(known.blocks) / WORK_OF_A_PART, answers / MOST_ANSWERS)))
    blocks = [block.every(step) for block in known.blocks]
    sites = [Sites(site.tau[::step], site.nu[::step]) for site in known.sites]
    turns = max(1, round(MOST_WORK / _work(blocks)))
    parts = {"answers": _of_questions, "people": _of_people, "items": _of_items}
    slopes = []
    for kind in kinds:
        found, rng = _Hidden(), np.random.default_rng([seed, KINDS.index(kind)])
        for turn in range(min(DRAWS[kind] * PARTS[kind], turns)):
            number = turn % PARTS[kind]
            if number == 0:
                part = parts[kind](blocks, rng)
            hidden = [
                np.any(block_part == number, axis=0) & (block.weight > 0.0)
                for block_part, block in zip(part, blocks, strict=True)
            ]
            _hide(fit, blocks, sites, hidden, found, ahead)
        slopes.append(found.sharpness())
    return np.array(slopes)


def _work(blocks: list[PeopleBlock]) -> float:
    return float(sum(len(b.who) * work_of(b.items.shape[1], b.low.shape[1]) for b in blocks))


def _of_questions(blocks: list[PeopleBlock], rng: Generator) -> list[Array]:
    """Return the part (1, P, m) of every answer; both answers to one question are in one part."""
    found = []
    for block in blocks:
        turn = rng.permuted(np.broadcast_to(np.arange(block.low.shape[1]), block.low.shape), axis=1)
        again = (block.low[:, 1:] == block.low[:, :-1]) & (block.high[:, 1:] == block.high[:, :-1])
        turn[:, 1:] = np.where(again, turn[:, :-1], turn[:, 1:])  # answers are sorted by question
        first = rng.integers(PARTS["answers"], size=(len(turn), 1))  # no part has more answers than another
        found.append(((turn + first) % PARTS["answers"])[None])
    return found


def _of_people(blocks: list[PeopleBlock], rng: Generator) -> list[Array]:
    """Return the part (1, P, m) of every answer by its person."""
    return [
        np.broadcast_to((rng.permutation(len(block.who)) % PARTS["people"])[:, None], block.low.shape)[None]
        for block in blocks
    ]


def _of_items(blocks: list[PeopleBlock], rng: Generator) -> list[Array]:
    """Return the parts (2, P, m) of every answer by its two items."""
    part = np.append(rng.permutation(blocks[0].n_items) % PARTS["items"], -1)
    return [part[np.stack([b.items[b.rows, b.low], b.items[b.rows, b.high]])] for b in blocks]


class _Hidden:
    """Answers that were hidden: how likely each was, its weight, its person and its items."""

    def __init__(self) -> None:
        self._parts: list[tuple[Array, ...]] = []

    def add(self, block: PeopleBlock, mean: Array, variance: Array, some: Array) -> None:
        """Add some answers (P, m) of a block, ψ of each being Gaussian with this mean and variance."""
        z = block.sign[some] * logit(probability_of(mean[some], variance[some]))
        who = np.broadcast_to(block.who[:, None], some.shape)[some]
        items = (block.items[block.rows, side][some] for side in (block.low, block.high))
        self._parts.append((z, block.weight[some], who, *items))

    def sharpness(self) -> float:
        """Return the slope b."""
        if not self._parts:
            return 1.0
        z, weight, person, low, high = (np.concatenate(columns) for columns in zip(*self._parts, strict=True))
        return sharpness_of(z, weight, [[person], [low, high]])


def _hide(
    fit: SmoothFit,
    blocks: list[PeopleBlock],
    sites: list[Sites],
    hidden: list[Array],
    found: _Hidden,
    ahead: Ahead | None,
) -> None:
    """Add the answers hidden (P, m) of every block, as the others predict them."""
    shown = [replace(block, weight=block.weight * ~mask) for block, mask in zip(blocks, hidden, strict=True)]
    left, all_of_them = (sum(float(block.weight.sum()) for block in some) for some in (shown, blocks))
    if left in (0.0, all_of_them):
        return
    rest, theta = Propagation(shown, blocks[0].n_items), fit.theta
    rest.put_back([Sites(s.tau * ~mask, s.nu * ~mask) for s, mask in zip(sites, hidden, strict=True)])
    if all_of_them < FEW_ANSWERS * theta.size:
        theta = renewed(fit, rest, left / all_of_them, tolerance=TOLERANCE, max_steps=MOST_STEPS, ahead=ahead)
    grams = fit.family.at(theta, fit.Z)
    rest.converge(grams.person, grams.crowd, SETTLED)
    for block, mask, (mean, covariance) in zip(blocks, hidden, rest.posterior, strict=True):
        found.add(block, block.differences(mean), block.variances(covariance), mask)


def sharpness_of(z: Array, weight: Array, clusters: list[list[Array]]) -> float:
    """Return b for answers of log-odds z (T,) and weights (T,); one where there is no answer.

    An answer belongs to several clusters of a kind, such as those of both its items; `clusters` are numbers (T,).
    """
    if not weight.size:
        return 1.0
    within = np.log([LEAST, MOST])
    t = float(minimize_scalar(lambda t: -float(weight @ log_expit(np.exp(t) * z)), bounds=within, method="bounded").x)
    failed = expit(-np.exp(t) * z)
    slope = weight * np.exp(t) * z * failed
    information = float(np.sum(weight * (np.exp(t) * z) ** 2 * failed * (1.0 - failed)))
    if not information > 0.0:
        return 1.0
    sums = [sum(np.bincount(c, weights=slope, minlength=1 + max(map(np.max, kind))) for c in kind) for kind in clusters]
    variance = max(float(np.sum(total**2)) for total in sums) / information**2
    return float(np.exp(t * SPREAD**2 / (SPREAD**2 + variance)))
