"""Sentences that follow from an evaluation, by stated rules. Everything is measured on hidden answers.

Two models are compared by the difference of their log-likelihoods per answer, with a standard error clustered by
person, and by the difference of their accuracies. Intervals count people (Student's t), and of fewer than ten people
nothing is said (`FEWEST_PEOPLE`):

equal
    the 90 % interval of the difference lies within ± 0.005 nats, and accuracies differ by at most one point;
better, worse
    otherwise, where the difference exceeds two standard errors and 0.001 nats: two fits that end at the same point
    differ by rounding, consistently;
unclear
    otherwise: these answers cannot tell.

What is judged is the saved model where the evaluation knows it, else the learned metric of the highest likelihood.

worth using
    Per split. The model is compared with the best baseline and, because a model with a metric has more than a metric,
    with the same model without one (`crowdmetric.evaluate.models.WITHOUT_METRIC`). The metric is worth using where
    both comparisons say "better". Where only the first does, the second is the verdict.
no ideal points
    On new questions to known people (or, without that split, the first one), the same model with any symmetric matrix
    in place of a metric is clearly better.
only popularity
    A learned metric without effects of the items beside it clearly beats linear utilities on new questions to known
    people; but on new items its gain is not clear, and less than half as large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite
from typing import Literal, Protocol

from scipy.stats import norm, t

from crowdmetric.evaluate.models import BASELINES, LEARNED, WITH_ITEM_EFFECTS, WITHOUT_DISTANCE, WITHOUT_METRIC
from crowdmetric.evaluate.splits import TITLES

__all__ = [
    "FEWEST_PEOPLE",
    "Difference",
    "Evaluated",
    "Outcome",
    "Worth",
    "best_model",
    "cannot_tell",
    "counted_hidden",
    "findings",
    "has_no_ideal_points",
    "headline",
    "hidden_answers",
    "is_only_popularity",
    "outcome_of",
    "tests_ideal_points",
    "worth_of",
    "worth_of_metric",
]

Outcome = Literal["better", "equal", "worse", "unclear"]

# What a saved model may be: a learned metric, or tastes with one inside.
SAVED = (*LEARNED, "smooth")
# Learned metrics without per-item effects.
WITHOUT_ITEM_EFFECTS = tuple(name for name in LEARNED if name not in WITH_ITEM_EFFECTS)
# Differences below this, in nats per answer, do not matter in practice, however certain they are.
LEAST_DIFFERENCE = 1e-3
# Two models predict equally well if they differ by at most this: nats per answer, and share of answers predicted right.
MARGIN, ACCURACY_MARGIN = 0.005, 0.01
# Half the width of a 90 % interval, in standard errors, for many people, and how many of them make a difference clear.
HALF, CLEAR = float(norm.ppf(0.95)), 2.0
# With the hidden answers of fewer people than this, nothing is said of others.
FEWEST_PEOPLE = 10


@dataclass(frozen=True)
class Difference:
    """A difference per answer and its standard error, clustered by person.

    `answers` and `people` say how many hidden answers of how many people it rests on; None: many. Of fewer people than
    `fewest` it says nothing.

    Examples
    --------
    >>> from crowdmetric.evaluate import Difference
    >>> Difference(mean=0.02, error=0.005, people=200).is_clear
    True
    >>> Difference(mean=0.02, error=0.005, people=5).is_clear
    False
    """

    mean: float
    error: float
    answers: int | None = None
    people: int | None = None
    fewest: int = FEWEST_PEOPLE

    @property
    def is_clear(self) -> bool:
        """Whether it is above zero by more than two standard errors, and large enough to matter."""
        return self.mean > LEAST_DIFFERENCE and self.mean > CLEAR * self._widened  # False if the error is NaN

    @property
    def reversed(self) -> Difference:
        """The difference seen from the other side."""
        return replace(self, mean=-self.mean)

    def is_within(self, margin: float) -> bool:
        """Return whether its 90 % interval lies within ± `margin`."""
        return abs(self.mean) + HALF * self._widened <= margin

    @property
    def _widened(self) -> float:
        """The standard error, wider where few people determine it: infinite for fewer than `fewest`."""
        if self.people is None:
            return self.error
        if self.people < self.fewest:
            return inf
        return self.error * float(t.ppf(0.95, self.people - 1)) / HALF

    def people_to_tell(self) -> int | None:
        """Return how many people would tell, if more of them differ as those seen; None if that cannot be said.

        The difference is told if it is clear, or clearly too small to matter (`MARGIN`)::

            people · min((2 error / |mean|)², (HALF error / (MARGIN − |mean|))²)
        """
        if self.people is None or not isfinite(self.error) or self.error == 0:
            return None
        size = abs(self.mean)
        ways = [CLEAR * self.error / size] if size > LEAST_DIFFERENCE else []
        ways += [HALF * self.error / (MARGIN - size)] if size < MARGIN else []
        return max(ceil(self.people * min(ways) ** 2), self.fewest) if ways else None


class Evaluated(Protocol):
    """What the rules ask of an evaluation."""

    @property
    def splits(self) -> Sequence[str]: ...

    @property
    def models(self) -> Sequence[str]: ...

    @property
    def saved(self) -> str | None:
        """The model that is the saved one; None if it is not known, or not among them."""
        ...

    def has(self, split: str, model: str) -> bool:
        """Return whether a model was evaluated on a split."""
        ...

    def mean(self, split: str, model: str, measure: str = "log_likelihood") -> float:
        """Return the mean of a measure over repeats."""
        ...

    def difference(self, split: str, model: str, other: str, measure: str = "log_likelihood") -> Difference:
        """Return by how much `model` beats `other` per answer."""
        ...


# ---------------------------------------------------------------------------------------------- comparisons


def outcome_of(likelihood: Difference, accuracy: Difference) -> Outcome:
    """Return what the differences of two models say of the first."""
    if likelihood.is_within(MARGIN) and abs(accuracy.mean) <= ACCURACY_MARGIN:
        return "equal"
    if likelihood.is_clear:
        return "better"
    return "worse" if likelihood.reversed.is_clear else "unclear"


@dataclass(frozen=True)
class Compared:
    """A model beside another on one split: by how much it is ahead, and what that says."""

    split: str
    model: str
    other: str
    likelihood: Difference
    accuracy: Difference

    @staticmethod
    def of(evaluation: Evaluated, split: str, model: str, other: str) -> Compared:
        """Compare two models on a split."""
        gains = (evaluation.difference(split, model, other, name) for name in ("log_likelihood", "accuracy"))
        return Compared(split, model, other, *gains)

    @property
    def outcome(self) -> Outcome:
        """What the differences say of the model."""
        return outcome_of(self.likelihood, self.accuracy)

    @property
    def figures(self) -> str:
        """The differences, in parentheses."""
        gain, right = self.likelihood, 100 * self.accuracy.mean
        error = f" ± {gain.error:.4f}" if isfinite(gain.error) else ""  # one person tells no error
        return f"({gain.mean:+z.4f}{error} nats per answer, {right:+z.2f} points of accuracy)"

    @property
    def hidden(self) -> str:
        """How many hidden answers of how many people this rests on; empty if that is not known."""
        return counted_hidden(self.likelihood.answers, self.likelihood.people)

    @property
    def although(self) -> str:
        """A clause where the likelihood says one thing and the accuracy clearly another, after a comma."""
        right = self.accuracy.mean * {"better": 1.0, "worse": -1.0}.get(self.outcome, 0.0)
        return ", although fewer of its predictions are right" if right < -ACCURACY_MARGIN else ""


@dataclass(frozen=True)
class Worth:
    """What a learned metric is worth on one split.

    Attributes
    ----------
    against : Compared
        With the best baseline.
    alone : Compared or None
        With the same model without a metric; None if that was not evaluated.
    best : str
        The model of the highest likelihood among all.
    """

    against: Compared
    alone: Compared | None
    best: str

    @property
    def split(self) -> str:
        """Where it was measured."""
        return self.against.split

    @property
    def outcome(self) -> Outcome:
        """Whether the metric is worth using: credit goes to it only for what the model lacks without it."""
        if self.against.outcome == "better" and self.alone is not None:
            return self.alone.outcome
        return self.against.outcome


def counted_hidden(answers: int | None, people: int | None) -> str:
    """Return '120 hidden answers of 30 people'; empty if they are not known."""
    if answers is None or people is None:
        return ""
    return (
        f"{answers:,} hidden answer{'' if answers == 1 else 's'} of {people:,} {'person' if people == 1 else 'people'}"
    )


def hidden_answers(evaluation: Evaluated, split: str) -> str:
    """Return how many answers of how many people were hidden in a split, in words; empty if that is not known."""
    model = evaluation.models[0]
    seen = evaluation.difference(split, model, model)
    return counted_hidden(seen.answers, seen.people)


def best_model(evaluation: Evaluated, split: str, names: Sequence[str] | None = None) -> str | None:
    """Return the model of the highest likelihood among those named, or all; None if none of them was evaluated."""
    here = [model for model in evaluation.models if names is None or model in names]
    return max(here, key=lambda model: evaluation.mean(split, model)) if here else None


def _judged(evaluation: Evaluated, split: str) -> str | None:
    """Return the model that sentences are about: the saved one where it is known and has a metric."""
    saved = evaluation.saved
    return saved if saved in SAVED and saved in evaluation.models else best_model(evaluation, split, LEARNED)


def _has_tastes(evaluation: Evaluated) -> bool:
    """Return whether the saved model is one of tastes rather than of ideal points."""
    return evaluation.saved in SAVED and evaluation.saved not in LEARNED


def worth_of(evaluation: Evaluated, split: str) -> Worth | None:
    """Return what a learned metric is worth on a split; None without a learned metric or a baseline."""
    model, baseline = _judged(evaluation, split), best_model(evaluation, split, BASELINES)
    best = best_model(evaluation, split)
    if model is None or baseline is None or best is None:
        return None
    return Worth(Compared.of(evaluation, split, model, baseline), _metric_alone(evaluation, split, model), best)


def cannot_tell(evaluation: Evaluated) -> bool:
    """Return whether the verdict is that these answers cannot tell, of no question, whether a metric is worth using."""
    found = [worth for split in evaluation.splits if (worth := worth_of(evaluation, split))]
    return bool(found) and all(worth.outcome == "unclear" for worth in found)


def _metric_alone(evaluation: Evaluated, split: str, model: str) -> Compared | None:
    twin = WITHOUT_METRIC.get(model)
    return Compared.of(evaluation, split, model, twin) if twin in evaluation.models and twin is not None else None


def worth_of_metric(evaluation: Evaluated) -> dict[str, list[Compared]]:
    """Return, for every model with a metric whose twin without one was evaluated, what the metric adds per split."""
    found = {
        model: [_metric_alone(evaluation, split, model) for split in evaluation.splits] for model in evaluation.models
    }
    return {model: [c for c in row if c is not None] for model, row in found.items() if None not in row and row}


# ------------------------------------------------------------------------------------------------- warnings


def has_no_ideal_points(evaluation: Evaluated) -> bool:
    """Return whether the judged model clearly predicts better with any symmetric matrix in place of its metric."""
    gain = _without_a_distance(evaluation)
    return gain is not None and gain.is_clear


def tests_ideal_points(evaluation: Evaluated) -> bool:
    """Return whether the models were evaluated that tell whether people have ideal points."""
    return _without_a_distance(evaluation) is not None


def _without_a_distance(evaluation: Evaluated) -> Difference | None:
    if _has_tastes(evaluation):  # which need no ideal points
        return None
    split = "pairs" if "pairs" in evaluation.splits else evaluation.splits[0]
    with_items = evaluation.saved in WITH_ITEM_EFFECTS and evaluation.has(split, "symmetric-items")
    model = "population-items" if with_items else "population-free"
    other = WITHOUT_DISTANCE[model]
    both = evaluation.has(split, model) and evaluation.has(split, other)
    return evaluation.difference(split, other, model) if both else None


def is_only_popularity(evaluation: Evaluated) -> bool:
    """Return whether the metric's gain over linear utilities does not carry over to new items."""
    if not {"pairs", "items"} <= set(evaluation.splits) or "linear" not in evaluation.models:
        return False
    saved = evaluation.saved
    metric = (
        saved
        if saved in SAVED and saved in evaluation.models
        else best_model(evaluation, "pairs", WITHOUT_ITEM_EFFECTS)
    )
    if metric not in WITHOUT_ITEM_EFFECTS:
        return False
    warm, cold = (evaluation.difference(split, metric, "linear") for split in ("pairs", "items"))
    return warm.is_clear and not cold.is_clear and cold.mean < 0.5 * warm.mean


