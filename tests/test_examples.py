"""The short examples run and show what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()


def test_discovering_subspaces_costs_little(capsys) -> None:
    numbers = run("discover_subspaces")
    assert numbers["agreement"] > 0.9
    assert numbers["discovered"] < 1.1 * numbers["labels given"]
    assert "12 subspaces of dimension 2" in capsys.readouterr().out


def test_the_learned_index_finds_the_crowds_neighbours(capsys) -> None:
    shared = run("neighbours_by_metric")
    assert shared["learned"] > shared["plain"] + 0.05
    assert "6 of 64 principal directions" in capsys.readouterr().out


def test_clicks_on_pages_of_two_become_a_metric(capsys) -> None:
    pytest.importorskip("polars")
    errors = run("clicks_to_metric")
    assert errors["learned"] < 0.15 < errors["plain"]
    assert "3,000 rows by 1,500 people on 300 items" in capsys.readouterr().out


def test_neighbours_and_clusters_in_a_pipeline_are_the_crowds() -> None:
    found = run("knn_pipeline")
    assert found["learned"] > found["plain"]
    assert found["learned clusters"] > found["plain clusters"] + 0.5


def test_the_best_questions_place_people_sooner_than_random_ones(capsys) -> None:
    far = run("new_person")
    assert far["best"] < far["random"] < far["after five"]
    assert "person 0 is asked next about items" in capsys.readouterr().out


def test_a_study_keeps_what_its_plan_promised() -> None:
    errors = run("plan_study")
    assert errors["got"] < 1.5 * errors["promised"]


def test_a_layer_on_an_embedding_finds_the_crowds_neighbours(capsys) -> None:
    pytest.importorskip("faiss")
    pytest.importorskip("safetensors")
    shared = run("embedding_head")
    assert shared["learned"] > shared["plain"] + 0.3
    assert "a layer from 384 to 3 numbers" in capsys.readouterr().out


def test_judgements_align_an_embedding(capsys) -> None:
    accuracy = run("similarity_head")
    assert accuracy["chosen"] > accuracy["euclid"] + 0.1
    assert "the head maps 64 numbers to 3" in capsys.readouterr().out


def test_every_example_is_run_here_or_by_the_demo_and_is_in_the_readme() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    for example in EXAMPLES.glob("*.py"):
        assert example.stem == "demo" or f'run("{example.stem}")' in tested, f"{example.name} is never run"
        assert f"examples/{example.name}" in readme, f"README.md does not mention {example.name}"
