"""The fit: Newton's method over a cone of metrics, with ridges whose strengths come from the evidence.

::

    minimize   f(θ) = −ℓ(θ) + ½ Σ_r λ_r ‖P_r θ‖² + ½ t ‖θ‖²      over the cone of a structure

P_r are the structure's ridges: one shrinks the diagonal entries of the metric toward their mean, one the off-diagonal
entries toward zero. Together they shrink the metric's *shape* toward the identity. Their strengths λ_r and the size of
the metric, ``c = tr M / d``, come from the evidence (`crowdmetric.similarity.size`): fits at several sizes, each held
by a steep penalty that is part of f, tell which is best. At a size, ``γ_r = rank P_r − λ_r tr(A⁻¹ P_r)`` parameters
are determined by the answers, with A the curvature of f. t is 1e-8 times the curvature, so parameters on which no
answer depends stay at zero.

**Certificate.** Where −ℓ is convex, its tangent is below it. With G the gradient of f without the last term, ::

    gap = ⟨G, θ⟩ + ½ t ‖θ‖² + ‖(−G)₊‖² / 2t

bounds the distance to the optimum: (−G)₊ is what of −G lies in the cone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from crowdmetric.similarity.cone_step import ConeStep, regular
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.size import STEEP, KnownSize, SizePrior, best_size

__all__ = [
    "SimilarityFit", "fit_with_evidence", "held_size", "minimize", "posterior_covariance", "refined", "refit",
    "start_for",
]  # fmt: skip

Array = NDArray[np.float64]

FLOOR = 1e-8
# Maximum number of refits until the strengths settle, and the change of their logarithms that counts as settled.
ROUNDS, SETTLED = 12, 0.1
# Expected decrease, in nats, at which intermediate fits stop.
ROUGH = 0.05
# The same for fits at sizes that are compared, and the number of refits: relative to the size, strengths hardly change.
EVEN, EVEN_ROUNDS = 0.01, 2
# Range of strengths from which the evidence chooses, in units of 1 / (mean eigenvalue)².
LEAST_RIDGE, MOST_RIDGE = 1e-6, 1e6
# Below this mean eigenvalue, for items of size one and β = 1, a metric counts as zero, and has no shape to speak of.
NO_METRIC = 0.01
SHORTEST_STEP = 1e-6
# Tolerances of the quadratic program over the cone, in the last step and before it.
ACCURATE, INACCURATE = 1e-9, 1e-4
# Below this tolerance, in nats, the quadratic program is solved accurately.
PRECISE = 1e-4
# The same tolerance in refits to part of the answers, and the share of the expected decrease that a step must reach for
# the next one to use the same curvature.
REFIT_ACCURACY, AS_EXPECTED = 1e-3, 0.5


@dataclass(frozen=True)
class SimilarityFit:
    """Where a fit ended.

    Attributes
    ----------
    theta
        (n,) in the cone.
    value
        Minus the log-likelihood there, without ridges.
    curvature
        (n, n) of minus the log-likelihood, without ridges.
    strengths
        λ of each ridge.
    determined
        γ of each ridge: how many of its parameters the answers determine.
    gap
        Certified bound on how far f is above its minimum, in nats; NaN if it is not convex.
    converged, iterations
        Whether a further step would gain less than the tolerance, and how many there were.
    scale, size_variance
        The mean eigenvalue c, and its variance under the curvature of f.
    size
        What the evidence says of log c; None if size and shape were fitted together.
    separable
        Whether a metric was found that explains every answer.
    """

    theta: Array
    value: float
    curvature: Array
    strengths: tuple[float, ...]
    determined: tuple[float, ...]
    gap: float
    converged: bool
    iterations: int
    scale: float
    size_variance: float
    size: KnownSize | None
    separable: bool

    @property
    def log_evidence(self) -> float:
        """Laplace's approximation to the log of the answers' probability: log E of a size, or integrated over sizes."""
        return self._log_evidence

    _log_evidence: float = float("nan")


def start_for(objective: SimilarityObjective) -> Array:
    """Return the multiple of the identity under which squared distances differ by about one: a cautious start."""
    unit = objective.structure.theta(np.eye(objective.items.shape[1]))
    D = objective.distances(unit)
    return unit / max(float(D.mean()), 1e-300) / objective.likelihood.beta


def minimize(
    objective: SimilarityObjective,
    strengths: Sequence[float],
    start: Array,
    *,
    step: ConeStep | None = None,
    in_cone: bool = True,
    tolerance: float = 1e-8,
    max_iterations: int = 100,
    prior: Callable[[Array], tuple[float, Array, Array]] | None = None,
    curvature: Array | None = None,
) -> SimilarityFit:
    """Minimize f from `start`.

    `step` may be given to reuse what an earlier fit learned about the cone, and `curvature`, that of the likelihood at
    `start`, where it is known. `prior` is a further convex penalty: its value, gradient and curvature.
    """
    penalty = _penalty(objective, strengths)
    if step is None and in_cone:
        step = ConeStep(objective.structure, objective.covariance)
    theta, done, steps = start, False, 0
    accuracy = ACCURATE if tolerance < PRECISE else INACCURATE
    value, g, H, floor = _local(objective, penalty, theta, prior, curvature=curvature)
    while steps < max_iterations:
        steps += 1
        target = step.solve(theta, g, H, accuracy) if in_cone and step is not None else theta - np.linalg.solve(H, g)
        move = target - theta
        slope = float(g @ move)
        foretold = -(slope + 0.5 * float(move @ H @ move))
        if foretold < tolerance:
            done = True
            if in_cone and tolerance < PRECISE:  # one more step costs little and makes the certificate tight
                theta = target
                value, g, H, floor = _local(objective, penalty, theta, prior, floor)
            break
        alpha = _line_search(objective, penalty, prior, floor, theta, move, value, slope)
        if alpha < SHORTEST_STEP:
            break  # rounding prevents further progress
        theta = theta + alpha * move
        value, g, H, floor = _local(objective, penalty, theta, prior, floor)
    likelihood_curvature = H - penalty - floor * np.eye(len(H)) - (0.0 if prior is None else prior(theta)[2])
    gap = _gap(objective, g, theta, floor) if in_cone and objective.likelihood.is_convex else float("nan")
    covariance = _inverse(H)
    determined = _determined(objective, covariance, strengths)
    scale, variance = _size(objective, theta, covariance)
    plain = objective.value(theta)
    evidence = _log_evidence(objective, theta, plain + 0.5 * float(theta @ penalty @ theta), H, variance, strengths)
    return SimilarityFit(
        theta, plain, likelihood_curvature, tuple(strengths), determined, gap, done, steps, scale, variance,
        None, False, evidence,
    )  # fmt: skip


def refit(
    objective: SimilarityObjective,
    strengths: Sequence[float],
    start: Array,
    step: ConeStep,
    prior: SizePrior,
    *,
    tolerance: float,
    max_iterations: int = 20,
) -> tuple[Array, Array]:
    """Return about the minimizer θ of f with a penalty on the size, from a start close to it, and f's curvature.

    Curvature, which takes most of the time of a Newton step, is computed once and again only where a step gains less
    than it promised.
    """
    penalty = _penalty(objective, strengths)
    theta = start
    value, g, H, floor = _local(objective, penalty, theta, prior)
    for _ in range(max_iterations):
        move = step.solve(theta, g, H, REFIT_ACCURACY) - theta
        slope = float(g @ move)
        foretold = -(slope + 0.5 * float(move @ H @ move))
        if foretold < tolerance:
            break
        alpha = _line_search(objective, penalty, prior, floor, theta, move, value, slope)
        if alpha < SHORTEST_STEP:
            break  # rounding prevents further progress
        theta = theta + alpha * move
        before = value
        value, g = _sloped(objective, penalty, theta, floor)
        more, further, _ = prior(theta)
        value, g = value + more, g + further
        if before - value < AS_EXPECTED * foretold:
            value, g, H, floor = _local(objective, penalty, theta, prior, floor)
    return theta, H


def held_size(objective: SimilarityObjective, fit: SimilarityFit) -> SizePrior:
    """Return the penalty that holds the size of a fit with evidence."""
    information = fit.scale**2 / max(fit.size_variance, 1e-300) / (1.0 + STEEP)
    return SizePrior.of(objective).holding(fit.scale, information)


def refined(
    objective: SimilarityObjective,
    fit: SimilarityFit,
    strengths: Sequence[float],
    *,
    tolerance: float,
    max_iterations: int,
) -> SimilarityFit:
    """Return the fit of the same size with other strengths, to a tolerance."""
    found = minimize(
        objective, strengths, fit.theta, prior=held_size(objective, fit), curvature=fit.curvature,
        tolerance=tolerance, max_iterations=max_iterations,
    )  # fmt: skip
    iterations = fit.iterations + found.iterations
    return replace(found, iterations=iterations, size=fit.size, separable=fit.separable, _log_evidence=fit.log_evidence)


def fit_with_evidence(
    objective: SimilarityObjective,
    start: Array | None = None,
    *,
    step: ConeStep | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 100,
) -> SimilarityFit:
    """Fit with the size that the evidence asks for, and the strengths that it asks for at that size."""
    search = _SizeSearch(objective, step or ConeStep(objective.structure, objective.covariance))
    first = search.begin(start_for(objective) if start is None else start)
    if first.scale > NO_METRIC / objective.likelihood.beta:
        information = first.scale**2 / max(first.size_variance, 1e-300)
        known = best_size(partial(search.at, information), search.log_size, information**-0.5)
        known = known.checked(partial(search.at, information, tolerance=ROUGH))
        separable = search.explains_all()  # at twice the size, where ridges matter less
        held = search.go_to(known.best, information)
        search.settle(held)
        fit = search.fit(held, tolerance, max_iterations)
    else:  # there is no shape to speak of
        known, separable = KnownSize(np.empty(0), np.empty(0), search.log_size, float("inf")), False
        fit = search.fit(search.free, tolerance, max_iterations)
    evidence = np.max(known.log_evidence, initial=fit.log_evidence) + np.log(min(known.error, 1.0))
    separable = separable or search.explains_all()
    return replace(fit, iterations=search.iterations, size=known, separable=separable, _log_evidence=float(evidence))


@dataclass
class _SizeSearch:
    """Fits at given sizes, each from where the last one ended."""

    objective: SimilarityObjective
    step: ConeStep
    iterations: int = 0
    curvature: Array | None = None

    def begin(self, theta: Array) -> SimilarityFit:
        """Fit size and shape together, which makes the metric too small, and return where that ends."""
        self.free, self.theta = SizePrior.of(self.objective), theta
        scale = _scale(self.objective, theta)
        self.strengths = [1.0 / scale**2] * len(self.objective.structure.ridges)
        return self.settle(self.free)

    def settle(self, prior: SizePrior, tolerance: float = ROUGH, rounds: int = ROUNDS) -> SimilarityFit:
        """Fit roughly, until the strengths have settled."""
        for _ in range(rounds):
            fit = self.fit(prior, tolerance, 8)
            wanted = self._wanted(fit)
            changes = [abs(np.log(new / old)) for new, old in zip(wanted, self.strengths, strict=True)]
            if fit.converged and max(changes, default=0.0) < SETTLED:
                break
            self.strengths = wanted
        return fit

    def fit(self, prior: SizePrior, tolerance: float, max_iterations: int) -> SimilarityFit:
        fit = minimize(
            self.objective, self.strengths, self.theta, step=self.step, prior=prior, curvature=self.curvature,
            tolerance=tolerance, max_iterations=max_iterations,
        )  # fmt: skip
        self.theta, self.curvature, self.iterations = fit.theta, fit.curvature, self.iterations + fit.iterations
        return fit

    def _wanted(self, fit: SimilarityFit) -> list[float]:
        scale = _scale(self.objective, self.theta)
        ridges = self.objective.structure.ridges
        return [_wanted(P, gamma, fit.theta, scale) for P, gamma in zip(ridges, fit.determined, strict=True)]

    def go_to(self, t: float, information: float) -> SizePrior:
        """Scale the metric to a log size, and return the penalty that holds it there."""
        c = float(np.exp(t))
        factor = c / self.scale
        if factor != 1.0:
            self.theta, self.curvature = factor * self.theta, None
            self.strengths = [strength / factor**2 for strength in self.strengths]
        return self.free.holding(c, information)

    def at(self, information: float, t: float, tolerance: float = EVEN) -> tuple[float, float]:
        """Return the size that a fit at a log size has, and log E there."""
        fit = self.settle(self.go_to(t, information), tolerance, EVEN_ROUNDS)
        return self.log_size, fit.log_evidence - self.free.limit(self.scale)[0]

    def explains_all(self) -> bool:
        """Return whether the metric explains every answer; one of zero explains none."""
        D = self.objective.distances(self.theta)
        return bool(np.ptp(D) > 0.0) and self.objective.questions.are_explained_by(D)

    @property
    def scale(self) -> float:
        """Return c."""
        return self.free.size_of(self.theta)

    @property
    def log_size(self) -> float:
        return float(np.log(max(self.scale, 1e-300)))


def posterior_covariance(objective: SimilarityObjective, fit: SimilarityFit, weight: float = 1.0) -> Array:
    """Return the covariance (n, n) of θ by Laplace's method, size and shape together; an answer counts `weight`."""
    A = weight * fit.curvature + _penalty(objective, fit.strengths) + SizePrior.of(objective)(fit.theta)[2]
    return _inverse(A)


