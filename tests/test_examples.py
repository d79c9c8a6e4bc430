"""The examples of the gallery run and show what they say."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest

from crowdmetric.errors import CrowdmetricWarning

matplotlib = pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str) -> dict[str, Any]:
    """Run an example as a script and return what it leaves behind."""
    matplotlib.use("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("error", CrowdmetricWarning)
        found = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    matplotlib.pyplot.close("all")
    return found


def test_discovering_subspaces_costs_little(capsys) -> None:
    errors = run("discover_subspaces")["errors"]
    assert errors["agreement"] > 0.9
    assert errors["discovered"] < 1.1 * errors["labels given"]
    assert "12 subspaces of dimension 2" in capsys.readouterr().out


def test_the_learned_index_finds_the_crowds_neighbors(capsys) -> None:
    shared = run("neighbors_by_metric")["shared"]
    assert shared["learned"] > shared["plain"] + 0.05
    assert "6 of 61 principal directions" in capsys.readouterr().out


def test_clicks_on_pages_of_two_become_a_metric(capsys) -> None:
    pytest.importorskip("polars")
    errors = run("clicks_to_metric")["errors"]
    assert errors["learned"] < 0.15 < errors["plain"]
    assert "3,000 rows by 1,500 people on 300 items" in capsys.readouterr().out


def test_neighbors_and_clusters_in_a_pipeline_are_the_crowds() -> None:
    found = run("knn_pipeline")["found"]
    assert found["learned"] > found["plain"]
    assert found["learned clusters"] > found["plain clusters"] + 0.5


def test_the_best_questions_place_people_sooner_than_random_ones(capsys) -> None:
    far = run("new_person")["far"]
    assert far["best"] < far["random"] < far["after five"]
    assert "person 0 is asked next about items" in capsys.readouterr().out


def test_a_study_keeps_what_its_plan_promised() -> None:
    errors = run("plan_study")["errors"]
    assert errors["got"] < 1.5 * errors["promised"]


def test_a_layer_on_an_embedding_finds_the_crowds_neighbors(capsys) -> None:
    pytest.importorskip("faiss")
    pytest.importorskip("safetensors")
    shared = run("embedding_head")["shared"]
    assert shared["learned"] > shared["plain"] + 0.3
    assert "a layer from 384 to 3 numbers" in capsys.readouterr().out


def test_judgements_align_an_embedding(capsys) -> None:
    accuracy = run("similarity_head")["accuracy"]
    assert accuracy["chosen"] > accuracy["euclid"] + 0.1
    assert "the head maps 64 numbers to 3" in capsys.readouterr().out


def test_alignment_helps_both_embeddings_and_pixels_more() -> None:
    share = run("embedding_aligned")["share"]
    assert all(after > before + 0.03 for before, after in share.values())
    assert share["pixels"][1] > share["random network"][1]


def test_few_answers_reveal_nothing_and_more_reveal_all() -> None:
    revealed = run("can_answers_teach")["revealed"]
    assert all(ranks[:4] == [0, 0, 0, 0] for ranks in revealed.values())
    assert revealed[20][-1] == 10


def test_parallel_questions_need_no_population() -> None:
    found = run("parallel_questions")
    assert found["error"] < 2 * found["ask"].expected_error


def test_features_that_matter_count_and_others_do_not() -> None:
    found = run("features_that_matter")
    low, high = (dict(zip(found["names"], ends, strict=True)) for ends in (found["found"].low, found["found"].high))
    assert min(low["price"], low["time"], low["comfort"]) > 0.1
    assert high["color"] < 0.05


def test_more_people_make_it_surer() -> None:
    found = run("how_sure")
    widths = {people: found["distances"](model, found["pairs"]) for people, model in found["models"].items()}
    few, many = ((w.high - w.low).mean() for w in (widths[200], widths[3_000]))
    assert many < few / 2


def test_a_metric_is_worth_using_where_there_is_one() -> None:
    found = run("worth_using")["found"]
    assert {found.best(split) for split in ("pairs", "people", "items")} == {"population"}


def test_tastes_that_bend_need_a_model_that_bends() -> None:
    right = run("ideal_points_or_tastes")["right"]
    assert right["smooth tastes", "TasteMetric"] > right["smooth tastes", "PopulationMetric"] + 0.05
    assert abs(right["ideal points", "TasteMetric"] - right["ideal points", "PopulationMetric"]) < 0.08


def test_two_metrics_are_told_apart_and_one_is_not() -> None:
    verdicts = {world: fits.test for world, fits in run("one_metric")["found"].items()}
    assert verdicts["one metric"].p_value > 0.05
    assert verdicts["two metrics"].p_value < 1e-6


def test_every_example_is_run_here_or_by_the_demo() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    for example in EXAMPLES.glob("*.py"):
        assert example.stem == "demo" or f'run("{example.stem}")' in tested, f"{example.name} is never run"
