"""The paper's conditions and bounds against brute force, and its theorems as ranks of the operator S."""

from __future__ import annotations

from itertools import combinations
from math import inf

import numpy as np
import pytest

from crowdmetric.bounded.subspace_map import SubspaceMap
from crowdmetric.errors import DataError, NotIdentifiedError
from crowdmetric.symmetric import degrees_of_freedom, project_psd, smat, svec
from crowdmetric.theory import (
    constructive_design,
    design_matrix,
    design_strength,
    has_generic_pairwise_relations,
    is_in_general_linear_position,
    is_subspace_clusterable,
    least_number_of_subspaces,
    logistic_constants,
    position,
    quadratic_span_rank,
    quadratically_spans,
    random_design,
    reconstruction_bound,
    smallest_singular_value,
    spans_symmetric,
    subspace_recovery_bound,
)
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.projected import triangles

FOUR_POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [2.0, 1.0]])  # example:not-generic-pairwise


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def subspace(d: int, r: int, seed: int = 0) -> np.ndarray:
    return np.linalg.qr(normal(d, r, seed=seed))[0]


def every_pair(N: int) -> np.ndarray:
    return np.array(list(combinations(range(N), 2)))


def circle(n: int) -> np.ndarray:
    angle = np.linspace(0.1, 6.0, n)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def revealed(items: np.ndarray, designs: np.ndarray) -> int:
    """rank S: the degrees of freedom of M that designs (K, m, 2) reveal with arbitrary people."""
    K, m, _ = designs.shape
    T = K * m
    person = np.repeat(np.arange(K), m)
    problem = np.zeros(K, dtype=np.intp)
    answers = Answers(items, designs.reshape(T, 2), np.zeros(T), np.ones(T), person, problem, 1)
    _, _, null = triangles(arrange(answers))[0].solve()
    return degrees_of_freedom(items.shape[1]) - len(null)


# ------------------------------------------------------------------------------------------- general position


def acyclic(edges: tuple[tuple[int, int], ...], N: int) -> bool:
    S = np.zeros((len(edges), N))
    for row, (i, j) in enumerate(edges):
        S[row, i], S[row, j] = 1.0, -1.0
    return bool(np.linalg.matrix_rank(S) == len(edges))


def generic_by_definition(X: np.ndarray) -> bool:
    """def:pairwise-generic, word for word: all acyclic edge sets of every size up to d."""
    pairs = list(combinations(range(len(X)), 2))
    return all(
        np.linalg.matrix_rank(np.array([X[i] - X[j] for i, j in edges])) == size
        for size in range(1, X.shape[1] + 1)
        for edges in combinations(pairs, size)
        if acyclic(edges, len(X))
    )


def linear_by_definition(X: np.ndarray) -> bool:
    """def:general-linear-position: all stars of every size up to d, from every root."""
    N, d = X.shape
    return all(
        np.linalg.matrix_rank(X[list(leaves)] - X[root]) == size
        for size in range(1, min(d, N - 1) + 1)
        for root in range(N)
        for leaves in combinations(sorted(set(range(N)) - {root}), size)
    )


SMALL_SETS = {
    "four points": FOUR_POINTS,
    "one item": normal(1, 3),
    "few items": normal(3, 4),
    "line": normal(5, 1),
    "repeated on a line": np.array([[1.0], [2.0], [1.0]]),
    "generic plane": normal(5, 2),
    "generic space": normal(5, 3),
    "collinear": np.array([[0.0, 0.0], [1.0, 1.0], [3.0, 3.0], [1.0, 5.0]]),
    "few and dependent": np.array([[0.0, 0, 0, 1], [1.0, 1, 0, 1], [3.0, 3, 0, 1]]),
    "parallelogram in space": np.vstack([normal(3, 3), [normal(3, 3)[1] + normal(3, 3)[2] - normal(3, 3)[0]]]),
    **{
        f"grid {seed}": np.random.default_rng(seed).integers(-4, 5, (5, 1 + seed % 3)).astype(float)
        for seed in range(9)
    },
}


