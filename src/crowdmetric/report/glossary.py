"""What the words of the report mean: explained at its end, and linked from the heads of its tables."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

__all__ = ["WORDS", "linked", "words_section"]

# Heads of tables, models and other words of the page.
WORDS = {
    "accuracy": "The share of hidden answers that a model predicted right. A coin gets 50 %.",
    "90 % interval": "A range that contains the true value in 90 of 100 studies like this one, if the model holds.",
    "calibration slope": (
        "1 if probabilities mean what they say: of the answers predicted with 80 %, 80 % come true. Below 1, a model "
        "is too sure of itself; above 1, it could be surer."
    ),
    "direction": "A mixture of features along which items differ.",
    "log-likelihood per answer": (
        "How well a model predicted answers it had not seen, per answer. −0.69 is a coin; zero is certainty and always "
        "right."
    ),
    "log-loss": "The log-likelihood per answer with its sign turned: lower is better, and 0.69 is a coin.",
    "metric": "The matrix that says how much each feature, and each pair of features, counts in a distance.",
    "nat": "The unit of log-likelihood. 0.01 more per answer is a small gain, 0.1 a large one.",
    "90 %": "A 90 % interval: it contains the true value in 90 of 100 studies like this one, if the model holds.",
    "differ": "The part of what moves choices that a feature has because people differ in what they want of it.",
    "less → more": (
        "Two values of a feature that exist and are compared: the 10th and the 90th percentile over the items, or the "
        "least and the largest value where those are equal."
    ),
    "log-odds": "The same as 'of 100', on a scale without ends: 0 is 50 of 100, 1 is 73, −1 is 27, 2 is 88.",
    "of 100": (
        "How many of 100 people choose the item with more of the feature over the same item with less, as the model "
        "predicts on average over people and items."
    ),
    "share": "The part of what moves choices that is due to a feature. All shares add up to 100 %.",
    "strength": "How much a difference along a direction counts in the distance. 1 is the mean of all directions.",
    "weight": "The part of the squared distance that is due to a feature, if items differ by one spread in each.",
    # models
    "bradley-terry": "How popular each item is, whatever its features.",
    "quadratic": "One utility of the features, which may bend, for everybody: people do not differ.",
    "linear": "Everybody wants more or less of each feature, and people differ in how much. No metric.",
    "mixed": "The same as linear-items, with one variance each for items, features and people.",
    "linear-items": "linear, and each item may be liked more or less than its features explain.",
    "identity": "People have ideal points; the distance is Euclidean, not learned.",
    "population": "People have ideal points under a learned metric, and differ as much in every direction.",
    "population-free": "People have ideal points under a learned metric, and may differ more in some directions.",
    "population-items": "population-free, and each item may be liked more or less than its features explain.",
    "population-items-isotropic": "population, and each item may be liked more or less than its features explain.",
    "symmetric": "Like population-free, but what is learned need not be a distance: people may like extremes.",
    "symmetric-items": "symmetric, and each item may be liked more or less than its features explain.",
    "smooth": "People have smooth tastes that need not have one best point.",
    "ideal-point": "Everybody's ideal point is found, within a bound, together with one metric.",
    "stitched": "One small metric per subspace of the items, put together to one.",
    "euclid": "Euclidean distance of the features, not learned.",
    "diagonal": "A learned weight for each feature.",
    "full": "A learned weight for each feature and each pair of features.",
    "chosen": "The kind of metric that predicts judgements about new items best.",
    "own": "A learned metric for every person.",
    "embedding": "A place for every item, learned from the judgements alone: no features.",
}


def linked(head: str) -> str:
    """Return the head of a column, linked to what it means where that is explained."""
    return f'<a href="#{_anchor(head)}">{html.escape(head)}</a>' if head in WORDS else html.escape(head)


def words_section(models: Sequence[str], *, sections: str) -> str:
    """Return what the words mean that the other sections of the page link to or that name one of these models."""
    used = [word for word in WORDS if f'href="#{_anchor(word)}"' in sections or word in models]
    if re.search(r"\bnats\b", sections):
        used.append("nat")
    rows = "".join(
        f'<dt id="{_anchor(word)}">{html.escape(word)}</dt><dd>{html.escape(WORDS[word])}</dd>' for word in used
    )
    return f"<section><h2>What the words mean</h2><dl>{rows}</dl></section>" if rows else ""


def _anchor(word: str) -> str:
    return "word-" + re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-")
