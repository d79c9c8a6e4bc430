"""A metric from similarity judgements: derivatives, the optimum, invariances, choices and people."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from crowdmetric import Judgements, SimilarityMetric, intervals
from crowdmetric.design.judgement_plan import answers_needed, design_judgements, plan_judgements
from crowdmetric.engines.threads import shared_product
from crowdmetric.errors import DataError, NotIdentifiedWarning
from crowdmetric.evaluate import evaluate_similarity
from crowdmetric.evaluate.similarity_evaluation import Ceiling, looks_ranked
from crowdmetric.identifiability.judgement_diagnosis import diagnose_judgements
from crowdmetric.persist import load_model, save_model
from crowdmetric.similarity.cone_step import ConeStep
from crowdmetric.similarity.factored import FactoredObjective, _left_out
from crowdmetric.similarity.likelihood import LINKS, AnswerModel
from crowdmetric.similarity.newton import minimize, start_for
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.pair_choices import questions_of
from crowdmetric.similarity.size import SizePrior, best_size
from crowdmetric.similarity.structures import STRUCTURES, Full
from crowdmetric.simulate_judgements import answer_questions, simulate_judgements
from crowdmetric.symmetric import relative_error, shape_error, smat, svec
from crowdmetric.tables import read_columns

DATA = Path(__file__).parents[2] / "shared" / "data"
KINDS = ["triplet", "odd_one_out", "quadruplet"]

each_kind = pytest.mark.parametrize("kind", KINDS)
each_link = pytest.mark.parametrize("link", LINKS)
each_lapse = pytest.mark.parametrize("lapse", [0.0, 0.1])
each_structure = pytest.mark.parametrize("structure", STRUCTURES)


def study(kind: str = "triplet", questions: int = 400, d: int = 3, seed: int = 0, **options):
    return simulate_judgements(12, d, questions, kind=kind, seed=seed, **options)


def objective_of(kind: str, likelihood: AnswerModel, structure: str = "full", **options) -> SimilarityObjective:
    found = study(kind, **options)
    d = found.items.shape[1]
    return SimilarityObjective(found.items, questions_of([found.judgements]), likelihood, STRUCTURES[structure](d))


# ------------------------------------------------------------------------------------------ derivatives


@each_kind
@each_link
@each_lapse
@each_structure
def test_gradients_agree_with_differences(kind, link, lapse, structure) -> None:
    objective = objective_of(kind, AnswerModel(1.3, link, lapse), structure)
    rng = np.random.default_rng(1)
    L = rng.standard_normal((3, 3))
    theta = objective.structure.theta(2.0 * L @ L.T + np.eye(3))
    value, gradient = objective.slope(theta)
    assert value == pytest.approx(objective.value(theta), rel=1e-12)
    for j in range(theta.size):
        step = 1e-5 * np.eye(theta.size)[j]
        difference = (objective.value(theta + step) - objective.value(theta - step)) / 2e-5
        assert gradient[j] == pytest.approx(difference, rel=1e-5, abs=1e-5)


@each_kind
def test_curvature_is_the_second_derivative_where_the_problem_is_convex(kind) -> None:
    objective = objective_of(kind, AnswerModel())
    theta = svec(2.0 * np.eye(3))
    H = objective.curvature(theta)
    for j in range(theta.size):
        step = 1e-5 * np.eye(theta.size)[j]
        difference = (objective.slope(theta + step)[1] - objective.slope(theta - step)[1]) / 2e-5
        np.testing.assert_allclose(H[j], difference, rtol=1e-5, atol=1e-5)


@each_kind
@each_link
@each_lapse
def test_curvature_is_the_expected_outer_product_of_scores(kind, link, lapse) -> None:
    """Fisher information: the mean over answers drawn from the model, written out question by question."""
    likelihood = AnswerModel(1.0, link, lapse)
    objective = objective_of(kind, likelihood, questions=40)
    theta = svec(3.0 * np.eye(3))
    H, wanted = objective.curvature(theta), np.zeros((6, 6))
    D = objective.distances(theta)
    for asked in objective.questions.asked:
        q = likelihood.probabilities(D[asked.index])
        for t in range(len(asked.index)):
            for chosen in range(q.shape[1]):
                one = np.eye(q.shape[1])[[chosen]]
                alone = objective.questions.__class__(
                    objective.questions.pairs, (type(asked)(asked.index[[t]], one, asked.person[[t]]),)
                )
                score = objective.about(alone).slope(theta)[1]
                wanted += asked.counts[t].sum() * q[t, chosen] * np.outer(score, score)
    np.testing.assert_allclose(H, wanted, rtol=1e-8, atol=1e-10)


@each_kind
def test_curvature_does_not_depend_on_whether_rows_are_kept(kind, monkeypatch) -> None:
    kept = objective_of(kind, AnswerModel(link="distance"))
    theta = svec(np.eye(3))
    want = kept.curvature(theta), kept.slope(theta)[1]
    monkeypatch.setattr("crowdmetric.similarity.objective.KEPT", 0)
    chunked = objective_of(kind, AnswerModel(link="distance"))
    np.testing.assert_allclose(chunked.curvature(theta), want[0], rtol=1e-10)
    np.testing.assert_allclose(chunked.slope(theta)[1], want[1], rtol=1e-10)


@each_kind
@pytest.mark.parametrize("dense", [True, False])
def test_the_laplacian_gradient_is_the_gradient(kind, dense, monkeypatch) -> None:
    monkeypatch.setattr("crowdmetric.similarity.factored.DENSE", 0.0 if dense else 10.0)
    objective = objective_of(kind, AnswerModel())
    factored = FactoredObjective(objective.items, objective.questions, objective.likelihood)
    assert factored.is_dense == dense
    L = np.random.default_rng(0).standard_normal((3, 2))
    value, G = objective.slope(svec(L @ L.T))
    np.testing.assert_allclose(svec(factored.metric_slope(L)), G, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(factored.slope(L)[1], 2.0 * smat(G) @ L, rtol=1e-9, atol=1e-9)
    assert factored.slope(L)[0] == pytest.approx(value)


@each_kind
@each_link
def test_the_compiled_loop_takes_the_same_sums(kind, link, monkeypatch) -> None:
    objective = objective_of(kind, AnswerModel(1.3, link))
    questions, likelihood = objective.questions, objective.likelihood
    for size in (1.0, 1e4):  # the larger metric is beyond what the loop can take, which is noticed
        D = size * objective.distances(svec(np.eye(3)))
        monkeypatch.setattr("crowdmetric.similarity.likelihood.COMPILED_FROM", np.inf)
        value, slope = likelihood.slope(questions, D)
        monkeypatch.setattr("crowdmetric.similarity.likelihood.COMPILED_FROM", 0)
        found, found_slope = likelihood.slope(questions, D)
        assert found == pytest.approx(value, rel=1e-12)
        assert likelihood.value(questions, D) == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(found_slope, slope, rtol=1e-9, atol=1e-9)


@each_kind
def test_the_order_of_questions_does_not_matter(kind) -> None:
    objective = objective_of(kind, AnswerModel())
    grouped = objective.about(objective.questions.grouped())
    theta = svec(np.eye(3))
    np.testing.assert_allclose(grouped.slope(theta)[1], objective.slope(theta)[1], rtol=1e-10, atol=1e-10)
    assert grouped.questions.n_answers == objective.questions.n_answers


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_product_shared_among_threads_is_the_product(kind, monkeypatch) -> None:
    monkeypatch.setattr("crowdmetric.engines.threads.LARGE", 0)
    A, B = (np.random.default_rng(seed).standard_normal((7, 7)).astype(kind) for seed in (0, 1))
    found = shared_product(A, B)
    assert found.dtype == kind
    np.testing.assert_allclose(found, A @ B, rtol=1e-5)
    np.testing.assert_allclose(shared_product(A.T[:2], B), A.T[:2] @ B, rtol=1e-5)


# ------------------------------------------------------------------------------------------ the optimum


@each_kind
def test_the_certified_optimum_is_that_of_an_independent_solver(kind) -> None:
    cvxpy = pytest.importorskip("cvxpy", reason="CVXPY judges the optimum")
    low = np.diag([3.0, 0.0, 0.0])  # a metric of rank one: the cone is active
    objective = objective_of(kind, AnswerModel(), metric=low, beta=1.0, questions=200)
    fit = minimize(objective, (0.5, 0.5), start_for(objective))
    assert fit.gap < 1e-5 * objective.questions.n_answers
    M = cvxpy.Variable((3, 3), PSD=True)
    X, pairs = objective.items, objective.questions.pairs
    squares = [cvxpy.quad_form(X[i] - X[j], M) for i, j in pairs]
    total = 0
    for asked in objective.questions.asked:
        for index, counts in zip(asked.index, asked.counts, strict=True):
            utilities = cvxpy.hstack([-squares[p] for p in index])
            total += counts.sum() * cvxpy.log_sum_exp(utilities) - counts @ utilities
    ridge = cvxpy.sum_squares(M - cvxpy.trace(M) / 3 * np.eye(3))
    problem = cvxpy.Problem(cvxpy.Minimize(total + 0.25 * ridge))
    problem.solve(solver="CLARABEL")
    theta = fit.theta
    P = sum(objective.structure.ridges)
    reached = objective.value(theta) + 0.25 * theta @ P @ theta
    assert -1e-4 < reached - problem.value < fit.gap + 1e-4
    np.testing.assert_allclose(smat(theta), M.value, atol=2e-3)


def test_the_optimum_over_all_structures_is_certified() -> None:
    found = study(questions=2000)
    for structure in STRUCTURES:
        model = SimilarityMetric(found.items, structure=structure).fit(found.judgements)
        assert model.solution_.converged
        assert model.solution_.gap < 1e-6
        assert model.structure_ == structure
        assert np.linalg.eigvalsh(model.metric_)[0] >= -1e-9


@each_kind
def test_a_fit_by_gradients_finds_the_same_metric(kind) -> None:
    found = study(kind, questions=6000)
    model = SimilarityMetric(found.items, structure="full").fit(found.judgements)
    by_gradients = SimilarityMetric(found.items, rank=3).fit(found.judgements)
    assert (
        shape_error(by_gradients.metric_, model.metric_) < 0.02
    )  # by gradients, the size is that of the joint optimum
    assert by_gradients.solution_.objective == pytest.approx(model.solution_.objective, abs=1e-3)


def test_a_fit_by_gradients_stops_before_it_does_harm(monkeypatch) -> None:
    """With many features and a truth of low rank, the optimum is overfitted: it predicts new answers worse."""
    rng = np.random.default_rng(0)
    G, items = rng.standard_normal((48, 3)), rng.standard_normal((60, 48)) / np.sqrt(48)
    truth = {"kind": "odd_one_out", "metric": G @ G.T * (60.0 * 48 / np.sum(G * G)), "beta": 1.0}
    known, new = (simulate_judgements(items, None, 4_000, seed=seed, **truth).judgements for seed in (0, 1))
    model = SimilarityMetric(items).fit(known)
    assert model.solution_.converged
    assert "More steps would predict judgements that were left out worse" in model.solution_.status
    assert "optimum" not in model.solution_.status  # nothing is promised about an optimum that is not looked for
    monkeypatch.setattr("crowdmetric.similarity.factored.PATIENCE", np.inf)
    optimum = SimilarityMetric(items).fit(known)
    assert "The optimum is at most" in optimum.solution_.status
    assert optimum.log_likelihood_ > model.log_likelihood_
    assert model.score(new) > optimum.score(new)


# ------------------------------------------------------------------------------------------ invariances


@each_kind
def test_the_order_in_which_a_question_is_asked_does_not_matter(kind) -> None:
    found = study(kind).judgements
    order = {"triplet": [0, 2, 1], "odd_one_out": [2, 0, 1], "quadruplet": [3, 2, 1, 0]}[kind]
    counts = {"triplet": [1, 0], "odd_one_out": [2, 0, 1], "quadruplet": [1, 0]}[kind]
    turned = Judgements(
        kind, found.items[:, order], found.counts[:, counts], found.person, found.person_ids, found.item_ids
    )
    items = study(kind).items
    one, two = (SimilarityMetric(items).fit(table) for table in (found, turned))
    np.testing.assert_allclose(one.metric_, two.metric_, rtol=1e-10)
    np.testing.assert_allclose(one.predict_proba(found), two.predict_proba(turned)[:, np.argsort(counts)], rtol=1e-9)


def test_permuted_features_shifted_and_scaled_items_give_the_same_distances() -> None:
    found = study(questions=1500)
    model = SimilarityMetric(found.items, structure="full").fit(found.judgements)
    order = [2, 0, 1]
    moved = SimilarityMetric(10.0 * found.items[:, order] + 7.0, structure="full").fit(found.judgements)
    np.testing.assert_allclose(100.0 * moved.metric_, model.metric_[np.ix_(order, order)], rtol=1e-5, atol=1e-6)


def test_rotated_items_give_the_rotated_metric_without_ridges_of_the_axes() -> None:
    found = study(questions=4000, seed=3)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    questions = questions_of([found.judgements])
    fits = [
        minimize(SimilarityObjective(X, questions, AnswerModel(), Full(3)), (1.0, 1.0), svec(np.eye(3)))
        for X in (found.items, found.items @ turn)
    ]
    np.testing.assert_allclose(smat(fits[1].theta), turn.T @ smat(fits[0].theta) @ turn, rtol=1e-4, atol=1e-4)


def test_beta_only_scales_the_metric() -> None:
    found = study(questions=1500)
    one, two = (SimilarityMetric(found.items, beta=b, structure="full").fit(found.judgements) for b in (1.0, 2.0))
    np.testing.assert_allclose(one.metric_, 2.0 * two.metric_, rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:choice is '1' in all:crowdmetric.errors.TableWarning")  # as it is meant here
def test_vectors_row_numbers_and_tables_mean_the_same() -> None:
    found = study(questions=800)
    rows = found.judgements.items[found.judgements.counts[:, 0] == 1][:300]
    model = SimilarityMetric(found.items, structure="full")
    one = clone(model).fit(rows).metric_
    two = clone(model).fit(rows[:, [0, 2, 1]], y=np.ones(len(rows))).metric_
    three = SimilarityMetric(structure="full").fit(found.items[rows]).metric_
    np.testing.assert_allclose(one, two)
    np.testing.assert_allclose(one, three, rtol=1e-6, atol=1e-8)
    quads = SimilarityMetric(found.items, structure="full").fit(rows[:, [0, 1, 0, 2]]).metric_
    np.testing.assert_allclose(one, quads, rtol=1e-6, atol=1e-8)


# ------------------------------------------------------------------------------------------ what is found


@each_kind
@each_link
def test_the_truth_is_found(kind, link) -> None:
    found = simulate_judgements(40, 4, 12_000, kind=kind, link=link, beta=20.0 if link == "distance" else 4.0, seed=1)
    model = SimilarityMetric(found.items, link=link).fit(found.judgements)
    assert shape_error(model.metric_, found.metric) < 0.1
    assert relative_error(model.metric_, found.metric) < 0.15


def test_several_kinds_teach_one_metric() -> None:
    tables = [study(kind, questions=2000, metric=np.diag([4.0, 1.0, 0.5])).judgements for kind in KINDS]
    model = SimilarityMetric(study().items, structure="full").fit(tables)
    alone = SimilarityMetric(study().items, structure="full").fit(tables[0])
    assert np.linalg.norm(model.standard_errors_) < 0.8 * np.linalg.norm(alone.standard_errors_)


def test_a_simple_truth_is_left_simple() -> None:
    simple = study(questions=300, d=6, metric=np.eye(6))
    model = SimilarityMetric(simple.items).fit(simple.judgements)
    assert model.structure_ == "identity"
    bent = simulate_judgements(40, 4, 20_000, seed=2)
    assert SimilarityMetric(bent.items).fit(bent.judgements).structure_ == "full"


def test_lapses_are_estimated_or_taken_from_checks() -> None:
    found = simulate_judgements(30, 3, 20_000, lapse=0.2, beta=12.0, seed=0)
    model = SimilarityMetric(found.items, lapse="estimate", structure="full").fit(found.judgements)
    assert model.lapse_ == pytest.approx(0.2, abs=0.03)
    blind = SimilarityMetric(found.items, structure="full").fit(found.judgements)
    assert relative_error(model.metric_, found.metric) < 0.5 * relative_error(blind.metric_, found.metric)
    with pytest.raises(DataError, match="needs check questions"):
        SimilarityMetric(found.items, lapse="checks").fit(found.judgements)


def test_answers_left_out_choose_the_link() -> None:
    for link in LINKS:
        found = simulate_judgements(40, 3, 5_000, link=link, beta=60.0 if link == "distance" else 6.0, seed=4)
        for structure in ("auto", "full"):
            model = SimilarityMetric(found.items, link="auto", structure=structure, uncertainty=False)
            assert model.fit(found.judgements).link_ == link
            compared = {"squared": "squared distances", "distance": "distances"}[link]
            assert f"compare {compared}: that predicts judgements about items left out better" in model.solution_.status


# ------------------------------------------------------------------------------------------ the size


@each_link
def test_a_prior_on_the_size_has_the_slope_it_says(link) -> None:
    objective = objective_of("triplet", AnswerModel(1.3, link))
    prior = SizePrior.of(objective).holding(1.7, 12.0)
    theta = svec(np.diag([1.0, 2.0, 3.0]))
    gradient = prior(theta)[1]
    for j in range(theta.size):
        step = 1e-5 * np.eye(theta.size)[j]
        difference = (prior(theta + step)[0] - prior(theta - step)[0]) / 2e-5
        assert gradient[j] == pytest.approx(difference, rel=1e-6, abs=1e-6)


def test_the_best_size_is_found_with_its_error_and_checked_at_half_and_twice() -> None:
    def narrow(t: float) -> tuple[float, float]:
        return t, -0.5 * ((t - 1.0) / 0.07) ** 2

    found = best_size(narrow, 0.4, 0.05).checked(narrow)
    assert found.best == pytest.approx(1.0, abs=0.01)
    assert found.error == pytest.approx(0.07, rel=0.05)

    def flat_above(t: float) -> tuple[float, float]:
        return t, max(narrow(t)[1], -0.5 if t > 1.5 else -np.inf)

    assert best_size(narrow, 0.4, 0.05).checked(flat_above).error == pytest.approx(np.log(2.0), rel=0.02)


@pytest.mark.parametrize("kind", ["normal", "yes or no"])
def test_the_size_is_right_where_parameters_are_many_for_the_answers(kind) -> None:
    """A joint optimum of size and shape is a third too small here; entries of such a fit are covered in 57 %."""
    sizes, inside, close, held = [], [], [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((80, 10)) if kind == "normal" else (rng.random((80, 10)) < 0.3) * 2.2
        found = simulate_judgements(X / np.sqrt(10.0), None, 1_000, seed=seed)
        model = SimilarityMetric(found.items, structure="full").fit(found.judgements)
        sizes.append(np.log(np.trace(model.metric_) / np.trace(found.metric)))
        inside.append(abs(sizes[-1]) < 1.645 * model.scale_error_)
        upper = np.triu_indices(10)
        close.append((np.abs(model.metric_ - found.metric) < 1.645 * model.standard_errors_)[upper].mean())
        low, high = (smat(q) for q in np.quantile(model.metric_draws_, [0.05, 0.95], axis=0))
        held.append(((low < model.metric_) & (model.metric_ < high))[upper].mean())
    assert abs(np.median(sizes)) < 0.12
    assert sum(inside) >= 3
    assert np.mean(close) > 0.75
    assert np.mean(held) > 0.99


@pytest.mark.parametrize("structure", ["auto", "diagonal"])
def test_separable_answers_are_said_to_be_and_have_a_finite_size(structure) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    triplets = np.array([rng.permutation(30)[:3] for _ in range(120)])
    near, far = (np.sum((X[triplets[:, 0]] - X[triplets[:, k]]) ** 2, axis=1) for k in (1, 2))
    with pytest.warns(NotIdentifiedWarning, match="separable"):
        model = SimilarityMetric(X, structure=structure).fit(triplets, np.where(near < far, -1.0, 1.0))
    assert "separable" in model.solution_.status
    assert 1.0 < np.trace(model.metric_) / 2.0 < 50.0
    assert np.all(model.standard_errors_ < 50.0)


def test_parameters_that_are_many_for_sharp_answers_have_draws_from_the_likelihood_itself() -> None:
    """The expansion of the likelihood is far too narrow here: its intervals hold a third of the entries."""
    rng = np.random.default_rng(1001)
    X = (rng.random((60, 10)) < 0.3) * 0.7
    found = simulate_judgements(X, None, 300, seed=1)
    model = SimilarityMetric(found.items, structure="full").fit(found.judgements)
    assert intervals.entries(model).contains(found.metric).mean() > 0.8


@each_kind
@each_link
@each_lapse
def test_slopes_of_several_metrics_and_of_people_are_those_of_each(kind, link, lapse) -> None:
    found = study(kind, people=3)
    questions = questions_of([found.judgements], by_person=True)
    objective = SimilarityObjective(found.items, questions, AnswerModel(1.3, link, lapse), Full(3))
    thetas = np.stack([svec(found.metric), svec(0.3 * np.eye(3))])
    values, slopes = objective.slopes(thetas)
    for theta, value, slope in zip(thetas, values, slopes, strict=True):
        expected = objective.slope(theta)
        assert value == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(slope, expected[1], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(objective.slopes_of_people(theta, 3).sum(axis=0), expected[1], rtol=1e-9, atol=1e-9)


def test_intervals_count_people_where_answers_of_one_person_go_together() -> None:
    alike, different = (simulate_judgements(40, 4, 3_000, people=6, spread=spread, seed=0) for spread in (0.0, 0.4))
    fits = [SimilarityMetric(found.items, structure="full").fit(found.judgements) for found in (alike, different)]
    assert fits[0].clustering_ < 1.5
    assert fits[1].clustering_ > 3.0
    assert fits[1].scale_error_ > 1.5 * fits[0].scale_error_
    assert all("Only 6 people answered" in fit.solution_.status for fit in fits)


def test_predictions_are_less_bold_than_the_metric_where_it_is_known_poorly() -> None:
    gains = []
    for seed in range(4):
        found = simulate_judgements(60, 10, 1_000, seed=seed)
        model = SimilarityMetric(found.items, structure="full", uncertainty=False).fit(found.judgements)
        other: dict = {"metric": found.metric, "beta": 1.0, "seed": seed + 100}
        hidden = simulate_judgements(found.items, None, 4_000, **other).judgements
        chance = model.predict_proba(hidden)
        bold = AnswerModel().probabilities(model._squares(hidden, None)[0])
        np.testing.assert_array_equal(chance.argmax(axis=1), bold.argmax(axis=1))
        gains.append(np.sum(hidden.counts * np.log(chance / bold)) / 4_000)
    assert np.mean(gains) > 0.003


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    inside = []
    for seed in range(12):
        found = simulate_judgements(40, 4, 4000, seed=seed)
        model = SimilarityMetric(found.items, structure="full").fit(found.judgements)
        inside.append(intervals.entries(model, 0.9).contains(found.metric)[np.triu_indices(4)].mean())
    assert 0.82 < np.mean(inside) < 0.97


def test_people_who_differ_are_told_from_people_who_do_not() -> None:
    verdicts = []
    for seed in range(4):
        same = simulate_judgements(30, 3, 6000, people=20, seed=seed)
        model = SimilarityMetric(same.items, people="own", structure="full").fit(same.judgements)
        verdicts.append("One metric is enough" in model.solution_.status)
        assert verdicts[-1] != model.people_differ_
        assert model.people_spread_ < 0.1
    assert sum(verdicts) >= 3  # a test at the level of 5 %
    different = simulate_judgements(30, 3, 12_000, people=20, spread=0.8, seed=0)
    own = SimilarityMetric(different.items, people="own", structure="full").fit(different.judgements)
    shared = SimilarityMetric(different.items, structure="full").fit(different.judgements)
    assert own.people_differ_
    low, high = own.people_spread_interval_
    assert 0 < low < own.people_spread_ < high
    errors = [relative_error(own.person_metrics_[k], different.person_metrics[k]) for k in range(20)]
    pooled = [relative_error(shared.metric_, different.person_metrics[k]) for k in range(20)]
    assert np.mean(errors) < 0.7 * np.mean(pooled)
    assert own.score(different.judgements) > shared.score(different.judgements)
    # somebody unknown is judged by the crowd's metric
    stranger = Judgements.from_triplets([[0, 1, 2]], person=["nobody"], n_items=30)
    np.testing.assert_allclose(own.predict_proba(stranger), SimilarityMetric.predict_proba(own, [[0, 1, 2]]))


def test_the_spread_of_people_is_the_one_they_were_drawn_with() -> None:
    """The law is that of the simulation; ``‖M_k − M‖ / ‖M‖`` was estimated as half of what it is, or less."""
    for seed in (0, 1):
        found = simulate_judgements(40, 3, 6_000, people=20, spread=0.25, seed=seed)
        model = SimilarityMetric(found.items, structure="full", people="own", uncertainty=False).fit(found.judgements)
        apart = np.sum((found.person_metrics - found.metric) ** 2, axis=(1, 2)) / np.sum(found.metric**2)
        truth = np.sqrt(apart.mean())
        assert 0.65 * truth < model.people_spread_ < 1.2 * truth
        assert model.people_differ_


def test_predictions_are_of_the_shapes_promised() -> None:
    found = study("odd_one_out")
    model = SimilarityMetric(found.items).fit(found.judgements)
    p = model.predict_proba(found.judgements)
    assert p.shape == (len(found.judgements), 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert set(model.predict(found.judgements)) <= {0, 1, 2}
    triplets = model.predict([[0, 1, 2], [0, 2, 1]])
    assert triplets[0] == -triplets[1]
    near = model.pair_distance([[0, 1]])[0] < model.pair_distance([[0, 2]])[0]
    assert (triplets[0] == -1) == near
    assert model.transform(found.items).shape == found.items.shape


def test_models_are_saved_whole(tmp_path) -> None:
    found = study()
    model = SimilarityMetric(found.items).fit(found.judgements)
    save_model(tmp_path / "model", model)
    again = load_model(tmp_path / "model").estimator()
    np.testing.assert_allclose(again.predict_proba(found.judgements), model.predict_proba(found.judgements))


# ------------------------------------------------------------------------------------------ before and after


def test_diagnosis_counts_what_can_be_learned() -> None:
    found = study(questions=2000, d=4)
    assert diagnose_judgements(found.items, found.judgements).identified
    flat = np.column_stack([found.items, found.items[:, 0] + found.items[:, 1]])
    seen = diagnose_judgements(flat, found.judgements)
    assert (seen.rank, seen.dimensions) == (10, 15)
    assert "Remedy" in seen.summary()


def test_the_promised_error_is_the_measured_one() -> None:
    X, M = study(d=4).items, np.diag([6.0, 3.0, 2.0, 1.0])
    plan = answers_needed(X, 0.1, M)
    errors, promised = [], []
    for seed in range(30):
        found = simulate_judgements(X, None, round(plan.answers), metric=M, beta=1.0, seed=seed)
        promised.append(plan_judgements(X, found.judgements, M).error)
        model = SimilarityMetric(X, structure="full").fit(found.judgements)
        errors.append(np.linalg.norm(model.symmetric_metric_ - M) / np.linalg.norm(M))
    measured = float(np.sqrt(np.mean(np.square(errors))))
    assert measured == pytest.approx(0.1, rel=0.2)
    assert measured == pytest.approx(np.mean(promised), rel=0.2)


@each_kind
def test_chosen_questions_tell_more_and_keep_their_promise(kind) -> None:
    X, M = study(d=4).items, np.diag([6.0, 3.0, 2.0, 1.0])
    best, random = (design_judgements(X, 1500, metric=M, kind=kind, way=way) for way in ("optimal", "random"))
    assert best.expected.error < 0.85 * random.expected.error
    errors = []
    for seed in range(12):
        answered = answer_questions(X, best.questions, M, kind=kind, seed=seed)
        model = SimilarityMetric(X, structure="full").fit(answered)
        errors.append(np.linalg.norm(model.symmetric_metric_ - M) / np.linalg.norm(M))
    assert float(np.sqrt(np.mean(np.square(errors)))) == pytest.approx(best.expected.error, rel=0.25)


def test_evaluation_tells_a_learned_metric_from_none() -> None:
    found = simulate_judgements(40, 3, 6000, people=6, seed=0)
    result = evaluate_similarity(found.items, found.judgements, ["euclid", "chosen", "embedding"], folds=3)
    for split in ("items", "questions", "people"):
        gain = result.difference(split, "euclid", "chosen")
        assert gain.is_clear
        assert gain.people == 6
    with pytest.raises(DataError, match="was not evaluated"):
        result.result("items", "embedding")
    assert "New items: the learned metric is better than" in result.summary()
    assert "Only 6 people answered" in result.summary()
    assert "6,000 predictions of hidden answers of 6 people" in result.summary()
    assert result.to_dict()["results"]


def test_rankings_are_recognized() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(12)
    rows = [(a, b, c) for a in range(12) for b in range(12) for c in range(b) if len({a, b, c}) == 3]
    closer = [abs(x[a] - x[b]) < abs(x[a] - x[c]) for a, b, c in rows]
    assert looks_ranked(Judgements.from_triplets(rows, [0 if near else 1 for near in closer]))
    noisy = rng.integers(0, 2, len(rows))
    assert not looks_ranked(Judgements.from_triplets(rows, noisy))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"structure": "round"}, "structure='round' is not known"),
        ({"link": "cubic"}, "link='cubic' is not known"),
        ({"lapse": 1.5}, "lapse=1.5"),
        ({"people": "own"}, "at least two people"),
        ({"rank": 9}, "rank=9 is more than the 3 features"),
        ({"rank": 1, "structure": "diagonal"}, "by gradients alone"),
        ({"beta": 0.0}, "beta=0.0"),
        ({"folds": 1}, "folds=1"),
    ],
)
def test_bad_options_are_a_sentence(options, sentence) -> None:
    found = study()
    with pytest.raises(DataError, match=sentence):
        SimilarityMetric(found.items, **options).fit(found.judgements)


def test_bad_judgements_are_a_sentence() -> None:
    found = study()
    with pytest.raises(DataError, match="about 12 items, but items has 5 rows"):
        SimilarityMetric(found.items[:5]).fit(found.judgements)
    with pytest.raises(DataError, match="judgements have shape"):
        SimilarityMetric(found.items).fit(np.zeros((4, 2)))
    with pytest.raises(DataError, match="row numbers"):
        SimilarityMetric(found.items).fit(np.full((4, 3), 0.5))


def test_real_people_are_predicted_better_than_by_euclid() -> None:
    if not (DATA / "materials").exists():
        pytest.skip("no shared/data/materials beside the project")
    columns = read_columns(DATA / "materials" / "items.csv")
    X = np.column_stack([column for name, column in columns.items() if name != "item"])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    judgements = Judgements.read(DATA / "materials" / "triplets.csv.gz", n_items=len(X))
    found = evaluate_similarity(X, judgements, ["euclid", "full"], splits=["items"])
    assert found.result("items", "full").log_loss < 0.505
    assert found.result("items", "euclid").log_loss > 0.545


def test_where_features_only_name_the_items_questions_are_left_out() -> None:
    """Nothing carries over to an item that shares no feature with others: no ridge would be strong enough."""
    study = simulate_judgements(12, 3, 3_000, seed=0)
    questions = questions_of([study.judgements])
    for items, all_items in ((np.eye(12), True), (study.items, False)):
        known, new = _left_out(FactoredObjective(items - items.mean(axis=0), questions, AnswerModel()), 0)
        assert known.n_answers + new.n_answers == study.judgements.n_answers
        asked = np.unique(np.concatenate([known.items_of(block).ravel() for block in known.asked]))
        assert (asked.size == 12) == all_items
    named = SimilarityMetric(np.eye(12), rank=3).fit(study.judgements)
    known_features = SimilarityMetric(study.items, uncertainty=False).fit(study.judgements)
    assert named.score(study.judgements) > known_features.score(study.judgements) - 0.02


@pytest.mark.filterwarnings("ignore:all items are alike:crowdmetric.errors.NotIdentifiedWarning")
def test_a_metric_of_zero_has_intervals() -> None:
    """People call closer what is farther, and one feature is the same for all items: intervals begin near zero."""
    rng = np.random.default_rng(0)
    items = np.column_stack([np.arange(6.0), np.ones(6)])
    triplets = np.array([rng.choice(6, 3, replace=False) for _ in range(120)])
    near, far = (np.abs(items[triplets[:, 0], 0] - items[triplets[:, side], 0]) for side in (1, 2))
    with pytest.warns(NotIdentifiedWarning, match="size of the metric is not known"):
        model = SimilarityMetric(items).fit(triplets, np.where(near < far, 1.0, -1.0))
    assert np.all(np.isfinite(model.metric_draws_))
    low, high = np.quantile(model.metric_draws_[:, 0], [0.05, 0.95])
    # a weight w of the feature makes these answers less likely by a factor of about exp(−w S): w is below a few 1/S,
    # but not known to a millionth of it
    S = 0.5 * np.sum(np.abs(near**2 - far**2))
    assert 0.0 <= low < high < 5.0 / S
    assert high > 0.05 / S


@pytest.mark.parametrize("structure", ["full", "diagonal", "identity"])
def test_a_barrier_finds_the_same_step_as_projections(structure: str) -> None:
    """Where projections take too long, the step is found by a barrier."""
    rng = np.random.default_rng(3)
    cone = STRUCTURES[structure](4)
    F = rng.standard_normal((3 * cone.size, cone.size))
    theta, g, H = cone.theta(np.eye(4)), 40.0 * rng.standard_normal(cone.size), F.T @ F
    g = np.abs(g) if structure == "identity" else g  # out of the cone, where there is a choice of one direction
    usual, slow = (ConeStep(cone, np.eye(4)) for _ in range(2))
    slow.is_slow = True
    x, y = usual.solve(theta, g, H, 1e-11), slow.solve(theta, g, H)
    assert not np.any(cone.negative(x) < -1e-9)
    np.testing.assert_allclose(y, x, atol=2e-5 * np.abs(x).max() + 1e-7)
    costs = [float(g @ (z - theta) + 0.5 * (z - theta) @ H @ (z - theta)) for z in (x, y)]
    assert costs[1] == pytest.approx(costs[0], abs=1e-8 * (1.0 + abs(costs[0])))


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.NotIdentifiedWarning")
def test_answers_without_meaning_about_a_repeated_feature_converge() -> None:
    """Nothing is known of how two equal columns share a weight, and chance leaves metrics at the edge of the cone."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((22, 4))
    X[:, 2], X[:, 3] = X[:, 1], 1.0
    triplets = np.array([rng.choice(22, 3, replace=False) for _ in range(150)])
    fitted = SimilarityMetric(X, structure="full").fit(triplets)
    assert fitted.solution_.converged
    assert fitted.solution_.gap < 1e-6


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.NotIdentifiedWarning")
def test_questions_left_out_choose_a_richer_metric_than_items_left_out_where_items_are_few() -> None:
    """Answers also follow features that the metric does not have: what helps on these items does harm on others."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((14, 12)) / 2.0
    found = simulate_judgements(features, None, 6_000, metric=3.0 * np.eye(12), beta=1.0, seed=0)
    known = [
        SimilarityMetric(features[:, :6], left_out=left_out, uncertainty=False).fit(found.judgements)
        for left_out in ("items", "questions")
    ]
    assert known[1].determined_ > 1.5 * known[0].determined_
    assert known[1].log_likelihood_ > known[0].log_likelihood_
    assert "questions left out" in known[1].solution_.status
    assert "items left out" in known[0].solution_.status
    few = found.judgements.take(np.arange(6))
    assert (
        "the evidence prefers it" in SimilarityMetric(features[:, :6], left_out="questions").fit(few).solution_.status
    )


def test_a_hidden_split_of_questions_is_predicted_by_a_structure_chosen_for_questions() -> None:
    rng = np.random.default_rng(1)
    features = rng.standard_normal((14, 12)) / 2.0
    found = simulate_judgements(features, None, 3_000, metric=3.0 * np.eye(12), beta=1.0, seed=1)
    given = (features[:, :6], found.judgements, ["chosen"])
    for_questions = evaluate_similarity(*given, splits=["questions"])
    for_items = evaluate_similarity(*given, splits=["questions"], left_out="items")
    assert for_questions.results[0].log_loss < for_items.results[0].log_loss


def test_few_repeated_answers_do_not_bound_the_accuracy() -> None:
    assert "too few" in Ceiling(28.0, 0.64, 0.82).summary()
    assert "between 64.0% and 82.0%" in Ceiling(2_800.0, 0.64, 0.82).summary()


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.NotIdentifiedWarning")
def test_options_that_are_equally_far_under_every_metric_are_refused() -> None:
    """Two items with the same features, or two at opposite sides of the anchor."""
    X = np.array([[1.0, 0.5], [-1.0, 0.5], [-1.0, 0.5], [3.0, 0.5]])
    with pytest.raises(DataError, match="equally far apart under every metric"):
        SimilarityMetric(X).fit(np.array([[0, 1, 2], [0, 1, 3]]))
    assert SimilarityMetric(X).fit(np.array([[0, 1, 2], [1, 0, 3]])).solution_.converged


def test_choices_that_are_certain_have_no_curvature() -> None:
    """A probability that underflows is no division by zero."""
    X = np.array([[0.0], [1.0], [60.0]])
    questions = questions_of((Judgements.from_triplets(np.array([[0, 1, 2]]), n_items=3),))
    objective = SimilarityObjective(X, questions, AnswerModel(1.0, "squared", 0.0), Full(1))
    with np.errstate(all="raise", under="ignore"):
        assert float(np.abs(objective.curvature(np.array([1.0]))).max()) == 0.0