@pytest.mark.parametrize("name", SMALL_SETS)
def test_position_agrees_with_the_definitions(name: str) -> None:
    X = SMALL_SETS[name]
    generic, linear = has_generic_pairwise_relations(X), is_in_general_linear_position(X)
    assert generic.exact
    assert linear.exact
    assert generic.holds == generic_by_definition(X)
    assert linear.holds == linear_by_definition(X)
    assert linear.holds or not generic.holds  # the former is the weaker condition
    for found in (generic, linear):
        if found.counterexample is not None:
            delta = np.array([X[i] - X[j] for i, j in found.counterexample])
            assert acyclic(found.counterexample, len(X))
            assert np.linalg.matrix_rank(delta) == len(delta) - 1  # minimal: one relation, all edges in it


def test_the_four_points_of_the_paper() -> None:
    generic = has_generic_pairwise_relations(FOUR_POINTS)
    assert not generic.holds
    assert generic.counterexample == ((0, 1), (2, 3))
    assert "x[0] − x[1], x[2] − x[3]" in generic.summary()
    assert "do not have" in generic.summary()
    linear = is_in_general_linear_position(FOUR_POINTS)
    assert linear.holds
    assert "certain: all cases (4)" in linear.summary()


def test_one_forest_is_looked_at_for_each_partition() -> None:
    for N, k, count in [(4, 2, 7), (5, 3, 15), (6, 3, 90), (6, 5, 1), (7, 1, 21), (3, 0, 1)]:
        forests = list(position._forests(N, k))
        assert len(forests) == position._partitions(N, k) == count
        assert all(acyclic(tuple(zip(*forest, strict=True)), N) for forest in forests if k)


def test_large_sets_are_sampled_and_say_so() -> None:
    for check in (has_generic_pairwise_relations, is_in_general_linear_position):
        found = check(normal(400, 4), trials=200)
        assert found.holds
        assert not found.exact
        assert found.checked == 200
        assert "95 % confidence fewer than 0.015" in found.confidence
        assert "as far as seen" in found.summary()


def test_sampling_finds_what_is_common() -> None:
    grid = np.array([[i, j, k] for i in range(8) for j in range(8) for k in range(8)], dtype=float)
    for check in (has_generic_pairwise_relations, is_in_general_linear_position):
        found = check(grid)
        assert not found.holds
        assert found.exact
        assert found == check(grid)  # same seed, same verdict
    twins = normal(5000, 3)
    twins[4321] = twins[17]
    assert has_generic_pairwise_relations(twins).counterexample == ((17, 4321),)


def test_drawn_forests_are_forests() -> None:
    rng = np.random.default_rng(0)
    for N, k in [(5, 4), (8, 3), (30, 10)]:
        for _ in range(20):
            assert acyclic(tuple(zip(*position._random_forest(N, k, rng), strict=True)), N)


def test_position_ignores_scale_and_origin() -> None:
    for scale in (1e-6, 1e6):
        assert not has_generic_pairwise_relations(scale * FOUR_POINTS + scale).holds
        assert has_generic_pairwise_relations(scale * (normal(6, 3) + 5.0)).holds


# ---------------------------------------------------------------------------------------- the impossibility theorem


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_negative_result(d: int) -> None:
    """thm:negative-result: generic items, m ≤ d answers (cycles and repeats allowed), any number of people: S = 0."""
    X, rng = normal(degrees_of_freedom(d) + d + 1, d), np.random.default_rng(1)
    assert quadratically_spans(X)
    assert has_generic_pairwise_relations(X, trials=50).holds
    pairs = every_pair(len(X))
    for m in range(1, d + 1):
        assert revealed(X, pairs[rng.integers(len(pairs), size=(40, m))]) == 0
    assert revealed(X, pairs[rng.integers(len(pairs), size=(200, d + 1))]) == degrees_of_freedom(
        d
    )  # one answer more: everything


def test_a_parallelogram_escapes_the_negative_result() -> None:
    assert revealed(FOUR_POINTS, np.array([[[1, 0], [3, 2]]])) == 1


# ------------------------------------------------------------------------------------------ quadratic spanning

