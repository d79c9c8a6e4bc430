"""Projected people: unquantized answers, ideal points removed by linear algebra (Algorithms 3 and 4).

Real-valued answers satisfy ``Δ_k a + δ_k w_k = ψ_k``, linear in a = svec(A) and w_k. With R_k the projector on the
complement of span(δ_k) within person k's own answers, ``R_k Δ_k a = R_k ψ_k`` no longer contains w_k. Stacked over
people this is the system whose Gram matrix is the identifiability operator ``S = Σ_k Δ_kᵀ R_k Δ_k``. If S has full
rank, M is recovered exactly. No algorithm can learn the null space from these answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdmetric.symmetric import degrees_of_freedom, describe_direction, outer_difference
from crowdmetric.users.blocks import Block, People, bilinear, sum_over_problems

__all__ = [
    "Triangle",
    "describe_deficiency",
    "mean_squared_loss",
    "project_people",
    "solve_people",
    "span_of_differences",
    "triangles",
    "without",
]

Array = NDArray[np.float64]

# Singular values below this share of the data's size are rounding errors.
RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Triangle:
    """The stacked, projected system of one problem after orthogonal reduction: ``R a = c``.

    Attributes
    ----------
    R, c
        (q, p) and (q,) with q ≤ p + 1: same solutions and same Gram matrix as all the answers together.
    scale
        ‖Δ‖ of all answers before people were projected out, with which singular values are compared.
    """

    R: Array
    c: Array
    scale: float

    def solve(self) -> tuple[Array, Array, Array]:
        """Return the least-norm solution (p,), the singular values (p,) and a basis (k, p) of the null space."""
        p = self.R.shape[1]
        U, values, directions = np.linalg.svd(self.R, full_matrices=True)
        values = np.concatenate([values, np.zeros(p - values.size)])
        rank = int(np.sum(values > RANK_TOLERANCE * self.scale))
        a = directions[:rank].T @ ((U[:, :rank].T @ self.c) / values[:rank])
        return a, values, directions[rank:]


# --8<-- [start:project]
def project_people(block: Block) -> tuple[Array, Array]:
    """Return ``R_k Δ_k`` (P, m, p) and ``R_k ψ_k`` (P, m): a block's answers without its people.

    The span of δ_k is found by singular values, not by an unpivoted QR, so repeated, parallel or cyclic
    questions count once.
    """
    root = np.sqrt(block.weight)[:, :, None]  # zero on padding
    rows = root * np.concatenate([outer_difference(block.delta, block.total), block.response[:, :, None]], axis=2)
    rows = without(span_of_differences(root * block.delta)[0], rows)
    return rows[:, :, :-1], rows[:, :, -1]


def span_of_differences(delta: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return an orthonormal basis U (P, m, min(m, r)) of each δ_k's column space, zero-padded, and its rank (P,)."""
    U, values, _ = np.linalg.svd(delta, full_matrices=False)
    kept = values > RANK_TOLERANCE * values[:, :1]
    return U * kept[:, None, :], np.sum(kept, axis=1)


def without(U: Array, rows: Array) -> Array:
    """Return ``R_k rows_k = rows_k − U_k U_kᵀ rows_k``, (P, m, j)."""
    return rows - U @ (np.swapaxes(U, 1, 2) @ rows)


# --8<-- [end:project]


def triangles(people: People) -> list[Triangle]:
    """Reduce every problem's answers to a triangle, block by block, so memory does not grow with people."""
    p = degrees_of_freedom(people.rank)
    stacked = [np.zeros((0, p + 1)) for _ in range(people.n_problems)]
    squares = np.zeros(people.n_problems)
    for block in people:
        # ‖Δ‖² = ½(‖δ‖²‖s‖² + ⟨δ, s⟩²)
        lengths = np.sum(block.delta**2, axis=2) * np.sum(block.total**2, axis=2)
        inner = np.sum(block.delta * block.total, axis=2)
        sum_over_problems(block, np.sum(0.5 * block.weight * (lengths + inner**2), axis=1), squares)
        Delta, psi = project_people(block)
        rows = np.concatenate([Delta, psi[:, :, None]], axis=2)
        ends = np.append(block.starts[1:], block.person.size)
        for problem, start, end in zip(block.problems, block.starts, ends, strict=True):
            more = np.concatenate([stacked[problem], rows[start:end].reshape(-1, p + 1)])
            stacked[problem] = np.linalg.qr(more, mode="r")
    return [Triangle(R[:, :p], R[:, p], float(np.sqrt(q))) for R, q in zip(stacked, squares, strict=True)]


def solve_people(people: People, metrics: Array) -> Array:
    """Return least-norm pseudo-ideal points (K, r) given the metrics (n, r, r): ``δ_k w_k = ψ_k − Δ_k a``."""
    points = np.zeros((people.n_people, people.rank))
    for block in people:
        root = np.sqrt(block.weight)
        left = root * (block.response - bilinear(block.delta, metrics[block.problem], block.total))
        inverse = np.linalg.pinv(root[:, :, None] * block.delta, rcond=RANK_TOLERANCE)
        points[block.person] = (inverse @ left[:, :, None])[:, :, 0]
    return points


def mean_squared_loss(people: People, metrics: Array, points: Array) -> float:
    """Return the mean of ``½(ψ − response)²`` under metrics (n, r, r) and pseudo-ideal points (K, r)."""
    total = weight = 0.0
    for b in people:
        psi = bilinear(b.delta, metrics[b.problem], b.total) + np.einsum("pmi,pi->pm", b.delta, points[b.person])
        total += float(np.sum(0.5 * b.weight * (psi - b.response) ** 2))
        weight += float(b.weight.sum())
    return total / weight


def describe_deficiency(null: Array, p: int) -> str:
    """Return the sentence for a deficient system: how much of M is missing, where, and what would help."""
    shown = "; ".join(describe_direction(direction) for direction in null[:2])
    return (
        f"these answers identify {p - null.shape[0]} of the {p} degrees of freedom of the metric; "
        f"not identified: {shown}{' …' if null.shape[0] > 2 else ''}. Ask each person more questions (more than the "
        "items have dimensions), or ask about items in subspaces"
    )