# ------------------------------------------------------------------------------------------------ sentences


def findings(evaluation: Evaluated, *, no_distance: bool | None = None) -> list[str]:
    """Return the sentences: the verdict in short, then every split, then what to be careful about.

    `no_distance` says whether the crowd has no ideal points, where the reader knows better than this evaluation; None:
    as the evaluation says.
    """
    found = [worth for split in evaluation.splits if (worth := worth_of(evaluation, split))]
    unlike = has_no_ideal_points(evaluation) if no_distance is None else no_distance
    sentences = [headline(evaluation, found, no_distance=unlike)] if found else []
    if sentences and evaluation.saved in BASELINES:
        sentences[0] += f" The saved model has no learned metric ({evaluation.saved})."
    sentences += [_sentence(worth, evaluation.saved) for worth in found]
    gain = _without_a_distance(evaluation)
    if gain is not None and gain.is_clear:
        sentences.append(
            "Warning: do not read the metric as a distance: this crowd does not seem to have ideal points. A "
            f"quadratic that need not be a distance predicts better by {gain.mean:.4f} ± {gain.error:.4f} nats per "
            "answer."
        )
    if is_only_popularity(evaluation):
        sentences.append(
            "Warning: part of the metric may only reflect how popular items are: it improves predictions for items "
            f"that people have answered about, but not for new items.{_remedy_for_popularity(evaluation)}"
        )
    return sentences


