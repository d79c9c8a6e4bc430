"""Fits by propagation, moved to where exact integrals over people would have them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import CrowdmetricWarning
from crowdmetric.estimators import PopulationMetric
from crowdmetric.fits.crowd import crowd_in_memory
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.inputs import read_rows
from crowdmetric.losses import Logistic
from crowdmetric.simulate import simulate_crowd
from crowdmetric.symmetric import svec
from crowdmetric.users.adaptive_quadrature import along_line, by_sampling
from crowdmetric.users.integrals import loadings_of, on_grid
from crowdmetric.users.population_sums import STRUCTURES
from crowdmetric.users.propagation import propagated

CROWD = simulate_crowd(2, None, None, 3_000, 4, seed=1)


def fitted(integration: str) -> tuple[PopulationMetric, list[str]]:
    """Return a fit, and what it warned of."""
    model = PopulationMetric(CROWD.items, integration=integration, starts=1, uncertainty=False, jobs=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(CROWD.pairs, CROWD.y, users=CROWD.users)
    return model, [str(each.message) for each in caught if issubclass(each.category, CrowdmetricWarning)]


def law_of(model: PopulationMetric) -> np.ndarray:
    return np.concatenate([svec(model.metric_), model.pseudo_ideal_mean_, svec(model.pseudo_ideal_covariance_)])


def test_a_corrected_fit_is_where_exact_integrals_have_it() -> None:
    """On planes grids are exact: propagation is more than half a standard error away, and corrected hardly at all."""
    (exact, _), (alone, told), (corrected, nothing) = map(fitted, ("grid", "propagation", "auto"))
    far, near = (float(np.linalg.norm(law_of(model) - law_of(exact))) for model in (alone, corrected))
    assert near < far / 3.0  # a fifth: the correction is known from some people only
    assert exact.approximation_error_ == 0.0
    assert alone.approximation_error_ > 0.5 > 2.0 * corrected.approximation_error_
    assert any("exact integrals may move the law by" in text for text in told)
    assert not any("exact integrals" in text for text in nothing)
    assert "corrected" in corrected.solution_.status
    assert "corrected" not in alone.solution_.status


def test_corrected_sums_have_the_slope_that_they_say() -> None:
    rows = read_rows(CROWD.pairs[:200], CROWD.y[:200], CROWD.users[:200], None, CROWD.items, Logistic())
    plain = PopulationProblem.of(crowd_in_memory(rows, 1), STRUCTURES["isotropic"], Logistic(), LocalEngine(1))
    natural = np.array([1.0, 0.3, 1.5, 0.2, -0.1, -0.5])
    problem = replace(plain, correction=plain.exact_change(natural, 50))
    along = np.array([0.1, -0.2, 0.1, 0.3, 0.2, 0.1])
    here, there, before = (problem.total(natural + h * along) for h in (0.0, 1e-4, -1e-4))
    slope = (there.value - before.value) / 2e-4
    assert slope == pytest.approx(float(here.score @ along), rel=1e-2)
    assert here.value == pytest.approx(plain.total(natural).value, abs=1e-12)
    exact = replace(plain, largest_grid=2).total(natural).score
    assert np.linalg.norm(here.score - exact) < 0.5 * np.linalg.norm(plain.total(natural).score - exact)


@pytest.mark.parametrize("spread", [1.0, 30.0])
@pytest.mark.parametrize("q", [1, 2])
def test_sampling_is_exact_for_any_noise(q: int, spread: float) -> None:
    """Where people differ by many widths of the noise, the bend is a small difference of large means."""
    rng = np.random.default_rng(0)
    P, m = 8, 3
    a, E, y = rng.standard_normal((P, m)), rng.standard_normal((P, m, q)), rng.choice([-1.0, 1.0], (P, m))
    S, weight, loss = np.tile(spread**2 * np.eye(q), (P, 1, 1)), np.ones((P, m)), Logistic()
    H = loadings_of(E, S)
    guess = propagated(a, E, S, y, weight, loss)[0]
    sampled = by_sampling(a, E, H, y, weight, loss, guess, points=1 << 14)
    exact = along_line(a, E, H, y, weight, loss) if q == 1 else on_grid(a, E, S, y, weight, loss, refine=8)
    np.testing.assert_allclose(sampled.value, exact.value, atol=0.01)
    size = 1.0 / spread**2 if spread > 1.0 else 1.0
    np.testing.assert_allclose(sampled.bend, exact.bend, atol=0.05 * size)


def test_sampling_does_not_depend_on_sides() -> None:
    rng = np.random.default_rng(1)
    a, B = rng.standard_normal((6, 3)), rng.standard_normal((6, 3, 4))
    y, weight, E, loss = rng.choice([-1.0, 1.0], (6, 3)), np.ones((6, 3)), np.tile(np.eye(3), (6, 1, 1)), Logistic()
    side = np.array([1.0, -1.0, -1.0])
    values = []
    for sign in (np.ones(3), side):
        S = (sign[:, None] * B) @ (sign[:, None] * B).swapaxes(1, 2)
        arguments = (sign * a, E, S, sign * y, weight, loss)
        guess = propagated(*arguments)[0]
        values.append(by_sampling(sign * a, E, loadings_of(E, S), sign * y, weight, loss, guess).value)
    np.testing.assert_allclose(values[0], values[1], atol=1e-6)
