"""The population fit: penalized maximum likelihood over a metric and a law of people, with ridges from the evidence.

The objective is a sum over people that the caller provides (`Total`), so that this module neither knows where people
are kept nor how they are integrated out, plus the negative log prior of `crowdmetric.solvers.priors`::

    f(θ) = −ℓ(M, μ, Σ, b) + prior(M, μ, Σ, b; ridges)

The strengths of ridges come from the evidence (MacKay). Let A be the information with all ridges, at the optimum. Of
the p − 1 parameters of the metric's shape, ``γ = (p − 1) − shape · tr(A⁻¹ P) / c²`` are determined by the answers, P
being the projector off the identity; then ``shape ← γ / ‖M/c − I‖²``. The same rule gives the ridges on the shape of
people's covariance and on the items' utilities, ``γ_b = N − items · tr(A⁻¹)_b`` and ``items ← γ_b / ‖b‖²``.

The ridge on the size is about one number, ``t = ‖cI‖ = √d c``, and only where people's covariance is free: with M = 0
the model is then linear utilities with a crowd prior, a model in its own right, and the one to fall back on where the
answers do not support a metric. With J the information about t, everything else being fitted, and ``z = t̂ √J`` the
estimate without the ridge in units of its error, the evidence is largest at ::

    size = J / (z² − 1),      which takes the share 1 / z² off the size;      z ≤ 1: all of it

so that a metric that is well known keeps its size (James and Stein's positive part, for one number).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdmetric.solvers.charts import Chart
from crowdmetric.solvers.priors import Ridges, penalty, shape_penalty
from crowdmetric.solvers.scoring import Quadratic, ScoringResult, ScoringState, minimise_by_scoring
from crowdmetric.symmetric import svec
from crowdmetric.users.layout import Layout
from crowdmetric.users.population import Sums

__all__ = [
    "NO_METRIC",
    "PopulationFit",
    "Total",
    "fit_law",
    "fit_with_evidence",
    "items_covariance",
    "items_determined",
    "observed_information",
    "remembering",
    "with_ridges",
]

Array = NDArray[Any]

# Refits until the ridges have settled, and the change of their logarithms at which they have.
REFITS, SETTLED = 8, 0.1
# The same where items have utilities of their own: more strengths take longer to settle.
MORE_REFITS = 15
# Below this size ‖cI‖ / √d, for items of size one, a metric counts as zero: a ridge on the size need not go further.
NO_SIZE = 0.01
# Below this mean eigenvalue c, for items of size one, what is left of a metric counts as zero.
NO_METRIC = 0.02
# A ridge on the size that changes it by a smaller share does not matter.
LEAST_SHARE = 0.01
# The first guesses of ridges on shapes and of 1/ω², and the limits of the latter: utilities that differ by less than
# 0.01 are none, and those that differ by more than 10 are as sure as answers can be.
SHAPE_RIDGE, ITEM_RIDGE, LEAST_ITEM_RIDGE, MOST_ITEM_RIDGE = 1.0, 4.0, 1e-2, 1e4
# Limits of the ridges on shapes: a stronger one leaves nothing but a multiple of the identity.
LEAST_SHAPE_RIDGE, MOST_SHAPE_RIDGE = 1e-12, 1e8
# The tolerance of the fits on the way there, in nats.
ROUGH = 0.05
# Steps that correct the curvature, where different parameters are different metrics.
SECANTS = 8


class Total(Protocol):
    """The sum over people of log-likelihood, score and information at some natural parameters."""

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
        The log-likelihood there, without the prior.
    information
        About the natural parameters, without the prior.
    ridges, beta
        The prior (`crowdmetric.solvers.priors`).
    determined
        γ, how many of the p − 1 shape parameters the answers determine (p − 1 without a ridge).
    result
        How the iteration ended.
    layout
        Where the natural parameters stand.
    """

    theta: Array
    natural: Array
    value: float
    information: Array
    ridges: Ridges
    beta: float
    determined: float
    result: ScoringResult
    layout: Layout

    @property
    def objective(self) -> float:
        """The log-likelihood with the log prior, the number that was maximized."""
        return -self.result.at.value


