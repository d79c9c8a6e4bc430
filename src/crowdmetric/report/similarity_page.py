"""The report on a metric that was learned from similarity judgements, as one HTML page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crowdmetric.coefficients import coefficients_of
from crowdmetric.errors import DataError
from crowdmetric.evaluate.similarity_evaluation import SIMILARITY_SPLITS, SimilarityEvaluation, looks_ranked
from crowdmetric.identifiability.judgement_diagnosis import JudgementDiagnosis
from crowdmetric.judgements import Judgements
from crowdmetric.persist import SavedModel
from crowdmetric.report.directions import find_directions
from crowdmetric.report.page_parts import list_of, table_of, whole_page
from crowdmetric.report.shared_sections import (
    called,
    choices_section,
    details_section,
    directions_section,
    identifiability_section,
    items_sections,
    most_asked,
    summary_section,
)
from crowdmetric.report.warnings import warnings_of
from crowdmetric.tables import matched

__all__ = ["cautions_of_similarity", "similarity_page", "worth_of_similarity"]

# The reader is warned if the lapse rate, or the share of the metric by which people differ, is above this.
CARELESS = 0.1
HIDDEN = {"items": "new items", "questions": "new questions", "people": "new people"}
METRIC = "This is the metric itself: what counts when people judge how similar two items are."
LINKS = {
    "squared": "People are taken to compare squared distances.",
    "distance": "People are taken to compare distances, not their squares; the fit is then not certified.",
}


def similarity_page(
    model: SavedModel,
    judgements: Judgements,
    *,
    diagnosis: JudgementDiagnosis | None = None,
    evaluation: SimilarityEvaluation | None = None,
    item_names: Sequence[str | None] | NDArray[np.object_] | None = None,
    item_images: Sequence[Path | None] | None = None,
    files: Sequence[str] = (),
    date: str = "",
) -> str:
    """Return the report on a similarity metric as one HTML page.

    Parameters
    ----------
    model : SavedModel
        Of a `SimilarityMetric`, with its items.
    judgements : Judgements
        What it was fitted to.
    diagnosis : JudgementDiagnosis, optional
        Of the same judgements.
    evaluation : SimilarityEvaluation, optional
        How well models predict hidden judgements.
    item_names : (N,) str or None, optional
        What to call the items; None: by their ids.
    item_images : (N,) Path or None, optional
        Files with pictures of the items; small copies of those on the map become part of the page.
    files : sequence of str
        The tables that the model was fitted to, by name.
    date : str
        When that was.
    """
    if model.items is None:
        raise DataError("the model was fitted to vectors and has no items; a report needs SimilarityMetric(items=…)")
    judgements = matched(judgements, model.named_ids, len(model.items))
    shown = most_asked(judgements.items.ravel(), len(model.item_ids))
    worth = worth_of_similarity(model, evaluation)
    if evaluation is not None:
        worth += evaluation.findings()
    found = find_directions(model, model.items)
    models = [] if evaluation is None else list(dict.fromkeys(result.model for result in evaluation.results))
    return whole_page(
        [
            summary_section(model, worth, cautions_of_similarity(model, judgements, diagnosis), files, date),
            _quote(model, worth[0] if evaluation is not None else ""),
            directions_section(found, model.feature_names, model.items, METRIC),
            _prediction(evaluation),
            *items_sections(model, shown, called(model, item_names), item_images),
            "" if diagnosis is None else identifiability_section(diagnosis.summary()),
            choices_section(_choices(model)),
            details_section(model),
        ],
        models,
    )


def worth_of_similarity(model: SavedModel, evaluation: SimilarityEvaluation | None) -> list[str]:
    """Return in one sentence whether the metric predicts hidden judgements better than Euclidean distance does.

    Of the questions that its structure was chosen for.
    """
    if evaluation is None:
        return ["That was not measured: no judgements were hidden. `crowdmetric evaluate` measures it."]
    models = {result.model for result in evaluation.results}
    if not {"chosen", "euclid"} <= models:
        return [f"That was not measured. {' '.join(evaluation.left_out)}"]
    splits = [name for name in SIMILARITY_SPLITS if any(result.split == name for result in evaluation.results)]
    wanted = model.description["parameters"].get("left_out", "items")
    split = wanted if wanted in splits else splits[0]
    learned, plain = (evaluation.result(split, model) for model in ("chosen", "euclid"))
    gain, error = evaluation.difference(split, "euclid", "chosen")
    about = HIDDEN[split]
    if gain > 2 * error:
        verdict = f"The learned metric is worth using for {about}"
    elif gain < -2 * error:
        verdict = f"The learned metric is worse than plain Euclidean distance for {about}"
    else:
        verdict = f"These judgements cannot tell whether a learned metric is worth using for {about}"
    counts = f"of 100 hidden judgements it predicts {100 * learned.accuracy:.0f}"
    return [f"{verdict}: {counts}, plain Euclidean distance {100 * plain.accuracy:.0f}."]


def _quote(model: SavedModel, worth: str) -> str:
    """Return sentences for somebody who has not read the page: who judged, what counts, what it is worth."""
    data = model.description["data"]
    texts = [
        f"{data['answers']:,} judgements of how similar items are were collected." if "answers" in data else "",
        coefficients_of(model).headline,
        worth,
    ]
    quoted = html.escape(" ".join(filter(None, texts)))
    return f"<section><h2>To quote</h2><blockquote>{quoted}</blockquote></section>"


def cautions_of_similarity(
    model: SavedModel, judgements: Judgements, diagnosis: JudgementDiagnosis | None
) -> list[str]:
    """Return what a reader should be careful about."""
    texts = []
    assert judgements.checks is not None
    lapse = max(float(model.fitted.get("lapse_", 0.0)), float(np.nan_to_num(judgements.checks.lapse_rate)))
    if lapse > CARELESS:
        texts.append(f"About {100 * lapse:.0f} % of the answers look as if given without looking.")
    if diagnosis is not None and not diagnosis.identified:
        texts.append(
            f"The judgements say nothing about {diagnosis.dimensions - diagnosis.rank:,} of the "
            f"{diagnosis.dimensions:,} degrees of freedom of the metric; what is shown there is a convention."
        )
    if looks_ranked(judgements):
        texts.append("The judgements look cut from rankings: they are not independent, so intervals are too narrow.")
    if "metric_draws_" not in model.fitted:
        texts.append("There are no intervals: no standard errors were computed.")
    return texts + warnings_of(model, None)


def _choices(model: SavedModel) -> list[str]:
    status = str(model.description["solution"]["status"])
    texts = [f"{part.strip()}." for part in status.rstrip(".").split(". ") if part.strip() not in ("Solved", "")]
    texts += [f"Tried: {text} nats per answer about items left out." for text in model.fitted.get("candidates_", [])]
    return [*texts, LINKS[str(model.fitted["link_"])]]


def _prediction(evaluation: SimilarityEvaluation | None) -> str:
    if evaluation is None:
        return ""
    parts = []
    for split in dict.fromkeys(result.split for result in evaluation.results):
        rows = [
            [
                r.model,
                f"{100 * r.accuracy:.1f} ± {100 * r.accuracy_error:.1f} %",
                f"{r.log_loss:.4f} ± {r.log_loss_error:.4f}",
            ]
            for r in evaluation.results
            if r.split == split
        ]
        parts.append(f"<h3>{SIMILARITY_SPLITS[split]}</h3>{table_of(['model', 'accuracy', 'log-loss'], rows, (1, 2))}")
    return (
        "<section><h2>How well it predicts</h2><p>Judgements were hidden, and every model predicted them. New items is "
        "the figure to quote: questions about at least one item that the model had not seen. The saved metric is "
        "<i>chosen</i>, or <i>own</i> if everybody has a metric of their own; what the others are stands at the end "
        f"of the page.</p>{''.join(parts)}"
        f"{list_of(evaluation.notes)}</section>"
    )