SPANNING = {
    "enough": (normal(6, 2), 5),
    "one too few": (normal(5, 2), 4),
    "circle": (circle(9), 4),
    "ellipse far away": (circle(9) * [3.0, 0.1] + [50.0, -20.0], 4),
    "line in the plane": (normal(7, 1) @ [[1.0, 2.0]] + 1.0, 2),
    "two values": (np.array([[1.0], [2.0], [2.0]]), 1),
    "three values": (np.array([[1.0], [2.0], [4.0]]), 2),
    "one item": (normal(1, 3), 0),
    "space": (normal(12, 3), 9),
    "small and far": (1e-3 * normal(12, 3) + 10.0, 9),
}


@pytest.mark.parametrize("name", SPANNING)
def test_quadratic_span_is_that_of_all_pairs(name: str) -> None:
    X, rank = SPANNING[name]
    assert quadratic_span_rank(X) == rank
    p, d = degrees_of_freedom(X.shape[1]), X.shape[1]
    assert quadratically_spans(X) == (rank == p + d)
    if len(X) > 1 and "far" not in name:
        assert np.linalg.matrix_rank(design_matrix(X, every_pair(len(X)))) == rank
        # one person, asked everything, reveals the rest after their ideal point is paid for
        lines = np.linalg.matrix_rank(X[1:] - X[0])
        assert revealed(X, every_pair(len(X))[None]) == rank - lines


def test_quadratic_span_of_a_subspace() -> None:
    B = subspace(5, 2)
    X = normal(8, 2) @ B.T
    assert quadratic_span_rank(X, B) == 5
    assert quadratically_spans(X, B)
    assert not quadratically_spans(X)
    assert not quadratically_spans(circle(8) @ B.T, B)


def test_design_matrix_gives_unquantized_answers() -> None:
    X, pairs, u = normal(6, 3), np.array([[[0, 1], [2, 5]], [[4, 3], [1, 0]]]), normal(3, seed=1)
    L = normal(3, 3, seed=2)
    M = L @ L.T
    square = np.einsum("ni,ij,nj->n", X - u, M, X - u)
    psi = design_matrix(X, pairs) @ np.concatenate([svec(M), -2.0 * M @ u])
    np.testing.assert_allclose(psi, square[pairs[..., 0]] - square[pairs[..., 1]], rtol=1e-12)


@pytest.mark.parametrize("r", [1, 2, 3, 4])
def test_quadratic_spanning_suffices(r: int) -> None:
    """prop:quadsufficiency: K = r(r+1)/2 people with m = r + 1 answers reveal all; with r answers, nothing."""
    p = degrees_of_freedom(r)
    X = normal(p + r + 1, r, seed=r)
    designs = constructive_design(X)
    assert designs.shape == (p, r + 1, 2)
    assert revealed(X, designs) == p
    assert revealed(X, designs[1:]) == p - 1  # nobody is idle
    assert has_generic_pairwise_relations(X, trials=50).holds
    for left_out in range(r + 1):
        assert revealed(X, np.delete(designs, left_out, axis=1)) == 0


def test_constructive_design_in_a_subspace_and_off_center() -> None:
    B = subspace(6, 2)
    z = 0.01 * normal(20, 2) + [3.0, -1.0]
    designs = constructive_design(z @ B.T, B)
    np.testing.assert_array_equal(designs, constructive_design(z))
    assert revealed((z - z.mean(axis=0)) / 0.01, designs) == 3


@pytest.mark.parametrize("X", [circle(9), normal(5, 2)], ids=["circle", "too few"])
def test_quadratic_spanning_is_necessary(X: np.ndarray) -> None:
    """prop:quadnecessary: without it not even everybody asked everything reveals the metric."""
    assert not quadratically_spans(X)
    pairs = every_pair(len(X))
    assert revealed(X, np.broadcast_to(pairs, (3, *pairs.shape))) < 3
    with pytest.raises(NotIdentifiedError, match="span 4 of the 5 dimensions"):
        constructive_design(X)
    with pytest.raises(NotIdentifiedError, match="no common quadric"):
        random_design(X, 3, 3)


# --------------------------------------------------------------------------------------------- subspace clusters

