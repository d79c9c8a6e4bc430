"""What moves choices: contrasts against the model's own predictions, one posterior, one value for every view."""

from __future__ import annotations

import html
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdmetric import Comparisons, PopulationMetric
from crowdmetric.cli import main
from crowdmetric.coefficients import coefficients_of
from crowdmetric.errors import CrowdmetricWarning
from crowdmetric.importance import FeatureImportance, feature_importance, find_importance
from crowdmetric.persist import SavedModel, load_model, save_model
from crowdmetric.preprocess import ItemMap, values_to_compare, varying_features
from crowdmetric.report.directions import find_directions
from crowdmetric.simulate import simulate_crowd
from crowdmetric.summary import InMemory

GENRES = ("action", "children", "comedy", "drama", "horror")
DATA = Path(__file__).parents[2] / "shared" / "data"


def films(people: int = 500, answers: int = 6) -> tuple[np.ndarray, Comparisons]:
    """Return films of unbalanced 0/1 genres, and answers drawn from the model."""
    rng = np.random.default_rng(3)
    X = (rng.random((150, 5)) < [0.2, 0.08, 0.35, 0.5, 0.1]).astype(float)
    A = rng.normal(size=(5, 3))
    M, u = A @ A.T + 0.2 * np.eye(5), X.mean(axis=0) + 0.5 * rng.normal(size=(people, 5)) + [0.4, -0.2, 0, 0.3, 0.1]
    users = np.repeat(np.arange(people), answers)
    left = rng.integers(150, size=users.size)
    pairs = np.column_stack([left, (left + rng.integers(1, 150, size=users.size)) % 150])
    a, b = (X[pairs[:, side]] - u[users] for side in (0, 1))
    psi = np.einsum("td,de,te->t", a, M, a) - np.einsum("td,de,te->t", b, M, b)
    y = np.where(rng.random(users.size) < 1 / (1 + np.exp(-psi)), 1.0, -1.0)
    return X, Comparisons.from_arrays(users, pairs, y, n_items=len(X))


@pytest.fixture(scope="module")
def film_model(tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    X, answers = films()
    model = PopulationMetric(X, starts=1).fit(answers)
    return save_model(tmp_path_factory.mktemp("films") / "model", model, feature_names=GENRES, comparisons=answers)


def twice(items: np.ndarray, feature: int) -> np.ndarray:
    """Return every item without and with a feature, (N, 2, d)."""
    pairs = np.stack([items, items], axis=1)
    pairs[:, 0, feature], pairs[:, 1, feature] = 0.0, 1.0
    return pairs


# -------------------------------------------------------------------------------------------------- contrasts


def test_contrasts_are_what_the_model_itself_predicts(film_model: SavedModel) -> None:
    """Of yes/no features the sign of a slope at the mean item may be another; a contrast's is that of predictions."""
    found, model = feature_importance(film_model), film_model.estimator()
    assert found.names == GENRES
    assert film_model.items is not None
    shown = np.bincount(model.questions_.ravel(), minlength=len(film_model.items)) / model.questions_.size
    predicted = np.array([shown @ model.predict_proba(twice(film_model.items, j))[:, 1] for j in range(5)])
    np.testing.assert_allclose(found.chosen, predicted, atol=0.02)
    clear = (found.chosen_low > 0.5) | (found.chosen_high < 0.5)
    assert clear.sum() >= 3
    np.testing.assert_array_equal((found.chosen > 0.5)[clear], (predicted > 0.5)[clear])
    np.testing.assert_array_equal(np.sign(found.log_odds), np.sign(found.chosen - 0.5))
    assert set(found.less) == {0.0}
    assert set(found.more) == {1.0}
    slope = film_model.fitted["pseudo_ideal_mean_"] + 2.0 * film_model.metric @ film_model.items.mean(axis=0)
    assert np.any(np.sign(-slope) != np.sign(predicted - 0.5))  # so the data can tell the two apart
    for j in np.flatnonzero(clear):
        assert found.taste(j).endswith("choose the one with it" if predicted[j] > 0.5 else "choose the one without it")


def test_contrasts_of_a_law_are_those_of_simulated_people(film_model: SavedModel) -> None:
    """Brute force: everybody chooses between both versions of every item."""
    fitted = {name: value for name, value in film_model.fitted.items() if name != "law_draws_"}
    alone = SavedModel(
        fitted, film_model.items, film_model.item_ids, film_model.feature_names,
        {name: value for name, value in film_model.description.items() if name != "importance"},
    )  # fmt: skip
    found = find_importance(alone)
    assert alone.items is not None
    v = np.random.default_rng(0).multivariate_normal(
        fitted["pseudo_ideal_mean_"], fitted["pseudo_ideal_covariance_"], size=4000
    )
    shown = np.bincount(fitted["questions_"].ravel(), minlength=len(alone.items)) / fitted["questions_"].size
    for j in range(5):
        x = twice(alone.items, j)
        utility = -np.einsum("nsd,de,nse->ns", x, alone.metric, x)
        gap = (utility[:, 1] - utility[:, 0])[:, None] - v[:, j]
        assert found.chosen[j] == pytest.approx(shown @ np.mean(1 / (1 + np.exp(-gap)), axis=1), abs=0.01)


def test_values_that_exist_are_compared() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=101), rng.random(101) < 0.03, rng.random(101) < 0.5, np.arange(101.0)])
    X[0, 1] = 1.0
    low, high = values_to_compare(X)
    assert all(low[j] in X[:, j] and high[j] in X[:, j] for j in range(4))
    assert (low[1:].tolist(), high[1:].tolist()) == ([0.0, 0.0, 10.0], [1.0, 1.0, 90.0])


