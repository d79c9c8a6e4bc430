"""What answers can teach: the operator S against a loop over people, the theorems, and the words."""

from __future__ import annotations

import json

import numpy as np
import pytest

from crowdmetric import Comparisons
from crowdmetric.cli import main
from crowdmetric.errors import DataError
from crowdmetric.identifiability import Diagnosis, diagnose
from crowdmetric.simulate import simulate_crowd
from crowdmetric.symmetric import degrees_of_freedom, svec


def brute_force(items: np.ndarray, pairs: np.ndarray, users: np.ndarray) -> np.ndarray:
    """S person by person, with projectors written out."""
    p = degrees_of_freedom(items.shape[1])
    S = np.zeros((p, p))
    for k in np.unique(users):
        left, right = items[pairs[users == k, 0]], items[pairs[users == k, 1]]
        Delta = np.array([svec(np.outer(x, x) - np.outer(y, y)) for x, y in zip(left, right, strict=True)])
        delta = left - right
        R = np.eye(len(delta)) - delta @ np.linalg.pinv(delta)
        S += Delta.T @ R @ Delta
    return S


CROWDS = {
    "general position": {"dimension": 4, "subspaces": None, "rank": None, "users": 5, "comparisons": 6},
    "lines": {"dimension": 4, "subspaces": 7, "rank": 1, "users": 2, "comparisons": 3},
    "planes": {"dimension": 5, "subspaces": 9, "rank": 2, "users": 3, "comparisons": 4},
}


@pytest.mark.parametrize("name", CROWDS)
def test_rank_and_spectrum_are_those_of_the_operator(name: str) -> None:
    crowd = simulate_crowd(**CROWDS[name], seed=0)
    found = diagnose(crowd.items, crowd.pairs, crowd.users)
    S = brute_force(crowd.items, crowd.pairs, crowd.users)
    values = np.linalg.eigvalsh(S)
    kept = values[values > 1e-9 * values[-1]]
    assert found.rank == kept.size
    assert found.smallest == pytest.approx(kept[0], rel=1e-6)
    assert found.largest == pytest.approx(kept[-1], rel=1e-9)
    assert found.identified == (kept.size == degrees_of_freedom(crowd.items.shape[1]))
    assert len(found.unidentified_directions) == found.dimensions - found.rank
    for direction in found.unidentified_directions:
        assert np.linalg.norm(direction) == pytest.approx(1.0)
        assert svec(direction) @ S @ svec(direction) <= 1e-9 * values[-1]


@pytest.mark.parametrize("m", [1, 3, 5])
def test_generic_items_and_few_answers_teach_nothing(m: int) -> None:
    """thm:negative-result: S = 0 for m ≤ d, however many people."""
    crowd = simulate_crowd(5, None, None, users=200, comparisons=m, seed=m)
    found = diagnose(crowd.items, crowd.pairs, crowd.users)
    assert (found.rank, found.silent, found.people) == (0, 200, 200)
    assert "can teach nothing" in found.summary()
    assert "items in general position need more than 5" in found.summary()


def test_one_more_answer_than_dimensions_teaches_one_degree_a_person() -> None:
    for users in (1, 7, 15, 30):
        crowd = simulate_crowd(5, None, None, users=users, comparisons=6, seed=users)
        assert diagnose(crowd.items, crowd.pairs, crowd.users).rank == min(users, 15)


@pytest.mark.parametrize(("n", "rank"), [(4, 4), (10, 10), (15, 15), (20, 15)])
def test_a_line_teaches_one_degree_of_freedom(n: int, rank: int) -> None:
    crowd = simulate_crowd(5, n, 1, users=4, comparisons=2, seed=0)
    assert diagnose(crowd.items, crowd.pairs, crowd.users).rank == rank


def test_a_parallelogram_teaches_where_general_position_does_not() -> None:
    rng = np.random.default_rng(0)
    a, b, delta = rng.standard_normal((3, 4))
    vectors = np.array([[a + delta, a - delta], [b + delta, b - delta]])
    assert diagnose(None, vectors).rank == 1


def test_items_that_never_differ_in_a_direction_are_noticed() -> None:
    rng = np.random.default_rng(0)
    items = np.column_stack([rng.standard_normal((40, 2)), np.full(40, 3.0)])
    found = diagnose(items, rng.permutation(40).reshape(-1, 2), np.zeros(20, dtype=int))
    assert found.span == 2
    assert "differ in 2 of 3 dimensions only" in found.summary()


def test_what_does_not_matter() -> None:
    crowd = simulate_crowd(4, 7, 1, users=3, comparisons=3, seed=0)
    found = diagnose(crowd.items, crowd.pairs, crowd.users)
    order = np.random.default_rng(0).permutation(len(crowd.users))
    turned = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    others = [
        diagnose(crowd.items, crowd.pairs[order], crowd.users[order]),
        diagnose(crowd.items, crowd.pairs[:, ::-1], crowd.users),
        diagnose(crowd.items @ turned, crowd.pairs, crowd.users),
        diagnose(None, crowd.items[crowd.pairs], [f"person {u}" for u in crowd.users]),
        diagnose(crowd.items, Comparisons.from_arrays(crowd.users, crowd.pairs, crowd.y, n_items=len(crowd.items))),
    ]
    for other in others:
        assert (other.rank, other.people, other.silent) == (found.rank, found.people, found.silent)
        assert other.smallest == pytest.approx(found.smallest, rel=1e-6)


def test_the_whole_metric_is_said_to_be_there() -> None:
    crowd = simulate_crowd(3, None, None, users=40, comparisons=8, seed=0)
    found = diagnose(crowd.items, crowd.pairs, crowd.users)
    assert isinstance(found, Diagnosis)
    assert found.identified
    assert found.summary().startswith("These answers can teach the whole metric: all 6")
    assert "Ask" not in found.summary()


def test_bad_input_gets_a_sentence() -> None:
    crowd = simulate_crowd(3, None, None, users=4, comparisons=2, seed=0)
    with pytest.raises(DataError, match=r"users has shape \(3,\), but there are 8 comparisons"):
        diagnose(crowd.items, crowd.pairs, crowd.users[:3])
    with pytest.raises(DataError, match="features has 2 names, but there are 3"):
        diagnose(crowd.items, crowd.pairs, crowd.users, features=["a", "b"])
    answers = Comparisons.from_arrays(crowd.users, crowd.pairs, crowd.y, n_items=len(crowd.items))
    with pytest.raises(DataError, match="leave users out"):
        diagnose(crowd.items, answers, crowd.users)
    with pytest.raises(DataError, match="about 16 items, but items has 4 rows"):
        diagnose(crowd.items[:4], answers)


def test_the_command_says_it_too(tmp_path, capsys) -> None:
    out = tmp_path / "crowd"
    simulate = ["simulate", "--dimension", "3", "--subspaces", "4", "--rank", "1", "--users", "3", "--comparisons", "3"]
    assert main([*simulate, "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["diagnose", str(out / "items.csv"), str(out / "comparisons.csv")]) == 0
    assert capsys.readouterr().out.startswith("These answers can teach 4 of 6 degrees of freedom")
    assert main(["diagnose", str(out / "items.csv"), str(out / "comparisons.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rank"], told["dimensions"], told["identified"]) == (4, 6, False)