ARRANGEMENTS = [
    (2, [1, 1]),
    (2, [1, 1, 1]),
    (3, [2, 2]),
    (3, [2, 2, 2]),
    (3, [2, 1, 1, 1]),
    (3, [2, 1, 1]),
    (4, [3, 3]),
]
ARRANGEMENTS += [(4, [2, 2, 2]), (4, [2, 2, 2, 1]), (4, [3, 2, 2]), (4, [3, 3, 1]), (3, [3]), (5, [3, 3, 3]), (1, [1])]


def rank_of_squares(bases: list[np.ndarray]) -> int:
    """rank of {xxᵀ : x ∈ V_λ}, by sampling more x than Sym(V_λ) has dimensions."""
    x = np.concatenate(
        [normal(2 * degrees_of_freedom(B.shape[1]), B.shape[1], seed=i) @ B.T for i, B in enumerate(bases)]
    )
    return int(np.linalg.matrix_rank(svec(x[:, :, None] * x[:, None, :])))


@pytest.mark.parametrize(("d", "ranks"), ARRANGEMENTS)
def test_reconstruction_equivalence(d: int, ranks: list[int]) -> None:
    """prop:reconstruction-equiv: squares span ⟺ Π is injective ⟺ no other metric looks the same."""
    bases = [subspace(d, r, seed=10 + i) for i, r in enumerate(ranks)]
    p = degrees_of_freedom(d)
    _, values, directions = np.linalg.svd(SubspaceMap(bases).matrix(), full_matrices=True)
    rank = int(np.sum(values > 1e-10))
    assert rank == rank_of_squares(bases)
    assert spans_symmetric(bases) == (rank == p)
    smallest = values[-1] if rank == p else 0.0
    assert smallest_singular_value(bases) == pytest.approx(smallest, rel=1e-10)
    if rank < p:
        A = smat(directions[-1])
        M, other = np.eye(d) + 0.5 * A, np.eye(d) - 0.5 * A
        assert np.linalg.eigvalsh(other)[0] > 0
        for B in bases:
            np.testing.assert_allclose(B.T @ M @ B, B.T @ other @ B, atol=1e-12)


