"""crowdmetric simulate: a crowd with a known truth, as tables that the other commands read."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

from crowdmetric.commands.base import note
from crowdmetric.folders import check_target, new_file, new_folder
from crowdmetric.simulate import PEOPLE, Crowd, simulate_crowd
from crowdmetric.tables import Columns, write_columns

__all__ = ["add_arguments", "run"]

TRUTH = "truth.npz"
FORMATS = ("csv", "parquet")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("--dimension", type=int, default=10, metavar="D", help="dimensions of the items (default: 10)")
    add("--subspaces", type=int, default=80, metavar="N", help="subspaces they lie in; 0: none (default: 80)")
    add("--rank", type=int, metavar="R", help="dimension of each subspace (default: 1)")
    add("--users", type=int, default=40, metavar="K", help="people for each subspace (default: 40)")
    add("--comparisons", type=int, default=4, metavar="M", help="answers per person (default: 4)")
    add("--beta", type=float, default=1.0, help="sharpness of the answers, 0 to inf (default: 1)")
    add("--noise", type=float, default=0.0, help="how far items stray from their subspaces (default: 0)")
    add("--people", choices=PEOPLE, default="gaussian", help="law of the ideal points (default: gaussian)")
    add("--seed", type=int, default=0, help="the same seed gives the same crowd (default: 0)")
    add("--out", required=True, metavar="DIR", help="folder to make")
    add("--format", choices=FORMATS, default="csv", help="format of the tables (default: csv)")
    add("--overwrite", action="store_true", help="replace an older simulation")


def run(options: Namespace) -> None:
    """Run the command."""
    check_target(options.out, options.overwrite, _is_simulation)
    crowd = simulate_crowd(
        options.dimension,
        options.subspaces,
        1 if options.rank is None and options.subspaces else options.rank,
        options.users,
        options.comparisons,
        beta=options.beta,
        noise=options.noise,
        seed=options.seed,
        people=options.people,
    )
    with new_folder(options.out, options.overwrite, _is_simulation) as folder:
        for name, columns in _tables(crowd).items():
            write_columns(columns, folder / f"{name}.{options.format}")
        with new_file(folder / TRUTH) as file:
            np.savez_compressed(file, metric=crowd.metric, ideal_points=crowd.ideal_points, bases=crowd.bases)
    print(crowd.summary())
    note(options, f"wrote {', '.join(f'{name}.{options.format}' for name in _tables(crowd))} and {TRUTH}")


def _tables(crowd: Crowd) -> dict[str, Columns]:
    """Return items (features alone), comparisons and labels, with row numbers as ids."""
    ids = np.arange(len(crowd.items))
    features = {f"f{j}": column for j, column in enumerate(crowd.items.T)}
    return {
        "items": {"item_id": ids, **features},
        "comparisons": {
            "user": crowd.users,
            "left": crowd.pairs[:, 0],
            "right": crowd.pairs[:, 1],
            "choice": np.where(crowd.y < 0, "left", "right"),
        },
        "labels": {"item_id": ids, "subspace": crowd.labels},
    }


def _is_simulation(folder: Path) -> bool:
    """Return whether `folder` was written by this command and holds nothing else."""
    names = {path.name for path in folder.iterdir()}
    tables = {f"{name}.{suffix}" for name in ("items", "comparisons", "labels") for suffix in FORMATS}
    return TRUTH in names and names <= tables | {TRUTH}
