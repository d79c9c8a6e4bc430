"""Test inputs that lie beside the project: found here, and skipped with a reason where they are absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Nothing depends on the clock: no example has a deadline, none is too slow, and every run tries the same ones.
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
settings.load_profile("tests")

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


# Files whose few tests take longest, the longest first: started last, they keep one core busy and leave the other idle.
LONGEST = (
    "test_readme.py",
    "test_console.py",
    "test_optimal_design.py",
    "test_interruption.py",
    "test_item_effects.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the files that take longest; all others stay in their order."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
