"""Bounded people: minimize each person's answers over ``‖w_k‖ ≤ ζ_v`` (Algorithm 5, Canal et al. 2022).

One Newton step of a primal–dual interior-point method, seen from the people's side. Person k keeps inside their ball
by a barrier (`ball.py`) with curvature ``κ(I + 2vvᵀ)`` and gradient ``(μ/det) w``. With per-answer slopes g and
curvatures h (`answer_terms.py`), linearizing gives an arrow::

    [ Σ h ΔΔᵀ   Σ h Δδᵀ ] [ da ]   [ −Σ g Δ             ]
    [ Σ h δΔᵀ   H_k     ] [ dw ] = [ −Σ g δ − (μ/det) w ]      H_k = Σ h δδᵀ + κ(I + 2vvᵀ)    (r, r)

Eliminating dw_k leaves the Schur complement ``S = Σ_k Σ_i h Δ (Δ − X_kᵀ δ)ᵀ`` with ``X_k = H_k⁻¹ Σ h δΔᵀ`` (r, p): the
weighted residual of Δ after regression on the person's own δ. People are processed block by block, and nothing of size
people × p is stored.

If a person's δ's do not span R^r, only the barrier determines the other directions. Its curvature goes to zero, and
rounding would then mix both kinds of directions. Such people are rotated into axes of their own (`own_axes`), in which
the other directions are exact zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.losses import Loss
from crowdmetric.symmetric import degrees_of_freedom, outer_difference
from crowdmetric.users.answer_terms import terms_for
from crowdmetric.users.ball import Balls, dot
from crowdmetric.users.blocks import Block, bilinear, contract, small_products, sum_over_problems

__all__ = ["SHARE", "BarrierSums", "BoundedBlock", "own_axes", "turned", "turned_back"]

Array = NDArray[Any]

# Share of the way to the boundary that a step may go.
SHARE = 0.99


@dataclass
class BarrierSums:
    """The metric's Newton system of each problem after people are eliminated: all that the solver sees of them."""

    gradient: Array
    schur: Array
    reduced: Array

    @classmethod
    def zeros(cls, n: int, r: int) -> BarrierSums:
        """Return empty sums for n problems of rank r."""
        p = degrees_of_freedom(r)
        return cls(np.zeros((n, p)), np.zeros((n, p, p)), np.zeros((n, p)))


