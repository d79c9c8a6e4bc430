"""Choices, rankings, best and worst: read from tables of every shape, written, read back, and refused with reasons."""

from __future__ import annotations

import json
import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdmetric import Choices, Ratings
from crowdmetric.errors import CrowdmetricError, DataError, DroppedRowsWarning, TableWarning
from crowdmetric.tables import Firsts, column_names, matched, recognize_answers

SHARED = Path(__file__).parents[2] / "shared"
NAN = float("nan")


def sets_of(choices: Choices) -> list[tuple[Any, list[Any], list[int]]]:
    """Return who was asked, the ids of what was shown and the places, question by question."""
    ids = [*choices.item_ids.tolist(), "none"]
    return [
        (choices.user_ids[person], [ids[i] for i in choices.item[a:b]], choices.place[a:b].tolist())
        for person, a, b in zip(choices.user, choices.offsets, choices.offsets[1:], strict=False)
    ]


LONG = {
    "user": ["ann"] * 5 + ["bob"] * 3,
    "question": [1, 1, 1, 2, 2, 1, 1, 1],
    "item": ["tea", "cola", "milk", "cola", "milk", "milk", "tea", "cola"],
}
CHOSEN = [
    ("ann", ["tea", "cola", "milk"], [0, 1, 0]),
    ("ann", ["cola", "milk"], [1, 0]),
    ("bob", ["milk", "tea", "cola"], [0, 0, 1]),
]

