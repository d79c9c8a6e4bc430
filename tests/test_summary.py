"""What a person sees after a fit: the table of coefficients, the ending of the command, short reprs."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from crowdmetric import (
    Comparisons,
    IdealPointMetric,
    MatchedMetric,
    PopulationMetric,
    SimilarityMetric,
    StitchedMetric,
    TasteMetric,
)
from crowdmetric.coefficients import coefficients_of
from crowdmetric.commands.fit_ending import gains_of
from crowdmetric.datasets import load_travel
from crowdmetric.estimators import __all__ as ESTIMATORS
from crowdmetric.evaluate import evaluate
from crowdmetric.fits.starts import Start
from crowdmetric.importance import find_importance
from crowdmetric.persist import load_model, save_model
from crowdmetric.report.warnings import warnings_of
from crowdmetric.simulate import simulate_crowd
from crowdmetric.solvers.priors import Ridges
from crowdmetric.summary import InMemory, table_of
from crowdmetric.symmetric import smat, svec
from crowdmetric.users.population_sums import Law

RNG = np.random.default_rng(5)
ITEMS = RNG.normal(size=(12, 2))


def one_by_one(answers: Comparisons) -> Comparisons:
    """Return answers that are said to have been asked one by one, although they are not, for what follows from that."""
    return replace(answers, made_of="pairs")


def people(count: int, answers: int) -> Comparisons:
    """Return answers of people with a steady taste for the first feature."""
    rng = np.random.default_rng(3)
    users = np.repeat(np.arange(count), answers)
    pairs = np.array([rng.choice(len(ITEMS), 2, replace=False) for _ in users])
    drift = (ITEMS[pairs[:, 0]] - ITEMS[pairs[:, 1]]) @ [-1.5, 0.2]
    y = np.where(rng.random(len(users)) < 1.0 / (1.0 + np.exp(-drift)), 1.0, -1.0)
    return Comparisons.from_arrays(users, pairs, y, n_items=len(ITEMS))


ANSWERS = people(60, 6)


def similar() -> SimilarityMetric:
    """Return a fit to triplets that the first feature decides."""
    rng = np.random.default_rng(4)
    triplets = np.array([rng.choice(len(ITEMS), 3, replace=False) for _ in range(400)])
    gap = np.abs(ITEMS[triplets, 0] - ITEMS[triplets[:, :1], 0])
    noisy = gap[:, 1] - gap[:, 2] + rng.logistic(scale=0.5, size=len(gap))
    return SimilarityMetric(ITEMS).fit(triplets, np.where(noisy < 0, -1, 1))


def matched() -> MatchedMetric:
    """Return a fit to parallel questions."""
    crowd = simulate_crowd(2, None, None, users=300, comparisons=3, seed=0)
    items = np.vstack([crowd.items[:200], crowd.items[:200] + np.array([0.3, 0.1])])
    pairs = np.repeat(np.column_stack([np.arange(100), np.arange(100, 200)]), 2, axis=0)
    pairs[1::2] += 200
    rng = np.random.default_rng(0)
    return MatchedMetric(items).fit(pairs, rng.choice([-1.0, 1.0], 200), users=np.repeat(np.arange(100), 2))


FITS: dict[str, Any] = {
    "PopulationMetric": lambda: PopulationMetric(ITEMS).fit(ANSWERS),
    "IdealPointMetric": lambda: IdealPointMetric(ITEMS, metric_bound=2.0, ideal_bound=2.0).fit(ANSWERS),
    "StitchedMetric": lambda: StitchedMetric(ITEMS, subspaces=np.zeros(12, dtype=int)).fit(ANSWERS),
    "TasteMetric": lambda: TasteMetric(ITEMS).fit(ANSWERS),
    "MatchedMetric": matched,
    "SimilarityMetric": similar,
}


def test_every_estimator_is_here() -> None:
    assert set(ESTIMATORS) - {"CrowdMetric"} == set(FITS)


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
@pytest.mark.parametrize("name", FITS)
def test_every_estimator_sums_up_what_it_learned(name: str, tmp_path) -> None:
    model = FITS[name]()
    said = model.summary()
    assert said.startswith(f"{name}: a metric in 2 dimensions\n")
    table = table_of(InMemory.of(model))
    assert table is not None
    assert sorted(table.names) == ["f0", "f1"]
    assert table.summary() in said
    assert max(map(len, table.summary().splitlines())) <= 100
    shares = table.columns.get("share", table.columns.get("weight"))
    assert np.all(np.diff(shares) <= 0)
    json.dumps(table.to_list(), allow_nan=False)
    saved = save_model(tmp_path / "model", model)
    assert saved.summary() == load_model(tmp_path / "model").summary()
    assert saved.summary().splitlines()[-2:] == said.splitlines()[-2:]
    assert len(repr(model)) < 200
    assert "items=<" in repr(model)


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.NotIdentifiedWarning")  # steady tastes: no size of a metric
def test_intervals_include_other_laws_that_explain_the_answers_about_as_well() -> None:
    model = InMemory.of(PopulationMetric(ITEMS, starts=1, uncertainty=False).fit(ANSWERS))
    one = {**model.fitted, "alternatives_": np.empty((0, 3, 9))}
    law = [svec(model.metric), one["pseudo_ideal_mean_"], svec(one["pseudo_ideal_covariance_"])]
    one["law_draws_"] = np.tile(np.concatenate(law), (40, 1))
    other = {
        "metric_": model.metric[::-1, ::-1], "pseudo_ideal_mean_": -one["pseudo_ideal_mean_"][::-1],
        "pseudo_ideal_covariance_": one["pseudo_ideal_covariance_"][::-1, ::-1],
    }  # fmt: skip
    row = [[0.5], svec(other["metric_"]), other["pseudo_ideal_mean_"], svec(other["pseudo_ideal_covariance_"])]
    both = {**one, "alternatives_": np.tile(np.concatenate(row), (1, 3, 1))}
    no_draws = {name: value for name, value in one.items() if name != "law_draws_"}
    alone, found = (find_importance(replace(model, fitted=fitted)) for fitted in (one, both))
    second = find_importance(replace(model, fitted=no_draws | other, metric=other["metric_"]))
    np.testing.assert_allclose(alone.low, alone.high)  # a law that is known
    assert "fit about as well" in found.covers
    assert np.max(np.abs(second.shares - alone.shares)) > 0.1  # it matters
    for each in (alone, second):
        assert np.all((found.low - 1e-9 <= each.shares) & (each.shares <= found.high + 1e-9))
        assert np.all((found.chosen_low - 1e-9 <= each.chosen) & (each.chosen <= found.chosen_high + 1e-9))
    effects = np.linspace(-1e6, 1e6, len(ITEMS))  # where they hold, they drown the features
    with_effects = {
        **both, "law_draws_": np.append(one["law_draws_"], np.zeros((40, effects.size)), axis=1),
        "alternatives_": np.append(both["alternatives_"], np.tile(effects, (1, 3, 1)), axis=2),
    }  # fmt: skip
    assert np.all(find_importance(replace(model, fitted=with_effects)).low < 1e-6)
    # the other law is as likely as exp(−½), and so is that its feature comes first
    assert np.min(found.first_place) == pytest.approx(np.exp(-0.5) / (1.0 + np.exp(-0.5)), abs=0.01)


@pytest.mark.parametrize(("constraint", "least"), [("symmetric", -0.5), ("psd", 0.0)])
def test_other_explanations_are_of_the_kind_of_the_fit(
    constraint: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that need not be a distance stays so; others become metrics."""
    crowd = people(60, 4)
    law = np.concatenate([svec(np.diag([2.0, -0.5])), np.zeros(2), svec(np.eye(2))])
    found = np.tile(np.append(0.5, law), (1, 3, 1))
    monkeypatch.setattr("crowdmetric.fits.starts._other_explanations", lambda ends, random_state: found)
    model = PopulationMetric(ITEMS, covariance="free", constraint=constraint, uncertainty=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        other = model.fit(crowd).alternatives_[0, 0]
    assert other[0] == 0.5
    values = np.linalg.eigvalsh(smat(other[1:4]))
    assert values[0] / values[-1] == pytest.approx(least / 2.0, abs=1e-9)


def test_of_a_metric_of_low_rank_no_share_of_all_parameters_is_said_to_be_determined() -> None:
    travel = load_travel()
    items = travel.items.features / travel.items.features.std(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        models = [
            PopulationMetric(items, rank=rank, uncertainty=False).fit(one_by_one(travel.comparisons))
            for rank in (None, 1)
        ]
    assert ["parameters of the metric's shape" in model.solution_.status for model in models] == [True, False]
    said = [" ".join(warnings_of(InMemory.of(model), None, None, travel.comparisons)) for model in models]
    assert ["shape is only partly known" in text for text in said] == [True, False]


def test_where_a_fit_ends_does_not_depend_on_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is another explanation, a fit that was to begin where an earlier one ended begins as any fit does."""
    crowd = people(60, 4)
    model = PopulationMetric(ITEMS, covariance="free", uncertainty=False)
    law = np.concatenate([svec(np.eye(2)), np.zeros(2), svec(np.eye(2))])
    found = np.tile(np.append(0.5, law), (1, 3, 1))
    monkeypatch.setattr("crowdmetric.fits.starts._other_explanations", lambda ends, random_state: found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        metric = model.fit(crowd).metric_
        begin = Start(Law(5.0 * np.eye(2), np.ones(2), np.eye(2)), Ridges(shape=1.7, size=0.006, people=1.4))
        model.fit(crowd, begin=begin)
    np.testing.assert_array_equal(model.metric_, metric)
    assert "starts agree" not in model.solution_.status


@pytest.mark.parametrize("uncertainty", [False, True])
def test_intervals_are_only_mentioned_where_there_are_some(uncertainty: bool) -> None:
    """Repeated and constant features are no reason for a warning of NumPy."""
    repeated = np.column_stack([ITEMS, ITEMS, 2.0 * ITEMS[:, 0], np.ones(len(ITEMS))])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        model = PopulationMetric(repeated, starts=1, uncertainty=uncertainty).fit(people(80, 8))
        table = coefficients_of(InMemory.of(model))
    assert ("share_low" in table.columns) == uncertainty
    assert ("90 %" in table.summary()) == uncertainty
    assert "f5" not in table.names
    assert "alike in them: f5." in table.summary()


def test_long_tables_are_cut_and_names_are_harmless() -> None:
    items = np.random.default_rng(0).normal(size=(40, 20))
    metric = np.diag(np.arange(20.0, 0.0, -1.0))
    names = ["\x1b[31m" + "x" * 60, *(f"f{j}" for j in range(1, 20))]
    model = InMemory({"estimator": "X", "parameters": {}, "data": {}}, {}, metric, items, names)
    said = coefficients_of(model).summary()
    assert "\x1b" not in said
    assert "… and 8 more" in said
    assert max(map(len, said.splitlines())) <= 100


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.NotIdentifiedWarning")  # steady tastes: no size of a metric
def test_items_of_a_data_frame_keep_their_names(tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ITEMS, columns=["sweet", "hard"], index=[f"carrot {i}" for i in range(12)])
    model = PopulationMetric(frame).fit(ANSWERS)
    saved = save_model(tmp_path / "model", model)
    assert saved.item_ids.tolist() == frame.index.tolist()
    assert saved.feature_names == ["sweet", "hard"]
    assert "sweet" in model.summary()


def test_the_ending_is_about_the_question_that_was_asked() -> None:
    found = evaluate(ITEMS, ANSWERS, ["population", "linear"], repeats=1).of_saved("population")
    assert [gain.split for gain in gains_of(found, None)] == ["pairs", "people", "items"]
    assert [gain.split for gain in gains_of(found, "new-items")] == ["items"]
