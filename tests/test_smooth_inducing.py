"""Many items: with all items as inducing ones it is exact, and with some the gradient is that of what is computed."""

from __future__ import annotations

import numpy as np
import pytest

from crowdmetric.smooth.covariances import Covariances
from crowdmetric.smooth.inducing import InducedCovariances, choose_inducing, shown_to
from crowdmetric.smooth.joint_propagation import Propagation
from crowdmetric.smooth.people_blocks import DistinctAnswers, arrange, merged

TIGHT = 1e-11
N = 14
Z = np.random.default_rng(0).standard_normal((N, 2))


def crowd(seed: int, people: int = 9) -> DistinctAnswers:
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), 6 + rng.integers(0, 4, people))
    low = rng.integers(0, N, person.size)
    pairs = np.column_stack([low, (low + rng.integers(1, N, person.size)) % N])
    return merged(person, pairs, rng.choice([-1.0, 1.0], person.size), np.ones(person.size))


def some_theta(family: Covariances) -> np.ndarray:
    return family.start + 0.3 * np.random.default_rng(1).standard_normal(family.start.size)


def evidence(family: Covariances, theta: np.ndarray, answers: DistinctAnswers) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the log-likelihood, its gradient and the information."""
    propagation, grams = Propagation(arrange(answers, N), N), family.at(theta, Z)
    propagation.converge(grams.person, grams.crowd, TIGHT)
    found = propagation.evidence(grams.crowd)
    return found.value, grams.gradient(found.in_person, found.in_crowd), grams.information(propagation)


def families(m: int) -> tuple[Covariances, InducedCovariances]:
    exact = Covariances.of("diagonal", 2, "matern52")
    inducing = choose_inducing(exact, Z, shown_to(crowd(2), N), m)
    return exact, InducedCovariances(exact.structure, exact.shape, inducing)


def test_all_items_as_inducing_ones_are_exact() -> None:
    exact, induced = families(N)
    theta, answers = some_theta(exact), crowd(2)
    for ours, truth in zip(evidence(induced, theta, answers), evidence(exact, theta, answers), strict=True):
        np.testing.assert_allclose(ours, truth, rtol=1e-6, atol=1e-6)
    assert induced.at(theta, Z).not_shared(np.ones(N)) < 1e-8


@pytest.mark.parametrize("m", [3, 8])
def test_the_gradient_with_some_inducing_items_is_that_of_the_evidence(m: int) -> None:
    _, induced = families(m)
    theta, answers, step = some_theta(induced), crowd(2), 1e-4
    numeric = [
        (evidence(induced, theta + e, answers)[0] - evidence(induced, theta - e, answers)[0]) / (2 * step)
        for e in step * np.eye(theta.size)
    ]
    np.testing.assert_allclose(evidence(induced, theta, answers)[1], numeric, rtol=1e-4, atol=1e-4)


def test_one_person_is_exact_with_any_inducing_items() -> None:
    exact, induced = families(2)
    theta, answers = some_theta(exact), crowd(3, people=1)
    assert evidence(induced, theta, answers)[0] == pytest.approx(evidence(exact, theta, answers)[0], abs=1e-6)


def test_more_inducing_items_share_more_and_those_often_shown_come_first() -> None:
    often = np.ones(N)
    exact = Covariances.of("isotropic", 2, "matern52")
    left = []
    for m in (2, 5, 10, N):
        induced = InducedCovariances(exact.structure, exact.shape, choose_inducing(exact, Z, often, m))
        left.append(induced.at(exact.start, Z).not_shared(often))
    assert np.all(np.diff(left) < 0.0)
    assert left[0] < 1.0
    often[[3, 7]] = 1e4
    assert {3, 7} <= set(choose_inducing(exact, Z, often, 2))


def test_people_are_counted_once_per_item() -> None:
    answers = merged(np.array([0, 0, 1]), np.array([[0, 1], [0, 2], [1, 2]]), np.array([1.0, 1.0, -1.0]), np.ones(3))
    np.testing.assert_array_equal(shown_to(answers, 4), [1.0, 2.0, 2.0, 0.0])
