"""Which kind of model `crowdmetric fit` saves: the rule, simulated crowds of every kind, and what follows from it."""

from __future__ import annotations

import csv
import html
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from crowdmetric import Comparisons, PopulationMetric, TasteMetric
from crowdmetric.choice import CANDIDATES, LAWS, UNLEARNED, choose_by_hidden_answers
from crowdmetric.cli import main
from crowdmetric.coefficients import coefficients_of
from crowdmetric.commands.fit_findings import needless, saved_as
from crowdmetric.errors import DataError
from crowdmetric.evaluate import MODELS, Evaluation
from crowdmetric.evaluate.estimated import FittedEstimator
from crowdmetric.evaluate.evaluation import Result
from crowdmetric.export import item_coordinates, linear_head
from crowdmetric.persist import load_model, save_model
from crowdmetric.report import report_page
from crowdmetric.tastes import find_tastes

SPLITS = ("pairs", "people", "items")


def evaluation(gains: dict[str, tuple[float, ...]], *, noise: float = 0.0, people: int = 400) -> Evaluation:
    """Return an evaluation of models with these mean log-likelihoods above −0.6 per split; new people may be noisy."""
    rng = np.random.default_rng(0)
    results = []
    for place, split in enumerate(SPLITS):
        for model, gain in gains.items():
            own = -0.6 + gain[place] + noise * (split == "people") * rng.standard_normal(people)
            own += -0.6 + gain[place] - own.mean()
            measures = {"log_likelihood": float(own.mean()), "accuracy": 0.7, "calibration_slope": 1.0}
            results.append(
                Result(split, model, 0, 100, people, measures, own, np.full(people, 0.7), np.ones(people), 0.0, ())
            )
    return Evaluation(tuple(results), SPLITS, tuple(gains), None)


def choose(gains: dict[str, tuple[float, ...]], question: str = "all", **options: float) -> str:
    return str(choose_by_hidden_answers(evaluation(gains, **options), None, question, tuple(CANDIDATES)).value)


def test_the_kind_that_predicts_best_is_taken() -> None:
    laws = dict.fromkeys(LAWS, (0.05, 0.05, 0.05))
    others = {"linear": (0.0, 0.0, 0.0), "identity": (0.0, 0.0, 0.0)}
    assert choose({**laws, **others, "smooth": (0.03, 0.03, 0.03)}) == "population"
    assert choose({**laws, **others, "smooth": (0.15, 0.05, 0.09)}) == "smooth"
    assert choose({**laws, **others, "linear": (0.06, 0.06, 0.06)}) == "linear"
    assert choose({**laws, **others, "identity": (0.06, 0.06, 0.06)}) == "identity"


def test_another_kind_must_be_worth_it() -> None:
    laws = dict.fromkeys(LAWS, (0.05, 0.05, 0.05))
    assert choose({**laws, "smooth": (0.0515, 0.05, 0.05)}) == "population"
    assert choose({**laws, "smooth": (0.055, 0.05, 0.05)}) == "smooth"


def test_the_question_decides_and_a_caution_names_what_is_better_for_others() -> None:
    gains = {"population": (0.0, 0.05, 0.0), "smooth": (0.1, 0.0, 0.04)}
    assert choose(gains, "new-people") == "population"
    assert choose(gains, "known-items") == "smooth"
    found = choose_by_hidden_answers(evaluation(gains), None, "all", tuple(CANDIDATES))
    assert found.value == "smooth"
    assert "population for new people" in found.caution


def test_all_questions_decide_what_one_of_them_cannot() -> None:
    gains = {"population": (0.0, 0.01, 0.0), "smooth": (0.1, 0.0, 0.1), "linear": (0.2, -0.4, 0.2)}
    assert choose(gains, "new-people") == "population"
    assert choose(gains, "new-people", noise=0.2) == "smooth"  # linear is clearly behind all the same
    told = [
        choose_by_hidden_answers(evaluation(gains, noise=noise), None, "new-people", tuple(CANDIDATES)).reason
        for noise in (0.0, 0.2)
    ]
    assert ["cannot tell apart" in reason for reason in told] == [False, True]


def test_what_may_be_chance_counts_little() -> None:
    gains = {"population": (0.05, 0.0, 0.05), "smooth": (0.06, -0.012, 0.06)}
    assert choose(gains) == "population"  # a sure loss on new people
    assert choose(gains, noise=0.2) == "smooth"  # one within its error


