"""The short examples run and show what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()


def test_discovering_subspaces_costs_little(capsys) -> None:
    numbers = run("discover_subspaces")
    assert numbers["agreement"] > 0.9
    assert numbers["discovered"] < 1.1 * numbers["labels given"]
    assert "12 subspaces of dimension 2" in capsys.readouterr().out


def test_the_learnt_index_finds_the_crowds_neighbours(capsys) -> None:
    shared = run("neighbours_by_metric")
    assert shared["learnt"] > shared["plain"] + 0.05
    assert "6 of 64 principal directions" in capsys.readouterr().out
