"""Which model `crowdmetric fit` chooses, and its reason: the estimator, the law of people, and per-item effects.

A choice is a value and the clause that follows "because". Every rule is stated in the function that applies it.

If hidden answers were predicted, they decide (`choose_by_hidden_answers`), on the question that the user has: known
items, new items, new people, or all three. They choose among ideal points under a learned metric with one of four laws,
smooth tastes, and models without a learned metric (`CANDIDATES`). If nothing was hidden, the evidence of fits to some
of the people decides (`Trials`) how ideal points scatter, and whether items have effects. Covariance and item effects
both describe what everybody thinks of an item, and each can stand in for the other:

- If a crowd is not isotropic but fitted as if it were, items seem to have effects: with people in three clusters,
  effects that do not exist gain up to hundreds of nats and spoil the metric. Item effects are therefore judged under
  the free covariance if there are enough people for one.
- Item effects can hide that people are not isotropic, because they are many and shrunk. The covariance is chosen after
  them, and the effective parameters that it saves count in its favor.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.engines.contract import device_of
from crowdmetric.engines.named import engine_of
from crowdmetric.errors import CrowdmetricWarning, DataError
from crowdmetric.estimators import PopulationMetric
from crowdmetric.evaluate import CrowdModel, Evaluation, evaluate
from crowdmetric.evaluate.taste_model import SMOOTHNESS
from crowdmetric.inputs import check_items
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.users.conditioning import find_sets

__all__ = [
    "CANDIDATES",
    "LAWS",
    "QUESTIONS",
    "UNLEARNED",
    "WORTH_MORE",
    "Choice",
    "Trials",
    "choose_by_hidden_answers",
    "choose_covariance",
    "choose_item_effects",
    "matched_share",
]

Array = NDArray[np.float64]

# A free covariance is considered only with at least this many (people × features) per additional parameter.
COORDINATES_PER_PARAMETER = 20
# With fewer items than this per parameter of metric and mean, a free covariance comes with a caution.
ITEMS_IF_FREE = 5
# Per-item effects are considered only if items were shown at least this often on average.
SHOWN_OFTEN = 10
# Maximum number of people in trial fits.
MOST_PEOPLE = 20_000
# The laws of ideal points that may be chosen, by the names of the evaluated models, the simplest first.
LAWS: dict[str, dict[str, Any]] = {
    "population": {"covariance": "isotropic", "item_effects": False},
    "population-free": {"covariance": "free", "item_effects": False},
    "population-items-isotropic": {"covariance": "isotropic", "item_effects": True},
    "population-items": {"covariance": "free", "item_effects": True},
}
# Models without a learned metric: the same laws with M = 0, or with a multiple of the identity, and utilities that are
# the same for everybody.
UNLEARNED: dict[str, dict[str, Any]] = {
    "linear": {"covariance": "free", "item_effects": False, "constraint": "zero"},
    "linear-items": {"covariance": "free", "item_effects": True, "constraint": "zero"},
    "mixed": {"covariance": "isotropic", "item_effects": True, "constraint": "zero"},
    "identity": {"covariance": "isotropic", "item_effects": False, "constraint": "identity"},
    "bradley-terry": {"covariance": "none", "item_effects": True, "constraint": "zero"},
    "quadratic": {"covariance": "none", "item_effects": False, "constraint": "symmetric"},
}
# Everything that `crowdmetric fit` may choose if the user fixes nothing: estimators and their parameters.
CANDIDATES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: ("population", law) for name, law in LAWS.items()},
    "smooth": ("taste", {"shape": SMOOTHNESS}),
    **{name: ("population", law) for name, law in UNLEARNED.items()},
}
# What a model may be used for, and the splits of an evaluation that measure it.
QUESTIONS = {
    "all": ("pairs", "people", "items"),
    "known-items": ("pairs",),
    "new-people": ("people",),
    "new-items": ("items",),
}
# Tolerances in nats per answer: a simpler law is chosen if it is at most this much worse, and so is the best law of
# ideal points compared with a model of another kind.
WORTH_MORE, WORTH_ANOTHER_KIND = 0.001, 0.002


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why.

    Attributes
    ----------
    value : str or bool
    reason : str
        A clause that reads well after "because".
    caution : str
        A clause on what the choice may cost, if anything; it reads well after the reason and "; but".
    """

    value: str | bool
    reason: str
    caution: str = ""


