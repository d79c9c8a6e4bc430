"""Bounded people: minimize each person's answers over ``‖w_k‖ ≤ ζ_v`` (Algorithm 5, Canal et al. 2022).

One Newton step of a primal–dual interior-point method, seen from the people's side. Person k keeps inside their ball
by a barrier (`solvers/cone.py`) with curvature ``κ(I + 2vvᵀ)`` and gradient ``(μ/det) w``. With per-answer slopes g and
curvatures h (see below), linearizing gives an arrow::

    [ Σ h ΔΔᵀ   Σ h Δδᵀ ] [ da ]   [ −Σ g Δ             ]
    [ Σ h δΔᵀ   H_k     ] [ dw ] = [ −Σ g δ − (μ/det) w ]      H_k = Σ h δδᵀ + κ(I + 2vvᵀ)    (r, r)

Eliminating dw_k leaves the Schur complement ``S = Σ_k Σ_i h Δ (Δ − X_kᵀ δ)ᵀ`` with ``X_k = H_k⁻¹ Σ h δΔᵀ`` (r, p): the
weighted residual of Δ after regression on the person's own δ. People are processed block by block, and nothing of size
people × p is stored.

If a person's δ's do not span R^r, only the barrier determines the other directions. Its curvature goes to zero, and
rounding would then mix both kinds of directions. Such people are rotated into axes of their own (`_own_axes`), in which
the other directions are exact zeros.

**What one answer adds.** Answers are arrays (P, m) per block. With weights c,

- `SmoothTerms` adds ``c ℓ(ψ, y)``;
- `SlackTerms` writes the hinge as ``min ξ  s.t.  ξ ≥ 0, t = ξ + yψ − 1 ≥ 0`` and adds ``c ξ − μ log ξ − μ log t``.
  Its multipliers are a (of t) and b = c − a (of ξ); eliminating dξ, da and db from the linearized
  ``a t = μ, b ξ = μ`` leaves an effective slope and curvature in ψ, as if the hinge were smooth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdmetric.losses import Hinge, Loss
from crowdmetric.solvers.cone import SHARE, Balls, dot, to_zero
from crowdmetric.symmetric import degrees_of_freedom, outer_difference
from crowdmetric.users.blocks import Block, bilinear, contract, small_products, sum_over_problems

__all__ = ["BarrierSums", "BoundedBlock", "SlackTerms"]

Array = NDArray[Any]


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
        self.own, self.axes = _own_axes(block.delta) if offset is None else (block.delta, None)
        self.terms = _terms_for(loss, block.response, block.weight)
        start = np.zeros((block.person.size, block.delta.shape[2])) if w is None else _turned(w, self.axes)
        self.balls = Balls(start, radius, mu, curved=loss.is_smooth)

    @property
    def w(self) -> Array:
        """The pseudo-ideal points in each person's own axes, (P, r)."""
        return self.balls.x

    @property
    def points(self) -> Array:
        """The pseudo-ideal points, (P, r)."""
        return _turned_back(self.w, self.axes)

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


def _own_axes(delta: Array) -> tuple[Array, Array | None]:
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


def _turned(w: Array, axes: Array | None) -> Array:
    """Return vectors (P, r) in their people's own axes."""
    return w if axes is None else np.einsum("pqr,pr->pq", axes, w)


def _turned_back(w: Array, axes: Array | None) -> Array:
    """Return vectors (P, r) from their people's own axes."""
    return w if axes is None else np.einsum("pqr,pq->pr", axes, w)


def _along(delta: Array, w: Array) -> Array:
    """Return ``⟨δ, w⟩`` (P, m)."""
    return small_products(delta, w[:, :, None])[:, :, 0]


class Terms(Protocol):
    """Answers of one block as the barrier solver sees them; arrays are (P, m), mu is (P, 1)."""

    def linearize(self, psi: Array, mu: Array) -> tuple[Array, Array, Array]:
        """Return merit, effective slope and curvature at ψ."""

    def minorant(self, psi: Array) -> tuple[Array, Array]:
        """Return (loss − tangent at ψ, slope of the tangent), a tangent being below ``c ℓ`` everywhere."""

    def direction(self, dpsi: Array) -> Array:
        """Set the step that belongs to dψ and return the directional derivative of the merit."""

    def longest(self) -> tuple[Array, Array]:
        """Return the longest primal and dual steps, (P,) each, that keep this block strictly inside."""

    def merit(self, psi: Array, alpha: Array) -> Array:
        """Return the merit after a step of length alpha (P, 1) that ends at ψ."""

    def advance(self, alpha: Array, alpha_dual: Array) -> None:
        """Take the step."""


