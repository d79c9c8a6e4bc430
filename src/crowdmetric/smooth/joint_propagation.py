"""Everybody integrated out at once, by expectation propagation: the evidence of both covariances and its gradient.

The crowd's utilities are h ~ N(h₀, C) (N,), a person's are ``x = h + g`` with g ~ N(0, K) on the items shown to them.
An answer about ψ = x_high − x_low is σ(±ψ)^ω, replaced by a Gaussian factor ``exp(νψ − ½τψ²)``. With A (m, n) the
differences of a person's questions and ``P = Aᵀ diag(τ) A``, ``r = Aᵀν``, the person tells the crowd about h through::

    B = (I + K P)⁻¹        W = P B        c = Bᵀ r           (n, n), (n, n), (n,)
    V = (C⁻¹ + Σ W)⁻¹      μ = h₀ + V (Σ c − Σ W h₀)         what is known of h

and is, given everybody's answers, Gaussian with::

    E x = B (μ + K r)      cov x = B (K + V Bᵀ)

From there a compiled loop renews the person's factors answer after answer (`site_kernels`), everybody beside each
other; then h is found anew. At the fixed point the gradient is explicit, as if τ and ν were constants. With
``b = r − P E x`` and ``Q = W − W V W = P − P cov(x) P``::

    ∂ℓ/∂K = ½ Σ (b bᵀ − Q)        ∂ℓ/∂C = ½ (β βᵀ − ΣW + ΣW V ΣW),   β = Σ b

The work is n³ per person and N³ per sweep, and linear in people.

If there is one person only, they and the crowd cannot be told apart: ``x ~ N(h₀, S)`` with S = K + C, both gradients
are equal, and ``cov x = (I + S P)⁻¹ S`` takes a third of the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from crowdmetric.smooth.people_blocks import PeopleBlock
from crowdmetric.smooth.shared import Parts, Shared, given, slopes, total
from crowdmetric.users.integrals import REACH, lines
from crowdmetric.users.propagation import CAVITY_FINENESS, CAVITY_SIZES, FEWEST_NODES

__all__ = ["Evidence", "PeopleMessage", "Propagation", "Sites"]

Array = NDArray[Any]
Covariance = Array | Parts
CrowdCovariance = Array | Shared

# Sweeps over a person's answers between two updates of the crowd, and the maximum number of updates.
ROUNDS, MOST_SWEEPS = 2, 60
# Factors are damped further, down to LEAST_DAMPING, while the change does not shrink by the factor SLOW, and less when
# it does.
SLOW, DAMPING, RECOVERY, LEAST_DAMPING = 0.9, 0.7, 1.2, 0.2


@dataclass(frozen=True)
class PeopleMessage:
    """What the people of a block tell the crowd: W (P, n, n), c (P, n); and B, r and K of theirs."""

    W: Array
    c: Array
    B: Array
    r: Array
    K: Array


@dataclass(frozen=True)
class Evidence:
    """The log-likelihood of all answers and its gradients (N, N) in both covariances, as `shared.slopes` has them."""

    value: float
    in_person: Any
    in_crowd: Any


@dataclass
class Sites:
    """The factors τ and ν (P, m) of a block's answers."""

    tau: Array
    nu: Array

    def copy(self) -> Sites:
        """Return factors that may be changed."""
        return Sites(self.tau.copy(), self.nu.copy())


