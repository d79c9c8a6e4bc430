"""Similarity judgements as a table: what is read, merged, set aside and rejected."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from crowdmetric import Judgements
from crowdmetric.errors import DataError, DroppedRowsWarning
from crowdmetric.tables import judgement_kind

DATA = Path(__file__).parents[2] / "shared" / "data"

TABLES = {
    "triplet": {
        "person": ["p", "p", "q"],
        "anchor": [0, 1, 2],
        "left": [1, 2, 0],
        "right": [2, 0, 1],
        "choice": [0, 1, 0],
    },
    "odd_one_out": {"person": ["p", "p", "q"], "a": [0, 1, 2], "b": [1, 2, 3], "c": [2, 3, 0], "odd": [0, 3, 3]},
    "quadruplet": {"a": [0, 1], "b": [1, 2], "c": [2, 3], "d": [3, 0], "n_left": [3, 0], "n_right": [1, 2]},
}
each_kind = pytest.mark.parametrize("kind", TABLES)


@each_kind
def test_columns_say_what_kind_a_table_is(kind) -> None:
    assert judgement_kind(TABLES[kind]) == kind
    assert Judgements.from_table(TABLES[kind]).kind == kind


def test_comparisons_are_no_judgements() -> None:
    assert judgement_kind({"user", "left", "right", "choice"}) is None
    with pytest.raises(DataError, match="no similarity judgements; expected anchor"):
        Judgements.from_table({"user": [0], "left": [1], "right": [2]})


@each_kind
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_what_is_written_is_read_back(kind, suffix, tmp_path) -> None:
    table = Judgements.from_table(TABLES[kind], n_items=4)
    table.write(tmp_path / f"table.{suffix}")
    assert Judgements.read(tmp_path / f"table.{suffix}", n_items=4) == table


@each_kind
@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_data_frames_hold_the_same(kind, library) -> None:
    table = Judgements.from_table(TABLES[kind], n_items=4)
    assert Judgements.from_table(getattr(table, f"to_{library}")(), n_items=4) == table


@pytest.mark.parametrize(
    "answers",
    [
        {"choice": ["left", "right", "tie"]},
        {"probability": [1.0, 0.0, 0.5]},
        {"n_left": [1, 0, 0.5], "n": [1, 1, 1]},
        {"n_left_closer": [1, 0, 0.5], "n_right_closer": [0, 1, 0.5]},
    ],
)
def test_every_way_to_answer_means_the_same(answers) -> None:
    table = Judgements.from_table({"anchor": [0, 0, 1], "left": [1, 2, 0], "right": [3, 3, 3]} | answers)
    assert table.counts.tolist() == [[1, 0], [0, 1], [0.5, 0.5]]


def test_flags_responses_and_closer_mean_the_same() -> None:
    where = {"anchor": [0, 0], "left": [1, 2], "right": [3, 3]}
    tables = [
        Judgements.from_table(where | {"chose_left": [1, 0]}),
        Judgements.from_table(where | {"chose_left": [True, False]}),
        Judgements.from_table(where | {"response": [-1, 1]}),
        Judgements.from_table({"head": [0, 0], "closer": [1, 3], "farther": [3, 2]}),
        Judgements.from_triplets([[0, 1, 3], [0, 3, 2]]),
    ]
    assert all(table == tables[0] for table in tables)


def test_both_orders_of_a_question_are_one() -> None:
    triplets = Judgements.from_triplets([[0, 1, 2], [0, 2, 1], [0, 1, 2]])
    assert triplets.items.tolist() == [[0, 1, 2]]
    assert triplets.counts.tolist() == [[2, 1]]
    pairs = Judgements.from_quadruplets([[0, 1, 2, 3], [3, 2, 1, 0]])
    assert pairs.items.tolist() == [[0, 1, 2, 3]]
    assert pairs.counts.tolist() == [[1, 1]]
    odd = Judgements.from_odd_one_out([[2, 0, 1], [1, 2, 0]], odd=[0, 2])
    assert odd.items.tolist() == [[0, 1, 2]]
    assert odd.counts.tolist() == [[1, 0, 1]]


def test_people_are_not_merged_and_rows_can_be_kept() -> None:
    kept = Judgements.from_triplets([[0, 2, 1], [0, 1, 2]], person=["x", "y"])
    assert len(kept) == 2
    as_given = Judgements.from_triplets([[0, 2, 1], [0, 2, 1]], merge=False)
    assert as_given.items.tolist() == [[0, 2, 1], [0, 2, 1]]


def test_without_an_answer_the_first_of_three_is_odd() -> None:
    assert Judgements.from_odd_one_out([[5, 1, 2]]).counts.tolist() == [[0, 0, 1]]
    named = Judgements.from_table({"a": ["x"], "b": ["y"], "c": ["z"], "odd": ["b"]})
    assert named.counts.tolist() == [[0, 1, 0]]


def test_check_questions_become_a_lapse_rate() -> None:
    table = Judgements.from_triplets([[0, 0, 1], [0, 1, 0], [2, 2, 1], [3, 3, 1], [0, 1, 2]], person=[0, 0, 0, 1, 1])
    assert len(table) == 1
    assert table.checks.asked.tolist() == [3, 1]
    assert table.checks.wrong.tolist() == [1, 0]
    assert table.checks.lapse_rate == pytest.approx(0.5)
    assert "1 of 4 check questions" in table.summary()
    odd = Judgements.from_odd_one_out([[1, 0, 0], [0, 1, 0], [0, 1, 2]])
    assert odd.checks.asked.sum() == 2
    assert odd.checks.wrong.sum() == 1


def test_every_rejected_row_is_counted_with_its_reason() -> None:
    table = {
        "anchor": [0, 0, None, 0, 9, 0, 0],
        "left": [1, 2, 1, 1, 1, 1, 1],
        "right": [2, 2, 2, 2, 2, 2, 2],
        "n_left": [1, 1, 1, 0, 1, 5, -1],
        "n": [1, 1, 1, 0, 1, 2, 1],
    }
    with pytest.warns(DroppedRowsWarning, match="6 of 7 judgements cannot be used"):
        found = Judgements.from_table(table, n_items=4)
    assert found.dropped == {
        "missing value": 1,
        "n_left is more than n": 1,
        "negative or missing count": 1,
        "no answer": 1,
        "unknown item": 1,
        "both options are one item": 1,
    }
    with pytest.raises(DataError, match="6 of 7 judgements cannot be used"):
        Judgements.from_table(table, n_items=4, on_bad="raise")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Judgements.from_triplets([[0, 1]]), r"\(T, 3\) was expected"),
        (lambda: Judgements.from_table({"anchor": [0], "left": [1], "right": [2]}), "exactly one of"),
        (lambda: Judgements.from_table({"a": [0], "b": [1], "c": [2]}), "answered by the column odd"),
        (lambda: Judgements.from_triplets([[0, 0, 1]]), "nothing is left to learn"),
        (lambda: Judgements.from_odd_one_out([[0, 1, 2]], odd=[3]), "odd must be 0, 1 or 2"),
        (lambda: Judgements.from_triplets([[0, 1, 2]], [0], counts=[[1, 0]]), "give one of them"),
        (lambda: Judgements("pair", [[0]], [[1]], [0], [0], [0]), "kind is 'pair'"),
    ],
)
def test_bad_input_is_a_sentence(make, sentence) -> None:
    with pytest.raises(DataError, match=sentence):
        make()


def test_tables_are_frozen_and_survive_pickling() -> None:
    table = Judgements.from_triplets([[0, 1, 2]], response_time=[1.5])
    with pytest.raises(ValueError, match="read-only"):
        table.counts[0] = 2
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert not again.items.flags.writeable
    assert again.response_time.tolist() == [1.5]


def test_real_judgements() -> None:
    if not (DATA / "faces").exists():
        pytest.skip("no shared/data/faces beside the project")
    faces = Judgements.read(DATA / "faces" / "triplets.csv.gz", n_items=36)
    assert faces.n_answers == 37_234
    assert faces.n_people == 39
    assert faces.checks.asked.sum() == 39_468 - 37_234
    assert 0.05 < faces.checks.lapse_rate < 0.1
    assert np.isfinite(faces.response_time).all()
    materials = Judgements.read(DATA / "materials" / "triplets.csv.gz", n_items=100)
    assert materials.n_answers == 104_692
    # the majority's choice is on the left in the file; in order of items that says nothing any more
    assert materials.counts[:, 0].sum() / materials.n_answers < 0.6


def test_rows_that_are_not_there_are_named() -> None:
    table = Judgements.from_table(TABLES["triplet"])
    one = table.take([-1])
    assert len(one) == len(one.take([True])) == len(table.take(np.arange(len(table)) == 0)) == 1
    with pytest.raises(DataError, match=r"the mask has shape \(1,\), but there are 3 judgements"):
        table.take([True])
    with pytest.raises(DataError, match="rows must be a mask or row numbers below 3, but hold 7"):
        table.take([0, 7])