def test_laws_alone_are_compared_where_the_user_wants_ideal_points() -> None:
    gains = {"population": (0.0, 0.0, 0.0), "population-free": (0.01, 0.01, 0.01), "smooth": (0.3, 0.3, 0.3)}
    assert choose_by_hidden_answers(evaluation(gains)).value == "population-free"
    isotropic = {"covariance": "isotropic"}
    assert choose_by_hidden_answers(evaluation(gains), isotropic, "all", tuple(LAWS)).value == "population"


def test_laws_are_given_up_where_their_freedom_gains_nothing() -> None:
    def after_pairs(**gains: float) -> set[str]:
        whole = evaluation({name.replace("_", "-"): (gain, 0.0, 0.0) for name, gain in gains.items()})
        return needless(replace(whole, splits=SPLITS[:1]))

    both = {"population-items", "symmetric-items"}
    assert after_pairs(identity=0.1) == set()
    assert after_pairs(population=0.1, population_free=0.1) == {"population-free", *both}
    assert after_pairs(population=0.1, population_free=0.11) == set()
    found = after_pairs(population=0.1, population_free=0.11, population_items_isotropic=0.1)
    assert found == {"population-items-isotropic", *both}
    better = {"population": 0.1, "population_free": 0.11}
    assert after_pairs(**better, smooth=0.13) == {"population-free", *both}
    assert after_pairs(**better, smooth=0.115) == set()
    seen = replace(evaluation({"population": (0.1,) * 3, "population-free": (0.11,) * 3, "smooth": (0.13,) * 3}))
    assert needless(replace(seen, splits=SPLITS[:1]), tastes=False) == set()


@pytest.mark.parametrize("name", CANDIDATES)
def test_what_is_chosen_is_what_was_evaluated(name: str) -> None:
    estimator, parameters = CANDIDATES[name]
    assert saved_as(estimator, parameters) == name


def test_a_saved_model_without_a_learned_metric_says_so() -> None:
    found = evaluation({"population": (0.0, 0.0, 0.0), "linear": (0.02, 0.02, 0.02)}).of_saved("linear")
    assert found.findings()[0].endswith("The saved model has no learned metric (linear).")


# ----------------------------------------------------------------------------------- models without a learned metric


@pytest.fixture(scope="module")
def linear_crowd() -> tuple[np.ndarray, Comparisons]:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((25, 2))
    utility = rng.standard_normal((80, 2)) @ np.diag([2.0, 0.7]) @ X.T + X @ np.array([1.0, -0.5])
    users, left = np.repeat(np.arange(80), 12), rng.integers(0, 25, 960)
    pairs = np.column_stack([left, (left + rng.integers(1, 25, 960)) % 25])
    right = expit(utility[users, pairs[:, 1]] - utility[users, pairs[:, 0]])
    y = np.where(rng.random(960) < right, 1.0, -1.0)
    return X, Comparisons.from_arrays(users, pairs, y, n_items=25)


@pytest.mark.parametrize("name", UNLEARNED)
def test_what_is_saved_is_the_baseline(name: str, linear_crowd) -> None:
    X, answers = linear_crowd
    law = UNLEARNED[name]
    baseline = MODELS[name].fit(X, answers)
    model = PopulationMetric(X, **law).fit(answers)
    if isinstance(baseline, FittedEstimator):
        assert model.log_likelihood_ == pytest.approx(baseline.estimator.log_likelihood_, abs=0.05)
    expected = baseline.probability(answers, answers)
    np.testing.assert_allclose(model.predict_proba(answers)[:, 1], expected, atol=0.01)
    if law["constraint"] != "symmetric":
        size = float(np.trace(model.metric_)) / 2
        np.testing.assert_allclose(model.metric_, size * np.eye(2), atol=1e-12)
        assert (size == 0.0) == (law["constraint"] == "zero")
    named = "covariance" if law["covariance"] == "none" else "constraint"
    assert f"{named}={law[named]!r}" in model.solution_.status
    assert not hasattr(model, "metric_draws_")


