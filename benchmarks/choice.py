"""Whether items have utilities of their own: how often rules say so, and what the metric's shape gains or loses.

Simulated crowds with and without such utilities (ω), people isotropic, in three clusters or stretched along features.
For every crowd a population is fitted under both covariances, with and without utilities; then every rule picks one of
the four, and its error of the metric's shape is divided by that of the fit without utilities.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np

from crowdmetric import Comparisons
from crowdmetric.choice import Trials, choose_covariance, choose_item_effects
from crowdmetric.simulate import responses
from crowdmetric.symmetric import shape_error

# features, items, people, answers per person
SIZES = ((3, 20, 300, 5), (3, 60, 1000, 4), (4, 40, 1000, 6), (6, 30, 500, 8), (3, 20, 1500, 8))
PEOPLE = ("isotropic", "clusters", "stretched")
SPREADS = (0.0, 0.6)
SEEDS = 2

Law = tuple[str, bool]


def crowd(size: tuple[int, int, int, int], people: str, spread: float, seed: int) -> tuple[Trials, np.ndarray]:
    """Return the trials of a crowd, and its metric."""
    d, N, K, m = size
    rng = np.random.default_rng(seed)
    X, G = rng.standard_normal((N, d)) / np.sqrt(d), rng.standard_normal((d, d))
    M = 2.0 * d * G @ G.T / np.linalg.norm(G @ G.T)
    U = rng.standard_normal((K, d)) / np.sqrt(d)
    if people == "clusters":
        U = (rng.standard_normal((3, d)) / np.sqrt(d))[rng.integers(3, size=K)] + np.sqrt(0.1) * U
    elif people == "stretched":
        U = U * rng.permutation(np.linspace(0.3, 2.0, d))
    users, left = np.repeat(np.arange(K), m), rng.integers(N, size=K * m)
    pairs = np.column_stack([left, (left + rng.integers(1, N, size=K * m)) % N])
    b, (x, x_) = spread * rng.standard_normal(N), X[pairs.T]
    psi = np.sum((x - x_) @ M * (x + x_ - 2.0 * U[users]), axis=1) - (b[pairs[:, 0]] - b[pairs[:, 1]])
    answers = Comparisons.from_arrays(users, pairs, responses(psi, 1.0, rng), n_items=N)
    return Trials(X, answers, {"jobs": 1}), M


def cheaply(trials: Trials) -> Law:
    """Judge by the parameters alone, under the covariance chosen."""
    covariance = str(choose_covariance(trials).value)
    without, with_them = (trials.fit(covariance, effects) for effects in (False, True))
    gain = with_them.log_likelihood_ - without.log_likelihood_
    return covariance, bool(gain > with_them.item_effects_determined_)


def by_bic(trials: Trials) -> Law:
    """Judge items as the rule does, and the covariance by BIC, with utilities or without."""
    effects = bool(choose_item_effects(trials).value)
    if trials.freest != "free":
        return "isotropic", effects
    gain = trials.fit("free", effects).log_likelihood_ - trials.fit("isotropic", effects).log_likelihood_
    extra = trials.d * (trials.d + 1) // 2 - 1
    return ("free" if gain > 0.5 * extra * log(trials.people) else "isotropic"), effects


def covariance_first(trials: Trials) -> Law:
    """Choose the covariance without utilities; judge items as the rule does."""
    return str(choose_covariance(trials).value), bool(choose_item_effects(trials).value)


def the_rule(trials: Trials) -> Law:
    """Judge as `crowdmetric fit` does."""
    effects = bool(choose_item_effects(trials).value)
    return str(choose_covariance(trials, effects).value), effects


RULES: dict[str, Callable[[Trials], Law]] = {
    "always": lambda trials: (str(choose_covariance(trials).value), True),
    "price γ, covariance chosen": cheaply,
    "covariance first": covariance_first,
    "covariance by BIC": by_bic,
    "the rule": the_rule,
}


def main() -> None:
    """Print a line for every kind of crowd and rule."""
    for people in PEOPLE:
        for spread in SPREADS:
            ratios: dict[str, list[float]] = {rule: [] for rule in RULES}
            taken = dict.fromkeys(RULES, 0)
            for size in SIZES:
                for seed in range(SEEDS):
                    trials, M = crowd(size, people, spread, seed)
                    plain = trials.fit(str(choose_covariance(trials).value), False)
                    for name, rule in RULES.items():
                        law = rule(trials)
                        taken[name] += law[1]
                        error = shape_error(trials.fit(*law).metric_, M) / shape_error(plain.metric_, M)
                        ratios[name].append(error)
            for name, values in ratios.items():
                print(
                    f"{people:10} omega {spread:.1f}  {name:27} error × {np.exp(np.mean(np.log(values))):.2f} "
                    f"(worst {max(values):.2f}), taken in {taken[name] / len(values):4.0%} of {len(values)}",
                    flush=True,
                )
