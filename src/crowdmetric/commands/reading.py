"""The tables that commands are given: names of columns, categories, and ``-`` for standard input."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

from crowdmetric.commands.command import UsageError
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.judgements import Judgements
from crowdmetric.progress import show_progress
from crowdmetric.tables import (
    Columns,
    ComparisonScan,
    Items,
    Stored,
    column_names,
    judgement_kind,
    read_columns,
    read_items,
    rename_columns,
)

__all__ = [
    "TABLE",
    "add_categories",
    "add_columns",
    "answers_of",
    "columns_of",
    "holds_judgements",
    "items_of",
    "judgements_of",
    "names_of_answers",
    "names_of_files",
    "scan_answers",
]

TABLE = "CSV, TSV, Excel, JSON lines or Parquet, - for standard input"
# Names that columns may be renamed to: of items, of comparisons and of judgements.
OF_ITEMS = ("item_id",)
OF_ANSWERS = (
    "user", "left", "right", "choice", "response", "probability", "weight", "winner", "loser",
    "person", "anchor", "a", "b", "c", "d", "odd", "chose_left", "n_left", "n_right", "n", "n_a", "n_b", "n_c",
    "response_time",
)  # fmt: skip


def add_columns(parser: ArgumentParser) -> None:
    """Add the option that renames columns."""
    parser.add_argument(
        "--columns",
        metavar="NAMES",
        help="what columns are called in your tables: user=participant,left=img_a,choice=answer,item_id=sku",
    )


def add_categories(parser: ArgumentParser) -> None:
    """Add the option that says which columns of the items are categories."""
    parser.add_argument(
        "--categorical",
        metavar="NAMES",
        help="columns of the items that hold categories, or all: each becomes features of 0 and 1 (default: left out)",
    )


def items_of(options: Namespace) -> Items:
    """Return the items that the options name."""
    asked = options.categorical
    categories = asked if asked in (None, "all") else [name.strip() for name in asked.split(",") if name.strip()]
    renamed = _renamed(options, OF_ITEMS)
    return read_items(_source(options, options.items), renamed.get("item_id"), categorical=categories)


def names_of_answers(options: Namespace) -> dict[str, str]:
    """Return what the columns of the answers are called, by the names that the library knows."""
    return _renamed(options, OF_ANSWERS)


def names_of_files(options: Namespace) -> list[str]:
    """Return what the tables of items and answers are called, without their folders."""
    return ["standard input" if place == "-" else Path(place).name for place in (options.items, options.comparisons)]


def columns_of(options: Namespace) -> Columns:
    """Return the table of answers or questions under the names that the library knows."""
    return rename_columns(read_columns(_source(options, options.comparisons)), names_of_answers(options))


def answers_of(options: Namespace, items: Items) -> Comparisons:
    """Return the comparisons that the options name."""
    return Comparisons.from_table(columns_of(options), items=items)


def scan_answers(options: Namespace, items: Items) -> ComparisonScan:
    """Return the answers that the options name, grouped by person and left on disk (--memory)."""
    path = options.comparisons
    if path == "-":
        raise UsageError("--memory leaves answers on disk, but standard input is not a file on disk; name a file")
    names = names_of_answers(options)
    other = [name for name in names if name not in ("user", "left", "right")]
    if other:
        raise UsageError(
            f"--columns {other[0]}= has no effect with --memory, only user, left and right; rename the column"
        )
    is_text = path.lower().endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt"))
    with show_progress("Grouping the answers by person", quiet=options.quiet):
        scan = (Comparisons.scan_csv if is_text else Comparisons.scan_parquet)(path, items=items, **names)
        scan.read()
    return scan


def judgements_of(options: Namespace, items: Items) -> Judgements:
    """Return the similarity judgements that the options name."""
    return Judgements.from_table(columns_of(options), items=items)


def holds_judgements(options: Namespace) -> bool:
    """Return whether a table holds similarity judgements; where it cannot be read, the command itself will say so."""
    if options.comparisons != "-" and not Path(options.comparisons).is_file():
        return False
    try:
        names = column_names(_source(options, options.comparisons))
    except DataError:
        return False
    return judgement_kind({*names, *names_of_answers(options)}) is not None


def _source(options: Namespace, place: str) -> str | Stored:
    """Return a file, or standard input, which is read once."""
    if place != "-":
        return place
    if getattr(options, "items", None) == "-" == getattr(options, "comparisons", None):
        raise UsageError("ITEMS and COMPARISONS are both -, but standard input holds one table; name a file for one")
    if not hasattr(options, "standard_input"):
        options.standard_input = Stored.of_bytes("standard input", sys.stdin.buffer.read())
    given: Stored = options.standard_input
    return given


def _renamed(options: Namespace, among: tuple[str, ...]) -> dict[str, str]:
    return {name: called for name, called in _all_names(options.columns).items() if name in among}


def _all_names(text: str | None) -> Mapping[str, str]:
    """Return ``user=participant,left=img_a`` as a mapping."""
    names: dict[str, str] = {}
    for part in (text or "").split(","):
        name, equals, called = (piece.strip() for piece in part.partition("="))
        if not part.strip():
            continue
        if not (equals and called) or name not in OF_ITEMS + OF_ANSWERS:
            raise UsageError(
                f"--columns {part.strip()} is not understood; write user=participant, and likewise for "
                f"{', '.join(OF_ANSWERS[1:9])} and item_id"
            )
        if name in names:
            raise UsageError(f"--columns names {name} twice; leave one out")
        names[name] = called
    return names
