"""The paper's Algorithms 1 to 5: people whose ideal points lie in a ball, or are projected out of exact answers.

In go items and validated answers (`inputs`), laid out in blocks of people (`users.blocks`). Out come a metric,
everybody's pseudo-ideal point, and a certified bound on the distance from the optimum.

The estimators::

    ideal_point.py            `IdealPointMetric`: one metric in all of R^d (Algorithms 3, 4 and 5)
    stitched.py               `StitchedMetric`: one per subspace, stitched into one (Algorithms 1 and 2)
    radii.py                  bounds on metric and people, chosen from the data where they are not given

The bounded program (Algorithm 5)::

    barrier.py                primal–dual interior point, many problems at once, with a certified gap
    elimination.py            the people's side of its step; the metric's side is `solvers/cone.py`
    line_subspaces.py         subspaces that are lines; `solve_bounded` chooses between this and `barrier`
    placing.py                people under a known metric
    placing_kernels.py        people who are one number each, compiled
    from_disk.py              answers on disk: by gradients alone, to the same certificate

Subspaces::

    given.py                  what a set of subspaces is; labels or bases; which comparisons stay inside one
    discover.py               subspaces found among the items
    flats.py                  k-subspaces, with a likelihood that says how many and of which dimension

Stitching (Algorithms 1 and 2, second stage)::

    stitching.py              subspace metrics → one metric: by least squares, weighted, or Huber
    subspace_map.py           the operator Π from a metric to its restrictions, applied and never stored
    huber.py                  Huber regression with its scale, by an interior point
"""

from crowdmetric.bounded.ideal_point import IdealPointMetric
from crowdmetric.bounded.stitched import StitchedMetric

__all__ = ["IdealPointMetric", "StitchedMetric"]
