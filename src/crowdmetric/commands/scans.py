"""Answers that --memory leaves on disk."""

from __future__ import annotations

from argparse import Namespace

from crowdmetric.comparisons import Comparisons
from crowdmetric.progress import show_progress
from crowdmetric.tables import ComparisonScan, Items

__all__ = ["scan_answers"]


def scan_answers(options: Namespace, items: Items) -> ComparisonScan:
    """Return the answers that the options name, grouped by person on disk."""
    path = options.comparisons
    is_text = path.lower().endswith((".csv", ".csv.gz"))
    with show_progress("Grouping the answers by person", quiet=options.quiet):
        scan = (Comparisons.scan_csv if is_text else Comparisons.scan_parquet)(path, items=items)
        scan.read()
    return scan