@pytest.mark.parametrize(("d", "r"), [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (5, 2), (5, 3), (6, 4), (7, 4), (4, 4)])
def test_least_number_of_subspaces(d: int, r: int) -> None:
    n = least_number_of_subspaces(d, r)
    bases = [subspace(d, r, seed=i) for i in range(n)]
    p = degrees_of_freedom(d)
    assert rank_of_squares(bases) == p
    assert n == 1 or rank_of_squares(bases[1:]) < p
    counting = least_number_of_subspaces(d, r, exact=False)
    assert counting == -(-p // degrees_of_freedom(r)) <= n


def test_counting_is_not_enough() -> None:
    # dim ΣSym(V_λ): two planes of R³ share a line, 3 + 3 − 1 < 6; 4-spaces of R⁷ share lines, 30 − 3 < 28
    assert [least_number_of_subspaces(3, 2), least_number_of_subspaces(7, 4)] == [3, 4]
    assert least_number_of_subspaces(100, 1) == 5050


def test_mixed_ranks() -> None:
    assert least_number_of_subspaces(3, [1, 2, 1, 1, 1]) == 4  # 3 + 1 + 1 + 1
    assert least_number_of_subspaces(3, [1, 2, 2, 1]) == 3  # 3 + 3 − 1 + 1
    assert least_number_of_subspaces(4, [1, 4, 2]) == 1
    with pytest.raises(NotIdentifiedError, match="3 subspaces of the given ranks cannot determine the 6"):
        least_number_of_subspaces(3, [2, 1, 1])
    with pytest.raises(NotIdentifiedError, match="add subspaces"):
        least_number_of_subspaces(3, [2, 2])
    with pytest.raises(NotIdentifiedError):
        least_number_of_subspaces(3, [])


def test_subspace_clusterable() -> None:
    bases = [subspace(3, 2, seed=i) for i in range(3)]
    X = np.concatenate([normal(6, 2, seed=i) @ B.T for i, B in enumerate(bases)])
    labels = np.repeat(np.arange(3), 6)
    assert is_subspace_clusterable(X, bases)
    assert is_subspace_clusterable(X, np.stack(bases), labels)
    assert is_subspace_clusterable(np.vstack([X, normal(2, 3)]), bases, np.append(labels, [-1, -1]))
    assert not is_subspace_clusterable(X, bases[:2], np.where(labels < 2, labels, -1))  # two planes are too few
    assert not is_subspace_clusterable(X[1:], bases)  # five items are too few on a plane
    assert not is_subspace_clusterable(X, bases, np.where(labels == 2, -1, labels))  # a plane without items
    with pytest.raises(DataError, match="away from the subspace"):
        is_subspace_clusterable(X, bases, (labels + 1) % 3)


# ------------------------------------------------------------------------------------------------ designs and bounds


def test_design_strength_is_the_definition() -> None:
    X, designs = normal(9, 2), np.random.default_rng(3).integers(9, size=(30, 4, 2))
    D = design_matrix(X, designs)
    mean = np.mean(np.swapaxes(D, 1, 2) @ D, axis=0)
    assert design_strength(X, designs) == pytest.approx(np.linalg.eigvalsh(mean)[0] / 4, rel=1e-9)
    assert design_strength(circle(9), designs) == 0.0
    B = subspace(4, 2)
    assert design_strength(X @ B.T, designs, B) == pytest.approx(design_strength(X, designs), rel=1e-9)


@pytest.mark.parametrize("pooled", [True, False])
def test_random_design_has_the_strength_of_its_pool(pooled: bool) -> None:
    """rmk:min-singular-Pm: σ²_min(P_m) = σ_min(D*D)/n, whatever m."""
    X = normal(7, 2, seed=5)
    pool = every_pair(7)[::2] if pooled else every_pair(7)
    D = design_matrix(X, pool)
    exact = np.linalg.eigvalsh(D.T @ D)[0] / len(pool)
    assert design_strength(X, pool) == pytest.approx(exact, rel=1e-9)
    for m in (1, 5):
        designs = random_design(X, 40_000 // m, m, pairs=pool if pooled else None, seed=m)
        assert designs.shape == (40_000 // m, m, 2)
        assert np.all(designs[..., 0] != designs[..., 1])
        assert design_strength(X, designs) == pytest.approx(exact, rel=0.05)
    np.testing.assert_array_equal(random_design(X, 3, 2, seed=1), random_design(X, 3, 2, seed=1))
    with pytest.raises(NotIdentifiedError):
        random_design(X, 3, 2, pairs=pool[:4])


@pytest.mark.parametrize(("beta", "metric", "ideal"), [(1.0, 1.0, 0.5), (4.0, 0.3, 0.2), (0.1, 2.0, 3.0)])
def test_logistic_constants_are_extremes(beta: float, metric: float, ideal: float) -> None:
    z = np.linspace(-2 * (metric + ideal), 2 * (metric + ideal), 20_001)
    f = 1.0 / (1.0 + np.exp(-beta * z))
    link = logistic_constants(beta, metric, ideal)
    assert link.slope == pytest.approx(np.min(beta * f * (1 - f)), rel=1e-9)
    assert link.lipschitz == pytest.approx(np.max(np.abs(np.gradient(-np.log(f), z))), rel=1e-3)


def test_subspace_recovery_bound_is_the_formula() -> None:
    K, m, s, zM, zv, p = 30, 8, 0.2, 1.5, 0.7, 0.1
    link = logistic_constants(2.0, zM, zv)
    square = 16 * link.lipschitz / (link.slope**2 * s) * np.sqrt((zM**2 + K * zv**2) * np.log(4 / p) / (m * K))
    bound = subspace_recovery_bound(K, m, strength=s, metric_bound=zM, ideal_bound=zv, beta=2.0, p=p)
    assert bound == pytest.approx(np.sqrt(square), rel=1e-12)
    assert subspace_recovery_bound(K, m, strength=s, metric_bound=500.0, ideal_bound=1.0) == inf


def test_reconstruction_bound_is_the_formula() -> None:
    expected = 3.0 / 0.5 * (0.1 * np.sqrt(20) + 0.2 * 4 * np.sqrt(np.log(8 / 0.05)))
    assert reconstruction_bound(0.5, 0.1, 0.2, n=20, d=4, p=0.05, c=3.0) == pytest.approx(expected, rel=1e-12)


def test_stitching_stays_within_the_sure_bound() -> None:
    bases = [subspace(4, 2, seed=i) for i in range(8)]
    Pi, rng, L = SubspaceMap(bases).matrix(), np.random.default_rng(0), normal(4, 2)
    M, sigma = L @ L.T, smallest_singular_value(bases)
    for _ in range(20):
        errors = rng.standard_normal((8, 3))
        errors *= 0.3 / np.linalg.norm(errors, axis=1, keepdims=True)
        a = np.linalg.lstsq(Pi, Pi @ svec(M) + errors.reshape(-1), rcond=None)[0]
        assert np.linalg.norm(project_psd(smat(a)) - M) <= 0.3 * np.sqrt(8) / sigma


# -------------------------------------------------------------------------------------------------------- bad input

X5 = normal(8, 2)
RECOVERY = {"users": 3, "comparisons": 3, "strength": 1.0, "metric_bound": 1.0, "ideal_bound": 1.0}

REFUSED = [
    (lambda: quadratic_span_rank([1.0, 2.0]), r"shape \(2,\), expected \(N, d\)"),
    (lambda: quadratic_span_rank([["red"]]), "cannot be read as numbers"),
    (lambda: quadratic_span_rank([[1.0, np.nan]]), r"items\[0, 1\] = nan; fill or drop"),
    (lambda: has_generic_pairwise_relations(X5, trials=0), "trials=0 is not a whole number of at least 1"),
    (lambda: is_in_general_linear_position(X5, trials=2.5), "trials=2.5 is not a whole"),
    (lambda: quadratically_spans(X5, np.ones((2, 1))), "not orthonormal"),
    (lambda: quadratically_spans(X5, np.eye(3)), "items have 2 features"),
    (lambda: quadratically_spans(X5, np.eye(2)[:, :1]), "away from the subspace.*project items"),
    (lambda: is_subspace_clusterable(X5, [np.eye(3)]), "items have 2 features, but bases are of R.3"),
    (lambda: is_subspace_clusterable(X5, [np.eye(2)], [0]), "expected 8 whole numbers"),
    (lambda: is_subspace_clusterable(X5, [np.eye(2)], [0] * 7 + [3]), "names subspace 3, but there are 1 bases"),
    (lambda: is_subspace_clusterable(X5, [np.eye(2)[:, :1]], [0] * 8), "away from the subspace"),
    (lambda: spans_symmetric([]), "at least one basis"),
    (lambda: least_number_of_subspaces(3, 4), "ranks holds 4.*from 1 to 3"),
    (lambda: least_number_of_subspaces(0, 1), "d=0 is not"),
    (lambda: least_number_of_subspaces(80, 2), "exact=False"),
    (lambda: design_matrix(X5, [[0, 9]]), "names item 9, but there are 8 items"),
    (lambda: design_matrix(X5, [[0.0, 1.0]]), "type float64, expected whole numbers"),
    (lambda: design_strength(X5, np.zeros((0, 2), dtype=int)), "pairs is empty"),
    (lambda: random_design(X5, 0, 1), "users=0 is not"),
    (lambda: logistic_constants(-1.0, 1.0, 1.0), "beta=-1.0 is not a positive"),
    (lambda: subspace_recovery_bound(**(RECOVERY | {"strength": 0.0})), "strength=0.0 is not a positive"),
    (lambda: subspace_recovery_bound(**RECOVERY, p=0.0), "p=0.0, expected a probability"),
    (lambda: reconstruction_bound(1.0, 0.3, 0.2, 3, 3), "gamma=0.3 and epsilon=0.2.*gamma=epsilon"),
    (lambda: reconstruction_bound(0.0, 0.1, 0.2, 3, 3), "sigma_min=0.0 is not a positive"),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED, ids=[sentence[:24] for _, sentence in REFUSED])
def test_bad_input_gets_a_sentence(call, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        call()