def test_features_that_cannot_change_alone_change_together(tmp_path: Path) -> None:
    """With a column for each of two kinds, an item of the one kind is compared with one of the other."""
    X, answers = films(200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)
        one = PopulationMetric(X[:, 2:4], starts=1, uncertainty=False).fit(answers)
        both = PopulationMetric(np.column_stack([X[:, 2:4], 1.0 - X[:, 2]]), starts=1, uncertainty=False).fit(answers)
    plain, doubled = (find_importance(InMemory.of(model)) for model in (one, both))
    assert doubled.chosen[2] == pytest.approx(1.0 - doubled.chosen[0])
    np.testing.assert_allclose(doubled.chosen[:2], plain.chosen, atol=0.03)  # another ridge


# ------------------------------------------------------------------------------------------------ one posterior


def inside(found: FeatureImportance) -> bool:
    """Return whether all estimates lie strictly inside their intervals, unless these have no width."""
    ends = [(found.low, found.shares, found.high), (found.chosen_low, found.chosen, found.chosen_high)]
    return all(np.all((low < at) & (at < high) | (high - low < 1e-9)) for low, at, high in ends)


@pytest.mark.parametrize("covariance", ["isotropic", "free"])
@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
def test_every_estimate_is_inside_its_interval(covariance: str) -> None:
    """Fits to few people, where the fitted law is at an edge of what the answers allow."""
    for seed in range(4):
        d = 1 + seed % 3
        crowd = simulate_crowd(d, None, None, users=25, comparisons=3, seed=seed)
        model = PopulationMetric(crowd.items, starts=1, covariance=covariance)
        saved: Any = InMemory.of(model.fit(crowd.pairs, crowd.y, users=crowd.users))
        found = feature_importance(saved)
        assert found.has_intervals
        assert inside(found)
        assert found.shares.sum() + found.item_share == pytest.approx(1.0)
        directions = find_directions(saved, crowd.items)
        for name in ("strength", "share", "weight"):
            sure, numbers = getattr(directions, f"{name}_intervals"), getattr(directions, f"{name}s")
            assert np.all(sure.contains(numbers))


