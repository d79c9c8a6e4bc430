"""crowdmetric fit --engine: every engine by name, what is said where one is missing, and signs of life."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from crowdmetric.cli import main
from crowdmetric.commands import fit as fit_command
from crowdmetric.commands.fit_options import PASSED, refused_by
from crowdmetric.persist import load_model

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("crowd") / "crowd"
    small = ["--dimension", "3", "--subspaces", "0", "--users", "300", "--comparisons", "1"]
    assert main(["simulate", *small, "--out", str(folder), "--quiet"]) == 0
    return [str(folder / "items.csv"), str(folder / "comparisons.csv")]


@pytest.fixture
def fit(tables: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def fit(*options: str, out: str = "model") -> tuple[int, str]:
        fixed = ["--no-report", "--covariance", "isotropic", "--ridge", "10", "--starts", "1", "--overwrite"]
        try:
            code = main(["fit", *tables, *fixed, "--out", str(tmp_path / out), *options])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, capsys.readouterr().err

    return fit


@pytest.mark.parametrize("engine", ["local", "torch:cpu", "dask"])
def test_every_engine_saves_the_same_model(engine: str, fit: Run, tmp_path: Path) -> None:
    if engine != "local":
        pytest.importorskip("torch" if engine.startswith("torch") else "distributed")
    assert fit(out="plain")[0] == 0
    jobs = ["--jobs", "1"] if engine == "dask" else []
    code, said = fit("--engine", engine, *jobs)
    assert code == 0, said
    assert ("working in 1 process of this machine" in said) == (engine == "dask")
    here, there = (load_model(tmp_path / name).estimator() for name in ("plain", "model"))
    np.testing.assert_allclose(there.metric_, here.metric_, rtol=0, atol=1e-8 * np.max(np.abs(here.metric_)))
    assert there.engine is None


def test_without_a_graphics_card_torch_falls_back_with_a_sentence(fit: Run) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU, so nothing is missing")
    code, said = fit("--engine", "torch")
    assert code == 0
    assert "no GPU was found; working on the CPU" in said
    code, said = fit("--engine", "torch:cuda")
    assert code == 1
    assert "PyTorch sees no GPU" in said


@pytest.mark.parametrize(
    ("library", "engine", "extra"), [("torch", "torch", "gpu"), ("distributed", "dask", "cluster")]
)
def test_an_engine_that_is_not_installed_is_said(
    library: str, engine: str, extra: str, fit: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    code, said = fit("--engine", engine)
    assert code == 1
    assert f"pip install 'crowdmetric[{extra}]'" in said


def test_a_scheduler_that_does_not_answer_is_said(fit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed (extra: cluster)")
    monkeypatch.setattr("crowdmetric.engines.dask_engine.PATIENCE", "0.2s")
    code, said = fit("--engine", "dask:tcp://127.0.0.1:9")
    assert code == 1
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in said


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--engine", "spark"], "--engine spark is unknown; use local, torch, torch:DEVICE, dask or dask:ADDRESS"),
        (["--engine", "local:2"], "--engine local:2 is unknown"),
        (["--engine", "torch", "--jobs", "2"], "--jobs has no effect with --engine torch"),
        (["--engine", "local", "--estimator", "ideal"], "has no effect with --estimator ideal"),
    ],
)
def test_engines_that_make_no_sense_are_wrong_usage(options: list[str], sentence: str, fit: Run) -> None:
    code, said = fit(*options)
    assert code == 2
    assert sentence in said


def test_smooth_tastes_have_no_engine() -> None:
    options = Namespace(**dict.fromkeys(PASSED) | {"engine": "local"})
    assert refused_by(options, "taste") == ["--engine"]
    assert refused_by(options, "population") == []


@pytest.mark.parametrize("options", [[], ["--memory", "2GB"]])
def test_a_fit_says_how_fast_it_is_and_how_long_it_takes(
    options: list[str], fit: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    @contextmanager
    def listen(title: str, **_: object) -> Iterator[Callable[[str], None]]:
        yield told.append

    for place in ("fit", "streamed"):
        monkeypatch.setattr(f"{fit_command.__package__}.{place}.show_progress", listen)
    assert fit(*options)[0] == 0
    assert any("people per second, about" in text and text.endswith("left") for text in told)
