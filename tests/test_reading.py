"""Tables as people have them: separators, encodings, spreadsheets, codings of choices, categories and units."""

from __future__ import annotations

import io
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdmetric import Comparisons, Judgements
from crowdmetric.cli import main
from crowdmetric.errors import DataError, MissingExtraError, TableWarning
from crowdmetric.preprocess import DIFFERENT_UNITS, scale_ratio
from crowdmetric.tables import Stored, read_columns, read_items, write_columns
from crowdmetric.tables import codings as codings_module

TABLE = {"user": ["Zoë", "Ann", "Bo"], "left": [1, 2, 3], "price": [1.5, 2.0, None], "choice": ["left", "right", "tie"]}


def text(separator: str = ",", decimal: str = ".") -> str:
    rows = zip(*TABLE.values(), strict=True)
    cells = [["" if cell is None else str(cell).replace(".", decimal) for cell in row] for row in rows]
    return "\n".join(separator.join(row) for row in [list(TABLE), *cells]) + "\n"


def sheet(columns: dict[str, list[Any]]) -> bytes:
    book = openpyxl.Workbook()
    book.active.append(list(columns))
    for row in zip(*columns.values(), strict=True):
        book.active.append(row)
    book.active.append([])
    kept = io.BytesIO()
    book.save(kept)
    return kept.getvalue()


def lines() -> str:
    rows = zip(*TABLE.values(), strict=True)
    return "".join(json.dumps(dict(zip(TABLE, row, strict=True))) + "\n" for row in rows)


FILES: dict[str, tuple[str, bytes]] = {
    "comma": ("t.csv", text().encode()),
    "semicolon": ("t.csv", text(";").encode()),
    "semicolon, decimal comma": ("t.csv", text(";", ",").encode()),
    "tab": ("t.csv", text("\t").encode()),
    "tsv": ("t.tsv", text("\t").encode()),
    "txt": ("t.txt", text("|").encode()),
    "byte-order mark": ("t.csv", text().encode("utf-8-sig")),
    "utf-16": ("t.csv", text(";").encode("utf-16")),
    "utf-16 without a mark": ("t.csv", text().encode("utf-16-le")),
    "utf-16, big end first": ("t.csv", b"\xfe\xff" + text().encode("utf-16-be")),
    "carriage returns": ("t.csv", text().replace("\n", "\r\n").encode()),
    "quotes": ("t.csv", text().replace("Zoë", '"Zoë"').encode()),
    "jsonl": ("t.jsonl", lines().encode()),
    "xlsx": ("t.xlsx", sheet(TABLE)),
}


def same(columns: dict[str, Any]) -> bool:
    return {
        name: [None if isinstance(cell, float) and np.isnan(cell) else cell for cell in column.tolist()]
        for name, column in columns.items()
    } == TABLE


@pytest.mark.parametrize("arrow", [True, False], ids=["arrow", "python"])
@pytest.mark.parametrize("kind", FILES)
def test_a_table_is_read_however_it_is_written(kind: str, arrow: bool, tmp_path: Path, monkeypatch: Any) -> None:
    if not arrow:
        for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
            monkeypatch.setitem(sys.modules, name, None)
    name, content = FILES[kind]
    (tmp_path / name).write_bytes(content)
    assert same(read_columns(tmp_path / name))
    assert same(read_columns(Stored.of_bytes("standard input", content)))


def test_western_european_text_is_read_with_a_word(tmp_path: Path) -> None:
    for encoding, extra in (("latin-1", ""), ("cp1252", "“quoted”")):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes(text().replace("Ann", f"Ann{extra}").encode(encoding))
        with pytest.warns(TableWarning, match=rf"not UTF-8 text .* Western European \({encoding}\)"):
            assert read_columns(path)["user"].tolist() == ["Zoë", f"Ann{extra}", "Bo"]


