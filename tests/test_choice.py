"""What `crowdmetric fit` decides by itself: how people scatter, what items have of their own, what questions allow."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdmetric import Comparisons, PopulationMetric
from crowdmetric.choice import Trials, choose_covariance, choose_item_effects, matched_share
from crowdmetric.design import matched_from_generator
from crowdmetric.simulate import answer, responses, simulate_crowd
from crowdmetric.tables import read_items


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def asked(X: np.ndarray, ideal: np.ndarray, m: int, *, spread: float = 0.0, seed: int = 0) -> Comparisons:
    """Return m answers each, by people at `ideal` (K, d), about pairs of items drawn at random; M = 2I.

    Items have utilities of their own with a standard deviation of `spread`.
    """
    rng = np.random.default_rng(seed)
    N, K = len(X), len(ideal)
    users = np.repeat(np.arange(K), m)
    left = rng.integers(N, size=K * m)
    pairs = np.column_stack([left, (left + rng.integers(1, N, size=K * m)) % N])
    b = spread * rng.standard_normal(N)
    x, x_ = X[pairs[:, 0]], X[pairs[:, 1]]
    psi = 2.0 * np.sum((x - x_) * (x + x_ - 2.0 * ideal[users]), axis=1) - (b[pairs[:, 0]] - b[pairs[:, 1]])
    return Comparisons.from_arrays(users, pairs, responses(psi, 1.0, rng), n_items=N)


# --------------------------------------------------------------------------------------------- covariance


def test_covariance_is_free_where_people_stretch_and_are_many(rng) -> None:
    K, m = 500, 3
    X = rng.standard_normal((300, 2))
    pairs = np.array([rng.choice(300, 2, replace=False) for _ in range(K * m)])
    users = np.repeat(np.arange(K), m)
    for stretch, expected in ((np.array([3.0, 0.05]), "free"), (np.ones(2), "isotropic")):
        ideal = rng.standard_normal((K, 2)) * stretch
        y = answer(X, pairs, ideal[users], np.eye(2), seed=2)
        answers = Comparisons.from_arrays(users, pairs, y, n_items=300)
        choice = choose_covariance(Trials(X, answers, {}))
        assert choice.value == expected, choice.reason
        assert "BIC prices" in choice.reason
        assert choice.caution == ""  # 300 items for 5 parameters
    few = answers.take(answers.user < 19)
    reason = choose_covariance(Trials(X, few, {})).reason
    assert reason.startswith("19 people are too few for the 2 more parameters")


def test_a_free_covariance_from_few_items_is_taken_with_caution(rng) -> None:
    K, m = 400, 6
    X = rng.standard_normal((12, 2))
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(K * m)])
    users = np.repeat(np.arange(K), m)
    y = answer(X, pairs, (rng.standard_normal((K, 2)) * [3.0, 0.05])[users], np.eye(2), seed=2)
    choice = choose_covariance(Trials(X, Comparisons.from_arrays(users, pairs, y, n_items=12), {}))
    assert choice.value == "free"
    assert choice.caution.startswith("12 items are few for the 5 parameters of a metric and a mean")
    assert choice.caution.endswith("may not carry over to new items; use fewer features to predict those")


def test_a_free_covariance_is_not_tried_where_no_fit_has_one(rng) -> None:
    wide = rng.standard_normal((30, 80))
    answers = asked(wide, 0.1 * rng.standard_normal((900, 80)), 1)
    trials = Trials(wide, answers, {"rank": 2})
    assert trials.people > trials.wanted
    choice = choose_covariance(trials)
    assert (choice.value, trials.freest) == ("isotropic", "isotropic")
    assert "neither this many features" in choice.reason


# ------------------------------------------------------------------------------------------- item effects


@pytest.mark.parametrize(("spread", "expected"), [(0.0, False), (0.8, True)])
def test_items_have_utilities_of_their_own_where_they_have(spread, expected, rng) -> None:
    X, ideal = rng.standard_normal((20, 2)) / 1.4, rng.standard_normal((300, 2)) / 1.4
    trials = Trials(X, asked(X, ideal, 5, spread=spread), {"jobs": 1})
    choice = choose_item_effects(trials)
    assert choice.value is expected, choice.reason
    # the rule, from fits of our own
    options: dict[str, Any] = {"covariance": "free", "integration": "propagation", "starts": 1, "uncertainty": False}
    without, with_them = (
        PopulationMetric(X, item_effects=effects, jobs=1, **options).fit(trials.comparisons)
        for effects in (False, True)
    )
    gain = with_them.log_likelihood_ - without.log_likelihood_
    more = with_them.determined_ - without.determined_ + with_them.item_effects_determined_
    assert expected == (gain > more + log(20))
    assert f"{gain:.1f} nats of log-likelihood for {more:.1f} more effective parameters" in choice.reason
    assert 0 < with_them.item_effects_determined_ < 20


def test_people_in_clusters_are_not_taken_for_popular_items(rng) -> None:
    X = rng.standard_normal((30, 3)) / 1.7
    centers = np.array([[1.0, 0.0, 0.0], [-1.0, 0.2, 0.0], [0.0, -0.2, 0.1]])
    ideal = centers[rng.integers(3, size=500)] + 0.1 * rng.standard_normal((500, 3))
    answers = asked(X, ideal, 8)
    trials = Trials(X, answers, {"jobs": 1})
    assert choose_covariance(trials).value == "free"
    assert choose_item_effects(trials).value is False
    # under the wrong covariance they would be
    insisting = Trials(X, answers, {"jobs": 1, "covariance": "isotropic"})
    assert insisting.freest == "isotropic"
    assert choose_item_effects(insisting).value is True


def test_beside_utilities_of_items_a_covariance_pays_for_effective_parameters(rng) -> None:
    X = rng.standard_normal((25, 2)) / 1.4
    round_, long = rng.standard_normal((2, 400, 2)) / 1.4
    for ideal, expected in ((round_, "isotropic"), (long * [2.0, 0.1], "free")):
        trials = Trials(X, asked(X, ideal, 6, spread=0.8), {"jobs": 1})
        choice = choose_covariance(trials, item_effects=True)
        assert choice.value == expected, choice.reason
        free, isotropic = (trials.fit(covariance, True) for covariance in ("free", "isotropic"))
        price = 2 + sum(
            sign * (fit.determined_ + fit.item_effects_determined_) for sign, fit in ((1, free), (-1, isotropic))
        )
        assert f"for {price:.1f} more effective parameters" in choice.reason
        assert (free.log_likelihood_ - isotropic.log_likelihood_ > price) == (expected == "free")
        assert choice.caution == ""


def test_with_more_parameters_than_items_hidden_items_decide(rng) -> None:
    """A metric can then say all that the utilities could, and only items that nobody has seen tell the difference."""
    X, ideal = rng.standard_normal((30, 7)) / 2.6, rng.standard_normal((300, 7)) / 2.6
    for spread, expected in ((0.0, False), (1.5, True)):
        choice = choose_item_effects(Trials(X, asked(X, ideal, 6, spread=spread), {"jobs": 1}))
        assert choice.value is expected, choice.reason
        assert "answers about hidden items are" in choice.reason
    pair = X[:2]
    choice = choose_item_effects(Trials(pair, asked(pair, ideal, 1), {"jobs": 1}))
    assert choice.value is False
    assert "hidden items cannot decide either: " in choice.reason


NOT_CONSIDERED: dict[str, tuple[int, int, dict[str, Any], str]] = {
    "many items": (3000, 2, {}, "with this many features or items"),
    "shown seldom": (100, 2, {}, "shown 4.1 times on average, and 10 times are needed"),
    "another ridge": (20, 2, {"ridge": 0.0}, "another ridge was given"),
    "many features": (20, 80, {}, "with this many features or items"),
}


@pytest.mark.parametrize("case", NOT_CONSIDERED)
def test_where_utilities_of_items_are_not_considered(case, rng) -> None:
    N, d, parameters, sentence = NOT_CONSIDERED[case]
    X = rng.standard_normal((N, d))
    trials = Trials(X, asked(X, rng.standard_normal((100, d)), 2), parameters)
    choice = choose_item_effects(trials)
    assert choice.value is False
    assert sentence in choice.reason


def test_a_trial_is_made_once_and_leaves_no_checkpoint(rng, tmp_path) -> None:
    X = rng.standard_normal((15, 2))
    path = tmp_path / "state.npz"
    trials = Trials(X, asked(X, rng.standard_normal((60, 2)), 5), {"checkpoint": path, "integration": "auto"})
    fitted = trials.fit("isotropic", False)
    assert trials.fit("isotropic", False) is fitted
    assert trials.fit("isotropic", True) is not fitted
    assert fitted.integration == "propagation"
    assert not path.exists()


def test_items_of_real_sets() -> None:
    """On carrots popularity does not follow the features; on cream nine items leave nothing to say beside them."""
    data = Path(__file__).parents[2] / "shared" / "data"
    if not data.exists():
        pytest.skip(f"no real answers in {data}")
    for name, expected in (("carrots", True), ("cream", False)):
        items = read_items(data / name / "items.csv")
        answers = Comparisons.read(data / name / "comparisons.csv", items=items)
        X = items.features[:, :4] / items.features[:, :4].std(axis=0)
        choice = choose_item_effects(Trials(X, answers, {"jobs": 1}))
        assert choice.value is expected, (name, choice.reason)


# -------------------------------------------------------------------------------------- matched questions


def test_matched_questions_are_noticed() -> None:
    ask = matched_from_generator(3, people=50, seed=0)
    matched = Comparisons.from_arrays(ask.person, ask.pairs, np.ones(len(ask.pairs)), n_items=len(ask.items))
    assert matched_share(ask.items, matched) == 1.0
    crowd = simulate_crowd(3, None, None, users=50, comparisons=4, seed=0)
    answers = Comparisons.from_arrays(crowd.users, crowd.pairs, crowd.y, n_items=len(crowd.items))
    assert matched_share(crowd.items, answers) == 0.0
