"""Integrating people out beside what other packages do with the same likelihood: PyTorch, JAX, NumPyro, xlogit.

``python -m benchmarks packages`` prints CPU seconds on one thread, compilation apart, and the log-likelihood that each
reached, all evaluated by the same fine quadrature. A package that is not installed is left out, and said to be.

On lines (the paper's data, 6,400 people × 8) the likelihood is an integral over one dimension. PyTorch and JAX are
what a competent user would write: 41 nodes, automatic gradients, L-BFGS. NumPyro has every person's place as a latent
variable, fitted by variational inference.

A mixed logit with fixed coefficients on quadratic features and normal ones on the features themselves,
``ψ = ⟨Δ, M⟩ + ⟨δ, v⟩``, is `PopulationMetric` with a free covariance and no constraint. xlogit knows independent
coefficients only, so the truth is a diagonal metric, for which they are.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from time import process_time
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from crowdmetric import PopulationMetric
from crowdmetric.errors import CrowdmetricWarning
from crowdmetric.losses import Logistic
from crowdmetric.simulate import SimulatedCrowd, answer, simulate_crowd
from crowdmetric.symmetric import svec
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.population_sums import Law, blocks_of, integrate

Array = NDArray[Any]

Result = TypeVar("Result")

NODES, REACH = 41, 4.8
REPEATS = 3
STEPS = 3_000  # of variational inference
DRAWS = 200  # Halton draws a person of the mixed logit


def main() -> None:
    on_lines()
    as_mixed_logit()


def log_likelihood(items: Array, pairs: Array, y: Array, users: Array, law: Law) -> float:
    """Return the log-likelihood of answers under a law, by quadrature."""
    people = np.zeros(int(users.max()) + 1, dtype=np.intp)
    answers = Answers(items, pairs, y.astype(float), np.ones(y.size), users.astype(np.intp), people, 1)
    return float(sum(integrate(block, law, Logistic()).value.sum() for block in blocks_of(arrange(answers))))


def _timed(run: Callable[[], Result], repeats: int = REPEATS) -> tuple[Result, float]:
    """Return a result and the fewest CPU seconds of some runs: other work disturbs."""
    seconds = []
    for _ in range(repeats):
        clock = process_time()
        result = run()
        seconds.append(process_time() - clock)
    return result, min(seconds)


def _fit(items: Array, pairs: Array, y: Array, users: Array, **options: Any) -> tuple[PopulationMetric, float]:
    """Return a model and the CPU seconds that it took."""
    options = {"ridge": None, "starts": 1, "uncertainty": False, "jobs": 1} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)
        model = PopulationMetric(items, **options)
        model.fit(pairs, y, users=users)  # compiles
        return _timed(lambda: model.fit(pairs, y, users=users))


def _missing(package: str) -> bool:
    if find_spec(package) is None:
        print(f"  {package} is not installed: no comparison")
        return True
    return False


# ------------------------------------------------------------------------------------------------ on lines


def _isotropic(metric: Array, mean: Array, log_s: float) -> Law:
    return Law(metric, mean, 4.0 * np.exp(2.0 * log_s) * metric @ metric)


def on_lines() -> None:
    crowd = simulate_crowd(10, 80, 1, 80, 8, seed=3)
    model, ours = _fit(crowd.items, crowd.pairs, crowd.y, crowd.users)
    print(
        "80 × 80 people × 8 answers on lines, no ridge\n"
        f"  {'PopulationMetric':28}{ours:7.2f} s   log-likelihood {model.log_likelihood_:.3f}",
        flush=True,
    )
    for package, run in (("torch", _torch), ("jax", _jax), ("numpyro", _numpyro)):
        if not _missing(package):
            name, seconds, law = run(crowd)
            reached = log_likelihood(crowd.items, crowd.pairs, crowd.y, crowd.users, law)
            print(f"  {name:28}{seconds:7.2f} s   log-likelihood {reached:.3f}   {seconds / ours:.0f}×", flush=True)


def _line(crowd: SimulatedCrowd) -> tuple[Array, Array, Array, Array]:
    """Return δ, s and the direction (T, d) of every answer's line, and where δ lies along it (T,)."""
    delta = crowd.items[crowd.pairs[:, 0]] - crowd.items[crowd.pairs[:, 1]]
    total = crowd.items[crowd.pairs[:, 0]] + crowd.items[crowd.pairs[:, 1]]
    basis = crowd.bases[:, :, 0][crowd.labels[crowd.pairs[:, 0]]]
    return delta, total, basis, np.sum(delta * basis, axis=1)


