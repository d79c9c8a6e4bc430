"""People who said where their ideal is: predict the choices of people who were never asked to choose.

In `perfume` everybody stated an ideal on the scales that describe the perfumes. With u known nothing is left of a
person, ``ψ = ⟨(x − u)(x − u)ᵀ − (x' − u)(x' − u)ᵀ, M⟩`` is linear in M, and the metric is a logistic regression over
positive semi-definite matrices (`crowdmetric.solvers.logistic`), or over non-negative weights of the scales (a diagonal
M). Its ridge is chosen by other people's choices. People are dealt into folds: everybody's choices are predicted by a
metric learned from others, and compared with what the identity predicts.

Three controls say what the gain is made of: weights with everybody's ideal at the crowd's mean (a metric, but no
persons), weights with ideals dealt out to the wrong people, and Bradley–Terry, which knows the perfumes but not their
scales.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from benchmarks.real.sets import SETS
from benchmarks.real.tasks import Row
from crowdmetric import Comparisons
from crowdmetric.evaluate import BradleyTerry
from crowdmetric.evaluate.scores import clustered
from crowdmetric.solvers.logistic import solve_logistic
from crowdmetric.symmetric import svec
from crowdmetric.tables import read_columns, read_items

__all__ = ["StatedObjective", "predict_from_stated"]

Array = NDArray[np.float64]
Learner = Callable[[Array, Array, float, int], Array]

FOLDS = 5
# Ridges that are tried, in units of the number of answers.
RIDGES = (0.03, 0.3, 3.0, 30.0, 300.0)


@dataclass(frozen=True)
class StatedObjective:
    """``Σ log(1 + exp(−y⟨F, A⟩))`` with a row F (p,) = svec(lᵀl − rᵀr) an answer; l, r are items minus the ideal."""

    features: Array
    response: Array
    size: int

    @property
    def dimension(self) -> int:
        return self.size

    @property
    def total_weight(self) -> float:
        return float(self.response.size)

    def value(self, a: Array) -> float:
        return float(np.sum(np.logaddexp(0.0, -self.response * (self.features @ a))))

    def gradient(self, a: Array) -> Array:
        m = self.response * (self.features @ a)
        gradient: Array = -self.features.T @ (self.response * expit(-m))
        return gradient

    def hessian(self, a: Array) -> Array:
        p = expit(self.features @ a)
        hessian: Array = (self.features * (p * (1.0 - p))[:, None]).T @ self.features
        return hessian


def _features(items: Array, ideals: Array, answers: Comparisons) -> Array:
    """Return F (T, p)."""
    left, right = items[answers.left] - ideals[answers.user], items[answers.right] - ideals[answers.user]
    return svec(left[:, :, None] * left[:, None, :] - right[:, :, None] * right[:, None, :])


def _metric(features: Array, response: Array, ridge: float, d: int) -> Array:
    """Return svec of a positive semi-definite metric."""
    objective = StatedObjective(features, response, d)
    return svec(solve_logistic(objective, psd=True, ridge=ridge * response.size, tolerance=1e-5).metric)


def _weights(features: Array, response: Array, ridge: float, d: int) -> Array:
    """Return svec of a diagonal metric."""
    places = np.flatnonzero(svec(np.eye(d)))
    objective, tau = StatedObjective(features[:, places], response, d), ridge * response.size

    def penalized(w: Array) -> tuple[float, Array]:
        return objective.value(w) + 0.5 * tau * float(w @ w), objective.gradient(w) + tau * w

    found = minimize(penalized, np.full(d, 1e-2), jac=True, bounds=[(0.0, None)] * d, method="L-BFGS-B")
    out = np.zeros(features.shape[1])
    out[places] = found.x
    return out


def _folds(people: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return the fold of everybody, 0…FOLDS − 1."""
    fold = np.zeros(people.max() + 1, dtype=np.int64)
    fold[people] = np.random.default_rng(seed).permutation(people.size) % FOLDS
    return fold


def _learned(learn: Learner, features: Array, answers: Comparisons, fold: NDArray[np.int64], d: int) -> Array:
    """Return ψ (T,) of every answer under a metric learned from other people, the ridge chosen among those."""
    psi = np.empty(len(answers))
    y = answers.response
    for k in range(FOLDS):
        hidden = fold[answers.user] == k
        inner = _folds(np.unique(answers.user[~hidden]), seed=k)[np.where(hidden, 0, answers.user)] == 0
        fit, check = ~hidden & ~inner, ~hidden & inner
        loss = {
            ridge: np.logaddexp(0.0, -y[check] * (features[check] @ learn(features[fit], y[fit], ridge, d))).mean()
            for ridge in RIDGES
        }
        best = min(loss, key=lambda ridge: loss[ridge])
        psi[hidden] = features[hidden] @ learn(features[~hidden], y[~hidden], best, d)
    return psi


def _popular(items: Array, answers: Comparisons, fold: NDArray[np.int64]) -> Array:
    right = np.empty(len(answers))
    for k in range(FOLDS):
        hidden = fold[answers.user] == k
        known, asked = answers.take(~hidden), answers.take(hidden)
        right[hidden] = BradleyTerry().fit(items, known).probability(asked, known)
    return right - 0.5


def predict_from_stated(data: Path, seed: int = 0) -> list[Row]:
    """Return accuracy (%) for people never asked, of each way to predict, its error, and its gain over the identity."""
    folder = data / SETS["perfume"].folder
    table = read_items(folder / "items.csv")
    answers = Comparisons.read(folder / "comparisons.csv", items=table)
    stated = read_columns(folder / "stated_ideals.csv")
    place = {user: row for row, user in enumerate(stated["user"].tolist())}
    ideals = np.column_stack([stated[name] for name in table.feature_names])[[place[u] for u in answers.user_ids]]
    unit = table.features.std(axis=0)
    items, ideals, d = table.features / unit, ideals / unit, unit.size
    fold = _folds(np.unique(answers.user), seed)
    F = _features(items, ideals, answers)
    wrong = np.random.default_rng(seed).permutation(len(ideals))
    mean = _features(items, np.tile(ideals.mean(axis=0), (len(ideals), 1)), answers)
    psi = {
        "identity": F @ svec(np.eye(d)),
        "learned weights of the scales": _learned(_weights, F, answers, fold, d),
        "learned metric": _learned(_metric, F, answers, fold, d),
        "weights, everybody at the mean ideal": _learned(_weights, mean, answers, fold, d),
        "weights, ideals of the wrong people": _learned(
            _weights, _features(items, ideals[wrong], answers), answers, fold, d
        ),
        "bradley-terry": _popular(items, answers, fold),
    }
    right = {name: np.where(z == 0, 0.5, (z > 0) == (answers.response > 0)) for name, z in psi.items()}
    count = np.bincount(answers.user, minlength=answers.n_users).astype(float)
    rows = []
    for name, correct in right.items():
        total = np.bincount(answers.user, weights=correct, minlength=answers.n_users)
        base = np.bincount(answers.user, weights=right["identity"], minlength=answers.n_users)
        accuracy, error = clustered(total, count)
        gain, gain_error = clustered(total - base, count)
        rows.append(
            {
                "model": name,
                "accuracy": round(100 * accuracy, 2),
                "error": round(100 * error, 2),
                "gain": round(100 * gain, 2),
                "gain_error": round(100 * gain_error, 2),
            }
        )
    return rows
