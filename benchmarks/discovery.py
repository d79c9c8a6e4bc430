"""Subspaces found among the items: how well, up to which noise, how fast, and what it costs the metric.

Times are processor time of one thread.
"""

from __future__ import annotations

import warnings
from time import process_time

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from crowdmetric import StitchedMetric
from crowdmetric.bounded.discover import NEIGHBORS, neighbor_graph, partition
from crowdmetric.errors import DataError, DroppedRowsWarning
from crowdmetric.preprocess import ItemMap
from crowdmetric.simulate import sample_subspaces, simulate_crowd
from crowdmetric.subspaces import discover_subspaces
from crowdmetric.symmetric import relative_error, shape_error

Array = np.ndarray


def mixture(
    n: int, d: int, r: int, size: int, noise: float, *, outliers: float = 0.0, away: float = 0.0, seed: int = 0
) -> tuple[Array, Array]:
    """Return items near n subspaces, `size` in each, of length about 1, with outliers, and true labels (−1: outlier).

    `away` moves every subspace from the origin by a random vector of about that length.
    """
    generator = np.random.default_rng(seed)
    bases = sample_subspaces(n, d, r, generator)
    inside = generator.normal(size=(n, size, r)) @ np.swapaxes(bases, 1, 2) / np.sqrt(r)
    across = generator.normal(size=(n, size, d)) * noise / np.sqrt(d)
    offsets = generator.normal(size=(n, 1, d)) * away / np.sqrt(d)
    items = (inside + across + offsets).reshape(-1, d)
    strays = generator.normal(size=(int(outliers * len(items)), d)) * np.sqrt((1 + away**2) / d)
    labels = np.concatenate([np.repeat(np.arange(n), size), np.full(len(strays), -1)])
    order = generator.permutation(len(labels))
    return np.concatenate([items, strays])[order], labels[order]


def recovered(items: Array, labels: Array, **options: object) -> str:
    clock = process_time()
    try:
        found = discover_subspaces(items, **options)
    except DataError as error:
        return str(error)
    seconds = process_time() - clock
    score = adjusted_rand_score(labels, found.labels)
    return (f"{found.n_subspaces:3d} subspaces of dimension {found.rank}, adjusted Rand {score:.3f}, "
            f"stability {found.stability:.2f}, {np.mean(found.labels < 0):.1%} nowhere, {seconds:.1f} s")  # fmt: skip


def target() -> None:
    print("12 subspaces of dimension 3 in R^20, 2 % noise, 200 items each; number and rank chosen:")
    for seed in range(3):
        print(f"  seed {seed}: {recovered(*mixture(12, 20, 3, 200, 0.02, seed=seed), random_state=seed)}", flush=True)
    print("the same, harder:")
    for noise in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7):
        print(f"  noise {noise:.0%}: {recovered(*mixture(12, 20, 3, 200, noise), repeats=0)}", flush=True)
    for share in (0.2, 0.5, 1.0, 2.0):
        strays = share / (1 + share)
        print(
            f"  {strays:.0%} outliers: {recovered(*mixture(12, 20, 3, 200, 0.05, outliers=share), repeats=0)}",
            flush=True,
        )
    for size in (6, 10, 20):
        print(f"  {size} items each: {recovered(*mixture(12, 20, 3, size, 0.02), repeats=0)}", flush=True)
    for n, r in ((12, 6), (12, 9), (40, 3), (80, 3)):
        text = recovered(*mixture(n, 20, r, 200, 0.02), repeats=0)
        print(f"  {n} subspaces of dimension {r}: {text}", flush=True)
    print("affine: subspaces moved from the origin by twice the length of an item, 10 % noise:")
    items, labels = mixture(12, 20, 3, 200, 0.1, away=2.0)
    print(f"  affine=True:  {recovered(items, labels, affine=True, repeats=0)}", flush=True)
    print(f"  affine=False: {recovered(items, labels, repeats=0)}", flush=True)


