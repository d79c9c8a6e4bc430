"""Everything crowdmetric can complain about.

::

    CrowdmetricError
    ├── DataError (ValueError)            a table, an array or an option does not fit the model
    ├── NotIdentifiedError (ValueError)   the answers cannot determine what was asked for
    ├── SolverError (RuntimeError)        an optimization could not reach its tolerance
    ├── ModelFileError (ValueError)       a saved model is damaged, foreign or too new
    └── MissingExtraError (ImportError)   an optional library is not installed

    CrowdmetricWarning (UserWarning)
    ├── DroppedRowsWarning                rows were left out, counted by reason
    ├── TableWarning                      a table was read in a way that its owner should know of
    ├── NotIdentifiedWarning              part of the answer rests on a convention, not on data
    └── ConvergenceWarning                the best point found is returned, short of its tolerance

Every message names the value, what was expected and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = [
    "ConvergenceWarning",
    "CrowdmetricError",
    "CrowdmetricWarning",
    "DataError",
    "DroppedRowsWarning",
    "MissingExtraError",
    "ModelFileError",
    "NotIdentifiedError",
    "NotIdentifiedWarning",
    "SolverError",
    "TableWarning",
    "missing_extra",
    "option",
    "printable",
    "speaking_of_options",
]


class CrowdmetricError(Exception):
    """Base class of every error raised on purpose by crowdmetric.

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.errors import CrowdmetricError
    >>> try:
    ...     PopulationMetric([[0.0], [1.0]]).fit([[0, 7]], [1])
    ... except CrowdmetricError as error:
    ...     print(error)
    1 comparisons name item 7, but there are 2 items (0…1); drop them with Comparisons.from_arrays(..., n_items=2)
    """


class DataError(CrowdmetricError, ValueError):
    """A table, an array or an option does not fit the model."""


class NotIdentifiedError(CrowdmetricError, ValueError):
    """The answers cannot determine what was asked for, whatever the algorithm."""


class SolverError(CrowdmetricError, RuntimeError):
    """An optimization could not reach its tolerance."""


class ModelFileError(CrowdmetricError, ValueError):
    """A saved model is damaged, not ours, or written by a newer version."""


class MissingExtraError(CrowdmetricError, ImportError):
    """An optional library is needed and not installed."""


class CrowdmetricWarning(UserWarning):
    """Base class of every warning given by crowdmetric."""


class DroppedRowsWarning(CrowdmetricWarning):
    """Rows of a table were left out; the message counts them by reason."""


class TableWarning(CrowdmetricWarning):
    """A table was read in a way that its owner should know of: another encoding or coding, a column left out."""


class NotIdentifiedWarning(CrowdmetricWarning):
    """Part of the answer rests on a convention (least norm, a bound), not on data."""


class ConvergenceWarning(CrowdmetricWarning):
    """The best point found is returned, but it is short of its tolerance."""


def missing_extra(library: str, extra: str, purpose: str) -> MissingExtraError:
    """Return the error for an absent optional `library`, with the command that installs it."""
    return MissingExtraError(
        f"{purpose} needs {library}, which is not installed; install it with pip install 'crowdmetric[{extra}]'"
    )


# ------------------------------------------------------------------------------------- how messages are worded

_of_commands: ContextVar[bool] = ContextVar("_of_commands", default=False)


@contextmanager
def speaking_of_options() -> Iterator[None]:
    """Let hints name options of the command line, not arguments of functions, while the body runs."""
    token = _of_commands.set(True)
    try:
        yield
    finally:
        _of_commands.reset(token)


def option(argument: str, flag: str) -> str:
    """Return what a hint should name: an argument of a function, or a flag where a command is running."""
    return flag if _of_commands.get() else argument


def printable(message: object) -> str:
    """Return a message as one line without control characters: names of files may hold escape sequences."""
    line = " ".join(str(message).split())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
