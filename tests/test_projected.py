"""Unquantized answers: exact recovery, and what no algorithm can learn from them (Algorithms 3 and 4)."""

from __future__ import annotations

import numpy as np
import pytest

from crowdmetric.errors import NotIdentifiedError
from crowdmetric.estimators import IdealPointMetric
from crowdmetric.simulate import simulate_crowd
from crowdmetric.symmetric import degrees_of_freedom, svec
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.projected import Triangle, triangles


def unquantized(items: np.ndarray, pairs: np.ndarray, M: np.ndarray, u: np.ndarray) -> np.ndarray:
    """ψ = ‖x − u‖²_M − ‖x' − u‖²_M with u (T, d) the ideal point behind each answer."""
    left, right = items[pairs[:, 0]] - u, items[pairs[:, 1]] - u
    return np.einsum("ti,ij,tj->t", left, M, left) - np.einsum("ti,ij,tj->t", right, M, right)


def triangle(items, pairs, psi, users, weight=None) -> Triangle:
    K = int(np.max(users)) + 1
    weight = np.ones(len(pairs)) if weight is None else weight
    people = arrange(Answers(items, pairs, psi, weight, users, np.zeros(K, dtype=np.intp), 1))
    return triangles(people)[0]


def rank(items, pairs, users) -> int:
    """Degrees of freedom of M that the questions reveal, whatever the answers."""
    _, _, null = triangle(items, pairs, np.zeros(len(pairs)), users).solve()
    return degrees_of_freedom(items.shape[1]) - null.shape[0]


