"""Scales and metric by the evidence: the θ at which the answers, everybody integrated out, and the prior agree best.

::

    maximize over θ:   ℓ(K(θ), C(θ)) + log prior(θ)

by quasi-Newton steps (BFGS). They begin with the information of Gaussian answers as sharp as the factors of the real
ones (`crowdmetric.smooth.parameter_information`), which has the right shape but, where people never contradict
themselves, is far too sure of the size of utilities; the steps themselves correct that. No parameter changes by more
than `LONGEST` at once; θ are logarithms, and factors follow small changes of θ in a few sweeps. A step that does not
improve the objective, or after which factors do not settle, is taken back and shortened.

A fit to many people begins with some of them: the search for θ is made there, with rough steps, and what is left to do
for everybody is a few steps from its end (`go_on`). People are independent given the crowd, so R times as many of
them have about R times the curvature.

Which structure of the metric to take is decided by the evidence with θ integrated out as well, by Laplace's method with
the same information H (p, p)::

    log evidence = ℓ + log prior + ½ p log 2π − ½ log det H

Evidence is compared among the same people only: that of a part of them, multiplied, is no evidence of all of them. The
size of H matters for standard errors, so `curvature` takes differences of gradients in the directions in which answers
say more than the prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.smooth.ahead import Ahead
from crowdmetric.smooth.covariances import Covariances
from crowdmetric.smooth.joint_propagation import Propagation, Sites
from crowdmetric.smooth.people_blocks import PeopleBlock

__all__ = ["SmoothFit", "curvature", "fit_evidence", "go_on", "log_evidence", "number_determined", "renewed", "revived"]

Array = NDArray[Any]

# Largest change of a parameter in one step; factor by which a step is shortened, and how often.
LONGEST, SHORTER, TRIALS = 1.0, 0.35, 8
# The fit ends after this many consecutive steps that promise and gain less than the tolerance: the first promises are
# too small.
QUIET = 3
# Tolerances of the factors: while θ moves, at most and per nat of the fit's own tolerance; at the end, and the largest
# that is accepted.
ROUGH, ROUGH_PER_NAT, FINE, UNSETTLED = 1e-3, 6e-3, 1e-5, 0.1
# Tolerance of the factors for differences of gradients.
FOR_CURVATURE = 3e-4
# Range of θ: e^±8 times the scale at which the prior is highest.
FARTHEST = 8.0
# Step of the differences of gradients from which the curvature is computed.
DIFFERENCE = 0.02


@dataclass(frozen=True)
class SmoothFit:
    """Where the evidence is highest.

    Attributes
    ----------
    family : Covariances
    theta : (p,)
    propagation : Propagation
        With factors that have settled at θ.
    Z : (N, d)
        Standardized features of the items that were shown.
    log_likelihood, log_prior : float
    inverse : (p, p)
        What the steps have learned of the inverse of the curvature.
    steps : int
    converged : bool
    """

    family: Covariances
    theta: Array
    propagation: Propagation
    Z: Array
    log_likelihood: float
    log_prior: float
    inverse: Array
    steps: int
    converged: bool

    @cached_property
    def information(self) -> Array:
        """The information (p, p) of the answers about θ."""
        return self.family.at(self.theta, self.Z).information(self.propagation)


Objective = Callable[[Array], tuple[float, Array]]


def fit_evidence(
    family: Covariances,
    Z: Array,
    blocks: list[PeopleBlock],
    *,
    start: Array | None = None,
    inverse: Array | None = None,
    sites: list[Sites] | None = None,
    tolerance: float = 0.05,
    max_steps: int = 60,
    ahead: Ahead | None = None,
) -> SmoothFit:
    """Return the fit; `tolerance` is in nats that the next step promises.

    `inverse` (p, p) is a guess of the inverse curvature at the start, and `sites` one of the factors, if there are any.
    """
    propagation = Propagation(blocks, len(Z))
    if sites is not None:
        propagation.put_back(sites)
    begin = _sized(family, Z, propagation, ahead) if start is None else _within(family, start)
    return _fit(family, Z, propagation, begin, inverse, tolerance, max_steps, QUIET, ahead)


def _within(family: Covariances, theta: Array) -> Array:
    """Return the nearest θ that leaves some room before the farthest."""
    return np.clip(theta, family.start - 0.9 * FARTHEST, family.start + 0.9 * FARTHEST)


def go_on(
    fit: SmoothFit,
    Z: Array,
    blocks: list[PeopleBlock],
    more: float,
    *,
    tolerance: float,
    max_steps: int,
    ahead: Ahead | None = None,
) -> SmoothFit:
    """Return the fit to `more` times as many people, or to other answers of the same ones, from the end of another."""
    propagation = Propagation(blocks, len(Z))
    return _fit(fit.family, Z, propagation, fit.theta, fit.inverse / more, tolerance, max_steps, 1, ahead)


def renewed(
    fit: SmoothFit,
    propagation: Propagation,
    more: float,
    *,
    tolerance: float,
    max_steps: int,
    ahead: Ahead | None = None,
) -> Array:
    """Return the θ (p,) of other answers, `more` times as many, from the end of a fit; their factors follow."""
    inverse = fit.inverse / more
    return _ascend(fit.family, fit.Z, propagation, fit.theta, inverse, tolerance, max_steps, 1, ahead)[0]


def _fit(
    family: Covariances,
    Z: Array,
    propagation: Propagation,
    begin: Array,
    inverse: Array | None,
    tolerance: float,
    max_steps: int,
    quiet: int,
    ahead: Ahead | None,
) -> SmoothFit:
    theta, inverse, steps, converged = _ascend(
        family, Z, propagation, begin, inverse, tolerance, max_steps, quiet, ahead
    )
    value, _ = _objective(family, Z, propagation, FINE)(theta)
    grams = family.at(theta, Z)
    propagation.tell_apart(grams.person, grams.crowd)
    prior, _ = family.log_prior(theta)
    return SmoothFit(family, theta, propagation, Z, value - prior, prior, inverse, steps, converged)


def _objective(
    family: Covariances, Z: Array, propagation: Propagation, tolerance: float, ahead: Ahead | None = None
) -> Objective:
    """Return the function of θ that gives ℓ + log prior and its gradient; −∞ where factors do not settle."""
    far = np.full(family.start.size, -np.inf), np.zeros(family.start.size)

    def objective(theta: Array) -> tuple[float, Array]:
        if np.max(np.abs(theta - family.start)) > FARTHEST:
            return float(far[0][0]), far[1]
        grams = family.at(theta, Z)
        change = propagation.converge(grams.person, grams.crowd, tolerance)
        if not change < UNSETTLED:
            return float(far[0][0]), far[1]
        found = propagation.evidence(grams.crowd)
        # a log-probability: a value above zero means that the factors have not converged
        if not found.value <= 0.0:
            return float(far[0][0]), far[1]
        prior, slope = family.log_prior(theta)
        if ahead is not None:
            ahead.evaluated()
        return found.value + prior, grams.gradient(found.in_person, found.in_crowd) + slope

    return objective


def revived(family: Covariances, theta: Array, Z: Array, blocks: list[PeopleBlock], factors: Array) -> SmoothFit:
    """Return a fit that was made before, from its θ and the factors (T, 2) of its answers."""
    propagation = Propagation(blocks, len(Z))
    propagation.put_factors(factors)
    grams = family.at(theta, Z)
    propagation.look(grams.person, grams.crowd)
    nan = float("nan")
    return SmoothFit(family, theta, propagation, Z, nan, nan, np.eye(theta.size), 0, converged=True)


def _sized(family: Covariances, Z: Array, propagation: Propagation, ahead: Ahead | None) -> Array:
    """Return the start with utilities as large as the answers are sharp, in steps of a factor e."""
    objective = _objective(family, Z, propagation, ROUGH, ahead)
    theta, step = family.start, np.eye(family.start.size)[0]
    value, kept = objective(theta)[0], propagation.keep()
    while (larger := objective(theta + step)[0]) > value:
        theta, value, kept = theta + step, larger, propagation.keep()
    propagation.put_back(kept)
    return theta


def _ascend(
    family: Covariances,
    Z: Array,
    propagation: Propagation,
    theta: Array,
    inverse: Array | None,
    tolerance: float,
    max_steps: int,
    quiet_steps: int,
    ahead: Ahead | None,
) -> tuple[Array, Array, int, bool]:
    """Return the θ reached, the inverse curvature, the number of steps, and whether the next would promise too little.

    Without an inverse curvature to begin with, it is that of Gaussian answers.
    """
    objective = _objective(family, Z, propagation, min(ROUGH, ROUGH_PER_NAT * tolerance), ahead)
    value, slope = objective(theta)
    if not np.isfinite(value):
        heaviest = max(float(block.weight.max(initial=0.0)) for block in propagation.blocks)
        raise DataError(
            f"the answers cannot be integrated over: one counts as {heaviest:g} answers of one person; give smaller "
            "sample_weight, or drop answers that were repeated so often"
        )
    kept = propagation.keep()
    if inverse is None:
        inverse = np.linalg.inv(_information(family, Z, propagation, theta))
    quiet = 0
    for step in range(max_steps):
        direction = inverse @ slope
        promise = float(slope @ direction)
        if promise < tolerance and quiet_steps == 1:
            return theta, inverse, step, True
        length = min(1.0, LONGEST / max(float(np.max(np.abs(direction))), 1e-300))
        for _ in range(TRIALS):
            reached, there = objective(theta + length * direction)
            if reached >= value + 1e-4 * length * promise:
                break
            propagation.put_back(kept)
            length *= SHORTER
        else:  # no better point in a direction of ascent: the factors are not accurate enough for more
            return theta, inverse, step, promise < 1.0
        quiet = quiet + 1 if max(promise, reached - value) < tolerance else 0
        moved = length * direction
        inverse = _renewed(inverse, moved, slope - there)
        theta, value, slope, kept = theta + moved, reached, there, propagation.keep()
        if quiet == quiet_steps:
            return theta, inverse, step + 1, True
    return theta, inverse, max_steps, False


def _renewed(inverse: Array, moved: Array, turned: Array) -> Array:
    """Return the inverse curvature after a step (BFGS), left alone where the objective is not concave along it."""
    along = float(moved @ turned)
    if along <= 1e-10 * float(np.linalg.norm(moved) * np.linalg.norm(turned)):
        return inverse
    rest = np.eye(moved.size) - np.outer(moved, turned) / along
    return np.asarray(rest @ inverse @ rest.T + np.outer(moved, moved) / along)


def _information(family: Covariances, Z: Array, propagation: Propagation, theta: Array) -> Array:
    """Return the information (p, p) of answers and prior about θ, at factors that have settled there."""
    return family.at(theta, Z).information(propagation) + np.diag(family.spread**-2.0)


def curvature(fit: SmoothFit, some: Propagation | None = None, more: float = 1.0, ahead: Ahead | None = None) -> Array:
    """Return ``−∂²(ℓ + log prior)/∂θ²`` (p, p); its differences from `some` of the people, one in `more`, if given.

    In units of the prior's: by differences of gradients in the directions in which the answers are more informative
    than the prior (the eigenvectors of the information), by the information in all others. Answers have no negative
    curvature: they never leave more open than the prior does. In flat directions, differences of gradients and steps
    that end early would have it otherwise.
    """
    propagation, spread = fit.propagation if some is None else some, fit.family.spread
    objective = _objective(fit.family, fit.Z, propagation, FOR_CURVATURE, ahead)
    _, here = objective(fit.theta)
    kept = propagation.keep()
    values, vectors = np.linalg.eigh(fit.information * np.outer(spread, spread))
    is_known = values > 1.0
    known, rest = vectors[:, is_known], vectors[:, ~is_known]
    columns = np.zeros_like(known)
    for column, direction in zip(columns.T, known.T, strict=True):
        turned = spread * (here - objective(fit.theta + DIFFERENCE * spread * direction)[1]) / DIFFERENCE
        column[:] = more * (turned - direction)
        propagation.put_back(kept)
    objective(fit.theta)  # the messages are those of θ again
    grams = fit.family.at(fit.theta, fit.Z)
    propagation.tell_apart(grams.person, grams.crowd)
    across = rest @ (rest.T @ columns) @ known.T
    of_answers = known @ (known.T @ columns) @ known.T + across + across.T + (rest * values[~is_known]) @ rest.T
    values, vectors = np.linalg.eigh(0.5 * (of_answers + of_answers.T))
    return np.asarray((vectors * (np.maximum(values, 0.0) + 1.0)) @ vectors.T / np.outer(spread, spread))


def _known(fit: SmoothFit) -> Array:
    """Return the information (p,) of the answers along its own directions, in units of the prior's."""
    spread = fit.family.spread
    return np.maximum(np.linalg.eigvalsh(fit.information * np.outer(spread, spread)), 0.0)


def number_determined(fit: SmoothFit) -> float:
    """Return how many parameters the answers determine, rather than the prior."""
    known = _known(fit)
    return float(np.sum(known / (1.0 + known)))


def log_evidence(fit: SmoothFit) -> float:
    """Return the logarithm of the evidence with θ integrated out."""
    spread, known = fit.family.spread, _known(fit)
    volume = 0.5 * spread.size * log(2.0 * pi) + float(np.sum(np.log(spread)) - 0.5 * np.sum(np.log1p(known)))
    return fit.log_likelihood + fit.log_prior + volume
