"""From subspace metrics to one metric: the public names of ``bounded/stitching.py``."""

from crowdmetric.bounded.stitching import Stitched, stitch, stitch_details, stitch_prefixes

__all__ = ["Stitched", "stitch", "stitch_details", "stitch_prefixes"]
