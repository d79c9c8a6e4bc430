"""The state of a long fit in a file, from which the fit resumes as if it had not been interrupted.

The file is an ``.npz`` archive, replaced atomically, so it is always complete. For every stage of a fit it holds the
state of the iteration after the last accepted step. It also holds a fingerprint of the data and the options, so that no
other fit resumes from it.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.folders import new_file
from crowdmetric.solvers.scoring import ScoringState

__all__ = ["Checkpoint", "fingerprint"]

Array = NDArray[Any]


def fingerprint(values: Iterable[Any]) -> str:
    """Return a short digest of arrays, and of other values by their ``repr``."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(np.ascontiguousarray(value).data if isinstance(value, np.ndarray) else repr(value).encode())
        digest.update(b"|")
    return digest.hexdigest()[:32]


class Checkpoint:
    """The stages of one fit, in the file at `path`."""

    def __init__(self, path: str | os.PathLike[str], owner: str) -> None:
        self.path = Path(path)
        if not self.path.absolute().parent.is_dir():
            raise DataError(f"there is no folder {self.path.parent} to write {self.path.name} in; create it first")
        self._owner = owner
        self._arrays = self._read() if self.path.exists() else {}

    def _read(self) -> dict[str, Array]:
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                arrays = dict(archive)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise DataError(
                f"{self.path} is not a checkpoint, or is damaged; remove it or choose another name"
            ) from error
        if str(arrays.pop("owner", "")) != self._owner:
            raise DataError(
                f"the checkpoint {self.path} belongs to a fit to other answers or with other options; remove it to "
                "begin again, or choose another name"
            )
        return arrays

    def state(self, stage: str) -> ScoringState | None:
        """Return the last state of a stage; None if it had not begun."""
        if f"{stage}.point" not in self._arrays:
            return None
        numbers = self._arrays.get(f"{stage}.state")
        if numbers is None or numbers.shape != (4,) or not np.all(np.isfinite(self._arrays[f"{stage}.point"])):
            raise self._incomplete(f"the state of {stage}")
        damping, growth, trust, iteration = numbers.tolist()
        secants = self._arrays.get(f"{stage}.secants")
        return ScoringState(self._arrays[f"{stage}.point"], damping, growth, trust, int(iteration), secants)

    def value(self, name: str) -> Array:
        """Return an array saved with a stage."""
        if name not in self._arrays:
            raise self._incomplete(name)
        return self._arrays[name]

    def _incomplete(self, what: str) -> DataError:
        return DataError(f"the checkpoint {self.path} lacks {what}; remove it to begin again, or choose another name")

    def save(self, stage: str, state: ScoringState, **values: Any) -> None:
        """Save the state of a stage, and arrays that are needed to resume."""
        numbers = np.array([state.damping, state.growth, state.trust, state.iteration], dtype=np.float64)
        self._arrays |= {f"{stage}.point": state.point, f"{stage}.state": numbers}
        if state.secants is not None:
            self._arrays[f"{stage}.secants"] = state.secants
        self._arrays |= {name: np.asarray(value) for name, value in values.items()}
        arrays: Any = self._arrays | {"owner": np.array(self._owner)}
        try:
            with new_file(self.path) as file:
                np.savez(file, **arrays)
        except DataError as error:
            raise DataError(f"the checkpoint {error}") from error

    def saver(self, stage: str) -> Callable[[ScoringState, float], None]:
        """Return a function for `after_step` that saves every step of a stage."""
        return lambda state, value: self.save(stage, state)
