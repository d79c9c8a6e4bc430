"""crowdmetric evaluate: tables -> which model predicts hidden answers best."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from crowdmetric.commands.command import UsageError, add_time_limit, note
from crowdmetric.commands.item_tables import read_labels
from crowdmetric.commands.preparing import add_preparation, check_preparation, prepared, related
from crowdmetric.commands.reading import (
    TABLE,
    add_categories,
    add_columns,
    answers_of,
    holds_judgements,
    items_of,
    scan_answers,
)
from crowdmetric.commands.similarity_commands import evaluate_judgements
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import MissingExtraError
from crowdmetric.evaluate import MODELS, SPLITS, Evaluation, evaluate, plan_evaluation
from crowdmetric.folders import check_target, new_folder, write_file
from crowdmetric.plots import save_figure
from crowdmetric.progress import show_progress
from crowdmetric.tables import ComparisonScan

__all__ = ["add_arguments", "run"]

FILES = ("evaluation.csv", "evaluation.json", "evaluation.png")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("items", metavar="ITEMS", help=f"{TABLE}, .npy or .npz: one row per item")
    add("comparisons", metavar="COMPARISONS", help=f"{TABLE}: who compared what, and the answers")
    add("--split", action="append", choices=SPLITS, help="what to hide; may be repeated (default: all three in turn)")
    add(
        "--models",
        metavar="NAMES",
        help=f"separated by commas, of {', '.join(MODELS)} (default: all but stitched, symmetric-items)",
    )
    add("--labels", metavar="FILE", help="CSV or Parquet: item_id, subspace; adds the model 'stitched'")
    add_preparation(parser)
    add_columns(parser)
    add_categories(parser)
    add("--train-answers", type=int, metavar="N", help="answers per person to learn from (default: all not hidden)")
    add("--given", type=int, default=0, metavar="N", help="answers known of a new person (default: 0)")
    add("--both-new", action="store_true", help="new items: ask about two unseen items only")
    add("--repeats", type=int, default=3, metavar="N", help="number of times to hide other answers (default: 3)")
    add("--seed", type=int, default=0, help="random seed of what is hidden (default: 0)")
    add("--jobs", type=int, metavar="N", help="processes (default: one per core)")
    add("--memory", metavar="SIZE", help="leave answers on disk, draw some people and stay within SIZE, such as 2GB")
    add(
        "--people",
        type=int,
        metavar="N",
        help="how many people to draw when there is a limit of --memory (default: 20,000)",
    )
    add_time_limit(parser)
    add("--out", metavar="DIR", help="folder to make, with the table (CSV, JSON) and a picture (PNG)")
    add("--overwrite", action="store_true", help="replace an older evaluation")
    add("--json", action="store_true", help="print one JSON object instead of a summary")


def run(options: Namespace) -> None:
    """Run the command."""
    check_preparation(options)
    if options.memory is None and holds_judgements(options):
        evaluate_judgements(options)
        return
    models = None if options.models is None else [name.strip() for name in options.models.split(",") if name.strip()]
    if options.labels is None and models is not None and "stitched" in models:
        raise UsageError("--models stitched needs --labels, which say which subspace an item lies in")
    if options.seed < 0:
        raise UsageError(f"--seed {options.seed} is negative; give 0 or more")
    if options.people is not None and options.memory is None:
        raise UsageError("--people says how many to draw where --memory leaves answers on disk; give both or neither")
    if options.out is not None:
        check_target(options.out, options.overwrite, _is_evaluation)
    items = items_of(options)
    features, _, preprocessing = prepared(options, items)
    comparisons: Comparisons | ComparisonScan
    if options.memory is None:
        comparisons = answers_of(options, items)
        related(options, items, comparisons.pairs, preprocessing)
        if comparisons.is_cut:
            note(options, comparisons.caution)
    else:
        comparisons = scan_answers(options, items)
        limits = {"people": options.people, "memory": options.memory, "jobs": options.jobs}
        note(options, plan_evaluation(features, comparisons, **limits).sentence)
    labels: Any = None if options.labels is None else read_labels(options, items)
    with show_progress("Evaluating", quiet=options.quiet) as say:
        found = evaluate(
            features, comparisons, models, splits=options.split or tuple(SPLITS),
            train_answers=options.train_answers, given=options.given, repeats=options.repeats, seed=options.seed,
            subspaces=labels, both_new=options.both_new, jobs=options.jobs, after_fit=say, people=options.people,
            memory=options.memory, time_limit=options.time_limit,
        )  # fmt: skip
    if options.out is not None:
        _write(options, found)
    print(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False) if options.json else found.summary())


def _is_evaluation(folder: Path) -> bool:
    return {file.name for file in folder.iterdir()} <= set(FILES)


def _write(options: Namespace, found: Evaluation) -> None:
    with new_folder(options.out, options.overwrite, _is_evaluation) as folder:
        found.to_csv(folder / "evaluation.csv")
        text = json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False, indent=1)
        write_file(folder / "evaluation.json", text + "\n")
        try:
            save_figure(found.plot(), folder / "evaluation.png")
        except MissingExtraError as error:
            note(options, f"no picture: {error}")
        written = sorted(file.name for file in folder.iterdir())
    note(options, f"wrote {', '.join(written)} to {options.out}")
