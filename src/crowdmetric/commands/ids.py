"""Makes the ids of a table and of a model the same type, numbers or text."""

from __future__ import annotations

from dataclasses import replace

from crowdmetric.base import CrowdMetric
from crowdmetric.comparisons import Comparisons
from crowdmetric.persist import SavedModel
from crowdmetric.tables import Column, Columns, as_ids

__all__ = ["NAMES", "align", "numbered"]

NAMES = {"user": "user", "left": "left", "right": "right"}


def align(table: Columns, model: SavedModel) -> tuple[Column, Column]:
    """Return the model's items and people under ids of the table's kind.

    A CSV file whose ids all look like numbers is read as numbers, so the same person can be 7 in one table
    and '7' in another: where the kinds differ, both sides become text.
    """
    known = {"left": model.item_ids, "right": model.item_ids, "user": model.users}
    kinds = {name: as_ids(table[name], name)[0].dtype.kind == "i" for name in NAMES}
    for group in (("left", "right"), ("user",)):
        if len({kinds[name] for name in group} | {known[name].dtype.kind == "i" for name in group}) > 1:
            for name in group:
                table[name], known[name] = _as_text(table[name], name), known[name].astype(str)
    return known["left"], known["user"]


def numbered(answers: Comparisons, estimator: CrowdMetric) -> Comparisons:
    """Return answers whose items are called as the model's are, which `align` has listed in the model's order."""
    return answers if estimator.item_ids is None else replace(answers, item_ids=estimator.item_ids)


def _as_text(column: Column, name: str) -> Column:
    ids, missing = as_ids(column, name)
    text = ids.astype(str).astype(object)
    text[missing] = None
    return text
