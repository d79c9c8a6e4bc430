"""Answers that stay on disk: grouping, bad input, memory limits, checkpoints, warm starts."""

from __future__ import annotations

import ast
import errno
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdmetric import IdealPointMetric, MatchedMetric, PopulationMetric
from crowdmetric.bounded import from_disk
from crowdmetric.cli import main
from crowdmetric.comparisons import Comparisons
from crowdmetric.design import matched_from_generator
from crowdmetric.engines.torch_engine import TorchEngine
from crowdmetric.errors import ConvergenceWarning, DataError, DroppedRowsWarning
from crowdmetric.evaluate import evaluate
from crowdmetric.fits import problem
from crowdmetric.fits.memory import read_memory
from crowdmetric.fits.passes import Passes
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.identifiability import assignment, diagnose, plan_diagnosis
from crowdmetric.inputs import read_rows
from crowdmetric.losses import get_loss
from crowdmetric.persist import load_model
from crowdmetric.simulate import SimulatedCrowd, answer, simulate_crowd
from crowdmetric.solvers.cone import BOUNDS
from crowdmetric.symmetric import svec
from crowdmetric.tables import ComparisonScan, spool

N_ITEMS = 40


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def answers(rows: int = 3_000, people: int = 900, *, text: bool = False, ordered: bool = False) -> Comparisons:
    rng = np.random.default_rng(0)
    users: Any = rng.integers(-people // 2, people // 2, rows)
    users = np.sort(users) if ordered else users
    users = np.array([f"né {user}" for user in users]) if text else users
    left = rng.integers(0, N_ITEMS, rows)
    pairs = np.column_stack([left, (left + rng.integers(1, N_ITEMS, rows)) % N_ITEMS])
    weight = rng.uniform(0.5, 2.0, rows)
    return Comparisons.from_arrays(users, pairs, rng.choice([-1.0, 1.0], rows), weight=weight, n_items=N_ITEMS)


def by_person(table: Comparisons) -> Comparisons:
    return table.take(np.argsort(table.user, kind="stable"))


# ------------------------------------------------------------------------------------------ grouping


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("part_bytes", [1 << 26, 20_000])
def test_a_scan_holds_the_rows_of_the_file_grouped_by_person(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, ordered: bool, text: bool, part_bytes: int
) -> None:
    monkeypatch.setattr(spool, "CHUNK_ROWS", 100)
    monkeypatch.setattr(spool, "PART_BYTES", part_bytes)
    table = answers(text=text, ordered=ordered)
    table.write(tmp_path / "a.parquet")
    scan = Comparisons.scan_parquet(tmp_path / "a.parquet", n_items=N_ITEMS, scratch=scratch)
    assert Comparisons.from_scan(scan) == by_person(table)
    assert (len(scan), scan.n_users, scan.is_binary) == (len(table), table.n_users, True)
    assert scan.total_weight == pytest.approx(table.weight.sum())
    assert np.array_equal(np.flatnonzero(scan.used), np.unique(table.pairs))
    assert len(scan.chunks) > 10
    whole = [set(chunk.ids().tolist()) for chunk in scan.chunks]
    assert sum(map(len, whole)) == len(set.union(*whole)) == table.n_users  # nobody is in two chunks
    assert {path.name for path in next(scratch.iterdir()).iterdir()} == {"answers.bin", "people.bin"}
    scan.close()
    assert not list(scratch.iterdir())


def test_several_files_csv_and_arrow_datasets_give_the_same(tmp_path: Path) -> None:
    table = answers()
    for number, rows in enumerate(np.array_split(np.arange(len(table)), 3)):
        table.take(rows).write(tmp_path / f"part-{number}.parquet")
    dataset = pytest.importorskip("pyarrow.dataset").dataset(tmp_path, format="parquet")
    table.write(tmp_path / "all.csv")
    expected = by_person(table)
    scans = [
        Comparisons.scan_parquet(tmp_path, n_items=N_ITEMS),
        Comparisons.scan_parquet(f"{tmp_path}/part-*.parquet", item_ids=np.arange(N_ITEMS)),
        Comparisons.scan_csv(tmp_path / "all.csv", n_items=N_ITEMS),
        Comparisons.scan_arrow(dataset, n_items=N_ITEMS),
    ]
    for scan in scans:
        assert Comparisons.from_scan(scan) == expected


def test_a_person_with_more_answers_than_a_chunk_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "CHUNK_ROWS", 8)
    users = np.repeat([1, 2, 3, 4], [3, 50, 1, 9])
    pairs = np.column_stack([np.arange(63) % 7, np.arange(63) % 7 + 1])
    table = Comparisons.from_arrays(users, pairs, np.ones(63), n_items=8)
    table.write(tmp_path / "a.parquet")
    scan = Comparisons.scan_parquet(tmp_path / "a.parquet", n_items=8)
    assert sorted(chunk.people for chunk in scan.chunks) == [2, 2]
    assert Comparisons.from_scan(scan) == table


# ----------------------------------------------------------------------------------------- bad input