def _torch(crowd: SimulatedCrowd) -> tuple[str, float, Law]:
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)
    delta, total, basis, along = (torch.as_tensor(x) for x in _line(crowd))
    y = torch.as_tensor(crowd.y, dtype=torch.float64).reshape(-1, 8)
    nodes = torch.linspace(-REACH, REACH, NODES, dtype=torch.float64)
    log_weights = torch.log_softmax(-0.5 * nodes**2, 0)

    def run() -> tuple[Any, Any, Any]:
        L = (2.0**0.5 * torch.eye(10, dtype=torch.float64)).requires_grad_()
        mean, log_s = torch.zeros(10, dtype=torch.float64), torch.tensor(-1.15, dtype=torch.float64)
        parameters = [L, mean.requires_grad_(), log_s.requires_grad_()]
        optimizer = torch.optim.LBFGS(parameters, max_iter=500, history_size=20, line_search_fn="strong_wolfe")

        def loss() -> Any:
            optimizer.zero_grad()
            M = L @ L.T
            a = ((delta @ M) * total).sum(1) + delta @ mean
            spread = 2.0 * log_s.exp() * (basis @ M).norm(dim=1) * along
            psi = (a[:, None] + spread[:, None] * nodes).reshape(-1, 8, NODES)
            joint = torch.nn.functional.logsigmoid(y[:, :, None] * psi).sum(1) + log_weights
            value = -torch.logsumexp(joint, 1).sum()
            value.backward()
            return value

        optimizer.step(loss)
        return L.detach().numpy(), mean.detach().numpy(), log_s.item()

    (L, mean, log_s), seconds = _timed(run)
    return "plain PyTorch, L-BFGS", seconds, _isotropic(L @ L.T, mean, log_s)


