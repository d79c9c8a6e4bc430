"""The population fit: penalised maximum likelihood over a metric and a law of people.

The objective is a sum over people that the caller provides (`Total`), so that this module neither knows where people
are kept nor how they are integrated out. To it a ridge is added that draws the metric towards the best multiple of the
identity::

    f(θ) = −ℓ(M, μ, Σ) + ½ τ ‖M − (tr M / d) I‖²

with τ from the evidence (MacKay): at the optimum, ``γ = (p − 1) − τ tr(A⁻¹ P)`` parameters are determined by the
answers, where P projects off the identity and A = I + τP is the information with the ridge; then ``τ ← γ / ‖PM‖²``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdmetric.solvers.charts import Chart
from crowdmetric.solvers.scoring import Quadratic, ScoringResult, minimise_by_scoring
from crowdmetric.symmetric import degrees_of_freedom, svec
from crowdmetric.users.population import Sums

__all__ = ["PopulationFit", "Total", "fit_law", "fit_with_evidence", "observed_information", "ridge_matrix"]

Array = NDArray[Any]

# Refits until the ridge has settled, and the change of its logarithm at which it has.
REFITS, SETTLED = 6, 0.1


class Total(Protocol):
    """The sum over people of log-likelihood, score and outer products of scores at some natural parameters."""

    def __call__(self, natural: Array, *, information: bool = True) -> Sums:
        """Return the sums."""
        ...


@dataclass(frozen=True)
class PopulationFit:
    """Where a fit ended.

    Attributes
    ----------
    theta, natural
        The optimum in the chart and in natural parameters.
    value
        The log-likelihood there, without the ridge.
    information
        Outer products of people's scores in natural parameters, without the ridge.
    ridge
        τ.
    determined
        γ, how many of the p − 1 shape parameters the answers determine (p − 1 without a ridge).
    result
        How the iteration ended.
    """

    theta: Array
    natural: Array
    value: float
    information: Array
    ridge: float
    determined: float
    result: ScoringResult


def ridge_matrix(d: int) -> Array:
    """Return P (p, p), the projector on symmetric matrices without trace."""
    identity = svec(np.eye(d)) / np.sqrt(d)
    return np.eye(identity.size) - np.outer(identity, identity)


def fit_law(
    total: Total,
    chart: Chart,
    start: Array,
    *,
    ridge: float = 0.0,
    tolerance: float = 1e-4,
    max_iterations: int = 200,
    after_step: Callable[[int, float], None] | None = None,
) -> PopulationFit:
    """Maximise the penalised likelihood from `start`."""
    p = degrees_of_freedom(chart.d)
    P = ridge_matrix(chart.d)
    last: dict[bytes, Sums] = {}

    def function(theta: Array) -> Quadratic:
        natural = chart.natural(theta)
        sums = total(natural)
        if not (np.isfinite(sums.value) and np.all(np.isfinite(sums.score))):  # a step far too long: refuse it
            return Quadratic(np.inf, np.zeros(theta.size), np.eye(theta.size))
        assert sums.information is not None
        last.clear()
        last[theta.tobytes()] = sums
        gradient, information = -sums.score, sums.information.copy()
        pulled = P @ natural[:p]
        gradient[:p] += ridge * pulled
        information[:p, :p] += ridge * P
        value = -sums.value + 0.5 * ridge * float(pulled @ pulled)
        return chart.pull_back(theta, value, gradient, information)

    result = minimise_by_scoring(
        function, start, tolerance=tolerance, max_iterations=max_iterations, after_step=after_step
    )
    natural = chart.natural(result.point)
    sums = last.get(result.point.tobytes()) or total(natural)
    assert sums.information is not None
    determined = _determined(sums.information, ridge, P)
    return PopulationFit(result.point, natural, sums.value, sums.information, ridge, determined, result)


def fit_with_evidence(total: Total, chart: Chart, start: Array, **options: Any) -> PopulationFit:
    """Fit with the ridge that the evidence asks for, refitting until it has settled."""
    p = degrees_of_freedom(chart.d)
    P = ridge_matrix(chart.d)
    ridge, fit = 1.0, None
    for _ in range(REFITS):
        fit = fit_law(total, chart, start if fit is None else fit.theta, ridge=ridge, **options)
        pulled = P @ fit.natural[:p]
        # a metric that is a multiple of the identity asks for an infinite ridge: one that holds it there will do
        wanted = fit.determined / max(float(pulled @ pulled), 1e-6 * float(fit.natural[:p] @ fit.natural[:p]), 1e-12)
        hardly_matters = fit.determined > 0.999 * (p - 1) and wanted < 10.0 * ridge
        if abs(np.log(max(wanted, 1e-12) / ridge)) < SETTLED or hardly_matters:
            break
        ridge = max(wanted, 1e-12)
    assert fit is not None
    return fit


def _determined(information: Array, ridge: float, P: Array) -> float:
    """Return γ."""
    p = P.shape[0]
    if ridge == 0.0:
        return float(p - 1)
    A = information.copy()
    A[:p, :p] += ridge * P
    scale = 1.0 / np.sqrt(np.maximum(np.diag(A), 1e-300))
    inverse = np.linalg.pinv(A * scale[:, None] * scale, hermitian=True) * scale[:, None] * scale
    return float(np.clip(p - 1 - ridge * np.sum(inverse[:p, :p] * P), 0.0, p - 1))


def observed_information(total: Total, natural: Array) -> Array:
    """Return minus the second derivative of the log-likelihood, by central differences of the score."""
    n = natural.size
    H = np.empty((n, n))
    for j in range(n):
        step = 1e-4 * max(abs(float(natural[j])), 0.1)
        up, down = natural.copy(), natural.copy()
        up[j] += step
        down[j] -= step
        H[j] = (total(down, information=False).score - total(up, information=False).score) / (2.0 * step)
    return 0.5 * (H + H.T)
