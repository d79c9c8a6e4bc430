"""Fits and predictions of smooth tastes: dense algebra, simulated crowds, invariances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from crowdmetric.smooth.calibration import probability_of
from crowdmetric.smooth.covariances import Covariances
from crowdmetric.smooth.evidence import curvature, fit_evidence, log_evidence
from crowdmetric.smooth.kernel_metrics import STRUCTURES
from crowdmetric.smooth.people_blocks import DistinctAnswers, arrange, merged
from crowdmetric.smooth.prediction import UtilityField, field_of


def smooth_crowd(people: int, each: int, weights: np.ndarray, items: int = 14, seed: int = 0) -> tuple:
    """Return standardized items and answers of people whose tastes are Gaussian with a known metric diag(weights)."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((items, len(weights)))
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    q = np.sum(weights * (Z[:, None] - Z[None]) ** 2, axis=2)
    root = np.linalg.cholesky(np.exp(-0.5 * q) + 1e-9 * np.eye(items))
    utility = 2.5 * (root @ rng.standard_normal((items, people))).T + root @ rng.standard_normal(items)
    person = np.repeat(np.arange(people), each)
    left = rng.integers(0, items, person.size)
    pairs = np.column_stack([left, (left + rng.integers(1, items, person.size)) % items])
    right = expit(utility[person, pairs[:, 1]] - utility[person, pairs[:, 0]])
    return Z, person, pairs, np.where(rng.random(person.size) < right, 1.0, -1.0), utility


@pytest.fixture(scope="module")
def some_fit():
    Z, person, pairs, y, _ = smooth_crowd(60, 15, np.array([1.0, 0.05]))
    answers = merged(person, pairs, y, np.ones(len(y)))
    return fit_evidence(Covariances.of("diagonal", 2, "matern52"), Z, arrange(answers, len(Z)))


def test_a_fit_ends_where_the_evidence_does_not_rise(some_fit) -> None:
    assert some_fit.converged
    assert some_fit.log_likelihood <= 0.0
    propagation, Z, family = some_fit.propagation, some_fit.Z, some_fit.family
    here = some_fit.log_likelihood + some_fit.log_prior
    kept = propagation.keep()
    rng = np.random.default_rng(0)
    for _ in range(6):
        theta = some_fit.theta + 0.3 * rng.standard_normal(some_fit.theta.size)
        grams = family.at(theta, Z)
        propagation.converge(grams.person, grams.crowd, 1e-5)
        there = propagation.evidence(grams.crowd).value + family.log_prior(theta)[0]
        assert there < here + 0.2
        propagation.put_back(kept)
    grams = family.at(some_fit.theta, Z)
    propagation.look(grams.person, grams.crowd)


def test_the_feature_that_matters_is_found(some_fit) -> None:
    M = some_fit.family.metric(some_fit.theta)
    assert M[0, 0] > 4.0 * M[1, 1]


def test_the_curvature_is_positive_and_close_to_the_information(some_fit) -> None:
    H = curvature(some_fit)
    information = some_fit.information + np.diag(some_fit.family.spread**-2.0)
    assert np.linalg.eigvalsh(H)[0] > 0.0
    # the sharpness of the metric, of which Gaussian answers know about as much as real ones
    own = np.arange(8, H.shape[0])
    ratio = np.diag(H)[own] / np.diag(information)[own]
    assert np.all((ratio > 0.4) & (ratio < 2.5))


def test_the_evidence_prefers_one_length_where_there_is_one() -> None:
    Z, person, pairs, y, _ = smooth_crowd(80, 15, np.full(3, 0.4), seed=1)
    blocks = arrange(merged(person, pairs, y, np.ones(len(y))), len(Z))
    found = {name: log_evidence(fit_evidence(Covariances.of(name, 3, "matern52"), Z, blocks)) for name in STRUCTURES}
    assert found["isotropic"] > found["full"]
    assert found["isotropic"] > found["diagonal"] - 1.0


def test_the_evidence_finds_tastes_along_no_single_feature() -> None:
    """Linear tastes for one mixture of three features, of people with ten answers each."""
    rng = np.random.default_rng(5)
    Z = rng.standard_normal((40, 3))
    tastes = np.outer(rng.standard_normal(100), [1.0, 1.0, -1.0]) + 0.2 * rng.standard_normal((100, 3))
    person, pairs = np.repeat(np.arange(100), 10), np.array([rng.permutation(40)[:2] for _ in range(1000)])
    gap = np.einsum("kd,kd->k", tastes[person], Z[pairs[:, 1]] - Z[pairs[:, 0]])
    y = np.where(rng.random(1000) < expit(gap), 1.0, -1.0)
    blocks = arrange(merged(person, pairs, y, np.ones(1000)), len(Z))
    found = {name: fit_evidence(Covariances.of(name, 3, "matern52"), Z, blocks) for name in STRUCTURES}
    evidence = {name: log_evidence(fit) for name, fit in found.items()}
    assert evidence["full"] > evidence["shrunk"] > max(evidence["isotropic"], evidence["diagonal"])
    strongest = np.linalg.eigh(found["full"].family.metric(found["full"].theta))[1][:, -1]
    assert abs(strongest @ [1.0, 1.0, -1.0]) / np.sqrt(3.0) > 0.97


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_metric_of_one_structure_starts_another(name: str) -> None:
    w = np.array([0.3, 0.5, -0.7])
    M = STRUCTURES["diagonal"](2).metric(w)
    found = STRUCTURES[name](2).metric(STRUCTURES[name](2).like(M))
    assert np.trace(found) == pytest.approx(np.trace(M))
    if name != "isotropic":
        np.testing.assert_allclose(found, M, atol=1e-12)


