"""Everything that the README tells people to type is typed here, as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from crowdmetric.datasets import load_travel
from hanging import HANGING

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
# A block is a session of its own. Blocks that begin with make set the environment up that these tests run in.
SESSIONS = [block for block in re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL) if not block.startswith("make")]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder somebody works in: with tables of their own, and `crowdmetric` to type."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "crowdmetric"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m crowdmetric "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    desk = tmp_path / "desk"
    load_travel().named().write(desk)
    monkeypatch.chdir(desk)
    return desk


def first_line(block: str) -> str:
    return block.splitlines()[0].split("#")[0].strip()


@pytest.mark.skipif(os.name == "nt", reason="the sessions are those of a POSIX shell")
@pytest.mark.parametrize("session", SESSIONS, ids=first_line)
def test_what_people_type_in_a_shell_works(session: str, desk: Path) -> None:
    typed = subprocess.run(["sh", "-e", "-c", session], capture_output=True, text=True, timeout=HANGING, check=False)
    assert typed.returncode == 0, typed.stderr[-2000:]
    assert "Traceback" not in typed.stderr


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
def test_what_people_type_in_python_works(desk: Path) -> None:
    names: dict[str, object] = {}
    for block in PYTHON:
        exec(compile(block, "README.md", "exec"), names)


def test_nothing_is_left_out() -> None:
    blocks = re.findall(r"```(\w*)\n", README)
    assert set(blocks) <= {"sh", "python", "console", ""}  # console: tests/test_console.py
    assert len(SESSIONS) >= 3
    assert len(PYTHON) >= 3
