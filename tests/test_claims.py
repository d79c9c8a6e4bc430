"""No claim that the answers do not carry: verdicts count people, features that follow from others are named."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from crowdmetric import Comparisons, PopulationMetric
from crowdmetric.cli import main
from crowdmetric.evaluate import Difference, evaluate
from crowdmetric.evaluate.scores import plus_minus
from crowdmetric.evaluate.verdict import FEWEST_PEOPLE, cannot_tell
from crowdmetric.identifiability import diagnose
from crowdmetric.identifiability.relations import linear_relations
from crowdmetric.persist import load_model, save_model, withhold
from crowdmetric.report import report_page
from crowdmetric.report.page_parts import table_of
from crowdmetric.report.quote import quotable
from crowdmetric.report.withheld import why_withheld
from crowdmetric.simulate import simulate_crowd


def flips(people: int, each: int, seed: int) -> tuple[np.ndarray, Comparisons]:
    """Return coin flips about 12 items."""
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(people * each)])
    y = rng.choice([-1, 1], people * each)
    return rng.standard_normal((12, 2)), Comparisons.from_arrays(
        np.repeat(np.arange(people), each), pairs, y, n_items=12
    )


def is_known(text: str) -> bool:
    """Return whether a text is free of numbers that are not known."""
    return not re.search(r"\b(nan|NaN|inf)\b", text)


@pytest.mark.parametrize("seed", range(5))
def test_coin_flips_are_worth_no_claim(seed, tmp_path) -> None:
    items, answers = flips(5, 4, seed)
    found = evaluate(items, answers, ["linear", "population"], repeats=1).of_saved("population")
    assert cannot_tell(found)
    assert is_known(found.summary())
    assert "hidden answers of 5 people" in found.summary()
    assert is_known(json.dumps(found.to_dict(), allow_nan=False))
    fitted = PopulationMetric(items, starts=1, uncertainty=False).fit(answers)
    page = report_page(save_model(tmp_path / "m", fitted), comparisons=answers, evaluation=found)
    assert is_known(page)
    assert "do not carry a claim" in page
    assert "Only 5 people answered" in page
    for claim in ("To quote", "Of 100", "What moves", "worth using", "share", "strength"):
        assert claim not in page.partition("What was measured")[0], claim


def test_a_verdict_that_cannot_tell_withholds_claims_and_says_how_many_people_would_tell(tmp_path) -> None:
    items, answers = flips(60, 3, 0)
    found = evaluate(items, answers, ["linear", "population"], repeats=1, splits=["pairs"]).of_saved("population")
    assert cannot_tell(found)
    reasons = why_withheld(answers, found)
    assert reasons == ["These answers cannot tell whether the learned metric is worth using for prediction."]
    model = save_model(tmp_path / "m", PopulationMetric(items, starts=1, uncertainty=False).fit(answers))
    assert quotable(model, found) == [] or not any("Of 100" in text for text in quotable(model, found))
    model = withhold(tmp_path / "m", model, reasons)
    assert load_model(tmp_path / "m").description["withheld"] == reasons
    assert "do not carry a claim" in load_model(tmp_path / "m").summary()
    assert "share" not in model.summary()
    page = report_page(model, comparisons=answers, evaluation=found)
    assert re.search(r"About [\d,]+ people with 3 answers each, now 60, would tell", page)


def test_intervals_count_people() -> None:
    assert FEWEST_PEOPLE == 10
    # a difference of 2.1 standard errors is clear of a thousand people, not of ten, and never of nine
    found = [Difference(0.021, 0.01, people=people).is_clear for people in (1000, 10, 9)]
    assert found == [True, False, False]
    assert Difference(0.03, 0.01, people=10).is_clear
    assert not Difference(0.0, 0.0, people=9).is_within(0.005)
    assert not Difference(0.03, float("nan"), people=1).is_clear
    # four times the people halve the error
    assert Difference(0.01, 0.01, people=50).people_to_tell() == 200
    assert Difference(0.0, 0.01, people=50).people_to_tell() == 542  # HALF · 0.01 / 0.005, squared
    assert Difference(0.03, float("nan"), people=1).people_to_tell() is None


def test_what_is_not_known_is_left_out() -> None:
    assert plus_minus(0.5, float("nan")) == "0.5000"
    assert plus_minus(0.5, 0.25, sign="+", digits=2) == "+0.50 ± 0.25"
    table = table_of(["model", "a", "b"], [["nan", "0.5 ± nan", "nan %"]], (1, 2))
    assert "<td>nan</td>" in table  # a name
    assert '<td class="number">0.5</td><td class="number"></td>' in table


def related(columns: list[np.ndarray], names: str) -> list[str]:
    return [relation.sentence for relation in linear_relations(np.column_stack(columns), names.split())]


def test_features_that_follow_from_others_are_named() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 40))
    assert related([a, b, c], "a b c") == []
    assert related([a, b, a + b], "price size total") == ["total is price + size: drop one"]
    assert related([a + b, a, b], "total price size") == ["total is price + size: drop one"] or related(
        [a + b, a, b], "total price size"
    ) == ["total is size + price: drop one"]
    assert related([a, 1.8 * a + 32], "celsius fahrenheit") == ["fahrenheit is 1.8 × celsius + 32: drop one"]
    assert related([a, -a], "a minus") == ["minus is −a: drop one"]
    assert related([a, b, a + b + 0.05 * c], "p s total")[0].startswith("total is nearly ")
    assert related([a, b, np.ones(40)], "a b constant") == []
    kinds = np.eye(3)[np.arange(40) % 3]
    (found,) = linear_relations(np.column_stack([kinds, a]), ["red", "green", "blue", "a"])
    assert found.clause == "blue is 1 − red − green"
    assert found.is_category
    assert not found.leaves_open
    (found,) = linear_relations(rng.standard_normal((5, 8)), list("abcdefgh"))
    assert "5 different items" in found.sentence
    assert not found.leaves_open  # predictions can be good all the same


def test_a_total_of_other_features_is_said_before_the_fit_and_withholds_claims(tmp_path: Path, capsys) -> None:
    crowd = simulate_crowd(2, None, None, users=60, comparisons=5, seed=0)
    items = np.column_stack([crowd.items, crowd.items.sum(axis=1)])
    answers = Comparisons.from_arrays(crowd.users, crowd.pairs, crowd.y, n_items=len(items))
    said = diagnose(items, answers, features=["price", "size", "total"]).summary()
    assert "Total is price + size: drop one." in said
    rows = "".join(f"{n},{x[0]!r},{x[1]!r},{x[2]!r}\n" for n, x in enumerate(items.tolist()))
    (tmp_path / "items.csv").write_text(f"item_id,price,size,total\n{rows}")
    answers.write(tmp_path / "answers.csv")
    tables = [str(tmp_path / "items.csv"), str(tmp_path / "answers.csv")]
    assert main(["fit", *tables, "--out", str(tmp_path / "m"), "--no-evaluate", "--json", "--starts", "1"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert "total is price + size: drop one" in printed.err
    assert found["withheld"] == [
        "Total is price + size: drop one, and fit again. No answers can say which of them matters."
    ]
    assert found["coefficients"] is None
    assert not any("degrees of freedom" in text for text in found["cautions"])
    page = (tmp_path / "m" / "report.html").read_text(encoding="utf-8")
    assert "Total is price + size: drop one" in page
    assert "To quote" not in page
    assert "degrees of freedom" not in page
