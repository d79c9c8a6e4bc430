"""The population fit: penalized maximum likelihood over a metric and a law of people, with ridges from the evidence.

The objective is a sum over people that the caller provides (`Total`), so this module neither knows where people
are kept nor how they are integrated out, plus the negative log prior of `crowdmetric.solvers.priors`::

    f(θ) = −ℓ(M, μ, Σ, b) + prior(M, μ, Σ, b; ridges)

The strengths of ridges come from the evidence (MacKay). Let A be the information with all ridges, at the optimum. Of
the p − 1 parameters of the metric's shape, ``γ = (p − 1) − shape · tr(A⁻¹ P) / c²`` are determined by the answers, P
being the projector off the identity; then ``shape ← γ / ‖M/c − I‖²``. The same rule gives the ridges on the shape of
people's covariance and on the items' utilities, ``γ_b = N − items · tr(A⁻¹)_b`` and ``items ← γ_b / ‖b‖²``.

The ridge on the size is about one number, ``t = ‖cI‖ = √d c``, and only where people's covariance is free: with M = 0
the model is then linear utilities with a crowd prior, which is a model of its own. It is what remains if the answers do
not support a metric. With J the information about t, everything else being fitted, and ``z = t̂ √J`` the estimate
without the ridge in units of its error, the evidence is largest at ::

    size = J / (z² − 1),      which takes the share 1 / z² off the size;      z ≤ 1: all of it

so that a metric that is well known keeps its size (James and Stein's positive part, for one number).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.linalg.lapack import dpotrf, dpotri

from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.solvers.priors import Ridges, penalty, shape_penalty, traceless
from crowdmetric.solvers.scoring import (
    NEAR,
    Quadratic,
    ScoringResult,
    ScoringState,
    Underlying,
    minimize_by_scoring,
)
from crowdmetric.symmetric import dimension, svec
from crowdmetric.users.layout import Layout
from crowdmetric.users.population_sums import Sums

__all__ = [
    "NO_METRIC",
    "PopulationFit",
    "Total",
    "first_ridges",
    "fit_law",
    "fit_with_evidence",
    "items_determined",
    "observed_information",
    "remembering",
    "wanted_shape",
    "with_ridges",
]

Array = NDArray[Any]

# Maximum number of refits until the ridges settle, and with per-item effects: more strengths take longer.
REFITS, MORE_REFITS = 8, 15
# Settled: the change of a strength's logarithm, or the nats of evidence, that are not worth another refit. A fit with a
# wider tolerance than this evidence does not need more of it either.
SETTLED, LEAST_EVIDENCE = 0.05, 0.01
# Between refits, the maximum number of steps that the evidence asks for which are taken at once. Steps are extrapolated
# only if they do not grow by more than GROWTH, and if the last change was at least TRUSTED times the next step: short
# changes tell the slope no better than the tolerance of the fits allows.
FURTHEST, GROWTH, TRUSTED = 8.0, 1.2, 0.5
# The ridge on the size may cost at most this much likelihood, in nats: the evidence for one number is not worth more.
MOST_PAID = 10.0
# Below this size ‖cI‖ / √d, for items of size one, a metric counts as zero. A ridge on the size need not go further.
NO_SIZE = 0.01
# Below this mean eigenvalue c, for items of size one, what is left of a metric counts as zero.
NO_METRIC = 0.02
# A ridge on the size that changes it by less than this share does not matter.
LEAST_SHARE = 0.01
# First guesses of the ridges on shapes and of 1/ω². Item effects that differ by less than
# 0.01 count as none, and effects that differ by more than 10 make answers certain.
SHAPE_RIDGE, ITEM_RIDGE = 1.0, 4.0
# Limits of strengths. A ridge on a shape that is stronger leaves only a multiple of the identity.
LIMITS = {
    "shape": (1e-12, 1e8), "people": (1e-12, 1e8), "items": (1e-2, 1e4), "size": (0.0, np.inf),
    "volume": (0.0, 1e12), "people_volume": (0.0, 1e12),
}  # fmt: skip
# By how much sizes are changed, in log, to see the slope of a volume in them.
RESIZED = 0.1
# Tolerance of intermediate fits, in nats, and of their first steps.
ROUGH, FIRST = 0.005, 1e-4
# Steps of differences, relative to a parameter.
CENTRAL, FORWARD = 1e-4, 1e-3
# Steps that correct the curvature.
SECANTS = 8
# An information whose Cholesky factor, at unit diagonal, has a smaller pivot is close to singular.
LEAST_PIVOT = 1e-4


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
    score, information
        Gradient of the log-likelihood in natural parameters, and its information matrix, without the prior.
    ridges, beta
        The prior (`crowdmetric.solvers.priors`).
    result
        How the iteration ended.
    chart
        What the metric may be, and where the natural parameters stand.
    """

    theta: Array
    natural: Array
    value: float
    score: Array
    information: Array
    ridges: Ridges
    beta: float
    result: ScoringResult
    chart: Parametrization

    @property
    def layout(self) -> Layout:
        """Where the natural parameters stand."""
        return self.chart.layout

    @property
    def objective(self) -> float:
        """The log-likelihood with the log prior, the number that was maximized."""
        return -self.result.at.value

    @property
    def determined(self) -> float:
        """γ, how many of the p − 1 shape parameters the answers determine (p − 1 without a ridge)."""
        return _shape_determined(self, self.layout.metric, self.ridges.shape) if _has_shape(self.chart) else 0.0

    @cached_property
    def covariance(self) -> Array:
        """What the answers and the prior leave unknown of the natural parameters, (n, n)."""
        return _covariance(with_ridges(self.information, self), self.chart)


