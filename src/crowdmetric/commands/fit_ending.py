"""How crowdmetric fit ends: what moves choices, how much better than a baseline, cautions, and where to read on."""

from __future__ import annotations

import json
import textwrap
from argparse import Namespace
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from crowdmetric.choice import QUESTIONS
from crowdmetric.comparisons import Comparisons
from crowdmetric.evaluate import Evaluation
from crowdmetric.evaluate.models import BASELINES, LEARNED
from crowdmetric.evaluate.splits import TITLES
from crowdmetric.evaluate.verdict import Compared, best_model
from crowdmetric.identifiability import Diagnosis
from crowdmetric.identifiability.relations import Relation
from crowdmetric.persist import REPORT, SavedModel
from crowdmetric.report.warnings import warnings_of, worth_using
from crowdmetric.summary import fit_in_numbers, table_of

__all__ = ["gains_of", "print_ending"]

WIDTH = 100
OUTCOMES = {
    "better": "the model's probabilities are better",
    "equal": "the model's probabilities are equally good",
    "worse": "the model's probabilities are worse",
    "unclear": "these answers cannot tell which is better",
}


def print_ending(
    options: Namespace,
    model: SavedModel,
    *,
    comparisons: Comparisons | None = None,
    diagnosis: Diagnosis | None = None,
    evaluation: Evaluation | None = None,
    relations: Sequence[Relation] = (),
    advice: Sequence[str] = (),
    worth: Sequence[str] | None = None,
    careful: Sequence[str] | None = None,
) -> None:
    """Print what matters about a model that was just saved, as text or as one JSON object.

    Parameters
    ----------
    options : Namespace
        With `out`, `json` and, where that was asked, `for`: the question that the model is for.
    model : SavedModel
        Of any estimator.
    comparisons, diagnosis, evaluation : optional
        What the model was fitted to, what that can teach, and how well hidden answers are predicted.
    relations : sequence of Relation
        Features that follow from others.
    advice : sequence of str
        What would tell more, where nothing is claimed of the model.
    worth : sequence of str, optional
        Whether the metric is worth using; None: what follows from the evaluation.
    careful : sequence of str, optional
        What to be careful about; None: what follows from all of these.
    """
    withheld = model.description.get("withheld", [])
    table = table_of(model)
    gains = [] if evaluation is None else gains_of(evaluation, getattr(options, "for", None))
    careful = warnings_of(model, diagnosis, evaluation, comparisons, relations) if careful is None else careful
    page = Path(options.out) / REPORT
    report = page if page.is_file() else None
    if options.json:
        record = _record(options, model, gains, careful, advice, report)
        print(json.dumps(record, ensure_ascii=False, allow_nan=False))
        return
    worth = worth_using(model, evaluation)[:1] if worth is None else worth
    claims = [
        "" if table is None else table.summary(),
        _lines([*worth, *(f"- {_in_words(gain)}" for gain in gains)]),
    ]
    if withheld:
        claims = [
            _lines(["These answers do not carry a claim yet:", *(f"- {text}" for text in withheld)]),
            _lines(["What would tell:", *(f"- {text.replace('`', '')}" for text in advice)]) if advice else "",
        ]
    sections = [
        *claims,
        _lines(["Be careful:", *(f"- {text}" for text in careful)]) if careful else "",
        fit_in_numbers(model),
        f"Model: {options.out}" if report is None else f"Report: {report}",
    ]
    print("\n\n".join(filter(None, sections)))


def gains_of(evaluation: Evaluation, question: str | None) -> list[Compared]:
    """Return the saved model beside the best baseline, for the question that matters or for all."""
    found, saved = [], evaluation.saved
    for split in (split for split in QUESTIONS[question or "all"] if split in evaluation.splits):
        model = saved if saved in evaluation.models else best_model(evaluation, split, LEARNED)
        baseline = best_model(evaluation, split, [name for name in BASELINES if name != model])
        if model is not None and baseline is not None:
            found.append(Compared.of(evaluation, split, model, baseline))
    return found


def _in_words(gain: Compared) -> str:
    """Return a gain for people who do not ask for log-likelihoods; those are in the report and in --json."""
    title, points = TITLES.get(gain.split, gain.split), 100 * gain.accuracy.mean
    seen = f"; {gain.hidden}" if gain.hidden else ""
    return (
        f"{title}: {points:+z.1f} points of accuracy over {gain.other}, the best baseline "
        f"({OUTCOMES[gain.outcome]}{seen})"
    )


def _lines(texts: Sequence[str]) -> str:
    """Return paragraphs and items of a list, wrapped."""
    return "\n".join(
        textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for text in texts
    )


def _record(
    options: Namespace,
    model: SavedModel,
    gains: Sequence[Compared],
    careful: Sequence[str],
    advice: Sequence[str],
    report: Path | None,
) -> dict[str, Any]:
    """Return the same for JSON."""
    return {
        "model": options.out,
        **model.to_dict(),
        "against_best_baseline": [
            {
                "question": gain.split,
                "model": gain.model,
                "baseline": gain.other,
                "log_likelihood": gain.likelihood.mean,
                "error": gain.likelihood.error if isfinite(gain.likelihood.error) else None,  # few people have none
                "accuracy": gain.accuracy.mean,
                "outcome": gain.outcome,
                "hidden_answers": gain.likelihood.answers,
                "hidden_people": gain.likelihood.people,
            }
            for gain in gains
        ],
        "cautions": list(careful),
        "what_would_tell": list(advice),
        "report": None if report is None else str(report),
    }
