"""What moves choices: how much each feature contributes to what people prefer, and which value of it they prefer.

A metric shows curvature alone: a crowd in which everybody wants a lower price has no curvature along the price, and the
metric is silent about what matters most. Here a feature counts by how much it moves ψ, and with it the choice.

**Shares.** Let c be the mean of the items as asked about, people v ~ N(μ, Σ), b the items' own effects, and for a pair
δ = x − x', s = x + x'. Then ψ is a sum over features j, exactly::

    ψ = Σ_j δ_j (ℓ_j + (M(s − 2c))_j + (v − μ)_j) − (b_x − b_x')           ℓ = μ + 2Mc

    steady     δ_j ℓ_j                everybody wants more of it, or less
    bent       δ_j (M(s − 2c))_j      everybody wants a middle, which a metric shows
    own        δ_j (v − μ)_j          people differ

A feature counts by the mean square of its term ψ_j over pairs and people, which is its variance, as either item may be
on the left. People are independent of pairs, so what everybody shares and what differs add up::

    E[ψ_j²] = E[(steady_j + bent_j)²] + E[own_j²]          share_j = E[ψ_j²] / (Σ_k E[ψ_k²] + E[(b_x − b_x')²])

and shares, that of item effects included, add up to 1. The shared part is split in proportion to the mean squares of
its two terms. (Covariances E[ψ_j ψ] would add up as well, but a feature whose effect is often made up for by another
that comes with it, such as a price and a discount, would get a share below zero.)

**Contrasts.** Two values of a feature that exist are compared: its 10th and 90th percentile over the items, or its
least and largest value where those are equal, so 0 and 1 for a feature of two values. Each item that was asked about is
taken twice, with the one value (x) and the other (x'), everything else as it is, and ::

    more_j = E[Pr(ψ > 0)] = mean over items of E_v f(ψ(x, x'; v))              log-odds_j = log more_j / (1 − more_j)

is the mean of what the model predicts: of 100 people, so many choose the item with more of feature j. It says what the
answers determine, whatever is unknown of the size of the metric: a slope at the mean item, which may lie far from all
items that exist, does not. Features that add up to a constant for all pairs cannot change one by one: there the others
move along by as little as possible, in units of their spreads.

Preprocessing z = T(x − m) is undone: δ_z = Tδ, so the terms are those of δ = T⁺δ_z with Tᵀ(ℓ + …), and the sum is
the same; directions that T threw away move nothing, nor do those in which compared items do not differ (features that
add up to a constant). Features in which no compared items differ are left out.

**Estimates and intervals** are medians and quantiles of draws from one joint posterior of M, μ, Σ and b
(``law_draws_``), see `crowdmetric.draw_intervals`. If other laws explain the answers about as well
(``alternatives_``), they and draws around them are among these, as often as likely: exp(−nats behind the best).
A model without draws has estimates, those of its law, and no intervals. What a fit found is saved with the model: every
later view of it, `crowdmetric info` and the report, shows the same numbers (`feature_importance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from scipy.stats import norm

from crowdmetric.draw_intervals import intervals_from, parts_from
from crowdmetric.errors import DataError
from crowdmetric.losses import Loss, get_loss
from crowdmetric.preprocess import ItemMap, values_to_compare, varying_features
from crowdmetric.symmetric import degrees_of_freedom, smat
from crowdmetric.tables import ASKED
from crowdmetric.users.integrals import mean_probability

__all__ = [
    "FeatureImportance",
    "LearnedModel",
    "as_percent",
    "check_saved",
    "feature_importance",
    "feature_weights",
    "find_importance",
    "is_cut",
    "leader_of",
    "raw_features",
]

Array = NDArray[np.float64]

LEVEL = 0.90
# Number of draws of a law that are used, and of items over which a contrast is averaged: where there are more features,
# fewer items, so that there are at most as many predictions as this.
DRAWS, MOST_ITEMS, MOST_PREDICTIONS = 400, 200, 2_000_000
# If no pair's squared difference along a direction exceeds this share of the largest, no pair shows that direction.
# Features that sum to a constant up to rounding count as constant.
UNSEEN = 1e-4
# Where the share of the first feature may be below this, the answers hardly tell what moves choices. Where it is the
# largest with a lower probability than the second number, it is only probably so.
HARDLY, SURE = 0.05, 0.90
# Maximum size of matrices computed with at once, in numbers.
MOST_NUMBERS = 4_000_000


class LearnedModel(Protocol):
    """What a fit left behind, whether in memory or in a folder (`crowdmetric.persist.SavedModel`)."""

    @property
    def description(self) -> Mapping[str, Any]:
        """``estimator``, ``parameters`` and ``data``, by these names; ``importance`` where it was saved."""
        ...

    @property
    def fitted(self) -> Mapping[str, Any]:
        """Attributes of the fitted estimator, by name."""
        ...

    @property
    def metric(self) -> Array:
        """The (d, d) metric."""
        ...

    @property
    def items(self) -> Array | None:
        """The (N, d) items as the fit saw them."""
        ...

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of the features before preprocessing."""
        ...

    @property
    def preprocessing(self) -> ItemMap | None:
        """What was done to items before the fit."""
        ...


