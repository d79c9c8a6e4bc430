"""A GPU through the public class, beside its own work: d = 384, rank 32, a million items.

``python -m benchmarks gpu`` needs PyTorch and a CUDA device; ``python -m benchmarks.gpu --device cpu --people 20000
--items 5000`` runs a small version anywhere. Parts (`--parts`):

agreement   the GPU's kernels against the formulas in PyTorch's arrays, on the same GPU
passes      one pass: value and gradient of everybody's likelihood, data on the GPU
scoring     one pass of a fit by scoring, d = 10, four answers per person
public      from NumPy's arrays to ``metric_``, through `PopulationMetric`
tensors     the same from tensors that are on the GPU
tune        the propagation kernel with other numbers of people per program and nodes at once
"""

from __future__ import annotations

import argparse
import resource
import sys
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

try:
    import numba  # noqa: F401
except ImportError:  # the few people whom a GPU leaves to compiled loops then take longer
    sys.modules["numba"] = SimpleNamespace(njit=lambda **_: lambda function: function)  # type: ignore[assignment]

from crowdmetric import PopulationMetric
from crowdmetric.engines.torch_engine import TorchEngine
from crowdmetric.fits import many_features
from crowdmetric.fits.on_device import asked_on_device
from crowdmetric.fits.question_stream import NUMBERS
from crowdmetric.losses import Logistic
from crowdmetric.symmetric import shape_error
from crowdmetric.users import first_order
from crowdmetric.users.first_order import IsotropicPeople, LowRank, value_and_gradient
from crowdmetric.users.integrals import fused_kernels, loadings_of, on_grid, products_by_person
from crowdmetric.users.population_sums import STRUCTURES, PopulationBlock, sums_of
from crowdmetric.users.propagation import propagate, propagated

PARTS = ("agreement", "passes", "scoring", "public")
# Other shapes of the propagation kernel: people per program and nodes at once.
VARIANTS = ((4, 8), (8, 4), (8, 8), (2, 16), (16, 4))
# Answers drawn together.
DRAWN = 1 << 22


def draw_crowd(engine: TorchEngine, d: int, k: int, n_items: int, people: int, answers: int, seed: int) -> Any:
    """Return items, pairs, y and users as tensors, and the metric: items and people are N(0, I/d).

    A person is drawn as Lᵀu, which is all that answers see.
    """
    torch = engine.torch
    draw = torch.Generator(device=engine.device).manual_seed(seed)
    like = {"dtype": torch.float32, "device": engine.device, "generator": draw}
    items = torch.randn(n_items, d, **like) / d**0.5
    L = np.random.default_rng(seed).standard_normal((d, k))
    L *= (d / np.linalg.norm(L @ L.T)) ** 0.5
    factor = torch.as_tensor(L, dtype=torch.float32, device=engine.device)
    Y = items @ factor
    root = torch.linalg.cholesky((factor.T @ factor).double()).float() / d**0.5
    places = torch.randn(people, k, **like) @ root.T
    users = torch.arange(people, device=engine.device).repeat_interleave(answers)
    if answers > 1:
        users = users[torch.randperm(users.shape[0], device=engine.device, generator=draw)]
    pairs = torch.randint(0, n_items, (users.shape[0], 2), device=engine.device, generator=draw)
    y = torch.empty(users.shape[0], dtype=torch.int8, device=engine.device)
    for begin in range(0, users.shape[0], DRAWN):
        part = slice(begin, begin + DRAWN)
        left, right = Y[pairs[part, 0]], Y[pairs[part, 1]]
        psi = ((left - right) * (left + right - 2.0 * places[users[part]])).sum(1)
        y[part] = torch.where(torch.rand(psi.shape[0], **like) < torch.sigmoid(psi), 1, -1).to(torch.int8)
    return items, pairs, y, users, L @ L.T


def seconds_of(function: Any, engine: TorchEngine, repeat: int = 3) -> float:
    """Return the median of some timings, after one that does not count."""
    times = []
    for _ in range(repeat + 1):
        clock = perf_counter()
        function()
        if engine.device != "cpu":
            engine.torch.cuda.synchronize()
        times.append(perf_counter() - clock)
    return float(np.median(times[1:]))


