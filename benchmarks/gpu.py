"""A graphics card against two cores: d = 384, rank 32, a million items, ten million people with one answer each.

``python -m benchmarks gpu`` needs PyTorch and a CUDA device; ``python -m benchmarks.gpu --device cpu --people 20000
--items 5000`` runs a small version anywhere.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

import numpy as np

from crowdmetric.engines.torch_engine import TorchEngine
from crowdmetric.fits.many_features import NUMBERS
from crowdmetric.losses import Logistic
from crowdmetric.solvers.quasi_newton import fit_low_rank, start_of
from crowdmetric.symmetric import relative_error, shape_error
from crowdmetric.users.first_order import EqualQuestions, LowRank, moment_matrix, value_and_gradient


def _crowd(engine: TorchEngine, d: int, k: int, n_items: int, people: int, seed: int) -> Any:
    """Draw items and people N(0, I/d) on the device; a person is drawn as Lᵀu, which is all that answers see."""
    torch, chunk = engine.torch, engine.answers_at_once(NUMBERS)
    draw = torch.Generator(device=engine.device).manual_seed(seed)
    like = {"dtype": engine.dtype, "device": engine.device, "generator": draw}
    items = torch.randn(n_items, d, **like) / d**0.5
    L = np.random.default_rng(seed).standard_normal((d, k))
    L *= (d / np.linalg.norm(L @ L.T)) ** 0.5
    on_device = engine.asarray(L)
    Y = items @ on_device
    root = torch.linalg.cholesky((on_device.T @ on_device).double()).to(engine.dtype) / d**0.5
    chunks = []
    for start in range(0, people, chunk):
        size = min(chunk, people - start)
        pair = torch.randint(0, n_items, (2, size), device=engine.device, generator=draw)
        left, right = Y[pair[0]], Y[pair[1]]
        person = torch.randn(size, k, **like) @ root.T
        psi = ((left - right) * (left + right - 2.0 * person)).sum(1)
        coin = torch.rand(size, **like)
        y = torch.where(coin < torch.sigmoid(psi), 1.0, -1.0).to(engine.dtype)
        chunks.append(EqualQuestions(pair[0][:, None], pair[1][:, None], y[:, None], torch.ones_like(y)[:, None]))
    return items, chunks, L @ L.T


def _time(function: Any, engine: TorchEngine, repeat: int = 3) -> float:
    """Return the best of some timings, in seconds."""
    best = np.inf
    for _ in range(repeat):
        clock = perf_counter()
        function()
        if engine.device != "cpu":
            engine.torch.cuda.synchronize()
        best = min(best, perf_counter() - clock)
    return best


def _ceilings(engine: TorchEngine) -> tuple[float, float]:
    """Return measured matrix-product rate (flop/s) and copy bandwidth (bytes/s) in the engine's precision."""
    torch, n = engine.torch, 8192 if engine.device != "cpu" else 1024
    a = torch.randn(n, n, dtype=engine.dtype, device=engine.device)
    rate = 2.0 * n**3 / _time(lambda: a @ a, engine)
    big = torch.empty(2**28 if engine.device != "cpu" else 2**24, dtype=engine.dtype, device=engine.device)
    other = torch.empty_like(big)
    return rate, 2.0 * big.numel() * big.element_size() / _time(lambda: other.copy_(big), engine)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("d", 384), ("rank", 32), ("items", 10**6), ("people", 10**7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default=None)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args([] if arguments is None else arguments)
    d, k, loss = options.d, options.rank, Logistic()
    engine = TorchEngine(options.device, options.dtype)
    print(f"device {engine.device}, {options.dtype}{'; ' + engine.fallback if engine.fallback else ''}")
    rate, bandwidth = _ceilings(engine)
    print(f"measured: {rate / 1e12:.1f} Tflop/s in matrix products, {bandwidth / 1e12:.2f} TB/s in copies")
    items, chunks, truth = _crowd(engine, d, k, options.items, options.people, options.seed)

    clock = perf_counter()
    C = np.eye(d) * float((items * items).sum() / items.shape[0]) / d
    L = start_of(moment_matrix(items, chunks), C, k)
    began = perf_counter() - clock
    result = fit_low_rank(lambda at: value_and_gradient(items, chunks, at, loss), L, np.zeros(d), -0.5 * np.log(d))
    seconds = perf_counter() - clock
    M = result.at.factor @ result.at.factor.T
    print(
        f"{options.people:,} people: start {began:.2f} s (shape error {shape_error(L @ L.T, truth):.3f}), whole fit "
        f"{seconds:.2f} s, {result.passes} passes, {'converged' if result.converged else 'stopped'}; "
        f"shape error {shape_error(M, truth):.3f}, relative error {relative_error(M, truth):.3f}, "
        f"spread {np.exp(result.at.log_spread) * d**0.5:.3f} of the truth"
    )
    _describe_pass(engine, items, chunks, result.at, rate, bandwidth, options)
    if engine.device != "cpu":
        _against_two_cores(items, chunks, result.at, options)


def _describe_pass(
    engine: TorchEngine, items: Any, chunks: Any, at: LowRank, rate: float, bw: float, options: Any
) -> None:
    loss, d, k = Logistic(), options.d, options.rank
    one = _time(lambda: value_and_gradient(items, chunks, at, loss), engine)
    flops = 2.0 * 2.0 * options.items * d * k + options.people * (2.0 * 2.0 * k * k + 6.0 * k)
    # rows of Y gathered twice and scattered twice, the nodes of the grid written and read about ten times
    moved = items.element_size() * (2.0 * options.items * d + options.people * (4.0 * 3.0 * k + 10.0 * 49.0))
    print(
        f"one pass {1e3 * one:.1f} ms, {options.people / one / 1e6:.0f} million answers a second; "
        f"{100 * flops / one / rate:.1f} % of the matrix rate, about {100 * moved / one / bw:.0f} % of the bandwidth"
    )


def _against_two_cores(items: Any, chunks: Any, at: LowRank, options: Any) -> None:
    """Time the same pass with two threads of this machine's processor, on a part of the people."""
    engine = TorchEngine("cpu", options.dtype)
    engine.torch.set_num_threads(2)
    part = [
        EqualQuestions(*(getattr(chunks[0], name)[:200_000].cpu() for name in ("left", "right", "response", "weight")))
    ]
    here = items.cpu()
    full = _time(lambda: value_and_gradient(here, part, at, Logistic()), engine, 2)
    none = _time(lambda: value_and_gradient(here, [], at, Logistic()), engine, 2)
    whole = none + (full - none) * options.people / 200_000
    print(
        f"two cores, the same code: {whole:.1f} s a pass (from 200,000 people; {none:.2f} s of it products with items)"
    )


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
