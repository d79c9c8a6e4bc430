"""The report: numbers against brute force, intervals against simulation, and a page that is whole and harmless."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from crowdmetric import Comparisons, PopulationMetric, TasteMetric
from crowdmetric.commands.fit_findings import saved_as, suggest_tastes
from crowdmetric.errors import DataError, NotIdentifiedWarning
from crowdmetric.evaluate import SIMILARITY_MODELS
from crowdmetric.evaluate.models import MODELS
from crowdmetric.evaluate.verdict import Difference, findings
from crowdmetric.identifiability import diagnose
from crowdmetric.importance import as_percent, feature_importance, find_importance
from crowdmetric.persist import SavedModel, is_model, load_model, save_model
from crowdmetric.plots import new_figure
from crowdmetric.preprocess import ItemMap
from crowdmetric.report import report_page
from crowdmetric.report.changes import moved_pairs, neighbors
from crowdmetric.report.directions import find_directions
from crowdmetric.report.glossary import WORDS
from crowdmetric.report.shared_sections import DISAGREE, directions_section
from crowdmetric.report.warnings import not_ideal_points, shape_test, warnings_of, worth_using
from crowdmetric.simulate import answer, simulate_crowd
from crowdmetric.symmetric import smat, svec


def of_crowd(crowd) -> Comparisons:
    return Comparisons.from_arrays(crowd.users, crowd.pairs, crowd.y, n_items=len(crowd.items))


@pytest.fixture(scope="module")
def crowd():
    return simulate_crowd(3, None, None, users=800, comparisons=3, seed=1)


@pytest.fixture(scope="module")
def fitted(crowd):
    return PopulationMetric(crowd.items, starts=1).fit(of_crowd(crowd))


@pytest.fixture(scope="module")
def model(fitted, crowd, tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("m") / "model", fitted, comparisons=of_crowd(crowd))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# ------------------------------------------------------------------------------------------------- changes


def test_neighbors_are_those_of_all_distances(rng) -> None:
    X, L = rng.standard_normal((30, 3)), rng.standard_normal((3, 3))
    X[7] = X[3]  # equal items: neither is its own neighbor
    found = neighbors(X, L, np.array([3, 7, 12]), k=4)
    for item, before, after in zip(found.items, found.before, found.after, strict=True):
        for near, M in ((before, np.eye(3)), (after, L.T @ L)):
            step = X - X[item]
            distance = np.einsum("nd,de,ne->n", step, M, step)
            distance[item] = np.inf
            assert set(near) == set(np.argsort(distance)[:4])
            assert item not in near
    assert neighbors(X, 2.0 * np.eye(3), np.arange(2)).kept == 1.0
    assert found.kept < 1.0


def test_pairs_that_moved_most_changed_rank_most(rng) -> None:
    X, L = rng.standard_normal((12, 3)), np.diag([3.0, 1.0, 0.1])
    moves = moved_pairs(X, L, most=3)
    pairs = np.array([(i, j) for i in range(12) for j in range(i + 1, 12)])
    ranks = []
    for Y in (X, X @ L.T):
        distance = np.linalg.norm(Y[pairs[:, 0]] - Y[pairs[:, 1]], axis=1)
        ranks.append(distance.argsort().argsort())
    shift = (ranks[1] - ranks[0]) / len(pairs)
    np.testing.assert_allclose(np.sort(np.diff(moves.apart_ranks)[:, 0])[::-1], np.sort(shift)[::-1][:3])
    np.testing.assert_allclose(np.sort(np.diff(moves.closer_ranks)[:, 0]), np.sort(shift)[:3])
    assert 0.0 < moves.agreement < 1.0
    same = moved_pairs(X, 5.0 * np.eye(3))
    assert len(same.closer) == len(same.apart) == 0
    assert same.agreement == pytest.approx(1.0)


def test_of_many_items_no_pair_is_named_twice(rng) -> None:
    X = np.repeat(rng.standard_normal((40, 2)), 12, axis=0)  # 480 items: pairs are a sample
    moves = moved_pairs(X, np.diag([3.0, 0.1]), most=200)
    for pairs in (moves.closer, moves.apart):
        assert len({frozenset(pair) for pair in pairs.tolist()}) == len(pairs) == 200


# ---------------------------------------------------------------------------------------------- directions


def test_intervals_of_strengths_are_those_of_the_draws(model) -> None:
    found = find_directions(model, model.items)
    spread = model.items.std(axis=0)
    draws = smat(model.fitted["metric_draws_"]) * spread[:, None] * spread
    q = np.einsum("di,nde,ei->ni", found.vectors, draws, found.vectors)
    q /= np.trace(draws, axis1=1, axis2=2)[:, None] / 3
    sure = found.strength_intervals
    assert np.all(sure.contains(found.strengths))
    np.testing.assert_allclose(np.mean(q <= sure.high, axis=0), 0.95, atol=0.01)
    np.testing.assert_allclose(np.mean(q < sure.low, axis=0)[sure.low > 0], 0.05, atol=0.01)
    assert np.all(sure.low >= 0)  # also where draws have small negative eigenvalues
    # 90 % of the draws have their leading direction within the angle
    leading = np.linalg.eigh(draws)[1][:, :, -1]
    angle = np.degrees(np.arccos(np.minimum(np.abs(leading @ found.vectors[:, 0]), 1.0)))
    assert np.mean(angle <= found.angles[0]) == pytest.approx(0.9, abs=0.01)
    assert found.strengths.mean() == pytest.approx(1.0)
    assert found.shares.sum() == pytest.approx(1.0)
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.plane.shape == (len(draws), 2, 2)


def test_units_do_not_matter(model) -> None:
    stretch = np.array([1.0, 3.0, 0.01])

    def found_in(units):
        whole = np.diag(1 / units)
        moved = svec(whole @ smat(model.fitted["metric_draws_"]) @ whole)
        fitted = model.fitted | {"metric_": whole @ model.metric @ whole, "metric_draws_": moved}
        return find_directions(replace(model, fitted=fitted), model.items * units)

    plain, scaled = found_in(np.ones(3)), found_in(stretch)
    for name in ("strengths", "angles", "shares", "weights"):
        np.testing.assert_allclose(getattr(scaled, name), getattr(plain, name), rtol=1e-6, atol=1e-6)
    for name in ("strength", "share", "weight"):
        one, other = (getattr(found, f"{name}_intervals") for found in (plain, scaled))
        np.testing.assert_allclose([one.low, one.high], [other.low, other.high], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.abs(scaled.loadings), np.abs(plain.loadings), atol=1e-6)


def test_tables_count_what_they_leave_out(tmp_path) -> None:
    crowd = simulate_crowd(14, None, None, users=40, comparisons=3, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few answers do not tell the scale
        fitted = PopulationMetric(crowd.items, starts=1, uncertainty=False).fit(of_crowd(crowd))
    saved = save_model(tmp_path / "m", fitted)
    found = find_directions(saved, saved.items)
    section = directions_section(found, saved.feature_names, saved.items, "")
    shares, weights = found.shares[6:].sum(), np.sort(found.weights)[:2].sum()
    for what, empty, share in (
        ("8 other directions", '<td class="number"></td>', shares),
        ("2 other features", "", weights),
    ):
        assert f'<td>{what}</td>{empty}<td class="number">{as_percent(share)}</td>' in section


def test_a_metric_that_disagrees_with_its_draws_is_explained(model) -> None:
    found = find_directions(model, model.items)
    draws = model.fitted["metric_draws_"]
    assert DISAGREE not in directions_section(found, model.feature_names, model.items, "")
    rounder = smat(draws.mean(axis=0)) + 50.0 * np.trace(model.metric) * np.eye(3)
    shrunk = find_directions(replace(model, fitted={**model.fitted, "metric_": rounder}), model.items)
    assert DISAGREE in directions_section(shrunk, model.feature_names, model.items, "")


def test_a_model_without_draws_has_directions_without_intervals(model) -> None:
    fitted = {name: value for name, value in model.fitted.items() if name != "metric_draws_"}
    found = find_directions(replace(model, fitted=fitted), model.items)
    assert found.strength_intervals is None
    assert found.plane is None
    assert "There are no intervals" in report_page(replace(model, fitted=fitted))


def test_what_a_structure_assumes_is_not_said_to_be_measured(model) -> None:
    def page_with(metrics):
        fitted = model.fitted | {"metric_": metrics[0], "metric_draws_": svec(metrics)}
        changed = replace(model, fitted=fitted)
        return find_directions(changed, model.items), report_page(changed)

    sizes = np.linspace(0.5, 2.0, 50)
    found, page = page_with(np.stack([np.diag([1.0, size, 3.0]) for size in sizes]))
    assert found.assumed == "diagonal"
    assert "directions are assumed" in page
    assert "± 0°" not in page
    assert "90 % interval" in page
    found, page = page_with(np.stack([size * np.diag(model.items.std(axis=0) ** -2.0) for size in sizes]))
    assert found.assumed == "isotropic"
    assert "weights and strengths are assumed" in page
    assert "1.00 to 1.00" not in page
    assert "within the angle" not in page


# ------------------------------------------------------------------------------------------------ warnings


def test_a_singular_metric_is_no_alarm_and_a_saddle_is(rng) -> None:
    d = 4
    C = 0.01 * np.eye(d * (d + 1) // 2)
    L = rng.standard_normal((d, 2))
    alarms = [not_ideal_points(smat(rng.multivariate_normal(svec(L @ L.T), C)), C) < 0.01 for _ in range(400)]
    assert np.mean(alarms) <= 0.02
    assert not_ideal_points(np.diag([2.0, 1.0, 0.5, -1.5]), C) < 1e-6
    assert not_ideal_points(np.eye(d), C) == 1.0


def test_the_shape_test_keeps_its_level_and_ignores_the_scale(rng) -> None:
    p = 10
    C = 0.005 * np.eye(p) + 0.01 * np.outer(svec(np.eye(4)), svec(np.eye(4)))
    chances = [shape_test(smat(rng.multivariate_normal(svec(2 * np.eye(4)), C)), C) for _ in range(400)]
    assert 0.02 < np.mean(np.array(chances) < 0.05) < 0.09
    assert shape_test(np.diag([3.0, 2.0, 2.0, 1.0]), C) < 1e-6
    assert np.isnan(shape_test(np.eye(4), 100 * C))


def test_a_crowd_that_likes_extremes_is_told_from_one_that_does_not(rng) -> None:
    # utilities that grow with |x| along one feature: no point is ideal there
    K, m = 1500, 4
    X = rng.standard_normal((200, 2))
    left, right = rng.integers(200, size=(2, K * m))
    right = np.where(left == right, (right + 1) % 200, right)
    users = np.repeat(np.arange(K), m)
    v = rng.standard_normal((K, 2))[users]
    psi = np.einsum("td,td->t", X[left] - X[right], (X[left] + X[right]) * np.array([1.0, -0.6]) + v)
    y = np.where(rng.random(K * m) < 1 / (1 + np.exp(-psi)), 1, -1)
    odd = PopulationMetric(X, starts=1).fit(np.column_stack([left, right]), y, users=users)
    assert not_ideal_points(odd.symmetric_metric_, odd.symmetric_covariance_) < 1e-3


def test_warnings_follow_from_the_fit(model, crowd) -> None:
    diagnosis = diagnose(crowd.items, crowd.pairs, crowd.users)
    assert warnings_of(model, diagnosis) == []
    told = " ".join(worth_using(model))
    assert "was not measured" in told
    assert "shape apart from that of plain Euclidean distance" in told
    assert "something to use" not in told
    doubtful = model.fitted | {
        "scale_error_": 2.0, "question_bias_": 9.0, "determined_": 1.0, "approximation_error_": 3.0,
        "starts_": np.array([0.0, 1.0]), "bound_is_active_": np.array([True, False]),
        "symmetric_metric_": -np.eye(3),
    }  # fmt: skip
    text = " ".join(warnings_of(replace(model, fitted=doubtful), diagnosis))
    for words in (
        "ideal points",
        "z = 9.0",
        "1.0 of its 5",
        "scale",
        "3 standard errors",
        "another start",
        "1 of 2 subspaces",
    ):
        assert words in text
    few = replace(model, fitted={k: v for k, v in model.fitted.items() if k != "determined_"})
    few.description["data"] = few.description["data"] | {"answers": 20}
    assert any("20 for a metric of 6" in text for text in warnings_of(few, None))


def test_what_a_population_cannot_learn_is_said_of_a_learned_metric_of_a_population(model, crowd, tmp_path) -> None:
    """Smooth tastes have another law of people, and a metric that was given has nothing to learn."""
    items = np.column_stack([crowd.items, crowd.items[:, 0]])  # a feature that repeats another
    unsure = diagnose(items, of_crowd(crowd))
    assert unsure.population_bounds[0] < unsure.dimensions
    phrase = "degrees of freedom of the metric"
    assert phrase in " ".join(warnings_of(model, unsure))
    given = replace(model, description={**model.description, "parameters": {"constraint": "identity"}})
    assert phrase not in " ".join(warnings_of(given, unsure))
    tastes = TasteMetric(crowd.items, structure="isotropic").fit(of_crowd(crowd).take(np.arange(300)))
    assert phrase not in " ".join(warnings_of(save_model(tmp_path / "tastes", tastes), unsure))


def test_what_leaves_the_shape_open_is_named(model, crowd) -> None:
    def said(answers=10_000, items=model.items, covariance="isotropic", scale=1.0):
        fitted = model.fitted | {"determined_": 3.0, "metric_": scale * model.metric}
        description = model.description | {
            "data": {"answers": answers},
            "parameters": model.description["parameters"] | {"covariance": covariance},
        }
        changed = replace(model, fitted=fitted, description=description, items=items)
        return " ".join(warnings_of(changed, None))

    # nine parameters of a metric and a mean
    assert "partly known" in said()
    assert "few for" not in said()
    assert "20 answers are few for the 9 parameters" in said(answers=20)
    assert "8 items are few for the 9 parameters" in said(items=model.items[:8])
    assert "answers are few" not in said(items=model.items[:8])
    assert "30 items are few" not in said(items=model.items[:30])
    assert "30 items are few" in said(items=model.items[:30], covariance="free")
    nothing = said(scale=1e-6)
    assert "close to zero" in nothing
    assert "partly known" not in nothing
    # a shape that is nearly known is never called "5 of 5"
    nearly = replace(model, fitted=model.fitted | {"determined_": 0.949 * 5})
    assert "4.7 of its 5" in " ".join(warnings_of(nearly, None))


def test_hidden_answers_decide_how_grave_a_negative_eigenvalue_is(model) -> None:
    odd = replace(model, fitted=model.fitted | {"symmetric_metric_": -np.eye(3)})
    gains = {"linear": 0.0, "population-free": 0.5}
    for symmetric, untested in ((None, True), (0.5, False), (1.0, False)):
        found = Measured(gains | ({} if symmetric is None else {"symmetric": symmetric}))
        head, careful = worth_using(odd, found)[0], " ".join(warnings_of(odd, None, found))
        grave = untested or symmetric > 0.5
        assert ("not as a distance" in head) == grave
        assert ("is worth using for new" in head) != grave
        assert ("Do not read the metric as a distance" in careful) == grave
        assert ("matters little" in careful) != grave
        assert careful.count("ideal points") <= 1
    # and with a fit that is a distance, the head is free
    assert "is worth using for new" in worth_using(model, Measured(gains))[0]


class Measured:
    """Stands in for an evaluation of one split, from log-likelihoods by model."""

    splits, saved = ("people",), None

    def __init__(self, values) -> None:
        self.values, self.models = values, tuple(values)

    def has(self, split, model):
        return split in self.splits and model in self.models

    def mean(self, split, model, measure="log_likelihood"):
        return self.values[model] * (measure == "log_likelihood")

    def difference(self, split, model, other, measure="log_likelihood"):
        return Difference(self.mean(split, model, measure) - self.mean(split, other, measure), 0.1)

    def findings(self, *, no_distance=None):
        return findings(self, no_distance=no_distance)


# ---------------------------------------------------------------------------------------------- importance


def steady_crowd(rng, *, people=400, answers=6, weights=(2.0, -0.5, 0.0), spread=0.3):
    """Return items, answers and the law of a crowd whose tastes are steady: everybody wants less of the first."""
    X = rng.standard_normal((80, 3)) @ np.array([[1.0, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    users = np.repeat(np.arange(people), answers)
    left, right = rng.integers(80, size=(2, users.size))
    right = np.where(left == right, (right + 1) % 80, right)
    v = np.array(weights) + spread * rng.standard_normal((people, 3))
    psi = np.einsum("td,td->t", X[left] - X[right], v[users])
    y = np.where(rng.random(users.size) < 1 / (1 + np.exp(-psi)), 1.0, -1.0)
    return X, Comparisons.from_arrays(users, np.column_stack([left, right]), y, n_items=80)


def of_law(model: SavedModel, **law) -> SavedModel:
    """Return a model with another law and no draws."""
    fitted = {name: value for name, value in model.fitted.items() if name != "law_draws_"}
    return replace(model, fitted=fitted | law)


def test_shares_are_those_of_simulated_choices(model, crowd, rng) -> None:
    """Brute force: draw people, write ψ down as a sum over features, and square its terms."""
    effects = 0.5 * rng.standard_normal(len(model.items))
    mean = np.array([0.7, -0.4, 0.2])
    found = find_importance(of_law(model, pseudo_ideal_mean_=mean, item_effects_=effects))
    answers = of_crowd(crowd)
    C = model.fitted["pseudo_ideal_covariance_"]
    left, right = model.items[answers.left], model.items[answers.right]
    delta, total = left - right, left + right
    draws = 300
    item = effects[answers.right] - effects[answers.left]
    squares, shared = np.zeros(3), delta * (total @ model.metric + mean)
    for v in rng.multivariate_normal(mean, C, size=draws):
        terms = delta * (total @ model.metric + v)
        squares += np.mean(terms**2, axis=0) / draws
    all_of_it = squares.sum() + np.mean(item**2)
    np.testing.assert_allclose(found.shares, squares / all_of_it, atol=0.02)
    assert found.item_share == pytest.approx(np.mean(item**2) / all_of_it, abs=0.02)
    np.testing.assert_allclose(found.steady + found.bent, np.mean(shared**2, axis=0) / all_of_it, atol=0.02)
    assert found.shares.sum() + found.item_share == pytest.approx(1.0)
    np.testing.assert_allclose(found.steady + found.bent + found.own, found.shares, atol=1e-12)
    assert not found.has_intervals


def test_steady_tastes_move_choices_though_a_metric_does_not_show_them(rng, tmp_path) -> None:
    X, answers = steady_crowd(rng)
    fitted = PopulationMetric(X, starts=1, covariance="free").fit(answers)
    saved = save_model(tmp_path / "m", fitted, comparisons=answers, feature_names=["price", "comfort", "color"])
    found = feature_importance(saved)
    assert found.names[found.order[0]] == "price"
    assert found.shares[0] > 0.8
    assert found.chosen_high[0] < 0.5 < found.chosen_low[1]
    assert found.taste(0).endswith("choose less of it")
    assert found.taste(1).endswith("choose more of it")
    assert found.sentence().startswith("What moves choices most is price")
    unsure = replace(found, low=np.zeros_like(found.low), high=np.ones_like(found.high)).sentence()
    assert unsure.startswith("These answers hardly tell what moves choices: price seems to come first")
    assert unsure.endswith("but anything from 0 % to 100 % is possible.")
    assert found.first_place.sum() == pytest.approx(1.0)
    assert found.first_place[0] > 0.99
    tied = replace(found, first_place=np.array([0.6, 0.4, 0.0])).sentence()
    assert "most is probably price (" in tied
    assert "; first with a probability of 60 %)" in tied
    assert "price" in found.summary()
    page = report_page(saved, comparisons=answers)
    assert page.index("What moves choices") < page.index("How differences between items add up to a distance")
    assert "What the crowd cares about" not in page


@pytest.mark.parametrize(
    "steps", [{"standardize": True}, {"components": 3}, {"components": 3, "whiten": True, "standardize": True}]
)
def test_importance_is_that_of_the_features_as_they_came(steps, rng, tmp_path) -> None:
    """Preprocessing that loses nothing changes no share, no contrast and no name; a constant feature is left out."""
    X, answers = steady_crowd(rng, people=60)
    items = X * [1.0, 20.0, 0.3] + [5.0, 0.0, 1.0]
    M, v = np.diag([0.3, 0.002, 1.0]), rng.standard_normal((60, 3)) / [1.0, 20.0, 0.3] + [1.0, 0.0, 0.0]
    fitted = PopulationMetric(items, starts=1, uncertainty=False).fit(answers)
    plain = save_model(tmp_path / "plain", fitted, feature_names=["a", "b", "c"])
    law = {"metric_": M, "pseudo_ideal_mean_": v.mean(axis=0), "pseudo_ideal_covariance_": np.cov(v, rowvar=False)}
    plain = replace(plain, fitted=plain.fitted | law)
    preprocessing = ItemMap(**steps)
    Z = preprocessing.fit_transform(np.column_stack([items, np.full(len(items), 1 / 3)]))
    T = preprocessing.matrix_[:, :3]
    back = np.linalg.inv(T)  # x − μ = T⁻¹ z
    inside = {"metric_": back.T @ M @ back}
    inside["pseudo_ideal_mean_"] = (law["pseudo_ideal_mean_"] + 2 * preprocessing.mean_[:3] @ M) @ back
    inside["pseudo_ideal_covariance_"] = back.T @ law["pseudo_ideal_covariance_"] @ back
    mapped = replace(plain, fitted=plain.fitted | inside, items=Z, preprocessing=preprocessing)
    mapped = replace(mapped, feature_names=["a", "b", "c", "dead"])
    one, other = (find_importance(which) for which in (plain, mapped))
    assert one.names == other.names == ("a", "b", "c")
    assert (one.left_out, other.left_out) == ((), ("dead",))
    for name in ("shares", "steady", "bent", "own", "less", "more", "chosen"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-6, atol=1e-9)


def test_what_no_question_shows_moves_nothing(model) -> None:
    """Items whose features add up to zero: what v has along (1, 1, 1) changes no choice, and so no share."""
    items = model.items - model.items.mean(axis=1, keepdims=True)
    wild = {
        "pseudo_ideal_mean_": model.fitted["pseudo_ideal_mean_"] + 50.0,
        "pseudo_ideal_covariance_": model.fitted["pseudo_ideal_covariance_"] + 1e4,
    }
    tame, odd = (find_importance(replace(of_law(model, **law), items=items)) for law in ({}, wild))
    for name in ("shares", "steady", "own", "chosen"):
        np.testing.assert_allclose(getattr(odd, name), getattr(tame, name), rtol=1e-6, atol=1e-8)


def test_without_people_there_is_a_sentence_instead(model) -> None:
    people = ("pseudo_ideal_mean_", "pseudo_ideal_covariance_", "pseudo_ideal_points_", "law_draws_")
    alone = replace(model, fitted={name: value for name, value in model.fitted.items() if name not in people})
    with pytest.raises(DataError, match="learns nothing about people"):
        find_importance(alone)
    description = {name: value for name, value in model.description.items() if name != "importance"}
    assert "learns nothing about people" in report_page(replace(alone, description=description))
    nobody = find_importance(of_law(model))
    assert not nobody.has_intervals
    assert "no intervals" in nobody.summary()
    asked = {name: value for name, value in model.fitted.items() if name != "questions_"}
    with pytest.raises(DataError, match="nobody knows which items were asked about"):
        find_importance(replace(model, fitted=asked))


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"covariance": "isotropic"}, "population"),
        ({"covariance": "free", "item_effects": False}, "population-free"),
        ({"covariance": "free", "item_effects": True}, "population-items"),
        ({"covariance": "isotropic", "item_effects": True, "ridge": "evidence"}, "population-items-isotropic"),
        ({"covariance": "free", "rank": 2}, None),
        ({"covariance": "free", "constraint": "symmetric"}, None),
        ({"covariance": "free", "loss": "probit"}, None),
        ({"covariance": "free", "ridge": 3.0}, None),
        ({"subspaces": np.zeros(3)}, "stitched"),
        ({"subspaces": "discover"}, None),
        ({"metric_bound": 3.0}, None),
    ],
)
def test_the_saved_model_is_called_by_the_name_it_was_evaluated_under(parameters, name) -> None:
    assert saved_as("population", parameters) == name
    assert saved_as("taste", {}) == "smooth"


# ---------------------------------------------------------------------------------------------------- page


class Reader(HTMLParser):
    """Collects tags and what would be fetched, and checks that tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag, attributes) -> None:
        self.scripts += tag == "script"
        self.fetched += [v for n, v in attributes if n in ("src", "href", "xlink:href") and not v.startswith("#")]
        if tag not in ("meta", "br", "link", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in ("meta", "br", "link", "input"):
            self.open.pop()

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag


class Evaluation:
    """Stands in for `crowdmetric.evaluate.Evaluation`."""

    splits = ("pairs", "items")
    models = ("linear", "<b>mine</b>")
    saved = "<b>mine</b>"

    def has(self, split, model):
        return split in self.splits and model in self.models

    def difference(self, split, model, other, measure="log_likelihood"):
        return Difference(self.mean(split, model, measure) - self.mean(split, other, measure), 0.01)

    def mean(self, split, model, measure="log_likelihood"):
        return {"accuracy": 0.7, "calibration_slope": 0.8}.get(measure, -0.6 + 0.1 * (model == "linear"))

    def error(self, split, model, measure="log_likelihood"):
        return 0.01

    def findings(self, *, no_distance=None):
        return ["New people: linear predicts better.", "Warning: only popularity.", "Note: slow."]

    def scope(self):
        return ["Evaluated on <b>some</b>."]

    def plot(self, split):
        figure = new_figure(3, 2)
        figure.subplots().plot([0, 1])
        return figure


# What a reader wants to know comes before what it rests on.
ORDER = (
    "Is a learned metric worth using here?",
    "What moves choices",
    "How differences between items add up",
    "How well it predicts",
    "What the metric changed",
    "What these answers can teach",
)


def test_the_page_is_whole_fetches_nothing_and_escapes(model, crowd) -> None:
    evil = '<script>alert("x")</script>'
    named = replace(model, feature_names=[evil, "a & b", "$x_1$"], item_ids=model.item_ids.astype(str).astype(object))
    named.item_ids[:] = [f"<i>{name}" for name in named.item_ids]
    diagnosis = diagnose(crowd.items, crowd.pairs, crowd.users, features=[evil, "b", "c"])
    page = report_page(
        named,
        comparisons=of_crowd(crowd),
        diagnosis=diagnosis,
        evaluation=Evaluation(),
        choices=[evil],
        suggestion=evil,
        files=[f"{evil}.csv", "answers\x1b[31m.csv"],
        date="2026-11-17",
    )
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert reader.fetched == []
    assert reader.scripts == 1  # the map's, which holds no text of the user's
    assert "<i>" not in page
    assert "<b>mine" not in page
    assert "url(" not in re.sub(r"url\(#", "", page)
    assert "@import" not in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert page.count("<svg") == 6  # two of the metric, one per split, and the two maps
    for words in (
        "New people: linear",
        "Only popularity",
        "&lt;script&gt;",
        "prefers-color-scheme",
        "@media print",
    ):
        assert words in page
    assert "linear (best)" in page
    assert "mine&lt;/b&gt; (saved)" in page
    assert page.count('<tr class="saved">') == 2  # one per split
    assert "2026-11-17, crowdmetric" in page
    assert "\x1b" not in page
    places = [page.index(f"<h2>{title}") for title in ORDER]
    assert places == sorted(places)


def test_the_page_is_the_same_every_time_and_stays_out_of_the_way(model, fitted, crowd, tmp_path) -> None:
    answers = of_crowd(crowd)
    assert report_page(model, comparisons=answers) == report_page(model, comparisons=answers)
    for _ in range(2):  # the second replaces a model with its report
        save_model(tmp_path / "m", fitted, report=report_page, overwrite=True)
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["metric.npz", "model.json", "report.html"]
    assert is_model(tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.fitted["integration_"] == fitted.integration_
    np.testing.assert_array_equal(again.estimator().predict_proba(answers), fitted.predict_proba(answers))

    def broken(model) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        save_model(tmp_path / "n", fitted, report=broken)
    assert is_model(tmp_path / "n")  # saved first: no failure of a page loses a fit
    assert not (tmp_path / "n" / "report.html").exists()


def test_a_page_without_pictures_says_why(model, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    page = report_page(model)
    assert page.count("<svg") == page.count('<svg class="map"') == 2  # the maps need no library
    assert "crowdmetric[plots]" in page


def test_one_feature_and_few_items_are_enough(tmp_path, rng) -> None:
    X = rng.standard_normal((6, 1))
    pairs = np.array([(i, j) for i in range(6) for j in range(6) if i != j] * 8)
    users = np.repeat(np.arange(40), 6)
    y = answer(X, pairs, rng.standard_normal((40, 1))[users], np.eye(1), seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotIdentifiedWarning)  # so few people hardly tell the scale
        fitted = PopulationMetric(X, starts=1, ridge=None).fit(pairs, y, users=users)
    page = report_page(save_model(tmp_path / "m", fitted))
    assert "nothing to choose but its scale" in page


# --------------------------------------------------------------------------------------------------- names


def test_items_are_called_by_their_names(model) -> None:
    n = len(model.item_ids)
    names: list[str | None] = [f"<thing {i}>" for i in range(n)]
    names[0] = None
    plain, named = (report_page(model, item_names=what) for what in (None, names))
    assert "&lt;thing 1&gt;" in named
    assert "&lt;thing" not in plain
    rows = re.findall(r"<tr><td>(.*?)</td>", named.split("Nearest items")[1])
    assert rows[:2] == ["0", "&lt;thing 1&gt;"]
    twins = report_page(model, item_names=["twin"] * n)
    assert "twin (1)" in twins
    with pytest.raises(DataError, match=f"item_names has 1 entries, but the model has {n} items"):
        report_page(model, item_names=["alone"])


class Predicted:
    """Stands in for an evaluation in which smooth tastes gain so many nats per answer on each split."""

    def __init__(self, gains: dict[str, float], saved: str | None = "population") -> None:
        self.gains, self.saved = gains, saved
        self.splits, self.models = tuple(gains), ("population", "smooth")

    def difference(self, split: str, model: str, other: str) -> Difference:
        assert (model, other) == ("smooth", "population")
        return Difference(self.gains[split], 0.002)


def test_tastes_are_suggested_where_they_predict_clearly_better() -> None:
    sentence = suggest_tastes(Predicted({"pairs": 0.02, "people": -0.01, "items": 0.001}))
    assert "new questions to known people (+0.020 ± 0.002 nats per answer): people" in sentence
    assert "--estimator taste" in sentence
    assert suggest_tastes(Predicted({"pairs": 0.004, "items": -0.1})) == ""
    assert suggest_tastes(Predicted({"pairs": 0.02}, saved=None)) == ""
    assert suggest_tastes(Predicted({"pairs": 0.02}, saved="smooth")) == ""


def test_every_model_and_every_linked_word_is_explained() -> None:
    assert set(MODELS) | set(SIMILARITY_MODELS) <= set(WORDS)
    glossary = (Path(__file__).parents[1] / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    for here, there in {"90 % interval": "interval", "log-likelihood per answer": "log-likelihood"}.items():
        assert f"\n{there}\n  {WORDS[here]}" in glossary  # one explanation of one word


def test_links_to_words_lead_somewhere(tmp_path) -> None:
    page = report_page(saved_with_items(tmp_path))
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert {"word-share", "word-weight", "word-strength"} <= targets
    assert targets <= set(re.findall(r'id="([^"]+)"', page))


def test_pictures_of_items_are_part_of_the_page(tmp_path) -> None:
    image = pytest.importorskip("PIL.Image")
    model = saved_with_items(tmp_path)
    files = [None] * len(model.item_ids)
    for item in (0, 1):
        files[item] = tmp_path / f"{item}.png"
        image.new("RGBA", (400, 300), (200, 30, 30, 128)).save(files[item])
    files[2] = tmp_path / "broken.png"
    files[2].write_bytes(b"no picture")
    page = report_page(model, item_images=files)
    assert page.count("<image href=") == 4  # both items on both maps
    assert 'class="thumbnail"' in page
    assert len(page) - len(report_page(model)) < 60_000  # small copies
    assert 'src="http' not in page
    assert str(tmp_path) not in page


def saved_with_items(tmp_path) -> SavedModel:
    rng = np.random.default_rng(0)
    items, person = rng.normal(size=(40, 2)), np.repeat(np.arange(300), 4)
    left = rng.integers(40, size=person.size)
    pairs = np.column_stack([left, (left + rng.integers(1, 40, size=person.size)) % 40])
    y = answer(items, pairs, 0.7 * rng.normal(size=(300, 2))[person], np.diag([2.0, 0.5]), seed=1)
    return save_model(tmp_path / "with-items", PopulationMetric(items).fit(pairs, y, users=person))