def with_ridges(information: Array, fit: PopulationFit) -> Array:
    """Return an information (n, n) with the curvature of the prior of a fit."""
    return information + penalty(fit.natural, fit.layout, fit.ridges, fit.beta).curvature


def fit_law(
    total: Total,
    chart: Chart,
    start: Array | ScoringState,
    *,
    ridges: Ridges | None = None,
    beta: float = 1.0,
    tolerance: float = 1e-4,
    max_iterations: int = 200,
    after_step: Callable[[ScoringState, float], None] | None = None,
) -> PopulationFit:
    """Maximize the penalized likelihood from `start`, a θ or the state of an iteration to take up again."""
    ridges, layout = ridges or Ridges(), chart.layout
    last: dict[bytes, Sums] = {}

    def function(theta: Array) -> Quadratic:
        natural = chart.natural(theta)
        sums = total(natural)
        if not (np.isfinite(sums.value) and np.all(np.isfinite(sums.score))):  # a step far too long: refuse it
            return Quadratic(np.inf, np.zeros(theta.size), np.eye(theta.size))
        assert sums.information is not None
        last.clear()
        last[theta.tobytes()] = sums
        prior = penalty(natural, layout, ridges, beta)
        gradient, information = prior.gradient - sums.score, sums.information + prior.curvature
        return chart.pull_back(theta, prior.value - sums.value, gradient, information)

    result = minimise_by_scoring(
        function,
        start,
        tolerance=tolerance,
        max_iterations=max_iterations,
        secants=SECANTS if chart.is_one_to_one else 0,
        shorten=chart.shorten,
        after_step=after_step,
    )
    natural = chart.natural(result.point)
    sums = last.get(result.point.tobytes()) or total(natural)
    assert sums.information is not None
    fit = PopulationFit(
        result.point, natural, sums.value, sums.information, ridges, beta, float("nan"), result, layout
    )  # fmt: skip
    return replace(fit, determined=_shape_determined(fit, layout.metric, ridges.shape) if _has_shape(chart) else 0.0)


def remembering(total: Total) -> Total:
    """Return the same sums, without asking twice in a row for those at one point: a refit begins where one ended."""
    last: dict[bytes, Sums] = {}

    def remembered(natural: Array, *, information: bool = True) -> Sums:
        key = natural.tobytes()
        sums = last.get(key)
        if sums is None or (information and sums.information is None):
            sums = total(natural, information=information)
            last.clear()
            last[key] = sums
        return sums

    return remembered


def fit_with_evidence(
    total: Total,
    chart: Chart,
    start: Array,
    *,
    first: Ridges | None = None,
    take_up: Callable[[str, Array], tuple[Array | ScoringState, dict[str, Any]]] | None = None,
    **options: Any,
) -> PopulationFit:
    """Fit with the ridges that the evidence asks for, refitting until they have settled.

    `first` are ridges to begin with. `take_up` of a stage's name and start, for fits that are saved, returns where to
    begin instead and what else to tell `fit_law`.
    """
    total = remembering(total)
    ridges = first or _first_ridges(chart)
    fit: PopulationFit | None = None
    loosely = options | {"tolerance": max(ROUGH, options.get("tolerance", 0.0))}
    for number in range(MORE_REFITS if chart.n_items else REFITS):
        begin = start if fit is None else fit.theta
        at, more = (begin, {}) if take_up is None else take_up(f"evidence {number}", begin)
        fit = fit_law(total, chart, at, ridges=ridges, **loosely, **more)
        wanted = _wanted_ridges(fit, chart)
        if _settled(ridges, wanted):
            break
        ridges = wanted
    assert fit is not None
    at, more = (fit.theta, {}) if take_up is None else take_up("evidence", fit.theta)
    return fit_law(total, chart, at, ridges=ridges, **options, **more)


def _first_ridges(chart: Chart) -> Ridges:
    return Ridges(
        shape=SHAPE_RIDGE if _has_shape(chart) else 0.0,
        people=SHAPE_RIDGE if chart.free and chart.d > 1 else 0.0,
        items=ITEM_RIDGE if chart.n_items else 0.0,
    )


def _has_shape(chart: Chart) -> bool:
    return chart.kind in ("psd", "symmetric") and chart.d > 1


