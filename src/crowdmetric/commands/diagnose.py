"""crowdmetric diagnose: what answers can teach, before anything is fitted."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from crowdmetric.commands.base import Command
from crowdmetric.comparisons import Comparisons
from crowdmetric.identifiability import diagnose
from crowdmetric.tables import read_items

__all__ = ["DIAGNOSE"]


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("items", metavar="ITEMS", help="CSV, Parquet, .npy or .npz: one row an item")
    parser.add_argument("comparisons", metavar="COMPARISONS", help="CSV or Parquet: who compared what")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _run(options: Namespace) -> None:
    items = read_items(options.items)
    found = diagnose(items.features, Comparisons.read(options.comparisons, item_ids=items.ids))
    if not options.json:
        print(found.summary())
        return
    numbers = {
        name: getattr(found, name) for name in ("identified", "rank", "dimensions", "people", "silent", "answers")
    }
    spread = None if found.rank == 0 else found.largest / found.smallest
    print(json.dumps(numbers | {"condition": spread, "summary": found.summary()}, ensure_ascii=False))


DIAGNOSE = Command(
    name="diagnose",
    help="say what answers can teach about the metric, whoever gave them, before anything is fitted",
    example="crowdmetric diagnose items.csv comparisons.csv",
    add_arguments=_arguments,
    run=_run,
)
