"""What answers reveal if people come from one population, under the law of people that will be fitted.

With v ~ N(μ, Σ), the answers of a person depend on the metric and on the population through two things only::

    offsets      a_i  = ⟨Δ_i, M⟩ + ⟨δ_i, μ⟩        the mean of ψ_i over people
    spreads      c_ij = δ_iᵀ Σ δ_j                  how ψ_i and ψ_j vary together over people

A small change (A, b, X) of (M, μ, Σ) cannot be seen if it changes neither: ⟨Δ_i, A⟩ + ⟨δ_i, b⟩ = 0 for every question,
and δ_iᵀ X δ_j = 0 for all questions i, j of one person. What this means for M depends on the law:

free
    Σ is a parameter of its own (X = 0 is always allowed), so M is known through offsets alone. A is out of reach
    exactly if some b has ⟨Δ_i, A⟩ = −⟨δ_i, b⟩ for all questions: the null space of P (`spectrum`). For a yes/no
    feature, x_j² = x_j, so M_jj is confounded with μ_j.
isotropic
    Σ = 4s²M², so X = 4s²(AM + MA + 2tM²) with t the change of log s, and M is known through spreads too. Where the
    δ's of people span all pairs of directions, X must be zero. As M is positive definite, AM + MA = −2tM² has one
    solution, A = −tM. So everything is known except, possibly, the overall size of M, which a change of s undoes in the
    spreads. It is out of reach only if offsets do not tell it either: if M itself is in the null space of P, that is,
    if all items lie on one ellipsoid xᵀMx = bᵀx + c. Yes/no features alone do so for a diagonal M, and items of equal
    length for a multiple of the identity. Then only s·M is known.

How spreads are seen: two answers of one person are correlated, Pr[y_i = y_j] depends on c_ij; and c_ii flattens the
probability of a single answer, ``Pr[y_i] = E[f(y_i (a_i + √c_ii z))]``, more at one offset than at another. So one
answer per person reveals M_jj of a yes/no feature as well, but much less surely than two do.

How much is revealed is the expected information of pairs of answers of one person (single answers of people who gave
one), summed over people. With ℓ(y) the log-likelihood of the pair and θ the natural parameters of the law::

    I = Σ Σ_y Pr[y] ∇ℓ(y) ∇ℓ(y)ᵀ            y over the 4 (or 2) possible answers,  ∇ with respect to θ

and the information about M is what is left after μ and s (or Σ) are profiled out: the Schur complement of I. It is
taken at a *reference law*, because it depends on the law: features in units of their spread, M a multiple of the
identity, ideal points that scatter as much as the items do, around a point half a spread away from the items' center.
(Exactly at the center, symmetric items would have offsets of zero and hide that answers are flattened.) M is a multiple
of the identity because this is where a crowd must be told apart from plain distance. Three and more answers of a person
together say a little more than their pairs; that can matter only where there are hardly more answers than parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.identifiability.questions import Questions, QuestionSource
from crowdmetric.identifiability.spectrum import Spectrum, decompose
from crowdmetric.losses import get_loss
from crowdmetric.symmetric import degrees_of_freedom, svec
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.population_sums import STRUCTURES, PopulationBlock, Structure, blocks_of, integrate

__all__ = ["LARGEST", "LAWS", "ReferenceLaw", "law_spectrum", "most_revealed", "pairs_of_answers", "reference_law"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

LAWS = tuple(STRUCTURES)
# Largest p for which the information is computed: a matrix of 2p + d rows is decomposed.
LARGEST = 2_000
# Numbers of pairs of answers in the first attempts. If they reveal everything, no others are needed.
FEW, ENOUGH = 1_000, 20_000
# Number of pairs of answers processed at once.
AT_ONCE = 20_000
# Information below this share of the information before μ and Σ are profiled out counts as rounding.
BLURRED = 1e-10
# A parameter of people with less than this share of the largest information of such parameters counts as rounding.
UNKNOWN_NUISANCE = 1e-13
# Where people are centered at the reference law, in spreads of the items from their center.
OFF_CENTER = 0.5


@dataclass(frozen=True)
class ReferenceLaw:
    """The law at which information is computed.

    Attributes
    ----------
    structure
        Isotropic or free.
    natural
        (n,) its natural parameters: svec M, μ, and log s or svec Σ.
    items
        (N, d) in units of their spreads.
    unit
        (d,) those units, relative to the items as they were given.
    """

    structure: Structure
    natural: Array
    items: Array
    unit: Array

    @property
    def d(self) -> int:
        """How many features there are."""
        return len(self.unit)

    @property
    def p(self) -> int:
        """How many degrees of freedom a metric has."""
        return degrees_of_freedom(self.d)


def reference_law(questions: QuestionSource, covariance: str) -> ReferenceLaw:
    """Return the law at which information is computed.

    With features of spread one, ``M = I / √(2d)`` gives ψ a standard deviation of about 2 over people: answers that are
    neither guesses nor certain.
    """
    d = questions.d
    spread = np.std(questions.items[questions.used], axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    M = np.eye(d) / np.sqrt(2.0 * d)
    center = OFF_CENTER * np.random.default_rng(0).standard_normal(d)  # a direction that favors no feature
    people = [0.0] if covariance == "isotropic" else svec(4.0 * M @ M)
    natural = np.concatenate([svec(M), -2.0 * M @ center, people])
    return ReferenceLaw(STRUCTURES[covariance], natural, questions.items / spread, questions.unit * spread)


def law_spectrum(questions: QuestionSource, covariance: str, most: int | None = None) -> Spectrum:
    """Return what answers reveal of M under a law of people: the spectrum of the information about M, (p, p).

    Some people are looked at first, of few people each answer with one other. If they reveal as much as anybody could,
    they are enough; if not, everybody is looked at, and answers with more others.

    Parameters
    ----------
    questions
    covariance
        'isotropic' or 'free', as in `PopulationMetric`.
    most
        The rank is at most this (`most_revealed`).
    """
    at = reference_law(questions, covariance)
    for some in (FEW, ENOUGH):
        if questions.n_answers > some:
            found = _spectrum(_information([_some_people(questions.some(some), some)], at, 1), at)
            if found.rank >= (at.p if most is None else most):
                return found
    partners = max(1, ENOUGH // questions.n_answers)
    if partners > 1:
        found = _spectrum(_information(questions.parts(), at, 1), at)
        if found.rank >= (at.p if most is None else most):
            return found
    return _spectrum(_information(questions.parts(), at, partners), at)


def most_revealed(questions: QuestionSource, covariance: str, span: int, common: Array, offsets: Spectrum) -> int:
    """Return an upper bound of the rank under a law of people, which takes no integrals.

    Under the free law that is what offsets reveal, rank P. Under the isotropic law at the reference metric, M ∝ I,
    spreads show δᵀAδ' and offsets δᵀAs, so only A on the `span` of the δ's counts, r(r+1)/2 numbers; and one less
    where offsets do not show the size of M, ``mᵀPm = 0`` with m = svec M.

    Parameters
    ----------
    questions, covariance
        As in `law_spectrum`.
    span
        r, the dimension of what the δ's span.
    common
        [Δ, δ]ᵀ[Δ, δ] (p + d, p + d) of all answers.
    offsets
        The spectrum of P.
    """
    if covariance == "free":
        return offsets.rank
    at = reference_law(questions, covariance)
    p, d = at.p, at.d
    scale = questions.unit / at.unit  # from the items' coordinates to those of the reference
    m = svec(np.diag(scale**2))
    cross = m @ common[:p, p:]
    values, vectors = np.linalg.eigh(common[p:, p:])
    seen = values > d * np.finfo(float).eps * max(values[-1], 0.0)
    size = float(m @ common[:p, :p] @ m)
    left = size - float(np.sum((cross @ vectors[:, seen]) ** 2 / values[seen]))
    return max(0, degrees_of_freedom(span) - (left <= BLURRED * size))


def _some_people(questions: Questions, some: int) -> Questions:
    """Return about `some` questions, all those of people chosen at random."""
    counts = np.bincount(questions.person)
    order = np.random.default_rng(0).permutation(len(counts))
    drawn = np.zeros(len(counts), dtype=bool)
    drawn[order[: 1 + int(np.searchsorted(np.cumsum(counts[order]), some))]] = True
    rows = drawn[questions.person]
    return replace(questions, pairs=questions.pairs[rows], person=questions.person[rows])


def _information(parts: Iterable[Questions], at: ReferenceLaw, partners: int) -> Array:
    """Return the expected information about all natural parameters, (n, n), summed over pairs of answers."""
    total = np.zeros((at.natural.size, at.natural.size))
    for questions in parts:
        for block in _blocks(questions, at, partners):
            total += information_of_pairs(block, at)
    return total


def information_of_pairs(block: PopulationBlock, at: ReferenceLaw) -> Array:
    """Return ``Σ_y Pr[y] ∇ℓ(y) ∇ℓ(y)ᵀ`` (n, n), y over all answers that the people of a block could give."""
    law, loss = at.structure.law(at.natural, at.d), get_loss("logistic")
    total = np.zeros((at.natural.size, at.natural.size))
    for answers in product((-1.0, 1.0), repeat=block.response.shape[1]):
        given = replace(block, response=np.tile(answers, (len(block.response), 1)))
        integral = integrate(given, law, loss)
        scores = at.structure.scores(given, integral, law, at.natural)
        scores *= np.exp(0.5 * integral.value)[:, None]
        total += scores.T @ scores
    return total


def _blocks(questions: Questions, at: ReferenceLaw, partners: int) -> Iterator[PopulationBlock]:
    """Yield pairs of answers of one person, and answers that are a person's only one, each as a person of its own."""
    first, second = pairs_of_answers(questions.person, partners)
    for begin in range(0, len(first), AT_ONCE):
        a, b = first[begin : begin + AT_ONCE], second[begin : begin + AT_ONCE]
        alone = b < 0
        rows = np.concatenate([a, b[~alone]])
        number = np.concatenate([np.arange(len(a)), np.flatnonzero(~alone)])
        nobody, ones = np.zeros(len(a), dtype=np.intp), np.ones(len(rows))
        yield from blocks_of(arrange(Answers(at.items, questions.pairs[rows], ones, ones, number, nobody, 1)))


