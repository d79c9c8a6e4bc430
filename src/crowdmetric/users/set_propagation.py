"""People who chose the first of several, integrated out by expectation propagation.

Each answer (`crowdmetric.users.sets`) has *one* Gaussian factor, about all its rows: factors for single rows would
each count what the rows have in common, the first item. In the notation of `crowdmetric.users.propagation`,
with a precision matrix T_i (size, size) for τ_i::

    R Rᵀ = C, the cavity's covariance of the answer's ψ       ψ = m + R z,  z ~ N(0, I) of min(size, q) dimensions
    B = −∂² log E[f^ω] / ∂m² = E[K] − Cov(h)                  T = B (I − C B)⁻¹

The means are taken over nodes around the answer's own posterior, which the factor of the sweep before gives. T is
found from the covariance of z, which stays accurate where B does not: ``T = R⁻ᵀ (Cov(z)⁻¹ − I) R⁻¹``. An answer about
more items than there are dimensions has its factor in w itself.

Nodes are exact for polynomials of degree 5, so their error grows with the spread of ψ within one factor: .001 nats per
answer where ψ spreads about as much as the noise, .01 to .08 at three times that, and where an answer spans more than
twelve dimensions sweeps may not settle. Such people are integrated by nodes around their modes, which is slow.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

from crowdmetric.users.integrals import Integral, kernels, root_of
from crowdmetric.users.propagation import NEARLY_SETTLED, ROUNDS, TOLERANCE, USUAL_FALL

__all__ = ["nodes_of", "propagate_sets"]

Array = NDArray[Any]

# Nodes per axis of product rules, by dimension.
PER_AXIS = {1: 31, 2: 15, 3: 7, 4: 5}
# Covariances are made invertible by this share of their mean variance; the least variance there is.
LEAST_SPREAD, LEAST = 1e-9, 1e-200


@lru_cache
def nodes_of(q: int) -> tuple[Array, Array]:
    """Return nodes (n, q) and weights (n,) for means over a standard normal law.

    In up to four dimensions a product of Gauss-Hermite rules. Beyond, the symmetric rule of degree 5 with 2q² + 1
    nodes: the center, ``±√3`` along each axis, and the same along both of each pair of axes.
    """
    if q in PER_AXIS:
        line, weights = hermegauss(PER_AXIS[q])
        places = np.stack(np.meshgrid(*[np.arange(line.size)] * q, indexing="ij"), axis=-1).reshape(-1, q)
        return line[places], np.prod(weights[places] / weights.sum(), axis=1)
    axes = np.sqrt(3.0) * np.eye(q)
    pairs = [s * axes[i] + t * axes[j] for i in range(q) for j in range(i) for s in (1, -1) for t in (1, -1)]
    weights = np.repeat([1.0 + (q * q - 7 * q) / 18.0, (4.0 - q) / 18.0, 1.0 / 36.0], [1, 2 * q, len(pairs)])
    return np.vstack([np.zeros(q), axes, -axes, *pairs]), weights


def propagate_sets(
    a: Array,
    E: Array,
    S: Array,
    y: Array,
    weight: Array,
    size: int,
    beta: float,
    damping: float = 1.0,
    rounds: int = ROUNDS,
    tolerance: float = TOLERANCE,
) -> tuple[Integral, Array]:
    """Sweep over the answers of all people until everybody has settled; also return whether each has (P,).

    With b_i and C_i of each answer's cavity, as for single rows::

        ℓ = Σ_i (log E_i[f^ω] + ½ bᵢᵀ Cᵢ bᵢ + ½ log det(I + Cᵢ Tᵢ)) − ½ t̂ᵀt̂ + ½ log det V
        ∂ℓ/∂S = ½ (λλᵀ − N + N C V Cᵀ N),   N = Σ_i Gᵢᵀ Tᵢ Gᵢ,   S = C Cᵀ
    """
    factors = _Factors.of(a, E, S, y, weight, size, beta)
    P = len(a)
    settled, before, going = np.zeros(P, dtype=np.bool_), np.full(P, np.inf), np.arange(P)
    with np.errstate(all="ignore"):  # whatever fails is integrated in another way (`integrate_sets`)
        for _ in range(rounds):
            some = factors.take(going)
            largest = some.sweep(damping)
            factors.put(going, some)
            earlier = np.minimum(before[going], USUAL_FALL * largest)
            done = (largest < tolerance) | (largest * largest < tolerance * (earlier - largest))
            before[going], settled[going] = largest, done
            going = going[~done & np.isfinite(largest)]
            if not going.size:
                break
        return factors.integral(E), settled | (before < NEARLY_SETTLED)


@dataclass
class _Factors:
    """The Gaussian factors of some people's answers, and where the people stand given them.

    Factors are in coordinates x = G t, in which answers have offsets ``ψ = a + F x``: their own rows, or all of w where
    that has fewer dimensions.

    Attributes
    ----------
    a, y, there
        Offsets, answers and which rows count, (P, A, size); omega (P, A) are the answers' weights.
    G, F
        (P, A, r, q), and (P, A, size, r) or None for the identity; ``H = F G``.
    T, pull, anchor
        (P, A, r, r), (P, A, r), (P, A, r): the precision of each factor, and its slope at an x.
    center
        t̂ (P, q).
    """

    a: Array
    y: Array
    there: Array
    omega: Array
    G: Array
    F: Array | None
    T: Array
    pull: Array
    anchor: Array
    center: Array
    root: Array
    beta: float

    @staticmethod
    def of(a: Array, E: Array, S: Array, y: Array, weight: Array, size: int, beta: float) -> _Factors:
        """Return factors that say nothing yet."""
        P, m, q = E.shape
        answers = (P, m // size, size)
        weight = weight.reshape(answers)
        own = E.reshape(*answers, q)
        variance = np.trace(S, axis1=1, axis2=2)[:, None, None] / q
        root = root_of(S + (LEAST_SPREAD * variance + LEAST) * np.eye(q))
        if size <= q:
            G, F = own @ root[:, None], None
        else:
            G, F = np.broadcast_to(root[:, None], (P, answers[1], q, q)), own
        r = G.shape[2]
        zeros = np.zeros((P, answers[1], r))
        return _Factors(
            a.reshape(answers), y.reshape(answers), weight > 0, weight.max(axis=2), G, F,
            np.zeros((*zeros.shape, r)), zeros.copy(), zeros.copy(), np.zeros((P, q)), root, beta,
        )  # fmt: skip

    def take(self, people: Array) -> _Factors:
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "beta"}
        own: dict[str, Any] = {name: None if x is None else x[people] for name, x in arrays.items()}
        return _Factors(**own, beta=self.beta)

    def put(self, people: Array, some: _Factors) -> None:
        for name in ("T", "pull", "anchor", "center"):
            getattr(self, name)[people] = getattr(some, name)

    def sweep(self, damping: float) -> Array:
        """Update all factors once, one after the other; return how far (P,) an answer's ψ moved, in its spreads."""
        V, largest = self._settle(), np.zeros(len(self.a))
        identity = np.eye(self.G.shape[2])
        for i in range(self.a.shape[1]):
            reach, spread, x, b, T = self._at(i, V)
            tilted = self._tilted(i, spread, x, b, T)
            more = damping * (tilted.T - T)
            self.T[:, i], self.anchor[:, i] = T + more, tilted.mean
            self.pull[:, i] = damping * tilted.slope + (1.0 - damping) * (b - _times(T, tilted.mean - x))
            further = self.pull[:, i] - _times(self.T[:, i], x - tilted.mean) - b
            reached = reach @ _inverse(identity + more @ spread)
            step = _times(reached, further)
            V = V - reached @ more @ np.swapaxes(reach, 1, 2)
            self.center = self.center + step
            moved = np.abs(_times(self.G[:, i], step)) / np.sqrt(np.diagonal(spread, axis1=1, axis2=2) + 1e-300)
            largest = np.maximum(largest, moved.max(axis=1))
        return largest

    def integral(self, E: Array) -> Integral:
        """Return the integrals at the factors that there are."""
        P, A, size = self.a.shape
        V = self._settle()
        value = 0.5 * (_log_det(V) - np.sum(self.center**2, axis=1))
        slope, K = np.empty(self.a.shape), np.empty((P, A, size, size))
        for i in range(A):
            _, spread, x, b, T = self._at(i, V)
            tilted = self._tilted(i, spread, x, b, T)
            slope[:, i], K[:, i] = tilted.row_slope, tilted.curvature
            volume = _log_det(np.eye(T.shape[1]) + tilted.C @ T)
            value += tilted.value + 0.5 * (volume + np.sum(b * _times(tilted.C, b), axis=1))
        row_slope = slope.reshape(P, -1)
        pulled = np.einsum("pmq,pm->pq", E, row_slope)
        G = E.reshape(P, A, size, -1) if self.F is None else np.broadcast_to(np.eye(E.shape[2]), self.T.shape)
        N = np.sum(np.swapaxes(G, 2, 3) @ self.T @ G, axis=1)
        NC = N @ self.root
        bend = 0.5 * (pulled[:, :, None] * pulled[:, None, :] - N + NC @ V @ np.swapaxes(NC, 1, 2))
        return Integral(value, row_slope, bend, K.reshape(P, -1, size))

    def _settle(self) -> Array:
        """Return ``V = (I + Gᵀ T G)⁻¹`` (P, q, q), and make ``t̂ = Gᵀb`` exact, which is one step of a linear system."""
        V = _inverse(np.eye(self.G.shape[3]) + np.sum(np.swapaxes(self.G, 2, 3) @ self.T @ self.G, axis=1))
        V = 0.5 * (V + np.swapaxes(V, 1, 2))
        x = np.einsum("pair,pr->pai", self.G, self.center)
        b = self.pull - np.einsum("paij,paj->pai", self.T, x - self.anchor)
        self.center = self.center + _times(V, np.einsum("pair,pai->pr", self.G, b) - self.center)
        return V

    def _at(self, i: int, V: Array) -> tuple[Array, ...]:
        """Return ``V Gᵀ`` and the covariance and mean of answer i's x, and its factor's slope there and precision."""
        G, T = self.G[:, i], self.T[:, i]
        reach, x = V @ np.swapaxes(G, 1, 2), _times(G, self.center)
        return reach, G @ reach, x, self.pull[:, i] - _times(T, x - self.anchor[:, i]), T

    def _tilted(self, i: int, spread: Array, x: Array, b: Array, T: Array) -> _Tilted:
        """Return the moments of cavity times answer i, by nodes around the posterior as the factor has it."""
        r = spread.shape[1]
        identity = np.eye(r)
        C = spread @ _inverse(identity - T @ spread)
        scale = np.trace(C, axis1=1, axis2=2)[:, None, None] / r
        R = root_of(0.5 * (C + np.swapaxes(C, 1, 2)) + (LEAST_SPREAD * scale + LEAST) * identity)
        inverse = _inverse(identity + np.swapaxes(R, 1, 2) @ T @ R)
        L, middle = root_of(0.5 * (inverse + np.swapaxes(inverse, 1, 2))), np.einsum("pij,pi->pj", R, b)
        own = x - _times(C, b) + _times(R, middle)
        D = R @ L
        if self.F is None:
            psi = self.a[:, i] + own
        else:
            psi, D = self.a[:, i] + _times(self.F[:, i], own), self.F[:, i] @ D
        y, there, omega = self.y[:, i], self.there[:, i], self.omega[:, i]
        moments = kernels("set").moments_of_set(psi, D, middle, L, y, there, omega, self.beta, *nodes_of(r))
        total, first, second, p, both = moments
        value = total + np.sum(np.log(np.diagonal(L, axis1=1, axis2=2)), axis=1)
        mean = middle + _times(L, first)
        covariance = L @ (second - first[:, :, None] * first[:, None, :]) @ np.swapaxes(L, 1, 2)
        back = _inverse(R)
        known = np.swapaxes(back, 1, 2) @ (_inverse(covariance) - identity) @ back
        slope = np.einsum("pji,pj->pi", back, mean)
        if self.F is None:
            known = known * there[:, :, None] * there[:, None, :]
            slope = row_slope = slope * there
        else:
            row_slope = (self.beta * omega)[:, None] * y * p
        K = np.eye(y.shape[1]) * p[:, :, None] - both
        K *= self.beta**2 * omega[:, None, None] * y[:, :, None] * y[:, None, :]
        return _Tilted(
            C, x + _times(C, slope - b), slope, 0.5 * (known + np.swapaxes(known, 1, 2)), value, row_slope, K
        )


