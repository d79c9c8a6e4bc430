"""What a command is, and what commands share."""

from __future__ import annotations

import gc
import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # loading it takes a second, which `crowdmetric --help` would wait for
    from crowdmetric.persist import SavedModel

__all__ = ["Command", "UsageError", "add_time_limit", "note", "print_model"]


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes
    ----------
    name : str
    module : str
        The file in this folder that has its ``add_arguments(parser)`` and ``run(options)``. The latter prints data on
        standard output, and raises a CrowdmetricError or a UsageError.
    help : str
        One line, for the list of commands and the top of its own help.
    example : str
        A session that works, shown at the end of its help.
    """

    name: str
    module: str
    help: str
    example: str

    def load(self) -> Any:
        """Return the module of the command, which is imported now.

        Libraries make a hundred thousand objects that stay. To look for garbage among them, while they are loaded and
        ever after, would take a tenth of the time of a short command.
        """
        name = f"crowdmetric.commands.{self.module}"
        if name not in sys.modules:
            gc.disable()
            try:
                import_module(name)
            finally:
                gc.freeze()
                gc.enable()
        return sys.modules[name]


class UsageError(Exception):
    """Options that contradict each other; ends as a usage message and exit code 2."""


def add_time_limit(parser: ArgumentParser) -> None:
    """Add --time-limit, for commands that predict hidden answers."""
    parser.add_argument(
        "--time-limit",
        type=_seconds,
        metavar="SECONDS",
        help="start no further fit of the evaluation after this many seconds, and say what was left out",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise ArgumentTypeError(f"{text} is not a positive number of seconds; give one such as 60")
    return seconds


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
