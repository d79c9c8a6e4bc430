"""crowdmetric: learn how a crowd sees similarity from a handful of "this one or that one?" answers per person."""

from crowdmetric._version import __version__
from crowdmetric.comparisons import Comparisons
from crowdmetric.estimators import IdealPointMetric, MatchedMetric, PopulationMetric, StitchedMetric
from crowdmetric.judgements import Judgements

__all__ = [
    "Comparisons",
    "IdealPointMetric",
    "Judgements",
    "MatchedMetric",
    "PopulationMetric",
    "StitchedMetric",
    "__version__",
]
