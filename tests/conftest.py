"""Test inputs that lie beside the project: found here, and skipped with a reason where they are absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SHARED = Path(__file__).parents[2] / "shared"


def _beside(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"no {path.relative_to(SHARED.parent)} beside the project")
    return path


@pytest.fixture(scope="session")
def golden() -> Callable[[str], dict[str, Any]]:
    """A function that loads a certified case by name: ``golden("quant_01")["objective"]``."""
    folder = _beside(SHARED / "golden")

    def load(name: str) -> dict[str, Any]:
        with np.load(_beside(folder / f"{name}.npz")) as case:
            return {key: case[key][()] for key in case}

    return load