class Trials:
    """Population fits from one start to at most 20,000 people, for choices between laws; none is made twice.

    Parameters
    ----------
    items : (N, d) array
    comparisons : Comparisons
    parameters : mapping
        Those of `PopulationMetric` that are fixed already.
    """

    def __init__(self, items: ArrayLike, comparisons: Comparisons, parameters: Mapping[str, Any]) -> None:
        self.items = check_items(items)
        self.comparisons = comparisons
        self.parameters = dict(parameters)
        self._made: dict[tuple[str, bool], PopulationMetric] = {}

    @property
    def d(self) -> int:
        """How many features items have."""
        return self.items.shape[1]

    @cached_property
    def people(self) -> int:
        """How many people answered."""
        return int(np.unique(self.comparisons.user).size)

    @cached_property
    def some(self) -> Comparisons:
        """The answers of every k-th person, or of all if they are few."""
        step = -(-self.comparisons.n_users // MOST_PEOPLE)
        if step == 1:
            return self.comparisons
        return self.comparisons.take(np.flatnonzero(self.comparisons.user % step == 0))

    @property
    def by_gradients(self) -> bool:
        """Whether fits use gradients alone (`PopulationMetric`), and so have no evidence to compare laws."""
        return self.would_use_gradients(item_effects=False)

    def would_use_gradients(self, *, item_effects: bool) -> bool:
        """Return whether fits with or without item effects use gradients alone."""
        fit = PopulationMetric(engine=self.parameters.get("engine"), item_effects=item_effects)
        return fit.by_gradients_alone(self.d, len(self.items))

    @property
    def wanted(self) -> int:
        """How many people are needed before a free covariance is considered."""
        return -(-COORDINATES_PER_PARAMETER * (degrees_of_freedom(self.d) - 1) // self.d)

    @property
    def freest(self) -> str:
        """The covariance given, else 'free' if there are enough people for it."""
        free = self.d > 1 and self.people >= self.wanted and not self.by_gradients
        return str(self.parameters.get("covariance", "free" if free else "isotropic"))

    def fit(self, covariance: str, item_effects: bool) -> PopulationMetric:
        """Return a fit to some of the people under a law, without warnings: the final fit has them."""
        law = covariance, item_effects
        if law not in self._made:
            # the same integration method for all; otherwise a difference could come from the method
            options = {"integration": "propagation", **self.parameters, "starts": 1, "uncertainty": False}
            options |= {"covariance": covariance, "item_effects": item_effects, "checkpoint": None}
            if options["integration"] == "auto":
                options["integration"] = "propagation"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CrowdmetricWarning)
                self._made[law] = PopulationMetric(self.items, **options).fit(self.some)
        return self._made[law]


def choose_by_hidden_answers(
    evaluation: Evaluation,
    given: Mapping[str, Any] | None = None,
    question: str = "all",
    candidates: Sequence[str] = tuple(LAWS),
) -> Choice:
    """Return the model, a key of `CANDIDATES`, that predicts hidden answers best on the user's question.

    A model's *regret* is how far it is behind the best candidate, in nats per answer, on the worst split. A gap g with
    a standard error e counts as ``g³ / (g² + e²)``, so that gaps that may be chance count little. A single question
    leaves out the models that are clearly behind on it, and those that it cannot tell apart are judged by all splits:
    a few people who are hidden say less about which model is right than everybody's answers do.

    Among the laws of ideal points, the simplest one is chosen whose regret is within 0.001 of the smallest. A model of
    another kind is chosen instead if its regret is smaller by more than 0.002. `given` are parameters that the user has
    fixed; laws with other values are excluded. If one model remains, there is no choice and no reason.
    """
    splits = [split for split in QUESTIONS[question] if split in evaluation.splits]
    settled = {name: value for name, value in (given or {}).items() if name in ("covariance", "item_effects")}
    laws = [
        name
        for name in candidates
        if name in evaluation.models
        and (name not in LAWS or all(LAWS[name][key] == value for key, value in settled.items()))
    ]
    if not splits or not laws:
        raise DataError(f"no law was evaluated for the question {question!r}; choose by the evidence")
    left = laws if len(splits) > 1 else _not_clearly_behind(evaluation, splits[0], laws)
    regret = {law: max(_regret(evaluation, split, law, left) for split in evaluation.splits) for law in left}
    chosen = _least(regret, [law for law in left if law in LAWS])
    other = _least(regret, [law for law in left if law not in LAWS])
    if chosen is None or (other is not None and regret[other] < regret[chosen] - WORTH_ANOTHER_KIND):
        chosen = other
    assert chosen is not None
    behind = max(max(evaluation.mean(s, law) for law in laws) - evaluation.mean(s, chosen) for s in splits)
    asked = " and ".join(filter(None, [", ".join(_asked(s) for s in splits[:-1]), _asked(splits[-1])]))
    how = (
        f"on hidden answers ({asked}) no other model that can be saved predicts better "
        f"by more than {max(behind, 5e-5):.4f} nats each"
        if len(laws) > 1
        else ""
    )
    if how and len(left) > 1 and len(evaluation.splits) > len(splits):
        how += ", and those that this cannot tell apart were compared on all questions"
    others = [
        f"{law} for {_asked(split)}"
        for split in splits
        for law in [max(laws, key=lambda name: evaluation.mean(split, name))]
        if len(splits) > 1 and evaluation.difference(split, law, chosen).is_clear
    ]
    return Choice(chosen, how, f"clearly better would be {', '.join(others)}: see --for" if others else "")


def _not_clearly_behind(evaluation: Evaluation, split: str, laws: Sequence[str]) -> list[str]:
    """Return the laws that the best one is not clearly better than on a split."""
    best = max(laws, key=lambda name: evaluation.mean(split, name))
    return [law for law in laws if law == best or not evaluation.difference(split, best, law).is_clear]


def _regret(evaluation: Evaluation, split: str, law: str, laws: Sequence[str]) -> float:
    """Return how far a law is behind the best one on a split, reduced by what may be chance."""
    best = max(laws, key=lambda name: evaluation.mean(split, name))
    gap = evaluation.difference(split, best, law)
    error = gap.error if np.isfinite(gap.error) else 0.0
    return float(gap.mean**3 / (gap.mean**2 + error**2)) if gap.mean > 0 else 0.0


def _least(regret: Mapping[str, float], laws: Sequence[str]) -> str | None:
    """Return the first law whose regret is the least, or larger by less than `WORTH_MORE`; None without laws."""
    least = min((regret[law] for law in laws), default=0.0)
    return next((law for law in laws if regret[law] < least + WORTH_MORE), None)


def _asked(split: str) -> str:
    return {"pairs": "known items", "people": "new people", "items": "new items"}[split]


def choose_covariance(trials: Trials, item_effects: bool = False) -> Choice:
    """Return whether people's ideal points scatter equally in all directions ('isotropic') or in any way ('free').

    A free covariance has q = d(d+1)/2 − 1 more parameters. It is considered if there are at least 20 coordinates of
    people (Kd for K people) per additional parameter. If items have no effects, it is chosen if the Bayesian
    information criterion prefers it, ``ℓ_free − ℓ_isotropic > ½ q log K``. If they have, its price is the number of
    effective parameters, ``q + γ_free − γ_isotropic`` with γ as in `choose_item_effects`: item effects can fit what a
    too narrow covariance cannot, and that must not be cheaper than the covariance.
    """
    extra = degrees_of_freedom(trials.d) - 1
    if extra == 0:
        return Choice("isotropic", "items have one feature, so every covariance is isotropic")
    if trials.by_gradients:
        return Choice("isotropic", "a free one supports neither this many features nor single precision")
    if trials.people < trials.wanted:
        few = f"{trials.people:,} people are too few for the {extra:,} more parameters of a free one"
        return Choice("isotropic", f"{few}; it takes {trials.wanted:,}")
    free, isotropic = (trials.fit(covariance, item_effects) for covariance in ("free", "isotropic"))
    gain = free.log_likelihood_ - isotropic.log_likelihood_
    if item_effects:
        price = extra + _determined(free) - _determined(isotropic)
        figures = f"{gain:.1f} nats of log-likelihood for {price:.1f} more effective parameters"
    else:
        price = 0.5 * extra * log(np.unique(trials.some.user).size)
        figures = f"{gain:.1f} nats of log-likelihood for {extra:,} more parameters, which BIC prices at {price:.1f}"
    caution = "" if item_effects else _few_items(trials, ITEMS_IF_FREE if gain > price else 1)
    if gain > price:
        return Choice("free", f"a free covariance gains {figures}", caution)
    return Choice("isotropic", f"a free covariance gains only {figures}", caution)


def _determined(fit: PopulationMetric) -> float:
    """Return the effective number of parameters of the metric's shape and of the item effects."""
    return float(getattr(fit, "determined_", 0.0)) + float(getattr(fit, "item_effects_determined_", 0.0))


def _few_items(trials: Trials, least: int) -> str:
    """Return a clause of caution if fewer than `least` items per parameter were shown.

    A metric determines how much each item is liked on average, xᵀMx. These are as many numbers as items, for
    d(d+1)/2 + d parameters of metric and mean, for any number of people. Under a free covariance the metric is visible
    in nothing else.
    """
    shown, parameters = np.unique(trials.some.pairs).size, degrees_of_freedom(trials.d) + trials.d
    if shown >= least * parameters:
        return ""
    return (
        f"{shown:,} items are few for the {parameters:,} parameters of a metric and a mean, so what is learned "
        "from them may not carry over to new items; use fewer features to predict those"
    )


def choose_item_effects(trials: Trials) -> Choice:
    """Return whether items have effects beyond their features (`crowdmetric.users.item_effects`).

    They are considered for items that were shown at least 10 times on average, and as many as a fit by scoring can have
    (`PopulationMetric`). They are chosen if the log-likelihood gains more than their price, with both fits under the
    covariance given, or else under 'free' if there are enough people::

        ℓ_with − ℓ_without > γ_with − γ_without + log N

    γ is the effective number of parameters of the metric's shape and of the effects of the N items shown. Each costs
    one nat, as in Akaike's criterion, because shrunk parameters can fit little noise. (With many features, a metric
    without item effects may need more parameters than one with them.) The spread ω of the effects costs log N, twice
    the price of the Bayesian criterion: at half of it, 4 of 30 simulated crowds without effects were given some, and
    now none is.

    With fewer items than the d(d+1)/2 + d parameters of a metric and a mean, features can explain everything that
    effects could, and the likelihood cannot distinguish them. They differ in predictions about items that nobody has
    seen. There, 30 % of the items are hidden once, and effects are chosen if answers about those are clearly better
    predicted with them (always with logistic answers and a metric of full rank).
    """
    N = len(trials.items)
    if (
        trials.would_use_gradients(item_effects=True)
        or device_of(engine_of(trials.parameters.get("engine"))) is not None
    ):
        return Choice(False, "the evidence for them is not known with this many features or items, or on a GPU")
    if trials.parameters.get("ridge", "evidence") != "evidence":
        return Choice(False, "they are shrunk by the evidence, but another ridge was given")
    shown = np.bincount(trials.comparisons.pairs.ravel(), minlength=N)
    often = float(shown.sum()) / max(int(np.count_nonzero(shown)), 1)
    if often < SHOWN_OFTEN:
        return Choice(False, f"items were shown {often:.1f} times on average, and {SHOWN_OFTEN} times are needed")
    if np.count_nonzero(shown) < degrees_of_freedom(trials.d) + trials.d:
        return _by_hidden_items(trials)
    without, with_them = (trials.fit(trials.freest, effects) for effects in (False, True))
    gain = with_them.log_likelihood_ - without.log_likelihood_
    more = _determined(with_them) - _determined(without)
    price = more + log(np.count_nonzero(shown))
    figures = f"{gain:.1f} nats of log-likelihood for {more:.1f} more effective parameters, priced at {price:.1f}"
    return Choice(gain > price, f"they gain {'' if gain > price else 'only '}{figures}")


def _by_hidden_items(trials: Trials) -> Choice:
    """Return whether items have effects beyond their features, judged by answers about hidden items."""
    laws = [CrowdModel(name, "psd", trials.freest, item_effects=name == "with") for name in ("with", "without")]
    alike = "with so few items the likelihood cannot decide, and"
    try:
        found = evaluate(
            trials.items, trials.some, laws, splits=["items"], repeats=1, jobs=trials.parameters.get("jobs")
        )
    except DataError as error:  # too few answers to hide some of them
        return Choice(False, f"{alike} hidden items cannot decide either: {error}")
    gain = found.difference("items", "with", "without")
    better = gain.is_clear and gain.mean > 0
    how = "better predicted with them" if better else "not clearly better predicted with them"
    return Choice(
        better, f"{alike} answers about hidden items are {how} ({gain.mean:+z.3f} ± {gain.error:.3f} nats each)"
    )


def matched_share(items: ArrayLike, comparisons: Comparisons) -> float:
    """Return the share of people who were asked two parallel questions, from which `MatchedMetric` could learn."""
    X = np.asarray(items, dtype=np.float64)
    sets = find_sets(X, comparisons.pairs, comparisons.user, tolerance=1e-5, largest=2)
    return np.unique(sets.person).size / max(np.unique(comparisons.user).size, 1)