def dense_moments(fit, others: np.ndarray, who: int, low: int, high: int) -> tuple[float, float]:
    """Return mean and variance of a difference by conditioning everybody's utilities at once."""
    grams = fit.family.at(fit.theta, np.concatenate([fit.Z, others]))
    N, rows, tau, nu, people = len(grams.person), [], [], [], []
    for block, site in zip(fit.propagation.blocks, fit.propagation.sites, strict=True):
        for p, k in enumerate(block.who):
            for i in np.flatnonzero(block.weight[p] > 0):
                row = np.zeros(N)
                row[block.items[p, block.high[p, i]]], row[block.items[p, block.low[p, i]]] = 1.0, -1.0
                rows.append(row)
                tau.append(site.tau[p, i])
                nu.append(site.nu[p, i])
                people.append(k)
    D, tau, nu, people = np.array(rows), np.array(tau), np.array(nu), np.array(people)
    asked = np.zeros(N)
    asked[high], asked[low] = 1.0, -1.0
    S = D @ grams.crowd @ D.T + (people[:, None] == people) * (D @ grams.person @ D.T)
    across = D @ grams.crowd @ asked + (people == who) * (D @ grams.person @ asked)
    inner = np.linalg.inv(S + np.diag(1.0 / tau))
    mean = across @ inner @ (nu / tau)
    return float(mean), float(asked @ (grams.person + grams.crowd) @ asked - across @ inner @ across)


@pytest.mark.parametrize(("who", "low", "high"), [(0, 0, 3), (2, 1, 6), (2, 6, 7), (-1, 0, 3), (-1, 2, 7)])
def test_predictions_condition_on_everything(who: int, low: int, high: int) -> None:
    # items 6 and 7 were shown to nobody, and −1 has not answered
    Z, person, pairs, y, _ = smooth_crowd(5, 6, np.array([0.6, 0.3]), items=6, seed=2)
    blocks = arrange(merged(person, pairs, y, np.ones(len(y))), 6)
    fit = fit_evidence(Covariances.of("isotropic", 2, "matern52"), Z, blocks, max_steps=3)
    others = np.array([[0.2, -0.4], [1.5, 0.8]])
    mean, variance = field_of(fit, others).moments(np.array([low]), np.array([high]), np.array([who]))
    expected = dense_moments(fit, others, who, low, high)
    np.testing.assert_allclose([mean[0], variance[0]], expected, rtol=1e-5, atol=1e-7)


def a_field(some_fit) -> UtilityField:
    return field_of(some_fit, np.zeros((0, 2)))


def test_a_new_person_learns_from_their_answers(some_fit) -> None:
    field = a_field(some_fit)
    one = np.array([7])
    before = field.moments(np.array([0]), np.array([1]), np.array([-1]))
    told = field.after_answers(DistinctAnswers(one, np.array([0]), np.array([1]), np.array([1.0]), np.array([5.0])))
    after = told.moments(np.array([0]), np.array([1]), one)
    assert after[0][0] > before[0][0]
    assert after[1][0] < before[1][0]
    np.testing.assert_allclose(told.moments(np.array([0]), np.array([1]), np.array([8])), before)


def test_a_new_person_is_integrated_like_any_other(some_fit) -> None:
    """One answer about a pair leaves its mean and variance where quadrature has them."""
    field = a_field(some_fit)
    m, v = (float(x[0]) for x in field.moments(np.array([2]), np.array([5]), np.array([-1])))
    told = field.after_answers(
        DistinctAnswers(np.array([0]), np.array([2]), np.array([5]), np.array([-1.0]), np.array([1.0]))
    )
    line = np.linspace(m - 12 * np.sqrt(v), m + 12 * np.sqrt(v), 20001)
    density = np.exp(-0.5 * (line - m) ** 2 / v) * expit(-line)
    density /= density.sum()
    mean = float(density @ line)
    found = told.moments(np.array([2]), np.array([5]), np.array([0]))
    assert found[0][0] == pytest.approx(mean, abs=1e-3)
    assert found[1][0] == pytest.approx(float(density @ (line - mean) ** 2), rel=1e-3)


def test_probabilities_are_calibrated_on_a_simulated_crowd() -> None:
    Z, person, pairs, y, utility = smooth_crowd(150, 20, np.array([0.8, 0.2]), items=20, seed=3)
    seen = np.all(pairs < 15, axis=1)  # items 15 to 19 are hidden
    blocks = arrange(merged(person[seen], pairs[seen], y[seen], np.ones(int(seen.sum()))), 15)
    fit = fit_evidence(Covariances.of("diagonal", 2, "matern52"), Z[:15], blocks)
    rng = np.random.default_rng(4)
    who, low = rng.integers(0, 150, 6000), rng.integers(0, 20, 6000)
    high = (low + rng.integers(1, 20, 6000)) % 20
    right = probability_of(*field_of(fit, Z[15:]).moments(low, high, who))
    truth = expit(utility[who, high] - utility[who, low])
    z = np.log(right / (1.0 - right))
    slope = 1.0
    for _ in range(50):  # the slope of the truth on what was predicted, by Newton's method
        p = expit(slope * z)
        slope += float(np.sum(z * (truth - p)) / np.sum(z * z * p * (1.0 - p)))
    assert 0.9 < slope < 1.1
    assert np.mean(np.abs(truth - right)) < np.mean(np.abs(truth - 0.5))