def is_cut(model: LearnedModel) -> bool:
    """Return whether the answers were cut from choices, rankings or ratings, which give no intervals and no spreads."""
    return model.fitted.get("made_of_", ASKED) != ASKED


def raw_features(model: LearnedModel, items: Array) -> tuple[Array, Array]:
    """Return how features as they came make those of the fit, (d, features), and their spreads, 0 for constants."""
    T = np.eye(items.shape[1]) if model.preprocessing is None else model.preprocessing.matrix_
    X = items @ np.linalg.pinv(T).T
    return T, np.where(np.any(T, axis=0) & varying_features(X), X.std(axis=0), 0.0)


def feature_weights(metrics: Array, raw: Array, spread: Array) -> Array:
    """Return the weights (n, features) of features under metrics (n, d, d); each row adds up to 1.

    How much items that differ in one feature alone, by its spread, differ in the squared distance::

        parts[j] = (raw.T @ M @ raw)[j, j] * spread[j]**2          weights = parts / sum(parts)
    """
    parts = np.einsum("dj,nde,ej->nj", raw, metrics, raw, optimize=True) * spread**2
    size = parts.sum(axis=1)
    return np.where(size[:, None] > 0, parts / np.where(size > 0, size, 1.0)[:, None], 0.0)


@dataclass(frozen=True)
class FeatureImportance:
    """What each feature, as it came, contributes to choices.

    Attributes
    ----------
    names : tuple of str
        Features in which compared items differ.
    shares : (f,)
        Of the squared terms of ψ over pairs and people; with `item_share` they add up to 1.
    low, high : (f,)
        Ends of a 90 % interval; NaN without draws from the posterior.
    first_place : (f,)
        With which probability the share is the largest; NaN where there are no intervals.
    steady, bent, own : (f,)
        The parts of a share: everybody wants more or less; everybody wants a middle; people differ (NaN if that is not
        known, as of pairs that were cut from choices).
    item_share : float
        Share of the items' own effects, which features do not explain.
    less, more : (f,)
        The two values that are compared.
    chosen, chosen_low, chosen_high : (f,)
        With which probability the item with more of the feature is chosen over the same item with less, averaged over
        people and items, and its 90 % interval.
    left_out : tuple of str
        Features in which no compared items differ.
    covers : str
        A sentence on what the intervals cover.
    """

    names: tuple[str, ...]
    shares: Array
    low: Array
    high: Array
    first_place: Array
    steady: Array
    bent: Array
    own: Array
    item_share: float
    less: Array
    more: Array
    chosen: Array
    chosen_low: Array
    chosen_high: Array
    left_out: tuple[str, ...]
    covers: str

    @property
    def order(self) -> NDArray[np.intp]:
        """The features (f,), the most important first."""
        return np.argsort(-self.shares, kind="stable").astype(np.intp)

    @property
    def has_intervals(self) -> bool:
        """Whether there are intervals."""
        return bool(np.isfinite(self.low).all())

    @property
    def log_odds(self) -> Array:
        """``log chosen / (1 − chosen)`` (f,): above zero where people choose more of the feature."""
        return np.asarray(logit(self.chosen))

    def taste(self, feature: int) -> str:
        """Return which way people want a feature to go, in words."""
        more, low, high = (float(ends[feature]) for ends in (self.chosen, self.chosen_low, self.chosen_high))
        if more == 0.5 or (self.has_intervals and low <= 0.5 <= high):
            return "no common direction"
        is_flag = (float(self.less[feature]), float(self.more[feature])) == (0.0, 1.0)
        up, down = ("the one with it", "the one without it") if is_flag else ("more of it", "less of it")
        return f"{of_100(max(more, 1.0 - more))} of 100 people choose {up if more > 0.5 else down}"

    @property
    def hardly_tells(self) -> bool:
        """Whether even the first feature may hardly matter."""
        return self.has_intervals and bool(self.low[self.order[0]] < HARDLY)

    @property
    def leader(self) -> str:
        """The first feature with its share, and the probability that it is the first unless that is high."""
        first = int(self.order[0])
        chance = float(self.first_place[first]) if self.has_intervals else 1.0
        return leader_of(self.names[first], float(self.shares[first]), chance)

    def sentence(self) -> str:
        """Return what moves choices most, in plain words."""
        first, *others = self.order[:3].tolist()
        if self.hardly_tells:
            return (
                f"These answers hardly tell what moves choices: {self.names[first]} seems to come first "
                f"({as_percent(self.shares[first])}), but anything from {as_percent(self.low[first])} to "
                f"{as_percent(self.high[first])} is possible."
            )
        text = f"What moves choices most is {self.leader}"
        taste = self.taste(first)
        text += "" if taste == "no common direction" else f": {taste}"
        rest = [f"{self.names[j]} ({as_percent(self.shares[j])})" for j in others if self.shares[j] > 0.01]
        text += f". Next {'come' if len(rest) > 1 else 'comes'} {' and '.join(rest)}." if rest else "."
        if self.item_share > 0.01:
            text += f" {as_percent(self.item_share)} is about the items themselves, beyond what features say."
        return text

    def summary(self) -> str:
        """Return a sentence and a table, the most important feature first."""
        width = max(map(len, self.names)) + 2
        lines = [self.sentence(), f"  {'':<{width}}share    90 % interval   all alike   differs   more of it"]
        for j in self.order.tolist():
            interval = f"{as_percent(self.low[j])} to {as_percent(self.high[j])}" if self.has_intervals else ""
            own = as_percent(self.own[j]) if np.isfinite(self.own[j]) else ""
            lines.append(
                f"  {self.names[j]:<{width}}{as_percent(self.shares[j]):>5}   {interval:>14}   "
                f"{as_percent(self.steady[j] + self.bent[j]):>9}   {own:>7}   {self.taste(j)}"
            )
        return "\n".join([*lines, self.covers])

    def to_dict(self) -> dict[str, Any]:
        """Return lists, texts and numbers, ready for JSON but for NaN; `of` reads them back."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}

    @staticmethod
    def of(content: Mapping[str, Any]) -> FeatureImportance:
        """Return what `to_dict` has written; null stands for NaN."""
        values: dict[str, Any] = {}
        for field in fields(FeatureImportance):
            value = content[field.name]
            if field.name in ("names", "left_out"):
                value = tuple(value)
            elif isinstance(value, list):
                value = np.array([np.nan if entry is None else entry for entry in value], dtype=np.float64)
            values[field.name] = value
        return FeatureImportance(**values)


def as_percent(share: float) -> str:
    """Return a share in whole percent."""
    return f"{100 * share:.0f} %".replace("-0 %", "0 %").replace("-", "−")


def of_100(share: float) -> str:
    """Return how many of 100 people a share is; never all of them, or nobody, where it is not exactly that."""
    return ">99" if 0.995 < share < 1.0 else "<1" if 0.0 < share < 0.005 else f"{100 * share:.0f}"


def leader_of(name: str, share: float, chance: float) -> str:
    """Return the first feature with its share, and the probability that it is the first unless that is high."""
    if chance >= SURE:
        return f"{name} ({as_percent(share)})"
    how = "probably" if chance > 0.5 else "perhaps"
    return f"{how} {name} ({as_percent(share)}; first with a probability of {as_percent(chance)})"


def check_saved(model: Any) -> None:
    """Refuse what is no saved model, such as an estimator."""
    if not hasattr(model, "fitted"):
        raise DataError(
            f"model is of type {type(model).__name__}, but a saved model was expected; save the fit with "
            "crowdmetric.persist.save_model, or read one with load_model"
        )


def feature_importance(model: LearnedModel) -> FeatureImportance:
    """Return what moves choices, as it was found when the model was saved; of a model in memory, found now.

    Parameters
    ----------
    model : LearnedModel
        With its items and the questions it was fitted to, and with people: a population's law, or everybody's place.

    Examples
    --------
    >>> import tempfile
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.importance import feature_importance
    >>> from crowdmetric.persist import save_model
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=300, comparisons=3, seed=0)
    >>> fitted = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> found = feature_importance(save_model(tempfile.mkdtemp(), fitted))
    >>> round(float(found.shares.sum() + found.item_share), 6)
    1.0
    """
    check_saved(model)
    saved = model.description.get("importance")
    return find_importance(model) if saved is None else FeatureImportance.of(saved)


def find_importance(model: LearnedModel) -> FeatureImportance:
    """Return what moves choices from the law, the questions and the draws of a model."""
    if model.description["parameters"].get("covariance") == "none":
        raise DataError(
            "in this model everybody has the same utilities, without errors: it does not tell what moves choices; fit "
            "a model in which people differ"
        )
    laws, drawn = _Laws.of(model)
    asked = _Asked.of(model)
    parts = asked.parts(laws)
    shares, more = parts.sum(axis=1), asked.chosen(laws, _loss_of(model))
    names = tuple(np.array(model.feature_names, dtype=object)[asked.seen])
    if drawn:
        share, choice = parts_from(shares, LEVEL), intervals_from(more, LEVEL)
        low, high, chosen = share.low[:-1], share.high[:-1], (choice.estimate, choice.low, choice.high)
        first = np.bincount(np.argmax(shares[:, :-1], axis=1), minlength=len(names)) / len(shares)
        estimate = share.estimate
    else:
        low = high = first = nothing = np.full(len(names), np.nan)
        estimate, chosen = shares[0], (more[0], nothing, nothing)
    # how a share arises, on average over the draws
    mean = parts.mean(axis=0)[:, :-1]
    split = estimate[:-1] * mean / np.maximum(mean.sum(axis=0), 1e-300)
    if is_cut(model):
        split[2] = np.nan  # how much people differ is not known
    return FeatureImportance(
        names, estimate[:-1], low, high, first, split[0], split[1], split[2], float(estimate[-1]),
        asked.values[0], asked.values[1], *chosen,
        tuple(np.array(model.feature_names, dtype=object)[~asked.seen]),
        drawn or "There are no intervals: this fit has no draws from a posterior of what people want.",
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------ people


@dataclass(frozen=True)
class _Laws:
    """M (n, d, d), μ (n, d), Σ (n, d, d) and the items' effects (n, N), or None: the law of a fit, or draws of it."""

    metrics: Array
    means: Array
    covariances: Array
    effects: Array | None

    @staticmethod
    def of(model: LearnedModel) -> tuple[_Laws, str]:
        """Return draws, and what they cover; of a model that has none, the law alone and an empty text."""
        drawn = model.fitted.get("law_draws_")
        if drawn is None:
            return _Laws._fitted(model), ""
        some, likely = [np.asarray(drawn, dtype=np.float64)], [1.0]
        for rows in model.fitted.get("alternatives_", ()):
            some.append(np.asarray(rows, dtype=np.float64)[:, 1:])
            likely.append(float(np.exp(-rows[0, 0])))
        weight = np.repeat(np.array(likely) / [len(rows) for rows in some], [len(rows) for rows in some])
        rows = np.concatenate(some)[_evenly(weight, DRAWS)]
        d = len(model.metric)
        p = degrees_of_freedom(d)
        M, mean, S, effects = np.split(rows, np.cumsum([p, d, p]), axis=1)
        what = ", how people differ and items beyond their features" if effects.size else " and how people differ"
        more = ", under all laws of people that fit about as well" if len(some) > 1 else ""
        covers = (
            "Estimates are medians, and intervals (90 %) hold the middle, of draws from the joint posterior of the "
            f"metric, the average taste{what}{more}. They do not cover whether the model is right."
        )
        return _Laws(smat(M), mean, smat(S), effects if effects.size else None), covers

    @staticmethod
    def _fitted(model: LearnedModel) -> _Laws:
        """Return the law that a model was saved with; of everybody's places, their mean and covariance."""
        fitted = model.fitted
        points = fitted.get("pseudo_ideal_points_")
        mean, covariance = fitted.get("pseudo_ideal_mean_"), fitted.get("pseudo_ideal_covariance_")
        if mean is None or covariance is None:
            if points is None or len(points) < 2:
                raise DataError(_no_people(str(model.description["estimator"])))
            mean, covariance = points.mean(axis=0), np.cov(points, rowvar=False, ddof=0).reshape(model.metric.shape)
        effects = fitted.get("item_effects_")
        return _Laws(model.metric[None], mean[None], covariance[None], None if effects is None else effects[None])


