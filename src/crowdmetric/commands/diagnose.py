"""crowdmetric diagnose: what answers can teach, before anything is fitted."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

import numpy as np

from crowdmetric.commands.command import note
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
from crowdmetric.commands.similarity_commands import diagnose_similarity
from crowdmetric.comparisons import Comparisons
from crowdmetric.identifiability import diagnose, plan_diagnosis
from crowdmetric.progress import show_progress
from crowdmetric.tables import ComparisonScan

__all__ = ["add_arguments", "run"]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("items", metavar="ITEMS", help=f"{TABLE}, .npy or .npz: one row per item")
    parser.add_argument("comparisons", metavar="COMPARISONS", help=f"{TABLE}: who compared what")
    add_preparation(parser)
    add_columns(parser)
    add_categories(parser)
    parser.add_argument(
        "--covariance",
        choices=("isotropic", "free"),
        default="isotropic",
        help="law of people for which the population's verdict holds (default isotropic)",
    )
    parser.add_argument("--memory", metavar="SIZE", help="leave answers on disk and stay within SIZE, such as 2GB")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: Namespace) -> None:
    """Run the command."""
    check_preparation(options)
    if options.memory is None and holds_judgements(options):
        diagnose_similarity(options)
        return
    items = items_of(options)
    features, names, preprocessing = prepared(options, items)
    answers: Comparisons | ComparisonScan
    if options.memory is None:
        answers = answers_of(options, items)
    else:
        answers = scan_answers(options, items)
        note(options, plan_diagnosis(features, answers, options.memory).sentence)
    shown = np.arange(len(items.ids)) if isinstance(answers, ComparisonScan) else answers.pairs
    relations = related(options, items, shown, preprocessing)
    with show_progress("Looking at the answers", quiet=options.quiet):
        found = diagnose(
            features, answers, features=names, item_ids=items.ids, covariance=options.covariance,
            memory=options.memory, relations=relations,
        )  # fmt: skip
    if options.json:
        print(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False))
    else:
        print(found.summary())
