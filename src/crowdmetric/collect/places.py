"""The places of a study: what one person is asked, from a file or at random; `designing` has the others."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from crowdmetric.collect.settings import Settings
from crowdmetric.collect.sheets import Place
from crowdmetric.collect.study_items import StudyItems
from crowdmetric.errors import DataError
from crowdmetric.tables import as_ids, judgement_kind, read_columns
from crowdmetric.tables.columns import listed

__all__ = ["DESIGN", "EVALUATION", "design_fingerprint", "questionnaire_file", "random_places"]

EVALUATION, DESIGN = "evaluation", "design"
# The columns of a table of questions, as `crowdmetric design --out` writes it.
COLUMNS = ("person", "question", "left", "right")


def design_fingerprint(settings: Settings, items: StudyItems, folder: Path) -> str:
    """Return a short text that changes when the design or the items do."""
    options: dict[str, Any] = asdict(settings.design) | {
        "people": settings.study.people, "questions": settings.study.questions, "ids": items.ids,
    }  # fmt: skip
    del options["give_back_minutes"], options["repeats"], options["within"], options["wait"]
    digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(items.items.features).tobytes())
    if items.subspace is not None:
        digest.update(json.dumps([str(label) for label in items.subspace]).encode())
    if settings.design.file:
        digest.update((folder / settings.design.file).read_bytes())
    return digest.hexdigest()[:16]


def random_places(ids: list[str], people: int, questions: int, rng: np.random.Generator) -> list[Place]:
    """Return places of random questions, each about two different items, kept for evaluation."""
    left = rng.integers(len(ids), size=(people, questions))
    right = (left + rng.integers(1, len(ids), size=left.shape)) % len(ids)
    return [
        Place(EVALUATION, tuple((ids[a], ids[b]) for a, b in zip(*row, strict=True)))
        for row in zip(left.tolist(), right.tolist(), strict=True)
    ]


def questionnaire_file(path: Path, items: StudyItems) -> list[Place]:
    """Return the places in a table of person, left and right, as `crowdmetric design --out` writes it."""
    columns = read_columns(path)
    missing = [name for name in ("person", "left", "right") if name not in columns]
    if missing:
        raise DataError(f"{path} has no column {missing[0]!r}; person, left and right were expected")
    others = [name for name in columns if name not in COLUMNS]
    if others:
        remedy = (
            "remove what a question is complete without" if judgement_kind(columns) is None
            else "these questions are about similarity, so ask them elsewhere"
        )  # fmt: skip
        raise DataError(
            f"{path} holds {listed(others)} besides {listed(COLUMNS)}, but a study asks which of two items people "
            f"prefer; {remedy}"
        )
    nobody = as_ids(columns["person"], "person")[1]
    if nobody.any():
        raise DataError(f"person is empty in row {np.argmax(nobody)} of {path}; name the person, or remove the row")
    known = set(items.ids)
    pairs: dict[str, list[tuple[str, str]]] = {}
    for person, left, right in zip(*(map(str, columns[n].tolist()) for n in ("person", "left", "right")), strict=True):
        for item in (left, right):
            if item not in known:
                raise DataError(f"{path} asks about item {item!r}, which the table of items does not have; correct it")
        if left == right:
            raise DataError(f"{path} asks person {person!r} to compare item {left!r} with itself; correct it")
        pairs.setdefault(person, []).append((left, right))
    if not pairs:
        raise DataError(f"{path} has no rows; one question per row was expected")
    return [Place(DESIGN, tuple(asked)) for asked in pairs.values()]