def _one_thread_of_xla() -> None:
    """Keep XLA to one thread; it looks when it is loaded."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")


def _jax(crowd: SimulatedCrowd) -> tuple[str, float, Law]:
    _one_thread_of_xla()
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    delta, total, basis, along = map(jnp.asarray, _line(crowd))
    y = jnp.asarray(crowd.y, dtype=float).reshape(-1, 8)
    nodes = jnp.linspace(-REACH, REACH, NODES)
    log_weights = jax.nn.log_softmax(-0.5 * nodes**2)

    def loss(theta: Any) -> Any:
        L, mean, log_s = theta[:100].reshape(10, 10), theta[100:110], theta[110]
        M = L @ L.T
        a = jnp.sum((delta @ M) * total, axis=1) + delta @ mean
        spread = 2.0 * jnp.exp(log_s) * jnp.linalg.norm(basis @ M, axis=1) * along
        psi = (a[:, None] + spread[:, None] * nodes).reshape(-1, 8, NODES)
        joint = jax.nn.log_sigmoid(y[:, :, None] * psi).sum(axis=1) + log_weights
        return -jax.scipy.special.logsumexp(joint, axis=1).sum()

    both = jax.jit(jax.value_and_grad(loss))
    start = np.concatenate([2.0**0.5 * np.eye(10).ravel(), np.zeros(10), [-1.15]])
    both(start)[0].block_until_ready()  # compiles

    def function(theta: Array) -> tuple[float, Array]:
        value, gradient = both(theta)
        return float(value), np.asarray(gradient)

    options = {"maxiter": 500, "maxcor": 20}
    end, seconds = _timed(lambda: minimize(function, start, jac=True, method="L-BFGS-B", options=options).x)
    L = end[:100].reshape(10, 10)
    return "plain JAX, L-BFGS", seconds, _isotropic(L @ L.T, end[100:110], float(end[110]))


def _numpyro(crowd: SimulatedCrowd) -> tuple[str, float, Law]:
    _one_thread_of_xla()
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415
    import numpyro  # noqa: PLC0415
    import numpyro.distributions as dist  # noqa: PLC0415
    from numpyro.infer import SVI, Trace_ELBO  # noqa: PLC0415
    from numpyro.infer.autoguide import AutoNormal  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    delta, total, basis, along = map(jnp.asarray, _line(crowd))
    right = jnp.asarray(crowd.y > 0, dtype=float)
    users, people = jnp.asarray(crowd.users), len(crowd.ideal_points)

    def model() -> None:
        L = numpyro.param("L", 2.0**0.5 * jnp.eye(10))
        mean, log_s = numpyro.param("mean", jnp.zeros(10)), numpyro.param("log_s", -1.15)
        M = L @ L.T
        with numpyro.plate("people", people):
            place = numpyro.sample("place", dist.Normal(0.0, 1.0))
        spread = 2.0 * jnp.exp(log_s) * jnp.linalg.norm(basis @ M, axis=1) * along
        psi = jnp.sum((delta @ M) * total, axis=1) + delta @ mean + spread * place[users]
        numpyro.sample("y", dist.Bernoulli(logits=psi), obs=right)

    svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.01), Trace_ELBO())
    start = svi.init(jax.random.PRNGKey(0))
    steps = jax.jit(lambda state: jax.lax.fori_loop(0, STEPS, lambda _, now: svi.update(now)[0], state))
    steps = steps.lower(start).compile()
    # results come before they are ready, which must not be mistaken for speed
    end, seconds = _timed(lambda: jax.block_until_ready(steps(start)), 1)
    params = svi.get_params(end)
    L = np.asarray(params["L"])
    law = _isotropic(L @ L.T, np.asarray(params["mean"]), float(params["log_s"]))
    return f"NumPyro, {STEPS:,} steps of SVI", seconds, law


# -------------------------------------------------------------------------------------------- mixed logit


def as_mixed_logit(d: int = 3, people: int = 2_000, each: int = 5) -> None:
    rng = np.random.default_rng(0)
    metric = np.diag(np.geomspace(0.5, 2.0, d))
    ideal = rng.standard_normal((people, d)) / np.sqrt(d)
    users = np.repeat(np.arange(people), each)
    items = rng.standard_normal((2 * users.size, d))
    pairs = np.arange(2 * users.size).reshape(-1, 2)
    y = answer(items, pairs, ideal[users], metric, seed=1)
    free = {"covariance": "free", "constraint": "symmetric"}
    print(f"{people:,} people × {each} answers, d = {d}, mixed logit: free covariance, no constraint, no ridge")
    model, ours = _fit(items, pairs, y, users, **free)

    def reached(law: Law) -> float:
        return log_likelihood(items, pairs, y, users, law)

    law = Law(model.metric_, model.pseudo_ideal_mean_, model.pseudo_ideal_covariance_)
    print(f"  {'PopulationMetric':28}{ours:7.2f} s   log-likelihood {reached(law):.3f}", flush=True)
    if _missing("xlogit"):
        return
    seconds, theirs = _xlogit(items, pairs, y, users)
    print(
        f"  {f'xlogit, {DRAWS} draws, independent':28}{seconds:7.2f} s   log-likelihood {reached(theirs):.3f}   "
        f"{seconds / ours:.0f}×",
        flush=True,
    )


def _xlogit(items: Array, pairs: Array, y: Array, users: Array) -> tuple[float, Law]:
    from xlogit import MixedLogit  # noqa: PLC0415

    d = items.shape[1]
    shown = items[pairs.ravel()]  # left, right, left, right, …
    squares = np.array([svec(np.outer(x, x)) for x in shown])
    linear, quadratic = [f"x{i}" for i in range(d)], [f"q{i}" for i in range(squares.shape[1])]
    model = MixedLogit()
    data = {
        "X": np.column_stack([shown, squares]),
        "y": np.column_stack([y < 0, y > 0]).ravel(),
        "varnames": [*linear, *quadratic],
        "alts": np.tile(["left", "right"], y.size),
        "ids": np.repeat(np.arange(y.size), 2),
        "panels": np.repeat(users, 2),
        "randvars": dict.fromkeys(linear, "n"),
    }
    _, seconds = _timed(lambda: model.fit(**data, n_draws=DRAWS, verbose=0, skip_std_errs=True))
    known = dict(zip(model.coeff_names, model.coeff_, strict=True))
    coefficients: Callable[[list[str]], Array] = lambda names: np.array([known[name] for name in names])  # noqa: E731
    spread = coefficients([f"sd.{name}" for name in linear])
    upper = coefficients(quadratic)
    metric = np.zeros((d, d))
    metric[np.triu_indices(d)] = -upper
    metric = np.where(np.eye(d, dtype=bool), metric, (metric + metric.T) / np.sqrt(2.0))
    # a utility is −(⟨xxᵀ, M⟩ + ⟨x, v⟩)
    return seconds, Law(metric, -coefficients(linear), np.diag(spread**2))