class SmoothTerms:
    """Answers under a twice differentiable loss: the only state is the slope of the last linearization."""

    def __init__(self, loss: Loss, response: Array, weight: Array) -> None:
        self.loss, self.response, self.weight = loss, response, weight

    def linearize(self, psi: Array, mu: Array) -> tuple[Array, Array, Array]:
        value, slope, curvature = self.loss.value_slope_curvature(psi, self.response)
        self.slope = self.weight * slope
        return self.weight * value, self.slope, self.weight * curvature

    def minorant(self, psi: Array) -> tuple[Array, Array]:
        return np.zeros_like(psi), self.slope

    def direction(self, dpsi: Array) -> Array:
        return self.slope * dpsi

    def longest(self) -> tuple[Array, Array]:
        unlimited = np.full(self.response.shape[0], np.inf)
        return unlimited, unlimited

    def merit(self, psi: Array, alpha: Array) -> Array:
        return self.weight * self.loss.value(psi, self.response)

    def advance(self, alpha: Array, alpha_dual: Array) -> None:
        pass


class SlackTerms:
    """Answers under the hinge loss, each with its slack ξ and multiplier a."""

    def __init__(self, response: Array, weight: Array) -> None:
        # Padding has response 0: it becomes a constant row of weight 1, which changes nothing and which the mask
        # excludes from every sum.
        self.response = response
        self.filled = weight > 0
        self.c = np.where(self.filled, weight, 1.0)
        self.started = False

    def _center(self, z: Array, mu: Array) -> tuple[Array, Array]:
        """Return (ξ, t) on the central path: t > 0 solves ``c t² + (c q − 2μ) t − μ q = 0``, q = 1 − z, ξ = t + q."""
        c, q = self.c, 1.0 - z
        B = c * q - 2.0 * mu
        root = np.sqrt(4.0 * mu * mu + (c * q) ** 2)
        # of two equal formulas for the root, the one that avoids cancellation
        t = np.where(B > 0, 2.0 * mu * q / np.where(B > 0, B + root, 1.0), (root - B) / (2.0 * c))
        return t + q, t

    def linearize(self, psi: Array, mu: Array) -> tuple[Array, Array, Array]:
        if not self.started:
            self.started = True
            self.xi, self.t = self._center(self.response * psi, mu)
            self.a = mu / self.t
        # t is stored, not recomputed from ψ: if it is tiny, rounding in ξ + yψ − 1 could change its sign
        c, a, xi, t = self.c, self.a, self.xi, self.t
        self.mu = mu
        k_t, k_xi = a / t, (c - a) / xi
        total = k_t + k_xi
        slope = -mu / t + k_t * (mu / t + mu / xi - c) / total
        curvature = k_t * k_xi / total
        merit = c * xi - mu * (np.log(xi) + np.log(t))
        self.k_t, self.k_xi = k_t, k_xi
        return merit * self.filled, self.response * slope, curvature * self.filled

    def minorant(self, psi: Array) -> tuple[Array, Array]:
        margin = 1.0 - self.response * psi  # c max(0, margin) ≥ a margin for every a in [0, c]
        excess = self.c * np.maximum(margin, 0.0) - self.a * margin
        return excess * self.filled, -self.response * self.a

    def direction(self, dpsi: Array) -> Array:
        c, a, xi, t, mu = self.c, self.a, self.xi, self.t, self.mu
        dz = self.response * dpsi
        self.dxi = (mu / t + mu / xi - c - self.k_t * dz) / (self.k_t + self.k_xi)
        self.dt = self.dxi + dz
        self.da = mu / t - a - self.k_t * self.dt
        return (c * self.dxi - mu * (self.dxi / xi + self.dt / t)) * self.filled

    def longest(self) -> tuple[Array, Array]:
        primal = np.minimum(to_zero(self.xi, self.dxi), to_zero(self.t, self.dt))
        dual = np.minimum(to_zero(self.a, self.da), to_zero(self.c - self.a, -self.da))
        return primal.min(axis=1), dual.min(axis=1)

    def merit(self, psi: Array, alpha: Array) -> Array:
        xi, t = self.xi + alpha * self.dxi, self.t + alpha * self.dt
        return (self.c * xi - self.mu * (np.log(xi) + np.log(t))) * self.filled

    def advance(self, alpha: Array, alpha_dual: Array) -> None:
        self.xi = self.xi + alpha * self.dxi
        self.t = self.t + alpha * self.dt
        self.a = self.a + alpha_dual * self.da


def _terms_for(loss: Loss, response: Array, weight: Array) -> Terms:
    """Return the terms of a block's answers under `loss`."""
    if isinstance(loss, Hinge):
        return SlackTerms(response, weight)
    return SmoothTerms(loss, response, weight)
