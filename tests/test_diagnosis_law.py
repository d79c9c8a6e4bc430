"""What one population reveals under the law that is fitted: against information computed another way, and a fit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import expit

from crowdmetric.errors import DataError
from crowdmetric.estimators import PopulationMetric
from crowdmetric.identifiability import diagnose, law
from crowdmetric.identifiability.law import LAWS, Reference, law_spectrum, pairs_of_answers, reference_law
from crowdmetric.identifiability.questions import Questions, read_questions
from crowdmetric.symmetric import degrees_of_freedom, smat, svec

KINDS = ("numbers", "yes/no", "constant", "duplicated", "whole numbers")


def random_questions(seed: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Items with features of every degenerate kind, at times a one-hot group or fewer items than features."""
    rng = np.random.default_rng(seed)
    d, N, K = int(rng.integers(1, 4)), int(rng.choice([2, 3, 5, 8, 25])), int(rng.choice([3, 12, 60]))
    X = rng.standard_normal((N, d))
    for j, kind in enumerate(rng.choice(KINDS, d, p=[0.4, 0.25, 0.1, 0.15, 0.1])):
        if kind == "yes/no":
            X[:, j] = rng.integers(0, 2, N)
        elif kind == "constant":
            X[:, j] = 3.0
        elif kind == "duplicated":
            X[:, j] = X[:, j - 1]
        elif kind == "whole numbers":
            X[:, j] = np.round(2.0 * X[:, j])
    if seed % 7 == 0:
        X = np.eye(3)[rng.integers(0, 3, N)]
    left = rng.integers(0, N, K * m)
    right = (left + rng.integers(1, N, K * m)) % N
    return X, np.column_stack([left, right]), np.repeat(np.arange(K), m)


def probabilities(theta: np.ndarray, at: Reference, pairs: np.ndarray, covariance: str) -> np.ndarray:
    """Return (K, 2^m) probabilities of all answers to the questions (K, m, 2) of each person, by quadrature."""
    d, p = at.d, at.p
    M, mean = smat(theta[:p]), theta[p : p + d]
    Sigma = 4.0 * np.exp(2.0 * theta[-1]) * M @ M if covariance == "isotropic" else smat(theta[p + d :])
    left, right = at.items[pairs[..., 0]], at.items[pairs[..., 1]]
    delta = left - right
    offset = np.einsum("kmi,ij,kmj->km", delta, M, left + right) + delta @ mean
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    places = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), -1).reshape(-1, d)
    weight = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * d, indexing="ij"), -1).reshape(-1, d), axis=1)
    values, vectors = np.linalg.eigh(Sigma)
    v = places @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    q = expit(offset[:, :, None] + delta @ v.T)  # (K, m, nodes)
    sides = (q, 1.0 - q)
    columns = [
        np.prod([sides[side][:, i] for i, side in enumerate(answers)], axis=0) @ weight
        for answers in product((0, 1), repeat=pairs.shape[1])
    ]
    return np.stack(columns, axis=1)


def singular_values(at: Reference, pairs: np.ndarray, covariance: str) -> np.ndarray:
    """Return those of the information about M, people profiled out, relative to the largest before; by differences."""
    p, h = at.p, 1e-4
    here = probabilities(at.natural, at, pairs, covariance)
    slopes = [
        probabilities(at.natural + step, at, pairs, covariance)
        - probabilities(at.natural - step, at, pairs, covariance)
        for step in h * np.eye(at.natural.size)
    ]
    J = np.stack([(slope / (2.0 * h * np.sqrt(here))).ravel() for slope in slopes], axis=1)
    U, values, _ = np.linalg.svd(J[:, p:], full_matrices=False)
    U = U[:, values > 1e-6 * max(values[0], 1e-300)]
    before = np.linalg.norm(J[:, :p], 2)
    return np.linalg.svd(J[:, :p] - U @ (U.T @ J[:, :p]), compute_uv=False) / max(before, 1e-300)


@pytest.mark.parametrize("covariance", LAWS)
@pytest.mark.parametrize("m", [1, 2])
def test_the_verdict_is_that_of_the_expected_information(covariance: str, m: int) -> None:
    seen = set()
    for seed in range(40):
        items, pairs, users = random_questions(seed, m)
        found = law_spectrum(read_questions(items, pairs, users), covariance)
        at = reference_law(read_questions(items, pairs, users), covariance)
        values = singular_values(at, pairs.reshape(-1, m, 2), covariance)
        # between the two a direction is so weak that differences do not tell it from none
        assert np.sum(values > 3e-5) <= found.rank <= np.sum(values > 1e-6), (seed, values, found.rank)
        seen.add((degrees_of_freedom(items.shape[1]), found.rank))
    assert len(seen) > 8  # everything from nothing to all
