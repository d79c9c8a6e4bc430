"""The sentences of the report that somebody can quote."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from crowdmetric import PopulationMetric
from crowdmetric.evaluate import Difference
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

    def difference(self, split, model, other, measure="log_likelihood"):
        gain = self.mean(split, model, measure) - self.mean(split, other, measure)
        return Difference(gain, 0.01, answers=240, people=80)

    def mean(self, split, model, measure="log_likelihood"):
        assert split == "people"
        if measure == "accuracy":
            return {"population": 0.712, "linear": 0.655, "bradley-terry": 0.664}[model]
        return {"population": -0.55, "linear": -0.61, "bradley-terry": -0.62}[model]


def test_it_says_who_what_and_how_well(tmp_path) -> None:
    model = saved(tmp_path)
    texts = quotable(model, Evaluated())
    assert any(text.startswith("What moves their choices most is ") for text in texts)
    # the best baseline is the one of the highest likelihood, as in all other sentences
    assert texts[-1] == (
        "Of 100 choices of new people, the model predicts 71 (the best prediction without a learned metric, by tastes "
        "for more or less of each feature: 66; 240 hidden answers of 80 people)."
    )
    page = quote_section(model, Evaluated(), None)
    assert "&lt;sweet&gt;" in page
    assert "<sweet>" not in page


class Unclear(Evaluated):
    """Known people's answers do not tell, those of new people do."""

    splits = ("pairs", "people")

    def mean(self, split, model, measure="log_likelihood"):
        return super().mean("people", model, measure)

    def difference(self, split, model, other, measure="log_likelihood"):
        return replace(super().difference(split, model, other, measure), error=0.01 if split == "people" else 0.5)


def test_what_hidden_answers_do_not_tell_is_not_quoted(tmp_path) -> None:
    model = saved(tmp_path)
    assert [text for text in quotable(model, Unclear()) if text.startswith("Of 100 choices of new people")]
    assert not [text for text in quotable(model, Unclear()) if text.startswith("Of 100 new choices of the same")]
    assert not any("Of 100" in text for text in quotable(model, Unclear(splits=("pairs",))))


def test_nothing_is_quoted_of_pairs_that_were_cut_from_something_else(tmp_path) -> None:
    model = saved(tmp_path)
    assert quotable(replace(model, fitted=model.fitted | {"made_of_": "choices"}), Evaluated()) == []
    assert quotable(replace(model, description=model.description | {"withheld": ["Too few."]}), Evaluated()) == []


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
