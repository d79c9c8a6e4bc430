"""A matrix of bad input: whatever is given, it ends in an error of ours or in the right answer, and NumPy is silent.

A case is a name and a function, which must raise a `CrowdmetricError`. Those of `EXTREMES` and `MAY_SUCCEED`, with
which nothing is wrong but their size, may also succeed, and then the metric is finite.
"""

from __future__ import annotations

import json
import math
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from crowdmetric import (
    Comparisons,
    IdealPointMetric,
    Judgements,
    MatchedMetric,
    PopulationMetric,
    SimilarityMetric,
    StitchedMetric,
    TasteMetric,
    intervals,
)
from crowdmetric.agreement import agreement
from crowdmetric.checks import positive_number, whole_number
from crowdmetric.cli import main
from crowdmetric.coefficients import coefficients_of
from crowdmetric.datasets import load_jester, load_movielens, load_sushi
from crowdmetric.design import LiveDesign, design, next_questionnaire, plan
from crowdmetric.design.judgement_plan import design_judgements, plan_judgements
from crowdmetric.errors import CrowdmetricError, CrowdmetricWarning
from crowdmetric.evaluate import evaluate, evaluate_similarity
from crowdmetric.export import item_coordinates, linear_head
from crowdmetric.identifiability import diagnose
from crowdmetric.importance import feature_importance
from crowdmetric.locate import locate
from crowdmetric.persist import load_model, save_model
from crowdmetric.preprocess import ItemMap
from crowdmetric.simulate import simulate_crowd
from crowdmetric.simulate_judgements import simulate_judgements
from crowdmetric.tables import read_items, write_columns

Case = tuple[str, Callable[[], Any]]

RNG = np.random.default_rng(0)
ITEMS = RNG.normal(size=(8, 2))
PAIRS = np.array([RNG.choice(8, 2, replace=False) for _ in range(30)])
Y = np.where(RNG.normal(size=30) > 0, 1, -1)
USERS = np.repeat(np.arange(10), 3)
LABELS = np.arange(8) % 2
NAN, INF = math.nan, math.inf
DIGITS = 10**400  # an integer that is larger than any float

GIVEN = {"metric_bound": 5.0, "ideal_bound": 3.0}
FITTED: dict[str, Callable[..., Any]] = {
    "ideal": partial(IdealPointMetric, **GIVEN),
    "matched": MatchedMetric,
    "population": partial(PopulationMetric, starts=1, covariance="isotropic", max_iter=5),
    "stitched": partial(StitchedMetric, subspaces=LABELS, rank=1, **GIVEN),
    "taste": TasteMetric,
}


def fit(name: str, **changed: Any) -> Any:
    """Fit an estimator to the small crowd, with some of it changed."""
    given = {"items": ITEMS, "pairs": PAIRS, "y": Y, "users": USERS, "sample_weight": None} | changed
    options = {
        key: value for key, value in changed.items() if key not in ("items", "pairs", "y", "users", "sample_weight")
    }
    estimator = FITTED[name](given["items"], **options)
    return estimator.fit(given["pairs"], given["y"], users=given["users"], sample_weight=given["sample_weight"])


def put(array: Any, row: int, value: Any, dtype: Any = float) -> Any:
    """Return a copy of an array with another value in one row."""
    changed = np.array(array, dtype=dtype)
    changed[row] = value
    return changed


def masked(array: Any) -> Any:
    return np.ma.masked_array(array, mask=np.arange(np.size(array)).reshape(np.shape(array)) == 3)


# ---------------------------------------------------------------------------------------- what is fitted to

