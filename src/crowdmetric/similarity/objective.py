"""Minus the log-likelihood of judgements as a function of a metric's parameters θ, with gradient and curvature.

Squared distances are linear in θ, ``D = F θ`` with one row of F (P, n) per distinct pair, so ::

    gradient  = Fᵀ g                 g (P,) the derivative in D
    curvature = Fᵀ Lap F             Lap (P, P) the sparse Laplacian of `likelihood`

For a full metric ``Fᵀ g = svec(Xᵀ Lap(G) X)`` with the items × items matrix G of residuals; with few distinct pairs F
itself is kept, because the curvature needs it anyway. Where F would be too large, curvature is summed over edges in
chunks: ``Σ w (F_i − F_j)(F_i − F_j)ᵀ``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crowdmetric.similarity.likelihood import AnswerModel
from crowdmetric.similarity.pair_choices import PairChoices
from crowdmetric.similarity.structures import MetricStructure

__all__ = ["SimilarityObjective"]

Array = NDArray[np.float64]

# F is kept in memory up to this many numbers (8 bytes each), and computed in chunks of this many.
KEPT, CHUNK = 30_000_000, 2_000_000


@dataclass(frozen=True)
class SimilarityObjective:
    """Minus the log-likelihood of questions about items (N, d).

    Attributes
    ----------
    items
        (N, d).
    questions, likelihood, structure
        What was asked and answered, how answers scatter, and what a metric may look like.
    """

    items: Array
    questions: PairChoices
    likelihood: AnswerModel
    structure: MetricStructure

    @property
    def is_kept(self) -> bool:
        """Whether F fits in memory."""
        return len(self.questions.pairs) * self.structure.size <= KEPT

    def about(self, questions: PairChoices) -> SimilarityObjective:
        """Return the objective of other questions about the same pairs; F is shared."""
        return self._sharing(replace(self, questions=questions))

    def under(self, likelihood: AnswerModel) -> SimilarityObjective:
        """Return the objective under another likelihood; F is shared."""
        return self._sharing(replace(self, likelihood=likelihood))

    def _sharing(self, other: SimilarityObjective) -> SimilarityObjective:
        other.__dict__["covariance"] = self.covariance
        if self.is_kept:
            other.__dict__["kept_rows"] = self.kept_rows
        return other

    @cached_property
    def kept_rows(self) -> Array:
        """F (P, n), where it fits in memory."""
        pairs = self.questions.pairs
        return self.structure.rows(self.items[pairs[:, 0]] - self.items[pairs[:, 1]])

    @cached_property
    def covariance(self) -> Array:
        """Mean of δδᵀ / 2 over the pairs (d, d): about the covariance of the items."""
        chunks = [(delta.T @ delta) for _, delta in self._deltas(self.items.shape[1])]
        return np.sum(chunks, axis=0) / (2.0 * len(self.questions.pairs))

    # -------------------------------------------------------------------------------------- derivatives

    def distances(self, theta: Array) -> Array:
        """Return ``D = F θ`` (P,)."""
        return np.concatenate([F @ theta for _, F in self._rows()])

    def value(self, theta: Array) -> float:
        """Return minus the log-likelihood."""
        return self.likelihood.value(self.questions, self.distances(theta))

    def slope(self, theta: Array) -> tuple[float, Array]:
        """Return minus the log-likelihood and its gradient (n,)."""
        value, g = self.likelihood.slope(self.questions, self.distances(theta))
        return value, np.sum([F.T @ g[part] for part, F in self._rows()], axis=0)

    def slopes_of_people(self, theta: Array, n_people: int) -> Array:
        """Return the gradients (K, n) of everybody's minus log-likelihood."""
        pulls = self.likelihood.slopes_of_people(self.questions, n_people, self.distances(theta))
        return np.sum([pulls[:, part] @ F for part, F in self._rows()], axis=0)

    def slopes(self, thetas: Array) -> tuple[Array, Array]:
        """Return `slope` of several metrics (C, n): values (C,) and gradients (C, n)."""
        if not self.is_kept:
            found = [self.slope(theta) for theta in thetas]
            return np.array([value for value, _ in found]), np.stack([slope for _, slope in found])
        values, g = self.likelihood.slopes(self.questions, thetas @ self.kept_rows.T)
        return values, g @ self.kept_rows

    def curvature(self, theta: Array) -> Array:
        """Return the expected second derivative (n, n): the Fisher information."""
        D = self.distances(theta)
        n = self.structure.size
        if self.is_kept:
            F, L = self.kept_rows, self.likelihood.laplacian(self.questions, D)
            used = np.flatnonzero(np.diff(L.indptr))
            if 2 * used.size < len(F):  # one person's questions are about a few of the pairs
                F, L = F[used], L[used][:, used]
            H: Array = F.T @ (L @ F)
            return 0.5 * (H + H.T)
        H = np.zeros((n, n))
        slope = self.likelihood.beta * self.likelihood.link_slope(D)
        step = max(1, CHUNK // n)
        for i, j, w in self.likelihood.edges(self.questions, D):
            for start in range(0, len(w), step):
                one, two, part = i[start : start + step], j[start : start + step], w[start : start + step]
                contrast = self.rows_of(one) * slope[one, None] - self.rows_of(two) * slope[two, None]
                contrast *= np.sqrt(np.maximum(part, 0.0))[:, None]
                H += contrast.T @ contrast
        return H

    def log_loss(self, theta: Array, root: Array) -> float:
        """Return minus the log-likelihood of predictions, averaged over metrics of covariance root rootᵀ around θ."""
        D, total = self.distances(theta), 0.0
        for asked in self.questions.asked:
            step = max(1, CHUNK // (asked.index.shape[1] * self.structure.size))
            for start in range(0, len(asked.index), step):
                index = asked.index[start : start + step]
                used, places = np.unique(index, return_inverse=True)
                moved = (self.kept_rows[used] if self.is_kept else self.rows_of(used)) @ root
                variance = self.likelihood.variance(D[index], moved[places.reshape(index.shape)])
                chance = self.likelihood.probabilities(D[index], variance)
                total -= float(np.sum(asked.counts[start : start + step] * np.log(np.maximum(chance, 1e-300))))
        return total

    # -------------------------------------------------------------------------------------- rows of F

    def _rows(self) -> Iterator[tuple[slice, Array]]:
        """Yield parts of F, and which pairs they are of."""
        if self.is_kept:
            yield slice(None), self.kept_rows
            return
        for part, delta in self._deltas(self.structure.size):
            yield part, self.structure.rows(delta)

    def _deltas(self, width: int) -> Iterator[tuple[slice, Array]]:
        step = max(1, CHUNK // width)
        for start in range(0, len(self.questions.pairs), step):
            pairs = self.questions.pairs[start : start + step]
            yield slice(start, start + step), self.items[pairs[:, 0]] - self.items[pairs[:, 1]]

    def rows_of(self, index: NDArray[np.intp]) -> Array:
        """Return the rows of F of some pairs."""
        pairs = self.questions.pairs[index]
        return self.structure.rows(self.items[pairs[:, 0]] - self.items[pairs[:, 1]])
