"""crowdmetric diagnose: what answers can teach, before anything is fitted."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from crowdmetric.commands.base import Command, note
from crowdmetric.commands.scans import scan_answers
from crowdmetric.commands.similarity import diagnose_similarity, holds_judgements
from crowdmetric.comparisons import Comparisons
from crowdmetric.identifiability import diagnose, plan_diagnosis
from crowdmetric.progress import show_progress
from crowdmetric.tables import ComparisonScan, read_items

__all__ = ["DIAGNOSE"]


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("items", metavar="ITEMS", help="CSV, Parquet, .npy or .npz: one row an item")
    parser.add_argument("comparisons", metavar="COMPARISONS", help="CSV or Parquet: who compared what")
    parser.add_argument("--memory", metavar="SIZE", help="leave answers on disk and stay within SIZE, such as 2GB")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _run(options: Namespace) -> None:
    if options.memory is None and holds_judgements(options.comparisons):
        diagnose_similarity(options)
        return
    items = read_items(options.items)
    answers: Comparisons | ComparisonScan
    if options.memory is None:
        answers = Comparisons.read(options.comparisons, item_ids=items.ids)
    else:
        answers = scan_answers(options, items)
        note(options, plan_diagnosis(items.features, answers, options.memory).sentence)
    with show_progress("Looking at the answers", quiet=options.quiet):
        found = diagnose(
            items.features, answers, features=items.feature_names, item_ids=items.ids, memory=options.memory
        )
    if options.json:
        print(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False))
    else:
        print(found.summary())


DIAGNOSE = Command(
    name="diagnose",
    help="say what answers can teach about the metric, whoever gave them, before anything is fitted",
    example="crowdmetric diagnose items.csv comparisons.csv",
    add_arguments=_arguments,
    run=_run,
)
