"""`PopulationMetric` from five to hundreds of features: time, size, and coverage, all defaults.

4,000 people answer four questions each about 200 items (crowds of `benchmarks.sizes`). Size is relative to the truth,
and "its error" the fit's own; entries and distances are shares of 90 % intervals that hold the truth. With ``--rank``
the fit is given the rank of the truth. ``python -m benchmarks.middle --runs 3 'd=30, rank 5, 4,000 × 4'`` runs one row.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from time import process_time

import numpy as np

from benchmarks.sizes import PAIRS, Setting
from crowdmetric.errors import CrowdmetricWarning
from crowdmetric.estimators import PopulationMetric
from crowdmetric.intervals import distances, entries
from crowdmetric.symmetric import shape_error

SETTINGS = [
    Setting(d, 4000, 4, rank=rank, free=free)
    for free in (False, True)
    for rank in (5, None)
    for d in (5, 10, 20, 30, 40, 64, 100, 384)
    if not (free and d not in (20, 30, 40, 64)) and not (rank and d < rank + 5) and not (d > 64 and not rank)
]


def measure(setting: Setting, runs: int, first: int, *, given: bool) -> None:
    """Print one line of the table."""
    rows = []
    for seed in range(first, first + runs):
        items, pairs, y, users, metric = setting.crowd(seed)
        rank = setting.rank if given else None
        model = PopulationMetric(items, covariance="free" if setting.free else "isotropic", rank=rank)
        clock = process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdmetricWarning)
            model.fit(pairs, y, users=users)
        seconds = process_time() - clock
        asked = np.random.default_rng(seed).choice(len(pairs), PAIRS, replace=False)
        delta = items[pairs[asked, 0]] - items[pairs[asked, 1]]
        far = np.sqrt(np.einsum("ti,ij,tj->t", delta, metric, delta))
        upper = np.triu_indices(setting.d)
        held = np.mean(entries(model).contains(metric)[upper]) if hasattr(model, "metric_draws_") else np.nan
        size, shape = model.scale_ * setting.d / np.trace(metric), shape_error(model.metric_, metric)
        apart = np.mean(distances(model, pairs[asked]).contains(far))
        rows.append([size, model.scale_error_, shape, held, apart, seconds])
    size, error, shape, held, apart, seconds = np.array(rows, dtype=float).T
    print(
        f"| {setting.name} | {runs} | {np.median(size):.2f} ({size.min():.2f}–{size.max():.2f}) | {error.mean():.2f} | "
        f"{shape.mean():.2f} | {held.mean():.2f} | {apart.mean():.2f} | {seconds.mean():.1f} s |",
        flush=True,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--first", type=int, default=500, help="seed of the first run")
    parser.add_argument("--rank", action="store_true", help="give the fit the rank of the truth")
    parser.add_argument("settings", nargs="*", metavar="setting", help="names of some settings")
    options = parser.parse_args(arguments or [])
    print("| crowd | runs | size (least–most) | its error | shape error | entries | distances | CPU per fit |")
    print("|---" * 8 + "|")
    for setting in SETTINGS:
        if not options.settings or setting.name in options.settings:
            measure(setting, options.runs, options.first, given=options.rank)


if __name__ == "__main__":
    main(sys.argv[1:])
