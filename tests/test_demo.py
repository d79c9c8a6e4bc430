"""The demonstration runs on a small crowd, learns something, and leaves a picture."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

DEMO = Path(__file__).parent.parent / "examples" / "demo.py"


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("crowdmetric_demo", DEMO)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def result(demo, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    return demo.run(people=600, folder=folder), folder


def test_numbers_are_shares_and_errors(result) -> None:
    numbers, _ = result
    assert list(numbers) == ["learned", "stitched", "Euclidean"]
    for found in numbers.values():
        assert 0.3 < found["accuracy"] < 1.0
        assert 0.3 < found["neighbors"] < 1.0
        assert 0.0 < found["shape"] <= found["error"] + 1e-12
    assert numbers["learned"]["shape"] < numbers["stitched"]["shape"] < numbers["Euclidean"]["shape"] < 1.0


def test_the_picture_is_there(result) -> None:
    _, folder = result
    assert [path.name for path in folder.iterdir()] == ["demo.png"]
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_set_up_is_what_it_says(demo) -> None:
    items = demo.read_digits()
    assert items.features.shape == (1797, demo.DIMENSIONS)
    for digit in range(10):
        np.testing.assert_allclose(items.features[items.digits == digit].mean(axis=0), 0, atol=1e-12)
    truth = demo.true_metric(items.components)
    assert np.linalg.eigvalsh(truth)[0] >= 0
    answers = demo.ask_crowd(items, truth, 50, seed=0)
    left, right = answers.pairs.T
    assert np.all(items.digits[left] == items.digits[right])
    assert np.all(left != right)
    np.testing.assert_array_equal(np.bincount(answers.users[answers.held_out]), np.full(50, demo.HELD_OUT))


def test_the_neighbors_show_a_difference(demo) -> None:
    """Under the crowd's metric and under Euclid's, the picture that is shown has neighbors of different digits."""
    items = demo.read_digits()
    truth, plain = demo.true_metric(items.components), np.eye(demo.DIMENSIONS)
    some = range(0, len(items.digits), demo.EVERY)
    number = some[int(np.argmin(demo.shared(items, plain, truth, some, 8)))]
    near, nearest_plainly = (items.digits[demo.neighbors(items, M, number, 8)] for M in (truth, plain))
    assert set(near) != set(nearest_plainly)
    assert demo.shared(items, plain, truth, [number], 8)[0] == 0
    np.testing.assert_array_equal(demo.shared(items, truth, truth, some[:5], 8), 1.0)
