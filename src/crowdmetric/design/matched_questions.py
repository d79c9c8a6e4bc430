"""Matched questions: two parallel comparisons per person, so nothing need be known of people.

The information in one parallelogram is ``Pr[y₁ ≠ y₂] σ'(η) β² D Dᵀ`` with ``η = β⟨D, M⟩ = 2β(a − a')ᵀMδ``. Small
parallelograms say little (D is small), and so do large ones (answers are nearly certain). Which are best depends on the
metric, of which only a guess is known. So metrics are drawn around the guess; from a pool of candidates of many sizes
and directions, people are given to those that make ``tr I⁻¹`` smallest (`information.optimal_weights`) with I a
geometric mean over the metrics, and the error promised is the root mean square over them.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.checks import positive_number, whole_number
from crowdmetric.design.guess import Guess, guess_about_items, guess_about_space
from crowdmetric.design.information import MatchedCandidates, apportion, lasting, optimal_weights, reached
from crowdmetric.design.parallelograms import find_parallelograms
from crowdmetric.design.questionnaire import Questionnaire, hand_out, names_of
from crowdmetric.errors import DataError, NotIdentifiedError
from crowdmetric.inputs import check_items
from crowdmetric.symmetric import degrees_of_freedom

__all__ = ["matched_from_catalogue", "matched_from_generator"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Sizes of generated parallelograms to try, relative to the spread of people.
SIZES = 2.0 ** np.arange(-3.0, 4.0, 0.5)


def matched_from_generator(
    dimension: int,
    people: int,
    *,
    questions: int = 2,
    metric: ArrayLike | None = None,
    doubt: float | None = None,
    beta: float = 1.0,
    ideal_points: ArrayLike | None = None,
    reach: float | None = None,
    seed: int = 0,
) -> Questionnaire:
    """Return exact parallelograms of items yet to be made, and who is asked about which.

    Parameters
    ----------
    dimension
        d.
    people
        Number of people who will be asked.
    questions
        Number of questions per person; even, as parallel questions come in pairs.
    metric
        A guess of M, (d, d); None: a multiple of the identity, of the size of the paper's metrics (``‖M‖_F = d/β``).
    doubt
        How wrong the guess may be, as a share of its size. Zero makes a design that is best for the guess, can be
        useless for other metrics, and promises up to a third too much even if the guess is right. None: 1 without a
        guess, 0.3 with one.
    beta
        Sharpness of the answers.
    ideal_points
        (S, d) where people may be; None: N(0, I/d).
    reach
        How far from the center of people items may be, if they cannot be made any further.
    seed
        Random seed.

    Examples
    --------
    >>> from crowdmetric.design import matched_from_generator
    >>> ask = matched_from_generator(dimension=3, people=500)
    >>> len(ask), ask.expected_error < 0.5
    (1000, True)
    """
    d = whole_number(dimension, "dimension", 1)
    rng = np.random.default_rng(seed)
    guess = guess_about_space(d, metric, doubt, beta, ideal_points, rng)
    center, spread = guess.center, guess.spread
    quads = center + _parallelograms(max(4000, 8 * degrees_of_freedom(d)), d, spread, rng)
    if reach is not None:
        furthest = np.linalg.norm(quads - center, axis=3).max(axis=(1, 2), keepdims=True)[..., None]
        shrink = np.minimum(1.0, positive_number(reach, "reach") / furthest)
        quads = center + shrink * (quads - center)
    sides = np.arange(4 * len(quads)).reshape(-1, 2, 2)
    return _hand_out(
        "Matched questions on new items", quads, sides, quads.reshape(-1, d), None, np.zeros(len(quads)), people,
        questions, guess, rng,
    )  # fmt: skip


def matched_from_catalogue(
    items: ArrayLike,
    people: int,
    *,
    questions: int = 2,
    tolerance: float = 0.2,
    metric: ArrayLike | None = None,
    doubt: float | None = None,
    beta: float = 1.0,
    ideal_points: ArrayLike | None = None,
    item_ids: Any = None,
    differences: int = 1_000_000,
    pool: int | None = None,
    seed: int = 0,
) -> Questionnaire:
    """Return near-parallelograms of existing items, and who is asked about which.

    The mismatch of the parallelograms leaves a little of each person's ideal point in their answers. What that does to
    the metric is computed for people at `ideal_points`, and reported as `Questionnaire.expected_bias`.

    Parameters
    ----------
    items
        (N, d), up to a million.
    people, questions, doubt, beta, seed
        As in `matched_from_generator`.
    tolerance
        Largest ``‖δ₁ − δ₂‖ / ‖δ‖``.
    metric
        A guess of M; None: a multiple of the identity under which 2 is the root mean square of βψ for random items and
        people, who then name the closer of two random items about four times out of five.
    ideal_points
        (S, d) where people may be; None: scattered like the items (Gaussian of the same mean and covariance).
    item_ids
        (N,) what items are called in the table.
    differences
        How many differences of items are compared with each other.
    pool
        How many near-parallelograms are weighed against each other; None: 4,000, or ten for each degree of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.design import matched_from_catalogue
    >>> grid = np.stack(np.meshgrid(range(6), range(6)), axis=-1)  # full of parallelograms
    >>> items = grid.reshape(-1, 2) / 2.0
    >>> ask = matched_from_catalogue(items, people=200)
    >>> ask.pairs.shape
    (400, 2)
    """
    X = check_items(items)
    d, rng = X.shape[1], np.random.default_rng(seed)
    ids = names_of(item_ids, items, len(X))
    guess = guess_about_items(X, metric, doubt, beta, ideal_points, rng)
    found = find_parallelograms(
        X, tolerance=positive_number(tolerance, "tolerance"), differences=differences, seed=seed
    )
    if not len(found.mismatch):
        raise NotIdentifiedError(
            f"no parallelogram within tolerance={tolerance:g} was found among {len(X)} items; the closest differ by "
            f"{found.closest:.2g} of their length. Raise tolerance, compare more differences (now {differences:,}), or "
            "make items for the purpose with matched_from_generator"
        )
    kept = _promising(
        X, found.corners, guess.metrics.mean(axis=0), beta, pool or max(4000, 10 * degrees_of_freedom(d)), rng
    )
    return _hand_out(
        "Matched questions on a catalogue", X[found.corners[kept]], found.corners[kept], X, ids, found.mismatch[kept],
        people, questions, guess, rng,
    )  # fmt: skip


def _hand_out(
    design: str, quads: Array, corners: Indices, items: Array, ids: Any, mismatch: Array, people: int, questions: int,
    guess: Guess, rng: np.random.Generator,
) -> Questionnaire:  # fmt: skip
    """Weigh candidates (C, 2, 2, d), give people to them, and promise an error."""
    people, each = whole_number(people, "people", 1), whole_number(questions, "questions", 2)
    if each % 2:
        raise DataError(f"questions={questions!r} is odd, but parallel questions come in pairs; give an even number")
    known = MatchedCandidates(quads, guess.beta, quads.mean(axis=(0, 1, 2)))
    rows = known.robust_rows(guess.to_choose, guess.crowd)
    p, rank = rows.shape[1], reached(rows)
    asked = people * each // 2
    if rank < p or asked < p:
        raise NotIdentifiedError(
            f"{len(quads)} parallelograms, asked {asked} times, can teach {min(rank, asked)} of the {p} degrees of "
            "freedom of the metric; raise tolerance, compare more differences, or ask more people"
        )
    counts = apportion(lasting(optimal_weights(rows), asked), asked)
    used = np.flatnonzero(counts)
    # the origin that MatchedMetric will use is the mean of the items asked about
    center = np.average(quads[used].mean(axis=(1, 2)), axis=0, weights=counts[used])
    asking = MatchedCandidates(quads[used], guess.beta, center)
    promises = [asking.expected_error(counts[used].astype(float), M, guess.crowd) for M in guess.to_promise]
    error, shape, bias = np.sqrt(np.mean(np.square(promises), axis=0)).tolist()
    remark = f"{used.size:,} different parallelograms, each asked {asked / used.size:.3g} times on average"
    worst = float(mismatch[used].max())
    if worst > 1e-6:
        remark += f"; their sides differ by {np.average(mismatch, weights=counts):.2g} of their length on average"
    wider = f", max_mismatch={worst + 0.005:.2f}" if worst > 1e-6 else ""
    advice = f"Learn from the answers with MatchedMetric(items{wider})."
    questions_of = corners[rng.permutation(np.repeat(np.arange(len(counts)), counts))].reshape(people, each, 2)
    return hand_out(
        questions_of, items, ids, rng, design=design, expected_error=error, expected_shape_error=shape,
        expected_bias=bias, assumptions=guess.said, advice=advice, remarks=(remark + ".",),
    )  # fmt: skip


def _parallelograms(count: int, d: int, spread: float, rng: np.random.Generator) -> Array:
    """Return (count, 2, 2, d) exact parallelograms around 0: midpoints ±c, sides δ, Gaussian directions, many sizes."""
    size = spread * rng.choice(SIZES, size=(count, 1, 1, 1))
    c, delta = size * rng.standard_normal((2, count, 1, 1, d)) / sqrt(d)
    question, side = np.array([1.0, -1.0])[None, :, None, None], np.array([0.5, -0.5])[None, None, :, None]
    corners: Array = question * c + side * delta
    return corners


def _promising(
    items: Array, corners: Indices, metric: Array, beta: float, most: int, rng: np.random.Generator
) -> Indices:
    """Return `most` candidates, half of them those of largest ``σ'(η)‖a − a'‖²‖δ‖²``, half at random for breadth."""
    if len(corners) <= most:
        return np.arange(len(corners))
    strength = np.empty(len(corners))
    for start in range(0, len(corners), 50_000):
        part = slice(start, start + 50_000)
        x = items[corners[part]]
        delta, apart = x[:, 0, 0] - x[:, 0, 1], x[:, 0].sum(axis=1) - x[:, 1].sum(axis=1)
        half = 0.5 * beta * np.sum((delta @ metric) * apart, axis=1)
        strength[part] = (
            np.linalg.norm(delta, axis=1) * np.linalg.norm(apart, axis=1) / np.cosh(np.minimum(np.abs(half), 300))
        )
    order = np.argsort(-strength)
    rest: Indices = rng.choice(order[most // 2 :], size=most - most // 2, replace=False)
    return np.concatenate([order[: most // 2], rest])
