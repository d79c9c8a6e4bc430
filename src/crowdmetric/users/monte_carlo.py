"""A slow, independent integral over people: quasi-Monte Carlo around the posterior.

Used to judge the fast ones. Points t (scrambled Sobol, made normal) are placed by the posterior mean and covariance
that a fast integral implies, and weighted by the exact integrand over the placing density; the derivatives are then
posterior means, as in `integrals`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from crowdmetric.losses import Loss
from crowdmetric.users.adaptive_quadrature import at_nodes
from crowdmetric.users.integrals import Integral

__all__ = ["by_sampling"]

Array = NDArray[np.float64]

# The placing law is this much wider than the posterior, so weights stay bounded in the tails.
WIDER = 1.3


def by_sampling(
    a: Array,
    E: Array,
    H: Array,
    y: Array,
    weight: Array,
    loss: Loss,
    guess: Integral,
    *,
    points: int = 2048,
    seed: int = 0,
) -> Integral:
    """Integrate over ``ψ = a + H t``, t ~ N(0, I), placing points by `guess`."""
    P, m, q = H.shape
    u = qmc.Sobol(q, seed=seed).random(points)
    z = ndtri(np.clip(u, 1e-12, 1.0 - 1e-12))
    value, slope, bend, precision = np.empty(P), np.empty((P, m)), np.empty((P, q, q)), np.empty((P, m))
    for k in range(P):
        center, root = _posterior_root(E[k], H[k], guess.slope[k], guess.bend[k])
        t = center + WIDER * z @ root.T
        volume = q * np.log(WIDER) + np.sum(np.log(np.diag(root))) - np.log(points)
        log_weight = 0.5 * np.sum(z * z, axis=1) + volume
        own = (a[k], E[k], H[k], y[k], weight[k])
        value[k], slope[k], bend[k], precision[k] = at_nodes(*own, loss, t, log_weight)
    return Integral(value, slope, bend, precision)


def _posterior_root(E: Array, H: Array, slope: Array, bend: Array) -> tuple[Array, Array]:
    """Return mean (q,) and Cholesky factor (q, q) of t given the answers, as `integrals.posterior_of` has them."""
    C = np.linalg.lstsq(E, H, rcond=None)[0]  # H = E C
    pull = E.T @ slope
    covariance = np.eye(C.shape[1]) + C.T @ (2.0 * bend - np.outer(pull, pull)) @ C
    values, vectors = np.linalg.eigh(covariance)
    return C.T @ pull, np.linalg.cholesky((vectors * np.maximum(values, 1e-6)) @ vectors.T)
