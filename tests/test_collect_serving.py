"""The server as a process: links, signals, restarts, and a rehearsal through it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from urllib.request import urlopen

import pytest

from collect_studies import new_study
from crowdmetric.cli import main
from crowdmetric.collect import pages, serving, web
from crowdmetric.collect.folder import open_study
from crowdmetric.collect.rehearsal import rehearse
from crowdmetric.collect.serving import listen, prepare
from crowdmetric.errors import DataError, MissingExtraError
from hanging import HANGING

pytest.importorskip("starlette", reason="Starlette is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")


def start(folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "crowdmetric", "collect", str(folder), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    return process, [process.stdout.readline().split()[1] for _ in range(2)]


def test_two_links_a_health_check_and_a_clean_stop(tmp_path) -> None:
    study = new_study(tmp_path)
    process, (participants, researcher) = start(study.folder)
    try:
        assert researcher == f"{participants}researcher?key={study.secret.researcher}"
        with urlopen(f"{participants}health", timeout=HANGING) as reply:
            assert json.load(reply) == {"ok": True, "state": "open"}
        second = subprocess.run(
            [sys.executable, "-m", "crowdmetric", "collect", str(study.folder), "--port", "0"], capture_output=True,
            text=True, timeout=HANGING, check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert "another process is serving" in second.stderr
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=HANGING)
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert [line["event"] for line in lines] == ["started", "stopped"]
    assert lines[-1]["requests"] == 1
    assert study.secret.researcher not in err
    assert out == ""


def test_a_taken_port_is_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(DataError, match="choose another with --port"):
            listen("127.0.0.1", taken.getsockname()[1])


def test_a_changed_design_is_a_new_version_and_the_same_one_is_not(tmp_path) -> None:
    study = new_study(tmp_path)
    assert prepare(study) == 1
    assert prepare(open_study(study.folder)) == 1
    path = study.folder / "questions.csv"
    path.write_text("person,left,right\n0,3,4\n", encoding="utf-8")
    assert prepare(open_study(study.folder)) == 2


@pytest.mark.parametrize(("module", "call", "library"), [
    (web, lambda: web.build_app(None, None, None, None), "Starlette"),
    (serving, lambda: serving.serve(None, 1, None), "uvicorn"),
    (pages, pages._environment.__wrapped__, "Jinja2"),
])  # fmt: skip
def test_a_missing_library_says_how_to_install_it(module, call, library, monkeypatch) -> None:
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(module, "import_module", absent)
    with pytest.raises(MissingExtraError, match=rf"{library}, which is not installed; .*crowdmetric\[collect\]"):
        call()


@pytest.mark.parametrize("words", [["a", "b"], ["export", "x"], ["export"], ["erase", "x"], ["x", "--out", "y.csv"]])
def test_wrong_usage(words, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["collect", *words])
    assert end.value.code == 2
    assert "usage: crowdmetric collect" in capsys.readouterr().err


# Sides are drawn at random, and so few answers sometimes leave the scale open: the warning is not what is tested.
few_answers = pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")


@few_answers
def test_a_rehearsal_sends_people_through_the_real_server(tmp_path) -> None:
    more = '\n[[survey]]\nname = "age"\nlabel = "Age"\nrequired = true\n'
    changes = {'kind = "optimal"': 'kind = "matched"', "people =": "people = 5000", "repeats =": "repeats = 0.25",
               "pairs =": 'pairs = [["0", "1"]]'}  # fmt: skip
    study = new_study(tmp_path, changes, more)
    before = sorted(path.name for path in study.folder.iterdir())
    found = rehearse(study, 60)
    assert found.finished == 60
    assert found.answers == 60 * 15  # twelve questions and three repeats
    assert 0 < found.shape_error < 1
    assert found.promise is not None
    assert found.reliability is not None
    assert 0.5 < found.reliability <= 1
    assert "60 of 60 simulated people finished" in found.summary()
    assert sorted(path.name for path in study.folder.iterdir()) == before  # its store is its own


@few_answers
def test_a_rehearsal_names_questions_nobody_should_be_asked(tmp_path) -> None:
    study = new_study(tmp_path)
    table = study.folder / "items.csv"
    lines = table.read_text(encoding="utf-8").splitlines()
    lines[2] = ",".join([lines[2].split(",")[0], "Item 0", *lines[2].split(",")[2:]])  # looks like the item before
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = rehearse(open_study(study.folder), 8)
    assert found.equal == [("0", "1")]
    assert "nobody should be asked" in found.summary()
