"""Which answers does a table hold? Recognized by the names of its columns, and said in one sentence."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from crowdmetric.errors import DataError
from crowdmetric.tables.answers import ALIASES, ANSWERS
from crowdmetric.tables.choice_columns import choice_shape, present_under, set_columns
from crowdmetric.tables.columns import listed
from crowdmetric.tables.judgement_columns import ALIASES as ALIASES_OF_JUDGEMENTS
from crowdmetric.tables.judgement_columns import has_answers, judgement_kind

__all__ = ["RecognizedAnswers", "recognize_answers"]


class RecognizedAnswers(NamedTuple):
    """What a table holds.

    Attributes
    ----------
    kind : {'comparisons', 'choices', 'ratings', 'judgements'}
        Which of `Comparisons`, `Choices`, `Ratings` and `Judgements` reads it.
    sentence : str
        How it is read.
    """

    kind: str
    sentence: str


def recognize_answers(columns: Collection[str]) -> RecognizedAnswers:
    """Return which answers a table with these columns holds; a table of none or of two kinds is refused.

    Examples
    --------
    >>> from crowdmetric.tables import recognize_answers
    >>> recognize_answers(["user", "a", "b", "c", "chosen"]).sentence
    "one row per question: the alternatives are in 'a', 'b', 'c', and 'chosen' names the first"
    """
    found = {
        kind: sentence
        for kind, sentence in (
            ("comparisons", _comparisons(columns)),
            ("choices", _choices(columns)),
            ("ratings", _ratings(columns)),
            ("judgements", _judgements(columns)),
        )
        if sentence
    }
    if len(found) > 1:
        both = "; ".join(f"{kind} ({sentence})" for kind, sentence in found.items())
        raise DataError(f"the table could hold {both}; leave the columns of all but one kind out, or rename them")
    if not found:
        raise DataError(
            f"the columns {listed(columns)} hold no answers that are known; expected left, right and choice "
            "(comparisons), user, question, item and chosen or user, a, b, c and chosen (choices), user, item and "
            "rating (ratings), or anchor, left, right and choice (judgements of similarity)"
        )
    return RecognizedAnswers(*next(iter(found.items())))


def _comparisons(columns: Collection[str]) -> str:
    if "winner" in columns and "loser" in columns:
        return "one row per answer: 'winner' was preferred to 'loser'"
    sides = [next((name for name in (side, *ALIASES[side]) if name in columns), None) for side in ("left", "right")]
    answer = next((name for name in ANSWERS if name in columns), None)
    if None in (*sides, answer) or judgement_kind(columns) == "triplet":
        return ""
    return f"one row per answer: {answer!r} says which of {sides[0]!r} and {sides[1]!r} was preferred"


def _choices(columns: Collection[str]) -> str:
    shape = choice_shape(columns)
    if shape is None:
        return ""
    said = {
        "chosen": "is 1 for the first" if shape == "long" else "names the first",
        "choice": "is 1 for the first",
        "rank": "is 1 for the best",
        "best": "is 1 for the best" if shape == "long" else "names the best",
        "worst": "is 1 for the worst" if shape == "long" else "names the worst",
        "best_worst": "is 1 for the best and −1 for the worst",
        "ranking": "lists the best first",
    }
    answers = [f"{name!r} {said[known]}" for known in said for name in present_under(columns, known)]
    if shape == "long":
        names = [present_under(columns, name)[0] for name in ("question", "item")]
        where = f"one row per alternative: the {names[1]!r}s of one {names[0]!r} of a person are a set"
    else:
        sets = set_columns(columns) or ["shown"]
        where = f"one row per question: the alternatives are in {listed(sets)}"
        where = where if sets[0] in columns else "one row per question: all that are ranked are the set"
    return ", and ".join([where, *answers])


def _ratings(columns: Collection[str]) -> str:
    item = present_under(columns, "item")
    return f"one row per rating: a higher 'rating' of {item[0]!r} is better" if item and "rating" in columns else ""


def _judgements(columns: Collection[str]) -> str:
    kind = judgement_kind(columns)
    sides = any(name in columns for name in ("left", *ALIASES_OF_JUDGEMENTS["left"]))
    if kind is None or not (has_answers(columns) or (kind == "triplet" and sides)):
        return ""
    return f"one row per judgement of similarity: {kind.replace('_', ' ')}"