def test_a_model_without_a_metric_is_saved_reported_and_not_exported(linear_crowd, tmp_path: Path) -> None:
    X, answers = linear_crowd
    fitted = PopulationMetric(X, **UNLEARNED["linear-items"]).fit(answers)
    saved = save_model(tmp_path / "model", fitted)
    loaded = load_model(tmp_path / "model")
    np.testing.assert_allclose(loaded.estimator().predict_proba(answers), fitted.predict_proba(answers))
    page = report_page(saved, comparisons=answers)
    assert "the answers support no learned metric" in page
    assert "What moves choices most" in page
    with pytest.raises(DataError, match="support no learned metric"):
        linear_head(loaded)
    with pytest.raises(DataError, match="are for TasteMetric"):
        item_coordinates(loaded)


def test_constraints_that_contradict_are_refused(linear_crowd) -> None:
    X, answers = linear_crowd
    with pytest.raises(DataError, match="leave one of them out"):
        PopulationMetric(X, constraint="zero", rank=1).fit(answers)
    with pytest.raises(DataError, match="has no effect with constraint='identity'"):
        PopulationMetric(X, constraint="identity", rank=1).fit(answers)


# ------------------------------------------------------------------------------------------------- the whole command


def _written(folder: Path, X: np.ndarray, users: np.ndarray, pairs: np.ndarray, y: np.ndarray) -> tuple[str, str]:
    with open(folder / "items.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["item_id", "width", "warmth"])
        rows.writerows([f"i{n}", *x] for n, x in enumerate(X.tolist()))
    with open(folder / "answers.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["user", "left", "right", "choice"])
        rows.writerows(
            [f"p{u}", f"i{a}", f"i{b}", int(v > 0)] for u, (a, b), v in zip(users, pairs.tolist(), y, strict=True)
        )
    return str(folder / "items.csv"), str(folder / "answers.csv")


def _asked(utility: np.ndarray, each: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    K, N = utility.shape
    users, left = np.repeat(np.arange(K), each), rng.integers(0, N, K * each)
    pairs = np.column_stack([left, (left + rng.integers(1, N, left.size)) % N])
    right = expit(utility[users, pairs[:, 1]] - utility[users, pairs[:, 0]])
    return users, pairs, np.where(rng.random(left.size) < right, 1.0, -1.0)


@pytest.fixture(scope="module")
def bent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crowd whose tastes go up and down, fitted by the command."""
    folder, rng = tmp_path_factory.mktemp("bent"), np.random.default_rng(2)
    X = rng.standard_normal((20, 2))
    utility = 3.0 * np.sin(2.5 * X[:, 0] + rng.uniform(0.0, 6.3, (60, 1))) + 1.0 * X[:, 1]
    items, answers = _written(folder, X, *_asked(utility, 25, rng))
    assert main(["fit", items, answers, "--out", str(folder / "model"), "--quiet"]) in (0, None)
    return folder


def test_tastes_that_bend_are_saved_and_predict_after_loading(bent: Path, capsys) -> None:
    model = load_model(bent / "model")
    assert model.description["estimator"] == "TasteMetric"
    out = bent / "predicted.csv"
    main(["predict", str(bent / "model"), str(bent / "answers.csv"), "--out", str(out), "--quiet"])
    with open(out) as file:
        rows = list(csv.DictReader(file))
    estimator = model.estimator()
    ids = {name: n for n, name in enumerate(model.item_ids)}
    pairs = np.array([[ids[row["left"]], ids[row["right"]]] for row in rows])
    expected = estimator.predict_proba(pairs, users=[row["user"] for row in rows])[:, 0]
    np.testing.assert_allclose([float(row["probability_left"]) for row in rows], expected, atol=1e-9)


def test_a_fit_of_tastes_ends_with_what_its_report_says_moves_choices(bent: Path) -> None:
    model = load_model(bent / "model")
    tastes = find_tastes(model)
    table = tastes.table()
    shares = np.array([row["share"] for row in table.to_list()])
    assert shares.sum() + tastes.crowd_items + tastes.people_items == pytest.approx(1.0)
    assert table.headline in html.unescape((bent / "model" / "report.html").read_text())
    assert table.summary().startswith(f"What moves choices most is {table.names[0]}")
    single = replace(tastes, people_items=0.6).sentence()
    assert single.startswith("Most of what moves choices is what people think of single items")
    assert f"Of the features, {table.names[0]} moves choices most" in single


def test_where_all_features_count_alike_none_is_said_to_count_most(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((12, 2))
    asked = _asked(rng.standard_normal((20, 12)), 8, rng)
    fitted = TasteMetric(X, structure="isotropic").fit(asked[1], asked[2], users=asked[0])
    found = coefficients_of(save_model(tmp_path / "model", fitted))
    assert found.headline == "All features count alike in the learned distance."


def test_the_report_of_tastes_is_about_the_saved_model(bent: Path) -> None:
    page = (bent / "model" / "report.html").read_text()
    assert "Using TasteMetric, smooth tastes" in page
    assert "Islands of taste" in page
    assert "The saved model is smooth" in page
    assert "ideal points" not in page.split("Choices made, and why")[0].replace("rather than ideal points", "")
    assert "90 % interval" in page


def test_people_with_tastes_are_located_by_the_command(bent: Path) -> None:
    out = bent / "people.csv"
    main(
        ["locate", str(bent / "model"), str(bent / "answers.csv"), "--top", "2", "--next", "--out", str(out), "--quiet"]
    )
    with open(out) as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60
    assert set(rows[0]) == {"user", "best_1", "best_2", "next_left", "next_right", "information"}


def test_coordinates_of_items_are_exported(bent: Path) -> None:
    out = bent / "coordinates.csv"
    main(["export", str(bent / "model"), "--coordinates", "--rank", "3", "--out", str(out), "--quiet"])
    with open(out) as file:
        rows = list(csv.DictReader(file))
    found = np.array([[float(row[f"y{j}"]) for j in range(3)] for row in rows])
    np.testing.assert_allclose(found, item_coordinates(load_model(bent / "model"), rank=3), atol=1e-9)
    matrix = bent / "matrix.npz"
    main(["export", str(bent / "model"), "--out", str(matrix), "--quiet"])
    assert np.load(matrix)["weight"].shape[1] == 2


def test_ideal_points_are_kept_where_people_have_them(tmp_path: Path, capsys) -> None:
    rng = np.random.default_rng(3)
    X, ideal = rng.standard_normal((40, 2)), 0.8 * rng.standard_normal((120, 2))
    gap = X[None] - ideal[:, None]
    utility = -np.einsum("knd,de,kne->kn", gap, np.diag([1.5, 0.3]), gap)
    items, answers = _written(tmp_path, X, *_asked(utility, 16, rng))
    main(["fit", items, answers, "--out", str(tmp_path / "model")])
    model = load_model(tmp_path / "model")
    assert model.description["estimator"] == "PopulationMetric"
    assert model.description["parameters"]["constraint"] == "psd"
    assert "using PopulationMetric" in capsys.readouterr().err


def test_laws_are_not_given_up_where_nobody_answers_twice(tmp_path: Path, capsys) -> None:
    """Hidden answers of known people are what laws are judged by, and there are none."""
    rng = np.random.default_rng(4)
    X, ideal = rng.standard_normal((60, 2)), rng.standard_normal((400, 2))
    utility = -2.0 * np.sum((ideal[:, None] - X[None]) ** 2, axis=2)
    items, answers = _written(tmp_path, X, *_asked(utility, 1, rng))
    assert main(["fit", items, answers, "--out", str(tmp_path / "m"), "--no-standardize"]) == 0
    found = capsys.readouterr()
    assert "Compared for new questions to known people only" not in found.err
    assert "population-free" in (tmp_path / "m" / "report.html").read_text(encoding="utf-8")


def test_laws_are_compared_on_the_question_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What gains nothing on known people may be best for new ones: nothing is given up on another question.

    With few answers nothing is given up on all questions either.
    """
    assert (
        main(["simulate", "--out", str(tmp_path / "crowd"), "--dimension", "2", "--subspaces", "0", "--users", "60"])
        == 0
    )
    files = [str(tmp_path / "crowd" / name) for name in ("items.csv", "comparisons.csv")]
    told = {}
    for question in ("known-items", "new-people", "all"):
        assert main(["fit", *files, "--for", question, "--out", str(tmp_path / question)]) == 0
        told[question] = capsys.readouterr().err
    given_up = "Compared for new questions to known people only"
    assert given_up in told["known-items"]
    assert given_up not in told["new-people"]
    assert given_up not in told["all"]
