"""A design that learns while asking: whose answers decide, what is kept, what is forecast, when it ends."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from crowdmetric.cli import main
from crowdmetric.design import LiveDesign
from crowdmetric.design.adaptive import best_next_pair
from crowdmetric.design.bundles import answered_scores
from crowdmetric.design.guess import guess_about_items
from crowdmetric.design.learning import AnswerTable, learn
from crowdmetric.design.question_sources import Catalogue
from crowdmetric.design.stopping import NOISE, SLIPS, Forecast, always_valid, errors_ahead, log_ratios, people_for
from crowdmetric.design.surprise import surprise, why_doubted
from crowdmetric.design.waves import EXACT_WIDER, Wave, next_wave, number_of_draws, size_in_units, thought_possible
from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import CrowdmetricError, DataError, NotIdentifiedWarning
from crowdmetric.estimators import MatchedMetric, PopulationMetric
from crowdmetric.fits.crowd import crowd_in_memory
from crowdmetric.fits.exact_draws import DRAWS, LawDensity
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.fits.size_posterior import nearest_metrics, posterior_of
from crowdmetric.fits.starts import evidence_fit
from crowdmetric.inputs import read_rows
from crowdmetric.losses import Logistic
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.symmetric import shape_error, svec
from crowdmetric.tables import read_columns, write_columns
from crowdmetric.users.population_sums import STRUCTURES

RNG = np.random.default_rng
D = 2
ITEMS = RNG(0).standard_normal((120, D))
IDS = [f"item {k}" for k in range(len(ITEMS))]
METRIC = np.array([[1.5, 0.5], [0.5, 0.6]])


@pytest.fixture(autouse=True, scope="module")
def _short_searches() -> Iterator[None]:
    """Search for questions less: what is tested here does not depend on how good they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crowdmetric.design.optimal.POOL", 800)
        patch.setattr("crowdmetric.design.optimal.VARIATIONS", 800)
        patch.setattr("crowdmetric.design.optimal.CHOOSERS", 3)
        patch.setattr("crowdmetric.solvers.posterior.MOST_DRAWS", 300)
        patch.setattr("crowdmetric.design.waves.FIRST_ROUNDS", 2)
        patch.setattr("crowdmetric.design.waves.ROUNDS", 1)
        yield


def says(person: int, pairs: Any, turned: frozenset[int] = frozenset()) -> list[tuple[str, str, int]]:
    """Return the answers of a simulated person; whoever is among `turned` says the opposite."""
    rng = RNG([7, person])
    u = rng.standard_normal(D)
    out = []
    for left, right in pairs:
        x, x_ = ITEMS[IDS.index(left)], ITEMS[IDS.index(right)]
        psi = (x - x_) @ METRIC @ (x + x_ - 2 * u)
        y = 1 if rng.random() < expit(psi) else -1
        out.append((left, right, -y if person in turned else y))
    return out


def new(**options: Any) -> LiveDesign:
    return LiveDesign(ITEMS, **({"item_ids": IDS, "seed": 3} | options))


def run(live: LiveDesign, people: range, turned: frozenset[int] = frozenset()) -> list[tuple[Any, ...]]:
    """Ask and tell people one after another, and return what they were asked."""
    asked = []
    for person in people:
        found = live.ask(person)
        asked.append(found.pairs)
        live.tell(person, says(person, found, turned))
    return asked


@cache
def finished() -> tuple[LiveDesign, list[tuple[Any, ...]]]:
    """Return a study of 45 people, with three fits."""
    live = new(budget=45)
    asked = run(live, range(45))
    return live, asked


# ------------------------------------------------------------------------------------------------- who decides


def test_questions_do_not_depend_on_ones_own_answers_but_on_those_of_others() -> None:
    _, asked = finished()
    changed = run(new(budget=45), range(45), turned=frozenset({5}))
    # the design learns from person 5 only after they were asked: their questions, and those until the first fit, stay
    first_fit = 20
    assert changed[:first_fit] == asked[:first_fit]
    assert changed[first_fit:] != asked[first_fit:]
    # whoever comes last may say anything: nobody's questions, their own included, are any different
    assert run(new(budget=45), range(45), turned=frozenset({44})) == asked


def test_a_person_who_comes_back_gets_the_same_questions() -> None:
    live, asked = finished()
    assert live.ask(3).pairs == asked[3]
    assert live.ask("3").pairs == asked[3]