def with_ridges(information: Array, fit: PopulationFit) -> Array:
    """Return an information (n, n) with the curvature of the prior of a fit."""
    return information + penalty(fit.natural, fit.layout, fit.ridges, fit.beta).curvature


def fit_law(
    total: Total,
    chart: Parametrization,
    start: Array | ScoringState,
    *,
    ridges: Ridges | None = None,
    beta: float = 1.0,
    tolerance: float = 1e-4,
    first_tolerance: float | None = None,
    max_iterations: int = 200,
    near: float = NEAR,
    after_step: Callable[[ScoringState, float], None] | None = None,
) -> PopulationFit:
    """Maximize the penalized likelihood from `start`, a θ or the state of an iteration to resume."""
    ridges, layout = ridges or Ridges(), chart.layout
    last: dict[bytes, Sums] = {}

    def function(theta: Array) -> Quadratic:
        natural = chart.natural(theta)
        sums = total(natural)
        if not (np.isfinite(sums.value) and np.all(np.isfinite(sums.score))):  # this step is far too long: refuse it
            return Quadratic(np.inf, np.zeros(theta.size), np.eye(theta.size))
        assert sums.information is not None
        last.clear()
        last[theta.tobytes()] = sums
        prior = penalty(natural, layout, ridges, beta)
        curvature = sums.information + prior.curvature
        if sums.bending is not None:
            curvature = curvature + sums.bending
        value, gradient = prior.value - sums.value, prior.gradient - sums.score
        pulled = chart.pull_back(theta, value, gradient, curvature)
        if chart.is_one_to_one:
            return pulled
        pull = partial(_pulled, chart, theta, gradient)
        return replace(pulled, underlying=Underlying(natural, gradient, curvature, pull))

    result = minimize_by_scoring(
        function,
        start,
        tolerance=tolerance,
        first_tolerance=first_tolerance,
        max_iterations=max_iterations,
        secants=SECANTS,
        near=near,
        shorten=chart.shorten,
        after_step=after_step,
    )
    natural = chart.natural(result.point)
    sums = last.get(result.point.tobytes()) or total(natural)
    assert sums.information is not None
    return PopulationFit(
        result.point, natural, sums.value, sums.score, sums.information, ridges, beta, result, chart
    )  # fmt: skip


def _pulled(chart: Parametrization, theta: Array, gradient: Array, curvature: Array) -> Array:
    """Return a curvature in natural parameters as one in θ."""
    return chart.pull_back(theta, 0.0, gradient, curvature).curvature


