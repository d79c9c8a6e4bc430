"""The positions of the natural parameters of a population in the one vector that solvers see.

Every family of populations (`crowdmetric.users.population_sums.STRUCTURES`) writes its parameters in the same order::

    (svec M,  μ,  spread of people,  utilities b of the items)
      p       d   1 or p             N or 0                       p = d(d+1)/2

The spread is ``log s`` for isotropic people and ``svec Σ`` for free ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from crowdmetric.symmetric import degrees_of_freedom

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    """The positions of natural parameters: d features, free or isotropic people, and items with effects."""

    d: int
    free: bool
    n_items: int = 0

    @property
    def p(self) -> int:
        """The number of parameters of a symmetric matrix."""
        return degrees_of_freedom(self.d)

    @property
    def metric(self) -> slice:
        """Positions of svec M."""
        return slice(0, self.p)

    @property
    def mean(self) -> slice:
        """Positions of μ."""
        return slice(self.p, self.p + self.d)

    @property
    def spread(self) -> slice:
        """Positions of log s or svec Σ."""
        return slice(self.p + self.d, self.own)

    @property
    def items(self) -> slice:
        """Positions of the utilities of the items."""
        return slice(self.own, self.size)

    @property
    def own(self) -> int:
        """The number of parameters without those of the items."""
        return self.p + self.d + (self.p if self.free else 1)

    @property
    def size(self) -> int:
        """The number of all parameters."""
        return self.own + self.n_items
