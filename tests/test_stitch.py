"""Stitching: the operator, the three regressions, and what is said when subspaces do not suffice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crowdmetric import StitchedMetric
from crowdmetric.bounded.stitching import METHODS, as_operator
from crowdmetric.bounded.subspace_map import SubspaceMap
from crowdmetric.errors import ConvergenceWarning, DataError, NotIdentifiedWarning
from crowdmetric.stitch import stitch, stitch_details, stitch_prefixes
from crowdmetric.symmetric import degrees_of_freedom, smat, svec

GOLDEN = Path(__file__).parents[2] / "shared" / "golden"
each_method = pytest.mark.parametrize("method", METHODS)


def load(case: int):
    path = GOLDEN / f"stage2_{case:02}.npz"
    if not path.exists():
        pytest.skip(f"no {path.name} beside the project")
    return np.load(path)


def random_bases(rng, d: int, ranks: list[int]) -> list[np.ndarray]:
    return [np.linalg.qr(rng.standard_normal((d, r)))[0] for r in ranks]


def random_metric(rng, d: int) -> np.ndarray:
    L = rng.standard_normal((d, d))
    return L @ L.T / d + 0.1 * np.eye(d)


def seen(M: np.ndarray, bases) -> list[np.ndarray]:
    return [B.T @ M @ B for B in bases]


def noisy(rng, metrics, size: float = 0.3) -> list[np.ndarray]:
    noise = [size * rng.standard_normal(Q.shape) for Q in metrics]
    return [Q + E + E.T for Q, E in zip(metrics, noise, strict=True)]


def informations(rng, bases) -> list[np.ndarray]:
    sizes = [degrees_of_freedom(B.shape[1]) for B in bases]
    roots = [rng.standard_normal((p, p + 1)) for p in sizes]
    return [F @ F.T for F in roots]


def needs(method: str, rng, bases) -> dict:
    return {"information": informations(rng, bases)} if method == "weighted" else {}


MIXED = [2, 1, 3, 1, 2, 2, 1, 3, 2, 2, 1, 3, 2]


# The operator ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [[1] * 7, [2] * 5, MIXED, [5, 1]])
def test_the_adjoint_is_the_adjoint(ranks: list[int]) -> None:
    rng = np.random.default_rng(0)
    subspaces = SubspaceMap(random_bases(rng, 5, ranks))
    a, u = rng.standard_normal(subspaces.shape[1]), rng.standard_normal(subspaces.shape[0])
    assert subspaces.forward(a) @ u == pytest.approx(a @ subspaces.adjoint(u), rel=1e-12)


@pytest.mark.parametrize("ranks", [[1] * 7, [2] * 5, MIXED])
def test_three_views_of_one_operator(ranks: list[int]) -> None:
    rng = np.random.default_rng(1)
    bases = random_bases(rng, 4, ranks)
    subspaces, A = SubspaceMap(bases), random_metric(rng, 4)
    image = subspaces.pack(seen(A, bases))
    np.testing.assert_allclose(subspaces.forward(svec(A)), image, atol=1e-13)
    np.testing.assert_allclose(subspaces.matrix() @ svec(A), image, atol=1e-13)
    np.testing.assert_allclose(as_operator(subspaces) @ svec(A), image, atol=1e-13)
    u = rng.standard_normal(image.size)
    np.testing.assert_allclose(subspaces.matrix().T @ u, subspaces.adjoint(u), atol=1e-13)
    np.testing.assert_allclose(as_operator(subspaces).T @ u, subspaces.adjoint(u), atol=1e-13)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    subspaces = SubspaceMap(random_bases(rng, 4, MIXED))
    a, u = rng.standard_normal(subspaces.shape[1]), rng.standard_normal(subspaces.shape[0])
    whole = subspaces.forward(a), subspaces.adjoint(u), subspaces.matrix()
    monkeypatch.setattr("crowdmetric.bounded.subspace_map.BLOCK_ENTRIES", 17)
    assert len(list(subspaces.blocks())) > 3
    for one, other in zip(whole, (subspaces.forward(a), subspaces.adjoint(u), subspaces.matrix()), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-13)


def test_pack_and_unpack_keep_the_order() -> None:
    rng = np.random.default_rng(3)
    bases = random_bases(rng, 4, MIXED)
    metrics = seen(random_metric(rng, 4), bases)
    subspaces = SubspaceMap(bases)
    for given, found in zip(metrics, subspaces.unpack(subspaces.pack(metrics)), strict=True):
        np.testing.assert_allclose(found, given, atol=1e-14)
    assert subspaces.multiplicity.sum() == subspaces.entries == sum(r * r for r in MIXED)


# Golden cases ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("dense", [True, False])
def test_golden_least_squares(case: int, dense: bool) -> None:
    g = load(case)
    found = stitch_details(g["bases"], g["Q_hat"], "ols", dense=dense)
    tolerance = 1e-10 if dense else 1e-6
    np.testing.assert_allclose(found.unprojected, g["ols"], atol=tolerance * np.linalg.norm(g["ols"]))
    np.testing.assert_allclose(found.metric, g["ols_psd"], atol=tolerance * np.linalg.norm(g["ols"]))
    assert found.identified == found.unknowns == int(g["rank"])
    assert found.rank_is_exact == dense


@pytest.mark.parametrize("case", [1, 2, 3, 5, 6])
def test_golden_huber(case: int) -> None:
    g = load(case)
    found = stitch_details(g["bases"], g["Q_hat"])
    size = np.linalg.norm(g["huber_exact"])
    np.testing.assert_allclose(found.unprojected, g["huber_exact"], atol=1e-5 * size)
    np.testing.assert_allclose(stitch(g["bases"], g["Q_hat"]), g["huber_exact_psd"], atol=1e-5 * size)
    entries = g["Q_hat"].size
    assert found.solution.objective * entries <= float(g["huber_exact_objective"]) * (1.0 + 1e-9)
    assert found.sigma == pytest.approx(float(g["huber_exact_sigma"]), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize(("method", "key"), [("ols", "ols"), ("huber", "huber_exact")])
def test_golden_rank_deficient(method: str, key: str) -> None:
    g = load(4)
    with pytest.warns(NotIdentifiedWarning, match=r"determine 12 of the 15 .* mostly M\["):
        found = stitch_details(g["bases"], g["Q_hat"], method)
    np.testing.assert_allclose(found.unprojected, g[key], atol=1e-6)
    np.testing.assert_allclose(found.metric, g[f"{key}_psd"], atol=1e-6)
    assert found.unidentified.shape == (3, 5, 5)
    for N in found.unidentified:
        np.testing.assert_allclose(SubspaceMap(g["bases"]).forward(svec(N)), 0.0, atol=1e-10)
        assert np.sum(N * found.unprojected) == pytest.approx(0.0, abs=1e-8)  # least norm


# All methods -------------------------------------------------------------------------------------


@each_method
@pytest.mark.parametrize("ranks", [[1] * 20, [2] * 9, MIXED])
def test_exact_metrics_are_stitched_exactly(method: str, ranks: list[int]) -> None:
    rng = np.random.default_rng(4)
    M, bases = random_metric(rng, 4), random_bases(rng, 4, ranks)
    found = stitch_details(bases, seen(M, bases), method, **needs(method, rng, bases))
    # the ridge of the Huber objective pulls a little
    np.testing.assert_allclose(found.metric, M, atol=1e-10 if method != "huber" else 1e-6)
    assert len(found.residuals) == len(bases)
    assert all(np.abs(R).max() < 1e-6 for R in found.residuals)
    assert "10 of 10 degrees of freedom" in found.summary()


@each_method
def test_rotating_the_space_rotates_the_metric(method: str) -> None:
    rng = np.random.default_rng(5)
    bases = random_bases(rng, 4, MIXED)
    metrics = noisy(rng, seen(random_metric(rng, 4), bases))
    options = needs(method, rng, bases)
    R = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    turned = stitch([R @ B for B in bases], metrics, method, **options)
    np.testing.assert_allclose(turned, R @ stitch(bases, metrics, method, **options) @ R.T, atol=2e-5)


@pytest.mark.parametrize("method", ["ols", "huber"])
def test_turning_a_line_around_changes_nothing(method: str) -> None:
    rng = np.random.default_rng(6)
    bases = random_bases(rng, 4, [1] * 20)
    metrics = noisy(rng, seen(random_metric(rng, 4), bases))
    np.testing.assert_allclose(stitch([-B for B in bases], metrics, method), stitch(bases, metrics, method), atol=1e-8)


@each_method
def test_an_array_and_a_list_are_the_same(method: str) -> None:
    rng = np.random.default_rng(7)
    bases = random_bases(rng, 4, [2] * 9)
    metrics = noisy(rng, seen(random_metric(rng, 4), bases))
    options = needs(method, rng, bases)
    stacked = {key: np.array(value) for key, value in options.items()}
    np.testing.assert_array_equal(
        stitch(np.array(bases), np.array(metrics), method, **stacked),
        stitch(bases, metrics, method, **options),
    )


@each_method
def test_projection_is_an_option(method: str) -> None:
    rng = np.random.default_rng(8)
    M = np.diag([2.0, 1.0, -1.0])
    bases = random_bases(rng, 3, [2] * 6)
    options = needs(method, rng, bases)
    np.testing.assert_allclose(stitch(bases, seen(M, bases), method, psd=False, **options), M, atol=1e-5)
    np.testing.assert_allclose(stitch(bases, seen(M, bases), method, **options), np.diag([2.0, 1.0, 0.0]), atol=1e-5)


def test_huber_resists_what_least_squares_does_not() -> None:
    rng = np.random.default_rng(9)
    M, bases = random_metric(rng, 5), random_bases(rng, 5, [2] * 30)
    metrics = seen(M, bases)
    for i in range(6):
        metrics[i] = metrics[i] + 50.0 * np.eye(2)
    assert np.linalg.norm(stitch(bases, metrics, "huber") - M) < 1e-4
    assert np.linalg.norm(stitch(bases, metrics, "ols") - M) > 1.0


# Weighted least squares --------------------------------------------------------------------------


def test_weighted_solves_its_normal_equations() -> None:
    rng = np.random.default_rng(10)
    bases = random_bases(rng, 4, MIXED)
    metrics = noisy(rng, seen(random_metric(rng, 4), bases))
    information = informations(rng, bases)
    a = svec(stitch(bases, metrics, "weighted", information=information, psd=False))
    gradient = np.zeros(10)
    for B, Q, W in zip(bases, metrics, information, strict=True):
        alone = SubspaceMap([B])
        gradient += alone.adjoint(W @ (alone.forward(a) - svec(Q)))
    np.testing.assert_allclose(gradient, 0.0, atol=1e-9)


def test_equal_information_is_ordinary_least_squares() -> None:
    rng = np.random.default_rng(11)
    bases = random_bases(rng, 4, [2] * 9)
    metrics = noisy(rng, seen(random_metric(rng, 4), bases))
    equal = 1e-7 * np.broadcast_to(np.eye(3), (9, 3, 3))
    np.testing.assert_allclose(
        stitch(bases, metrics, "weighted", information=equal), stitch(bases, metrics, "ols"), atol=1e-9
    )


def test_zero_information_drops_a_subspace() -> None:
    rng = np.random.default_rng(12)
    bases = random_bases(rng, 4, [2] * 9)
    metrics = noisy(rng, seen(random_metric(rng, 4), bases))
    information = informations(rng, bases)
    information[3] = np.zeros((3, 3))
    kept = [i for i in range(9) if i != 3]
    np.testing.assert_allclose(
        stitch(bases, metrics, "weighted", information=information),
        stitch(
            [bases[i] for i in kept],
            [metrics[i] for i in kept],
            "weighted",
            information=[information[i] for i in kept],
        ),
        atol=1e-9,
    )


def test_missing_information_counts_as_missing_data() -> None:
    rng = np.random.default_rng(13)
    bases = random_bases(rng, 3, [1] * 6)
    metrics = seen(random_metric(rng, 3), bases)
    information = np.ones((6, 1, 1))
    information[0] = 0.0
    with pytest.warns(NotIdentifiedWarning, match="5 of the 6"):
        stitch(bases, metrics, "weighted", information=information)


# Large problems: products only -------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ols", "weighted"])
def test_products_agree_with_matrices(method: str) -> None:
    rng = np.random.default_rng(14)
    bases = random_bases(rng, 10, [1, 2] * 40)
    metrics = noisy(rng, seen(random_metric(rng, 10), bases), size=0.05)
    options = needs(method, rng, bases)
    dense = stitch_details(bases, metrics, method, dense=True, **options)
    free = stitch_details(bases, metrics, method, dense=False, **options)
    assert free.identified == dense.identified == 55
    assert free.solution.converged
    np.testing.assert_allclose(free.metric, dense.metric, atol=1e-6)


@pytest.mark.parametrize(("d", "dense", "refused"), [(63, None, True), (62, None, False), (4, False, True)])
def test_huber_is_refused_where_no_matrices_are_formed(d: int, dense: bool | None, refused: bool) -> None:
    bases = np.eye(d)[:, :, None]
    with pytest.raises(DataError, match=f"{d}.*method='ols'") if refused else pytest.warns(NotIdentifiedWarning):
        stitch_details(bases, np.ones((d, 1, 1)), "huber", dense=dense)


def test_huber_is_refused_before_people_are_solved_for() -> None:
    items, pairs = np.eye(64), np.arange(64).reshape(-1, 2)
    model = StitchedMetric(items, subspaces=np.repeat(np.arange(32), 2), metric_bound=1.0, ideal_bound=1.0)
    with pytest.raises(DataError, match=r"there are 64\).*use stitch='ols' or stitch='weighted'"):
        model.fit(pairs, np.ones(32), users=np.zeros(32))


def test_products_find_an_unidentified_direction() -> None:
    rng = np.random.default_rng(15)
    bases = random_bases(rng, 6, [2] * 30)
    for B in bases:  # nobody compares along the last axis
        B[5] = 0.0
        B[:] = np.linalg.qr(B)[0]
    metrics = seen(random_metric(rng, 6), bases)
    with pytest.warns(NotIdentifiedWarning, match=r"about 1\d of the 21 .* mostly M\[\d, 5\]"):
        free = stitch_details(bases, metrics, "ols", dense=False)
    with pytest.warns(NotIdentifiedWarning, match=r"15 of the 21 .* mostly M\[0, 5\], M\[1, 5\], M\[2, 5\]"):
        dense = stitch_details(bases, metrics, "ols", dense=True)
    assert free.unidentified.shape == (1, 6, 6)
    np.testing.assert_allclose(free.unidentified[0, :5, :5], 0.0, atol=1e-6)
    np.testing.assert_allclose(free.metric, dense.metric, atol=1e-6)


def test_too_few_subspaces_are_counted() -> None:
    rng = np.random.default_rng(16)
    bases = random_bases(rng, 6, [1] * 9)
    metrics = seen(random_metric(rng, 6), bases)
    with pytest.warns(NotIdentifiedWarning, match="at most 9 of the 21"):
        free = stitch_details(bases, metrics, "ols", dense=False)
    with pytest.warns(NotIdentifiedWarning, match="determine 9 of the 21"):
        dense = stitch_details(bases, metrics, "ols", dense=True)
    np.testing.assert_allclose(free.metric, dense.metric, atol=1e-6)


@pytest.mark.parametrize("method", ["ols", "huber"])
def test_stopping_short_is_a_warning(method: str) -> None:
    rng = np.random.default_rng(17)
    bases = random_bases(rng, 6, [2] * 30)
    metrics = noisy(rng, seen(random_metric(rng, 6), bases))
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations"):
        found = stitch_details(bases, metrics, method, dense=method == "huber", max_iterations=2)
    assert not found.solution.converged
    assert np.all(np.isfinite(found.metric))


# Bad input ---------------------------------------------------------------------------------------

E3 = np.eye(3)
GOOD = [E3[:, :2], E3[:, 1:], E3[:, ::2]]
Q2 = [np.eye(2)] * 3
I3 = [np.eye(3)] * 3
NAN = np.array([[np.nan, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("bases", "metrics", "options", "message"),
    [
        (GOOD, Q2, {"method": "median"}, "'median', but must be one of 'huber', 'ols', 'weighted'"),
        (GOOD, Q2, {"method": "weighted"}, "needs information"),
        (GOOD, Q2, {"method": "ols", "information": I3}, "makes no use of information"),
        ([], [], {}, "no subspaces"),
        (np.eye(3), Q2, {}, r"bases have shape \(3, 3\)"),
        ([E3[:, :2], np.eye(4)[:, :2]], Q2[:2], {}, r"basis 1 has shape \(4, 2\)"),
        ([E3[:2]], [E3], {}, r"basis 0 has shape \(2, 3\)"),
        ([*GOOD[:2], 2 * GOOD[2]], Q2, {}, "basis 2 is not orthonormal .* by 3.0e"),
        ([*GOOD[:2], np.nan * GOOD[2]], Q2, {}, "basis 2 has an entry that is not a finite number"),
        (GOOD, Q2[:2], {}, "3 bases but 2 metrics"),
        (GOOD, [*Q2[:2], np.eye(3)], {}, r"metric 2 has shape \(3, 3\)"),
        (np.array(GOOD), np.ones((3, 1, 1)), {}, r"metric 0 has shape \(1, 1\)"),
        (GOOD, [*Q2[:2], NAN], {}, "metric 2 has an entry that is not a finite number"),
        (GOOD, [*Q2[:2], np.array([[1.0, 2.0], [0.0, 1.0]])], {}, "metric 2 is not symmetric"),
        (GOOD, Q2, {"method": "weighted", "information": I3[:1]}, "3 bases but 1 information"),
        (GOOD, Q2, {"method": "weighted", "information": Q2}, r"information 0 has shape \(2, 2\)"),
        (GOOD, Q2, {"method": "weighted", "information": [*I3[:2], -E3]}, "negative eigenvalue -1"),
        (
            GOOD,
            Q2,
            {"method": "weighted", "information": np.zeros((3, 3, 3))},
            "every information matrix is zero",
        ),
    ],
)
def test_bad_input_is_named(bases, metrics, options, message: str) -> None:
    with pytest.raises(DataError, match=message):
        stitch(bases, metrics, **options)


def test_unidentified_directions_are_orthonormal() -> None:
    with pytest.warns(NotIdentifiedWarning, match=r"3 of the 6 .* M\[0, 1\], M\[0, 2\], M\[1, 2\]"):
        found = stitch_details([E3[:, [i]] for i in range(3)], [np.eye(1)] * 3, "ols")
    vectors = svec(found.unidentified)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(smat(vectors), found.unidentified, atol=1e-14)
    np.testing.assert_allclose(found.metric, E3, atol=1e-12)


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.NotIdentifiedWarning")
@pytest.mark.parametrize("method", ["huber", "ols"])
@pytest.mark.parametrize("r", [1, 2])
def test_prefixes_are_stitched_as_if_alone(method: str, r: int) -> None:
    """With too few subspaces, just enough and more."""
    rng, d, counts = np.random.default_rng(3), 4, (1, 4, 10, 14)
    bases = np.array([random_bases(rng, d, [r] * 14) for _ in range(3)])
    metrics = np.array([noisy(rng, seen(random_metric(rng, d), some)) for some in bases])
    found, gaps = stitch_prefixes(bases, metrics, counts, method)
    assert found.shape == (4, 3, d, d)
    assert gaps.shape == (4, 3)
    assert np.all(gaps == 0.0) if method == "ols" else np.any(gaps > 0.0) and np.all(gaps < 1e-8)
    for j, count in enumerate(counts):
        for b in range(3):
            alone = stitch(bases[b, :count], metrics[b, :count], method)
            np.testing.assert_allclose(found[j, b], alone, atol=1e-7)


@pytest.mark.parametrize(
    ("counts", "method", "message"),
    [((0, 2), "huber", "numbers from 1 to 3"), ((4,), "ols", "there are 3 subspaces"), ((2,), "weighted", "only")],
)
def test_prefixes_name_bad_input(counts, method: str, message: str) -> None:
    bases = np.array([random_bases(np.random.default_rng(0), 2, [1] * 3)])
    with pytest.raises(DataError, match=message):
        stitch_prefixes(bases, np.ones((1, 3, 1, 1)), counts, method)
