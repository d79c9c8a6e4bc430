"""crowdmetric info: what is in a saved model."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from crowdmetric.commands.base import Command, print_model
from crowdmetric.persist import load_model

__all__ = ["INFO"]


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a folder written by crowdmetric fit")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _run(options: Namespace) -> None:
    print_model(options, load_model(options.model), options.model)


INFO = Command(
    name="info",
    help="say what a saved model learnt, from what and how well",
    example="crowdmetric info model --json",
    add_arguments=_arguments,
    run=_run,
)