@settings(max_examples=40)
@given(st.lists(st.lists(st.text("ab1.,;-+e 0\t", max_size=5), min_size=2, max_size=2), max_size=6))
def test_arrow_and_python_read_the_same(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    path = tmp_path_factory.mktemp("same") / "t.csv"
    path.write_text("x,y\n" + "".join(",".join(row) + "\n" for row in rows))

    def outcome() -> Any:
        try:
            return {
                name: (str(column.dtype), list(map(repr, column.tolist())))
                for name, column in read_columns(path).items()
            }
        except DataError as error:
            return str(error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        by_python = outcome()
    assert outcome() == by_python


def test_excel_without_its_library_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.xlsx").write_bytes(sheet(TABLE))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"openpyxl.*crowdmetric\[tables\]"):
        read_columns(tmp_path / "t.xlsx")


# ------------------------------------------------------------------------------------------------- choices

LEFT, RIGHT = [1, 2, 3, 4], [5, 6, 7, 8]
MEANT = [-1.0, 1.0, 1.0, -1.0]
CODINGS = {
    "words": ["left", "right", "Right ", "LEFT"],
    "0 and 1": [0, 1, 1, 0],
    "0.0 and 1.0": [0.0, 1.0, 1.0, 0.0],
    "L and R": ["L", "R", "r", "l"],
    "first and second": ["first", "second", "Second", "first"],
    "A and B": ["A", "B", "b", "A"],
    "item": [1, 6, 7, 4],
    "item as text": ["1", "6", "7", "4"],
}


def read(choice: Any, left: Any = LEFT, right: Any = RIGHT) -> Comparisons:
    return Comparisons.from_arrays([0] * len(left), left=left, right=right, choice=choice, n_items=60)


@pytest.mark.parametrize("coding", CODINGS)
def test_choices_are_read_in_the_coding_they_have(coding: str) -> None:
    assert read(CODINGS[coding]).response.tolist() == MEANT


@pytest.mark.parametrize("choice", [[1, 2, 2, 1], ["1", "2", "2", "1"], [1.0, 2.0, 2.0, 1.0]])
def test_one_and_two_are_left_and_right_with_a_word(choice: list[Any]) -> None:
    with pytest.warns(TableWarning, match="1 = left, 2 = right"):
        assert read(choice).response.tolist() == MEANT


def test_a_scan_reads_all_batches_in_one_coding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch holds only 1, which would be right in another coding."""
    monkeypatch.setattr("crowdmetric.tables.sources.BATCH_ROWS", 3)
    choice = [1, 1, 1, 2, 2, 1]
    columns = {"user": [1, 1, 2, 2, 3, 3], "left": [0] * 6, "right": [1, 2, 3, 1, 2, 3], "choice": choice}
    write_columns(columns, tmp_path / "t.csv")
    with pytest.warns(TableWarning, match="1 = left, 2 = right"):
        scanned = Comparisons.from_scan(Comparisons.scan_csv(tmp_path / "t.csv", n_items=4))
    assert scanned.response.tolist() == [-1.0, -1.0, -1.0, 1.0, 1.0, -1.0]


def test_unreadable_choices_are_refused_with_the_coding_that_would_fit() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 20, 100), rng.integers(20, 40, 100)
    mixed = np.where(np.arange(100) % 2, "yes", np.where(np.arange(100) % 4, "A", "B"))
    with pytest.raises(DataError, match=r"50 of 100 choices cannot be read: .*'yes'.* read as A \(left\)"):
        read(mixed, left, right)
    few = np.where(np.arange(100) < 5, "?", "left")
    with pytest.warns(UserWarning, match="5 × unreadable choice"):
        assert len(read(few, left, right)) == 95


@pytest.mark.parametrize(
    ("cells", "remedy"),
    [
        ([-1, 1], "a column called response is written, −1 for left"),
        (["yes", "no"], "do not say left or right; write 'left' and 'right'"),
        (["True", "False"], "do not say left or right"),
        (["blue", "red"], r"cannot be read: the column holds 'blue', 'red'\. Write all rows in one way"),
    ],
)
def test_a_refusal_says_what_would_fit(cells: list[Any], remedy: str) -> None:
    with pytest.raises(DataError, match=remedy):
        read(cells * 20, [1] * 40, [2] * 40)


@pytest.mark.parametrize(("cell", "side"), [(1, "right"), ("left", "left"), ("A", "left")])
def test_a_column_that_always_says_the_same_is_worth_a_word(cell: Any, side: str) -> None:
    with pytest.warns(TableWarning, match=f"in all 40 rows, which is read as {side}"):
        read([cell] * 40, [3] * 40, [2] * 40)


def test_items_called_one_and_two_are_not_guessed() -> None:
    with pytest.raises(DataError, match="may mean left and right or the items called 1 and 2"):
        read([1, 2, 1], [1, 2, 1], [2, 1, 2])


def test_the_number_of_unreadable_choices_allowed_is_small() -> None:
    assert 0 < codings_module.MOST_UNREADABLE < 0.45  # 45 % were dropped in silence once


def test_judgements_read_the_item_that_was_chosen() -> None:
    table = {"anchor": [0, 0], "left": [1, 2], "right": [3, 4], "choice": [3, 2]}
    assert Judgements.from_table(table, n_items=5, merge=False).counts.tolist() == [[0.0, 1.0], [1.0, 0.0]]


# --------------------------------------------------------------------------------------------------- items


def test_text_and_dates_among_items_are_left_out_with_a_word() -> None:
    frame = pd.DataFrame({"id": [1, 2, 3], "price": [1.0, 2.0, 3.0], "color": ["red", "blue", "red"],
                          "sold": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])})  # fmt: skip
    with pytest.warns(TableWarning, match=r"columns 'color', 'sold' hold text or dates .* categorical="):
        assert read_items(frame).feature_names == ["price"]


def test_numbers_with_a_mistake_among_them_are_no_text() -> None:
    with pytest.raises(DataError, match="feature 'price' holds '2,5x'"):
        read_items({"id": [1, 2, 3, 4], "price": ["1", "2,5x", "3", "4"], "size": [1, 2, 3, 4]})


@pytest.mark.parametrize("asked", [["color"], "color", "all"])
def test_categories_become_features(asked: Any) -> None:
    items = read_items({"f": np.arange(6), "color": ["r", "g", "b", "b", "r", "r"]}, categorical=asked)
    assert items.feature_names == ["f", "color=g", "color=r"]
    assert items.features[:, 1:].tolist() == [[0, 1], [1, 0], [0, 0], [0, 0], [0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["r"] * 60, "holds 1 categories"),
        ([f"name {j}" for j in range(60)], "holds 60 categories"),
        ([None, *["r"] * 59], "1 items without a category"),
    ],
)
def test_columns_that_are_no_categories_are_refused(column: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_items({"f": np.arange(60), "color": column}, categorical=["color"])


def test_the_index_of_a_data_frame_is_its_ids() -> None:
    frame = pd.DataFrame({"f": [1.0, 2.0], "g": [3.0, 5.0]}, index=["a", "b"])
    assert read_items(frame).ids.tolist() == ["a", "b"]
    assert read_items(frame.reset_index(drop=True)).ids.tolist() == [0, 1]
    assert read_items(frame.assign(item_id=[7, 8])).ids.tolist() == [7, 8]
    with pytest.raises(DataError, match="index must differ"):
        read_items(frame.set_index(pd.Index(["a", "a"])))


def test_items_have_a_short_repr() -> None:
    assert repr(read_items(np.ones((500, 30)))) == (
        "<Items: 500 items, 30 features ('f0', 'f1', 'f2', 'f3', 'f4', 'f5' and 24 more)>"
    )


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_the_ratio_of_scales_is_that_of_standard_deviations(scale: float) -> None:
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 100.0, 10.0] * scale
    ratio, largest, smallest = scale_ratio(X)
    expected = np.std(X[:, 1] / scale) / np.std(X[:, 0] / scale)
    assert (largest, smallest) == (1, 0)
    assert ratio == pytest.approx(expected)


def test_rare_categories_and_constants_are_not_in_another_unit() -> None:
    X = np.zeros((1000, 3))
    X[0, 0] = 1.0
    X[:500, 1] = 1.0
    assert scale_ratio(X)[0] == 1.0


# ------------------------------------------------------------------------------------------------ commands


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reading") / "crowd"
    sizes = ["--dimension", "2", "--subspaces", "0", "--users", "40", "--comparisons", "5", "--seed", "1"]
    assert main(["simulate", *sizes, "--out", str(folder), "--quiet"]) == 0
    return folder


@pytest.fixture
def tables(crowd: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Write the items with one feature in other units, and the answers under other names."""

    def write(factor: float = 1000.0) -> list[str]:
        items, answers = read_columns(crowd / "items.csv"), read_columns(crowd / "comparisons.csv")
        items["f1"] = items["f1"] * factor
        items["sku"] = items.pop("item_id")
        items["color"] = np.where(np.arange(len(items["f0"])) % 2, "red", "blue").astype(object)
        write_columns(items, tmp_path / "items.csv")
        names = {"user": "participant", "left": "img_a", "right": "img_b", "choice": "answer"}
        write_columns({names[name]: column for name, column in answers.items()}, tmp_path / "answers.csv")
        return [str(tmp_path / "items.csv"), str(tmp_path / "answers.csv")]

    return write


COLUMNS = "user=participant,left=img_a,right=img_b,choice=answer,item_id=sku"


def test_diagnose_takes_names_of_columns_and_standardizes(tables: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        assert main(["diagnose", *tables(), "--columns", COLUMNS]) == 0
        told = capsys.readouterr().err
        assert "f1 varies" in told
        assert "all features are standardized (--no-standardize leaves them)" in told
        assert "--categorical color" in told
        assert main(["diagnose", *tables(), "--columns", COLUMNS, "--no-standardize", "--categorical", "color"]) == 0
        assert "standardized" not in capsys.readouterr().err
        assert main(["diagnose", *tables(DIFFERENT_UNITS / 2), "--columns", COLUMNS]) == 0
        told = capsys.readouterr().err
        assert "if they are in different units, --standardize gives" in told
        assert "standardized" not in told
        assert main(["diagnose", *tables(1.0), "--columns", COLUMNS]) == 0
        assert "unit" not in capsys.readouterr().err
        assert main(["diagnose", *tables(1.0), "--columns", COLUMNS, "--standardize"]) == 0
        assert "items: standardized" in capsys.readouterr().err


def test_a_standardized_model_is_used_on_items_as_they_are(
    tables: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--columns", COLUMNS, "--no-report", "--covariance", "isotropic", "--no-item-effects", "--quiet"]
    fitted = {}
    for factor in (1.0, 1000.0):
        place = str(tmp_path / f"model{factor:g}")
        more = ["--standardize"] if factor == 1.0 else []
        assert main(["fit", *tables(factor), *options, *more, "--out", place]) == 0
        capsys.readouterr()
        assert main(["predict", place, str(tmp_path / "answers.csv"), "--columns", COLUMNS, "--quiet"]) == 0
        predicted = capsys.readouterr().out
        assert main(["locate", place, str(tmp_path / "answers.csv"), "--columns", COLUMNS, "--quiet"]) == 0
        located = read_columns(Stored.of_bytes("located", capsys.readouterr().out.encode()))
        fitted[factor] = read_columns(Stored.of_bytes("predicted", predicted.encode())), located
    (ours, here), (theirs, there) = fitted.values()
    assert set(ours) == {"user", "left", "right", "psi", "choice", "probability_left"}
    np.testing.assert_allclose(ours["probability_left"], theirs["probability_left"], atol=1e-6)
    np.testing.assert_allclose(1000.0 * here["ideal_f1"], there["ideal_f1"], rtol=1e-5, atol=1e-4)


def test_standard_input_is_a_table(tables: Any, monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    items, answers = tables(1.0)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(answers).read_bytes())))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        assert main(["diagnose", items, "-", "--columns", COLUMNS]) == 0
    with pytest.raises(SystemExit):
        main(["diagnose", "-", "-"])
    assert "both -" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("columns", "message"),
    [("user", "is not understood"), ("person_x=y", "is not understood"), ("user=a,user=b", "names user twice")],
)
def test_columns_that_make_no_sense_are_wrong_usage(
    columns: str, message: str, tables: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["diagnose", *tables(1.0), "--columns", columns])
    assert message in capsys.readouterr().err


def test_hints_name_the_option_of_the_interface_in_hand(tables: Any, capsys: pytest.CaptureFixture[str]) -> None:
    items, answers = tables(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        assert main(["diagnose", items, answers, "--columns", "item_id=sku"]) == 1
    assert "--columns left=NAME,right=NAME" in capsys.readouterr().err
    with pytest.raises(DataError, match="pass left=…, right=…"):
        Comparisons.read(answers)


@pytest.mark.parametrize("command", ["predict", "locate", "design"])
def test_no_command_overwrites_what_it_reads(command: str, tables: Any, capsys: pytest.CaptureFixture[str]) -> None:
    items, answers = tables(1.0)
    read, before = (items, Path(items).read_bytes()) if command == "design" else (answers, Path(answers).read_bytes())
    more = [items, "--people", "5"] if command == "design" else ["no-model", answers]
    assert main([command, *more, "--out", read]) == 1
    assert "is read by this command, so it is not overwritten" in capsys.readouterr().err
    assert Path(read).read_bytes() == before


def test_formulas_are_harmless_where_that_is_asked(tmp_path: Path) -> None:
    columns = {"user": ["=1+1", "plain", "@sum", "-2"], "n": [-1, 2, 3, 4]}
    write_columns(columns, tmp_path / "plain.csv")
    write_columns(columns, tmp_path / "safe.csv", spreadsheet_safe=True)
    assert read_columns(tmp_path / "plain.csv")["user"].tolist() == columns["user"]
    safe = read_columns(tmp_path / "safe.csv")
    assert safe["user"].tolist() == ["'=1+1", "plain", "'@sum", "'-2"]
    assert safe["n"].tolist() == columns["n"]
