"""A live design as one file: what was asked and answered, the queue, and what it rests on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from crowdmetric.design.learning import Learned
from crowdmetric.design.stopping import Forecast
from crowdmetric.design.waves import Wave
from crowdmetric.errors import DataError
from crowdmetric.folders import new_file
from crowdmetric.tables import Column

__all__ = ["LiveState", "read_state", "write_state"]

Indices = NDArray[np.intp]
VERSION = 4


@dataclass
class LiveState:
    """What changes while people are asked.

    Attributes
    ----------
    asked
        By person: pairs (m, 2) as shown, whether at random, the wave, and the propensity.
    told
        The answers by person: rows (left, right, y, weight).
    fresh
        People whose answers came in since the last re-design began.
    queue, served
        Bundles of the wave in the order of asking, and how many were taken.
    forecasts
        All that were made.
    rho
        The constant of the confidence sequence, fixed at the first look.
    """

    asked: dict[str, tuple[Indices, bool, int, float]]
    told: dict[str, list[tuple[int, int, float, float]]]
    fresh: set[str]
    queue: Indices
    served: int
    forecasts: list[Forecast]
    rho: float | None

    @staticmethod
    def empty() -> LiveState:
        """Return the state before anybody was asked."""
        return LiveState({}, {}, set(), np.zeros(0, dtype=np.intp), 0, [], None)


def write_state(
    path: str | os.PathLike[str],
    options: dict[str, Any],
    state: LiveState,
    wave: Wave | None,
    items: NDArray[Any],
    ids: Column,
) -> None:
    """Write a live design."""
    arrays: dict[str, NDArray[Any]] = {"queue": state.queue}
    header = {
        "version": VERSION, "items": fingerprint_of(items), "ids": fingerprint_of(ids), "options": options,
        "served": state.served,
        "asked": {name: [pairs.tolist(), *rest] for name, (pairs, *rest) in state.asked.items()},
        "told": state.told, "fresh": sorted(state.fresh), "rho": state.rho,
        "forecasts": [asdict(one) for one in state.forecasts], "wave": None,
    }  # fmt: skip
    if wave is not None:
        header["wave"] = _split(wave, "wave", arrays, without={"learned"})
        if wave.learned is not None:
            header["learned"] = _split(wave.learned, "learned", arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with new_file(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # the stubs take its options for arrays


def read_state(
    path: str | os.PathLike[str], items: NDArray[Any], ids: Column
) -> tuple[dict[str, Any], LiveState, Wave | None]:
    """Return the options, the state and the wave of a saved live design of these items."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise DataError(f"{path} is no saved live design; give a file that save() wrote") from error
    if header.get("version") != VERSION:
        raise DataError(f"{path} is of version {header.get('version')}, but {VERSION} was expected; save it again")
    if header["items"] != fingerprint_of(items):
        raise DataError(f"{path} is about other items; resume it with the items that it was begun with")
    if header["ids"] != fingerprint_of(ids):
        raise DataError(f"{path} calls its items otherwise; resume it with the item_ids that it was begun with")
    options = header["options"]
    if options["settle"] is not None:
        options["settle"] = tuple(tuple(pair) for pair in options["settle"])
    state = LiveState(
        {name: (np.array(pairs, dtype=np.intp), *rest) for name, (pairs, *rest) in header["asked"].items()},
        {name: [tuple(row) for row in rows] for name, rows in header["told"].items()},
        set(header["fresh"]), arrays["queue"], header["served"], [_forecast(one) for one in header["forecasts"]],
        header["rho"],
    )  # fmt: skip
    if header["wave"] is None:
        return options, state, None
    learned = None
    if "learned" in header:
        learned = Learned(**_joined("learned", header["learned"], arrays))
    return options, state, Wave(**_joined("wave", header["wave"], arrays), learned=learned)


def _forecast(saved: dict[str, Any]) -> Forecast:
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in saved.items()}
    return Forecast(**values)


def fingerprint_of(items: NDArray[Any]) -> str:
    """Return what tells one catalogue from another."""
    return hashlib.sha256(repr(items.shape).encode() + np.ascontiguousarray(items).tobytes()).hexdigest()


def _split(value: Any, prefix: str, arrays: dict[str, NDArray[Any]], without: Collection[str] = ()) -> dict[str, Any]:
    """Put the arrays of a dataclass among `arrays` and return its other fields."""
    plain = {}
    for field in fields(value):
        found = getattr(value, field.name)
        if isinstance(found, np.ndarray):
            arrays[f"{prefix}.{field.name}"] = found
        elif field.name not in without:
            plain[field.name] = found
    return plain


def _joined(prefix: str, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the fields of a dataclass that `_split` has taken apart."""
    return plain | {
        name.removeprefix(f"{prefix}."): array for name, array in arrays.items() if name.startswith(f"{prefix}.")
    }
