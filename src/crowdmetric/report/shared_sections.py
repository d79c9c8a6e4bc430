"""Sections that both reports have: on preferences (`page`) and on similarity judgements (`similarity_page`)."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric._version import __version__
from crowdmetric.draw_intervals import Intervals
from crowdmetric.errors import DataError, printable
from crowdmetric.importance import as_percent
from crowdmetric.persist import SavedModel
from crowdmetric.report.changes import Moves, moved_pairs, neighbors
from crowdmetric.report.directions import Directions
from crowdmetric.report.map import map_section, rows_on_map
from crowdmetric.report.page_parts import (
    Html,
    as_html,
    as_number,
    as_sentence,
    list_of,
    paragraphs_of,
    picture_of,
    table_of,
)
from crowdmetric.report.pictures import eigenvalue_picture, plane_picture
from crowdmetric.report.thumbnails import thumbnails
from crowdmetric.summary import counted, fit_in_numbers

__all__ = [
    "called",
    "careful_section",
    "choices_section",
    "details_section",
    "directions_section",
    "header_section",
    "identifiability_section",
    "items_sections",
    "most_asked",
    "summary_section",
]

Array = NDArray[np.float64]

SHOWN_ITEMS, SHOWN_DIRECTIONS, SHOWN_FEATURES, SHOWN_WEIGHTS = 5, 6, 4, 12
# A feature is named in a direction if its part is at least this share of the largest.
NAMED = 0.25
# Strengths below this share of the largest count as zero (rounding).
UNSEEN = 1e-9
# A direction is settled if the true one is within this many degrees, with a probability of 90 %.
SETTLED = 45.0
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
DISAGREE = (
    "The numbers here are medians over all metrics that the answers allow. The one metric that predicts, and by which "
    "the map is drawn, is shrunk toward a simpler one: many of its numbers lie outside these intervals."
)


def summary_section(
    model: SavedModel, worth: Sequence[str], careful: Sequence[str], files: Sequence[str] = (), date: str = ""
) -> str:
    """Return the head of the page: what was learned from what and when, what it is worth, what to beware of."""
    return header_section(model, files, date) + _worth(worth) + careful_section(careful)


def header_section(model: SavedModel, files: Sequence[str], date: str) -> str:
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


def careful_section(careful: Sequence[str]) -> str:
    """Return what to beware of; nothing if there is nothing."""
    return f'<aside class="careful"><h2>Be careful</h2>{list_of(careful)}</aside>' if careful else ""


def _worth(worth: Sequence[str]) -> str:
    first, *others = worth
    more = (
        f"<details><summary>For each question, in numbers</summary>{paragraphs_of(others)}</details>" if others else ""
    )
    return (
        '<section class="lead"><h2>Is a learned metric worth using here?</h2>'
        f"{paragraphs_of([as_sentence(first.removeprefix('In short: '))])}{more}</section>"
    )


def choices_section(choices: Sequence[str]) -> str:
    """Return what was chosen and why, folded away."""
    if not choices:
        return ""
    return f"<details><summary>Choices made, and why</summary>{list_of([as_sentence(c) for c in choices])}</details>"


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
            parts.append(f"<p>{as_html(line)}</p>")
    return f"<section><h2>What these answers can teach</h2>{''.join(parts)}</section>"


def details_section(model: SavedModel) -> str:
    """Return the summary of the fit, folded away."""
    return f"<details><summary>The fit in numbers</summary><pre>{html.escape(fit_in_numbers(model))}</pre></details>"


def most_asked(asked: NDArray[np.integer[Any]], count: int) -> NDArray[np.intp]:
    """Return the rows of the items to show: of `count` items those that are most often among `asked`."""
    times = np.bincount(asked, minlength=count)
    return np.argsort(-times, kind="stable")[:SHOWN_ITEMS].astype(np.intp)


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
        row = [str(i + 1), _in_words(found.loadings[i], names), as_number(found.strengths[i])]
        if sure is not None and shares is not None and angles is not None:
            settled = f"± {angles[i]:.0f}°" if angles[i] < SETTLED else "not settled"
            settled = "assumed" if found.assumed == "diagonal" else settled
            row += [_range(sure, i, as_number), settled, as_percent(found.shares[i]), _range(shares, i, as_percent)]
        else:
            row.append(as_percent(found.shares[i]))
        rows.append(row)
    left = found.shares[len(rows) :]
    if left.size:
        share = [as_percent(left.sum())]
        rows.append(["", _others(left.size, "direction"), *(["", "", "", *share, ""] if sure else ["", *share])])
    head = ["", "direction", "strength", "share of distance"]
    if sure is not None:
        head = [*head[:3], "90 % interval", "direction known to", "share of distance", "90 % interval"]
    doubt = ASSUMED[found.assumed] if sure is not None or found.assumed else NO_INTERVALS
    if sure is not None and found.disagree:
        doubt += f" {DISAGREE}"
    explained = (
        "A difference along a direction counts by its strength: 1 if all directions counted alike. Every feature is "
        "measured in its own spread over the items, so its units do not matter. Numbers next to features say how "
        "much a change of one spread moves an item along the direction. The share is the part of the mean squared "
        f"distance between items that comes from the direction. {doubt}"
    )
    pictures = picture_of(lambda: eigenvalue_picture(found), "Strength of every direction, the strongest first.")
    if len(found.strengths) > 1:
        caption = (
            "The two leading directions. Curves of equal distance from the center: Euclidean (dashed), learned (solid)."
        )
        if found.plane is not None and found.assumed != "isotropic":
            caption += " Thin curves: metrics that the answers allow as well."
        pictures += picture_of(lambda: plane_picture(found, items), caption)
    return (
        f"<section><h2>How differences between items add up to a distance</h2><p>{as_html(lead)}</p>"
        f"{_weights(found, names)}<h3>Directions</h3>"
        f'{table_of(head, rows, range(2, len(head)))}<p class="small">{html.escape(explained)}</p>'
        f'<div class="pictures">{pictures}</div></section>'
    )


def _weights(found: Directions, names: Sequence[str]) -> str:
    """Return the table of features by weight."""
    sure = None if found.assumed == "isotropic" else found.weight_intervals
    rows, order = [], np.argsort(-found.weights, kind="stable")
    for j in order[:SHOWN_WEIGHTS]:
        row = [names[j], as_percent(found.weights[j])]
        rows.append(row if sure is None else [*row, _range(sure, int(j), as_percent)])
    left = found.weights[order[SHOWN_WEIGHTS:]]
    if left.size:
        row = [_others(left.size, "feature"), as_percent(left.sum())]
        rows.append(row if sure is None else [*row, ""])
    head = ["feature", "weight"] if sure is None else ["feature", "weight", "90 % interval"]
    explained = (
        "The weight of a feature is how much items that differ in this feature alone, by its spread, differ in the "
        "learned squared distance; weights of all features add up to 100 %."
    )
    table = table_of(head, rows, range(1, len(head)))
    return f'<h3>Weight of each feature</h3>{table}<p class="small">{html.escape(explained)}</p>'


def _others(count: int, what: str) -> str:
    """Return '3 other features'."""
    return f"{count} other {what}{'s' if count > 1 else ''}"


def _range(sure: Intervals, i: int, number: Callable[[float], str]) -> str:
    """Return an interval in words."""
    return f"{number(float(sure.low[i]))} to {number(float(sure.high[i]))}"


def _in_words(loadings: Array, names: Sequence[str]) -> str:
    """Return the features that make up a direction, the largest positive."""
    order = np.argsort(-np.abs(loadings))[:SHOWN_FEATURES]
    loadings = loadings * (np.sign(loadings[order[0]]) or 1.0)
    kept = [j for j in order if abs(loadings[j]) >= NAMED * abs(loadings[order[0]])]
    return ", ".join(f"{names[j]} {loadings[j]:+.2f}".replace("-", "−") for j in kept)


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


def _name(value: object) -> str:
    return str(value.item() if isinstance(value, np.generic) else value)


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
        f"Before: Euclidean distance of {before}. After: the learned distance. Over all items, {as_percent(near.kept)} "
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
        [Html(ids[a]), Html(ids[b]), as_percent(before), as_percent(after), way]
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
