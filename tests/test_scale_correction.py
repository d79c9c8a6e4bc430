"""What is taken off the scale of a metric, against the definition of the adjusted profile likelihood."""

from __future__ import annotations

import numpy as np
import pytest

from crowdmetric import PopulationMetric
from crowdmetric.losses import Logistic
from crowdmetric.simulate import simulate_crowd
from crowdmetric.solvers.charts import Chart
from crowdmetric.solvers.population import fit_law, traceless
from crowdmetric.solvers.scale_correction import STEP, scale_correction, with_corrected_scale
from crowdmetric.symmetric import degrees_of_freedom, smat, svec
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.population import STRUCTURES, Sums, blocks_of, sums_of


def total_of(structure: str, d: int, people: int = 150, m: int = 3, seed: int = 0):
    """Return the sums over some people as a function of natural parameters."""
    crowd = simulate_crowd(d, None, None, users=people, comparisons=m, seed=seed)
    answers = Answers(
        crowd.items, crowd.pairs, crowd.y.astype(float), np.ones(crowd.y.size), crowd.users,
        np.zeros(people, dtype=np.intp), 1,
    )  # fmt: skip
    blocks = blocks_of(arrange(answers))

    def total(natural: np.ndarray, *, information: bool = True) -> Sums:
        sums = [sums_of(b, STRUCTURES[structure], natural, Logistic(), information=information) for b in blocks]
        return sum(sums[1:], start=sums[0])

    return total


def fitted(structure: str, d: int):
    total, free = total_of(structure, d), structure == "free"
    chart = Chart(d, None, free)
    start = chart.theta(np.eye(d), np.zeros(d), np.eye(d) if free else np.zeros(1))
    return total, fit_law(total, chart, start)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_correction_by_its_definition(structure: str, d: int) -> None:
    """−∂/∂log c of ½ log det j_ψψ over the information about log c, with the Jacobian of ψ written out.

    ψ is shape M/c, μ/c and Σ/c² or log s; in one dimension a free and an isotropic law have equally many parameters.
    """
    total, fit = fitted(structure, d)
    p, free = degrees_of_freedom(d), structure == "free"
    correction, path = scale_correction(total, fit, d, free=free)
    identity = svec(np.eye(d))
    basis = np.linalg.svd(traceless(d))[0][:, : p - 1]

    def half_log_determinant(natural: np.ndarray) -> float:
        c = float(identity @ natural[:p]) / d
        J = np.zeros((natural.size, natural.size - 1))
        J[:p, : p - 1] = c * basis
        J[p : p + d, p - 1 : p - 1 + d] = c * np.eye(d)
        rest = natural.size - p - d
        J[p + d :, p - 1 + d :] = (c**2 if free else 1.0) * np.eye(rest)
        return 0.5 * float(np.linalg.slogdet(J.T @ total(natural).information @ J)[1])

    # a straight path changes log c by its step only to first order, and the units of ψ with it
    slope = (half_log_determinant(fit.natural + STEP * path) - half_log_determinant(fit.natural - STEP * path)) / (
        np.log(identity @ (fit.natural + STEP * path)[:p]) - np.log(identity @ (fit.natural - STEP * path)[:p])
    )
    w = np.zeros(fit.natural.size)
    w[:p] = identity / float(identity @ fit.natural[:p])
    known = 1.0 / float(w @ np.linalg.solve(fit.information, w))
    assert correction == pytest.approx(-slope / known, rel=0.02)
    assert abs(correction) < 0.5


@pytest.mark.parametrize("structure", STRUCTURES)
def test_only_the_scale_is_corrected(structure: str) -> None:
    total, fit = fitted(structure, 2)
    corrected, by = with_corrected_scale(total, fit, 2, free=structure == "free")
    np.testing.assert_allclose(corrected.natural[:3], np.exp(by) * fit.natural[:3], rtol=1e-12)
    if structure == "free":
        assert np.linalg.eigvalsh(smat(corrected.natural[5:]))[0] >= 0.0
    assert by != 0.0


def test_one_feature_has_one_law_of_people() -> None:
    """N(u₀, s²) is the same model by either name: what little differs is the law of ψ that each name implies."""
    crowd = simulate_crowd(1, None, None, users=300, comparisons=3, seed=0)
    isotropic, free = (
        PopulationMetric(crowd.items, covariance=name, ridge=None).fit(crowd.pairs, crowd.y, users=crowd.users)
        for name in STRUCTURES
    )
    assert free.log_likelihood_ == pytest.approx(isotropic.log_likelihood_, abs=1e-3)
    assert free.scale_correction_ == pytest.approx(isotropic.scale_correction_, abs=0.01)
