"""How good predicted probabilities are, on answers that were hidden; everything weighted.

With p the probability given to the answer that came, q = max(p, 1 − p) the confidence of the prediction and c = 1 where
it was right (½ where p = ½)::

    log_likelihood      mean log p                          the higher the better; coin flips: −0.693
    accuracy            mean c
    brier               mean (1 − p)²                       the lower the better; coin flips: 0.25
    calibration_error   Σ_b share_b |mean c − mean q|       over ten bins of q from ½ to 1
    calibration_slope   argmax_b Σ log σ(b logit p)         1: as sure as it should be; below 1: too sure

None of them depends on which item was shown on the left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

__all__ = ["MEASURES", "clustered", "measures", "per_answer", "plus_minus"]

Array = NDArray[Any]

MEASURES = ("log_likelihood", "accuracy", "brier", "calibration_error", "calibration_slope")
BINS = 10
# A certain prediction that fails costs log 1e-9, not infinity.
LEAST = 1e-9
SLOPES = 1e-3, 1e3


def per_answer(right: Array, response: Array) -> tuple[Array, Array]:
    """Return log p and c (T,) from Pr[right preferred] (T,) and the answers −1, +1 (T,)."""
    p = np.clip(np.where(response > 0, right, 1.0 - right), LEAST, 1.0 - LEAST)
    return np.log(p), np.where(p > 0.5, 1.0, np.where(p < 0.5, 0.0, 0.5))


def measures(right: Array, response: Array, weight: Array) -> dict[str, float]:
    """Return every measure of `MEASURES`."""
    log_p, correct = per_answer(right, response)
    p = np.exp(log_p)
    return {
        "log_likelihood": float(np.average(log_p, weights=weight)),
        "accuracy": float(np.average(correct, weights=weight)),
        "brier": float(np.average((1.0 - p) ** 2, weights=weight)),
        "calibration_error": _calibration_error(np.maximum(p, 1.0 - p), correct, weight),
        "calibration_slope": _calibration_slope(logit(p), weight),
    }


def _calibration_error(confidence: Array, correct: Array, weight: Array) -> float:
    bin_ = np.minimum((2.0 * BINS * (confidence - 0.5)).astype(np.intp), BINS - 1)
    gap = np.bincount(bin_, weights=weight * (correct - confidence), minlength=BINS)
    return float(np.sum(np.abs(gap)) / np.sum(weight))


def _calibration_slope(z: Array, weight: Array) -> float:
    """Return b by Newton steps on the convex −Σ w log σ(bz), kept within `SLOPES`."""
    b = 1.0
    for _ in range(100):
        failed = expit(-b * z)
        gradient, curvature = -np.sum(weight * z * failed), np.sum(weight * z * z * failed * (1.0 - failed))
        if curvature <= 0.0:  # all predictions are 0.5 (any slope fits), or all are certain
            return b
        new = float(np.clip(b - gradient / curvature, 0.2 * b, 5.0 * b))
        new = float(np.clip(new, *SLOPES))
        if abs(new - b) <= 1e-10 * b:
            return new
        b = new
    return b


def plus_minus(mean: float, error: float, *, sign: str = "", digits: int = 4) -> str:
    """Return ``0.1234 ± 0.0056``; without an error where there is none, as of one person.

    Examples
    --------
    >>> plus_minus(0.12, float("nan")), plus_minus(-0.00001, 0.5, sign="+", digits=2)
    ('0.1200', '+0.00 ± 0.50')
    """
    return f"{mean:{sign}z.{digits}f}" + (f" ± {error:.{digits}f}" if np.isfinite(error) else "")


def clustered(total: Array, weight: Array) -> tuple[float, float]:
    """Return a weighted mean and its standard error, clustered: people's sums Σ w x (K,) and weights Σ w (K,).

    ::

        mean = Σ_k total_k / W,   error² = K / (K − 1) Σ_k (total_k − mean weight_k)² / W²,   W = Σ_k weight_k
    """
    asked = weight > 0
    total, weight = total[asked], weight[asked]
    all_weight, K = float(np.sum(weight)), total.size
    mean = float(np.sum(total)) / all_weight
    if K < 2:
        return mean, float("nan")
    residual = total - mean * weight
    return mean, float(np.sqrt(K / (K - 1) * np.sum(residual**2)) / all_weight)
