"""The entry point to the integrals over people: the method for each person, and the fallback where it fails.

The log-likelihood of answers is at most zero, for every law of people. Every result is checked for that
(`is_possible`), and propagation also for convergence. People whose result fails are integrated again, one by one:

=======================  =====================================================================================
`Way.USUAL`              a grid in few dimensions, expectation propagation beyond
`Way.DAMPED`             propagation in half steps, where whole ones did not settle or ended at an impossible place
`Way.PLACED`             nodes around the person's own posterior: along a line, on a grid in up to three dimensions,
                         by quasi-Monte Carlo beyond. Where propagation failed, and where a grid of the law is too
                         coarse for the posterior or does not reach it
=======================  =====================================================================================
"""

from __future__ import annotations

from dataclasses import fields
from enum import IntEnum
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from crowdmetric.losses import Logistic, Loss
from crowdmetric.symmetric import as_like, as_numpy
from crowdmetric.users.adaptive_quadrature import along_line, around_modes
from crowdmetric.users.integrals import (
    REACH,
    SIZES,
    Integral,
    grid_of,
    is_identity,
    loadings_of,
    on_grid,
    products_by_person,
)
from crowdmetric.users.propagation import DAMPED, DAMPED_ROUNDS, TOLERANCE, propagated
from crowdmetric.users.set_propagation import propagate_sets
from crowdmetric.users.sets import (
    least_of_sets,
    own_precision,
    sets_around_modes,
    sets_on_grid,
    steepest_of_sets,
)

__all__ = ["LARGEST_GRID", "Way", "integrate_people", "is_possible"]

Array = Any

# By default people whose answers span at most this many dimensions are integrated on a grid.
LARGEST_GRID = 3
# Nodes per axis of a grid around a person's own posterior. It is narrower than the law, so fewer are enough.
PLACED_NODES = {2: 81, 3: 33}
# By how many nats rounding may push a log-likelihood above zero, by the bytes of a number (double, single).
ROUNDING = {8: 1e-7, 4: 1e-3}
# A grid laid over the law is trusted if its nodes are at most COARSEST widths of the noise apart, and if the posterior
# mean lies at most FURTHEST standard deviations of the law from its center (by dimension).
COARSEST, FURTHEST = 2.5, {1: 2.0, 2: 4.0, 3: 4.0}


class Way(IntEnum):
    """How a person was integrated out."""

    USUAL = 0
    DAMPED = 1
    PLACED = 2


def integrate_people(
    a: Array,
    E: Array,
    S: Array,
    y: Array,
    weight: Array,
    loss: Loss,
    largest_grid: int = LARGEST_GRID,
    tolerance: float = TOLERANCE,
    size: int = 1,
) -> tuple[Integral, NDArray[np.int8]]:
    """Return everybody's integral, and the `Way` (P,) in which each was computed.

    Parameters
    ----------
    a, E, S, y, weight
        As for `crowdmetric.users.integrals.on_grid`.
    largest_grid
        People whose answers span at most this many dimensions are integrated on a grid, others by propagation.
    tolerance
        Of propagation (`crowdmetric.users.propagation.TOLERANCE`).
    size
        Rows of an answer: with more than one, the first of a set (`crowdmetric.users.sets`), for NumPy's arrays.

    Returns
    -------
    Integral
        Finite, with ``value ≤ 0`` and ``precision ≥ 0``.
    """
    arguments = (a, E, S, y, weight)
    ways = np.zeros(a.shape[0], dtype=np.int8)
    if E.shape[2] <= largest_grid:
        integral = on_grid(*arguments, loss) if size == 1 else sets_on_grid(*arguments, size, loss.beta)
        fine = is_possible(integral) & ~_is_out_of_reach(integral, E, S, weight, loss, size)
    else:
        if size == 1:
            integral, settled = propagated(*arguments, loss, tolerance=tolerance)
        else:
            integral, settled = propagate_sets(*arguments, size, loss.beta, tolerance=tolerance)
        fine = is_possible(integral) & settled & _is_likely_enough(integral, *arguments, loss, size)
        if not bool(array_namespace(a).all(fine)):
            fine = _again(integral, fine, arguments, loss, ways, size)
    if not bool(array_namespace(a).all(fine)):
        _place(integral, fine, arguments, loss, ways, size)
    xp = array_namespace(a)
    return Integral(xp.clip(integral.value, None, 0.0), integral.slope, integral.bend, integral.precision), ways


def is_possible(integral: Integral) -> Array:
    """Return whether each integral (P,) is possible: finite, and no likelihood above one."""
    xp = array_namespace(integral.value)
    finite = xp.isfinite(integral.value) & xp.all(xp.isfinite(integral.slope), axis=1)
    own = integral.precision if integral.precision.ndim == 2 else own_precision(integral.precision)
    finite = finite & xp.all(xp.isfinite(integral.bend), axis=(1, 2)) & xp.all(own >= 0.0, axis=1)
    return finite & (integral.value <= ROUNDING[integral.value.itemsize])