class Propagation:
    """Factors of everybody's answers, renewed until they agree with each other.

    Attributes
    ----------
    blocks, sites
        People and their factors.
    mean, covariance : (N,), (N, N)
        Of the crowd's utilities h, after `look`.
    messages : list of PeopleMessage
    posterior : list of (P, n), (P, n, n)
        Mean and covariance of the utilities of every block's people.
    precision, pull : (N, N), (N,)
        Σ W and Σ c.
    alone : bool
        Whether there is one person only. Then `converge` finds the posterior, and `tell_apart` the rest.

    K and C may be arrays, or what `shared` has for many items.
    """

    def __init__(self, blocks: list[PeopleBlock], n_items: int, center: Array | None = None) -> None:
        self.blocks, self.n_items = blocks, n_items
        self.center = np.zeros(n_items) if center is None else center
        self.sites = [Sites(np.zeros(b.weight.shape), np.zeros(b.weight.shape)) for b in blocks]
        self._levels = [np.zeros(b.weight.shape, dtype=np.intp) for b in blocks]
        self._log_masses, self._log_det, self._log_det_of_one = 0.0, 0.0, 0.0
        self.alone = sum(len(block.who) for block in blocks) == 1
        self.sweeps = 0

    def keep(self) -> list[Sites]:
        """Return the factors as they are."""
        return [site.copy() for site in self.sites]

    def put_back(self, sites: list[Sites]) -> None:
        """Return to factors that were kept."""
        self.sites = [site.copy() for site in sites]

    def factors(self, n_answers: int) -> Array:
        """Return τ and ν (T, 2) of all answers, in the order in which they were arranged."""
        found = np.zeros((n_answers, 2))
        for block, site in zip(self.blocks, self.sites, strict=True):
            real = block.weight > 0.0
            found[block.answer[real]] = np.column_stack([site.tau[real], site.nu[real]])
        return found

    def put_factors(self, factors: Array) -> None:
        """Return to the factors (T, 2) that `factors` gave."""
        reals = [block.weight > 0.0 for block in self.blocks]
        parts = [factors[block.answer] * real[:, :, None] for block, real in zip(self.blocks, reals, strict=True)]
        self.sites = [Sites(*(np.ascontiguousarray(part[:, :, j]) for j in (0, 1))) for part in parts]

    def converge(self, K: Covariance, C: CrowdCovariance, tolerance: float) -> float:
        """Renew the factors until none would change by `tolerance` any more; return the largest change left."""
        self._set_levels(K, C)
        both = K + C if self.alone and isinstance(K, np.ndarray) and isinstance(C, np.ndarray) else None
        damping, before = 1.0, np.inf
        for sweep in range(MOST_SWEEPS + 1):
            if both is None:
                self.look(K, C)
            else:
                self._look_at_one(both)
            change = self._judge()
            if change < tolerance or not np.isfinite(change) or sweep == MOST_SWEEPS:
                break
            is_slow = change > SLOW * before
            damping = max(DAMPING * damping, LEAST_DAMPING) if is_slow else min(RECOVERY * damping, 1.0)
            before = change
            self._sweep(damping, tolerance)
        return change

    def look(self, K: Covariance, C: CrowdCovariance) -> None:
        """Find what people tell, what is known of h and everybody's utilities, at the factors as they are."""
        self.sweeps += 1
        self.messages = [_message_of(block, site, K) for block, site in zip(self.blocks, self.sites, strict=True)]
        self.precision = total(C, self.blocks, [told.W for told in self.messages])
        self.pull = np.zeros(self.n_items)
        for block, told in zip(self.blocks, self.messages, strict=True):
            self.pull += block.put_vector(told.c)
        self.covariance, self._log_det = given(C, self.precision)
        self.mean = self.center + self.covariance @ (self.pull - self.precision @ self.center)
        self.posterior = [
            _posterior(block, told, self.mean, self.covariance)
            for block, told in zip(self.blocks, self.messages, strict=True)
        ]

    def tell_apart(self, K: Covariance, C: CrowdCovariance) -> None:
        """Find what one person, alone, tells the crowd; `converge` has found it where there are more."""
        if self.alone:
            self.look(K, C)

    def _look_at_one(self, S: Array) -> None:
        """Find the utilities of the one person there is, around the center with the covariance S (N, N)."""
        self.sweeps += 1
        (block,), (site,) = self.blocks, self.sites
        own, center = block.take(S), block.take_vector(self.center)
        factors = lu_factor(_kernels().identity_and_product(own, block.low, block.high, site.tau)[0])
        self._log_det_of_one = float(np.sum(np.log(np.abs(np.diag(factors[0])))))
        covariance = lu_solve(factors, own[0])
        covariance = 0.5 * (covariance + covariance.T)[None]
        told = block.pulls(site.nu - site.tau * block.differences(center))
        self.posterior = [(center + np.einsum("pij,pj->pi", covariance, told), covariance)]

    @np.errstate(invalid="ignore")
    def evidence(self, C: CrowdCovariance) -> Evidence:
        """Return the log-likelihood and its gradients after `converge`; the prior mean of h must be zero.

        NaN where factors are far from settled, which callers refuse.
        """
        value, in_person, beta = self._log_masses, [], np.zeros(self.n_items)
        for block, site, (mean, covariance) in zip(self.blocks, self.sites, self.posterior, strict=True):
            b = block.pulls(site.nu - site.tau * block.differences(mean))
            beta += block.put_vector(b)
            in_person.append(0.5 * (b[:, :, None] * b[:, None, :] - _told(block, site, covariance)))
        if self.alone and isinstance(C, np.ndarray):
            both = self.blocks[0].put(in_person[0])
            return Evidence(value - 0.5 * self._log_det_of_one, both, both)
        value += 0.5 * sum(float(np.linalg.slogdet(told.B)[1].sum()) for told in self.messages)
        value -= 0.5 * self._log_det
        return Evidence(float(value), *slopes(C, self.blocks, in_person, beta, self.precision, self.covariance))

    def told(self) -> list[Array]:
        """Return ``Q = P − P cov(x) P`` (P, n, n) of every block, which is ``W − W V W``."""
        zipped = zip(self.blocks, self.sites, self.posterior, strict=True)
        return [_told(block, site, covariance) for block, site, (_, covariance) in zipped]

    def _judge(self) -> float:
        """Find the log masses of all answers, and return by how much the next sweep would change a factor at most.

        In units of an answer's own spread; infinite where factors are far from settled.
        """
        sizes, weights = _lines()
        self._log_masses, change = 0.0, 0.0
        for block, site, level, (mean, covariance) in zip(
            self.blocks, self.sites, self._levels, self.posterior, strict=True
        ):
            psi, spread = block.differences(mean), block.variances(covariance)
            value, found = _kernels().judge_answers(
                spread, psi, block.sign, block.weight, site.tau, site.nu, level, sizes, weights
            )
            self._log_masses += value
            change = max(change, found) if np.isfinite(value + found) else np.inf
        return change

    def _sweep(self, damping: float, tolerance: float) -> None:
        """Renew all factors; everybody's utilities are used up."""
        sizes, weights = _lines()
        for block, site, level, (mean, covariance) in zip(
            self.blocks, self.sites, self._levels, self.posterior, strict=True
        ):
            _kernels().sweep_answers(
                covariance, mean, block.low, block.high, block.sign, block.weight, site.tau, site.nu, level, sizes,
                weights, ROUNDS, tolerance, damping,
            )  # fmt: skip

    def _set_levels(self, K: Covariance, C: CrowdCovariance) -> None:
        """Choose lines fine enough for an answer's spread before anybody has answered, which no cavity exceeds."""
        places = np.array(CAVITY_SIZES, dtype=np.float64)
        self._levels = []
        for block in self.blocks:
            spread = np.sqrt(block.variances(block.take(K) + block.take(C)))
            needed = np.maximum(2.0 * REACH / CAVITY_FINENESS * spread + 1.0, float(FEWEST_NODES))
            self._levels.append(np.searchsorted(places, needed))


