"""A row of weight two is the row twice, and a row of weight zero its absence: in every estimator, in all it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from crowdmetric import Comparisons, Judgements
from crowdmetric.base import CrowdMetric
from crowdmetric.bounded.ideal_point import IdealPointMetric
from crowdmetric.bounded.stitched import StitchedMetric
from crowdmetric.errors import DataError
from crowdmetric.estimators.matched import MatchedMetric
from crowdmetric.estimators.population import PopulationMetric
from crowdmetric.estimators.similarity import SimilarityMetric
from crowdmetric.estimators.smooth import TasteMetric
from crowdmetric.evaluate import evaluate
from crowdmetric.simulate import simulate_crowd
from crowdmetric.users.blocks import Answers

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Crowd:
    """Answers of some people about items, logistic with a metric."""

    items: Array
    pairs: NDArray[np.int64]
    y: Array
    users: NDArray[np.int64]
    labels: NDArray[np.int64] | None = None


def lattice_crowd(d: int) -> Crowd:
    """Return people who compare items of a lattice, where some of a person's questions are parallel (`matched`)."""
    rng = np.random.default_rng(0)
    items = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * d, indexing="ij"), axis=-1).reshape(-1, d)
    users = np.repeat(np.arange(60), 6)
    pairs = np.array([rng.choice(len(items), 2, replace=False) for _ in users])
    M, u = np.diag([1.5, 0.7, 0.4][:d]), rng.standard_normal((60, d))
    left, right = (items[pairs[:, side]] - u[users] for side in (0, 1))
    psi = np.einsum("ti,ij,tj->t", left, M, left) - np.einsum("ti,ij,tj->t", right, M, right)
    return Crowd(items, pairs, np.sign(psi + rng.logistic(size=psi.size)), users)


def subspace_crowd() -> Crowd:
    """Return people who compare items of one plane in space each."""
    crowd = simulate_crowd(3, 4, 2, 8, 8, seed=0)
    return Crowd(crowd.items, crowd.pairs, crowd.y.astype(np.float64), crowd.users, crowd.labels)


LATTICE, PLANE, PLANES = lattice_crowd(3), lattice_crowd(2), subspace_crowd()
QUICK = {"starts": 1, "jobs": 1, "tol": 1e-8}
BOUNDS = {"metric_bound": 5.0, "ideal_bound": 5.0}

ESTIMATORS: dict[str, tuple[Crowd, Callable[[], CrowdMetric]]] = {
    "population": (LATTICE, lambda: PopulationMetric(LATTICE.items, **QUICK)),
    "population, free": (LATTICE, lambda: PopulationMetric(LATTICE.items, covariance="free", **QUICK)),
    "population, on grids": (PLANE, lambda: PopulationMetric(PLANE.items, integration="grid", **QUICK)),
    "population, symmetric": (LATTICE, lambda: PopulationMetric(LATTICE.items, constraint="symmetric", **QUICK)),
    "linear utilities": (
        LATTICE,
        lambda: PopulationMetric(LATTICE.items, constraint="zero", covariance="free", **QUICK),
    ),
    "population, item effects": (LATTICE, lambda: PopulationMetric(LATTICE.items, item_effects=True, **QUICK)),
    "low rank": (LATTICE, lambda: PopulationMetric(LATTICE.items, rank=2, **QUICK)),
    "ideal points": (LATTICE, lambda: IdealPointMetric(LATTICE.items, **BOUNDS)),
    "ideal points, chosen radii": (LATTICE, lambda: IdealPointMetric(LATTICE.items)),
    "stitched": (PLANES, lambda: StitchedMetric(PLANES.items, subspaces=PLANES.labels, rank=2, **BOUNDS)),
    "matched": (PLANE, lambda: MatchedMetric(PLANE.items, ridge=1.0)),
    "taste": (PLANE, lambda: TasteMetric(PLANE.items)),
}
# What is compared: by name, as far as an estimator has it.
REPORTED = (
    "metric_", "objective_", "log_likelihood_", "standard_errors_", "metric_covariance_", "spread_", "ridge_",
    "question_bias_", "scale_correction_", "pseudo_ideal_points_", "pseudo_ideal_mean_", "pseudo_ideal_covariance_",
    "item_effects_", "approximation_error_", "n_across_", "reliability_", "metric_draws_", "symmetric_metric_",
    "symmetric_covariance_", "symmetric_log_likelihood_", "determined_", "sharpness_", "utilities_", "utility_errors_",
    "metric_bound_", "ideal_bound_",
)  # fmt: skip


def fitted(name: str, rows: NDArray[np.intp], weight: Array) -> CrowdMetric:
    """Return the estimator fitted to some rows of its crowd."""
    crowd, make = ESTIMATORS[name]
    return make().fit(crowd.pairs[rows], crowd.y[rows], users=crowd.users[rows], sample_weight=weight)


