"""Answers as a linear map on Sym(R^d) that is never written out.

The rows of A are ``X ↦ ⟨Δ, X⟩ = δᵀXs`` with people removed: each their own v (then AᵀA = S), or one v common to all
(then AᵀA = P). A product with A or Aᵀ is one pass over the answers and holds d × d numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import LinearOperator

from crowdmetric.identifiability.person_spans import SpanTally, people_with_answers_to_spare
from crowdmetric.identifiability.questions import Questions
from crowdmetric.symmetric import degrees_of_freedom, smat, svec
from crowdmetric.users.projected import without

__all__ = ["AnswerMap", "Basis", "answer_rows", "span_of"]

Array = NDArray[Any]

# A row minus the common v counts as rounding if its squared length is below this share of the row's.
BLURRED = 1e-12


@dataclass(frozen=True)
class AnswerMap:
    """The linear map A of some answers, X ↦ ⟨Δ, X⟩ with people removed.

    Attributes
    ----------
    delta, total
        Lists of (P, m, d) arrays, one per block; δ is zero on padding.
    span
        Orthonormal bases (P, m, ·) of what each person's own v can explain; None: one v is common to all.
    most
        The rank is at most this.
    """

    delta: list[Array]
    total: list[Array]
    span: list[Array] | None
    most: int

    @property
    def d(self) -> int:
        """How many features an item has."""
        return int(self.delta[0].shape[2])

    @property
    def n_rows(self) -> int:
        """How many answers there are, padding counted."""
        return sum(b.shape[0] * b.shape[1] for b in self.delta)

    @cached_property
    def _inverse(self) -> Array:
        """(δᵀδ)⁺ of all answers."""
        return np.linalg.pinv(sum(_gram(b, b) for b in self.delta), hermitian=True, rcond=1e-12)

    def _split(self, values: Array) -> list[Array]:
        """Return values (n, j) of all answers as a list of (P, m, j), one per block."""
        ends = np.cumsum([b.shape[0] * b.shape[1] for b in self.delta])[:-1]
        return [v.reshape(*b.shape[:2], -1) for v, b in zip(np.split(values, ends), self.delta, strict=True)]

    def remove_people(self, values: Array) -> Array:
        """Take people out of values (n, j) of the answers."""
        split = self._split(values)
        if self.span is not None:
            split = [without(U, v) for U, v in zip(self.span, split, strict=True)]
        else:
            common = self._inverse @ sum(_gram(b, v) for b, v in zip(self.delta, split, strict=True))
            split = [v - b @ common for b, v in zip(self.delta, split, strict=True)]
        return np.concatenate([v.reshape(-1, values.shape[1]) for v in split])

    def apply(self, X: Array) -> Array:
        """Return ``A svec(X)``."""
        values = [np.einsum("pmi,pmi->pm", b @ X, s).ravel() for b, s in zip(self.delta, self.total, strict=True)]
        return self.remove_people(np.concatenate(values)[:, None])[:, 0]

    def adjoint(self, w: Array) -> Array:
        """Return ``smat(Aᵀw)``: Σ w ½(δsᵀ + sδᵀ) after people are taken out of w."""
        X = np.zeros((self.d, self.d))
        for v, b, s in zip(self._split(self.remove_people(w[:, None])), self.delta, self.total, strict=True):
            X += _gram(v * b, s)
        return 0.5 * (X + X.T)

    def operator(self) -> LinearOperator:
        """Return A on svec vectors."""
        return LinearOperator(
            (self.n_rows, degrees_of_freedom(self.d)),
            matvec=lambda a: self.apply(smat(np.asarray(a).ravel())),
            rmatvec=lambda w: svec(self.adjoint(np.asarray(w).ravel())),
            dtype=np.float64,
        )

    def gram(self, evaluate: Callable[[Array, Array], Array], size: int) -> Array:
        """Return ``BᵀAᵀAB`` (size, size), block by block, from ``evaluate(δ, s) = ⟨Δ, B⟩``, (P, m, size)."""
        gram, cross = np.zeros((size, size)), np.zeros((self.d, size))
        for i, (b, s) in enumerate(zip(self.delta, self.total, strict=True)):
            values = evaluate(b, s)
            if self.span is None:
                cross += _gram(b, values)
            else:
                values = without(self.span[i], values)
            gram += _gram(values, values)
        return gram - cross.T @ self._inverse @ cross if self.span is None else gram

    @property
    def own_rank(self) -> int:
        """How many independent rows there can be: answers to spare, or all answers if one v is common to all."""
        return int(self.compressor.shape[1])

    @cached_property
    def compressor(self) -> Any:
        """Sparse W (n, q), orthonormal columns that span what removing people leaves: WᵀA has all there is in A.

        A person's columns are the eigenvectors of I − UUᵀ (on answers that compare anything) to the eigenvalue one.
        With a common v nothing is compressed, W = I.
        """
        if self.span is None:
            return eye_array(self.n_rows, format="csr")
        values, rows, columns, start, width = [], [], [], 0, 0
        for U, b in zip(self.span, self.delta, strict=True):
            P, m, _ = b.shape
            left = np.any(b != 0, axis=2)[:, :, None] * np.eye(m) - U @ np.swapaxes(U, 1, 2)
            sizes, vectors = np.linalg.eigh(left)
            person, column = np.nonzero(sizes > 0.5)
            values.append(vectors[person, :, column].ravel())
            rows.append((start + person[:, None] * m + np.arange(m)).ravel())
            columns.append(np.repeat(width + np.arange(person.size), m))
            start, width = start + P * m, width + person.size
        entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        return csr_array(entries, shape=(start, width))

    def some(self, wanted: int, rng: Generator) -> AnswerMap:
        """Return the rows of people chosen at random, about this many of them independent."""
        share = min(1.0, wanted / self.own_rank)
        kept = [rng.random(len(b)) < share for b in self.delta]
        kept[0][0] = True  # somebody
        span = None if self.span is None else _picked(self.span, kept)
        return AnswerMap(_picked(self.delta, kept), _picked(self.total, kept), span, self.most)


@dataclass(frozen=True)
class Basis:
    """Orthonormal symmetric matrices ``B_j = Σ_i weight_ij Δ_i`` that span what some answers reveal, never written out.

    Attributes
    ----------
    delta, total
        (n, d) of those answers.
    weight
        (n, r).
    values
        (r,) eigenvalues of their AᵀA, rising.
    """

    delta: Array
    total: Array
    weight: Array
    values: Array

    def evaluate(self, delta: Array, total: Array) -> Array:
        """Return ``⟨Δ, B_j⟩``, (…, r)."""
        return inner_products(delta, total, self.delta, self.total) @ self.weight

    def rest_of(self, X: Array) -> Array:
        """Return X (d, d) without its part in the span of the B_j."""
        inside = self.weight @ (self.weight.T @ np.einsum("ni,ni->n", self.delta @ X, self.total))
        Y = (inside[:, None] * self.delta).T @ self.total
        return X - 0.5 * (Y + Y.T)


def inner_products(delta: Array, total: Array, delta_: Array, total_: Array) -> Array:
    """Return ``⟨Δ_i, Δ_j⟩ = ½[(δ_i·δ_j)(s_i·s_j) + (δ_i·s_j)(s_i·δ_j)]``, (…, n)."""
    straight = (delta @ delta_.T) * (total @ total_.T)
    return 0.5 * (straight + (delta @ total_.T) * (total @ delta_.T))


def span_of(rows: AnswerMap) -> Basis:
    """Return a basis of what the answers reveal, from the eigenvectors of ``WᵀAAᵀW`` (q, q); see `Rows.compressor`."""
    delta = np.concatenate([b.reshape(-1, rows.d) for b in rows.delta])
    total = np.concatenate([s.reshape(-1, rows.d) for s in rows.total])
    W = rows.compressor
    K, start, largest = np.zeros((W.shape[1], W.shape[1])), 0, 0.0
    for b, s in zip(rows.delta, rows.total, strict=True):
        some = inner_products(b.reshape(-1, rows.d), s.reshape(-1, rows.d), delta, total)
        end = start + len(some)
        largest = max(largest, float(np.max(np.diagonal(some[:, start:end]))))
        K += W[start:end].T @ (some @ W)
        start = end
    if rows.span is None:
        K = rows.remove_people(rows.remove_people(K).T)
    values, vectors = np.linalg.eigh(0.5 * (K + K.T))
    eps = np.finfo(float).eps
    kept = values > max(10.0 * eps * len(K) * max(values[-1], 0.0), BLURRED * largest * (rows.span is None))
    return Basis(delta, total, W @ (vectors[:, kept] / np.sqrt(values[kept])), values[kept])


def _picked(blocks: list[Array], kept: list[NDArray[np.bool_]]) -> list[Array]:
    return [b[k] for b, k in zip(blocks, kept, strict=True) if np.any(k)]


def _gram(X: Array, Y: Array) -> Array:
    """Return ``XᵀY`` summed over people and answers: (P, m, i), (P, m, j) → (i, j)."""
    return X.reshape(-1, X.shape[2]).T @ Y.reshape(-1, Y.shape[2])


def answer_rows(questions: Questions, tally: SpanTally) -> tuple[AnswerMap | None, AnswerMap]:
    """Return the rows of S, of people with answers to spare (None if there are none), and those of P, of everybody."""
    blocks = list(people_with_answers_to_spare(questions.people(width=questions.d), tally))
    p = degrees_of_freedom(questions.d)
    everybody = AnswerMap(
        delta=[b.delta for b in blocks],
        total=[b.block.total for b in blocks],
        span=None,
        most=min(p, len(questions.pairs) - tally.span),
    )
    informative = [b for b in blocks if b.informative.size]
    if not informative:
        return None, everybody
    own = AnswerMap(
        delta=[b.delta[b.informative] for b in informative],
        total=[b.block.total[b.informative] for b in informative],
        span=[b.span for b in informative],
        most=min(p, tally.spare),
    )
    return own, everybody
