"""Ctrl-C: one line, exit code 130, nothing left behind, wherever it falls; files appear whole or not at all."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdmetric.cli import main
from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import DataError
from crowdmetric.export import LinearHead, write_head
from crowdmetric.folders import check_not_input, new_file, new_folder, write_file
from crowdmetric.interruption import Interruption
from crowdmetric.tables import write_columns
from hanging import HANGING

needs_signals = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="signals are those of Unix")


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Let Ctrl-C arrive, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# --------------------------------------------------------------------------------------------------- Ctrl-C


@needs_signals
def test_an_interrupt_that_a_destructor_swallows_comes_again() -> None:
    class Swallows:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    reached = []

    def work() -> None:
        swallowing = Swallows()
        del swallowing
        reached.append("the line after the destructor")
        time.sleep(HANGING)  # until the interrupt comes again

    with Interruption().watched() as interruption, pytest.raises(KeyboardInterrupt):
        work()
    assert reached
    assert interruption.happened
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@needs_signals
def test_an_interrupt_that_a_library_turns_into_an_error_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def turned(options: Any) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("half a library") from None

    monkeypatch.setattr("crowdmetric.commands.info.run", turned)
    assert main(["info", "model"]) == 130
    assert capsys.readouterr().err == "crowdmetric: interrupted\n"


@needs_signals
def test_an_interrupt_while_importing_is_one_line() -> None:
    lines = [
        "import signal, sys",
        "import crowdmetric.__main__ as program",
        "class Presses:",
        "    def find_spec(self, name, *_):",
        "        if name == 'crowdmetric.commands.fit':",
        "            signal.raise_signal(signal.SIGINT)",
        "sys.meta_path.insert(0, Presses())",
        "sys.argv = ['crowdmetric', 'fit', '--help']",
        "sys.exit(program.main())",
    ]
    result = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (130, "crowdmetric: interrupted\n")


@needs_signals
@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_an_interrupted_command_leaves_nothing(command: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    write_columns(
        {"item_id": np.arange(40), **{f"f{j}": rng.normal(size=40) for j in range(4)}}, tmp_path / "items.csv"
    )
    pairs = np.array([rng.choice(40, 2, replace=False) for _ in range(4000)])
    answers = {"user": np.repeat(np.arange(800), 5), "left": pairs[:, 0], "right": pairs[:, 1]}
    write_columns(answers | {"choice": rng.choice(["left", "right"], 4000)}, tmp_path / "answers.csv")
    more = ["--out", "model"] if command == "fit" else ["--jobs", "2", "--repeats", "3", "--out", "found"]
    lines = [
        "import sys",
        "from crowdmetric.cli import main",
        "from crowdmetric.engines.local import LocalEngine",
        "whole = LocalEngine.map",
        "def map(self, *given):",
        "    for result in whole(self, *given):",
        "        print('a fit is done, and others are not', flush=True)",
        "        yield result",
        "LocalEngine.map = map",
        f"sys.exit(main({[command, 'items.csv', 'answers.csv', *more]!r}))",
    ]
    started = subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stdout.readline() == "a fit is done, and others are not\n"
    os.kill(started.pid, signal.SIGINT)
    _, told = started.communicate(timeout=HANGING)
    assert started.returncode == 130
    assert told.splitlines()[-1] == "crowdmetric: interrupted"
    assert "Traceback" not in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.csv", "items.csv"]
    assert ended(started.pid)


def ended(session: int) -> bool:
    """Return whether all processes of a session end."""
    for _ in range(int(HANGING / 0.2)):
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.2)
    return False


def sleeping(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def test_processes_end_with_whoever_wanted_their_results() -> None:
    results = LocalEngine(2).map(sleeping, [0.01, 3600.0])
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()


# ---------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_file_that_is_not_finished_vanishes(error: type[BaseException], tmp_path: Path) -> None:
    write_file(tmp_path / "kept", "old")

    def write() -> None:
        with new_file(tmp_path / "kept") as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "old"


@pytest.mark.parametrize("kind", ["npz", "safetensors", "csv"])
def test_a_full_disk_is_a_sentence_that_says_what_was_kept(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    head = LinearHead(np.eye(2), np.zeros(2))
    write_head(head, tmp_path / "head", kind)
    before = (tmp_path / "head").read_bytes()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match=r"head cannot be written \(No space left on device\); what was there before"):
        write_head(head, tmp_path / "head", kind)
    with pytest.raises(DataError, match=r"nothing was left behind: make room"):
        write_head(head, tmp_path / "other", kind)
    assert [path.name for path in tmp_path.iterdir()] == ["head"]
    assert (tmp_path / "head").read_bytes() == before


def test_a_link_planted_under_the_temporary_name_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").write_text("precious")
    monkeypatch.setattr("secrets.token_hex", lambda n: "guessed")
    (tmp_path / ".mine.guessed.tmp").symlink_to(tmp_path / "theirs")
    with pytest.raises(DataError, match="cannot be written"):
        write_file(tmp_path / "mine", "new")
    assert (tmp_path / "theirs").read_text() == "precious"


def test_devices_are_written_to_as_they_are(tmp_path: Path) -> None:
    write_columns({"a": [1]}, tmp_path / "t.csv")
    write_file("/dev/null", "gone")
    assert Path("/dev/null").is_char_device()


def test_an_input_is_known_under_other_names(tmp_path: Path) -> None:
    write_file(tmp_path / "table.csv", "a\n1\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "table.csv")
    check_not_input(tmp_path / "new.csv", tmp_path / "table.csv")
    with pytest.raises(DataError, match="is read by this command"):
        check_not_input(tmp_path / "link.csv", tmp_path / "table.csv")


# --------------------------------------------------------------------------------------- at any moment


MOMENTS, PACKAGE = 20, "crowdmetric.commands"
# Commands that take seconds even for a handful of items are interrupted less often.
FEWER = {"plan": 4, "design": 10, "design --from": 4, "fit tastes": 4}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with what every command reads."""
    folder = tmp_path_factory.mktemp("moments") / "study"
    sizes = ["--dimension", "2", "--subspaces", "0", "--users", "30", "--comparisons", "5", "--seed", "1"]
    assert main(["simulate", *sizes, "--out", str(folder), "--quiet"]) == 0
    rng = np.random.default_rng(0)
    write_columns({"item_id": np.arange(6), "f0": rng.normal(size=6), "f1": rng.normal(size=6)}, folder / "few.csv")
    tables = [str(folder / "items.csv"), str(folder / "comparisons.csv")]
    quick = ["--no-report", "--covariance", "isotropic", "--no-item-effects", "--starts", "1", "--jobs", "1", "--quiet"]
    assert main(["fit", *tables, *quick, "--out", str(folder / "model")]) == 0
    shown = np.array([rng.choice(6, 2, replace=False) for _ in range(60)])
    answers = {
        "user": np.arange(60) // 6,
        "left": shown[:, 0],
        "right": shown[:, 1],
        "choice": rng.integers(2, size=60),
    }
    write_columns(answers, folder / "told.csv")
    return folder


