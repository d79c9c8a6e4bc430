"""crowdmetric fit: items and answers -> a saved model."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

from crowdmetric.commands.base import Command, UsageError, note, print_model
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.estimators import IdealPointMetric, MatchedMetric, StitchedMetric
from crowdmetric.estimators.matched import CONSTRAINTS
from crowdmetric.folders import check_target
from crowdmetric.losses import LOSSES
from crowdmetric.persist import is_model, save_model
from crowdmetric.preprocess import ItemMap
from crowdmetric.progress import show_progress
from crowdmetric.solvers.bounds import BOUNDS
from crowdmetric.stitch import METHODS
from crowdmetric.tables import Column, Items, read_columns, read_items, unique_ids

__all__ = ["FIT", "read_labels"]

ESTIMATORS: dict[str, type[IdealPointMetric] | type[MatchedMetric] | type[StitchedMetric]] = {
    "ideal": IdealPointMetric,
    "matched": MatchedMetric,
    "stitched": StitchedMetric,
}
# Options that are passed on where they are given, and what the estimators call them.
PASSED = {
    "subspaces": "n_subspaces",
    "rank": "rank",
    "affine": "affine",
    "stitch": "stitch",
    "loss": "loss",
    "beta": "beta",
    "metric_bound": "metric_bound",
    "ideal_bound": "ideal_bound",
    "norm": "norm",
    "tolerance": "tolerance",
    "constraint": "constraint",
    "ridge": "ridge",
    "tol": "tol",
    "max_iter": "max_iter",
    "seed": "random_state",
}


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("items", metavar="ITEMS", help="CSV, Parquet, .npy or .npz: an id column (optional) and features")
    add("comparisons", metavar="COMPARISONS", help="CSV or Parquet: user, left, right and choice, or similar")
    add("--out", required=True, metavar="MODEL", help="folder to make")
    add("--overwrite", action="store_true", help="replace an older model")
    add("--estimator", choices=ESTIMATORS, help="default: stitched with --labels or --discover, else ideal")
    add("--labels", metavar="FILE", help="CSV or Parquet: item_id, subspace (empty or -1: in none)")
    add("--discover", action="store_true", help="find the subspaces among the items instead")
    add("--subspaces", type=int, metavar="N", help="how many to discover (default: chosen from the items)")
    add("--rank", type=int, metavar="R", help="dimension of the subspaces (default: found from the items)")
    add("--affine", action="store_true", default=None, help="subspaces need not pass through the origin")
    add("--standardise", action="store_true", help="divide every feature by its standard deviation first")
    add("--pca", metavar="K", help="keep K principal directions first, or a share of the variance such as 0.95")
    add("--whiten", action="store_true", help="give the principal directions variance 1 first")
    add("--stitch", choices=METHODS, help="how subspace metrics become one (default: huber)")
    add("--loss", choices=LOSSES, help="default: logistic")
    add("--beta", type=float, help="sharpness of the answers (default: 1)")
    add("--metric-bound", type=float, metavar="X", help="bound on the metric (default: from the data)")
    add("--ideal-bound", type=float, metavar="X", help="bound on pseudo-ideal points (default: from the data)")
    add("--norm", choices=BOUNDS, help="what --metric-bound bounds (default: frobenius)")
    add("--tolerance", type=float, metavar="X", help="mismatch of matched questions (default: 1e-5)")
    add("--constraint", choices=CONSTRAINTS, help="of a matched metric (default: psd)")
    add("--ridge", type=float, metavar="X", help="penalty on the size of a matched metric (default: 0)")
    add("--tol", type=float, help="certified gap at which to stop (default: 1e-8)")
    add("--max-iter", type=int, metavar="N", help="iterations at most (default: 200)")
    add("--seed", type=int, help="of the folds that choose bounds (default: 0)")
    add("--json", action="store_true", help="print one JSON object instead of a summary")


def _run(options: Namespace) -> None:
    name, reason = _choose_estimator(options)
    chosen = ESTIMATORS[name]
    parameters = _parameters(options, name)
    preprocessing = _preprocessing(options)
    check_target(options.out, options.overwrite, is_model)
    note(options, f"using {chosen.__name__}, {reason}")
    items = read_items(options.items)
    comparisons = Comparisons.read(options.comparisons, items=items)
    if options.labels is not None:
        parameters["subspaces"] = read_labels(options, items)
    elif options.discover:
        parameters["subspaces"] = "discover"
    features = items.features
    if preprocessing is not None:
        features = preprocessing.fit_transform(features)
        note(options, f"items: {preprocessing.summary()}")
    estimator = chosen(features, **parameters)
    with show_progress("Learning the metric", quiet=options.quiet):
        estimator.fit(comparisons)
    found = getattr(estimator, "discovery_", None)
    if found is not None:
        for line in found.summary().splitlines():
            note(options, line)
    model = save_model(
        options.out,
        estimator,
        item_ids=items.ids,
        feature_names=items.feature_names,
        comparisons=comparisons,
        preprocessing=preprocessing,
        overwrite=options.overwrite,
    )
    print_model(options, model, options.out)


def _choose_estimator(options: Namespace) -> tuple[str, str]:
    """Return an estimator and why it was chosen."""
    if options.estimator is not None:
        return options.estimator, "as --estimator asks"
    if options.labels is not None:
        return "stitched", "because --labels says which subspace an item lies in"
    if options.discover:
        return "stitched", "because --discover asks for subspaces among the items"
    return "ideal", "because without --labels or --discover no subspaces are known"


def _parameters(options: Namespace, name: str) -> dict[str, Any]:
    """Return the options given, by the estimator's names; one that it does not know is a usage error."""
    given = {option: getattr(options, option) for option in PASSED if getattr(options, option) is not None}
    known = ESTIMATORS[name]().get_params()
    located = options.labels is not None or options.discover
    hint = "" if located else ", or give --labels or --discover"
    for option in given:
        if PASSED[option] not in known:
            raise UsageError(f"--{option.replace('_', '-')} has no use with --estimator {name}; leave it out{hint}")
    if options.labels is not None and options.discover:
        raise UsageError(
            "--labels says which subspace an item lies in, so there is nothing to --discover; leave one out"
        )
    if options.subspaces is not None and not options.discover:
        raise UsageError("--subspaces has no use without --discover; leave it out, or give --discover")
    if located != (name == "stitched"):
        raise UsageError(
            "--estimator stitched needs --labels, which say which subspace an item lies in, or --discover"
            if name == "stitched"
            else f"--labels and --discover have no use with --estimator {name}; leave them out"
        )
    return {PASSED[option]: value for option, value in given.items()}


