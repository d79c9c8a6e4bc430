"""The population fit: penalised maximum likelihood over a metric and a law of people.

The objective is a sum over people that the caller provides (`Total`), so that this module neither knows where people
are kept nor how they are integrated out. To it two ridges are added, one that draws the metric's *shape* towards the
identity and one that draws its *size* towards zero::

    f(θ) = −ℓ(M, μ, Σ) + ½ τ ‖M/c − I‖² + ½ κ ‖cI‖²,      c = tr M / d

The first does not change when M is scaled: with one answer a person the scale is known so loosely that a ridge on M
itself would decide it. τ comes from the evidence (MacKay): at the optimum ``γ = (p − 1) − τ tr(A⁻¹ P) / c²`` parameters
are determined by the answers, where P projects off the identity and A = I + τP/c² is the information with the ridge;
then ``τ ← γ / ‖M/c − I‖²``.

The second is about one number, ``t = ‖cI‖ = √d c``, and only where people's covariance is free: with M = 0 the model is
then linear utilities with a crowd prior, a model in its own right, and the one to fall back on where the answers do not
support a metric. (Isotropic people have no place without a metric.) With J the information about t, everything else
being fitted, and ``z = t̂ √J`` the estimate without the ridge in units of its error, the evidence is largest at ::

    κ = J / (z² − 1),      which takes the share 1 / z² off the size;      z ≤ 1: all of it

so that a metric that is well known keeps its size (James and Stein's positive part, for one number).

Where items have utilities b of their own (`crowdmetric.users.item_effects`) there is a third, ``½ ρ ‖b‖²`` with
ρ = 1/ω², and MacKay's rule once more: ``γ_b = N − ρ tr(A⁻¹)_b`` and ``ρ ← γ_b / ‖b‖²``. The other two then see how
little is known of a metric from items whose utilities scatter: A has the b's in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdmetric.solvers.charts import Chart
from crowdmetric.solvers.scoring import Quadratic, ScoringResult, ScoringState, minimise_by_scoring
from crowdmetric.symmetric import degrees_of_freedom, dimension, svec
from crowdmetric.users.population import Sums

__all__ = [
    "NO_METRIC",
    "PopulationFit",
    "Total",
    "fit_law",
    "fit_with_evidence",
    "items_determined",
    "observed_information",
    "remembering",
    "traceless",
    "with_ridge",
]

Array = NDArray[Any]

# Refits until the ridges have settled, and the change of their logarithms at which they have.
REFITS, SETTLED = 6, 0.1
# The same where items have utilities of their own: three strengths take longer to settle.
MORE_REFITS = 15
# A size ‖cI‖ / √d that is none, for items of size one: a ridge on the size need not hold it below.
NO_SIZE = 0.01
# A mean eigenvalue c, for items of size one, that is as good as none: what is left of a metric drawn to nothing.
NO_METRIC = 0.02
# A ridge on the size that changes it by a smaller share does not matter.
LEAST_SHARE = 0.01
# The first guess of 1/ω², and its limits: utilities that differ by less than 0.01 are none.
ITEM_RIDGE, LEAST_ITEM_RIDGE, MOST_ITEM_RIDGE = 4.0, 1e-4, 1e4
# The tolerance of the fits on the way there, in nats.
ROUGH = 0.05
# Steps that correct the curvature, where different parameters are different metrics.
SECANTS = 8


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
    ridge, size_ridge
        τ and κ.
    determined
        γ, how many of the p − 1 shape parameters the answers determine (p − 1 without a ridge).
    result
        How the iteration ended.
    item_ridge, n_items
        ρ, and how many items have a utility of their own.
    """

    theta: Array
    natural: Array
    value: float
    information: Array
    ridge: float
    size_ridge: float
    determined: float
    result: ScoringResult
    item_ridge: float = 0.0
    n_items: int = 0

    @property
    def own(self) -> int:
        """How many natural parameters come before the items' utilities."""
        return self.natural.size - self.n_items

    @property
    def ridges(self) -> dict[str, float]:
        """The strengths of the ridges, as `fit_law` takes them."""
        return {"ridge": self.ridge, "size_ridge": self.size_ridge, "item_ridge": self.item_ridge}