COMMANDS = {
    "simulate": ["--dimension", "2", "--subspaces", "0", "--users", "30", "--comparisons", "5", "--out", "made"],
    "import": ["travel", "--out", "made"],
    "plan": ["few.csv", "--answers", "2", "--error", "0.5"],
    "design": ["few.csv", "--people", "10", "--out", "made.csv"],
    "diagnose": ["items.csv", "comparisons.csv"],
    "fit": ["items.csv", "comparisons.csv", "--no-evaluate", "--covariance", "isotropic", "--no-item-effects",
            "--starts", "1", "--jobs", "1", "--out", "made"],
    "evaluate": ["items.csv", "comparisons.csv", "--models", "linear,identity", "--split", "pairs", "--repeats", "1",
                 "--jobs", "1", "--out", "made"],
    "predict": ["model", "comparisons.csv", "--out", "made.csv"],
    "locate": ["model", "comparisons.csv", "--out", "made.csv"],
    "export": ["model", "--out", "made.npz"],
    "info": ["model"],
    "design --from": ["few.csv", "--from", "told.csv", "--people", "5", "--out", "made.csv"],
    "fit tastes": ["few.csv", "told.csv", "--estimator", "taste", "--no-evaluate", "--out", "made"],
}  # fmt: skip


def interrupted_after(calls: int, arguments: list[str]) -> tuple[int, int]:
    """Run a command with Ctrl-C after so many calls of functions; return its exit code and how many were made.

    Calls are counted from the command's own first line on: before, while it is imported, the process ends at once.
    """
    made, run = 0, None

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal made, run
        if run is None and frame.f_code.co_name == "run" and frame.f_globals["__name__"].startswith(PACKAGE):
            run = frame
        if run is not None and event == "call":
            made += 1
            if made == calls:
                signal.raise_signal(signal.SIGINT)

    sys.setprofile(count)
    try:
        return main(arguments), made
    finally:
        sys.setprofile(None)


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@needs_signals
@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_can_be_interrupted_at_any_moment(
    command: str, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At 20 moments, equally many calls of functions apart: one line, exit code 130, and nothing half-written."""
    arguments = [command.split(maxsplit=1)[0], *COMMANDS[command], "--quiet"]
    shutil.copytree(study, tmp_path / "first")
    monkeypatch.chdir(tmp_path / "first")
    assert main(arguments) == 0  # imports and compiles, and loads what is loaded once
    shutil.copytree(study, tmp_path / "second")
    monkeypatch.chdir(tmp_path / "second")
    code, calls = interrupted_after(-1, arguments)
    assert code == 0
    shutil.copytree(study, tmp_path / "desk")
    monkeypatch.chdir(tmp_path / "desk")
    before = everything_in(tmp_path / "desk")
    stopped = 0
    moments = FEWER.get(command, MOMENTS)
    for moment in np.linspace(1, calls - 1, moments).astype(int).tolist():
        capsys.readouterr()
        code, _ = interrupted_after(moment, arguments)
        told = capsys.readouterr().err
        # fewer calls were made than before, or the interrupt fell into a destructor and the command ended before it
        # could be raised again: then all of its work is there
        if code == 0:
            assert set(everything_in(tmp_path / "desk")) == set(everything_in(tmp_path / "second"))
            shutil.rmtree(tmp_path / "desk")
            shutil.copytree(study, tmp_path / "desk")
            monkeypatch.chdir(tmp_path / "desk")
            continue
        stopped += 1
        assert (code, told.splitlines()[-1:]) == (130, ["crowdmetric: interrupted"])
        assert "Traceback" not in told
        after = everything_in(tmp_path / "desk")
        made = set(after) - set(before)
        # what is there is whole: the interrupt came after it had been put in its place
        assert not {name for name in made if ".tmp" in name}
        assert {name: after[name] for name in before} == before
        if made:
            assert made <= set(everything_in(tmp_path / "second"))
            shutil.rmtree(tmp_path / "desk")
            shutil.copytree(study, tmp_path / "desk")
            monkeypatch.chdir(tmp_path / "desk")
    assert stopped >= 0.75 * moments
    assert not multiprocessing.active_children()


def test_racing_writers_leave_one_whole_folder_and_nothing_else(tmp_path: Path) -> None:
    def write(name: str) -> None:
        for _ in range(20):
            with new_folder(tmp_path / "model", True, lambda _: True) as place:
                for part in ("one", "two"):
                    write_file(place / part, name)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, ["first", "second", "third"]))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert len({(tmp_path / "model" / part).read_text() for part in ("one", "two")}) == 1
