"""Sentences that follow from an evaluation, by stated rules. Everything is measured on hidden answers.

A difference is *clear* where it exceeds two standard errors, clustered by person, and a thousandth an answer: two fits
that end at the same point differ by rounding, consistently.

no ideal points
    On new questions to known people (or, without that split, the first one), the symmetric fit clearly beats the
    best learnt metric with the same freedom of people ('population-free').
popularity in disguise
    A learnt metric, without utilities of the items beside it, clearly beats linear utilities on new questions to known
    people; but on new items its gain is not clear, and less than half as large.
worth using
    Per split, whether the best learnt metric clearly beats the best of Bradley–Terry, linear utilities and the
    identity, or clearly loses to it; where there are several splits, first in one plain sentence for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from crowdmetric.evaluate.models import BASELINES, LEARNT, WITH_ITEM_EFFECTS
from crowdmetric.evaluate.splits import TITLES

__all__ = ["Difference", "Evaluated", "findings", "has_no_ideal_points", "is_popularity_in_disguise"]

# Learnt metrics that speak through features alone.
ALONE = tuple(name for name in LEARNT if name not in WITH_ITEM_EFFECTS)
# Nats an answer below which a difference is of no use to anybody, however sure.
LEAST_DIFFERENCE = 1e-3


@dataclass(frozen=True)
class Difference:
    """A difference an answer and its standard error, clustered by person."""

    mean: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether it is above zero by more than two standard errors, and large enough to matter."""
        return bool(self.mean > max(2.0 * self.error, LEAST_DIFFERENCE))


class Evaluated(Protocol):
    """What the rules ask of an evaluation."""

    @property
    def splits(self) -> Sequence[str]: ...

    @property
    def models(self) -> Sequence[str]: ...

    def mean(self, split: str, model: str, measure: str = "log_likelihood") -> float:
        """Return the mean of a measure over repeats."""
        ...

    def difference(self, split: str, model: str, other: str, measure: str = "log_likelihood") -> Difference:
        """Return by how much `model` beats `other` an answer."""
        ...


def has_no_ideal_points(evaluation: Evaluated) -> bool:
    """Return whether the symmetric fit clearly beats the metric."""
    gain = _without_a_distance(evaluation)
    return gain is not None and gain.is_clear


def _without_a_distance(evaluation: Evaluated) -> Difference | None:
    if not {"symmetric", "population-free"} <= set(evaluation.models):
        return None
    split = "pairs" if "pairs" in evaluation.splits else evaluation.splits[0]
    return evaluation.difference(split, "symmetric", "population-free")


def is_popularity_in_disguise(evaluation: Evaluated) -> bool:
    """Return whether the metric's gain over linear utilities does not carry over to new items."""
    metric = _best_of(evaluation, "pairs", ALONE)
    if metric is None or "linear" not in evaluation.models or not {"pairs", "items"} <= set(evaluation.splits):
        return False
    warm, cold = (evaluation.difference(split, metric, "linear") for split in ("pairs", "items"))
    return warm.is_clear and not cold.is_clear and cold.mean < 0.5 * warm.mean


def findings(evaluation: Evaluated) -> list[str]:
    """Return the sentences."""
    compared = [found for split in evaluation.splits if (found := _compared(evaluation, split))]
    sentences = [_in_short(compared)] if len(compared) > 1 else []
    sentences += [_worth(evaluation, found) for found in compared]
    gain = _without_a_distance(evaluation)
    if gain is not None and gain.is_clear:
        sentences.append(
            "Warning: this crowd does not look as if it had ideal points: a quadratic that need not be a distance "
            f"predicts better by {gain.mean:.4f} ± {gain.error:.4f} nats an answer."
        )
    if is_popularity_in_disguise(evaluation):
        sentences.append(
            "Warning: part of the metric looks like item popularity in disguise: it gains on items that people have "
            f"answered about, and not on new ones.{_undisguised(evaluation)}"
        )
    return sentences


def _undisguised(evaluation: Evaluated) -> str:
    """Return the remedy, in a sentence after a blank, where it was tried and is one."""
    plain, beside = (_best_of(evaluation, "items", names) for names in (ALONE, WITH_ITEM_EFFECTS))
    if plain is None or beside is None or not evaluation.difference("items", beside, plain).is_clear:
        return ""
    return f" With utilities of the items beside it ({beside}) it need not be."


def _best_of(evaluation: Evaluated, split: str, names: tuple[str, ...]) -> str | None:
    here = [model for model in evaluation.models if model in names]
    if not here or split not in evaluation.splits:
        return None
    return max(here, key=lambda model: evaluation.mean(split, model))


@dataclass(frozen=True)
class _Compared:
    """The best learnt metric of a split beside its best baseline; outcome: 1 clearly better, −1 clearly worse, or 0."""

    split: str
    metric: str
    baseline: str
    gain: Difference
    outcome: int


def _compared(evaluation: Evaluated, split: str) -> _Compared | None:
    metric, baseline = _best_of(evaluation, split, LEARNT), _best_of(evaluation, split, BASELINES)
    if metric is None or baseline is None:
        return None
    gain, loss = evaluation.difference(split, metric, baseline), evaluation.difference(split, baseline, metric)
    return _Compared(split, metric, baseline, gain, int(gain.is_clear) - int(loss.is_clear))


def _worth(evaluation: Evaluated, found: _Compared) -> str:
    """Return whether a learnt metric is worth using on one split."""
    split, metric, baseline, gain = found.split, found.metric, found.baseline, found.gain
    right = 100 * (evaluation.mean(split, metric, "accuracy") - evaluation.mean(split, baseline, "accuracy"))
    figures = f"({gain.mean:+.4f} ± {gain.error:.4f} nats an answer, {right:+.2f} points of accuracy)"
    text = {
        1: f"a learnt metric ({metric}) predicts better than every baseline; the best of them is {baseline}",
        0: f"a learnt metric ({metric}) and {baseline} predict equally well, as far as these answers can tell",
        -1: f"a learnt metric is not worth using: {baseline} predicts better than {metric}",
    }[found.outcome]
    return f"{TITLES[split]}: {text} {figures}."


def _in_short(compared: Sequence[_Compared]) -> str:
    """Return one plain sentence for all splits."""
    where = {outcome: _joined([c.split for c in compared if c.outcome == outcome]) for outcome in (1, 0, -1)}
    if not where[1]:
        return "In short: a learnt metric is not worth using for prediction; simpler models do as well or better."
    if not where[0] and not where[-1]:
        return f"In short: a learnt metric is worth using for {where[1]}."
    rest = [f"for {where[0]} simpler models do as well"] if where[0] else []
    rest += (
        [f"for {where[-1]} they do better" if rest else f"for {where[-1]} simpler models do better"]
        if where[-1]
        else []
    )
    return f"In short: a learnt metric is worth using for {where[1]}; {', '.join(rest)}."


def _joined(splits: Sequence[str]) -> str:
    """Return 'new people and new items'."""
    names = [TITLES[split][0].lower() + TITLES[split][1:] for split in splits]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
