"""Make the golden cases of this folder: simulated answers, and results of solvers that are not ours.

Run ``python tests/golden/make.py`` after a case is added; the files are small and are kept in the repository, so that
`tests/test_golden.py` compares with them in a plain clone. No result here is computed by crowdmetric: the library only
simulates the answers.

=============  =====================================================================  =======================
case           result                                                                 solver
=============  =====================================================================  =======================
joint          objective and metric of the bounded program, logistic loss             CVXPY with Clarabel
hinge          objective of the bounded program, hinge loss, nuclear norm             CVXPY with Clarabel
huber          the metric from the metrics of subspaces, some of them far off         CVXPY with Clarabel
exact          the metric from unquantized answers, everybody's v an unknown          numpy.linalg.lstsq
stitched       the metric from the metrics of subspaces                               numpy.linalg.lstsq
matched        logistic regression on the answers of matched pairs, with a ridge      scipy.optimize
similarity     the scale of Euclidean distance that fits triplets best                scipy.optimize
population     log-likelihood of a law of people, one answer per person               scipy.integrate.quad
=============  =====================================================================  =======================
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.integrate import quad
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit
from scipy.stats import norm

from crowdmetric.simulate import answer, sample_metric, simulate_crowd
from crowdmetric.simulate_judgements import simulate_judgements

FOLDER = Path(__file__).parent
DIGITS = 6  # of the data; rounded before anything is solved, so the files hold what the solvers saw
TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def rounded(values: np.ndarray) -> np.ndarray:
    """Return data as the file will hold them."""
    return np.round(values, DIGITS)


def symmetric_basis(d: int) -> np.ndarray:
    """Return d(d+1)/2 symmetric matrices (p, d, d), one for each entry of the upper triangle."""
    found = []
    for i in range(d):
        for j in range(i, d):
            one = np.zeros((d, d))
            one[i, j] = one[j, i] = 1.0
            found.append(one)
    return np.array(found)


def differences(items: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Δ = xxᵀ − x'x'ᵀ (T, d, d) and δ = x − x' (T, d)."""
    x, other = items[pairs[:, 0]], items[pairs[:, 1]]
    return np.einsum("ti,tj->tij", x, x) - np.einsum("ti,tj->tij", other, other), x - other


def joint() -> dict[str, Any]:
    """Minimize ``mean log(1 + exp(−y(⟨Δ, A⟩ + ⟨δ, w_k⟩)))`` over ``A ⪰ 0, ‖A‖_F ≤ 2, ‖w_k‖ ≤ 3``."""
    return bounded(cp.logistic, "fro")


def hinge() -> dict[str, Any]:
    """Minimize ``mean max(0, 1 − y(⟨Δ, A⟩ + ⟨δ, w_k⟩))`` over ``A ⪰ 0, tr A ≤ 2, ‖w_k‖ ≤ 3``."""
    return bounded(lambda minus_margin: cp.pos(1.0 + minus_margin), "nuc")


def bounded(loss: Any, norm_of_metric: str) -> dict[str, Any]:
    """Return the answers of a crowd and the optimum of the bounded program, for a loss as a function of −yψ."""
    crowd = simulate_crowd(2, None, None, users=8, comparisons=6, seed=1)
    items = rounded(crowd.items)
    Delta, delta = differences(items, crowd.pairs)
    A, w = cp.Variable((2, 2), PSD=True), cp.Variable((8, 2))
    psi = cp.reshape(Delta.reshape(-1, 4) @ cp.vec(A, order="C"), (len(delta),), order="C")
    psi = psi + cp.sum(cp.multiply(delta, w[crowd.users]), axis=1)
    mean = cp.sum(loss(cp.multiply(-crowd.y, psi))) / len(delta)
    problem = cp.Problem(cp.Minimize(mean), [cp.norm(A, norm_of_metric) <= 2.0, cp.norm(w, axis=1) <= 3.0])
    objective = problem.solve(solver=cp.CLARABEL, **TIGHT)
    answers = {"items": items, "pairs": crowd.pairs, "y": crowd.y, "users": crowd.users}
    return answers | {"metric_bound": 2.0, "ideal_bound": 3.0, "objective": objective, "metric": A.value}


