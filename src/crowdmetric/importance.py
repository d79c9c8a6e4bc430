"""What moves choices: how much each feature contributes to what people prefer, steady tastes included.

A metric shows curvature alone: a crowd in which everybody wants a lower price has no curvature along the price, and the
metric is silent about what matters most. Here a feature counts by how much it moves ψ, and with it the choice. Let c be
the mean of the items as asked about, people v ~ N(μ, Σ), b the items' own effects, and for a pair δ = x − x',
s = x + x'. Then ψ is a sum over features j, exactly::

    ψ = Σ_j δ_j (ℓ_j + (M(s − 2c))_j + (v − μ)_j) − (b_x − b_x')           ℓ = μ + 2Mc

    steady     δ_j ℓ_j                everybody wants more of it, or less: −ℓ_j is the slope of utility at c
    bent       δ_j (M(s − 2c))_j      everybody wants a middle, which a metric shows
    own        δ_j (v − μ)_j          people differ

A feature counts by the mean square of its term ψ_j over pairs and people, which is its variance, as either item may be
on the left. People are independent of pairs, so what everybody shares and what differs add up::

    E[ψ_j²] = E[(steady_j + bent_j)²] + E[own_j²]          share_j = E[ψ_j²] / (Σ_k E[ψ_k²] + E[(b_x − b_x')²])

and shares, that of item effects included, add up to 1. The shared part is split in proportion to the mean squares of
its two terms. (Covariances E[ψ_j ψ] would add up as well, but a feature whose effect is often made up for by another
that comes with it, such as a price and a discount, would get a share below zero.)

Preprocessing z = T(x − m) is undone: δ_z = Tδ, so the terms are those of δ = T⁺δ_z with Tᵀ(ℓ + …), and the sum is
the same; directions that T threw away move nothing, nor do those in which compared items do not differ (features that
add up to a constant).

**Intervals** come from draws. Let everybody's v have the posterior mean v̂_k and covariance C_k. By Fisher's identity a
person's scores in ℓ and in ε, ``Σ → E Σ E`` with ``E = diag exp(ε/2)``, are ::

    g_k = Σ⁻¹(v̂_k − μ)      h_kj = ½ [((v̂_k − μ)(v̂_k − μ)ᵀ + C_k − Σ) Σ⁻¹]_jj         (K, 2d) together

and the inverse of the sum of their outer products is the covariance of the average taste ℓ and of how much people
differ along each feature. The metric is drawn as well where the model brings draws of it (``metric_draws_``). If other
laws explain the answers about as well (``alternatives_``), some draws are around those: as many as they are likely,
exp(−nats behind the best). Standard errors of slopes then include the differences between laws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.preprocess import ItemMap
from crowdmetric.symmetric import degrees_of_freedom, invertible, project_psd, smat
from crowdmetric.tables import ASKED

__all__ = [
    "FeatureImportance",
    "LearnedModel",
    "as_percent",
    "check_saved",
    "feature_importance",
    "feature_weights",
    "is_cut",
    "leader_of",
    "raw_features",
]

Array = NDArray[np.float64]

LEVEL = 0.90
DRAWS = 200
# If no pair's squared difference along a direction exceeds this share of the largest, no pair shows that direction.
# Features that sum to a constant up to rounding count as constant.
UNSEEN = 1e-4
# Where the share of the first feature may be below this, the answers hardly tell what moves choices. Where it is the
# largest with a lower probability than the second number, it is only probably so.
HARDLY, SURE = 0.05, 0.90
# Maximum number of pairs over which means are taken, and maximum size of matrices drawn at once, in numbers.
MOST_PAIRS, MOST_NUMBERS = 10_000, 4_000_000


class LearnedModel(Protocol):
    """What a fit left behind, whether in memory or in a folder (`crowdmetric.persist.SavedModel`)."""

    @property
    def description(self) -> Mapping[str, Any]:
        """``estimator``, ``parameters`` and ``data``, by these names."""
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
    """Return how features as they came make the features of the fit, (d, features), and their spreads."""
    if model.preprocessing is None:
        return np.eye(items.shape[1]), items.std(axis=0)
    T = model.preprocessing.matrix_
    return T, (items @ np.linalg.pinv(T).T).std(axis=0)


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
    shares : (f,)
        Of the squared terms of ψ over pairs and people; with `item_share` they add up to 1.
    low, high : (f,)
        Ends of a 90 % interval, which includes the share; NaN where nothing is known about people one by one.
    first_place : (f,)
        With which probability the share is the largest; NaN where there are no intervals.
    steady, bent, own : (f,)
        The parts of a share: everybody wants more or less; everybody wants a middle; people differ.
    item_share : float
        Share of the items' own effects, which features do not explain.
    slopes, slope_errors : (f,)
        By how much ψ favors an item of the mean kind with one spread more of a feature, for the average person, and
        its standard error (NaN where nothing is known); under the logistic loss these are log-odds.
    slope_spreads : (f,)
        Standard deviation of the slope between people.
    prefer_more : (f,)
        Share of people who prefer more of it, to the mean item.
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
    slopes: Array
    slope_errors: Array
    slope_spreads: Array
    prefer_more: Array
    covers: str

    @property
    def order(self) -> NDArray[np.intp]:
        """The features (f,), the most important first."""
        return np.argsort(-self.shares, kind="stable").astype(np.intp)

    @property
    def has_intervals(self) -> bool:
        """Whether there are intervals."""
        return bool(np.isfinite(self.low).all())

    def taste(self, feature: int) -> str:
        """Return which way people want a feature to go, in words."""
        more = float(self.prefer_more[feature])
        slope, error = self.slopes[feature], self.slope_errors[feature]
        if self.has_intervals and not abs(slope) > norm.ppf(0.5 + LEVEL / 2) * error:
            return "no common direction"
        if slope == 0.0:
            return "no common direction"
        if np.isnan(more):  # how much people differ is not known
            return "more" if slope > 0 else "less"
        which, share = ("more", more) if slope > 0 else ("less", 1.0 - more)
        return f"{which}, for {'nearly everybody' if share > 0.99 else f'{100 * share:.0f} % of people'}"

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
        taste = self.taste(first)
        text = f"What moves choices most is {self.leader}"
        if taste != "no common direction":
            which, _, whom = taste.partition(", for ")
            whom = whom or "people on average"
            whom = "nearly everybody prefers" if whom == "nearly everybody" else f"{whom} prefer"
            text += f": {whom} {which} of it"
        rest = [f"{self.names[j]} ({as_percent(self.shares[j])})" for j in others if self.shares[j] > 0.01]
        text += f". Next {'come' if len(rest) > 1 else 'comes'} {' and '.join(rest)}." if rest else "."
        if self.item_share > 0.01:
            text += f" {as_percent(self.item_share)} is about the items themselves, beyond what features say."
        return text

    def summary(self) -> str:
        """Return a sentence and a table, the most important feature first."""
        width = max(map(len, self.names)) + 2
        lines = [self.sentence(), f"  {'':<{width}}share    90 % interval   all alike   differs   one spread more"]
        for j in self.order.tolist():
            interval = f"{as_percent(self.low[j])} to {as_percent(self.high[j])}" if self.has_intervals else ""
            lines.append(
                f"  {self.names[j]:<{width}}{as_percent(self.shares[j]):>5}   {interval:>14}   "
                f"{as_percent(self.steady[j] + self.bent[j]):>9}   {as_percent(self.own[j]):>7}   "
                f"{self.slopes[j]:+8.2f}   {self.taste(j)}"
            )
        return "\n".join([*lines, self.covers])


def as_percent(share: float) -> str:
    """Return a share in whole percent."""
    return f"{100 * share:.0f} %".replace("-0 %", "0 %").replace("-", "−")


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


def feature_importance(
    model: LearnedModel, comparisons: Comparisons | None = None, *, draws: int = DRAWS, seed: int = 0
) -> FeatureImportance:
    """Return what moves choices under the law of people that was saved.

    Parameters
    ----------
    model : LearnedModel
        With its items, and with people: a population's law, or everybody's place.
    comparisons : Comparisons, optional
        The questions as asked, whose pairs count as often as they were asked; None: all pairs of items alike.
    draws, seed : int
        For intervals.

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
    if model.items is None:
        raise DataError("the model was fitted to vectors and has no items; importance needs PopulationMetric(items=…)")
    if model.description["parameters"].get("covariance") == "none":
        raise DataError(
            "in this model everybody has the same utilities, without errors: it does not tell what moves choices; fit "
            "a model in which people differ"
        )
    law = _Law.of(model)
    asked = _Asked.of(model, comparisons, seed)
    center = asked.center
    slope = law.mean + 2.0 * law.metric @ center
    found = asked.parts(slope[None], law.metric[None], law.covariance[None], asked.of_items([law]))[0]
    shares = found.sum(axis=0)
    low, high, first_place, error, covers = _uncertainty(model, law, asked, slope, shares[:-1], draws, seed)
    slopes, spreads = -law.beta * (slope @ asked.back), asked.spreads
    own_spread = np.sqrt(np.maximum(np.einsum("df,de,ef->f", asked.back, law.covariance, asked.back), 1e-300))
    return FeatureImportance(
        names=tuple(model.feature_names),
        shares=shares[:-1],
        low=low,
        high=high,
        first_place=first_place,
        steady=found[0, :-1],
        bent=found[1, :-1],
        own=found[2, :-1],
        item_share=float(shares[-1]),
        slopes=slopes * spreads,
        slope_errors=law.beta * error * spreads,
        slope_spreads=law.beta * own_spread * spreads,
        prefer_more=np.full(slopes.size, np.nan) if is_cut(model) else norm.cdf(-(slope @ asked.back) / own_spread),
        covers=covers,
    )


