"""The paper's experiments: the cells, the learners, a runner that keeps what is finished, tables, pictures and page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from crowdmetric.cli import main
from crowdmetric.errors import DataError
from crowdmetric.experiments import cells, runner
from crowdmetric.experiments.cells import FIGURES, Cell, cells_of, figure_named, least_subspaces
from crowdmetric.experiments.learners import LEARNERS, run_cell
from crowdmetric.experiments.reproduction_page import write_page
from crowdmetric.experiments.result_tables import rows_of_figure, summarize
from crowdmetric.experiments.runner import Progress, run_cells
from crowdmetric.symmetric import degrees_of_freedom

CELL = Cell(1, d=4, n=14, r=1, K=8, m=4, beta=1.0, sigma=0.0, counts=(14,), loss="logistic")
ALL = tuple(LEARNERS)
RADII = ("oracle", "honest")


# --------------------------------------------------------------------------------------------------- the cells


def test_every_panel_of_the_paper_is_there() -> None:
    assert len(FIGURES) == 21
    assert len({figure.name for figure in FIGURES}) == 21
    assert {(f.experiment, f.loss, f.beta) for f in FIGURES if f.rank == 1} == {
        (e, loss, beta) for e in (1, 2, 3) for loss in ("logistic", "hinge") for beta in (1.0, 4.0, inf)
    }


def test_cells_are_those_of_the_paper() -> None:
    first = cells_of((figure_named("exp1-logistic-beta1"),))
    assert {(c.K, c.m) for c in first} == {
        (K, m) for K in (1, 5, 10, 20, 30, 40, 50, 60, 70, 80) for m in (1, 2, 4, 6, 8)
    }
    assert {(c.d, c.n, c.r, c.beta) for c in first} == {(10, 80, 1, 1.0)}
    second = cells_of((figure_named("exp2-r2"),))
    assert {(c.d, c.n, c.K, c.m) for c in second} == {(d, 40, 80, 10) for d in range(3, 11)}
    assert {c.counts for c in second} == {tuple(range(5, 41))}
    assert {c.counts for c in cells_of((figure_named("exp2-hinge-beta4"),))} == {tuple(range(5, 81))}
    third = cells_of((figure_named("exp3-hinge-betainf"),))
    assert {c.K for c in third} == {20, 60}
    assert {c.sigma for c in third} == {round(0.1 * i, 1) for i in range(11)}
    assert {c.m for c in third} == {8}


@pytest.mark.parametrize("quick", [True, False])
def test_cells_of_all_figures_are_distinct(quick: bool) -> None:
    cells = cells_of(FIGURES, quick=quick)
    assert len({cell.key() for cell in cells}) == len(cells)
    assert {cell.loss for cell in cells if cell.r == 1} == {"hinge", "logistic"}
    assert {cell.loss for cell in cells if cell.r == 2} == {"logistic"}


@pytest.mark.parametrize(("d", "r"), [(10, 1), (10, 2), (3, 2), (7, 3)])
def test_least_number_of_subspaces(d: int, r: int) -> None:
    n = least_subspaces(d, r)
    assert n * degrees_of_freedom(r) >= degrees_of_freedom(d) > (n - 1) * degrees_of_freedom(r)


# ------------------------------------------------------------------------------------------------ the learners


def test_a_run_has_a_row_for_everything() -> None:
    cell = replace(CELL, counts=(10, 14))
    rows = run_cell((cell, ALL, (0, 3)))
    stitched = [row for row in rows if row["stitch"]]
    assert len(stitched) == 2 * 2 * 2 * 2  # runs, learners, methods, counts
    assert len(rows) - len(stitched) == 2 * 2  # runs, counts: the population has one method
    assert {row["run"] for row in rows} == {0, 3}
    assert all(np.isfinite(row["relative_error"]) and row["shape_error"] <= row["identity_error"] + 1 for row in rows)
    assert all(0 <= row["active_share"] <= 1 for row in stitched)
    assert all(row["shape_error"] <= row["relative_error"] + 1e-12 for row in rows)


def test_runs_do_not_depend_on_their_company() -> None:
    together, alone = run_cell((CELL, ALL, (0, 1))), run_cell((CELL, ALL, (1,)))
    errors = [row["relative_error"] for row in together if row["run"] == 1]
    np.testing.assert_allclose(errors, [row["relative_error"] for row in alone], rtol=2e-3, atol=1e-6)
    chosen = [row["ideal_radius"] for row in together if row["run"] == 1 and row["stitch"]]
    np.testing.assert_allclose(chosen, [row["ideal_radius"] for row in alone if row["stitch"]], rtol=1e-12)


def test_truth_is_shared_by_the_cells_of_a_run() -> None:
    assert CELL.seed(2) == replace(CELL, K=5, m=2, beta=inf).seed(2)
    assert CELL.seed(2) != CELL.seed(3)


def test_oracle_radii_leak_the_answer_on_lines() -> None:
    cell = replace(CELL, K=30, m=8)
    rows = [row for row in run_cell((cell, ALL, (0,))) if row["stitch"] == "huber"]
    error = {row["learner"]: row["relative_error"] for row in rows}
    assert error["oracle"] < 0.05 < error["honest"]


def test_near_subspaces_are_estimated() -> None:
    rows = run_cell((replace(CELL, sigma=0.1), ALL, (0,)))
    assert all(row["sigma"] == 0.1 and np.isfinite(row["relative_error"]) for row in rows)


# -------------------------------------------------------------------------------------------------- the runner


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Replace the learning by rows that say which runs were asked for."""
    calls: list[tuple[tuple[str, ...], tuple[int, ...]]] = []

    def quick(job):
        _, learners, runs = job
        calls.append((learners, runs))
        return [row | {"run": run} for run in runs for row in BASE if row["learner"] in learners]

    monkeypatch.setattr(runner, "run_cell", quick)
    return calls