def exact() -> dict[str, Any]:
    """Solve ``⟨Δ, A⟩ + ⟨δ, w_k⟩ = ψ`` for A and everybody's w by least squares, all unknowns at once."""
    crowd = simulate_crowd(3, None, None, users=4, comparisons=6, seed=2)
    items, psi = rounded(crowd.items), rounded(crowd.psi)
    Delta, delta = differences(items, crowd.pairs)
    basis = symmetric_basis(3)
    columns = np.zeros((len(psi), len(basis) + 4 * 3))
    columns[:, : len(basis)] = np.einsum("tij,qij->tq", Delta, basis)
    for row, k in enumerate(crowd.users):
        columns[row, len(basis) + 3 * k : len(basis) + 3 * k + 3] = delta[row]
    found = np.linalg.lstsq(columns, psi, rcond=None)[0]
    metric = np.einsum("q,qij->ij", found[: len(basis)], basis)
    return {"items": items, "pairs": crowd.pairs, "psi": psi, "users": crowd.users, "metric": metric}


def stitched() -> dict[str, Any]:
    """Solve ``B_λᵀ A B_λ = Q̂_λ`` by least squares over the entries of all Q̂_λ; no projection on the cone."""
    rng = np.random.default_rng(3)
    bases = np.array([np.linalg.qr(rng.standard_normal((4, 2)))[0] for _ in range(8)])
    truth = sample_metric(4, rng)
    noise = rng.standard_normal((8, 2, 2))
    seen = rounded(np.einsum("ndi,de,nej->nij", bases, truth, bases) + 0.05 * (noise + noise.swapaxes(1, 2)))
    basis = symmetric_basis(4)
    columns = np.einsum("ndi,qde,nej->nijq", bases, basis, bases).reshape(-1, len(basis))
    found = np.linalg.lstsq(columns, seen.ravel(), rcond=None)[0]
    return {"bases": bases, "metrics": seen, "metric": np.einsum("q,qij->ij", found, basis)}


def huber() -> dict[str, Any]:
    """Minimize ``Σ [σ + σ H(r/σ)] + α‖A‖²`` over A and σ, r being the entries of ``B_λᵀ A B_λ − Q̂_λ``.

    ``σ H(r/σ) = min over s of s²/σ + 2ε|r − s|``, with ε = 1.35 and α = 1e-4 as in scikit-learn. Two of the Q̂_λ are far
    off.
    """
    case = stitched()
    seen = case["metrics"].copy()
    seen[:2] += 3.0 * np.eye(2)
    A, s, sigma = cp.Variable((4, 4), symmetric=True), cp.Variable(seen.size), cp.Variable(nonneg=True)
    rows = np.einsum("ndi,nej->nijde", case["bases"], case["bases"]).reshape(seen.size, 16)
    r = rows @ cp.vec(A, order="C") - seen.ravel()
    loss = seen.size * sigma + cp.quad_over_lin(s, sigma) + 2.0 * 1.35 * cp.norm1(r - s) + 1e-4 * cp.sum_squares(A)
    cp.Problem(cp.Minimize(loss)).solve(solver=cp.CLARABEL, **TIGHT)
    return {"bases": case["bases"], "metrics": seen, "metric": A.value}


