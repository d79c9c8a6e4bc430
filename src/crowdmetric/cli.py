"""The command line: a thin layer over the library.

Data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 an error reported in one line, 2
wrong usage, 130 interrupted, 141 the reader of a pipe went away.

A command's modules are imported when it is called: ``crowdmetric --help`` needs none of them.
"""

from __future__ import annotations

import os
import sys
import warnings
from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import Any

from crowdmetric._version import __version__
from crowdmetric.commands import COMMANDS, Command, UsageError
from crowdmetric.errors import CrowdmetricError, CrowdmetricWarning, printable, speaking_of_options
from crowdmetric.interruption import Interruption, ending_at_once

__all__ = ["main"]

OK, FAILED, INTERRUPTED, PIPE_CLOSED = 0, 1, 130, 141
DESCRIPTION = "Learn how a crowd sees similarity from a handful of 'this one or that one?' answers per person."
QUIET = "no progress and no notes; warnings and errors remain"
# What a person types first: real choices that come with the library. Every command's own help has its example.
BEGINNING = """to begin, with real choices:
  crowdmetric import travel --out travel
  crowdmetric fit travel/items.csv travel/comparisons.csv --out model

each command: crowdmetric COMMAND --help"""
STOPPED = "interrupted"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv : sequence of str
        The arguments after the program's name; those of the process by default. None at all: help is printed.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    interruption = Interruption()
    try:
        with ending_at_once(f"crowdmetric: {STOPPED}", INTERRUPTED):
            parser, parsers = build_parser()
            if not arguments:
                parser.print_help()
                return OK
            options = parser.parse_args(arguments)
        with interruption.watched(), speaking_of_options(), warnings.catch_warnings():
            warnings.simplefilter("always", CrowdmetricWarning)
            warnings.showwarning = _show_warning
            options.command.load().run(options)
            sys.stdout.flush()  # detect a closed pipe here, not at exit
    except UsageError as error:
        parsers[options.command.name].error(printable(error))
    except BrokenPipeError:
        _close_stdout()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return _fail(STOPPED, INTERRUPTED)
    except Exception as error:
        if interruption.happened:  # a library turned Ctrl-C into an error of its own
            return _fail(STOPPED, INTERRUPTED)
        return _fail(_sentence(error), FAILED)
    return OK


def _sentence(error: Exception) -> str:
    """Return what went wrong in one line; unexpected errors are raised again."""
    if isinstance(error, OSError):
        return f"error: {_of_the_system(error)}"
    if isinstance(error, CrowdmetricError):
        return f"error: {printable(error)}"
    if isinstance(error, MemoryError):
        return f"error: not enough memory ({printable(error)}); use fewer rows"
    raise error


def _of_the_system(error: OSError) -> str:
    """Return what the operating system refused, and what became of the files."""
    place = "" if error.filename is None else f" ({printable(error.filename)})"
    reason = printable(error.strerror or error)
    return f"{reason}{place}; files that were there before are as they were, and nothing half-written was kept"


class _CommandParser(ArgumentParser):
    """The parser of a command, which imports the command when arguments are given to it."""

    command: Command | None = None

    def parse_known_args(self, *arguments: Any, **options: Any) -> Any:
        if self.command is not None:
            command, self.command = self.command, None
            command.load().add_arguments(self)
            # No default here: the option of the main parser has it, so --quiet works before and after the command.
            self.add_argument("--quiet", action="store_true", default=SUPPRESS, help=QUIET)
        return super().parse_known_args(*arguments, **options)


def build_parser() -> tuple[ArgumentParser, dict[str, ArgumentParser]]:
    """Return the parser of the program and those of its commands, by name."""
    parser = ArgumentParser(
        prog="crowdmetric",
        description=DESCRIPTION,
        epilog=BEGINNING,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"crowdmetric {__version__}")
    parser.add_argument("--quiet", action="store_true", help=QUIET)
    group = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_CommandParser)
    return parser, {command.name: _add_command(group, command) for command in COMMANDS}


def _add_command(group: Any, command: Command) -> ArgumentParser:
    parser: _CommandParser = group.add_parser(
        command.name,
        help=command.help,
        description=f"{command.help[0].upper()}{command.help[1:]}.",
        epilog=_example(command.example),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.command = command
    parser.set_defaults(command=command)
    return parser


def _example(session: str) -> str:
    return "example:\n" + "\n".join(f"  {line}" for line in session.splitlines())


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"crowdmetric: warning: {printable(message)}", file=sys.stderr)


def _fail(text: str, code: int) -> int:
    print(f"crowdmetric: {text}", file=sys.stderr)
    return code


def _close_stdout() -> None:
    """Point standard output nowhere, so Python does not complain about the closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
