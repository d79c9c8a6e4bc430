"""Where answers carry no claim: why nothing is claimed, what would tell, and a page of one screen that says so.

Nothing is quoted, ranked or put into a headline where

- the verdict on hidden answers is "cannot tell" for every question that was asked of them;
- fewer than ten people answered;
- features follow from each other exactly, so that no answers say which of them matters.

What would tell is the number of people with whose hidden answers the differences that were seen would be clear, or
clearly too small to matter (`Difference.people_to_tell`), and the number with which the metric is known
(`crowdmetric.design`).
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.design import design
from crowdmetric.errors import CrowdmetricError
from crowdmetric.evaluate import Evaluation
from crowdmetric.evaluate.verdict import FEWEST_PEOPLE, cannot_tell, findings, worth_of
from crowdmetric.identifiability.relations import Relation
from crowdmetric.persist import SavedModel
from crowdmetric.report.page_parts import as_sentence, list_of

__all__ = [
    "PLAN",
    "TARGET",
    "folded",
    "one_screen",
    "rounded",
    "what_would_tell",
    "why_not_identified",
    "why_withheld",
]

# Error of the metric for which people are planned, and limits beyond which planning would take longer than a fit: the
# maximum number of features, of items (more are drawn from) and of answers per person.
TARGET, MOST_FEATURES, MOST_ITEMS, MOST_ANSWERS = 0.2, 10, 40, 10
# The number of people whose questions are planned, of whose error follows how many it takes, and the maximum that is
# worth a word.
PLANNED, MOST_PEOPLE = 200, 1_000_000
PLAN = "`crowdmetric plan` says how many people another error takes, and `crowdmetric design` what to ask whom."


def why_withheld(
    comparisons: Comparisons, evaluation: Evaluation | None = None, relations: Sequence[Relation] = ()
) -> list[str]:
    """Return why nothing may be claimed of a model, in sentences; none where answers carry a claim."""
    texts = why_not_identified(relations)
    people = np.unique(comparisons.user).size
    if people < FEWEST_PEOPLE:
        who = "1 person" if people == 1 else f"{people} people"
        texts.append(
            f"Only {who} answered: with fewer than {FEWEST_PEOPLE}, what is found may hold for them alone, and hidden "
            "answers cannot tell how well others are predicted."
        )
    elif evaluation is not None and cannot_tell(evaluation):
        texts.append(as_sentence(findings(evaluation)[0].removeprefix("In short: ")))
    return texts


def what_would_tell(
    model: SavedModel, comparisons: Comparisons | None, evaluation: Evaluation | None = None
) -> list[str]:
    """Return how many more answers of which kind would tell, in sentences."""
    if comparisons is None or model.items is None:
        return [PLAN]
    people = max(np.unique(comparisons.user).size, 1)
    each = max(round(comparisons.n_answers / people), 1)
    texts = []
    if comparisons.is_cut:
        texts.append(
            "Ask this one or that one, one pair at a time: pairs that are cut from choices, rankings or ratings are "
            "no answers of their own."
        )
    needed = None if evaluation is None or people < FEWEST_PEOPLE else _people_to_tell(evaluation, people)
    if needed is not None and needed > people:
        texts.append(
            f"About {rounded(needed):,} people with {_answers(each)} each, now {people:,}, "
            "would tell whether a learned metric is worth using, if they differ as those who answered."
        )
    texts += _planned(model.items, each)
    if not texts:
        texts = [f"Ask more people, {FEWEST_PEOPLE} at least, and each the same number of pairs drawn at random."]
    return [*texts, PLAN]


def why_not_identified(relations: Sequence[Relation]) -> list[str]:
    """Return which features follow from others, so that no answers say which of them matters, in sentences."""
    return [
        f"{as_sentence(relation.sentence)[:-1]}, and fit again. No answers can say which of them matters."
        for relation in relations
        if relation.leaves_open
    ]


def _people_to_tell(evaluation: Evaluation, people: int) -> int | None:
    """Return with how many people the verdict on one of the questions would be clear."""
    found = []
    for split in evaluation.splits:
        worth = worth_of(evaluation, split)
        if worth is None or not worth.against.likelihood.people:
            continue
        hidden = worth.against.likelihood.people
        each = [c.likelihood.people_to_tell() for c in (worth.against, worth.alone) if c is not None]
        found.append(max(inf if n is None else n for n in each) * people / hidden)
    least = min(found, default=inf)
    return None if least == inf else round(least)


def _planned(items: NDArray[np.float64], each: int) -> list[str]:
    """Return how many people it takes to know the metric, asked at random."""
    X = np.unique(items, axis=0)
    each = min(each, MOST_ANSWERS)
    if X.shape[1] > MOST_FEATURES or len(X) < 3:
        return []
    if len(X) > MOST_ITEMS:
        X = X[np.random.default_rng(0).choice(len(X), MOST_ITEMS, replace=False)]
    spread = X.std(axis=0)
    try:
        ask = design(X / np.where(spread > 0, spread, 1.0), people=PLANNED, answers=each, kind="random")
    except CrowdmetricError:
        return []
    # errors fall with the root of the number of people
    needed = PLANNED * (ask.expected_error / TARGET) ** 2
    if not needed <= MOST_PEOPLE:
        return []
    people = rounded(max(round(needed), FEWEST_PEOPLE))
    return [
        f"To know the metric within {TARGET:.0%} takes about {people:,} people with {_answers(each)} each to "
        "pairs drawn at random, and fewer if `crowdmetric design` chooses the pairs."
    ]


def _answers(each: int) -> str:
    return "1 answer" if each == 1 else f"{each:,} answers"


def rounded(count: int) -> int:
    """Return a number of people with two digits that mean something."""
    return int(float(f"{count:.2g}"))


def one_screen(reasons: Sequence[str], advice: Sequence[str]) -> str:
    """Return the section of a page that claims nothing: why, and what would tell."""
    return (
        f'<section class="lead"><h2>These answers do not carry a claim yet</h2>{list_of(reasons)}</section>'
        f"<section><h2>What would tell</h2>{list_of(advice)}</section>"
    )


def folded(title: str, sections: Sequence[str]) -> str:
    """Return sections behind a line that opens them; nothing where there are none."""
    inside = "".join(sections)
    return f"<details><summary>{html.escape(title)}</summary>{inside}</details>" if inside else ""