def digits() -> None:
    """Handwritten digits, which nobody drew from subspaces."""
    data = load_digits()
    items = ItemMap(components=20).fit_transform(data.data)
    means = KMeans(10, n_init=10, random_state=0).fit_predict(items)
    print("1,797 handwritten digits in 20 principal directions, against the digit drawn:")
    print(f"  k-means, told that there are ten: adjusted Rand {adjusted_rand_score(data.target, means):.3f}")
    print(f"  affine=True:  {recovered(items, data.target, affine=True)}", flush=True)
    print(f"  affine=False: {recovered(items, data.target)}", flush=True)


def large() -> None:
    for n, r in ((40, 8), (200, 3)):
        items, labels = mixture(n, 384, r, 100_000 // n, 0.1, outliers=0.02)
        print(f"{len(items):,} items × 384, {n} subspaces of dimension {r}, 10 % noise, 2 % outliers:")
        for name, options in {
            "both given": {"n_subspaces": n, "rank": r},
            "both chosen": {"max_subspaces": 250},
        }.items():
            for sample in (5_000, 10_000):
                text = recovered(items, labels, **options, sample=sample, repeats=0)
                print(f"  {name}, sample {sample:,}: {text}", flush=True)


def eigenvectors() -> None:
    """Three ways to the same eigenvectors, on the graph of the target."""
    from scipy import sparse  # noqa: PLC0415
    from scipy.sparse.linalg import eigsh, lobpcg  # noqa: PLC0415

    from crowdmetric.bounded.discover import spectrum  # noqa: PLC0415

    items, labels = mixture(12, 20, 3, 400, 0.02)
    graph = neighbor_graph(items, NEIGHBORS, affine=False)
    root = np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    S = sparse.csr_array(sparse.diags_array(1 / root) @ graph @ sparse.diags_array(1 / root))
    start = np.random.default_rng(0).normal(size=(len(items), 101))
    ways = {
        "Chebyshev": lambda: spectrum(graph, 101, 0),
        "LOBPCG": lambda: lobpcg(S, start, largest=True, maxiter=60, tol=1e-3),
        "ARPACK": lambda: eigsh(S, 101, which="LA", v0=start[:, 0], tol=1e-4),
    }
    print("101 eigenvectors of the neighbor graph of 4,800 items, and the partition in 12 that they give:")
    for name, way in ways.items():
        clock = process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            values, vectors = way()
        seconds = process_time() - clock
        parts = partition(vectors[:, np.argsort(-values)], 12, 0)
        print(f"  {name}: {seconds:.1f} s, adjusted Rand {adjusted_rand_score(labels, parts):.3f}", flush=True)


def metric() -> None:
    """Error of the stitched metric with subspaces given and with subspaces discovered."""
    print(
        "relative (shape) error of the stitched metric, d = 6, 30 subspaces of dimension 2, 40 people × 8 answers each:"
    )
    for noise in (0.0, 0.02, 0.1):
        errors = np.array([_errors(noise, seed) for seed in range(4)])
        given, found = errors.mean(axis=0)
        print(f"  noise {noise:.0%}: labels given {given[0]:.3f} ({given[1]:.3f}), discovered {found[0]:.3f} "
              f"({found[1]:.3f}), ratio {found[0] / given[0]:.3f} ({found[1] / given[1]:.3f}), "
              f"{found[3]:.1f} subspaces found, {found[2]:.1%} of the answers across them", flush=True)  # fmt: skip


def _errors(noise: float, seed: int) -> list[list[float]]:
    crowd = simulate_crowd(6, 30, 2, users=40, comparisons=8, noise=noise, seed=seed)
    rows = []
    for subspaces in (crowd.labels, "discover"):
        model = StitchedMetric(crowd.items, subspaces=subspaces, rank=2, metric_bound=None, ideal_bound=None, tol=1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DroppedRowsWarning)
            model.fit(crowd.pairs, crowd.y, users=crowd.users)
        across = model.n_across_ / len(crowd.y)
        errors = [error(model.metric_, crowd.metric) for error in (relative_error, shape_error)]
        rows.append([*errors, across, len(model.bases_)])
    return rows


def main() -> None:
    target()
    digits()
    metric()
    eigenvectors()
    large()
