"""Spectral projected gradients: projections, certificates, and problems whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdmetric.bounded.from_disk import EvaluatedPoint, minimize_over_set
from crowdmetric.solvers.cone import BOUNDS
from crowdmetric.symmetric import degrees_of_freedom, smat, svec


@pytest.mark.parametrize("norm", BOUNDS)
@given(seed=st.integers(0, 10_000), d=st.integers(1, 5), radius=st.floats(0.05, 20.0))
@settings(max_examples=40)
def test_a_projection_is_the_nearest_point_of_the_set(norm: str, seed: int, d: int, radius: float) -> None:
    bound, rng = BOUNDS[norm], np.random.default_rng(seed)
    a = 3.0 * rng.standard_normal(degrees_of_freedom(d))
    near = bound.nearest(a, radius)
    assert np.linalg.eigvalsh(smat(near))[0] >= -1e-12 * (1.0 + radius)
    assert bound.size(near) <= radius * (1.0 + 1e-12)
    for _ in range(20):  # ⟨a − Pa, b − Pa⟩ ≤ 0 for every b of the set
        G = rng.standard_normal((d, d))
        b = svec(G @ G.T)
        b *= rng.uniform(0.0, radius) / bound.size(b)
        assert (a - near) @ (b - near) <= 1e-9 * (1.0 + radius**2)
    # the support function is attained: no b of the set does better, and moving far along −g comes close
    g = rng.standard_normal(a.size)
    far = bound.nearest(-1e7 * g, radius)
    assert g @ far == pytest.approx(bound.support(g, radius), abs=1e-5 * (1.0 + radius))


@pytest.mark.parametrize("norm", BOUNDS)
def test_a_quadratic_is_minimized_to_its_certificate(norm: str) -> None:
    bound, rng = BOUNDS[norm], np.random.default_rng(1)
    scale, target = 10.0 ** rng.uniform(-1.5, 0.5, 10), 2.0 * rng.standard_normal(10)

    def function(a: np.ndarray) -> EvaluatedPoint:
        return EvaluatedPoint(float(0.5 * scale @ (a - target) ** 2), scale * (a - target))

    radius = 1.5
    found = minimize_over_set(
        function, np.zeros(10), lambda a: bound.nearest(a, radius), lambda g: float(bound.support(g, radius)),
        tolerance=1e-9, max_passes=2_000,
    )  # fmt: skip
    assert found.converged
    assert found.gap <= 1e-9
    # the optimum of a convex problem is a fixed point of every projected step
    step = bound.nearest(found.point - found.at.gradient, radius)
    assert step == pytest.approx(found.point, abs=1e-3)
    short = minimize_over_set(
        function, np.zeros(10), lambda a: bound.nearest(a, radius), lambda g: float(bound.support(g, radius)),
        tolerance=1e-9, max_passes=3,
    )  # fmt: skip
    assert not short.converged
    assert short.at.value - found.at.value <= short.gap  # a certificate holds wherever it stops