def _no_people(estimator: str) -> str:
    if estimator == "TasteMetric":
        return (
            "what moves choices is not available for TasteMetric, whose features have no single strength; fit a "
            "PopulationMetric"
        )
    return f"{estimator} learns nothing about people, which is needed to say what moves choices; fit a PopulationMetric"


def _loss_of(model: LearnedModel) -> Loss:
    """Return how answers scatter."""
    given = model.description["parameters"]
    beta = given.get("beta", 1.0)
    return get_loss(given.get("loss", "logistic"), beta if isinstance(beta, int | float) else 1.0)


def _evenly(weight: Array, most: int) -> NDArray[np.intp]:
    """Return at most `most` rows, each about as often as its weight (n,) is: all rows where they weigh the same."""
    ends = np.cumsum(weight)
    count = most if np.ptp(weight) > 1e-12 * ends[-1] else min(most, len(weight))
    return np.searchsorted(ends, (np.arange(count) + 0.5) / count * ends[-1])


# --------------------------------------------------------------------------------------------------- questions


@dataclass(frozen=True)
class _Asked:
    """Pairs of items as asked about, and the f features in which they differ.

    Attributes
    ----------
    seen : (features,)
        Which features these are.
    delta : (T, f)
        Differences in the features as they came.
    total : (T, d)
        Sums s of the pairs, as the fit saw items.
    pairs : (T, 2)
        Rows of the items.
    back : (d, f)
        A slope in what the fit saw, times this, is one in the features as they came: T, less what no pair shows.
    steps : (d, f)
        How an item moves, as the fit sees it, when a feature changes by one.
    values : (2, f)
        The values of every feature that are compared.
    items, features, often : (I, d), (I, f), (I,)
        Some items that were asked about, as the fit saw them and as they came, and how often; adds up to one.
    """

    seen: NDArray[np.bool_]
    delta: Array
    total: Array
    pairs: NDArray[np.intp]
    back: Array
    steps: Array
    values: Array
    items: Array
    features: Array
    often: Array

    @staticmethod
    def of(model: LearnedModel) -> _Asked:
        """Return the questions that a model was fitted to."""
        Z, pairs = model.items, model.fitted.get("questions_")
        if Z is None or pairs is None:
            raise DataError(
                "the model was fitted to vectors, so nobody knows which items were asked about; what moves choices "
                "needs PopulationMetric(items=…) and pairs of row numbers, or Comparisons"
            )
        done = model.preprocessing
        if done is None:
            T, X, values = np.eye(Z.shape[1]), Z, values_to_compare(Z)
        else:
            T, values = done.matrix_, done.values_
            X = Z @ np.linalg.pinv(T).T + done.mean_
        delta = X[pairs[:, 0]] - X[pairs[:, 1]]
        varies = np.any(T, axis=0) & varying_features(X)
        spread = np.where(varies, X[np.unique(pairs)].std(axis=0), 0.0)
        units = np.where(spread > 0, spread, 1.0)
        P = _shown(np.where(spread > 0, delta, 0.0) / units)
        seen = np.diag(P) > UNSEEN
        if not seen.any():
            raise DataError("the items that were asked about do not differ in any feature; ask about others")
        # where T keeps all features, those that cannot change alone change together; a T that reduces them, to
        # principal directions say, has an answer to every change of one feature
        keeps_all = len(T) >= np.count_nonzero(np.any(T, axis=0))
        moves = P[:, seen] / np.diag(P)[seen] if keeps_all else np.eye(len(P))[:, seen]
        rows, times = np.unique(pairs, return_counts=True)
        most = max(1, min(MOST_ITEMS, MOST_PREDICTIONS // (DRAWS * int(seen.sum()))))
        if rows.size > most:
            some, times = np.unique(_evenly(times.astype(np.float64), most), return_counts=True)
            rows = rows[some]
        return _Asked(
            seen, delta[:, seen], Z[pairs[:, 0]] + Z[pairs[:, 1]], pairs, (T * units) @ P[:, seen] / units[seen],
            (T * units) @ moves / units[seen], values[:, seen], Z[rows], X[rows][:, seen], times / times.sum(),
        )  # fmt: skip

    @property
    def center(self) -> Array:
        """The mean item c (d,)."""
        return 0.5 * self.total.mean(axis=0)

    @cached_property
    def moments(self) -> list[tuple[float, Array, Array]]:
        """The means of δ_j², δ_j² z (d,) and δ_j² zzᵀ (d, d) of every feature (`parts`)."""
        z = self.total - 2.0 * self.center
        weights = (column**2 / len(column) for column in self.delta.T)
        return [(float(weight.sum()), weight @ z, (z.T * weight) @ z) for weight in weights]

    def parts(self, laws: _Laws) -> Array:
        """Return the shares (n, 3, f + 1) under n laws: steady, bent and own of every feature, last of item effects.

        Under a slope g = ℓᵀT_j along feature j and its column b = M T_j, a pair with the difference δ_j and the place
        ``z = s − 2c`` has the utilities δ_j g, steady, and δ_j zᵀb, bent. Their mean squares over pairs are quadratic
        forms in g and b, whose coefficients, means of δ_j², δ_j² z and δ_j² zzᵀ, are the same for all laws.
        """
        slopes = laws.means + 2.0 * laws.metrics @ self.center
        out = np.zeros((len(slopes), 3, self.delta.shape[1] + 1))
        for j, (T, (size, first, second)) in enumerate(zip(self.back.T, self.moments, strict=True)):
            b, g = laws.metrics @ T, slopes @ T
            alone, curved = g**2 * size, np.sum((b @ second) * b, axis=1)
            shared = alone + curved + 2.0 * g * (b @ first)
            part = alone / np.maximum(alone + curved, 1e-300)
            own = (laws.covariances @ T) @ T * size
            out[:, :, j] = np.stack([part * shared, (1.0 - part) * shared, own], axis=1)
        if laws.effects is not None:
            left, right = self.pairs.T
            step = max(1, MOST_NUMBERS // len(left))
            chunks = (laws.effects[begin : begin + step] for begin in range(0, len(slopes), step))
            out[:, 0, -1] = np.concatenate([np.mean((b[:, right] - b[:, left]) ** 2, axis=1) for b in chunks])
        all_of_it = out.sum(axis=(1, 2), keepdims=True)
        return out / np.where(all_of_it > 0, all_of_it, 1.0)

    def chosen(self, laws: _Laws, loss: Loss) -> Array:
        """Return how likely more of each feature is chosen, (n, f), under n laws.

        With w the difference of the two values, t_j the step that an item makes when feature j changes by one, and
        q = t_jᵀMt_j, an item z whose feature is x_j has ::

            ψ = −w (2 zᵀMt_j + (less + more − 2x_j) q + t_jᵀv)            variance over people: w² t_jᵀΣt_j
        """
        less, more = self.values
        width, t = more - less, self.steps
        out = np.empty((len(laws.means), t.shape[1]))
        for n, (M, mean, S) in enumerate(zip(laws.metrics, laws.means, laws.covariances, strict=True)):
            along = M @ t
            q = np.sum(t * along, axis=0)
            psi = -width * (2.0 * self.items @ along + (less + more - 2.0 * self.features) * q + mean @ t)
            variance = width**2 * np.maximum(np.sum(t * (S @ t), axis=0), 0.0)
            out[n] = self.often @ _probability(psi, np.broadcast_to(variance, psi.shape), loss)
        return out


def _probability(psi: Array, variance: Array, loss: Loss) -> Array:
    """Return how likely the right item is chosen; under a loss that is no likelihood, how many people prefer it."""
    if loss.name in ("logistic", "probit"):
        return np.asarray(mean_probability(psi, variance, loss))
    return np.asarray(norm.cdf(psi / np.sqrt(np.maximum(variance, 1e-300))))


def _shown(delta: Array) -> Array:
    """Return the projector (features, features) on the directions in which pairs (T, features) differ.

    If features add up to a constant, or repeat each other, ψ does not depend on a common part of their slopes. The
    slopes of least size are taken; δᵀ times them is the same.
    """
    values, vectors = np.linalg.eigh(delta.T @ delta)
    V = vectors[:, values > UNSEEN * max(float(values[-1]), 1e-300)]
    return np.asarray(V @ V.T)
