"""Whether the metric of one kind of answers is that of another."""

from __future__ import annotations

import numpy as np
import pytest

from crowdmetric import PopulationMetric, SimilarityMetric
from crowdmetric.agreement import agreement
from crowdmetric.errors import DataError
from crowdmetric.simulate import simulate_crowd
from crowdmetric.simulate_judgements import simulate_judgements


def fit(metric, seed: int, beta: float = 1.0) -> SimilarityMetric:
    X = np.random.default_rng(0).standard_normal((40, 3))
    study = simulate_judgements(X, None, 3000, metric=metric, beta=beta, seed=seed)
    return SimilarityMetric(X, structure="full").fit(study.judgements)


def test_equal_metrics_are_told_apart_as_often_as_the_level_says() -> None:
    M = np.array([[1.0, 0.3, 0.0], [0.3, 0.7, 0.1], [0.0, 0.1, 0.4]])
    found = [agreement(fit(M, 2 * seed), fit(M, 2 * seed + 1, beta=0.5)) for seed in range(40)]
    p = np.array([one.p_value for one in found])
    assert found[0].degrees_of_freedom == 5
    assert np.mean(p < 0.2) == pytest.approx(0.2, abs=0.18)
    assert np.mean([one.scale for one in found]) == pytest.approx(0.5, rel=0.1)


def test_different_metrics_are_told_apart() -> None:
    found = agreement(fit(np.diag([1.0, 0.5, 0.2]), 0), fit(np.diag([0.2, 0.5, 1.0]), 1))
    assert found.p_value < 1e-6
    assert "differ in shape" in found.summary()


def test_preferences_and_judgements_of_one_metric_agree() -> None:
    crowd = simulate_crowd(3, None, None, users=2000, comparisons=3, seed=0)
    chosen = PopulationMetric(crowd.items, starts=1).fit(crowd.pairs, crowd.y, users=crowd.users)
    study = simulate_judgements(crowd.items[:60], None, 4000, metric=crowd.metric, beta=1.0, seed=1)
    compared = SimilarityMetric(study.items, structure="full").fit(study.judgements)
    found = agreement(compared, chosen)
    assert found.p_value > 0.01
    assert found.similarity > 0.9


def test_models_without_errors_are_refused() -> None:
    study = simulate_judgements(20, 3, 500, seed=0)
    sure = SimilarityMetric(study.items).fit(study.judgements)
    unsure = SimilarityMetric(study.items, uncertainty=False).fit(study.judgements)
    with pytest.raises(DataError, match="how sure it is"):
        agreement(sure, unsure)
