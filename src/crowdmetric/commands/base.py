"""What a command is, and what commands share."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

from crowdmetric.persist import SavedModel

__all__ = ["Command", "UsageError", "note", "print_model"]


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes
    ----------
    name : str
    help : str
        One line, for the list of commands and the top of its own help.
    example : str
        A session that works, shown at the end of its help.
    add_arguments : function of an ArgumentParser
    run : function of the parsed options
        Prints data on standard output; raises a CrowdmetricError or a UsageError.
    """

    name: str
    help: str
    example: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], None]


class UsageError(Exception):
    """Options that contradict each other; ends as a usage message and exit code 2."""


def note(options: Namespace, text: str) -> None:
    """Write a line for people on standard error, unless they asked for quiet."""
    if not options.quiet:
        print(f"crowdmetric: {text}", file=sys.stderr)


def print_model(options: Namespace, model: SavedModel, place: str) -> None:
    """Print a model as one JSON object, or as a few readable lines."""
    if options.json:
        print(json.dumps({"model": place, **model.to_dict()}, ensure_ascii=False, allow_nan=False))
    else:
        print(model.summary())
