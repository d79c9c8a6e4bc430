"""A joint fit (Algorithm 5) at d = 20 with 20,000 people of 10 answers each: m < d, no subspaces, bounds given."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from crowdmetric import IdealPointMetric
from crowdmetric.simulate import simulate_crowd
from crowdmetric.symmetric import relative_error, shape_error


def main() -> None:
    crowd = simulate_crowd(20, None, None, 20_000, 10, seed=0)
    v = np.linalg.norm(2.0 * crowd.ideal_points @ crowd.metric, axis=1)
    model = IdealPointMetric(
        crowd.items, metric_bound=float(np.linalg.norm(crowd.metric)), ideal_bound=float(np.median(v))
    )
    clock = perf_counter()
    model.fit(crowd.pairs, crowd.y, users=crowd.users)
    seconds = perf_counter() - clock
    print(f"{seconds:.1f} s, {model.solution_.iterations} iterations, gap {model.solution_.gap:.0e}")
    print(
        f"relative error {relative_error(model.metric_, crowd.metric):.3f}, shape "
        f"{shape_error(model.metric_, crowd.metric):.3f}"
    )
    p, rows = 210, crowd.y.size
    print(f"bound: {rows:,} × {p}² products of the Schur complement, {2e-9 * rows * p * p:.0f} Gflop an iteration")
