"""The options of crowdmetric fit, and what an estimator is given of them."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from typing import Any

from crowdmetric.bounded.stitching import METHODS
from crowdmetric.choice import QUESTIONS
from crowdmetric.commands.command import UsageError, add_time_limit
from crowdmetric.commands.preparing import add_preparation
from crowdmetric.commands.reading import TABLE, add_categories, add_columns
from crowdmetric.estimators import IdealPointMetric, MatchedMetric, PopulationMetric, StitchedMetric, TasteMetric
from crowdmetric.estimators.population import INTEGRATIONS
from crowdmetric.estimators.population_options import POPULATION_CONSTRAINTS
from crowdmetric.losses import LOSSES, get_loss
from crowdmetric.persist import REPORT
from crowdmetric.similarity.likelihood import LINKS
from crowdmetric.similarity.structures import STRUCTURES as STRUCTURES_OF_A_METRIC
from crowdmetric.solvers.cone import BOUNDS
from crowdmetric.users.population_sums import STRUCTURES

__all__ = ["ESTIMATORS", "add_arguments", "parameters_of", "refused_by", "ridge_of"]

Estimator = PopulationMetric | IdealPointMetric | MatchedMetric | StitchedMetric | TasteMetric
ESTIMATORS: dict[str, type[Estimator]] = {
    "population": PopulationMetric,
    "ideal": IdealPointMetric,
    "matched": MatchedMetric,
    "stitched": StitchedMetric,
    "taste": TasteMetric,
}
# Options that are passed to the estimator if given, and the names of its parameters.
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
    "max_mismatch": "max_mismatch",
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
    # of tastes and of similarity judgements; the other estimators refuse them
    "structure": "structure",
    "link": "link",
    "lapse": "lapse",
    "own": "people",
}


def add_arguments(parser: ArgumentParser) -> None:
    """Add every option of the command; None is what the user left open."""
    add = parser.add_argument
    add("items", metavar="ITEMS", help=f"{TABLE}, .npy or .npz: an id column (optional) and features")
    add("comparisons", metavar="COMPARISONS", help=f"{TABLE}: user, left, right and choice, or similar")
    add("--out", required=True, metavar="MODEL", help="folder to make")
    add("--overwrite", action="store_true", help="replace an older model")
    add(
        "--for",
        choices=QUESTIONS,
        help="what the model is for: the one that predicts such hidden answers best is chosen (default: all)",
    )
    add(
        "--estimator",
        choices=ESTIMATORS,
        help="default: stitched with --labels or --discover, else what predicts hidden answers best: ideal points "
        "under a learned metric (population), smooth tastes (taste), or no learned metric",
    )
    add(
        "--names",
        metavar="FILE",
        help="CSV or Parquet: item_id, name, for the report (default: a text column name or title)",
    )
    add_preparation(parser)
    add_columns(parser)
    add_categories(parser)
    add("--no-report", action="store_true", help=f"do not write {REPORT} into the folder")
    add(
        "--no-evaluate",
        action="store_true",
        help="do not measure, for the report, how well hidden answers are predicted",
    )
    add_time_limit(parser)
    add("--json", action="store_true", help="print one JSON object instead of a summary")
    add = parser.add_argument_group("a population of people").add_argument
    add(
        "--covariance",
        choices=(*STRUCTURES, "none"),
        help="of ideal points (default: by what a free covariance gains); none: people do not differ",
    )
    add(
        "--item-effects",
        action=BooleanOptionalAction,
        help="per-item effects, for what features do not explain (default: by what they gain)",
    )
    add("--ridge", metavar="X", help="penalty: a number, or (population, the default there) 'evidence'; 0: none")
    add(
        "--constraint",
        choices=POPULATION_CONSTRAINTS,
        help="constraint on a matched or population metric (default: psd); identity and zero: population only",
    )
    add("--integration", choices=INTEGRATIONS, help="how a population is integrated out (default: auto)")
    add("--starts", type=int, metavar="N", help="number of starting points of a population fit (default: 2)")
    add("--jobs", type=int, metavar="N", help="threads of a population fit (default: one per core)")
    add(
        "--engine",
        metavar="NAME",
        help="where sums over people are taken: local, torch, torch:DEVICE, dask or dask:ADDRESS",
    )
    add("--memory", metavar="SIZE", help="leave answers on disk and fit within SIZE, such as 2GB")
    add("--checkpoint", metavar="FILE", help="save a population fit at every step, and resume from FILE if it exists")
    add = parser.add_argument_group("items in subspaces").add_argument
    add("--labels", metavar="FILE", help="CSV or Parquet: item_id, subspace (empty or -1: in none)")
    add("--discover", action="store_true", help="find the subspaces among the items instead")
    add("--subspaces", type=int, metavar="N", help="how many to discover (default: chosen from the items)")
    add("--rank", type=int, metavar="R", help="rank of subspaces (default: from the items) or of the metric")
    add("--affine", action="store_true", default=None, help="subspaces need not pass through the origin")
    add("--stitch", choices=METHODS, help="how subspace metrics become one (default: huber)")
    add = parser.add_argument_group("similarity judgements").add_argument
    add("--judgements", metavar="FILE", help=f"{TABLE}: similarity judgements that share a population's metric")
    add(
        "--structure",
        choices=("auto", *STRUCTURES_OF_A_METRIC),
        help="judgements: structure of the metric (default: auto)",
    )
    add("--link", choices=(*LINKS, "auto"), help="judgements: whether people compare squared distances or distances")
    add("--lapse", metavar="X", help="share of judgements given without looking: a number, 'estimate' or 'checks'")
    add("--own", action="store_true", default=None, help="judgements: also learn each person's own metric")
    add = parser.add_argument_group("answers, bounds and accuracy").add_argument
    add("--loss", choices=LOSSES, help="default: logistic")
    add("--beta", type=float, help="sharpness of the answers (default: 1)")
    add("--metric-bound", type=float, metavar="X", help="bound on the metric (default: from the data)")
    add("--ideal-bound", type=float, metavar="X", help="bound on pseudo-ideal points (default: from the data)")
    add("--norm", choices=BOUNDS, help="what --metric-bound bounds (default: frobenius)")
    add(
        "--max-mismatch",
        "--tolerance",  # its old name
        type=float,
        metavar="X",
        help="how far matched questions may be from parallel, as a share of their length (default: 1e-5)",
    )
    add("--tol", type=float, help="gap at which to stop (default: 1e-8 certified; population: 1e-4 nats)")
    add("--max-iter", type=int, metavar="N", help="iterations at most (default: 200)")
    add("--seed", type=int, help="random seed of folds and starts (default: 0)")


def refused_by(options: Namespace, name: str) -> list[str]:
    """Return the given options that an estimator does not have."""
    known = set(ESTIMATORS[name]().get_params())
    if name == "taste":
        known.remove("engine")  # a parameter that only says why there is none
    given = {option: getattr(options, option) for option in PASSED if getattr(options, option) is not None}
    refused = [_flag(option, value) for option, value in given.items() if PASSED[option] not in known]
    if options.loss is not None and name in ("population", "matched"):
        kind = get_loss(options.loss, 1.0)
        if not (kind.needs_binary and kind.is_smooth):
            refused.append(f"--loss {options.loss}")
    return refused


def _flag(option: str, value: Any) -> str:
    return f"--{'no-' if value is False else ''}{option.replace('_', '-')}"


def ridge_of(text: str | None) -> str | float | None:
    """Return what --ridge says: nothing, 'evidence' or a number."""
    if text is None or text == "evidence":
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--ridge {text} is neither a number nor 'evidence'") from None


def parameters_of(options: Namespace, name: str) -> dict[str, Any]:
    """Return the options given, by the estimator's names; one that it does not know is a usage error."""
    given = {option: getattr(options, option) for option in PASSED if getattr(options, option) is not None}
    located = options.labels is not None or options.discover
    hint = "" if located else ", or give --labels or --discover"
    for flag in refused_by(options, name):
        raise UsageError(f"{flag} has no effect with --estimator {name}; leave it out{hint}")
    if options.ridge == "evidence" and name != "population":
        raise UsageError(f"--ridge evidence has no effect with --estimator {name}; give a number")
    if options.labels is not None and options.discover:
        raise UsageError(
            "--labels says which subspace an item lies in, so there is nothing to --discover; leave one out"
        )
    if options.time_limit is not None and (options.no_evaluate or options.no_report or options.memory is not None):
        raise UsageError(
            "--time-limit is for predicting hidden answers, which --no-evaluate, --no-report and --memory leave out; "
            "drop it"
        )
    question = getattr(options, "for")
    if question is not None and (options.no_evaluate or options.no_report):
        left_out = "--no-evaluate" if options.no_evaluate else "--no-report"
        raise UsageError(
            f"--for {question} is decided by hidden answers, which {left_out} leaves out; drop one of them"
        )
    if options.names is not None and (options.no_report or options.memory is not None):
        left_out = "--no-report leaves out" if options.no_report else "--memory does without"
        raise UsageError(f"--names says what the report calls items, and {left_out} a report; leave one of them out")
    if options.subspaces is not None and not options.discover:
        raise UsageError("--subspaces has no effect without --discover; leave it out, or give --discover")
    if located != (name == "stitched"):
        raise UsageError(
            "--estimator stitched needs --labels, which say which subspace an item lies in, or --discover"
            if name == "stitched"
            else f"--labels and --discover have no effect with --estimator {name}; leave them out"
        )
    return {PASSED[option]: value for option, value in given.items()}
