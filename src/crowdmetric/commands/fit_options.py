"""The options of crowdmetric fit, and what an estimator is given of them."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from typing import Any

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
from crowdmetric.solvers.bounds import BOUNDS
from crowdmetric.stitch import METHODS
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
    add("--no-report", action="store_true", help=f"do not write {REPORT} into the folder")
    add(
        "--no-evaluate",
        action="store_true",
        help="do not measure, for the report, how well hidden answers are predicted",
    )
    add_time_limit(parser)
    add(
        "--for",
        choices=QUESTIONS,
        help="what the model is for: it is chosen by hidden answers to that (default: all)",
    )
    add(
        "--estimator",
        choices=ESTIMATORS,
        help="default: stitched with --labels or --discover, else what predicts hidden answers best: ideal points "
        "under a learned metric (population), tastes that bend (taste), or no learned metric",
    )
    add(
        "--covariance", choices=STRUCTURES, help="of ideal points in the population (default: by what a free one gains)"
    )
    add(
        "--item-effects",
        action=BooleanOptionalAction,
        help="whether items have utilities of their own beside their features (default: by what those gain)",
    )
    add("--starts", type=int, metavar="N", help="points to begin a population fit from (default: 2)")
    add("--integration", choices=INTEGRATIONS, help="how a population is integrated out (default: auto)")
    add("--jobs", type=int, metavar="N", help="threads of a population fit (default: one a core)")
    add(
        "--engine",
        metavar="NAME",
        help="where sums over people are taken: local, torch, torch:DEVICE, dask or dask:ADDRESS",
    )
    add(
        "--names",
        metavar="FILE",
        help="CSV or Parquet: item_id, name, for the report (default: a text column name or title)",
    )
    add("--labels", metavar="FILE", help="CSV or Parquet: item_id, subspace (empty or -1: in none)")
    add("--discover", action="store_true", help="find the subspaces among the items instead")
    add("--subspaces", type=int, metavar="N", help="how many to discover (default: chosen from the items)")
    add("--rank", type=int, metavar="R", help="of the subspaces (default: from the items), or of a population's metric")
    add("--affine", action="store_true", default=None, help="subspaces need not pass through the origin")
    add_preparation(parser)
    add_columns(parser)
    add_categories(parser)
    add("--stitch", choices=METHODS, help="how subspace metrics become one (default: huber)")
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
    add(
        "--constraint",
        choices=POPULATION_CONSTRAINTS,
        help="of a matched or population metric (default: psd); identity and zero of a population only",
    )
    add("--ridge", metavar="X", help="penalty: a number, or (population, the default there) 'evidence'; 0: none")
    add("--structure", choices=("auto", *STRUCTURES_OF_A_METRIC), help="of a metric from judgements (default: auto)")
    add("--link", choices=(*LINKS, "auto"), help="whether people compare squared distances or distances, of judgements")
    add("--lapse", metavar="X", help="share of judgements given without looking: a number, 'estimate' or 'checks'")
    add("--judgements", metavar="FILE", help=f"{TABLE}: similarity judgements that share a population's metric")
    add("--own", action="store_true", default=None, help="everybody's own metric, from judgements of several people")
    add("--tol", type=float, help="gap at which to stop (default: 1e-8 certified; population: 1e-4 nats)")
    add("--max-iter", type=int, metavar="N", help="iterations at most (default: 200)")
    add("--seed", type=int, help="of folds that choose bounds, and of starts (default: 0)")
    add("--memory", metavar="SIZE", help="leave answers on disk and fit within SIZE, such as 2GB")
    add("--checkpoint", metavar="FILE", help="save a population fit at every step, and go on from FILE if it is there")
    add("--json", action="store_true", help="print one JSON object instead of a summary")


def refused_by(options: Namespace, name: str) -> list[str]:
    """Return the options given that an estimator has no use for."""
    known = ESTIMATORS[name]().get_params()
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
        raise UsageError(f"{flag} has no use with --estimator {name}; leave it out{hint}")
    if options.ridge == "evidence" and name != "population":
        raise UsageError(f"--ridge evidence has no use with --estimator {name}; give a number")
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
        raise UsageError("--subspaces has no use without --discover; leave it out, or give --discover")
    if located != (name == "stitched"):
        raise UsageError(
            "--estimator stitched needs --labels, which say which subspace an item lies in, or --discover"
            if name == "stitched"
            else f"--labels and --discover have no use with --estimator {name}; leave them out"
        )
    return {PASSED[option]: value for option, value in given.items()}
