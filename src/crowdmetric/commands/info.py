"""crowdmetric info: what is in a saved model."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from crowdmetric.commands.command import print_model
from crowdmetric.persist import load_model

__all__ = ["add_arguments", "run"]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("model", metavar="MODEL", help="a folder written by crowdmetric fit")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: Namespace) -> None:
    """Run the command."""
    print_model(options, load_model(options.model), options.model)
