"""The two operators, S (people arbitrary) and P (people from one population), decomposed whole.

    S = Σ_k Δ_kᵀ R_k Δ_k                          rank S: what is revealed whoever the people are
    P = ΔᵀΔ − Δᵀδ (δᵀδ)⁺ δᵀΔ                      rank P: what is revealed if they come from one population, by offsets

with Δ (T, p) and δ (T, d) of all answers. S removes from Δ what *each person's own* v can explain, P what *one v
common to all* can explain, so P ⪰ S. The reason for P: A is in its null space exactly if some b has ⟨Δ, A⟩ = ⟨δ, b⟩ for
every question asked. Then the metric M + A with everybody's v shifted by −b gives every answer of every person the same
probability as M. A shifted population is a population, so no method can distinguish the two unless it assumes that the
spread of people depends on M. Conversely, with v ~ N(μ, Σ) an answer has ``Pr[y] = g(ψ̄, δᵀΣδ)``,
``ψ̄ = ⟨Δ, M⟩ + ⟨δ, μ⟩``, and its Fisher information about (M, μ) at known Σ is ``Σ w [Δ, δ]ᵀ[Δ, δ]`` with weights w > 0.
With μ profiled out, it has the null space of P for all such weights.

So P is what the *offsets* ψ̄ reveal, which is everything if Σ is free. A law in which Σ depends on M reveals more
(`law`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.identifiability.person_spans import SpanTally, people_with_answers_to_spare
from crowdmetric.identifiability.questions import QuestionSource
from crowdmetric.symmetric import degrees_of_freedom, outer_difference, smat, svec
from crowdmetric.users.projected import RANK_TOLERANCE, without

__all__ = ["OperatorSums", "Spectrum", "common_spectrum", "decompose", "in_given_units", "negligible_of", "sum_up"]

Array = NDArray[Any]

# Maximum number of floats kept for unidentified directions: 128 MB.
KEPT = 1 << 24


@dataclass(frozen=True)
class Spectrum:
    """The range and the null space of an operator on Sym(R^d).

    Attributes
    ----------
    rank
        Its rank, or the part of it that is certain.
    low, high
        Bounds of the rank; equal if it is known.
    smallest, largest
        Eigenvalues that are not zero; NaN if all are.
    directions
        (k, d, d) orthonormal symmetric matrices of its null space, all of them or as many as are kept.
    open_share
        (p,) how much of each svec entry of M lies in the null space, 0 … 1: the diagonal of the projector on it.
        None if that is not computed.
    share
        of differences (n, d): how much of the distance they span lies in the null space, 0 … 1 each.
    confidence
        How sure the rank is, in a sentence; empty if it is exact.
    hardest
        (p,) the svec direction that belongs to `smallest`; None if that is not computed or there is none.
    only_size_open
        Whether only the overall size of the metric is out of reach.
    """

    rank: int
    low: int
    high: int
    smallest: float
    largest: float
    directions: Array
    open_share: Array | None
    share: Callable[[Array], Array]
    confidence: str = ""
    hardest: Array | None = None
    only_size_open: bool = False


@dataclass(frozen=True)
class OperatorSums:
    """Sums over all people: S (p, p), [Δ, δ]ᵀ[Δ, δ] (p + d, p + d), and counts."""

    S: Array
    common: Array
    tally: SpanTally


def sum_up(questions: QuestionSource) -> OperatorSums:
    """Add up both operators over blocks of people; nothing of size n · d² is formed."""
    d = questions.d
    p = degrees_of_freedom(d)
    S, common, tally = np.zeros((p, p)), np.zeros((p + d, p + d)), SpanTally()
    for some in people_with_answers_to_spare(questions.people(), tally):
        delta, total = some.delta, some.block.total
        rows = np.concatenate([outer_difference(delta, total), delta], axis=2)
        flat = rows.reshape(-1, p + d)
        common += flat.T @ flat
        if some.informative.size:
            left = without(some.span, rows[some.informative, :, :p]).reshape(-1, p)
            S += left.T @ left
    return OperatorSums(S, common, tally)


def decompose(S: Array, negligible: float, unit: Array) -> Spectrum:
    """Return the spectrum of S (p, p); eigenvalues up to `negligible` are rounding errors."""
    p, d = len(S), len(unit)
    if not np.any(S):  # nobody is informative: no need to decompose
        values, vectors, zero = np.zeros(p), np.eye(p), np.ones(p, dtype=bool)
    else:
        values, vectors = np.linalg.eigh(S)
        zero = values <= max(negligible, p * np.finfo(float).eps * values[-1])
    rank = int(np.sum(~zero))
    null, kept = vectors[:, zero], vectors[:, ~zero]
    fewer, outside = (null, True) if null.shape[1] <= rank else (kept, False)
    energy = np.sum(fewer**2, axis=1)

    def share(delta: Array) -> Array:
        a = outer_difference(delta, delta)
        inside = np.sum((a @ fewer) ** 2, axis=1) / np.sum(a**2, axis=1)
        return np.clip(inside if outside else 1.0 - inside, 0.0, 1.0)

    return Spectrum(
        rank=rank,
        low=rank,
        high=rank,
        smallest=float(values[~zero][0]) if rank else float("nan"),
        largest=float(values[-1]) if rank else float("nan"),
        directions=in_given_units(null[:, : max(1, KEPT // d**2)].T, unit),
        open_share=np.clip(energy if outside else 1.0 - energy, 0.0, 1.0),
        share=share,
        hardest=vectors[:, np.argmin(zero)] if rank else None,
    )


def common_spectrum(common: Array, unit: Array) -> Spectrum:
    """Return the spectrum of P from [Δ, δ]ᵀ[Δ, δ]."""
    p = len(common) - len(unit)
    blurred = 10.0 * len(common) * np.finfo(float).eps
    W = common[:p, p:]
    values, vectors = np.linalg.eigh(common[p:, p:])
    spanned = values > blurred * values[-1]
    half = (W @ vectors[:, spanned]) / np.sqrt(values[spanned])
    P = common[:p, :p] - half @ half.T
    # P is a difference, so its rounding error is relative to the matrix it was subtracted from
    negligible = blurred * float(np.linalg.norm(common[:p, :p]))
    return decompose(0.5 * (P + P.T), negligible, unit)


def in_given_units(directions: Array, unit: Array) -> Array:
    """Return svec directions (k, p) of scaled items as orthonormal matrices (k, d, d) for the items as given.

    ``x̃ = x/unit`` has ``x̃ᵀÃx̃ = xᵀAx`` with ``A = Ã/(unit unitᵀ)``.
    """
    matrices = smat(directions) / np.outer(unit, unit)
    if np.all(unit == 1.0) or not len(directions):
        return matrices
    a = svec(matrices)
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    return smat(np.linalg.qr(a.T)[0].T)


def negligible_of(tally: SpanTally) -> float:
    """Return the eigenvalue of S below which there is only rounding."""
    return RANK_TOLERANCE**2 * tally.scale
