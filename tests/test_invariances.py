"""What must not matter, does not; what is known exactly, comes out exactly. For every estimator and every loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import ortho_group

from crowdmetric.base import CrowdMetric
from crowdmetric.bounded.stitching import METHODS
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DroppedRowsWarning
from crowdmetric.estimators import IdealPointMetric, MatchedMetric, PopulationMetric, StitchedMetric, TasteMetric
from crowdmetric.estimators.similarity import SimilarityMetric
from crowdmetric.evaluate.similarity_evaluation import SIMILARITY_SPLITS, similarity_folds
from crowdmetric.evaluate.splits import SPLITS, SplitPlan, split
from crowdmetric.judgements import Judgements
from crowdmetric.losses import LOSSES
from crowdmetric.simulate import answer, simulate_crowd
from crowdmetric.simulate_judgements import simulate_judgements
from crowdmetric.subspaces import assign_pairs, discover_subspaces, given_subspaces

ESTIMATORS = [IdealPointMetric, StitchedMetric]
each_loss = pytest.mark.parametrize("loss", LOSSES)
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


@dataclass(frozen=True)
class Study:
    """Everything a fit is told, so a transformation is one `replace`."""

    items: np.ndarray
    bases: np.ndarray
    pairs: np.ndarray
    y: np.ndarray
    users: np.ndarray
    weight: np.ndarray
    loss: str
    metric_bound: float = 2.0
    ideal_bound: float = 3.0

    def fit(self, estimator: type[CrowdMetric], **options: Any) -> CrowdMetric:
        if estimator is StitchedMetric:
            options = {"subspaces": self.bases, "stitch": "ols"} | options
        bounds = {"metric_bound": self.metric_bound, "ideal_bound": self.ideal_bound, "tol": 1e-9}
        model = estimator(self.items, loss=self.loss, **(bounds | options))
        return model.fit(self.pairs, self.y, users=self.users, sample_weight=self.weight)


def study(loss: str) -> Study:
    """Seven planes in three dimensions: all of M can be seen from inside them."""
    crowd = simulate_crowd(3, 7, 2, users=6, comparisons=5, beta=2.0, seed=3)
    rng = np.random.default_rng(0)
    y = crowd.psi + 0.3 * rng.standard_normal(crowd.psi.size) if loss == "squared" else crowd.y.astype(float)
    weight = rng.uniform(0.5, 1.5, y.size)
    return Study(crowd.items, crowd.bases, crowd.pairs, y, crowd.users, weight, loss)


# ----------------------------------------------------------------------------------------- what must not matter

TURN = ortho_group.rvs(3, random_state=1)
ORDER = np.random.default_rng(2).permutation(7 * 6 * 5)
CATALOGUE = np.random.default_rng(3).permutation(2 * ORDER.size)
SCALE = 10.0


def unchanged(M: np.ndarray) -> np.ndarray:
    return M


def doubled(rows: np.ndarray) -> np.ndarray:
    return np.concatenate([rows, rows])


# name: (what is done to the study, what that does to M)
TRANSFORMATIONS: dict[str, tuple[Callable[[Study], Study], Callable[[np.ndarray], np.ndarray]]] = {
    "turn the items": (
        lambda s: replace(s, items=s.items @ TURN.T, bases=TURN @ s.bases),
        lambda M: TURN @ M @ TURN.T,
    ),
    "scale the items": (
        lambda s: replace(
            s,
            items=SCALE * s.items,
            metric_bound=s.metric_bound / SCALE**2,
            ideal_bound=s.ideal_bound / SCALE,
        ),
        lambda M: M / SCALE**2,
    ),
    "swap left and right": (lambda s: replace(s, pairs=s.pairs[:, ::-1], y=-s.y), unchanged),
    "rename people": (lambda s: replace(s, users=np.array([f"p{999 - u}" for u in s.users])), unchanged),
    "reorder rows": (
        lambda s: replace(s, pairs=s.pairs[ORDER], y=s.y[ORDER], users=s.users[ORDER], weight=s.weight[ORDER]),
        unchanged,
    ),
    "reorder items": (
        lambda s: replace(s, items=s.items[CATALOGUE], pairs=np.argsort(CATALOGUE)[s.pairs]),
        unchanged,
    ),
    "double all weights": (lambda s: replace(s, weight=2.0 * s.weight), unchanged),
    "split rows in halves": (
        lambda s: replace(
            s,
            pairs=doubled(s.pairs),
            y=doubled(s.y),
            users=doubled(s.users),
            weight=doubled(0.5 * s.weight),
        ),
        unchanged,
    ),
}


# The hinge is piecewise linear: its optimum is found to the root of the tolerance, any other's to rounding.
SHARPNESS = dict.fromkeys(LOSSES, 1e-9) | {"hinge": 1e-4}


def assert_same_fit(model: CrowdMetric, other: CrowdMetric, expected: np.ndarray, loss: str) -> None:
    assert other.objective_ == pytest.approx(model.objective_, abs=1e-9)
    size = np.linalg.norm(expected)
    np.testing.assert_allclose(other.metric_, expected, rtol=0, atol=SHARPNESS[loss] * size)


@each_estimator
@each_loss
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_invariant(estimator: type[CrowdMetric], loss: str, name: str) -> None:
    transform, moved = TRANSFORMATIONS[name]
    before = study(loss)
    model, other = before.fit(estimator), transform(before).fit(estimator)
    assert_same_fit(model, other, moved(model.metric_), loss)


@pytest.mark.parametrize("stitch", METHODS)
def test_turning_the_items_turns_every_stitch(stitch: str) -> None:
    transform, moved = TRANSFORMATIONS["turn the items"]
    before = study("logistic")
    model, other = (s.fit(StitchedMetric, stitch=stitch) for s in (before, transform(before)))
    expected = moved(model.metric_)
    np.testing.assert_allclose(other.metric_, expected, rtol=0, atol=1e-7 * np.linalg.norm(expected))


@pytest.mark.parametrize("stitch", ["ols", "weighted"])
@each_loss
def test_any_basis_of_a_plane_will_do(stitch: str, loss: str) -> None:
    """Not so for the Huber stitch, whose residuals are the entries of B.T @ A @ B."""
    before = study(loss)
    skewed = before.bases @ np.array([[1.0, 2.0], [0.0, -3.0]])
    model, other = (replace(before, bases=B).fit(StitchedMetric, stitch=stitch) for B in (before.bases, skewed))
    # weights are curvatures after people were eliminated: differences, which keep half the digits
    accuracy = SHARPNESS[loss] if stitch == "ols" else max(SHARPNESS[loss], 1e-6)
    np.testing.assert_allclose(other.metric_, model.metric_, rtol=0, atol=accuracy * np.linalg.norm(model.metric_))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_moving_the_origin_moves_people_and_not_the_metric(loss: str) -> None:
    """δ stays and s moves by 2c, which v ← v − 2Mc makes up for, as long as nobody sits on their bound."""
    crowd = simulate_crowd(2, None, None, users=8, comparisons=40, seed=0)
    y = crowd.psi if loss == "squared" else crowd.y
    bounds = {} if loss == "squared" else {"metric_bound": 20.0, "ideal_bound": 60.0, "tol": 1e-10}
    shift = np.array([1.0, -2.0])
    here, there = (
        IdealPointMetric(items, loss=loss, **bounds).fit(crowd.pairs, y, users=crowd.users)
        for items in (crowd.items, crowd.items + shift)
    )
    if bounds:
        for model in (here, there):
            assert np.linalg.norm(model.pseudo_ideal_points_, axis=1).max() < 0.5 * bounds["ideal_bound"]
            assert np.linalg.norm(model.metric_) < 0.5 * bounds["metric_bound"]
    accuracy = 1e-11 if loss == "squared" else 1e-4
    np.testing.assert_allclose(there.metric_, here.metric_, rtol=0, atol=accuracy)
    moved = here.pseudo_ideal_points_ - 2.0 * shift @ here.metric_
    np.testing.assert_allclose(there.pseudo_ideal_points_, moved, rtol=0, atol=10 * accuracy)
    np.testing.assert_allclose(there.ideal_points_, here.ideal_points_ + shift, rtol=0, atol=20 * accuracy)


# ---------------------------------------------------------------------------------------- inside a subspace


def test_phantom_ideal_point() -> None:
    """Inside span(B) a person at u answers as one at u_V does under BᵀMB, where BᵀMB u_V = BᵀM u."""
    crowd = simulate_crowd(5, 3, 2, users=4, comparisons=6, seed=0)
    for index, B in enumerate(crowd.bases):
        rows = crowd.labels[crowd.pairs[:, 0]] == index
        u, (x, x_) = crowd.ideal_points[crowd.users[rows]], crowd.items[crowd.pairs[rows]].swapaxes(0, 1)
        Q = B.T @ crowd.metric @ B
        u_V = np.linalg.solve(Q, B.T @ crowd.metric @ u.T).T

        def square(z: np.ndarray, A: np.ndarray) -> np.ndarray:
            return np.einsum("ti,ij,tj->t", z, A, z)

        inside = square(x @ B - u_V, Q) - square(x_ @ B - u_V, Q)
        np.testing.assert_allclose(inside, crowd.psi[rows], rtol=0, atol=1e-12)


@each_loss
def test_stage_one_is_a_joint_fit_in_coordinates(loss: str) -> None:
    s = study(loss)
    stitched = s.fit(StitchedMetric)
    objective, weight = 0.0, 0.0
    for index, B in enumerate(s.bases):
        rows = stitched.labels_[s.pairs[:, 0]] == index
        alone = IdealPointMetric(
            s.items @ B, loss=loss, metric_bound=s.metric_bound, ideal_bound=s.ideal_bound, tol=1e-9
        ).fit(s.pairs[rows], s.y[rows], users=s.users[rows], sample_weight=s.weight[rows])
        Q = stitched.subspace_metrics_[index]
        np.testing.assert_allclose(Q, alone.metric_, rtol=0, atol=SHARPNESS[loss])
        on_bound = np.linalg.norm(Q) > (1 - 1e-4) * s.metric_bound
        assert stitched.bound_is_active_[index] == on_bound
        objective += alone.objective_ * s.weight[rows].sum()
        weight += s.weight[rows].sum()
    assert stitched.objective_ == pytest.approx(objective / weight, abs=1e-9)


# ------------------------------------------------------------------------------------------------- Algorithm 1


def exactly(crowd, **options: Any) -> StitchedMetric:
    model = StitchedMetric(crowd.items, loss="squared", **options)
    return model.fit(crowd.pairs, crowd.psi, users=crowd.users)


@pytest.mark.parametrize(("d", "n", "r", "m"), [(3, 6, 1, 2), (3, 4, 2, 3), (5, 9, 2, 3), (6, 8, 3, 5), (4, 1, 4, 6)])
def test_unquantized_answers_in_subspaces_recover_the_metric(d: int, n: int, r: int, m: int) -> None:
    crowd = simulate_crowd(d, n, r, users=12, comparisons=m, seed=d)
    model = exactly(crowd, subspaces=crowd.bases)
    np.testing.assert_allclose(model.metric_, crowd.metric, rtol=0, atol=1e-8)
    for B, Q in zip(crowd.bases, model.subspace_metrics_, strict=True):
        np.testing.assert_allclose(Q, B.T @ crowd.metric @ B, rtol=0, atol=1e-8)
    psi = model.decision_function(crowd.pairs, users=crowd.users)
    np.testing.assert_allclose(psi, crowd.psi, rtol=0, atol=1e-7)


# Labels find the same subspaces as bases, whatever the labels are and whoever is nowhere.
LABELINGS: dict[str, Callable[[np.ndarray], Any]] = {
    "integers": lambda labels: labels,
    "text": lambda labels: np.array([f"shelf {x}" for x in labels]),
    "objects": lambda labels: np.array([f"shelf {x}" for x in labels], dtype=object),
    "a list": lambda labels: labels.tolist(),
}


@pytest.mark.parametrize("name", LABELINGS)
def test_labels_and_bases_give_the_same(name: str) -> None:
    crowd = simulate_crowd(3, 6, 2, users=6, comparisons=4, seed=1)
    given = {"stitch": "ols", "metric_bound": 3.0, "ideal_bound": 4.0}
    by_bases, by_labels = (
        StitchedMetric(crowd.items, subspaces=where, **given).fit(crowd.pairs, crowd.y, users=crowd.users)
        for where in (crowd.bases, LABELINGS[name](crowd.labels))
    )
    np.testing.assert_array_equal(by_bases.labels_, crowd.labels)
    np.testing.assert_array_equal(by_labels.labels_, crowd.labels)
    np.testing.assert_allclose(by_labels.metric_, by_bases.metric_, rtol=0, atol=1e-9)
    for B, C in zip(by_labels.bases_, by_bases.bases_, strict=True):
        np.testing.assert_allclose(B @ B.T, C @ C.T, atol=1e-12)


def test_ranks_may_differ() -> None:
    line, plane, space = (
        simulate_crowd(4, n, r, users=8, comparisons=r + 2, seed=seed, metric=np.diag([4.0, 3.0, 2.0, 1.0]))
        for seed, (n, r) in enumerate([(3, 1), (4, 2), (2, 3)])
    )
    crowds, bases = (line, plane, space), [*line.bases, *plane.bases, *space.bases]
    offsets = np.cumsum([0] + [len(c.items) for c in crowds])
    items = np.concatenate([c.items for c in crowds])
    pairs = np.concatenate([c.pairs + offset for c, offset in zip(crowds, offsets, strict=False)])
    psi = np.concatenate([c.psi for c in crowds])
    users = np.concatenate([c.users + 1000 * i for i, c in enumerate(crowds)])
    exact = StitchedMetric(items, subspaces=bases, loss="squared").fit(pairs, psi, users=users)
    np.testing.assert_allclose(exact.metric_, line.metric, rtol=0, atol=1e-8)
    assert [B.shape[1] for B in exact.bases_] == [1, 1, 1, 2, 2, 2, 2, 3, 3]
    labels = np.concatenate([c.labels + start for c, start in zip(crowds, (0, 3, 7), strict=True)])
    bounded = StitchedMetric(items, subspaces=labels, metric_bound=6.0, ideal_bound=np.arange(1.0, 10.0))
    bounded.fit(pairs, np.where(psi < 0, -1, 1), users=users)
    assert [Q.shape[0] for Q in bounded.subspace_metrics_] == [1, 1, 1, 2, 2, 2, 2, 3, 3]
    assert all(np.all(np.isfinite(Q)) for Q in bounded.subspace_metrics_)


# --------------------------------------------------------------------------------------- across and between


def test_comparisons_across_subspaces_are_counted_and_left_out_of_stage_one() -> None:
    crowd = simulate_crowd(3, 6, 2, users=6, comparisons=4, seed=1)
    across = np.array([[0, 60], [60, 110], [5, 200]])  # items of different planes
    assert np.all(crowd.labels[across[:, 0]] != crowd.labels[across[:, 1]])
    options = {"subspaces": crowd.bases, "metric_bound": 3.0, "ideal_bound": 4.0}
    model = StitchedMetric(crowd.items, **options).fit(crowd.pairs, crowd.y, users=crowd.users)
    more = StitchedMetric(crowd.items, **options)
    with pytest.warns(DroppedRowsWarning, match=r"^3 of 147 comparisons are between items of different subspaces"):
        more.fit(
            np.concatenate([crowd.pairs, across]),
            np.append(crowd.y, [1, 1, -1]),
            users=np.append(crowd.users, [0, 0, 1]),
        )
    assert (model.n_across_, more.n_across_) == (0, 3)
    for Q, R in zip(model.subspace_metrics_, more.subspace_metrics_, strict=True):
        np.testing.assert_allclose(Q, R, rtol=0, atol=1e-9)
    np.testing.assert_allclose(more.metric_, model.metric_, rtol=0, atol=1e-9)
    # people are placed with all they said
    moved = np.linalg.norm(more.pseudo_ideal_points_ - model.pseudo_ideal_points_, axis=1)
    assert np.all(moved[:2] > 1e-3)
    assert np.all(moved[2:] < 1e-3)


def three_planes() -> tuple[np.ndarray, np.ndarray]:
    """The coordinate planes of R³, and items: two inside each, then one on each axis, where two planes meet."""
    e = np.eye(3)
    bases = np.stack([e[:, [0, 1]], e[:, [1, 2]], e[:, [0, 2]]])
    inside = np.array([B @ c for B in bases for c in ([1.0, 2.0], [-1.5, 1.0])])
    return np.concatenate([inside, e]), bases


PLANES = {
    "both in the first": ((0, 1), 0),
    "first and second": ((0, 2), -1),
    "the x axis and the first": ((6, 1), 0),
    "the x axis and the third": ((6, 4), 2),
    "the x axis and the second": ((6, 2), -1),
    "the z axis and the second": ((3, 8), 1),
    "the y axis and the second": ((7, 3), 1),
    "the x and the y axis": ((6, 7), 0),
    "the y and the z axis": ((7, 8), 1),
    "the z and the x axis": ((8, 6), 2),
}


@pytest.mark.parametrize("name", PLANES)
def test_items_where_planes_meet_belong_to_both(name: str) -> None:
    pair, plane = PLANES[name]
    items, bases = three_planes()
    subspaces = given_subspaces(items, bases, None)
    for order in (pair, pair[::-1]):
        np.testing.assert_array_equal(assign_pairs(items, np.array([order]), subspaces), [plane])


# ------------------------------------------------------------------------------- estimators that place nobody


@dataclass(frozen=True)
class Rows:
    """Rows of items (T, k), what was said about each, who said it, and how much it counts."""

    items: np.ndarray
    asked: np.ndarray
    y: np.ndarray
    users: np.ndarray
    weight: np.ndarray


def population_rows() -> Rows:
    crowd = simulate_crowd(2, None, None, users=300, comparisons=2, seed=5)
    return Rows(crowd.items, crowd.pairs, crowd.y, crowd.users, np.ones(crowd.y.size))


def matched_rows() -> Rows:
    """Two parallel questions to each of 200 people."""
    rng = np.random.default_rng(6)
    delta, middle = rng.standard_normal((200, 1, 2)), rng.standard_normal((200, 2, 2))
    items = np.stack([middle + 0.5 * delta, middle - 0.5 * delta], axis=2).reshape(-1, 2)
    pairs, users = np.arange(len(items)).reshape(-1, 2), np.repeat(np.arange(200), 2)
    y = answer(items, pairs, rng.standard_normal((200, 2))[users], np.diag([1.0, 0.5]), seed=6)
    return Rows(items, pairs, y, users, np.ones(y.size))


def triplet_rows() -> Rows:
    """Triplets, anchor first; −1 where the second item is the closer one."""
    told = simulate_judgements(12, 2, 400, seed=7)
    rows, counts = told.judgements.items, told.judgements.counts
    asked = np.concatenate([np.repeat(rows, counts[:, j].astype(int), axis=0) for j in (0, 1)])
    y = np.repeat([-1.0, 1.0], counts.sum(axis=0).astype(int))
    return Rows(told.items, asked, y, np.arange(y.size) % 7, np.ones(y.size))


def fit_population(rows: Rows) -> np.ndarray:
    """On grids. By default the integrals are approximate here, and renaming people moved the metric by 0.9 %."""
    model = PopulationMetric(rows.items, integration="grid", ridge=None, uncertainty=False, tol=1e-8)
    return model.fit(rows.asked, rows.y, users=rows.users, sample_weight=rows.weight).metric_


def fit_matched(rows: Rows) -> np.ndarray:
    model = MatchedMetric(rows.items, tol=1e-11)
    return model.fit(rows.asked, rows.y, users=rows.users, sample_weight=rows.weight).metric_


def fit_similarity(rows: Rows) -> np.ndarray:
    choice = np.where(rows.y < 0, "left", "right")
    told = Judgements.from_triplets(
        rows.asked, choice=choice, person=rows.users, weight=rows.weight, n_items=len(rows.items)
    )
    return SimilarityMetric(rows.items, structure="full", uncertainty=False).fit(told).metric_


def taste_rows() -> Rows:
    """Ten items, about which 30 people answer ten questions each."""
    rng = np.random.default_rng(9)
    items, users = rng.standard_normal((10, 2)), np.repeat(np.arange(30), 10)
    left = rng.integers(10, size=users.size)
    pairs = np.column_stack([left, (left + rng.integers(1, 10, size=users.size)) % 10])
    y = answer(items, pairs, rng.standard_normal((30, 2))[users], np.diag([1.0, 0.5]), seed=9)
    return Rows(items, pairs, y, users, np.ones(y.size))


def fit_tastes(rows: Rows) -> np.ndarray:
    model = TasteMetric(rows.items, structure="diagonal", uncertainty=False, tol=1e-6)
    return model.fit(rows.asked, rows.y, users=rows.users, sample_weight=rows.weight).metric_


def swapped(rows: Rows) -> Rows:
    """The last two items are the two sides, of a comparison and of a triplet."""
    order = [*range(rows.asked.shape[1] - 2), -1, -2]
    return replace(rows, asked=rows.asked[:, order], y=-rows.y)


def reordered(rows: Rows) -> Rows:
    order = np.random.default_rng(8).permutation(rows.y.size)
    return replace(rows, asked=rows.asked[order], y=rows.y[order], users=rows.users[order], weight=rows.weight[order])


PLANE = ortho_group.rvs(2, random_state=4)
# name: (what is done to the rows, what that does to M)
OF_ROWS: dict[str, tuple[Callable[[Rows], Rows], Callable[[np.ndarray], np.ndarray]]] = {
    "turn the items": (lambda s: replace(s, items=s.items @ PLANE.T), lambda M: PLANE @ M @ PLANE.T),
    "shift the items": (lambda s: replace(s, items=s.items + np.array([0.5, -1.0])), unchanged),
    "scale the items": (lambda s: replace(s, items=SCALE * s.items), lambda M: M / SCALE**2),
    "swap the sides": (swapped, unchanged),
    "rename people": (lambda s: replace(s, users=np.array([f"p{999 - u}" for u in s.users])), unchanged),
    "reorder rows": (reordered, unchanged),
}
# name: (rows, fit, accuracy relative to M: a bound on what its solver leaves over)
OF_NOBODY_PLACED: dict[str, tuple[Callable[[], Rows], Callable[[Rows], np.ndarray], float]] = {
    "population": (population_rows, fit_population, 1e-3),
    "matched": (matched_rows, fit_matched, 1e-5),
    "similarity": (triplet_rows, fit_similarity, 1e-4),
    "taste": (taste_rows, fit_tastes, 1e-3),
}


def assert_close(found: np.ndarray, expected: np.ndarray, accuracy: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=accuracy * np.linalg.norm(expected))


# Off-diagonal entries of a similarity metric are shrunk to zero, and a diagonal taste metric has none: both depend on
# the axes.
CASES_WITHOUT_PLACES = [
    (estimator, name)
    for estimator in OF_NOBODY_PLACED
    for name in OF_ROWS
    if not (estimator in ("similarity", "taste") and name == "turn the items")
]


@pytest.mark.parametrize(("estimator", "name"), CASES_WITHOUT_PLACES)
def test_invariant_without_places(estimator: str, name: str) -> None:
    make, fit, accuracy = OF_NOBODY_PLACED[estimator]
    transform, moved = OF_ROWS[name]
    assert_close(fit(transform(make())), moved(fit(make())), accuracy)


def twice(rows: Rows, users: np.ndarray) -> Rows:
    return Rows(rows.items, doubled(rows.asked), doubled(rows.y), users, doubled(rows.weight))


@pytest.mark.parametrize("estimator", OF_NOBODY_PLACED)
def test_twice_the_weight_is_a_row_twice(estimator: str) -> None:
    """Matched sets are made of different questions: there the second copy is that of a twin of each person."""
    make, fit, accuracy = OF_NOBODY_PLACED[estimator]
    rows = make()
    half = replace(rows, weight=0.5 * rows.weight)
    twin = rows.users + 1000 if estimator == "matched" else rows.users
    assert_close(fit(twice(half, np.concatenate([rows.users, twin]))), fit(rows), accuracy)


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
def test_names_do_not_decide_how_people_are_integrated_out() -> None:
    """The sample of people on which propagation is checked once depended on their order: 0.9 % of this metric."""
    crowd = simulate_crowd(2, None, None, users=400, comparisons=3, seed=5)
    fits = [
        PopulationMetric(crowd.items, ridge=0.0, uncertainty=False).fit(crowd.pairs, crowd.y, users=users)
        for users in (crowd.users, 399 - crowd.users)
    ]
    assert fits[0].integration_ == fits[1].integration_
    np.testing.assert_allclose(fits[1].metric_, fits[0].metric_, rtol=1e-3)


# --------------------------------------------------------------------------- what is drawn, is drawn by content


@dataclass(frozen=True)
class Other:
    """The same answers in another order: what is asked of the model afterwards, in the numbers of this order."""

    rows: Rows
    question: Callable[[np.ndarray], np.ndarray]
    person: Callable[[np.ndarray], np.ndarray]


def same(numbers: np.ndarray) -> np.ndarray:
    return numbers


def other_orders(rows: Rows) -> dict[str, Other]:
    rng = np.random.default_rng(12)
    order, people = rng.permutation(rows.y.size), rng.permutation(rows.users.max() + 1)
    catalog = rng.permutation(len(rows.items))
    place = np.argsort(catalog)
    turned = rng.random(rows.y.size) < 0.5
    some_swapped = np.where(turned[:, None], rows.asked[:, ::-1], rows.asked)
    moved = replace(rows, asked=rows.asked[order], y=rows.y[order], users=rows.users[order], weight=rows.weight[order])
    return {
        "rows": Other(moved, same, same),
        "items": Other(replace(rows, items=rows.items[catalog], asked=place[rows.asked]), place.__getitem__, same),
        "people": Other(replace(rows, users=people[rows.users]), same, people.__getitem__),
        "sides": Other(replace(rows, asked=some_swapped, y=np.where(turned, -rows.y, rows.y)), same, same),
    }


def crowd_rows(people: int, answers: int, n_items: int, d: int = 2) -> Rows:
    """People with tastes for single items; two of the items are alike."""
    rng = np.random.default_rng(11)
    items, users = rng.standard_normal((n_items, d)), np.repeat(np.arange(people), answers)
    items[1] = items[0]
    left = rng.integers(n_items, size=users.size)
    pairs = np.column_stack([left, (left + rng.integers(1, n_items, size=users.size)) % n_items])
    liked = rng.standard_normal((people, n_items)) - np.sum((items - rng.standard_normal((people, 1, d))) ** 2, axis=2)
    gap = liked[users, pairs[:, 1]] - liked[users, pairs[:, 0]]
    y = np.where(rng.random(users.size) < 1.0 / (1.0 + np.exp(-gap)), 1.0, -1.0)
    return Rows(items, pairs, y, users, np.ones(users.size))


# name: (rows, estimator of items): calibration by parts of a crowd, hidden items, radii by cross-validation over some
# of the people.
DRAWING: dict[str, tuple[Rows, Callable[[np.ndarray], CrowdMetric]]] = {
    "taste": (crowd_rows(60, 10, 16), lambda items: TasteMetric(items, uncertainty=False)),
    "population": (crowd_rows(1100, 3, 12), lambda items: PopulationMetric(items, starts=1, uncertainty=False)),
    "ideal points": (crowd_rows(520, 4, 12), IdealPointMetric),
}


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.CrowdmetricWarning")
@pytest.mark.parametrize("name", DRAWING)
def test_predictions_do_not_depend_on_any_order(name: str) -> None:
    """Hidden parts went by position: probabilities of tastes moved by up to 3.6 points."""
    rows, make = DRAWING[name]
    question, person = rows.asked[:150], rows.users[:150]

    def probability(other: Rows, question: np.ndarray, person: np.ndarray) -> np.ndarray:
        model = make(other.items).fit(other.asked, other.y, users=other.users)
        return model.predict_proba(question, users=person)[:, 1]

    here = probability(rows, question, person)
    for order, other in other_orders(rows).items():
        there = probability(other.rows, other.question(question), other.person(person))
        np.testing.assert_allclose(there, here, rtol=0, atol=1e-4, err_msg=order)


def test_tastes_of_vectors_are_those_of_rows() -> None:
    """They differed by up to 5.8 points."""
    rows = crowd_rows(60, 10, 16)
    items = rows.items + 1e-3 * np.arange(len(rows.items))[:, None]  # equal vectors are one item
    by_row, by_vector = TasteMetric(items, uncertainty=False), TasteMetric(uncertainty=False)
    by_row.fit(rows.asked, rows.y, users=rows.users)
    by_vector.fit(items[rows.asked], rows.y, users=rows.users)
    there = by_vector.predict_proba(items[rows.asked[:150]], users=rows.users[:150])
    np.testing.assert_allclose(there, by_row.predict_proba(rows.asked[:150], users=rows.users[:150]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", SPLITS)
@pytest.mark.parametrize("known", [False, True], ids=["answers alone", "features"])
def test_splits_do_not_depend_on_any_order(kind: str, known: bool) -> None:
    rows = crowd_rows(40, 6, 12)

    def hidden(other: Rows) -> np.ndarray:
        table = Comparisons.from_arrays(other.users, other.asked, other.y, n_items=len(other.items))
        parts = split(table, kind, SplitPlan(), seed=3, items=other.items if known else None)
        return np.isin(np.arange(other.y.size), parts.test)

    here = hidden(rows)
    order = np.random.default_rng(12).permutation(rows.y.size)
    for name, other in other_orders(rows).items():
        np.testing.assert_array_equal(hidden(other.rows), here[order] if name == "rows" else here, err_msg=name)


@pytest.mark.parametrize("kind", SIMILARITY_SPLITS)
def test_folds_of_judgements_do_not_depend_on_any_order(kind: str) -> None:
    rows = triplet_rows()

    def folds(other: Rows) -> list[set[int]]:
        told = Judgements.from_triplets(
            other.asked, choice=np.where(other.y < 0, "left", "right"), person=other.users, n_items=len(other.items)
        )
        first = np.sort(told.items, axis=1) @ [10_000, 100, 1]
        return [set(first[mask]) for _, mask in similarity_folds(told, kind, 3, 0, other.items)]

    renamed = replace(rows, users=6 - rows.users)
    for other in (swapped(rows), reordered(rows), renamed):
        assert folds(other) == folds(rows)


def test_a_similarity_metric_does_not_depend_on_the_order_of_items() -> None:
    """Its structure is chosen by items left out."""
    rows = triplet_rows()
    catalog = np.random.default_rng(1).permutation(len(rows.items))

    def metric(items: np.ndarray, asked: np.ndarray) -> np.ndarray:
        told = Judgements.from_triplets(asked, choice=np.where(rows.y < 0, "left", "right"), n_items=len(items))
        return SimilarityMetric(items, uncertainty=False).fit(told).metric_

    assert_close(metric(rows.items[catalog], np.argsort(catalog)[rows.asked]), metric(rows.items, rows.asked), 1e-9)


def test_discovered_subspaces_do_not_depend_on_the_order_of_items() -> None:
    crowd = simulate_crowd(4, 6, 2, users=5, comparisons=8, noise=0.05, seed=0)
    order = np.random.default_rng(0).permutation(len(crowd.items))
    here, there = (discover_subspaces(items, repeats=0, sample=150) for items in (crowd.items, crowd.items[order]))
    np.testing.assert_array_equal(there.labels, here.labels[order])
