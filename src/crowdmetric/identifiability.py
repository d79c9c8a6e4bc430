"""What can these answers teach? The verdict before any fit.

With R_k the projector on the complement of the span of person k's δ's (within their own answers),

    S = Σ_k Δ_kᵀ R_k Δ_k          (p, p), Δ_k the m_k × p matrix of svec Δ's

has rank = the number of degrees of freedom of M that the answers reveal with arbitrary people, whatever the
algorithm. Its null space names what cannot be learnt; its smallest other eigenvalue, how hard the rest is. S is
summed over blocks of people; nothing of size n · d² is ever formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.estimators.inputs import check_items, read_pairs
from crowdmetric.symmetric import degrees_of_freedom, describe_direction, smat, svec
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.projected import RANK_TOLERANCE, project_people

__all__ = ["Diagnosis", "diagnose"]

Array = NDArray[Any]

# S is decomposed whole; at this size (d = 200) it fills 3.2 GB.
LARGEST = 20_100


@dataclass(frozen=True)
class Diagnosis:
    """What answers can reveal of a metric if nothing is assumed of the people who gave them.

    Attributes
    ----------
    identified
        Whether all of the metric can be learnt.
    rank, dimensions
        Degrees of freedom that the answers reveal, and how many there are, d(d+1)/2.
    smallest, largest
        Smallest eigenvalue of S that is not zero, and its largest; both NaN if S is zero. Their ratio says how
        much harder the worst direction is than the best.
    unidentified_directions
        (dimensions − rank, d, d) orthonormal symmetric matrices that no answer depends on.
    people, silent
        How many people there are, and how many add nothing: their answers can all be explained by where they
        stand.
    answers, most_answers
        Answers in all, and of the busiest person.
    d
        Dimension of the items.
    span
        Dimension of the space that the differences of compared items span.
    """

    identified: bool
    rank: int
    dimensions: int
    smallest: float
    largest: float
    unidentified_directions: Array
    people: int
    silent: int
    answers: int
    most_answers: int
    d: int
    span: int

    def summary(self) -> str:
        """Return the verdict in plain words, with the cheapest remedy."""
        lines = [self._verdict()]
        if self.silent:
            share = 100.0 * self.silent / self.people
            lines.append(
                f"{self.silent} of {self.people} people ({share:.0f} %) add nothing: with as many independent "
                "questions as answers, where they stand can explain everything they say."
            )
        if self.rank > 0:
            ratio = self.largest / self.smallest
            lines.append(f"The hardest direction that can be learnt is {ratio:.3g} times harder than the easiest.")
        if not self.identified:
            lines.append(self._remedy())
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.identified:
            return (
                f"These answers can teach the whole metric: all {self.dimensions} degrees of freedom, "
                "whoever the people are."
            )
        if self.rank == 0:
            return (
                "These answers can teach nothing about the metric unless something is assumed of people "
                f"(0 of {self.dimensions} degrees of freedom)."
            )
        return (
            f"These answers can teach {self.rank} of {self.dimensions} degrees of freedom of the metric; out of reach "
            f"is, for example, {describe_direction(svec(self.unidentified_directions[0]))}."
        )

    def _remedy(self) -> str:
        if self.span < self.d:
            return (
                f"Compared items differ in {self.span} of {self.d} dimensions only: compare items that differ in the "
                f"others, or learn in {self.span} dimensions."
            )
        if self.most_answers <= self.d:
            return (
                f"The most that anybody answers is {self.most_answers}, and items in general position need more than "
                f"{self.d}: ask more of each person, or about items that lie in subspaces of fewer dimensions than "
                "answers, or ask pairs of parallel questions."
            )
        return (
            "Ask more people, or the same people about other items: "
            "too few questions are left once everybody is located."
        )


def diagnose(items: ArrayLike | None, pairs: Any, users: Any = None) -> Diagnosis:
    """Say what answers to these questions can teach, before anybody is asked or anything is fitted.

    Parameters
    ----------
    items
        (N, d); None if pairs are vectors.
    pairs
        (T, 2) row numbers, (T, 2, d) vectors, or Comparisons.
    users
        (T,) who answers; None: one person.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(4, None, None, users=100, comparisons=4, seed=0)
    >>> diagnose(crowd.items, crowd.pairs, crowd.users).rank
    0
    """
    if isinstance(pairs, Comparisons):
        if users is not None:
            raise DataError("Comparisons carry their people; leave users out")
        catalogue, numbers, person = check_items(items), pairs.pairs, np.asarray(pairs.user)
    else:
        catalogue, numbers = read_pairs(pairs, items)
        named = np.zeros(len(numbers), dtype=int) if users is None else np.asarray(users)
        if named.shape != (len(numbers),):
            raise DataError(
                f"users has shape {named.shape}, but there are {len(numbers)} comparisons; give one person each"
            )
        person = np.unique(named, return_inverse=True)[1]
    d = catalogue.shape[1]
    p = degrees_of_freedom(d)
    if p > LARGEST:
        raise DataError(
            f"items have {d} features, so a metric has {p} degrees of freedom, more than {LARGEST}; "
            "reduce them by PCA to 200 or fewer first"
        )
    return _decompose(catalogue, numbers, person.astype(np.intp))


def _decompose(items: Array, pairs: NDArray[np.intp], person: NDArray[np.intp]) -> Diagnosis:
    d = items.shape[1]
    p = degrees_of_freedom(d)
    T, K = len(pairs), int(person.max()) + 1
    answers = Answers(items, pairs, np.zeros(T), np.ones(T), person, np.zeros(K, dtype=np.intp), 1)
    S, G, scale, silent = np.zeros((p, p)), np.zeros((d, d)), 0.0, 0
    for block in arrange(answers):
        projected, _ = project_people(block)
        rows = projected.reshape(-1, p)
        S += rows.T @ rows
        delta = (np.sqrt(block.weight)[:, :, None] * block.delta).reshape(-1, d)
        G += delta.T @ delta
        lengths = np.sum(block.delta**2, axis=2) * np.sum(block.total**2, axis=2)
        size = np.sum(block.weight * lengths, axis=1)
        silent += int(np.sum(np.sum(projected**2, axis=(1, 2)) <= RANK_TOLERANCE**2 * size))
        scale += float(size.sum())
    values, vectors = np.linalg.eigh(S)
    zero = values <= max(RANK_TOLERANCE**2 * scale, p * np.finfo(float).eps * max(values[-1], 0.0))
    rank = int(np.sum(~zero))
    spanned = np.linalg.eigvalsh(G)
    counts = np.bincount(person)
    return Diagnosis(
        identified=rank == p,
        rank=rank,
        dimensions=p,
        smallest=float(values[~zero][0]) if rank else float("nan"),
        largest=float(values[-1]) if rank else float("nan"),
        unidentified_directions=smat(vectors[:, zero].T),
        people=int(np.sum(counts > 0)),
        silent=silent,
        answers=T,
        most_answers=int(counts.max()),
        d=d,
        span=int(np.sum(spanned > 1e-12 * spanned[-1])),
    )
