"""Which subspace an item lies in, and which comparisons stay inside one.

::

    assign.py       what a set of subspaces is; comparisons → subspaces
    given.py        subspaces named as labels or bases
    discover.py     subspaces found among the items
    neighbors.py   … a partition of a neighbor graph to start from
    flats.py        … k-subspaces, with a likelihood that says how many and of which dimension
"""

from crowdmetric.subspaces.assign import Subspaces, assign_pairs
from crowdmetric.subspaces.discover import Discovery, discover_subspaces
from crowdmetric.subspaces.given import given_subspaces

__all__ = ["Discovery", "Subspaces", "assign_pairs", "discover_subspaces", "given_subspaces"]