def ceilings(engine: TorchEngine) -> tuple[float, float]:
    """Return measured matrix-product rate (flop/s) and copy bandwidth (bytes/s) in the engine's precision."""
    torch, n = engine.torch, 8192 if engine.device != "cpu" else 512
    a = torch.randn(n, n, dtype=engine.dtype, device=engine.device)
    rate = 2.0 * n**3 / seconds_of(lambda: a @ a, engine)
    big = torch.randn(2**28 if engine.device != "cpu" else 2**22, dtype=engine.dtype, device=engine.device)
    other = torch.empty_like(big)
    return rate, 2.0 * big.numel() * big.element_size() / seconds_of(lambda: other.copy_(big), engine)


def drawn_people(engine: TorchEngine, P: int, m: int, spread: float, seed: int = 0) -> tuple[Any, ...]:
    """Return a, E, S, y and weights of people whose ψ vary about so much."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((P, m, m)) * spread
    S = A @ A.transpose(0, 2, 1) / m
    a, y = spread * rng.standard_normal((P, m)), rng.choice([-1.0, 1.0], (P, m))
    E = engine.torch.eye(m, dtype=engine.dtype, device=engine.device).expand(P, m, m)
    a, S, y, weight = (engine.asarray(x) for x in (a, S, y, np.ones((P, m))))
    return a, E, S, y, weight


def show_agreement(options: Any) -> None:
    loss = Logistic(1.1)
    for dtype in ("float64", "float32"):
        engine = TorchEngine(options.device, dtype)
        if fused_kernels(engine.asarray(np.zeros(1))) is None:
            print("agreement: there are no fused kernels here")
            return
        for m in (1, 2, 5, 8, 13):
            for spread in (0.5, 3.0):
                P = 3000 if m == 1 else 500
                arrays = drawn_people(engine, P, m, spread)
                found = on_grid(*arrays, loss) if m == 1 else propagated(*arrays, loss)[0]
                a, E, S, y, weight = (x.double() for x in arrays)
                if m == 1:  # by the array library: two answers, one of which has no weight
                    twice = [engine.torch.cat([x, x], dim=1) for x in (a, E, y, weight)]
                    twice[3][:, 1] = 0.0
                    expected = on_grid(twice[0], twice[1], S, *twice[2:], loss)
                else:
                    expected = propagate(a, E, loadings_of(E, S), y, weight, loss)[0]
                gaps = [
                    float((getattr(found, n).double() - getattr(expected, n)[..., :m]).abs().max())
                    if n in ("slope", "precision")
                    else float((getattr(found, n).double() - getattr(expected, n)).abs().max())
                    for n in ("value", "slope", "bend", "precision")
                ]
                print(f"agreement {dtype} m={m} spread={spread}: " + ", ".join(f"{gap:.1e}" for gap in gaps))


def show_passes(options: Any) -> None:
    for dtype in options.dtypes:
        engine = TorchEngine(options.device, dtype)
        rate, bandwidth = ceilings(engine)
        print(f"{dtype}: {rate / 1e12:.1f} Tflop/s in matrix products, {bandwidth / 1e12:.2f} TB/s in copies")
        for people, m in options.crowds:
            _show_pass(options, engine, people, m, rate, bandwidth)


def _show_pass(options: Any, engine: TorchEngine, people: int, m: int, rate: float, bandwidth: float) -> None:
    d, k, T = options.d, options.rank, people * m
    items, pairs, y, users, truth = draw_crowd(engine, d, k, options.items, people, m, options.seed)
    asked = asked_on_device(pairs, y, users, None, items, engine, NUMBERS)
    assert asked is not None
    del items, pairs, y, users
    values, vectors = np.linalg.eigh(truth)
    L = vectors[:, -k:] * np.sqrt(values[-k:]) * asked.units.size
    at = LowRank(L, np.zeros(d), IsotropicPeople(-0.5 * float(np.log(d)) - float(np.log(asked.units.size))))
    one = seconds_of(lambda: value_and_gradient(asked.items, asked.questions, at, Logistic()), engine)
    none = seconds_of(lambda: value_and_gradient(asked.items, [], at, Logistic()), engine)
    size = asked.items.element_size()
    flops = 4.0 * options.items * d * k + T * (4.0 * k * k + 6.0 * k * m)
    # items read twice; of an answer two rows of Y gathered, and two of its gradient read and written
    moved = size * (2.0 * options.items * d + T * 6.0 * k) + T * (16 + 2 * size)
    print(
        f"pass {engine.dtype} {people:,} × {m}: {1e3 * one:.1f} ms ({1e3 * none:.1f} of it products with items), "
        f"{T / one / 1e6:.0f} million answers per second; {100 * flops / one / rate:.1f} % of the matrix rate, "
        f"{100 * moved / one / bandwidth:.1f} % of the bandwidth"
    )
    _show_parts(asked, at, engine)


def _show_parts(asked: Any, at: LowRank, engine: TorchEngine) -> None:
    """Print what the integrals alone take, and how many people they leave to slower ways."""
    chunk = asked.questions[0]
    seen = first_order._Seen.of(asked.items, at)
    Y = seen.Y
    Z, _, ZC, _ = first_order._integrate(chunk, seen, Logistic())
    S = products_by_person(ZC, Z.mT)
    a = (Y[chunk.left] - Y[chunk.right]).mul_(Y[chunk.left] + Y[chunk.right]).sum(2)
    E = engine.torch.eye(S.shape[1], dtype=S.dtype, device=S.device).expand(S.shape)
    arguments = (a, E, S, chunk.response, chunk.weight, Logistic())
    way = on_grid if S.shape[1] == 1 else propagated
    alone = seconds_of(lambda: way(*arguments), engine)
    checked = seconds_of(lambda: first_order.integrate_people(*arguments, 1), engine)
    P = a.shape[0]
    print(f"  of {P:,} people: integrals {1e3 * alone:.1f} ms, with checks {1e3 * checked:.1f} ms")


def scoring_block(engine: TorchEngine, P: int, m: int, d: int) -> PopulationBlock:
    torch = engine.torch
    draw = torch.Generator(device=engine.device).manual_seed(1)
    like = {"dtype": engine.dtype, "device": engine.device, "generator": draw}
    x, x_ = torch.randn(P, m, d, **like) / d**0.5, torch.randn(P, m, d, **like) / d**0.5
    y = torch.where(torch.rand(P, m, **like) < 0.5, 1.0, -1.0).to(engine.dtype)
    E = torch.eye(m, dtype=engine.dtype, device=engine.device).expand(P, m, m)
    nobody = np.empty((P, 0, 2), dtype=np.intp)
    return PopulationBlock(x - x_, E, x + x_, y, torch.ones_like(y), np.arange(P), nobody)


def show_scoring(options: Any) -> None:
    engine = TorchEngine(options.device, "float64")
    structure, d = STRUCTURES["isotropic"], 10
    natural = np.concatenate([_svec_identity(d, 3.0), np.zeros(d), [-0.5 * np.log(d)]])
    for m in (1, 2, 4, 8):
        P = options.scored
        block = scoring_block(engine, P, m, d)
        one = seconds_of(lambda: sums_of(block, structure, natural, Logistic(), largest_grid=1), engine, 2)  # noqa: B023
        print(f"scoring d = 10, {m} answers: {P / one / 1e6:.2f} million people per second ({1e3 * one:.1f} ms)")


def _svec_identity(d: int, scale: float) -> Any:
    from crowdmetric.symmetric import svec  # noqa: PLC0415

    return svec(scale * np.eye(d))


def memory_now() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def show_public(options: Any, *, tensors: bool = False) -> None:
    for dtype in options.dtypes:
        engine = TorchEngine(options.device, dtype)
        for people, m in options.crowds:
            items, pairs, y, users, truth = draw_crowd(
                engine, options.d, options.rank, options.items, people, m, options.seed
            )
            given = [items, pairs, y, users]
            if not tensors:
                given = [np.ascontiguousarray(x.cpu().numpy()) for x in given]
                if dtype == "float64":
                    given[0] = given[0].astype(np.float64)
            size = sum(x.nbytes for x in given) / 1e9
            del items, pairs, y, users
            if engine.device != "cpu":
                engine.torch.cuda.empty_cache()
            before, clock = memory_now(), perf_counter()
            stages: dict[str, float] = {}
            with watched(stages, engine):
                model = PopulationMetric(given[0], rank=options.rank, engine=engine).fit(*given[1:3], users=given[3])
            whole = perf_counter() - clock
            own = stages["fit_low_rank"]
            named = ", ".join(f"{name} {seconds:.2f}" for name, seconds in stages.items())
            print(
                f"public {dtype} {people:,} × {m}{' (tensors)' if tensors else ''}: {whole:.2f} s, the GPU's own fit "
                f"{own:.2f} s ({model.solution_.iterations} passes); shape error "
                f"{shape_error(model.metric_, truth):.3f}; input {size:.2f} GB, "
                f"{memory_now() - before:.2f} GB more at most\n  {named}"
            )
            del model, given


class watched:
    """Write into a dictionary how long the parts of a fit by gradients take."""

    def __init__(self, stages: dict[str, float], engine: TorchEngine) -> None:
        self.stages, self.engine = stages, engine
        import crowdmetric.estimators.population as estimator  # noqa: PLC0415

        self.places = [
            (estimator, "asked_on_device"), (many_features, "moment_matrix"), (many_features, "covariance_matrix"),
            (many_features, "start_of"), (many_features, "fit_low_rank"), (estimator, "factor_draws"),
            (estimator, "factor_errors"), (estimator, "coordinates_of_people"),
        ]  # fmt: skip

    def __enter__(self) -> None:
        self.kept = [(module, name, getattr(module, name)) for module, name in self.places]
        for module, name, function in self.kept:
            setattr(module, name, self._timed(name, function))

    def _timed(self, name: str, function: Any) -> Any:
        def timed(*arguments: Any, **more: Any) -> Any:
            clock = perf_counter()
            result = function(*arguments, **more)
            if self.engine.device != "cpu":
                self.engine.torch.cuda.synchronize()
            self.stages[name] = self.stages.get(name, 0.0) + perf_counter() - clock
            return result

        return timed

    def __exit__(self, *_: object) -> None:
        for module, name, function in self.kept:
            setattr(module, name, function)


def show_tuning(options: Any) -> None:
    for dtype in options.dtypes:
        engine = TorchEngine(options.device, dtype)
        for m, P in ((2, 2_000_000), (4, 1_000_000), (5, 1_000_000)):
            arrays = drawn_people(engine, P // 10, m, 1.0)
            a, E, S, y, weight = (x.repeat(10, *[1] * (x.ndim - 1)) for x in arrays)
            E = arrays[1][:1].expand(P, m, m)
            kernels = fused_kernels(a)
            assert kernels is not None
            size = max(2, 1 << (m - 1).bit_length())
            usual = kernels.SHAPES[size]
            for people, nodes in VARIANTS:
                kernels.SHAPES[size] = people, nodes
                clock = perf_counter()
                propagated(a[:100], E[:100], S[:100], y[:100], weight[:100], Logistic())
                began = perf_counter() - clock
                one = seconds_of(lambda: propagated(a, E, S, y, weight, Logistic()), engine)  # noqa: B023
                shape = f"people={people} nodes={nodes}"
                speed = f"{1e9 * one / P / m:.2f} ns per answer, {began:.1f} s to begin"
                print(f"tune {dtype} m={m} {shape}: {speed}")
            kernels.SHAPES[size] = usual


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("d", 384), ("rank", 32), ("items", 10**6), ("scored", 2 * 10**6), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--crowds", default="10000000x1,2000000x5", help="people x answers, …")
    parser.add_argument("--people", type=int, default=None, help="with one answer each, instead of --crowds")
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--device", default=None)
    parser.add_argument("--parts", default=",".join(PARTS))
    options = parser.parse_args([] if arguments is None else arguments)
    crowds = f"{options.people}x1" if options.people else options.crowds
    options.crowds = [tuple(map(int, crowd.split("x"))) for crowd in crowds.split(",")]
    options.dtypes = options.dtypes.split(",")
    engine = TorchEngine(options.device)
    print(f"device {engine.device}{'; ' + engine.fallback if engine.fallback else ''}")
    shows = {
        "agreement": show_agreement, "passes": show_passes, "scoring": show_scoring, "public": show_public,
        "tensors": lambda options: show_public(options, tensors=True), "tune": show_tuning,
    }  # fmt: skip
    for part in options.parts.split(","):
        clock = perf_counter()
        shows[part](options)
        print(f"[{part}: {perf_counter() - clock:.0f} s in all]", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
