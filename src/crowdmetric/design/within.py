"""Questions within subspaces, r + 1 or more per person: they reveal the metric without assumptions about people.

Somebody who is asked about items of one subspace of dimension r has r unknowns of their own; with m > r answers the
others show something of the metric, ``Δ_kᵀ R_k Δ_k`` of the operator S (`identifiability`). Candidates are the
questions that prove `prop:quadsufficiency` (`theory.constructive_design`) and random ones. People are given to them so
that

    S_W = Σ_k Δ_kᵀ (W_k − W_k δ_k (δ_kᵀ W_k δ_k)⁻¹ δ_kᵀ W_k) Δ_k,     W_k = diag β² σ'(βψ)

is well conditioned in the sense that ``tr S_W⁻¹`` is small: S with answers weighted by what they can tell, because an
answer that is certain tells nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from crowdmetric.bounded.given import Subspaces
from crowdmetric.design.exchange import CRITERIA, best_shares, exchange_people
from crowdmetric.design.guess import Guess
from crowdmetric.design.information import apportion, lasting
from crowdmetric.design.kinds import found_subspaces
from crowdmetric.design.optimal import CHOOSERS, ask_population
from crowdmetric.design.question_sources import Catalogue
from crowdmetric.design.questionnaire import Questionnaire
from crowdmetric.errors import DataError, NotIdentifiedError
from crowdmetric.symmetric import degrees_of_freedom, outer_difference
from crowdmetric.theory import constructive_design
from crowdmetric.users.projected import span_of_differences, without

__all__ = ["within_questions"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Number of candidates over all subspaces, and the fewest random ones in each.
POOL, FEWEST = 2000, 12
# Number of people drawn for each metric: the weight of an answer depends on them.
PEOPLE = 2
# A direction this many times harder than the easiest is reached by rounding only, which counts as not reached.
RANK_TOLERANCE = 1e-9


def within_questions(
    source: Catalogue,
    people: int,
    answers: int,
    guess: Guess,
    subspaces: ArrayLike,
    *,
    rank: int | None = None,
    covariance: str = "isotropic",
    seed: int = 0,
) -> Questionnaire:
    """Return questions within subspaces, such that all of M is revealed whoever people are.

    Parameters
    ----------
    source, people, answers, guess, covariance, seed
        As in `optimal.random_questions`; at least one answer more than the dimension of a subspace is needed.
    subspaces
        One label per item (−1: nowhere), or bases (n, d, r) or [(d, r), …], or 'discover': found among the items.
    rank
        Dimension of the subspaces when labels are given or they are discovered; None: found from the items.

    Raises
    ------
    NotIdentifiedError
        If no questions within these subspaces reveal all of M.
    """
    rng = np.random.default_rng(seed)
    found = found_subspaces(source.items, subspaces, rank, answers, seed)
    bundles, home = _candidates(source, found, answers, rng)
    inside = _projected(source.items[bundles], found, home)
    p = degrees_of_freedom(inside.shape[-1])
    rows = np.stack([_rows(inside, M, guess, rng) for M in guess.to_choose[:CHOOSERS]])
    S = _spectrum(_bare_rows(inside), np.ones(len(bundles)))
    reached = int(np.sum(RANK_TOLERANCE * S[-1] < S))
    if reached < p:
        raise NotIdentifiedError(
            f"questions within these {len(found.bases)} subspaces can teach {reached} of the {p} degrees of freedom of "
            "the metric; give items of more subspaces, or subspaces of more dimensions, or use another kind of design"
        )
    kappa = CRITERIA["A"]
    counts = apportion(lasting(best_shares(rows, p, kappa), people), people)
    counts = exchange_people(rows, counts, p, kappa)
    used = np.flatnonzero(counts)
    S = _spectrum(_bare_rows(inside[used]), counts[used].astype(float))
    if S[0] <= RANK_TOLERANCE * S[-1]:
        raise NotIdentifiedError(
            f"{people} people can teach {int(np.sum(RANK_TOLERANCE * S[-1] < S))} of the {p} degrees of freedom of the "
            "metric in this way; ask more people, or ask them more"
        )
    remark = (
        f"Whoever people are, all {p} degrees of freedom of the metric are revealed, the hardest {S[-1] / S[0]:.3g} "
        f"times harder than the easiest; {len(np.unique(home[used]))} of {len(found.bases)} subspaces are used. "
        "StitchedMetric learns from these answers too, nothing assumed of people."
    )
    return ask_population(
        "Questions within subspaces", source, bundles[used], counts[used], guess, covariance, rng, (remark,)
    )


def _candidates(source: Catalogue, found: Subspaces, m: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Return bundles (C, m, 2) within subspaces, and the subspace (C,) of each."""
    bundles, home = [], []
    each = max(FEWEST, POOL // len(found.bases))
    for code, B in enumerate(found.bases):
        members = np.flatnonzero(found.labels == code)
        if members.size < 2:
            continue
        inside = Catalogue(source.items[members], members)
        drawn = inside.draw(each, m, rng)
        try:
            built = constructive_design(inside.items @ B)
        except NotIdentifiedError:
            built = np.empty((0, B.shape[1] + 1, 2), dtype=np.intp)  # random ones may still reveal a part
        padding = inside.draw(len(built), m - built.shape[1], rng)
        chosen = members[np.concatenate([drawn, np.concatenate([built, padding], axis=1)])]
        bundles.append(chosen)
        home.append(np.full(len(chosen), code))
    if not bundles:
        raise DataError("no subspace holds two items, but a question compares two; give more items or other labels")
    return np.concatenate(bundles), np.concatenate(home)


def _projected(vectors: Array, found: Subspaces, home: Indices) -> Array:
    """Return vectors (C, m, 2, d) drawn into the subspace of their bundle, where they may only be near it."""
    inside = np.empty_like(vectors)
    for code, B in enumerate(found.bases):
        chosen = np.flatnonzero(home == code)
        inside[chosen] = vectors[chosen] @ B @ B.T
    return inside


def _rows(vectors: Array, metric: Array, guess: Guess, rng: np.random.Generator) -> Array:
    """Return rows (C, PEOPLE·m, p) with ``S_W = Σ x xᵀ`` on average over people."""
    delta, total = vectors[:, :, 0] - vectors[:, :, 1], vectors[:, :, 0] + vectors[:, :, 1]
    parts = []
    for _ in range(PEOPLE):
        u = guess.crowd[rng.integers(len(guess.crowd), size=len(vectors))]
        psi = guess.beta * np.sum((delta @ metric) * (total - 2.0 * u[:, None]), axis=2)
        parts.append(_bare_rows(vectors, guess.beta * np.sqrt(expit(psi) * expit(-psi) / PEOPLE)))
    return np.concatenate(parts, axis=1)


def _bare_rows(vectors: Array, root: Array | None = None) -> Array:
    """Return ``R_k W^½ Δ_k`` (C, m, p), with the square roots of weights (C, m) or without."""
    delta, total = vectors[:, :, 0] - vectors[:, :, 1], vectors[:, :, 0] + vectors[:, :, 1]
    rows = outer_difference(delta, total)
    if root is not None:
        rows, delta = root[:, :, None] * rows, root[:, :, None] * delta
    bare: Array = without(span_of_differences(delta)[0], rows)
    return bare


def _spectrum(rows: Array, counts: Array) -> Array:
    """Return the eigenvalues of S, rising."""
    x = (np.sqrt(counts)[:, None, None] * rows).reshape(-1, rows.shape[2])
    return np.asarray(np.linalg.eigvalsh(x.T @ x), dtype=np.float64)
