"""What one population reveals under the law that is fitted: against information computed another way, and a fit."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from scipy.special import expit

from crowdmetric import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.estimators import PopulationMetric
from crowdmetric.identifiability import diagnose, law
from crowdmetric.identifiability.diagnosis import FEWEST_PEOPLE
from crowdmetric.identifiability.law import (
    LAWS,
    ReferenceLaw,
    law_spectrum,
    most_revealed,
    pairs_of_answers,
    reference_law,
)
from crowdmetric.identifiability.questions import read_questions
from crowdmetric.identifiability.spectrum import common_spectrum, sum_up
from crowdmetric.symmetric import degrees_of_freedom, smat

KINDS = ("numbers", "yes/no", "constant", "duplicated", "whole numbers")


def random_questions(seed: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Items with features of every degenerate kind, at times a one-hot group or fewer items than features."""
    rng = np.random.default_rng(seed)
    d, N, K = int(rng.integers(1, 4)), int(rng.choice([2, 3, 5, 8, 25])), int(rng.choice([3, 12, 60]))
    X = rng.standard_normal((N, d))
    for j, kind in enumerate(rng.choice(KINDS, d, p=[0.4, 0.25, 0.1, 0.15, 0.1])):
        if kind == "yes/no":
            X[:, j] = rng.integers(0, 2, N)
        elif kind == "constant":
            X[:, j] = 3.0
        elif kind == "duplicated":
            X[:, j] = X[:, j - 1]
        elif kind == "whole numbers":
            X[:, j] = np.round(2.0 * X[:, j])
    if seed % 7 == 0:
        X = np.eye(3)[rng.integers(0, 3, N)]
    left = rng.integers(0, N, K * m)
    right = (left + rng.integers(1, N, K * m)) % N
    return X, np.column_stack([left, right]), np.repeat(np.arange(K), m)


def _root(S: np.ndarray) -> np.ndarray:
    """Return lower triangular C (K, m, m) with CCᵀ = S, m ≤ 2, smooth in S where its rank does not change."""
    C = np.zeros_like(S)
    C[:, 0, 0] = np.sqrt(S[:, 0, 0])
    if S.shape[1] == 2:
        some = S[:, 0, 0] > 0
        C[some, 1, 0] = S[some, 1, 0] / C[some, 0, 0]
        rest = S[:, 1, 1] - C[:, 1, 0] ** 2
        C[:, 1, 1] = np.sqrt(np.where(rest > 1e-9 * S[:, 1, 1], rest, 0.0))
    return C


def probabilities(theta: np.ndarray, at: ReferenceLaw, pairs: np.ndarray, covariance: str) -> np.ndarray:
    """Return (K, 2^m) probabilities of all answers to the questions (K, m, 2) of each person, by quadrature."""
    d, p = at.d, at.p
    M, mean = smat(theta[:p]), theta[p : p + d]
    Sigma = 4.0 * np.exp(2.0 * theta[-1]) * M @ M if covariance == "isotropic" else smat(theta[p + d :])
    left, right = at.items[pairs[..., 0]], at.items[pairs[..., 1]]
    delta = left - right
    offset = np.einsum("kmi,ij,kmj->km", delta, M, left + right) + delta @ mean
    root = _root(np.einsum("kmi,ij,knj->kmn", delta, Sigma, delta))
    m = pairs.shape[1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    places = np.stack(np.meshgrid(*[nodes] * m, indexing="ij"), -1).reshape(-1, m)
    weight = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * m, indexing="ij"), -1).reshape(-1, m), axis=1)
    q = expit(offset[:, :, None] + root @ places.T)  # (K, m, nodes)
    sides = (q, 1.0 - q)
    columns = [
        np.prod([sides[side][:, i] for i, side in enumerate(answers)], axis=0) @ weight
        for answers in product((0, 1), repeat=pairs.shape[1])
    ]
    return np.stack(columns, axis=1)


def singular_values(at: ReferenceLaw, pairs: np.ndarray, covariance: str) -> np.ndarray:
    """Return those of the information about M, people profiled out, relative to the largest before; by differences."""
    p, h = at.p, 1e-4
    here = probabilities(at.natural, at, pairs, covariance)
    slopes = [
        probabilities(at.natural + step, at, pairs, covariance)
        - probabilities(at.natural - step, at, pairs, covariance)
        for step in h * np.eye(at.natural.size)
    ]
    J = np.stack([(slope / (2.0 * h * np.sqrt(here))).ravel() for slope in slopes], axis=1)
    U, values, _ = np.linalg.svd(J[:, p:], full_matrices=False)
    U = U[:, values > 1e-6 * max(values[0], 1e-300)]
    before = np.linalg.norm(J[:, :p], 2)
    return np.linalg.svd(J[:, :p] - U @ (U.T @ J[:, :p]), compute_uv=False) / max(before, 1e-300)


