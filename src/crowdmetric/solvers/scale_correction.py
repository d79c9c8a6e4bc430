"""What noise in the shape of a metric adds to its scale, and the fit with that taken off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.solvers.population import PopulationFit, Total, traceless, with_ridge
from crowdmetric.symmetric import degrees_of_freedom, svec

__all__ = ["scale_correction", "with_corrected_scale"]

Array = NDArray[Any]

# The difference of log scale that the correction is measured by, and the most it may be.
STEP, MOST_CORRECTION = 0.05, 0.5
# By how much the logarithm of an isotropic spread may change along with the scale's; beyond, nothing determines it.
MOST_SPREAD = 10.0


def with_corrected_scale(total: Total, fit: PopulationFit, d: int, *, free: bool) -> tuple[PopulationFit, float]:
    """Return the fit with the scale's small-sample bias taken out, and what was added to log scale; the shape stays."""
    p = degrees_of_freedom(d)
    correction, path = scale_correction(total, fit, d, free=free)
    natural = fit.natural + correction * path
    natural[:p] = np.exp(correction) * fit.natural[:p]
    if free:  # along the path, but within the cone
        of = slice(p + d, fit.own)
        Sigma = fit.natural[of]
        natural[of] = np.exp(correction * float(path[of] @ Sigma / (Sigma @ Sigma))) * Sigma
    return replace(fit, natural=natural), correction


def scale_correction(total: Total, fit: PopulationFit, d: int, *, free: bool) -> tuple[float, Array]:
    """Return what to add to the logarithm of the metric's scale, and where else that leads.

    Noise in the shape of a metric adds to its size, so that maximum likelihood overstates the scale c = tr M / d where
    the answers are few. Cox and Reid's adjusted profile likelihood subtracts, from the likelihood of c maximised over
    everything else ψ, half the log-determinant of the information about ψ (shape M/c, μ/c and the spread)::

        ℓ_A(log c) = max_ψ ℓ − ½ log det j_ψψ

    One Newton step on it from the maximum of ℓ is taken here, along the path of ψ̂(log c). Returned are the step
    Δ log c and the change of the natural parameters along the path, (n,).
    """
    p = degrees_of_freedom(d)
    trace = svec(np.eye(d)) / d
    w = np.zeros(fit.natural.size)
    w[:p] = trace / float(trace @ fit.natural[:p])  # the gradient of log c
    A = with_ridge(fit.information, fit, d)
    path = np.linalg.lstsq(A, w, rcond=1e-10)[0]
    known = 1.0 / float(w @ path)  # the information about log c alone
    path *= known
    if not free and abs(path[p + d]) > MOST_SPREAD:  # people in one place: their spread is not known
        path[p + d] = 0.0
    basis = np.linalg.svd(traceless(d))[0][:, : p - 1]
    # shape and μ are counted in units of c, a free Σ in units of c²; utilities of items have a law of their own
    units = p - 1 + d + (2 * p if free else 0)

    def half_log_determinant(step: float) -> float:
        moved = replace(fit, natural=fit.natural + step * path)
        sums = total(moved.natural)
        assert sums.information is not None
        j = with_ridge(sums.information, moved, d)
        shape = basis.T @ j[:p, :p] @ basis
        cross = basis.T @ j[:p, p:]
        inner = np.block([[shape, cross], [cross.T, j[p:, p:]]])
        return 0.5 * float(np.linalg.slogdet(inner)[1]) + units * step

    slope = (half_log_determinant(STEP) - half_log_determinant(-STEP)) / (2.0 * STEP)
    correction = -slope / known
    if not np.isfinite(correction):
        return 0.0, path
    return float(np.clip(correction, -MOST_CORRECTION, MOST_CORRECTION)), path