def _is_likely_enough(
    integral: Integral, a: Array, E: Array, S: Array, y: Array, weight: Array, loss: Loss, size: int
) -> Array:
    """Return whether each log-likelihood (P,) is at least what Jensen's inequality says.

    ``log E[Π f^ω] ≥ −Σ_i ω_i E[ℓ(ψ_i)]`` under the law, ψ_i ~ N(a_i, s_i²), and ``E[ℓ(ψ_i)] ≤ ℓ(a_i) + ½β²s_i²``, the
    curvature of a logistic or probit loss being at most β²; for logistic answers, whose slope is at most β, also
    ``≤ ℓ(a_i) + βs_i/√(2π)``.
    """
    if size > 1:
        least = least_of_sets(a, E, S, y, weight, size, loss.beta)
        return np.asarray(integral.value >= least - 1e-3 * (1.0 + np.abs(least)))
    xp = array_namespace(a)
    beta = loss.beta
    variance = xp.linalg.diagonal(S) if is_identity(E) else xp.sum(products_by_person(E, S) * E, axis=2)
    square = beta**2 * xp.clip(variance, 0.0, None)
    more = 0.4 * xp.sqrt(square) if isinstance(loss, Logistic) else 0.5 * square
    least = -xp.sum(weight * (loss.value_slope_curvature(a, y)[0] + more), axis=1)
    return integral.value >= least - 1e-3 * (1.0 + xp.abs(least))


def _is_out_of_reach(integral: Integral, E: Array, S: Array, weight: Array, loss: Loss, size: int) -> Array:
    """Return whether each person's posterior (P,) is outside a grid of the law, or too narrow for its nodes."""
    xp = array_namespace(S)
    q = S.shape[1]
    H = loadings_of(E, S)
    if size == 1:
        steepest = loss.beta * xp.max(xp.sqrt(xp.sum(H * H, axis=2)), axis=1)
    else:
        steepest = loss.beta * steepest_of_sets(H, weight, size)
    mean = xp.sum(H * integral.slope[:, :, None], axis=1)
    coarse = 2.0 * REACH / (SIZES[q][-1] - 1.0) * steepest > (1.0 if q == 1 else COARSEST)
    return coarse | (xp.sum(mean * mean, axis=1) > FURTHEST[q] ** 2)


def _again(
    integral: Integral, fine: Array, arguments: tuple[Array, ...], loss: Loss, ways: NDArray[np.int8], size: int
) -> Array:
    """Propagate the people who are not fine again, in half steps, into `integral`; return who is fine then (P,)."""
    xp = array_namespace(fine)
    others = xp.nonzero(~fine)[0]
    a, E, S, y, weight = (x[others] for x in arguments)
    if size == 1:
        slow, settled = propagated(a, E, S, y, weight, loss, damped=True)
    else:
        slow, settled = propagate_sets(a, E, S, y, weight, size, loss.beta, DAMPED, DAMPED_ROUNDS)
    enough = is_possible(slow) & settled & _is_likely_enough(slow, a, E, S, y, weight, loss, size)
    for field in fields(Integral):
        part = getattr(integral, field.name)
        part[others[enough]] = getattr(slow, field.name)[enough]
    ways[_numbers(others[enough])] = Way.DAMPED
    fine[others] = enough
    return fine


def _place(
    integral: Integral, fine: Array, arguments: tuple[Array, ...], loss: Loss, ways: NDArray[np.int8], size: int
) -> None:
    """Integrate the people who are not fine with nodes around their own posteriors, into `integral`."""
    others = array_namespace(fine).nonzero(~fine)[0]
    a, E, S, y, weight = (np.asarray(as_numpy(x[others]), dtype=np.float64) for x in arguments)
    H, q = loadings_of(E, S), E.shape[2]
    if size > 1:
        placed = sets_around_modes(a, E, H, y, weight, size, loss.beta)
    elif q == 1:
        placed = along_line(a, E, H, y, weight, loss)
    else:
        placed = around_modes(a, E, H, y, weight, loss, grid_of(q, PLACED_NODES[q]) if q in PLACED_NODES else None)
    for field in fields(Integral):
        part = getattr(integral, field.name)
        part[others] = as_like(getattr(placed, field.name), part)
    ways[_numbers(others)] = Way.PLACED


def _numbers(places: Array) -> NDArray[np.intp]:
    """Return places among people as NumPy's numbers."""
    return as_numpy(places).astype(np.intp)