BAD: dict[str, dict[str, Any]] = {
    "pairs": {
        "none": None,
        "empty": np.empty((0, 2), dtype=int),
        "ragged": [[0, 1], [2], [3, 4]],
        "ragged vectors": [[[0.0, 1.0], [1.0]], [[2.0, 1.0], [3.0, 4.0]]],
        "one column": PAIRS[:, :1],
        "three columns": np.column_stack([PAIRS, PAIRS[:, 0]]),
        "flat": PAIRS.ravel(),
        "a number": 7,
        "text": PAIRS.astype(str),
        "mixed": [[0, "a"]] * 30,
        "complex": PAIRS.astype(complex),
        "booleans": PAIRS.astype(bool),
        "halves": PAIRS + 0.5,
        "nan": put(PAIRS, 0, NAN),
        "infinite": put(PAIRS, 0, INF),
        "negative": put(PAIRS, 0, -1, int),
        "beyond": put(PAIRS, 0, 8, int),
        "huge": put(PAIRS, 0, 1e300),
        "masked": masked(PAIRS),
        "objects": np.full((30, 2), None),
        "a dictionary": {"left": [0], "right": [1]},
        "dates": PAIRS.astype("datetime64[D]"),
        "four axes": np.zeros((30, 2, 2, 1)),
        "nan vectors": np.full((30, 2, 2), NAN),
        "other vectors": np.zeros((30, 2, 5)),
        "bytes": PAIRS.astype("S"),
        "400 digits": [[DIGITS, 1]] * 30,
        "all the same": np.zeros((30, 2), dtype=int),
    },
    "y": {
        "none": None,
        "short": Y[:-1],
        "long": np.append(Y, 1),
        "column": Y[:, None],
        "text": np.where(Y > 0, "right", "wrong"),
        "ties": put(np.where(Y > 0, "right", "left"), 0, "tie", object),
        "−1, 0 and 1": put(Y, 0, 0),
        "1 and 2": 1 + (Y > 0),
        "bytes": np.where(Y > 0, b"1", b"0"),
        "real": Y * 0.5,
        "nan": put(Y, 0, NAN),
        "infinite": put(Y, 0, INF),
        "complex": Y.astype(complex),
        "masked": masked(Y),
        "objects": np.full(30, None),
        "ragged": [[1], [1, 2]] * 15,
        "a number": 1,
    },
    "users": {
        "none among them": [None, *USERS[1:].tolist()],
        "nan": put(USERS, 0, NAN),
        "mixed": ["a", *USERS[1:].tolist()],
        "short": USERS[:-1],
        "column": USERS[:, None],
        "complex": USERS.astype(complex),
        "masked": masked(USERS),
        "dictionaries": [{"name": 1}] * 30,
        "ragged": [[1], [1, 2]] * 15,
        "halves": USERS + 0.5,
        "infinite": put(USERS, 0, INF),
        "a number": 3,
        "a text": "everybody",
        "missing text": ["", *["a"] * 29],
        "bytes": USERS.astype("S"),
        "400 digits": [DIGITS] * 30,
        "beyond floats": np.full(30, 1e300),
    },
    "sample_weight": {
        "negative": put(np.ones(30), 0, -1),
        "zero": np.zeros(30),
        "nan": put(np.ones(30), 0, NAN),
        "infinite": put(np.ones(30), 0, INF),
        "short": np.ones(29),
        "column": np.ones((30, 1)),
        "text": ["1"] * 30,
        "complex": np.ones(30, dtype=complex),
        "masked": masked(np.ones(30)),
        "none among them": [None] * 30,
        "ragged": [[1], [1, 2]] * 15,
        "bytes": [b"1"] * 30,
        "400 digits": [DIGITS] * 30,
    },
    "items": {
        "none": None,
        "flat": ITEMS.ravel(),
        "three axes": ITEMS[None],
        "no rows": ITEMS[:0],
        "no features": ITEMS[:, :0],
        "ragged": [[1.0, 2.0], [3.0]],
        "text": ITEMS.astype(str).astype(object) + "x",
        "nan": put(ITEMS, 0, NAN),
        "infinite": put(ITEMS, 0, INF),
        "complex": ITEMS.astype(complex),
        "masked": masked(ITEMS),
        "objects": np.full((8, 2), None),
        "sparse": sparse.csr_matrix(ITEMS),
        "frame of text": pd.DataFrame({"a": list("abcdefgh"), "b": range(8)}),
        "a dictionary": {"a": ITEMS[:, 0]},
        "dates": np.arange(16).reshape(8, 2).astype("datetime64[D]"),
        "fewer": ITEMS[:3],
        "bytes": ITEMS.astype("S"),
        "text of numbers": ITEMS.astype(str),
        "400 digits": [[DIGITS, 1]] * 8,
        "1e150": ITEMS * 1e150,
        "1e-160": ITEMS * 1e-160,
        "1e300": ITEMS * 1e300,
        "1e-300": ITEMS * 1e-300,
        "one feature of 1e200": ITEMS * [1.0, 1e200],
    },
}
ODD = {
    "text": "x", "array": np.arange(3.0), "list": [1], "object": object(), "complex": 1j, "nan": NAN, "bytes": b"1",
    "400 digits": DIGITS,
}  # fmt: skip
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "ideal": {
        "loss": ODD,
        "beta": ODD | {"negative": -1.0, "zero": 0.0},
        "metric_bound": ODD | {"negative": -1.0, "zero": 0.0, "infinite": INF, "True": True},
        "ideal_bound": ODD | {"negative": -1.0, "infinite": INF},
        "norm": ODD,
        "fixed_metric": ODD
        | {
            "1e300": 1e300 * np.eye(2),
            "bytes inside": np.eye(2).astype("S"),
            "masked": masked(np.eye(2)),
            "400 digits inside": [[DIGITS, 0], [0, 1]],
            "text of numbers": [["1", "0"], ["0", "1"]],
        },
        "progress": ODD | {"five": 5},
        "tol": ODD | {"negative": -1.0, "zero": 0.0},
        "max_iter": ODD | {"half": 1.5, "text": "1", "zero": 0, "True": True},
        "random_state": ODD | {"negative": -1},
        "cv": ODD | {"one": 1},
        "memory": ODD | {"infinite": INF, "negative": -1},
    },
    "matched": {
        "loss": ODD,
        "beta": ODD,
        "max_mismatch": ODD | {"negative": -1.0},
        "constraint": ODD,
        "ridge": ODD | {"negative": -1.0, "infinite": INF},
        "tol": ODD,
        "max_iter": ODD | {"half": 2.5},
    },
    "population": {
        "loss": ODD,
        "beta": ODD | {"negative": -1.0, "infinite": INF},
        "covariance": ODD,
        "constraint": ODD,
        "ridge": ODD | {"negative": -1.0},
        "rank": ODD | {"half": 1.5, "text": "1", "zero": 0, "True": True, "more": 9},
        "starts": ODD | {"half": 1.5, "zero": 0},
        "integration": ODD,
        "jobs": ODD | {"half": 1.5, "zero": 0, "True": True},
        "tol": ODD,
        "max_iter": ODD,
        "memory": ODD | {"infinite": INF, "zero": 0, "words": "much", "unit": "2XB"},
        "progress": ODD | {"five": 5},
        "random_state": ODD | {"negative": -1},
        "item_effects": {"text": "x", "list": [1], "array": np.arange(3.0)},
    },
    "stitched": {
        "loss": ODD,
        "beta": ODD,
        "rank": ODD | {"half": 1.5, "zero": 0},
        "stitch": ODD,
        "subspaces": {
            "text": "x",
            "short": LABELS[:3],
            "objects": [object()] * 8,
            "empty": [],
            "nan": put(LABELS, 0, NAN),
            "complex": LABELS.astype(complex),
            "number": 3,
        },
        "metric_bound": ODD,
        "max_iter": ODD,
        "n_subspaces": ODD,
    },
    "taste": {
        "structure": ODD,
        "shape": ODD,
        "tol": ODD | {"negative": -1.0, "zero": 0.0},
        "max_iter": ODD | {"half": 1.5, "zero": 0, "True": True},
        "uncertainty": ODD,
        "warm_start": ODD,
        "sharpen": ODD,
    },
}


