"""Expected information about M, weights that make the most of it, and whole numbers of people.

A candidate question (or set of questions) i contributes ``x_i x_iᵀ`` (p × p) to the information about svec(M) each
time it is asked. Asking it a share w_i of n times gives ``I = n Σ w_i x_i x_iᵀ``, and to first order
``E‖M̂ − M‖² = tr I⁻¹``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from crowdmetric.symmetric import outer_difference, svec

__all__ = ["MatchedCandidates", "apportion", "errors_of", "lasting", "optimal_weights", "reached"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Numbers in one temporary array.
CHUNK = 1 << 20
# Directions with an eigenvalue of the information below this share of the largest count as not reached by the
# questions.
RANK_TOLERANCE = 1e-9


class MatchedCandidates:
    """Pairs of parallel questions, ``quads (C, 2, 2, d)``: question, left/right, features.

    Given a metric and where people are, with ``ψ_i = δ_iᵀM(s_i − 2u)``, ``η = β⟨D, M⟩`` and expectations over people,

        p₊ = E σ(βψ₁)σ(−βψ₂)      p₋ = E σ(−βψ₁)σ(βψ₂)      Pr[y₁ ≠ y₂] = p₊ + p₋
        information = (p₊ + p₋) σ'(η) β² D Dᵀ
        score = (p₊ σ(−η) − p₋ σ(η)) β D                  zero for exact parallelograms

    Attributes
    ----------
    D
        (C, p) ``β svec(D)``, with `center` as the origin of the items.
    """

    def __init__(self, quads: Array, beta: float, center: Array) -> None:
        self.beta, self.center = beta, center
        self.delta = quads[:, :, 0] - quads[:, :, 1]
        self.total = quads[:, :, 0] + quads[:, :, 1] - 2.0 * center
        signs = np.array([1.0, -1.0])[None, :, None]
        self.D: Array = beta * outer_difference(signs * self.delta, self.total).sum(axis=1)

    def chances(self, metric: Array, ideal_points: Array) -> tuple[Array, Array, Array]:
        """Return p₊, p₋ and η (C,) for people at `ideal_points` (S, d)."""
        seen = self.delta @ metric  # (C, 2, d)
        fixed = np.sum(seen * self.total, axis=2)
        people = 2.0 * (ideal_points - self.center)
        plus, minus = np.empty((2, len(self.D)))
        size = max(1, CHUNK // max(1, len(people)))
        for start in range(0, len(self.D), size):
            part = slice(start, start + size)
            first = expit(self.beta * (fixed[part, 0, None] - seen[part, 0] @ people.T))
            second = expit(self.beta * (fixed[part, 1, None] - seen[part, 1] @ people.T))
            plus[part] = np.mean(first * (1.0 - second), axis=1)
            minus[part] = np.mean((1.0 - first) * second, axis=1)
        return plus, minus, self.D @ svec(metric)

    def robust_rows(self, metrics: Array, ideal_points: Array) -> Array:
        """Return x (C, p) with ``x xᵀ`` the information, a geometric mean over metrics (B, d, d).

        The arithmetic mean would prefer enormous parallelograms: they are worth a lot under the rare metric that
        makes them undecided, and nothing under all others. People are dealt out among the metrics.
        """
        log_weight = np.zeros(len(self.D))
        for b, metric in enumerate(metrics):
            plus, minus, eta = self.chances(metric, ideal_points[b :: len(metrics)])
            with np.errstate(divide="ignore"):
                log_weight += np.log(plus + minus) - np.logaddexp(0.0, eta) - np.logaddexp(0.0, -eta)
        return np.exp(0.5 * log_weight / len(metrics))[:, None] * self.D

    def expected_error(self, counts: Array, metric: Array, ideal_points: Array) -> tuple[float, float, float]:
        """Return the expected error, that of the shape, and the bias, if candidates are asked `counts` times.

        All relative: ``√(tr I⁻¹ + ‖b‖²) / ‖M‖`` with ``b = I⁻¹ Σ score``, where a likelihood that neglects the
        mismatch leads.
        """
        plus, minus, eta = self.chances(metric, ideal_points)
        rows = np.sqrt(counts * (plus + minus) * expit(eta) * expit(-eta))[:, None] * self.D
        inverse = np.linalg.inv(rows.T @ rows)
        score = (counts * (plus * expit(-eta) - minus * expit(eta))) @ self.D
        bias = inverse @ score
        error, shape = errors_of(inverse + np.outer(bias, bias), metric)
        return error, shape, float(np.linalg.norm(bias)) / float(np.linalg.norm(metric))


def errors_of(covariance: Array, metric: Array) -> tuple[float, float]:
    """Return the expected relative errors, raw and of the shape, if svec(M̂) scatters by `covariance` (p, p) around M.

    ``√(tr C) / ‖M‖``, and, the best rescaling taking away what lies along m = svec(M) to first order,
    ``√(tr C − mᵀCm/‖m‖²) / ‖M‖``.
    """
    m = svec(metric) / np.linalg.norm(metric)
    total = float(np.trace(covariance))
    across = max(total - float(m @ covariance @ m), 0.0)
    size = float(np.linalg.norm(metric))
    return float(np.sqrt(total)) / size, float(np.sqrt(across)) / size


def reached(rows: Array) -> int:
    """Return the number of degrees of freedom of M that candidates (C, p) reach together."""
    values = np.linalg.eigvalsh(rows.T @ rows)
    return int(np.sum(values > RANK_TOLERANCE * max(values[-1], np.finfo(float).tiny)))


def optimal_weights(rows: Array, iterations: int = 100) -> Array:
    """Return weights (C,) that sum to one and make ``tr (Σ w x xᵀ)⁻¹`` small (A-optimality).

    The multiplicative algorithm: ``w_i ← w_i ‖I(w)⁻¹ x_i‖ / Σ``. Every step lowers the trace (Yu 2010), none leaves
    the simplex, and there is nothing to tune; it is stopped when a step gains less than one part in a thousand.
    """
    w = np.full(len(rows), 1.0 / len(rows))
    last = np.inf
    for _ in range(iterations):
        inverse = np.linalg.inv((rows * w[:, None]).T @ rows)
        trace = float(np.trace(inverse))
        if trace > last * (1.0 - 1e-3):
            break
        last = trace
        w = w * np.linalg.norm(rows @ inverse, axis=1)
        w /= w.sum()
    return w


def apportion(weights: Array, n: int) -> Indices:
    """Return whole numbers that sum to n and are closest to ``n · weights`` (largest remainders)."""
    quota = n * weights / weights.sum()
    counts = np.floor(quota).astype(np.intp)
    left = n - int(counts.sum())
    counts[np.argsort(counts - quota, kind="stable")[:left]] += 1
    return counts


def lasting(weights: Array, asked: int) -> Array:
    """Return the weights without those of less than a quarter of a person, which rounding would keep by chance."""
    kept = weights * asked >= 0.25
    return np.where(kept, weights, 0.0) if kept.any() else weights