def with_ridge(information: Array, fit: PopulationFit, d: int) -> Array:
    """Return an information (n, n) with the ridges of a fit."""
    p = degrees_of_freedom(d)
    out = information.copy()
    out[:p, :p] += _ridge(fit.natural[:p], fit.ridge, traceless(d))[2] + fit.size_ridge * _along_identity(d)
    out[fit.own :, fit.own :] += fit.item_ridge * np.eye(fit.n_items)
    return out


def traceless(d: int) -> Array:
    """Return P (p, p), the projector on symmetric matrices without trace."""
    identity = svec(np.eye(d)) / np.sqrt(d)
    return np.eye(identity.size) - np.outer(identity, identity)


def _along_identity(d: int) -> Array:
    """Return eeᵀ (p, p) with e = svec I / √d: ``‖cI‖² = mᵀeeᵀm``."""
    e = svec(np.eye(d)) / np.sqrt(d)
    return np.outer(e, e)


def fit_law(
    total: Total,
    chart: Chart,
    start: Array | ScoringState,
    *,
    ridge: float = 0.0,
    size_ridge: float = 0.0,
    item_ridge: float = ITEM_RIDGE,
    tolerance: float = 1e-4,
    max_iterations: int = 200,
    after_step: Callable[[ScoringState, float], None] | None = None,
) -> PopulationFit:
    """Maximise the penalised likelihood from `start`, a θ or the state of an iteration to take up again."""
    p = degrees_of_freedom(chart.d)
    P, E = traceless(chart.d), size_ridge * _along_identity(chart.d)
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
        m = natural[:p]
        penalty, slope, bend = _ridge(m, ridge, P)
        gradient[:p] += slope + E @ m
        information[:p, :p] += bend + E
        penalty += 0.5 * float(m @ E @ m)
        if chart.n_items:
            b = natural[-chart.n_items :]
            gradient[-b.size :] += item_ridge * b
            information[-b.size :, -b.size :] += item_ridge * np.eye(b.size)
            penalty += 0.5 * item_ridge * float(b @ b)
        return chart.pull_back(theta, penalty - sums.value, gradient, information)

    result = minimise_by_scoring(
        function,
        start,
        tolerance=tolerance,
        max_iterations=max_iterations,
        secants=SECANTS if chart.rank is None and not chart.free else 0,
        shorten=chart.shorten,
        after_step=after_step,
    )
    natural = chart.natural(result.point)
    sums = last.get(result.point.tobytes()) or total(natural)
    assert sums.information is not None
    fit = PopulationFit(
        result.point, natural, sums.value, sums.information, ridge, size_ridge, float("nan"), result,
        item_ridge if chart.n_items else 0.0, chart.n_items,
    )  # fmt: skip
    return replace(fit, determined=_determined(fit, chart.d))


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
    take_up: Callable[[str, Array], tuple[Array | ScoringState, dict[str, Any]]] | None = None,
    **options: Any,
) -> PopulationFit:
    """Fit with the ridges that the evidence asks for, refitting until they have settled.

    `take_up` of a stage's name and start, for fits that are saved, returns where to begin instead and what else to tell
    `fit_law`.
    """
    p = degrees_of_freedom(chart.d)
    P = traceless(chart.d)
    total = remembering(total)
    ridge, size_ridge, item_ridge, fit = 1.0, 0.0, ITEM_RIDGE, None
    loosely = options | {"tolerance": max(ROUGH, options.get("tolerance", 0.0))}
    for number in range(MORE_REFITS if chart.n_items else REFITS):
        begin = start if fit is None else fit.theta
        at, more = (begin, {}) if take_up is None else take_up(f"evidence {number}", begin)
        ridges: dict[str, Any] = {"ridge": ridge, "size_ridge": size_ridge, "item_ridge": item_ridge}
        fit = fit_law(total, chart, at, **ridges, **loosely, **more)
        # a metric that is a multiple of the identity asks for an infinite ridge: one that holds it there will do
        distance = 2.0 * _ridge(fit.natural[:p], 1.0, P)[0]
        wanted = fit.determined / max(distance, 1e-6)
        hardly_matters = fit.determined > 0.999 * (p - 1) and wanted < 10.0 * ridge
        settled = abs(np.log(max(wanted, 1e-12) / ridge)) < SETTLED or hardly_matters
        if not settled:
            ridge = max(wanted, 1e-12)
        if chart.free:
            size_ridge, before = _size_ridge(fit, chart.d), size_ridge
            settled = settled and abs(size_ridge - before) <= SETTLED * before
        if chart.n_items:
            item_ridge, before = _item_ridge(fit, chart.d), item_ridge
            settled = settled and abs(np.log(item_ridge / before)) < SETTLED
        if settled:
            break
    assert fit is not None
    at, more = (fit.theta, {}) if take_up is None else take_up("evidence", fit.theta)
    ridges = {"ridge": ridge, "size_ridge": size_ridge, "item_ridge": item_ridge}
    return fit_law(total, chart, at, **ridges, **options, **more)


