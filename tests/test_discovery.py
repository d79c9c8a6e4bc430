"""Subspaces found among items: the mathematics of the parts, what is recovered, and what is said when nothing is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score

from crowdmetric import StitchedMetric
from crowdmetric.bounded.discover import neighbor_graph, spectrum
from crowdmetric.bounded.flats import (
    assign_flats,
    background_density,
    criterion,
    fit_flats,
    merge_flats,
    refine_flats,
)
from crowdmetric.errors import DataError
from crowdmetric.identifiability import diagnose
from crowdmetric.persist import load_model, save_model
from crowdmetric.simulate import responses, sample_subspaces, simulate_crowd
from crowdmetric.subspaces import discover_subspaces, given_subspaces
from crowdmetric.symmetric import relative_error

BOUNDS = {"metric_bound": 10.0, "ideal_bound": 10.0, "tol": 1e-6}


def mixture(n, d, r, size, noise, *, outliers=0, away=0.0, seed=0):
    generator = np.random.default_rng(seed)
    bases = sample_subspaces(n, d, r, generator)
    inside = generator.normal(size=(n, size, r)) @ np.swapaxes(bases, 1, 2) / np.sqrt(r)
    offsets = generator.normal(size=(n, 1, d)) * away / np.sqrt(d)
    items = (inside + offsets + noise / np.sqrt(d) * generator.normal(size=(n, size, d))).reshape(-1, d)
    items = np.concatenate([items, generator.normal(size=(outliers, d)) * np.sqrt((1 + away**2) / d)])
    labels = np.concatenate([np.repeat(np.arange(n), size), np.full(outliers, -1)])
    order = generator.permutation(len(labels))
    return items[order], labels[order], bases


# ------------------------------------------------------------------------------------------------- the parts


@pytest.mark.parametrize("affine", [False, True])
def test_densities_are_gaussian(affine) -> None:
    X, labels, _ = mixture(3, 5, 2, 30, 0.1, away=float(affine))
    flats = fit_flats(X, labels, 2, affine=affine)
    found, best = assign_flats(X, flats, None)
    expected = np.empty((len(X), 3))
    for k in range(3):
        B = flats.bases[k]
        C = (B * flats.variances[k]) @ B.T + flats.noise * (np.eye(5) - B @ B.T)
        expected[:, k] = np.log(flats.weights[k]) + multivariate_normal(flats.offsets[k], C).logpdf(X)
    constant = 2.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(best, expected.max(axis=1) + constant, rtol=1e-8)
    np.testing.assert_array_equal(found, expected.argmax(axis=1))
    mean = X.mean(axis=0) if affine else np.zeros(5)
    C = (X - mean).T @ (X - mean) / len(X)
    C += 1e-3 * np.trace(C) / 5 * np.eye(5)
    np.testing.assert_allclose(
        background_density(X, affine=affine), multivariate_normal(mean, C).logpdf(X) + constant, rtol=1e-8
    )


def test_refining_never_raises_the_criterion_on_the_way() -> None:
    X, labels, _ = mixture(4, 6, 2, 50, 0.1)
    spoilt = np.where(np.random.default_rng(1).random(len(X)) < 0.3, 0, labels)
    first = fit_flats(X, spoilt, 2, affine=False)
    before = criterion(assign_flats(X, first, None)[1], first, False)
    flats, found, best = refine_flats(X, spoilt, 2, affine=False, stray=None)
    assert criterion(best, flats, False) < before
    assert adjusted_rand_score(labels, found) > 0.95


@pytest.mark.parametrize("affine", [False, True])
def test_halves_of_a_flat_are_joined_and_flats_are_not(affine) -> None:
    X, labels, _ = mixture(3, 6, 2, 200, 0.02, away=2.0 * affine)
    halves = 2 * labels + np.random.default_rng(0).integers(0, 2, len(X))
    flats = fit_flats(X, halves, 2, affine=affine)
    joined = merge_flats(flats, len(X), affine=affine)
    np.testing.assert_array_equal(joined[::2], joined[1::2])
    assert len(set(joined.tolist())) == 3
    forced = merge_flats(flats, len(X), affine=affine, least=2, forced=True)
    assert forced.max() + 1 == 2


def test_a_rank_of_half_the_dimensions_is_not_taken_for_more() -> None:
    X, _, _ = mixture(4, 12, 6, 150, 0.02)
    assert discover_subspaces(X, 4, repeats=0).rank == 6


def test_a_rank_is_chosen_again_where_a_later_start_finds_the_subspaces() -> None:
    """Twelve subspaces of nine dimensions in twenty: the eigengap sees one, and one flat likes any rank."""
    X, labels, _ = mixture(12, 20, 9, 200, 0.02)
    discovery = discover_subspaces(X, repeats=0)
    assert (discovery.n_subspaces, discovery.rank) == (12, 9)
    assert adjusted_rand_score(labels, discovery.labels) > 0.95


def test_the_spectrum_is_that_of_the_normalized_graph() -> None:
    X, _, _ = mixture(3, 6, 2, 40, 0.3)
    graph = neighbor_graph(X, 10, affine=False)
    dense = graph.toarray()
    np.testing.assert_allclose(dense, dense.T)
    root = np.sqrt(dense.sum(axis=1))
    exact = np.linalg.eigvalsh(dense / np.outer(root, root))[::-1]
    values, vectors = spectrum(graph, 8, 0)
    np.testing.assert_allclose(values[:6], exact[:6], atol=2e-3)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-4)


def test_copies_of_the_eigenvalue_one_are_all_found() -> None:
    """Twelve parts that do not touch: ARPACK from one vector finds five or six of the twelve."""
    X, _, _ = mixture(12, 20, 3, 50, 0.0)
    values, _ = spectrum(neighbor_graph(X, 5, affine=False), 20, 0)
    assert np.sum(values > 0.98) >= 12


@pytest.mark.parametrize("affine", [False, True])
def test_neighbors_are_the_nearest(affine) -> None:
    X = np.random.default_rng(0).normal(size=(60, 4))
    graph = neighbor_graph(X, 3, affine=affine).toarray()
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    near = -np.linalg.norm(X[:, None] - X[None], axis=2) if affine else np.abs(U @ U.T)
    np.fill_diagonal(near, -np.inf)
    for i in range(60):
        assert np.all(graph[i, np.argsort(-near[i])[:3]] > 0)
    assert np.all(np.diag(graph) == 0)


# ------------------------------------------------------------------------------------------ what is recovered


@pytest.fixture(scope="module")
def found():
    X, labels, bases = mixture(12, 20, 3, 100, 0.02, outliers=100)
    return discover_subspaces(X), labels, bases, X


def test_twelve_subspaces_their_rank_and_the_outliers_are_found(found) -> None:
    discovery, labels, bases, _ = found
    assert (discovery.n_subspaces, discovery.rank) == (12, 3)
    assert adjusted_rand_score(labels, discovery.labels) > 0.95
    assert discovery.stability > 0.95
    assert np.mean((discovery.labels < 0) == (labels < 0)) > 0.99
    for B in discovery.bases:  # largest principal angle to the nearest true one
        assert max(np.linalg.svd(B.T @ true)[1].min() for true in bases) > 0.999
    assert discovery.noise == pytest.approx(0.02, rel=0.1)


def test_the_summary_says_it(found) -> None:
    text = found[0].summary()
    assert text.startswith("12 subspaces of dimension 3 in 20 dimensions")
    assert "lie in none" in text
    assert "rank chosen by BIC among" in text
    assert min(found[0].trials, key=lambda trial: trial.criterion).rank == 3


def test_residuals_are_distances_from_the_flat(found) -> None:
    discovery, _, _, X = found
    i = int(np.flatnonzero(discovery.labels >= 0)[0])
    B = discovery.bases[discovery.labels[i]]
    assert discovery.residuals[i] == pytest.approx(np.linalg.norm(X[i] - B @ (B.T @ X[i])) / np.linalg.norm(X[i]))
    assert np.all(discovery.residuals[discovery.labels < 0] == 1.0)


def test_a_number_and_a_rank_that_are_given_are_kept() -> None:
    X, labels, _ = mixture(5, 8, 2, 60, 0.05)
    discovery = discover_subspaces(X, 5, 2, repeats=0)
    assert (discovery.n_subspaces, discovery.rank) == (5, 2)
    assert adjusted_rand_score(labels, discovery.labels) > 0.95
    assert np.isnan(discovery.stability)
    assert discover_subspaces(X, 3, repeats=0).n_subspaces == 3
    assert discover_subspaces(X, rank=1, repeats=0).rank == 1


def test_a_sample_finds_what_all_items_would() -> None:
    X, labels, _ = mixture(5, 10, 2, 300, 0.05)
    discovery = discover_subspaces(X, 5, 2, sample=200, repeats=0)
    assert len(discovery.labels) == len(X)
    assert adjusted_rand_score(labels, discovery.labels) > 0.95


def test_the_same_seed_gives_the_same_subspaces() -> None:
    X, _, _ = mixture(4, 6, 2, 40, 0.1)
    one, two = (discover_subspaces(X, repeats=0, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one.labels, two.labels)


def test_without_outliers_everybody_belongs_somewhere() -> None:
    X, _, _ = mixture(3, 6, 2, 60, 0.02, outliers=20)
    assert np.any(discover_subspaces(X, 3, 2, repeats=0).labels < 0)
    assert np.all(discover_subspaces(X, 3, 2, outliers=False, repeats=0).labels >= 0)


def test_affine_subspaces_need_affine() -> None:
    X, labels, _ = mixture(6, 8, 2, 80, 0.05, away=2.0)
    discovery = discover_subspaces(X, affine=True, repeats=0)
    assert (discovery.n_subspaces, discovery.rank) == (6, 2)
    assert adjusted_rand_score(labels, discovery.labels) > 0.95
    linear = discover_subspaces(X, repeats=0)
    assert linear.rank == 3  # a plane off the origin spans three dimensions
    assert np.all(linear.offsets == 0)


@pytest.mark.parametrize("law", ["gaussian", "correlated"])
def test_a_cloud_has_no_subspaces(law) -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 8))
    if law == "correlated":
        X = X @ generator.normal(size=(8, 8))
    with pytest.raises(DataError, match="no subspaces were found"):
        discover_subspaces(X, repeats=0)
    if law == "gaussian":
        assert discover_subspaces(X, 2, 3, repeats=0).rank == 3  # who insists gets the best there is


def test_many_dimensions_do_not_end_the_search_for_a_rank_early() -> None:
    """Below the true rank everything looks like background, rank after rank."""
    X, labels, _ = mixture(6, 60, 6, 150, 0.1, outliers=40)
    discovery = discover_subspaces(X, repeats=0)
    assert (discovery.n_subspaces, discovery.rank) == (6, 6)
    assert adjusted_rand_score(labels, discovery.labels) > 0.95


def test_items_at_the_origin_and_copies_do_no_harm() -> None:
    X, _, _ = mixture(3, 6, 2, 40, 0.02)
    X = np.concatenate([X, np.zeros((5, 6)), np.repeat(X[:3], 5, axis=0)])
    discovery = discover_subspaces(X, 3, 2, repeats=0)
    assert np.all(np.isfinite(discovery.residuals))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_subspaces": 0}, "n_subspaces=0"),
        ({"n_subspaces": 1000}, "give at most"),
        ({"rank": 6}, "rank=6 is too many"),
        ({"rank": 1.5}, "rank=1.5"),
        ({"repeats": -1}, "repeats=-1"),
        ({"sample": 1}, "sample=1"),
    ],
)
def test_wrong_options_get_a_sentence(options, sentence) -> None:
    X, _, _ = mixture(3, 6, 2, 10, 0.0)
    with pytest.raises(DataError, match=sentence):
        discover_subspaces(X, **options)


@pytest.mark.parametrize("items", [np.zeros((10, 3)), np.ones((10, 1)), np.full((10, 3), np.nan)])
def test_wrong_items_get_a_sentence(items) -> None:
    with pytest.raises(DataError, match="item"):
        discover_subspaces(items)


# ------------------------------------------------------------------------------------- in the stitched metric


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.DroppedRowsWarning")
def test_the_stitched_error_is_that_of_given_labels() -> None:
    crowd = simulate_crowd(4, 12, 2, users=30, comparisons=8, noise=0.02, seed=0)
    errors = []
    for options in ({"subspaces": crowd.labels}, {"subspaces": "discover", "n_subspaces": 12}):
        model = StitchedMetric(crowd.items, rank=2, **options, **BOUNDS)
        model.fit(crowd.pairs, crowd.y, users=crowd.users)
        errors.append(relative_error(model.metric_, crowd.metric))
    assert errors[1] < 1.1 * errors[0]
    assert model.discovery_.n_subspaces == 12
    assert model.stability_ == model.discovery_.stability > 0.8
    assert model.n_across_ < 0.05 * len(crowd.y)


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.DroppedRowsWarning")
def test_a_discovered_model_is_saved_and_says_so(tmp_path) -> None:
    crowd = simulate_crowd(4, 10, 2, users=5, comparisons=6, seed=0)
    model = StitchedMetric(crowd.items, subspaces="discover", n_subspaces=10, rank=2, stitch="ols", **BOUNDS)
    model.fit(crowd.pairs, crowd.y, users=crowd.users)
    save_model(tmp_path / "model", model)
    again = load_model(tmp_path / "model")
    assert "10 of dimension 2, discovered (stability" in again.summary()
    np.testing.assert_array_equal(again.estimator().labels_, model.labels_)


# --------------------------------------------------------------------------------------- what centering does


def affine_crowd(seed=0):
    """Return exact answers about planes that miss the origin, three people a plane with eight answers each."""
    generator = np.random.default_rng(seed)
    n, d, r, people, m = 12, 4, 2, 3, 8
    X, labels, _ = mixture(n, d, r, 2 * people * m, 0.0, away=2.0, seed=seed)
    order = np.argsort(labels, kind="stable")
    X, labels = X[order], labels[order]
    A = generator.normal(size=(d, d))
    M = A @ A.T
    pairs = np.arange(len(X)).reshape(-1, 2)
    users = np.arange(len(pairs)) // m
    u = generator.normal(size=(users.max() + 1, d))[users]
    left, right = X[pairs[:, 0]] - u, X[pairs[:, 1]] - u
    psi = np.einsum("ti,ij,tj->t", left, M, left) - np.einsum("ti,ij,tj->t", right, M, right)
    return X, labels, pairs, users, psi, M


def test_centring_loses_nothing() -> None:
    """ψ = ⟨zzᵀ − z'z'ᵀ, BᵀMB⟩ + ⟨z − z', −2BᵀM(u − o)⟩: exact answers give the exact metric."""
    X, labels, pairs, users, psi, M = affine_crowd()
    model = StitchedMetric(X, subspaces=labels, rank=2, affine=True, loss="squared").fit(pairs, psi, users=users)
    for B, Q in zip(model.bases_, model.subspace_metrics_, strict=True):
        np.testing.assert_allclose(Q, B.T @ M @ B, atol=1e-8)
    np.testing.assert_allclose(model.metric_, M, atol=1e-7)
    np.testing.assert_allclose(model.predict(pairs, users=users), psi, atol=1e-6)