def test_ideal_points_are_independent_of_questions() -> None:
    _, asked = finished()
    u = np.array([RNG([7, person]).standard_normal(D) for person in range(45)])
    middle = np.array([np.mean([ITEMS[IDS.index(name)] for pair in pairs for name in pair], axis=0) for pairs in asked])
    observed = abs(np.corrcoef(u[:, 0], middle[:, 0])[0, 1])
    shuffled = [abs(np.corrcoef(RNG(k).permutation(u[:, 0]), middle[:, 0])[0, 1]) for k in range(200)]
    assert np.mean(np.array(shuffled) >= observed) > 0.01


def test_the_same_seed_and_order_give_the_same_questions_and_another_seed_others() -> None:
    _, asked = finished()
    assert run(new(budget=45), range(45)) == asked
    assert run(new(budget=60, seed=4), range(5)) != asked[:5]


def test_what_is_asked_later_teaches_more_than_random_pairs() -> None:
    live, _ = finished()
    wave = live.wave
    assert wave is not None
    assert wave.number >= 2
    assert wave.learned is not None
    designed, by_chance = (next_wave(replace(live._order(), random_share=share)) for share in (0.0, 1.0))
    assert designed.expected_error(100) < by_chance.expected_error(100)
    # what is learned does not depend on what was learned before, which may have been wrong
    first = next_wave(replace(live._order(), before=None)).learned
    assert first is not None
    assert designed.learned is not None
    assert np.array_equal(first.metric, designed.learned.metric)


def test_questions_are_chosen_for_the_shape_if_the_metric_is_wanted_up_to_scale() -> None:
    order = new(metric=METRIC, doubt=0)._order()
    assert order.shape
    assert not new(shape=False)._order().shape
    shape, raw = (next_wave(replace(order, shape=shape)) for shape in (True, False))
    assert shape.expected_error(100) < 0.9 * raw.expected_error(100)
    assert shape.expected_error(100, shape=False) > raw.expected_error(100, shape=False)


def test_an_error_of_the_size_counts_as_little_as_its_unit_is_large() -> None:
    rows = RNG(1).standard_normal((40, 4))
    m = svec(METRIC) / np.linalg.norm(METRIC)
    T = size_in_units(METRIC[None], 5.0, 4)[0]
    before, after = (np.linalg.inv(x.T @ x)[:3, :3] for x in (rows, rows @ T))
    assert np.trace(after) == pytest.approx(np.trace(before) - (1 - 0.2**2) * m @ before @ m)
    assert T @ size_in_units(METRIC[None], 0.2, 4)[0] == pytest.approx(np.eye(4), abs=1e-12)


# ------------------------------------------------------------------------------------------------- answers