class BoundedBlock:
    """The people of one block with their state: w (P, r), its multipliers, and what their answers keep.

    Parameters
    ----------
    block
        Their answers.
    loss
        Any loss; the hinge brings slacks of its own.
    radius
        (P,) ζ_v of each person.
    mu
        (P,) the barrier parameter to start on.
    w
        Where to start, strictly inside; zero by default.
    offset
        (P, m) ``⟨Δ, M⟩`` of a known metric, in place of the metric itself.
    """

    def __init__(
        self,
        block: Block,
        loss: Loss,
        radius: Array,
        mu: Array,
        w: Array | None = None,
        *,
        offset: Array | None = None,
    ) -> None:
        self.block, self.loss, self.offset = block, loss, offset
        self.own, self.axes = own_axes(block.delta) if offset is None else (block.delta, None)
        self.terms = terms_for(loss, block.response, block.weight)
        start = np.zeros((block.person.size, block.delta.shape[2])) if w is None else turned(w, self.axes)
        self.balls = Balls(start, radius, mu, curved=loss.is_smooth)

    @property
    def w(self) -> Array:
        """The pseudo-ideal points in each person's own axes, (P, r)."""
        return self.balls.x

    @property
    def points(self) -> Array:
        """The pseudo-ideal points, (P, r)."""
        return turned_back(self.w, self.axes)

    def psi(self, A: Array | None = None) -> Array:
        """Return ``ψ = δᵀ(A s + w)`` (P, m) under the metrics A (n, r, r), or under the known one."""
        b = self.block
        if A is None:
            return self.offset + _along(self.own, self.w)
        return bilinear(b.delta, self._metric(A), b.total) + _along(self.own, self.w)

    def _metric(self, A: Array) -> Array:
        """Return the matrix of each person's problem, or the one that all share."""
        problems = self.block.problems
        return A[problems[0]] if problems.size == 1 else A[self.block.problem]

    def linearize(self, A: Array | None, mu: Array) -> tuple[Array, Array]:
        """Compute everybody's own Newton system at (A, w) for the barrier parameters mu (P,).

        Returns
        -------
        merit, gap
            (P,) each: the barrier function, and the person's part of the certificate (total loss, not mean).
        """
        balls = self.balls
        balls.linearize(mu)
        self.at = self.psi(A)
        merit, self.g, self.h = self.terms.linearize(self.at, mu[:, None])
        excess, self.tangent = self.terms.minorant(self.at)
        barrier = np.eye(self.own.shape[2]) + 2.0 * balls.v1[:, :, None] * balls.v1[:, None, :]
        H = contract(self.own, self.h[:, :, None] * self.own) + balls.kappa[:, None, None] * barrier
        self.inverse = 1.0 / H if H.shape[1] == 1 else np.linalg.inv(H)
        self.rhs = -contract(self.own, self.g[:, :, None])[:, :, 0] - balls.gradient
        pull = contract(self.own, self.tangent[:, :, None])[:, :, 0]
        gap = excess.sum(axis=1) + dot(pull, self.w) + balls.radius * np.sqrt(dot(pull, pull))
        return merit.sum(axis=1) + balls.merit(), gap

    def eliminate(self, sums: BarrierSums) -> None:
        """Eliminate these people and add their part of the metric's Newton system to `sums`."""
        b = self.block
        Delta = outer_difference(b.delta, b.total)
        h_delta = self.h[:, :, None] * self.own
        X = small_products(self.inverse, contract(h_delta, Delta))
        residual = self.h[:, :, None] * Delta - small_products(h_delta, X)
        p = Delta.shape[2]
        ends = np.append(b.starts[1:], b.person.size)
        for problem, start, end in zip(b.problems, b.starts, ends, strict=True):
            rows = Delta[start:end].reshape(-1, p)
            sums.schur[problem] += residual[start:end].reshape(-1, p).T @ rows
            sums.gradient[problem] += self.tangent[start:end].reshape(-1) @ rows
            sums.reduced[problem] -= self.g[start:end].reshape(-1) @ rows
        sum_over_problems(b, -small_products(self.rhs[:, None, :], X)[:, 0], sums.reduced)

    def direction(self, dA: Array | None) -> tuple[Array, Array]:
        """Compute this block's step for a metric step dA (n, r, r); None if the metric is known.

        Under a smooth loss every person has their own step length: a person near the boundary of their ball does not
        shorten the steps of all others.

        Returns
        -------
        slope, longest
            (P,) each: directional derivative of the merit, and how far each person can go, at most 1.
        """
        b, rhs = self.block, self.rhs
        self.along = np.zeros_like(self.at)
        if dA is not None:
            self.along = bilinear(b.delta, self._metric(dA), b.total)
            rhs = rhs - contract(self.own, (self.h * self.along)[:, :, None])[:, :, 0]
        dw = small_products(self.inverse, rhs[:, :, None])[:, :, 0]
        slope, primal, dual = self.balls.direction(dw)
        slope = slope + self.terms.direction(self.along + _along(self.own, dw)).sum(axis=1)
        own_primal, own_dual = self.terms.longest()
        self.longest = np.minimum(1.0, SHARE * np.minimum(primal, own_primal))
        self.longest_dual = np.minimum(1.0, SHARE * np.minimum(dual, own_dual))
        return slope, self.longest

    def merit(self, alpha: Array) -> Array:
        """Return the merit (P,) after a step alpha (P,) of the metric."""
        own = np.minimum(alpha, self.longest)
        w = self.balls.arrive(own)
        psi = self.at + alpha[:, None] * self.along + _along(self.own, w - self.w)
        return self.terms.merit(psi, own[:, None]).sum(axis=1) + self.balls.merit(w)

    def advance(self, alpha: Array) -> None:
        """Take the step: alpha (P,) for the metric, zero if the problem is finished."""
        own = np.minimum(alpha, self.longest)
        dual = np.where(alpha > 0, self.longest_dual, 0.0)
        self.terms.advance(own[:, None], dual[:, None])
        self.balls.advance(own, dual)


def own_axes(delta: Array) -> tuple[Array, Array | None]:
    """Return δ (P, m, r) in each person's own axes, and the axes (P, r, r); None if everybody's δ's span R^r."""
    r = delta.shape[2]
    if r == 1:
        return delta, None
    values = np.linalg.eigvalsh(contract(delta, delta))
    if np.all(values[:, 0] > 1e-8 * values[:, -1]):
        return delta, None
    _, lengths, axes = np.linalg.svd(delta)
    own = delta @ np.swapaxes(axes, 1, 2)
    spanned = np.zeros((delta.shape[0], r), dtype=bool)
    spanned[:, : lengths.shape[1]] = lengths > 1e-10 * lengths[:, :1]
    return np.where(spanned[:, None, :], own, 0.0), axes


def turned(w: Array, axes: Array | None) -> Array:
    """Return vectors (P, r) in their people's own axes."""
    return w if axes is None else np.einsum("pqr,pr->pq", axes, w)


def turned_back(w: Array, axes: Array | None) -> Array:
    """Return vectors (P, r) from their people's own axes."""
    return w if axes is None else np.einsum("pqr,pq->pr", axes, w)


def _along(delta: Array, w: Array) -> Array:
    """Return ``⟨δ, w⟩`` (P, m)."""
    return small_products(delta, w[:, :, None])[:, :, 0]