def _message_of(block: PeopleBlock, site: Sites, K: Covariance) -> PeopleMessage:
    r, own = block.pulls(site.nu), np.ascontiguousarray(block.take(K))
    B = np.linalg.inv(_kernels().identity_and_product(own, block.low, block.high, site.tau))
    W = _kernels().times_differences(B, block.low, block.high, site.tau)
    return PeopleMessage(W, np.einsum("pij,pi->pj", B, r), B, r, own)


def _posterior(block: PeopleBlock, told: PeopleMessage, mean: Array, covariance: Covariance) -> tuple[Array, Array]:
    before = block.take_vector(mean) + np.einsum("pij,pj->pi", told.K, told.r)
    both = told.B @ (told.K + block.take(covariance) @ told.B.transpose(0, 2, 1))
    return np.einsum("pij,pj->pi", told.B, before), np.ascontiguousarray(both)


def _told(block: PeopleBlock, site: Sites, covariance: Array) -> Array:
    """Return ``P − P S P`` (P, n, n) for a symmetric S."""
    times = _kernels().times_differences
    PS = times(covariance, block.low, block.high, site.tau)
    rest = np.eye(PS.shape[1]) - np.ascontiguousarray(PS.transpose(0, 2, 1))
    return np.asarray(times(rest, block.low, block.high, site.tau))


def _lines() -> tuple[Array, Array]:
    """Return numbers of nodes of the lines for cavities, zero for an integral over the noise, and nodes' weights."""
    return np.array([*CAVITY_SIZES, 0]), np.ascontiguousarray(lines()[1][: len(CAVITY_SIZES), : CAVITY_SIZES[-1]])


def _kernels() -> Any:
    """Return the compiled loops; Numba takes a second to load, so it comes late."""
    return import_module("crowdmetric.smooth.site_kernels")
