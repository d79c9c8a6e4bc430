"""Where people stand: against brute force, for people old and new; rankings and questions by enumeration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import entr, expit
from scipy.stats import norm

from crowdmetric import locate as module
from crowdmetric.cli import main
from crowdmetric.errors import DataError
from crowdmetric.estimators import MatchedMetric, PopulationMetric
from crowdmetric.locate import Located, locate
from crowdmetric.losses import Logistic, Probit
from crowdmetric.persist import load_model, save_model
from crowdmetric.simulate import answer, simulate_crowd
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.integrals import information_of_answer, rough_information_of_answer
from crowdmetric.users.people import posteriors
from crowdmetric.users.population_sums import Law, blocks_of

CROWD = simulate_crowd(2, None, None, users=800, comparisons=3, seed=0)
ITEMS = np.random.default_rng(0).standard_normal((12, 2))


@pytest.fixture(scope="module")
def model() -> PopulationMetric:
    return PopulationMetric(CROWD.items, starts=1).fit(CROWD.pairs, CROWD.y, users=CROWD.users)


@pytest.fixture(scope="module")
def small(model: PopulationMetric) -> Located:
    """Four people of the model, before a catalogue of twelve items."""
    people = locate(model)
    points, covariances = people.pseudo_ideal_points[:4], people.pseudo_ideal_covariances[:4]
    return Located(people.users[:4], points, covariances, people.metric, ITEMS, people.loss)


def test_placed_people_are_known_and_nobody_else(model: PopulationMetric) -> None:
    placed = model.place([[0, 1], [2, 3]], [-1, 1], users=["ann", "ann"])
    assert placed.users_.tolist() == ["ann"]
    ann = locate(model, [[0, 1], [2, 3]], [-1, 1], users=["ann", "ann"])
    asked = [[4, 5], [1, 6]]
    np.testing.assert_allclose(placed.predict_proba(asked, ["ann", "ann"])[:, 0], ann.probability(asked)[0])
    stranger = model.predict_proba(asked, ["nobody", "nobody"])
    np.testing.assert_allclose(placed.predict_proba(asked, ["nobody", "nobody"]), stranger)
    assert len(model.users_) > 1


def test_people_of_the_model_are_where_it_put_them(model: PopulationMetric) -> None:
    people = locate(model)
    assert len(people) == 800
    np.testing.assert_array_equal(people.users, model.users_)
    np.testing.assert_allclose(people.mean, model.ideal_points_)
    again = locate(model, CROWD.pairs, CROWD.y, users=CROWD.users)
    np.testing.assert_allclose(again.pseudo_ideal_points, people.pseudo_ideal_points, atol=1e-6)
    np.testing.assert_allclose(again.covariance, people.covariance, atol=1e-6)
    some = CROWD.pairs[:5]
    ours = people.probability(some)[10]
    theirs = model.predict_proba(some, users=np.full(5, people.users[10]))[:, 0]
    np.testing.assert_allclose(ours, theirs, atol=1e-7)


def test_a_new_person_against_brute_force(model: PopulationMetric) -> None:
    """Posterior of u over a grid of the plane: prior N(u₀, s²I) times the answers."""
    pairs, y = CROWD.pairs[:5], np.array([-1, 1, 1, -1, 1])
    ann = locate(model, pairs, y, users=["ann"] * 5)
    line = np.linspace(-5.0, 5.0, 401)
    u = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    away = u - model.ideal_mean_
    log_joint = -0.5 * np.einsum("ni,ij,nj->n", away, np.linalg.inv(model.ideal_covariance_), away)
    x, x_ = CROWD.items[pairs[:, 0]], CROWD.items[pairs[:, 1]]
    psi = np.einsum("tni,ij,tnj->nt", x[:, None] - u, model.metric_, x[:, None] - u)
    psi -= np.einsum("tni,ij,tnj->nt", x_[:, None] - u, model.metric_, x_[:, None] - u)
    log_joint += np.log(expit(y * psi)).sum(axis=1)
    share = np.exp(log_joint - log_joint.max())
    share /= share.sum()
    mean = share @ u
    covariance = (u * share[:, None]).T @ u - np.outer(mean, mean)
    np.testing.assert_allclose(ann.mean[0], mean, atol=0.02)
    np.testing.assert_allclose(ann.covariance[0], covariance, atol=0.02)
    new = CROWD.items[[[20, 21]]]
    step = np.einsum("nsi,ij,nsj->ns", new[0] - u[:, None], model.metric_, new[0] - u[:, None])
    exact = share @ expit(-(step[:, 0] - step[:, 1]))
    assert ann.probability(new)[0, 0] == pytest.approx(exact, abs=0.02)


def test_nobody_known_is_the_population(model: PopulationMetric) -> None:
    """Somebody whose only answer has no weight."""
    bob = locate(model, CROWD.pairs[:2], [1, 1], users=["ann", "bob"], sample_weight=[1.0, 0.0])
    np.testing.assert_array_equal(bob.pseudo_ideal_points[1], model.pseudo_ideal_mean_)
    np.testing.assert_array_equal(bob.pseudo_ideal_covariances[1], model.pseudo_ideal_covariance_)
    np.testing.assert_allclose(bob.mean[1], model.ideal_mean_)
    np.testing.assert_allclose(bob.covariance[1], model.ideal_covariance_, atol=1e-9)


def test_answers_bring_people_closer(model: PopulationMetric) -> None:
    rng = np.random.default_rng(3)
    u = rng.standard_normal((60, 2)) / np.sqrt(2)
    users, pairs = np.repeat(np.arange(60), 40), rng.integers(len(CROWD.items), size=(2400, 2))
    y = answer(CROWD.items, pairs, u[users], CROWD.metric, seed=4)
    errors, spreads = [], []
    for m in (2, 10, 40):
        first = np.tile(np.arange(40) < m, 60)
        people = locate(model, pairs[first], y[first], users=users[first])
        errors.append(np.mean(np.sum((people.mean - u) ** 2, axis=1)))
        spreads.append(np.mean(np.trace(people.covariance, axis1=1, axis2=2)))
    assert errors[0] > errors[1] > errors[2]
    # the covariance says how far off the mean is
    np.testing.assert_allclose(spreads, errors, rtol=0.35)


def test_ranking_is_by_probability(small: Located) -> None:
    order = small.rank_items()
    assert order.shape == (4, 12)
    for k in range(4):
        square = np.einsum("ni,ij,nj->n", ITEMS, small.metric, ITEMS) + ITEMS @ small.pseudo_ideal_points[k]
        np.testing.assert_array_equal(order[k], np.argsort(square))
        later = np.column_stack([order[k][:-1], order[k][1:]])
        assert np.all(small.probability(later)[k] >= 0.5)
    np.testing.assert_array_equal(small.rank_items(top=3), order[:, :3])
    np.testing.assert_array_equal(small.rank_items(ITEMS[:5]).shape, (4, 5))


@pytest.mark.parametrize("loss", [Logistic(1.5), Probit(0.7)], ids=["logistic", "probit"])
def test_information_as_scipy_has_it(loss) -> None:
    psi, variance = np.array([0.0, 1.0, -3.0, 0.5]), np.array([1.0, 4.0, 0.3, 100.0])
    ours = information_of_answer(psi, variance, loss)
    for k in range(4):
        s = np.sqrt(variance[k])

        def p(z: float, k: int = k, s: float = s) -> float:
            return float(loss.probability(np.array([psi[k] + s * z]))[0])

        def noise(z: float, p=p) -> float:
            return float(entr(p(z)) + entr(1.0 - p(z))) * norm.pdf(z)

        where = [-psi[k] / s]
        mean, _ = quad(lambda z, p=p: p(z) * norm.pdf(z), -9, 9, points=where, limit=200)
        left, _ = quad(noise, -9, 9, points=where, limit=200)
        assert ours[k] == pytest.approx(entr(mean) + entr(1.0 - mean) - left, abs=1e-6)
    assert information_of_answer(np.zeros(1), np.zeros(1), loss)[0] == pytest.approx(0.0, abs=1e-12)
    assert np.all(ours <= np.log(2))


def test_information_is_the_fall_in_entropy_of_the_person() -> None:
    """Mutual information by enumeration: H(v) − E[H(v | y)] over a fine grid of a one-dimensional v."""
    v = np.linspace(-8.0, 8.0, 4001)
    prior = norm.pdf(v, 0.4, 1.3)
    prior /= prior.sum()
    right = expit(0.7 + 1.1 * v)
    fall = entr(prior).sum()
    for likelihood in (right, 1.0 - right):
        mass = prior @ likelihood
        fall -= mass * entr(prior * likelihood / mass).sum()
    ours = information_of_answer(np.array([0.7 + 1.1 * 0.4]), np.array([(1.1 * 1.3) ** 2]), Logistic(1.0))
    assert ours[0] == pytest.approx(fall, abs=1e-6)


def test_the_next_question_is_the_best_of_all(small: Located, monkeypatch: pytest.MonkeyPatch) -> None:
    every = np.column_stack(np.triu_indices(12, 1))
    table = small.information(every)
    best = small.next_question()
    np.testing.assert_array_equal(best.pairs, every[np.argmax(table, axis=1)])
    np.testing.assert_allclose(best.information, table.max(axis=1))
    some = every[::7]
    among = small.next_question(some)
    np.testing.assert_array_equal(among.pairs, some[np.argmax(table[:, ::7], axis=1)])
    monkeypatch.setattr(module, "CHUNK", 16)  # a few at a time: the same
    np.testing.assert_array_equal(small.next_question().pairs, best.pairs)
    monkeypatch.setattr(module, "MOST_CANDIDATES", 40)
    drawn = small.next_question(seed=1)
    assert np.all(drawn.information <= best.information + 1e-6)
    assert np.all(drawn.pairs[:, 0] != drawn.pairs[:, 1])


def test_asking_what_is_informative_locates_sooner(model: PopulationMetric) -> None:
    """Twenty people, five questions: chosen by information, against chosen at random."""
    rng = np.random.default_rng(5)
    u, items = rng.standard_normal((20, 2)) / np.sqrt(2), rng.standard_normal((15, 2))
    twin = PopulationMetric(items)
    for name, value in vars(model).items():
        if name.endswith("_"):
            setattr(twin, name, value)
    every = np.column_stack(np.triu_indices(15, 1))
    spread = {}
    for way in ("informative", "random"):
        pairs, y, users = (np.zeros((0, 2), dtype=int), np.zeros(0), np.zeros(0, dtype=int))
        ask = every[rng.integers(len(every), size=20)]
        for turn in range(5):
            pairs = np.concatenate([pairs, ask])
            y = np.concatenate([y, answer(items, ask, u, CROWD.metric, seed=turn)])
            users = np.concatenate([users, np.arange(20)])
            people = locate(twin, pairs, y, users=users)
            ask = (
                people.next_question(every).pairs if way == "informative" else every[rng.integers(len(every), size=20)]
            )
        spread[way] = np.mean(np.linalg.slogdet(people.pseudo_ideal_covariances)[1])
    assert spread["informative"] < spread["random"] - 0.3


def test_bad_input_gets_a_sentence(model: PopulationMetric, small: Located) -> None:
    with pytest.raises(DataError, match="y is missing"):
        locate(model, CROWD.pairs[:2])
    with pytest.raises(DataError, match="pairs hold vectors of 5 features"):
        locate(model, np.zeros((1, 2, 5)), [1])
    with pytest.raises(DataError, match="top=0 is not a whole number of at least 1"):
        small.rank_items(top=0)
    with pytest.raises(DataError, match="items have 3 features, but the metric has 2; use one space"):
        small.rank_items(np.zeros((4, 3)))
    with pytest.raises(DataError, match="candidates are rows of the model's items"):
        small.next_question(np.zeros((3, 2, 2)))
    with pytest.raises(DataError, match="name item 99, but there are 12 items"):
        small.probability([[0, 99]])
    alone = Located(
        small.users, small.pseudo_ideal_points, small.pseudo_ideal_covariances, small.metric, ITEMS[:1], small.loss
    )
    with pytest.raises(DataError, match="a question needs two"):
        alone.next_question()
    matched = MatchedMetric(CROWD.items)
    matched.metric_ = np.eye(2)
    with pytest.raises(DataError, match=r"MatchedMetric knows no law of people.*fit a PopulationMetric"):
        locate(matched)
    nobody = PopulationMetric(CROWD.items)
    for name, value in vars(model).items():
        if name.endswith("_"):
            setattr(nobody, name, value)
    nobody.pseudo_ideal_covariances_ = None
    with pytest.raises(DataError, match="does not keep the covariances of its 800 people; give answers"):
        locate(nobody)


def test_from_a_shell(model: PopulationMetric, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Items and people under names of their own; a person the model has never met."""
    names = np.array([f"item {i}" for i in range(len(CROWD.items))])
    save_model(tmp_path / "model", model, item_ids=names)
    (tmp_path / "new.csv").write_text("user,left,right,choice\nann,item 0,item 1,left\nann,item 2,item 3,right\n")
    assert main(["locate", str(tmp_path / "model"), str(tmp_path / "new.csv"), "--next", "--top", "2"]) == 0
    head, row = (line.split(",") for line in capsys.readouterr().out.splitlines())
    cells = dict(zip(head, row, strict=True))
    ann = locate(model, [[0, 1], [2, 3]], [-1, 1], users=["ann", "ann"])
    assert cells["user"] == "ann"
    assert [float(cells[f"ideal_f{j}"]) for j in range(2)] == pytest.approx(ann.mean[0].tolist())
    assert float(cells["spread_f1"]) == pytest.approx(np.sqrt(ann.covariance[0, 1, 1]))
    assert [cells["best_1"], cells["best_2"]] == [names[i] for i in ann.rank_items(top=2)[0]]
    question = ann.next_question()
    assert [cells["next_left"], cells["next_right"]] == [names[i] for i in question.pairs[0]]
    assert main(["locate", str(tmp_path / "model"), str(tmp_path / "new.csv"), "--out", str(tmp_path / "o.csv")]) == 0
    assert (tmp_path / "o.csv").read_text().startswith("user,ideal_f0")