def test_answers_may_come_late_out_of_order_incomplete_and_twice() -> None:
    live = new(answers=3)
    asked = {person: live.ask(person) for person in range(6)}
    live.tell(4, says(4, asked[4]))
    live.tell(1, says(1, asked[1])[:1])
    live.tell(2, [(*asked[2][0], "left"), (*asked[2][1], None), (*asked[2][2], "tie")])
    live.tell(3, [(*pair, "skip") for pair in asked[3]])
    assert live.people == 3
    told = live.answers_so_far()
    assert told.person.tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert told.weight.tolist() == [1, 1, 1, 1, 1, 0.5, 0.5]
    live.tell(1, says(1, asked[1]))  # the rest of them
    assert len(live.answers_so_far()) == 9
    live.tell("a stranger", [(IDS[0], IDS[1], "right")])
    assert live.people == 4


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([("item 0", "item 1", "up")], "choice='up'"),
        ([("item 0", "item 1", ["left"])], "choice=['left']"),
        ([("item 0", "nothing", "left")], "'nothing' is not in the catalogue"),
        ([("item 0", "item 0", "left")], "'item 0' is compared with itself"),
        (["left"], "(left, right, choice) was expected"),
    ],
)
def test_wrong_answers_are_named(answers: list[Any], said: str) -> None:
    with pytest.raises(DataError) as error:
        new().tell("ada", answers)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"random_share": 2}, "random_share=2"),
        ({"answers": 0}, "answers"),
        ({"covariance": "round"}, "covariance"),
        ({"settle": (("item 0", "item 1"), ("item 0", "x"))}, "'x'"),
        ({"settle": (("item 0", "item 1"),)}, "settle="),
        ({"settle": (("item 0", "item 1"), ("item 1", "item 0"))}, "with itself"),
        ({"within": -1}, "within"),
        ({"metric": np.eye(3)}, "metric"),
        ({"doubt": -1}, "doubt"),
        ({"ideal_points": np.ones((3, 3))}, "ideal_points"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        new(**options)


def test_the_stated_share_is_random_and_its_chance_is_kept() -> None:
    live, _ = finished()
    asked = [live.ask(person) for person in range(45)]
    at_random = [found for found in asked if found.purpose == "random"]
    assert 1 <= len(at_random) <= 15
    assert {found.propensity for found in at_random} == {0.1}
    assert {found.propensity for found in asked if found.purpose == "designed"} == {0.9}
    everybody = new(random_share=1.0)
    assert {everybody.ask(k).purpose for k in range(10)} == {"random"}


# ------------------------------------------------------------------------------------------------- within a person


def test_within_a_person_the_next_question_depends_on_their_answers_and_across_people_it_does_not() -> None:
    live, _ = finished()
    for adapt in ("across", "within"):
        study = new(adapt=adapt, random_share=0.0, budget=1000)
        study._state, study._wave = deepcopy(live._state), live._wave
        changed = 0
        for k in range(6):
            first = study.next_question(f"new {k}")
            assert first == study.ask(f"new {k}")[0]
            assert first is not None
            nexts = []
            for choice in ("left", "right"):
                nexts.append(study.next_question(f"new {k}", [(*first, choice)]))
            changed += nexts[0] != nexts[1]
            again = study.next_question(f"new {k}", [(*first, "right")])
            assert again is not None
            assert again == nexts[1]
            assert study.next_question(f"new {k}", [(*first, "right"), (*again, "left")]) is None
        assert (changed > 0) == (adapt == "within")
        assert ("their own answers" in study.summary()) == (adapt == "across")


def test_who_is_asked_at_random_is_not_adapted_to() -> None:
    live, _ = finished()
    study = new(adapt="within", random_share=1.0, budget=1000)
    study._state, study._wave = deepcopy(live._state), live._wave
    asked = study.ask("new")
    assert study.next_question("new", [(*asked[0], "left")]) == asked[1]


def test_the_next_question_tells_more_than_the_planned_one() -> None:
    live, _ = finished()
    wave = live.wave
    assert wave is not None
    assert wave.learned is not None
    source = Catalogue(ITEMS, np.arange(len(ITEMS)))
    answered, planned = np.array([[0, 1]]), np.array([[2, 3]])
    best = best_next_pair(source, wave, answered, np.array([1.0]), planned, 1.0, RNG(0))

    def worth(pair: np.ndarray) -> float:
        """Return what a pair is worth under the first judge, by the formula of `adaptive`."""
        natural = wave.learned.population.natural(wave.metrics[0])
        T = size_in_units(wave.metrics, 5.0, natural.size)[0]
        ahead = T @ (wave.known[0] / wave.people + wave.gained[0]) @ T
        covariance = T @ np.linalg.inv(ahead)[:, :3]
        sets = np.array([[1.0, -1.0], [1.0, 1.0]])
        vectors = ITEMS[np.concatenate([answered, pair[None]])][None]
        logs, scores = answered_scores(vectors, sets, wave.metrics[0], wave.learned.population, 1.0)
        assert scores.shape == (1, 2, natural.size)
        chance = np.exp(logs[0]) / np.exp(logs[0]).sum()
        return float(chance @ np.sum((scores[0] @ covariance) ** 2, axis=1))

    assert worth(best) > worth(planned[0])


def test_an_estimator_that_is_told_of_adaptive_questions_leaves_out_the_test_that_does_not_apply() -> None:
    told = table(150)
    for adaptive in (False, True):
        model = PopulationMetric(ITEMS, starts=1, adaptive=adaptive).fit(told.pairs, told.y, users=told.person)
        assert np.isnan(model.question_bias_) == adaptive


# ------------------------------------------------------------------------------------------------- kinds of questions

GRID = np.stack(np.meshgrid(range(7), range(7)), axis=-1).reshape(-1, 2) / 2.0
LINES = np.arange(len(ITEMS)) % 6  # six lines through the origin, and items that lie nowhere
LINES[:5] = -1
ON_LINES = np.linalg.norm(ITEMS, axis=1)[:, None] * np.column_stack([np.cos(LINES / 2.0), np.sin(LINES / 2.0)])


def same_questions(live: LiveDesign, items: np.ndarray, people: range) -> list[np.ndarray]:
    """Ask and tell people who answer by the Euclidean metric, and return pairs (m, 2) of each."""
    asked = []
    for person in people:
        pairs, rng = np.array(live.ask(person).pairs), RNG([8, person])
        x, x_, u = items[pairs[:, 0]], items[pairs[:, 1]], rng.standard_normal(2)
        psi = np.sum((x - x_) * (x + x_ - 2 * u), axis=1)
        y = np.where(rng.random(len(psi)) < expit(psi), 1, -1)
        live.tell(person, [(a, b, c) for (a, b), c in zip(pairs.tolist(), y.tolist(), strict=True)])
        asked.append(pairs)
    return asked


def test_within_subspaces_everybody_is_asked_in_one_of_them(tmp_path: Path) -> None:
    live = LiveDesign(ON_LINES, kind="within", subspaces=LINES, answers=2, random_share=0.3, seed=1)
    asked = same_questions(live, ON_LINES, range(30))
    assert live.learned is not None  # the questions have been chosen from answers
    homes = [set(LINES[pairs].ravel().tolist()) for pairs in asked]
    assert all(len(home) == 1 for home in homes)
    assert len(set.union(*homes)) > 2
    assert -1 not in set.union(*homes)
    assert all(np.all(pairs[:, 0] != pairs[:, 1]) for pairs in asked)
    live.save(tmp_path / "live.npz")
    again = LiveDesign.resume(tmp_path / "live.npz", ON_LINES)
    assert again.kind == "within"
    assert again.ask("new").pairs == live.ask("new").pairs


def test_matched_questions_are_parallel() -> None:
    live = LiveDesign(GRID, kind="matched", answers=2, tolerance=0.1, random_share=0.3, seed=1)
    asked = np.array(same_questions(live, GRID, range(30)))
    assert live.learned is not None
    delta = GRID[asked[:, :, 0]] - GRID[asked[:, :, 1]]
    # sides are shuffled, so that parallel questions may point either way
    apart = np.minimum(*(np.linalg.norm(delta[:, 0] + sign * delta[:, 1], axis=1) for sign in (1, -1)))
    assert apart.max() < 1e-12
    pairs, people = asked.reshape(-1, 2), np.repeat(np.arange(30), 2)
    told = live.answers_so_far()
    assert np.array_equal(told.pairs, pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotIdentifiedWarning)  # people are few
        assert MatchedMetric(GRID, ridge=1.0).fit(pairs, told.y, users=people).n_sets_ == 30


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "within"}, "subspaces="),
        ({"subspaces": LINES}, "kind='within' go together"),
        ({"kind": "within", "subspaces": LINES, "answers": 1}, "ask at least 2"),
        ({"kind": "within", "subspaces": np.arange(len(ITEMS)), "answers": 2}, "no subspace holds two items"),
        ({"kind": "matched", "answers": 3}, "answers=3 is odd"),
        ({"kind": "matched", "tolerance": 1e-12}, "no parallelogram"),
        ({"kind": "matched", "adapt": "within"}, "adapt='within' has no use"),
        ({"kind": "any"}, "kind='any'"),
    ],
)
def test_kinds_that_do_not_fit_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(CrowdmetricError, match=said):
        LiveDesign(ON_LINES, **options)


