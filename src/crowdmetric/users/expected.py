"""The expected information of people's answers, for crowds of few people with many answers each.

Outer products of people's scores estimate the information without bias, but for few people the estimate is noisy: with
fewer people than parameters it is singular. Here a person is approximated by a Gaussian, as in expectation
propagation: answer i measures its ψ_i with precision τ_i (`crowdmetric.users.integrals.Integral.precision`), and
w ~ N(0, S) is unknown. With ``H = E C``, ``C Cᵀ = S`` and ``V = (I + Hᵀ diag(τ) H)⁻¹`` the information about offsets
a is ::

    R = diag(τ) − diag(τ) H V Hᵀ diag(τ)          (m, m), positive semi-definite

and with ``J = ∂a/∂(svec M, μ, b)`` (m, ·) and ``N = EᵀRE`` (q, q) that about the parameters is ::

    Σ_k J_kᵀ R_k J_k        about svec M, μ and b, through the offsets
    ½ Σ_k tr(N dS N dS)     about Σ, through dS = B dΣ Bᵀ

(the Fisher information of a Gaussian about its mean and its covariance). Isotropic people have ``Σ = 4s²M²``, and the
second line counts for M and log s by the chain rule.

A few binary answers tell less about a spread than the ψ's themselves would. Many answers with hardly any noise tell
the shape of the spread, but little about its size. The second line is therefore multiplied by two factors, one for the
size of Σ and one for its shape, which are estimated from people's scores. With R Rᵀ = S, a person's scores in RᵀdSR are
``T = Rᵀ bend R`` (q, q). Those of a Gaussian have, with ``A = RᵀNR``, squares with the expectations ::

    (tr T)² / q          ½ tr(A²) / q              the size of S
    ‖T‖²                 ¼ ((tr A)² + tr(A²))      all of S

The factors are ratios of the sums over everybody (`Information.total`). If people answer three questions each, the
result is accurate to a factor of three in single directions, and better with more answers: good enough as the curvature
of a step and for finding ridges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from crowdmetric.engines.folding import FieldSums
from crowdmetric.symmetric import as_numpy, degrees_of_freedom, dimension, svec_indices
from crowdmetric.users.integrals import Integral, kernels, loadings_of
from crowdmetric.users.population_sums import Law, PopulationBlock, Structure

__all__ = ["Information", "expected_information"]

Array = NDArray[Any]

# Minimum information about the spread, as a share of what Gaussian people would give.
LEAST_SHARE = 0.01


@dataclass(frozen=True)
class Information(FieldSums):
    """Information of people's answers, through offsets and through spreads.

    Attributes
    ----------
    offsets
        About natural parameters, (n, n): the first line of the module's formula.
    products
        Sums over people of products of two entries of ``A = BᵀNB``, (p, p): `about_spreads` makes the second line of
        them.
    seen, predicted
        Squares of people's scores about the size of S and about all of S, (2,), and what Gaussians would have.
    """

    offsets: Array
    products: Array
    seen: Array
    predicted: Array

    def total(self, jacobian: Array, covariance: Array) -> Array:
        """Return the (n, n) information about natural parameters.

        That about spreads counts by its share for shapes, and along ``dΣ = Σ`` by its share for sizes.

        Parameters
        ----------
        jacobian : (p, n)
            Derivatives of svec Σ.
        covariance : (p,)
            svec Σ.
        """
        spreads = self.about_spreads()
        about = jacobian.T @ spreads
        along, size = about @ covariance, float(covariance @ spreads @ covariance)
        of_size = _share(self.seen[0], self.predicted[0])
        shape_seen, shape_predicted = self.seen[1] - self.seen[0], self.predicted[1] - self.predicted[0]
        of_shape = _share(shape_seen, shape_predicted) if shape_predicted > 1e-9 * self.predicted[1] else of_size
        more = np.outer(along, along) / size if size > 0 else 0.0
        return np.asarray(self.offsets + of_shape * (about @ jacobian) + (of_size - of_shape) * more)

    def about_spreads(self) -> Array:
        """Return ``½ Σ_k tr(A_k dΣ A_k dΣ)`` as a (p, p) matrix of svec Σ.

        Entry (ij, kl) is ``¼ Σ (A_ik A_jl + A_il A_jk)`` times both scales of svec, as in `symmetric_kronecker`.
        """
        d = dimension(len(self.products))
        rows, columns, scale = svec_indices(d)
        place = np.empty((d, d), dtype=np.intp)
        place[rows, columns] = place[columns, rows] = np.arange(rows.size)
        i, j, k, l = rows[:, None], columns[:, None], rows[None, :], columns[None, :]  # noqa: E741 - as in the formula
        total = self.products[place[i, k], place[j, l]] + self.products[place[i, l], place[j, k]]
        return np.asarray(0.25 * scale[:, None] * scale[None, :] * total)


def _share(seen: float, predicted: float) -> float:
    return float(min(max(seen / predicted, LEAST_SHARE), 1.0)) if predicted > 0 else 1.0


def expected_information(
    block: PopulationBlock,
    structure: Structure,
    integral: Integral,
    law: Law,
    natural: Array,
    directions: Array | None = None,
) -> Information:
    """Return the expected information of the people of a block about natural parameters.

    If svec M can only move in some `directions` (p, k), orthonormal columns, the information through offsets is zero in
    the others, which saves most of the time. Always computed with NumPy, because it is for few people.
    """
    layout, block = structure.layout(block.span.shape[2]), block.on(as_numpy)
    B, E, precision, turned = block.span, block.loadings, as_numpy(integral.precision), None
    if block.size > 1:
        precision, turned = _principal(precision)
        E = _turn(turned, E)
    precision = np.maximum(precision, 0.0)
    S = B @ law.covariance @ B.transpose(0, 2, 1)
    H = loadings_of(E, S)
    weighted = precision[:, :, None] * H  # diag(τ) H, (P, m, q)
    inner = np.eye(H.shape[2]) + H.transpose(0, 2, 1) @ weighted
    # L⁻¹ with L Lᵀ = V⁻¹, so V = L⁻ᵀ L⁻¹ and everything below is a sum of squares
    root = np.linalg.inv(np.linalg.cholesky(inner))
    across = root @ weighted.transpose(0, 2, 1)  # (P, q, m)
    information = np.zeros((natural.size, natural.size))
    J = _feature_derivatives(block)
    if turned is not None:
        J = _turn(turned, J)
    n, some = J.shape[2], None if directions is None else block_diag(directions, np.eye(layout.d))
    if some is not None:
        J = J @ some

    def about_all(X: Array) -> Array:
        return X if some is None else X @ some.T

    information[:n, :n] = about_all(about_all(_gram(J, precision, across, S, E)).T)
    if layout.n_items:
        less = across @ J
        own, mixed = np.zeros((layout.n_items, layout.n_items)), np.zeros((layout.n_items, J.shape[2]))
        kernels("population").add_item_terms(block.shown, J, precision, across, less, own, mixed)
        information[layout.items, layout.items] = own
        information[layout.items, :n] = about_all(mixed)
        information[:n, layout.items] = about_all(mixed).T
    N = E.transpose(0, 2, 1) @ (precision[:, :, None] * E)
    spanned = across @ E
    N = N - spanned.transpose(0, 2, 1) @ spanned
    rank = np.count_nonzero(np.any(B != 0.0, axis=2), axis=1)
    seen, predicted = _spread_squares(as_numpy(integral.bend), N, S, rank)
    rows, columns, _ = svec_indices(layout.d)
    entries = (B.transpose(0, 2, 1) @ N @ B)[:, rows, columns]
    return Information(information, entries.T @ entries, seen, predicted)


def _principal(precision: Array) -> tuple[Array, Array]:
    """Return eigenvalues (P, m) and eigenvectors (P, A, size, size) of the blocks (P, m, size) of a precision.

    An answer of several rows measures its gaps ψ as one measurement each of their combinations does.
    """
    P, m, size = precision.shape
    values, vectors = np.linalg.eigh(precision.reshape(P, m // size, size, size))
    return values.reshape(P, m), vectors


def _turn(vectors: Array, X: Array) -> Array:
    """Return these combinations of the rows of X (P, m, n)."""
    P, A, size, _ = vectors.shape
    return np.asarray((np.swapaxes(vectors, 2, 3) @ X.reshape(P, A, size, -1)).reshape(X.shape))


def _spread_squares(bend: Array, N: Array, S: Array, rank: Array) -> tuple[Array, Array]:
    """Return squares of people's scores about the size of S and about all of S, (2,), seen and predicted.

    `rank` (P,) is q, without rows of zeros.
    """
    T, A = bend @ S, N @ S  # similar to RᵀTR and RᵀNR: the same traces

    def traces(X: Array) -> tuple[Array, Array]:
        return np.trace(X, axis1=1, axis2=2) ** 2, np.sum(X * X.transpose(0, 2, 1), axis=(1, 2))

    (size, all_), (trace, square) = traces(T), traces(A)
    seen = np.array([np.sum(size / rank), np.sum(all_)])
    predicted = np.array([0.5 * np.sum(square / rank), 0.25 * np.sum(trace + square)])
    return seen, predicted


def _feature_derivatives(block: PopulationBlock) -> Array:
    """Return ``∂a/∂(svec M, μ)`` (P, m, p + d) of every answer."""
    P, m, d = block.total.shape
    J = np.empty((P, m, degrees_of_freedom(d) + d))
    kernels("population").feature_derivatives(np.ascontiguousarray(block.loadings), block.span, block.total, J)
    return J


def _gram(J: Array, precision: Array, across: Array, S: Array, E: Array) -> Array:
    """Return ``Σ_k JᵀRJ``, summed over people: Jᵀ diag(τ) J less the square of across J.

    As one square instead of two where E is the identity, so ``R = (diag(τ)⁻¹ + S)⁻¹``.
    """
    half = np.sqrt(precision)
    if E.strides[0] == 0:  # one identity that all share
        inner = np.eye(S.shape[1]) + half[:, :, None] * S * half[:, None, :]
        return _square((np.linalg.inv(np.linalg.cholesky(inner)) * half[:, None, :]) @ J)
    return _square(half[:, :, None] * J) - _square(across @ J)


def _square(X: Array) -> Array:
    """Return ``Σ_k XᵀX`` (n, n) for X (P, m, n)."""
    rows = X.reshape(-1, X.shape[2])
    return rows.T @ rows
