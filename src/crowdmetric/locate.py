"""Where people stand: ideal points from a few answers, what people would choose, and what to ask them next.

A `PopulationMetric` has learned the metric M and the law N(μ, Σ) of ``v = −2Mu``. Given a person's answers y,
Bayes' rule gives v a posterior, whose mean v̂ and covariance V are found as the fit integrated people out: exactly, on a
grid, if a person's questions lie along one line or the fit used grids (its `integration_`), and else by expectation
propagation (`crowdmetric.users.people`). For a new question ``ψ = ⟨δ, M s + v⟩`` (δ = x − x', s = x + x') is then close
to Gaussian::

    ψ ~ N(⟨δ, M s + v̂⟩, δᵀVδ)

which gives the probability of either choice, and the information of the answer::

    I = h(E[p]) − E[h(p)],     p = Pr[y = +1 | ψ],  h the entropy of an answer

It is large if the answer is uncertain *because the person is*, and not because answers are noisy.

A `TasteMetric` has no ideal points. Its people have utilities of the items, which are Gaussian given their answers
(`crowdmetric.smooth.prediction`) and give the same results (`LocatedTastes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crowdmetric.base import CrowdMetric
from crowdmetric.checks import as_array, instance_of, whole_number
from crowdmetric.errors import DataError
from crowdmetric.estimators.population import PopulationMetric
from crowdmetric.estimators.smooth import TasteMetric
from crowdmetric.fits.unknowns import NOTHING_UNKNOWN, SeenItems, Unknowns
from crowdmetric.inputs import check_items, is_by_row, read_pairs
from crowdmetric.losses import Logistic, Loss
from crowdmetric.symmetric import outer_difference, svec
from crowdmetric.users.integrals import information_of_answer, mean_probability, rough_information_of_answer

__all__ = ["Located", "LocatedTastes", "NextQuestion", "locate"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Maximum size of a (people, questions) temporary.
CHUNK = 1 << 20
# Number of questions considered when none are given: maximum and minimum per person, and maximum for all people.
MOST_CANDIDATES, FEWEST_CANDIDATES, MOST_CONSIDERED = 50_000, 2_000, 10_000_000
# Number of questions per person, the best by an approximation, whose value is computed exactly.
WEIGHED = 32


@dataclass(frozen=True)
class NextQuestion:
    """The question to ask each person next.

    Attributes
    ----------
    users : (K,) array
    pairs : (K, 2) array
        Rows of the items.
    information : (K,) array
        Expected information of its answer about the person, in nats; at most log 2 = 0.69.

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=400, comparisons=3, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> from crowdmetric.locate import locate
    >>> ann = locate(model, [[0, 1], [2, 3]], [-1, 1], users=['ann', 'ann'])
    >>> question = ann.next_question()
    >>> question.pairs.shape, bool(question.information[0] > 0)
    ((1, 2), True)
    """

    users: NDArray[Any]
    pairs: Indices
    information: Array


@dataclass(frozen=True, eq=False)
class Located:
    """Where some people stand, given their answers.

    Attributes
    ----------
    users : (K,) array
    pseudo_ideal_points, pseudo_ideal_covariances : (K, d), (K, d, d) arrays
        Posterior mean and covariance of ``v = −2Mu``.
    metric : (d, d) array
    items : (N, d) array, data frame or None
        Those of the model, with the ids that they have.
    loss : Loss
    effects : (N,) array or None
        Utilities of the items beyond their features (`PopulationMetric.item_effects_`).
    unknowns : Unknowns
        What is unknown, besides where people stand.
    seen : SeenItems or None
        Which items these people have compared; None: unknown.

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=400, comparisons=3, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> from crowdmetric.locate import locate
    >>> ann = locate(model, [[0, 1], [2, 3]], [-1, 1], users=['ann', 'ann'])
    >>> ann.mean.shape, ann.rank_items(top=3).shape
    ((1, 2), (1, 3))
    >>> bool(0 < ann.probability([[4, 5]])[0, 0] < 1)
    True
    """

    users: NDArray[Any]
    pseudo_ideal_points: Array
    pseudo_ideal_covariances: Array
    metric: Array
    items: Any
    loss: Loss
    effects: Array | None = None
    unknowns: Unknowns = NOTHING_UNKNOWN
    seen: SeenItems | None = None

    def __len__(self) -> int:
        return int(self.users.size)

    def __repr__(self) -> str:
        return f"<Located: {len(self)} people in {len(self.metric)} dimensions>"

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

        Averaged over what is unknown about the person, the law, and items new to them.
        """
        items, numbers = read_pairs(pairs, self.items)
        self._check_features(items)
        rows = numbers if is_by_row(pairs) else None
        law = self.unknowns.variance(items[numbers[:, 0]], items[numbers[:, 1]], rows)
        new = np.zeros((len(self), len(numbers)), dtype=np.int64)
        if self.seen is not None and self.unknowns.personal > 0:
            for person, out in enumerate(new):
                out[:] = self.seen.new_items(np.full(len(numbers), person), rows)
        unknown = law + self.unknowns.personal * new
        return self._for_all_people(
            pairs, lambda psi, variance, some: 1.0 - mean_probability(psi, variance + unknown[some], self.loss)
        )

    def information(self, pairs: Any) -> Array:
        """Return the information (K, T) of each person's answer to each question about that person, in nats."""
        return self._for_all_people(pairs, lambda psi, variance, _: information_of_answer(psi, variance, self.loss))

    def rank_items(self, items: ArrayLike | None = None, top: int | None = None) -> Indices:
        """Return the rows of the items (K, N) in the order of each person's preference, best first.

        Ranks by expected squared distance ``xᵀMx + ⟨x, v̂⟩``: each item is more likely preferred to any item after it.

        Parameters
        ----------
        items : (N, d) array, optional
            Other items than the model's.
        top : int, optional
            How many to return.
        """
        X = check_items(self.items if items is None else items)
        self._check_features(X)
        _check_top(top, X.shape[0])
        own = np.einsum("nd,nd->n", X @ self.metric, X)
        if items is None and self.effects is not None:
            own -= self.effects
        # one person at a time, to keep only what was asked for
        order = [_smallest(own + v @ X.T, top) for v in self.pseudo_ideal_points]
        return np.array(order, dtype=np.intp).reshape(len(self), -1)

    def next_question(self, candidates: Any = None, seed: int = 0) -> NextQuestion:
        """Return the most informative question for each person.

        Parameters
        ----------
        candidates : (T, 2) int array, optional
            Rows of the model's items. None: all pairs of items, or a random sample of at most 50,000. For more than 200
            people the sample is smaller (ten million for all people), but at least 2,000.
        seed : int
            Seed of that sample.

        Notes
        -----
        All candidates are ranked by a formula that is accurate to 0.025 nats (`rough_information_of_answer`). The value
        of each person's 32 best is then computed exactly, and the best of these is returned.
        """
        pairs = self._all_pairs(seed) if candidates is None else read_pairs(candidates, self.items)[1]
        if candidates is not None and not is_by_row(candidates):
            raise DataError("candidates are rows of the model's items, (T, 2); to weigh vectors use information(pairs)")
        delta, own = self._questions(pairs)
        outer = outer_difference(delta, delta)
        spreads = svec(self.pseudo_ideal_covariances)
        few = min(WEIGHED, len(pairs))
        best, most = np.zeros(len(self), dtype=np.intp), np.zeros(len(self))
        step = max(1, CHUNK // len(pairs))
        for begin in range(0, len(self), step):
            some = slice(begin, begin + step)
            psi = own + self.pseudo_ideal_points[some] @ delta.T
            variance = np.maximum(spreads[some] @ outer.T, 0.0)
            rough = rough_information_of_answer(psi, variance, self.loss)
            likely = np.argpartition(-rough, few - 1, axis=1)[:, :few]
            exact = information_of_answer(
                np.take_along_axis(psi, likely, axis=1), np.take_along_axis(variance, likely, axis=1), self.loss
            )
            place = np.argmax(exact, axis=1)[:, None]
            best[some] = np.take_along_axis(likely, place, axis=1)[:, 0]
            most[some] = np.take_along_axis(exact, place, axis=1)[:, 0]
        return NextQuestion(self.users, pairs[best], most)

    def _all_pairs(self, seed: int) -> Indices:
        N = check_items(self.items).shape[0]
        if N < 2:
            raise DataError("there is one item, and a question needs two; give more items")
        most = min(MOST_CANDIDATES, max(FEWEST_CANDIDATES, MOST_CONSIDERED // max(len(self), 1)))
        if most >= N * (N - 1) // 2:
            return np.column_stack(np.triu_indices(N, 1))
        rng = np.random.default_rng(seed)
        left = rng.integers(N, size=most)
        return np.column_stack([left, (left + rng.integers(1, N, size=most)) % N])

    def _questions(self, pairs: Any) -> tuple[Array, Array]:
        """Return δ (T, d) of pairs, and the part of ψ (T,) that is the same for everybody."""
        items, numbers = read_pairs(pairs, self.items)
        self._check_features(items)
        left, right = items[numbers[:, 0]], items[numbers[:, 1]]
        delta = left - right
        own = np.einsum("td,td->t", delta @ self.metric, left + right)
        if self.effects is not None and is_by_row(pairs):
            own -= self.effects[numbers[:, 0]] - self.effects[numbers[:, 1]]
        return delta, own

    def _check_features(self, items: Array) -> None:
        d = self.metric.shape[0]
        if items.shape[1] != d:
            raise DataError(f"items have {items.shape[1]} features, but the metric has {d}; use one space")

    def _for_all_people(self, pairs: Any, function: Any) -> Array:
        """Return a function of the mean and the variance of ψ for every person and pair, some people at a time."""
        delta, own = self._questions(pairs)
        out = np.empty((len(self), len(delta)))
        step = max(1, CHUNK // max(delta.size, 1))
        for begin in range(0, len(self), step):
            some = slice(begin, begin + step)
            psi = own + self.pseudo_ideal_points[some] @ delta.T
            variance = np.einsum("ktd,td->kt", delta @ self.pseudo_ideal_covariances[some], delta)
            out[some] = function(psi, np.maximum(variance, 0.0), some)
        return out


@dataclass(frozen=True, eq=False)
class LocatedTastes:
    """The tastes of some people without ideal points, given their answers.

    Attributes
    ----------
    users : (K,) array
    model : TasteMetric
        With these people, and no others.
    """

    users: NDArray[Any]
    model: TasteMetric

    def __len__(self) -> int:
        return int(self.users.size)

    def __repr__(self) -> str:
        return f"<LocatedTastes: {len(self)} people>"

    @cached_property
    def mean(self) -> Array:
        """Posterior mean of the utilities of the items, (K, N); only differences within a person matter."""
        return self.model.mean_utilities()

    def probability(self, pairs: Any) -> Array:
        """Return the probability (K, T) that each person prefers the left item of each pair."""
        items, rows = read_pairs(pairs, self.model.items)
        numbers = rows if is_by_row(pairs) else items[rows]
        asked, who = np.tile(numbers, (len(self), *[1] * (numbers.ndim - 1))), np.repeat(self.users, len(numbers))
        return np.asarray(self.model.predict_proba(asked, users=who)[:, 0].reshape(len(self), -1))

    def rank_items(self, top: int | None = None) -> Indices:
        """Return the rows of the items (K, N) by each person's expected utility, best first; `top` of them."""
        N = self.mean.shape[1]
        _check_top(top, N)
        return np.array([_smallest(-utilities, top) for utilities in self.mean], dtype=np.intp).reshape(len(self), -1)

    def next_question(self, candidates: Any = None) -> NextQuestion:
        """Return the most informative question for each person, of the candidates (T, 2) or of all pairs of items."""
        N = self.mean.shape[1]
        if N < 2:
            raise DataError("there is one item, and a question needs two; give more items")
        everything = candidates is None
        pairs = np.column_stack(np.triu_indices(N, 1)) if everything else _rows_of(candidates, self.model.items)
        loss, few = Logistic(), min(WEIGHED, len(pairs))
        best, most = np.zeros(len(self), dtype=np.intp), np.zeros(len(self))
        for person, psi, variance in self._moments(pairs, everything):
            likely = np.argpartition(-rough_information_of_answer(psi, variance, loss), few - 1)[:few]
            exact = information_of_answer(psi[likely], variance[likely], loss)
            best[person], most[person] = likely[int(np.argmax(exact))], float(np.max(exact))
        return NextQuestion(self.users, pairs[best], most)

    def _moments(self, pairs: Indices, all_of_them: bool) -> Iterator[tuple[int, Array, Array]]:
        """Yield everybody's number, and mean and variance of the difference of utilities of pairs, (T,) each."""
        left, right = pairs.T
        if not all_of_them:
            for person, name in enumerate(self.users):
                yield person, *self.model.moments_of(pairs, np.full(len(pairs), name))
            return
        for who, utilities, covariance in self.model.people():
            for person, mean, S in zip(who, utilities, covariance, strict=True):
                own = np.diag(S)
                variance = np.maximum(own[left] + own[right] - 2.0 * S[left, right], 0.0)
                yield int(person), mean[right] - mean[left], variance


def _check_top(top: Any, n_items: int) -> None:
    """Check that at most `n_items` items are asked for; None: all."""
    if top is not None and whole_number(top, "top") > n_items:
        raise DataError(f"top={top!r} is more than there are items, {n_items:,}; ask for fewer")


def _rows_of(candidates: Any, items: ArrayLike | None) -> Indices:
    """Return pairs of row numbers (T, 2)."""
    if not is_by_row(candidates) and as_array(candidates, "candidates").ndim == 3:
        raise DataError("candidates are vectors; give (T, 2) row numbers into the items of the model")
    return read_pairs(candidates, items)[1]


def _smallest(values: Array, top: int | None) -> Indices:
    """Return the places of the `top` smallest values (all: None), smallest first, ties in the order of places."""
    if top is None or 4 * top > values.size:
        return np.argsort(values, kind="stable")[:top]
    low = np.flatnonzero(values <= np.partition(values, top - 1)[top - 1])  # few: the others need no order
    return low[np.argsort(values[low], kind="stable")[:top]]


def locate(
    model: CrowdMetric, pairs: Any = None, y: Any = None, users: Any = None, sample_weight: Any = None
) -> Located | LocatedTastes:
    """Return where people stand given their answers, or (without any) the people the model was fitted to.

    Parameters
    ----------
    model : PopulationMetric or TasteMetric
        Fitted: its metric and its law of people are taken as known. People of a `TasteMetric` have utilities of the
        items instead of ideal points (`LocatedTastes`).
    pairs, y, users, sample_weight
        Answers as for `fit`, of known or new people. For known people give *all* their answers, because the model keeps
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
    how = "give a fitted PopulationMetric or TasteMetric; that of a saved model is model.estimator()"
    check_is_fitted(instance_of(model, "model", CrowdMetric, how))
    if isinstance(model, TasteMetric):
        if sample_weight is not None:
            raise DataError("sample_weight is not for people of a TasteMetric; repeat their answers instead")
        known = model if pairs is None else model.place(pairs, y, users=users)
        return LocatedTastes(known.users_, known)
    if not isinstance(model, PopulationMetric):
        raise DataError(
            f"{type(model).__name__} knows no law of people, without which a few answers locate nobody; "
            "fit a PopulationMetric or a TasteMetric"
        )
    placed = model if pairs is None else model.place(pairs, y, users, sample_weight)
    spreads = getattr(placed, "pseudo_ideal_covariances_", None)  # None is not saved with a model
    if spreads is None:
        raise DataError(f"the model does not keep the covariances of its {model.users_.size:,} people; give answers")
    asked = SeenItems(placed.asked_items_) if hasattr(placed, "asked_items_") else None
    items: Any = model.items
    effects: Array | None = getattr(model, "item_effects_", None)
    return Located(
        placed.users_, placed.pseudo_ideal_points_, spreads, model.metric_, items, model._loss(), effects,
        model.unknowns(), asked,
    )  # fmt: skip