# ------------------------------------------------------------------------------------------------- background, files


class Later(Executor):
    """Runs what it is given when it is told to."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Any, Any]] = []

    def submit(self, job: Any, /, *args: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.jobs.append((future, job, args))
        return future

    def work(self) -> None:
        for future, job, args in self.jobs:
            future.set_result(job(*args))
        self.jobs.clear()


def test_ask_does_not_wait_for_a_redesign_in_the_background() -> None:
    later = Later()
    live = new(executor=later)
    assert live.ask(0).purpose == "random"  # nothing is designed yet
    assert live.wave is None
    assert len(later.jobs) == 1
    live.ask(1)
    assert len(later.jobs) == 1  # one at a time
    later.work()
    live.ask(2)
    assert live.wave is not None
    # the same questions as without an executor: a re-design depends on its order alone
    assert np.array_equal(live.wave.bundles, _first_wave().bundles)


def test_wait_takes_up_a_redesign_in_the_background() -> None:
    later = Later()
    live = new(executor=later)
    assert not live.wait(0.01)  # it is begun, and not ready
    assert live.wave is None
    Timer(0.05, later.work).start()
    assert live.wait()
    assert live.wave is not None
    assert live.wave.number == 0
    assert not live.wait()  # nothing is due


def test_a_redesign_that_fails_does_not_end_a_study() -> None:
    later = Later()
    live = new(executor=later)
    live.ask(0)
    later.jobs[0][0].set_exception(FloatingPointError("it overflows"))
    later.jobs.clear()
    assert live.ask(1).purpose == "random"
    assert "it overflows" in live.summary()
    assert not later.jobs  # not again at once


@cache
def _first_wave() -> Any:
    live = new()
    live.ask(0)
    return live.wave


def test_a_study_that_is_saved_and_resumed_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    _, asked = finished()
    live = new(budget=45)
    assert run(live, range(35)) == asked[:35]
    live.save(tmp_path / "study.npz")
    again = LiveDesign.resume(tmp_path / "study.npz", ITEMS, item_ids=IDS)
    assert again.people == 35
    assert again.forecasts == live.forecasts
    assert run(again, range(35, 45)) == asked[35:]
    with pytest.raises(DataError, match="other items"):
        LiveDesign.resume(tmp_path / "study.npz", ITEMS + 1.0)
    with pytest.raises(DataError, match="item_ids"):
        LiveDesign.resume(tmp_path / "study.npz", ITEMS)
    (tmp_path / "other.npz").write_bytes(b"nothing")
    with pytest.raises(DataError, match="no saved live design"):
        LiveDesign.resume(tmp_path / "other.npz", ITEMS)


# ------------------------------------------------------------------------------------------------- learning


def table(people: int, m: int = 2, seed: int = 0, careless: float = 0.0) -> AnswerTable:
    rng = RNG(seed)
    pairs = rng.integers(len(ITEMS), size=(people * m, 2))
    pairs[:, 1] = np.where(pairs[:, 0] == pairs[:, 1], (pairs[:, 1] + 1) % len(ITEMS), pairs[:, 1])
    person = np.repeat(np.arange(people), m)
    u = rng.standard_normal((people, D))[person]
    x, x_ = ITEMS[pairs[:, 0]], ITEMS[pairs[:, 1]]
    chance = expit(np.sum(((x - x_) @ METRIC) * (x + x_ - 2 * u), axis=1))
    chance = np.where(rng.random(len(chance)) < careless, 1 - chance, chance)
    return AnswerTable(person, pairs, np.where(rng.random(len(chance)) < chance, 1.0, -1.0), np.ones(len(chance)))


def law_density(people: int) -> tuple[LawDensity, np.ndarray]:
    """Return the posterior of a law, and draws of its expansion, with items in their own units."""
    answers = table(people)
    crowd = crowd_in_memory(read_rows(answers.pairs, answers.y, answers.person, answers.weight, ITEMS, Logistic(1.0)))
    problem = PopulationProblem.of(crowd, STRUCTURES["isotropic"], Logistic(1.0), LocalEngine(1), largest_grid=2)
    fit = evidence_fit(problem, Parametrization(D, "psd", False, 0, None), tolerance=1e-2)
    return LawDensity(problem, 0.0), nearest_metrics(posterior_of(problem, fit).draws(300)[:, fit.layout.metric])


def test_the_slope_of_the_posterior_of_a_law_is_that_of_differences() -> None:
    density, draws = law_density(60)
    x = density.points(draws[:3], np.array([0.2, -0.1, -0.3]))
    _, slope = density(x)
    for j, step in enumerate(1e-4 * np.eye(x.shape[1])):
        np.testing.assert_allclose(
            (density(x + step)[0] - density(x - step)[0]) / 2e-4, slope[:, j], rtol=1e-4, atol=1e-4
        )


def test_a_trajectory_that_runs_away_has_no_density() -> None:
    density, draws = law_density(60)
    x = density.points(draws[:2], np.array([0.2, -0.1, -0.3]))
    x[1, 0] = np.inf
    value, slope = density(x)
    assert np.isfinite(value[0])
    assert value[1] == -np.inf
    assert np.all(np.isfinite(slope[0]))


def test_draws_are_from_the_likelihood_itself_once_the_size_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (learn(ITEMS, table(people), "isotropic", 1.0) for people in (20, 400))
    with monkeypatch.context() as patch:
        patch.setattr("crowdmetric.design.learning.is_worth_exact_draws", lambda problem: False)
        expanded = [learn(ITEMS, table(people), "isotropic", 1.0) for people in (20, 400)]
    assert np.array_equal(few.draws, expanded[0].draws)
    assert len(many.draws) == DRAWS
    # with many answers both are the same but for chance
    spread = expanded[1].draws.std(axis=0)
    assert np.all(np.abs(many.draws.mean(axis=0) - expanded[1].draws.mean(axis=0)) < 0.4 * spread)
    np.testing.assert_allclose(many.draws.std(axis=0), spread, rtol=0.3)


def test_a_law_is_doubted_if_and_only_if_answers_are_not_its_own() -> None:
    learned = learn(ITEMS, table(400), "isotropic", 1.0)
    new_ones = np.ones(800, dtype=np.bool_)
    z = [surprise(ITEMS, table(400, seed=k), new_ones, learned, 1.0)[0] for k in range(2, 6)]
    assert min(z) > -4.0
    assert max(z) < 4.0
    assert why_doubted(ITEMS, table(400, seed=2), new_ones, learned, 1.0) == ""
    assert "worse predicted" in why_doubted(ITEMS, table(400, seed=2, careless=0.5), new_ones, learned, 1.0)
    # a law that was learned from few people is not doubted: it predicts badly in any case
    few = replace(learned, people=5 * learned.parameters - 1)
    assert why_doubted(ITEMS, table(400, seed=2, careless=0.5), new_ones, few, 1.0) == ""
    nobody = np.zeros(800, dtype=np.bool_)
    assert np.isnan(surprise(ITEMS, table(400), nobody, learned, 1.0)[0])


@pytest.mark.parametrize(("wrong", "doubt"), [(1, ""), (2, "answers are odd")])
def test_a_law_that_new_answers_put_right_is_not_doubted(monkeypatch: Any, wrong: int, doubt: str) -> None:
    """`wrong` laws are wrong: the one before, also the one fitted with the new answers."""
    live, _ = finished()
    order = live._order()
    assert order.before is not None
    judged: list[Any] = []

    def doubted(*given: Any) -> str:
        judged.append(given[3])
        return "answers are odd" if len(judged) <= wrong else ""

    monkeypatch.setattr("crowdmetric.design.waves.why_doubted", doubted)
    wave = next_wave(order)
    assert wave.doubt == doubt
    assert judged[0] is order.before.learned
    assert wave.learned is judged[-1]
    assert len(judged) == 2


def test_a_doubted_design_falls_back_to_random_questions_and_says_why() -> None:
    live, _ = finished()
    wave = live.wave
    assert wave is not None
    doubted = new(budget=1000)
    doubted._state, doubted._wave = live._state, replace(wave, doubt="answers are odd", people=10**6)
    assert {doubted.ask(f"new {k}").purpose for k in range(8)} == {"random"}
    assert "fallen back: answers are odd" in doubted.summary()


# ------------------------------------------------------------------------------------------------- waves


def test_the_next_wave_is_designed_from_answers_in_a_file(tmp_path: Path, capsys: Any) -> None:
    told = table(80)
    write_columns({"item_id": np.array(IDS), "a": ITEMS[:, 0], "b": ITEMS[:, 1]}, tmp_path / "items.csv")
    columns = {"user": told.person, "left": np.array(IDS)[told.pairs[:, 0]], "right": np.array(IDS)[told.pairs[:, 1]]}
    write_columns(columns | {"choice": np.where(told.y < 0, "left", "right")}, tmp_path / "answers.csv")
    files = [str(tmp_path / name) for name in ("items.csv", "answers.csv", "next.csv")]
    call = ["design", files[0], "--from", files[1], "--people", "50", "--out", files[2]]
    assert main([*call, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["people"] == 50
    assert 0 < said["expected_shape_error"] < 1
    assert "160 answers of 80 people" in said["remarks"][0]
    assert "5 of the 50 people get random pairs" in said["remarks"][0]
    written = read_columns(files[2])
    assert len(written["person"]) == 100
    assert set(written["left"]) <= set(IDS)
    for wrong, told_of in ((["--doubt", "0.5"], "--doubt has no effect with --from"), (["--kind", "random"], "--kind")):
        with pytest.raises(SystemExit):
            main([*call, *wrong])
        assert told_of in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["design", files[0], "--people", "50", "--out", files[2], "--random-share", "0.2"])


# ------------------------------------------------------------------------------------------------- the end


def test_a_study_ends_with_its_budget_or_when_the_error_is_reached() -> None:
    live, _ = finished()
    stop = live.done()
    assert stop
    assert "budget of 45" in stop.reason
    easy = new(within=5.0)
    assert not easy.done()
    run(easy, range(25))
    assert "within" in easy.done().reason
    assert easy.done()


def test_forecasts_are_kept_and_said() -> None:
    live, _ = finished()
    assert len(live.forecasts) >= 2
    assert [f.people for f in live.forecasts] == sorted({f.people for f in live.forecasts})
    last = live.forecasts[-1]
    assert last.more_people is not None
    assert last.more_people > 0
    assert f"{last.more_people:,} more people" in live.summary()
    assert last.at_budget is not None
    assert last.at_budget < last.error
    assert last.more_people_interval is None  # two metrics were drawn
    assert last.at_budget_interval is None
    wave = live.wave
    assert wave is not None
    again = live._forecast(replace(wave, later=wave.gained))
    assert again.more_people_interval is not None
    assert again.at_budget_interval is not None
    fewest, most = again.more_people_interval
    assert fewest is not None
    assert again.more_people is not None
    assert most is not None
    assert fewest < again.more_people < most
    assert f"(90 % interval: {fewest:,} to {most:,})" in again.summary()
    assert again.at_budget_interval[0] <= (again.at_budget or 0.0) <= again.at_budget_interval[1] <= again.error
    assert "90 % interval" not in Forecast(10, 0.5, 0.1, 20, 0.3).summary()
    assert "20 to any number" in Forecast(10, 0.5, 0.1, 40, None, (20, None)).summary()
    assert "before the first fit" in Forecast(0, float("inf"), 0.1, None).summary()
    assert "will not be reached" in Forecast(10, 0.5, 0.1, None).summary()
    assert "too little is known yet" in Forecast(10, 0.6, 0.1, None).summary()


def test_people_for_inverts_the_fall_of_the_error() -> None:
    more = np.concatenate([[0.0], np.geomspace(1.0, 1e5, 60)])
    errors = 0.14 * np.sqrt(100.0 / (100.0 + more))
    assert people_for(0.10, errors, more) == pytest.approx(100 * (1.4**2 - 1), rel=0.02)
    assert people_for(0.2, errors, more) == 0
    assert people_for(1e-9, errors, more) is None


def test_precisions_add_up_in_a_forecast() -> None:
    more = np.array([0.0, 100.0, 300.0, 1e8])
    expected = 0.7 / np.sqrt(100.0 + more)[None]
    # where the error now is what Fisher information says, it falls with the square root of the number of people
    assert errors_ahead(1.3 * expected[0, 0], 1.3, expected)[1] == pytest.approx(1.3 * expected[0])
    # an error that is smaller, by a prior, does not fall as fast, and is the same with many people
    prior = errors_ahead(0.05, 1.3, expected)[1]
    assert prior[0] == 0.05
    assert 0.05 * expected[0, 1] / expected[0, 0] < prior[1] < 0.05
    assert prior[-1] == pytest.approx(1.3 * expected[0, -1], rel=1e-3)
    # also where the answers alone do not determine the metric yet
    assert errors_ahead(0.05, 1.3, np.array([[np.inf, 0.05 / 1.3]]))[1, 1] == pytest.approx(0.05 / np.sqrt(2))
    # a metric under which nothing can be learned does not decide
    assert errors_ahead(0.5, 1.3, np.array([[1.0, 0.1], [1.0, 0.1], [9.0, 8.0]]))[1, 1] < 0.2


def test_intervals_of_forecasts_hold_what_a_metric_like_those_drawn_brings() -> None:
    rng, inside, narrower = RNG(0), 0, 0
    for _ in range(2000):
        # what is learned per person differs by a factor between metrics, and the true one is one more of them
        per_person = np.exp(0.4 * rng.standard_normal(6))
        truth, expected = per_person[0], 0.7 / np.sqrt(np.multiply.outer(per_person[1:], [100.0, 1100.0]))
        fall = -0.5 * np.log1p(0.1**2 * truth * 1000.0 / (0.7 * 1.5) ** 2)
        slip = np.hypot(NOISE, SLIPS * fall) * rng.standard_normal()
        came = 0.1 * np.exp(fall + slip)
        low, middle, high = errors_ahead(0.1, 1.5, expected)
        assert low[0] == middle[0] == high[0] == 0.1
        assert low[1] < middle[1] < high[1] <= 0.1
        inside += low[1] <= came <= high[1]
        narrower += errors_ahead(0.1, 1.5, expected[:3])[2, 1] > high[1]
    assert 0.88 < inside / 2000 < 0.93
    assert narrower > 1200  # fewer metrics say less
    # two metrics say nothing about others
    assert np.isnan(errors_ahead(0.1, 1.5, expected[:2])[::2, 1]).all()
    assert errors_ahead(0.1, 1.5, expected[:2])[1, 1] < 0.1


def test_a_forecast_counts_on_intervals_that_are_widened_less_with_more_people() -> None:
    wave = _first_wave_with_a_law()
    assert wave.learned is not None
    widening = wave.learned.widening(more=np.array([0.0, 20.0, 1e6]))
    assert widening[0] == wave.learned.widening() > widening[1] > widening[2] == pytest.approx(1.0, abs=1e-3)
    now, ahead = wave.radii_ahead(np.array([0.0, 1e6])).T
    assert now == pytest.approx(wave.learned.radius())
    # with so many people only the answers to come count, and they are not widened
    error = wave.learned.errors()
    plain = wave.learned.radius() / wave.learned.widening() / np.sqrt(np.mean(error**2))
    come = plain * np.exp(np.median(np.log(wave._expected_errors(1e6, wave.later, True))))
    assert ahead[1] == pytest.approx(come * (EXACT_WIDER if wave.learned.will_be_exact else 1.0), rel=0.01)


def _first_wave_with_a_law() -> Wave:
    live = new(budget=45)
    run(live, range(21))
    assert live.wave is not None
    return live.wave


def test_a_forecast_counts_on_questions_for_the_metric_that_turns_out_to_be_true() -> None:
    live, _ = finished()
    wave = live.wave
    assert wave is not None
    assert wave.learned is not None
    assert len(wave.later) == number_of_draws(wave.learned, len(wave.metrics)) < len(wave.metrics)
    # questions chosen for one metric tell at least as much under it as questions that must be good for all
    ahead = np.array([0.0, 200.0])
    fixed = replace(wave, later=wave.gained[: len(wave.later)])
    assert wave.radii_ahead(ahead)[1, 0] == fixed.radii_ahead(ahead)[1, 0]
    assert wave.radii_ahead(ahead)[1, 1] < fixed.radii_ahead(ahead)[1, 1]


def test_the_guess_is_designed_for_until_there_are_answers_enough() -> None:
    guess = guess_about_items(ITEMS, METRIC, 0.1, 1.0, None, RNG(0))
    few, many = (learn(ITEMS, table(people), "isotropic", 1.0) for people in (12, 2000))
    metrics, people = thought_possible(guess, "isotropic", None, 8)
    assert np.array_equal(metrics, guess.to_choose[:8])
    early, near = thought_possible(guess, "isotropic", few, 8)
    assert np.array_equal(early[4:], guess.to_choose[4:8])
    # 12 people and 6 parameters: what was learned counts as much as the guess
    drawn, usual = few.some_draws(4), np.mean(np.trace(metrics, axis1=1, axis2=2))
    sizes = np.trace(early[:4], axis1=1, axis2=2)
    assert sizes == pytest.approx(np.sqrt(usual * np.trace(drawn, axis1=1, axis2=2)))
    assert near.mean == pytest.approx(0.5 * (people.mean + few.ideal_mean))
    late, there = thought_possible(guess, "isotropic", many, 8)
    assert not any(np.array_equal(one, other) for one, other in zip(late, guess.to_choose, strict=False))
    assert shape_error(late.mean(axis=0), many.metric) < 0.2
    assert there.mean == pytest.approx(many.ideal_mean, abs=0.1)


def test_a_confidence_sequence_holds_at_all_looks_together_and_an_ordinary_interval_does_not() -> None:
    rng = RNG(0)
    looks = np.unique(np.geomspace(20, 20_000, 40).astype(int))
    runs, sequence, ordinary = 400, 0, 0
    for _ in range(runs):
        sums = np.cumsum(rng.standard_normal(looks[-1]))[looks - 1]
        found = [always_valid(s / n, 1.0 / n, rho=looks[0]) for s, n in zip(sums, looks, strict=True)]
        sequence += any(one.is_settled for one in found)
        ordinary += bool(np.any(np.abs(sums) / np.sqrt(looks) > 1.645))
    assert sequence / runs <= 0.10
    assert ordinary / runs > 0.20


def test_a_comparison_of_distances_is_settled() -> None:
    a, b, c = IDS[0], IDS[1], IDS[2]
    apart = {(x, y): np.sum((ITEMS[IDS.index(x)] - ITEMS[IDS.index(y)]) ** 2) for x, y in [(a, b), (a, c)]}
    live = new(settle=((a, b), (a, c)), budget=300)
    assert "nothing has been learned" in live.done().reason
    run(live, range(25))
    found = live.settled()
    assert found is not None
    assert found.low < found.estimate < found.high
    assert apart[a, b] != apart[a, c]
    ratio = log_ratios(METRIC[None], ITEMS[0] - ITEMS[1], ITEMS[0] - ITEMS[2])[0]
    assert found.low < ratio < found.high
    assert ("farther apart" in live.done().reason) == found.is_settled