# -------------------------------------------------------------------------------------- people and questions


@dataclass(frozen=True)
class _Law:
    """M, μ, Σ, the items' effects, and everybody's v̂ (K, d) and covariance (K, d, d), where they are known."""

    metric: Array
    mean: Array
    covariance: Array
    effects: Array | None
    points: Array | None
    spreads: Array | None
    beta: float

    @staticmethod
    def of(model: LearnedModel) -> _Law:
        """Return the law that a model was saved with; of everybody's places, their mean and covariance."""
        fitted = model.fitted
        points = fitted.get("pseudo_ideal_points_")
        points = None if points is None or len(points) < 2 else np.asarray(points, dtype=np.float64)
        mean, covariance = fitted.get("pseudo_ideal_mean_"), fitted.get("pseudo_ideal_covariance_")
        if mean is None or covariance is None:
            if points is None:
                estimator = model.description["estimator"]
                if estimator == "TasteMetric":
                    raise DataError(
                        "what moves choices is not available for TasteMetric, whose features have no single strength; "
                        "fit a PopulationMetric"
                    )
                raise DataError(
                    f"{estimator} learns nothing about people, which is needed to say what moves choices; fit a "
                    "PopulationMetric"
                )
            mean, covariance = points.mean(axis=0), np.cov(points, rowvar=False, ddof=0).reshape(model.metric.shape)
        beta = model.description["parameters"].get("beta", 1.0)
        return _Law(
            model.metric, mean, covariance, fitted.get("item_effects_"), points,
            fitted.get("pseudo_ideal_covariances_"), float(beta if isinstance(beta, int | float) else 1.0),
        )  # fmt: skip


