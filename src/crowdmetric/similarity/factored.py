"""The fit by gradients alone, for many features or a metric of low rank: ``M = L Lᵀ`` with L (d, r).

A pass costs ``O(T + P + N² r + N d r)``: squared distances are those of the coordinates ``Z = X L``, and with the
derivatives g of the pairs as an items × items matrix G, ::

    gradient in M = Xᵀ Lap(G) X,      in L = 2 Xᵀ (Lap(G) Z),      Lap(G) = diag(G 1) − G

dense where most pairs are asked about, sparse where few are. Items are turned to their principal axes and L is scaled
by their standard deviations there, so L-BFGS needs few passes however the features are correlated.

The ridge is ½λ‖M − cI‖², c = tr M / d, as in `newton` with one strength for all entries; of low rank, where M cannot be
near a multiple of the identity, ½λ‖M‖². λ, and with rank='auto' the rank, are chosen by *items left out*: from a strong
ridge on, λ is divided by 16 (by 256 after a large gain, at last by four) as long as that predicts questions better that
are about items left out of the fit; each fit takes a few steps from where the last one ended.

The ridge is thus chosen for fits that stop early; at the optimum it may be too weak. So some questions are left out of
all fits, and the last one stops when further steps predict them worse. If that does not happen, it goes on to the
optimum for all answers. With full rank and a convex likelihood that is the convex one; `_excess` estimates how far it
is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from crowdmetric.engines.threads import shared_product
from crowdmetric.similarity.likelihood import AnswerModel
from crowdmetric.similarity.pair_choices import PairChoices

__all__ = ["FactoredFit", "FactoredObjective", "fit_factored"]

Array = NDArray[np.float64]

# From this share of all pairs of items on, distances are computed by one matrix product.
DENSE = 0.1
# From this many items on, the product with G is taken in single precision: half the time, and accurate enough for the
# direction of a step (values are in double precision).
SINGLE_FROM = 1_000
# Factor by which the ridge is weakened, squared after a gain above the second number (in nats per answer, as the next)
# and at last its root; and by how much that must help.
WEAKER, LARGE_GAIN, HELPS = 16.0, 0.05, 1e-4
# Share of the items, or of the questions, that is left out to choose the ridge.
LEFT_OUT = 0.1
# Maximum number of answers left out to see whether the last fit does harm, and the number of steps it must do so.
ENOUGH_LEFT_OUT, PATIENCE = 20_000, 5
# Squared distances that differ by less than this share are equal.
EQUALLY_FAR = 1e-9
# L-BFGS: number of stored steps, and the relative decrease at which it stops in intermediate fits and in the last one.
MEMORY, ROUGH, FINE = 10, 1e-4, 1e-6
# Steps per intermediate fit.
ROUGH_STEPS = 10
# Factor between the ranks that are tried.
RANKS_APART = 2
# Variances below this share of the mean are raised to it in the scaling of L.
LEAST_VARIANCE = 1e-2


@dataclass(frozen=True)
class FactoredFit:
    """Where a fit ended.

    Attributes
    ----------
    metric
        (d, d).
    value
        Minus the log-likelihood, without the ridge.
    ridge, rank
        τ = λc², and the largest rank allowed.
    gap
        NaN: without curvature there is no certificate; see `excess`.
    excess
        Estimated bound on how far the optimum of a convex problem is below, in nats per answer: see `_excess`. It means
        nothing if the fit stopped early on purpose.
    converged, iterations, status
        How the iteration ended.
    """

    metric: Array
    value: float
    ridge: float
    rank: int
    gap: float
    excess: float
    converged: bool
    iterations: int
    status: str


@dataclass(frozen=True)
class FactoredObjective:
    """Minus the log-likelihood as a function of L, for items (N, d)."""

    items: Array
    questions: PairChoices
    likelihood: AnswerModel

    @property
    def is_dense(self) -> bool:
        """Whether distances of all pairs of items are found at once."""
        return len(self.questions.pairs) > DENSE * len(self.items) ** 2 / 2

    def distances(self, Z: Array) -> Array:
        """Return the squared distances (P,) of the pairs, from coordinates (N, r)."""
        i, j = self.questions.pairs.T
        if not self.is_dense:
            step = Z[i] - Z[j]
            return np.einsum("pr,pr->p", step, step)
        gram = shared_product(Z, Z.T)
        norms = np.diag(gram).copy()
        D: Array = np.maximum(norms[i] + norms[j] - 2.0 * gram.take(self._places), 0.0)
        return D

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """Where the pairs (P,) are in an items × items matrix."""
        i, j = self.questions.pairs.T
        return i * len(self.items) + j

    def laplacian_times(self, g: Array, Z: Array) -> Array:
        """Return ``Lap(G) Z`` (N, r) for derivatives g (P,) of the pairs."""
        i, j = self.questions.pairs.T
        N = len(self.items)
        degree = np.bincount(i, g, N) + np.bincount(j, g, N)
        if self.is_dense:
            kind = np.float32 if N >= SINGLE_FROM else np.float64
            G = np.zeros((N, N), dtype=kind)
            G.ravel()[self._places] = g
            G += G.T
            pulled = shared_product(G, Z.astype(kind))
        else:
            S = sparse.csr_matrix((g, (i, j)), shape=(N, N))
            pulled = S @ Z + S.T @ Z
        return degree[:, None] * Z - pulled

    def slope(self, L: Array) -> tuple[float, Array]:
        """Return minus the log-likelihood and its gradient (d, r) in L."""
        Z = shared_product(self.items, L)
        value, g = self.likelihood.slope(self.questions, self.distances(Z))
        return value, 2.0 * shared_product(self.items.T, self.laplacian_times(g, Z))

    def metric_slope(self, L: Array) -> Array:
        """Return the gradient (d, d) in M."""
        g = self.likelihood.slope(self.questions, self.distances(self.items @ L))[1]
        return shared_product(self.items.T, self.laplacian_times(g, self.items))


@dataclass(frozen=True)
class _Chosen:
    """A factor A (d, r) scaled by standard deviations, the strength λ, and minus the loss about items left out."""

    A: Array
    strength: float
    score: float


def fit_factored(
    items: Array,
    questions: PairChoices,
    likelihood: AnswerModel,
    rank: int | str | None,
    *,
    max_iterations: int,
    seed: int,
) -> FactoredFit:
    """Fit a metric of at most some rank; None: full rank; 'auto': the rank that predicts items left out best."""
    d = items.shape[1]
    variance, axes = np.linalg.eigh(items.T @ items / len(items))
    turned = FactoredObjective(np.ascontiguousarray(items @ axes), questions.grouped(), likelihood)
    deviations = np.sqrt(np.maximum(variance, LEAST_VARIANCE * variance.mean()))
    learned, hidden = _some_left_out(turned, seed)
    chosen = _best_rank(learned, deviations, rank, seed)
    r = chosen.A.shape[1]
    best = _Watched(hidden, deviations, chosen.A)
    _descend(learned, chosen.A, deviations, chosen.strength, FINE, max_iterations, best)
    if best.harm_follows:
        A, iterations, converged = best.A, best.steps, True
    else:
        result = _descend(turned, best.A, deviations, chosen.strength, FINE, max(1, max_iterations - best.steps))
        A, iterations = result.x.reshape(chosen.A.shape), best.steps + int(result.nit)
        converged = bool(result.success)
    M = _metric(A, deviations)
    value = likelihood.value(questions, turned.distances(turned.items @ (A / deviations[:, None])))
    excess = _excess(turned, A, deviations, chosen.strength)
    solved = converged and not best.harm_follows
    status = f"{'Solved' if solved else 'Stopped'} after {iterations} steps by gradients alone, rank {r}."
    if best.harm_follows:
        status += " More steps would predict judgements that were left out worse."
    if rank == "auto":
        status += " It predicts judgements about items left out best."
    if not converged:
        status += " Raise max_iter."
    status += " Standard errors were not found."
    if r == d and likelihood.is_convex and not best.harm_follows:
        status += f" The optimum is at most about {excess:.1e} nats per answer better."
    c = float(np.trace(M)) / d
    return FactoredFit(
        axes @ M @ axes.T, value, chosen.strength * c * c, r, float("nan"), excess, converged, iterations, status
    )


def _best_rank(turned: FactoredObjective, deviations: Array, rank: int | str | None, seed: int) -> _Chosen:
    """Return where the last fit begins, and its ridge."""
    d = deviations.size
    known, new = _left_out(turned, seed)
    learned, hidden = replace(turned, questions=known), replace(turned, questions=new)
    best = None
    if rank != "auto":
        return _best_ridge(learned, hidden, deviations, d if rank is None else int(rank), seed)
    for r in [*(RANKS_APART**k for k in range(d.bit_length()) if RANKS_APART**k < d), d]:
        found = _best_ridge(learned, hidden, deviations, r, seed)
        if best is None or found.score > best.score + HELPS:
            best = found
        else:
            break
    assert best is not None
    return best


def _best_ridge(learned: FactoredObjective, hidden: FactoredObjective, deviations: Array, r: int, seed: int) -> _Chosen:
    """Return the weakest ridge that helps."""
    A = _start(learned, deviations, r, seed)
    c = float(np.trace(_metric(A, deviations))) / deviations.size
    best = _tried(learned, hidden, deviations, A, r / (c * c))  # as far from the identity as the metric is large
    factor = WEAKER
    while factor >= np.sqrt(WEAKER):
        found = _tried(learned, hidden, deviations, best.A, best.strength / factor)
        gain = found.score - best.score
        if gain > HELPS:
            best, factor = found, WEAKER**2 if gain > LARGE_GAIN else min(factor, WEAKER)
        else:
            factor = np.sqrt(factor)
    return best


def _tried(
    learned: FactoredObjective, hidden: FactoredObjective, deviations: Array, start: Array, strength: float
) -> _Chosen:
    """Return where a few steps lead, and how well that predicts what was left out."""
    A = _descend(learned, start, deviations, strength, ROUGH, ROUGH_STEPS).x.reshape(start.shape)
    return _Chosen(A, strength, _score(hidden, A, deviations))


def _score(hidden: FactoredObjective, A: Array, deviations: Array) -> float:
    """Return the mean log-likelihood of the answers left out."""
    D = hidden.distances(shared_product(hidden.items, A / deviations[:, None]))
    return -hidden.likelihood.value(hidden.questions, D) / hidden.questions.n_answers


@dataclass
class _Watched:
    """The best factor A (d, r) of a descent, judged by questions left out; L-BFGS calls this after every step."""

    hidden: FactoredObjective
    deviations: Array
    A: Array
    score: float = -np.inf
    steps: int = 0
    taken: int = 0
    harm_follows: bool = False

    def __call__(self, flat: Array) -> None:
        """Keep what is best so far; stop the descent where it has done harm for some steps."""
        A = flat.reshape(self.A.shape)
        score = _score(self.hidden, A, self.deviations)
        self.taken += 1
        if score > self.score:
            self.A, self.score, self.steps = A.copy(), score, self.taken
        elif score < self.score - HELPS and self.taken >= self.steps + PATIENCE:
            self.harm_follows = True
            raise StopIteration


def _some_left_out(turned: FactoredObjective, seed: int) -> tuple[FactoredObjective, FactoredObjective]:
    """Return the objectives of most questions and of a few, drawn at random; of all, where they are too few."""
    share = min(LEFT_OUT, ENOUGH_LEFT_OUT / turned.questions.n_answers)
    known, new = turned.questions.split_by_chance(share, np.random.default_rng(seed))
    if not (known.asked and new.asked):
        return turned, turned
    return replace(turned, questions=known), replace(turned, questions=new)


def _left_out(turned: FactoredObjective, seed: int) -> tuple[PairChoices, PairChoices]:
    """Return the questions about known items and those about items left out; some of all where items are too few.

    Features by which all items are equally far apart (which item it is, and nothing else) tell nothing about items left
    out. Questions are left out then.
    """
    rng, questions = np.random.default_rng(seed), turned.questions
    used = np.unique(questions.pairs)
    D = turned.distances(turned.items)
    if np.ptp(D) <= EQUALLY_FAR * float(D.max()):
        known, new = questions.split_by_chance(LEFT_OUT, rng)
    else:
        group = np.zeros(len(turned.items), dtype=bool)
        group[rng.permutation(used)[: max(1, round(LEFT_OUT * used.size))]] = True
        known, new = questions.split_by_items(group)
    return (known, new) if known.asked and new.asked else (questions, questions)


def _metric(A: Array, deviations: Array) -> Array:
    L = A / deviations[:, None]
    return L @ L.T


def _start(turned: FactoredObjective, deviations: Array, r: int, seed: int) -> Array:
    """Return the A of a multiple of the identity (its leading axes), a little disturbed where the rank is low."""
    d = deviations.size
    A = np.zeros((d, r))
    leading = np.argsort(deviations)[::-1][:r]
    A[leading, np.arange(r)] = deviations[leading]
    if r < d:
        A += 0.01 * deviations.mean() * np.random.default_rng(seed).standard_normal(A.shape)
    D = turned.distances(turned.items @ (A / deviations[:, None]))
    return A / np.sqrt(max(float(D.mean()), 1e-300) * turned.likelihood.beta)


def _descend(
    turned: FactoredObjective,
    A: Array,
    deviations: Array,
    strength: float,
    accuracy: float,
    steps: int,
    watched: _Watched | None = None,
) -> Any:
    """Return the result of L-BFGS on the penalized objective, per answer."""
    answers = turned.questions.n_answers

    def function(flat: Array) -> tuple[float, Array]:
        L = flat.reshape(A.shape) / deviations[:, None]
        value, slope = turned.slope(L)
        if strength > 0.0:
            M = shared_product(L, L.T)
            if L.shape[1] == len(M):
                M[np.diag_indices_from(M)] -= np.trace(M) / len(M)
            value += 0.5 * strength * float(np.vdot(M, M))
            slope += 2.0 * strength * shared_product(M, L)
        return value / answers, (slope / deviations[:, None]).ravel() / answers

    options = {"maxcor": MEMORY, "ftol": accuracy, "gtol": 1e-9, "maxiter": steps}
    return minimize(function, A.ravel(), jac=True, method="L-BFGS-B", options=options, callback=watched)


def _excess(turned: FactoredObjective, A: Array, deviations: Array, strength: float) -> float:
    """Return ``⟨G, M⟩ − λ_min(G) tr M`` per answer, in the coordinates that L is scaled to, G the gradient in M.

    By convexity the optimum is at most this far below, as long as its trace is not above that of M.
    """
    L = A / deviations[:, None]
    M = L @ L.T
    M[np.diag_indices_from(M)] -= np.trace(M) / len(M)
    G = (turned.metric_slope(L) + strength * M) / np.outer(deviations, deviations)
    lowest = min(0.0, float(np.linalg.eigvalsh(0.5 * (G + G.T))[0]))
    excess = float(np.sum((G @ A) * A)) - lowest * float(np.sum(A * A))
    return max(0.0, excess) / turned.questions.n_answers