def remembering(total: Total) -> Total:
    """Return the same sums with the last result cached, because a refit begins where the fit before it ended."""
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
    chart: Parametrization,
    start: Array,
    *,
    smooth: Total | None = None,
    first: Ridges | None = None,
    resume_stage: Callable[[str, Array], tuple[Array | ScoringState, dict[str, Any]]] | None = None,
    **options: Any,
) -> PopulationFit:
    """Fit with the ridges that the evidence asks for, refitting until they have settled.

    `smooth` returns the information that ridges and volumes are found from, where that of steps is too noisy for it.
    `first` are ridges to begin with. For fits that are saved, `resume_stage(name, start)` returns where a stage begins
    instead of at `start`, and further options of `fit_law`.
    """
    total = remembering(total)
    ridges = first or first_ridges(chart)
    fit: PopulationFit | None = None
    # a fit that has not moved since its ridges changed tells nothing about them: under new ridges the first step is
    # always taken
    tolerance = options.get("tolerance", 0.0)
    loosely = options | {"tolerance": max(ROUGH, tolerance), "first_tolerance": max(FIRST, 0.1 * tolerance)}
    before: tuple[Ridges, Ridges] | None = None
    best: PopulationFit | None = None
    keeps_size = False
    for number in range(MORE_REFITS if chart.n_items else REFITS):
        begin = start if fit is None else fit.theta
        at, more = (begin, {}) if resume_stage is None else resume_stage(f"evidence {number}", begin)
        fit = fit_law(total, chart, at, ridges=ridges, **loosely, **more)
        if best is not None and ridges.size > best.ridges.size and fit.value < best.value - MOST_PAID:
            # the ridge on the size took a metric that the answers support: it stays as it was
            fit, ridges, before, keeps_size = best, best.ridges, None, True
        if best is None or fit.value > best.value:
            best = fit
        seen = fit
        if smooth is not None:
            about = smooth(fit.natural).information
            assert about is not None
            seen = replace(fit, information=about)
        wanted = _with_volumes(smooth or total, seen, _wanted_ridges(seen, chart))
        if keeps_size:
            wanted = replace(wanted, size=fit.ridges.size)
        if _settled(seen, wanted, max(LEAST_EVIDENCE, tolerance)):
            break
        before, ridges = (ridges, wanted), wanted if before is None else _next_ridges(*before, ridges, wanted)
    assert fit is not None
    at, more = (fit.theta, {}) if resume_stage is None else resume_stage("evidence", fit.theta)
    return fit_law(total, chart, at, ridges=ridges, **options, **more)


def _next_ridges(before: Ridges, wanted_before: Ridges, now: Ridges, wanted: Ridges) -> Ridges:
    """Return the strengths at which the evidence is likely to want no change, by the secant through two refits.

    In logarithms x, the evidence wanted the step g₀ − x₀ before and wants g − x now. Taking each as it comes is slow
    where answers say little: every step is nearly as long as the one before. Short steps are taken as they come.
    """
    found = dict[str, Any]()
    for name, strength in wanted.strengths.items():
        four = [vars(ridges)[name] for ridges in (before, wanted_before, now, wanted)]
        x0, g0, x, g = map(float, np.log(np.maximum(four, 1e-300)))
        is_slow = min(four) > 0.0 and abs(g - x) > SETTLED
        found[name] = float(np.clip(np.exp(_secant(x0, g0, x, g)), *LIMITS[name])) if is_slow else strength
    return Ridges(**found)


def _secant(x0: float, g0: float, x: float, g: float) -> float:
    """Return where the line through (x₀, g₀) and (x, g) has g = x, at most FURTHEST steps g − x from x.

    One step if the two points do not determine the line.
    """
    first, step = g0 - x0, g - x
    ahead = (x - x0) / (first - step) if first != step else np.inf
    if not 0.0 < ahead < FURTHEST:
        ahead = FURTHEST if abs(step) <= GROWTH * abs(first) else 1.0
    return x + step * (ahead if abs(x - x0) >= TRUSTED * abs(step) else 1.0)


def first_ridges(chart: Parametrization) -> Ridges:
    """Return the strengths to begin with, zero for ridges on parameters that a chart does not have."""
    return Ridges(
        shape=SHAPE_RIDGE if _has_shape(chart) else 0.0,
        people=SHAPE_RIDGE if chart.free and chart.d > 1 else 0.0,
        items=ITEM_RIDGE if chart.n_items else 0.0,
    )


def _has_shape(chart: Parametrization) -> bool:
    return chart.kind in ("psd", "symmetric") and chart.d > 1


def _wanted_ridges(fit: PopulationFit, chart: Parametrization) -> Ridges:
    """Return the ridges that the evidence asks for, from a fit with others."""
    layout, now = fit.layout, fit.ridges
    return Ridges(
        shape=wanted_shape(fit, layout.metric, now.shape) if _has_shape(chart) else 0.0,
        size=_wanted_size(fit, chart) if chart.free and chart.kind in ("psd", "symmetric") else 0.0,
        people=wanted_shape(fit, layout.spread, now.people) if now.people else 0.0,
        items=_wanted_items(fit) if chart.n_items else 0.0,
    )