def _inverse(A: Array) -> Array:
    return np.asarray(np.linalg.inv(regular(A)), dtype=np.float64)


def _wanted(P: Array, determined: float, theta: Array, scale: float) -> float:
    wanted = determined / max(float(theta @ P @ theta), 1e-300)
    return float(np.clip(wanted, LEAST_RIDGE / scale**2, MOST_RIDGE / scale**2))


def _scale(objective: SimilarityObjective, theta: Array) -> float:
    metric = objective.structure.metric(theta)
    return max(float(np.trace(metric)) / len(metric), NO_METRIC / objective.likelihood.beta)


def _penalty(objective: SimilarityObjective, strengths: Sequence[float]) -> Array:
    """Return ``Σ_r λ_r P_r`` (n, n)."""
    n = objective.structure.size
    parts = [strength * P for strength, P in zip(strengths, objective.structure.ridges, strict=True)]
    return np.sum(parts, axis=0) if parts else np.zeros((n, n))


def _local(
    objective: SimilarityObjective,
    penalty: Array,
    theta: Array,
    prior: Callable[[Array], tuple[float, Array, Array]] | None,
    floor: float | None = None,
    curvature: Array | None = None,
) -> tuple[float, Array, Array, float]:
    """Return f, its gradient and curvature, and t; `curvature` is that of the likelihood, if it is known."""
    H = objective.curvature(theta) if curvature is None else curvature
    if floor is None:  # from the answers alone: a share of a strong ridge would shrink the size, which has no ridge
        floor = FLOOR * float(np.max(np.diag(H), initial=1e-300))
    H = H + penalty
    H[np.diag_indices_from(H)] += floor
    value, g = _sloped(objective, penalty, theta, floor)
    if prior is not None:
        more, slope, bend = prior(theta)
        value, g, H = value + more, g + slope, H + bend
    return value, g, H, floor


