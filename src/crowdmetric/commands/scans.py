"""Answers that --memory leaves on disk."""

from __future__ import annotations

from argparse import Namespace

from crowdmetric.commands.command import UsageError
from crowdmetric.commands.reading import names_of_answers
from crowdmetric.comparisons import Comparisons
from crowdmetric.progress import show_progress
from crowdmetric.tables import ComparisonScan, Items

__all__ = ["scan_answers"]


def scan_answers(options: Namespace, items: Items) -> ComparisonScan:
    """Return the answers that the options name, grouped by person on disk."""
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
