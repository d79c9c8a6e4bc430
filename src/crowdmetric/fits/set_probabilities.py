"""How likely each alternative of a set is to be chosen, averaged over what is unknown.

The utilities of a set's alternatives are Gaussian given what a model knows: of the person (their v given their
answers), of the law (M and μ, and effects of items), and of items that are new. In gaps to the first alternative, ::

    g_j = η_j − η_1 = ⟨Δ_j, M⟩ + ⟨δ_j, v⟩ + b_j − b_1,      Δ_j = x₁x₁ᵀ − x_jx_jᵀ,  δ_j = x₁ − x_j
    Pr[c] = E[exp(β g_c) / Σ_j exp(β g_j)]

The mean is taken over Sobol's points, each with its mirror image, stretched to have exactly the covariance.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, softmax
from scipy.stats import qmc

from crowdmetric.fits.unknowns import Unknowns
from crowdmetric.symmetric import degrees_of_freedom, outer_difference
from crowdmetric.users.integrals import root_of

__all__ = ["covariance_of_gaps", "mean_shares", "sets_by_size"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Logarithm of the number of points, of which each has a mirror image.
LOG_POINTS = 9
# Numbers in an array of all utilities at all points, at most.
MOST_NUMBERS = 1 << 22


def sets_by_size(offsets: Indices, numbers: int) -> Iterator[tuple[Indices, Indices]]:
    """Yield questions (n,) that show equally many alternatives, and the places (n, size) of these.

    At most so many that an array with this many `numbers` per alternative is no larger than `MOST_NUMBERS`.
    """
    sizes = np.diff(offsets)
    for size in np.unique(sizes):
        questions, step = np.flatnonzero(sizes == size), max(1, MOST_NUMBERS // int(size * numbers))
        for begin in range(0, questions.size, step):
            some = questions[begin : begin + step]
            yield some, offsets[some][:, None] + np.arange(size)


@lru_cache
def points_of(k: int) -> Array:
    """Return points (n, k) of a standard normal law, with exactly its mean and covariance."""
    u = qmc.Sobol(k, seed=0).random_base2(max(LOG_POINTS, int(np.ceil(np.log2(k + 1)))))
    z = ndtri(np.clip(u, 1e-12, 1.0 - 1e-12))
    z = np.linalg.solve(np.linalg.cholesky(z.T @ z / len(z)), z.T).T
    return np.vstack([z, -z])


def mean_shares(gaps: Array, covariance: Array, beta: float) -> Array:
    """Return ``E[exp(β g_c) / Σ_j exp(β g_j)]`` (n, 1 + k) of gaps with means (n, k) and covariances (n, k, k)."""
    spread = points_of(gaps.shape[1]) @ np.swapaxes(root_of(covariance), 1, 2)
    utility = np.concatenate([np.zeros((*spread.shape[:2], 1)), gaps[:, None, :] + spread], axis=2)
    return np.asarray(softmax(beta * utility, axis=2).mean(axis=1))


def covariance_of_gaps(vectors: Array, people: Array, unknowns: Unknowns, rows: Indices | None, new: Array) -> Array:
    """Return the covariances (n, k, k) of the gaps of sets to their first alternatives.

    Parameters
    ----------
    vectors : (n, 1 + k, d)
        The alternatives.
    people : (n, d, d)
        Covariances of people's v.
    unknowns
        What is unknown besides.
    rows : (n, 1 + k) or None
        Which items they are; None: new ones.
    new : (n, 1 + k)
        Variances of the utilities of alternatives by themselves.
    """
    first, others = vectors[:, :1], vectors[:, 1:]
    delta = np.broadcast_to(first, others.shape) - others
    covariance = delta @ people @ np.swapaxes(delta, 1, 2) + new[:, :1, None]
    index = np.arange(others.shape[1])
    covariance[:, index, index] += new[:, 1:]
    C = unknowns.covariance
    if C is not None:
        n, k, d = delta.shape
        flat, total = delta.reshape(-1, d), (first + others).reshape(-1, d)
        z = np.concatenate([outer_difference(flat, total), flat], axis=1).reshape(n, k, -1)
        if rows is not None and len(C) > degrees_of_freedom(d) + d:
            one = np.eye(len(C) - z.shape[2])
            z = np.concatenate([z, one[rows[:, 1:]] - one[rows[:, :1]]], axis=2)
        covariance += z @ C[: z.shape[2], : z.shape[2]] @ np.swapaxes(z, 1, 2)
    return covariance
