"""Save first, judge then: whatever happens after a fit, the fit is on disk.

A fit may take hours, and what follows it (how well hidden answers are predicted, a page, a table) can fail for reasons
that have nothing to do with it. So every fit is saved as soon as it is done, in another folder if its own cannot be
written any more, and what follows adds to it.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

from crowdmetric.base import CrowdMetric
from crowdmetric.commands.command import note
from crowdmetric.errors import CrowdmetricError, ModelFileError, printable
from crowdmetric.persist import SavedModel, save_model

__all__ = ["judged", "saved_and_safe"]

Found = TypeVar("Found")


@contextmanager
def saved_and_safe(options: Namespace, estimator: CrowdMetric, **catalogue: Any) -> Iterator[SavedModel]:
    """Save a fit as `options.out`, and yield it; if what follows fails, say that the model is there.

    Where the folder cannot be written any more (another process made one of that name, the disk is full), the model is
    saved beside it, or among temporary files. `options.out` then names that folder, and the command fails at its end.
    """
    try:
        model, lost = save_model(options.out, estimator, overwrite=options.overwrite, **catalogue), None
    except ModelFileError as error:
        model, lost = _save_elsewhere(options, estimator, error, **catalogue), error
    try:
        yield model
    except BrokenPipeError:
        raise
    except BaseException:
        print(f"crowdmetric: the model is saved in {printable(options.out)}; what follows failed", file=sys.stderr)
        raise
    if lost is not None:
        raise ModelFileError(f"{lost}; the model is saved in {options.out} instead") from lost


def judged(options: Namespace, what: str, judge: Callable[[], Found]) -> Found | None:
    """Return what `judge` finds about a fit; if it cannot, say so and return None."""
    try:
        return judge()
    except CrowdmetricError as error:
        note(options, f"{what} is left out: {printable(error)}")
        return None


def _save_elsewhere(options: Namespace, estimator: CrowdMetric, error: ModelFileError, **catalogue: Any) -> SavedModel:
    place = Path(options.out).absolute()
    beside = next(name for name in (place.with_name(f"{place.name}-{n}") for n in count(2)) if not name.exists())
    for other in (beside, None):
        try:
            there = Path(mkdtemp(prefix="crowdmetric-")) / place.name if other is None else other
            model = save_model(there, estimator, **catalogue)
        except (ModelFileError, OSError):
            continue
        options.out = str(there)
        return model
    raise error
