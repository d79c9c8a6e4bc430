"""The study of real answers: that it runs, that its tables are those of the page, and that its arithmetic is right."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from crowdmetric.symmetric import svec

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import real  # noqa: E402
from benchmarks.real import page, stated, tasks  # noqa: E402
from benchmarks.real.sets import DATA, SETS  # noqa: E402

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the real data sets are not beside the project")


@needs_data
def test_the_study_runs_on_a_small_set() -> None:
    items, answers = SETS["carrots"].read(DATA)
    assert items.shape == (12, 2)
    np.testing.assert_allclose(items.std(axis=0), 1.0)
    for name in ("warm, few", "cold"):
        found = tasks.run(
            SETS["carrots"], items, answers, tasks.TASKS[name], models=["bradley-terry", "linear"], repeats=1, jobs=1
        )
        rows = {row["model"]: row for row in tasks.rows_of("carrots", name, found)}
        assert rows["linear"]["gain"] == 0.0
        assert rows["bradley-terry"]["gain"] == pytest.approx(
            rows["bradley-terry"]["accuracy"] - rows["linear"]["accuracy"], abs=2e-3
        )
        # carrots have features that people agree about, so features carry over to carrots never seen
        assert rows["linear"]["accuracy"] > 60
    assert rows["bradley-terry"]["accuracy"] < rows["linear"]["accuracy"] - 2


def test_a_folder_without_sets_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real.main(["carrots", "--data", str(tmp_path)])
    assert capsys.readouterr().out.strip().endswith("nothing was measured there (--data names another folder)")


def test_unknown_sets_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        real.main(["sushi"])
    assert "unknown set sushi; choose from carrots" in capsys.readouterr().err


def test_tables_of_the_page_are_those_of_the_table() -> None:
    text = (ROOT / "docs" / "explanation" / "real-data.md").read_text(encoding="utf-8")
    folder = ROOT / "docs" / "explanation" / "real-data"
    assert page.tables(page.read_rows(folder / "results.csv")) in text
    assert page.stated_table(page.read_rows(folder / "stated.csv")) in text


def test_rows_come_back_and_other_sets_are_kept(tmp_path: Path) -> None:
    rows = page.read_rows(ROOT / "docs" / "explanation" / "real-data" / "results.csv")
    path = tmp_path / "results.csv"
    page.write_rows(rows, path)
    assert [str(row) for row in page.read_rows(path)] == [str(row) for row in rows]
    new = [row | {"accuracy": 50.0} for row in rows if row["set"] == "train"]
    both = page.merged(new, path, list(SETS))
    assert [(row["set"], row["task"], row["model"]) for row in both] == [
        (row["set"], row["task"], row["model"]) for row in rows
    ]
    assert {row["accuracy"] for row in both if row["set"] == "train"} == {50.0}


def test_errors_of_unseen_items_count_the_repeats() -> None:
    row = {"gain_error": 0.2, "gain_sd": 1.0, "repeats": 4}
    assert page.error_of(row) == 0.5
    assert page.error_of(row | {"gain_error": 0.9}) == 0.9
    assert page.error_of(row | {"repeats": 1, "gain_sd": float("nan")}) == 0.2


def test_stated_ideals_make_a_logistic_regression() -> None:
    rng = np.random.default_rng(0)
    d, T = 3, 40
    features, response = rng.standard_normal((T, 6)), rng.choice([-1.0, 1.0], T)
    objective = stated.StatedObjective(features, response, d)
    a = svec(np.diag([1.0, 0.5, 0.2]))
    step = 1e-6 * np.eye(6)
    numeric = [(objective.value(a + h) - objective.value(a - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(objective.gradient(a), numeric, atol=1e-6)
    bend = [(objective.gradient(a + h) - objective.gradient(a - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(objective.hessian(a), bend, atol=1e-6)