def _sloped(objective: SimilarityObjective, penalty: Array, theta: Array, floor: float) -> tuple[float, Array]:
    """Return f and its gradient, without a further prior."""
    value, g = objective.slope(theta)
    pulled = penalty @ theta + floor * theta
    return value + 0.5 * float(theta @ pulled), g + pulled


def _line_search(
    objective: SimilarityObjective,
    penalty: Array,
    prior: Callable[[Array], tuple[float, Array, Array]] | None,
    floor: float,
    theta: Array,
    move: Array,
    value: float,
    slope: float,
) -> float:
    """Return the longest of the steps 1, ½, ¼, … that lowers f enough."""
    alpha, noise = 1.0, 1e-13 * abs(value)
    while alpha >= SHORTEST_STEP:
        there = theta + alpha * move
        new = objective.value(there) + 0.5 * float(there @ (penalty @ there + floor * there))
        if prior is not None:
            new += prior(there)[0]
        if new <= value + 1e-4 * alpha * slope + noise:
            return alpha
        alpha *= 0.5
    return 0.0


def _gap(objective: SimilarityObjective, g: Array, theta: Array, floor: float) -> float:
    """Return ``⟨G, θ⟩ + ½ t‖θ‖² + ‖(−G)₊‖²/2t`` from the gradient g of all of f."""
    G = g - floor * theta
    negative = objective.structure.negative(G)
    return max(0.0, float(G @ theta + 0.5 * floor * (theta @ theta) + (negative @ negative) / (2.0 * floor)))


