"""Files and data frames in and out: every source gives the same columns, every defect a sentence."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from crowdmetric.errors import DataError, MissingExtraError
from crowdmetric.tables import (
    Items,
    as_ids,
    read_columns,
    read_items,
    to_arrow,
    to_pandas,
    to_polars,
    unique_ids,
    write_columns,
)

DATA = Path(__file__).parents[2] / "shared" / "data"
FOLDERS = [
    "carrots",
    "cocktail_compo",
    "cocktail_senso",
    "cream",
    "electricity",
    "jester",
    "perfume",
    "train",
]

COLUMNS: dict[str, list[Any]] = {
    "whole": [3, -1, 2**60],
    "gap": [1, None, 3],
    "number": [0.1, float("nan"), -1e300],
    "text": ["a,b", None, 'say "ü"\nagain'],
    "name": ["x", " y", "z"],
}
KINDS = {"whole": "i", "gap": "f", "number": "f", "text": "O", "name": "O"}

FILE_SUFFIXES = [".csv", ".csv.gz", ".CSV", ".parquet", ".pq"]


def written(suffix: str) -> Callable[[dict[str, Any], Path], Path]:
    def write(columns: dict[str, Any], folder: Path) -> Path:
        path = folder / f"table{suffix}"
        write_columns(columns, path)
        return path

    return write


# One line a source; each is given plain lists and a folder.
SOURCES: dict[str, Callable[[dict[str, Any], Path], Any]] = {
    "mapping": lambda columns, _: columns,
    "arrays": lambda columns, _: {name: np.array(values, dtype=object) for name, values in columns.items()},
    "pandas": lambda columns, _: pd.DataFrame(columns),
    "pandas nullable": lambda columns, _: pd.DataFrame(columns).convert_dtypes(),
    "polars": lambda columns, _: pl.DataFrame(columns, strict=False),
    "arrow": lambda columns, _: pa.table(columns),
    "record batch": lambda columns, _: pa.RecordBatch.from_pydict(columns),
    "to_pandas": lambda columns, _: to_pandas(columns),
    "to_polars": lambda columns, _: to_polars(columns),
    "to_arrow": lambda columns, _: to_arrow(columns),
} | {f"written {suffix}": written(suffix) for suffix in FILE_SUFFIXES}


def assert_same(found: dict[str, Any], expected: dict[str, list[Any]]) -> None:
    assert list(found) == list(expected)
    for name, column in found.items():
        assert column.dtype.kind == KINDS[name], name
        if column.dtype.kind == "f":
            np.testing.assert_array_equal(column, np.array(expected[name], dtype=float))
        else:
            assert column.tolist() == expected[name]


# --------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_columns(source: str, tmp_path: Path) -> None:
    assert_same(read_columns(SOURCES[source](COLUMNS, tmp_path)), COLUMNS)


@pytest.mark.parametrize(
    ("cells", "expected", "kind"),
    [
        (["1", "+2", " -3 "], [1, 2, -3], "i"),
        (["1", "", "3"], [1.0, None, 3.0], "f"),
        (["1.5", "1e3", ".5"], [1.5, 1000.0, 0.5], "f"),
        (["1", "inf", "NaN"], [1.0, np.inf, None], "f"),
        (["1", "tie", ""], ["1", "tie", None], "O"),
        (["007", "1", "2"], ["007", "1", "2"], "O"),
        (["1_000", "1", "2"], ["1_000", "1", "2"], "O"),
        (["nan", "x", "NA"], ["nan", "x", "NA"], "O"),
        ([str(2**53 + 1), "", "1"], [2**53 + 1, None, 1], "O"),
        ([str(2**63), "1", "2"], [2**63, 1, 2], "O"),
        (["", " ", ""], [None, None, None], "f"),
    ],
)
def test_csv_cells_get_a_type_without_changing(cells: list[str], expected: list[Any], kind: str, tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{cell},0\n" for cell in cells), encoding="utf-8")
    column = read_columns(path)["a"]
    assert column.dtype.kind == kind
    found = [None if str(value) == "nan" and kind == "f" else value for value in column.tolist()]
    assert found == expected


def test_csv_skips_blank_lines_and_the_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfa, b\r\n1,2\r\n\r\n3,4\r\n")
    columns = read_columns(path)
    assert {name: column.tolist() for name, column in columns.items()} == {"a": [1, 3], "b": [2, 4]}


def test_a_header_alone_is_a_table_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n", encoding="utf-8")
    assert {name: len(column) for name, column in read_columns(str(path)).items()} == {"a": 0, "b": 0}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "is empty"),
        ("t.parquet", b"", "is empty"),
        ("t.csv", b"\n1,2\n", "no header in its first line"),
        ("t.csv", b"a,b\n1,2\n1\n", r"line 3 of .*t\.csv has 1 cells, but the header has 2"),
        ("t.csv", b"a,b,a\n1,2,3\n", "more than one column 'a'"),
        ("t.csv", b",a\n0,2\n", r"column 1 of .* has no name.*index=False"),
        ("t.csv", b"a\n\x89PNG\x00\n", r"is not text \(it has the byte 0x00\); export it as CSV"),
        ("t.csv", b'a\n"open\n', "cannot be read as CSV"),
        ("t.csv", "a,b\n1,2\n".encode("utf-16")[:-1], "starts as text but does not go on as such"),
        ("t.jsonl", b'{"a": 1}\n[2]\n', r"line 2 of .*t\.jsonl is not one JSON object"),
        ("t.jsonl", b'{"a": {"b": 1}}\n', "line 1 of .* is not one JSON object of plain values"),
        ("t.jsonl", b'{"a": ' + b"[" * 5000 + b"\n", "line 1 of .* is not one JSON object"),
        ("t.jsonl", b"\n\n", "has no rows"),
        ("t.csv.gz", gzip.compress(b"a\n" + os.urandom(999).hex().encode())[:-40], "cannot be read as CSV"),
        ("t.parquet", b"PAR1 and nothing more", "damaged or not a Parquet file"),
        ("t.xlsx", b"PK\x03\x04", "cannot be read as an Excel file"),
        ("t.ods", b"PK", r"suffix '\.ods', which is not one of \.csv, \.csv\.gz, \.tsv"),
        ("t", b"a\n1\n", r"suffix '\(none\)'"),
    ],
)
def test_a_defective_file_is_explained(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_columns(path)


def test_a_truncated_parquet_file_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_columns({"a": np.arange(1000)}, path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="damaged or not a Parquet file"):
        read_columns(path)


def test_an_absent_file_and_a_folder_are_explained(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        read_columns(tmp_path / "t.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_columns(tmp_path)


def repeated_parquet(folder: Path) -> Path:
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), folder / "t.parquet")
    return folder / "t.parquet"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda _: pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column 'a'"),
        (lambda _: pd.DataFrame([[1, 2]], columns=[0, "0"]), "more than one column '0'"),
        (lambda _: pa.table([[1], [2]], names=["a", "a"]), "more than one column 'a'"),
        (repeated_parquet, "more than one column 'a'"),
        (lambda _: {"a": [1], "b": [1, 2]}, "equally long, but their lengths are 'a' 1, 'b' 2"),
        (lambda _: {"a": np.ones((2, 2))}, r"column 'a' has shape \(2, 2\)"),
        (lambda _: {"a": "text"}, r"column 'a' has shape \(\)"),
        (lambda _: {"a": 3}, r"column 'a' has shape \(\)"),
        (lambda _: pl.LazyFrame({"a": [1]}), r"call \.collect\(\)"),
        (lambda _: 3, "cannot be read from int"),
    ],
)
def test_a_defective_table_is_explained(source: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_columns(source(tmp_path))


def test_columns_of_other_types_come_as_they_are() -> None:
    when = np.array(["2024-01-01"], dtype="datetime64[D]")
    large = np.array([2**64 - 1], dtype=np.uint64)
    columns = read_columns({"when": when, "large": large, "flag": [True], "mixed": [{"a": 1}]})
    assert [column.dtype.kind for column in columns.values()] == ["M", "u", "b", "O"]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.float16, np.float32])
def test_numbers_widen(dtype: type) -> None:
    column = read_columns({"a": np.array([1, 2], dtype=dtype)})["a"]
    assert column.dtype in (np.int64, np.float64)
    assert column.tolist() == [1, 2]


def test_reading_does_not_share_memory() -> None:
    mine = np.arange(3)
    read_columns({"a": mine})["a"][0] = 9
    assert mine[0] == 0


@given(values=hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(allow_nan=False)))
def test_floats_survive_a_csv_file(values: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "floats.csv"
    write_columns({"a": values}, path)
    np.testing.assert_array_equal(read_columns(path)["a"], values)


# --------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("suffix", FILE_SUFFIXES)
def test_writing_replaces_the_file_and_leaves_nothing_else(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    write_columns({"a": [1, 2, 3]}, path)
    write_columns({"a": [4]}, path)
    assert read_columns(path)["a"].tolist() == [4]
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    class Unwritable:
        def __str__(self) -> str:
            assert len(list(tmp_path.iterdir())) == 2, "the old file and a temporary one"
            raise RuntimeError("the disk is full")

    path = tmp_path / "t.csv"
    write_columns({"a": [1]}, path)
    with pytest.raises(RuntimeError, match="the disk is full"):
        write_columns({"a": [1, Unwritable()]}, path)
    assert read_columns(path)["a"].tolist() == [1]
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_columns({"a": [1]}, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_where_and_what_cannot_be_written_is_explained(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        write_columns({"a": [1]}, tmp_path / "absent" / "t.csv")
    with pytest.raises(DataError, match=r"suffix '\.txt'"):
        write_columns({"a": [1]}, tmp_path / "t.txt")
    with pytest.raises(DataError, match="equally long"):
        write_columns({"a": [1], "b": []}, tmp_path / "t.csv")
    for write in (to_polars, to_arrow, lambda columns: write_columns(columns, tmp_path / "t.parquet")):
        with pytest.raises(DataError, match="column 'a' mixes text with values like 1; convert it to one type"):
            write({"a": ["x", 1]})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("library", "use"),
    [
        ("pandas", lambda _: to_pandas({"a": [1]})),
        ("polars", lambda _: to_polars({"a": [1]})),
        ("pyarrow", lambda _: to_arrow({"a": [1]})),
        ("pyarrow", lambda folder: write_columns({"a": [1]}, folder / "t.parquet")),
        ("pyarrow", lambda folder: read_columns(folder / "some.parquet")),
    ],
)
def test_an_absent_library_is_named_with_its_remedy(
    library: str, use: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some.parquet").write_bytes(b"PAR1")
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"{library}.*pip install 'crowdmetric\[tables\]'"):
        use(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["some.parquet"]


# ------------------------------------------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("values", "expected", "missing"),
    [
        ([2, 1], [2, 1], [False, False]),
        (np.array([2.0, np.nan]), [2, 0], [False, True]),
        (["a", ""], ["a", None], [False, True]),
        (np.array(["b", "a"]), ["b", "a"], [False, False]),
    ],
)
def test_ids_are_integers_or_text(values: Any, expected: list[Any], missing: list[bool]) -> None:
    ids, gaps = as_ids(values, "user")
    assert ids.dtype.kind in "iO"
    assert ids.tolist() == expected
    assert gaps.tolist() == missing


@pytest.mark.parametrize(
    ("values", "example"),
    [
        ([1, "a"], "1"),
        ([1.5, 2.0], "1.5"),
        ([np.inf, 2.0], "inf"),
        ([True, False], "True"),
        ([2**63], str(2**63)),
        (np.array(["2024-01-01"], dtype="datetime64[D]"), "datetime"),
    ],
)
def test_other_ids_are_refused(values: Any, example: str) -> None:
    with pytest.raises(DataError, match=rf"user must be all whole numbers or all text, but holds .*{example}"):
        as_ids(values, "user")


def test_unique_ids_refuse_gaps_and_repetitions() -> None:
    assert unique_ids(["b", "a"], "item ids").dtype.kind == "U"
    with pytest.raises(DataError, match="item ids has 1 missing values, first in row 1"):
        unique_ids([1, None], "item ids")
    with pytest.raises(DataError, match="1 of them are repeated, such as 7"):
        unique_ids([7, 3, 7], "item ids")


# ----------------------------------------------------------------------------------------------- items

ITEMS: dict[str, list[Any]] = {"item_id": ["b", "a"], "sweet": [1.0, 2.5], "sour": [0, 3]}


def assert_items(items: Items, ids: list[Any], names: list[str]) -> None:
    assert items.ids.tolist() == ids
    assert items.ids.dtype.kind in "iU"
    assert items.features.dtype == np.float64
    assert items.features.tolist() == [[1.0, 0.0], [2.5, 3.0]]
    assert items.feature_names == names


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_items(source: str, tmp_path: Path) -> None:
    items = read_items(SOURCES[source](ITEMS, tmp_path))
    assert_items(items, ["b", "a"], ["sweet", "sour"])
    assert read_items(items) is items


@pytest.mark.parametrize("column", ["item_id", "ITEM", "Id"])
def test_the_id_column_is_found_in_any_case(column: str) -> None:
    table = {"sweet": ITEMS["sweet"], column: [5, 4], "sour": ITEMS["sour"]}
    assert_items(read_items(table), [5, 4], ["sweet", "sour"])


def test_the_id_column_can_be_chosen() -> None:
    table = {"name": ["b", "a"], "sweet": ITEMS["sweet"], "id": ITEMS["sour"]}
    assert_items(read_items(table, id_column="name"), ["b", "a"], ["sweet", "id"])


@pytest.mark.parametrize("column", ["name", "Title"])
def test_a_column_of_names_is_no_feature(column: str) -> None:
    table = {**ITEMS, column: ["Beta", None]}
    items = read_items(table)
    assert_items(items, ["b", "a"], ["sweet", "sour"])
    assert items.names is not None
    assert items.names.tolist() == ["Beta", None]
    alone = {column: ["b", "a"], "sweet": ITEMS["sweet"], "sour": ITEMS["sour"]}  # names are the ids there are
    assert_items(read_items(alone), ["b", "a"], ["sweet", "sour"])
    assert read_items(alone).names is None
    numbers = {"id": ["b", "a"], column: ITEMS["sweet"], "sour": ITEMS["sour"]}
    assert_items(read_items(numbers), ["b", "a"], [column, "sour"])


def test_arrays_have_row_numbers_for_ids(tmp_path: Path) -> None:
    array = np.array([[1.0, 0.0], [2.5, 3.0]], dtype=np.float32)
    np.save(tmp_path / "items.npy", array)
    np.savez(tmp_path / "bare.npz", anything=array)
    np.savez_compressed(tmp_path / "named.npz", X=array, item_id=np.array(["b", "a"]))
    for source in (array, array.tolist(), tmp_path / "items.npy", str(tmp_path / "bare.npz")):
        assert_items(read_items(source), [0, 1], ["f0", "f1"])
    assert_items(read_items(tmp_path / "named.npz"), ["b", "a"], ["f0", "f1"])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"id": ["p", "q", "r"], "f": [1, None, np.inf], "g": [1, 2, 3]},
            "2 items have missing or infinite features, first item 'q' in column 'f'; fill them in or leave",
        ),
        ({"id": [1, 1], "f": [1, 2]}, "1 of them are repeated, such as 1"),
        ({"id": [1, None], "f": [1, 2]}, "item ids has 1 missing values"),
        ({"id": [1, 2]}, "no features"),
        ({"id": [1, 2], "f": ["NA", "3"]}, "feature 'f' holds 'NA', but features must be numbers"),
        ({"id": [], "f": []}, "no rows"),
        ({"id": [1], "item": [1], "f": [1]}, "'id', 'item' could all be ids; choose with id_column='id'"),
        ({"id": [1], "name": ["a"], "title": ["b"], "f": [1]}, "'name', 'title' could all be the names of the items"),
        (np.ones(3), r"shape \(3,\); \(N, d\) was expected"),
        ([[1, 2], [3]], r"must have shape \(N, d\)"),
        (np.array([["a", "b"]]), "feature 'f0' holds 'a'"),
        (np.ones((2, 0)), "no features"),
        (np.ones((0, 2)), "no rows"),
    ],
)
def test_defective_items_are_explained(table: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_items(table)


def test_an_absent_id_column_is_explained() -> None:
    with pytest.raises(DataError, match="no column 'name' to take ids from; they have 'item_id', 'sweet', 'sour'"):
        read_items(ITEMS, id_column="name")
    with pytest.raises(DataError, match=r"they have 'f0', 'f1', .*'f11' and 8 more"):
        read_items(np.ones((2, 20)), id_column="name")


@pytest.mark.parametrize(
    ("save", "message"),
    [
        (lambda path: path.with_suffix(".npy").write_bytes(b"\x93NUMPY\x01"), "damaged or not an array"),
        (lambda path: path.with_suffix(".npz").write_bytes(b"PK\x03\x04 cut"), "damaged or not an array"),
        (
            lambda path: np.save(path, np.array([[{}]]), allow_pickle=True),
            "damaged or not an array of numbers",
        ),
        (lambda path: np.savez(path, a=np.ones((1, 1)), b=np.ones((1, 1))), "holds the arrays 'a', 'b'"),
        (lambda path: np.savez(path, a=np.ones(3)), r"'a' in .* has shape \(3,\)"),
        (lambda path: np.savez(path, a=np.ones((3, 1)), id=[1, 2]), "equally long"),
    ],
)
def test_defective_numpy_files_are_explained(save: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    save(tmp_path / "items")
    (path,) = tmp_path.iterdir()
    with pytest.raises(DataError, match=message):
        read_items(path)


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data sets are not beside the project")
@pytest.mark.parametrize("folder", FOLDERS)
def test_real_items_are_read(folder: str) -> None:
    items = read_items(DATA / folder / "items.csv")
    np.testing.assert_array_equal(items.ids, np.arange(len(items.ids)))
    assert items.feature_names == [f"f{j}" for j in range(items.features.shape[1])]
