"""The likelihood of judgements as a function of the squared distances of pairs.

Of k pairs with squared distances D the person calls pair j the closest with probability ::

    q_j = (1 − ε) p_j + ε / k,      p = softmax(u),      u = −β f(D)

where ε is the lapse rate (answers given without looking) and f the *link*: ``f(D) = D`` ("squared") or ``f(D) = √D``
("distance"). For k = 2 that is the logistic model ``σ(β(f(D_2) − f(D_1)))``. Under the squared link without lapses
minus the log-likelihood is convex in D, and so in a metric, which D is linear in; otherwise it is not.

The derivatives in u have row sums of zero, so the expected curvature of a question is a graph Laplacian on its
pairs, with edge weights ``w_jl = n (s_j p_l + s_l p_j − p_j p_l Σs)``, ``s_j = (1 − ε)² p_j² / q_j`` (``n p_j p_l``
without lapses). Summed over questions it is the Laplacian of one sparse graph on pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from crowdmetric.similarity.pair_choices import Alternatives, PairChoices

__all__ = ["LINKS", "AnswerModel"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

LINKS = ("squared", "distance")
# Under the distance link, squared distances below this (for items of size one) are raised to it: √D has no slope at
# zero.
LEAST_SQUARE = 1e-8
# From this many alternatives on, a compiled loop takes the sums, in this many parts, each by a thread.
COMPILED_FROM, PARTS = 300_000, 2
# The compiled loop sums exp(u) as it is, without subtracting the largest u of each question. That is safe while all u
# are within this range: exp(u) then neither overflows nor vanishes.
SAFE_RANGE = 1_200.0


@dataclass(frozen=True)
class AnswerModel:
    """How answers depend on squared distances.

    Attributes
    ----------
    beta, lapse
        β > 0, and ε in [0, 1).
    link
        'squared' or 'distance'.
    """

    beta: float = 1.0
    link: str = "squared"
    lapse: float = 0.0

    @property
    def is_convex(self) -> bool:
        """Whether minus the log-likelihood is convex in the distances."""
        return self.link == "squared" and self.lapse == 0.0

    # -------------------------------------------------------------------------------------- the link

    def linked(self, D: Array) -> Array:
        """Return ``f(D)``."""
        return D if self.link == "squared" else np.sqrt(np.maximum(D, LEAST_SQUARE))

    def link_slope(self, D: Array) -> Array:
        """Return ``f'(D)``."""
        return np.ones_like(D) if self.link == "squared" else 0.5 / np.sqrt(np.maximum(D, LEAST_SQUARE))

    # -------------------------------------------------------------------------------------- one question

    def probabilities(self, D: Array, variance: Array | float = 0.0) -> Array:
        """Return q (T, k) from the squared distances (T, k) of the pairs to choose from.

        `variance` (T,) is the mean variance of a difference of two utilities where the metric is not known exactly. The
        mean of a logistic function of a Gaussian is about ``σ(ψ/√(1 + π v/8))`` (MacKay).
        """
        certain = 1.0 / np.sqrt(1.0 + np.pi / 8.0 * np.asarray(variance))
        return self._lapsed(self._softmax(-self.beta * self.linked(D) * np.reshape(certain, (-1, 1))))

    def variance(self, D: Array, moved: Array) -> Array:
        """Return the mean variance (T,) of a difference of two utilities of a question.

        Squared distances D (T, k) move by `moved` (T, k, n) per unit of each of n independent standard variables.
        """
        slope = self.beta * self.link_slope(D)[..., None]
        spread, pairs = np.zeros(len(D)), list(combinations(range(D.shape[1]), 2))
        for j, l in pairs:  # noqa: E741 - the letters of the formula
            apart = slope[:, j] * moved[:, j] - slope[:, l] * moved[:, l]
            spread += np.einsum("tn,tn->t", apart, apart)
        return spread / len(pairs)

    def _softmax(self, u: Array) -> Array:
        e = np.exp(u - u.max(axis=-1, keepdims=True))
        share: Array = e / e.sum(axis=-1, keepdims=True)
        return share

    def _lapsed(self, p: Array) -> Array:
        return p if self.lapse == 0.0 else (1.0 - self.lapse) * p + self.lapse / p.shape[-1]

    def _log(self, u: Array) -> Array:
        """Return log q (T, k), accurate also where q is tiny."""
        if self.lapse > 0.0:
            return np.log(self._lapsed(self._softmax(u)))
        top = u.max(axis=-1, keepdims=True)
        logs: Array = u - top - np.log(np.exp(u - top).sum(axis=-1, keepdims=True))
        return logs

    def log_likelihood(self, asked: Alternatives, D: Array) -> Array:
        """Return ``Σ_j n_j log q_j`` (T,) of every question, from the squared distances D (P,) of all pairs."""
        return np.einsum("tk,tk->t", asked.counts, self._log(-self.beta * self.linked(D)[asked.index]))

    # -------------------------------------------------------------------------------------- all questions

    def value(self, questions: PairChoices, D: Array) -> float:
        """Return minus the log-likelihood."""
        f, value = self.linked(D), 0.0
        for asked in questions.asked:
            compiled = self._is_compiled(asked, f)
            value += _compiled_slope(asked, -self.beta * f)[0] if compiled else -self.log_likelihood(asked, D).sum()
        return float(value)

    def slope(self, questions: PairChoices, D: Array) -> tuple[float, Array]:
        """Return minus the log-likelihood and its derivative (P,) in D."""
        value, gradient = 0.0, np.zeros(D.size)
        f = self.linked(D)
        for asked in questions.asked:
            if self._is_compiled(asked, f):
                more, step_of_pairs = _compiled_slope(asked, -self.beta * f)
                value, gradient = value + more, gradient + step_of_pairs
                continue
            more, step = self._steps(asked, f)
            value += more
            gradient += np.bincount(asked.index.ravel(), step.ravel(), D.size)
        return value, -self.beta * self.link_slope(D) * gradient

    def _steps(self, asked: Alternatives, f: Array) -> tuple[float, Array]:
        """Return minus the log-likelihood of some questions, and its derivatives (T, k) in their utilities."""
        u = -self.beta * f[asked.index]
        logs = self._log(u)
        p = np.exp(logs) if self.lapse == 0.0 else self._softmax(u)
        r = asked.counts if self.lapse == 0.0 else asked.counts * (1.0 - self.lapse) * p / np.exp(logs)
        return -float(np.einsum("tk,tk->", asked.counts, logs)), p * r.sum(axis=1, keepdims=True) - r

    def slopes_of_people(self, questions: PairChoices, n_people: int, D: Array) -> sparse.csr_matrix:
        """Return the derivative of everybody's minus log-likelihood in D, sparse (K, P)."""
        f, total = self.linked(D), sparse.csr_matrix((n_people, D.size))
        for asked in questions.asked:
            step = self._steps(asked, f)[1]
            who = np.repeat(asked.person, asked.index.shape[1])
            total = total + sparse.csr_matrix((step.ravel(), (who, asked.index.ravel())), shape=total.shape)
        return (total @ sparse.diags(-self.beta * self.link_slope(D))).tocsr()

    def slopes(self, questions: PairChoices, D: Array) -> tuple[Array, Array]:
        """Return minus the log-likelihoods (C,) of several metrics and their derivatives (C, P) in distances D (C, P).

        As `slope`, but with one array per option, so that loops over questions are long.
        """
        values, gradient = np.zeros(len(D)), np.zeros_like(D)
        f = self.linked(D)
        for asked in questions.asked:
            k, counts = asked.index.shape[1], asked.counts.T
            u = [-self.beta * f[:, column] for column in asked.index.T]
            top = np.max(u, axis=0)
            e = [np.exp(one - top) for one in u]
            total = np.sum(e, axis=0)
            p = [one / total for one in e]
            if self.lapse == 0.0:
                logs = [one - top - np.log(total) for one in u]
                r = [np.broadcast_to(n, total.shape) for n in counts]
            else:
                q = [(1.0 - self.lapse) * one + self.lapse / k for one in p]
                logs = [np.log(one) for one in q]
                r = [n * (1.0 - self.lapse) * one / chance for n, one, chance in zip(counts, p, q, strict=True)]
            values -= np.sum([log @ n for log, n in zip(logs, counts, strict=True)], axis=0)
            all_r = np.sum(r, axis=0)
            rows = np.arange(len(asked.index))
            for column, one, part in zip(asked.index.T, p, r, strict=True):
                of_pairs = sparse.csr_matrix((np.ones(rows.size), (column, rows)), shape=(D.shape[1], rows.size))
                gradient += (of_pairs @ (one * all_r - part).T).T  # dvalue/du
        return values, -self.beta * self.link_slope(D) * gradient

    def _is_compiled(self, asked: Alternatives, f: Array) -> bool:
        return self.lapse == 0.0 and asked.index.size >= COMPILED_FROM and self.beta * float(np.ptp(f)) < SAFE_RANGE

    def edges(self, questions: PairChoices, D: Array) -> Iterator[tuple[Indices, Indices, Array]]:
        """Yield (i, j, w): pairs of pairs and the weight of their edge in the expected curvature in u."""
        f = self.linked(D)
        for asked in questions.asked:
            p = self._softmax(-self.beta * f[asked.index])
            # without lapses q is p, which may be zero
            s = p if self.lapse == 0.0 else (1.0 - self.lapse) ** 2 * p * p / self._lapsed(p)
            n, total = asked.counts.sum(axis=1), s.sum(axis=1)
            for j, l in combinations(range(p.shape[1]), 2):  # noqa: E741 - the letters of the formula
                w = n * (s[:, j] * p[:, l] + s[:, l] * p[:, j] - p[:, j] * p[:, l] * total)
                yield asked.index[:, j], asked.index[:, l], w

    def laplacian(self, questions: PairChoices, D: Array) -> sparse.csr_matrix:
        """Return the expected curvature (P, P) in D: ``β² diag(f') Lap diag(f')``, sparse."""
        P = D.size
        rows, columns, weights = [], [], []
        for i, j, w in self.edges(questions, D):
            rows += [i, j, i, j]
            columns += [i, j, j, i]
            weights += [w, w, -w, -w]
        places = np.concatenate(rows), np.concatenate(columns)
        L = self.beta**2 * sparse.csr_matrix((np.concatenate(weights), places), shape=(P, P))
        if self.link == "squared":
            return L
        slope = sparse.diags(self.link_slope(D))
        return (slope @ L @ slope).tocsr()