def questions(d: int, people: int, m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Items in general position, each shown once."""
    crowd = simulate_crowd(d, None, None, users=people, comparisons=m, seed=seed)
    return crowd.items, crowd.pairs, crowd.users


# ---------------------------------------------------------------------------------------------- golden cases


@pytest.mark.parametrize("case", [1, 2, 3, 4])
def test_golden(golden, case: int) -> None:
    g = golden(f"unquant_{case:02}")
    pairs = np.column_stack([g["left"], g["right"]])
    model = IdealPointMetric(g["items"], loss="squared").fit(pairs, g["psi"], users=g["user"])
    np.testing.assert_allclose(model.metric_, g["Q_true"], rtol=0, atol=1e-12 * np.linalg.norm(g["Q_true"]))
    np.testing.assert_allclose(
        model.pseudo_ideal_points_, g["V_true"], rtol=0, atol=1e-12 * np.linalg.norm(g["V_true"])
    )
    np.testing.assert_allclose(model.decision_function(pairs, users=g["user"]), g["psi"], rtol=0, atol=1e-12)
    assert model.objective_ < 1e-24
    assert model.solution_.converged


def test_golden_deficient(golden) -> None:
    g = golden("unquant_extra_deficient")
    pairs = np.column_stack([g["left"], g["right"]])
    # rank 10 of 13 unknowns, 10 of them people's: nothing of M is seen
    with pytest.raises(NotIdentifiedError, match=r"identify 0 of the 3 degrees of freedom.*M\[\d, \d\]"):
        IdealPointMetric(g["items"], loss="squared").fit(pairs, g["psi"], users=g["user"])


# -------------------------------------------------------------------------------------------------- recovery


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_one_person_is_enough_if_asked_enough(d: int) -> None:
    """Algorithm 3: p + d generic questions to one person."""
    crowd = simulate_crowd(d, None, None, users=1, comparisons=degrees_of_freedom(d) + d, seed=d)
    model = IdealPointMetric(crowd.items, loss="squared").fit(crowd.pairs, crowd.psi)
    np.testing.assert_allclose(model.metric_, crowd.metric, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.ideal_points_, crowd.ideal_points, rtol=0, atol=1e-8)
    with pytest.raises(NotIdentifiedError):
        IdealPointMetric(crowd.items, loss="squared").fit(crowd.pairs[1:], crowd.psi[1:])


def test_deficiency_names_the_direction() -> None:
    """Items whose last feature never varies within or between pairs say nothing about its own row of M."""
    items, pairs, users = questions(3, people=20, m=5)
    items[:, 2] = 0.0
    with pytest.raises(NotIdentifiedError, match=r"identify 3 of the 6.*M\[\d, 2\].*[Aa]sk each person more"):
        IdealPointMetric(items, loss="squared").fit(pairs, np.zeros(len(pairs)), users=users)


# ------------------------------------------------------------------------------------------------ operator S


def by_brute_force(items, pairs, users, weight) -> np.ndarray:
    """S = Σ_k Δ_kᵀ R_k Δ_k, with projectors formed person by person."""
    d = items.shape[1]
    S = np.zeros((degrees_of_freedom(d),) * 2)
    for k in np.unique(users):
        rows = users == k
        root = np.sqrt(weight[rows])[:, None]
        x, x_ = items[pairs[rows, 0]], items[pairs[rows, 1]]
        Delta = root * np.array([svec(np.outer(a, a) - np.outer(b, b)) for a, b in zip(x, x_, strict=True)])
        delta = root * (x - x_)
        S += Delta.T @ (np.eye(rows.sum()) - delta @ np.linalg.pinv(delta, rcond=1e-10)) @ Delta
    return S


def ordinary(rng: np.random.Generator):
    return rng.permutation(40).reshape(20, 2)


def repeated(rng: np.random.Generator):
    return np.repeat(rng.permutation(40)[:10].reshape(5, 2), 4, axis=0)


def cyclic(rng: np.random.Generator):
    """a–b, b–c, c–a, …: the δ's of every cycle sum to zero."""
    a, b, c = rng.integers(0, 13, 7), rng.integers(13, 26, 7), rng.integers(26, 40, 7)
    return np.stack([[a, b], [b, c], [c, a]], axis=-1).transpose(1, 2, 0).reshape(-1, 2)[:20]


def parallel(rng: np.random.Generator):
    """Consecutive rows of items are parallel steps once `test_S` has moved them there."""
    return np.arange(40).reshape(20, 2)


QUESTIONS = [ordinary, repeated, cyclic, parallel]


@pytest.mark.parametrize("ask", QUESTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_S_is_the_gram_matrix_of_the_triangle(ask, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    items, pairs = rng.standard_normal((40, 3)), ask(rng)
    if ask is parallel:
        items[1::2] = items[::2] + rng.uniform(-1, 1, (20, 1)) * np.array([1.0, 2.0, -1.0])
    users = np.sort(rng.integers(0, 4, 20))
    weight = rng.uniform(0.2, 2.0, 20) if weighted else np.ones(20)
    weight[3] = 0.0 if weighted else 1.0
    reduced = triangle(items, pairs, np.zeros(20), users, weight)
    S = by_brute_force(items, pairs, users, weight)
    np.testing.assert_allclose(reduced.R.T @ reduced.R, S, rtol=0, atol=1e-12 * max(1.0, np.abs(S).max()))
    _, _, null = reduced.solve()
    assert 6 - null.shape[0] == np.sum(np.linalg.eigvalsh(S) > 1e-10)
    np.testing.assert_allclose(S @ null.T, 0.0, atol=1e-12)


@pytest.mark.parametrize("ask", QUESTIONS)
def test_consistent_answers_are_fitted_exactly(ask) -> None:
    """Repeated, cyclic and parallel questions count once: what they identify is recovered, the rest is least norm."""
    rng = np.random.default_rng(1)
    items, pairs = rng.standard_normal((40, 3)), ask(rng)
    if ask is parallel:
        items[1::2] = items[::2] + rng.uniform(-1, 1, (20, 1)) * np.array([1.0, 2.0, -1.0])
    users = np.arange(20) // 7
    M = np.diag([3.0, 2.0, 1.0]) + 0.5
    psi = unquantized(items, pairs, M, rng.standard_normal((3, 3))[users])
    reduced = triangle(items, pairs, psi, users)
    a, _, null = reduced.solve()
    seen = svec(M) - null.T @ (null @ svec(M))
    np.testing.assert_allclose(a, seen, rtol=0, atol=1e-9)


# -------------------------------------------------------------------------------------- the paper's theorems


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6])
def test_generic_items_and_at_most_d_answers_reveal_nothing(d: int) -> None:
    """thm:negative-result, however many people there are."""
    for m in range(1, d + 1):
        assert rank(*questions(d, people=50, m=m)) == 0


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_one_answer_more_reveals_one_degree_of_freedom_a_person(d: int) -> None:
    """m = d + 1: each person adds one, until all p are known (prop:quadsufficiency)."""
    p = degrees_of_freedom(d)
    for people in {1, max(1, p - 1), p, p + 3}:
        assert rank(*questions(d, people=people, m=d + 1)) == min(people, p)


def test_noisy_answers_have_an_honest_certificate() -> None:
    """The projection on the cone costs something, and the gap says how much at most."""
    truth = np.diag([1.0, 0.0, 0.0])
    crowd = simulate_crowd(3, None, None, users=30, comparisons=12, seed=0, metric=truth)
    noisy = crowd.psi + 0.5 * np.random.default_rng(0).standard_normal(crowd.psi.size)
    model = IdealPointMetric(crowd.items, loss="squared").fit(crowd.pairs, noisy, users=crowd.users)
    np.testing.assert_allclose(model.components_.T @ model.components_, model.metric_, atol=1e-10)
    assert "negative eigenvalues were set to zero" in model.solution_.status
    bounded = IdealPointMetric(crowd.items, loss="squared", metric_bound=1e3, ideal_bound=1e3)
    best = bounded.fit(crowd.pairs, noisy, users=crowd.users).objective_
    assert model.solution_.gap > 0
    assert model.objective_ - model.solution_.gap <= best <= model.objective_