@pytest.mark.parametrize("covariance", LAWS)
@pytest.mark.parametrize("m", [1, 2])
def test_the_verdict_is_that_of_the_expected_information(covariance: str, m: int) -> None:
    seen = set()
    for seed in range(40):
        items, pairs, users = random_questions(seed, m)
        found = law_spectrum(read_questions(items, pairs, users), covariance)
        at = reference_law(read_questions(items, pairs, users), covariance)
        values = singular_values(at, pairs.reshape(-1, m, 2), covariance)
        # between the two a direction is so weak that differences do not tell it from none
        assert np.sum(values > 3e-5) <= found.rank <= np.sum(values > 1e-6), (seed, values, found.rank)
        seen.add((degrees_of_freedom(items.shape[1]), found.rank))
    assert len(seen) > 8  # everything from nothing to all


@pytest.mark.parametrize("covariance", LAWS)
def test_no_law_reveals_more_than_its_bound(covariance: str) -> None:
    reached = 0
    for seed in range(40):
        items, pairs, users = random_questions(seed, 3)
        questions = read_questions(items, pairs, users)
        sums = sum_up(questions)
        offsets = common_spectrum(sums.common, questions.unit)
        most = most_revealed(questions, covariance, sums.tally.span, sums.common, offsets)
        rank = law_spectrum(questions, covariance).rank
        assert rank <= most, seed
        reached += rank == most
    assert reached > 20


@pytest.mark.parametrize("covariance", LAWS)
def test_some_people_are_enough_where_they_reveal_all_there_is(covariance: str, monkeypatch) -> None:
    """With many answers a sample decides, unless it reveals less than the bound; then everybody is looked at."""
    rng = np.random.default_rng(0)
    items = np.column_stack([rng.integers(0, 2, 60), rng.standard_normal((60, 2))])
    left = rng.integers(0, 60, 900)
    pairs, users = np.column_stack([left, (left + rng.integers(1, 60, 900)) % 60]), np.arange(900) // 3
    questions = read_questions(items, pairs, users)
    whole = law_spectrum(questions, covariance)
    asked = []
    original = law._information
    monkeypatch.setattr(law, "_information", lambda parts, *rest: (asked.append(1), original(parts, *rest))[1])
    monkeypatch.setattr(law, "ENOUGH", 150)
    assert law_spectrum(questions, covariance, whole.rank).rank == whole.rank
    assert len(asked) == 1
    monkeypatch.setattr(law, "ENOUGH", 2)
    assert law_spectrum(questions, covariance, whole.rank).rank == whole.rank
    assert len(asked) == 3


