"""Everybody integrated out at once: against quadrature, finite differences and dense algebra."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import log_expit

from crowdmetric.smooth.covariances import Covariances, Grams
from crowdmetric.smooth.joint_propagation import Propagation
from crowdmetric.smooth.parameter_information import of_everybody
from crowdmetric.smooth.people_blocks import DistinctAnswers, PeopleBlock, arrange, merged
from crowdmetric.smooth.site_kernels import times_differences

TIGHT = 1e-10


def crowd(seed: int, people: int, items: int, each: int) -> DistinctAnswers:
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(items, 2, replace=False) for _ in range(people * each)])
    return merged(
        np.repeat(np.arange(people), each), pairs, rng.choice([-1.0, 1.0], people * each), np.ones(len(pairs))
    )


def covariances(seed: int, items: int, size: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, items, items))
    return size * (A @ A.T) / items, size * (B @ B.T) / items


def evidence_of(answers: DistinctAnswers, K: np.ndarray, C: np.ndarray) -> tuple[Propagation, float]:
    propagation = Propagation(arrange(answers, len(K)), len(K))
    assert propagation.converge(K, C, TIGHT) < TIGHT
    return propagation, propagation.evidence(C).value


def by_quadrature(answers: DistinctAnswers, K: np.ndarray, C: np.ndarray, nodes: int = 60) -> float:
    """Return the log-likelihood by Gauss–Hermite nodes in as many dimensions as there are answers."""
    D = np.zeros((answers.person.size, len(K)))
    rows = np.arange(len(D))
    D[rows, answers.high], D[rows, answers.low] = 1.0, -1.0
    together = answers.person[:, None] == answers.person[None, :]
    covariance = D @ C @ D.T + together * (D @ K @ D.T)
    root = np.linalg.cholesky(covariance + 1e-12 * np.eye(len(D)))
    line, weight = np.polynomial.hermite_e.hermegauss(nodes)
    weight = weight / weight.sum()
    grid = np.array(list(itertools.product(line, repeat=len(D))))
    mass = np.prod(np.array(list(itertools.product(weight, repeat=len(D)))), axis=1)
    psi = grid @ root.T
    return float(np.log(mass @ np.exp(log_expit(answers.sign * psi) @ answers.weight)))


SMALL = {
    "one answer": ([0], [0], [1], [1.0], [1.0]),
    "one answer, given three times": ([0], [0], [1], [1.0], [3.0]),
    "two people, one question": ([0, 1], [0, 0], [1, 1], [1.0, 1.0], [1.0, 1.0]),
    "two people who disagree": ([0, 1], [0, 0], [1, 1], [1.0, -1.0], [1.0, 1.0]),
    "one person, three items": ([0, 0], [0, 1], [1, 2], [1.0, -1.0], [1.0, 1.0]),
    "two people, three items": ([0, 0, 1], [0, 0, 1], [1, 2, 2], [1.0, -1.0, 1.0], [1.0, 1.0, 2.0]),
}


@pytest.mark.parametrize("size", [0.3, 2.0])
@pytest.mark.parametrize("name", SMALL)
def test_the_evidence_is_the_integral(name: str, size: float) -> None:
    person, low, high, sign, weight = SMALL[name]
    answers = DistinctAnswers(np.array(person), np.array(low), np.array(high), np.array(sign), np.array(weight))
    K, C = covariances(0, 3, size)
    value = evidence_of(answers, K, C)[1]
    # one answer is exact, but for the lines that cavities are integrated along; several are approximate
    tolerance = 1e-5 if len(person) == 1 else 4e-3
    assert value == pytest.approx(by_quadrature(answers, K, C), abs=tolerance)
    assert value <= 0.0


@pytest.mark.parametrize("people", [1, 6])
@pytest.mark.parametrize("structure", ["isotropic", "diagonal", "full"])
@pytest.mark.parametrize("size", [0.0, 2.5])
def test_the_gradient_is_that_of_the_evidence(structure: str, size: float, people: int) -> None:
    answers, family = crowd(1, people, 5, 7), Covariances.of(structure, 2, "matern52")
    Z = np.random.default_rng(2).standard_normal((5, 2))
    theta = family.start + 0.2 * np.random.default_rng(3).standard_normal(family.start.size)
    theta[0] += size
    propagation = Propagation(arrange(answers, 5), 5)

    def value(at: np.ndarray) -> float:
        grams = family.at(at, Z)
        propagation.converge(grams.person, grams.crowd, TIGHT)
        return propagation.evidence(grams.crowd).value

    step = 1e-4
    numeric = np.array([(value(theta + e) - value(theta - e)) / (2 * step) for e in step * np.eye(theta.size)])
    grams = family.at(theta, Z)
    propagation.converge(grams.person, grams.crowd, TIGHT)
    found = propagation.evidence(grams.crowd)
    np.testing.assert_allclose(grams.gradient(found.in_person, found.in_crowd), numeric, rtol=1e-4, atol=1e-4)


def settled(structure: str, people: int, items: int = 6) -> tuple[Propagation, Grams]:
    answers, family = crowd(4, people, items, 6), Covariances.of(structure, 3, "matern52")
    theta = family.start + 0.2 * np.random.default_rng(3).standard_normal(family.start.size)
    grams = family.at(theta, np.random.default_rng(2).standard_normal((items, 3)))
    propagation = Propagation(arrange(answers, items), items)
    propagation.converge(grams.person, grams.crowd, TIGHT)
    propagation.tell_apart(grams.person, grams.crowd)
    return propagation, grams


@pytest.mark.parametrize("structure", ["diagonal", "full"])
def test_the_information_is_that_of_gaussian_answers(structure: str) -> None:
    propagation, grams = settled(structure, 5)
    W, V = propagation.precision, propagation.covariance
    p = 8 + (7 if structure == "full" else 4)
    steps = [grams.toward(step) for step in np.eye(p)]
    expected = np.zeros((p, p))
    own = [(block.items[k], told.W[k]) for block, told in zip(propagation.blocks, propagation.messages, strict=True)
           for k in range(len(block.who))]  # fmt: skip
    parts = [(W - W @ V @ W, [dC for _, dC in steps])]
    for items, of_one in own:
        real = np.flatnonzero(items < 6)
        there = np.ix_(items[real], items[real])
        S = of_one[np.ix_(real, real)]
        parts.append((S - S @ V[there] @ S, [dK[there] for dK, _ in steps]))
    for Q, derivatives in parts:
        expected += 0.5 * np.array([[np.trace(Q @ A @ Q @ B) for A in derivatives] for B in derivatives])
    np.testing.assert_allclose(grams.information(propagation), expected, rtol=1e-6, atol=1e-8)


def test_of_many_parameters_the_crowd_says_much_about_few() -> None:
    """What is not found exactly is averaged: the determinant, which the evidence takes, is nearly that of all."""
    rng, d, n = np.random.default_rng(0), 60, 40
    Z, answers = rng.standard_normal((n, d)), crowd(5, 30, n, 30)
    family = Covariances.of("diagonal", d, "matern52")
    grams = family.at(family.start, Z)
    propagation = Propagation(arrange(answers, n), n)
    propagation.converge(grams.person, grams.crowd, TIGHT)
    W, V = propagation.precision, propagation.covariance
    Q, prior = W - W @ V @ W, np.diag(family.spread**-2.0)
    people = of_everybody(propagation, grams.of_people)
    exact = [grams.gradient(0.0, 0.5 * Q @ grams.toward(step)[1] @ Q) for step in np.eye(len(prior))]
    with_all = np.linalg.slogdet(prior + people + exact)[1]
    assert with_all - np.linalg.slogdet(prior + people)[1] > 0.5
    found = np.linalg.slogdet(prior + grams.information(propagation))[1]
    assert found == pytest.approx(with_all, abs=0.1)


@pytest.mark.parametrize("items", [4, 7])
def test_one_person_is_told_from_the_crowd_as_among_others(items: int) -> None:
    answers, (K, C) = crowd(4, 1, 4, 6), covariances(5, items)
    alone, value = evidence_of(answers, K, C)
    assert alone.alone
    mean, covariance = alone.posterior[0]
    alone.tell_apart(K, C)
    np.testing.assert_allclose(alone.posterior[0][0], mean, atol=1e-8)
    np.testing.assert_allclose(alone.posterior[0][1], covariance, atol=1e-8)
    W, P = alone.messages[0].W[0], alone.told()[0][0]
    own = np.ix_(*[alone.blocks[0].items[0]] * 2)
    np.testing.assert_allclose(P, W - W @ alone.covariance[own] @ W, atol=1e-8)
    # the same person beside somebody who never answered anything of consequence
    beside = merged(
        np.append(answers.person, 1), np.column_stack([np.append(answers.low, 0), np.append(answers.high, 1)]),
        np.append(answers.sign, 1.0), np.append(answers.weight, 1e-12),
    )  # fmt: skip
    both, of_both = evidence_of(beside, K, C)
    assert not both.alone
    assert value == pytest.approx(of_both, abs=1e-8)
    np.testing.assert_allclose(both.mean, alone.mean, atol=1e-8)
    np.testing.assert_allclose(both.covariance, alone.covariance, atol=1e-8)


def test_of_one_person_scales_of_both_covariances_are_not_known_beside_each_other() -> None:
    propagation, grams = settled("diagonal", 1)
    assert propagation.alone
    Q = propagation.told()[0][0]
    own = np.ix_(*[propagation.blocks[0].items[0]] * 2)
    steps = [sum(grams.toward(step))[own] for step in np.eye(12)]
    expected = 0.5 * np.array([[np.trace(Q @ A @ Q @ B) for A in steps] for B in steps])
    assert expected[2, 3] != 0.0
    np.testing.assert_allclose(grams.information(propagation), expected, rtol=1e-6, atol=1e-8)


def test_people_stand_beside_each_other() -> None:
    answers, (K, C) = crowd(7, 9, 6, 5), covariances(8, 6)
    value = evidence_of(answers, K, C)[1]
    other = np.random.default_rng(9).permutation(9)[answers.person]
    order = np.lexsort([answers.high, answers.low, other])
    fields = ("low", "high", "sign", "weight")
    moved = DistinctAnswers(other[order], *(getattr(answers, name)[order] for name in fields))
    assert evidence_of(moved, K, C)[1] == pytest.approx(value, abs=1e-7)


def test_without_a_crowd_people_add_up() -> None:
    answers, (K, _) = crowd(10, 6, 5, 5), covariances(11, 5)
    nothing = np.zeros((5, 5))
    whole = evidence_of(answers, K, nothing)[1]
    fields = ("person", "low", "high", "sign", "weight")
    parts = [DistinctAnswers(*(getattr(answers, f)[answers.person == k] for f in fields)) for k in range(6)]
    assert whole == pytest.approx(sum(evidence_of(part, K, nothing)[1] for part in parts), abs=1e-7)


def test_people_who_never_contradict_themselves_settle() -> None:
    rng = np.random.default_rng(12)
    pairs = np.array(list(itertools.combinations(range(9), 2)))
    rank = np.array([rng.permutation(9) for _ in range(10)])
    person, many = np.repeat(np.arange(10), len(pairs)), np.tile(pairs, (10, 1))
    y = np.where(rank[person, many[:, 1]] > rank[person, many[:, 0]], 1.0, -1.0)
    answers = merged(person, many, y, np.ones(len(y)))
    K, C = covariances(13, 9, 2000.0)
    propagation = Propagation(arrange(answers, 9), 9)
    assert propagation.converge(K + 500.0 * np.eye(9), C, 1e-4) < 1e-4
    assert propagation.evidence(C).value < 0.0


def test_equal_answers_are_merged_whichever_side_they_were_shown_on() -> None:
    pairs = np.array([[2, 0], [0, 2], [0, 2], [1, 1], [0, 1]])
    found = merged(np.array([5, 5, 5, 5, 3]), pairs, np.array([1.0, -1.0, 1.0, 1.0, 1.0]), np.array([1.0, 2, 4, 8, 16]))
    assert found.person.tolist() == [3, 5, 5]
    assert found.low.tolist() == [0, 0, 0]
    assert found.high.tolist() == [1, 2, 2]
    assert dict(zip(found.sign[1:].tolist(), found.weight[1:].tolist(), strict=True)) == {-1.0: 3.0, 1.0: 4.0}


def dense(block: PeopleBlock, p: int) -> np.ndarray:
    m, n = block.low.shape[1], block.items.shape[1]
    A = np.zeros((m, n))
    for i in range(m):
        if block.weight[p, i] > 0:
            A[i, block.high[p, i]] += 1.0
            A[i, block.low[p, i]] -= 1.0
    return A


def test_blocks_are_the_answers() -> None:
    answers = crowd(14, 20, 12, 6)
    keep = np.random.default_rng(15).random(answers.person.size) < 0.6  # people of different sizes
    answers = DistinctAnswers(*(getattr(answers, f)[keep] for f in ("person", "low", "high", "sign", "weight")))
    blocks = arrange(answers, 12)
    assert len(blocks) > 1
    rows = []
    for block in blocks:
        tau = np.where(block.weight > 0, np.random.default_rng(16).random(block.weight.shape), 0.0)
        P, n = block.items.shape
        X = np.random.default_rng(19).standard_normal((P, n, n))
        found = times_differences(X, block.low, block.high, tau)
        for p, who in enumerate(block.who):
            A = dense(block, p)
            np.testing.assert_allclose(found[p], A.T @ (tau[p][:, None] * A) @ X[p], atol=1e-12)
            np.testing.assert_allclose(block.pulls(tau)[p], A.T @ tau[p], atol=1e-12)
            for i in np.flatnonzero(block.weight[p] > 0):
                ends = block.items[p, block.low[p, i]], block.items[p, block.high[p, i]]
                rows.append((who, *ends, block.sign[p, i], block.weight[p, i]))
    expected = zip(answers.person, answers.low, answers.high, answers.sign, answers.weight, strict=True)
    assert sorted(rows) == sorted(expected)


def test_parts_of_a_matrix_are_taken_and_put_back() -> None:
    block = arrange(crowd(17, 4, 6, 3), 6)[0]
    matrix = np.random.default_rng(18).standard_normal((6, 6))
    total = np.zeros((6, 6))
    for own in block.items:
        real = own[own < 6]
        total[np.ix_(real, real)] += matrix[np.ix_(real, real)]
    np.testing.assert_allclose(block.put(block.take(matrix)), total)
