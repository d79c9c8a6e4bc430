"""The generator against the laws it promises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from crowdmetric.errors import DataError
from crowdmetric.simulate import PEOPLE, responses, sample_metric, sample_subspaces, simulate_crowd

BASE = {"dimension": 6, "subspaces": 5, "rank": 2, "users": 4, "comparisons": 3, "seed": 0}


def crowd_of(**changes):
    return simulate_crowd(**(BASE | changes))


def second_moment(X: np.ndarray) -> np.ndarray:
    return X.T @ X / len(X)


def test_shapes_and_numbering() -> None:
    crowd = crowd_of()
    T = 5 * 4 * 3
    assert crowd.items.shape == (2 * T, 6)
    assert crowd.pairs.shape == (T, 2)
    assert crowd.y.shape == crowd.users.shape == crowd.psi.shape == (T,)
    assert crowd.metric.shape == (6, 6)
    assert crowd.ideal_points.shape == (20, 6)
    assert crowd.bases.shape == (5, 6, 2)
    assert crowd.labels.shape == (2 * T,)
    np.testing.assert_array_equal(np.sort(crowd.pairs, axis=None), np.arange(2 * T))
    np.testing.assert_array_equal(np.bincount(crowd.users), np.full(20, 3))
    # A person answers about one subspace, and both items of a pair are of it.
    np.testing.assert_array_equal(crowd.labels[crowd.pairs[:, 0]], crowd.users // 4)
    np.testing.assert_array_equal(crowd.labels[crowd.pairs[:, 1]], crowd.users // 4)
    assert set(np.unique(crowd.y)) <= {-1, 1}


def test_metric_is_positive_definite_of_norm_d() -> None:
    for d in (1, 3, 10):
        M = sample_metric(d, np.random.default_rng(d))
        np.testing.assert_allclose(np.linalg.norm(M), d)
        np.testing.assert_allclose(M, M.T)
        assert np.linalg.eigvalsh(M)[0] > 0


def test_bases_are_orthonormal_and_uniform() -> None:
    B = sample_subspaces(20_000, 5, 2, np.random.default_rng(0))
    np.testing.assert_allclose(np.swapaxes(B, 1, 2) @ B, np.tile(np.eye(2), (20_000, 1, 1)), atol=1e-12)
    # The mean projector of uniform subspaces is (r/d) I.
    np.testing.assert_allclose((B @ np.swapaxes(B, 1, 2)).mean(axis=0), 0.4 * np.eye(5), atol=0.01)


def test_items_lie_in_their_subspaces() -> None:
    crowd = crowd_of()
    for label, B in enumerate(crowd.bases):
        X = crowd.items[crowd.labels == label]
        np.testing.assert_allclose(X @ B @ B.T, X, atol=1e-12)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_item_covariance(noise: float) -> None:
    crowd = crowd_of(subspaces=2, users=500, comparisons=50, noise=noise)
    for label, B in enumerate(crowd.bases):
        X, P = crowd.items[crowd.labels == label], B @ B.T
        expected = P / 2 + noise**2 / 4 * (np.eye(6) - P)
        np.testing.assert_allclose(second_moment(X), expected, atol=0.012)
        np.testing.assert_allclose(X.mean(axis=0), 0, atol=0.012)


def test_general_position() -> None:
    crowd = simulate_crowd(4, None, None, 5_000, 5, seed=1)
    np.testing.assert_array_equal(crowd.bases, np.eye(4)[None])
    assert not crowd.labels.any()
    np.testing.assert_allclose(second_moment(crowd.items), np.eye(4) / 4, atol=0.01)
    np.testing.assert_array_equal(simulate_crowd(4, 0, 4, 5_000, 5, seed=1).y, crowd.y)
    np.testing.assert_array_equal(simulate_crowd(4, 1, 4, 5_000, 5, seed=1).items, crowd.items)


# Covariance of the ideal points times d; t₃ has no fourth moment, so its covariance is not a stable figure.
@pytest.mark.parametrize(("people", "scale"), [("gaussian", 1.0), ("ball", 6 / 8)])
def test_ideal_point_covariance(people: str, scale: float) -> None:
    U = crowd_of(users=20_000, comparisons=1, people=people).ideal_points
    np.testing.assert_allclose(6 * second_moment(U), scale * np.eye(6), atol=0.02)
    np.testing.assert_allclose(U.mean(axis=0), 0, atol=0.01)


def test_people_in_the_ball_are_uniform() -> None:
    radius = np.linalg.norm(crowd_of(users=20_000, comparisons=1, people="ball").ideal_points, axis=1)
    assert radius.max() <= 1
    np.testing.assert_allclose(np.quantile(radius**6, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.01)


def test_heavy_people_have_the_tail_of_t3() -> None:
    U = np.sqrt(6) * crowd_of(users=20_000, comparisons=1, people="heavy").ideal_points
    # Quantiles of |t₃| at 50 % and 95 %.
    np.testing.assert_allclose(np.quantile(np.abs(U), [0.5, 0.95]), [0.7649, 3.1824], rtol=0.03)


def test_clusters_are_three() -> None:
    U = crowd_of(dimension=40, users=400, comparisons=1, people="clusters").ideal_points
    # Within a cluster, squared distances are about 2 × 0.1; between clusters, about 2 × 1.1.
    near = ((U[:, None] - U[None]) ** 2).sum(axis=2) < 0.6
    sizes = np.unique(near, axis=0).sum(axis=1)
    assert len(sizes) == 3
    assert sizes.sum() == len(U)
    assert sizes.min() > len(U) / 4


def test_psi_is_the_difference_of_squared_distances() -> None:
    crowd = crowd_of(noise=0.3)

    def squared_distance(x, u):
        return (x - u) @ crowd.metric @ (x - u)

    for t, (left, right) in enumerate(crowd.pairs):
        u = crowd.ideal_points[crowd.users[t]]
        expected = squared_distance(crowd.items[left], u) - squared_distance(crowd.items[right], u)
        assert crowd.psi[t] == pytest.approx(expected)


def test_answers_follow_the_link() -> None:
    rng = np.random.default_rng(0)
    psi = np.repeat([-2.0, -0.3, 0.0, 1.0], 40_000)
    frequency = (responses(psi, 1.5, rng) == 1).reshape(4, -1).mean(axis=1)
    np.testing.assert_allclose(frequency, expit(1.5 * np.array([-2.0, -0.3, 0.0, 1.0])), atol=0.01)


def test_beta_zero_is_a_coin_and_infinity_is_the_sign() -> None:
    coin = crowd_of(users=2_000, beta=0)
    assert abs(np.mean(coin.y * np.sign(coin.psi))) < 0.02
    exact = crowd_of(beta=np.inf)
    np.testing.assert_array_equal(exact.y, np.sign(exact.psi))
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(responses([-1.0, 0.0, -0.0, 2.0], np.inf, rng), [-1, 1, 1, 1])


def test_a_seed_gives_one_crowd() -> None:
    first, again, other = crowd_of(), crowd_of(), crowd_of(seed=1)
    for field in ("items", "pairs", "y", "users", "metric", "ideal_points", "bases", "labels", "psi"):
        np.testing.assert_array_equal(getattr(first, field), getattr(again, field))
    assert not np.array_equal(first.metric, other.metric)


def test_a_generator_gives_a_new_crowd_each_time() -> None:
    rng = np.random.default_rng(0)
    first, second = crowd_of(seed=rng), crowd_of(seed=rng)
    assert not np.array_equal(first.metric, second.metric)
    np.testing.assert_array_equal(first.metric, crowd_of(seed=np.random.default_rng(0)).metric)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"users": 9}, ["metric", "bases"]),
        ({"comparisons": 9}, ["metric", "bases", "ideal_points"]),
        ({"people": "heavy"}, ["metric", "bases", "items"]),
        ({"beta": 4.0}, ["metric", "bases", "ideal_points", "items", "psi"]),
        ({"noise": 0.2}, ["metric", "bases", "ideal_points"]),
        ({"metric": np.eye(6)}, ["bases", "ideal_points", "items"]),
    ],
    ids=str,
)
def test_streams_are_independent(change: dict, kept: list[str]) -> None:
    before, after = crowd_of(), crowd_of(**change)
    for field in kept:
        np.testing.assert_array_equal(getattr(before, field), getattr(after, field))


def test_a_given_metric_is_used_as_it_is() -> None:
    M = np.diag([3.0, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(crowd_of(metric=M).metric, M)
    np.testing.assert_array_equal(crowd_of(metric=M.tolist()).metric, M)


def test_summary_says_what_was_drawn() -> None:
    text = crowd_of(noise=0.1, beta=np.inf).summary()
    assert "120 items in 6 dimensions, in 5 subspaces of dimension 2, noise 0.1" in text
    assert "20 people, 3 comparisons each, 60 answers" in text
    assert "beta inf: 100.0% of the answers" in text
    assert "in general position" in simulate_crowd(3, None, None, 2, 2, seed=0).summary()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimension": 0}, "dimension=0 is not a whole number of at least 1"),
        ({"users": 2.5}, "users=2.5 is not a whole number"),
        ({"comparisons": True}, "comparisons=True is not"),
        ({"subspaces": -1}, "subspaces=-1 is not"),
        ({"rank": None}, "rank=None is not"),
        ({"rank": 7}, "rank is 7, but a subspace of 6 dimensions"),
        ({"subspaces": None}, "rank is 2 without subspaces"),
        ({"beta": -1.0}, "beta is -1.0, but it must be a number of at least 0"),
        ({"beta": np.nan}, "beta is nan"),
        ({"noise": -0.1}, "noise is -0.1"),
        ({"noise": np.inf}, "noise is inf"),
        ({"rank": 6, "noise": 0.1}, "noise is 0.1, but items of rank 6 fill the space"),
        ({"people": "martians"}, "people is 'martians', but it must be one of 'gaussian', 'clusters'"),
        ({"metric": np.eye(5)}, r"metric has shape \(5, 5\)"),
        ({"metric": np.full((6, 6), np.nan)}, "not finite"),
        ({"metric": np.triu(np.ones((6, 6)))}, "not symmetric"),
        ({"metric": -np.eye(6)}, "eigenvalue -1"),
    ],
    ids=str,
)
def test_bad_input_gets_one_sentence(change: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        crowd_of(**change)


@pytest.mark.parametrize("people", PEOPLE)
def test_every_kind_of_people_can_be_drawn(people: str) -> None:
    assert np.all(np.isfinite(crowd_of(people=people).ideal_points))
