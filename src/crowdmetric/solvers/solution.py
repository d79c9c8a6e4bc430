"""What a solver returns: a value, how good it is, and a status in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Solution"]

Array = NDArray[np.float64]


# --8<-- [start:solution]
@dataclass(frozen=True)
class Solution:
    """How a fit ended.

    Attributes
    ----------
    status
        One sentence: what was reached, or what was not and what to try.
    converged
        Whether the tolerance was met.
    objective
        Mean loss over the answers at the point returned.
    gap
        A certified bound on how far `objective` is above the optimum (never negative); NaN if the solver
        has no certificate.
    iterations, seconds
        Number of iterations, and time.
    """

    status: str
    converged: bool
    objective: float
    gap: float
    iterations: int
    seconds: float

    def summary(self) -> str:
        """Return the status with objective, gap, iterations and time."""
        gap = "no certificate" if np.isnan(self.gap) else f"certified within {self.gap:.1e} of the optimum"
        return (
            f"{self.status} Mean loss {self.objective:.6f}, {gap}; {self.iterations} iterations, {self.seconds:.2f} s."
        )


# --8<-- [end:solution]