def test_without_centring_a_plane_off_the_origin_cannot_be_learned_as_three_dimensions() -> None:
    """Its items span one dimension more, which no comparison ever runs along: 3 of 6 degrees of freedom are lost."""
    X, labels, pairs, users, _, _ = affine_crowd()
    linear = given_subspaces(X, labels, 3)
    inside = labels[pairs[:, 0]] == 0
    assert diagnose(X @ linear.bases[0], pairs[inside], users[inside]).rank == 3
    flat = given_subspaces(X, labels, 2, affine=True)
    coordinates = (X - flat.offsets[0]) @ flat.bases[0]
    assert diagnose(coordinates, pairs[inside], users[inside]).identified


def test_moving_all_items_of_an_affine_fit_changes_nothing() -> None:
    X, labels, pairs, users, psi, _ = affine_crowd()
    y = responses(psi, 1.0, np.random.default_rng(0))
    options = {"subspaces": labels, "rank": 2, "affine": True, **BOUNDS}
    here = StitchedMetric(X, **options).fit(pairs, y, users=users)
    there = StitchedMetric(X + 3.0, **options).fit(pairs, y, users=users)
    np.testing.assert_allclose(here.metric_, there.metric_, rtol=1e-4, atol=1e-4)


def test_bases_do_not_say_where_affine_subspaces_lie() -> None:
    X, _, pairs, users, psi, _ = affine_crowd()
    bases = sample_subspaces(3, 4, 2, np.random.default_rng(0))
    with pytest.raises(DataError, match="affine=True needs labels"):
        StitchedMetric(X, subspaces=bases, affine=True).fit(pairs, np.sign(psi), users=users)