def test_rows_that_cannot_be_used_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdmetric.tables.sources.BATCH_ROWS", 2)
    text = "user,left,right,choice\n1,0,1,left\n2,3,3,left\n1,1,99,right\n3,0,77,left\n,0,1,left\n2,1,2,tie\n"
    (tmp_path / "a.csv").write_text(text)
    scan = Comparisons.scan_csv(tmp_path / "a.csv", n_items=5)
    with pytest.warns(
        DroppedRowsWarning, match=r"4 of 6 .*1 × self-comparison .*row 1.*2 × unknown item \(first 99 in row 2"
    ):
        assert len(scan) == 3
    with pytest.warns(DroppedRowsWarning):
        assert Comparisons.read(tmp_path / "a.csv", n_items=5).dropped == scan.dropped
    strict = Comparisons.scan_csv(tmp_path / "a.csv", n_items=5, on_bad="raise")
    with pytest.raises(DataError, match="4 of 6 comparisons cannot be used"):
        len(strict)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"left": [0.5, 1.0]}, "left must be all whole numbers or all text, but holds 0.5"),
        ({"response": ["yes", "no"]}, "response holds 'yes'"),
        ({"left": ["a", "b"], "right": ["b", "a"]}, "comparisons name items like 'a', but the item ids are like 0"),
        ({"user": [1.5, 2.0]}, "user must be all whole numbers"),
    ],
)
def test_a_column_of_the_wrong_type_is_named_with_its_file(
    tmp_path: Path, scratch: Path, columns: dict[str, Any], message: str
) -> None:
    polars = pytest.importorskip("polars")
    good = {"user": [1, 2], "left": [0, 1], "right": [1, 2], "response": [1, -1]}
    polars.DataFrame(good | columns).write_parquet(tmp_path / "bad.parquet")
    scan = Comparisons.scan_parquet(tmp_path / "bad.parquet", n_items=5, scratch=scratch)
    with pytest.raises(DataError, match=message) as error:
        len(scan)
    assert "bad.parquet" in str(error.value)
    assert not list(scratch.iterdir())


def test_damaged_and_absent_files_are_named(tmp_path: Path, scratch: Path) -> None:
    answers().write(tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"b\.parquet is damaged"):
        len(Comparisons.scan_parquet(f"{tmp_path}/*.parquet", n_items=N_ITEMS, scratch=scratch))
    assert not list(scratch.iterdir())
    with pytest.raises(DataError, match="no file matches"):
        Comparisons.scan_parquet(tmp_path / "*.pq", n_items=N_ITEMS)
    with pytest.raises(DataError, match="a scan must know the items"):
        Comparisons.scan_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="has no column 'rater'"):
        Comparisons.scan_parquet(tmp_path / "a.parquet", n_items=N_ITEMS, user="rater")
    with pytest.raises(DataError, match="not an Arrow dataset"):
        Comparisons.scan_arrow([1, 2], n_items=N_ITEMS)


def test_people_named_by_numbers_and_by_text_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdmetric.tables.sources.BATCH_ROWS", 2)
    (tmp_path / "a.csv").write_text("user,left,right,choice\n1,0,1,left\n2,0,1,left\nann,0,1,left\nbob,0,1,left\n")
    with pytest.raises(DataError, match="by whole numbers in some rows and by text in others"):
        len(Comparisons.scan_csv(tmp_path / "a.csv", n_items=5))


