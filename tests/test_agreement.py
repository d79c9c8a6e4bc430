"""Whether the metric of one kind of answers is that of another."""

from __future__ import annotations

import numpy as np
import pytest

from crowdmetric import Comparisons, PopulationMetric, SimilarityMetric
from crowdmetric.agreement import agreement, one_metric
from crowdmetric.errors import DataError
from crowdmetric.persist import save_model
from crowdmetric.similarity.judgement_term import JudgementsBeside
from crowdmetric.similarity.likelihood import AnswerModel
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.pair_choices import questions_of
from crowdmetric.similarity.structures import Full
from crowdmetric.simulate import answer, simulate_crowd
from crowdmetric.simulate_judgements import random_questions, simulate_judgements
from crowdmetric.symmetric import shape_error, svec


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
    with pytest.raises(DataError, match="gives no standard errors of the metric"):
        agreement(sure, unsure)


# ------------------------------------------------------------------------------------------ one metric from both kinds


def both(seed: int, judged_by=None, people: int = 800, questions: int = 1500):
    """Return items, preferences by a metric, judgements by half of it (or by another), and the metric."""
    rng = np.random.default_rng(seed)
    items, metric = rng.standard_normal((60, 3)), np.array([[1.0, 0.3, 0.0], [0.3, 0.7, 0.1], [0.0, 0.1, 0.4]])
    users = np.repeat(np.arange(people), 3)
    pairs = random_questions(60, 2, users.size, rng)
    y = answer(items, pairs, rng.standard_normal((people, 3))[users], metric, seed=seed)
    answers = Comparisons.from_arrays(users, pairs, y, n_items=60)
    judged = metric if judged_by is None else judged_by
    study = simulate_judgements(items, None, questions, metric=judged, beta=0.5, seed=seed + 1000)
    return items, answers, study.judgements, metric


def test_the_term_of_judgements_has_the_derivatives_it_says() -> None:
    study = simulate_judgements(15, 3, 400, seed=0)
    questions = questions_of([study.judgements])
    beside = JudgementsBeside(SimilarityObjective(study.items, questions, AnswerModel(), Full(3)))
    m = svec(np.array([[1.0, 0.3, 0.0], [0.3, 0.7, 0.1], [0.0, 0.1, 0.4]]))
    term = beside(m)
    A, q = beside.objective.curvature(term.scale * m), term.score / term.scale
    turned = term.scale * A @ m - q
    exact = term.scale**2 * A - np.outer(turned, turned) / (m @ A @ m)  # the information, where the score is not zero
    step = 1e-5
    for j, unit in enumerate(np.eye(m.size)):
        up, down = (beside(m + sign * step * unit) for sign in (1.0, -1.0))
        assert term.score[j] == pytest.approx((up.value - down.value) / (2 * step), rel=1e-4, abs=1e-4)
        np.testing.assert_allclose(exact[j], (down.score - up.score) / (2 * step), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(term.information @ m, 0.0, atol=1e-8)  # the size of M does not matter
    assert np.linalg.eigvalsh(term.information)[0] > -1e-8
    assert term.score @ m == pytest.approx(0.0, abs=1e-4)
    larger = beside(3.0 * m)
    assert larger.value == pytest.approx(term.value, abs=1e-8)
    assert larger.scale == pytest.approx(term.scale / 3.0, rel=1e-4)
    assert beside(-m).scale == 0.0  # judgements that say the opposite of a matrix tell nothing with it


def _shape_spread(model) -> float:
    """Return how far the shape of a metric varies over the draws."""
    shapes = model.metric_draws_ / (model.metric_draws_ @ svec(np.eye(3)))[:, None]
    return float(np.linalg.norm(shapes.std(axis=0)))


def test_both_kinds_together_know_more_than_each_alone() -> None:
    items, answers, judgements, metric = both(0)
    found = one_metric(items, answers, judgements, starts=1)
    together, *alone = (_shape_spread(model) for model in (found.joint, found.preferences, found.judgements))
    assert together < 0.95 * min(alone)
    assert shape_error(found.joint.metric_, metric) < 0.1
    assert found.joint.judgement_scale_ * np.trace(found.joint.metric_) == pytest.approx(
        0.5 * np.trace(metric), rel=0.15
    )
    assert found.test.p_value > 0.01
    assert found.test.degrees_of_freedom == 5


def test_one_metric_is_refused_where_there_are_two() -> None:
    items, answers, judgements, _ = both(1, judged_by=np.diag([6.0, 1.0, 0.2]))
    found = one_metric(items, answers, judgements, starts=1)
    assert found.test.p_value < 1e-3
    assert "differ in shape" in found.summary()


def test_the_likelihood_ratio_and_wald_say_about_the_same() -> None:
    for seed in (2, 3):
        items, answers, judgements, _ = both(seed)
        found = one_metric(items, answers, judgements, starts=1)
        wald = agreement(found.judgements, found.preferences)
        assert found.test.statistic == pytest.approx(wald.statistic, rel=0.5, abs=3.0)


def test_a_joint_model_is_saved_whole_and_others_refuse_judgements(tmp_path) -> None:
    items, answers, judgements, _ = both(0)
    model = PopulationMetric(items, starts=1, uncertainty=False).fit(answers, judgements=judgements)
    again = save_model(tmp_path / "model", model).estimator()
    assert again.judgement_scale_ == pytest.approx(model.judgement_scale_)
    model.fit(answers)
    assert not hasattr(model, "judgement_scale_")
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match="about 60 items, but items has 30 rows"):
        PopulationMetric(items[:30]).fit(
            random_questions(30, 2, 9, rng), np.ones(9), users=np.zeros(9), judgements=judgements
        )
