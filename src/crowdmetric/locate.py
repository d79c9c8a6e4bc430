"""Where people stand: the ideal point of anybody from a few answers, what they would choose, and what to ask them next.

A `PopulationMetric` has learnt the metric M and the law N(μ, Σ) of ``v = −2Mu``. Given a person's answers y,
Bayes' rule gives v a posterior, whose mean v̂ and covariance V are exact on grids up to three dimensions of questions
and by expectation propagation beyond (`crowdmetric.users.people`). For a new question ``ψ = ⟨δ, M s + v⟩``
(δ = x − x', s = x + x') is then close to Gaussian::

    ψ ~ N(⟨δ, M s + v̂⟩, δᵀVδ)

from which follow the probability of either choice, and the information that the answer would bring::

    I = h(E[p]) − E[h(p)],     p = Pr[y = +1 | ψ],  h the entropy of an answer

large where the answer is uncertain *because the person is*, and not because answers are noisy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.estimators.base import CrowdMetric
from crowdmetric.estimators.inputs import check_items, read_pairs, read_rows
from crowdmetric.estimators.population_integration import largest_grid_after
from crowdmetric.losses import Loss
from crowdmetric.users.blocks import arrange
from crowdmetric.users.integrals import expected_information, mean_probability
from crowdmetric.users.item_effects import variance_of_differences
from crowdmetric.users.people import posteriors
from crowdmetric.users.population import Law, blocks_of

__all__ = ["Located", "NextQuestion", "locate"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Numbers that a (people, questions) temporary may hold.
CHUNK = 1 << 20
# Questions that are considered where nobody says which, at most.
MOST_CANDIDATES = 50_000


@dataclass(frozen=True)
class NextQuestion:
    """The question to ask each person next.

    Attributes
    ----------
    users : (K,) array
    pairs : (K, 2) array
        Rows of the items.
    information : (K,) array
        In nats that its answer is expected to tell about the person; log 2 = 0.69 at most.
    """

    users: NDArray[Any]
    pairs: Indices
    information: Array


@dataclass(frozen=True, eq=False)
class Located:
    """People, as far as their answers tell.

    Attributes
    ----------
    users : (K,) array
    pseudo_ideal_points, pseudo_ideal_covariances : (K, d), (K, d, d) arrays
        Posterior mean and covariance of ``v = −2Mu``.
    metric : (d, d) array
    items : (N, d) array or None
    loss : Loss
    effects, effect_covariance : (N,), (N, N) arrays or None
        What everybody adds to the utilities of the items (`PopulationMetric.item_effects_`), and what is unknown of it.
    """

    users: NDArray[Any]
    pseudo_ideal_points: Array
    pseudo_ideal_covariances: Array
    metric: Array
    items: Array | None
    loss: Loss
    effects: Array | None = None
    effect_covariance: Array | None = None

    def __len__(self) -> int:
        return int(self.users.size)

    @property
    def mean(self) -> Array:
        """Posterior mean of the ideal points u, (K, d); of least norm in directions that the metric does not see."""
        return -0.5 * self.pseudo_ideal_points @ self._inverse

    @property
    def covariance(self) -> Array:
        """Posterior covariance of the ideal points, (K, d, d); zero in directions that the metric does not see."""
        return 0.25 * self._inverse @ self.pseudo_ideal_covariances @ self._inverse

    @property
    def _inverse(self) -> Array:
        return np.linalg.pinv(self.metric, rcond=1e-6, hermitian=True)

    def probability(self, pairs: Any) -> Array:
        """Return the probability (K, T) that each person prefers the left item of each pair.

        Averaged over what is not known of the person, and of the utilities of the items.
        """
        beside: Array | float = 0.0
        if self.effect_covariance is not None and np.ndim(pairs) == 2:
            beside = variance_of_differences(self.effect_covariance, read_pairs(pairs, self.items)[1])
        return self._sweep(pairs, lambda psi, variance: 1.0 - mean_probability(psi, variance + beside, self.loss))

    def information(self, pairs: Any) -> Array:
        """Return how much (K, T) each person's answer to each question would tell about them, in nats."""
        return self._sweep(pairs, lambda psi, variance: expected_information(psi, variance, self.loss))

    def rank_items(self, items: ArrayLike | None = None, top: int | None = None) -> Indices:
        """Return the rows of the items (K, N) in the order of each person's preference, best first.

        By expected squared distance ``xᵀMx + ⟨x, v̂⟩``: each item is likelier than not to be preferred to any after it.

        Parameters
        ----------
        items : (N, d) array, optional
            Other items than the model's.
        top : int, optional
            How many to return.
        """
        X = check_items(self.items if items is None else items)
        self._check_features(X)
        if top is not None and (isinstance(top, bool) or not 1 <= top <= X.shape[0]):
            raise DataError(f"top={top!r} is not between 1 and the {X.shape[0]} items")
        own = np.einsum("nd,nd->n", X @ self.metric, X)
        if items is None and self.effects is not None:
            own -= self.effects
        order = [
            np.argsort(own + v @ X.T, axis=-1, kind="stable")[..., :top] for v in self.pseudo_ideal_points
        ]  # a person at a time: only what is asked for is kept
        return np.array(order, dtype=np.intp).reshape(len(self), -1)

    def next_question(self, candidates: Any = None, seed: int = 0) -> NextQuestion:
        """Return the most informative question for each person.

        Parameters
        ----------
        candidates : (T, 2) int array, optional
            Rows of the model's items. None: all pairs of items, or 50,000 drawn at random where there are more.
        seed : int
            Of that draw.
        """
        pairs = self._all_pairs(seed) if candidates is None else read_pairs(candidates, self.items)[1]
        if candidates is not None and np.ndim(candidates) != 2:
            raise DataError("candidates are rows of the model's items, (T, 2); to weigh vectors use information(pairs)")
        best, most = np.zeros(len(self), dtype=np.intp), np.full(len(self), -1.0)
        width = max(1, CHUNK // max(len(self), 1))
        for begin in range(0, pairs.shape[0], width):
            table = self.information(pairs[begin : begin + width])
            place = np.argmax(table, axis=1)
            value = table[np.arange(len(self)), place]
            better = value > most
            best[better], most[better] = begin + place[better], value[better]
        return NextQuestion(self.users, pairs[best], most)

    def _all_pairs(self, seed: int) -> Indices:
        N = check_items(self.items).shape[0]
        if N < 2:
            raise DataError("there is one item, and a question needs two; give more items")
        if N * (N - 1) // 2 <= MOST_CANDIDATES:
            return np.column_stack(np.triu_indices(N, 1))
        rng = np.random.default_rng(seed)
        left = rng.integers(N, size=MOST_CANDIDATES)
        return np.column_stack([left, (left + rng.integers(1, N, size=MOST_CANDIDATES)) % N])

    def _check_features(self, items: Array) -> None:
        d = self.metric.shape[0]
        if items.shape[1] != d:
            raise DataError(f"items have {items.shape[1]} features, but the metric has {d}; use one space")

    def _sweep(self, pairs: Any, function: Any) -> Array:
        """Return a function of the mean and the variance of ψ for every person and pair, some people at a time."""
        items, numbers = read_pairs(pairs, self.items)
        self._check_features(items)
        left, right = items[numbers[:, 0]], items[numbers[:, 1]]
        delta = left - right
        own = np.einsum("td,td->t", delta @ self.metric, left + right)
        if self.effects is not None and np.ndim(pairs) == 2:
            own -= self.effects[numbers[:, 0]] - self.effects[numbers[:, 1]]
        out = np.empty((len(self), numbers.shape[0]))
        step = max(1, CHUNK // (numbers.shape[0] * delta.shape[1]))
        for begin in range(0, len(self), step):
            some = slice(begin, begin + step)
            psi = own + self.pseudo_ideal_points[some] @ delta.T
            variance = np.einsum("ktd,td->kt", delta @ self.pseudo_ideal_covariances[some], delta)
            out[some] = function(psi, np.maximum(variance, 0.0))
        return out


def locate(
    model: CrowdMetric, pairs: Any = None, y: Any = None, users: Any = None, sample_weight: Any = None
) -> Located:
    """Return where people stand given their answers, or (without any) the people the model was fitted to.

    Parameters
    ----------
    model : PopulationMetric
        Fitted: its metric and its law of people are taken as known.
    pairs, y, users, sample_weight
        Answers as for `fit`, of people old or new; of people the model knows, *all* their answers, because it keeps
        none.

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.locate import locate
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=2000, comparisons=2, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> ann = locate(model, [[0, 1], [2, 3]], [-1, 1], users=["ann", "ann"])
    >>> ann.mean.shape, ann.probability([[4, 5]]).shape, ann.rank_items(top=3).shape
    ((1, 2), (1, 1), (1, 3))
    >>> bool(ann.next_question().information[0] <= 0.69)
    True
    """
    check_is_fitted(model)
    if not hasattr(model, "pseudo_ideal_covariance_"):
        raise DataError(
            f"{type(model).__name__} knows no law of people, without which a few answers locate nobody; "
            "fit a PopulationMetric"
        )
    effects: Array | None = getattr(model, "item_effects_", None)
    unknown: Array | None = getattr(model, "item_effect_covariance_", None)
    law = Law(model.metric_, model.pseudo_ideal_mean_, model.pseudo_ideal_covariance_)
    loss = model._loss()
    items = None if model.items is None else check_items(model.items)
    if pairs is None:
        spreads = getattr(model, "pseudo_ideal_covariances_", None)  # None is not saved with a model
        if spreads is None:
            raise DataError(
                f"the model does not keep the covariances of its {model.users_.size:,} people; give answers"
            )
        return Located(model.users_, model.pseudo_ideal_points_, spreads, law.metric, items, loss, effects, unknown)
    rows = read_rows(pairs, y, users, sample_weight, model.items, loss, everybody=True)
    if rows.items.shape[1] != law.metric.shape[0]:
        raise DataError(
            f"pairs hold {rows.items.shape[1]} features, but the metric has {law.metric.shape[0]}; use one space"
        )
    if isinstance(pairs, Comparisons) or np.ndim(pairs) == 2:  # items as vectors are new
        law = replace(law, effects=effects)
    answers = rows.jointly().merged()
    blocks = blocks_of(arrange(answers), answers.pairs)
    grid = largest_grid_after(model.integration, getattr(model, "integration_", ""))
    mean, covariance = posteriors(blocks, law, loss, rows.users.size, grid)
    return Located(rows.users, mean, covariance, law.metric, items, loss, effects, unknown)