def _wanted_ridges(fit: PopulationFit, chart: Chart) -> Ridges:
    """Return the ridges that the evidence asks for, from a fit with others."""
    layout, now = fit.layout, fit.ridges
    return Ridges(
        shape=_wanted_shape(fit, layout.metric, now.shape) if _has_shape(chart) else 0.0,
        size=_wanted_size(fit) if chart.free and chart.kind in ("psd", "symmetric") else 0.0,
        people=_wanted_shape(fit, layout.spread, now.people) if now.people else 0.0,
        items=_wanted_items(fit) if chart.n_items else 0.0,
    )


def _settled(now: Ridges, wanted: Ridges) -> bool:
    """Return whether the evidence asks for no other ridges but for a tenth, or a size that hardly matters."""

    def close(before: float, after: float) -> bool:
        return abs(float(np.log(max(after, 1e-300) / max(before, 1e-300)))) < SETTLED

    return all(close(getattr(now, name), getattr(wanted, name)) for name in ("shape", "size", "people", "items"))


def _wanted_shape(fit: PopulationFit, place: slice, strength: float) -> float:
    """Return the strength that the evidence asks for on the shape of M or Σ, which stands at `place`."""
    # a matrix that is a multiple of the identity asks for an infinite ridge: one that holds it there will do
    distance = 2.0 * shape_penalty(fit.natural[place], 1.0).value
    determined = _shape_determined(fit, place, strength)
    wanted = determined / max(distance, 1e-6)
    if determined > 0.999 * (fit.layout.p - 1) and wanted < 10.0 * strength:  # it hardly matters
        return strength
    return float(np.clip(wanted, LEAST_SHAPE_RIDGE, MOST_SHAPE_RIDGE))


def _wanted_size(fit: PopulationFit) -> float:
    """Return the ridge on the size that the evidence asks for; zero where it would hardly matter."""
    d = fit.layout.d
    e = np.zeros(fit.natural.size)
    e[fit.layout.metric] = svec(np.eye(d)) / np.sqrt(d)
    A = with_ridges(fit.information, replace(fit, ridges=replace(fit.ridges, size=0.0)))
    known = 1.0 / max(float(e @ _pseudo_inverse(A) @ e), 1e-300)
    # without the ridge the size would be larger by what the ridge has taken off
    z2 = (float(e @ fit.natural) * (1.0 + fit.ridges.size / known)) ** 2 * known
    if z2 * LEAST_SHARE > 1.0:
        return 0.0
    return min(known / max(z2 - 1.0, 1e-12), 1.0 / (d * NO_SIZE**2))


def _wanted_items(fit: PopulationFit) -> float:
    """Return the ρ that the evidence asks for, from a fit with another."""
    b = fit.natural[fit.layout.items]
    wanted = items_determined(fit) / max(float(b @ b), 1e-300)
    return float(np.clip(wanted, LEAST_ITEM_RIDGE, MOST_ITEM_RIDGE))


def items_determined(fit: PopulationFit) -> float:
    """Return ``γ_b = N − ρ tr(A⁻¹)_b``, how many of the items' own utilities the answers determine."""
    return fit.layout.n_items - fit.ridges.items * float(np.trace(items_covariance(fit)))


def items_covariance(fit: PopulationFit) -> Array:
    """Return the (N, N) covariance of the items' utilities given the answers; ω² of an item that nobody has seen."""
    items = fit.layout.items
    return _pseudo_inverse(with_ridges(fit.information, fit))[items, items]


def _shape_determined(fit: PopulationFit, place: slice, strength: float) -> float:
    """Return γ from the information with the ridges, of the shape of M or Σ, which stands at `place`."""
    most = fit.layout.p - 1
    bend = shape_penalty(fit.natural[place], strength).curvature
    known = _pseudo_inverse(with_ridges(fit.information, fit))[place, place]
    return float(np.clip(most - np.sum(known * bend), 0.0, most))


def _pseudo_inverse(A: Array) -> Array:
    scale = 1.0 / np.sqrt(np.maximum(np.diag(A), 1e-100))
    inverse: Array = np.linalg.pinv(A * scale[:, None] * scale, hermitian=True) * scale[:, None] * scale
    return inverse


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
