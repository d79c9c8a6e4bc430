"""The commands on similarity judgements, which their columns tell from comparisons."""

from __future__ import annotations

import csv
import html
import io
import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from crowdmetric import SimilarityMetric
from crowdmetric.cli import main
from crowdmetric.commands import fit as fit_command
from crowdmetric.commands import similarity_commands
from crowdmetric.errors import DataError
from crowdmetric.persist import load_model
from crowdmetric.simulate import answer
from crowdmetric.simulate_judgements import random_questions, simulate_judgements
from crowdmetric.tables import read_columns, write_columns


@pytest.fixture(scope="module", params=["triplet", "odd_one_out", "quadruplet"])
def tables(request, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    study = simulate_judgements(25, 3, 1500, kind=request.param, people=3, seed=0)
    features = {f"f{j}": column for j, column in enumerate(study.items.T)}
    write_columns({"item_id": np.arange(25), **features}, folder / "items.csv")
    study.judgements.write(folder / "judgements.csv")
    assert main(["fit", str(folder / "items.csv"), str(folder / "judgements.csv"), "--out", str(folder / "model")]) == 0
    return folder


def test_fit_says_what_it_uses_and_why(tables, tmp_path, capsys) -> None:
    code = main(
        ["fit", str(tables / "items.csv"), str(tables / "judgements.csv"), "--structure", "diagonal",
         "--out", str(tmp_path / "model"), "--json"]
    )  # fmt: skip
    out, err = capsys.readouterr()
    assert code == 0
    assert "using SimilarityMetric, because" in err
    found = json.loads(out)
    assert found["estimator"] == "SimilarityMetric"
    assert found["parameters"]["structure"] == "diagonal"
    assert found["data"]["people"] == 3


def test_fit_ends_with_whether_it_is_worth_using_and_chooses_for_the_question(tables, tmp_path, capsys) -> None:
    files = [str(tables / "items.csv"), str(tables / "judgements.csv"), "--out", str(tmp_path / "model")]
    assert main(["fit", *files, "--for", "known-items"]) == 0
    out, _ = capsys.readouterr()
    assert "questions left out" in " ".join(out.split())
    assert "The learned metric is worth using for new questions: of 100 hidden judgements" in " ".join(out.split())
    assert "was not measured" not in out
    with pytest.raises(SystemExit):
        main(["fit", *files, "--overwrite", "--for", "new-people"])
    assert "choose new-items or known-items" in capsys.readouterr().err


def test_predict_answers_in_the_order_asked(tables, capsys) -> None:
    capsys.readouterr()
    assert main(["predict", str(tables / "model"), str(tables / "judgements.csv")]) == 0
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    asked = read_columns(tables / "judgements.csv")
    assert len(rows) == len(asked["person"])
    assert "accuracy 0." in err
    first = "anchor" if "anchor" in asked else "a"
    assert [int(row[first]) for row in rows] == asked[first].tolist()


def test_predict_needs_no_answers(tables, tmp_path, capsys) -> None:
    asked = read_columns(tables / "judgements.csv")
    write_columns({name: column[:5] for name, column in asked.items() if not name.startswith("n_")}, tmp_path / "q.csv")
    capsys.readouterr()
    assert main(["predict", str(tables / "model"), str(tmp_path / "q.csv")]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 6
    assert "accuracy" not in err


def test_diagnose_and_evaluate_know_judgements(tables, capsys) -> None:
    files = [str(tables / "items.csv"), str(tables / "judgements.csv")]
    assert main(["diagnose", *files]) == 0
    assert "reveal 6 of 6 degrees of freedom" in capsys.readouterr().out
    assert main(["evaluate", *files, "--models", "euclid,chosen", "--split", "items", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["model"] for row in found["results"]} == {"euclid", "chosen"}


@pytest.mark.parametrize("option", [["--metric-bound", "3"], ["--estimator", "matched"], ["--memory", "1GB"]])
def test_options_without_use_are_refused(option, tables, tmp_path, capsys) -> None:
    files = [str(tables / "items.csv"), str(tables / "judgements.csv")]
    with pytest.raises(SystemExit) as end:
        main(["fit", *files, "--out", str(tmp_path / "model"), *option])
    assert end.value.code == 2
    assert "has no effect with similarity judgements" in capsys.readouterr().err


def test_similarity_options_are_refused_for_comparisons(tmp_path, capsys) -> None:
    write_columns({"item_id": [0, 1], "f0": [0.0, 1.0]}, tmp_path / "items.csv")
    write_columns({"user": [0], "left": [0], "right": [1], "choice": [0]}, tmp_path / "answers.csv")
    files = [str(tmp_path / "items.csv"), str(tmp_path / "answers.csv")]
    with pytest.raises(SystemExit) as end:
        main(["fit", *files, "--out", str(tmp_path / "model"), "--link", "distance"])
    assert end.value.code == 2
    assert "--link has no effect" in capsys.readouterr().err


def test_fit_writes_a_report_on_judgements(tables) -> None:
    page = (tables / "model" / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    for said in (
        "Is a learned metric worth using here?",
        "New items",
        "better than Euclidean distance",
        "reveal 6 of 6",
        "From items.csv and judgements.csv.",
        "<h2>To quote</h2>",
        "<h2>The map</h2>",
        "The learned metric is worth using for new items: of 100 hidden judgements it predicts ",
        "Euclidean distance of the features, not learned.",
    ):
        assert said in page
    assert "what moves choices" not in page  # that is about preferences
    assert "check questions" not in page  # there are none


def test_the_end_and_the_report_warn_of_the_same_and_count_no_people_where_nobody_is_named(tmp_path, capsys) -> None:
    study = simulate_judgements(6, 6, 400, people=1, seed=2)
    features = {f"f{j}": column for j, column in enumerate(study.items.T)}
    write_columns({"item_id": np.arange(6), **features}, tmp_path / "items.csv")
    table = study.judgements.columns()
    write_columns({name: column for name, column in table.items() if name != "person"}, tmp_path / "judgements.csv")
    files = [str(tmp_path / "items.csv"), str(tmp_path / "judgements.csv"), "--out", str(tmp_path / "model")]
    assert main(["fit", *files, "--json"]) == 0
    out, err = capsys.readouterr()
    page = html.unescape((tmp_path / "model" / "report.html").read_text())
    cautions = json.loads(out)["cautions"]
    assert any("say nothing about" in text for text in cautions)
    assert any("shape is only partly known" in text for text in cautions)
    assert all(text in page for text in cautions)
    assert "1 person" not in page + err


@pytest.mark.parametrize("kind", ["triplet", "odd_one_out", "quadruplet"])
def test_simulate_plan_design_and_predict_know_judgements(kind, tmp_path, capsys) -> None:
    study, model, ask = tmp_path / "study", tmp_path / "model", tmp_path / "ask.csv"
    told = ["--judgements", kind]
    sizes = ["--dimension", "3", "--questions", "2000", "--items", "30", "--users", "4", "--differ", "0.2"]
    assert main(["simulate", *told, *sizes, "--out", str(study)]) == 0
    assert np.load(study / "truth.npz")["person_metrics"].shape == (4, 3, 3)
    files = [str(study / "items.csv"), str(study / "judgements.csv")]
    assert main(["fit", *files, "--own", "--no-evaluate", "--out", str(model)]) == 0
    assert "eople differ" in (model / "report.html").read_text()
    capsys.readouterr()
    assert main(["plan", files[0], *told, "--guess", str(model), "--error", "0.1", "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    assert plans["optimal"]["answers"] < plans["random"]["answers"]
    assert main(["design", files[0], *told, "--people", "7", "--answers", "9", "--out", str(ask), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["questions"] == 63
    asked = read_columns(ask)
    assert asked["question"].tolist() == list(range(9)) * 7
    assert main(["predict", str(model), str(ask)]) == 0


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["simulate", "--judgements", "triplet", "--noise", "1"], "--noise has no effect with judgements"),
        (["simulate", "--questions", "9"], "--questions has no effect with comparisons"),
        (["design", "x.csv", "--people", "2", "--judgements", "triplet", "--rank", "2"], "--rank has no effect"),
        (
            ["design", "x.csv", "--people", "2", "--judgements", "triplet", "--kind", "matched"],
            "choose optimal or random",
        ),
        (["design", "--people", "2", "--judgements", "triplet"], "--judgements are about ITEMS"),
    ],
)
def test_options_of_the_other_kind_are_refused(command, sentence, tmp_path, capsys) -> None:
    write_columns({"item_id": [0, 1, 2], "f0": [0.0, 1.0, 2.0]}, tmp_path / "x.csv")
    files = [str(tmp_path / word) if word == "x.csv" else word for word in command]
    with pytest.raises(SystemExit) as end:
        main([*files, "--out", str(tmp_path / "out")])
    assert end.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_preferences_and_judgements_teach_one_metric(tmp_path, capsys) -> None:
    rng = np.random.default_rng(0)
    X, M = rng.standard_normal((40, 2)), np.diag([1.5, 0.5])
    users = np.repeat(np.arange(300), 3)
    pairs = random_questions(40, 2, users.size, rng)
    y = answer(X, pairs, rng.standard_normal((300, 2))[users], M, seed=0)
    write_columns({"item_id": np.arange(40), "f0": X[:, 0], "f1": X[:, 1]}, tmp_path / "items.csv")
    write_columns({"user": users, "left": pairs[:, 0], "right": pairs[:, 1], "response": y}, tmp_path / "chosen.csv")
    simulate_judgements(X, None, 800, metric=M, beta=1.0, seed=1).judgements.write(tmp_path / "judged.csv")
    files = [str(tmp_path / name) for name in ("items.csv", "chosen.csv")]
    both = ["--judgements", str(tmp_path / "judged.csv"), "--no-evaluate", "--out", str(tmp_path / "model")]
    assert main(["fit", *files, *both, "--covariance", "isotropic", "--no-item-effects"]) == 0
    err = capsys.readouterr().err
    assert "one metric from preferences and judgements: The " in err
    assert "degrees of freedom, p = " in err
    with pytest.raises(SystemExit):
        main(["fit", *files, *both, "--overwrite", "--estimator", "matched"])
    assert "--judgements are for a population's metric" in capsys.readouterr().err


def of_many_features(folder: Path, features: int, kind: str, n_items: int) -> list[str]:
    """Write items of many features and answers about them, and return the names of both files."""
    rng = np.random.default_rng(0)
    study = simulate_judgements(n_items, 3, 120, kind="odd_one_out" if kind == "odd_one_out" else "triplet", seed=0)
    X = study.items @ rng.standard_normal((3, features)) + 0.1 * rng.standard_normal((n_items, features))
    folder.mkdir()
    write_columns(
        {"item_id": np.arange(n_items)} | {f"e{j}": column for j, column in enumerate(X.T)}, folder / "items.csv"
    )
    if kind == "preference":
        pairs = np.array([rng.choice(n_items, 2, replace=False) for _ in range(120)])
        u = np.arange(120) % 30
        ideal = rng.standard_normal((30, 3))
        away = np.sum((study.items[pairs] - ideal[u][:, None]) ** 2, axis=2)
        table = {
            "user": u,
            "left": pairs[:, 0],
            "right": pairs[:, 1],
        }
        table["choice"] = np.where(away[:, 0] < away[:, 1], "left", "right")
        write_columns(table, folder / "answers.csv")
    else:
        study.judgements.write(folder / "answers.csv")
    return [str(folder / "items.csv"), str(folder / "answers.csv")]


@pytest.mark.parametrize(
    ("kind", "features"),
    [
        *(("triplet", d) for d in (45, 384, 768)),
        *(("odd_one_out", d) for d in (77, 512)),
        *(("preference", d) for d in (77, 768)),
    ],
)
def test_embeddings_are_fitted_saved_and_reported(kind, features, tmp_path, capsys) -> None:
    """With few steps, and few items, of which none can be hidden, for time; hidden answers are the next test's."""
    files = of_many_features(tmp_path / "data", features, kind, 9)
    more = ["--max-iter", "5", *(["--no-evaluate", "--covariance", "isotropic"] if kind == "preference" else [])]
    assert main(["fit", *files, "--out", str(tmp_path / "model"), *more]) == 0
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"metric.npz", "model.json", "report.html"}
    assert main(["predict", str(tmp_path / "model"), files[1]]) == 0
    assert "accuracy" in capsys.readouterr().err


def test_more_features_than_curvature_allows_are_evaluated(tmp_path, capsys) -> None:
    files = of_many_features(tmp_path / "data", 45, "triplet", 12)
    assert main(["fit", *files, "--out", str(tmp_path / "model")]) == 0
    out, _ = capsys.readouterr()
    assert "These judgements cannot tell whether a learned metric is worth using" in " ".join(out.split())
    assert "predictions of hidden answers" in (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert main(["evaluate", *files, "--models", "euclid,own,chosen", "--split", "pairs"]) == 0
    out, _ = capsys.readouterr()
    assert "The model 'own' is left out: people='own' is not possible with" in out
    assert "euclid" in out
    assert main(["evaluate", *files, "--models", "own"]) == 1
    assert "people='own' is not possible" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        *(("similarity_page", error) for error in (DataError, ValueError, MemoryError, KeyboardInterrupt)),
        ("print_ending", DataError),
        ("evaluate_similarity", DataError),
        ("evaluate_similarity", MemoryError),
    ],
)
def test_no_failure_after_a_fit_loses_the_fit(broken, error, tmp_path, capsys, monkeypatch) -> None:
    files = of_many_features(tmp_path / "data", 3, "triplet", 12)

    def fail(*arguments, **options):
        raise error("broken on purpose")

    monkeypatch.setattr(similarity_commands, broken, fail)
    code: int | None = None
    more = [] if broken == "evaluate_similarity" else ["--no-evaluate"]
    with suppress(ValueError):  # an error of ours is shown as it is
        code = main(["fit", *files, "--out", str(tmp_path / "model"), "--structure", "diagonal", *more])
    assert load_model(tmp_path / "model").metric.shape == (3, 3)
    told = capsys.readouterr().err
    if broken == "evaluate_similarity" and error is DataError:  # left out, with a word
        assert code == 0
        assert "how well hidden judgements are predicted is left out: broken on purpose" in told
    else:
        assert code == {DataError: 1, ValueError: None, MemoryError: 1, KeyboardInterrupt: 130}[error]
        assert f"the model is saved in {tmp_path / 'model'}; what follows failed" in told


@pytest.mark.parametrize("broken", ["report_page", "print_ending"])
def test_no_failure_after_a_fit_to_preferences_loses_the_fit(broken, tmp_path, capsys, monkeypatch) -> None:
    files = of_many_features(tmp_path / "data", 3, "preference", 12)

    def fail(*arguments, **options):
        raise DataError("broken on purpose")

    monkeypatch.setattr(fit_command, broken, fail)
    assert main(["fit", *files, "--out", str(tmp_path / "model"), "--no-evaluate"]) == 1
    assert load_model(tmp_path / "model").metric.shape == (3, 3)
    assert "the model is saved in" in capsys.readouterr().err


def test_a_fit_whose_folder_was_taken_is_saved_beside_it(tmp_path, capsys, monkeypatch) -> None:
    files = of_many_features(tmp_path / "data", 3, "triplet", 9)
    fit = SimilarityMetric.fit

    def slow(self, *arguments, **options):
        """Another process saves a model of the same name during the fit."""
        (tmp_path / "model").mkdir(exist_ok=True)
        (tmp_path / "model" / "mine").write_text("")
        return fit(self, *arguments, **options)

    monkeypatch.setattr(SimilarityMetric, "fit", slow)
    assert main(["fit", *files, "--out", str(tmp_path / "model")]) == 1
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["mine"]
    assert load_model(tmp_path / "model-2").metric.shape == (3, 3)
    assert (tmp_path / "model-2" / "report.html").is_file()
    assert f"the model is saved in {tmp_path / 'model-2'} instead" in capsys.readouterr().err
