"""The places of a study: what `crowdmetric.design`, a file or a hook asks of each person.

A share of the people is kept for evaluation: they are asked random questions, whatever the design, so that models can
be judged on answers that no design has chosen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crowdmetric.collect.items import StudyItems
from crowdmetric.collect.settings import Settings
from crowdmetric.collect.sheets import Place
from crowdmetric.design import Questionnaire, design
from crowdmetric.errors import DataError
from crowdmetric.tables import read_columns

__all__ = ["Pool", "fingerprint", "make_pool", "questionnaire_file", "random_places"]

EVALUATION, DESIGN = "evaluation", "design"


@dataclass(frozen=True)
class Pool:
    """Places in the order in which they are given out, and what is known of the design."""

    places: tuple[Place, ...]
    details: dict[str, Any]


def fingerprint(settings: Settings, items: StudyItems, folder: Path) -> str:
    """Return a short text that changes when the design or the items do."""
    told: dict[str, Any] = asdict(settings.design) | {
        "people": settings.study.people, "questions": settings.study.questions, "ids": items.ids,
    }  # fmt: skip
    del told["give_back_minutes"], told["repeats"]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(items.items.features).tobytes())
    if items.subspace is not None:
        digest.update(json.dumps([str(label) for label in items.subspace]).encode())
    if settings.design.file:
        digest.update((folder / settings.design.file).read_bytes())
    return digest.hexdigest()[:16]


def make_pool(settings: Settings, items: StudyItems, folder: Path, people: int | None = None) -> Pool:
    """Return the places of a study, of `people` people instead of those of the settings if given.

    This is the slow part of a first start: `optimal` takes seconds to minutes.
    """
    people = settings.study.people if people is None else people
    kind, questions, seed = settings.design.kind, settings.study.questions, settings.design.seed
    kept = min(round(settings.design.evaluation * people), people - 1)
    details: dict[str, Any] = {
        "fingerprint": fingerprint(settings, items, folder), "kind": kind, "people": people, "questions": questions,
        "evaluation": kept, "whole_ids": items.whole_ids,
    }  # fmt: skip
    if kind == "file":
        asked: Sequence[Place] = questionnaire_file(folder / settings.design.file, items)
    elif kind == "live":
        asked = [Place("live", ())] * (people - kept)
    else:
        ask = _designed(settings, items, people - kept)
        asked = _places(ask, items.ids)
        details["promise"] = ask.to_dict() | {"summary": ask.summary()}
        details["promise"] = {k: (None if v == float("inf") else v) for k, v in details["promise"].items()}
    rng = np.random.default_rng(seed + 1)
    places = [*asked, *random_places(items.ids, kept, questions, rng)]
    order = rng.permutation(len(places)) if kept else np.arange(len(places))
    return Pool(tuple(places[k] for k in order), details)


def _designed(settings: Settings, items: StudyItems, people: int) -> Questionnaire:
    options: dict[str, Any] = {}
    if settings.design.kind == "within":
        options["subspaces"] = "discover" if items.subspace is None else items.subspace
    return design(
        items.items.features, people=people, answers=settings.study.questions, kind=settings.design.kind,
        seed=settings.design.seed, **options,
    )  # fmt: skip


def _places(ask: Questionnaire, ids: list[str]) -> list[Place]:
    """Return a questionnaire as places, a person each."""
    pairs: dict[int, list[tuple[str, str]]] = {}
    for person, left, right in zip(ask.person.tolist(), ask.left.tolist(), ask.right.tolist(), strict=True):
        pairs.setdefault(person, []).append((ids[left], ids[right]))
    return [Place(DESIGN, tuple(asked)) for asked in pairs.values()]


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
