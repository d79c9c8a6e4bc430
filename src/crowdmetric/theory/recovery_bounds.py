"""How well a metric is recovered: the bounds of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log, sqrt

from crowdmetric.checks import positive_number, whole_number
from crowdmetric.errors import DataError
from crowdmetric.theory.arguments import probability

__all__ = ["LinkConstants", "logistic_constants", "reconstruction_bound", "subspace_recovery_bound"]


@dataclass(frozen=True)
class LinkConstants:
    """What the bounds need of a link function f on ``|z| ≤ 2(ζ_M + ζ_v)`` (`ass:probabilistic`).

    Attributes
    ----------
    lipschitz
        L, the largest slope of ``−log f``.
    slope
        c_f, the smallest slope of f.

    Examples
    --------
    >>> from crowdmetric.theory import logistic_constants
    >>> constants = logistic_constants(2.0, 1.0, 1.0)
    >>> round(constants.lipschitz, 3)
    1.999
    """

    lipschitz: float
    slope: float


def logistic_constants(beta: float, metric_bound: float, ideal_bound: float) -> LinkConstants:
    """Return L and c_f of the logistic link ``f(z) = σ(βz)``, whose extremes are at ``z = ∓2(ζ_M + ζ_v)``.

        t = 2β(ζ_M + ζ_v),   L = β σ(t),   c_f = β σ(t) σ(−t)

    Parameters
    ----------
    beta
        Steepness of the link.
    metric_bound, ideal_bound
        ζ_M ≥ ‖M‖_F and ζ_v ≥ ‖v_k‖. Items are in the unit ball.

    Examples
    --------
    >>> from crowdmetric.theory import logistic_constants
    >>> round(logistic_constants(1.0, 1.0, 1.0).lipschitz, 3)
    0.982
    """
    positive_number(beta, "beta")
    t = 2.0 * beta * (positive_number(metric_bound, "metric_bound") + positive_number(ideal_bound, "ideal_bound"))
    likely = 1.0 / (1.0 + exp(-t))
    return LinkConstants(lipschitz=beta * likely, slope=beta * likely * likely * exp(-t))


def subspace_recovery_bound(
    users: int,
    comparisons: int,
    *,
    strength: float,
    metric_bound: float,
    ideal_bound: float,
    beta: float = 1.0,
    p: float = 0.05,
) -> float:
    """Return the ε that bounds the error of a subspace metric learned from binary answers (`prop:recovery_hat_Q`).

    With probability at least 1 − p, for K people with m answers each to designs drawn independently from P_m,

        ‖Q̂ − Q‖_F² ≤ ε² = 16 L / (c_f² σ²_min(P_m)) · √((ζ_M² + K ζ_v²) log(4/p) / (mK))

    if Q̂ is the maximum-likelihood estimate of Algorithm 5 with the true link and radii, and items are in the unit ball.
    Every constant is known. It shrinks with m but not with K alone, as K ζ_v² / (mK) does not, and c_f falls
    exponentially in β(ζ_M + ζ_v): a guarantee of what is possible, not a forecast of the error.
    (`rmk:recovery-subspace` sets ζ_M = r and ζ_v = 2√r for entries of M and ideal points of size at most one; the
    latter needs ‖M‖ ≤ √r: for M near the all-ones matrix ‖v‖ reaches 2r.)

    Parameters
    ----------
    users, comparisons
        K and m.
    strength
        ``σ²_min(P_m)``, see `design_strength`.
    metric_bound, ideal_bound
        ζ_M and ζ_v.
    beta
        β of the logistic link.
    p
        Probability that the bound may fail.

    Examples
    --------
    >>> from crowdmetric.theory import subspace_recovery_bound
    >>> few, many = (subspace_recovery_bound(k, 8, strength=0.1, metric_bound=5.0, ideal_bound=5.0) for k in (10, 1000))
    >>> many < few
    True
    """
    K, m = whole_number(users, "users"), whole_number(comparisons, "comparisons")
    link = logistic_constants(beta, metric_bound, ideal_bound)
    weakest = link.slope * link.slope * positive_number(strength, "strength")
    spread = (metric_bound**2 + K * ideal_bound**2) * log(4.0 / probability(p)) / (m * K)
    return sqrt(16.0 * link.lipschitz / weakest * sqrt(spread)) if weakest > 0 else inf


def reconstruction_bound(
    sigma_min: float, gamma: float, epsilon: float, n: int, d: int, p: float = 0.05, c: float = 1.0
) -> float:
    """Return the bound on ‖M̂ − M‖_F after subspace metrics are stitched (`thm:recovery_guarantee`).

    With probability at least 1 − p,

        ‖M̂ − M‖_F ≤ c / σ_min(Π) · (γ √n + ε d √log(2d/p))

    where ‖Q̂_λ − Q_λ‖_F ≤ ε and the bias ‖E Q̂_λ − Q_λ‖_F ≤ γ ≤ ε in each of n independent subspaces, and M̂ is the
    least-squares stitch projected on the cone. **The universal constant c is not known**: the paper takes it from a
    vector Hoeffding inequality that states none. With c = 1 the value shows how the bound scales; it is not a
    guarantee. (Without any constant, and surely, ‖M̂ − M‖_F ≤ ε √n / σ_min(Π): M̂ − M is no longer than Π⁺
    applied to all errors.)

    Parameters
    ----------
    sigma_min
        See `smallest_singular_value`.
    gamma, epsilon
        Bounds on the bias and the error of the subspace metrics; see `subspace_recovery_bound`.
    n, d
        Subspaces, and dimension of the items.
    p
        Probability that the bound may fail.
    c
        The constant.

    Examples
    --------
    >>> from crowdmetric.theory import reconstruction_bound
    >>> reconstruction_bound(0.5, 0.1, 0.1, n=80, d=10) > 0
    True
    """
    if not 0 <= gamma <= epsilon:
        raise DataError(
            f"gamma={gamma!r} and epsilon={epsilon!r}, but a bias bound lies between 0 and the error bound; "
            "give gamma=epsilon if the bias is not known"
        )
    noise = epsilon * whole_number(d, "d") * sqrt(log(2.0 * d / probability(p)))
    bias = gamma * sqrt(whole_number(n, "n"))
    return positive_number(c, "c") / positive_number(sigma_min, "sigma_min") * (bias + noise)
