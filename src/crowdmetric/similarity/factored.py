"""The fit by gradients alone, for many features or a metric of low rank: ``M = L Lᵀ`` with L (d, r).

A pass costs ``O(T + P + N² r + N d r)``: squared distances are those of the coordinates ``Z = X L``, and with the
derivatives g of the pairs as an items × items matrix G, ::

    gradient in M = Xᵀ Lap(G) X,      in L = 2 Xᵀ (Lap(G) Z),      Lap(G) = diag(G 1) − G

dense where most pairs are asked about, sparse where few are. Items are turned to their principal axes and L is scaled
by their standard deviations there, so that L-BFGS needs few passes however the features are correlated.

The ridge ½λ‖M − cI‖² is that of `newton` with one strength for all entries. In the principal axes the information is
about diagonal, ``h_jk = κ v_j v_k`` for variances v, with κ from the curvature along a few random directions; then
``γ = Σ h_jk / (h_jk + λ)`` and ``λ ← γ / ‖M − cI‖²`` as there. With full rank and a convex likelihood the optimum is
the convex one; `_excess` estimates how far it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from crowdmetric.similarity.likelihood import AnswerModel
from crowdmetric.similarity.questions import PairChoices

__all__ = ["FactoredFit", "FactoredObjective", "fit_factored"]

Array = NDArray[np.float64]

# From this share of all pairs of items on, distances are computed by one matrix product.
DENSE = 0.1
# Maximum number of rounds that alternate between the strength of the ridge and the metric, and the change at which they
# stop.
ROUNDS, SETTLED = 4, 0.3
# L-BFGS: number of stored steps, and the relative decrease at which it stops in intermediate fits and in the last one.
MEMORY, ROUGH, FINE = 10, 1e-4, 1e-7
# Steps per intermediate fit.
ROUGH_STEPS = 10
# Random directions along which the curvature is measured.
PROBES = 8
# Variances below this share of the mean are raised to it in the scaling of L.
LEAST_VARIANCE = 1e-2


@dataclass(frozen=True)
class FactoredFit:
    """Where a fit ended.

    Attributes
    ----------
    metric
        (d, d).
    value
        Minus the log-likelihood, without the ridge.
    ridge, determined
        τ = λc², and γ.
    gap
        NaN: without curvature there is no certificate; see `excess`.
    excess
        Estimated bound on how far the optimum of a convex problem is below, in nats per answer: see `_excess`.
    converged, iterations, status
        How the iteration ended.
    """

    metric: Array
    value: float
    ridge: float
    determined: float
    gap: float
    excess: float
    converged: bool
    iterations: int
    status: str


@dataclass(frozen=True)
class FactoredObjective:
    """Minus the log-likelihood as a function of L, for items (N, d)."""

    items: Array
    questions: PairChoices
    likelihood: AnswerModel

    @property
    def is_dense(self) -> bool:
        """Whether distances of all pairs of items are found at once."""
        return len(self.questions.pairs) > DENSE * len(self.items) ** 2 / 2

    def distances(self, Z: Array) -> Array:
        """Return the squared distances (P,) of the pairs, from coordinates (N, r)."""
        i, j = self.questions.pairs.T
        if not self.is_dense:
            step = Z[i] - Z[j]
            return np.einsum("pr,pr->p", step, step)
        gram, norms = Z @ Z.T, np.einsum("nr,nr->n", Z, Z)
        D: Array = np.maximum(norms[i] + norms[j] - 2.0 * gram[i, j], 0.0)
        return D

    def laplacian_times(self, g: Array, Z: Array) -> Array:
        """Return ``Lap(G) Z`` (N, r) for derivatives g (P,) of the pairs."""
        i, j = self.questions.pairs.T
        N = len(self.items)
        degree = np.bincount(i, g, N) + np.bincount(j, g, N)
        if self.is_dense:
            G = np.zeros((N, N))
            G[i, j] = g
            product = G @ Z + G.T @ Z
        else:
            S = sparse.csr_matrix((g, (i, j)), shape=(N, N))
            product = S @ Z + S.T @ Z
        return degree[:, None] * Z - product

    def slope(self, L: Array) -> tuple[float, Array]:
        """Return minus the log-likelihood and its gradient (d, r) in L."""
        Z = self.items @ L
        value, g = self.likelihood.slope(self.questions, self.distances(Z))
        return value, 2.0 * self.items.T @ self.laplacian_times(g, Z)

    def metric_slope(self, L: Array) -> Array:
        """Return the gradient (d, d) in M."""
        g = self.likelihood.slope(self.questions, self.distances(self.items @ L))[1]
        return self.items.T @ self.laplacian_times(g, self.items)

    def sharpness(self, L: Array, deviations: Array, seed: int) -> float:
        """Return κ: the curvature along random directions of variance one, per parameter."""
        rng = np.random.default_rng(seed)
        D = self.distances(self.items @ L)
        slope = self.likelihood.beta * self.likelihood.link_slope(D)
        edges = list(self.likelihood.edges(self.questions, D))
        found = []
        for _ in range(PROBES):
            a, b = rng.standard_normal((2, deviations.size)) / deviations
            along, across = self.items @ a, self.items @ b
            i, j = self.questions.pairs.T
            moved = slope * (along[i] - along[j]) * (across[i] - across[j])  # S = (abᵀ + baᵀ)/2
            curvature = sum(float(w @ (moved[one] - moved[two]) ** 2) for one, two, w in edges)
            aa, bb, ab = ((x * y * deviations**2).sum() for x, y in ((a, a), (b, b), (a, b)))
            found.append(curvature / (0.5 * (aa * bb + ab * ab)))
        return float(np.mean(found))


def fit_factored(
    items: Array, questions: PairChoices, likelihood: AnswerModel, rank: int | None, *, max_iterations: int, seed: int
) -> FactoredFit:
    """Fit a metric of at most some rank, with the strength of the ridge by evidence."""
    d = items.shape[1]
    r = min(rank or d, d)
    variance, axes = np.linalg.eigh(items.T @ items / len(items))
    turned = FactoredObjective(np.ascontiguousarray(items @ axes), questions, likelihood)
    deviations = np.sqrt(np.maximum(variance, LEAST_VARIANCE * variance.mean()))
    A = _start(turned, deviations, r, seed)
    strength, determined, iterations, converged = 0.0, float("nan"), 0, False
    free = rank is not None and rank < d  # of low rank M cannot be near a multiple of the identity
    for _ in range(0 if free else ROUNDS):
        if strength > 0.0:
            result = _descend(turned, A, deviations, strength, ROUGH, ROUGH_STEPS)
            A, iterations = result.x.reshape(A.shape), iterations + result.nit
        M = _metric(A, deviations)
        kappa = turned.sharpness(A / deviations[:, None], deviations, seed)
        h = kappa * np.outer(variance, variance)[np.triu_indices(d)]
        c = float(np.trace(M)) / d
        away = float(np.sum((M - c * np.eye(d)) ** 2))
        if strength == 0.0:  # a first guess: as far from the identity as the metric is large
            strength = h.size / (d * c * c)
            continue
        determined = float(np.sum(h / (h + strength)))
        wanted = max(determined, 1e-3) / max(away, 1e-12 * d * c * c)
        settled = abs(np.log(wanted / strength)) < SETTLED
        strength = wanted
        if settled:
            break
    result = _descend(turned, A, deviations, strength, FINE, max_iterations)
    A, converged = result.x.reshape(A.shape), bool(result.success)
    M = _metric(A, deviations)
    value = likelihood.value(questions, turned.distances(turned.items @ (A / deviations[:, None])))
    excess = _excess(turned, A, deviations, strength)
    iterations += int(result.nit)
    status = f"{'Solved' if converged else 'Stopped'} after {iterations} steps by gradients alone, rank {r}."
    if not converged:
        status += " Raise max_iter."
    status += " Standard errors were not found."
    if r == d and likelihood.is_convex:
        status += f" The optimum is at most about {excess:.1e} nats per answer better."
    c = float(np.trace(M)) / d
    return FactoredFit(
        axes @ M @ axes.T, value, strength * c * c, determined, float("nan"), excess, converged, iterations, status
    )


def _metric(A: Array, deviations: Array) -> Array:
    L = A / deviations[:, None]
    return L @ L.T


def _start(turned: FactoredObjective, deviations: Array, r: int, seed: int) -> Array:
    """Return the A of a multiple of the identity (its leading axes), a little disturbed where the rank is low."""
    d = deviations.size
    A = np.zeros((d, r))
    leading = np.argsort(deviations)[::-1][:r]
    A[leading, np.arange(r)] = deviations[leading]
    if r < d:
        A += 0.01 * deviations.mean() * np.random.default_rng(seed).standard_normal(A.shape)
    D = turned.distances(turned.items @ (A / deviations[:, None]))
    return A / np.sqrt(max(float(D.mean()), 1e-300) * turned.likelihood.beta)


def _descend(
    turned: FactoredObjective, A: Array, deviations: Array, strength: float, accuracy: float, steps: int
) -> Any:
    """Return the result of L-BFGS on the penalized objective, per answer."""
    answers = turned.questions.n_answers

    def function(flat: Array) -> tuple[float, Array]:
        L = flat.reshape(A.shape) / deviations[:, None]
        value, slope = turned.slope(L)
        if strength > 0.0:
            M = L @ L.T
            M[np.diag_indices_from(M)] -= np.trace(M) / len(M)
            value += 0.5 * strength * float(np.sum(M * M))
            slope = slope + 2.0 * strength * (M @ L)
        return value / answers, (slope / deviations[:, None]).ravel() / answers

    options = {"maxcor": MEMORY, "ftol": accuracy, "gtol": 1e-9, "maxiter": steps}
    return minimize(function, A.ravel(), jac=True, method="L-BFGS-B", options=options)


def _excess(turned: FactoredObjective, A: Array, deviations: Array, strength: float) -> float:
    """Return ``⟨G, M⟩ − λ_min(G) tr M`` per answer, in the coordinates that L is scaled to, G the gradient in M.

    By convexity the optimum is at most this far below, as long as its trace is not above that of M.
    """
    L = A / deviations[:, None]
    M = L @ L.T
    M[np.diag_indices_from(M)] -= np.trace(M) / len(M)
    G = (turned.metric_slope(L) + strength * M) / np.outer(deviations, deviations)
    lowest = min(0.0, float(np.linalg.eigvalsh(0.5 * (G + G.T))[0]))
    excess = float(np.sum((G @ A) * A)) - lowest * float(np.sum(A * A))
    return max(0.0, excess) / turned.questions.n_answers
