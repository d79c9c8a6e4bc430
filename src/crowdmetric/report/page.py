"""The report as one HTML page that asks no server for anything. All text of the user's is escaped."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crowdmetric._version import __version__
from crowdmetric.comparisons import Comparisons
from crowdmetric.draw_intervals import Intervals
from crowdmetric.errors import DataError, MissingExtraError, printable
from crowdmetric.estimators.summary import counted, fit_in_numbers
from crowdmetric.evaluate import Evaluation
from crowdmetric.evaluate.splits import TITLES
from crowdmetric.evaluate.verdict import best_model, worth_of_metric
from crowdmetric.identifiability import Diagnosis
from crowdmetric.importance import FeatureImportance, feature_importance
from crowdmetric.persist import SavedModel
from crowdmetric.report.changes import Moves, moved_pairs, neighbors
from crowdmetric.report.directions import Directions, find_directions
from crowdmetric.report.glossary import linked, words_section
from crowdmetric.report.map import map_section, rows_on_map
from crowdmetric.report.pictures import (
    eigenvalue_picture,
    evaluation_picture,
    plane_picture,
    taste_map_picture,
    tastes_picture,
)
from crowdmetric.report.quote import quote_section
from crowdmetric.report.style import STYLE
from crowdmetric.report.tastes import HALF, find_tastes
from crowdmetric.report.thumbnails import thumbnails
from crowdmetric.report.warnings import warnings_of, worth_using

__all__ = [
    "Html",
    "called",
    "changes_section",
    "choices_section",
    "details_section",
    "directions_section",
    "identifiability_section",
    "items_sections",
    "list_of",
    "report_page",
    "summary_section",
    "table_of",
    "whole_page",
]

Array = NDArray[np.float64]

SHOWN_ITEMS, SHOWN_DIRECTIONS, SHOWN_FEATURES, SHOWN_IMPORTANT, SHOWN_WEIGHTS = 5, 6, 4, 12, 12
# A feature is named in a direction if its part is at least this share of the largest.
NAMED = 0.25
# Strengths below this share of the largest count as zero (rounding).
UNSEEN = 1e-9
# A direction is settled if the true one is within this many degrees, with a probability of 90 %.
SETTLED = 45.0
# What the metric is, for people with ideal points and for people with tastes.
METRIC_OF_PREFERENCES = (
    "This is the metric itself. Tastes for more or less of a feature do not show in it: see what moves choices, above."
)
METRIC_OF_TASTES = (
    "This is the metric inside the tastes: two items are close if the same people like them. Nobody needs an ideal "
    "point for that."
)
# How sure the numbers of the metric are, by the structure that was assumed ("": none).
ASSUMED = {
    "": "Given the answers, the true number lies in the interval with a probability of 90 %, and the true direction "
    "within the angle. A direction is not settled where its neighbors may be as strong: then only the plane or space "
    "that they span is known.",
    "diagonal": "This fit takes every feature as a direction of its own (a diagonal metric): directions are assumed, "
    "and were not measured. Given that and the answers, the true number lies in the interval with a probability of "
    "90 %.",
    "isotropic": "This fit takes all features as equally important, each in its units (plain Euclidean distance): "
    "weights and strengths are assumed, and were not measured.",
}
NO_INTERVALS = "There are no intervals: this fit gives no standard errors."
OUTCOMES = {"better": "better", "equal": "equally good", "worse": "worse", "unclear": "cannot tell"}


def report_page(
    model: SavedModel,
    *,
    comparisons: Comparisons | None = None,
    diagnosis: Diagnosis | None = None,
    evaluation: Evaluation | None = None,
    choices: Sequence[str] = (),
    suggestion: str = "",
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
    careful = warnings_of(model, diagnosis, evaluation, comparisons) + ([_sentence(suggestion)] if suggestion else [])
    sections = [
        summary_section(model, worth_using(model, evaluation), careful, files, date),
        quote_section(model, evaluation, comparisons),
        _tastes(model) if model.description["estimator"] == "TasteMetric" else _importance(model, comparisons),
        *_metric(model, comparisons, item_names, item_images, _prediction(evaluation)),
        "" if diagnosis is None else identifiability_section(diagnosis.summary()),
        choices_section(choices),
        details_section(model),
    ]
    return whole_page(sections, () if evaluation is None else evaluation.models)


def whole_page(sections: Sequence[str], models: Sequence[str] = ()) -> str:
    """Return sections as one HTML page; at its end stands what their words mean and what these models are."""
    body = "".join(sections)
    body += words_section(models, sections=body)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>crowdmetric: what was learned</title><style>{STYLE}</style>"
    )
    footer = '<footer class="small">This page holds everything it shows, and asks no server for anything.</footer>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}{footer}</body></html>\n'


# ------------------------------------------------------------------------------------------ pieces of a page


class Html(str):
    """A cell of a table that is HTML already."""

    __slots__ = ()


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _text(text: str) -> str:
    """Return a text for HTML, with `what is between backticks` and --options set as code."""
    return re.sub(r"`([^`]*)`|(?<!\S)(--estimator [a-z]+|--[a-z][a-z-]*)", _code, html.escape(text))


def _code(found: re.Match[str]) -> str:
    return f"<code>{found[1] or found[2]}</code>"


def _paragraphs(texts: Sequence[str]) -> str:
    return "".join(f"<p>{_text(text)}</p>" for text in texts)


def list_of(texts: Sequence[str]) -> str:
    """Return a list of texts, escaped here."""
    return "<ul>" + "".join(f"<li>{_text(text)}</li>" for text in texts) + "</ul>" if texts else ""


def table_of(
    head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = (), saved: int | None = None
) -> str:
    """Return a table of texts, escaped here unless they are `Html`.

    Columns in `numbers` are set to the right, the row `saved` stands out.
    """

    def line(cells: Sequence[str], tag: str, stands_out: bool = False) -> str:
        marks = [' class="number"' if column in numbers else "" for column in range(len(cells))]
        texts = [linked(c) if tag == "th" else c if isinstance(c, Html) else html.escape(c) for c in cells]
        inside = "".join(f"<{tag}{m}>{c}</{tag}>" for m, c in zip(marks, texts, strict=True))
        opening = '<tr class="saved">' if stands_out else "<tr>"
        return f"{opening}{inside}</tr>"

    body = "".join(line(row, "td", place == saved) for place, row in enumerate(rows))
    return f'<div class="wide"><table><thead>{line(head, "th")}</thead><tbody>{body}</tbody></table></div>'


def _picture(draw: Callable[[], str], caption: str) -> str:
    """Return a figure; where matplotlib is missing, the sentence that says how to get it."""
    try:
        svg = draw()
    except MissingExtraError as error:
        return f'<p class="small">{html.escape(_sentence(str(error)))}</p>'
    marked = svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(caption)}"', 1)
    return f"<figure>{marked}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _name(value: object) -> str:
    return str(value.item() if isinstance(value, np.generic) else value)


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %".replace("-0 %", "0 %").replace("-", "−")


# ------------------------------------------------------------------------------------------------- sections


def summary_section(
    model: SavedModel, worth: Sequence[str], careful: Sequence[str], files: Sequence[str] = (), date: str = ""
) -> str:
    """Return the head of the page: what was learned from what and when, what it is worth, what to beware of."""
    return _header(model, files, date) + _worth(worth, careful)


def _header(model: SavedModel, files: Sequence[str], date: str) -> str:
    """Return the title, and what was learned from what, when, and by which version."""
    steps = "" if model.preprocessing is None else f"Items: {model.preprocessing.summary()}."
    facts = [
        f"{counted(model.description['data'])}; {len(model.metric)} features; {model.description['estimator']}.",
        steps,
        f"From {' and '.join(map(printable, files))}." if files else "",
        f"{date}, crowdmetric {__version__}." if date else f"crowdmetric {__version__}.",
    ]
    lines = "<br>".join(html.escape(fact) for fact in facts if fact)
    return f'<header><h1>How this crowd sees similarity</h1><p class="small">{lines}</p></header>'


def _worth(worth: Sequence[str], careful: Sequence[str]) -> str:
    warning = f'<aside class="careful"><h2>Be careful</h2>{list_of(careful)}</aside>' if careful else ""
    first, *others = worth
    more = f"<details><summary>For each question, in numbers</summary>{_paragraphs(others)}</details>" if others else ""
    return (
        '<section class="lead"><h2>Is a learned metric worth using here?</h2>'
        f"{_paragraphs([_sentence(first.removeprefix('In short: '))])}{more}</section>{warning}"
    )


def choices_section(choices: Sequence[str]) -> str:
    """Return what was chosen and why, folded away."""
    if not choices:
        return ""
    return f"<details><summary>Choices made, and why</summary>{list_of([_sentence(c) for c in choices])}</details>"


def identifiability_section(summary: str) -> str:
    """Return the section on what the answers can teach, from the summary of a diagnosis."""
    lines = summary.splitlines()
    parts, bullets = [], []
    for line in [*lines, ""]:
        if line.startswith("- "):
            bullets.append(line.removeprefix("- "))
            continue
        parts.append(list_of(bullets))
        bullets = []
        if line:
            parts.append(f"<p>{_text(line)}</p>")
    return f"<section><h2>What these answers can teach</h2>{''.join(parts)}</section>"


def _importance(model: SavedModel, comparisons: Comparisons | None) -> str:
    try:
        found = feature_importance(model, comparisons)
    except DataError as error:
        return f"<section><h2>What moves choices</h2><p>{_text(_sentence(str(error)))}</p></section>"
    interval = ["90 % interval"] if found.has_intervals else []
    head = ["feature", "share", *interval, "preferred", "all want more or less", "all want a middle", "people differ"]
    rows = [_important(found, j) for j in found.order[:SHOWN_IMPORTANT].tolist()]
    left = found.shares[found.order[SHOWN_IMPORTANT:]]
    if left.size:
        rows.append([f"{left.size} other features", _percent(left.sum()), *([""] * (len(head) - 2))])
    if model.fitted.get("item_effects_") is not None:
        name = "the items themselves, beyond their features"
        rows.append([name, _percent(found.item_share), *([""] * (len(head) - 2))])
    whose = "of the pairs asked about" if comparisons is not None else "of all pairs of items"
    explained = (
        f"How much each feature moves people's choices between two items {whose}, as a share of what all of them do "
        "(mean squares); shares add up to 100 %. Three columns say how a share arises: everybody wants more of a "
        "feature, or everybody less; everybody wants a middle, which is what a metric shows; or people differ. "
        f"What is preferred is said of an item that is average in all other features. {found.covers}"
    )
    return (
        f"<section><h2>What moves choices</h2><p>{_text(found.sentence())}</p>"
        f"{table_of(head, rows, [j for j in range(1, len(head)) if head[j] != 'preferred'])}"
        f'<p class="small">{html.escape(explained)}</p></section>'
    )


def _important(found: FeatureImportance, j: int) -> list[str]:
    """Return a row of the table of importance."""
    interval = [f"{_percent(found.low[j])} to {_percent(found.high[j])}"] if found.has_intervals else []
    parts = [_percent(part[j]) for part in (found.steady, found.bent, found.own)]
    return [found.names[j], _percent(found.shares[j]), *interval, found.taste(j), *parts]


def _tastes(model: SavedModel) -> str:
    """Return what smooth tastes look like: a table, the utility along each feature, and a map."""
    found = find_tastes(model)
    rows = [
        [str(place + 1), name, _percent(found.crowd[place]), _percent(found.people[place]), found.words(place)]
        for place, name in enumerate(found.names)
    ]
    rows.append(["", "single items, beyond features", _percent(found.crowd_items), _percent(found.people_items), ""])
    explained = (
        "Shares of what moves choices (mean squares of utilities over the items), which add up to 100 %: what the "
        "crowd has in common, and what one person has beside it. Along each feature utilities are averaged over the "
        "items with their other features as they are. In the pictures utilities are log-odds: one more makes an item "
        "about 2.7 times as likely to be preferred; where answers look free of noise only their shape means something."
    )
    pictures = _picture(
        lambda: tastes_picture(found),
        "The crowd's utility along each feature, numbered as in the table, with a 90 % band (dark) and the range in "
        "which 90 % of the people are (light).",
    )
    plane = found.map
    if plane is not None:
        pictures += _picture(
            lambda: taste_map_picture(plane),
            "Islands of taste: the crowd's utility over features 1 and 2, the others at their means. Circles are "
            f"items. Small dots: not known to be above or below the mean ({HALF:.2f} standard errors).",
        )
    head = ["", "feature", "the crowd's taste", "people differ", "the crowd likes"]
    return (
        f"<section><h2>What moves choices</h2><p>{_text(found.sentence())}</p>"
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


def items_sections(
    model: SavedModel, shown: NDArray[np.intp], names: Sequence[str], images: Sequence[Path | None] | None
) -> list[str]:
    """Return the map and what the metric changed, with small pictures of the items that are on the map."""
    assert model.items is not None
    rows = rows_on_map(len(model.items), shown)
    small = None if images is None else thumbnails([images[row] for row in rows])
    pictures = {} if small is None else {int(row): one for row, one in zip(rows, small, strict=True) if one is not None}
    return [
        map_section(model.items, model.components, rows, names, pictures),
        changes_section(model, shown, names, pictures),
    ]


def directions_section(found: Directions, names: Sequence[str], items: Array, lead: str) -> str:
    """Return the section on the metric itself, which `lead` introduces."""
    sure, shares, angles = found.strength_intervals, found.share_intervals, found.angles
    if found.assumed == "isotropic":
        sure = shares = None
    rows = []
    # a direction of strength zero is shown only if it has an interval
    seen = len(found.strengths) if sure is not None else int(np.sum(found.strengths > UNSEEN * found.strengths[0]))
    for i in range(min(SHOWN_DIRECTIONS, max(seen, 1))):
        row = [str(i + 1), _in_words(found.loadings[i], names), _number(found.strengths[i])]
        if sure is not None and shares is not None and angles is not None:
            settled = f"± {angles[i]:.0f}°" if angles[i] < SETTLED else "not settled"
            settled = "assumed" if found.assumed == "diagonal" else settled
            row += [_range(sure, i, _number), settled, _percent(found.shares[i]), _range(shares, i, _percent)]
        else:
            row.append(_percent(found.shares[i]))
        rows.append(row)
    head = ["", "direction", "strength", "share of distance"]
    if sure is not None:
        head = [*head[:3], "90 % interval", "direction known to", "share of distance", "90 % interval"]
    doubt = ASSUMED[found.assumed] if sure is not None or found.assumed else NO_INTERVALS
    explained = (
        "A difference along a direction counts by its strength: 1 if all directions counted alike. Every feature is "
        "measured in its own spread over the items, so its units do not matter. Numbers beside features say how "
        "much a change of one spread moves an item along the direction. The share is the part of the mean squared "
        f"distance between items that comes from the direction. {doubt}"
    )
    pictures = _picture(lambda: eigenvalue_picture(found), "Strength of every direction, the strongest first.")
    if len(found.strengths) > 1:
        caption = (
            "The two leading directions. Curves of equal distance from the center: Euclidean (dashed), learned (solid)."
        )
        if found.plane is not None and found.assumed != "isotropic":
            caption += " Thin curves: metrics that the answers allow as well."
        pictures += _picture(lambda: plane_picture(found, items), caption)
    return (
        f"<section><h2>How differences between items add up to a distance</h2><p>{_text(lead)}</p>"
        f"{_weights(found, names)}<h3>Directions</h3>"
        f'{table_of(head, rows, range(2, len(head)))}<p class="small">{html.escape(explained)}</p>'
        f'<div class="pictures">{pictures}</div></section>'
    )


def _weights(found: Directions, names: Sequence[str]) -> str:
    """Return the table of features by weight."""
    sure = None if found.assumed == "isotropic" else found.weight_intervals
    rows = []
    for j in np.argsort(-found.weights, kind="stable")[:SHOWN_WEIGHTS]:
        row = [names[j], _percent(found.weights[j])]
        rows.append(row if sure is None else [*row, _range(sure, int(j), _percent)])
    head = ["feature", "weight"] if sure is None else ["feature", "weight", "90 % interval"]
    explained = (
        "The weight of a feature is how much items that differ in this feature alone, by its spread, differ in the "
        "learned squared distance; weights of all features add up to 100 %."
    )
    table = table_of(head, rows, range(1, len(head)))
    return f'<h3>Weight of each feature</h3>{table}<p class="small">{html.escape(explained)}</p>'


def _range(sure: Intervals, i: int, number: Callable[[float], str]) -> str:
    """Return an interval in words."""
    return f"{number(float(sure.low[i]))} to {number(float(sure.high[i]))}"


def _in_words(loadings: Array, names: Sequence[str]) -> str:
    """Return the features that make up a direction, the largest positive."""
    order = np.argsort(-np.abs(loadings))[:SHOWN_FEATURES]
    loadings = loadings * (np.sign(loadings[order[0]]) or 1.0)
    kept = [j for j in order if abs(loadings[j]) >= NAMED * abs(loadings[order[0]])]
    return ", ".join(f"{names[j]} {loadings[j]:+.2f}".replace("-", "−") for j in kept)


def _shown(model: SavedModel, comparisons: Comparisons | None) -> NDArray[np.intp]:
    """Return the items to show: those most asked about, else the first."""
    count = len(model.item_ids)
    if comparisons is None:
        return np.arange(min(SHOWN_ITEMS, count))
    asked = np.bincount(np.concatenate([comparisons.left, comparisons.right]), minlength=count)
    return np.argsort(-asked, kind="stable")[:SHOWN_ITEMS].astype(np.intp)


def called(model: SavedModel, names: Sequence[str | None] | NDArray[np.object_] | None) -> list[str]:
    """Return what each item is called: its name, with its id where others share it; without a name, its id."""
    ids = [_name(value) for value in model.item_ids]
    if names is None:
        return ids
    if len(names) != len(ids):
        raise DataError(f"item_names has {len(names)} entries, but the model has {len(ids)} items; give one each")
    times = Counter(names)
    return [
        number if name is None else name if times[name] == 1 else f"{name} ({number})"
        for name, number in zip(names, ids, strict=True)
    ]


def changes_section(
    model: SavedModel, shown: NDArray[np.intp], names: Sequence[str], pictures: Mapping[int, str]
) -> str:
    """Return the section on what the metric changed: neighbors of some items, and pairs that moved."""
    items = model.items
    ids = _WithPictures(names, pictures)
    if items is None or len(items) < 3:
        return ""
    near, moves = neighbors(items, model.components, shown), moved_pairs(items, model.components)
    rows = []
    for item, before, after in zip(near.items, near.before, near.after, strict=True):
        new = set(after.tolist()) - set(before.tolist())
        after_it = [ids[j] + ("*" if j in new else "") for j in after]
        rows.append([Html(ids[item]), Html(", ".join(ids[j] for j in before)), Html(", ".join(after_it))])
    k = near.before.shape[1]
    before = "their features" if model.preprocessing is None else "their features after preprocessing"
    agreement = "" if np.isnan(moves.agreement) else f", and distances correlate by {moves.agreement:.2f} (ranks)"
    lead = (
        f"Before: Euclidean distance of {before}. After: the learned distance. Over all items, {_percent(near.kept)} "
        f"of the {k} nearest stay among the {k} nearest{agreement}."
    )
    return (
        f"<section><h2>What the metric changed</h2><p>{html.escape(lead)}</p><h3>Nearest items</h3>"
        f"{table_of(['item', 'nearest before', 'nearest as learned (* new)'], rows)}"
        f"<h3>Pairs that moved most</h3>{_moves(moves, ids)}</section>"
    )


@dataclass(frozen=True)
class _WithPictures:
    """Names of items as HTML, each behind its small picture where there is one."""

    names: Sequence[str]
    pictures: Mapping[int, str]

    def __getitem__(self, item: int) -> str:
        picture = self.pictures.get(int(item))
        image = "" if picture is None else f'<img class="thumbnail" src="{picture}" alt=""> '
        return image + html.escape(self.names[item])


def _moves(moves: Moves, ids: _WithPictures) -> str:
    rows = [
        [Html(ids[a]), Html(ids[b]), _percent(before), _percent(after), way]
        for way, pairs, ranks in (
            ("closer", moves.closer, moves.closer_ranks),
            ("apart", moves.apart, moves.apart_ranks),
        )
        for (a, b), (before, after) in zip(pairs.tolist(), ranks.tolist(), strict=True)
    ]
    if not rows:
        return "<p>No pair changed its place: distances are ordered as before.</p>"
    return (
        table_of(["item", "item", "before", "as learned", "moved"], rows, (2, 3))
        + '<p class="small">Place among all pairs by distance: 0 % the closest, 100 % the farthest.</p>'
    )


def _prediction(evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return ""
    parts = []
    for split in evaluation.splits:
        rows = [
            [
                _marked(model, evaluation, best_model(evaluation, split)),
                f"{100 * evaluation.mean(split, model, 'accuracy'):.1f} %",
                f"{evaluation.mean(split, model):.4f} ± {evaluation.error(split, model):.4f}".replace("-", "−"),
                f"{evaluation.mean(split, model, 'calibration_slope'):.2f}",
            ]
            for model in evaluation.models
        ]
        head = ["model", "accuracy", "log-likelihood per answer", "calibration slope"]
        title = TITLES.get(split, split)
        picture = _picture(partial(evaluation_picture, evaluation, split), f"{title}: better is to the right.")
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
        f"are stands at the end of the page. {_text(' '.join([saved, *evaluation.scope()]))}</p>"
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
                f"{c.likelihood.mean:+z.4f} ± {c.likelihood.error:.4f} ({OUTCOMES[c.outcome]})".replace("-", "−")
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


def details_section(model: SavedModel) -> str:
    """Return the summary of the fit, folded away."""
    return f"<details><summary>The fit in numbers</summary><pre>{html.escape(fit_in_numbers(model))}</pre></details>"
