"""All places of a study, as `crowdmetric.design`, a file or a live design asks.

A share of the people is kept for evaluation: they are asked random questions under every design, so models can
be judged on answers that no design has chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crowdmetric.collect.places import DESIGN, design_fingerprint, questionnaire_file, random_places
from crowdmetric.collect.settings import Settings
from crowdmetric.collect.sheets import Place
from crowdmetric.collect.study_items import StudyItems
from crowdmetric.design import Questionnaire, design

__all__ = ["Pool", "make_pool"]


@dataclass(frozen=True)
class Pool:
    """Places in the order in which they are given out, and what is known of the design."""

    places: tuple[Place, ...]
    details: dict[str, Any]


def make_pool(settings: Settings, items: StudyItems, folder: Path, people: int | None = None) -> Pool:
    """Return the places of a study, of `people` people instead of those of the settings if given.

    This is the slow part of a first start: `optimal` takes seconds to minutes.
    """
    people = settings.study.people if people is None else people
    kind, questions, seed = settings.design.kind, settings.study.questions, settings.design.seed
    # a live design of ours draws its people for evaluation itself
    share = 0.0 if kind == "live" and not settings.design.hook else settings.design.evaluation
    kept = min(round(share * people), people - 1)
    details: dict[str, Any] = {
        "fingerprint": design_fingerprint(settings, items, folder), "kind": kind, "people": people,
        "questions": questions, "evaluation": kept, "whole_ids": items.whole_ids,
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
        items.scaled, people=people, answers=settings.study.questions, kind=settings.design.kind,
        seed=settings.design.seed, **options,
    )  # fmt: skip


def _places(ask: Questionnaire, ids: list[str]) -> list[Place]:
    """Return a questionnaire as places, one per person."""
    pairs: dict[int, list[tuple[str, str]]] = {}
    for person, left, right in zip(ask.person.tolist(), ask.left.tolist(), ask.right.tolist(), strict=True):
        pairs.setdefault(person, []).append((ids[left], ids[right]))
    return [Place(DESIGN, tuple(asked)) for asked in pairs.values()]
