"""Designs for a population and within subspaces: information against brute force, promises against what is measured."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from crowdmetric.cli import main
from crowdmetric.design import Questionnaire, design, plan
from crowdmetric.design.bundles import Population, bundle_rows, metric_covariance, population_of
from crowdmetric.design.exchange import best_shares, exchange_people, sensitivity, weighted_information
from crowdmetric.design.guess import guess_about_items, guess_about_space
from crowdmetric.design.optimal import search_bundles
from crowdmetric.design.question_sources import Catalogue, NewItems
from crowdmetric.errors import DataError, NotIdentifiedError
from crowdmetric.estimators import PopulationMetric
from crowdmetric.identifiability import diagnose
from crowdmetric.simulate import answer, simulate_crowd
from crowdmetric.symmetric import relative_error, shape_error, smat
from crowdmetric.tables import read_columns, write_columns

RNG = np.random.default_rng
METRIC = np.array([[1.6, 0.4, 0.0], [0.4, 1.0, -0.2], [0.0, -0.2, 0.7]])
ITEMS = RNG(0).standard_normal((2000, 3)) / np.sqrt(3)
CROWD = RNG(1).standard_normal((5000, 3)) / np.sqrt(3)
GUESS = {"metric": METRIC, "doubt": 0.1, "ideal_points": CROWD}
SURE = GUESS | {"doubt": 0}


def test_information_is_the_expected_outer_product_of_scores() -> None:
    rng = RNG(0)
    grid = np.linspace(-6, 6, 81)
    weights = np.exp(-0.5 * grid**2)
    weights /= weights.sum()
    cells = np.array(list(product(range(81), repeat=2)))
    points = grid[cells]
    mass = weights[cells].prod(axis=1)
    M = np.array([[1.2, 0.3], [0.3, 0.6]])
    guess = guess_about_space(2, M, 0, 0.8, rng.standard_normal((500, 2)) * 0.6 + 0.2, rng)
    people = population_of(guess, "isotropic")
    natural = people.natural(M)
    bundles = rng.standard_normal((2, 2, 2, 2))
    on_grid, propagated = (bundle_rows(bundles, M, people, 0.8, rng, largest_grid=q) for q in (3, 1))

    def chance(bundle: np.ndarray, y: np.ndarray, theta: np.ndarray) -> float:
        A, mu = smat(theta[:3]), theta[3:5]
        delta, total = bundle[:, 0] - bundle[:, 1], bundle[:, 0] + bundle[:, 1]
        psi = np.sum((delta @ A) * total, axis=1) + (mu + 2.0 * np.exp(theta[5]) * points @ A) @ delta.T
        return float(mass @ np.prod(expit(0.8 * y * psi), axis=1))

    for bundle, exact, close in zip(bundles, on_grid, propagated, strict=True):
        information = np.zeros((6, 6))
        for y in product((-1.0, 1.0), repeat=2):
            answers = np.array(y)
            score = np.array(
                [
                    (np.log(chance(bundle, answers, natural + h)) - np.log(chance(bundle, answers, natural - h))) / 2e-5
                    for h in 1e-5 * np.eye(6)
                ]
            )
            information += chance(bundle, answers, natural) * np.outer(score, score)
        np.testing.assert_allclose(exact.T @ exact, information, atol=1e-4 * np.abs(information).max())
        np.testing.assert_allclose(close.T @ close, information, atol=0.03 * np.abs(information).max())


@pytest.mark.parametrize("covariance", ["isotropic", "free"])
def test_drawn_answers_agree_with_listed_ones(covariance: str, monkeypatch) -> None:
    rng = RNG(0)
    guess = guess_about_items(ITEMS, METRIC, 0, 1.0, CROWD, rng)
    people = population_of(guess, covariance)
    bundles = ITEMS[rng.integers(len(ITEMS), size=(300, 2, 2))]
    listed = bundle_rows(bundles, METRIC, people, 1.0, rng)
    monkeypatch.setattr("crowdmetric.design.bundles.MOST_ANSWERS", 1)
    drawn = bundle_rows(bundles, METRIC, people, 1.0, rng, draws=300)
    one, other = (np.einsum("cki,ckj->ij", rows, rows) for rows in (listed, drawn))
    np.testing.assert_allclose(other, one, atol=0.03 * np.abs(one).max())


def test_covariance_profiles_what_is_of_no_interest() -> None:
    A = RNG(0).standard_normal((7, 7))
    information = A @ A.T * np.outer(10.0 ** np.arange(7), 10.0 ** np.arange(7))
    schur = information[:3, :3] - information[:3, 3:] @ np.linalg.solve(information[3:, 3:], information[3:, :3])
    np.testing.assert_allclose(metric_covariance(information, 3), np.linalg.inv(schur), rtol=1e-6)
    with pytest.raises(NotIdentifiedError, match="determine 6 of the 7"):
        metric_covariance(np.diag([1.0] * 6 + [0.0]), 3)


# ------------------------------------------------------------------------------------------------- exchange


@pytest.mark.parametrize("kappa", [0.0, 1.0, 8.0])
def test_sensitivity_is_the_derivative_and_shares_satisfy_the_equivalence_theorem(kappa: float) -> None:
    rows = RNG(0).standard_normal((2, 40, 2, 5))
    w = RNG(1).random(40)
    w /= w.sum()
    found = sensitivity(rows, w, 3, kappa)
    assert w @ found.bundles == pytest.approx(1.0, rel=1e-6)
    for i in (0, 7):
        step = 1e-5 * np.eye(40)[i]
        slope = (sensitivity(rows, w + step, 3, kappa).value - sensitivity(rows, w - step, 3, kappa).value) / 2e-5
        # Φ falls by d for each person more, and by a third of it for D, which is a mean over log eigenvalues
        assert slope == pytest.approx(-found.bundles[i], rel=1e-3)
    best = best_shares(rows, 3, kappa, iterations=3000)
    assert best.sum() == pytest.approx(1.0)
    at_best = sensitivity(rows, best, 3, kappa)
    assert at_best.value < found.value
    assert at_best.bundles.max() < 1.05


def test_a_metric_under_which_nothing_is_told_leaves_the_others_to_decide() -> None:
    rows = RNG(0).standard_normal((2, 30, 2, 5))
    rows[0] = 0.0
    with np.errstate(all="raise"):
        best = best_shares(rows, 3, 1.0)
    np.testing.assert_allclose(best.sum(), 1.0)
    assert np.isfinite(sensitivity(rows, best, 3, 1.0).value)
    assert sensitivity(rows, best, 3, 1.0).bundles.max() < 0.6  # one, over the two metrics


def test_information_that_is_there_is_counted() -> None:
    rows = RNG(0).standard_normal((1, 30, 2, 5))
    w = RNG(1).random(30)
    known = weighted_information(rows, w)
    alone, both = sensitivity(rows, 2.0 * w, 3, 1.0), sensitivity(rows, w, 3, 1.0, known=known)
    assert both.value == pytest.approx(alone.value)
    np.testing.assert_allclose(both.bundles, alone.bundles)


def test_a_bundle_that_begins_with_few_people_and_helps_is_not_dropped() -> None:
    rows = RNG(0).standard_normal((2, 40, 2, 5))
    rows[:, -1] *= 4.0
    start = np.append(np.full(39, 1.0), 1e-3)  # far below the share at which others are dropped
    best = sensitivity(rows, best_shares(rows, 4, 1.0), 4, 1.0).value
    late = sensitivity(rows, best_shares(rows, 4, 1.0, start=start), 4, 1.0).value
    assert late == pytest.approx(best, abs=0.02)


def test_variations_are_screened_under_one_metric_and_the_best_judged_under_all() -> None:
    rng, catalogue = RNG(0), Catalogue(ITEMS, np.arange(len(ITEMS)))
    people = Population(np.zeros(3), np.eye(3) / 3, "isotropic")
    metrics = np.stack([METRIC, np.eye(3), 2.0 * METRIC])
    calls: list[tuple[int, int]] = []

    def rows_of(bundles: np.ndarray, among: Any = slice(None)) -> np.ndarray:
        chosen = metrics[among]
        calls.append((len(bundles), len(chosen)))
        return np.stack([bundle_rows(catalogue.vectors(bundles), M, people, 1.0, rng) for M in chosen])

    def value(rounds: int) -> float:
        first = catalogue.draw(300, 2, RNG(1))
        found = search_bundles(catalogue, rows_of, first, 6, 1.0, rng, variations=900, rounds=rounds)
        return sensitivity(found.rows, found.shares, 6, 1.0).value

    few, many = value(1), value(8)
    assert calls[:3] == [(300, 3), (900, 1), (125, 3)]
    # half of this in log error: the questions after eight rounds need a third fewer people
    assert many < few - 0.4


def test_exchange_of_whole_people_helps_and_loses_nobody() -> None:
    rows = RNG(0).standard_normal((2, 30, 2, 5))
    counts = np.zeros(30, dtype=np.intp)
    counts[:6] = 2
    better = exchange_people(rows, counts, 4, 1.0)
    assert better.sum() == 12
    assert better.min() >= 0
    gain = sensitivity(rows, counts / 1.0, 4, 1.0).value - sensitivity(rows, better / 1.0, 4, 1.0).value
    assert gain > 0.1


def test_sources_draw_and_vary_pairs_of_different_items() -> None:
    rng = RNG(0)
    catalogue = Catalogue(ITEMS[:30], np.arange(30))
    bundles = catalogue.draw(500, 3, rng)
    for _ in range(20):
        varied = catalogue.vary(bundles, rng)
        assert np.all(varied[:, :, 0] != varied[:, :, 1])
        assert np.all(np.sum(varied != bundles, axis=(1, 2)) <= 1)
        bundles = varied
    new = NewItems(guess_about_items(ITEMS, METRIC, 0, 1.0, CROWD, rng), reach=0.8)
    made = new.try_out(200, 2, rng)
    for _ in range(5):
        made = new.vary(made, rng)
    assert np.linalg.norm(made - new.center, axis=-1).max() <= 0.8 + 1e-9


# ------------------------------------------------------------------------------------------------- promises


@cache
def measured(ask: Questionnaire, runs: int = 48) -> tuple[float, float]:
    """Return root mean square errors of PopulationMetric over fresh crowds, raw and of the shape."""
    errors = []
    for seed in range(runs):
        u = RNG(seed).standard_normal((ask.n_people, 3)) / np.sqrt(3)
        y = answer(ask.items, ask.pairs, u[ask.person], METRIC, seed=100 + seed)
        model = PopulationMetric(ask.items, starts=1, ridge=None, jobs=1).fit(ask.pairs, y, users=ask.person)
        errors.append([relative_error(model.metric_, METRIC), shape_error(model.metric_, METRIC)])
    error, shape = np.sqrt(np.mean(np.square(errors), axis=0))
    return float(error), float(shape)


@pytest.fixture(scope="module")
def optimal() -> Questionnaire:
    return design(ITEMS, people=1200, kind="optimal", rounds=8, **GUESS)


@pytest.fixture(scope="module")
def random() -> Questionnaire:
    return design(ITEMS, people=1200, kind="random", **GUESS)


@pytest.mark.parametrize("kind", ["optimal", "random"])
def test_promises_are_kept(kind: str, request) -> None:
    ask = request.getfixturevalue(kind)
    error, shape = measured(ask)
    assert error == pytest.approx(ask.expected_error, rel=0.2)
    assert shape == pytest.approx(ask.expected_shape_error, rel=0.2)


def test_a_design_beats_chance(optimal: Questionnaire, random: Questionnaire) -> None:
    assert random.expected_error > 1.5 * optimal.expected_error
    assert measured(random)[0] > 1.4 * measured(optimal)[0]


def test_each_criterion_is_best_by_its_own_measure() -> None:
    options = SURE | {"people": 1000, "rounds": 4}
    found = {c: design(ITEMS, criterion=c, **options) for c in "AE"}
    assert found["A"].expected_error < 1.02 * found["E"].expected_error

    def worst(ask: Questionnaire) -> float:
        guess = guess_about_items(ITEMS, METRIC, 0, 1.0, CROWD, RNG(0))
        rows = bundle_rows(
            ask.items[ask.pairs.reshape(-1, 2, 2)], METRIC, population_of(guess, "isotropic"), 1.0, RNG(0)
        )
        return float(np.linalg.eigvalsh(metric_covariance(np.einsum("cki,ckj->ij", rows, rows), 6))[-1])

    assert worst(found["E"]) < 1.1 * worst(found["A"])


def test_more_than_listed_answers_are_promised_too() -> None:
    few, many = (design(ITEMS, people=600, answers=m, kind="random", **SURE) for m in (5, 6))
    assert 0.75 * few.expected_error < many.expected_error < few.expected_error


# --------------------------------------------------------------------------------------------------- within


def test_within_subspaces_everything_is_revealed() -> None:
    crowd = simulate_crowd(4, 8, 2, users=5, comparisons=4, seed=0)
    ask = design(crowd.items, people=60, answers=3, kind="within", subspaces=crowd.labels)
    same = crowd.labels[ask.pairs].reshape(60, -1)
    assert np.all(same == same[:, :1])
    found = diagnose(ask.items, ask.pairs, ask.person)
    assert found.identified
    chance = simulate_crowd(4, 8, 2, users=8, comparisons=3, seed=1)
    by_chance = diagnose(chance.items, chance.pairs, chance.users)
    assert found.smallest / len(ask) > by_chance.smallest / len(chance.y)
    assert "all 10 degrees of freedom" in ask.summary()
    assert ask.expected_error > 0


def test_within_says_what_cannot_be() -> None:
    crowd = simulate_crowd(4, 3, 2, users=5, comparisons=4, seed=0)
    with pytest.raises(NotIdentifiedError, match=r"within these 3 subspaces can teach 9 of the 10"):
        design(crowd.items, people=60, answers=3, kind="within", subspaces=crowd.labels)
    with pytest.raises(DataError, match=r"answers=2 within subspaces of dimension 2 .* at least 3"):
        design(crowd.items, people=60, answers=2, kind="within", subspaces=crowd.labels)


# ---------------------------------------------------------------------------------------------------- plans


def test_a_plan_is_what_a_design_promises() -> None:
    found = plan(ITEMS, target=0.15, kinds=("random",), **SURE)
    people = found.people("random")
    assert people is not None
    ask = design(ITEMS, people=people, kind="random", **SURE)
    assert ask.expected_error == pytest.approx(0.15, rel=0.06)
    assert f"{people:,} people" in found.summary()
    harder = plan(ITEMS, target=0.075, kinds=("random",), **SURE).people("random")
    assert harder == pytest.approx(4 * people, rel=0.1)
    up_to_scale = plan(ITEMS, target=0.15, kinds=("random",), shape=True, **SURE).people("random")
    assert up_to_scale is not None
    assert up_to_scale < people


def test_a_plan_says_what_cannot_be() -> None:
    found = plan(ITEMS[:3], target=0.1, kinds=("random",))
    assert found.people("random") is None
    assert "cannot" in found.summary()
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "clever"}, "kind='clever' is unknown"),
        ({"criterion": "G"}, "criterion='G' is unknown"),
        ({"covariance": "diagonal"}, "covariance='diagonal' is unknown"),
        ({"kind": "random", "criterion": "A"}, "criterion='A' has no effect with kind='random'"),
        ({"color": 1}, "color=1 is unknown"),
        ({"dimension": 3}, "give either items"),
        ({"reach": 1.0}, "reach=1.0 has no effect with a catalogue"),
        ({"kind": "within"}, "needs items and subspaces="),
        ({"people": 0}, "people=0"),
        ({"answers": 0}, "answers=0"),
    ],
)
def test_bad_options_get_a_sentence(options, message: str) -> None:
    with pytest.raises(DataError, match=message):
        design(ITEMS, **({"people": 100} | options))


# ----------------------------------------------------------------------------------------------------- shell


@pytest.fixture
def catalogue(tmp_path):
    write_columns({"item_id": np.array([f"i{j}" for j in range(200)])} | dict(zip("abc", ITEMS[:200].T, strict=True)),
                  tmp_path / "items.csv")  # fmt: skip
    return tmp_path / "items.csv"


def test_design_from_a_shell(catalogue, tmp_path, capsys) -> None:
    out = tmp_path / "questionnaire.csv"
    arguments = ["design", catalogue, "--people", "300", "--kind", "random", "--out", out, "--json", "--quiet"]
    assert main(list(map(str, arguments))) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["people"] == 300
    assert 0 < said["expected_shape_error"] < said["expected_error"]
    table = read_columns(out)
    assert len(table["left"]) == 600
    assert str(table["left"][0]).startswith("i")
    new = tmp_path / "new.csv"
    assert main(["design", "--dimension", "2", "--people", "200", "--kind", "matched", "--out", str(out),
                 "--items-out", str(new)]) == 0  # fmt: skip
    assert set(np.unique(read_columns(out)["left"])) <= set(read_columns(new)["item_id"])


def test_plan_from_a_shell(catalogue, capsys) -> None:
    assert main(["plan", str(catalogue), "--kind", "random", "--error", "0.2"]) == 0
    assert "For a relative error of 0.2" in capsys.readouterr().out
    assert main(["plan", str(catalogue), "--kind", "random", "--error", "0.2", "--shape", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kinds"][0]["people"] > 0
    assert main(["plan", str(catalogue), "--kind", "random", "--reach", "2"]) == 1
    assert "reach=2.0 has no effect" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["plan", "x.csv", "--dimension", "3"],
        ["design", "x.csv", "--people", "9", "--out", "q.csv", "--items-out", "i.csv"],
    ],
)
def test_contradictions_are_wrong_usage(arguments) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