def test_a_model_that_was_saved_without_covariances_says_so(tmp_path: Path) -> None:
    """With very many features no covariances are kept, and None is not saved: a loaded model lacks the attribute."""
    fitted = PopulationMetric(CROWD.items, starts=1, uncertainty=False).fit(CROWD.pairs, CROWD.y, users=CROWD.users)
    fitted.pseudo_ideal_covariances_ = None
    save_model(tmp_path / "model", fitted)
    for model in (fitted, load_model(tmp_path / "model").estimator()):
        with pytest.raises(DataError, match="does not keep the covariances of its 800 people; give answers"):
            locate(model)
        found = locate(model, CROWD.pairs[:4], CROWD.y[:4], users=np.zeros(4, dtype=int))
        assert np.all(np.isfinite(found.pseudo_ideal_points))


def test_a_model_on_grids_places_people_on_grids() -> None:
    """Where the fit says that people were integrated out on a grid, so are those whom it places."""
    few = slice(0, 120)
    model = PopulationMetric(CROWD.items, integration="grid", starts=1, jobs=1, uncertainty=False)
    model.fit(CROWD.pairs[few], CROWD.y[few], users=CROWD.users[few])
    there = locate(model, CROWD.pairs[few], CROWD.y[few], users=CROWD.users[few])
    np.testing.assert_allclose(there.pseudo_ideal_points, model.pseudo_ideal_points_, atol=1e-9)
    law = Law(model.metric_, model.pseudo_ideal_mean_, model.pseudo_ideal_covariance_)
    users, person = np.unique(CROWD.users[few], return_inverse=True)
    answers = Answers(
        CROWD.items, CROWD.pairs[few].astype(np.intp), CROWD.y[few].astype(float), np.ones(120), person,
        np.zeros(users.size, dtype=np.intp), 1,
    )  # fmt: skip
    grid, propagated = (
        posteriors(blocks_of(arrange(answers)), law, Logistic(1.0), users.size, largest)[0] for largest in (3, 1)
    )
    np.testing.assert_allclose(grid, model.pseudo_ideal_points_, atol=1e-6)
    assert np.max(np.abs(propagated - grid)) > 1e-5


@pytest.mark.parametrize(("loss", "error"), [(Logistic(), 0.025), (Probit(), 0.002), (Logistic(2.5), 0.025)])
def test_the_formula_that_ranks_questions_is_as_good_as_it_says(loss: Logistic | Probit, error: float) -> None:
    psi, variance = np.meshgrid(np.linspace(-12.0, 12.0, 61), np.geomspace(0.01, 100.0, 40))
    exact = information_of_answer(psi, variance, loss)
    np.testing.assert_allclose(rough_information_of_answer(psi, variance, loss), exact, atol=error)


def test_the_best_items_are_those_of_a_full_sort() -> None:
    values = np.random.default_rng(0).integers(30, size=400).astype(float)  # with many ties
    for top in (1, 7, 90, 400):
        np.testing.assert_array_equal(module._smallest(values, top), np.argsort(values, kind="stable")[:top])