# Every shape in which the same three choices are written.
SHAPES: dict[str, dict[str, Any]] = {
    "long, 0 and 1": LONG | {"chosen": [0, 1, 0, 1, 0, 0, 0, 1]},
    "long, empty cells": LONG | {"chosen": [NAN, 1, NAN, 1, NAN, NAN, NAN, 1]},
    "long, booleans": LONG | {"choice": [False, True, False, True, False, False, False, True]},
    "long, words of R": LONG | {"chosen": ["FALSE", "TRUE", "FALSE", "TRUE", "FALSE", "FALSE", "FALSE", "TRUE"]},
    "long, ranks of the first": LONG | {"rank": [NAN, 1, NAN, 1, NAN, NAN, NAN, 1]},
    "wide, ids": {
        "user": ["ann", "ann", "bob"], "a": ["tea", "cola", "milk"], "b": ["cola", "milk", "tea"],
        "c": ["milk", None, "cola"], "chosen": ["cola", "cola", "cola"],
    },
    "wide, letters": {
        "person": ["ann", "ann", "bob"], "A": ["tea", "cola", "milk"], "B": ["cola", "milk", "tea"],
        "C": ["milk", None, "cola"], "chosen": ["B", "a", "c"],
    },
    "wide, names of columns": {
        "user": ["ann", "ann", "bob"], "item_1": ["tea", "cola", "milk"], "item_2": ["cola", "milk", "tea"],
        "item_3": ["milk", None, "cola"], "winner": ["item_2", "item_1", "item_3"],
    },
    "wide, positions": {
        "user": ["ann", "ann", "bob"], "option 1": ["tea", "cola", "milk"], "option 2": ["cola", "milk", "tea"],
        "option 3": ["milk", None, "cola"], "chosen": [2, 1, 3],
    },
    "wide, one cell": {
        "user": ["ann", "ann", "bob"], "shown": ["tea|cola|milk", "cola|milk", "milk|tea|cola"], "best": ["cola"] * 3,
    },
    "wide, ranking strings": {
        "user": ["ann", "ann", "bob"], "shown": ["tea, cola, milk", "cola, milk", "milk, tea, cola"],
        "order": ["cola", "cola", "cola"],
    },
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_of_tables_say_the_same(shape: str) -> None:
    table = SHAPES[shape]
    for source in (table, pd.DataFrame(table), pl.DataFrame(table, strict=False)):
        assert sets_of(Choices.from_table(source, on_bad="raise")) == CHOSEN
    assert recognize_answers(list(table)).kind == "choices"


def test_arrays_say_the_same() -> None:
    shown = [["tea", "cola", "milk"], ["cola", "milk"], ["milk", "tea", "cola"]]
    users = ["ann", "ann", "bob"]
    for answer in ({"chosen": ["cola"] * 3}, {"best": ["cola"] * 3}, {"ranking": [["cola"]] * 3}):
        assert sets_of(Choices.from_arrays(users, shown, **answer)) == CHOSEN
    square = Choices.from_arrays([1, 2], np.array([[0, 1, 2], [3, 4, 5]]), np.array([2, 3]), weight=[1.0, 2.0])
    assert square.item.tolist() == list(range(6))
    assert square.place.tolist() == [0, 0, 1, 1, 0, 0]
    assert square.weight.tolist() == [1.0, 2.0]


def test_best_and_worst_in_every_way() -> None:
    expected = [(0, [5, 6, 7, 8], [0, 1, 0, -1]), (1, [5, 6, 7, 8], [-1, 0, 1, 0])]
    items = np.tile([5, 6, 7, 8], 2)
    best, worst = [0, 1, 0, 0, 0, 0, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0]
    long = {"user": np.repeat([0, 1], 4), "question": np.zeros(8, int), "item": items}
    wide = {"user": [0, 1], "a": [5, 5], "b": [6, 6], "c": [7, 7], "d": [8, 8]}
    tables = [
        long | {"best": best, "worst": worst},
        long | {"best_worst": np.array(best) - np.array(worst)},
        long | {"chosen": best, "worst": worst},
        wide | {"best": [6, 7], "worst": [8, 5]},
        wide | {"best": ["b", "c"], "worst": ["d", "a"]},
    ]
    for table in tables:
        assert sets_of(Choices.from_table(table, item_ids=[5, 6, 7, 8])) == expected
    only = Choices.from_table(long | {"worst": worst}, item_ids=[5, 6, 7, 8])
    assert only.firsts().sign.tolist() == [-1, -1]


def test_none_under_any_name() -> None:
    long = {"user": [1] * 6, "question": [1, 1, 1, 2, 2, 2], "chosen": [1, 0, 0, 0, 0, 1]}
    for called, item in (
        ("none", ["3", "5", "none"] * 2),
        ("No thanks", ["3", "5", "No thanks"] * 2),
        (0, [3, 5, 0] * 2),
    ):
        choices = Choices.from_table(long | {"item": item}, none=called)
        assert sets_of(choices) == [(1, [3, 5, "none"], [1, 0, 0]), (1, [3, 5, "none"], [0, 0, 1])]
        assert choices.has_none
    wide = {"user": [1, 1], "a": [3, 3], "b": [5, 5]}
    for chosen in ([3, "none"], ["a", "none"], ["1", "none"]):  # offered in every question, since it was chosen
        assert sets_of(Choices.from_table(wide | {"chosen": chosen}))[0] == (1, [3, 5, "none"], [1, 0, 0])
    offered_once = Choices.from_table({"user": [1, 1], "a": [3, 3], "b": [5, "none"], "chosen": [3, "none"]})
    assert sets_of(offered_once) == [(1, [3, 5], [1, 0]), (1, [3, "none"], [0, 1])][:2]
    assert Choices.from_table(long | {"item": ["x", "none", "y"] * 2}, none=None).item_ids.tolist() == [
        "none",
        "x",
        "y",
    ]
    with pytest.raises(DataError, match="id of an item"):
        Choices.from_table(long | {"item": ["x", "none", "y"] * 2}, item_ids=["x", "y", "none"])


def test_rankings_whole_and_in_part() -> None:
    table = {"user": [1, 1, 2, 2], "shown": ["a|b|c|d"] * 4, "ranking": ["b>a>c>d", "b>a", "d>a=b>c", "c>a>b=d"]}
    with pytest.warns(TableWarning, match="1 rankings give several alternatives the same rank, first in row 2"):
        choices = Choices.from_table(table)
    assert [places for *_, places in sets_of(choices)] == [[2, 1, 3, 4], [2, 1, 0, 0], [0, 0, 0, 1], [2, 0, 1, 0]]
    assert choices.dropped == {"shared ranks, and what is below them": 1}
    with pytest.raises(DataError, match="break the ties"):
        Choices.from_table(table, on_bad="raise")
    alone = Choices.from_table({"user": [1, 2], "order": ["3>1>2", "2>1"]})
    assert sets_of(alone) == [(1, [3, 1, 2], [1, 2, 3]), (2, [2, 1], [1, 2])]


def test_how_answers_name_alternatives_is_decided_once_or_refused() -> None:
    wide = {"user": [1, 1], "item_1": [1, 2], "item_2": [2, 3], "item_3": [3, 1]}
    with pytest.raises(DataError, match="can be read as items or as the columns"):
        Choices.from_table(wide | {"chosen": [1, 3]})  # the item 3, or the third
    assert sets_of(Choices.from_table(wide | {"chosen": ["item_1", "item_3"]}))[1] == (1, [2, 3, 1], [0, 0, 1])


# ------------------------------------------------------------------------------------------------ bad rows

WIDE = {"user": [1, 1, 2], "a": ["x", "x", "x"], "b": ["y", "y", "y"], "c": ["z", "z", "z"], "chosen": ["x", "y", "z"]}
ROWS = {"user": [1, 1, 1, 1], "question": [1, 1, 2, 2], "item": ["x", "y", "x", "y"], "chosen": [1, 0, 0, 1]}

# What is wrong with one question, and what is said of it.
BAD_ROWS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "an answer that was not shown": (WIDE | {"chosen": ["x", "q", "z"]}, {}, "of the alternatives (first 'q' in row 1"),
    "no answer": (WIDE | {"chosen": ["x", None, "z"]}, {}, "nothing chosen (first in row 1"),
    "an empty set": (WIDE | {"a": ["x", None, "x"], "b": ["y", None, "y"], "c": ["z", None, "z"]}, {}, "in row 1"),
    "a set of one": (WIDE | {"a": ["x", None, "x"], "c": ["z", None, "z"]}, {}, "set of one alternative (first 'y'"),
    "an unknown item": (WIDE | {"c": ["z", "q", "z"]}, {"item_ids": list("xyz")}, "unknown item (first 'q' in row 1"),
    "an unknown person": (WIDE, {"user_ids": [1]}, "unknown user (first 2 in row 2"),
    "nobody": (WIDE | {"user": [1, None, 2]}, {}, "missing value (first in row 1; user"),
    "weight below zero": (WIDE | {"weight": [1, -1, 1]}, {}, "negative or non-finite weight (first -1.0 in row 1"),
    "weight zero": (WIDE | {"weight": [1, 0, 1]}, {}, "zero weight (first in row 1"),
    "best is worst": (
        {name: WIDE[name] for name in ("user", "a", "b", "c")} | {"best": list("xyz"), "worst": list("yyx")},
        {}, "best or ranked and the worst (first in row 1",
    ),
    "ranked twice": ({"user": [1, 2], "shown": ["x|y|z"] * 2, "ranking": ["x>y", "x>x"]}, {}, "twice (first in row 1"),
    "long: two chosen": (ROWS | {"chosen": [1, 0, 1, 1]}, {}, "more than one in the first place (first in row 2"),
    "long: none chosen": (ROWS | {"chosen": [1, 0, 0, 0]}, {}, "nothing chosen (first in row 2"),
    "long: a missing item": (ROWS | {"item": ["x", "y", None, "y"]}, {}, "(first in row 2; item is empty"),
    "long: a missing question": (ROWS | {"question": [1, 1, NAN, NAN]}, {}, "missing value (first in row 2; question"),
    "long: an unreadable flag": (ROWS | {"chosen": ["1", "0", "maybe", "1"]}, {}, "(first 'maybe' in row 2"),
    "long: uneven weights": (ROWS | {"weight": [1, 1, 1, 2]}, {}, "within a question (first 2.0 in row 3"),
    "long: rank zero": (
        {name: ROWS[name] for name in ("user", "question", "item")} | {"rank": [1, 2, 1, 0]},
        {}, "rank below 1 (first 0.0 in row 3",
    ),
    "long: first shared": (
        {name: ROWS[name] for name in ("user", "question", "item")} | {"rank": [1, 2, 1, 1]},
        {}, "more than one in the first place (first in row 2",
    ),
    "long: two worst": (ROWS | {"chosen": [1, 0, 0, 0], "worst": [0, 1, 1, 1]}, {}, "more than one worst (first"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_leaves_out_its_question_with_a_sentence(case: str) -> None:
    table, options, said = BAD_ROWS[case]
    with pytest.warns(DroppedRowsWarning) as caught:
        choices = Choices.from_table(table, **options)
    message = str(caught[0].message)
    assert said in message
    assert message.startswith("1 of ")
    assert sum(choices.dropped.values()) == 1
    assert f"dropped             1 ({next(iter(choices.dropped))})".replace("1 (", "1 (1 ") in choices.summary()
    with pytest.raises(DataError, match="on_bad='drop'"):
        Choices.from_table(table, **options, on_bad="raise")


LISTS = [[0, 1, 2], [1, 2, 3]]
REFUSED: dict[str, Any] = {
    "no user": lambda: Choices.from_table({"a": [1], "b": [2], "chosen": [1]}),
    "no answer": lambda: Choices.from_table({"user": [1], "a": [1], "b": [2]}),
    "long without question": lambda: Choices.from_table({"user": [1, 1], "item": [1, 2], "chosen": [0, 1]}),
    "two ways to answer, wide": lambda: Choices.from_table(WIDE | {"best": ["x", "y", "z"]}),
    "two ways to answer, long": lambda: Choices.from_table(ROWS | {"rank": [1, 2, 2, 1]}),
    "long and wide": lambda: Choices.from_table(WIDE | {"question": [1, 2, 3], "item": ["x", "y", "z"]}),
    "ranks in words": lambda: Choices.from_table(
        {"user": [1, 1], "question": [1, 1], "item": [1, 2], "rank": ["x", "y"]}
    ),
    "two columns for users": lambda: Choices.from_table(
        {"person": [1], "rater": [1], "a": [1], "b": [2], "chosen": [1]}
    ),
    "a name that is not there": lambda: Choices.from_table(WIDE, names={"chosen": "bought"}),
    "no rows": lambda: Choices.from_table({"user": [], "a": [], "b": [], "chosen": []}),
    "none usable": lambda: Choices.from_table(WIDE | {"chosen": [None] * 3}),
    "numbers and none, items of text": lambda: Choices.from_table(
        {"user": [1], "a": [1], "b": ["none"], "chosen": [1]}, item_ids=["a", "b"]
    ),
    "nothing but none": lambda: Choices.from_table(
        {"user": [1], "question": [1], "item": ["none"], "chosen": [1]}, item_ids=["a", "b"]
    ),
    "on_bad": lambda: Choices.from_table(WIDE, on_bad="ignore"),
    "items twice": lambda: Choices.from_table(WIDE, item_ids=list("xyz"), n_items=3),
    "ids of another kind": lambda: Choices.from_table(WIDE, n_items=3),
    "lists as ids": lambda: Choices.from_table(ROWS | {"item": [[1], [2], [3], [4]]}),
    "lists as users": lambda: Choices.from_table(ROWS | {"user": [[1], [2], [3], [4]]}),
    "lists as flags": lambda: Choices.from_table(ROWS | {"chosen": [[1], [2], [3], [4]]}),
    "halves as ids": lambda: Choices.from_table(ROWS | {"item": [0.5, 1, 0.5, 1]}),
    "dates as ids": lambda: Choices.from_table(ROWS | {"item": np.arange(4).astype("datetime64[D]")}),
    "complex users": lambda: Choices.from_table(ROWS | {"user": np.ones(4, complex)}),
    "an item of a billion": lambda: Choices.from_table(ROWS | {"item": [10**9, 1, 2, 3]}),
    "400 digits": lambda: Choices.from_table(ROWS | {"item": [10**400, 1, 2, 3]}),
    "arrays: shown flat": lambda: Choices.from_arrays([1, 2], [0, 1], [0, 1]),
    "arrays: shown a text": lambda: Choices.from_arrays([1], "ab", ["a"]),
    "arrays: shown three axes": lambda: Choices.from_arrays([1], np.zeros((1, 2, 2)), [0]),
    "arrays: shown a number": lambda: Choices.from_arrays([1], 3, [0]),
    "arrays: lengths": lambda: Choices.from_arrays([1], LISTS, [0, 1]),
    "arrays: no answer": lambda: Choices.from_arrays([1, 2], LISTS),
    "arrays: complex": lambda: Choices.from_arrays([1, 2], np.zeros((2, 2), complex), [0, 1]),
    "arrays: masked": lambda: Choices.from_arrays([1, 2], np.ma.masked_array(LISTS, mask=np.eye(2, 3)), [0, 1]),
    "arrays: none at all": lambda: Choices.from_arrays([], [], []),
    "categories of a catalog": lambda: Choices.from_table(WIDE, item_ids=list("xyz"), categorical="all"),
    "features: none there": lambda: Choices.from_table(ROWS, items=["price"]),
    "features: gaps": lambda: Choices.from_table(ROWS | {"price": [1, NAN, 2, 3]}, items=["price"]),
    "features: text": lambda: Choices.from_table(ROWS | {"price": list("abcd")}, items=["price"]),
    "features: wide": lambda: Choices.from_table(WIDE | {"price": [1, 2, 3]}, items=["price"]),
    "features and ids": lambda: Choices.from_table(ROWS | {"price": [1, 2, 1, 3]}, items=["price"], n_items=4),
    "mask": lambda: Choices.from_arrays([1, 2], LISTS, [0, 1]).take([True]),
    "row": lambda: Choices.from_arrays([1, 2], LISTS, [0, 1]).take([7]),
    "built: offsets": lambda: Choices([0], [0, 3], [0, 1], [1, 0], [1.0], [0], [0, 1]),
    "built: item": lambda: Choices([0], [0, 2], [0, 5], [1, 0], [1.0], [0], [0, 1]),
    "built: user": lambda: Choices([3], [0, 2], [0, 1], [1, 0], [1.0], [0], [0, 1]),
    "built: gap in places": lambda: Choices([0], [0, 2], [0, 1], [2, 0], [1.0], [0], [0, 1]),
    "built: place twice": lambda: Choices([0], [0, 2], [0, 1], [1, 1], [1.0], [0], [0, 1]),
    "built: no place": lambda: Choices([0], [0, 2], [0, 1], [0, 0], [1.0], [0], [0, 1]),
    "built: place -2": lambda: Choices([0], [0, 2], [0, 1], [1, -2], [1.0], [0], [0, 1]),
    "built: weight": lambda: Choices([0], [0, 2], [0, 1], [1, 0], [0.0], [0], [0, 1]),
    "built: set of one": lambda: Choices([0, 0], [0, 1, 2], [0, 1], [1, 1], [1.0, 1.0], [0], [0, 1]),
    "built: two axes": lambda: Choices([0], [0, 2], [[0, 1]], [1, 0], [1.0], [0], [0, 1]),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_with_a_sentence(case: str) -> None:
    with pytest.raises(CrowdmetricError) as caught:
        REFUSED[case]()
    message = str(caught.value)
    assert len(message) > 30
    assert "\n" not in message


# ------------------------------------------------------------------------------------- written and read back


@st.composite
def tables(draw: st.DrawFn) -> Choices:
    """Draw choices, rankings, best and worst, of sets of every size, with and without none and weights."""
    ids = draw(st.sampled_from([np.arange(6), np.array(["tea", "cola", "a b", "00", "x|y", "ü"])]))
    form = draw(st.sampled_from(["choice", "ranking", "best_worst"]))
    offsets, item, place, weight = [0], [], [], []
    for _ in range(draw(st.integers(1, 5))):
        shown = draw(st.lists(st.sampled_from([-1, *range(6)]), min_size=2, max_size=5, unique=True))
        depth = 1 if form == "choice" else draw(st.integers(1, len(shown)))
        order = draw(st.permutations(range(len(shown))))
        places = dict(zip(order, range(1, depth + 1), strict=False))
        if form == "best_worst":
            places = {order[0]: 1, order[-1]: -1}
        item += shown
        place += [places.get(position, 0) for position in range(len(shown))]
        offsets.append(len(item))
        weight.append(draw(st.sampled_from([1.0, 0.5, 3.0])))
    users = draw(st.lists(st.integers(0, 2), min_size=len(weight), max_size=len(weight)))
    return Choices(users, offsets, item, place, weight, np.array(["ann", "bob", "cy"]), ids)


@given(tables(), st.sampled_from(["columns", "pandas", "polars", "arrow"]))
def test_frames_are_read_back(choices: Choices, kind: str) -> None:
    frame = choices.columns() if kind == "columns" else getattr(choices, f"to_{kind}")()
    options = {"item_ids": choices.item_ids, "user_ids": choices.user_ids}
    assert Choices.from_table(frame, **options, on_bad="raise") == choices
    assert recognize_answers(list(choices.columns())).kind == "choices"
    shuffled = {name: column[::-1] for name, column in choices.columns().items()}  # rows of a question in any order
    assert sorted(map(sorted_set, sets_of(Choices.from_table(shuffled, **options)))) == sorted(
        map(sorted_set, sets_of(choices))
    )


def sorted_set(one: tuple[Any, list[Any], list[int]]) -> tuple[Any, list[tuple[str, int]]]:
    return one[0], sorted(zip(map(str, one[1]), one[2], strict=True))


@given(tables())
def test_one_row_per_question_says_the_same(choices: Choices) -> None:
    if "x|y" in choices.item_ids.tolist():
        return  # text with the separator of a cell in it
    asked = sets_of(choices)
    rank = choices.place.max() > 1
    firsts = [">".join(str(shown[place.index(n)]) for n in range(1, max(place) + 1)) for _, shown, place in asked]
    table = {
        "user": [user for user, *_ in asked],
        "shown": ["|".join(map(str, shown)) for _, shown, _ in asked],
        "ranking" if rank else "best": firsts,
        "worst": [str(shown[place.index(-1)]) if -1 in place else None for _, shown, place in asked],
        "weight": choices.weight,
    }
    if not np.any(choices.place < 0):
        del table["worst"]
    found = Choices.from_table(table, item_ids=choices.item_ids, user_ids=choices.user_ids, on_bad="raise")
    assert found == choices


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_files_are_read_back(tmp_path: Path, suffix: str) -> None:
    choices = Choices.from_arrays(
        ["u", "u", "v"], [["p", "q", "none"], ["p", "r"], ["r", "q", "none"]], ["none", "p", "r"]
    )
    choices.write(tmp_path / f"table{suffix}")
    assert Choices.read(tmp_path / f"table{suffix}") == choices


def test_questions_are_taken_and_matched_by_id() -> None:
    choices = Choices.from_arrays(["u", "u", "v"], [["p", "q"], ["p", "r", "none"], ["r", "q"]], ["p", "none", "r"])
    assert sets_of(choices.take([True, False, True])) == [sets_of(choices)[i] for i in (0, 2)]
    assert sets_of(choices.take([2, 1])) == [sets_of(choices)[i] for i in (2, 1)]
    assert len(choices.take([])) == 0
    there = matched(choices, np.array(["x", "r", "q", "p"]), 4)
    assert there.item.tolist() == [3, 2, 3, 1, -1, 1, 2]
    assert sets_of(there) == sets_of(choices)
    assert there.used_items().tolist() == [False, True, True, True]
    with pytest.raises(DataError, match="the choices name 1 items"):
        matched(choices, np.array(["q", "p"]), 2)
    with pytest.raises(ValueError, match="read-only"):
        choices.item[0] = 3
    again = pickle.loads(pickle.dumps(choices))
    assert again == choices
    assert not again.item.flags.writeable
    assert repr(choices) == "<Choices: 3 questions, 2 people, 3 items>"


def test_features_of_the_alternative_in_that_question(tmp_path: Path) -> None:
    table = {
        "user": [1] * 6, "question": [1, 1, 1, 2, 2, 2],
        "item": ["car", "bus", "none"] * 2, "chosen": [1, 0, 0, 0, 1, 0],
        "price": [3.0, 1.0, NAN, 4.0, 1.0, NAN], "age": [30] * 6,
    }  # fmt: skip
    with pytest.warns(TableWarning, match="'age' are the same"):
        choices = Choices.from_table(table, items=table, categorical=["item"])
    assert choices.items is not None
    assert choices.items.feature_names == ["item=car", "price"]
    assert choices.items.features.tolist() == [[0.0, 1.0], [1.0, 3.0], [1.0, 4.0]]
    assert choices.items.names is not None
    assert choices.items.names.tolist() == ["bus", "car", "car"]
    assert choices.item.tolist() == [1, 0, -1, 2, 0, -1]
    assert choices == Choices.from_table(table, items=["price"], categorical=["item"]).take([0, 1])
    frame = pd.DataFrame(table).drop(columns="age")
    frame.to_csv(tmp_path / "long.csv", index=False)
    read = Choices.read(tmp_path / "long.csv", items=str(tmp_path / "long.csv"))
    assert read == Choices.from_table(frame, items=frame)
    assert Choices.from_table(frame, items=frame).items.features[:, 0].tolist() == [1.0, 3.0, 4.0]


# ------------------------------------------------------------------------------------------- which answers?


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ("user left right choice", "comparisons"),
        ("user winner loser", "comparisons"),
        ("user item_a item_b response", "comparisons"),
        ("user question item chosen", "choices"),
        ("user task alternative choice price", "choices"),
        ("user question item rank worst", "choices"),
        ("id item_1 item_2 item_3 best worst", "choices"),
        ("user shown chosen", "choices"),
        ("user order", "choices"),
        ("user item rating", "ratings"),
        ("anchor left right choice", "judgements"),
        ("anchor positive negative", "judgements"),
        ("a b c odd", "judgements"),
        ("a b c d choice", "judgements"),
    ],
)
def test_tables_are_recognized_by_their_columns(columns: str, kind: str) -> None:
    found = recognize_answers(columns.split())
    assert found.kind == kind
    assert found.sentence.startswith("one row per ")


@pytest.mark.parametrize(
    "columns",
    [
        "x y",
        "user question item chosen rating",
        "a b c odd chosen",
        "user left right choice item rating",
        "user left right",
    ],
)
def test_tables_of_no_kind_or_of_two_are_refused(columns: str) -> None:
    with pytest.raises(DataError, match=r"expected|all but one kind"):
        recognize_answers(columns.split())


# ------------------------------------------------------------------------------------------------ real ones


def data(name: str) -> Path:
    if not (SHARED / "data" / name).is_dir():
        pytest.skip(f"the data set {name} is not beside the project")
    return SHARED / "data" / name


@pytest.mark.parametrize(
    ("name", "shape", "none"),
    [("cars", (5760, 384, 3), 0), ("camera", (5312, 332, 5), 1343), ("electricity_choices", (4308, 361, 4), 0)],
)
def test_real_choices_are_read_whole(name: str, shape: tuple[int, int, int], none: int) -> None:
    choices = Choices.read(data(name) / "choices.csv.gz", items=data(name) / "items.csv", on_bad="raise")
    assert (len(choices), choices.n_users, *np.unique(choices.sizes)) == shape
    assert np.sum(choices.place[choices.item < 0] == 1) == none
    assert choices.dropped == {}
    assert np.all(choices.firsts().sign == 1)
    assert Choices.from_table(choices.columns(), item_ids=choices.item_ids) == choices


@pytest.mark.parametrize(
    ("name", "file", "kind"),
    [
        ("electricity_choices", "choices.csv.gz", "choices"),
        ("cocktail_ratings", "ratings.csv", "ratings"),
        ("jester", "comparisons.csv", "comparisons"),
        ("faces", "triplets.csv.gz", "judgements"),
        ("materials", "triplets.csv.gz", "judgements"),
    ],
)
def test_real_tables_are_recognized(name: str, file: str, kind: str) -> None:
    assert recognize_answers(column_names(data(name) / file)).kind == kind


# Golden cases: the stages of every form, integrated by brute force, have the golden log-likelihoods.


def log_likelihood(
    case: dict[str, Any], firsts: Firsts, person: int, u: np.ndarray, constant: np.ndarray
) -> np.ndarray:
    """Return the log-likelihood (nodes,) of one person's stages at ideal points u, with the constant of "none"."""
    gaps = np.array(case["items"])[None] - u[:, None]
    utility = -np.einsum("nid,de,nie->ni", gaps, np.array(case["metric"]), gaps)
    utility += np.einsum("nd,de,ne->n", u, np.array(case["metric"]), u)[:, None]
    utility = np.column_stack([utility, constant])  # −1 is the last
    total = np.zeros(len(u))
    for q in np.flatnonzero(firsts.person == person):
        values = firsts.sign[q] * utility[:, firsts.item[firsts.offsets[q] : firsts.offsets[q + 1]]]
        total += values[:, firsts.first[q]] - np.logaddexp.reduce(values, axis=1)
    return total


def test_stages_have_the_golden_likelihoods() -> None:
    path = SHARED / "golden" / "forms.json"
    if not path.is_file():
        pytest.skip("the golden cases are not beside the project")
    checked = set()
    for case in json.loads(path.read_text(encoding="utf-8")):
        form, d = case["people"][0][0]["form"], len(case["ideal_mean"])
        if form == "rating" or d > 2:
            continue
        asked = [(person, answer) for person, answers in enumerate(case["people"]) for answer in answers]
        said: dict[str, Any] = {
            "choice": lambda a: {"chosen": [x["chosen"] for x in a]},
            "choice_or_none": lambda a: {"chosen": ["none" if x["chosen"] is None else x["chosen"] for x in a]},
            "ranking": lambda a: {"ranking": [x["order"] for x in a]},
            "best_worst": lambda a: {"best": [x["best"] for x in a], "worst": [x["worst"] for x in a]},
        }[form]([answer for _, answer in asked])  # fmt: skip
        shown = [[*answer["shown"], *(["none"] if form == "choice_or_none" else [])] for _, answer in asked]
        choices = Choices.from_arrays([person for person, _ in asked], shown, **said, n_items=len(case["items"]))
        axes = d + (form == "choice_or_none")
        nodes = np.linspace(-7.0, 7.0, {1: 400, 2: 140, 3: 70}[axes])  # equal steps converge fast for smooth functions
        grid = np.array(list(product(nodes, repeat=axes)))
        mass = np.exp(-0.5 * np.sum(grid**2, axis=1)) / np.sum(np.exp(-0.5 * nodes**2)) ** axes
        u = np.array(case["ideal_mean"]) + case["ideal_spread"] * grid[:, :d]
        constant = case["constant_mean"] + case["constant_spread"] * (grid[:, d] if axes > d else np.zeros(len(u)))
        for person, expected in enumerate(case["log_likelihood"]):
            value = log_likelihood(case, choices.firsts(), person, u, constant)
            assert np.log(mass @ np.exp(value)) == pytest.approx(expected, abs=1e-6), case["name"]
        checked.add(form)
    assert checked == {"choice", "choice_or_none", "ranking", "best_worst"}


def test_ratings_are_not_choices() -> None:
    with pytest.raises(DataError, match="hold no choices"):
        Choices.from_table(Ratings.from_arrays([1, 1], [1, 2], [3, 4]).columns())
