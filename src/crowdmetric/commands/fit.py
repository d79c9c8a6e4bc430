"""crowdmetric fit: items and answers -> a saved model and a report."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.choice import choose_covariance, matched_share
from crowdmetric.commands.base import Command, UsageError, note, print_model
from crowdmetric.commands.engines import open_engine
from crowdmetric.commands.streamed import fit_streamed, fit_telling
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.estimators import IdealPointMetric, MatchedMetric, PopulationMetric, StitchedMetric
from crowdmetric.estimators.matched import CONSTRAINTS
from crowdmetric.estimators.population import INTEGRATIONS
from crowdmetric.evaluate import Evaluation, evaluate
from crowdmetric.folders import check_target
from crowdmetric.identifiability import Diagnosis, diagnose
from crowdmetric.losses import LOSSES, get_loss
from crowdmetric.persist import REPORT, is_model, save_model
from crowdmetric.preprocess import ItemMap
from crowdmetric.progress import show_progress
from crowdmetric.report import report_page
from crowdmetric.solvers.bounds import BOUNDS
from crowdmetric.stitch import METHODS
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.tables import Column, Items, read_columns, read_items, unique_ids
from crowdmetric.users.item_effects import MOST_ITEMS
from crowdmetric.users.population import STRUCTURES

__all__ = ["FIT", "read_labels"]

Estimator = PopulationMetric | IdealPointMetric | MatchedMetric | StitchedMetric
ESTIMATORS: dict[str, type[Estimator]] = {
    "population": PopulationMetric,
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
    "covariance": "covariance",
    "item_effects": "item_effects",
    "integration": "integration",
    "starts": "starts",
    "jobs": "jobs",
    "tol": "tol",
    "max_iter": "max_iter",
    "engine": "engine",
    "memory": "memory",
    "checkpoint": "checkpoint",
    "seed": "random_state",
}
# Fewer people than this are no population.
FEWEST_PEOPLE = 5
# More features than this are not learnt from without being asked to: a metric of them has thousands of parameters.
MOST_FEATURES = 100
# More features than this take longer to diagnose than to learn from.
MOST_DIAGNOSED = 60
# What is evaluated for the report, and how many people at most: enough for a verdict, in about the time of a few fits.
EVALUATED = ("bradley-terry", "linear", "identity", "population", "population-free", "population-items", "symmetric")
MOST_EVALUATED = 2_000
# Where at least so many people were asked parallel questions, they were asked on purpose.
MATCHED = 0.5


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("items", metavar="ITEMS", help="CSV, Parquet, .npy or .npz: an id column (optional) and features")
    add("comparisons", metavar="COMPARISONS", help="CSV or Parquet: user, left, right and choice, or similar")
    add("--out", required=True, metavar="MODEL", help="folder to make")
    add("--overwrite", action="store_true", help="replace an older model")
    add("--no-report", action="store_true", help=f"do not write {REPORT} into the folder")
    add(
        "--no-evaluate",
        action="store_true",
        help="do not measure, for the report, how well hidden answers are predicted",
    )
    add("--estimator", choices=ESTIMATORS, help="default: stitched with --labels or --discover, else population")
    add("--covariance", choices=STRUCTURES, help="of ideal points in the population (default: by BIC)")
    add("--item-effects", action="store_true", default=None, help="give items utilities of their own beside features")
    add("--starts", type=int, metavar="N", help="points to begin a population fit from (default: 2)")
    add("--integration", choices=INTEGRATIONS, help="how a population is integrated out (default: auto)")
    add("--jobs", type=int, metavar="N", help="threads of a population fit (default: one a core)")
    add("--engine", metavar="NAME", help="of a population fit: local, torch, torch:DEVICE, dask or dask:ADDRESS")
    add("--labels", metavar="FILE", help="CSV or Parquet: item_id, subspace (empty or -1: in none)")
    add("--discover", action="store_true", help="find the subspaces among the items instead")
    add("--subspaces", type=int, metavar="N", help="how many to discover (default: chosen from the items)")
    add("--rank", type=int, metavar="R", help="of the subspaces (default: from the items), or of a population's metric")
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
    add("--constraint", choices=CONSTRAINTS, help="of a matched or population metric (default: psd)")
    add("--ridge", metavar="X", help="penalty: a number, or (population, the default there) 'evidence'; 0: none")
    add("--tol", type=float, help="gap at which to stop (default: 1e-8 certified; population: 1e-4 nats)")
    add("--max-iter", type=int, metavar="N", help="iterations at most (default: 200)")
    add("--seed", type=int, help="of folds that choose bounds, and of starts (default: 0)")
    add("--memory", metavar="SIZE", help="leave answers on disk and fit within SIZE, such as 2GB")
    add("--checkpoint", metavar="FILE", help="save a population fit at every step, and go on from FILE if it is there")
    add("--json", action="store_true", help="print one JSON object instead of a summary")


def _run(options: Namespace) -> None:
    options.ridge = _ridge(options.ridge)
    name, reason = _choose_estimator(options)
    parameters = _parameters(options, name)
    preprocessing = _preprocessing(options)
    check_target(options.out, options.overwrite, is_model)
    with open_engine(options) as engine:
        if engine is not None:
            parameters["engine"] = engine
            parameters.pop("jobs", None)  # the engine has them
        _fit(options, name, reason, parameters, preprocessing)


def _fit(options: Namespace, name: str, reason: str, parameters: dict[str, Any], preprocessing: ItemMap | None) -> None:
    items = read_items(options.items)
    if options.memory is not None:
        streaming: Any = ESTIMATORS[name](_prepared(options, items, preprocessing)[0], **parameters)
        note(options, f"using {ESTIMATORS[name].__name__}, {reason}")
        fit_streamed(options, streaming, items, preprocessing)
        return
    comparisons = Comparisons.read(options.comparisons, items=items)
    if options.labels is not None:
        parameters["subspaces"] = read_labels(options, items)
    elif options.discover:
        parameters["subspaces"] = "discover"
    features, names = _prepared(options, items, preprocessing)
    if options.estimator is None and name == "population":
        name, reason = _population_or(name, reason, options, features.shape[1], comparisons)
    diagnosis = _diagnosed(options, features, names, items, comparisons)
    reasons = [f"using {ESTIMATORS[name].__name__}, {reason}"]
    note(options, reasons[0])
    suggestion = _suggest_matched(name, features, comparisons, diagnosis)
    if suggestion:
        note(options, suggestion)
    if name == "population" and "covariance" not in parameters:
        with show_progress("Choosing how people scatter", quiet=options.quiet):
            choice = choose_covariance(features, comparisons, parameters)
        parameters["covariance"] = choice.value
        reasons.append(f"the covariance of people is taken as {choice.value}, because {choice.reason}")
        note(options, reasons[-1])
    estimator = ESTIMATORS[name](features, **parameters)
    with show_progress("Learning the metric", quiet=options.quiet) as say:
        fit_telling(estimator, comparisons, say)
    found = getattr(estimator, "discovery_", None)
    if found is not None:
        for line in found.summary().splitlines():
            note(options, line)
    page = partial(
        report_page, comparisons=comparisons, diagnosis=diagnosis, choices=reasons, suggestion=suggestion,
        evaluation=_evaluated(options, features, comparisons, parameters.get("subspaces")),
    )  # fmt: skip
    model = save_model(
        options.out,
        estimator,
        item_ids=items.ids,
        feature_names=items.feature_names,
        comparisons=comparisons,
        preprocessing=preprocessing,
        report=None if options.no_report else page,
        overwrite=options.overwrite,
    )
    print_model(options, model, options.out)
    if not options.no_report:
        note(options, f"what was learnt, in words and pictures: {Path(options.out) / REPORT}")


def _prepared(options: Namespace, items: Items, preprocessing: ItemMap | None) -> tuple[NDArray[np.float64], list[str]]:
    """Return the features that are learnt from, and their names."""
    if preprocessing is None:
        return items.features, items.feature_names
    features = preprocessing.fit_transform(items.features)
    note(options, f"items: {preprocessing.summary()}")
    reduced = preprocessing.components is not None or preprocessing.whiten
    return features, [f"direction {j + 1}" for j in range(features.shape[1])] if reduced else items.feature_names


def _evaluated(
    options: Namespace, features: NDArray[np.float64], answers: Comparisons, subspaces: Any
) -> Evaluation | None:
    """Return how well models predict hidden answers of at most 2,000 of the people; None where that is not asked."""
    if options.no_report or options.no_evaluate or not answers.is_binary:
        return None
    if features.shape[1] > MOST_DIAGNOSED:
        note(
            options,
            f"items have {features.shape[1]} features: see crowdmetric evaluate for how well answers are predicted",
        )
        return None
    step = -(-answers.n_users // MOST_EVALUATED)
    some = answers if step == 1 else answers.take(np.flatnonzero(answers.user % step == 0))
    labelled = subspaces is not None and not isinstance(subspaces, str)
    names = [name for name in EVALUATED if name != "population-items" or len(features) <= MOST_ITEMS]
    names += ["stitched"] if labelled else []
    try:
        with show_progress("Predicting hidden answers", quiet=options.quiet) as say:
            return evaluate(features, some, names, repeats=1, subspaces=subspaces if labelled else None, after_fit=say)
    except DataError as error:
        note(options, f"how well answers are predicted was not measured: {error}")
        return None


def _choose_estimator(options: Namespace) -> tuple[str, str]:
    """Return an estimator and why it was chosen, as far as the options tell."""
    asked = (
        (options.estimator is not None, options.estimator, "as --estimator asks"),
        (options.labels is not None, "stitched", "because --labels says which subspace an item lies in"),
        (options.discover, "stitched", "because --discover asks for subspaces among the items"),
    )
    for given, name, reason in asked:
        if given:
            return name, reason
    wanted = _refused(options, "population")
    if not wanted:
        return "population", "because people taken as one population need neither subspaces nor bounds"
    for name in ("ideal", "matched"):
        if not _refused(options, name):
            return name, f"because {' and '.join(wanted)} {'is' if len(wanted) == 1 else 'are'} of use there"
    return "population", ""


def _refused(options: Namespace, name: str) -> list[str]:
    """Return the options given that an estimator has no use for."""
    known = ESTIMATORS[name]().get_params()
    refused = [
        _flag(option) for option in PASSED if getattr(options, option) is not None and PASSED[option] not in known
    ]
    if options.loss is not None and name in ("population", "matched"):
        kind = get_loss(options.loss, 1.0)
        if not (kind.needs_binary and kind.is_smooth):
            refused.append(f"--loss {options.loss}")
    return refused


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _population_or(name: str, reason: str, options: Namespace, d: int, answers: Comparisons) -> tuple[str, str]:
    """Return what to use where a population is the default, now that the data are known."""
    if d > MOST_FEATURES and options.rank is None:
        raise DataError(
            f"items have {d} features, and a metric of them {degrees_of_freedom(d):,} parameters; keep fewer with "
            "--pca 0.9 (or a number of directions), limit the metric with --rank, or choose an --estimator"
        )
    people = np.unique(answers.user).size
    if people < FEWEST_PEOPLE and not _refused(options, "ideal"):
        return "ideal", f"because {people} people are too few to be taken as one population"
    return name, reason


def _diagnosed(
    options: Namespace, features: NDArray[np.float64], names: list[str], items: Items, answers: Comparisons
) -> Diagnosis | None:
    """Return what the answers can teach, and say it; None for so many features that it would take too long."""
    if features.shape[1] > MOST_DIAGNOSED:
        note(
            options,
            f"items have {features.shape[1]} features: see crowdmetric diagnose for what these answers can teach",
        )
        return None
    with show_progress("Looking at the answers", quiet=options.quiet):
        found = diagnose(features, answers, features=names, item_ids=items.ids)
    note(options, found.summary().splitlines()[0])
    return found


def _suggest_matched(
    name: str, features: NDArray[np.float64], answers: Comparisons, diagnosis: Diagnosis | None
) -> str:
    """Return a sentence where matched questions would make up for questions that were chosen for people."""
    if name == "matched" or diagnosis is None or not diagnosis.assignment.suspicious or not answers.is_binary:
        return ""
    share = matched_share(features, answers)
    if share < MATCHED:
        return ""
    return (
        f"questions depend on who was asked, and {share:.0%} of the people were asked parallel questions: "
        "--estimator matched learns from those without assuming anything of people"
    )


def _ridge(text: str | None) -> str | float | None:
    if text is None or text == "evidence":
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--ridge {text} is neither a number nor 'evidence'") from None


def _parameters(options: Namespace, name: str) -> dict[str, Any]:
    """Return the options given, by the estimator's names; one that it does not know is a usage error."""
    given = {option: getattr(options, option) for option in PASSED if getattr(options, option) is not None}
    located = options.labels is not None or options.discover
    hint = "" if located else ", or give --labels or --discover"
    for flag in _refused(options, name):
        raise UsageError(f"{flag} has no use with --estimator {name}; leave it out{hint}")
    if options.ridge == "evidence" and name != "population":
        raise UsageError(f"--ridge evidence has no use with --estimator {name}; give a number")
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
