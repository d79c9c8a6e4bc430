"""crowdmetric simulate: a crowd with a known truth, as tables that the other commands read."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import numpy as np

from crowdmetric.commands.command import UsageError, note
from crowdmetric.folders import check_target, new_file, new_folder
from crowdmetric.judgements import KINDS
from crowdmetric.simulate import PEOPLE, SimulatedCrowd, simulate_crowd
from crowdmetric.simulate_judgements import SimulatedStudy, simulate_judgements
from crowdmetric.tables import Columns, write_columns

__all__ = ["add_arguments", "run"]

TRUTH = "truth.npz"
FORMATS = ("csv", "parquet")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("--dimension", type=int, default=10, metavar="D", help="dimensions of the items (default: 10)")
    add("--subspaces", type=int, metavar="N", help="subspaces they lie in; 0: none (default: 80)")
    add("--rank", type=int, metavar="R", help="dimension of each subspace (default: 1)")
    add("--users", type=int, metavar="K", help="people for each subspace (default: 40); with --judgements, in all (1)")
    add("--comparisons", type=int, metavar="M", help="answers per person (default: 4)")
    add("--judgements", choices=KINDS, help="instead of comparisons: judgements of similarity, of this kind")
    add("--questions", type=int, metavar="T", help="judgements: how many, shared out among people (default: 5000)")
    add("--items", type=int, metavar="N", help="judgements: how many items (default: 50)")
    add("--differ", type=float, metavar="X", help="judgements: how much people's metrics differ (default: 0)")
    add("--lapse", type=float, metavar="X", help="judgements: share given without looking (default: 0)")
    add("--beta", type=float, help="sharpness of the answers, 0 to inf (default: 1; judgements: 4)")
    add("--noise", type=float, metavar="X", help="how far items stray from their subspaces (default: 0)")
    add("--people", choices=PEOPLE, help="law of the ideal points (default: gaussian)")
    add("--seed", type=int, default=0, help="the same seed gives the same crowd (default: 0)")
    add("--out", required=True, metavar="DIR", help="folder to make")
    add("--format", choices=FORMATS, default="csv", help="format of the tables (default: csv)")
    add("--overwrite", action="store_true", help="replace an older simulation")


# Options of comparisons and of judgements alone, with their defaults.
OF_COMPARISONS = {"subspaces": 80, "rank": None, "comparisons": 4, "noise": 0.0, "people": "gaussian"}
OF_JUDGEMENTS = {"questions": 5_000, "items": 50, "differ": 0.0, "lapse": 0.0}


def run(options: Namespace) -> None:
    """Run the command."""
    judged = options.judgements is not None
    other, kind = (OF_COMPARISONS, "judgements") if judged else (OF_JUDGEMENTS, "comparisons")
    for name in other:
        if getattr(options, name) is not None:
            raise UsageError(
                f"--{name} has no effect with {kind}; leave it out{'' if judged else ', or add --judgements'}"
            )
    for name, default in (OF_JUDGEMENTS if judged else OF_COMPARISONS).items():
        if getattr(options, name) is None:
            setattr(options, name, default)
    check_target(options.out, options.overwrite, _is_simulation)
    study = _judgements(options) if judged else _crowd(options)
    tables = _study_tables(study) if isinstance(study, SimulatedStudy) else _tables(study)
    with new_folder(options.out, options.overwrite, _is_simulation) as folder:
        for name, columns in tables.items():
            write_columns(columns, folder / f"{name}.{options.format}")
        with new_file(folder / TRUTH) as file:
            np.savez_compressed(file, **_truth(study))
    print(study.summary())
    note(options, f"wrote {', '.join(f'{name}.{options.format}' for name in tables)} and {TRUTH}")


def _crowd(options: Namespace) -> SimulatedCrowd:
    return simulate_crowd(
        options.dimension,
        options.subspaces,
        1 if options.rank is None and options.subspaces else options.rank,
        40 if options.users is None else options.users,
        options.comparisons,
        beta=1.0 if options.beta is None else options.beta,
        noise=options.noise,
        seed=options.seed,
        people=options.people,
    )


def _judgements(options: Namespace) -> SimulatedStudy:
    return simulate_judgements(
        options.items,
        options.dimension,
        options.questions,
        kind=options.judgements,
        people=1 if options.users is None else options.users,
        spread=options.differ,
        beta=4.0 if options.beta is None else options.beta,
        lapse=options.lapse,
        seed=options.seed,
    )


def _truth(study: SimulatedCrowd | SimulatedStudy) -> dict[str, Any]:
    if isinstance(study, SimulatedStudy):
        return {"metric": study.metric, "person_metrics": study.person_metrics}
    return {"metric": study.metric, "ideal_points": study.ideal_points, "bases": study.bases}


def _study_tables(study: SimulatedStudy) -> dict[str, Columns]:
    """Return items and judgements, with row numbers as ids."""
    features = {f"f{j}": column for j, column in enumerate(study.items.T)}
    return {"items": {"item_id": np.arange(len(study.items)), **features}, "judgements": study.judgements.columns()}


def _tables(crowd: SimulatedCrowd) -> dict[str, Columns]:
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
    tables = {f"{name}.{suffix}" for name in ("items", "comparisons", "judgements", "labels") for suffix in FORMATS}
    return TRUTH in names and names <= tables | {TRUTH}