def _settled(fit: PopulationFit, wanted: Ridges, enough: float) -> bool:
    """Return whether the ridges of a fit have settled: the evidence wants hardly other ones, or gains less than that.

    The log evidence grows with the logarithm of a strength ρ by ``½(γ − ρ‖·‖²) = ½γ(1 − ρ/wanted)``.
    """
    determined = {
        "shape": lambda: _shape_determined(fit, fit.layout.metric, fit.ridges.shape),
        "people": lambda: _shape_determined(fit, fit.layout.spread, fit.ridges.people),
        "items": lambda: items_determined(fit),
    }

    def close(name: str) -> bool:
        now, after = max(vars(fit.ridges)[name], 1e-300), max(vars(wanted)[name], 1e-300)
        step = float(np.log(after) - np.log(now))
        if abs(step) < SETTLED or name not in determined:
            return abs(step) < SETTLED
        return 0.5 * determined[name]() * (1.0 - now / after) * step < enough

    return all(map(close, wanted.strengths))


def _with_volumes(total: Total, fit: PopulationFit, ridges: Ridges) -> Ridges:
    """Return ridges with the volumes that have the slopes of ``½ log det(H + ridges)`` in log c and log σ².

    H is the information about the shapes at fixed sizes, everything else being fitted. It also changes with the size
    by itself, because answers tell less where they are foreseen, so the slope is a difference: by two more passes.
    """
    layout, found = fit.layout, dict[str, Any]()
    shapes = {
        name: (place, strength)
        for name, place, strength in (
            ("volume", layout.metric, ridges.shape),
            ("people_volume", layout.spread, ridges.people),
        )
        if strength > 0.0
    }
    for name, (place, _) in shapes.items():
        above, below = (
            _log_volume(total, fit, place, sign * RESIZED, list(shapes.values()), ridges) for sign in (1.0, -1.0)
        )
        slope = float(np.clip((above - below) / (2.0 * RESIZED), 0.0, 0.999 * (layout.p - 1)))
        size = _size_of(fit.natural[place])
        volume = slope / ((layout.p - 1 - slope) * max(size**2, 1e-300))
        found[name] = float(np.clip(volume, *LIMITS[name])) if np.isfinite(volume) else vars(fit.ridges)[name]
    return replace(ridges, **found)


def _size_of(a: Array) -> float:
    """Return tr A / d for svec A = a."""
    e = svec(np.eye(dimension(a.size)))
    return float(e @ a) / float(e @ e)


def _log_volume(
    total: Total, fit: PopulationFit, place: slice, change: float, shapes: list[tuple[slice, float]], ridges: Ridges
) -> float:
    """Return ``½ log det(H + ridges)`` of some shapes and their ridges where the size at `place` is changed, in log.

    The mean and the spread of people and the items' effects follow as the information says.
    """
    layout, P = fit.layout, traceless(fit.layout.d)
    inside = np.concatenate([np.arange(fit.natural.size)[part] for part, _ in shapes])
    follows = np.r_[layout.mean, layout.items] if layout.free else np.r_[layout.mean, layout.spread, layout.items]

    def known(natural: Array, information: Array) -> Array:
        return information + penalty(natural, layout, ridges.without_shapes, fit.beta).curvature

    step = np.zeros(fit.natural.size)
    step[place] = np.expm1(change) * fit.natural[place]
    A = known(fit.natural, fit.information)
    step[follows] = -_pseudo_inverse(A[np.ix_(follows, follows)]) @ (A[follows, place] @ step[place])
    natural = fit.natural + step
    sums = total(natural)
    assert sums.information is not None
    A = known(natural, sums.information)
    mixed = A[np.ix_(inside, follows)]
    H = A[np.ix_(inside, inside)] - mixed @ _pseudo_inverse(A[np.ix_(follows, follows)]) @ mixed.T
    scale = block_diag(*(_size_of(natural[part]) * P for part, _ in shapes))
    held = block_diag(*(strength * P + np.eye(layout.p) - P for _, strength in shapes))
    return 0.5 * float(np.linalg.slogdet(scale @ H @ scale + held)[1])


def wanted_shape(fit: PopulationFit, place: slice, strength: float) -> float:
    """Return the strength that the evidence asks for on the shape of M or Σ, which stands at `place`."""
    # a multiple of the identity would need an infinite ridge: one strong enough to hold it there is used
    distance = 2.0 * shape_penalty(fit.natural[place], 1.0).value
    determined = _shape_determined(fit, place, strength)
    wanted = determined / max(distance, 1e-6)
    if determined > 0.999 * (fit.layout.p - 1) and wanted < 10.0 * strength:  # the ridge hardly changes anything
        return strength
    return float(np.clip(wanted, *LIMITS["shape"]))


