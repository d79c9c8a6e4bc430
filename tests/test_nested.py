"""Fits end in the right place: likelihoods are possible, nested models are ordered, and every fit converges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crowdmetric import Comparisons, PopulationMetric
from crowdmetric.evaluate import MODELS
from crowdmetric.solvers.law_fit import _next_ridges
from crowdmetric.solvers.priors import Ridges
from crowdmetric.tables import read_items

DATA = Path(__file__).parents[2] / "shared" / "data"
# Each model, and one that is nested in it.
NESTED = [
    ("population", "identity"),
    ("population-free", "linear"),
    ("symmetric", "linear"),
]
# Ridges from the evidence hold the larger model back by at most about this many nats.
HELD_BACK = 0.5


def bent_tastes(people: int, answers: int, n_items: int, d: int, seed: int) -> tuple[np.ndarray, Comparisons]:
    """Return items and answers of people whose utilities are no distance from anywhere: few people, many answers."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_items, d))
    waves = rng.standard_normal((people, 4, d))
    utility = np.einsum(
        "kw,kwn->kn", rng.standard_normal((people, 4)), np.sin(waves @ X.T + rng.random((people, 4, 1)))
    )
    users = np.repeat(np.arange(people), answers)
    left, right = rng.integers(n_items, size=(2, people * answers))
    right = np.where(left == right, (right + 1) % n_items, right)
    y = np.where(rng.random(users.size) < 1 / (1 + np.exp(2 * (utility[users, left] - utility[users, right]))), 1, -1)
    return X, Comparisons.from_arrays(users, np.column_stack([left, right]), y, n_items=n_items)


def shared(name: str) -> tuple[np.ndarray, Comparisons]:
    if not (DATA / name).exists():
        pytest.skip(f"no shared/data/{name} beside the project")
    items = read_items(DATA / name / "items.csv")
    X = items.features
    return (X - X.mean(axis=0)) / X.std(axis=0), Comparisons.read(DATA / name / "comparisons.csv", items=items)


CROWDS = {
    "few people, many answers": lambda: bent_tastes(20, 300, 30, 3, seed=0),
    "more features than people can tell": lambda: bent_tastes(60, 20, 25, 7, seed=1),
    "all alike": lambda: (
        np.random.default_rng(2).standard_normal((8, 2)),
        Comparisons.from_arrays(np.arange(12) // 3, np.array([[0, 1], [2, 3], [4, 5]] * 4), np.ones(12), n_items=8),
    ),
    "carrots": lambda: shared("carrots"),
    "cocktail_compo": lambda: shared("cocktail_compo"),
}
each_crowd = pytest.mark.parametrize("crowd", CROWDS.values(), ids=CROWDS)


@each_crowd
def test_nested_models_are_ordered(crowd) -> None:
    X, answers = crowd()
    for larger, smaller in NESTED:
        values = [MODELS[name].fit(X, answers).estimator.log_likelihood_ for name in (larger, smaller)]
        assert max(values) <= 0.0
        assert values[0] >= values[1] - HELD_BACK, (larger, values)


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.NotIdentifiedWarning")  # pairs cut from rankings
@each_crowd
def test_default_fits_converge(crowd) -> None:
    X, answers = crowd()
    for covariance in ("isotropic", "free"):
        model = PopulationMetric(X, covariance=covariance, uncertainty=False, starts=1).fit(answers)
        assert model.solution_.converged, covariance
        assert model.log_likelihood_ <= 0.0
        assert np.linalg.eigvalsh(model.metric_)[0] >= -1e-9 * np.abs(model.metric_).max()


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.NotIdentifiedWarning")
def test_answers_without_noise_end_at_a_finite_size() -> None:
    """The size is not identified: a prior holds it where answers are all but noise-free, and a warning says so."""
    rng = np.random.default_rng(0)
    X, U = rng.standard_normal((30, 3)), rng.standard_normal((60, 3))
    users, pairs = np.repeat(np.arange(60), 6), rng.integers(30, size=(360, 2))
    pairs[:, 1] = np.where(pairs[:, 0] == pairs[:, 1], (pairs[:, 1] + 1) % 30, pairs[:, 1])
    near, far = (np.sum((X[pairs[:, side]] - U[users]) ** 2 * [1.0, 2.0, 0.5], axis=1) for side in (0, 1))
    model = PopulationMetric(X, uncertainty=False).fit(pairs, np.where(near > far, 1, -1), users=users)
    assert model.solution_.converged
    assert "scale of the metric is not known" in model.solution_.status
    assert 5.0 < model.spread_ < 100.0  # in units of an answer's noise


def test_ridges_go_straight_to_where_the_evidence_wants_no_change() -> None:
    """A strength that the evidence changes by a little each time is extrapolated; one that has settled is not."""
    wants = lambda x: np.exp(2.0 + 0.9 * (np.log(x) - 2.0))  # noqa: E731  slow, to exp(2)
    first, second = Ridges(items=1.0, people=1.0), Ridges(items=float(wants(1.0)), people=1.0)
    third = Ridges(items=float(wants(second.items)), people=1.01)
    found = _next_ridges(first, second, second, third)
    assert found.items == pytest.approx(np.exp(0.2 + 8.0 * 0.18))  # eight steps at most
    assert found.people == 1.01
    faster = lambda x: np.exp(2.0 + 0.5 * (np.log(x) - 2.0))  # noqa: E731
    now = Ridges(items=float(faster(1.0)))
    assert _next_ridges(Ridges(items=1.0), now, now, Ridges(items=float(faster(now.items)))).items == pytest.approx(
        np.exp(2.0)
    )
    assert _next_ridges(Ridges(items=1.0), Ridges(items=9e3), Ridges(items=9e3), Ridges(items=1e4)).items <= 1e4
