"""The sentences of the report that somebody can quote."""

from __future__ import annotations

from types import SimpleNamespace

from crowdmetric import PopulationMetric
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


def test_without_an_evaluation_nothing_is_claimed(tmp_path) -> None:
    assert not any("predicts" in text for text in quotable(saved(tmp_path)))