def matched() -> dict[str, Any]:
    """Minimize ``Σ log(1 + exp(−2 y₁ (a − a')ᵀMδ)) + ½‖M‖²`` over symmetric M, pairs with two different answers."""
    rng = np.random.default_rng(4)
    K, d = 40, 2
    delta, middle = rounded(rng.standard_normal((K, d))), rounded(rng.standard_normal((K, 2, d)))
    items = np.stack([middle + 0.5 * delta[:, None], middle - 0.5 * delta[:, None]], axis=2).reshape(-1, d)
    pairs = np.arange(4 * K).reshape(-1, 2)
    users = np.repeat(np.arange(K), 2)
    ideal = rng.standard_normal((K, d))[users]
    y = answer(items, pairs, ideal, np.array([[1.0, 0.3], [0.3, 0.6]]), seed=4)
    differ = y[::2] != y[1::2]
    away = (middle[:, 0] - middle[:, 1])[differ]
    basis = symmetric_basis(d)
    sign = y[::2][differ]
    columns = 2.0 * np.einsum("ti,qij,tj->tq", away, basis, delta[differ]) * sign[:, None]
    size = np.einsum("qij,rij->qr", basis, basis)

    def value(a: np.ndarray) -> tuple[float, np.ndarray]:
        margin = columns @ a
        return float(np.sum(np.logaddexp(0.0, -margin)) + 0.5 * a @ size @ a), size @ a - columns.T @ expit(-margin)

    best = minimize(value, np.zeros(len(basis)), jac=True, method="BFGS", options={"gtol": 1e-10})
    metric = np.einsum("q,qij->ij", best.x, basis)
    answers = {"items": items, "pairs": pairs, "y": y, "users": users}
    return answers | {"ridge": 1.0, "used": int(differ.sum()), "metric": metric}


def similarity() -> dict[str, Any]:
    """Minimize ``Σ log(1 + exp(a(‖anchor − closer‖² − ‖anchor − farther‖²)))`` over the number a."""
    study = simulate_judgements(8, 2, 150, seed=5)
    items = rounded(study.items)
    rows, counts = study.judgements.items, study.judgements.counts
    square = [np.sum((items[rows[:, 0]] - items[rows[:, j]]) ** 2, axis=1) for j in (1, 2)]
    gap = square[0] - square[1]

    def value(a: float) -> float:
        return float(counts[:, 0] @ np.logaddexp(0.0, a * gap) + counts[:, 1] @ np.logaddexp(0.0, -a * gap))

    best = minimize_scalar(value, bounds=(0.0, 100.0), method="bounded", options={"xatol": 1e-12})
    return {"items": items, "triplets": rows, "counts": counts, "scale": best.x, "log_likelihood": -best.fun}


def population() -> dict[str, Any]:
    """Return ``Σ_k log ∫ σ(y(⟨Δ, M⟩ + ⟨δ, v⟩)) N(v; μ, Σ) dv``: one answer per person makes it one-dimensional."""
    crowd = simulate_crowd(2, None, None, users=60, comparisons=1, seed=6)
    items = rounded(crowd.items)
    metric, mean = np.array([[1.2, 0.3], [0.3, 0.7]]), np.array([0.4, -0.2])
    covariance = np.array([[1.0, 0.2], [0.2, 0.5]])
    Delta, delta = differences(items, crowd.pairs)
    middle = np.einsum("tij,ij->t", Delta, metric) + delta @ mean
    spread = np.sqrt(np.einsum("ti,ij,tj->t", delta, covariance, delta))
    total = 0.0
    for m, s, y in zip(middle, spread, crowd.y, strict=True):
        chance = quad(_density, -12.0, 12.0, args=(y * m, y * s), epsabs=1e-13, epsrel=1e-13)[0]
        total += float(np.log(chance))
    answers = {"items": items, "pairs": crowd.pairs, "y": crowd.y, "users": crowd.users}
    return answers | {"metric": metric, "mean": mean, "covariance": covariance, "log_likelihood": total}


def _density(z: float, offset: float, slope: float) -> float:
    """Return ``σ(offset + slope z) φ(z)``."""
    return float(expit(offset + slope * z) * norm.pdf(z))


CASES = [joint, hinge, exact, stitched, huber, matched, similarity, population]


def main() -> None:
    """Write one JSON file per case."""
    for case in CASES:
        plain = {name: np.asarray(value).tolist() for name, value in case().items()}
        (FOLDER / f"{case.__name__}.json").write_text(json.dumps(plain) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
