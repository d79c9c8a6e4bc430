"""Subspaces of items, given or discovered: the public names of ``bounded/given.py`` and ``bounded/discover.py``."""

from crowdmetric.bounded.discover import Discovery, discover_subspaces
from crowdmetric.bounded.given import Subspaces, assign_pairs, given_subspaces

__all__ = ["Discovery", "Subspaces", "assign_pairs", "discover_subspaces", "given_subspaces"]
