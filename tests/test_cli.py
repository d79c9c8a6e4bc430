"""The command line: every command, every exit code, and what goes to which stream."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from crowdmetric import __version__, progress
from crowdmetric.cli import main
from crowdmetric.commands import COMMANDS
from crowdmetric.design import matched_from_generator
from crowdmetric.estimators import PopulationMetric
from crowdmetric.persist import load_model
from crowdmetric.progress import show_progress
from crowdmetric.simulate import answer
from crowdmetric.tables import read_columns, write_columns
from hanging import HANGING

DOCS = Path(__file__).parent.parent / "docs" / "reference" / "command-line.md"
SMALL = ["--dimension", "3", "--subspaces", "8", "--rank", "2", "--users", "6", "--comparisons", "6"]
GIVEN = ["--metric-bound", "5", "--ideal-bound", "3"]
BOUNDS = [*GIVEN, "--no-report"]

each_command = pytest.mark.parametrize("name", [command.name for command in COMMANDS])


class Result:
    """What a command printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def rows(self) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.out)))


@pytest.fixture
def run(capsys):
    def run(*arguments) -> Result:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def crowd(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("crowd") / "crowd"
    assert main(["simulate", *SMALL, "--out", str(folder), "--quiet"]) == 0
    return folder


@pytest.fixture(scope="module")
def model(crowd) -> Path:
    folder = crowd.parent / "model"
    assert main(["fit", *tables(crowd), "--labels", str(crowd / "labels.csv"), *BOUNDS, "--out", str(folder)]) == 0
    return folder


def tables(folder: Path) -> list[str]:
    return [str(folder / "items.csv"), str(folder / "comparisons.csv")]


def one_line(text: str) -> bool:
    return text.count("\n") == 1 and text.endswith("\n") and "Traceback" not in text


# ------------------------------------------------------------------------------------------- help and docs


@each_command
def test_help_shows_an_example(name, run) -> None:
    result = run(name, "--help")
    assert result.code == 0
    assert f"example:\n  crowdmetric {name} " in result.out
    assert "--quiet" in result.out


@each_command
def test_every_command_and_option_is_documented(name, run) -> None:
    page = DOCS.read_text(encoding="utf-8")
    assert f"## crowdmetric {name}\n" in page
    assert f"\n$ crowdmetric {name} " in page
    options = {word.strip("[],") for word in run(name, "--help").out.split() if word.strip("[,").startswith("--")}
    missing = sorted(option for option in options - {"--help"} if f"`{option}" not in page)
    assert not missing, f"{DOCS.name} does not explain {missing}"


def test_version_and_help_of_the_program(run) -> None:
    assert run("--version").out == f"crowdmetric {__version__}\n"
    text = run("--help").out
    assert all(f"\n    {command.name}" in text for command in COMMANDS)


def test_the_program_alone_prints_its_help(run) -> None:
    result = run()
    assert (result.code, result.err) == (0, "")
    assert result.out == run("--help").out


SLOW_TO_LOAD = ("numpy", "scipy", "sklearn", "pandas", "numba", "crowdmetric.estimators")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_loads_nothing_slow(arguments) -> None:
    lines = [
        "import sys, crowdmetric",
        "from crowdmetric.cli import main",
        "try:",
        f"    main({arguments!r})",
        "except SystemExit:",
        "    pass",
        f"print(*[name for name in {SLOW_TO_LOAD!r} if name in sys.modules], file=sys.stderr)",
    ]
    result = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert not result.stderr.split()


@pytest.mark.parametrize(
    "arguments", [["--quiet"], ["other"], ["fit"], ["info", "a", "b"], ["simulate", "--people", "martians"]]
)
def test_wrong_usage_is_two(arguments, run) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("usage: crowdmetric")


# ------------------------------------------------------------------------------------------------ simulate


def test_simulate_writes_tables_that_fit_reads(crowd) -> None:
    names = ["comparisons.csv", "items.csv", "labels.csv", "truth.npz"]
    assert sorted(path.name for path in crowd.iterdir()) == names
    assert list(read_columns(crowd / "items.csv")) == ["item_id", "f0", "f1", "f2"]
    assert list(read_columns(crowd / "comparisons.csv")) == ["user", "left", "right", "choice"]
    assert list(read_columns(crowd / "labels.csv")) == ["item_id", "subspace"]
    with np.load(crowd / "truth.npz", allow_pickle=False) as truth:
        assert truth["metric"].shape == (3, 3)
        assert truth["ideal_points"].shape == (48, 3)
        assert truth["bases"].shape == (8, 3, 2)


def test_simulate_options_reach_the_generator(run, tmp_path) -> None:
    result = run("simulate", *SMALL, "--beta", "inf", "--people", "ball", "--out", tmp_path / "a")
    assert "100.0% of the answers name the closer item" in result.out
    result = run("simulate", "--dimension", 3, "--subspaces", 0, "--users", 5, "--out", tmp_path / "b")
    assert "in general position" in result.out
    result = run("simulate", *SMALL, "--format", "parquet", "--noise", "0.1", "--out", tmp_path / "c")
    assert "noise 0.1" in result.out
    assert (tmp_path / "c" / "items.parquet").exists()


def test_simulate_does_not_replace_what_it_did_not_write(run, tmp_path) -> None:
    again = ["simulate", *SMALL, "--out", tmp_path / "crowd"]
    assert run(*again).code == 0
    assert run(*again).code == 1
    assert run(*again, "--overwrite", "--seed", 1).code == 0
    (tmp_path / "crowd" / "notes.txt").write_text("mine")
    result = run(*again, "--overwrite")
    assert result.code == 1
    assert "holds other files" in result.err


# ----------------------------------------------------------------------------------------------------- fit


def test_fit_prints_a_summary_and_says_which_estimator_and_why(run, crowd, tmp_path) -> None:
    result = run("fit", *tables(crowd), *GIVEN, "--no-evaluate", "--out", tmp_path / "model")
    assert result.code == 0
    assert "crowdmetric: These answers can teach the whole metric" in result.err
    assert "using IdealPointMetric, because --metric-bound and --ideal-bound apply to it\n" in result.err
    assert result.out.endswith(f"Report: {tmp_path / 'model' / 'report.html'}\n")
    assert (tmp_path / "model" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    for text in ("288 answers, 48 people, 576 items", "dropped rows  none", "5 (given)", "Solved", "eigenvalues"):
        assert text in result.out
    labels = ["--labels", crowd / "labels.csv"]
    result = run("fit", *tables(crowd), *labels, "--out", tmp_path / "other", "--tol", "1e-4", "--no-report")
    assert "crowdmetric: using StitchedMetric, because --labels" in result.err
    assert "chosen from the data" in result.out
    assert "8 of dimension 2" in result.out


def test_fit_takes_people_as_a_population_unless_told_otherwise(run, crowd, tmp_path) -> None:
    options = ["--starts", 1, "--ridge", "0.5", "--integration", "propagation", "--jobs", 1, "--no-report"]
    result = run("fit", *tables(crowd), *options, "--out", tmp_path / "model")
    assert result.code == 0
    assert "using PopulationMetric, because people taken as one population" in result.err
    assert "isotropic and there are no per-item effects, the default, because no answers were hidden" in result.err
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["metric.npz", "model.json"]
    parameters = load_model(tmp_path / "model").description["parameters"]
    assert (parameters["starts"], parameters["ridge"], parameters["integration"]) == (1, 0.5, "propagation")
    assert run("predict", tmp_path / "model", crowd / "comparisons.csv").code == 0
    asked = ["--covariance", "free", "--starts", 1, "--ridge", "evidence"]
    result = run("fit", *tables(crowd), *asked, "--overwrite", "--out", tmp_path / "model")
    assert result.code == 0
    assert "covariance of people" not in result.err
    assert load_model(tmp_path / "model").description["parameters"]["covariance"] == "free"
    page = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert "How well it predicts" in page
    assert "New items" in page


def test_fit_places_few_people_and_keeps_fewer_features(run, crowd, tmp_path) -> None:
    table = (crowd / "comparisons.csv").read_text().splitlines()
    few = write(tmp_path / "few.csv", "\n".join([table[0], *(row for row in table[1:] if row[:2] in ("0,", "1,"))]))
    result = run("fit", crowd / "items.csv", few, "--tol", "1e-3", "--no-report", "--out", tmp_path / "few")
    assert result.code == 0
    assert "using IdealPointMetric, because 2 people are too few" in result.err
    np.save(tmp_path / "wide.npy", np.random.default_rng(0).standard_normal((30, 101)))
    answers = write(tmp_path / "answers.csv", "user,left,right,choice\n" + "0,0,1,left\n1,2,3,right\n" * 3)
    result = run("fit", tmp_path / "wide.npy", answers, "--no-report", "--out", tmp_path / "wide")
    assert result.code == 0
    assert "101 features" in result.err
    assert "2 principal directions are kept" in result.err
    assert "--pca" in result.err


def test_fit_suggests_matched_where_questions_are_and_people_were_chosen(run, tmp_path) -> None:
    ask = matched_from_generator(2, people=300, seed=0)
    place = np.zeros((300, 2))
    np.add.at(place, ask.person, ask.items[ask.pairs].mean(axis=1))
    np.save(tmp_path / "items.npy", ask.items)
    y = answer(ask.items, ask.pairs, 0.5 * place[ask.person], np.eye(2), seed=1)
    table = {"user": ask.person, "left": ask.pairs[:, 0], "right": ask.pairs[:, 1], "response": y}
    write_columns(table, tmp_path / "answers.csv")
    options = ["--covariance", "isotropic", "--no-report", "--out", tmp_path / "model"]
    result = run("fit", tmp_path / "items.npy", tmp_path / "answers.csv", *options)
    assert result.code == 0
    assert "100% of the people were asked parallel questions: --estimator matched learns" in result.err


def test_fit_discovers_subspaces_and_says_what_it_found(run, crowd, tmp_path) -> None:
    options = ["--discover", "--subspaces", 8, "--rank", 2, *BOUNDS, "--out", tmp_path / "model"]
    result = run("fit", *tables(crowd), *options)
    assert result.code == 0
    assert "using StitchedMetric, because --discover" in result.err
    assert "8 subspaces of dimension 2 in 3 dimensions" in result.err
    assert "8 of dimension 2, discovered (stability" in result.out


def test_fit_preprocesses_and_the_model_remembers(run, crowd, tmp_path) -> None:
    options = ["--standardize", "--pca", "2", "--whiten", *BOUNDS, "--out", tmp_path / "model"]
    result = run("fit", *tables(crowd), *options)
    assert result.code == 0
    assert "preprocessing  standardized, 2 of 3 principal directions" in result.out
    model = load_model(tmp_path / "model")
    assert model.metric.shape == (2, 2)
    assert model.original_metric.shape == (3, 3)
    assert run("predict", tmp_path / "model", crowd / "comparisons.csv").code == 0
    assert run("fit", *tables(crowd), "--pca", "0.5", *BOUNDS, "--out", tmp_path / "share").code == 0
    result = run("fit", *tables(crowd), "--pca", "4", *BOUNDS, "--out", tmp_path / "other")
    assert result.code == 1
    assert "components=4" in result.err


def test_export_writes_the_matrix(run, model, tmp_path) -> None:
    result = run("export", model, "--out", tmp_path / "head.npz")
    assert result.code == 0
    assert result.out == f"{tmp_path / 'head.npz'}\n"
    with np.load(tmp_path / "head.npz") as head:
        np.testing.assert_allclose(head["weight"].T @ head["weight"], load_model(model).metric, atol=1e-9)
    assert run("export", model, "--out", tmp_path / "head", "--format", "csv", "--rank", 1).code == 0
    assert len((tmp_path / "head").read_text().splitlines()) == 2
    assert run("export", model, "--out", tmp_path / "head").code == 2
    assert run("export", model, "--out", tmp_path / "head.npz", "--rank", 9).code == 1


def test_fit_json_is_one_object(run, crowd, tmp_path) -> None:
    result = run("fit", *tables(crowd), *BOUNDS, "--json", "--out", tmp_path / "model", "--quiet")
    assert result.err == ""
    fitted = json.loads(result.out)
    assert one_line(result.out)
    assert fitted["estimator"] == "IdealPointMetric"
    assert len(fitted["eigenvalues"]) == 3
    assert {row["feature"] for row in fitted["coefficients"]} == {"f0", "f1", "f2"}
    kept = json.loads(run("info", tmp_path / "model", "--json").out)
    assert kept.items() <= fitted.items()


OPTIONS = {
    "loss": ("probit", "loss"),
    "beta": (2.0, "beta"),
    "norm": ("nuclear", "norm"),
    "tol": (1e-3, "tol"),
    "max-iter": (150, "max_iter"),
    "seed": (3, "random_state"),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_fit_passes_every_option_on(option, run, crowd, tmp_path) -> None:
    value, parameter = OPTIONS[option]
    assert run("fit", *tables(crowd), *BOUNDS, f"--{option}", value, "--out", tmp_path / "model").code == 0
    assert load_model(tmp_path / "model").description["parameters"][parameter] == value


@pytest.mark.parametrize(("option", "value"), [("stitch", "ols"), ("rank", 1)])
def test_fit_passes_options_of_the_stitched_metric_on(option, value, run, crowd, tmp_path) -> None:
    labels = ["--labels", crowd / "labels.csv"]
    assert run("fit", *tables(crowd), *BOUNDS, *labels, f"--{option}", value, "--out", tmp_path / "model").code == 0
    assert load_model(tmp_path / "model").description["parameters"][option] == value


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--estimator", "ideal", "--rank", "2"], "--rank has no effect with --estimator ideal"),
        (["--stitch", "ols"], "--stitch has no effect with --estimator population"),
        (["--estimator", "population", "--loss", "hinge"], "--loss hinge has no effect with --estimator population"),
        (["--ridge", "much"], "--ridge much is neither"),
        (["--estimator", "matched", "--ridge", "evidence"], "give a number"),
        (["--labels", "x.csv", "--norm", "nuclear"], "--norm has no effect with --estimator stitched"),
        (["--estimator", "stitched"], "needs --labels"),
        (["--labels", "x.csv", "--discover"], "nothing to --discover"),
        (["--labels", "x.csv", "--subspaces", "3"], "--subspaces has no effect without --discover"),
        (["--discover", "--norm", "nuclear"], "--norm has no effect with --estimator stitched"),
        (["--pca", "many"], "--pca many is neither"),
        (["--estimator", "ideal", "--no-item-effects"], "--no-item-effects has no effect with --estimator ideal"),
        (["--names", "x.csv", "--no-report"], "--no-report leaves out a report"),
        (["--names", "x.csv", "--memory", "2GB"], "--memory does without a report"),
        (["--estimator", "ideal", "--labels", "x.csv"], "--labels and --discover have no effect"),
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(options, sentence, run, tmp_path) -> None:
    result = run("fit", "items.csv", "comparisons.csv", *options, "--out", tmp_path / "model")
    assert result.code == 2
    assert sentence in result.err


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_labels_may_be_text_partial_and_about_other_items(run, crowd, tmp_path) -> None:
    labels = read_columns(crowd / "labels.csv")
    rows = [f"{i},s{s}" for i, s in zip(labels["item_id"], labels["subspace"], strict=True)][:-2]
    path = write(tmp_path / "labels.csv", "\n".join(["item_id,subspace", *rows, "9999,s0", "575,"]))
    result = run("fit", *tables(crowd), *BOUNDS, "--labels", path, "--out", tmp_path / "model")
    assert result.code == 0
    assert "1 labels are of items that" in result.err
    assert "1 items have no label" in result.err
    assert "warning: 1 of 288 comparisons are between items of different subspaces" in result.err
    assert load_model(tmp_path / "model").fitted["labels_"][-2:].tolist() == [-1, -1]


@pytest.fixture(scope="module")
def popular(tmp_path_factory) -> Path:
    """A catalogue of twelve items with titles, liked for reasons of their own by 150 people."""
    folder, rng = tmp_path_factory.mktemp("popular"), np.random.default_rng(0)
    X, users = rng.standard_normal((12, 2)), np.repeat(np.arange(150), 5)
    left = rng.integers(12, size=750)
    right = (left + rng.integers(1, 12, size=750)) % 12
    b, u = rng.standard_normal(12), 0.7 * rng.standard_normal((150, 2))[users]
    liked = [b[item] - np.sum((X[item] - u) ** 2, axis=1) for item in (left, right)]
    choice = np.where(rng.random(750) < expit(liked[0] - liked[1]), 0, 1)
    items = {"item_id": np.arange(12), "f0": X[:, 0], "f1": X[:, 1]}
    write_columns(items, folder / "items.csv")
    write_columns(items | {"Title": np.array([f"Song {i}" for i in range(12)], dtype=object)}, folder / "titled.csv")
    names = np.array([f"Melody {i}" for i in range(11)] + ["stray"], dtype=object)
    write_columns({"item_id": np.array([*range(11), 99]), "name": names}, folder / "item_names.csv")
    write_columns({"user": users, "left": left, "right": right, "choice": choice}, folder / "comparisons.csv")
    return folder


def test_without_hidden_answers_fit_takes_defaults_and_what_it_is_told(run, popular, tmp_path) -> None:
    quick = ["--starts", 1, "--no-evaluate", "--jobs", 1, "--integration", "propagation"]
    result = run("fit", *tables(popular), *quick, "--out", tmp_path / "model")
    assert result.code == 0
    sentence = "he covariance of people is isotropic and there are no per-item effects, the default, because no answers"
    assert sentence in result.err
    assert sentence in (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert load_model(tmp_path / "model").description["parameters"]["item_effects"] is False
    for options, value in ((["--no-item-effects"], False), (["--item-effects", "--covariance", "isotropic"], True)):
        result = run("fit", *tables(popular), *quick, "--no-report", *options, "--out", tmp_path / options[0])
        assert "per-item effects" not in result.err
        assert ("the default" in result.err) == ("--covariance" not in options)
        if value:
            assert "  items         have effects beyond their features (spread " in result.out
        model = load_model(tmp_path / options[0])
        assert model.description["parameters"]["item_effects"] is value
        assert ("item_effects_" in model.fitted) is value


def test_the_report_calls_items_by_their_names(run, popular, tmp_path) -> None:
    quick = ["--starts", 1, "--no-evaluate", "--integration", "propagation", "--no-item-effects"]
    quick += ["--covariance", "isotropic", "--out"]
    answers = popular / "comparisons.csv"
    titled = run("fit", popular / "titled.csv", answers, *quick, tmp_path / "a")
    assert titled.code == 0
    assert "<td>Song 3</td>" in (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    named = run("fit", popular / "titled.csv", answers, "--names", popular / "item_names.csv", *quick, tmp_path / "b")
    assert "1 names are of items that" in named.err
    page = (tmp_path / "b" / "report.html").read_text(encoding="utf-8")
    assert "<td>Melody 3</td>" in page
    assert "Song" not in page
    result = run("fit", *tables(popular), "--names", popular / "items.csv", *quick, tmp_path / "c")
    assert result.code == 1
    assert "has no column 'name'; item_id and name were expected" in result.err


def test_dropped_rows_become_one_warning_and_are_counted(run, crowd, tmp_path) -> None:
    text = (crowd / "comparisons.csv").read_text() + "0,1,1,left\n0,1,99999,left\n"
    answers = write(tmp_path / "comparisons.csv", text)
    result = run("fit", crowd / "items.csv", answers, *BOUNDS, "--out", tmp_path / "model", "--quiet")
    assert result.code == 0
    assert result.err.startswith("crowdmetric: warning: 2 of 290 comparisons cannot be used")
    assert one_line(result.err)
    assert "2 (1 × self-comparison, 1 × unknown item" in result.out


# ------------------------------------------------------------------------------------------------- predict


def test_predict_prints_nothing_but_data(run, crowd, model) -> None:
    result = run("predict", model, crowd / "comparisons.csv", "--quiet")
    assert result.err == ""
    assert list(result.rows[0]) == ["user", "left", "right", "psi", "choice", "probability_left"]
    assert len(result.rows) == 288
    for row in result.rows:
        assert row["choice"] == ("right" if float(row["psi"]) > 0 else "left")
        assert (float(row["probability_left"]) > 0.5) == (row["choice"] == "left")
    estimator = load_model(model).estimator()
    table = read_columns(crowd / "comparisons.csv")
    psi = estimator.decision_function(np.column_stack([table["left"], table["right"]]), users=table["user"])
    np.testing.assert_array_equal([float(row["psi"]) for row in result.rows], psi)


def test_predict_reports_accuracy_where_there_are_answers(run, crowd, model, tmp_path) -> None:
    result = run("predict", model, crowd / "comparisons.csv", "--out", tmp_path / "p.parquet")
    assert result.out == ""
    assert result.err.startswith("crowdmetric: accuracy 0.")
    assert result.err.endswith(" on 288 of 288 answers\n")
    predicted = read_columns(tmp_path / "p.parquet")["choice"]
    accuracy = np.mean(predicted == read_columns(crowd / "comparisons.csv")["choice"])
    assert f"accuracy {accuracy:.4f}" in result.err


def test_predict_needs_no_answers_and_counts_strangers(run, model, tmp_path) -> None:
    path = write(tmp_path / "questions.csv", "user,left,right\n0,0,1\n777,0,1\nbob,2,3\n,2,3\n0,0,99999\n")
    result = run("predict", model, path)
    assert result.code == 0
    assert [row["user"] for row in result.rows] == ["0", "777", "bob"]
    assert "2 of 3 people are not in the model and are predicted as the average person" in result.err
    assert "crowdmetric: warning: 2 of 5 comparisons cannot be used" in result.err
    assert "accuracy" not in result.err
    alone = write(tmp_path / "alone.csv", "user,left,right\n0,0,1\n")  # here 0 is a number, above it was text
    assert run("predict", model, alone).rows == result.rows[:1]


def test_predict_leaves_probabilities_empty_where_the_loss_has_none(run, crowd, tmp_path) -> None:
    loss = ["--loss", "hinge", "--tol", "1e-3"]
    assert run("fit", *tables(crowd), *BOUNDS, *loss, "--out", tmp_path / "model").code == 0
    result = run("predict", tmp_path / "model", crowd / "comparisons.csv")
    assert "gives no probabilities" in result.err
    assert {row["probability_left"] for row in result.rows} == {""}


def test_predict_scores_what_it_can(run, model, tmp_path) -> None:
    path = write(tmp_path / "a.csv", "user,left,right,choice\n0,0,1,left\n0,0,1,perhaps\n")
    result = run("predict", model, path)
    assert len(result.rows) == 2
    assert "on 1 of 2 answers" in result.err
    path = write(tmp_path / "b.csv", "user,left,right,choice\n0,0,1,\n")
    assert "the answers cannot be scored" in run("predict", model, path).err


# -------------------------------------------------------------------------------------------------- errors


def test_info_reads_what_fit_wrote(run, model) -> None:
    result = run("info", model)
    assert result.code == 0
    assert result.out.startswith("StitchedMetric: a metric in 3 dimensions\n")
    assert result.err == ""


FIT = ["fit", "{crowd}/items.csv", "{crowd}/comparisons.csv", "--out"]
BAD = {
    "no items": ["fit", "{tmp}/none.csv", "{crowd}/comparisons.csv", "--out", "{tmp}/m"],
    "no comparisons": ["fit", "{crowd}/items.csv", "{tmp}/none.csv", "--out", "{tmp}/m"],
    "empty file": ["fit", "{tmp}/empty.csv", "{crowd}/comparisons.csv", "--out", "{tmp}/m"],
    "wrong columns": ["fit", "{crowd}/items.csv", "{crowd}/labels.csv", "--out", "{tmp}/m"],
    "wrong labels": [*FIT, "{tmp}/m", "--labels", "{crowd}/items.csv"],
    "labels of other items": [*FIT, "{tmp}/m", "--labels", "{tmp}/other.csv"],
    "negative bound": [*FIT, "{tmp}/m", "--metric-bound", "-1"],
    "no place": [*FIT, "{tmp}/nowhere/m"],
    "place taken": [*FIT, "{model}"],
    "foreign place": [*FIT, "{crowd}", "--overwrite"],
    "no model": ["info", "{tmp}/none"],
    "not a model": ["info", "{crowd}"],
    "predict without model": ["predict", "{crowd}", "{crowd}/comparisons.csv"],
    "predict without questions": ["predict", "{model}", "{tmp}/none.csv"],
    "predict into nowhere": ["predict", "{model}", "{crowd}/comparisons.csv", "--out", "{tmp}/nowhere/p.csv"],
    "predict in no format": ["predict", "{model}", "{crowd}/comparisons.csv", "--out", "{tmp}/p.txt"],
    "impossible crowd": ["simulate", "--dimension", "0", "--out", "{tmp}/m"],
    "rank too high": ["simulate", "--dimension", "3", "--rank", "4", "--out", "{tmp}/m"],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_code_one(name, run, crowd, model, tmp_path) -> None:
    write(tmp_path / "empty.csv", "")
    write(tmp_path / "other.csv", "item_id,subspace\nx,1\n")
    before = sorted(tmp_path.iterdir())
    result = run(*(a.format(tmp=tmp_path, crowd=crowd, model=model) for a in BAD[name]), "--quiet")
    assert result.code == 1
    assert result.out == ""
    assert result.err.startswith("crowdmetric: error: ")
    assert one_line(result.err)
    assert sorted(tmp_path.iterdir()) == before


def test_a_damaged_model_is_said_to_be(run, crowd, model, tmp_path) -> None:
    damaged = tmp_path / "model"
    damaged.mkdir()
    (damaged / "model.json").write_bytes((model / "model.json").read_bytes())
    (damaged / "metric.npz").write_bytes((model / "metric.npz").read_bytes()[:-1])
    result = run("predict", damaged, crowd / "comparisons.csv")
    assert result.code == 1
    assert "checksum" in result.err
    assert one_line(result.err)


def test_an_interrupted_fit_leaves_nothing(run, crowd, tmp_path, monkeypatch) -> None:
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(PopulationMetric, "fit", interrupted)
    result = run("fit", *tables(crowd), "--out", tmp_path / "model", "--quiet")
    assert result.code == 130
    assert result.err == "crowdmetric: interrupted\n"
    assert not list(tmp_path.iterdir())


def test_an_interrupted_simulation_leaves_nothing(run, tmp_path, monkeypatch) -> None:
    def interrupted(columns, path):
        write_columns(columns, path)
        raise KeyboardInterrupt

    monkeypatch.setattr("crowdmetric.commands.simulate.write_columns", interrupted)
    assert run("simulate", *SMALL, "--out", tmp_path / "crowd").code == 130
    assert not list(tmp_path.iterdir())


# -------------------------------------------------------------------------------------- pipes and terminals


def spawn(*arguments, **options) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "crowdmetric", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_as_a_process_it_keeps_its_streams_apart(crowd, model) -> None:
    with spawn("predict", model, crowd / "comparisons.csv") as process:
        out, err = process.communicate(timeout=HANGING)
    assert process.returncode == 0
    assert len(list(csv.DictReader(io.StringIO(out)))) == 288
    assert one_line(err)


def test_a_reader_that_goes_away_is_no_error(crowd, model) -> None:
    read, write_end = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "crowdmetric", "predict", str(model), str(crowd / "comparisons.csv")]
    result = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False, timeout=HANGING)
    os.close(write_end)
    assert result.returncode == 141
    assert result.stderr == ""


def test_an_error_as_a_process_has_no_traceback(tmp_path) -> None:
    with spawn("info", tmp_path / "none") as process:
        out, err = process.communicate(timeout=HANGING)
    assert process.returncode == 1
    assert out == ""
    assert one_line(err)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("with_rich", [True, False])
def test_progress_is_for_terminals(with_rich, monkeypatch) -> None:
    if not with_rich:
        monkeypatch.setattr(progress, "_rich_console", lambda stream: None)
    for stream, quiet, shown in ((Terminal(), False, True), (Terminal(), True, False), (io.StringIO(), False, False)):
        with show_progress("Learning", quiet=quiet, stream=stream) as say:
            say("half way")
        assert ("Learning" in stream.getvalue()) is shown


def test_progress_in_a_pipe_is_a_line_now_and_then(monkeypatch) -> None:
    monkeypatch.setattr(progress, "PAUSE", 0.01)
    stream = io.StringIO()
    with show_progress("Learning", stream=stream) as say:
        say("half way")
        while "half way" not in stream.getvalue():
            time.sleep(0.01)
    lines = stream.getvalue().splitlines()
    assert lines[-1].startswith("crowdmetric: Learning: half way (")
    assert progress.in_words(44.6) == "45 s"
    assert progress.in_words(150.0) == "2 min"


def test_what_takes_long_is_foretold_once_from_measured_work() -> None:
    for quiet, lines in ((False, 1), (True, 0)):
        stream = io.StringIO()
        with show_progress("Learning", quiet=quiet, stream=stream):
            progress.foretell(9.0)
            progress.foretell(40.0)
            progress.foretell(80.0)
            progress.foretell(400.0)
        said = [f"crowdmetric: Learning takes about {time} more" for time in ("40 s", "7 min")]
        assert stream.getvalue().splitlines() == (said if lines else [])
    progress.foretell(100.0)  # nobody hears this
    time_left = progress.TimeLeft(["slow", "slow", "fast", "fast", "fast"])
    time_left._clock -= 22.0  # so long ago it began
    stream = io.StringIO()
    with show_progress("Learning", stream=stream):
        assert "1 of 5 fits done, about 88 s left" in time_left.after("slow", 20.0)
        # one slow one and two fast ones are left, of 22 s that took 22 s
        assert "2 of 5 fits done, about 24 s left" in time_left.after("fast", 2.0)
    assert "takes about 88 s more" in stream.getvalue()


def test_compiling_is_mentioned_where_progress_is_shown(monkeypatch) -> None:
    numba = pytest.importorskip("numba")
    from crowdmetric.users import compiled  # noqa: F401, PLC0415 - it listens to the compiler

    monkeypatch.setattr(progress, "_rich_console", lambda stream: None)
    stream = Terminal()
    with show_progress("Learning", stream=stream):
        assert numba.njit(lambda x: x + 1)(1) == 2
    progress.mention("nobody hears this")
    assert "compiling loops once" in stream.getvalue()
    assert "nobody" not in stream.getvalue()


def test_progress_without_rich_is_wiped_and_does_without(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = Terminal()
    with show_progress("Learning", stream=stream):
        pass
    assert stream.getvalue().endswith("\r\x1b[K")