def _remedy_for_popularity(evaluation: Evaluated) -> str:
    """Return the remedy, in a sentence after a blank, where it was tried and is one."""
    plain, beside = (best_model(evaluation, "items", names) for names in (WITHOUT_ITEM_EFFECTS, WITH_ITEM_EFFECTS))
    if plain is None or beside is None or not evaluation.difference("items", beside, plain).is_clear:
        return ""
    return f" A model with per-item effects ({beside}) predicts new items better."


def headline(evaluation: Evaluated, found: Sequence[Worth], *, no_distance: bool = False) -> str:
    """Return one plain sentence for all splits, that weighs whether a distance describes this crowd."""
    where = {
        outcome: _joined([worth.split for worth in found if worth.outcome == outcome])
        for outcome in ("better", "equal", "worse", "unclear")
    }
    what, without = "the learned metric" if evaluation.saved in LEARNED else "a learned metric", "models without it"
    claim, denial = f"{what} is worth using for prediction", f"{what} is not worth using for prediction"
    if _has_tastes(evaluation):  # in which the metric is one part of many, so that all of it is compared
        what, without, no_distance = "the saved model", "simpler models", False
        claim, denial = f"{what} predicts better than {without}", f"{what} predicts no better than {without}"
    rest = [
        text
        for outcome, text in (
            ("equal", f"for {where['equal']} it makes no difference that matters"),
            ("worse", f"for {where['worse']} {without} predict better"),
            ("unclear", f"for {where['unclear']} these answers cannot tell"),
        )
        if where[outcome]
    ]
    if not where["better"]:
        if not where["equal"] and not where["worse"]:
            return f"In short: these answers cannot tell whether {claim}."
        lead = f"these answers do not show that {claim}" if where["unclear"] else denial
        return f"In short: {lead}: {', '.join(rest)}."
    tail = f"; {', '.join(rest)}" if rest else ""
    if no_distance:
        return (
            f"In short: {what} helps to predict {where['better']}{tail}. But use it for predictions only, not as a "
            "distance: this crowd does not seem to have ideal points."
        )
    return f"In short: {what} is worth using for {where['better']}{tail}."