@dataclass(frozen=True)
class _Asked:
    """Pairs of items.

    Attributes
    ----------
    delta : (T, f)
        Differences in the features as they came.
    total : (T, d)
        Sums s of the pairs, as the fit saw items.
    pairs : (T, 2)
        Rows of the items.
    weight : (T,)
        Adds up to one.
    back : (d, f)
        A slope in what the fit saw, times this, is one in the features as they came: T, less what no pair shows.
    spreads : (f,)
        Standard deviations of the features over the items of the pairs.
    """

    delta: Array
    total: Array
    pairs: NDArray[np.intp]
    weight: Array
    back: Array
    spreads: Array

    @staticmethod
    def of(model: LearnedModel, comparisons: Comparisons | None, seed: int) -> _Asked:
        """Return the pairs asked about, each k-th where they are many; or any pairs of items."""
        items = model.items
        assert items is not None
        if comparisons is None:
            pairs, weight = _any_pairs(len(items), seed), None
        else:
            if comparisons.n_items != len(items):
                raise DataError(
                    f"the comparisons are about {comparisons.n_items:,} items, but the model has {len(items):,}; give "
                    "those it was fitted to"
                )
            rows = np.linspace(0, len(comparisons) - 1, min(len(comparisons), MOST_PAIRS)).astype(np.intp)
            pairs, weight = comparisons.pairs[rows], comparisons.weight[rows]
        if weight is None or not weight.sum() > 0:
            weight = np.ones(len(pairs))
        T = np.eye(items.shape[1]) if model.preprocessing is None else model.preprocessing.matrix_
        features = items @ np.linalg.pinv(T).T
        spreads = features[np.unique(pairs)].std(axis=0)
        left, right = pairs.T
        return _Asked(
            features[left] - features[right],
            items[left] + items[right],
            pairs,
            weight / weight.sum(),
            _seen(T, features[left] - features[right], spreads),
            spreads,
        )

    @property
    def center(self) -> Array:
        """The mean item c (d,)."""
        return 0.5 * self.weight @ self.total

    @cached_property
    def moments(self) -> list[tuple[float, Array, Array]]:
        """The means of δ_j², δ_j² z (d,) and δ_j² zzᵀ (d, d) of every feature (`parts`)."""
        z = self.total - 2.0 * self.center
        weights = (self.weight * column**2 for column in self.delta.T)
        return [(float(weight.sum()), weight @ z, (z.T * weight) @ z) for weight in weights]

    def of_items(self, laws: Sequence[_Law]) -> Array:
        """Return the mean squares (n,) of what the items' effects add, b_x' − b_x, under n laws."""
        left, right = self.pairs.T
        none = np.zeros(1 + int(self.pairs.max()))
        effects = [none if law.effects is None else law.effects for law in laws]
        return np.array([self.weight @ (b[right] - b[left]) ** 2 for b in effects])

    def parts(self, slopes: Array, metrics: Array, covariances: Array, of_items: Array) -> Array:
        """Return the shares (n, 3, f + 1) under n laws: steady, bent and own of every feature, last of item effects.

        Under a slope g = ℓᵀT_j along feature j and its column b = M T_j, a pair with the difference δ_j and the place
        ``z = s − 2c`` has the utilities δ_j g, steady, and δ_j zᵀb, bent. Their mean squares over pairs are quadratic
        forms in g and b, whose coefficients, means of δ_j², δ_j² z and δ_j² zzᵀ, are the same for all laws.
        """
        f = self.delta.shape[1]
        out = np.zeros((len(slopes), 3, f + 1))
        for j, (T, (size, first, second)) in enumerate(zip(self.back.T, self.moments, strict=True)):
            b, g = metrics @ T, slopes @ T
            alone, curved = g**2 * size, np.sum((b @ second) * b, axis=1)
            shared = alone + curved + 2.0 * g * (b @ first)
            part = alone / np.maximum(alone + curved, 1e-300)
            own = (covariances @ T) @ T * size
            out[:, :, j] = np.stack([part * shared, (1.0 - part) * shared, own], axis=1)
        out[:, 0, -1] = of_items
        all_of_it = out.sum(axis=(1, 2), keepdims=True)
        return out / np.where(all_of_it > 0, all_of_it, 1.0)


