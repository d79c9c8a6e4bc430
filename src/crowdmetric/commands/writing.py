"""Tables that commands write: to a file or to standard output, and safe for spreadsheets where that is asked."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from crowdmetric.tables import Columns, safe_columns, write_columns, write_csv

__all__ = ["add_safety", "add_writing", "write_table"]


def add_writing(parser: ArgumentParser) -> None:
    """Add where a table goes, and how."""
    parser.add_argument("--out", metavar="FILE", help="CSV or Parquet to write (default: CSV on standard output)")
    add_safety(parser)


def add_safety(parser: ArgumentParser) -> None:
    """Add the option that makes text harmless to spreadsheets."""
    parser.add_argument(
        "--spreadsheet-safe",
        action="store_true",
        help="put a quote in front of text that a spreadsheet would run as a formula (= + - @)",
    )


def write_table(options: Namespace, columns: Columns) -> None:
    """Write a table to the file that the options name, or as CSV to standard output."""
    table = safe_columns(columns) if options.spreadsheet_safe else columns
    if options.out is None:
        write_csv(table, sys.stdout)
    else:
        write_columns(table, options.out)
