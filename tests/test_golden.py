"""Golden cases that every clone has: results of other solvers (`tests/golden/make.py`), compared with the library's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdmetric.estimators import IdealPointMetric, MatchedMetric
from crowdmetric.estimators.similarity import SimilarityMetric
from crowdmetric.judgements import Judgements
from crowdmetric.losses import Logistic
from crowdmetric.stitch import stitch
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.population_sums import Law, blocks_of, integrate

FOLDER = Path(__file__).parent / "golden"


def case(name: str) -> dict[str, Any]:
    """Return a case, its lists as arrays."""
    found = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return {key: np.array(value) if isinstance(value, list) else value for key, value in found.items()}


def test_the_joint_program_has_the_optimum_that_cvxpy_finds() -> None:
    g = case("joint")
    model = IdealPointMetric(g["items"], metric_bound=g["metric_bound"], ideal_bound=g["ideal_bound"], tol=1e-10)
    model.fit(g["pairs"], g["y"], users=g["users"])
    assert model.objective_ == pytest.approx(g["objective"], abs=1e-8)
    np.testing.assert_allclose(model.metric_, g["metric"], rtol=0, atol=1e-4)


def test_the_hinge_has_the_optimum_that_cvxpy_finds() -> None:
    g = case("hinge")
    bounds = {"metric_bound": g["metric_bound"], "ideal_bound": g["ideal_bound"], "norm": "nuclear"}
    model = IdealPointMetric(g["items"], loss="hinge", tol=1e-9, **bounds).fit(g["pairs"], g["y"], users=g["users"])
    assert model.objective_ == pytest.approx(g["objective"], abs=1e-7)  # its metric need not be unique


def test_unquantized_answers_have_the_metric_that_least_squares_finds() -> None:
    g = case("exact")
    model = IdealPointMetric(g["items"], loss="squared").fit(g["pairs"], g["psi"], users=g["users"])
    np.testing.assert_allclose(model.metric_, g["metric"], rtol=0, atol=1e-9)


def test_stitching_is_the_least_squares_of_all_entries() -> None:
    g = case("stitched")
    np.testing.assert_allclose(stitch(g["bases"], g["metrics"], method="ols", psd=False), g["metric"], atol=1e-10)


def test_stitching_survives_outliers_as_cvxpy_does() -> None:
    g = case("huber")
    np.testing.assert_allclose(stitch(g["bases"], g["metrics"], method="huber", psd=False), g["metric"], atol=1e-5)


def test_matched_pairs_are_a_logistic_regression() -> None:
    g = case("matched")
    model = MatchedMetric(g["items"], constraint="symmetric", ridge=g["ridge"], tol=1e-12)
    model.fit(g["pairs"], g["y"], users=g["users"])
    assert model.n_used_sets_ == g["used"]
    np.testing.assert_allclose(model.metric_, g["metric"], rtol=0, atol=1e-6)


def test_the_scale_of_euclidean_distance_is_that_of_one_parameter() -> None:
    g = case("similarity")
    judgements = Judgements.from_triplets(g["triplets"], counts=g["counts"], n_items=len(g["items"]))
    model = SimilarityMetric(g["items"], structure="identity").fit(judgements)
    # the weak limit of noise, which keeps sizes finite, takes a little off
    np.testing.assert_allclose(model.metric_, g["scale"] * np.eye(2), rtol=0.01, atol=1e-12)
    assert g["log_likelihood"] - 2e-3 < model.log_likelihood_ <= g["log_likelihood"] + 1e-9


def test_the_population_likelihood_is_that_of_adaptive_quadrature() -> None:
    g = case("population")
    people, one = g["users"], np.zeros(len(g["y"]), dtype=np.intp)
    answers = Answers(g["items"], g["pairs"], g["y"].astype(float), np.ones(len(one)), people, one, 1)
    law = Law(g["metric"], g["mean"], g["covariance"])
    blocks = blocks_of(arrange(answers))
    total = sum(float(integrate(block, law, Logistic()).value.sum()) for block in blocks)
    assert total == pytest.approx(g["log_likelihood"], abs=1e-6)
