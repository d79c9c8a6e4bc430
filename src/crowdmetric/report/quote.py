"""Sentences to quote without having read the report: who was asked, what counts, what it is worth."""

from __future__ import annotations

import html
from itertools import islice

from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.evaluate import Evaluation
from crowdmetric.evaluate.verdict import best_model, hidden_answers, worth_of
from crowdmetric.importance import as_percent, feature_importance, is_cut
from crowdmetric.persist import SavedModel

__all__ = ["quotable", "quote_section"]

# Plain words for what was hidden; the first split of which the answers tell is quoted.
HIDDEN = {
    "pairs": "new choices of the same people",
    "people": "choices of new people",
    "items": "choices about new items",
}
# What the best model without a learned metric is, in plain words.
WITHOUT = {
    "bradley-terry": "by how popular items are",
    "linear": "by tastes for more or less of each feature",
    "mixed": "by tastes for more or less of each feature, and how popular items are",
    "linear-items": "by tastes for more or less of each feature, and how popular items are",
    "quadratic": "by one taste for everybody",
    "identity": "by plain Euclidean distance",
}


def quotable(
    model: SavedModel, evaluation: Evaluation | None = None, comparisons: Comparisons | None = None
) -> list[str]:
    """Return who was asked, what counts most, and how many of 100 hidden choices the saved model predicts.

    Nothing where the model's claims are withheld (`crowdmetric.report.withheld`), nor of pairs that were cut from
    something else. Of predictions, the first question of which hidden answers can tell.
    """
    if model.description.get("withheld") or is_cut(model):
        return []
    data = model.description["data"]
    texts = []
    if "people" in data and "answers" in data:
        about = f" about {data['items']:,} items" if "items" in data else ""
        texts.append(f"{data['people']:,} people gave {data['answers']:,} answers{about}.")
    texts += _what_counts(model)
    saved = None if evaluation is None else evaluation.saved
    if evaluation is None or saved not in evaluation.models:
        return texts
    told = (name for name in HIDDEN if name in evaluation.splits and _tells(evaluation, name))
    for split in islice(told, 1):
        right = _of_100(evaluation, split, str(saved))
        others = [name for name in WITHOUT if name in evaluation.models and name != saved]
        best = best_model(evaluation, split, others)  # the one that all other sentences are about
        compared = "a coin gets 50"
        if best is not None:
            compared = (
                f"the best prediction without a learned metric, {WITHOUT[best]}: {_of_100(evaluation, split, best)}"
            )
        seen = "; ".join(filter(None, [compared, hidden_answers(evaluation, split)]))
        texts.append(f"Of 100 {HIDDEN[split]}, the model predicts {right} ({seen}).")
    return texts


def _tells(evaluation: Evaluation, split: str) -> bool:
    """Return whether hidden answers tell what a metric is worth for a question."""
    worth = worth_of(evaluation, split)
    return worth is not None and worth.outcome != "unclear"


def _of_100(evaluation: Evaluation, split: str, model: str) -> int:
    return round(100 * evaluation.mean(split, model, "accuracy"))


def _what_counts(model: SavedModel) -> list[str]:
    """Return a sentence on the two features that move choices most; none where the model does not tell."""
    if model.description["estimator"] == "TasteMetric" or model.items is None:
        return []
    try:
        found = feature_importance(model)
    except DataError:
        return []
    if found.hardly_tells:
        return ["These answers hardly tell what moves their choices."]
    then = "".join(
        f", then {found.names[j]} ({as_percent(found.shares[j])})" for j in found.order[1:2] if found.shares[j] > 0.01
    )
    return [f"What moves their choices most is {found.leader}{then}."]


def quote_section(model: SavedModel, evaluation: Evaluation | None, comparisons: Comparisons | None) -> str:
    """Return the section to quote; empty if there is nothing to say."""
    texts = quotable(model, evaluation, comparisons)
    return (
        f"<section><h2>To quote</h2><blockquote>{html.escape(' '.join(texts))}</blockquote></section>" if texts else ""
    )
