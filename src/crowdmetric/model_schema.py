"""What ``model.json`` and the arrays beside it must be: checked before anything is built from them.

A model's folder is meant to be read, copied and mailed, so it may come back edited. Whatever is in it, loading ends
in a model or in one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
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
    "withheld": (_list_of(_text), "a list of sentences", False),
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


# What each array is, a letter per axis: d features of the fit, p = d(d+1)/2, D features before preprocessing, N items,
# K people, any number for *, and the same number everywhere for other letters. All that predictions and pages rest on
# is here, and is finite; of other arrays only the name is checked, so that an estimator may add some.
SHAPES: dict[str, str] = {
    "metric": "dd", "components": "dd", "shape": "dd", "symmetric_metric": "dd",
    "item_ids": "N", "feature_names": "D", "items": "Nd", "preprocessing.matrix": "dD", "preprocessing.mean": "D",
    "preprocessing.values": "2D",
    "users": "K", "pseudo_ideal_points": "Kd", "ideal_points": "Kd", "pseudo_ideal_covariances": "Kdd",
    "person_metrics": "Kdd", "pseudo_ideal_mean": "d", "ideal_mean": "d", "pseudo_ideal_covariance": "dd",
    "ideal_covariance": "dd", "people_coordinates": "Kk", "people_axes": "kd", "factor": "dk", "factor_draws": "*dk",
    "rest_draws": "*",
    "item_effects": "N", "item_effect_variances": "N", "asked_items": "*2", "offset_covariance": "oo",
    "alternatives": "***", "starts": "*", "classes": "2",
    "shown": "n", "shown_items": "nd", "inducing": "*", "theta.values": "*", "answers": "t5", "factors": "kt2",
    "kernel_weights": "k",
    "utilities": "*", "utility_errors": "*",
}  # fmt: skip
# Those that may hold NaN or infinity, because a fit may not know them.
SOMETIMES_UNKNOWN: dict[str, str] = {
    "standard_errors": "dd",
    "symmetric_covariance": "pp",
    "metric_covariance": "pp",
    "metric_draws": "*p",
    "sharpness": "3",
}
# Names of items, people and features: numbers or text.
IDS = ("item_ids", "users", "feature_names")
# Symmetric matrices without negative eigenvalues, up to rounding; the metric itself unless `constraint` is 'symmetric'.
COVARIANCES = ("pseudo_ideal_covariance", "person_metrics")
# Symmetric matrices. (Those for people and offsets come from approximations, which may leave them slightly indefinite.)
SYMMETRIC = (
    "metric", "symmetric_metric", "ideal_covariance", "pseudo_ideal_covariances", "offset_covariance", *COVARIANCES,
)  # fmt: skip
# Numbers that are not negative.
NOT_NEGATIVE = ("spread", "personal_spread", "item_effect_spread", "item_effect_variances", "utility_errors", "lapse")
# Largest asymmetry, and most negative eigenvalue, that count as rounding, relative to the largest entry.
ROUNDING = 1e-6
# Arrays that every model has, and those that predictions of some estimators need.
NEEDED = ("metric", "components", "item_ids", "feature_names", "users")
ALSO_NEEDED = {
    "PopulationMetric": ("pseudo_ideal_mean", "pseudo_ideal_covariance"),
    "TasteMetric": (
        "theta.values",
        "theta.shapes",
        "factors",
        "shown",
        "shown_items",
        "inducing",
        "kernels",
        "kernel_weights",
    ),
    "SimilarityMetric": ("link", "lapse"),
}
# What may be set on an estimator: a plain name, to which an underscore is added.
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*(\.[a-z]+)?")


def check_arrays(place: str, arrays: Mapping[str, NDArray[Any]], description: Mapping[str, Any]) -> None:
    """Raise ModelFileError unless the arrays are those of a model: named, shaped and bounded as in this module."""
    needed = (*NEEDED, *ALSO_NEEDED.get(description["estimator"], ()))
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise ModelFileError(f"{place} is not a complete model: it has no array {missing[0]!r}; save it again")
    sizes: dict[str, int] = {}
    if "preprocessing.matrix" not in arrays:
        sizes["D"] = len(arrays["metric"]) if arrays["metric"].ndim else 0
    for name in sorted(arrays, key=lambda name: name not in NEEDED):  # those that say how many there are come first
        wrong = next(_troubles(name, arrays[name], sizes, description), "")
        if wrong:
            raise ModelFileError(f"the array {name!r} of {place} {wrong}; it was changed: save the model again")


def _troubles(name: str, array: NDArray[Any], sizes: dict[str, int], description: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with an array, for the middle of a sentence; only the first of these is meaningful."""
    if not NAME.fullmatch(name):
        yield "has a name that no fit gives"
    if array.dtype.kind not in "biufU":
        yield f"holds {array.dtype}, which no fit saves"
    if name in NOT_NEGATIVE and array.dtype.kind == "f" and np.any(array < 0):
        yield "is negative"
    letters = SHAPES.get(name, SOMETIMES_UNKNOWN.get(name))
    if letters is None or (name == "shape" and array.dtype.kind == "U"):  # the shape of a kernel has a name
        return
    if not _has_shape(array, letters, sizes):
        expected = ", ".join(str(sizes.get(letter, letter)) for letter in letters)
        yield f"has the shape {array.shape}, not ({expected})"
    if name in IDS:
        return
    if array.dtype.kind == "U":
        yield "is text"
    if name in SHAPES and not np.all(np.isfinite(array)):
        yield "is not finite everywhere"
    if name in ("metric", "items") and array.dtype.kind != "f":
        yield "does not hold floating-point numbers"
    if name in SYMMETRIC:
        may_be_negative = name not in COVARIANCES and (
            name != "metric" or description["parameters"].get("constraint") == "symmetric"
        )
        yield from _asymmetries(array, may_be_negative=may_be_negative)
    if name == "asked_items" and array.size and not (array.dtype.kind in "iu" and array.min() >= 0):
        yield "does not hold row numbers"


def _has_shape(array: NDArray[Any], letters: str, sizes: dict[str, int]) -> bool:
    """Return whether an array has a shape, in which letters stand for sizes; those that are new are kept."""
    if array.ndim != len(letters):
        return False
    for letter, size in zip(letters, array.shape, strict=True):
        if letter == "d" and size == 0:
            return False
        expected = size if letter == "*" else int(letter) if letter.isdigit() else sizes.setdefault(letter, size)
        if size != expected:
            return False
        if letter == "d":
            sizes["p"] = size * (size + 1) // 2
    return True


def _asymmetries(array: NDArray[Any], *, may_be_negative: bool) -> Iterator[str]:
    scale = max(float(np.max(np.abs(array), initial=0.0)), 1e-300)
    if np.max(np.abs(array - np.swapaxes(array, -1, -2)), initial=0.0) > ROUNDING * scale:
        yield "is not symmetric"
    if not may_be_negative and np.min(np.linalg.eigvalsh(array), initial=0.0) < -ROUNDING * scale * array.shape[-1]:
        yield "has negative eigenvalues"
