"""How sure a similarity fit is of its metric: a fit over all symmetric matrices, and its information.

So intervals (`crowdmetric.intervals`) are not distorted by the boundary of the cone or by shrinkage. If the answers
leave some direction undetermined, or the fit would explain all of them with certainty, the ridges of the fit are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.similarity.newton import SimilarityFit, fit_with_evidence, minimize
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.personal_metrics import OwnMetrics
from crowdmetric.symmetric import svec

__all__ = ["symmetric_fit"]

Array = NDArray[np.float64]

# Information relative to its scale below which a direction counts as undetermined.
UNDETERMINED = 1e-6
TOLERANCE = 1e-4


def symmetric_fit(
    objective: SimilarityObjective, fit: SimilarityFit, own: OwnMetrics | None
) -> tuple[Array, Array, float]:
    """Return the symmetric fit (d, d), the covariance (p, p) of its svec, and its log-likelihood.

    If everybody has a metric, the crowd's estimate is kept, with the information that includes how people differ. The
    log-likelihood is then NaN, and also if the fit needed ridges.
    """
    structure = objective.structure
    value = float("nan")
    if own is not None:
        theta, information = own.theta, own.information
    else:
        start, strengths = fit.theta, fit.strengths
        if start.size != structure.size:  # the structure was chosen from the data, so the full one is judged
            full = fit_with_evidence(objective, tolerance=TOLERANCE)
            start, strengths = full.theta, full.strengths
        none = (0.0,) * len(structure.ridges)
        options: dict[str, Any] = {"in_cone": False, "tolerance": TOLERANCE, "max_iterations": 30}
        free = minimize(objective, none, start, **options) if _determined(objective.curvature(start)) else None
        if free is None or not free.converged or not _determined(free.curvature):
            free = minimize(objective, strengths, start, **options)
        else:
            value = -free.value
        theta = free.theta
        information = free.curvature + sum(
            (strength * P for strength, P in zip(free.strengths, structure.ridges, strict=True)),
            start=np.zeros_like(free.curvature),
        )
    return structure.metric(theta), _embedded(objective, _inverse(information)), value


def _determined(information: Array) -> bool:
    """Return whether every direction is determined by the answers alone."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(information), 1e-300))
    values = np.linalg.eigvalsh(information * scale[:, None] * scale)
    return bool(values[0] > UNDETERMINED * values[-1])


def _inverse(information: Array) -> Array:
    scale = 1.0 / np.sqrt(np.maximum(np.diag(information), 1e-300))
    values, vectors = np.linalg.eigh(information * scale[:, None] * scale)
    values = np.maximum(values, 1e-12 * values[-1])
    inverse: Array = (vectors / values) @ vectors.T * scale[:, None] * scale
    return inverse


def _embedded(objective: SimilarityObjective, covariance: Array) -> Array:
    """Return the covariance (p, p) of svec M from that of θ: M is linear in θ."""
    structure = objective.structure
    if structure.name == "full":
        return covariance
    J = np.stack([svec(structure.metric(unit)) for unit in np.eye(structure.size)], axis=1)
    return J @ covariance @ J.T