BASE = run_cell((CELL, ALL, (0,)))


def test_only_what_is_missing_is_run(counted, tmp_path) -> None:
    few = [(RADII, (0, 1, 2)), (("population",), (0,))]
    first = run_cells([CELL], 3, tmp_path, jobs=1)
    assert counted == few
    assert run_cells([CELL], 3, tmp_path, jobs=1) == first
    assert counted == few
    more = run_cells([CELL], 7, tmp_path, jobs=1)
    assert counted == [*few, (RADII, (3, 4, 5, 6)), (("population",), (1,))]
    assert {row["run"] for row in more} == set(range(7))
    assert {row["run"] for row in run_cells([CELL], 2, tmp_path, jobs=1)} == {0, 1}


def test_a_new_learner_is_all_that_is_run(counted, monkeypatch, tmp_path) -> None:
    run_cells([CELL], 2, tmp_path, jobs=1)
    counted.clear()
    monkeypatch.setitem(LEARNERS, "new", None)
    with pytest.raises(KeyError):  # the stand-in above knows no such learner
        run_cells([CELL], 2, tmp_path, jobs=1)
    assert counted == [(("new",), (0, 1))]


def test_an_interrupted_line_is_done_again(counted, tmp_path) -> None:
    run_cells([CELL, replace(CELL, K=9)], 2, tmp_path, jobs=1)
    path = tmp_path / "runs.jsonl"
    jobs = counted.copy()
    text = path.read_text(encoding="utf-8")
    path.write_text(text[:-40], encoding="utf-8")
    counted.clear()
    run_cells([CELL, replace(CELL, K=9)], 2, tmp_path, jobs=1)
    assert counted == [jobs[-1]]
    assert len(path.read_text(encoding="utf-8").splitlines()) == len(jobs)


def test_a_damaged_file_is_said(counted, tmp_path) -> None:
    run_cells([CELL], 1, tmp_path, jobs=1)
    path = tmp_path / "runs.jsonl"
    path.write_text("nonsense\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(DataError, match=r"line 1 of .*runs\.jsonl cannot be read; delete"):
        run_cells([CELL], 1, tmp_path, jobs=1)


def test_what_was_finished_before_an_interrupt_is_kept(monkeypatch, tmp_path) -> None:
    cells = [CELL, replace(CELL, K=9)]

    def once(job):
        if (tmp_path / "runs.jsonl").read_text(encoding="utf-8"):
            raise KeyboardInterrupt
        return [row | {"run": job[2][0]} for row in BASE]

    monkeypatch.setattr(runner, "run_cell", once)
    with pytest.raises(KeyboardInterrupt):
        run_cells(cells, 1, tmp_path, jobs=1)
    (line,) = (tmp_path / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["cell"] in {cell.key() for cell in cells}


def test_processes_give_the_same_results(tmp_path) -> None:
    cells = [CELL, replace(CELL, K=5)]
    one = run_cells(cells, 1, tmp_path / "one", jobs=1)
    two = run_cells(cells, 1, tmp_path / "two", jobs=2)
    assert len(one) == len(two)
    for a, b in zip(one, two, strict=True):
        assert a["relative_error"] == b["relative_error"]


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(0, 10, 0, 0.0), "0 of 10 runs"),
        (Progress(5, 10, 0, 10.0), "5 of 10 runs, about 10 s left"),
        (Progress(5, 10, 3, 240.0), "5 of 10 runs, about 10 min left"),
    ],
)
def test_progress_says_how_long(progress: Progress, text: str) -> None:
    assert str(progress) == text


