"""The guess of the metric and of people before anyone is asked.

Which questions are best depends on both. A design that is best for one guess can be useless if the guess is wrong, so
metrics are drawn around it: some to choose questions by, others to promise an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.checks import check_metric, positive_number
from crowdmetric.errors import DataError
from crowdmetric.inputs import check_items

__all__ = ["METRICS", "Guess", "guess_about_items", "guess_about_space"]

Array = NDArray[np.float64]

# Number of ideal points that represent people in expectations, and of metrics that represent doubt about the guess.
SAMPLE = 2000
# Degrees of freedom of a Wishart law: with more, the draws differ by less than a thousandth.
MOST_FREEDOM = 1_000_000
METRICS = 20


@dataclass(frozen=True)
class Guess:
    """Metrics and people that are considered possible.

    Attributes
    ----------
    metrics
        (B, d, d); a single one if there is no doubt.
    crowd
        (S, d) ideal points.
    beta
        Sharpness of the answers.
    said
        All this in words, the condition of a promise.
    """

    metrics: Array
    crowd: Array
    beta: float
    said: str

    @property
    def to_choose(self) -> Array:
        """The metrics by which questions are chosen."""
        return self.metrics[:METRICS]

    @property
    def to_promise(self) -> Array:
        """The metrics over which a promise is averaged: others, so it does not flatter the choice."""
        return self.metrics[-METRICS:]

    @property
    def center(self) -> Array:
        """Where people are on average, (d,)."""
        center: Array = self.crowd.mean(axis=0)
        return center

    @property
    def spread(self) -> float:
        """Root mean square distance of people from their center; 1 if they are all in one place."""
        return sqrt(float(np.mean(np.sum((self.crowd - self.center) ** 2, axis=1)))) or 1.0


def guess_about_space(
    d: int,
    metric: ArrayLike | None,
    doubt: float | None,
    beta: float,
    ideal_points: ArrayLike | None,
    rng: np.random.Generator,
) -> Guess:
    """Return a guess where items are yet to be made: N(0, I/d) people, a metric of the size of the paper's."""
    metrics, said = _metrics(metric, d, beta, d / sqrt(2 * d + 1), doubt, rng)
    return Guess(metrics, _crowd(ideal_points, d, rng, lambda: rng.standard_normal((SAMPLE, d)) / sqrt(d)), beta, said)


def guess_about_items(
    items: Array,
    metric: ArrayLike | None,
    doubt: float | None,
    beta: float,
    ideal_points: ArrayLike | None,
    rng: np.random.Generator,
) -> Guess:
    """Return a guess where there is a catalogue: people scattered like items, answers neither random nor certain."""
    d = items.shape[1]
    crowd = _crowd(ideal_points, d, rng, lambda: _like(items, SAMPLE, rng))
    metrics, said = _metrics(metric, d, beta, _ordinary_size(items, crowd, rng), doubt, rng)
    return Guess(metrics, crowd, beta, said)


def _metrics(
    metric: ArrayLike | None, d: int, beta: float, size: float, doubt: float | None, rng: np.random.Generator
) -> tuple[Array, str]:
    """Return metrics (B, d, d) that are thought possible, and what to say about them.

    ``M = G^½ W G^½`` with G the guess and W a Wishart matrix of ν degrees of freedom over ν, whose mean is the identity
    and whose relative spread is √((d + 1)/ν).
    """
    sharpness = positive_number(beta, "beta")
    where = "and people are where they were thought to be"
    if metric is None:
        size /= sharpness
        guess, said = size * np.eye(d), f"if the metric is about {size:.3g} times the identity (beta {beta:g}) {where}"
    else:
        guess = check_metric(metric, d, "metric")
        said = f"if the metric is about the one given (beta {beta:g}) {where}"
    if doubt is None:
        doubt = 1.0 if metric is None else 0.3
    if isinstance(doubt, int | float) and doubt == 0:
        return guess[None], said
    nu = ceil((d + 1) / positive_number(doubt, "doubt") ** 2)
    if nu > MOST_FREEDOM:
        raise DataError(f"doubt={doubt!r} is too small to draw metrics from; raise it, or give 0 for no doubt at all")
    values, vectors = np.linalg.eigh(guess)
    half = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T / sqrt(nu)
    roots = half @ rng.standard_normal((2 * METRICS, d, nu))
    return roots @ np.swapaxes(roots, 1, 2), said


def _crowd(ideal_points: ArrayLike | None, d: int, rng: np.random.Generator, draw: Callable[[], Array]) -> Array:
    """Return SAMPLE ideal points that stand for people."""
    if ideal_points is None:
        return draw()
    points = check_items(ideal_points)
    if points.shape[1] != d:
        raise DataError(f"ideal_points have {points.shape[1]} features, but items have {d}; use one space")
    return points[rng.choice(len(points), SAMPLE, replace=len(points) < SAMPLE)]


def _like(items: Array, count: int, rng: np.random.Generator) -> Array:
    """Return Gaussian points with the mean and covariance of the items."""
    sample = items if len(items) <= 100_000 else items[rng.integers(len(items), size=100_000)]
    values, vectors = np.linalg.eigh(np.cov(sample, rowvar=False).reshape(items.shape[1], -1))
    scatter = rng.standard_normal((count, items.shape[1])) * np.sqrt(np.maximum(values, 0.0))
    points: Array = sample.mean(axis=0) + scatter @ vectors.T
    return points


def _ordinary_size(items: Array, crowd: Array, rng: np.random.Generator) -> float:
    """Return c such that ``ψ`` under ``M = c I`` has a root mean square of 2 over random pairs of items and people."""
    x, x_ = items[rng.integers(len(items), size=(2, 4000))]
    u = crowd[rng.integers(len(crowd), size=4000)]
    square = float(np.mean(np.sum((x - x_) * (x + x_ - 2.0 * u), axis=1) ** 2))
    if square == 0:
        raise DataError("the items are all equal, so there is nothing to ask; check how they were read")
    return 2.0 / sqrt(square)
