"""The GPU's kernels against the formulas they stand for, in Triton's interpreter on the processor, or on a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from crowdmetric.losses import Logistic
from crowdmetric.users import integrals
from crowdmetric.users.first_order import add_rows
from crowdmetric.users.integrals import Integral, on_grid
from crowdmetric.users.propagation import propagated

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
pytest.importorskip("triton", reason="Triton is not installed; it comes with PyTorch for CUDA")

CLOSE = {"float64": 1e-8, "float32": 1e-4}


@pytest.fixture(name="device")
def _device(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A place where the kernels run."""
    if torch.cuda.is_available():
        yield "cuda"
        return
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("there is no GPU; set TRITON_INTERPRET=1 to run the kernels in Triton's interpreter")
    yield "cpu"
    integrals._fused_kernels.cache_clear()


def people(P: int, m: int, scale: float, q: int | None = None) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(P + m)
    q = m if q is None else q
    A = rng.standard_normal((P, q, q)) * scale
    S = A @ A.transpose(0, 2, 1) / q
    E = np.broadcast_to(np.eye(m), (P, m, m)).copy() if q == m else rng.standard_normal((P, m, q))
    a, y, weight = rng.standard_normal((P, m)), rng.choice([-1.0, 1.0], (P, m)), np.ones((P, m))
    weight[::3, 0] = 2.0
    if m > 2:
        weight[1, -1], y[1, -1] = 0.0, 1.0  # padding
    return a, E, S, y, weight


def agree(there: Integral, here: Integral, close: float) -> None:
    for name in ("value", "slope", "bend", "precision"):
        found, expected = np.asarray(getattr(there, name).cpu()), getattr(here, name)
        np.testing.assert_allclose(found, expected, rtol=0, atol=close * max(1.0, float(np.abs(expected).max())))


def moved(arrays: tuple[np.ndarray, ...], dtype: str, device: str) -> list[Any]:
    return [torch.as_tensor(x, dtype=getattr(torch, dtype), device=device) for x in arrays]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("scale", [0.3, 5.0])
def test_a_line_is_that_of_the_compiled_loops(scale: float, dtype: str, device: str) -> None:
    arrays, loss = people(40, 1, scale), Logistic(1.3)
    agree(on_grid(*moved(arrays, dtype, device), loss), on_grid(*arrays, loss), CLOSE[dtype])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("m", "scale", "q"), [(2, 0.7, None), (3, 40.0, None), (5, 1.0, 2), (4, 3.0, None)],
    ids=["two", "too wide for a line", "in a plane", "far answers"],
)  # fmt: skip
def test_propagation_ends_where_the_compiled_loops_end(
    m: int, scale: float, q: int | None, dtype: str, device: str
) -> None:
    arrays, loss = people(6, m, scale, q), Logistic(0.9)
    here, settled_here = propagated(*arrays, loss)
    there, settled_there = propagated(*moved(arrays, dtype, device), loss)
    assert bool(settled_here.all())
    assert bool(settled_there.all())
    agree(there, here, CLOSE[dtype])


def test_the_kernels_are_really_used(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    module = integrals.fused_kernels(torch.zeros(1, device=device))
    assert module is not None
    kernel = module.propagated
    monkeypatch.setattr(module, "propagated", lambda *arguments: used.append(1) or kernel(*arguments))
    propagated(*moved(people(4, 2, 0.5), "float64", device), Logistic())
    assert used


def test_rows_are_added_up(device: str) -> None:
    rng = np.random.default_rng(0)
    rows, values, into = rng.integers(0, 7, (50, 2)), rng.standard_normal((50, 2, 5)), rng.standard_normal((7, 5))
    expected = add_rows(into.copy(), rows, values)
    found = add_rows(*(torch.as_tensor(x, device=device) for x in (into, rows, values)))
    np.testing.assert_allclose(found.cpu(), expected, atol=1e-12)
    sums = add_rows(torch.zeros(7, dtype=torch.float64, device=device), *moved_rows(rows, values[:, :, 0], device))
    np.testing.assert_allclose(sums.cpu(), add_rows(np.zeros(7), rows, values[:, :, 0]), atol=1e-12)


def moved_rows(rows: np.ndarray, values: np.ndarray, device: str) -> tuple[Any, Any]:
    return torch.as_tensor(rows, device=device), torch.as_tensor(values, device=device)
