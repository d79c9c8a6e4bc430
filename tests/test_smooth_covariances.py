"""Covariances of smooth tastes: every derivative against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from crowdmetric.smooth.covariances import SCALES, Covariances
from crowdmetric.smooth.kernel import SHAPES
from crowdmetric.smooth.kernel_metrics import STRUCTURES, log_prior, structure_of

each_shape = pytest.mark.parametrize("shape", SHAPES)
each_structure = pytest.mark.parametrize("structure", [*STRUCTURES, "rank-2"])

STEP = 1e-5


def some_theta(family: Covariances, seed: int = 0) -> np.ndarray:
    return family.start + 0.3 * np.random.default_rng(seed).standard_normal(family.start.size)


@each_shape
def test_a_shape_falls_from_one_and_knows_its_slope(shape: str) -> None:
    q = np.linspace(0.01, 9.0, 40)
    value, slope = SHAPES[shape](q)
    numeric = (SHAPES[shape](q + STEP)[0] - SHAPES[shape](q - STEP)[0]) / (2 * STEP)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-9)
    assert SHAPES[shape](np.zeros(1))[0][0] == 1.0
    assert np.all(np.diff(value) < 0)
    assert np.all(value > 0)


def tangents_of(family, w: np.ndarray) -> np.ndarray:
    """Derivatives (p, d, d), zeros included."""
    found = np.zeros((w.size, family.d, family.d))
    for whole, tangent in zip(found, family.tangents(w), strict=True):
        whole[np.ix_(tangent.features, tangent.features)] = tangent.matrix
    return found


@each_structure
def test_tangents_are_derivatives_of_the_metric(structure: str) -> None:
    family = structure_of(structure, 3)
    w = family.start + 0.4 * np.random.default_rng(1).standard_normal(family.start.size)
    numeric = [(family.metric(w + e) - family.metric(w - e)) / (2 * STEP) for e in STEP * np.eye(w.size)]
    np.testing.assert_allclose(tangents_of(family, w), numeric, atol=1e-8)
    assert np.linalg.eigvalsh(family.metric(w))[0] >= -1e-12


@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_structure_starts_at_the_isotropic_metric(structure: str) -> None:
    family = structure_of(structure, 4)
    np.testing.assert_allclose(family.metric(family.start), np.eye(4) / 4)
    assert family.spread.shape == family.start.shape


def test_a_low_rank_is_the_largest_directions_and_as_wide_as_the_isotropic_metric() -> None:
    family, rng = structure_of("rank-2", 4), np.random.default_rng(7)
    U = rng.standard_normal((4, 2))
    np.testing.assert_allclose(family.metric(family.like(U @ U.T)), U @ U.T)
    largest = family.metric(family.like(np.diag([1.0, 5.0, 0.5, 3.0])))
    np.testing.assert_allclose(largest, np.diag([0.0, 5.0, 0.0, 3.0]), atol=1e-12)
    drawn = family.spread * rng.standard_normal((4000, family.start.size))
    drawn[:, 0] = 0.0
    np.testing.assert_allclose(np.mean([family.metric(w) for w in drawn], axis=0), np.eye(4) / 4, atol=0.02)


@each_structure
def test_steps_that_leave_the_metric_alone_are_not_moving(structure: str) -> None:
    family = Covariances.of(structure, 3, "matern52")
    theta = some_theta(family, 8)
    moving = family.moving(theta)
    np.testing.assert_allclose(moving @ moving, moving, atol=1e-12)
    tangents = tangents_of(family.structure, theta[len(SCALES) :])
    np.testing.assert_allclose(np.einsum("p...,pq->q...", tangents, moving[8:, 8:]), tangents, atol=1e-10)
    # as many as the metric has degrees of freedom
    freedom = {"isotropic": 1, "diagonal": 3, "shrunk": 6, "full": 6, "rank-2": 5}[structure]
    assert np.trace(moving) == pytest.approx(len(SCALES) + freedom)


@pytest.mark.parametrize("structure", ["shrunk", "full"])
def test_a_full_metric_knows_tangents_where_eigenvalues_are_equal_and_no_direction_before_the_data(structure) -> None:
    family = STRUCTURES[structure](3)
    w = family.start
    numeric = [(family.metric(w + e) - family.metric(w - e)) / (2 * STEP) for e in STEP * np.eye(w.size)]
    np.testing.assert_allclose(tangents_of(family, w), numeric, atol=1e-8)
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    M = np.diag([2.0, 0.5, 0.1])
    alike = [log_prior(family.like(metric), family.start, family.spread)[0] for metric in (M, turn @ M @ turn.T)]
    assert alike[0] == pytest.approx(alike[1])


@each_shape
@each_structure
def test_covariances_are_possible_and_know_their_derivatives(structure: str, shape: str) -> None:
    family = Covariances.of(structure, 3, shape)
    rng = np.random.default_rng(2)
    Z, theta = rng.standard_normal((7, 3)), some_theta(family)
    grams = family.at(theta, Z)
    for matrix in (grams.person, grams.crowd):
        assert np.linalg.eigvalsh(matrix)[0] > -1e-10
    in_person, in_crowd = (A + A.T for A in rng.standard_normal((2, 7, 7)))

    def value(at: np.ndarray) -> float:
        there = family.at(at, Z)
        return float(np.sum(in_person * there.person) + np.sum(in_crowd * there.crowd))

    numeric = np.array([(value(theta + e) - value(theta - e)) / (2 * STEP) for e in STEP * np.eye(theta.size)])
    np.testing.assert_allclose(grams.gradient(in_person, in_crowd), numeric, rtol=1e-6, atol=1e-6)
    along = [grams.toward(step) for step in np.eye(theta.size)]
    one_by_one = [float(np.sum(in_person * dK) + np.sum(in_crowd * dC)) for dK, dC in along]
    np.testing.assert_allclose(one_by_one, numeric, rtol=1e-6, atol=1e-6)
    for (dK, _), D in zip(along, grams.derivatives_of_person(), strict=True):
        np.testing.assert_allclose(dK, np.zeros((7, 7)) if D is None else D, atol=1e-12)


def test_the_prior_is_a_density_with_a_gradient() -> None:
    family = Covariances.of("diagonal", 2, "matern52")
    theta = some_theta(family)
    value, slope = family.log_prior(theta)
    numeric = [
        (family.log_prior(theta + e)[0] - family.log_prior(theta - e)[0]) / (2 * STEP)
        for e in STEP * np.eye(theta.size)
    ]
    np.testing.assert_allclose(slope, numeric, atol=1e-7)
    assert value < family.log_prior(family.start)[0]
    line = np.linspace(-12.0, 12.0, 4001)
    density = [np.exp(log_prior(np.array([x]), np.zeros(1), np.array([1.5]))[0]) for x in line]
    assert np.trapezoid(density, line) == pytest.approx(1.0, abs=1e-9)


def test_long_lengths_are_linear_utilities() -> None:
    family = Covariances.of("isotropic", 2, "squared-exponential")
    Z = np.random.default_rng(3).standard_normal((6, 2))
    theta = family.start.copy()
    theta[1] = theta[2] = -30.0  # neither a linear part nor an effect of person and item
    theta[len(SCALES)] = -9.0
    M = family.metric(theta)
    differences = Z[1:] - Z[0]
    K = family.at(theta, Z).person
    covariance = K[1:, 1:] - K[1:, :1] - K[:1, 1:] + K[0, 0]
    np.testing.assert_allclose(covariance, np.exp(2 * theta[0]) * differences @ M @ differences.T, rtol=5e-3)