def _preprocessing(options: Namespace) -> ItemMap | None:
    """Return what is to be done to items first; None for nothing."""
    if not (options.standardise or options.whiten or options.pca is not None):
        return None
    components: int | float | None = None
    if options.pca is not None:
        try:
            components = float(options.pca) if "." in options.pca else int(options.pca)
        except ValueError:
            raise UsageError(
                f"--pca {options.pca} is neither a number of directions nor a share of the variance"
            ) from None
    return ItemMap(standardise=options.standardise, components=components, whiten=options.whiten)


def read_labels(options: Namespace, items: Items) -> Column:
    """Return the subspace (N,) of every item, −1 or None where the file names none."""
    columns = read_columns(options.labels)
    for name in ("item_id", "subspace"):
        if name not in columns:
            raise DataError(f"{options.labels} has no column {name!r}; item_id and subspace were expected")
    ids, labels = unique_ids(columns["item_id"], f"item_id in {options.labels}"), columns["subspace"]
    place = {item: row for row, item in enumerate(ids.tolist())}
    rows = np.array([place.get(item, -1) for item in items.ids.tolist()])
    named = rows >= 0
    if not named.any():
        raise DataError(
            f"{options.labels} names none of the {len(rows)} items; use the ids of {options.items}, "
            f"such as {items.ids.tolist()[0]!r}"
        )
    if len(ids) > named.sum():
        note(options, f"{len(ids) - named.sum()} labels are of items that {options.items} does not have")
    if not named.all():
        note(options, f"{np.sum(~named)} items have no label and lie in no subspace")
    return _fill(labels, rows, named)


def _fill(labels: Column, rows: Column, named: Column) -> Column:
    """Return the label of each row; empty cells and rows without one become −1 (numbers) or None (text)."""
    if labels.dtype.kind == "f" and np.all(np.isnan(labels) | (labels == np.round(labels))):
        labels = np.where(np.isnan(labels), -1, labels).astype(np.int64)
    nowhere = -1 if labels.dtype.kind in "if" else None
    chosen = labels[np.where(named, rows, 0)]
    chosen[~named] = nowhere
    return chosen


FIT = Command(
    name="fit",
    help="learn the metric that a crowd's answers reveal, and save it",
    example="crowdmetric fit crowd/items.csv crowd/comparisons.csv --labels crowd/labels.csv --out model",
    add_arguments=_arguments,
    run=_run,
)
