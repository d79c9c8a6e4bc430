"""Which people have more answers than their own position can explain, and why others do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.users.blocks import Block
from crowdmetric.users.projected import RANK_TOLERANCE, span_of_differences, without

__all__ = ["REASONS", "SpanTally", "Spare", "people_with_answers_to_spare", "products"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Why a person's own position can explain all their answers, so that their answers alone are not informative about the
# metric; simplest reason first.
REASONS = {
    "one answer": "gave one answer only",
    "general position": "gave no more answers than they were asked independent questions",
    "repeats": "gave more answers, but those follow from their others: the same items again, or too few items",
    "equal items": "compared only items that are equal",
}

# If a Gram matrix is better conditioned than this, rows are independent; otherwise singular values decide.
CLEARLY_INDEPENDENT = 1e-11
PROBES = 4


@dataclass
class SpanTally:
    """Counts and sums of a pass over all people.

    Attributes
    ----------
    silent
        People who add nothing, counted by the keys of `REASONS`.
    spare
        Σ_k (m_k − rank δ_k) over the others: no algorithm can learn more degrees of freedom than this.
    scale
        Σ ‖δ‖² ‖s‖², what an eigenvalue of S is small against.
    differences
        Σ δδᵀ (d, d), zero to begin with.
    """

    silent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    spare: int = 0
    scale: float = 0.0
    differences: Array = field(default_factory=lambda: np.zeros((1, 1)))

    @property
    def span(self) -> int:
        """Dimension of the span of all differences."""
        values = np.linalg.eigvalsh(self.differences)
        return int(np.sum(values > 1e-12 * values[-1]))


@dataclass(frozen=True)
class Spare:
    """A block, and those of its people who add something.

    Attributes
    ----------
    block
        Everybody.
    delta
        (P, m, d) of everybody, zero on padding.
    informative
        Rows of the block: people who add something.
    span
        (len(informative), m, ·) orthonormal bases of what where they stand can explain.
    """

    block: Block
    delta: Array
    informative: Indices
    span: Array


def people_with_answers_to_spare(people: Iterable[Block], tally: SpanTally) -> Iterator[Spare]:
    """Yield every block with those who add something, and count the others by reason.

    A person adds something if ``R_k Δ_k ≠ 0``. If their m_k differences are independent then R_k = 0, which their
    Gram matrix shows several times faster than singular values. Otherwise Δ_k is probed with random symmetric
    matrices ω = ½(ghᵀ + hgᵀ): ``R_k Δ_k svec(ω) = 0`` for all of them has probability zero unless R_k Δ_k = 0.
    """
    rng = np.random.default_rng(0)
    probes: tuple[Array, Array] | None = None
    for block in people:
        d = block.delta.shape[2]
        if probes is None:
            probes = rng.standard_normal((d, PROBES)), rng.standard_normal((d, PROBES))
        delta = np.sqrt(block.weight)[:, :, None] * block.delta
        count = np.sum(block.weight > 0, axis=1)
        independent = _clearly_independent(delta, block.weight > 0)
        rest = np.flatnonzero(~independent)
        span, rank = span_of_differences(delta[rest])
        seen = without(span, products(delta[rest], block.total[rest], *probes))
        size = np.sum(delta**2, axis=2) * np.sum(block.total**2, axis=2)
        tally.scale += float(size.sum())
        flat = delta.reshape(-1, d)
        tally.differences = tally.differences + flat.T @ flat
        informative = np.sum(seen**2, axis=(1, 2)) > RANK_TOLERANCE**2 * np.sum(size[rest], axis=1)
        tally.spare += int(np.sum((count[rest] - rank)[informative]))
        quiet, ranks = count[rest][~informative], rank[~informative]
        nothing, once, located = ranks == 0, quiet == 1, ranks == quiet
        tally.silent["equal items"] += int(np.sum(nothing))
        tally.silent["one answer"] += int(np.sum(once & ~nothing) + np.sum(count[independent] == 1))
        tally.silent["general position"] += int(np.sum(located & ~once & ~nothing) + np.sum(count[independent] > 1))
        tally.silent["repeats"] += int(np.sum(~located & ~once & ~nothing))
        yield Spare(block, delta, rest[informative], span[informative])


def products(delta: Array, total: Array, g: Array, h: Array) -> Array:
    """Return ``⟨Δ, ½(ghᵀ + hgᵀ)⟩ = ½[(δᵀg)(sᵀh) + (δᵀh)(sᵀg)]``, (…, ℓ), from the columns of g and h (d, ℓ)."""
    return 0.5 * ((delta @ g) * (total @ h) + (delta @ h) * (total @ g))


def _clearly_independent(delta: Array, filled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return who has linearly independent differences beyond doubt (P,)."""
    P, m, d = delta.shape
    if m > d:
        return np.zeros(P, dtype=bool)
    gram = delta @ np.swapaxes(delta, 1, 2)
    diagonal = np.einsum("pmm->pm", gram)  # a view
    # padding must not look like dependence: give it a length that others have
    diagonal += np.where(filled, 0.0, diagonal.max(axis=1, keepdims=True))
    values = np.linalg.eigvalsh(gram)
    return np.asarray(values[:, 0] > CLEARLY_INDEPENDENT * values[:, -1])
