"""Similarity judgements with a known truth."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Number

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.checks import check_metric, one_of, positive_number, seed_number, share_of_one, whole_number
from crowdmetric.errors import DataError
from crowdmetric.inputs import check_items
from crowdmetric.judgements import KINDS, Judgements
from crowdmetric.simulate import sample_metric
from crowdmetric.tables.judgement_columns import ALTERNATIVES

__all__ = ["SimulatedStudy", "answer_questions", "random_questions", "simulate_judgements"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SimulatedStudy:
    """Items (N, d), judgements of them, and the true metrics: the crowd's (d, d) and everybody's (K, d, d).

    Examples
    --------
    >>> from crowdmetric.simulate_judgements import simulate_judgements
    >>> study = simulate_judgements(20, 3, 500, seed=0)
    >>> study.metric.shape, study.person_metrics.shape
    ((3, 3), (1, 3, 3))
    """

    items: Array
    judgements: Judgements
    metric: Array
    person_metrics: Array

    def summary(self) -> str:
        """Return what was simulated."""
        N, d = self.items.shape
        return f"{N} items of {d} features; {self.judgements.summary()}"


def simulate_judgements(
    items: int | ArrayLike,
    dimension: int | None,
    questions: int,
    *,
    kind: str = "triplet",
    metric: ArrayLike | None = None,
    people: int = 1,
    spread: float = 0.0,
    beta: float = 4.0,
    lapse: float = 0.0,
    link: str = "squared",
    seed: int = 0,
) -> SimulatedStudy:
    """Return judgements of random questions about random or given items.

    Parameters
    ----------
    items : int or (N, d) array
        How many to draw from N(0, I/d), or the items.
    dimension : int or None
        d, where items are to be drawn.
    questions : int
        How many, shared out among people.
    kind : {'triplet', 'odd_one_out', 'quadruplet'}
    metric : (d, d) array, optional
        The true M; drawn by default.
    people, spread : int, float
        How many people, and how much their metrics differ: ``M_k = L (I + spread·E_k)² Lᵀ`` with M = LLᵀ.
    beta, lapse, link
        As in `crowdmetric.SimilarityMetric`; M is the metric for β = 1, so it is multiplied by `beta`.

    Examples
    --------
    >>> from crowdmetric.simulate_judgements import simulate_judgements
    >>> study = simulate_judgements(20, 3, 500, kind='odd_one_out', people=10, seed=0)
    >>> study.items.shape, study.judgements.kind
    ((20, 3), 'odd_one_out')
    """
    rng = np.random.default_rng(seed_number(seed, "seed"))
    one_of(kind, "kind", tuple(KINDS))
    one_of(link, "link", ("squared", "distance"))
    for name, value in (("questions", questions), ("people", people)):
        whole_number(value, name)
    positive_number(beta, "beta")
    share_of_one(lapse, "lapse")
    if not (isinstance(spread, int | float) and spread == 0):
        positive_number(spread, "spread")
    if isinstance(items, Number):
        if dimension is None:
            raise DataError("dimension is missing; give the number of features of the items to draw")
        d = whole_number(dimension, "dimension")
        X: Array = rng.standard_normal((whole_number(items, "items"), d)) / np.sqrt(d)
    else:
        X = check_items(items)
        if dimension is not None and whole_number(dimension, "dimension") != X.shape[1]:
            raise DataError(f"dimension={dimension!r}, but items have {X.shape[1]} features; leave dimension out")
    N, d = X.shape
    width = len(KINDS[kind])
    M = beta * (sample_metric(d, rng) if metric is None else check_metric(metric, d, "metric"))
    own = _own_metrics(M, people, spread, rng)
    asked = random_questions(N, width, questions, rng)
    person = np.arange(questions) % people
    judgements = answer_questions(X, asked, own, kind=kind, lapse=lapse, link=link, person=person, seed=rng)
    return SimulatedStudy(X, judgements.merged(), M, own)


def answer_questions(
    items: ArrayLike,
    questions: ArrayLike,
    metric: ArrayLike,
    *,
    kind: str = "triplet",
    person: ArrayLike | None = None,
    lapse: float = 0.0,
    link: str = "squared",
    seed: int | np.random.Generator = 0,
) -> Judgements:
    """Return what people answer to questions you chose, one row each, in their order.

    Parameters
    ----------
    items : (N, d) array
    questions : (T, 3) or (T, 4) int array
        Rows of items, in the order of `crowdmetric.judgements.KINDS`.
    metric : (d, d) or (K, d, d) array
        Everybody's metric for β = 1, or one for all.
    person : (T,) int array, optional
        Who answers, 0 … K − 1; None: one person.
    kind, lapse, link
        As in `simulate_judgements`.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.simulate_judgements import answer_questions
    >>> items = np.array([[0.0], [1.0], [9.0]])
    >>> answer_questions(items, [[0, 1, 2]], 50.0 * np.eye(1)).counts.tolist()  # the first option is closer
    [[1.0, 0.0]]
    """
    rng = np.random.default_rng(seed)
    X, asked, own = np.asarray(items, dtype=np.float64), np.asarray(questions), np.asarray(metric, dtype=np.float64)
    own = own[None] if own.ndim == 2 else own
    who = np.zeros(len(asked), dtype=np.int64) if person is None else np.asarray(person)
    pairs = asked[:, np.array(ALTERNATIVES[kind])]
    D = np.empty(pairs.shape[:2])
    for k in range(len(own)):
        D[who == k] = _squares(X, own[k], pairs[who == k])
    utility = -(D if link == "squared" else np.sqrt(D))
    chosen = np.argmax(utility + rng.gumbel(size=utility.shape), axis=1)
    lapses = rng.random(len(asked)) < lapse
    chosen[lapses] = rng.integers(0, pairs.shape[1], int(lapses.sum()))
    counts = np.eye(pairs.shape[1])[chosen]
    return Judgements(kind, asked, counts, who, np.arange(len(own)), np.arange(len(X)), ids_are="rows")


def _own_metrics(M: Array, people: int, spread: float, rng: np.random.Generator) -> Array:
    """Return everybody's metric (K, d, d)."""
    d = len(M)
    values, vectors = np.linalg.eigh(M)
    L = vectors * np.sqrt(np.maximum(values, 0.0))
    E = rng.standard_normal((people, d, d))
    turn = np.eye(d) + spread * 0.5 * (E + np.swapaxes(E, 1, 2)) / np.sqrt(d)
    own: Array = L @ turn @ turn @ L.T
    return own


def _squares(X: Array, M: Array, pairs: NDArray[np.int64]) -> Array:
    """Return the squared distances of pairs (T, k, 2), from one product of matrices: ``x_iᵀMx_i + … − 2x_iᵀMx_j``."""
    gram = X @ M @ X.T
    own = np.diag(gram)
    i, j = pairs[..., 0], pairs[..., 1]
    D: Array = np.maximum(own[i] + own[j] - 2.0 * gram[i, j], 0.0)
    return D


def random_questions(N: int, width: int, T: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return T rows of distinct items of N, (T, width), all equally likely.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.simulate_judgements import random_questions
    >>> random_questions(10, 3, 5, np.random.default_rng(0)).shape
    (5, 3)
    """
    if width > N:
        raise DataError(f"{N} items are too few for questions about {width} of them; use more items")
    rows = rng.integers(0, N, (T, width))
    while True:
        ordered = np.sort(rows, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not again.size:
            return rows
        rows[again] = rng.integers(0, N, (again.size, width))
