"""The expected information of people's answers, for crowds of few people with many answers each.

Outer products of people's scores estimate the information without bias, but as noisily as there are few people: with
fewer people than parameters they are singular. Here a person counts as a Gaussian, as expectation propagation sees
them: answer i speaks of its ψ_i with precision τ_i (`crowdmetric.users.integrals.Integral.precision`), and w ~ N(0, S)
is unknown. With ``H = E C``, ``C Cᵀ = S`` and ``V = (I + Hᵀ diag(τ) H)⁻¹`` the information about the offsets a is ::

    R = diag(τ) − diag(τ) H V Hᵀ diag(τ)          (m, m), positive semi-definite

and with ``J = ∂a/∂(svec M, μ, b)`` (m, ·) and ``N = EᵀRE`` (q, q) that about the parameters is ::

    Σ_k J_kᵀ R_k J_k        about svec M, μ and b, through the offsets
    ½ Σ_k tr(N dS N dS)     about Σ, through dS = B dΣ Bᵀ

(the Fisher information of a Gaussian about its mean and its covariance). Isotropic people have ``Σ = 4s²M²``, and the
second line counts for M and log s by the chain rule.

A few yes-or-no answers say less of a spread than the ψ's themselves would. The second line is therefore taken by the
share that people's own scores bear out, along the direction in which Σ grows as a whole: the sum of squares of
``2 tr(bend S)`` over the sum of ``2 tr(N S N S)``, of everybody together (`Information.total`). What is left is right
but for a factor of up to three in single directions where people answer three questions each, and better with more: a
curvature to step by and to weigh ridges with.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from crowdmetric.symmetric import as_numpy, outer_difference, svec_indices
from crowdmetric.users.integrals import Integral, loadings_of
from crowdmetric.users.population import Law, PopulationBlock, Structure

__all__ = ["Information", "expected_information"]

Array = NDArray[Any]

# The least share of what Gaussian people would say of their spread that answers are taken to say.
LEAST_SHARE = 0.01


@dataclass(frozen=True)
class Information:
    """What people's answers say of natural parameters through offsets and through spreads, (n, n) each.

    `seen` and `foretold` are the sums by which the second counts.
    """

    offsets: Array
    spreads: Array
    seen: float
    foretold: float

    def __add__(self, other: Information) -> Information:
        return Information(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def total(self) -> Array:
        """The (n, n) information."""
        share = min(max(self.seen / self.foretold, LEAST_SHARE), 1.0) if self.foretold > 0 else 1.0
        return self.offsets + share * self.spreads


def expected_information(
    block: PopulationBlock, structure: Structure, integral: Integral, law: Law, natural: Array
) -> Information:
    """Return the expected information of the people of a block about natural parameters.

    Computed with NumPy wherever the arrays are: it is for few people.
    """
    layout, block = structure.layout(block.span.shape[2]), block.on(as_numpy)
    B, E, precision = block.span, block.loadings, np.maximum(as_numpy(integral.precision), 0.0)
    S = B @ law.covariance @ B.transpose(0, 2, 1)
    H = loadings_of(E, S)
    weighted = precision[:, :, None] * H  # diag(τ) H, (P, m, q)
    inner = np.eye(H.shape[2]) + H.transpose(0, 2, 1) @ weighted
    # L⁻¹ with L Lᵀ = V⁻¹, so that V = L⁻ᵀ L⁻¹ and everything below is a sum of squares
    root = np.linalg.inv(np.linalg.cholesky(inner))
    across = root @ weighted.transpose(0, 2, 1)  # (P, q, m)
    information = np.zeros((natural.size, natural.size))
    features = np.r_[layout.metric, layout.mean]
    J = _feature_derivatives(block)
    information[np.ix_(features, features)] = _gram(J, precision, across)
    if layout.n_items:
        _add_items(information, block, J, precision, across, features, layout.items.start)
    N = E.transpose(0, 2, 1) @ (precision[:, :, None] * E)
    less = across @ E
    N = N - less.transpose(0, 2, 1) @ less
    NS = N @ S
    seen = float(np.sum((2.0 * np.sum(as_numpy(integral.bend) * S, axis=(1, 2))) ** 2))
    foretold = 2.0 * float(np.sum(NS * NS.transpose(0, 2, 1)))
    of_spread = structure.spread_jacobian(natural, layout.d)
    spreads = of_spread.T @ _about_covariance(B.transpose(0, 2, 1) @ N @ B) @ of_spread
    return Information(information, spreads, seen, foretold)


def _feature_derivatives(block: PopulationBlock) -> Array:
    """Return ``∂a/∂(svec M, μ)`` (P, m, p + d) of every answer."""
    delta = block.loadings @ block.span
    return np.concatenate([outer_difference(delta, block.total), delta], axis=2)


def _gram(J: Array, precision: Array, across: Array) -> Array:
    """Return ``Σ_k JᵀRJ`` = Jᵀ diag(τ) J − (across J)ᵀ(across J), summed over people."""
    n = J.shape[2]
    flat, less = J.reshape(-1, n), (across @ J).reshape(-1, n)
    return (flat * precision.reshape(-1, 1)).T @ flat - less.T @ less


def _add_items(
    information: Array, block: PopulationBlock, J: Array, precision: Array, across: Array, features: Array, first: int
) -> None:
    """Add what answers say about the items' utilities, whose derivatives are −1 (left) and +1 (right): sparse."""
    P, m, n = J.shape
    n_items = information.shape[0] - first
    rows, sign = np.repeat(np.arange(P * m), 2), np.tile([-1.0, 1.0], P * m)
    derivatives = csr_array((sign, (rows, block.shown.reshape(-1))), shape=(P * m, n_items))
    weighted = derivatives.multiply(precision.reshape(-1, 1)).tocsr()
    # (across J_b) as one sparse product: rows are (person, direction), columns items
    q = across.shape[1]
    spots = np.broadcast_to(np.arange(P * q).reshape(P, q, 1), across.shape)
    answers = np.broadcast_to(np.arange(P * m).reshape(P, 1, m), across.shape)
    less = csr_array((across.ravel(), (spots.ravel(), answers.ravel())), shape=(P * q, P * m)) @ derivatives
    less = less.toarray()
    items = slice(first, first + n_items)
    mixed = (weighted.T @ J.reshape(-1, n)) - less.T @ (across @ J).reshape(-1, n)
    information[items, items] += (weighted.T @ derivatives).toarray() - less.T @ less
    information[np.ix_(np.arange(first, first + n_items), features)] += mixed
    information[np.ix_(features, np.arange(first, first + n_items))] += mixed.T


def _about_covariance(A: Array) -> Array:
    """Return ``½ Σ_k tr(A_k dΣ A_k dΣ)`` as a (p, p) matrix of svec Σ, for A (P, d, d).

    Entry (ij, kl) is ``¼ Σ (A_ik A_jl + A_il A_jk)`` times both scales of svec, as in `symmetric_kronecker`.
    """
    d = A.shape[1]
    flat = A.reshape(-1, d * d)
    products = (flat.T @ flat).reshape(d, d, d, d)  # Σ A_ik A_jl at [i, k, j, l]
    rows, columns, scale = svec_indices(d)
    i, j, k, l = rows[:, None], columns[:, None], rows[None, :], columns[None, :]  # noqa: E741 - letters of the formula
    total = products[i, k, j, l] + products[i, l, j, k]
    return 0.25 * scale[:, None] * scale[None, :] * total
