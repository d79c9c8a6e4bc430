"""The rest of the verdict: one population, many dimensions, who is asked what, what is out of reach, what helps."""

from __future__ import annotations

import json
from math import ceil

import numpy as np
import pytest
from scipy.special import expit

from crowdmetric.cli import main
from crowdmetric.identifiability import diagnose, diagnosing, implicit
from crowdmetric.identifiability.answer_map import answer_rows
from crowdmetric.identifiability.assignment import check_assignment, disjoint_questions
from crowdmetric.identifiability.person_spans import SpanTally
from crowdmetric.identifiability.questions import read_questions
from crowdmetric.identifiability.spectrum import common_spectrum, decompose, negligible_of, sum_up
from crowdmetric.simulate import simulate_crowd
from crowdmetric.symmetric import smat, svec


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def random_pairs(N: int, T: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    left = rng.integers(0, N, T)
    return np.column_stack([left, (left + rng.integers(1, N, T)) % N])


def rows_of(items: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Δ (T, p) and δ (T, d), an answer at a time."""
    left, right = items[pairs[:, 0]], items[pairs[:, 1]]
    Delta = [svec(np.outer(x, x) - np.outer(y, y)) for x, y in zip(left, right, strict=True)]
    return np.array(Delta), left - right


# --------------------------------------------------------------------------------------------- one population


def item_sets() -> dict[str, np.ndarray]:
    X = normal(120, 3)
    coin = np.random.default_rng(1).integers(0, 2, (120, 3)).astype(float)
    line = normal(120, 1, seed=2) * normal(4, 3, seed=3)[np.arange(120) % 4]
    return {
        "general position": X,
        "unit length": X / np.linalg.norm(X, axis=1, keepdims=True),
        "one yes-no feature": np.column_stack([coin[:, 0], X[:, 1:]]),
        "yes-no features": coin,
        "five items": X[:5],
        "four lines": line,
    }


EXPECTED = {
    "general position": 6,
    "unit length": 5,
    "one yes-no feature": 5,
    "yes-no features": 3,
    "five items": 1,
    "four lines": 4,
}


def questions_about(name: str) -> tuple[np.ndarray, np.ndarray]:
    items = item_sets()[name]
    if name == "four lines":  # compare within a line
        start = np.arange(240) % 120
        return items, np.column_stack([start, (start + 4 * (1 + np.arange(240) // 120)) % 120])
    return items, random_pairs(len(items), 300)


def singular_values_of_information(items: np.ndarray, pairs: np.ndarray, free: bool) -> np.ndarray:
    """Of the Fisher information about M of one answer per person, v ~ N(μ, Σ), with μ (and Σ, if free) profiled out.

    Probabilities by quadrature, their derivatives by differences.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    Delta, delta = rows_of(items, pairs)
    d, p = delta.shape[1], Delta.shape[1]
    rng = np.random.default_rng(0)
    G, H = rng.standard_normal((2, d, d))
    theta = np.concatenate([svec(G @ G.T / d), 0.5 * rng.standard_normal(d), svec(H @ H.T / d + 0.3 * np.eye(d))])

    def probability(theta: np.ndarray) -> np.ndarray:
        spread = np.sqrt(np.einsum("ti,ij,tj->t", delta, smat(theta[p + d :]), delta))
        mean = Delta @ theta[:p] + delta @ theta[p : p + d]
        return expit(mean[:, None] + spread[:, None] * nodes) @ weights / weights.sum()

    steps = 1e-4 * np.eye(theta.size)
    J = np.column_stack([(probability(theta + h) - probability(theta - h)) / 2e-4 for h in steps])
    q = probability(theta)
    J /= np.sqrt(q * (1 - q))[:, None]
    nuisance = J[:, p:] if free else J[:, p : p + d]
    U, values, _ = np.linalg.svd(nuisance, full_matrices=False)
    U = U[:, values > 1e-7 * values[0]]
    values = np.linalg.svd(J[:, :p] - U @ (U.T @ J[:, :p]), compute_uv=False)
    return values / values[0]


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("free", [False, True])
def test_offsets_reveal_what_the_fisher_information_of_a_free_population_says(name: str, free: bool) -> None:
    items, pairs = questions_about(name)
    found = diagnose(items, pairs, np.arange(len(pairs)), covariance="free")
    values = singular_values_of_information(items, pairs, free)
    assert found.population_rank == np.sum(values > 1e-5) == EXPECTED[name]
    assert found.rank == 0
    assert found.ceiling == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_what_a_population_leaves_open_changes_no_answer(name: str) -> None:
    """A in the null space of P: M + A, with everybody's v shifted by one b, has the same ψ for every question."""
    items, pairs = questions_about(name)
    questions = read_questions(items, pairs, np.arange(len(pairs)))
    found = common_spectrum(sum_up(questions).common, questions.unit)
    assert len(found.directions) == 6 - EXPECTED[name]
    Delta, delta = rows_of(items, pairs)
    for A in found.directions:
        change = Delta @ svec(A)
        b = np.linalg.lstsq(delta, change, rcond=None)[0]
        np.testing.assert_allclose(delta @ b, change, atol=1e-8)


def test_one_population_reveals_at_least_what_arbitrary_people_do() -> None:
    for args in [(4, 7, 1, 3, 3), (5, 6, 2, 3, 4), (4, None, None, 6, 6), (4, None, None, 1, 9)]:
        crowd = simulate_crowd(*args, seed=1)
        sums = sum_up(read_questions(crowd.items, crowd.pairs, crowd.users))
        p = len(sums.S)
        G, W, D = sums.common[:p, :p], sums.common[:p, p:], sums.common[p:, p:]
        P = G - W @ np.linalg.pinv(D) @ W.T
        assert np.linalg.eigvalsh(P - sums.S)[0] >= -1e-10 * np.linalg.norm(P)
        if args[3] == 1:  # one person is their own population
            np.testing.assert_allclose(P, sums.S, atol=1e-10 * np.linalg.norm(P))


def test_neither_the_origin_nor_the_units_matter() -> None:
    crowd = simulate_crowd(4, 7, 2, users=3, comparisons=3, seed=0)
    found = diagnose(crowd.items, crowd.pairs, crowd.users)
    far = diagnose(crowd.items + 1e4, crowd.pairs, crowd.users)
    assert (far.rank, far.silent) == (found.rank, found.silent)
    assert far.smallest == pytest.approx(found.smallest, rel=1e-5)
    units = np.array([1e-6, 1.0, 1e3, 1e6])
    uneven = diagnose(crowd.items * units, crowd.pairs, crowd.users)
    assert (uneven.rank, uneven.population_rank, uneven.silent) == (found.rank, found.population_rank, found.silent)


def test_directions_of_uneven_features_are_in_the_units_that_were_given() -> None:
    crowd = simulate_crowd(3, 4, 1, users=3, comparisons=3, seed=0)
    items = crowd.items * np.array([1e-2, 1.0, 1e2])
    found = diagnose(items, crowd.pairs, crowd.users)
    assert len(found.unidentified_directions) == found.dimensions - found.rank == 2
    a = svec(found.unidentified_directions)
    np.testing.assert_allclose(a @ a.T, np.eye(2), atol=1e-10)
    for k in np.unique(crowd.users):
        Delta, delta = rows_of(items, crowd.pairs[crowd.users == k])
        R = np.eye(len(delta)) - delta @ np.linalg.pinv(delta)
        np.testing.assert_allclose(R @ Delta @ a.T, 0.0, atol=1e-9 * np.abs(Delta).max())


# -------------------------------------------------------------------------------------------- many dimensions

CROWDS = {
    "general position": (6, None, None, 5, 8),
    "planes, all": (8, 20, 2, 3, 4),
    "planes, some": (10, 8, 2, 30, 4),
    "lines": (9, 20, 1, 4, 3),
    "nobody spares": (10, None, None, 3, 4),
}


# rows that are decomposed directly, and size of the sketch: each way to the rank has its turn
WAYS = {"directly": (2500, 0), "some people for all": (100, 2048), "sketch": (0, 2048), "random directions": (0, 20)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CROWDS)
def test_products_alone_tell_what_the_whole_matrix_does(name: str, way: str, monkeypatch) -> None:
    direct, most = WAYS[way]
    monkeypatch.setattr(implicit, "DIRECT", direct)
    monkeypatch.setattr(implicit, "SKETCH", most)
    crowd = simulate_crowd(*CROWDS[name], seed=0)
    questions = read_questions(crowd.items, crowd.pairs, crowd.users)
    sums, tally = sum_up(questions), SpanTally()
    own, everybody = answer_rows(questions, tally)
    assert (tally.silent, tally.spare, tally.span) == (sums.tally.silent, sums.tally.spare, sums.tally.span)
    dense = [decompose(sums.S, negligible_of(sums.tally), questions.unit), common_spectrum(sums.common, questions.unit)]
    p = len(sums.S)
    assert (own is None) == (name == "nobody spares")
    for rows, whole in zip([own, everybody], dense, strict=True):
        if rows is None:
            continue
        found = implicit.explore(rows, questions.unit)
        assert found.low <= whole.rank <= found.high
        assert found.rank <= whole.rank
        assert (found.confidence == "") == (max(rows.most, rows.own_rank) <= direct)
        if way != "random directions" or whole.rank in (p, 2):
            assert found.rank == found.low == found.high == whole.rank
        assert found.largest == pytest.approx(whole.largest, rel=1e-2)
        if way == "directly":
            assert found.smallest == pytest.approx(whole.smallest, rel=1e-6)
        else:
            assert whole.smallest * 0.99 <= found.smallest <= 2.5 * whole.smallest
        assert (len(found.directions) > 0) == (whole.rank < p)
        between = crowd.items[:3] - crowd.items[[-1, -2, -3]]
        np.testing.assert_allclose(found.share(between), whole.share(between), atol=1e-6)
        for A in found.directions:
            assert np.sum(rows.apply(A) ** 2) <= 1e-9 * whole.largest


def test_some_people_stand_for_all_without_any_solve(monkeypatch) -> None:
    crowd = simulate_crowd(*CROWDS["planes, some"], seed=0)
    questions = read_questions(crowd.items, crowd.pairs, crowd.users)
    own, _ = answer_rows(questions, SpanTally())
    assert own is not None
    assert own.own_rank == 480
    monkeypatch.setattr(implicit, "DIRECT", 100)
    monkeypatch.setattr(implicit, "lsmr", None)
    found = implicit.explore(own, questions.unit)
    whole = np.linalg.eigvalsh(sum_up(questions).S)
    assert found.rank == 24
    assert (found.smallest, found.largest) == pytest.approx((whole[-24], whole[-1]), rel=1e-6)


def test_the_operator_and_its_adjoint_belong_together() -> None:
    crowd = simulate_crowd(5, 4, 2, users=3, comparisons=4, seed=0)
    questions = read_questions(crowd.items, crowd.pairs, crowd.users)
    own, everybody = answer_rows(questions, SpanTally())
    sums = sum_up(questions)
    assert own is not None
    for rows in (own, everybody):
        X, w = normal(5, 5), normal(rows.n_rows)
        X = X + X.T
        assert rows.apply(X) @ w == pytest.approx(svec(X) @ svec(rows.adjoint(w)))
    a = svec(X)
    assert np.sum(own.apply(X) ** 2) == pytest.approx(a @ sums.S @ a)


def test_beyond_two_hundred_features() -> None:
    """d = 210: p = 22,155, which is never written out as a square."""
    few = simulate_crowd(210, 12, 2, users=3, comparisons=4, seed=0)
    found = diagnose(few.items, few.pairs, few.users)
    assert found.rank_bounds == (36, 36)  # three degrees of freedom a plane
    assert found.rank == 36
    assert "36 of 22,155" in found.summary()
    assert found.population_rank == 36
    a = svec(found.unidentified_directions)
    np.testing.assert_allclose(a @ a.T, np.eye(len(a)), atol=1e-8)
    generic = simulate_crowd(210, None, None, users=40, comparisons=5, seed=0)
    found = diagnose(generic.items, generic.pairs, generic.users, covariance="free")
    assert (found.rank, found.silent) == (0, 40)
    assert found.population_bounds == (0, 0)  # 200 answers, 210 dimensions to shift people in
    assert "can teach nothing either" in found.summary()
    found = diagnose(generic.items, generic.pairs, generic.users)
    assert found.population_bounds == (0, 22_155)  # what spreads add is not computed, and not denied
    assert "at most 22,155 degrees of freedom (what the spread of people adds was not computed" in found.summary()
    assert len(found.unidentified_directions) > 0


def test_what_is_not_settled_is_not_claimed(monkeypatch) -> None:
    for name, value in (("DIRECT", 0), ("SKETCH", 20), ("MOST_ITERATIONS", 3)):
        monkeypatch.setattr(implicit, name, value)
    monkeypatch.setattr(diagnosing, "LARGEST", 0)
    crowd = simulate_crowd(10, None, None, users=40, comparisons=12, seed=0)  # 55 of 55, in truth
    found = diagnose(crowd.items, crowd.pairs, crowd.users)
    assert (found.rank, found.rank_bounds, found.identified) == (20, (20, 55), False)
    assert "20 to 55 of 55" in found.summary()
    assert "did not settle how many more" in found.confidence
    assert len(found.unidentified_directions) == 0


def test_diagnose_is_the_same_either_way(monkeypatch) -> None:
    crowd = simulate_crowd(7, 9, 2, users=4, comparisons=4, seed=3)
    dense = diagnose(crowd.items, crowd.pairs, crowd.users)
    monkeypatch.setattr(diagnosing, "LARGEST", 0)
    monkeypatch.setattr(implicit, "DIRECT", 0)
    found = diagnose(crowd.items, crowd.pairs, crowd.users)
    for name in ("identified", "rank", "population_rank", "silent_reasons", "spare", "span", "rank_bounds"):
        assert getattr(found, name) == getattr(dense, name), name
    assert "probability one" in found.confidence
    assert dense.confidence == ""


def test_equal_items_say_nothing_in_any_dimension() -> None:
    for d in (3, 210):
        found = diagnose(np.zeros((4, d)), [[0, 1], [2, 3]])
        assert (found.rank, found.population_rank, found.silent_reasons["equal items"]) == (0, 0, 1)


# --------------------------------------------------------------------------------------- who adds nothing, and why


def test_people_who_add_nothing_are_counted_by_reason() -> None:
    items = np.concatenate([normal(20, 3), np.zeros((2, 3))])
    a, b, delta = normal(3, 3, seed=5)
    items = np.concatenate([items, [a + delta, a - delta, b + delta, b - delta]])
    asked = {
        "once": [(0, 1)],
        "twice": [(2, 3), (4, 5)],
        "thrice": [(2, 3), (4, 5), (6, 7)],
        "in a circle": [(8, 9), (9, 10), (10, 8)],
        "again": [(11, 12), (11, 12)],
        "about equals": [(20, 21), (21, 20)],
        "in parallel": [(22, 23), (24, 25)],
        "four in space": [(0, 5), (1, 6), (2, 7), (3, 8)],
    }
    pairs = np.array([pair for some in asked.values() for pair in some])
    users = [name for name, some in asked.items() for _ in some]
    found = diagnose(items, pairs, users)
    assert found.silent_reasons == {"one answer": 1, "general position": 2, "repeats": 2, "equal items": 1}
    assert (found.people, found.silent, found.spare, found.rank) == (8, 6, 2, 2)
    told = found.summary()
    assert "6 of 8 people (75 %) gave answers that their own position can fully explain" in told
    assert "- 1: gave one answer only" in told
    assert "- 2: gave more answers, but those follow from their others" in told


# ---------------------------------------------------------------------------------- what is out of reach, by name


def test_shares_are_those_of_the_projector() -> None:
    crowd = simulate_crowd(4, 6, 1, users=3, comparisons=3, seed=0)
    found = diagnose(crowd.items, crowd.pairs, crowd.users)
    N = svec(found.unidentified_directions)
    assert found.examples
    for pair in found.examples:
        delta = crowd.items[pair.left] - crowd.items[pair.right]
        a = svec(np.outer(delta, delta))
        assert pair.unknown == pytest.approx(np.sum((N @ a) ** 2) / (a @ a), abs=1e-9)
    values = [pair.unknown for pair in found.examples]
    assert values == sorted(values, reverse=True)
    assert found.unknown_distance <= values[0]
    within = crowd.items[crowd.pairs[0, 0]] - crowd.items[crowd.pairs[0, 1]]  # of one line: known
    a = svec(np.outer(within, within))
    assert np.sum((N @ a) ** 2) / (a @ a) == pytest.approx(0.0, abs=1e-9)


def test_entries_are_named_by_features() -> None:
    """Items vary in price and time for some people, in price and comfort for others: time × comfort is never seen."""
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 60, 3))
    first[:, 2] = second[:, 1] = 0.0
    pairs = np.arange(120).reshape(-1, 2)
    users = np.arange(60) // 6
    names = ["price", "time", "comfort"]
    found = diagnose(np.concatenate([first, second]), pairs, users, features=names)
    assert (found.rank, found.dimensions) == (5, 6)
    assert found.out_of_reach.startswith("M[time, comfort] (")
    assert "M[time, comfort]" in found.summary()