@pytest.mark.skipif(not DATA.is_dir(), reason="the sets of real choices stand beside the project where they are")
@pytest.mark.parametrize("name", ["carrots", "cocktail_compo", "cream", "train"])
@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
def test_every_printed_estimate_of_real_choices_is_inside_its_interval(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = [str(DATA / name / f"{kind}.csv") for kind in ("items", "comparisons")]
    fit = ["fit", *tables, "--estimator", "population", "--no-evaluate", "--no-report", "--quiet", "--json"]
    assert main([*fit, "--out", str(tmp_path / "model")]) == 0
    for row in json.loads(capsys.readouterr().out)["coefficients"]:
        if name != "train":  # pairs cut from rankings, which have no intervals
            assert not any(key.endswith(("_low", "_high")) for key in row)
            continue
        for number in ("share", "chosen", "log_odds"):
            assert row[f"{number}_low"] <= row[number] <= row[f"{number}_high"], row
    assert name != "train" or inside(feature_importance(load_model(tmp_path / "model")))


# ---------------------------------------------------------------------------------------------------- one truth


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    """Write films, answers about few of them, and a dead coordinate."""
    X, answers = films(120, 5)
    few = np.flatnonzero(np.all(answers.pairs < 60, axis=1))
    lines = ["item_id,e223," + ",".join(GENRES)]
    dead = 1e-33 * np.random.default_rng(0).normal(size=len(X))
    lines += [f"film{i},{float(dead[i])!r}," + ",".join(f"{x:g}" for x in row) for i, row in enumerate(X)]
    (tmp_path / "items.csv").write_text("\n".join(lines), encoding="utf-8")
    lines = ["user,left,right,choice"]
    for t in few.tolist():
        left, right = answers.pairs[t]
        lines.append(f"p{answers.user[t]},film{left},film{right},{'right' if answers.response[t] > 0 else 'left'}")
    (tmp_path / "answers.csv").write_text("\n".join(lines), encoding="utf-8")
    return [str(tmp_path / "items.csv"), str(tmp_path / "answers.csv")]


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
@pytest.mark.parametrize("estimator", ["population", "taste"])
def test_fit_info_and_report_show_the_same_digits(
    estimator: str, tables: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "model")
    fit = ["fit", *tables, "--out", out, "--overwrite", "--estimator", estimator, "--no-evaluate", "--quiet"]
    assert main(fit) == 0
    printed = capsys.readouterr().out
    table = printed[: printed.index("\n\n")]
    assert main(["info", out]) == 0
    assert capsys.readouterr().out.rstrip().endswith(table)
    assert main(["info", out, "--json"]) == 0
    of_info = json.loads(capsys.readouterr().out)
    assert main([*fit, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["coefficients"] == of_info["coefficients"]
    page = html.unescape(Path(out, "report.html").read_text(encoding="utf-8"))
    rows = re.findall(r"^  (action|children|comedy|drama|horror) +(.*)$", table, flags=re.MULTILINE)
    assert len(rows) == 5
    section = page[page.index("<h2>What moves choices</h2>") :]
    for name, cells in rows:
        row = re.search(rf"<tr>(?:<td[^>]*>\d+</td>)?<td[^>]*>{name}</td>.*?</tr>", section)
        assert row is not None
        shown = re.findall(r"<td[^>]*>([^<]*)</td>", row.group())
        assert set(re.split(r"  +", cells)) <= set(shown) or estimator == "taste"
        assert re.split(r"  +", cells)[1] in shown


def test_what_was_saved_is_what_is_shown(film_model: SavedModel, tmp_path: Path) -> None:
    """Importance is found once: whoever reads the model shows that, not what another version would find."""
    found = feature_importance(film_model)
    assert film_model.description["importance"]["shares"] == found.shares.tolist()
    again = FeatureImportance.of(json.loads(json.dumps(film_model.description["importance"])))
    np.testing.assert_array_equal(again.chosen, found.chosen)
    assert coefficients_of(film_model).to_list() == film_model.to_dict()["coefficients"]


# ------------------------------------------------------------------------------------------- constant features


def test_a_feature_varies_if_it_does_by_more_than_rounding() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    columns = {
        "dead coordinate": (1e-33 * rng.normal(size=50), False),
        "constant": (np.full(50, 1 / 3), False),
        "rounding": (1 / 3 + 1e-16 * rng.integers(-1, 2, size=50), False),
        "zero": (np.zeros(50), False),
        "small unit": (1e-9 * rng.normal(size=50), True),
        "time stamp": (1.7e18 + 1e9 * rng.random(50), True),
        "rare": (np.arange(50) == 7, True),
    }
    for name, (column, varies) in columns.items():
        found = varying_features(np.column_stack([X, column]))
        assert found.tolist() == [True, True, True, varies], name
    assert varying_features(1e-200 * X).all()
    assert not varying_features(np.ones((5, 2))).any()


@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"components": 2}, {"whiten": True}, {"center": False}])
def test_constant_features_are_left_out_of_every_map(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    alone = ItemMap(**options).fit(X)
    beside = ItemMap(**options).fit(np.insert(X, 1, 1e-33 * rng.normal(size=30), axis=1))
    np.testing.assert_allclose(beside.matrix_[:, [0, 2, 3]], alone.matrix_)
    assert not beside.matrix_[:, 1].any()
    assert "without 1 constant feature" in beside.summary()


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
@pytest.mark.parametrize(
    "command",
    [
        ["fit", "--estimator", "population", "--no-evaluate"],
        ["fit", "--estimator", "population", "--no-evaluate", "--pca", "4"],
        ["fit", "--estimator", "taste", "--no-evaluate"],
        ["diagnose"],
        ["evaluate", "--models", "linear,population", "--split", "people"],
    ],
    ids=" ".join,
)
def test_a_dead_coordinate_is_left_out_with_a_word_by_every_command(
    command: list[str], tables: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "model")] if command[0] == "fit" else []
    assert main([command[0], *tables, *command[1:], *out]) == 0
    told = capsys.readouterr()
    assert "left out, as all items are alike in it: 'e223'" in told.err
    assert "unit" not in told.err  # nothing varies 1e+31 times as much as anything
    if out:
        assert not any(line.startswith("  e223") for line in told.out.splitlines())
        assert main(["info", out[1]]) == 0
        assert not any(line.startswith("  e223") for line in capsys.readouterr().out.splitlines())