def fits() -> Iterator[Case]:
    for name in FITTED:
        for what, values in BAD.items():
            for kind, value in values.items():
                yield f"{name}: {what} {kind}", partial(fit, name, **{what: value})
        for option, values in OPTIONS[name].items():
            for kind, value in values.items():
                yield f"{name}: {option}={kind}", partial(fit, name, **{option: value})


# Values with which nothing is wrong but their size, or that say what a fit can do without: these may also succeed.
MAY_SUCCEED = (
    "items 1e", "items one feature of 1e200", "=infinite", "users halves", "y real", "items fewer", "memory=400 digits",
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- extreme sizes

EXTREMES: list[Case] = [
    *(
        (f"{name}: beta={beta:g}", partial(fit, name, beta=beta))
        for name in FITTED
        if name != "taste"  # which learns it
        for beta in (1e-300, 1e-12, 1e10, 1e300)
    ),
    *(
        (f"{name}: weights of {weight:g}", partial(fit, name, sample_weight=np.full(30, weight)))
        for name in FITTED
        for weight in (1e-300, 1e-12, 1e6, 1e300)
    ),
    *(
        (f"ideal: bounds of {x:g}", partial(fit, "ideal", metric_bound=x, ideal_bound=x))
        for x in (1e-300, 1e-9, 1e9, 1e300)
    ),
    *(
        (f"{name}: tol={tol:g}", partial(fit, name, tol=tol))
        for name in ("ideal", "matched", "population")
        for tol in (1e-300, 1e300)
    ),
    *(
        (f"{name}: items of {x:g}", partial(fit, name, items=ITEMS * x))
        for name in FITTED
        for x in (1e-20, 1e-6, 1e6, 1e20)
    ),
]

# ---------------------------------------------------------------------------------------------- tables of answers

GOOD = {"users": [1, 1, 2], "left": [0, 1, 2], "right": [1, 2, 0], "choice": ["left", "right", "tie"]}
ARRAYS: dict[str, dict[str, Any]] = {
    "users ragged": {"users": [[1], [1, 2], 3]},
    "users of dictionaries": {"users": [{}, {}, {}]},
    "users mixed": {"users": [1, "a", 2]},
    "users complex": {"users": np.array([1j, 2, 3])},
    "users too few": {"users": [1, 2]},
    "users a number": {"users": 1},
    "users of dates": {"users": np.array(["2020-01-01"] * 3, dtype="datetime64[D]")},
    "left missing": {"left": None},
    "left halves": {"left": [0.5, 1.5, 2.5]},
    "left mixed": {"left": [0, "a", 2]},
    "left infinite": {"left": [INF, 1, 2]},
    "left huge": {"left": [2**70, 1, 2]},
    "left beyond rows": {"left": [10**9, 1, 2]},
    "no answer": {"choice": None},
    "two answers": {"response": [1, -1, 1]},
    "choice of booleans": {"choice": [True, False, True]},
    "choice of numbers": {"choice": [5, 6, 7]},
    "choice complex": {"choice": np.array([1j, 0, 0])},
    "choice of lists": {"choice": [[1], [0], [1]]},
    "choice too long": {"choice": ["left"] * 4},
    "weight text": {"weight": ["a", "b", "c"]},
    "weight negative": {"weight": [-1, -1, -1]},
    "weight zero": {"weight": [0, 0, 0]},
    "weight infinite": {"weight": [INF, INF, INF]},
    "items and ids": {"n_items": 3, "item_ids": [0, 1, 2]},
    "n_items half": {"n_items": 2.5},
    "n_items text": {"n_items": "3"},
    "n_items True": {"n_items": True},
    "n_items negative": {"n_items": -1},
    "n_items whole float": {"n_items": 2.0},
    "n_items 10**18": {"n_items": 10**18},
    "n_items 400 digits": {"n_items": DIGITS},
    "left 400 digits": {"left": [DIGITS, 1, 2]},
    "left beyond floats": {"left": [1e300, 1, 2]},
    "users 400 digits": {"users": [DIGITS, 1, 2]},
    "weight 400 digits": {"weight": [DIGITS, 1, 2]},
    "users masked": {"users": masked([1, 1, 2, 2])[1:]},
    "left masked": {"left": masked([1, 0, 1, 2])[1:]},
    "choice masked": {"choice": masked(["x", "left", "right", "tie"])[1:]},
    "item_ids masked": {"item_ids": masked([0, 1, 2, 3])},
    "choice of bytes": {"choice": [b"left", b"right", b"tie"]},
    "users of bytes": {"users": np.array([b"1", b"1", b"2"])},
    "item_ids repeated": {"item_ids": [0, 0, 1]},
    "item_ids ragged": {"item_ids": [[0], [1, 2]]},
    "item_ids of text": {"item_ids": ["0", "1", "2"]},
    "user_ids missing": {"user_ids": [1, None]},
    "user_ids of nobody": {"user_ids": [7, 8]},
    "on_bad": {"on_bad": "ignore"},
    "items a number": {"items": 3},
    "items flat": {"items": [1.0, 2.0]},
}


def fitted_to_table(name: str, **changed: Any) -> Any:
    return FITTED[name](ITEMS).fit(Comparisons.from_arrays(USERS, PAIRS, Y, n_items=8, **changed))


def from_arrays(**changed: Any) -> Comparisons:
    return Comparisons.from_arrays(**(GOOD | changed))


TRIPLETS = {"anchor": [0, 1], "left": [1, 2], "right": [2, 0], "choice": ["left", "right"]}
JUDGED: dict[str, dict[str, Any]] = {
    "anchor missing": {"anchor": None},
    "anchor mixed": {"anchor": [0, "a"]},
    "left halves": {"left": [0.5, 1.5]},
    "no answer": {"choice": None},
    "choice unreadable": {"choice": ["up", "down"]},
    "choice of booleans": {"choice": [True, False]},
    "weight text": {"weight": ["a", "b"]},
    "both options one item": {"right": [1, 2]},
    "n_left alone": {"choice": None, "n_left": [1, 2]},
    "n_left more than n": {"choice": None, "n_left": [3, 4], "n": [1, 1]},
    "counts negative": {"choice": None, "n_left": [-1, -1], "n_right": [-1, -1]},
    "response 0": {"choice": None, "response": [0, 0]},
    "anchor beyond floats": {"anchor": [1e300, 1.0]},
    "anchor masked": {"anchor": np.ma.masked_array([0, 1], mask=[False, True])},
    "weight infinite": {"weight": [INF, INF]},
    "weight too large": {"weight": [1e300, 1e300]},
    "counts infinite": {"choice": None, "n_left": [INF, INF], "n_right": [1, 1]},
    "counts too large": {"choice": None, "n_left": [1e300, 1], "n_right": [1, 1]},
    "n_items 10**18": {"n_items": 10**18},
}
TRIPLE = np.array([[0, 1, 2], [3, 4, 5], [1, 2, 6]], dtype=float)


def judged(**changed: Any) -> Judgements:
    return Judgements.from_table(
        {name: value for name, value in (TRIPLETS | changed).items() if value is not None and name != "n_items"},
        n_items=changed.get("n_items", 3),
    )


TABLES: list[Case] = [
    *((f"from_arrays: {name}", partial(from_arrays, **changed)) for name, changed in ARRAYS.items()),
    *((f"judgements: {name}", partial(judged, **changed)) for name, changed in JUDGED.items()),
    *(
        (f"from_table: {type(table).__name__}", partial(Comparisons.from_table, table))
        for table in (
            None,
            3,
            [1, 2],
            "no such file.csv",
            "\0.csv",
            "x" * 5000 + ".csv",
            np.zeros((3, 4)),
            {},
            {"user": [1]},
        )
    ),
    *(
        (f"read_items: {name}", partial(read_items, table))
        for name, table in {
            "none": None,
            "number": 3,
            "text": "absent.csv",
            "ragged": [[1], [1, 2]],
            "flat": [1, 2],
            "empty": [],
            "ids alone": {"id": [1, 2]},
            "nan": {"f": [1.0, NAN]},
            "infinite": {"f": [1.0, INF]},
            "lists": {"f": [[1], [2]]},
            "complex": np.array([[1j], [2]]),
            "objects": np.full((2, 2), object()),
            "repeated": {"id": [1, 1], "f": [1, 2]},
            "text feature": {"f": ["a", "b"]},
            "two levels": pd.DataFrame({"f": [1.0]}, index=pd.MultiIndex.from_tuples([(1, 2)])),
            "masked": np.ma.masked_array(ITEMS, mask=ITEMS > 0),
        }.items()
    ),
    ("take: mask too short", lambda: from_arrays().take([True])),
    ("take: beyond", lambda: from_arrays().take([99])),
    ("take: text", lambda: from_arrays().take(["a"])),
    ("from_scan: people", lambda: Comparisons.from_scan(None, people=0)),  # type: ignore[arg-type]
    ("scan_arrow: a list", lambda: Comparisons.scan_arrow([1])),
]

# ------------------------------------------------------------------------------------------------ functions

ANSWERS = Comparisons.from_arrays(USERS, PAIRS, Y, n_items=8)
FUNCTIONS: list[Case] = [
    *(
        (f"whole_number: {value!r}", partial(whole_number, value, "n"))
        for value in (1.0, 1.5, "1", None, True, 0, -1, NAN, [1], np.arange(2), 1j)
    ),
    *(
        (f"positive_number: {value!r}", partial(positive_number, value, "x"))
        for value in (0, -1.0, "1", None, True, NAN, INF, [1.0], np.ones(2), 1j)
    ),
    *(
        (
            f"simulate_crowd: {name}={value!r}",
            partial(
                simulate_crowd,
                **{"dimension": 3, "subspaces": 4, "rank": 1, "users": 3, "comparisons": 2} | {name: value},
            ),
        )
        for name, value in [
            ("beta", NAN),
            ("beta", -1.0),
            ("noise", -1.0),
            ("noise", NAN),
            ("people", "martians"),
            ("beta", DIGITS),
            ("users", 10**18),
            ("dimension", 10**18),
            ("metric", [[DIGITS]]),
        ]
    ),
    *(
        (
            f"design: {name}={value!r}",
            partial(design, ITEMS, **({"people": 5, "answers": 2, "kind": "random"} | {name: value})),
        )
        for name, value in [
            ("people", 0),
            ("people", 1.5),
            ("people", "x"),
            ("answers", 0),
            ("answers", None),
            ("kind", "x"),
            ("beta", NAN),
            ("beta", 0.0),
            ("seed", -1),
            ("doubt", -1.0),
            ("doubt", 1e-60),
            ("people", 10**18),
            ("people", DIGITS),
            ("item_ids", [1, 2]),
        ]
    ),
    *(
        (f"design: items {kind}", partial(design, value, people=5, answers=2, kind="random"))
        for kind, value in BAD["items"].items()
        if kind in ("flat", "no rows", "ragged", "nan", "infinite", "text", "objects", "complex", "masked")
    ),
    *(
        (
            f"plan: {name}={value!r}",
            partial(plan, ITEMS, **({"target": 0.3, "answers": 2, "kinds": ("random",)} | {name: value})),
        )
        for name, value in [("target", 0.0), ("target", NAN), ("target", "x"), ("answers", 0), ("kinds", ("x",))]
    ),
    *(
        (f"diagnose: items {kind}", partial(diagnose, value, ANSWERS))
        for kind, value in BAD["items"].items()
        if kind in ("flat", "no rows", "ragged", "nan", "infinite", "text", "objects", "complex", "fewer", "masked")
    ),
    *(
        (
            f"evaluate: {name}={value!r}",
            partial(evaluate, ITEMS, ANSWERS, **({"models": ["identity"], "jobs": 1} | {name: value})),
        )
        for name, value in [
            ("models", ["x"]),
            ("repeats", 0),
            ("repeats", 1.5),
            ("splits", "pairs"),
            ("splits", ["x"]),
            ("jobs", 0),
            ("jobs", "x"),
            ("jobs", DIGITS),
            ("time_limit", DIGITS),
            ("time_limit", "x"),
            ("after_fit", 5),
        ]
    ),
    *(
        (f"ItemMap: components={value!r}", lambda value=value: ItemMap(components=value).fit(ITEMS))
        for value in (0, -1, 9, 1.5, "x", NAN, True, [1])
    ),
    ("save_model: no parent", lambda: save_model("/no/such/folder/model", fit("ideal"))),
    ("save_model: ids", lambda: save_model("/tmp/never", fit("ideal"), item_ids=[1])),
    ("save_model: names", lambda: save_model("/tmp/never", fit("ideal"), feature_names=["a"])),
    *((f"load_model: {place!r}", partial(load_model, place)) for place in ("/no/such/model", "/tmp", "/dev/null", "")),
    *(
        (f"{read.__name__}: {place!r}", partial(read, place))
        for read in (load_sushi, load_movielens, load_jester)
        for place in ("/no/such", "/dev/null")
    ),
    ("SimilarityMetric: no judgements", lambda: SimilarityMetric(ITEMS).fit(ANSWERS)),
    ("SimilarityMetric: items", lambda: SimilarityMetric(ITEMS[:2]).fit(judged())),
    ("users forgotten", lambda: fit("population", pairs=np.tile(PAIRS, (50, 1)), y=np.tile(Y, 50), users=None)),
]

# ------------------------------------------------------------- judgements, designs that learn, fitted models

WHOLE = ODD | {"half": 1.5, "zero": 0, "True": True, "negative": -1, "10**18": 10**18}
POSITIVE = ODD | {"negative": -1.0, "zero": 0.0, "infinite": INF}
SHARE = ODD | {"negative": -0.5, "two": 2.0}
MATRIX = ODD | {"negative": -np.eye(2), "larger": np.eye(3), "lopsided": np.array([[1.0, 2.0], [0.0, 1.0]])}
SEED = ODD | {"negative": -1, "half": 1.5, "True": True}
SIMILAR = simulate_judgements(ITEMS, None, 60, seed=0).judgements
BAD_ITEMS = {kind: value for kind, value in BAD["items"].items() if not kind.startswith(("1e", "one feature", "fewer"))}


def similar(items: Any = ITEMS, **options: Any) -> SimilarityMetric:
    return SimilarityMetric(items, **options).fit(SIMILAR)


def live(items: Any = ITEMS, **options: Any) -> LiveDesign:
    return LiveDesign(items, **options)


def told(answers: Any) -> None:
    LiveDesign(ITEMS).tell("ann", answers)


def asked_next(items: Any = ITEMS, told: Any = ANSWERS, **options: Any) -> Any:
    return next_questionnaire(items, told, **({"people": 5} | options))


def designed(items: Any = ITEMS, answers: Any = 20, **options: Any) -> Any:
    return design_judgements(items, answers, **options)


def planned(items: Any = ITEMS, judgements: Any = SIMILAR, metric: Any = None, **options: Any) -> Any:
    return plan_judgements(items, judgements, np.eye(2) if metric is None else metric, **options)


def simulated(items: Any = ITEMS, dimension: Any = None, questions: Any = 9, **options: Any) -> Any:
    return simulate_judgements(items, dimension, questions, **options)


def evaluated(items: Any = ITEMS, judgements: Any = SIMILAR, **options: Any) -> Any:
    return evaluate_similarity(items, judgements, **options)


NEWER: dict[Callable[..., Any], dict[str, dict[str, Any]]] = {
    similar: {
        "items": BAD_ITEMS, "structure": ODD, "rank": ODD | {"half": 1.5, "zero": 0, "True": True, "more": 9},
        "link": ODD,
        "lapse": ODD | {"one": 1.0, "negative": -0.1, "True": True, ".999": 0.999}, "people": ODD, "beta": POSITIVE,
        "uncertainty": ODD, "folds": WHOLE, "tol": POSITIVE, "max_iter": WHOLE, "random_state": SEED,
    },
    live: {
        "items": BAD_ITEMS, "answers": WHOLE, "item_ids": {"short": [1, 2], "repeated": [1] * 8}, "random_share": SHARE,
        "within": POSITIVE, "shape": ODD, "settle": ODD | {"pair": (1, 2), "unknown": ((0, 1), (2, 99))},
        "budget": WHOLE, "covariance": ODD, "beta": POSITIVE, "metric": MATRIX, "doubt": ODD | {"negative": -1},
        "ideal_points": ODD | {"other space": np.ones((3, 5))}, "adapt": ODD, "seed": SEED,
    },
    told: {
        "answers": {
            "none": None, "number": 3, "text": "left", "pairs": [(0, 1)], "unknown": [(0, 99, "left")],
            "choice": [(0, 1, "up")], "nan": [(0, 1, NAN)], "list": [(0, 1, [1])], "dictionary": [{"left": 0}],
        }
    },
    asked_next: {
        "items": BAD_ITEMS, "told": ODD | {"none": None, "judgements": SIMILAR}, "people": WHOLE, "answers": WHOLE,
        "random_share": SHARE, "covariance": ODD, "beta": POSITIVE, "item_ids": {"short": [1]}, "seed": SEED,
    },
    designed: {
        "items": BAD_ITEMS, "answers": WHOLE, "people": WHOLE, "metric": MATRIX, "kind": ODD, "way": ODD,
        "item_ids": {"short": [1]}, "beta": POSITIVE, "link": ODD, "seed": SEED,
    },
    planned: {
        "items": BAD_ITEMS | {"fewer": ITEMS[:3]}, "judgements": ODD | {"none": None, "comparisons": ANSWERS},
        "metric": MATRIX, "beta": POSITIVE, "link": ODD,
    },
    simulated: {
        "items": BAD_ITEMS | {"half": 2.5, "zero": 0}, "dimension": ODD | {"zero": 0, "other": 3}, "questions": WHOLE,
        "kind": ODD, "metric": MATRIX, "people": WHOLE, "spread": ODD | {"negative": -1.0}, "beta": POSITIVE,
        "lapse": SHARE, "link": ODD, "seed": SEED,
    },
    evaluated: {
        "items": BAD_ITEMS, "judgements": ODD | {"none": None, "comparisons": ANSWERS},
        "models": ODD | {"unknown": ["x"], "empty": [], "repeated": ["full", "full"]},
        "splits": ODD | {"unknown": ["x"], "empty": []}, "folds": WHOLE, "seed": SEED, "link": ODD,
        "after_fit": {"five": 5},
    },
}  # fmt: skip


@cache
def fitted(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)
        return similar() if name == "similarity" else fit(name)


def used(name: str, use: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Use a fitted model, which is made when it is first needed."""
    return use(fitted(name), *given, **options)


def after_locating(name: str, use: str, *given: Any, **options: Any) -> Any:
    return getattr(locate(fitted(name), PAIRS, Y, users=USERS), use)(*given, **options)


def judged_in_arrays(value: Any) -> Iterator[Case]:
    """Yield judgements in arrays with a value where an item is named."""
    triples = put(TRIPLE, 0, value)
    yield f"triplets of {value}: fit", lambda: SimilarityMetric(ITEMS).fit(triples)
    yield f"triplets of {value}: predict", partial(used, "similarity", lambda m, v: m.predict(v), triples)
    yield f"triplets of {value}: vectors", lambda: SimilarityMetric().fit(np.full((4, 3, 2), value))


def predicting(pairs: dict[str, Any]) -> Iterator[Case]:
    """Yield questions to fitted models that cannot be answered."""
    for name in ("population", "taste", "similarity"):
        for kind, value in pairs.items():
            for use in ("predict", "predict_proba"):
                yield f"{use} {name}: {kind}", partial(used, name, lambda m, v, use=use: getattr(m, use)(v), value)
            yield f"distances {name}: {kind}", partial(used, name, intervals.distances, value)
        for kind, value in ODD.items():
            yield f"linear_head {name}: rank={kind}", partial(used, name, linear_head, rank=value)
            yield f"distances {name}: level={kind}", partial(used, name, intervals.distances, PAIRS, value)
        for kind, value in BAD["users"].items():
            if name != "similarity" and kind != "halves":
                yield (
                    f"{name}: predict users {kind}",
                    partial(used, name, lambda m, v: m.predict(PAIRS, users=v), value),
                )


def locating(pairs: dict[str, Any]) -> Iterator[Case]:
    """Yield what located people cannot be asked."""
    for name in ("population", "taste"):
        for kind, value in ODD.items():
            yield f"rank_items {name}: top={kind}", partial(after_locating, name, "rank_items", top=value)
        for kind, value in pairs.items():
            yield f"probability {name}: {kind}", partial(after_locating, name, "probability", value)
            if kind != "none":
                yield f"next_question {name}: {kind}", partial(after_locating, name, "next_question", value)


# Questions that compare an item with itself have an answer: a toss-up.
UNANSWERABLE = {kind: value for kind, value in BAD["pairs"].items() if kind != "all the same"}
LATER: list[Case] = [
    *(
        (f"{use.__name__}: {option} {kind}", partial(use, **{option: value}))
        for use, options in NEWER.items()
        for option, values in options.items()
        for kind, value in values.items()
    ),
    *predicting(UNANSWERABLE),
    *locating(UNANSWERABLE),
    *(
        (f"{use.__name__}: {value!r}", partial(use, value))
        for use in (linear_head, locate, item_coordinates, coefficients_of, feature_importance)
        for value in (None, 3, "model")
    ),
    *(
        (f"{use.__name__}: an estimator", partial(used, "population", use))
        for use in (item_coordinates, coefficients_of, feature_importance)
    ),
    ("agreement: none", partial(used, "population", agreement, None)),
    *(case for value in (INF, NAN, 1e300, -1.0, 0.5) for case in judged_in_arrays(value) if "0.5: v" not in case[0]),
    *(
        (
            f"score: weights of {value}",
            partial(used, "similarity", lambda m, v: m.score(SIMILAR, sample_weight=v), value),
        )
        for value in (INF, NAN, 1e300, -1.0)
    ),
    *(
        (f"{kind} of answers 1e300: {name}", partial(fitted_to_table, name, **{kind: np.full(30, 1e300)}))
        for name in ("population", "matched")
        for kind in ("weight",)
    ),
    ("from_triplets: masked", lambda: Judgements.from_triplets(masked(TRIPLE.astype(int)))),
    ("from_triplets: beyond floats", lambda: Judgements.from_triplets(put(TRIPLE, 0, 1e300))),
    ("from_arrays: masked pairs", lambda: Comparisons.from_arrays(USERS, masked(PAIRS), Y)),
    ("from_table: one column twice", lambda: Comparisons.from_table(pd.DataFrame(GOOD), user="left", left="left")),
    ("from_table: triplets", lambda: Comparisons.from_table(TRIPLETS | {"user": [1, 2]})),
    ("transform: masked", partial(used, "population", lambda m: m.transform(masked(ITEMS)))),
    ("transform: bytes", partial(used, "population", lambda m: m.transform(ITEMS.astype("S")))),
    ("ItemMap: masked", lambda: ItemMap().fit(masked(ITEMS))),
    ("ItemMap: bytes", lambda: ItemMap().fit(ITEMS.astype("S"))),
]

CASES = [*fits(), *EXTREMES, *TABLES, *FUNCTIONS, *LATER]


def test_there_are_enough_cases() -> None:
    names = [name for name, _ in CASES]
    assert len(set(names)) > 1500


@pytest.mark.parametrize("number", range(len(CASES)), ids=[name for name, _ in CASES])
def test_bad_input_ends_in_our_error_or_in_the_right_answer(number: int) -> None:
    name, run = CASES[number]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # NumPy's and SciPy's
        warnings.simplefilter("ignore", CrowdmetricWarning)
        try:
            found = run()
        except CrowdmetricError as error:
            assert len(str(error)) > 20, "a message names the value, the expectation and the remedy"  # noqa: PT017
            return
    assert CASES[number] in EXTREMES or any(part in name for part in MAY_SUCCEED), f"{name} was accepted"
    assert np.all(np.isfinite(found.metric_))


# ------------------------------------------------------------------------------------------------- commands


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with good tables, a saved model, and many bad files."""
    folder = tmp_path_factory.mktemp("bad")
    write_columns({"item_id": np.arange(8), "f0": ITEMS[:, 0], "f1": ITEMS[:, 1]}, folder / "items.csv")
    choice = np.where(Y < 0, "left", "right")
    write_columns({"user": USERS, "left": PAIRS[:, 0], "right": PAIRS[:, 1], "choice": choice}, folder / "answers.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)
        save_model(folder / "model", fit("population"))
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    with zipfile.ZipFile(folder / "empty.zip", "w"):
        pass
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ratings.csv", b"0" * (1 << 27))
    with zipfile.ZipFile(folder / "header.zip", "w") as archive:
        archive.writestr("ratings.csv", "userId,movieId,rating,timestamp\n")
        archive.writestr("movies.csv", "movieId,title,genres\n1,A,Drama\n2,B,Comedy\n")
    with zipfile.ZipFile(folder / "huge.zip", "w") as archive:
        archive.writestr("ratings.csv", f"userId,movieId,rating,timestamp\n{10**30},1,3.0,0\n")
        archive.writestr("movies.csv", "movieId,title,genres\n1,A,Drama\n2,B,Comedy\n")
    content = bytearray((folder / "header.zip").read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(mark)
        while at >= 0:
            content[at + offset] |= 1  # says that it is encrypted
            at = content.find(mark, at + 4)
    (folder / "locked.zip").write_bytes(content)
    return folder


FILES: dict[str, bytes] = {
    "empty.csv": b"",
    "blank.csv": b"\n\n",
    "header.csv": b"user,left,right,choice\n",
    "binary.csv": b"\x00\x01\x02",
    "ragged.csv": b"user,left,right,choice\n1,0,1,left\n1,2\n",
    "quote.csv": b'user,left,right,choice\n1,0,1,"left\n',
    "twice.csv": b"user,user,left,right\n1,1,0,1\n",
    "unnamed.csv": b",user,left,right,choice\n0,1,0,1,left\n",
    "strangers.csv": b"user,left,right,choice\n1,77,78,left\n",
    "no-answer.csv": b"user,left,right\n1,0,1\n",
    "codes.csv": b"user,left,right,choice\n" + b"1,0,1,yes\n1,2,3,no\n" * 20,
    "letters.csv": b"user,left,right,choice\nann,x,y,left\n",
    "same.csv": b"user,left,right,choice\n1,0,0,left\n",
    "weights.csv": b"user,left,right,choice,weight\n1,0,1,left,-1\n",
    "list.jsonl": b"[1, 2]\n",
    "deep.jsonl": b"[" * 100_000,
    "text.xlsx": b"not a spreadsheet",
    "cut.xlsx": b"PK\x03\x04",
    "text.parquet": b"PAR1 text",
    "text.npy": b"numpy",
    "table.ods": b"PK",
    "nan-items.csv": b"item_id,f0\n0,1\n1,nan\n",
    "text-items.csv": b"item_id,color\n0,red\n1,blue\n",
    "id-items.csv": b"item_id\n0\n1\n",
    "typo-items.csv": b"item_id,f0\n0,1.0\n1,2.0x\n2,3.0\n",
    "repeated-items.csv": b"item_id,f0\n0,1\n0,2\n",
    "large-items.csv": b"item_id,f0,f1\n" + b"".join(f"{j},1e150,{j}e200\n".encode() for j in range(8)),
}
OF_ANSWERS = [name for name in FILES if "items" not in name and not name.endswith(".npy")]
COMMANDS: list[list[str]] = [
    *([command, "items.csv", name] for command in ("diagnose", "evaluate") for name in OF_ANSWERS),
    *(["fit", "items.csv", name, "--out", "new"] for name in OF_ANSWERS),
    *([command, "model", name] for command in ("predict", "locate") for name in OF_ANSWERS
      if name != "no-answer.csv" and not (command == "predict" and name in ("codes.csv", "weights.csv"))),
    *(["diagnose", name, "answers.csv"] for name in FILES if "items" in name or name.endswith((".npy", ".ods"))),
    *(["fit", name, "answers.csv", "--out", "new"] for name in FILES if "items" in name),
    *(["plan", name] for name in FILES if "items" in name and name != "large-items.csv"),
    *(["import", kind, name, "--out", "new"] for kind in ("sushi", "movielens", "jester")
      for name in ("empty.zip", "bomb.zip", "locked.zip", "header.zip", "huge.zip", "text.xlsx", "absent")),
    *([command, "absent"] for command in ("info",)),
    *(["export", "model", "--out", name] for name in ("absent/head.npz", "model.npz/head.csv")),
    ["export", "model", "--out", "head.npz", "--rank", "0"],
    ["export", "model", "--out", "model", "--format", "npz"],
    ["fit", "items.csv", "answers.csv", "--out", "absent/model"],
    ["fit", "items.csv", "answers.csv", "--out", "items.csv"],
    ["fit", "items.csv", "answers.csv", "--out", "new", "--beta", "nan"],
    ["fit", "items.csv", "answers.csv", "--out", "new", "--beta", "1e300"],
    ["fit", "items.csv", "answers.csv", "--out", "new", "--memory", "much"],
    ["fit", "items.csv", "answers.csv", "--out", "new", "--columns", "left=right,right=right"],
    ["diagnose", "items.csv", "answers.csv", "--columns", "user=left,left=left"],
    ["fit", "items.csv", "answers.csv", "--out", "new", "--pca", "99"],
    ["fit", "items.csv", "answers.csv", "--out", "new", "--labels", "answers.csv"],
    ["fit", "items.csv", "answers.csv", "--out", "new", "--names", "absent.csv"],
    ["evaluate", "items.csv", "answers.csv", "--models", "martians"],
    ["evaluate", "items.csv", "answers.csv", "--jobs", "0"],
    ["evaluate", "items.csv", "answers.csv", "--repeats", "0"],
    ["diagnose", "items.csv", "answers.csv", "--categorical", "color"],
    ["simulate", "--beta", "nan", "--out", "new"],
    ["simulate", "--users", "0", "--out", "new"],
    ["design", "items.csv", "--people", "0", "--out", "q.csv"],
    ["design", "items.csv", "--people", "5", "--out", "items.csv"],
    ["design", "items.csv", "--people", "5", "--out", "absent/q.csv"],
    ["design", "items.csv", "--people", "5", "--out", "q.txt"],
    ["plan", "items.csv", "--error", "-1"],
    ["reproduce", "--runs", "0"],
    ["reproduce", "martians"],
    ["collect", "absent.csv"],
    ["diagnose", "\x1b[31mred\x1b[0m.csv", "answers.csv"],
]  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_ends_in_one_line(
    arguments: list[str], place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    before = sorted(path.name for path in place.iterdir())
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            code = main([*arguments, "--quiet"])
        except SystemExit as end:
            code = int(end.code or 0)
    told = capsys.readouterr().err
    assert code in (1, 2)
    assert "Traceback" not in told
    assert "error: " in told.splitlines()[-1]
    assert "\x1b" not in told
    assert sorted(path.name for path in place.iterdir()) == before


# ---------------------------------------------------------------------------------------------- saved models

ENDED = {"status": "", "converged": True, "objective": 1.0, "gap": None, "iterations": 1, "seconds": 1.0}
EDITS: dict[str, Any] = {
    f"{name}={value!r}": {name: value}
    for name in ("estimator", "parameters", "left_out", "data", "solution", "checksum", "format_version", "format")
    for value in (None, [1], "text", 3, {"x": [1]}, True)
    if not (name == "format_version" and value is True) and not (name == "data" and value == {"x": [1]})
}
EDITS |= {
    "status is a list": {"solution": ENDED | {"status": []}},
    "objective is text": {"solution": ENDED | {"objective": "1"}},
    "iterations missing": {"solution": {name: value for name, value in ENDED.items() if name != "iterations"}},
    "counts are text": {"data": {"answers": "many", "people": 1, "items": 1}},
    "dropped is a list": {"data": {"answers": 1, "people": 1, "items": 1, "dropped": ["a"]}},
    "radii are text": {"radii": "large"},
    "preprocessing is text": {"preprocessing": "none"},
    "preprocessing of nothing": {"preprocessing": {}},
    "unknown estimator": {"estimator": "MagicMetric"},
    "unknown parameter": {"parameters": {"magic": 1}},
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_model_is_refused_in_one_sentence(edit: str, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "model", tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | EDITS[edit]))
    with pytest.raises(CrowdmetricError):
        load_model(tmp_path / "model").estimator()


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '{"format": NaN}', "[" * 100_000, '"text"', "{}"])
def test_what_is_no_description_is_refused(text: str, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "model", tmp_path / "model")
    (tmp_path / "model" / "model.json").write_text(text)
    with pytest.raises(CrowdmetricError, match="is not a crowdmetric model"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("lost", ["state", "owner", "state cut"])
def test_a_checkpoint_that_lacks_something_is_refused(lost: str, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)
        fit("population", checkpoint=path)
        with np.load(path) as archive:
            arrays = dict(archive)
        for name in list(arrays):
            if name.endswith(".state") and lost == "state cut":
                arrays[name] = arrays[name][:2]
            elif name.endswith(lost):
                del arrays[name]
        np.savez(path, **arrays)
        with pytest.raises(CrowdmetricError, match="checkpoint"):
            fit("population", checkpoint=path)
