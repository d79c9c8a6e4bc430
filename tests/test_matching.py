"""Answers are matched to items by id: wherever a table meets items, in any order, or one sentence says why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import cross_val_score, cross_validate

from crowdmetric import (
    Comparisons,
    IdealPointMetric,
    Judgements,
    MatchedMetric,
    PopulationMetric,
    SimilarityMetric,
    StitchedMetric,
    TasteMetric,
)
from crowdmetric.agreement import agreement
from crowdmetric.design import LiveDesign, design, next_questionnaire
from crowdmetric.design.judgement_plan import design_judgements, plan_judgements
from crowdmetric.errors import DataError
from crowdmetric.evaluate import evaluate, evaluate_similarity
from crowdmetric.identifiability import diagnose
from crowdmetric.identifiability.judgement_diagnosis import diagnose_judgements
from crowdmetric.intervals import closer, distances
from crowdmetric.locate import locate
from crowdmetric.persist import load_model, save_model
from crowdmetric.simulate_judgements import simulate_judgements
from crowdmetric.tables import Items, read_items

pytestmark = pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")

RNG = np.random.default_rng(0)
# text order i0, i1, i10, i11, …, i2 is not that of the rows
N, IDS = 14, np.array([f"i{row}" for row in range(14)])
X = RNG.normal(size=(N, 2))
USERS = np.repeat(np.arange(120), 4)
PAIRS = np.array([RNG.choice(N, 2, replace=False) for _ in USERS])
POINTS = RNG.normal(size=(120, 2))[USERS]
PSI = sum(
    sign * np.sum(np.array([3.0, 0.5]) * (X[PAIRS[:, side]] - POINTS) ** 2, axis=1) for side, sign in ((0, 1), (1, -1))
)
Y = np.where(RNG.random(len(PSI)) < 1 / (1 + np.exp(-PSI)), 1, -1)
ITEMS = pd.DataFrame(X, index=IDS, columns=["sweet", "hard"])
ANSWERS = pd.DataFrame(
    {"user": USERS, "left": IDS[PAIRS[:, 0]], "right": IDS[PAIRS[:, 1]], "choice": np.where(Y < 0, "left", "right")}
)
SHUFFLED = ITEMS.sample(frac=1, random_state=1)
JUDGED = simulate_judgements(X, None, 300, people=3, seed=0).judgements
TRIPLETS = pd.DataFrame(JUDGED.columns())
for name in ("anchor", "left", "right"):
    TRIPLETS[name] = IDS[TRIPLETS[name]]

NAMED_ITEMS: dict[str, Any] = {
    "pandas index": ITEMS,
    "pandas column": ITEMS.reset_index(names="item_id"),
    "polars": pl.DataFrame({"hard_name": X[:, 0], "id": IDS, "b": X[:, 1]}),
    "Items": read_items(ITEMS),
    "shuffled": SHUFFLED,
}
TABLES: dict[str, Any] = {
    "pandas": ANSWERS,
    "polars": pl.DataFrame({name: ANSWERS[name].to_numpy() for name in ANSWERS}),
    "read without items": Comparisons.from_table(ANSWERS),
    "read with items": Comparisons.from_table(ANSWERS, items=ITEMS),
    "read with more items": Comparisons.from_table(ANSWERS, item_ids=["other", *IDS[::-1]]),
    "row numbers": Comparisons.from_arrays(USERS, PAIRS, Y, n_items=N),
}
ESTIMATORS: dict[str, Callable[[Any], Any]] = {
    "population": lambda items: PopulationMetric(items, starts=1, uncertainty=False),
    "ideal": lambda items: IdealPointMetric(items, metric_bound=5.0, ideal_bound=3.0),
    "stitched": lambda items: StitchedMetric(items, subspaces=[np.eye(2)], metric_bound=5.0, ideal_bound=3.0),
    "taste": lambda items: TasteMetric(items, structure="diagonal", shape="matern52", uncertainty=False),
}


@pytest.mark.parametrize(
    ("items", "table"),
    [
        *((items, "read without items") for items in NAMED_ITEMS),
        *(("shuffled", name) for name in TABLES if name != "row numbers"),
    ],
)
def test_answers_find_their_items_by_id(items: str, table: str) -> None:
    expected = PopulationMetric(X, starts=1, uncertainty=False).fit(PAIRS, Y, users=USERS)
    found = ESTIMATORS["population"](NAMED_ITEMS[items]).fit(TABLES[table])
    np.testing.assert_allclose(found.metric_, expected.metric_, rtol=1e-5)
    np.testing.assert_allclose(
        found.predict_proba(TABLES[table])[:9], expected.predict_proba(PAIRS, USERS)[:9], rtol=1e-4
    )
    assert found.score(TABLES[table]) == expected.score(PAIRS, Y, users=USERS)
    assert set(found.item_ids) == set(IDS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_keeps_ids(name: str) -> None:
    expected = ESTIMATORS[name](X).fit(PAIRS, Y, users=USERS)
    found = ESTIMATORS[name](ITEMS).fit(TABLES["read without items"])
    np.testing.assert_array_equal(found.metric_, expected.metric_)
    for asked in (ANSWERS[:5], ANSWERS[["left", "right", "user"]][:5], TABLES["read without items"].take(range(5))):
        np.testing.assert_array_equal(found.predict(asked), expected.predict(PAIRS[:5], users=USERS[:5]))
    np.testing.assert_array_equal(found.decision_function(IDS[PAIRS[:5]]), expected.decision_function(PAIRS[:5]))
    assert clone(found).items is ITEMS
    with pytest.raises(DataError, match="items such as 'i0', but items has no ids"):
        ESTIMATORS[name](X).fit(TABLES["read without items"])


def test_labels_of_items_are_matched_too() -> None:
    line = np.arange(N) % 3
    axes = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    corners = pd.DataFrame(axes[line] * X[:, :1], index=IDS)
    labels = pd.Series(np.array(["a", "b", "c"])[line], index=IDS)
    within: dict[str, Any] = {"people": 60, "answers": 2, "kind": "within", "rank": 1, "seed": 0}
    asked = [design(corners, subspaces=series, **within).columns()["left"] for series in (labels, labels[::-1])]
    np.testing.assert_array_equal(*asked)
    pairs = np.array([np.flatnonzero(line == person % 3)[[0, 1 + k % 3]] for k, person in enumerate(USERS)])
    inside = Comparisons.from_arrays(USERS, IDS[pairs], Y, item_ids=IDS)
    model = StitchedMetric(corners, subspaces=labels[::-1], rank=1, metric_bound=5.0, ideal_bound=3.0).fit(inside)
    assert model.n_across_ == 0
    with pytest.raises(DataError, match="subspaces has nothing for item 'i13'"):
        model.set_params(subspaces=labels[:13]).fit(inside)


def test_matched_questions_find_their_items() -> None:
    pairs = np.array([[0, 1], [2, 3]] * 30)
    corners = np.vstack([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0], [3.0, 1.0]])
    items = pd.DataFrame(corners, index=["d", "c", "b", "a"], columns=["x", "y"])
    users, y = np.repeat(np.arange(30), 2), np.tile([1, -1, -1, 1], 15)
    expected = MatchedMetric(corners, ridge=1.0).fit(pairs, y, users=users)
    named = Comparisons.from_arrays(users, items.index.to_numpy()[pairs], y)
    np.testing.assert_array_equal(MatchedMetric(items, ridge=1.0).fit(named).metric_, expected.metric_)


def test_similarity_judgements_find_their_items() -> None:
    options: dict[str, Any] = {"structure": "full", "uncertainty": False}
    expected = SimilarityMetric(X, **options).fit(JUDGED)
    for items in (ITEMS, SHUFFLED):
        for table in (TRIPLETS, Judgements.from_table(TRIPLETS)):
            found = SimilarityMetric(items, **options).fit(table)
            np.testing.assert_allclose(found.metric_, expected.metric_, rtol=1e-6)
        questions = TRIPLETS[["anchor", "left", "right"]]
        np.testing.assert_allclose(found.predict_proba(questions), expected.predict_proba(JUDGED.items), rtol=1e-5)
        np.testing.assert_array_equal(found.predict(IDS[JUDGED.items]), expected.predict(JUDGED.items))
        assert found.score(TRIPLETS) == expected.score(JUDGED)
    with pytest.raises(DataError, match="the judgements name items such as 'i0', but items has no ids"):
        SimilarityMetric(X).fit(Judgements.from_table(TRIPLETS))


@pytest.mark.parametrize("answers", [ANSWERS, TABLES["read without items"]], ids=["frame", "Comparisons"])
def test_what_surrounds_a_fit_matches_too(answers: Any) -> None:
    assert diagnose(SHUFFLED, answers).rank == diagnose(X, TABLES["row numbers"]).rank
    found = evaluate(SHUFFLED, answers, ["identity"], splits=["people"], repeats=1)
    same = evaluate(X, TABLES["row numbers"], ["identity"], splits=["people"], repeats=1)
    assert found.results[0].log_likelihood.sum() == pytest.approx(same.results[0].log_likelihood.sum(), abs=0.1)


def test_the_next_questions_are_about_named_items() -> None:
    few = TABLES["read without items"].take(range(80))
    assert set(next_questionnaire(SHUFFLED, few, people=5).columns()["left"]) <= set(IDS)
    assert set(design(ITEMS, people=5, kind="random").columns()["left"]) <= set(IDS)
    assert set(design_judgements(ITEMS, 5, way="random").columns()["left"]) <= set(IDS)
    assert set(np.ravel(LiveDesign(ITEMS).ask().pairs)) <= set(IDS)


def test_what_surrounds_judgements_matches_too() -> None:
    named = Judgements.from_table(TRIPLETS)
    found, same = diagnose_judgements(SHUFFLED, named), diagnose_judgements(X, JUDGED)
    assert found.smallest == pytest.approx(same.smallest)
    expected = plan_judgements(X, JUDGED, np.eye(2)).error
    assert plan_judgements(SHUFFLED, named, np.eye(2)).error == pytest.approx(expected)
    accuracy = [
        evaluate_similarity(items, table, ["euclid"], splits=["people"], folds=2).result("people", "euclid").accuracy
        for items, table in ((SHUFFLED, named), (X, JUDGED))
    ]
    assert accuracy[0] == accuracy[1]


def test_located_people_and_intervals_take_ids() -> None:
    plain = PopulationMetric(X, starts=1).fit(PAIRS[:200], Y[:200], users=USERS[:200])
    named = PopulationMetric(ITEMS, starts=1).fit(ANSWERS[:200])
    assert closer(named, "i3", "i10", "i2").probability == closer(plain, 3, 10, 2).probability
    assert distances(named, [["i3", "i10"]]).low == distances(plain, [[3, 10]]).low
    assert named.pair_distance([["i3", "i10"]]) == plain.pair_distance([[3, 10]])
    here, there = locate(named, ANSWERS[:8]), locate(plain, PAIRS[:8], Y[:8], users=USERS[:8])
    np.testing.assert_array_equal(here.probability([["i3", "i10"]]), there.probability([[3, 10]]))


def test_a_saved_model_knows_its_items(tmp_path: Path) -> None:
    model = ESTIMATORS["population"](SHUFFLED).fit(ANSWERS)
    saved = save_model(tmp_path / "model", model)
    assert saved.item_ids.tolist() == SHUFFLED.index.tolist()
    again = load_model(tmp_path / "model").estimator()
    np.testing.assert_array_equal(again.predict_proba(ANSWERS), model.predict_proba(ANSWERS))
    np.testing.assert_array_equal(again.item_ids, model.item_ids)


def test_both_kinds_of_answers_are_about_the_same_items() -> None:
    named = Judgements.from_table(TRIPLETS)
    joint = ESTIMATORS["population"](SHUFFLED).fit(TABLES["read without items"], judgements=named)
    same = ESTIMATORS["population"](X).fit(TABLES["row numbers"], judgements=JUDGED)
    assert joint.judgement_scale_ == pytest.approx(same.judgement_scale_, rel=1e-3)
    backwards = Judgements.from_table(TRIPLETS, item_ids=IDS[::-1])
    with pytest.raises(DataError, match="list the items in different orders"):
        PopulationMetric(X, starts=1).fit(TABLES["read with items"], judgements=backwards)


def test_metrics_agree_by_the_names_of_features() -> None:
    first, second = (
        SimilarityMetric(ITEMS[names], structure="full").fit(TRIPLETS)
        for names in (["sweet", "hard"], ["hard", "sweet"])
    )
    with pytest.raises(DataError, match="in one order"):
        agreement(first, second)


NUMBERED = pd.DataFrame(X, index=np.arange(N)[::-1], columns=["sweet", "hard"])
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "unknown": (ITEMS[:9], TABLES["read without items"], "name 5 items that are not among the 9 items, first 'i10'"),
    "other kind": (NUMBERED, TABLES["read with items"], "name items like 'i0', but the ids of the items are like 13"),
    "numbers for text": (ITEMS, ANSWERS.assign(left=PAIRS[:, 0], right=PAIRS[:, 1]), "nothing is guessed"),
    "either": (NUMBERED, Comparisons.from_arrays(USERS, PAIRS, Y), "may be row numbers or the ids"),
    "answers twice": (ITEMS, (ANSWERS, Y), "the table has a column 'choice', and y was given too"),
    "people twice": (ITEMS, (ANSWERS[["user", "left", "right"]], Y, USERS), "a column 'user', and users was given too"),
    "judgements": (ITEMS, TRIPLETS, "has a column 'anchor'.*Judgements.from_table"),
    "text": (
        ITEMS,
        (np.where(IDS[PAIRS] == "i3", "i99", IDS[PAIRS]), Y, USERS),
        "'i99', which is not the id of an item",
    ),
    "text without ids": (X, (IDS[PAIRS], Y, USERS), "names items like 'i.*but the items have no ids"),
    "two rows of one id": (pd.concat([ITEMS, ITEMS]), ANSWERS, "item ids must differ"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_matched_is_refused(case: str) -> None:
    items, given, sentence = REFUSED[case]
    with pytest.raises(DataError, match=sentence):
        PopulationMetric(items).fit(*(given if isinstance(given, tuple) else (given,)))


def test_numbers_are_ids_where_only_that_is_possible() -> None:
    ids = np.arange(100, 100 + N)
    items = pd.DataFrame(X[::-1], index=ids[::-1], columns=["sweet", "hard"])
    found = ESTIMATORS["population"](items).fit(Comparisons.from_arrays(USERS, ids[PAIRS], Y))
    expected = ESTIMATORS["population"](X).fit(PAIRS, Y, users=USERS)
    np.testing.assert_allclose(found.metric_, expected.metric_, rtol=1e-5)
    # a frame turned round keeps the numbers of its rows as ids
    turned = pd.DataFrame(X, columns=["sweet", "hard"])[::-1]
    answers = pd.DataFrame({"user": USERS, "left": PAIRS[:, 0], "right": PAIRS[:, 1], "response": Y})
    np.testing.assert_allclose(ESTIMATORS["population"](turned).fit(answers).metric_, expected.metric_, rtol=1e-5)
    np.testing.assert_array_equal(ESTIMATORS["population"](pd.DataFrame(X)).fit(answers).metric_, expected.metric_)


def test_a_scan_must_number_the_items_alike(tmp_path: Path) -> None:
    ANSWERS.to_csv(tmp_path / "answers.csv", index=False)
    scan = Comparisons.scan_csv(tmp_path / "answers.csv", items=ITEMS)
    # (without the correction by random points, whose noise depends on how people are laid out)
    here, there = (ESTIMATORS["population"](items).set_params(integration="propagation") for items in (X, ITEMS))
    expected = here.fit(TABLES["row numbers"])
    np.testing.assert_allclose(there.fit(scan).metric_, expected.metric_, rtol=1e-5)
    for use in (lambda: ESTIMATORS["population"](SHUFFLED).fit(scan), lambda: diagnose(SHUFFLED, scan)):
        with pytest.raises(DataError, match="numbers items in another order"):
            use()


# ------------------------------------------------------------------------------------------- how y is written

WRITTEN: dict[str, Any] = {
    "signs": Y, "floats": Y.astype(float), "0 and 1": (Y > 0).astype(int), "booleans": Y > 0,
    "a list of booleans": (Y > 0).tolist(), "words": np.where(Y > 0, "right", "left"),
    "series of words": pd.Series(np.where(Y > 0, "Right", " left")), "objects": (Y > 0).astype(object),
}  # fmt: skip


@pytest.mark.parametrize("way", WRITTEN)
def test_y_is_read_as_it_is_written(way: str) -> None:
    expected = ESTIMATORS["ideal"](X).fit(PAIRS, Y, users=USERS)
    found = ESTIMATORS["ideal"](X).fit(PAIRS, WRITTEN[way], users=USERS)
    np.testing.assert_array_equal(found.metric_, expected.metric_)
    predicted, signs = found.predict(PAIRS[:20]), expected.predict(PAIRS[:20])
    np.testing.assert_array_equal(predicted == found.classes_[1], signs > 0)
    assert found.score(PAIRS, WRITTEN[way], users=USERS) == expected.score(PAIRS, Y, users=USERS)


def test_answers_that_are_all_alike_are_scored_as_the_fit_was_given_them() -> None:
    model = ESTIMATORS["ideal"](X).fit(PAIRS, WRITTEN["0 and 1"], users=USERS)
    left = Y < 0
    assert model.score(PAIRS[left], np.zeros(left.sum(), dtype=int)) == model.score(PAIRS[left], Y[left])
    with pytest.raises(DataError, match="y holds 0, where 0 may mean left or a tie"):
        clone(model).fit(PAIRS[left], np.zeros(left.sum(), dtype=int), users=USERS[left])


@pytest.mark.parametrize("way", ["signs", "0 and 1", "booleans", "words"])
def test_scikit_learn_scores_what_was_given(way: str) -> None:
    """A scorer compares predictions with y as it was written."""
    with config_context(enable_metadata_routing=True):
        model, given = ESTIMATORS["ideal"](X).set_fit_request(users=True), {"users": USERS}
        accuracy = [cross_val_score(model, PAIRS, y, params=given, cv=2, scoring="accuracy") for y in (Y, WRITTEN[way])]
    np.testing.assert_array_equal(*accuracy)


def test_cross_validation_of_frames() -> None:
    y, users, sides = pd.Series(Y), pd.Series(USERS), ANSWERS[["left", "right"]]
    with config_context(enable_metadata_routing=True):
        model = ESTIMATORS["ideal"](ITEMS).set_fit_request(users=True).set_score_request(users=True)
        found = cross_validate(model, sides, y, params={"users": users}, cv=2)["test_score"]
        plain = clone(model).set_params(items=X)
        expected = cross_validate(plain, PAIRS, Y, params={"users": USERS}, cv=2)["test_score"]
    np.testing.assert_array_equal(found, expected)


def test_items_transform_without_their_ids() -> None:
    model = ESTIMATORS["ideal"](read_items(ITEMS)).fit(ANSWERS)
    column = ITEMS.reset_index(names="item_id")
    for items in (ITEMS, column, read_items(ITEMS)):
        np.testing.assert_allclose(model.transform(items), X @ model.components_.T)
    assert repr(model).startswith("IdealPointMetric(ideal_bound=3.0, items=<14 × 2>")
    other: Items = replace_names(read_items(ITEMS))
    with pytest.raises(DataError, match="but the fit had"):
        model.transform(other)


def replace_names(items: Items) -> Items:
    return items._replace(feature_names=items.feature_names[::-1])


def test_where_ids_come_from_survives() -> None:
    found = TABLES["read without items"]
    assert found.ids_are == found.take(range(3)).ids_are == replace(found, weight=found.weight).ids_are == "found"
    assert TABLES["row numbers"].ids_are == "rows"
    assert Judgements.from_table(TRIPLETS).merged().take(range(3)).ids_are == "found"