@dataclass(frozen=True)
class _Tilted:
    """Moments of a cavity times an answer, and the factor T, slope that has them.

    Attributes
    ----------
    C
        The covariance of the cavity (P, r, r).
    mean, slope, T
        Of x, (P, r); of the factor there, (P, r); and its precision (P, r, r).
    value, row_slope, curvature
        ``log E[f^ω]`` (P,), its derivatives in the rows' offsets (P, size), and ``E[−ω ∂² log f]`` (P, size, size).
    """

    C: Array
    mean: Array
    slope: Array
    T: Array
    value: Array
    row_slope: Array
    curvature: Array


def _log_det(A: Array) -> Array:
    """Return ``log |det A|`` of matrices (P, r, r)."""
    return np.asarray(np.linalg.slogdet(A)[1])


def _times(A: Array, x: Array) -> Array:
    """Return ``A x`` person by person."""
    return np.asarray((A @ x[:, :, None])[:, :, 0])


def _inverse(A: Array) -> Array:
    """Return the inverses of matrices, NaN where there is none: one person must not stop the others."""
    try:
        return np.asarray(np.linalg.inv(A))
    except np.linalg.LinAlgError:
        usable = np.linalg.det(A) != 0.0
        out = np.full(A.shape, np.nan)
        out[usable] = np.linalg.inv(A[usable])
        return out
