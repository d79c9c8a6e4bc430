"""How alike the tastes for two items are, by the squared distance q between them.

Every shape is 1 at q = 0 and falls with q. They differ in how smooth utilities are: infinitely ('squared-exponential'),
twice ('matern52') or once differentiable ('matern32').
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SHAPES", "matern32", "matern52", "squared_exponential"]

Array = NDArray[Any]


def squared_exponential(q: Array) -> tuple[Array, Array]:
    """Return ``exp(−q/2)`` and its derivative in q."""
    value = np.exp(-0.5 * q)
    return value, -0.5 * value


def matern52(q: Array) -> tuple[Array, Array]:
    """Return ``(1 + r + r²/3) exp(−r)``, r = √(5q), and its derivative ``−5/6 (1 + r) exp(−r)`` in q."""
    r = np.sqrt(5.0 * q)
    fall = np.exp(-r)
    return (1.0 + r + r * r / 3.0) * fall, -5.0 / 6.0 * (1.0 + r) * fall


def matern32(q: Array) -> tuple[Array, Array]:
    """Return ``(1 + r) exp(−r)``, r = √(3q), and its derivative ``−3/2 exp(−r)`` in q."""
    r = np.sqrt(3.0 * q)
    fall = np.exp(-r)
    return (1.0 + r) * fall, -1.5 * fall


# A new shape is one line here; the property tests go through the list.
SHAPES: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "matern52": matern52,
    "matern32": matern32,
    "squared-exponential": squared_exponential,
}