def _seen(T: Array, delta: Array, spreads: Array) -> Array:
    """Return T (d, f) without what no pair shows: slopes in directions in which compared items do not differ.

    If features add up to a constant, or repeat each other, ψ does not depend on a common part of their slopes. The
    slopes of least size, in units of spreads, are taken; δᵀ times them is the same.
    """
    units = np.where(spreads > 0, spreads, 1.0)
    scaled = delta / units
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    V = vectors[:, values > UNSEEN * max(float(values[-1]), 1e-300)]
    return (T * units) @ V @ V.T / units


def _any_pairs(n_items: int, seed: int) -> NDArray[np.intp]:
    """Return all pairs of items, or some where they are many."""
    if n_items * (n_items - 1) // 2 <= MOST_PAIRS:
        return np.column_stack(np.triu_indices(n_items, 1)).astype(np.intp)
    rng = np.random.default_rng(seed)
    first = rng.integers(n_items, size=MOST_PAIRS)
    return np.column_stack([first, (first + rng.integers(1, n_items, size=MOST_PAIRS)) % n_items]).astype(np.intp)


# ------------------------------------------------------------------------------------------------ intervals


def _uncertainty(
    model: LearnedModel, law: _Law, asked: _Asked, slope: Array, shares: Array, draws: int, seed: int
) -> tuple[Array, Array, Array, Array, str]:
    """Return ends of intervals, probabilities of first place and standard errors of slopes (f,); what they cover."""
    d = slope.size
    if law.points is None or len(law.points) <= 2 * d or is_cut(model):
        why = "answers were not asked one by one" if is_cut(model) else "too little is known about each person"
        nothing = np.full(shares.size, np.nan)
        return nothing, nothing, nothing, nothing, f"There are no intervals: {why}."
    C = _people_covariance(law, law.points)
    rng = np.random.default_rng(seed)
    metrics = model.fitted.get("metric_draws_")
    isotropic = model.description["parameters"].get("covariance") == "isotropic"
    stretch = float(np.trace(model.fitted["ideal_covariance_"])) / d if isotropic else 0.0
    # C is positive semi-definite, up to the rounding of entries that are much smaller than others
    steps = rng.multivariate_normal(np.zeros(2 * d), C, size=draws, method="eigh", check_valid="ignore")
    sizes = np.exp(0.5 * np.clip(steps[:, d:], -4.0, 4.0))
    laws, likely = _explanations(model, law)
    which = rng.choice(len(laws), size=draws, p=likely)
    slopes = np.stack([each.mean + 2.0 * each.metric @ asked.center for each in laws])
    drawn = slopes[which]
    drawn[which == 0] += steps[which == 0, :d]
    sizes[which > 0] = 1.0
    of_items = asked.of_items(laws)[which]
    parts = []
    for some in np.array_split(np.arange(draws), -(-draws * d * d // MOST_NUMBERS)):
        metric = np.stack([laws[i].metric for i in which[some]])
        covariance = np.stack([laws[i].covariance for i in which[some]])
        if metrics is not None:
            best = which[some] == 0
            metric[best] = [smat(np.asarray(metrics[n % len(metrics)], dtype=np.float64)) for n in some[best]]
            covariance[best] = 4.0 * stretch * metric[best] @ metric[best] if isotropic else covariance[best]
        covariance = covariance * sizes[some, :, None] * sizes[some, None, :]
        parts.append(asked.parts(drawn[some], metric, covariance, of_items[some]))
    found = np.concatenate(parts).sum(axis=1)[:, :-1]
    low, high = np.quantile(found, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
    between = (slopes - slope).T * likely @ (slopes - slope)
    variance = np.einsum("df,de,ef->f", asked.back, likely[0] * C[:d, :d] + between, asked.back)
    what = ", and of the metric" if metrics is not None else ""
    more = ", and other laws of people that fit about as well" if len(laws) > 1 else ""
    covers = (
        "Intervals (90 %) cover the uncertainty of the average taste, of how much people differ along each feature"
        f"{what}{more}; not {'' if metrics is not None else 'that of the metric, nor '}whether the model is right."
    )
    error = np.sqrt(np.maximum(variance, 0.0))
    first_place = np.bincount(np.argmax(found, axis=1), minlength=shares.size) / draws
    return np.minimum(low, shares), np.maximum(high, shares), first_place, error, covers


def _explanations(model: LearnedModel, law: _Law) -> tuple[list[_Law], Array]:
    """Return the saved law, and draws around others that explain the answers about as well; how likely (n,) each is."""
    laws, likely = [law], [1.0]
    d = law.mean.size
    ends = np.cumsum([1, degrees_of_freedom(d), d, degrees_of_freedom(d)])
    for rows in model.fitted.get("alternatives_", ()):
        for row in np.asarray(rows, dtype=np.float64):
            behind, metric, mean, covariance, effects = np.split(row, ends)
            other = replace(law, metric=smat(metric), mean=mean, covariance=smat(covariance))
            laws.append(replace(other, effects=effects) if effects.size else other)
            likely.append(float(np.exp(-behind[0])) / len(rows))
    return laws, np.array(likely) / sum(likely)


def _people_covariance(law: _Law, points: Array) -> Array:
    """Return the covariance (2d, 2d) of ℓ and ε.

    Σ is often singular: a fit finds that people agree in some direction. Their average taste in it is uncertain all the
    same, so the scores in it must not be lost. A fit therefore places people under an `invertible` Σ, as here.
    """
    away = points - law.mean
    inverse = np.linalg.pinv(invertible(law.covariance), hermitian=True)
    g = away @ inverse
    h = 0.5 * away * g
    if law.spreads is not None:
        h = h + 0.5 * np.einsum("kde,ed->kd", law.spreads, inverse)
    scores = np.hstack([g, h - h.mean(axis=0)])  # at the optimum they add up to zero
    size = np.sqrt(np.sum(scores**2, axis=0))
    size = np.where(size > 0, size, 1.0)
    scaled = scores / size
    return project_psd(np.linalg.pinv(scaled.T @ scaled, hermitian=True, rcond=1e-8) / size[:, None] / size)
