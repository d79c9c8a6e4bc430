"""Comparisons: the same table from every source, and a sentence for every row that cannot be used."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError, DroppedRowsWarning
from crowdmetric.tables import write_columns
from crowdmetric.tables.answers import PEOPLE

DATA = Path(__file__).parents[2] / "shared" / "data"
PEOPLE_AND_ROWS = {
    "carrots": (102, 4_794),
    "cocktail_compo": (100, 10_237),
    "cocktail_senso": (100, 10_237),
    "cream": (86, 2_683),
    "electricity": (361, 12_924),
    "jester": (1_996, 199_370),
    "perfume": (103, 7_549),
    "train": (235, 2_929),
}

TABLE: dict[str, list[Any]] = {
    "user": ["zoe", "ann", "ann", "bob"],
    "left": ["tea", "mate", "tea", "cola"],
    "right": ["mate", "cola", "cola", "tea"],
    "choice": ["left", "tie", "right", "Left "],
    "weight": [1.0, 2.0, 0.5, 1.0],
}
DRINKS = ["tea", "water", "cola", "mate"]


def from_file(suffix: str) -> Callable[[dict[str, Any], Path, dict[str, Any]], Comparisons]:
    def read(table: dict[str, Any], folder: Path, options: dict[str, Any]) -> Comparisons:
        write_columns(table, folder / f"answers{suffix}")
        return Comparisons.read(folder / f"answers{suffix}", **options)

    return read


def from_arrays(table: dict[str, Any], _: Path, options: dict[str, Any]) -> Comparisons:
    arrays = {name: np.array(values) for name, values in table.items()}
    pairs = np.column_stack([arrays.pop("left"), arrays.pop("right")])
    return Comparisons.from_arrays(arrays.pop("user"), pairs, **arrays, **options)


def from_lists(table: dict[str, Any], _: Path, options: dict[str, Any]) -> Comparisons:
    others = {name: values for name, values in table.items() if name != "user"}
    return Comparisons.from_arrays(table["user"], **others, **options)


# One line a source.
SOURCES: dict[str, Callable[[dict[str, Any], Path, dict[str, Any]], Comparisons]] = {
    "arrays": from_arrays,
    "lists": from_lists,
    "mapping": lambda table, _, options: Comparisons.from_table(table, **options),
    "pandas": lambda table, _, options: Comparisons.from_table(pd.DataFrame(table), **options),
    "polars": lambda table, _, options: Comparisons.from_table(pl.DataFrame(table), **options),
    "arrow": lambda table, _, options: Comparisons.from_table(pa.table(table), **options),
    "csv": from_file(".csv"),
    "csv.gz": from_file(".csv.gz"),
    "parquet": from_file(".parquet"),
}
each_source = pytest.mark.parametrize("source", SOURCES)


def answers(**changed: Any) -> dict[str, Any]:
    """Return a small good table, with columns replaced, or removed by None."""
    table: dict[str, Any] = {"user": [1, 1, 2], "left": [0, 1, 2], "right": [1, 2, 0], "choice": [0, 1, 0]}
    return {name: values for name, values in (table | changed).items() if values is not None}


# -------------------------------------------------------------------------------------- what is read


@each_source
def test_every_source_gives_the_same_comparisons(source: str, tmp_path: Path) -> None:
    table = SOURCES[source](TABLE, tmp_path, {"item_ids": DRINKS})
    assert table.user_ids.tolist() == ["ann", "bob", "zoe"]
    assert table.item_ids.tolist() == DRINKS
    assert table.user.tolist() == [2, 0, 0, 0, 1]
    assert table.left.tolist() == [0, 3, 3, 0, 2]
    assert table.right.tolist() == [3, 2, 2, 2, 0]
    assert table.response.tolist() == [-1, -1, 1, 1, -1]
    assert table.weight.tolist() == [1, 1, 1, 0.5, 1]
    assert table.dropped == {}
    assert [getattr(table, name).dtype.kind for name in ("user", "left", "right")] == ["i", "i", "i"]


@each_source
def test_every_source_drops_the_same_rows(source: str, tmp_path: Path) -> None:
    bad = {
        "user": [1, 1, 2, 3, 3, 4],
        "left": [0, 1, 2, 7, 0, 1],
        "right": [1, 1, 0, 0, 1, 0],
        "choice": ["left", "left", "a", "right", "tie", "0"],
        "weight": [1.0, 1.0, 1.0, 1.0, -1.0, 0.0],
    }
    with pytest.warns(DroppedRowsWarning, match=r"^5 of 6 comparisons cannot be used and are dropped: "):
        table = SOURCES[source](bad, tmp_path, {"n_items": 3})
    assert len(table) == 1
    assert table.user_ids.tolist() == [1]
    assert table.dropped == {
        "unreadable choice": 1,
        "negative or non-finite weight": 1,
        "zero weight": 1,
        "self-comparison": 1,
        "unknown item": 1,
    }


@pytest.mark.parametrize(
    ("answer", "responses", "weights"),
    [
        ({"response": [-1, 1, 1]}, [-1, 1, 1], [1, 1, 1]),
        ({"response": [-0.3, 0.0, 2.5]}, [-0.3, 0.0, 2.5], [1, 1, 1]),
        ({"choice": [0, 1, 0]}, [-1, 1, -1], [1, 1, 1]),
        ({"choice": [0.0, 1.0, 0.0]}, [-1, 1, -1], [1, 1, 1]),
        ({"choice": ["0", "1", "left"]}, [-1, 1, -1], [1, 1, 1]),
        ({"choice": ["left", "RIGHT", "tie"]}, [-1, 1, -1, 1], [1, 1, 0.5, 0.5]),
        ({"probability": [1, 0, 0.75]}, [-1, 1, -1, 1], [1, 1, 0.75, 0.25]),
    ],
)
def test_answers_can_be_written_in_several_ways(answer: Any, responses: Any, weights: Any) -> None:
    table = Comparisons.from_table(answers(choice=None) | answer)
    assert table.response.tolist() == responses
    assert table.weight.tolist() == weights
    assert table == Comparisons.from_arrays([1, 1, 2], [(0, 1), (1, 2), (2, 0)], **answer)


def test_the_winner_becomes_left() -> None:
    table = Comparisons.from_table({"user": [1, 2], "winner": ["b", "a"], "loser": ["a", "c"]})
    assert table.item_ids.tolist() == ["a", "b", "c"]
    assert table.pairs.tolist() == [[1, 0], [0, 2]]
    assert table.response.tolist() == [-1, -1]


@pytest.mark.parametrize("user", PEOPLE)
@pytest.mark.parametrize(("left", "right"), [("left", "right"), ("left_id", "right_id"), ("item_a", "item_b")])
def test_columns_have_a_few_other_names(user: str, left: str, right: str) -> None:
    plain = answers()
    renamed = {user: plain["user"], left: plain["left"], right: plain["right"], "choice": plain["choice"]}
    assert Comparisons.from_table(renamed) == Comparisons.from_table(plain)


def test_columns_can_be_named() -> None:
    plain = answers()
    table = {"who": plain["user"], "user_id": [9, 9, 9], "l": plain["left"], "r": plain["right"]}
    read = Comparisons.from_table(table | {"choice": plain["choice"]}, user="who", left="l", right="r")
    assert read == Comparisons.from_table(plain)


def test_items_can_be_given_in_several_ways(tmp_path: Path) -> None:
    features = np.arange(8.0).reshape(4, 2)
    catalogue = {"item_id": [10, 11, 12, 13], "f": [0.0, 1.0, 2.0, 3.0]}
    write_columns(catalogue, tmp_path / "items.csv")
    pairs = np.array([[0, 1], [1, 2]])
    by_number = [Comparisons.from_arrays([1, 2], pairs, [1, -1], **o) for o in ({"items": features}, {"n_items": 4})]
    by_id = [
        Comparisons.from_arrays([1, 2], pairs + 10, [1, -1], **option)
        for option in (
            {"items": catalogue},
            {"items": pd.DataFrame(catalogue)},
            {"items": tmp_path / "items.csv"},
            {"item_ids": catalogue["item_id"]},
        )
    ]
    assert all(table == by_number[0] for table in by_number)
    assert all(table == by_id[0] for table in by_id)
    assert by_id[0].pairs.tolist() == by_number[0].pairs.tolist() == pairs.tolist()
    assert (by_number[0].n_items, by_id[0].n_items) == (4, 4)


def test_without_a_list_of_items_integers_are_row_numbers_and_text_is_taken_as_found() -> None:
    assert Comparisons.from_arrays([1], [[0, 4]], [1]).item_ids.tolist() == [0, 1, 2, 3, 4]
    assert Comparisons.from_arrays([1], [["b", "a"]], [1]).item_ids.tolist() == ["a", "b"]
    with pytest.warns(DroppedRowsWarning, match=r"unknown item \(first -1 in row 1; there are 5 items, 0…4\)"):
        assert len(Comparisons.from_arrays([1, 1], [[0, 4], [-1, 2]], [1, 1])) == 1
    with pytest.raises(DataError, match="name item 123456789012, but without a list of items"):
        Comparisons.from_arrays([1], [[0, 123456789012]], [1])


def test_people_without_answers_stay_and_others_are_dropped() -> None:
    with pytest.warns(DroppedRowsWarning, match=r"1 × unknown user \(first 2 in row 2; there are 3 users, 5…1\)"):
        table = Comparisons.from_table(answers(), user_ids=[5, 3, 1])
    assert table.user_ids.tolist() == [5, 3, 1]
    assert table.user.tolist() == [2, 2]
    assert table.dropped == {"unknown user": 1}
    assert "answers per person  min 0, median 0, max 2" in table.summary()


def test_one_person_and_one_answer_are_enough() -> None:
    table = Comparisons.from_arrays(["me"], [["a", "b"]], [-1])
    assert (len(table), table.n_users, table.n_items, table.is_binary) == (1, 1, 2, True)


def test_real_responses_are_not_binary() -> None:
    assert not Comparisons.from_arrays([1, 1], [[0, 1], [1, 2]], [0.0, 0.5]).is_binary


@pytest.mark.parametrize("missing", [None, float("nan")])
@pytest.mark.parametrize("column", ["user", "left", "right", "choice", "response", "probability"])
def test_a_missing_value_drops_the_row(column: str, missing: Any) -> None:
    table = answers(choice=None, **{column: [1, 1, 1]}) if column in ("response", "probability") else answers()
    table[column] = [missing, *table[column][1:]]
    with pytest.warns(DroppedRowsWarning, match=rf"1 × missing value \(first in row 0; {column} is empty there\)"):
        read = Comparisons.from_table(table)
    assert read.dropped == {"missing value": 1}
    assert len(read) == 2


@pytest.mark.parametrize(
    ("changed", "reason", "detail"),
    [
        ({"right": [1, 1, 0]}, "self-comparison", "first 1 in row 1"),
        ({"right": [1, 2, 812]}, "unknown item", "first 812 in row 2; there are 800 items, 0…799"),
        ({"left": [0, -1, 2]}, "unknown item", "first -1 in row 1"),
        (
            {"choice": [0, 2, 1]},
            "unreadable choice",
            "first 2 in row 1; a choice is 'left', 'right', 'tie', 0",
        ),
        ({"choice": ["left", "b", "tie"]}, "unreadable choice", "first 'b' in row 1"),
        ({"weight": [1, -2, 1]}, "negative or non-finite weight", "first -2.0 in row 1"),
        ({"weight": [1, None, 1]}, "negative or non-finite weight", "first nan in row 1"),
        ({"weight": [1, np.inf, 1]}, "negative or non-finite weight", "first inf in row 1"),
        ({"weight": [1, 0, 1]}, "zero weight", "first in row 1"),
        ({"choice": None, "response": [1, np.inf, -1]}, "infinite response", "first inf in row 1"),
        ({"choice": None, "probability": [1, 1.5, 0]}, "probability outside [0, 1]", "first 1.5 in row 1"),
    ],
)
def test_every_reason_is_counted_warned_about_and_raised(changed: dict[str, Any], reason: str, detail: str) -> None:
    table = answers(**changed)
    with pytest.warns(DroppedRowsWarning) as caught:
        read = Comparisons.from_table(table, n_items=800)
    assert read.dropped == {reason: 1}
    assert len(caught) == 1
    assert f"1 of 3 comparisons cannot be used and are dropped: 1 × {reason} ({detail}" in str(caught[0].message)
    assert caught[0].filename == __file__
    with pytest.raises(DataError) as refused:
        Comparisons.from_table(table, n_items=800, on_bad="raise")
    assert f"1 of 3 comparisons cannot be used: 1 × {reason} ({detail}" in str(refused.value)
    assert str(refused.value).endswith("leave them out with on_bad='drop'")


def test_a_row_with_several_defects_counts_once() -> None:
    with pytest.warns(DroppedRowsWarning):
        table = Comparisons.from_table(answers(left=[None, 1, 2], choice=["a", 0, 1], weight=[-1, 1, 1]))
    assert table.dropped == {"missing value": 1}


# ---------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        ({"user": None}, {}, "no column 'user' .*, but 'left', 'right', 'choice'; rename the column or"),
        ({}, {"left": "first"}, "no column 'first', but .* pass left="),
        ({"user": None, "person": [1, 1, 1], "rater": [1, 1, 1]}, {}, "'person', 'rater' could all be user"),
        ({"user": None, "left": None}, {}, "no column 'user', 'left' .*; rename the columns or pass user=…, left=…"),
        ({"choice": None}, {}, "given by no column; exactly one of 'response', 'choice', 'probability'"),
        ({"response": [-1, 1, -1]}, {}, "given by 'response', 'choice'; exactly one"),
        (
            {"winner": [0, 2, 2]},
            {},
            "columns 'winner', 'left', 'right', 'choice'; give winner and loser alone",
        ),
        ({"left": None, "right": None, "winner": [0, 1, 2]}, {}, "columns 'winner', 'choice'"),
        (
            {"left": None, "right": None, "winner": [0, 1, 2], "loser": [1, 2, 0]},
            {},
            "columns 'winner', 'loser', 'choice'",
        ),
        ({"choice": None, "response": [True, False, True]}, {}, "response holds True, but responses are −1"),
        (
            {"choice": None, "response": ["left", "right", "1"]},
            {},
            "response holds 'left', .*name the column choice",
        ),
        ({"choice": None, "response": [1, 0, -1]}, {}, "1 responses are 0, .*choice='tie'"),
        ({"choice": None, "response": [1, 0, 0]}, {}, "2 responses are 0, .*name the column choice"),
        ({"choice": [True, False, True]}, {}, "choice holds True and False"),
        ({"choice": None, "probability": ["high", "low", "low"]}, {}, "probability holds 'high'"),
        ({"weight": ["heavy", "light", "light"]}, {}, "weight holds 'heavy', but weights must be numbers"),
        ({"left": ["a", "b", "c"]}, {}, "left holds 'a' and right 1; name items on both sides by integers"),
        ({"left": [0, "b", 2]}, {}, "left must be all whole numbers or all text, but holds 0"),
        ({"user": [1.5, 2.0, 3.0]}, {}, "user must be all whole numbers or all text, but holds 1.5"),
        (
            {"left": ["0", "1", "2"], "right": ["1", "2", "0"]},
            {"n_items": 3},
            "name items like '0', but the item ids are like 0; nothing is guessed: convert one of the two",
        ),
        ({}, {"item_ids": ["0", "1", "2"]}, "name items like 0, but the item ids are like '0'"),
        ({}, {"user_ids": ["1", "2"]}, "name users like 1, but the user ids are like '1'"),
        ({}, {"item_ids": [0, 1, 1]}, "item_ids must differ .*such as 1"),
        ({}, {"user_ids": [1, None]}, "user_ids has 1 missing values"),
        ({}, {"n_items": 0}, "n_items=0 is not a whole number of at least 1"),
        ({}, {"n_items": 3, "item_ids": [0, 1, 2]}, "n_items and item_ids both say which items there are"),
        ({}, {"on_bad": "ignore"}, "on_bad is 'ignore', but must be 'drop' or 'raise'"),
        ({"user": [], "left": [], "right": [], "choice": []}, {}, "has no rows"),
        ({}, {"item_ids": [7, 8]}, r"none of the 3 comparisons can be used: 3 × unknown item"),
        (
            {"left": [None] * 3},
            {"item_ids": ["a"]},
            "none of the 3 comparisons can be used: 3 × missing value",
        ),
        ({"left": [-1, -2, -3], "right": [-2, -3, -1]}, {}, "none of the 3 .*there are 0 items"),
    ],
)
def test_a_defective_table_is_explained(changed: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Comparisons.from_table(answers(**changed), **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [0, 1], [1]), "pairs has 0 in row 0; two items were expected"),
        (([1], ["ab"], [1]), "pairs has 'ab' in row 0"),
        (([1], np.zeros((1, 2, 3)), [1]), r"pairs has shape \(1, 2, 3\); \(T, 2\) was expected"),
        (([1, 2], [[0, 1]], [1]), "equally long, but their lengths are 'user' 2, 'left' 1"),
        (([1], [[0, 1]]), "given by no column"),
        ((None, [[0, 1]], [1]), "user is missing"),
        (([1], None, [1]), "left is missing"),
        (([1], [[0, 1]], [[1]]), r"response holds \[1\], but responses are"),
    ],
)
def test_defective_arrays_are_explained(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Comparisons.from_arrays(*arguments)


def test_pairs_and_sides_exclude_each_other() -> None:
    with pytest.raises(DataError, match="pairs and left/right both name the items"):
        Comparisons.from_arrays([1], [[0, 1]], [1], left=[0])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"user": [0, 3]}, "user goes from 0 to 3, but must be in 0…1"),
        ({"left": [-1, 0]}, "left goes from -1 to 0"),
        ({"right": [0]}, r"the same shape \(T,\), but they are user \(2,\)"),
        ({"weight": [0, 1]}, "weights finite and positive"),
        ({"response": [np.nan, 1]}, "responses must be finite"),
        ({"item_ids": [4, 4]}, "item_ids must differ"),
    ],
)
def test_the_constructor_takes_only_coded_rows(changed: dict[str, Any], message: str) -> None:
    good = {"user": [0, 1], "left": [0, 1], "right": [1, 0], "response": [1, -1], "weight": [1, 1]}
    ids = {"user_ids": ["a", "b"], "item_ids": [4, 5]}
    assert len(Comparisons(**good, **ids)) == 2
    with pytest.raises(DataError, match=message):
        Comparisons(**(good | ids | changed))


# --------------------------------------------------------------------------------- frozen, kept, written


@pytest.fixture
def table() -> Comparisons:
    return Comparisons.from_table(TABLE, item_ids=DRINKS)


@pytest.mark.parametrize("copied", [lambda t: t, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_nothing_can_be_changed(table: Comparisons, copied: Callable[[Comparisons], Comparisons]) -> None:
    table = copied(table)
    for name in ("user", "left", "right", "response", "weight", "user_ids", "item_ids"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(table, name)[0] = getattr(table, name)[1]
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(table, name, None)


def test_the_callers_arrays_stay_theirs() -> None:
    users, pairs, response = np.array([0, 1]), np.array([[0, 1], [1, 0]]), np.array([-1.0, 1.0])
    table = Comparisons.from_arrays(users, pairs, response)
    users[0], pairs[0, 0], response[0] = 1, 9, 9.0
    assert (table.user[0], table.left[0], table.response[0]) == (0, 0, -1.0)


def test_equality_is_about_rows_and_ids(table: Comparisons) -> None:
    assert table == copy.deepcopy(table)
    assert table != table.take([0, 1])
    assert table != Comparisons.from_table(answers())
    assert table != "something else"
    with pytest.raises(TypeError, match="unhashable"):
        hash(table)


def test_take_keeps_the_coding(table: Comparisons) -> None:
    mask = table.user == 0
    for rows in (mask, np.flatnonzero(mask), np.flatnonzero(mask).tolist()):
        some = table.take(rows)
        assert some.user.tolist() == [0, 0, 0]
        assert some.left.tolist() == table.left[mask].tolist()
        assert some.user_ids.tolist() == table.user_ids.tolist()
        assert some.item_ids.tolist() == table.item_ids.tolist()
    assert len(table.take([])) == 0
    assert table.take([]).summary().startswith("0 rows by 3 people on 4 items")
    with pytest.raises(DataError, match=r"the mask has shape \(2,\), but there are 5 comparisons"):
        table.take([True, False])


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_written_table_is_read_back(table: Comparisons, suffix: str, tmp_path: Path) -> None:
    table.write(tmp_path / f"answers{suffix}")
    assert Comparisons.read(tmp_path / f"answers{suffix}", item_ids=DRINKS) == table


@pytest.mark.parametrize("convert", [Comparisons.to_pandas, Comparisons.to_polars, Comparisons.to_arrow])
def test_a_data_frame_holds_the_original_ids(table: Comparisons, convert: Callable[[Comparisons], Any]) -> None:
    frame = convert(table)
    names = getattr(frame, "column_names", None) or list(frame.columns)
    assert list(names) == ["user", "left", "right", "response", "weight"]
    assert np.asarray(frame["left"]).tolist() == ["tea", "mate", "mate", "tea", "cola"]
    assert Comparisons.from_table(frame, item_ids=DRINKS, user_ids=table.user_ids) == table


def test_the_summary_says_what_there_is() -> None:
    rows = answers(
        user=[1, 1, 1, 2, 2],
        left=[0, 0, 1, 2, 2],
        right=[1, 1, 2, 0, 2],
        choice=["left", "left", "tie", "right", 0],
    )
    with pytest.warns(DroppedRowsWarning):
        table = Comparisons.from_table(rows, n_items=1234)
    assert table.summary().splitlines() == [
        "5 rows by 2 people on 1,234 items",
        "  answers per person  min 1, median 2.5, max 4",
        "  items used          3 of 1,234",
        "  responses           −1 or +1",
        "  ties                1",
        "  duplicates          1",
        "  dropped             1 (1 self-comparison)",
    ]
    assert repr(table) == "<Comparisons: 5 rows, 2 people, 1234 items>"


# ------------------------------------------------------------------------------------------- properties

NAMES = st.text("abcxyz", min_size=1, max_size=3)
ROW = st.tuples(NAMES, NAMES, NAMES, st.sampled_from(["left", "right", "tie"])).filter(lambda r: r[1] != r[2])


def of_rows(rows: list[tuple[str, ...]]) -> Comparisons:
    user, left, right, choice = map(list, zip(*rows, strict=True))
    return Comparisons.from_arrays(user, left=left, right=right, choice=choice)


@given(st.lists(ROW, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing_but_their_order(rows: list[tuple[str, ...]], random: Any) -> None:
    shuffled = random.sample(rows, len(rows))
    one, other = of_rows(rows), of_rows(shuffled)
    assert one.user_ids.tolist() == other.user_ids.tolist() == sorted({row[0] for row in rows})
    assert one.item_ids.tolist() == other.item_ids.tolist()
    assert one.summary() == other.summary()
    assert sorted(zip(*one.columns().values(), strict=True)) == sorted(zip(*other.columns().values(), strict=True))


@given(st.lists(ROW, min_size=1, max_size=12))
def test_every_answer_keeps_its_weight_and_its_columns_read_back(rows: list[tuple[str, ...]]) -> None:
    table = of_rows(rows)
    assert table.weight.sum() == len(rows)
    assert Comparisons.from_table(table.columns()) == table


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_a_probability_is_shared_out(probability: list[float]) -> None:
    table = Comparisons.from_arrays([0] * len(probability), [(0, 1)] * len(probability), probability=probability)
    assert np.isclose(table.weight.sum(), len(probability))
    assert np.isclose(table.weight[table.response < 0].sum(), sum(probability))
    assert np.all(table.weight > 0)


def test_a_million_rows_are_one_table() -> None:
    rng = np.random.default_rng(0)
    left = rng.integers(0, 500, 10**6)
    right = (left + rng.integers(1, 500, 10**6)) % 500
    people, y = rng.integers(0, 10_000, 10**6), rng.choice([-1, 1], 10**6)
    table = Comparisons.from_arrays(people, left=left, right=right, response=y)
    assert (len(table), table.n_users, table.n_items) == (10**6, 10_000, 500)


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data sets are not beside the project")
@pytest.mark.parametrize("folder", PEOPLE_AND_ROWS)
def test_real_comparisons_are_read(folder: str) -> None:
    table = Comparisons.read(DATA / folder / "comparisons.csv", items=DATA / folder / "items.csv")
    assert (table.n_users, len(table)) == PEOPLE_AND_ROWS[folder]
    assert table.is_binary
    assert table.dropped == {}