def assert_same_reports(one: CrowdMetric, other: CrowdMetric) -> None:
    """Compare everything reported, but for what a solver's tolerance leaves open."""
    np.testing.assert_array_equal(one.users_, other.users_)
    compared = 0
    for name in REPORTED:
        ours, theirs = getattr(one, name, None), getattr(other, name, None)
        if ours is None or isinstance(ours, str):
            assert type(ours) is type(theirs), name
            continue
        compared += 1
        scale = max(1.0, float(np.max(np.abs(np.nan_to_num(ours)), initial=0.0)))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * scale, err_msg=name)
    assert compared >= 2


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_weight_two_is_the_row_twice(name: str) -> None:
    rng, T = np.random.default_rng(1), ESTIMATORS[name][0].y.size
    heavy = rng.random(T) < 0.3
    order = np.argsort(np.concatenate([np.arange(T), np.flatnonzero(heavy)]), kind="stable")
    twice = np.concatenate([np.arange(T), np.flatnonzero(heavy)])[order]
    one = fitted(name, np.arange(T), np.where(heavy, 2.0, 1.0))
    assert_same_reports(one, fitted(name, twice, np.ones(twice.size)))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_weight_zero_is_absence(name: str) -> None:
    """Among the rows without weight are all of one person's, an item's only ones, and answers that contradict."""
    rng, crowd = np.random.default_rng(2), ESTIMATORS[name][0]
    T = crowd.y.size
    silent = (rng.random(T) < 0.3) | (crowd.users == crowd.users[0]) | np.any(crowd.pairs == crowd.pairs[9, 0], axis=1)
    rows = np.flatnonzero(~silent)
    one = fitted(name, np.arange(T), np.where(silent, 0.0, 1.0))
    assert_same_reports(one, fitted(name, rows, np.ones(rows.size)))


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.NotIdentifiedWarning")  # answers at random have no size
@pytest.mark.filterwarnings("ignore::crowdmetric.errors.DroppedRowsWarning")
@pytest.mark.parametrize("heavy", [0.0, 2.0])
def test_weights_of_similarity_judgements(heavy: float) -> None:
    """Triplets of weight 0 are left out, and those of weight 2 count twice."""
    rng = np.random.default_rng(3)
    items, triplets = rng.standard_normal((9, 2)), np.array([rng.choice(9, 3, replace=False) for _ in range(150)])
    person, marked = np.repeat(np.arange(15), 10), rng.random(150) < 0.3
    marked[:10] |= heavy == 0.0  # a person without any answer
    rows = np.repeat(np.arange(150), np.where(marked, int(heavy), 1))

    def fit(rows: NDArray[np.intp], weight: Array) -> SimilarityMetric:
        table = Judgements.from_triplets(triplets[rows], person=person[rows], weight=weight, n_items=9)
        return SimilarityMetric(items, structure="full").fit(table)

    assert_same_reports(fit(np.arange(150), np.where(marked, heavy, 1.0)), fit(rows, np.ones(rows.size)))


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.DroppedRowsWarning")
@pytest.mark.parametrize("heavy", [0.0, 2.0])
def test_weights_in_an_evaluation(heavy: float) -> None:
    """Whole questions are hidden, so that the same are hidden whether an answer stands there twice or weighs two."""
    T, rng = PLANE.y.size, np.random.default_rng(4)
    marked = rng.random(T) < 0.3
    marked[:6] |= heavy == 0.0
    rows = np.repeat(np.arange(T), np.where(marked, int(heavy), 1))

    def table(rows: NDArray[np.intp], weight: Array) -> list[tuple[float, ...]]:
        answers = Comparisons.from_arrays(
            PLANE.users[rows], PLANE.pairs[rows], PLANE.y[rows], weight=weight, n_items=len(PLANE.items)
        )
        models = ["bradley-terry", "quadratic", "identity", "linear"]
        found = evaluate(PLANE.items, answers, models, repeats=1)
        return [(*result.measures.values(), result.n_train, result.n_test) for result in found.results]

    one, other = table(np.arange(T), np.where(marked, heavy, 1.0)), table(rows, np.ones(rows.size))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_nothing_but_weights_of_zero_is_refused() -> None:
    with pytest.raises(DataError, match="positive"):
        fitted("population", np.arange(LATTICE.y.size), np.zeros(LATTICE.y.size))


# ------------------------------------------------------------------------------------------------ merging


def answers(person: list[int], pairs: list[tuple[int, int]], response: list[float], weight: list[float]) -> Answers:
    items = np.random.default_rng(0).standard_normal((5, 2))
    return Answers(
        items, np.array(pairs, dtype=np.intp), np.array(response), np.array(weight), np.array(person, dtype=np.intp),
        np.zeros(3, dtype=np.intp), 1,
    )  # fmt: skip


def test_answers_given_twice_become_one() -> None:
    """The same pair and answer, also named the other way round; not another answer, another person or another pair."""
    merged = answers(
        [0, 1, 0, 0, 0, 1, 2],
        [(0, 1), (0, 1), (1, 0), (0, 1), (0, 2), (0, 1), (3, 4)],
        [1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0],
        [1.0, 0.5, 2.0, 1.0, 1.0, 0.5, 0.0],
    ).merged()
    np.testing.assert_array_equal(merged.person, [0, 1, 0, 0])
    np.testing.assert_array_equal(merged.pairs, [(0, 1), (0, 1), (0, 1), (0, 2)])
    np.testing.assert_array_equal(merged.response, [1.0, 1.0, -1.0, 1.0])
    np.testing.assert_array_equal(merged.weight, [3.0, 1.0, 1.0, 1.0])


def test_answers_that_differ_stay_as_they_are() -> None:
    plain = answers([0, 0, 1], [(0, 1), (1, 2), (0, 1)], [1.0, 1.0, 1.0], [1.0, 0.5, 2.0])
    assert plain.merged() is plain
