"""What ``model.json`` and the arrays beside it must be: checked before anything is built from them.

A model's folder is meant to be read, copied and mailed, so it may come back edited. Whatever is in it, loading ends
in a model or in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import ModelFileError

__all__ = ["check_arrays", "check_description"]

Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    """Return whether a value is a number, or the null that stands for one that JSON cannot write."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _map_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _object(**fields: Check) -> Check:
    """Return a check for an object that has these fields and perhaps others."""
    return lambda value: isinstance(value, dict) and all(name in value and fields[name](value[name]) for name in fields)


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


SOLUTION = _object(status=_text, converged=_flag, objective=_number, gap=_number, iterations=_count, seconds=_number)
RADII = _object(metric=_number, ideal=_number, tried=_list_of(_list_of(_number)), at_limit=_flag)

NUMBERS = (
    "shares", "low", "high", "first_place", "steady", "bent", "own",
    "less", "more", "chosen", "chosen_low", "chosen_high",
)  # fmt: skip
TEXTS = _list_of(_text)
IMPORTANCE = _object(
    names=TEXTS, left_out=TEXTS, covers=_text, item_share=_number, **dict.fromkeys(NUMBERS, _list_of(_number))
)


def _importance(value: Any) -> bool:
    return IMPORTANCE(value) and all(len(value[name]) == len(value["names"]) > 0 for name in NUMBERS)


# Every field of model.json, its expected type, and whether it is required.
FIELDS: dict[str, tuple[Check, str, bool]] = {
    "estimator": (_text, "the name of an estimator", True),
    "parameters": (_map_of(_plain), "an object of plain values", True),
    "left_out": (_list_of(_text), "a list of names", True),
    "data": (lambda value: isinstance(value, dict) and _data(value), "an object of counts", True),
    "solution": (SOLUTION, "how the fit ended", True),
    "radii": (_optional(RADII), "how radii were chosen", False),
    "checksum": (_text, "a checksum", True),
    "importance": (_optional(_importance), "what moves choices, feature by feature", False),
    "preprocessing": (_optional(_map_of(_plain)), "an object of plain values", False),
}


def _data(value: dict[str, Any]) -> bool:
    dropped = value.get("dropped", {})
    counts = [value[name] for name in ("answers", "people", "items") if name in value]
    return all(map(_count, counts)) and _map_of(_count)(dropped)


def check_description(place: str, description: Mapping[str, Any]) -> None:
    """Raise ModelFileError unless the contents of ``model.json`` are those of a model."""
    for name, (check, expected, needed) in FIELDS.items():
        if name not in description:
            if needed:
                raise ModelFileError(f"{place} is not a complete model: it has no {name!r}; save it again")
        elif not check(description[name]):
            raise ModelFileError(
                f"{name!r} in model.json of {place} is not {expected}; it was changed: copy the folder or save the "
                "model again"
            )


def check_arrays(place: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ModelFileError unless the arrays that everything rests on are there and fit together.

    ``metric`` and ``components`` are (d, d) and finite, ``item_ids`` (N,), ``feature_names`` of one dimension, and
    ``items``, where there are any, (N, d).
    """
    missing = [name for name in ("metric", "components", "item_ids", "feature_names") if name not in arrays]
    if missing:
        raise ModelFileError(f"{place} is not a complete model: it has no array {missing[0]!r}; save it again")
    d = len(arrays["metric"]) if arrays["metric"].ndim else 0
    items = arrays.get("items")
    n = len(arrays["item_ids"]) if arrays["item_ids"].ndim else 0
    fits = {
        "metric": _is_finite(arrays["metric"], (d, d)) and d > 0,
        "components": _is_finite(arrays["components"], (d, d)),
        "item_ids": arrays["item_ids"].ndim == 1,
        "feature_names": arrays["feature_names"].ndim == 1,
        "items": items is None or _is_finite(items, (n, d)),
    }
    for name, right in fits.items():
        if not right:
            raise ModelFileError(f"the array {name!r} of {place} is not that of a model; save the model again")


def _is_finite(array: NDArray[Any], shape: tuple[int, ...]) -> bool:
    return array.dtype.kind == "f" and array.shape == shape and bool(np.all(np.isfinite(array)))