def _sentence(worth: Worth, saved: str | None) -> str:
    """Return what was found on one split."""
    against, alone = worth.against, worth.alone
    baseline = against.other
    model = f"the {'saved model' if against.model == saved else 'learned metric'} ({against.model})"
    text = {
        "better": f"{model} predicts better than every baseline, of which {baseline} is the best",
        "equal": f"{model} and {baseline}, the best baseline, predict equally well",
        "worse": f"{baseline}, the best baseline, predicts better than {model}",
        "unclear": f"these answers cannot tell whether {model} or {baseline}, the best baseline, predicts better",
    }[against.outcome]
    own = ""
    if alone is not None:
        same = alone.other == baseline
        own = f" The baseline {baseline} is the same model without the metric." if same else f" {_of_the_metric(alone)}"
    figures = f"{against.although} {against.figures}"
    figures = figures[:-1] + f"; {against.hidden})" if against.hidden else figures
    return f"{TITLES[worth.split]}: {text}{figures}.{own} Best in the table: {worth.best}."


def _of_the_metric(alone: Compared) -> str:
    text = {
        "better": f"The metric itself helps: without it ({alone.other}) the same model is worse",
        "equal": f"The metric itself adds nothing that matters: without it ({alone.other}) the same model is as good",
        "worse": f"The metric itself hurts: without it ({alone.other}) the same model is better",
        "unclear": "These answers cannot tell whether the metric itself helps, compared with the same model without it "
        f"({alone.other})",
    }[alone.outcome]
    return f"{text} {alone.figures}."


def _joined(splits: Sequence[str]) -> str:
    """Return 'new people and new items'."""
    names = [TITLES[split][0].lower() + TITLES[split][1:] for split in splits]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
