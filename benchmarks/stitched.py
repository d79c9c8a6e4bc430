"""Stages 1 and 2 at d = 10, n = 80, r = 1, K = 80, m = 8, oracle radii.

Compared with what a competent user would write (one vectorized CVXPY problem a subspace, solved by Clarabel)
and with the published formulation (one CVXPY term a comparison, solved by SCS). The last two are timed on a few
subspaces and scaled to 80. Before that, the method for lines beside the interior point that it stands in for.
"""

from __future__ import annotations

import warnings
from itertools import product
from statistics import median
from time import perf_counter

import cvxpy as cp
import numpy as np

from crowdmetric.bounded.barrier import solve_barrier
from crowdmetric.bounded.line_subspaces import solve_bounded
from crowdmetric.losses import get_loss
from crowdmetric.simulate import SimulatedCrowd, simulate_crowd
from crowdmetric.stitch import stitch
from crowdmetric.symmetric import relative_error
from crowdmetric.users.blocks import Answers, arrange

D, N, K, M = 10, 80, 80, 8


def oracle_radii(crowd: SimulatedCrowd) -> tuple[np.ndarray, np.ndarray]:
    Q = np.swapaxes(crowd.bases, 1, 2) @ crowd.metric @ crowd.bases
    v = (-2.0 * crowd.ideal_points @ crowd.metric).reshape(N, -1, D) @ crowd.bases
    return np.linalg.norm(Q, axis=(1, 2)), np.linalg.norm(v, axis=2).max(axis=1)


def coordinates(crowd: SimulatedCrowd) -> np.ndarray:
    return np.einsum("ndr,nd->nr", crowd.bases[crowd.labels], crowd.items)


def answers_of(crowd: SimulatedCrowd) -> Answers:
    y, problem = crowd.y.astype(float), np.repeat(np.arange(N), len(crowd.ideal_points) // N)
    return Answers(coordinates(crowd), crowd.pairs, y, np.ones(y.size), crowd.users, problem, N)


def ours(crowd: SimulatedCrowd, loss: str) -> tuple[float, np.ndarray, float]:
    """Return seconds, objectives (n,) and relative error of both stages, from coordinates to metric."""
    radii = oracle_radii(crowd)
    answers = answers_of(crowd)
    clock = perf_counter()
    result = solve_bounded(arrange(answers), get_loss(loss), *radii)
    metric = stitch(crowd.bases, result.metrics, method="huber")
    return perf_counter() - clock, result.objective, relative_error(metric, crowd.metric)


def against_the_interior_point() -> None:
    """Print how much longer an interior point takes for stage 1 than the method for lines, over kinds of crowd."""
    ratios = {}
    for beta, people, answers, looser in product((1.0, 4.0), (1, 10, 40, 80), (1, 4, 8), (1.0, 10.0)):
        crowd = simulate_crowd(D, N, 1, people, answers, beta=beta, seed=0)
        radii = [looser * radius for radius in oracle_radii(crowd)]
        laid_out = arrange(answers_of(crowd))
        times = []
        for solve in (solve_barrier, solve_bounded):
            solve(laid_out, get_loss("logistic"), *radii)  # compiles, and fills caches
            times.append(min(solve(laid_out, get_loss("logistic"), *radii).seconds for _ in range(3)))
        ratios[beta, people, answers, looser] = times[0] / times[1]
    low, middle, high = (f(ratios.values()) for f in (min, median, max))
    print(
        f"stage 1 of {len(ratios)} crowds on lines, logistic: an interior point takes {middle:.1f} times as long "
        f"(median; {low:.1f} to {high:.0f})"
    )


def rows_of(crowd: SimulatedCrowd, subspace: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rows = crowd.users // K == subspace
    X = coordinates(crowd)
    return X[crowd.pairs[rows, 0]], X[crowd.pairs[rows, 1]], crowd.y[rows], crowd.users[rows] - subspace * K


def vectorized(crowd: SimulatedCrowd, subspace: int, loss: str) -> tuple[float, float]:
    """Return seconds and objective of one vectorized CVXPY problem with Clarabel."""
    zeta_metric, zeta_ideal = oracle_radii(crowd)
    left, right, y, user = rows_of(crowd, subspace)
    clock = perf_counter()
    r = left.shape[1]
    A, W = cp.Variable((r, r), PSD=True), cp.Variable((K, r))
    Delta = np.einsum("ti,tj->tij", left, left) - np.einsum("ti,tj->tij", right, right)
    psi = Delta.reshape(len(y), -1) @ cp.vec(A, order="C") + cp.sum(cp.multiply(left - right, W[user]), axis=1)
    margin = cp.multiply(y, psi)
    total = cp.sum(cp.logistic(-margin)) if loss == "logistic" else cp.sum(cp.pos(1 - margin))
    bounds = [cp.norm(A, "fro") <= zeta_metric[subspace], cp.norm(W, axis=1) <= zeta_ideal[subspace]]
    problem = cp.Problem(cp.Minimize(total), bounds)
    problem.solve(solver=cp.CLARABEL)
    return perf_counter() - clock, problem.value / len(y)


def termwise(crowd: SimulatedCrowd, subspace: int) -> tuple[float, float]:
    """Return seconds and objective of the published formulation: a term a comparison, SCS."""
    zeta_metric, zeta_ideal = oracle_radii(crowd)
    left, right, y, user = rows_of(crowd, subspace)
    clock = perf_counter()
    r = left.shape[1]
    A = cp.Variable((r, r), PSD=True)
    w = [cp.Variable(r) for _ in range(K)]
    total = 0
    for x, x_prime, answer, k in zip(left, right, y, user, strict=True):
        Delta = np.outer(x, x) - np.outer(x_prime, x_prime)
        total += cp.logistic(-answer * (cp.trace(Delta @ A) + (x - x_prime) @ w[k]))
    bounds = [cp.norm(A, "fro") <= zeta_metric[subspace]] + [cp.norm(v) <= zeta_ideal[subspace] for v in w]
    problem = cp.Problem(cp.Minimize(total), bounds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.SCS, eps=1e-4, max_iters=100_000)
    return perf_counter() - clock, problem.value / len(y)


def main() -> None:
    against_the_interior_point()
    crowd = simulate_crowd(D, N, 1, K, M, seed=0)
    for loss in ("logistic", "hinge"):
        ours(crowd, loss)  # compiles the sweeps
        runs = [ours(crowd, loss) for _ in range(7)]
        seconds = median(run[0] for run in runs)
        print(
            f"{loss}: crowdmetric {seconds * 1e3:.1f} ms for {N} subspaces and Huber stitching, "
            f"relative error {runs[0][2]:.1e}"
        )
        timed = [vectorized(crowd, i, loss) for i in range(5)]
        other = N * median(t for t, _ in timed)
        worst = max(abs(value - runs[0][1][i]) for i, (_, value) in enumerate(timed))
        print(
            f"  vectorized CVXPY + Clarabel: {other:.2f} s scaled, {other / seconds:.0f} times ours "
            f"(objectives differ by {worst:.0e})"
        )
        if loss == "logistic":
            timed = [termwise(crowd, i) for i in range(2)]
            other = N * median(t for t, _ in timed)
            worst = max(abs(value - runs[0][1][i]) for i, (_, value) in enumerate(timed))
            print(
                f"  published CVXPY + SCS: {other:.0f} s scaled, {other / seconds:.0f} times ours "
                f"(objectives differ by {worst:.0e})"
            )
