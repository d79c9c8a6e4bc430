"""Similarity judgements beside other programs: LSML of metric-learn, and mini-batch Adam in PyTorch.

``python -m benchmarks.similarity_others lsml PYTHON`` needs an interpreter with metric-learn 0.7.0 and scikit-learn 1.5
(metric-learn does not run on newer ones); ``… adam [small|things] [cpu|cuda]`` needs PyTorch; ``… things`` fits
simulated judgements as large as those of THINGS: 1,854 items, 768 features, 4.7 million odd-one-outs. That took
34 s on two free cores. ``small`` (600 items, 240 features, 470,000 odd-one-outs) took 2.1 s there, and gave a hidden
log-loss of .0871; Adam was at .0919 (rate .01) and .1256 (.03) after 131 s each, when it was stopped.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from crowdmetric import Judgements, SimilarityMetric
from crowdmetric.simulate import sample_metric
from crowdmetric.simulate_judgements import SimulatedStudy, simulate_judgements
from crowdmetric.symmetric import shape_error

SIZES = {"small": (600, 240, 470_000), "things": (1_854, 768, 4_700_000)}
HIDDEN = 20_000
# Run by the other interpreter: files in, metric and seconds out.
LSML = """
import sys, time
import numpy as np
from metric_learn import LSML
vectors = np.load(sys.argv[1])
clock = time.process_time()
model = LSML(tol=float(sys.argv[3]), max_iter=1000).fit(vectors)
np.savez(sys.argv[2], metric=model.get_mahalanobis_matrix(), seconds=time.process_time() - clock, steps=model.n_iter_)
"""


def loss_of(metric: np.ndarray, items: np.ndarray, judgements: Judgements) -> float:
    """Return the mean log-loss of a metric as it is."""
    pairs = judgements.pairs
    step = items[pairs[..., 0]] - items[pairs[..., 1]]
    u = -np.einsum("tkd,tkd->tk", step @ metric, step)
    top = u.max(axis=1, keepdims=True)
    logs = u - top - np.log(np.exp(u - top).sum(axis=1, keepdims=True))
    return -float(np.sum(judgements.counts * logs) / judgements.n_answers)


def best_scale(metric: np.ndarray, items: np.ndarray, judgements: Judgements) -> np.ndarray:
    """Return a metric at the scale that suits some judgements best, for programs without a likelihood."""
    scales = np.geomspace(1e-3, 1e3, 121)
    return metric * scales[np.argmin([loss_of(scale * metric, items, judgements) for scale in scales])]


def lsml(python: str) -> None:
    rng = np.random.default_rng(0)
    truth = sample_metric(20, rng) * (4.0 / 20)
    study = simulate_judgements(rng.standard_normal((200, 20)), None, 20_000, metric=truth, beta=1.0, seed=0)
    hidden = simulate_judgements(study.items, None, HIDDEN, metric=study.metric, beta=1.0, seed=1).judgements
    answers, items = study.judgements, study.items
    clock = process_time()
    ours = SimilarityMetric(items, structure="full", uncertainty=False).fit(answers)
    seconds = process_time() - clock
    print(
        f"20,000 triplets, d = 20: {seconds:.2f} s, hidden log-loss {loss_of(ours.metric_, items, hidden):.4f} (of the "
        f"truth {loss_of(study.metric, items, hidden):.4f}, of Euclidean distance at its best scale "
        f"{loss_of(best_scale(np.eye(20), items, answers), items, hidden):.4f})",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "vectors.npy", Path(folder) / "found.npz"
        chosen = np.where(answers.counts[:, :1] >= answers.counts[:, 1:], answers.items, answers.items[:, [0, 2, 1]])
        np.save(given, items[chosen[:, [0, 1, 0, 2]]])  # closer pair, other pair
        for tolerance in (1e-3, 1e-10):  # LSML's default, with which it stops at once; and one with which it goes on
            subprocess.run([python, "-c", LSML, str(given), str(found), str(tolerance)], check=True)
            theirs = dict(np.load(found))
            loss = loss_of(best_scale(theirs["metric"], items, answers), items, hidden)
            print(
                f"LSML, tol {tolerance:g}: {theirs['seconds']:.1f} s, {theirs['steps']} steps, hidden log-loss "
                f"at its best scale {loss:.4f}",
                flush=True,
            )


def large(size: str) -> tuple[SimulatedStudy, Judgements]:
    """Return a study with features whose spread decays as that of an embedding, and hidden judgements."""
    N, d, T = SIZES[size]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, d)) * np.exp(-3.0 * np.arange(d) / d)
    X /= np.sqrt(np.mean(np.sum(X**2, axis=1)))
    G = rng.standard_normal((d, d // 8))
    M = G @ G.T * (40.0 * d / np.sum(G * G))
    told = {"kind": "odd_one_out", "metric": M, "beta": 1.0}
    return simulate_judgements(X, None, T, seed=0, **told), simulate_judgements(
        X, None, HIDDEN, seed=1, **told
    ).judgements


def things(size: str = "things") -> float:
    study, hidden = large(size)
    cpu, wall = process_time(), perf_counter()
    model = SimilarityMetric(study.items).fit(study.judgements)
    cpu, wall = process_time() - cpu, perf_counter() - wall
    loss = loss_of(model.metric_, study.items, hidden)
    print(f"{size}: {wall:.1f} s, {cpu:.1f} s of processor time; {model.solution_.status}", flush=True)
    print(
        f"hidden log-loss {loss:.4f}, of the truth {loss_of(study.metric, study.items, hidden):.4f}; shape error "
        f"{shape_error(model.metric_, study.metric):.3f}",
        flush=True,
    )
    return loss


def adam(size: str = "small", device: str = "cpu", target: float | None = None, limit: float = 400.0) -> None:
    """Fit the same likelihood by mini-batch Adam until its hidden loss is ours, for several learning rates."""
    torch = import_module("torch")

    target = things(size) if target is None else target
    study, hidden = large(size)
    X = torch.tensor(study.items, dtype=torch.float32, device=device)
    pairs = torch.tensor(study.judgements.pairs, device=device)
    counts = torch.tensor(study.judgements.counts, dtype=torch.float32, device=device)
    for rate in (3e-3, 1e-2, 3e-2):
        torch.manual_seed(0)
        L = torch.nn.Parameter(torch.eye(X.shape[1], device=device) * 2.0)
        optimizer = torch.optim.Adam([L], lr=rate)
        spent, best, epoch = 0.0, np.inf, 0
        while spent < limit and best > target:
            clock = perf_counter()
            for rows in torch.randperm(len(pairs), device=device).split(16_384):
                Z = X @ L
                step = Z[pairs[rows, :, 0]] - Z[pairs[rows, :, 1]]
                loss = -(counts[rows] * torch.log_softmax(-(step**2).sum(dim=2), dim=1)).sum() / len(rows)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if device == "cuda":
                torch.cuda.synchronize()
            spent, epoch = spent + perf_counter() - clock, epoch + 1
            F = L.detach().cpu().numpy().astype(np.float64)
            best = min(best, loss_of(F @ F.T, study.items, hidden))
        reached = "reached" if best <= target else "did not reach"
        print(
            f"Adam on {device}, rate {rate:g}: {reached} it, {best:.4f} after {epoch} epochs, {spent:.1f} s", flush=True
        )


if __name__ == "__main__":
    what, *rest = sys.argv[1:] or ["things", "small"]
    {"lsml": lsml, "adam": adam, "things": things}[what](*rest)