def _compiled_slope(asked: Alternatives, utilities: Array) -> tuple[float, Array]:
    """Return minus the log-likelihood of many choices, and its derivative (P,) in the utilities of all pairs.

    With n_t answers to question t, c_p choices of pair p and s_t the sum of exp(u) over the pairs of question t, ::

        value = Σ_t n_t log s_t − Σ_p c_p u_p        derivative = exp(u_p) Σ_{t about p} n_t / s_t − c_p

    so that exp is taken once per pair instead of once per alternative.
    """
    kernels = import_module("crowdmetric.similarity.choice_kernels")  # loading Numba takes a moment
    u = utilities - 0.5 * (utilities.max() + utilities.min())
    weight = np.exp(u)
    edges = np.linspace(0, len(asked.index), PARTS + 1).astype(int)
    shares = np.zeros((PARTS, u.size))

    def part(number: int) -> float:
        rows = slice(edges[number], edges[number + 1])
        columns = tuple(column[rows] for column in asked.columns)
        return float(kernels.add_shares(columns, asked.answers[rows], weight, shares[number]))

    with ThreadPoolExecutor(PARTS) as pool:
        value = sum(pool.map(part, range(PARTS)))
    gradient = weight * shares.sum(axis=0)
    chosen = asked.chosen
    gradient[: chosen.size] -= chosen
    return value - float(chosen @ u[: chosen.size]), gradient
