"""Stage 2 alone: d = 200 (20,100 degrees of freedom) from 25,000 lines, matrix-free."""

from __future__ import annotations

import resource
from time import perf_counter

import numpy as np

from crowdmetric.simulate import sample_metric, sample_subspaces
from crowdmetric.stitch import stitch
from crowdmetric.symmetric import relative_error


def main() -> None:
    rng = np.random.default_rng(0)
    d, n = 200, 25_000
    M = sample_metric(d, rng)
    bases = sample_subspaces(n, d, 1, rng)
    exact = np.swapaxes(bases, 1, 2) @ (M @ bases)
    noisy = exact * (1.0 + 0.01 * rng.normal(size=exact.shape))
    information = np.ones((n, 1, 1))
    for method, more in (("ols", {}), ("weighted", {"information": information})):
        clock = perf_counter()
        estimate = stitch(bases, noisy, method=method, **more)
        seconds = perf_counter() - clock
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{method}: {seconds:.1f} s, relative error {relative_error(estimate, M):.3f}, peak memory {peak:.2f} GB",
            flush=True,
        )
