"""The sentences of the report that somebody can quote."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from crowdmetric import Comparisons, PopulationMetric
from crowdmetric.importance import feature_importance
from crowdmetric.persist import SavedModel, save_model
from crowdmetric.report.quote import quotable, quote_section
from crowdmetric.simulate import simulate_crowd


def saved(tmp_path) -> SavedModel:
    crowd = simulate_crowd(2, None, None, users=300, comparisons=3, seed=0)
    fitted = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    return save_model(tmp_path / "model", fitted, feature_names=["<sweet>", "bitter"])


class Evaluated(SimpleNamespace):
    splits = ("people", "items")
    models = ("bradley-terry", "linear", "population")
    saved = "population"

    def mean(self, split, model, measure="log_likelihood"):
        assert split == "people"
        if measure == "accuracy":
            return {"population": 0.712, "linear": 0.655, "bradley-terry": 0.664}[model]
        return {"population": -0.55, "linear": -0.61, "bradley-terry": -0.62}[model]


class Measured(SimpleNamespace):
    def mean(self, split, model, measure="log_likelihood"):
        return 0.7 if measure == "accuracy" else -0.6


def test_it_says_who_what_and_how_well(tmp_path) -> None:
    model = saved(tmp_path)
    texts = quotable(model, Evaluated())
    assert any(text.startswith("What moves their choices most is ") for text in texts)
    # the best baseline is the one of the highest likelihood, as in all other sentences
    assert texts[-1] == (
        "Of 100 choices of new people, the model predicts 71 (the best prediction without a learned metric, by tastes "
        "for more or less of each feature: 66)."
    )
    page = quote_section(model, Evaluated(), None)
    assert "&lt;sweet&gt;" in page
    assert "<sweet>" not in page


def test_answers_that_follow_from_each_other_are_no_feat_to_quote(tmp_path) -> None:
    left, right = np.triu_indices(6, 1)
    pairs, users = np.tile(np.column_stack([left, right]), (9, 1)), np.repeat(np.arange(9), left.size)
    worth = np.random.default_rng(0).standard_normal((9, 6))
    y = np.where(worth[users, pairs[:, 1]] > worth[users, pairs[:, 0]], 1, -1)
    evaluated = Measured(splits=("pairs", "people", "items"), models=("linear", "population"), saved="population")

    model = saved(tmp_path)

    def predicted(y: np.ndarray) -> list[str]:
        answers = Comparisons.from_arrays(users, pairs, y, n_items=6)
        return [text.split(",")[0] for text in quotable(model, evaluated, answers) if text.startswith("Of 100 ")]

    assert predicted(y) == ["Of 100 choices of new people", "Of 100 choices about new items"]
    y[::4] *= -1
    assert predicted(y) == ["Of 100 new choices of the same people"]


def test_it_is_no_surer_than_the_answers(tmp_path) -> None:
    model = saved(tmp_path)
    tied = replace(feature_importance(model), first_place=np.array([0.6, 0.4]), low=np.full(2, 0.1))
    unsure = replace(model, description=model.description | {"importance": tied.to_dict()})
    assert re.search(
        r"What moves their choices most is (probably|perhaps) \S+ \(\d+ %; first with a probability of [46]0 %\)",
        " ".join(quotable(unsure)),
    )


def test_it_does_not_claim_what_the_answers_hardly_tell(tmp_path, monkeypatch) -> None:
    model = saved(tmp_path)
    unknown = replace(feature_importance(model), low=np.zeros(2))
    monkeypatch.setattr("crowdmetric.report.quote.feature_importance", lambda *_: unknown)
    texts = quotable(model)
    assert "These answers hardly tell what moves their choices." in texts
    assert not any("most" in text for text in texts)


def test_without_an_evaluation_nothing_is_claimed(tmp_path) -> None:
    assert not any("predicts" in text for text in quotable(saved(tmp_path)))