def test_pairs_of_answers_are_of_one_person_and_none_comes_twice() -> None:
    person = np.array([2, 0, 1, 0, 2, 2, 0, 0, 2, 2, 3, 3])
    counts = np.bincount(person)
    for partners in (1, 2, 10):
        first, second = pairs_of_answers(person, partners)
        alone = second < 0
        assert first[alone].tolist() == [2]
        assert np.all(person[first[~alone]] == person[second[~alone]])
        pairs = {tuple(sorted(pair)) for pair in zip(first[~alone], second[~alone], strict=True)}
        assert len(pairs) == np.sum(~alone)
        assert all(a != b for a, b in pairs)
        assert set(first) | set(second) >= set(range(len(person)))
    assert len(pairs) == np.sum(counts * (counts - 1) // 2)  # partners enough for all


def test_an_isotropic_population_learns_the_weight_of_a_yes_no_feature() -> None:
    """The verdict is kept: 1,500 people, and M[0, 0] is found; two answers say much more about it than one."""
    truth = np.array([[1.5, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.6]])
    rng = np.random.default_rng(3)
    items = np.column_stack([rng.integers(0, 2, 120), rng.standard_normal((120, 2))])
    ideal = 0.8 * rng.standard_normal((1500, 3)) + np.array([0.3, 0.2, -0.1])
    left = rng.integers(0, 120, (1500, 3))
    pairs = np.stack([left, (left + rng.integers(1, 120, (1500, 3))) % 120], axis=-1)
    away = items[pairs] - ideal[:, None, None, :]
    squared = np.einsum("kmsi,ij,kmsj->kms", away, truth, away)
    y = np.where(rng.random((1500, 3)) < expit(squared[..., 0] - squared[..., 1]), 1, -1)
    users = np.repeat(np.arange(1500), 3)
    found = diagnose(items, pairs.reshape(-1, 2), users)
    assert (found.population_rank, found.free_rank) == (6, 5)
    model = PopulationMetric(items, covariance="isotropic").fit(pairs.reshape(-1, 2), y.ravel(), users=users)
    error = model.standard_errors_[0, 0]
    assert error < 0.3  # known to a fifth
    assert abs(model.metric_[0, 0] - 1.5) < 3.0 * error
    once = diagnose(items, pairs[:, 0], np.arange(1500))
    assert once.population_rank == 6
    assert once.population_condition > 2.0 * found.population_condition


def test_the_size_of_the_metric_is_what_yes_no_features_alone_hide() -> None:
    rng = np.random.default_rng(0)
    items = rng.integers(0, 2, (60, 3)).astype(float)
    left = rng.integers(0, 60, 600)
    pairs = np.column_stack([left, (left + rng.integers(1, 60, 600)) % 60])
    found = diagnose(items, pairs, np.arange(600) // 3)
    assert (found.population_rank, found.free_rank) == (5, 3)
    assert found.population_out_of_reach == "the overall size of the metric"
    assert "5 of 6 degrees of freedom; out of reach is the overall size of the metric." in found.summary()


def test_the_law_must_be_known() -> None:
    with pytest.raises(DataError, match="covariance='round' is unknown; choose 'isotropic' or 'free'"):
        diagnose(np.eye(3), [[0, 1]], [0], covariance="round")


# ------------------------------------------------------------------------------------------------ answers are counted


def test_a_tie_is_one_answer_and_weight_two_is_two() -> None:
    items = np.random.default_rng(0).standard_normal((6, 2))
    users, pairs = [0, 0, 0, 1, 1], [[0, 1], [1, 2], [2, 3], [4, 5], [0, 1]]
    plain = Comparisons.from_arrays(users, pairs, choice=["left", "right", "left", "left", "right"], n_items=6)
    tied = Comparisons.from_arrays(users, pairs, choice=["tie", "right", "tie", "left", "right"], n_items=6)
    shared = Comparisons.from_arrays(users, pairs, probability=[0.3, 1.0, 0.5, 1.0 / 3.0, 0.0], n_items=6)
    assert len(tied) == 7
    assert len(shared) == 8
    for answers in (plain, tied, shared):
        assert answers.n_answers == 5
        found = diagnose(items, answers)
        assert (found.answers, found.most_answers, found.spare) == (5, 3, 1)
        assert found.summary() == diagnose(items, plain).summary()
    twice = Comparisons.from_arrays([*users, 0], [*pairs, [0, 1]], [-1, 1, -1, -1, 1, -1], n_items=6)
    heavy = Comparisons.from_arrays(users, pairs, [-1, 1, -1, -1, 1], weight=[2, 1, 1, 1, 1], n_items=6)
    assert twice.n_answers == heavy.n_answers == 6
    assert diagnose(items, twice).summary() == diagnose(items, heavy).summary()
    assert diagnose(items, twice).most_answers == 4
    light = Comparisons.from_arrays(users, pairs, [-1, 1, -1, -1, 1], weight=np.full(5, 0.2), n_items=6)
    assert light.n_answers == 5


# ---------------------------------------------------------------------------------------- sentences and numbers agree


@pytest.mark.parametrize("covariance", LAWS)
@pytest.mark.parametrize("m", [1, 2, 5])
def test_no_sentence_contradicts_a_number_or_another_sentence(covariance: str, m: int) -> None:
    for seed in range(30):
        items, pairs, users = random_questions(seed, m)
        found = diagnose(items, pairs, users, covariance=covariance)
        told, p = found.summary(), found.dimensions
        record = found.to_dict()
        assert "(0 % unknown)" not in told
        assert "(0 %)" not in told
        assert "add nothing" not in told  # nobody adds nothing where the law reveals something
        assert "nan" not in told
        for text, rank in (
            (found.out_of_reach, found.rank),
            (found.population_out_of_reach, found.population_rank),
            (found.free_out_of_reach, found.free_rank),
        ):
            assert not (text and rank == p), (seed, text)
        assert found.rank <= found.population_rank
        assert found.free_rank <= max(found.population_rank, found.rank)
        assert record["population"]["rank"] == found.population_rank
        said = re.search(r"covariance '\w+'\), the answers can teach (?:all )?(\d+|its one|nothing)", told)
        if found.identified:
            assert said is None
            assert "(PopulationMetric) can still make the metric more accurate" in told
        else:
            assert said is not None, told
            number = {"nothing": 0, "its one": 1}.get(said[1])
            assert (int(said[1]) if number is None else number) == found.population_rank
        assert ("Ask nothing more" in told) == (
            found.population_rank > found.rank and found.people >= FEWEST_PEOPLE and not found.identified
        )
        assert ("too few to be taken as one population" in told) == (
            found.people < FEWEST_PEOPLE and not found.identified
        )
        assert sum(found.silent_reasons.values()) == found.silent <= found.people
        assert found.most_answers <= found.answers == len(pairs)