def _size_ridge(fit: PopulationFit, d: int) -> float:
    """Return the κ that the evidence asks for, from a fit with another; zero where it would hardly matter."""
    p = degrees_of_freedom(d)
    e = np.zeros(fit.natural.size)
    e[:p] = svec(np.eye(d)) / np.sqrt(d)
    A = with_ridge(fit.information, replace(fit, size_ridge=0.0), d)
    known = 1.0 / max(float(e @ _pseudo_inverse(A) @ e), 1e-300)
    # without the ridge the size would be larger by what the ridge has taken off
    z2 = (float(e @ fit.natural) * (1.0 + fit.size_ridge / known)) ** 2 * known
    if z2 * LEAST_SHARE > 1.0:
        return 0.0
    return min(known / max(z2 - 1.0, 1e-12), 1.0 / (d * NO_SIZE**2))


def _item_ridge(fit: PopulationFit, d: int) -> float:
    """Return the ρ that the evidence asks for, from a fit with another."""
    b = fit.natural[fit.own :]
    wanted = items_determined(fit, d) / max(float(b @ b), 1e-300)
    return float(np.clip(wanted, LEAST_ITEM_RIDGE, MOST_ITEM_RIDGE))


def items_determined(fit: PopulationFit, d: int) -> float:
    """Return ``γ_b = N − ρ tr(A⁻¹)_b``, how many of the items' own utilities the answers determine."""
    known = _pseudo_inverse(with_ridge(fit.information, fit, d))[fit.own :, fit.own :]
    return fit.n_items - fit.item_ridge * float(np.trace(known))


def _ridge(m: Array, ridge: float, P: Array) -> tuple[float, Array, Array]:
    """Return ``½τ‖M/c − I‖² = ½τ ‖Pm‖²/c²`` for m = svec M, its gradient, and its curvature without what bends c."""
    if ridge == 0.0:
        return 0.0, np.zeros(m.size), np.zeros((m.size, m.size))
    d = dimension(m.size)
    trace = svec(np.eye(d)) / d
    c = float(trace @ m)
    pulled = P @ m / c
    square = float(pulled @ pulled)
    return 0.5 * ridge * square, ridge / c * (pulled - square * trace), ridge / c**2 * P


def _determined(fit: PopulationFit, d: int) -> float:
    """Return γ from the information with the ridges."""
    p = degrees_of_freedom(d)
    bend = _ridge(fit.natural[:p], fit.ridge, traceless(d))[2]
    known = _pseudo_inverse(with_ridge(fit.information, fit, d))[:p, :p]
    return float(np.clip(p - 1 - np.sum(known * bend), 0.0, p - 1))


def _pseudo_inverse(A: Array) -> Array:
    scale = 1.0 / np.sqrt(np.maximum(np.diag(A), 1e-300))
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
