"""The command line: a thin layer over the library.

Data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 an error told in one
line, 2 wrong usage, 130 interrupted, 141 the reader of a pipe went away.
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
from crowdmetric.errors import CrowdmetricError, CrowdmetricWarning

__all__ = ["main"]

OK, FAILED, INTERRUPTED, PIPE_CLOSED = 0, 1, 130, 141
DESCRIPTION = "Learn how a crowd sees similarity from a handful of 'this one or that one?' answers per person."
QUIET = "no progress and no notes; warnings and errors remain"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv : sequence of str
        The arguments after the program's name; those of the process by default.
    """
    parser, parsers = build_parser()
    options = parser.parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", CrowdmetricWarning)
            warnings.showwarning = _show_warning
            options.command.run(options)
            sys.stdout.flush()  # a closed pipe is noticed here, not at exit
    except UsageError as error:
        parsers[options.command.name].error(str(error))
    except BrokenPipeError:
        _close_stdout()
        return PIPE_CLOSED
    except (CrowdmetricError, OSError) as error:
        return _fail(f"error: {_one_line(error)}", FAILED)
    except MemoryError as error:
        return _fail(f"error: not enough memory ({_one_line(error)}); use fewer rows", FAILED)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    return OK


def build_parser() -> tuple[ArgumentParser, dict[str, ArgumentParser]]:
    """Return the parser of the program and those of its commands, by name."""
    parser = ArgumentParser(
        prog="crowdmetric",
        description=DESCRIPTION,
        epilog=_example("\n".join(command.example for command in COMMANDS)),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"crowdmetric {__version__}")
    parser.add_argument("--quiet", action="store_true", help=QUIET)
    group = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    return parser, {command.name: _add_command(group, command) for command in COMMANDS}


def _add_command(group: Any, command: Command) -> ArgumentParser:
    parser: ArgumentParser = group.add_parser(
        command.name,
        help=command.help,
        description=f"{command.help[0].upper()}{command.help[1:]}.",
        epilog=_example(command.example),
        formatter_class=RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    # The default is left to the program's own --quiet, so that it works before and after the command.
    parser.add_argument("--quiet", action="store_true", default=SUPPRESS, help=QUIET)
    parser.set_defaults(command=command)
    return parser


def _example(session: str) -> str:
    return "example:\n" + "\n".join(f"  {line}" for line in session.splitlines())


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"crowdmetric: warning: {_one_line(message)}", file=sys.stderr)


def _fail(text: str, code: int) -> int:
    print(f"crowdmetric: {text}", file=sys.stderr)
    return code


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


def _close_stdout() -> None:
    """Point standard output nowhere, so that Python does not complain about the closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
