"""Sizes, shapes and coverage of `PopulationMetric` on crowds of its own model, with normal, yes/no and film-like items.

Sizes are relative to the truth; "size known" is the share of 90 % intervals of the size that hold it. Entries and
distances are shares of 90 % intervals. With ``--project`` draws are made metrics of the same size first.
``python -m benchmarks.sizes --runs 10 'd=10, yes/no, 1,000 × 4'`` runs some.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import dataclass
from time import process_time

import numpy as np

from crowdmetric.errors import CrowdmetricWarning
from crowdmetric.estimators import PopulationMetric
from crowdmetric.fits.size_posterior import nearest_metrics
from crowdmetric.intervals import distances, entries
from crowdmetric.simulate import answer, sample_metric
from crowdmetric.symmetric import shape_error, smat

ITEMS, PAIRS = 200, 200
# How many films in a hundred have each of 18 genres: few have any, and some hardly occur.
GENRES = (25, 20, 5, 7, 30, 10, 3, 40, 5, 2, 6, 3, 5, 15, 10, 15, 4, 2)


@dataclass(frozen=True)
class Setting:
    """What a crowd is like: features, people, answers of each, rank of the metric, kind of items, law of people."""

    d: int
    people: int
    answers: int
    rank: int | None = None
    items: str = "normal"
    free: bool = False

    @property
    def name(self) -> str:
        kind = "" if self.items == "normal" else f", {self.items}"
        low = f", rank {self.rank}" if self.rank else ""
        return f"d={self.d}{kind}{low}{', free' if self.free else ''}, {self.people:,} × {self.answers}"

    def crowd(self, seed: int) -> tuple[np.ndarray, ...]:
        """Return items, pairs, y, users and the metric; people are about as far out as the items."""
        d, rng = self.d, np.random.default_rng(seed)
        metric = sample_metric(d, rng)
        if self.rank:
            factor = rng.standard_normal((d, self.rank))
            metric = factor @ factor.T
            metric *= d / np.linalg.norm(metric)
        if self.items == "normal":
            items = rng.standard_normal((ITEMS, d)) / np.sqrt(d)
        else:
            share = np.full(d, 0.5) if self.items == "yes/no" else np.array(GENRES[:d]) / 100
            items = (rng.random((ITEMS, d)) < share).astype(float)
        metric /= items.var(axis=0).sum()
        size = np.sqrt(items.var(axis=0).sum() / d)
        turn = rng.standard_normal((d, d)) / np.sqrt(d) if self.free else np.eye(d)
        u = items.mean(axis=0) + size * rng.standard_normal((self.people, d)) @ turn
        users = np.repeat(np.arange(self.people), self.answers)
        left = rng.integers(ITEMS, size=users.size)
        pairs = np.stack([left, (left + rng.integers(1, ITEMS, size=users.size)) % ITEMS], axis=1)
        return items, pairs, answer(items, pairs, u[users], metric, seed=seed), users, metric


SETTINGS = [
    Setting(3, 100, 5),
    Setting(6, 100, 5),
    Setting(10, 100, 5),
    Setting(10, 300, 6),
    Setting(6, 1000, 4),
    Setting(10, 1000, 4),
    Setting(10, 1000, 4, rank=3),
    Setting(6, 1000, 4, items="yes/no"),
    Setting(10, 1000, 4, items="yes/no"),
    Setting(18, 2000, 4, items="yes/no"),
    Setting(18, 2000, 4, items="films"),
    Setting(20, 4000, 4),
    Setting(20, 4000, 4, rank=5),
    Setting(30, 4000, 4, rank=5),
    Setting(3, 1000, 4, free=True),
    Setting(6, 1000, 4, free=True),
    Setting(18, 2000, 4, items="films", free=True),
]


def measure(setting: Setting, runs: int, first: int, *, project: bool = False) -> None:
    """Print one line of the table."""
    rows, clock = [], process_time()
    for seed in range(first, first + runs):
        items, pairs, y, users, metric = setting.crowd(seed)
        model = PopulationMetric(items, starts=1, covariance="free" if setting.free else "isotropic")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdmetricWarning)
            model.fit(pairs, y, users=users)
        if project:
            model.metric_draws_ = nearest_metrics(model.metric_draws_)
        size, upper = np.trace(metric), np.triu_indices(setting.d)
        drawn = np.trace(smat(model.metric_draws_), axis1=1, axis2=2) / size
        low, high = np.quantile(drawn, [0.05, 0.95])
        asked = np.random.default_rng(seed).choice(len(pairs), PAIRS, replace=False)
        delta = items[pairs[asked, 0]] - items[pairs[asked, 1]]
        far = np.sqrt(np.einsum("ti,ij,tj->t", delta, metric, delta))
        rows.append(
            [
                model.scale_ * setting.d / size,
                low <= 1.0 <= high,
                np.log(high / max(low, 1e-12)),
                shape_error(model.metric_, metric),
                np.mean(entries(model).contains(metric)[upper]),
                np.mean(distances(model, pairs[asked]).contains(far)),
            ]
        )
    size, known, width, shape, entry, far_apart = np.array(rows, dtype=float).T
    error = 1.0 / np.sqrt(runs)
    print(
        f"| {setting.name} | {runs} | {np.median(size):.2f} ({size.min():.2f}–{size.max():.2f}) | {known.mean():.2f} | "
        f"{np.mean(width):.2f} | {shape.mean():.2f} | {entry.mean():.2f} ± {entry.std() * error:.2f} | "
        f"{far_apart.mean():.2f} ± {far_apart.std() * error:.2f} | {(process_time() - clock) / runs:.1f} s |",
        flush=True,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--first", type=int, default=500, help="seed of the first run")
    parser.add_argument("--project", action="store_true", help="make draws metrics before intervals are made")
    parser.add_argument("settings", nargs="*", metavar="setting", help="names of some settings")
    options = parser.parse_args(arguments or [])
    print("| crowd | runs | size (least–most) | size known | log width | shape | entries | distances | CPU per run |")
    print("|---" * 9 + "|")
    for setting in SETTINGS:
        if not options.settings or setting.name in options.settings:
            measure(setting, options.runs, options.first, project=options.project)


if __name__ == "__main__":
    main(sys.argv[1:])