# ------------------------------------------------------------------------------------------ tables and pictures


def test_summary_is_mean_and_deviation_over_runs() -> None:
    rows = [row | {"run": i, "relative_error": error} for i, error in enumerate((0.1, 0.2, 0.6)) for row in BASE[:1]]
    (line,) = summarize(rows)
    assert line["runs"] == 3
    assert line["relative_error_mean"] == pytest.approx(0.3)
    assert line["relative_error_sd"] == pytest.approx(np.std([0.1, 0.2, 0.6], ddof=1))


def test_the_page_counts_runs_and_a_single_run_has_no_deviation(tmp_path) -> None:
    """Of three runs a population has one: it is said, and no ± stands beside one number."""
    figure = figure_named("exp1-logistic-beta1")
    assert figure is not None
    few = [row | {"run": run} for run in range(3) for row in BASE if row["learner"] != "population" or run == 0]
    (tmp_path / f"{figure.name}.png").write_bytes(b"")
    for rows, told in ((few, "3 runs per cell (1 of population)"), (BASE, "1 run per cell,")):
        summary = summarize(rows)
        page = write_page([figure], summary, tmp_path, command="", seconds=1.0).read_text(encoding="utf-8")
        assert told in page
        lines = re.findall(r"<tr><td>.*?</tr>", page)
        assert len(lines) == len({row["learner"] for row in BASE})
        for line in lines:
            assert ("±" in line) == (not line.endswith("<td>1</td></tr>"))
        assert all(np.isnan(row["relative_error_sd"]) == (row["runs"] == 1) for row in summary)


def test_command_writes_tables_pictures_and_a_page(monkeypatch, tmp_path, capsys) -> None:
    tiny = cells._Grid(
        people=(3, 6), answers=(2, 3), dimensions=(3, 4), counts=(5, 12), sigmas=(0.0, 0.2), people_near=(4,)
    )
    monkeypatch.setattr(cells, "_QUICK", tiny)
    out = tmp_path / "out"
    names = ["exp1-logistic-beta1", "exp2-logistic-beta1", "exp3-r2"]
    arguments = ["reproduce", *names, "--quick", "--runs", "1", "--jobs", "1", "--out", str(out)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == str(out / "index.html")
    for name in names:
        assert (out / f"{name}.png").stat().st_size > 5_000
        assert (out / f"{name}.svg").exists()
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "http:" not in page  # nothing is loaded from elsewhere; encoded pictures contain no colon
    assert "https:" not in page
    assert all(f'id="{name}"' in page for name in names)
    header = (out / "results.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    assert {"learner", "relative_error", "shape_error", "identity_error", "active_share"} <= set(header)
    assert (out / "summary.parquet").exists()
    before = (out / "runs.jsonl").read_text(encoding="utf-8")
    assert main(arguments) == 0
    assert (out / "runs.jsonl").read_text(encoding="utf-8") == before


@pytest.mark.parametrize(("arguments", "match"), [(["exp9"], "no figure 'exp9'"), (["--runs", "0"], "--runs 0")])
def test_wrong_words_are_said(arguments, match, tmp_path, capsys) -> None:
    with pytest.raises(SystemExit) as error:
        main(["reproduce", *arguments, "--out", str(tmp_path / "out")])
    assert error.value.code == 2
    assert match in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_rows_of_a_figure_are_its_own() -> None:
    figure = figure_named("exp1-logistic-beta1")
    assert rows_of_figure(figure, BASE) == BASE
    assert rows_of_figure(figure_named("exp1-hinge-beta1"), BASE) == []
