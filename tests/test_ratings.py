"""Ratings on one ordered scale: read, cut into steps, written and read back, and refused with reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdmetric import Ratings
from crowdmetric.errors import CrowdmetricError, DataError, DroppedRowsWarning
from crowdmetric.tables import matched

DATA = Path(__file__).parents[2] / "shared" / "data"
NAN = float("nan")
TABLE = {"user": ["ann", "ann", "bob"], "item": ["tea", "cola", "tea"], "rating": [5, 1, 3]}


def test_steps_are_the_ratings_in_order() -> None:
    ratings = Ratings.from_table(TABLE)
    assert (ratings.step.tolist(), ratings.scale.tolist(), ratings.n_steps) == ([2, 0, 1], [1, 3, 5], 3)
    whole = Ratings.from_table(TABLE, scale=range(1, 6))
    assert (whole.step.tolist(), whole.n_steps) == ([4, 0, 2], 5)
    words = Ratings.from_arrays(["a", "b"], ["p", "q"], ["good", "bad"], scale=["bad", "fair", "good"], weight=[1, 2])
    assert (words.step.tolist(), words.weight.tolist()) == ([2, 0], [1, 2])
    assert words.columns()["rating"].tolist() == ["good", "bad"]
    steps = words.steps()
    assert (steps.person.tolist(), steps.item.tolist(), steps.step.tolist(), steps.n_steps) == (
        [0, 1],
        [0, 1],
        [2, 0],
        3,
    )
    assert Ratings.from_table(TABLE, names={"rating": "rating"}) == ratings


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=60), st.integers(2, 6))
def test_a_slider_is_cut_into_steps_that_keep_the_order(rating: list[float], n_steps: int) -> None:
    if len(set(rating)) == 1:
        return
    cut = Ratings.from_arrays([0] * len(rating), [0] * len(rating), rating, n_steps=n_steps)
    order = np.argsort(rating, kind="stable")
    assert np.all(np.diff(cut.step[order]) >= 0)
    assert cut.n_steps <= n_steps
    assert np.all(np.bincount(cut.step, minlength=cut.n_steps) > 0)
    equal = np.equal.outer(rating, rating)
    assert np.array_equal(equal & np.equal.outer(cut.step, cut.step), equal)
    assert Ratings.from_table(cut.columns()) == cut


def test_steps_of_a_slider_are_about_equally_frequent() -> None:
    rating = np.random.default_rng(0).normal(size=1000)
    cut = Ratings.from_arrays(np.arange(1000) % 7, np.arange(1000) % 11, rating, n_steps=4)
    assert np.bincount(cut.step).tolist() == [250] * 4
    assert "ratings per step    250, 250, 250, 250" in cut.summary()


@given(st.data())
def test_frames_are_read_back(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 6))
    ids = data.draw(st.sampled_from([np.arange(4), np.array(["tea", "cola", "00", "ü"])]))
    scale = data.draw(st.sampled_from([[1, 2, 5], [0.5, 1.0, 1.5], ["no", "so so", "yes"]]))
    codes = [data.draw(st.lists(st.integers(0, most), min_size=n, max_size=n)) for most in (2, 3, 2)]
    ratings = Ratings(
        *codes, data.draw(st.lists(st.sampled_from([0.5, 1.0]), min_size=n, max_size=n)), scale, list("abc"), ids
    )
    frame = getattr(ratings, data.draw(st.sampled_from(["columns", "to_pandas", "to_polars", "to_arrow"])))()
    options = {"scale": scale, "item_ids": ids, "user_ids": list("abc")}
    assert Ratings.from_table(frame, **options, on_bad="raise") == ratings


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_are_read_back(tmp_path: Path, suffix: str) -> None:
    ratings = Ratings.from_table(TABLE)
    ratings.write(tmp_path / f"table{suffix}")
    assert Ratings.read(tmp_path / f"table{suffix}") == ratings


def test_rows_are_taken_and_matched_by_id() -> None:
    ratings = Ratings.from_table(TABLE)
    assert ratings.take([False, False, True]).columns()["user"].tolist() == ["bob"]
    there = matched(ratings, np.array(["x", "tea", "cola"]), 3)
    assert there.item.tolist() == [1, 2, 1]
    assert there.used_items().tolist() == [False, True, True]
    assert repr(ratings) == "<Ratings: 3 rows, 2 people, 2 items, 3 steps>"
    with pytest.raises(ValueError, match="read-only"):
        ratings.step[0] = 1


@pytest.mark.parametrize(
    ("changed", "options", "said"),
    [
        ({"rating": [5, NAN, 3]}, {}, "missing or infinite rating (first nan in row 1)"),
        (
            {"rating": [5, 9, 3]},
            {"scale": range(1, 6)},
            "not on the scale (first 9.0 in row 1; a rating is one of '1.0'",
        ),
        (
            {"rating": ["a", "x", "b"]},
            {"scale": ["a", "b"]},
            "not on the scale (first 'x' in row 1; a rating is one of",
        ),
        ({"item": ["tea", None, "cola"]}, {}, "missing value (first in row 1; item is empty there"),
        ({"user": ["ann", None, "bob"]}, {}, "missing value (first in row 1; user is empty there"),
        ({}, {"item_ids": ["tea"]}, "unknown item (first 'cola' in row 1"),
        ({"weight": [1, -2, 1]}, {}, "negative or non-finite weight (first -2.0 in row 1"),
    ],
)
def test_a_bad_row_is_left_out_with_a_sentence(changed: dict[str, Any], options: dict[str, Any], said: str) -> None:
    with pytest.warns(DroppedRowsWarning) as caught:
        ratings = Ratings.from_table(TABLE | changed, **options)
    assert said in str(caught[0].message)
    assert (len(ratings), sum(ratings.dropped.values())) == (2, 1)
    with pytest.raises(DataError, match="on_bad='drop'"):
        Ratings.from_table(TABLE | changed, **options, on_bad="raise")


REFUSED: dict[str, Any] = {
    "no rating": lambda: Ratings.from_table({"user": [1], "item": [1]}),
    "words without a scale": lambda: Ratings.from_table(TABLE | {"rating": ["good", "bad", "good"]}),
    "a slider without steps": lambda: Ratings.from_arrays([0] * 99, [0] * 99, np.linspace(0, 1, 99)),
    "all the same": lambda: Ratings.from_table(TABLE | {"rating": [3, 3, 3]}),
    "scale and steps": lambda: Ratings.from_table(TABLE, scale=[1, 3, 5], n_steps=2),
    "one step": lambda: Ratings.from_table(TABLE, n_steps=1),
    "half a step": lambda: Ratings.from_table(TABLE, n_steps=2.5),
    "a scale that falls": lambda: Ratings.from_table(TABLE, scale=[5, 3, 1]),
    "a scale of one": lambda: Ratings.from_table(TABLE, scale=[5]),
    "a scale that is a number": lambda: Ratings.from_table(TABLE, scale=5),
    "a scale that is a word": lambda: Ratings.from_table(TABLE, scale="abc"),
    "a scale with a word twice": lambda: Ratings.from_table(TABLE | {"rating": list("aba")}, scale=["a", "b", "a"]),
    "a scale with a gap": lambda: Ratings.from_table(TABLE, scale=[1, NAN, 5]),
    "a mixed scale": lambda: Ratings.from_table(TABLE, scale=[1, "b"]),
    "complex": lambda: Ratings.from_table(TABLE | {"rating": np.ones(3, complex)}),
    "dates": lambda: Ratings.from_table(TABLE | {"rating": np.arange(3).astype("datetime64[D]")}),
    "lists": lambda: Ratings.from_table(TABLE | {"rating": [[1], [2], [3]]}),
    "lengths": lambda: Ratings.from_arrays([1, 2], [1], [1, 2]),
    "no rows": lambda: Ratings.from_arrays([], [], []),
    "no usable rows": lambda: Ratings.from_table(TABLE | {"rating": [NAN] * 3}),
    "on_bad": lambda: Ratings.from_table(TABLE, on_bad="skip"),
    "two columns for items": lambda: Ratings.from_table(
        {"user": [1], "item_id": [1], "alternative": [1], "rating": [1]}
    ),
    "a name that is not there": lambda: Ratings.from_table(TABLE, names={"rating": "stars"}),
    "built: step": lambda: Ratings([0], [0], [5], [1.0], [1, 2], [0], [0]),
    "built: user": lambda: Ratings([1], [0], [0], [1.0], [1, 2], [0], [0]),
    "built: lengths": lambda: Ratings([0, 0], [0], [0], [1.0], [1, 2], [0], [0]),
    "built: weight": lambda: Ratings([0], [0], [0], [0.0], [1, 2], [0], [0]),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_with_a_sentence(case: str) -> None:
    with pytest.raises(CrowdmetricError) as caught:
        REFUSED[case]()
    assert len(str(caught.value)) > 30
    assert "\n" not in str(caught.value)


def test_real_ratings_are_read_whole() -> None:
    folder = DATA / "cocktail_ratings"
    if not folder.is_dir():
        pytest.skip("the data set cocktail_ratings is not beside the project")
    ratings = Ratings.read(folder / "ratings.csv", items=folder / "items.csv", on_bad="raise")
    assert (len(ratings), ratings.n_users, ratings.n_items, ratings.n_steps) == (1600, 100, 16, 10)
    assert Ratings.from_table(ratings.columns(), item_ids=ratings.item_ids) == ratings
