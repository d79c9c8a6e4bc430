"""The report as one HTML page that asks no server for anything. All text of the user's is escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crowdmetric.coefficients import coefficients_of
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.evaluate import Evaluation
from crowdmetric.evaluate.scores import plus_minus
from crowdmetric.evaluate.splits import TITLES
from crowdmetric.evaluate.verdict import best_model, hidden_answers, worth_of_metric
from crowdmetric.identifiability import Diagnosis
from crowdmetric.identifiability.relations import Relation
from crowdmetric.importance import as_percent, feature_importance, is_cut
from crowdmetric.persist import SavedModel
from crowdmetric.report.directions import find_directions
from crowdmetric.report.page_parts import (
    as_html,
    as_sentence,
    list_of,
    picture_of,
    table_of,
    whole_page,
)
from crowdmetric.report.pictures import (
    evaluation_picture,
    taste_map_picture,
    tastes_picture,
)
from crowdmetric.report.quote import quote_section
from crowdmetric.report.shared_sections import (
    called,
    careful_section,
    choices_section,
    details_section,
    directions_section,
    header_section,
    identifiability_section,
    items_sections,
    most_asked,
    summary_section,
)
from crowdmetric.report.warnings import warnings_of, worth_using
from crowdmetric.report.withheld import folded, one_screen, what_would_tell, why_withheld
from crowdmetric.tables import matched
from crowdmetric.tastes import HALF, find_tastes

__all__ = ["report_page"]

Array = NDArray[np.float64]

SHOWN_IMPORTANT = 12
# What the metric is, for people with ideal points and for people with tastes.
METRIC_OF_PREFERENCES = (
    "This is the metric itself. Tastes for more or less of a feature do not show in it: see what moves choices, above."
)
METRIC_OF_TASTES = (
    "This is the metric inside the tastes: two items are close if the same people like them. Nobody needs an ideal "
    "point for that."
)
OUTCOMES = {"better": "better", "equal": "equally good", "worse": "worse", "unclear": "cannot tell"}


def report_page(
    model: SavedModel,
    *,
    comparisons: Comparisons | None = None,
    diagnosis: Diagnosis | None = None,
    evaluation: Evaluation | None = None,
    choices: Sequence[str] = (),
    suggestion: str = "",
    advice: Sequence[str] = (),
    relations: Sequence[Relation] = (),
    item_names: Sequence[str | None] | NDArray[np.object_] | None = None,
    item_images: Sequence[Path | None] | None = None,
    files: Sequence[str] = (),
    date: str = "",
) -> str:
    """Return the report on a model as one HTML page.

    Parameters
    ----------
    model : SavedModel
        With its items.
    comparisons : Comparisons, optional
        What it was fitted to: the items most asked about are the ones shown.
    diagnosis : Diagnosis, optional
        Of the same answers; without it nothing is said about identifiability.
    evaluation : crowdmetric.evaluate.Evaluation, optional
        How well models predict hidden answers. Where it knows which of them was saved (`Evaluation.of_saved`), tables
        mark that one and sentences are about it.
    choices : sequence of str
        What was chosen and why, one sentence each.
    suggestion : str
        Another way that suits the data better.
    advice : sequence of str
        What would tell more, where the answers carry no claim (`crowdmetric.report.withheld`); empty: it is found.
    relations : sequence of Relation, optional
        Features that follow from others.
    item_names : (N,) str or None, optional
        What to call the items; None: by their ids.
    item_images : (N,) Path or None, optional
        Files with pictures of the items; small copies of those on the map become part of the page.
    files : sequence of str
        The tables that the model was fitted to, by name.
    date : str
        When that was.

    Examples
    --------
    >>> from crowdmetric.report import report_page
    >>> import tempfile
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.persist import load_model, save_model
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=300, comparisons=3, seed=0)
    >>> fitted = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> model = save_model(tempfile.mkdtemp(), fitted)
    >>> report_page(model).startswith("<!doctype html>")
    True
    """
    if model.items is None:
        raise DataError("the model was fitted to vectors and has no items; a report needs PopulationMetric(items=…)")
    if comparisons is not None:
        comparisons = matched(comparisons, model.named_ids, len(model.items))
    careful = warnings_of(model, diagnosis, evaluation, comparisons, relations)
    careful += [as_sentence(suggestion)] if suggestion else []
    withheld = model.description.get("withheld") or (
        [] if comparisons is None else why_withheld(comparisons, evaluation, relations)
    )
    if withheld:
        sections = [
            header_section(model, files, date),
            one_screen(withheld, advice or what_would_tell(model, comparisons, evaluation)),
            careful_section(careful),
            folded("What was measured", [_prediction(evaluation)]),
            choices_section(choices),
            details_section(model),
        ]
        return whole_page(sections, () if evaluation is None else evaluation.models)
    sections = [
        summary_section(model, worth_using(model, evaluation), careful, files, date),
        quote_section(model, evaluation, comparisons),
        _tastes(model) if model.description["estimator"] == "TasteMetric" else _importance(model),
        *_metric(model, comparisons, item_names, item_images, _prediction(evaluation)),
        "" if diagnosis is None else identifiability_section(diagnosis.summary()),
        choices_section(choices),
        details_section(model),
    ]
    return whole_page(sections, () if evaluation is None else evaluation.models)


# ------------------------------------------------------------------------------------------------- sections


def _importance(model: SavedModel) -> str:
    try:
        found = feature_importance(model)
    except DataError as error:
        return f"<section><h2>What moves choices</h2><p>{as_html(as_sentence(str(error)))}</p></section>"
    order = found.order[:SHOWN_IMPORTANT]
    columns = [["feature", *(found.names[j] for j in order)], *coefficients_of(model).printed(SHOWN_IMPORTANT)]
    for title, part in (("all want more or less", found.steady), ("all want a middle", found.bent)):
        columns.append([title, *(as_percent(part[j]) for j in order)])
    head, *rows = (list(row) for row in zip(*columns, strict=True))
    left = found.shares[found.order[SHOWN_IMPORTANT:]]
    if left.size:
        rows.append([f"{left.size} other features", as_percent(left.sum()), *([""] * (len(head) - 2))])
    if model.fitted.get("item_effects_") is not None:
        name = "the items themselves, beyond their features"
        rows.append([name, as_percent(found.item_share), *([""] * (len(head) - 2))])
    explained = (
        "How much each feature moves people's choices between the two items of a question, as a share of what all of "
        "them do (mean squares); shares add up to 100 %. Two values of the feature are compared, less and more: so "
        "many of 100 people choose the item with more over the same item with less, as the model predicts on average "
        "over people and items, with the other features as they are; log-odds say the same. "
        f"{'Two' if is_cut(model) else 'Three'} columns say how a share arises: "
        f"{'' if is_cut(model) else 'people differ; '}"
        "everybody wants more of a feature, or everybody less; everybody wants a middle, which is what a metric "
        f"shows. {found.covers}"
    )
    if found.left_out:
        explained += f" Left out, as all items asked about are alike in them: {', '.join(found.left_out)}."
    return (
        f"<section><h2>What moves choices</h2><p>{as_html(found.sentence())}</p>"
        f"{table_of(head, rows, range(1, len(head)))}"
        f'<p class="small">{html.escape(explained)}</p></section>'
    )


def _tastes(model: SavedModel) -> str:
    """Return what smooth tastes look like: a table, the utility along each feature, and a map."""
    found = find_tastes(model)
    if is_cut(model):  # no bands, and nothing on how people differ
        rows = [[str(k + 1), name, as_percent(found.crowd[k]), found.words(k)] for k, name in enumerate(found.names)]
        table = table_of(["", "feature", "the crowd's taste", "the crowd likes"], rows, (2,))
        return f"<section><h2>What moves choices</h2>{table}</section>"
    rows = [
        [str(place + 1), name, as_percent(found.crowd[place]), as_percent(found.people[place]), found.words(place)]
        for place, name in enumerate(found.names)
    ]
    rows.append(
        ["", "single items, beyond features", as_percent(found.crowd_items), as_percent(found.people_items), ""]
    )
    explained = (
        "Shares of what moves choices (mean squares of utilities over the items), which add up to 100 %: what the "
        "crowd has in common, and what one person adds to it. Along each feature utilities are averaged over the "
        "items with their other features as they are. In the pictures utilities are log-odds: one more makes an item "
        "about 2.7 times as likely to be preferred; where answers look free of noise only their shape means something."
    )
    pictures = picture_of(
        lambda: tastes_picture(found),
        "The crowd's utility along each feature, numbered as in the table, with a 90 % band (dark) and the range in "
        "which 90 % of the people are (light).",
    )
    plane = found.map
    if plane is not None:
        pictures += picture_of(
            lambda: taste_map_picture(plane),
            "Islands of taste: the crowd's utility over features 1 and 2, the others at their means. Circles are "
            f"items. Small dots: not known to be above or below the mean ({HALF:.2f} standard errors).",
        )
    head = ["", "feature", "the crowd's taste", "people differ", "the crowd likes"]
    return (
        f"<section><h2>What moves choices</h2><p>{as_html(found.sentence())}</p>"
        f'{table_of(head, rows, (2, 3))}<p class="small">{html.escape(explained)}</p>'
        f'<div class="pictures">{pictures}</div></section>'
    )


def _metric(
    model: SavedModel,
    comparisons: Comparisons | None,
    names: Sequence[str | None] | NDArray[np.object_] | None,
    images: Sequence[Path | None] | None,
    prediction: str,
) -> list[str]:
    """Return the sections about the metric, or the sentence that there is none, and how well it predicts."""
    assert model.items is not None
    if not np.any(model.metric):
        said = (
            "There is none: the answers support no learned metric. In the saved model people have linear utilities, "
            "and no item is closer to another than its features say."
        )
        title = "How differences between items add up to a distance"
        return [f"<section><h2>{title}</h2><p>{said}</p></section>", prediction]
    found = find_directions(model, model.items)
    lead = METRIC_OF_TASTES if model.description["estimator"] == "TasteMetric" else METRIC_OF_PREFERENCES
    return [
        directions_section(found, model.feature_names, model.items, lead),
        prediction,
        *items_sections(model, _shown(model, comparisons), called(model, names), images),
    ]


def _shown(model: SavedModel, comparisons: Comparisons | None) -> NDArray[np.intp]:
    """Return the items to show: those most asked about, else the first."""
    asked = (
        np.zeros(0, dtype=np.int64) if comparisons is None else np.concatenate([comparisons.left, comparisons.right])
    )
    return most_asked(asked, len(model.item_ids))


def _prediction(evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return ""
    parts = []
    for split in evaluation.splits:
        rows = [
            [
                _marked(model, evaluation, best_model(evaluation, split)),
                f"{100 * evaluation.mean(split, model, 'accuracy'):.1f} %",
                plus_minus(evaluation.mean(split, model), evaluation.error(split, model)).replace("-", "−"),
                f"{evaluation.mean(split, model, 'calibration_slope'):.2f}",
            ]
            for model in evaluation.models
        ]
        head = ["model", "accuracy", "log-likelihood per answer", "calibration slope"]
        title = ": ".join(filter(None, [TITLES.get(split, split), hidden_answers(evaluation, split)]))
        picture = picture_of(
            partial(evaluation_picture, evaluation, split), f"{TITLES.get(split, split)}: better is to the right."
        )
        table = table_of(head, rows, (1, 2, 3), _row_of_saved(evaluation, evaluation.models))
        parts.append(f'<h3>{html.escape(title)}</h3><div class="pictures"><div>{table}</div>{picture}</div>')
    saved = (
        f"The saved model is {evaluation.saved}, fitted here without what was hidden."
        if evaluation.saved in evaluation.models
        else "The saved model itself is not among those compared."
    )
    notes = [text for text in evaluation.findings() if text.startswith("Note:")]
    return (
        "<section><h2>How well it predicts</h2><p>Answers were hidden, and every model predicted them. What the models "
        f"are stands at the end of the page. {as_html(' '.join([saved, *evaluation.scope()]))}</p>"
        f"{''.join(parts)}{_metric_alone(evaluation)}{list_of(notes)}</section>"
    )


def _marked(model: str, evaluation: Evaluation, best: str | None) -> str:
    marks = [word for word, said in (("best", model == best), ("saved", model == evaluation.saved)) if said]
    return f"{model} ({', '.join(marks)})" if marks else model


def _row_of_saved(evaluation: Evaluation, models: Sequence[str]) -> int | None:
    return next((place for place, model in enumerate(models) if model == evaluation.saved), None)


def _metric_alone(evaluation: Evaluation) -> str:
    """Return the table of what the metric of every model adds to it."""
    found = worth_of_metric(evaluation)
    if not found:
        return ""
    rows = [
        [
            _marked(model, evaluation, None),
            row[0].other,
            *(
                f"{plus_minus(c.likelihood.mean, c.likelihood.error, sign='+')} ({OUTCOMES[c.outcome]})".replace(
                    "-", "−"
                )
                for c in row
            ),
        ]
        for model, row in found.items()
    ]
    head = ["model", "without it", *(TITLES.get(split, split) for split in evaluation.splits)]
    table = table_of(head, rows, saved=_row_of_saved(evaluation, list(found)))
    return (
        "<h3>What the metric alone adds</h3><p>Each model is compared with itself without its metric, in nats per "
        f"answer.</p>{table}"
    )