def test_a_full_disk_is_said_before_the_work_and_during_it(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers().write(tmp_path / "a.parquet")
    scan = Comparisons.scan_parquet(tmp_path / "a.parquet", n_items=N_ITEMS, scratch=scratch)
    usage = spool.shutil.disk_usage(scratch)
    with monkeypatch.context() as patch:
        patch.setattr(spool.shutil, "disk_usage", lambda place: usage._replace(free=1_000))
        with pytest.raises(DataError, match=r"takes 0\.00022 GB of disk, but .* has 1e-06 GB free"):
            len(scan)

    def full(file: Any, values: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(spool, "_write", full)
        with pytest.raises(DataError, match="is full, and nothing was kept"):
            len(scan)
    assert not list(scratch.iterdir())
    assert len(scan) == 3_000  # and with room again, all is well
    with pytest.raises(DataError, match="there is no folder"):
        len(Comparisons.scan_parquet(tmp_path / "a.parquet", n_items=N_ITEMS, scratch=tmp_path / "absent"))


def test_an_interrupted_grouping_leaves_nothing_behind(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(file: Any, values: Any) -> None:
        raise KeyboardInterrupt

    answers().write(tmp_path / "a.parquet")
    monkeypatch.setattr(spool, "_write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        len(Comparisons.scan_parquet(tmp_path / "a.parquet", n_items=N_ITEMS, scratch=scratch))
    assert not list(scratch.iterdir())


# ---------------------------------------------------------------------------------------------- fits


@pytest.fixture(scope="module")
def crowd() -> SimulatedCrowd:
    return simulate_crowd(3, None, None, users=2_500, comparisons=1, seed=3)


@pytest.fixture(scope="module")
def table(crowd: SimulatedCrowd) -> Comparisons:
    """Some people with one answer, some with two or three, in shuffled order."""
    users = np.where(crowd.users % 4 == 0, crowd.users // 3, crowd.users)
    whole = Comparisons.from_arrays(users, crowd.pairs, crowd.y, n_items=len(crowd.items))
    return whole.take(np.random.default_rng(0).permutation(len(whole)))


@pytest.fixture(scope="module")
def in_memory(crowd: SimulatedCrowd, table: Comparisons) -> PopulationMetric:
    return PopulationMetric(crowd.items).fit(table)


def scan_of(table: Comparisons, folder: Path) -> Any:
    table.write(folder / "answers.parquet")
    return Comparisons.scan_parquet(folder / "answers.parquet", n_items=table.n_items, scratch=folder)


def assert_same(one: PopulationMetric, other: PopulationMetric, tolerance: float = 1e-8) -> None:
    for name in ("metric_", "standard_errors_", "ideal_mean_", "ideal_covariance_", "ridge_", "approximation_error_"):
        a, b = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
        assert np.max(np.abs(a - b)) <= tolerance * max(1.0, np.max(np.abs(a))), name


@pytest.mark.parametrize("room", [0, 10_000, 10**9])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_scan_is_fitted_as_in_memory(
    crowd: SimulatedCrowd, table: Comparisons, in_memory: PopulationMetric, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, room: int, jobs: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(spool, "CHUNK_ROWS", 300)
    monkeypatch.setattr("crowdmetric.fits.memory._in_use", lambda: 10**8)
    scan = scan_of(table, tmp_path)
    assert len(scan.chunks) > 5
    model = PopulationMetric(crowd.items, jobs=jobs)
    plan = model.memory_plan(scan)
    model.set_params(memory=plan.needed + room)
    model.fit(scan)
    assert_same(in_memory, model)
    assert model.users_.size == 0
    # of people whose place is not kept, the population's mean is expected
    assert np.allclose(model.decision_function(crowd.pairs[:5], users=crowd.users[:5]),
                       in_memory.decision_function(crowd.pairs[:5]), atol=1e-7)  # fmt: skip


def test_a_sample_for_the_starts_is_the_same_people(
    crowd: SimulatedCrowd, table: Comparisons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problem, "PEOPLE_FOR_STARTS", 600)
    monkeypatch.setattr(spool, "CHUNK_ROWS", 300)
    steps: list[int] = []
    thinned = PopulationProblem.thinned

    def counted(problem: PopulationProblem) -> PopulationProblem:
        some = thinned(problem)
        steps.append(some.n_people)
        return some

    monkeypatch.setattr(PopulationProblem, "thinned", counted)
    fits = [PopulationMetric(crowd.items).fit(data) for data in (table, scan_of(table, tmp_path))]
    assert_same(*fits)
    assert steps[0] == steps[1]
    assert 450 < steps[0] < 900


@pytest.fixture
def never_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks, and nobody who may read them all at once."""

    collect = ComparisonScan.collect

    def refuse(scan: ComparisonScan, people: int | None = None) -> Any:
        if people is None:
            raise AssertionError("a scan was read into memory")
        return collect(scan, people)

    monkeypatch.setattr(spool, "CHUNK_ROWS", 300)
    monkeypatch.setattr(ComparisonScan, "collect", refuse)


@pytest.mark.parametrize("comparisons", [1, 5])
@pytest.mark.parametrize("cells", [200_000, 600])
def test_a_scan_is_diagnosed_as_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, never_in_memory: None, comparisons: int, cells: int
) -> None:
    crowd = simulate_crowd(3, None, None, users=700, comparisons=comparisons, seed=3)
    whole = Comparisons.from_arrays(crowd.users, crowd.pairs, crowd.y, n_items=len(crowd.items))
    table = whole.take(np.random.default_rng(0).permutation(len(whole)))
    monkeypatch.setattr(assignment, "CELLS", cells)
    monkeypatch.setattr(assignment, "FEWEST_ANSWERS", 10)
    scan = scan_of(table, tmp_path)
    assert len(scan.chunks) > 2
    here, there = diagnose(crowd.items, by_person(table)), diagnose(crowd.items, scan, memory="4GB")
    if cells == 200_000:
        assert there.summary() == here.summary()
    for name in ("rank", "people", "silent", "answers", "most_answers", "spare", "span", "items", "population_rank"):
        assert getattr(here, name) == getattr(there, name), name
    assert here.largest == pytest.approx(there.largest, nan_ok=True)
    # the check of who was asked what looks at some people only, by design: about as many of them
    assert there.assignment.people == pytest.approx(here.assignment.people, rel=0.05)
    assert there.assignment.suspicious == here.assignment.suspicious


def test_the_memory_of_a_diagnosis_is_planned(
    crowd: SimulatedCrowd, table: Comparisons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crowdmetric.fits.memory._in_use", lambda: 10**8)
    scan = scan_of(table, tmp_path)
    with pytest.raises(DataError, match=r"is too little: this diagnosis takes .* or more; raise memory"):
        diagnose(crowd.items, scan, memory="1MB")
    assert "answers are read from disk, a chunk at a time" in plan_diagnosis(crowd.items, scan, "4GB").sentence
    with pytest.raises(DataError, match="memory='2GB' is a limit for scanned comparisons"):
        diagnose(crowd.items, table, memory="2GB")


def test_scans_and_arrays_do_not_mix(crowd: SimulatedCrowd, table: Comparisons, tmp_path: Path) -> None:
    scan = scan_of(table, tmp_path)
    with pytest.raises(DataError, match="a scan carries its answers"):
        PopulationMetric(crowd.items).fit(scan, crowd.y)
    with pytest.raises(DataError, match="but items has 7 rows"):
        PopulationMetric(crowd.items[:7]).fit(scan)
    real = Comparisons.from_arrays([1, 2], [[0, 1], [1, 2]], [0.3, -1.2], n_items=table.n_items)
    real.write(tmp_path / "real.parquet")
    with pytest.raises(DataError, match="neither −1"):
        PopulationMetric(crowd.items).fit(Comparisons.scan_parquet(tmp_path / "real.parquet", n_items=table.n_items))


def test_estimators_that_do_not_stream_read_a_scan_into_memory(
    crowd: SimulatedCrowd, table: Comparisons, tmp_path: Path
) -> None:
    loss = get_loss("logistic", 1.0)
    here, there = (
        read_rows(data, None, None, None, crowd.items, loss) for data in (by_person(table), scan_of(table, tmp_path))
    )
    for name in ("pairs", "response", "weight", "person", "users"):
        assert np.array_equal(getattr(here, name), getattr(there, name)), name


# -------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    ("memory", "size"), [(5, 5), ("2GB", 2 * 10**9), (" 1.5 gib ", 3 * 2**29), ("300 MB", 3 * 10**8), ("7", 7)]
)
def test_memory_is_read_in_the_units_people_write(memory: Any, size: int) -> None:
    assert read_memory(memory) == size


@pytest.mark.parametrize("memory", ["much", "2 apples", -1, 0, True, [], "-2GB"])
def test_memory_that_is_none_is_refused(memory: Any) -> None:
    with pytest.raises(DataError, match="is not a number of bytes"):
        read_memory(memory)


def test_a_limit_that_cannot_be_kept_is_refused(
    crowd: SimulatedCrowd, table: Comparisons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crowdmetric.fits.memory._in_use", lambda: 10**8)
    scan = scan_of(table, tmp_path)
    with pytest.raises(DataError, match=r"is too little: this fit takes .* or more"):
        PopulationMetric(crowd.items, memory="1MB").fit(scan)
    plan = PopulationMetric(crowd.items, memory="4GB").memory_plan(scan)
    assert "2,500 answers" in plan.sentence
    assert "all answers stay" in plan.sentence
    tight = PopulationMetric(crowd.items, memory=plan.needed + plan.everything // 2).memory_plan(scan)
    assert "is read from disk at every pass" in tight.sentence
    assert tight.room < plan.room == plan.everything


def test_the_plan_counts_the_outer_products_of_every_job(
    table: Comparisons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores of a free law are 2p + d numbers, of an isotropic one p + d + 1, and each job adds up two such squares."""
    monkeypatch.setattr("crowdmetric.fits.memory._in_use", lambda: 10**8)
    d, p = 20, 210
    items, scan = np.random.default_rng(0).standard_normal((table.n_items, d)), scan_of(table, tmp_path)
    a_job = {}
    for covariance in ("isotropic", "free"):
        one, two = (
            PopulationMetric(items, covariance=covariance, jobs=jobs, memory="9GB").memory_plan(scan).needed
            for jobs in (1, 2)
        )
        a_job[covariance] = two - one
    assert a_job["free"] - a_job["isotropic"] == 2 * 8 * ((2 * p + d) ** 2 - (p + d + 1) ** 2)
    with pytest.raises(DataError, match="covariance='round' is unknown"):
        PopulationMetric(items, covariance="round").memory_plan(scan)


@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("torch", [False, True])
def test_many_features_of_a_scan_are_fitted_as_in_memory(
    table: Comparisons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: float, torch: bool
) -> None:
    engine = None
    if torch:
        pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
        engine = TorchEngine("cpu")
    monkeypatch.setattr(spool, "CHUNK_ROWS", 300)
    monkeypatch.setattr("crowdmetric.fits.memory._in_use", lambda: 10**8)
    items, scan = np.random.default_rng(0).standard_normal((table.n_items, 80)), scan_of(table, tmp_path)
    assert len(scan.chunks) > 5
    options: dict[str, Any] = {"rank": 2, "max_iter": 10, "engine": engine}
    with pytest.warns(ConvergenceWarning):  # ten steps are enough to tell fits apart
        here = PopulationMetric(items, **options).fit(table)
    there = PopulationMetric(items, **options)
    plan = there.set_params(memory="9GB").memory_plan(scan)
    with pytest.raises(DataError, match=r"is too little: this fit takes .* or more; raise memory"):
        there.set_params(memory=plan.needed - 10**6).fit(scan)
    with pytest.warns(ConvergenceWarning):
        there.set_params(memory=plan.needed + int(kept * plan.everything)).fit(scan)
    np.testing.assert_allclose(there.metric_, here.metric_, rtol=0, atol=1e-8 * np.abs(here.metric_).max())
    np.testing.assert_allclose(there.log_likelihood_, here.log_likelihood_, rtol=1e-10)
    assert there.users_.size == 0


# ---------------------------------------------------------------------------------------- checkpoints


class Interrupted(Exception):
    """Stands for a machine that goes down."""


@pytest.mark.parametrize("people_for_starts", [600, 20_000])  # starts on some of the people, or on all
@pytest.mark.parametrize("passes", [1, 4, 8, 11])
def test_an_interrupted_fit_is_taken_up_exactly(
    crowd: SimulatedCrowd, table: Comparisons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: int,
    people_for_starts: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(problem, "PEOPLE_FOR_STARTS", people_for_starts)
    whole = PopulationMetric(crowd.items, checkpoint=tmp_path / "whole.npz").fit(table)
    said: list[str] = []

    def stop(sentence: str) -> None:
        said.append(sentence)
        if len(said) == passes:
            raise Interrupted

    model = PopulationMetric(crowd.items, checkpoint=tmp_path / "state.npz", progress=stop)
    with pytest.raises(Interrupted):
        model.fit(table)
    if passes > 1:
        assert [path.name for path in tmp_path.glob("*state*")] == ["state.npz"]
    model.set_params(progress=None).fit(table)
    assert np.array_equal(model.metric_, whole.metric_)
    assert np.array_equal(model.standard_errors_, whole.standard_errors_)
    assert model.solution_.iterations == whole.solution_.iterations
    assert "people per second, about" in said[0]
    model.fit(table)  # and once more, from the end
    assert np.array_equal(model.metric_, whole.metric_)


def test_a_checkpoint_of_another_fit_is_refused(crowd: SimulatedCrowd, table: Comparisons, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    PopulationMetric(crowd.items, checkpoint=path).fit(table)
    with pytest.raises(DataError, match="belongs to a fit to other answers or with other options"):
        PopulationMetric(crowd.items, checkpoint=path, ridge=3.0).fit(table)
    other = table.take(np.arange(len(table) - 1))
    with pytest.raises(DataError, match="belongs to a fit to other answers"):
        PopulationMetric(crowd.items, checkpoint=path).fit(other)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="is not a checkpoint, or is damaged"):
        PopulationMetric(crowd.items, checkpoint=path).fit(table)
    with pytest.raises(DataError, match="there is no folder"):
        PopulationMetric(crowd.items, checkpoint=tmp_path / "absent" / "state.npz").fit(table)


# ---------------------------------------------------------------------------------------- warm starts


def test_a_refit_with_new_people_reaches_the_full_refit(crowd: SimulatedCrowd, table: Comparisons) -> None:
    options: dict[str, Any] = {"ridge": 5.0, "uncertainty": False, "tol": 1e-6}
    first = table.take(table.user < table.n_users // 2)
    cold = PopulationMetric(crowd.items, **options).fit(table)
    warm = PopulationMetric(crowd.items, warm_start=True, **options).fit(first)
    assert abs(warm.log_likelihood_ - cold.log_likelihood_) > 1.0
    warm.fit(table)
    assert warm.log_likelihood_ == pytest.approx(cold.log_likelihood_, abs=1e-2)
    assert -warm.starts_[0] == pytest.approx(-cold.starts_.max(), abs=1e-4)  # the objective, with the ridge
    assert warm.metric_ == pytest.approx(cold.metric_, abs=0.01)
    assert warm.solution_.iterations < cold.solution_.iterations
    with pytest.raises(DataError, match="but items have 2"):
        warm.set_params(items=crowd.items[:, :2]).fit(table)


def test_a_warm_start_can_leave_the_boundary(crowd: SimulatedCrowd, table: Comparisons) -> None:
    cold = PopulationMetric(crowd.items, uncertainty=False).fit(table)
    warm = PopulationMetric(crowd.items, uncertainty=False, warm_start=True, rank=1).fit(table)
    assert np.linalg.matrix_rank(warm.metric_, tol=1e-6) == 1
    warm.set_params(rank=None).fit(table)
    assert warm.log_likelihood_ == pytest.approx(cold.log_likelihood_, abs=0.05)


def test_grouped_answers_vanish_with_the_scan(table: Comparisons, tmp_path: Path) -> None:
    scan = scan_of(table, tmp_path)
    chunk = scan.chunks[0]
    folder = Path(chunk.folder)
    assert folder.is_dir()
    del scan
    assert not folder.exists()
    with pytest.raises(DataError, match="are gone"):
        chunk.load()


# --------------------------------------------------------------------------------------- command line


def test_the_command_line_fits_within_a_memory_limit(
    crowd: SimulatedCrowd,
    table: Comparisons,
    in_memory: PopulationMetric,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.save(tmp_path / "items.npy", crowd.items)
    for number, rows in enumerate(np.array_split(np.arange(len(table)), 2)):
        table.take(rows).write(tmp_path / f"answers-{number}.parquet")
    arguments = ["fit", str(tmp_path / "items.npy"), str(tmp_path / "answers-*.parquet"), "--memory", "2GB"]
    state, out = str(tmp_path / "state.npz"), str(tmp_path / "model")
    assert main([*arguments, "--checkpoint", state, "--jobs", "2", "--out", out]) == 0
    printed = capsys.readouterr()
    assert "2,084 people with 2,500 answers: about" in printed.err
    assert "2,500 answers, 2,084 people" in printed.out
    assert Path(state).exists()
    model = load_model(out).estimator()
    np.testing.assert_allclose(model.metric_, in_memory.metric_, atol=1e-8)
    assert model.predict_proba(crowd.pairs[:3], users=crowd.users[:3]).shape == (3, 2)
    assert main([*arguments[:-1], "1kB", "--out", str(tmp_path / "none")]) == 1
    assert "is too little" in capsys.readouterr().err
    assert main([*arguments[:-1], "lots", "--out", str(tmp_path / "none")]) == 1
    assert "memory='lots' is not a number of bytes" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_the_command_line_diagnoses_within_a_memory_limit(
    crowd: SimulatedCrowd, table: Comparisons, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "items.npy", crowd.items)
    table.write(tmp_path / "answers.parquet")
    arguments = ["diagnose", str(tmp_path / "items.npy"), str(tmp_path / "answers.parquet")]
    assert main(arguments) == 0
    plain = capsys.readouterr().out
    assert main([*arguments, "--memory", "2GB"]) == 0
    printed = capsys.readouterr()
    assert printed.out == plain
    assert "2,084 people with 2,500 answers: about" in printed.err
    assert main([*arguments, "--memory", "1kB"]) == 1
    assert "is too little" in capsys.readouterr().err


# ---------------------------------------------------------------------------------- matched and bounded people


@pytest.fixture(scope="module")
def matched() -> tuple[Any, Comparisons]:
    """Items, and answers to matched questions: most people two, some four."""
    ask = matched_from_generator(3, people=1_500, seed=0)
    person = np.where(ask.person < 200, ask.person // 2, ask.person)
    ideal = np.random.default_rng(0).standard_normal((1_500, 3))
    y = answer(ask.items, ask.pairs, ideal[ask.person], np.diag([2.0, 1.0, 0.5]), seed=1)
    return ask.items, Comparisons.from_arrays(person, ask.pairs, y, n_items=len(ask.items))


@pytest.mark.parametrize("room", [0, 20_000, 10**9])
def test_matched_questions_of_a_scan_are_fitted_as_in_memory(
    matched: tuple[Any, Comparisons], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, never_in_memory: None, room: int
) -> None:
    items, table = matched
    monkeypatch.setattr("crowdmetric.fits.memory._in_use", lambda: 10**8)
    here = MatchedMetric(items).fit(table)
    scan = scan_of(table, tmp_path)
    assert len(scan.chunks) > 5
    there = MatchedMetric(items)
    there.set_params(memory=there.memory_plan(scan).needed + room).fit(scan)
    for name in ("metric_", "standard_errors_", "symmetric_metric_", "metric_covariance_", "mismatch_", "objective_"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-7, atol=1e-10, err_msg=name)
    for name in ("n_sets_", "n_used_sets_", "n_matched_people_", "n_used_people_"):
        assert getattr(there, name) == getattr(here, name), name
    assert there.solution_.status == here.solution_.status
    assert there.users_.size == 0
    with pytest.raises(DataError, match="this fit takes"):
        MatchedMetric(items, memory="1MB").fit(scan)


@pytest.fixture(scope="module")
def talkative() -> tuple[SimulatedCrowd, Comparisons]:
    crowd = simulate_crowd(3, None, None, users=400, comparisons=6, seed=1)
    table = Comparisons.from_arrays(crowd.users, crowd.pairs, crowd.y, n_items=len(crowd.items))
    return crowd, table.take(np.random.default_rng(0).permutation(len(table)))


@pytest.mark.parametrize("loss", ["logistic", "probit"])
@pytest.mark.parametrize("norm", ["frobenius", "nuclear"])
@pytest.mark.parametrize("bound", [1.0, 8.0])  # active, and not
def test_bounded_people_of_a_scan_are_fitted_as_in_memory(
    talkative: tuple[SimulatedCrowd, Comparisons], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    never_in_memory: None, loss: str, norm: str, bound: float,
) -> None:  # fmt: skip
    crowd, table = talkative
    monkeypatch.setattr(from_disk, "SAMPLE", 100)
    options: dict[str, Any] = {"metric_bound": bound, "ideal_bound": 3.0, "norm": norm, "loss": loss}
    here = IdealPointMetric(crowd.items, **options).fit(table)
    told: list[str] = []
    there = IdealPointMetric(crowd.items, memory="4GB", progress=told.append, **options).fit(scan_of(table, tmp_path))
    assert there.solution_.converged
    assert there.solution_.gap <= 1e-8
    assert there.objective_ == pytest.approx(here.objective_, abs=2e-8)
    assert there.metric_ == pytest.approx(here.metric_, abs=2e-3)
    assert BOUNDS[norm].size(svec(there.metric_)) <= bound * (1.0 + 1e-12)
    assert "people per second, about" in told[0]
    # nobody's place is kept: the mean of everybody's is expected
    assert there.users_.size == 0
    assert there.pseudo_ideal_mean_ == pytest.approx(here.pseudo_ideal_points_.mean(axis=0), abs=2e-3)
    assert there.predict_proba(crowd.pairs[:3], users=crowd.users[:3]).shape == (3, 2)


def test_bounds_of_a_scan_are_chosen_on_some_people(
    talkative: tuple[SimulatedCrowd, Comparisons], tmp_path: Path, never_in_memory: None
) -> None:
    crowd, table = talkative
    here, there = (
        IdealPointMetric(crowd.items, tol=1e-5).fit(data) for data in (by_person(table), scan_of(table, tmp_path))
    )
    assert (there.metric_bound_, there.ideal_bound_) == (here.metric_bound_, here.ideal_bound_)
    assert there.radii_ is not None


def test_what_gradients_cannot_fit_is_refused(talkative: tuple[SimulatedCrowd, Comparisons], tmp_path: Path) -> None:
    crowd, table = talkative
    scan = scan_of(table, tmp_path)
    for options, what in (
        ({"loss": "hinge"}, "loss='hinge'"), ({"loss": "squared"}, "loss='squared'"),
        ({"fixed_metric": np.eye(3)}, "fixed_metric"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=f"{what} cannot be fitted to answers left on disk"):
            IdealPointMetric(crowd.items, **options).fit(scan)
    with pytest.warns(ConvergenceWarning, match=r"Stopped after 2 passes with a certified gap of .*, short of tol"):
        IdealPointMetric(crowd.items, metric_bound=2.0, ideal_bound=3.0, max_iter=2, tol=1e-12).fit(scan)
    with pytest.raises(DataError, match="this fit takes"):
        IdealPointMetric(crowd.items, memory="1MB").fit(scan)


@pytest.mark.parametrize("estimator", ["matched", "ideal"])
def test_the_command_line_fits_other_estimators_within_a_memory_limit(
    matched: tuple[Any, Comparisons], talkative: tuple[SimulatedCrowd, Comparisons], tmp_path: Path,
    capsys: pytest.CaptureFixture[str], estimator: str,
) -> None:  # fmt: skip
    items, table = matched if estimator == "matched" else (talkative[0].items, talkative[1])
    np.save(tmp_path / "items.npy", items)
    table.write(tmp_path / "answers.parquet")
    files = [str(tmp_path / "items.npy"), str(tmp_path / "answers.parquet")]
    given = ["--metric-bound", "4", "--ideal-bound", "3"] if estimator == "ideal" else []
    arguments = ["fit", *files, "--estimator", estimator, *given, "--no-report"]
    assert main([*arguments, "--out", str(tmp_path / "plain")]) == 0
    capsys.readouterr()
    assert main([*arguments, "--memory", "4GB", "--out", str(tmp_path / "model")]) == 0
    assert f"{table.n_users:,} people with {len(table):,} answers: about" in capsys.readouterr().err
    here, there = (load_model(tmp_path / name).estimator() for name in ("plain", "model"))
    assert there.metric_ == pytest.approx(here.metric_, abs=2e-3)
    if estimator == "ideal":
        assert main(["predict", str(tmp_path / "model"), files[1], "--out", str(tmp_path / "p.csv")]) == 0


# ----------------------------------------------------------------------------------------- evaluation


def test_some_people_of_a_scan_are_whole_and_the_same_every_time(
    talkative: tuple[SimulatedCrowd, Comparisons], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "CHUNK_ROWS", 300)
    table = talkative[1]
    scan = scan_of(table, tmp_path)
    some = Comparisons.from_scan(scan, people=100)
    assert some == Comparisons.from_scan(scan, people=100)
    assert 70 < some.n_users < 140
    rows = np.isin(table.user_ids[table.user], some.user_ids)
    assert len(some) == rows.sum()
    for name in ("user", "left", "right", "response"):
        mine = by_person(table.take(rows))
        assert np.array_equal(some.columns()[name], mine.columns()[name]), name
    assert Comparisons.from_scan(scan, people=10_000) == by_person(table)
    with pytest.raises(DataError, match="people=0 is not a whole number of at least 1"):
        Comparisons.from_scan(scan, people=0)


def test_a_scan_is_evaluated_on_some_people(
    talkative: tuple[SimulatedCrowd, Comparisons], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crowdmetric.fits.memory._in_use", lambda: 10**8)
    crowd, table = talkative
    scan = scan_of(table, tmp_path)
    models, options = ["bradley-terry", "identity"], {"splits": ["people"], "repeats": 1}
    here, there = (evaluate(crowd.items, data, models, **options) for data in (by_person(table), scan))
    assert there.drawn == (400, 400)
    assert there.mean("people", "identity") == here.mean("people", "identity")
    some = evaluate(crowd.items, scan, models, people=100, memory="4GB", **options)
    assert some.drawn is not None
    assert some.summary().startswith(f"Evaluated on {some.drawn[0]} of 400 people, drawn whatever they answered.")
    assert some.to_dict()["drawn"] == list(some.drawn)
    with pytest.raises(DataError, match=r"this evaluation takes .*; raise memory, or lower people or jobs"):
        evaluate(crowd.items, scan, models, memory="1MB", **options)
    with pytest.raises(DataError, match="people and memory are for scanned comparisons"):
        evaluate(crowd.items, table, models, people=100, **options)


def test_the_command_line_evaluates_within_a_memory_limit(
    talkative: tuple[SimulatedCrowd, Comparisons], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "items.npy", talkative[0].items)
    talkative[1].write(tmp_path / "answers.parquet")
    arguments = ["evaluate", str(tmp_path / "items.npy"), str(tmp_path / "answers.parquet"), "--split", "people"]
    arguments += ["--models", "bradley-terry,identity", "--repeats", "1", "--jobs", "1"]
    assert main([*arguments, "--memory", "4GB", "--people", "100"]) == 0
    printed = capsys.readouterr()
    assert "of 400 people, drawn whatever they answered" in printed.out
    assert "400 people with 2,400 answers: about" in printed.err
    with pytest.raises(SystemExit):
        main([*arguments, "--people", "100"])
    assert "give both or neither" in capsys.readouterr().err


# --------------------------------------------------------------------------- what goes wrong in the middle


def test_a_file_damaged_in_the_middle_is_named(tmp_path: Path, scratch: Path) -> None:
    answers(rows=20_000).write(tmp_path / "a.parquet")
    whole = bytearray((tmp_path / "a.parquet").read_bytes())
    whole[len(whole) // 3 : len(whole) // 3 + 2_000] = bytes(2_000)
    (tmp_path / "a.parquet").write_bytes(whole)
    with pytest.raises(DataError, match=r"a\.parquet is damaged"):
        len(Comparisons.scan_parquet(tmp_path / "a.parquet", n_items=N_ITEMS, scratch=scratch))
    assert not list(scratch.iterdir())


def test_a_checkpoint_that_finds_the_disk_full_keeps_the_last_one(
    crowd: SimulatedCrowd, table: Comparisons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.npz"
    writes = 0
    savez = np.savez

    def full(file: Any, **arrays: Any) -> None:
        nonlocal writes
        writes += 1
        if writes == 3:
            file.write(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        savez(file, **arrays)

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(
            DataError,
            match=r"state\.npz cannot be written \(No space left on device\); what was there .* unchanged: make room",
        ):
            PopulationMetric(crowd.items, checkpoint=path).fit(table)
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]
    resumed = PopulationMetric(crowd.items, checkpoint=path).fit(table)
    assert np.array_equal(resumed.metric_, PopulationMetric(crowd.items).fit(table).metric_)


@pytest.mark.parametrize("estimator", ["population", "ideal"])
def test_control_c_in_a_fit_leaves_the_checkpoint_and_nothing_else(
    talkative: tuple[SimulatedCrowd, Comparisons], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], estimator: str,
) -> None:  # fmt: skip
    def interrupt(passes: Passes, seconds: float, made: int = 1) -> None:
        passes._passes += 1
        if passes._passes == 3:
            raise KeyboardInterrupt

    np.save(tmp_path / "items.npy", talkative[0].items)
    talkative[1].write(tmp_path / "answers.parquet")
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    monkeypatch.setattr(Passes, "__call__", interrupt)
    more = ["--checkpoint", str(tmp_path / "state.npz")] if estimator == "population" else ["--metric-bound", "4"]
    arguments = ["fit", str(tmp_path / "items.npy"), str(tmp_path / "answers.parquet"), "--memory", "4GB"]
    assert main([*arguments, "--estimator", estimator, *more, "--out", str(tmp_path / "model")]) == 130
    assert capsys.readouterr().err.endswith("crowdmetric: interrupted\n")
    gc.collect()
    assert not list((tmp_path / "scratch").iterdir())
    left = {"items.npy", "answers.parquet", "scratch"} | ({"state.npz"} if estimator == "population" else set())
    assert {path.name for path in tmp_path.iterdir()} == left


def test_nothing_depends_on_asserts(tmp_path: Path) -> None:
    """``python -O`` leaves asserts out: a scan must be read all the same, and its weights counted."""
    path = tmp_path / "answers.csv"
    path.write_text("user,left,right,choice,weight\n" + "".join(f"{k},0,1,left,{k + 1}\n" for k in range(4)))
    script = (
        "import sys; from argparse import Namespace; from crowdmetric.comparisons import Comparisons;"
        "from crowdmetric.commands.reading import scan_answers; from crowdmetric.tables import Items;"
        "import numpy as np;"
        f"scan = Comparisons.scan_csv({str(path)!r}, n_items=2);"
        "print(sys.flags.optimize, scan.total_weight, scan.is_binary, scan.used.sum(), len(scan.dropped))"
    )
    out = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["1", "10.0", "True", "2", "0"]


def test_no_assert_does_anything_but_assert() -> None:
    """Every assert in the library names what it checks, and calls nothing."""
    source = Path(spool.__file__).parents[1]
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assert):
                plain = isinstance(node.test, ast.Compare) and not any(isinstance(n, ast.Call) for n in ast.walk(node))
                assert plain, f"{path}:{node.lineno}"


def test_what_a_killed_process_left_is_removed_at_the_next_start(table: Comparisons, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    for process in (int(gone.stdout), os.getpid()):
        (scratch / f"crowdmetric-spool-{process}-abc").mkdir()
        (scratch / f"crowdmetric-spool-{process}-abc" / "answers.bin").write_bytes(b"old")
    (scratch / "crowdmetric-spool-notes").mkdir()
    table.write(tmp_path / "answers.parquet")
    scan = Comparisons.scan_parquet(tmp_path / "answers.parquet", n_items=table.n_items, scratch=scratch)
    scan.read()
    scan.close()
    left = sorted(path.name for path in scratch.iterdir())
    assert left == sorted([f"crowdmetric-spool-{os.getpid()}-abc", "crowdmetric-spool-notes"])
