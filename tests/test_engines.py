"""Jobs on this machine: the same results however many processes, and a sentence when one is killed."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from crowdmetric import IdealPointMetric, MatchedMetric, PopulationMetric
from crowdmetric.comparisons import Comparisons
from crowdmetric.design import matched_from_generator
from crowdmetric.engines.dask_engine import DaskEngine
from crowdmetric.engines.folding import fold
from crowdmetric.engines.local import LocalEngine
from crowdmetric.engines.torch_engine import TorchEngine
from crowdmetric.errors import DataError, SolverError
from crowdmetric.fits import matched_people
from crowdmetric.fits.many_features import fit_low_rank_law
from crowdmetric.fits.question_stream import asked_in_memory
from crowdmetric.inputs import read_rows
from crowdmetric.losses import Logistic
from crowdmetric.simulate import SimulatedCrowd, answer, simulate_crowd
from crowdmetric.tables import spool
from crowdmetric.users.first_order import (
    EqualQuestions,
    FreePeople,
    IsotropicPeople,
    LowRank,
    information_of_items,
    roots_of_information,
    value_and_gradient,
)


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_job_is_done_once(jobs: int) -> None:
    done = dict(LocalEngine(jobs).map(math.sqrt, [4.0, 9.0, 16.0]))
    assert done == {4.0: 2.0, 9.0: 3.0, 16.0: 4.0}


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_goes_wrong_in_a_job_is_raised(jobs: int) -> None:
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        list(LocalEngine(jobs).map(math.sqrt, [4.0, -1.0, 9.0]))


def test_a_killed_process_is_said() -> None:
    with pytest.raises(SolverError, match=r"killed before it finished.*fewer jobs"):
        list(LocalEngine(2).map(os._exit, [1, 1, 1]))


def test_no_jobs_is_no_work() -> None:
    assert list(LocalEngine(2).map(math.sqrt, [])) == []


def test_one_process_a_core_unless_told() -> None:
    assert LocalEngine().jobs >= 1
    assert LocalEngine(3).jobs == 3
    assert LocalEngine.xp is np
    with pytest.raises(DataError, match="jobs=0 is not a number of processes; give 1 or more"):
        LocalEngine(0)


# ------------------------------------------------------------------------------------- the same answer everywhere


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed (extra: cluster)")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


def _torch_engine(request: pytest.FixtureRequest) -> TorchEngine:
    pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
    return TorchEngine("cpu")


# A new engine is one line here.
ENGINES: dict[str, Callable[[pytest.FixtureRequest], Any]] = {
    "one thread": lambda request: LocalEngine(1),
    "two threads": lambda request: LocalEngine(2),
    "dask": lambda request: DaskEngine(request.getfixturevalue("cluster")),
    "torch": _torch_engine,
}
each_engine = pytest.mark.parametrize("name", ENGINES)


@pytest.fixture(scope="module")
def mixed() -> SimulatedCrowd:
    """People with one answer and people with two, enough of these for a metric that is not singular.

    A singular one lies where the likelihood is flat, and the search for ridges enlarges rounding there.
    """
    crowd = simulate_crowd(3, None, None, users=3_000, comparisons=1, seed=6)
    return replace(crowd, users=np.where(crowd.users < 1_000, crowd.users // 2, crowd.users))


@each_engine
@pytest.mark.parametrize("covariance", ["isotropic", "free"])
@pytest.mark.filterwarnings("ignore::crowdmetric.errors.NotIdentifiedWarning")  # few people: agreement is the point
def test_every_engine_gives_the_same_fit(
    mixed: SimulatedCrowd, name: str, covariance: str, request: pytest.FixtureRequest
) -> None:
    here, there = (
        PopulationMetric(mixed.items, starts=1, covariance=covariance, integration="grid", engine=engine).fit(
            mixed.pairs, mixed.y, users=mixed.users
        )
        for engine in (LocalEngine(1), ENGINES[name](request))
    )
    for what in ("metric_", "standard_errors_", "ideal_mean_", "ideal_covariance_", "pseudo_ideal_points_", "ridge_"):
        a, b = np.asarray(getattr(here, what)), np.asarray(getattr(there, what))
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-8 * np.max(np.abs(a)), err_msg=what)
    assert there.solution_.iterations == here.solution_.iterations


@each_engine
def test_every_engine_propagates_alike(name: str, request: pytest.FixtureRequest) -> None:
    crowd = simulate_crowd(3, None, None, users=150, comparisons=3, seed=6)
    here, there = (
        PopulationMetric(crowd.items, starts=1, uncertainty=False, integration="propagation", engine=engine).fit(
            crowd.pairs, crowd.y, users=crowd.users
        )
        for engine in (LocalEngine(1), ENGINES[name](request))
    )
    np.testing.assert_allclose(there.metric_, here.metric_, rtol=0, atol=1e-8 * np.max(np.abs(here.metric_)))


@each_engine
def test_every_engine_fits_answers_on_disk(
    mixed: SimulatedCrowd, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(spool, "CHUNK_ROWS", 100)
    table = Comparisons.from_arrays(mixed.users, mixed.pairs, mixed.y, n_items=len(mixed.items))
    table.write(tmp_path / "answers.parquet")
    scan = Comparisons.scan_parquet(tmp_path / "answers.parquet", n_items=len(mixed.items), scratch=tmp_path)
    assert len(scan.chunks) > 5
    here = PopulationMetric(mixed.items, starts=1, jobs=1).fit(table)
    there = PopulationMetric(mixed.items, starts=1, engine=ENGINES[name](request), memory="4GB").fit(scan)
    np.testing.assert_allclose(there.metric_, here.metric_, rtol=0, atol=1e-8 * np.max(np.abs(here.metric_)))


@each_engine
def test_every_engine_fits_matched_questions(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matched_people, "ANSWERS_PER_CHUNK", 300)
    ask = matched_from_generator(3, people=800, seed=0)
    ideal = np.random.default_rng(0).standard_normal((800, 3))
    y = answer(ask.items, ask.pairs, ideal[ask.person], np.diag([2.0, 1.0, 0.5]), seed=1)
    engine = ENGINES[name](request)
    model = MatchedMetric(ask.items, engine=engine)
    if engine.has_own_arrays:
        with pytest.raises(DataError, match="MatchedMetric sums over NumPy arrays; leave engine out"):
            model.fit(ask.pairs, y, users=ask.person)
        return
    model.fit(ask.pairs, y, users=ask.person)
    monkeypatch.undo()
    whole = MatchedMetric(ask.items).fit(ask.pairs, y, users=ask.person)  # all people in one chunk
    assert model.n_used_sets_ == whole.n_used_sets_
    np.testing.assert_allclose(model.metric_, whole.metric_, rtol=1e-7, atol=1e-9)


@each_engine
def test_every_engine_fits_bounded_people_on_disk(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    crowd = simulate_crowd(2, None, None, users=300, comparisons=6, seed=3)
    table = Comparisons.from_arrays(crowd.users, crowd.pairs, crowd.y, n_items=len(crowd.items))
    table.write(tmp_path / "answers.parquet")
    scan = Comparisons.scan_parquet(tmp_path / "answers.parquet", n_items=len(crowd.items), scratch=tmp_path)
    engine = ENGINES[name](request)
    model = IdealPointMetric(crowd.items, metric_bound=3.0, ideal_bound=3.0, tol=1e-5, engine=engine)
    if engine.has_own_arrays:
        with pytest.raises(DataError, match="IdealPointMetric sums over NumPy arrays; leave engine out"):
            model.fit(scan)
        return
    here = clone(model).set_params(engine=None).fit(scan)
    np.testing.assert_allclose(model.fit(scan).metric_, here.metric_, rtol=1e-9)
    with pytest.raises(DataError, match="has no effect here: answers in memory are solved by one interior point"):
        model.fit(crowd.pairs, crowd.y, users=crowd.users)


@each_engine
def test_engines_are_shared_by_clones(name: str, request: pytest.FixtureRequest) -> None:
    engine = ENGINES[name](request)
    assert clone(PopulationMetric(np.eye(3), engine=engine)).engine is engine


@each_engine
def test_an_empty_sum_is_refused(name: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(DataError, match="there is nothing to sum over"):
        ENGINES[name](request).sum(abs, [])


@each_engine
@pytest.mark.parametrize("jobs", [1, 2, 63, 64, 65, 200])
def test_every_engine_adds_in_the_same_order(name: str, jobs: int, request: pytest.FixtureRequest) -> None:
    numbers = list(np.random.default_rng(jobs).standard_normal((jobs, 3)) * 10.0 ** np.arange(3))
    engine = ENGINES[name](request)
    np.testing.assert_array_equal(engine.sum(np.exp2, numbers), LocalEngine(1).sum(np.exp2, numbers))
    np.testing.assert_allclose(engine.sum(np.exp2, numbers), np.sum(np.exp2(numbers), axis=0), rtol=1e-12)


def test_a_killed_worker_costs_only_its_chunks(cluster: Any) -> None:
    jobs = [np.full(3, float(i)) for i in range(8)]
    engine = DaskEngine(cluster)
    expected = sum(np.square(job) for job in jobs)
    np.testing.assert_array_equal(engine.sum(np.square, jobs), expected)
    victim = next(iter(cluster.cluster.workers.values()))
    os.kill(victim.pid, signal.SIGKILL)
    np.testing.assert_array_equal(engine.sum(np.square, jobs), expected)


# Compiled loops may take sums in any order, and which version of a loop a process runs depends on what it compiled
# before. A worker and this process then differ in the last bits, by 1.3e-13 of an entry when seen.
COMPILED_APART = 1e-10


def test_a_worker_killed_mid_fit_changes_nothing(mixed: SimulatedCrowd, cluster: Any) -> None:
    killed: list[int] = []

    def kill(sentence: str) -> None:
        if not killed:
            killed.append(next(iter(cluster.cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    plain, there = (
        PopulationMetric(mixed.items, starts=1, uncertainty=False, engine=engine, progress=progress).fit(
            mixed.pairs, mixed.y, users=mixed.users
        )
        for engine, progress in ((LocalEngine(1), None), (DaskEngine(cluster), kill))
    )
    assert killed
    np.testing.assert_allclose(there.metric_, plain.metric_, rtol=COMPILED_APART, atol=0.0)


def _started(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", *arguments, "--scheduler-file", str(folder / "scheduler.json"), "--no-dashboard"]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=folder)


def test_a_lost_scheduler_ends_in_a_sentence_and_the_last_step_is_saved(
    mixed: SimulatedCrowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed (extra: cluster)")
    options: dict[str, Any] = {"starts": 1, "uncertainty": False}
    data = {"pairs": mixed.pairs, "y": mixed.y, "users": mixed.users}
    scheduler = _started(tmp_path, "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1")
    worker = None
    try:
        written = tmp_path / "scheduler.json"
        while not (written.exists() and written.read_text().strip().endswith("}")):
            assert scheduler.poll() is None, "the scheduler did not start"
            time.sleep(0.05)
        worker = _started(tmp_path, "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny")
        address = json.loads(written.read_text())["address"]
        passes = 0

        def kill(sentence: str) -> None:
            nonlocal passes
            passes += 1
            if passes == 4:  # from now on nobody answers: no need to wait long for that
                monkeypatch.setattr("crowdmetric.engines.dask_engine.PATIENCE", "3s")
                scheduler.kill()
                scheduler.wait()

        model = PopulationMetric(
            mixed.items, engine=DaskEngine(address), progress=kill, checkpoint=tmp_path / "state.npz", **options
        )
        with pytest.raises(SolverError, match=r"scheduler cannot be reached .* the last finished step is in the check"):
            model.fit(**data)
    finally:
        for process in (scheduler, worker):
            if process is not None:
                process.kill()
                process.wait()
    told: list[str] = []
    whole = PopulationMetric(mixed.items, progress=told.append, **options).fit(**data)
    all_passes, told[:] = len(told), []
    model.set_params(engine=LocalEngine(1), progress=told.append).fit(**data)
    np.testing.assert_allclose(model.metric_, whole.metric_, rtol=COMPILED_APART, atol=0.0)
    assert len(told) < all_passes  # it went on, and did not begin again


def test_an_error_in_a_chunk_is_not_taken_for_a_lost_worker(cluster: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        DaskEngine(cluster).sum(_divide, [0.0])


def _divide(x: float) -> float:
    return 1.0 / x


def test_no_scheduler_is_said() -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed (extra: cluster)")
    with pytest.raises(DataError, match=r"neither a distributed\.Client nor the address"):
        DaskEngine(3)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("free", [False, True])
def test_torch_gives_the_likelihood_of_numpy(m: int, dtype: str, free: bool) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
    rng = np.random.default_rng(0)
    items = rng.standard_normal((100, 5))
    arrays = (
        rng.integers(0, 50, (80, m)), rng.integers(50, 100, (80, m)),
        rng.choice([-1.0, 1.0], (80, m)), np.ones((80, m)),
    )  # fmt: skip
    people = FreePeople(np.array([[0.5, 0.0], [-0.3, 0.4]])) if free else IsotropicPeople(-1.0)
    effects = 0.3 * rng.standard_normal(100) if free else np.empty(0)
    at = LowRank(0.4 * rng.standard_normal((5, 2)), 0.1 * rng.standard_normal(5), people, effects, rest=0.2)
    engine = TorchEngine("cpu", dtype)
    here = items, EqualQuestions(*arrays)
    there = engine.asarray(items), EqualQuestions(*map(engine.asarray, arrays))
    close = 1e-4 if dtype == "float32" else 1e-8
    values, gradients = zip(*(value_and_gradient(x, [q], at, Logistic()) for x, q in (here, there)), strict=True)
    np.testing.assert_allclose(values[1], values[0], rtol=close)
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=0, atol=close * np.abs(gradients[0]).max())

    def information(x: Any, q: EqualQuestions, at: LowRank, loss: Logistic) -> np.ndarray:
        roots = roots_of_information(x, q, at, loss)
        return np.asarray(roots.offsets.T @ roots.offsets + roots.spreads.T @ roots.spreads)

    for function in (information, lambda x, q, *more: information_of_items(x, [q], *more)):
        expected, found = (np.asarray(function(x, q, at, Logistic())) for x, q in (here, there))
        np.testing.assert_allclose(found, expected, rtol=0, atol=close * np.abs(expected).max())


def test_torch_fits_what_numpy_fits() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
    crowd = simulate_crowd(4, None, None, users=1500, comparisons=1, seed=5)
    rows = read_rows(crowd.pairs, crowd.y, crowd.users, None, crowd.items, Logistic())
    asked = asked_in_memory(rows)
    here, there = (
        fit_low_rank_law(asked, 4, Logistic(), engine=engine, ridge=2.0) for engine in (None, TorchEngine("cpu"))
    )
    np.testing.assert_allclose(there.law.metric, here.law.metric, atol=1e-8)
    # in single precision an estimator uses gradients alone
    model = PopulationMetric(crowd.items, rank=4, ridge=2.0, engine=TorchEngine("cpu", "float32"))
    model.fit(crowd.pairs, crowd.y, users=crowd.users)
    # a posterior mean over 400 draws, which begin from directions that are only nearly the same
    np.testing.assert_allclose(model.shape_, here.law.metric / np.trace(here.law.metric) * 4, atol=2e-2)
    assert model.standard_errors_.shape == (4, 4)


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.NotIdentifiedWarning")  # few people: agreement is the point
def test_engines_have_names(mixed: SimulatedCrowd) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
    models = [
        PopulationMetric(mixed.items, starts=1, uncertainty=False, engine=engine).fit(
            mixed.pairs, mixed.y, users=mixed.users
        )
        for engine in (None, "local", "torch:cpu")
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.metric_, models[0].metric_, rtol=0, atol=1e-8 * models[0].metric_.max())
    for unknown in ("dask", "gpu", 3):
        with pytest.raises(DataError, match=r"engine=.* is unknown; use 'local', 'torch', 'torch:DEVICE', a Local"):
            PopulationMetric(mixed.items, engine=unknown).fit(mixed.pairs, mixed.y, users=mixed.users)


def test_probit_answers_are_not_for_torch() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
    crowd = simulate_crowd(3, None, None, users=20, comparisons=2, seed=1)
    with pytest.raises(DataError, match="loss='probit' is not for TorchEngine; use 'logistic', or leave engine out"):
        PopulationMetric(crowd.items, loss="probit", engine=TorchEngine("cpu")).fit(crowd.pairs, crowd.y, crowd.users)


def test_torch_says_what_is_not_there() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU, so nothing is missing")
    with pytest.raises(DataError, match="PyTorch sees no GPU"):
        TorchEngine("cuda")
    assert "no GPU was found" in TorchEngine().fallback
    with pytest.raises(DataError, match="dtype='float16' is unknown"):
        TorchEngine("cpu", "float16")


def test_a_cluster_is_not_left_idle_without_a_word(cluster: Any) -> None:
    """Many features are fitted by gradients, on one machine."""
    items = np.random.default_rng(0).standard_normal((20, 80))
    pairs = np.arange(20).reshape(-1, 2)
    with pytest.raises(DataError, match="a cluster is for fits by scoring, which 80 features rule out"):
        PopulationMetric(items, engine=DaskEngine(cluster)).fit(pairs, np.tile([-1, 1], 5), users=np.arange(10))


class Counting:
    """This process, and how many chunks it has seen: an engine that nobody here knows."""

    has_own_arrays, is_double, is_remote, blocks = False, True, False, 1

    def __init__(self) -> None:
        self.seen = 0

    def sum(self, function: Any, jobs: Any) -> Any:
        self.seen += len(jobs)
        return fold(map(function, jobs), len(jobs))


def test_an_engine_of_ones_own_is_used() -> None:
    crowd = simulate_crowd(2, None, None, users=200, comparisons=2, seed=0)
    engine = Counting()
    options: dict[str, Any] = {"starts": 1, "uncertainty": False}
    ours = PopulationMetric(crowd.items, engine=engine, **options).fit(crowd.pairs, crowd.y, users=crowd.users)
    plain = PopulationMetric(crowd.items, **options).fit(crowd.pairs, crowd.y, users=crowd.users)
    assert engine.seen > 0
    np.testing.assert_allclose(ours.metric_, plain.metric_, rtol=1e-10)


def test_an_engine_that_does_not_say_what_it_can_do_is_refused() -> None:
    class Half:
        def sum(self, function: Any, jobs: Any) -> Any: ...

    with pytest.raises(DataError, match="it has no has_own_arrays, is_double, is_remote, blocks"):
        PopulationMetric(np.eye(2), engine=Half()).fit([[0, 1]], [1], users=[0])