def pairs_of_answers(person: Indices, partners: int) -> tuple[Indices, Indices]:
    """Return rows (n,) and (n,) of two different answers of one person; −1 in the second where a person has only one.

    A person's answers stand in a circle, and each is paired with the next one, the second next, … up to `partners`
    away, but no two answers twice.
    """
    order = np.argsort(person, kind="stable")
    counts = np.bincount(person)
    of = counts[person[order]]
    start = np.repeat(np.cumsum(counts) - counts, counts)
    place = np.arange(len(order)) - start
    alone = of == 1
    first, second = [order[alone]], [np.full(np.sum(alone), -1)]
    for step in range(1, min(partners, int(counts.max()) // 2) + 1):
        # beyond half a turn, each pair would come twice
        fits = (2 * step < of) | ((2 * step == of) & (place < step))
        first.append(order[fits])
        second.append(order[(start + (place + step) % of)[fits]])
    return np.concatenate(first), np.concatenate(second)


def _spectrum(information: Array, at: ReferenceLaw) -> Spectrum:
    """Return the spectrum of the information about M after everything about people is profiled out."""
    p = at.p
    values, vectors = np.linalg.eigh(information[p:, p:])
    seen = values > UNKNOWN_NUISANCE * max(values[-1], 0.0)
    half = (information[:p, p:] @ vectors[:, seen]) / np.sqrt(values[seen])
    left = information[:p, :p] - half @ half.T
    negligible = BLURRED * float(np.linalg.norm(information[:p, :p], 2))
    found = decompose(0.5 * (left + left.T), negligible, at.unit)
    size = svec(np.eye(at.d))  # the reference metric is a multiple of the identity
    return replace(found, only_size_open=found.rank == p - 1 and float(size @ left @ size) <= at.d * negligible)
