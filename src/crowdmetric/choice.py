"""Which model `crowdmetric fit` chooses, and its reason: the estimator, the law of people, and per-item effects.

A choice is a value and the clause that follows "because". Every rule is stated in the function that applies it.

Hidden answers decide (`choose_by_hidden_answers`), on the question that the user has: known items, new items, new
people, or all three. They choose among ideal points under a learned metric with one of four laws, smooth tastes, and
models without a learned metric (`CANDIDATES`). Where nothing was hidden, nothing is chosen: defaults are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.evaluate import Evaluation
from crowdmetric.evaluate.models import POPULATIONS
from crowdmetric.evaluate.taste_model import SMOOTHNESS
from crowdmetric.users.conditioning import find_sets

__all__ = [
    "CANDIDATES",
    "LAWS",
    "QUESTIONS",
    "UNLEARNED",
    "WORTH_MORE",
    "Choice",
    "choose_by_hidden_answers",
    "matched_share",
]

Array = NDArray[np.float64]

# The laws of ideal points that may be chosen, by the names of the evaluated models, the simplest first.
LAWS: dict[str, dict[str, Any]] = {
    name: POPULATIONS[name].options
    for name in ("population", "population-free", "population-items-isotropic", "population-items")
}
# Models without a learned metric: the same laws with M = 0, or with a multiple of the identity, and utilities that are
# the same for everybody.
UNLEARNED: dict[str, dict[str, Any]] = {
    **{name: POPULATIONS[name].options for name in ("linear", "linear-items", "mixed", "identity")},
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
    value : str
    reason : str
        A clause that reads well after "because".
    caution : str
        A clause on what the choice may cost, if anything; it reads well after the reason and "; but".
    """

    value: str
    reason: str
    caution: str = ""


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


def matched_share(items: ArrayLike, comparisons: Comparisons) -> float:
    """Return the share of people who were asked two parallel questions, from which `MatchedMetric` could learn."""
    X = np.asarray(items, dtype=np.float64)
    sets = find_sets(X, comparisons.pairs, comparisons.user, tolerance=1e-5, largest=2)
    return np.unique(sets.person).size / max(np.unique(comparisons.user).size, 1)