def test_a_yes_no_feature_is_named() -> None:
    items = item_sets()["one yes-no feature"]
    pairs = random_pairs(len(items), 400)
    found = diagnose(items, pairs, np.arange(400) // 8, features=["organic", "sweet", "sour"])
    assert (found.rank, found.ceiling, found.two_valued) == (5, 5, (0,))
    assert found.out_of_reach == found.free_out_of_reach == "M[organic, organic] (100 % unknown)"
    told = found.summary()
    assert "more than two values of 'organic'" in told
    assert "Unless people scatter equally in all directions, no questions about these 120 items" in told
    assert (found.population_rank, found.free_rank, found.population_out_of_reach) == (6, 5, "")
    assert "(PopulationMetric, covariance 'isotropic'), the answers can teach all 6 degrees of freedom." in told
    assert "(covariance 'free'), the answers can teach no more than if nothing is assumed about people." in told


def test_too_few_items_are_counted() -> None:
    items = normal(8, 3)
    every = np.array([(i, j) for i in range(8) for j in range(i)])
    found = diagnose(items, np.tile(every, (3, 1)), np.repeat(np.arange(3), len(every)))
    assert found.rank == found.ceiling == 8 - 1 - 3
    assert "it takes 10 at least, or describe items by at most 2 features" in found.summary()


def test_items_of_equal_length_are_explained() -> None:
    items = item_sets()["unit length"]
    found = diagnose(items, random_pairs(120, 400), np.arange(400) // 8)
    assert (found.rank, found.ceiling) == (5, 5)
    assert "items of equal length" in found.summary()
    assert "parallel" not in found.summary()  # more questions about the same items would not help


# ----------------------------------------------------------------------------------------- do questions follow people?


def asked_near(people: np.ndarray, m: int, correlation: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Questions whose midpoints have a given correlation with a point of each person's, everything of variance one."""
    rng = np.random.default_rng(seed)
    K, d = people.shape
    noise = rng.standard_normal((K, m, d))
    middle = correlation * people[:, None, :] + np.sqrt(1 - correlation**2) * noise
    delta = rng.standard_normal((K, m, d))
    vectors = np.stack([middle + delta / 2, middle - delta / 2], axis=2).reshape(K * m, 2, d)
    return vectors.reshape(-1, d), np.arange(2 * K * m).reshape(-1, 2), np.repeat(np.arange(K), m)


def test_questions_near_ideal_points_are_noticed() -> None:
    u = normal(300, 4)
    found = check_assignment(read_questions(*asked_near(u, 3, 0.6, seed=1)))
    assert found.midpoints is not None
    assert found.differences is not None
    assert found.suspicious
    assert found.midpoints.found
    assert not found.differences.found
    assert found.midpoints.correlation == pytest.approx(0.36, abs=0.08)
    assert found.midpoints.bound >= 0.55
    assert found.midpoints.p_value == 2 / 200


def test_questions_by_chance_raise_the_alarm_as_rarely_as_promised() -> None:
    alarms = sum(
        check_assignment(read_questions(*asked_near(normal(60, 3), 2, 0.0, seed=seed)), seed=seed).suspicious
        for seed in range(60)
    )
    assert alarms <= 8  # 5 % of 60 are 3; nine or more have probability 0.004


def test_all_pairs_of_a_few_items_are_no_alarm() -> None:
    """Ten questions about five items of a person share items; five items dealt by chance are not suspicious."""
    rng = np.random.default_rng(0)
    items = rng.standard_normal((500, 4))
    every = np.array([(i, j) for i in range(5) for j in range(i)])
    dealt = np.array([rng.choice(500, 5, replace=False) for _ in range(200)])
    questions = read_questions(items, dealt[:, every].reshape(-1, 2), np.repeat(np.arange(200), 10))
    rows = disjoint_questions(questions, np.arange(2000), rng)
    assert len(rows) == 400
    for k in range(200):
        assert len(np.unique(questions.pairs[rows[questions.person[rows] == k]])) == 4
    assert not check_assignment(questions).suspicious


def test_a_subspace_each_is_reported_as_harmless_if_dealt_by_chance() -> None:
    crowd = simulate_crowd(5, 8, 1, users=20, comparisons=3, seed=0)
    found = diagnose(crowd.items, crowd.pairs, crowd.users)
    assert found.assignment.differences is not None
    assert found.assignment.differences.found
    assert "harmless if chance decided who got which questions" in found.summary()
    assert "First make sure" not in found.summary()  # a population adds nothing here


def test_one_answer_a_person_cannot_be_checked() -> None:
    crowd = simulate_crowd(3, None, None, users=50, comparisons=1, seed=0)
    found = diagnose(crowd.items, crowd.pairs, crowd.users)
    assert not found.assignment.testable
    assert not found.assignment.suspicious
    assert "cannot be checked here" in found.summary()
    crowd = simulate_crowd(3, None, None, users=50, comparisons=2, seed=0)
    assert "could go unnoticed" in diagnose(crowd.items, crowd.pairs, crowd.users).summary()
    assert found.silent_reasons["one answer"] == 50
    assert found.population_rank == 6


# -------------------------------------------------------------------------------------------------- what would help


def test_the_least_numbers_that_are_named_are_enough() -> None:
    """d = 4: all ten degrees of freedom from 10 parallel pairs, 10 lines, or 8 answers of 3 people; not from fewer."""
    d, p = 4, 10
    told = diagnose(*_generic(d, users=30, m=2)).summary()
    assert "at least 10 people more (20 answers)" in told
    assert "at least 10 such subspaces with 1 person each (20 answers)" in told
    assert "8 answers from at least 3 people (24 answers)" in told
    for people in (p, p - 1):
        a, b, delta = normal(3, people, d, seed=people)
        parallel = np.stack([np.stack([a + delta, a - delta], 1), np.stack([b + delta, b - delta], 1)], 1)
        found = diagnose(None, parallel.reshape(-1, 2, d), np.repeat(np.arange(people), 2))
        assert found.rank == people
        crowd = simulate_crowd(d, people, 1, users=1, comparisons=2, seed=people)
        assert diagnose(crowd.items, crowd.pairs, crowd.users).rank == people
    for people, rank in ((3, p), (2, 8)):
        assert diagnose(*_generic(d, users=people, m=2 * d)).rank == rank
    assert ceil(p / d) == 3


def _generic(d: int, users: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    crowd = simulate_crowd(d, None, None, users=users, comparisons=m, seed=0)
    return crowd.items, crowd.pairs, crowd.users


def test_more_people_of_the_same_kind_are_counted() -> None:
    found = diagnose(*_generic(4, users=2, m=6))
    assert (found.rank, found.spare) == (4, 4)
    assert "at least 3 people more like them" in found.summary()
    assert diagnose(*_generic(4, users=5, m=6)).identified


def test_the_command_tells_everything(tmp_path, capsys) -> None:
    out = tmp_path / "crowd"
    simulate = ["simulate", "--dimension", "4", "--subspaces", "0", "--users", "600", "--comparisons", "3"]
    assert main([*simulate, "--rank", "4", "--out", str(out)]) == 0
    capsys.readouterr()
    files = [str(out / "items.csv"), str(out / "comparisons.csv")]
    assert main(["diagnose", *files]) == 0
    told = capsys.readouterr().out
    for part in (
        "can teach nothing",
        "their own position can fully explain",
        "one population",
        "looks safe",
        "What would help",
        "MatchedMetric",
    ):
        assert part in told
    assert main(["diagnose", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["summary"] + "\n" == told
    assert found["population"]["rank"] == 10
    assert found["condition"] is None
    assert found["silent_reasons"]["general position"] == 600
    assert found["assignment"]["midpoints"]["p_value"] > 0.05