def _determined(objective: SimilarityObjective, covariance: Array, strengths: Sequence[float]) -> tuple[float, ...]:
    """Return ``γ_r = rank P_r − λ_r tr(A⁻¹ P_r)``."""
    return tuple(
        float(np.clip(np.trace(P) - strength * np.sum(covariance * P), 0.0, np.trace(P)))
        for strength, P in zip(strengths, objective.structure.ridges, strict=True)
    )


def _size(objective: SimilarityObjective, theta: Array, covariance: Array) -> tuple[float, float]:
    """Return the mean eigenvalue of a metric, and its variance."""
    identity = objective.structure.theta(np.eye(objective.items.shape[1]))
    mean = identity / float(identity @ identity)
    return float(mean @ theta), float(mean @ covariance @ mean)


def _log_evidence(
    objective: SimilarityObjective, theta: Array, value: float, A: Array, variance: float, strengths: Sequence[float]
) -> float:
    """Return log E (`crowdmetric.similarity.size`); `value` is f without further priors.

    With u the unit vector of the identity, ``log det A across u = log det A + log uᵀA⁻¹u``.
    """
    identity = objective.structure.theta(np.eye(objective.items.shape[1]))
    along = max(variance * float(identity @ identity), 1e-300)
    total: float = -value - 0.5 * float(np.linalg.slogdet(A)[1] + np.log(along))
    for strength, P in zip(strengths, objective.structure.ridges, strict=True):
        total += 0.5 * float(np.trace(P)) * float(np.log(max(strength, 1e-300)))
    return total