def _wanted_size(fit: PopulationFit, chart: Parametrization) -> float:
    """Return the ridge on the size that the evidence asks for; zero if it would hardly matter.

    The estimate without the ridge is ``t̂ = t + (pull of everything else on t) / J``. For a metric the pull is the one
    on its size at the shape that it has: where it is close to zero, that of other shapes is the boundary's.
    """
    d = fit.layout.d
    e = np.zeros(fit.natural.size)
    e[fit.layout.metric] = svec(np.eye(d)) / np.sqrt(d)
    m, t = fit.layout.metric, float(e @ fit.natural)
    # the shape in units of the size: the ridge on it would else hide what is known of a very small size
    P, scale = traceless(d), np.eye(e.size)
    scale[m, m] += (abs(t) / np.sqrt(d) - 1.0) * P
    others = penalty(fit.natural, fit.layout, replace(fit.ridges, size=0.0, shape=0.0), fit.beta)
    information = scale @ (fit.information + others.curvature) @ scale
    information[m, m] += fit.ridges.shape * P
    known = 1.0 / max(float(e @ _pseudo_inverse(information) @ e), 1e-300)
    pull = fit.score - others.gradient
    pull[m] -= shape_penalty(fit.natural[m], fit.ridges.shape).gradient
    along = float(pull[m] @ fit.natural[m]) / t if chart.kind == "psd" and t > 0 else float(e @ pull)
    z2 = (t + along / known) ** 2 * known if chart.kind == "symmetric" or t + along / known > 0 else 0.0
    if z2 * LEAST_SHARE > 1.0:
        return 0.0
    return min(known / max(z2 - 1.0, 1e-12), 1.0 / (d * NO_SIZE**2))


def _wanted_items(fit: PopulationFit) -> float:
    """Return the ρ that the evidence asks for, from a fit with another."""
    b = fit.natural[fit.layout.items]
    wanted = items_determined(fit) / max(float(b @ b), 1e-300)
    return float(np.clip(wanted, *LIMITS["items"]))


def items_determined(fit: PopulationFit) -> float:
    """Return ``γ_b = N − ρ tr(A⁻¹)_b``, how many of the items' own utilities the answers determine."""
    items = fit.layout.items
    return fit.layout.n_items - fit.ridges.items * float(np.trace(fit.covariance[items, items]))


def _covariance(A: Array, chart: Parametrization) -> Array:
    """Return the inverse of an information A (n, n) among the parameters that a chart can move, and zero beyond.

    Fixed parameters count as known: M if there is no metric, the shape of M if it is a multiple of the identity.
    """
    metric = chart.layout.metric
    tangent = chart.metric_directions()
    if tangent.shape[0] == tangent.shape[1]:
        return _pseudo_inverse(A)
    basis = np.eye(A.shape[0])
    basis = np.concatenate([basis[:, : metric.start], basis[:, metric] @ tangent, basis[:, metric.stop :]], axis=1)
    return np.asarray(basis @ _pseudo_inverse(basis.T @ A @ basis) @ basis.T)


def _shape_determined(fit: PopulationFit, place: slice, strength: float) -> float:
    """Return γ from the information with the ridges, of the shape of M or Σ, which stands at `place`."""
    most = fit.layout.p - 1
    bend = shape_penalty(fit.natural[place], strength).curvature
    known = fit.covariance[place, place]
    return float(np.clip(most - np.sum(known * bend), 0.0, most))


def _pseudo_inverse(A: Array) -> Array:
    """Return the inverse of A (n, n), or its pseudo-inverse if A is close to singular."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(A), 1e-100))
    scaled = A * scale[:, None] * scale
    root, failed = dpotrf(scaled, lower=True)
    if failed == 0 and np.min(np.diag(root)) > LEAST_PIVOT:
        lower, _ = dpotri(root, lower=True, overwrite_c=True)
        inverse = np.tril(lower) + np.tril(lower, -1).T
    else:
        inverse = np.linalg.pinv(scaled, hermitian=True)
    return np.asarray(inverse * scale[:, None] * scale)


def observed_information(total: Total, natural: Array, score: Array | None = None) -> Array:
    """Return minus the second derivative of the log-likelihood, by differences of the score.

    Central differences; forward ones, in half the passes, where the `score` at `natural` is known. A step of 0.001 of a
    parameter then errs by about as much of the information, which standard errors do not show.
    """
    n = natural.size
    H = np.empty((n, n))
    for j in range(n):
        size = max(abs(float(natural[j])), 0.1)
        up, down = natural.copy(), natural.copy()
        if score is not None:
            up[j] += FORWARD * size
            H[j] = (score - total(up, information=False).score) / (FORWARD * size)
            continue
        step = CENTRAL * size
        up[j] += step
        down[j] -= step
        H[j] = (total(down, information=False).score - total(up, information=False).score) / (2.0 * step)
    return 0.5 * (H + H.T)
